//! The firmware of the simulated drive: takes commands, and computes the times of their completions.

mod arm;
mod build;
mod cache_ops;
mod chance;
mod queue;
mod read;
mod read_ahead;
mod recalibration;
mod rereads;
mod write;
mod write_cache;

#[cfg(test)]
mod tests;

use crate::behaviour::Queue;
use crate::cache::Segments;
use crate::error::CommandError;
use crate::faults::Unreadable;
use crate::mechanics::Mechanics;
use crate::rules::Rules;
use crate::run::Run;
use crate::spindle::Spindle;
use crate::timing::Timing;
use chance::Chance;
use model::profile::Cache;
use model::{DriveModel, Position};
use recalibration::Recalibrations;
use rereads::Rereads;
use std::collections::VecDeque;
use units::{CacheOps, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, TrackIndex};
use write_cache::WriteCache;

/// The most sectors in one command: half a gibibyte in sectors of 512 bytes, far more than a host sends.
pub const COMMAND_SECTORS_MAX: Sectors = Sectors::new(1 << 20);

/// The most sectors that a profile may give a segment or read-ahead: 8 GiB in sectors of 512 bytes, far beyond any
/// drive.
const BUFFER_SECTORS_MAX: u32 = 1 << 24;

/// A command of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The id, which the host chooses.
    pub id: RequestId,
    /// The operation.
    pub op: Op,
    /// The sectors.
    pub range: LbnRange,
}

/// The way in which a command was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// A read that was wholly in the buffer.
    Hit,
    /// A read whose front was in the buffer, or was about to be read by running read-ahead.
    PartialHit,
    /// A read from the medium.
    Miss,
    /// A write acknowledged from the buffer.
    Buffered,
    /// A write acknowledged from the medium.
    Medium,
    /// A flush without sectors: all completed writes are on the medium.
    Flushed,
    /// A discard, which transfers no data.
    Discarded,
}

/// The parts of a command's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// The way in which the command was served.
    pub served: Served,
    /// The time of submission.
    pub submitted: Instant,
    /// The time at which service began: the command was chosen, and the arm had done its earlier work. The service of a
    /// write that is acknowledged from a write cache begins when the write is submitted, or when the cache has room for it.
    pub began: Instant,
    /// The time of seek, head switch and settling before the first sector.
    pub seek: Duration,
    /// The rotational latency of the first sector.
    pub latency: Duration,
    /// The time in which the sectors pass under the head at the profile's speed; zero for a command served from the
    /// buffer.
    pub transfer: Duration,
    /// The time at which all sectors had passed and the arm was free. For a command served from the buffer, the end of the
    /// arm's preceding work.
    pub medium_end: Instant,
}

impl Breakdown {
    /// Returns the parts of a command's time without a move of the arm, whose preceding work ends at `medium_end`.
    fn without_the_arm(served: Served, [submitted, began, medium_end]: [Instant; 3]) -> Self {
        let none = Duration::ZERO;
        Self { served, submitted, began, seek: none, latency: none, transfer: none, medium_end }
    }
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id of the command.
    pub id: RequestId,
    /// The time of the completion.
    pub at: Instant,
    /// The parts of the command's time.
    pub breakdown: Breakdown,
    /// The first sector that could not be read, if the command failed; the host then gets no data.
    pub failed: Option<Lbn>,
}

/// A submitted command whose service has not begun.
#[derive(Clone, Copy, Debug)]
struct QueuedCommand {
    came: Instant,
    command: Command,
    cache: CacheOps,
}

/// A command whose service begins.
#[derive(Clone, Copy, Debug)]
struct Service {
    range: LbnRange,
    /// The time at which service begins.
    now: Instant,
    /// The time at which the command's overhead begins. In a queue the overhead overlaps with the service of the command
    /// before.
    since: Instant,
}

impl Service {
    /// Returns the first time at which the overhead is over and service has begun.
    fn after(&self, overhead: Duration) -> Instant {
        (self.since + overhead).max(self.now)
    }
}

/// The result of serving a command: the completion time before random delays, and the times of the arm.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    served: Served,
    seek: Duration,
    latency: Duration,
}

impl Answer {
    /// Returns the answer to a command that does not move the arm.
    fn from_buffer(at: Instant, served: Served) -> Self {
        Self { at, served, seek: Duration::ZERO, latency: Duration::ZERO }
    }
}

/// A write that has been acknowledged and is being written to the medium until `end`.
#[derive(Clone, Copy, Debug)]
struct Flush {
    segment: usize,
    end: Instant,
}

