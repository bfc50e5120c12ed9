//! The core outside the drive (FAST'02, sections 3 and 4): it sends commands and learns when they are done.
//!
//! All planning is done in platter time ([`clock`]), from where the head will be when the commands at the drive are done
//! ([`forecast`]). What is next is decided when the drive has room for a command and nothing is ready to be sent: then
//! the detour goes first and its foreground request behind it, or both as one command. Each completion says which
//! turn it was, and what is still to come is foreseen anew from there.

mod again;
mod answers;
mod arrivals;
mod bought;
mod busy;
mod clock;
mod command;
mod config;
mod control;
mod correct;
mod course;
mod decide;
mod felt;
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
mod record;
mod rehearsal;
mod reported;
mod rest;
mod returns;
mod script;
mod sequences;
mod shared;
mod speed;
mod stream;
mod taking_in;
mod through;
mod told;

pub use command::{Command, CommandId, Outcome};
pub use config::{Conservatism, Neighbour, Neighbours, OutsideConfig, Overheads, Place};
pub use guard::Caution;
pub use harm::{AuditArm, AuditConfig, AuditReport, AuditWindow, Interval, Promise};
pub use parts::Part;
pub use record::ErrorRecord;

use super::under_way::Job;
use super::{Action, Core};
use crate::background::Buffers;
use crate::foreground::{Pending, Request};
use again::Again;
use bought::Price;
use clock::Clock;
use command::{Order, Passed, Work};
use control::Control;
use correct::Correction;
use felt::{Felt, Waiting};
use forecast::{Forecast, HeldBack, Late, Plain, Source, Standing};
use guard::Guard;
use harm::Cost;
use idle::{Alone, Charged, Usual};
use kept::Kept;
use margin::Margins;
use model::{DriveModel, Position};
use neighbours::Learned;
use record::{Came, Observed};
use reported::Report;
use sequences::Sequences;
use shared::Shared;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use stream::Streams;
use taking_in::TakingIn;
use through::Through;
use units::{Duration, Instant, Lbn, Op, RequestId, TrackIndex};

/// The noise of a completion that is no reason to doubt the rest, as a part of a turn: an eighth.
const NOISE: i64 = 8;

/// The part of a turn by which a command may be done sooner or later than foreseen for chance alone and still be foreseen: a
/// thirty-second, less than a detour's moves are widened by where nothing is known yet. A drive that turns faster than told is
/// often off by more, and still within an eighth, from one command to the next.
const CHANCE: i64 = 32;

/// By how many millionths a spindle's speed may be off that was right when a command was heard of: half a percent.
const DRIFT_PPM: i64 = 5_000;

/// Of a bound on harm, the hundredths that the account of a core which foresees nothing may not show where most clients come again after
/// a constant time. Idle time is long there and clients are late by several turns at once, a few times only: by an account of 0.9% to 1.0%
/// twenty who think for 200 ms felt 1.2% to 1.7%, and by 0.47% 1.0% at most, of a drive that writes back (docs/FAST02.md).
const OF_RETURNING: u32 = 60;

/// The same of a drive that is foreseen, where idle time is used: who meets whom for what one idle command was late by is told by four
/// fifths. By accounts of 0.95% clients who pause for 100 to 250 ms felt 1.0% to 1.2%, on slow arms and of a drive that takes one command
/// at a time (docs/FAST02.md).
const OF_RETURNING_IDLE: u32 = 20;

/// So many completions that agree make the platter's angle known.
const AGREEING: u32 = 4;

/// So many one after another that nothing explains, and it is looked for anew.
const DISAGREEING: u32 = 6;

/// More commands at the drive than this are not foreseen exactly.
const MOST_AT_DRIVE: usize = 8;

/// Bad sectors that are remembered; beyond, all are learned anew.
const MOST_KNOWN_BAD: usize = 1 << 16;

