//! The replica: each block is written to its own address on another drive.

use super::restore::{Point, RestoreError, fits, sound};
use super::{Destination, Output, image::HEADER_BYTES, image::Header};
use crate::codec::{Cursor, put_varint, seal, unseal};
use crate::set::{put_set, take_set};
use scheduler::BlockSet;
use std::collections::VecDeque;
use thiserror::Error;
use units::Lbn;

const MAGIC: &[u8; 8] = b"FBREPLC1";

/// The reason for which saved progress of a replica was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplicaError {
    /// The bytes are not the saved progress of a replica in this version.
    #[error("not the saved progress of a replica, version 1; make the replica anew, on the same base")]
    Foreign,
    /// The checksum does not match, or the progress contradicts itself.
    #[error("the saved progress of the replica is damaged; make the replica anew, on the same base")]
    Damaged,
}

/// A block that is not wholly written.
#[derive(Clone, Debug)]
struct PartialBlock {
    block: u64,
    runs: Vec<(Lbn, Vec<u8>)>,
    missing: Vec<Lbn>,
}

/// A replica: each block goes to its own address on another drive (FAST'04, section 4.1).
///
/// Until the backup has finished, the destination has neither its old content nor the snapshot. Writing a block twice
/// does no harm, so a replica whose progress is lost is made anew on the base with which it began.
#[derive(Clone, Debug)]
pub struct Replica<D> {
    header: Header,
    destination: D,
    written: BlockSet,
    waiting: VecDeque<PartialBlock>,
    waiting_bytes: usize,
    missing: Vec<Lbn>,
    /// Whether all blocks were put.
    complete: bool,
    /// Whether all blocks are durable.
    durable: bool,
}

impl<D: Destination> Replica<D> {
    /// Creates a replica of the header's snapshot; `onto` is the present content of the destination. Only a
    /// difference needs `onto`.
    ///
    /// # Errors
    /// [`RestoreError::WrongBase`], or the header is not valid; nothing is written.
    pub fn new(header: Header, onto: Option<Point>, destination: D) -> Result<Self, RestoreError> {
        Header::decode(&header.encode())?;
        fits(&header, onto)?;
        let (written, waiting) = (BlockSet::empty(header.shape.blocks), VecDeque::new());
        Ok(Self {
            header,
            destination,
            written,
            waiting,
            waiting_bytes: 0,
            missing: Vec::new(),
            complete: false,
            durable: false,
        })
    }

    /// Continues a replica from the bytes of [`progress`](Self::progress), on the drive that has its blocks.
    ///
    /// # Errors
    /// The bytes are not the progress of a replica, or are damaged.
    pub fn resume(saved: &[u8], destination: D) -> Result<Self, ReplicaError> {
        if !saved.starts_with(MAGIC) {
            return Err(ReplicaError::Foreign);
        }
        let body = unseal(saved).ok_or(ReplicaError::Damaged)?;
        let (header, written, missing) = parse(&mut Cursor::new(body)).ok_or(ReplicaError::Damaged)?;
        Ok(Self {
            header,
            destination,
            written,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            missing,
            complete: false,
            durable: false,
        })
    }

    /// Makes the written blocks durable, and returns the list of them as bytes, to be saved whole.
    ///
    /// # Errors
    /// The destination failed; the text says why.
    pub fn progress(&mut self) -> Result<Vec<u8>, String> {
        self.destination.sync()?;
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.header.encode());
        put_varint(&mut out, self.missing.len() as u64);
        self.missing.iter().for_each(|lbn| put_varint(&mut out, lbn.get()));
        put_set(&mut out, &self.written);
        seal(&mut out);
        Ok(out)
    }

    /// Returns the destination drive.
    pub fn destination_mut(&mut self) -> &mut D {
        &mut self.destination
    }

    /// Returns the destination drive; blocks that it has not taken are dropped.
    pub fn into_destination(self) -> D {
        self.destination
    }

    /// Returns the sectors that could not be read and thus were not written, those from before a restart included.
    pub fn missing(&self) -> &[Lbn] {
        &self.missing
    }

    /// Returns the content of the destination once all is durable; `None` before.
    pub fn point(&self) -> Option<Point> {
        self.durable.then_some(Point { volume: self.header.shape.volume, snapshot: self.header.snapshot })
    }
}

fn parse(cursor: &mut Cursor<'_>) -> Option<(Header, BlockSet, Vec<Lbn>)> {
    cursor.take(MAGIC.len())?;
    let header = Header::decode(cursor.take(HEADER_BYTES as usize)?).ok()?;
    let mut missing = Vec::new();
    for _ in 0..cursor.varint()? {
        missing.push(Lbn::new(cursor.varint()?));
    }
    let written = take_set(cursor, header.shape.blocks)?;
    (cursor.is_empty() && written.len() <= header.chunks).then_some((header, written, missing))
}

impl<D: Destination> Output for Replica<D> {
    fn present(&self, each: &mut dyn FnMut(u64)) {
        self.written.for_each(0, self.written.blocks(), each);
    }

    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        let home = self.header.shape.home(block);
        let runs = sound(home, self.header.sector_bytes as usize, bytes, bad);
        let runs = runs.into_iter().map(|(at, run)| (at, run.to_vec())).collect();
        let missing = bad.iter().map(|s| Lbn::new(home.get().saturating_add(u64::from(*s)))).collect();
        self.waiting.push_back(PartialBlock { block, runs, missing });
        self.waiting_bytes += bytes.len();
    }

    fn flush(&mut self) -> Result<bool, String> {
        while let Some(part) = self.waiting.front_mut() {
            while let Some((at, bytes)) = part.runs.last() {
                if !self.destination.write_at(*at, bytes)? {
                    return Ok(false);
                }
                part.runs.pop();
            }
            self.missing.append(&mut part.missing);
            self.written.insert(part.block);
            self.waiting.pop_front();
        }
        self.waiting_bytes = 0;
        if self.complete && !self.durable {
            self.destination.sync()?;
            self.durable = true;
        }
        Ok(true)
    }

    fn waiting(&self) -> usize {
        self.waiting_bytes
    }

    fn finish(&mut self) {
        self.complete = true;
    }

    fn header(&self) -> &Header {
        &self.header
    }
}
