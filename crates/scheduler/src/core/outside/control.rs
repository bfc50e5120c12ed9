//! Control gaps: gaps that are left unused although a detour would seem free of cost.
//!
//! A detour's cost is the difference from a forecast of its request without the detour ([`Plain`](super::Plain)). A head that
//! seems to arrive just too late for the request's sectors has nearly a revolution to spare for a detour. If the true head is
//! faster than the profile's, it would have reached the sectors, and the detour has cost a revolution that no forecast shows.
//! With a detour in every such gap this cost would stay hidden. Therefore some of these gaps are left unused: the first few,
//! then one in a number, and all of a class if most of its gaps turn out not to exist. The share of requests that come a
//! revolution early is the cost of detours in similar gaps. That cost goes into the harm estimate, and the completions show
//! the true moves to [`Correction`](super::Correction).

use super::Outside;
use super::clock::nanos;
use super::forecast::Forecast;
use super::record::Observation;
use super::transfer::Transfer;
use model::DriveModel;
use units::{Duration, Op};

/// The classes of gaps, by the lead that the head would need to reach the sectors a revolution earlier: steps of 100 us up to
/// 1.6 ms, the largest correction; and further steps, up to `LEAD_STEPS_MAX`, as long as heads are seen to be that early.
const STEP_NS: i64 = 100_000;
const CORRECTABLE_STEPS: usize = 16;
const LEAD_STEPS_MAX: usize = 40;

/// In a step (a class of gaps) in which heads may come a revolution early, the number of gaps that are left unused before any
/// is used.
const UNUSED_GAPS_MIN: u32 = 8;

/// After `UNUSED_GAPS_MIN` gaps, one in this number is left unused in a step in which heads may come a revolution early.
const GAPS_PER_UNUSED_IF_EARLY: u32 = 16;
/// In a step in which heads hardly ever come a revolution early, one gap in this number is left unused.
const GAPS_PER_UNUSED: u32 = 128;

/// Heads may come a revolution early in the first step that has gaps, and in a later step if, in the nearest step before it
/// that has gaps, at least 1 in this number of the requests behind unused gaps came a revolution early.
const REQUESTS_PER_EARLY_MAX: u32 = 4;

/// The number of requests behind a step's unused gaps after which half of the step's counts of requests is discarded, so that
/// old ones are forgotten.
const REQUESTS_COUNTED_MAX: u32 = 512;

/// The least divisor of a share of early requests, so that few requests do not give a large share.
const REQUESTS_MIN: u32 = 8;

/// The counts of a step: the requests behind its unused gaps, those of them that came a revolution early, and all its gaps.
#[derive(Clone, Copy, Debug, Default)]
struct LeadStep {
    alone: u32,
    early: u32,
    gaps: u32,
}

impl LeadStep {
    fn suspect(&self) -> bool {
        self.early * REQUESTS_PER_EARLY_MAX >= self.alone.max(1)
    }
}

/// The counts of each step, for reads and for writes.
#[derive(Clone, Debug)]
pub(super) struct Control {
    steps: [[LeadStep; LEAD_STEPS_MAX]; 2],
}

impl Default for Control {
    fn default() -> Self {
        Self { steps: [[LeadStep::default(); LEAD_STEPS_MAX]; 2] }
    }
}

/// Returns the step of a request's gap, by the lead with which the head would reach the sectors a revolution earlier. `None`
/// if the lead is beyond all steps, or if the start of the transfer does not depend on the move.
fn step(revolution: Duration, predicted: &Forecast) -> Option<usize> {
    let decides = predicted.moves && predicted.set_out.is_some();
    let lead = nanos(revolution.saturating_sub(predicted.wait));
    let step = usize::try_from(lead / STEP_NS).ok()?;
    (decides && step < LEAD_STEPS_MAX).then_some(step)
}

impl Control {
    /// Returns whether the gap of a request with this forecast is left unused.
    pub fn leaves(&mut self, revolution: Duration, op: Op, predicted: &Forecast) -> bool {
        let Some(at) = step(revolution, predicted) else { return false };
        let steps = &mut self.steps[usize::from(op.is_write())];
        // If a drive may begin to transfer in the middle of a request, a head that misses the first sectors by less than the
        // pass of the request has no gap: the first steps are then empty.
        let nearer = steps[..at].iter().rev().find(|nearer| nearer.gaps > 0);
        let watched = nearer.is_none_or(LeadStep::suspect);
        let step = &mut steps[at];
        step.gaps = step.gaps.wrapping_add(1);
        let tried = at < CORRECTABLE_STEPS || watched;
        let one_in = if watched { GAPS_PER_UNUSED_IF_EARLY } else { GAPS_PER_UNUSED };
        watched && step.alone < UNUSED_GAPS_MIN
            || step.early * 2 > step.alone
            || tried && step.gaps.is_multiple_of(one_in)
    }

    /// Records a request whose gap was left unused.
    pub fn note(&mut self, revolution: Duration, op: Op, predicted: &Forecast, seen: &Observation) {
        let Some(at) = step(revolution, predicted).filter(|_| seen.explained) else { return };
        let step = &mut self.steps[usize::from(op.is_write())][at];
        step.alone += 1;
        step.early += u32::from(seen.revolutions < 0);
        if step.alone == REQUESTS_COUNTED_MAX {
            (step.alone, step.early) = (REQUESTS_COUNTED_MAX / 2, step.early / 2);
        }
    }

