//! The rest of a gap beside a detour.
//!
//! The planner finds one detour for a gap, and its work may end long before the foreground's sectors pass: at the end of a
//! scan a track has a wanted block or two. The rest of the time is a gap again, from the new position of the head. If a
//! lottery chose the detour's session, the time before the detour's first sectors is a gap, too: with a session that writes
//! one block at a time, the head waits half a revolution for the block on average.

use super::command::NewCommand;
use super::detour::{DetourCommand, DetourCommands, GapPart, WantedRange};
use super::fit::{ROUNDING_ERROR_MAX, range_of};
use super::forecast::{Forecast, Plain, Standing};
use super::transfer::Transfer;
use super::{Outside, Work};
use crate::background::{Buffers, Focus};
use crate::core::under_way::Job;
use crate::core::{Core, Purpose, Sharing};
use crate::planner::Detour;

use alloc::vec::Vec;
use model::DriveModel;
use units::{Duration, LbnRange};

/// The maximum of further plans for one gap. A third further plan has no effect beyond chance.
const FURTHER_PLANS_MAX: usize = 2;

impl Outside {
    /// Returns whether each of the commands `behind` a detour, the last of which is the foreground's, reaches its sectors in
    /// the same revolution as without the detour.
    fn leaves_in_time(&self, drive: &DriveModel, detour: &Detour, behind: &[Transfer]) -> bool {
        let mut plain: Vec<Forecast> = Vec::new();
        self.walk(drive, behind, |predicted| plain.push(*predicted));
        let stops = detour.stops.iter().flatten();
        let Some(before) = stops.map(|stop| Some(Transfer::new(stop.op, range_of(drive, stop)?))).collect()
        else {
            return false;
        };
        let mut all: Vec<Transfer> = before;
        let first = all.len();
        all.extend_from_slice(behind);
        let mut predicted: Vec<Forecast> = Vec::new();
        self.walk(drive, &all, |one| predicted.push(*one));
        let bus_sector = self.config.overheads.bus_sector;
        plain.iter().zip(predicted.iter().skip(first)).enumerate().all(|(i, (plain, predicted))| {
            let detours = i + 1 < behind.len();
            let sure = !detours || predicted.start + ROUNDING_ERROR_MAX >= self.sure_of(predicted);
            sure && predicted.in_two_parts == plain.in_two_parts
                && predicted.end <= plain.end + ROUNDING_ERROR_MAX
                && predicted.heard <= plain.heard + bus_sector
        })
    }
}

impl Core {
    /// Queues a detour's commands and records their number in `plain`.
    pub(super) fn push_detour(
        &mut self,
        outside: &mut Outside,
        DetourCommands { own, merged }: &DetourCommands,
        plain: &mut Option<Plain>,
    ) {
        for &DetourCommand { transfer: Transfer { op, range }, tag, useful } in own {
            let purpose = Purpose::Background { useful };
            let work = Work::Detour;
            outside.push(&self.drive, NewCommand { op, range, tag, work, purpose, foreground: None, useful });
        }
        if let Some(plain) = plain {
            let sectors = own.iter().map(|command| command.transfer.range.len().get());
            let sectors: u64 = sectors.chain(merged.map(|merged| merged.range.len().get())).sum();
            plain.detour += own.len() as u32 + u32::from(merged.is_some());
            plain.bus += outside.config.overheads.bus_sector * sectors;
        }
    }

    /// Plans the time before a detour's first sector passes for the blocks of all sessions near the head and near that sector
    /// (FAST'04, section 5.2), and puts the new commands before the detour's. `first` is the foreground's first command.
    pub(super) fn plan_before(
        &mut self,
        outside: &mut Outside,
        standing: &Standing,
        job: &Job,
        first: Transfer,
        detour: &mut DetourCommands,
        buffers: &mut dyn Buffers,
    ) {
        // Without these settings, as in FAST'02, a gap has one detour.
        let more = outside.config.plan_rest || outside.config.merge_after;
        let shared = more && self.config.sharing == Sharing::Lottery && self.background.in_focus() > 1;
        let Some(&DetourCommand { transfer, tag, .. }) = detour.own.first().filter(|_| shared) else {
            return;
        };
        let found = self.detour_for(outside, standing, job, GapPart::Before(transfer));
        // Blocks in one command with the lottery winner's could not be given back separately.
        let found = found.filter(|found| !found.merged);
        let found = found.and_then(|found| self.fit(outside, found, transfer, Duration::ZERO));
        let Transfer { op, range: asked } = first;
        let start = detour.merged.map_or(asked.start(), |merged| merged.range.start());
        let behind = detour.own.iter().map(|command| command.transfer);
        let own = Transfer::new(op, LbnRange::new(start, asked.end().since(start)));
        let behind: Vec<Transfer> = behind.chain([own]).collect();
        let found = found.filter(|found| outside.leaves_in_time(&self.drive, found, &behind));
        self.background.focus_on(Focus::All);
        let before = self.take_detour(outside, found, tag, buffers);
        detour.own.splice(0..0, before.own);
    }

    /// Plans the rest of a request's gap behind the chosen detour. Returns the part that is merged with the request.
    pub(super) fn plan_rest(
        &mut self,
        outside: &mut Outside,
        job: &Job,
        first: Transfer,
        tag: u64,
        plain: &mut Option<Plain>,
        buffers: &mut dyn Buffers,
    ) -> Option<WantedRange> {
        let (rounds, part) = match (outside.config.plan_rest, outside.config.merge_after) {
            (true, _) => (FURTHER_PLANS_MAX, GapPart::Rest),
            (false, true) => (1, GapPart::Merged),
            (false, false) => return None,
        };
        for _ in 0..rounds {
            let behind = outside.standing(&self.drive);
            let rest = self.detour_for(outside, &behind, job, part);
            let rest = rest.and_then(|rest| self.fit(outside, rest, first, Duration::ZERO));
            self.background.focus_on(Focus::All);
            let commands = self.take_detour(outside, rest, tag, buffers);
            self.push_detour(outside, &commands, plain);
            if commands.own.is_empty() || commands.merged.is_some() {
                return commands.merged;
            }
        }
        None
    }
}
