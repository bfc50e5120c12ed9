//! The use of idle time outside the drive, and its harm.
//!
//! A command cannot be cancelled, while a head in the drive can leave its track at any instant: a request that arrives
//! meanwhile waits for all of the command. Therefore every command counts in the harm estimate, also one on the track under
//! the head. Before the threshold only that track is read (FAST'04, section 5.2), by short commands.

use super::clock::{difference, nanos};
use super::command::NewCommand;
use super::detour::WantedRange;
use super::fit::range_of;
use super::forecast::{PAUSE_COSTS_MIN, Standing};
use super::record::Observation;
use super::{Neighbours, Order, Outside, Work};
use crate::background::{Buffers, Focus};
use crate::core::under_way::{Departure, Job, pass, plain_end, revolution};
use crate::core::{Core, Purpose};
use crate::foreground::Request;
use crate::idle::{Idle, IdleTime, Range};
use crate::planner::{Stop, straight_parts};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use model::layout::Location;
use model::{Position, Window};
use units::{Duration, FULL_REVOLUTION, Instant, LbnRange, Op, Sectors, TrackIndex};

/// The mean of the times of requests or commands of one kind, and whether most of them are equal. Equal times of writes show that
/// the drive reports them from its buffer, even against its settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanTime {
    mean: Duration,
    /// An approximate median, and the share of requests near it, in 65536ths.
    middle: Duration,
    near: u32,
    seen: u32,
}

/// The number of requests in the mean, so that it follows a host that changes.
const MEAN_REQUESTS_MAX: u32 = 128;
/// The fewest requests of a mean that counts as known.
const MEAN_REQUESTS_MIN: u32 = 16;

/// Times of rotating media differ by a quarter of a revolution in the mean: if most are closer to each other than this,
/// nothing rotates.
const EQUAL_TIMES_MAX: Duration = Duration::from_micros(500);
const EQUAL_SHARE_65536THS_MAX: u32 = 65_536 / 4 * 3;

impl MeanTime {
    pub fn note(&mut self, time: Duration) {
        self.seen = (self.seen + 1).min(MEAN_REQUESTS_MAX);
        let of = u64::from(self.seen);
        self.mean = (self.mean * (of - 1) + time) / of;
        let step = EQUAL_TIMES_MAX / 8;
        self.middle = match time {
            first if of == 1 => first,
            longer if longer > self.middle + step => self.middle + step,
            shorter => shorter.max(self.middle.saturating_sub(step)),
        };
        let off = time.saturating_sub(self.middle).max(self.middle.saturating_sub(time));
        let near = if off <= EQUAL_TIMES_MAX { 65_536 } else { 0 };
        self.near = (self.near * (self.seen - 1) + near) / self.seen;
    }

    pub fn usual(&self) -> Option<Duration> {
        (self.seen >= MEAN_REQUESTS_MIN).then_some(self.mean)
    }

    /// Returns the response time of most, if it is constant: so it is for cached writes, except on a drive that pauses.
    pub fn steady(&self) -> Option<Duration> {
        (self.seen >= MEAN_REQUESTS_MIN && self.near >= EQUAL_SHARE_65536THS_MAX).then_some(self.middle)
    }

    /// Returns the mean, of however few.
    pub fn mean(&self) -> Option<Duration> {
        (self.seen > 0).then_some(self.mean)
    }
}

/// A drive counts as unused if it has been silent for this many times as long as the time in use, plus the time of idle work
/// since and of the next idle command. Random arrivals of 60 a second leave such a silence after the first request once in a
/// hundred times, 20 a second once in five. At most a third of the silence is used.
const UNUSED_SILENCE_RATIO_MIN: u64 = 3;

/// An unpredicted delay ends idle time by its harm. One is acceptable if it costs less than this part (1 in this number)
/// of the total that idle time may cost; within the first hundreds of requests it costs more.
const SMALL_COST_DIVISOR: u64 = 4;

