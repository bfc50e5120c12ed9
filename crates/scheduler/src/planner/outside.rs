//! The search for a detour by commands: what can be asked for in LBNs, and what that costs in time.
//!
//! FAST'02, section 4.3: a detour is one command for LBNs that follow each other; what lies on the destination track is
//! asked for together with the foreground request, with a lower first LBN and a larger count.

use super::{Detour, Gap, LOOKUPS_PER_TRACK, Passing, Search, Stop, last_turn};
use model::{Position, TrackRef};
use units::{Cylinder, Duration, FULL_TURN, Instant, Lbn, Op, Sectors, TrackIndex};

/// What commands allow and cost.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// By how much a move over so many cylinders is widened in a detour.
    pub margin: &'a dyn Fn(u32) -> Duration,
    /// No move over a cylinder or more is widened by less.
    pub least_margin: Duration,
    /// From the gap's beginning until the arm sets out for a first command, to read or to write.
    pub before: [Duration; 2],
    /// The same between a detour that reads or writes and the foreground's command.
    pub between: [Duration; 2],
    /// Tracks that no command of a detour may be on, beside source and destination.
    pub not_on: &'a [TrackIndex],
    /// Whether a command that reads or writes may be on the source track, or the destination's.
    pub on_source: [bool; 2],
    pub on_destination: [bool; 2],
    pub both_sides: bool,
    /// The foreground's first LBN and the sector that it is on; nothing can be merged with a request that is to be in
    /// order with others.
    pub merge: Option<(Lbn, u32)>,
}

impl Terms<'_> {
    fn before(&self, op: Op) -> Duration {
        self.before[usize::from(op.is_write())]
    }

    fn between(&self, op: Op) -> Duration {
        self.between[usize::from(op.is_write())]
    }

    /// What any detour that is a command of its own costs at least, beside bare seeks.
    pub fn least(&self) -> Duration {
        let fewest = |d: [Duration; 2]| d[0].min(d[1]);
        fewest(self.before) + fewest(self.between) + self.least_margin * 2
    }
}

