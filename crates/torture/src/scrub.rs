//! A scrubber among the clients of any host: the application itself, with its sessions observed by the model and its
//! findings compared to the true defects.

use crate::calls::Calls;
use crate::counts::Counts;
use crate::failure::{Broken, Check, hold};
use crate::medium::{Health, VersionedMedium, lbns};
use apps::scrub::{Checksums, Finding, Known, ScrubPlan, Scrubber};
use scheduler::{Application, Priority, Record};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{Lbn, Sectors, SessionId};

/// The number of its session, which no step has.
const SCRUBBER_SESSION: u32 = u32::MAX - 7;

/// The content of a sector is its version.
const SECTOR_BYTES: usize = 8;

/// The last write to each sector.
pub(crate) type Ideal = Rc<RefCell<Vec<u64>>>;

/// Checksums of what was written.
struct Sums {
    plan: ScrubPlan,
    ideal: Ideal,
}

impl Checksums for Sums {
    fn now(&self) -> u64 {
        0
    }

    fn known(&mut self, block: u64) -> Known {
        let ideal = self.ideal.borrow();
        let bytes: Vec<u8> =
            lbns(self.plan.place(block)).flat_map(|lbn| ideal[lbn.get() as usize].to_le_bytes()).collect();
        // A record is delivered before any later write.
        Known { sum: Some(crc32fast::hash(&bytes)), since: 0, changing: false }
    }
}

/// A scrub under way.
pub(crate) struct Scrub {
    app: Scrubber<Sums>,
    plan: ScrubPlan,
    priority: Priority,
    /// Its saved progress for a restart, and the blocks in it.
    saved: Vec<u8>,
    saved_blocks: BTreeSet<u64>,
    /// Blocks with a record.
    came: BTreeSet<u64>,
    /// Sectors that have been bad or rotten since before it began.
    bad: BTreeSet<Lbn>,
    rotten: BTreeSet<Lbn>,
    /// Sectors that were bad or rotten at any time since.
    ever_bad: BTreeSet<Lbn>,
    ever_rotten: BTreeSet<Lbn>,
}

/// The scrubber of a host, and the writes to which its findings are compared.
pub(crate) struct Scrubs {
    /// The last write to each sector.
    ideal: Ideal,
    under_way: Option<Scrub>,
}

impl Scrubs {
    /// Returns an empty state for a drive of this capacity.
    pub fn new(capacity: u64) -> Self {
        Self { ideal: Rc::new(RefCell::new(vec![0; capacity as usize])), under_way: None }
    }

    /// Records a write that has landed.
    pub fn wrote(&mut self, lbn: Lbn, version: u64) {
        self.ideal.borrow_mut()[lbn.get() as usize] = version;
    }
}

/// A host that has a scrubber among its clients.
pub(crate) trait Scrubbing: Calls {
    fn medium(&self) -> &VersionedMedium;
    fn scrubs(&self) -> &Scrubs;
    fn scrubs_mut(&mut self) -> &mut Scrubs;
    fn counts_mut(&mut self) -> &mut Counts;

    /// Starts a scrub of the whole drive, unless one is under way.
    fn start_scrub(&mut self, priority: u8, block: u64) -> Result<(), Broken> {
        let Some(priority) = Priority::new(priority).filter(|_| self.scrubs().under_way.is_none()) else {
            return Ok(());
        };
        let range = self.clip(0, u64::MAX);
        let plan = ScrubPlan { range, block: Sectors::new(block), sector_bytes: SECTOR_BYTES };
        let sums = Sums { plan, ideal: Rc::clone(&self.scrubs().ideal) };
        let now = self.clock().0;
        let started = self.door(SCRUBBER_SESSION, |door| Scrubber::start(plan, sums, door, priority, now))?;
        let Ok(app) = started else { return Ok(()) };
        self.check_asks_medium(app.session())?;
        let bad: BTreeSet<Lbn> =
            lbns(range).filter(|lbn| self.medium().health(*lbn) != Health::Good).collect();
        let rotten = self.rotten();
        self.scrubs_mut().under_way = Some(Scrub {
            saved: app.progress(),
            app,
            plan,
            priority,
            saved_blocks: BTreeSet::new(),
            came: BTreeSet::new(),
            ever_bad: bad.clone(),
            bad,
            ever_rotten: rotten.clone(),
            rotten,
        });
        Ok(())
    }

    /// Checks that writes do not complete its reads: they do not show whether the medium can be read.
    fn check_asks_medium(&self, session: SessionId) -> Result<(), Broken> {
        let served = self.clients().sessions.get(&session).is_some_and(|s| s.serve);
        hold(!served, Check::Scrub, || "a scrub takes writes for reads".into())
    }

    /// Saves its progress.
    fn save_scrub(&mut self) {
        if let Some(scrub) = &mut self.scrubs_mut().under_way {
            scrub.saved = scrub.app.progress();
            scrub.saved_blocks = scrub.came.clone();
        }
    }

    /// Returns the sectors whose content differs from their last write.
    fn rotten(&self) -> BTreeSet<Lbn> {
        let ideal = self.scrubs().ideal.borrow();
        lbns(self.clip(0, u64::MAX))
            .filter(|lbn| self.medium().version(*lbn) != ideal[lbn.get() as usize])
            .collect()
    }

