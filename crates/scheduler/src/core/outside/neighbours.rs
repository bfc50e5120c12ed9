//! What the drive does behind two commands on one track: whether reading ahead, or anything else, costs turns there.
//!
//! A drive that takes the two for a sequence delays what follows; it may do so for some kinds only (FAST'02, section 4.3,
//! has it after reads). Each kind is tried, and left alone when its commands, and those right behind them, have lost more
//! turns than other commands do, and more than chance explains. All is forgotten little by little, so that each kind is
//! tried again. Where a drive reads on behind sequences ([`sequences`](super::sequences)) none are made.

use super::config::{Neighbour, Neighbours};

/// One of so many may lose a turn, itself or behind it, beyond those that do anyway: then it brings more than it costs.
const TOLERATED: f64 = 24.0;

/// So many standard deviations are no chance.
const CHANCE: f64 = 3.0;

/// Turns that the first tries may lose.
const TRIES: f64 = 1.0;

/// Half is forgotten after so many commands, some minutes' worth: what is tried again costs turns again.
const MEMORY: u32 = 32_768;

/// Commands, and those of them that lost a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    commands: u32,
    lost: u32,
}

/// What was seen of each kind, and of commands that have nothing to do with any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    kinds: [Seen; Neighbour::KINDS],
    others: Seen,
    commands: u32,
    /// The last command done was such a one: what comes behind it counts as well.
    before: Option<Neighbour>,
}

impl Learned {
    /// Whether such a command may be sent to a drive that may read on behind sequences, or does not.
    pub fn allows(&self, config: Neighbours, neighbour: Neighbour, reads_on: bool) -> bool {
        match config {
            Neighbours::Never => false,
            Neighbours::Always => true,
            Neighbours::Learned => !(reads_on && neighbour.is_sequence()) && self.is_harmless(neighbour),
        }
    }

    fn is_harmless(&self, neighbour: Neighbour) -> bool {
        let Seen { commands, lost } = self.kinds[neighbour.kind()];
        // Itself, and what comes behind it.
        let anyway = 2.0 * f64::from(self.others.lost) / f64::from(self.others.commands.max(1));
        let expected = f64::from(commands) * (anyway + 1.0 / TOLERATED);
        f64::from(lost) <= expected + CHANCE * expected.sqrt() + TRIES
    }

    /// A command is done, right behind a neighbour perhaps, and has lost a turn or not.
    pub fn note(&mut self, neighbour: Option<Neighbour>, lost: bool) {
        self.commands += 1;
        if self.commands == MEMORY {
            self.commands = 0;
            for seen in self.kinds.iter_mut().chain([&mut self.others]) {
                *seen = Seen { commands: seen.commands / 2, lost: seen.lost / 2 };
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
    fn a_kind_that_delays_what_follows_is_left_alone_and_tried_again() {
        let mut learned = Learned::default();
        let (mut tried, mut harmless) = (0, 0);
        for _ in 0..320_000 {
            for kind in [FORWARD, BACKWARD] {
                let use_it = allows(&learned, kind);
                learned.note(use_it.then_some(kind), false);
                // What follows is late behind the forward kind.
                learned.note(None, use_it && !kind.backward);
                tried += u32::from(use_it && !kind.backward);
                harmless += u32::from(use_it && kind.backward);
            }
        }
        assert!((10..200).contains(&tried), "{tried}");
        assert_eq!(harmless, 320_000);
    }

    #[test]
    fn what_other_commands_lose_as_well_is_no_reason() {
        // Of all commands one in so many loses a turn.
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
    fn a_kind_that_loses_more_than_others_is_left_alone_however_few_turns_that_are() {
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
