//! Serves reads: from the buffer, from running read-ahead, or from the medium.

use super::{Answer, Drive, Served, Service};
use crate::behaviour::Queue;
use crate::cache::{Content, Found};
use crate::run::Run;
use units::{Duration, Instant, Lbn, LbnRange, Op};

/// The number of sectors in a burst on the bus of a drive that holds the bus and has no watermark: 8 KiB. Found from the reads
/// of the DEC RZ26 (docs/MODEL.md, 4.13), because DiskSim's files have no field for it.
const READ_BURST_SECTORS: usize = 16;

/// The parts of a read's overhead and seek in the profile during which the arm is free: see [`Drive::beside_the_arm`].
struct BesideTheArm {
    /// The part of the overhead of a miss that a hit does not have. The drive spends this time after the medium access.
    late: Duration,
    /// The time by which the profile's seeks are longer for reads than for writes. A head cannot settle faster for a write;
    /// the seeks were measured with reads, and include this time on the bus.
    early: Duration,
}

impl Drive {
    pub(super) fn read(&mut self, service: Service) -> Answer {
        let range = service.range;
        let reading = self.run.as_ref().map(|r| r.segment);
        let (segment, found) = self.segments.for_read(range, reading);
        let found = if self.cache.enabled { found } else { Found::Nothing };
        self.segments.touch(segment);
        match (found, self.run.take_if(|r| r.segment == segment && found == Found::Front)) {
            (Found::All, _) => self.read_hit(service, segment),
            (_, Some(run)) => self.read_stream(service, run),
            _ => self.read_medium(service, segment, found),
        }
    }

    /// Returns the overhead of a read hit: after a read, the higher of the profile's two unless the hit continues that
    /// read.
    fn read_hit_overhead(&self, range: LbnRange) -> Duration {
        let pair = self.timing.read_hit;
        if self.rules.overhead_by_locality && self.last_op == Op::Read && self.last_end != Some(range.start())
        {
            pair.higher()
        } else {
            pair.after(self.last_op)
        }
    }

    fn read_hit(&mut self, service: Service, segment: usize) -> Answer {
        let Service { range, now, .. } = service;
        let end = range.end();
        let transfer = self.timing.read_sector * range.len().get();
        let flush = self.flush_end();
        let ready = service.after(self.read_hit_overhead(range)) + self.timing.data_preparation;
        let mut done = ready.max(self.bus_free) + transfer;
        if flush > now {
            if !self.rules.hits_during_flush {
                done = flush.max(service.after(self.timing.read_miss.after(self.last_op))) + transfer;
            }
        } else if self.run.is_some() {
            let limit = self.read_ahead_limit(segment, end);
            if let Some(run) = self.run.as_mut().filter(|r| r.segment == segment && r.around.is_none()) {
                run.limit = run.limit.max(limit);
            }
        } else if self.cache.read_ahead_on_idle_hit && self.free <= now {
            let from = self.segments.get(segment).end;
            let limit = self.read_ahead_limit(segment, end);
            self.run = Run::start(&mut self.mechanics, segment, done, done, from, limit);
        }
        self.give_up_served(segment, end);
        self.bus_taken(done);
        Answer::from_buffer(done + self.timing.read_completion, Served::Hit)
    }

    /// Serves a read whose sectors running read-ahead has partly read or is about to read.
    fn read_stream(&mut self, service: Service, mut run: Run) -> Answer {
        let range = service.range;
        let eager = self.looks_sequential(range);
        let end = range.end();
        run.limit = run.limit.max(end);
        let cached = run.next.get().saturating_sub(range.start().get());
        let overhead = if cached > 0 {
            self.read_hit_overhead(range)
        } else {
            self.timing.read_miss.after(self.last_op)
        };
        let sector = self.timing.read_sector;
        let ready = service.after(overhead) + self.timing.data_preparation;
        let mut bus = ready.max(self.bus_free) + sector * cached;
        run.land(&mut self.mechanics, end, |landed| bus = bus.max(landed) + sector);
        self.grow(run.segment, run.next);
        self.read_further(run, end, eager);
        self.bus_taken(bus);
        Answer::from_buffer(bus + self.timing.read_completion, Served::PartialHit)
    }

    /// Marks the bus as occupied until `until`, in a drive with a queue.
    pub(super) fn bus_taken(&mut self, until: Instant) {
        if self.queue != Queue::Serial {
            self.bus_free = self.bus_free.max(until);
        }
    }

    /// Returns whether eager read-ahead follows a read: the last command was a read on the same track that ended at or before
    /// the first sector of this one.
    fn looks_sequential(&self, range: LbnRange) -> bool {
        let Some(end) = self.last_end.filter(|&end| {
            self.eager_read_ahead && self.last_op == Op::Read && end <= range.start() && end > Lbn::ZERO
        }) else {
            return false;
        };
        let layout = self.model().layout();
        let track = |lbn: Lbn| layout.locate(lbn).map(|at| at.track);
        track(Lbn::new(end.get() - 1)) == track(range.start())
    }

