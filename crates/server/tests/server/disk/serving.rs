//! A disk under random requests on virtual time, compared with the drive alone under the same
//! requests.

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

/// The length of each request, in sectors.
const SECTORS: u64 = 8;

/// The number of batches into which the comparison divides the requests.
const BATCHES: usize = 20;

/// The smallest id of requests that do not belong to the random load.
pub const OTHERS: u64 = 1 << 40;

/// A disk under random requests with exponential arrivals, a third of them writes, and beside it
/// the drive alone with the same requests.
pub struct Serving {
    pub disk: Disk<Emulated, super::probe::CountingScan>,
    alone: Drive,
    /// Requests for which the queue of the drive alone has no room.
    held: VecDeque<Command>,
    pub now: Instant,
    next: Instant,
    pub mean_ns: f64,
    chance: Stream,
    /// The arrivals of unfinished requests, by id: at the disk, and at the drive alone.
    arrived: [BTreeMap<u64, Instant>; 2],
    /// The response times of the requests in ns: at the disk, and at the drive alone.
    took: [Vec<f64>; 2],
    /// The number of requests of the load so far.
    pub ids: u64,
    /// The ids of other requests that the disk has answered; they begin at [`OTHERS`].
    pub others: Vec<u64>,
}

impl Serving {
    /// Returns the disk and the drive alone. The disk's core knows the model `known`; the seeds are
    /// of the drive and of the load.
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
            // Writes go to few places, so that the file of the emulated drive stays small.
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

    /// Sends the drive alone as many held requests as its queue has room for.
    fn send_alone(&mut self, now: Instant) {
        while self.alone.outstanding() < self.alone.queue_depth() {
            let Some(command) = self.held.pop_front() else { return };
            self.alone.submit(now, command).unwrap();
        }
    }

    /// Advances to the next event of the disk, the drive alone or the load, and handles it.
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

    /// Returns the response times in ms at the disk and at the drive alone, of all requests before
    /// the oldest unfinished one.
    pub fn responses(&self) -> [Vec<f64>; 2] {
        let oldest = self.arrived.iter().filter_map(|left| left.keys().next()).min();
        let done = oldest.map_or(self.ids, |id| *id - 1) as usize;
        self.took.each_ref().map(|took| took[..done].iter().map(|ns| ns / 1e6).collect())
    }

    /// Returns in percent by how much the mean response time at the disk exceeds that of the drive
    /// alone, and the upper end of the one-sided 95% confidence interval, from the means of
    /// batches.
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