/// The state of a core outside the drive.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    config: OutsideConfig,
    /// Nothing is known of the drive but its size: there is nothing to foresee.
    blind: bool,
    /// What was done last was done in idle time.
    after_idle: bool,
    /// What requests take otherwise: reads, and writes.
    alone: [Alone; 2],
    /// What commands of idle time take.
    visits: Alone,
    /// What they have taken since a foreground command was done.
    idle_spent: Duration,
    /// What idle time is charged with for the next foreground command, if that comes behind such work.
    charged: Option<Charged>,
    /// The last command of idle time met sectors that cannot be read: what the drive has tried for them is no pause of its own.
    idle_failed: bool,
    /// The most that a detour has cost the head because it met sectors that cannot be read, in nanoseconds: the next may as well.
    worst: i64,
    /// When the host heard last of a command of idle time, by its own clock.
    idle_heard: Instant,
    /// For how long the bus has been busy beyond what it would have been without what idle time asked for.
    idle_on_bus: Duration,
    /// By how much requests are later than foreseen that nothing was done before.
    usual: Usual,
    /// By how much requests without a detour are later than foreseen, beside whole turns.
    own: Usual,
    clock: Clock,
    /// Whether the platter's angle is known, and for how long completions have agreed or not.
    known: bool,
    agreeing: u32,
    disagreeing: u32,
    next_id: u64,
    next_tag: u64,
    /// Platter time of the last decision.
    decided: Instant,
    /// When the next one is due, if that is not as soon as there is something to choose from.
    choose_at: Option<Instant>,
    /// When the drive has room for a command, if that is when it has written what it reported from its buffer.
    room_at: Option<Instant>,
    /// What the last command in the queue or before it does, and the LBN behind it.
    last: (Op, Lbn),
    learned: Learned,
    sequences: Sequences,
    taking_in: TakingIn,
    through: Through,
    kept: Kept,
    again: Again,
    held_back: HeldBack,
    /// Platter time at which the host heard last that a foreground request was done.
    heard_foreground: Instant,
    /// The same by the host's clock.
    heard_at: Instant,
    /// When it heard last of any command, by its own clock.
    heard_any: Instant,
    /// Foreground requests since the last with a detour.
    plain_since: u32,
    /// By how much later for what was had beside, if only by the bus.
    on_bus: Duration,
    /// To be sent, in this order.
    queue: VecDeque<Order>,
    /// At the drive, in the order of sending.
    device: VecDeque<Order>,
    /// Where the head was when the last command was done.
    base: Standing,
    /// What was heard of last is a write that was in the drive's buffer then.
    buffered: bool,
    /// How the last that was reported so was foreseen to go to the medium.
    last_reported: Option<Forecast>,
    /// Reports since a completion fitted the platter's angle that fitted none.
    reports_off: u32,
    /// Platter time at which the foreground's last write is on the medium, if it was reported before.
    written: Instant,
    /// Commands of detours whose cost has not been heard of, since their requests' writes were reported from the buffer.
    unheard: u32,
    /// Of those, what the last completion tells the cost of.
    heard_of: u32,
    /// Foreground requests that were lost, each with its tag.
    retries: VecDeque<(u64, Job)>,
    record: ErrorRecord,
    margins: Margins,
    /// By how much moves are longer than told.
    correction: Correction,
    /// Requests whose gaps were left alone.
    control: Control,
    guard: Guard,
    felt: Felt,
    shared: Shared,
    /// Sectors that failed: a command that passes over one to fetch others would fail for it.
    known_bad: BTreeSet<Lbn>,
    /// What a turn must bring to be bought.
    price: Price,
    /// The measured cost of background work; `None` where that is not asked for.
    cost: Option<Box<Cost>>,
    /// When the drive has written all that it has reported, at the latest.
    destaged_at: Instant,
    /// Foreground requests since the drive is mistrusted.
    mistrusted_requests: u32,
    /// Foreground requests since the beginning.
    served_requests: u32,
    streams: Streams,
}

