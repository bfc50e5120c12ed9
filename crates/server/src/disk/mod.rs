//! A device with the core over it: passes on foreground requests, and does background work in their gaps.

mod apps;
mod background;
mod commands;
mod dispatch;
mod latency;
mod measured;
mod movement;
mod readings;
mod requests;
mod served;
mod status;
mod timeouts;
mod traffic;

pub use apps::{DiskHooks, Fence, NoApp, Spare};
pub use background::{
    AllDisks, BackgroundStatus, BackgroundTerms, Floor, MemoryStatus, PromotedStatus, ReadAheadBudget,
    SnapshotRequests, WaitStatus,
};
pub use latency::{BOUNDS_US, Latency};
pub use measured::{Measured, MeasuredArm, MeasuredShare};
pub use readings::{Reading, ReadingFailure, ReadingResult, ReadingTimes};
pub use status::{
    Accessed, BackgroundBytes, DeviceTime, DiskStatus, Gaps, HarmStatus, PredictionStatus, ProbeStatus,
};
pub use timeouts::TIMEOUT;

use crate::recording::{RecordedCore, Recorder};
use apps::{Apps, CallContext};
pub(crate) use background::{Asked, Background};
use commands::{CommandOrigin, Commands};
use device::{Answer, Ask, Device, Failure};
use freeblock::{Delivered, HalfReadBlocks, WriteBytes};
use model::DriveModel;
use readings::Readings;
use requests::{RequestSeq, Requests, State};
use scheduler::{
    AdoptError, Adoption, Command, Config, IdleTimeError, Input, Mimic, Output, OutsideDrive, Record,
    Refused, Request, Sessions, SubmitError, TrustWatch,
};
use status::{Counters, Waits};
use std::collections::VecDeque;
use std::sync::Arc;
use thiserror::Error;
use tracing::debug;
use units::{Bytes, Duration, Instant, LbnRange, Op, RequestId, Sectors};

/// The reason why no disk can be made of a device and a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The profile is of another device.
    #[error(
        "the device has {device} bytes in sectors of {device_sector}, its profile {profile} in sectors of {profile_sector}; give the profile that this device was probed for"
    )]
    OtherSize {
        /// The device's size.
        device: Bytes,
        /// The size of the device's sectors.
        device_sector: Bytes,
        /// The profile's size.
        profile: Bytes,
        /// The size of the profile's sectors.
        profile_sector: Bytes,
    },
    /// The core rejects its configuration.
    #[error(transparent)]
    Config(#[from] IdleTimeError),
}

/// A device with the core outside it, and an application on the core. A `Disk` is itself a [`Device`], so that a server
/// of devices serves it as any other; the background work is invisible to clients.
///
/// As with any device nothing happens between calls, and time is an argument: under a live server and in a test on
/// virtual time the same calls give the same commands.
///
/// # Promises about the bytes
/// * Overlapping requests, if one of them writes, are done in order of arrival, and are never at the device together.
/// * A flush is sent to the device at once and covers all acknowledged writes. A write-through request is passed on as
///   such.
/// * The bytes of a background write are requested when the core chooses the block; a foreground write that arrived
///   before or arrives later is on the medium afterwards.
/// * A record's bytes equal the medium at one instant before the delivery, also if the block came in parts, or was
///   never read but written.
/// * If the device does not answer a command [in time](Self::set_timeout), the command's foreground request fails, and
///   its background blocks are requested again. While the device may still carry out a write that was given up, no
///   overlapping command is sent, so that a late write cannot overwrite a newer one.
/// * While the application has the disk for itself ([`DiskHooks::taken`]), writes and discards of the foreground fail.
/// * A bad sector fails the request that asks for it, and the blocks in which it lies. Other requests and blocks that
///   were merged into the same command are done again without the bad sector.
///
/// ```
/// use device::{Ask, Device, Emulated};
/// use scheduler::{Application, Config, OutsideConfig, Overheads, Parameter, Priority, Record, Sessions};
/// use server::{Disk, DiskHooks};
/// use units::{Instant, Lbn, LbnRange, Sectors};
///
/// #[derive(Default)]
/// struct Sum { blocks: u64, done: bool }
///
/// impl DiskHooks for Sum {}
///
/// impl Application for Sum {
///     fn done(&mut self, _: &mut dyn Sessions, record: &Record, bytes: &[u8], _: Instant) {
///         assert_eq!(bytes.len(), 8 * 512);
///         (self.blocks, self.done) = (self.blocks + 1, record.last);
///     }
/// }
///
/// # let profile = model::Profile::from_toml(include_str!("../../../drive/tests/data/small.toml"), "small.toml")?;
/// # let path = std::env::temp_dir().join(format!("freeblock-disk-{}", std::process::id()));
/// # let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
/// let model = std::sync::Arc::new(model::DriveModel::from_profile(&profile)?);
/// let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &model, true);
/// let outside = OutsideConfig::beyond(overheads);
/// let drive = Emulated::new(&profile, Default::default(), 1, file)?;
/// let mut disk = Disk::new(drive, model, Config::outside(outside))?;
/// disk.host(Sum::default());
/// let range = LbnRange::new(Lbn::ZERO, Sectors::new(800));
/// disk.call(Instant::ZERO, |_, sessions| {
///     let session = sessions.open(Priority::default())?;
///     sessions.read(session, range, Sectors::new(8), Parameter::default())
/// }).unwrap()?;
///
/// // A client that reads here and there, on virtual time.
/// let (mut now, mut reads) = (Instant::ZERO, 0);
/// while !disk.app().unwrap().done {
///     reads += 1;
///     let range = LbnRange::new(Lbn::new(reads * 1_237 % 3_500), Sectors::new(8));
///     disk.ask(now, reads, range, Ask::Read);
///     while disk.poll(now).is_none() {
///         now = disk.next_event().unwrap();      // a live host waits until then
///         disk.advance(now);
///     }
/// }
/// assert_eq!(disk.app().unwrap().blocks, 100);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Disk<D, A = NoApp> {
    device: D,
    core: RecordedCore,
    sector: Bytes,
    apps: Apps<A>,
    requests: Requests,
    /// Writes that the application holds, in order of arrival.
    held: Vec<RequestSeq>,
    /// Requests for which the core's pool has no room.
    queued: VecDeque<RequestSeq>,
    commands: Commands,
    readings: Readings,
    blocks: HalfReadBlocks,
    writes: WriteBytes,
    answers: VecDeque<Answer>,
    /// Whether one of the answers is to a foreground request.
    answers_foreground: bool,
    /// Whether the core chooses background work only after the answers have been taken, so that the choice does not
    /// delay them.
    chooses_later: bool,
    /// Whether the application knows that writes are in flight.
    changing: bool,
    counters: Counters,
    watch: TrustWatch,
    /// The state of the probe that [`Disk::set_probe`] has set.
    probe: Option<ProbeStatus>,
    /// The latest time given to the core.
    core_time: Instant,
    /// The time after which an unanswered command is given up.
    timeout: Duration,
}

