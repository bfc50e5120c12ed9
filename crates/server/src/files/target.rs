//! The target of a backup: an image or a replica.

use super::chain::Chain;
use super::durable::Durable;
use super::kept;
use super::replica::ReplicaTarget;
use super::source::{FileDestination, FileSink, FileSource};
use super::{identified, not_opened};
use crate::file_system::{File, Files, How, LastingIdentity, Lock};
use crate::task::file_request::{FileResult, ImageTarget};
use apps::backup::image::{self, Header, OPEN};
use apps::backup::{ImageWriter, load_set, save_set};
use scheduler::BlockSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use units::Sectors;

/// An open image or replica.
pub(crate) struct OpenImage {
    output: Box<dyn Durable>,
    replica: bool,
    header: Header,
    files: Arc<dyn Files>,
    kept: PathBuf,
    path: PathBuf,
    place: String,
    /// The former images to compare with, if the target holds only differences.
    chain: Option<Chain>,
    /// The blocks in the target, and those unchanged since the former images.
    has: BlockSet,
    /// For a target that holds only differences, the blocks that are not in it because they are unchanged.
    same: BlockSet,
    /// The beginning of the task's record in the journal: the identity of the target's file.
    identity: Vec<u8>,
    /// Whether the target's header is durable.
    headed: bool,
    /// Whether `output` knows that all blocks were written.
    ended: bool,
    /// The failure after which the target cannot be used until it is opened again.
    lost: Option<String>,
}

impl Durable for ImageWriter<FileSink> {
    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        ImageWriter::put(self, block, bytes, bad);
    }

    fn flush(&mut self) -> Result<bool, String> {
        ImageWriter::flush(self)
    }

    fn finish(&mut self) {
        ImageWriter::finish(self);
    }

    fn sync(&mut self) -> Result<Vec<u8>, String> {
        self.sink_mut().sync_now().map(|()| Vec::new())
    }

    fn full(&mut self) -> String {
        self.sink_mut().full().to_owned()
    }

    fn file(&mut self) -> &mut dyn File {
        self.sink_mut().file()
    }

    fn written(&mut self) -> Option<u64> {
        Some(self.sink_mut().place())
    }
}

/// A target that is open and locked for this task alone.
struct Claimed {
    file: Box<dyn File>,
    identity: LastingIdentity,
    /// Whether the file is another than the one in the task's record.
    other: bool,
}

impl OpenImage {
    /// Opens the target; returns it with the blocks in it.
    pub fn new(
        files: &Arc<dyn Files>,
        target: ImageTarget,
        kept: PathBuf,
    ) -> Result<(Self, BlockSet), FileResult> {
        let place = target.path.display().to_string();
        let refused = |why: &str| FileResult::Refused(format!("{place}: {why}"));
        if target.own.iter().any(|own| files.is_same(own, &target.path)) {
            return Err(refused("the path is the disk itself; name another file"));
        }
        let blocks = target.header.shape.blocks;
        let (mut has, mut same) = (BlockSet::empty(blocks), BlockSet::empty(blocks));
        let mut chain = None;
        if !target.since.is_empty() {
            let capacity = Sectors::new(target.capacity);
            chain = Some(Chain::open(&**files, &target.since, &target.header, capacity)?);
        }
        let damaged = || refused("the task's progress is damaged; begin anew");
        let (known, progress) = identified::split(&target.saved).ok_or_else(damaged)?;
        let mut acknowledged = 0;
        if !progress.is_empty() && !target.replica {
            let (chunks, set) = progress.split_first_chunk::<8>().ok_or_else(damaged)?;
            acknowledged = u64::from_le_bytes(*chunks);
            if chain.is_some() {
                same = load_set(set, blocks).ok_or_else(damaged)?;
            }
        }
        let claimed = claim(&**files, &target, known)?;
        let identity = identified::begin(&claimed.identity.text);
        let output: Box<dyn Durable> = match target.replica {
            true => Self::replica(&target, claimed, progress, known.is_some(), &mut has)?,
            false => Self::image(&target, claimed, chain.as_ref(), acknowledged, &mut has)?,
        };
        let headed = !has.is_empty();
        same.for_each(0, blocks, |block| {
            let _ = has.insert(block);
        });
        let (header, files) = (target.header, Arc::clone(files));
        let open = Self {
            output,
            replica: target.replica,
            header,
            files,
            kept,
            path: target.path,
            place,
            chain,
            has: has.clone(),
            same,
            identity,
            headed,
            ended: false,
            lost: None,
        };
        Ok((open, has))
    }

