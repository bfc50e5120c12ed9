//! The state that survives a crash: a header, a checkpoint, and small entries after it (format: docs/REORGANIZER.md).

use super::links::{BlockState, Links, Relinked};
use super::plan::RelocationPlan;
use super::staging::Staging;
use crate::codec::{Cursor, seal, unseal};
use units::{Bytes, Lbn, LbnRange};

const MAGIC: [u8; 8] = *b"fb-reorg";
const VERSION: u32 = 1;
/// The bytes of the magic, the version, the plan's digest, its blocks, sectors and staging area, and the checksum.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8 + 8 + 4;
/// The bytes of an entry's length, its kind, and the checksum of these two.
const ENTRY_HEAD_BYTES: usize = 8 + 1 + 4;
/// While the entries have at most this number of bytes, no checkpoint replaces them: it would save less than it
/// writes.
const COMPACTED_BYTES_MIN: usize = 1 << 10;

const CHECKPOINT: u8 = 1;
const STAGED: u8 = 2;
const OVERWRITTEN: u8 = 3;
const WRITTEN: u8 = 4;
const SOURCE_BAD: u8 = 5;
const TARGET_BAD: u8 = 6;

/// Memory that survives a crash: battery-backed, or a file that is synchronised.
pub trait Nvram {
    /// Appends bytes, which are durable when the call returns. A crash during the call leaves a prefix of them.
    ///
    /// # Errors
    /// The memory is full or gone. The reorganiser halts; the state saved before is not lost.
    fn append(&mut self, bytes: &[u8]) -> Result<(), NvramLost>;

    /// Replaces all contents by `bytes`, atomically.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    fn replace(&mut self, bytes: &[u8]) -> Result<(), NvramLost>;

    /// Returns false if the memory keeps nothing, so that encoding entries would be wasted.
    fn keeps(&self) -> bool {
        true
    }
}

/// The non-volatile memory is full or gone: it did not store the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the staging area's memory is full or gone; recover from its content")]
pub struct NvramLost;

/// A stand-in for non-volatile memory that keeps nothing, so that a crash loses the staged blocks: faster, for data
/// that may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volatile;

impl Nvram for Volatile {
    fn append(&mut self, _: &[u8]) -> Result<(), NvramLost> {
        Ok(())
    }

    fn replace(&mut self, _: &[u8]) -> Result<(), NvramLost> {
        Ok(())
    }

    fn keeps(&self) -> bool {
        false
    }
}

/// Non-volatile memory emulated in RAM, as in the paper (section 4.3, footnote 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory(pub Vec<u8>);

impl Nvram for Memory {
    fn append(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        self.0.extend(bytes);
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        self.0.clear();
        self.0.extend(bytes);
        Ok(())
    }
}

/// The reason for which saved state was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReorganizeStateError {
    /// The bytes do not begin with a header.
    #[error(
        "the staging area has no reorganiser's state: the first {HEADER_BYTES} bytes are not a header; give the staging area's memory"
    )]
    NotState,
    /// The state is of another version.
    #[error(
        "the state has version {0}, this program reads {VERSION}; recover with the program that wrote it"
    )]
    Version(u32),
    /// The state is of another plan.
    #[error("the state belongs to another plan; give the plan that was under way")]
    OtherPlan,
    /// The state is of a drive with other sectors.
    #[error("the state is of sectors of {0}; give the same drive")]
    SectorBytes(Bytes),
    /// The state may have more staged blocks than the given staging area has room for.
    #[error("the state needs a staging area of {needed} blocks, {given} are given; give as many as before")]
    StagingShrunk {
        /// The size of the staging area when the state was saved, in blocks.
        needed: u64,
        /// The size of the staging area given now, in blocks.
        given: u64,
    },
    /// A checksum does not match.
    #[error(
        "the state is damaged at byte {0}; do not write to the volume before it is mended, blocks may live in it"
    )]
    Damaged(usize),
    /// Two valid entries cannot follow each other.
    #[error(
        "the state contradicts itself at byte {at}: {what}; do not write to the volume before it is mended"
    )]
    Contradiction {
        /// The offset of the entry.
        at: usize,
        /// The contradiction.
        what: &'static str,
    },
}

