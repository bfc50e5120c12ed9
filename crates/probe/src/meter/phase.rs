//! A spindle that drifts is followed: sectors whose angles are known are read now and then.

use super::Meter;
use super::ring::{self, Visit};
use crate::error::ProbeError;
use crate::platter::spread_where_followed;
use units::{Duration, Instant};

/// A sector whose angle stands fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    lbn: u64,
    angle: f64,
    readings: f64,
}

/// Anchors at most, and rounds in which they are learnt.
const MOST_ANCHORS: u64 = 520;
const ANCHOR_ROUNDS: usize = 8;

/// An anchor that cannot be read is replaced by another one no further on than this, sectors.
const ANCHOR_BESIDE: u64 = 1_000;

/// Between two sectors whose angles are known: a spindle that goes wrong by a ten-thousandth is two thousandths of a
/// turn off after a tenth of a second.
const FOLLOW_EVERY: Duration = Duration::from_millis(60);

/// Between two anchors, where others' angles are known as well.
const ANCHOR_EVERY: Duration = Duration::from_millis(1_500);

/// How much worse than a reading an anchor's first is.
const FIRST_READINGS: f64 = 20.0;

/// The spread of an angle before it is known, ns.
const SPREAD_AT_FIRST: f64 = 6_000.0;

/// So many anchors in a row that make no sense mean that the platter is elsewhere.
const MOST_ASTRAY: u32 = 2;

/// Anchors read to find the platter again after a while without.
const FIND_AGAIN: usize = 16;

/// Anchors in a row that say together that the platter is where it is thought to be.
const ENOUGH_AGAIN: usize = 4;

impl Meter<'_> {
    /// Begins to follow the spindle: a ring of sectors in the drive's middle, learnt in some rounds.
    pub(crate) fn anchor(&mut self) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        let ring = (self.segments + 4).clamp(8, MOST_ANCHORS);
        // So far apart that none is in what the drive read ahead of another.
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

    /// Puts the anchors to the angles that all of these visits together say, and follows the spindle through them.
    fn learn_anchors(&mut self, begun: Instant, visits: &[Visit]) {
        let (revolution, clock) = (self.revolution(), 0.6 / self.revolution());
        let spread = ring::spread(visits, revolution).unwrap_or(SPREAD_AT_FIRST / revolution).max(clock);
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
        // The median of a normal error is two thirds of its spread; what the clock cannot tell is left to it.
        self.reading_spread = f64::max(crate::turns::median(&mut errors) / 0.67, clock);
        let every = FOLLOW_EVERY.as_nanos() as f64;
        self.spread = spread_where_followed(self.reading_spread, every, self.revolution());
        self.recorder.set_revolution(self.platter.revolution);
    }

    /// Reads the next anchor; which one it was, and when it had passed, if it came from the medium.
    fn visit_anchor(&mut self) -> Result<Option<Visit>, ProbeError> {
        let index = self.next_anchor % self.anchors.len().max(1);
        self.next_anchor = index + 1;
        let Some(lbn) = self.anchors.get(index).map(|a| a.lbn) else { return Ok(None) };
        let reading = self.read(lbn, 1)?;
        self.anchored = self.now;
        self.followed = self.now;
        if reading.failed {
            // Another one takes its place.
            let near = (lbn + 1 + self.draw.below(lbn.min(ANCHOR_BESIDE))) % self.capacity();
            if let Some(anchor) = self.anchors.get_mut(index) {
                *anchor = Anchor { lbn: near, angle: 0.0, readings: 0.0 };
            }
        }
        Ok((!self.is_hit(&reading)).then_some(Visit { anchor: index, at: reading.completed }))
    }

    /// Reads the next anchor and follows the spindle by it; how far off it stood, turns.
    fn read_anchor(&mut self) -> Result<Option<f64>, ProbeError> {
        Ok(self.visit_anchor()?.and_then(|visit| self.follow_anchor(visit)))
    }

    /// Follows the spindle by an anchor that was just read; how far off it stood, turns.
    fn follow_anchor(&mut self, visit: Visit) -> Option<f64> {
        let angle = self.turns_at(visit.at);
        let anchor = self.anchors.get_mut(visit.anchor)?;
        if anchor.readings == 0.0 {
            anchor.angle = angle;
            anchor.readings = 1.0;
            return None;
        }
        // At first the speed, and so the angle, is known badly.
        let spread = self.reading_spread * (1.0 + FIRST_READINGS / anchor.readings.powi(2)).sqrt();
        let Some(error) = self.platter.take(visit.at, anchor.angle, spread) else {
            self.astray += 1;
            if self.astray > MOST_ASTRAY {
                // What was taken for known near by was not.
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

    /// Whether reads of anchors drive all else from the buffer, also where two of them are left out.
    pub(super) fn anchors_fill_the_buffer(&self) -> bool {
        self.anchors.len() as u64 > self.segments + 2
    }

    /// Reads an anchor further than `margin` from `lbn`, and follows the spindle by it; whether it came from the medium.
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

    /// The read that was just done was of one sector of the map that stands at `angle`, known to a standard deviation of
    /// `known`, which differs from that of the last such sector by a standard deviation of `apart`: the spindle is followed by it.
    pub(crate) fn follow(&mut self, angle: f64, known: f64, apart: f64) {
        if self.is_noisy()
            && self.platter.take_mapped(self.now, angle, self.reading_spread, known, apart).is_some()
        {
            self.followed = self.now;
        }
    }

    /// Reads a sector whose angle is known, if it is time to.
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
        // Where that came from the buffer, or the map may be wrong there.
        if late(self.now, self.followed, FOLLOW_EVERY) {
            self.read_anchor()?;
        }
        Ok(())
    }

    /// Reads anchors until the platter's place is known again after a while without: until the last ones stood, in the mean,
    /// where they should.
    pub(crate) fn find_phase(&mut self) -> Result<(), ProbeError> {
        let mut errors: Vec<f64> = Vec::new();
        // Angles that were taken before are of a platter that may have been elsewhere.
        self.above.clear();
        for _ in 0..FIND_AGAIN {
            if !self.is_noisy() {
                break;
            }
            match self.read_anchor()? {
                Some(error) => errors.push(error),
                None => errors.clear(),
            }
            let last = errors.get(errors.len().saturating_sub(ENOUGH_AGAIN)..).unwrap_or_default();
            let mean = last.iter().sum::<f64>() / ENOUGH_AGAIN as f64;
            if last.len() == ENOUGH_AGAIN && mean.abs() * (ENOUGH_AGAIN as f64).sqrt() < self.spread {
                break;
            }
        }
        Ok(())
    }
}
