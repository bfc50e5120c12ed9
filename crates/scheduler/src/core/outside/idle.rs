//! What idle time is used for outside the drive, and what that has cost.
//!
//! A command that was sent cannot be left again, as a head in the drive leaves its track: whoever comes meanwhile waits
//! for all of it. So each is in the account of harm, one on the track under the head like any other. While idle time is
//! short, only that track is read (FAST'04, section 5.2), by commands that are short as well.

use super::clock::{difference, nanos};
use super::fit::range_of;
use super::forecast::{PAUSE, Standing};
use super::record::Observed;
use super::{Neighbours, Order, Outside, Work};
use crate::background::{Buffers, Focus};
use crate::core::under_way::{Job, pass, plain_end, turn};
use crate::core::{Core, Purpose};
use crate::foreground::Request;
use crate::idle::{IdleTime, Range};
use crate::planner::{Stop, straight_parts};
use model::layout::Location;
use model::{DriveModel, Position};
use std::sync::Arc;
use units::{Duration, FULL_TURN, Instant, LbnRange, Op, Sectors, TrackIndex};

/// What requests take that come to an idle drive behind another request: reads, or writes, which a drive may report from its buffer
/// whatever it is told to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alone {
    mean: Duration,
    /// About the middle of them, and of 65536 those that are near it.
    middle: Duration,
    near: u32,
    seen: u32,
}

/// The mean is of so many, and of fewer than the second number none.
const MEAN_OF: u32 = 128;
const TOO_FEW: u32 = 16;

/// What turns past a head differs by a quarter of a turn in the mean: where most are nearer to each other than this, nothing does.
const NEAR: Duration = Duration::from_micros(500);
const MOST: u32 = 65_536 / 4 * 3;

impl Alone {
    fn note(&mut self, time: Duration) {
        self.seen = (self.seen + 1).min(MEAN_OF);
        let of = u64::from(self.seen);
        self.mean = (self.mean * (of - 1) + time) / of;
        let step = NEAR / 8;
        self.middle = match time {
            first if of == 1 => first,
            longer if longer > self.middle + step => self.middle + step,
            shorter => shorter.max(self.middle.saturating_sub(step)),
        };
        let off = time.saturating_sub(self.middle).max(self.middle.saturating_sub(time));
        let near = if off <= NEAR { 65_536 } else { 0 };
        self.near = (self.near * (self.seen - 1) + near) / self.seen;
    }

    pub fn usual(&self) -> Option<Duration> {
        (self.seen >= TOO_FEW).then_some(self.mean)
    }

    /// What most take, if that is the same: so it is of writes that come from the buffer, but for those that come to a drive that pauses.
    pub fn steady(&self) -> Option<Duration> {
        (self.seen >= TOO_FEW && self.near >= MOST).then_some(self.middle)
    }

    /// The mean of however few.
    fn mean(&self) -> Option<Duration> {
        (self.seen > 0).then_some(self.mean)
    }
}

/// By how many nanoseconds requests are later than foreseen in the mean, that come neither behind work of idle time nor behind a
/// detour: heads that settle late, and a bus that is slower than told, are nobody's doing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    sum: i64,
    seen: i64,
}

/// The mean is of so many, of which one of few turns that are lost is one.
const USUAL_OF: i64 = 4_096;

impl Usual {
    pub fn note(&mut self, late: i64) {
        if self.seen == USUAL_OF {
            (self.sum, self.seen) = (self.sum - self.sum / USUAL_OF, self.seen - 1);
        }
        (self.sum, self.seen) = (self.sum + late, self.seen + 1);
    }

    pub fn mean(&self) -> i64 {
        self.sum / self.seen.max(1)
    }
}

/// What was charged to idle time when a request was decided on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    /// By how many nanoseconds the head was to be late for it.
    late: i64,
    /// Platter time at which its last sector was foreseen to have passed.
    until: Instant,
    /// If it is reported from the buffer, when the host would have heard of it without idle time.
    heard: Instant,
}

/// Silence after which idle time is not left alone to see what requests take without it.
const CONTROL_ENDS: Duration = Duration::from_secs(1);

/// A drive that has been silent for so many times as long as it was used before that, and idle time has had it since and the next command
/// of that takes, is taken to be left alone: who comes 60 times a second leaves it alone for so long after the first request once in a
/// hundred times, who comes 20 times once in five, and after the second next to nobody. So no more than a third of such a silence is used.
const AS_LONG_AGAIN: u64 = 3;

/// Where what is foreseen goes wrong it costs what is lost then, and the next to come finds the bound passed and waits: that is little where it is
/// less than such a part of all that idle time may cost, and of the first few hundred requests it is not.
const LITTLE: u64 = 4;

