//! The layout reorganiser, against the most hostile hosts that the rules allow.

mod host;

use crate::support::{self, Registry, SECTOR, range};
use freeblock_apps::reorganizer::*;
use freeblock_apps::sessions::{SessionCall, Sessions};
use host::{Load, ReorganizerWorld};
use proptest::prelude::*;
use std::num::NonZeroU64;
use units::{Bytes, Lbn, LbnRange, Sectors};
use workload::random::Stream;

/// Returns one of the paper's three kinds of plan on a small drive. Tracks are no multiple of a block.
fn plan(kind: u8, count: u64, seed: u64) -> RelocationPlan {
    let (block, capacity) = (Sectors::new(3), Sectors::new(200));
    let mut chance = Stream::new(seed, "plan");
    let mut below = |n: NonZeroU64| chance.below(n);
    let region = range(7, 180);
    match kind {
        0 => RelocationPlan::random(region, block, capacity, count, &mut below),
        1 => RelocationPlan::circular(region, block, capacity, count, &mut below),
        _ => {
            let tracks: Vec<LbnRange> = (0..18)
                .map(|i| if i < 9 { range(i * 10, 10) } else { range(90 + (i - 9) * 11, 11) })
                .collect();
            RelocationPlan::track_shuffle(&tracks, block, capacity, count.min(18), &mut below)
        }
    }
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Guards against deadlock: with staging areas from two blocks up, longer chains, any order, and delays at any
    /// time.
    #[test]
    fn every_plan_ends_with_two_blocks_of_staging_or_more(
        kind in 0u8..3, count in 2u64..60, seed: u64, staging in 2u64..9,
        percent in prop_oneof![Just(50u8), Just(100), 1u8..=100],
    ) {
        let mut world = ReorganizerWorld::new(plan(kind, count, seed), staging, percent, seed);
        world.run(Load { refuse: true, ..Load::default() });
        world.check_moved();
        prop_assert!(world.machine.trouble().is_none());
        prop_assert!(world.machine.statistics().most_staged <= staging);
    }

    /// Guards newer foreground data against older copies: in staging, in a read or a write under way, at an old
    /// place; and foreground reads against the reorganiser's writes to the places that are being read.
    #[test]
    fn newer_foreground_bytes_win_and_reads_are_right_meanwhile(
        kind in 0u8..3, count in 2u64..60, seed: u64, staging in 2u64..12,
    ) {
        let mut world = ReorganizerWorld::new(plan(kind, count, seed), staging, 50, seed);
        world.run(Load { foreground: true, refuse: true, ..Load::default() });
        world.check_moved();
    }

    /// Guards saved state: a crash after any read, write, torn write or torn entry, repeatedly, while the foreground
    /// writes.
    #[test]
    fn a_crash_at_any_step_loses_nothing(
        kind in 0u8..3, count in 2u64..60, seed: u64, staging in 2u64..12, crash in 4u64..60, foreground: bool,
    ) {
        let mut world = ReorganizerWorld::new(plan(kind, count, seed), staging, 50, seed);
        world.run(Load { foreground, crash, ..Load::default() });
        world.check_moved();
    }

    /// Guards against overwriting unsaved data: with bad sources and destinations all readable data stay readable,
    /// and every fault is reported, also after crashes.
    #[test]
    fn bad_sectors_cost_no_other_block(
        kind in 0u8..3, count in 2u64..60, seed: u64, staging in 2u64..12,
        bad_read in prop::collection::btree_set(0u64..200, 0..6),
        bad_write in prop::collection::btree_set(0u64..200, 0..6),
        crash in prop_oneof![Just(0u64), 10u64..80], foreground: bool,
    ) {
        let mut world = ReorganizerWorld::new(plan(kind, count, seed), staging, 50, seed);
        world.host.unreadable = bad_read;
        world.host.unwritable = bad_write;
        world.run(Load { foreground, crash, ..Load::default() });
        let progress = world.machine.progress();
        let of = |kind| world.machine.faults().iter().filter(|f| f.kind == kind).count() as u64;
        prop_assert_eq!(of(FaultKind::Source), progress.stuck);
        prop_assert!(of(FaultKind::Destination) >= progress.kept);
        if world.machine.trouble().is_none() {
            prop_assert!(progress.is_finished());
        }
        world.check_contents();
    }

    /// Guards against blocks that are forgotten when the scheduler has no room for their tasks.
    #[test]
    fn tasks_that_are_refused_are_registered_later(kind in 0u8..2, count in 2u64..60, seed: u64, staging in 2u64..12) {
        let mut world = ReorganizerWorld::new(plan(kind, count, seed), staging, 50, seed);
        world.run_among_others();
        world.check_moved();
    }

    /// Guards against recovery from garbage: a state with any flipped byte is refused.
    #[test]
    fn a_damaged_state_is_refused_by_name(seed: u64, at: prop::sample::Index, flip in 1u8..) {
        let mut world = ReorganizerWorld::new(plan(1, 40, seed), 8, 50, seed);
        world.some_steps(120);
        let mut state = world.memory.bytes();
        let at = at.index(state.len());
        state[at] ^= flip;
        let mut registry = Registry::new(200);
        let refused = Reorganizer::recover(
            &world.plan, &state, world.options, Bytes::new(SECTOR as u64), Volatile, &mut registry,
        );
        prop_assert!(matches!(refused, Err(RecoverError::State(_))), "byte {at} was taken");
    }

    /// Guards recovery from a state that contradicts itself under a right checksum: it gives an error or a valid
    /// state, no panic and no endless loop.
    #[test]
    fn nonsense_with_a_right_checksum_is_refused_or_a_state(
        seed: u64, bad in prop::collection::btree_set(0u64..200, 0..12),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..50u8), 0..4),
    ) {
        let mut world = ReorganizerWorld::new(plan(seed as u8 % 2, 40, seed), 8, 50, seed);
        world.host.unreadable = bad.clone();
        world.host.unwritable = bad;
        world.some_steps(150);
        world.crash();
        let mut state = world.memory.bytes();
        // A recovered state is a header and a checkpoint: length, kind and checksum of these two, payload, checksum
        // of the payload.
        let (payload, end) = (44 + 13, state.len() - 4);
        let before = state.clone();
        for (at, byte) in flips {
            state[payload + at.index(end - payload)] = byte;
        }
        let sum = crc32fast::hash(&state[payload - 4..end]).to_le_bytes();
        state[end..].copy_from_slice(&sum);
        world.host.power_cut();
        let (memory, sessions) = (world.memory.clone(), &mut world.host.registry);
        let sector = Bytes::new(SECTOR as u64);
        match Reorganizer::recover(&world.plan, &state, world.options, sector, memory, sessions) {
            Ok(machine) => {
                let p = machine.progress();
                prop_assert_eq!(p.waiting + p.staged + p.kept + p.done + p.stuck, p.blocks);
                prop_assert!(machine.faults().len() as u64 >= p.stuck || state != before);
                world.machine = machine;
                world.some_steps(400);
            }
            Err(error) => prop_assert!(state != before, "{error}"),
        }
    }

    /// Guards the decoders against any bytes.
    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), seed: u64) {
        let _ = RelocationPlan::decode(&bytes);
        let mut world = ReorganizerWorld::new(plan(0, 9, seed), 4, 50, seed);
        world.some_steps(20);
        let mut state = world.memory.bytes();
        state.extend(&bytes);
        let mut registry = Registry::new(200);
        let _ = Reorganizer::recover(
            &world.plan, &state[..state.len() - bytes.len() / 3], world.options,
            Bytes::new(SECTOR as u64), Volatile, &mut registry,
        );
    }

    /// Guards against plans from a file that would destroy data: they are refused although their checksum is right.
    #[test]
    fn an_encoded_plan_that_would_destroy_data_is_refused(seed: u64, at: prop::sample::Index, to in any::<u8>()) {
        let mut bytes = plan(1, 30, seed).encode();
        let at = 20 + at.index(bytes.len() - 24);
        let changed = bytes[at] != to;
        bytes[at] = to;
        let body = bytes.len() - 4;
        let sum = crc32fast::hash(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
        match RelocationPlan::decode(&bytes) {
            Ok(plan) => {
                let moves: Vec<Move> = plan.moves().collect();
                for (i, m) in moves.iter().enumerate() {
                    let to = LbnRange::new(m.to, m.from.len());
                    prop_assert!(m.from.end().get().max(to.end().get()) <= plan.capacity().get());
                    let meets = |o: &Move| m.from.overlaps(o.from) || to.overlaps(LbnRange::new(o.to, o.from.len()));
                    prop_assert!(!moves[i + 1..].iter().any(meets), "two blocks in one place");
                }
            }
            Err(error) => prop_assert!(changed, "{error}"),
        }
    }

    /// Guards the generators: a seed gives one valid plan of the requested size, which survives encoding.
    #[test]
    fn generated_plans_are_seeded_and_survive_encoding(kind in 0u8..3, count in 0u64..60, seed: u64) {
        let made = plan(kind, count, seed);
        prop_assert_eq!(&made, &plan(kind, count, seed));
        prop_assert_eq!(&RelocationPlan::decode(&made.encode()).unwrap(), &made);
        if kind == 1 && count > 1 {
            prop_assert_eq!(made.len() as u64, count);
        }
    }
}

