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

/// After so many commands without trust what was learned of the drive is taken to be of another one: trouble that has
/// ended is over, but for what was learned in it.
const LASTING: u32 = 1_024;

/// Harm forgets half when the foreground has had the head for so long.
const HARM_MEMORY: Duration = Duration::from_secs(60);

/// The foreground's time is taken to be at least this, so that the first detour that is late does not end them all.
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
    /// Most of the foreground's reads come from the drive's buffer, where a detour would take the place of what is read next.
    Buffered,
}

/// What was lost and gained over some time: both are bounded, what clients wait longer and what the head does less.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Clients' responses, and by how much those were longer or shorter.
    felt: Harm,
    /// The foreground's time at the head, and by how much that was.
    head: Harm,
}

impl Tally {
    fn add(&mut self, time: Duration, response: Duration, late: Lateness) {
        self.head.foreground += time;
        self.felt.foreground += response;
        self.felt.late_by(late.client);
        self.head.late_by(late.head);
    }

    fn halve(&mut self) {
        for Harm { foreground, late, early } in [&mut self.felt, &mut self.head] {
            for time in [foreground, late, early] {
                *time = *time / 2;
            }
        }
    }

    /// What is the worse of the two.
    fn worse(&self) -> Harm {
        self.head.or_felt(&self.felt)
    }
}

/// By how many nanoseconds a request was too late; less than nothing where it was early.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// For its client.
    pub client: i64,
    /// At the head.
    pub head: i64,
}

/// Both accounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    /// The part of the commands that were foreseen, of 65536.
    foreseen: u32,
    trusted: bool,
    /// Commands since trust ended, or since that was last told.
    doubted: u32,
    recent: Tally,
    /// Of that, the time at the head that was given away on purpose.
    bought: Duration,
    /// And the wanted sectors that were had beside the foreground.
    had: u64,
    /// Commands accounted since the last look.
    accounted: u32,
    /// Since the beginning.
    all: Tally,
}

impl Guard {
    pub fn new() -> Self {
        Self {
            foreseen: 65_536 / 2,
            trusted: false,
            doubted: 0,
            recent: Tally::default(),
            bought: Duration::ZERO,
            had: 0,
            accounted: 0,
            all: Tally::default(),
        }
    }

    /// A command was done, when it was foreseen or not; whether trust ends with it, or has been missing for long.
    pub fn note(&mut self, foreseen: bool) -> bool {
        let trusted = self.trusted;
        self.foreseen -= self.foreseen / MEMORY;
        if foreseen {
            self.foreseen += 65_536 / MEMORY;
        }
        self.trusted = self.foreseen >= if self.trusted { MISTRUSTED } else { TRUSTED };
        let ends = trusted && !self.trusted;
        self.doubted = if self.trusted || ends || self.doubted == LASTING { 0 } else { self.doubted + 1 };
        ends || self.doubted == LASTING
    }

    /// The foreground had the head for `time`, detours for it included; a client has waited for `response`; of both so
    /// much was too `late`. Of their bound idle time has left so many 65536ths.
    pub fn account(&mut self, time: Duration, response: Duration, late: Lateness, left: u32) {
        // Time in which detours may not be tried saves up for them what idle time, which has the whole bound then, does not use.
        let saved = |time: Duration| if self.trusted { time } else { time * u64::from(left) / 65_536 };
        self.recent.add(saved(time), saved(response), late);
        self.all.add(time, response, late);
        self.accounted += 1;
        if self.recent.head.foreground >= HARM_MEMORY {
            self.recent.halve();
            self.bought = self.bought / 2;
            self.had /= 2;
        }
    }

    /// Whether commands are done when they were foreseen.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// What all detours have cost since the beginning.
    pub fn harm(&self) -> Harm {
        self.all.worse()
    }

    /// Beside what is accounted next so many wanted sectors were had, for so much time at the head that was given away.
    pub fn had(&mut self, sectors: u32, bought: Duration) {
        self.had += u64::from(sectors);
        self.bought += bought;
    }

    /// The wanted sectors that are had in so much of the foreground's time, as of late.
    pub fn had_in(&self, time: Duration) -> u64 {
        let had = u128::from(self.had) * u128::from(time.as_nanos());
        u64::try_from(had / u128::from(self.recent.head.foreground.max(LEAST).as_nanos())).unwrap_or(u64::MAX)
    }