/// A bad sector that a move met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place of the block when the plan began.
    pub block: LbnRange,
    /// The first bad sector.
    pub bad: Lbn,
    /// The side of the move.
    pub kind: FaultKind,
}

/// The side of a move that was bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The block could not be read and stays; the block that was to take its place takes its destination instead.
    Source,
    /// The block could not be written: it takes another vacated place of its chain of moves, or stays in the staging
    /// area.
    Destination,
}

/// The state of the appended entries: the checksum chain, and the sizes that decide when a checkpoint is due.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    chain: u32,
    checkpoint: usize,
    entries: usize,
}

impl Journal {
    pub fn staged(&mut self, nvram: &mut impl Nvram, b: u32, bytes: &[u8]) -> Result<(), NvramLost> {
        self.append(nvram, STAGED, &[&b.to_le_bytes(), bytes])
    }

    pub fn overwritten(
        &mut self,
        nvram: &mut impl Nvram,
        b: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), NvramLost> {
        self.append(nvram, OVERWRITTEN, &[&b.to_le_bytes(), &offset.to_le_bytes(), bytes])
    }

    pub fn written(&mut self, nvram: &mut impl Nvram, b: u32) -> Result<(), NvramLost> {
        self.append(nvram, WRITTEN, &[&b.to_le_bytes()])
    }

    pub fn bad(
        &mut self,
        nvram: &mut impl Nvram,
        b: u32,
        lbn: Lbn,
        kind: FaultKind,
    ) -> Result<(), NvramLost> {
        let tag = if kind == FaultKind::Source { SOURCE_BAD } else { TARGET_BAD };
        self.append(nvram, tag, &[&b.to_le_bytes(), &lbn.get().to_le_bytes()])
    }

    fn append(&mut self, nvram: &mut impl Nvram, kind: u8, parts: &[&[u8]]) -> Result<(), NvramLost> {
        if !nvram.keeps() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.chain = entry(&mut bytes, self.chain, kind, parts);
        self.entries += bytes.len();
        nvram.append(&bytes)
    }

    /// Returns whether the entries have more bytes than the last checkpoint, so that a new checkpoint costs no more
    /// than these entries did.
    pub fn due(&self) -> bool {
        self.entries > self.checkpoint.max(COMPACTED_BYTES_MIN)
    }

    /// Replaces the contents of the non-volatile memory by a checkpoint of the current state.
    pub fn compact(
        &mut self,
        nvram: &mut impl Nvram,
        of: &JournalHeader,
        links: &Links,
        staging: &Staging,
        faults: &[Fault],
    ) -> Result<(), NvramLost> {
        if !nvram.keeps() {
            return Ok(());
        }
        let mut bytes = of.encode();
        self.chain = entry(&mut bytes, of.chain(), CHECKPOINT, &[&checkpoint(links, staging, faults)]);
        self.checkpoint = bytes.len();
        self.entries = 0;
        nvram.replace(&bytes)
    }
}

/// The header of a saved state, which identifies its plan, sector size and staging area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    digest: u32,
    blocks: u64,
    sector: u64,
    staging: u64,
}

impl JournalHeader {
    pub fn new(plan: &RelocationPlan, sector: Bytes, staging: u64) -> Self {
        Self { digest: plan.digest(), blocks: plan.len() as u64, sector: sector.get(), staging }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.digest.to_le_bytes());
        for n in [self.blocks, self.sector, self.staging] {
            bytes.extend(n.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// Returns the header's checksum, to which the first entry is chained.
    fn chain(&self) -> u32 {
        self.encode().last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum))
    }

