//! A drive behind its interface, with noise, and a host that knows its profile.

use super::chooser::{Chooser, Seen};
use super::disk::Disk;
use crate::LabError;
use drive::{Behaviour, Command, Drive, Rules, Served};
use model::{DriveModel, Position, Profile};
use probe::{DeviceError, Options, Probe, ProbeError, ProbedDevice, Progress, Timed};
use scheduler::policy::{AgeWeight, Policy, Sptf, View};
use scheduler::{Last, Observed, Overheads, Pending, Positioning, Predictor};
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, LbnRange, Op, RequestId, Sectors};
use workload::{Random, RandomConfig, Source};

/// A simulated drive behind its interface, which gets one command at a time.
pub(crate) struct Real {
    drive: Drive,
    model: Arc<DriveModel>,
    /// The arm's position after the last request, as far as a host can know it.
    arm: Position,
    next: u64,
}

impl Real {
    /// Makes the drive with the noise of `behaviour`.
    ///
    /// # Errors
    /// The profile describes no drive.
    pub(crate) fn new(profile: &Profile, behaviour: Behaviour, seed: u64) -> Result<Self, LabError> {
        let failed = |e| LabError::new(format!("drive {}", profile.name), e);
        let drive = Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, seed).map_err(failed)?;
        let model = DriveModel::from_profile(profile)
            .map_err(|e| LabError::new(format!("drive {}", profile.name), e))?;
        Ok(Self { drive, model: Arc::new(model), arm: Position::default(), next: 0 })
    }

    /// Probes the drive for its profile, by reads only; `None` if this number of commands is not enough.
    ///
    /// # Errors
    /// The drive does not answer like a disk.
    pub(crate) fn probed_profile(self, most_commands: u64) -> Result<Option<Profile>, LabError> {
        let mut device = Timing { real: self, now: Instant::ZERO };
        let mut hook = |progress: &Progress<'_>| match progress.journal.commands() > most_commands {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match Probe::new(Options::default()).run(&mut device, &mut hook) {
            Ok(outcome) => Ok(Some(outcome.profile)),
            Err(ProbeError::Interrupted) => Ok(None),
            Err(e) => Err(LabError::new("probing the drive", e)),
        }
    }
}

/// A drive as the prober of profiles sees it.
struct Timing {
    real: Real,
    now: Instant,
}

impl ProbedDevice for Timing {
    fn capacity(&self) -> Sectors {
        self.real.model.layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.real.model.sector_bytes()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let submitted = at.max(self.now);
        self.now = self.real.serve(submitted, op, range).map_err(|e| DeviceError {
            op,
            range,
            unreadable: None,
            reason: e.to_string(),
            mend: "see what the drive's profile says".to_owned(),
        })?;
        Ok(Timed { submitted, completed: self.now })
    }
}

impl Disk for Real {
    fn model(&self) -> &DriveModel {
        &self.model
    }

    fn position(&self) -> Position {
        self.arm
    }

    fn serve(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Instant, LabError> {
        served(&mut self.drive, &mut self.next, at, op, range).map(|done| {
            if let Some(piece) = self.model.layout().pieces(range).last() {
                self.arm = self.model.layout().track(piece.track).into();
            }
            done.at
        })
    }
}

fn served(
    drive: &mut Drive,
    next: &mut u64,
    at: Instant,
    op: Op,
    range: LbnRange,
) -> Result<drive::Completion, LabError> {
    let id = RequestId::new(*next);
    *next += 1;
    let doing = || format!("{op} {range} at {}", drive.model().name());
    let text = doing();
    drive.submit(at, Command { id, op, range }).map_err(|e| LabError::new(text.as_str(), e))?;
    loop {
        if let Some(done) = drive.pop_completion() {
            return Ok(done);
        }
        let event =
            drive.next_event().ok_or_else(|| LabError::new(text.as_str(), "the drive never answers"))?;
        drive.advance(event);
    }
}

/// The times of a drive's electronics, by the kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Electronics {
    /// The time from a command to the beginning of its seek: for reads, and for writes.
    before: [Duration; 2],
    /// The time from the end of a command's last sector to its completion: for reads, and for writes.
    after: [Duration; 2],
}

