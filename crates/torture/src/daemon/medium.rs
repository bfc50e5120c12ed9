//! The drive of the daemon: the times come from a simulated drive, the contents are in memory, and steps add faults.

use crate::outer::Outer;
use crate::setup::Setup;
use crate::step::Fate;
use crate::troubles::Troubles;
use device::{Abilities, Answer, Ask, Device, Failure};
use drive::{Command, Drive};
use model::{DriveModel, Profile};
use scheduler::Overheads;
use sim::black_box;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// The bytes in a sector.
const SECTOR: usize = 512;

/// The stamp of a discarded sector.
pub(super) const DISCARDED: u64 = u64::MAX;

/// The assumed time of a flush or a discard, which do not move the arm.
const ARMLESS: Duration = Duration::from_millis(2);

/// Returns the bytes of a range. The bytes of each sector repeat its LBN and its stamp, the number of its write.
pub(super) fn stamped(range: LbnRange, stamp: impl Fn(u64) -> u64) -> Vec<u8> {
    let sector = |lbn: u64| [lbn.to_le_bytes(), stamp(lbn).to_le_bytes()].concat().repeat(SECTOR / 16);
    (range.start().get()..range.end().get()).flat_map(sector).collect()
}

/// Returns the stamps in the bytes of a range.
///
/// # Errors
/// The bytes of a sector are those of another sector, or of two writes.
pub(super) fn stamps(range: LbnRange, bytes: &[u8]) -> Result<Vec<u64>, String> {
    let lbns = range.start().get()..range.end().get();
    if bytes.len() as u64 != range.len().get() * SECTOR as u64 {
        return Err(format!("{} bytes for LBNs {range}", bytes.len()));
    }
    let stamp = |(lbn, sector): (u64, &[u8])| {
        let (first, rest) = sector.split_at(16);
        let words = [&first[..8], &first[8..]].map(|word| word.try_into().map(u64::from_le_bytes));
        match words {
            [Ok(there), Ok(stamp)] if there == lbn && rest.chunks(16).all(|chunk| chunk == first) => {
                Ok(stamp)
            }
            _ => Err(format!("LBN {lbn} has the bytes of another sector, or of two writes")),
        }
    };
    lbns.zip(bytes.chunks(SECTOR)).map(stamp).collect()
}

/// A command at the drive.
#[derive(Debug)]
struct Sent {
    id: u64,
    at: Instant,
    range: LbnRange,
    ask: Ask,
    /// The effect of the command on the medium, if it is never answered.
    lost: Option<Fate>,
    /// The effect of the command on the medium, if it fails.
    fails: Option<Fate>,
    /// The delay of the answer.
    late: Duration,
    /// Whether the command is answered within the daemon's timeout, so that the daemon does not give it up.
    is_on_time: bool,
    /// For a flush: the number of older contents of each sector that it makes obsolete.
    flushes: BTreeMap<u64, usize>,
}

impl Sent {
    fn writes(&self) -> bool {
        matches!(self.ask, Ask::Write { .. } | Ask::Discard)
    }

    /// Returns whether a lost command takes effect only at the end of the losses, rather than at its time: half of the commands
    /// do.
    fn lands_last(&self) -> bool {
        self.id.is_multiple_of(2)
    }
}

/// The drive of the daemon, which survives its restarts.
#[derive(Debug)]
pub(super) struct Medium {
    profile: Profile,
    outer: Outer,
    seed: u64,
    drive: Drive,
    pub overheads: Overheads,
    sectors: Vec<u64>,
    /// For each sector that was written since the last flush, its older contents: the durable one first.
    volatile: BTreeMap<u64, Vec<u64>>,
    bad: BTreeSet<u64>,
    stuck: BTreeSet<u64>,
    waiting: VecDeque<Sent>,
    inside: BTreeMap<RequestId, Sent>,
    /// The commands that the simulated drive does not time (flushes, discards) or that are late, by the time of the answer.
    timed: BTreeMap<(Instant, u64), Sent>,
    /// The lost commands, which are not answered.
    silent: Vec<Sent>,
    done: VecDeque<Answer>,
    next: u64,
    pub troubles: Troubles,
    /// The time after which the daemon gives up on a command.
    timeout: Duration,
    /// The number of commands that were lost, failed or late, or waited in the drive's queue for longer than the timeout.
    pub faults: u64,
    /// The first mistake of the daemon in a command, as a message.
    pub wrong: Option<String>,
}

