//! The journal's bytes: every event of the table, one after the other, checksummed and chained.
//!
//! ```text
//! header  "fbtasks\0", version u32 = 1, volume u128, crc32 of these
//! entry   length of the body u32, body, crc32 of (the former crc, length, body)
//! body    0, JSON of the event; or 1, length of the JSON u32, JSON of the event, what the task saved
//! ```
//! Little-endian. An entry is durable before anything is claimed of it, and it is appended in one piece; so a crash
//! leaves whole entries and one that is cut or torn, which never happened. The chain makes an entry that follows a
//! damaged one as good as damaged: it is not taken for one of before.

use crate::desk::table::{Event, Table};
use apps::snapshot::VolumeId;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"fbtasks\0";
const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 8 + 4 + 16 + 4;
/// No entry is longer: the progress of a task on the largest disk in the smallest blocks.
const MOST_BODY: usize = 1 << 30;

const PLAIN: u8 = 0;
const WITH_SAVED: u8 = 1;

/// Why a journal was not opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JournalError {
    /// Something else.
    #[error(
        "this is no journal of tasks; name another state directory, or move the file away to begin afresh"
    )]
    Foreign,
    /// Of another version.
    #[error(
        "the journal of tasks has version {0}, this program reads {VERSION}; use the program that wrote it"
    )]
    Version(u32),
    /// The header is damaged.
    #[error("the header of the journal of tasks is damaged; move the file away to begin afresh")]
    Header,
}

/// Makes entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    volume: VolumeId,
    chain: u32,
}

/// A journal that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loaded {
    pub table: Table,
    pub writer: Writer,
    /// The bytes that are sound; what follows is to be cut off.
    pub keep: usize,
}

impl Writer {
    /// A whole journal: header and table.
    pub fn fresh(volume: VolumeId, table: &Table) -> (Self, Vec<u8>) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(volume.0.to_le_bytes());
        let chain = crc32fast::hash(&bytes);
        bytes.extend(chain.to_le_bytes());
        let mut writer = Self { volume, chain };
        for event in table.events() {
            bytes.extend(writer.entry(&event));
        }
        (writer, bytes)
    }

    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    /// An entry, to be appended to what came before.
    pub fn entry(&mut self, event: &Event) -> Vec<u8> {
        // Every event is made of numbers and strings; there is nothing in it that JSON lacks.
        let json = serde_json::to_vec(event).unwrap_or_default();
        let mut body = Vec::with_capacity(json.len() + 1);
        match event {
            Event::Progress { saved, .. } => {
                body.push(WITH_SAVED);
                body.extend((json.len() as u32).to_le_bytes());
                body.extend(json);
                body.extend(saved);
            }
            _ => {
                body.push(PLAIN);
                body.extend(json);
            }
        }
        let len = (body.len() as u32).to_le_bytes();
        self.chain = sum(self.chain, len, &body);
        let mut entry = len.to_vec();
        entry.extend(body);
        entry.extend(self.chain.to_le_bytes());
        entry
    }
}

fn sum(chain: u32, len: [u8; 4], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chain.to_le_bytes());
    hasher.update(&len);
    hasher.update(body);
    hasher.finalize()
}

