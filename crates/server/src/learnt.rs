//! What a disk's mimic has learnt, kept in its state directory.

use crate::disk::Disk;
use crate::mailbox::{Gone, Mailbox};
use crate::tasks::{open_regular, private};
use device::Device;
use mimic::{Learner, LearnerConfig, LearnerError, LearntError, SavedPart, Saving, Table};
use std::any::Any;
use std::convert::Infallible;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tracing::{info, warn};

/// Between two savings: what is learnt in so long may be lost when the power is cut.
pub const SAVE_EVERY: Duration = Duration::from_secs(180);

/// Cells that a disk's thread takes into a file between two events: some tens of microseconds.
const CELLS: usize = 1 << 14;

/// Between two such parts, so that requests do not wait for one after the other.
const PART_EVERY: Duration = Duration::from_millis(2);

/// The file, in a disk's state directory.
const NAME: &str = "learnt";

/// Where what a disk's mimic has learnt is kept, and whose it is.
#[derive(Clone, Debug)]
pub struct Learnt {
    path: PathBuf,
    drive: String,
}

impl Learnt {
    /// In this state directory, of a drive of this name.
    pub fn new(state: &Path, drive: impl Into<String>) -> Self {
        Self { path: state.join(NAME), drive: drive.into() }
    }

    /// A learner that goes on from what was kept, which has the table in it that it once started from; or a new one that
    /// starts from `table`. A file that cannot be read, is damaged or of another drive
    /// is named in the log and put aside, and the disk begins anew: no disk waits for what its mimic knew.
    ///
    /// # Errors
    /// A configuration that makes no learner.
    pub fn load(&self, config: LearnerConfig, table: Option<Table>) -> Result<Learner, LearnerError> {
        let path = self.path.display();
        match open_regular(File::options().read(true), &self.path) {
            Ok(mut file) => match Learner::read(config, &self.drive, &mut file) {
                Ok(learner) => {
                    info!(%path, known = learner.stats().known, "goes on from what was learnt");
                    return Ok(learner);
                }
                Err(LearntError::Config(error)) => return Err(error),
                Err(error) => self.refuse(&error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.refuse(&error),
        }
        Learner::new(config, table)
    }

    /// Puts the file aside, so that it is not written over.
    fn refuse(&self, why: &dyn Display) {
        let path = self.path.display();
        let name = |n: u64| self.path.with_file_name(format!("{NAME}.refused-{n}"));
        let aside = (1..1_000).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1_000));
        match fs::rename(&self.path, &aside) {
            Ok(()) => {
                warn!(%path, why = %why, aside = %aside.display(), "what was learnt cannot be used; begins anew, the file is kept aside")
            }
            Err(error) => {
                warn!(%path, why = %why, %error, "what was learnt cannot be used, nor be put aside; begins anew")
            }
        }
    }

    /// Puts what `next` gives in the file's place as a whole: after a power cut it is the old or the new one. Each part is written
    /// when it comes, so that what was learnt is not in memory twice. A file that cannot be written stops nobody.
    ///
    /// # Errors
    /// Those of `next`; nothing has changed then, as when it gives nothing.
    fn put<E>(&self, mut next: impl FnMut() -> Result<Option<SavedPart>, E>) -> Result<(), E> {
        let mut beside: io::Result<Option<File>> = Ok(None);
        while let Some(part) = next()? {
            let last = matches!(part, SavedPart::Last { .. });
            beside = beside.and_then(|file| self.go_on(file, part));
            if last || beside.is_err() {
                break;
            }
        }
        if let Err(error) = beside {
            warn!(path = %self.path.display(), %error, "what was learnt could not be saved; make room, or the directory writable");
        }
        Ok(())
    }

    /// Writes a part beside the file, and puts that in its place after the last.
    fn go_on(&self, file: Option<File>, part: SavedPart) -> io::Result<Option<File>> {
        let beside = self.path.with_file_name(format!("{NAME}.new"));
        let mut file = match (file, &part) {
            // The drive is another; what is learnt from here on is worth keeping, and nothing else.
            (_, SavedPart::Forgotten) => return Ok(None),
            (Some(file), _) => file,
            (None, _) => private().write(true).create(true).truncate(true).open(&beside)?,
        };
        match part {
            SavedPart::Part(bytes) => file.write_all(&bytes)?,
            SavedPart::Last { bytes, beginning } => {
                file.write_all(&bytes)?;
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&beginning)?;
                file.sync_all()?;
                fs::rename(&beside, &self.path)?;
                let directory = self.path.parent().filter(|p| !p.as_os_str().is_empty());
                File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
            }
            SavedPart::Forgotten => {}
        }
        Ok(Some(file))
    }
}

/// Saves what a disk's mimic learns, now and then, on a thread of its own.
#[derive(Debug)]
pub struct LearntKeeper {
    learnt: Learnt,
    thread: JoinHandle<()>,
    end: Sender<()>,
}

impl LearntKeeper {
    /// Begins to save, each time so long after the last.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start<D: Device + Send + 'static>(
        learnt: Learnt,
        disk: Mailbox<Disk<D>>,
        every: Duration,
    ) -> io::Result<Self> {
        let (end, ended) = channel();
        let saves = learnt.clone();
        let thread = Builder::new().name("learnt".into()).spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let mut saving = None;
                let mut first = true;
                let next = || {
                    if !std::mem::take(&mut first) {
                        std::thread::sleep(PART_EVERY);
                    }
                    part(&disk, &saves.drive, &mut saving)
                };
                match saves.put(next) {
                    Ok(()) => {}
                    Err(Gone) => return,
                }
            }
        })?;
        Ok(Self { learnt, thread, end })
    }

    /// Ends, after the disk has, and saves the last of it.
    pub fn close<D: Device>(self, disk: &Disk<D>) {
        // It may have ended by itself.
        let _ = self.end.send(());
        let _ = self.thread.join();
        let Some(learner) = learner(disk) else { return };
        // Nothing is learnt, or forgotten, any more.
        let mut saving = learner.begin_saving(&self.learnt.drive);
        let Ok(()) = self.learnt.put(|| Ok::<_, Infallible>(Some(saving.go_on(learner, CELLS))));
    }
}

fn learner<D: Device>(disk: &Disk<D>) -> Option<&Learner> {
    (disk.core().mimic()? as &dyn Any).downcast_ref()
}

/// The next part of what was learnt, of a saving that has begun or begins; nothing of a disk that does not learn.
fn part<D: Device + Send + 'static>(
    disk: &Mailbox<Disk<D>>,
    drive: &str,
    saving: &mut Option<Saving>,
) -> Result<Option<SavedPart>, Gone> {
    let (now, drive) = (saving.take(), drive.to_owned());
    let part = disk.ask(move |disk, _| {
        let learner = learner(disk)?;
        let mut saving = now.unwrap_or_else(|| learner.begin_saving(&drive));
        let part = saving.go_on(learner, CELLS);
        Some((saving, part))
    })?;
    Ok(part.map(|(begun, part)| {
        // What was forgotten begins anew.
        *saving = (part != SavedPart::Forgotten).then_some(begun);
        part
    }))
}
