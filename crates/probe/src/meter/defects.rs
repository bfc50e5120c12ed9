//! Unreadable and unwritable sectors: recorded, avoided, and reported at the end.

use super::{Meter, SectorAngle};
use crate::error::ProbeError;
use crate::report::Unreadable;
use crate::revolutions::{frac, wrap};
use std::collections::BTreeSet;
use units::{Lbn, Op};

/// The most unreadable sectors: with more, the drive's data should be saved, and the drive not probed.
const UNREADABLE_SECTORS_MAX: usize = 512;

/// The most failed reads in a row: a drive that is gone fails everywhere.
const FAILED_READS_MAX: u32 = 48;

/// The largest distance from an unreadable sector at which another sector gives its angle; the distances tried double
/// up to this.
const INFERENCE_SECTORS_MAX: u64 = 4_096;

/// Sectors at most this far from each other are less than a revolution apart.
const ADJACENT_SECTORS_MAX: u64 = 16;

/// The most failed writes in a row before the first success; after them the probe stops writing.
const FIRST_FAILED_WRITES_MAX: u32 = 8;
/// The most failed writes in a row after a success; after them the probe stops writing.
const FAILED_WRITES_MAX: u32 = 48;
/// The most unwritable sectors; with more the probe stops writing.
const UNWRITABLE_SECTORS_MAX: usize = 512;

/// The sectors that could not be read, or written, so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defects {
    lbns: BTreeSet<u64>,
    in_a_row: u32,
    /// The last unreadable sector and a description, once there are too many: then the probe stops reading.
    too_many: Option<(Lbn, String)>,
    unwritable: BTreeSet<u64>,
    writes_in_a_row: u32,
    /// Whether any write has succeeded.
    writable: bool,
    /// The reason why the probe has stopped writing, with the device's message.
    refused: Option<String>,
}

impl Defects {
    /// Returns whether a command must be avoided: one of its sectors is known as unreadable, or unwritable, or the
    /// probe has stopped writing.
    pub(crate) fn touches(&self, op: Op, first: u64, count: u64) -> bool {
        let lbns = if op.is_write() { &self.unwritable } else { &self.lbns };
        op.is_write() && self.refused.is_some()
            || lbns.range(first..first.saturating_add(count)).next().is_some()
    }

    /// Records a successful write.
    pub(crate) fn written(&mut self) {
        self.writes_in_a_row = 0;
        self.writable = true;
    }

    /// Records a sector that could not be written. After too many such sectors the probe stops writing, but goes on
    /// reading.
    pub(crate) fn not_written(&mut self, lbn: Lbn, reason: &str) {
        self.unwritable.insert(lbn.get());
        self.writes_in_a_row += 1;
        let most = if self.writable { FAILED_WRITES_MAX } else { FIRST_FAILED_WRITES_MAX };
        if self.writes_in_a_row >= most || self.unwritable.len() > UNWRITABLE_SECTORS_MAX {
            let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let problem = if self.writes_in_a_row >= most {
                format!("{} writes in a row were refused{said}", self.writes_in_a_row)
            } else {
                format!("writes to {} sectors were refused{said}", self.unwritable.len())
            };
            self.refused.get_or_insert(problem);
        }
    }

    /// Returns the reason why the probe has stopped writing, if it has.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Records a successful read.
    pub(crate) fn read(&mut self) {
        self.in_a_row = 0;
    }

    /// Records a sector that could not be read.
    ///
    /// # Errors
    /// Too many sectors are unreadable.
    pub(crate) fn found(&mut self, lbn: Lbn, reason: &str) -> Result<(), ProbeError> {
        self.lbns.insert(lbn.get());
        self.in_a_row += 1;
        let problem = if self.in_a_row > FAILED_READS_MAX {
            format!("{} reads in a row failed", self.in_a_row)
        } else if self.lbns.len() > UNREADABLE_SECTORS_MAX {
            format!("{} sectors cannot be read", self.lbns.len())
        } else {
            return Ok(());
        };
        self.too_many = Some((lbn, problem));
        self.bear(reason)
    }

