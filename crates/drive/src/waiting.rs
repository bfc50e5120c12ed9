//! A host that submits some commands at once, and waits for all of them before it submits others.

use crate::error::CommandError;
use crate::firmware::{Command, Drive};
use units::{Instant, Lbn, LbnRange, Op, RequestId};

/// A drive with a host that waits. The time is that of the last completion.
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

/// A command that was refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op:?} of {range}: {why}")]
pub struct NotDone {
    /// The operation of the command.
    pub op: Op,
    /// The sectors of the command.
    pub range: LbnRange,
    /// The reason.
    pub why: Why,
}

/// The reason for which a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The drive refused the command.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The command has unreadable sectors, of which this is the first.
    #[error("LBN {0} cannot be read")]
    Unreadable(Lbn),
    /// The drive has no further events, although the command is not complete. This would be a bug of the drive.
    #[error("the drive gave no answer")]
    NoAnswer,
}

impl Why {
    /// Returns the first unreadable sector, if that is the reason.
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

    /// Returns the drive for a change between commands, such as damage to sectors.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    /// Returns the time of the last completion.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Waits until `at`, unless that has passed, submits these commands in this order, and waits until all are complete.
    /// Returns for each command the times of submission and completion.
    ///
    /// # Errors
    /// The drive refuses a command; the commands before it are still in the drive. Otherwise, the first command that
    /// failed, after all are complete.
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
