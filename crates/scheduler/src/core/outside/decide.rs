//! The choice of the next command: a foreground request with a detour before it or merged into it, or background work in
//! idle time.

use super::clock::difference;
use super::command::NewCommand;
use super::detour::{DetourCommand, DetourCommands, GapPart, WantedRange};
use super::fit::range_of;
use super::forecast::{Plain, Standing};
use super::predict::{BURST_SECTORS, forecast};
use super::transfer::Transfer;
use super::{Command, CommandId, Conservatism, Order, Outside, Work};
use crate::background::{Buffers, Focus};
use crate::core::under_way::{Approach, Departure, Job};
use crate::core::{Core, Purpose};
use crate::foreground::Pending;
use crate::planner::{Detour, FirstSector, Gap, LastCommand, Neighbour, Reach, Stop, Terms};
use crate::policy::{Policy as _, View};
use crate::predictor::Last;
use alloc::sync::Arc;
use alloc::vec::Vec;
use model::{DriveModel, Window};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, TrackIndex};

/// The lead, besides the command's own costs, with which a command is chosen before it must be at the drive: hosts wake late,
/// and predictions are off by some microseconds.
pub(super) const DECISION_LEAD: Duration = Duration::from_micros(300);

impl Outside {
    pub(super) fn next_tag(&mut self) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        tag
    }

    /// Queues a command.
    pub(super) fn push(&mut self, drive: &DriveModel, new: NewCommand) {
        let NewCommand { op, range, tag, work, purpose, foreground, useful } = new;
        let request = if let Work::Foreground { job, .. } = &work { job.request() } else { None };
        let transfer = Transfer::new(op, range);
        let command = self.next_command(transfer, purpose, request, foreground, useful);
        let mut forecast = None;
        self.walk(drive, &[transfer], |predicted| forecast = Some(*predicted));
        let Some(forecast) = forecast else { return };
        let neighbour = self.neighbour(drive, op, range);
        self.last = LastCommand { op, end: range.end() };
        let predicted = self.predicts();
        let charged = if matches!(work, Work::Foreground { .. }) { self.charged.take() } else { None };
        self.queue.push_back(Order {
            neighbour,
            predicted,
            charged,
            ..Order::new(command, tag, work, forecast)
        });
    }

    /// Returns a new command with the next number.
    pub(super) fn next_command(
        &mut self,
        Transfer { op, range }: Transfer,
        purpose: Purpose,
        request: Option<RequestId>,
        foreground: Option<LbnRange>,
        useful: u32,
    ) -> Command {
        let id = CommandId(self.next_id);
        self.next_id += 1;
        Command { id, op, range, purpose, foreground, request, useful, parts: Arc::default() }
    }

    /// Returns the relation of a command to the last chosen one; `None` if they are on different tracks.
    pub(super) fn neighbour(&self, drive: &DriveModel, op: Op, range: LbnRange) -> Option<Neighbour> {
        let LastCommand { op: first, end } = self.last;
        let before = drive.layout().locate(Lbn::new(end.get().checked_sub(1)?))?;
        let behind = drive.layout().locate(range.start())?;
        let backward = range.start() < end;
        let touching = (before.sector + 1) % drive.layout().track(before.track).sectors == behind.sector;
        (before.track == behind.track).then_some(Neighbour { first, second: op, backward, touching })
    }

    /// Returns the platter time at which the arm can start for the next command.
    pub(super) fn set_out(&self, at: &Standing, op: Op) -> Instant {
        self.set_out_from(at, op, self.decided)
    }

    /// Returns when the arm can start for a command that is `sent` at a platter time.
    pub(super) fn set_out_from(&self, at: &Standing, op: Op, sent: Instant) -> Instant {
        let overheads = &self.config.overheads;
        if overheads.overlap {
            at.free.max(sent + overheads.command(op))
        } else {
            at.free.max(at.ready.max(sent) + overheads.command(op))
        }
    }

    /// Returns, on the host's clock, when the next command is to be chosen, if that can wait: a command behind others at the
    /// drive is in time if the drive has decoded it before the head is free.
    pub(super) fn late_choice(&self, drive: &DriveModel) -> Option<Instant> {
        let overheads = &self.config.overheads;
        let waits = self.config.late_choice && overheads.overlap && self.retries.is_empty();
        if !waits || self.device.is_empty() || self.blind || !self.known {
            return None;
        }
        Some(self.in_time_for(self.standing(drive).free))
    }

    /// Returns, on the host's clock, when a command is to be chosen for a head that is free at the platter time `free`.
    fn in_time_for(&self, free: Instant) -> Instant {
        let [read, write] = self.config.overheads.command;
        let at = self.clock.host(free);
        at.checked_sub(read.max(write) + DECISION_LEAD).unwrap_or_default()
    }

    /// Returns, on the host's clock, the latest arrival of a request that the choice would have included if there had been no
    /// detours.
    fn plain_choice(&self, now: Instant) -> Instant {
        self.plain_choice_if_asked(now) + self.unasked(now)
    }

    /// Returns the same as `plain_choice` for a host that has always polled as soon as it could.
    fn plain_choice_if_asked(&self, now: Instant) -> Instant {
        if !self.config.late_choice {
            return self.heard_at;
        }
        let ahead = self.device.iter().rev().find_map(|order| match &order.work {
            Work::Foreground { plain, .. } => Some(plain.as_ref().map(|plain| plain.end)),
            _ => None,
        });
        // Without a foreground command at the drive the choice would have come at the last foreground completion. If the last
        // foreground command there has no forecast without detours (`plain`), no recent request counts as one with a detour:
        // then the choice is now.
        let Some(Some(end)) = ahead else { return if ahead.is_some() { now } else { self.heard_at } };
        self.in_time_for(end).max(self.heard_at).min(now)
    }

    /// Returns the time for which the drive was idle because the host did not poll. No detour has caused that time.
    fn unasked(&self, now: Instant) -> Duration {
        if self.device.is_empty() { now.saturating_since(self.heard_any) } else { Duration::ZERO }
    }

    /// Returns the margin of a detour's move over `distance` cylinders.
    pub(super) fn margin(&self, distance: u32) -> Duration {
        match self.config.conservatism {
            Conservatism::Constant(margin) => margin,
            Conservatism::Learned { start, by_distance } => {
                self.margins.of(by_distance.then_some(distance), start)
            }
        }
    }

    fn least_margin(&self) -> Duration {
        match self.config.conservatism {
            Conservatism::Constant(margin) => margin,
            Conservatism::Learned { start, by_distance } => {
                if by_distance {
                    self.margins.least(start)
                } else {
                    self.margins.of(None, start)
                }
            }
        }
    }
}

