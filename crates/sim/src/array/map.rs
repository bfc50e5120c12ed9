//! The addresses of an array: which sectors of which drive hold an LBN, and the commands of a request.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use units::{Bytes, Lbn, LbnRange, Op, Sectors};
use workload::Request;

/// The most drives of an array.
pub const DRIVES_MAX: usize = 1_024;
/// The largest unit of striping, 1 GiB.
pub const UNIT_MAX: Bytes = Bytes::new(1 << 30);

/// How an array spreads its addresses over its drives.
///
/// ```
/// use freeblock_sim::ArrayLayout;
/// use units::Bytes;
/// assert_eq!("raid5:64k".parse(), Ok(ArrayLayout::Raid5 { unit: Bytes::new(65_536) }));
/// assert_eq!("stripe:65536".parse::<ArrayLayout>().unwrap().to_string(), "stripe:64k");
/// assert!("raid6:64k".parse::<ArrayLayout>().unwrap_err().to_string().contains("raid5:BYTES"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLayout {
    /// The sectors of each drive after those of the preceding drive.
    Concatenation,
    /// RAID 0: units of this size, in turn on each drive.
    Stripe {
        /// The size of a unit.
        unit: Bytes,
    },
    /// RAID 1: every drive has every sector.
    Mirror(MirrorReads),
    /// RAID 5, left-symmetric, as Linux's md has it by default: each stripe has one unit of parity.
    Raid5 {
        /// The size of a unit.
        unit: Bytes,
    },
}

/// The rule for the drive of a mirror that a read goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorReads {
    /// The drive with the fewest outstanding commands; among equals, the next after the drive of the last read.
    ShorterQueue,
    /// The next drive after that of the last read.
    Alternating,
}

/// The name of an array's layout that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{found:?} is no layout of an array; the layouts are concatenation, stripe:BYTES, mirror, mirror:alternate and raid5:BYTES, with a unit such as 64k, at most 1g"
)]
pub struct UnknownLayout {
    found: String,
}

impl FromStr for ArrayLayout {
    type Err = UnknownLayout;

    fn from_str(text: &str) -> Result<Self, UnknownLayout> {
        let unit = |text: &str| {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
                "" => 0,
                "k" => 10,
                "m" => 20,
                "g" => 30,
                _ => return None,
            };
            let number: u64 = digits.parse().ok()?;
            let bytes = number.checked_mul(1 << shift)?;
            (1..=UNIT_MAX.get()).contains(&bytes).then(|| Bytes::new(bytes))
        };
        let layout = match text.split_once(':') {
            None if text == "concatenation" => Some(Self::Concatenation),
            None if text == "mirror" => Some(Self::Mirror(MirrorReads::ShorterQueue)),
            Some(("mirror", "alternate")) => Some(Self::Mirror(MirrorReads::Alternating)),
            Some(("stripe", size)) => unit(size).map(|unit| Self::Stripe { unit }),
            Some(("raid5", size)) => unit(size).map(|unit| Self::Raid5 { unit }),
            _ => None,
        };
        layout.ok_or_else(|| UnknownLayout { found: text.to_owned() })
    }
}

impl fmt::Display for ArrayLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sized = |f: &mut fmt::Formatter<'_>, name: &str, unit: Bytes| {
            let units = [(30, "g"), (20, "m"), (10, "k")];
            match units.into_iter().find(|(shift, _)| unit.get().is_multiple_of(1 << shift)) {
                Some((shift, of)) => write!(f, "{name}:{}{of}", unit.get() >> shift),
                None => write!(f, "{name}:{}", unit.get()),
            }
        };
        match self {
            Self::Concatenation => f.write_str("concatenation"),
            Self::Mirror(MirrorReads::ShorterQueue) => f.write_str("mirror"),
            Self::Mirror(MirrorReads::Alternating) => f.write_str("mirror:alternate"),
            Self::Stripe { unit } => sized(f, "stripe", *unit),
            Self::Raid5 { unit } => sized(f, "raid5", *unit),
        }
    }
}

/// The reason why drives make no array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// Too few or too many drives.
    #[error("{layout} has {found} drives; give {least} to {DRIVES_MAX}")]
    Drives {
        /// The layout.
        layout: ArrayLayout,
        /// The number of drives.
        found: usize,
        /// The least number.
        least: usize,
    },
    /// The drives' sectors differ in size.
    #[error(
        "drive {drive} has sectors of {found}, the first drive of {first}; give drives with sectors of one size"
    )]
    SectorSize {
        /// The drive, from 0.
        drive: usize,
        /// The size of that drive's sectors.
        found: Bytes,
        /// The size of the first drive's sectors.
        first: Bytes,
    },
    /// A unit that is not a whole number of sectors, or is larger than a drive.
    #[error(
        "{layout}: give a unit of whole sectors ({sector}) that fits on the smallest drive ({smallest} sectors)"
    )]
    Unit {
        /// The layout.
        layout: ArrayLayout,
        /// The size of a sector.
        sector: Bytes,
        /// The size of the smallest drive.
        smallest: Sectors,
    },
}

