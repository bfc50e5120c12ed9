//! The work of the cache: the syncer, flushes, replacement, the buffer daemon, and the tasks of all dirty buffers.

use super::buffer::{Foreground, Task};
use super::calls::Failure;
use super::config::{Force, Replacement};
use super::head::HeadTime;
use super::machine::{Action, Cache};
use super::pool::BufferIndex;
use super::replacement;
use super::tally::Cause;
use scheduler::{Parameter, Sessions};
use units::{Duration, Instant, LbnRange, Op};

/// The interval at which a registration that the scheduler refused is tried again. Room comes when other sessions'
/// tasks end, and the cache is not notified of that.
const REGISTRATION_RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl Cache {
    /// Returns the time at which [`poll`](Self::poll) has work to do even if no call comes in before.
    pub fn wake(&self) -> Option<Instant> {
        let retry = self.pool.failed.first().map(|&(at, _)| at);
        let look = self.config.syncer.and_then(|syncer| {
            let &(_, slot) = self.pool.idle_by_age.first()?;
            let due = self.pool.get(slot).oldest.at + syncer.age;
            let last_look = due.checked_sub(syncer.every).unwrap_or(Instant::ZERO);
            Some(last_look.max(self.next_look))
        });
        let waits = !self.refused.is_empty() || !self.hurry.is_empty();
        let again = waits.then(|| self.last_step + REGISTRATION_RETRY_INTERVAL);
        retry.into_iter().chain(look).chain(again).min()
    }

    /// Acts on all calls and completions since the last step.
    pub(super) fn step(&mut self, sessions: &mut dyn Sessions, head: &dyn HeadTime, now: Instant) {
        while let Some(&(at, slot)) = self.pool.failed.first()
            && at <= now
        {
            self.pool.change(slot, |b| b.failed = None);
            self.touched.insert(slot);
        }
        self.last_step = now;
        self.touched.append(&mut self.hurry);
        self.align(sessions);
        self.sync(now);
        self.force_flushed();
        self.make_room(head, now);
        self.clean(head, now);
        self.align(sessions);
        self.answer_flushes();
    }

    /// Runs the syncer: forces the buffers that would be too old at its next look.
    fn sync(&mut self, now: Instant) {
        let Some(syncer) = self.config.syncer else { return };
        if now < self.next_look {
            return;
        }
        while let Some(&(_, slot)) = self.pool.idle_by_age.first()
            && self.pool.get(slot).oldest.at + syncer.age <= now + syncer.every
        {
            self.force(slot, Cause::Syncer);
        }
        self.next_look = now + syncer.every;
    }

    fn force_flushed(&mut self) {
        let Some(flush) = self.flushes.back().copied() else { return };
        while let Some(&(age, slot)) = self.pool.idle_by_age.first()
            && age <= flush.upto
        {
            self.force(slot, Cause::Flush);
        }
    }

    fn answer_flushes(&mut self) {
        while let Some(flush) = self.flushes.front()
            && self.pool.dirty.first().is_none_or(|&(age, _)| age > flush.upto)
        {
            let result = flush.failure.map_or(Ok(Vec::new()), Err);
            self.outbox.push_back(Action::Answer { call: flush.call, result });
            self.flushes.pop_front();
        }
    }

    /// Runs the buffer daemon, which forces write-backs while too many buffers are dirty.
    fn clean(&mut self, head: &dyn HeadTime, now: Instant) {
        let marks = self.config.watermarks;
        self.draining |= self.pool.dirty.len() >= marks.high;
        self.draining &= self.pool.dirty.len() > marks.low;
        while self.draining
            && self.pool.idle_by_use.len() > marks.low
            && self.pool.dirty.len() - self.pool.idle_by_use.len() < self.config.daemon_outstanding
        {
            let next = match self.config.replacement {
                Replacement::SptfEvict => self.nearest(head, now),
                Replacement::Lru | Replacement::FreeClean => {
                    replacement::oldest(&self.pool.idle_by_use, |slot| self.pool.get(slot).pins == 0)
                }
            };
            let Some(slot) = next else { return };
            self.force(slot, Cause::Watermark);
        }
    }

    /// Gives buffers to the blocks that wait for one.
    fn make_room(&mut self, head: &dyn HeadTime, now: Instant) {
        let pool = &self.pool;
        self.victims.retain(|&slot| pool.get(slot).pins == 0);
        while !self.waiting.is_empty() {
            let mut needed = 0;
            for block in self.waiting.blocks().collect::<Vec<_>>() {
                let slot = match self.pool.find(block) {
                    Some(slot) if self.is_closing(slot) => continue,
                    Some(slot) => Some(slot),
                    None => self.room(block),
                };
                match slot {
                    Some(slot) => {
                        for job in self.waiting.take(block) {
                            self.apply(slot, job, now);
                        }
                    }
                    None => needed += 1,
                }
            }
            if needed == 0 {
                // No job waits for a buffer any more, so no victim has to leave.
                self.victims.clear();
                continue;
            }
            let mut at_once = false;
            while self.victims.len() < needed
                && let Some(slot) = self.choose_victim(head, now)
            {
                let is_clean = self.pool.get(slot).is_evictable();
                at_once |= is_clean;
                self.tally.waits += u64::from(!is_clean);
                self.victims.insert(slot);
            }
            if !at_once {
                // Victims that were written only in part, or dirtied again before they were closed, are forced again.
                for slot in self.victims.clone() {
                    self.force(slot, Cause::Eviction);
                }
                if self.pool.failed.len() == self.pool.len() {
                    self.refuse_waiting();
                }
                return;
            }
        }
    }

    /// Returns a buffer for this block: a free one, or a clean victim's.
    fn room(&mut self, block: u64) -> Option<BufferIndex> {
        if !self.pool.has_free() {
            let victim = self.victims.iter().copied().find(|&s| self.pool.get(s).is_evictable())?;
            self.release(victim);
            self.tally.evicted += 1;
        }
        self.pool.install(block, self.bytes_of(self.config.block))
    }

    fn release(&mut self, slot: BufferIndex) {
        self.victims.remove(&slot);
        self.touched.remove(&slot);
        self.refused.remove(&slot);
        self.hurry.remove(&slot);
        self.pool.release(slot);
    }

    /// Returns whether the buffer may make room, now or once it is written.
    pub(super) fn may_leave(&self, slot: BufferIndex) -> bool {
        let buffer = self.pool.get(slot);
        buffer.pins == 0
            && buffer.fill.is_none()
            && buffer.readers.is_empty()
            && buffer.failed.is_none()
            && !self.victims.contains(&slot)
    }

    /// Fails the waiting jobs: no buffer can be written, and none is clean.
    fn refuse_waiting(&mut self) {
        for block in self.waiting.blocks().collect::<Vec<_>>() {
            if self.pool.find(block).is_none() {
                for job in self.waiting.take(block) {
                    self.end_job(job, Some(Failure::NoRoom));
                }
            }
        }
    }

    fn force(&mut self, slot: BufferIndex, cause: Cause) {
        self.pool.change(slot, |b| b.forced = b.forced.or(Some(cause)));
        self.touched.insert(slot);
    }

    /// Registers, withdraws or promotes the background write of each buffer that changed.
    fn align(&mut self, sessions: &mut dyn Sessions) {
        while let Some(slot) = self.touched.pop_first() {
            self.align_one(sessions, slot);
        }
        while let Some(slot) = self.refused.pop_first() {
            self.align_one(sessions, slot);
            if self.refused.contains(&slot) {
                return;
            }
        }
    }

    fn align_one(&mut self, sessions: &mut dyn Sessions, slot: BufferIndex) {
        self.refused.remove(&slot);
        let buffer = self.pool.get(slot);
        let Some(block) = buffer.block else { return };
        // While old bytes may still reach the medium, no other write begins: the old bytes could overwrite newer
        // ones.
        if buffer.is_out() {
            self.promote(sessions, slot);
            return;
        }
        let span = if buffer.failed.is_none() { buffer.write_back() } else { None };
        let Some(range) = span.map(|span| self.lbns(block, span)) else {
            self.withdraw(sessions, slot);
            let dead = self.pool.change(slot, |b| {
                b.forced = None;
                b.dead
            });
            if dead && self.pool.get(slot).is_evictable() {
                self.release(slot);
            }
            return;
        };
        if buffer.task.is_some_and(|task| task.range != range) {
            self.withdraw(sessions, slot);
        }
        let forced = self.pool.get(slot).forced.is_some();
        let submits = self.session.is_none() || self.config.force == Force::Submit;
        if !(forced && submits) {
            self.register(sessions, slot, range);
            if !forced || self.promote(sessions, slot) {
                return;
            }
        }
        if !self.pool.get(slot).is_locked() {
            self.withdraw(sessions, slot);
            let id = self.submit(slot, Op::Write, range);
            self.pool.change(slot, |b| b.write = Some(Foreground { id, range }));
            self.tally.writes += 1;
        }
    }

    fn register(&mut self, sessions: &mut dyn Sessions, slot: BufferIndex, range: LbnRange) {
        let (Some(session), None) = (self.session, self.pool.get(slot).task) else { return };
        let registration = self.pool.change(slot, |b| {
            b.registrations = b.registrations.wrapping_add(1);
            b.registrations
        });
        let parameter = Parameter(u64::from(registration) << 32 | slot as u64);
        match sessions.write(session, range, range.len(), parameter) {
            Ok(id) => {
                self.pool.change(slot, |b| b.task = Some(Task { id, range, promoted: false }));
                self.tally.registered += 1;
            }
            Err(_) => {
                self.refused.insert(slot);
                self.tally.refused += 1;
            }
        }
    }

    /// Promotes the task of a forced buffer as soon as that is possible; returns whether the buffer has a task.
    fn promote(&mut self, sessions: &mut dyn Sessions, slot: BufferIndex) -> bool {
        let buffer = self.pool.get(slot);
        let (Some(session), Some(task), Some(_)) = (self.session, buffer.task, buffer.forced) else {
            return false;
        };
        // A promoted write to a locked buffer would be refused and lose its promotion; so promote it once it is
        // unlocked.
        if task.promoted || buffer.is_locked() {
            return true;
        }
        match sessions.promote(session, task.range) {
            Err(_) => return false,
            // Either all of the task is already under way, or the scheduler has no room for more foreground work.
            Ok(0) => {
                self.hurry.insert(slot);
            }
            Ok(_) => {
                self.pool.change(slot, |b| b.task = b.task.map(|t| Task { promoted: true, ..t }));
                self.tally.promoted += 1;
            }
        }
        true
    }

    fn withdraw(&mut self, sessions: &mut dyn Sessions, slot: BufferIndex) {
        if let Some(task) = self.pool.get(slot).task {
            // The scheduler may have ended the task already.
            let _ = sessions.abort(task.id);
            self.pool.change(slot, |b| b.task = None);
            self.tally.aborted += 1;
        }
    }
}