impl Medium {
    pub fn new(setup: &Setup, timeout: Duration, now: Instant) -> Result<Self, String> {
        let profile = Outer::profile(setup.drive.profile()?)?;
        let outer = setup.outside;
        let (mut drive, overheads) =
            black_box(&profile, outer.behaviour(), setup.seed).map_err(|e| e.to_string())?;
        drive.advance(now);
        let sectors = vec![0; drive.model().layout().capacity().get() as usize];
        Ok(Self {
            profile,
            outer,
            seed: setup.seed,
            drive,
            overheads,
            sectors,
            volatile: BTreeMap::new(),
            bad: BTreeSet::new(),
            stuck: BTreeSet::new(),
            waiting: VecDeque::new(),
            inside: BTreeMap::new(),
            timed: BTreeMap::new(),
            silent: Vec::new(),
            done: VecDeque::new(),
            next: 0,
            troubles: Troubles::NONE,
            timeout,
            faults: 0,
            wrong: None,
        })
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn model(&self) -> Arc<DriveModel> {
        Arc::new(self.drive.model().clone())
    }

    /// Returns the stamps of all sectors.
    pub fn sectors(&self) -> &[u64] {
        &self.sectors
    }

    pub fn spoil(&mut self, lbn: u64, stuck: bool) {
        if stuck {
            self.stuck.insert(lbn)
        } else {
            self.bad.insert(lbn)
        };
        self.drive.damage(LbnRange::new(Lbn::new(lbn), Sectors::new(1)));
    }

    pub fn mend(&mut self, lbn: u64) {
        self.bad.remove(&lbn);
        self.stuck.remove(&lbn);
    }

    /// Ends the losses: answers the commands that were lost, and lets those be answered that would be lost later.
    pub fn end_silence(&mut self, now: Instant) {
        let at_work = self.inside.values_mut().chain(self.timed.values_mut()).chain(&mut self.waiting);
        at_work.for_each(|sent| sent.lost = None);
        for mut sent in std::mem::take(&mut self.silent) {
            sent.fails = sent.lost.take().filter(|_| sent.lands_last()).or(Some(Fate::Nothing));
            self.answer(sent, now);
        }
    }

    /// Restarts the drive after a kill of the daemon, or after a power cut if `power`. Each command at the drive takes effect
    /// in part. A power cut undoes some of the writes since the last flush.
    pub fn restart(
        &mut self,
        now: Instant,
        power: bool,
        mut below: impl FnMut(u64) -> u64,
    ) -> Result<(), String> {
        let inside = std::mem::take(&mut self.inside).into_values();
        let timed = std::mem::take(&mut self.timed).into_values();
        let all: Vec<Sent> = inside
            .chain(timed)
            .chain(std::mem::take(&mut self.silent))
            .chain(self.waiting.drain(..))
            .collect();
        for sent in all {
            let sectors = below(sent.range.len().get() + 1) as u32;
            let fate = [Fate::Nothing, Fate::All, Fate::Sectors(sectors)][below(3) as usize];
            self.land(&sent, fate);
        }
        self.done.clear();
        if power {
            for (lbn, older) in std::mem::take(&mut self.volatile) {
                let survives = below(older.len() as u64 + 1) as usize;
                if let Some(stamp) = older.get(survives) {
                    self.sectors[lbn as usize] = *stamp;
                }
            }
            self.seed = self.seed.wrapping_add(1);
        }
        self.drive =
            black_box(&self.profile, self.outer.behaviour(), self.seed).map_err(|e| e.to_string())?.0;
        self.drive.advance(now);
        for lbn in self.bad.iter().chain(&self.stuck) {
            self.drive.damage(LbnRange::new(Lbn::new(*lbn), Sectors::new(1)));
        }
        Ok(())
    }

    fn take(&mut self, id: u64, at: Instant, range: LbnRange, ask: Ask) -> Sent {
        let (lost, fails) = match (self.troubles.fate.take(), self.troubles.given_up) {
            (None, Some(_)) => (None, self.troubles.given_up.take()),
            (lost, _) => (lost, None),
        };
        let late = self.troubles.take_late();
        self.faults += u64::from(lost.is_some() || fails.is_some() || late > Duration::ZERO);
        let flushes = match ask {
            Ask::Flush => self.volatile.iter().map(|(lbn, older)| (*lbn, older.len())).collect(),
            _ => BTreeMap::new(),
        };
        let is_on_time = lost.is_none() && late == Duration::ZERO;
        Sent { id, at, range, ask, lost, fails, late, is_on_time, flushes }
    }

    /// Counts as faults the commands that have waited longer than the timeout because of the drive's own order.
    fn look_for_slow(&mut self, now: Instant) {
        let (timeout, faults) = (self.timeout, &mut self.faults);
        let there = self.inside.values_mut().chain(self.timed.values_mut()).chain(&mut self.waiting);
        for slow in there.filter(|sent| sent.is_on_time && sent.at + timeout <= now) {
            slow.is_on_time = false;
            *faults += 1;
        }
    }

    /// Reports as a mistake a command that overlaps a write at the drive, or a write that overlaps a read there. A read that is
    /// not answered in time does not count, because the daemon may have given it up.
    fn look_for_overlaps(&mut self, new: &Sent) {
        let there = self.inside.values().chain(self.timed.values()).chain(&self.waiting).chain(&self.silent);
        let mut beside = there.filter(|old| old.range.overlaps(new.range));
        let wrong = beside.find(|old| old.writes() || (new.writes() && old.is_on_time));
        if let Some(old) = wrong {
            self.wrong.get_or_insert(format!("{} is sent while {} is there", new.range, old.range));
        }
    }

    fn fill(&mut self, now: Instant) {
        while self.drive.outstanding() < self.drive.queue_depth() {
            let Some(sent) = self.waiting.pop_front() else { return };
            let id = RequestId::new(self.next);
            self.next += 1;
            let op = if sent.writes() { Op::Write } else { Op::Read };
            match self.drive.submit(now, Command { id, op, range: sent.range }) {
                Ok(()) => drop(self.inside.insert(id, sent)),
                Err(error) => {
                    self.done.push_back(Answer { id: sent.id, at: now, result: Err(error.into()) });
                }
            }
        }
    }

    /// Handles the completion of a command by the simulated drive. The answer comes now, later, or never.
    fn worked(&mut self, sent: Sent, at: Instant) {
        if let Some(fate) = sent.lost {
            if !sent.lands_last() {
                self.land(&sent, fate);
            }
            return self.silent.push(sent);
        }
        if sent.late > Duration::ZERO {
            let due = at + sent.late;
            let sent = Sent { late: Duration::ZERO, ..sent };
            return self.answer_at(due, sent);
        }
        self.answer(sent, at);
    }

    fn answer_at(&mut self, at: Instant, sent: Sent) {
        self.next += 1;
        self.timed.insert((at, self.next), sent);
    }

    fn answer(&mut self, sent: Sent, at: Instant) {
        let result = match sent.fails {
            Some(fate) => {
                self.land(&sent, fate);
                Err(Failure::File(io::Error::other("a fault of the history")))
            }
            None => self.carry_out(&sent),
        };
        self.done.push_back(Answer { id: sent.id, at, result });
    }

    fn carry_out(&mut self, sent: &Sent) -> Result<Vec<u8>, Failure> {
        let lbns = sent.range.start().get()..sent.range.end().get();
        if sent.writes() {
            self.land(sent, Fate::All);
        }
        let unreadable = self.bad.range(lbns.clone()).next().filter(|_| matches!(sent.ask, Ask::Read));
        let unusable = self.stuck.range(lbns).next();
        if let Some(lbn) = unreadable.into_iter().chain(unusable).min() {
            return Err(Failure::Medium(Lbn::new(*lbn)));
        }
        match sent.ask {
            Ask::Read => Ok(stamped(sent.range, |lbn| self.sectors[lbn as usize])),
            Ask::Flush => {
                for (lbn, superfluous) in &sent.flushes {
                    let Some(older) = self.volatile.get_mut(lbn) else { continue };
                    older.drain(..(*superfluous).min(older.len()));
                    if older.is_empty() {
                        self.volatile.remove(lbn);
                    }
                }
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Executes a write or discard on the contents, up to the sectors that its fate gives.
    fn land(&mut self, sent: &Sent, fate: Fate) {
        let (written, through) = match &sent.ask {
            Ask::Write { bytes, through } => match stamps(sent.range, bytes) {
                Ok(stamps) => (stamps, *through),
                Err(wrong) => {
                    self.wrong.get_or_insert(format!("a write: {wrong}"));
                    return;
                }
            },
            Ask::Discard => (vec![DISCARDED; sent.range.len().get() as usize], false),
            _ => return,
        };
        let lbns = sent.range.start().get()..;
        for (lbn, stamp) in lbns.zip(written).take(fate.sectors(sent.range.len().get()) as usize) {
            if self.stuck.contains(&lbn) {
                continue;
            }
            self.bad.remove(&lbn);
            let before = std::mem::replace(&mut self.sectors[lbn as usize], stamp);
            match through {
                true => drop(self.volatile.remove(&lbn)),
                false => self.volatile.entry(lbn).or_default().push(before),
            }
        }
    }
}

/// The daemon's handle of the drive, as a `Device`. The drive outlives the daemon.
#[derive(Clone, Debug)]
pub(super) struct Wire(pub Rc<RefCell<Medium>>);

impl Device for Wire {
    fn sector_bytes(&self) -> Bytes {
        Bytes::new(SECTOR as u64)
    }

    fn size(&self) -> Bytes {
        Bytes::new((self.0.borrow().sectors.len() * SECTOR) as u64)
    }

    fn abilities(&self) -> Abilities {
        Abilities { discard: true, write_zeroes: false, volatile: true, rotational: true }
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        let medium = &mut *self.0.borrow_mut();
        let sent = medium.take(id, now, range, ask);
        medium.look_for_overlaps(&sent);
        if matches!(sent.ask, Ask::Flush | Ask::Discard) {
            // The simulated drive has no flushes and discards: they are answered like late commands.
            let late = sent.late + ARMLESS;
            return medium.worked(Sent { late, ..sent }, now);
        }
        medium.waiting.push_back(sent);
        medium.fill(now);
    }

    fn next_event(&self) -> Option<Instant> {
        let medium = self.0.borrow();
        let timed = medium.timed.keys().next().map(|(at, _)| *at);
        let done = medium.done.front().map(|answer| answer.at);
        [medium.drive.next_event(), timed, done].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant) {
        let medium = &mut *self.0.borrow_mut();
        loop {
            let timed = medium.timed.keys().next().map(|(at, _)| *at).filter(|at| *at <= now);
            let moves = medium.drive.next_event().filter(|at| *at <= now);
            match (moves, timed) {
                (None, None) => return medium.look_for_slow(now),
                (Some(at), timed) if timed.is_none_or(|timed| at <= timed) => {
                    medium.drive.advance(at);
                    while let Some(done) = medium.drive.pop_completion() {
                        if let Some(sent) = medium.inside.remove(&done.id) {
                            medium.worked(sent, done.at);
                        }
                    }
                    medium.fill(at);
                }
                _ => {
                    if let Some(((at, _), sent)) = medium.timed.pop_first() {
                        medium.answer(sent, at);
                    }
                }
            }
        }
    }

    fn poll(&mut self, _: Instant) -> Option<Answer> {
        self.0.borrow_mut().done.pop_front()
    }
}