    /// Updates the scrub's defects: after every change of the medium's health, and after every access.
    fn note_for_scrub(&mut self, of: impl Iterator<Item = Lbn>) {
        let Some(mut scrub) = self.scrubs_mut().under_way.take() else { return };
        let ideal = Rc::clone(&self.scrubs().ideal);
        for lbn in of {
            if self.medium().health(lbn) == Health::Good {
                scrub.bad.remove(&lbn);
            } else {
                scrub.ever_bad.insert(lbn);
            }
            if self.medium().version(lbn) == ideal.borrow()[lbn.get() as usize] {
                scrub.rotten.remove(&lbn);
            } else {
                scrub.ever_rotten.insert(lbn);
            }
        }
        self.scrubs_mut().under_way = Some(scrub);
    }

    /// Checks a record of its session.
    fn scrubbed(&mut self, record: &Record) -> Result<(), Broken> {
        if self.scrubs().under_way.as_ref().is_none_or(|scrub| scrub.app.session() != record.session) {
            return Ok(());
        }
        let Some(mut scrub) = self.scrubs_mut().under_way.take() else { return Ok(()) };
        let block = record.range.start().get() / scrub.plan.block.get();
        let whole = record.range == scrub.plan.place(block);
        let wrong = lbns(record.range).any(|lbn| scrub.ever_bad.contains(&lbn));
        let again = whole && !wrong && scrub.saved_blocks.contains(&block);
        hold(!again, Check::Once, || {
            format!("a block is scrubbed again that was in the saved progress: {record:?}")
        })?;
        scrub.came.insert(block);
        let bytes: Vec<u8> = match record.bad {
            Some(_) => Vec::new(),
            None => lbns(record.range).flat_map(|lbn| self.medium().version(lbn).to_le_bytes()).collect(),
        };
        let now = self.clock().0;
        self.door(SCRUBBER_SESSION, |door| scrub.app.done(door, record, &bytes, now))?;
        let over = scrub.app.is_done();
        if over {
            return self.judge_scrub(&scrub);
        }
        self.scrubs_mut().under_way = Some(scrub);
        Ok(())
    }

    /// Checks a finished scrub: it saw every block, found each lasting defect, and no others.
    fn judge_scrub(&mut self, scrub: &Scrub) -> Result<(), Broken> {
        self.counts_mut().scrubs += 1;
        let skipped = (0..scrub.plan.blocks()).find(|block| !scrub.came.contains(block));
        hold(skipped.is_none(), Check::Scrub, || {
            format!("a scrub is over, and block {skipped:?} never came")
        })?;
        hold(!self.clients().sessions.contains_key(&scrub.app.session()), Check::Scrub, || {
            "a scrub is over, and its session is open".into()
        })?;
        let (mut bad, mut mismatched, mut unsettled) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for finding in scrub.app.findings() {
            match *finding {
                Finding::Medium(lbn) => {
                    bad.insert(lbn);
                }
                Finding::Mismatch(block) => {
                    mismatched.insert(block);
                }
                Finding::Unsettled(block) => {
                    unsettled.insert(block);
                }
            }
        }
        let block_of = |lbn: &Lbn| lbn.get() / scrub.plan.block.get();
        let missed = scrub.bad.iter().find(|lbn| !bad.contains(lbn) && !unsettled.contains(&block_of(lbn)));
        hold(missed.is_none(), Check::Scrub, || {
            format!("LBN {missed:?} is bad all the time, and not found")
        })?;
        let invented = bad.iter().find(|lbn| !scrub.ever_bad.contains(lbn));
        hold(invented.is_none(), Check::Scrub, || format!("LBN {invented:?} is found bad, and never was"))?;
        // A block with a bad sector has no checksum.
        let has_bad = |block: u64| scrub.ever_bad.iter().any(|lbn| block_of(lbn) == block);
        let missed = scrub.rotten.iter().map(block_of).find(|b| !mismatched.contains(b) && !has_bad(*b));
        hold(missed.is_none(), Check::Scrub, || {
            format!("block {missed:?} is rotten all the time, and not found")
        })?;
        let invented =
            mismatched.iter().find(|block| !scrub.ever_rotten.iter().any(|lbn| block_of(lbn) == **block));
        hold(invented.is_none(), Check::Scrub, || {
            format!("block {invented:?} is found rotten, and never was")
        })
    }

    /// Stops it before a restart: no other client may open its session again.
    fn scrub_stops(&mut self) {
        if let Some(session) = self.scrubs().under_way.as_ref().map(|scrub| scrub.app.session()) {
            self.both().1.closed(session);
        }
    }

    /// Continues it after a restart from its saved progress.
    fn scrub_goes_on(&mut self) -> Result<(), Broken> {
        let Some(scrub) = self.scrubs_mut().under_way.take() else { return Ok(()) };
        let sums = Sums { plan: scrub.plan, ideal: Rc::clone(&self.scrubs().ideal) };
        let now = self.clock().0;
        let resumed = self.door(SCRUBBER_SESSION, |door| {
            Scrubber::resume(scrub.plan, &scrub.saved, sums, door, scrub.priority, now)
        })?;
        let app = match resumed {
            Ok(Ok(app)) => app,
            Ok(Err(error)) => return Err((Check::Scrub, format!("a scrub cannot go on: {error}"))),
            Err(error) => return Err((Check::Scrub, format!("its own progress is refused: {error}"))),
        };
        self.check_asks_medium(app.session())?;
        let came = scrub.saved_blocks.clone();
        self.scrubs_mut().under_way = Some(Scrub { app, came, ..scrub });
        Ok(())
    }

    /// Checks that it has ended.
    fn check_scrub_over(&self) -> Result<(), Broken> {
        hold(self.scrubs().under_way.is_none(), Check::Scrub, || {
            "all sessions have all blocks, and a scrub is not over".into()
        })
    }
}