impl Electronics {
    /// Returns the medians over random requests of this size, as the drive itself reports them.
    ///
    /// # Errors
    /// The profile describes no drive.
    pub(crate) fn of(
        profile: &Profile,
        behaviour: Behaviour,
        size: Sectors,
        seed: u64,
    ) -> Result<Self, LabError> {
        let mut real = Real::new(profile, behaviour, seed)?;
        let failed = |e| LabError::new("random requests", e);
        let mut config = RandomConfig::new(real.model.layout().capacity(), real.model.sector_bytes());
        config.size = size;
        let mut load = Random::new(config, seed).map_err(failed)?;
        let mut now = Instant::ZERO;
        let mut times: [[Vec<Duration>; 2]; 2] = Default::default();
        for _ in 0..2_000 {
            let Some(request) = load.next_request() else { break };
            let (op, range) = (request.op, request.range);
            let done = served(&mut real.drive, &mut real.next, now, op, range)?;
            now = done.at;
            let mut pieces = real.model.layout().pieces(range);
            let (Some(piece), None) = (pieces.next(), pieces.next()) else { continue };
            let track = real.model.layout().track(piece.track);
            let transfer = real.model.rpm().time_within(track.arc(piece.sector, piece.len));
            let breakdown = done.breakdown;
            let begun = breakdown.medium_end.checked_sub(transfer + breakdown.latency + breakdown.seek);
            let before = begun.and_then(|begun| begun.checked_since(breakdown.submitted));
            if let (Served::Miss | Served::Medium, Some(before)) = (breakdown.served, before) {
                let [befores, afters] = &mut times[usize::from(op.is_write())];
                befores.push(before);
                afters.push(done.at.saturating_since(breakdown.medium_end));
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        };
        let [[read_before, read_after], [write_before, write_after]] = &mut times;
        Ok(Self {
            before: [median(read_before), median(write_before)],
            after: [median(read_after), median(write_after)],
        })
    }
}

/// SPTF by a host that knows the drive's profile. The last completion gives the platter's angle (FAST'02, section
/// 3.2), and the last request gives the arm's position.
#[derive(Clone, Debug)]
pub(crate) struct FromProfile {
    model: Arc<DriveModel>,
    electronics: Electronics,
    /// Whether late requests widen `margin`: a profile that was probed by reading lacks the settle time before a
    /// write.
    learns: bool,
    /// The time by which reads and writes reach their sectors later than in the profile, as learned from late
    /// requests.
    margin: [Duration; 2],
    /// The last choice: read or write, and the predicted time to its first sector.
    chosen: Option<(Op, Duration)>,
}

/// The step by which a late request widens the margin. A request in time narrows the margin by a fiftieth of the
/// step, so that two in a hundred requests are late.
const MARGIN_STEP: Duration = Duration::from_micros(50);

impl FromProfile {
    /// Makes the scheduler from a true profile, and the times of the electronics that the drive itself reports.
    ///
    /// # Errors
    /// The profile describes no drive.
    pub(crate) fn true_to(
        profile: &Profile,
        behaviour: Behaviour,
        size: Sectors,
        seed: u64,
    ) -> Result<Self, LabError> {
        let electronics = Electronics::of(profile, behaviour, size, seed)?;
        Self::with(profile, false, |_| Ok(electronics))
    }

