//! A volume with the core outside: commands go to a drive behind its interface, and their bytes move when they are done.
//!
//! If a command is lost, or the power fails, the part of it that was done is unknown: any run of its sectors may be on the
//! medium. A command that is done is on the medium; drives that report writes earlier are refused.

use super::faults::Fate;
use super::platters::Failed;
use super::{Passed, Volume, VolumeError, passing};
use crate::placed::PlacedCore;
use drive::{Behaviour, Drive, DriveError, Rules};
use model::{DriveModel, Profile};
use scheduler::{Command, Config, Outcome, Purpose};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// The maximum of promoted writes whose bytes are kept: more than are under way at once.
const PROMOTED_WRITES_MAX: usize = 1 << 10;

/// The maximum of lost commands that are remembered until the core repeats them: more than are at the drive at once. A promoted
/// block that was aborted meanwhile is never repeated.
const LOST_COMMANDS_MAX: usize = 1 << 10;

/// The true drive of a core outside.
#[derive(Clone, Copy, Debug)]
pub struct TrueDrive<'a> {
    /// The drive's profile, which may differ from the one that the core knows.
    pub profile: &'a Profile,
    /// The differences between the drive and its profile.
    pub behaviour: Behaviour,
    /// The seed of random differences.
    pub seed: u64,
}

/// A drive behind its interface, and the parameters from which a reset makes it anew.
pub(super) struct Behind {
    drive: Drive,
    profile: Profile,
    behaviour: Behaviour,
    seed: u64,
    /// The commands at the drive, and those that wait in the host, by number, which is the order of sending.
    sent: BTreeMap<u64, Sent>,
    /// The bytes of the last promoted writes: a lost write is sent again, and its bytes are not requested again.
    promoted: VecDeque<(LbnRange, Vec<u8>)>,
    /// Lost commands of foreground requests and of promoted blocks, which the core repeats.
    to_repeat: VecDeque<Lost>,
}

struct Sent {
    command: Command,
    /// The foreground request that the command serves; `None` for promoted blocks and background work.
    request: Option<RequestId>,
    at: Instant,
    first_ordered: Instant,
    fate: Fate,
    /// The bytes of a write.
    bytes: Vec<(LbnRange, Vec<u8>)>,
    /// Whether the command waits for an earlier command with some of its sectors, if one of the two writes: a drive
    /// may carry commands out in any order.
    held: bool,
    done: Option<CommandEnd>,
}

impl Sent {
    fn overlaps(&self, other: &Command) -> bool {
        let writes = self.command.op.is_write() || other.op.is_write();
        writes && self.command.range.overlaps(other.range)
    }
}

/// A lost command that the core repeats.
struct Lost {
    op: Op,
    range: LbnRange,
    request: Option<RequestId>,
    first_ordered: Instant,
}

impl Lost {
    /// Returns whether a command for this request, or for these promoted blocks, repeats the lost command.
    fn is_repeated_by(&self, command: &Command, request: Option<RequestId>) -> bool {
        match (self.request, request) {
            (Some(lost), Some(request)) => lost == request,
            (None, None) => self.op == command.op && self.range.overlaps(command.range),
            _ => false,
        }
    }
}

struct CommandEnd {
    failed: Failed,
    /// The instant at which the host receives the completion; `None` if the completion is lost.
    reported: Option<Instant>,
}

