//! Idle time in streams behind the foreground's reads.

use freeblock_scheduler::{
    Action, Command, Config, Core, IdleTime, Outcome, OutsideConfig, Overheads, Parameter, Place, Priority,
    Purpose, Request, Sessions,
};
use model::{DriveModel, Profile};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// A core that wants the whole drive in blocks of four sectors.
fn core(idle: Option<IdleTime>, write_back: bool) -> Core {
    let toml = include_str!("../../../model/tests/data/tiny.toml");
    let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
    let whole = range(0, drive.layout().capacity().get());
    let command = [Duration::from_micros(150); 2];
    let overheads = Overheads { command, overlap: true, write_back, ..Overheads::default() };
    let place = Place::Outside(OutsideConfig::beyond(overheads).serving());
    let mut core = Core::new(Arc::new(drive), Config { place, idle, ..Config::default() });
    let session = core.open(Priority::default()).unwrap();
    core.read(session, whole, Sectors::new(4), Parameter::default()).unwrap();
    core
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn sent(core: &mut Core, us: u64) -> Vec<Command> {
    let mut sent = Vec::new();
    while let Some(action) = core.poll(at(us)) {
        if let Action::Send(command) = action {
            sent.push(command);
        }
    }
    sent
}

/// Submits a request, and returns the command that goes to the drive at once.
fn ask(core: &mut Core, us: u64, id: u64, op: Op, range: LbnRange) -> Command {
    core.submit(at(us), Request { id: RequestId::new(id), op, range }).unwrap();
    let [command] = sent(core, us)[..] else { panic!("one command at {us} us") };
    assert_eq!((command.range, command.purpose), (range, Purpose::Foreground));
    command
}

/// Tells the core that a command is done, and returns the commands that follow.
fn done(core: &mut Core, us: u64, command: Command) -> Vec<Command> {
    core.command_done(at(us), command.id, Outcome::Done);
    sent(core, us)
}

fn is_idle(command: &Command) -> bool {
    matches!(command.purpose, Purpose::Idle { .. })
}

#[test]
fn a_stream_begins_where_the_last_read_ended_and_goes_on_command_by_command() {
    let mut core = core(Some(IdleTime::default()), false);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    let mut stream = done(&mut core, 5_000, asked);
    let (mut us, mut next) = (5_000, 104);
    for _ in 0..5 {
        let [command] = stream[..] else { panic!("{stream:?}") };
        assert!(is_idle(&command) && command.op == Op::Read);
        assert_eq!(command.range.start().get(), next);
        next = command.range.end().get();
        us += 100;
        stream = done(&mut core, us, command);
    }
}

#[test]
fn a_request_that_meets_a_stream_goes_to_the_drive_at_once_and_the_stream_ends() {
    let mut core = core(Some(IdleTime::default()), false);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    let [stream] = done(&mut core, 5_000, asked)[..] else { panic!("no stream") };
    let met = ask(&mut core, 5_020, 2, Op::Read, range(1_000, 4));
    assert_eq!(done(&mut core, 5_025, stream), []);
    // Behind that read it begins anew.
    let [next] = done(&mut core, 12_000, met)[..] else { panic!("no stream") };
    assert_eq!((is_idle(&next), next.range.start().get()), (true, 1_004));
}

#[test]
fn a_stream_that_made_a_request_wait_for_longer_than_the_bound_allows_does_not_begin_again_until_that_is_earned()
 {
    let mut core = core(Some(IdleTime::default()), false);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    let [stream] = done(&mut core, 5_000, asked)[..] else { panic!("no stream") };
    let met = ask(&mut core, 5_000, 2, Op::Read, range(1_000, 4));
    assert_eq!(done(&mut core, 13_000, stream), [], "it was 8 ms late");
    assert_eq!(done(&mut core, 20_000, met), []);
    // Three quarters of a hundredth of each response are earned, and three times the wait is owed while little is known of the load.
    let mut us = 20_000;
    let begins = (3..1_000).find(|id| {
        let asked = ask(&mut core, us + 1_000, *id, Op::Read, range(id * 3 % 1_200 * 4, 4));
        us += 11_000;
        !done(&mut core, us, asked).is_empty()
    });
    assert!(begins.is_some_and(|id| (250..400).contains(&id)), "{begins:?}");
}

#[test]
fn no_stream_begins_where_idle_time_is_not_used_or_not_before_its_threshold() {
    let long_only = IdleTime { short: false, ..IdleTime::default() };
    for idle in [None, Some(long_only)] {
        let mut core = core(idle, false);
        let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
        assert_eq!(done(&mut core, 5_000, asked), [], "{idle:?}");
    }
}

#[test]
fn a_stream_lets_the_drive_put_a_reported_write_on_the_medium() {
    let mut core = core(Some(IdleTime::default()), true);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    let [stream] = done(&mut core, 5_000, asked)[..] else { panic!("no stream") };
    let write = ask(&mut core, 5_020, 2, Op::Write, range(1_000, 4));
    assert_eq!(done(&mut core, 5_040, write), []);
    assert_eq!(done(&mut core, 5_050, stream), [], "the drive goes elsewhere now");
}
