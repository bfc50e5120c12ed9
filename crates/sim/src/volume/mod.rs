//! A drive that holds bytes, with a core in it or outside and applications over the core.

mod faults;
mod hosted;
mod load;
mod outside;
mod passing;
mod platters;
mod results;
mod under_way;

pub use faults::Faults;
pub use hosted::{Hosted, Place, Tally};
pub use outside::TrueDrive;
pub use platters::{Cure, Platters};
pub use results::{Completion, Content, Passed, VolumeError, VolumeReport};

use crate::head::Head;
use crate::placed::{PlacedCore, PlacedWork};
use crate::statistics::{Ended, Statistics};
use faults::Chance;
use hosted::{Apps, Asker};
use load::Load;
use model::DriveModel;
use outside::Behind;
use scheduler::{
    Application, Config, Core, Given, HeadWork, Output, PlannerStats, Record, Request, Sessions,
};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use under_way::UnderWay;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId};
use workload::ClosedTask;

type Watcher = Box<dyn FnMut(&Passed)>;

struct VolumeRequest {
    request: Request,
    arrived: Instant,
    /// The bytes of a write; `None` for a load of which only the timing matters.
    bytes: Option<Vec<u8>>,
    /// The number of the load and the task that issued the request; `None` for a submitted request.
    load: Option<(u64, ClosedTask)>,
}

/// A drive with bytes on it, a core in it or outside, applications over the core, and a foreground.
///
/// Time is virtual: [`run_until`](Self::run_until) processes event after event. Requests [submitted](Self::submit_write) and
/// calls [made](Self::call) between two runs happen at [`now`](Self::now), before the core's next choice. The same calls
/// give the same bytes at the same nanosecond.
///
/// # When bytes move
/// An order of the core (one [`HeadWork::Execute`]) is carried out in the order of its accesses. The bytes of an
/// order move when the order ends: if the order is cut short, or the power is cut, the sectors that had passed by
/// then are on the medium and no others. A sector is never torn. The delay is invisible, because the core gives no
/// other order meanwhile.
///
/// The bytes of a record, and those of a foreground read, are the contents of the medium at the end of the order that
/// completed it. For a block that passed whole, these are the bytes that passed, overlaid with writes of the same
/// order, which are in RAM. For a block that is read in pieces, the bytes of an earlier piece are those that passed, or
/// those of a later write; a drive has the latter in its RAM as well. So the bytes of a block are always bytes that
/// were on the medium together. See [`Output::Deliver`].
///
/// # A counter
/// ```
/// use freeblock_sim::{Content, Faults, Platters, Volume};
/// use model::{DriveModel, Profile};
/// use scheduler::{Application, Config, Parameter, Priority, Record, SessionError, Sessions};
/// use std::sync::Arc;
/// use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
/// use workload::{Arrival, Issuer, Random, RandomConfig, Source};
///
/// /// Counts the sevens on a drive, and what could not be read of it.
/// #[derive(Default)]
/// struct Counter { sevens: usize, bad: u64, done: bool }
///
/// impl Counter {
///     fn start(&mut self, sessions: &mut dyn Sessions, all: LbnRange) -> Result<(), SessionError> {
///         let session = sessions.open(Priority::default())?;
///         sessions.read(session, all, Sectors::new(8), Parameter::default()).map(|_| ())
///     }
/// }
///
/// impl Application for Counter {
///     fn done(&mut self, _: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
///         self.sevens += bytes.iter().filter(|byte| **byte == 7).count();
///         self.bad += u64::from(done.bad.is_some());
///         self.done = done.last;
///     }
/// }
///
/// # let toml = include_str!("../../../model/tests/data/tiny.toml");
/// let drive = Arc::new(DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml")?)?);
/// let all = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
/// let mut platters = Platters::blank(&drive);
/// platters.medium_mut().write(LbnRange::new(Lbn::new(100), Sectors::new(1)), &[7; 512])?;
/// let mut volume = Volume::new(Arc::clone(&drive), Config::default(), platters)?;
/// let counter = volume.host(Counter::default());
/// volume.call(counter, |counter, sessions| counter.start(sessions, all)).unwrap()?;
///
/// // The drive is busy with other things.
/// let load: Box<dyn Source> = Box::new(Random::new(RandomConfig::new(all.len(), Bytes::new(512)), 1)?);
/// volume.load(Issuer::new(load, Arrival::oltp(4), Instant::ZERO, 1)?, Content::Timing);
/// while !volume.app(counter).unwrap().done {
///     volume.run_for(Duration::from_secs(1))?;
/// }
/// assert_eq!(volume.app(counter).unwrap().sevens, 512);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Volume {
    drive: Arc<DriveModel>,
    core: PlacedCore,
    head: Head,
    platters: Platters,
    started: Instant,
    now: Instant,
    under_way: Option<UnderWay>,
    /// Whether requests or calls were made since the core was last polled.
    stirred: bool,
    apps: Apps,
    given: Given,
    /// Whether the stored bytes are for a promoted write that was lost, and are not requested again.
    again: bool,
    /// The drive behind its interface, if the core is outside.
    outside: Option<Box<Behind>>,
    in_flight: BTreeMap<RequestId, VolumeRequest>,
    next_request: u64,
    completions: VecDeque<Completion>,
    load: Option<Load>,
    /// The number of loads so far.
    loads: u64,
    chance: Chance,
    statistics: Statistics,
    executes: u64,
    watcher: Option<Watcher>,
}

