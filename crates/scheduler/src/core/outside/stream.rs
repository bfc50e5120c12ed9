//! Streams: wanted blocks read one after another while no foreground request needs the arm.
//!
//! A stream begins at the head's position after the foreground's last read and continues in the order of LBNs, so that the arm
//! does not move for it. The drive reads ahead behind a read, and stops at once when a request arrives. The core requests
//! sectors when they have passed: then they come from the drive's buffer, and the arm is free. A request that arrives during
//! such a command waits only for the command's time on the bus, not for sectors to pass. If only the drive's size is known, the
//! core does not know when sectors pass: it requests them at once, and a request that arrives meanwhile waits for them.
//!
//! A drive that caches writes puts them on the medium when no command waits for the arm. Meanwhile it does not read ahead, and
//! the position of the head is unknown. A stream therefore ends with a cached write, and the next one begins behind a read at
//! which the drive has no cached writes left.
//!
//! A stream takes over the place in the drive's buffer of the data behind which it began, and goes past the data that a
//! sequential reader will want next. The modules [`kept`](super::kept) and [`again`](super::again) count the cache hits that
//! are lost by that, and they are charged to the stream like waits.

use super::Outside;
use super::clock::nanos;
use super::command::{Command, Order, Outcome, Work};
use super::detour::WantedRange;
use super::fit::range_of;
use super::forecast::Standing;
use super::idle::MeanTime;
use super::transfer::Transfer;
use crate::background::{Focus, FoundItem};
use crate::core::under_way::revolution;
use crate::core::{Core, Purpose, Sharing};
use crate::idle::IdleTime;
use crate::planner::{LastCommand, Stop, straight_parts};
use alloc::sync::Arc;
use model::layout::Location;
use model::{DriveModel, Window};
use units::{Duration, FULL_REVOLUTION, Instant, Lbn, LbnRange, Op, Sectors, TrackIndex};

/// The time in which the sectors of one command pass. A longer command would not keep the arm longer, but sectors that have
/// passed and are not yet requested are lost when a request arrives.
const COMMAND_TIME: Duration = Duration::from_millis(1);

/// The time after the predicted pass of sectors at which they count as passed.
const PASSES_LATE_MAX: Duration = Duration::from_micros(100);

/// The largest assumed amplification: the sum of all requests' delays, in ns, for one nanosecond of delay at the head.
const AMPLIFICATION_MAX: u64 = 8;

/// The number of reads after which half of the counts is discarded, so that old ones are forgotten.
const READS_COUNTED_MAX: u64 = 512;
/// The minimum of reads for an estimate of the amplification; with fewer the estimate is chance.
const READS_MIN: u64 = 32;

/// The amplification that is assumed with fewer reads than [`READS_MIN`].
const AMPLIFICATION_PRIOR: u64 = 3;

/// A stream skips at most as many unwanted sectors as pass in 1 part in this number of a revolution.
const SKIP_REVOLUTION_DIVISOR: u32 = 16;

/// The largest number of cached writes that a drive is assumed to hold.
const HELD_WRITES_MAX: u64 = 128;

/// If at least one read in this number finds no other request that needs the arm, idle time is enough and gaps are not needed.
const READS_PER_UNQUEUED_MAX: u64 = 5;

/// The arm leaves its position for idle work elsewhere after a silence (a time without foreground requests) of this many times
/// the mean silence. With random arrivals one silence in 22,000 is longer, so few requests find the arm elsewhere.
const ELSEWHERE_SILENCE_RATIO: u64 = 10;

/// Streams count as unsuccessful if they begin in at most one in this number of the silences in which they could.
const SILENCES_PER_STREAM_MAX: u64 = 16;
/// The minimum of silences with which streams can count as unsuccessful.
const SILENCES_MIN: u64 = 32;

/// The number of silences over which the mean silence is taken, so that it follows a load that changes.
const MEAN_SILENCES: u64 = 64;

/// The longest silence that is waited for, and the largest that counts in the mean: the silence of a night shows nothing about
/// the silences between requests.
const ELSEWHERE_SILENCE_MAX: Duration = Duration::from_secs(10);

