//! The rotation of the platter, at a constant or a slowly drifting speed.
//!
//! A platter at a whole number of revolutions per minute rotates by exactly that number of parts of a revolution in a
//! nanosecond ([`units::FULL_REVOLUTION`]). A drifting spindle changes between whole speeds at fixed instants, so that the
//! rotation since instant zero is a sum of integers, which is tabulated. Nothing is rounded, and no error grows with time.

use crate::dice::{Component, Dice};
use model::DriveModel;
use std::sync::Arc as Shared;
use units::{Angle, Arc, Duration, FULL_REVOLUTION, Instant, Rpm};

/// The number of steps of a drifting speed before the speeds repeat in reverse order; bounds the table.
const DRIFT_STEPS: usize = 2_048;

/// A rotating platter. An event within a nanosecond is reported at the end of that nanosecond, as in [`Rpm::earliest_angle`].
pub trait Platter {
    /// Returns the first angle of the nanosecond that ends at `at`.
    fn earliest_angle(&self, at: Instant) -> Angle;

    /// Returns the first whole nanosecond at which the platter has rotated by `arc` since the
    /// [`earliest_angle`](Self::earliest_angle) at `from`.
    fn after(&self, from: Instant, arc: Arc) -> Instant;

    /// Returns the rotation from the earliest angle at `from` until `to`.
    ///
    /// # Panics
    /// In debug builds, if `to` is before `from`.
    fn turned(&self, from: Instant, to: Instant) -> Arc;
}

impl Platter for Rpm {
    #[inline]
    fn earliest_angle(&self, at: Instant) -> Angle {
        Rpm::earliest_angle(*self, at)
    }

    #[inline]
    fn after(&self, from: Instant, arc: Arc) -> Instant {
        from + self.time_within(arc)
    }

    #[inline]
    fn turned(&self, from: Instant, to: Instant) -> Arc {
        self.arc_in(to.since(from)) + Arc::from_parts(u64::from(self.get()) - 1)
    }
}

/// A platter with the constant speed of the profile.
impl Platter for DriveModel {
    #[inline]
    fn earliest_angle(&self, at: Instant) -> Angle {
        self.rpm().earliest_angle(at)
    }

    #[inline]
    fn after(&self, from: Instant, arc: Arc) -> Instant {
        Platter::after(&self.rpm(), from, arc)
    }

    #[inline]
    fn turned(&self, from: Instant, to: Instant) -> Arc {
        Platter::turned(&self.rpm(), from, to)
    }
}

impl<P: Platter> Platter for Shared<P> {
    #[inline]
    fn earliest_angle(&self, at: Instant) -> Angle {
        (**self).earliest_angle(at)
    }

    #[inline]
    fn after(&self, from: Instant, arc: Arc) -> Instant {
        (**self).after(from, arc)
    }

    #[inline]
    fn turned(&self, from: Instant, to: Instant) -> Arc {
        (**self).turned(from, to)
    }
}

/// The platter of one drive, with a constant or a drifting speed.
#[derive(Clone, Debug)]
pub struct Spindle {
    nominal: Rpm,
    drift: Option<Shared<Drift>>,
}

/// The speeds of a drifting spindle, which repeat without end.
#[derive(Debug)]
struct Drift {
    /// The duration of each speed in ns.
    step: u64,
    /// The speed of each step in revolutions per minute.
    speeds: Vec<u32>,
    /// The rotation before each step, in parts of a revolution, followed by the rotation in all steps.
    turned: Vec<u64>,
}

impl Spindle {
    /// Creates a platter of constant speed.
    pub const fn steady(rpm: Rpm) -> Self {
        Self { nominal: rpm, drift: None }
    }

