//! The core in a drive that holds bytes, with applications on it.

mod faults;
mod hosted;
mod load;
mod outside;
mod passing;
mod platters;
mod told;
mod under_way;

pub use faults::Faults;
pub use hosted::{Hosted, Place, Tally};
pub use platters::{Cure, Platters};
pub use told::{Completion, Content, Passed, VolumeError, VolumeReport};

use crate::head::Head;
use crate::report::Times;
use faults::Chance;
use hosted::{Apps, Asker};
use load::Load;
use model::DriveModel;
use outside::Outside;
use scheduler::{Action, Application, Config, Core, Given, PlannerStats, Record, Request, Sessions};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use under_way::UnderWay;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId};
use workload::ClosedTask;

type Watcher = Box<dyn FnMut(&Passed)>;

struct InFlight {
    request: Request,
    arrived: Instant,
    /// What it writes; none for a load that is there for its timing.
    bytes: Option<Vec<u8>>,
    /// Whose it is, if a load's: which load, and which of its tasks.
    load: Option<(u64, ClosedTask)>,
}

/// A drive with bytes on it, the core in it, applications over the core, and a foreground.
///
/// Time is virtual: [`run_until`](Self::run_until) goes from event to event. What is [submitted](Self::submit_write) or
/// [called](Self::call) between two runs happens at [`now`](Self::now), and all of it before the core chooses what to
/// do. The same calls give the same bytes at the same nanosecond.
///
/// # What the bytes do
/// A wish of the core (one [`Action::Execute`]) is carried out in the order of its accesses, and its bytes move when it
/// ends, as far as it went: where it is cut short, or the power is cut, the sectors that had passed by then are on the
/// medium and no others. A sector is never torn. In between nobody could tell: the core orders nothing else meanwhile.
///
/// A record's bytes, and those of a foreground read, are what the medium holds at the end of the wish that completed
/// it. For a block that passed whole, that is what passed, overlaid with what the same wish wrote to it, which is in
/// memory. Of a block that is read in pieces the earlier pieces are as they passed or, where they were written to since,
/// newer; that too a drive has in memory. So a block is always one that was on the medium as a whole. See
/// [`Action::Deliver`].
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
    core: Core,
    head: Head,
    platters: Platters,
    started: Instant,
    now: Instant,
    under_way: Option<UnderWay>,
    /// Something was submitted since the core was last polled.
    stirred: bool,
    apps: Apps,
    given: Given,
    /// What was given is for a promoted write that was lost, and is not asked for again.
    again: bool,
    /// What a core outside the drive sends commands to.
    outside: Option<Box<Outside>>,
    in_flight: BTreeMap<RequestId, InFlight>,
    next_request: u64,
    completions: VecDeque<Completion>,
    load: Option<Load>,
    /// How many there were.
    loads: u64,
    chance: Chance,
    times: Times,
    executes: u64,
    watcher: Option<Watcher>,
}

impl Volume {
    /// A drive at rest at instant zero.
    ///
    /// # Errors
    /// Platters of another size, or idle time that cannot be used so.
    pub fn new(drive: Arc<DriveModel>, config: Config, platters: Platters) -> Result<Self, VolumeError> {
        Self::starting_at(Instant::ZERO, drive, config, platters)
    }

    /// A drive that is switched on at some instant, as after a [power cut](Self::power_cut).
    ///
    /// # Errors
    /// Platters of another size, or idle time that cannot be used so.
    pub fn starting_at(
        now: Instant,
        drive: Arc<DriveModel>,
        config: Config,
        platters: Platters,
    ) -> Result<Self, VolumeError> {
        Self::of(now, drive, Config { place: scheduler::Place::Inside, ..config }, platters)
    }

    fn of(
        now: Instant,
        drive: Arc<DriveModel>,
        config: Config,
        platters: Platters,
    ) -> Result<Self, VolumeError> {
        let (capacity, medium) = (drive.layout().capacity(), platters.medium().capacity());
        if capacity != medium {
            return Err(VolumeError::Platters { drive: capacity, medium });
        }
        let sector = drive.sector_bytes();
        Ok(Self {
            core: Core::try_new(Arc::clone(&drive), config)?,
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
            times: Times::new(),
            executes: 0,
            watcher: None,
        })
    }