/// Returns every permutation of the numbers below `n`.
fn permutations(n: u64) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for i in 0..n {
        let grown: Vec<Vec<u64>> = all
            .iter()
            .flat_map(|p: &Vec<u64>| {
                (0..=p.len()).map(move |at| {
                    let mut p = p.clone();
                    p.insert(at, i);
                    p
                })
            })
            .collect();
        all = grown;
    }
    all
}

/// Guards against deadlock at the smallest sizes: every permutation of two to five blocks, and of two to four blocks
/// with a free place, at every staging area from two blocks up to one more than all of them.
#[test]
fn every_permutation_of_two_to_five_blocks_ends() {
    let mut plans = 0;
    for (n, free) in [(2, 0), (2, 1), (3, 0), (3, 1), (4, 0), (4, 1), (5, 0)] {
        for to in permutations(n + free) {
            let moves: Vec<Move> = (0..n).map(|b| one(range(b * 3, 3), to[b as usize] * 3)).collect();
            let places = [range(n * 3, free * 3)];
            let plan = RelocationPlan::new(Sectors::new(3), Sectors::new(18), &moves, &places).unwrap();
            for staging in 2..=n + 1 {
                let mut world = ReorganizerWorld::new(plan.clone(), staging, 50, plans);
                world.run(Load { refuse: true, ..Load::default() });
                world.check_moved();
                plans += 1;
            }
        }
    }
    assert_eq!(plans, 2 * (2 + 6) + 3 * (6 + 24) + 4 * (24 + 120) + 5 * 120);
}