impl Behind {
    fn new(profile: &Profile, behaviour: Behaviour, seed: u64) -> Result<Self, DriveError> {
        let drive = Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, seed)?;
        Ok(Self {
            drive,
            profile: profile.clone(),
            behaviour,
            seed,
            sent: BTreeMap::new(),
            promoted: VecDeque::new(),
            to_repeat: VecDeque::new(),
        })
    }

    /// Returns the instant of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        let reported = self.sent.values().filter_map(|sent| sent.done.as_ref()?.reported);
        self.drive.next_event().into_iter().chain(reported).chain(self.given_up()).min()
    }

    /// Returns the instant at which the first lost command counts as lost.
    fn given_up(&self) -> Option<Instant> {
        let lost = self.sent.values().filter(|sent| !sent.held).filter_map(|sent| match sent.fate {
            Fate::Lost(at) => Some(at),
            Fate::Reported(_) => None,
        });
        lost.min()
    }

    /// Records a lost command if the core will repeat it.
    fn note_lost(&mut self, sent: &Sent) {
        let Sent { ref command, request, first_ordered, .. } = *sent;
        if command.purpose == Purpose::Foreground {
            self.to_repeat.push_back(Lost { op: command.op, range: command.range, request, first_ordered });
            self.to_repeat.drain(..self.to_repeat.len().saturating_sub(LOST_COMMANDS_MAX));
        }
    }

    /// Returns the instant at which the core first ordered this command, which it orders `now`, perhaps again.
    fn first_ordered(&mut self, now: Instant, command: &Command, request: Option<RequestId>) -> Instant {
        if command.purpose != Purpose::Foreground {
            return now;
        }
        let repeated = |lost: &Lost| lost.is_repeated_by(command, request);
        let first = self.to_repeat.iter().filter(|lost| repeated(lost)).map(|lost| lost.first_ordered).min();
        self.to_repeat.retain(|lost| !repeated(lost));
        first.unwrap_or(now)
    }

    /// Switches the drive on again, `now`.
    fn reset(&mut self, now: Instant) -> Result<(), DriveError> {
        self.seed = self.seed.wrapping_add(1);
        self.drive = Drive::with_behaviour(&self.profile, Rules::HARDWARE, self.behaviour, self.seed)?;
        self.drive.advance(now);
        Ok(())
    }
}

