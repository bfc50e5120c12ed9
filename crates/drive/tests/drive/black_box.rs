//! Tests of drives with a behaviour: every switch has the effect that is described, and no other.

use freeblock_drive::{
    BadSectors, Behaviour, Command, CommandError, Completion, Drive, Queue, QueueOrder, Rarely,
    Recalibration, Rules, Served, SpindleDrift,
};
use model::Profile;
use model::random_profile::{Size, random_profile};
use proptest::prelude::*;
use std::collections::BTreeSet;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn micros() -> impl Strategy<Value = Duration> {
    (0_u64..300).prop_map(Duration::from_micros)
}

fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        Just(Queue::Serial),
        (1_u32..20).prop_map(|depth| Queue::Tagged { order: QueueOrder::Fcfs, depth }),
        (1_u32..20).prop_map(|depth| Queue::Tagged { order: QueueOrder::Sptf, depth }),
    ]
}

/// Draws a behaviour with random values of all switches.
fn behaviour() -> impl Strategy<Value = Behaviour> {
    let switch = || proptest::option::of(any::<bool>());
    (
        (micros(), micros(), micros(), micros(), proptest::option::of(micros())),
        (0_u32..200_000, 0_u32..200_000, -100_000_i32..100_000, 0_u32..100, 0_u32..101),
        (proptest::option::of((0_u32..50_000, 1_u64..3_000)), proptest::option::of((1_u64..100, 1_u64..50))),
        (
            (switch(), switch(), switch(), any::<bool>(), queue(), (any::<bool>(), 0_u32..20_000, 0_u32..6)),
            proptest::option::of((0_u32..200, 0_u32..5)),
            (proptest::option::of(0_u32..300), proptest::option::of(micros())),
        ),
    )
        .prop_map(|(time, chance, pause, (firmware, bad, (command_percent, completion_overhead)))| {
            Behaviour {
                seek_spread: time.0,
                late_settles: Rarely { ppm: chance.0, most: time.1 },
                missed_landings_ppm: chance.1,
                seek_ageing_ppm: chance.2,
                drift: pause
                    .0
                    .map(|(most_ppm, ms)| SpindleDrift { most_ppm, step: Duration::from_millis(ms) }),
                recalibration: pause.1.map(|(more, ms)| Recalibration {
                    every: Duration::from_millis(ms + more),
                    takes: Duration::from_millis(ms),
                }),
                grown_defects: chance.3,
                bad_sectors: bad.map(|(count, retries)| BadSectors { count, retries }),
                command_percent,
                completion_overhead,
                command_spread: time.2,
                completion_spread: time.3,
                bus_sector: time.4,
                overlap_percent: chance.4,
                buffer: firmware.0,
                read_ahead: firmware.1,
                write_back: firmware.2,
                eager_read_ahead: firmware.3,
                queue: firmware.4,
                prompt_read_ahead: firmware.5.0,
                rereads_ppm: firmware.5.1,
                write_cache: firmware.5.2,
            }
        })
}

fn profile() -> impl Strategy<Value = Profile> {
    let names: Vec<&str> = model::builtin::names()
        .iter()
        .copied()
        .filter(|name| model::builtin::find(name).unwrap().firmware.is_some())
        .collect();
    let electronics =
        (0..names.len()).prop_map(move |i| model::builtin::find(names[i]).unwrap().firmware.clone());
    (any::<u64>(), electronics)
        .prop_map(|(seed, firmware)| Profile { firmware, ..random_profile(seed, Size::Tiny) })
        .prop_filter("a drive whose spares leave no LBN", |p| Drive::new(p).is_ok())
}

fn black_box(profile: &Profile, behaviour: Behaviour, seed: u64) -> Drive {
    Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, seed).unwrap()
}

/// A drawn request: whether it writes, the first LBN modulo the capacity, or instead the distance from the end of the request
/// before, the length in sectors, and the pause after its submission in us.
type PausedRequest = (bool, u64, Option<i64>, u64, u64);

fn asks() -> impl Strategy<Value = Vec<PausedRequest>> {
    let near = proptest::option::of(-40_i64..40);
    proptest::collection::vec((any::<bool>(), any::<u64>(), near, 1_u64..40, 0_u64..30_000), 1..80)
}

