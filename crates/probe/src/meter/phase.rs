//! A spindle that drifts is followed: sectors whose angles are known are read now and then.

use super::Meter;
use crate::error::ProbeError;
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
        self.platter.begin_to_follow(self.now);
        self.spread = SPREAD_AT_FIRST / self.revolution();
        let mut errors = Vec::new();
        for round in 0..ANCHOR_ROUNDS {
            for _ in 0..ring {
                let error = self.read_anchor()?;
                if round >= ANCHOR_ROUNDS / 2 {
                    errors.extend(error.map(f64::abs));
                }
            }
        }
        // The median of a normal error is two thirds of its spread; what the clock cannot tell is left to it.
        self.spread = f64::max(crate::turns::median(&mut errors) / 0.67, 0.6 / self.revolution());
        Ok(())
    }

    /// Reads the next anchor and follows the spindle by it; how far off it stood, turns.
    fn read_anchor(&mut self) -> Result<Option<f64>, ProbeError> {
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
        if self.is_hit(&reading) {
            return Ok(None);
        }
        let angle = self.turns_at(reading.completed);
        let Some(anchor) = self.anchors.get_mut(index) else { return Ok(None) };
        if anchor.readings == 0.0 {
            anchor.angle = angle;
            anchor.readings = 1.0;
            return Ok(None);
        }
        // At first the speed, and so the angle, is known badly.
        let spread = self.spread * (1.0 + FIRST_READINGS / anchor.readings.powi(2)).sqrt();
        let Some(error) = self.platter.take(reading.completed, anchor.angle, spread) else {
            self.astray += 1;
            if self.astray > MOST_ASTRAY {
                // What was taken for known near by was not.
                self.elsewhere = None;
                self.platter.find_again(reading.completed, anchor.angle, spread);
                self.astray = 0;
            }
            return Ok(None);
        };
        self.astray = 0;
        if anchor.readings < ANCHOR_ROUNDS as f64 {
            anchor.readings += 1.0;
            anchor.angle -= error / anchor.readings;
        }
        self.recorder.set_revolution(self.platter.revolution);
        Ok(Some(error))
    }

    /// The read that was just done was of one sector that stands at `angle`, known to a standard deviation of
    /// `spread`: the spindle is followed by it.
    pub(crate) fn follow(&mut self, angle: f64, spread: f64) {
        if self.is_noisy() {
            let spread = (spread * spread + self.spread * self.spread).sqrt();
            if self.platter.take(self.now, angle, spread).is_some() {
                self.followed = self.now;
            }
        }
    }

    /// Reads a sector whose angle is known, if it is time to.
    pub(crate) fn keep_phase(&mut self) -> Result<(), ProbeError> {
        let late = |now: Instant, then, every| now.saturating_since(then) > every;
        if !self.is_noisy() || !late(self.now, self.followed, FOLLOW_EVERY) {
            return Ok(());
        }
        if !late(self.now, self.anchored, ANCHOR_EVERY)
            && let Some(near) = self.known_elsewhere(self.last)
            && !self.read_elsewhere(near)?
        {
            return Ok(());
        }
        if late(self.now, self.followed, FOLLOW_EVERY) {
            self.read_anchor()?;
        }
        Ok(())
    }

    /// Reads anchors until the platter's place is known again after a while without: until the last ones stood, in the mean,
    /// where they should.
    pub(crate) fn find_phase(&mut self) -> Result<(), ProbeError> {
        let mut errors: Vec<f64> = Vec::new();
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
