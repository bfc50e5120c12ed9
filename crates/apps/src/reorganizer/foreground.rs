//! The volume during a reorganisation. The host keeps addressing blocks by their places at the plan's start; this
//! module maps them to their current places.

use super::journal::Nvram;
use super::links::BlockState;
use super::machine::Reorganizer;
use crate::sessions::Sessions;
use units::{Lbn, LbnRange, Op, Sectors};

/// The current place of a piece of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPlace {
    /// On the medium, from this LBN on.
    Medium(Lbn),
    /// In the staging area (blocks that are read and not yet written): the bytes of this piece are copied already.
    Staging,
}

/// A part of an access that lies in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The LBNs by which the host addresses the piece.
    pub logical: LbnRange,
    /// The current place of the piece.
    pub place: AccessPlace,
}

/// A foreground access: carry out its pieces on the medium, then pass it to [`Reorganizer::end`].
#[must_use = "blocks are held until the access is given back to `end`"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    op: Op,
    pieces: Vec<Piece>,
    blocks: Vec<u32>,
}

impl Access {
    /// Returns the pieces, in order; together they are the requested range.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// The reason for which a foreground access was refused. Nothing was done, except that a write refused as `Halted`
/// may be done in part, as after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The range is past the end of the drive.
    #[error("LBNs {range} end past the drive's last LBN; the drive has {capacity} sectors")]
    PastEnd {
        /// The requested range.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
    /// The number of bytes does not match the range.
    #[error("{given} bytes for LBNs {range}; give {needed}")]
    Length {
        /// The requested range.
        range: LbnRange,
        /// The bytes given.
        given: u64,
        /// The bytes in the range.
        needed: u64,
    },
    /// The plan counts this place as free, and moves blocks through it.
    #[error("LBN {0} was free when the plan began and belongs to it until it has ended; allocate elsewhere")]
    Free(Lbn),
    /// The staging area's memory is lost, so newer bytes cannot be kept there.
    #[error("LBN {0} is in the staging area, whose memory is full or gone; recover first")]
    Halted(Lbn),
}

/// A part of an access.
struct AccessPart {
    piece: Piece,
    /// The block of the plan in which the part lies, if any.
    block: Option<u32>,
}

impl<N: Nvram> Reorganizer<N> {
    /// Returns the current places of `logical`, in order.
    ///
    /// # Errors
    /// The range is past the drive's end, or touches a place that the plan counts as free.
    pub fn resolve(&self, logical: LbnRange) -> Result<Vec<Piece>, AccessError> {
        Ok(self.parts(logical)?.into_iter().map(|part| part.piece).collect())
    }

    /// Begins a foreground read. Staged bytes are in `into` when this returns; the caller reads the pieces on the
    /// medium into the rest and calls [`end`](Self::end). Until then the reorganiser does not write to these pieces.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn begin_read(&mut self, logical: LbnRange, into: &mut [u8]) -> Result<Access, AccessError> {
        let parts = self.checked(logical, into.len())?;
        for AccessPart { piece, block } in &parts {
            if let (AccessPlace::Staging, Some(b)) = (piece.place, *block) {
                let offset = self.bytes_between(Lbn::new(self.links.block(b).from), piece.logical.start());
                let at = self.bytes_between(logical.start(), piece.logical.start());
                let len = self.bytes_between(piece.logical.start(), piece.logical.end());
                let staged = self.staging.bytes(b).and_then(|s| s.get(offset..offset + len));
                if let (Some(from), Some(into)) = (staged, into.get_mut(at..at + len)) {
                    into.copy_from_slice(from);
                }
            }
        }
        let blocks = self.movable(&parts);
        for &b in &blocks {
            *self.readers.entry(self.links.block(b).from).or_default() += 1;
        }
        Ok(self.access(Op::Read, parts, blocks))
    }

