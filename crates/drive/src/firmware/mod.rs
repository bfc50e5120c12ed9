//! The firmware: commands in, completions out.

mod arm;
mod read;
mod read_ahead;
mod write;

use crate::cache::Segments;
use crate::error::{CommandError, DriveError};
use crate::mechanics::Mechanics;
use crate::rules::Rules;
use crate::run::Run;
use crate::timing::Timing;
use model::profile::{Cache, Profile};
use model::{DriveModel, Position};
use std::collections::VecDeque;
use std::sync::Arc as Shared;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, TrackIndex};

/// The most sectors one command may ask for: half a gibibyte in sectors of 512 bytes.
pub const MOST_SECTORS: Sectors = Sectors::new(1 << 20);

/// The most sectors believed of a segment or of read-ahead.
const MOST_BUFFER: u32 = 1 << 24;

/// What a host asks of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The host's name for it.
    pub id: RequestId,
    /// Read or write.
    pub op: Op,
    /// Which sectors.
    pub range: LbnRange,
}

/// How a command was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// A read found whole in the buffer.
    Hit,
    /// A read whose front was in the buffer, or that caught running read-ahead.
    PartialHit,
    /// A read from the medium.
    Miss,
    /// A write acknowledged from the buffer.
    Buffered,
    /// A write acknowledged from the medium.
    Medium,
}

/// Where a command's time went, as far as the medium is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// How it was served.
    pub served: Served,
    /// When the host submitted it.
    pub submitted: Instant,
    /// Seek, head switch and settling before its first sector.
    pub seek: Duration,
    /// Rotational latency of its first sector.
    pub latency: Duration,
}

/// A command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub id: RequestId,
    /// When the host learned it.
    pub at: Instant,
    /// Where the time went.
    pub breakdown: Breakdown,
}

/// What the firmware makes of a command.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    served: Served,
    seek: Duration,
    latency: Duration,
}

impl Answer {
    /// An answer for which the arm need not move.
    fn from_buffer(at: Instant, served: Served) -> Self {
        Self { at, served, seek: Duration::ZERO, latency: Duration::ZERO }
    }
}

/// A write that is acknowledged and not yet on the medium.
#[derive(Clone, Copy, Debug)]
struct Flush {
    segment: usize,
    end: Instant,
}

/// A drive behind its interface: a state machine without a clock.
///
/// [`submit`](Self::submit) a command at an instant; [`next_event`](Self::next_event) says when something will have
/// happened; [`advance`](Self::advance) there; drain [`pop_completion`](Self::pop_completion). Time must not go
/// backwards. The same calls give the same answers, to the nanosecond.
///
/// ```
/// use freeblock_drive::{Command, Drive};
/// use model::Profile;
/// use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// # let toml = include_str!("../../tests/data/small.toml");
/// let mut drive = Drive::new(&Profile::from_toml(toml, "small.toml").unwrap()).unwrap();
/// let range = LbnRange::new(Lbn::new(50), Sectors::new(8));
/// drive.submit(Instant::ZERO, Command { id: RequestId::new(0), op: Op::Read, range }).unwrap();
/// while let Some(at) = drive.next_event() {
///     drive.advance(at);
///     if let Some(done) = drive.pop_completion() {
///         println!("{} done at {}", done.id, done.at);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Drive {
    mechanics: Mechanics,
    timing: Timing,
    cache: Cache,
    rules: Rules,
    queue_depth: u32,
    segments: Segments,
    /// The least time from a command to a head that is ready.
    shortest_seek: Duration,
    /// Read-ahead that nobody has stopped yet.
    run: Option<Run>,
    flush: Option<Flush>,
    /// When the arm was or will be last at work.
    free: Instant,
    last_op: Op,
    /// LBN after the last command's.
    last_end: Option<Lbn>,
    /// Track of the last write's last sector, if nothing else has moved the arm since.
    last_write_track: Option<TrackIndex>,
    now: Instant,
    waiting: VecDeque<(Instant, Command)>,
    /// The command in service, with its answer.
    serving: Option<Completion>,
    done: VecDeque<Completion>,
    /// Room for the landings of a request, kept so that no command allocates.
    landings: Vec<Instant>,
}