impl Volume {
    /// Returns a drive at rest at instant zero.
    ///
    /// # Errors
    /// Platters of another size, or invalid settings of idle time.
    pub fn new(drive: Arc<DriveModel>, config: Config, platters: Platters) -> Result<Self, VolumeError> {
        Self::starting_at(Instant::ZERO, drive, config, platters)
    }

    /// Returns a drive that is switched on at an instant, as after a [power cut](Self::power_cut).
    ///
    /// # Errors
    /// Platters of another size, or invalid settings of idle time.
    pub fn starting_at(
        now: Instant,
        drive: Arc<DriveModel>,
        config: Config,
        platters: Platters,
    ) -> Result<Self, VolumeError> {
        let core = PlacedCore::in_drive(Arc::clone(&drive), config)?;
        Self::of(now, core, drive, platters)
    }

    fn of(
        now: Instant,
        core: PlacedCore,
        drive: Arc<DriveModel>,
        platters: Platters,
    ) -> Result<Self, VolumeError> {
        let (capacity, medium) = (drive.layout().capacity(), platters.medium().capacity());
        if capacity != medium {
            return Err(VolumeError::Platters { drive: capacity, medium });
        }
        let sector = drive.sector_bytes();
        Ok(Self {
            core,
            head: Head::new(Arc::clone(&drive)),
            drive,
            platters,
            started: now,
            now,
            under_way: None,
            stirred: false,
            apps: Apps::default(),
            given: Given::new(sector),
            again: false,
            outside: None,
            in_flight: BTreeMap::new(),
            next_request: 1,
            completions: VecDeque::new(),
            load: None,
            loads: 0,
            chance: Chance::new(Faults::default()),
            statistics: Statistics::new(sector, now),
            executes: 0,
            watcher: None,
        })
    }

