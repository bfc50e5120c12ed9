//! A host with the core outside the drive: it sends commands and receives completions (FAST'02).

use crate::cache_report::{CacheReport, without_transfer};
use crate::inside::{Background, InFlight, begin_scan};
use crate::observer::{Observer, SetupError, explained};
use crate::report::{BackgroundReport, HeadNanos, Report, RunningScan, ScanProgress};
use crate::statistics::{Ended, Statistics};
use crate::trust::Trust;
use drive::{Behaviour, BlackBox, Breakdown, Drive, DriveError, Queue, Reply, Rules, Served};
use model::{DriveModel, Position, Profile};
use scheduler::{
    Command, Config, ErrorRecord, Harm, HostCall, Input, Outcome, Output, OutsideDrive, Overheads,
    PlannerStats, Purpose, Refused, Request,
};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use units::{
    Arc as Rotation, CacheOps, Duration, FULL_REVOLUTION, Instant, Lbn, LbnRange, Op, RequestId, Sectors,
};
use workload::random::Stream;
use workload::{Issued, Issuer, Source};

/// A drive behind its interface, a core in front of it, a foreground load, and perhaps a scan.
///
/// The core's knowledge of the drive and the drive itself are separate: a measured or a wrong profile goes into `known`, the
/// true drive into `drive`.
///
/// ```
/// use drive::Behaviour;
/// use freeblock_sim::{Background, Nothing, Outside, black_box};
/// use model::{DriveModel, builtin};
/// use scheduler::{Config, OutsideConfig};
/// use std::sync::Arc;
/// use units::{Duration, Instant, Sectors};
/// use workload::{Arrival, Issuer, Oltp, OltpConfig};
///
/// let profile = builtin::find("quantum-atlas-10k")?;
/// let known = Arc::new(DriveModel::from_profile(&profile)?);
/// let (drive, overheads) = black_box(&profile, Behaviour::fast02(), 42)?;
/// let config = Config::outside(OutsideConfig::paper(overheads, Duration::from_micros(300)));
/// let load = Oltp::new(OltpConfig::new(known.layout().capacity(), known.sector_bytes()), 42)?;
/// let foreground = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 42)?;
/// let scan = Background::Scan { block: Sectors::new(8) };
/// let mut run = Outside::new(drive, known, config, foreground, scan)?;
/// run.advance(1_000, &mut Nothing)?;
/// assert!(run.report().background.mb_per_s > 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Outside<S> {
    core: OutsideDrive,
    device: Device,
    foreground: Issuer<S>,
    /// The unfinished requests; the index is the request's number less `first_in_flight`.
    in_flight: VecDeque<Option<Unfinished>>,
    first_in_flight: u64,
    now: Instant,
    /// Flushes and discards for which the drive has no room yet. They do not go through the core, which sends only
    /// reads and writes.
    orders: VecDeque<CacheOrder>,
    /// Commands for which the drive has no room: they wait in the host, as for a drive without a queue.
    held: VecDeque<Command>,
    /// Commands at the drive.
    sent: BTreeMap<u64, Command>,
    /// The instant of the last foreground completion.
    last_done: Instant,
    /// The drive's report on the last completed command.
    last: Option<Breakdown>,
    head: Spent,
    /// How the head spent its time before the measured stretch.
    head_before: HeadNanos,
    statistics: Statistics,
    cache: CacheReport,
    completed: u64,
    trust: Trust,
    scan: Option<RunningScan>,
    readings: Option<Readings>,
}

/// A flush or a discard.
#[derive(Debug)]
struct CacheOrder {
    id: RequestId,
    range: LbnRange,
    cache: CacheOps,
}

/// An unfinished request, with the cache operations that are not carried out yet.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    flight: InFlight,
    cache: CacheOps,
    /// The drive's report on the command that carried out the request.
    done: Option<Breakdown>,
}

/// The bit that distinguishes a flush or a discard from the core's commands, which count from zero. The other bits
/// are the request's number.
const ORDER_FLAG: u64 = 1 << 63;

