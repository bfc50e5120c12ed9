//! The cache: its entry points.

use super::buffer::{Buffer, Task};
use super::calls::{BufferQueue, CallError, CallId, Calls, Failure};
use super::config::{Config, StartError};
use super::head::HeadTime;
use super::mask::Span;
use super::pool::{BufferIndex, Pool};
use super::tally::CacheTally;
use scheduler::Request;
use scheduler::{Application, Parameter, Record, Sessions, Wanted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;
use units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};

/// An action for the host to carry out, or a report to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submit this as a foreground request. When a write is carried out, [`Cache::bytes`] gives its bytes; when the
    /// request is done, call [`Cache::completed`]. The ids are the cache's own; a host with other clients maps them.
    Submit(Request),
    /// The answer to a call: the bytes read; empty for a write or a flush.
    Answer {
        /// The call.
        call: CallId,
        /// The result of the call.
        result: Result<Vec<u8>, Failure>,
    },
    /// The medium refused a write-back. The buffer is still dirty, and is written again after `Config::retry`, or when
    /// a flush asks for it.
    WriteFailed {
        /// The range of the write.
        range: LbnRange,
        /// The first bad sector.
        bad: Lbn,
    },
}

/// The reason for which a completion was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// No such request is under way.
    #[error("{0} is not under way; it was completed, or never submitted")]
    Unknown(RequestId),
    /// The number of bytes does not fit the range.
    #[error("{bytes} bytes for {id}; give {expected}")]
    Length {
        /// The request.
        id: RequestId,
        /// The number of bytes given.
        bytes: usize,
        /// The number of bytes in its sectors.
        expected: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub call: CallId,
    /// The sequence number of the last write that the flush covers.
    pub upto: u64,
    pub failure: Option<Failure>,
}

/// A write-back cache whose dirty buffers are written in free bandwidth.
///
/// Calls into the cache: the client's ([`read`](Self::read), [`write`](Self::write), [`flush`](Self::flush),
/// [`trim`](Self::trim), [`pin`](Self::pin), [`unpin`](Self::unpin)), the host's foreground ([`bytes`](Self::bytes),
/// [`completed`](Self::completed)), and the scheduler's ([`Application`]). No call acts by itself: after each of
/// them, and at [`wake`](Self::wake), call [`poll`](Self::poll) until it returns `None`. Only `poll` makes session
/// calls.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(super) config: Config,
    pub(super) session: Option<SessionId>,
    pub(super) pool: Pool,
    pub(super) calls: Calls,
    pub(super) waiting: BufferQueue,
    pub(super) flushes: VecDeque<Flush>,
    /// Buffers that make room next: clean ones at once, dirty ones once they are written.
    pub(super) victims: BTreeSet<BufferIndex>,
    /// Buffers whose task may have to change.
    pub(super) touched: BTreeSet<BufferIndex>,
    /// Dirty buffers whose task the scheduler refused for lack of room.
    pub(super) refused: BTreeSet<BufferIndex>,
    /// Forced buffers whose task could not be promoted.
    pub(super) hurry: BTreeSet<BufferIndex>,
    pub(super) last_step: Instant,
    pub(super) requests: BTreeMap<RequestId, BufferIndex>,
    pub(super) next_request: u64,
    /// The sequence number of the last write into a buffer; each part of a write that lies in another block has its
    /// own.
    pub(super) sequence: u64,
    /// Whether the buffer daemon is cleaning down to the low watermark.
    pub(super) draining: bool,
    pub(super) next_look: Instant,
    /// Whether a call came in that the cache has not acted on yet.
    pub(super) stale: bool,
    pub(super) outbox: VecDeque<Action>,
    pub(super) tally: CacheTally,
}

impl Cache {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// The configuration is invalid, or the scheduler refused the session.
    pub fn new(config: Config, sessions: &mut dyn Sessions, now: Instant) -> Result<Self, StartError> {
        config.check()?;
        Ok(Self {
            session: config.cleaner.map(|priority| sessions.open(priority)).transpose()?,
            pool: Pool::new(config.buffers),
            calls: Calls::default(),
            waiting: BufferQueue::default(),
            flushes: VecDeque::new(),
            victims: BTreeSet::new(),
            touched: BTreeSet::new(),
            refused: BTreeSet::new(),
            hurry: BTreeSet::new(),
            last_step: now,
            requests: BTreeMap::new(),
            next_request: 0,
            sequence: 0,
            draining: false,
            next_look: now,
            stale: true,
            outbox: VecDeque::new(),
            tally: CacheTally::default(),
            config,
        })
    }

