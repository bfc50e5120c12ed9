//! Tests every switch of a behaviour alone: it changes the answers to commands, in the same way for the same seed and, if the
//! difference is random, in another way for another seed.

use freeblock_drive::{
    BadSectors, Behaviour, Command, Drive, Queue, QueueOrder, Rarely, Recalibration, Rules, SpindleDrift,
};
use model::{Profile, builtin};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Returns the behaviour of a drive without random differences and without a buffer.
fn exact() -> Behaviour {
    Behaviour { buffer: Some(false), bus_sector: Some(Duration::from_nanos(6_400)), ..Behaviour::default() }
}

/// Returns the behaviour of a drive without random differences, with its buffer and read-ahead.
fn buffered() -> Behaviour {
    Behaviour { buffer: Some(true), ..exact() }
}

const TAGGED: Queue = Queue::Tagged { order: QueueOrder::Fcfs, depth: 64 };

/// A switch: its name, the behaviour with it on and off, and whether it is random.
type SwitchCase = (&'static str, Behaviour, Behaviour, bool);

fn switches() -> Vec<SwitchCase> {
    let micros = Duration::from_micros;
    let sptf = Queue::Tagged { order: QueueOrder::Sptf, depth: 64 };
    let alone = |name, on: Behaviour| (name, on, exact(), true);
    let settles = Rarely { ppm: 20_000, most: micros(500) };
    let drift = SpindleDrift { most_ppm: 5_000, step: Duration::from_secs(1) };
    let pause = Recalibration { every: Duration::from_secs(5), takes: Duration::from_millis(50) };
    let bad = BadSectors { count: 20, retries: 3 };
    vec![
        alone("seek_spread", Behaviour { seek_spread: micros(20), ..exact() }),
        alone("late_settles", Behaviour { late_settles: settles, ..exact() }),
        alone("missed_landings", Behaviour { missed_landings_ppm: 2_000, ..exact() }),
        ("seek_ageing", Behaviour { seek_ageing_ppm: 50_000, ..exact() }, exact(), false),
        alone("drift", Behaviour { drift: Some(drift), ..exact() }),
        alone("recalibration", Behaviour { recalibration: Some(pause), ..exact() }),
        alone("grown_defects", Behaviour { grown_defects: 20, ..exact() }),
        alone("bad_sectors", Behaviour { bad_sectors: Some(bad), ..exact() }),
        ("command_percent", Behaviour { command_percent: Some(0), ..exact() }, exact(), false),
        (
            "completion_overhead",
            Behaviour { completion_overhead: Some(micros(300)), ..exact() },
            exact(),
            false,
        ),
        alone("command_spread", Behaviour { command_spread: micros(20), ..exact() }),
        alone("completion_spread", Behaviour { completion_spread: micros(10), ..exact() }),
        alone("overlap", Behaviour { overlap_percent: 85, ..exact() }),
        ("bus_sector", Behaviour { bus_sector: Some(micros(60)), ..exact() }, exact(), false),
        ("buffer", buffered(), exact(), false),
        ("read_ahead", buffered(), Behaviour { read_ahead: Some(false), ..buffered() }, false),
        ("write_back", buffered(), Behaviour { write_back: Some(false), ..buffered() }, false),
        (
            "eager_read_ahead",
            Behaviour { eager_read_ahead: true, queue: TAGGED, ..buffered() },
            Behaviour { queue: TAGGED, ..buffered() },
            false,
        ),
        ("prompt_read_ahead", Behaviour { prompt_read_ahead: true, ..buffered() }, buffered(), false),
        alone("rereads", Behaviour { rereads_ppm: 6_000, ..exact() }),
        (
            "write_cache",
            Behaviour { write_cache: 32, write_back: Some(true), queue: TAGGED, ..buffered() },
            Behaviour { write_back: Some(true), queue: TAGGED, ..buffered() },
            false,
        ),
        ("queue", Behaviour { queue: TAGGED, ..exact() }, exact(), false),
        ("order", Behaviour { queue: sptf, ..exact() }, Behaviour { queue: TAGGED, ..exact() }, false),
    ]
}

/// Returns the id, the completion time and the failure of each of 3,000 commands. A quarter of the commands follow shortly
/// after the LBNs of the command before, the others are random. Up to four are in the drive at a time.
fn answers(behaviour: Behaviour, small: bool, seed: u64) -> Vec<(u64, Instant, bool)> {
    // On the small drive, commands often meet moved and bad sectors.
    let profile = if small {
        Profile::from_toml(include_str!("../data/small.toml"), "small.toml").unwrap()
    } else {
        builtin::find("quantum-atlas-10k").unwrap()
    };
    let mut drive = Drive::with_behaviour(&profile, Rules::HARDWARE, behaviour, seed).unwrap();
    let capacity = drive.model().layout().capacity().get();
    let depth = drive.queue_depth().min(4);
    let (mut state, mut now, mut last) = (1u64, Instant::ZERO, 0);
    let mut answers = Vec::new();
    for id in 0..3_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        last = if draw.is_multiple_of(4) { last + 8 } else { draw % (capacity - 1_000) };
        let op = if (draw >> 8).is_multiple_of(3) { Op::Write } else { Op::Read };
        let range = LbnRange::new(Lbn::new(last), Sectors::new(8));
        drive.submit(now, Command { id: RequestId::new(id), op, range }).unwrap();
        while drive.outstanding() >= depth {
            now = drive.next_event().unwrap();
            drive.advance(now);
            while let Some(done) = drive.pop_completion() {
                answers.push((done.id.get(), done.at, done.failed.is_some()));
            }
        }
    }
    answers
}

#[test]
fn none_is_forgotten() {
    let tried: Vec<&str> = switches().iter().map(|(name, ..)| *name).collect();
    for name in Behaviour::names() {
        let base = name.trim_end_matches("_ppm").trim_end_matches("_percent");
        assert!(tried.iter().any(|tried| [name, base].contains(tried)), "{name}");
    }
}

#[test]
fn each_switch_alone_changes_something_and_is_seeded() {
    for (name, on, off, by_chance) in switches() {
        let small = on.grown_defects > 0 || on.bad_sectors.is_some();
        let [one, again, other] = [7, 7, 8].map(|seed| answers(on, small, seed));
        assert!(one != answers(off, small, 7), "{name} changes nothing");
        assert!(one == again, "{name} is not the same for a seed");
        assert_eq!(one != other, by_chance, "{name}, by another seed");
    }
}
