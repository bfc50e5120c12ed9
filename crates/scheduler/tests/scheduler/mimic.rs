//! The core's reports to a mimic, and the mimic's reads in idle time.

use freeblock_scheduler::policy::{PolicyName, SmtfRule};
use freeblock_scheduler::{
    Access, Caution, Command, Config, HeadWork, IdleTime, InDrive, Last, Mimic, Observed, Outcome, Output,
    OutsideConfig, OutsideDrive, Parameter, Priority, Purpose, Request, Sessions,
};
use model::{DriveModel, builtin};
use std::any::Any;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// A mimic that records the reports to it and wants to read one range.
#[derive(Clone, Debug, Default)]
struct Recorder {
    seen: Vec<Observed>,
    wants: Option<LbnRange>,
    /// Whether the mimic wants the range again after each read.
    insists: bool,
}

impl Mimic for Recorder {
    fn time(&self, last: Last, _: Instant, request: &Request) -> Option<Duration> {
        // The farthest request has the shortest time, unlike on any drive.
        Some(Duration::from_nanos(u64::MAX / 4 - request.range.start().get().abs_diff(last.lbn.get())))
    }

    fn observe(&mut self, seen: &Observed) {
        self.seen.push(*seen);
    }

    fn wanted(&mut self, _: Last) -> Option<LbnRange> {
        if self.insists { self.wants } else { self.wants.take() }
    }

    fn uses_idle_time(&self) -> bool {
        self.wants.is_some()
    }

    fn boxed_clone(&self) -> Box<dyn Mimic> {
        Box::new(self.clone())
    }
}

fn core(wants: Option<LbnRange>) -> InDrive {
    let drive = DriveModel::from_profile(&builtin::find("mimic-less-capacity").unwrap()).unwrap();
    let policy = PolicyName::Smtf(SmtfRule::default());
    let mut core = InDrive::new(
        Arc::new(drive),
        Config::default().with_policy(policy).with_idle(Some(IdleTime::default())),
    );
    assert!(core.mimic::<Recorder>().is_none());
    core.set_mimic(Some(Box::new(Recorder { wants, ..Recorder::default() })));
    core
}

fn range(lbn: u64) -> LbnRange {
    LbnRange::new(Lbn::new(lbn), Sectors::new(8))
}

fn submit(core: &mut InDrive, now: Instant, id: u64, op: Op, lbn: u64) {
    core.submit(now, Request { id: RequestId::new(id), op, range: range(lbn) }).unwrap();
}

/// Carries out one `Execute` as the core predicts it. Returns its end and its accesses.
fn execute(core: &mut InDrive, now: Instant) -> Option<(Instant, Vec<Access>)> {
    while let Some(output) = core.poll(now) {
        if output == Output::Do(HeadWork::Execute) {
            let (until, accesses) = (core.busy_until().unwrap(), core.accesses().to_vec());
            core.completed(until);
            return Some((until, accesses));
        }
    }
    None
}

fn seen(mimic: Option<Box<dyn Mimic>>) -> Vec<Observed> {
    let mimic: Box<dyn Any> = mimic.unwrap();
    mimic.downcast::<Recorder>().unwrap().seen
}

#[test]
fn the_mimic_gets_the_predecessor_and_the_time_of_each_request() {
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
    // The drive is idle before the fourth request.
    let pause = Duration::from_millis(3);
    submit(&mut core, now + pause, 4, Op::Read, 700);
    let (end, _) = execute(&mut core, now + pause).unwrap();
    let seen = seen(core.set_mimic(None));
    // The access before the first request is unknown. Then the farthest request is served, because the mimic's time is shortest.
    let order: Vec<(u64, u64)> = seen.iter().map(|s| (s.last.lbn.get(), s.request.id.get())).collect();
    assert_eq!(order, [(107, 2), (90_007, 3), (50_007, 4)]);
    assert_eq!([seen[0].last.op, seen[1].last.op], [Op::Read, Op::Write]);
    assert_eq!(seen[0].time, ends[1].since(ends[0]));
    assert_eq!(seen[1].time, ends[2].since(ends[1]));
    assert_eq!((seen[2].pause, seen[2].time), (pause, end.since(now + pause)));
    assert!(seen[..2].iter().all(|s| s.pause == Duration::ZERO));
}

#[test]
fn failed_and_lost_requests_teach_nothing() {
    let mut core = core(None);
    for (id, lbn) in [(1, 0), (2, 1_000), (3, 5_000)] {
        submit(&mut core, Instant::ZERO, id, Op::Read, lbn);
    }
    let (now, _) = execute(&mut core, Instant::ZERO).unwrap();
    while core.poll(now) != Some(Output::Do(HeadWork::Execute)) {}
    core.completed_with(core.busy_until().unwrap(), &[Lbn::new(5_003)]);
    let now = now + Duration::from_secs(1);
    while core.poll(now) != Some(Output::Do(HeadWork::Execute)) {}
    core.lost(now);
    while core.poll(now) != Some(Output::Do(HeadWork::Execute)) {}
    core.completed(core.busy_until().unwrap());
    assert_eq!(
        seen(core.set_mimic(None)),
        [],
        "the second failed, the third was lost and what came before it with it"
    );
}