    /// Serves a read from the medium. If `found` says so, `segment` already has the front of the read.
    fn read_medium(&mut self, service: Service, segment: usize, found: Found) -> Answer {
        let range = service.range;
        let eager = self.looks_sequential(range);
        let end = range.end();
        let t = &self.timing;
        let (overhead, preparation, reselect, sector, completion) = (
            t.read_miss.after(self.last_op),
            t.data_preparation,
            t.first_reselect,
            t.read_sector,
            t.read_completion,
        );
        let BesideTheArm { late, early } = self.beside_the_arm(range, overhead);
        let (overhead, completion) = (overhead.saturating_sub(late + early), completion + late);
        let set_out = self.arm_ready(service, overhead).max(self.flush_end());
        let ready = if self.rules.shortest_access { service.since + self.shortest_seek } else { service.now };
        let s = self.segments.get_mut(segment);
        if found == Found::Nothing {
            s.start = range.start();
            s.end = range.start();
        }
        s.content = Content::Read;
        let first = s.end;
        self.last_write_track = None;
        let Some(mut run) = Run::start(&mut self.mechanics, segment, set_out, ready, first, end) else {
            // Impossible, because `submit` refuses commands without sectors and past the last LBN.
            return Answer::from_buffer(service.now, Served::Miss);
        };
        let (seek, latency) = (run.first_seek, run.first_latency);
        let cached = first.get().saturating_sub(range.start().get());
        let latest = self.all_in_one_revolution(&run, range).unwrap_or(Instant::MAX);
        let (bus, served) = if cached > 0 {
            let ready = service.after(self.read_hit_overhead(range)) + preparation;
            let mut bus = ready.max(self.bus_free) + sector * cached;
            run.land(&mut self.mechanics, end, |landed| bus = bus.max(landed) + sector);
            (bus, Served::PartialHit)
        } else {
            let ready = service.after(overhead);
            (self.land_and_transfer(&mut run, range, ready, reselect + preparation, latest), Served::Miss)
        };
        self.grow(segment, end);
        self.read_further(run, end, eager);
        if served == Served::Miss {
            // With zero-latency access, the arm is free one revolution after the first sector that it read.
            self.free = self.free.min(latest);
        }
        let mut answer = Answer { at: bus + completion, served, seek, latency };
        if seek > Duration::ZERO {
            self.read_again(&mut answer, range.start());
        }
        self.bus_taken(bus);
        answer
    }

    /// Reads the sectors of a miss into the buffer and sends them over the bus. The bus starts at the watermark, and sends
    /// no sector before it has landed. No sector lands after `latest`. Returns the end of the transfer.
    fn land_and_transfer(
        &mut self,
        run: &mut Run,
        range: LbnRange,
        ready: Instant,
        reselect: Duration,
        latest: Instant,
    ) -> Instant {
        let count = range.len().get();
        let segment = self.segments.size.get();
        let whole = if self.cache.watermark_by_request { segment.min(count) } else { segment };
        let share = (whole as f64 * self.cache.read_watermark) as u64;
        let share = share.max(self.chance.held_back(count));
        let watermark = Lbn::new(range.start().get() + share.clamp(1, count));
        let sector = self.timing.read_sector;
        // The bus transfers sectors in LBN order, in whatever order they land.
        let mut landings = std::mem::take(&mut self.landings);
        landings.clear();
        if self.in_bursts() {
            run.land(&mut self.mechanics, range.end(), |at| landings.push(at.min(latest)));
            let start = ready.max(self.bus_free);
            let bus = landings.chunks(READ_BURST_SECTORS).fold(start, |bus, burst| {
                burst.iter().fold(bus, |bus, &at| bus.max(at)) + sector * burst.len() as u64
            });
            self.landings = landings;
            return bus;
        }
        run.land(&mut self.mechanics, watermark, |at| landings.push(at.min(latest)));
        let landed = landings.iter().copied().max().unwrap_or(ready);
        let start = if self.rules.early_reselect { landed.max(ready + reselect) } else { landed + reselect };
        let start = start.max(self.bus_free);
        let mut bus = landings.iter().fold(start, |bus, &at| bus.max(at) + sector);
        self.landings = landings;
        run.land(&mut self.mechanics, range.end(), |at| bus = bus.max(at.min(latest)) + sector);
        bus
    }

    /// Returns whether the drive sends the sectors of a read in bursts, each after all its sectors have landed.
    fn in_bursts(&self) -> bool {
        self.rules.read_bursts && self.holds_bus_read && self.cache.read_watermark == 0.0
    }

    /// Returns the parts of a read's overhead and seek in the profile that a drive with bursts spends on the bus after the
    /// medium access.
    fn beside_the_arm(&self, range: LbnRange, overhead: Duration) -> BesideTheArm {
        if !self.in_bursts() {
            return BesideTheArm { late: Duration::ZERO, early: Duration::ZERO };
        }
        let late = overhead.saturating_sub(self.timing.read_hit.after(self.last_op));
        let early = if self.stays(range) { Duration::ZERO } else { self.model().settle_credit() };
        BesideTheArm { late, early }
    }

    /// Delays the answer to a read if the drive repeats this read ([`Rereads`](super::Rereads)).
    fn read_again(&mut self, answer: &mut Answer, at: Lbn) {
        let revolutions = self.rereads.revolutions(at);
        if revolutions > 0 {
            let lost = self.revolution(self.free) * revolutions;
            answer.at += lost;
            self.free = self.free.max(answer.at);
            self.run = None;
        }
    }

    /// Returns the time at which all sectors of a read are in the buffer, if a head with zero-latency access arrives among
    /// them: one revolution after the start of the first sector that the head reads. `None` otherwise.
    fn all_in_one_revolution(&self, run: &Run, range: LbnRange) -> Option<Instant> {
        let pass = run.pass();
        if !self.zero_latency(Op::Read) || u64::from(pass.count) != range.len().get() {
            return None;
        }
        let around = self.mechanics.pass_in_any_order(run.arrival(), pass.track, pass.first, pass.count)?;
        Some(around.end(self.mechanics.spindle()))
    }
}