    /// What goes wrong from here on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.chance = Chance::new(faults);
    }

    /// Calls `watcher` with what the head passes over.
    pub fn watch(&mut self, watcher: impl FnMut(&Passed) + 'static) {
        self.watcher = Some(Box::new(watcher));
    }

    /// Takes an application in.
    pub fn host<T: Application + 'static>(&mut self, app: T) -> Place<T> {
        Place { index: self.apps.add(Box::new(app)), kind: PhantomData }
    }

    /// An application. `None` if the place is of another volume.
    pub fn app<T: Application + 'static>(&self, place: Place<T>) -> Option<&T> {
        self.apps.get(place)
    }

    /// What an application has got.
    pub fn tally<T>(&self, place: Place<T>) -> Tally {
        self.apps.tally(place.index)
    }

    /// Lets an application make calls, now: what it opens, it gets the records of. `None` if the place is of another
    /// volume.
    pub fn call<T: Application + 'static, R>(
        &mut self,
        place: Place<T>,
        call: impl FnOnce(&mut T, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        self.apps.call(&mut self.core, place, call)
    }

    /// A foreground read comes in now. Its [`Completion`] brings the bytes.
    ///
    /// # Errors
    /// What the core says of it.
    pub fn submit_read(&mut self, range: LbnRange) -> Result<RequestId, VolumeError> {
        self.submit(Op::Read, range, None, None)
    }

    /// A foreground write comes in now.
    ///
    /// # Errors
    /// What the core says of it, or a number of bytes that is not the range's.
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
        self.in_flight.insert(id, InFlight { request, arrived: self.now, bytes, load });
        self.stirred = true;
        Ok(id)
    }

    /// The oldest completion that has not been taken. Those of a [load](Self::load) are not kept.
    pub fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Foreground requests that are not done, a load's included.
    pub fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The drive.
    pub fn drive(&self) -> &Arc<DriveModel> {
        &self.drive
    }

    /// The core, to ask it things.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The bytes as they are on the medium now, but for what is under way.
    pub fn platters(&self) -> &Platters {
        &self.platters
    }

    /// The same, to spoil some.
    pub fn platters_mut(&mut self) -> &mut Platters {
        &mut self.platters
    }

    /// Counts of what the planner did.
    pub fn planner_stats(&self) -> PlannerStats {
        self.core.planner_stats()
    }

    /// What a run has measured so far.
    pub fn report(&self) -> VolumeReport {
        // What is under way is accounted for up to its end, so the run is measured up to there.
        let end = self.under_way.as_ref().map_or(self.now, |u| u.until.max(self.now));
        let run = end.since(self.started);
        VolumeReport {
            foreground: self.times.report(run),
            head_time: self.head.spent.shares(run),
            potential_used: self.head.spent.potential_used(),
            harm: self.core.harm(),
            simulated: run,
        }
    }

    /// When the next thing happens by itself; `None` when nothing will.
    pub fn next_at(&self) -> Option<Instant> {
        if self.stirred || self.apps.stirred {
            return Some(self.now);
        }
        let told = self.under_way.as_ref().map(|u| u.told(&self.chance));
        let told = told.into_iter().chain(self.outside.as_ref().and_then(|o| o.next_at())).min();
        let due = self.load.as_ref().and_then(|load| load.due());
        [told, due, self.core.wake_at()].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Goes on to the next thing that happens by itself. False when nothing will.
    ///
    /// # Errors
    /// The load asks for what the drive does not have.
    pub fn step(&mut self) -> Result<bool, VolumeError> {
        let Some(at) = self.next_at() else { return Ok(false) };
        self.now = at;
        if self.stirred || self.apps.stirred {
            self.drain()?;
            return Ok(true);
        }
        // At the same instant the completion comes first: its successor may be due now as well.
        if self.outside.as_ref().and_then(|o| o.next_at()).is_some_and(|next| next <= at) {
            self.told_outside()?;
        } else if self.under_way.as_ref().is_some_and(|u| u.told(&self.chance) <= at) {
            self.told()?;
        } else {
            self.issue()?;
        }
        self.drain()?;
        Ok(true)
    }

    /// Lets all happen that happens until then, that instant included.
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

    /// The same for so long.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run_for(&mut self, time: Duration) -> Result<(), VolumeError> {
        self.run_until(self.now + time)
    }

    /// Goes on until everything that was submitted is done; not for a load that issues on and on.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn settle(&mut self) -> Result<(), VolumeError> {
        while !self.in_flight.is_empty() && self.step()? {}
        Ok(())
    }

    fn poll(&mut self) -> Option<Action> {
        let fresh = !self.again;
        let Self { apps, given, drive, .. } = self;
        let mut asker = Asker { apps, given, sector: drive.sector_bytes(), fresh };
        self.core.poll_with(self.now, &mut asker)
    }

    fn drain(&mut self) -> Result<(), VolumeError> {
        self.drain_from(self.now)
    }

    /// Does what the core asks for. What it reports as completed was begun at `began`.
    fn drain_from(&mut self, began: Instant) -> Result<(), VolumeError> {
        self.stirred = false;
        while let Some(action) = self.poll() {
            self.act(action, began)?;
        }
        // Records may have stirred their applications, but the core has been polled since.
        (self.stirred, self.apps.stirred) = (false, false);
        Ok(())
    }

    fn act(&mut self, action: Action, began: Instant) -> Result<(), VolumeError> {
        match action {
            Action::Execute => {
                self.execute();
                self.again = false;
            }
            Action::Send(command) => self.send(command)?,
            Action::Cut => {
                if let (Some(under_way), Some(until)) = (&mut self.under_way, self.core.busy_until()) {
                    under_way.accesses = self.core.accesses().to_vec();
                    under_way.until = until;
                }
            }
            Action::Completed(id) => self.completed(id, None, began)?,
            Action::Failed { id, bad } => self.completed(id, Some(bad), began)?,
            Action::Deliver(record) => self.deliver(&record)?,
        }
        Ok(())
    }

    fn completed(&mut self, id: RequestId, bad: Option<Lbn>, began: Instant) -> Result<(), VolumeError> {
        let Some(done) = self.in_flight.remove(&id) else {
            debug_assert!(false, "{id} was completed twice, or never submitted");
            return Ok(());
        };
        self.times.record(self.now.since(done.arrived), self.now.since(began));
        let Request { op, range, .. } = done.request;
        if let Some((number, task)) = done.load {
            if let Some(load) = self.load.as_mut().filter(|load| load.number == number) {
                load.issuer.complete(task, self.now);
            }
            // A task that does not think has its next request in the pool before the core chooses again.
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
        self.apps.done(&mut self.core, record, &bytes, size, self.now);
        Ok(())
    }

    fn read(&self, range: LbnRange) -> Result<Vec<u8>, VolumeError> {
        let mut bytes = vec![0; range.len().bytes(self.drive.sector_bytes()).get() as usize];
        self.platters.medium().read(range, &mut bytes)?;
        Ok(bytes)
    }
}
