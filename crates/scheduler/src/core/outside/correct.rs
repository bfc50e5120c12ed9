//! By how much moves are longer or shorter than told, from the turns in which commands were done.
//!
//! A probe that reads, one command at a time, measures the sum of a command's overhead and its seek; behind another command
//! the overhead runs beside that one's, and the seek alone counts. And it cannot know what a head settles to write. Both
//! are one number for every move of a kind. A completion tells whether a head was ready when its first sector began to
//! pass: so, by how long that was after the head would have been ready as told, the part of the heads that were. That part
//! rises from none to all where moves are really done; it is looked for where fewest completions say otherwise.

use super::clock::nanos;
use super::config::Overheads;
use super::forecast::{Forecast, SetOut};
use super::record::Observed;
use super::{Order, Outside};
use crate::core::Core;
use crate::core::under_way::turn;
use crate::planner::Planner;
use model::DriveModel;
use std::sync::Arc;
use units::{Duration, Op};

/// Width of a bin: 10 us.
const BIN_NS: i64 = 10_000;

/// Bins on each side of what was told: up to 1.6 ms, more than any drive at hand settles.
const BINS: i64 = 160;

/// Further away than this part of a turn nothing is believed: it could be early as well as late.
const PART: i64 = 4;

/// So many more completions must agree with something else than with what is believed, and so many standard deviations of
/// what chance alone would make of those between both.
const ENOUGH: i64 = 12;
const SURE: i64 = 4;

/// Bins nearer than this are as good: 30 us.
const NEAR: usize = 3;

/// Of the completions that tell, one in so many may contradict what is found; a profile that is wrong otherwise stays.
const CONTRADICTING: i64 = 12;

/// Completions between two looks, and those after which half is forgotten.
const STRIDE: u32 = 64;
const MEMORY: u32 = 1 << 14;

/// Heads of one kind of move, by when their first sectors began to pass: how many there were, and how many were ready.
#[derive(Clone, Debug)]
struct Ready {
    bins: Vec<(u32, u32)>,
    noted: u32,
    fresh: u32,
}

impl Default for Ready {
    fn default() -> Self {
        Self { bins: vec![(0, 0); 2 * BINS as usize], noted: 0, fresh: 0 }
    }
}

impl Ready {
    /// Sectors that began to pass `ns` after the head should have been ready, and whether it was.
    fn note(&mut self, ns: i64, ready: bool) {
        let bin = usize::try_from(ns.div_euclid(BIN_NS) + BINS).ok();
        let Some(bin) = bin.and_then(|bin| self.bins.get_mut(bin)) else { return };
        *bin = (bin.0 + 1, bin.1 + u32::from(ready));
        (self.noted, self.fresh) = (self.noted + 1, self.fresh + 1);
        if self.noted >= MEMORY {
            self.noted /= 2;
            self.bins.iter_mut().for_each(|bin| *bin = (bin.0 / 2, bin.1 / 2));
        }
    }

    /// When heads are really ready, if that is clearly not at `now`: ready before and not ready after it contradict.
    fn found(&mut self, now: i64) -> Option<i64> {
        if self.fresh < STRIDE {
            return None;
        }
        self.fresh = 0;
        let place = |edge: usize| (edge as i64 - BINS) * BIN_NS;
        let told = (now.div_euclid(BIN_NS) + BINS).clamp(0, 2 * BINS) as usize;
        let all: i64 = self.bins.iter().map(|bin| i64::from(bin.0)).sum();
        // All later than the first edge: who was not ready contradicts.
        let mut against: i64 = self.bins.iter().map(|bin| i64::from(bin.0 - bin.1)).sum();
        let mut best = (against, 0);
        let mut against_told = against;
        for (edge, bin) in (1..).zip(&self.bins) {
            against += 2 * i64::from(bin.1) - i64::from(bin.0);
            if edge == told {
                against_told = against;
            }
            if (against, told.abs_diff(edge)) < (best.0, told.abs_diff(best.1)) {
                best = (against, edge);
            }
        }
        let between = self.bins.get(told.min(best.1)..told.max(best.1)).unwrap_or_default();
        let chance: i64 = between.iter().map(|bin| i64::from(bin.0)).sum();
        let gained = against_told - best.0;
        let clear = gained >= ENOUGH && gained * gained >= SURE * SURE * chance && between.len() >= NEAR;
        // At either end it is further away.
        let inside = best.1 > 0 && best.1 < self.bins.len();
        (clear && inside && best.0 * CONTRADICTING <= all).then(|| place(best.1))
    }
}

