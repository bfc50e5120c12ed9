//! Timed reads, and what they say about where a sector stands on the platter.

use crate::draw::Draw;
use crate::error::ProbeError;
use crate::journal::{Journal, Recorder};
use crate::turns::{frac, wrap};
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

/// Called now and then; `Break` ends the probe.
pub type Hook<'a> = dyn FnMut(&Progress<'_>) -> ControlFlow<()> + 'a;

/// Commands between two calls of the hook.
const HOOK_EVERY: u64 = 64;

/// Reads that came from the buffer, one after another, before a sector is given up.
const MOST_HITS: u32 = 6;

/// One read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) submitted: Instant,
    pub(crate) completed: Instant,
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
    /// The last LBN for which the arm moved.
    pub(crate) last: u64,
    /// One turn, ns; 0 while it is not known.
    pub(crate) revolution: f64,
    /// Added to angles so that they stay in the frame of the first.
    phase: f64,
    /// Spread of one angle, turns.
    pub(crate) spread: f64,
    /// Responses below this came from the buffer, ns.
    pub(crate) hit_below: f64,
    /// Reads of other places after which a place is not in the buffer.
    pub(crate) segments: u64,
    commands: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(recorder: Recorder<'a>, hook: &'a mut Hook<'a>) -> Self {
        let draw = Draw::new(recorder.journal().seed());
        Self {
            recorder,
            hook,
            draw,
            stage: "revolution time",
            share: 0.0,
            now: Instant::ZERO,
            last: 0,
            revolution: 0.0,
            phase: 0.0,
            spread: 0.0,
            hit_below: 0.0,
            segments: 0,
            commands: 0,
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

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn drive_time(&self) -> Duration {
        self.recorder.journal().drive_time()
    }

    pub(crate) fn set_revolution(&mut self, ns: f64) {
        self.revolution = ns;
        self.recorder.set_revolution(ns);
    }

    /// Says what is being done, and how far the whole has come.
    pub(crate) fn stage(&mut self, stage: &'static str, share: f64) {
        self.stage = stage;
        self.share = share;
    }

    /// One command, not before `at`.
    pub(crate) fn execute(
        &mut self,
        at: Instant,
        op: Op,
        first: u64,
        count: u64,
    ) -> Result<Reading, ProbeError> {
        self.commands += 1;
        if self.commands.is_multiple_of(HOOK_EVERY) && !self.recorder.replaying() {
            let journal = self.recorder.journal();
            let progress = Progress {
                stage: self.stage,
                share: self.share.clamp(0.0, 1.0),
                drive_time: journal.drive_time(),
                journal,
            };
            if (self.hook)(&progress).is_break() {
                return Err(ProbeError::Interrupted);
            }
        }
        let range = LbnRange::new(Lbn::new(first), Sectors::new(count));
        let timed = self.recorder.execute(at.max(self.now), op, range)?;
        self.now = timed.completed;
        let reading = Reading { submitted: timed.submitted, completed: timed.completed };
        if !self.is_hit(&reading) {
            self.last = first + count - 1;
        }
        Ok(reading)
    }

    pub(crate) fn read(&mut self, first: u64, count: u64) -> Result<Reading, ProbeError> {
        self.execute(self.now, Op::Read, first, count)
    }

    /// Whether a read of one sector was too quick for the medium.
    pub(crate) fn is_hit(&self, reading: &Reading) -> bool {
        reading.response_ns() < self.hit_below
    }

    /// Where the platter stands at `at`, in turns; the end of a sector is where it stands at the completion of a read
    /// of that sector alone, less a constant that is the same for all.
    pub(crate) fn turns_at(&self, at: Instant) -> f64 {
        frac(at.as_nanos() as f64 / self.revolution + self.phase)
    }

    /// Where a sector stands: one read of it from the medium.
    pub(crate) fn angle(&mut self, lbn: u64) -> Result<f64, ProbeError> {
        for _ in 0..MOST_HITS {
            let reading = self.read(lbn, 1)?;
            if !self.is_hit(&reading) {
                return Ok(self.turns_at(reading.completed));
            }
            self.leave(lbn)?;
        }
        Err(ProbeError::Unlike {
            stage: self.stage,
            problem: format!("LBN {lbn} does not leave the drive's buffer"),
            mend: "switch the drive's read cache off and probe again".to_owned(),
        })
    }

    /// Reads elsewhere until nothing around `lbn` is in the buffer.
    pub(crate) fn leave(&mut self, lbn: u64) -> Result<(), ProbeError> {
        let capacity = self.capacity();
        // Near enough for short seeks, far enough for read-ahead not to reach.
        let reach = (capacity / 20).max(200_000).min(capacity);
        let low = lbn.saturating_sub(reach / 2).min(capacity - reach);
        let mut done = 0;
        let mut tries = 0;
        while done <= self.segments && tries < 4 * (self.segments + 2) {
            tries += 1;
            let other = low + self.draw.below(reach);
            if other.abs_diff(lbn) < reach / 50 {
                continue;
            }
            let reading = self.read(other, 1)?;
            done += u64::from(!self.is_hit(&reading));
        }
        Ok(())
    }

    /// Angle of `lbn`, and how far it is from `expected`.
    pub(crate) fn deviation(&mut self, lbn: u64, expected: f64) -> Result<f64, ProbeError> {
        Ok(wrap(self.angle(lbn)? - expected))
    }
}
