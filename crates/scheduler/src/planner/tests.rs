//! The planner against an exhaustive search that does not use cylinders, bounds or bits.

use super::*;
use crate::sessions::{Priority, Record};
use crate::task::NewTask;
use alloc::collections::{BTreeMap, BTreeSet};
use model::random_profile::{Size, random_profile};
use model::{Layout, Location, Track, Window};
use proptest::prelude::*;
use units::{Lbn, LbnRange, Sectors, SessionId};

/// A drive, the blocks wanted on it, and a plain list of the same blocks.
struct World {
    drive: DriveModel,
    background: Background,
    planner: Planner,
    /// The wanted blocks as ranges of LBNs, each with its LBNs that have been read.
    wanted: BTreeMap<(u64, u64), BTreeSet<u64>>,
    session: SessionId,
}

impl World {
    fn new(seed: u64) -> Self {
        let drive = DriveModel::from_profile(&random_profile(seed, Size::Tiny)).unwrap();
        let mut background = Background::new(drive.layout(), 1 << 20);
        let session = background.open(drive.layout(), Priority::default(), [true; 2]).unwrap();
        let planner = Planner::new(&drive);
        Self { drive, background, planner, wanted: BTreeMap::new(), session }
    }

    fn want(&mut self, start: u64, len: u64, block: u64) {
        let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
        let new = NewTask::of(Op::Read, range, block);
        self.background.register(self.drive.layout(), self.session, new).unwrap();
        for i in 0..len.div_ceil(block) {
            let (a, b) = (start + i * block, start + len.min((i + 1) * block));
            self.wanted.insert((a, b), BTreeSet::new());
        }
    }

    /// Records a foreground request: pieces that lie whole in its LBNs are no longer wanted.
    fn pass_over(&mut self, start: u64, len: u64) {
        let layout = self.drive.layout();
        let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
        for part in layout.pieces(range) {
            for piece in naive_pieces(layout, &self.wanted, part.track) {
                if piece.first >= part.sector && piece.first + piece.sectors <= part.sector + part.len {
                    for sector in piece.first..piece.first + piece.sectors {
                        let lbn = layout.lbn_at(Location { track: part.track, sector }).unwrap().get();
                        let block = self.wanted.iter_mut().find(|(b, _)| (b.0..b.1).contains(&lbn));
                        block.unwrap().1.insert(lbn);
                    }
                }
            }
            self.background.take_reads(&self.drive, part.track, part.window(), true);
        }
        self.wanted.retain(|&(a, b), got| (got.len() as u64) < b - a);
        self.background.deliver(&[], |_: Record| {});
    }
}

/// A piece of a wanted block on a track, by the rules that `task.rs` states, found by walking sectors.
#[derive(Debug)]
struct NaivePiece {
    first: u32,
    sectors: u32,
}

/// Cuts every wanted block's sectors on a track into runs that are consecutive on the medium and by LBN; each spare
/// that replaces a sector is a run of its own. Runs are cut into parts of at most a quarter of the track.
fn naive_pieces(
    layout: &Layout,
    wanted: &BTreeMap<(u64, u64), BTreeSet<u64>>,
    track: TrackIndex,
) -> Vec<NaivePiece> {
    let n = layout.track(track).sectors;
    let longest = (n / 4).max(1);
    let begins: BTreeSet<u32> = layout.track_ref(track).extents().map(|extent| extent.sector).collect();
    let mut pieces = Vec::new();
    for (&(a, b), got) in wanted {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        let mut last_lbn = None;
        for sector in 0..n {
            let lbn = layout.lbn_at(Location { track, sector }).map(Lbn::get);
            if let Some(lbn) = lbn.filter(|l| (a..b).contains(l)) {
                match runs.last_mut() {
                    Some((first, len))
                        if !begins.contains(&sector)
                            && *first + *len == sector
                            && last_lbn.map(|l: u64| l + 1) == Some(lbn) =>
                    {
                        *len += 1
                    }
                    _ => runs.push((sector, 1)),
                }
                last_lbn = Some(lbn);
            }
        }
        for (first, len) in runs {
            let mut at = 0;
            while at < len {
                let sectors = (len - at).min(longest);
                let lbn = layout.lbn_at(Location { track, sector: first + at }).unwrap();
                if !got.contains(&lbn.get()) {
                    pieces.push(NaivePiece { first: first + at, sectors });
                }
                at += sectors;
            }
        }
    }
    pieces
}