    /// Returns the mean lead in ns, over their forecasts, of requests behind unused gaps of the same step.
    pub fn lead(&self, revolution: Duration, op: Op, predicted: &Forecast) -> i64 {
        let Some(at) = step(revolution, predicted) else { return 0 };
        let step = self.steps[usize::from(op.is_write())][at];
        // Gaps of this step get detours only while at most half of the requests behind its unused gaps came a revolution
        // early. A small count is therefore biased low when it is used: one is added, unless it is 0.
        let early = step.early + u32::from(step.early > 0);
        nanos(revolution) * i64::from(early) / i64::from(step.alone.max(REQUESTS_MIN))
    }

    /// Discards the counts, because the forecasts have changed.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Outside {
    /// Returns whether the gap before `asked` is left unused as a control, and the request's mean lead in ns without a
    /// detour.
    pub(super) fn control(&mut self, drive: &DriveModel, asked: Transfer) -> (bool, i64) {
        if self.leaves_to_buffer(drive, asked) {
            return (true, 0);
        }
        if !self.config.control_gaps || self.caution().is_some() {
            return (false, 0);
        }
        let mut predicted = None;
        self.walk(drive, &[asked], |forecast| predicted = Some(*forecast));
        let revolution = crate::core::under_way::revolution(drive);
        let Some(predicted) = predicted else { return (false, 0) };
        let lead = self.control.lead(revolution, asked.op, &predicted);
        (self.control.leaves(revolution, asked.op, &predicted), lead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outside::forecast::{SetOut, Source};
    use units::Instant;

    const REVOLUTION: Duration = Duration::from_millis(6);

    /// Returns the forecast of a request that would be a revolution early with a lead of `us` microseconds.
    fn missing_by(us: u64) -> Forecast {
        let at = |d: Duration| Instant::ZERO + d;
        let start = at(REVOLUTION - Duration::from_micros(us));
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
            wait: REVOLUTION - Duration::from_micros(us),
            rear: Duration::ZERO,
            set_out: Some(SetOut::Queued),
            source: Source::Medium,
        }
    }

    /// Simulates moves that are `us` microseconds too long in the profile, with requests that miss their sectors by up to
    /// 1.6 ms. Returns the number of used gaps that do not exist, the estimated cost of all used gaps in revolutions, and
    /// the number of used gaps.
    fn profile_longer_by(us: u64, requests: u64) -> (u64, f64, u64) {
        profile_longer_by_where_misses_begin_at(0, us, requests)
    }

    /// Simulates the same for a drive that may begin in the middle of a request, so that no request misses by less than
    /// `least` microseconds.
    fn profile_longer_by_where_misses_begin_at(least: u64, us: u64, requests: u64) -> (u64, f64, u64) {
        let mut control = Control::default();
        let (mut lost, mut reported, mut used) = (0, 0, 0);
        let mut state = 1u64;
        for _ in 0..requests {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let miss = least + (state >> 33) % (1_600 - least);
            let predicted = missing_by(miss);
            let early = miss < us;
            if control.leaves(REVOLUTION, Op::Read, &predicted) {
                let seen = Observation {
                    error: 0,
                    revolutions: -i64::from(early),
                    explained: true,
                    predicted: true,
                };
                control.note(REVOLUTION, Op::Read, &predicted, &seen);
            } else {
                lost += u64::from(early);
                reported += control.lead(REVOLUTION, Op::Read, &predicted);
                used += 1;
            }
        }
        (lost, reported as f64 / nanos(REVOLUTION) as f64, used)
    }

    #[test]
    fn control_gaps_show_hidden_costs() {
        for us in [60, 340, 820] {
            let (lost, reported, used) = profile_longer_by(us, 100_000);
            assert!((reported - lost as f64).abs() < 0.15 * lost as f64 + 60.0, "{us}: {reported} of {lost}");
            // Few gaps that do not exist are used.
            assert!(lost < 6_000, "{us}: {lost} of {used}");
        }
    }

    #[test]
    fn if_gaps_of_least_lead_do_not_exist_the_next_are_watched() {
        for least in [144, 340] {
            let (lost, reported, used) = profile_longer_by_where_misses_begin_at(least, 820, 100_000);
            assert!((reported - lost as f64).abs() < 0.25 * lost as f64 + 60.0, "{reported} of {lost}");
            assert!(lost < 6_000, "{lost} of {used}");
            let (lost, reported, used) = profile_longer_by_where_misses_begin_at(least, 0, 20_000);
            assert!((lost, reported) == (0, 0.0) && used > 19_700, "{used}");
        }
    }

    #[test]
    fn a_profile_that_is_right_costs_one_gap_in_a_hundred() {
        let (lost, reported, used) = profile_longer_by(0, 20_000);
        assert_eq!((lost, reported), (0, 0.0));
        assert!(used > 19_700, "{used}");
    }

    #[test]
    fn a_request_without_a_move_is_never_a_control() {
        let mut control = Control::default();
        let written = Forecast { set_out: None, ..missing_by(50) };
        for predicted in [written, missing_by(4_100)] {
            assert!((0..1_000).all(|_| !control.leaves(REVOLUTION, Op::Write, &predicted)));
        }
    }
}