impl Outside {
    /// How long it takes from when the head is ready for a write until that is reported from the drive's buffer.
    pub(super) fn to_report(&self, job: &Job) -> Duration {
        let Request { op, range, .. } = job.pending.request;
        self.config.overheads.bus_sector * range.len().get() + self.config.overheads.tail(op)
    }

    /// For how long the data of `order`, which is done, have waited on the bus for what idle time had asked for. The head is ready
    /// for what comes next meanwhile: only who waits for these data is late.
    pub(super) fn behind_idle_on_bus(&mut self, drive: &DriveModel, order: &Order) -> Duration {
        let before = std::mem::take(&mut self.idle_on_bus);
        if before == Duration::ZERO || matches!(order.work, Work::Idle | Work::Probe) {
            return Duration::ZERO;
        }
        let bus = self.base.bus.checked_sub(before).unwrap_or_default();
        let [with, without] =
            [self.base, Standing { bus, ..self.base }].map(|from| self.follow(drive, &from, order).0);
        // What the head is later is in its own account; who hears from the buffer does not wait for it.
        let head = if self.reports(order.command.op) {
            Duration::ZERO
        } else {
            with.end.saturating_since(without.end)
        };
        self.idle_on_bus = with.heard.saturating_since(without.heard).saturating_sub(head);
        self.idle_on_bus
    }

    /// Of the `time` that a request took, what it had the head for, where that was not foreseen: what was reported and not written yet has
    /// it before a read, which is late for that as for one who waits. `None` of a write, behind which nobody knows where the head is.
    pub(super) fn at_head_unforeseen(&self, op: Op, time: Duration) -> Option<Duration> {
        let usual = || self.alone[0].usual().unwrap_or(time);
        (!op.is_write()).then(|| time.min(usual()))
    }

    /// Platter time at which what is decided on now would have been sent, if it has waited for a command of idle time to be heard of.
    fn waited_for_idle(&self, job: &Job) -> Option<Instant> {
        let last = self.idle_heard == self.heard_any && self.heard_at < self.heard_any;
        let sent = self.clock.platter(job.pending.arrived.max(self.heard_at));
        (last && job.pending.arrived < self.idle_heard).then_some(sent.min(self.decided))
    }
}

impl Core {
    /// What idle time has cost this request, or saved it.
    pub(super) fn account_idle(&mut self, outside: &mut Outside, standing: &Standing, job: &Job) {
        let from = self.displaced.take();
        if self.config.idle.is_none() || job.pending.promoted.is_some() {
            return;
        }
        if !outside.foresees() {
            // When it is done says what it cost.
            self.idle.visited(job.pending.position().cylinder);
            return;
        }
        let op = job.pending.request.op;
        let begin = outside.set_out(standing, op);
        let until = plain_end(&self.drive, standing.position, begin, op, job.ranges());
        let plain = match from {
            Some(from) => {
                // A write that was reported before that the head had to write yet: who was late for that is late again.
                let arrived = outside.clock.platter(job.pending.arrived);
                outside.felt.catch_up(nanos(outside.written.saturating_since(arrived)));
                let at = (arrived + outside.config.overheads.command(op)).max(outside.written).min(begin);
                let plain = plain_end(&self.drive, from, at, op, job.ranges());
                // Chosen near where idle time has left the head, of those who came meanwhile, it is done sooner than from elsewhere; but
                // that is no gain: from there another would have been near.
                let plain =
                    self.chosen_from(outside, from, at, job).map_or(plain, |chosen| plain.min(chosen));
                self.idle.account(plain, until);
                let late = difference(until, plain);
                outside.felt.after_idle(late);
                outside.charged = Some(Charged { late, until, heard: at + outside.to_report(job) });
                plain.saturating_since(at)
            }
            None => {
                if let Some(sent) = outside.waited_for_idle(job) {
                    // A drive that has one of these in hand, and no more room, was not asked for the next.
                    let without = outside.set_out_from(standing, op, sent);
                    let plain = plain_end(&self.drive, standing.position, without, op, job.ranges());
                    let late = difference(until, plain);
                    self.idle.head.late_by(late);
                    outside.felt.after_idle(late);
                    outside.charged = Some(Charged { late, until, heard: without + outside.to_report(job) });
                }
                until.saturating_since(begin)
            }
        };
        self.idle.head.foreground += plain;
        self.idle.visited(job.pending.position().cylinder);
    }

