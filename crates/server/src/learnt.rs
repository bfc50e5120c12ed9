//! The file in a disk's state directory with what the mimic, the model learned from completions, knows of the disk.

use crate::bounded::{FILES_END_WAIT, join_until};
use crate::disk::{Disk, DiskHooks};
use crate::file_system::{open_regular, private};
use crate::mailbox::{Gone, Mailbox};
use device::Device;
use mimic::{Learner, LearnerConfig, LearnerError, LearntError, SavedPart, Saving, Table};
use std::convert::Infallible;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// The interval between savings, so that a power cut loses the knowledge of three minutes at most.
pub const SAVE_EVERY: Duration = Duration::from_secs(180);

/// The mimic's cells, or its table's distances, that a disk's thread serialises between two events: more would delay
/// requests by more than some tens of microseconds.
const CELLS: usize = 1 << 14;

/// The least time between two serialised parts, so that no request is delayed by several of them in a row.
const PART_EVERY: Duration = Duration::from_millis(2);

/// The most serialised parts of the last saving in memory, waiting to be written: some megabytes.
const PARTS_WAITING_MAX: usize = 16;

/// The name of the file in a disk's state directory.
const NAME: &str = "learnt";

/// The file with the knowledge of a disk's mimic, and the drive that it belongs to.
#[derive(Clone, Debug)]
pub struct Learnt {
    path: PathBuf,
    drive: String,
}

impl Learnt {
    /// Names the file in the state directory `state`, for the drive called `drive`.
    pub fn new(state: &Path, drive: impl Into<String>) -> Self {
        Self { path: state.join(NAME), drive: drive.into() }
    }

