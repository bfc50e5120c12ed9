//! All kinds of damage to files, for the tests of every file in the state directory.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

use crate::manager::tests::memory::{MemoryFiles, below};
use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use testing::sized;
use workload::random::Stream;

/// One way to damage a file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum FileFault {
    /// One byte is changed.
    Flip {
        at: usize,
        by: u8,
    },
    /// The file is cut at this length.
    Cut(usize),
    Delete,
    /// An older copy replaces the file: the index of the version, and its content.
    Older(usize, Vec<u8>),
    /// A directory replaces the file.
    Directory,
    /// Opening the file is not permitted.
    Unreadable,
    /// The file's medium fails.
    Fails,
}

impl fmt::Debug for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { at, by } => write!(f, "byte {at} flipped by {by:#x}"),
            Self::Cut(len) => write!(f, "cut at {len}"),
            Self::Delete => write!(f, "deleted"),
            Self::Older(moment, bytes) => write!(f, "copy {moment} of {} bytes", bytes.len()),
            Self::Directory => write!(f, "a directory"),
            Self::Unreadable => write!(f, "unreadable"),
            Self::Fails => write!(f, "its medium fails"),
        }
    }
}

/// The share of a file's bytes at which tests damage the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Every,
    /// This number of bytes, drawn from a fixed seed: `short` of them in the usual test run, `long` in the long one.
    Some {
        short: usize,
        long: usize,
    },
}

impl Share {
    fn of(self, len: usize) -> BTreeSet<usize> {
        match self {
            Self::Some { short, long } if sized(short, long) < len => {
                let n = sized(short, long);
                let mut chance = Stream::new(len as u64, "bytes that are damaged");
                (0..n).map(|_| below(&mut chance, len as u64) as usize).collect()
            }
            _ => (0..len).collect(),
        }
    }
}

/// Returns the bytes at which the records of a log, or the slots of an end file, begin.
fn records(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    if bytes.starts_with(b"fbstate\0") {
        // The header has 28 bytes. A record has length, sequence and committed, then the body, then a checksum.
        let mut at = 28;
        while let Some(len) = bytes.get(at..at + 4) {
            ends.push(at);
            at += 20 + u32::from_le_bytes(len.try_into().unwrap()) as usize + 4;
        }
    }
    ends.extend((4_096..bytes.len()).step_by(4_096));
    ends
}

/// Returns the ways to damage a file with these bytes and older versions: a flipped bit in each byte of the share, a
/// cut at each of these bytes, at every record and one byte behind its beginning, and all other ways.
pub(crate) fn all_faults(bytes: &[u8], older: &[Vec<u8>], share: Share) -> Vec<FileFault> {
    let flips = share.of(bytes.len()).into_iter().map(|at| FileFault::Flip { at, by: 1 << (at % 8) });
    let mut cuts = share.of(bytes.len());
    cuts.extend(records(bytes).into_iter().flat_map(|at| [at, at + 1]).filter(|at| *at < bytes.len()));
    let older = older.iter().enumerate().filter(|(_, old)| *old != bytes);
    let older = older.map(|(moment, old)| FileFault::Older(moment, old.clone()));
    let rest = [FileFault::Delete, FileFault::Directory, FileFault::Unreadable, FileFault::Fails];
    flips.chain(cuts.into_iter().map(FileFault::Cut)).chain(older).chain(rest).collect()
}

/// Applies a damage to a file.
pub(crate) fn inject(files: &MemoryFiles, path: &str, inject: &FileFault) {
    match inject {
        FileFault::Flip { .. } | FileFault::Cut(_) | FileFault::Older(..) => {
            files.put(path, &damaged(&files.get(path).unwrap(), inject).unwrap());
        }
        FileFault::Delete => files.delete(path),
        FileFault::Directory => files.put_directory(path),
        FileFault::Unreadable => files.set_fault(path, Some(ErrorKind::PermissionDenied)),
        FileFault::Fails => files.set_fault(path, Some(ErrorKind::InvalidData)),
    }
}

/// Returns the bytes of a damaged file, if the damage leaves a readable file.
pub(crate) fn damaged(bytes: &[u8], inject: &FileFault) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    match inject {
        FileFault::Flip { at, by } => bytes[*at] ^= by,
        FileFault::Cut(len) => bytes.truncate(*len),
        FileFault::Older(_, old) => bytes.clone_from(old),
        _ => return None,
    }
    Some(bytes)
}
