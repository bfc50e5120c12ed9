//! The core outside the drive (FAST'02, sections 3 and 4): it sends commands and receives their completions.
//!
//! All planning is done in platter time ([`clock`]), from the predicted position of the head after the commands at the drive
//! ([`forecast`]). The next command is chosen when the drive has room for it and none is ready: the detour goes first and
//! its foreground request after it, or both are one command. Each completion shows the revolution in which its command was
//! done, and the remaining commands are predicted again from there.

mod adopt;
mod again;
mod answers;
mod arrivals;
mod bad_sectors;
mod client_harm;
mod clock;
mod command;
mod control;
mod correct;
mod course;
mod decide;
mod detour;
mod drive;
mod fit;
mod forecast;
mod guard;
mod hand_out;
mod harm;
mod idle;
mod kept;
mod margin;
mod neighbours;
mod parts;
mod pass_through;
mod predict;
mod read_ahead;
mod readings;
mod record;
mod reported;
mod rest;
mod sequences;
mod shared;
mod speed;
mod spent;
mod status;
mod stream;
mod through;
mod transfer;
mod waits;

use alloc::boxed::Box;
use alloc::vec::Vec;
pub use command::{Command, CommandEnd, CommandId, Outcome};
pub use drive::OutsideDrive;
pub use guard::Caution;
pub use harm::{AuditArm, AuditReport, AuditWindow, Interval, Promise};
pub use record::ErrorRecord;
pub use waits::BackgroundWait;

use super::Core;
use super::config::{Conservatism, Neighbours, OutsideConfig, Overheads};
use super::under_way::Job;
use crate::background::{Buffers, Part};
use crate::foreground::{Pending, Request};
use crate::planner::LastCommand;
use again::Again;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use client_harm::{ClientHarm, Waiting};
use clock::Clock;
use command::{Order, Passed, Work};
use control::Control;
use correct::Correction;
use forecast::{Forecast, HeldBack, Late, Plain, Source, Standing};
use guard::Guard;
use harm::Cost;
use idle::MeanTime;
use kept::Kept;
use margin::Margins;
use model::{DriveModel, Position};
use neighbours::Learned;
use pass_through::Unseen;
use readings::Readings;
use record::{Came, Observation};
use reported::Report;
use sequences::{Sequences, ServedTime};
use shared::Shared;
use spent::Price;
use stream::Streams;
use through::Through;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, TrackIndex};

/// The largest error, as a part of a revolution, of a completion that still agrees with the platter's angle: an eighth.
const ERROR_NOISE_DIVISOR: i64 = 8;

/// The largest error, as a part of a revolution, of a completion that counts as predicted: a thirty-second, which is less than
/// the initial margin of detours' moves. On a drive that rotates faster than the profile says, commands are often off by more
/// than this, though by less than an eighth from one command to the next.
const ERROR_CHANCE_DIVISOR: i64 = 32;

/// The largest error, in ppm, of the assumed speed of the spindle since the last completion: half a percent.
const SPEED_ERROR_PPM_MAX: i64 = 5_000;

/// The number of consecutive completions that agree after which the platter's angle is known: by chance four agree once in 256
/// times.
const CONSISTENT_COMPLETIONS_MIN: u32 = 4;

/// The number of consecutive completions that disagree with the platter's angle after which the angle is searched again.
const UNEXPLAINED_COMPLETIONS_MAX: u32 = 6;

/// The largest depth of the drive's queue that forecasts of the time at which a command can be sent assume.
const PREDICTED_COMMANDS_MAX: usize = 8;

/// The maximum of remembered bad sectors, which bounds the memory; when it is exceeded, all are discarded.
const KNOWN_BAD_SECTORS_MAX: usize = 1 << 16;

