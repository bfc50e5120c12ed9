//! [`Disk`] as a [`Device`], for a server of devices.

use super::apps::CallContext;
use super::background::Asked;
use super::requests::RequestSeq;
use super::{Disk, DiskHooks, bytes_of};
use device::{Abilities, Answer, Ask, BackgroundRequest, Device, Ended, Failure, Run, Work};
use units::{Bytes, Instant, LbnRange, Sectors};

impl<D: Device, A: DiskHooks> Device for Disk<D, A> {
    fn set_writers(&mut self, writers: usize) {
        self.apps.set_writers(writers);
    }

    fn taken(&self) -> Option<String> {
        self.apps.taken()
    }

    fn sector_bytes(&self) -> Bytes {
        self.sector
    }

    fn size(&self) -> Bytes {
        self.device.size()
    }

    /// Returns the device's abilities without `write_zeroes`: the server then sends a write of zeroes, which the core
    /// schedules as any other.
    fn abilities(&self) -> Abilities {
        Abilities { write_zeroes: false, ..self.device.abilities() }
    }

    fn runs(&self, range: LbnRange) -> Vec<Run> {
        self.device.runs(range)
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        self.device.advance(now);
        self.pump(now);
        self.core_time = self.core_time.max(now);
        if let Some(failure) = self.refused(range, &ask) {
            self.counters.refused();
            self.answers.push_back(Answer { id, at: now, result: Err(failure) });
            return;
        }
        let seq = self.requests.add(id, range, ask, now);
        self.added(seq);
        self.pump(now);
    }

    fn ask_in_background(&mut self, now: Instant, request: BackgroundRequest) {
        if request.snapshot.is_some() {
            self.device.advance(now);
            self.pump(now);
            self.core_time = self.core_time.max(now);
            self.ask_snapshot(&request);
            return self.pump(now);
        }
        let BackgroundRequest { id, client, range, ask, .. } = request;
        if self.apps.background.is_none() {
            return self.ask(now, id, range, ask);
        }
        self.device.advance(now);
        self.pump(now);
        self.core_time = self.core_time.max(now);
        let refused = self.refused(range, &ask);
        match (ask, refused) {
            (Ask::Read, None) => self.begin_in_background(id, Asked { client, range, arrived: now }),
            (_, Some(failure)) => self.refuse_in_background(id, failure),
            // No request to the background export has changed the disk, so there is nothing to flush.
            (Ask::Flush, None) if !self.background().is_some_and(|background| background.has_changed()) => {
                self.answers.push_back(Answer { id, at: now, result: Ok(Vec::new()) });
            }
            (ask @ Ask::Write { .. }, None) => {
                let seq = self.requests.add_background(id, range, ask, now);
                self.added(seq);
            }
            // A flush covers writes that were acknowledged, so it cannot wait; a discard moves no head.
            (ask @ (Ask::Flush | Ask::Discard | Ask::WriteZeroes { .. }), None) => {
                if let Some(background) = self.background().filter(|_| !matches!(ask, Ask::Flush)) {
                    background.set_changed();
                }
                let seq = self.requests.add(id, range, ask, now);
                self.added(seq);
            }
        }
        self.pump(now);
    }

    fn snapshots(&self) -> Vec<device::Snapshot> {
        self.apps.snapshots()
    }

    fn declare(&mut self, now: Instant, client: u64, range: LbnRange) {
        if self.apps.background.is_some() && self.refused(range, &Ask::Read).is_none() {
            self.between_events(now, |disk| {
                disk.with_background(|background, sessions| background.declare(sessions, client, range, now))
            });
        }
    }

    fn in_memory(&self, range: LbnRange) -> Vec<LbnRange> {
        let background = self.apps.background.as_ref();
        background.map(|background| background.in_memory(range)).unwrap_or_default()
    }

    fn hurry(&mut self, now: Instant) {
        self.between_events(now, Disk::hurry_all_writes);
    }

    fn leave(&mut self, now: Instant, client: u64) -> Vec<u64> {
        self.device.advance(now);
        self.pump(now);
        let context = CallContext { core: &mut self.core, blocks: &mut self.blocks };
        let mut left = self.apps.leave(context, client);
        let its = self.between_events(now, |disk| {
            disk.with_background(|background, sessions| background.leave(sessions, client))
        });
        left.extend(its.unwrap_or_default());
        left
    }

    fn next_work(&mut self) -> Option<(u64, Work)> {
        self.device.next_work()
    }

    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        self.device.ended(now, work, ended);
        self.pump(now);
    }

    fn next_event(&self) -> Option<Instant> {
        match self.answers.front() {
            Some(answer) => Some(answer.at),
            None if self.chooses_later => Some(self.core_time),
            None => {
                let due = self.commands.due(self.timeout);
                let (apps, reading) = (self.apps.due(), self.readings.due());
                [self.device.next_event(), self.core.wake_at(), due, apps, reading]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    /// Advances the device, takes its answers to all commands that ended by now, and then gives up the commands past
    /// their timeout.
    fn advance(&mut self, now: Instant) {
        self.device.advance(now);
        self.pump(now);
        if self.give_up(now) | self.do_due(now) {
            self.pump(now);
        }
    }

    fn poll(&mut self, _: Instant) -> Option<Answer> {
        let answer = self.answers.pop_front();
        self.answers_foreground &= !self.answers.is_empty();
        answer
    }
}

impl<D: Device, A: DiskHooks> Disk<D, A> {
    /// Begins a request that has been added, unless an older request has to be done first.
    fn added(&mut self, seq: RequestSeq) {
        if self.requests.are_changing() && !self.changing {
            self.changing = true;
            self.apps.set_changing(true);
        }
        if self.requests.is_blocked(seq) {
            // A foreground request must not wait for background writes.
            if self.requests.get_mut(seq).is_some_and(|request| !request.background) {
                self.hurry_awaited_by(seq);
            }
        } else {
            self.begin(seq);
        }
    }

    /// Returns why a request is refused, if it is.
    pub(super) fn refused(&self, range: LbnRange, ask: &Ask) -> Option<Failure> {
        let can = self.device.abilities();
        match ask {
            Ask::Flush => return None,
            Ask::Discard if !can.discard => return Some(Failure::Unsupported("discard")),
            Ask::WriteZeroes { .. } => return Some(Failure::Unsupported("write zeroes")),
            Ask::Read => {}
            Ask::Write { .. } | Ask::Discard => {
                if let Some(why) = self.apps.taken() {
                    return Some(Failure::Taken(why));
                }
            }
        }
        let sectors = Sectors::new(self.device.size().get() / self.sector.get().max(1));
        if range.is_empty() || range.checked_end().is_none_or(|end| end.get() > sectors.get()) {
            return Some(Failure::Outside { range, sectors });
        }
        match ask {
            Ask::Write { bytes, .. } if bytes.len() != bytes_of(range, self.sector) => {
                Some(Failure::Length { range, expected: range.len().bytes(self.sector), found: bytes.len() })
            }
            _ => None,
        }
    }
}