/// The percentage of the bound that streams may spend; the rest is for costs of streams that the core does not observe.
const SPENT_PERCENT: u32 = 75;

/// The largest credit that is saved, as the response time that earns this credit under the bound.
const CREDIT_RESPONSE_TIME_MAX: Duration = Duration::from_secs(30);

/// A wait at the drive is charged up to this many revolutions; longer ones are pauses of the drive's own.
const CHARGED_REVOLUTIONS_MAX: u64 = 2;

/// The state of streams, and estimates of the requests that they meet.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// The position at which the next command begins, if the head is still there.
    next: Option<ReadAheadPosition>,
    /// When the sectors of the next command have passed, if the command waits for that.
    due: Option<Instant>,
    /// The mean duration of streams' commands; a longer one counts as `CHARGED_REVOLUTIONS_MAX` revolutions.
    command_times: MeanTime,
    /// The arrival of the first request that waits for a command of a stream, and the number of such requests.
    met: Option<(Instant, u64)>,
    /// The number of foreground requests that need the arm, and of those that found another such request.
    reads: u64,
    behind_reads: u64,
    /// The number of silences in which a stream could begin, and of those in which it found wanted blocks.
    tries: u64,
    found: u64,
    /// The delay in ns that streams may still cause to all requests together: the bound's share of response times, less the
    /// cost of streams.
    credit: i64,
    /// The time that the drive needs to write its cached writes.
    held: Duration,
    /// Since when no command waits for the arm.
    arm_free: Option<Instant>,
    /// The mean time without foreground requests, from the end of the last one to the arrival of the next.
    silence: Duration,
    /// The number of silences in that mean.
    silences: u64,
    /// Whether the last finished command was one of a stream.
    goes_on: bool,
}

/// The position of a head that reads ahead.
#[derive(Clone, Copy, Debug)]
struct ReadAheadPosition {
    lbn: Lbn,
    /// When all sectors before `lbn` had passed, on the host's clock.
    passed: Instant,
    /// Whether a foreground request has left the head there, and the core has not yet looked for wanted blocks.
    fresh: bool,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            next: None,
            due: None,
            command_times: MeanTime::default(),
            met: None,
            reads: 0,
            behind_reads: 0,
            tries: 0,
            found: 0,
            credit: 0,
            held: Duration::ZERO,
            arm_free: Some(Instant::ZERO),
            // The initial mean makes the arm wait for the longest silence.
            silence: ELSEWHERE_SILENCE_MAX / ELSEWHERE_SILENCE_RATIO,
            silences: 1,
            goes_on: false,
        }
    }
}

impl Streams {
    fn forget_half(&mut self) {
        for count in [&mut self.reads, &mut self.behind_reads, &mut self.tries, &mut self.found] {
            *count /= 2;
        }
    }

    /// Returns the increase of all response times together if a request has `waited`: its wait also delays each request
    /// behind it.
    fn amplified(&self, waited: Duration) -> Duration {
        if self.reads < READS_MIN {
            return waited * AMPLIFICATION_PRIOR;
        }
        let alone = (self.reads - self.behind_reads).max(1);
        (waited * self.reads / alone).min(waited * AMPLIFICATION_MAX)
    }

    /// Records a time without foreground requests that a request has ended.
    fn silent_for(&mut self, silence: Duration) {
        self.silences = (self.silences + 1).min(MEAN_SILENCES);
        self.silence =
            (self.silence * (self.silences - 1) + silence.min(ELSEWHERE_SILENCE_MAX)) / self.silences;
    }

    /// Adds the bound's share of a finished request's response time to the credit.
    fn earn(&mut self, response: Duration, bound_ppm: u32) {
        let credit = self.credit.saturating_add(share_of(response, bound_ppm));
        self.credit = credit.min(share_of(CREDIT_RESPONSE_TIME_MAX, bound_ppm));
    }

    /// Subtracts the cost of a request's wait for a stream from the credit.
    pub fn pay(&mut self, waited: Duration) {
        self.credit = self.credit.saturating_sub(nanos(self.amplified(waited)));
    }

    /// Records that a command at the drive is lost, perhaps a stream's: no wait for that command is measured.
    pub fn are_lost(&mut self) {
        self.met = None;
    }

