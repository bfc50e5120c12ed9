//! Follows a spindle whose speed varies, by regular reads of sectors whose angles are known.

use super::Meter;
use super::ring::{self, Visit};
use crate::error::ProbeError;
use crate::platter::spread_where_followed;
use units::{Duration, Instant};

/// A sector with a known angle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    lbn: u64,
    angle: f64,
    readings: f64,
}

/// The most anchors. Up to this number there are four more than the buffer has segments, so that reads of all
/// of them come from the medium.
const ANCHORS_MAX: u64 = 520;
/// The number of rounds in which the angles of the anchors are learned.
const ANCHOR_ROUNDS: usize = 8;

/// The largest distance in sectors from an unreadable anchor to its replacement.
const ANCHOR_OFFSET_SECTORS_MAX: u64 = 1_000;

/// The longest time between two readings of known sectors: a speed that is wrong by a ten-thousandth moves
/// the angle by about a thousandth of a revolution in this time.
const FOLLOW_EVERY: Duration = Duration::from_millis(60);

/// The longest time between two anchors if other known sectors are read in between.
const ANCHOR_EVERY: Duration = Duration::from_millis(1_500);

/// The additional variance of an anchor that was read once, relative to that of a reading.
const FIRST_READING_VARIANCE_RATIO: f64 = 20.0;

/// The assumed standard deviation of an angle if it cannot be measured, ns.
const INITIAL_DEVIATION_NS: f64 = 6_000.0;

/// The most outliers in a row among readings of anchors; after one more the platter is assumed to be at
/// another angle.
const ASTRAY_ANCHORS_MAX: u32 = 2;

/// The most anchors that are read to find the platter's angle again after a pause.
const RECOVERY_ANCHORS_MAX: usize = 16;

/// The number of anchors in a row whose mean error must be small for the platter's angle to count as known.
const KNOWN_ANGLE_ANCHORS: usize = 4;

