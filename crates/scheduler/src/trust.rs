//! The trust in a drive, for its operator: reports of cautions that last, and the names of cautions.

use crate::core::Caution;
use units::{Duration, Instant};

/// The shortest caution that is reported: trust is missing at the start, and now and then lost for a moment.
const REPORTED_CAUTION_MIN: Duration = Duration::from_secs(30);
/// The minimum of commands during a reported caution: a few commands of an idle disk show too little.
const REPORTED_COMMANDS_MIN: u64 = 200;

impl Caution {
    /// All cautions.
    pub const ALL: [Self; 5] =
        [Self::Unsynchronised, Self::Mistrust, Self::Harm, Self::Unknown, Self::Buffered];

    /// Returns the name of the caution in a daemon's status and in a simulation's result.
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

    /// Returns whether the caution means that the drive contradicts its profile, or has not yet confirmed it.
    pub const fn is_of_the_drive(self) -> bool {
        matches!(self, Self::Mistrust | Self::Unsynchronised)
    }
}

/// The trust in one drive: the drive is mistrusted when it has contradicted its profile for half a minute and 200 commands,
/// until it has confirmed the profile for the same time and number. The state changes once in half a minute at most.
///
/// ```
/// use freeblock_scheduler::{Caution, TrustWatch};
/// use freeblock_scheduler::units::{Duration, Instant};
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
    /// The time and the number of the command since which the observations contradict the state.
    otherwise: Option<(Instant, u64)>,
}

impl TrustWatch {
    /// Records a finished command and the core's caution. Returns whether the drive is mistrusted, if that changes.
    pub fn note(&mut self, now: Instant, caution: Option<Caution>) -> Option<bool> {
        self.commands += 1;
        let predicted = !caution.is_some_and(Caution::is_of_the_drive);
        if predicted != self.mistrusted {
            self.otherwise = None;
            return None;
        }
        let (at, command) = *self.otherwise.get_or_insert((now, self.commands));
        if now < at + REPORTED_CAUTION_MIN || self.commands - command < REPORTED_COMMANDS_MIN {
            return None;
        }
        self.otherwise = None;
        self.mistrusted = !self.mistrusted;
        Some(self.mistrusted)
    }

    /// Returns whether the drive is mistrusted.
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

    fn caution_if(predicted: bool) -> Option<Caution> {
        if predicted { Some(Caution::Harm) } else { Some(Caution::Unsynchronised) }
    }

    #[test]
    fn a_lasting_change_is_reported_once_each_way() {
        let mut watch = TrustWatch::default();
        let mut changes = Vec::new();
        for second in 0..3_000 {
            let predicted = !(1_000..2_000).contains(&second);
            changes
                .extend(watch.note(at(second), caution_if(predicted)).map(|mistrusted| (second, mistrusted)));
        }
        assert_eq!(changes, [(1_200, true), (2_200, false)]);
    }

    #[test]
    fn start_short_doubts_and_few_commands_are_not_reported() {
        let mut watch = TrustWatch::default();
        assert!((0..1_000).all(|i| watch.note(at(i / 50), caution_if(false)).is_none()), "20 seconds");
        assert_eq!(watch.note(at(21), caution_if(true)), None);
        assert!((0..190).all(|i| watch.note(at(100 + i * 60), caution_if(false)).is_none()), "190 commands");
        // An alternating caution is never reported.
        assert!((0..9_000).all(|i| watch.note(at(20_000 + i), caution_if(i % 100 == 0)).is_none()));
        assert!(!watch.is_mistrusted());
    }

    #[test]
    fn each_caution_has_its_name() {
        let mut names = Caution::ALL.map(Caution::name);
        names.sort_unstable();
        assert_eq!(names, ["buffered", "harm", "mistrust", "unknown", "unsynchronised"]);
    }
}
