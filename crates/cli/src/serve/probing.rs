//! The probe of a disk without a profile, while the disk serves.
//!
//! A thread runs the probe, and asks the disk's thread for each timed read, which that thread sends when the bound on harm
//! permits. The measurements are saved in the disk's part of the state directory, and continue after a restart. When the probe
//! is sure, the profile is saved beside them, and the core adopts it; the next start begins with that profile.

use super::disk_config::DiskConfig;
use super::found::{FOUND, MEASURED, characterised, read, sealed};
use super::names::DeviceSpec;
use super::open::ServedDisk;
use crate::drive::resolve::ready;
use crate::files;
use crate::problem::Problem;
use crate::recipe::{Knowledge, Made, Recipe};
use ::probe::{
    Check, DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, ProbedProfile, Progress, Report,
    Timed,
};
use scheduler::Adoption;
use server::files::{FILES_END_WAIT, join_until};
use server::{Gone, Mailbox, ProbeStatus, Reading};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use units::{Bytes, LbnRange, Op, Sectors};

/// The interval at which the measurements are saved and the status is updated.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// The number of attempts to find a sure profile; each has more time than the one before.
const ATTEMPTS_MAX: u32 = 3;

type ServedMailbox = Mailbox<ServedDisk>;

/// A probe that has not begun.
pub(super) struct ToProbe {
    directory: PathBuf,
    drive: String,
    disk: String,
    recipe: Recipe,
    /// Whether the user has chosen the policy, so that a found profile does not change it.
    policy: bool,
    /// Whether the probe begins by itself, without a request at the control socket.
    at_once: bool,
}

/// A probe at work.
pub(super) struct Probing {
    disk: String,
    thread: JoinHandle<()>,
    ends: Arc<AtomicBool>,
}

impl Probing {
    /// Returns the probe of a disk that may be probed while it serves: idle time is used, there is a state directory, and the
    /// disk has no profile and is not known to be flash. With the option `probe` it begins by itself; without the option, if
    /// the disk reports its speed or is emulated.
    pub(super) fn of(disk: &DiskConfig, state: Option<&Path>, recipe: &Recipe) -> Option<ToProbe> {
        let unknown = matches!(recipe.drive, Knowledge::Size { .. });
        let directory = state.filter(|_| unknown)?.join(&disk.name);
        if disk.idle_after.is_none() {
            if disk.probe == Some(true) {
                info!(disk = disk.name, "not probed: its idle time is not used (idle_after_ms = 0)");
            }
            return None;
        }
        let rotates = match &disk.device {
            DeviceSpec::Emulated { .. } => true,
            DeviceSpec::Raw(path) => match device::inspect(path) {
                Ok(found) if found.rotational == Some(false) => return None,
                Ok(found) => found.rate.is_some(),
                // A file, which is not inspected, does not rotate.
                Err(_) => false,
            },
        };
        Some(ToProbe {
            directory,
            drive: disk.device.drive(),
            disk: disk.name.clone(),
            recipe: recipe.clone(),
            policy: disk.policy.is_some(),
            at_once: disk.probe.unwrap_or(rotates),
        })
    }

    /// Ends the probe after the disk has ended; the measurements are saved.
    pub(super) fn close(self, disk: &mut ServedDisk) {
        self.ends.store(true, Ordering::Relaxed);
        // A timed read that still waits is dropped, so that the probe's thread does not wait for it.
        disk.want_readings(false);
        disk.on_probe_asked(None);
        // A thread that has panicked has logged that.
        if join_until(self.thread, Instant::now() + FILES_END_WAIT).is_none() {
            error!(disk = self.disk, waited = ?FILES_END_WAIT, "the probe did not end in time; the daemon ends without it");
        }
    }
}