/// Guards saved state with a crash at each step of a run, and with a non-volatile memory that fails at each of its
/// operations; recovery completes the run.
#[test]
fn a_crash_at_every_single_step_loses_nothing() {
    for (kind, staging, seed) in [(0, 2, 3), (1, 2, 1), (1, 6, 2), (2, 3, 4)] {
        let run = |crash_at, fuel| {
            let mut world = ReorganizerWorld::new(plan(kind, 12, seed), staging, 50, seed);
            world.run(Load { crash_at, fuel, ..Load::default() });
            world.check_moved();
            world.crashes
        };
        let steps = (1..).take_while(|&step| run(Some(step), None) == 1).count();
        let operations = (0..).take_while(|&operation| run(None, Some(operation)) == 1).count();
        assert!(steps > 40 && operations > 15, "{steps} steps, {operations} operations");
    }
}

/// Guards against sessions that stay open when there is no room for all three.
#[test]
fn sessions_that_are_refused_are_closed_again() {
    let plan = plan(1, 5, 1);
    for most in 0..3 {
        let mut registry = Registry::new(200);
        registry.most_sessions = most;
        let sector = Bytes::new(SECTOR as u64);
        let refused = Reorganizer::start(&plan, Options::default(), sector, Volatile, &mut registry);
        assert!(matches!(refused, Err(ReorganizeStartError::Session(_))));
        assert_eq!(registry.open_sessions(), 0);
    }
}