    /// Checks that the drive may still be read.
    ///
    /// # Errors
    /// Too many sectors are unreadable: every further read may cost data that could still be saved.
    pub(crate) fn bear(&self, reason: &str) -> Result<(), ProbeError> {
        let Some((lbn, problem)) = self.too_many.clone() else { return Ok(()) };
        Err(ProbeError::Unreadable { lbn, problem, reason: reason.to_owned() })
    }

    /// Returns the unreadable, or unwritable, sectors as runs of consecutive LBNs.
    pub(crate) fn runs(&self, op: Op) -> Vec<Unreadable> {
        let mut runs: Vec<Unreadable> = Vec::new();
        for &lbn in if op.is_write() { &self.unwritable } else { &self.lbns } {
            let end = Lbn::new(lbn + 1);
            match runs.last_mut() {
                Some(last) if last.end.get() == lbn => last.end = end,
                _ => runs.push(Unreadable { first: Lbn::new(lbn), end }),
            }
        }
        runs
    }
}

impl Meter<'_> {
    /// Returns the angle of a sector: from one read of the medium, or from its neighbours if the sector is unreadable.
    pub(crate) fn angle(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        if let Some(angle) = self.angle_of(lbn)? {
            return Ok(angle);
        }
        let (below, above) = (self.neighbours(lbn, false)?, self.neighbours(lbn, true)?);
        match between(lbn, &below, &above, 2.0 * self.spread) {
            Some(angle) => Ok(angle),
            None => Err(ProbeError::Unreadable {
                lbn: Lbn::new(lbn),
                problem: format!(
                    "no two sectors next to each other, {INFERENCE_SECTORS_MAX} on both sides, can be read"
                ),
                reason: self.reason().to_owned(),
            }),
        }
    }

    /// Returns the angle of a sector or of a readable one near it: before it if possible, but not before `first`. Known
    /// unreadable sectors are skipped without a read. Returns `None` if no such sector can be read.
    pub(crate) fn readable_near(&mut self, lbn: u64, first: u64) -> Result<Option<SectorAngle>, ProbeError> {
        if let Some(angle) = self.angle_of(lbn)? {
            return Ok(Some(SectorAngle { lbn, angle }));
        }
        for above in [false, true] {
            let mut away = 1;
            while away <= INFERENCE_SECTORS_MAX {
                let other = if above { lbn.checked_add(away) } else { lbn.checked_sub(away) };
                let Some(other) = other.filter(|other| (first..self.capacity()).contains(other)) else {
                    break;
                };
                if let Some(angle) = self.angle_of(other)? {
                    return Ok(Some(SectorAngle { lbn: other, angle }));
                }
                away *= 2;
            }
        }
        Ok(None)
    }

    /// Returns up to two readable sectors near `lbn` on one side, the nearest first.
    fn neighbours(&mut self, lbn: u64, above: bool) -> Result<Vec<SectorAngle>, ProbeError> {
        let (mut found, mut away) = (Vec::new(), 1);
        while found.len() < 2 && away <= INFERENCE_SECTORS_MAX {
            let other = if above { lbn.checked_add(away) } else { lbn.checked_sub(away) };
            let Some(other) = other.filter(|&other| other < self.capacity()) else { break };
            match self.angle_of(other)? {
                Some(angle) => {
                    found.push(SectorAngle { lbn: other, angle });
                    away += 1;
                }
                None => away *= 2,
            }
        }
        Ok(found)
    }
}

