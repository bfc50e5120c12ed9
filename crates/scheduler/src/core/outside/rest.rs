//! The rest of a gap behind a detour.
//!
//! The planner finds one place for a gap, and the work there may end long before the foreground's sectors pass: at the end
//! of a scan a place has a block or two. The rest is a gap again, from the new position of the head.

use super::decide::Part;
use super::forecast::Plain;
use super::{Outside, Work};
use crate::background::{Buffers, Focus};
use crate::core::under_way::Job;
use crate::core::{Core, Purpose};
use units::{Duration, LbnRange, Op};

/// The number of further plans for one gap. A third has no effect beyond chance.
const MORE: usize = 2;

/// LBNs, and the number of wanted sectors among them.
pub(super) type Taken = (LbnRange, u32);

impl Core {
    /// Queues a detour's commands and records their number in `plain`.
    pub(super) fn push_detour(
        &mut self,
        outside: &mut Outside,
        sent: &[(Op, LbnRange, u64, u32)],
        merged: Option<Taken>,
        plain: &mut Option<Plain>,
    ) {
        for &(op, range, tag, useful) in sent {
            let what = (Purpose::Background { useful }, None, useful);
            outside.push(&self.drive, (op, range, tag, Work::Detour), what);
        }
        if let Some(plain) = plain {
            let sectors = sent.iter().map(|(_, range, ..)| range.len().get());
            let sectors: u64 = sectors.chain(merged.map(|(range, _)| range.len().get())).sum();
            plain.detour += sent.len() as u32 + u32::from(merged.is_some());
            plain.bus += outside.config.overheads.bus_sector * sectors;
        }
    }

    /// Plans the rest of a request's gap behind the chosen detour. Returns the part that is merged with the request.
    pub(super) fn plan_rest(
        &mut self,
        outside: &mut Outside,
        job: &Job,
        (first, tag): ((Op, LbnRange), u64),
        plain: &mut Option<Plain>,
        buffers: &mut dyn Buffers,
    ) -> Option<Taken> {
        let (rounds, part) = match (outside.config.plan_rest, outside.config.merge_after) {
            (true, _) => (MORE, Part::Rest),
            (false, true) => (1, Part::Merged),
            (false, false) => return None,
        };
        for _ in 0..rounds {
            let behind = outside.standing(&self.drive);
            let rest = self.detour_for(outside, &behind, job, part);
            let rest = rest.and_then(|rest| self.fit(outside, rest, first, Duration::ZERO));
            self.background.look(Focus::All);
            let (sent, merged) = self.take_detour(outside, rest, tag, buffers);
            self.push_detour(outside, &sent, merged, plain);
            if sent.is_empty() || merged.is_some() {
                return merged;
            }
        }
        None
    }
}
