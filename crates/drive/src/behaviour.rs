//! In what a drive differs from its profile, and how its firmware treats several commands.
//!
//! Every field is a switch of its own, off by default, with a random stream of its own: switching one on or off
//! changes nothing of what another draws. docs/MODEL.md, section 8, says what each does and where its number is from.

use crate::error::DriveError;
use model::profile::{Cache, ExtraWriteDisconnect, Firmware, Overheads};
use std::fmt;
use units::{Bytes, Duration};

/// Something that happens now and then and takes a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rarely {
    /// In so many of a million cases.
    pub ppm: u32,
    /// It takes from nothing to this, each as likely.
    pub most: Duration,
}

/// A spindle whose speed wanders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpindleDrift {
    /// Never further from the profile's speed than so many millionths. The speed moves by whole revolutions a
    /// minute, so a drive of 7,200 rpm needs at least 139 for anything to happen.
    pub most_ppm: u32,
    /// How long a speed lasts; then it goes up by one revolution a minute, down by one, or stays.
    pub step: Duration,
}

/// Pauses in which the drive measures its own servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalibration {
    /// From one to the next; the first comes at a random time within this.
    pub every: Duration,
    /// How long the arm is away. It is back where it was.
    pub takes: Duration,
}

/// Sectors that can no longer be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSectors {
    /// How many, anywhere on the drive.
    pub count: u32,
    /// Turns that a read of one takes until the drive gives up.
    pub retries: u32,
}

/// In which order queued commands are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First come, first served.
    Fcfs,
    /// The one that the head gets to first, by the drive's own knowledge; what is in the buffer before all.
    Sptf,
    /// A real SATA drive's, as far as its answers say: the shortest seek first, with no regard to rotation, and a request that has
    /// waited gains on one that has not; what is in the buffer before all.
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

/// What becomes of a command that comes while another is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// It waits for the other's completion; nothing overlaps. The profile says how many may wait.
    #[default]
    Serial,
    /// Tagged command queueing: its overhead runs beside the other's work, and the arm turns to it as soon as it is
    /// done with the other, whose data cross the bus meanwhile (FAST'02, section 3.3 and figure 4).
    Tagged {
        /// Which goes next.
        order: QueueOrder,
        /// Commands that may be inside, the one in service included.
        depth: u32,
    },
}

/// In what a drive differs from its profile. The default is a drive that does not differ.
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
    /// Standard deviation of each move of the arm around the profile's time.
    pub seek_spread: Duration,
    /// Moves after which the head settles late.
    pub late_settles: Rarely,
    /// Moves, of a million, that miss their track and cost a revolution more.
    pub missed_landings_ppm: u32,
    /// All seeks slower by so many millionths than the profile says (faster, if negative): an arm that has aged.
    pub seek_ageing_ppm: i32,
    /// A spindle whose speed wanders.
    pub drift: Option<SpindleDrift>,
    /// Pauses for recalibration.
    pub recalibration: Option<Recalibration>,
    /// Sectors that were moved to spare ones since the profile was written, as far as the drive has spare ones.
    pub grown_defects: u32,
    /// Sectors that cannot be read.
    pub bad_sectors: Option<BadSectors>,
    /// The profile's overheads, but for those of completions, in so many percent of what it says: 0 for none.
    pub command_percent: Option<u32>,
    /// Each completion's overhead, in place of the profile's: there is none in those that were measured.
    pub completion_overhead: Option<Duration>,
    /// Each command's overhead is longer by up to this.
    pub command_spread: Duration,
    /// Each completion comes later by up to this.
    pub completion_spread: Duration,
    /// Time for 512 bytes between buffer and host, in place of the profile's: another bus.
    pub bus_sector: Option<Duration>,
    /// A read that needs the medium takes the bus only when a share of it has landed, each time another one from
    /// nothing to this many percent: how far bus and medium overlap varies.
    pub overlap_percent: u32,
    /// The buffer switched on or off.
    pub buffer: Option<bool>,
    /// Read-ahead switched on or off; on to the end of the track, if the profile has none.
    pub read_ahead: Option<bool>,
    /// Writes acknowledged from the buffer, or from the medium only.
    pub write_back: Option<bool>,
    /// A read behind another read on the same track looks sequential: the drive reads on to the track's end, or its
    /// own read-ahead's, before it turns to the next command.
    pub eager_read_ahead: bool,
    /// A command ends read-ahead at once, also in the middle of a sector or a move; otherwise that is waited for.
    pub prompt_read_ahead: bool,
    /// Reads, of a million after a move of the arm, whose data come only three or more revolutions later. The same sectors are read so
    /// each time.
    pub rereads_ppm: u32,
    /// Writes that a drive with a queue that writes back holds: each is reported at once, and goes to the medium when the arm has
    /// nothing else to do. With none, a write goes to the medium as soon as it is reported, and the next one waits for that.
    pub write_cache: u32,
    /// Several commands at a time.
    pub queue: Queue,
}

