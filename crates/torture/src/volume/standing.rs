//! Where a volume's core stands: in the drive, or outside one that is not quite what it is believed to be.

use super::refused;
use crate::failure::{Broken, Check};
use crate::medium::lbns;
use crate::scenario::{Host, Outer, Setup};
use drive::Behaviour;
use model::{DriveModel, Profile};
use scheduler::{Config, Place};
use sim::{Platters, Volume, black_box};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Instant, LbnRange, Op};

/// What a volume is made of, now and after each power cut.
pub(super) struct Standing {
    /// What the core believes of the drive.
    pub known: Arc<DriveModel>,
    config: Config,
    /// The drive as it is, how it behaves, and the seed of its noise; none with the core in it.
    black: Option<(Profile, Behaviour, u64)>,
    read: Read,
}

/// What commands have read since the power came, and when each was sent.
type Read = Rc<RefCell<Vec<(Instant, LbnRange)>>>;

impl Standing {
    /// `drive` is the drive as it is.
    pub fn new(setup: &Setup, drive: Arc<DriveModel>, config: Config) -> Result<Self, Broken> {
        if setup.host != Host::VolumeOutside {
            return Ok(Self { known: drive, config, black: None, read: Read::default() });
        }
        let defect = |what: String| (Check::Panic, what);
        let profile = setup.drive.profile().and_then(Outer::profile).map_err(defect)?;
        // A volume does not flush.
        let behaviour = Behaviour { write_back: Some(false), ..setup.outside.behaviour() };
        let (_, overheads) = black_box(&profile, behaviour, setup.seed).map_err(|e| defect(e.to_string()))?;
        let known = setup.outside.known(&profile, &drive).map_err(defect)?;
        let config = Config { place: Place::Outside(setup.outside.config(overheads)), ..config };
        Ok(Self { known, config, black: Some((profile, behaviour, setup.seed)), read: Read::default() })
    }

    /// The volume, after so many power cuts.
    pub fn volume(&self, now: Instant, life: u64, platters: Platters) -> Result<Volume, Broken> {
        let known = Arc::clone(&self.known);
        let volume = match &self.black {
            None => Volume::starting_at(now, known, self.config, platters),
            Some((profile, behaviour, seed)) => {
                let drive = (profile, *behaviour, seed.wrapping_add(life));
                Volume::outside(now, drive, known, self.config, platters)
            }
        };
        let mut volume = volume.map_err(refused)?;
        if self.is_outside() {
            self.read.borrow_mut().clear();
            let read = Rc::clone(&self.read);
            volume.watch(move |passed| {
                if passed.op == Op::Read && !passed.lost {
                    read.borrow_mut().push((passed.began, passed.range));
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

    /// Whether commands that were sent by then have read all of it. In the drive nothing is under way when a record comes.
    pub fn was_under_way(&self, range: LbnRange, by: Instant) -> bool {
        let read = self.read.borrow();
        let of = |lbn| read.iter().any(|(sent, range)| *sent <= by && range.contains(lbn));
        lbns(range).all(of)
    }
}
