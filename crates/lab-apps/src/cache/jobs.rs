//! The calls, block by block: moves bytes in and out of buffers, reads missing sectors, ends write-backs.

use super::buffer::{Buffer, Foreground, Landed, Stamp};
use super::calls::{CallId, Ended, Failure, Job};
use super::machine::{Action, Cache};
use super::mask::{Mask, Span};
use super::pool::BufferIndex;
use scheduler::Request;
use std::collections::VecDeque;
use units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

impl Cache {
    pub(super) fn begin(&mut self, op: Op, range: LbnRange, bytes: Vec<u8>, now: Instant) -> CallId {
        let parts = self.cut(range);
        let call = self.calls.begin(op, bytes, parts.len());
        for (block, span, at) in parts {
            let job = Job { call, op, block, span, at };
            let there = self.pool.find(block);
            let hit = there.is_some_and(|s| op.is_write() || self.pool.get(s).valid.contains(span.mask()));
            *match (op, hit) {
                (Op::Read, true) => &mut self.tally.read_hits,
                (Op::Read, false) => &mut self.tally.read_misses,
                (Op::Write, true) => &mut self.tally.write_hits,
                (Op::Write, false) => &mut self.tally.write_misses,
            } += 1;
            match there {
                // A block's jobs stay in order: this one may not overtake jobs that already wait.
                Some(slot) if !(self.waiting.has(block) || op.is_write() && self.is_closing(slot)) => {
                    self.apply(slot, job, now);
                }
                _ => self.waiting.push(job),
            }
        }
        self.stale = true;
        call
    }

    /// Returns whether the slot is a victim whose write-back is under way. Such a buffer takes no new bytes:
    /// otherwise it might stay dirty for ever, and the jobs of other blocks that wait for this buffer would never
    /// end.
    pub(super) fn is_closing(&self, slot: BufferIndex) -> bool {
        self.victims.contains(&slot) && self.pool.get(slot).is_out()
    }

    /// Carries out a job in the buffer of its block.
    pub(super) fn apply(&mut self, slot: BufferIndex, job: Job, now: Instant) {
        self.pool.touch(slot);
        if job.op.is_write() {
            let (at, len) = self.place(job.at, job.span);
            let bytes = self.calls.bytes(job.call).get(at..at + len).unwrap_or_default().to_vec();
            self.put(slot, job.span, &bytes, now);
            self.end_job(job, None);
            self.serve_readers(slot);
        } else {
            self.pool.change(slot, |b| b.readers.push_back(job));
            self.serve_readers(slot);
            self.fill(slot);
        }
    }

    /// Returns the offset and the length of sectors in bytes.
    fn place(&self, at: usize, span: Span) -> (usize, usize) {
        (self.bytes_of(Sectors::new(at as u64)), self.bytes_of(Sectors::new(u64::from(span.len))))
    }

    /// Puts new bytes into a buffer.
    pub(super) fn put(&mut self, slot: BufferIndex, span: Span, bytes: &[u8], now: Instant) {
        let (at, len) = self.place(span.first as usize, span);
        self.sequence += 1;
        let stamp = Stamp { sequence: self.sequence, at: now };
        self.pool.change(slot, |b| {
            if let Some(into) = b.bytes.get_mut(at..at + len) {
                into.copy_from_slice(bytes);
            }
            b.dirtied(span.mask(), stamp);
        });
        self.tally.dirty_max = self.tally.dirty_max.max(self.dirty());
        self.touched.insert(slot);
    }

    pub(super) fn end_job(&mut self, job: Job, failure: Option<Failure>) {
        if let Some(Ended { op, bytes, failure }) = self.calls.job_done(job.call, failure) {
            let result = match (failure, op) {
                (Some(failure), _) => Err(failure),
                (None, Op::Read) => Ok(bytes),
                (None, Op::Write) => Ok(Vec::new()),
            };
            self.outbox.push_back(Action::Answer { call: job.call, result });
        }
    }

    /// Answers the reads whose sectors are all valid.
    fn serve_readers(&mut self, slot: BufferIndex) {
        let valid = self.pool.get(slot).valid;
        let (ready, rest) = self
            .pool
            .change(slot, |b| std::mem::take(&mut b.readers))
            .into_iter()
            .partition::<VecDeque<Job>, _>(|job| valid.contains(job.span.mask()));
        self.pool.change(slot, |b| b.readers = rest);
        for job in ready {
            let (from, len) = self.place(job.span.first as usize, job.span);
            let (to, _) = self.place(job.at, job.span);
            let bytes = self.pool.get(slot).bytes.get(from..from + len).unwrap_or_default();
            if let Some(into) = self.calls.bytes(job.call).get_mut(to..to + len) {
                into.copy_from_slice(bytes);
            }
            self.end_job(job, None);
        }
    }