    /// Returns a learner that continues from the file, which also contains the table of the drive's times from which
    /// the learner once started. Without a file, returns a new learner that starts from `table`. A file that cannot be
    /// read, is damaged or belongs to another drive is logged and put aside, and the learner begins anew, because no
    /// disk has to wait for its mimic.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn load(&self, config: LearnerConfig, table: Option<Table>) -> Result<Learner, LearnerError> {
        let path = self.path.display();
        match open_regular(File::options().read(true), &self.path) {
            Ok(mut file) => match Learner::read(config, &self.drive, &mut file) {
                Ok(learner) => {
                    info!(%path, known = learner.stats().known, "goes on from the learner's saved state");
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

    /// Puts the file aside, so that it is not overwritten.
    fn refuse(&self, why: &dyn Display) {
        let path = self.path.display();
        let name = |n: u64| self.path.with_file_name(format!("{NAME}.refused-{n}"));
        let aside = (1..1_000).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1_000));
        match fs::rename(&self.path, &aside) {
            Ok(()) => {
                warn!(%path, why = %why, aside = %aside.display(), "the learner's saved state cannot be used; the learner begins anew, the file is kept aside")
            }
            Err(error) => {
                warn!(%path, why = %why, %error, "the learner's saved state can neither be used nor put aside; the learner begins anew")
            }
        }
    }

    /// Replaces the file by the parts that `next` returns. After a power cut the file is the whole old or the whole
    /// new one. Each part is written when `next` returns it, so that memory does not hold the knowledge twice. A
    /// failure to write is logged and does not stop the disk.
    ///
    /// # Errors
    /// `next` has failed; the file is unchanged then, as when `next` returns no part.
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
            warn!(path = %self.path.display(), %error, "the learner's state could not be saved; make room, or make the directory writable");
        }
        Ok(())
    }

    /// Writes a part to a temporary file, which replaces the file after the last part.
    fn go_on(&self, file: Option<File>, part: SavedPart) -> io::Result<Option<File>> {
        let beside = self.path.with_file_name(format!("{NAME}.new"));
        let mut file = match (file, &part) {
            // The drive was exchanged, so the parts written so far are worthless.
            (_, SavedPart::Forgotten) => return Ok(None),
            (Some(file), _) => file,
            (None, _) => open_regular(private().write(true).create(true).truncate(true), &beside)?,
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

/// A thread that saves the knowledge of a disk's mimic at intervals.
#[derive(Debug)]
pub struct LearntSaver {
    learnt: Learnt,
    thread: JoinHandle<()>,
    /// Passes the receiver of the last saving's parts to the thread.
    end: Sender<Receiver<SavedPart>>,
    /// The most time to wait for the thread's end.
    end_wait: Duration,
}

impl LearntSaver {
    /// Begins to save once in each interval `every`.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start<D: Device + Send + 'static, A: DiskHooks + Send + 'static>(
        learnt: Learnt,
        disk: Mailbox<Disk<D, A>>,
        every: Duration,
    ) -> io::Result<Self> {
        let (end, ended) = channel::<Receiver<SavedPart>>();
        let saves = learnt.clone();
        let thread = Builder::new().name("learnt".into()).spawn(move || {
            let last = loop {
                match ended.recv_timeout(every) {
                    Err(RecvTimeoutError::Timeout) => {}
                    last => break last.ok(),
                }
                let mut saving = None;
                let mut first = true;
                let next = || {
                    if !std::mem::take(&mut first) {
                        std::thread::sleep(PART_EVERY);
                    }
                    part(&disk, &saves.drive, &mut saving)
                };
                if let Err(Gone) = saves.put(next) {
                    break ended.recv().ok();
                }
            };
            if let Some(parts) = last {
                let Ok(()) = saves.put(|| Ok::<_, Infallible>(parts.recv().ok()));
            }
        })?;
        Ok(Self { learnt, thread, end, end_wait: FILES_END_WAIT })
    }

    /// Saves the rest after the disk has ended. A directory that does not answer delays the end of the daemon for a
    /// bounded time.
    pub fn close<D: Device, A: DiskHooks>(self, disk: &Disk<D, A>) {
        let learner = disk.core().mimic::<Learner>();
        // The disk has ended, so the knowledge no longer changes.
        let mut saving = learner.map(|learner| learner.begin_saving(&self.learnt.drive));
        self.end(|| Some(saving.as_mut()?.go_on(learner?, CELLS)));
    }

    /// Passes the parts of the last saving to the thread, and waits for the thread's end.
    fn end(self, mut next: impl FnMut() -> Option<SavedPart>) {
        let until = Instant::now() + self.end_wait;
        let (parts, waiting) = sync_channel(PARTS_WAITING_MAX);
        // Sending fails if the thread has failed.
        let mut goes_on = self.end.send(waiting).is_ok();
        while goes_on && let Some(part) = next() {
            let has_more = matches!(part, SavedPart::Part(_));
            goes_on = send_until(&parts, part, until) && has_more;
        }
        drop(parts);
        if join_until(self.thread, until).is_none() {
            let (path, waited) = (self.learnt.path.display(), self.end_wait);
            error!(%path, ?waited, "the learner's last state is not saved: the directory does not answer");
        }
    }
}

/// Sends a value as soon as the channel has room; returns whether it had until the time `until`.
fn send_until<T>(to: &SyncSender<T>, mut value: T, until: Instant) -> bool {
    loop {
        match to.try_send(value) {
            Err(TrySendError::Full(back)) if Instant::now() < until => value = back,
            sent => return sent.is_ok(),
        }
        std::thread::sleep(PART_EVERY);
    }
}

/// Returns the next part of a saving, and begins one if none is under way. Returns `None` for a disk that does not
/// learn.
fn part<D: Device + Send + 'static, A: DiskHooks + Send + 'static>(
    disk: &Mailbox<Disk<D, A>>,
    drive: &str,
    saving: &mut Option<Saving>,
) -> Result<Option<SavedPart>, Gone> {
    let (now, drive) = (saving.take(), drive.to_owned());
    let part = disk.ask(move |disk, _| {
        let learner = disk.core().mimic::<Learner>()?;
        let mut saving = now.unwrap_or_else(|| learner.begin_saving(&drive));
        let part = saving.go_on(learner, CELLS);
        Some((saving, part))
    })?;
    Ok(part.map(|(begun, part)| {
        // If the drive was exchanged, the saving begins anew.
        *saving = (part != SavedPart::Forgotten).then_some(begun);
        part
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded::ends;

    #[test]
    fn a_directory_that_hangs_does_not_keep_the_daemon_from_ending() {
        for takes_parts in [false, true] {
            let (release, held) = channel::<()>();
            let (end, ended) = channel::<Receiver<SavedPart>>();
            let thread = std::thread::spawn(move || {
                let parts = takes_parts.then(|| ended.recv());
                let _ = held.recv();
                drop((ended, parts));
            });
            let learnt = Learnt::new(Path::new("/none"), "a drive");
            let saver = LearntSaver { learnt, thread, end, end_wait: Duration::ZERO };
            let ended = ends(move || saver.end(|| Some(SavedPart::Part(Vec::new()))));
            drop(release);
            assert!(ended, "{takes_parts}");
        }
    }
}
