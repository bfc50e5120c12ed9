//! Drives with physical sectors that are larger than the host's sectors.

use freeblock_scheduler::{
    Config, HeadWork, IdleTime, InDrive, Outcome, Output, OutsideConfig, OutsideDrive, Parameter, Priority,
    Purpose, Request, SessionError, Sessions,
};
use model::{DriveModel, Location, builtin};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Returns a core in the 4 TB drive, with physical sectors of `physical` bytes.
fn core(physical: Option<u32>) -> InDrive {
    InDrive::new(drive(physical), Config::default())
}

fn drive(physical: Option<u32>) -> Arc<DriveModel> {
    let mut profile = builtin::find("nearline-4tb").unwrap();
    profile.physical_sector_bytes = physical;
    // The last zones of the drive have densities that are no multiple of 8.
    profile.layout.zones.truncate(8);
    Arc::new(DriveModel::from_profile(&profile).unwrap())
}

#[test]
fn background_writes_of_parts_of_a_sector_of_the_medium_are_refused() {
    let mut core = core(Some(4_096));
    let session = core.open(Priority::default()).unwrap();
    for (start, len, block) in [(0, 64, 4), (4, 64, 8), (0, 60, 8), (1, 1, 1)] {
        let block = Sectors::new(block);
        let refused = core.write(session, range(start, len), block, Parameter(0)).unwrap_err();
        assert!(matches!(refused, SessionError::PartOfSector { .. }), "{start} + {len}: {refused}");
        assert!(refused.to_string().contains("give multiples of 8"), "{refused}");
        // A read of any size is accepted: it costs no additional revolution.
        assert!(core.read(session, range(start, len), block, Parameter(0)).is_ok());
    }
    assert!(core.write(session, range(8, 64), Sectors::new(16), Parameter(0)).is_ok());
}

#[test]
fn a_medium_with_the_hosts_sectors_takes_any_background_write() {
    let mut core = core(None);
    let session = core.open(Priority::default()).unwrap();
    assert!(core.write(session, range(1, 1), Sectors::new(1), Parameter(0)).is_ok());
}

/// The number of sectors, from the drive's start, that requests and background writes share.
const SHARED_SECTORS: u64 = 8_000;

/// The end of a run: the last request comes within four seconds, and background work waits for a silence of at most ten
/// seconds.
const END: Instant = Instant::from_nanos(20_000_000_000);

/// A foreground request, and the time before it.
#[derive(Clone, Debug)]
struct TimedRequest {
    op: Op,
    range: LbnRange,
    wait: Duration,
}

/// Returns a write of whole physical sectors, or a read of any sectors.
fn step() -> impl Strategy<Value = TimedRequest> {
    let place = (0..SHARED_SECTORS / 8 - 8, 1u64..8, 0u64..8);
    (any::<bool>(), place, 0u64..60_000).prop_map(|(writes, (at, len, off), us)| TimedRequest {
        op: if writes { Op::Write } else { Op::Read },
        range: if writes { range(8 * at, 8 * len) } else { range(8 * at + off, 5 * len) },
        wait: Duration::from_micros(us),
    })
}

fn is_whole(first: Lbn, last: Lbn) -> bool {
    first.get().is_multiple_of(8) && (last.get() + 1).is_multiple_of(8)
}

/// Checks that the background's writes in the head's work are of whole physical sectors. Returns their number.
fn check_accesses(core: &InDrive) -> u64 {
    let layout = core.drive().layout();
    let mut writes = 0;
    for access in core.accesses() {
        if access.op != Op::Write || access.purpose == Purpose::Foreground {
            continue;
        }
        let sectors = layout.track(access.track).sectors;
        let at = |sector| layout.lbn_at(Location { track: access.track, sector: sector % sectors }).unwrap();
        let (first, last) = (at(access.sector), at(access.sector + access.sectors - 1));
        assert!(is_whole(first, last), "{access:?}: LBN {first} to {last}");
        writes += 1;
    }
    writes
}

