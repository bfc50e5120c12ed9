//! The state machine.

use super::progress::{self, ProgressError};
use super::{Checksums, Judgement};
use crate::feed::{Feed, Sieve, Sifted};
use crate::sessions::{Application, Record, Sessions};
use scheduler::{BlockSet, Priority, SessionError};
use std::collections::BTreeMap;
use units::{Duration, Instant, Lbn, LbnRange, Sectors, SessionId};

/// Findings that are kept; a drive that fails as a whole must not fill the memory. Further ones are counted.
const MOST_FINDINGS: usize = 1 << 16;
/// How often a block is read again because it is being overwritten.
const MOST_TRIES: u32 = 16;
/// Blocks that are to be read again at a time; one more is given up.
const MOST_AGAIN: usize = 1 << 16;

/// What is scrubbed. Block `i` begins `i * block` sectors after the range's first LBN; the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which LBNs.
    pub range: LbnRange,
    /// Sectors in a block, at least 1: the unit of the checksum store.
    pub block: Sectors,
    /// Bytes in a sector.
    pub sector_bytes: usize,
}

impl Plan {
    /// How many blocks.
    pub fn blocks(&self) -> u64 {
        self.range.len().get().div_ceil(self.block.get().max(1))
    }

    fn check(&self) -> Result<(), SessionError> {
        /// What a set of blocks holds at most.
        const MOST: Sectors = Sectors::new((1 << 50) - 1);
        if self.block.get() == 0 {
            return Err(SessionError::BlockSize(self.block));
        }
        if self.range.checked_end().is_none_or(|end| end.get() > MOST.get()) {
            return Err(SessionError::PastEnd { range: self.range, capacity: MOST });
        }
        Ok(())
    }

    /// Where a block lies.
    pub fn place(&self, block: u64) -> LbnRange {
        let skip = block * self.block.get();
        let len = self.block.get().min(self.range.len().get().saturating_sub(skip));
        LbnRange::new(Lbn::new(self.range.start().get() + skip), Sectors::new(len))
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// The medium cannot read this sector.
    Medium(Lbn),
    /// The content of this block is not what was written.
    Mismatch(u64),
    /// This block was overwritten, or came and went, whenever it was read; nothing is known of it.
    Unsettled(u64),
}

/// How far a scrub is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Blocks read and judged, before a restart included.
    pub done: u64,
    /// All blocks.
    pub blocks: u64,
    /// At the pace since this start, how long the rest takes; `None` before the first block. The last blocks are the
    /// slowest, so early on this is too little.
    pub eta: Option<Duration>,
}

