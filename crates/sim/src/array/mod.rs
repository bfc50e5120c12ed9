//! Several drives under one load: concatenation, striping, mirror and RAID 5, one event loop over all drives.

mod map;
mod port;

pub use map::{
    ArrayError, ArrayLayout, ArrayMap, DRIVES_MAX, MirrorReads, Part, Step, UNIT_MAX, UnknownLayout,
};

use crate::inside::{Background, Inside, Observer, SetupError};
use crate::outside::Outside;
use crate::report::Report;
use drive::Drive;
use hdrhistogram::Histogram;
use model::DriveModel;
use port::Port;
use scheduler::{Config, Core, Record, Request, SubmitError};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, RequestId, Sectors};
use workload::{Arrival, ClosedTask, Issuer, Source};

/// One drive of an array, with a scheduler in it or in front of it.
pub struct Member {
    host: Host,
    capacity: Sectors,
    sector: Bytes,
}

enum Host {
    Inside(Box<Inside<Port>>),
    Outside(Box<Outside<Port>>),
}

/// Evaluates one expression for every kind of host.
macro_rules! each {
    ($host:expr, $run:ident => $of:expr) => {
        match $host {
            Host::Inside($run) => $of,
            Host::Outside($run) => $of,
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

    /// Returns a drive with a core in front of it, which knows it as `known`.
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

    /// Returns the drive's sectors.
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Returns the size of a sector.
    pub const fn sector_bytes(&self) -> Bytes {
        self.sector
    }

    /// Returns the results of this drive: its foreground is the array's commands to it.
    pub fn report(&self) -> Report {
        each!(&self.host, run => run.report())
    }

    /// Returns the scan's delivered blocks, and their total.
    pub fn scan_progress(&self) -> Option<(u64, u64)> {
        each!(&self.host, run => run.scan_progress())
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
    // A port keeps its own times, so this arrival process does not refuse it.
    Issuer::new(Port::default(), Arrival::Scripted, Instant::ZERO, 0)
        .unwrap_or_else(|error| unreachable!("{error}"))
}

/// The observer of an array at one of its drives: it does not see the array's commands as requests.
struct OfDrive<'a, O>(&'a mut O);

impl<O: Observer> Observer for OfDrive<'_, O> {
    fn delivered(&mut self, core: &mut Core, record: Record, at: Instant) {
        self.0.delivered(core, record, at);
    }
}

/// The results of an array under its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayReport {
    /// Requests of the load that are done.
    pub requests: u64,
    /// Mean time from the arrival of a request to the completion of its last command.
    pub mean_response_ms: f64,
    /// 99th percentile of that time, to three digits.
    pub p99_response_ms: f64,
    /// Requests a second.
    pub iops: f64,
    /// Background blocks delivered on all drives.
    pub background_blocks: u64,
    /// Bytes of background blocks a second on all drives, in millions.
    pub background_mb_per_s: f64,
    /// The duration of the run in virtual time.
    pub simulated: Duration,
}

/// A request of the load that is not finished.
#[derive(Clone, Debug)]
struct Open {
    task: ClosedTask,
    request: Request,
    arrived: Instant,
    /// The commands of each step that are not done, and those that wait for them.
    steps: Vec<(usize, Vec<Part>)>,
    /// The steps that are not done.
    left: usize,
}

/// An array of drives under one load.
///
/// A request is done when all its commands are. Writes of RAID 5 read what they need for the parity first. There is no cache
/// and no lock of stripes in the array: two writes to one stripe may be under way at the same time.
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
/// assert_eq!(run.report().requests, 500);
/// assert!(run.drives().all(|drive| drive.report().background.mb_per_s > 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Array<S> {
    drives: Drives,
    foreground: Issuer<S>,
    open: BTreeMap<u64, Open>,
    /// The request and the step of each command at a drive, and the free places among them.
    commands: Vec<(u64, usize)>,
    free: Vec<u32>,
    next: u64,
    now: Instant,
    completed: u64,
    response_ns: u128,
    responses: Histogram<u64>,
}

/// The drives of an array that has no load yet.
pub struct Drives {
    map: ArrayMap,
    members: Vec<Member>,
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

    /// Puts the array under a load. Its requests must lie within the capacity.
    pub fn under<S: Source>(self, foreground: Issuer<S>) -> Array<S> {
        Array {
            drives: self,
            foreground,
            open: BTreeMap::new(),
            commands: Vec::new(),
            free: Vec::new(),
            next: 0,
            now: Instant::ZERO,
            completed: 0,
            response_ns: 0,
            // Three digits are within the bounds that the histogram accepts, so this cannot fail.
            responses: Histogram::new(3).unwrap_or_else(|e| unreachable!("{e}")),
        }
    }
}

impl Drives {
    /// Arranges drives.
    ///
    /// # Errors
    /// Drives that make no such array ([`ArrayError`]).
    pub fn new(layout: ArrayLayout, members: Vec<Member>) -> Result<Self, ArrayError> {
        let first = members.first().map_or(Bytes::new(512), Member::sector_bytes);
        if let Some(drive) = members.iter().position(|member| member.sector_bytes() != first) {
            let found = members.get(drive).map_or(first, Member::sector_bytes);
            return Err(ArrayError::SectorSize { drive, found, first });
        }
        let sizes: Vec<Sectors> = members.iter().map(Member::capacity).collect();
        Ok(Self { map: ArrayMap::new(layout, &sizes, first)?, members })
    }
}