    /// Sets the faults from here on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.chance = Chance::new(faults);
    }

    /// Calls `watcher` with the sectors that the head passes over.
    pub fn watch(&mut self, watcher: impl FnMut(&Passed) + 'static) {
        self.watcher = Some(Box::new(watcher));
    }

    /// Adds an application.
    pub fn host<T: Application + 'static>(&mut self, app: T) -> Place<T> {
        Place { index: self.apps.add(Box::new(app)), kind: PhantomData }
    }

    /// Returns an application; `None` if the handle is of another volume.
    pub fn app<T: Application + 'static>(&self, place: Place<T>) -> Option<&T> {
        self.apps.get(place)
    }

    /// Returns the results of an application.
    pub fn tally<T>(&self, place: Place<T>) -> Tally {
        self.apps.tally(place.index)
    }

    /// Lets an application make calls now; the application gets the records of the sessions that it opens. `None` if
    /// the handle is of another volume.
    pub fn call<T: Application + 'static, R>(
        &mut self,
        place: Place<T>,
        call: impl FnOnce(&mut T, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        self.apps.call(&mut *self.core, place, call)
    }

    /// Submits a foreground read now. Its [`Completion`] has the bytes.
    ///
    /// # Errors
    /// The core's refusal.
    pub fn submit_read(&mut self, range: LbnRange) -> Result<RequestId, VolumeError> {
        self.submit(Op::Read, range, None, None)
    }

    /// Submits a foreground write now.
    ///
    /// # Errors
    /// The core's refusal, or a number of bytes that does not match the range.
    pub fn submit_write(&mut self, range: LbnRange, bytes: Vec<u8>) -> Result<RequestId, VolumeError> {
        let (expected, found) = (range.len().bytes(self.drive.sector_bytes()).get(), bytes.len() as u64);
        if expected != found {
            return Err(VolumeError::Bytes { range, expected, found });
        }
        self.submit(Op::Write, range, Some(bytes), None)
    }

    fn submit(
        &mut self,
        op: Op,
        range: LbnRange,
        bytes: Option<Vec<u8>>,
        load: Option<(u64, ClosedTask)>,
    ) -> Result<RequestId, VolumeError> {
        let id = RequestId::new(self.next_request);
        let request = Request { id, op, range };
        self.core.submit(self.now, request)?;
        self.next_request += 1;
        self.statistics.arrived(self.now);
        self.in_flight.insert(id, VolumeRequest { request, arrived: self.now, bytes, load });
        self.stirred = true;
        Ok(id)
    }

    /// Returns the oldest completion that has not been taken. Completions of a [load](Self::load) are not kept.
    pub fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Returns the number of unfinished foreground requests, a load's included.
    pub fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the drive model.
    pub fn drive(&self) -> &Arc<DriveModel> {
        &self.drive
    }

    /// Returns the core, for queries.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the core as one in the drive or outside, for queries that only one of the two answers.
    pub fn placed(&self) -> &PlacedCore {
        &self.core
    }

    /// Returns the bytes on the medium now, without the work under way.
    pub fn platters(&self) -> &Platters {
        &self.platters
    }

    /// Returns the bytes on the medium now, to make sectors bad.
    pub fn platters_mut(&mut self) -> &mut Platters {
        &mut self.platters
    }

    /// Returns the planner's counters.
    pub fn planner_stats(&self) -> PlannerStats {
        self.core.planner_stats()
    }

    /// Returns the results so far.
    pub fn report(&self) -> VolumeReport {
        // The work under way is counted up to its end, so the run is measured up to there.
        let end = self.under_way.as_ref().map_or(self.now, |u| u.until.max(self.now));
        let run = end.since(self.started);
        VolumeReport {
            foreground: self.statistics.report(end),
            head_time: self.head.spent.shares(run),
            potential_used: self.head.spent.potential_used(),
            harm: self.core.harm(),
            simulated: run,
        }
    }

    /// Returns the instant of the next event, `None` without one.
    pub fn next_at(&self) -> Option<Instant> {
        if self.stirred || self.apps.stirred {
            return Some(self.now);
        }
        let reported = self.under_way.as_ref().map(|u| u.reported(&self.chance));
        let reported = reported.into_iter().chain(self.outside.as_ref().and_then(|o| o.next_at())).min();
        let due = self.load.as_ref().and_then(|load| load.due());
        [reported, due, self.core.wake_at()].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Processes the next event. Returns false without one.
    ///
    /// # Errors
    /// A request of the load that is invalid for the drive.
    pub fn step(&mut self) -> Result<bool, VolumeError> {
        let Some(at) = self.next_at() else { return Ok(false) };
        self.now = at;
        if self.stirred || self.apps.stirred {
            self.drain()?;
            return Ok(true);
        }
        // At one instant the completion comes before arrivals, because it may make the next request due.
        if self.outside.as_ref().and_then(|o| o.next_at()).is_some_and(|next| next <= at) {
            self.report_outside()?;
        } else if self.under_way.as_ref().is_some_and(|u| u.reported(&self.chance) <= at) {
            self.reported()?;
        } else {
            self.issue()?;
        }
        self.drain()?;
        Ok(true)
    }

    /// Processes all events up to `until`, that instant included.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run_until(&mut self, until: Instant) -> Result<(), VolumeError> {
        while self.next_at().is_some_and(|at| at <= until) {
            self.step()?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Processes all events of the next `time`.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run_for(&mut self, time: Duration) -> Result<(), VolumeError> {
        self.run_until(self.now + time)
    }

    /// Runs until every submitted request is done; not for a load without end.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn settle(&mut self) -> Result<(), VolumeError> {
        while !self.in_flight.is_empty() && self.step()? {}
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<PlacedWork>> {
        let fresh = !self.again;
        let Self { apps, given, drive, .. } = self;
        let mut asker = Asker { apps, given, sector: drive.sector_bytes(), fresh };
        self.core.poll_with(self.now, &mut asker)
    }

    fn drain(&mut self) -> Result<(), VolumeError> {
        self.drain_from(self.now)
    }

    /// Handles the core's outputs. A request that the core reports as completed was begun at `began`.
    fn drain_from(&mut self, began: Instant) -> Result<(), VolumeError> {
        self.stirred = false;
        while let Some(output) = self.poll() {
            self.act(output, began)?;
        }
        // Applications may have made calls when they got records, but the core has been polled since.
        (self.stirred, self.apps.stirred) = (false, false);
        Ok(())
    }

    fn act(&mut self, output: Output<PlacedWork>, began: Instant) -> Result<(), VolumeError> {
        match output {
            Output::Do(PlacedWork::Head(HeadWork::Execute)) => {
                self.execute();
                self.again = false;
            }
            Output::Do(PlacedWork::Head(HeadWork::Cut)) => self.cut(),
            Output::Do(PlacedWork::Command(command)) => self.send(command)?,
            Output::Completed(id) => self.completed(id, None, began)?,
            Output::Failed { id, bad } => self.completed(id, Some(bad), began)?,
            Output::Deliver(record) => self.deliver(&record)?,
        }
        Ok(())
    }

    fn completed(&mut self, id: RequestId, bad: Option<Lbn>, began: Instant) -> Result<(), VolumeError> {
        let Some(done) = self.in_flight.remove(&id) else {
            debug_assert!(false, "{id} was completed twice, or never submitted");
            return Ok(());
        };
        let Request { op, range, .. } = done.request;
        let (sectors, arrived, access) = (range.len(), done.arrived, self.now.since(began));
        self.statistics.completed(Ended { op, sectors, arrived, access }, self.now);
        if let Some((number, task)) = done.load {
            if let Some(load) = self.load.as_mut().filter(|load| load.number == number) {
                load.issuer.complete(task, self.now);
            }
            // The next request of a client task without a think time is in the core's pool before the core chooses
            // again.
            return self.issue();
        }
        let bytes = if op == Op::Read && bad.is_none() { self.read(range)? } else { Vec::new() };
        let (arrived, at) = (done.arrived, self.now);
        self.completions.push_back(Completion { id, op, range, bytes, bad, arrived, at });
        Ok(())
    }

    fn deliver(&mut self, record: &Record) -> Result<(), VolumeError> {
        let Record { op, range, bad, .. } = *record;
        let bytes = if op == Op::Read && bad.is_none() { self.read(range)? } else { Vec::new() };
        let size: Bytes = range.len().bytes(self.drive.sector_bytes());
        self.apps.done(&mut *self.core, record, &bytes, size, self.now);
        Ok(())
    }

    fn read(&self, range: LbnRange) -> Result<Vec<u8>, VolumeError> {
        let mut bytes = vec![0; range.len().bytes(self.drive.sector_bytes()).get() as usize];
        self.platters.medium().read(range, &mut bytes)?;
        Ok(bytes)
    }
}