impl Outside {
    /// Returns the time from the arrival of the head for a write until its report from the drive's buffer.
    pub(super) fn to_report(&self, job: &Job) -> Duration {
        let Request { op, range, .. } = job.pending.request;
        self.config.overheads.bus_sector * range.len().get() + self.config.overheads.tail(op)
    }

    /// Returns the head's share of a request's unpredicted response time. Cached writes precede a read, which waits for them
    /// as for another request. `None` for a write, after which the position of the head is unknown.
    pub(super) fn at_head_unpredicted(&self, op: Op, time: Duration) -> Option<Duration> {
        let usual = || self.alone[0].usual().unwrap_or(time);
        (!op.is_write()).then(|| time.min(usual()))
    }

    /// Returns the platter time at which a request would have been sent that waited for an idle command's completion.
    fn waited_for_idle(&self, job: &Job) -> Option<Instant> {
        let last = self.idle_heard == self.heard_any && self.heard_at < self.heard_any;
        let sent = self.clock.platter(job.pending.arrived.max(self.heard_at));
        (last && job.pending.arrived < self.idle_heard).then_some(sent.min(self.decided))
    }
}

impl Core {
    /// Charges idle time with the delay of this request, or credits its lead.
    pub(super) fn account_idle(&mut self, outside: &mut Outside, standing: &Standing, job: &Job) {
        let from = self.displaced.take();
        if self.config.idle.is_none() || job.pending.promoted.is_some() {
            return;
        }
        if !outside.predicts() {
            // Its completion shows the cost.
            self.idle.visited(job.pending.position().cylinder);
            return;
        }
        let op = job.pending.request.op;
        let begin = outside.set_out(standing, op);
        let until = plain_end(&self.drive, standing.position, begin, op, job.ranges());
        let plain = match from {
            Some(from) => {
                // A cached write that the head had still to write: a request that waited for it is delayed again.
                let arrived = outside.clock.platter(job.pending.arrived);
                outside.client_harm.catch_up(nanos(outside.written.saturating_since(arrived)));
                let at = (arrived + outside.config.overheads.command(op)).max(outside.written).min(begin);
                let plain = plain_end(&self.drive, from, at, op, job.ranges());
                // A request chosen near the head's place after idle work, from several, is done earlier than from elsewhere.
                // That is no gain: from the original place another request would have been near.
                let plain =
                    self.chosen_from(outside, from, at, job).map_or(plain, |chosen| plain.min(chosen));
                self.idle.account(plain, until);
                let late = difference(until, plain);
                outside.client_harm.after_idle(late);
                outside.charged = Some(until);
                plain.saturating_since(at)
            }
            None => {
                if let Some(sent) = outside.waited_for_idle(job) {
                    // A drive without room for a further command would not have been given the next one.
                    let without = outside.set_out_from(standing, op, sent);
                    let plain = plain_end(&self.drive, standing.position, without, op, job.ranges());
                    let late = difference(until, plain);
                    self.idle.head.late_by(late);
                    outside.client_harm.after_idle(late);
                    outside.charged = Some(until);
                }
                until.saturating_since(begin)
            }
        };
        self.idle.head.foreground += plain;
        self.idle.visited(job.pending.position().cylinder);
    }

    /// Returns the end of the request that the policy would have chosen from there.
    fn chosen_from(&self, outside: &Outside, from: Position, at: Instant, job: &Job) -> Option<Instant> {
        let mut there = vec![job.pending];
        there.extend(self.pool.iter().filter(|pending| pending.promoted.is_none()));
        if there.len() == 1 {
            return None;
        }
        let chosen = self.chosen_of(&there, Departure { from, at }, None)?;
        let arrived =
            outside.clock.platter(chosen.arrived) + outside.config.overheads.command(chosen.request.op);
        let at = at.max(arrived);
        Some(plain_end(&self.drive, from, at, chosen.request.op, &[chosen.request.range]))
    }

