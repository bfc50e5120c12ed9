//! The drive model: a profile in a form in which the scheduler and the simulated drive query it.

use crate::error::ProfileError;
use crate::layout::{CYLINDERS_MAX, Layout, Track};
use crate::profile::{FORMAT_VERSION, Profile};
use crate::seek::SeekProfile;
use alloc::format;
use alloc::string::String;
#[cfg(not(feature = "std"))]
use units::Float as _;
use units::{Bytes, Cylinder, Duration, Head, Lbn, LbnRange, Op, Rpm, Sectors};

/// The longest head switch, cylinder switch or write settling accepted, ms: far more than any drive takes.
const SWITCH_MS_MAX: f64 = 1_000.0;

/// The capacity from which a drive is assumed to have a serial bus and a command queue: no parallel SCSI drive had more
/// than 300 GB, and the first drives with a serial bus and a queue, of 2004, had 160 to 400 GB.
pub const MODERN_BYTES_MIN: Bytes = Bytes::new(320_000_000_000);

/// The position of the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The cylinder under the arm.
    pub cylinder: Cylinder,
    /// The head in use.
    pub head: Head,
}

impl From<Track> for Position {
    #[inline]
    fn from(track: Track) -> Self {
        Self { cylinder: track.cylinder, head: track.head }
    }
}

/// A profile that has been checked and prepared for queries: layout, seek times, rotation.
///
/// ```
/// use freeblock_model::{DriveModel, Profile, builtin, units::Lbn};
/// let toml = builtin::text("quantum-atlas-10k").unwrap();
/// let profile = Profile::from_toml(toml, "quantum-atlas-10k.toml").unwrap();
/// let drive = DriveModel::from_profile(&profile).unwrap();
/// let location = drive.layout().locate(Lbn::new(100)).unwrap();
/// assert_eq!(drive.layout().lbn_at(location), Some(Lbn::new(100)));
/// ```
#[derive(Clone, Debug)]
pub struct DriveModel {
    name: String,
    layout: Layout,
    seek: SeekProfile,
    rpm: Rpm,
    sector_bytes: Bytes,
    /// The number of LBNs in a sector of the medium.
    physical_sector: Sectors,
    head_switch: Duration,
    cylinder_switch: Duration,
    /// The extra time of a move that ends in a write; negative in some of DiskSim's files.
    write_settle_ns: i64,
    zero_latency_read: bool,
    zero_latency_write: bool,
    /// Whether the drive has been characterised; see [`DriveModel::is_known`].
    known: bool,
}

impl DriveModel {
    /// Checks and prepares a profile.
    ///
    /// # Errors
    /// A field describes no possible drive; the error has the path of the first such field, and the remedy.
    pub fn from_profile(profile: &Profile) -> Result<Self, ProfileError> {
        if profile.format != FORMAT_VERSION {
            return Err(ProfileError::new(
                "format",
                format!("format {} is not known", profile.format),
                format!("this version reads format {FORMAT_VERSION}"),
            ));
        }
        let rpm = Rpm::new(profile.rpm).ok_or_else(|| {
            ProfileError::new("rpm", format!("{} revolutions a minute", profile.rpm), "give 1 to 100000")
        })?;
        if !(1..=CYLINDERS_MAX).contains(&profile.cylinders) {
            return Err(ProfileError::new(
                "cylinders",
                format!("{} cylinders", profile.cylinders),
                format!("give 1 to {CYLINDERS_MAX}"),
            ));
        }
        if !(1..=256).contains(&profile.heads) {
            return Err(ProfileError::new("heads", format!("{} heads", profile.heads), "give 1 to 256"));
        }
        if !(profile.sector_bytes.is_power_of_two() && (64..=65_536).contains(&profile.sector_bytes)) {
            return Err(ProfileError::new(
                "sector_bytes",
                format!("sectors of {} bytes", profile.sector_bytes),
                "give a power of two from 64 to 65536; drives have 512 or 4096",
            ));
        }
        let physical_sector = physical_sector(profile)?;
        let m = &profile.mechanics;
        let settle = m.write_settle_ms;
        if settle.is_nan() || settle.abs() > SWITCH_MS_MAX {
            return Err(ProfileError::new(
                "mechanics.write_settle_ms",
                format!("{settle} ms"),
                "give milliseconds",
            ));
        }
        let mut before = 0;
        for (i, &(distance, ms)) in m.seek_spread_ms.iter().enumerate() {
            if distance <= before || !(0.0..=SWITCH_MS_MAX).contains(&ms) {
                return Err(ProfileError::new(
                    format!("mechanics.seek_spread_ms[{i}]"),
                    format!("{ms} ms over {distance} cylinders"),
                    "give [cylinders, milliseconds], from 1 cylinder on in ascending distance",
                ));
            }
            before = distance;
        }
        let layout = Layout::new(&profile.layout, profile.cylinders, profile.heads)?;
        layout.check_physical_sectors(physical_sector)?;
        Ok(Self {
            name: profile.name.clone(),
            layout,
            seek: SeekProfile::new(&profile.seek, profile.cylinders)?,
            rpm,
            sector_bytes: Bytes::new(u64::from(profile.sector_bytes)),
            physical_sector: Sectors::new(physical_sector),
            head_switch: duration("mechanics.head_switch_ms", m.head_switch_ms)?,
            cylinder_switch: duration("mechanics.cylinder_switch_ms", m.cylinder_switch_ms.unwrap_or(0.0))?,
            write_settle_ns: (settle * 1e6).round() as i64,
            zero_latency_read: m.zero_latency_read,
            zero_latency_write: m.zero_latency_write,
            known: true,
        })
    }