/// Returns start and end of the first pass of a run of sectors that begins at or after `from`.
fn naive_pass(
    drive: &DriveModel,
    track: &Track,
    from: Instant,
    first: u32,
    sectors: u32,
) -> (Instant, Instant) {
    let wait = drive.rpm().earliest_angle(from).until(track.sector_angle(first));
    let arc = track.arc(first, sectors);
    (from + drive.rpm().time_within(wait), from + drive.rpm().time_within(wait + arc))
}

/// Returns when a track's sectors begin to count if the head leaves the track at `until`: all pass in one revolution.
fn last_revolution(drive: &DriveModel, from: Instant, until: Instant) -> Instant {
    from.max(until.checked_sub(drive.rpm().time_within(units::Arc::REVOLUTION)).unwrap_or_default())
}

/// Returns the most wanted sectors on any single track, or on the source track and then the destination track.
fn naive_best(world: &World, gap: &Gap, two_tracks: bool) -> u64 {
    let (drive, layout) = (&world.drive, world.drive.layout());
    let destination = layout.track(gap.destination);
    let mut best = 0;
    for index in (0..layout.track_count()).map(TrackIndex::new) {
        let track = layout.track(index);
        let arrive = gap.at + drive.move_time(gap.from, track.into(), Op::Read);
        // From the destination track itself the move takes no time.
        let back = drive.move_time(track.into(), destination.into(), gap.op);
        let fits = |end: Instant| end + back <= gap.deadline;
        let Some(leave) = gap.deadline.checked_sub(back) else { continue };
        let arrive = last_revolution(drive, arrive, leave);
        let sum: u64 = naive_pieces(layout, &world.wanted, index)
            .iter()
            .filter(|p| fits(naive_pass(drive, &track, arrive, p.first, p.sectors).1))
            .map(|p| u64::from(p.sectors))
            .sum();
        best = best.max(sum);
    }
    let source = gap.source.filter(|s| two_tracks && *s != gap.destination);
    let Some(source) = source else { return best };
    let crossing = drive.move_time(gap.from, destination.into(), Op::Read);
    let back = drive.move_time(gap.from, destination.into(), gap.op);
    let passes = |index: TrackIndex, from: Instant| -> Vec<(Instant, Instant, u64)> {
        let track = layout.track(index);
        naive_pieces(layout, &world.wanted, index)
            .iter()
            .map(|p| {
                let (start, end) = naive_pass(drive, &track, from, p.first, p.sectors);
                (start, end, u64::from(p.sectors))
            })
            .collect()
    };
    let on_source: Vec<_> =
        passes(source, gap.at).into_iter().filter(|p| p.1 + back <= gap.deadline).collect();
    for &(_, leave, _) in &on_source {
        let gained: u64 = on_source.iter().filter(|p| p.1 <= leave).map(|p| p.2).sum();
        let there = last_revolution(drive, leave + crossing, gap.deadline);
        let rest: u64 =
            passes(gap.destination, there).iter().filter(|p| p.1 <= gap.deadline).map(|p| p.2).sum();
        if there <= gap.deadline {
            best = best.max(gained + rest);
        }
    }
    best
}

/// Reads the planner's stops one after the other in time. Returns the number of their wanted sectors, and the instant at
/// which the head is on the destination track.
fn follow(world: &World, gap: &Gap, detour: &Detour) -> (u64, Instant) {
    let (drive, layout) = (&world.drive, world.drive.layout());
    let (mut at, mut from, mut sum) = (gap.at, gap.from, 0);
    for stop in detour.stops.iter().flatten() {
        let track = layout.track(stop.track);
        at += drive.move_time(from, track.into(), Op::Read);
        let end = naive_pass(drive, &track, at, stop.first, stop.count).1;
        sum += naive_pieces(layout, &world.wanted, stop.track)
            .iter()
            .filter(|p| {
                let passing = (p.first + track.sectors - stop.first) % track.sectors;
                passing + p.sectors <= stop.count
            })
            .map(|p| u64::from(p.sectors))
            .sum::<u64>();
        (at, from) = (end, track.into());
    }
    (sum, at + drive.move_time(from, layout.track(gap.destination).into(), gap.op))
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    /// The distance from the previous task in 1/2048 of the free capacity, the length in 1/256 of the rest, and the block size.
    tasks: Vec<(u64, u64, u64)>,
    passed_over: Vec<(u64, u64)>,
    gaps: Vec<(u64, u32, u32, bool)>,
}

