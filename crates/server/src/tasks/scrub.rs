//! The scrub: `apps::scrub` as a task.

use super::job::{Context, Job, Stage};
use crate::desk::table::{Figures, MOST_BAD};
use apps::scrub::{Finding, Plan, Scrubber};
use scheduler::{Application, Record};
use units::{LbnRange, Sectors};

/// A scrub at work.
pub(crate) struct Scrub {
    scrubber: Option<Scrubber<()>>,
    failed: Option<String>,
    saved: u64,
    bytes_in_block: u64,
}

impl Scrub {
    /// Begins it, or goes on from what was saved.
    pub fn begin(cx: &mut Context<'_>, range: LbnRange, block: Sectors, saved: &[u8]) -> Self {
        let sector = cx.disk.sector_bytes.get();
        let plan = Plan { range, block, sector_bytes: usize::try_from(sector).unwrap_or(0) };
        let begun = match saved.is_empty() {
            true => Scrubber::start(plan, (), cx.sessions, cx.priority, cx.now),
            false => match Scrubber::resume(plan, saved, (), cx.sessions, cx.priority, cx.now) {
                Ok(begun) => begun,
                Err(error) => return Self::failed(error.to_string()),
            },
        };
        match begun {
            Ok(scrubber) => {
                let bytes_in_block = block.get().saturating_mul(sector);
                Self { scrubber: Some(scrubber), failed: None, saved: u64::MAX, bytes_in_block }
            }
            Err(error) => Self::failed(error.to_string()),
        }
    }

    fn failed(why: String) -> Self {
        Self { scrubber: None, failed: Some(why), saved: 0, bytes_in_block: 0 }
    }
}

impl Job for Scrub {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        if let Some(scrubber) = &mut self.scrubber {
            scrubber.done(cx.sessions, record, bytes, cx.now);
        }
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        if let Some(scrubber) = &self.scrubber {
            // Of a scrub that is done the session is closed; there is nothing to suspend.
            let _ = match paused {
                true => cx.sessions.suspend(scrubber.session()),
                false => cx.sessions.resume(scrubber.session()),
            };
        }
    }

    fn retry(&mut self, cx: &mut Context<'_>) {
        if let Some(scrubber) = &mut self.scrubber {
            scrubber.retry(cx.sessions);
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        if self.scrubber.as_ref().is_some_and(|s| s.refused().is_some()) {
            self.retry(cx);
        }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(scrubber) = self.scrubber.take() {
            let _ = cx.sessions.close(scrubber.session());
        }
    }

    fn stage(&self) -> Stage {
        match (&self.failed, &self.scrubber) {
            (Some(why), _) => Stage::Failed(why.clone()),
            (None, Some(scrubber)) if scrubber.is_done() => Stage::Done,
            (None, Some(scrubber)) => match scrubber.refused() {
                Some(error) => Stage::Waiting(error.to_string()),
                None => Stage::Running,
            },
            (None, None) => Stage::Running,
        }
    }

    fn save(&mut self) -> Option<(Figures, Vec<u8>)> {
        let scrubber = self.scrubber.as_ref()?;
        // No time is needed for what is asked here.
        let figures = scrubber.figures(units::Instant::ZERO);
        if figures.done == self.saved {
            return None;
        }
        self.saved = figures.done;
        let bad = scrubber.findings().iter().filter_map(|f| match f {
            Finding::Medium(lbn) => Some(lbn.get()),
            Finding::Mismatch(_) | Finding::Unsettled(_) => None,
        });
        let mut bad: Vec<u64> = bad.collect();
        bad.sort_unstable();
        let more = bad.len().saturating_sub(MOST_BAD) as u64 + scrubber.uncounted();
        bad.truncate(MOST_BAD);
        let bytes = figures.done.saturating_mul(self.bytes_in_block);
        let figures = Figures { done: figures.done, blocks: figures.blocks, bytes, bad, bad_more: more };
        Some((figures, scrubber.progress()))
    }
}