/// A command of a request at one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberCommand {
    /// The drive, from 0.
    pub drive: usize,
    /// Read or write.
    pub op: Op,
    /// The sectors on that drive.
    pub range: LbnRange,
}

/// A part of a request: the commands of `before` are sent at once, those of `after` when all of `before` are done.
/// Steps of one request are independent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Reads of old data and parity.
    pub before: Vec<MemberCommand>,
    /// The commands that carry out the request.
    pub after: Vec<MemberCommand>,
}

/// The addresses of an array.
///
/// ```
/// use freeblock_sim::{ArrayLayout, ArrayMap};
/// use units::{Bytes, Lbn, Sectors};
/// let layout = ArrayLayout::Stripe { unit: Bytes::new(65_536) };
/// let map = ArrayMap::new(layout, &[Sectors::new(1_000_000); 4], Bytes::new(512))?;
/// assert_eq!(map.capacity(), Sectors::new(3_999_744));
/// assert_eq!(map.locate(Lbn::new(128)), (1, Lbn::new(0)));
/// assert_eq!(map.locate(Lbn::new(515)), (0, Lbn::new(131)));
/// # Ok::<(), freeblock_sim::ArrayError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArrayMap {
    layout: ArrayLayout,
    /// The first LBN of each drive under concatenation, and the LBN behind the last drive.
    starts: Vec<u64>,
    /// The sectors of a unit; a mirror's unit is a drive.
    unit: u64,
    /// The number of drives that hold data in each stripe.
    data: u64,
    drives: u64,
    capacity: Sectors,
    /// The drive that the last read of a mirror went to.
    last_read: usize,
}

/// The place of an LBN of the array.
struct Placed {
    drive: usize,
    /// The LBN on that drive.
    lbn: u64,
    /// The number of sectors from there on that are consecutive on that drive.
    sectors: u64,
}

impl ArrayMap {
    /// Returns the addresses of an array of drives with these sizes, with sectors of `sector` bytes. Striped drives are used
    /// up to the size of the smallest, in whole units.
    ///
    /// # Errors
    /// Too few or too many drives, or a unit that does not fit.
    pub fn new(layout: ArrayLayout, drives: &[Sectors], sector: Bytes) -> Result<Self, ArrayError> {
        let least = match layout {
            ArrayLayout::Concatenation | ArrayLayout::Stripe { .. } => 1,
            ArrayLayout::Mirror(_) => 2,
            ArrayLayout::Raid5 { .. } => 3,
        };
        if !(least..=DRIVES_MAX).contains(&drives.len()) {
            return Err(ArrayError::Drives { layout, found: drives.len(), least });
        }
        let smallest = drives.iter().copied().min().unwrap_or_default();
        let wrong = || ArrayError::Unit { layout, sector, smallest };
        let sectors = |bytes: Bytes| {
            let whole = sector.get() > 0 && bytes.get().is_multiple_of(sector.get());
            let unit = if whole { bytes.get() / sector.get() } else { 0 };
            if unit == 0 || unit > smallest.get() { Err(wrong()) } else { Ok(unit) }
        };
        let count = drives.len() as u64;
        let (unit, data) = match layout {
            ArrayLayout::Concatenation | ArrayLayout::Mirror(_) => (smallest.get().max(1), 1),
            ArrayLayout::Stripe { unit } => (sectors(unit)?, count),
            ArrayLayout::Raid5 { unit } => (sectors(unit)?, count - 1),
        };
        let mut starts = vec![0];
        let mut sum = 0u64;
        for drive in drives {
            sum = sum.saturating_add(drive.get());
            starts.push(sum);
        }
        let capacity = match layout {
            ArrayLayout::Concatenation => sum,
            ArrayLayout::Mirror(_) => smallest.get(),
            _ => (smallest.get() / unit * unit).saturating_mul(data),
        };
        let capacity = Sectors::new(capacity);
        Ok(Self { layout, starts, unit, data, drives: count, capacity, last_read: drives.len() - 1 })
    }

    /// Returns the layout.
    pub const fn layout(&self) -> ArrayLayout {
        self.layout
    }

