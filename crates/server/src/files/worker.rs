//! Execution of file operations: one worker for each queue.

use super::images::Images;
use super::kept::{Found, KeptBlocks};
use super::members::Members;
use super::moves::Moves;
use super::source::{FileSource, no_room};
use super::sums::OpenStore;
use super::target::OpenImage;
use crate::file_system::{Files, How, Lock};
use crate::handle::Peers;
use crate::state::{Log, LogKind, Scan};
use crate::task::file_request::{FileOp, FileQueue, FileResult};
use crate::task::journal::journal_path;
use apps::backup::image;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files that a queue has open.
enum OpenFiles {
    Nothing,
    Target(Box<OpenImage>),
    Kept(KeptBlocks),
    Images(Images),
    Moves(Moves),
    Sums(Box<OpenStore>),
    Members(Box<Members>),
}

/// The executor of the file operations of one queue.
pub(crate) struct FileWorker {
    queue: FileQueue,
    files: Arc<dyn Files>,
    state: PathBuf,
    peers: Peers,
    opened: OpenFiles,
    /// The journal. After a failure `Err` with the reason, until the journal is written anew, because the end of the
    /// file is in an unknown state.
    journal: Result<Log, String>,
}

/// Returns the path of a task's kept blocks.
pub(crate) fn kept_path(state: &Path, id: u64) -> PathBuf {
    state.join(format!("task-{id}.kept"))
}

impl FileWorker {
    pub fn new(queue: FileQueue, files: Arc<dyn Files>, state: PathBuf) -> Self {
        let peers = Peers::default();
        Self {
            queue,
            files,
            state,
            peers,
            opened: OpenFiles::Nothing,
            journal: Err("the file is not open yet".into()),
        }
    }

    /// Lets the worker read these disks.
    pub fn among(self, peers: Peers) -> Self {
        Self { peers, ..self }
    }

    /// Executes an operation; returns the result, for operations that report one.
    pub fn execute(&mut self, op: FileOp) -> Option<FileResult> {
        match op {
            FileOp::Journal { seq, bytes, replace, number, note } => {
                let failed = self.journal(&bytes, replace, number, &note).err();
                if let Some(why) = &failed {
                    self.journal = Err(why.clone());
                }
                Some(FileResult::Journal { seq, failed })
            }
            FileOp::Open(target) => {
                let id = self.id();
                // A device can be opened only once, so it is closed before it is opened again.
                self.opened = OpenFiles::Nothing;
                Some(match OpenImage::new(&self.files, *target, kept_path(&self.state, id)) {
                    Ok((open, present)) => {
                        let saved = open.first();
                        self.opened = OpenFiles::Target(Box::new(open));
                        FileResult::Opened { present: Box::new(present), saved }
                    }
                    Err(result) => result,
                })
            }
            FileOp::Put { block, bytes, bad } => self.target()?.put(block, &bytes, &bad),
            FileOp::Sync { mark } => self.target()?.sync(mark),
            FileOp::Finish => self.target()?.finish(),
            FileOp::OpenKept { header, room, begun } => {
                let path = kept_path(&self.state, self.id());
                Some(match KeptBlocks::open(&self.files, &path, header, room, begun) {
                    Ok((kept, present)) => {
                        self.opened = OpenFiles::Kept(kept);
                        FileResult::Opened { present: Box::new(present), saved: Vec::new() }
                    }
                    Err(why) => FileResult::Refused(why),
                })
            }
            FileOp::Keep { mark, block, bytes, bad } => match &mut self.opened {
                OpenFiles::Kept(kept) => Some(match kept.keep(block, &bytes, &bad) {
                    Ok(records) => FileResult::Synced { mark, saved: Vec::new(), records },
                    Err(why) => FileResult::Refused(why),
                }),
                _ => None,
            },
            FileOp::ReadKept { mark, block } => match &self.opened {
                OpenFiles::Kept(kept) => Some(match kept.read(block) {
                    Ok(Found { bytes, bad }) => FileResult::KeptBlock { mark, block, bytes, bad },
                    Err(why) => FileResult::Refused(why),
                }),
                _ => None,
            },
            FileOp::Verify { images, sector_bytes, capacity } => {
                Some(match Images::open(&*self.files, &images, sector_bytes, capacity) {
                    Ok(images) => {
                        let (chunks, identities) = (images.chunks(), images.identities());
                        let whole = images.are_whole();
                        self.opened = OpenFiles::Images(images);
                        FileResult::Verified { chunks, images: identities, whole }
                    }
                    Err(result) => result,
                })
            }
            FileOp::Read { most } => match &mut self.opened {
                OpenFiles::Images(images) => {
                    Some(images.read(most).map_or_else(FileResult::Trouble, FileResult::Chunks))
                }
                _ => None,
            },
            FileOp::OpenMoves { plan, block, disk, staging, begun, number, unnumbered } => {
                let moves = Moves::new(Arc::clone(&self.files), &self.state, self.id(), number);
                let result = moves.open(&plan, block, &disk, staging, begun, unnumbered);
                self.opened = OpenFiles::Moves(moves);
                Some(result.unwrap_or_else(|result| result))
            }
            FileOp::Moves { mark, bytes, replace } => self.moves()?.remember(mark, &bytes, replace),
            FileOp::Yield => Some(FileResult::Yielded),
            FileOp::Map(map) => self.moves()?.map(&map),
            FileOp::ForgetMoves => {
                self.moves()?.forget();
                None
            }
            FileOp::OpenSums(asked) => {
                let held = match &self.opened {
                    OpenFiles::Sums(sums) => Some(&**sums),
                    _ => None,
                };
                let (sums, result) = OpenStore::open(&*self.files, &self.state, *asked, held);
                // If opening is refused, the store that is open stays.
                if let Some(sums) = sums {
                    self.opened = OpenFiles::Sums(Box::new(sums));
                }
                Some(result)
            }
            FileOp::LeaveSums(id) => {
                let failed = super::sums::leave(&*self.files, &self.state, id).err();
                Some(FileResult::SumsLeft(failed.map(|error| error.to_string())))
            }
            FileOp::Forget(ranges) => Some(self.sums(|sums| sums.forget(&ranges))),
            FileOp::Compare(sums) => Some(self.sums(|open| open.compare(sums))),
            FileOp::Record(sums) => Some(self.sums(|open| open.record(&sums))),
            FileOp::OpenMembers(asked) => {
                // The sessions of an earlier attempt are closed first.
                self.opened = OpenFiles::Nothing;
                Some(match Members::open(&self.peers, &asked) {
                    Ok(mut members) => {
                        let result = members.report();
                        self.opened = OpenFiles::Members(Box::new(members));
                        result
                    }
                    Err(result) => result,
                })
            }
            FileOp::ReadMembers { priority } => match &mut self.opened {
                OpenFiles::Members(members) => Some(members.read_slice(priority)),
                _ => Some(FileResult::Trouble("the disks are not open yet".into())),
            },
            FileOp::RestMembers => {
                if let OpenFiles::Members(members) = &mut self.opened {
                    members.rest();
                }
                None
            }
            FileOp::Discard { path, image, replica } => {
                let open = matches!(self.opened, OpenFiles::Target(_));
                self.opened = OpenFiles::Nothing;
                let place = path.display();
                Some(FileResult::Discarded(match replica {
                    true => {
                        open.then(|| format!("{place}: a part of the disk is there; force overwrites it"))
                    }
                    false => self.discard(&path, image, open).err().map(|error| {
                        format!("{place}: the unfinished image is not removed: {error}; force overwrites it")
                    }),
                }))
            }
            FileOp::End => {
                // The budget of the kept blocks is released after their file is removed.
                let _closed_last = std::mem::replace(&mut self.opened, OpenFiles::Nothing);
                let FileQueue::Kept(id) = self.queue else { return None };
                let removed = Log::remove(&*self.files, &kept_path(&self.state, id));
                Some(FileResult::Removed(removed.err().map(|error| error.to_string())))
            }
        }
    }

