//! The end of a history on a volume: all troubles end, and every client must get its blocks.

use super::{House, Part, Whose, refused};
use crate::clients::range;
use crate::failure::{Broken, Check, hold};
use sim::Faults;
use units::Duration;

/// The number of foreground requests, 20 ms apart, within which some application must make progress.
const REQUESTS_WITHOUT_PROGRESS_MAX: u32 = 20_000;

/// The number of foreground requests, 20 ms apart, after which idle time must suffice for a core outside the drive, where
/// gaps may be too short for blocks.
const OUTSIDE_REQUESTS_WITHOUT_PROGRESS_MAX: u32 = 2_000;

/// The longest time in seconds without foreground requests and without progress: the longest rest of idle work in a history,
/// and half a minute more.
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
                // If no gap suffices, idle time must suffice.
                if !self.in_silence()? {
                    return self.check_medium();
                }
                break;
            }
            hold(without < REQUESTS_WITHOUT_PROGRESS_MAX, Check::Hang, || {
                format!("no client makes progress: {}", self.reported())
            })?;
        }
        // After this flush all acknowledged data must be on the medium, because no more calls arrive.
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

    /// Checks that all writes to the log are durable, by a power cut.
    fn check_log(&mut self) -> Result<(), Broken> {
        if self.is_logged(Part::Plain) { self.power_cut() } else { Ok(()) }
    }

    /// Checks that all applications finish in idle time alone. Returns false if the core does not use idle time. No
    /// foreground request arrives meanwhile, because a delayed request doubles the time for which idle work may rest.
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

    /// Returns the remaining work of backups, of the reorganiser, and of the client with the buffer of records.
    fn left(&self) -> [u64; 3] {
        let moving = match self.moving_is_over() {
            true => 0,
            false => self.progress().map_or(0, |p| 2 * p.waiting + p.staged),
        };
        [self.backups.left(&self.volume), moving, self.records_left()]
    }

    /// Submits a foreground read at a random place on the drive, possibly among the copies of snapshots, and advances 20 ms.
    fn request(&mut self) -> Result<(), Broken> {
        let capacity = self.drive.layout().capacity().get();
        let start = self.dice.below(capacity);
        let range = range(start, self.dice.range(1, 8).min(capacity - start));
        let id = self.volume.submit_read(range).map_err(refused)?;
        self.requests.insert(id, Whose::None);
        self.run(Duration::from_millis(20))
    }
}
