//! The correction of the profile's moves, from the revolutions in which commands were done.
//!
//! A probe with one read at a time measures the sum of a command's overhead and its seek. Behind another command the
//! overhead is hidden, and the seek alone counts. And the probe cannot know the settle time of writes. Each of these errors is
//! one number for all moves of a kind. A completion shows whether the head was ready when the first sector began to pass. The
//! share of ready heads, as a function of the time since the arrival by the profile, rises from none to all at the true arrival.
//! The correction is the time that the fewest completions contradict.

use super::clock::nanos;
use super::forecast::{Forecast, SetOut};
use super::record::Observation;
use super::{Order, Outside};
use crate::core::Core;
use crate::core::config::Overheads;
use crate::core::under_way::revolution;
use crate::planner::Planner;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use model::DriveModel;
use units::{Duration, Op};

/// Width of a bin: 10 us.
const BIN_NS: i64 = 10_000;

/// The number of bins on each side of the profile's arrival: up to 1.6 ms, more than the settle time of any measured drive.
const BINS_PER_SIDE: i64 = 160;

/// The largest correction is 1 part in this number of a revolution: beyond it, early and late cannot be distinguished.
const CORRECTION_DIVISOR: i64 = 4;

/// Another correction replaces the current one only if fewer completions contradict it, by at least this number.
const LEAD_COMPLETIONS_MIN: i64 = 12;
/// The difference in contradicting completions must also be at least this many standard deviations of chance.
const LEAD_DEVIATIONS_MIN: i64 = 4;

/// Corrections closer than this many bins count as equal: 30 us.
const EQUAL_CORRECTIONS_BINS_MAX: usize = 3;

/// The correction is accepted if at most one in this many completions contradicts it; otherwise the profile is wrong in
/// another way.
const COMPLETIONS_PER_CONTRADICTION_MIN: i64 = 12;

/// The number of completions between two searches for a better correction.
const COMPLETIONS_PER_SEARCH: u32 = 64;
/// The number of completions after which half of the counts is discarded, so that old ones are forgotten.
const COMPLETIONS_COUNTED_MAX: u32 = 1 << 14;

/// The number of commands whose first sector began to pass in one bin of time, and of those whose head was ready.
#[derive(Clone, Copy, Debug, Default)]
struct HeadCounts {
    all: u32,
    ready: u32,
}

/// The counts of one kind of move, by the time at which the first sector began to pass.
#[derive(Clone, Debug)]
struct MoveCounts {
    bins: Vec<HeadCounts>,
    noted: u32,
    fresh: u32,
}

impl Default for MoveCounts {
    fn default() -> Self {
        Self { bins: vec![HeadCounts::default(); 2 * BINS_PER_SIDE as usize], noted: 0, fresh: 0 }
    }
}

impl MoveCounts {
    /// Records a first sector that began to pass `ns` after the profile's arrival, and whether the head was ready.
    fn note(&mut self, ns: i64, ready: bool) {
        let bin = usize::try_from(ns.div_euclid(BIN_NS) + BINS_PER_SIDE).ok();
        let Some(bin) = bin.and_then(|bin| self.bins.get_mut(bin)) else { return };
        *bin = HeadCounts { all: bin.all + 1, ready: bin.ready + u32::from(ready) };
        (self.noted, self.fresh) = (self.noted + 1, self.fresh + 1);
        if self.noted >= COMPLETIONS_COUNTED_MAX {
            self.noted /= 2;
            self.bins.iter_mut().for_each(|bin| *bin = HeadCounts { all: bin.all / 2, ready: bin.ready / 2 });
        }
    }

    /// Returns the true arrival, in ns after the profile's, if it is clearly not the assumed one, `now`. An arrival is
    /// contradicted by heads that were ready before it and by heads that were not ready after it.
    fn found(&mut self, now: i64) -> Option<i64> {
        if self.fresh < COMPLETIONS_PER_SEARCH {
            return None;
        }
        self.fresh = 0;
        let place = |edge: usize| (edge as i64 - BINS_PER_SIDE) * BIN_NS;
        let present = (now.div_euclid(BIN_NS) + BINS_PER_SIDE).clamp(0, 2 * BINS_PER_SIDE) as usize;
        let all: i64 = self.bins.iter().map(|bin| i64::from(bin.all)).sum();
        // An arrival before the first bin is contradicted by each head that was not ready.
        let mut against: i64 = self.bins.iter().map(|bin| i64::from(bin.all - bin.ready)).sum();
        let mut best = (against, 0);
        let mut against_present = against;
        for (edge, bin) in (1..).zip(&self.bins) {
            against += 2 * i64::from(bin.ready) - i64::from(bin.all);
            if edge == present {
                against_present = against;
            }
            if (against, present.abs_diff(edge)) < (best.0, present.abs_diff(best.1)) {
                best = (against, edge);
            }
        }
        let between = self.bins.get(present.min(best.1)..present.max(best.1)).unwrap_or_default();
        let chance: i64 = between.iter().map(|bin| i64::from(bin.all)).sum();
        let gained = against_present - best.0;
        let clear = gained >= LEAD_COMPLETIONS_MIN
            && gained * gained >= LEAD_DEVIATIONS_MIN * LEAD_DEVIATIONS_MIN * chance
            && between.len() >= EQUAL_CORRECTIONS_BINS_MAX;
        // If the best arrival is at either end of the bins, the true arrival is outside them.
        let inside = best.1 > 0 && best.1 < self.bins.len();
        (clear && inside && best.0 * COMPLETIONS_PER_CONTRADICTION_MIN <= all).then(|| place(best.1))
    }
}