    /// Begins a read. The read returns all bytes written before it; it may or may not see those of a write under way.
    ///
    /// # Errors
    /// [`CallError`]; nothing has changed then.
    pub fn read(&mut self, range: LbnRange, now: Instant) -> Result<CallId, CallError> {
        self.check(range)?;
        let bytes = vec![0; self.bytes_of(range.len())];
        Ok(self.begin(Op::Read, range, bytes, now))
    }

    /// Begins a write. The call is answered when the bytes are in the cache. They are on the medium when a later
    /// flush is answered; a cache that survives a crash keeps them from the answer on.
    ///
    /// # Errors
    /// [`CallError`]; nothing has changed then.
    pub fn write(&mut self, range: LbnRange, bytes: Vec<u8>, now: Instant) -> Result<CallId, CallError> {
        self.check(range)?;
        let (sectors, expected) = (range.len(), self.bytes_of(range.len()));
        if bytes.len() != expected {
            return Err(CallError::Length { bytes: bytes.len(), sectors, expected: expected as u64 });
        }
        Ok(self.begin(Op::Write, range, bytes, now))
    }

    /// Writes all sectors that are dirty now. The call is answered when all of them are on the medium, whichever way
    /// they were written; with a failure if the medium refused some of them.
    ///
    /// # Errors
    /// Too many calls.
    pub fn flush(&mut self) -> Result<CallId, CallError> {
        self.check_calls()?;
        let call = self.calls.number();
        self.flushes.push_back(Flush { call, upto: self.sequence, failure: None });
        // A new flush tries again what the medium refused earlier.
        while let Some(&(_, slot)) = self.pool.failed.first() {
            self.pool.change(slot, |b| b.failed = None);
            self.touched.insert(slot);
        }
        self.stale = true;
        Ok(call)
    }

    /// Declares the contents of these sectors dead: they are undefined until the next write. Dirty sectors among them
    /// need not be written.
    ///
    /// # Errors
    /// [`CallError`]; nothing has changed then.
    pub fn trim(&mut self, range: LbnRange) -> Result<(), CallError> {
        self.check_range(range)?;
        for (block, span, _) in self.cut(range) {
            let Some(slot) = self.pool.find(block) else { continue };
            let whole = span.len as u64 == self.block_range(block).len().get();
            let died = self.pool.change(slot, |b| {
                let was_dirty = !b.dirty.is_empty();
                b.dirty = b.dirty.without(span.mask());
                b.dead |= whole;
                if b.dirty.is_empty() {
                    b.failed = None;
                    if !b.is_out() {
                        b.forced = None;
                    }
                }
                was_dirty && b.dirty.is_empty()
            });
            self.tally.died += u64::from(died);
            self.touched.insert(slot);
        }
        self.stale = true;
        Ok(())
    }

    /// Keeps the buffer of this sector's block in the cache, and its bytes off the medium, until
    /// [`unpin`](Self::unpin). Pins are counted. A flush waits for the last unpin.
    ///
    /// # Errors
    /// The block is not in the cache.
    pub fn pin(&mut self, lbn: Lbn) -> Result<(), CallError> {
        let slot = self.slot_at(lbn).ok_or(CallError::NotThere(lbn))?;
        self.pool.change(slot, |b| b.pins += 1);
        Ok(())
    }

    /// Ends one [`pin`](Self::pin).
    ///
    /// # Errors
    /// The block is not in the cache, or not pinned.
    pub fn unpin(&mut self, lbn: Lbn) -> Result<(), CallError> {
        let slot = self.slot_at(lbn).filter(|&s| self.pool.get(s).pins > 0);
        let slot = slot.ok_or(CallError::NotThere(lbn))?;
        self.pool.change(slot, |b| b.pins -= 1);
        self.touched.insert(slot);
        self.stale = true;
        Ok(())
    }