impl<S: Source> Array<S> {
    /// Runs until `requests` more requests are done or the load has ended. Returns whether the load continues.
    ///
    /// # Errors
    /// A command that a drive refuses, or a request past the end of the array.
    pub fn advance(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let goal = self.completed.saturating_add(requests);
        while self.completed < goal {
            if !self.step(observer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs like [`advance`](Self::advance), but at most to the end of all scans. Returns whether there is more to do.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_scan(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let goal = self.completed.saturating_add(requests);
        while self.completed < goal && !self.is_scanned() {
            if !self.step(observer)? {
                return Ok(false);
            }
        }
        Ok(!self.is_scanned())
    }

    /// Returns the number of finished requests.
    pub fn requests(&self) -> u64 {
        self.completed
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the drives.
    pub fn drives(&self) -> impl Iterator<Item = &Member> {
        self.drives.members.iter()
    }

    /// Returns whether every scan has every block; false without scans.
    pub fn is_scanned(&self) -> bool {
        let scans = self.drives().filter_map(Member::scan_progress);
        let (mut any, mut all) = (false, true);
        for (delivered, blocks) in scans {
            any = true;
            all &= delivered == blocks;
        }
        any && all
    }

    /// Returns the results of the array; those of each drive are in [`drives`](Self::drives).
    pub fn report(&self) -> ArrayReport {
        let run = self.now.since(Instant::ZERO);
        let seconds = run.as_secs_f64().max(1e-9);
        let backgrounds: Vec<_> = self.drives().map(|drive| drive.report().background).collect();
        ArrayReport {
            requests: self.completed,
            mean_response_ms: self.response_ns as f64 / self.completed.max(1) as f64 / 1e6,
            p99_response_ms: self.responses.value_at_quantile(0.99) as f64 / 1e6,
            iops: self.completed as f64 / seconds,
            background_blocks: backgrounds.iter().map(|background| background.blocks).sum(),
            background_mb_per_s: backgrounds.iter().map(|background| background.mb_per_s).sum(),
            simulated: run,
        }
    }

    /// Processes one event: a drive's, or an arrival. Returns false without a further event.
    fn step(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let events = self.drives.members.iter().enumerate();
        let first = events.filter_map(|(n, member)| Some((member.next_event()?, n))).min();
        match (first, self.foreground.due()) {
            // At the same instant the drive comes first: a completion may make a request due.
            (Some((at, drive)), due) if due.is_none_or(|due| at <= due) => {
                self.now = self.now.max(at);
                let Some(member) = self.drives.members.get_mut(drive) else { return Ok(false) };
                member.step(&mut OfDrive(observer))?;
                while let Some(command) =
                    self.drives.members.get_mut(drive).and_then(|member| member.port_mut().take_done())
                {
                    self.command_done(command, observer);
                }
            }
            (_, Some(due)) => self.now = self.now.max(due),
            (_, None) => return Ok(false),
        }
        self.issue()?;
        Ok(true)
    }

    /// Sends the commands of every request that is due.
    fn issue(&mut self) -> Result<(), SetupError> {
        while let Some(issued) = self.foreground.issue(self.now) {
            let (number, range, capacity) = (self.next, issued.request.range, self.drives.capacity());
            let id = RequestId::new(number);
            if range.is_empty() {
                return Err(SubmitError::Empty { id, range }.into());
            }
            if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
                return Err(SubmitError::PastEnd { id, range, capacity }.into());
            }
            let id = number;
            self.next += 1;
            let members = &self.drives.members;
            let outstanding = |drive: usize| members.get(drive).map_or(0, |m| m.port().outstanding());
            let steps = self.drives.map.plan(issued.request, outstanding);
            let request =
                Request { id: RequestId::new(id), op: issued.request.op, range: issued.request.range };
            let left = steps.len();
            let mut open =
                Open { task: issued.task, request, arrived: self.now, steps: Vec::with_capacity(left), left };
            for (n, step) in steps.into_iter().enumerate() {
                let (now, later) =
                    if step.before.is_empty() { (step.after, Vec::new()) } else { (step.before, step.after) };
                open.steps.push((now.len(), later));
                now.into_iter().for_each(|part| self.send(id, n, part));
            }
            self.open.insert(id, open);
        }
        Ok(())
    }

    /// Sends a command of a step of a request.
    fn send(&mut self, id: u64, step: usize, part: Part) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.commands.push((id, step));
            (self.commands.len() - 1) as u32
        });
        if let Some(command) = self.commands.get_mut(slot as usize) {
            *command = (id, step);
        }
        if let Some(member) = self.drives.members.get_mut(part.drive) {
            let request = workload::Request { op: part.op, range: part.range };
            member.port_mut().send(self.now, ClosedTask::new(slot), request);
        }
    }

    fn command_done(&mut self, command: ClosedTask, observer: &mut impl Observer) {
        let Some(&(id, n)) = self.commands.get(command.get() as usize) else { return };
        self.free.push(command.get());
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some((left, later)) = open.steps.get_mut(n) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let later = std::mem::take(later);
        if !later.is_empty() {
            *left = later.len();
            later.into_iter().for_each(|part| self.send(id, n, part));
            return;
        }
        open.left -= 1;
        if open.left > 0 {
            return;
        }
        let Some(done) = self.open.remove(&id) else { return };
        let response = self.now.since(done.arrived).as_nanos();
        self.completed += 1;
        self.response_ns += u128::from(response);
        // The histogram grows as needed; a value it could not take would only be missing from the percentile.
        let _ = self.responses.record(response);
        observer.completed(done.request, done.arrived, self.now);
        self.foreground.complete(done.task, self.now);
    }
}
