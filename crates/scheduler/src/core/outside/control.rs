//! Control gaps: what requests take that are left alone where a detour would look free of cost and may not be.
//!
//! Whether a detour was late is seen against a forecast of its request without it ([`Plain`](super::Plain)). A request that
//! is foreseen to come just too late for its sectors has nearly a turn to spare, which a detour takes; a head that is really
//! sooner than told would have caught them, and the detour has cost a turn that no forecast knows of. With a detour in
//! every such gap nobody would ever see it. So some of them are left alone: the first few, then one in so many, and all
//! where most are not there. How many of those come a turn early is what detours cost in gaps like them; it goes into the
//! account of harm, and the completions tell [`Correction`](super::Correction) how long moves really are.

use super::Outside;
use super::clock::nanos;
use super::forecast::Forecast;
use super::record::Observed;
use model::DriveModel;
use units::{Duration, LbnRange, Op};

/// Gaps are told apart by how much sooner the head would have to be for the turn before: in steps of 100 us, up to 1.6 ms,
/// beyond which no correction is believed either; and as far again and more as long as heads are seen to be so early.
const STEP_NS: i64 = 100_000;
const NEAR: usize = 16;
const STEPS: usize = 40;

/// So many gaps of a step are left alone before any is used.
const FIRST: u32 = 8;

/// Then one in so many, where heads may be early; elsewhere one in so many.
const WATCHED: u32 = 16;
const ELSEWHERE: u32 = 128;

/// Heads may be early in the first step that has gaps, and in one behind which, next to it among those, one in so many is.
const SUSPECT: u32 = 4;

/// Half is forgotten after so many.
const MEMORY: u32 = 512;

/// Fewer requests than this say less than all of their number.
const FEW: u32 = 8;

/// Of a step, requests that were left alone, those of them that came a turn early, and gaps of it.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    alone: u32,
    early: u32,
    gaps: u32,
}

impl Step {
    fn suspect(&self) -> bool {
        self.early * SUSPECT >= self.alone.max(1)
    }
}

/// What is known of requests that were left alone, to read and to write.
#[derive(Clone, Debug)]
pub(super) struct Control {
    steps: [[Step; STEPS]; 2],
    /// By how many nanoseconds requests without a detour, of all gaps, are late in the mean for what nothing explains.
    strays: i64,
}

impl Default for Control {
    fn default() -> Self {
        Self { steps: [[Step::default(); STEPS]; 2], strays: 0 }
    }
}

/// Of so many requests.
const STRAYS_OF: i64 = 1_024;

/// The step of a request that would be a turn early if its head came so much sooner; `None` where something else than the
/// move decides when it begins.
fn step(turn: Duration, foreseen: &Forecast) -> Option<usize> {
    let decides = foreseen.moves && foreseen.set_out.is_some();
    let sooner = nanos(turn.saturating_sub(foreseen.wait));
    let step = usize::try_from(sooner / STEP_NS).ok()?;
    (decides && step < STEPS).then_some(step)
}

impl Control {
    /// Whether the gap of a request that is foreseen so, alone, is to be left alone.
    pub fn leaves(&mut self, turn: Duration, op: Op, foreseen: &Forecast) -> bool {
        let Some(at) = step(turn, foreseen) else { return false };
        let steps = &mut self.steps[usize::from(op.is_write())];
        // Where a head may begin anywhere, there are no gaps in the steps that are shorter than a request.
        let nearer = steps[..at].iter().rev().find(|nearer| nearer.gaps > 0);
        let watched = nearer.is_none_or(Step::suspect);
        let step = &mut steps[at];
        step.gaps = step.gaps.wrapping_add(1);
        let tried = at < NEAR || watched;
        let one_in = if watched { WATCHED } else { ELSEWHERE };
        watched && step.alone < FIRST
            || step.early * 2 > step.alone
            || tried && step.gaps.is_multiple_of(one_in)
    }

    /// A request that was left alone is done.
    pub fn note(&mut self, turn: Duration, op: Op, foreseen: &Forecast, seen: &Observed) {
        let Some(at) = step(turn, foreseen).filter(|_| seen.explained) else { return };
        let step = &mut self.steps[usize::from(op.is_write())][at];
        step.alone += 1;
        step.early += u32::from(seen.turns < 0);
        if step.alone == MEMORY {
            (step.alone, step.early) = (MEMORY / 2, step.early / 2);
        }
    }

    /// A request without a detour is done, wherever it was. Where a profile has sectors elsewhere than they are, nothing
    /// explains when they come, with a detour or without.
    pub fn note_stray(&mut self, turn: Duration, seen: &Observed) {
        let late = if seen.explained { 0 } else { seen.error.clamp(0, nanos(turn)) };
        self.strays += (late - self.strays) / STRAYS_OF;
    }

    /// By how many nanoseconds a request is late in the mean for what nothing explains, and no detour has done.
    pub fn stray(&self) -> i64 {
        self.strays
    }

    /// By how many nanoseconds requests that are foreseen so come sooner in the mean when they are left alone.
    pub fn sooner(&self, turn: Duration, op: Op, foreseen: &Forecast) -> i64 {
        let Some(at) = step(turn, foreseen) else { return 0 };
        let step = self.steps[usize::from(op.is_write())][at];
        // A gap is used as long as few are seen to be early, which is sooner so by chance than not: one more is taken to be.
        let early = step.early + u32::from(step.early > 0);
        nanos(turn) * i64::from(early) / i64::from(step.alone.max(FEW))
    }

