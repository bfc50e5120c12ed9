//! The scrub: `apps::scrub` as a task.

use super::content::Contents;
use super::job::{Context, DurableProgress, Job, Stage};
use crate::task::file_request::FileResult;
use crate::task::table::{Content, Figures, LISTED_BAD_SECTORS_MAX};
use apps::scrub::{Checksums, Finding, Judgement, Known, ScrubPlan, Scrubber};
use scheduler::{Application, Record};
use units::{LbnRange, Sectors};

/// The judge of blocks that were read. Without checksums every such block is fine; with checksums the store's answer
/// decides later.
#[derive(Debug, Default)]
struct ReadJudge {
    compares: bool,
    /// The last block that was read, and its sum.
    read: Option<(u64, u32)>,
}

impl Checksums for ReadJudge {
    fn now(&self) -> u64 {
        0
    }

    fn known(&mut self, _: u64) -> Known {
        Known::default()
    }

    fn judge(&mut self, block: u64, _: u64, bytes: &[u8]) -> Judgement {
        if !self.compares {
            return Judgement::Fine;
        }
        self.read = Some((block, crc32fast::hash(bytes)));
        Judgement::Later
    }
}

/// A scrub at work.
pub(crate) struct Scrub {
    scrubber: Option<Scrubber<ReadJudge>>,
    contents: Option<Contents>,
    failed: Option<String>,
    saved: u64,
    bytes_in_block: u64,
}

impl Scrub {
    /// Begins the scrub, or continues from the progress in `saved`. `content` has the results so far of a scrub with
    /// checksums.
    pub fn begin(
        cx: &mut Context<'_>,
        range: LbnRange,
        block: Sectors,
        content: Option<Content>,
        saved: &[u8],
    ) -> Self {
        let sector = cx.disk.sector_bytes.get();
        let plan = ScrubPlan { range, block, sector_bytes: usize::try_from(sector).unwrap_or(0) };
        let slip = ReadJudge { compares: content.is_some(), read: None };
        let begun = match saved.is_empty() {
            true => Scrubber::start(plan, slip, cx.sessions, cx.priority, cx.now),
            false => match Scrubber::resume(plan, saved, slip, cx.sessions, cx.priority, cx.now) {
                Ok(begun) => begun,
                Err(error) => return Self::failed(error.to_string()),
            },
        };
        match begun {
            Ok(scrubber) => {
                let bytes_in_block = block.get().saturating_mul(sector);
                let first = range.start().get() / block.get().max(1);
                let contents = content.map(|content| Contents::new(first, plan.blocks(), block, content));
                Self { scrubber: Some(scrubber), contents, failed: None, saved: u64::MAX, bytes_in_block }
            }
            Err(error) => Self::failed(error.to_string()),
        }
    }

    fn failed(why: String) -> Self {
        Self { scrubber: None, contents: None, failed: Some(why), saved: 0, bytes_in_block: 0 }
    }

    /// Applies the judgements on compared or recorded blocks.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let (Some(scrubber), Some(contents)) = (&mut self.scrubber, &mut self.contents) else { return };
        for (block, result) in contents.settled() {
            scrubber.settle(cx.sessions, block, result);
        }
        let figures = scrubber.figures(cx.now);
        if figures.blocks - figures.done == contents.waiting() {
            contents.hurry();
        }
    }
}

impl Job for Scrub {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]) {
        let Some(scrubber) = &mut self.scrubber else { return };
        scrubber.done(cx.sessions, record, bytes, cx.now);
        if let (Some(contents), Some((block, sum))) =
            (&mut self.contents, scrubber.checksums_mut().read.take())
        {
            contents.read(cx, block, sum);
        }
        self.settle(cx);
    }

    fn file_done(&mut self, cx: &mut Context<'_>, _: bool, result: FileResult) {
        let Some(contents) = &mut self.contents else { return };
        match result {
            FileResult::SumsReady => contents.set_ready(cx),
            FileResult::Compared { compared, damaged } => contents.compared(cx, compared, damaged),
            FileResult::Recorded => contents.recorded(cx),
            FileResult::Refused(why) => drop(self.failed.get_or_insert(why)),
            _ => {}
        }
        self.settle(cx);
    }

    fn done_within(&self, part: LbnRange) -> Option<Sectors> {
        Some(self.scrubber.as_ref()?.done_within(part))
    }

    fn wants_flush(&mut self) -> bool {
        self.contents.as_mut().is_some_and(Contents::wants_flush)
    }

    fn flushed(&mut self, cx: &mut Context<'_>, result: Result<(), String>) {
        if let Some(contents) = &mut self.contents {
            contents.flushed(cx, result);
        }
        self.settle(cx);
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        if let Some(scrubber) = &self.scrubber {
            // A finished scrub has closed its session; there is nothing to suspend.
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
        if let Some(contents) = &mut self.contents {
            contents.tick(cx);
        }
        self.settle(cx);
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(scrubber) = self.scrubber.take() {
            let _ = cx.sessions.close(scrubber.session());
        }
    }

    fn stage(&self) -> Stage {
        let ready = self.contents.as_ref().is_none_or(Contents::is_ready);
        match (&self.failed, &self.scrubber) {
            (Some(why), _) => Stage::Failed(why.clone()),
            (None, Some(scrubber)) if scrubber.is_done() => Stage::Done,
            (None, Some(_)) if !ready => Stage::Opening,
            (None, Some(scrubber)) => match scrubber.refused() {
                Some(error) => Stage::Waiting(error.to_string()),
                None => Stage::Running,
            },
            (None, None) => Stage::Running,
        }
    }

    fn save(&mut self) -> Option<DurableProgress> {
        let scrubber = self.scrubber.as_ref()?;
        // These figures do not depend on the time.
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
        let more = bad.len().saturating_sub(LISTED_BAD_SECTORS_MAX) as u64 + scrubber.uncounted();
        bad.truncate(LISTED_BAD_SECTORS_MAX);
        let bytes = figures.done.saturating_mul(self.bytes_in_block);
        let content = self.contents.as_ref().map(|contents| contents.content().clone());
        let figures = Figures {
            done: figures.done,
            blocks: figures.blocks,
            bytes,
            bad,
            bad_more: more,
            content,
            ..Figures::default()
        };
        Some(DurableProgress { figures, saved: scrubber.progress() })
    }
}