    /// Returns the task's record in the journal as it is before anything is written.
    pub fn first(&self) -> Vec<u8> {
        self.identity.clone()
    }

    fn image(
        target: &ImageTarget,
        claimed: Claimed,
        chain: Option<&Chain>,
        acknowledged: u64,
        has: &mut BlockSet,
    ) -> Result<Box<dyn Durable>, FileResult> {
        let place = target.path.display();
        let header = match chain.and_then(Chain::base) {
            Some(base) => Header { base: Some(base), chunks: OPEN, ..target.header },
            None => target.header,
        };
        let trouble = |e: io::Error| FileResult::Trouble(format!("{place}: {e}"));
        let Claimed { mut file, other, .. } = claimed;
        if file.is_device().map_err(trouble)? {
            return Err(FileResult::Refused(format!(
                "{place}: an image is a file; name a file, or make a replica"
            )));
        }
        if target.fresh && target.force {
            file.set_len(0).map_err(trouble)?;
        }
        // The old content of blocks overwritten since the task began is nowhere but in the image.
        let cut = |left: u64, why: &str| {
            FileResult::Refused(format!(
                "{place}: {acknowledged} blocks of this backup were in it, and {left} are: {why}; make a new backup"
            ))
        };
        if file.len().map_err(trouble)? == 0 {
            if acknowledged > 0 {
                return Err(cut(0, "the file was emptied"));
            }
            if other {
                return Err(another(target));
            }
            return Ok(Box::new(ImageWriter::new(header, FileSink::new(file, 0))));
        }
        let mut source = FileSource(file);
        let scan = match image::scan(&mut source) {
            Ok(scan) if scan.header == header => scan,
            // A crash has cut off our header, so no block was durable.
            Err(_) if !target.fresh && !other && acknowledged == 0 && short(&mut source) => {
                source.0.set_len(0).map_err(trouble)?;
                return Ok(Box::new(ImageWriter::new(header, FileSink::new(source.0, 0))));
            }
            _ if target.fresh => {
                return Err(FileResult::Refused(format!(
                    "{place}: something else is there; name a new file, or say force"
                )));
            }
            Err(damage) => return Err(FileResult::Refused(format!("{place}: {damage}"))),
            Ok(_) => {
                return Err(FileResult::Refused(format!(
                    "{place}: another image is in the place of this one; make a new backup"
                )));
            }
        };
        if let Some(image::Damage { at, what: image::What::Source(why) }) = &scan.cut {
            return Err(FileResult::Trouble(format!("{place}: at byte {at}: {why}")));
        }
        if scan.chunks() < acknowledged {
            let why = scan.cut.as_ref().map_or("it was cut".into(), ToString::to_string);
            return Err(cut(scan.chunks(), &why));
        }
        source.0.set_len(scan.keep).map_err(trouble)?;
        // Blocks in the image that a killed daemon wrote may not be durable. From here on they count as durable,
        // and clients may overwrite them on the disk.
        source.0.sync().map_err(trouble)?;
        let at = scan.keep;
        let writer = ImageWriter::resume(scan, FileSink::new(source.0, at));
        writer.blocks().for_each(|block| {
            let _ = has.insert(block);
        });
        Ok(Box::new(writer))
    }

