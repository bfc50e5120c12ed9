//! The search for a detour that consists of commands, which are ranges of LBNs with costs in time.
//!
//! FAST'02, section 4.3: a detour is one command for consecutive LBNs; blocks on the destination track are requested
//! together with the foreground request, by a lower first LBN and a larger count.

use super::terms::{FirstSector, Neighbour, Terms};
use super::{Detour, Gap, STOPS_MAX, Search, Stop, WindowItem};
use crate::background::FoundItem;
use crate::bounds::LOOKUPS_PER_TRACK;
use crate::time_window::{TimeWindow, revolution_before};
use alloc::vec::Vec;
use model::{Position, TrackRef, Window};
use units::{Cylinder, Duration, Lbn, Op, Sectors, TrackIndex};

/// The stops of a detour.
type Stops = [Option<Stop>; STOPS_MAX];

const NO_DETOUR: Detour = Detour { score: 0, stops: [None; STOPS_MAX], merged: false };

impl Search<'_> {
    /// Tries the sectors before the request on the destination track, merged with its command; separate commands on the
    /// destination and on the source track; and the source track followed by the destination track.
    pub(super) fn source_and_destination_by_command(&mut self, terms: &Terms<'_>) {
        self.merge(terms);
        for &work in self.ops {
            self.destination_by_command(work, terms);
        }
        let usable = |s: &TrackIndex| terms.source_track && *s != self.destination.index();
        let Some(source) = self.gap.source.filter(usable) else { return };
        let source = self.drive.layout().track_ref(source);
        for &work in self.ops {
            if let Some(time) = self.source_window(&source, work, terms) {
                let found = self.best_parts(&source, work, time, terms);
                self.consider(found);
                self.split_by_command(&source, time, work, terms);
            }
        }
    }

    /// Returns the window of time in which sectors of the source track may be requested.
    fn source_window(&self, source: &TrackRef<'_>, work: Op, terms: &Terms<'_>) -> Option<TimeWindow> {
        let Gap { at, from, op, deadline, .. } = self.gap;
        let there = Position::from(*self.destination.track());
        let back = self.drive.move_time(from, there, op);
        let widened = back + (terms.margin)(from.cylinder.distance(there.cylinder));
        let end = deadline.checked_sub(widened + terms.between(work))?;
        let time = TimeWindow { begin: (at + terms.before(work)).max(terms.ready(work)), end };
        if time.is_empty() || terms.second(op) + back > deadline {
            return None;
        }
        let allows = |backward, touching| {
            (terms.allows)(Neighbour { first: terms.last.op, second: work, backward, touching })
        };
        let layout = self.drive.layout();
        let last = terms.last.end.get().checked_sub(1).and_then(|lbn| layout.locate(Lbn::new(lbn)));
        let behind = last.filter(|at| at.track == source.index());
        let behind = behind.map(|at| (at.sector + 1) % source.track().sectors);
        let all = time.last_revolution(self.drive);
        // Sectors of the source track lie behind the last command and ahead of it: parts with a forbidden relation to that
        // command are cut off at either end.
        let (mut time, mut seen) = (all, 0);
        let rpm = self.drive.rpm();
        let track = source.track();
        let window = track.passing(rpm, all.begin, all.end);
        straight_parts(source, window, |Window { first: sector, count: sectors }| {
            let backward = lbn_of(source, sector).is_some_and(|first| first < terms.last.end);
            let touching = seen == 0 && behind == Some(sector);
            if !allows(backward, touching) {
                // If only touching is forbidden, one sector between the commands is enough.
                let sectors = if touching && allows(backward, false) { 1 } else { sectors };
                let wait = rpm.earliest_angle(all.begin).until(track.sector_angle(sector));
                let after = |arc| all.begin + rpm.time_within(arc);
                if seen == 0 {
                    time.begin = time.begin.max(after(wait + track.arc(sector, sectors)));
                } else {
                    time.end = time.end.min(after(wait));
                }
            }
            seen += 1;
        });
        (!time.is_empty()).then_some(time)
    }

    /// Tries separate commands on the destination track, before the foreground's: for sectors on the other side of the track's
    /// end, or for sectors that the foreground's command cannot transfer because it has another operation.
    fn destination_by_command(&mut self, work: Op, terms: &Terms<'_>) {
        let Gap { at, from, op, deadline, .. } = self.gap;
        let track = self.destination;
        let Some(FirstSector { lbn, .. }) = terms.merge else { return };
        let to = Position::from(*track.track());
        let widened =
            if from == to { Duration::ZERO } else { (terms.margin)(from.cylinder.distance(to.cylinder)) };
        let arrive = at + terms.before(work) + self.drive.move_time(from, to, work) + widened;
        let arrive = arrive.max(terms.ready(work));
        let turnaround = if work == op { Duration::ZERO } else { terms.turnaround(work, op) };
        let Some(end) = deadline.checked_sub(turnaround) else { return };
        let time = TimeWindow { begin: arrive, end };
        if time.is_empty() || terms.second(op) > deadline {
            return;
        }
        let window = time.passing(self.drive, track.track());
        if u64::from(window.count) * self.tally.depth <= self.tally.best.score {
            return;
        }
        self.tally.spend(LOOKUPS_PER_TRACK);
        let allows =
            |backward| (terms.allows)(Neighbour { first: work, second: op, backward, touching: false });
        let (stops, merged) = self.before_foreground(&track, work, window, lbn, terms, allows);
        self.consider(self.scored(stops, merged));
    }

    /// Returns the commands for a window on the destination track that ends at the foreground's first sector, and whether the
    /// last one is merged with the foreground's command.
    fn before_foreground(
        &self,
        track: &TrackRef<'_>,
        work: Op,
        window: Window,
        lbn: Lbn,
        terms: &Terms<'_>,
        allows: impl Fn(bool) -> bool,
    ) -> (Stops, bool) {
        let op = self.gap.op;
        let mut parts = [Window::default(); 2];
        let mut found = 0;
        straight_parts(track, window, |part| {
            if found < 2 {
                parts[found] = part;
            }
            found += 1;
        });
        let stop = |window| Stop::new(track, work, window);
        let backward = |part: Window| lbn_of(track, part.first).is_some_and(|first| first > lbn);
        // If an LBN between the part and the request lies on a spare sector elsewhere, the part does not adjoin the request.
        let adjoins = |Window { first, count }: Window| {
            let sectors = track.track().sectors;
            let last = count.checked_sub(1).and_then(|before| lbn_of(track, (first + before) % sectors));
            last.is_some_and(|last| last + Sectors::new(1) == lbn)
        };
        let none = [None; STOPS_MAX];
        let across = |second| Neighbour { first: work, second, backward: true, touching: false };
        match (found, parts) {
            // Only sectors directly before the foreground's are merged with it.
            (1, [part, _]) if work == op && adjoins(part) => ([Some(stop(part)), None, None, None], true),
            (1, [part, _]) if allows(backward(part)) => {
                let cut = if work == op { terms.skipped(self.drive, track, across(op)) } else { 0 };
                match part.count.checked_sub(cut).filter(|n| *n > 0) {
                    Some(count) => ([Some(stop(Window { count, ..part })), None, None, None], false),
                    None => (none, false),
                }
            }
            (2, [far, near]) if work == op && allows(true) && adjoins(near) => {
                match self.both_sides(track, across(op), [far, near], true) {
                    Some(stops) => (stops, true),
                    None => (none, false),
                }
            }
            (2, [far, near]) if work != op => {
                if allows(false)
                    && (terms.allows)(across(work))
                    && let Some(stops) = self.both_sides(track, across(work), [far, near], false)
                {
                    return (stops, false);
                }
                let far = allows(true).then(|| stop(far));
                let near = allows(false).then(|| stop(near));
                match (far, near) {
                    (Some(far), None) => ([Some(far), None, None, None], false),
                    (_, near) => ([near, None, None, None], false),
                }
            }
            _ => (none, false),
        }
    }

    /// Returns two commands on both sides of a track's end. The sectors that must pass between them are left out of the
    /// command that loses fewer wanted sectors: if it were always the second, the first sectors of every track would remain
    /// at the end of a scan.
    fn both_sides(
        &self,
        track: &TrackRef<'_>,
        across: Neighbour,
        [first, second]: [Window; 2],
        merged: bool,
    ) -> Option<Stops> {
        let work = across.first;
        let skipped = self.terms?.skipped(self.drive, track, across);
        let stop = |window| Some(Stop::new(track, work, window));
        let shorter = |count: u32| count.checked_sub(skipped).filter(|left| *left > 0);
        let later = shorter(second.count)
            .map(|count| [stop(first), stop(Window { first: second.first + skipped, count }), None, None]);
        let sooner =
            shorter(first.count).map(|count| [stop(Window { count, ..first }), stop(second), None, None]);
        let score = |stops: &Stops| self.score_of(stops, merged);
        later.into_iter().chain(sooner).reduce(|a, b| if score(&b) > score(&a) { b } else { a })
    }

    fn score_of(&self, stops: &Stops, merged: bool) -> u64 {
        let last = stops.iter().flatten().count();
        let layout = self.drive.layout();
        let stops = stops.iter().flatten().enumerate();
        stops
            .map(|(i, stop)| {
                let track = layout.track_ref(stop.track);
                match stop.op {
                    Op::Read => self.background.score(&track, stop.window(), stop.op),
                    Op::Write => {
                        let to_end = merged && i + 1 == last;
                        self.background.longest_write(&track, stop.window(), to_end, true).sectors.into()
                    }
                }
            })
            .sum()
    }

    fn scored(&self, stops: Stops, merged: bool) -> Detour {
        Detour { score: self.score_of(&stops, merged), stops, merged }
    }

    fn consider(&mut self, detour: Detour) {
        if detour.score <= self.tally.best.score {
            return;
        }
        self.tally.best = detour;
        self.tally.sharpen(self.drive);
    }

    /// Tries the source track first and then the destination track up to the request, for the best instant of the change.
    fn split_by_command(&mut self, source: &TrackRef<'_>, time: TimeWindow, work: Op, terms: &Terms<'_>) {
        let Gap { from, op, deadline, .. } = self.gap;
        let Some(FirstSector { lbn, sector }) = terms.merge else { return };
        let turnaround = if work == op { Duration::ZERO } else { terms.turnaround(work, op) };
        let Some(deadline) = deadline.checked_sub(turnaround) else { return };
        let before =
            |backward| (terms.allows)(Neighbour { first: work, second: op, backward, touching: false });
        if work != op && !before(false) {
            return;
        }
        let (rpm, there) = (self.drive.rpm(), self.destination);
        let (track, destination) = (*source.track(), *there.track());
        let to = Position::from(destination);
        let crossing =
            self.drive.move_time(from, to, work) + (terms.margin)(from.cylinder.distance(to.cylinder));
        let arrive = time.begin + crossing;
        if arrive >= deadline {
            return;
        }
        let first = track.passing(rpm, time.begin, time.end);
        let revolution_before = revolution_before(self.drive, deadline);
        let second = destination.passing(rpm, arrive.max(revolution_before), deadline);
        // If two commands across the track's end are not allowed, only sectors on the request's side of it are used.
        let backward =
            (terms.allows)(Neighbour { first: work, second: work, backward: true, touching: false });
        let near = if backward { second.count } else { second.count.min(sector) };
        if u64::from(first.count.min(near) + second.count) * self.tally.depth <= self.tally.best.score {
            return;
        }
        self.tally.spend(2 * LOOKUPS_PER_TRACK);
        let super::Planner { on_source, on_destination, .. } = &mut *self.planner;
        let list = |items: &mut Vec<WindowItem>, track: &TrackRef<'_>, window, by_end: bool| {
            items.clear();
            self.background.items(track, window, work, |FoundItem { item, passing, .. }| {
                let at = if by_end { passing + item.sectors } else { passing };
                items.push(WindowItem { at, sectors: item.sectors });
            });
            items.sort_unstable();
        };
        list(on_source, source, first, true);
        list(on_destination, &there, second, false);
        let far = second.count - near;
        on_destination.retain(|item| item.at >= far);
        let mut remaining: u64 = on_destination.iter().map(|item| u64::from(item.sectors)).sum();
        let to_first = rpm.earliest_angle(time.begin).until(track.sector_angle(first.first));
        let (mut gained, mut lost, mut found) = (0, 0, None);
        for &WindowItem { at: end, sectors } in on_source.iter() {
            gained += u64::from(sectors);
            let arrive = time.begin + rpm.time_within(to_first + track.arc(first.first, end)) + crossing;
            if arrive >= deadline {
                break;
            }
            let window = destination.passing(rpm, arrive.max(revolution_before), deadline);
            let missed = second.count.saturating_sub(window.count);
            while let Some(&WindowItem { sectors, .. }) = on_destination.get(lost).filter(|i| i.at < missed) {
                remaining -= u64::from(sectors);
                lost += 1;
            }
            if gained + remaining > self.tally.best.score.max(found.map_or(0, |(score, _, _)| score)) {
                found = Some((gained + remaining, end, window));
            }
        }
        let Some((_, end, mut left)) = found else { return };
        if !backward && left.count > sector {
            let first = (left.first + (left.count - sector)) % destination.sectors;
            left = Window { first, count: sector };
        }
        let at_source = self.best_parts_of(source, work, Window { count: end, ..first }, terms).stops;
        let allows = |b| if work == op { b && backward } else { before(b) };
        let (behind, merged) = self.before_foreground(&there, work, left, lbn, terms, allows);
        let stops = [at_source[0], at_source[1], behind[0], behind[1]];
        let mut packed = [None; STOPS_MAX];
        packed.iter_mut().zip(stops.into_iter().flatten()).for_each(|(slot, stop)| *slot = Some(stop));
        self.consider(self.scored(packed, merged));
    }

    pub(super) fn merge(&mut self, terms: &Terms<'_>) {
        let Some(FirstSector { lbn, sector }) = terms.merge else { return };
        let Gap { at, from, op, deadline, .. } = self.gap;
        let track = self.destination;
        if !self.ops.contains(&op) {
            return;
        }
        let to = Position::from(*track.track());
        let distance = from.cylinder.distance(to.cylinder);
        let widened = if from == to { Duration::ZERO } else { (terms.margin)(distance) };
        let arrive = at + terms.before(op) + self.drive.move_time(from, to, op) + widened;
        let arrive = arrive.max(terms.ready(op));
        let time = TimeWindow { begin: arrive, end: deadline };
        if time.is_empty() {
            return;
        }
        let Window { count, .. } = time.passing(self.drive, track.track());
        // The sectors before the request with consecutive LBNs, on the request's side of the track's end, can be merged.
        let (mut begin, mut next) = (sector, None);
        for extent in track.extents().take_while(|e| e.sector <= sector) {
            if next != Some(extent.lbn) {
                begin = extent.sector;
            }
            next = Some(extent.lbn + Sectors::new(u64::from(extent.len)));
        }
        if next.is_none_or(|next| next <= lbn) {
            return;
        }
        let count = count.min(sector - begin);
        let stop = Stop { track: track.index(), op, first: sector - count, count };
        self.consider(self.scored([Some(stop), None, None, None], true));
    }

    /// Tries the tracks of a cylinder, except source, destination and the forbidden ones.
    pub(super) fn cylinder_by_command(&mut self, cylinder: u32, terms: &Terms<'_>) {
        let Gap { source, destination, .. } = self.gap;
        let (drive, best) = (self.drive, self.tally.best.score);
        let mut tracks = core::mem::take(&mut self.planner.tracks);
        tracks.clear();
        let background = &*self.background;
        let promising = |index: TrackIndex| {
            index != destination
                && Some(index) != source
                && !terms.not_on.contains(&index)
                && background.track_bound(index).is_none_or(|bound| bound > best)
        };
        tracks.extend(drive.layout().tracks_on_if(Cylinder::new(cylinder), promising).map(|t| t.index()));
        for &track in &tracks {
            if self.background.track_bound(track).is_none_or(|bound| bound > self.tally.best.score) {
                self.track_by_command(&drive.layout().track_ref(track), terms);
            }
        }
        self.planner.tracks = tracks;
    }

    /// Tries a track with one command or two.
    fn track_by_command(&mut self, track: &TrackRef<'_>, terms: &Terms<'_>) {
        let Gap { at, from, op, deadline, .. } = self.gap;
        let there = Position::from(*self.destination.track());
        let position = Position::from(*track.track());
        let widened = |a: Position, b: Position| (terms.margin)(a.cylinder.distance(b.cylinder));
        let plain = self.drive.move_time(position, there, op);
        if terms.second(op) + plain > deadline {
            return;
        }
        let back = plain + widened(position, there);
        let go_widened = widened(from, position);
        for &work in self.ops {
            let Some(leave) = deadline.checked_sub(back + terms.between(work)) else { continue };
            let arrive = at + terms.before(work) + self.drive.move_time(from, position, work) + go_widened;
            let arrive = arrive.max(terms.ready(work));
            let time = TimeWindow { begin: arrive, end: leave };
            if !time.is_empty() {
                let found = self.best_parts(track, work, time, terms);
                self.consider(found);
            }
        }
    }

    /// Returns the best one or two commands on a track in a window of time.
    fn best_parts(&mut self, track: &TrackRef<'_>, op: Op, time: TimeWindow, terms: &Terms<'_>) -> Detour {
        let window = time.passing(self.drive, track.track());
        if u64::from(window.count) * self.tally.depth <= self.tally.best.score {
            self.tally.spend(1);
            return NO_DETOUR;
        }
        self.tally.spend(LOOKUPS_PER_TRACK);
        self.best_parts_of(track, op, window, terms)
    }

    /// Returns the best one or two commands for a window of sectors.
    fn best_parts_of(&self, track: &TrackRef<'_>, op: Op, window: Window, terms: &Terms<'_>) -> Detour {
        let mut best = NO_DETOUR;
        let mut parts = [Window::default(); 2];
        let mut found = 0;
        let score_of = |part| match op {
            Op::Read => self.background.score(track, part, op),
            Op::Write => self.background.longest_write(track, part, false, true).sectors.into(),
        };
        let stop = |window| Some(Stop::new(track, op, window));
        let mut both = 0;
        straight_parts(track, window, |part| {
            let score = score_of(part);
            if score > best.score {
                best = Detour { score, stops: [stop(part), None, None, None], merged: false };
            }
            if found < 2 {
                parts[found] = part;
            }
            both += score;
            found += 1;
        });
        let across = Neighbour { first: op, second: op, backward: true, touching: false };
        if found == 2
            && both > best.score
            && (terms.allows)(across)
            && let Some(stops) = self.both_sides(track, across, parts, false)
        {
            let both = self.scored(stops, false);
            if both.score > best.score {
                best = both;
            }
        }
        best
    }
}