/// The state of a core outside the drive.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    config: OutsideConfig,
    /// Whether only the drive's size is known: nothing can be predicted.
    blind: bool,
    /// Whether the last work was in idle time.
    after_idle: bool,
    /// The mean response times of reads and of writes that had no idle work before them.
    alone: [MeanTime; 2],
    /// The mean duration of idle commands.
    visits: MeanTime,
    /// The most sectors of an idle read since one was lost: a disk that takes too long for many may answer for fewer.
    visit_sectors_max: Option<u64>,
    /// The total duration of idle commands since the last foreground completion.
    idle_spent: Duration,
    /// The predicted platter time of the next foreground command's last sector, if idle time is charged with that command's
    /// delay.
    charged: Option<Instant>,
    /// Whether the last idle command met unreadable sectors: idle time is then charged with the drive's retries.
    idle_failed: bool,
    /// The largest cost of a detour that met unreadable sectors, in ns; the next detour may cost this much.
    worst: i64,
    /// The last completion of an idle command, on the host's clock.
    idle_heard: Instant,
    clock: Clock,
    /// Whether the platter's angle is known, and the numbers of consecutive completions that agreed and that disagreed with it.
    known: bool,
    agreeing: u32,
    disagreeing: u32,
    next_id: u64,
    next_tag: u64,
    /// The platter time of the last choice of a command.
    decided: Instant,
    /// The instant at which the next command is chosen, if the choice waits.
    choose_at: Option<Instant>,
    /// The instant at which a cached write is on the medium, if the next command waits for that.
    room_at: Option<Instant>,
    /// The operation of the last chosen command, and the LBN after its last one.
    last: LastCommand,
    learned: Learned,
    sequences: Sequences,
    through: Through,
    kept: Kept,
    again: Again,
    held_back: HeldBack,
    /// The platter time of the last foreground completion.
    heard_foreground: Instant,
    /// The time of the last foreground completion on the host's clock.
    heard_at: Instant,
    /// The last completion of any command, on the host's clock.
    heard_any: Instant,
    /// The number of foreground requests since the last one with a detour.
    plain_since: u32,
    /// The delay of the last foreground request's data on the bus by background data.
    on_bus: Duration,
    /// Commands to be sent, in this order.
    queue: VecDeque<Order>,
    /// Commands at the drive, in the order of sending.
    device: VecDeque<Order>,
    /// A buffer for the parts of a command, so that its memory is reused.
    parts: Vec<Part>,
    /// The state of the drive when the last finished command was done.
    base: Standing,
    /// Whether the last completion was that of a write in the drive's buffer.
    buffered: bool,
    /// The forecast of the last cached write on the medium, if known.
    last_reported: Option<Forecast>,
    /// The number of reports of cached writes that did not fit the platter's angle since a completion last did.
    reports_off: u32,
    /// The platter time at which the foreground's last cached write is on the medium.
    written: Instant,
    /// Foreground requests that were lost, each with its tag.
    retries: VecDeque<(u64, Job)>,
    record: ErrorRecord,
    margins: Margins,
    /// The difference between real moves and the profile's.
    correction: Correction,
    /// Requests whose gaps are unused as a control.
    control: Control,
    guard: Guard,
    client_harm: ClientHarm,
    shared: Shared,
    /// Sectors that failed. A command over such a sector would fail.
    known_bad: BTreeSet<Lbn>,
    /// The least yield for which a request is made to wait one more revolution.
    price: Price,
    /// The measured cost of background work; `None` without a measurement.
    cost: Option<Box<Cost>>,
    /// The delay, in ns, that the harm estimate has charged since the audit last saw a request.
    charged_nanos: i64,
    /// The latest instant at which the drive has written all cached writes.
    destaged_at: Instant,
    unseen: Unseen,
    streams: Streams,
    readings: Readings,
}