    /// Records that the arm has commands from `now` on. Until now the drive could write cached writes.
    fn arm_is_taken(&mut self, now: Instant) {
        if let Some(since) = self.arm_free.take() {
            self.held = self.held.saturating_sub(now.saturating_since(since));
        }
    }

    /// Returns the instant at which the drive has written all cached writes, if no command comes.
    fn holds_until(&self, now: Instant) -> Instant {
        self.arm_free.unwrap_or(now) + self.held
    }

    /// Returns whether the drive has cached writes.
    fn holds_writes(&self, now: Instant) -> bool {
        self.holds_until(now) > now
    }

    /// Returns whether wanted blocks are hardly ever near the place where the foreground leaves the arm.
    fn find_nothing(&self) -> bool {
        self.tries >= SILENCES_MIN && self.found * SILENCES_PER_STREAM_MAX <= self.tries
    }

    /// Returns whether many requests find the arm idle, and streams usually find wanted blocks.
    fn are_enough(&self) -> bool {
        let idle = (self.reads - self.behind_reads) * READS_PER_UNQUEUED_MAX >= self.reads;
        self.reads >= READS_MIN && idle && self.found > 0 && self.found * 2 >= self.tries
    }
}

/// Returns the delay in ns that streams may cause under the bound for a response time of `time`.
fn share_of(time: Duration, bound_ppm: u32) -> i64 {
    nanos(time / 1_000) * i64::from(bound_ppm) / 1_000 * i64::from(SPENT_PERCENT) / 100
}

/// Returns the time in which the sectors of a range pass a head that reads ahead, from the pass of the sector before them.
fn passing_time(drive: &DriveModel, range: LbnRange) -> Duration {
    let layout = drive.layout();
    let before = range.start().get().checked_sub(1).and_then(|lbn| layout.locate(Lbn::new(lbn)));
    let mut last = before.map(|at| (layout.track(at.track), at.sector + 1));
    let mut time = Duration::ZERO;
    for piece in layout.pieces(range) {
        let track = layout.track(piece.track);
        if let Some((from, sector)) = last {
            let gap = drive.rpm().time_within(
                from.sector_angle(sector % from.sectors).until(track.sector_angle(piece.sector)),
            );
            let moves = drive.move_time(from.into(), track.into(), Op::Read);
            time += if gap < moves { gap + revolution(drive) } else { gap };
        }
        time += drive.rpm().time_within(track.arc(piece.sector, piece.len));
        last = Some((track, piece.sector + piece.len));
    }
    time
}

impl Outside {
    /// Returns the assumed time for a cached write: a seek over an eighth of the cylinders and half a revolution; on a drive of
    /// unknown geometry the usual time of a read.
    fn time_of_write(&self, drive: &DriveModel) -> Duration {
        if self.blind {
            return self.alone[0].usual().unwrap_or(revolution(drive) * 2);
        }
        drive.seek(drive.layout().cylinders() / 8) + revolution(drive) / 2
    }

    pub(super) fn bound_of_streams(&self, idle_ppm: u32) -> u32 {
        let bound = self.config.harm_ppm.map_or(idle_ppm, |bound| bound.min(idle_ppm));
        self.again.by_account(self.audited(bound))
    }

    /// Returns the settings of idle time with the part of the bound that streams may spend.
    pub(super) fn spends(idle: IdleTime) -> IdleTime {
        IdleTime { harm_ppm: idle.harm_ppm * SPENT_PERCENT / 100, ..idle }
    }

    /// Returns the credit in ns that a stream needs to begin, at most the largest credit. If it is unknown when sectors pass, a
    /// request may have to wait for a whole command. Sectors that have passed need no credit.
    fn least_credit(&self, drive: &DriveModel, bound_ppm: u32) -> i64 {
        let whole = || {
            nanos(self.streams.amplified(self.streams.command_times.mean().unwrap_or(revolution(drive) * 2)))
        };
        if self.blind { whole().min(share_of(CREDIT_RESPONSE_TIME_MAX, bound_ppm)) } else { 0 }
    }

