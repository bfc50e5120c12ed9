//! The state machine of the scrubber.

use super::plan::{Finding, ScrubPlan};
use super::progress::{self, SavedScrub, ScrubProgressError};
use super::{Checksums, Judgement};
use crate::feed::{Feed, Sieve, Sifted};
use crate::sessions::{Application, Record, Sessions};
use scheduler::{BlockSet, Priority, SessionError};
use std::collections::BTreeMap;
use units::{Duration, Instant, LbnRange, Sectors, SessionId};

/// The most findings that are listed: a drive that fails as a whole must not fill the memory. Further findings are
/// only counted.
const FINDINGS_MAX: usize = 1 << 16;
/// The most times that a block is read again because it is being overwritten; a busy block must not keep a scrub from
/// its end.
const REREADS_MAX: u32 = 16;
/// The most blocks that wait to be read again; further ones become findings.
const WAITING_BLOCKS_MAX: usize = 1 << 16;

/// The progress of a scrub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScrubFigures {
    /// Blocks read and judged, before a restart included.
    pub done: u64,
    /// All blocks.
    pub blocks: u64,
    /// The time left at the pace since this start; `None` before the first block. The last blocks are the slowest, so
    /// early estimates are too low.
    pub eta: Option<Duration>,
}

/// Reads every block of a range once.
///
/// The host saves [`progress`](Self::progress) at any time; after a restart [`Scrubber::resume`] reads the blocks
/// that were not judged before the last save, so none is skipped.
///
/// ```
/// use freeblock_apps::scrub::{ScrubPlan, Scrubber};
/// use freeblock_apps::sessions::Sessions;
/// use scheduler::{Priority, SessionError};
/// use units::{Instant, Lbn, LbnRange, Sectors};
/// fn scrub(sessions: &mut dyn Sessions, now: Instant) -> Result<Scrubber<()>, SessionError> {
///     let range = LbnRange::new(Lbn::ZERO, Sectors::new(1 << 20));
///     let plan = ScrubPlan { range, block: Sectors::new(8), sector_bytes: 512 };
///     Scrubber::start(plan, (), sessions, Priority::default(), now)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Scrubber<C> {
    plan: ScrubPlan,
    checksums: C,
    session: SessionId,
    feed: Feed,
    sieve: Sieve,
    /// Blocks that are not judged yet.
    left: BlockSet,
    tries: BTreeMap<u64, u32>,
    findings: Vec<Finding>,
    uncounted: u64,
    refused: Option<SessionError>,
    began: Instant,
    left_then: u64,
}

impl<C: Checksums> Scrubber<C> {
    /// Begins a scrub.
    ///
    /// # Errors
    /// The scheduler refused the session or its reads.
    pub fn start(
        plan: ScrubPlan,
        checksums: C,
        sessions: &mut dyn Sessions,
        priority: Priority,
        now: Instant,
    ) -> Result<Self, SessionError> {
        plan.check()?;
        let all = SavedScrub { left: BlockSet::full(plan.blocks()), findings: Vec::new(), uncounted: 0 };
        Self::with(plan, checksums, sessions, priority, now, all)
    }

    /// Decodes bytes of [`progress`](Self::progress), and resumes the scrub.
    ///
    /// # Errors
    /// The outer error means that the progress is refused, and a new scrub can be started; the inner one that the
    /// scheduler refused the session or its reads.
    pub fn resume(
        plan: ScrubPlan,
        saved: &[u8],
        checksums: C,
        sessions: &mut dyn Sessions,
        priority: Priority,
        now: Instant,
    ) -> Result<Result<Self, SessionError>, ScrubProgressError> {
        if let Err(error) = plan.check() {
            return Ok(Err(error));
        }
        let saved = progress::decode(&plan, saved)?;
        Ok(Self::with(plan, checksums, sessions, priority, now, saved))
    }

    fn with(
        plan: ScrubPlan,
        checksums: C,
        sessions: &mut dyn Sessions,
        priority: Priority,
        now: Instant,
        SavedScrub { left, findings, uncounted }: SavedScrub,
    ) -> Result<Self, SessionError> {
        let session = sessions.open(priority)?;
        // A scrub must read the medium itself, never the bytes of pending writes.
        if let Err(error) = sessions.serve_reads_by_writes(session, false) {
            let _ = sessions.close(session);
            return Err(error);
        }
        let feed = Feed::new(session, plan.block, left.clone());
        let (sieve, tries, left_then) = (Sieve::new(plan.blocks()), BTreeMap::new(), left.len());
        let refused = None;
        let mut scrubber = Self {
            plan,
            checksums,
            session,
            feed,
            sieve,
            left,
            tries,
            findings,
            uncounted,
            refused,
            began: now,
            left_then,
        };
        scrubber.proceed(sessions);
        match scrubber.refused {
            None => Ok(scrubber),
            Some(error) => {
                let _ = sessions.close(session);
                Err(error)
            }
        }
    }

    /// Returns the progress as bytes, with the findings and a checksum; to be saved whole.
    pub fn progress(&self) -> Vec<u8> {
        progress::encode(&self.plan, &self.left, &self.findings, self.uncounted)
    }

