//! Kept blocks: blocks of a backup that a client is about to overwrite, copied to a file until the backup's target has
//! them.
//!
//! The file is a log of the state directory ([`crate::state`]), so that a foreground write waits for this file only,
//! and not for the target, which may be slow, full or unreachable. The first record is the header of the image. Each
//! other record is a block: its number (u64), the number of its bad sectors (u32), their numbers (u32 each), and its
//! bytes. If one of the records may be lost, the backup fails, because the disk's content of that block is newer.

use super::source::no_room;
use crate::file_system::{Files, How, put_aside};
use crate::state::{Broken, Damage, Log, LogKind, Scan, end_path};
use crate::task::budget::{Budget, Reservation};
use apps::backup::image::Header;
use scheduler::BlockSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Bytes;

/// The kept blocks of a task.
pub(crate) struct KeptBlocks {
    log: Log,
    /// The budget of bytes that all backups, replicas and snapshots of this disk share, and the part reserved for this
    /// file.
    room: Budget,
    part: Reservation,
    /// Whether a block found no room. The task has failed then, and later blocks are not kept even if they would fit.
    full: bool,
    files: Arc<dyn Files>,
    path: PathBuf,
    header: Header,
    /// The byte of the log at which each block's record begins.
    places: BTreeMap<u64, u64>,
}

/// A block that was read back.
pub(crate) struct Found {
    pub bytes: Vec<u8>,
    /// The sectors of the block that could not be read when it was kept.
    pub bad: Vec<u32>,
}

/// A record of a kept block.
struct KeptBlock<'a> {
    number: u64,
    bad: Vec<u32>,
    bytes: &'a [u8],
}

impl<'a> KeptBlock<'a> {
    fn encode(number: u64, bytes: &[u8], bad: &[u32]) -> Vec<u8> {
        let mut body = number.to_le_bytes().to_vec();
        body.extend((bad.len() as u32).to_le_bytes());
        body.extend(bad.iter().flat_map(|sector| sector.to_le_bytes()));
        body.extend(bytes);
        body
    }

    fn decode(body: &'a [u8], header: &Header) -> Option<Self> {
        let (number, rest) = body.split_first_chunk::<8>()?;
        let (bad, rest) = rest.split_first_chunk::<4>()?;
        let number = u64::from_le_bytes(*number);
        let (bad, bytes) = rest.split_at_checked((u32::from_le_bytes(*bad) as usize).checked_mul(4)?)?;
        let bad = bad.chunks_exact(4).filter_map(|b| b.try_into().ok()).map(u32::from_le_bytes).collect();
        let whole = bytes.len() == header.block_bytes() && number < header.shape.blocks;
        whole.then_some(Self { number, bad, bytes })
    }
}