    /// Returns whether the drive has been characterised; false for an [`unknown`](Self::unknown) one, whose times are
    /// meaningless.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Returns whether the drive is as large as [`MODERN_BYTES_MIN`]. Such drives stop read-ahead as soon as a command
    /// arrives.
    pub fn is_modern(&self) -> bool {
        self.layout().capacity().bytes(self.sector_bytes()) >= MODERN_BYTES_MIN
    }

    pub(crate) fn without_knowledge(mut self) -> Self {
        self.known = false;
        self
    }

    /// Returns the profile's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the layout of the LBNs.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the seek times.
    pub fn seek_profile(&self) -> &SeekProfile {
        &self.seek
    }

    /// Returns the seek time over a distance in cylinders.
    #[inline]
    pub fn seek(&self, distance: u32) -> Duration {
        self.seek.time(distance)
    }

    /// Returns the spindle speed.
    #[inline]
    pub fn rpm(&self) -> Rpm {
        self.rpm
    }

    /// Returns the number of bytes in a sector, as the host sees it.
    pub fn sector_bytes(&self) -> Bytes {
        self.sector_bytes
    }

    /// Returns the number of LBNs in a sector of the medium: 8 on a drive that offers sectors of 512 bytes on a medium with
    /// sectors of 4 KiB; 1 on a drive that offers the sectors of its medium.
    #[inline]
    pub fn physical_sector(&self) -> Sectors {
        self.physical_sector
    }

