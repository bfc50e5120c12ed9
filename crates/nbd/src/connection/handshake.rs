//! The options by which a client chooses an export.

use super::{Connection, Event, State, Tls};
use crate::error::Violation;
use crate::export::{Export, NAME_BYTES_MAX};
use crate::reply::{ALLOCATION_CONTEXT_ID, MEMORY_CONTEXT_ID};
use crate::request::Contexts;
use crate::wire::{OPTION, OPTION_HEADER_BYTES, OPTION_REPLY, Put, Reader, handshake, info, option, reply};

/// The most bytes of an option that is parsed, enough for a few names of the greatest length. Longer options are
/// skipped.
const OPTION_BYTES_MAX: u32 = 4 * NAME_BYTES_MAX as u32;

/// The most bytes of an option that is skipped; a longer one is a violation of the protocol.
const SKIPPED_BYTES_MAX: u32 = 1 << 20;

/// The metadata context that every client knows: which parts of an export are holes, and which are zero.
const BASE_ALLOCATION: &str = "base:allocation";

/// The metadata context for the parts of an export that are in the server's memory, so that reading them does not
/// wait for the disk.
const FREEBLOCK_MEMORY: &str = "freeblock:memory";

/// The final answer to an option.
enum Answer {
    /// Success, after the replies that have been written.
    Done,
    /// An error with a line for people. Replies that were written before it are removed.
    Refused(u32, &'static str),
    /// An export cannot be chosen at present, for this reason.
    Closed(String),
}

impl Connection {
    pub(super) fn client_flags(&mut self, reader: &mut Reader<'_>) -> Result<Option<()>, Violation> {
        let Some(flags) = reader.u32() else { return Ok(None) };
        let offered = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        if flags & !u32::from(offered) != 0 {
            return Err(Violation::ClientFlags { flags });
        }
        self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        self.state = State::Options;
        Ok(Some(()))
    }

    /// Parses an option. Returns `None` if the option is incomplete.
    pub(super) fn option(&mut self, reader: &mut Reader<'_>) -> Result<Option<()>, Violation> {
        if reader.0.len() < OPTION_HEADER_BYTES {
            return Ok(None);
        }
        let header = (reader.u64(), reader.u32(), reader.u32());
        let (Some(magic), Some(option), Some(length)) = header else { return Ok(None) };
        if magic != OPTION {
            return Err(Violation::Magic { what: "an option", found: magic, expected: OPTION });
        }
        // EXPORT_NAME has no error reply, so one with too long a name cannot be skipped.
        let most = if option == option::EXPORT_NAME { OPTION_BYTES_MAX } else { SKIPPED_BYTES_MAX };
        if length > most {
            return Err(Violation::LongOption { option, length, most });
        }
        if length <= OPTION_BYTES_MAX && reader.0.len() < length as usize {
            return Ok(None);
        }
        self.options += 1;
        if self.options > self.limits.options {
            return Err(Violation::TooManyOptions { most: self.limits.options });
        }
        if option == option::EXPORT_NAME {
            let name = reader.take(length as usize).unwrap_or_default();
            return self.export_name(name).map(Some);
        }
        let before = self.output.small().len();
        let answer = if length > OPTION_BYTES_MAX {
            self.skip = u64::from(length);
            Answer::Refused(reply::ERR_TOO_BIG, "more data than any option needs")
        } else {
            let data = reader.take(length as usize).unwrap_or_default();
            self.answer(option, Reader(data))
        };
        match answer {
            Answer::Done => self.option_reply(option, reply::ACK, &[]),
            Answer::Refused(error, message) => {
                self.output.open().truncate(before);
                self.option_reply(option, error, message.as_bytes());
            }
            Answer::Closed(why) => self.option_reply(option, reply::ERR_POLICY, why.as_bytes()),
        }
        Ok(Some(()))
    }

    fn answer(&mut self, option: u32, mut data: Reader<'_>) -> Answer {
        let secret = self.tls == Tls::Required && !self.encrypted;
        if secret && !matches!(option, option::ABORT | option::STARTTLS) {
            return Answer::Refused(reply::ERR_TLS_REQUIRED, "ask for TLS first");
        }
        let plain = matches!(option, option::LIST | option::STARTTLS | option::STRUCTURED_REPLY);
        if plain && !data.is_empty() {
            return Answer::Refused(reply::ERR_INVALID, "the option has no data");
        }
        match option {
            option::ABORT => {
                self.state = State::Ended;
                self.events.push_back(Event::Ended);
                Answer::Done
            }
            option::LIST => {
                for export in std::sync::Arc::clone(&self.exports).iter() {
                    let mut data = Vec::new();
                    put_string(&mut data, export.name());
                    data.extend_from_slice(export.description().as_bytes());
                    self.option_reply(option, reply::SERVER, &data);
                }
                Answer::Done
            }
            option::STARTTLS if self.encrypted => {
                Answer::Refused(reply::ERR_INVALID, "the connection has TLS already")
            }
            option::STARTTLS if self.tls == Tls::Off => {
                Answer::Refused(reply::ERR_POLICY, "the server has no certificate")
            }
            option::STARTTLS => {
                // Agreements that were made without encryption are void.
                self.structured = false;
                self.contexts_of = None;
                self.state = State::AwaitsTls;
                self.events.push_back(Event::StartTls);
                Answer::Done
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                Answer::Done
            }
            option::GO if self.closed.is_some() => Answer::Closed(self.closed.clone().unwrap_or_default()),
            option::INFO | option::GO => self.info(option, &mut data).unwrap_or(MALFORMED),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                if option == option::SET_META_CONTEXT {
                    self.contexts_of = None;
                }
                self.contexts(option, &mut data).unwrap_or(MALFORMED)
            }
            _ => Answer::Refused(reply::ERR_UNSUPPORTED, "the server does not know the option"),
        }
    }

