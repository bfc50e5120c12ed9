//! The use of idle time outside the drive, and its harm.
//!
//! A core in the drive can end work at any instant, but outside a command cannot be cancelled: a request that arrives during a
//! command waits for its end. Therefore every command counts in the harm estimate, even one on the track under the head. Before
//! the threshold only that track is read (FAST'04, section 5.2), by short commands.

use super::clock::{difference, nanos};
use super::command::{Command, NewCommand};
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

/// The mean time of requests or commands of one kind, and whether most of the times are equal. Equal times of writes show that
/// the drive reports writes from its buffer, even against its settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanTime {
    mean: Duration,
    /// An approximate median, and the share of times near it, in 65536ths.
    middle: Duration,
    near: u32,
    seen: u32,
}

/// The number of requests in the mean, so that it follows a host that changes.
const MEAN_REQUESTS_MAX: u32 = 128;
/// The fewest requests of a mean that counts as known.
const MEAN_REQUESTS_MIN: u32 = 16;

/// The largest distance from the median of times that count as equal. Times of rotating media differ by a quarter of a
/// revolution in the mean: if most are closer to each other than this, they do not depend on rotation.
const EQUAL_TIMES_MAX: Duration = Duration::from_micros(500);
/// The share of equal times, in 65536ths, from which on the median counts as constant.
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

    /// Returns the median time, if most times equal it. The times of cached writes do, unless the drive pauses often.
    pub fn steady(&self) -> Option<Duration> {
        (self.seen >= MEAN_REQUESTS_MIN && self.near >= EQUAL_SHARE_65536THS_MAX).then_some(self.middle)
    }

    /// Returns the mean, even of a single time.
    pub fn mean(&self) -> Option<Duration> {
        (self.seen > 0).then_some(self.mean)
    }
}

/// A drive counts as unused after a silence of this many times the sum of the time in use, the time of idle work since, and the
/// time of the next idle command; so at most a third of the silence is used. Random arrivals of 60 a second leave such a silence
/// after the first request once in a hundred times, arrivals of 20 a second once in five.
const UNUSED_SILENCE_RATIO_MIN: u64 = 3;

/// The harm of one late request is not reserved if it is at most 1 part in this number of all harm that the bound permits so
/// far. A larger one would end the use of idle time; within the first hundreds of requests each is larger.
const SMALL_COST_DIVISOR: u64 = 4;

impl Outside {
    /// Returns the time from the start of a write's data on the bus until the drive reports the write from its buffer.
    pub(super) fn to_report(&self, job: &Job) -> Duration {
        let Request { op, range, .. } = job.pending.request;
        self.config.overheads.bus_sector * range.len().get() + self.config.overheads.tail(op)
    }

    /// Returns the time at the head of a request without a forecast, at most the usual time of a read: the rest is a wait for
    /// cached writes, which delay a read like other requests. `None` for a write, after which the position of the head is
    /// unknown.
    pub(super) fn at_head_unpredicted(&self, op: Op, time: Duration) -> Option<Duration> {
        let usual = || self.alone[0].usual().unwrap_or(time);
        (!op.is_write()).then(|| time.min(usual()))
    }

    /// Returns the platter time at which a request would have been sent without idle work, if it waited for the completion of
    /// an idle command.
    fn waited_for_idle(&self, job: &Job) -> Option<Instant> {
        let last = self.idle_heard == self.heard_any && self.heard_at < self.heard_any;
        let sent = self.clock.platter(job.pending.arrived.max(self.heard_at));
        (last && job.pending.arrived < self.idle_heard).then_some(sent.min(self.decided))
    }
}

impl Outside {
    /// Records the end of an idle command. After a loss the next ones are half as long, and grow by an eighth with each that
    /// is done.
    pub(super) fn visit_ended(&mut self, order: &Order, done: bool) {
        let Command { op: Op::Read, range, .. } = order.command else { return };
        if !matches!(order.work, Work::Idle) {
            return;
        }
        let sectors = range.len().get();
        self.visit_sectors_max = match self.visit_sectors_max {
            most if !done => Some((most.map_or(sectors, |most| most.min(sectors)) / 2).max(1)),
            Some(most) if sectors * 2 > most => Some(most + most / 8 + 1),
            most => most,
        };
    }
}

