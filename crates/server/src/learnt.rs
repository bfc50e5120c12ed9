//! What a disk's mimic has learnt, kept in its state directory.

use crate::disk::Disk;
use crate::mailbox::{Gone, Mailbox};
use device::Device;
use mimic::{Learner, LearnerConfig, LearnerError, LearntError, SavedPart, Saving};
use std::any::Any;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
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

    /// A learner that goes on from what was kept, or a new one. A file that cannot be read, is damaged or of another drive
    /// is named in the log and put aside, and the disk begins anew: no disk waits for what its mimic knew.
    ///
    /// # Errors
    /// A configuration that makes no learner.
    pub fn load(&self, config: LearnerConfig) -> Result<Learner, LearnerError> {
        let path = self.path.display();
        match fs::read(&self.path) {
            Ok(bytes) => match Learner::load(config, &self.drive, &bytes) {
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
        Learner::new(config, None)
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

    /// Puts bytes in the file's place as a whole: after a power cut it is the old or the new one.
    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let beside = self.path.with_file_name(format!("{NAME}.new"));
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        let directory = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    }

    /// The same; a file that cannot be written stops nobody.
    fn put_or_warn(&self, bytes: &[u8]) {
        if let Err(error) = self.put(bytes) {
            warn!(path = %self.path.display(), %error, "what was learnt could not be saved; make room, or the directory writable");
        }
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
                match bytes(&disk, &saves.drive) {
                    Ok(Some(bytes)) => saves.put_or_warn(&bytes),
                    Ok(None) => {}
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
        if let Some(learner) = learner(disk) {
            self.learnt.put_or_warn(&learner.save(&self.learnt.drive));
        }
    }
}

fn learner<D: Device>(disk: &Disk<D>) -> Option<&Learner> {
    (disk.core().mimic()? as &dyn Any).downcast_ref()
}

/// All that was learnt, a part at a time; nothing of a disk that does not learn.
fn bytes<D: Device + Send + 'static>(disk: &Mailbox<Disk<D>>, drive: &str) -> Result<Option<Vec<u8>>, Gone> {
    let mut saving: Option<Saving> = None;
    loop {
        let (now, drive) = (saving.take(), drive.to_owned());
        let part = disk.ask(move |disk, _| {
            let learner = learner(disk)?;
            let mut saving = now.unwrap_or_else(|| learner.begin_saving(&drive));
            let part = saving.go_on(learner, CELLS);
            Some((saving, part))
        })?;
        match part {
            None => return Ok(None),
            Some((_, SavedPart::All(bytes))) => return Ok(Some(bytes)),
            Some((begun, SavedPart::Part)) => saving = Some(begun),
            // The drive is another; what is learnt from here on is worth keeping, and nothing else.
            Some((_, SavedPart::Forgotten)) => {}
        }
        std::thread::sleep(PART_EVERY);
    }
}