impl Outside {
    pub fn new(drive: &DriveModel, config: OutsideConfig) -> Self {
        let position = Position::default();
        let base = Standing::at_rest(position, drive.layout().track_at(position.cylinder, position.head));
        Self {
            config,
            blind: !drive.is_known(),
            after_idle: false,
            alone: [Alone::default(); 2],
            visits: Alone::default(),
            idle_spent: Duration::ZERO,
            charged: None,
            idle_failed: false,
            worst: 0,
            idle_heard: Instant::ZERO,
            idle_on_bus: Duration::ZERO,
            usual: Usual::default(),
            own: Usual::default(),
            clock: Clock::new(super::under_way::turn(drive)),
            known: false,
            agreeing: 0,
            disagreeing: 0,
            next_id: 1,
            next_tag: 1,
            decided: Instant::ZERO,
            choose_at: None,
            room_at: None,
            last: (Op::Read, Lbn::ZERO),
            learned: Learned::default(),
            sequences: Sequences::default(),
            taking_in: TakingIn::default(),
            through: Through::of(config.overheads),
            kept: Kept::default(),
            again: Again::default(),
            held_back: HeldBack::default(),
            heard_foreground: Instant::ZERO,
            heard_at: Instant::ZERO,
            heard_any: Instant::ZERO,
            plain_since: u32::MAX,
            on_bus: Duration::ZERO,
            queue: VecDeque::new(),
            device: VecDeque::new(),
            base,
            buffered: false,
            last_reported: None,
            reports_off: 0,
            written: Instant::ZERO,
            unheard: 0,
            heard_of: 0,
            retries: VecDeque::new(),
            record: ErrorRecord::default(),
            margins: Margins::default(),
            correction: Correction::new(drive, &config.overheads),
            control: Control::default(),
            guard: Guard::new(),
            felt: Felt::default(),
            shared: Shared::default(),
            known_bad: BTreeSet::new(),
            price: Price::of_track(drive.layout().track(TrackIndex::new(0)).sectors),
            cost: config.audit.map(|audit| Box::new(Cost::new(audit, drive, base))),
            destaged_at: Instant::ZERO,
            mistrusted_requests: 0,
            served_requests: 0,
            streams: Streams::default(),
        }
    }

    pub fn is_busy(&self) -> bool {
        !self.device.is_empty() || !self.queue.is_empty()
    }

    /// Foreground requests that were lost and wait to be sent again.
    pub fn lost_requests(&self) -> usize {
        self.retries.len()
    }

    /// Commands for foreground requests, sent or about to be.
    fn foreground_commands(&self) -> impl Iterator<Item = &Pending> {
        self.device.iter().chain(&self.queue).filter_map(|order| match &order.work {
            Work::Foreground { job, .. } => Some(&job.pending),
            _ => None,
        })
    }

    /// Why no detour may be tried.
    fn caution(&self) -> Option<Caution> {
        if self.blind {
            return Some(Caution::Unknown);
        }
        if !self.known {
            return Some(Caution::Unsynchronised);
        }
        let turn = self.clock.turn();
        let risk = self.felt.at_risk(turn.max(self.worst));
        // While a turn is lost hardly anybody comes; while a drive tries for a sector many may.
        let meanwhile = if self.worst > turn { self.felt.at_risk_meanwhile(self.worst) } else { 0 };
        self.detour_bound().and_then(|bound| self.guard.caution(bound, risk.saturating_add(meanwhile)))
    }

    /// What is known to have gone to the medium is done, when it was foreseen or not.
    fn foreseen_or_not(&mut self, seen: &Observed, came: Option<Came>) {
        self.record.note(seen, came);
        if self.guard.note(seen.foreseen) {
            // The drive may be another one from now on.
            self.correction.forget();
            self.control.forget();
            self.doubt_writing_through();
        }
        self.margins.learn(&self.record);
    }

    /// Whether what idle time costs can be foreseen: not of a drive that is unknown, or not what it is believed to be.
    fn foresees(&self) -> bool {
        let trusted = self.guard.is_trusted() || self.config.harm_ppm.is_none();
        !self.blind && self.known && trusted
    }

