//! A core outside the drive: commands that finish in another order than they were sent in, fail, or are lost.

use freeblock_scheduler::{
    Command, CommandId, Config, IdleTime, Outcome, Output, OutsideConfig, OutsideDrive, Overheads, Parameter,
    Priority, Purpose, Record, Request, Sessions,
};
use model::{DriveModel, Profile, builtin};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};

fn blind() -> OutsideDrive {
    let drive = DriveModel::unknown(Sectors::new(1 << 16), Bytes::new(512)).unwrap();
    let outside = OutsideConfig::blind();
    let config = Config::outside(outside).with_idle(Some(IdleTime::default()));
    OutsideDrive::new(Arc::new(drive), config)
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Returns the commands, records and completions at an instant.
fn polled(core: &mut OutsideDrive, now: Instant) -> (Vec<Command>, Vec<Record>, Vec<RequestId>) {
    let (mut sent, mut delivered, mut completed) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(output) = core.poll(now) {
        match output {
            Output::Do(command) => sent.push(command),
            Output::Deliver(record) => delivered.push(record),
            Output::Completed(id) => completed.push(id),
            other => panic!("{other:?}"),
        }
    }
    (sent, delivered, completed)
}

/// Returns a core that wants to write a block at LBN 96.
fn with_a_block() -> (OutsideDrive, SessionId) {
    let mut core = blind();
    let session = core.open(Priority::default()).unwrap();
    core.write(session, range(96, 8), Sectors::new(8), Parameter::default()).unwrap();
    (core, session)
}

/// Returns a core that wants to write a block whose middle the foreground has written already: the rest takes two commands.
fn in_two_pieces() -> (OutsideDrive, SessionId) {
    let (mut core, session) = with_a_block();
    core.submit(at(0), Request { id: RequestId::new(1), op: Op::Write, range: range(99, 3) }).unwrap();
    let (sent, ..) = polled(&mut core, at(0));
    core.command_done(at(5), sent[0].id, Outcome::Done);
    let (sent, delivered, completed) = polled(&mut core, at(5));
    assert_eq!((sent.len(), delivered.len(), completed), (0, 0, vec![RequestId::new(1)]));
    (core, session)
}

fn ranges(sent: &[Command]) -> Vec<LbnRange> {
    sent.iter().map(|command| command.range).collect()
}

#[test]
fn a_block_in_pieces_is_done_when_all_of_them_are_whichever_is_the_last() {
    let (mut core, _) = in_two_pieces();
    let (sent, ..) = polled(&mut core, at(100));
    assert_eq!(ranges(&sent), [range(96, 3), range(102, 2)]);
    // A drive that caches writes may finish the second command first.
    core.command_done(at(101), sent[1].id, Outcome::Done);
    assert_eq!(polled(&mut core, at(101)).1, [], "a part of it is still to be written");
    core.command_done(at(110), sent[0].id, Outcome::Done);
    let (_, delivered, _) = polled(&mut core, at(110));
    assert_eq!(
        delivered.iter().map(|record| (record.range, record.bad)).collect::<Vec<_>>(),
        [(range(96, 8), None)]
    );
}

#[test]
fn a_command_carries_the_parts_of_its_blocks() {
    let (mut core, session) = in_two_pieces();
    let (sent, ..) = polled(&mut core, at(100));
    let parts = |command: &Command| command.parts.iter().map(|part| (part.block, part.part)).collect();
    let parts: Vec<Vec<_>> = sent.iter().map(parts).collect();
    assert_eq!(parts, [[(range(96, 8), range(96, 3))], [(range(96, 8), range(102, 2))]]);
    core.close(session).unwrap();
    core.submit(at(101), Request { id: RequestId::new(2), op: Op::Read, range: range(500, 8) }).unwrap();
    sent.iter().for_each(|command| core.command_done(at(110), command.id, Outcome::Done));
    let (sent, ..) = polled(&mut core, at(110));
    assert_eq!((ranges(&sent), sent[0].parts.len()), (vec![range(500, 8)], 0));
}

#[test]
fn a_piece_that_fails_after_the_others_were_done_fails_its_block() {
    let (mut core, _) = in_two_pieces();
    let (sent, ..) = polled(&mut core, at(100));
    core.command_done(at(101), sent[1].id, Outcome::Done);
    core.command_done(at(110), sent[0].id, Outcome::Bad(&[Lbn::new(97)]));
    let (_, delivered, _) = polled(&mut core, at(110));
    assert_eq!(delivered.iter().map(|record| record.bad).collect::<Vec<_>>(), [Some(Lbn::new(97))]);
}

#[test]
fn a_promoted_write_of_which_the_last_piece_was_done_when_the_first_was_lost_is_done_again() {
    let (mut core, session) = in_two_pieces();
    assert_eq!(core.promote(session, range(96, 8)), Ok(1));
    let (sent, ..) = polled(&mut core, at(6));
    assert_eq!(ranges(&sent), [range(96, 3), range(102, 2)]);
    core.command_done(at(8), sent[1].id, Outcome::Done);
    assert_eq!(polled(&mut core, at(8)).1, []);
    core.lost(at(20));
    let (again, delivered, _) = polled(&mut core, at(20));
    assert_eq!((ranges(&again)[0], delivered), (range(96, 3), vec![]), "the lost command is repeated first");
    for command in again {
        core.command_done(at(30), command.id, Outcome::Done);
    }
    let (_, delivered, _) = polled(&mut core, at(30));
    assert_eq!(delivered.len(), 1);
    assert_eq!(core.undelivered(session), Some(0));
}

#[test]
fn blocks_that_a_failed_write_returns_do_not_land_on_a_newer_write_under_way() {
    let (mut core, _) = with_a_block();
    for (id, range) in [(1, range(80, 40)), (2, range(98, 2))] {
        core.submit(at(0), Request { id: RequestId::new(id), op: Op::Write, range }).unwrap();
    }
    // The first request covers the whole block, so nothing of it is left for the second to complete.
    let (sent, ..) = polled(&mut core, at(0));
    assert_eq!(ranges(&sent), [range(80, 40), range(98, 2)]);
    core.command_done(at(10), sent[0].id, Outcome::NoData(Lbn::new(110)));
    while core.poll(at(10)).is_some() {}
    core.command_done(at(20), sent[1].id, Outcome::Done);
    while core.poll(at(20)).is_some() {}
    let (sent, ..) = polled(&mut core, at(200));
    assert_eq!(ranges(&sent), [range(96, 2), range(100, 4)]);
    for command in sent {
        core.command_done(at(210), command.id, Outcome::Done);
    }
    assert_eq!(polled(&mut core, at(210)).1.len(), 1);
}

/// Checks a block of eight sectors at LBN 96, of which 99 to 101 are already written, so that it takes two commands. The second
/// command is done; then the foreground overwrites the second command's sectors and is acknowledged; only then the first
/// command fails by `fails`. No later write of the block may touch the second command's sectors.
fn sectors_done_before_are_not_written_again(
    promoted: bool,
    fails: impl Fn(&mut OutsideDrive, Instant, &Command),
) {
    let (mut core, session) = in_two_pieces();
    let begin = if promoted { 6 } else { 100 };
    if promoted {
        assert_eq!(core.promote(session, range(96, 8)), Ok(1));
    }
    let (sent, ..) = polled(&mut core, at(begin));
    assert_eq!(ranges(&sent), [range(96, 3), range(102, 2)]);
    core.command_done(at(begin + 1), sent[1].id, Outcome::Done);
    core.submit(at(begin + 2), Request { id: RequestId::new(2), op: Op::Write, range: range(101, 4) })
        .unwrap();
    let (newer, ..) = polled(&mut core, at(begin + 2));
    assert_eq!(ranges(&newer), [range(101, 4)]);
    core.command_done(at(begin + 9), newer[0].id, Outcome::Done);
    let (_, delivered, completed) = polled(&mut core, at(begin + 9));
    assert_eq!((delivered, completed), (vec![], vec![RequestId::new(2)]));
    fails(&mut core, at(begin + 20), &sent[0]);
    let (again, delivered, _) = polled(&mut core, at(begin + 20));
    assert_eq!(delivered, []);
    assert!(again.len() <= 1, "{again:?}");
    let (now, again) = match again.into_iter().next() {
        None => idle_from(&mut core),
        Some(again) => (at(begin + 20), again),
    };
    assert_eq!(again.range, range(96, 3), "only what was not done");
    core.command_done(now + Duration::from_millis(9), again.id, Outcome::Done);
    let (sent, delivered, _) = polled(&mut core, now + Duration::from_millis(9));
    assert_eq!((sent, delivered.len()), (vec![], 1));
    assert_eq!(core.undelivered(session), Some(0));
}

#[test]
fn the_done_part_of_a_write_is_not_repeated_over_newer_data_after_a_total_loss() {
    for promoted in [false, true] {
        sectors_done_before_are_not_written_again(promoted, |core, now, _| core.lost(now));
    }
}

#[test]
fn the_done_part_of_a_partly_lost_write_is_not_repeated_over_newer_data() {
    for promoted in [false, true] {
        sectors_done_before_are_not_written_again(promoted, |core, now, first| {
            core.command_done(now, first.id, Outcome::Lost);
        });
    }
}

/// Returns a core that knows its drive and has no bound on harm, and the drive's number of sectors.
fn in_gaps() -> (OutsideDrive, u64) {
    let toml = include_str!("../../../model/tests/data/tiny.toml");
    let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
    let capacity = drive.layout().capacity().get();
    let outside = OutsideConfig::beyond(Overheads::default()).with_harm_ppm(None);
    (OutsideDrive::new(Arc::new(drive), Config::outside(outside)), capacity)
}

/// A request leaves the pool when it is chosen, and then waits in the queue for the detour before it.
#[test]
fn a_decided_foreground_request_never_waits_for_answers() {
    let (mut core, capacity) = in_gaps();
    let session = core.open(Priority::default()).unwrap();
    core.read(session, range(0, capacity), Sectors::new(8), Parameter::default()).unwrap();
    let (mut now, mut place, mut in_queue, mut at_drive) = (Instant::ZERO, 1, 0, VecDeque::new());
    for id in 1..200 {
        place = (place * 1_103_515_245 + 12_345) % (1 << 31);
        let range = range(place % (capacity - 4), 4);
        core.submit(now, Request { id: RequestId::new(id), op: Op::Read, range }).unwrap();
        let mut waits = true;
        loop {
            assert!(!waits || !core.chooses_background(), "request {id}");
            match core.poll(now) {
                Some(Output::Do(command)) => {
                    waits &= command.request.is_none();
                    in_queue += u32::from(waits && core.pending() == 0);
                    at_drive.push_back(command.id);
                }
                Some(_) => {}
                None => {
                    let Some(command) = at_drive.pop_front() else { break };
                    now = now.max(core.predicted(command).unwrap());
                    core.command_done(now, command, Outcome::Done);
                }
            }
        }
        assert!(!waits && core.chooses_background(), "request {id}");
    }
    assert!(in_queue > 0);
}

#[test]
fn a_block_to_be_written_that_has_a_hole_is_written_in_gaps_too() {
    let (mut core, capacity) = in_gaps();
    let session = core.open(Priority::default()).unwrap();
    let block = range(capacity / 2, 9);
    core.write(session, block, Sectors::new(9), Parameter::default()).unwrap();
    let hole = range(capacity / 2 + 3, 2);
    let (mut now, mut place) = (Instant::ZERO, 1);
    for id in 1..5_000 {
        place = (place * 1_103_515_245 + 12_345) % (1 << 31);
        let (op, range) =
            if id == 1 { (Op::Write, hole) } else { (Op::Read, range(place % (capacity - 4), 4)) };
        core.submit(now, Request { id: RequestId::new(id), op, range }).unwrap();
        let (mut sent, mut delivered, _) = polled(&mut core, now);
        while !sent.is_empty() {
            let command = sent.remove(0);
            now = now.max(core.predicted(command.id).unwrap());
            core.command_done(now, command.id, Outcome::Done);
            let (more, came, _) = polled(&mut core, now);
            sent.extend(more);
            delivered.extend(came);
        }
        if let [record] = delivered[..] {
            assert_eq!((record.range, record.bad), (block, None));
            return;
        }
    }
    panic!("{:?} of it are left", core.undelivered(session));
}

/// Serves requests that arrive at the given times, in ms. Each is done 5 ms after its arrival.
fn asked(core: &mut OutsideDrive, times: &[u64]) {
    for (id, &ms) in (1..).zip(times) {
        let range = range(id * 5_000, 8);
        core.submit(at(ms), Request { id: RequestId::new(id), op: Op::Read, range }).unwrap();
        let (sent, ..) = polled(core, at(ms));
        assert_eq!(ranges(&sent), [range], "{ms} ms");
        core.command_done(at(ms + 5), sent[0].id, Outcome::Done);
        assert_eq!(polled(core, at(ms + 5)).0, []);
    }
}

/// Returns the next command in idle time, and its time. The core is polled when it wants to be woken.
fn idle_from(core: &mut OutsideDrive) -> (Instant, Command) {
    loop {
        let now = core.wake_at().unwrap();
        if let Some(command) = polled(core, now).0.into_iter().next() {
            return (now, command);
        }
    }
}

#[test]
fn an_unknown_drive_gets_no_idle_work_until_it_has_been_silent_for_long_against_its_use() {
    // No request has arrived yet.
    let (mut core, _) = with_a_block();
    assert_eq!(ranges(&polled(&mut core, at(20)).0), [range(96, 8)]);
    // After three requests in 45 ms the bound has no room for a request that would wait, and a fourth may arrive soon.
    let (mut core, session) = with_a_block();
    asked(&mut core, &[0, 20, 40]);
    core.write(session, range(60_000, 8), Sectors::new(8), Parameter::default()).unwrap();
    let silent = |now: Instant| now.since(at(45));
    let (first, command) = idle_from(&mut core);
    assert!(silent(first) >= Duration::from_millis(3 * 45), "{first}");
    assert!(silent(first) < Duration::from_millis(5 * 45), "{first}");
    // The command took 45 ms. The required silence grows by three times that, and by as much again for the next command.
    let done = first + Duration::from_millis(45);
    core.command_done(done, command.id, Outcome::Done);
    assert_eq!(polled(&mut core, done).0, []);
    let (next, _) = idle_from(&mut core);
    assert!(silent(next) >= Duration::from_millis(3 * (45 + 45 + 45)), "{next}");
    assert!(silent(next) < Duration::from_secs(1), "{next}");
}

/// A foreground write is to complete a block of a session with `serve_writes_by_writes` off. Another session's block of the same
/// place is written after it. The foreground write fails and returns the first block.
#[test]
fn a_block_that_is_given_back_is_not_done_with_another_write_if_each_is_to_be_carried_out() {
    let (mut core, session) = with_a_block();
    core.serve_writes_by_writes(session, false).unwrap();
    core.submit(at(0), Request { id: RequestId::new(1), op: Op::Write, range: range(80, 40) }).unwrap();
    let (first, ..) = polled(&mut core, at(0));
    assert_eq!(ranges(&first), [range(80, 40)]);
    let other = core.open(Priority::default()).unwrap();
    core.write(other, range(98, 2), Sectors::new(2), Parameter::default()).unwrap();
    assert_eq!(core.promote(other, range(98, 2)), Ok(1));
    let (second, ..) = polled(&mut core, at(1));
    assert_eq!(ranges(&second), [range(98, 2)]);
    core.command_done(at(10), first[0].id, Outcome::NoData(Lbn::new(110)));
    while core.poll(at(10)).is_some() {}
    core.command_done(at(20), second[0].id, Outcome::Done);
    assert_eq!(polled(&mut core, at(20)).1.len(), 1);
    let (sent, ..) = polled(&mut core, at(200));
    assert_eq!(ranges(&sent), [range(96, 8)]);
}

/// Returns the ranges of those commands that are foreground work.
fn promoted(sent: &[Command]) -> Vec<LbnRange> {
    let foreground = sent.iter().filter(|command| command.purpose == Purpose::Foreground);
    foreground.map(|command| command.range).collect()
}

#[test]
fn a_block_that_is_promoted_while_it_is_under_way_and_lost_stays_promoted() {
    for loses in [
        |core: &mut OutsideDrive, _: CommandId| core.lost(at(110)),
        |core: &mut OutsideDrive, id: CommandId| core.command_done(at(110), id, Outcome::Lost),
    ] {
        let (mut core, session) = with_a_block();
        core.submit(at(0), Request { id: RequestId::new(1), op: Op::Read, range: range(0, 1) }).unwrap();
        let (sent, ..) = polled(&mut core, at(0));
        core.command_done(at(1), sent[0].id, Outcome::Done);
        assert_eq!(polled(&mut core, at(1)).0, []);
        let (sent, ..) = polled(&mut core, at(100));
        assert!(matches!(sent[0].purpose, Purpose::Idle { .. }));
        assert_eq!(core.promote(session, range(96, 8)), Ok(0), "all of it is under way");
        loses(&mut core, sent[0].id);
        let (again, ..) = polled(&mut core, at(110));
        assert_eq!(promoted(&again), [range(96, 8)]);
    }
}

#[test]
fn a_block_that_another_write_was_to_do_for_its_promotion_stays_promoted_if_that_fails() {
    let (mut core, session) = with_a_block();
    core.submit(at(0), Request { id: RequestId::new(1), op: Op::Write, range: range(90, 40) }).unwrap();
    assert_eq!(core.promote(session, range(96, 8)), Ok(1));
    let (sent, ..) = polled(&mut core, at(0));
    assert_eq!(ranges(&sent), [range(90, 40)], "the write in front covers the block");
    core.command_done(at(10), sent[0].id, Outcome::NoData(Lbn::new(110)));
    assert!(matches!(core.poll(at(10)), Some(Output::Failed { .. })));
    let (again, ..) = polled(&mut core, at(10));
    assert_eq!(promoted(&again), [range(96, 8)]);
}

/// The foreground has read the half of a block that lies on one track, and then a sector of that half goes bad. The drive
/// transfers nothing of a command with a bad sector, so the other half is read by a command without that sector.
#[test]
fn a_promoted_block_is_read_without_the_half_that_has_gone_bad_since_it_was_read() {
    for fails in [Outcome::NoData, Outcome::StoppedAt] {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let border = u64::from(drive.layout().pieces(range(0, 2_000)).next().unwrap().len);
        let outside = OutsideConfig::blind();
        let mut core = OutsideDrive::new(Arc::new(drive), Config::outside(outside));
        let session = core.open(Priority::default()).unwrap();
        let block = range(border - 4, 8);
        core.read(session, block, Sectors::new(8), Parameter::default()).unwrap();
        let request = Request { id: RequestId::new(1), op: Op::Read, range: range(border - 4, 4) };
        core.submit(at(0), request).unwrap();
        let (sent, ..) = polled(&mut core, at(0));
        core.command_done(at(5), sent[0].id, Outcome::Done);
        let (_, delivered, completed) = polled(&mut core, at(5));
        assert_eq!((delivered.len(), completed.len()), (0, 1));
        assert_eq!(core.promote(session, block), Ok(1));
        let (sent, ..) = polled(&mut core, at(6));
        assert_eq!(promoted(&sent), [block]);
        core.command_done(at(10), sent[0].id, fails(Lbn::new(border - 2)));
        let (sent, delivered, _) = polled(&mut core, at(10));
        assert_eq!((promoted(&sent), delivered.len()), (vec![range(border, 4)], 0));
        core.command_done(at(20), sent[0].id, Outcome::Done);
        let (_, delivered, _) = polled(&mut core, at(20));
        assert_eq!(
            delivered.iter().map(|record| (record.range, record.bad)).collect::<Vec<_>>(),
            [(block, None)]
        );
    }
}

/// A read in idle time fails at a sector in the middle of eight wanted blocks. The core then knows that the sector is bad, and
/// reads the blocks before it and behind it with separate commands.
#[test]
fn blocks_on_both_sides_of_a_bad_sector_are_delivered_once_they_were_read() {
    let mut core = blind();
    let session = core.open(Priority::default()).unwrap();
    core.read(session, range(96, 64), Sectors::new(8), Parameter::default()).unwrap();
    let bad = Lbn::new(110);
    let (mut now, mut outstanding) = (at(100), VecDeque::new());
    let (mut read, mut delivered) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let (sent, records, _) = polled(&mut core, now);
        for record in records {
            let is_read = read.iter().any(|range: &LbnRange| range.covers(record.range));
            assert!(is_read || record.bad == Some(bad), "{record:?} without a command: {read:?}");
            delivered.push(record.range);
        }
        outstanding.extend(sent);
        match outstanding.pop_front() {
            Some(Command { id, range, .. }) => {
                now += Duration::from_millis(1);
                let fails = range.contains(bad);
                core.command_done(now, id, if fails { Outcome::NoData(bad) } else { Outcome::Done });
                read.extend((!fails).then_some(range));
            }
            None => now += Duration::from_millis(100),
        }
    }
    delivered.sort();
    let blocks: Vec<LbnRange> = (0..8).map(|block| range(96 + 8 * block, 8)).collect();
    assert_eq!(delivered, blocks);
}

/// A region that a disk reads slowly, such as one of weak sectors, takes longer for a long read than the host waits. A read of
/// the same length would be lost each time.
#[test]
fn idle_reads_that_are_lost_become_shorter_until_the_disk_answers() {
    const ANSWERED_SECTORS_MAX: u64 = 100;
    let mut core = blind();
    let session = core.open(Priority::default()).unwrap();
    core.read(session, range(0, 4_096), Sectors::new(8), Parameter::default()).unwrap();
    let (mut now, mut blocks, mut lost, mut done) = (Instant::ZERO, 0, 0, 0);
    while blocks < 512 {
        assert!(now < at(600_000), "{blocks} blocks, {lost} commands lost");
        let (sent, delivered, _) = polled(&mut core, now);
        blocks += delivered.len();
        now += Duration::from_millis(25);
        for command in sent {
            let answered = command.range.len().get() <= ANSWERED_SECTORS_MAX;
            now += Duration::from_millis(if answered { 10 } else { 30_000 });
            core.command_done(now, command.id, if answered { Outcome::Done } else { Outcome::Lost });
            lost += u64::from(!answered);
            done += u64::from(answered);
        }
    }
    assert!(lost > 0 && lost < done / 3, "{lost} commands lost, {done} done");
}