impl Outside {
    pub fn new(drive: &DriveModel, config: OutsideConfig) -> Self {
        let position = Position::default();
        let base = Standing::at_rest(position, drive.layout().track_at(position.cylinder, position.head));
        Self {
            config,
            blind: !drive.is_known(),
            after_idle: false,
            alone: [MeanTime::default(); 2],
            visits: MeanTime::default(),
            visit_sectors_max: None,
            idle_spent: Duration::ZERO,
            charged: None,
            idle_failed: false,
            worst: 0,
            idle_heard: Instant::ZERO,
            clock: Clock::new(super::under_way::revolution(drive)),
            known: false,
            agreeing: 0,
            disagreeing: 0,
            next_id: 1,
            next_tag: 1,
            decided: Instant::ZERO,
            choose_at: None,
            room_at: None,
            last: LastCommand { op: Op::Read, end: Lbn::ZERO },
            learned: Learned::default(),
            sequences: Sequences::default(),
            through: Through::of(config.overheads),
            kept: Kept::default(),
            again: Again::default(),
            held_back: HeldBack::default(),
            heard_foreground: Instant::ZERO,
            heard_at: Instant::ZERO,
            heard_any: Instant::ZERO,
            plain_since: kept::REQUESTS_AT_START,
            on_bus: Duration::ZERO,
            queue: VecDeque::new(),
            device: VecDeque::new(),
            parts: Vec::new(),
            base,
            buffered: false,
            last_reported: None,
            reports_off: 0,
            written: Instant::ZERO,
            retries: VecDeque::new(),
            record: ErrorRecord::default(),
            margins: Margins::default(),
            correction: Correction::new(drive, &config.overheads),
            control: Control::default(),
            guard: Guard::new(),
            client_harm: ClientHarm::default(),
            shared: Shared::default(),
            known_bad: BTreeSet::new(),
            price: Price::of_track(drive.layout().track(TrackIndex::new(0)).sectors),
            cost: config.audit.map(|audit| Box::new(Cost::new(audit, drive, base, config.pass_through > 0))),
            charged_nanos: 0,
            destaged_at: Instant::ZERO,
            unseen: Unseen::default(),
            streams: Streams::default(),
            readings: Readings::default(),
        }
    }

    pub fn is_busy(&self) -> bool {
        !self.device.is_empty() || !self.queue.is_empty()
    }

    /// Returns a command at the drive.
    fn order(&self, id: CommandId) -> Option<&Order> {
        self.device.iter().find(|order| order.command.id == id)
    }

    /// Returns the foreground requests whose commands are at the drive or in the queue.
    fn foreground_commands(&self) -> impl Iterator<Item = &Pending> {
        self.device.iter().chain(&self.queue).filter_map(|order| match &order.work {
            Work::Foreground { job, .. } => Some(&job.pending),
            _ => None,
        })
    }

    /// Returns the reason why no detour may be tried.
    fn caution(&self) -> Option<Caution> {
        if self.blind {
            return Some(Caution::Unknown);
        }
        if !self.known {
            return Some(Caution::Unsynchronised);
        }
        let revolution = self.clock.revolution();
        let risk = self.client_harm.at_risk(revolution.max(self.worst), 0);
        // Few requests arrive during a lost revolution; many may arrive while a drive retries a sector.
        let meanwhile =
            if self.worst > revolution { self.client_harm.at_risk_meanwhile(self.worst) } else { 0 };
        self.detour_bound().and_then(|bound| self.guard.caution(bound, risk.saturating_add(meanwhile)))
    }

    /// Records whether a command that was done on the medium came as predicted.
    fn predicted_or_not(&mut self, seen: &Observation, came: Option<Came>) {
        self.record.note(seen, came);
        if self.guard.note(seen.predicted) {
            // The drive may have been replaced.
            self.correction.forget();
            self.control.forget();
            self.doubt_writing_through();
        }
        self.margins.learn(&self.record);
    }

    /// Returns whether the cost of idle time can be predicted. It cannot on an unknown drive, or on one that contradicts its
    /// profile.
    fn predicts(&self) -> bool {
        let trusted = self.guard.is_trusted() || self.config.harm_ppm.is_none();
        !self.blind && self.known && trusted
    }

