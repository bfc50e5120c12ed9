//! Execution of a desk's orders: one clerk for each lane.

use super::files::{Files, How};
use super::images::Images;
use super::journal::journal_path;
use super::kept::{Found, KeptBlocks};
use super::members::Members;
use super::moves::Moves;
use super::source::{FileSource, no_room};
use super::sums::OpenStore;
use super::target::OpenImage;
use crate::desk::order::{Lane, News, Work};
use crate::office::Peers;
use crate::state::{Log, LogKind, Scan};
use apps::backup::image;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files that a lane has open.
enum Has {
    Nothing,
    Target(Box<OpenImage>),
    Kept(KeptBlocks),
    Images(Images),
    Moves(Moves),
    Sums(Box<OpenStore>),
    Members(Box<Members>),
}

/// The executor of the orders of one lane.
pub(crate) struct Clerk {
    lane: Lane,
    files: Arc<dyn Files>,
    state: PathBuf,
    peers: Peers,
    has: Has,
    /// The journal; `Err` with the last failure until it is written anew, because the end of the file is in an unknown state.
    journal: Result<Log, String>,
}

/// Returns the path of the blocks that a task keeps.
pub(crate) fn kept_path(state: &Path, id: u64) -> PathBuf {
    state.join(format!("task-{id}.kept"))
}

impl Clerk {
    pub fn new(lane: Lane, files: Arc<dyn Files>, state: PathBuf) -> Self {
        let peers = Peers::default();
        Self { lane, files, state, peers, has: Has::Nothing, journal: Err("it is not open yet".into()) }
    }

    /// Lets it read these disks.
    pub fn among(self, peers: Peers) -> Self {
        Self { peers, ..self }
    }