/// Uses the naive host of all applications: staging is much smaller than the cycle, and the contents are right at the
/// end.
#[test]
fn a_cycle_moves_as_with_the_naive_host() {
    let mut host = support::Naive::new(200, 5);
    let before = host.medium.clone();
    let plan = plan(1, 50, 3);
    let options = Options { staging: 2, ..Options::default() };
    let sector = Bytes::new(support::SECTOR as u64);
    let mut app = Reorganizer::start(&plan, options, sector, Volatile, &mut host.registry).unwrap();
    for _ in 0..10_000 {
        host.step(&mut app);
    }
    assert!(app.progress().is_finished());
    for m in plan.moves() {
        let (from, to) = (m.from.start().get() as usize, m.to.get() as usize);
        let len = m.from.len().get() as usize * support::SECTOR;
        let (from, to) = (from * support::SECTOR, to * support::SECTOR);
        assert_eq!(before[from..from + len], host.medium[to..to + len]);
    }
    assert!(app.statistics().broken > 0 && app.statistics().unwritable_suspended_steps > 0);
}

fn one(from: LbnRange, to: u64) -> Move {
    Move { from, to: Lbn::new(to) }
}

#[test]
fn plans_that_would_destroy_data_are_refused_by_name() {
    let make = |moves: &[Move], free: &[LbnRange]| {
        RelocationPlan::new(Sectors::new(4), Sectors::new(100), moves, free).map(|p| p.len())
    };
    let lbn = Lbn::new;
    let free = [range(50, 50)];
    assert_eq!(make(&[one(range(0, 8), 50)], &free), Ok(2));
    assert_eq!(make(&[one(range(0, 8), 50)], &[range(50, 5), range(55, 3)]), Ok(2));
    assert_eq!(make(&[one(range(0, 8), 50)], &[]), Err(RelocationPlanError::Live(lbn(50))));
    assert_eq!(make(&[one(range(0, 8), 50)], &[range(50, 6)]), Err(RelocationPlanError::Live(lbn(56))));
    assert_eq!(
        make(&[one(range(0, 8), 95)], &free),
        Err(RelocationPlanError::PastEnd { range: range(95, 8), capacity: Sectors::new(100) })
    );
    assert_eq!(
        make(&[one(range(0, 4), 50), one(range(2, 4), 60)], &free),
        Err(RelocationPlanError::SourceTwice(lbn(2)))
    );
    assert_eq!(
        make(&[one(range(0, 4), 50), one(range(8, 4), 52)], &free),
        Err(RelocationPlanError::DestinationTwice(lbn(52)))
    );
    // A block that is "moved" to its own place stays there, so no other block may go there.
    assert_eq!(
        make(&[one(range(0, 4), 0), one(range(8, 4), 0)], &free),
        Err(RelocationPlanError::DestinationTwice(lbn(0)))
    );
    assert_eq!(
        make(&[one(range(0, 4), 50), one(range(8, 4), 2)], &free),
        Err(RelocationPlanError::Straddles { destination: range(2, 4), source_block: range(0, 4) })
    );
    assert_eq!(make(&[one(range(3, 0), 50)], &free), Err(RelocationPlanError::EmptyMove(lbn(3))));
    let block = RelocationPlan::new(Sectors::ZERO, Sectors::new(9), &[], &[]);
    assert_eq!(block, Err(RelocationPlanError::BlockSize(Sectors::ZERO)));
}

#[test]
fn starts_that_cannot_end_are_refused() {
    let plan = plan(1, 5, 1);
    let mut registry = Registry::new(200);
    let mut start = |staging, threshold_percent| {
        let options = Options { staging, threshold_percent, ..Options::default() };
        Reorganizer::start(&plan, options, Bytes::new(SECTOR as u64), Volatile, &mut registry).map(|_| ())
    };
    assert_eq!(start(1, 50), Err(ReorganizeStartError::Staging(1)));
    assert_eq!(start(2, 0), Err(ReorganizeStartError::Threshold(0)));
    assert_eq!(start(2, 101), Err(ReorganizeStartError::Threshold(101)));
}