/// Reads the kept blocks; one block may occur several times.
fn read(
    files: &dyn Files,
    path: &Path,
    header: &Header,
    mut each: impl FnMut(KeptBlock<'_>, u64),
) -> Result<Option<Scan>, Broken> {
    let (mut first, mut next) = (true, Log::FIRST_RECORD_BYTE);
    Scan::read(files, path, LogKind::Kept, Some(header.image), |body| {
        let at = next;
        next += Log::record_bytes(body.len());
        if std::mem::take(&mut first) {
            return body == header.encode();
        }
        KeptBlock::decode(body, header).map(|block| each(block, at)).is_some()
    })
}

/// Returns the damage of a file that must exist and does not.
fn gone(path: &Path) -> Broken {
    let damage = Damage::Gone { acknowledged: 1 };
    Broken { path: path.into(), damage, note: None, whole: false }
}

fn lost(broken: &Broken) -> String {
    format!(
        "{broken}; blocks that clients have overwritten since this copy began may be lost, so it cannot be completed; begin \
         a new one"
    )
}

fn no_room_left(room: &Budget) -> String {
    format!(
        "more than {} bytes of the disk as it was had to be kept for all its copies and snapshots together, the bound \
         `keep` of the configuration; raise `keep`, have fewer copies and snapshots at a time, or give a copy's target more room, and begin anew",
        room.most().get()
    )
}

impl KeptBlocks {
    /// Opens the file, or creates it, and returns the blocks in it. `begun` is the number of records that the file must
    /// have at least, if the task has begun.
    pub fn open(
        shared: &Arc<dyn Files>,
        path: &Path,
        header: Header,
        room: Budget,
        begun: Option<u64>,
    ) -> Result<(Self, BlockSet), String> {
        let files = &**shared;
        let mut present = BlockSet::empty(header.shape.blocks);
        let mut places = BTreeMap::new();
        let read = read(files, path, &header, |block, at| {
            present.insert(block.number);
            places.entry(block.number).or_insert(at);
        });
        let read =
            read.and_then(|scan| match scan.as_ref().and_then(|scan| scan.older_than(begun.unwrap_or(0))) {
                Some(damage) => Err(Broken { path: path.into(), damage, note: None, whole: true }),
                None => Ok(scan),
            });
        let is_new = matches!(read, Ok(None));
        let log = match read {
            Ok(Some(scan)) => Log::resume(files, path, LogKind::Kept, scan),
            Ok(None) if begun.is_none() => {
                Log::create(files, path, LogKind::Kept, header.image, &header.encode(), &[])
            }
            Ok(None) => return Err(lost(&gone(path))),
            Err(broken) => {
                // The damaged file is renamed for an operator to inspect. If that fails, it is removed when the task
                // ends.
                let _ = put_aside(files, path);
                let _ = put_aside(files, &end_path(path));
                return Err(lost(&broken));
            }
        };
        let log = log.map_err(|error| format!("{}: {error}", path.display()))?;
        let bytes = Bytes::new(log.bytes());
        let part = if is_new { room.take(bytes) } else { Some(room.take_again(bytes)) };
        let Some(part) = part else {
            // If the file cannot be removed now, it is removed when the task ends.
            let _ = files.remove(path);
            return Err(no_room_left(&room));
        };
        let files = Arc::clone(shared);
        Ok((Self { log, room, part, full: false, files, path: path.into(), header, places }, present))
    }

    /// Reads a block back.
    ///
    /// # Errors
    /// The block may be lost.
    pub fn read(&self, block: u64) -> Result<Found, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.path.display());
        let Some(at) = self.places.get(&block) else { return Err(lost(&gone(&self.path))) };
        let file = self.files.open(&self.path, How::Read).map_err(failed)?;
        let body = Log::read_back(file, *at).map_err(failed)?;
        let found = body.as_deref().and_then(|body| KeptBlock::decode(body, &self.header));
        match found.filter(|found| found.number == block) {
            Some(found) => Ok(Found { bytes: found.bytes.to_vec(), bad: found.bad }),
            None => {
                let damage = Damage::ReadBack { at: *at };
                Err(lost(&Broken { path: self.path.clone(), damage, note: None, whole: false }))
            }
        }
    }

    /// Appends a block, durably. Returns the number of records in the file.
    pub fn keep(&mut self, block: u64, bytes: &[u8], bad: &[u32]) -> Result<u64, String> {
        let record = KeptBlock::encode(block, bytes, bad);
        let bytes = Bytes::new(Log::record_bytes(record.len()));
        self.full = self.full || !self.room.add_or_release(&mut self.part, bytes);
        if self.full {
            return Err(no_room_left(&self.room));
        }
        let at = self.log.bytes();
        let appended = self.log.append(&record, &[]);
        if appended.is_ok() {
            self.places.entry(block).or_insert(at);
        }
        appended.map(|()| self.log.records()).map_err(|error| match no_room(&error) {
            true => "the state directory is full; make room, and begin anew".into(),
            false => format!("the state directory fails: {error}; begin anew"),
        })
    }
}

/// Reads all kept blocks one by one. If a block occurs more than once, the first counts.
///
/// # Errors
/// Some blocks may be missing.
pub(crate) fn each(
    files: &dyn Files,
    path: &Path,
    header: &Header,
    mut put: impl FnMut(u64, &[u8], &[u32]),
) -> Result<(), String> {
    match read(files, path, header, |block, _| put(block.number, block.bytes, &block.bad)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(lost(&gone(path))),
        Err(broken) => Err(lost(&broken)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_system::Machine;
    use apps::backup::image::OPEN;
    use apps::snapshot::{Shape, SnapshotId, VolumeId};
    use units::{Lbn, Sectors};

    #[test]
    fn a_copy_that_has_found_no_room_keeps_no_block_any_more() {
        let directory = std::env::temp_dir().join(format!("freeblock-kept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let shape = Shape { volume: VolumeId(1), first: Lbn::ZERO, block: Sectors::new(8), blocks: 10 };
        let header =
            Header { image: 1, shape, snapshot: SnapshotId(1), base: None, sector_bytes: 512, chunks: OPEN };
        let room = Budget::of(Bytes::new(10_000));
        let files: Arc<dyn Files> = Arc::new(Machine::default());
        let (mut kept, _) =
            KeptBlocks::open(&files, &directory.join("kept"), header, room.clone(), None).unwrap();
        let mut keep = |block| kept.keep(block, &[0; 4_096], &[]).err();
        assert_eq!((keep(0), keep(1)), (None, None));
        let refused = keep(2).unwrap();
        assert!(refused.starts_with("more than 10000 bytes"), "{refused}");
        assert_eq!(room.left(), room.most());
        // The smaller blocks would fit, but are refused, too.
        assert_eq!((keep(3), keep(4)), (Some(refused.clone()), Some(refused)));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