    /// Returns the findings in order of time, those before a restart included.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the number of findings beyond those that are kept.
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// Returns the session that reads the blocks.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns whether every block is judged.
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the error with which the scheduler refused reads, if any: call [`retry`](Self::retry) when the
    /// scheduler has room.
    pub fn refused(&self) -> Option<SessionError> {
        self.refused
    }

    /// Tries again to register the refused reads.
    pub fn retry(&mut self, sessions: &mut dyn Sessions) {
        if !self.is_done() {
            self.proceed(sessions);
        }
    }

    /// Returns the checksum store.
    pub fn checksums_mut(&mut self) -> &mut C {
        &mut self.checksums
    }

    /// Settles a block that was to be judged [later](Judgement::Later). Before the call the block counts as unread.
    pub fn settle(&mut self, sessions: &mut dyn Sessions, block: u64, reported: Judgement) {
        if self.left.contains(block) {
            self.judged(block, reported);
            self.proceed(sessions);
        }
    }

    /// Returns the progress.
    pub fn figures(&self, now: Instant) -> ScrubFigures {
        let (blocks, left) = (self.plan.blocks(), self.left.len());
        let read = self.left_then.saturating_sub(left);
        let spent = u128::from(now.saturating_since(self.began).as_nanos());
        let rest = (read > 0).then(|| spent * u128::from(left) / u128::from(read.max(1)));
        let eta = rest.map(|ns| Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)));
        ScrubFigures { done: blocks - left, blocks, eta }
    }

    /// Returns the number of judged sectors in the blocks that begin in a part of the disk.
    pub fn done_within(&self, part: LbnRange) -> Sectors {
        let ScrubPlan { range, block, .. } = self.plan;
        let size = block.get().max(1);
        // The first block that begins at this LBN or after it.
        let at = |lbn: u64| lbn.saturating_sub(range.start().get()).div_ceil(size).min(self.plan.blocks());
        let first = at(part.start().get());
        let end = at(part.start().get().saturating_add(part.len().get()));
        let done = end.saturating_sub(first).saturating_sub(self.left.count(first, end.max(first)));
        // The last block may be shorter.
        Sectors::new((done * size).min(range.len().get()))
    }

    fn proceed(&mut self, sessions: &mut dyn Sessions) {
        if self.is_done() {
            let _ = sessions.close(self.session);
            return;
        }
        let plan = self.plan;
        let filled = self.feed.fill(sessions, self.checksums.now(), |block| {
            let place = plan.place(block);
            let rest = plan.range.end().since(place.start());
            Some((LbnRange::new(place.start(), rest), plan.blocks() - block))
        });
        let place = |block| Some(plan.place(block));
        let sifting = self.sieve.fill(sessions, self.session, plan.sector_bytes, place);
        self.refused = match filled.and(sifting) {
            // The scheduler has room again when tasks of any session end. The next record of this session tries
            // again, so one of its tasks must still be registered.
            Err(SessionError::TooManyTasks { .. }) if self.feed.out() + self.sieve.out() > 0 => None,
            other => other.err(),
        };
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.uncounted += 1;
        }
    }

    fn judged(&mut self, block: u64, reported: Judgement) {
        match reported {
            Judgement::Later => return,
            Judgement::Again if self.again(block) => return,
            Judgement::Again => self.find(Finding::Unsettled(block)),
            Judgement::Wrong => self.find(Finding::Mismatch(block)),
            Judgement::Fine => {}
        }
        self.tries.remove(&block);
        self.left.remove(block);
    }

    /// Registers a block to be read once more; returns false if that happened too often.
    fn again(&mut self, block: u64) -> bool {
        let room = self.tries.len() < WAITING_BLOCKS_MAX || self.tries.contains_key(&block);
        let tries = if room { self.tries.entry(block).or_default() } else { return false };
        *tries += 1;
        let again = *tries < REREADS_MAX;
        if again {
            self.feed.again(block);
        }
        again
    }

    fn sifted(&mut self, sifted: &Sifted) {
        if sifted.bad.is_empty() {
            // No sector failed this time; the block must be read whole again, to compare its content.
            if self.again(sifted.block) {
                return;
            }
            self.find(Finding::Unsettled(sifted.block));
        }
        for lbn in &sifted.bad {
            self.find(Finding::Medium(*lbn));
        }
        self.tries.remove(&sifted.block);
        self.left.remove(sifted.block);
    }
}

impl<C: Checksums> Application for Scrubber<C> {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        if done.session != self.session || self.is_done() {
            return;
        }
        if let Some((block, mark)) = self.feed.arrived(done) {
            let whole = done.range.len().get() as usize * self.plan.sector_bytes;
            if done.bad.is_some() || bytes.len() != whole {
                self.sieve.add(block);
            } else {
                let reported = self.checksums.judge(block, mark, bytes);
                self.judged(block, reported);
            }
        } else if let Ok(Some(sifted)) = self.sieve.arrived(done, bytes) {
            self.sifted(&sifted);
        }
        self.proceed(sessions);
    }
}