    /// When the request would have been done that the policy would have chosen from there.
    fn chosen_from(&self, outside: &Outside, from: Position, at: Instant, job: &Job) -> Option<Instant> {
        let mut there = vec![job.pending];
        there.extend(self.pool.iter().filter(|pending| pending.promoted.is_none()));
        if there.len() == 1 {
            return None;
        }
        let chosen = self.chosen_of(&there, (from, at), None)?;
        let arrived =
            outside.clock.platter(chosen.arrived) + outside.config.overheads.command(chosen.request.op);
        let at = at.max(arrived);
        Some(plain_end(&self.drive, from, at, chosen.request.op, &[chosen.request.range]))
    }

    /// What idle time has cost the foreground's `order` beyond what it was charged with when that was decided on: its own commands
    /// may have taken longer than foreseen, and what the drive does behind them; and its data waited for theirs on the bus.
    pub(super) fn account_idle_seen(
        &mut self,
        outside: &mut Outside,
        order: &Order,
        seen: &Observed,
        waited_for_bus: Duration,
    ) {
        let Work::Foreground { plain, job } = &order.work else { return };
        if self.config.idle.is_none() || !order.foreseen || job.pending.promoted.is_some() {
            return;
        }
        let turn = nanos(turn(&self.drive));
        let Some(charged) = order.charged else {
            self.idle.felt.late_by(nanos(waited_for_bus));
            if plain.is_none_or(|plain| plain.detour == 0) {
                outside.usual.note(seen.error.clamp(-turn, turn));
            }
            return;
        };
        let later = difference(order.forecast.end, charged.until).saturating_add(seen.error);
        let failed = std::mem::take(&mut outside.idle_failed);
        // A pause of the drive's own comes without idle time too; what it tries for sectors that idle time has asked for does not.
        let later = if later > turn * PAUSE && !failed { 0 } else { later.max(-turn) - outside.usual.mean() };
        self.idle.head.late_by(later);
        outside.felt.after_idle(later);
        if !outside.reports(order.command.op) {
            self.idle.felt.late_by(nanos(waited_for_bus));
            return;
        }
        let reported = outside.clock.platter(self.now);
        let beyond = difference(reported, order.forecast.heard);
        let paused = if beyond > turn * PAUSE && !failed { beyond } else { 0 };
        outside.felt.heard_after_idle(difference(reported, charged.heard) - paused - charged.late - later);
    }

    /// What idle time has cost the foreground's `order`, which the drive began with at `begun`, if that could not be foreseen.
    pub(super) fn account_idle_unforeseen(&mut self, outside: &mut Outside, order: &Order, begun: Instant) {
        let Some(idle) = self.config.idle else { return };
        let Work::Foreground { job, .. } = &order.work else {
            if matches!(order.work, Work::Idle | Work::Probe) {
                outside.after_idle = true;
                let time = self.now.saturating_since(begun);
                outside.visits.note(time);
                outside.idle_spent += time;
            }
            return;
        };
        outside.idle_spent = Duration::ZERO;
        let after_idle = std::mem::take(&mut outside.after_idle);
        if job.pending.promoted.is_some() {
            return;
        }
        let time = self.now.saturating_since(begun);
        let sent = order.sent.unwrap_or(begun).min(begun);
        // Soon after another, it may have waited for what was reported and not written yet.
        let silent = job.pending.arrived.saturating_since(outside.heard_at) >= idle.threshold;
        let alone = &mut outside.alone[usize::from(order.command.op.is_write())];
        if !after_idle && sent == begun && silent {
            alone.note(time);
        }
        let steady = alone.steady().filter(|_| order.command.op.is_write());
        let usual = steady.or(alone.usual());
        if order.foreseen {
            return;
        }
        self.idle.head.foreground += time;
        if after_idle {
            // How long it waited everybody knows; how much longer the way was, only in the mean.
            let plain = sent + usual.unwrap_or(time);
            self.idle.account(plain, self.now);
            outside.felt.after_idle(difference(self.now, plain));
        }
    }

