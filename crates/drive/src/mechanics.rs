//! The exact mechanics: the position of the arm, and the times at which sectors pass.
//!
//! All times are computed from the absolute time; nothing is accumulated, so that no error grows with the length of a run.
//! Three rules determine every time:
//! 1. a move that starts at `t` ends at `t + move_time`;
//! 2. a head that is ready at the whole nanosecond `t` transfers a sector if the sector's start passes after `t - 1`
//!    ([`Rpm::earliest_angle`]);
//! 3. a sector is done at the first whole nanosecond at which its end has passed.

use crate::spindle::{Platter, Spindle};
use crate::wobble::Wobble;
use model::{DriveModel, Position, Track};
use std::sync::Arc as Shared;
#[cfg(doc)]
use units::Rpm;
use units::{Arc, Duration, Instant, Op, TrackIndex};

/// The arm and the platter of one drive.
///
/// ```
/// use freeblock_drive::Mechanics;
/// use model::{DriveModel, Profile};
/// use std::sync::Arc;
/// use units::{Instant, Op, TrackIndex};
/// # let toml = include_str!("../tests/data/small.toml");
/// let profile = Profile::from_toml(toml, "small.toml").unwrap();
/// let mut mechanics = Mechanics::new(Arc::new(DriveModel::from_profile(&profile).unwrap()));
/// // 6,000 rpm, 100 sectors on the track: sector 50 is half a revolution away, and passes in a tenth of a millisecond.
/// let access = mechanics.access(Instant::ZERO, Op::Read, TrackIndex::new(0), 50, 1);
/// assert_eq!(access.latency().as_nanos(), 5_000_000);
/// assert_eq!(access.end.as_nanos(), 5_100_000);
/// ```
#[derive(Clone, Debug)]
pub struct Mechanics {
    model: Shared<DriveModel>,
    spindle: Spindle,
    position: Position,
    /// The deviations of arm moves from the model's time; `None` if the arm is exact.
    wobble: Option<Box<Wobble>>,
}

/// The wait of a head on a track, and the consecutive sectors that then pass under it.
///
/// After the track's last sector the first one follows, so a pass may continue past the end of the track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The time at which the head begins to wait.
    pub from: Instant,
    /// The rotation from `from` to the start of the first sector.
    pub wait: Arc,
    /// The track.
    pub track: Track,
    /// The first sector.
    pub first: u32,
    /// The number of sectors.
    pub count: u32,
}

/// The time in which consecutive sectors pass under the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The time at which the first sector begins.
    pub start: Instant,
    /// The time at which the last sector is done.
    pub end: Instant,
}

/// The times of one access to one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTimes {
    /// The time at which the arm begins to move.
    pub begin: Instant,
    /// The time at which the head is ready on the track.
    pub arrival: Instant,
    /// The time at which the first sector begins.
    pub start: Instant,
    /// The time at which the last sector is done.
    pub end: Instant,
}

impl AccessTimes {
    /// Returns the time of seek, head switch and settling.
    #[inline]
    pub const fn seek(&self) -> Duration {
        self.arrival.since(self.begin)
    }

    /// Returns the rotational latency before the first sector.
    #[inline]
    pub const fn latency(&self) -> Duration {
        self.start.since(self.arrival)
    }

    /// Returns the time from the start of the first sector to the end of the last.
    #[inline]
    pub const fn transfer(&self) -> Duration {
        self.end.since(self.start)
    }
}

impl Pass {
    /// Returns the first whole nanosecond at which the first sector has begun.
    #[inline]
    pub fn start(&self, platter: &impl Platter) -> Instant {
        platter.after(self.from, self.wait)
    }

    /// Returns the time at which the first `count` sectors of the pass are done.
    #[inline]
    pub fn done(&self, platter: &impl Platter, count: u32) -> Instant {
        platter.after(self.from, self.wait + self.arc(count))
    }