    /// Charges idle time with the delay of the foreground's `order` beyond the prediction when it was chosen: idle commands
    /// may have taken longer, and the drive may have done more behind them.
    pub(super) fn account_idle_seen(&mut self, outside: &mut Outside, order: &Order, seen: &Observation) {
        let Work::Foreground { job, .. } = &order.work else { return };
        if self.config.idle.is_none() || !order.predicted || job.pending.promoted.is_some() {
            return;
        }
        let Some(charged) = order.charged else { return };
        let revolution = nanos(revolution(&self.drive));
        let later = difference(order.forecast.end, charged).saturating_add(seen.error);
        let failed = core::mem::take(&mut outside.idle_failed);
        // A pause of the drive's own occurs without idle time too; retries of idle sectors do not.
        let later = if later > revolution * PAUSE_COSTS_MIN && !failed { 0 } else { later.max(-revolution) };
        self.idle.head.late_by(later);
        outside.client_harm.after_idle(later);
    }

    /// Charges idle time with the delay of the foreground's `order`, which the drive started at `begun`, without
    /// predictions.
    pub(super) fn account_idle_unpredicted(&mut self, outside: &mut Outside, order: &Order, begun: Instant) {
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
        let after_idle = core::mem::take(&mut outside.after_idle);
        if job.pending.promoted.is_some() {
            return;
        }
        let time = self.now.saturating_since(begun);
        let sent = order.sent.unwrap_or(begun).min(begun);
        // A request soon after another may have waited for cached writes.
        let silent = job.pending.arrived.saturating_since(outside.heard_at) >= idle.threshold;
        let alone = &mut outside.alone[usize::from(order.command.op.is_write())];
        if !after_idle && sent == begun && silent {
            alone.note(time);
        }
        let steady = alone.steady().filter(|_| order.command.op.is_write());
        let usual = steady.or(alone.usual());
        if order.predicted {
            return;
        }
        self.idle.head.foreground += time;
        if after_idle {
            // The wait is measured; the additional way is known in the mean only.
            let plain = sent + usual.unwrap_or(time);
            self.idle.account(plain, self.now);
            outside.client_harm.after_idle(difference(self.now, plain));
        }
    }