    /// Returns the sectors of the array.
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Returns the drive of an LBN of the array, from 0, and its LBN there; of a mirror, the first drive.
    pub fn locate(&self, lbn: Lbn) -> (usize, Lbn) {
        let Placed { drive, lbn: at, .. } = self.place(lbn.get());
        (drive, Lbn::new(at))
    }

    /// Returns the drive of the parity in the stripe of an LBN; `None` if the layout is not RAID 5.
    pub fn parity(&self, lbn: Lbn) -> Option<usize> {
        matches!(self.layout, ArrayLayout::Raid5 { .. })
            .then(|| self.parity_drive(lbn.get() / self.unit / self.data) as usize)
    }

    /// Returns the place of an LBN.
    fn place(&self, lbn: u64) -> Placed {
        match self.layout {
            ArrayLayout::Mirror(_) => {
                Placed { drive: 0, lbn, sectors: self.capacity.get().saturating_sub(lbn) }
            }
            ArrayLayout::Concatenation => {
                let drive = self.starts.partition_point(|start| *start <= lbn).saturating_sub(1);
                let start = self.starts.get(drive).copied().unwrap_or_default();
                let end = self.starts.get(drive + 1).copied().unwrap_or(start);
                Placed { drive, lbn: lbn - start, sectors: end.saturating_sub(lbn) }
            }
            ArrayLayout::Stripe { .. } | ArrayLayout::Raid5 { .. } => {
                let (unit, offset) = (lbn / self.unit, lbn % self.unit);
                let (stripe, index) = (unit / self.data, unit % self.data);
                let drive = match self.layout {
                    // The data of a stripe begin on the drive after the parity's, and wrap around.
                    ArrayLayout::Raid5 { .. } => (self.parity_drive(stripe) + 1 + index) % self.drives,
                    _ => index,
                };
                Placed {
                    drive: drive as usize,
                    lbn: stripe * self.unit + offset,
                    sectors: self.unit - offset,
                }
            }
        }
    }

    /// Returns the drive of a stripe's parity: the last drive in the first stripe, and one further to the left in
    /// each following stripe (md's `ALGORITHM_LEFT_SYMMETRIC`).
    const fn parity_drive(&self, stripe: u64) -> u64 {
        self.drives - 1 - stripe % self.drives
    }

    /// Returns the pieces of a range; consecutive pieces on a drive are joined.
    fn pieces(&self, op: Op, range: LbnRange) -> Vec<MemberCommand> {
        let mut parts = Parts::default();
        let (mut at, end) = (range.start().get(), range.end().get());
        while at < end {
            let Placed { drive, lbn, sectors: consecutive } = self.place(at);
            let len = consecutive.min(end - at).max(1);
            parts.add(drive, op, lbn, len);
            at += len;
        }
        parts.0
    }

    /// Returns the commands of a request that lies within the capacity. `outstanding` returns the number of commands at
    /// a drive, for a mirror's reads.
    pub fn plan(&mut self, request: Request, outstanding: impl Fn(usize) -> usize) -> Vec<Step> {
        let Request { op, range } = request;
        match (self.layout, op) {
            (ArrayLayout::Mirror(_), Op::Write) => {
                let all = (0..self.drives as usize).map(|drive| MemberCommand { drive, op, range }).collect();
                vec![Step { before: Vec::new(), after: all }]
            }
            (ArrayLayout::Mirror(reads), Op::Read) => {
                let count = self.drives as usize;
                let next = (self.last_read + 1) % count;
                let rotation = (0..count).map(|n| (next + n) % count);
                let drive = match reads {
                    MirrorReads::Alternating => next,
                    MirrorReads::ShorterQueue => {
                        rotation.min_by_key(|drive| outstanding(*drive)).unwrap_or(next)
                    }
                };
                self.last_read = drive;
                vec![Step { before: Vec::new(), after: vec![MemberCommand { drive, op, range }] }]
            }
            (ArrayLayout::Raid5 { .. }, Op::Write) => self.raid5_write(range),
            _ => vec![Step { before: Vec::new(), after: self.pieces(op, range) }],
        }
    }

    /// Returns a flush of every drive. The commands of a flush have no sectors.
    pub fn flush(&self) -> Step {
        let none = LbnRange::new(Lbn::ZERO, Sectors::ZERO);
        let all = (0..self.drives as usize).map(|drive| MemberCommand { drive, op: Op::Write, range: none });
        Step { before: Vec::new(), after: all.collect() }
    }