impl Core {
    /// Charges idle time with the predicted delay of a request that is about to be sent, or credits its lead.
    pub(super) fn account_idle(&mut self, outside: &mut Outside, standing: &Standing, job: &Job) {
        let from = self.displaced.take();
        if self.config.idle.is_none() || job.pending.promoted.is_some() {
            return;
        }
        if !outside.predicts() {
            // The request's completion will show the cost of the idle work before it.
            self.idle.visited(job.pending.position().cylinder);
            return;
        }
        let op = job.pending.request.op;
        let begin = outside.set_out(standing, op);
        let until = plain_end(&self.drive, standing.position, begin, op, job.ranges());
        let plain = match from {
            Some(from) => {
                // A request that had to wait until the head had written a cached write would be delayed by that without idle
                // work, too.
                let arrived = outside.clock.platter(job.pending.arrived);
                outside.client_harm.catch_up(nanos(outside.written.saturating_since(arrived)));
                let at = (arrived + outside.config.overheads.command(op)).max(outside.written).min(begin);
                let plain = plain_end(&self.drive, from, at, op, job.ranges());
                // A request near the position in which idle work left the head is done earlier than from the position in which
                // the foreground left it. That is no gain if another waiting request would have been near the latter.
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
                    // Without the idle command the request would have been sent on its arrival, or at the last completion before.
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

    /// Returns the end of the request that the policy would choose for a head at `from`; `None` if no other request waits.
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

    /// Charges idle time with the delay of the foreground's `order` beyond the delay that was predicted when it was chosen: idle
    /// commands may have taken longer than predicted, and the drive may have done more work after them.
    pub(super) fn account_idle_seen(&mut self, outside: &mut Outside, order: &Order, seen: &Observation) {
        let Work::Foreground { job, .. } = &order.work else { return };
        if self.config.idle.is_none() || !order.predicted || job.pending.promoted.is_some() {
            return;
        }
        let Some(charged) = order.charged else { return };
        let revolution = nanos(revolution(&self.drive));
        let later = difference(order.forecast.end, charged).saturating_add(seen.error);
        let failed = core::mem::take(&mut outside.idle_failed);
        // The drive would pause without idle time too, but it would not retry bad sectors of idle commands.
        let later = if later > revolution * PAUSE_COSTS_MIN && !failed { 0 } else { later.max(-revolution) };
        self.idle.head.late_by(later);
        outside.client_harm.after_idle(later);
    }

    /// Charges idle time, on a drive without forecasts, with the delay of the foreground's `order`, which the drive started
    /// at `begun`.
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
            // The wait is measured; the longer move is known only on average.
            let plain = sent + usual.unwrap_or(time);
            self.idle.account(plain, self.now);
            outside.client_harm.after_idle(difference(self.now, plain));
        }
    }

    /// Chooses background work while no foreground request waits. One command is sent at a time, since none can be cancelled.
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
        // On flash, which is never trusted, every read looks like a hit, so `untold` must not be set there. On a disk that
        // is mistrusted for a while it stays set.
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
        // If the head must stay on its track there is no idle work, because a command from outside cannot be ended early.
        let due = now >= self.idle.not_before;
        if allowed && self.idle_visit(now, buffers).is_some() && self.send_visit(outside, tag) {
            return;
        }
        // An unfinished search continues soon.
        let searching = allowed && now < self.idle.not_before && self.idle.not_before < now + idle.threshold;
        // A first search over the cylinders before the one with wanted blocks takes minutes on a large drive. The first LBN that
        // the oldest task wants is known without a search.
        self.accesses.clear();
        if searching && due && self.move_stream(now) && self.send_visit(outside, tag) {
            self.idle.left(&idle);
            return;
        }
        if !(searching || allowed && self.decide_probe(outside, tag)) {
            self.idle.not_before = now + idle.threshold;
            // A drive that was in use for only a short time is tried again as soon as it counts as unused.
            if let Some(left) = left.filter(|left| now < *left) {
                self.idle.not_before = self.idle.not_before.min(left);
            }
        }
    }

    /// Sets the reserves of the bound on harm. One is for the harm of a request that has to wait for a whole idle command, and of
    /// the arrivals during that command, which is large against the bound for the first requests. If detours have no bound of
    /// their own, another is the part that the estimate may not use. Returns the instant from which on a drive that was in use
    /// for only a short time counts as unused.
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

    /// Returns the harm estimate of idle time with the reserves of [`reserve_harm`](Self::reserve_harm), and the instant that
    /// it returns.
    pub(super) fn reserved(
        &self,
        outside: &Outside,
        idle: &IdleTime,
        now: Instant,
    ) -> (Idle, Option<Instant>) {
        let mut account = self.idle;
        let mut owed = outside.kept.at_risk(0, outside.clock.revolution());
        // Until the duration of an idle command is known: one revolution to arrive and one to read a track.
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

    /// Takes reads on the track under the head before the threshold, while a request may come soon. Returns whether there are
    /// any.
    ///
    /// A request that arrives during the command waits for half of it in the mean, and the probability of an arrival grows
    /// with the command's duration: harm grows with the square of that. If wanted blocks are adjacent, the yield for the harm
    /// is greatest if the command reads for as long as it waits for its first sector.
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
        // The drive may take the command for a sequence and read ahead, which delays no request yet.
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

    /// Queues the commands for the accesses of idle work on a track. Returns whether there are any.
    fn send_visit(&mut self, outside: &mut Outside, tag: u64) -> bool {
        let drive = Arc::clone(&self.drive);
        let layout = drive.layout();
        // Adjacent accesses become one command; writes with holes between them become several.
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
            // A block may lie on both sides of the track's first sector: its part in one range may have been returned
            // when another range was narrowed.
            ranges = narrowed.into_iter().filter_map(|part| self.wanted_within(part.range, tag)).collect();
        }
        if let (Op::Read, Some(most)) = (op, outside.visit_sectors_max) {
            let short = ranges.into_iter().filter_map(|asked| self.shorten_visit(asked, tag, most));
            ranges = short.collect();
        }
        let found = !ranges.is_empty();
        for WantedRange { range, useful } in ranges {
            let (work, purpose) = (Work::Idle, Purpose::Idle { useful });
            outside.push(&drive, NewCommand { op, range, tag, work, purpose, foreground: None, useful });
        }
        found
    }

    /// Shortens an idle read to its first wanted items: those within `sectors_max` sectors, or the first one alone. The other
    /// blocks are wanted again.
    fn shorten_visit(&mut self, asked: WantedRange, tag: u64, sectors_max: u64) -> Option<WantedRange> {
        let range = asked.range;
        if range.len().get() <= sectors_max {
            return Some(asked);
        }
        let mut items = self.background.fetched_by(tag);
        items.retain(|item| range.covers(*item));
        let first = items.iter().map(|item| item.start()).min()?;
        let shortest = items.iter().filter(|item| item.start() == first).map(|item| item.end()).min()?;
        let ends = items.iter().map(|item| item.end()).filter(|end| end.since(first).get() <= sectors_max);
        let kept = LbnRange::new(first, ends.max().unwrap_or(shortest).since(first));
        self.narrow(range, kept, tag)
    }

    /// Queues a read for the mimic, if the mimic wants one. Returns whether it does.
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
