//! Several drives under one load: concatenation, striping, mirror and RAID 5, one event loop over all drives.

mod map;
mod port;

pub use map::{
    ArrayError, ArrayLayout, ArrayMap, DRIVES_MAX, MemberCommand, MirrorReads, Step, UNIT_MAX, UnknownLayout,
};

use crate::cache_report::{CacheReport, without_transfer};
use crate::direct::Direct;
use crate::inside::{Background, Inside};
use crate::observer::{Finished, Nothing, Observer, SetupError};
use crate::outside::Outside;
use crate::report::{Report, ScanProgress};
use crate::statistics::{Ended, Statistics};
use crate::trust::Trust;
use drive::{Drive, Served};
use model::DriveModel;
use port::Port;
use scheduler::{AnyCore, Config, OutsideDrive, Record, Request, SubmitError};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Bytes, CacheOps, Instant, RequestId, Sectors};
use workload::{Arrival, ClosedTask, Issued, Issuer, Source};

/// One drive of an array, with a scheduler in it or in front of it, or alone.
pub struct Member {
    host: Host,
    capacity: Sectors,
    sector: Bytes,
}

enum Host {
    Inside(Box<Inside<Port>>),
    Outside(Box<Outside<Port>>),
    Device(Box<Direct<Drive, Port>>),
}

/// Evaluates the same expression whichever kind the host is, with the host bound to `$run`.
macro_rules! each {
    ($host:expr, $run:ident => $of:expr) => {
        match $host {
            Host::Inside($run) => $of,
            Host::Outside($run) => $of,
            Host::Device($run) => $of,
        }
    };
}

impl Member {
    /// Returns a drive with a core in it.
    ///
    /// # Errors
    /// As [`Inside::new`].
    pub fn inside(
        drive: Arc<DriveModel>,
        config: Config,
        background: Background,
    ) -> Result<Self, SetupError> {
        let (capacity, sector) = (drive.layout().capacity(), drive.sector_bytes());
        let host = Inside::new(drive, config, feed(), background)?;
        Ok(Self { host: Host::Inside(Box::new(host)), capacity, sector })
    }

    /// Returns a drive with a core in front of it, whose model of the drive is `known`.
    ///
    /// # Errors
    /// As [`Outside::new`].
    pub fn outside(
        drive: Drive,
        known: Arc<DriveModel>,
        config: Config,
        background: Background,
    ) -> Result<Self, SetupError> {
        let (capacity, sector) = (drive.model().layout().capacity(), drive.model().sector_bytes());
        let host = Outside::new(drive, known, config, feed(), background)?;
        Ok(Self { host: Host::Outside(Box::new(host)), capacity, sector })
    }

    /// Returns a drive that serves the array's commands in its own order, without a core.
    pub fn device(drive: Drive) -> Self {
        let (capacity, sector) = (drive.model().layout().capacity(), drive.model().sector_bytes());
        let host = Direct::new(drive, usize::MAX, feed());
        Self { host: Host::Device(Box::new(host)), capacity, sector }
    }

    /// Returns the drive's sectors.
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Returns the size of a sector.
    pub const fn sector_bytes(&self) -> Bytes {
        self.sector
    }

    /// Returns the results of this drive; the foreground is the array's commands to the drive.
    pub fn report(&self) -> Report {
        match &self.host {
            Host::Inside(run) => run.report(),
            Host::Outside(run) => run.report(),
            Host::Device(run) => run.whole_report(),
        }
    }

    /// Returns the progress of the scan.
    pub fn scan_progress(&self) -> Option<ScanProgress> {
        match &self.host {
            Host::Inside(run) => run.scan_progress(),
            Host::Outside(run) => run.scan_progress(),
            Host::Device(_) => None,
        }
    }

    /// Returns the core in front of the drive, and the reasons why it did not use gaps; `None` for a core in the
    /// drive, or without a core.
    pub fn core_outside(&self) -> Option<(&OutsideDrive, &Trust)> {
        match &self.host {
            Host::Outside(run) => Some((run.core(), run.trust())),
            Host::Inside(_) | Host::Device(_) => None,
        }
    }