    /// Returns whether a command with this operation needs the arm; a write that the drive caches does not.
    fn waits_for_arm(&self, op: Op) -> bool {
        !self.reports(op)
    }

    fn arm_has_commands(&self) -> bool {
        self.device.iter().any(|order| self.waits_for_arm(order.command.op))
    }

    /// Returns when the arm was free for a request that arrived during a finished command of a stream. If the data did not
    /// come from the buffer, the sectors had not passed when they were requested: the request waited for them, and the next
    /// sectors pass later than predicted.
    fn stream_came(&mut self, drive: &DriveModel, now: Instant, order: &Order) -> Instant {
        let overheads = &self.config.overheads;
        let Command { op, range, .. } = order.command;
        let turned = order.sent.unwrap_or(now) + overheads.command(op);
        let tail = overheads.tail(op);
        let late = now.saturating_since(turned + overheads.bus_sector * range.len().get() + tail);
        if late <= PASSES_LATE_MAX {
            return turned.min(now);
        }
        let ended = now.checked_sub(tail).unwrap_or_default();
        if let Some(next) = self.streams.next {
            let rest = LbnRange::new(range.end(), next.lbn.since(range.end()));
            let passed = self.passed_at(drive, ended, rest);
            self.streams.next = Some(ReadAheadPosition { passed, ..next });
        }
        now
    }

    /// Returns, on the host's clock, when the sectors of a range have passed if those before them had passed at `from`.
    fn passed_at(&self, drive: &DriveModel, from: Instant, range: LbnRange) -> Instant {
        self.clock.host(self.clock.platter(from) + passing_time(drive, range))
    }

    /// Returns the instant until which a stream waits for sectors to pass.
    pub(super) fn stream_is_due(&self) -> Option<Instant> {
        self.streams.due
    }

    /// Records that a foreground request has come; `others` tells that another request that needs the arm is present.
    pub(super) fn stream_is_met(&mut self, now: Instant, op: Op, others: bool) {
        if !self.config.streams || !self.waits_for_arm(op) {
            return;
        }
        let streams = self.device.iter().any(|order| matches!(order.work, Work::Stream));
        let all = &mut self.streams;
        if all.reads >= READS_COUNTED_MAX {
            all.forget_half();
        }
        all.reads += 1;
        all.behind_reads += u64::from(others);
        if streams {
            let (since, count) = all.met.unwrap_or((now, 0));
            all.met = Some((since, count + 1));
        }
    }

    /// Records that a command is sent.
    pub(super) fn stream_sees_sent(&mut self, now: Instant, op: Op) {
        if self.waits_for_arm(op) {
            self.streams.arm_is_taken(now);
            self.streams.next = None;
        }
    }

    /// Records that a command is done. The command is no longer among those at the drive.
    pub(super) fn stream_sees_done(
        &mut self,
        drive: &DriveModel,
        now: Instant,
        order: &Order,
        bound_ppm: u32,
    ) {
        let waits = self.waits_for_arm(order.command.op);
        let free = !self.arm_has_commands();
        self.streams.goes_on &= matches!(order.work, Work::Stream);
        if let Work::Foreground { job, .. } = &order.work {
            let response = now.saturating_since(job.pending.arrived);
            self.streams.earn(response, bound_ppm);
            // An unknown drive may cache any write.
            if !waits || self.blind && order.command.op.is_write() {
                let one = self.time_of_write(drive);
                self.streams.held = (self.streams.held + one).min(one * HELD_WRITES_MAX);
            }
        }
        if waits && free {
            self.streams.arm_free = Some(now);
        }
        // Behind a command of a stream, which the buffer served, the head is farther on than the command.
        if waits && free && !matches!(order.work, Work::Stream) {
            let tail = self.config.overheads.tail(order.command.op);
            let passed = now.checked_sub(tail).unwrap_or_default();
            let fresh = matches!(order.work, Work::Foreground { .. });
            let place = ReadAheadPosition { lbn: order.command.range.end(), passed, fresh };
            self.streams.next = Some(place).filter(|_| !order.command.op.is_write());
        }
    }
}

