//! Background requests on their way between a disk and its core.

use super::apps::{CallContext, DiskHooks, Fence};
use super::background::{Asked, Background, Write, Written};
use super::commands::CommandOrigin;
use super::requests::{Awaited, RequestSeq};
use super::{Disk, nowhere};
use device::{Answer, Ask, BackgroundRequest, Device, Failure};
use scheduler::Sessions;
use units::{Instant, LbnRange};

impl<D: Device, A: DiskHooks> Disk<D, A> {
    pub(super) fn background(&mut self) -> Option<&mut Background> {
        self.apps.background.as_mut()
    }

    /// Lets the background requests make calls of the core, if the disk has background requests.
    pub(super) fn with_background<R>(
        &mut self,
        call: impl FnOnce(&mut Background, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
        self.apps.background.as_mut().map(|background| context.with(background, call))
    }

    /// Registers a read, unless a fence makes it wait or refuses it.
    pub(super) fn begin_in_background(&mut self, id: u64, asked: Asked) {
        let now = self.core_time;
        match self.apps.fenced(asked.range) {
            Fence::Open => {
                self.with_background(|background, sessions| background.read(sessions, id, asked, now));
            }
            Fence::Wait => {
                if let Some(background) = self.background() {
                    background.wait(id, asked);
                }
            }
            Fence::Closed => self.refuse_in_background(id, Failure::Taken(self.apps.fence())),
        }
    }

    /// Registers a background write that no older request or application blocks.
    pub(super) fn begin_write_in_background(&mut self, seq: RequestSeq) {
        let now = self.core_time;
        let Some(request) = self.requests.get_mut(seq) else { return };
        let Ask::Write { bytes, .. } = &mut request.ask else { return };
        let (bytes, range, arrived) = (std::mem::take(bytes), request.range, request.arrived);
        let write = Write::new(seq, range, arrived, bytes);
        let written = self.with_background(|background, sessions| background.write(sessions, write, now));
        if let Some(Err(error)) = written {
            if let Some(request) = self.requests.get_mut(seq) {
                request.failure = Some(Failure::Busy(error.to_string()));
            }
            self.finish(seq, now);
        }
        self.hurry_if_awaited(seq);
    }

    /// Handles finished parts of background writes: begins the requests that waited for these parts, and answers writes
    /// that are done. A write-through request gets a flush before its answer. Returns whether any part was finished.
    pub(super) fn take_background_writes(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(written) = self.background().and_then(Background::next_written) {
            let Written { seq, part, over, bad } = written;
            any = true;
            if !over {
                self.requests.part_done(seq, part);
                self.requests.unblocked(part).into_iter().for_each(|next| self.begin(next));
                continue;
            }
            let Some(request) = self.requests.get_mut(seq) else { continue };
            request.failure = bad.map(Failure::Medium);
            let through = matches!(request.ask, Ask::Write { through: true, .. });
            if through && bad.is_none() {
                self.commands.push(now, CommandOrigin::Request(seq), nowhere(), Ask::Flush);
            } else {
                self.finish(seq, now);
            }
        }
        any
    }

    /// Makes foreground work of the parts of background writes that a foreground request waits for, directly or through
    /// other requests.
    pub(super) fn hurry_awaited_by(&mut self, seq: RequestSeq) {
        let awaited = self.requests.awaited_by(seq);
        self.hurry_writes(&awaited);
    }

    /// Makes foreground work of the awaited parts of a background write that has just begun or is held.
    pub(super) fn hurry_if_awaited(&mut self, seq: RequestSeq) {
        let awaited = self.requests.awaited_parts(seq);
        self.hurry_writes(&awaited);
    }

    /// Makes foreground work of the background writes whose end a task waits for, because the task needs the disk or a
    /// range for itself.
    pub(super) fn hurry_writes_before_tasks(&mut self) {
        let all = self.requests.background_at_work();
        if all.size_hint().1 == Some(0) {
            return;
        }
        let waits = |range: LbnRange| self.apps.fenced(range) != Fence::Open;
        let taken = self.apps.taken().is_some();
        let awaited: Vec<Awaited> = all.filter(|awaited| taken || waits(awaited.part)).collect();
        self.hurry_writes(&awaited);
    }

    /// Makes all background writes foreground work.
    pub(super) fn hurry_all_writes(&mut self) {
        let all: Vec<Awaited> = self.requests.background_at_work().collect();
        self.hurry_writes(&all);
    }

    fn hurry_writes(&mut self, awaited: &[Awaited]) {
        let now = self.core_time;
        if !awaited.is_empty()
            && self.with_background(|background, sessions| background.hurry_writes(sessions, awaited, now))
                == Some(true)
        {
            self.ask_again();
        }
    }

    pub(super) fn refuse_in_background(&mut self, id: u64, failure: Failure) {
        let now = self.core_time;
        if let Some(background) = self.background() {
            background.refuse(id, failure, now);
        }
    }

    /// Returns whether a background read is registered within a fence. Such reads become foreground work, because the
    /// application waits for their end.
    pub(super) fn background_is_fenced(&mut self) -> bool {
        let Some(background) = &self.apps.background else { return false };
        let fenced: Vec<_> =
            background.begun().filter(|range| self.apps.fenced(*range) != Fence::Open).collect();
        if !fenced.is_empty() {
            let now = self.core_time;
            self.with_background(|background, sessions| {
                background.hurry(sessions, |range| fenced.contains(&range), now);
            });
        }
        !fenced.is_empty()
    }

    /// Lets the application and the background requests do the work that is due, for example for requests that have
    /// waited as long as their floor permits. Returns whether any was due.
    pub(super) fn do_due(&mut self, now: Instant) -> bool {
        let due = self.apps.due().is_some_and(|at| at <= now);
        let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
        if due && self.apps.do_due(context, now) {
            self.ask_again();
        }
        due
    }

    /// Hands a request for a snapshot to the application, or refuses it.
    pub(super) fn ask_snapshot(&mut self, request: &BackgroundRequest) {
        let refused = match request.ask {
            Ask::Flush => None,
            _ => self.refused(request.range, &Ask::Read),
        };
        let refused = refused.or_else(|| match self.apps.fenced(request.range) {
            Fence::Closed => Some(Failure::Taken(self.apps.fence())),
            _ => None,
        });
        let refused = refused.or_else(|| {
            let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
            let taken = self.apps.read_snapshot(context, request);
            let why = "the snapshot has ended; `freeblock snapshots` says why";
            (!taken).then(|| Failure::Ended(why.into()))
        });
        if let Some(failure) = refused {
            self.answers.push_back(Answer { id: request.id, at: self.core_time, result: Err(failure) });
        }
    }

    /// Takes the answers to requests to snapshots. Returns whether there were any.
    pub(super) fn take_snapshot_answers(&mut self) -> bool {
        let before = self.answers.len();
        self.answers.extend(self.apps.answers());
        self.answers.len() > before
    }

    /// Takes the answers to background requests. Returns whether there were any.
    pub(super) fn take_background_answers(&mut self) -> bool {
        let Some(background) = self.background() else { return false };
        let answers: Vec<_> = std::iter::from_fn(|| background.poll()).collect();
        let any = !answers.is_empty();
        self.answers.extend(answers);
        any
    }
}