#[test]
fn the_mimic_gets_its_reads_in_idle_time() {
    let mut core = core(Some(range(77_000)));
    submit(&mut core, Instant::ZERO, 1, Op::Read, 400);
    let (now, _) = execute(&mut core, Instant::ZERO).unwrap();
    while core.poll(now).is_some() {}
    let wake = core.wake_at().expect("something is wanted in idle time");
    assert_eq!(wake, now + IdleTime::default().threshold);
    let (end, accesses) = execute(&mut core, wake).unwrap();
    assert!(accesses.iter().all(|a| a.op == Op::Read && a.purpose == (Purpose::Idle { useful: 0 })));
    assert_eq!(core.poll(end), None, "no session gets a record of it");
    assert_eq!(core.wake_at(), None, "nothing more is wanted");
    let seen = seen(core.set_mimic(None));
    assert_eq!((seen[0].request.range, seen[0].time), (range(77_000), end.since(wake)));
    assert_eq!(seen[0].pause, wake.since(now));
}

/// A read for the mimic moves the head like any idle work, and has the same bound on harm.
#[test]
fn visits_for_the_mimic_stop_at_the_harm_bound() {
    let drive = Arc::new(DriveModel::from_profile(&builtin::find("mimic-less-capacity").unwrap()).unwrap());
    let idle = IdleTime::default().with_harm_ppm(0);
    let mut core = InDrive::new(drive, Config::default().with_idle(Some(idle)));
    let wants = Some(range(1_900_000));
    core.set_mimic(Some(Box::new(Recorder { wants, insists: true, ..Recorder::default() })));
    submit(&mut core, Instant::ZERO, 1, Op::Read, 0);
    let (mut now, _) = execute(&mut core, Instant::ZERO).unwrap();
    let (mut id, mut last) = (1, core.harm());
    for _ in 0..6 {
        // The silence lasts until the core uses it; then a request arrives for the place that the head has left.
        while core.poll(now).is_some() {}
        let (wake, end) = loop {
            let wake = core.wake_at().expect("something is wanted in idle time");
            if let Some((end, _)) = execute(&mut core, wake) {
                break (wake, end);
            }
        };
        let silence = wake.saturating_since(now);
        let above = last.late > last.early;
        assert!(!above || silence >= Duration::from_secs(10), "{last:?}, and used after {silence:?}");
        id += 1;
        submit(&mut core, end, id, Op::Read, 0);
        now = execute(&mut core, end).unwrap().0;
        last = core.harm();
    }
    assert!(last.late > last.early, "it would prove nothing if nothing had been late: {last:?}");
}

#[test]
fn a_range_past_the_drives_end_is_not_read_for_the_mimic() {
    let mut core = core(Some(LbnRange::new(Lbn::new(u64::MAX - 3), Sectors::new(8))));
    submit(&mut core, Instant::ZERO, 1, Op::Read, 400);
    let (now, _) = execute(&mut core, Instant::ZERO).unwrap();
    while core.poll(now).is_some() {}
    let wake = core.wake_at().unwrap();
    assert!(execute(&mut core, wake).is_none());
}

/// Returns a core outside a drive of which only the size is known.
fn blind(wants: Option<LbnRange>) -> OutsideDrive {
    let drive = DriveModel::unknown(Sectors::new(1 << 22), Bytes::new(512)).unwrap();
    let policy = PolicyName::Smtf(SmtfRule::default());
    let outside = OutsideConfig::blind();
    let config =
        Config::default().with_policy(policy).with_outside(outside).with_idle(Some(IdleTime::default()));
    let mut core = OutsideDrive::new(Arc::new(drive), config);
    core.set_mimic(Some(Box::new(Recorder { wants, ..Recorder::default() })));
    core
}

fn submit_outside(core: &mut OutsideDrive, now: Instant, id: u64, op: Op, lbn: u64) {
    core.submit(now, Request { id: RequestId::new(id), op, range: range(lbn) }).unwrap();
}

