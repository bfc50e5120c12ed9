//! A drive is probed while it serves other requests: a reading counts only if the drive executed nothing else since the
//! previous command.

use crate::common;
use drive::{Behaviour, Command, Completion, Drive, Rules};
use model::{Profile, builtin};
use probe::{DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, ProbedProfile, Timed};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// The sectors of each request of the load.
const SECTORS: u64 = 8;

/// An instant that no run reaches.
const UNREACHED_INSTANT: Instant = Instant::from_nanos(u64::MAX);

/// The largest delay of the load by the probe, relative to the load's response times.
const HARM_RATIO_MAX: f64 = 0.01;

/// A drive whose host sends it one command at a time, in order of arrival.
struct Side {
    drive: Drive,
    queue: VecDeque<Command>,
    busy: bool,
    /// The arrivals of the load's requests, by id.
    arrived: BTreeMap<u64, Instant>,
    /// The sum of the response times of the load's requests, ns, and their number.
    response_ns: f64,
    served: u64,
    /// The last completion of a command of the probe.
    done: Option<Completion>,
}

impl Side {
    fn new(drive: Drive) -> Self {
        let (queue, arrived) = (VecDeque::new(), BTreeMap::new());
        Self { drive, queue, busy: false, arrived, response_ns: 0.0, served: 0, done: None }
    }

    fn submit(&mut self, at: Instant, command: Command) {
        self.queue.push_back(command);
        self.send(at);
    }

    fn send(&mut self, at: Instant) {
        if !self.busy
            && let Some(command) = self.queue.pop_front()
        {
            self.drive.submit(at, command).unwrap();
            self.busy = true;
        }
    }

    /// Advances the drive to `until`, and sends the queued commands one after another.
    fn advance(&mut self, until: Instant) {
        while let Some(at) = self.drive.next_event().filter(|at| *at <= until) {
            self.drive.advance(at);
            while let Some(done) = self.drive.pop_completion() {
                self.busy = false;
                match self.arrived.remove(&done.id.get()) {
                    Some(arrived) => {
                        self.response_ns += done.at.since(arrived).as_nanos() as f64;
                        self.served += 1;
                    }
                    None => self.done = Some(done),
                }
                self.send(done.at);
            }
        }
    }
}

/// A drive under a load of random requests, a third of them writes, with exponential times between arrivals.
///
/// The probe may begin a run of commands when the drive is idle and the delay of all requests so far is within
/// [`HARM_RATIO_MAX`]. The delay is measured against a second drive that serves the same load alone.
struct Serving {
    here: Side,
    alone: Side,
    now: Instant,
    mean_ns: f64,
    next: Instant,
    state: u64,
    ids: u64,
    /// Whether a request of the load arrived since the probe's last command.
    others: bool,
}

impl Serving {
    fn new(profile: &Profile, behaviour: Behaviour, requests_per_s: f64) -> Self {
        let side = || Side::new(Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, 1).unwrap());
        let mut serving = Self {
            here: side(),
            alone: side(),
            now: Instant::ZERO,
            mean_ns: 1e9 / requests_per_s,
            next: Instant::ZERO,
            state: 7,
            ids: 0,
            others: false,
        };
        serving.next = serving.arrival();
        serving
    }

    fn unit(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn arrival(&mut self) -> Instant {
        let wait = -self.mean_ns * (1.0 - self.unit()).ln();
        self.next + Duration::from_nanos(wait as u64)
    }

    /// Submits the next request of the load to both drives.
    fn arrive(&mut self) {
        let capacity = self.capacity().get();
        let lbn = (self.unit() * (capacity - SECTORS) as f64) as u64;
        let op = if self.unit() < 1.0 / 3.0 { Op::Write } else { Op::Read };
        let range = LbnRange::new(Lbn::new(lbn), Sectors::new(SECTORS));
        self.ids += 1;
        let (at, id) = (self.next, RequestId::new(self.ids));
        for side in [&mut self.here, &mut self.alone] {
            side.advance(at);
            side.arrived.insert(self.ids, at);
            side.submit(at, Command { id, op, range });
        }
        self.others = true;
        self.next = self.arrival();
    }

    /// Advances the clock to the drive's next event, the next arrival or `until`, whichever is first.
    fn step(&mut self, until: Instant) {
        let event = self.here.drive.next_event().unwrap_or(until).min(until);
        if self.next <= event {
            self.now = self.next;
            return self.arrive();
        }
        self.now = self.now.max(event);
        self.here.advance(self.now);
    }

    /// Returns the delay of the load so far, relative to its response times on the drive that serves it alone.
    fn harm(&self) -> f64 {
        (self.here.response_ns - self.alone.response_ns) / self.alone.response_ns.max(1.0)
    }

    fn command(&mut self, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        self.ids += 1;
        let (id, submitted) = (RequestId::new(self.ids), self.now);
        self.others = false;
        self.here.done = None;
        self.here.submit(submitted, Command { id, op, range });
        loop {
            if let Some(done) = self.here.done {
                let (reason, mend) = ("bad sector".to_owned(), "mend the test".to_owned());
                return match done.failed {
                    None => Ok(Timed { submitted, completed: done.at }),
                    some => Err(DeviceError { op, range, unreadable: some, reason, mend }),
                };
            }
            self.step(UNREACHED_INSTANT);
        }
    }
}