    /// Background work while the foreground asks for nothing: one command at a time, since none can be taken back.
    pub(super) fn decide_idle(
        &mut self,
        outside: &mut Outside,
        now: Instant,
        tag: u64,
        buffers: &mut dyn Buffers,
    ) {
        let Some(idle) = self.config.idle else { return };
        if outside.is_off() {
            self.idle.not_before = outside.window_ends_at().unwrap_or(now).max(now + idle.threshold);
            return;
        }
        if let Some(until) = self.stays_until(outside).filter(|until| now < *until) {
            self.idle.not_before = until;
            return;
        }
        let left = self.keep_back(outside, &idle, now);
        // Flash is never trusted, and what comes back there comes from nowhere else; but trust may be missing for a while.
        let trusted = outside.foresees() || self.idle.untold;
        self.idle.untold = trusted && outside.again.most_come_back();
        self.idle.unpredicted = !outside.foresees();
        // What is felt many times over is not told before that is known.
        let untold = outside.felt.is_to_be_rehearsed() && now < self.idle.relief();
        let allowed = !untold && self.idle.range(&idle, now) != Range::Track;
        self.accesses.clear();
        // A foreground that is silent for long says nothing more.
        let ends = self.idle.since + CONTROL_ENDS;
        if outside.kept.is_control() && now < ends {
            self.idle.not_before = (now + idle.threshold).min(ends);
            return;
        }
        if now.saturating_since(self.idle.since) < idle.threshold {
            if idle.short && allowed && self.visit_short(outside) {
                self.send_visit(outside, tag);
            }
            return;
        }
        // A head that may not leave its track finds nothing that can be left again at any instant: not from outside.
        if allowed && self.idle_visit(now, buffers).is_some() {
            return self.send_visit(outside, tag);
        }
        // A search that is not through yet goes on soon.
        let searching = allowed && now < self.idle.not_before && self.idle.not_before < now + idle.threshold;
        if !(searching || allowed && self.decide_probe(outside, tag)) {
            self.idle.not_before = now + idle.threshold;
            // Nor waits a drive that is left alone any longer than until it is known to be.
            if let Some(left) = left.filter(|left| now < *left) {
                self.idle.not_before = self.idle.not_before.min(left);
            }
        }
    }

    /// Leaves alone what of the bound the account may not show, where detours have no bound that would be shared. There must be room in it
    /// for who waits for a whole command of idle time, and who comes meanwhile: of the first requests that is a large part. A drive that was
    /// used for a short time only, and has been silent for long against that, is not known to be asked again: since when it counts as such.
    fn keep_back(&mut self, outside: &Outside, idle: &IdleTime, now: Instant) -> Option<Instant> {
        let mut owed = outside.kept.at_risk();
        // A turn to get there and one to read a track, until that is seen.
        let visit = outside.visits.mean().unwrap_or(turn(&self.drive) * 2);
        let used = self.idle.asked.map(|first| self.idle.since.saturating_since(first));
        let left = used.map(|used| self.idle.since + (used + outside.idle_spent + visit) * AS_LONG_AGAIN);
        // Where clients come again and nothing is foreseen, one command may cost a percent of minutes.
        let returning = !outside.foresees() && outside.felt.most_return();
        if returning || left.is_some_and(|left| now < left) {
            let (first, meanwhile) =
                (outside.felt.at_risk(nanos(visit)), outside.felt.at_risk_meanwhile(nanos(visit)));
            let risk = first.saturating_add(meanwhile);
            let all = self.idle.felt.foreground.as_nanos() / 1_000_000 * u64::from(idle.harm_ppm);
            if !outside.foresees() || risk.max(0).unsigned_abs() > all / LITTLE {
                owed = owed.saturating_add(risk);
            }
        }
        self.idle.owed = Duration::from_nanos(owed.max(0).unsigned_abs());
        if outside.config.harm_ppm.is_none() {
            let foreseen = outside.foresees();
            let may = if foreseen { idle.harm_ppm } else { outside.by_account(idle.harm_ppm) };
            self.idle.beside_ppm = idle.harm_ppm - may;
        }
        left
    }

