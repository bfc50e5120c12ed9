//! Executes commands and records them, or answers them from the record; after a pause, finds the platter's angle relative to
//! the clock.

use super::{Done, Entry, Fault, Journal, StateError};
use crate::device::{Device, DeviceError, Timed};
use crate::draw::Draw;
use crate::error::ProbeError;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The number of reads repeated after a pause to find the platter's angle, and the number of last reads from which they are
/// chosen.
const RESYNC: usize = 15;
const RECENT: usize = 90;

/// Below this response a read counts as a cache hit, ns, until the time of a hit is known.
const HIT_NS: f64 = 900_000.0;

/// The number of reads elsewhere that evict the last ones from an unknown buffer.
const FORGET: u64 = 4;

/// Repeated reads agree if their ends differ by less than this, in revolutions.
const AGREES: f64 = 0.025;

/// The largest relative change of the spindle's speed during a pause, and the number of speeds tried on either side.
const MOST_SLOWER: f64 = 0.012;
const SPEEDS: i32 = 60;

/// A device whose commands are recorded; recorded ones are answered from the record.
pub(crate) struct Recorder<'a> {
    device: &'a mut dyn Device,
    journal: &'a mut Journal,
    /// The next entry to be answered from the record.
    replayed: usize,
    /// The journal's clock minus the device's, once it is known.
    ahead: Option<u64>,
    /// The device's message for the last failed command.
    reason: String,
    /// The response below which a read is a cache hit, ns; and the number of segments, once it is known.
    hit_ns: f64,
    segments: u64,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(device: &'a mut dyn Device, journal: &'a mut Journal) -> Result<Self, StateError> {
        let (capacity, sector_bytes) = (device.capacity().get(), device.sector_bytes().get());
        if journal.capacity == 0 {
            // A new journal has no drive yet.
            (journal.capacity, journal.sector_bytes) = (capacity, sector_bytes);
        }
        if (journal.capacity, journal.sector_bytes) != (capacity, sector_bytes) {
            return Err(StateError::Other {
                problem: format!(
                    "it has {} sectors of {} bytes, the drive {capacity} of {sector_bytes}",
                    journal.capacity, journal.sector_bytes
                ),
            });
        }
        if journal.revolution == 0 {
            // The journal is too short: the platter's angle cannot be found again.
            journal.entries.clear();
            journal.buffer_off = None;
        }
        let fresh = journal.entries.is_empty();
        let (ahead, reason) = (fresh.then_some(0), String::new());
        Ok(Self { device, journal, replayed: 0, ahead, reason, hit_ns: HIT_NS, segments: 0 })
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.journal
    }

    /// Records that this attempt ended with a part of the drive.
    pub(crate) fn ended_partial(&mut self) {
        self.journal.ended_partial = true;
    }

    /// Switches the drive's buffer off if it was off in the record, or if that was not tried yet; returns whether it is off.
    pub(crate) fn switch_buffer_off(&mut self) -> Result<bool, StateError> {
        let off = match self.journal.buffer_off {
            Some(false) => false,
            Some(true) if self.device.switch_buffer_off() => true,
            Some(true) => {
                return Err(StateError::Other {
                    problem: "its drive had look-ahead or read cache switched off, and this one does not"
                        .to_owned(),
                });
            }
            None => self.device.switch_buffer_off(),
        };
        self.journal.buffer_off = Some(off);
        Ok(off)
    }

    pub(crate) fn set_revolution(&mut self, ns: f64) {
        self.journal.revolution = ns.to_bits();
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.journal.capacity
    }

    pub(crate) fn sector_bytes(&self) -> u64 {
        self.journal.sector_bytes
    }

    pub(crate) fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Done, ProbeError> {
        if let Some(done) = self.recorded(op, range)? {
            return Ok(done);
        }
        let ahead = self.ahead()?;
        let start = Instant::from_nanos(at.as_nanos().saturating_sub(ahead)).max(self.device.now());
        let done = match self.device.execute(start, op, range) {
            Ok(timed) => Done { timed, fault: None },
            Err(error) => self.failed(start, error)?,
        };
        Ok(self.record(op, range, done, ahead))
    }

    /// Records a command that failed because of a sector, or a write that is refused by a readable drive; any other failure
    /// ends the probe.
    fn failed(&mut self, start: Instant, error: DeviceError) -> Result<Done, ProbeError> {
        let sector = error.unreadable.filter(|&lbn| error.range.contains(lbn));
        let lbn = match sector {
            Some(lbn) => lbn,
            // A drive that is gone cannot be read either.
            None if error.op.is_write() && repeated(self.device, error.range).is_ok() => error.range.start(),
            None => return Err(error.into()),
        };
        let timed = Timed { submitted: start, completed: self.device.now().max(start) };
        self.reason = error.reason;
        Ok(Done { timed, fault: Some(Fault::Sector(lbn)) })
    }

    /// Returns the device's message for the last failed command; empty if it came from the record.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn takes_two(&self) -> bool {
        self.device.takes_two()
    }

    /// Executes two commands, the second right after the first. The second's submission is reported as the first's
    /// completion, so that its response is the time between both completions; zero if it came first.
    pub(crate) fn execute_two(
        &mut self,
        at: Instant,
        two: [(Op, LbnRange); 2],
    ) -> Result<[Done; 2], ProbeError> {
        let [first, second] = two;
        if let Some(one) = self.recorded(first.0, first.1)? {
            // Both were recorded before the journal could be saved.
            let other = self.recorded(second.0, second.1)?;
            let end = one.timed.completed;
            let lost = Done { timed: Timed { submitted: end, completed: end }, fault: Some(Fault::Lost) };
            return Ok([one, other.unwrap_or(lost)]);
        }
        let ahead = self.ahead()?;
        let start = Instant::from_nanos(at.as_nanos().saturating_sub(ahead)).max(self.device.now());
        let done = match self.device.execute_two(start, two) {
            Ok([one, other]) => {
                let behind =
                    Timed { submitted: one.completed, completed: other.completed.max(one.completed) };
                [one, behind].map(|timed| Done { timed, fault: None })
            }
            Err(error) => {
                let which = usize::from(error.range != first.1);
                let failed = self.failed(start, error)?;
                let end = failed.timed.completed;
                let lost = Some(Fault::Lost);
                let behind = Timed { submitted: end, completed: end };
                if which == 0 {
                    [failed, Done { timed: behind, fault: lost }]
                } else {
                    [Done { fault: lost, ..failed }, Done { timed: behind, ..failed }]
                }
            }
        };
        let [one, other] = done;
        Ok([self.record(first.0, first.1, one, ahead), self.record(second.0, second.1, other, ahead)])
    }

    /// Returns the next command's times, if it is in the record.
    fn recorded(&mut self, op: Op, range: LbnRange) -> Result<Option<Done>, StateError> {
        let Some(entry) = self.journal.entries.get(self.replayed) else { return Ok(None) };
        if (entry.op, entry.range) != (op, range) {
            return Err(StateError::Other {
                problem: format!("command {} was {} of {}", self.replayed, entry.op, entry.range),
            });
        }
        self.replayed += 1;
        Ok(Some(entry.done))
    }

    /// Returns the journal's clock minus the device's.
    fn ahead(&mut self) -> Result<u64, ProbeError> {
        let ahead = match self.ahead {
            Some(ahead) => ahead,
            None => self.resync()?,
        };
        self.ahead = Some(ahead);
        Ok(ahead)
    }

    fn record(&mut self, op: Op, range: LbnRange, done: Done, ahead: u64) -> Done {
        let shift = Duration::from_nanos(ahead);
        let Timed { submitted, completed } = done.timed;
        let done =
            Done { timed: Timed { submitted: submitted + shift, completed: completed + shift }, ..done };
        self.journal.entries.push(Entry { op, range, done });
        self.replayed += 1;
        done
    }

    /// Sets the response below which reads of one sector are cache hits, and the number of segments.
    pub(crate) fn set_buffer(&mut self, hit_ns: f64, segments: u64) {
        self.hit_ns = hit_ns;
        self.segments = segments;
    }

    /// Repeats some of the last reads of the record; returns the offset of the journal's clock to the device's with which
    /// the platter stands as if there had been no pause.
    fn resync(&mut self) -> Result<u64, ProbeError> {
        let turn = f64::from_bits(self.journal.revolution);
        let from_medium =
            |timed: Timed| timed.completed.saturating_since(timed.submitted).as_nanos() as f64 >= self.hit_ns;
        // The end of such a read shows the angle of the platter. If a drive executed two commands in reverse order, the
        // second one's completion is unknown.
        let tells = |e: &&Entry| {
            let alone = e.op == Op::Read && e.range.len() == Sectors::new(1);
            let Timed { submitted, completed } = e.done.timed;
            alone && e.done.fault.is_none() && submitted < completed && from_medium(e.done.timed)
        };
        let reads: Vec<Entry> =
            self.journal.entries.iter().rev().filter(tells).take(RECENT).copied().collect();
        let end = self.journal.entries.last().map_or(Instant::ZERO, |e| e.done.timed.completed);
        let phase = |t: Instant| (t.as_nanos() as f64 / turn).rem_euclid(1.0);
        // A drive that stayed on may have them in its buffer.
        let mut draw = Draw::new(self.journal.dice() ^ self.journal.commands());
        let elsewhere = (0..self.segments + FORGET).map(|_| Lbn::new(draw.below(self.journal.capacity)));
        for lbn in elsewhere {
            repeated(self.device, LbnRange::new(lbn, Sectors::new(1)))?;
        }
        let mut agreeing = Vec::new();
        // The oldest first: the youngest may still be in the buffer.
        let step = RECENT.div_ceil(RESYNC);
        let spread = (0..step).flat_map(|first| reads.iter().rev().skip(first).step_by(step));
        for entry in spread {
            let Some(timed) = repeated(self.device, entry.range)?.filter(|&timed| from_medium(timed)) else {
                // Unreadable since, or a cache hit; the other reads suffice.
                continue;
            };
            let before = entry.done.timed.completed;
            let offset = (phase(before) - phase(timed.completed)).rem_euclid(1.0);
            agreeing.push((timed.completed, offset));
            if agreeing.len() == RESYNC {
                break;
            }
        }
        let (offset, agree) = best_offset(&agreeing, turn);
        if agreeing.is_empty() || agree * 5 < agreeing.len() * 3 {
            return Err(StateError::Other {
                problem: format!(
                    "of {} reads repeated, {agree} end where the platter must then have stood: this is another drive",
                    agreeing.len()
                ),
            }
            .into());
        }
        let behind = end.as_nanos().saturating_sub(self.device.now().as_nanos());
        Ok(((behind as f64 / turn).ceil() * turn + offset * turn).round() as u64)
    }
}

