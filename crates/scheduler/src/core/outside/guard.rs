//! Whether detours may be tried: they cost the foreground when predictions are wrong.
//!
//! Two accounts, both of the last some thousand commands. Trust: how many commands were done when they were foreseen. A
//! drive that is not what its profile says, that reorders, or has no head at all, has none. Harm: by how much requests
//! were later than they would have been without detours ([`felt`](super::felt)), against the time that clients waited in
//! all. Some turns would have been lost anyway. Where a detour lets the foreground choose later, from more, half of what
//! that gains is credited: whom it takes now it will not have later. Tests and the lab measure the truth against a run without detours.

use crate::idle::Harm;
use units::Duration;

/// Trust forgets in so many commands.
const MEMORY: u32 = 128;

/// In parts of 65536: detours begin when seven of eight commands are foreseen, and end when three of four are not.
const TRUSTED: u32 = 65_536 * 7 / 8;
const MISTRUSTED: u32 = 65_536 * 3 / 4;

/// Harm forgets half when the foreground has had the head for so long.
const HARM_MEMORY: Duration = Duration::from_secs(60);

/// Clients are taken to have waited for at least this, so that the first detour that is late does not end them all.
const LEAST: Duration = Duration::from_secs(2);

/// So many commands between two looks at the harm.
const LOOK: u32 = 512;

/// Why a core outside the drive leaves the gaps alone; idle time is used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caution {
    /// The platter's angle is not known: at the beginning, or after too many completions that fit none.
    Unsynchronised,
    /// Too few commands were done when they were foreseen.
    Mistrust,
    /// Detours have cost the foreground as much as they may.
    Harm,
    /// Nothing is known of the drive but its size.
    Unknown,
}

/// Both accounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    /// The part of the commands that were foreseen, of 65536.
    foreseen: u32,
    trusted: bool,
    recent: Harm,
    /// The foreground's time at the head of which that is.
    head: Duration,
    /// Commands accounted since the last look.
    accounted: u32,
    /// Since the beginning.
    pub all: Harm,
}

impl Guard {
    pub fn new() -> Self {
        Self {
            foreseen: 65_536 / 2,
            trusted: false,
            recent: Harm::default(),
            head: Duration::ZERO,
            accounted: 0,
            all: Harm::default(),
        }
    }

    /// A command was done, when it was foreseen or not.
    pub fn note(&mut self, foreseen: bool) {
        self.foreseen -= self.foreseen / MEMORY;
        if foreseen {
            self.foreseen += 65_536 / MEMORY;
        }
        self.trusted = self.foreseen >= if self.trusted { MISTRUSTED } else { TRUSTED };
    }

    /// The foreground had the head for `time`, detours for it included; a client has waited for `response`, of which
    /// `late` nanoseconds were too long.
    pub fn account(&mut self, time: Duration, response: Duration, late: i64) {
        for harm in [&mut self.recent, &mut self.all] {
            harm.foreground += response;
            let by = Duration::from_nanos(late.unsigned_abs());
            *if late < 0 { &mut harm.early } else { &mut harm.late } += by;
        }
        self.accounted += 1;
        self.head += time;
        if self.head >= HARM_MEMORY {
            self.head = self.head / 2;
            self.recent.foreground = self.recent.foreground / 2;
            self.recent.late = self.recent.late / 2;
            self.recent.early = self.recent.early / 2;
        }
    }

    /// From time to time: the harm of late, in millionths of the foreground's time.
    pub fn look(&mut self) -> Option<u64> {
        if self.accounted < LOOK {
            return None;
        }
        self.accounted = 0;
        let time = u128::from(self.recent.foreground.max(LEAST).as_nanos());
        let net = u128::from(self.recent.net().as_nanos());
        u64::try_from(net * 1_000_000 / time).ok()
    }

    /// Whether caution is called for, where detours may cost so many millionths.
    pub fn caution(&self, harm_ppm: u32) -> Option<Caution> {
        let time = self.recent.foreground.max(LEAST).as_nanos();
        let bound = u128::from(time) * u128::from(harm_ppm) / 1_000_000;
        if !self.trusted {
            Some(Caution::Mistrust)
        } else if u128::from(self.recent.net().as_nanos()) > bound {
            Some(Caution::Harm)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outside::clock::nanos;

    #[test]
    fn trust_is_earned_lost_and_earned_again() {
        let mut guard = Guard::new();
        assert_eq!(guard.caution(10_000), Some(Caution::Mistrust));
        let mut until = |good: bool, wanted: Option<Caution>| {
            (0..2_000).find(|_| {
                guard.note(good);
                guard.caution(10_000) == wanted
            })
        };
        assert!(until(true, None).is_some_and(|n| n < 400));
        assert!(until(false, Some(Caution::Mistrust)).is_some_and(|n| n < 100));
        assert!(until(true, None).is_some_and(|n| n < 400));
    }

    #[test]
    fn one_in_forty_wrong_is_no_reason_for_mistrust() {
        let mut guard = Guard::new();
        for n in 0..20_000 {
            guard.note(n % 40 != 0);
            assert!(n < 1_000 || guard.caution(10_000).is_none());
        }
    }

    #[test]
    fn harm_above_its_bound_ends_detours_until_it_is_small_again() {
        let mut guard = Guard::new();
        (0..1_000).for_each(|_| guard.note(true));
        let (request, turn) = (Duration::from_millis(7), Duration::from_millis(6));
        // Every tenth detour costs a turn; without caution that would be 8%.
        for n in 0..200_000 {
            let detour = guard.caution(10_000).is_none();
            let late = if detour && n % 10 == 0 { turn } else { Duration::ZERO };
            guard.account(request + late, request + late, nanos(late));
        }
        let share = guard.all.share();
        assert!(share > 0.005 && share < 0.0105, "{share}");
    }
}