    fn replica(
        target: &ImageTarget,
        claimed: Claimed,
        progress: &[u8],
        is_known: bool,
        has: &mut BlockSet,
    ) -> Result<Box<dyn Durable>, FileResult> {
        let place = target.path.display();
        let trouble = |e: io::Error| FileResult::Trouble(format!("{place}: {e}"));
        let refused = |why: String| FileResult::Refused(format!("{place}: {why}"));
        let Claimed { mut file, other, identity } = claimed;
        if other {
            return Err(another(target));
        }
        // An earlier version of this program claimed the name and wrote nothing, so any file may have the name
        // now.
        let fresh = target.fresh || !is_known && progress.is_empty();
        let sector = u64::from(target.header.sector_bytes);
        let (len, size) = (file.len().map_err(trouble)?, target.capacity.saturating_mul(sector));
        let device = file.is_device().map_err(trouble)?;
        if device {
            if len < size {
                return Err(refused(format!("{len} bytes, and the disk has {size}; name a larger one")));
            }
            if fresh && !target.force {
                return Err(refused(
                    "the content of the device would be overwritten; name another, or say force".into(),
                ));
            }
        } else if fresh && len > 0 && !target.force {
            return Err(refused("the file is not empty; name a new one, or say force".into()));
        }
        let destination = FileDestination { file, sector, end: size, sized: device, full: String::new() };
        let replica = ReplicaTarget::open(target.header, progress, destination).map_err(refused)?;
        if !fresh && !identity.is_unique && !replica.is_recognised() {
            return Err(refused(
                "another device may have this name now: the target has no serial number, or no time of creation, and no block with data was \
                 written to it; make a new replica"
                    .into(),
            ));
        }
        replica.present(has);
        Ok(Box::new(replica))
    }