impl Core {
    /// Records the arrival of a foreground request.
    pub(super) fn meet_stream(&self, outside: &mut Outside, now: Instant, op: Op) {
        outside.readings.end_run();
        let (mut silent, mut others) = (self.idle.asked.is_some(), false);
        for pending in self.pool.iter().chain(outside.foreground_commands()) {
            silent = false;
            others |= !outside.reports(pending.request.op);
        }
        if silent {
            outside.streams.silent_for(now.saturating_since(self.idle.since));
        }
        outside.stream_is_met(now, op, others);
    }

    /// Returns whether streams yield enough that gaps are not needed, so that the drive may choose the order of requests. A
    /// stream serves no writes, and of several sessions perhaps only one.
    pub(super) fn streams_are_enough(&self, outside: &Outside) -> bool {
        let streams = outside.config.streams && self.config.idle.is_some() && outside.streams.are_enough();
        streams && self.background.in_focus() <= 1 && !self.background.has(Op::Write)
    }

    /// Returns the instant until which only streams use idle time, and the arm stays where the foreground has left it; `None` if
    /// streams are not used or no request has come yet.
    pub(super) fn stays_until(&self, outside: &Outside) -> Option<Instant> {
        let silence = (outside.streams.silence * ELSEWHERE_SILENCE_RATIO).min(ELSEWHERE_SILENCE_MAX);
        let waits = outside.config.streams && self.config.idle.is_some() && self.idle.asked.is_some();
        waits.then(|| self.idle.since + silence)
    }

    /// Returns the instant from which on the arm may move to the first command of a stream elsewhere, at most `stays_until`. An
    /// earlier move is permitted if streams hardly find wanted blocks where the arm is, when the drive has no cached writes left,
    /// for which it moves the arm itself.
    pub(super) fn moves_at(&self, outside: &Outside, now: Instant, stays_until: Instant) -> Instant {
        if outside.streams.find_nothing() {
            outside.streams.holds_until(now).min(stays_until)
        } else {
            stays_until
        }
    }

    /// Takes the first command of a stream elsewhere, where the oldest task wants to read first. Returns whether there is one.
    ///
    /// A request that arrives meanwhile waits for the move, so the harm estimate permits few such moves. Usually a task also
    /// wants the blocks after its first one, so the stream goes on; and a program that reads in order waits for the first
    /// block.
    pub(super) fn move_stream(&mut self, now: Instant) -> bool {
        self.background.focus_on(Focus::All);
        if self.config.sharing == Sharing::Lottery
            && let Some(winner) = self.background.draw(&mut self.lottery)
        {
            self.background.focus_on(winner);
        }
        let place = self.background.oldest_wanted();
        self.background.focus_on(Focus::All);
        let Some((track, window)) = place.and_then(|at| self.find_stream(at)) else { return false };
        let there = self.drive.layout().track(track);
        let ready = now + self.drive.move_time(self.position, there.into(), Op::Read);
        self.visit_to_read(ready, track, window, |useful| Purpose::Idle { useful });
        let found = !self.accesses.is_empty();
        if found {
            self.displaced = self.displaced.or(Some(self.position));
            self.arrived(track, there.into());
        }
        found
    }