impl Meter<'_> {
    /// Begins to follow the spindle by a ring of sectors in the drive's middle, whose angles are measured in
    /// several rounds.
    pub(crate) fn anchor(&mut self) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        let ring = (self.segments + 4).clamp(8, ANCHORS_MAX);
        // The anchors are so far apart that read-ahead from one does not reach the next.
        let around = (capacity / 50).max(ring * (2 * self.ahead + 1)).min(capacity);
        let low = (capacity / 2).saturating_sub(around / 2);
        let mut anchors: Vec<Anchor> = Vec::new();
        for i in 0..ring {
            let lbn = (low + i * (around / ring)).min(capacity - 1);
            anchors.push(Anchor { lbn, angle: 0.0, readings: 0.0 });
        }
        self.draw.shuffle(&mut anchors);
        self.anchors = anchors;
        let begun = self.now;
        let mut visits = Vec::new();
        for _ in 0..ANCHOR_ROUNDS {
            for _ in 0..ring {
                visits.extend(self.visit_anchor()?);
            }
        }
        self.learn_anchors(begun, &visits);
        Ok(())
    }

    /// Sets the anchors' angles from all visits together, and follows the spindle through these visits.
    fn learn_anchors(&mut self, begun: Instant, visits: &[Visit]) {
        let (revolution, clock) = (self.revolution(), 0.6 / self.revolution());
        let spread = ring::spread(visits, revolution).unwrap_or(INITIAL_DEVIATION_NS / revolution).max(clock);
        let angles = ring::angles(visits, self.anchors.len(), begun, revolution, spread);
        for (anchor, angle) in self.anchors.iter_mut().zip(angles) {
            let Some(angle) = angle else { continue };
            *anchor = Anchor { angle, readings: ANCHOR_ROUNDS as f64, ..*anchor };
        }
        self.platter.begin_to_follow_from(begun);
        let mut errors = Vec::new();
        for (i, visit) in visits.iter().enumerate() {
            let Some(anchor) = self.anchors.get(visit.anchor) else { continue };
            let error = self.platter.take(visit.at, anchor.angle, spread);
            if i >= visits.len() / 2 {
                errors.extend(error.map(f64::abs));
            }
        }
        // The median of a normal error's absolute value is two thirds of its standard deviation. The
        // resolution of the clock is a lower bound.
        self.reading_spread = f64::max(crate::revolutions::median(&mut errors) / 0.67, clock);
        let every = FOLLOW_EVERY.as_nanos() as f64;
        self.spread = spread_where_followed(self.reading_spread, every, self.revolution());
        self.recorder.set_revolution(self.platter.revolution);
    }

    /// Reads the next anchor; returns its index and the instant at which the read ended, unless it was a
    /// cache hit.
    fn visit_anchor(&mut self) -> Result<Option<Visit>, ProbeError> {
        let index = self.next_anchor % self.anchors.len().max(1);
        self.next_anchor = index + 1;
        let Some(lbn) = self.anchors.get(index).map(|a| a.lbn) else { return Ok(None) };
        let reading = self.read(lbn, 1)?;
        self.anchored = self.now;
        self.followed = self.now;
        if reading.failed {
            // A neighbour replaces the unreadable anchor.
            let near = (lbn + 1 + self.draw.below(lbn.min(ANCHOR_OFFSET_SECTORS_MAX))) % self.capacity();
            if let Some(anchor) = self.anchors.get_mut(index) {
                *anchor = Anchor { lbn: near, angle: 0.0, readings: 0.0 };
            }
        }
        Ok((!self.is_hit(&reading)).then_some(Visit { anchor: index, at: reading.completed }))
    }

    /// Reads the next anchor and follows the spindle by it. Returns the error of the predicted angle, in
    /// revolutions.
    fn read_anchor(&mut self) -> Result<Option<f64>, ProbeError> {
        Ok(self.visit_anchor()?.and_then(|visit| self.follow_anchor(visit)))
    }

    /// Follows the spindle by an anchor that was just read. Returns the error of the predicted angle, in
    /// revolutions.
    fn follow_anchor(&mut self, visit: Visit) -> Option<f64> {
        let angle = self.revolutions_at(visit.at);
        let anchor = self.anchors.get_mut(visit.anchor)?;
        if anchor.readings == 0.0 {
            anchor.angle = angle;
            anchor.readings = 1.0;
            return None;
        }
        // At first the speed is uncertain, and so is an anchor's angle.
        let spread =
            self.reading_spread * (1.0 + FIRST_READING_VARIANCE_RATIO / anchor.readings.powi(2)).sqrt();
        let Some(error) = self.platter.take(visit.at, anchor.angle, spread) else {
            self.astray += 1;
            if self.astray > ASTRAY_ANCHORS_MAX {
                // The known angles of sectors that are no anchors were wrong, so they are no longer used.
                self.elsewhere = None;
                self.above.clear();
                self.platter.find_again(visit.at, anchor.angle, spread);
                self.astray = 0;
            }
            return None;
        };
        self.astray = 0;
        if anchor.readings < ANCHOR_ROUNDS as f64 {
            anchor.readings += 1.0;
            anchor.angle -= error / anchor.readings;
        }
        self.recorder.set_revolution(self.platter.revolution);
        Some(error)
    }

    /// Returns whether reads of all but two anchors evict everything else from the buffer.
    pub(super) fn anchors_fill_the_buffer(&self) -> bool {
        self.anchors.len() as u64 > self.segments + 2
    }

    /// Reads an anchor farther than `margin` from `lbn`, and follows the spindle by it. Returns whether the
    /// read came from the medium.
    pub(super) fn leave_to_anchor(&mut self, lbn: u64, margin: u64) -> Result<bool, ProbeError> {
        let ring = self.anchors.len();
        let place = |from: usize| from % ring.max(1);
        let near = |from: usize| self.anchors.get(place(from)).is_some_and(|a| a.lbn.abs_diff(lbn) < margin);
        let skipped = (0..ring).find(|&skipped| !near(self.next_anchor + skipped)).unwrap_or(0);
        self.next_anchor = place(self.next_anchor + skipped);
        let visit = self.visit_anchor()?;
        if let Some(visit) = visit {
            self.follow_anchor(visit);
        }
        Ok(visit.is_some())
    }

    /// Follows the spindle by the last read, of a mapped sector at `angle`. The angle's standard deviation is
    /// `known`, and that of its difference from the angle of the previous mapped sector is `apart`, in
    /// revolutions.
    pub(crate) fn follow(&mut self, angle: f64, known: f64, apart: f64) {
        if self.is_noisy()
            && self.platter.take_mapped(self.now, angle, self.reading_spread, known, apart).is_some()
        {
            self.followed = self.now;
        }
    }

    /// Reads a sector whose angle is known, if the last such reading was too long ago.
    pub(crate) fn keep_phase(&mut self) -> Result<(), ProbeError> {
        let late = |now: Instant, then, every| now.saturating_since(then) > every;
        if !self.is_noisy() {
            return Ok(());
        }
        if late(self.now, self.anchored, ANCHOR_EVERY) {
            self.read_anchor()?;
        }
        if !late(self.now, self.followed, FOLLOW_EVERY) {
            return Ok(());
        }
        if let Some(near) = self.known_elsewhere(self.last) {
            self.read_elsewhere(near)?;
        }
        // The read may have been a cache hit, or the map may be wrong there.
        if late(self.now, self.followed, FOLLOW_EVERY) {
            self.read_anchor()?;
        }
        Ok(())
    }

    /// Reads anchors until the platter's angle is known again after a pause: until the mean error of the last
    /// few anchors is small.
    pub(crate) fn find_phase(&mut self) -> Result<(), ProbeError> {
        let mut errors: Vec<f64> = Vec::new();
        // Angles measured before the pause may contain the phase's error.
        self.above.clear();
        for _ in 0..RECOVERY_ANCHORS_MAX {
            if !self.is_noisy() {
                break;
            }
            match self.read_anchor()? {
                Some(error) => errors.push(error),
                None => errors.clear(),
            }
            let last = errors.get(errors.len().saturating_sub(KNOWN_ANGLE_ANCHORS)..).unwrap_or_default();
            let mean = last.iter().sum::<f64>() / KNOWN_ANGLE_ANCHORS as f64;
            if last.len() == KNOWN_ANGLE_ANCHORS
                && mean.abs() * (KNOWN_ANGLE_ANCHORS as f64).sqrt() < self.spread
            {
                break;
            }
        }
        Ok(())
    }
}