    /// Reads missing sectors: all that the block misses or, after an error, only those that the first reader wants.
    fn fill(&mut self, slot: BufferIndex) {
        let buffer = self.pool.get(slot);
        let (Some(block), Some(&reader)) = (buffer.block, buffer.readers.front()) else { return };
        if buffer.fill.is_some() {
            return;
        }
        let whole = Span { first: 0, len: self.block_range(block).len().get() as u32 };
        let wanted = if buffer.suspect { reader.span } else { whole };
        let missing = wanted.mask().without(buffer.valid);
        // After an error, valid sectors between missing ones are not read again: they may be bad on the medium.
        let missing = if buffer.suspect { missing.first_run() } else { missing.hull() };
        let Some(missing) = missing else { return };
        let range = self.lbns(block, missing);
        let reader = buffer.suspect.then_some(reader);
        let id = self.submit(slot, Op::Read, range);
        self.pool.change(slot, |b| (b.fill, b.fill_for) = (Some(Foreground { id, range }), reader));
        self.tally.reads += 1;
    }

    pub(super) fn submit(&mut self, slot: BufferIndex, op: Op, range: LbnRange) -> RequestId {
        self.next_request += 1;
        let id = RequestId::new(self.next_request);
        self.requests.insert(id, slot);
        self.outbox.push_back(Action::Submit(Request { id, op, range }));
        id
    }

    pub(super) fn filled(&mut self, slot: BufferIndex, fill: Foreground, result: Result<&[u8], Lbn>) {
        let Some(block) = self.pool.get(slot).block else { return };
        let sector = self.bytes_of(Sectors::new(1));
        let first = fill.range.start().since(self.block_range(block).start()).get() as u32;
        let span = Span { first, len: fill.range.len().get() as u32 };
        let failed = self.pool.change(slot, |b| {
            b.fill = None;
            let reader = b.fill_for.take();
            match result {
                Ok(bytes) => {
                    // Bytes that the client wrote meanwhile are newer than those that were read.
                    let new = span.mask().without(b.valid);
                    for run in new.runs() {
                        let from = (run.first - first) as usize * sector;
                        let (at, len) = (run.first as usize * sector, run.len as usize * sector);
                        if let (Some(into), Some(from)) =
                            (b.bytes.get_mut(at..at + len), bytes.get(from..from + len))
                        {
                            into.copy_from_slice(from);
                        }
                    }
                    b.valid = b.valid.with(new);
                    None
                }
                Err(bad) => {
                    b.suspect = true;
                    reader.map(|job| (job, bad))
                }
            }
        });
        self.serve_readers(slot);
        if let Some((job, bad)) = failed
            && self.pool.get(slot).readers.contains(&job)
        {
            self.pool.change(slot, |b| b.readers.retain(|j| *j != job));
            self.end_job(job, Some(Failure::Bad(bad)));
        }
        if self.pool.get(slot).readers.is_empty() {
            // The buffer of a block of which nothing could be read is freed.
            self.pool.change(slot, |b| (b.suspect, b.dead) = (false, b.valid == Mask::EMPTY));
        }
        self.fill(slot);
    }

    pub(super) fn hand_out(&mut self, slot: BufferIndex, range: LbnRange, into: &mut [u8]) -> bool {
        let Some(block) = self.pool.get(slot).block else { return false };
        let first = range.start().since(self.block_range(block).start()).get() as u32;
        let span = Span { first, len: range.len().get() as u32 };
        let (at, len) = self.place(first as usize, span);
        if self.config.sector != Bytes::ZERO {
            match self.pool.get(slot).bytes.get(at..at + len) {
                Some(bytes) if bytes.len() == into.len() => into.copy_from_slice(bytes),
                _ => return false,
            }
        }
        self.pool.change(slot, |b| b.taken(span.mask()));
        true
    }

    /// Ends a write-back, successful or not.
    pub(super) fn landed(&mut self, slot: BufferIndex, range: LbnRange, bad: Option<Lbn>, now: Instant) {
        if let Some(bad) = bad {
            let oldest = self.pool.get(slot).oldest.sequence;
            let retry = now + self.config.retry;
            self.pool.change(slot, |b| {
                b.not_landed(retry);
                if b.dirty.is_empty() {
                    b.failed = None;
                }
            });
            if self.pool.get(slot).failed.is_some() {
                for flush in self.flushes.iter_mut().filter(|f| f.upto >= oldest) {
                    flush.failure.get_or_insert(Failure::Bad(bad));
                }
            }
            self.victims.remove(&slot);
            self.tally.failed += 1;
            self.outbox.push_back(Action::WriteFailed { range, bad });
            return;
        }
        match self.pool.change(slot, Buffer::landed) {
            Landed::NotOurs => {}
            Landed::Clean(cause) => self.tally.written_back(cause),
            Landed::StillDirty(cause) => {
                self.tally.written_back(cause);
                self.tally.still_dirty += 1;
            }
        }
    }
}