    /// Refuses a state that does not begin with this header; a larger staging area is accepted.
    fn check(&self, bytes: &[u8]) -> Result<Self, ReorganizeStateError> {
        let (header, _) = bytes.split_at_checked(HEADER_BYTES).ok_or(ReorganizeStateError::NotState)?;
        let mut fields = Cursor::new(header);
        if fields.take(MAGIC.len()) != Some(MAGIC.as_slice()) {
            return Err(ReorganizeStateError::NotState);
        }
        match fields.u32() {
            Some(VERSION) if unseal(header).is_some() => {}
            Some(VERSION) => return Err(ReorganizeStateError::Damaged(0)),
            version => return Err(ReorganizeStateError::Version(version.unwrap_or_default())),
        }
        let digest = fields.u32().ok_or(ReorganizeStateError::NotState)?;
        let mut word = || fields.u64().ok_or(ReorganizeStateError::NotState);
        let (blocks, sector, staging) = (word()?, word()?, word()?);
        if (digest, blocks) != (self.digest, self.blocks) {
            return Err(ReorganizeStateError::OtherPlan);
        }
        if sector != self.sector {
            return Err(ReorganizeStateError::SectorBytes(Bytes::new(sector)));
        }
        if staging > self.staging {
            return Err(ReorganizeStateError::StagingShrunk { needed: staging, given: self.staging });
        }
        Ok(Self { digest, blocks, sector, staging })
    }
}

/// Appends an entry; returns the checksum to which the next entry is chained.
fn entry(bytes: &mut Vec<u8>, chain: u32, kind: u8, parts: &[&[u8]]) -> u32 {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    let mut head = crc32fast::Hasher::new();
    head.update(&chain.to_le_bytes());
    head.update(&(len as u64).to_le_bytes());
    head.update(&[kind]);
    let head = head.finalize();
    bytes.extend((len as u64).to_le_bytes());
    bytes.push(kind);
    bytes.extend(head.to_le_bytes());
    let mut payload = crc32fast::Hasher::new();
    payload.update(&head.to_le_bytes());
    for part in parts {
        payload.update(part);
        bytes.extend(*part);
    }
    let payload = payload.finalize();
    bytes.extend(payload.to_le_bytes());
    payload
}

fn checkpoint(links: &Links, staging: &Staging, faults: &[Fault]) -> Vec<u8> {
    let count = links.len() as u32;
    let mut bytes = vec![0; links.len().div_ceil(8)];
    for b in (0..count).filter(|&b| links.state(b) == BlockState::Done) {
        bytes[b as usize / 8] |= 1 << (b % 8);
    }
    let stuck: Vec<u32> = (0..count).filter(|&b| links.state(b) == BlockState::Stuck).collect();
    bytes.extend((stuck.len() as u32).to_le_bytes());
    stuck.iter().for_each(|b| bytes.extend(b.to_le_bytes()));
    bytes.extend((links.relinked().count() as u32).to_le_bytes());
    for Relinked { block: b, to, ahead, behind } in links.relinked() {
        bytes.extend(b.to_le_bytes());
        bytes.extend(to.to_le_bytes());
        bytes.extend(ahead.to_le_bytes());
        bytes.extend(behind.to_le_bytes());
    }
    bytes.extend((faults.len() as u32).to_le_bytes());
    for fault in faults {
        bytes.extend(fault.block.start().get().to_le_bytes());
        bytes.extend(fault.bad.get().to_le_bytes());
        bytes.push(u8::from(fault.kind == FaultKind::Destination));
    }
    bytes.extend((staging.len() as u32).to_le_bytes());
    for (b, held) in staging.iter() {
        bytes.extend(b.to_le_bytes());
        bytes.push(u8::from(links.state(b) == BlockState::Kept));
        bytes.extend(held);
    }
    bytes
}

/// The contents of a saved state.
#[derive(Clone, Debug)]
pub struct Recovered {
    pub links: Links,
    pub staging: Staging,
    pub faults: Vec<Fault>,
}