/// The corrections of moves. Each array of two has a value for reads and one for writes.
#[derive(Clone, Debug)]
pub(super) struct Correction {
    /// The counts of commands behind another one, and of commands sent to an idle drive.
    queued: [MoveCounts; 2],
    alone: [MoveCounts; 2],
    /// The corrections of moves and of commands' overheads, in ns.
    moves: [i64; 2],
    commands: [i64; 2],
    /// The overheads of the profile.
    profile: Overheads,
    /// The uncorrected drive model, once there is a correction.
    drive: Option<Arc<DriveModel>>,
    /// The largest correction, in ns.
    most: i64,
    changed: bool,
    /// Whether the last completion was explained; if not, the start of the next command is unknown.
    sure: bool,
}

impl Correction {
    pub fn new(drive: &DriveModel, overheads: &Overheads) -> Self {
        Self {
            queued: Default::default(),
            alone: Default::default(),
            moves: [0; 2],
            commands: [0; 2],
            profile: *overheads,
            drive: None,
            most: (nanos(revolution(drive)) / CORRECTION_DIVISOR).min(BINS_PER_SIDE * BIN_NS),
            changed: false,
            sure: false,
        }
    }

    /// Records a completion against its forecast.
    pub fn note(&mut self, drive: &DriveModel, op: Op, predicted: &Forecast, seen: &Observation) {
        let sure = core::mem::replace(&mut self.sure, seen.explained) && seen.explained;
        // A head switch without a seek has a time of its own; if the shortest seek hides that time, a probe knows only a bound.
        let tells = sure && predicted.distance > 0 && !predicted.in_two_parts;
        let Some(set_out) = predicted.set_out.filter(|_| tells) else { return };
        let revolutions = seen.revolutions;
        let of = usize::from(op.is_write());
        let applied = self.moves[of] + if set_out == SetOut::Alone { self.commands[of] } else { 0 };
        let ready = match set_out {
            SetOut::Queued => &mut self.queued[of],
            SetOut::Alone => &mut self.alone[of],
        };
        // The first sector passed one revolution earlier as well.
        let (passed, revolution) = (nanos(predicted.slack()) + applied, nanos(revolution(drive)));
        for (passed, was_ready) in [(passed, revolutions <= 0), (passed - revolution, revolutions < 0)] {
            if passed.abs() < self.most {
                ready.note(passed, was_ready);
            }
        }
        if let Some(found) = ready.found(applied) {
            let more = found - applied;
            let before = (self.moves, self.commands);
            match set_out {
                // The probe has measured the sum of overhead and seek; its division into the two is the same for reads and
                // writes.
                SetOut::Queued if of == 0 => {
                    self.moves[0] += more;
                    self.commands = self.commands.map(|ns| ns - more);
                }
                SetOut::Queued => self.moves[1] += more,
                // A command's overhead cannot become negative: the rest of the correction belongs to the move.
                SetOut::Alone if self.profile.overlap => {
                    let least = -nanos(self.profile.command[of]);
                    let all = self.commands[of] + more;
                    self.commands[of] = all.max(least);
                    self.moves[of] += all.min(least) - least;
                }
                SetOut::Alone => self.moves[of] += more,
            }
            for (ns, cost) in self.commands.iter_mut().zip(self.profile.command) {
                *ns = (*ns).max(-nanos(cost));
            }
            // An overhead that is already zero cannot be reduced: then nothing has changed.
            self.changed |= (self.moves, self.commands) != before;
        }
    }

    /// Returns the corrected drive and overheads, if they differ from `drive`.
    pub fn news(&mut self, drive: &Arc<DriveModel>) -> Option<(DriveModel, Overheads)> {
        if !core::mem::take(&mut self.changed) {
            return None;
        }
        let by_profile = self.drive.get_or_insert_with(|| Arc::clone(drive));
        let [read, write] = self.moves.map(|ns| i32::try_from(ns).unwrap_or_default());
        let longer =
            |(cost, ns): (Duration, i64)| Duration::from_nanos(cost.as_nanos().saturating_add_signed(ns));
        let mut command = self.profile.command;
        for (time, ns) in command.iter_mut().zip(self.commands) {
            *time = longer((*time, ns));
        }
        Some((by_profile.with_moves_longer_by(read, write), Overheads { command, ..self.profile }))
    }

