//! The gap planner: reads and writes until the next foreground request's sector passes.
//!
//! As in OSDI'00, section 4, the planner chooses the track on which the most wanted sectors pass in the time that is left after
//! the moves to the track and from there to the request; or it chooses the source track (under the head) first and the
//! destination track (the request's) for the rest of the time. A stop at a track is for reading or for writing, whichever yields
//! more; a write wins a tie, since written blocks need not be read (FAST'04, section 3.3). The search starts with the source and
//! destination cylinders and goes outward by extra seek time. Bounds on the yield of a cylinder, and on the sectors that pass in
//! the time, prune the search.

mod outside;
mod terms;

pub(crate) use outside::straight_parts;
pub use terms::Neighbour;
pub(crate) use terms::{FirstSector, LastCommand, Terms};

use crate::background::{Background, FoundItem};
use crate::bounds::{GROUP_CYLINDERS, LOOKUPS_PER_BOUND, LOOKUPS_PER_TRACK};
use crate::time_window::{TimeWindow, revolution_before};
use alloc::vec::Vec;
use model::{DriveModel, Position, TrackRef, Window};
use units::{Arc, Cylinder, Duration, FULL_REVOLUTION, Instant, Op, TrackIndex};

/// The rotational latency of the next foreground access, to be used by a detour.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// The instant at which the head is free.
    pub at: Instant,
    /// The head's position: the source.
    pub from: Position,
    /// The source track, if it is known to hold LBNs.
    pub source: Option<TrackIndex>,
    /// The track of the foreground access: the destination.
    pub destination: TrackIndex,
    /// The operation of the foreground access.
    pub op: Op,
    /// The latest instant at which the head may arrive on the destination track and still meet the foreground's first sector.
    pub deadline: Instant,
    /// The yield that a detour must exceed; a greater value ends the search earlier.
    pub above: u64,
}

/// A read or write on one track within a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stop {
    /// The track.
    pub track: TrackIndex,
    /// The operation.
    pub op: Op,
    /// The first sector that passes whole.
    pub first: u32,
    /// The number of sectors; past the track's end they continue at the track's start.
    pub count: u32,
}

impl Stop {
    pub(crate) fn new(track: &TrackRef<'_>, op: Op, Window { first, count }: Window) -> Self {
        Self { track: track.index(), op, first, count }
    }

    /// Returns the sectors.
    pub(crate) fn window(&self) -> Window {
        Window { first: self.first, count: self.count }
    }
}

/// The maximum of stops in a detour: on two tracks, each on both sides of the track's end.
pub(crate) const STOPS_MAX: usize = 4;

/// The best detour found for a gap, on one track or on two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detour {
    /// The number of wanted sectors.
    pub score: u64,
    /// The stops, in order: at most two in the drive; outside the drive each stop has consecutive LBNs.
    pub stops: [Option<Stop>; STOPS_MAX],
    /// Whether the last stop and the foreground request are one command.
    pub merged: bool,
}

/// The limit of a search, which is counted and not timed, so that a simulation replays exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchBudget {
    tracks: u32,
    /// Whether a detour in the drive may use the source track and then the destination track.
    two_tracks: bool,
}

/// The number of cylinders on each side that the search examines before it checks whether it can still improve.
const CYLINDERS_PER_CHECK: u32 = 8;

impl SearchBudget {
    /// Returns a budget of examined tracks. The tracks on the source and destination cylinders count, but are always examined.
    /// Even with the smallest budget, the nearest other cylinder that may win is examined, too.
    pub const fn tracks(tracks: u32) -> Self {
        Self { tracks, two_tracks: true }
    }

    /// Returns the budget for detours to one track each, as in the paper's planner (OSDI'00, section 4: the track on which most
    /// wanted blocks can be accessed). A core outside the drive ignores this.
    #[must_use]
    pub const fn one_track(self) -> Self {
        Self { two_tracks: false, ..self }
    }

    /// No limit: the search ends when nothing better can be found.
    pub const UNLIMITED: Self = Self::tracks(u32::MAX / LOOKUPS_PER_TRACK);

    /// Returns the budget less a number of tracks.
    pub(crate) fn less(self, tracks: u64) -> Self {
        Self { tracks: u64::from(self.tracks).saturating_sub(tracks) as u32, ..self }
    }

