//! A disk of which only the size is known is probed while it serves, on virtual time, and then uses gaps.

use super::nameless;
use device::{Ask, Device as _, Emulated};
use drive::{Behaviour, Command, Drive, Queue, QueueOrder, Rules};
use model::{DriveModel, Profile, builtin};
use probe::{Device, DeviceError, Journal, Options, Probe, ProbeError, Timed};
use scheduler::{
    Application, AuditConfig, Config, IdleTime, OutsideConfig, Overheads, Parameter, Priority, Record,
    Sessions,
};
use server::{Disk, Guard, Reading, ReadingResult};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
use workload::random::Stream;

/// The sectors of a request.
const SECTORS: u64 = 8;

/// The requests in a batch of the comparison.
const BATCH: usize = 2_000;

/// A scan that counts its blocks.
#[derive(Default)]
struct Scan {
    blocks: u64,
}

impl Guard for Scan {}

impl Application for Scan {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {
        self.blocks += 1;
    }
}

/// A disk under random requests, a third of them writes, whose arrivals have random distances; and the drive alone with the same
/// requests.
struct Serving {
    disk: Disk<Emulated>,
    alone: Drive,
    /// Requests for which the drive alone has no room.
    held: VecDeque<Command>,
    now: Instant,
    next: Instant,
    mean_ns: f64,
    chance: Stream,
    /// The arrivals of requests that are not done: at the disk, and at the drive alone.
    arrived: [BTreeMap<u64, Instant>; 2],
    /// The response times by request, ns.
    took: [Vec<f64>; 2],
    ids: u64,
}