    /// Returns the next command of a stream, if one begins or continues now.
    pub(super) fn stream_next(&mut self, outside: &mut Outside, now: Instant) -> Option<Command> {
        // A command that is ready to be sent does not wait for sectors to pass.
        outside.streams.due = None;
        // An older drive may finish its read-ahead before it begins a request; without a profile the core cannot know. While a
        // probe characterises the drive, its readings use the short silences.
        let without_profile = || self.drive.is_modern() && !outside.readings.are_wanted();
        let streams = outside.config.streams && (!outside.blind || without_profile());
        let idle = self.config.idle.filter(|_| streams)?;
        let quiet = self.pool.is_empty() && outside.queue.is_empty() && outside.retries.is_empty();
        if !quiet || outside.is_off() || self.background.is_idle() || !self.background.has(Op::Read) {
            return None;
        }
        if !outside.device.is_empty() {
            return None;
        }
        // Before the threshold a stream is allowed only if short idle times may be used.
        if !idle.short && now.saturating_since(self.idle.since) < idle.threshold {
            return None;
        }
        let place = outside.streams.next.take()?;
        let drive = Arc::clone(&self.drive);
        let taken = outside.kept.at_risk(u64::from(place.fresh), outside.clock.revolution());
        let bound = outside.bound_of_streams(idle.harm_ppm);
        let least = outside.least_credit(&drive, bound).saturating_add(taken);
        let least = least.min(share_of(CREDIT_RESPONSE_TIME_MAX, bound));
        if bound == 0 || outside.streams.holds_writes(now) || outside.streams.credit < least {
            return None;
        }
        let found = self.find_stream(place.lbn);
        outside.streams.tries += u64::from(place.fresh);
        outside.streams.found += u64::from(place.fresh && found.is_some());
        let (track, window) = found?;
        let end = drive.layout().lbn_at(Location { track, sector: window.first + window.count - 1 })?
            + Sectors::new(1);
        let passes = LbnRange::new(place.lbn, end.since(place.lbn));
        let passed = outside.passed_at(&drive, place.passed, passes);
        let due = passed + PASSES_LATE_MAX;
        // If it is unknown when sectors pass, the command waits for them at the drive, and is charged for the wait of a
        // request that arrives meanwhile.
        if now < due && !outside.blind {
            outside.streams.due = Some(due);
            outside.streams.next = Some(ReadAheadPosition { fresh: false, ..place });
            return None;
        }
        let tag = outside.next_tag();
        self.background.take_for(tag);
        let WantedRange { range, useful } = self.take_stream(outside, track, window, tag)?;
        outside.stream_sees_sent(now, Op::Read);
        // If few blocks are wanted here, a block that the window cuts begins the next command. If many are wanted, the block is
        // left for later: reading it at once gained a scan 1.5%, but delayed clients with constant think times by more than the
        // bound.
        let (end, passed) = if outside.streams.find_nothing() {
            let whole = LbnRange::new(place.lbn, range.end().since(place.lbn));
            (range.end(), outside.passed_at(&drive, place.passed, whole))
        } else {
            (end, passed)
        };
        outside.streams.next = Some(ReadAheadPosition { lbn: end, passed, fresh: false });
        let transfer = Transfer::new(Op::Read, range);
        let command = outside.next_command(transfer, Purpose::Idle { useful }, None, None, useful);
        outside.last = LastCommand { op: Op::Read, end: range.end() };
        outside.decided = outside.clock.platter(now);
        let forecast = outside.forecast_behind(&drive, &outside.base, transfer);
        outside.device.iter_mut().for_each(Order::is_not_alone);
        outside
            .device
            .push_back(Order { sent: Some(now), ..Order::new(command.clone(), tag, Work::Stream, forecast) });
        Some(command)
    }

    /// Returns the window of a stream's next command, which begins with the first wanted sectors from `from` on, and its track;
    /// `None` if no wanted sectors are near.
    fn find_stream(&self, from: Lbn) -> Option<(TrackIndex, Window)> {
        let layout = self.drive.layout();
        let mut at = from;
        // The rest of this track and the beginning of the next one.
        for _ in 0..2 {
            let place = layout.locate(at)?;
            let there = layout.track_ref(place.track);
            let on_track = there.track().sectors;
            let skip = (on_track / SKIP_REVOLUTION_DIVISOR).max(1);
            let count = u64::from(on_track) * self.drive.rpm().arc_in(COMMAND_TIME).parts() / FULL_REVOLUTION;
            let count = u32::try_from(count).unwrap_or(u32::MAX).clamp(1, on_track);
            let mut rest: Option<Window> = None;
            let behind = Window { first: place.sector, count: on_track - place.sector };
            straight_parts(&there, behind, |part| {
                rest = rest.or(Some(part));
            });
            let rest = rest.filter(|rest| rest.first == place.sector)?;
            if let Some(window) = self.next_in_stream(place.track, rest, skip, count) {
                return Some((place.track, window));
            }
            if rest.count > skip {
                return None;
            }
            at += Sectors::new(u64::from(rest.count));
        }
        None
    }