impl Search<'_> {
    /// The destination's sectors before the request, to be had with it; and what may be asked for on its own on the two
    /// tracks.
    pub(super) fn source_and_destination_by_command(&mut self, terms: &Terms<'_>) {
        self.merge(terms);
        let (source, destination) = (self.gap.source, self.destination);
        self.track_by_command(&destination, terms, terms.on_destination);
        if let Some(source) = source.filter(|s| terms.on_source != [false; 2] && *s != destination.index()) {
            let source = self.drive.layout().track_ref(source);
            self.track_by_command(&source, terms, terms.on_source);
        }
    }

    pub(super) fn merge(&mut self, terms: &Terms<'_>) {
        let Some((lbn, sector)) = terms.merge else { return };
        let Gap { at, from, op, deadline, .. } = self.gap;
        let track = self.destination;
        if !self.ops.contains(&op) {
            return;
        }
        let to = Position::from(*track.track());
        let distance = from.cylinder.distance(to.cylinder);
        let widened = if from == to { Duration::ZERO } else { (terms.margin)(distance) };
        let arrive = at + terms.before(op) + self.drive.move_time(from, to, op) + widened;
        if arrive >= deadline {
            return;
        }
        let from = last_turn(self.drive, arrive, deadline);
        let (_, count) = track.track().passing(self.drive.rpm(), from, deadline);
        // Backward from the request while the LBNs go on, on this side of the track's end.
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
        self.consider(&track, op, &[(sector - count, count)], true);
    }

    /// Every other track of a cylinder.
    pub(super) fn cylinder_by_command(&mut self, cylinder: u32, terms: &Terms<'_>) {
        let Gap { source, destination, .. } = self.gap;
        let (drive, best) = (self.drive, self.tally.best.score);
        let mut tracks = std::mem::take(&mut self.planner.tracks);
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
                self.track_by_command(&drive.layout().track_ref(track), terms, [true; 2]);
            }
        }
        self.planner.tracks = tracks;
    }

    /// A command of its own, or two, on a track.
    pub(super) fn track_by_command(&mut self, track: &TrackRef<'_>, terms: &Terms<'_>, allowed: [bool; 2]) {
        if allowed == [false; 2] {
            return;
        }
        let Gap { at, from, op, deadline, .. } = self.gap;
        let there = Position::from(*self.destination.track());
        let position = Position::from(*track.track());
        let widened = |a: Position, b: Position| match a == b {
            true => Duration::ZERO,
            false => (terms.margin)(a.cylinder.distance(b.cylinder)),
        };
        let back = self.drive.move_time(position, there, op) + widened(position, there);
        let go_widened = widened(from, position);
        for &work in self.ops.iter().filter(|op| allowed[usize::from(op.is_write())]) {
            let Some(leave) = deadline.checked_sub(back + terms.between(work)) else { continue };
            let arrive = at + terms.before(work) + self.drive.move_time(from, position, work) + go_widened;
            if arrive < leave {
                self.straight_window(track, work, (arrive, leave), terms);
            }
        }
    }

    /// The best part of a window that one command, or two, can ask for.
    fn straight_window(
        &mut self,
        track: &TrackRef<'_>,
        op: Op,
        (from, until): (Instant, Instant),
        terms: &Terms<'_>,
    ) {
        let from = last_turn(self.drive, from, until);
        let (first, count) = track.track().passing(self.drive.rpm(), from, until);
        if u64::from(count) * self.tally.depth <= self.tally.best.score {
            self.tally.spend(1);
            return;
        }
        self.tally.spend(LOOKUPS_PER_TRACK);
        let mut parts: [Passing; 2] = [(0, 0); 2];
        let mut found = 0;
        straight_parts(track, (first, count), |part| {
            self.consider(track, op, &[part], false);
            if found < 2 {
                parts[found] = part;
            }
            found += 1;
        });
        if terms.both_sides && found == 2 {
            // The arm is under way for the second command only when the first is done.
            let rpm = self.drive.rpm();
            let lost = terms.before(op).max(terms.between(op));
            let sectors = track.track().sectors;
            let skipped = rpm.arc_in(lost).parts() * u64::from(sectors) / FULL_TURN + 1;
            let (second, count) = parts[1];
            let skipped = skipped as u32;
            if skipped < count {
                self.consider(track, op, &[parts[0], (second + skipped, count - skipped)], false);
            }
        }
    }

    fn consider(&mut self, track: &TrackRef<'_>, op: Op, parts: &[Passing], merged: bool) {
        let score: u64 = parts
            .iter()
            .filter(|part| part.1 > 0)
            .map(|&part| match op {
                Op::Read => self.background.score(track, part, op),
                Op::Write => self.background.longest_write(track, part, merged).1.into(),
            })
            .sum();
        if score > self.tally.best.score {
            let stop = |part: Option<&Passing>| {
                part.map(|&(first, count)| Stop { track: track.index(), op, first, count })
            };
            self.tally.best = Detour { score, stops: [stop(parts.first()), stop(parts.get(1))], merged };
            self.tally.sharpen(self.drive);
        }
    }
}

/// The parts of a window whose LBNs follow each other, in the order of passing: `(first sector, sectors)`. A slipped
/// sector between two LBNs is passed over.
pub(crate) fn straight_parts(
    track: &TrackRef<'_>,
    (first, count): (u32, u32),
    mut each: impl FnMut(Passing),
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
                        each((start, past - start));
                    }
                    Some((begin, past, lbn(past)))
                }
            };
        }
        if let Some((start, past, _)) = run {
            each((start, past - start));
        }
    };
    segment(first, end.min(sectors));
    if end > sectors {
        segment(0, end - sectors);
    }
}