    /// Moves are foreseen otherwise from now on.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Outside {
    /// Whether the gap before `asked` is left alone, to see what the request takes without a detour; and by how many
    /// nanoseconds it comes sooner than foreseen in the mean, if it is left alone.
    pub(super) fn control(&mut self, drive: &DriveModel, (op, asked): (Op, LbnRange)) -> (bool, i64) {
        if self.may_be_buffered(drive, op, asked) {
            return (true, 0);
        }
        if !self.config.control_gaps || self.caution().is_some() {
            return (false, 0);
        }
        let mut foreseen = None;
        self.walk(drive, &[(op, asked)], |forecast| foreseen = Some(*forecast));
        let turn = crate::core::under_way::turn(drive);
        let Some(foreseen) = foreseen else { return (false, 0) };
        let sooner = self.control.sooner(turn, op, &foreseen) - self.control.stray();
        (self.control.leaves(turn, op, &foreseen), sooner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outside::forecast::{SetOut, Source};
    use units::Instant;

    const TURN: Duration = Duration::from_millis(6);

    /// A request whose head would have to come so many microseconds sooner for the turn before.
    fn missing_by(us: u64) -> Forecast {
        let at = |d: Duration| Instant::ZERO + d;
        let start = at(TURN - Duration::from_micros(us));
        Forecast {
            service: Instant::ZERO,
            able: Instant::ZERO,
            arrive: Instant::ZERO,
            start,
            end: start,
            heard: start,
            heard_at_latest: start,
            distance: 1_000,
            moves: true,
            in_two_parts: false,
            wait: TURN - Duration::from_micros(us),
            rear: Duration::ZERO,
            set_out: Some(SetOut::Queued),
            source: Source::Medium,
        }
    }

    /// Moves are told to take so many microseconds longer than they do; requests miss their sectors by anything up to 1.6 ms:
    /// those whose gaps are used although there is none, what is told of them in turns, and all gaps that are used.
    fn told_longer_by(us: u64, requests: u64) -> (u64, f64, u64) {
        told_longer_by_where_misses_begin_at(0, us, requests)
    }

    /// The same where a head that comes among the first sectors begins there, so that no request misses by less.
    fn told_longer_by_where_misses_begin_at(least: u64, us: u64, requests: u64) -> (u64, f64, u64) {
        let mut control = Control::default();
        let (mut lost, mut told, mut used) = (0, 0, 0);
        let mut state = 1u64;
        for _ in 0..requests {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let miss = least + (state >> 33) % (1_600 - least);
            let foreseen = missing_by(miss);
            let early = miss < us;
            if control.leaves(TURN, Op::Read, &foreseen) {
                let seen = Observed { error: 0, turns: -i64::from(early), explained: true, foreseen: true };
                control.note(TURN, Op::Read, &foreseen, &seen);
            } else {
                lost += u64::from(early);
                told += control.sooner(TURN, Op::Read, &foreseen);
                used += 1;
            }
        }
        (lost, told as f64 / nanos(TURN) as f64, used)
    }

    #[test]
    fn what_detours_hide_is_told() {
        for us in [60, 340, 820] {
            let (lost, told, used) = told_longer_by(us, 100_000);
            assert!((told - lost as f64).abs() < 0.15 * lost as f64 + 60.0, "{us}: {told} of {lost}");
            // Where there is no gap hardly any is used.
            assert!(lost < 6_000, "{us}: {lost} of {used}");
        }
    }

    #[test]
    fn where_the_nearest_gaps_are_none_those_behind_them_are_watched() {
        for least in [144, 340] {
            let (lost, told, used) = told_longer_by_where_misses_begin_at(least, 820, 100_000);
            assert!((told - lost as f64).abs() < 0.25 * lost as f64 + 60.0, "{told} of {lost}");
            assert!(lost < 6_000, "{lost} of {used}");
            let (lost, told, used) = told_longer_by_where_misses_begin_at(least, 0, 20_000);
            assert!((lost, told) == (0, 0.0) && used > 19_700, "{used}");
        }
    }

    #[test]
    fn a_profile_that_is_right_costs_one_gap_in_a_hundred() {
        let (lost, told, used) = told_longer_by(0, 20_000);
        assert_eq!((lost, told), (0, 0.0));
        assert!(used > 19_700, "{used}");
    }

    #[test]
    fn what_is_late_with_and_without_detours_is_told() {
        let mut control = Control::default();
        // One in fifty is late by half a turn, for no reason that is known; turns that were lost do not count.
        for n in 0..20_000 {
            let stray = Observed { error: nanos(TURN) / 2, turns: 0, explained: false, foreseen: false };
            let lost = Observed { error: nanos(TURN), turns: 1, explained: true, foreseen: true };
            control.note_stray(TURN, if n % 50 == 0 { &stray } else { &lost });
        }
        let mean = nanos(TURN) / 100;
        assert!((control.stray() - mean).abs() < mean / 5, "{}", control.stray());
    }

    #[test]
    fn what_does_not_hang_on_a_move_is_never_left_alone() {
        let mut control = Control::default();
        let written = Forecast { set_out: None, ..missing_by(50) };
        for foreseen in [written, missing_by(4_100)] {
            assert!((0..1_000).all(|_| !control.leaves(TURN, Op::Write, &foreseen)));
        }
    }
}
