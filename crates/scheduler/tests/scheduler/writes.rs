//! The order of background writes (promise 3): a write that was pending when data reached the medium never overwrites these
//! data, whatever session it belongs to and whether it could be chosen at the time or not; and a reported write is on the
//! medium, or a concurrent write to the same place is. A session that has each of its writes carried out may overwrite other
//! sessions' data, but never the foreground's.

use freeblock_scheduler::{
    Access, Buffers, Config, HeadWork, IdleTime, InDrive, Output, Parameter, Priority, Purpose, Ready,
    Record, Request, Sessions, Wanted,
};
use model::random_profile::{Size, random_profile};
use model::{DriveModel, Location};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId};

/// The content of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Landed {
    /// The task that wrote the sector; `None` for the foreground.
    task: Option<TaskId>,
    /// The number of the event with which the head started to write the sector.
    dispatched: u64,
}

#[derive(Clone, Debug)]
struct RegisteredTask {
    session: SessionId,
    registered: u64,
    range: LbnRange,
    came: BTreeSet<LbnRange>,
    blocks: u64,
}

/// The work of the head.
#[derive(Clone, Debug)]
struct Exec {
    accesses: Vec<Access>,
    granted: Vec<Wanted>,
    dispatched: u64,
}

/// A host of a core in the drive, with a model of the medium. The work ends when the core predicts it.
struct WriteHost {
    core: InDrive,
    drive: Arc<DriveModel>,
    now: Instant,
    events: u64,
    medium: BTreeMap<Lbn, Landed>,
    tasks: BTreeMap<TaskId, RegisteredTask>,
    /// The sessions whose writes are each carried out.
    own: BTreeSet<SessionId>,
    /// The number of sectors that each task has written.
    passed: BTreeMap<TaskId, u64>,
    exec: Option<Exec>,
    /// The lost work, which is repeated without a further query for buffers.
    retry: Option<Exec>,
    requests: u64,
    /// The sessions that refuse buffers: one bit for the ids with each remainder modulo 8.
    not_now: u8,
    /// The first violation.
    wrong: Option<String>,
}

struct Desk<'a> {
    not_now: u8,
    granted: &'a mut Vec<Wanted>,
}

impl Buffers for Desk<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let ready = self.not_now >> (wanted.session.get() % 8) & 1 == 0;
        if ready {
            self.granted.push(*wanted);
        }
        ready
    }
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

