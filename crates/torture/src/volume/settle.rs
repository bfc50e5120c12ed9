//! The end of a history: all troubles end, and every client gets its blocks.

use super::{House, Part, Whose, refused};
use crate::clients::range;
use crate::failure::{Broken, Check, hold};
use sim::Faults;
use units::Duration;

/// Foreground requests, 20 ms apart, within which some application must make progress.
const REQUESTS_WITHOUT_PROGRESS_MAX: u32 = 20_000;

/// The same outside the drive, where no gap may be long enough.
const OUTSIDE_REQUESTS_WITHOUT_PROGRESS_MAX: u32 = 2_000;

/// The longest rest of work: the largest patience in a history, and half a minute more.
const REST_S_MAX: u32 = 730;

impl House {
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        self.volume.set_faults(Faults::default());
        self.mend(|_| true);
        if self.moving_has_halted() {
            self.power_cut()?;
            self.volume.set_faults(Faults::default());
        }
        if let Some(moved) = &self.moved {
            moved.memory.dies_after(None);
        }
        for which in [0, 1] {
            self.suspend(which, false)?;
        }
        self.suspend_log(false)?;
        self.room(None);
        self.fetch_all()?;
        self.flush()?;
        let (mut left, mut without) = (self.left(), 0);
        while left != [0; 3] {
            self.request()?;
            without += 1;
            let now = self.left();
            if now != left {
                (left, without) = (now, 0);
            }
            if without >= OUTSIDE_REQUESTS_WITHOUT_PROGRESS_MAX && self.place.is_outside() {
                // No gap suffices; then a silence must.
                if !self.in_silence()? {
                    return self.check_medium();
                }
                break;
            }
            hold(without < REQUESTS_WITHOUT_PROGRESS_MAX, Check::Hang, || {
                format!("no client makes progress: {}", self.reported())
            })?;
        }
        // All acknowledged data are flushed, and so on the medium; no more calls arrive.
        self.flush()?;
        self.sync_log();
        let mut waited = 0;
        while self.cached.calls() + self.jobs.len() + self.log_calls() > 0 {
            waited += 1;
            hold(waited < REQUESTS_WITHOUT_PROGRESS_MAX, Check::Hang, || {
                format!("a request or a call has no answer: {}", self.reported())
            })?;
            self.run(Duration::from_millis(20))?;
        }
        self.check_records_over()?;
        self.check_log()?;
        self.check_medium()
    }

    /// Checks that the log is durable: after a power cut it would be as it was written.
    fn check_log(&mut self) -> Result<(), Broken> {
        if self.is_logged(Part::Plain) { self.power_cut() } else { Ok(()) }
    }

    /// Checks that silence alone suffices for all applications; returns false without idle time. It is one silence: each
    /// request that ends one and is late doubles the core's patience, so that many silences have no promised length.
    fn in_silence(&mut self) -> Result<bool, Broken> {
        if !self.place.uses_idle_time() {
            return Ok(false);
        }
        let (mut left, mut silence) = (self.left(), 0);
        while left != [0; 3] {
            silence += 1;
            hold(silence < REST_S_MAX, Check::Hang, || {
                format!("no client makes progress in {silence} s of silence: {}", self.reported())
            })?;
            self.run(Duration::from_secs(1))?;
            let now = self.left();
            if now != left {
                (left, silence) = (now, 0);
            }
        }
        Ok(true)
    }

    /// Returns the rest of the work of backups, the reorganiser and the record face.
    fn left(&self) -> [u64; 3] {
        let moving = match self.moving_is_over() {
            true => 0,
            false => self.progress().map_or(0, |p| 2 * p.waiting + p.staged),
        };
        [self.backups.left(&self.volume), moving, self.records_left()]
    }

    /// Submits a foreground read at a random place on the drive, also in the room for copies, and gives it time.
    fn request(&mut self) -> Result<(), Broken> {
        let capacity = self.drive.layout().capacity().get();
        let start = self.dice.below(capacity);
        let range = range(start, self.dice.range(1, 8).min(capacity - start));
        let id = self.volume.submit_read(range).map_err(refused)?;
        self.requests.insert(id, Whose::None);
        self.run(Duration::from_millis(20))
    }
}