/// Reads a state from its first byte to its last whole entry.
pub fn recover(
    plan: &RelocationPlan,
    header: &JournalHeader,
    bytes: &[u8],
) -> Result<Recovered, ReorganizeStateError> {
    let written = header.check(bytes)?;
    let mut state = Recovered { links: Links::new(plan), staging: Staging::default(), faults: Vec::new() };
    let mut chain = written.chain();
    let mut at = HEADER_BYTES;
    while let Some(found) = next(bytes, at, chain)? {
        let first = at == HEADER_BYTES;
        if first != (found.kind == CHECKPOINT) {
            return Err(ReorganizeStateError::Contradiction {
                at,
                what: "the checkpoint is not the first entry",
            });
        }
        state.apply(&found, header).map_err(|what| ReorganizeStateError::Contradiction { at, what })?;
        if state.links.staged + state.links.kept > written.staging {
            return Err(ReorganizeStateError::Contradiction {
                at,
                what: "more blocks are staged than there is room for",
            });
        }
        (at, chain) = (found.end, found.chain);
    }
    if at == HEADER_BYTES {
        // Header and checkpoint are written together, atomically: a header alone is damage.
        return Err(ReorganizeStateError::Damaged(HEADER_BYTES));
    }
    for b in 0..state.links.len() as u32 {
        state.links.sort(b);
    }
    Ok(state)
}

struct JournalRecord<'a> {
    kind: u8,
    payload: &'a [u8],
    end: usize,
    chain: u32,
}

/// Returns the entry at `at`; `None` at the end, or if the crash cut the last append short.
fn next(bytes: &[u8], at: usize, chain: u32) -> Result<Option<JournalRecord<'_>>, ReorganizeStateError> {
    let damaged = ReorganizeStateError::Damaged(at);
    let Some((head, rest)) = bytes.get(at..).and_then(|r| r.split_at_checked(ENTRY_HEAD_BYTES)) else {
        return Ok(None);
    };
    let mut head = Cursor::new(head);
    let (Some(len), Some(kind), Some(sum)) = (head.u64(), head.u8(), head.u32()) else {
        return Err(damaged);
    };
    let mut expected = crc32fast::Hasher::new();
    expected.update(&chain.to_le_bytes());
    expected.update(&len.to_le_bytes());
    expected.update(&[kind]);
    if expected.finalize() != sum {
        return Err(damaged);
    }
    let len = usize::try_from(len).map_err(|_| damaged)?;
    let mut rest = Cursor::new(rest);
    let (Some(payload), Some(stored)) = (rest.take(len), rest.u32()) else {
        return Ok(None);
    };
    let mut expected = crc32fast::Hasher::new();
    expected.update(&sum.to_le_bytes());
    expected.update(payload);
    let chain = expected.finalize();
    if chain != stored {
        return Err(damaged);
    }
    Ok(Some(JournalRecord { kind, payload, end: at + ENTRY_HEAD_BYTES + len + 4, chain }))
}

const SHORT: &str = "an entry's length does not fit its kind";
const NO_BLOCK: &str = "an entry names a block outside of the plan";

