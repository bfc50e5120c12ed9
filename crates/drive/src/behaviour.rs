//! The differences of a simulated drive from its profile, and its command queue.
//!
//! Every field is a switch of its own, off by default. A random difference has a stream of random numbers of its own, so
//! that no switch changes the effect of another. docs/MODEL.md, section 8, explains each and gives the source of its number.

use crate::error::DriveError;
use model::profile::{Cache, ExtraWriteDisconnect, Firmware, Overheads};
use std::fmt;
use units::{Bytes, Duration};

/// A rare event that takes time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rarely {
    /// The probability of the event, in millionths.
    pub ppm: u32,
    /// The longest duration. Durations are uniformly distributed from zero to this.
    pub most: Duration,
}

/// The drift of a spindle's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpindleDrift {
    /// The largest deviation from the profile's speed, in millionths. The speed changes by whole revolutions a minute,
    /// so a drive of 7,200 rpm needs at least 139 for any effect.
    pub most_ppm: u32,
    /// The interval after which the speed rises by one revolution per minute, falls by one, or stays.
    pub step: Duration,
}

/// Pauses in which the drive recalibrates its servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalibration {
    /// The interval between pauses; the first one is at a random time within it.
    pub every: Duration,
    /// The duration of a pause, after which the arm is back at its position.
    pub takes: Duration,
}

/// Sectors that cannot be read, at random LBNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSectors {
    /// The number of bad sectors.
    pub count: u32,
    /// The number of revolutions for which the drive retries a bad sector before the read fails.
    pub retries: u32,
}

/// The order in which queued commands are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First come, first served.
    Fcfs,
    /// Buffer hits first, then the command with the shortest positioning time. The drive knows the rotation exactly, but
    /// only the mean times of its seeks.
    Sptf,
    /// The order of a real SATA drive, as inferred from its completions: buffer hits first, then the shortest seek without
    /// regard to rotation. The longer a command has waited, the longer its seek may be.
    Own,
}

impl fmt::Display for QueueOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fcfs => "in order of arrival",
            Self::Sptf => "in the order of shortest positioning time",
            Self::Own => "in the drive's own order",
        })
    }
}

/// The treatment of a command that arrives while another is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// The command waits for the completion of the other one; nothing overlaps. The profile gives the most waiting commands.
    #[default]
    Serial,
    /// Tagged command queueing: the overhead of the command overlaps with the service of the other one. The arm starts for
    /// the command as soon as it has finished the other one, whose data crosses the bus at the same time (FAST 2002,
    /// section 3.3 and figure 4).
    Tagged {
        /// The order of service.
        order: QueueOrder,
        /// The most commands in the drive, including the one in service.
        depth: u32,
    },
}