    /// Creates a platter that begins at `rpm`. After every `step` the speed rises by one revolution per minute, falls by one,
    /// or stays, each with probability 1/3, within `most_ppm` millionths of `rpm`. After 2,048 steps the same speeds follow
    /// in reverse order, and so on.
    pub(crate) fn drifting(rpm: Rpm, most_ppm: u32, step: Duration, seed: u64) -> Self {
        let most = (u64::from(rpm.get()) * u64::from(most_ppm) / 1_000_000) as i64;
        let mut dice = Dice::new(seed, Component::Spindle);
        let mut off = 0_i64;
        let mut walk = Vec::with_capacity(2 * DRIFT_STEPS);
        for _ in 0..DRIFT_STEPS {
            walk.push((i64::from(rpm.get()) + off) as u32);
            off = (off + dice.below(3) as i64 - 1).clamp(-most, most);
        }
        let back: Vec<u32> = walk.iter().rev().copied().collect();
        walk.extend(back);
        let step = step.as_nanos();
        let mut turned = vec![0];
        let mut sum = 0;
        for &speed in &walk {
            sum += u64::from(speed) * step;
            turned.push(sum);
        }
        Self { nominal: rpm, drift: Some(Shared::new(Drift { step, speeds: walk, turned })) }
    }

    /// Returns the speed at an instant.
    pub fn speed_at(&self, at: Instant) -> Rpm {
        match &self.drift {
            None => self.nominal,
            Some(drift) => Rpm::new(drift.speed(at.as_nanos())).unwrap_or(self.nominal),
        }
    }
}

impl Drift {
    /// Returns the number of complete repetitions of all speeds before the instant `t`, then the current step, and the
    /// nanoseconds since the start of that step.
    fn place(&self, t: u64) -> (u64, usize, u64) {
        let steps = self.speeds.len() as u64;
        let (n, into) = (t / self.step, t % self.step);
        (n / steps, (n % steps) as usize, into)
    }

    fn speed(&self, t: u64) -> u32 {
        self.speeds[self.place(t).1]
    }

    /// Returns the rotation from instant zero to `t`, in parts of a revolution.
    fn parts(&self, t: u64) -> u128 {
        let (round, step, into) = self.place(t);
        let whole = self.turned[self.speeds.len()];
        u128::from(round) * u128::from(whole)
            + u128::from(self.turned[step])
            + u128::from(into) * u128::from(self.speeds[step])
    }

    /// Returns the rotation in the nanosecond that ends at `t`, less one part of a revolution.
    fn back(&self, t: u64) -> u64 {
        u64::from(self.speed(t.saturating_sub(1))) - 1
    }
}

impl Platter for Spindle {
    #[inline]
    fn earliest_angle(&self, at: Instant) -> Angle {
        match &self.drift {
            None => self.nominal.earliest_angle(at),
            Some(drift) => {
                let t = at.as_nanos();
                let revolution = u128::from(FULL_REVOLUTION);
                let parts = drift.parts(t) + revolution - u128::from(drift.back(t));
                Angle::from_parts((parts % revolution) as u64)
            }
        }
    }

    #[inline]
    fn after(&self, from: Instant, arc: Arc) -> Instant {
        match &self.drift {
            None => Platter::after(&self.nominal, from, arc),
            Some(drift) => {
                let mut t = from.as_nanos();
                // A point within the nanosecond that ends at `from` has passed at `from`.
                let Some(mut left) = arc.parts().checked_sub(drift.back(t)) else { return from };
                loop {
                    let (_, step, into) = drift.place(t);
                    let speed = u64::from(drift.speeds[step]);
                    let until = drift.step - into;
                    let here = speed * until;
                    if left <= here {
                        return Instant::from_nanos(t + left.div_ceil(speed));
                    }
                    left -= here;
                    t += until;
                }
            }
        }
    }