    /// Lets the drive's time pass up to an instant before which it has no event.
    fn wait_until(&mut self, at: Instant) -> Result<(), SetupError> {
        each!(&mut self.host, run => run.advance_to(at, &mut Nothing))
    }

    fn measure_from_now(&mut self) {
        each!(&mut self.host, run => run.measure_from_now());
    }

    fn next_event(&self) -> Option<Instant> {
        each!(&self.host, run => run.next_instant())
    }

    fn step(&mut self, observer: &mut impl Observer) -> Result<(), SetupError> {
        each!(&mut self.host, run => run.advance_once(observer)).map(drop)
    }

    fn port(&self) -> &Port {
        each!(&self.host, run => run.load().source())
    }

    fn port_mut(&mut self) -> &mut Port {
        each!(&mut self.host, run => run.load_mut().source_mut())
    }
}

fn feed() -> Issuer<Port> {
    // A port gives the arrival times itself, so this arrival process accepts it.
    Issuer::new(Port::default(), Arrival::Scripted, Instant::ZERO, 0)
        .unwrap_or_else(|error| unreachable!("{error}"))
}

/// The observer of one drive of an array. A drive completes commands of the array and not requests of the load, so
/// its completions are collected and not passed on.
struct OfDrive<'a, O> {
    observer: &'a mut O,
    finished: &'a mut Vec<Finished>,
}

impl<O: Observer> Observer for OfDrive<'_, O> {
    fn finished(&mut self, done: &Finished) {
        self.finished.push(*done);
    }

    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, at: Instant) {
        self.observer.delivered(core, record, at);
    }
}

/// A request of the load that is not finished.
#[derive(Clone, Debug)]
struct Open {
    task: ClosedTask,
    request: Request,
    /// The cache operations that are not carried out yet, those of the present commands included.
    cache: CacheOps,
    arrived: Instant,
    /// The earliest instant at which a drive began one of the commands.
    started: Option<Instant>,
    /// For each step, the number of commands that are not done, and the commands that wait for them.
    steps: Vec<(usize, Vec<MemberCommand>)>,
    /// The number of steps that are not done.
    left: usize,
}

/// An array of drives under one load.
///
/// A request is done when all its commands are done. A write of RAID 5 first reads the sectors from which the parity
/// is computed. The array has no cache and no lock of stripes: two writes to one stripe may be under way at the same
/// time.
///
/// A flush goes to every drive, or to one drive if the drives are [`apart`](Drives::apart). A write that comes with a
/// flush begins after the flush. A forced write is forced on each of its drives, and a discard goes to the drives
/// that have its sectors.
///
/// ```
/// use freeblock_sim::{ArrayLayout, Background, Drives, Member, Nothing};
/// use model::{DriveModel, builtin};
/// use scheduler::Config;
/// use std::sync::Arc;
/// use units::{Bytes, Instant, Sectors};
/// use workload::{Arrival, Issuer, Random, RandomConfig};
///
/// let drive = Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
/// let scan = Background::Scan { block: Sectors::new(8) };
/// let member = || Member::inside(Arc::clone(&drive), Config::default(), scan);
/// let members = vec![member()?, member()?, member()?];
/// let array = Drives::new(ArrayLayout::Raid5 { unit: Bytes::new(65_536) }, members)?;
/// let load = Random::new(RandomConfig::new(array.capacity(), drive.sector_bytes()), 42)?;
/// let mut run = array.under(Issuer::new(load, Arrival::outstanding(4), Instant::ZERO, 42)?);
/// run.advance(500, &mut Nothing)?;
/// assert_eq!(run.report().foreground.requests, 500);
/// assert!(run.drives().all(|drive| drive.report().background.mb_per_s > 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Array<S> {
    drives: Drives,
    foreground: Issuer<S>,
    open: BTreeMap<u64, Open>,
    /// The request and the step of each command at a drive, by the command's number, and the numbers that are free.
    commands: Vec<(u64, usize)>,
    free: Vec<u32>,
    next: u64,
    now: Instant,
    completed: u64,
    /// The instant of the last completion.
    last_done: Instant,
    statistics: Statistics,
    cache: CacheReport,
    /// The commands that a drive has finished in one event.
    finished: Vec<Finished>,
}

