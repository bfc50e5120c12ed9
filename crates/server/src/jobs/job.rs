//! The interface between the task manager and the jobs of all kinds of tasks.

use crate::disk::{BackgroundStatus, Fence};
use crate::task::file_request::{FileOp, FileQueue, FileRequest, FileResult};
use crate::task::spec::DiskFacts;
use crate::task::table::Figures;
use device::{Answer, BackgroundRequest};
use scheduler::{Priority, Record, Sessions, Wanted};
use std::collections::VecDeque;
use std::ops::Range;
use units::{Duration, Instant, LbnRange, Sectors, SessionId};

/// The writes to a disk: those of clients, and those of tasks and sessions.
pub(crate) trait DiskWrites {
    /// Returns the ranges of the writes in flight.
    fn in_flight(&self) -> Vec<LbnRange>;
    /// Returns the number of times that a write began or ended.
    fn changes(&self) -> u64;
    /// Returns whether a block has no write in flight or waiting, and has had none since the scrub last
    /// [asked](Self::ask_again) for it.
    fn is_quiet(&self, block: u64) -> bool;
    /// Records that a block is read again, so that earlier writes do not matter. Returns whether the block has no write
    /// in flight or waiting now.
    fn ask_again(&mut self, block: u64) -> bool;
    /// Records that the checksum store is about to get the sum of a block.
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
    /// The time that the daemon has run. A stopped daemon takes no answers of files, so its stops do not count.
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

/// Whether a block is copied as foreground or as background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// As foreground work: a request of the foreground waits for the copy.
    Now,
    /// As background work: only background requests wait for the copy.
    Later,
}

/// The stage of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The job's files are being opened.
    Opening,
    /// The job is at work, unless suspended.
    Running,
    /// The job is blocked for this reason until [`Job::retry`] succeeds.
    Waiting(String),
    /// All blocks are done and durable.
    Done,
    /// The job has failed for this reason.
    Failed(String),
}

/// The progress of a task, for the journal.
pub(crate) struct DurableProgress {
    pub figures: Figures,
    /// The job's own data, from which a restarted daemon continues the job.
    pub saved: Vec<u8>,
}

/// The state machine of one task. A job does no I/O itself: file operations go into [`Context::file_requests`].
pub(crate) trait Job: Send {
    /// Takes a finished block of one of the job's sessions.
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, bytes: &[u8]);

    /// Copies the bytes of a block that one of the job's sessions is about to write. Returns whether the job has the
    /// bytes.
    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let _ = (wanted, into);
        false
    }

    /// Takes the result of a file operation; `kept` says that it concerns the files in the state directory or the
    /// checksum store, and not the target.
    fn file_done(&mut self, cx: &mut Context<'_>, kept: bool, result: FileResult) {
        let _ = (cx, kept, result);
    }

    /// Returns whether the job still has to read `range` before a write may overwrite it.
    fn needs(&self, range: LbnRange) -> bool {
        let _ = range;
        false
    }

    /// Returns whether a write to `range` has to wait until the job has read the range. If so, also requests the read.
    fn hold(&mut self, cx: &mut Context<'_>, range: LbnRange, copying: Copying) -> bool {
        let _ = (cx, range, copying);
        false
    }

    /// Returns whether the job has written every sector of the disk.
    fn replaces_all(&self) -> bool {
        false
    }

    /// Returns the snapshot's name, if clients can read the job as a snapshot.
    fn snapshot(&self) -> Option<&str> {
        None
    }

    /// Takes a client's request to the job's snapshot. The request is answered once, or dropped by
    /// [`leave`](Self::leave).
    fn read(&mut self, cx: &mut Context<'_>, request: &BackgroundRequest) {
        let _ = (cx, request);
    }

    /// Drops the requests of a disconnected client. Returns their numbers.
    fn leave(&mut self, cx: &mut Context<'_>, client: u64) -> Vec<u64> {
        let _ = (cx, client);
        Vec::new()
    }

    /// Removes and returns the answers to clients' requests. The task manager asks after each call.
    fn answers(&mut self) -> Vec<Answer> {
        Vec::new()
    }

    /// Returns when the job next has [work](Self::do_due) that no other call brings.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does the work that is due.
    fn do_due(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Takes the report that a foreground command that took `took` has read `part` of the job's promoted blocks.
    fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        let _ = (session, part, took);
    }

    /// Returns the figures of clients' requests to the job's snapshot.
    fn requests(&self, now: Instant) -> Option<BackgroundStatus> {
        let _ = now;
        None
    }

    /// Returns whether clients may access `range` while the job is at work.
    fn fences(&self, range: LbnRange) -> Fence {
        let _ = range;
        Fence::Open
    }

    /// Returns the LBNs that clients may not write before the job is over, in order. `None` is the whole disk.
    fn places(&self) -> Option<Vec<Range<u64>>> {
        None
    }

    /// Returns whether the job waits for the end of clients' requests in the ranges that it fences off. At their end
    /// [`clear`](Self::clear) is called.
    fn wants_clear(&self) -> bool {
        false
    }

    /// Called when the clients' requests in the fenced ranges have ended.
    fn clear(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Checks that a cancellation loses no block of the disk. The error says which loss there would be.
    fn may_cancel(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether the disk should flush. For each `true` [`flushed`](Self::flushed) is called once.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// Called when all writes that ended before the job wanted a flush are durable, or the flush has failed.
    fn flushed(&mut self, cx: &mut Context<'_>, result: Result<(), String>) {
        let _ = (cx, result);
    }

    /// Pauses or resumes the job.
    fn pause(&mut self, cx: &mut Context<'_>, paused: bool);

    /// Tries again the operation whose failure blocked the job.
    fn retry(&mut self, cx: &mut Context<'_>);

    /// Called each half second.
    fn tick(&mut self, cx: &mut Context<'_>);

    /// Closes the job's sessions. No other call follows.
    fn close(&mut self, cx: &mut Context<'_>);

    /// Returns how many sectors of `part` are done, if the job knows.
    fn done_within(&self, part: LbnRange) -> Option<Sectors> {
        let _ = part;
        None
    }

    /// Returns the stage of the job.
    fn stage(&self) -> Stage;

    /// Returns the progress for the journal, if more has become durable since the last call.
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