impl Serving {
    fn new(profile: &Profile, behaviour: Behaviour, requests_per_s: f64) -> Self {
        let truth = DriveModel::from_profile(profile).unwrap();
        let model = DriveModel::unknown(truth.layout().capacity(), truth.sector_bytes()).unwrap();
        let place = OutsideConfig {
            harm_ppm: Some(10_000),
            audit: Some(AuditConfig::new(1)),
            ..OutsideConfig::blind().serving()
        };
        let config = Config { idle: Some(IdleTime::default()), ..Config::outside(place) };
        let drive = Emulated::new(profile, behaviour, 1, nameless()).unwrap();
        let mut disk = Disk::new(drive, Arc::new(model), config).unwrap();
        disk.want_readings(true);
        Self {
            disk,
            alone: Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, 1).unwrap(),
            held: VecDeque::new(),
            now: Instant::ZERO,
            next: Instant::ZERO,
            mean_ns: 1e9 / requests_per_s,
            chance: Stream::new(7, "requests"),
            arrived: [BTreeMap::new(), BTreeMap::new()],
            took: [Vec::new(), Vec::new()],
            ids: 0,
        }
    }

    fn unit(&mut self) -> f64 {
        (self.chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn arrive(&mut self) {
        let capacity = Device::capacity(self).get();
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
    fn step(&mut self) {
        let at = [self.disk.next_event(), self.alone.next_event(), Some(self.next)];
        self.now = self.now.max(at.into_iter().flatten().min().unwrap());
        if self.next <= self.now {
            self.arrive();
        }
        self.disk.advance(self.now);
        while let Some(answer) = self.disk.poll(self.now) {
            answer.result.unwrap();
            self.done(0, answer.id, answer.at);
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

    /// Returns the increase of the mean response time over the drive alone in percent, and the upper end of its one-sided 95%
    /// interval, from the means of batches.
    fn slower(&self) -> [f64; 2] {
        let [with, alone] = &self.took;
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let done = self
            .arrived
            .iter()
            .filter_map(|left| left.keys().next())
            .min()
            .map_or(with.len(), |id| *id as usize - 1);
        let base = mean(&alone[..done]);
        let batches: Vec<f64> = with[..done]
            .chunks_exact(BATCH)
            .zip(alone[..done].chunks_exact(BATCH))
            .map(|(with, alone)| 100.0 * (mean(with) - mean(alone)) / base)
            .collect();
        let (n, all) = (batches.len() as f64, mean(&batches));
        let squares: f64 = batches.iter().map(|one| (one - all).powi(2)).sum();
        [all, all + 1.7 * (squares / (n - 1.0) / n).sqrt()]
    }

    fn read(&mut self, reading: Reading) -> Result<Option<Timed>, DeviceError> {
        let told: Arc<Mutex<Option<ReadingResult>>> = Arc::default();
        let tell = Arc::clone(&told);
        self.disk.read(self.now, reading, move |result| *tell.lock().unwrap() = Some(result));
        loop {
            let result = told.lock().unwrap().take();
            if let Some(result) = result {
                return Ok(result
                    .unwrap()
                    .map(|times| Timed { submitted: times.submitted, completed: times.completed }));
            }
            self.step();
        }
    }
}

impl Device for Serving {
    fn capacity(&self) -> Sectors {
        self.disk.core().drive().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.disk.core().drive().sector_bytes()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, at: Instant, _: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        Ok(self.read(Reading { at, range, next: false })?.unwrap())
    }

    fn execute_next(&mut self, at: Instant, _: Op, range: LbnRange) -> Result<Option<Timed>, DeviceError> {
        self.read(Reading { at, range, next: true })
    }
}

/// Probes a disk at this rate of requests, in parts of so many commands; then lets it use the profile until so many gaps are used.
#[allow(clippy::print_stdout, reason = "docs/PROBE.md names the command that prints these figures")]
fn probed(name: &str, behaviour: Behaviour, rate: f64, part: u64, gaps: u64) -> (f64, [f64; 2]) {
    let truth = builtin::find(name).unwrap();
    let mut serving = Serving::new(&truth, behaviour, rate);
    let (mut state, mut most): (Option<Vec<u8>>, u64) = (None, part);
    let found = loop {
        let mut probe = match &state {
            Some(bytes) => {
                Probe::resume(Options::default(), Journal::from_bytes(bytes, "state").unwrap()).unwrap()
            }
            None => Probe::new(Options::default()),
        };
        let ended = probe.run(&mut serving, &mut |progress| match progress.journal.commands() < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        match ended {
            Ok(found) => break found,
            Err(error) => assert!(matches!(error, ProbeError::Interrupted), "{error}"),
        }
        state = Some(probe.journal().to_bytes());
        most += part;
    };
    let (hours, slower) = (serving.now.as_nanos() as f64 / 3.6e12, serving.slower());
    println!(
        "{name}: {hours:.1} hours, {} requests, {:.2}% slower, at most {:.2}%, {:.0} s of drive time, {} commands",
        serving.ids, slower[0], slower[1], found.report.drive_time_s, found.report.commands
    );
    assert!(!found.report.is_partial(), "{:?}", found.report.given_up);
    serving.disk.want_readings(false);

    let model = Arc::new(DriveModel::from_profile(&found.profile).unwrap());
    let overheads = Overheads::of(found.profile.firmware.as_ref().unwrap(), &model, true);
    let place = OutsideConfig::beyond(overheads).serving();
    let config = Config { idle: Some(IdleTime::default()), ..Config::outside(place) };
    let scan = serving.disk.host(Scan::default());
    let all = LbnRange::new(Lbn::ZERO, Device::capacity(&serving));
    let call = |_: &mut Scan, sessions: &mut dyn Sessions| {
        let session = sessions.open(Priority::default()).unwrap();
        sessions.read(session, all, Sectors::new(16), Parameter::default()).unwrap();
    };
    serving.disk.call(scan, serving.now, call).unwrap();
    serving.disk.adopt(serving.now, model, config).unwrap();
    let (adopted, latest) = (serving.ids, serving.ids + 10_000);
    serving.mean_ns = 1e9 / 60.0;
    loop {
        let next = serving.ids + 500;
        while serving.ids < next {
            serving.step();
        }
        if serving.disk.status().gaps.used >= gaps || serving.ids >= latest {
            break;
        }
    }
    let status = serving.disk.status();
    println!(
        "{} gaps used of {} after {} requests; {:?}; {:.1}% foreseen",
        status.gaps.used,
        status.gaps.seen,
        serving.ids - adopted,
        status.caution,
        100.0 * status.foresight.within_100us
    );
    assert!(serving.disk.core().drive().is_known());
    assert!(status.gaps.used >= gaps, "{:?}", status.gaps);
    assert!(serving.disk.app(scan).unwrap().blocks >= gaps);
    (hours, slower)
}

#[test]
fn a_small_disk_is_probed_in_parts_while_it_serves_and_then_uses_gaps() {
    let through = Behaviour { write_back: Some(false), ..Behaviour::default() };
    let (_, [_, upper]) = probed("mimic-less-capacity", through, 20.0, 1_000, 100);
    assert!(upper <= 1.0, "{upper}");
}

#[test]
fn nine_gigabytes_are_probed_within_a_day_of_twenty_requests_a_second_within_the_bound() {
    let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 32 };
    let behaviour = Behaviour { queue, write_back: Some(false), ..Behaviour::default() };
    let (hours, [_, upper]) = probed("seagate-cheetah-9lp", behaviour, 20.0, u64::MAX, 0);
    assert!(hours < 24.0 && upper <= 1.0, "{hours} h, {upper}%");
}
