//! Tests of the command queue: its choices are compared with an exhaustive search.

use super::*;
use crate::behaviour::{Behaviour, QueueOrder};
use model::random_profile::{Size, random_profile};
use model::{Profile, profile::Firmware};
use proptest::prelude::*;

fn tagged(order: QueueOrder, depth: u32) -> Behaviour {
    Behaviour { queue: Queue::Tagged { order, depth }, buffer: Some(false), ..Behaviour::default() }
}

fn profile() -> impl Strategy<Value = Profile> {
    (any::<u64>(), any::<bool>(), any::<bool>())
        .prop_map(|(seed, read, write)| {
            let mut profile = random_profile(seed, Size::Tiny);
            profile.firmware = Some(Firmware::default());
            profile.mechanics.zero_latency_read = read;
            profile.mechanics.zero_latency_write = write;
            profile.mechanics.write_settle_ms = profile.mechanics.write_settle_ms.max(0.0);
            profile
        })
        .prop_filter("a drive whose spares leave no LBN", |p| Drive::new(p).is_ok())
}

fn ask(drive: &Drive, id: u64, (write, place): (bool, u64)) -> Command {
    let capacity = drive.model().layout().capacity().get();
    let op = if write { Op::Write } else { Op::Read };
    let range = LbnRange::new(Lbn::new(place % capacity), Sectors::new(1));
    Command { id: RequestId::new(id), op, range }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Serves every waiting command on a copy of the drive: the chosen one must have the least sum of seek and latency.
    #[test]
    fn the_drive_chooses_the_command_that_the_head_reaches_first(
        profile in profile(), first in (any::<bool>(), any::<u64>()),
        asks in proptest::collection::vec((any::<bool>(), any::<u64>()), 1..12),
    ) {
        let behaviour = tagged(QueueOrder::Sptf, 16);
        let mut drive = Drive::with_behaviour(&profile, Rules::HARDWARE, behaviour, 0).unwrap();
        drive.submit(Instant::ZERO, ask(&drive, 0, first)).unwrap();
        for (i, &a) in asks.iter().enumerate() {
            drive.submit(Instant::ZERO, ask(&drive, i as u64 + 1, a)).unwrap();
        }
        while let Some(at) = drive.next_event() {
            let begins = drive.next_service() == Some(at);
            let before = drive.clone();
            drive.advance(at);
            while drive.pop_completion().is_some() {}
            if !begins || before.waiting.is_empty() {
                continue;
            }
            let left: Vec<_> = drive.waiting.iter().map(|w| w.command.id).collect();
            let chosen = before.waiting.iter().find(|w| !left.contains(&w.command.id)).unwrap();
            let cost = |w: &QueuedCommand| {
                let mut alone = before.clone();
                alone.waiting = VecDeque::from([*w]);
                alone.finishing.clear();
                alone.serve_next(at);
                let b = alone.finishing[0].breakdown;
                b.seek + b.latency
            };
            let least = before.waiting.iter().map(cost).min().unwrap();
            prop_assert_eq!(cost(chosen), least);
        }
        prop_assert_eq!(drive.outstanding(), 0);
    }

    /// With two commands in the drive, the arm starts on the second as soon as it has finished the first (FAST 2002, figure 4).
    #[test]
    fn the_arm_sets_out_for_the_next_command_when_it_is_done_with_the_last(
        profile in profile(), asks in proptest::collection::vec((any::<bool>(), any::<u64>()), 2..20),
    ) {
        let behaviour = tagged(QueueOrder::Fcfs, 2);
        // Without these rules, every access depends only on the end of the one before, not on the time of its command.
        let rules = Rules { shortest_access: false, zero_latency: false, ..Rules::HARDWARE };
        let mut drive = Drive::with_behaviour(&profile, rules, behaviour, 0).unwrap();
        let mut arm = Mechanics::new(drive.mechanics.shared_model());
        let commands: Vec<_> = asks.iter().enumerate().map(|(i, &a)| ask(&drive, i as u64, a)).collect();
        let (mut now, mut end, mut next) = (Instant::ZERO, Instant::ZERO, 0);
        for done in 0..commands.len() {
            while next < commands.len() && drive.outstanding() < 2 {
                drive.submit(now, commands[next]).unwrap();
                next += 1;
            }
            let completion = loop {
                if let Some(c) = drive.pop_completion() {
                    break c;
                }
                now = drive.next_event().unwrap();
                drive.advance(now);
            };
            prop_assert_eq!(completion.id, commands[done].id);
            let at = drive.model().layout().locate(commands[done].range.start()).unwrap();
            let access = arm.access(end, commands[done].op, at.track, at.sector, 1);
            if completion.breakdown.submitted <= end {
                prop_assert_eq!(completion.breakdown.medium_end, access.end);
            }
            end = completion.breakdown.medium_end;
        }
    }
}

/// Submits twelve distant writes at once, and compares the most writes in the cache with its size.
#[test]
fn a_write_cache_holds_as_many_writes_as_it_has_room_for() {
    let profile = model::builtin::find("quantum-atlas-10k").unwrap();
    for write_cache in [1, 2, 5] {
        let queue = Queue::Tagged { order: QueueOrder::Fcfs, depth: 12 };
        let buffer =
            Behaviour { buffer: Some(true), write_back: Some(true), write_cache, ..Behaviour::EXACT };
        let mut drive =
            Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour { queue, ..buffer }, 0).unwrap();
        for id in 0..12 {
            drive.submit(Instant::ZERO, ask(&drive, id, (true, id * 1_000_003))).unwrap();
        }
        let mut most = 0;
        while let Some(at) = drive.next_event() {
            drive.advance(at);
            while drive.pop_completion().is_some() {}
            most = most.max(drive.unwritten());
        }
        assert_eq!(most, write_cache as usize);
    }
}