impl WriteHost {
    fn new(drive: DriveModel) -> Self {
        let drive = Arc::new(drive);
        let config = Config::default().with_idle(Some(IdleTime::default()));
        Self {
            core: InDrive::new(Arc::clone(&drive), config),
            drive,
            now: Instant::ZERO,
            events: 0,
            medium: BTreeMap::new(),
            tasks: BTreeMap::new(),
            own: BTreeSet::new(),
            passed: BTreeMap::new(),
            exec: None,
            retry: None,
            requests: 0,
            not_now: 0,
            wrong: None,
        }
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn write(&mut self, session: SessionId, range: LbnRange, block: u64) {
        let registered = self.event();
        let task = self.core.write(session, range, Sectors::new(block), Parameter::default()).unwrap();
        let blocks = range.len().get().div_ceil(block);
        self.tasks.insert(task, RegisteredTask { session, registered, range, came: BTreeSet::new(), blocks });
    }

    fn submit(&mut self, op: Op, range: LbnRange) {
        self.requests += 1;
        let id = RequestId::new(self.requests);
        self.core.submit(self.now, Request { id, op, range }).unwrap();
        self.poll();
    }

    /// Polls until there are no more outputs.
    fn poll(&mut self) {
        while let Some(output) = self.ask() {
            self.act(output);
        }
    }

    /// Returns the core's next output, and remembers the work of an `Execute`.
    fn ask(&mut self) -> Option<Output<HeadWork>> {
        let mut granted = Vec::new();
        let output =
            self.core.poll_with(self.now, &mut Desk { not_now: self.not_now, granted: &mut granted });
        if output == Some(Output::Do(HeadWork::Execute)) {
            let (accesses, mut dispatched) = (self.core.accesses().to_vec(), self.event());
            // Repeated work has the data of the first attempt: data registered since then are newer.
            if let Some(lost) = self.retry.take() {
                granted.extend(lost.granted);
                dispatched = lost.dispatched;
            }
            self.exec = Some(Exec { accesses, granted, dispatched });
        }
        output
    }

    fn act(&mut self, output: Output<HeadWork>) {
        match output {
            Output::Do(HeadWork::Cut) => {
                if let Some(exec) = &mut self.exec {
                    exec.accesses = self.core.accesses().to_vec();
                }
            }
            Output::Deliver(record) => self.delivered(&record),
            Output::Do(HeadWork::Execute) | Output::Completed(_) | Output::Failed { .. } => {}
        }
    }

    /// Ends the work under way, or loses it.
    fn end(&mut self, lost: bool) {
        let Some(exec) = self.exec.take() else { return };
        self.now = self.core.busy_until().unwrap();
        if lost {
            self.core.lost(self.now);
            if exec.accesses.iter().any(|a| a.purpose == Purpose::Foreground) {
                self.retry = Some(exec);
            }
        } else {
            self.core.completed(self.now);
            // The core reports a foreground completion first.
            let output = self.ask();
            self.land(&exec, matches!(output, Some(Output::Completed(_))));
            if let Some(output) = output {
                self.act(output);
            }
        }
        self.poll();
    }

    fn land(&mut self, exec: &Exec, foreground: bool) {
        for access in exec.accesses.iter().filter(|a| a.op.is_write()) {
            let sectors = self.drive.layout().track(access.track).sectors;
            for k in 0..access.sectors {
                let sector = (access.sector + k) % sectors;
                let Some(lbn) = self.drive.layout().lbn_at(Location { track: access.track, sector }) else {
                    continue;
                };
                let dispatched = exec.dispatched;
                if access.purpose == Purpose::Foreground && foreground {
                    self.medium.insert(lbn, Landed { task: None, dispatched });
                    continue;
                }
                let Some(wanted) = exec.granted.iter().rev().find(|w| w.range.contains(lbn)) else {
                    self.wrong = Some(format!("no task gave the bytes that are written to {lbn}: {exec:?}"));
                    return;
                };
                let registered = self.tasks.get(&wanted.task).map_or(0, |t| t.registered);
                let there = self.medium.insert(lbn, Landed { task: Some(wanted.task), dispatched });
                *self.passed.entry(wanted.task).or_default() += 1;
                // A session that has each write carried out may overwrite other sessions' data.
                let may = |there: &Landed| there.task.is_some() && self.own.contains(&wanted.session);
                if let Some(there) = there.filter(|there| there.task != Some(wanted.task) && !may(there))
                    && registered < there.dispatched
                {
                    self.wrong = Some(format!(
                        "{lbn}: a write that {} registered at {registered} overwrites {there:?}",
                        wanted.task
                    ));
                }
            }
        }
    }

    fn delivered(&mut self, record: &Record) {
        let Some(task) = self.tasks.get_mut(&record.task) else {
            self.wrong = Some(format!("a record of a task that has ended: {record:?}"));
            return;
        };
        if !task.came.insert(record.range) {
            self.wrong = Some(format!("twice: {record:?}"));
        }
        for lbn in record.range.start().get()..record.range.end().get() {
            let there = self.medium.get(&Lbn::new(lbn));
            if there.is_none_or(|there| there.dispatched < task.registered) {
                self.wrong = Some(format!("{record:?} is not on the medium: {there:?} at LBN {lbn}"));
            }
        }
    }

    /// Runs for long enough to finish all work.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.step(false);
        }
    }

    /// Advances to the end of the work under way, or to the core's next wake-up.
    fn step(&mut self, lost: bool) {
        if self.exec.is_some() {
            self.end(lost);
        } else if let Some(at) = self.core.wake_at() {
            self.now = self.now.max(at);
            self.poll();
        } else {
            self.now += Duration::from_millis(3);
            self.poll();
        }
    }
}

