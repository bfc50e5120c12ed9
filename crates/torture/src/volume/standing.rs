//! Creates the volume of a history, with its core inside the drive or outside a drive that differs from its profile.

use super::refused;
use crate::failure::{Broken, Check};
use crate::medium::lbns;
use crate::outer::Outer;
use crate::setup::{Host, Setup};
use drive::Behaviour;
use model::{DriveModel, Profile};
use scheduler::Config;
use sim::{Platters, TrueDrive, Volume, black_box};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Instant, LbnRange, Op};

/// The parameters of a volume, from which it is created at the start and after each power cut.
pub(super) struct Standing {
    /// The core's model of the drive.
    pub known: Arc<DriveModel>,
    config: Config,
    /// The profile and the behaviour of the true drive, and the seed of its random times; `None` for a core inside the drive.
    black: Option<(Profile, Behaviour, u64)>,
    passed: Served,
    /// Whether a write of a block completes a pending read of it.
    writes_serve_reads: bool,
}

/// The ranges of commands that may have completed background reads since the last power cut, each with the instant at which
/// the core first ordered the command.
type Served = Rc<RefCell<Vec<(Instant, LbnRange)>>>;

impl Standing {
    /// Creates the parameters from a set-up. `drive` is the model of the true drive.
    pub fn new(setup: &Setup, drive: Arc<DriveModel>, config: Config) -> Result<Self, Broken> {
        let writes_serve_reads = setup.writes_serve_reads;
        if setup.host != Host::VolumeOutside {
            return Ok(Self {
                known: drive,
                config,
                black: None,
                passed: Served::default(),
                writes_serve_reads,
            });
        }
        let defect = |what: String| (Check::Panic, what);
        let profile = setup.drive.profile().and_then(Outer::profile).map_err(defect)?;
        // Without write-back, because a volume does not flush the drive.
        let behaviour = Behaviour { write_back: Some(false), ..setup.outside.behaviour() };
        let (_, overheads) = black_box(&profile, behaviour, setup.seed).map_err(|e| defect(e.to_string()))?;
        let known = setup.outside.known(&profile, &drive).map_err(defect)?;
        let config = config.with_outside(setup.outside.config(overheads));
        let black = Some((profile, behaviour, setup.seed));
        Ok(Self { known, config, black, passed: Served::default(), writes_serve_reads })
    }

    /// Creates the volume after `life` power cuts.
    pub fn volume(&self, now: Instant, life: u64, platters: Platters) -> Result<Volume, Broken> {
        let known = Arc::clone(&self.known);
        let volume = match &self.black {
            None => Volume::starting_at(now, known, self.config, platters),
            Some((profile, behaviour, seed)) => {
                let drive = TrueDrive { profile, behaviour: *behaviour, seed: seed.wrapping_add(life) };
                Volume::outside(now, drive, known, self.config, platters)
            }
        };
        let mut volume = volume.map_err(refused)?;
        if self.is_outside() {
            self.passed.borrow_mut().clear();
            let (served, writes) = (Rc::clone(&self.passed), self.writes_serve_reads);
            volume.watch(move |passed| {
                if (writes || passed.op == Op::Read) && !passed.lost {
                    served.borrow_mut().push((passed.first_ordered, passed.range));
                }
            });
        }
        Ok(volume)
    }

    pub fn uses_idle_time(&self) -> bool {
        self.config.idle.is_some()
    }

    pub fn is_outside(&self) -> bool {
        self.black.is_some()
    }

    /// Returns whether commands that the core had ordered by the instant `by` may have completed a read of the range: they
    /// have read all of it or, if writes complete reads, written it. A command that repeats a lost one counts as ordered with
    /// the lost one. Always false for a core inside the drive, which has no unfinished work when it delivers a record.
    pub fn was_under_way(&self, range: LbnRange, by: Instant) -> bool {
        let passed = self.passed.borrow();
        let of = |lbn| passed.iter().any(|(ordered, range)| *ordered <= by && range.contains(lbn));
        lbns(range).all(of)
    }
}
