//! The place of a volume's core: in the drive, or outside one that differs from its profile.

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

/// The parts of a volume, now and after each power cut.
pub(super) struct Standing {
    /// The core's model of the drive.
    pub known: Arc<DriveModel>,
    config: Config,
    /// The true drive, its behaviour, and the seed of its noise; `None` with the core in it.
    black: Option<(Profile, Behaviour, u64)>,
    passed: Served,
    /// Whether a write completes a read of the same place.
    writes_serve_reads: bool,
}

/// The ranges that could serve reads since power-up, each with the instant at which the core first ordered its command.
type Served = Rc<RefCell<Vec<(Instant, LbnRange)>>>;

impl Standing {
    /// Returns the parts; `drive` is the true drive.
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
        // A volume does not flush.
        let behaviour = Behaviour { write_back: Some(false), ..setup.outside.behaviour() };
        let (_, overheads) = black_box(&profile, behaviour, setup.seed).map_err(|e| defect(e.to_string()))?;
        let known = setup.outside.known(&profile, &drive).map_err(defect)?;
        let config = config.with_outside(setup.outside.config(overheads));
        let black = Some((profile, behaviour, setup.seed));
        Ok(Self { known, config, black, passed: Served::default(), writes_serve_reads })
    }

    /// Returns the volume after a number of power cuts.
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

    /// Returns whether commands that the core had ordered by then have read all of the range, or written it where writes
    /// complete reads. A command that repeats a lost one counts from the first. In the drive no work is under way when a
    /// record comes.
    pub fn was_under_way(&self, range: LbnRange, by: Instant) -> bool {
        let passed = self.passed.borrow();
        let of = |lbn| passed.iter().any(|(ordered, range)| *ordered <= by && range.contains(lbn));
        lbns(range).all(of)
    }
}