    /// Begins a foreground write. Staged blocks have the new bytes, durably, when this returns; the caller writes the
    /// pieces on the medium and calls [`end`](Self::end). Until then the blocks of these pieces are not moved; bytes
    /// that the reorganiser read from them before are old and not used.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn begin_write(
        &mut self,
        sessions: &mut dyn Sessions,
        logical: LbnRange,
        from: &[u8],
    ) -> Result<Access, AccessError> {
        let parts = self.checked(logical, from.len())?;
        let staged = |p: &&AccessPart| p.piece.place == AccessPlace::Staging;
        for AccessPart { piece, block } in parts.iter().filter(staged) {
            let start = piece.logical.start();
            let at = self.bytes_between(logical.start(), start);
            let len = self.bytes_between(start, piece.logical.end());
            let (Some(b), Some(bytes)) = (*block, from.get(at..at + len)) else { continue };
            let offset = self.bytes_between(Lbn::new(self.links.block(b).from), start);
            if self.halted {
                return Err(AccessError::Halted(start));
            }
            if self.journal.overwritten(&mut self.nvram, b, offset as u64, bytes).is_err() {
                self.halt(sessions);
                return Err(AccessError::Halted(start));
            }
            self.staging.overwrite(b, offset as u64, bytes);
        }
        let blocks = self.movable(&parts);
        for &b in &blocks {
            *self.held.entry(b).or_default() += 1;
            self.withdraw(sessions, b);
        }
        self.settle(sessions);
        Ok(self.access(Op::Write, parts, blocks))
    }

    /// Ends a foreground access, successful or not: the host no longer touches the pieces of the access on the
    /// medium.
    pub fn end(&mut self, sessions: &mut dyn Sessions, access: Access) {
        for b in access.blocks {
            if access.op == Op::Read {
                let place = self.links.block(b).from;
                if let Some(readers) = self.readers.get_mut(&place) {
                    *readers -= 1;
                    if *readers == 0 {
                        self.readers.remove(&place);
                    }
                }
            } else if let Some(writers) = self.held.get_mut(&b) {
                *writers -= 1;
                if *writers == 0 {
                    self.held.remove(&b);
                    self.release(b);
                }
            }
        }
        self.settle(sessions);
    }

    fn checked(&self, logical: LbnRange, given: usize) -> Result<Vec<AccessPart>, AccessError> {
        let parts = self.parts(logical)?;
        let needed = logical.len().get().saturating_mul(self.sector.get());
        if given as u64 != needed {
            return Err(AccessError::Length { range: logical, given: given as u64, needed });
        }
        Ok(parts)
    }

    /// Splits a range into parts, each in one block of the plan or in none.
    fn parts(&self, logical: LbnRange) -> Result<Vec<AccessPart>, AccessError> {
        let capacity = self.capacity;
        let end = logical
            .checked_end()
            .filter(|end| end.get() <= capacity.get())
            .ok_or(AccessError::PastEnd { range: logical, capacity })?;
        let mut parts = Vec::new();
        let mut at = logical.start();
        while at < end {
            let b = self.links.first_after(at.get());
            let source = ((b as usize) < self.links.len()).then(|| self.links.block(b).source());
            let (stop, place, block) = match source {
                Some(source) if source.start() <= at => {
                    let place = match self.links.on_medium(b) {
                        Some(start) => AccessPlace::Medium(start + at.since(source.start())),
                        None => AccessPlace::Staging,
                    };
                    (source.end(), place, Some(b))
                }
                next => {
                    let stop = next.map_or(end, |source| source.start()).min(end);
                    self.not_free(at, stop)?;
                    (stop, AccessPlace::Medium(at), None)
                }
            };
            let stop = stop.min(end);
            let piece = Piece { logical: LbnRange::new(at, stop.since(at)), place };
            parts.push(AccessPart { piece, block });
            at = stop;
        }
        Ok(parts)
    }

    fn not_free(&self, start: Lbn, end: Lbn) -> Result<(), AccessError> {
        let next = self.free.partition_point(|f| f.1 <= start.get());
        match self.free.get(next) {
            Some(f) if f.0 < end.get() => Err(AccessError::Free(start.max(Lbn::new(f.0)))),
            _ => Ok(()),
        }
    }

    /// Returns the blocks of `parts` that the reorganiser has not read yet.
    fn movable(&self, parts: &[AccessPart]) -> Vec<u32> {
        parts.iter().filter_map(|p| p.block).filter(|&b| self.links.waits(b)).collect()
    }

    fn access(&mut self, op: Op, parts: Vec<AccessPart>, blocks: Vec<u32>) -> Access {
        let elsewhere = |p: &&AccessPart| match (p.piece.place, p.block) {
            (AccessPlace::Staging, _) => true,
            (AccessPlace::Medium(_), Some(b)) => self.links.state(b) == BlockState::Done,
            (AccessPlace::Medium(_), None) => false,
        };
        self.statistics.redirected += parts.iter().filter(elsewhere).count() as u64;
        Access { op, pieces: parts.into_iter().map(|p| p.piece).collect(), blocks }
    }

    /// Returns the bytes from one LBN to another. Both are in a range whose bytes are in memory, so the number fits.
    fn bytes_between(&self, from: Lbn, to: Lbn) -> usize {
        (to.since(from).get() * self.sector.get()) as usize
    }
}
