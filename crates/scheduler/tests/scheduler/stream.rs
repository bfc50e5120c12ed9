//! Streams: the use of idle time by reads behind the foreground's last read.

use freeblock_scheduler::{
    Command, Config, IdleTime, Outcome, Output, OutsideConfig, OutsideDrive, Overheads, Parameter, Priority,
    Purpose, Request, Sessions,
};
use model::{DriveModel, Profile};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Returns a core that wants the whole drive in blocks of four sectors.
fn core(idle: Option<IdleTime>, write_back: bool) -> OutsideDrive {
    let toml = include_str!("../../../model/tests/data/tiny.toml");
    let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
    let whole = range(0, drive.layout().capacity().get());
    let command = [Duration::from_micros(150); 2];
    let overheads = Overheads::default().with_command(command).with_overlap(true).with_write_back(write_back);
    let outside = OutsideConfig::beyond(overheads).serving();
    let mut core = OutsideDrive::new(Arc::new(drive), Config::outside(outside).with_idle(idle));
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

fn sent(core: &mut OutsideDrive, us: u64) -> Vec<Command> {
    let mut sent = Vec::new();
    while let Some(output) = core.poll(at(us)) {
        if let Output::Do(command) = output {
            sent.push(command);
        }
    }
    sent
}

/// Submits a request, and returns its command, which the core sends at once.
fn ask(core: &mut OutsideDrive, us: u64, id: u64, op: Op, range: LbnRange) -> Command {
    core.submit(at(us), Request { id: RequestId::new(id), op, range }).unwrap();
    let Ok([command]) = <[_; 1]>::try_from(sent(core, us)) else { panic!("one command at {us} us") };
    assert_eq!((command.range, command.purpose), (range, Purpose::Foreground));
    command
}

/// Reports a completion to the core, and returns the next commands.
fn done(core: &mut OutsideDrive, us: u64, command: Command) -> Vec<Command> {
    core.command_done(at(us), command.id, Outcome::Done);
    sent(core, us)
}

fn is_idle(command: &Command) -> bool {
    matches!(command.purpose, Purpose::Idle { .. })
}

/// Returns the next command of a stream, and when it is sent, in microseconds; `None` if none comes within 15 ms, longer than a
/// track and a revolution take.
fn stream(core: &mut OutsideDrive, us: u64) -> Option<(u64, Command)> {
    let due = core.wake_at()?.since(Instant::ZERO).as_nanos().div_ceil(1_000);
    if due >= us + 15_000 {
        return None;
    }
    let [command] = <[_; 1]>::try_from(sent(core, due)).ok()?;
    is_idle(&command).then_some((due, command))
}

#[test]
fn a_stream_requests_sectors_that_have_passed_command_by_command() {
    let mut core = core(Some(IdleTime::default()), false);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    assert_eq!(done(&mut core, 5_000, asked), [], "nothing has passed yet");
    let (mut us, mut next) = (5_000, 104);
    for _ in 0..5 {
        let (due, command) = stream(&mut core, us).expect("a stream");
        assert_eq!((command.op, command.range.start().get()), (Op::Read, next));
        next = command.range.end().get();
        us = due + 150;
        assert_eq!(done(&mut core, us, command), []);
    }
    // A revolution of 6 ms has 50 sectors.
    assert!((next - 104) * 6_000 / 50 <= us - 5_000, "{next} at {us} us");
}

#[test]
fn a_request_that_meets_a_stream_goes_to_the_drive_at_once_and_the_stream_ends() {
    let mut core = core(Some(IdleTime::default()), false);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    done(&mut core, 90_000, asked);
    let (us, command) = stream(&mut core, 90_000).expect("a stream");
    let met = ask(&mut core, us + 20, 2, Op::Read, range(1_000, 4));
    assert_eq!(done(&mut core, us + 150, command), []);
    // A new stream begins behind the request's read.
    assert_eq!(done(&mut core, us + 12_000, met), []);
    let (_, next) = stream(&mut core, us + 12_000).expect("a stream");
    assert_eq!(next.range.start().get(), 1_004);
}

/// Returns the number of requests that are served without a stream after a request has waited for a stream's command of the given
/// duration.
fn requests_until_a_stream_begins_again(took_us: u64) -> u64 {
    let mut core = core(Some(IdleTime::default()), false);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    done(&mut core, 5_000, asked);
    let (mut us, command) = stream(&mut core, 5_000).expect("a stream");
    let met = ask(&mut core, us, 2, Op::Read, range(1_000, 4));
    assert_eq!(done(&mut core, us + took_us, command), []);
    us += 15_000;
    assert_eq!(done(&mut core, us, met), []);
    let begins = (3..1_000).find(|id| {
        let asked = ask(&mut core, us + 1_000, *id, Op::Read, range(id * 3 % 1_200 * 4, 4));
        us += 11_000;
        done(&mut core, us, asked);
        stream(&mut core, us).is_some()
    });
    begins.expect("a stream begins") - 3
}

#[test]
fn a_stream_that_made_a_request_wait_for_longer_than_the_bound_allows_does_not_begin_again_until_that_is_earned()
 {
    // Each response earns three quarters of 1% of its time; the wait costs three times its length while the load is unknown.
    let requests = requests_until_a_stream_begins_again(8_000);
    assert!((250..400).contains(&requests), "{requests}");
}

#[test]
fn a_request_that_meets_a_cache_hit_waits_only_for_the_end_of_the_command() {
    let requests = requests_until_a_stream_begins_again(150);
    assert!((2..10).contains(&requests), "{requests}");
}

#[test]
fn no_stream_begins_where_idle_time_is_not_used_or_not_before_its_threshold() {
    let long_only = IdleTime::default().with_short(false);
    for idle in [None, Some(long_only)] {
        let mut core = core(idle, false);
        let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
        assert_eq!(done(&mut core, 5_000, asked), [], "{idle:?}");
        assert_eq!(stream(&mut core, 5_000), None, "{idle:?}");
    }
}

#[test]
fn a_stream_lets_the_drive_put_a_reported_write_on_the_medium() {
    let mut core = core(Some(IdleTime::default()), true);
    let asked = ask(&mut core, 0, 1, Op::Read, range(100, 4));
    done(&mut core, 5_000, asked);
    let (us, command) = stream(&mut core, 5_000).expect("a stream");
    let write = ask(&mut core, us + 20, 2, Op::Write, range(1_000, 4));
    assert_eq!(done(&mut core, us + 40, write), []);
    assert_eq!(done(&mut core, us + 150, command), []);
    assert_eq!(stream(&mut core, us + 150), None, "the drive goes elsewhere now");
}