    /// Returns the part of a harm bound that the estimate may use; the rest is a reserve. The estimate is less accurate
    /// if writes are reported from the buffer, because the drive's later work is invisible, and if reads repeat. An
    /// unpredictable drive counts as one that caches writes.
    fn by_account(&self, bound_ppm: u32) -> u32 {
        let bound_ppm = self.audited(bound_ppm);
        let from_buffer = self.config.overheads.write_back || !self.predicts();
        let of_writes = if from_buffer { bound_ppm / 10 } else { 0 };
        self.again.by_account(bound_ppm - of_writes)
    }

    /// Returns the part of a harm bound that is left when the increase of response times that only the audit finds is subtracted.
    fn audited(&self, bound_ppm: u32) -> u32 {
        self.cost.as_ref().map_or(bound_ppm, |cost| cost.left_of(bound_ppm))
    }

    /// Returns the share of the foreground's time that detours may cost, in ppm.
    fn detour_bound(&self) -> Option<u32> {
        self.config.harm_ppm.map(|bound| self.shared.for_detours(self.by_account(bound)))
    }

    /// Remembers the bad sectors of a command; sectors that were written are good again.
    fn remember(&mut self, command: &Command, bad: &[Lbn]) {
        let Command { op, range, .. } = *command;
        if op.is_write() && bad.is_empty() && !self.known_bad.is_empty() {
            let mended: Vec<Lbn> = self.known_bad.range(range.start()..range.end()).copied().collect();
            mended.iter().for_each(|lbn| {
                self.known_bad.remove(lbn);
            });
        }
        if self.known_bad.len() + bad.len() > KNOWN_BAD_SECTORS_MAX {
            self.known_bad.clear();
        }
        self.known_bad.extend(bad.iter().take(KNOWN_BAD_SECTORS_MAX));
    }

    /// Returns whether a range has a sector that is known to be bad.
    fn has_known_bad(&self, range: LbnRange) -> bool {
        self.known_bad.range(range.start()..range.end()).next().is_some()
    }

    /// Returns the next command of the queue, if the drive has room for it.
    fn send_decided(&mut self, drive: &DriveModel, now: Instant) -> Option<Command> {
        (self.choose_at, self.room_at) = (None, None);
        if self.device.len() < self.at_drive() { self.send_next(drive, now) } else { None }
    }

    /// Returns the next command of the queue.
    fn send_next(&mut self, drive: &DriveModel, now: Instant) -> Option<Command> {
        let mut order = self.queue.pop_front()?;
        order.sent = Some(now);
        let writing = self.buffered && self.clock.platter(now) < self.base.free;
        if writing && !self.device.is_empty() {
            order.in_any_order = true;
            self.device.iter_mut().for_each(|before| before.in_any_order = true);
        }
        let command = order.command.clone();
        self.stream_sees_sent(now, command.op);
        self.device.iter_mut().for_each(Order::is_not_alone);
        self.device.push_back(order);
        self.predict(drive);
        Some(command)
    }

    /// Restarts forecasts at `now`, because a command was lost and the position of the head is unknown.
    fn lost_sight(&mut self, now: Instant) {
        self.streams.are_lost();
        self.base.free = self.clock.platter(now);
        self.base.ready = self.base.free;
        self.base.bus = self.base.free;
        self.base.behind = None;
        self.base.reported = None;
    }
}

impl Core {
    /// Returns the next command, if the drive has room for one.
    fn send(&mut self, outside: &mut Outside, now: Instant, buffers: &mut dyn Buffers) -> Option<Command> {
        self.advance_audit(outside, now);
        self.leave_visit(outside);
        if self.passes_through(outside) && !self.pool.is_empty() {
            return self.pass_next(outside, now);
        }
        let cached = self.pass_cached_write(outside, now);
        if let Some(command) = cached.or_else(|| self.stream_next(outside, now)) {
            return Some(command);
        }
        if outside.stream_is_due().is_some_and(|due| now < due) && self.pool.is_empty() {
            return None;
        }
        let room = outside.device.len() < outside.at_drive();
        // Detours precede reads only. If all requests are writes, the drive may choose their order.
        let reads = self.pool.iter().chain(outside.foreground_commands()).any(|p| !p.request.op.is_write());
        let full = room && reads && outside.device.len() + 1 >= outside.at_drive();
        outside.room_at = outside.destaged().filter(|at| full && now < *at);
        let room = room && outside.room_at.is_none();
        if room && outside.queue.is_empty() {
            outside.choose_at = outside.late_choice(&self.drive).filter(|at| now < *at);
            if outside.choose_at.is_none() {
                self.decide(outside, now, buffers);
            }
        }
        let command = if room { outside.send_next(&self.drive, now) } else { None };
        // The choice may have removed promoted requests that are no longer wanted: if no request is left, a stream may begin.
        command.or_else(|| self.stream_next(outside, now))
    }