/// A simulated drive that takes commands: a state machine without a clock.
///
/// The host calls [`submit`](Self::submit) for a command. [`next_event`](Self::next_event) returns the time of the next
/// event: at that time the host calls [`advance`](Self::advance), and [`pop_completion`](Self::pop_completion) until it
/// returns `None`. Time must not go backwards. The same calls give the same completions, to the nanosecond.
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
    holds_bus_read: bool,
    rules: Rules,
    queue: Queue,
    queue_depth: u32,
    chance: Chance,
    recalibration: Option<Recalibrations>,
    eager_read_ahead: bool,
    /// Whether a command stops read-ahead at once, even in the middle of a move or a sector.
    prompt_read_ahead: bool,
    rereads: Rereads,
    write_cache: WriteCache,
    unreadable: Unreadable,
    grown_defects: Vec<Lbn>,
    segments: Segments,
    /// The least time from the start of a read to a head that is ready on the track.
    shortest_seek: Duration,
    /// The read-ahead in progress.
    run: Option<Run>,
    flush: Option<Flush>,
    /// The end of the arm's last work, in the past or the future.
    free: Instant,
    last_op: Op,
    /// The LBN after those of the last command.
    last_end: Option<Lbn>,
    /// The track of the last write's last sector, if no read has moved the arm since.
    last_write_track: Option<TrackIndex>,
    now: Instant,
    waiting: VecDeque<QueuedCommand>,
    /// In a drive with a queue: the time at which the arm has finished all commands in service.
    arm_free: Instant,
    /// In a drive with a queue: the time at which the bus has finished all commands in service.
    bus_free: Instant,
    /// The completions of the commands in service, by time.
    finishing: VecDeque<Completion>,
    done: VecDeque<Completion>,
    /// The times at which the sectors of a read land in the buffer. The memory is reused, so that commands do not allocate.
    landings: Vec<Instant>,
}

impl Drive {
    /// Returns the model of the drive.
    pub fn model(&self) -> &DriveModel {
        self.mechanics.model()
    }

    /// Returns the spindle.
    pub fn spindle(&self) -> &Spindle {
        self.mechanics.spindle()
    }

    /// Returns the LBNs that were moved to spare sectors since the profile was written, ascending. The layout of
    /// [`model`](Self::model) has their new places.
    pub fn grown_defects(&self) -> &[Lbn] {
        &self.grown_defects
    }