    /// Returns the sectors of the medium that a write of `range` replaces only in part: the first one if the range begins
    /// inside it, and the last one if the range ends inside it. The drive reads such a sector, and writes it a revolution
    /// later.
    ///
    /// ```
    /// use freeblock_model::{DriveModel, builtin};
    /// use freeblock_model::units::{Lbn, LbnRange, Sectors};
    /// let mut profile = builtin::find("nearline-4tb")?;
    /// profile.physical_sector_bytes = Some(4_096);
    /// profile.layout.zones.truncate(8); // the zones with whole sectors of 4 KiB on each track
    /// let drive = DriveModel::from_profile(&profile)?;
    /// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
    /// assert_eq!(drive.partly_written(range(8, 16)), [None, None]);
    /// assert_eq!(drive.partly_written(range(5, 1)), [Some(range(0, 8)), None]);
    /// assert_eq!(drive.partly_written(range(5, 9)), [Some(range(0, 8)), Some(range(8, 8))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn partly_written(&self, range: LbnRange) -> [Option<LbnRange>; 2] {
        let whole = self.physical_sector.get();
        if whole == 1 || range.is_empty() {
            return [None, None];
        }
        let (start, end) = (range.start().get(), range.end().get());
        let sector = |lbn: u64| LbnRange::new(Lbn::new(lbn / whole * whole), self.physical_sector);
        let (first, last) = (sector(start), sector(end - 1));
        let front =
            (!start.is_multiple_of(whole) || first == last && !end.is_multiple_of(whole)).then_some(first);
        let back = (first != last && !end.is_multiple_of(whole)).then_some(last);
        [front, back]
    }

    /// Returns the time from one head to another on a cylinder.
    pub fn head_switch(&self) -> Duration {
        self.head_switch
    }

    /// Returns whether an access begins at whichever of its sectors on a track passes first.
    #[inline]
    pub fn zero_latency(&self, op: Op) -> bool {
        match op {
            Op::Read => self.zero_latency_read,
            Op::Write => self.zero_latency_write,
        }
    }

    /// Returns the same drive with zero-latency access switched on or off. The simulator of the OSDI 2000 paper had none.
    #[must_use]
    pub fn with_zero_latency(mut self, on: bool) -> Self {
        self.zero_latency_read = on;
        self.zero_latency_write = on;
        self
    }

    /// Returns the same drive with every seek longer by `read_ns` before a read and by `write_ns` before a write; negative
    /// numbers make seeks shorter. Profiles from a probe need this correction, because a probe cannot separate a command's
    /// overhead from its seek, and cannot measure the extra settling of writes without writing. Head switches become
    /// shorter too, but never longer: a transfer that switches heads inside a command has no overhead before the switch.
    ///
    /// ```
    /// use freeblock_model::{DriveModel, Position, builtin};
    /// use freeblock_model::units::{Cylinder, Duration, Op};
    /// let drive = DriveModel::from_profile(&builtin::find("seagate-cheetah-18lp")?)?;
    /// let later = drive.with_moves_longer_by(100_000, 600_000);
    /// let (here, there) = (Position::default(), Position { cylinder: Cylinder::new(9), ..Position::default() });
    /// let longer = |op| later.move_time(here, there, op) - drive.move_time(here, there, op);
    /// assert_eq!(longer(Op::Read), Duration::from_micros(100));
    /// assert_eq!(longer(Op::Write), Duration::from_micros(600));
    /// assert_eq!(later.move_time(here, here, Op::Write), Duration::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_moves_longer_by(&self, read_ns: i32, write_ns: i32) -> Self {
        let shorter = |switch: Duration| {
            Duration::from_nanos(switch.as_nanos().saturating_add_signed(i64::from(read_ns.min(0))))
        };
        Self {
            seek: self.seek.longer_by(read_ns),
            head_switch: shorter(self.head_switch),
            cylinder_switch: shorter(self.cylinder_switch),
            write_settle_ns: self.write_settle_ns + i64::from(write_ns) - i64::from(read_ns),
            ..self.clone()
        }
    }

    /// Returns the time by which a move before a write may be shorter than its seek: the amount of a negative write settling
    /// time, otherwise zero.
    #[inline]
    pub fn settle_credit(&self) -> Duration {
        Duration::from_nanos(self.write_settle_ns.min(0).unsigned_abs())
    }

    /// Returns the time of a move of the arm from `from` to `to` before `op`: the longer of seek and head switch, which
    /// overlap, plus the settling of a write. Zero if the positions are the same.
    #[inline]
    pub fn move_time(&self, from: Position, to: Position, op: Op) -> Duration {
        let distance = from.cylinder.distance(to.cylinder);
        let mut time = self.seek.time(distance);
        if from.head != to.head {
            time = time.max(self.head_switch);
            if distance == 1 {
                time = time.max(self.cylinder_switch);
            }
        } else if distance == 0 {
            return Duration::ZERO;
        }
        match op {
            Op::Write if time > Duration::ZERO => {
                Duration::from_nanos(time.as_nanos().saturating_add_signed(self.write_settle_ns))
            }
            _ => time,
        }
    }
}

/// Returns the LBNs in a sector of the medium.
fn physical_sector(profile: &Profile) -> Result<u64, ProfileError> {
    let Some(bytes) = profile.physical_sector_bytes else { return Ok(1) };
    if bytes.is_power_of_two() && (profile.sector_bytes..=65_536).contains(&bytes) {
        return Ok(u64::from(bytes / profile.sector_bytes));
    }
    Err(ProfileError::new(
        "physical_sector_bytes",
        format!("sectors of {bytes} bytes on the medium, of {} for the host", profile.sector_bytes),
        "give a power of two from sector_bytes to 65536; drives have 512 or 4096",
    ))
}

fn duration(place: &str, ms: f64) -> Result<Duration, ProfileError> {
    Duration::from_millis_f64(ms).filter(|d| *d <= Duration::from_secs(1)).ok_or_else(|| {
        ProfileError::new(place, format!("{ms} ms"), format!("give milliseconds from 0 to {SWITCH_MS_MAX}"))
    })
}