/// Reads every block of a range once.
///
/// The host saves [`progress`](Self::progress) when it likes; after a restart [`Scrubber::resume`] reads what is not in
/// it: no block is skipped, and only those since the last save are read again.
///
/// ```
/// use freeblock_apps::scrub::{Plan, Scrubber};
/// use freeblock_apps::sessions::Sessions;
/// use scheduler::{Priority, SessionError};
/// use units::{Instant, Lbn, LbnRange, Sectors};
/// fn scrub(sessions: &mut dyn Sessions, now: Instant) -> Result<Scrubber<()>, SessionError> {
///     let range = LbnRange::new(Lbn::ZERO, Sectors::new(1 << 20));
///     let plan = Plan { range, block: Sectors::new(8), sector_bytes: 512 };
///     Scrubber::start(plan, (), sessions, Priority::default(), now)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Scrubber<C> {
    plan: Plan,
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
    /// The session refuses.
    pub fn start(
        plan: Plan,
        checksums: C,
        sessions: &mut dyn Sessions,
        priority: Priority,
        now: Instant,
    ) -> Result<Self, SessionError> {
        plan.check()?;
        let all = (BlockSet::full(plan.blocks()), Vec::new(), 0);
        Self::with(plan, checksums, sessions, priority, now, all)
    }

    /// Decodes what [`progress`](Self::progress) gave, and goes on with it.
    ///
    /// # Errors
    /// The outer one: the progress is refused by name, and a scrub can be started afresh. The inner one: the session
    /// refuses.
    pub fn resume(
        plan: Plan,
        saved: &[u8],
        checksums: C,
        sessions: &mut dyn Sessions,
        priority: Priority,
        now: Instant,
    ) -> Result<Result<Self, SessionError>, ProgressError> {
        if let Err(error) = plan.check() {
            return Ok(Err(error));
        }
        let saved = progress::decode(&plan, saved)?;
        Ok(Self::with(plan, checksums, sessions, priority, now, saved))
    }

    fn with(
        plan: Plan,
        checksums: C,
        sessions: &mut dyn Sessions,
        priority: Priority,
        now: Instant,
        (left, findings, uncounted): (BlockSet, Vec<Finding>, u64),
    ) -> Result<Self, SessionError> {
        let session = sessions.open(priority)?;
        // It is the medium that is asked.
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

    /// The progress as bytes, findings included, checksummed: to be saved whole.
    pub fn progress(&self) -> Vec<u8> {
        progress::encode(&self.plan, &self.left, &self.findings, self.uncounted)
    }

    /// What was found, before a restart included, in the order in which it was.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many more findings there were than are kept.
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// Its session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whether every block is judged.
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Why it stands still, if the session refused its reads: [`retry`](Self::retry) when there is room.
    pub fn refused(&self) -> Option<SessionError> {
        self.refused
    }

    /// Tries again to register what was refused.
    pub fn retry(&mut self, sessions: &mut dyn Sessions) {
        if !self.is_done() {
            self.proceed(sessions);
        }
    }

    /// The checksums.
    pub fn checksums_mut(&mut self) -> &mut C {
        &mut self.checksums
    }

    /// What became of a block that was to be judged [later](Judgement::Later). Until then it counts as not read.
    pub fn settle(&mut self, sessions: &mut dyn Sessions, block: u64, told: Judgement) {
        if self.left.contains(block) {
            self.judged(block, told);
            self.proceed(sessions);
        }
    }

    /// How far it is.
    pub fn figures(&self, now: Instant) -> Figures {
        let (blocks, left) = (self.plan.blocks(), self.left.len());
        let read = self.left_then.saturating_sub(left);
        let spent = u128::from(now.saturating_since(self.began).as_nanos());
        let rest = (read > 0).then(|| spent * u128::from(left) / u128::from(read.max(1)));
        let eta = rest.map(|ns| Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)));
        Figures { done: blocks - left, blocks, eta }
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
            // Others' tasks end too: there is room later, as long as one of ours is out to remind us.
            Err(SessionError::TooManyTasks { .. }) if self.feed.out() + self.sieve.out() > 0 => None,
            other => other.err(),
        };
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        } else {
            self.uncounted += 1;
        }
    }

    fn judged(&mut self, block: u64, told: Judgement) {
        match told {
            Judgement::Later => return,
            Judgement::Again if self.again(block) => return,
            Judgement::Again => self.find(Finding::Unsettled(block)),
            Judgement::Wrong => self.find(Finding::Mismatch(block)),
            Judgement::Fine => {}
        }
        self.tries.remove(&block);
        self.left.remove(block);
    }

    /// Has a block read once more, unless that was done too often.
    fn again(&mut self, block: u64) -> bool {
        let room = self.tries.len() < MOST_AGAIN || self.tries.contains_key(&block);
        let tries = if room { self.tries.entry(block).or_default() } else { return false };
        *tries += 1;
        let again = *tries < MOST_TRIES;
        if again {
            self.feed.again(block);
        }
        again
    }

    fn sifted(&mut self, sifted: &Sifted) {
        if sifted.bad.is_empty() {
            // The first error has gone; whether the content is right is for another read to say.
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
                let told = self.checksums.judge(block, mark, bytes);
                self.judged(block, told);
            }
        } else if let Ok(Some(sifted)) = self.sieve.arrived(done, bytes) {
            self.sifted(&sifted);
        }
        self.proceed(sessions);
    }
}
