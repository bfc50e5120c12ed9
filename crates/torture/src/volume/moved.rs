//! The part of the drive whose blocks a reorganiser moves. Clients use the original addresses, and in the end every block must
//! be where the plan says.

use super::looked::Due;
use super::seat::{Memory, Seat};
use super::{House, Part, Way, refused};
use crate::failure::{Broken, Check, hold};
use crate::medium::lbns;
use apps::reorganizer::{
    Access, AccessError, AccessPlace, Options, Progress, RelocationPlan, Reorganizer, Trouble,
};
use scheduler::{Priority, Sessions};
use sim::Volume;
use std::num::NonZeroU64;
use units::{LbnRange, Op, Sectors};

type ReorganizerApp = Reorganizer<Memory>;

/// The most blocks of a plan, to bound the length of a history.
const PLAN_BLOCKS_MAX: u64 = 60;

pub(super) struct Moved {
    place: sim::Place<Seat<ReorganizerApp>>,
    plan: RelocationPlan,
    options: Options,
    pub memory: Memory,
    counted: bool,
}

impl Moved {
    fn app<'a>(&self, volume: &'a Volume) -> Option<&'a ReorganizerApp> {
        volume.app(self.place)?.0.as_ref()
    }

    fn with<R>(
        &self,
        volume: &mut Volume,
        call: impl FnOnce(&mut ReorganizerApp, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        volume.call(self.place, |seat, sessions| seat.0.as_mut().map(|app| call(app, sessions))).flatten()
    }
}

impl House {
    /// Starts the reorganiser with a random plan, at most once in a history.
    pub(super) fn start_moving(&mut self, priority: u8) -> Result<(), Broken> {
        let region = self.range_of(Part::Moved);
        let busy = self.jobs.values().any(|job| job.range.overlaps(region));
        let (Some(priority), None, false) = (Priority::new(priority), &self.moved, busy) else {
            return Ok(());
        };
        let dice = &mut self.dice;
        let block = dice.range(1, 12);
        let places = region.len().get() / block;
        if places < 2 {
            return Ok(());
        }
        let count = dice.range(2, places.min(PLAN_BLOCKS_MAX));
        let (circular, staging) = (dice.one_in(2), dice.range(2, 30));
        let threshold_percent = dice.range(1, 100) as u8;
        let capacity = self.drive.layout().capacity();
        let mut below = |n: NonZeroU64| dice.below(n.get());
        let block = Sectors::new(block);
        let plan = match circular {
            true => RelocationPlan::circular(region, block, capacity, count, &mut below),
            false => RelocationPlan::random(region, block, capacity, count, &mut below),
        };
        let plan = plan.map_err(refused)?;
        let (options, memory) = (Options { staging, threshold_percent, priority }, Memory::default());
        let (place, sector, nvram) =
            (self.volume.host(Seat(None)), self.drive.sector_bytes(), memory.clone());
        let begun = self.volume.call(place, |seat, sessions| {
            Reorganizer::start(&plan, options, sector, nvram, sessions).map(|app| seat.0 = Some(app))
        });
        begun.unwrap_or(Ok(())).map_err(refused)?;
        self.moved = Some(Moved { place, plan, options, memory, counted: false });
        Ok(())
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.moved.as_ref()?.app(&self.volume).map(ReorganizerApp::progress)
    }

    /// Returns whether the reorganiser has halted because its non-volatile memory failed. Then only a recovery lets it
    /// continue.
    pub(super) fn moving_has_halted(&self) -> bool {
        let app = self.moved.as_ref().and_then(|moved| moved.app(&self.volume));
        app.is_some_and(|app| matches!(app.trouble(), Some(Trouble::Nvram(_))))
    }

    /// Returns whether the reorganiser has finished, or cannot finish because blocks with bad destinations fill its staging
    /// memory.
    pub(super) fn moving_is_over(&self) -> bool {
        let app = self.moved.as_ref().and_then(|moved| moved.app(&self.volume));
        app.is_none_or(|app| {
            let exhausted = matches!(app.trouble(), Some(Trouble::StagingExhausted { kept, .. }) if kept > 0);
            app.progress().is_finished() || exhausted
        })
    }

