//! The drive's behaviour after two neighbouring commands on one track: whether read-ahead, or another cause, costs
//! revolutions after them.
//!
//! A drive that takes the two commands for a sequence delays the next command, perhaps only for some kinds of neighbours
//! (FAST'02, section 4.3, observes it after reads). Each kind is tried, and is not used if its commands and those right after
//! them have lost more revolutions than other commands, beyond chance. The counts decay, so that each kind is tried again. To a
//! drive that reads ahead behind sequences ([`sequences`](super::sequences)) no sequence is sent.

use crate::core::config::Neighbours;
use crate::planner::Neighbour;
#[cfg(not(feature = "std"))]
use units::Float as _;

/// The acceptable excess share of lost revolutions, 1 in this number of a kind's commands, for each command and the one after
/// it together: up to this share a kind yields more than it costs.
const COMMANDS_PER_LOST_MIN: f64 = 24.0;

/// The number of standard deviations above which a difference is not chance.
pub(super) const CHANCE_DEVIATIONS_MAX: f64 = 3.0;

/// The number of revolutions that the first tries of a kind may lose.
const TRIAL_REVOLUTIONS_MAX: f64 = 1.0;

/// The number of commands, some minutes' worth, after which half of the counts is discarded. A smaller number would cost more
/// revolutions, because kinds that lose some would be tried more often.
const COMMANDS_COUNTED_MAX: u32 = 32_768;

/// The number of commands, and of those that lost a revolution.
#[derive(Clone, Copy, Debug, Default)]
struct RevolutionCounts {
    commands: u32,
    lost: u32,
}

/// The counts of each kind, and of commands without neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    kinds: [RevolutionCounts; Neighbour::KINDS],
    others: RevolutionCounts,
    commands: u32,
    /// The last command's kind, which counts for the command after it as well.
    before: Option<Neighbour>,
}

impl Learned {
    /// Returns whether a command with this neighbour may be sent; `reads_on` tells whether the drive reads ahead behind
    /// sequences.
    pub fn allows(&self, config: Neighbours, neighbour: Neighbour, reads_on: bool) -> bool {
        match config {
            Neighbours::Never => false,
            Neighbours::Always => true,
            Neighbours::Learned => !(reads_on && neighbour.is_sequence()) && self.is_harmless(neighbour),
        }
    }

    fn is_harmless(&self, neighbour: Neighbour) -> bool {
        let RevolutionCounts { commands, lost } = self.kinds[neighbour.kind()];
        // The losses of a kind of neighbours are those of its commands and of the commands right after them, so the share of
        // other commands counts twice.
        let anyway = 2.0 * f64::from(self.others.lost) / f64::from(self.others.commands.max(1));
        let expected = f64::from(commands) * (anyway + 1.0 / COMMANDS_PER_LOST_MIN);
        f64::from(lost) <= expected + CHANCE_DEVIATIONS_MAX * expected.sqrt() + TRIAL_REVOLUTIONS_MAX
    }

    /// Records a finished command, its neighbour if it had one, and whether it lost a revolution.
    pub fn note(&mut self, neighbour: Option<Neighbour>, lost: bool) {
        self.commands += 1;
        if self.commands == COMMANDS_COUNTED_MAX {
            self.commands = 0;
            for seen in self.kinds.iter_mut().chain([&mut self.others]) {
                *seen = RevolutionCounts { commands: seen.commands / 2, lost: seen.lost / 2 };
            }
        }
        if let Some(neighbour) = neighbour {
            self.kinds[neighbour.kind()].commands += 1;
        }
        for of in [self.before, neighbour].into_iter().flatten() {
            self.kinds[of.kind()].lost += u32::from(lost);
        }
        if self.before.is_none() && neighbour.is_none() {
            self.others.commands += 1;
            self.others.lost += u32::from(lost);
        }
        self.before = neighbour;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Op;

    const FORWARD: Neighbour =
        Neighbour { first: Op::Read, second: Op::Read, backward: false, touching: false };
    const BACKWARD: Neighbour = Neighbour { backward: true, ..FORWARD };

    fn allows(learned: &Learned, neighbour: Neighbour) -> bool {
        learned.allows(Neighbours::Learned, neighbour, false)
    }

    #[test]
    fn a_kind_that_delays_the_next_command_is_avoided_and_tried_again() {
        let mut learned = Learned::default();
        let (mut tried, mut harmless) = (0, 0);
        for _ in 0..320_000 {
            for kind in [FORWARD, BACKWARD] {
                let use_it = allows(&learned, kind);
                learned.note(use_it.then_some(kind), false);
                // Commands after the forward kind are late.
                learned.note(None, use_it && !kind.backward);
                tried += u32::from(use_it && !kind.backward);
                harmless += u32::from(use_it && kind.backward);
            }
        }
        assert!((10..200).contains(&tried), "{tried}");
        assert_eq!(harmless, 320_000);
    }

    #[test]
    fn a_kind_that_loses_no_more_than_others_is_allowed() {
        // One command in this number loses a revolution anyway.
        for one_in in [30, 100, 1_000] {
            let mut learned = Learned::default();
            let mut state = 1u64;
            let mut lost = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33).is_multiple_of(one_in)
            };
            for n in 0..100_000 {
                learned.note(None, lost());
                learned.note(None, lost());
                learned.note(Some(FORWARD), lost());
                assert!(allows(&learned, FORWARD), "one in {one_in}: after {n}, {learned:?}");
            }
        }
    }

    #[test]
    fn a_kind_that_loses_more_than_others_is_avoided_at_any_rate_of_losses() {
        let mut learned = Learned::default();
        for n in 0..3_000 {
            learned.note(None, n % 100 == 0);
            learned.note(None, false);
            learned.note(Some(FORWARD), n % 12 == 0);
        }
        assert!(!allows(&learned, FORWARD), "{learned:?}");
        assert!(allows(&learned, BACKWARD));
    }

    #[test]
    fn no_sequence_is_made_where_the_drive_reads_on() {
        let learned = Learned::default();
        let written = Neighbour { first: Op::Write, ..FORWARD };
        assert!(!learned.allows(Neighbours::Learned, FORWARD, true));
        assert!(learned.allows(Neighbours::Always, FORWARD, true));
        for other in [BACKWARD, written] {
            assert!(learned.allows(Neighbours::Learned, other, true));
        }
    }
}