    /// Returns the end of the whole pass.
    #[inline]
    pub fn end(&self, platter: &impl Platter) -> Instant {
        self.done(platter, self.count)
    }

    /// Returns the number of sectors of the pass that are done at `now`.
    pub fn done_by(&self, platter: &impl Platter, now: Instant) -> u32 {
        // The rotation is bounded by the end of the pass, at most two revolutions, so that the arc fits into 64 bits.
        let most = platter.after(self.from, self.wait + self.arc(self.count));
        let turned = platter.turned(self.from, now.max(self.from).min(most));
        let Some(past) = turned.parts().checked_sub(self.wait.parts()) else { return 0 };
        // Sector k of n begins at floor(k * FULL_REVOLUTION / n), so the last sector that begins at or before an arc x is
        // ceil((x + 1) * n / FULL_REVOLUTION) - 1.
        let n = u64::from(self.track.sectors);
        let x = self.track.boundary(self.first).parts() + past;
        let last = u128::from(x + 1) * u128::from(n);
        let last = last.div_ceil(u128::from(units::FULL_REVOLUTION)) as u64 - 1;
        (last.saturating_sub(u64::from(self.first)) as u32).min(self.count)
    }

    /// Returns the pass over the `count` sectors that follow this pass, without rounding the time between the two; `None`
    /// unless `track` is the track of this pass and `first` the sector after its last.
    pub fn next(&self, track: Track, first: u32, count: u32) -> Option<Self> {
        (track == self.track && first == self.first + self.count).then(|| Self {
            wait: self.wait + self.arc(self.count),
            first,
            count,
            ..*self
        })
    }

    #[inline]
    fn arc(&self, count: u32) -> Arc {
        self.track.arc(self.first, count)
    }
}

impl Mechanics {
    /// Creates a drive whose arm is at cylinder 0, head 0.
    pub fn new(model: Shared<DriveModel>) -> Self {
        let spindle = Spindle::steady(model.rpm());
        Self { model, spindle, position: Position::default(), wobble: None }
    }

    /// Creates a drive whose platter and arm deviate from the model.
    pub(crate) fn inexact(model: Shared<DriveModel>, spindle: Spindle, wobble: Option<Wobble>) -> Self {
        Self { model, spindle, position: Position::default(), wobble: wobble.map(Box::new) }
    }

    /// Returns the model of the drive.
    #[inline]
    pub fn model(&self) -> &DriveModel {
        &self.model
    }

    /// Returns a shared handle of the model, which does not borrow this drive.
    pub fn shared_model(&self) -> Shared<DriveModel> {
        Shared::clone(&self.model)
    }

    /// Returns the spindle.
    #[inline]
    pub fn spindle(&self) -> &Spindle {
        &self.spindle
    }

    /// Returns the position of the arm after its last move.
    #[inline]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Sets the position of the arm without a move, for the start of an experiment.
    pub const fn place(&mut self, position: Position) {
        self.position = position;
    }

    /// Moves the arm at `at`, and returns the time at which the head is ready for `op`.
    #[inline]
    pub fn seek_to(&mut self, at: Instant, to: Position, op: Op) -> Instant {
        let mut time = self.model.move_time(self.position, to, op);
        if let Some(wobble) = self.wobble.as_mut().filter(|_| time > Duration::ZERO) {
            time = wobble.of(time, || self.spindle.speed_at(at).revolution());
        }
        self.position = to;
        at + time
    }

    /// Returns the pass over `count` sectors from `first` on, for a head that is ready on `track` at `at`.
    #[inline]
    pub fn pass(&self, at: Instant, track: Track, first: u32, count: u32) -> Pass {
        let wait = self.spindle.earliest_angle(at).until(track.sector_angle(first));
        Pass { from: at, wait, track, first, count }
    }

    /// Returns the times of a transfer of `count` sectors from `first` on, for a head that is ready on `track` at `at`.
    #[inline]
    pub fn wait_and_transfer(&self, at: Instant, track: Track, first: u32, count: u32) -> Passage {
        let pass = self.pass(at, track, first, count);
        Passage { start: pass.start(&self.spindle), end: pass.end(&self.spindle) }
    }