    /// From time to time: the harm of late, in millionths of the foreground's time, beside what was given away.
    pub fn look(&mut self) -> Option<u64> {
        if self.accounted < LOOK {
            return None;
        }
        self.accounted = 0;
        let harm = self.recent.worse();
        let time = u128::from(harm.foreground.max(LEAST).as_nanos());
        let net = harm.net().saturating_sub(self.bought);
        u64::try_from(u128::from(net.as_nanos()) * 1_000_000 / time).ok()
    }

    /// Whether caution is called for, where detours may cost so many millionths, and clients have yet to feel so many
    /// nanoseconds of what they have cost.
    pub fn caution(&self, harm_ppm: u32, owed: i64) -> Option<Caution> {
        let mut soon = self.recent;
        soon.add(Duration::ZERO, Duration::ZERO, Lateness { client: owed, head: 0 });
        let harm = soon.worse();
        // Of the time that it would have been without.
        let time = harm.foreground.saturating_sub(harm.net()).max(LEAST).as_nanos();
        let bound = u128::from(time) * u128::from(harm_ppm) / 1_000_000;
        if !self.trusted {
            Some(Caution::Mistrust)
        } else if u128::from(harm.net().as_nanos()) > bound {
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
        assert_eq!(guard.caution(10_000, 0), Some(Caution::Mistrust));
        let mut until = |good: bool, wanted: Option<Caution>| {
            (0..2_000).find(|_| {
                guard.note(good);
                guard.caution(10_000, 0) == wanted
            })
        };
        assert!(until(true, None).is_some_and(|n| n < 400));
        assert!(until(false, Some(Caution::Mistrust)).is_some_and(|n| n < 100));
        assert!(until(true, None).is_some_and(|n| n < 400));
    }

    #[test]
    fn that_trust_is_missing_for_long_is_told_again_and_again() {
        let mut guard = Guard::new();
        assert!((0..2_000).all(|_| !guard.note(true)));
        let told: Vec<u32> = (0..5_000).filter(|_| guard.note(false)).collect();
        assert!(told[0] < 100, "{told:?}");
        assert!(told.len() == 5 && told.windows(2).all(|pair| pair[1] - pair[0] > LASTING - 2), "{told:?}");
        (0..2_000).for_each(|_| {
            guard.note(true);
        });
        assert!((0..2_000).all(|_| !guard.note(true)));
    }

    #[test]
    fn one_in_forty_wrong_is_no_reason_for_mistrust() {
        let mut guard = Guard::new();
        for n in 0..20_000 {
            guard.note(n % 40 != 0);
            assert!(n < 1_000 || guard.caution(10_000, 0).is_none());
        }
    }

    #[test]
    fn harm_above_its_bound_ends_detours_until_it_is_small_again() {
        let mut guard = Guard::new();
        (0..1_000).for_each(|_| {
            guard.note(true);
        });
        let (request, turn) = (Duration::from_millis(7), Duration::from_millis(6));
        // Every tenth detour costs a turn; without caution that would be 8%.
        for n in 0..200_000 {
            let detour = guard.caution(10_000, 0).is_none();
            let late = if detour && n % 10 == 0 { turn } else { Duration::ZERO };
            guard.account(
                request + late,
                request + late,
                Lateness { client: nanos(late), head: nanos(late) },
                65_536,
            );
        }
        let share = guard.harm().share();
        assert!(share > 0.005 && share < 0.0105, "{share}");
    }

    #[test]
    fn what_a_burst_has_waited_pays_for_nothing_after_it() {
        let mut guard = Guard::new();
        (0..2_000).for_each(|_| {
            guard.note(true);
        });
        let (request, turn) = (Duration::from_millis(7), Duration::from_millis(6));
        // Hundreds come at once, and wait for seconds; each of those after them waits for nobody.
        for n in 0..400 {
            guard.account(request, request * (n + 1), Lateness::default(), 65_536);
        }
        let mut lost = Duration::ZERO;
        for _ in 0..400 {
            let late = if guard.caution(10_000, 0).is_none() { turn } else { Duration::ZERO };
            guard.account(
                request + late,
                request + late,
                Lateness { client: nanos(late), head: nanos(late) },
                65_536,
            );
            lost += late;
        }
        assert!(lost > turn && lost.as_nanos() < (request * 800).as_nanos() / 90, "{lost:?}");
    }
}
