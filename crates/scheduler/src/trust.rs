//! Whether a drive does what its profile says, as it is told to who runs it: by name, what lasts, and for how long.

use crate::core::Caution;
use units::{Duration, Instant};

/// What lasts no longer is not worth a line: trust is earned at the beginning, and lost for a moment now and then.
const LONG: Duration = Duration::from_secs(30);
/// Nor is what so few commands have shown: of a disk that is idle nothing is known.
const COMMANDS: u64 = 200;

impl Caution {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Unsynchronised, Self::Mistrust, Self::Harm, Self::Unknown, Self::Buffered];

    /// What a daemon's status and a simulation's result call it.
    ///
    /// ```
    /// assert_eq!(freeblock_scheduler::Caution::Mistrust.name(), "mistrust");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsynchronised => "unsynchronised",
            Self::Mistrust => "mistrust",
            Self::Harm => "harm",
            Self::Unknown => "unknown",
            Self::Buffered => "buffered",
        }
    }

    /// Whether it says that the drive does not do what its profile says, or has yet to show that it does.
    pub const fn is_of_the_drive(self) -> bool {
        matches!(self, Self::Mistrust | Self::Unsynchronised)
    }
}

/// Of one drive: whether it has for half a minute and 200 commands not done what its profile says, and since then not for as
/// long done it. Time comes as an argument; it changes once in half a minute at most.
///
/// ```
/// use freeblock_scheduler::{Caution, TrustWatch};
/// use units::{Duration, Instant};
/// let mut watch = TrustWatch::default();
/// for second in 0..300 {
///     let now = Instant::ZERO + Duration::from_secs(second);
///     assert_eq!(watch.note(now, Some(Caution::Mistrust)), (second == 200).then_some(true));
/// }
/// assert!(watch.is_mistrusted());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustWatch {
    mistrusted: bool,
    commands: u64,
    /// Since when, and since which command, it has been otherwise.
    otherwise: Option<(Instant, u64)>,
}

impl TrustWatch {
    /// A command is done, and the core is cautious or not. Whether the drive is mistrusted, when that changes.
    pub fn note(&mut self, now: Instant, caution: Option<Caution>) -> Option<bool> {
        self.commands += 1;
        let foreseen = !caution.is_some_and(Caution::is_of_the_drive);
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

    fn told(foreseen: bool) -> Option<Caution> {
        if foreseen { Some(Caution::Harm) } else { Some(Caution::Unsynchronised) }
    }

    #[test]
    fn what_lasts_is_told_once_each_way() {
        let mut watch = TrustWatch::default();
        let mut changes = Vec::new();
        for second in 0..3_000 {
            let foreseen = !(1_000..2_000).contains(&second);
            changes.extend(watch.note(at(second), told(foreseen)).map(|mistrusted| (second, mistrusted)));
        }
        assert_eq!(changes, [(1_200, true), (2_200, false)]);
    }

    #[test]
    fn a_beginning_a_moment_and_few_commands_are_not_told() {
        let mut watch = TrustWatch::default();
        assert!((0..1_000).all(|i| watch.note(at(i / 50), told(false)).is_none()), "20 seconds");
        assert_eq!(watch.note(at(21), told(true)), None);
        assert!((0..190).all(|i| watch.note(at(100 + i * 60), told(false)).is_none()), "190 commands");
        // One that comes and goes is told of neither way.
        assert!((0..9_000).all(|i| watch.note(at(20_000 + i), told(i % 100 == 0)).is_none()));
        assert!(!watch.is_mistrusted());
    }

    #[test]
    fn each_caution_has_its_name() {
        let mut names = Caution::ALL.map(Caution::name);
        names.sort_unstable();
        assert_eq!(names, ["buffered", "harm", "mistrust", "unknown", "unsynchronised"]);
    }
}