impl Core {
    /// Returns, on the host's clock, when the next command is to be chosen or sent, if one waits for that.
    pub(super) fn choice_at(&self, outside: &Outside) -> Option<Instant> {
        let any = !self.pool.is_empty();
        let sends = any || !outside.queue.is_empty() || !outside.retries.is_empty();
        let (choose, room) = (outside.choose_at.filter(|_| any), outside.room_at.filter(|_| sends));
        choose.into_iter().chain(room).chain(outside.stream_is_due()).filter(|at| *at > self.now).min()
    }

    /// Chooses the next work and puts its commands into the queue; the queue stays empty if there is none.
    pub(super) fn decide(&mut self, outside: &mut Outside, now: Instant, buffers: &mut dyn Buffers) {
        let drive = Arc::clone(&self.drive);
        outside.decided = outside.clock.platter(now);
        let standing = outside.standing(&drive);
        self.arrive_at(&standing);
        if let Some((tag, job)) = outside.retries.pop_front() {
            // Blocks that the lost request covers are still taken, or were returned and are taken again here.
            self.background.take_for(tag);
            self.pass_over(&job);
            self.push_foreground(outside, &job, tag, None, None);
            return;
        }
        let tag = outside.next_tag();
        self.background.take_for(tag);
        self.watch.look_past(outside.device.back().map(|o| Last::after(o.command.op, o.command.range)));
        // A sequential read needs no seek, so choose as if the head had stayed.
        let at = if outside.blind { now } else { outside.set_out(&standing.not_reading_on(), Op::Read) };
        if let Some(job) = self.choose(at, buffers) {
            self.decide_foreground(outside, &standing, job, tag, buffers);
        } else if outside.device.is_empty() {
            self.decide_idle(outside, now, tag, buffers);
        }
    }

    fn arrive_at(&mut self, standing: &Standing) {
        self.position = standing.position;
        self.track = standing.track;
    }

