//! Property tests: random drives serve random requests.

use freeblock_drive::{Command, CommandError, Completion, Drive, Rules, Served};
use model::Profile;
use model::profile::{Cache, ExtraWriteDisconnect, Firmware, Overheads, ReadAhead, WriteBack};
use model::random_profile::{Size, random_profile};
use proptest::prelude::*;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn pair() -> impl Strategy<Value = (f64, f64)> {
    (0.0..2.0, 0.0..2.0)
}

fn overheads() -> impl Strategy<Value = Overheads> {
    (pair(), pair(), pair(), pair(), proptest::array::uniform7(0.0..0.5), proptest::option::of(0.0..0.5))
        .prop_map(|(read_hit, read_miss, write_hit, write_miss, rest, extra)| Overheads {
            read_hit,
            read_miss,
            write_hit,
            write_miss,
            read_completion: rest[0],
            write_completion: rest[1],
            data_preparation: rest[2],
            first_reselect: rest[3],
            other_reselect: rest[4],
            read_disconnect: (0.0, 0.0),
            write_disconnect: rest[5],
            minimum_seek_delay: rest[6],
            extra_write_disconnect: extra.map(|ms| ExtraWriteDisconnect {
                command_ms: ms,
                disconnect_ms: ms / 2.0,
                between_ms: ms,
                second_disconnect_ms: ms / 3.0,
                seek_delta_ms: ms / 4.0,
            }),
        })
}

fn cache() -> impl Strategy<Value = Cache> {
    let read_ahead = prop_oneof![
        Just(ReadAhead::None),
        Just(ReadAhead::Track),
        Just(ReadAhead::Cylinder),
        Just(ReadAhead::Segment),
        Just(ReadAhead::TrackAndNext),
    ];
    let write_back = prop_oneof![Just(WriteBack::None), Just(WriteBack::Append), Just(WriteBack::Always)];
    (
        (1_u32..6, 1_u32..400, 0_u32..4, 0_u32..50, 0_u32..400, -1_i32..3),
        proptest::array::uniform9(any::<bool>()),
        (read_ahead, write_back, 0.0..=1.0),
    )
        .prop_map(
            |(
                (segments, segment_sectors, write_segments, least, most, over),
                flag,
                (read_ahead, write_back, share),
            )| {
                Cache {
                    enabled: flag[0] || flag[1],
                    segments,
                    segment_sectors,
                    write_segments,
                    read_ahead,
                    minimum_read_ahead: least,
                    maximum_read_ahead: most,
                    read_ahead_over_requested: over,
                    read_ahead_on_idle_hit: flag[2],
                    read_free_sectors: flag[3],
                    write_back,
                    combine_sequential_writes: flag[4],
                    stop_in_sector: flag[5],
                    read_hits_on_written: flag[6],
                    watermark_by_request: flag[7],
                    separate_write_segment: flag[8],
                    read_watermark: share,
                    ..Cache::default()
                }
            },
        )
}

fn profile() -> impl Strategy<Value = Profile> {
    (any::<u64>(), overheads(), cache(), 0.0..0.3, 1_u32..4)
        .prop_map(|(seed, overheads, cache, sector, queue_depth)| Profile {
            firmware: Some(Firmware {
                overheads,
                cache,
                queue_depth,
                bulk_sector_ms: sector,
                ..Firmware::default()
            }),
            ..random_profile(seed, Size::Tiny)
        })
        .prop_filter("a drive whose spares leave no LBN", |p| Drive::new(p).is_ok())
}

fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![Just(Rules::HARDWARE), Just(Rules::DISKSIM)]
}

/// A drawn request: whether it writes, the first LBN modulo the capacity, or instead the distance from the end of the request
/// before, the length in sectors, and the think time in us.
type DrawnRequest = (bool, u64, Option<i64>, u64, u64);

fn asks() -> impl Strategy<Value = Vec<DrawnRequest>> {
    let ask = (any::<bool>(), any::<u64>(), proptest::option::of(-40_i64..40), 1_u64..60, 0_u64..40_000);
    proptest::collection::vec(ask, 1..60)
}