/// Reads a journal up to where it was cut. `None` where nothing was ever durable in it.
///
/// # Errors
/// It is none, or its header is damaged.
pub(crate) fn load(bytes: &[u8]) -> Result<Option<Loaded>, JournalError> {
    let Some(header) = bytes.get(..HEADER) else {
        // The header is written together with the first entries; a crash amid that leaves a prefix, and no task.
        let begun = MAGIC.get(..bytes.len().min(MAGIC.len()));
        return match bytes.get(..bytes.len().min(MAGIC.len())) == begun {
            true => Ok(None),
            false => Err(JournalError::Foreign),
        };
    };
    if !header.starts_with(MAGIC) {
        return Err(JournalError::Foreign);
    }
    let (fields, check) = header.split_last_chunk::<4>().ok_or(JournalError::Header)?;
    let chain = crc32fast::hash(fields);
    let version = number(fields, 8).ok_or(JournalError::Header)?;
    if chain != u32::from_le_bytes(*check) {
        return Err(JournalError::Header);
    }
    if version != VERSION {
        return Err(JournalError::Version(version));
    }
    let volume = fields.get(12..28).and_then(|b| b.try_into().ok()).map(u128::from_le_bytes);
    let volume = VolumeId(volume.ok_or(JournalError::Header)?);
    let mut loaded = Loaded { table: Table::default(), writer: Writer { volume, chain }, keep: HEADER };
    while let Some((event, end, chain)) = next(bytes, loaded.keep, loaded.writer.chain) {
        // An event that does not fit was never written by us; it is where the sound part ends.
        if !loaded.table.apply(event) {
            break;
        }
        loaded.keep = end;
        loaded.writer.chain = chain;
    }
    Ok(Some(loaded))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

/// The entry at `at`: what it says, where it ends, and the chain from there.
fn next(bytes: &[u8], at: usize, chain: u32) -> Option<(Event, usize, u32)> {
    let len = number(bytes, at)? as usize;
    let start = at.checked_add(4)?;
    let end = start.checked_add(len).filter(|_| len <= MOST_BODY)?;
    let body = bytes.get(start..end)?;
    let expected = sum(chain, (len as u32).to_le_bytes(), body);
    if number(bytes, end)? != expected {
        return None;
    }
    Some((event(body)?, end + 4, expected))
}

fn event(body: &[u8]) -> Option<Event> {
    let (kind, rest) = body.split_first()?;
    match *kind {
        PLAIN => serde_json::from_slice(rest).ok(),
        WITH_SAVED => {
            let len = number(rest, 0)? as usize;
            let json = rest.get(4..len.checked_add(4)?)?;
            let mut event = serde_json::from_slice(json).ok()?;
            if let Event::Progress { saved, .. } = &mut event {
                *saved = rest.get(len + 4..)?.to_vec();
            }
            Some(event)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::spec::{Kind, TaskSpec};
    use crate::desk::table::{Figures, TaskState};
    use proptest::prelude::*;

    const VOLUME: VolumeId = VolumeId(7);

    fn arb_event() -> impl Strategy<Value = Event> {
        let state = prop_oneof![
            Just(TaskState::Running),
            Just(TaskState::Paused),
            Just(TaskState::Done),
            Just(TaskState::Cancelled)
        ];
        prop_oneof![
            (1u64..9, 1u8..=100, any::<u64>()).prop_map(|(id, priority, image)| {
                let spec = TaskSpec { priority, ..TaskSpec::new(Kind::Scrub) };
                Event::Created { id, spec, at: image / 3, image }
            }),
            (1u64..9, state, any::<Option<u8>>()).prop_map(|(id, state, why)| Event::State {
                id,
                state,
                reason: why.map(|n| format!("reason \" {n}")),
                at: 5
            }),
            (1u64..9, 1u8..=100).prop_map(|(id, priority)| Event::Priority { id, priority }),
            (1u64..9, any::<Option<u64>>()).prop_map(|(id, d)| Event::Deadline { id, deadline_unix_s: d }),
            (1u64..9, 0u64..99, proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
                |(id, done, saved)| {
                    let figures = Figures {
                        done,
                        blocks: 99,
                        bytes: done * 512,
                        bad: vec![done],
                        bad_more: 0,
                        content: None,
                    };
                    Event::Progress { id, figures, saved }
                }
            ),
            (1u64..9).prop_map(|id| Event::Forgotten { id }),
        ]
    }

    /// The journal, and after each entry its length and the table.
    fn written(events: Vec<Event>) -> (Vec<u8>, Vec<(usize, Table)>) {
        let mut table = Table::default();
        let (mut writer, mut bytes) = Writer::fresh(VOLUME, &table);
        let mut history = vec![(bytes.len(), table.clone())];
        for event in events {
            if table.apply(event.clone()) {
                bytes.extend(writer.entry(&event));
                history.push((bytes.len(), table.clone()));
            }
        }
        (bytes, history)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn cut_at_every_byte_it_is_what_was_durable_then(events in proptest::collection::vec(arb_event(), 0..12)) {
            let (bytes, history) = written(events);
            for cut in 0..=bytes.len() {
                let loaded = load(&bytes[..cut]).unwrap();
                let whole = history.iter().rev().find(|(len, _)| *len <= cut);
                match (loaded, whole) {
                    (Some(loaded), Some((len, table))) => {
                        prop_assert_eq!(loaded.keep, *len);
                        prop_assert_eq!(&loaded.table, table);
                    }
                    // Between header and first entry: the table is empty all the same.
                    (Some(loaded), None) => prop_assert_eq!(&loaded.table, &Table::default()),
                    (None, whole) => prop_assert!(cut < HEADER && whole.is_none()),
                }
            }
        }

        #[test]
        fn a_flipped_bit_never_makes_up_a_task(events in proptest::collection::vec(arb_event(), 1..12), at: u64, bit in 0u8..8) {
            let (mut bytes, history) = written(events);
            let at = (at % bytes.len() as u64) as usize;
            bytes[at] ^= 1 << bit;
            if let Ok(Some(loaded)) = load(&bytes) {
                prop_assert!(loaded.keep <= at.max(HEADER));
                let states = history.iter().any(|(_, table)| *table == loaded.table);
                prop_assert!(states || loaded.table == Table::default());
            }
        }

        #[test]
        fn what_follows_a_cut_is_chained_to_it(events in proptest::collection::vec(arb_event(), 1..12), cut: u64, more in arb_event()) {
            let (bytes, _) = written(events);
            let cut = HEADER as u64 + cut % (bytes.len() - HEADER + 1) as u64;
            let mut loaded = load(&bytes[..cut as usize]).unwrap().unwrap();
            let mut bytes = bytes[..loaded.keep].to_vec();
            if loaded.table.apply(more.clone()) {
                bytes.extend(loaded.writer.entry(&more));
            }
            let again = load(&bytes).unwrap().unwrap();
            prop_assert_eq!(again.table, loaded.table);
            prop_assert_eq!(again.keep, bytes.len());
        }

        #[test]
        fn compacted_it_says_the_same(events in proptest::collection::vec(arb_event(), 0..12)) {
            let (_, history) = written(events);
            let table = &history.last().unwrap().1;
            let (writer, bytes) = Writer::fresh(VOLUME, table);
            let loaded = load(&bytes).unwrap().unwrap();
            prop_assert_eq!(&loaded.table, table);
            prop_assert_eq!(loaded.writer, writer);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = load(&bytes);
            let (_, mut sound) = Writer::fresh(VOLUME, &Table::default());
            sound.extend(&bytes);
            prop_assert!(load(&sound).is_ok());
        }
    }

    #[test]
    fn a_strange_file_is_refused_by_name() {
        assert_eq!(load(b"hello, world, this is something else"), Err(JournalError::Foreign));
        let (_, mut bytes) = Writer::fresh(VOLUME, &Table::default());
        bytes[20] ^= 1;
        assert_eq!(load(&bytes), Err(JournalError::Header));
    }
}