/// Readings of single sectors at random LBNs, as many as the core permits.
#[derive(Debug)]
struct Readings {
    places: Stream,
    /// The instant at which the next reading is permitted; `None` if it is unknown.
    at: Option<Instant>,
    done: u64,
}

/// The device on the other side of the interface.
enum Device {
    /// A drive that reports the parts of its time.
    Drive(Box<Drive>),
    /// Any device.
    Any(Box<dyn BlackBox>),
}

impl Device {
    fn interface(&mut self) -> &mut dyn BlackBox {
        match self {
            Self::Drive(drive) => &mut **drive,
            Self::Any(device) => &mut **device,
        }
    }

    fn next_event(&self) -> Option<Instant> {
        match self {
            Self::Drive(drive) => drive.next_event(),
            Self::Any(device) => device.next_event(),
        }
    }

    fn pop(&mut self) -> Option<(Reply, Option<Breakdown>)> {
        match self {
            Self::Drive(drive) => drive.pop_completion().map(|done| (done.into(), Some(done.breakdown))),
            Self::Any(device) => device.pop_reply().map(|reply| (reply, None)),
        }
    }
}

/// How the head spends its time, from the drive's report on each command.
#[derive(Clone, Debug)]
struct Spent {
    model: Arc<DriveModel>,
    position: Position,
    /// The position of the head after the last foreground command, and the head's moves and latency since.
    group_from: Position,
    group_moves: Duration,
    rotation: Duration,
    spent: HeadNanos,
}

impl<S: Source> Outside<S> {
    /// Returns a run that begins at instant zero. `known` is the core's model of the drive.
    ///
    /// # Errors
    /// An invalid block size of the scan, or invalid settings of idle time.
    pub fn new(
        drive: Drive,
        known: Arc<DriveModel>,
        config: Config,
        foreground: Issuer<S>,
        background: Background,
    ) -> Result<Self, SetupError> {
        let (model, position) = (Arc::new(drive.model().clone()), drive.position());
        let device = Device::Drive(Box::new(drive));
        Self::begin(device, (model, position), known, config, (foreground, background))
    }

    /// Returns a run over any device. The report has no times of the head, because such a device does not report
    /// them.
    ///
    /// # Errors
    /// An invalid block size of the scan, or invalid settings of idle time.
    pub fn over(
        device: Box<dyn BlackBox>,
        known: Arc<DriveModel>,
        config: Config,
        foreground: Issuer<S>,
        background: Background,
    ) -> Result<Self, SetupError> {
        let model = Arc::clone(&known);
        let head = (model, Position::default());
        Self::begin(Device::Any(device), head, known, config, (foreground, background))
    }

    fn begin(
        device: Device,
        (model, position): (Arc<DriveModel>, Position),
        known: Arc<DriveModel>,
        config: Config,
        (foreground, background): (Issuer<S>, Background),
    ) -> Result<Self, SetupError> {
        let mut core = OutsideDrive::try_new(known, config)?;
        let scan = begin_scan(&mut core, background)?;
        Ok(Self {
            trust: Trust::new(&core),
            statistics: Statistics::new(core.drive().sector_bytes(), Instant::ZERO),
            cache: CacheReport::default(),
            completed: 0,
            core,
            last: None,
            head_before: HeadNanos::default(),
            head: Spent {
                model,
                position,
                group_from: position,
                group_moves: Duration::ZERO,
                rotation: Duration::ZERO,
                spent: HeadNanos::default(),
            },
            device,
            foreground,
            in_flight: VecDeque::new(),
            first_in_flight: 0,
            now: Instant::ZERO,
            orders: VecDeque::new(),
            held: VecDeque::new(),
            sent: BTreeMap::new(),
            last_done: Instant::ZERO,
            scan,
            readings: None,
        })
    }

    /// Runs until `requests` more foreground requests are done or the load has ended. Returns whether the load continues.
    ///
    /// # Errors
    /// A request of the load that is invalid for the drive, or a command that the drive refuses.
    pub fn advance(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        self.go_on(requests, false, observer)
    }

