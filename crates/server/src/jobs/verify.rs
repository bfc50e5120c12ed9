//! The comparison of the disks of an array, its members: `apps::verify` as a task of the first member.
//!
//! The thread for the task's target reads the members ([`crate::files::members`]), in short time slices. After each
//! slice the thread reports its findings, and the next slice is requested.

use super::job::{Context, DurableProgress, Job, Stage};
use crate::task::file_request::{FileOp, FileResult, OpenMembers};
use crate::task::spec::VerifySpec as Asked;
use crate::task::table::{Differences, Figures, LISTED_BAD_SECTORS_MAX, Unreadable};
use scheduler::Record;
use std::collections::BTreeSet;

/// A comparison at work.
pub(crate) struct VerifyTask {
    asked: Asked,
    seed: u64,
    figures: apps::verify::ComparisonFigures,
    saved: Vec<u8>,
    /// Whether the progress has grown since it was last saved.
    unsaved: bool,
    open: bool,
    paused: bool,
    /// Whether a time slice was requested and has not ended.
    at_work: bool,
    waiting: Option<String>,
    done: bool,
    failed: Option<String>,
}

impl VerifyTask {
    /// Begins the comparison, or continues from the progress in `saved`.
    pub fn begin(cx: &mut Context<'_>, asked: Asked, seed: u64, saved: &[u8]) -> Self {
        let mut verify = Self {
            asked,
            seed,
            figures: apps::verify::ComparisonFigures::default(),
            saved: saved.to_vec(),
            unsaved: false,
            open: false,
            paused: false,
            at_work: false,
            waiting: None,
            done: false,
            failed: None,
        };
        verify.open(cx);
        verify
    }

    fn open(&mut self, cx: &mut Context<'_>) {
        self.at_work = true;
        let Asked { members, plan } = self.asked.clone();
        let (saved, seed) = (self.saved.clone(), self.seed);
        cx.target(FileOp::OpenMembers(Box::new(OpenMembers { members, plan, saved, seed })));
    }

    /// Requests the next time slice.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        if self.at_work || self.paused || self.done || self.failed.is_some() {
            return;
        }
        if self.open {
            self.at_work = true;
            cx.target(FileOp::ReadMembers { priority: cx.priority });
        } else if self.waiting.is_none() {
            self.open(cx);
        }
    }

    fn name(&self, member: usize) -> String {
        self.asked.members.get(member).cloned().unwrap_or_default()
    }
}

impl Job for VerifyTask {
    /// Never called: a comparison has no session on this disk, because all members are read alike.
    fn done(&mut self, _: &mut Context<'_>, _: &Record, _: &[u8]) {}

    fn file_done(&mut self, cx: &mut Context<'_>, _: bool, result: FileResult) {
        match result {
            FileResult::Members(report) => {
                (self.open, self.at_work, self.waiting) = (true, false, None);
                self.figures = report.figures;
                if let Some(saved) = report.saved {
                    (self.saved, self.unsaved) = (saved, true);
                }
                self.done = report.done;
                if report.hopeless {
                    let text = "more than 65,536 blocks differ: these disks are not the members of one such array; check their order, the kind, the chunk and the offset";
                    self.failed = Some(text.into());
                }
            }
            FileResult::Starting => {
                // The next tick asks again.
                self.at_work = false;
                return;
            }
            FileResult::Trouble(why) => (self.open, self.at_work, self.waiting) = (false, false, Some(why)),
            FileResult::Refused(why) => self.failed = Some(why),
            _ => return,
        }
        self.go_on(cx);
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        self.paused = paused;
        if paused {
            cx.target(FileOp::RestMembers);
        }
        self.go_on(cx);
    }

    fn retry(&mut self, cx: &mut Context<'_>) {
        self.waiting = None;
        self.go_on(cx);
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.go_on(cx);
    }

    /// Does nothing: the thread that reads the members closes them when the task manager ends the task.
    fn close(&mut self, _: &mut Context<'_>) {}

    fn stage(&self) -> Stage {
        match (&self.failed, &self.waiting) {
            (Some(why), _) => Stage::Failed(why.clone()),
            (None, _) if self.done => Stage::Done,
            (None, Some(why)) => Stage::Waiting(why.clone()),
            (None, None) if !self.open => Stage::Opening,
            (None, None) => Stage::Running,
        }
    }

    fn save(&mut self) -> Option<DurableProgress> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        let figures = &self.figures;
        let unreadable =
            figures.bad.iter().map(|bad| Unreadable { disk: self.name(bad.member), lbn: bad.lbn });
        let differences = Differences {
            lbns: figures.differing.clone(),
            more: figures.differing_more,
            unsettled: figures.unsettled,
            unreadable: unreadable.collect(),
        };
        let bad: BTreeSet<u64> = figures.bad.iter().map(|bad| bad.lbn).collect();
        let figures = Figures {
            done: figures.done,
            blocks: figures.blocks,
            bytes: figures
                .done
                .saturating_mul(self.asked.plan.block.bytes(self.asked.plan.sector_bytes).get()),
            bad: bad.into_iter().take(LISTED_BAD_SECTORS_MAX).collect(),
            bad_more: figures.bad_more,
            differences: Some(differences),
            ..Figures::default()
        };
        Some(DurableProgress { figures, saved: self.saved.clone() })
    }
}
