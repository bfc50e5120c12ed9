//! The next work of the head: a foreground request with detours in its gaps, or background work in idle time.

use super::under_way::{Approach, Departure, Job, JobWork, UnderWay, Visit, pass, revolution};
use super::{Access, Core, Purpose, Sharing};
use crate::background::{Buffers, Focus, PromotedBlock, WalkStart};
use crate::foreground::{Pending, Request};
use crate::idle::Range;
use crate::planner::{Detour, Gap, Reach, SearchBudget, Terms};
use crate::policy::{Policy, View};
use alloc::sync::Arc;
use alloc::vec::Vec;
use model::{Position, TrackRef, Window};
use units::{Duration, Instant, LbnRange, Op, RequestId, Sectors, TrackIndex};

/// The maximum of plans for one gap if sessions refuse the buffers of the chosen blocks; it bounds the time of a choice.
const PLANS_PER_GAP_MAX: u32 = 4;

impl Core {
    /// Reads the range that the mimic wants to learn from, in idle time without other work, if the harm of idle time is below
    /// its bound.
    pub(super) fn probe(&mut self, now: Instant) -> Option<UnderWay> {
        let idle = self.config.idle.filter(|_| self.watch.uses_idle_time())?;
        if now.saturating_since(self.idle.since) < idle.threshold {
            return None;
        }
        self.idle.settle(&idle);
        if self.idle.range(&idle, now) == Range::Track {
            self.idle.not_before = self.idle.not_before.max(self.idle.relief());
            return None;
        }
        let range = self.watch.wanted()?;
        let capacity = self.drive.layout().capacity().get();
        if range.is_empty() || range.checked_end().is_none_or(|end| end.get() > capacity) {
            return None;
        }
        let request = Request { id: RequestId::new(0), op: Op::Read, range };
        let pending = Pending::new(&self.drive, request, now, self.next_sequence)?;
        let job = Job { pending, runs: Vec::new(), over: None };
        self.displaced = self.displaced.or(Some(self.position));
        self.idle.left(&idle);
        self.idle.not_before = Instant::ZERO;
        let until = self.lay_out(now, &job, None);
        self.accesses.iter_mut().for_each(|access| access.purpose = Purpose::Idle { useful: 0 });
        Some(UnderWay { until, work: JobWork::Probe(job) })
    }

    /// Promotes again those promoted blocks that were under way and have become wanted again.
    pub(super) fn promote_again(&mut self) {
        for PromotedBlock { session, range } in self.background.take_urgent() {
            // A session that has been closed since then wants nothing.
            let _ = self.promote_blocks(session, range);
        }
    }

