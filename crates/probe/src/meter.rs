//! Timed reads, and the angle of a sector that follows from their times.

mod defects;
mod phase;
mod ring;

use crate::device::Timed;
use crate::draw::Draw;
use crate::elsewhere::Elsewhere;
use crate::error::ProbeError;
use crate::journal::{Done, Fault, Journal, Recorder};
use crate::platter::Platter;
use crate::report::Unreadable;
use crate::revolutions::wrap;
use crate::zone::Zone;
use defects::Defects;
use phase::Anchor;
use std::ops::ControlFlow;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The progress of a running probe.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The name of the present measurement.
    pub stage: &'static str,
    /// The estimated share of the probe that is done, 0 to 1.
    pub share: f64,
    /// The drive time that the probe has taken so far.
    pub drive_time: Duration,
    /// All measurements so far. A probe can be resumed from a saved copy.
    pub journal: &'a Journal,
}

/// A callback of a running probe: called before the first command, then regularly; `Break` ends the probe.
pub type Hook<'a> = dyn FnMut(&Progress<'_>) -> ControlFlow<()> + 'a;

/// The number of commands between two calls of the hook.
const HOOK_INTERVAL_COMMANDS: u64 = 64;

/// The number of cache hits in a row after which the probe ends, because its reads do not evict a sector.
const CONSECUTIVE_HITS_MAX: u32 = 6;

/// The most sectors of a read that replaces the buffer's contents: the largest command of a host.
const EVICTING_SECTORS_MAX: u64 = 2_048;

/// The number of segments from which on evictions take so long that the probe avoids them.
const AVOIDED_EVICTION_SEGMENTS_MIN: u64 = 33;
/// The number of segments from which on the probe avoids evictions if readings vary: reads of anchors evict, too, and
/// are needed anyway.
const NOISY_AVOIDED_EVICTION_SEGMENTS_MIN: u64 = 128;
/// The number of following sectors that are read with one that was evicted.
const SECTORS_WITH_EVICTED: u64 = 3;

/// The drive time that a probe of a small drive may take, s.
const PROBE_TIME_S_MIN: f64 = 300.0;
/// The size of the largest small drive.
const SMALL_DRIVE_BYTES_MAX: f64 = 9e9;
/// The exponent by which a probe's time grows with the size of a larger drive.
const TIME_GROWTH_EXPONENT: f64 = 0.408;
/// The drive time that a probe of the largest drive may take, s.
const PROBE_TIME_S_MAX: f64 = 3_600.0;

/// The most further attempts that count; each adds the allowed time of the first one.
const FURTHER_ATTEMPTS_MAX: u64 = 24;

/// The share of the allowed drive time at which the measurements before the final check of the profile end at the
/// latest.
const MAPPING_TIME_SHARE_MAX: f64 = 0.88;
/// The time limits of the measurements before the final check are stated as if the last of these measurements ended at
/// this share of the allowed drive time, and are scaled to the share at which it must end.
const LIMITS_TIME_SHARE: f64 = 0.92;

/// The share of the allowed drive time at which the check's further reads end.
pub(crate) const CHECK_TIME_SHARE_MAX: f64 = 0.92;

/// The arm counts as slow if the reads of the final check of the profile would take more than this share of the allowed
/// drive time.
const SLOW_CHECK_SHARE_MIN: f64 = 0.15;

/// The times of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) submitted: Instant,
    pub(crate) completed: Instant,
    /// Whether a sector could not be read or written; the times then mean nothing.
    pub(crate) failed: bool,
}

impl Reading {
    pub(crate) fn response_ns(&self) -> f64 {
        self.completed.since(self.submitted).as_nanos() as f64
    }
}