    /// Returns the budget in look-ups.
    pub(crate) const fn lookups(self) -> u32 {
        self.tracks.saturating_mul(LOOKUPS_PER_TRACK)
    }
}

impl Default for SearchBudget {
    /// Returns 75 tracks: under ten microseconds a gap, for 95% of the yield of an unlimited search on the Atlas 10K (`cargo
    /// run --release -p freeblock-sim --example feasibility -- TRACKS` prints both).
    fn default() -> Self {
        Self::tracks(75)
    }
}

/// The error of a lower bound on two seeks that assumes a concave seek curve: measured curves have dents, so that two seeks may
/// together be shorter. The error is computed once for each drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dent(Duration);

impl Dent {
    pub fn of(drive: &DriveModel) -> Self {
        let seek = drive.seek_profile();
        let last = drive.layout().cylinders().saturating_sub(1);
        // The upper concave hull is built from the left. The dent is the greatest distance of the curve's lower bound from it.
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

/// The extent of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The whole drive.
    Drive,
    /// The destination cylinder, the source cylinder and its neighbours (FAST'04, section 5.2).
    Near,
    /// The blocks that can be merged with the foreground's command only.
    Merged,
}

/// A wanted item in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WindowItem {
    /// The item's begin or end in the order of passing.
    at: u32,
    sectors: u32,
}

/// The constants of one drive, and buffers that searches reuse.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    dent: Dent,
    /// The number of sectors on the drive's densest track.
    densest: u64,
    on_source: Vec<WindowItem>,
    on_destination: Vec<WindowItem>,
    tracks: Vec<TrackIndex>,
}

impl Planner {
    pub fn new(drive: &DriveModel) -> Self {
        Self {
            dent: Dent::of(drive),
            densest: u64::from(drive.layout().densest_track()),
            on_source: Vec::new(),
            on_destination: Vec::new(),
            tracks: Vec::new(),
        }
    }

    /// Returns the best detour within the budget, and the cost of the search in tracks. With `terms` the detour consists of
    /// commands, for a core outside the drive.
    pub fn plan(
        &mut self,
        drive: &DriveModel,
        background: &mut Background,
        gap: &Gap,
        reach: Reach,
        budget: SearchBudget,
        terms: Option<&Terms<'_>>,
    ) -> (Option<Detour>, u32) {
        if background.is_idle() || gap.deadline <= gap.at {
            return (None, 0);
        }
        let two_tracks = budget.two_tracks;
        let budget = budget.lookups();
        let mut tally = SearchTally {
            best: Detour { score: gap.above, stops: [None; STOPS_MAX], merged: false },
            depth: background.depth().max(1),
            densest: self.densest,
            useful: Duration::ZERO,
            left: budget,
        };
        tally.sharpen(drive);
        let ops: &[Op] = match (background.has(Op::Write), background.has(Op::Read)) {
            (true, true) => &[Op::Write, Op::Read],
            (true, false) => &[Op::Write],
            (false, _) => &[Op::Read],
        };
        let mut search = Search {
            destination: drive.layout().track_ref(gap.destination),
            drive,
            background,
            gap: *gap,
            planner: self,
            ops,
            tally,
            terms,
            two_tracks,
        };
        search.run(reach);
        let SearchTally { best, left, .. } = search.tally;
        (best.stops[0].is_some().then_some(best), (budget - left).div_ceil(LOOKUPS_PER_TRACK))
    }
}

/// A search outward from the source or the destination in one direction.
#[derive(Clone, Copy, Debug)]
struct Side {
    origin: u32,
    /// The next cylinder; `None` past the last.
    next: Option<u32>,
    last: u32,
    down: bool,
}

impl Side {
    fn down(origin: u32, last: u32) -> Self {
        let next = origin.checked_sub(1).filter(|c| *c >= last);
        Self { origin, next, last, down: true }
    }

    fn up(origin: u32, last: u32) -> Self {
        Self { origin, next: (origin < last).then(|| origin + 1), last, down: false }
    }

    /// Returns the index, in any group, of the cylinder that the search meets first.
    #[inline]
    fn entry(&self) -> u32 {
        if self.down { GROUP_CYLINDERS - 1 } else { 0 }
    }

    #[inline]
    fn advance(&mut self, c: u32) {
        self.next = (c != self.last).then(|| if self.down { c - 1 } else { c + 1 });
    }

