//! The head under a host of applications: moved by the core in the drive, or by a drive behind its interface.

use crate::gaps::Gaps;
use drive::{Behaviour, Command as ToDrive, CommandError, Drive, DriveError, Mechanics, Rules};
use model::{DriveModel, Location, Position, Profile};
use scheduler::{Access, Command, HeadWork, InDrive, Outcome, OutsideConfig, OutsideDrive, Purpose};
use sim::{PlacedCore, PlacedWork, black_box};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use units::{Instant, Lbn, Op, RequestId};

/// The reason why the head does not move as it should.
#[derive(Debug, Error)]
pub(crate) enum HeadError {
    #[error("the core says that the head is free at {predicted}, the mechanics say {actual}")]
    Mispredicted { predicted: Instant, actual: Instant },
    #[error(
        "the core and its head are not in the same place: one of them is in the drive, the other outside"
    )]
    OtherPlace,
    #[error("the drive completes {0}, which it was not sent")]
    NotSent(RequestId),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// The purpose for which sectors passed under the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Foreground,
    /// The background in a gap, or merged with a command of the foreground; sectors between wanted ones are included.
    Gap,
    /// The background in idle time.
    Idle,
}

/// Sectors that passed under the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub whose: Whose,
    pub op: Op,
    pub sectors: u64,
}

impl Passed {
    fn inside(access: &Access) -> Self {
        let whose = match access.purpose {
            Purpose::Foreground => Whose::Foreground,
            Purpose::Background { .. } => Whose::Gap,
            Purpose::Idle { .. } => Whose::Idle,
        };
        Self { whose, op: access.op, sectors: access.sectors.into() }
    }

    /// Splits a command of the foreground, which may begin with blocks of the background.
    fn outside(command: &Command) -> [Self; 2] {
        let all = command.range.len().get();
        let (whose, own) = match command.purpose {
            Purpose::Foreground => (Whose::Gap, command.foreground.map_or(all, |own| own.len().get())),
            Purpose::Background { .. } => (Whose::Gap, 0),
            Purpose::Idle { .. } => (Whose::Idle, 0),
        };
        let of = |whose, sectors| Self { whose, op: command.op, sectors };
        [of(whose, all - own.min(all)), of(Whose::Foreground, own)]
    }
}

/// The place where the head comes to rest, as far as the host knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub position: Position,
    /// The first LBN of the last access, which is near `position`.
    pub lbn: Lbn,
    /// The instant at which the head is at `position`.
    pub from: Instant,
}

/// The profile of a drive with the core outside, and the conditions under which the core runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer<'a> {
    pub profile: &'a Profile,
    pub terms: Terms,
}

/// The handicaps under which a core outside runs. They can be left out to see the cost of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// FAST'02's noise, harm bounded to 1%: the terms of the claims.
    Claim,
    /// FAST'02's noise without a bound on harm, to see the losses that are not due to the bound.
    Unbounded,
    /// A drive without noise, to see the losses that are due to its interface alone.
    Quiet,
}

impl<'a> Outer<'a> {
    /// Puts the core in front of this drive on the terms of the claims.
    pub fn claim(profile: &'a Profile) -> Self {
        Self { profile, terms: Terms::Claim }
    }

    fn behaviour(&self) -> Behaviour {
        let noisy = Behaviour { write_back: Some(false), ..Behaviour::fast02() };
        match self.terms {
            Terms::Claim | Terms::Unbounded => noisy,
            Terms::Quiet => {
                let Behaviour { bus_sector, write_back, queue, .. } = noisy;
                Behaviour { bus_sector, write_back, queue, ..Behaviour::default() }
            }
        }
    }
}

/// The head of a drive, moved by a core in the drive or by the drive itself.
pub(crate) struct Head {
    drive: Arc<DriveModel>,
    mover: Mover,
    gaps: Gaps,
    rest: (Position, Lbn),
}

enum Mover {
    /// Mechanics that the core in the drive moves; `busy` is the end of the accesses under way.
    Core { mechanics: Box<Mechanics>, busy: Option<Instant> },
    /// A drive that gets commands.
    Drive { device: Box<Drive>, sent: BTreeMap<u64, Command> },
}

impl Head {
    /// Makes a head with the core in the drive.
    pub fn inside(drive: &Arc<DriveModel>) -> Self {
        let mechanics = Box::new(Mechanics::new(Arc::clone(drive)));
        Self::of(drive, Mover::Core { mechanics, busy: None })
    }