    /// Returns the next foreground request that is still to be done.
    pub(super) fn choose(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Job> {
        while !self.pool.is_empty() {
            let view = View {
                pool: &self.pool,
                at: now,
                from: self.position,
                predictor: &*self.drive,
                last: self.watch.last(),
                mimic: self.watch.mimic.as_deref(),
                age: self.config.age,
                capacity: self.drive.layout().capacity(),
            };
            // A request that is dropped moves no arm, so the policy's sweep must not move either.
            let before = (self.promoted > 0).then(|| self.policy.clone());
            let chosen = self.policy.choose(&view);
            let pending = self.pool.swap_remove(chosen);
            let mut job = Job { pending, runs: Vec::new(), over: self.end_passed() };
            if self.promoted_goes(&mut job, buffers) {
                return Some(job);
            }
            if let Some(before) = before {
                self.policy = before;
            }
        }
        None
    }

    /// Returns whether a chosen request is carried out. A promoted request is not carried out while its session is suspended, or
    /// if its block is no longer wanted or has no buffer.
    fn promoted_goes(&mut self, job: &mut Job, buffers: &mut dyn Buffers) -> bool {
        let pending = job.pending;
        let Some(session) = pending.promoted else { return true };
        self.promoted -= 1;
        if self.background.is_suspended(session) {
            self.held_back.push(pending);
            return false;
        }
        let (op, range) = (pending.request.op, pending.request.range);
        self.background.promote_under_way(session, range);
        // The block may have been done in a gap, or aborted, since it was promoted.
        match op {
            Op::Read => self.background.wants(session, op, range),
            Op::Write => {
                self.background.take_promoted(session, range, buffers, |run| job.runs.push(run));
                !job.runs.is_empty()
            }
        }
    }

    /// Returns the position that the policy makes the arm pass on its way to the last choice; `None` if the arm goes directly.
    fn end_passed(&self) -> Option<Position> {
        let lbn = self.policy.passes(self.drive.layout().capacity())?;
        let piece = self.drive.layout().pieces(LbnRange::new(lbn, Sectors::new(1))).next()?;
        Some(self.drive.layout().track(piece.track).into())
    }

    /// Takes the wanted blocks that a foreground request reads or writes itself.
    pub(super) fn pass_over(&mut self, job: &Job) {
        let request = job.pending.request;
        for &range in job.ranges() {
            if request.op.is_write() {
                self.background.overwritten(self.drive.layout(), range, job.pending.promoted.is_some());
            } else {
                // The request reads these blocks at no cost; the planner looks for others.
                for piece in self.drive.layout().pieces(range) {
                    if self.background.is_idle() {
                        break;
                    }
                    self.background.take_reads(&self.drive, piece.track, piece.window(), true);
                }
            }
        }
        if let Some(session) = job.pending.promoted {
            self.background.promote_under_way(session, request.range);
        }
    }

    /// Lays out a foreground request and returns the instant at which it is done.
    pub(super) fn foreground(&mut self, now: Instant, job: &Job, buffers: &mut dyn Buffers) -> Instant {
        self.pass_over(job);
        let from = self.displaced.take();
        self.idle.not_before = Instant::ZERO;
        let began = self.position;
        let until = self.lay_out(now, job, Some(buffers));
        if let Some(from) = from.filter(|_| job.pending.promoted.is_some()) {
            // No client waited for a promoted request before now, so its delay counts from now. Its time at the head is not
            // added to the foreground time that the bound on harm refers to.
            let plain = job.plain_end(&self.drive, from, now);
            self.idle.account(plain, until);
        }
        if self.config.idle.is_some() && job.pending.promoted.is_none() {
            let plain = match from {
                Some(from) => {
                    let at = job.pending.arrived;
                    let plain = job.plain_end(&self.drive, from, at);
                    self.idle.account(plain, until);
                    plain.since(at)
                }
                None => job.plain_end(&self.drive, began, now).since(now),
            };
            self.idle.head.foreground += plain;
            self.idle.visited(job.pending.position().cylinder);
            self.config.idle.iter().for_each(|idle| self.idle.settle(idle));
        }
        until
    }

    /// Lays out the accesses of a foreground request, with detours in their gaps if there are buffers, and returns the
    /// instant at which it is done.
    pub(super) fn lay_out(
        &mut self,
        now: Instant,
        job: &Job,
        mut buffers: Option<&mut dyn Buffers>,
    ) -> Instant {
        let drive = Arc::clone(&self.drive);
        let op = job.pending.request.op;
        let mut at = now;
        let mut over = job.over;
        for piece in job.ranges().iter().flat_map(|range| drive.layout().pieces(*range)) {
            let end = over.take();
            let head = Departure { from: self.position, at };
            let approach = Approach::over(&drive, end, head, op, &piece);
            let access = |sector, sectors| Access {
                track: piece.track,
                sector,
                sectors,
                op,
                not_before: approach.arrive,
                purpose: Purpose::Foreground,
            };
            if let Some(missed) = approach.missed {
                // Zero-latency access: the piece's tail now, its front part after most of a revolution.
                self.accesses.push(access(piece.sector + missed, piece.len - missed));
                at = approach.rear_end(&drive);
                self.arrived(piece.track, approach.track.into());
            }
            // An arm that has to pass the end of the drive makes no detour, which would lead elsewhere.
            if let Some(buffers) = buffers.as_deref_mut().filter(|_| end.is_none()) {
                self.fill(at, piece.track, op, approach.start(&drive), buffers);
            }
            self.accesses.push(access(piece.sector, approach.missed.unwrap_or(piece.len)));
            at = approach.end(&drive, &piece);
            self.arrived(piece.track, approach.track.into());
        }
        at
    }

    pub(super) fn arrived(&mut self, track: TrackIndex, position: Position) {
        self.track = Some(track);
        self.position = position;
    }

    /// Puts the best detour into the gap between `at` and the sector that passes at `deadline`.
    fn fill(
        &mut self,
        at: Instant,
        destination: TrackIndex,
        op: Op,
        deadline: Instant,
        buffers: &mut dyn Buffers,
    ) {
        if self.background.is_idle() {
            return;
        }
        let gap = Gap { at, from: self.position, source: self.track, destination, op, deadline, above: 0 };
        self.stats.gaps += 1;
        let mut holders = self.background.focus();
        let mut budget = self.config.budget;
        let begun = self.accesses.len();
        let shared = self.config.sharing == Sharing::Lottery && holders.len() > 1;
        for _ in 0..PLANS_PER_GAP_MAX {
            self.background.restore_focus(&holders);
            let examined = self.stats.tracks;
            let detour = self.plan(&gap, budget, None);
            self.background.focus_on(Focus::All);
            let Some(detour) = detour else { return };
            self.background.take_refused();
            self.visit_stops(at, &detour, buffers);
            if self.accesses.len() > begun {
                self.stats.detours += 1;
                if shared {
                    self.fill_rest(&gap, begun, buffers);
                }
                return;
            }
            // A session that refused a buffer is not asked again: the other sessions get the gap.
            let refused = self.background.take_refused();
            holders.retain(|holder| !refused.contains(holder));
            if refused.is_empty() || holders.is_empty() {
                return;
            }
            budget = budget.less(self.stats.tracks - examined);
        }
    }

    /// Fills the rest of a gap beside the lottery winner's detour (whose accesses start at index `begun`) with the nearest
    /// wanted blocks. As in FAST'04, section 5.2, the blocks of all sessions on the destination cylinder and near the source
    /// are candidates. The rest is the time after the detour, and the time before the detour's first sector passes.
    fn fill_rest(&mut self, gap: &Gap, begun: usize, buffers: &mut dyn Buffers) {
        let Some(&first) = self.accesses.get(begun) else { return };
        let (mut from, mut at, mut source) = (gap.from, gap.at, gap.source);
        for access in &self.accesses[begun..] {
            let track = self.drive.layout().track(access.track);
            let ready = at + self.drive.move_time(from, track.into(), access.op);
            at = pass(&self.drive, &track, ready.max(access.not_before), access.window()).end;
            (from, source) = (track.into(), Some(access.track));
        }
        self.background.focus_on(Focus::All);
        let rest = Gap { at, from, source, ..*gap };
        if let Some(detour) = self.search(&rest, Reach::Near, self.config.budget, None) {
            self.visit_stops(at, &detour, buffers);
        }
        let track = self.drive.layout().track(first.track);
        let ready = gap.at + self.drive.move_time(gap.from, track.into(), first.op);
        let passes = pass(&self.drive, &track, ready.max(first.not_before), first.window()).begin;
        let before = Gap { destination: first.track, op: first.op, deadline: passes, ..*gap };
        let planned = self.accesses.len() - begun;
        if let Some(detour) = self.search(&before, Reach::Near, self.config.budget, None) {
            self.visit_stops(gap.at, &detour, buffers);
            if let Some(all) = self.accesses.get_mut(begun..) {
                all.rotate_left(planned);
            }
        }
        self.background.focus_on(Focus::All);
    }

    /// Takes the wanted blocks at the stops of a detour.
    fn visit_stops(&mut self, at: Instant, detour: &Detour, buffers: &mut dyn Buffers) {
        for stop in detour.stops.into_iter().flatten() {
            let window = stop.window();
            let begun = self.accesses.len();
            if stop.op.is_write() {
                self.visit_to_write(at, stop.track, window, buffers, |useful| Purpose::Background { useful });
            }
            // If no buffer was available for a planned write, reading its sectors costs nothing, unless the head is ready to
            // write earlier than to read.
            let readable = !stop.op.is_write() || self.drive.settle_credit() == Duration::ZERO;
            if self.accesses.len() == begun && readable {
                self.visit_to_read(at, stop.track, window, |useful| Purpose::Background { useful });
            }
        }
    }

    /// Returns the detour for a gap: to blocks of the lottery's winner, or if there is none, to blocks of any session. Each of
    /// the two searches has the full budget; blocks near source and destination are always examined (FAST'04, section 5.2).
    pub(super) fn plan(
        &mut self,
        gap: &Gap,
        budget: SearchBudget,
        terms: Option<&Terms<'_>>,
    ) -> Option<Detour> {
        if self.config.sharing == Sharing::Lottery && self.background.in_focus() > 1 {
            let holders = self.background.focus();
            let winner = self.background.draw(&mut self.lottery).unwrap_or(Focus::All);
            self.background.focus_on(winner);
            if let Some(detour) = self.search(gap, Reach::Drive, budget, terms) {
                return Some(detour);
            }
            self.background.restore_focus(&holders);
        }
        self.search(gap, Reach::Drive, budget, terms)
    }

    pub(super) fn search(
        &mut self,
        gap: &Gap,
        reach: Reach,
        budget: SearchBudget,
        terms: Option<&Terms<'_>>,
    ) -> Option<Detour> {
        let (detour, examined) =
            self.planner.plan(&self.drive, &mut self.background, gap, reach, budget, terms);
        self.stats.tracks += u64::from(examined);
        self.stats.tracks_max = self.stats.tracks_max.max(examined);
        detour
    }

    /// Takes the blocks to be read in a window.
    pub(super) fn visit_to_read(
        &mut self,
        not_before: Instant,
        track: TrackIndex,
        window: Window,
        purpose: impl Fn(u32) -> Purpose,
    ) {
        let Some(taken) = self.background.take_reads(&self.drive, track, window, false) else { return };
        let sectors = self.drive.layout().track(track).sectors;
        self.accesses.push(Access {
            track,
            sector: (window.first + taken.begin) % sectors,
            sectors: taken.end - taken.begin,
            op: Op::Read,
            not_before,
            purpose: purpose(taken.useful),
        });
    }

    /// Takes the blocks to be written in a window, if their buffers are available.
    fn visit_to_write(
        &mut self,
        not_before: Instant,
        track: TrackIndex,
        window: Window,
        buffers: &mut dyn Buffers,
        purpose: impl Fn(u32) -> Purpose,
    ) {
        let on_track = self.drive.layout().track(track).sectors;
        let accesses = &mut self.accesses;
        self.background.take_writes(&self.drive, track, window, buffers, |passing, sectors| {
            accesses.push(Access {
                track,
                sector: (window.first + passing) % on_track,
                sectors,
                op: Op::Write,
                not_before,
                purpose: purpose(sectors),
            });
        });
    }

    /// Returns the work of the head while no foreground request waits.
    pub(super) fn idle_visit(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Visit> {
        let idle = self.config.idle?;
        if self.background.is_idle() || now < self.idle.not_before {
            return None;
        }
        let long = now.saturating_since(self.idle.since) >= idle.threshold;
        if !long && !idle.short {
            return None;
        }
        self.idle.settle(&idle);
        let range = if long { self.idle.range(&idle, now) } else { Range::Track };
        let way = match range {
            Range::Track => None,
            Range::Middle(middle) => Some(WalkStart::Around(middle.get())),
            Range::Hardest => Some(WalkStart::Edges),
        };
        let found = way.map_or(Err(Duration::MAX), |way| self.draw_and_visit(now, way, buffers));
        self.background.focus_on(Focus::All);
        if self.in_drive && found.is_ok() && self.displaced.is_some() {
            self.idle.left(&idle);
        }
        let visit = found
            .or_else(|pause| {
                let visit = self.track.and_then(|track| self.visit_track(now, track, &[Op::Read], buffers));
                if long && visit.is_none() {
                    // The track has no more work until a call changes that or the head moves.
                    self.idle.not_before = match range {
                        Range::Track => self.idle.relief(),
                        Range::Middle(_) | Range::Hardest => now + pause.min(idle.threshold),
                    };
                }
                visit.ok_or(pause)
            })
            .ok();
        if !self.in_drive && visit.is_some() {
            // A request that arrives during this work waits, even one on the same track.
            self.idle.left(&idle);
        }
        visit
    }

    /// Returns the window of one revolution for a head that is ready on a track. It starts at the first wanted block that
    /// passes whole, so that the block under the head on arrival passes whole at the end, and no second visit is needed. If
    /// that block is the only one, the window starts half a revolution later: otherwise the head, waking after whole
    /// revolutions, would always meet it there.
    pub(super) fn whole_revolution(&self, track: &TrackRef<'_>, ready: Instant, op: Op) -> Window {
        let sectors = track.track().sectors;
        let window = track.track().passing(self.drive.rpm(), ready, ready + revolution(&self.drive));
        let begin = self.background.first_item(track, window, op).map_or(sectors / 2, |one| one.passing);
        Window { first: (window.first + begin) % sectors, count: sectors }
    }

    /// Takes the work of one revolution on a track, for the first of `ops` that has wanted blocks there.
    pub(super) fn visit_track(
        &mut self,
        now: Instant,
        track: TrackIndex,
        ops: &[Op],
        buffers: &mut dyn Buffers,
    ) -> Option<Visit> {
        let drive = Arc::clone(&self.drive);
        let there = drive.layout().track(track);
        for &op in ops {
            let ready = now + drive.move_time(self.position, there.into(), op);
            let window = if self.in_drive {
                self.whole_revolution(&drive.layout().track_ref(track), ready, op)
            } else {
                self.straight_idle_window(track, op)
            };
            let purpose = |useful| Purpose::Idle { useful };
            if op.is_write() {
                self.visit_to_write(ready, track, window, buffers, purpose);
            } else {
                self.visit_to_read(ready, track, window, purpose);
            }
            if self.accesses.is_empty() {
                continue;
            }
            let mut at = ready;
            let mut times = Vec::with_capacity(self.accesses.len());
            for access in &self.accesses {
                let time = pass(&drive, &there, at, access.window());
                times.push(time);
                at = time.end;
            }
            // A write that has begun is finished even if a foreground request waits, and outside the drive so is a read. The
            // request's delay is charged to idle time.
            if self.track != Some(track) || op.is_write() || !self.in_drive {
                self.displaced = self.displaced.or(Some(self.position));
                self.arrived(track, there.into());
            }
            return Some(Visit { track, ready, times });
        }
        None
    }
}