    fn decide_foreground(
        &mut self,
        outside: &mut Outside,
        standing: &Standing,
        mut job: Job,
        tag: u64,
        buffers: &mut dyn Buffers,
    ) {
        self.pass_over(&job);
        self.narrow_promoted(outside, &mut job, tag);
        let first = job.ranges().first().map(|&asked| Transfer::new(job.pending.request.op, asked));
        let drive = Arc::clone(&self.drive);
        let (unused, lead) = match first {
            Some(first) if !self.background.is_idle() => outside.control(&drive, first),
            _ => (false, 0),
        };
        let found = if unused { None } else { self.detour_for(outside, standing, &job, GapPart::Whole) };
        let detour = found.and_then(|detour| self.fit(outside, detour, first?, Duration::ZERO));
        let (detour, spent) = match first {
            Some(first) if !unused => self.spend_revolution(outside, standing, &job, first, detour),
            _ => (detour, Duration::ZERO),
        };
        self.background.focus_on(Focus::All);
        let mut commands = self.take_detour(outside, detour, tag, buffers);
        if let Some(first) = first {
            self.plan_before(outside, standing, &job, first, &mut commands, buffers);
        }
        let mut merged = commands.merged;
        let detoured = !commands.own.is_empty() || merged.is_some();
        self.stats.detours += u64::from(detoured);
        outside.plain_since = if detoured { 0 } else { outside.plain_since.saturating_add(1) };
        let client_harm = outside.plain_since <= u32::from(outside.config.at_drive);
        let mut plain = job.ranges().first().filter(|_| client_harm).map(|&asked| {
            // Without detours the drive would have had room for the request at the completion of the last request but one.
            let room = outside.heard_foreground.checked_sub(outside.on_bus).unwrap_or_default();
            let room = room + outside.unasked(self.now);
            let asked_at = outside.clock.platter(job.pending.arrived).max(room);
            let mut plain = Plain {
                sent: asked_at.min(outside.decided),
                end: standing.free,
                heard: standing.free,
                detour: 0,
                failed: false,
                bus: Duration::ZERO,
                gain: 0,
                spent,
            };
            let what = Transfer::new(job.pending.request.op, asked);
            plain.predict(&self.drive, &outside.config.overheads, standing, outside.held_back, what);
            plain.gain = self.gain(outside, standing, &job, room, plain.end);
            plain.gain -= if detoured { lead } else { 0 };
            plain
        });
        self.push_detour(outside, &commands, &mut plain);
        if let Some(first) = first.filter(|_| !commands.own.is_empty() && merged.is_none()) {
            merged = self.plan_rest(outside, &job, first, tag, &mut plain, buffers);
        }
        self.background.take_for(tag);
        self.account_idle(outside, standing, &job);
        self.push_foreground(outside, &job, tag, merged, plain);
        self.arrive_at(&outside.standing(&self.drive));
    }

    /// Returns the lead in ns of the chosen request over the one that would have been chosen as soon as the drive had `room`:
    /// with detours the choice is later, and from more requests. Half of the lead counts, because a near request that is served
    /// now is missing in the next choice.
    fn gain(&self, outside: &Outside, standing: &Standing, job: &Job, room: Instant, end: Instant) -> i64 {
        // A request that arrives at a completion arrives because of that completion, so the limit includes it.
        let until = outside.plain_choice(self.now);
        let early = |pending: &Pending| pending.arrived <= until;
        if early(&job.pending) {
            return 0;
        }
        let others = self.pool.iter().filter(|pending| pending.promoted.is_none());
        let there: Vec<Pending> = others.clone().filter(|pending| early(pending)).copied().collect();
        let instead = if there.is_empty() {
            others.min_by_key(|pending| pending.arrived).filter(|p| p.arrived < job.pending.arrived).copied()
        } else {
            let head = Departure { from: standing.position, at: self.now };
            self.chosen_of(&there, head, self.watch.last())
        };
        let Some(instead) = instead else { return 0 };
        let sent = outside.clock.platter(instead.arrived).max(room).min(outside.decided);
        let what = Transfer::new(instead.request.op, instead.request.range);
        let overheads = &outside.config.overheads;
        let without = forecast(&self.drive, overheads, standing, sent, outside.held_back, what);
        difference(without.forecast.end, end) / 2
    }

    /// Returns the policy's choice among `there` for a head that leaves a position at an instant.
    pub(super) fn chosen_of(
        &self,
        there: &[Pending],
        Departure { from, at }: Departure,
        last: Option<Last>,
    ) -> Option<Pending> {
        let view = View {
            pool: there,
            at,
            from,
            predictor: &*self.drive,
            last,
            mimic: self.watch.mimic.as_deref(),
            age: self.config.age,
            capacity: self.drive.layout().capacity(),
        };
        there.get(self.policy.clone().choose(&view)).copied()
    }