    /// Makes a head behind the interface of a drive that acknowledges writes from the medium; also returns the
    /// configuration of the core outside: the scheduler with all extensions of FAST'02.
    pub fn outside(
        outer: Outer<'_>,
        drive: &Arc<DriveModel>,
        seed: u64,
    ) -> Result<(Self, OutsideConfig), HeadError> {
        let (profile, behaviour) = (outer.profile, outer.behaviour());
        let (_, overheads) = black_box(profile, behaviour, seed)?;
        let device = Box::new(Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, seed)?);
        let head = Self::of(drive, Mover::Drive { device, sent: BTreeMap::new() });
        let mut config = OutsideConfig::beyond(overheads);
        if outer.terms == Terms::Unbounded {
            config.harm_ppm = None;
        }
        Ok((head, config))
    }

    fn of(drive: &Arc<DriveModel>, mover: Mover) -> Self {
        Self {
            drive: Arc::clone(drive),
            mover,
            gaps: Gaps::default(),
            rest: (Position::default(), Lbn::ZERO),
        }
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        match &self.mover {
            Mover::Core { busy, .. } => *busy,
            Mover::Drive { device, .. } => device.next_event(),
        }
    }

    /// Reports one completion by `now` to the core; returns whether there was one. `passed` gets the sectors of the
    /// completed accesses.
    ///
    /// # Errors
    /// The drive completes a command that was not sent, or one of core and head is in the drive and the other
    /// outside.
    pub fn tell(
        &mut self,
        core: &mut PlacedCore,
        now: Instant,
        mut passed: impl FnMut(Passed),
    ) -> Result<bool, HeadError> {
        match (&mut self.mover, core) {
            (Mover::Core { busy, .. }, PlacedCore::In(core)) => {
                if busy.take_if(|until| *until <= now).is_none() {
                    return Ok(false);
                }
                core.accesses().iter().for_each(|access| passed(Passed::inside(access)));
                core.completed(now);
                Ok(true)
            }
            (Mover::Drive { device, sent }, PlacedCore::Outside(core)) => {
                device.advance(now);
                let Some(done) = device.pop_completion() else { return Ok(false) };
                let command = sent.remove(&done.id.get()).ok_or(HeadError::NotSent(done.id))?;
                Passed::outside(&command).into_iter().filter(|p| p.sectors > 0).for_each(passed);
                let outcome = done.failed.map_or(Outcome::Done, Outcome::NoData);
                core.command_done(done.at, command.id, outcome);
                Ok(true)
            }
            _ => Err(HeadError::OtherPlace),
        }
    }

    /// Carries out the work that the core asks for.
    pub fn work(&mut self, core: &PlacedCore, work: PlacedWork, now: Instant) -> Result<(), HeadError> {
        match (core, work) {
            (PlacedCore::In(core), PlacedWork::Head(HeadWork::Execute)) => self.execute(core, now),
            (PlacedCore::In(core), PlacedWork::Head(HeadWork::Cut)) => {
                let Mover::Core { busy, .. } = &mut self.mover else { return Err(HeadError::OtherPlace) };
                *busy = core.busy_until();
                Ok(())
            }
            (PlacedCore::Outside(core), PlacedWork::Command(command)) => self.send(core, command, now),
            _ => Err(HeadError::OtherPlace),
        }
    }

    /// Executes the accesses of the core in the drive.
    fn execute(&mut self, core: &InDrive, now: Instant) -> Result<(), HeadError> {
        let Mover::Core { mechanics, busy } = &mut self.mover else { return Err(HeadError::OtherPlace) };
        self.gaps.executed(core.accesses());
        let mut at = now;
        for access in core.accesses() {
            let track = self.drive.layout().track(access.track);
            let ready = mechanics.seek_to(at, Position::from(track), access.op);
            let from = ready.max(access.not_before);
            at = mechanics.wait_and_transfer(from, track, access.sector, access.sectors).end;
            let location = Location { track: access.track, sector: access.sector };
            self.rest.1 = self.drive.layout().lbn_at(location).unwrap_or(self.rest.1);
        }
        self.rest.0 = mechanics.position();
        *busy = Some(at);
        // The core in the drive predicts the end to the nanosecond.
        match core.busy_until() {
            Some(predicted) if predicted != at => Err(HeadError::Mispredicted { predicted, actual: at }),
            _ => Ok(()),
        }
    }

    /// Sends a command to the drive.
    fn send(&mut self, core: &OutsideDrive, command: Command, now: Instant) -> Result<(), HeadError> {
        let Mover::Drive { device, sent } = &mut self.mover else { return Err(HeadError::OtherPlace) };
        let (id, layout) = (RequestId::new(command.id.get()), self.drive.layout());
        self.gaps.sent(core, &self.drive, &command);
        device.submit(now, ToDrive { id, op: command.op, range: command.range })?;
        if let Some(last) = layout.pieces(command.range).last() {
            self.rest = (Position::from(layout.track(last.track)), command.range.start());
        }
        sent.insert(id.get(), command);
        Ok(())
    }

    /// Returns the use of the foreground's gaps so far.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Returns where the head will be, and when. If the core is outside the drive, the place is the end of the last
    /// command, and the time is `now`, because the true time is unknown.
    pub fn rest(&self, now: Instant) -> Rest {
        let from = match &self.mover {
            Mover::Core { busy, .. } => busy.unwrap_or(now),
            Mover::Drive { .. } => now,
        };
        Rest { position: self.rest.0, lbn: self.rest.1, from }
    }
}
