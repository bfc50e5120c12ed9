//! A scrubber as one of the clients. The real application runs; the model of the clients observes its session, and its
//! findings are compared with the true defects.

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

/// The number of the scrubber's session in the model of the clients; no step uses this number.
const SCRUBBER_SESSION: u32 = u32::MAX - 7;

/// The bytes of a sector for the scrubber: its version number.
const SECTOR_BYTES: usize = 8;

/// The version of the last write to each sector.
pub(crate) type Ideal = Rc<RefCell<Vec<u64>>>;

/// The checksums of the last writes, for the scrubber.
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
        // A record is delivered before any later write, so the checksum is not about to change.
        Known { sum: Some(crc32fast::hash(&bytes)), since: 0, changing: false }
    }
}

/// A scrub in progress. A sector is *rotten* if its content differs from its last write.
pub(crate) struct Scrub {
    app: Scrubber<Sums>,
    plan: ScrubPlan,
    priority: Priority,
    /// The last saved progress, for a restart.
    saved: Vec<u8>,
    /// The blocks that the saved progress includes.
    saved_blocks: BTreeSet<u64>,
    /// The blocks of which a record was delivered.
    came: BTreeSet<u64>,
    /// The sectors that have been bad all the time since the start of the scrub.
    bad: BTreeSet<Lbn>,
    /// The sectors that have been rotten all the time since the start of the scrub.
    rotten: BTreeSet<Lbn>,
    /// The sectors that were bad at any time since the start of the scrub.
    ever_bad: BTreeSet<Lbn>,
    /// The sectors that were rotten at any time since the start of the scrub.
    ever_rotten: BTreeSet<Lbn>,
}

/// The scrubber of a host, and the writes with which its findings are compared.
pub(crate) struct Scrubs {
    ideal: Ideal,
    under_way: Option<Scrub>,
}

impl Scrubs {
    /// Returns the state of a host without a scrub, for a drive of this capacity.
    pub fn new(capacity: u64) -> Self {
        Self { ideal: Rc::new(RefCell::new(vec![0; capacity as usize])), under_way: None }
    }

    /// Records a write that was executed.
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

    /// Starts a scrub of the whole drive, unless one is in progress.
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

    /// Checks that writes do not complete the scrubber's reads, because a write does not show whether a sector can be read.
    fn check_asks_medium(&self, session: SessionId) -> Result<(), Broken> {
        let served = self.clients().sessions.get(&session).is_some_and(|s| s.serve);
        hold(!served, Check::Scrub, || "writes complete the reads of a scrub".into())
    }

    /// Saves the progress of the scrub.
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

    /// Updates the sets of bad and rotten sectors, after a change of these sectors.
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

    /// Passes the core's record of a block to the scrubber, and checks the result.
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

    /// Checks a finished scrub: it must have read every block, and found every lasting defect and no others.
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
        // The scrubber cannot compute the checksum of a block with a bad sector.
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

    /// Removes the scrubber's session before a restart, so that the model of the clients does not open it again.
    fn scrub_stops(&mut self) {
        if let Some(session) = self.scrubs().under_way.as_ref().map(|scrub| scrub.app.session()) {
            self.both().1.closed(session);
        }
    }

    /// Continues the scrub after a restart from its saved progress.
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

    /// Checks that the scrub has ended.
    fn check_scrub_over(&self) -> Result<(), Broken> {
        hold(self.scrubs().under_way.is_none(), Check::Scrub, || {
            "all sessions have all blocks, and a scrub is not over".into()
        })
    }
}