/// The device, with a model of the platter's angle.
pub(crate) struct Meter<'a> {
    recorder: Recorder<'a>,
    hook: &'a mut Hook<'a>,
    pub(crate) draw: Draw,
    stage: &'static str,
    share: f64,
    now: Instant,
    /// The instant at which the first command was submitted.
    begun: Option<Instant>,
    /// The last LBN to which the arm moved.
    pub(crate) last: u64,
    platter: Platter,
    /// Sectors with known angles, which are read regularly to follow a spindle that drifts; empty if its speed is
    /// constant.
    anchors: Vec<Anchor>,
    next_anchor: usize,
    anchored: Instant,
    /// The number of anchors in a row whose readings were outliers.
    astray: u32,
    /// The instant of the last reading of a sector with a known angle.
    followed: Instant,
    /// The mean time of a read of a random sector after that of another random sector, ns.
    pub(crate) far_ns: f64,
    /// The number of reads of the final check, for which time is reserved at the end.
    reads_to_check: u64,
    /// The standard deviation of one angle, in revolutions: that of a reading and of the estimated phase together.
    pub(crate) spread: f64,
    /// The standard deviation of a reading alone, in revolutions, if the spindle is followed.
    reading_spread: f64,
    /// The response time below which a read is a cache hit, ns.
    pub(crate) hit_below: f64,
    /// The number of reads of other places that evict a place from the buffer.
    pub(crate) segments: u64,
    /// The number of sectors after a read that are in the buffer, at least.
    pub(crate) ahead: u64,
    /// Tracks whose angles are known: reads on them evict other sectors from the buffer in little time.
    elsewhere: Option<Elsewhere>,
    /// Whether the buffer holds the sectors just before a read.
    pub(crate) keeps_before: bool,
    /// The sector that [`Meter::fresh_sector`] returned last.
    lowered: u64,
    /// The last LBN that was read on the tracks of `elsewhere`.
    swept: u64,
    /// The angles of sectors that were read together with an evicted one.
    above: Vec<SectorAngle>,
    commands: u64,
    defects: Defects,
    /// The LBNs whose angles were measured since [`Meter::measured`] was called.
    measured: Vec<u64>,
}