impl ProbedDevice for Serving {
    fn capacity(&self) -> Sectors {
        self.here.drive.model().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.here.drive.model().sector_bytes()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        while self.now < at || self.here.busy || self.harm() > HARM_RATIO_MAX || self.here.served < 16 {
            self.step(if self.now < at { at } else { UNREACHED_INSTANT });
        }
        self.command(op, range)
    }

    fn execute_next(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Option<Timed>, DeviceError> {
        while self.now < at && !self.others {
            self.step(at);
        }
        if self.others {
            return Ok(None);
        }
        self.command(op, range).map(Some)
    }
}

/// Prints the figures of docs/PROBE.md. Checks that the delay of the load is within the bound, and that the found
/// profile predicts the drive.
#[allow(clippy::print_stdout, reason = "a document quotes the figures")]
fn holds(serving: &Serving, truth: &Profile, found: &ProbedProfile) {
    let harm = serving.harm();
    assert!(harm < 1.1 * HARM_RATIO_MAX, "{harm}");
    assert!(!found.report.is_partial(), "{:?}", found.report.given_up);
    let alone = common::Emulated::new(truth);
    common::holds(alone, truth, found, 300.0);
    let shares = common::predictions(truth, &found.profile, &found.report, 2_000);
    println!(
        "{}: {:.1} hours, {} requests, harm {:.2}%, {:.0} s of drive time, {:.1}% within 50 us",
        truth.name,
        serving.now.as_nanos() as f64 / 3.6e12,
        serving.here.served,
        100.0 * harm,
        found.report.drive_time_s,
        100.0 * shares.near
    );
    assert!(shares.near >= 0.97, "{shares:?}");
}

#[test]
fn nine_gigabytes_are_found_within_a_day_under_twenty_requests_a_second() {
    let truth = builtin::find("seagate-cheetah-9lp").unwrap();
    let mut serving = Serving::new(&truth, Behaviour::default(), 20.0);
    let found = Probe::new(Options::default()).run(&mut serving, &mut |_| ControlFlow::Continue(())).unwrap();
    holds(&serving, &truth, &found);
    let (hours, requests) = (serving.now.as_nanos() / 3_600_000_000_000, serving.here.served);
    assert!(hours < 24 && requests > 100_000, "{hours} hours, {requests} requests");
}

/// Each part of the probe has only the state file of the previous part. The probe counts cache segments again when
/// other requests disturbed it, so its decisions depend on these disturbances, too.
#[test]
fn a_probe_under_a_load_continues_from_its_state_file() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let mut serving = Serving::new(&truth, Behaviour::default(), 20.0);
    let mut state: Option<Vec<u8>> = None;
    let mut most = 1_000;
    let found = loop {
        let mut probe = match &state {
            Some(bytes) => {
                let journal = Journal::from_bytes(bytes, "state").unwrap();
                Probe::resume(Options::default(), journal).unwrap()
            }
            None => Probe::new(Options::default()),
        };
        let ended = probe.run(&mut serving, &mut |progress| {
            let goes_on = progress.journal.commands() < most;
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match ended {
            Ok(found) => break found,
            Err(error) => assert!(matches!(error, ProbeError::Interrupted), "{error}"),
        }
        state = Some(probe.journal().to_bytes());
        most += 1_000;
    };
    holds(&serving, &truth, &found);
    assert!(most >= 3_000, "{most}: {} commands", found.report.commands);
}