    /// Adds a block, unless the target has it.
    pub fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) -> Option<FileResult> {
        if self.lost.is_some() || !self.has.insert(block) {
            return None;
        }
        // The header is made durable first: after a power cut, a block without a header would be a file of
        // unknown kind.
        if !self.headed {
            match self.flush().and_then(|()| self.output.sync().map_err(|why| self.lose(why))) {
                Ok(_) => self.headed = true,
                Err(FileResult::Full(_)) => {}
                Err(result) => return Some(result),
            }
        }
        match self.chain.as_mut().is_some_and(|chain| bad.is_empty() && chain.has(block, bytes)) {
            true => _ = self.same.insert(block),
            false => self.output.put(block, bytes, bad),
        }
        self.flush().err()
    }

    /// Makes all blocks durable.
    pub fn sync(&mut self, mark: u64) -> Option<FileResult> {
        if let Err(result) = self.flush() {
            return Some(result);
        }
        Some(match self.output.sync() {
            Ok(progress) => {
                let progress = if self.replica { progress } else { self.progress() };
                FileResult::Synced { mark, saved: [self.first(), progress].concat(), records: 0 }
            }
            Err(why) => self.lose(why),
        })
    }

    /// Returns the progress of an image: its number of blocks, and for one with differences only, the set of
    /// unchanged blocks.
    fn progress(&self) -> Vec<u8> {
        let mut saved = self.has.len().saturating_sub(self.same.len()).to_le_bytes().to_vec();
        if self.chain.is_some() {
            saved.extend(save_set(&self.same));
        }
        saved
    }

    /// Adds the kept blocks that the target lacks, and completes the target.
    pub fn finish(&mut self) -> Option<FileResult> {
        if let Some(why) = &self.lost {
            return Some(FileResult::Trouble(why.clone()));
        }
        if !self.ended {
            let Self { files, kept, header, has, output, chain, same, .. } = self;
            // Each block is written when it is read, because all of them may exceed memory.
            let mut flushed = Ok(true);
            let read = kept::each(&**files, kept, header, |block, bytes, bad| {
                if matches!(flushed, Ok(true)) && has.insert(block) {
                    if chain.as_mut().is_some_and(|chain| bad.is_empty() && chain.has(block, bytes)) {
                        same.insert(block);
                        return;
                    }
                    output.put(block, bytes, bad);
                    flushed = output.flush();
                }
            });
            if let Err(why) = read {
                return Some(FileResult::Refused(why));
            }
            if let Err(why) = flushed {
                return Some(self.lose(why));
            }
            if let Err(result) = self.flush() {
                return Some(result);
            }
            if self.has.len() != self.header.chunks {
                return Some(FileResult::Refused(format!(
                    "{}: {} blocks of {} were kept; begin anew",
                    self.place,
                    self.has.len(),
                    self.header.chunks
                )));
            }
            self.output.finish();
            self.ended = true;
        }
        Some(match self.flush().and_then(|()| self.output.sync().map_err(|why| self.lose(why))) {
            Ok(_) => self.in_place(),
            Err(result) => result,
        })
    }

    /// Reports that the file of this name is complete.
    fn in_place(&mut self) -> FileResult {
        // Another program may have cut the file.
        let written = self.output.written();
        match self.output.file().len() {
            Ok(len) if written.is_some_and(|written| len != written) => {
                return FileResult::Refused(format!(
                    "{}: the file has {len} bytes, and {} were written: another program has changed it; make a new backup",
                    self.place,
                    written.unwrap_or_default()
                ));
            }
            Ok(_) => {}
            Err(error) => return self.lose(error.to_string()),
        }
        let is_here = self.output.file().identity().and_then(|file| {
            let named = self.files.identity_of(&self.path)?;
            Ok(named == Some(file))
        });
        match is_here {
            Ok(true) => FileResult::Finished,
            Ok(false) => FileResult::Refused(format!(
                "{}: the file that was written was removed, renamed or replaced; make a new backup",
                self.place
            )),
            Err(error) => self.lose(error.to_string()),
        }
    }

    fn flush(&mut self) -> Result<(), FileResult> {
        if let Some(why) = &self.lost {
            return Err(FileResult::Trouble(why.clone()));
        }
        match self.output.flush() {
            Ok(true) => Ok(()),
            Ok(false) => Err(FileResult::Full(format!("{}: {}", self.place, self.output.full()))),
            Err(why) => Err(self.lose(why)),
        }
    }

    fn lose(&mut self, why: String) -> FileResult {
        let why = format!("{}: {why}", self.place);
        self.lost = Some(why.clone());
        FileResult::Trouble(why)
    }
}

/// Opens the target for this task alone. If another program has the file locked when the task begins, the task
/// fails. A file that other users can access is refused unless the task has progress in it, because some file
/// systems show other owners and rights for each file.
fn claim(files: &dyn Files, target: &ImageTarget, known: Option<&str>) -> Result<Claimed, FileResult> {
    let how = if target.fresh { How::Make } else { How::Write };
    let claimed = files.claim(&target.path, how, Lock::Alone).and_then(|mut file| {
        // A task of an earlier version may have made the file and not recorded its identity.
        if known.is_none() && (target.fresh || target.saved.is_empty()) {
            file.keep_from_others(target.fresh && target.force)?;
        }
        let identity = file.lasting_identity()?;
        let other = known.is_some_and(|known| known != identity.text);
        Ok(Claimed { file, identity, other })
    });
    claimed.map_err(|error| {
        let place = target.path.display().to_string();
        match error.kind() == io::ErrorKind::ResourceBusy && target.fresh {
            true => FileResult::Refused(format!("{place}: {error}")),
            false => not_opened(&place, &error),
        }
    })
}

fn another(target: &ImageTarget) -> FileResult {
    FileResult::Refused(format!(
        "{}: another file or device has this name now; begin anew, with another name",
        target.path.display()
    ))
}

fn short(source: &mut FileSource) -> bool {
    source.0.len().is_ok_and(|len| len < image::HEADER_BYTES)
}
