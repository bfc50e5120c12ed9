//! The differences of a drive from its profile, and its treatment of several commands.
//!
//! Every field is a switch of its own, off by default, with a random stream of its own: switching one on or off does
//! not change the draws of another. docs/MODEL.md, section 8, explains each and gives the source of its number.

use crate::error::DriveError;
use model::profile::{Cache, ExtraWriteDisconnect, Firmware, Overheads};
use std::fmt;
use units::{Bytes, Duration};

/// A rare event that takes time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rarely {
    /// The number of cases in a million.
    pub ppm: u32,
    /// The longest duration; it is uniform from zero to this.
    pub most: Duration,
}

/// A spindle with a drifting speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpindleDrift {
    /// The largest deviation from the profile's speed, in millionths. The speed changes by whole revolutions a minute,
    /// so a drive of 7,200 rpm needs at least 139 for any effect.
    pub most_ppm: u32,
    /// The duration of a speed; after it the speed rises by one revolution a minute, falls by one, or stays.
    pub step: Duration,
}

/// Pauses in which the drive measures its own servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalibration {
    /// The interval between pauses; the first comes at a random time within this.
    pub every: Duration,
    /// The duration of a pause, after which the arm is back at its place.
    pub takes: Duration,
}

/// Sectors that are no longer readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSectors {
    /// Their number; they are anywhere on the drive.
    pub count: u32,
    /// The number of revolutions after which a read of one fails.
    pub retries: u32,
}

/// The order in which queued commands are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First come, first served.
    Fcfs,
    /// Buffer hits first, then the command that the head reaches first, by the drive's own knowledge.
    Sptf,
    /// The order of a real SATA drive, as far as its completions show: buffer hits first, then the shortest seek
    /// without regard to rotation, where a request gains by the time that it has waited.
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
    /// It waits for the other's completion; nothing overlaps. The profile limits the number of waiting commands.
    #[default]
    Serial,
    /// Tagged command queueing: its overhead overlaps with the other's work, and the arm starts on it as soon as it has
    /// finished the other, whose data cross the bus meanwhile (FAST'02, section 3.3 and figure 4).
    Tagged {
        /// The order of service.
        order: QueueOrder,
        /// The most commands inside, including the one in service.
        depth: u32,
    },
}

/// The differences of a drive from its profile. By default there is none.
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
    /// Moves after which the head settles late.
    pub late_settles: Rarely,
    /// The number of moves in a million that miss their track and cost one more revolution.
    pub missed_landings_ppm: u32,
    /// The slowdown of all seeks in millionths of the profile's times (negative: speed-up), as of an arm that has aged.
    pub seek_ageing_ppm: i32,
    /// A spindle whose speed wanders.
    pub drift: Option<SpindleDrift>,
    /// Pauses for recalibration.
    pub recalibration: Option<Recalibration>,
    /// The number of sectors that were moved to spare ones since the profile was written, as far as there are spare
    /// ones.
    pub grown_defects: u32,
    /// Sectors that cannot be read.
    pub bad_sectors: Option<BadSectors>,
    /// The profile's overheads, except those of completions, in percent of the profile's; 0 for none.
    pub command_percent: Option<u32>,
    /// Each completion's overhead instead of the profile's; the measured drives had none.
    pub completion_overhead: Option<Duration>,
    /// The most by which a command's overhead is longer.
    pub command_spread: Duration,
    /// The most by which a completion is late.
    pub completion_spread: Duration,
    /// The time for 512 bytes between buffer and host instead of the profile's: another bus.
    pub bus_sector: Option<Duration>,
    /// The largest share, in percent, of a read that must have landed before it takes the bus, drawn anew for each read
    /// from the medium: this varies the overlap of bus and medium.
    pub overlap_percent: u32,
    /// Whether the buffer is on.
    pub buffer: Option<bool>,
    /// Whether read-ahead is on; if the profile has none, to the end of the track.
    pub read_ahead: Option<bool>,
    /// Whether writes are acknowledged from the buffer; otherwise from the medium only.
    pub write_back: Option<bool>,
    /// Whether a read behind another read on the same track counts as sequential: then the drive reads on to the
    /// track's end, or its own read-ahead's, before it serves the next command.
    pub eager_read_ahead: bool,
    /// Whether a command ends read-ahead at once, even in the middle of a sector or a move; otherwise that is finished
    /// first.
    pub prompt_read_ahead: bool,
    /// The number of reads in a million after a move of the arm whose data come three or more revolutions late. The
    /// same sectors are late each time.
    pub rereads_ppm: u32,
    /// The most writes that a drive with a queue and write-back holds: each is reported at once, and goes to the medium
    /// when the arm has nothing else to do. With 0, a write goes to the medium as soon as it is reported, and the next
    /// one waits for that.
    pub write_cache: u32,
    /// The treatment of several commands.
    pub queue: Queue,
}

/// The bytes whose time is [`Behaviour::bus_sector`].
const BUS_SECTOR_BYTES: u64 = 512;

impl Default for Behaviour {
    fn default() -> Self {
        Self::EXACT
    }
}

impl Behaviour {
    /// The drive exactly as in its profile.
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

    /// Returns the imprecision of any drive, with the bus, the buffer and the sector size of the given drive: moves
    /// that spread, late settles, missed landings, drift, recalibration, and variable times of commands. It has no
    /// defects and bad sectors.
    pub const fn noisy() -> Self {
        Self { bus_sector: None, write_back: None, eager_read_ahead: false, ..Self::fast02() }
    }

    /// Returns a drive of today: the imprecision of [`noisy`](Self::noisy), a SATA bus of 600 MB/s, a queue of 32
    /// commands (NCQ) in the drive's own order, read-ahead that a command ends at once, a write cache, and a few reads
    /// that come many revolutions late. Order, cache and late reads are fitted to a real SATA drive (docs/MODEL.md,
    /// section 8).
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

    /// Returns the preset of a drive's generation: [`modern`](Self::modern) for one of 320 GB or more,
    /// [`fast02`](Self::fast02) for others.
    pub fn of_generation(capacity: Bytes) -> Self {
        if capacity >= model::MODERN_BYTES_MIN { Self::modern() } else { Self::fast02() }
    }

    /// Returns a drive as an outside scheduler of 2001 met it: the default noise of the experiments outside the drive.
    /// With random 4 KB requests some 98% are within 50 us of an exact model's prediction and the rest is a revolution
    /// off (FAST'02, figure 7, has 97.5% on an Atlas 10K and 99.3% on a Cheetah 18LP). It has an Ultra2 bus, no
    /// write-back, and eager read-ahead, but no defects and bad sectors.
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

    /// Returns the profile's firmware with the overheads of this drive.
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

    /// Returns whether a drive whose profile has this buffer reports writes from the buffer; never if the buffer is
    /// off. If the profile has no value, it does not.
    pub fn writes_back(&self, reported: &Cache) -> bool {
        let reported_to = reported.write_back.known().unwrap_or(false);
        self.buffer.unwrap_or(reported.enabled) && self.write_back.unwrap_or(reported_to)
    }

    /// Returns the time of one sector of this size between buffer and host, if it is not the profile's.
    pub fn bus_time(&self, sector: Bytes) -> Option<Duration> {
        self.bus_sector.map(|time| time * sector.get() / BUS_SECTOR_BYTES)
    }

    /// Describes queue, buffer and bus in a few words, for a drive whose profile has this firmware and sectors of this
    /// size.
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

    /// Returns the number of writes that a drive with this buffer in its profile holds.
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
            return wrong("behaviour.recalibration", value, "let it take less time than lies between two");
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