    #[inline]
    fn turned(&self, from: Instant, to: Instant) -> Arc {
        match &self.drift {
            None => Platter::turned(&self.nominal, from, to),
            Some(drift) => {
                debug_assert!(to >= from);
                let (a, b) = (from.as_nanos(), to.as_nanos());
                let parts = drift.parts(b).saturating_sub(drift.parts(a)) as u64;
                Arc::from_parts(parts.saturating_add(drift.back(a)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drifting() -> impl Strategy<Value = (Spindle, u64)> {
        (3_000_u32..20_000, 0_u32..20_000, 1_u64..40_000, any::<u64>()).prop_map(|(rpm, ppm, step, seed)| {
            let rpm = Rpm::new(rpm).unwrap();
            (Spindle::drifting(rpm, ppm, Duration::from_micros(step), seed), step * 1_000)
        })
    }

    /// Returns the rotation from instant zero to `t` in parts of a revolution, summed step by step.
    fn naive(spindle: &Spindle, step: u64, t: u64) -> u128 {
        let drift = spindle.drift.as_ref().unwrap();
        let speeds = drift.speeds.iter().cycle();
        let mut left = t;
        let mut parts = 0;
        for &speed in speeds {
            let here = left.min(step);
            parts += u128::from(here) * u128::from(speed);
            left -= here;
            if left == 0 {
                break;
            }
        }
        parts
    }

    proptest! {
        #[test]
        fn the_angle_is_the_sum_of_all_that_was_turned((spindle, step) in drifting(), n in 0_u64..10_000, into in any::<u64>()) {
            let t = n * step + into % step;
            let revolution = u128::from(FULL_REVOLUTION);
            let back = u128::from(spindle.speed_at(Instant::from_nanos(t.saturating_sub(1))).get() - 1);
            let exact = (naive(&spindle, step, t) + revolution - back) % revolution;
            prop_assert_eq!(u128::from(spindle.earliest_angle(Instant::from_nanos(t)).parts()), exact);
        }

        #[test]
        fn a_point_ahead_passes_in_the_nanosecond_in_which_the_platter_reaches_it(
            (spindle, step) in drifting(), n in 0_u64..5_000, into in any::<u64>(), arc in 0_u64..3 * FULL_REVOLUTION,
        ) {
            let from = Instant::from_nanos(n * step + into % step);
            let arc = Arc::from_parts(arc);
            let there = spindle.after(from, arc);
            prop_assert!(spindle.turned(from, there) >= arc);
            if there > from {
                let before = Instant::from_nanos(there.as_nanos() - 1);
                prop_assert!(spindle.turned(from, before) < arc);
            }
        }

        #[test]
        fn time_forward_is_rotation_forward_and_adds_up(
            (spindle, step) in drifting(), t in proptest::array::uniform3(0_u64..200),
        ) {
            let mut t = t.map(|n| n * step / 3);
            t.sort_unstable();
            let [a, b, c] = t.map(Instant::from_nanos);
            let back = u64::from(spindle.speed_at(Instant::from_nanos(b.as_nanos().saturating_sub(1))).get() - 1);
            let whole = spindle.turned(a, c).parts();
            prop_assert_eq!(spindle.turned(a, b).parts() + spindle.turned(b, c).parts() - back, whole);
        }

        #[test]
        fn a_drift_of_nothing_is_a_steady_platter(rpm in 3_000_u32..20_000, at in 0_u64..1 << 50, arc in 0..FULL_REVOLUTION) {
            let rpm = Rpm::new(rpm).unwrap();
            let (still, none) = (Spindle::steady(rpm), Spindle::drifting(rpm, 0, Duration::from_millis(7), 1));
            let (at, arc) = (Instant::from_nanos(at), Arc::from_parts(arc));
            prop_assert_eq!(still.earliest_angle(at), none.earliest_angle(at));
            prop_assert_eq!(still.after(at, arc), none.after(at, arc));
            let later = at + Duration::from_millis(9);
            prop_assert_eq!(still.turned(at, later), none.turned(at, later));
        }
    }

    #[test]
    fn a_spindle_stays_within_its_bound_and_uses_it() {
        let rpm = Rpm::new(10_025).unwrap();
        let spindle = Spindle::drifting(rpm, 500, Duration::from_secs(1), 5);
        let speeds = (0..4_096).map(|s| spindle.speed_at(Instant::from_nanos(s * 1_000_000_000)).get());
        let (mut least, mut most) = (u32::MAX, 0);
        for speed in speeds {
            (least, most) = (least.min(speed), most.max(speed));
        }
        assert_eq!((least, most), (10_020, 10_030));
    }
}