impl Drive {
    /// Makes a drive of a profile, following the hardware's rules.
    ///
    /// # Errors
    /// The first field that describes no drive, and its mend.
    pub fn new(profile: &Profile) -> Result<Self, DriveError> {
        Self::with_rules(profile, Rules::HARDWARE)
    }

    /// The same with chosen rules; [`Rules::DISKSIM`] to compare with DiskSim.
    ///
    /// # Errors
    /// The first field that describes no drive, and its mend.
    pub fn with_rules(profile: &Profile, rules: Rules) -> Result<Self, DriveError> {
        let firmware = profile.firmware.as_ref().ok_or(DriveError::NoFirmware)?;
        let model = DriveModel::from_profile(profile)?;
        let timing = Timing::new(firmware)?;
        let cache = firmware.cache.clone();
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
            if sectors > MOST_BUFFER {
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
        // A miss does all that a hit does before it sends the arm. What a profile gives it less for that was
        // measured as a part of its seeks.
        let in_seeks = timing.read_hit.higher().saturating_sub(timing.read_miss.higher());
        let shortest_seek = shortest.saturating_sub(in_seeks);
        let segments = Segments::new(&cache, rules.writes_keep_reads);
        Ok(Self {
            mechanics: Mechanics::new(Shared::new(model)),
            timing,
            queue_depth: firmware.queue_depth,
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
            serving: None,
            done: VecDeque::new(),
            landings: Vec::new(),
        })
    }

    /// What is known about the drive.
    pub fn model(&self) -> &DriveModel {
        self.mechanics.model()
    }

    /// Where the arm is, as far as the firmware has looked.
    pub fn position(&self) -> Position {
        self.mechanics.position()
    }

    /// Commands inside, completions not yet taken out excepted.
    pub fn outstanding(&self) -> usize {
        self.waiting.len() + usize::from(self.serving.is_some())
    }

    /// Takes a command in at `now`.
    ///
    /// # Errors
    /// A command for no sectors, for more than [`MOST_SECTORS`], past the last LBN, or one too many; the drive is as
    /// before.
    ///
    /// # Panics
    /// In debug builds, when `now` lies before an instant given earlier.
    pub fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        let Command { id, range, .. } = command;
        if range.is_empty() {
            return Err(CommandError::Empty { id, range });
        }
        let capacity = self.model().layout().capacity();
        if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(CommandError::PastEnd { id, range, capacity });
        }
        if range.len() > MOST_SECTORS {
            return Err(CommandError::TooLong { id, range, most: MOST_SECTORS });
        }
        self.advance(now);
        if self.outstanding() >= self.queue_depth as usize {
            return Err(CommandError::QueueFull { id, depth: self.queue_depth });
        }
        self.waiting.push_back((now, command));
        self.serve_next(now);
        Ok(())
    }

    /// The next instant at which a completion will be there, if nothing is submitted before.
    pub fn next_event(&self) -> Option<Instant> {
        if self.done.is_empty() { self.serving.map(|c| c.at) } else { Some(self.now) }
    }

    /// Lets time pass until `now`.
    ///
    /// # Panics
    /// In debug builds, when `now` lies before an instant given earlier.
    pub fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time went backwards");
        while let Some(completion) = self.serving.take_if(|c| c.at <= now) {
            self.now = completion.at;
            self.done.push_back(completion);
            self.serve_next(completion.at);
        }
        self.now = self.now.max(now);
    }

    /// A completion that has happened, in order.
    pub fn pop_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Begins with the next command, first come first served. A scheduler inside the drive would choose here.
    fn serve_next(&mut self, now: Instant) {
        if self.serving.is_some() {
            return;
        }
        let Some((submitted, command)) = self.waiting.pop_front() else { return };
        if self.flush.is_some_and(|f| f.end <= now) {
            self.flush = None;
        }
        self.look_at_run(now);
        let answer = match command.op {
            Op::Read => self.read(now, command.range),
            Op::Write => self.write(now, command.range),
        };
        self.last_op = command.op;
        self.last_end = Some(command.range.end());
        let Answer { at, served, seek, latency } = answer;
        self.serving = Some(Completion {
            id: command.id,
            at,
            breakdown: Breakdown { served, submitted, seek, latency },
        });
    }
}