    /// Returns the commands of a discard that lies within the capacity. RAID 5 discards whole stripes with their
    /// parity, as md does, and ignores the rest, so there may be no commands.
    pub fn discard(&mut self, range: LbnRange) -> Vec<Step> {
        let whole = match self.layout {
            ArrayLayout::Raid5 { .. } => {
                let stripe = self.unit * self.data;
                let start = range.start().get().next_multiple_of(stripe);
                let end = range.end().get() / stripe * stripe;
                LbnRange::new(Lbn::new(start), Sectors::new(end.saturating_sub(start)))
            }
            _ => range,
        };
        if whole.is_empty() {
            return Vec::new();
        }
        // The sectors are those of a write to `whole`, which reads nothing first because it covers whole stripes.
        self.plan(Request { op: Op::Write, range: whole }, |_| 0)
    }

    /// Returns the steps of a write: one for each stripe that is not written in full, and one for all stripes that
    /// are.
    fn raid5_write(&self, range: LbnRange) -> Vec<Step> {
        let stripe_len = self.unit * self.data;
        let (start, end) = (range.start().get(), range.end().get());
        let mut steps = Vec::new();
        let mut full = Parts::default();
        let mut at = start;
        while at < end {
            let stripe = at / stripe_len;
            let last = (stripe + 1).saturating_mul(stripe_len).min(end);
            let parity = self.parity_drive(stripe) as usize;
            let base = stripe * self.unit;
            if last - at == stripe_len {
                for index in 0..self.data {
                    let Placed { drive, lbn, sectors: len } = self.place(at + index * self.unit);
                    full.add(drive, Op::Write, lbn, len);
                }
                full.add(parity, Op::Write, base, self.unit);
            } else {
                steps.push(self.partial_stripe(at, last));
            }
            at = last;
        }
        if !full.0.is_empty() {
            steps.push(Step { before: Vec::new(), after: full.0 });
        }
        steps
    }

    /// Returns the step that writes a part of a stripe. The step first reads either the old data and the old parity
    /// (read-modify-write) or the rest of the stripe (reconstruct-write), whichever is fewer sectors, and the rest if
    /// they are equal, as md does.
    fn partial_stripe(&self, start: u64, end: u64) -> Step {
        let stripe_len = self.unit * self.data;
        let stripe = start / stripe_len;
        let parity = self.parity_drive(stripe) as usize;
        let base = stripe * self.unit;
        // The written part of each unit, as offsets.
        let written = |index: u64| {
            let begin = stripe * stripe_len + index * self.unit;
            let (low, high) = (start.clamp(begin, begin + self.unit), end.clamp(begin, begin + self.unit));
            (low - begin, high - begin)
        };
        // The offsets in a unit at which the parity changes: one interval, or two if the end of one unit and the
        // beginning of the next are written.
        let mut changed: Vec<(u64, u64)> =
            (0..self.data).map(written).filter(|(low, high)| low < high).collect();
        changed.sort_unstable();
        let mut offsets: Vec<(u64, u64)> = Vec::new();
        for (low, high) in changed {
            match offsets.last_mut() {
                Some(last) if low <= last.1 => last.1 = last.1.max(high),
                _ => offsets.push((low, high)),
            }
        }
        let (mut modify, mut rest, mut write) = (Parts::default(), Parts::default(), Parts::default());
        for index in 0..self.data {
            let drive = self.place(stripe * stripe_len + index * self.unit).drive;
            let (low, high) = written(index);
            if low < high {
                modify.add(drive, Op::Read, base + low, high - low);
                write.add(drive, Op::Write, base + low, high - low);
            }
            for (from, to) in &offsets {
                let before = (*from, (*to).min(if low < high { low } else { *to }));
                let behind = ((*from).max(if low < high { high } else { *to }), *to);
                for (from, to) in [before, behind] {
                    if from < to {
                        rest.add(drive, Op::Read, base + from, to - from);
                    }
                }
            }
        }
        for (from, to) in &offsets {
            modify.add(parity, Op::Read, base + from, to - from);
            write.add(parity, Op::Write, base + from, to - from);
        }
        let before = if modify.sectors() < rest.sectors() { modify.0 } else { rest.0 };
        Step { before, after: write.0 }
    }
}

/// A list of commands; a command that continues the last one of its drive is joined to it.
#[derive(Default)]
struct Parts(Vec<MemberCommand>);

impl Parts {
    fn add(&mut self, drive: usize, op: Op, lbn: u64, len: u64) {
        let last = self.0.iter_mut().rev().find(|part| part.drive == drive);
        if let Some(last) = last.filter(|part| part.range.end().get() == lbn) {
            last.range = LbnRange::new(last.range.start(), Sectors::new(last.range.len().get() + len));
        } else {
            self.0.push(MemberCommand { drive, op, range: LbnRange::new(Lbn::new(lbn), Sectors::new(len)) });
        }
    }

    fn sectors(&self) -> u64 {
        self.0.iter().map(|part| part.range.len().get()).sum()
    }
}
