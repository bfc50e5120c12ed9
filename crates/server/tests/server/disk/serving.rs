//! A disk under random requests on virtual time, and the drive alone with the same requests.

use super::nameless;
use device::{Ask, Device as _, Emulated};
use drive::{Behaviour, Command, Drive, Rules};
use model::{DriveModel, Profile};
use scheduler::Config;
use server::Disk;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use testing::interval::{mean, upper_end};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
use workload::random::Stream;

/// The sectors of a request.
const SECTORS: u64 = 8;

/// The batches of the comparison.
const BATCHES: usize = 20;

/// The first number of requests that are not of the load.
pub const OTHERS: u64 = 1 << 40;

/// A disk under random requests, a third of them writes, whose arrivals have random distances; and the drive alone with the same
/// requests.
pub struct Serving {
    pub disk: Disk<Emulated, super::probe::CountingScan>,
    alone: Drive,
    /// Requests for which the drive alone has no room.
    held: VecDeque<Command>,
    pub now: Instant,
    next: Instant,
    pub mean_ns: f64,
    chance: Stream,
    /// The arrivals of requests that are not done: at the disk, and at the drive alone.
    arrived: [BTreeMap<u64, Instant>; 2],
    /// The response times by request, ns.
    took: [Vec<f64>; 2],
    /// The number of requests so far.
    pub ids: u64,
    /// Other requests that the disk has answered; their numbers begin at [`OTHERS`].
    pub others: Vec<u64>,
}

impl Serving {
    /// Returns both, with a core that knows this model of the drive; with the seeds of the drive's chance and of the requests'.
    pub fn new(
        (profile, behaviour): (&Profile, Behaviour),
        known: DriveModel,
        config: Config,
        (requests_per_s, [drive_seed, load_seed]): (f64, [u64; 2]),
    ) -> Self {
        let drive = Emulated::new(profile, behaviour, drive_seed, nameless()).unwrap();
        Self {
            disk: Disk::new(drive, Arc::new(known), config).unwrap(),
            alone: Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, drive_seed).unwrap(),
            held: VecDeque::new(),
            now: Instant::ZERO,
            next: Instant::ZERO,
            mean_ns: 1e9 / requests_per_s,
            chance: Stream::new(load_seed, "requests"),
            arrived: [BTreeMap::new(), BTreeMap::new()],
            took: [Vec::new(), Vec::new()],
            ids: 0,
            others: Vec::new(),
        }
    }

    fn unit(&mut self) -> f64 {
        (self.chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn arrive(&mut self) {
        let capacity = self.disk.core().drive().layout().capacity().get();
        let mut lbn = (self.unit() * (capacity - SECTORS) as f64) as u64;
        let write = self.unit() < 1.0 / 3.0;
        if write {
            // The file of the emulated drive stays small.
            lbn -= lbn % 4_096;
        }
        let range = LbnRange::new(Lbn::new(lbn), Sectors::new(SECTORS));
        let ask = match write {
            true => Ask::Write { bytes: vec![0; SECTORS as usize * 512], through: false },
            false => Ask::Read,
        };
        self.ids += 1;
        self.arrived.iter_mut().for_each(|arrived| {
            arrived.insert(self.ids, self.next);
        });
        self.took.iter_mut().for_each(|took| took.push(0.0));
        self.disk.ask(self.next, self.ids, range, ask);
        let op = if write { Op::Write } else { Op::Read };
        self.alone.advance(self.next);
        self.held.push_back(Command { id: RequestId::new(self.ids), op, range });
        self.send_alone(self.next);
        let wait = -self.mean_ns * (1.0 - self.unit()).ln();
        self.next += Duration::from_nanos(wait as u64);
    }

    /// Sends the drive alone the requests for which it has room.
    fn send_alone(&mut self, now: Instant) {
        while self.alone.outstanding() < self.alone.queue_depth() {
            let Some(command) = self.held.pop_front() else { return };
            self.alone.submit(now, command).unwrap();
        }
    }

    /// Processes the next event.
    pub fn step(&mut self) {
        let at = [self.disk.next_event(), self.alone.next_event(), Some(self.next)];
        self.now = self.now.max(at.into_iter().flatten().min().unwrap());
        if self.next <= self.now {
            self.arrive();
        }
        self.disk.advance(self.now);
        while let Some(answer) = self.disk.poll(self.now) {
            answer.result.unwrap();
            match answer.id < OTHERS {
                true => self.done(0, answer.id, answer.at),
                false => self.others.push(answer.id),
            }
        }
        self.alone.advance(self.now);
        while let Some(done) = self.alone.pop_completion() {
            self.done(1, done.id.get(), done.at);
            self.send_alone(done.at);
        }
    }

    fn done(&mut self, which: usize, id: u64, at: Instant) {
        let arrived = self.arrived[which].remove(&id).unwrap();
        self.took[which][id as usize - 1] = at.since(arrived).as_nanos() as f64;
    }

    /// Returns the response times in ms of the requests before the first that is not done: through the disk, and of the drive
    /// alone.
    pub fn responses(&self) -> [Vec<f64>; 2] {
        let oldest = self.arrived.iter().filter_map(|left| left.keys().next()).min();
        let done = oldest.map_or(self.ids, |id| *id - 1) as usize;
        self.took.each_ref().map(|took| took[..done].iter().map(|ns| ns / 1e6).collect())
    }

    /// Returns the increase of the mean response time over the drive alone in percent, and the upper end of its one-sided 95%
    /// interval, from the means of batches.
    pub fn slower(&self) -> [f64; 2] {
        let [with, alone] = self.responses();
        let base = mean(&alone);
        let batch = (alone.len() / BATCHES).max(1);
        let batches: Vec<f64> = with
            .chunks_exact(batch)
            .zip(alone.chunks_exact(batch))
            .map(|(with, alone)| 100.0 * (mean(with) - mean(alone)) / base)
            .collect();
        [mean(&batches), upper_end(&batches)]
    }
}
