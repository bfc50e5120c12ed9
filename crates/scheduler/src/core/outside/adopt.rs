//! Another model of the drive while the core works, such as a probe's result for a drive of which only the size was known.
//!
//! Requests, sessions and their blocks are named by LBNs, so they stay; what is laid out by the old model is laid out anew. That
//! is done while no command is at the drive. Until then the core sends only what it has decided already, so that it takes no
//! longer than the commands at the drive do.

use super::{Outside, Place};
use crate::core::under_way::Job;
use crate::core::{Config, Core};
use crate::foreground::Pending;
use crate::idle::IdleTimeError;
use crate::planner::Planner;
use alloc::boxed::Box;
use alloc::sync::Arc;
use model::{DriveModel, Position};
use thiserror::Error;
use units::{Bytes, Sectors};

/// The reason why a core keeps the model that it has. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// A core inside the drive, or a configuration for one.
    #[error("only a core outside the drive adopts another model; give Config::place as Outside for both")]
    Inside,
    /// The model is of another drive.
    #[error(
        "the model has {found} sectors of {found_bytes}, the drive {capacity} of {sector_bytes}; give a model of this drive"
    )]
    OtherSize {
        /// Sectors of the new model.
        found: Sectors,
        /// Its bytes in a sector.
        found_bytes: Bytes,
        /// Sectors of the present model.
        capacity: Sectors,
        /// Its bytes in a sector.
        sector_bytes: Bytes,
    },
    /// An impossible setting.
    #[error(transparent)]
    Idle(#[from] IdleTimeError),
}

impl Core {
    /// Replaces, outside the drive, the model of the drive and the configuration, as soon as the commands at the drive are done.
    /// Waiting requests, sessions and their blocks stay. Facts that were learned about the drive, and the audit, begin anew,
    /// and so does the estimate of the harm of idle time, unless it is over the bound.
    ///
    /// # Errors
    /// The core is inside the drive, the model has another size, or the configuration is impossible.
    ///
    /// ```
    /// use freeblock_scheduler::model::{DriveModel, builtin};
    /// use freeblock_scheduler::{Config, Core, OutsideConfig, Overheads};
    /// use freeblock_scheduler::units::Instant;
    /// use std::sync::Arc;
    /// let profile = builtin::find("quantum-atlas-10k")?;
    /// let found = DriveModel::from_profile(&profile)?;
    /// let size = DriveModel::unknown(found.layout().capacity(), found.sector_bytes())?;
    /// let mut core = Core::new(Arc::new(size), Config::outside(OutsideConfig::blind()));
    /// let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &found, true);
    /// core.adopt(Arc::new(found), Config::outside(OutsideConfig::beyond(overheads)))?;
    /// core.poll(Instant::ZERO);
    /// assert!(core.drive().is_known());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adopt(&mut self, drive: Arc<DriveModel>, config: Config) -> Result<(), AdoptError> {
        config.idle.map_or(Ok(()), |idle| idle.check())?;
        if self.outside.is_none() || config.place == Place::Inside {
            return Err(AdoptError::Inside);
        }
        let (capacity, sector_bytes) = (self.drive.layout().capacity(), self.drive.sector_bytes());
        let (found, found_bytes) = (drive.layout().capacity(), drive.sector_bytes());
        if (found, found_bytes) != (capacity, sector_bytes) {
            return Err(AdoptError::OtherSize { found, found_bytes, capacity, sector_bytes });
        }
        self.adopting = Some(Box::new((drive, config)));
        Ok(())
    }

    /// Returns the state of the core outside for the model that waits, if no command is in the way of it.
    pub(super) fn adopt_now(&mut self, before: Box<Outside>) -> Box<Outside> {
        if before.is_busy() {
            return before;
        }
        let Some((drive, config)) = self.adopting.take().map(|adopting| *adopting) else { return before };
        let Place::Outside(place) = config.place else { return before };
        let again = |pending: Pending| {
            let there = Pending::new(&drive, pending.request, pending.arrived, pending.sequence)?;
            Some(Pending { promoted: pending.promoted, follows: pending.follows, ..there })
        };
        // Both models have the same LBNs, so that each request has a place in the new one.
        self.pool = self.pool.drain(..).filter_map(again).collect();
        self.held_back = self.held_back.drain(..).filter_map(again).collect();
        let lost = before
            .retries
            .into_iter()
            .filter_map(|(tag, job)| Some((tag, Job { pending: again(job.pending)?, over: None, ..job })));
        let outside = Outside {
            next_id: before.next_id,
            next_tag: before.next_tag,
            last: before.last,
            known_bad: before.known_bad,
            heard_at: before.heard_at,
            heard_any: before.heard_any,
            retries: lost.collect(),
            readings: before.readings,
            ..Outside::new(&drive, place)
        };
        self.background.lay_out(drive.layout(), config.most_partials);
        self.idle.lay_out(drive.layout().cylinders(), self.config.idle.as_ref());
        self.planner = Planner::new(&drive);
        self.position = Position::default();
        self.track = drive.layout().track_at(self.position.cylinder, self.position.head);
        self.displaced = None;
        if config.policy != self.config.policy {
            self.policy = config.policy.into();
        }
        (self.drive, self.config) = (drive, config);
        Box::new(outside)
    }
}