/// The drives of an array that has no load yet.
pub struct Drives {
    map: ArrayMap,
    members: Vec<Member>,
    /// Whether each drive counts as a device of its own, so that a flush goes to one drive.
    apart: bool,
}

impl Drives {
    /// Returns the sectors of the array.
    pub const fn capacity(&self) -> Sectors {
        self.map.capacity()
    }

    /// Returns the size of a sector.
    pub fn sector_bytes(&self) -> Bytes {
        self.members.first().map_or(Bytes::new(512), Member::sector_bytes)
    }

    /// Makes each drive a device of its own: a flush goes to the drive of its address alone.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// Puts the array under a load, whose requests must lie within the capacity.
    pub fn under<S: Source>(self, foreground: Issuer<S>) -> Array<S> {
        let statistics = Statistics::new(self.sector_bytes(), Instant::ZERO);
        Array {
            drives: self,
            foreground,
            open: BTreeMap::new(),
            commands: Vec::new(),
            free: Vec::new(),
            next: 0,
            now: Instant::ZERO,
            completed: 0,
            last_done: Instant::ZERO,
            statistics,
            cache: CacheReport::default(),
            finished: Vec::new(),
        }
    }
}

impl Drives {
    /// Arranges drives as an array.
    ///
    /// # Errors
    /// The drives cannot make such an array ([`ArrayError`]).
    pub fn new(layout: ArrayLayout, members: Vec<Member>) -> Result<Self, ArrayError> {
        let first = members.first().map_or(Bytes::new(512), Member::sector_bytes);
        if let Some(drive) = members.iter().position(|member| member.sector_bytes() != first) {
            let found = members.get(drive).map_or(first, Member::sector_bytes);
            return Err(ArrayError::SectorSize { drive, found, first });
        }
        let sizes: Vec<Sectors> = members.iter().map(Member::capacity).collect();
        Ok(Self { map: ArrayMap::new(layout, &sizes, first)?, members, apart: false })
    }
}

impl<S: Source> Array<S> {
    /// Runs until `requests` more requests are done or the load has ended. Returns whether the load continues.
    ///
    /// # Errors
    /// A command that a drive refuses, or a request past the end of the array.
    pub fn advance(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        self.go_on(requests, false, observer)
    }