/// Bytes of the sector that [`Behaviour::bus_sector`] is the time of.
const BUS_SECTOR_BYTES: u64 = 512;

/// Capacity from which on a drive is taken for one with a serial bus and a queue of its own: the first such drives,
/// of 2004, had 160 to 400 GB, and no parallel SCSI drive had more than 300 GB.
const MODERN_BYTES_MIN: Bytes = Bytes::new(320_000_000_000);

impl Default for Behaviour {
    fn default() -> Self {
        Self::EXACT
    }
}

impl Behaviour {
    /// The drive as its profile has it.
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

    /// The imprecision of any drive, with the bus, the buffer and the sector size of the drive that it is given:
    /// moves that spread, late settles, missed landings, drift, recalibration, and times of commands that vary.
    /// Defects and bad sectors are not in it.
    pub const fn noisy() -> Self {
        Self { bus_sector: None, write_back: None, eager_read_ahead: false, ..Self::fast02() }
    }

    /// A drive of today: the imprecision of [`noisy`](Self::noisy), a SATA bus of 600 MB/s, a queue of 32 commands (NCQ) in the
    /// drive's own order, read-ahead that a command ends at once, a write cache, and a few reads that come many
    /// revolutions late. Order, cache and late reads are fitted to a real SATA drive (docs/MODEL.md, section 8).
    pub const fn modern() -> Self {
        Self {
            bus_sector: Some(Duration::from_nanos(850)),
            write_back: Some(true),
            prompt_read_ahead: true,
            rereads_ppm: 6_000,
            write_cache: 128,
            queue: Queue::Tagged { order: QueueOrder::Own, depth: 32 },
            ..Self::noisy()
        }
    }

    /// The preset of a drive's generation: [`modern`](Self::modern) for one of 320 GB or more,
    /// [`fast02`](Self::fast02) for others.
    pub fn of_generation(capacity: Bytes) -> Self {
        if capacity >= MODERN_BYTES_MIN { Self::modern() } else { Self::fast02() }
    }

    /// What an outside scheduler of 2001 met: the default noise of the experiments outside the drive. Of random
    /// 4 KB requests it leaves some 98% within 50 us of an exact model's prediction and puts the rest a rotation
    /// off (FAST'02, figure 7, has 97.5% on an Atlas 10K and 99.3% on a Cheetah 18LP). An Ultra2 bus, no write-back,
    /// eager read-ahead. Defects and bad sectors are not in it.
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

    /// What a profile says of the firmware, with the overheads that this drive has.
    pub fn firmware(&self, told: &Firmware) -> Firmware {
        let percent = self.command_percent.map_or(100.0, f64::from);
        let command = told.overhead_scale * percent / 100.0;
        let completion =
            |ms| self.completion_overhead.map_or(ms * told.overhead_scale, Duration::as_millis_f64);
        let pair = |(after_read, after_write)| (after_read * command, after_write * command);
        let o = &told.overheads;
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
        let per_request_overhead_ms = told.per_request_overhead_ms * command;
        Firmware { per_request_overhead_ms, overhead_scale: 1.0, overheads, ..told.clone() }
    }

    /// Whether a drive whose profile has this of its buffer reports writes from there: there is nowhere to, where it is off. Of a
    /// profile that does not know, a drive is made that does not.
    pub fn writes_back(&self, told: &Cache) -> bool {
        let told_to = told.write_back.known().unwrap_or(false);
        self.buffer.unwrap_or(told.enabled) && self.write_back.unwrap_or(told_to)
    }

    /// The time of one sector of this size between buffer and host, if it is not the profile's.
    pub fn bus_time(&self, sector: Bytes) -> Option<Duration> {
        self.bus_sector.map(|time| time * sector.get() / BUS_SECTOR_BYTES)
    }

    /// Queue, buffer and bus in a few words, of a drive whose profile has this firmware and sectors of this size.
    pub fn described(&self, told: &Firmware, sector: Bytes) -> String {
        let queue = match self.queue {
            Queue::Serial => format!("one command at a time, {} may wait", told.queue_depth),
            Queue::Tagged { order, depth } => format!("a queue of {depth} {order}"),
        };
        let buffer = match self.buffer.unwrap_or(told.cache.enabled) {
            false => "no buffer",
            true if self.held_writes(&told.cache) > 0 => "a write cache",
            true if self.writes_back(&told.cache) => "a buffer that writes back",
            true => "a buffer that writes through",
        };
        let own = told.bulk_sector_ms.max(told.bus_read_sector_ms);
        let own = Duration::from_millis_f64(own).unwrap_or(Duration::ZERO);
        let bus = self.bus_time(sector).unwrap_or(own);
        format!("{queue}, {buffer}, {} ns a sector on the bus", bus.as_nanos())
    }

    /// Writes that a drive whose profile has this of its buffer holds.
    pub(crate) fn held_writes(&self, told: &Cache) -> u32 {
        let holds = self.queue != Queue::Serial && self.writes_back(told);
        if holds { self.write_cache } else { 0 }
    }

    /// Refuses what no drive does.
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