impl Volume {
    /// Returns a volume with the core outside a drive. The core gets `known`. The report has no times of the head.
    ///
    /// # Errors
    /// Platters of another size, invalid settings of idle time, an invalid profile or behaviour, or a drive that reports
    /// writes before they are on the medium.
    ///
    /// ```
    /// use drive::Behaviour;
    /// use freeblock_sim::{Platters, TrueDrive, Volume, black_box};
    /// use model::{DriveModel, builtin};
    /// use scheduler::{Config, OutsideConfig};
    /// use std::sync::Arc;
    /// use units::{Instant, Lbn, LbnRange, Sectors};
    ///
    /// let profile = builtin::find("quantum-atlas-10k")?;
    /// let known = Arc::new(DriveModel::from_profile(&profile)?);
    /// let behaviour = Behaviour { write_back: Some(false), ..Behaviour::fast02() };
    /// let (_, overheads) = black_box(&profile, behaviour, 1)?;
    /// let config = Config::outside(OutsideConfig::beyond(overheads));
    /// let platters = Platters::blank(&known);
    /// let drive = TrueDrive { profile: &profile, behaviour, seed: 1 };
    /// let mut volume = Volume::outside(Instant::ZERO, drive, known, config, platters)?;
    /// let place = LbnRange::new(Lbn::new(800), Sectors::new(8));
    /// volume.submit_write(place, vec![7; 4096])?;
    /// volume.settle()?;
    /// volume.submit_read(place)?;
    /// volume.settle()?;
    /// assert_eq!(volume.completion().and_then(|_| volume.completion()).unwrap().bytes, [7; 4096]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outside(
        now: Instant,
        TrueDrive { profile, behaviour, seed }: TrueDrive<'_>,
        known: Arc<DriveModel>,
        config: Config,
        platters: super::Platters,
    ) -> Result<Self, VolumeError> {
        if config.outside.overheads.write_back {
            return Err(VolumeError::WriteBack);
        }
        let mut outside = Behind::new(profile, behaviour, seed)?;
        outside.drive.advance(now);
        let core = PlacedCore::outside(Arc::clone(&known), config)?;
        let volume = Self::of(now, core, known, platters)?;
        Ok(Self { outside: Some(Box::new(outside)), ..volume })
    }

    /// Sends a command of the core.
    pub(super) fn send(&mut self, command: Command) -> Result<(), VolumeError> {
        let (id, request) = (command.id, command.request);
        let bytes = if command.op.is_write() { self.bytes_of(&command, request) } else { Vec::new() };
        let fate = self.chance.fate(self.now, self.now);
        let Some(outside) = &mut self.outside else {
            debug_assert!(false, "{} for a drive with its core inside", command.id);
            return Ok(());
        };
        let first_ordered = outside.first_ordered(self.now, &command, request);
        let sent =
            Sent { command, request, at: self.now, first_ordered, fate, bytes, held: true, done: None };
        outside.sent.insert(id.get(), sent);
        self.executes += 1;
        self.release_held()
    }

    /// Gives the drive each waiting command, unless the command has sectors in common with an earlier one and one of
    /// the two writes.
    fn release_held(&mut self) -> Result<(), VolumeError> {
        let Some(outside) = &mut self.outside else { return Ok(()) };
        let free = |(number, sent): (&u64, &Sent)| {
            let blocked = outside.sent.range(..*number).any(|(_, earlier)| earlier.overlaps(&sent.command));
            (sent.held && !blocked).then_some(*number)
        };
        let free: Vec<u64> = outside.sent.iter().filter_map(free).collect();
        for number in free {
            let Some(sent) = outside.sent.get_mut(&number) else { continue };
            (sent.held, sent.at) = (false, self.now);
            if let Fate::Lost(at) = &mut sent.fate {
                *at = self.now + self.chance.timeout();
            }
            let Command { op, range, .. } = sent.command;
            outside.drive.submit(self.now, drive::Command { id: RequestId::new(number), op, range })?;
        }
        Ok(())
    }

    /// Returns the bytes of a command's write: the foreground's, and the background's.
    fn bytes_of(&mut self, command: &Command, request: Option<RequestId>) -> Vec<(LbnRange, Vec<u8>)> {
        let sector = self.drive.sector_bytes();
        let own = command.foreground.filter(|_| request.is_some());
        let mut bytes = Vec::new();
        if let Some((own, request)) = own.zip(request.and_then(|id| self.in_flight.get(&id)))
            && let Some(all) = &request.bytes
            && let Some(part) = passing::slice(all, request.request.range, own, sector.get() as usize)
        {
            bytes.push((own, part.to_vec()));
        }
        // Blocks merged with a request precede the request's sectors.
        let end = own.map_or(command.range.end(), |own| own.start());
        let others = LbnRange::new(command.range.start(), end.since(command.range.start()));
        if !others.is_empty() {
            let mut part = vec![0; others.len().bytes(sector).get() as usize];
            let promoted = self.outside.as_mut().map(|outside| &mut outside.promoted);
            let promoted = promoted.filter(|_| command.purpose == Purpose::Foreground && own.is_none());
            let mut there = self.given.fill(others, &mut part);
            if let Some(promoted) = promoted {
                let before = promoted.iter().rposition(|(range, _)| *range == others).filter(|_| !there);
                if let Some((_, bytes)) = before.and_then(|at| promoted.get(at)) {
                    part.copy_from_slice(bytes);
                    there = true;
                }
                promoted.push_back((others, part.clone()));
                promoted.drain(..promoted.len().saturating_sub(PROMOTED_WRITES_MAX));
            }
            debug_assert!(there, "no task gave the bytes that are written to {others}");
            bytes.extend(there.then_some((others, part)));
        }
        bytes
    }

    /// Processes the drive's event.
    pub(super) fn report_outside(&mut self) -> Result<(), VolumeError> {
        let Some(mut outside) = self.outside.take() else { return Ok(()) };
        outside.drive.advance(self.now);
        while let Some(done) = outside.drive.pop_completion() {
            match outside.sent.get_mut(&done.id.get()) {
                Some(sent) => self.done_outside(sent)?,
                None => debug_assert!(false, "the drive completes {}, which it was not sent", done.id),
            }
        }
        let lost = outside.given_up().is_some_and(|at| at <= self.now);
        let reported = outside.sent.iter().find(|(_, sent)| {
            sent.done.as_ref().and_then(|done| done.reported).is_some_and(|reported| reported <= self.now)
        });
        let reported = reported.map(|(id, _)| *id).and_then(|id| outside.sent.remove(&id));
        if lost && reported.is_none() {
            self.lose_outside(&mut outside)?;
            outside.reset(self.now)?;
            if let Some(core) = self.core.of_the_commands() {
                core.lost(self.now);
            }
        }
        self.outside = Some(outside);
        self.release_held()?;
        let Some(Sent { command, at, done: Some(done), .. }) = reported else {
            return self.drain_from(self.now);
        };
        let bad = done.failed.bad();
        let bad = if command.op.is_write() { bad.written } else { bad.read };
        let outcome = if bad.is_empty() { Outcome::Done } else { Outcome::Bad(bad) };
        if let Some(core) = self.core.of_the_commands() {
            core.command_done(self.now, command.id, outcome);
        }
        let capacity = self.drive.layout().capacity();
        if let Some(lbn) = self.chance.spoilt(capacity) {
            self.platters.spoil(lbn, super::Cure::Write);
        }
        self.drain_from(at)
    }

    /// Puts the bytes of a finished command on the medium.
    fn done_outside(&mut self, sent: &mut Sent) -> Result<(), VolumeError> {
        let Command { op, range, .. } = sent.command;
        let mut failed = Failed::default();
        self.platters.pass(op, range, &mut failed);
        failed.sort();
        for (range, bytes) in &sent.bytes {
            self.platters.put(*range, bytes)?;
        }
        let reported = match sent.fate {
            Fate::Reported(late) => Some(self.now + late),
            Fate::Lost(_) => None,
        };
        self.tell(sent, range, reported.is_none());
        sent.done = Some(CommandEnd { failed, reported });
        Ok(())
    }

    fn tell(&mut self, sent: &Sent, range: LbnRange, lost: bool) {
        if let Some(watcher) = &mut self.watcher {
            let Command { id, op, purpose, .. } = sent.command;
            let Sent { at: began, first_ordered, .. } = *sent;
            watcher(&Passed { execute: id.get(), op, range, purpose, began, first_ordered, lost });
        }
    }

    /// Ends all commands at the drive, with none or some of their sectors done.
    fn lose_outside(&mut self, outside: &mut Behind) -> Result<(), VolumeError> {
        let sector = self.drive.sector_bytes();
        for sent in std::mem::take(&mut outside.sent).into_values() {
            outside.note_lost(&sent);
            let range = sent.command.range;
            if sent.done.is_none() && !sent.held {
                let part = self.chance.part(range);
                self.platters.pass(sent.command.op, part, &mut Failed::default());
                for (of, bytes) in &sent.bytes {
                    let (from, to) = (of.start().max(part.start()), of.end().min(part.end()));
                    let shared = LbnRange::new(from, to.max(from).since(from));
                    if let Some(bytes) = passing::slice(bytes, *of, shared, sector.get() as usize) {
                        self.platters.put(shared, bytes)?;
                    }
                }
                self.tell(&sent, part, true);
            }
        }
        Ok(())
    }

    /// Cuts the power: an unknown part of the commands at the drive is on the medium.
    pub(super) fn cut_outside(&mut self) -> Result<(), VolumeError> {
        match self.outside.take() {
            Some(mut outside) => self.lose_outside(&mut outside),
            None => Ok(()),
        }
    }
}

impl super::faults::Chance {
    /// Returns a random run of the sectors of a range, perhaps none or all.
    fn part(&mut self, range: LbnRange) -> LbnRange {
        let sectors = range.len().get();
        let (one, other) = (self.below(sectors + 2), self.below(sectors + 2));
        let (from, to) = (one.min(other).saturating_sub(1), one.max(other).min(sectors));
        let start = Lbn::new(range.start().get() + from.min(sectors));
        LbnRange::new(start, Sectors::new(to.saturating_sub(from)))
    }
}