fn commands(drive: &Drive, asks: &[PausedRequest]) -> Vec<(Command, Duration)> {
    let capacity = drive.model().layout().capacity().get();
    let mut last = 0_u64;
    asks.iter()
        .enumerate()
        .map(|(i, &(write, place, near, len, pause))| {
            let len = len.min(capacity);
            let start = near.map_or(place % capacity, |d| last.saturating_add_signed(d)).min(capacity - len);
            last = start + len;
            let op = if write { Op::Write } else { Op::Read };
            let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
            (Command { id: RequestId::new(i as u64), op, range }, Duration::from_micros(pause))
        })
        .collect()
}

/// Submits the commands with their pauses, waiting only while the queue is full, and returns all completions.
fn run(drive: &mut Drive, commands: &[(Command, Duration)]) -> Vec<Completion> {
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    for (command, pause) in commands {
        while drive.outstanding() >= drive.queue_depth() {
            let full = CommandError::QueueFull { id: command.id, depth: drive.queue_depth() as u32 };
            assert_eq!(drive.submit(now, *command), Err(full));
            now = now.max(drive.next_event().unwrap());
            drive.advance(now);
            all.extend(std::iter::from_fn(|| drive.pop_completion()));
        }
        drive.submit(now, *command).unwrap();
        now += *pause;
        drive.advance(now);
        all.extend(std::iter::from_fn(|| drive.pop_completion()));
    }
    while let Some(at) = drive.next_event() {
        drive.advance(at);
        all.extend(std::iter::from_fn(|| drive.pop_completion()));
    }
    all
}