    /// Moves to a track and transfers `count` sectors from `first` on, in order.
    ///
    /// # Panics
    /// If the drive has no such track; in debug builds, also if the track has fewer sectors.
    #[inline]
    pub fn access(&mut self, at: Instant, op: Op, track: TrackIndex, first: u32, count: u32) -> AccessTimes {
        let track = self.model.layout().track(track);
        debug_assert!(first + count <= track.sectors);
        let arrival = self.seek_to(at, track.into(), op);
        let Passage { start, end } = self.wait_and_transfer(arrival, track, first, count);
        AccessTimes { begin: at, arrival, start, end }
    }

    /// Moves to a track and transfers `count` sectors with zero-latency access: a head that arrives among the sectors begins
    /// with the next one, and transfers those before it last, one revolution later at most.
    ///
    /// # Panics
    /// As [`access`](Self::access).
    pub fn access_in_any_order(
        &mut self,
        at: Instant,
        op: Op,
        track: TrackIndex,
        first: u32,
        count: u32,
    ) -> AccessTimes {
        let track = self.model.layout().track(track);
        debug_assert!(first + count <= track.sectors);
        let arrival = self.seek_to(at, track.into(), op);
        let pass = self
            .pass_in_any_order(arrival, track, first, count)
            .unwrap_or_else(|| self.pass(arrival, track, first, count));
        AccessTimes { begin: at, arrival, start: pass.start(&self.spindle), end: pass.end(&self.spindle) }
    }

    /// Returns the pass of one revolution in which a head that arrives among the sectors transfers all of them; `None` if
    /// the head arrives before the first or after the last one, so that the sectors are transferred in order.
    pub fn pass_in_any_order(&self, arrival: Instant, track: Track, first: u32, count: u32) -> Option<Pass> {
        let next = self.next_among(arrival, track, first, count)?;
        Some(self.pass(arrival, track, next, track.sectors))
    }