    /// Copies the bytes of a foreground write, now that it is carried out. May be called for parts of the range.
    ///
    /// # Errors
    /// No such write is under way, or the range exceeds the write's.
    pub fn bytes(&mut self, id: RequestId, range: LbnRange, into: &mut [u8]) -> Result<(), RequestError> {
        let slot = *self.requests.get(&id).ok_or(RequestError::Unknown(id))?;
        let own = self.pool.get(slot).write.filter(|w| w.id == id && w.range.covers(range));
        own.ok_or(RequestError::Unknown(id))?;
        self.check_length(id, range, into.len())?;
        self.hand_out(slot, range, into);
        Ok(())
    }

    /// Ends a foreground request with the bytes read (none for a write), or the first bad sector.
    ///
    /// # Errors
    /// There is no such request, or the bytes have another length; nothing has changed then.
    pub fn completed(
        &mut self,
        id: RequestId,
        result: Result<&[u8], Lbn>,
        now: Instant,
    ) -> Result<(), RequestError> {
        let slot = *self.requests.get(&id).ok_or(RequestError::Unknown(id))?;
        // A read may begin while a write is under way, so the buffer may have both.
        if let Some(fill) = self.pool.get(slot).fill.filter(|fill| fill.id == id) {
            if let Ok(bytes) = result {
                self.check_length(id, fill.range, bytes.len())?;
            }
            self.filled(slot, fill, result);
        } else if let Some(write) = self.pool.get(slot).write.filter(|write| write.id == id) {
            self.pool.change(slot, |b| b.write = None);
            self.landed(slot, write.range, result.err(), now);
        }
        self.requests.remove(&id);
        self.touched.insert(slot);
        self.stale = true;
        Ok(())
    }

    /// Returns the next action, or `None` until the next call or [`wake`](Self::wake).
    pub fn poll(&mut self, sessions: &mut dyn Sessions, head: &dyn HeadTime, now: Instant) -> Option<Action> {
        if self.stale || self.wake().is_some_and(|at| at <= now) {
            self.step(sessions, head, now);
            self.stale = false;
        }
        self.outbox.pop_front()
    }

    /// Returns the counts of the cache's work.
    pub fn tally(&self) -> CacheTally {
        self.tally
    }

    /// Returns the number of dirty buffers.
    pub fn dirty(&self) -> usize {
        self.pool.dirty.len() + self.pool.failed.len()
    }

    /// Returns the session of the free write-backs.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns the number of calls without an answer.
    pub fn calls(&self) -> usize {
        self.calls.len() + self.flushes.len()
    }

    /// Iterates over the contents that only the cache holds: every run of sectors that is newer than the medium's, as
    /// far as is known. If the cache's memory survives a crash, pass them to [`recover`](Self::recover).
    pub fn contents(&self) -> impl Iterator<Item = (LbnRange, &[u8])> {
        self.pool.by_use.iter().map(|&(_, slot)| self.pool.get(slot)).flat_map(move |buffer| {
            let block = buffer.block.unwrap_or_default();
            buffer.dirty.runs().map(move |run| {
                let at = self.bytes_of(Sectors::new(u64::from(run.first)));
                let len = self.bytes_of(Sectors::new(u64::from(run.len)));
                (self.lbns(block, run), buffer.bytes.get(at..at + len).unwrap_or_default())
            })
        })
    }

    /// Creates a cache from the [`contents`](Self::contents) of one that crashed. All of them are dirty.
    ///
    /// # Errors
    /// As for [`new`](Self::new); or the contents are of another volume, or need more buffers.
    pub fn recover<'a>(
        config: Config,
        contents: impl IntoIterator<Item = (LbnRange, &'a [u8])>,
        sessions: &mut dyn Sessions,
        now: Instant,
    ) -> Result<Self, StartError> {
        let mut cache = Self::new(config, sessions, now)?;
        for (range, bytes) in contents {
            if cache.check_range(range).is_err() || bytes.len() != cache.bytes_of(range.len()) {
                return Err(StartError::Foreign { range, bytes: bytes.len() });
            }
            for (block, span, at) in cache.cut(range) {
                let buffer_bytes = cache.bytes_of(cache.config.block);
                let there = cache.pool.find(block).or_else(|| cache.pool.install(block, buffer_bytes));
                let slot = there.ok_or(StartError::TooSmall { buffers: config.buffers })?;
                let at = cache.bytes_of(Sectors::new(at as u64));
                let len = cache.bytes_of(Sectors::new(u64::from(span.len)));
                cache.put(slot, span, bytes.get(at..at + len).unwrap_or_default(), now);
            }
        }
        Ok(cache)
    }
}

