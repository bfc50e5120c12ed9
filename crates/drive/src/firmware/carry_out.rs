//! A host that does nothing but wait: commands are handed over together, and time passes until all are done.

use super::{Command, Completion, Drive};
use crate::error::CommandError;
use units::Instant;

impl Drive {
    /// Takes these commands in at `now`, in this order, and lets time pass until all are done: their completions, in this order
    /// too. None for one of which nothing more is to come.
    ///
    /// ```
    /// use freeblock_drive::{Command, Drive};
    /// use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};
    /// let profile = model::builtin::find("seagate-cheetah-18lp").unwrap();
    /// let mut drive = Drive::new(&profile).unwrap();
    /// let range = LbnRange::new(Lbn::new(1_000), Sectors::new(8));
    /// let command = Command { id: RequestId::new(1), op: Op::Read, range };
    /// let [done] = drive.carry_out(Instant::ZERO, [command]).unwrap();
    /// assert!(done.unwrap().at > Instant::ZERO);
    /// ```
    ///
    /// # Errors
    /// The first command that is not taken in, and why; those before it are inside.
    pub fn carry_out<const N: usize>(
        &mut self,
        now: Instant,
        commands: [Command; N],
    ) -> Result<[Option<Completion>; N], (Command, CommandError)> {
        for command in commands {
            self.submit(now, command).map_err(|error| (command, error))?;
        }
        let mut done = [None; N];
        while done.iter().any(Option::is_none) {
            let Some(at) = self.next_event() else { break };
            self.advance(at);
            while let Some(completion) = self.pop_completion() {
                let slots = done.iter_mut().zip(&commands);
                slots
                    .filter(|(_, command)| command.id == completion.id)
                    .for_each(|(slot, _)| *slot = Some(completion));
            }
        }
        Ok(done)
    }
}