    /// Answers INFO or GO. Returns `None` if the option's data are malformed.
    fn info(&mut self, option: u32, data: &mut Reader<'_>) -> Option<Answer> {
        let name = name(data.string()?)?;
        let count = data.u16()?;
        let asked: Vec<u16> = (0..count).map_while(|_| data.u16()).collect();
        if asked.len() != usize::from(count) || !data.is_empty() {
            return None;
        }
        let Some(at) = self.find(name) else {
            return Some(Answer::Refused(reply::ERR_UNKNOWN, "there is no export of this name"));
        };
        let exports = std::sync::Arc::clone(&self.exports);
        let export = exports.get(at)?;
        let structured = self.structured;
        let mut put = |kind: u16, fill: &dyn Fn(&mut Vec<u8>)| {
            let mut data = Vec::new();
            data.put_u16(kind);
            fill(&mut data);
            self.option_reply(option, reply::INFO, &data);
        };
        put(info::EXPORT, &|data| size_and_flags(data, export, structured));
        // A client that does not ask for the block sizes has to know the minimum, too.
        put(info::BLOCK_SIZE, &|data| {
            let blocks = export.block_sizes();
            [blocks.minimum, blocks.preferred, blocks.maximum]
                .into_iter()
                .for_each(|bytes| data.put_u32(bytes));
        });
        if asked.contains(&info::NAME) {
            put(info::NAME, &|data| data.extend_from_slice(export.name().as_bytes()));
        }
        if asked.contains(&info::DESCRIPTION) && !export.description().is_empty() {
            put(info::DESCRIPTION, &|data| data.extend_from_slice(export.description().as_bytes()));
        }
        if option == option::GO {
            self.open(at);
        }
        Some(Answer::Done)
    }

    /// Answers LIST_META_CONTEXT or SET_META_CONTEXT. Returns `None` if the option's data are malformed.
    fn contexts(&mut self, option: u32, data: &mut Reader<'_>) -> Option<Answer> {
        let set = option == option::SET_META_CONTEXT;
        if set && !self.structured {
            return Some(Answer::Refused(reply::ERR_INVALID, "ask for structured replies first"));
        }
        let name = name(data.string()?)?;
        let count = data.u32()?;
        let all = count == 0 && !set;
        let mut wanted = Contexts { allocation: all, memory: all };
        for _ in 0..count {
            let query = data.string()?;
            wanted.allocation |= query == BASE_ALLOCATION.as_bytes() || (query == b"base:" && !set);
            wanted.memory |= query == FREEBLOCK_MEMORY.as_bytes() || (query == b"freeblock:" && !set);
        }
        if !data.is_empty() {
            return None;
        }
        let Some(at) = self.find(name) else {
            return Some(Answer::Refused(reply::ERR_UNKNOWN, "there is no export of this name"));
        };
        let can = self.exports.get(at)?.abilities();
        let chosen = Contexts {
            allocation: wanted.allocation && can.block_status,
            memory: wanted.memory && can.memory_status,
        };
        let offers = [
            (chosen.allocation, ALLOCATION_CONTEXT_ID, BASE_ALLOCATION),
            (chosen.memory, MEMORY_CONTEXT_ID, FREEBLOCK_MEMORY),
        ];
        for (_, number, context) in offers.into_iter().filter(|(on, ..)| *on) {
            let mut data = Vec::new();
            data.put_u32(if set { number } else { 0 });
            data.extend_from_slice(context.as_bytes());
            self.option_reply(option, reply::META_CONTEXT, &data);
        }
        if set && chosen.count() > 0 {
            self.contexts_of = Some((at, chosen));
        }
        Some(Answer::Done)
    }

    /// Handles EXPORT_NAME, which has no reply but the open export; a refusal ends the connection.
    fn export_name(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let refused = |why| {
            let name = String::from_utf8_lossy(bytes.get(..256).unwrap_or(bytes)).into_owned();
            Violation::ExportName { name, why }
        };
        if self.tls == Tls::Required && !self.encrypted {
            return Err(refused("the client must ask for TLS first"));
        }
        let Some(at) = name(bytes).and_then(|name| self.find(name)) else {
            return Err(refused("there is none of this name"));
        };
        if self.closed.is_some() {
            return Err(refused("no client is accepted now"));
        }
        if let Some(export) = self.exports.get(at) {
            size_and_flags(self.output.small(), export, self.structured);
        }
        if !self.no_zeroes {
            self.output.small().extend_from_slice(&[0; 124]);
        }
        self.open(at);
        Ok(())
    }

    fn open(&mut self, at: usize) {
        self.state = State::Transmission(at);
        self.events.push_back(Event::Opened(at));
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.exports.iter().position(|export| export.name() == name)
    }

    fn option_reply(&mut self, option: u32, kind: u32, data: &[u8]) {
        let out = self.output.open();
        out.put_u64(OPTION_REPLY);
        out.put_u32(option);
        out.put_u32(kind);
        out.put_u32(data.len() as u32);
        out.extend_from_slice(data);
    }
}

const MALFORMED: Answer = Answer::Refused(reply::ERR_INVALID, "the data are not what the option needs");

fn name(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > NAME_BYTES_MAX { None } else { std::str::from_utf8(bytes).ok() }
}

fn put_string(data: &mut Vec<u8>, string: &str) {
    data.put_u32(string.len() as u32);
    data.extend_from_slice(string.as_bytes());
}

fn size_and_flags(data: &mut Vec<u8>, export: &Export, structured: bool) {
    data.put_u64(export.size());
    data.put_u16(export.flags(structured));
}