    /// Chooses background work while no foreground request waits: one command at a time, since none can be cancelled.
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
        let stays_until = self.stays_until(outside).filter(|until| now < *until);
        let moves_at = stays_until.map(|until| self.moves_at(outside, now, until));
        if let Some(at) = moves_at.filter(|at| now < *at) {
            self.idle.not_before = at;
            return;
        }
        if outside.readings.go_on() && self.background.is_idle() {
            self.idle.not_before = now + idle.threshold;
            return;
        }
        let left = self.reserve_harm(outside, &idle, now);
        // On flash, which is never trusted, every read looks like a hit, so the rule must not begin there. On a drive
        // that is mistrusted for a while it stays.
        let trusted = outside.predicts() || self.idle.untold;
        self.idle.untold = trusted && outside.again.most_come_back();
        self.idle.unpredicted = !outside.predicts();
        let allowed = self.idle.range(&idle, now) != Range::Track;
        self.accesses.clear();
        if let Some(until) = stays_until {
            // The lottery is drawn once for each attempt.
            if now < self.idle.not_before {
                return;
            }
            self.idle.settle(&idle);
            let allowed = self.idle.range(&Outside::spends(idle), now) != Range::Track;
            let begins =
                allowed && now.saturating_since(self.idle.since) >= idle.threshold && self.move_stream(now);
            if begins && self.send_visit(outside, tag) {
                self.idle.left(&idle);
            } else {
                self.idle.not_before = (now + idle.threshold).min(until);
            }
            return;
        }
        if now.saturating_since(self.idle.since) < idle.threshold {
            if idle.short && allowed && self.visit_short(outside) {
                self.send_visit(outside, tag);
            }
            return;
        }
        // If the head must stay on its track there is no idle work, because outside no command can be left at any
        // instant.
        let due = now >= self.idle.not_before;
        if allowed && self.idle_visit(now, buffers).is_some() && self.send_visit(outside, tag) {
            return;
        }
        // An unfinished search continues soon.
        let searching = allowed && now < self.idle.not_before && self.idle.not_before < now + idle.threshold;
        // A first search looks at each cylinder before the one with the wanted blocks, which takes minutes on a large drive: the
        // place that the oldest task wants is known without it.
        self.accesses.clear();
        if searching && due && self.move_stream(now) && self.send_visit(outside, tag) {
            self.idle.left(&idle);
            return;
        }
        if !(searching || allowed && self.decide_probe(outside, tag)) {
            self.idle.not_before = now + idle.threshold;
            // An unused drive is tried again as soon as it counts as unused.
            if let Some(left) = left.filter(|left| now < *left) {
                self.idle.not_before = self.idle.not_before.min(left);
            }
        }
    }

    /// Sets the reserve of the bound on harm: the harm of a request that may have to wait for a whole idle command and of the
    /// arrivals meanwhile, which is large against the bound for the first requests; and, if detours have no bound of their own,
    /// the part that the estimate may not use. Returns the instant from which on a drive that was in use only for a short time
    /// counts as unused.
    pub(super) fn reserve_harm(
        &mut self,
        outside: &Outside,
        idle: &IdleTime,
        now: Instant,
    ) -> Option<Instant> {
        let (account, left) = self.reserved(outside, idle, now);
        self.idle = account;
        left
    }

    /// Returns the account of idle time with that [reserve](Self::reserve_harm), and that instant.
    pub(super) fn reserved(
        &self,
        outside: &Outside,
        idle: &IdleTime,
        now: Instant,
    ) -> (Idle, Option<Instant>) {
        let mut account = self.idle;
        let mut owed = outside.kept.at_risk(0, outside.clock.revolution());
        // One revolution to arrive and one to read a track, until the true duration is known.
        let visit = outside.visits.mean().unwrap_or(revolution(&self.drive) * 2);
        let used = self.idle.asked.map(|first| self.idle.since.saturating_since(first));
        let left =
            used.map(|used| self.idle.since + (used + outside.idle_spent + visit) * UNUSED_SILENCE_RATIO_MIN);
        if left.is_some_and(|left| now < left) {
            let (first, meanwhile) = (
                outside.client_harm.at_risk(nanos(visit), 0),
                outside.client_harm.at_risk_meanwhile(nanos(visit)),
            );
            let risk = first.saturating_add(meanwhile);
            let all = self.idle.client_harm.foreground.as_nanos() / 1_000_000 * u64::from(idle.harm_ppm);
            if !outside.predicts() || risk.max(0).unsigned_abs() > all / SMALL_COST_DIVISOR {
                owed = owed.saturating_add(risk);
            }
        }
        account.owed = Duration::from_nanos(owed.max(0).unsigned_abs());
        if outside.config.harm_ppm.is_none() {
            let predicted = outside.predicts();
            let may = if predicted { idle.harm_ppm } else { outside.by_account(idle.harm_ppm) };
            account.beside_ppm = idle.harm_ppm - may;
        }
        (account, left)
    }

    /// Takes reads on the track under the head while the length of the silence is unknown. Returns whether there are any.
    ///
    /// A request that arrives meanwhile waits for half of the command in the mean, and the probability of an arrival grows
    /// with its length: harm grows with the square of its duration. If wanted blocks are adjacent, the yield for that harm
    /// is greatest if the command reads for as long as it waited for its first sector.
    fn visit_short(&mut self, outside: &Outside) -> bool {
        if self.background.is_idle() || !outside.predicts() {
            return false;
        }
        let drive = Arc::clone(&self.drive);
        let standing = outside.standing(&drive);
        let Some(track) = standing.track else { return false };
        let there = drive.layout().track_ref(track);
        let overheads = &outside.config.overheads;
        let earliest = outside.set_out(&standing, Op::Read).max(outside.decided + overheads.shortest_access);
        let (sectors, rpm) = (there.track().sectors, drive.rpm());
        // A short command takes at most half a revolution.
        let window = there.track().passing(rpm, earliest, earliest + revolution(&drive) / 2);
        self.background.focus_on(Focus::All);
        let mut chosen: Option<Window> = None;
        straight_parts(&there, window, |part| {
            if chosen.is_some() {
                return;
            }
            let Some(next) = self.background.first_item(&there, part, Op::Read) else { return };
            let (begin, least) = (next.passing, next.item.sectors);
            let first = (part.first + begin) % sectors;
            let start = pass(&drive, there.track(), earliest, Window { first, count: least }).begin;
            let waited = rpm.arc_in(start.saturating_since(outside.decided)).parts();
            let as_long = u64::from(sectors) * waited / FULL_REVOLUTION;
            let as_long = u32::try_from(as_long).unwrap_or(u32::MAX);
            chosen = Some(Window { first, count: as_long.max(least).min(part.count - begin) });
        });
        let Some(window) = chosen else { return false };
        // The drive may take it for a sequence and read ahead: no request waits for that yet.
        let stop = Stop::new(&there, Op::Read, window);
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

    /// Queues the commands of a visit. Returns whether there are any.
    fn send_visit(&mut self, outside: &mut Outside, tag: u64) -> bool {
        let drive = Arc::clone(&self.drive);
        let layout = drive.layout();
        // Writes leave the holes between blocks out.
        let mut ranges: Vec<WantedRange> = Vec::new();
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
                Some(WantedRange { range, useful: before }) if range.end() == lbn => {
                    *range = LbnRange::new(range.start(), end.since(range.start()));
                    *before += useful;
                }
                _ => ranges.push(WantedRange { range: LbnRange::new(lbn, end.since(lbn)), useful }),
            }
        }
        if ranges.is_empty() {
            self.background.give_back(layout, tag, true, |_| true);
        }
        if op == Op::Read && ranges.iter().any(|wanted| outside.has_known_bad(wanted.range)) {
            let narrowed: Vec<_> =
                ranges.into_iter().filter_map(|range| self.avoid_bad(outside, range, tag, false)).collect();
            // A block may lie on both sides of the track's first sector: the part that was taken on one side
            // may have been returned for the other.
            ranges = narrowed.into_iter().filter_map(|part| self.wanted_within(part.range, tag)).collect();
        }
        let found = !ranges.is_empty();
        for WantedRange { range, useful } in ranges {
            let (work, purpose) = (Work::Idle, Purpose::Idle { useful });
            outside.push(&drive, NewCommand { op, range, tag, work, purpose, foreground: None, useful });
        }
        found
    }

    /// Queues a command for the mimic, if it wants to learn. Returns whether there is one.
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
        outside.push(&self.drive, NewCommand::probe(range, tag));
        true
    }

    /// Returns the window of idle work on a track: the run of LBNs with the most wanted sectors.
    pub(in crate::core) fn straight_idle_window(&self, track: TrackIndex, op: Op) -> Window {
        let there = self.drive.layout().track_ref(track);
        let mut best = (Window::default(), 0);
        straight_parts(&there, Window { first: 0, count: there.track().sectors }, |part| {
            let all = self.background.score(&there, part, op);
            let run = match op {
                Op::Read => part,
                Op::Write => self.background.longest_write(&there, part, false, false).window,
            };
            // Blocks with holes take several commands, which is better than none.
            let (part, score) = if run.count > 0 { (run, all + 1) } else { (part, all.min(1)) };
            let score = if all > 0 { score } else { 0 };
            if score > best.1 {
                best = (part, score);
            }
        });
        best.0
    }
}
