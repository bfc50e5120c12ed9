//! The target of a replica. A replica has no header, so the blocks written last show after a restart whether it
//! is the same target.

use super::durable::Durable;
use super::source::FileDestination;
use crate::file_system::File;
use apps::backup::image::Header;
use apps::backup::{Output, Replica, ReplicaError};
use scheduler::BlockSet;
use std::collections::VecDeque;

const MAGIC: &[u8; 8] = b"FBSEEN1\0";
/// The most recent blocks that are compared when a replica continues: a few show whether it is the same target.
const SEEN_BLOCKS_MAX: usize = 8;
/// The bytes of a [`Seen`] block in the saved progress.
const SEEN_BYTES: usize = 16;

/// A block that is durable on the target, remembered by its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    at_byte: u64,
    bytes: u32,
    crc: u32,
}

impl Seen {
    fn encode(self) -> impl Iterator<Item = u8> {
        let numbers = [self.bytes.to_le_bytes(), self.crc.to_le_bytes()];
        self.at_byte.to_le_bytes().into_iter().chain(numbers.into_iter().flatten())
    }

    fn decode(from: &[u8]) -> Option<Self> {
        let (at_byte, rest) = from.split_first_chunk::<8>()?;
        let (bytes, rest) = rest.split_first_chunk::<4>()?;
        let (crc, _) = rest.split_first_chunk::<4>()?;
        let (at_byte, bytes) = (u64::from_le_bytes(*at_byte), u32::from_le_bytes(*bytes));
        Some(Self { at_byte, bytes, crc: u32::from_le_bytes(*crc) })
    }

    fn is_in(self, file: &mut dyn File) -> std::io::Result<bool> {
        let mut found = vec![0; self.bytes as usize];
        Ok(file.read_at(self.at_byte, &mut found)? == found.len() && crc32fast::hash(&found) == self.crc)
    }
}

/// A replica on a file or device.
pub(super) struct ReplicaTarget {
    replica: Replica<FileDestination>,
    /// The last whole block, which may not be durable yet.
    last: Option<Seen>,
    seen: VecDeque<Seen>,
}

impl ReplicaTarget {
    /// Begins a replica, or continues one from its saved progress.
    pub fn open(header: Header, saved: &[u8], mut to: FileDestination) -> Result<Self, String> {
        let text = |error: ReplicaError| error.to_string();
        if saved.is_empty() {
            let replica = Replica::new(header, None, to).map_err(|error| error.to_string())?;
            return Ok(Self { replica, last: None, seen: VecDeque::new() });
        }
        let (seen, progress) = split(saved).ok_or(ReplicaError::Damaged).map_err(text)?;
        for block in &seen {
            match block.is_in(&mut *to.file) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(format!(
                        "the block written at byte {} is not there, so this is another file or an older copy; make a new replica",
                        block.at_byte
                    ));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut replica = Replica::resume(progress, to).map_err(text)?;
        let mut is_empty = true;
        replica.present(&mut |_| is_empty = false);
        if !is_empty {
            let destination = replica.destination_mut();
            destination.sized = true;
            destination.check_len().map_err(|why| format!("{why}; make a new replica"))?;
        }
        Ok(Self { replica, last: None, seen: seen.into() })
    }

    /// Returns whether the target was recognised by blocks that this task wrote to it before.
    pub fn is_recognised(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Adds the blocks in the replica to `has`.
    pub fn present(&self, has: &mut BlockSet) {
        self.replica.present(&mut |block| {
            let _ = has.insert(block);
        });
    }
}

/// Splits saved progress into the blocks to compare and the progress of the replica; `None` if it is cut short.
fn split(saved: &[u8]) -> Option<(Vec<Seen>, &[u8])> {
    let Some(rest) = saved.strip_prefix(MAGIC) else { return Some((Vec::new(), saved)) };
    let (count, rest) = rest.split_first()?;
    let (seen, progress) = rest.split_at_checked(usize::from(*count) * SEEN_BYTES)?;
    Some((seen.chunks_exact(SEEN_BYTES).map(Seen::decode).collect::<Option<_>>()?, progress))
}

impl Durable for ReplicaTarget {
    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        let header = self.replica.header();
        let at_byte = header.shape.home(block).get().saturating_mul(u64::from(header.sector_bytes));
        let is_whole = at_byte.saturating_add(bytes.len() as u64) <= self.replica.destination_mut().end;
        if let Ok(len) = u32::try_from(bytes.len())
            && bad.is_empty()
            && is_whole
            // A block of equal bytes identifies nothing: any blank file or disk has such blocks.
            && bytes.iter().any(|byte| Some(byte) != bytes.first())
        {
            self.last = Some(Seen { at_byte, bytes: len, crc: crc32fast::hash(bytes) });
        }
        Output::put(&mut self.replica, block, bytes, bad);
    }

    fn flush(&mut self) -> Result<bool, String> {
        Output::flush(&mut self.replica)
    }

    fn finish(&mut self) {
        Output::finish(&mut self.replica);
    }

    fn sync(&mut self) -> Result<Vec<u8>, String> {
        let progress = self.replica.progress()?;
        self.seen.extend(self.last.take());
        while self.seen.len() > SEEN_BLOCKS_MAX {
            self.seen.pop_front();
        }
        let mut saved = MAGIC.to_vec();
        saved.push(self.seen.len() as u8);
        saved.extend(self.seen.iter().flat_map(|block| block.encode()));
        saved.extend(progress);
        Ok(saved)
    }

    fn full(&mut self) -> String {
        self.replica.destination_mut().full.clone()
    }

    fn file(&mut self) -> &mut dyn File {
        &mut *self.replica.destination_mut().file
    }
}