/// The differences of a drive from its profile; none by default.
///
/// ```
/// use freeblock_drive::{Behaviour, Drive, Rules};
/// use model::Profile;
/// use units::Duration;
/// # let toml = include_str!("../tests/data/small.toml");
/// let profile = Profile::from_toml(toml, "small.toml").unwrap();
/// let behaviour = Behaviour { seek_spread: Duration::from_micros(60), ..Behaviour::default() };
/// let drive = Drive::with_behaviour(&profile, Rules::HARDWARE, behaviour, 1).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The standard deviation of each move of the arm around the profile's time.
    pub seek_spread: Duration,
    /// Extra settling times after some moves of the arm.
    pub late_settles: Rarely,
    /// The number of moves in a million that miss their track and take one more revolution.
    pub missed_landings_ppm: u32,
    /// The slowdown of all seeks in millionths of the profile's times, as of an aged arm; negative for faster seeks.
    pub seek_ageing_ppm: i32,
    /// The drift of the spindle's speed; `None` for a constant speed.
    pub drift: Option<SpindleDrift>,
    /// The pauses for recalibration.
    pub recalibration: Option<Recalibration>,
    /// The number of sectors that were moved to spare sectors since the profile was written. Fewer are moved if the spare
    /// sectors are used up.
    pub grown_defects: u32,
    /// The sectors that cannot be read.
    pub bad_sectors: Option<BadSectors>,
    /// The overheads of commands, except those at completion, in percent of the profile's.
    pub command_percent: Option<u32>,
    /// The overhead of each completion, instead of the profile's. The drives of the measured traces had no such overhead.
    pub completion_overhead: Option<Duration>,
    /// The upper bound of a random time that is added to each command's overhead.
    pub command_spread: Duration,
    /// The upper bound of a random time by which each completion is delayed.
    pub completion_spread: Duration,
    /// The time to transfer 512 bytes over the bus, instead of the profile's.
    pub bus_sector: Option<Duration>,
    /// The upper bound, in percent, of the share of a read that must be in the buffer before the read takes the bus. The
    /// share is drawn anew for each read from the medium, and varies the overlap of bus and medium.
    pub overlap_percent: u32,
    /// Whether the buffer is on, instead of the profile's value.
    pub buffer: Option<bool>,
    /// Whether read-ahead is on, instead of the profile's value. If the profile has none, the drive reads ahead to the end
    /// of the track.
    pub read_ahead: Option<bool>,
    /// Whether writes are acknowledged from the buffer rather than from the medium, instead of the profile's value.
    pub write_back: Option<bool>,
    /// Whether a read that follows another read on the same track counts as sequential. Before the next command, the drive
    /// then reads on to the end of the track, or to the limit of its read-ahead if that is nearer.
    pub eager_read_ahead: bool,
    /// Whether a command ends read-ahead at once, even in the middle of a sector or of a move. Otherwise the sector or the
    /// move is finished first.
    pub prompt_read_ahead: bool,
    /// The number of reads, in a million reads with a move of the arm, whose data comes three or more revolutions late. A read
    /// of the same first sector is late every time.
    pub rereads_ppm: u32,
    /// The most writes in the write cache of a drive with a queue and write-back. Each is acknowledged at once, and goes to
    /// the medium when the arm has no other work. With 0, a write goes to the medium as soon as it is acknowledged, and the
    /// next write waits until then.
    pub write_cache: u32,
    /// The treatment of a command that arrives while another is served.
    pub queue: Queue,
}

/// The number of bytes to which [`Behaviour::bus_sector`] refers.
const BUS_SECTOR_BYTES: u64 = 512;

impl Default for Behaviour {
    fn default() -> Self {
        Self::EXACT
    }
}

impl Behaviour {
    /// A drive without a difference from its profile.
    pub const EXACT: Self = Self {
        seek_spread: Duration::ZERO,
        late_settles: Rarely { ppm: 0, most: Duration::ZERO },
        missed_landings_ppm: 0,
        seek_ageing_ppm: 0,
        drift: None,
        recalibration: None,
        grown_defects: 0,
        bad_sectors: None,
        command_percent: None,
        completion_overhead: None,
        command_spread: Duration::ZERO,
        completion_spread: Duration::ZERO,
        bus_sector: None,
        overlap_percent: 0,
        buffer: None,
        read_ahead: None,
        write_back: None,
        eager_read_ahead: false,
        prompt_read_ahead: false,
        rereads_ppm: 0,
        write_cache: 0,
        queue: Queue::Serial,
    };

    /// Returns the random variation of real drives: seeks around their mean time, late settling, missed landings, drift,
    /// recalibration, and varying command times. Bus and buffer are those of the profile. There are no grown defects and no
    /// bad sectors.
    pub const fn noisy() -> Self {
        Self { bus_sector: None, write_back: None, eager_read_ahead: false, ..Self::fast02() }
    }

    /// Returns a drive of today: the variation of [`noisy`](Self::noisy), a SATA bus of 600 MB/s, a queue of 32 commands
    /// (NCQ) in [`QueueOrder::Own`], read-ahead that a command ends at once, a write cache, and a few reads whose data comes
    /// many revolutions late. Order, cache and late reads are fitted to a real SATA drive (docs/MODEL.md, section 8).
    pub const fn modern() -> Self {
        Self {
            bus_sector: Some(Duration::from_nanos(850)),
            write_back: Some(true),
            prompt_read_ahead: true,
            rereads_ppm: 5_000,
            write_cache: 128,
            queue: Queue::Tagged { order: QueueOrder::Own, depth: 32 },
            ..Self::noisy()
        }
    }

    /// Returns [`modern`](Self::modern) for a drive of 320 GB or more, [`fast02`](Self::fast02) for a smaller one.
    pub fn of_generation(capacity: Bytes) -> Self {
        if capacity >= model::MODERN_BYTES_MIN { Self::modern() } else { Self::fast02() }
    }