    /// Begins a client's access to a range of original addresses.
    pub(super) fn begin_access(&mut self, op: Op, range: LbnRange) -> Result<(), Broken> {
        let Some(moved) = &self.moved else { return Ok(()) };
        let mut bytes = match op {
            Op::Write => self.shadow.next_bytes(range),
            Op::Read => vec![0; range.len().get() as usize * self.sector],
        };
        let begun = moved.with(&mut self.volume, |app, sessions| match op {
            Op::Write => app.begin_write(sessions, range, &bytes),
            Op::Read => app.begin_read(range, &mut bytes),
        });
        let access = match begun {
            None | Some(Err(AccessError::Free(_))) => return Ok(()),
            Some(Err(AccessError::Halted(_))) => {
                // As after a power cut, a part of the write may have been executed.
                self.shadow.issue(range);
                return hold(self.moving_has_halted(), Check::Refusal, || "halted without trouble".into());
            }
            Some(Err(error)) => return Err(refused(error)),
            Some(Ok(access)) => access,
        };
        let mut places = Vec::new();
        let mut staged = Vec::new();
        for piece in access.pieces() {
            match piece.place {
                AccessPlace::Medium(at) => {
                    places.push((piece.logical, LbnRange::new(at, piece.logical.len())))
                }
                AccessPlace::Staging => staged.push(piece.logical),
            }
        }
        let id = self.job(op, range, Way::Access(access));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.bytes = bytes;
            let version = job.version;
            if op.is_write() {
                // A write to staging memory is durable at once.
                staged.into_iter().for_each(|part| self.shadow.acknowledge(part, version));
            }
        }
        self.go(id, &places)
    }

    pub(super) fn end_access(&mut self, access: Access) -> Result<(), Broken> {
        if let Some(moved) = &self.moved {
            moved.with(&mut self.volume, |app, sessions| app.end(sessions, access));
        }
        Ok(())
    }

    /// Adds the required contents of this part of the medium, according to the reorganiser's map.
    pub(super) fn moved_dues(&self, dues: &mut Vec<Due>) -> Result<(), Broken> {
        let region = self.range_of(Part::Moved);
        let floors = self.shadow.floors(region);
        let app = self.moved.as_ref().map(|moved| moved.app(&self.volume));
        for (of, floor) in lbns(region).zip(floors) {
            let place = match app {
                None => Some(of),
                // The reorganiser's map is unknown between a power cut and the recovery.
                Some(None) => None,
                Some(Some(app)) => match app.resolve(LbnRange::new(of, Sectors::new(1))) {
                    Ok(pieces) => pieces.iter().find_map(|piece| match piece.place {
                        AccessPlace::Medium(place) => Some(place),
                        AccessPlace::Staging => None,
                    }),
                    Err(AccessError::Free(_)) => None,
                    Err(error) => return Err(refused(error)),
                },
            };
            let check = if self.moved.is_some() { Check::Moved } else { Check::Acknowledged };
            dues.extend(place.map(|place| Due { of, place, floor, check }));
        }
        Ok(())
    }

    /// Checks once, when the reorganiser has finished, that every block is where the plan says.
    pub(super) fn check_plan(&mut self) -> Result<(), Broken> {
        let Some(moved) = self.moved.as_ref().filter(|moved| !moved.counted) else { return Ok(()) };
        let Some(app) = moved.app(&self.volume) else { return Ok(()) };
        if !app.progress().is_finished() || !app.faults().is_empty() {
            return Ok(());
        }
        for m in moved.plan.moves() {
            let to = LbnRange::new(m.to, m.from.len());
            self.check_place(m.from, to, &self.shadow.floors(m.from), Check::Moved)?;
        }
        if let Some(moved) = &mut self.moved {
            moved.counted = true;
            self.counts.reorganisations += 1;
        }
        Ok(())
    }

    /// Recovers the reorganiser after a power cut from its non-volatile memory, and checks the staged sectors.
    pub(super) fn moving_restarts(&mut self) -> Result<(), Broken> {
        let Some(moved) = &mut self.moved else { return Ok(()) };
        moved.memory.dies_after(None);
        moved.place = self.volume.host(Seat(None));
        let (plan, options, state) = (&moved.plan, moved.options, moved.memory.bytes());
        let (sector, nvram) = (self.drive.sector_bytes(), moved.memory.clone());
        let begun = self.volume.call(moved.place, |seat, sessions| {
            Reorganizer::recover(plan, &state, options, sector, nvram, sessions).map(|app| seat.0 = Some(app))
        });
        begun.unwrap_or(Ok(())).map_err(|e| (Check::Moved, format!("it cannot go on: {e}")))?;
        self.check_staged()
    }

    /// Checks that the sectors in staging memory have a permitted content.
    fn check_staged(&mut self) -> Result<(), Broken> {
        let region = self.range_of(Part::Moved);
        let Some(moved) = &self.moved else { return Ok(()) };
        let mut at = region.start();
        while at < region.end() {
            let one = LbnRange::new(at, Sectors::new(1));
            at = one.end();
            let mut bytes = vec![0; self.sector];
            let begun = moved.with(&mut self.volume, |app, _| app.begin_read(one, &mut bytes));
            let Some(Ok(access)) = begun else { continue };
            let staged = access.pieces().iter().any(|piece| piece.place == AccessPlace::Staging);
            moved.with(&mut self.volume, |app, sessions| app.end(sessions, access));
            if staged {
                let wrong = self.shadow.wrong(one, &bytes, &self.shadow.floors(one));
                hold(wrong.is_none(), Check::Moved, || format!("staged: {}", wrong.unwrap_or_default()))?;
            }
        }
        Ok(())
    }
}