    /// Executes an order; returns the report, if there is one.
    pub fn execute(&mut self, work: Work) -> Option<News> {
        match work {
            Work::Journal { seq, bytes, replace, number, note } => {
                let failed = self.journal(&bytes, replace, number, &note).err();
                if let Some(why) = &failed {
                    self.journal = Err(why.clone());
                }
                Some(News::Journal { seq, failed })
            }
            Work::Open(target) => {
                let id = self.id();
                // A device is open for the daemon alone, so close it before opening it again.
                self.has = Has::Nothing;
                Some(match OpenImage::new(&self.files, *target, kept_path(&self.state, id)) {
                    Ok((open, present)) => {
                        self.has = Has::Target(Box::new(open));
                        News::Opened(Box::new(present))
                    }
                    Err(news) => news,
                })
            }
            Work::Put { block, bytes, bad } => self.target()?.put(block, &bytes, &bad),
            Work::Sync { mark } => self.target()?.sync(mark),
            Work::Finish => self.target()?.finish(),
            Work::OpenKept { header, most, begun } => {
                let path = kept_path(&self.state, self.id());
                Some(match KeptBlocks::open(&self.files, &path, header, most, begun) {
                    Ok((kept, present)) => {
                        self.has = Has::Kept(kept);
                        News::Opened(Box::new(present))
                    }
                    Err(why) => News::Refused(why),
                })
            }
            Work::Keep { mark, block, bytes, bad } => match &mut self.has {
                Has::Kept(kept) => Some(match kept.keep(block, &bytes, &bad) {
                    Ok(()) => News::Synced { mark, saved: Vec::new() },
                    Err(why) => News::Refused(why),
                }),
                _ => None,
            },
            Work::ReadKept { mark, block } => match &self.has {
                Has::Kept(kept) => Some(match kept.read(block) {
                    Ok(Found { bytes, bad }) => News::KeptBlock { mark, block, bytes, bad },
                    Err(why) => News::Refused(why),
                }),
                _ => None,
            },
            Work::Verify { images, sector_bytes, capacity } => {
                Some(match Images::open(&*self.files, &images, sector_bytes, capacity) {
                    Ok(images) => {
                        let chunks = images.chunks();
                        self.has = Has::Images(images);
                        News::Verified { chunks }
                    }
                    Err(news) => news,
                })
            }
            Work::Read { most } => match &mut self.has {
                Has::Images(images) => Some(images.read(most).map_or_else(News::Trouble, News::Chunks)),
                _ => None,
            },
            Work::OpenMoves { plan, block, disk, staging, begun } => {
                let moves = Moves::new(Arc::clone(&self.files), &self.state, self.id());
                let told = moves.open(&plan, block, &disk, staging, begun);
                self.has = Has::Moves(moves);
                Some(told.unwrap_or_else(|news| news))
            }
            Work::Moves { mark, bytes, replace } => self.moves()?.remember(mark, &bytes, replace),
            Work::Breathe => Some(News::Breathed),
            Work::Map(map) => self.moves()?.map(&map),
            Work::ForgetMoves => {
                self.moves()?.forget();
                None
            }
            Work::OpenSums(asked) => {
                let (sums, told) = OpenStore::open(&*self.files, &self.state, *asked);
                // A refused store does not replace the open one.
                if let Some(sums) = sums {
                    self.has = Has::Sums(Box::new(sums));
                }
                Some(told)
            }
            Work::Forget(ranges) => Some(self.sums(|sums| sums.forget(&ranges))),
            Work::Compare(sums) => Some(self.sums(|open| open.compare(sums))),
            Work::Record(sums) => Some(self.sums(|open| open.record(&sums))),
            Work::OpenMembers(asked) => {
                // The sessions of an earlier try are closed first.
                self.has = Has::Nothing;
                Some(match Members::open(&self.peers, &asked) {
                    Ok(mut members) => {
                        let told = members.report();
                        self.has = Has::Members(Box::new(members));
                        told
                    }
                    Err(news) => news,
                })
            }
            Work::ReadMembers { priority } => match &mut self.has {
                Has::Members(members) => Some(members.turn(priority)),
                _ => Some(News::Trouble("the disks are not open yet".into())),
            },
            Work::RestMembers => {
                if let Has::Members(members) = &mut self.has {
                    members.rest();
                }
                None
            }
            Work::Discard { path, image, replica } => {
                let open = matches!(self.has, Has::Target(_));
                self.has = Has::Nothing;
                let place = path.display();
                Some(News::Discarded(match replica {
                    true => {
                        open.then(|| format!("{place}: a part of the disk is there; force overwrites it"))
                    }
                    false => self.discard(&path, image).err().map(|error| {
                        format!("{place}: the unfinished image is not removed: {error}; force overwrites it")
                    }),
                }))
            }
            Work::End => {
                self.has = Has::Nothing;
                if let Lane::Kept(id) = self.lane {
                    // A file that cannot be removed does no harm: a task's number is never used again.
                    let _ = Log::remove(&*self.files, &kept_path(&self.state, id));
                }
                None
            }
        }
    }

    /// Removes an image if it is this one; a missing file, or another image, is not touched.
    fn discard(&self, path: &Path, image: u64) -> io::Result<()> {
        let file = match self.files.open_named(path, How::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let mut source = FileSource(file);
        // The file was created and nothing written yet.
        let empty = source.0.len()? == 0;
        let ours = image::header(&mut source).is_ok_and(|header| header.image == image);
        if empty || ours { self.files.remove_named(path) } else { Ok(()) }
    }

    fn id(&self) -> u64 {
        match self.lane {
            Lane::Target(id) | Lane::Kept(id) => id,
            Lane::Journal | Lane::Sums => 0,
        }
    }

    fn target(&mut self) -> Option<&mut OpenImage> {
        match &mut self.has {
            Has::Target(open) => Some(open),
            _ => None,
        }
    }

    fn sums(&mut self, call: impl FnOnce(&mut OpenStore) -> News) -> News {
        match &mut self.has {
            Has::Sums(sums) => call(sums),
            _ => News::Trouble("it is not open".into()),
        }
    }

    fn moves(&mut self) -> Option<&mut Moves> {
        match &mut self.has {
            Has::Moves(moves) => Some(moves),
            _ => None,
        }
    }

    /// Writes to the journal. Returns why that is not possible: of a journal that has to be written anew, why it was not.
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