    /// Returns a drive like those of the FAST 2002 paper, for the experiments outside the drive: an Ultra2 bus, no
    /// write-back, eager read-ahead, random variation, but no grown defects and no bad sectors. Some 98% of random requests
    /// of 4 KB complete within 50 us of an exact model's prediction, and the others a revolution later or earlier. The
    /// paper's figure 7 has 97.5% for an Atlas 10K and 99.3% for a Cheetah 18LP.
    pub const fn fast02() -> Self {
        Self {
            seek_spread: Duration::from_micros(20),
            late_settles: Rarely { ppm: 20_000, most: Duration::from_micros(500) },
            missed_landings_ppm: 2_000,
            seek_ageing_ppm: 0,
            drift: Some(SpindleDrift { most_ppm: 5_000, step: Duration::from_secs(5) }),
            recalibration: Some(Recalibration {
                every: Duration::from_secs(60),
                takes: Duration::from_millis(50),
            }),
            grown_defects: 0,
            bad_sectors: None,
            command_percent: None,
            completion_overhead: None,
            command_spread: Duration::from_micros(20),
            completion_spread: Duration::from_micros(10),
            bus_sector: Some(Duration::from_nanos(6_400)),
            overlap_percent: 85,
            buffer: None,
            read_ahead: None,
            write_back: Some(false),
            eager_read_ahead: true,
            prompt_read_ahead: false,
            rereads_ppm: 0,
            write_cache: 0,
            queue: Queue::Tagged { order: QueueOrder::Sptf, depth: 64 },
        }
    }

    /// Returns the firmware `reported` by the profile, with the overheads of this behaviour.
    pub fn firmware(&self, reported: &Firmware) -> Firmware {
        let percent = self.command_percent.map_or(100.0, f64::from);
        let command = reported.overhead_scale * percent / 100.0;
        let completion =
            |ms| self.completion_overhead.map_or(ms * reported.overhead_scale, Duration::as_millis_f64);
        let pair = |(after_read, after_write)| (after_read * command, after_write * command);
        let o = &reported.overheads;
        let overheads = Overheads {
            read_hit: pair(o.read_hit),
            read_miss: pair(o.read_miss),
            write_hit: pair(o.write_hit),
            write_miss: pair(o.write_miss),
            read_completion: completion(o.read_completion),
            write_completion: completion(o.write_completion),
            data_preparation: o.data_preparation * command,
            first_reselect: o.first_reselect * command,
            other_reselect: o.other_reselect * command,
            read_disconnect: pair(o.read_disconnect),
            write_disconnect: o.write_disconnect * command,
            minimum_seek_delay: o.minimum_seek_delay * command,
            extra_write_disconnect: o.extra_write_disconnect.as_ref().map(|x| ExtraWriteDisconnect {
                command_ms: x.command_ms * command,
                disconnect_ms: x.disconnect_ms * command,
                between_ms: x.between_ms * command,
                second_disconnect_ms: x.second_disconnect_ms * command,
                seek_delta_ms: x.seek_delta_ms * command,
            }),
        };
        let per_request_overhead_ms = reported.per_request_overhead_ms * command;
        Firmware { per_request_overhead_ms, overhead_scale: 1.0, overheads, ..reported.clone() }
    }

    /// Returns whether a drive with the buffer `reported` by its profile acknowledges writes from the buffer. False if the
    /// buffer is off, or if neither the behaviour nor the profile says so.
    pub fn writes_back(&self, reported: &Cache) -> bool {
        let reported_to = reported.write_back.known().unwrap_or(false);
        self.buffer.unwrap_or(reported.enabled) && self.write_back.unwrap_or(reported_to)
    }

    /// Returns the time to transfer one sector of this size over the bus; `None` if it is the profile's.
    pub fn bus_time(&self, sector: Bytes) -> Option<Duration> {
        self.bus_sector.map(|time| time * sector.get() / BUS_SECTOR_BYTES)
    }

