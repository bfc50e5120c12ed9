//! What a mimic is told by the core, and what it gets in idle time.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

use freeblock_scheduler::policy::{PolicyName, SmtfRule};
use freeblock_scheduler::{
    Access, Action, Config, Core, IdleTime, Last, Mimic, Observed, Parameter, Priority, Purpose, Request,
    Sessions,
};
use model::{DriveModel, builtin};
use std::any::Any;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Remembers what it is told, and wants to read one place.
#[derive(Clone, Debug, Default)]
struct Recorder {
    seen: Vec<Observed>,
    wants: Option<LbnRange>,
}

impl Mimic for Recorder {
    fn time(&self, last: Last, _: Instant, request: &Request) -> Option<Duration> {
        // The further the better: no policy that knows the drive would choose so.
        Some(Duration::from_nanos(u64::MAX / 4 - request.range.start().get().abs_diff(last.lbn.get())))
    }

    fn observe(&mut self, seen: &Observed) {
        self.seen.push(*seen);
    }

    fn wanted(&mut self, _: Last) -> Option<LbnRange> {
        self.wants.take()
    }

    fn uses_idle_time(&self) -> bool {
        self.wants.is_some()
    }

    fn boxed_clone(&self) -> Box<dyn Mimic> {
        Box::new(self.clone())
    }
}

fn core(wants: Option<LbnRange>) -> Core {
    let drive = DriveModel::from_profile(&builtin::find("mimic-less-capacity").unwrap()).unwrap();
    let policy = PolicyName::Smtf(SmtfRule::default());
    let mut core =
        Core::new(Arc::new(drive), Config { policy, idle: Some(IdleTime::default()), ..Config::default() });
    assert!(core.mimic().is_none());
    core.set_mimic(Some(Box::new(Recorder { wants, ..Recorder::default() })));
    core
}

fn range(lbn: u64) -> LbnRange {
    LbnRange::new(Lbn::new(lbn), Sectors::new(8))
}

fn submit(core: &mut Core, now: Instant, id: u64, op: Op, lbn: u64) {
    core.submit(now, Request { id: RequestId::new(id), op, range: range(lbn) }).unwrap();
}

/// Carries out what the core asks for once, as it predicts it; when it is done, and what it was.
fn execute(core: &mut Core, now: Instant) -> Option<(Instant, Vec<Access>)> {
    while let Some(action) = core.poll(now) {
        if action == Action::Execute {
            let (until, accesses) = (core.busy_until().unwrap(), core.accesses().to_vec());
            core.completed(until);
            return Some((until, accesses));
        }
    }
    None
}

fn seen(core: &mut Core) -> Vec<Observed> {
    let mimic: Box<dyn Any> = core.set_mimic(None).unwrap();
    mimic.downcast::<Recorder>().unwrap().seen
}

#[test]
fn it_is_told_of_each_request_what_came_before_and_what_it_took() {
    let mut core = core(None);
    let session = core.open(Priority::default()).unwrap();
    core.read(
        session,
        LbnRange::new(Lbn::ZERO, Sectors::new(2_000_000)),
        Sectors::new(8),
        Parameter::default(),
    )
    .unwrap();
    let mut now = Instant::ZERO;
    for (id, op, lbn) in [(1, Op::Read, 100), (2, Op::Write, 90_000), (3, Op::Read, 50_000)] {
        submit(&mut core, now, id, op, lbn);
    }
    let mut ends = Vec::new();
    for _ in 0..3 {
        (now, _) = execute(&mut core, now).unwrap();
        ends.push(now);
    }
    // A pause before the fourth.
    let pause = Duration::from_millis(3);
    submit(&mut core, now + pause, 4, Op::Read, 700);
    let (end, _) = execute(&mut core, now + pause).unwrap();
    let seen = seen(&mut core);
    // Of the first nobody knows what came before. Then the furthest goes, since the recorder says that it is the nearest.
    let order: Vec<(u64, u64)> = seen.iter().map(|s| (s.last.lbn.get(), s.request.id.get())).collect();
    assert_eq!(order, [(107, 2), (90_007, 3), (50_007, 4)]);
    assert_eq!([seen[0].last.op, seen[1].last.op], [Op::Read, Op::Write]);
    assert_eq!(seen[0].time, ends[1].since(ends[0]));
    assert_eq!(seen[1].time, ends[2].since(ends[1]));
    assert_eq!((seen[2].pause, seen[2].time), (pause, end.since(now + pause)));
    assert!(seen[..2].iter().all(|s| s.pause == Duration::ZERO));
}

#[test]
fn what_failed_or_was_lost_teaches_nothing() {
    let mut core = core(None);
    for (id, lbn) in [(1, 0), (2, 1_000), (3, 5_000)] {
        submit(&mut core, Instant::ZERO, id, Op::Read, lbn);
    }
    let (now, _) = execute(&mut core, Instant::ZERO).unwrap();
    while core.poll(now) != Some(Action::Execute) {}
    core.completed_with(core.busy_until().unwrap(), &[Lbn::new(5_003)]);
    let now = now + Duration::from_secs(1);
    while core.poll(now) != Some(Action::Execute) {}
    core.lost(now);
    while core.poll(now) != Some(Action::Execute) {}
    core.completed(core.busy_until().unwrap());
    assert_eq!(seen(&mut core), [], "the second failed, the third was lost and what came before it with it");
}

#[test]
fn in_idle_time_it_gets_what_it_wants_to_read() {
    let mut core = core(Some(range(77_000)));
    submit(&mut core, Instant::ZERO, 1, Op::Read, 400);
    let (now, _) = execute(&mut core, Instant::ZERO).unwrap();
    while core.poll(now).is_some() {}
    let wake = core.wake_at().expect("something is wanted in idle time");
    assert_eq!(wake, now + IdleTime::default().threshold);
    let (end, accesses) = execute(&mut core, wake).unwrap();
    assert!(accesses.iter().all(|a| a.op == Op::Read && a.purpose == (Purpose::Idle { useful: 0 })));
    assert_eq!(core.poll(end), None, "nobody else is told of it");
    assert_eq!(core.wake_at(), None, "nothing more is wanted");
    let seen = seen(&mut core);
    assert_eq!((seen[0].request.range, seen[0].time), (range(77_000), end.since(wake)));
    assert_eq!(seen[0].pause, wake.since(now));
}

#[test]
fn what_no_drive_has_is_not_read_for_it() {
    let mut core = core(Some(LbnRange::new(Lbn::new(u64::MAX - 3), Sectors::new(8))));
    submit(&mut core, Instant::ZERO, 1, Op::Read, 400);
    let (now, _) = execute(&mut core, Instant::ZERO).unwrap();
    while core.poll(now).is_some() {}
    let wake = core.wake_at().unwrap();
    assert!(execute(&mut core, wake).is_none());
}