    /// Discards all counts, which may belong to another drive. Moves are the profile's until completions show otherwise.
    pub fn forget(&mut self) {
        (self.queued, self.alone, self.sure) = (Default::default(), Default::default(), false);
        self.changed |= self.moves != [0; 2] || self.commands != [0; 2];
        (self.moves, self.commands) = ([0; 2], [0; 2]);
    }

    /// Sets other uncorrected overheads: those of a drive that caches writes, or of one that reports them from the medium.
    pub fn tell(&mut self, overheads: Overheads) {
        self.profile = overheads;
        self.changed = true;
    }

    /// Returns the corrections of moves to read and to write, in ns.
    pub fn moves(&self) -> [i64; 2] {
        self.moves
    }
}

impl Core {
    /// Records what a completion shows about moves.
    pub(super) fn correct_moves(&mut self, outside: &mut Outside, order: &Order, seen: &Observation) {
        outside.correction.note(&self.drive, order.command.op, &order.forecast, seen);
    }

    /// Applies new corrections to the drive model.
    pub(super) fn believe_corrections(&mut self, outside: &mut Outside) {
        if let Some((drive, overheads)) = outside.correction.news(&self.drive) {
            outside.config.overheads = overheads;
            outside.control.forget();
            self.planner = Planner::new(&drive);
            self.drive = Arc::new(drive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Instant;

    /// Returns the correction found for heads that arrive `late` ns after the profile's arrival, within a random spread, and
    /// one in fifty up to half a millisecond later. Sectors begin to pass at random times, mostly after that arrival.
    fn found(late: i64, spread: i64, mut state: u64) -> i64 {
        let mut draw = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below.max(1) as u64) as i64
        };
        let mut ready = MoveCounts::default();
        let mut now = 0;
        for _ in 0..20_000 {
            let passed = if draw(4) == 0 { -draw(1_600_000) } else { draw(1_600_000) };
            let settles = if draw(50) == 0 { draw(500_000) } else { 0 };
            let at = late + draw(2 * spread + 1) - spread + settles;
            ready.note(passed, at <= passed);
            now = ready.found(now).unwrap_or(now);
        }
        now
    }

    proptest! {
        #[test]
        fn when_heads_are_ready_is_found(late in -1_200_000i64..1_200_000, spread in 0i64..60_000, seed: u64) {
            let found = found(late, spread, seed);
            // A correction smaller than the spread may be missed.
            prop_assert!((found - late).abs() <= spread.max(45_000), "{} for {}", found, late);
        }

        #[test]
        fn a_true_profile_is_not_corrected(spread in 0i64..60_000, seed: u64) {
            prop_assert_eq!(found(0, spread, seed), 0);
        }
    }

    #[test]
    fn an_overhead_is_not_corrected_below_zero() {
        let profile = model::builtin::find("quantum-atlas-10k").unwrap();
        let drive = DriveModel::from_profile(&profile).unwrap();
        let overheads =
            Overheads { command: [Duration::from_micros(10); 2], overlap: true, ..Overheads::default() };
        let mut correction = Correction::new(&drive, &overheads);
        // Heads arrive half a millisecond early, which only commands to an idle drive show.
        let mut changes = 0;
        for n in 0..20_000u64 {
            let slack = n * 7_919 % nanos(revolution(&drive)).unsigned_abs();
            let wait = Instant::ZERO + Duration::from_nanos(slack);
            let early = slack > nanos(revolution(&drive)).unsigned_abs() - 500_000;
            let predicted = Forecast { start: wait, distance: 1_000, ..Forecast::at_once(SetOut::Alone) };
            let revolutions = -i64::from(early && correction.moves()[0] == 0);
            let seen = Observation { error: 0, revolutions, explained: true, predicted: true };
            correction.note(&drive, Op::Read, &predicted, &seen);
            changes += u32::from(core::mem::take(&mut correction.changed));
            if changes > 0 {
                break;
            }
        }
        assert!((correction.moves()[0] + 490_000).abs() < 50_000, "{:?}", correction.moves());
        assert_eq!(correction.commands[0], -10_000);
    }

    #[test]
    fn moves_that_no_correction_fits_stay_uncorrected() {
        // Heads are ready by chance, independent of the time.
        let mut ready = MoveCounts::default();
        let mut state = 1u64;
        for n in 0..50_000i64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ready.note(n * 7_919 % 3_200_000 - 1_600_000, state >> 63 == 0);
            assert_eq!(ready.found(0), None);
        }
    }
}