fn lbn_of(track: &TrackRef<'_>, sector: u32) -> Option<Lbn> {
    let extent = track.extents().find(|e| e.sector <= sector && sector < e.sector + e.len)?;
    Some(extent.lbn + Sectors::new(u64::from(sector - extent.sector)))
}

/// Calls `each` with the parts of a window that have consecutive LBNs, in the order of passing. A slipped sector between two
/// LBNs does not end a part.
pub(crate) fn straight_parts(
    track: &TrackRef<'_>,
    Window { first, count }: Window,
    mut each: impl FnMut(Window),
) {
    let sectors = track.track().sectors;
    let end = first + count;
    let mut segment = |from: u32, to: u32| {
        let mut run: Option<(u32, u32, Lbn)> = None;
        for extent in track.extents() {
            let (begin, past) = (extent.sector.max(from), (extent.sector + extent.len).min(to));
            if begin >= past {
                continue;
            }
            let lbn = |sector: u32| extent.lbn + Sectors::new(u64::from(sector - extent.sector));
            run = match run {
                Some((start, _, next)) if next == lbn(begin) => Some((start, past, lbn(past))),
                before => {
                    if let Some((start, past, _)) = before {
                        each(Window { first: start, count: past - start });
                    }
                    Some((begin, past, lbn(past)))
                }
            };
        }
        if let Some((start, past, _)) = run {
            each(Window { first: start, count: past - start });
        }
    };
    segment(first, end.min(sectors));
    if end > sectors {
        segment(0, end - sectors);
    }
}