/// What is known of moves to read and to write.
#[derive(Clone, Debug)]
pub(super) struct Correction {
    /// Of commands behind another, and of those that were waited for.
    queued: [Ready; 2],
    alone: [Ready; 2],
    /// By how many nanoseconds moves are longer than told, and commands' overheads.
    moves: [i64; 2],
    commands: [i64; 2],
    told: Overheads,
    /// The drive as told, when there is something to correct.
    drive: Option<Arc<DriveModel>>,
    /// Nothing further away is believed, in nanoseconds.
    most: i64,
    changed: bool,
    /// Whether the last completion was explained: otherwise nobody knows where the next command began.
    sure: bool,
}

impl Correction {
    pub fn new(drive: &DriveModel, overheads: &Overheads) -> Self {
        Self {
            queued: Default::default(),
            alone: Default::default(),
            moves: [0; 2],
            commands: [0; 2],
            told: *overheads,
            drive: None,
            most: (nanos(turn(drive)) / PART).min(BINS * BIN_NS),
            changed: false,
            sure: false,
        }
    }

    /// A command was done, when it was `foreseen` or not.
    pub fn note(&mut self, drive: &DriveModel, op: Op, foreseen: &Forecast, seen: &Observed) {
        let sure = std::mem::replace(&mut self.sure, seen.explained) && seen.explained;
        // A change of head alone is a number of its own; where the shortest seek hides it, a probe knows a bound only.
        let tells = sure && foreseen.distance > 0 && !foreseen.in_two_parts;
        let Some(set_out) = foreseen.set_out.filter(|_| tells) else { return };
        let turns = seen.turns;
        let of = usize::from(op.is_write());
        let applied = self.moves[of] + if set_out == SetOut::Alone { self.commands[of] } else { 0 };
        let ready = match set_out {
            SetOut::Queued => &mut self.queued[of],
            SetOut::Alone => &mut self.alone[of],
        };
        // Its first sector passed a turn before as well.
        let (passed, turn) = (nanos(foreseen.slack()) + applied, nanos(turn(drive)));
        for (passed, was_ready) in [(passed, turns <= 0), (passed - turn, turns < 0)] {
            if passed.abs() < self.most {
                ready.note(passed, was_ready);
            }
        }
        if let Some(found) = ready.found(applied) {
            let more = found - applied;
            let before = (self.moves, self.commands);
            match set_out {
                // How the sum of both is to be parted is the same for reads and writes.
                SetOut::Queued if of == 0 => {
                    self.moves[0] += more;
                    self.commands = self.commands.map(|ns| ns - more);
                }
                SetOut::Queued => self.moves[1] += more,
                // What a command is told to take cannot be more than all of it: the rest is the move's.
                SetOut::Alone if self.told.overlap => {
                    let least = -nanos(self.told.command[of]);
                    let all = self.commands[of] + more;
                    self.commands[of] = all.max(least);
                    self.moves[of] += all.min(least) - least;
                }
                SetOut::Alone => self.moves[of] += more,
            }
            for (ns, told) in self.commands.iter_mut().zip(self.told.command) {
                *ns = (*ns).max(-nanos(told));
            }
            // A command that is told to take next to nothing takes no less.
            self.changed |= (self.moves, self.commands) != before;
        }
    }

