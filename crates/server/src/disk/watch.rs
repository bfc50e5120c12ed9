//! Whether a disk does what its profile says: the log is told when it has long not done so, and when it does again.

use units::{Duration, Instant};

/// What lasts no longer is not worth a line: trust is earned at the beginning, and lost for a moment now and then.
const LONG: Duration = Duration::from_secs(30);
/// Nor is what so few commands have shown: of a disk that is idle nothing is known.
const COMMANDS: u64 = 200;

/// Of one disk. Time comes as an argument; there is at most one line in [`LONG`].
#[derive(Debug, Default)]
pub(super) struct Watch {
    mistrusted: bool,
    commands: u64,
    /// Since when, and since which command, it has been otherwise.
    otherwise: Option<(Instant, u64)>,
}

impl Watch {
    /// A command is done, and the core does or does not foresee the disk. Whether it is mistrusted, when that changes.
    pub fn note(&mut self, now: Instant, foreseen: bool) -> Option<bool> {
        self.commands += 1;
        if foreseen != self.mistrusted {
            self.otherwise = None;
            return None;
        }
        let (at, command) = *self.otherwise.get_or_insert((now, self.commands));
        if now < at + LONG || self.commands - command < COMMANDS {
            return None;
        }
        self.otherwise = None;
        self.mistrusted = !self.mistrusted;
        Some(self.mistrusted)
    }

    /// Whether it has long not been foreseen.
    pub fn is_mistrusted(&self) -> bool {
        self.mistrusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_lasts_is_told_once_each_way() {
        let mut watch = Watch::default();
        let mut told = Vec::new();
        for second in 0..3_000 {
            let foreseen = !(1_000..2_000).contains(&second);
            told.extend(watch.note(at(second), foreseen).map(|mistrusted| (second, mistrusted)));
        }
        assert_eq!(told, [(1_200, true), (2_200, false)]);
    }

    #[test]
    fn a_beginning_a_moment_and_few_commands_are_not_told() {
        let mut watch = Watch::default();
        assert!((0..1_000).all(|i| watch.note(at(i / 50), false).is_none()), "20 seconds");
        assert_eq!(watch.note(at(21), true), None);
        assert!((0..190).all(|i| watch.note(at(100 + i * 60), false).is_none()), "190 commands");
        // One that comes and goes is told of neither way.
        assert!((0..9_000).all(|i| watch.note(at(20_000 + i), i % 100 == 0).is_none()));
        assert!(!watch.is_mistrusted());
    }
}
