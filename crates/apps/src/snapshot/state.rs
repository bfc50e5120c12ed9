//! Saves and loads the volume's maps as bytes.

use super::volume::{Cow, Geometry, GeometryError, Kept, SnapshotError, Version, Volume};
use super::{SnapshotId, VolumeId};
use crate::codec::{Cursor, put_varint, seal, unseal};
use crate::set::run;
use thiserror::Error;
use units::{Lbn, Sectors};

const MAGIC: &[u8; 8] = b"FBVOLUME";
const VERSION: u16 = 1;

/// The reason for which saved maps were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VolumeStateError {
    /// The bytes are not a saved volume.
    #[error("not the saved maps of a volume: the first 8 bytes should be FBVOLUME")]
    Foreign,
    /// The checksum does not match.
    #[error(
        "the saved maps are damaged: their checksum does not fit; restore the copy saved before, and its journal"
    )]
    Damaged,
    /// The maps were saved by a later version.
    #[error("the saved maps are of version {0}, this reads {VERSION}; use the program that saved them")]
    Version(u16),
    /// The bytes end early, or contradict themselves.
    #[error(
        "the saved maps contradict themselves at byte {0}; restore the copy saved before, and its journal"
    )]
    Nonsense(usize),
    /// The geometry is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

impl Volume {
    /// Returns the maps as bytes, in a new generation: journal entries made from here on apply to these bytes, and
    /// earlier ones are included.
    ///
    /// # Errors
    /// Writes are under way: one of their entries could be lost between the generations.
    pub fn save(&mut self) -> Result<Vec<u8>, SnapshotError> {
        self.quiet()?;
        self.generation += 1;
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(u8::from(self.cow == Cow::Snapshot));
        out.extend_from_slice(&self.geometry.volume.0.to_le_bytes());
        let Geometry { first, block, blocks, slots, .. } = self.geometry;
        for n in [first.get(), block.get(), blocks, slots, self.generation, self.epoch] {
            put_varint(&mut out, n);
        }
        for list in [&self.live, &self.invalid] {
            put_varint(&mut out, list.len() as u64);
            list.iter().for_each(|id| put_varint(&mut out, id.0));
        }
        put_varint(&mut out, self.retired.len() as u64);
        self.retired.iter().for_each(|slot| put_varint(&mut out, *slot));
        let mut runs = Vec::new();
        let mut at = 0;
        while let Some(first) = self.used.next(at) {
            let len = run(&self.used, first, blocks);
            runs.push((first - at, len));
            at = first + len;
        }
        put_varint(&mut out, runs.len() as u64);
        for (gap, len) in runs {
            put_varint(&mut out, gap);
            put_varint(&mut out, len);
        }
        put_varint(&mut out, self.moved.len() as u64);
        for (block, version) in &self.moved {
            for n in [*block, version.slot, version.born] {
                put_varint(&mut out, n);
            }
        }
        put_varint(&mut out, self.kept.values().flatten().count() as u64);
        for (block, kept) in self.kept.iter().flat_map(|(b, list)| list.iter().map(move |k| (b, k))) {
            for n in [*block, kept.slot.map_or(0, |s| s + 1), kept.born, kept.until] {
                put_varint(&mut out, n);
            }
        }
        seal(&mut out);
        Ok(out)
    }

    /// Loads a saved volume.
    ///
    /// # Errors
    /// The bytes are damaged, foreign, or contradict themselves.
    pub fn load(bytes: &[u8]) -> Result<Self, VolumeStateError> {
        if !bytes.starts_with(MAGIC) {
            return Err(VolumeStateError::Foreign);
        }
        let body = unseal(bytes).ok_or(VolumeStateError::Damaged)?;
        let mut cursor = Cursor::new(body);
        let total = cursor.left();
        let parsed = parse(&mut cursor);
        parsed?.filter(|_| cursor.is_empty()).ok_or(VolumeStateError::Nonsense(total - cursor.left()))
    }
}

/// Returns `None` if the bytes end early or contradict themselves.
fn parse(c: &mut Cursor<'_>) -> Result<Option<Volume>, VolumeStateError> {
    let (Some(_), Some(version)) = (c.take(8), c.u16()) else { return Ok(None) };
    if version != VERSION {
        return Err(VolumeStateError::Version(version));
    }
    let Some((geometry, cow)) = geometry(c) else { return Ok(None) };
    Ok(maps(c, Volume::new(geometry, cow)?))
}

fn geometry(c: &mut Cursor<'_>) -> Option<(Geometry, Cow)> {
    let cow = match c.u8()? {
        0 => Cow::Application,
        1 => Cow::Snapshot,
        _ => return None,
    };
    let volume = VolumeId(c.u128()?);
    let (first, block) = (Lbn::new(c.varint()?), Sectors::new(c.varint()?));
    Some((Geometry { volume, first, block, blocks: c.varint()?, slots: c.varint()? }, cow))
}

fn maps(c: &mut Cursor<'_>, mut volume: Volume) -> Option<Volume> {
    let Geometry { blocks, slots, .. } = volume.geometry;
    volume.generation = c.varint()?;
    volume.epoch = c.varint().filter(|e| *e < u64::MAX)?;
    for n in [0, 1] {
        for _ in 0..c.varint()? {
            let id = c.varint().filter(|id| *id > 0 && *id <= volume.epoch).map(SnapshotId)?;
            let fresh = !volume.live.contains(&id);
            let list = if n == 0 { &mut volume.live } else { &mut volume.invalid };
            (fresh && list.insert(id)).then_some(())?;
        }
    }
    volume.free = scheduler::BlockSet::full(slots);
    for _ in 0..c.varint()? {
        let slot = c.varint()?;
        (volume.free.remove(slot) && volume.retired.insert(slot)).then_some(())?;
    }
    let mut at = 0u64;
    for _ in 0..c.varint()? {
        let first = at.checked_add(c.varint()?)?;
        let end = first.checked_add(c.varint()?).filter(|end| *end <= blocks)?;
        volume.used.remove_range(at, first);
        at = end;
    }
    volume.used.remove_range(at, blocks);
    for _ in 0..c.varint()? {
        let (block, slot, born) = (c.varint()?, c.varint()?, c.varint()?);
        let fits = volume.used.contains(block) && slot < slots && born <= volume.epoch;
        (fits && volume.moved.insert(block, Version { slot, born }).is_none()).then_some(())?;
    }
    // The slots with the current content: blocks are at home unless they have moved.
    let mut next = 0;
    while let Some(block) = volume.used.next(next) {
        match volume.moved.get(&block) {
            Some(version) => {
                volume.free.remove(version.slot).then_some(())?;
                next = block + 1;
            }
            None => {
                let end = volume.moved.range(block..).next().map_or(blocks, |(b, _)| *b);
                let len = run(&volume.used, block, end);
                (volume.free.remove_range(block, block + len) == len).then_some(())?;
                next = block + len;
            }
        }
    }
    for _ in 0..c.varint()? {
        let (block, slot, born, until) = (c.varint()?, c.varint()?, c.varint()?, c.varint()?);
        let slot = slot.checked_sub(1);
        let free = slot.is_none_or(|s| volume.free.remove(s));
        (free && block < blocks && born < until && until <= volume.epoch).then_some(())?;
        volume.kept.entry(block).or_default().push(Kept { slot, born, until });
    }
    Some(volume)
}
