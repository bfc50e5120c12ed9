//! Opens a log again by reading its summaries.

use super::config::{LogConfig, LogConfigError};
use super::ids::{SegmentIndex, Sequence};
use super::log::{Log, Place};
use super::segment::State;
use super::summary::{Rejection, SegmentSummary};
use thiserror::Error;
use units::LbnRange;

/// A log as of its last durable segment, and the segments that were rejected.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The log.
    pub log: Log,
    /// Rejected segments, each with the reason. Unwritten ones are [`Rejection::Blank`]; one segment torn by the
    /// crash is normal; more than that is damage.
    pub rejected: Vec<(SegmentIndex, Rejection)>,
}

/// The reason for which a log cannot be opened again.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum RecoverError<E> {
    /// The layout is invalid.
    #[error(transparent)]
    Config(#[from] LogConfigError),
    /// The medium cannot be read.
    #[error("LBNs {range} of {segment} cannot be read: {error}")]
    Read {
        /// The segment.
        segment: SegmentIndex,
        /// The LBNs that were to be read.
        range: LbnRange,
        /// The reader's error.
        error: E,
    },
    /// The reader returned another number of bytes.
    #[error("the reader gave {found} bytes for LBNs {range}; give exactly those")]
    Length {
        /// The LBNs that were to be read.
        range: LbnRange,
        /// The number of bytes returned.
        found: usize,
    },
}

/// Replays the log from its summaries. Reads one block of every segment, and all of the last one: since writes go one
/// at a time, only the last can be torn. The last segment is accepted only if every block in it matches its summary.
/// If one does not, wiping that summary is the first write of the log: otherwise the next recovery, which finds later
/// segments, would take the torn one for whole.
///
/// # Errors
/// The layout is invalid, or the medium cannot be read.
pub fn recover<E>(
    config: LogConfig,
    mut read: impl FnMut(LbnRange) -> Result<Vec<u8>, E>,
) -> Result<Recovered, RecoverError<E>> {
    let geometry = config.check()?;
    let sector_bytes = u64::from(config.sector_bytes);
    let mut read = |segment, range: LbnRange| {
        let bytes = read(range).map_err(|error| RecoverError::Read { segment, range, error })?;
        if bytes.len() as u64 == range.len().get() * sector_bytes {
            Ok(bytes)
        } else {
            Err(RecoverError::Length { range, found: bytes.len() })
        }
    };
    let mut rejected = Vec::new();
    let mut accepted: Vec<(SegmentIndex, SegmentSummary)> = Vec::new();
    for segment in geometry.segments() {
        let block = read(segment, geometry.summary_range(segment))?;
        match SegmentSummary::decode(&geometry, segment, &block) {
            Ok(summary) => accepted.push((segment, summary)),
            Err(reason) => rejected.push((segment, reason)),
        }
    }
    accepted.sort_by_key(|(_, summary)| summary.sequence);
    reject_duplicates(&mut accepted, &mut rejected);
    let mut log = Log::blank(geometry);
    if let Some((segment, summary)) = accepted.last() {
        let segment = *segment;
        log.next_sequence = summary.sequence.next();
        let bytes = read(segment, geometry.prefix_range(segment, summary.entries.len() as u32))?;
        if let Some(slot) = first_difference(summary, &bytes, geometry.block_bytes()) {
            rejected.push((segment, Rejection::Torn { slot }));
            accepted.pop();
            log.wipe = Some((segment, vec![0; geometry.block_bytes()]));
            log.segments[segment.index()].state = State::Torn;
        }
    }
    replay(&mut log, accepted);
    rejected.sort_by_key(|(segment, _)| *segment);
    Ok(Recovered { log, rejected })
}

/// Rejects both of two segments with the same sequence: a sequence is never used twice.
fn reject_duplicates(
    accepted: &mut Vec<(SegmentIndex, SegmentSummary)>,
    rejected: &mut Vec<(SegmentIndex, Rejection)>,
) {
    let twice: Vec<Sequence> = accepted
        .windows(2)
        .filter(|pair| pair[0].1.sequence == pair[1].1.sequence)
        .map(|pair| pair[0].1.sequence)
        .collect();
    accepted.retain(|(segment, summary)| {
        let unique = !twice.contains(&summary.sequence);
        if !unique {
            rejected.push((*segment, Rejection::DuplicateSequence(summary.sequence)));
        }
        unique
    });
}

/// Returns the first slot whose data do not match the summary.
fn first_difference(summary: &SegmentSummary, bytes: &[u8], block_bytes: usize) -> Option<u32> {
    let data = bytes.chunks_exact(block_bytes).skip(1);
    let slots = (0u32..).zip(summary.entries.iter().zip(data));
    slots
        .filter_map(|(slot, (entry, data))| Some((slot, entry.as_ref()?.checksum, data)))
        .find(|(_, checksum, data)| crc32fast::hash(data) != *checksum)
        .map(|(slot, _, _)| slot)
}

/// Replays summaries in the order of their sequences; later ones supersede earlier ones.
fn replay(log: &mut Log, accepted: Vec<(SegmentIndex, SegmentSummary)>) {
    let segments = log.geometry.config().segments;
    for (segment, summary) in accepted {
        for (slot, entry) in (0u32..).zip(&summary.entries) {
            let Some(entry) = entry else { continue };
            log.places[entry.block.index()] = Place::Slot(segment, slot);
            log.mentions[entry.block.index()] += 1;
        }
        for block in &summary.tombstones {
            log.places[block.index()] = Place::Tombstone(segment);
        }
        log.durable = summary.sequence;
        log.after = (segment.get() + 1) % segments;
        let row = &mut log.segments[segment.index()];
        row.state = State::Written;
        row.modified = summary.modified();
        row.medium = Some(summary);
    }
    for (place, mentions) in log.places.iter_mut().zip(&log.mentions) {
        match *place {
            Place::Slot(segment, _) => {
                log.segments[segment.index()].live += 1;
                log.mapped += 1;
            }
            Place::Tombstone(segment) if *mentions > 0 => log.segments[segment.index()].tombstones += 1,
            Place::Tombstone(_) | Place::Nothing => *place = Place::Nothing,
        }
    }
    for row in &mut log.segments {
        row.settle(log.durable);
    }
}