impl Application for Cache {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, _: &[u8], now: Instant) {
        let Some(slot) = self.slot_of(done.parameter, |b| b.task.is_some_and(|t| t.id == done.task)) else {
            return;
        };
        self.pool.change(slot, |b| b.task = None);
        self.landed(slot, done.range, done.bad, now);
        self.touched.insert(slot);
        self.stale = true;
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let current =
            |b: &Buffer| b.task.is_some_and(|t| t.id == wanted.task && t.range.covers(wanted.range));
        let Some(slot) = self.slot_of(wanted.parameter, current) else { return false };
        if self.pool.get(slot).is_locked() {
            self.tally.not_now += 1;
            // The cache refuses the bytes of a locked buffer. If the write was promoted to foreground work, it is
            // background work again, and is promoted anew once the buffer is unlocked.
            self.pool.change(slot, |b| b.task = b.task.map(|t| Task { promoted: false, ..t }));
            return false;
        }
        self.hand_out(slot, wanted.range, into)
    }
}

/// Helpers of the entry points.
impl Cache {
    pub(super) fn bytes_of(&self, sectors: Sectors) -> usize {
        usize::try_from(sectors.get().saturating_mul(self.config.sector.get())).unwrap_or(usize::MAX)
    }

    /// Returns the LBNs of a block; the volume's last block may be shorter.
    pub(super) fn block_range(&self, block: u64) -> LbnRange {
        let volume = self.config.volume;
        let start = volume.start() + Sectors::new(block * self.config.block.get());
        LbnRange::new(start, self.config.block.min(volume.end().since(start)))
    }

    pub(super) fn lbns(&self, block: u64, span: Span) -> LbnRange {
        let start = self.block_range(block).start() + Sectors::new(u64::from(span.first));
        LbnRange::new(start, Sectors::new(u64::from(span.len)))
    }

    /// Cuts a valid range into blocks: for each, its number, the span in it, and the offset of the span in the range,
    /// in sectors.
    pub(super) fn cut(&self, range: LbnRange) -> Vec<(u64, Span, usize)> {
        let (base, size) = (self.config.volume.start(), self.config.block.get());
        let (start, end) = (range.start().since(base).get(), range.end().since(base).get());
        (start / size..=(end - 1) / size)
            .map(|block| {
                let first = start.max(block * size);
                let len = end.min((block + 1) * size) - first;
                let span = Span { first: (first - block * size) as u32, len: len as u32 };
                (block, span, (first - start) as usize)
            })
            .collect()
    }

    fn slot_at(&self, lbn: Lbn) -> Option<BufferIndex> {
        let volume = self.config.volume;
        if !volume.contains(lbn) {
            return None;
        }
        self.pool.find(lbn.since(volume.start()).get() / self.config.block.get())
    }

    fn check_range(&self, range: LbnRange) -> Result<(), CallError> {
        let volume = self.config.volume;
        if range.is_empty() {
            return Err(CallError::Empty(range.start()));
        }
        if range.start() < volume.start() || range.checked_end().is_none_or(|end| end > volume.end()) {
            return Err(CallError::Outside { range, volume });
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), CallError> {
        match self.calls() >= self.config.most_calls {
            true => Err(CallError::Full { most: self.config.most_calls }),
            false => Ok(()),
        }
    }

    fn check(&self, range: LbnRange) -> Result<(), CallError> {
        self.check_range(range)?;
        self.check_calls()
    }

    fn check_length(&self, id: RequestId, range: LbnRange, bytes: usize) -> Result<(), RequestError> {
        let expected = self.bytes_of(range.len());
        if bytes != expected && self.config.sector != Bytes::ZERO {
            return Err(RequestError::Length { id, bytes, expected: expected as u64 });
        }
        Ok(())
    }

    /// Returns the buffer that a registration's parameter names, if that registration is the buffer's latest and
    /// `current` holds for the buffer.
    fn slot_of(&self, parameter: Parameter, current: impl Fn(&Buffer) -> bool) -> Option<BufferIndex> {
        let slot = usize::try_from(parameter.0 & u64::from(u32::MAX)).ok()?;
        let buffer = (slot < self.pool.len()).then(|| self.pool.get(slot))?;
        (u64::from(buffer.registrations) == parameter.0 >> 32 && current(buffer)).then_some(slot)
    }
}
