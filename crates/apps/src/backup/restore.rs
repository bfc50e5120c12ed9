//! From an image back to a drive.

use super::image::{self, CHUNK_BYTES, Damage, HEADER_BYTES, Header, What};
use super::{Destination, Source};
use crate::snapshot::{SnapshotId, VolumeId};
use std::collections::BTreeSet;
use thiserror::Error;
use units::Lbn;

/// The content that a destination has: a snapshot of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Of this volume.
    pub volume: VolumeId,
    /// This snapshot.
    pub snapshot: SnapshotId,
}

/// Why nothing, or not all, was restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The image is damaged; nothing was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The image goes on top of something else; nothing was written.
    #[error(
        "the image is a difference from {needs} of {volume}, and the destination does not have that; restore it first"
    )]
    WrongBase {
        /// What has to be there.
        needs: SnapshotId,
        /// Of this volume.
        volume: VolumeId,
    },
    /// The destination stopped.
    #[error("the destination cannot be written at LBN {at}: {why}; restore again from the start")]
    Destination {
        /// Where.
        at: Lbn,
        /// Why.
        why: String,
    },
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the destination has now; give it to the next image of the chain.
    pub point: Point,
    /// Blocks written.
    pub blocks: u64,
    /// Sectors, at their homes, that the backup could not read: not written.
    pub missing: Vec<Lbn>,
    /// What was damaged, of a salvage.
    pub damage: Vec<Damage>,
}

/// Reads all of an image and compares every checksum, index and footer.
///
/// # Errors
/// The first damage.
pub fn verify<S: Source>(source: &mut S) -> Result<Header, Damage> {
    let scan = image::scan(source)?;
    scan.cut.map_or(Ok(scan.header), Err)
}

/// Restores a whole image: verifies all of it, then writes each block to its home. `onto` is what the destination has;
/// a full image needs nothing.
///
/// # Errors
/// See [`RestoreError`]; a damaged image, or one for another base, changes nothing.
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
    Ok(restored)
}

/// Restores what is undamaged: passes over damage to the next sound chunk, and says what it met.
///
/// # Errors
/// The header is damaged, the base is wrong, or the destination stops.
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
                    index.push((chunk.block, at));
                    put(&header, &chunk, destination, &mut restored)?;
                }
                at = chunk.end;
            }
            Ok(None) => {
                restored.damage.extend(image::ending(source, &header, at, &index).err());
                return Ok(restored);
            }
            Err(damage) => {
                restored.damage.push(damage);
                let Some(next) = resynchronise(source, &header, at + 1)? else { return Ok(restored) };
                at = next;
            }
        }
    }
}

/// The next place at which a sound chunk, or the index, begins.
fn resynchronise<S: Source>(source: &mut S, header: &Header, from: u64) -> Result<Option<u64>, Damage> {
    /// Bytes looked through at a time.
    const WINDOW: usize = 1 << 16;
    let mut at = from;
    loop {
        let bytes = image::bytes_at(source, at, WINDOW)?;
        for i in 0..bytes.len().saturating_sub(3) {
            let here = at + i as u64;
            if matches!(&bytes[i..i + 4], b"CHNK") && image::chunk(source, header, here).is_ok() {
                return Ok(Some(here));
            }
        }
        if bytes.len() < WINDOW {
            return Ok(None);
        }
        at += WINDOW as u64 - (CHUNK_BYTES - 1).min(3);
    }
}

fn fits(header: &Header, onto: Option<Point>) -> Result<(), RestoreError> {
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
        let why = match destination.write_at(at, bytes) {
            Ok(true) => continue,
            Ok(false) => "it takes no more".into(),
            Err(why) => why,
        };
        return Err(RestoreError::Destination { at, why });
    }
    restored.blocks += 1;
    restored.missing.extend(chunk.bad.iter().map(|s| Lbn::new(home.get() + u64::from(*s))));
    Ok(())
}

/// The runs of sectors between the bad ones, and where they go.
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

/// Whether an error means that the image is unfinished rather than damaged.
pub fn is_unfinished(damage: &Damage) -> bool {
    matches!(damage.what, What::Incomplete { .. })
}
