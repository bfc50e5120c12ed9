//! The fixed times of the firmware, computed from the profile.

use crate::error::DriveError;
use model::profile::Firmware;
use units::{Duration, Op};

/// A pair of overheads, for commands after a read and commands after a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    after_read: Duration,
    after_write: Duration,
}

impl Pair {
    pub(crate) fn after(self, last: Op) -> Duration {
        match last {
            Op::Read => self.after_read,
            Op::Write => self.after_write,
        }
    }

    pub(crate) fn higher(self) -> Duration {
        self.after_read.max(self.after_write)
    }
}

/// The times of a write in which the drive releases the bus twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtraDisconnect {
    pub(crate) command: Duration,
    pub(crate) until_data: Duration,
    pub(crate) seek_delta: Duration,
}

/// All fixed times of the firmware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) read_sector: Duration,
    pub(crate) write_sector: Duration,
    pub(crate) read_hit: Pair,
    pub(crate) read_miss: Pair,
    pub(crate) write_hit: Pair,
    pub(crate) write_miss: Pair,
    pub(crate) read_completion: Duration,
    pub(crate) write_completion: Duration,
    pub(crate) data_preparation: Duration,
    pub(crate) first_reselect: Duration,
    pub(crate) other_reselect: Duration,
    pub(crate) write_disconnect: Duration,
    pub(crate) minimum_seek: Duration,
    pub(crate) extra: Option<ExtraDisconnect>,
}

impl Timing {
    pub(crate) fn new(firmware: &Firmware) -> Result<Self, DriveError> {
        let scale = firmware.overhead_scale;
        let plain = |place: &'static str, ms: f64| {
            Duration::from_millis_f64(ms)
                .filter(|d| *d <= Duration::from_secs(1))
                .ok_or(DriveError::Time { place, ms })
        };
        let scaled = |place: &'static str, ms: f64| plain(place, ms * scale);
        let first = scaled("firmware.per_request_overhead_ms", firmware.per_request_overhead_ms)?;
        let command = |place: &'static str, (read, write): (f64, f64)| {
            Ok::<_, DriveError>(Pair {
                after_read: first + scaled(place, read)?,
                after_write: first + scaled(place, write)?,
            })
        };
        let o = &firmware.overheads;
        let bulk = plain("firmware.bulk_sector_ms", firmware.bulk_sector_ms)?;
        let extra = match &o.extra_write_disconnect {
            Some(x) => Some(ExtraDisconnect {
                command: first
                    + scaled("firmware.overheads.extra_write_disconnect.command_ms", x.command_ms)?,
                until_data: scaled(
                    "firmware.overheads.extra_write_disconnect.disconnect_ms",
                    x.disconnect_ms,
                )? + scaled(
                    "firmware.overheads.extra_write_disconnect.between_ms",
                    x.between_ms,
                )?,
                seek_delta: scaled(
                    "firmware.overheads.extra_write_disconnect.seek_delta_ms",
                    x.seek_delta_ms,
                )?,
            }),
            None => None,
        };
        Ok(Self {
            read_sector: bulk.max(plain("firmware.bus_read_sector_ms", firmware.bus_read_sector_ms)?),
            write_sector: bulk.max(plain("firmware.bus_write_sector_ms", firmware.bus_write_sector_ms)?),
            read_hit: command("firmware.overheads.read_hit", o.read_hit)?,
            read_miss: command("firmware.overheads.read_miss", o.read_miss)?,
            write_hit: command("firmware.overheads.write_hit", o.write_hit)?,
            write_miss: command("firmware.overheads.write_miss", o.write_miss)?,
            read_completion: scaled("firmware.overheads.read_completion", o.read_completion)?,
            write_completion: scaled("firmware.overheads.write_completion", o.write_completion)?,
            data_preparation: scaled("firmware.overheads.data_preparation", o.data_preparation)?,
            first_reselect: scaled("firmware.overheads.first_reselect", o.first_reselect)?,
            other_reselect: scaled("firmware.overheads.other_reselect", o.other_reselect)?,
            write_disconnect: scaled("firmware.overheads.write_disconnect", o.write_disconnect)?,
            minimum_seek: scaled("firmware.overheads.minimum_seek_delay", o.minimum_seek_delay)?,
            extra,
        })
    }
}
