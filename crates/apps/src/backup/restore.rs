//! Restores images to a drive.

use super::image::{self, CHUNK_BYTES, Damage, HEADER_BYTES, Header, Index, IndexEntry, What};
use super::{Destination, Source};
use crate::snapshot::{SnapshotId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// The content of a destination: a snapshot of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The volume.
    pub volume: VolumeId,
    /// The snapshot.
    pub snapshot: SnapshotId,
}

/// The reason for which nothing, or only a part, was restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The image is damaged, so nothing was written; or the source failed, perhaps while blocks were written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The image is a difference from another content than the destination's; nothing was written.
    #[error(
        "the image is a difference from {needs} of {volume}, which the destination does not hold; restore {needs} first"
    )]
    WrongBase {
        /// The snapshot that the destination must have.
        needs: SnapshotId,
        /// The volume of that snapshot.
        volume: VolumeId,
    },
    /// No image was given.
    #[error("no image is given; give the full image, and the differences on top of it in order")]
    NoImage,
    /// The range is not on the volume.
    #[error("LBNs {range} are not on the volume, which is LBNs {volume}; ask for a part of it")]
    Outside {
        /// The requested range.
        range: LbnRange,
        /// The LBNs of the volume.
        volume: LbnRange,
    },
    /// The destination stopped taking blocks.
    #[error("the destination cannot be written at LBN {at}: {why}; restore again from the start")]
    Destination {
        /// The first LBN of the write that failed.
        at: Lbn,
        /// The reason, in the destination's words.
        why: String,
    },
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The destination's new content; pass it to the next image of the chain.
    pub point: Point,
    /// Blocks written.
    pub blocks: u64,
    /// Sectors that the backup could not read; they were not written.
    pub missing: Vec<Lbn>,
    /// The damage that [`salvage`] skipped.
    pub damage: Vec<Damage>,
}

/// Reads all of an image and verifies every checksum, the index and the footer.
///
/// # Errors
/// The first damage.
pub fn verify<S: Source>(source: &mut S) -> Result<Header, Damage> {
    let scan = image::scan(source)?;
    let header = Header { chunks: scan.chunks(), ..scan.header };
    scan.cut.map_or(Ok(header), Err)
}

/// Restores a whole image: verifies all of it, then writes each block to its address. `onto` is the destination's
/// content; a full image needs none.
///
/// # Errors
/// See [`RestoreError`]; an image that is damaged, or a difference from another base, changes nothing.
pub fn restore<S: Source, D: Destination>(
    source: &mut S,
    onto: Option<Point>,
    destination: &mut D,
) -> Result<Restored, RestoreError> {
    let header = verify(source)?;
    fits(&header, onto)?;
    let mut restored = begin(&header);
    let mut at = HEADER_BYTES;
    while let Some(chunk) = image::chunk(source, &header, at)? {
        at = chunk.end;
        put(&header, &chunk, destination, &mut restored)?;
    }
    sync(&header, destination)?;
    Ok(restored)
}

/// Restores the undamaged chunks: skips damage up to the next sound chunk, and reports it.
///
/// # Errors
/// The header is damaged, the base is wrong, or the source or the destination fails.
pub fn salvage<S: Source, D: Destination>(
    source: &mut S,
    onto: Option<Point>,
    destination: &mut D,
) -> Result<Restored, RestoreError> {
    let header = image::header(source)?;
    fits(&header, onto)?;
    let mut restored = begin(&header);
    let (mut at, mut index, mut seen) = (HEADER_BYTES, Vec::new(), BTreeSet::new());
    loop {
        match image::chunk(source, &header, at) {
            Ok(Some(chunk)) => {
                if seen.insert(chunk.block) {
                    index.push(IndexEntry { block: chunk.block, at });
                    put(&header, &chunk, destination, &mut restored)?;
                }
                at = chunk.end;
            }
            Ok(None) => {
                restored.damage.extend(image::ending(source, &header, at, &index).err());
                break;
            }
            Err(damage) => {
                restored.damage.push(damage);
                let Some(next) = resynchronise(source, &header, at + 1)? else { break };
                at = next;
            }
        }
    }
    sync(&header, destination)?;
    Ok(restored)
}

/// The result of restoring a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredRange {
    /// The snapshot whose content the range now has.
    pub point: Point,
    /// Sectors written.
    pub sectors: u64,
    /// Sectors of the range that the backup could not read; they were not written.
    pub missing: Vec<Lbn>,
    /// Blocks of the range that no image has, because they were empty; they were not written.
    pub holes: u64,
}

/// Restores only `range` from a chain of images: the full one first, then differences, each on top of the one before.
/// All indices are verified before the first block is written, and each block is read only from the newest image that
/// has it.
///
/// # Errors
/// See [`RestoreError`]. Nothing is written in case of an error, unless a source or the destination fails while
/// blocks are written.
pub fn restore_range<S: Source, D: Destination>(
    images: &mut [S],
    range: LbnRange,
    destination: &mut D,
) -> Result<RestoredRange, RestoreError> {
    let mut onto = None;
    let mut newest: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let mut blocks = 0;
    for (i, source) in images.iter_mut().enumerate() {
        let index = Index::open(source)?;
        let header = index.header();
        fits(header, onto)?;
        onto = Some(begin(header).point);
        let (first, end) = blocks_of(header, range)?;
        blocks = end - first;
        newest.extend(index.find(source, first, end)?.into_iter().map(|(block, at)| (block, (i, at))));
    }
    let point = onto.ok_or(RestoreError::NoImage)?;
    let holes = blocks - newest.len() as u64;
    let mut restored = RestoredRange { point, sectors: 0, missing: Vec::new(), holes };
    for write in [false, true] {
        for (&block, &(i, at)) in &newest {
            let Some(source) = images.get_mut(i) else { continue };
            let header = image::header(source)?;
            let chunk = image::chunk(source, &header, at)?.filter(|chunk| chunk.block == block);
            let chunk = chunk.ok_or(Damage { at, what: What::Index })?;
            if write {
                put_part(&header, &chunk, range, destination, &mut restored)?;
            }
        }
    }
    destination.sync().map_err(|why| RestoreError::Destination { at: range.start(), why })?;
    Ok(restored)
}