fn cases() -> impl Strategy<Value = Case> {
    (
        any::<u64>(),
        prop::collection::vec((0..256u64, 1..=256u64, 1..40u64), 1..4),
        prop::collection::vec((any::<u64>(), 1..60u64), 0..12),
        prop::collection::vec((0..1u64 << 40, any::<u32>(), any::<u32>(), any::<bool>()), 1..6),
    )
        .prop_map(|(seed, tasks, passed_over, gaps)| Case { seed, tasks, passed_over, gaps })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(60, 250)))]

    #[test]
    fn the_planner_finds_as_much_as_an_exhaustive_search(case in cases()) {
        let mut world = World::new(case.seed);
        let capacity = world.drive.layout().capacity().get();
        // Tasks lie side by side.
        let mut from = 0;
        for &(gap, share, block) in &case.tasks {
            let start = from + (capacity - from) * gap / 2048;
            let len = (capacity - start) * share / 256;
            if len > 0 {
                world.want(start, len, block);
                from = start + len;
            }
        }
        for &(start, len) in &case.passed_over {
            let start = start % capacity;
            world.pass_over(start, len.min(capacity - start));
        }
        for &(at, source, destination, write) in &case.gaps {
            let tracks = world.drive.layout().track_count();
            let (source, destination) = (TrackIndex::new(source % tracks), TrackIndex::new(destination % tracks));
            let op = if write { Op::Write } else { Op::Read };
            let from = Position::from(world.drive.layout().track(source));
            let target = world.drive.layout().track(destination);
            let at = Instant::from_nanos(at);
            let arrive = at + world.drive.move_time(from, target.into(), op);
            let wait = world.drive.rpm().earliest_angle(arrive).until(target.sector_angle(0));
            let deadline = arrive + world.drive.rpm().time_within(wait);
            let gap = Gap { at, from, source: Some(source), destination, op, deadline, above: 0 };
            let World { drive, background, planner, .. } = &mut world;
            // Blocks are taken, a gap is planned, and then the blocks are returned: all are wanted as before.
            let sectors = drive.layout().track(destination).sectors;
            background.take_reads(drive, destination, Window { first: 0, count: sectors }, false);
            planner.plan(drive, background, &gap, Reach::Drive, SearchBudget::UNLIMITED, None);
            background.cut(drive.layout(), sectors, 0, 0);
            let (found, _) = planner.plan(drive, background, &gap, Reach::Drive, SearchBudget::UNLIMITED, None);
            let expected = naive_best(&world, &gap, true);
            prop_assert_eq!(found.map_or(0, |d| d.score), expected, "{:?}", gap);
            let of_one_track = naive_best(&world, &gap, false);
            if let Some(detour) = found {
                let (sectors, back) = follow(&world, &gap, &detour);
                prop_assert_eq!(sectors, detour.score);
                prop_assert!(back <= deadline, "back {} after {}", back, deadline);
            }
            let World { drive, background, planner, .. } = &mut world;
            // With a required yield the planner finds the same detour, or none if there is no better one.
            for above in [expected / 2, expected.saturating_sub(1), expected, expected + 1, u64::MAX] {
                let more = Gap { above, ..gap };
                let (found, _) = planner.plan(drive, background, &more, Reach::Drive, SearchBudget::UNLIMITED, None);
                prop_assert_eq!(found.map(|d| d.score), (expected > above).then_some(expected), "above {}", above);
            }
            let one = SearchBudget::UNLIMITED.one_track();
            let (found, _) = planner.plan(drive, background, &gap, Reach::Drive, one, None);
            prop_assert_eq!(found.map_or(0, |d| d.score), of_one_track);
            // A budget never improves the result, and is exceeded by at most a cylinder's worth.
            let (hasty, used) = planner.plan(drive, background, &gap, Reach::Drive, SearchBudget::tracks(3), None);
            prop_assert!(hasty.map_or(0, |d| d.score) <= expected);
            prop_assert!(used <= 3 + 4 * u32::from(world.drive.layout().heads()) + 4);
        }
    }
}

/// Returns the first sector and the length of each command before a request. All sectors of a track but `unwanted` are wanted,
/// each as a block; the head is on the track at three quarters of the sectors, and the request at half of them.
fn across_the_end(touching: bool, unwanted: &[u32]) -> Vec<(u32, u32)> {
    let drive = DriveModel::from_profile(&model::builtin::find("quantum-atlas-10k").unwrap()).unwrap();
    let layout = drive.layout();
    let mut background = Background::new(layout, 1 << 20);
    let session = background.open(layout, Priority::default(), [true; 2]).unwrap();
    let on = layout.locate(Lbn::new(3_000_000)).unwrap().track;
    let track = *layout.track_ref(on).track();
    let lbn = |sector| layout.lbn_at(Location { track: on, sector }).unwrap();
    for sector in (0..track.sectors).filter(|sector| !unwanted.contains(sector)) {
        let range = LbnRange::new(lbn(sector), Sectors::new(1));
        background.register(layout, session, NewTask::of(Op::Read, range, 1)).unwrap();
    }
    let (from, to) = (track.sectors * 3 / 4, track.sectors / 2);
    let found = before_a_request(&drive, &mut background, on, (from, to), touching);
    found.unwrap().stops.iter().flatten().map(|stop| (stop.first, stop.count)).collect()
}

