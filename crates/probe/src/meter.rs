//! Timed reads, and what they say about where a sector stands on the platter.

mod phase;
mod ring;

use crate::defects::Defects;
use crate::device::Timed;
use crate::draw::Draw;
use crate::elsewhere::Elsewhere;
use crate::error::ProbeError;
use crate::journal::{Done, Fault, Journal, Recorder};
use crate::platter::Platter;
use crate::report::Unreadable;
use crate::turns::wrap;
use crate::zone::Zone;
use phase::Anchor;
use std::ops::ControlFlow;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// What the caller is told while a probe runs.
#[derive(Debug)]
pub struct Progress<'a> {
    /// What is being measured.
    pub stage: &'static str,
    /// How much of the whole is done, 0 to 1, as far as can be told.
    pub share: f64,
    /// Drive time so far.
    pub drive_time: Duration,
    /// Everything measured so far: save it, and the probe can be resumed.
    pub journal: &'a Journal,
}

/// Called before the first command, then now and then; `Break` ends the probe.
pub type Hook<'a> = dyn FnMut(&Progress<'_>) -> ControlFlow<()> + 'a;

/// Commands between two calls of the hook.
const HOOK_EVERY: u64 = 64;

/// Reads that came from the buffer, one after another, before a sector is given up.
const MOST_HITS: u32 = 6;

/// The most sectors of a read that is to drive all else from the buffer: what a host hands over at once.
const MOST_AT_ONCE: u64 = 2_048;

/// The number of segments from which it pays to avoid driving data from the buffer, the same if readings vary, and the number
/// of sectors that are read with one that left it.
const MANY_SEGMENTS: u64 = 33;
const MANY_SEGMENTS_IF_NOISY: u64 = 128;
const ABOVE: u64 = 3;

/// Drive time that a probe may take, s: of a drive of so many bytes, how it grows, at most.
const LEAST_S: f64 = 300.0;
const SMALL: f64 = 9e9;
const GROWTH: f64 = 0.408;
const MOST_S: f64 = 3_600.0;

/// By how many times that the time of a further attempt grows at most.
const MOST_MORE: u64 = 24;

/// When what comes before the check ends, of that time, where the arm is so quick that the check takes little; and the shares of
/// its parts are of so much.
const LONGEST_BEFORE_CHECK: f64 = 0.88;
const OF_BEFORE_CHECK: f64 = 0.92;

/// Where the check takes more of that time than this, the arm is slow.
const SLOW: f64 = 0.15;

/// One read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) submitted: Instant,
    pub(crate) completed: Instant,
    /// A sector of it could not be read, or written: its times say nothing.
    pub(crate) failed: bool,
}

impl Reading {
    pub(crate) fn response_ns(&self) -> f64 {
        self.completed.since(self.submitted).as_nanos() as f64
    }
}

