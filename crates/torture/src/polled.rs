//! Polls a core, and answers its requests for the data of background writes.

use crate::clients::Clients;
use crate::dice::mix;
use crate::exec::Held;
use crate::failure::{Broken, Check, hold};
use crate::step::AtHand;
use scheduler::{AnyCore, Buffers, Command, HeadWork, InDrive, Output, OutsideDrive, Wanted};
use std::fmt::Debug;
use units::Instant;

/// The answers of a host to a core that asks for the data of background writes during a poll.
struct HostBuffers<'a> {
    clients: &'a Clients,
    at_hand: AtHand,
    held: Vec<Held>,
    versions: &'a mut u64,
    broken: Option<Broken>,
}

/// A core that can be polled, inside or outside the drive.
pub(crate) trait PolledCore: AnyCore + Debug {
    type Work: Debug;

    fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Output<Self::Work>>;
}

impl PolledCore for InDrive {
    type Work = HeadWork;

    fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Output<HeadWork>> {
        self.poll_with(now, buffers)
    }
}

impl PolledCore for OutsideDrive {
    type Work = Command;

    fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Output<Command>> {
        self.poll_with(now, buffers)
    }
}

/// The output of a poll, and the buffers that the host gave during the poll.
type Polled<W> = (Option<Output<W>>, Vec<Held>);

/// Polls a core once. Returns its output, and the buffers that the host gave during the poll.
pub(crate) fn poll<D: PolledCore>(
    core: &mut D,
    now: Instant,
    clients: &Clients,
    at_hand: AtHand,
    versions: &mut u64,
) -> Result<Polled<D::Work>, Broken> {
    let mut buffers = HostBuffers { clients, at_hand, held: Vec::new(), versions, broken: None };
    let output = core.poll_with(now, &mut buffers);
    buffers.broken.map_or(Ok((output, buffers.held)), Err)
}

/// Polls once more after the core has returned `None`, and checks that it returns `None` again. A live host polls so, because
/// any event may wake it.
pub(crate) fn nothing_more(
    core: &mut impl PolledCore,
    now: Instant,
    clients: &Clients,
    at_hand: AtHand,
) -> Result<(), Broken> {
    let (more, _) = poll(core, now, clients, at_hand, &mut 0)?;
    hold(more.is_none(), Check::Replay, || format!("polled once more the core says {more:?}"))
}

impl Buffers for HostBuffers<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        if let Err(broken) = self.check(wanted) {
            self.broken = self.broken.take().or(Some(broken));
        }
        let ready = match self.at_hand {
            AtHand::All => true,
            AtHand::None => false,
            AtHand::Half(salt) => mix(wanted.range.start().get() ^ salt) & 1 == 1,
        };
        if ready {
            *self.versions += 1;
            let registered = self.clients.tasks.get(&wanted.task).map_or(0, |t| t.registered);
            self.held.push(Held { wanted: *wanted, version: *self.versions, registered });
        }
        ready
    }
}

impl HostBuffers<'_> {
    fn check(&self, wanted: &Wanted) -> Result<(), Broken> {
        let task = self.clients.tasks.get(&wanted.task);
        let right = task.is_some_and(|t| {
            t.op.is_write()
                && t.session == wanted.session
                && t.parameter == wanted.parameter
                && !wanted.range.is_empty()
                && t.wants(wanted.range)
        });
        hold(right, Check::Buffers, || {
            format!("a buffer is requested for a write that no task wants: {wanted:?}")
        })?;
        let suspended = self.clients.sessions.get(&wanted.session).is_some_and(|s| s.suspended.is_some());
        hold(!suspended, Check::Suspended, || format!("a buffer of a suspended session: {wanted:?}"))
    }
}