impl<D: Device, A> std::fmt::Debug for Disk<D, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("device", &self.device).finish_non_exhaustive()
    }
}

impl<D: Device, A: DiskHooks> Disk<D, A> {
    /// Returns a core over a device that `model` describes.
    ///
    /// # Errors
    /// The model has another size, or the configuration is impossible.
    pub fn new(device: D, model: Arc<DriveModel>, config: Config) -> Result<Self, DiskError> {
        let (sector, size) = (model.sector_bytes(), model.layout().capacity().bytes(model.sector_bytes()));
        if (device.sector_bytes(), device.size()) != (sector, size) {
            return Err(DiskError::OtherSize {
                device: device.size(),
                device_sector: device.sector_bytes(),
                profile: size,
                profile_sector: sector,
            });
        }
        Ok(Self {
            core: RecordedCore { core: OutsideDrive::try_new(model, config)?, recorder: None },
            device,
            sector,
            apps: Apps::new(),
            requests: Requests::default(),
            held: Vec::new(),
            queued: VecDeque::new(),
            commands: Commands::default(),
            readings: Readings::default(),
            blocks: HalfReadBlocks::new(sector),
            writes: WriteBytes::new(sector),
            answers: VecDeque::new(),
            answers_foreground: false,
            chooses_later: false,
            changing: false,
            counters: Counters::new(),
            watch: TrustWatch::default(),
            probe: None,
            core_time: Instant::ZERO,
            timeout: TIMEOUT,
        })
    }

    /// Sets the mimic, a predictor of request times that the policy SMTF asks. The mimic learns from each foreground
    /// request from here on.
    pub fn set_mimic(&mut self, mimic: Box<dyn Mimic>) {
        self.core.core.set_mimic(Some(mimic));
    }

