//! Damage to files, all of it: for the tests of everything that keeps a file in the state directory.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

use crate::desk::tests::memory::Memory;
use std::io::ErrorKind;

/// One way to damage a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// One byte is another.
    Flip {
        at: usize,
        by: u8,
    },
    /// It ends there.
    Cut(usize),
    Delete,
    /// An older copy is in its place: of an earlier moment.
    Older(usize, Vec<u8>),
    /// It is a directory.
    Directory,
    /// It may not be read.
    Unreadable,
    /// Its medium fails.
    Fails,
}

/// Every way to damage a file of these bytes, which had those before. `thin`: a step between the bytes that are flipped.
pub(crate) fn harms(bytes: &[u8], older: &[Vec<u8>], thin: usize) -> Vec<Harm> {
    let flips = (0..bytes.len()).step_by(thin).map(|at| Harm::Flip { at, by: 1 << (at % 8) });
    let cuts = (0..bytes.len()).step_by(thin).map(Harm::Cut);
    let older = older.iter().enumerate().filter(|(_, old)| *old != bytes);
    let older = older.map(|(moment, old)| Harm::Older(moment, old.clone()));
    let rest = [Harm::Delete, Harm::Directory, Harm::Unreadable, Harm::Fails];
    flips.chain(cuts).chain(older).chain(rest).collect()
}

/// Does it.
pub(crate) fn harm(files: &Memory, path: &str, harm: &Harm) {
    let bytes = || files.get(path).unwrap();
    match harm {
        Harm::Flip { at, by } => {
            let mut bytes = bytes();
            bytes[*at] ^= by;
            files.put(path, &bytes);
        }
        Harm::Cut(len) => files.put(path, &bytes()[..*len]),
        Harm::Delete => files.delete(path),
        Harm::Older(_, old) => files.put(path, old),
        Harm::Directory => files.set_fault(path, Some(ErrorKind::IsADirectory)),
        Harm::Unreadable => files.set_fault(path, Some(ErrorKind::PermissionDenied)),
        Harm::Fails => files.set_fault(path, Some(ErrorKind::InvalidData)),
    }
}