/// Submits a command every second, so that the time that one takes does not affect the next. Returns the completions.
fn apart(drive: &mut Drive, commands: &[(Command, Duration)]) -> Vec<Completion> {
    commands
        .iter()
        .enumerate()
        .map(|(i, (command, _))| {
            let now = Instant::ZERO + Duration::from_secs(i as u64);
            drive.submit(now, *command).unwrap();
            drive.advance(now + Duration::from_millis(900));
            drive.pop_completion().unwrap()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn every_command_completes_once_whatever_is_switched_on(
        profile in profile(), behaviour in behaviour(), seed in any::<u64>(), asks in asks(),
    ) {
        let mut drive = black_box(&profile, behaviour, seed);
        let commands = commands(&drive, &asks);
        let done = run(&mut drive, &commands);
        prop_assert_eq!(drive.outstanding(), 0);
        prop_assert!(done.is_sorted_by_key(|c| c.at));
        let ids: BTreeSet<RequestId> = done.iter().map(|c| c.id).collect();
        prop_assert_eq!((ids.len(), done.len()), (commands.len(), commands.len()));
        for c in &done {
            prop_assert!(c.at >= c.breakdown.submitted);
        }
        let fcfs = !matches!(behaviour.queue, Queue::Tagged { order: QueueOrder::Sptf, .. });
        if fcfs && behaviour.completion_spread == Duration::ZERO && behaviour.write_back == Some(false) && behaviour.buffer == Some(false) {
            prop_assert!(done.is_sorted_by_key(|c| c.breakdown.medium_end));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_completions(
        profile in profile(), behaviour in behaviour(), seed in any::<u64>(), asks in asks(),
    ) {
        let (mut a, mut b) = (black_box(&profile, behaviour, seed), black_box(&profile, behaviour, seed));
        let commands = commands(&a, &asks);
        prop_assert_eq!(run(&mut a, &commands), run(&mut b, &commands));
    }

    #[test]
    fn a_late_completion_changes_nothing_else(profile in profile(), seed in any::<u64>(), asks in asks()) {
        let spread = Duration::from_micros(30);
        let mut plain = black_box(&profile, Behaviour::default(), seed);
        let late = Behaviour { completion_spread: spread, ..Behaviour::default() };
        let mut late = black_box(&profile, late, seed);
        let commands = commands(&plain, &asks);
        for (a, b) in apart(&mut plain, &commands).iter().zip(apart(&mut late, &commands)) {
            prop_assert_eq!(a.breakdown, b.breakdown);
            prop_assert!((a.at..=a.at + spread).contains(&b.at));
        }
    }

    #[test]
    fn less_overlap_moves_no_arm(profile in profile(), seed in any::<u64>(), asks in asks(), percent in 1_u32..101) {
        let mut plain = black_box(&profile, Behaviour::default(), seed);
        let held = Behaviour { overlap_percent: percent, ..Behaviour::default() };
        let mut held = black_box(&profile, held, seed);
        let commands = commands(&plain, &asks);
        for (a, b) in apart(&mut plain, &commands).iter().zip(apart(&mut held, &commands)) {
            prop_assert_eq!(a.breakdown, b.breakdown);
            prop_assert!(b.at >= a.at);
            if a.breakdown.served != Served::Miss {
                prop_assert_eq!(a.at, b.at);
            }
        }
    }

    #[test]
    fn a_seek_that_varies_stays_near_its_time_and_a_missed_landing_costs_a_revolution(
        profile in profile(), seed in any::<u64>(), asks in asks(),
    ) {
        let spread = Duration::from_micros(20);
        let plain = Behaviour { buffer: Some(false), ..Behaviour::default() };
        let mut exact = black_box(&profile, plain, seed);
        let mut noisy = black_box(&profile, Behaviour { seek_spread: spread, ..plain }, seed);
        let mut missing = black_box(&profile, Behaviour { missed_landings_ppm: 1_000_000, ..plain }, seed);
        let commands = commands(&exact, &asks);
        let revolution = exact.model().rpm().revolution();
        let base = apart(&mut exact, &commands);
        let noise = apart(&mut noisy, &commands);
        let missed = apart(&mut missing, &commands);
        for (a, (b, c)) in base.iter().zip(noise.iter().zip(&missed)) {
            let (a, b, c) = (a.breakdown.seek, b.breakdown.seek, c.breakdown.seek);
            prop_assert!(a.as_nanos().abs_diff(b.as_nanos()) <= 6 * spread.as_nanos());
            prop_assert!(c == a || c == a + revolution || c < revolution * 2 && c >= revolution, "{} {}", a, c);
        }
    }

    #[test]
    fn an_overhead_that_varies_costs_a_hit_its_length_and_a_miss_revolutions_at_most(
        profile in profile(), seed in any::<u64>(), asks in asks(),
    ) {
        let spread = Duration::from_micros(40);
        let mut plain = black_box(&profile, Behaviour::default(), seed);
        let mut slow = black_box(&profile, Behaviour { command_spread: spread, ..Behaviour::default() }, seed);
        let commands = commands(&plain, &asks);
        let revolution = plain.model().rpm().revolution();
        for (a, b) in apart(&mut plain, &commands).iter().zip(apart(&mut slow, &commands)) {
            prop_assert_eq!((a.id, a.breakdown.served), (b.id, b.breakdown.served));
            match a.breakdown.served {
                Served::Hit | Served::Buffered => prop_assert!((a.at..=a.at + spread).contains(&b.at)),
                // A later head may miss a sector on each track of the request, and each passes again a revolution later.
                // With zero-latency access, a later head may finish earlier.
                _ => prop_assert!(b.at <= a.at + spread + revolution * 4 && a.at <= b.at + revolution, "{} {}", a.at, b.at),
            }
        }
    }

    #[test]
    fn an_aged_arm_is_slower_by_its_share_and_a_late_one_by_no_more_than_it_may(
        profile in profile(), seed in any::<u64>(), asks in asks(), ppm in 0_i32..200_000,
    ) {
        let most = Duration::from_micros(700);
        let plain = Behaviour { buffer: Some(false), ..Behaviour::default() };
        let mut exact = black_box(&profile, plain, seed);
        let mut aged = black_box(&profile, Behaviour { seek_ageing_ppm: ppm, ..plain }, seed);
        let late_settles = Rarely { ppm: 1_000_000, most };
        let mut late = black_box(&profile, Behaviour { late_settles, ..plain }, seed);
        let commands = commands(&exact, &asks);
        let floor = exact.model().seek(1).max(Duration::from_millis(3));
        let base = apart(&mut exact, &commands);
        let (aged, late) = (apart(&mut aged, &commands), apart(&mut late, &commands));
        for (a, (b, c)) in base.iter().zip(aged.iter().zip(&late)) {
            let (a, b, c) = (a.breakdown.seek, b.breakdown.seek, c.breakdown.seek);
            let more = Duration::from_nanos(a.as_nanos() * ppm as u64 / 1_000_000);
            // A short seek may be hidden by the least time of an access.
            prop_assert!(b <= a + more && (b == a + more || a <= floor), "{} {}", a, b);
            prop_assert!(c >= a && c <= a + most);
        }
    }

    #[test]
    fn a_drift_of_nothing_changes_nothing_and_any_drift_no_seek(
        profile in profile(), seed in any::<u64>(), asks in asks(), ms in 1_u64..100,
    ) {
        let drift = |most_ppm| {
            let drift = Some(SpindleDrift { most_ppm, step: Duration::from_millis(ms) });
            black_box(&profile, Behaviour { drift, buffer: Some(false), ..Behaviour::default() }, seed)
        };
        let off = Behaviour { buffer: Some(false), ..Behaviour::default() };
        let mut plain = black_box(&profile, off, seed);
        let commands = commands(&plain, &asks);
        let base = apart(&mut plain, &commands);
        prop_assert_eq!(&base, &apart(&mut drift(0), &commands));
        for (a, b) in base.iter().zip(apart(&mut drift(5_000), &commands)) {
            prop_assert_eq!((a.breakdown.seek, a.breakdown.served), (b.breakdown.seek, b.breakdown.served));
        }
    }

    #[test]
    fn a_sector_that_cannot_be_read_fails_its_own_command_until_it_is_written(
        profile in profile(), seed in any::<u64>(), asks in asks(), place in any::<u64>(),
    ) {
        let mut plain = black_box(&profile, Behaviour::default(), seed);
        let mut damaged = plain.clone();
        let commands = commands(&plain, &asks);
        let bad = Lbn::new(place % plain.model().layout().capacity().get());
        damaged.damage(LbnRange::new(bad, Sectors::new(1)));
        let mut broken = true;
        let base = run(&mut plain, &commands);
        let with = run(&mut damaged, &commands);
        let touched = commands.iter().any(|(c, _)| c.op == Op::Read && c.range.contains(bad));
        if !touched {
            prop_assert_eq!(&base, &with);
        }
        for (done, (command, _)) in with.iter().zip(&commands) {
            prop_assert_eq!(done.id, command.id);
            let hit = command.range.contains(bad);
            prop_assert_eq!(done.failed, (broken && hit && command.op == Op::Read).then_some(bad));
            broken &= !(hit && command.op == Op::Write);
        }
        prop_assert_eq!(damaged.unreadable().next(), broken.then_some(bad));
    }

    #[test]
    fn grown_defects_move_their_own_sectors_only(profile in profile(), seed in any::<u64>(), count in 1_u32..60) {
        let known = Drive::new(&profile).unwrap();
        let grown = black_box(&profile, Behaviour { grown_defects: count, ..Behaviour::default() }, seed);
        prop_assert!(grown.grown_defects().len() <= count as usize);
        let (known, truth) = (known.model().layout(), grown.model().layout());
        prop_assert_eq!(known.capacity(), truth.capacity());
        for lbn in (0..known.capacity().get()).map(Lbn::new) {
            let moved = grown.grown_defects().binary_search(&lbn).is_ok();
            prop_assert_eq!(known.locate(lbn) != truth.locate(lbn), moved, "{}", lbn);
            if moved {
                prop_assert_eq!(known.lbn_at(truth.locate(lbn).unwrap()), None);
            }
        }
    }

    #[test]
    fn writing_through_ends_on_the_medium_and_writing_back_does_not(
        profile in profile(), seed in any::<u64>(), asks in asks(),
    ) {
        for (write_back, served) in [(true, Served::Buffered), (false, Served::Medium)] {
            let behaviour = Behaviour { write_back: Some(write_back), buffer: Some(true), ..Behaviour::default() };
            let mut drive = black_box(&profile, behaviour, seed);
            let commands = commands(&drive, &asks);
            for (done, (command, _)) in apart(&mut drive, &commands).iter().zip(&commands) {
                if command.op == Op::Write {
                    prop_assert_eq!(done.breakdown.served, served);
                    prop_assert!(write_back || done.at >= done.breakdown.medium_end);
                }
            }
        }
    }
}

fn atlas() -> Profile {
    model::builtin::find("quantum-atlas-10k").unwrap()
}

fn read(id: u64, lbn: u64, sectors: u64) -> Command {
    Command {
        id: RequestId::new(id),
        op: Op::Read,
        range: LbnRange::new(Lbn::new(lbn), Sectors::new(sectors)),
    }
}

#[test]
fn eager_read_ahead_delays_the_command_after_two_reads_on_a_track() {
    let queue = Queue::Tagged { order: QueueOrder::Fcfs, depth: 4 };
    let plain = Behaviour { queue, bus_sector: Some(Duration::from_nanos(6_400)), ..Behaviour::default() };
    let ends = [false, true].map(|eager_read_ahead| {
        let mut drive = black_box(&atlas(), Behaviour { eager_read_ahead, ..plain }, 0);
        for (i, lbn) in [10, 40, 9_000_000].into_iter().enumerate() {
            drive.submit(Instant::ZERO, read(i as u64, lbn, 8)).unwrap();
        }
        run(&mut drive, &[]).iter().map(|c| c.breakdown.medium_end).collect::<Vec<_>>()
    });
    assert_eq!(ends[0][..2], ends[1][..2]);
    assert!(ends[1][2] > ends[0][2]);
    // If the second read is before the first on the track, it does not count as sequential.
    let behind = [false, true].map(|eager_read_ahead| {
        let mut drive = black_box(&atlas(), Behaviour { eager_read_ahead, ..plain }, 0);
        for (i, lbn) in [40, 10, 9_000_000].into_iter().enumerate() {
            drive.submit(Instant::ZERO, read(i as u64, lbn, 8)).unwrap();
        }
        run(&mut drive, &[])
    });
    assert_eq!(behind[0], behind[1]);
}

#[test]
fn recalibration_costs_one_command_its_length() {
    let pause = Recalibration { every: Duration::from_secs(10), takes: Duration::from_millis(80) };
    let behaviour = Behaviour { buffer: Some(false), ..Behaviour::default() };
    let mut plain = black_box(&atlas(), behaviour, 3);
    let mut paused = black_box(&atlas(), Behaviour { recalibration: Some(pause), ..behaviour }, 3);
    let mut late = 0;
    let (mut ends, mut at) = ([Instant::ZERO; 2], Instant::ZERO);
    for i in 0..1_200_u64 {
        let command = read(i, i.wrapping_mul(7_919_131_071) % 17_000_000, 8);
        for (drive, end) in [&mut plain, &mut paused].into_iter().zip(&mut ends) {
            drive.submit(at.max(*end), command).unwrap();
            *end = drive.next_event().unwrap();
            drive.advance(*end);
            assert_eq!(drive.pop_completion().map(|c| c.at), Some(*end));
        }
        late += usize::from(ends[0] != ends[1]);
        at += Duration::from_millis(50);
    }
    // Six pauses in a minute, of 80 ms each. Each delays the commands submitted during the pause, and the one after them.
    assert!((6..=6 * 4).contains(&late), "{late}");
}

#[test]
fn recalibration_ends_read_ahead_that_a_command_would_end_at_once() {
    let pause = Recalibration { every: Duration::from_millis(4), takes: Duration::from_micros(400) };
    let recalibration = Some(pause);
    let behaviour = Behaviour { prompt_read_ahead: true, recalibration, ..Behaviour::default() };
    let profile = model::builtin::find("nearline-20tb").unwrap();
    let mut drive = black_box(&profile, behaviour, 3);
    let (mut at, mut late) = (Instant::ZERO, 0);
    for i in 0..400_u64 {
        let command = read(i, i.wrapping_mul(7_919_131_071) % 39_000_000_000, 8);
        drive.submit(at, command).unwrap();
        drive.advance(drive.next_event().unwrap());
        let done = drive.pop_completion().unwrap();
        let moves = done.breakdown.seek + done.breakdown.latency + done.breakdown.transfer;
        let set_out = done.breakdown.medium_end.since(at).saturating_sub(moves);
        late += u32::from(set_out > Duration::from_micros(160));
        at = done.at + Duration::from_millis(3);
    }
    // A pause takes a tenth of the time, so one command in ten meets a pause. If read-ahead delayed the pauses until the
    // command, three of four commands would meet one.
    assert!(late < 80, "{late} of 400");
}

#[test]
fn a_stream_of_reads_waits_for_a_recalibration_and_leaves_none_for_the_request_behind_it() {
    let ms = Duration::from_millis;
    let pause = Recalibration { every: ms(1_000), takes: ms(50) };
    let recalibration = Some(pause);
    let behaviour = Behaviour { prompt_read_ahead: true, recalibration, ..Behaviour::default() };
    let profile = model::builtin::find("nearline-20tb").unwrap();
    let mut drive = black_box(&profile, behaviour, 3);
    let (mut at, mut late, mut last) = (Instant::ZERO, 0, false);
    for i in 0..20_000_u64 {
        let moves = i % 5_000 == 4_999;
        let sectors = if moves { 30_000_000_000 + i * 1_000 } else { 128 * i };
        drive.submit(at, read(i, sectors, 128)).unwrap();
        drive.advance(drive.next_event().unwrap());
        let done = drive.pop_completion().unwrap();
        let waited = done.at.since(at) > ms(45);
        late += u32::from(waited && !moves);
        last |= waited && moves;
        at = done.at;
    }
    let seconds = at.since(Instant::ZERO).as_secs_f64() as u32;
    assert!(late + 1 >= seconds && late <= seconds + 1, "{late} in {seconds} s");
    assert!(!last, "a move waited for a recalibration that was due before");
}

#[test]
fn a_longer_queue_serves_faster_by_the_drives_own_sptf() {
    let throughput = |order, depth| {
        let queue = Queue::Tagged { order, depth };
        let behaviour =
            Behaviour { queue, bus_sector: Some(Duration::from_nanos(6_400)), ..Behaviour::default() };
        let mut drive = black_box(&atlas(), behaviour, 0);
        let commands: Vec<_> = (0..2_000_u64)
            .map(|i| (read(i, i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 17_900_000, 8), Duration::ZERO))
            .collect();
        let done = run(&mut drive, &commands);
        done.last().unwrap().at.as_secs_f64()
    };
    let (one, two, sixteen) =
        (throughput(QueueOrder::Fcfs, 1), throughput(QueueOrder::Fcfs, 2), throughput(QueueOrder::Sptf, 16));
    assert!(two < one, "{two} {one}");
    assert!(sixteen < 0.7 * two, "{sixteen} {two}");
}

#[test]
fn nonsense_in_a_behaviour_names_its_place() {
    let error =
        |behaviour| Drive::with_behaviour(&atlas(), Rules::HARDWARE, behaviour, 0).unwrap_err().to_string();
    let off = Behaviour::default();
    assert!(error(Behaviour { overlap_percent: 101, ..off }).contains("overlap_percent: 101"));
    assert!(error(Behaviour { seek_spread: Duration::MAX, ..off }).contains("at most a second"));
    let drift = SpindleDrift { most_ppm: 5_000, step: Duration::ZERO };
    assert!(error(Behaviour { drift: Some(drift), ..off }).contains("drift.step"));
    let queue = Queue::Tagged { order: QueueOrder::Fcfs, depth: 0 };
    assert!(error(Behaviour { queue, ..off }).contains("queue.depth"));
    let second = Duration::from_secs(1);
    let pause = Recalibration { every: second, takes: second };
    assert!(error(Behaviour { recalibration: Some(pause), ..off }).contains("shorter than the interval"));
}

#[test]
fn the_default_noise_has_no_defects_and_serves_commands() {
    let mut drive = black_box(&atlas(), Behaviour::fast02(), 1);
    assert_eq!((drive.grown_defects().len(), drive.unreadable().count()), (0, 0));
    let commands: Vec<_> =
        (0..500_u64).map(|i| (read(i, i * 34_567 % 17_000_000, 8), Duration::from_millis(3))).collect();
    let mut other = black_box(&atlas(), Behaviour::fast02(), 2);
    assert_ne!(run(&mut drive, &commands), run(&mut other, &commands));
}
