//! The gap planner: what to read while the next foreground request's sector comes round.
//!
//! OSDI'00 section 4: of all tracks, the one on which the most wanted sectors pass in the time that is left after
//! getting there and from there to the request; or the source track first and the rest of the time on the
//! destination track. The source and destination cylinders are searched first, then outward by extra seek, pruned
//! by what a cylinder could still yield and by what the time would still hold.

use crate::background::Background;
use crate::cylinder_bounds::GROUP;
use model::{DriveModel, Position, Track};
use units::{Arc, Cylinder, Duration, FULL_TURN, Instant, Op, TrackIndex};

/// The rotational latency of the next foreground access, waiting to be used.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// When the head is free.
    pub at: Instant,
    /// Where it is: the source.
    pub from: Position,
    /// The source track, where one is known to hold LBNs.
    pub source: Option<TrackIndex>,
    /// The track of the foreground access: the destination.
    pub destination: TrackIndex,
    /// What the foreground does there.
    pub op: Op,
    /// The last instant at which the head may arrive there and still find the sector before it.
    pub deadline: Instant,
}

/// Reading on one track within a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The track.
    pub track: TrackIndex,
    /// The first sector that passes whole.
    pub first: u32,
    /// How many pass; past the track's end they go on at its start.
    pub count: u32,
}

/// The best use of a gap that was found: one track, or two in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Wanted sectors in it.
    pub score: u64,
    /// Where to read, in order.
    pub stops: [Option<Stop>; 2],
}

/// How long a search may go on. Counted, not timed, so that a simulation replays exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchBudget {
    tracks: u32,
}

/// Looking a cylinder up costs this part of examining a track.
const LOOKUPS_PER_TRACK: u32 = 8;

impl SearchBudget {
    /// At most so many tracks examined. Those on the source and destination cylinders always are.
    pub const fn tracks(tracks: u32) -> Self {
        Self { tracks }
    }

    /// Until nothing better can be found.
    pub const UNLIMITED: Self = Self { tracks: u32::MAX / LOOKUPS_PER_TRACK };
}

impl Default for SearchBudget {
    /// 500 tracks: some 20 us; more finds hardly any more (docs/BENCHMARKS.md).
    fn default() -> Self {
        Self::tracks(500)
    }
}

/// How much earlier a seek over some distance and another over the rest may be than the bounds that a concave curve
/// would give: measured curves have dents. Worked out once a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dent(Duration);

impl Dent {
    pub fn of(drive: &DriveModel) -> Self {
        let seek = drive.seek_profile();
        let last = drive.layout().cylinders().saturating_sub(1);
        // The upper concave hull, from the left; the dent is how far the curve's lower bound ever lies below it.
        let value = |d: u32| i128::from(seek.lower_bound(d).as_nanos());
        let mut hull: Vec<u32> = Vec::new();
        for d in 0..=last {
            while let [.., a, b] = hull.as_slice() {
                let (ax, bx, dx) = (i128::from(*a), i128::from(*b), i128::from(d));
                if (value(*b) - value(*a)) * (dx - ax) <= (value(d) - value(*a)) * (bx - ax) {
                    hull.pop();
                } else {
                    break;
                }
            }
            hull.push(d);
        }
        let mut deepest = 0;
        for pair in hull.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let (ya, yb) = (value(a), value(b));
            for d in a..b {
                let on_hull = ya + (yb - ya) * i128::from(d - a) / i128::from(b - a) + 1;
                deepest = deepest.max(on_hull - value(d));
            }
        }
        Self(Duration::from_nanos(deepest as u64))
    }
}

/// An item in a window: where it ends or begins in the order of passing, and its sectors.
type Passing = (u32, u32);

/// Scratch and constants of the search for one drive.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    dent: Dent,
    /// Sectors on the drive's densest track.
    densest: u64,
    on_source: Vec<Passing>,
    on_destination: Vec<Passing>,
}

impl Planner {
    pub fn new(drive: &DriveModel) -> Self {
        Self {
            dent: Dent::of(drive),
            densest: u64::from(drive.layout().densest_track()),
            on_source: Vec::new(),
            on_destination: Vec::new(),
        }
    }

    /// The best detour within the budget, and how many tracks' worth of budget it took.
    pub fn plan(
        &mut self,
        drive: &DriveModel,
        background: &mut Background,
        gap: &Gap,
        budget: SearchBudget,
    ) -> (Option<Detour>, u32) {
        if background.is_idle() || gap.deadline <= gap.at {
            return (None, 0);
        }
        let budget = budget.tracks.saturating_mul(LOOKUPS_PER_TRACK);
        let mut search = Search {
            destination: drive.layout().track(gap.destination),
            depth: background.depth().max(1),
            drive,
            background,
            gap: *gap,
            planner: self,
            best: Detour { score: 0, stops: [None; 2] },
            useful: Duration::ZERO,
            left: budget,
        };
        search.sharpen();
        search.run();
        let (best, left) = (search.best, search.left);
        ((best.score > 0).then_some(best), (budget - left).div_ceil(LOOKUPS_PER_TRACK))
    }
}

