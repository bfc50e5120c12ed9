//! The permission of detours, which harm the foreground when predictions are wrong.
//!
//! There are two measures. Trust, over about the last hundred commands, is the share of commands that complete as predicted;
//! it is low on a drive that contradicts its profile, reorders, or has no head at all. Harm, over about a minute of the
//! foreground's time at the head, is the delay of requests by detours ([`client_harm`](super::client_harm)) as a share of the
//! clients' response times. If a detour lets the foreground choose later, from more requests, half of the gain is credited,
//! because the chosen request is missing in the next choice. Tests and the lab measure the true harm against a run without
//! detours.

use crate::idle::Harm;
use units::Duration;

/// The number of commands over which trust is averaged: a few wrong predictions do not end it.
const MEAN_COMMANDS: u32 = 128;

/// The shares, in 65536ths, of commands that are as predicted at which trust begins and ends. Between seven eighths and three
/// quarters the last state stays, so that trust does not change with every command.
const TRUST_BEGIN_65536THS: u32 = 65_536 * 7 / 8;
const TRUST_END_65536THS: u32 = 65_536 * 3 / 4;

/// The number of commands without trust after which the learned corrections are discarded, because they may be the cause.
const MISTRUSTED_COMMANDS_MAX: u32 = 1_024;

/// The foreground's time at the head after which half of the harm is forgotten, so that the load of long ago does not count.
const HARM_MEMORY: Duration = Duration::from_secs(60);

/// The least foreground time with which harm is compared, so that the first late detour does not end all detours.
const HARM_TIME_MIN: Duration = Duration::from_secs(2);

/// The number of commands between two updates of the margins.
const COMMANDS_PER_UPDATE: u32 = 512;

/// The reason why a core outside the drive does not use gaps. Idle time is still used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caution {
    /// The platter's angle is unknown: at the start, or after too many completions that do not fit it.
    Unsynchronised,
    /// Too few commands complete as predicted.
    Mistrust,
    /// The harm of detours is at its bound.
    Harm,
    /// Only the drive's size is known.
    Unknown,
    /// Most of the foreground's reads are cache hits, and a detour would evict the data of the next ones.
    Buffered,
}

/// The delays and gains by detours over some time, of the clients and of the head; both are bounded.
#[derive(Clone, Copy, Debug, Default)]
struct HarmTally {
    /// The clients' response times, and their increase or decrease.
    client_harm: Harm,
    /// The foreground's time at the head, and its increase or decrease.
    head: Harm,
}

impl HarmTally {
    fn add(&mut self, time: Duration, response: Duration, late: Lateness) {
        self.head.foreground += time;
        self.client_harm.foreground += response;
        self.client_harm.late_by(late.client);
        self.head.late_by(late.head);
    }

    fn halve(&mut self) {
        for Harm { foreground, late, early } in [&mut self.client_harm, &mut self.head] {
            for time in [foreground, late, early] {
                *time = *time / 2;
            }
        }
    }

    /// Returns the harm with the greater share: the clients', or the head's.
    fn worse(&self) -> Harm {
        self.head.or_client_harm(&self.client_harm)
    }
}

/// The delay of a request in ns; negative means early.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// The client's delay.
    pub client: i64,
    /// The head's delay.
    pub head: i64,
}

/// The measures of trust and harm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    /// The share of commands that were as predicted, in 65536ths.
    predicted: u32,
    trusted: bool,
    /// Commands since trust ended, or since [`Guard::note`] last returned true.
    doubted: u32,
    recent: HarmTally,
    /// The time by which requests were delayed on purpose for detours.
    spent: Duration,
    /// The number of wanted sectors that detours have yielded.
    sectors: u64,
    /// Commands since the last update of the margins.
    accounted: u32,
    /// The delays and gains since the start.
    all: HarmTally,
}

impl Guard {
    pub fn new() -> Self {
        Self {
            predicted: 65_536 / 2,
            trusted: false,
            doubted: 0,
            recent: HarmTally::default(),
            spent: Duration::ZERO,
            sectors: 0,
            accounted: 0,
            all: HarmTally::default(),
        }
    }

    /// Records whether a command completed as predicted. Returns whether trust ends with this command, or has been missing for
    /// another [`MISTRUSTED_COMMANDS_MAX`] commands.
    pub fn note(&mut self, predicted: bool) -> bool {
        let trusted = self.trusted;
        self.predicted -= self.predicted / MEAN_COMMANDS;
        if predicted {
            self.predicted += 65_536 / MEAN_COMMANDS;
        }
        self.trusted = self.predicted >= if self.trusted { TRUST_END_65536THS } else { TRUST_BEGIN_65536THS };
        let ends = trusted && !self.trusted;
        self.doubted = if self.trusted || ends || self.doubted == MISTRUSTED_COMMANDS_MAX {
            0
        } else {
            self.doubted + 1
        };
        ends || self.doubted == MISTRUSTED_COMMANDS_MAX
    }

