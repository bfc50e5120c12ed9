//! The interface of all kinds of tasks.

use crate::disk::{BackgroundStatus, Fence};
use crate::task::file_request::{FileOp, FileQueue, FileRequest, FileResult};
use crate::task::spec::DiskFacts;
use crate::task::table::Figures;
use device::{Answer, BackgroundRequest};
use scheduler::{Priority, Record, Sessions, Wanted};
use std::collections::VecDeque;
use std::ops::Range;
use units::{Duration, Instant, LbnRange, Sectors, SessionId};

/// The writes to a disk, of clients and of tasks and sessions.
pub(crate) trait DiskWrites {
    /// Returns the ranges of the writes in flight.
    fn in_flight(&self) -> Vec<LbnRange>;
    /// Returns the number of times that a write began or ended.
    fn changes(&self) -> u64;
    /// Returns whether a block has had no write since the scrub [asked for it](Self::ask_again), and has none in flight
    /// or waiting.
    fn is_quiet(&self, block: u64) -> bool;
    /// Records that a block is read again, so that earlier writes do not matter. Returns whether it has no write in
    /// flight now.
    fn ask_again(&mut self, block: u64) -> bool;
    /// Records that the checksum store will know a block.
    fn recorded(&mut self, block: u64);
}

/// The arguments of every call of a job.
pub(crate) struct Context<'a> {
    /// The task's number.
    pub id: u64,
    pub sessions: &'a mut dyn Sessions,
    pub file_requests: &'a mut VecDeque<FileRequest>,
    pub disk: &'a DiskFacts,
    pub writes: &'a mut dyn DiskWrites,
    pub priority: Priority,
    pub now: Instant,
    /// The time that the daemon ran: while it is stopped, no answer of a file is taken.
    pub ran: Duration,
    /// The time of day, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Context<'_> {
    /// Requests an operation on the task's target.
    pub fn target(&mut self, op: FileOp) {
        self.file_requests.push_back(FileRequest { queue: FileQueue::Target(self.id), op });
    }

    /// Requests an operation on the task's files in the state directory.
    pub fn kept(&mut self, op: FileOp) {
        self.file_requests.push_back(FileRequest { queue: FileQueue::Kept(self.id), op });
    }
}

/// Whether a copy is read as foreground work, because a request of the foreground waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    Now,
    /// A write of the background waits for it.
    Later,
}

/// The stage of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its files are being opened.
    Opening,
    /// It is at work, unless suspended.
    Running,
    /// It is blocked at present; [`Job::retry`].
    Waiting(String),
    /// All blocks are done and durable.
    Done,
    /// It has failed.
    Failed(String),
}

/// The progress of a task, for the journal.
pub(crate) struct DurableProgress {
    pub figures: Figures,
    /// The job's own record, from which it continues.
    pub saved: Vec<u8>,
}

/// A task at work. Sans-IO: its file operations go into [`Context::file_requests`].
pub(crate) trait Job: Send {
    /// Takes a finished block of one of its sessions.
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]);

    /// Provides the bytes of a block that one of its sessions is about to write.
    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let _ = (wanted, into);
        false
    }

    /// Takes the result of a file operation.
    fn file_done(&mut self, cx: &mut Context<'_>, kept: bool, result: FileResult) {
        let _ = (cx, kept, result);
    }

    /// Returns whether it still has to read `range` before that is overwritten.
    fn needs(&self, range: LbnRange) -> bool {
        let _ = range;
        false
    }

    /// Returns whether `range` must still be read before it is overwritten; if so, also has it read.
    fn hold(&mut self, cx: &mut Context<'_>, range: LbnRange, copying: Copying) -> bool {
        let _ = (cx, range, copying);
        false
    }

    /// Returns whether it has written every sector of the disk.
    fn replaces_all(&self) -> bool {
        false
    }

    /// Returns the snapshot's name, if clients can read the job as a snapshot.
    fn snapshot(&self) -> Option<&str> {
        None
    }

    /// Takes a client's request to its snapshot. It is answered once, or dropped by [`leave`](Self::leave).
    fn read(&mut self, cx: &mut Context<'_>, request: &BackgroundRequest) {
        let _ = (cx, request);
    }

    /// Drops the requests of a client that is gone; returns their numbers.
    fn leave(&mut self, cx: &mut Context<'_>, client: u64) -> Vec<u64> {
        let _ = (cx, client);
        Vec::new()
    }

    /// Takes the answers to clients' requests. The task manager asks after each call.
    fn answers(&mut self) -> Vec<Answer> {
        Vec::new()
    }

    /// Returns when it next has [work](Self::do_due) that no other call brings.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does the work that is due.
    fn do_due(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Takes the bytes of promoted blocks that a command has moved in this time.
    fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        let _ = (session, part, took);
    }

    /// Returns the figures of clients' requests to its snapshot.
    fn requests(&self, now: Instant) -> Option<BackgroundStatus> {
        let _ = now;
        None
    }

    /// Returns whether others may access a place.
    fn fences(&self, range: LbnRange) -> Fence {
        let _ = range;
        Fence::Open
    }

    /// Returns where others may not write until it is over: first and end of each place, in order; `None`: anywhere.
    fn places(&self) -> Option<Vec<Range<u64>>> {
        None
    }

    /// Returns whether it waits until requests at its places have ended; then [`clear`](Self::clear) is called.
    fn wants_clear(&self) -> bool {
        false
    }

    /// Called when earlier requests at its places have ended.
    fn clear(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Checks that cancelling it loses nothing; the error says what would be lost.
    fn may_cancel(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether the disk should flush. For each true [`flushed`](Self::flushed) is called.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// Called when all writes before it wanted a flush are durable, or the flush has failed.
    fn flushed(&mut self, cx: &mut Context<'_>, result: Result<(), String>) {
        let _ = (cx, result);
    }

    /// Pauses or resumes it.
    fn pause(&mut self, cx: &mut Context<'_>, paused: bool);

    /// Tries the failed operation again.
    fn retry(&mut self, cx: &mut Context<'_>);

    /// Called about once a second.
    fn tick(&mut self, cx: &mut Context<'_>);

    /// Closes its sessions. No other call follows.
    fn close(&mut self, cx: &mut Context<'_>);

    /// Returns how many sectors of a part of the disk are done, if it knows.
    fn done_within(&self, part: LbnRange) -> Option<Sectors> {
        let _ = part;
        None
    }

    /// Returns its stage.
    fn stage(&self) -> Stage;

    /// Returns its progress for the journal, if it has grown durably since the last call.
    fn save(&mut self) -> Option<DurableProgress>;

    /// Called when the progress that [`save`](Self::save) returned is in the journal.
    fn saved(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

/// Returns the blocks of `block` sectors, counted from the disk's first, that `range` touches.
pub(crate) fn blocks_of(range: LbnRange, block: Sectors, blocks: u64) -> Range<u64> {
    let size = block.get().max(1);
    let end = range.start().get().saturating_add(range.len().get());
    (range.start().get() / size).min(blocks)..end.div_ceil(size).min(blocks)
}

/// Returns whether a range has a sector in common with one of `places`, which are in order.
pub(crate) fn meets(places: &[Range<u64>], range: LbnRange) -> bool {
    let (start, end) = (range.start().get(), range.start().get().saturating_add(range.len().get()));
    let at = places.partition_point(|place| place.end <= start);
    places.get(at).is_some_and(|place| place.start < end)
}