    /// Takes reads on the track under the head while nobody knows how long the foreground will be silent; whether there
    /// are any.
    ///
    /// Who comes meanwhile waits for half of the command in the mean, and the longer it is the more likely somebody
    /// comes: harm grows with the square of its time. Where what is wanted lies side by side, most is had for it by
    /// reading for as long as was waited for the first of it.
    fn visit_short(&mut self, outside: &Outside) -> bool {
        if self.background.is_idle() || !outside.foresees() {
            return false;
        }
        let drive = Arc::clone(&self.drive);
        let standing = outside.standing(&drive);
        let Some(track) = standing.track else { return false };
        let there = drive.layout().track_ref(track);
        let overheads = &outside.config.overheads;
        let earliest = outside.set_out(&standing, Op::Read).max(outside.decided + overheads.shortest_access);
        let (sectors, rpm) = (there.track().sectors, drive.rpm());
        // What takes longer than half a turn is no short command.
        let window = there.track().passing(rpm, earliest, earliest + turn(&drive) / 2);
        self.background.look(Focus::All);
        let mut chosen: Option<(u32, u32)> = None;
        straight_parts(&there, window, |(first, count)| {
            if chosen.is_some() {
                return;
            }
            let mut next: Option<(u32, u32)> = None;
            self.background.items(&there, (first, count), Op::Read, |_, _, item, passing| {
                if next.is_none_or(|(begin, _)| passing < begin) {
                    next = Some((passing, item.sectors));
                }
            });
            let Some((begin, least)) = next else { return };
            let first = (first + begin) % sectors;
            let start = pass(&drive, there.track(), earliest, (first, least)).0;
            let waited = rpm.arc_in(start.saturating_since(outside.decided)).parts();
            let as_long = u64::from(sectors) * waited / FULL_TURN;
            let as_long = u32::try_from(as_long).unwrap_or(u32::MAX);
            chosen = Some((first, as_long.max(least).min(count - begin)));
        });
        let Some(window) = chosen else { return false };
        // A drive may take it for the next of a sequence, and read on: in idle time nobody waits for that yet.
        let stop = Stop { track, first: window.0, count: window.1, op: Op::Read };
        let neighbour = range_of(&drive, &stop).and_then(|range| outside.neighbour(&drive, Op::Read, range));
        let tried = match outside.config.neighbours {
            Neighbours::Always => Neighbours::Always,
            Neighbours::Never | Neighbours::Learned => Neighbours::Learned,
        };
        if neighbour.is_some_and(|neighbour| !outside.learned.allows(tried, neighbour, false)) {
            return false;
        }
        self.visit_to_read(earliest, track, window, |useful| Purpose::Idle { useful });
        let found = !self.accesses.is_empty();
        if found {
            self.displaced = self.displaced.or(Some(self.position));
        }
        found
    }

    /// Puts what a visit asks for into the queue.
    fn send_visit(&mut self, outside: &mut Outside, tag: u64) {
        let drive = Arc::clone(&self.drive);
        let layout = drive.layout();
        // Each with the wanted sectors in it. Of what is to be written, the holes between are left out.
        let mut ranges: Vec<(LbnRange, u32)> = Vec::new();
        let mut op = Op::Read;
        for access in &self.accesses {
            let at = |sector| layout.lbn_at(Location { track: access.track, sector });
            let Some((lbn, last)) = at(access.sector).zip(at(access.sector + access.sectors - 1)) else {
                continue;
            };
            let end = last + Sectors::new(1);
            op = access.op;
            let useful = match access.purpose {
                Purpose::Idle { useful } => useful,
                _ => 0,
            };
            match ranges.last_mut() {
                Some((before, wanted)) if before.end() == lbn => {
                    *before = LbnRange::new(before.start(), end.since(before.start()));
                    *wanted += useful;
                }
                _ => ranges.push((LbnRange::new(lbn, end.since(lbn)), useful)),
            }
        }
        if ranges.is_empty() {
            self.background.give_back(layout, tag, true, |_| true);
        }
        if let [one] = &mut ranges[..]
            && op == Op::Read
        {
            match self.avoid_bad(outside, *one, tag, false) {
                Some(part) => *one = part,
                None => ranges.clear(),
            }
        }
        for (range, useful) in ranges {
            let what = (Purpose::Idle { useful }, None, useful);
            outside.push(&drive, (op, range, tag, Work::Idle), what);
        }
    }

    /// A command for what the mimic wants to learn from, if it wants anything.
    fn decide_probe(&mut self, outside: &mut Outside, tag: u64) -> bool {
        let capacity = self.drive.layout().capacity().get();
        let wanted = self.watch.wanted().filter(|range| {
            !range.is_empty() && range.checked_end().is_some_and(|end| end.get() <= capacity)
        });
        let Some(range) = wanted else { return false };
        self.displaced = self.displaced.or(Some(self.position));
        if let Some(idle) = &self.config.idle {
            self.idle.left(idle);
        }
        let what = (Purpose::Idle { useful: 0 }, None, 0);
        outside.push(&self.drive, (Op::Read, range, tag, Work::Probe), what);
        true
    }

    /// What idle time may ask for on a track: the run of LBNs with the most in it.
    pub(in crate::core) fn straight_idle_window(&self, track: TrackIndex, op: Op) -> (u32, u32) {
        let there = self.drive.layout().track_ref(track);
        let mut best = ((0, 0), 0);
        straight_parts(&there, (0, there.track().sectors), |part| {
            let all = self.background.score(&there, part, op);
            let run = match op {
                Op::Read => part,
                Op::Write => self.background.longest_write(&there, part, (false, false)).0,
            };
            // Blocks with holes in them take several commands: better than nothing.
            let (part, score) = if run.1 > 0 { (run, all + 1) } else { (part, all.min(1)) };
            let score = if all > 0 { score } else { 0 };
            if score > best.1 {
                best = (part, score);
            }
        });
        best.0
    }
}
