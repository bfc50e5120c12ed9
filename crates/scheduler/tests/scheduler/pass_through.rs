//! Requests that are passed through to the drive, which chooses their order, mostly while no block is wanted.

use freeblock_scheduler::{
    AuditConfig, AuditWindow, Caution, Command, Config, Outcome, Output, OutsideConfig, OutsideDrive,
    Overheads, Parameter, Priority, Request, Sessions,
};
use model::{DriveModel, Profile};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn core() -> OutsideDrive {
    core_of(false, None)
}

fn core_of(write_back: bool, audit: Option<AuditConfig>) -> OutsideDrive {
    let toml = include_str!("../../../model/tests/data/tiny.toml");
    let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
    let overheads = Overheads::default().with_overlap(true).with_write_back(write_back);
    let outside = OutsideConfig::beyond(overheads).serving().with_audit(audit);
    OutsideDrive::new(Arc::new(drive), Config::outside(outside))
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn submit(core: &mut OutsideDrive, ms: u64, id: u64, op: Op, range: LbnRange) {
    core.submit(at(ms), Request { id: RequestId::new(id), op, range }).unwrap();
}

fn sent(core: &mut OutsideDrive, ms: u64) -> Vec<Command> {
    let mut sent = Vec::new();
    while let Some(output) = core.poll(at(ms)) {
        if let Output::Do(command) = output {
            sent.push(command);
        }
    }
    sent
}

fn starts(commands: &[Command]) -> Vec<u64> {
    commands.iter().map(|command| command.range.start().get()).collect()
}

/// Submits requests of four sectors each, far from each other.
fn many(core: &mut OutsideDrive, ms: u64, ids: std::ops::Range<u64>) {
    ids.for_each(|id| submit(core, ms, id, Op::Read, range(id * 40, 4)));
}

#[test]
fn while_nothing_is_wanted_requests_go_to_the_drive_at_once_and_in_order_of_arrival_as_many_as_it_takes() {
    let mut core = core();
    many(&mut core, 0, 1..41);
    let commands = sent(&mut core, 0);
    assert_eq!(starts(&commands), (1..33).map(|id| id * 40).collect::<Vec<_>>());
    assert_eq!((core.at_drive(), core.pending()), (32, 8));
    // The drive finishes the last command first: the next request takes its place at once.
    core.command_done(at(7), commands[31].id, Outcome::Done);
    assert_eq!(starts(&sent(&mut core, 7)), [33 * 40]);
}

#[test]
fn a_request_that_overlaps_a_write_at_the_drive_waits_for_it_and_lets_others_pass() {
    let mut core = core();
    submit(&mut core, 0, 1, Op::Write, range(100, 8));
    submit(&mut core, 0, 2, Op::Write, range(104, 8));
    submit(&mut core, 0, 3, Op::Read, range(108, 8));
    submit(&mut core, 0, 4, Op::Read, range(400, 8));
    let first = sent(&mut core, 0);
    assert_eq!(starts(&first), [100, 400], "the third overlaps the second, which waits");
    core.command_done(at(5), first[0].id, Outcome::Done);
    let second = sent(&mut core, 5);
    assert_eq!(starts(&second), [104]);
    core.command_done(at(10), second[0].id, Outcome::Done);
    assert_eq!(starts(&sent(&mut core, 10)), [108]);
}

#[test]
fn two_reads_of_the_same_sectors_are_at_the_drive_together() {
    let mut core = core();
    submit(&mut core, 0, 1, Op::Read, range(100, 8));
    submit(&mut core, 0, 2, Op::Read, range(104, 8));
    assert_eq!(starts(&sent(&mut core, 0)), [100, 104]);
}

#[test]
fn pass_through_ends_with_a_registration_once_the_drive_is_empty_and_begins_again_after_it() {
    let mut core = core();
    many(&mut core, 0, 1..11);
    let mut there = sent(&mut core, 0);
    assert_eq!(there.len(), 10);
    let session = core.open(Priority::default()).unwrap();
    core.read(session, range(4_000, 8), Sectors::new(8), Parameter::default()).unwrap();
    many(&mut core, 1, 11..21);
    let (mut ms, mut assisted) = (1, 0);
    while let Some(command) = there.first().cloned() {
        there.remove(0);
        ms += 6;
        core.command_done(at(ms), command.id, Outcome::Done);
        let unsynchronised = core.caution() == Some(Caution::Unsynchronised);
        let more = sent(&mut core, ms);
        if unsynchronised && !more.is_empty() {
            assert!(core.at_drive() <= 2, "{}", core.at_drive());
            assisted += 1;
        }
        there.extend(more);
    }
    assert_eq!(core.pending(), 0);
    assert!(assisted > 0, "requests were chosen one by one");
    core.close(session).unwrap();
    many(&mut core, ms, 21..41);
    assert_eq!(sent(&mut core, ms).len(), 20);
}

#[test]
fn requests_that_were_passed_through_and_lost_are_sent_again() {
    let mut core = core();
    many(&mut core, 0, 1..6);
    assert_eq!(sent(&mut core, 0).len(), 5);
    core.lost(at(9));
    let (mut done, mut ms) = (Vec::new(), 9);
    let mut there = sent(&mut core, ms);
    while let Some(command) = there.pop() {
        ms += 6;
        done.extend(command.request.map(RequestId::get));
        core.command_done(at(ms), command.id, Outcome::Done);
        there.extend(sent(&mut core, ms));
    }
    done.sort_unstable();
    assert_eq!(done, [1, 2, 3, 4, 5]);
}

#[test]
fn pass_through_depth_follows_the_setting() {
    let overheads = Overheads::default().with_overlap(true);
    let paper = OutsideConfig::paper(overheads, Duration::ZERO);
    for (outside, expected) in [(paper, 2), (paper.with_pass_through(5), 5)] {
        let mut core = core();
        let drive = Arc::new(core.drive().clone());
        core = OutsideDrive::new(drive, Config::outside(outside));
        many(&mut core, 0, 1..11);
        assert_eq!(sent(&mut core, 0).len(), expected);
    }
}

#[test]
fn a_write_that_the_drive_caches_does_not_wait_with_the_reads_that_are_scheduled() {
    for (caches, expected) in [(true, &[1_000][..]), (false, &[])] {
        let mut core = core_of(caches, None);
        let session = core.open(Priority::default()).unwrap();
        core.read(session, range(4_000, 8), Sectors::new(8), Parameter::default()).unwrap();
        many(&mut core, 0, 1..9);
        assert_eq!(sent(&mut core, 0).len(), 2, "reads are scheduled");
        submit(&mut core, 1, 20, Op::Write, range(82, 8));
        submit(&mut core, 1, 21, Op::Write, range(1_000, 8));
        assert_eq!(starts(&sent(&mut core, 1)), expected, "and not the one that overlaps a waiting read");
    }
}

/// In a through window of the audit the drive chooses the order: nothing is scheduled, although a block is wanted.
#[test]
fn in_a_through_window_of_the_audit_requests_go_to_the_drive_as_they_come_and_in_others_they_are_scheduled() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..64 {
        let mut core = core_of(false, Some(AuditConfig::new(seed)));
        let session = core.open(Priority::default()).unwrap();
        core.read(session, range(4_000, 8), Sectors::new(8), Parameter::default()).unwrap();
        many(&mut core, 0, 1..11);
        let sent = sent(&mut core, 0).len();
        let window = core.audit_report().unwrap().window;
        assert_eq!(sent, if window == AuditWindow::Through { 10 } else { 2 }, "{window:?} of seed {seed}");
        *seen.entry(format!("{window:?}")).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}
