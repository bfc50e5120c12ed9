//! Requests that have no room as a whole and are split into pieces.

use nbd::{
    Abilities, BlockSizes, Command, Connection, Errno, Event, Export, Extent, Limits, Reply, Request, Tls,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECTOR: usize = 512;
const EXPORT: usize = 1 << 20;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZEROES: u16 = 6;
const STATUS: u16 = 7;
const DF: u16 = 1 << 2;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
struct Asked {
    kind: u16,
    flags: u16,
    offset: usize,
    length: usize,
}

fn asked() -> impl Strategy<Value = Asked> {
    let kind = prop_oneof![
        4 => Just((READ, 0)),
        4 => Just((WRITE, 0)),
        1 => Just((READ, DF)),
        1 => Just((FLUSH, 0)),
        1 => Just((TRIM, 0)),
        1 => Just((CACHE, 0)),
        1 => Just((ZEROES, 0)),
        1 => Just((STATUS, 0)),
    ];
    let sectors = prop_oneof![1..20usize, 1..800usize];
    (kind, 0..EXPORT / SECTOR, sectors).prop_map(|((kind, flags), offset, sectors)| {
        let offset = offset.min(EXPORT / SECTOR - sectors) * SECTOR;
        let (offset, length) = if kind == FLUSH { (0, 0) } else { (offset, sectors * SECTOR) };
        Asked { kind, flags, offset, length }
    })
}

/// Returns the byte at offset `at` of the export.
fn lies(at: usize) -> u8 {
    (at ^ at >> 9 ^ at >> 15) as u8
}

/// Returns the byte that request `cookie` writes at offset `at`.
fn writes(cookie: u64, at: usize) -> u8 {
    match at % SECTOR {
        0..8 => cookie.to_be_bytes()[at % SECTOR],
        _ => lies(at).wrapping_add(cookie as u8),
    }
}

fn open(structured: bool, limits: Limits) -> Connection {
    let all = Abilities {
        write: true,
        flush: true,
        fua: true,
        trim: true,
        write_zeroes: true,
        cache: true,
        block_status: true,
        memory_status: false,
        ..Abilities::default()
    };
    let disk =
        Export::new("", EXPORT as u64).unwrap().with(all).blocks(BlockSizes::sectors(SECTOR as u32)).unwrap();
    let mut connection = Connection::new([disk].into(), Tls::Off, limits);
    connection.receive(&[0, 0, 0, 3]).unwrap();
    if structured {
        connection.receive(b"IHAVEOPT\0\0\0\x08\0\0\0\0").unwrap();
        let context = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
        connection.receive(&[&b"IHAVEOPT\0\0\0\x0a\0\0\0\x1b"[..], context].concat()).unwrap();
    }
    connection.receive(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    assert_eq!(connection.poll(), Some(Event::Opened(0)));
    while !connection.output().is_empty() {
        let greeting = connection.output().len();
        connection.sent(greeting).unwrap();
    }
    connection
}

fn message(cookie: u64, asked: &Asked) -> Vec<u8> {
    let Asked { kind, flags, offset, length } = *asked;
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((offset as u64).to_be_bytes());
    bytes.extend((length as u32).to_be_bytes());
    if kind == WRITE {
        bytes.extend((offset..offset + length).map(|at| writes(cookie, at)));
    }
    bytes
}

/// The answers to a request, from the client's view.
#[derive(Clone, Debug, Default)]
struct SeenAnswer {
    /// The number of bytes received.
    came: usize,
    right: usize,
    extents: usize,
    /// The error of the final reply, 0 for none; `None` before it.
    ended: Option<u32>,
}

/// Decodes the answers in `bytes`. The last one may be incomplete.
fn seen_answers(requests: &[Asked], mut bytes: &[u8]) -> BTreeMap<u64, SeenAnswer> {
    fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
        let (some, rest) = bytes.split_first_chunk().unwrap();
        *bytes = rest;
        *some
    }
    let mut all: BTreeMap<u64, SeenAnswer> = BTreeMap::new();
    while !bytes.is_empty() {
        let magic = u32::from_be_bytes(take(&mut bytes));
        if magic == 0x6744_6698 {
            let (errno, cookie) =
                (u32::from_be_bytes(take(&mut bytes)), u64::from_be_bytes(take(&mut bytes)));
            let answer = all.entry(cookie).or_default();
            assert_eq!(answer.ended.replace(errno), None, "request {cookie} is answered twice");
            let asked = requests[cookie as usize];
            if asked.kind == READ && errno == 0 {
                let (data, rest) = bytes.split_at(bytes.len().min(asked.length));
                let right = |(at, byte): &(usize, &u8)| **byte == lies(asked.offset + at);
                (answer.came, answer.right) = (data.len(), data.iter().enumerate().filter(right).count());
                bytes = rest;
            }
            continue;
        }
        assert_eq!(magic, 0x668e_33ef);
        let [_, done] = take(&mut bytes);
        let kind = u16::from_be_bytes(take(&mut bytes));
        let (cookie, length) = (u64::from_be_bytes(take(&mut bytes)), u32::from_be_bytes(take(&mut bytes)));
        let (mut data, rest) = bytes.split_at(length as usize);
        let answer = all.entry(cookie).or_default();
        assert_eq!(answer.ended, None, "request {cookie} goes on after its end");
        let errno = match kind {
            1 => {
                let offset = u64::from_be_bytes(take(&mut data)) as usize;
                answer.came += data.len();
                answer.right +=
                    data.iter().enumerate().filter(|(at, byte)| **byte == lies(offset + at)).count();
                assert!(requests[cookie as usize].flags != DF || done == 1, "request {cookie} is in parts");
                0
            }
            5 => {
                answer.extents = data.len() / 8;
                0
            }
            _ => u32::from_be_bytes(take(&mut data)),
        };
        if done == 1 {
            answer.ended = Some(errno);
        }
        bytes = rest;
    }
    all
}

/// A disk with one bad sector, and the writes to it.
#[derive(Debug)]
struct Disk {
    bad: usize,
    /// How often each sector of each request was written.
    written: BTreeMap<(u64, usize), u32>,
}

impl Disk {
    fn carry_out(&mut self, connection: &mut Connection, request: &Request) {
        let (offset, length) = (request.offset as usize, request.length as usize);
        let works = !matches!(request.command, Command::Flush | Command::Trim | Command::BlockStatus { .. });
        let result = if works && (offset..offset + length).contains(&self.bad) {
            let offset = Some(self.bad as u64);
            connection.reply(request, &Reply::Failed { errno: Errno::Io, offset, message: "bad" })
        } else {
            match request.command {
                Command::Read => {
                    let data: Vec<u8> = (offset..offset + length).map(lies).collect();
                    if length.is_multiple_of(3) {
                        connection.reply(request, &Reply::Data(&data))
                    } else {
                        connection.reply_data(request, data)
                    }
                }
                Command::BlockStatus { .. } => {
                    let each = Extent { length: SECTOR as u32, hole: false, zero: false };
                    let zero = Extent { zero: true, ..each };
                    let extents: Vec<Extent> =
                        [each, zero].into_iter().cycle().take(length / SECTOR).collect();
                    connection.reply(request, &Reply::Status(&extents))
                }
                Command::Write => {
                    assert_eq!(request.data.len(), length);
                    for (place, sector) in request.data.chunks(SECTOR).enumerate() {
                        let at = offset + place * SECTOR;
                        let cookie = u64::from_be_bytes(sector[..8].try_into().unwrap());
                        let right = |(byte, is): (usize, &u8)| *is == writes(cookie, at + byte);
                        assert!(sector.iter().enumerate().all(right), "wrong bytes at {at}");
                        *self.written.entry((cookie, at)).or_default() += 1;
                    }
                    connection.reply(request, &Reply::Done)
                }
                _ => connection.reply(request, &Reply::Done),
            }
        };
        result.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(60, 150)))]

    /// For any requests and any limits, the bound on held bytes is kept, each request is answered once, completely
    /// or with an error, and each write is executed once. A client without structured replies is disconnected if a
    /// read fails after its first bytes.
    #[test]
    fn requests_of_any_size_are_carried_out_within_the_limits(
        requests in prop::collection::vec(asked(), 1..25),
        (structured, grants) in any::<(bool, bool)>(),
        (bytes, reserve) in (8..100usize, prop_oneof![Just(usize::MAX), 0..80_000usize]),
        bad in prop_oneof![Just(usize::MAX), 0..EXPORT],
        steps in prop::collection::vec((0..4u8, any::<usize>()), 0..400),
    ) {
        let requests: Vec<Asked> = requests
            .into_iter()
            .filter(|asked| structured || asked.kind != STATUS && asked.flags == 0)
            .collect();
        let limits = Limits { requests: 7, bytes: bytes << 10, options: 10 };
        let mut connection = open(structured, limits);
        connection.reserve(reserve);
        let sent: Vec<u8> = (0u64..).zip(&requests).flat_map(|(cookie, asked)| message(cookie, asked)).collect();
        let (mut at, mut waiting, mut output, mut unfinished) = (0, Vec::new(), Vec::new(), None);
        let mut disk = Disk { bad, written: BTreeMap::new() };
        // A single piece of a request is admitted in any case, and so is a read that must not be split.
        let room = if grants { limits.bytes } else { reserve.min(limits.bytes) };
        let whole = requests.iter().filter(|asked| asked.flags == DF && asked.length <= 64 << 10);
        let held_max = room.max(4096).max(whole.map(|asked| asked.length).max().unwrap_or(0));
        let rest = [(0, usize::MAX), (1, 0), (2, usize::MAX), (3, 0)].into_iter().cycle();
        for (step, index) in steps.into_iter().chain(rest.take(200_000)) {
            match step {
                0 if connection.is_ready() && at < sent.len() => {
                    let some = &sent[at..sent.len().min(at + 1 + index % 20_000)];
                    connection.receive(some).unwrap();
                    at += some.len();
                }
                1 if !waiting.is_empty() => {
                    let request: Request = waiting.swap_remove(index % waiting.len());
                    disk.carry_out(&mut connection, &request);
                }
                2 => {
                    let some = connection.output().len().min(1 + index % 50_000);
                    output.extend_from_slice(&connection.output()[..some]);
                    connection.sent(some).unwrap();
                }
                3 if connection.wanted().is_some() => {
                    if grants && index % 2 == 1 { connection.grant() } else { connection.go_in_pieces() }.unwrap();
                }
                _ => {}
            }
            while let Some(event) = connection.poll() {
                match event {
                    Event::Request(request) => waiting.push(request),
                    Event::Unfinished { offset } => unfinished = Some(offset as usize),
                    other => panic!("{other:?}"),
                }
            }
            // Headers of answers may exceed the claimed room.
            prop_assert!(connection.held() <= held_max + 64 * limits.requests, "{} held", connection.held());
            prop_assert!(waiting.len() <= limits.requests);
            let quiet = waiting.is_empty() && connection.output().is_empty();
            if quiet && (unfinished.is_some() || at == sent.len() && connection.memory() == 0) {
                break;
            }
        }
        let answers = seen_answers(&requests, &output);
        if let Some(offset) = unfinished {
            let (cookie, last) = answers.last_key_value().unwrap();
            let asked = requests[*cookie as usize];
            prop_assert!(!structured && (asked.offset..asked.offset + asked.length).contains(&bad));
            prop_assert_eq!((last.came, last.right), (offset - asked.offset, offset - asked.offset));
            return Ok(());
        }
        prop_assert_eq!((at, connection.memory(), answers.len()), (sent.len(), 0, requests.len()));
        for ((cookie, answer), asked) in answers.iter().zip(&requests) {
            let whole = asked.offset..asked.offset + asked.length;
            let fails = whole.contains(&bad) && !matches!(asked.kind, TRIM | STATUS);
            match answer.ended {
                Some(0) => prop_assert!(!fails, "{asked:?} did not fail"),
                Some(75) => prop_assert!(asked.flags == DF && asked.length > 64 << 10, "{asked:?}"),
                Some(5) => prop_assert!(fails, "{asked:?} failed"),
                other => prop_assert!(false, "{asked:?} ended with {other:?}"),
            }
            prop_assert_eq!(answer.came, answer.right);
            if answer.ended == Some(0) {
                prop_assert_eq!(answer.came, if asked.kind == READ { asked.length } else { 0 });
                prop_assert_eq!(answer.extents > 0, asked.kind == STATUS);
                let times = |at| disk.written.get(&(*cookie, at)).copied();
                let once = whole.step_by(SECTOR).all(|at| times(at) == Some(1));
                prop_assert_eq!(once, asked.kind == WRITE || asked.length == 0);
            }
            prop_assert!(disk.written.values().all(|times| *times == 1));
        }
    }
}