/// The measured angle of a sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectorAngle {
    pub(crate) lbn: u64,
    pub(crate) angle: f64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(recorder: Recorder<'a>, hook: &'a mut Hook<'a>, reads_to_check: u64) -> Self {
        let draw = Draw::new(recorder.journal().dice());
        Self {
            recorder,
            hook,
            draw,
            stage: "revolution time",
            share: 0.0,
            now: Instant::ZERO,
            begun: None,
            last: 0,
            platter: Platter::new(),
            anchors: Vec::new(),
            next_anchor: 0,
            anchored: Instant::ZERO,
            astray: 0,
            followed: Instant::ZERO,
            far_ns: 0.0,
            reads_to_check,
            spread: 0.0,
            reading_spread: 0.0,
            hit_below: 0.0,
            segments: 0,
            ahead: 0,
            elsewhere: None,
            keeps_before: false,
            lowered: u64::MAX,
            swept: 0,
            above: Vec::new(),
            commands: 0,
            defects: Defects::default(),
            measured: Vec::new(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.recorder.capacity()
    }

    pub(crate) fn sector_bytes(&self) -> u64 {
        self.recorder.sector_bytes()
    }

    pub(crate) fn commands(&self) -> u64 {
        self.commands
    }

    /// Returns the number of commands before which the arm was moved back, because the drive had served another host.
    pub(crate) fn disturbed(&self) -> u64 {
        self.recorder.disturbed()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn drive_time(&self) -> Duration {
        self.now.saturating_since(self.begun.unwrap_or(self.now))
    }

    /// Returns whether less than this share of the allowed drive time is used. That time is five minutes for 9 GB and
    /// an hour for 4 TB.
    pub(crate) fn is_within(&self, share: f64) -> bool {
        self.drive_time().as_secs_f64() < share * self.allowed_s()
    }

    /// Returns the drive time that a probe may take, s.
    fn allowed_s(&self) -> f64 {
        let bytes = self.capacity() as f64 * self.sector_bytes() as f64;
        let once = (PROBE_TIME_S_MIN * (bytes / SMALL_DRIVE_BYTES_MAX).powf(TIME_GROWTH_EXPONENT))
            .clamp(PROBE_TIME_S_MIN, PROBE_TIME_S_MAX);
        // A further attempt has more time.
        once * (1.0 + self.recorder.journal().attempts().min(FURTHER_ATTEMPTS_MAX) as f64)
    }

    /// Returns whether the arm is so slow that the final check takes much of the allowed drive time.
    pub(crate) fn is_slow(&self) -> bool {
        self.check_takes() > SLOW_CHECK_SHARE_MIN
    }

    /// Returns the share of the allowed drive time that the reads of the final check take.
    fn check_takes(&self) -> f64 {
        self.reads_to_check as f64 * self.far_ns / 1e9 / self.allowed_s()
    }

    /// Returns whether the measurements before the final check have used less than this share of their time: the slower
    /// the arm, the more of the allowed drive time is reserved for that check.
    pub(crate) fn is_within_before_check(&self, share: f64) -> bool {
        let most = f64::min(CHECK_TIME_SHARE_MAX - self.check_takes(), MAPPING_TIME_SHARE_MAX);
        self.is_within(share * most / LIMITS_TIME_SHARE)
    }

    /// Returns the revolution time, ns; 0 while it is not known.
    pub(crate) const fn revolution(&self) -> f64 {
        self.platter.revolution
    }

    pub(crate) fn set_revolution(&mut self, ns: f64) {
        self.platter.revolution = ns;
        self.recorder.set_revolution(ns);
    }

    /// Gives the recorder the buffer's properties, which it needs to repeat reads from the medium.
    pub(crate) fn buffer_is_known(&mut self) {
        self.recorder.set_buffer(self.hit_below, self.segments);
    }

    /// Switches the drive's buffer off; returns whether the drive did so. If it did, the buffer's properties are
    /// measured again.
    pub(crate) fn switch_buffer_off(&mut self) -> Result<bool, ProbeError> {
        let off = self.recorder.switch_buffer_off()?;
        if off {
            (self.hit_below, self.segments, self.ahead, self.keeps_before) = (0.0, 0, 0, false);
            self.buffer_is_known();
        }
        Ok(off)
    }

    /// Sets the name of the present measurement and the share that is done. The share never falls, although a later
    /// estimate may be lower.
    pub(crate) fn stage(&mut self, stage: &'static str, share: f64) {
        self.stage = stage;
        self.share = self.share.max(share);
    }

    /// Calls the hook before the first measurement, so that the host has the journal of a probe that ends
    /// early.
    pub(crate) fn begin(&mut self) -> Result<(), ProbeError> {
        if self.tell().is_break() { Err(ProbeError::Interrupted) } else { Ok(()) }
    }

    /// Records that only a part of the drive was found: the next probe from this journal draws other random
    /// numbers.
    pub(crate) fn ended_partial(&mut self) {
        self.recorder.ended_partial();
    }

    /// Calls the hook after the last measurement.
    pub(crate) fn end(&mut self) {
        self.stage("done", 1.0);
        // The probe has ended, whatever the hook returns.
        let _ = self.tell();
    }

    /// Executes one command, not before `at`.
    pub(crate) fn execute(
        &mut self,
        at: Instant,
        op: Op,
        first: u64,
        count: u64,
    ) -> Result<Reading, ProbeError> {
        if self.defects.touches(op, first, count) {
            // A drive retries for seconds, so a known bad sector is not read again.
            return Ok(Reading { submitted: self.now, completed: self.now, failed: true });
        }
        self.defects.bear(self.recorder.reason())?;
        self.count()?;
        let range = LbnRange::new(Lbn::new(first), Sectors::new(count));
        let done = self.recorder.execute(at.max(self.now), op, range)?;
        self.begun.get_or_insert(done.timed.submitted);
        self.took(op, done, first + count - 1)
    }

    /// Returns whether the drive accepts a second command while it works on the first.
    pub(crate) fn takes_two(&self) -> bool {
        self.recorder.takes_two()
    }

    /// Executes two commands of a sector each, the second right after the first. The second's response is the time
    /// between both completions, or zero if the second was completed first.
    pub(crate) fn execute_two(&mut self, two: [(Op, u64); 2]) -> Result<[Reading; 2], ProbeError> {
        if two.iter().any(|&(op, lbn)| self.defects.touches(op, lbn, 1)) {
            return Ok([Reading { submitted: self.now, completed: self.now, failed: true }; 2]);
        }
        self.defects.bear(self.recorder.reason())?;
        self.count()?;
        self.count()?;
        let sector = |(op, lbn)| (op, LbnRange::new(Lbn::new(lbn), Sectors::new(1)));
        let [one, other] = self.recorder.execute_two(self.now, two.map(sector))?;
        let [(op, first), (behind, second)] = two;
        Ok([self.took(op, one, first)?, self.took(behind, other, second)?])
    }

    /// Records the end of a command. The arm is then at the command's last sector, except after a cache hit.
    fn took(&mut self, op: Op, done: Done, last: u64) -> Result<Reading, ProbeError> {
        let Timed { submitted, completed } = done.timed;
        self.now = completed;
        let reading = Reading { submitted, completed, failed: done.fault.is_some() };
        match done.fault {
            None if op.is_write() => self.defects.written(),
            None => self.defects.read(),
            Some(Fault::Sector(lbn)) if op.is_write() => {
                self.defects.not_written(lbn, self.recorder.reason());
            }
            Some(Fault::Sector(lbn)) => self.defects.found(lbn, self.recorder.reason())?,
            Some(Fault::Lost) => {}
        }
        if reading.failed || !self.is_hit(&reading) {
            self.last = last;
        }
        Ok(reading)
    }

    /// Returns the sectors that could not be read so far.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        self.defects.runs(Op::Read)
    }

    /// Returns the sectors that could not be written so far.
    pub(crate) fn unwritable(&self) -> Vec<Unreadable> {
        self.defects.runs(Op::Write)
    }

    /// Returns the reason why writes are not tried any more; `None` while they are.
    pub(crate) fn refuses_writes(&self) -> Option<&str> {
        self.defects.refused()
    }

    /// Returns the device's message on the last command that failed.
    pub(crate) fn reason(&self) -> &str {
        self.recorder.reason()
    }

    /// Counts a command, and calls the hook every `HOOK_INTERVAL_COMMANDS` commands. Commands that are answered from
    /// the journal count, too: replaying them takes time, and the host may want to end the probe.
    fn count(&mut self) -> Result<(), ProbeError> {
        self.commands += 1;
        if self.commands.is_multiple_of(HOOK_INTERVAL_COMMANDS) && self.tell().is_break() {
            return Err(ProbeError::Interrupted);
        }
        Ok(())
    }

    /// Reports the progress to the caller's hook, which may end the probe.
    fn tell(&mut self) -> ControlFlow<()> {
        let journal = self.recorder.journal();
        let share = self.share.clamp(0.0, 1.0);
        let progress = Progress { stage: self.stage, share, drive_time: journal.drive_time(), journal };
        (self.hook)(&progress)
    }

    /// Returns the LBNs whose angles were measured since the last call.
    pub(crate) fn measured(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.measured)
    }

    pub(crate) fn read(&mut self, first: u64, count: u64) -> Result<Reading, ProbeError> {
        self.execute(self.now, Op::Read, first, count)
    }

    /// Returns whether a read of one sector was too fast for the medium, or failed: in both cases its end
    /// does not give the sector's angle.
    pub(crate) fn is_hit(&self, reading: &Reading) -> bool {
        reading.failed || reading.response_ns() < self.hit_below
    }

    /// Returns the angle of the platter at `at`, in revolutions. At the completion of a read of one sector this is the
    /// angle of that sector's end, less a constant that all sectors share.
    pub(crate) fn revolutions_at(&self, at: Instant) -> f64 {
        self.platter.revolutions_at(at)
    }

    /// Returns whether repeated readings of one sector vary.
    pub(crate) fn is_noisy(&self) -> bool {
        !self.anchors.is_empty()
    }

    /// Returns the angle of a sector; `None` if it cannot be read.
    pub(crate) fn angle_of(&mut self, lbn: u64) -> Result<Option<f64>, ProbeError> {
        self.keep_phase()?;
        for hits in 0..CONSECUTIVE_HITS_MAX {
            let reading = self.read(lbn, 1)?;
            if reading.failed {
                return Ok(None);
            }
            if !self.is_hit(&reading) {
                self.measured.push(lbn);
                return Ok(Some(self.revolutions_at(reading.completed)));
            }
            if let Some(known) = self.above.iter().position(|above| above.lbn == lbn) {
                // The sector is in the buffer because it was read together with an evicted one (`read_above`). The
                // angle from that read is used, once.
                self.measured.push(lbn);
                return Ok(Some(self.above.swap_remove(known).angle));
            }
            if hits < CONSECUTIVE_HITS_MAX / 2 {
                self.leave(lbn)?
            } else {
                self.overrun(lbn)?
            }
            self.read_above(lbn)?;
        }
        Err(ProbeError::Unlike {
            stage: self.stage,
            problem: format!("LBN {lbn} does not leave the drive's buffer"),
            mend: "switch the drive's read cache off and probe again".to_owned(),
        })
    }

    /// Reads the sectors above one that was just evicted, in descending order because the drive reads ahead. A search
    /// that met a cache hit needs these sectors next, and each of them would have to be evicted again.
    fn read_above(&mut self, lbn: u64) -> Result<(), ProbeError> {
        self.above.clear();
        if !self.leaving_is_dear() {
            return Ok(());
        }
        let highest = (lbn + SECTORS_WITH_EVICTED).min(self.capacity() - 1);
        for above in (lbn + 1..=highest).rev() {
            let reading = self.read(above, 1)?;
            if !self.is_hit(&reading) {
                let angle = self.revolutions_at(reading.completed);
                self.above.push(SectorAngle { lbn: above, angle });
            }
        }
        Ok(())
    }

    /// Returns the index, on a track of `sectors` sectors, of a sector that is probably not in the buffer. The index is
    /// random; but if the buffer has many segments and holds no sectors before a read, each call returns a lower index
    /// than the previous one, and starts again from the top when it has reached the first sector.
    pub(crate) fn fresh_sector(&mut self, sectors: u64) -> u64 {
        let room = (sectors - sectors / 8).max(1);
        if self.segments < AVOIDED_EVICTION_SEGMENTS_MIN || self.keeps_before {
            return self.draw.below(room);
        }
        let stride = (room / self.segments).max(1);
        let by = stride + self.draw.below(stride);
        self.lowered = self.lowered.min(room).checked_sub(by).unwrap_or(room - 1);
        self.lowered
    }

    /// Reads one sector elsewhere, so that the next read does not continue the previous one.
    pub(crate) fn step_aside(&mut self, lbn: u64) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        let far = (capacity / 200).max(2_000).min(capacity / 2);
        let other = if lbn >= far { lbn - far } else { (lbn + far).min(capacity - 1) };
        let other = other.saturating_sub(self.draw.below(far / 2));
        self.read(other, 1)?;
        Ok(())
    }

    /// Returns the length of a range of LBNs in which seeks are short, but read-ahead seldom reaches from one random
    /// LBN to another.
    pub(crate) fn near_by(&self) -> u64 {
        let capacity = self.capacity();
        (capacity / 20).max(200_000).min(capacity)
    }

    /// Reads elsewhere until no sector around `lbn` is in the buffer.
    pub(crate) fn leave(&mut self, lbn: u64) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        let reach = self.near_by();
        let low = lbn.saturating_sub(reach / 2).min(capacity - reach);
        let mut done = 0;
        let mut tries = 0;
        while done <= self.segments && tries < 4 * (self.segments + 2) {
            tries += 1;
            if let Some(other) = self.known_elsewhere(lbn) {
                done += u64::from(!self.read_elsewhere(other)?);
                continue;
            }
            if self.anchors_fill_the_buffer() {
                // Reads of anchors also follow the spindle.
                done += u64::from(self.leave_to_anchor(lbn, self.ahead.max(1))?);
                continue;
            }
            let other = low + self.draw.below(reach);
            if other.abs_diff(lbn) < reach / 50 {
                continue;
            }
            let reading = self.read(other, 1)?;
            done += u64::from(!self.is_hit(&reading));
        }
        if done == 0 { self.overrun(lbn) } else { Ok(()) }
    }

    /// Evicts `lbn` on a drive that fits into its buffer, by reads that are longer than a segment. The medium serves
    /// each of them, and their last sectors replace the least recently used segment, so one read for each segment
    /// evicts everything else.
    fn overrun(&mut self, lbn: u64) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        // The reads are far from `lbn`, because the drive may read ahead behind their ends.
        let (first, end) =
            if lbn < capacity / 2 { (lbn + (capacity - lbn) / 2, capacity) } else { (0, lbn.div_ceil(2)) };
        let count = (end - first).min(EVICTING_SECTORS_MAX);
        for _ in 0..=self.segments {
            self.read(end - count, count)?;
        }
        Ok(())
    }

    /// Reads a sector whose angle is known; returns whether it was a cache hit.
    fn read_elsewhere(&mut self, lbn: u64) -> Result<bool, ProbeError> {
        let reading = self.read(lbn, 1)?;
        if self.is_hit(&reading) {
            return Ok(true);
        }
        let revolutions = reading.response_ns() / self.revolution();
        if let Some(known) = self.elsewhere.as_mut() {
            known.learn(revolutions);
            if let Some((angle, spread)) = known.angle(lbn) {
                self.follow(angle, spread, 0.0);
            }
        }
        Ok(false)
    }

    /// Returns whether evictions (one read elsewhere for each segment) take so long that fewer of them save time. If
    /// readings vary, the limit is higher, because reads of anchors also show the platter's phase.
    fn leaving_is_dear(&self) -> bool {
        self.segments
            >= if self.is_noisy() {
                NOISY_AVOIDED_EVICTION_SEGMENTS_MIN
            } else {
                AVOIDED_EVICTION_SEGMENTS_MIN
            }
    }

    /// Returns the distance, in LBNs, of reads in a zone none of which is in the read-ahead of another, and the number
    /// of LBNs that one such read for each segment takes.
    fn sweep(&self, zone: &Zone) -> (u64, u64) {
        let step = 2 * self.ahead.max(256) + zone.sectors;
        (step, step * (self.segments + 2))
    }

    /// Returns a sector with a known angle, outside the read-ahead around `lbn`, that will soon pass under the head.
    fn known_elsewhere(&mut self, lbn: u64) -> Option<u64> {
        let margin = 2 * self.ahead.max(256);
        let known = self.elsewhere.as_ref()?;
        if self.leaving_is_dear() {
            // Reads for all segments take longer than two long seeks, and from one of these reads to the next the arm
            // hardly moves.
            let (step, room) = self.sweep(&known.zone);
            let high = lbn.saturating_add(room).min(known.end);
            let low = high.saturating_sub(2 * room).max(known.zone.first);
            if high.saturating_sub(low) < room {
                return None;
            }
            let next = self.swept + step;
            let mut somewhere = if (low..high).contains(&next) { next } else { low };
            if somewhere.abs_diff(lbn) <= step {
                somewhere = (somewhere + 2 * step).min(high);
            }
            self.swept = somewhere;
            let angle = self.platter.revolutions_at(self.now) + known.wait;
            let other = known.passing(somewhere, angle);
            return (other.abs_diff(lbn) > margin).then_some(other);
        }
        let reach = (10 * margin * (self.segments + 1)).max(50_000).min(self.capacity() / 4);
        let low = lbn.saturating_sub(reach).max(known.zone.first);
        let high = lbn.saturating_add(reach).min(known.end);
        let room = high.checked_sub(low).filter(|&room| room > reach / 4)?;
        let somewhere = low + self.draw.below(room);
        let angle = self.platter.revolutions_at(self.now) + known.wait;
        let other = known.passing(somewhere, angle);
        (other.abs_diff(lbn) > margin).then_some(other)
    }

    /// Records that the angles of LBNs of `zone` below `end` are known to a standard deviation of `spread`,
    /// so that [`leave`](Self::leave) uses them.
    pub(crate) fn knows(&mut self, zone: &Zone, end: u64, spread: f64) {
        if self.leaving_is_dear()
            && self.elsewhere.is_some()
            && end.saturating_sub(zone.first) < self.sweep(zone).1
        {
            // This zone is too short for one read for each segment, so the zone of the previous call stays in use.
            return;
        }
        let wait = self.elsewhere.as_ref().map_or(0.5, |known| known.wait);
        self.elsewhere = Some(Elsewhere { zone: zone.clone(), end, spread, wait });
    }

    /// Returns the angle of `lbn` less `expected`, in revolutions.
    pub(crate) fn deviation(&mut self, lbn: u64, expected: f64) -> Result<f64, ProbeError> {
        Ok(wrap(self.angle(lbn)? - expected))
    }
}