#[derive(Clone, Debug)]
enum WriteStep {
    Write {
        session: usize,
        start: u64,
        len: u64,
        block: u64,
    },
    Suspend(usize),
    Resume(usize),
    Abort(usize),
    Promote(usize, u64, u64),
    NotNow(u8),
    Foreground(bool, u64, u64),
    /// A foreground request arrives after a part of the work under way, in thousandths; its LBN is the second number.
    Interrupt(u64, u64),
    Run(u32),
    Lose,
}

fn steps() -> impl Strategy<Value = Vec<WriteStep>> {
    let step = prop_oneof![
        8 => (0..3usize, 0..60u64, 1..60u64, 1..24u64)
            .prop_map(|(session, start, len, block)| WriteStep::Write { session, start, len, block }),
        2 => (0..3usize).prop_map(WriteStep::Suspend),
        3 => (0..3usize).prop_map(WriteStep::Resume),
        1 => (0..20usize).prop_map(WriteStep::Abort),
        2 => (0..3usize, 0..60u64, 1..40u64).prop_map(|(s, at, len)| WriteStep::Promote(s, at, len)),
        3 => prop_oneof![Just(0u8), any::<u8>()].prop_map(WriteStep::NotNow),
        3 => (any::<bool>(), 0..60u64, 1..20u64).prop_map(|(w, at, len)| WriteStep::Foreground(w, at, len)),
        4 => (0..1_000u64, 0..4_000u64).prop_map(|(part, at)| WriteStep::Interrupt(part, at)),
        8 => (1..4u32).prop_map(WriteStep::Run),
        1 => Just(WriteStep::Lose),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(150, 400)))]

    #[test]
    fn data_on_the_medium_are_not_overwritten_by_older_background_writes(
        seed in 0..64u64, own in prop_oneof![Just(0u8), 0..8u8], steps in steps(),
    ) {
        let Ok(drive) = DriveModel::from_profile(&random_profile(seed, Size::Tiny)) else { return Ok(()) };
        let capacity = drive.layout().capacity().get();
        // The LBNs lie around the boundary of the first two tracks, so that blocks straddle it.
        let first = u64::from(drive.layout().densest_track());
        let base = first.saturating_sub(60).min(capacity.saturating_sub(120));
        let clip = |start: u64, len: u64| {
            let start = (base + start).min(capacity - 1);
            range(start, len.min(capacity - start))
        };
        let mut host = WriteHost::new(drive);
        let sessions: Vec<SessionId> = (0..3).map(|_| host.core.open(Priority::default()).unwrap()).collect();
        for (_, session) in sessions.iter().enumerate().filter(|(i, _)| own >> i & 1 == 1) {
            host.core.serve_writes_by_writes(*session, false).unwrap();
            host.own.insert(*session);
        }
        for step in steps {
            match step {
                WriteStep::Write { session, start, len, block } => {
                    host.write(sessions[session], clip(start, len), block);
                    host.poll();
                }
                WriteStep::Suspend(session) => host.core.suspend(sessions[session]).unwrap(),
                WriteStep::Resume(session) => {
                    host.core.resume(sessions[session]).unwrap();
                    host.poll();
                }
                WriteStep::Abort(nth) => {
                    let Some(id) = host.tasks.keys().nth(nth).copied() else { continue };
                    if let Ok(left) = host.core.abort(id) {
                        let task = host.tasks.get_mut(&id).unwrap();
                        prop_assert_eq!(left + task.came.len() as u64, task.blocks);
                        task.blocks = task.came.len() as u64;
                    }
                }
                WriteStep::Promote(session, start, len) => {
                    host.core.promote(sessions[session], clip(start, len)).unwrap();
                    host.poll();
                }
                WriteStep::NotNow(mask) => host.not_now = mask,
                WriteStep::Foreground(write, at, len) => {
                    host.submit(if write { Op::Write } else { Op::Read }, clip(at, len));
                }
                WriteStep::Interrupt(part, at) => {
                    if let Some(until) = host.core.busy_until() {
                        let left = until.saturating_since(host.now).as_nanos();
                        host.now += Duration::from_nanos(left * part / 1_000);
                    }
                    host.submit(Op::Read, range(at % capacity, 1));
                }
                WriteStep::Run(times) => (0..times).for_each(|_| host.step(false)),
                WriteStep::Lose => host.step(true),
            }
            prop_assert_eq!(host.wrong.take(), None);
        }
        host.not_now = 0;
        for session in &sessions {
            host.core.resume(*session).unwrap();
        }
        host.poll();
        for _ in 0..2_000 {
            if sessions.iter().all(|s| host.core.undelivered(*s) == Some(0)) {
                break;
            }
            host.step(false);
            prop_assert_eq!(host.wrong.take(), None);
        }
        for (id, task) in &host.tasks {
            prop_assert_eq!(task.came.len() as u64, task.blocks, "{} of {} at {}", id, task.session, task.range);
        }
    }
}