/// Returns the detour of a head on the request's track at sector `from`, for a request at sector `to`.
fn before_a_request(
    drive: &DriveModel,
    background: &mut Background,
    on: TrackIndex,
    (from, to): (u32, u32),
    touching: bool,
) -> Option<Detour> {
    let layout = drive.layout();
    let track = *layout.track_ref(on).track();
    let lbn = layout.lbn_at(Location { track: on, sector: to }).unwrap();
    let rpm = drive.rpm();
    let first =
        Instant::ZERO + rpm.time_within(rpm.earliest_angle(Instant::ZERO).until(track.sector_angle(from)));
    let deadline = first + rpm.time_within(track.arc(from, (track.sectors + to - from) % track.sectors));
    let gap = Gap {
        at: first,
        from: track.into(),
        source: None,
        destination: on,
        op: Op::Read,
        deadline,
        above: 0,
    };
    let (none, now) = ([Duration::ZERO; 2], [Instant::ZERO; 2]);
    let terms = Terms {
        margin: &|_| Duration::ZERO,
        least_margin: Duration::ZERO,
        before: none,
        ready: now,
        between: none,
        not_on: &[],
        second: now,
        last: LastCommand { op: Op::Read, end: Lbn::ZERO },
        change: Duration::ZERO,
        source_track: false,
        allows: &|neighbour| touching || !neighbour.touching,
        merge: Some(FirstSector { lbn, sector: to }),
    };
    let budget = SearchBudget::default();
    Planner::new(drive).plan(drive, background, &gap, Reach::Drive, budget, Some(&terms)).0
}

/// On drives with remapped sectors the LBN before the request may lie elsewhere: then the sectors that pass before the
/// request do not have the LBNs before it, and are not merged.
#[test]
fn only_sectors_directly_before_a_request_are_merged_with_it() {
    let (mut apart, mut merged) = (0, 0);
    for seed in 0..40 {
        let profile = random_profile(seed, Size::Tiny);
        let drive = DriveModel::from_profile(&profile).unwrap();
        let layout = drive.layout();
        let mut background = Background::new(layout, 1 << 20);
        let session = background.open(layout, Priority::default(), [true; 2]).unwrap();
        let all = LbnRange::new(Lbn::ZERO, layout.capacity());
        background.register(layout, session, NewTask::of(Op::Read, all, 1)).unwrap();
        for index in 0..layout.track_count() {
            let on = TrackIndex::new(index);
            let sectors = layout.track(on).sectors;
            let extents: Vec<_> = layout.track_ref(on).extents().collect();
            for pair in extents.windows(2) {
                let extent = pair[1];
                let between = (pair[0].sector, extent.sector);
                let found = before_a_request(&drive, &mut background, on, between, true);
                let Some(detour) = found.filter(|detour| detour.merged) else {
                    apart += 1;
                    continue;
                };
                merged += 1;
                let last = detour.stops.iter().flatten().last().unwrap();
                // A slipped sector has no LBN.
                let mut passing = (last.first..last.first + last.count).rev().map(|sector| sector % sectors);
                let end = passing.find_map(|sector| layout.lbn_at(Location { track: on, sector }));
                assert_eq!(
                    end.map(|last| last + Sectors::new(1)),
                    Some(extent.lbn),
                    "seed {seed}, track {index}: {detour:?}"
                );
            }
        }
    }
    assert!(apart > 0 && merged > 0, "{apart} apart, {merged} merged");
}

#[test]
fn across_a_tracks_end_commands_touch_or_leave_out_the_less_wanted_sector() {
    let [(far, last), (near, first)] = across_the_end(true, &[])[..] else { panic!("two commands") };
    let sectors = far + last;
    assert!(near == 0 && first > 100 && last > 50, "{far} {last} {near} {first}");
    // Without touching, one sector is left out: the first after the end, or the last before it if that is not wanted.
    assert_eq!(across_the_end(false, &[]), [(far, last), (1, first - 1)]);
    assert_eq!(across_the_end(false, &[0, sectors - 1]), [(far, last), (1, first - 1)]);
    assert_eq!(across_the_end(false, &[sectors - 1]), [(far, last - 1), (0, first)]);
}