/// Returns the first block that `range` touches, and the block after the last.
fn blocks_of(header: &Header, range: LbnRange) -> Result<(u64, u64), RestoreError> {
    let shape = &header.shape;
    let size = shape.block.get();
    let volume = LbnRange::new(shape.first, Sectors::new(shape.blocks.saturating_mul(size)));
    let inside =
        range.start() >= volume.start() && range.checked_end().is_some_and(|end| end <= volume.end());
    if !inside || range.is_empty() {
        return Err(RestoreError::Outside { range, volume });
    }
    let sectors = |lbn: Lbn| lbn.since(shape.first).get();
    Ok((sectors(range.start()) / size, sectors(range.end()).div_ceil(size)))
}

/// Writes the part of a chunk that lies in the range.
fn put_part<D: Destination>(
    header: &Header,
    chunk: &image::Chunk,
    range: LbnRange,
    destination: &mut D,
    restored: &mut RestoredRange,
) -> Result<(), RestoreError> {
    let (home, sector) = (header.shape.home(chunk.block), header.sector_bytes as usize);
    for (at, bytes) in sound(home, sector, &chunk.bytes, &chunk.bad) {
        let len = (bytes.len() / sector.max(1)) as u64;
        let from = at.get().max(range.start().get());
        let to = (at.get() + len).min(range.end().get());
        let part = from.checked_sub(at.get()).zip(to.checked_sub(at.get()));
        let part = part.and_then(|(a, b)| bytes.get(a as usize * sector..b as usize * sector));
        let Some(part) = part.filter(|part| !part.is_empty()) else { continue };
        write(destination, Lbn::new(from), part)?;
        restored.sectors += to - from;
    }
    let bad = chunk.bad.iter().map(|s| Lbn::new(home.get() + u64::from(*s)));
    restored.missing.extend(bad.filter(|lbn| range.contains(*lbn)));
    Ok(())
}

fn write<D: Destination>(destination: &mut D, at: Lbn, bytes: &[u8]) -> Result<(), RestoreError> {
    let why = match destination.write_at(at, bytes) {
        Ok(true) => return Ok(()),
        Ok(false) => "the target takes no more".into(),
        Err(why) => why,
    };
    Err(RestoreError::Destination { at, why })
}

fn sync<D: Destination>(header: &Header, destination: &mut D) -> Result<(), RestoreError> {
    destination.sync().map_err(|why| RestoreError::Destination { at: header.shape.first, why })
}

/// Returns the next offset at which a sound chunk, or the index, begins.
fn resynchronise<S: Source>(source: &mut S, header: &Header, from: u64) -> Result<Option<u64>, Damage> {
    /// Bytes read at a time.
    const WINDOW_BYTES: usize = 1 << 16;
    let mut at = from;
    loop {
        let bytes = image::bytes_at(source, at, WINDOW_BYTES)?;
        for i in 0..bytes.len().saturating_sub(3) {
            let here = at + i as u64;
            if matches!(&bytes[i..i + 4], b"CHNK") && image::chunk(source, header, here).is_ok() {
                return Ok(Some(here));
            }
        }
        if bytes.len() < WINDOW_BYTES {
            return Ok(None);
        }
        at += WINDOW_BYTES as u64 - (CHUNK_BYTES - 1).min(3);
    }
}

pub(super) fn fits(header: &Header, onto: Option<Point>) -> Result<(), RestoreError> {
    let volume = header.shape.volume;
    match header.base {
        Some(needs) if onto != Some(Point { volume, snapshot: needs }) => {
            Err(RestoreError::WrongBase { needs, volume })
        }
        _ => Ok(()),
    }
}

fn begin(header: &Header) -> Restored {
    let point = Point { volume: header.shape.volume, snapshot: header.snapshot };
    Restored { point, blocks: 0, missing: Vec::new(), damage: Vec::new() }
}

fn put<D: Destination>(
    header: &Header,
    chunk: &image::Chunk,
    destination: &mut D,
    restored: &mut Restored,
) -> Result<(), RestoreError> {
    let home = header.shape.home(chunk.block);
    for (at, bytes) in sound(home, header.sector_bytes as usize, &chunk.bytes, &chunk.bad) {
        write(destination, at, bytes)?;
    }
    restored.blocks += 1;
    restored.missing.extend(chunk.bad.iter().map(|s| Lbn::new(home.get() + u64::from(*s))));
    Ok(())
}

/// Returns the runs of good sectors between the bad ones, with their addresses.
pub(super) fn sound<'a>(home: Lbn, sector: usize, bytes: &'a [u8], bad: &[u32]) -> Vec<(Lbn, &'a [u8])> {
    let sectors = bytes.len() / sector.max(1);
    let mut runs = Vec::new();
    let mut from = 0;
    for end in bad.iter().map(|s| *s as usize).chain([sectors]) {
        if let Some(run) = bytes.get(from * sector..end * sector).filter(|r| !r.is_empty()) {
            runs.push((Lbn::new(home.get() + from as u64), run));
        }
        from = end + 1;
    }
    runs
}

/// Returns whether the damage is only that the backup was not finished.
pub fn is_unfinished(damage: &Damage) -> bool {
    matches!(damage.what, What::Incomplete { .. })
}