    /// Records all inputs of the core and its decisions from here on. Call this before any request, because a
    /// [`CoreReplay`](crate::CoreReplay) begins with a fresh core.
    pub fn record(&mut self, recorder: Recorder) {
        self.core.recorder = Some(recorder);
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// The writer has failed: the recording is cut off then.
    pub fn end_recording(&mut self) -> std::io::Result<()> {
        self.core.recorder.take().map_or(Ok(()), Recorder::end)
    }

    /// Takes [background requests](Device::ask_in_background) of clients as background work from here on. Without this
    /// call they are foreground requests.
    pub fn take_background_requests(&mut self, terms: BackgroundTerms) {
        let capacity = self.core().drive().layout().capacity();
        let priority = scheduler::Priority::default();
        self.apps.background = Some(Background::new(terms, priority, self.sector, capacity));
    }

    /// Sets the application.
    pub fn host(&mut self, app: A) {
        self.apps.app = Some(app);
    }

    /// Returns the application, if there is one.
    pub fn app(&self) -> Option<&A> {
        self.apps.app.as_ref()
    }

    /// Returns the application, for changes that cause no work: no time passes for the disk, and no command is sent.
    pub fn app_mut(&mut self) -> Option<&mut A> {
        self.apps.app.as_mut()
    }

    /// Lets the application make calls. The application gets the records of the sessions that it opens. `None` if the
    /// disk has no application.
    pub fn call<R>(&mut self, now: Instant, call: impl FnOnce(&mut A, &mut dyn Sessions) -> R) -> Option<R> {
        self.between_events(now, |disk| {
            let context = CallContext { core: &mut disk.core, blocks: &mut disk.blocks };
            disk.apps.app.as_mut().map(|app| context.with(app, call))
        })
    }

    /// Runs a function that may make calls to the core, and does the work that the calls cause.
    fn between_events<R>(&mut self, now: Instant, run: impl FnOnce(&mut Self) -> R) -> R {
        self.device.advance(now);
        self.pump(now);
        let answer = run(self);
        self.ask_again();
        self.hurry_writes_before_tasks();
        self.pump(now);
        answer
    }

    /// Replaces the core's model of the drive and its configuration, as [`OutsideDrive::adopt`] does. A mimic that no
    /// policy asks any more is dropped. `setup` goes into the recording of a [recorded](Self::record) disk; a replay
    /// must be able to make the new model and configuration from it.
    ///
    /// # Errors
    /// The model has another size, or the configuration is impossible.
    pub fn adopt(
        &mut self,
        now: Instant,
        adoption: Adoption,
        setup: serde_json::Value,
    ) -> Result<(), AdoptError> {
        self.device.advance(now);
        self.core.adopt(adoption, setup)?;
        self.watch = TrustWatch::default();
        self.pump(now);
        Ok(())
    }

    /// Returns the core.
    pub fn core(&self) -> &OutsideDrive {
        &self.core
    }

    /// Returns the device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Sets the function that is called when a probe of the serving disk is asked for. With `None` the disk is not
    /// probed.
    pub fn on_probe_asked(&mut self, asked: Option<Box<dyn Fn() + Send>>) {
        self.readings.set_waker(asked);
    }

    /// Asks for a probe. Returns whether a function for that [is set](Self::on_probe_asked).
    pub fn ask_for_probe(&self) -> bool {
        self.readings.ring()
    }

    /// Sets the state of the probe in the [status](Self::status).
    pub fn set_probe(&mut self, probe: ProbeStatus) {
        self.probe = Some(probe);
    }

    /// Returns the number of foreground requests that are not answered.
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// Returns the status since the start.
    pub fn status(&self) -> DiskStatus {
        let waits = Waits {
            outstanding: self.requests.len(),
            parts_kept: self.blocks.len(),
            unanswered: self.commands.silent(),
        };
        let now = self.core_time;
        let wait = self.core.background_wait(now).and_then(|wait| WaitStatus::of_core(wait, now));
        let background = self.apps.background.as_ref();
        let snapshots = self.apps.snapshot_requests(now).into_iter();
        DiskStatus {
            mistrusted: self.watch.is_mistrusted(),
            background_requests: background.map(|background| background.status(now).explained(wait)),
            snapshot_requests: snapshots
                .map(|one| SnapshotRequests { requests: one.requests.explained(wait), ..one })
                .collect(),
            device_time: self.counters.device_time(self.core.core.drive(), self.core_time),
            accesses: self.counters.accesses(self.core_time),
            probe: self.probe.clone(),
            ..self.counters.status(&self.core, &waits)
        }
    }

    /// Does all work that needs no time to pass.
    fn pump(&mut self, now: Instant) {
        self.apps.set_time(now);
        loop {
            let mut moved = false;
            while let Some(answer) = self.device.poll(now) {
                self.counters.heard(now.saturating_since(answer.at));
                self.answered(answer, now);
                moved = true;
            }
            while let Some(output) = self.poll_core(now) {
                self.act(output, now);
                moved = true;
            }
            if self.apps.wants_flush() {
                self.commands.push(now, CommandOrigin::Flush, nowhere(), Ask::Flush);
            }
            moved |= self.take_background_writes(now);
            if self.apps.wants_clear()
                && !self.requests.begun().any(|range| self.apps.fenced(range) != Fence::Open)
                && !self.background_is_fenced()
            {
                let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
                self.apps.clear(context);
                self.ask_again();
                moved = true;
            }
            moved |= self.begin_reading(now) | self.send(now);
            moved |= self.take_background_answers() | self.take_snapshot_answers();
            if !moved {
                return;
            }
        }
    }

    fn poll_core(&mut self, now: Instant) -> Option<Output<Command>> {
        self.core_time = self.core_time.max(now);
        self.chooses_later = self.answers_foreground && self.core.core.chooses_background();
        if self.chooses_later {
            return None;
        }
        let Self { core, apps, writes, .. } = self;
        core.poll_with(self.core_time, &mut writes.buffers(|wanted, into| apps.buffer(wanted, into)))
    }

    fn act(&mut self, output: Output<Command>, now: Instant) {
        match output {
            Output::Do(command) => self.command(command, now),
            Output::Completed(id) => self.finish(id.get(), now),
            Output::Failed { id, bad } => {
                if let Some(request) = self.requests.get_mut(id.get()) {
                    request.failure.get_or_insert(Failure::Medium(bad));
                }
                self.finish(id.get(), now);
            }
            Output::Deliver(record) => self.deliver(record, now),
        }
    }

    /// Ends a request, successfully or not.
    fn finish(&mut self, seq: RequestSeq, now: Instant) {
        let Some(request) = self.requests.remove(seq) else { return };
        if self.changing && !self.requests.are_changing() {
            self.changing = false;
            self.apps.set_changing(false);
        }
        if request.changes() && matches!(request.state, State::Begun | State::Queued) {
            self.apps.wrote(request.range);
        }
        match self.background().filter(|_| request.background) {
            Some(background) => {
                background.release(seq);
                background.wrote(&request, now);
            }
            None => {
                self.counters.answered(&request, now, self.sector);
                self.answers_foreground = true;
            }
        }
        let result = request.failure.map_or(Ok(request.read), Err);
        self.answers.push_back(Answer { id: request.id, at: now, result });
        for next in self.requests.unblocked(request.range).into_iter().chain(self.queued.pop_front()) {
            self.begin(next);
        }
    }

    /// Begins a request that no other request blocks any more.
    fn begin(&mut self, seq: RequestSeq) {
        let Some(request) = self.requests.get_mut(seq) else { return };
        match self.apps.fenced(request.range) {
            _ if matches!(request.ask, Ask::Flush) => {}
            Fence::Open => {}
            Fence::Wait => {
                request.state = State::Held;
                self.held.push(seq);
                return;
            }
            Fence::Closed => {
                request.failure = Some(Failure::Taken(self.apps.fence()));
                return self.finish(seq, self.core_time);
            }
        }
        let background = self.apps.background.as_ref().filter(|_| request.background);
        let urgent = background.is_none_or(|background| background.is_hurried(seq));
        let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
        if request.changes() && self.apps.hold(context, request.range, urgent) {
            request.state = State::Held;
            self.held.push(seq);
            if !urgent && let Some(background) = &mut self.apps.background {
                background.hold(seq, request.arrived, request.range.len(), self.core_time);
                self.hurry_if_awaited(seq);
            }
            return;
        }
        request.state = State::Begun;
        let range = request.range;
        if request.changes() {
            self.apps.writing(range);
        }
        let op = match &request.ask {
            Ask::Read => Op::Read,
            Ask::Write { .. } if request.background => return self.begin_write_in_background(seq),
            Ask::Write { .. } => Op::Write,
            Ask::Discard | Ask::Flush | Ask::WriteZeroes { .. } => {
                let ask = request.ask.clone();
                return self.commands.push(self.core_time, CommandOrigin::Request(seq), range, ask);
            }
        };
        let submit =
            Input::Submit { at: self.core_time, request: Request { id: RequestId::new(seq), op, range } };
        if let Err(Refused::Submit(SubmitError::Full { .. })) = self.core.input(submit) {
            request.state = State::Queued;
            self.queued.push_back(seq);
        }
    }

    /// Delivers a background block.
    fn deliver(&mut self, record: Record, now: Instant) {
        let Delivered { record: delivered, bytes } = self.blocks.deliver(record);
        if delivered.bad != record.bad {
            debug!(?record, "a write has failed since a part of the block was read");
        }
        self.counters.delivered(&record);
        let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
        // A block without bytes may have good sectors: the application reads the block again.
        self.apps.done(context, &record, &bytes, now);
        self.ask_again();
    }

    /// Tries again to begin held writes and the background reads that wait at fences.
    fn ask_again(&mut self) {
        for seq in std::mem::take(&mut self.held) {
            self.begin(seq);
        }
        let fenced = self.background().map(Background::take_fenced).unwrap_or_default();
        for (id, asked) in fenced {
            self.begin_in_background(id, asked);
        }
    }
}

fn bytes_of(range: LbnRange, sector: Bytes) -> usize {
    usize::try_from(range.len().bytes(sector).get()).unwrap_or(0)
}

/// Returns the empty range of a flush.
fn nowhere() -> LbnRange {
    LbnRange::new(units::Lbn::ZERO, Sectors::ZERO)
}
