//! The firmware: commands in, completions out.

use crate::cache::{Content, Found, Segments};
use crate::error::{CommandError, DriveError};
use crate::mechanics::Mechanics;
use crate::rules::Rules;
use crate::run::{Doing, Run};
use crate::timing::Timing;
use model::profile::{Cache, Profile, ReadAhead, WriteBack};
use model::{DriveModel, Position, Track};
use std::collections::VecDeque;
use std::sync::Arc as Shared;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, TrackIndex};

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
/// # let toml = include_str!("../tests/data/small.toml");
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
        let shortest_seek = (1..=farthest).map(|d| model.seek(d)).min().unwrap_or(Duration::ZERO);
        let segments = Segments::new(
            cache.segments,
            Sectors::new(u64::from(cache.segment_sectors)),
            cache.write_segments,
            cache.read_hits_on_written,
            rules.writes_keep_reads,
        );
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
    /// A command for no sectors, past the last LBN, or one too many; the drive is as before.
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
        let (at, served, seek, latency) = match command.op {
            Op::Read => self.read(now, command.range),
            Op::Write => self.write(now, command.range),
        };
        self.last_op = command.op;
        self.last_end = Some(command.range.end());
        self.serving = Some(Completion {
            id: command.id,
            at,
            breakdown: Breakdown { served, submitted, seek, latency },
        });
    }

    /// Brings read-ahead and its segment up to `now`.
    fn look_at_run(&mut self, now: Instant) {
        let Some(run) = &mut self.run else { return };
        let ended = run.advance(&mut self.mechanics, now);
        let (segment, next, around) = (run.segment, run.next, run.around);
        let size = self.segments.size;
        let s = self.segments.get_mut(segment);
        s.grow(next, size);
        if let Some(end) = ended {
            if let Some((first, _)) = around {
                // The turn is complete: what passed before the request came into the buffer as well.
                let room = Lbn::new(s.end.get().saturating_sub(size.get()));
                s.start = s.start.min(first.max(room));
            }
            self.free = end;
            self.run = None;
        }
    }

    /// Stops read-ahead for a new command; returns when the arm can be used.
    fn stop_run(&mut self, now: Instant) -> Instant {
        let Some(mut run) = self.run.take() else { return self.free.max(now) };
        let size = self.segments.size;
        let mut at = now;
        if run.least > run.next {
            // Least read-ahead comes first.
            let least = run.least;
            run.land(&mut self.mechanics, least, |_| {});
            at = at.max(run.landed_at(self.mechanics.model()));
        } else {
            let (doing, until) = run.doing(self.mechanics.model(), now);
            let waits = match doing {
                Doing::Moving => true,
                Doing::Waiting => !self.rules.overlapped_stop && !self.cache.stop_in_sector,
                Doing::Reading => !self.cache.stop_in_sector,
            };
            if waits {
                at = until.max(now);
                if doing == Doing::Reading {
                    run.land(&mut self.mechanics, run.next + Sectors::new(1), |_| {});
                }
            }
        }
        self.segments.get_mut(run.segment).grow(run.next, size);
        self.free = at;
        at
    }

    fn flush_end(&self) -> Instant {
        self.flush.map_or(Instant::ZERO, |f| f.end)
    }

    fn continues(&self, op: Op, range: LbnRange) -> bool {
        self.last_op == op && self.last_end == Some(range.start())
    }

    fn read_hit_overhead(&self, range: LbnRange) -> Duration {
        let pair = self.timing.read_hit;
        if self.rules.overhead_by_locality && self.last_op == Op::Read && !self.continues(Op::Read, range) {
            pair.higher()
        } else {
            pair.after(self.last_op)
        }
    }

    fn read(&mut self, now: Instant, range: LbnRange) -> (Instant, Served, Duration, Duration) {
        let reading = self.run.as_ref().map(|r| r.segment);
        let (segment, found) = if self.cache.enabled {
            self.segments.for_read(range, reading)
        } else {
            (self.segments.for_read(range, reading).0, Found::Nothing)
        };
        self.segments.touch(segment);
        match found {
            Found::All => self.read_hit(now, range, segment),
            Found::Front if reading == Some(segment) => self.read_stream(now, range),
            _ => self.read_medium(now, range, segment, found),
        }
    }

    fn read_hit(
        &mut self,
        now: Instant,
        range: LbnRange,
        segment: usize,
    ) -> (Instant, Served, Duration, Duration) {
        let end = range.end();
        let transfer = self.timing.read_sector * range.len().get();
        let flush = self.flush_end();
        let mut done = now + self.read_hit_overhead(range) + self.timing.data_preparation + transfer;
        if flush > now {
            // The firmware writes first.
            done = flush.max(now + self.timing.read_miss.after(self.last_op)) + transfer;
        } else if self.run.is_some() {
            let limit = self.read_ahead_limit(segment, end);
            if let Some(run) = self.run.as_mut().filter(|r| r.segment == segment && r.around.is_none()) {
                run.limit = run.limit.max(limit);
            }
        } else if self.cache.read_ahead_on_idle_hit && self.free <= now {
            let from = self.segments.get(segment).end;
            let limit = self.read_ahead_limit(segment, end);
            if limit > from {
                self.run = Run::start(&mut self.mechanics, segment, done, done, from, limit);
            }
        }
        self.give_up_served(segment, end);
        (done + self.timing.read_completion, Served::Hit, Duration::ZERO, Duration::ZERO)
    }

    /// The read goes on where running read-ahead is, or a little behind it.
    fn read_stream(&mut self, now: Instant, range: LbnRange) -> (Instant, Served, Duration, Duration) {
        let Some(mut run) = self.run.take() else {
            return (now, Served::PartialHit, Duration::ZERO, Duration::ZERO);
        };
        let end = range.end();
        run.limit = run.limit.max(end);
        let cached = run.next.get().saturating_sub(range.start().get());
        let overhead = if cached > 0 {
            self.read_hit_overhead(range)
        } else {
            self.timing.read_miss.after(self.last_op)
        };
        let sector = self.timing.read_sector;
        let mut bus = now + overhead + self.timing.data_preparation + sector * cached;
        run.land(&mut self.mechanics, end, |landed| bus = bus.max(landed) + sector);
        let segment = run.segment;
        let size = self.segments.size;
        self.segments.get_mut(segment).grow(run.next, size);
        self.read_on(run, end);
        (bus + self.timing.read_completion, Served::PartialHit, Duration::ZERO, Duration::ZERO)
    }

    fn read_medium(
        &mut self,
        now: Instant,
        range: LbnRange,
        segment: usize,
        found: Found,
    ) -> (Instant, Served, Duration, Duration) {
        let end = range.end();
        let t = &self.timing;
        let (overhead, preparation, reselect, sector) =
            (t.read_miss.after(self.last_op), t.data_preparation, t.first_reselect, t.read_sector);
        let set_out = self.arm_ready(now, overhead).max(self.flush_end());
        let ready = if self.rules.shortest_access { now + self.shortest_seek } else { now };
        let first = if found == Found::Front {
            self.segments.get(segment).end
        } else {
            let s = self.segments.get_mut(segment);
            s.start = range.start();
            s.end = range.start();
            range.start()
        };
        self.segments.get_mut(segment).content = Content::Read;
        self.last_write_track = None;
        let Some(mut run) = Run::start(&mut self.mechanics, segment, set_out, ready, first, end) else {
            return (now, Served::Miss, Duration::ZERO, Duration::ZERO);
        };
        let (seek, latency) = (run.first_seek, run.first_latency);

        let cached = first.since(range.start()).get();
        let done = if cached > 0 {
            let mut bus = now + self.read_hit_overhead(range) + preparation + sector * cached;
            run.land(&mut self.mechanics, end, |landed| bus = bus.max(landed) + sector);
            bus
        } else {
            self.land_and_transfer(&mut run, range, now + overhead, reselect + preparation)
        };
        let size = self.segments.size;
        self.segments.get_mut(segment).grow(end, size);
        if self.buffers_tracks() {
            self.read_around(run, end);
        } else {
            self.read_on(run, end);
        }
        let served = if cached > 0 { Served::PartialHit } else { Served::Miss };
        (done + self.timing.read_completion, served, seek, latency)
    }

    /// Lets a miss land and cross the bus: from the watermark on, sector by sector, no sector before it landed.
    fn land_and_transfer(
        &mut self,
        run: &mut Run,
        range: LbnRange,
        ready: Instant,
        reselect: Duration,
    ) -> Instant {
        let count = range.len().get();
        let base = if self.cache.watermark_by_request { count } else { self.segments.size.get() };
        let share = (self.segments.size.get().min(base) as f64 * self.cache.read_watermark) as u64;
        let watermark = Lbn::new(range.start().get() + share.clamp(1, count));
        let sector = self.timing.read_sector;
        // Zero-latency access: what the head arrives at first comes first; the bus still wants LBN order, so only
        // the last landing of each sector counts.
        let mut landed = run.arrival();
        let late = self.first_come(run, range);
        let mut first_part = Vec::new();
        run.land(&mut self.mechanics, watermark, |at| {
            first_part.push(at);
            landed = landed.max(at);
        });
        if let Some(whole) = late {
            first_part.iter_mut().for_each(|at| *at = (*at).min(whole));
            landed = landed.min(whole);
        }
        let mut bus =
            if self.rules.early_reselect { landed.max(ready + reselect) } else { landed + reselect };
        bus = first_part.iter().fold(bus, |bus, &at| bus.max(at) + sector);
        run.land(&mut self.mechanics, range.end(), |at| {
            bus = bus.max(late.map_or(at, |whole| at.min(whole))) + sector;
        });
        bus
    }

    /// With zero-latency access and a head that arrives among the request's sectors: when all of them are in the
    /// buffer, one turn after the first that passed whole.
    fn first_come(&self, run: &Run, range: LbnRange) -> Option<Instant> {
        let model = self.mechanics.model();
        if !model.zero_latency(Op::Read) {
            return None;
        }
        let pass = run.pass();
        if u64::from(pass.count) != range.len().get() {
            return None;
        }
        let sector = self.mechanics.next_among(run.arrival(), pass.track, pass.first, pass.count)?;
        Some(self.mechanics.pass(run.arrival(), pass.track, sector, pass.track.sectors).end(model))
    }

    /// When the arm can set out for a command that needs it: command overhead and the end of read-ahead.
    fn arm_ready(&mut self, now: Instant, overhead: Duration) -> Instant {
        let stopped = self.stop_run(now);
        if self.rules.overlapped_stop {
            stopped.max(now + overhead)
        } else {
            now + overhead + stopped.since(now)
        }
    }

    fn buffers_tracks(&self) -> bool {
        self.rules.track_buffer
            && self.cache.enabled
            && self.cache.read_free_sectors
            && self.cache.read_ahead == ReadAhead::TrackAndNext
            && self.model().zero_latency(Op::Read)
    }

    /// Reads on after a request that ends before `end`.
    fn read_on(&mut self, mut run: Run, end: Lbn) {
        let segment = run.segment;
        let landed = run.landed_at(self.mechanics.model());
        self.give_up_served(segment, end);
        run.limit = self.read_ahead_limit(segment, end);
        let least = end + Sectors::new(u64::from(self.cache.minimum_read_ahead));
        run.least = least.min(run.limit);
        self.free = landed;
        self.run = (run.limit > run.next).then_some(run);
    }

    /// Reads the rest of the last track of a request, so that the buffer holds all of it.
    fn read_around(&mut self, mut run: Run, end: Lbn) {
        let landed = run.landed_at(self.mechanics.model());
        self.free = landed;
        let Some((first, last)) = self.track_of(Lbn::new(end.get() - 1)) else { return };
        let s = self.segments.get(run.segment);
        // What is kept before this track stays as far as there is room.
        let room = Lbn::new(s.start.get().max(first.get()) + self.segments.size.get());
        run.limit = last.min(room);
        run.around = Some((first, run.arrival() + self.model().rpm().revolution()));
        self.run = Some(run);
    }

    /// The run of LBNs around `lbn` on its track.
    fn track_of(&self, lbn: Lbn) -> Option<(Lbn, Lbn)> {
        let layout = self.model().layout();
        let track = layout.locate(lbn)?.track;
        let mut run = LbnRange::new(lbn, Sectors::ZERO);
        for extent in layout.extents(track) {
            let len = Sectors::new(u64::from(extent.len));
            run = if extent.lbn == run.end() && !run.is_empty() {
                LbnRange::new(run.start(), run.len() + len)
            } else if run.contains(lbn) {
                break;
            } else {
                LbnRange::new(extent.lbn, len)
            };
        }
        run.contains(lbn).then_some((run.start(), run.end()))
    }

    fn served_leave(&self) -> bool {
        self.rules.served_data_leave && self.cache.read_ahead_over_requested == 1
    }

    /// The host has everything before `end`; a drive whose read-ahead may use that room does.
    fn give_up_served(&mut self, segment: usize, end: Lbn) {
        if self.served_leave() {
            let s = self.segments.get_mut(segment);
            if s.content == Content::Read {
                s.start = s.start.max(end.min(s.end));
            }
        }
    }

    /// How far read-ahead goes after a request that ends before `end`.
    fn read_ahead_limit(&self, segment: usize, end: Lbn) -> Lbn {
        let layout = self.model().layout();
        let last = Lbn::new(layout.capacity().get());
        let size = self.segments.size;
        let s = self.segments.get(segment);
        if !self.cache.enabled || end >= last {
            return end;
        }
        let limit = match self.cache.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Segment => self.segment_limit(s.start, end),
            ReadAhead::Track | ReadAhead::Cylinder => {
                let far = self.segment_limit(s.start, end);
                let whole_cylinder = self.cache.read_ahead == ReadAhead::Cylinder;
                self.before_the_arm_moves(end, far, whole_cylinder)
            }
            ReadAhead::TrackAndNext if self.rules.read_ahead_fills_segment => s.start + size,
            ReadAhead::TrackAndNext => match self.track_of(end) {
                Some((first, past)) if s.start < first => {
                    let sectors = layout.locate(end).map_or(0, |at| layout.track(at.track).sectors);
                    past + Sectors::new(u64::from(sectors))
                }
                Some((_, past)) => past,
                None => end,
            },
        };
        limit.clamp(end, last)
    }

    fn segment_limit(&self, start: Lbn, end: Lbn) -> Lbn {
        let size = self.segments.size;
        match (self.cache.maximum_read_ahead, self.cache.read_ahead_over_requested) {
            (0, 0) => {
                let least = end + Sectors::new(u64::from(self.cache.minimum_read_ahead));
                (start + size).max(least)
            }
            (0, _) => end + size,
            (most, _) => end + Sectors::new(u64::from(most)),
        }
    }

    /// The LBN, `far` at most, before which the next track begins, or the next cylinder.
    fn before_the_arm_moves(&self, end: Lbn, far: Lbn, whole_cylinder: bool) -> Lbn {
        let layout = self.model().layout();
        let Some(here) = layout.locate(end) else { return end };
        let here = layout.track(here.track);
        let stays =
            |track: Track| track.cylinder == here.cylinder && (whole_cylinder || track.head == here.head);
        let far = far.min(Lbn::new(layout.capacity().get()));
        let mut limit = end;
        for piece in layout.pieces(LbnRange::new(end, Sectors::new(far.get().saturating_sub(end.get())))) {
            if !stays(layout.track(piece.track)) {
                break;
            }
            limit = piece.lbn + Sectors::new(u64::from(piece.len));
        }
        limit
    }

    fn write(&mut self, now: Instant, range: LbnRange) -> (Instant, Served, Duration, Duration) {
        let reading = self.run.as_ref().map(|r| r.segment);
        let appends = self
            .flush
            .map(|f| f.segment)
            .filter(|&i| self.cache.combine_sequential_writes && self.segments.get(i).end == range.start());
        let segment = self.segments.for_write(range, appends, reading);
        self.segments.touch(segment);
        let answer = match (self.cache.write_back, self.cache.enabled) {
            (WriteBack::None, _) | (_, false) => self.write_through(now, range),
            _ => self.write_behind(now, range, segment, appends.is_some()),
        };
        self.segments.overwrite(range, segment, self.served_leave());
        let size = self.segments.size;
        let continues = appends.is_some() || self.rules.writes_keep_reads;
        let s = self.segments.get_mut(segment);
        if !(continues && s.content == Content::Written && s.end == range.start()) {
            s.start = range.start();
            s.end = range.start();
        }
        s.content = Content::Written;
        s.grow(range.end(), size);
        answer
    }

    fn write_hit_overhead(&self, range: LbnRange) -> Duration {
        let pair = self.timing.write_hit;
        if self.rules.overhead_by_locality && self.last_op == Op::Write {
            let track = self.model().layout().locate(range.start()).map(|at| at.track);
            if track.is_none() || track != self.last_write_track {
                return pair.higher();
            }
        }
        pair.after(self.last_op)
    }

    fn write_behind(
        &mut self,
        now: Instant,
        range: LbnRange,
        segment: usize,
        appends: bool,
    ) -> (Instant, Served, Duration, Duration) {
        let overhead = self.write_hit_overhead(range);
        let flush = self.flush_end();
        let arm = self.arm_ready(now, overhead);
        let (bus, set_out) = if flush > now && !appends {
            let bus = flush.max(now + overhead);
            (bus, bus)
        } else {
            (now + overhead, arm.max(flush))
        };
        let sector = self.timing.write_sector;
        let (seek, latency, end) = self.write_medium(set_out, range, |k| bus + sector * (u64::from(k) + 1));
        self.flush = Some(Flush { segment, end });
        let done = bus + sector * range.len().get() + self.timing.write_completion;
        (done, Served::Buffered, seek, latency)
    }

    fn write_through(&mut self, now: Instant, range: LbnRange) -> (Instant, Served, Duration, Duration) {
        let here = self.mechanics.position();
        let track =
            self.model().layout().locate(range.start()).map(|at| self.model().layout().track(at.track));
        let stays = track.is_some_and(|t| Position::from(t) == here);
        let t = self.timing.clone();
        let twice = t.extra.filter(|_| self.last_op == Op::Write && !self.continues(Op::Write, range));
        let (overhead, data) = match twice {
            Some(x) => {
                let overhead = if stays { x.command } else { x.command + x.seek_delta };
                (overhead, now + overhead + x.until_data)
            }
            None => {
                let overhead = t.write_miss.after(self.last_op);
                (overhead, now + overhead)
            }
        };
        let set_out = self.arm_ready(now, overhead).max(self.free);
        let count = range.len().get();
        let first = data + t.data_preparation;
        let handed_over = if twice.is_some() { first } else { first + t.write_disconnect + t.first_reselect };
        let bursts = self.rules.write_bursts;
        let available = |k: u32| {
            let k = u64::from(k);
            if bursts {
                handed_over + t.write_sector * ((k / BURST + 1) * BURST).min(count)
            } else {
                first + t.write_sector * if k == 0 { count.min(DISKSIM_FIRST) } else { k + 1 }
            }
        };
        let (seek, latency, end) = self.write_medium(set_out, range, available);
        let reselect = if twice.is_some() { t.other_reselect } else { t.first_reselect };
        (end + reselect + t.write_completion, Served::Medium, seek, latency)
    }

    /// Writes sector by sector; a sector whose data are not there when it passes costs a turn.
    fn write_medium(
        &mut self,
        set_out: Instant,
        range: LbnRange,
        available: impl Fn(u32) -> Instant,
    ) -> (Duration, Duration, Instant) {
        let model = self.mechanics.shared_model();
        let turn = model.rpm().revolution();
        let mut at = set_out;
        let (mut seek, mut latency) = (Duration::ZERO, Duration::ZERO);
        let mut written = 0;
        let mut previous: Option<crate::mechanics::Pass> = None;
        for piece in model.layout().pieces(range) {
            let track = model.layout().track(piece.track);
            self.last_write_track = Some(piece.track);
            let arrival = self.mechanics.seek_to(at, track.into(), Op::Write);
            let floor = if written == 0 { self.timing.minimum_seek } else { Duration::ZERO };
            let arrival = arrival.max(at + floor);
            let mut pass = self.mechanics.pass(arrival, track, piece.sector, piece.len);
            if let Some(p) = previous
                && p.track == track
                && p.first + p.count == piece.sector
            {
                pass = crate::mechanics::Pass {
                    from: p.from,
                    wait: p.wait + track.arc(p.first, p.count),
                    track,
                    first: piece.sector,
                    count: piece.len,
                };
            }
            if written == 0 {
                seek = arrival.since(at);
                latency = pass.start(&model).since(arrival);
            }
            for k in 0..piece.len {
                let start = pass.done(&model, k);
                let there = available(written + k);
                if there > start {
                    // As many turns later as it takes.
                    let turns = there.since(start).as_nanos().div_ceil(turn.as_nanos());
                    for _ in 0..turns {
                        pass.wait += units::Arc::TURN;
                    }
                }
            }
            at = pass.end(&model);
            written += piece.len;
            previous = Some(pass);
        }
        self.free = at;
        (seek, latency, at)
    }
}

/// Sectors that cross the bus before the medium side of a drive without write-back learns of them: a page of
/// 4 KiB. The C2247A's sequential writes show it (docs/MODEL.md); DiskSim's files have no field for it.
const BURST: u64 = 8;

/// In DiskSim, what must have crossed before such a drive starts on the medium; then sector follows sector.
const DISKSIM_FIRST: u64 = 10;
