//! The staging area: the bytes of blocks that are read from their source and not yet written to their
//! destination.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staging {
    held: BTreeMap<u32, Held>,
}

/// A block's bytes, and the state of its write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    bytes: Vec<u8>,
    writing: bool,
    given: bool,
    outdated: bool,
}

/// The state of a staged block after a complete write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The medium has the staged bytes.
    Current,
    /// The core did not get the bytes, or they have changed since: write again.
    Again,
    /// No write of the block was registered.
    Unknown,
}

impl Staging {
    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.held.iter().map(|(&b, held)| (b, held.bytes.as_slice()))
    }

    pub fn insert(&mut self, b: u32, bytes: Vec<u8>) {
        self.held.insert(b, Held { bytes, writing: false, given: false, outdated: false });
    }

    pub fn remove(&mut self, b: u32) {
        self.held.remove(&b);
    }

    pub fn bytes(&self, b: u32) -> Option<&[u8]> {
        Some(&self.held.get(&b)?.bytes)
    }

    /// Overwrites bytes from `offset` on; returns false, and does nothing, if the block is not staged or is too
    /// short.
    pub fn overwrite(&mut self, b: u32, offset: u64, bytes: &[u8]) -> bool {
        let Some(held) = self.held.get_mut(&b) else { return false };
        let Some(place) =
            usize::try_from(offset).ok().and_then(|at| held.bytes.get_mut(at..at.checked_add(bytes.len())?))
        else {
            return false;
        };
        place.copy_from_slice(bytes);
        held.outdated |= held.given;
        true
    }

    /// Returns whether a write of the block is registered.
    pub fn is_writing(&self, b: u32) -> bool {
        self.held.get(&b).is_some_and(|h| h.writing)
    }

    /// Sets whether a write of the block is registered.
    pub fn set_writing(&mut self, b: u32, writing: bool) {
        if let Some(held) = self.held.get_mut(&b) {
            (held.writing, held.given, held.outdated) = (writing, false, false);
        }
    }

    /// Copies the block's bytes from `offset` on for its registered write; returns false if there is none, or the
    /// bytes end earlier.
    pub fn give(&mut self, b: u32, offset: usize, into: &mut [u8]) -> bool {
        let Some(held) = self.held.get_mut(&b).filter(|h| h.writing) else { return false };
        let end = offset.saturating_add(into.len());
        let Some(bytes) = held.bytes.get(offset..end) else { return false };
        into.copy_from_slice(bytes);
        held.given = true;
        true
    }

    /// Returns the state of the block after its write is complete.
    pub fn complete(&self, b: u32) -> Written {
        match self.held.get(&b) {
            Some(h) if h.writing && h.given && !h.outdated => Written::Current,
            Some(h) if h.writing => Written::Again,
            _ => Written::Unknown,
        }
    }
}
