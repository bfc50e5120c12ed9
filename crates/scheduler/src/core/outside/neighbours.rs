//! What the drive does behind two commands on one track: whether reading ahead, or anything else, costs turns there.
//!
//! A drive that takes the two for a sequence delays what follows; it may do so for some kinds only (FAST'02, section 4.3,
//! has it after reads). Each kind is tried, and left alone when too many of its commands, or of those right behind them,
//! have lost a turn. All is forgotten little by little, so that each kind is tried again.

use super::config::{Neighbour, Neighbours};

/// One of so many may have lost a turn, itself or behind it, before a kind is left alone: more than noise does to any.
const TOLERATED: u32 = 12;

/// Turns that the first tries may lose.
const TRIES: u32 = 2;

/// Half is forgotten after so many commands, some minutes' worth: what is tried again costs turns again.
const MEMORY: u32 = 32_768;

/// By kind, commands and those of them that lost a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    uses: [u32; Neighbour::KINDS],
    lost: [u32; Neighbour::KINDS],
    commands: u32,
    /// The last command done was such a one: what comes behind it counts as well.
    before: Option<Neighbour>,
}

impl Learned {
    pub fn allows(&self, config: Neighbours, neighbour: Neighbour) -> bool {
        let kind = neighbour.kind();
        match config {
            Neighbours::Never => false,
            Neighbours::Always => true,
            Neighbours::Learned => self.lost[kind] * TOLERATED <= self.uses[kind] + TRIES * TOLERATED,
        }
    }

    /// A command is done, right behind a neighbour perhaps, and has lost a turn or not.
    pub fn note(&mut self, neighbour: Option<Neighbour>, lost: bool) {
        self.commands += 1;
        if self.commands == MEMORY {
            self.commands = 0;
            self.uses.iter_mut().chain(&mut self.lost).for_each(|n| *n /= 2);
        }
        if let Some(neighbour) = neighbour {
            self.uses[neighbour.kind()] += 1;
        }
        for of in [self.before, neighbour].into_iter().flatten() {
            self.lost[of.kind()] += u32::from(lost);
        }
        self.before = neighbour;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Op;

    const FORWARD: Neighbour = Neighbour { first: Op::Read, second: Op::Read, backward: false };
    const BACKWARD: Neighbour = Neighbour { backward: true, ..FORWARD };

    #[test]
    fn a_kind_that_delays_what_follows_is_left_alone_and_tried_again() {
        let mut learned = Learned::default();
        let (mut tried, mut harmless) = (0, 0);
        for _ in 0..320_000 {
            for kind in [FORWARD, BACKWARD] {
                let use_it = learned.allows(Neighbours::Learned, kind);
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
    fn noise_is_no_reason() {
        let mut learned = Learned::default();
        for n in 0..100_000 {
            learned.note(Some(FORWARD), n % 30 == 0);
            assert!(learned.allows(Neighbours::Learned, FORWARD), "after {n}");
        }
    }
}