    fn skip_group(&mut self, c: u32) {
        let edge = if self.down {
            c / GROUP_CYLINDERS * GROUP_CYLINDERS
        } else {
            c / GROUP_CYLINDERS * GROUP_CYLINDERS + GROUP_CYLINDERS - 1
        };
        let edge = if self.down { edge.max(self.last) } else { edge.min(self.last) };
        self.advance(edge);
    }
}

/// The state of one search.
struct Search<'a> {
    drive: &'a DriveModel,
    background: &'a mut Background,
    planner: &'a mut Planner,
    gap: Gap,
    destination: TrackRef<'a>,
    /// The operations that sessions want.
    ops: &'static [Op],
    tally: SearchTally,
    /// The costs of commands, outside the drive.
    terms: Option<&'a Terms<'a>>,
    /// Whether a detour may use the source track and then the destination track.
    two_tracks: bool,
}

/// The results and the costs of a search so far.
struct SearchTally {
    best: Detour,
    /// The maximum of tasks that may want the same sector.
    depth: u64,
    /// The number of sectors on the drive's densest track.
    densest: u64,
    /// The shortest time in which more sectors than the best detour's can pass, on the drive's densest track.
    useful: Duration,
    /// The look-ups that are left of the budget.
    left: u32,
}

impl Search<'_> {
    fn run(&mut self, reach: Reach) {
        if reach == Reach::Merged {
            if let Some(terms) = self.terms {
                self.merge(terms);
            }
            return;
        }
        let (a, b) = (self.gap.from.cylinder.get(), self.destination.track().cylinder.get());
        self.source_and_destination();
        self.cylinder(a);
        if a != b {
            self.cylinder(b);
        }
        match reach {
            Reach::Drive | Reach::Merged => self.outward(a, b),
            Reach::Near => {
                let last = self.drive.layout().cylinders() - 1;
                for c in
                    [a.checked_sub(1), (a < last).then(|| a + 1)].into_iter().flatten().filter(|c| *c != b)
                {
                    self.cylinder(c);
                }
            }
        }
    }

    /// Tries the source track, the destination track, and the source track followed by the destination track.
    fn source_and_destination(&mut self) {
        if let Some(terms) = self.terms {
            return self.source_and_destination_by_command(terms);
        }
        let Gap { at, from, source, destination, op, deadline, .. } = self.gap;
        let there = Position::from(*self.destination.track());
        let destination_track = self.destination;
        for &work in self.ops {
            let arrive = at + self.drive.move_time(from, there, work);
            let time = TimeWindow { begin: arrive, end: deadline };
            self.tally.window(self.drive, self.background, &destination_track, work, time);
        }
        let Some(source) = source.filter(|s| *s != destination) else { return };
        let back = self.drive.move_time(from, there, op);
        let Some(leave) = deadline.checked_sub(back).filter(|leave| *leave > at) else { return };
        let source = self.drive.layout().track_ref(source);
        for &work in self.ops {
            let time = TimeWindow { begin: at, end: leave };
            self.tally.window(self.drive, self.background, &source, work, time);
        }
        if !self.two_tracks {
            return;
        }
        for &first in self.ops {
            for &second in self.ops {
                self.split(&source, leave, first, second);
            }
        }
    }

    /// Tries the source track first and the destination track for the rest of the gap, for the best instant of the change.
    fn split(&mut self, source: &TrackRef<'_>, leave: Instant, first_op: Op, second_op: Op) {
        let Gap { at, from, deadline, .. } = self.gap;
        let (rpm, there) = (self.drive.rpm(), self.destination);
        let (track, destination) = (*source.track(), *there.track());
        let crossing = self.drive.move_time(from, destination.into(), second_op);
        let arrive = at + crossing;
        // The time of the gap limits the number of sectors.
        let most = u64::from(track.sectors.max(destination.sectors));
        let arc = rpm.arc_in(deadline.saturating_since(arrive)).parts();
        if (arc * most / FULL_REVOLUTION + 2) * self.tally.depth <= self.tally.best.score {
            return;
        }
        let first = track.passing(rpm, at, leave);
        let second = TimeWindow { begin: arrive, end: deadline }.passing(self.drive, &destination);
        let revolution_before = revolution_before(self.drive, deadline);
        self.tally.spend(2 * LOOKUPS_PER_TRACK);
        let Planner { on_source, on_destination, .. } = &mut *self.planner;
        let list = |items: &mut Vec<WindowItem>, track: &TrackRef<'_>, window, op, by_end: bool| {
            items.clear();
            self.background.items(track, window, op, |FoundItem { item, passing, .. }| {
                let at = if by_end { passing + item.sectors } else { passing };
                items.push(WindowItem { at, sectors: item.sectors });
            });
            items.sort_unstable();
            items.iter().map(|item| u64::from(item.sectors)).sum::<u64>()
        };
        let gain = list(on_source, source, first, first_op, true);
        let mut remaining = list(on_destination, &there, second, second_op, false);
        if gain + remaining <= self.tally.best.score {
            return;
        }
        // The change to the destination track is tried after each item of the source track.
        let to_first = rpm.earliest_angle(at).until(track.sector_angle(first.first));
        let (mut gained, mut lost, mut found) = (0, 0, None);
        for &WindowItem { at: end, sectors } in on_source.iter() {
            gained += u64::from(sectors);
            let read = to_first + track.arc(first.first, end);
            let arrive = at + rpm.time_within(read) + crossing;
            if arrive > deadline {
                break;
            }
            let window = destination.passing(rpm, arrive.max(revolution_before), deadline);
            let missed = second.count.saturating_sub(window.count);
            while let Some(&WindowItem { sectors, .. }) = on_destination.get(lost).filter(|i| i.at < missed) {
                remaining -= u64::from(sectors);
                lost += 1;
            }
            if gained + remaining > self.tally.best.score {
                self.tally.best.score = gained + remaining;
                found = Some((end, window));
            }
        }
        if let Some((end, window)) = found {
            self.tally.best.merged = false;
            self.tally.best.stops = [
                Some(Stop { track: source.index(), op: first_op, first: first.first, count: end }),
                Some(Stop::new(&there, second_op, window)),
                None,
                None,
            ];
            self.tally.sharpen(self.drive);
        }
    }

    /// Tries the tracks of a cylinder, except source and destination.
    fn cylinder(&mut self, cylinder: u32) {
        let Gap { at, from, source, destination, op, deadline, .. } = self.gap;
        let drive = self.drive;
        if self.background.cylinder_bound(drive.layout(), cylinder) <= self.tally.best.score {
            return;
        }
        if let Some(terms) = self.terms {
            return self.cylinder_by_command(cylinder, terms);
        }
        let there = Position::from(*self.destination.track());
        let best = self.tally.best.score;
        let Self { background, tally, ops, .. } = self;
        let background = &**background;
        let promising = |index: TrackIndex| {
            index != destination
                && Some(index) != source
                && background.track_bound(index).is_none_or(|bound| bound > best)
        };
        for track in drive.layout().tracks_on_if(Cylinder::new(cylinder), promising) {
            // A better detour may have been found on this cylinder.
            if background.track_bound(track.index()).is_some_and(|bound| bound <= tally.best.score) {
                continue;
            }
            let position = Position::from(*track.track());
            let back = drive.move_time(position, there, op);
            let Some(leave) = deadline.checked_sub(back) else { continue };
            for &work in *ops {
                let arrive = at + drive.move_time(from, position, work);
                tally.window(drive, background, &track, work, TimeWindow { begin: arrive, end: leave });
            }
        }
    }

    /// Tries all other cylinders, those nearest to the source or the destination first, until no cylinder farther out can win
    /// or the budget is spent. At least one that may win is tried, so that a small budget does not starve distant blocks.
    fn outward(&mut self, a: u32, b: u32) {
        let cylinders = self.drive.layout().cylinders();
        let (low, high) = (a.min(b), a.max(b));
        // Between source and destination the two searches meet in the middle.
        let middle = low + (high - low) / 2;
        let mut sides = [
            Side::down(low, 0),
            Side::up(low, middle),
            Side::down(high, middle + 1),
            Side::up(high, cylinders - 1),
        ];
        let (mut k, mut tried) = (1, false);
        while (self.tally.left > 0 || !tried) && k < cylinders && self.reachable(k, high - low) {
            for side in &mut sides {
                tried |= self.side(side, k + CYLINDERS_PER_CHECK, a, b);
            }
            k += CYLINDERS_PER_CHECK;
        }
    }

    /// Continues the search on one side up to distance `until`, and returns whether a cylinder was tried.
    fn side(&mut self, side: &mut Side, until: u32, a: u32, b: u32) -> bool {
        let mut tried = false;
        let mut at_group = true;
        while let Some(c) = side.next.filter(|c| c.abs_diff(side.origin) < until) {
            if at_group || c % GROUP_CYLINDERS == side.entry() {
                at_group = false;
                self.tally.spend(1);
                if self.background.is_barren(c / GROUP_CYLINDERS, self.tally.best_sectors()) {
                    side.skip_group(c);
                    at_group = true;
                    continue;
                }
            }
            side.advance(c);
            self.tally.spend(1);
            if !self.background.is_promising(c, self.tally.best_sectors()) {
                continue;
            }
            if self.fits(a, b, c) {
                self.bounded_cylinder(c);
                tried = true;
                if self.tally.left == 0 {
                    break;
                }
            }
        }
        tried
    }

    /// Returns whether a cylinder at least `k` from both source and destination can still win.
    fn reachable(&self, k: u32, apart: u32) -> bool {
        let seek = self.drive.seek_profile();
        // Both seeks are at least `k`, and together at least `apart`, so the longer one is at least half of `apart`. On a
        // concave curve the sum is least if the shorter seek is `k`; the dent corrects for curves that are not concave.
        let plain = seek.lower_bound(k) + seek.lower_bound(k.max(apart.div_ceil(2)));
        let concave = seek.lower_bound(k) + seek.lower_bound(k.max(apart.saturating_sub(k)));
        let travel = plain.max(concave.saturating_sub(self.planner.dent.0 * 2));
        self.open_for() >= travel + self.tally.useful
    }

    /// Returns the time from the start of the gap to the deadline that is left for two seeks and the work.
    fn open_for(&self) -> Duration {
        let open = self.gap.deadline.saturating_since(self.gap.at) + self.drive.settle_credit();
        self.terms.map_or(open, |terms| open.saturating_sub(terms.least()))
    }

    /// Returns whether seeks to `c` and on to the destination leave enough time.
    fn fits(&self, a: u32, b: u32, c: u32) -> bool {
        let travel = self.drive.seek(a.abs_diff(c)) + self.drive.seek(c.abs_diff(b));
        self.open_for() >= travel + self.tally.useful
    }

    fn bounded_cylinder(&mut self, cylinder: u32) {
        if self.background.known_cylinder_bound(cylinder).is_none() {
            self.tally.spend(u32::from(self.drive.layout().heads()) * LOOKUPS_PER_BOUND);
        }
        self.cylinder(cylinder);
    }
}