/// Returns a host of a core with three sessions, in a drive of some thousand sectors.
fn three() -> (WriteHost, [SessionId; 3]) {
    let toml = include_str!("../../../model/tests/data/tiny.toml");
    let drive = DriveModel::from_profile(&model::Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
    let mut host = WriteHost::new(drive);
    let sessions = [(); 3].map(|()| host.core.open(Priority::default()).unwrap());
    (host, sessions)
}

fn came(host: &WriteHost) -> Vec<usize> {
    host.tasks.values().map(|task| task.came.len()).collect()
}

#[test]
fn a_suspended_sessions_write_is_done_with_a_later_one_of_the_place() {
    let (mut host, [old, new, _]) = three();
    host.core.suspend(old).unwrap();
    host.write(old, range(8, 8), 8);
    host.write(new, range(0, 32), 32);
    host.poll();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1]));
    host.core.resume(old).unwrap();
    assert_eq!(host.core.poll_with(host.now, &mut Ready), None);
}

#[test]
fn a_write_with_a_refused_buffer_is_written_later_in_its_missing_part_only() {
    let (mut host, [old, new, _]) = three();
    host.not_now = 1 << (old.get() % 8);
    host.write(old, range(8, 16), 16);
    host.write(new, range(0, 16), 16);
    host.poll();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![0, 1]));
    host.not_now = 0;
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1]));
    let whose = |lbn| host.medium[&Lbn::new(lbn)].task;
    assert_eq!(whose(15), host.tasks.keys().nth(1).copied());
    assert_eq!(whose(16), host.tasks.keys().next().copied());
}

#[test]
fn blocks_that_a_lost_command_would_have_overwritten_are_wanted_again() {
    let (mut host, [old, new, _]) = three();
    host.core.suspend(old).unwrap();
    host.write(old, range(8, 16), 16);
    host.write(new, range(0, 16), 16);
    host.poll();
    while host.exec.is_none() {
        host.step(false);
    }
    host.step(true);
    assert_eq!((host.core.undelivered(old), host.core.undelivered(new)), (Some(1), Some(1)));
    host.core.abort(*host.tasks.keys().nth(1).unwrap()).unwrap();
    host.tasks.values_mut().nth(1).unwrap().blocks = 0;
    host.core.resume(old).unwrap();
    host.exec = None;
    host.core.lost(host.now);
    host.poll();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 0]));
    let all: Vec<u64> = (8..24).filter(|lbn| host.medium.contains_key(&Lbn::new(*lbn))).collect();
    assert_eq!(all.len(), 16, "the sectors of completed writes are on the medium: {all:?}");
}

#[test]
fn a_promoted_write_completes_others_of_the_place() {
    let (mut host, [old, new, third]) = three();
    host.core.suspend(old).unwrap();
    host.write(old, range(4, 8), 8);
    host.write(third, range(12, 8), 4);
    host.write(new, range(0, 16), 16);
    // This block is promoted in the same request as the one before, and overlaps it.
    host.write(new, range(14, 6), 6);
    host.core.promote(new, range(0, 20)).unwrap();
    host.not_now = 1 << (third.get() % 8);
    host.poll();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 2, 1, 1]));
}