/// Guards against the state of another plan, drive or version of the program.
#[test]
fn a_foreign_state_is_refused_by_name() {
    let mut world = ReorganizerWorld::new(plan(1, 40, 1), 8, 50, 1);
    world.some_steps(60);
    let state = world.memory.bytes();
    let recover = |plan: &RelocationPlan, state: &[u8], staging, sector| {
        let options = Options { staging, ..Options::default() };
        let mut registry = Registry::new(200);
        let got = Reorganizer::recover(plan, state, options, Bytes::new(sector), Volatile, &mut registry);
        match got {
            Ok(_) => None,
            Err(RecoverError::State(error)) => Some(error),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(recover(&world.plan, &state, 8, 16), None);
    assert_eq!(recover(&world.plan, &state, 9, 16), None);
    let shrunk = ReorganizeStateError::StagingShrunk { needed: 8, given: 7 };
    assert_eq!(recover(&world.plan, &state, 7, 16), Some(shrunk));
    assert_eq!(recover(&world.plan, &state, 8, 15), Some(ReorganizeStateError::SectorBytes(Bytes::new(16))));
    assert_eq!(recover(&plan(1, 40, 2), &state, 8, 16), Some(ReorganizeStateError::OtherPlan));
    assert_eq!(recover(&world.plan, &[], 8, 16), Some(ReorganizeStateError::NotState));
    let mut other = state.clone();
    other[8] = 2;
    assert_eq!(recover(&world.plan, &other, 8, 16), Some(ReorganizeStateError::Version(2)));
}

/// Guards against links that would make a search loop, or send two blocks to one place.
#[test]
fn a_state_with_contradictory_links_is_refused() {
    let mut world = ReorganizerWorld::new(plan(1, 40, 1), 8, 50, 1);
    world.host.unreadable = (0..200).step_by(23).collect();
    world.some_steps(150);
    world.crash();
    let mut state = world.memory.bytes();
    let (stuck, blocks) = (world.machine.progress().stuck as usize, world.plan.len());
    assert!(stuck > 0);
    // Skips the header, the checkpoint's head, the bits of done blocks, the stuck blocks, the number of relinked
    // blocks, and the number and destination of the first of them.
    let ahead = 44 + 13 + blocks.div_ceil(8) + 4 + 4 * stuck + 4 + 4 + 8;
    let number = u32::from_le_bytes(*state[ahead..].first_chunk().unwrap());
    assert!(number == u32::MAX || (number as usize) < blocks);
    let other = if number == 7 { 8 } else { 7u32 };
    state[ahead..ahead + 4].copy_from_slice(&other.to_le_bytes());
    let end = state.len() - 4;
    let sum = crc32fast::hash(&state[53..end]).to_le_bytes();
    state[end..].copy_from_slice(&sum);
    let (mut registry, sector) = (Registry::new(200), Bytes::new(SECTOR as u64));
    let refused = Reorganizer::recover(&world.plan, &state, world.options, sector, Volatile, &mut registry)
        .unwrap_err();
    assert!(refused.to_string().contains("which of them waits for the other"), "{refused}");
}

/// Guards memory and time: a random fifth of a 9 GB drive's 8 KiB blocks is registered as a few thousand tasks.
#[test]
fn hundreds_of_thousands_of_blocks_are_few_tasks() {
    #[derive(Default)]
    struct Count(u64, u64);
    impl Sessions for Count {
        fn call(&mut self, call: SessionCall) -> Result<u64, scheduler::SessionError> {
            let Self(tasks, withdrawals) = self;
            match call {
                SessionCall::Register { .. } => {
                    *tasks += 1;
                    return Ok(*tasks);
                }
                SessionCall::AbortRange { .. } => *withdrawals += 1,
                _ => {}
            }
            Ok(0)
        }

        fn to_come(&self, _: units::SessionId) -> Result<u64, scheduler::SessionError> {
            Ok(0)
        }
    }
    let capacity = Sectors::new(17_938_986);
    let mut chance = Stream::new(1, "plan");
    let region = range(0, capacity.get());
    let block = Sectors::new(16);
    let plan = RelocationPlan::random(region, block, capacity, 224_000, &mut |n| chance.below(n)).unwrap();
    let mut sessions = Count::default();
    let app =
        Reorganizer::start(&plan, Options::default(), Bytes::new(512), Memory::default(), &mut sessions)
            .unwrap();
    assert!(app.progress().waiting > 223_000);
    assert!(sessions.0 < 4_000, "{} tasks", sessions.0);
}