/// Serves the requests in the drive, in the times that the core predicts; returns the number of background writes.
fn serve_inside(core: &mut InDrive, steps: &[TimedRequest]) -> u64 {
    let (mut now, mut writes) = (Instant::ZERO, 0);
    let mut steps = steps.iter().enumerate();
    let mut next = steps.next().map(|(id, step)| (id, now + step.wait, step));
    loop {
        while let Some(output) = core.poll(now) {
            if matches!(output, Output::Do(HeadWork::Execute) | Output::Do(HeadWork::Cut)) {
                writes += check_accesses(core);
            }
        }
        let wakes = core.busy_until().or(core.wake_at());
        match (next, wakes) {
            (Some((id, at, step)), _) if wakes.is_none_or(|wakes| at <= wakes) => {
                now = at;
                let (id, op) = (RequestId::new(id as u64), step.op);
                core.submit(now, Request { id, op, range: step.range }).unwrap();
                next = steps.next().map(|(id, step)| (id, now + step.wait, step));
            }
            (_, Some(wakes)) if next.is_some() || now < END => {
                now = now.max(wakes);
                if core.busy_until().is_some_and(|until| until <= now) {
                    core.completed(now);
                }
            }
            _ => return writes,
        }
    }
}

/// Serves the requests outside the drive, each command in 8 ms; returns the number of background writes.
fn serve_outside(core: &mut OutsideDrive, steps: &[TimedRequest]) -> u64 {
    let (mut now, mut writes) = (Instant::ZERO, 0);
    let mut there = VecDeque::new();
    let mut steps = steps.iter().enumerate();
    let mut next = steps.next().map(|(id, step)| (id, now + step.wait, step));
    loop {
        while let Some(output) = core.poll(now) {
            let Output::Do(command) = output else { continue };
            let own = command.foreground.is_none();
            if command.op == Op::Write && own {
                let (first, end) = (command.range.start(), command.range.end());
                assert!(is_whole(first, Lbn::new(end.get() - 1)), "{command:?}");
                writes += 1;
            }
            there.push_back((command.id, now + Duration::from_millis(8)));
        }
        let done = there.front().map(|(_, at)| *at);
        let wakes = done.into_iter().chain(core.wake_at()).min();
        match (next, wakes) {
            (Some((id, at, step)), _) if wakes.is_none_or(|wakes| at <= wakes) => {
                now = at;
                let (id, op) = (RequestId::new(id as u64), step.op);
                core.submit(now, Request { id, op, range: step.range }).unwrap();
                next = steps.next().map(|(id, step)| (id, now + step.wait, step));
            }
            (_, Some(wakes)) if next.is_some() || now < END => {
                now = now.max(wakes);
                if done.is_some_and(|done| done <= now)
                    && let Some((id, _)) = there.pop_front()
                {
                    core.command_done(now, id, Outcome::Done);
                }
            }
            _ => return writes,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Requests write over blocks that the background is about to write, in gaps and in idle time, and interrupt background
    /// work.
    #[test]
    fn no_part_of_a_sector_of_the_medium_is_written_in_the_background_if_requests_write_whole_ones(
        steps in proptest::collection::vec(step(), 1..60),
        block in 1u64..9,
        outside in any::<bool>(),
    ) {
        let config = Config::outside(OutsideConfig::blind().serving()).with_idle(Some(IdleTime::default()));
        let task = |sessions: &mut dyn Sessions| {
            let session = sessions.open(Priority::default()).unwrap();
            sessions.write(session, range(0, SHARED_SECTORS), Sectors::new(8 * block), Parameter(0)).unwrap();
        };
        let writes = if outside {
            let mut core = OutsideDrive::new(drive(Some(4_096)), config);
            task(&mut core);
            serve_outside(&mut core, &steps)
        } else {
            let mut core = InDrive::new(drive(Some(4_096)), config);
            task(&mut core);
            serve_inside(&mut core, &steps)
        };
        prop_assert!(writes > 0);
    }
}