/// Reads at once; returns `None` for an unreadable range.
fn repeated(device: &mut dyn Device, range: LbnRange) -> Result<Option<Timed>, DeviceError> {
    match device.execute(device.now(), Op::Read, range) {
        Ok(timed) => Ok(Some(timed)),
        Err(error) if error.unreadable.is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the offset of phases on which most reads agree, at the last of them, and their number; the speed of the spindle
/// may have changed since.
fn best_offset(repeated: &[(Instant, f64)], turn: f64) -> (f64, usize) {
    let wrapped = |a: f64| (a + 0.5).rem_euclid(1.0) - 0.5;
    let Some(&(last, _)) = repeated.last() else { return (0.0, 0) };
    let mut best = (0.0, 0, f64::MAX);
    for step in -SPEEDS..=SPEEDS {
        let slower = MOST_SLOWER * f64::from(step) / f64::from(SPEEDS);
        let at_last = |&(at, offset): &(Instant, f64)| {
            let turns = last.saturating_since(at).as_nanos() as f64 / turn;
            (offset + slower * turns).rem_euclid(1.0)
        };
        for one in repeated {
            let middle = at_last(one);
            let near: Vec<f64> =
                repeated.iter().map(|r| wrapped(at_last(r) - middle)).filter(|d| d.abs() < AGREES).collect();
            let apart: f64 = near.iter().map(|d| d.abs()).sum();
            // The most reads in agreement, then the closest agreement.
            if (near.len(), -apart) > (best.1, -best.2) {
                best = (middle, near.len(), apart);
            }
        }
    }
    (best.0, best.1)
}