    /// Makes the scheduler from a probed profile alone; the margin is learned.
    ///
    /// # Errors
    /// The profile describes no drive, or has no electronics.
    pub(crate) fn by(profile: &Profile) -> Result<Self, LabError> {
        let none = || LabError::new(format!("drive {}", profile.name), "the profile has no firmware section");
        let firmware = profile.firmware.as_ref().ok_or_else(none)?;
        Self::with(profile, true, |model| {
            // A probe that only reads cannot find out whether a drive's cache writes back; here the host has switched
            // write-back off.
            let overheads = Overheads::of(firmware, model, false).writing_back(firmware, false);
            Ok(Electronics { before: overheads.command, after: overheads.completion })
        })
    }

    fn with(
        profile: &Profile,
        learns: bool,
        electronics: impl FnOnce(&DriveModel) -> Result<Electronics, LabError>,
    ) -> Result<Self, LabError> {
        let model = DriveModel::from_profile(profile)
            .map_err(|e| LabError::new(format!("drive {}", profile.name), e))?;
        let electronics = electronics(&model)?;
        Ok(Self { model: Arc::new(model), electronics, learns, margin: [Duration::ZERO; 2], chosen: None })
    }

    /// Returns where the arm is when `last` is done.
    fn arm(&self, last: Last) -> Position {
        let layout = self.model.layout();
        let piece = layout.pieces(LbnRange::new(last.lbn, Sectors::new(1))).next();
        piece.map_or_else(Position::default, |piece| layout.track(piece.track).into())
    }

    /// Returns a request with the track and sectors at which this profile places its LBNs.
    fn placed(&self, pending: &Pending) -> Pending {
        let layout = self.model.layout();
        let piece = layout.pieces(pending.request.range).next().unwrap_or(pending.piece);
        Pending { piece, track: layout.track(piece.track), ..*pending }
    }

    /// Returns an instant at which the model's platter is at the angle that the drive's platter has at the end of
    /// `last`.
    fn passed(&self, last: Last) -> Option<Instant> {
        let layout = self.model.layout();
        let piece = layout.pieces(LbnRange::new(last.lbn, Sectors::new(1))).next()?;
        let end = layout.track(piece.track).sector_angle(piece.sector + 1);
        let rpm = self.model.rpm();
        Some(Instant::ZERO + rpm.time_within(rpm.earliest_angle(Instant::ZERO).until(end)))
    }
}

impl Predictor for FromProfile {
    fn positioning(&self, from: Position, at: Instant, request: &Pending) -> Positioning {
        let [read, write] = self.electronics.before;
        let write_too = request.request.op.is_write();
        let before = if write_too { write } else { read } + self.margin[usize::from(write_too)];
        let Positioning { seek, rest } = self.model.positioning(from, at + before, request);
        Positioning { seek, rest: rest + before }
    }
}

impl Chooser for FromProfile {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        let Some((last, passed)) = seen.last.and_then(|last| Some((last, self.passed(last)?))) else {
            return 0;
        };
        let [read, write] = self.electronics.after;
        let at = passed + if last.op.is_write() { write } else { read } + seen.pause;
        let pool: Vec<Pending> = seen.queue.iter().map(|pending| self.placed(pending)).collect();
        let from = self.arm(last);
        let view = View {
            pool: &pool,
            at,
            from,
            predictor: &*self,
            last: Some(last),
            mimic: None,
            age: AgeWeight::default(),
            capacity: self.model.layout().capacity(),
        };
        let chosen = Sptf.choose(&view);
        let first = pool.get(chosen);
        self.chosen = first.map(|p| (p.request.op, self.positioning(from, at, p).total()));
        chosen
    }

    fn served(&mut self, seen: &Observed) {
        let Some((op, expected)) = self.chosen.take().filter(|_| self.learns) else { return };
        let revolution = self.model.rpm().time_within(units::Arc::REVOLUTION);
        let margin = &mut self.margin[usize::from(op.is_write())];
        *margin = match seen.time > expected + revolution / 2 {
            true => (*margin + MARGIN_STEP).min(revolution / 2),
            false => margin.saturating_sub(MARGIN_STEP / 50),
        };
    }
}