fn sent(core: &mut OutsideDrive, now: Instant) -> Vec<Command> {
    let outputs = std::iter::from_fn(|| core.poll(now));
    let command = |output| if let Output::Do(command) = output { Some(command) } else { None };
    outputs.filter_map(command).collect()
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

#[test]
fn outside_a_time_goes_from_completion_to_completion() {
    let mut core = blind(None);
    assert_eq!(core.caution(), Some(Caution::Unknown));
    for (id, op, lbn) in [(1, Op::Read, 100), (2, Op::Write, 900_000), (3, Op::Read, 500_000)] {
        submit_outside(&mut core, at(0), id, op, lbn);
    }
    // Two commands are sent: the second is the farthest from the first, which is still at the drive.
    let first = sent(&mut core, at(0));
    assert_eq!(first.iter().map(|c| c.range.start().get()).collect::<Vec<_>>(), [100, 900_000]);
    assert_eq!(core.predicted(first[0].id), None, "nothing is known");
    core.command_done(at(7_000), first[0].id, Outcome::Done);
    let third = sent(&mut core, at(7_000));
    core.command_done(at(9_500), first[1].id, Outcome::Done);
    core.command_done(at(17_000), third[0].id, Outcome::Done);
    // The drive is idle before the fourth request.
    submit_outside(&mut core, at(20_000), 4, Op::Read, 700);
    let fourth = sent(&mut core, at(20_000));
    core.command_done(at(26_000), fourth[0].id, Outcome::Done);
    let seen = seen(core.set_mimic(None));
    let us = |time: Duration| time.as_nanos() / 1_000;
    let short: Vec<_> =
        seen.iter().map(|s| (s.last.lbn.get(), s.request.id.get(), us(s.pause), us(s.time))).collect();
    assert_eq!(short, [(107, 2, 0, 2_500), (900_007, 3, 0, 7_500), (500_007, 4, 3_000, 6_000)]);
}

#[test]
fn outside_failed_and_lost_commands_teach_nothing() {
    let mut core = blind(None);
    for (id, lbn) in [(1, 100), (2, 900_000), (3, 500_000)] {
        submit_outside(&mut core, at(0), id, Op::Read, lbn);
    }
    let first = sent(&mut core, at(0));
    core.command_done(at(7_000), first[0].id, Outcome::Done);
    sent(&mut core, at(7_000));
    core.command_done(at(50_000), first[1].id, Outcome::NoData(Lbn::new(900_001)));
    core.lost(at(60_000));
    let again = sent(&mut core, at(60_000));
    core.command_done(at(70_000), again[0].id, Outcome::Done);
    assert_eq!(seen(core.set_mimic(None)), []);
}

#[test]
fn outside_idle_time_goes_to_the_background_and_then_to_the_mimic_and_waiting_for_it_is_harm() {
    let mut core = blind(Some(range(77_000)));
    let session = core.open(Priority::default()).unwrap();
    core.read(session, LbnRange::new(Lbn::ZERO, Sectors::new(64)), Sectors::new(8), Parameter::default())
        .unwrap();
    submit_outside(&mut core, at(0), 1, Op::Read, 400_000);
    let first = sent(&mut core, at(0));
    assert_eq!(first.len(), 1, "no background beside the foreground");
    core.command_done(at(5_000), first[0].id, Outcome::Done);
    assert_eq!(sent(&mut core, at(5_000)), []);
    let mut wake = core.wake_at().unwrap();
    assert_eq!(wake, at(25_000));
    let mut scan = sent(&mut core, wake);
    while scan.is_empty() {
        // The search pauses for a millisecond when its budget is spent.
        wake = core.wake_at().unwrap();
        scan = sent(&mut core, wake);
    }
    let later = |ms| wake + Duration::from_millis(ms);
    assert!(wake < at(100_000), "{wake}");
    assert_eq!((scan[0].range.len().get(), scan[0].purpose), (64, Purpose::Idle { useful: 64 }));
    core.command_done(later(5), scan[0].id, Outcome::Done);
    let probe = sent(&mut core, later(5));
    assert_eq!((probe[0].range, probe[0].purpose), (range(77_000), Purpose::Idle { useful: 0 }));
    // The request waits for the probe for 4 of its 9 ms.
    submit_outside(&mut core, later(11), 2, Op::Read, 0);
    let second = sent(&mut core, later(11));
    core.command_done(later(15), probe[0].id, Outcome::Done);
    core.command_done(later(20), second[0].id, Outcome::Done);
    let harm = core.harm();
    assert_eq!((harm.foreground, harm.late), (Duration::from_millis(10), Duration::from_millis(4)));
    // The bound is 1%: until the estimate has fallen, idle time is not used.
    core.read(session, LbnRange::new(Lbn::ZERO, Sectors::new(64)), Sectors::new(8), Parameter::default())
        .unwrap();
    assert_eq!(sent(&mut core, later(20)), []);
    assert_eq!(sent(&mut core, later(45)), []);
    let seen = seen(core.set_mimic(None));
    let asked: Vec<u64> = seen.iter().map(|s| s.request.range.start().get()).collect();
    assert_eq!(asked, [77_000, 0]);
}