    /// Returns the part of a detour that yields wanted sectors and leaves the foreground's first command in time, or late by
    /// `spent`, the time spent on purpose.
    pub(super) fn fit(
        &self,
        outside: &Outside,
        detour: Detour,
        first: Transfer,
        spent: Duration,
    ) -> Option<Detour> {
        outside.fit(&self.drive, detour, first, spent, |stop, merged| self.wanted_at(stop, merged) > 0)
    }

    /// Returns the number of wanted sectors of a stop that one command can read or write.
    pub(super) fn wanted_at(&self, stop: &Stop, merged: bool) -> u64 {
        let track = self.drive.layout().track_ref(stop.track);
        match stop.op {
            Op::Read => self.background.score(&track, stop.window(), stop.op),
            Op::Write => {
                self.background.longest_write(&track, stop.window(), merged, true).window.count.into()
            }
        }
    }

    /// Takes the wanted blocks at a detour's stops.
    pub(super) fn take_detour(
        &mut self,
        outside: &mut Outside,
        detour: Option<Detour>,
        tag: u64,
        buffers: &mut dyn Buffers,
    ) -> DetourCommands {
        let mut commands = DetourCommands::default();
        let Some(detour) = detour else { return commands };
        let stops = detour.stops.iter().flatten().count();
        for (i, stop) in detour.stops.into_iter().flatten().enumerate() {
            let with_it = detour.merged && i + 1 == stops;
            let stop_tag = if with_it { tag } else { outside.next_tag() };
            let taken = self.take_straight(&stop, stop_tag, with_it, buffers);
            let taken = taken.and_then(|taken| self.avoid_bad(outside, taken, stop_tag, with_it));
            let Some(taken) = taken else { continue };
            if with_it {
                commands.merged = Some(taken);
            } else {
                let (transfer, useful) = (Transfer::new(stop.op, taken.range), taken.useful);
                commands.own.push(DetourCommand { transfer, tag: stop_tag, useful });
            }
        }
        commands
    }

    /// Queues the commands of a foreground request; the first one includes the `merged` blocks.
    fn push_foreground(
        &mut self,
        outside: &mut Outside,
        job: &Job,
        tag: u64,
        merged: Option<WantedRange>,
        plain: Option<Plain>,
    ) {
        let ranges = job.ranges();
        for (i, &asked) in ranges.iter().enumerate() {
            let extra = merged.filter(|_| i == 0);
            let start = extra.map_or(asked.start(), |extra| extra.range.start());
            let range = LbnRange::new(start, asked.end().since(start));
            let useful = extra.map_or(0, |extra| extra.useful);
            let work = Work::Foreground { job: job.clone(), plain: plain.filter(|_| i == 0) };
            let op = job.pending.request.op;
            let (purpose, foreground) = (Purpose::Foreground, Some(asked));
            outside.push(&self.drive, NewCommand { op, range, tag, work, purpose, foreground, useful });
        }
    }