    /// The drive and what its commands cost as they are believed to be from now on, if that is not as it is in `drive`.
    pub fn news(&mut self, drive: &Arc<DriveModel>) -> Option<(DriveModel, Overheads)> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let told = self.drive.get_or_insert_with(|| Arc::clone(drive));
        let [read, write] = self.moves.map(|ns| i32::try_from(ns).unwrap_or_default());
        let longer =
            |(told, ns): (Duration, i64)| Duration::from_nanos(told.as_nanos().saturating_add_signed(ns));
        let mut command = self.told.command;
        for (time, ns) in command.iter_mut().zip(self.commands) {
            *time = longer((*time, ns));
        }
        Some((told.with_moves_longer_by(read, write), Overheads { command, ..self.told }))
    }

    /// What was seen may be of another drive: moves are as told until completions say otherwise again.
    pub fn forget(&mut self) {
        (self.queued, self.alone, self.sure) = (Default::default(), Default::default(), false);
        self.changed |= self.moves != [0; 2] || self.commands != [0; 2];
        (self.moves, self.commands) = ([0; 2], [0; 2]);
    }

    /// What commands cost otherwise turned out to be so.
    pub fn tell(&mut self, overheads: Overheads) {
        self.told = overheads;
        self.changed = true;
    }

    /// By how many nanoseconds moves are taken to be longer than told, to read and to write.
    pub fn moves(&self) -> [i64; 2] {
        self.moves
    }
}

impl Core {
    /// A command was done: what that says of moves.
    pub(super) fn correct_moves(&mut self, outside: &mut Outside, order: &Order, seen: &Observed) {
        outside.correction.note(&self.drive, order.command.op, &order.forecast, seen);
    }

    /// What has turned out to be otherwise than told is believed from now on.
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

    /// Heads that are ready `late` after they should be, by chance up to `spread` sooner or later, one in fifty up to half a
    /// millisecond later still; sectors begin to pass at any time, most of them soon.
    fn found(late: i64, spread: i64, mut state: u64) -> i64 {
        let mut draw = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below.max(1) as u64) as i64
        };
        let mut ready = Ready::default();
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
            // What is less than heads differ by themselves may be left as it was told.
            prop_assert!((found - late).abs() <= spread.max(45_000), "{} for {}", found, late);
        }

        #[test]
        fn what_is_as_told_stays_as_told(spread in 0i64..60_000, seed: u64) {
            prop_assert_eq!(found(0, spread, seed), 0);
        }
    }

    #[test]
    fn a_command_that_takes_no_time_takes_no_less() {
        let profile = model::builtin::find("quantum-atlas-10k").unwrap();
        let drive = DriveModel::from_profile(&profile).unwrap();
        let told =
            Overheads { command: [Duration::from_micros(10); 2], overlap: true, ..Overheads::default() };
        let mut correction = Correction::new(&drive, &told);
        // Heads are ready half a millisecond sooner, as only commands show that were waited for.
        let mut changes = 0;
        for n in 0..20_000u64 {
            let slack = n * 7_919 % nanos(turn(&drive)).unsigned_abs();
            let wait = Instant::ZERO + Duration::from_nanos(slack);
            let early = slack > nanos(turn(&drive)).unsigned_abs() - 500_000;
            let foreseen = Forecast { start: wait, distance: 1_000, ..Forecast::at_once(SetOut::Alone) };
            let turns = -i64::from(early && correction.moves()[0] == 0);
            let seen = Observed { error: 0, turns, explained: true, foreseen: true };
            correction.note(&drive, Op::Read, &foreseen, &seen);
            changes += u32::from(std::mem::take(&mut correction.changed));
            if changes > 0 {
                break;
            }
        }
        assert!((correction.moves()[0] + 490_000).abs() < 50_000, "{:?}", correction.moves());
        assert_eq!(correction.commands[0], -10_000);
    }

    #[test]
    fn what_no_number_explains_is_left_alone() {
        // Ready or not by chance, whatever the time.
        let mut ready = Ready::default();
        let mut state = 1u64;
        for n in 0..50_000i64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ready.note(n * 7_919 % 3_200_000 - 1_600_000, state >> 63 == 0);
            assert_eq!(ready.found(0), None);
        }
    }
}