    /// Records the end of a command at `now`. The command's blocks and foreground request are delivered, completed, failed, or
    /// wanted again.
    fn ended(
        &mut self,
        outside: &mut Outside,
        now: Instant,
        (place, mut order): (usize, Order),
        outcome: Outcome<'_>,
    ) {
        // If the drive reorders commands, none of the overtaken ones is served as predicted. A cached write overtakes none,
        // because it does not wait for the arm.
        if !outside.reports(order.command.op) {
            outside.device.iter_mut().take(place).for_each(|order| order.overtaken = true);
        }
        self.now = now;
        outside.heard_any = now;
        if outcome == Outcome::Lost {
            return self.command_lost(outside, order);
        }
        let begun = self.watched(now, &order, outcome);
        self.note_served(outside, &order, begun);
        if matches!(order.work, Work::Stream) {
            return self.stream_done(outside, order, outcome);
        }
        let drive = Arc::clone(&self.drive);
        if outside.blind {
            let after = outside.follow(&drive, &outside.base, &order).after;
            outside.base = Standing { free: now, ready: now, ..after };
            self.account_idle_unpredicted(outside, &order, begun);
            if let Work::Foreground { job, .. } = &order.work {
                self.charge_clients(outside, now, job, now.saturating_since(begun), Late::default());
                outside.heard_at = now;
            }
            self.audit(outside, &order, outcome);
            self.hand_out(outside, order, outcome);
            return;
        }
        if order.passed == Some(Passed::BesideOthers) {
            return self.passed_done(outside, order, begun, outcome);
        }
        let mut is_next = place == 0;
        if order.in_any_order && !is_next {
            // The drive chose this command first. Predicted in that order, its completion shows how accurate predictions are.
            order.forecast = outside.follow(&drive, &outside.base, &order).forecast;
            is_next = true;
        }
        let followed = outside.came_from_buffer(&drive, ServedTime { begun, done: now }, &mut order, is_next);
        let buffered = followed.hit;
        // A write that is reported from the buffer shows at most the end of the write before it.
        let mut report = None;
        let mut seen = if buffered {
            Observation { error: 0, revolutions: 0, explained: true, predicted: true }
        } else if outside.reports(order.command.op) {
            let Report { seen, before } = outside.reported(&drive, now, &order, is_next);
            report = before;
            seen
        } else {
            outside.resync(&drive, now, &order, is_next)
        };
        seen.predicted &= !order.overtaken || order.in_any_order;
        let predicted = order.forecast;
        // A read from the drive's read-ahead needs no move.
        let medium = predicted.source == Source::Medium;
        let streamed = buffered || followed.on_the_way || !(medium || predicted.moves);
        // Without a move even a wrong speed gives small errors, so an error must be a small part of the elapsed time.
        let waited = clock::nanos(now.saturating_since(begun));
        seen.predicted &= medium || seen.error.abs() <= waited / ERROR_CHANCE_DIVISOR;
        // A zero-latency drive that arrives late at a long read transfers its tail first and finishes less than one
        // revolution late.
        let in_two = !seen.explained && (1..outside.clock.revolution()).contains(&seen.error);
        let late = seen.explained && seen.revolutions > 0 || in_two;
        let came = medium.then(|| predicted.came(late));
        if let Some(before) = report {
            outside.predicted_or_not(&seen, before);
        } else if !(streamed || outside.reports(order.command.op)) {
            outside.predicted_or_not(&seen, came);
            outside.learned.note(order.neighbour, seen.revolutions > 0 || !seen.explained && seen.error > 0);
            if let Work::Foreground { plain, .. } = &order.work
                && plain.is_none_or(|plain| plain.detour == 0)
                && outside.predicts()
                && outside.agreeing > 1
            {
                let revolution = super::under_way::revolution(&self.drive);
                outside.control.note(revolution, order.command.op, &predicted, &seen);
            }
            if outside.config.correct_moves {
                self.correct_moves(outside, &order, &seen);
            }
        }
        self.believe_corrections(outside);
        self.account_idle_unpredicted(outside, &order, begun);
        // An early read from read-ahead is no gain of idle time: the drive would have read ahead this far without it.
        let error = if followed.on_the_way { seen.error.max(0) } else { seen.error };
        self.account_idle_seen(outside, &order, &Observation { error, ..seen });
        let drive = Arc::clone(&self.drive);
        let revolution = super::under_way::revolution(&drive);
        let overlap = outside.config.overheads.overlap;
        // On an unpredictable drive the measured time counts.
        let time = if seen.explained && outside.predicts() && medium && !streamed {
            predicted.end.saturating_since(predicted.service)
                + revolution * seen.revolutions.clamp(0, 100).unsigned_abs()
        } else {
            now.saturating_since(begun)
        };
        let left = self.left_by_idle(outside);
        outside.shared.note_yield(matches!(order.work, Work::Idle), order.command.useful);
        match &order.work {
            Work::Foreground { plain, job } => {
                let Command { range, foreground, .. } = order.command;
                let failed = foreground.is_some_and(|asked| outcome.failed_before(asked.start()));
                let reported = outside.reports(order.command.op);
                let plain = plain.map(|plain| Plain { failed: plain.failed || failed, ..plain });
                let merged = foreground.is_some_and(|asked| range.len() > asked.len());
                let late = plain.map_or(Late::default(), |plain| {
                    plain.late(&predicted, &seen, revolution, overlap, merged)
                });
                if plain.is_some_and(|plain| plain.failed) {
                    outside.worst = outside.worst.max(late.head);
                }
                let at_head = if reported { outside.to_report(job) } else { time };
                let late = self.lost_hits(outside, late);
                let client = self.charge_clients(outside, now, job, at_head, late);
                outside.written = if reported { outside.base.free } else { Instant::ZERO };
                let client_harm = guard::Lateness { client, head: late.head };
                let spent = plain.map_or(Duration::ZERO, |plain| plain.spent);
                outside.guard.note_yield(order.command.useful, spent);
                outside.guard.account(time, now.saturating_since(job.pending.arrived), client_harm, left);
                outside.on_bus = late.bus;
                (outside.heard_foreground, outside.heard_at) = (outside.clock.platter(now), now);
                outside.predict_plain(&drive);
            }
            Work::Detour => {
                outside.guard.note_yield(order.command.useful, Duration::ZERO);
                outside.guard.account(time, Duration::ZERO, guard::Lateness::default(), left);
                if outcome != Outcome::Done {
                    outside.detour_failed();
                }
            }
            Work::Idle | Work::Stream | Work::Probe => {
                outside.visit_ended(&order, true);
                outside.idle_failed = outcome != Outcome::Done;
                outside.idle_heard = now;
                outside.predict_plain(&drive);
            }
        }
        self.share_bound(outside);
        outside.believe_reading_on();
        outside.predict(&drive);
        self.audit(outside, &order, outcome);
        self.hand_out(outside, order, outcome);
    }