    /// Records a command that used the head for `time`, the client's `response` time, and how `late` client and head were.
    /// `left` is the part of the bound on harm that idle time has not used, in 65536ths.
    pub fn account(&mut self, time: Duration, response: Duration, late: Lateness, left: u32) {
        // While detours are not allowed, only the part of the bound that idle time leaves is saved for them.
        let saved = |time: Duration| if self.trusted { time } else { time * u64::from(left) / 65_536 };
        self.recent.add(saved(time), saved(response), late);
        self.all.add(time, response, late);
        self.accounted += 1;
        if self.recent.head.foreground >= HARM_MEMORY {
            self.recent.halve();
            self.spent = self.spent / 2;
            self.sectors /= 2;
        }
    }

    /// Returns whether commands complete as predicted.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Returns the harm of all detours since the start.
    pub fn harm(&self) -> Harm {
        self.all.worse()
    }

    /// Records wanted sectors of a detour, and the time by which its request was delayed on purpose.
    pub fn note_yield(&mut self, sectors: u32, spent: Duration) {
        self.sectors += u64::from(sectors);
        self.spent += spent;
    }

    /// Returns the usual number of wanted sectors that detours yield in `time` of the foreground's time.
    pub fn yield_in(&self, time: Duration) -> u64 {
        let sectors = u128::from(self.sectors) * u128::from(time.as_nanos());
        u64::try_from(sectors / u128::from(self.recent.head.foreground.max(HARM_TIME_MIN).as_nanos()))
            .unwrap_or(u64::MAX)
    }

    /// Returns, once in [`COMMANDS_PER_UPDATE`] commands, the recent harm in ppm of the foreground's time, without the time
    /// spent on purpose.
    pub fn recent_ppm(&mut self) -> Option<u64> {
        if self.accounted < COMMANDS_PER_UPDATE {
            return None;
        }
        self.accounted = 0;
        let harm = self.recent.worse();
        let time = u128::from(harm.foreground.max(HARM_TIME_MIN).as_nanos());
        let net = harm.net().saturating_sub(self.spent);
        u64::try_from(u128::from(net.as_nanos()) * 1_000_000 / time).ok()
    }

    /// Returns the reason against detours, if any, for a bound of `harm_ppm` and an expected further delay of the clients by
    /// `owed` ns.
    pub fn caution(&self, harm_ppm: u32, owed: i64) -> Option<Caution> {
        let mut soon = self.recent;
        soon.add(Duration::ZERO, Duration::ZERO, Lateness { client: owed, head: 0 });
        let harm = soon.worse();
        // The bound is a share of the time that the foreground would have taken without the harm.
        let time = harm.foreground.saturating_sub(harm.net()).max(HARM_TIME_MIN).as_nanos();
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
    fn missing_trust_is_returned_repeatedly() {
        let mut guard = Guard::new();
        assert!((0..2_000).all(|_| !guard.note(true)));
        let reported: Vec<u32> = (0..5_000).filter(|_| guard.note(false)).collect();
        assert!(reported[0] < 100, "{reported:?}");
        assert!(
            reported.len() == 5
                && reported.windows(2).all(|pair| pair[1] - pair[0] > MISTRUSTED_COMMANDS_MAX - 2),
            "{reported:?}"
        );
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
        let (request, revolution) = (Duration::from_millis(7), Duration::from_millis(6));
        // Every tenth detour costs a revolution; without caution that would be 8%.
        for n in 0..200_000 {
            let detour = guard.caution(10_000, 0).is_none();
            let late = if detour && n % 10 == 0 { revolution } else { Duration::ZERO };
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
    fn the_wait_of_a_burst_does_not_offset_later_harm() {
        let mut guard = Guard::new();
        (0..2_000).for_each(|_| {
            guard.note(true);
        });
        let (request, revolution) = (Duration::from_millis(7), Duration::from_millis(6));
        // Hundreds of requests arrive at once and wait for seconds; later requests find no other waiting.
        for n in 0..400 {
            guard.account(request, request * (n + 1), Lateness::default(), 65_536);
        }
        let mut lost = Duration::ZERO;
        for _ in 0..400 {
            let late = if guard.caution(10_000, 0).is_none() { revolution } else { Duration::ZERO };
            guard.account(
                request + late,
                request + late,
                Lateness { client: nanos(late), head: nanos(late) },
                65_536,
            );
            lost += late;
        }
        assert!(lost > revolution && lost.as_nanos() < (request * 800).as_nanos() / 90, "{lost:?}");
    }
}