    /// Returns a short description of queue, buffer and bus, for a drive with the firmware `reported` by its profile and
    /// sectors of this size.
    pub fn described(&self, reported: &Firmware, sector: Bytes) -> String {
        let queue = match self.queue {
            Queue::Serial => format!("one command at a time, {} may wait", reported.queue_depth),
            Queue::Tagged { order, depth } => format!("a queue of {depth} {order}"),
        };
        let buffer = match self.buffer.unwrap_or(reported.cache.enabled) {
            false => "no buffer",
            true if self.held_writes(&reported.cache) > 0 => "a write cache",
            true if self.writes_back(&reported.cache) => "a buffer that writes back",
            true => "a buffer that writes through",
        };
        let own = reported.bulk_sector_ms.max(reported.bus_read_sector_ms);
        let own = Duration::from_millis_f64(own).unwrap_or(Duration::ZERO);
        let bus = self.bus_time(sector).unwrap_or(own);
        format!("{queue}, {buffer}, {} ns a sector on the bus", bus.as_nanos())
    }

    /// Returns the most writes in the write cache of a drive with the buffer `reported` by its profile; 0 without such a
    /// cache.
    pub(crate) fn held_writes(&self, reported: &Cache) -> u32 {
        let holds = self.queue != Queue::Serial && self.writes_back(reported);
        if holds { self.write_cache } else { 0 }
    }

    /// Refuses values that no drive can have.
    pub(crate) fn check(&self) -> Result<(), DriveError> {
        let wrong = |place, value: String, mend| Err(DriveError::Number { place, value, mend });
        let second = Duration::from_secs(1);
        for (place, time) in [
            ("behaviour.seek_spread", self.seek_spread),
            ("behaviour.late_settles.most", self.late_settles.most),
            ("behaviour.command_spread", self.command_spread),
            ("behaviour.completion_overhead", self.completion_overhead.unwrap_or_default()),
            ("behaviour.completion_spread", self.completion_spread),
            ("behaviour.bus_sector", self.bus_sector.unwrap_or_default()),
        ] {
            if time > second {
                return wrong(place, time.to_string(), "give at most a second");
            }
        }
        for (place, ppm) in [
            ("behaviour.late_settles.ppm", self.late_settles.ppm),
            ("behaviour.missed_landings_ppm", self.missed_landings_ppm),
            ("behaviour.seek_ageing_ppm", self.seek_ageing_ppm.unsigned_abs()),
            ("behaviour.rereads_ppm", self.rereads_ppm),
        ] {
            if ppm > 1_000_000 {
                return wrong(place, ppm.to_string(), "give at most 1000000 millionths");
            }
        }
        if self.overlap_percent > 100 {
            return wrong("behaviour.overlap_percent", self.overlap_percent.to_string(), "give 0 to 100");
        }
        if let Some(percent) = self.command_percent.filter(|percent| *percent > 10_000) {
            return wrong("behaviour.command_percent", percent.to_string(), "give 0 to 10000");
        }
        if let Some(drift) = self.drift {
            if drift.most_ppm > 100_000 {
                let value = drift.most_ppm.to_string();
                return wrong("behaviour.drift.most_ppm", value, "give at most 100000 millionths");
            }
            if !(Duration::from_micros(1)..=Duration::from_secs(3_600)).contains(&drift.step) {
                let value = drift.step.to_string();
                return wrong("behaviour.drift.step", value, "give a microsecond to an hour");
            }
        }
        if let Some(r) = self.recalibration
            && r.every <= r.takes
        {
            let value = format!("{} every {}", r.takes, r.every);
            return wrong("behaviour.recalibration", value, "give a duration shorter than the interval");
        }
        if let Some(bad) = self.bad_sectors
            && (bad.count > 1_000_000 || bad.retries > 1_000)
        {
            let value = format!("{} sectors, {} retries", bad.count, bad.retries);
            return wrong("behaviour.bad_sectors", value, "give at most 1000000 sectors and 1000 retries");
        }
        if self.grown_defects > 100_000 {
            let value = self.grown_defects.to_string();
            return wrong("behaviour.grown_defects", value, "give at most 100000");
        }
        if self.write_cache > 65_536 {
            return wrong("behaviour.write_cache", self.write_cache.to_string(), "give at most 65536 writes");
        }
        if let Queue::Tagged { depth, .. } = self.queue
            && !(1..=65_536).contains(&depth)
        {
            return wrong("behaviour.queue.depth", depth.to_string(), "give 1 to 65536");
        }
        Ok(())
    }
}
