//! Creates a simulated drive from a profile and a behaviour.

use super::{BUFFER_SECTORS_MAX, Drive};
use crate::behaviour::{Behaviour, Queue};
use crate::cache::Segments;
use crate::error::DriveError;
use crate::faults::{self, Unreadable};
use crate::firmware::chance::Chance;
use crate::firmware::recalibration::Recalibrations;
use crate::firmware::rereads::Rereads;
use crate::firmware::write_cache::WriteCache;
use crate::mechanics::Mechanics;
use crate::rules::Rules;
use crate::spindle::Spindle;
use crate::timing::Timing;
use crate::wobble::Wobble;
use model::DriveModel;
use model::profile::{Cache, Profile, ReadAhead, WriteBack};
use std::collections::VecDeque;
use std::sync::Arc as Shared;
use units::{Duration, Instant, Op};

/// Returns the buffer of the profile with the switches of the behaviour applied.
fn switched(cache: &Cache, behaviour: &Behaviour) -> Cache {
    let mut cache = cache.clone();
    cache.enabled = behaviour.buffer.unwrap_or(cache.enabled);
    match behaviour.read_ahead {
        Some(false) => {
            cache.read_ahead = ReadAhead::None;
            cache.minimum_read_ahead = 0;
        }
        Some(true) if cache.read_ahead == ReadAhead::None => cache.read_ahead = ReadAhead::Track,
        _ => {}
    }
    match behaviour.write_back {
        Some(false) => cache.write_back = WriteBack::None,
        Some(true) => cache.write_back = WriteBack::Always,
        None => {}
    }
    cache
}

impl Drive {
    /// Creates the drive of a profile, with [`Rules::HARDWARE`].
    ///
    /// # Errors
    /// The profile is invalid or has no firmware; the error names the first such field.
    pub fn new(profile: &Profile) -> Result<Self, DriveError> {
        Self::with_rules(profile, Rules::HARDWARE)
    }

    /// Creates the drive of a profile with these rules. [`Rules::DISKSIM`] is for comparisons with DiskSim.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_rules(profile: &Profile, rules: Rules) -> Result<Self, DriveError> {
        Self::with_behaviour(profile, rules, Behaviour::default(), 0)
    }

    /// Creates a drive that differs from its profile by `behaviour`. Random differences are drawn from `seed`;
    /// [`Behaviour::default`] has none.
    ///
    /// # Errors
    /// As [`new`](Self::new); also, a value of the behaviour is out of its range.
    pub fn with_behaviour(
        profile: &Profile,
        rules: Rules,
        behaviour: Behaviour,
        seed: u64,
    ) -> Result<Self, DriveError> {
        behaviour.check()?;
        let (grown, grown_defects) = match behaviour.grown_defects {
            0 => (None, Vec::new()),
            count => {
                let (profile, moved) = faults::grow(profile, count, seed)?;
                (Some(profile), moved)
            }
        };
        let profile = grown.as_ref().unwrap_or(profile);
        let firmware = profile.firmware.as_ref().ok_or(DriveError::NoFirmware)?;
        let model = DriveModel::from_profile(profile)?;
        let mut timing = Timing::new(&behaviour.firmware(firmware))?;
        if let Some(sector) = behaviour.bus_time(model.sector_bytes()) {
            timing.read_sector = sector;
            timing.write_sector = sector;
        }
        let cache = switched(&firmware.cache, &behaviour);
        if firmware.queue_depth == 0 {
            return Err(DriveError::Number {
                place: "firmware.queue_depth",
                value: "0".to_owned(),
                mend: "give at least 1",
            });
        }
        if !(1..=65_536).contains(&cache.segments) || cache.segment_sectors == 0 {
            return Err(DriveError::Number {
                place: "firmware.cache",
                value: format!("{} segments of {} sectors", cache.segments, cache.segment_sectors),
                mend: "give 1 to 65536 segments of at least 1 sector",
            });
        }
        for (place, sectors) in [
            ("firmware.cache.segment_sectors", cache.segment_sectors),
            ("firmware.cache.minimum_read_ahead", cache.minimum_read_ahead),
            ("firmware.cache.maximum_read_ahead", cache.maximum_read_ahead),
        ] {
            if sectors > BUFFER_SECTORS_MAX {
                let value = format!("{sectors} sectors");
                return Err(DriveError::Number { place, value, mend: "give at most 16777216" });
            }
        }
        for (place, share) in [
            ("firmware.cache.read_watermark", cache.read_watermark),
            ("firmware.cache.write_watermark", cache.write_watermark),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(DriveError::Number {
                    place,
                    value: share.to_string(),
                    mend: "give a share from 0 to 1",
                });
            }
        }
        let farthest = model.layout().cylinders().saturating_sub(1).min(10);
        let shortest = (1..=farthest).map(|d| model.seek(d)).min().unwrap_or(Duration::ZERO);
        // A miss does all the work of a hit before the arm starts. If a profile gives a miss less overhead than a hit, the
        // difference was measured as a part of the seeks.
        let in_seeks = timing.read_hit.higher().saturating_sub(timing.read_miss.higher());
        let shortest_seek = shortest.saturating_sub(in_seeks);
        let segments = Segments::new(&cache, rules);
        let spindle = match behaviour.drift {
            Some(drift) => Spindle::drifting(model.rpm(), drift.most_ppm, drift.step, seed),
            None => Spindle::steady(model.rpm()),
        };
        let unreadable = Unreadable::new(behaviour.bad_sectors, model.layout().capacity(), seed);
        let wobble = Wobble::new(&behaviour, seed);
        Ok(Self {
            mechanics: Mechanics::inexact(Shared::new(model), spindle, wobble),
            timing,
            queue: behaviour.queue,
            queue_depth: match behaviour.queue {
                Queue::Serial => firmware.queue_depth,
                Queue::Tagged { depth, .. } => depth,
            },
            chance: Chance::new(&behaviour, seed),
            recalibration: behaviour.recalibration.map(|r| Recalibrations::new(r, seed)),
            eager_read_ahead: behaviour.eager_read_ahead,
            prompt_read_ahead: behaviour.prompt_read_ahead,
            rereads: Rereads::new(behaviour.rereads_ppm, seed),
            write_cache: WriteCache::new(behaviour.held_writes(&firmware.cache)),
            unreadable,
            grown_defects,
            holds_bus_read: firmware.hold_bus_read,
            cache,
            rules,
            segments,
            shortest_seek,
            run: None,
            flush: None,
            free: Instant::ZERO,
            last_op: Op::Read,
            last_end: None,
            last_write_track: None,
            now: Instant::ZERO,
            waiting: VecDeque::new(),
            arm_free: Instant::ZERO,
            bus_free: Instant::ZERO,
            finishing: VecDeque::new(),
            done: VecDeque::new(),
            landings: Vec::new(),
        })
    }
}
