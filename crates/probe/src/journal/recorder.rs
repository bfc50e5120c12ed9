//! Executes commands and enters them in the journal, or answers them from it. After a pause it finds the platter's
//! angle relative to the clock.

use super::{Done, Entry, Fault, Journal};
use crate::device::{DeviceError, ProbedDevice, Timed};
use crate::draw::Draw;
use crate::error::{ProbeError, StateError};
use units::{Instant, Lbn, LbnRange, Op, Sectors};

/// The number of reads that are repeated after a pause to find the platter's angle, and the number of last reads from
/// which they are chosen.
const RESYNC_READS: usize = 15;
const RECENT_READS: usize = 90;

/// The number of last commands that are searched for one that can move the arm back.
const RECENT_COMMANDS: usize = 10_000;

/// Until the time of a cache hit is known, a read with a shorter response counts as one, ns.
const HIT_NS: f64 = 900_000.0;

/// The most reads of other sectors to evict one from the buffer: more than any count of segments.
const RETURN_READS_MAX: u64 = 20_000;

/// The number of reads elsewhere, beyond one for each known segment, that evict the last recorded sectors from the
/// buffer.
const EVICTING_READS: u64 = 4;

/// Repeated reads agree if their ends differ by less than this, in revolutions.
const EQUAL_ENDS_REVOLUTIONS_MAX: f64 = 0.025;

/// The largest relative change of the spindle's speed during a pause.
const SPEED_CHANGE_RATIO_MAX: f64 = 0.012;
/// The number of speeds that are tried above, and below, the last known speed.
const SPEEDS_PER_SIDE: i32 = 60;

