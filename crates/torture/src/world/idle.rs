//! Checks when idle work may run, and whether its reported harm is right.

use super::{Foreground, World};
use crate::exec::Exec;
use crate::failure::{Broken, Check, hold};
use crate::medium::lbns;
use crate::twin::{Alone, most_harm};
use model::Position;
use scheduler::Harm;
use units::{Duration, RequestId};

/// The time without foreground requests after which idle work runs even above its harm bound, at first. The value is that of
/// `scheduler/src/idle.rs`.
const FIRST_SILENCE: Duration = Duration::from_secs(10);

/// The time without foreground requests after which idle work runs even above its harm bound. The time doubles when such
/// work delays a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    silence: Duration,
    /// Whether idle work above the harm bound has run since the last request.
    used: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self { silence: FIRST_SILENCE, used: false }
    }
}

impl Patience {
    /// Returns the time in seconds for which idle work may rest at most.
    pub fn seconds(self) -> u64 {
        self.silence.as_nanos() / 1_000_000_000
    }
}

/// Returns the net harm of idle work and its bound, both in ns.
fn net_and_bound(harm: Harm, ppm: u32) -> (u128, u128) {
    let net = harm.late.saturating_sub(harm.early).as_nanos();
    (net.into(), u128::from(harm.foreground.as_nanos()) * u128::from(ppm) / 1_000_000)
}

impl World {
    /// Checks that idle work may begin now, and may move the head.
    pub(super) fn check_idle(&mut self, exec: &Exec, from: Position) -> Result<(), Broken> {
        let Some(idle) = self.setup.idle else {
            return Err((Check::IdleRange, "the core uses idle time, although it is off".into()));
        };
        hold(self.requests.is_empty(), Check::Request, || {
            "the foreground waits, and idle work begins".into()
        })?;
        let silence = self.now.saturating_since(self.since);
        hold(idle.short || silence >= idle.threshold, Check::IdleRange, || {
            format!("after {} ns of silence idle time is used already", silence.as_nanos())
        })?;
        if self.mechanics.position() == from {
            return Ok(());
        }
        hold(silence >= idle.threshold, Check::IdleRange, || {
            format!(
                "after {} ns of silence the head leaves its track: {:?}",
                silence.as_nanos(),
                exec.accesses
            )
        })?;
        let (net, bound) = net_and_bound(self.core.harm(), idle.harm_ppm);
        if net > bound {
            self.patience.used = true;
            let patience = self.patience.silence;
            hold(silence >= patience, Check::IdleRange, || {
                format!(
                    "idle time has cost {net} ns of {bound}, and after {} ns of silence, not {}, the head leaves its track",
                    silence.as_nanos(),
                    patience.as_nanos()
                )
            })?;
        }
        Ok(())
    }

    /// When foreground work begins, updates the time after which idle work runs even above its harm bound.
    pub(super) fn learn_patience(&mut self, was: Harm, promoted: bool) {
        let Some(idle) = self.setup.idle else { return };
        let is = self.core.harm();
        if std::mem::take(&mut self.patience.used) && is.late > was.late {
            self.patience.silence += self.patience.silence;
        }
        let (net, bound) = net_and_bound(is, idle.harm_ppm);
        if !promoted && net * 2 <= bound {
            self.patience = Patience::default();
        }
    }

    /// Records the harm that the core reports for a request that arrived at an idle drive.
    pub(super) fn check_harm(&mut self, exec: &Exec, harm: Harm) {
        let mut alone = self.requests.iter();
        if let (Some((&id, request)), None) = (alone.next(), alone.next())
            && self.setup.idle.is_some()
            && request.alone
            && self.twin.on
            && lbns(request.range).eq(exec.foreground.iter().copied())
        {
            let here = Alone { before: self.before, until: exec.due };
            self.alone = Some((id, here, harm, self.core.harm()));
        }
    }

    /// Compares the reported harm with the true delay of a request at whose arrival both the drive and the twin were idle.
    pub(super) fn compare_harm(
        &mut self,
        id: RequestId,
        request: Foreground,
        here: Alone,
        was: Harm,
        is: Harm,
    ) -> Result<(), Broken> {
        let Some(there) = self.twin.alone(id).filter(|t| t.before == here.before) else { return Ok(()) };
        self.counts.compared += 1;
        let late = here.until.saturating_since(there.until);
        let early = there.until.saturating_since(here.until);
        let plain = there.until.saturating_since(request.arrived);
        let said = (
            is.late.saturating_sub(was.late),
            is.early.saturating_sub(was.early),
            is.foreground.saturating_sub(was.foreground),
        );
        hold(said == (late, early, plain), Check::Harm, || {
            format!(
                "{id} is {late:?} late, {early:?} early, and takes {plain:?} at rest; the account says {said:?}"
            )
        })?;
        let most = most_harm(&self.drive);
        hold(late <= most, Check::Harm, || {
            format!("{id} is {late:?} late, more than any visit can cost: {most:?}")
        })
    }
}