fn commands(drive: &Drive, asks: &[DrawnRequest]) -> Vec<(Command, Duration)> {
    let capacity = drive.model().layout().capacity().get();
    let mut last = 0_u64;
    asks.iter()
        .enumerate()
        .map(|(i, &(write, place, near, len, think))| {
            let len = len.min(capacity);
            let start = near.map_or(place % capacity, |d| last.saturating_add_signed(d)).min(capacity - len);
            last = start + len;
            let op = if write { Op::Write } else { Op::Read };
            let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
            (Command { id: RequestId::new(i as u64), op, range }, Duration::from_micros(think))
        })
        .collect()
}

/// Submits the commands one at a time. If `look` is not 0, calls `advance` once more, after this part of each think time.
fn replay(drive: &mut Drive, commands: &[(Command, Duration)], look: u64) -> Vec<Completion> {
    let mut now = Instant::ZERO;
    commands
        .iter()
        .map(|(command, think)| {
            drive.submit(now, *command).unwrap();
            let at = drive.next_event().unwrap();
            drive.advance(at);
            let done = drive.pop_completion().unwrap();
            if look > 0 {
                drive.advance(done.at + *think / look);
            }
            now = done.at + *think;
            done
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_drive_completes_any_request_in_order_and_not_before_it_came(
        profile in profile(), rules in rules(), asks in asks(),
    ) {
        let mut drive = Drive::with_rules(&profile, rules).unwrap();
        let commands = commands(&drive, &asks);
        let mut now = Instant::ZERO;
        for (done, (command, think)) in replay(&mut drive, &commands, 0).iter().zip(&commands) {
            prop_assert_eq!(done.id, command.id);
            prop_assert_eq!(done.breakdown.submitted, now);
            prop_assert!(done.at >= now);
            now = done.at + *think;
        }
        prop_assert_eq!(drive.outstanding(), 0);
    }

    #[test]
    fn the_same_calls_give_the_same_answers_however_often_one_looks(
        profile in profile(), rules in rules(), asks in asks(), look in 1_u64..9,
    ) {
        let mut a = Drive::with_rules(&profile, rules).unwrap();
        let mut b = a.clone();
        let commands = commands(&a, &asks);
        prop_assert_eq!(replay(&mut a, &commands, 0), replay(&mut b, &commands, look));
    }

    #[test]
    fn a_full_queue_is_served_first_come_first_served(profile in profile(), asks in asks()) {
        let mut drive = Drive::new(&profile).unwrap();
        let depth = profile.firmware.as_ref().unwrap().queue_depth as usize;
        let commands = commands(&drive, &asks);
        let mut now = Instant::ZERO;
        let mut ids = Vec::new();
        let mut last = Instant::ZERO;
        for (command, think) in &commands {
            while drive.outstanding() == depth {
                let full = CommandError::QueueFull { id: command.id, depth: depth as u32 };
                prop_assert_eq!(drive.submit(now, *command), Err(full));
                now = now.max(drive.next_event().unwrap());
                drive.advance(now);
            }
            drive.submit(now, *command).unwrap();
            now += *think / 8;
            drive.advance(now);
            while let Some(done) = drive.pop_completion() {
                prop_assert!(done.at >= last && done.at <= now);
                last = done.at;
                ids.push(done.id);
            }
        }
        while let Some(at) = drive.next_event() {
            drive.advance(at.max(now));
            ids.extend(std::iter::from_fn(|| drive.pop_completion()).map(|c| c.id));
            now = now.max(at);
        }
        prop_assert_eq!(ids, commands.iter().map(|(c, _)| c.id).collect::<Vec<_>>());
    }

    #[test]
    fn data_just_written_are_read_from_the_buffer(profile in profile(), place in any::<u64>(), len in 1_u64..40) {
        let mut profile = profile;
        let cache = &mut profile.firmware.as_mut().unwrap().cache;
        cache.enabled = true;
        cache.read_hits_on_written = true;
        cache.segment_sectors = cache.segment_sectors.max(40);
        let mut drive = Drive::new(&profile).unwrap();
        let think = 1_000_000;
        let asks = [(true, place, None, len, think), (false, 0, Some(-(len as i64)), len, think)];
        let commands = commands(&drive, &asks);
        prop_assert_eq!(commands[0].0.range, commands[1].0.range);
        prop_assert_eq!(replay(&mut drive, &commands, 0)[1].breakdown.served, Served::Hit);
    }

    #[test]
    fn on_an_idle_drive_a_hit_is_faster_than_the_miss_before_it(
        profile in profile(), place in any::<u64>(), len in 1_u64..40,
    ) {
        let mut profile = profile;
        let firmware = profile.firmware.as_mut().unwrap();
        firmware.cache.enabled = true;
        firmware.cache.read_ahead = ReadAhead::None;
        firmware.cache.read_ahead_over_requested = 0;
        firmware.cache.minimum_read_ahead = 0;
        firmware.cache.segment_sectors = firmware.cache.segment_sectors.max(40);
        // The overhead of a miss is that of a hit, because a miss searches the buffer first.
        firmware.overheads.read_miss = firmware.overheads.read_hit;
        firmware.overheads.read_hit.1 = firmware.overheads.read_hit.0;
        firmware.overheads.read_miss.1 = firmware.overheads.read_hit.0;
        let mut drive = Drive::new(&profile).unwrap();
        let think = 1_000_000;
        let asks = [(false, place, None, len, think), (false, 0, Some(-(len as i64)), len, think)];
        let commands = commands(&drive, &asks);
        let done = replay(&mut drive, &commands, 0);
        prop_assert_eq!((done[0].breakdown.served, done[1].breakdown.served), (Served::Miss, Served::Hit));
        let time = |i: usize| done[i].at.since(done[i].breakdown.submitted);
        prop_assert!(time(1) < time(0), "{} {}", time(1), time(0));
    }

    #[test]
    fn a_request_over_the_whole_drive_is_served(profile in profile(), rules in rules(), write in any::<bool>()) {
        let mut drive = Drive::with_rules(&profile, rules).unwrap();
        let asks = [(write, 0, None, u64::MAX, 0), (false, 0, None, u64::MAX, 0)];
        let commands = commands(&drive, &asks);
        let done = replay(&mut drive, &commands, 0);
        prop_assert!(done[0].at < done[1].at);
    }

    #[test]
    fn nonsense_is_refused_and_changes_nothing(profile in profile(), asks in asks(), past in 1_u64..1 << 60) {
        let mut a = Drive::new(&profile).unwrap();
        let mut b = a.clone();
        let commands = commands(&a, &asks);
        let capacity = a.model().layout().capacity().get();
        let id = RequestId::new(99);
        let ask = |start: u64, len: u64| {
            Command { id, op: Op::Read, range: LbnRange::new(Lbn::new(start), Sectors::new(len)) }
        };
        let refused = |e: Result<(), CommandError>| e.unwrap_err().to_string();
        prop_assert!(refused(a.submit(Instant::ZERO, ask(0, 0))).contains("at least one"));
        prop_assert!(refused(a.submit(Instant::ZERO, ask(capacity, past))).contains("stay below"));
        prop_assert!(refused(a.submit(Instant::ZERO, ask(past, u64::MAX))).contains("stay below"));
        prop_assert_eq!(replay(&mut a, &commands, 0), replay(&mut b, &commands, 0));
    }
}

#[test]
fn a_command_for_too_many_sectors_is_refused() {
    let nearline = model::builtin::find("nearline-4tb").unwrap();
    let mut drive = Drive::new(&nearline).unwrap();
    let range = LbnRange::new(Lbn::ZERO, Sectors::new(freeblock_drive::COMMAND_SECTORS_MAX.get() + 1));
    let error =
        drive.submit(Instant::ZERO, Command { id: RequestId::new(0), op: Op::Read, range }).unwrap_err();
    assert_eq!(error.to_string(), "request 0: 1048577 sectors in one command; ask for at most 1048576");
}

#[test]
fn every_built_in_drive_with_electronics_serves_commands() {
    for name in model::builtin::names() {
        let profile = model::builtin::find(name).unwrap();
        if profile.firmware.is_none() {
            continue;
        }
        let mut drive = Drive::new(&profile).unwrap();
        let asks: Vec<DrawnRequest> = (0..200)
            .map(|i: u64| {
                (i.is_multiple_of(3), i * 7_919_131_071, i.is_multiple_of(2).then_some(0), 8, 5_000)
            })
            .collect();
        let commands = commands(&drive, &asks);
        assert_eq!(replay(&mut drive, &commands, 0).len(), 200, "{name}");
    }
}