    /// Returns the first of the sectors that passes completely after `arrival`; `None` unless the head arrives after the
    /// start of the first and before the start of the last one.
    fn next_among(&self, arrival: Instant, track: Track, first: u32, count: u32) -> Option<u32> {
        // The rotation since the start of the first sector.
        let into = track.sector_angle(first).until(self.spindle.earliest_angle(arrival)).parts();
        if into == 0 || into >= track.arc(first, count).parts() {
            return None;
        }
        let n = u64::from(track.sectors);
        let x = track.boundary(first).parts() + into;
        let next = (u128::from(x) * u128::from(n)).div_ceil(u128::from(units::FULL_REVOLUTION)) as u32;
        (next < first + count).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::{Cylinder, FULL_REVOLUTION, Head};

    fn small() -> Shared<DriveModel> {
        let profile =
            model::Profile::from_toml(include_str!("../tests/data/small.toml"), "small.toml").unwrap();
        Shared::new(DriveModel::from_profile(&profile).unwrap())
    }

    /// Returns the start and the end of a transfer in ns, by exact arithmetic in 128 bits from this module's three rules.
    fn naive(model: &DriveModel, arrival: Instant, track: Track, first: u32, count: u32) -> (u128, u128) {
        let (rpm, revolution, n) =
            (u128::from(model.rpm().get()), u128::from(FULL_REVOLUTION), u128::from(track.sectors));
        let t = u128::from(arrival.as_nanos());
        let boundary = |s: u32| u128::from(track.angle.parts()) + u128::from(s) * revolution / n;
        // The rotation since instant zero at the beginning of the nanosecond that ends at `t`, plus a revolution.
        let turned = t * rpm + revolution - (rpm - 1);
        let mut start = boundary(first) % revolution + turned / revolution * revolution;
        if start < turned {
            start += revolution;
        }
        let end = start + boundary(first + count) - boundary(first);
        // Subtracts the revolution, which kept the rotation above zero in the first nanosecond.
        ((start - revolution).div_ceil(rpm), (end - revolution).div_ceil(rpm))
    }

    proptest! {
        #[test]
        fn a_pass_is_what_rational_arithmetic_says(
            at in 0u64..1 << 50, track in 0u32..40, first in 0u32..60, count in 1u32..40,
        ) {
            let model = small();
            let mechanics = Mechanics::new(model.clone());
            let track = model.layout().track(TrackIndex::new(track));
            let at = Instant::from_nanos(at);
            let Passage { start, end } = mechanics.wait_and_transfer(at, track, first, count);
            let (s, e) = naive(&model, at, track, first, count);
            prop_assert_eq!((u128::from(start.as_nanos()), u128::from(end.as_nanos())), (s, e));
        }

        #[test]
        fn sectors_done_are_counted_to_the_nanosecond(
            at in 0u64..1 << 50, track in 0u32..40, first in 0u32..60, count in 1u32..200, later in 0u64..40_000_000,
        ) {
            let model = small();
            let mechanics = Mechanics::new(model.clone());
            let track = model.layout().track(TrackIndex::new(track));
            let pass = mechanics.pass(Instant::from_nanos(at), track, first, count);
            let now = Instant::from_nanos(at + later);
            let slow = (1..=count).take_while(|&k| pass.done(&*model, k) <= now).count() as u32;
            prop_assert_eq!(pass.done_by(&*model, now), slow);
        }

        #[test]
        fn zero_latency_is_never_slower(at in 0u64..1 << 50, track in 0u32..40, first in 0u32..40, count in 1u32..40) {
            let model = small();
            let mut a = Mechanics::new(model.clone());
            let mut b = a.clone();
            let at = Instant::from_nanos(at);
            let plain = a.access(at, Op::Read, TrackIndex::new(track), first, count);
            let any = b.access_in_any_order(at, Op::Read, TrackIndex::new(track), first, count);
            prop_assert!(any.end <= plain.end);
            prop_assert!(any.end.since(any.arrival) <= model.rpm().revolution() * 2);
        }
    }

    #[test]
    fn a_sector_whose_start_is_now_is_caught() {
        let model = small();
        let mechanics = Mechanics::new(model.clone());
        let track = model.layout().track(TrackIndex::new(0));
        // Sector 50 of 100 begins at exactly 5 ms.
        let Passage { start, end } =
            mechanics.wait_and_transfer(Instant::from_nanos(5_000_000), track, 50, 1);
        assert_eq!((start.as_nanos(), end.as_nanos()), (5_000_000, 5_100_000));
        let Passage { start, .. } = mechanics.wait_and_transfer(Instant::from_nanos(5_000_001), track, 50, 1);
        assert_eq!(start.as_nanos(), 15_000_000);
    }

    #[test]
    fn a_head_arriving_inside_the_request_reads_it_in_one_revolution() {
        let model = small();
        let mut mechanics = Mechanics::new(model);
        // At 2.55 ms half of sector 25 has passed: sectors 26..40 are transferred first, then 10..26.
        let at = Instant::from_nanos(2_550_000);
        let access = mechanics.access_in_any_order(at, Op::Read, TrackIndex::new(0), 10, 30);
        assert_eq!(access.start.as_nanos(), 2_600_000);
        assert_eq!(access.end.as_nanos(), 12_600_000);
    }

    #[test]
    fn the_arm_stays_where_it_went() {
        let model = small();
        let mut mechanics = Mechanics::new(model.clone());
        let to = Position { cylinder: Cylinder::new(3), head: Head::new(1) };
        let arrival = mechanics.seek_to(Instant::ZERO, to, Op::Read);
        assert_eq!(arrival.since(Instant::ZERO), model.move_time(Position::default(), to, Op::Read));
        assert_eq!(mechanics.seek_to(arrival, to, Op::Write), arrival);
    }
}