impl Recovered {
    fn apply(&mut self, found: &JournalRecord<'_>, header: &JournalHeader) -> Result<(), &'static str> {
        let mut rest = Cursor::new(found.payload);
        if found.kind == CHECKPOINT {
            return self.checkpoint(rest, header);
        }
        let b = number(&mut rest)?;
        if b as usize >= self.links.len() {
            return Err(NO_BLOCK);
        }
        match found.kind {
            STAGED => {
                if !self.links.waits(b) {
                    return Err("a block was staged that did not wait");
                }
                if rest.left() as u64 != self.bytes(b, header) {
                    return Err(SHORT);
                }
                self.links.stage(b);
                self.staging.insert(b, rest.rest().to_vec());
            }
            OVERWRITTEN => {
                let offset = rest.u64().ok_or(SHORT)?;
                if !self.staging.overwrite(b, offset, rest.rest()) {
                    return Err("bytes were overwritten that are not staged");
                }
            }
            WRITTEN => {
                self.staged(b)?;
                self.links.written(b);
                self.staging.remove(b);
            }
            SOURCE_BAD | TARGET_BAD => {
                let bad = rest.u64().ok_or(SHORT)?;
                let source = found.kind == SOURCE_BAD;
                if source {
                    if !self.links.waits(b) {
                        return Err("a source was bad that was not to be read");
                    }
                    self.links.source_bad(b);
                } else {
                    self.staged(b)?;
                    self.links.target_bad(b);
                }
                let kind = if source { FaultKind::Source } else { FaultKind::Destination };
                let block = self.links.block(b).source();
                self.faults.push(Fault { block, bad: Lbn::new(bad), kind });
            }
            _ => return Err("an entry of an unknown kind"),
        }
        Ok(())
    }

    /// Fails unless block b is staged and can be written to its destination.
    fn staged(&self, b: u32) -> Result<(), &'static str> {
        if self.links.state(b) != BlockState::Staged || !self.links.clear(b) {
            return Err("a block was written that was not to be written");
        }
        Ok(())
    }

    fn bytes(&self, b: u32, header: &JournalHeader) -> u64 {
        u64::from(self.links.block(b).sectors).saturating_mul(header.sector)
    }

    fn checkpoint(&mut self, mut rest: Cursor<'_>, header: &JournalHeader) -> Result<(), &'static str> {
        let rest = &mut rest;
        let count = self.links.len();
        let bits = rest.take(count.div_ceil(8)).ok_or(SHORT)?;
        let mut states: Vec<BlockState> = (0..count)
            .map(|b| if bits[b / 8] >> (b % 8) & 1 == 1 { BlockState::Done } else { BlockState::Unread })
            .collect();
        let mut set = |b: u32, state| {
            let slot = states.get_mut(b as usize).ok_or(NO_BLOCK)?;
            if *slot != BlockState::Unread {
                return Err("a block is in two states");
            }
            *slot = state;
            Ok(())
        };
        for _ in 0..number(rest)? {
            set(number(rest)?, BlockState::Stuck)?;
        }
        for _ in 0..number(rest)? {
            let b = number(rest)?;
            let to = rest.u64().ok_or(SHORT)?;
            let (ahead, behind) = (number(rest)?, number(rest)?);
            if !self.links.relink(b, to, ahead, behind) {
                return Err(NO_BLOCK);
            }
        }
        if !self.links.agree() {
            return Err("two blocks disagree on which of them waits for the other");
        }
        for _ in 0..number(rest)? {
            let start = rest.u64().ok_or(SHORT)?;
            let bad = rest.u64().ok_or(SHORT)?;
            let kind = rest.u8().ok_or(SHORT)?;
            let b = self.links.at(start).ok_or(NO_BLOCK)?;
            let kind = if kind == 0 { FaultKind::Source } else { FaultKind::Destination };
            self.faults.push(Fault { block: self.links.block(b).source(), bad: Lbn::new(bad), kind });
        }
        for _ in 0..number(rest)? {
            let b = number(rest)?;
            let kept = rest.u8().ok_or(SHORT)?;
            set(b, if kept == 0 { BlockState::Staged } else { BlockState::Kept })?;
            let len = usize::try_from(self.bytes(b, header)).map_err(|_| SHORT)?;
            let bytes = rest.take(len).ok_or(SHORT)?;
            self.staging.insert(b, bytes.to_vec());
        }
        if !rest.is_empty() {
            return Err(SHORT);
        }
        self.links.restore(|b| states[b as usize]);
        Ok(())
    }
}

fn number(rest: &mut Cursor<'_>) -> Result<u32, &'static str> {
    rest.u32().ok_or(SHORT)
}

const _: () =
    assert!(super::plan::NONE as usize >= super::plan::PLAN_BLOCKS_MAX, "no block has the number of none");