/// A device whose commands are recorded; a resumed probe gets the times of recorded commands from the journal.
pub(crate) struct Recorder<'a> {
    device: &'a mut dyn ProbedDevice,
    journal: &'a mut Journal,
    /// The index of the next entry of the journal from which a command is answered.
    replayed: usize,
    /// The journal's clock relative to the device's, once it is known.
    ahead: Option<Ahead>,
    /// The number of commands before which the arm was moved back, because the drive had served another host.
    disturbed: u64,
    /// The device's message for the last failed command.
    reason: String,
    /// The response below which a read is a cache hit, ns; and the number of segments, 0 while it is unknown.
    hit_ns: f64,
    segments: u64,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        device: &'a mut dyn ProbedDevice,
        journal: &'a mut Journal,
    ) -> Result<Self, StateError> {
        let (capacity, sector_bytes) = (device.capacity().get(), device.sector_bytes().get());
        if journal.capacity == 0 {
            // A new journal belongs to no drive yet.
            (journal.capacity, journal.sector_bytes) = (capacity, sector_bytes);
        }
        if (journal.capacity, journal.sector_bytes) != (capacity, sector_bytes) {
            return Err(StateError::Other {
                problem: format!(
                    "the state is of {} sectors of {} bytes, the drive has {capacity} of {sector_bytes}",
                    journal.capacity, journal.sector_bytes
                ),
            });
        }
        if journal.revolution == 0 {
            // Without a revolution time the platter's angle cannot be found again, so the probe starts anew.
            journal.entries.clear();
            journal.buffer_off = None;
        }
        let fresh = journal.entries.is_empty();
        let (ahead, reason) = (fresh.then_some(Ahead(0)), String::new());
        Ok(Self { device, journal, replayed: 0, ahead, disturbed: 0, reason, hit_ns: HIT_NS, segments: 0 })
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.journal
    }

    /// Records that this attempt ended with a part of the drive.
    pub(crate) fn ended_partial(&mut self) {
        self.journal.ended_partial = true;
    }

    /// Switches the drive's buffer off, unless the journal says that the drive could not; returns whether it is off.
    pub(crate) fn switch_buffer_off(&mut self) -> Result<bool, StateError> {
        let off = match self.journal.buffer_off {
            Some(false) => false,
            Some(true) if self.device.switch_buffer_off() => true,
            Some(true) => {
                return Err(StateError::Other {
                    problem: "the state is of a drive with look-ahead or read cache switched off, and the drive has both on"
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
        let mut ahead = self.ahead()?;
        let mut returned = false;
        let done = loop {
            let start = ahead.on_device(at).max(self.device.now());
            match self.device.execute_next(start, op, range) {
                Ok(Some(timed)) => break Done { timed, fault: None },
                Ok(None) => (ahead, returned) = (self.return_arm(ahead)?, true),
                Err(error) => break self.failed(start, error)?,
            }
        };
        self.disturbed += u64::from(returned);
        Ok(self.record(op, range, done, ahead, returned))
    }

    /// Moves the arm back after other hosts' commands, and returns the new offset between the clocks of the journal and
    /// the device.
    ///
    /// The recorder reads again the last single sector that was read from the medium, and sets the offset so that this read ends
    /// at the recorded instant. If a later read had moved the arm, it repeats that read too, and changes the offset by whole
    /// revolutions to come nearest to its recorded end. The time of the other hosts' commands is therefore not in the journal.
    /// A cache hit would not move the arm, so other sectors are read until the repeated reads come from the medium.
    fn return_arm(&mut self, ahead: Ahead) -> Result<Ahead, ProbeError> {
        let recent = || self.journal.entries.iter().rev().take(RECENT_COMMANDS);
        let Some(anchor) = recent().find(|entry| self.shows_angle(entry)).copied() else {
            // No angle was measured yet, so any position will do.
            repeated(self.device, LbnRange::new(Lbn::ZERO, Sectors::new(1)))?;
            return Ok(ahead);
        };
        let last = recent().find(|entry| self.moved_arm(entry)).copied().filter(|last| *last != anchor);
        let mut draw = Draw::new(self.journal.dice() ^ self.device.now().as_nanos());
        for _ in 0..RETURN_READS_MAX {
            let again = repeated(self.device, anchor.range)?.filter(|&timed| self.is_from_medium(timed));
            let returned = again.map(|timed| Ahead::between(anchor.done.timed.completed, timed.completed));
            let returned = match (returned, last) {
                (Some(returned), Some(last)) => self.repeat(returned, &last)?,
                (returned, _) => returned,
            };
            if let Some(returned) = returned {
                self.ahead = Some(returned);
                return Ok(returned);
            }
            let lbn = Lbn::new(draw.below(self.journal.capacity));
            repeated(self.device, LbnRange::new(lbn, Sectors::new(1)))?;
        }
        Err(ProbeError::Unlike {
            stage: "return of the arm",
            problem: format!("{} stays in the drive's buffer", anchor.range),
            mend: "probe the drive while nothing else uses it".to_owned(),
        })
    }

    /// Repeats a read that moved the arm. Returns the given offset, changed by the whole revolutions with which the read ends
    /// nearest to its recorded end; `None` if the read was a cache hit or another host's command was executed before it.
    fn repeat(&mut self, ahead: Ahead, last: &Entry) -> Result<Option<Ahead>, DeviceError> {
        let timed = self.device.execute_next(self.device.now(), last.op, last.range)?;
        Ok(timed.filter(|&timed| self.is_from_medium(timed)).map(|timed| {
            let revolution = f64::from_bits(self.journal.revolution);
            let Ahead(late) = Ahead::between(last.done.timed.completed, ahead.in_journal(timed.completed));
            let revolutions =
                if revolution > 0.0 { (late as f64 / revolution).round() * revolution } else { 0.0 };
            Ahead(ahead.0.saturating_add(revolutions.round() as i64))
        }))
    }

    /// Returns whether a recorded command was a read that moved the arm to its last sector.
    fn moved_arm(&self, entry: &Entry) -> bool {
        entry.op == Op::Read && entry.done.fault.is_none() && self.is_from_medium(entry.done.timed)
    }

    /// Returns whether the end of a recorded command shows the platter's angle. The second of two commands does not if
    /// the drive executed it first: the journal does not have its completion.
    fn shows_angle(&self, entry: &Entry) -> bool {
        let alone = entry.op == Op::Read && entry.range.len() == Sectors::new(1);
        let Timed { submitted, completed } = entry.done.timed;
        alone && entry.done.fault.is_none() && submitted < completed && self.is_from_medium(entry.done.timed)
    }

    fn is_from_medium(&self, timed: Timed) -> bool {
        timed.completed.saturating_since(timed.submitted).as_nanos() as f64 >= self.hit_ns
    }

    /// Returns the number of commands so far before which the arm was moved back.
    pub(crate) const fn disturbed(&self) -> u64 {
        self.disturbed
    }

    /// Records a command that failed because of a sector, or a write that is refused by a readable drive; any other failure
    /// ends the probe.
    fn failed(&mut self, start: Instant, error: DeviceError) -> Result<Done, ProbeError> {
        let sector = error.unreadable.filter(|&lbn| error.range.contains(lbn));
        let lbn = match sector {
            Some(lbn) => lbn,
            // If the range can be read, the drive refuses writes; if not, the drive is gone.
            None if error.op.is_write() && repeated(self.device, error.range).is_ok() => error.range.start(),
            None => return Err(error.into()),
        };
        let timed = Timed { submitted: start, completed: self.device.now().max(start) };
        self.reason = error.reason;
        Ok(Done { timed, fault: Some(Fault::Sector(lbn)) })
    }

    /// Returns the device's message for the last failed command; empty if the failure came from the journal.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn takes_two(&self) -> bool {
        self.device.takes_two()
    }

    /// Executes two commands, the second right after the first. The first's completion is reported as the second's
    /// submission, so that the second's response is the time between both completions; zero if the second ended first.
    pub(crate) fn execute_two(
        &mut self,
        at: Instant,
        two: [(Op, LbnRange); 2],
    ) -> Result<[Done; 2], ProbeError> {
        let [first, second] = two;
        if let Some(one) = self.recorded(first.0, first.1)? {
            // Two commands that were sent together are recorded together; a missing second one counts as lost.
            let other = self.recorded(second.0, second.1)?;
            let end = one.timed.completed;
            let lost = Done { timed: Timed { submitted: end, completed: end }, fault: Some(Fault::Lost) };
            return Ok([one, other.unwrap_or(lost)]);
        }
        let ahead = self.ahead()?;
        let start = ahead.on_device(at).max(self.device.now());
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
        let [one, other] = [(first, one), (second, other)]
            .map(|((op, range), done)| self.record(op, range, done, ahead, false));
        Ok([one, other])
    }

    /// Returns the next command's times, if it is in the journal.
    fn recorded(&mut self, op: Op, range: LbnRange) -> Result<Option<Done>, StateError> {
        let Some(entry) = self.journal.entries.get(self.replayed) else { return Ok(None) };
        if (entry.op, entry.range) != (op, range) {
            return Err(StateError::Other {
                problem: format!("command {} was {} of {}", self.replayed, entry.op, entry.range),
            });
        }
        self.replayed += 1;
        self.disturbed += u64::from(entry.returned);
        Ok(Some(entry.done))
    }

    /// Returns the journal's clock relative to the device's.
    fn ahead(&mut self) -> Result<Ahead, ProbeError> {
        let ahead = match self.ahead {
            Some(ahead) => ahead,
            None => {
                let ahead = self.resync()?;
                // If other hosts' time was left out of the journal, the pause is left out, too.
                let is_cut = self.journal.entries.iter().any(|entry| entry.returned);
                if is_cut { self.return_arm(ahead)? } else { ahead }
            }
        };
        self.ahead = Some(ahead);
        Ok(ahead)
    }

    fn record(&mut self, op: Op, range: LbnRange, done: Done, ahead: Ahead, returned: bool) -> Done {
        let Timed { submitted, completed } = done.timed;
        let timed = Timed { submitted: ahead.in_journal(submitted), completed: ahead.in_journal(completed) };
        let done = Done { timed, ..done };
        self.journal.entries.push(Entry { op, range, done, returned });
        self.replayed += 1;
        done
    }

    /// Sets the response below which reads of one sector are cache hits, and the number of segments.
    pub(crate) fn set_buffer(&mut self, hit_ns: f64, segments: u64) {
        self.hit_ns = hit_ns;
        self.segments = segments;
    }

    /// Repeats some of the last reads of the journal; returns the offset of the journal's clock to the device's at
    /// which the platter's angle continues as if there had been no pause.
    fn resync(&mut self) -> Result<Ahead, ProbeError> {
        let revolution = f64::from_bits(self.journal.revolution);
        let shows = |entry: &&Entry| self.shows_angle(entry);
        let reads: Vec<Entry> =
            self.journal.entries.iter().rev().filter(shows).take(RECENT_READS).copied().collect();
        let end = self.journal.entries.last().map_or(Instant::ZERO, |e| e.done.timed.completed);
        let phase = |t: Instant| (t.as_nanos() as f64 / revolution).rem_euclid(1.0);
        // A drive that stayed on may have the recorded sectors in its buffer.
        let mut draw = Draw::new(self.journal.dice() ^ self.journal.commands());
        let elsewhere =
            (0..self.segments + EVICTING_READS).map(|_| Lbn::new(draw.below(self.journal.capacity)));
        for lbn in elsewhere {
            repeated(self.device, LbnRange::new(lbn, Sectors::new(1)))?;
        }
        let mut agreeing = Vec::new();
        // The oldest reads come first, because the most recent sectors may still be in the buffer.
        let step = RECENT_READS.div_ceil(RESYNC_READS);
        let spread = (0..step).flat_map(|first| reads.iter().rev().skip(first).step_by(step));
        for entry in spread {
            let Some(timed) = repeated(self.device, entry.range)?.filter(|&timed| self.is_from_medium(timed))
            else {
                // The sector has become unreadable, or the read was a cache hit; the other reads suffice.
                continue;
            };
            let before = entry.done.timed.completed;
            let offset = (phase(before) - phase(timed.completed)).rem_euclid(1.0);
            agreeing.push((timed.completed, offset));
            if agreeing.len() == RESYNC_READS {
                break;
            }
        }
        let (offset, agree) = best_offset(&agreeing, revolution);
        if agreeing.is_empty() || agree * 5 < agreeing.len() * 3 {
            return Err(StateError::Other {
                problem: format!(
                    "only {agree} of {} repeated reads end at the angle in the journal, so this is another drive",
                    agreeing.len()
                ),
            }
            .into());
        }
        let behind = end.as_nanos().saturating_sub(self.device.now().as_nanos());
        Ok(Ahead(((behind as f64 / revolution).ceil() * revolution + offset * revolution).round() as i64))
    }
}

/// The journal's clock minus the device's, ns: negative if time was left out of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead(i64);

impl Ahead {
    /// Returns the offset at which these instants of the journal's and the device's clocks are the same.
    fn between(journal: Instant, device: Instant) -> Self {
        let ahead = journal.saturating_since(device).as_nanos();
        let behind = device.saturating_since(journal).as_nanos();
        let ns = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        Self(ns(ahead).saturating_sub(ns(behind)))
    }

    fn in_journal(self, device: Instant) -> Instant {
        Instant::from_nanos(device.as_nanos().saturating_add_signed(self.0))
    }

    fn on_device(self, journal: Instant) -> Instant {
        Instant::from_nanos(journal.as_nanos().saturating_add_signed(self.0.saturating_neg()))
    }
}

/// Executes a read immediately, without recording it; returns `None` for an unreadable range.
fn repeated(device: &mut dyn ProbedDevice, range: LbnRange) -> Result<Option<Timed>, DeviceError> {
    match device.execute(device.now(), Op::Read, range) {
        Ok(timed) => Ok(Some(timed)),
        Err(error) if error.unreadable.is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the offset of phases on which most reads agree, at the instant of the last read, and the number of these
/// reads. The speed of the spindle may have changed since the reads were recorded.
fn best_offset(repeated: &[(Instant, f64)], revolution: f64) -> (f64, usize) {
    let wrapped = |a: f64| (a + 0.5).rem_euclid(1.0) - 0.5;
    let Some(&(last, _)) = repeated.last() else { return (0.0, 0) };
    let mut best = (0.0, 0, f64::MAX);
    for step in -SPEEDS_PER_SIDE..=SPEEDS_PER_SIDE {
        let slower = SPEED_CHANGE_RATIO_MAX * f64::from(step) / f64::from(SPEEDS_PER_SIDE);
        let at_last = |&(at, offset): &(Instant, f64)| {
            let revolutions = last.saturating_since(at).as_nanos() as f64 / revolution;
            (offset + slower * revolutions).rem_euclid(1.0)
        };
        for one in repeated {
            let middle = at_last(one);
            let near: Vec<f64> = repeated
                .iter()
                .map(|r| wrapped(at_last(r) - middle))
                .filter(|d| d.abs() < EQUAL_ENDS_REVOLUTIONS_MAX)
                .collect();
            let apart: f64 = near.iter().map(|d| d.abs()).sum();
            // More reads in agreement are better, then closer agreement.
            if (near.len(), -apart) > (best.1, -best.2) {
                best = (middle, near.len(), apart);
            }
        }
    }
    (best.0, best.1)
}