    /// Removes an image whose random number is `image`, or an empty file that the task `had` open. A missing file,
    /// another image, or the file of another task is left unchanged.
    fn discard(&self, path: &Path, image: u64, had: bool) -> io::Result<()> {
        let ours = |source: &mut FileSource| image::header(source).is_ok_and(|header| header.image == image);
        let file = match self.files.claim(path, How::Read, Lock::Alone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let mut source = FileSource(self.files.open_named(path, How::Read)?);
                return if ours(&mut source) { Err(error) } else { Ok(()) };
            }
            opened => opened?,
        };
        let mut source = FileSource(file);
        // An empty file that the task had open was just created; the lock shows that no other task has it.
        let empty = had && source.0.len()? == 0;
        if empty || ours(&mut source) { self.files.remove_named(path) } else { Ok(()) }
    }

    fn id(&self) -> u64 {
        match self.queue {
            FileQueue::Target(id) | FileQueue::Kept(id) => id,
            FileQueue::Journal | FileQueue::Sums => 0,
        }
    }

    fn target(&mut self) -> Option<&mut OpenImage> {
        match &mut self.opened {
            OpenFiles::Target(open) => Some(open),
            _ => None,
        }
    }

    fn sums(&mut self, call: impl FnOnce(&mut OpenStore) -> FileResult) -> FileResult {
        match &mut self.opened {
            OpenFiles::Sums(sums) => call(sums),
            _ => FileResult::Trouble("the file is not open".into()),
        }
    }

    fn moves(&mut self) -> Option<&mut Moves> {
        match &mut self.opened {
            OpenFiles::Moves(moves) => Some(moves),
            _ => None,
        }
    }

    /// Writes to the journal.
    ///
    /// # Errors
    /// The reason why the journal cannot be written; after an earlier failure, the reason of that failure, until the
    /// journal is replaced.
    fn journal(&mut self, bytes: &[u8], replace: bool, number: u64, note: &[u8]) -> Result<(), String> {
        let path = journal_path(&self.state);
        let wrong = |error: io::Error| {
            let mend = if no_room(&error) { "; make room there" } else { "" };
            format!("{}: {error}{mend}", path.display())
        };
        let files = &*self.files;
        match (&mut self.journal, replace) {
            (Err(why), false) => return Err(why.clone()),
            (Ok(log), false) => log.append(bytes, note).map_err(wrong)?,
            (Ok(log), true) => log.replace(files, bytes, note).map_err(wrong)?,
            (Err(_), true) => {
                let scan =
                    Scan::read(files, &path, LogKind::Tasks, None, |_| true).map_err(|e| e.to_string())?;
                let log = match scan {
                    Some(scan) => Log::resume(files, &path, LogKind::Tasks, scan).and_then(|mut log| {
                        log.replace(files, bytes, note)?;
                        Ok(log)
                    }),
                    None => Log::create(files, &path, LogKind::Tasks, number, bytes, note),
                };
                self.journal = Ok(log.map_err(wrong)?);
            }
        }
        Ok(())
    }
}