impl SearchTally {
    /// Tries one operation on a track in a window of time.
    #[inline]
    fn window(
        &mut self,
        drive: &DriveModel,
        background: &Background,
        track: &TrackRef<'_>,
        op: Op,
        time: TimeWindow,
    ) {
        if time.is_empty() {
            return;
        }
        let window = time.passing(drive, track.track());
        if u64::from(window.count) * self.depth <= self.best.score {
            self.spend(1);
            return;
        }
        self.spend(LOOKUPS_PER_TRACK);
        let score = background.score(track, window, op);
        if score > self.best.score {
            self.best = Detour {
                score,
                stops: [Some(Stop::new(track, op, window)), None, None, None],
                merged: false,
            };
            self.sharpen(drive);
        }
    }

    /// Updates the shortest useful time after the best score has risen.
    fn sharpen(&mut self, drive: &DriveModel) {
        // The score that a detour must exceed may be larger than any detour's.
        let sectors = (self.best.score / self.depth).min(self.densest * STOPS_MAX as u64);
        let arc = Arc::from_parts(sectors * (FULL_REVOLUTION / self.densest.max(1)));
        self.useful = drive.rpm().time_within(arc);
    }

    /// Returns the best score, limited to the range of the tables of bounds.
    #[inline]
    fn best_sectors(&self) -> u32 {
        self.best.score.min(u64::from(u32::MAX - 2)) as u32
    }

    #[inline]
    fn spend(&mut self, lookups: u32) {
        self.left = self.left.saturating_sub(lookups);
    }
}

#[cfg(test)]
mod tests;