/// Returns the angle of a sector from those of readable ones on either side, the nearest first. `spread` is the error
/// of a reading. The angle continues that of the sectors before, if there are any. Returns `None` if no two sectors
/// give the length of a sector: a single one thousands of sectors away does not determine the angle.
fn between(lbn: u64, below: &[SectorAngle], above: &[SectorAngle], spread: f64) -> Option<f64> {
    let mut pairs: Vec<_> =
        [below, above].iter().filter_map(|side| Some((*side.first()?, *side.get(1)?))).collect();
    pairs.extend(below.first().zip(above.first()).map(|(b, a)| (*b, *a)));
    // The angles of sectors farther apart may differ by whole revolutions, so they do not give the length of a sector.
    pairs.retain(|(a, b)| a.lbn.abs_diff(b.lbn) <= ADJACENT_SECTORS_MAX);
    // Across the end of a track a sector seems to be longer, so the minimum is the length within one track.
    let takes = |(a, b): (SectorAngle, SectorAngle)| {
        let (first, last) = if a.lbn < b.lbn { (a, b) } else { (b, a) };
        frac(last.angle - first.angle) / a.lbn.abs_diff(b.lbn) as f64
    };
    let sector = pairs.into_iter().map(takes).reduce(f64::min)?;
    let from = |side: &[SectorAngle]| {
        let other = side.first()?;
        Some(other.angle + sector * (lbn as f64 - other.lbn as f64))
    };
    match (from(below), from(above)) {
        (Some(before), Some(after)) => {
            let apart = wrap(after - before);
            Some(frac(if apart.abs() < f64::max(sector / 2.0, spread) {
                before + apart / 2.0
            } else {
                before
            }))
        }
        (one, other) => one.or(other).map(frac),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_stands_between_its_neighbours() {
        let at = |lbn: u64| SectorAngle { lbn, angle: frac(0.99 + 0.01 * lbn as f64) };
        let near = |found: Option<f64>, lbn: u64| wrap(found.unwrap() - at(lbn).angle).abs() < 1e-9;
        assert!(near(between(7, &[at(6), at(5)], &[at(8), at(9)], 0.0), 7));
        assert!(near(between(7, &[at(3), at(1)], &[at(12), at(13)], 0.0), 7));
        assert!(near(between(0, &[], &[at(1), at(2)], 0.0), 0));
        assert!(near(between(9, &[at(8), at(7)], &[], 0.0), 9));
        assert_eq!(between(9, &[], &[], 0.0), None);
        // Between the readable sectors on either side lie whole revolutions; these do not make a sector longer.
        assert!(near(between(500, &[at(244), at(243)], &[at(756), at(757)], 0.0), 500));
        // One readable sector on a side, far away, is not enough.
        assert_eq!(between(5_000, &[at(904)], &[], 0.0), None);
        assert_eq!(between(5_000, &[at(904)], &[at(9_096)], 0.0), None);
        // The sector is the last of a track: the next ones are at another angle.
        let next = |lbn: u64| SectorAngle { lbn, angle: frac(at(lbn).angle + 0.3) };
        assert!(near(between(7, &[at(6), at(5)], &[next(8), next(9)], 0.0), 7));
        // The sector is the second of a track: the one two before it is on another track.
        let before = |lbn: u64| SectorAngle { lbn, angle: frac(at(lbn).angle - 0.3) };
        assert!(near(between(7, &[at(6), before(5)], &[at(8), at(9)], 0.0), 7));
    }

    #[test]
    fn too_many_in_all_or_in_a_row_are_an_error_that_names_the_last() {
        let mut defects = Defects::default();
        for lbn in 0..UNREADABLE_SECTORS_MAX as u64 {
            defects.found(Lbn::new(10 * lbn), "no sync").unwrap();
            defects.read();
        }
        let error = defects.found(Lbn::new(7_777_777), "no sync").unwrap_err().to_string();
        assert!(error.contains("513 sectors cannot be read, the last at LBN 7777777: no sync"), "{error}");
        let mut defects = Defects::default();
        let error =
            (0..100).find_map(|lbn| defects.found(Lbn::new(lbn % 2), "gone").err()).unwrap().to_string();
        assert!(error.starts_with("49 reads in a row failed, the last at LBN 0: gone"), "{error}");
    }
}