/// The state of one search.
struct Search<'a> {
    drive: &'a DriveModel,
    background: &'a mut Background,
    planner: &'a mut Planner,
    gap: Gap,
    destination: Track,
    /// How many tasks may want the same sector.
    depth: u64,
    best: Detour,
    /// A shorter window cannot beat the best, on the drive's densest track.
    useful: Duration,
    /// Look-ups left of the budget.
    left: u32,
}

impl Search<'_> {
    fn run(&mut self) {
        let (a, b) = (self.gap.from.cylinder.get(), self.destination.cylinder.get());
        self.source_and_destination();
        self.cylinder(a);
        if a != b {
            self.cylinder(b);
        }
        self.outward(a, b);
    }

    /// The source track, the destination track, and each in turn.
    fn source_and_destination(&mut self) {
        let Gap { at, from, source, destination, op, deadline } = self.gap;
        let arrive = at + self.drive.move_time(from, self.destination.into(), Op::Read);
        self.window(destination, self.destination, arrive, deadline);
        let Some(source) = source.filter(|s| *s != destination) else { return };
        let back = self.drive.move_time(from, self.destination.into(), op);
        let Some(leave) = deadline.checked_sub(back).filter(|leave| *leave > at) else { return };
        let track = self.drive.layout().track(source);
        self.window(source, track, at, leave);
        self.split(source, track, leave, arrive);
    }

    /// Stay on the source track for a while, then wait on the destination track: the best instant to change over.
    fn split(&mut self, source: TrackIndex, track: Track, leave: Instant, arrive: Instant) {
        let Gap { at, destination: there, deadline, .. } = self.gap;
        let (rpm, destination) = (self.drive.rpm(), self.destination);
        let crossing = arrive.since(at);
        // No more can pass than the time holds.
        let most = u64::from(track.sectors.max(destination.sectors));
        let arc = rpm.arc_in(deadline.saturating_since(arrive)).parts();
        if (arc * most / FULL_TURN + 2) * self.depth <= self.best.score {
            return;
        }
        let first = track.passing(rpm, at, leave);
        let second = destination.passing(rpm, self.last_turn(arrive, deadline), deadline);
        let turn_before = self.last_turn(Instant::ZERO, deadline);
        self.spend(2 * LOOKUPS_PER_TRACK);
        let Planner { on_source, on_destination, .. } = &mut *self.planner;
        let list = |items: &mut Vec<Passing>, index, sectors, window, by_end: bool| {
            items.clear();
            self.background.items(self.drive.layout(), index, sectors, window, |_, item, passing| {
                items.push((if by_end { passing + item.sectors } else { passing }, item.sectors));
            });
            items.sort_unstable();
            items.iter().map(|i| u64::from(i.1)).sum::<u64>()
        };
        let gain = list(on_source, source, track.sectors, first, true);
        let mut remaining = list(on_destination, there, destination.sectors, second, false);
        if gain + remaining <= self.best.score {
            return;
        }
        // Leave after each of the source's items in turn.
        let last_turn = |from: Instant| from.max(turn_before);
        let to_first = rpm.earliest_angle(at).until(track.sector_angle(first.0));
        let (mut gained, mut lost, mut found) = (0, 0, None);
        for &(end, sectors) in on_source.iter() {
            gained += u64::from(sectors);
            let read = to_first + track.arc(first.0, end);
            let arrive = at + rpm.time_within(read) + crossing;
            if arrive > deadline {
                break;
            }
            let window = destination.passing(rpm, last_turn(arrive), deadline);
            let missed = second.1.saturating_sub(window.1);
            while let Some(&(_, sectors)) = on_destination.get(lost).filter(|i| i.0 < missed) {
                remaining -= u64::from(sectors);
                lost += 1;
            }
            if gained + remaining > self.best.score {
                self.best.score = gained + remaining;
                found = Some((end, window));
            }
        }
        if let Some((end, window)) = found {
            self.best.stops = [
                Some(Stop { track: source, first: first.0, count: end }),
                Some(Stop { track: there, first: window.0, count: window.1 }),
            ];
            self.sharpen();
        }
    }

    /// `from`, but no more than a turn before `until`. A window may be longer where the head is ready to read before
    /// it has settled to write, or where two seeks are shorter than one, but a turn shows all there is.
    fn last_turn(&self, from: Instant, until: Instant) -> Instant {
        let turn = self.drive.rpm().time_within(Arc::TURN);
        from.max(until.checked_sub(turn).unwrap_or_default())
    }

    /// Every other track of a cylinder.
    fn cylinder(&mut self, cylinder: u32) {
        let Gap { at, from, source, destination, op, deadline } = self.gap;
        if self.background.cylinder_bound(self.drive.layout(), cylinder) <= self.best.score {
            self.spend(1);
            return;
        }
        let drive = self.drive;
        for track in drive.layout().tracks_on(Cylinder::new(cylinder)) {
            if track == destination || Some(track) == source {
                continue;
            }
            let geometry = drive.layout().track(track);
            let arrive = at + drive.move_time(from, geometry.into(), Op::Read);
            let back = drive.move_time(geometry.into(), self.destination.into(), op);
            let Some(leave) = deadline.checked_sub(back) else { continue };
            self.window(track, geometry, arrive, leave);
        }
    }

    /// All other cylinders, those nearest to the source or the destination first, until none further out can win or
    /// the budget is spent.
    fn outward(&mut self, a: u32, b: u32) {
        let cylinders = self.drive.layout().cylinders();
        let apart = a.abs_diff(b);
        let (low, high) = (a.min(b), a.max(b));
        // On the inner sides the two searches meet half-way.
        let middle = low + apart / 2;
        let mut k = 1;
        while self.left > 0 && k < cylinders && self.reachable(k, apart) {
            let sides = [
                low.checked_sub(k),
                low.checked_add(k).filter(|c| *c <= middle),
                high.checked_sub(k).filter(|c| *c > middle),
                high.checked_add(k).filter(|c| *c < cylinders),
            ];
            for c in sides.into_iter().flatten() {
                self.spend(1);
                if self.fits(a, b, c) {
                    self.bounded_cylinder(c);
                }
            }
            k += self.step(low, high, middle, k);
        }
    }

    /// Whether a cylinder at least `k` from both source and destination can still win.
    fn reachable(&self, k: u32, apart: u32) -> bool {
        let seek = self.drive.seek_profile();
        // Both legs are at least k, together at least `apart`: the longer one is at least half of it. On a concave
        // curve the sum is least when the shorter leg is k; the dent says how far the curve is from concave.
        let plain = seek.lower_bound(k) + seek.lower_bound(k.max(apart.div_ceil(2)));
        let concave = seek.lower_bound(k) + seek.lower_bound(k.max(apart.saturating_sub(k)));
        let travel = plain.max(concave.saturating_sub(self.planner.dent.0 * 2));
        self.open_for() >= travel + self.useful
    }

    /// How long the gap is from the head's release to the deadline, for comparison with bare seeks.
    fn open_for(&self) -> Duration {
        self.gap.deadline.saturating_since(self.gap.at) + self.drive.settle_credit()
    }

    /// Whether seeking to `c` and on to the destination leaves enough time.
    fn fits(&self, a: u32, b: u32, c: u32) -> bool {
        let travel = self.drive.seek(a.abs_diff(c)) + self.drive.seek(c.abs_diff(b));
        self.open_for() >= travel + self.useful
    }

    fn bounded_cylinder(&mut self, cylinder: u32) {
        if self.background.bounds_mut().get(cylinder).is_none() {
            self.spend(u32::from(self.drive.layout().heads()) * LOOKUPS_PER_TRACK / 2);
        }
        self.cylinder(cylinder);
    }

    /// How far to go on: over whole groups of cylinders, where all four sides are inside groups that cannot win.
    fn step(&mut self, low: u32, high: u32, middle: u32, k: u32) -> u32 {
        let cylinders = self.drive.layout().cylinders();
        let next = k + 1;
        let mut step = GROUP;
        let sides = [
            (low.checked_sub(next), false),
            (low.checked_add(next).filter(|c| *c <= middle), true),
            (high.checked_sub(next).filter(|c| *c > middle), false),
            (high.checked_add(next).filter(|c| *c < cylinders), true),
        ];
        for (cylinder, up) in sides {
            let Some(c) = cylinder else { continue };
            match self.background.bounds_mut().group(c / GROUP) {
                Some(bound) if bound <= self.best.score => {
                    let rest = if up { GROUP - c % GROUP } else { c % GROUP + 1 };
                    step = step.min(rest + 1);
                }
                _ => return 1,
            }
        }
        self.spend(1);
        step.max(1)
    }

    /// Considers reading on a track between two instants.
    #[inline]
    fn window(&mut self, index: TrackIndex, track: Track, from: Instant, until: Instant) {
        if from >= until {
            return;
        }
        let from = self.last_turn(from, until);
        let (first, count) = track.passing(self.drive.rpm(), from, until);
        if u64::from(count) * self.depth <= self.best.score {
            self.spend(1);
            return;
        }
        self.spend(LOOKUPS_PER_TRACK);
        let score = self.background.score(self.drive.layout(), index, track.sectors, first, count);
        if score > self.best.score {
            self.best = Detour { score, stops: [Some(Stop { track: index, first, count }), None] };
            self.sharpen();
        }
    }

    /// The best has improved: shorter windows than this cannot beat it.
    fn sharpen(&mut self) {
        let sectors = self.best.score / self.depth;
        let arc = Arc::from_parts(sectors * (FULL_TURN / self.planner.densest.max(1)));
        self.useful = self.drive.rpm().time_within(arc);
    }

    fn spend(&mut self, lookups: u32) {
        self.left = self.left.saturating_sub(lookups);
    }
}

#[cfg(test)]
mod tests;