    /// Of a bound on harm, what the account may show. Where writes are reported from the drive's buffer nobody hears what the drive did
    /// then, and what clients feel is up to a tenth more (docs/FAST02.md); where reads come back to what is there, more than that. Of a drive
    /// that is not foreseen nobody knows where it reports them from.
    fn by_account(&self, bound_ppm: u32) -> u32 {
        let foresees = self.foresees();
        let from_buffer = self.config.overheads.write_back || !foresees;
        let of_writes = if from_buffer { bound_ppm / 10 } else { 0 };
        let hundredths = match foresees {
            false => OF_RETURNING,
            true if self.shared.uses_idle_time() => OF_RETURNING_IDLE,
            true => 0,
        };
        let of_returning = if self.felt.most_return() { bound_ppm / 100 * hundredths } else { 0 };
        self.again.by_account(bound_ppm - of_writes.max(of_returning))
    }

    /// Of the foreground's time, the millionths that detours may cost.
    fn detour_bound(&self) -> Option<u32> {
        self.config.harm_ppm.map(|bound| self.shared.for_detours(self.by_account(bound)))
    }

    /// Which sectors are bad; those that were written are good again.
    fn remember(&mut self, command: &Command, bad: &[Lbn]) {
        let Command { op, range, .. } = *command;
        if op.is_write() && bad.is_empty() && !self.known_bad.is_empty() {
            let mended: Vec<Lbn> = self.known_bad.range(range.start()..range.end()).copied().collect();
            mended.iter().for_each(|lbn| {
                self.known_bad.remove(lbn);
            });
        }
        if self.known_bad.len() + bad.len() > MOST_KNOWN_BAD {
            self.known_bad.clear();
        }
        self.known_bad.extend(bad.iter().take(MOST_KNOWN_BAD));
    }

    /// All that is known of the drive is that nothing foreseen is under way any more.
    fn lost_sight(&mut self, now: Instant) {
        self.base.free = self.clock.platter(now);
        self.base.ready = self.base.free;
        self.base.bus = self.base.free;
        self.base.behind = None;
        self.base.reported = None;
    }
}