#[test]
fn a_session_may_want_each_write_carried_out_itself() {
    let (mut host, [old, new, _]) = three();
    host.core.serve_writes_by_writes(old, false).unwrap();
    host.own.insert(old);
    host.core.suspend(old).unwrap();
    host.write(old, range(8, 8), 8);
    host.write(new, range(0, 32), 32);
    host.poll();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![0, 1]));
    host.core.resume(old).unwrap();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1]));
    let task = |nth| host.tasks.keys().nth(nth).copied();
    assert_eq!(host.medium[&Lbn::new(8)].task, task(0));
    assert_eq!(host.medium[&Lbn::new(16)].task, task(1));
}

/// A promoted write is a write of its session, not of the foreground.
#[test]
fn a_promoted_write_completes_none_of_those_that_are_each_carried_out() {
    let (mut host, [old, new, _]) = three();
    host.core.serve_writes_by_writes(old, false).unwrap();
    host.own.insert(old);
    host.core.suspend(old).unwrap();
    host.write(old, range(8, 8), 8);
    host.write(new, range(0, 32), 32);
    host.core.promote(new, range(0, 32)).unwrap();
    host.poll();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![0, 1]));
    host.core.resume(old).unwrap();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1]));
    assert_eq!(host.passed.values().copied().collect::<Vec<_>>(), [8, 32]);
}

/// In one request a sector passes once. The second write of the place is done later, and the foreground does not wait for it.
#[test]
fn a_promoted_request_carries_out_one_write_of_a_place() {
    let (mut host, [one, ..]) = three();
    host.core.serve_writes_by_writes(one, false).unwrap();
    host.own.insert(one);
    host.write(one, range(0, 16), 16);
    host.core.promote(one, range(0, 16)).unwrap();
    host.write(one, range(4, 4), 4);
    host.poll();
    let accesses = host.core.accesses().iter().filter(|a| a.purpose == Purpose::Foreground);
    assert_eq!(accesses.map(|a| a.sectors).sum::<u32>(), 16);
    for _ in 0..40 {
        host.step(false);
    }
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1]));
    assert_eq!(host.passed.values().copied().collect::<Vec<_>>(), [16, 4]);
}

/// No session can opt out of promise 3: foreground data are newer than background writes that wait.
#[test]
fn the_foreground_s_data_are_newer_for_a_session_that_wants_each_write_carried_out() {
    let (mut host, [old, ..]) = three();
    host.core.serve_writes_by_writes(old, false).unwrap();
    host.core.suspend(old).unwrap();
    host.write(old, range(8, 16), 16);
    host.submit(Op::Write, range(0, 16));
    for _ in 0..4 {
        host.step(false);
    }
    host.core.resume(old).unwrap();
    host.settle();
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1]));
    let whose = |lbn| host.medium[&Lbn::new(lbn)].task;
    assert_eq!((whose(15), whose(16)), (None, host.tasks.keys().next().copied()));
}

#[test]
fn writes_of_one_place_that_are_each_carried_out_pass_one_after_the_other() {
    let (mut host, sessions) = three();
    for session in sessions {
        host.core.serve_writes_by_writes(session, false).unwrap();
        host.own.insert(session);
        host.write(session, range(8, 8), 8);
    }
    host.poll();
    for _ in 0..40 {
        host.step(false);
    }
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1, 1]));
    assert_eq!(host.passed.values().copied().collect::<Vec<_>>(), [8, 8, 8]);
}

/// A session that sets nothing has the setting of the core's configuration.
#[test]
fn each_write_carried_out_itself_can_be_the_default() {
    let (host, _) = three();
    let config = Config::default().with_writes_serve_writes(false).with_idle(Some(IdleTime::default()));
    let mut host = WriteHost { core: InDrive::new(Arc::clone(&host.drive), config), ..host };
    let [one, other] = [(); 2].map(|()| host.core.open(Priority::default()).unwrap());
    host.own.extend([one, other]);
    host.write(one, range(8, 8), 8);
    host.write(other, range(8, 8), 8);
    host.poll();
    for _ in 0..40 {
        host.step(false);
    }
    assert_eq!((host.wrong.take(), came(&host)), (None, vec![1, 1]));
    assert_eq!(host.passed.values().copied().collect::<Vec<_>>(), [8, 8]);
}