impl ToProbe {
    /// Begins to probe.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub(super) fn begin(self, served: ServedMailbox) -> Result<Probing, Problem> {
        let ends = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ends);
        let name = self.disk.clone();
        let (ring, asked) = channel();
        let bell: Box<dyn Fn() + Send> = Box::new(move || {
            // After the probe's thread has ended, a request to probe has no effect.
            let _ = ring.send(());
        });
        // If the disk's server has ended, there is nothing to probe.
        let _ = served.send(move |disk, _| disk.on_probe_asked(Some(bell)));
        let thread = Builder::new().name("probe".into()).spawn(move || {
            let mut begins = self.at_once;
            while begins || asked.recv().is_ok() {
                begins = false;
                if over.load(Ordering::Relaxed) || self.run(&served, &over) != Ok(false) {
                    return;
                }
                // Requests to probe that came meanwhile are answered by this probe.
                asked.try_iter().for_each(drop);
            }
        });
        let thread =
            thread.map_err(|e| Problem::failed(format!("no thread for the probe of {name}: {e}")))?;
        Ok(Probing { disk: name, thread, ends })
    }

    fn measured(&self) -> PathBuf {
        self.directory.join(MEASURED)
    }

    /// Returns a probe with the saved measurements. A file that cannot be used is renamed.
    fn resumed(&self) -> Probe {
        let path = self.measured();
        if !path.exists() {
            return Probe::new(Options::default());
        }
        let resumed = read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
            let journal = Journal::from_bytes(&bytes, &path.display().to_string());
            let probe = journal.and_then(|journal| Probe::resume(Options::default(), journal));
            probe.map_err(|error| error.to_string())
        });
        resumed.unwrap_or_else(|why| {
            self.put_aside(&why);
            Probe::new(Options::default())
        })
    }

    fn put_aside(&self, why: &str) {
        let aside = self.directory.join(format!("{MEASURED}.refused"));
        let renamed = std::fs::rename(self.measured(), &aside);
        warn!(disk = self.disk, why, aside = %aside.display(), ?renamed, "the probe begins anew");
    }

    fn save(&self, journal: &Journal) {
        if let Err(problem) = files::replace(&self.measured(), journal.to_bytes()) {
            warn!(disk = self.disk, ?problem, "the probe's measurements are not saved; the probe goes on");
        }
    }

    /// Probes; returns whether nothing is left to do.
    fn run(&self, served: &ServedMailbox, ends: &AtomicBool) -> Result<bool, Gone> {
        if let Err(error) = server::files::own_directory(&self.directory) {
            warn!(disk = self.disk, %error, "not probed: its part of the state directory cannot be used");
            return Ok(false);
        }
        served.send(|disk, _| disk.want_readings(true))?;
        info!(
            disk = self.disk,
            "no profile: the disk is probed while it serves, within the bound on harm; `probe = false` prevents that"
        );
        let mut status = ProbeStatus { state: "probing", ..ProbeStatus::default() };
        tell(served, &status)?;
        let mut fresh = true;
        for attempt in 1.. {
            let mut probe = self.resumed();
            let mut device = Live::new(served)?;
            let mut saved = Instant::now();
            let ended = probe.run(&mut device, &mut |at| {
                if saved.elapsed() >= SAVE_EVERY {
                    saved = Instant::now();
                    self.save(at.journal);
                    status = probing(at);
                    // If the server has ended, the next timed read fails.
                    let _ = tell(served, &status);
                }
                if ends.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let (commands, drive_time_s) =
                (probe.journal().commands(), probe.journal().drive_time().as_secs_f64());
            status = ProbeStatus { commands, drive_time_s, ..status };
            // A saved state of another disk (repeated reads end at other angles) or of another program is refused before the
            // first new read.
            if let Err(ProbeError::State(error)) = &ended
                && std::mem::take(&mut fresh)
            {
                self.put_aside(&error.to_string());
                continue;
            }
            self.save(probe.journal());
            let over = match ended {
                Ok(found) if !found.report.is_partial() => self.adopt(served, &found)?,
                Ok(found) if attempt < ATTEMPTS_MAX => {
                    let why = why_partial(&found.report);
                    info!(
                        disk = self.disk,
                        why, "the probe is not sure of the disk, and measures anew with more time"
                    );
                    continue;
                }
                Ok(found) => Err(("partial", why_partial(&found.report))),
                Err(ProbeError::Interrupted) => return Ok(true),
                // The disk's server ends.
                Err(ProbeError::Device(_)) if ends.load(Ordering::Relaxed) => return Ok(true),
                Err(error) => Err(("failed", error.to_string())),
            };
            served.send(|disk, _| disk.want_readings(false))?;
            status = match over {
                Ok(()) => ProbeStatus { state: "found", share: 1.0, ..status },
                Err((state, reason)) => {
                    warn!(
                        disk = self.disk,
                        reason,
                        "no profile: tasks have idle time only; `freeblock probe` measures a disk that is not being served"
                    );
                    ProbeStatus { state, reason: Some(reason), ..status }
                }
            };
            tell(served, &status)?;
            return Ok(status.state == "found");
        }
        Ok(true)
    }

    /// Saves the profile, and has the core adopt it.
    fn adopt(
        &self,
        served: &ServedMailbox,
        found: &ProbedProfile,
    ) -> Result<Result<(), (&'static str, String)>, Gone> {
        let failed = |problem: Problem| ("failed", format!("{problem:?}"));
        let toml = found.profile.to_toml();
        let known = ready(FOUND, toml.clone(), found.profile.clone())
            .and_then(|found| characterised(found, &self.disk));
        let drive = match known {
            Ok(drive) => drive,
            Err(problem) => return Ok(Err(failed(problem))),
        };
        if let Err(problem) = files::replace(&self.directory.join(FOUND), sealed(&self.drive, &toml)) {
            error!(
                disk = self.disk,
                ?problem,
                "the profile is used, but not saved: the next start probes again"
            );
        }
        let policy = if self.policy { self.recipe.policy.clone() } else { drive.policy().to_string() };
        let recipe = Recipe { drive, policy, ..self.recipe.clone() };
        let setup = serde_json::to_value(&recipe).map_err(|error| error.to_string());
        let (Made { model: drive, config, .. }, setup) =
            match recipe.make().and_then(|made| Ok((made, setup?))) {
                Ok(made) => made,
                Err(error) => return Ok(Err(("failed", error))),
            };
        let within = 100.0 * found.report.check.within_50us;
        match served.ask(move |disk, now| disk.adopt(now, Adoption { drive, config }, setup))? {
            Ok(()) => {
                info!(
                    disk = self.disk,
                    commands = found.report.commands,
                    drive_s = found.report.drive_time_s.round(),
                    within_50us = format!("{within:.1}%"),
                    "the probe has found a profile: gaps are used from now on"
                );
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(("failed", error.to_string()))),
        }
    }
}

/// Returns why a report is of a part of the disk only.
fn why_partial(report: &Report) -> String {
    let Check { requests, within_50us, of_drive, .. } = report.check;
    let given_up: String =
        report.given_up.iter().map(|left| format!("; {}: {}", left.what, left.why)).collect();
    format!(
        "the profile predicts {:.1}% of {requests} reads in {:.1}% of the disk within 50 us{given_up}",
        100.0 * within_50us,
        100.0 * of_drive
    )
}

fn tell(served: &ServedMailbox, status: &ProbeStatus) -> Result<(), Gone> {
    let status = status.clone();
    served.send(move |disk, _| disk.set_probe(status))
}

fn probing(at: &Progress<'_>) -> ProbeStatus {
    ProbeStatus {
        state: "probing",
        share: at.share,
        commands: at.journal.commands(),
        drive_time_s: at.journal.drive_time().as_secs_f64(),
        reason: None,
    }
}

/// A disk that serves clients at the same time, as the probe's device.
struct Live<'a> {
    served: &'a ServedMailbox,
    capacity: Sectors,
    sector_bytes: Bytes,
    /// The time of the disk's clock when it was last read.
    last: Cell<units::Instant>,
}

