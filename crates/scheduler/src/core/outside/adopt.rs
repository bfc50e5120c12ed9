//! The adoption of another model of the drive while the core works, such as a probe's result for a drive of which only the size
//! was known.
//!
//! Requests, sessions and their blocks are named by LBNs, so they stay; their places on the tracks are computed anew. The core
//! adopts a model when no command is at the drive. Until then the core sends only commands that it has already chosen, so that
//! the wait is no longer than those commands take.

use super::{Outside, OutsideDrive};
use crate::core::under_way::Job;
use crate::core::{AdoptError, Adoption, Config};
use crate::foreground::Pending;
use crate::planner::Planner;
use alloc::boxed::Box;
use alloc::sync::Arc;
use model::{DriveModel, Position};

impl OutsideDrive {
    /// Replaces the model of the drive and the configuration, as soon as the commands at the drive are done.
    /// Waiting requests, sessions and their blocks stay. Facts that were learned about the drive, and the audit, begin anew,
    /// and so does the estimate of the harm of idle time, unless it is over the bound.
    ///
    /// # Errors
    /// The model has another size, or the configuration is impossible.
    ///
    /// ```
    /// use freeblock_scheduler::model::{DriveModel, builtin};
    /// use freeblock_scheduler::{Config, OutsideConfig, OutsideDrive, Overheads};
    /// use freeblock_scheduler::units::Instant;
    /// use std::sync::Arc;
    /// let profile = builtin::find("quantum-atlas-10k")?;
    /// let found = DriveModel::from_profile(&profile)?;
    /// let size = DriveModel::unknown(found.layout().capacity(), found.sector_bytes())?;
    /// let mut core = OutsideDrive::new(Arc::new(size), Config::outside(OutsideConfig::blind()));
    /// let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &found, true);
    /// core.adopt(Arc::new(found), Config::outside(OutsideConfig::beyond(overheads)))?;
    /// core.poll(Instant::ZERO);
    /// assert!(core.drive().is_known());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adopt(&mut self, drive: Arc<DriveModel>, config: Config) -> Result<(), AdoptError> {
        config.idle.map_or(Ok(()), |idle| idle.check())?;
        let (capacity, sector_bytes) = (self.drive.layout().capacity(), self.drive.sector_bytes());
        let (found, found_bytes) = (drive.layout().capacity(), drive.sector_bytes());
        if (found, found_bytes) != (capacity, sector_bytes) {
            return Err(AdoptError::OtherSize { found, found_bytes, capacity, sector_bytes });
        }
        self.adopting = Some(Box::new(Adoption { drive, config }));
        Ok(())
    }

    /// Replaces the model and the configuration by the adopted ones, unless a command is at the drive or in the queue.
    pub(super) fn adopt_now(&mut self) {
        let Self { core, outside, adopting } = self;
        let free = !outside.is_busy();
        let Some(Adoption { drive, config }) = adopting.take_if(|_| free).map(|adopting| *adopting) else {
            return;
        };
        let again = |pending: Pending| {
            let there = Pending::new(&drive, pending.request, pending.arrived, pending.sequence)?;
            Some(Pending { promoted: pending.promoted, follows: pending.follows, ..there })
        };
        // Both models have the same LBNs, so that each request has a place in the new one.
        core.pool = core.pool.drain(..).filter_map(again).collect();
        core.held_back = core.held_back.drain(..).filter_map(again).collect();
        let lost = outside
            .retries
            .drain(..)
            .filter_map(|(tag, job)| Some((tag, Job { pending: again(job.pending)?, over: None, ..job })));
        let fresh = Outside {
            next_id: outside.next_id,
            next_tag: outside.next_tag,
            last: outside.last,
            known_bad: core::mem::take(&mut outside.known_bad),
            heard_at: outside.heard_at,
            heard_any: outside.heard_any,
            retries: lost.collect(),
            readings: core::mem::take(&mut outside.readings),
            ..Outside::new(&drive, config.outside)
        };
        core.background.lay_out(drive.layout(), config.most_partials);
        core.idle.lay_out(drive.layout().cylinders(), core.config.idle.as_ref());
        core.planner = Planner::new(&drive);
        core.position = Position::default();
        core.track = drive.layout().track_at(core.position.cylinder, core.position.head);
        core.displaced = None;
        if config.policy != core.config.policy {
            core.policy = config.policy.into();
        }
        (core.drive, core.config) = (drive, config);
        **outside = fresh;
    }
}