    /// Charges idle time with the cache hits that it has taken from the finished request. Returns the request's delay by detours:
    /// `late`, and the delay by the hits that detours have taken.
    fn lost_hits(&mut self, outside: &mut Outside, late: Late) -> Late {
        let [detours, idle] = outside.kept.take_late();
        if self.config.idle.is_some() {
            self.idle.head.late_by(idle);
            outside.client_harm.after_idle(idle);
            outside.streams.pay(Duration::from_nanos(idle.max(0).unsigned_abs()));
        }
        Late { head: late.head + detours, ..late }
    }

    /// Divides the bound on harm between detours and idle time, and sets the margins by the harm of detours.
    fn share_bound(&mut self, outside: &mut Outside) {
        if let Some((bound, idle)) = outside.config.harm_ppm.zip(self.config.idle) {
            let bound = outside.by_account(bound.min(idle.harm_ppm));
            outside.shared.weigh(&outside.guard.harm(), &self.idle.harm(), bound);
            self.idle.beside_ppm = idle.harm_ppm.saturating_sub(outside.shared.for_idle(bound));
        }
        if let Some(bound) = outside.detour_bound()
            && let Some(share) = outside.guard.recent_ppm()
        {
            outside.margins.steer(&outside.config.conservatism, share, bound);
        }
    }

