//! A host that only waits: submits commands together, and the next ones when all of them are done.

use crate::error::CommandError;
use crate::firmware::{Command, Drive};
use units::{Instant, Lbn, LbnRange, Op, RequestId};

/// A drive and its host, whose clock is at the last completion.
///
/// ```
/// use freeblock_drive::{Drive, Waiting};
/// use units::{Instant, Lbn, LbnRange, Op, Sectors};
/// let profile = model::builtin::find("seagate-cheetah-18lp").unwrap();
/// let mut host = Waiting::new(Drive::new(&profile).unwrap());
/// let range = LbnRange::new(Lbn::new(1_000), Sectors::new(8));
/// let [(submitted, completed)] = host.carry_out(Instant::ZERO, [(Op::Read, range)]).unwrap();
/// assert_eq!(submitted, Instant::ZERO);
/// assert!(completed > submitted && host.now() == completed);
/// ```
pub struct Waiting {
    drive: Drive,
    now: Instant,
    sent: u64,
}

/// A command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op:?} of {range}: {why}")]
pub struct NotDone {
    /// Read or write.
    pub op: Op,
    /// The sectors.
    pub range: LbnRange,
    /// The reason.
    pub why: Why,
}

/// The reason for which a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The drive refused it.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// This is the first of its sectors that cannot be read.
    #[error("LBN {0} cannot be read")]
    Unreadable(Lbn),
    /// The drive has no further events.
    #[error("the drive gave no answer")]
    NoAnswer,
}

impl Why {
    /// Returns the first sector that cannot be read, if that is the reason.
    pub fn unreadable(&self) -> Option<Lbn> {
        match self {
            Self::Unreadable(lbn) => Some(*lbn),
            Self::Refused(_) | Self::NoAnswer => None,
        }
    }
}

impl Waiting {
    /// Creates a host at instant zero.
    pub fn new(drive: Drive) -> Self {
        Self { drive, now: Instant::ZERO, sent: 0 }
    }

    /// Returns the drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Returns the drive, to change it between commands.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    /// Returns the time of the last completion.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Waits until `at`, unless that has passed, submits these commands in this order, and waits until all are done.
    /// Returns the times at which each was submitted and completed.
    ///
    /// # Errors
    /// The first refused command, with those before it still inside; otherwise the first failed one, after all have
    /// ended.
    pub fn carry_out<const N: usize>(
        &mut self,
        at: Instant,
        of: [(Op, LbnRange); N],
    ) -> Result<[(Instant, Instant); N], NotDone> {
        let submitted = at.max(self.now);
        let commands = of.map(|(op, range)| {
            let id = RequestId::new(self.sent);
            self.sent += 1;
            Command { id, op, range }
        });
        let not_done = |Command { op, range, .. }: Command, why| NotDone { op, range, why };
        for command in commands {
            self.drive.submit(submitted, command).map_err(|error| not_done(command, error.into()))?;
        }
        let mut done = [None; N];
        while done.iter().any(Option::is_none) {
            let Some(at) = self.drive.next_event() else { break };
            self.drive.advance(at);
            while let Some(completion) = self.drive.pop_completion() {
                self.now = self.now.max(completion.at);
                let place = commands.iter().position(|command| command.id == completion.id);
                if let Some(slot) = place.and_then(|place| done.get_mut(place)) {
                    *slot = Some(completion);
                }
            }
        }
        let mut times = [(submitted, submitted); N];
        for ((command, done), time) in commands.into_iter().zip(done).zip(&mut times) {
            let done = done.ok_or(not_done(command, Why::NoAnswer))?;
            if let Some(lbn) = done.failed {
                return Err(not_done(command, Why::Unreadable(lbn)));
            }
            time.1 = done.at;
        }
        Ok(times)
    }
}