    /// Returns the detour for a part of a request's first gap. A core outside the drive cannot use the request's other gaps.
    pub(super) fn detour_for(
        &mut self,
        outside: &Outside,
        standing: &Standing,
        job: &Job,
        part: GapPart,
    ) -> Option<Detour> {
        if self.background.is_idle() || outside.is_off() || outside.caution().is_some() {
            return None;
        }
        let drive = Arc::clone(&self.drive);
        let first = match part {
            GapPart::Before(first) => first,
            _ => Transfer::new(job.pending.request.op, *job.ranges().first()?),
        };
        if outside.is_streamed(&drive, standing, first) {
            return None;
        }
        let Transfer { op, range: first } = first;
        let piece = drive.layout().pieces(first).next()?;
        let set_out = outside.set_out(standing, op);
        let overheads = outside.config.overheads;
        // In a queue the drive decodes a command during the command before.
        let begun = if overheads.overlap { outside.decided } else { standing.ready.max(outside.decided) };
        let earliest = begun + overheads.shortest_access;
        let whole = op.is_write() || u64::from(piece.len) == first.len().get();
        let head = Departure { from: standing.position, at: set_out };
        let approach = Approach::arriving_after(&drive, head, earliest, op, &piece);
        if whole && approach.rear(&drive, &piece).is_some_and(|rear| !outside.in_order(&drive, rear)) {
            return None;
        }
        let at = standing.free.max(outside.decided);
        let before = |op| outside.set_out(standing, op).saturating_since(at);
        let between = |last| if overheads.overlap { Duration::ZERO } else { overheads.between(last, op) };
        // A detour may have no command on these tracks; the planner has its own rules for the source and the destination track.
        let ahead = outside.device.iter().chain(&outside.queue).map(|o| o.command.range);
        let ranges = ahead.chain(job.ranges().iter().copied()).chain([first]);
        let not_on: Vec<TrackIndex> =
            ranges.flat_map(|range| drive.layout().pieces(range).map(|piece| piece.track)).collect();
        let (config, reads_on) = (outside.config.neighbours, outside.sequences.is_suspect());
        let touching = outside.config.touching;
        let allows = |neighbour: Neighbour| {
            (touching || !neighbour.touching) && outside.learned.allows(config, neighbour, reads_on)
        };
        let second = outside.second_sent(&drive);
        let margin = |distance| outside.margin(distance);
        let terms = Terms {
            margin: &margin,
            least_margin: outside.least_margin(),
            before: [before(Op::Read), before(Op::Write)],
            ready: [earliest + outside.margins.staying(), begun],
            between: [between(Op::Read), between(Op::Write)],
            not_on: &not_on,
            second: [second + overheads.command(Op::Read), second + overheads.command(Op::Write)],
            change: overheads.bus_sector * (BURST_SECTORS + 1),
            last: outside.last,
            source_track: outside.config.source_track,
            allows: &allows,
            merge: (!job.is_promoted_write()).then_some(FirstSector { lbn: piece.lbn, sector: piece.sector }),
        };
        let (longer, above) =
            if let GapPart::Longer(by, above) = part { (by, above) } else { (Duration::ZERO, 0) };
        let gap = Gap {
            at,
            from: standing.position,
            source: standing.track,
            destination: piece.track,
            op,
            deadline: approach.start(&drive) + longer,
            above,
        };
        if part == GapPart::Merged {
            return self.search(&gap, Reach::Merged, self.config.budget, Some(&terms));
        }
        if matches!(part, GapPart::Before(..)) {
            return self.search(&gap, Reach::Near, self.config.budget, Some(&terms));
        }
        self.stats.gaps += u64::from(part == GapPart::Whole);
        self.plan(&gap, self.config.budget, Some(&terms))
    }

    /// Takes the wanted blocks of a stop that one command can transfer. Returns the LBNs of that command.
    fn take_straight(
        &mut self,
        stop: &Stop,
        tag: u64,
        merged: bool,
        buffers: &mut dyn Buffers,
    ) -> Option<WantedRange> {
        let drive = Arc::clone(&self.drive);
        let layout = drive.layout();
        let track = layout.track_ref(stop.track);
        self.background.take_for(tag);
        let lbns = |first: u32, count: u32| range_of(&drive, &Stop { first, count, ..*stop });
        if stop.op == Op::Read {
            let taken = self.background.take_reads(&drive, stop.track, stop.window(), false)?;
            // A merged command continues to the request.
            let end = if merged { stop.count } else { taken.end };
            let range = lbns(stop.first + taken.begin, end - taken.begin);
            if range.is_none() {
                self.background.give_back(layout, tag, false, |_| true);
            }
            return range.map(|range| WantedRange { range, useful: taken.useful });
        }
        let window = self.background.longest_write(&track, stop.window(), merged, true).window;
        let mut runs: Vec<Window> = Vec::new();
        self.background.take_writes(&drive, stop.track, window, buffers, |passing, sectors| {
            match runs.last_mut().filter(|run| run.first + run.count == passing) {
                Some(run) => run.count += sectors,
                None => runs.push(Window { first: passing, count: sectors }),
            }
        });
        // A refused buffer leaves a hole between the blocks, and one command cannot write around a hole.
        let holes = runs.len() > 1;
        let run = if merged {
            runs.pop().filter(|run| run.first + run.count == window.count)
        } else {
            runs.first().copied()
        };
        let Some(range) = run.and_then(|run| lbns(window.first + run.first, run.count)) else {
            self.background.give_back(layout, tag, false, |_| true);
            return None;
        };
        if holes {
            self.background.give_back(layout, tag, false, |item| !item.overlaps(range));
        }
        Some(WantedRange { range, useful: range.len().get() as u32 })
    }
}