    /// Runs like [`advance`](Self::advance), but at most to the end of all scans. Returns whether the load and a scan
    /// continue.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_scan(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        Ok(self.go_on(requests, true, observer)? && !self.is_scanned())
    }

    fn go_on(
        &mut self,
        requests: u64,
        to_scan_end: bool,
        observer: &mut impl Observer,
    ) -> Result<bool, SetupError> {
        let goal = self.completed.saturating_add(requests);
        let mut more = true;
        while more && self.completed < goal && !(to_scan_end && self.is_scanned()) {
            more = self.step(observer)?;
        }
        self.settle()?;
        Ok(more)
    }

    /// Processes every event before `end`.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) -> Result<(), SetupError> {
        while self.next_event().is_some_and(|at| at < end) {
            self.step(observer)?;
        }
        self.now = self.now.max(end);
        self.settle()
    }

    /// Lets every drive's time pass up to the array's, so that all results cover the same time.
    fn settle(&mut self) -> Result<(), SetupError> {
        self.drives.members.iter_mut().try_for_each(|member| member.wait_until(self.now))
    }

    /// Discards the results so far, those of the drives included: reports cover the time from now on. Requests that
    /// wait or are in service stay, and so does the progress of scans.
    pub fn measure_from_now(&mut self) {
        self.statistics.restart(self.now);
        self.cache = CacheReport::default();
        self.drives.members.iter_mut().for_each(Member::measure_from_now);
    }

    /// Returns the number of finished requests.
    pub fn requests(&self) -> u64 {
        self.completed
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the statistics of the foreground.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the load's flushes and discards so far.
    pub fn cache_report(&self) -> CacheReport {
        self.cache
    }

    /// Returns the drives.
    pub fn drives(&self) -> impl Iterator<Item = &Member> {
        self.drives.members.iter()
    }

    /// Returns whether every scan has delivered every block; false without scans.
    pub fn is_scanned(&self) -> bool {
        self.scan_progress().is_some_and(|scans| scans.delivered == scans.blocks)
    }

    /// Returns the progress of all scans; `None` without scans.
    pub fn scan_progress(&self) -> Option<ScanProgress> {
        self.drives().filter_map(Member::scan_progress).reduce(|sum, one| ScanProgress {
            delivered: sum.delivered + one.delivered,
            blocks: sum.blocks + one.blocks,
        })
    }

    /// Returns the results of the array: those of the load's requests, the mean of the drives' head times, and the
    /// background work of all drives. [`drives`](Self::drives) has the results of each drive.
    pub fn report(&self) -> Report {
        let drives: Vec<Report> = self.drives().map(Member::report).collect();
        Report {
            foreground: self.statistics.report(self.now),
            head_time: drives.iter().map(|drive| drive.head_time).collect(),
            background: drives.iter().map(|drive| drive.background).collect(),
            simulated: self.now.saturating_since(self.statistics.from()),
        }
    }

    /// Returns the instant of the next event.
    fn next_event(&self) -> Option<Instant> {
        self.drives().filter_map(Member::next_event).chain(self.foreground.due()).min()
    }

    /// Processes one event: a drive's, or an arrival. Returns false without a further event.
    fn step(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let events = self.drives.members.iter().enumerate();
        let first = events.filter_map(|(n, member)| Some((member.next_event()?, n))).min();
        match (first, self.foreground.due()) {
            // At one instant a drive's event comes before an arrival, because a completion may make a request due.
            (Some((at, drive)), due) if due.is_none_or(|due| at <= due) => {
                self.now = self.now.max(at);
                let Some(member) = self.drives.members.get_mut(drive) else { return Ok(false) };
                let mut finished = std::mem::take(&mut self.finished);
                member.step(&mut OfDrive { observer, finished: &mut finished })?;
                // A drive reports each command once to its observer and once to its load, in the same order.
                for done in finished.drain(..) {
                    let port = self.drives.members.get_mut(drive).map(Member::port_mut);
                    let Some(command) = port.and_then(Port::take_done) else { break };
                    self.command_done(command, drive, &done, observer);
                }
                self.finished = finished;
            }
            (_, Some(due)) => self.now = self.now.max(due),
            (_, None) => return Ok(false),
        }
        self.issue(observer)?;
        Ok(true)
    }

    /// Sends the commands of every request that is due.
    fn issue(&mut self, observer: &mut impl Observer) -> Result<(), SetupError> {
        while let Some(Issued { task, request, cache, .. }) = self.foreground.issue(self.now) {
            let (range, capacity) = (request.range, self.drives.capacity());
            let id = RequestId::new(self.next);
            if range.is_empty() && !cache.flush {
                return Err(SubmitError::Empty { id, range }.into());
            }
            if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
                return Err(SubmitError::PastEnd { id, range, capacity }.into());
            }
            self.next += 1;
            let request = Request { id, op: request.op, range };
            let open =
                Open { task, request, cache, arrived: self.now, started: None, steps: Vec::new(), left: 0 };
            if open.served().is_none() {
                self.statistics.arrived(self.now);
                observer.arrived(request, self.now);
            }
            self.open.insert(id.get(), open);
            self.begin(id.get(), observer);
        }
        Ok(())
    }

    /// Sends the first commands of a request: if the request comes with a flush, the flush, otherwise the commands
    /// for its sectors.
    fn begin(&mut self, id: u64, observer: &mut impl Observer) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let members = &self.drives.members;
        let outstanding = |drive: usize| members.get(drive).map_or(0, |m| m.port().outstanding());
        let (map, range) = (&mut self.drives.map, open.request.range);
        let steps = match open.cache {
            CacheOps { flush: true, .. } => {
                let mut step = map.flush();
                if self.drives.apart {
                    let drive = map.locate(range.start()).0.min(members.len().saturating_sub(1));
                    step.after.retain(|part| part.drive == drive);
                }
                vec![step]
            }
            CacheOps { discard: true, .. } => map.discard(range),
            _ => map.plan(workload::Request { op: open.request.op, range }, outstanding),
        };
        open.left = steps.len();
        open.steps.clear();
        if steps.is_empty() {
            return self.finish(id, observer);
        }
        let mut commands = Vec::new();
        for (n, Step { before, after }) in steps.into_iter().enumerate() {
            let (now, cache, later) = match before.is_empty() {
                true => (after, open.orders(), Vec::new()),
                false => (before, CacheOps::default(), after),
            };
            open.steps.push((now.len(), later));
            commands.extend(now.into_iter().map(|part| (n, part, cache)));
        }
        commands.into_iter().for_each(|(n, part, cache)| self.send(id, n, part, cache));
    }

    /// Sends a command of a step of a request.
    fn send(&mut self, id: u64, step: usize, part: MemberCommand, cache: CacheOps) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.commands.push((id, step));
            (self.commands.len() - 1) as u32
        });
        if let Some(command) = self.commands.get_mut(slot as usize) {
            *command = (id, step);
        }
        if let Some(member) = self.drives.members.get_mut(part.drive) {
            let request = workload::Request { op: part.op, range: part.range };
            member.port_mut().send(Issued { at: self.now, task: ClosedTask::new(slot), request, cache });
        }
    }

    fn command_done(
        &mut self,
        command: ClosedTask,
        drive: usize,
        done: &Finished,
        observer: &mut impl Observer,
    ) {
        let Some(&(id, n)) = self.commands.get(command.get() as usize) else { return };
        observer.command_finished(drive, RequestId::new(id), done);
        self.free.push(command.get());
        let Some(open) = self.open.get_mut(&id) else { return };
        open.started = Some(open.started.map_or(done.started, |first| first.min(done.started)));
        let Some((left, later)) = open.steps.get_mut(n) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let later = std::mem::take(later);
        if !later.is_empty() {
            *left = later.len();
            let cache = open.orders();
            later.into_iter().for_each(|part| self.send(id, n, part, cache));
            return;
        }
        open.left -= 1;
        if open.left > 0 {
            return;
        }
        if open.cache.flush && !open.request.range.is_empty() {
            open.cache.flush = false;
            return self.begin(id, observer);
        }
        self.finish(id, observer);
    }

    /// Reports a request whose commands are done.
    fn finish(&mut self, id: u64, observer: &mut impl Observer) {
        let Some(done) = self.open.remove(&id) else { return };
        let served = done.served();
        let Open { task, request, arrived, started, .. } = done;
        if let Some(served) = served {
            self.cache.add(served, self.now.saturating_since(arrived));
        } else {
            let access = self.now.saturating_since(self.last_done.max(arrived));
            let ended = Ended { op: request.op, sectors: request.range.len(), arrived, access };
            self.statistics.completed(ended, self.now);
            observer.completed(request, arrived, self.now);
        }
        self.completed += 1;
        self.last_done = self.now;
        let finished = Finished::of(request, arrived, started.unwrap_or(arrived), self.now);
        observer.finished(&Finished { served, ..finished });
        self.foreground.complete(task, self.now);
    }
}

impl Open {
    /// Returns the kind of a request that is neither a read nor a write.
    fn served(&self) -> Option<Served> {
        without_transfer(self.cache, self.request.range)
    }

    /// Returns the cache operations of the next commands: the flush alone if it is not carried out yet, otherwise the
    /// other operations.
    fn orders(&self) -> CacheOps {
        let CacheOps { flush, forced, discard } = self.cache;
        CacheOps { flush, forced: forced && !flush, discard: discard && !flush }
    }
}