    /// Returns the part of the bound that idle time leaves to detours, in 65536ths; all of it without a bound.
    fn left_by_idle(&self, outside: &Outside) -> u32 {
        let bound = outside.config.harm_ppm;
        bound.map_or(65_536, |bound| outside.shared.left_by_idle(outside.by_account(bound)))
    }

    /// Records a finished request that used the head for `time` and was `late` because of detours. Charges the clients' delay by
    /// idle work to the estimate of idle time, and returns the clients' delay by detours in ns.
    fn charge_clients(
        &mut self,
        outside: &mut Outside,
        now: Instant,
        job: &Job,
        time: Duration,
        late: Late,
    ) -> i64 {
        let commanded = outside.foreground_commands();
        let all = self.pool.iter().chain(commanded).chain([&job.pending]);
        let mut waiting = Waiting::of(all, outside.heard_at);
        waiting.to_write = outside.buffered;
        if outside.written != Instant::ZERO && outside.written <= outside.clock.platter(waiting.since) {
            outside.client_harm.queue_was_empty();
        }
        let mut time = Some(time);
        if let Some(idle) = self.config.idle.filter(|_| !outside.predicts()) {
            // After a silence as long as the threshold the drive has written everything that it may have cached.
            if waiting.since >= outside.heard_at + idle.threshold {
                outside.client_harm.queue_was_empty();
            }
            let op = job.pending.request.op;
            waiting.to_write |= op.is_write();
            time = time.and_then(|time| outside.at_head_unpredicted(op, time));
        }
        let waited =
            time.map_or(Duration::MAX, |time| now.saturating_since(waiting.since).saturating_sub(time));
        let [detours, idle] = outside.client_harm.done(now, late, waiting, waited);
        if job.pending.promoted.is_none() {
            outside.charged_nanos = outside.charged_nanos.saturating_add(detours).saturating_add(idle);
        }
        if self.config.idle.is_some() {
            self.idle.client_harm.foreground += now.saturating_since(job.pending.arrived);
            self.idle.client_harm.late_by(idle);
        }
        detours
    }

    /// Records that the host gave up on a command: the position of the head is unknown.
    fn command_lost(&mut self, outside: &mut Outside, order: Order) {
        self.watch.lost_sight();
        outside.lost_sight(self.now);
        outside.visit_ended(&order, false);
        if !outside.blind {
            outside.predict_plain(&self.drive);
            outside.predict(&self.drive);
        }
        self.hand_out(outside, order, Outcome::Lost);
    }

    /// Reports a finished command to the mimic and returns the instant at which the drive began it.
    fn watched(&mut self, now: Instant, order: &Order, outcome: Outcome<'_>) -> Instant {
        let Command { op, range, foreground, .. } = order.command;
        let id = match &order.work {
            Work::Foreground { job, .. } => job.pending.request.id,
            _ => RequestId::new(0),
        };
        // A request with merged background blocks does not show the time of the request alone.
        let alone = foreground == Some(range) || matches!(order.work, Work::Probe);
        let as_asked = alone && outcome == Outcome::Done;
        self.watch.command_done(now, order.sent.unwrap_or(now), &Request { id, op, range }, as_asked)
    }
}
