//! Background requests on their way between a disk and its core.

use super::{Asked, Background, Write, Written};
use crate::disk::apps::CallContext;
use crate::disk::commands::CommandOrigin;
use crate::disk::requests::RequestSeq;
use crate::disk::{Disk, Fence};
use device::{Answer, Ask, BackgroundRequest, Device, Failure};
use scheduler::Sessions;
use units::{Instant, LbnRange};

impl<D: Device> Disk<D> {
    pub(in crate::disk) fn background(&mut self) -> Option<&mut Background> {
        self.apps.get_mut(self.background?)
    }

    /// Lets the application of the background requests make calls, if there is one.
    fn with_background<R>(
        &mut self,
        call: impl FnOnce(&mut Background, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
        self.apps.call(self.background?, context, call)
    }

    /// Registers a read unless it has to wait for blocks that are moving, or is refused there.
    pub(in crate::disk) fn begin_in_background(&mut self, id: u64, asked: Asked) {
        let now = self.core_time;
        match self.apps.fenced(asked.range) {
            (Fence::Open, _) => {
                self.with_background(|background, sessions| background.read(sessions, id, asked, now));
            }
            (Fence::Wait, _) => {
                if let Some(background) = self.background() {
                    background.wait(id, asked);
                }
            }
            (Fence::Closed, app) => {
                let why = app.map_or_else(String::new, |app| app.fence());
                self.refuse_in_background(id, Failure::Taken(why));
            }
        }
    }

    /// Registers a write that nothing blocks any more.
    pub(in crate::disk) fn begin_write_in_background(&mut self, seq: RequestSeq) {
        let now = self.core_time;
        let Some(request) = self.requests.get_mut(seq) else { return };
        let Ask::Write { bytes, .. } = &mut request.ask else { return };
        let (bytes, range, arrived) = (std::mem::take(bytes), request.range, request.arrived);
        let write = Write { seq, range, arrived, bytes, left: range.len(), bad: None, promote_at: None };
        let written = self.with_background(|background, sessions| background.write(sessions, write, now));
        if let Some(Err(error)) = written {
            if let Some(request) = self.requests.get_mut(seq) {
                request.failure = Some(Failure::Busy(error.to_string()));
            }
            self.finish(seq, now);
        }
        self.hurry_awaited_writes();
    }

    /// Ends the background writes whose blocks are written; one that has to be on the medium gets a flush first.
    /// Returns whether there were any.
    pub(in crate::disk) fn take_background_writes(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(Written { seq, bad }) = self.background().and_then(Background::next_written) {
            any = true;
            let Some(request) = self.requests.get_mut(seq) else { continue };
            request.failure = bad.map(Failure::Medium);
            let through = matches!(request.ask, Ask::Write { through: true, .. });
            if through && bad.is_none() {
                self.commands.push(now, CommandOrigin::Request(seq), super::super::nowhere(), Ask::Flush);
            } else {
                self.finish(seq, now);
            }
        }
        any
    }

    /// Makes the background writes foreground work that requests of the foreground wait for.
    pub(in crate::disk) fn hurry_awaited_writes(&mut self) {
        let Self { requests, .. } = self;
        let seqs: Vec<RequestSeq> = requests.begun_in_background().map(|(seq, _)| seq).collect();
        let seqs: Vec<RequestSeq> = seqs.into_iter().filter(|seq| self.requests.is_awaited(*seq)).collect();
        self.hurry_writes(&seqs);
    }

    /// Makes the background writes foreground work that a task waits for: it takes the disk, or a place, for itself.
    pub(in crate::disk) fn hurry_writes_before_tasks(&mut self) {
        let all = self.requests.begun_in_background();
        if all.size_hint().1 == Some(0) {
            return;
        }
        let waits = |range: LbnRange| self.apps.fenced(range).0 != Fence::Open;
        let taken = self.apps.taken().is_some();
        let seqs: Vec<RequestSeq> =
            all.filter(|(_, range)| taken || waits(*range)).map(|(seq, _)| seq).collect();
        self.hurry_writes(&seqs);
    }

    fn hurry_writes(&mut self, seqs: &[RequestSeq]) {
        let now = self.core_time;
        if !seqs.is_empty() {
            self.with_background(|background, sessions| background.hurry_writes(sessions, seqs, now));
        }
    }

    pub(in crate::disk) fn refuse_in_background(&mut self, id: u64, failure: Failure) {
        let now = self.core_time;
        if let Some(background) = self.background() {
            background.refuse(id, failure, now);
        }
    }

    /// Returns whether a background request is at work within a fence; then it becomes foreground work, because an
    /// application waits for its end.
    pub(in crate::disk) fn background_is_fenced(&mut self) -> bool {
        let Some(background) = self.background.and_then(|place| self.apps.get(place)) else { return false };
        let fenced: Vec<_> =
            background.begun().filter(|range| self.apps.fenced(*range).0 != Fence::Open).collect();
        if !fenced.is_empty() {
            let now = self.core_time;
            self.with_background(|background, sessions| {
                background.hurry(sessions, |range| fenced.contains(&range), now);
            });
        }
        !fenced.is_empty()
    }

    /// Makes background requests foreground work that have waited as long as the floor permits. Returns whether that
    /// was due.
    pub(in crate::disk) fn keep_floor(&mut self, now: Instant) -> bool {
        let due = self.background().and_then(|background| background.due()).is_some_and(|at| at <= now);
        if due {
            self.with_background(|background, sessions| background.keep_floor(sessions, now));
        }
        due
    }

    /// Hands a request to the application that has its snapshot.
    pub(in crate::disk) fn ask_snapshot(&mut self, request: &BackgroundRequest) {
        let refused = match request.ask {
            Ask::Flush => None,
            _ => self.refused(request.range, &Ask::Read),
        };
        let refused = refused.or_else(|| match self.apps.fenced(request.range) {
            (Fence::Closed, app) => Some(Failure::Taken(app.map_or_else(String::new, |app| app.fence()))),
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
    pub(in crate::disk) fn take_snapshot_answers(&mut self) -> bool {
        let before = self.answers.len();
        self.answers.extend(self.apps.answers());
        self.answers.len() > before
    }

    /// Takes the answers to background requests. Returns whether there were any.
    pub(in crate::disk) fn take_background_answers(&mut self) -> bool {
        let Some(background) = self.background() else { return false };
        let answers: Vec<_> = std::iter::from_fn(|| background.poll()).collect();
        let any = !answers.is_empty();
        self.answers.extend(answers);
        any
    }
}