    /// Takes the wanted blocks in a window. Returns the LBNs to read, and the number of wanted sectors among them.
    fn take_stream(
        &mut self,
        outside: &Outside,
        track: TrackIndex,
        window: Window,
        tag: u64,
    ) -> Option<WantedRange> {
        let drive = Arc::clone(&self.drive);
        self.background.focus_on(Focus::All);
        let taken = self.background.take_reads(&drive, track, window, false)?;
        let (first, count) = (window.first + taken.begin, taken.end - taken.begin);
        let Some(range) = range_of(&drive, &Stop { track, first, count, op: Op::Read }) else {
            self.background.give_back(drive.layout(), tag, true, |_| true);
            return None;
        };
        self.avoid_bad(outside, WantedRange { range, useful: taken.useful }, tag, false)
    }

    /// Returns the window of the next command on a track: it begins with the first wanted item, if that is within `skip`
    /// sectors, and has `count` sectors, or as many as the item.
    fn next_in_stream(
        &self,
        track: TrackIndex,
        Window { first, count: left }: Window,
        skip: u32,
        count: u32,
    ) -> Option<Window> {
        let there = self.drive.layout().track_ref(track);
        let looked_at = |count| self.background.first_item(&there, Window { first, count }, Op::Read);
        let next = looked_at(count.min(left)).or_else(|| looked_at(left));
        let FoundItem { passing: begin, item, .. } = next.filter(|next| next.passing <= skip)?;
        Some(Window { first: first + begin, count: count.max(item.sectors).min(left - begin) })
    }

    /// Records a finished command of a stream.
    pub(super) fn stream_done(&mut self, outside: &mut Outside, order: Order, outcome: Outcome<'_>) {
        let now = self.now;
        let drive = Arc::clone(&self.drive);
        let after = outside.follow(&drive, &outside.base, &order).after;
        let at = outside.clock.platter(now);
        outside.base = Standing { free: at, ready: at, bus: at, reported: None, ..after };
        outside.buffered = false;
        if !core::mem::replace(&mut outside.streams.goes_on, true) {
            outside.again.done(&drive, &order, false, 0);
            outside.kept.done(&drive, &order, false);
        }
        let most = revolution(&drive) * CHARGED_REVOLUTIONS_MAX;
        outside.streams.command_times.note(now.saturating_since(order.sent.unwrap_or(now)).min(most));
        let arm_free = outside.stream_came(&drive, now, &order);
        let more = outside.device.iter().any(|order| matches!(order.work, Work::Stream));
        if let Some((since, count)) = outside.streams.met.filter(|_| !more) {
            outside.streams.met = None;
            let waited = arm_free.saturating_since(since).min(most) * count;
            outside.streams.pay(waited);
            self.idle.head.late_by(nanos(waited));
            let all = nanos(outside.streams.amplified(waited));
            self.idle.client_harm.late_by(all);
            outside.charged_nanos = outside.charged_nanos.saturating_add(all);
        }
        self.hand_out(outside, order, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::under_way::{pass, plain_end};
    use model::{Position, Profile};

    #[test]
    fn sectors_pass_a_head_that_reads_on_when_the_drive_model_has_them_pass() {
        let toml = include_str!("../../../../model/tests/data/tiny.toml");
        let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
        let layout = drive.layout();
        for (start, len) in [(100, 3), (100, 60), (130, 400), (0, 1_000), (1_300, 64)] {
            let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
            let at = layout.locate(range.start()).unwrap();
            let track = layout.track(at.track);
            // The head is on the track a microsecond before the first sector passes.
            let one = Window { first: at.sector, count: 1 };
            let begin = pass(&drive, &track, Instant::ZERO + revolution(&drive), one).begin;
            let early = begin.checked_sub(Duration::from_micros(1)).unwrap();
            let end = plain_end(&drive, Position::from(track), early, Op::Read, &[range]);
            let before = layout.locate(Lbn::new(start.saturating_sub(1))).unwrap();
            // After the end of another track, `passing_time` includes the change of tracks, which `end` does not.
            if before.track == at.track || start == 0 {
                let off = end.since(begin).as_nanos().abs_diff(passing_time(&drive, range).as_nanos());
                assert!(off < 1_000, "{range}: {off} ns");
            }
        }
    }
}
