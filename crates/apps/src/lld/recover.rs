//! Opening a log again: what the summaries say.

use super::config::{ConfigError, LogConfig};
use super::ids::{SegmentIndex, Sequence};
use super::log::{Log, Place};
use super::segment::State;
use super::summary::{Rejection, Summary};
use thiserror::Error;
use units::LbnRange;

/// A log as of its last durable segment, and what was not accepted of the medium.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The log.
    pub log: Log,
    /// Segments that are no part of it, each with the reason. Unwritten ones are [`Rejection::Blank`]; one torn by the
    /// crash is expected; more than that is damage.
    pub rejected: Vec<(SegmentIndex, Rejection)>,
}

/// Why a log cannot be opened again.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum RecoverError<E> {
    /// The layout makes no log.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The medium cannot be read.
    #[error("LBNs {range} of {segment} cannot be read: {error}")]
    Read {
        /// Which segment.
        segment: SegmentIndex,
        /// What was to be read.
        range: LbnRange,
        /// What the reader said.
        error: E,
    },
    /// The reader gave too much or too little.
    #[error("the reader gave {found} bytes for LBNs {range}; give exactly those")]
    Length {
        /// What was to be read.
        range: LbnRange,
        /// How many bytes came.
        found: usize,
    },
}

/// Replays the log from its summaries: it reads one block of every segment, and all of the last one, the only one that
/// can be torn since writes go one at a time. That one counts only if every block in it is what its summary says. If it
/// does not, wiping its summary is the first thing that the log wants written: otherwise the next recovery, which finds
/// later segments, would take it for whole.
///
/// # Errors
/// A layout that makes no log, or a medium that cannot be read.
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
    let mut accepted: Vec<(SegmentIndex, Summary)> = Vec::new();
    for segment in geometry.segments() {
        let block = read(segment, geometry.summary_range(segment))?;
        match Summary::decode(&geometry, segment, &block) {
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

/// No sequence is given twice; where one is found twice, neither is to be believed.
fn reject_duplicates(
    accepted: &mut Vec<(SegmentIndex, Summary)>,
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

/// The first slot whose data are not those of the summary.
fn first_difference(summary: &Summary, bytes: &[u8], block_bytes: usize) -> Option<u32> {
    let data = bytes.chunks_exact(block_bytes).skip(1);
    let slots = (0u32..).zip(summary.entries.iter().zip(data));
    slots
        .filter_map(|(slot, (entry, data))| Some((slot, entry.as_ref()?.checksum, data)))
        .find(|(_, checksum, data)| crc32fast::hash(data) != *checksum)
        .map(|(slot, _, _)| slot)
}

/// Summaries in the order of their sequences; what comes later counts.
fn replay(log: &mut Log, accepted: Vec<(SegmentIndex, Summary)>) {
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