impl Core {
    /// The next command, if the drive is to have one more.
    pub(super) fn send(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Action> {
        let mut outside = self.outside.take()?;
        self.advance_audit(&mut outside, now);
        if self.passes_through(&outside) && !self.pool.is_empty() {
            let action = self.pass_next(&mut outside, now);
            self.outside = Some(outside);
            return action;
        }
        if let Some(action) = self.stream_next(&mut outside, now) {
            self.outside = Some(outside);
            return Some(action);
        }
        if outside.stream_is_due().is_some_and(|due| now < due) && self.pool.is_empty() {
            self.outside = Some(outside);
            return None;
        }
        let room = outside.device.len() < outside.at_drive();
        // Only ahead of reads there are detours, whose order matters: writes alone the drive may take as it likes.
        let reads = self.pool.iter().chain(outside.foreground_commands()).any(|p| !p.request.op.is_write());
        let full = room && reads && outside.device.len() + 1 >= outside.at_drive();
        outside.room_at = outside.destaged().filter(|at| full && now < *at);
        let room = room && outside.room_at.is_none();
        if room && outside.queue.is_empty() {
            outside.choose_at = outside.late_choice(&self.drive).filter(|at| now < *at);
            if outside.choose_at.is_none() {
                self.decide(&mut outside, now, buffers);
            }
        }
        let order = if room { outside.queue.pop_front() } else { None };
        let writing = outside.buffered && outside.clock.platter(now) < outside.base.free;
        let action = order.map(|mut order| {
            order.sent = Some(now);
            if writing && !outside.device.is_empty() {
                order.in_any_order = true;
                outside.device.iter_mut().for_each(|before| before.in_any_order = true);
            }
            let command = order.command;
            outside.stream_sees_sent(now, command.op);
            outside.device.iter_mut().for_each(Order::is_not_alone);
            outside.device.push_back(order);
            outside.foresee(&self.drive);
            Action::Send(command)
        });
        // A request that was promoted and is no longer wanted has left the pool meanwhile: nothing waits, and idle time begins.
        let action = action.or_else(|| self.stream_next(&mut outside, now));
        self.outside = Some(outside);
        action
    }

    /// Outside the drive: a command is done, as the host learns at `now`. Its blocks and its foreground request are
    /// delivered, completed, failed, or wanted again.
    pub fn command_done(&mut self, now: Instant, id: CommandId, outcome: Outcome<'_>) {
        let Some(mut outside) = self.outside.take() else {
            debug_assert!(false, "a command is done for a core that sends none");
            return;
        };
        let place = outside.device.iter().position(|o| o.command.id == id);
        let Some(mut order) = place.and_then(|place| outside.device.remove(place)) else {
            debug_assert!(false, "{id} is not at the drive");
            self.outside = Some(outside);
            return;
        };
        // A drive that serves commands in another order than they were sent in serves none of these when it was foreseen.
        outside.device.iter_mut().take(place.unwrap_or(0)).for_each(|order| order.overtaken = true);
        self.now = now;
        outside.heard_any = now;
        if outcome == Outcome::Lost {
            return self.command_lost(outside, order);
        }
        let begun = self.watched(now, &order, outcome);
        self.note_served(&mut outside, &order, begun);
        if matches!(order.work, Work::Stream) {
            return self.stream_done(outside, order, outcome);
        }
        let drive = Arc::clone(&self.drive);
        if outside.blind {
            let (_, after) = outside.follow(&drive, &outside.base, &order);
            outside.base = Standing { free: now, ready: now, ..after };
            self.account_idle_unforeseen(&mut outside, &order, begun);
            if let Work::Foreground { job, .. } = &order.work {
                self.felt(&mut outside, now, job, now.saturating_since(begun), Late::default());
                outside.heard_at = now;
            }
            self.audit(&mut outside, &order, outcome);
            self.hand_out(&mut outside, order, outcome);
            self.outside = Some(outside);
            return;
        }
        if order.passed == Some(Passed::BesideOthers) {
            return self.passed_done(outside, order, (begun, outcome));
        }
        let mut in_turn = place == Some(0);
        if order.in_any_order && !in_turn {
            // It went first, as the drive chose: whether it came when it was to be expected then says how well the drive is known.
            order.forecast = outside.follow(&drive, &outside.base, &order).0;
            in_turn = true;
        }
        let waited_for_bus = outside.behind_idle_on_bus(&drive, &order);
        let followed = outside.came_from_buffer(&drive, (now, begun), &mut order, in_turn);
        let buffered = followed.hit;
        // A write's report from the buffer tells of the one before it at most.
        let mut report = None;
        let mut seen = if buffered {
            Observed { error: 0, turns: 0, explained: true, foreseen: true }
        } else if outside.reports(order.command.op) {
            let Report { seen, before } = outside.reported(&drive, now, &order, in_turn);
            report = before;
            seen
        } else {
            outside.resync(&drive, now, &order, in_turn)
        };
        seen.foreseen &= !order.overtaken || order.in_any_order;
        let foreseen = order.forecast;
        // Where the drive has read on nothing moves.
        let medium = foreseen.source == Source::Medium;
        let streamed = buffered || followed.on_the_way || !(medium || foreseen.moves);
        // Of sectors that pass one after another none is off by much, however wrong a speed is: by a part of their time it is.
        let waited = clock::nanos(now.saturating_since(begun));
        seen.foreseen &= medium || seen.error.abs() <= waited / CHANCE;
        // Of a long read that comes too late the rear part is read first: it takes a part of a turn more.
        let in_two = !seen.explained && (1..outside.clock.turn()).contains(&seen.error);
        let late = seen.explained && seen.turns > 0 || in_two;
        let came = medium.then(|| foreseen.approach()).map(|(way, slack)| Came { way, slack, late });
        if let Some(before) = report {
            outside.foreseen_or_not(&seen, before);
        } else if !(streamed || outside.reports(order.command.op)) {
            outside.foreseen_or_not(&seen, came);
            outside.learned.note(order.neighbour, seen.turns > 0 || !seen.explained && seen.error > 0);
            if let Work::Foreground { plain, .. } = &order.work
                && plain.is_none_or(|plain| plain.detour == 0)
                && outside.foresees()
            {
                let turn = super::under_way::turn(&self.drive);
                outside.control.note_stray(turn, &seen);
                if outside.agreeing > 1 {
                    outside.control.note(turn, order.command.op, &foreseen, &seen);
                }
            }
            if outside.config.correct_moves {
                self.correct_moves(&mut outside, &order, &seen);
            }
        }
        self.believe_corrections(&mut outside);
        self.account_idle_unforeseen(&mut outside, &order, begun);
        // What the drive has read on to it had without idle time as well.
        let error = if followed.on_the_way { seen.error.max(0) } else { seen.error };
        self.account_idle_seen(&mut outside, &order, &Observed { error, ..seen }, waited_for_bus);
        let drive = Arc::clone(&self.drive);
        let turn = super::under_way::turn(&drive);
        let overlap = outside.config.overheads.overlap;
        // Of a drive that is not as foreseen, what it took.
        let time = if seen.explained && outside.foresees() && medium && !streamed {
            foreseen.end.saturating_since(foreseen.service) + turn * seen.turns.clamp(0, 100).unsigned_abs()
        } else {
            now.saturating_since(begun)
        };
        let left = self.left_by_idle(&outside);
        outside.shared.had(matches!(order.work, Work::Idle), order.command.useful);
        match &order.work {
            Work::Foreground { plain, job } => {
                let Command { range, foreground, .. } = order.command;
                let failed = foreground.is_some_and(|asked| outcome.failed_before(asked.start()));
                let reported = outside.reports(order.command.op);
                let own = plain.map_or(0, |plain| plain.detour);
                // What came from the buffer says what the detours before it have cost, not its own.
                let detour = if reported { outside.heard_of } else { own + outside.heard_of };
                let plain = plain.map(|plain| Plain { failed: plain.failed || failed, detour, ..plain });
                outside.unheard += if reported { own } else { 0 };
                let merged = foreground.is_some_and(|asked| range.len() > asked.len());
                let late = plain.map_or(Late::default(), |plain| {
                    plain.late(&foreseen, &seen, (turn, overlap), (merged, outside.own.mean()))
                });
                if plain.is_some_and(|plain| plain.failed) {
                    outside.worst = outside.worst.max(late.head);
                }
                if seen.explained && !reported && plain.is_none_or(|plain| plain.detour == 0) {
                    outside.own.note(seen.error - seen.turns * clock::nanos(turn));
                }
                let at_head = if reported { outside.to_report(job) } else { time };
                let [detours, idle] = outside.kept.take_late();
                let late = Late { head: late.head + detours, ..late };
                if self.config.idle.is_some() {
                    self.idle.head.late_by(idle);
                    outside.felt.after_idle(idle);
                }
                let client = self.felt(&mut outside, now, job, at_head, late);
                outside.written = if reported { outside.base.free } else { Instant::ZERO };
                let felt = guard::Lateness { client, head: late.head };
                let bought = plain.map_or(Duration::ZERO, |plain| plain.bought);
                outside.guard.had(order.command.useful, bought);
                outside.guard.account(time, now.saturating_since(job.pending.arrived), felt, left);
                outside.on_bus = late.bus;
                (outside.heard_foreground, outside.heard_at) = (outside.clock.platter(now), now);
                outside.foresee_plain(&drive);
            }
            Work::Detour => {
                outside.guard.had(order.command.useful, Duration::ZERO);
                outside.guard.account(time, Duration::ZERO, guard::Lateness::default(), left);
                if outcome != Outcome::Done {
                    outside.detour_failed();
                }
            }
            Work::Idle | Work::Stream | Work::Probe => {
                outside.idle_failed = outcome != Outcome::Done;
                // Without it the bus would have been free by now.
                (outside.idle_heard, outside.idle_on_bus) = (now, Duration::MAX);
                outside.foresee_plain(&drive);
            }
        }
        self.share_bound(&mut outside);
        outside.believe_reading_on();
        outside.believe_taking_in();
        outside.foresee(&drive);
        self.audit(&mut outside, &order, outcome);
        self.hand_out(&mut outside, order, outcome);
        self.outside = Some(outside);
    }

    /// Shares the bound on harm between detours and idle time, and steers the margins by what detours have cost.
    fn share_bound(&mut self, outside: &mut Outside) {
        if let Some((bound, idle)) = outside.config.harm_ppm.zip(self.config.idle) {
            let bound = outside.by_account(bound.min(idle.harm_ppm));
            outside.shared.weigh(&outside.guard.harm(), &self.idle.harm(), bound);
            self.idle.beside_ppm = idle.harm_ppm.saturating_sub(outside.shared.for_idle(bound));
        }
        if let Some(bound) = outside.detour_bound()
            && let Some(share) = outside.guard.look()
        {
            outside.margins.steer(&outside.config.conservatism, share, bound);
        }
    }

    /// The 65536ths of the bound that idle time leaves to detours.
    fn left_by_idle(&self, outside: &Outside) -> u32 {
        let bound = outside.config.harm_ppm;
        bound.map_or(65_536, |bound| outside.shared.left_by_idle(outside.by_account(bound)))
    }

    /// A request is done that had the head for `time` and was `late` for detours: what clients feel of idle time goes to its
    /// account; what of detours is told, in nanoseconds.
    fn felt(&mut self, outside: &mut Outside, now: Instant, job: &Job, time: Duration, late: Late) -> i64 {
        let commanded = outside.foreground_commands();
        let all = self.pool.iter().chain(commanded).chain([&job.pending]);
        let mut waiting = Waiting::of(all, outside.heard_at);
        waiting.to_write = outside.buffered;
        waiting.done = job.pending.sequence;
        if outside.written != Instant::ZERO && outside.written <= outside.clock.platter(waiting.since) {
            outside.felt.nobody_waits();
        }
        let mut time = Some(time);
        if let Some(idle) = self.config.idle.filter(|_| !outside.foresees()) {
            // By then the drive has written what it may have reported.
            if waiting.since >= outside.heard_at + idle.threshold {
                outside.felt.nobody_waits();
            }
            let op = job.pending.request.op;
            waiting.to_write |= op.is_write();
            time = time.and_then(|time| outside.at_head_unforeseen(op, time));
        }
        waiting.frees = outside.frees(now, job.pending.request.op);
        let waited =
            time.map_or(Duration::MAX, |time| now.saturating_since(waiting.since).saturating_sub(time));
        let [detours, idle] = outside.felt.done(
            now,
            late,
            waiting,
            (waited, super::under_way::turn(&self.drive)),
            !outside.foresees(),
        );
        if self.config.idle.is_some() {
            self.idle.felt.foreground += now.saturating_since(job.pending.arrived);
            self.idle.felt.late_by(idle);
        }
        detours
    }

    /// The host waits for a command no longer: it says nothing of where the head is.
    fn command_lost(&mut self, mut outside: Box<Outside>, order: Order) {
        self.watch.lost_sight();
        outside.lost_sight(self.now);
        if !outside.blind {
            outside.foresee_plain(&self.drive);
            outside.foresee(&self.drive);
        }
        self.hand_out(&mut outside, order, Outcome::Lost);
        self.outside = Some(outside);
    }

    /// The mimic sees a command; when that began.
    fn watched(&mut self, now: Instant, order: &Order, outcome: Outcome<'_>) -> Instant {
        let Command { op, range, foreground, .. } = order.command;
        let id = match &order.work {
            Work::Foreground { job, .. } => job.pending.request.id,
            _ => RequestId::new(0),
        };
        // What is merged with a request takes time of its own.
        let alone = foreground == Some(range) || matches!(order.work, Work::Probe);
        let as_asked = alone && outcome == Outcome::Done;
        self.watch.command_done(now, order.sent.unwrap_or(now), &Request { id, op, range }, as_asked)
    }
}