    /// Iterates over the unreadable sectors, ascending.
    pub fn unreadable(&self) -> impl Iterator<Item = Lbn> + '_ {
        self.unreadable.iter()
    }

    /// Makes sectors unreadable until they are written.
    pub fn damage(&mut self, range: LbnRange) {
        let last = Lbn::new(self.model().layout().capacity().get());
        let end = range.checked_end().unwrap_or(last).min(last);
        let start = range.start().min(end);
        self.unreadable.damage(LbnRange::new(start, end.since(start)));
    }

    /// Returns the most commands that the drive takes at a time.
    pub fn queue_depth(&self) -> usize {
        self.queue_depth as usize
    }

    /// Returns the position of the arm after the last move that the firmware has computed.
    pub fn position(&self) -> Position {
        self.mechanics.position()
    }

    /// Returns the time at which the arm has finished all commands and cached writes whose service has begun, in the past or
    /// the future. Zero for a drive without a queue.
    pub fn arm_free_at(&self) -> Instant {
        self.arm_free
    }

    /// Returns the number of commands in the drive that are not complete.
    pub fn outstanding(&self) -> usize {
        self.waiting.len() + self.finishing.len()
    }

    /// Submits a command at `now`.
    ///
    /// # Errors
    /// The command has no sectors or more than [`COMMAND_SECTORS_MAX`], or goes past the last LBN, or the queue is full. The
    /// drive is unchanged.
    ///
    /// # Panics
    /// In debug builds, if `now` is before the time of an earlier call.
    pub fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.submit_with(now, command, CacheOps::default())
    }

    /// Submits a command with orders for the write cache at `now`.
    ///
    /// - A flush is a barrier, as in ATA, whose flush cannot be queued. The commands before the flush are completed, then all
    ///   cached writes go to the medium; then the flush is complete or, if it has sectors, is served as a command. Commands
    ///   after the flush wait until then.
    /// - A forced write is complete when it is on the medium.
    /// - A discard takes a command's overhead and does not move the arm. Its sectors leave the buffer, and cached writes that
    ///   lie wholly in its range are dropped. Its range may be as long as the drive.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); but a flush may have no sectors, and a discard may be longer.
    ///
    /// # Panics
    /// As [`submit`](Self::submit).
    pub fn submit_with(
        &mut self,
        now: Instant,
        command: Command,
        cache: CacheOps,
    ) -> Result<(), CommandError> {
        let capacity = self.model().layout().capacity();
        command.check(capacity, cache)?;
        self.advance(now);
        if self.outstanding() >= self.queue_depth as usize {
            return Err(CommandError::QueueFull { id: command.id, depth: self.queue_depth });
        }
        self.waiting.push_back(QueuedCommand { came: now, command, cache });
        self.serve_next(now);
        Ok(())
    }

    /// Returns the time of the next event, if no command is submitted before: a completion, or the choice of the next
    /// command from a queue.
    pub fn next_event(&self) -> Option<Instant> {
        if !self.done.is_empty() {
            return Some(self.now);
        }
        let completion = self.finishing.front().map(|c| c.at);
        let service = self.next_service();
        completion.into_iter().chain(service).min()
    }

    /// Advances the time to `now`.
    ///
    /// # Panics
    /// In debug builds, if `now` is before the time of an earlier call.
    pub fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time went backwards");
        loop {
            let service = self.next_service().filter(|&at| at <= now);
            match self.finishing.front() {
                Some(c) if c.at <= now && service.is_none_or(|service| c.at <= service) => {
                    self.now = c.at;
                    self.done.extend(self.finishing.pop_front());
                }
                _ if service.is_some() => self.now = service.unwrap_or(now),
                _ => break,
            }
            self.serve_next(self.now);
        }
        self.now = self.now.max(now);
    }

    /// Removes and returns the oldest completion.
    pub fn pop_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Begins the service of all commands that can begin now: without a queue one at most.
    fn serve_next(&mut self, now: Instant) {
        loop {
            self.held_write_arrived(now);
            self.pass_barrier(now);
            let completion = match self.take_write(now).or_else(|| self.take_discard(now)) {
                Some(taken) => taken,
                None => match self.choose(now) {
                    Some(chosen) => self.serve(now, chosen),
                    None if self.write_held(now) => continue,
                    None => break,
                },
            };
            let later = self.finishing.iter().rev().take_while(|c| c.at > completion.at).count();
            self.finishing.insert(self.finishing.len() - later, completion);
        }
    }

    fn serve(&mut self, now: Instant, QueuedCommand { came, command, cache }: QueuedCommand) -> Completion {
        if self.flush.is_some_and(|f| f.end <= now) {
            self.flush = None;
        }
        if cache.discard || cache.flush {
            return self.without_the_arm(now, QueuedCommand { came, command, cache });
        }
        self.recalibrate(now);
        let tagged = self.queue != Queue::Serial;
        if tagged {
            self.go_on_without_read_ahead(now);
        }
        self.look_at_run(now);
        let since = if tagged { came } else { now } + self.chance.command();
        let service = Service { range: command.range, now, since };
        let failed = self.before_the_medium(&command);
        let mut answer = match command.op {
            Op::Read => self.read(service),
            Op::Write => self.write(service, cache.forced),
        };
        if failed.is_some() {
            self.try_again(&mut answer);
        }
        self.last_op = command.op;
        self.last_end = Some(command.range.end());
        let Answer { at, served, seek, latency } = answer;
        let medium_end = self.free;
        let transfer = match served {
            Served::Hit | Served::Buffered | Served::Flushed | Served::Discarded => Duration::ZERO,
            Served::PartialHit | Served::Miss | Served::Medium => self.passing_time(command.range),
        };
        if tagged {
            self.arm_free = medium_end.max(now);
        }
        let at = at + self.chance.completion();
        Completion {
            id: command.id,
            at,
            breakdown: Breakdown { served, submitted: came, began: now, seek, latency, transfer, medium_end },
            failed,
        }
    }

    /// Returns the first unreadable sector of a read, and removes that sector from the buffer. A write makes its sectors
    /// readable.
    fn before_the_medium(&mut self, command: &Command) -> Option<Lbn> {
        match command.op {
            Op::Read => {
                let bad = self.unreadable.first_in(command.range)?;
                self.run = None;
                self.segments.forget(LbnRange::new(bad, Sectors::new(1)));
                Some(bad)
            }
            Op::Write => {
                self.unreadable.mend(command.range);
                None
            }
        }
    }

    /// Delays the answer to a failing read by the revolutions for which the drive retries.
    fn try_again(&mut self, answer: &mut Answer) {
        let lost = self.revolution(self.free) * u64::from(self.unreadable.retries);
        answer.at += lost;
        self.free = self.free.max(answer.at);
        self.run = None;
    }

    /// Returns the time in which the sectors pass under the head at the profile's speed, without the moves between tracks.
    fn passing_time(&self, range: LbnRange) -> Duration {
        let model = self.model();
        let pieces = model.layout().pieces(range);
        pieces.map(|p| model.rpm().time_within(model.layout().track(p.track).arc(p.sector, p.len))).sum()
    }

    /// Returns the duration of a revolution at the speed of an instant.
    fn revolution(&self, at: Instant) -> Duration {
        self.mechanics.spindle().speed_at(at).revolution()
    }
}

impl Command {
    /// Fails if a drive of this capacity must refuse the command.
    pub(crate) fn check(&self, capacity: Sectors, cache: CacheOps) -> Result<(), CommandError> {
        let Self { id, range, .. } = *self;
        if range.is_empty() {
            if cache.flush {
                return Ok(());
            }
            return Err(CommandError::Empty { id, range });
        }
        if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(CommandError::PastEnd { id, range, capacity });
        }
        if range.len() > COMMAND_SECTORS_MAX && cache.transfers() {
            return Err(CommandError::TooLong { id, range, most: COMMAND_SECTORS_MAX });
        }
        Ok(())
    }
}