    /// Runs like [`advance`](Self::advance), but at most to the end of the scan. Returns whether the load and the
    /// scan continue.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_scan(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        Ok(self.go_on(requests, true, observer)? && !self.is_scanned())
    }

    /// Processes every event before `end`, idle work included.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) -> Result<(), SetupError> {
        while self.next_event().is_some_and(|at| at < end) {
            self.step(observer)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Reads single sectors at random LBNs from here on, as often as the core permits ([`HostCall::Read`]), like a
    /// probe that characterises the drive meanwhile.
    pub fn read_at_random(&mut self, seed: u64) {
        let begun = self.core.input(Input::Host(HostCall::WantReadings(true)));
        debug_assert!(begun.is_ok(), "{begun:?}");
        self.readings = Some(Readings { places: Stream::new(seed, "readings"), at: Some(self.now), done: 0 });
    }

    /// Returns the number of readings since [`read_at_random`](Self::read_at_random).
    pub fn readings(&self) -> u64 {
        self.readings.as_ref().map_or(0, |readings| readings.done)
    }

    /// Returns whether the scan has delivered every block; false without a scan.
    pub fn is_scanned(&self) -> bool {
        self.scan.is_some_and(|s| s.finished.is_some())
    }

    /// Returns the core, for sessions opened before and between calls of [`advance`](Self::advance).
    pub fn core_mut(&mut self) -> &mut OutsideDrive {
        &mut self.core
    }

    /// Returns the core.
    pub fn core(&self) -> &OutsideDrive {
        &self.core
    }

    /// Returns the number of finished foreground requests.
    pub fn requests(&self) -> u64 {
        self.completed
    }

    /// Discards the results so far: [`report`](Self::report) covers the time from now on. Requests that wait or are in
    /// service stay, and so does the scan's progress. The times in [`trust`](Self::trust) stay those of the whole run.
    pub fn measure_from_now(&mut self) {
        self.statistics.restart(self.now);
        self.cache = CacheReport::default();
        self.head_before = self.head.spent;
        if let Some(scan) = &mut self.scan {
            scan.restart(self.now);
        }
    }

    /// Returns the statistics of the foreground.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the flushes and discards so far.
    pub fn cache_report(&self) -> CacheReport {
        self.cache
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the progress of the scan.
    pub fn scan_progress(&self) -> Option<ScanProgress> {
        self.scan.as_ref().map(RunningScan::progress)
    }

    /// Returns the head's time so far, in nanoseconds.
    pub fn head(&self) -> HeadNanos {
        self.head.spent
    }

    /// Returns the planner's counters.
    pub fn planner_stats(&self) -> PlannerStats {
        self.core.planner_stats()
    }

    /// Returns the core's estimate of the foreground's delay by background work in idle time.
    pub fn harm(&self) -> Harm {
        self.core.harm()
    }

    /// Returns the reasons why gaps were not used, with their durations, and whether the drive is mistrusted.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Returns the errors of the core's predictions.
    pub fn prediction_errors(&self) -> &ErrorRecord {
        self.core.prediction_errors()
    }

    /// Returns the result so far.
    pub fn report(&self) -> Report {
        let run = self.now.saturating_since(self.statistics.from());
        let spent = self.head.spent.since(&self.head_before);
        Report {
            foreground: self.statistics.report(self.now),
            head_time: spent.shares(run),
            background: match self.scan {
                Some(scan) => scan.report(self.now, spent.potential_used()),
                None => BackgroundReport::default(),
            },
            simulated: run,
        }
    }

    fn go_on(
        &mut self,
        requests: u64,
        to_scan_end: bool,
        observer: &mut impl Observer,
    ) -> Result<bool, SetupError> {
        let goal = self.completed.saturating_add(requests);
        while self.completed < goal && !(to_scan_end && self.is_scanned()) {
            if !self.step(observer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the instant of the next event.
    fn next_event(&self) -> Option<Instant> {
        let reading = self.readings.as_ref().and_then(|readings| readings.at);
        let core = self.core.wake_at();
        [self.device.next_event(), core, self.foreground.due(), reading].into_iter().flatten().min()
    }

    /// Begins a reading if one is permitted.
    fn read(&mut self) -> Result<(), SetupError> {
        let Some(readings) = &mut self.readings else { return Ok(()) };
        let capacity = self.core.drive().layout().capacity().get();
        let lbn = readings.places.below(NonZeroU64::new(capacity).unwrap_or(NonZeroU64::MIN));
        let range = LbnRange::new(Lbn::new(lbn), Sectors::new(1));
        let read = self.core.input(Input::Host(HostCall::Read { at: self.now, range }));
        readings.done += u64::from(read.is_ok());
        if read.is_ok()
            && let Some(Output::Do(command)) = self.core.poll(self.now)
        {
            self.held.push_back(command);
        }
        readings.at = match read {
            Err(Refused::Reading(refused)) => refused.permitted_at,
            _ => None,
        };
        self.fill()
    }

    /// Processes one event: a completion, an arrival, or idle time. Returns false without a further event.
    fn step(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let Some(at) = self.next_event() else { return Ok(false) };
        self.now = self.now.max(at);
        self.device.interface().advance(self.now);
        // At one instant completions come before arrivals, because a completion may make the next request due.
        let mut heard = false;
        while let Some((reply, breakdown)) = self.device.pop() {
            heard = true;
            self.fill()?;
            if let Some(id) = reply.id.get().checked_sub(ORDER_FLAG) {
                self.order_done(RequestId::new(id), breakdown, observer)?;
            } else if let Some(command) = self.sent.remove(&reply.id.get()) {
                if let Some(breakdown) = breakdown {
                    self.head.account(&command, &breakdown);
                }
                self.last = breakdown;
                let outcome = reply.failed.map_or(Outcome::Done, Outcome::NoData);
                self.core.command_done(reply.at, command.id, outcome);
            }
            self.drain(observer)?;
            self.trust.note(self.now, &self.core);
        }
        if !heard {
            self.issue(observer)?;
            self.drain(observer)?;
        }
        self.read()?;
        Ok(true)
    }

    /// Submits every request that is due.
    fn issue(&mut self, observer: &mut impl Observer) -> Result<(), SetupError> {
        while let Some(Issued { task, request, cache, .. }) = self.foreground.issue(self.now) {
            let id = RequestId::new(self.first_in_flight + self.in_flight.len() as u64);
            let request = Request { id, op: request.op, range: request.range };
            let flight = InFlight { request, task, arrived: self.now };
            self.in_flight.push_back(Some(Unfinished { flight, cache, done: None }));
            if without_transfer(cache, request.range).is_none() {
                self.statistics.arrived(self.now);
                observer.arrived(request, self.now);
            }
            match cache {
                CacheOps { flush: true, .. } => self.flush(id)?,
                CacheOps { discard: true, .. } => self.order(id, request.range, cache)?,
                _ => self.core.submit(self.now, request)?,
            }
        }
        Ok(())
    }

    /// Sends the drive a flush for a request.
    fn flush(&mut self, id: RequestId) -> Result<(), SetupError> {
        let flush = CacheOps { flush: true, ..CacheOps::default() };
        self.order(id, LbnRange::new(Lbn::ZERO, Sectors::ZERO), flush)
    }

    fn order(&mut self, id: RequestId, range: LbnRange, cache: CacheOps) -> Result<(), SetupError> {
        self.orders.push_back(CacheOrder { id, range, cache });
        self.fill()
    }

    fn pending(&mut self, id: RequestId) -> Option<&mut Option<Unfinished>> {
        let slot = id.get().checked_sub(self.first_in_flight)?;
        self.in_flight.get_mut(usize::try_from(slot).ok()?)
    }

    /// Continues a request whose flush or discard is done: if a read or write came with the flush, its sectors
    /// follow.
    fn order_done(
        &mut self,
        id: RequestId,
        breakdown: Option<Breakdown>,
        observer: &mut impl Observer,
    ) -> Result<(), SetupError> {
        let Some(Some(pending)) = self.pending(id) else { return Ok(()) };
        let request = pending.flight.request;
        if pending.cache.flush && !request.range.is_empty() {
            pending.cache.flush = false;
            return Ok(self.core.submit(self.now, request)?);
        }
        if without_transfer(pending.cache, request.range).is_some() {
            pending.done = breakdown;
        }
        self.finish(id, observer)
    }

    /// Continues a request that the core reports as done: a forced write needs a flush before it is done.
    fn core_done(&mut self, id: RequestId, observer: &mut impl Observer) -> Result<(), SetupError> {
        let last = self.last;
        let Some(Some(pending)) = self.pending(id) else { return Ok(()) };
        pending.done = last;
        if pending.cache.forced && pending.flight.request.op.is_write() {
            pending.cache.forced = false;
            if let Some(done) = pending.done.as_mut().filter(|done| done.served == Served::Buffered) {
                done.served = Served::Medium;
            }
            return self.flush(id);
        }
        self.finish(id, observer)
    }

    /// Reports a request that is done.
    fn finish(&mut self, id: RequestId, observer: &mut impl Observer) -> Result<(), SetupError> {
        let Some(Unfinished { flight, cache, done }) = self.pending(id).and_then(Option::take) else {
            return Ok(());
        };
        while let Some(None) = self.in_flight.front() {
            self.in_flight.pop_front();
            self.first_in_flight += 1;
        }
        let InFlight { request, task, arrived } = flight;
        match without_transfer(cache, request.range) {
            Some(served) => self.cache.add(served, self.now.saturating_since(arrived)),
            None => {
                let access = self.now.since(self.last_done.max(arrived));
                let (op, sectors) = (request.op, request.range.len());
                self.statistics.completed(Ended { op, sectors, arrived, access }, self.now);
                observer.completed(request, arrived, self.now);
            }
        }
        self.completed += 1;
        self.last_done = self.now;
        observer.finished(&explained(request, arrived, self.now, done));
        self.foreground.complete(task, self.now);
        // The next request of a client task without a think time is in the core's pool before the core chooses again.
        self.issue(observer)
    }

    /// Sends the drive commands as long as the drive has room.
    fn fill(&mut self) -> Result<(), SetupError> {
        let device = self.device.interface();
        while device.outstanding() < device.queue_depth() {
            if let Some(CacheOrder { id, range, cache }) = self.orders.pop_front() {
                let id = RequestId::new(ORDER_FLAG | id.get());
                device.submit_with(self.now, drive::Command { id, op: Op::Write, range }, cache)?;
                continue;
            }
            let Some(command) = self.held.pop_front() else { break };
            let id = RequestId::new(command.id.get());
            device.submit(self.now, drive::Command { id, op: command.op, range: command.range })?;
            self.sent.insert(id.get(), command);
        }
        Ok(())
    }

    /// Handles the core's outputs.
    fn drain(&mut self, observer: &mut impl Observer) -> Result<(), SetupError> {
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Do(command) => {
                    self.held.push_back(command);
                    self.fill()?;
                }
                Output::Completed(id) | Output::Failed { id, .. } => {
                    self.core_done(id, observer)?;
                }
                Output::Deliver(record) => {
                    if let Some(scan) = &mut self.scan {
                        let sector = self.core.drive().sector_bytes();
                        let potential_used = self.head.spent.potential_used();
                        scan.delivered(record.range.len().bytes(sector), self.now, potential_used);
                    }
                    observer.delivered(&mut self.core, record, self.now);
                }
            }
        }
        Ok(())
    }
}

/// The calls of an array, whose event loop runs over all of its drives.
impl<S: Source> Outside<S> {
    /// Returns the instant of the next event.
    pub(crate) fn next_instant(&self) -> Option<Instant> {
        self.next_event()
    }

    /// Processes one event. Returns false without a further event.
    pub(crate) fn advance_once(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        self.step(observer)
    }

    /// Returns the load.
    pub(crate) fn load(&self) -> &Issuer<S> {
        &self.foreground
    }

    /// Returns the load, which takes the array's commands.
    pub(crate) fn load_mut(&mut self) -> &mut Issuer<S> {
        &mut self.foreground
    }
}

impl Spent {
    /// Adds the time of a finished command: moves and latency as the drive reports them, and the time for which the
    /// sectors pass on their tracks.
    fn account(&mut self, command: &Command, done: &Breakdown) {
        let asked = command.foreground.map_or(0, |range| range.len().get());
        let (mut own, mut other, mut last) = (Duration::ZERO, Duration::ZERO, self.position);
        let mut left = command.range.len().get();
        for piece in self.model.layout().pieces(command.range) {
            let track = self.model.layout().track(piece.track);
            // The last sectors of a command are those of the foreground.
            let before = left.saturating_sub(asked).min(u64::from(piece.len)) as u32;
            left -= u64::from(piece.len);
            let rpm = self.model.rpm();
            other += rpm.time_within(track.arc(piece.sector, before));
            own += rpm.time_within(track.arc(piece.sector + before, piece.len - before));
            last = track.into();
        }
        // A transfer from or to the buffer takes no time of the head.
        if matches!(done.served, Served::Hit | Served::Buffered) {
            (own, other) = (Duration::ZERO, Duration::ZERO);
        }
        let useful = self.sectors_take(last, command.useful).min(other);
        let moved = done.seek;
        self.rotation += done.latency;
        match command.purpose {
            Purpose::Idle { .. } => {
                self.spent.idle_seek += moved;
                self.spent.idle_transfer += useful;
                self.rotation = Duration::ZERO;
                self.group_from = last;
            }
            Purpose::Background { .. } => {
                self.group_moves += moved;
                self.spent.free_transfer += useful;
                self.rotation += other.saturating_sub(useful);
            }
            Purpose::Foreground => {
                self.group_moves += moved;
                self.spent.free_transfer += useful;
                self.rotation += other.saturating_sub(useful);
                self.spent.transfer += own;
                // Of the moves, the foreground's part is the direct move that it would need without the detour.
                let first = self.model.layout().pieces(command.range).next();
                let to = first.map_or(last, |p| self.model.layout().track(p.track).into());
                let direct = self.model.move_time(self.group_from, to, command.op).min(self.group_moves);
                self.spent.seek += direct;
                self.spent.extra_seek += self.group_moves.saturating_sub(direct);
                self.spent.rotation += self.rotation;
                (self.group_moves, self.rotation) = (Duration::ZERO, Duration::ZERO);
                self.group_from = last;
            }
        }
        self.position = last;
    }

    fn sectors_take(&self, at: Position, sectors: u32) -> Duration {
        let layout = self.model.layout();
        let on_track = layout.track_at(at.cylinder, at.head).map_or(1, |t| layout.track(t).sectors.max(1));
        let arc = Rotation::from_parts(u64::from(sectors) * FULL_REVOLUTION / u64::from(on_track));
        self.model.rpm().time_within(arc)
    }
}

/// Returns a simulated drive for an outside scheduler, and the knowable costs of its commands.
///
/// # Errors
/// The first invalid field, and the remedy.
pub fn black_box(
    profile: &Profile,
    behaviour: Behaviour,
    seed: u64,
) -> Result<(Drive, Overheads), DriveError> {
    let drive = Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, seed)?;
    let firmware = &behaviour.firmware(profile.firmware.as_ref().ok_or(DriveError::NoFirmware)?);
    // If commands wait in the host, the overhead of one cannot overlap the work on the one before.
    let overlap = behaviour.queue != Queue::Serial && drive.queue_depth() > 1;
    let mut overheads = Overheads::of(firmware, drive.model(), overlap);
    if let Some(bus) = behaviour.bus_time(drive.model().sector_bytes()) {
        overheads.completion[0] = overheads.completion[0].saturating_sub(overheads.bus_sector) + bus;
        overheads.bus_sector = bus;
    }
    overheads = overheads.writing_back(firmware, behaviour.writes_back(&firmware.cache));
    // A host can know only the mean of a varying cost.
    for command in &mut overheads.command {
        *command += behaviour.command_spread / 2;
    }
    for completion in &mut overheads.completion {
        *completion += behaviour.completion_spread / 2;
    }
    Ok((drive, overheads))
}