/// The device with a clock of turns.
pub(crate) struct Meter<'a> {
    recorder: Recorder<'a>,
    hook: &'a mut Hook<'a>,
    pub(crate) draw: Draw,
    stage: &'static str,
    share: f64,
    now: Instant,
    /// When the first command was submitted.
    begun: Option<Instant>,
    /// The last LBN for which the arm moved.
    pub(crate) last: u64,
    platter: Platter,
    /// Sectors whose angles stand fast, read now and then to follow a spindle that drifts; none for one that does not.
    anchors: Vec<Anchor>,
    next_anchor: usize,
    anchored: Instant,
    /// Anchors in a row that made no sense.
    astray: u32,
    /// When a sector whose angle was known was read last.
    followed: Instant,
    /// A read of any sector after one of any other takes so long in the mean, ns.
    pub(crate) far_ns: f64,
    /// Such reads for which time is left at the end: the check's.
    pub(crate) reads_to_check: u64,
    /// Spread of one angle, turns: of a reading, and of where the platter is thought to stand.
    pub(crate) spread: f64,
    /// Spread of a reading alone, turns, where the spindle is followed.
    reading_spread: f64,
    /// Responses below this came from the buffer, ns.
    pub(crate) hit_below: f64,
    /// Reads of other places after which a place is not in the buffer.
    pub(crate) segments: u64,
    /// How many sectors after one read are in it, at least.
    pub(crate) ahead: u64,
    /// Where a read costs little.
    elsewhere: Option<Elsewhere>,
    /// Whether sectors just before one read are in the buffer.
    pub(crate) keeps_before: bool,
    /// The sector that [`Meter::fresh_sector`] returned last.
    lowered: u64,
    /// The last LBN that was read there.
    swept: u64,
    /// Angles of sectors above one that had to leave the buffer, which were read with it.
    above: Vec<(u64, f64)>,
    commands: u64,
    defects: Defects,
    /// LBNs whose angles were taken.
    measured: Vec<u64>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(recorder: Recorder<'a>, hook: &'a mut Hook<'a>) -> Self {
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
            reads_to_check: crate::check::KEPT,
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

    /// Returns the number of commands before which the arm had to be returned, because the drive had served another host.
    pub(crate) fn disturbed(&self) -> u64 {
        self.recorder.disturbed()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn drive_time(&self) -> Duration {
        self.now.saturating_since(self.begun.unwrap_or(self.now))
    }

    /// Whether so much of the drive time that a probe may take is not used up yet: five minutes for 9 GB, an hour for
    /// 4 TB.
    pub(crate) fn is_within(&self, share: f64) -> bool {
        self.drive_time().as_secs_f64() < share * self.allowed_s()
    }

    /// Drive time that a probe may take, s.
    fn allowed_s(&self) -> f64 {
        let bytes = self.capacity() as f64 * self.sector_bytes() as f64;
        let once = (LEAST_S * (bytes / SMALL).powf(GROWTH)).clamp(LEAST_S, MOST_S);
        // A further attempt has more time.
        once * (1.0 + self.recorder.journal().attempts().min(MOST_MORE) as f64)
    }

    /// Whether the arm is so slow that the check takes a good part of the time.
    pub(crate) fn is_slow(&self) -> bool {
        self.check_takes() > SLOW
    }

    /// What the check's reads take, of the drive time that a probe may take.
    fn check_takes(&self) -> f64 {
        self.reads_to_check as f64 * self.far_ns / 1e9 / self.allowed_s()
    }

    /// The same of what comes before the check, whose reads all over the drive take the longer the slower the arm is.
    pub(crate) fn is_within_before_check(&self, share: f64) -> bool {
        let most = f64::min(crate::check::LONGEST - self.check_takes(), LONGEST_BEFORE_CHECK);
        self.is_within(share * most / OF_BEFORE_CHECK)
    }

    /// One turn, ns; 0 while it is not known.
    pub(crate) const fn revolution(&self) -> f64 {
        self.platter.revolution
    }

    pub(crate) fn set_revolution(&mut self, ns: f64) {
        self.platter.revolution = ns;
        self.recorder.set_revolution(ns);
    }

    /// How quick the drive's buffer is, and how large, stands fast: who goes on after a pause needs it.
    pub(crate) fn buffer_is_known(&mut self) {
        self.recorder.set_buffer(self.hit_below, self.segments);
    }

    /// Switches the drive's buffer off, if the drive can; returns whether it did. Nothing is known of the buffer then.
    pub(crate) fn switch_buffer_off(&mut self) -> Result<bool, ProbeError> {
        let off = self.recorder.switch_buffer_off()?;
        if off {
            (self.hit_below, self.segments, self.ahead, self.keeps_before) = (0.0, 0, 0, false);
            self.buffer_is_known();
        }
        Ok(off)
    }

    /// Says what is being done, and how far the whole has come: never back, for what is found anew may be less than was thought.
    pub(crate) fn stage(&mut self, stage: &'static str, share: f64) {
        self.stage = stage;
        self.share = self.share.max(share);
    }

    /// Whoever keeps the journal is told of it before anything is measured, so that a probe that ends early leaves one.
    pub(crate) fn begin(&mut self) -> Result<(), ProbeError> {
        if self.tell().is_break() { Err(ProbeError::Interrupted) } else { Ok(()) }
    }

    /// Notes that a part of the drive was found: the next probe that goes on from the journal does not come to the same end.
    pub(crate) fn ended_partial(&mut self) {
        self.recorder.ended_partial();
    }

    /// All is measured: whoever waits is told so.
    pub(crate) fn end(&mut self) {
        self.stage("done", 1.0);
        // It is over anyway.
        let _ = self.tell();
    }

    /// One command, not before `at`.
    pub(crate) fn execute(
        &mut self,
        at: Instant,
        op: Op,
        first: u64,
        count: u64,
    ) -> Result<Reading, ProbeError> {
        if self.defects.touches(op, first, count) {
            // A drive tries for seconds; once is enough.
            return Ok(Reading { submitted: self.now, completed: self.now, failed: true });
        }
        self.defects.bear(self.recorder.reason())?;
        self.count()?;
        let range = LbnRange::new(Lbn::new(first), Sectors::new(count));
        let done = self.recorder.execute(at.max(self.now), op, range)?;
        self.begun.get_or_insert(done.timed.submitted);
        self.took(op, done, first + count - 1)
    }

    /// Whether the second of two commands is at the drive while it works on the first.
    pub(crate) fn takes_two(&self) -> bool {
        self.recorder.takes_two()
    }

    /// Two commands of a sector each, the second behind the first; the second's response is the time between both
    /// completions, and nothing if it came first.
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

    /// A command is done; the arm is at its last sector unless that came from the buffer.
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

    /// The sectors that could not be read so far.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        self.defects.runs(Op::Read)
    }

    /// The sectors that could not be written so far.
    pub(crate) fn unwritable(&self) -> Vec<Unreadable> {
        self.defects.runs(Op::Write)
    }

    /// Why no write is tried any more, if none is.
    pub(crate) fn refuses_writes(&self) -> Option<&str> {
        self.defects.refused()
    }

    /// What the device said of the last read that failed.
    pub(crate) fn reason(&self) -> &str {
        self.recorder.reason()
    }

    /// Another command; calls the hook now and then, also while old ones are answered from the record: that takes as long to
    /// compute as it did, and whoever waits may want an end.
    fn count(&mut self) -> Result<(), ProbeError> {
        self.commands += 1;
        if self.commands.is_multiple_of(HOOK_EVERY) && self.tell().is_break() {
            return Err(ProbeError::Interrupted);
        }
        Ok(())
    }

    /// Calls the hook.
    fn tell(&mut self) -> ControlFlow<()> {
        let journal = self.recorder.journal();
        let share = self.share.clamp(0.0, 1.0);
        let progress = Progress { stage: self.stage, share, drive_time: journal.drive_time(), journal };
        (self.hook)(&progress)
    }

    /// The LBNs whose angles were taken since this was asked last.
    pub(crate) fn measured(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.measured)
    }

    pub(crate) fn read(&mut self, first: u64, count: u64) -> Result<Reading, ProbeError> {
        self.execute(self.now, Op::Read, first, count)
    }

    /// Whether a read of one sector was too quick for the medium, or failed: either way it says nothing of where the sector
    /// stands.
    pub(crate) fn is_hit(&self, reading: &Reading) -> bool {
        reading.failed || reading.response_ns() < self.hit_below
    }

    /// Where the platter stands at `at`, in turns; the end of a sector is where it stands at the completion of a read
    /// of that sector alone, less a constant that is the same for all.
    pub(crate) fn turns_at(&self, at: Instant) -> f64 {
        self.platter.turns_at(at)
    }

    /// Whether readings differ from one another.
    pub(crate) fn is_noisy(&self) -> bool {
        !self.anchors.is_empty()
    }

    /// Where a sector stands; `None` of one that cannot be read.
    pub(crate) fn angle_of(&mut self, lbn: u64) -> Result<Option<f64>, ProbeError> {
        self.keep_phase()?;
        for hits in 0..MOST_HITS {
            let reading = self.read(lbn, 1)?;
            if reading.failed {
                return Ok(None);
            }
            if !self.is_hit(&reading) {
                self.measured.push(lbn);
                return Ok(Some(self.turns_at(reading.completed)));
            }
            if let Some(known) = self.above.iter().position(|&(above, _)| above == lbn) {
                // A reading of its own counts once.
                self.measured.push(lbn);
                return Ok(Some(self.above.swap_remove(known).1));
            }
            if hits < MOST_HITS / 2 {
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

    /// Reads the sectors above one that has just left the buffer, from the highest down, since the drive reads ahead. A search
    /// that meets a hit wants those next, and each would have to leave the buffer again.
    fn read_above(&mut self, lbn: u64) -> Result<(), ProbeError> {
        self.above.clear();
        if !self.leaving_is_dear() {
            return Ok(());
        }
        let highest = (lbn + ABOVE).min(self.capacity() - 1);
        for above in (lbn + 1..=highest).rev() {
            let reading = self.read(above, 1)?;
            if !self.is_hit(&reading) {
                self.above.push((above, self.turns_at(reading.completed)));
            }
        }
        Ok(())
    }

    /// Returns a sector of a track of `sectors` that is probably not in the buffer: below those returned before, for as many
    /// calls as it takes to read other data into all segments.
    pub(crate) fn fresh_sector(&mut self, sectors: u64) -> u64 {
        let room = (sectors - sectors / 8).max(1);
        if self.segments < MANY_SEGMENTS || self.keeps_before {
            return self.draw.below(room);
        }
        let stride = (room / self.segments).max(1);
        let by = stride + self.draw.below(stride);
        self.lowered = self.lowered.min(room).checked_sub(by).unwrap_or(room - 1);
        self.lowered
    }

    /// One read elsewhere: what follows is no sequel of what went before.
    pub(crate) fn step_aside(&mut self, lbn: u64) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        let far = (capacity / 200).max(2_000).min(capacity / 2);
        let other = if lbn >= far { lbn - far } else { (lbn + far).min(capacity - 1) };
        let other = other.saturating_sub(self.draw.below(far / 2));
        self.read(other, 1)?;
        Ok(())
    }

    /// LBNs that are near enough to one another for short seeks, and far enough apart for read-ahead not to reach from most to most.
    pub(crate) fn near_by(&self) -> u64 {
        let capacity = self.capacity();
        (capacity / 20).max(200_000).min(capacity)
    }

    /// Reads elsewhere until nothing around `lbn` is in the buffer.
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
                // They tell what the spindle does meanwhile.
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

    /// All around `lbn` is in the buffer, that of a drive that fits into it. What is longer than a place of it is read anew all the
    /// same, and leaves its end in the place that was used least lately: as many such reads as there are places leave nothing else.
    fn overrun(&mut self, lbn: u64) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        // As far from it as can be, for the drive may read on behind them.
        let (first, end) =
            if lbn < capacity / 2 { (lbn + (capacity - lbn) / 2, capacity) } else { (0, lbn.div_ceil(2)) };
        let count = (end - first).min(MOST_AT_ONCE);
        for _ in 0..=self.segments {
            self.read(end - count, count)?;
        }
        Ok(())
    }

    /// Reads a sector whose angle is known; whether it came from the buffer.
    fn read_elsewhere(&mut self, lbn: u64) -> Result<bool, ProbeError> {
        let reading = self.read(lbn, 1)?;
        if self.is_hit(&reading) {
            return Ok(true);
        }
        let turns = reading.response_ns() / self.revolution();
        if let Some(known) = self.elsewhere.as_mut() {
            known.learn(turns);
            if let Some((angle, spread)) = known.angle(lbn) {
                self.follow(angle, spread, 0.0);
            }
        }
        Ok(false)
    }

    /// Returns whether reads elsewhere for each segment take so long that it pays to do with fewer of them. If readings vary,
    /// reads of anchors are worth more, since they tell the phase as well.
    fn leaving_is_dear(&self) -> bool {
        self.segments >= if self.is_noisy() { MANY_SEGMENTS_IF_NOISY } else { MANY_SEGMENTS }
    }

    /// Returns the distance in LBNs of reads in a zone of which none is in what the drive read ahead of another, and the room
    /// that a read for each segment takes.
    fn sweep(&self, zone: &Zone) -> (u64, u64) {
        let step = 2 * self.ahead.max(256) + zone.sectors;
        (step, step * (self.segments + 2))
    }

    /// A sector not far from `lbn` that will pass soon.
    fn known_elsewhere(&mut self, lbn: u64) -> Option<u64> {
        let margin = 2 * self.ahead.max(256);
        let known = self.elsewhere.as_ref()?;
        if self.leaving_is_dear() {
            // So many reads are worth two long seeks. From each to the next the arm hardly moves.
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
            let angle = self.platter.turns_at(self.now) + known.wait;
            let other = known.passing(somewhere, angle);
            return (other.abs_diff(lbn) > margin).then_some(other);
        }
        let reach = (10 * margin * (self.segments + 1)).max(50_000).min(self.capacity() / 4);
        let low = lbn.saturating_sub(reach).max(known.zone.first);
        let high = lbn.saturating_add(reach).min(known.end);
        let room = high.checked_sub(low).filter(|&room| room > reach / 4)?;
        let somewhere = low + self.draw.below(room);
        let angle = self.platter.turns_at(self.now) + known.wait;
        let other = known.passing(somewhere, angle);
        (other.abs_diff(lbn) > margin).then_some(other)
    }

    /// LBNs of `zone` until `end` stand where it has them, to a standard deviation of `spread`:
    /// [`leave`](Self::leave) goes there.
    pub(crate) fn knows(&mut self, zone: &Zone, end: u64, spread: f64) {
        if self.leaving_is_dear()
            && self.elsewhere.is_some()
            && end.saturating_sub(zone.first) < self.sweep(zone).1
        {
            // The place that was known before has more room.
            return;
        }
        let wait = self.elsewhere.as_ref().map_or(0.5, |known| known.wait);
        self.elsewhere = Some(Elsewhere { zone: zone.clone(), end, spread, wait });
    }

    /// Angle of `lbn`, and how far it is from `expected`.
    pub(crate) fn deviation(&mut self, lbn: u64, expected: f64) -> Result<f64, ProbeError> {
        Ok(wrap(self.angle(lbn)? - expected))
    }
}