impl<'a> Live<'a> {
    fn new(served: &'a ServedMailbox) -> Result<Self, Gone> {
        let (capacity, sector_bytes, now) = served.ask(|disk, now| {
            let drive = disk.core().drive();
            (drive.layout().capacity(), drive.sector_bytes(), now)
        })?;
        Ok(Self { served, capacity, sector_bytes, last: Cell::new(now) })
    }

    fn read(&self, op: Op, reading: Reading) -> Result<Option<Timed>, DeviceError> {
        let failed = |reason: String, unreadable| DeviceError {
            op,
            range: reading.range,
            unreadable,
            reason,
            mend: "the daemon's log says more".to_owned(),
        };
        if op.is_write() {
            return Err(failed("a disk that serves others is only read".to_owned(), None));
        }
        let (answer, answers) = sync_channel(1);
        let gone = || failed("the disk is not served any more".to_owned(), None);
        let read = self.served.send(move |disk, now| {
            disk.read(now, reading, move |result| {
                // Sending fails if the probe has ended.
                let _ = answer.send(result);
            });
        });
        read.map_err(|Gone| gone())?;
        match answers.recv() {
            Ok(Ok(times)) => {
                Ok(times.map(|times| Timed { submitted: times.submitted, completed: times.completed }))
            }
            Ok(Err(failure)) => Err(failed(failure.reason, failure.bad)),
            Err(_) => Err(gone()),
        }
    }
}

impl ProbedDevice for Live<'_> {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn sector_bytes(&self) -> Bytes {
        self.sector_bytes
    }

    fn now(&self) -> units::Instant {
        // A disk that has ended has no later time, and its next timed read fails.
        let now = self.served.ask(|_, now| now).unwrap_or(self.last.get());
        self.last.set(now.max(self.last.get()));
        self.last.get()
    }

    fn execute(&mut self, at: units::Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        loop {
            if let Some(timed) = self.read(op, Reading { at, range, next: false })? {
                return Ok(timed);
            }
        }
    }

    fn execute_next(
        &mut self,
        at: units::Instant,
        op: Op,
        range: LbnRange,
    ) -> Result<Option<Timed>, DeviceError> {
        self.read(op, Reading { at, range, next: true })
    }
}
