//! Serves writes: acknowledged from the buffer and then written to the medium, or acknowledged from the medium.

use super::{Answer, Drive, Flush, Served, Service};
use crate::cache::{Content, Found, Segment};
use crate::mechanics::Pass;
use model::Position;
use model::profile::WriteBack;
use units::{Duration, Instant, LbnRange, Op};

/// The number of sectors that cross the bus together before a drive without write-back can write them to the medium: 4 KiB.
/// Found from the sequential writes of the HP C2247A (docs/MODEL.md, 4.8), because DiskSim's files have no field for it.
const BURST_SECTORS: u64 = 8;

/// The number of sectors that must have crossed the bus before a drive without write-back starts on the medium, by DiskSim's
/// rules. Each further sector can be written when it has crossed.
const DISKSIM_FIRST_SECTORS: u64 = 10;

/// The times of a write to the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnMedium {
    seek: Duration,
    latency: Duration,
    pub(super) end: Instant,
}

/// Returns whether a segment has written data, and the write continues where this data ends.
fn continues(segment: &Segment, range: LbnRange) -> bool {
    segment.content == Content::Written && segment.end == range.start()
}

impl Drive {
    pub(super) fn write(&mut self, service: Service, forced: bool) -> Answer {
        let range = service.range;
        let appends = self
            .flush
            .map(|f| f.segment)
            .filter(|&i| self.cache.combine_sequential_writes && continues(self.segments.get(i), range));
        let segment = self.segment_for(range, appends);
        self.write_cache.drop_inside(range);
        let answer = match (self.cache.write_back, self.cache.enabled) {
            (WriteBack::None | WriteBack::Unknown, _) | (_, false) => self.write_through(service),
            _ if forced => self.write_through(service),
            _ => self.write_behind(service, segment, appends.is_some()),
        };
        self.fill_segment(range, segment, appends.is_some());
        answer
    }

    fn segment_for(&mut self, range: LbnRange, appends: Option<usize>) -> usize {
        let reading = self.run.as_ref().map(|r| r.segment);
        let segment = self.segments.for_write(range, appends, reading);
        self.segments.touch(segment);
        segment
    }

    fn fill_segment(&mut self, range: LbnRange, segment: usize, appends: bool) {
        self.segments.overwrite(range, segment, self.served_leave());
        let s = self.segments.get_mut(segment);
        if !(continues(s, range) && (appends || self.rules.writes_keep_reads)) {
            s.start = range.start();
            s.end = range.start();
        }
        s.content = Content::Written;
        self.grow(segment, range.end());
    }

    /// Puts the data of a write into a segment, where reads may find it.
    pub(super) fn hold_in_a_segment(&mut self, range: LbnRange) {
        let segment = self.segment_for(range, None);
        self.fill_segment(range, segment, false);
    }

    /// Returns the overhead of a buffered write: after a write, the higher of the profile's two unless both writes are on
    /// one track.
    pub(super) fn write_hit_overhead(&self, range: LbnRange) -> Duration {
        let pair = self.timing.write_hit;
        if self.rules.overhead_by_locality && self.last_op == Op::Write {
            let track = self.model().layout().locate(range.start()).map(|at| at.track);
            if track.is_none() || track != self.last_write_track {
                return pair.higher();
            }
        }
        pair.after(self.last_op)
    }

    /// Acknowledges a write when its data is in the buffer, and starts the arm.
    fn write_behind(&mut self, service: Service, segment: usize, appends: bool) -> Answer {
        let Service { range, now, .. } = service;
        let overhead = self.write_hit_overhead(range);
        let flush = self.flush_end();
        let arm = self.arm_ready(service, overhead);
        let data = service.after(overhead).max(self.bus_free);
        let (bus, set_out) = if flush > now && !appends {
            let bus = flush.max(data);
            (bus, bus)
        } else {
            (data, arm.max(flush))
        };
        let sector = self.timing.write_sector;
        let medium = self.write_medium(set_out, range, |k| bus + sector * (u64::from(k) + 1));
        self.flush = Some(Flush { segment, end: medium.end });
        let crossed = bus + sector * range.len().get();
        self.bus_taken(crossed);
        let at = crossed + self.timing.write_completion;
        Answer { at, served: Served::Buffered, seek: medium.seek, latency: medium.latency }
    }

    /// Acknowledges a write when its data is on the medium.
    fn write_through(&mut self, service: Service) -> Answer {
        let range = service.range;
        let t = self.timing;
        let continues = self.last_end == Some(range.start());
        let twice = t.extra.filter(|_| self.last_op == Op::Write && !continues);
        let (overhead, data) = match twice {
            Some(x) => {
                let overhead = if self.stays(range) { x.command } else { x.command + x.seek_delta };
                (overhead, service.since + overhead + x.until_data)
            }
            None => {
                let overhead = t.write_miss.after(self.last_op);
                (overhead, service.since + overhead)
            }
        };
        // In a queue, the data may have crossed the bus while the arm served the command before.
        let data = data.max(self.bus_free);
        let set_out = self.arm_ready(service, overhead).max(self.free);
        let count = range.len().get();
        let first = data + t.data_preparation;
        let handed_over = if twice.is_some() { first } else { first + t.write_disconnect + t.first_reselect };
        let bursts = self.rules.write_bursts;
        let available = |k: u32| {
            let k = u64::from(k);
            if bursts {
                handed_over + t.write_sector * ((k / BURST_SECTORS + 1) * BURST_SECTORS).min(count)
            } else {
                first + t.write_sector * if k == 0 { count.min(DISKSIM_FIRST_SECTORS) } else { k + 1 }
            }
        };
        self.bus_taken(first + t.write_sector * count);
        let medium = self.write_medium(set_out, range, available);
        let reselect = if twice.is_some() { t.other_reselect } else { t.first_reselect };
        let at = medium.end + reselect + t.write_completion;
        Answer { at, served: Served::Medium, seek: medium.seek, latency: medium.latency }
    }

    /// Returns whether the first and the last sector of the medium must be read before they are written: the write replaces
    /// only a part of the sector, and the buffer does not have the rest.
    fn read_before(&self, range: LbnRange) -> [bool; 2] {
        let held =
            |sector: LbnRange| self.cache.enabled && self.segments.for_read(sector, None).1 == Found::All;
        self.model().partly_written(range).map(|sector| sector.is_some_and(|sector| !held(sector)))
    }

    /// Returns whether the arm is on the track of the command's first sector.
    pub(super) fn stays(&self, range: LbnRange) -> bool {
        let layout = self.model().layout();
        let target = layout.locate(range.start()).map(|at| Position::from(layout.track(at.track)));
        target == Some(self.mechanics.position())
    }

    /// Writes to the medium from `set_out` on, track by track. `available` returns the time at which the data of a sector is
    /// available. A sector that passes before that time is written a revolution later.
    pub(super) fn write_medium(
        &mut self,
        set_out: Instant,
        range: LbnRange,
        available: impl Fn(u32) -> Instant,
    ) -> OnMedium {
        let model = self.mechanics.shared_model();
        let spindle = self.mechanics.spindle().clone();
        let mut done = OnMedium { seek: Duration::ZERO, latency: Duration::ZERO, end: set_out };
        let [front, back] = self.read_before(range);
        let mut written = 0;
        let mut last: Option<Pass> = None;
        for piece in model.layout().pieces(range) {
            let track = model.layout().track(piece.track);
            self.last_write_track = Some(piece.track);
            let floor = if written == 0 { self.timing.minimum_seek } else { Duration::ZERO };
            let arrival = self.mechanics.seek_to(done.end, track.into(), Op::Write).max(done.end + floor);
            let mut pass = match last.and_then(|p| p.next(track, piece.sector, piece.len)) {
                Some(next) => next,
                None => self.mechanics.pass(arrival, track, piece.sector, piece.len),
            };
            if written == 0 {
                done.seek = arrival.since(done.end);
                done.latency = pass.start(&spindle).since(arrival);
            }
            let around = match self.zero_latency(Op::Write) {
                true => self.mechanics.pass_in_any_order(arrival, track, piece.sector, piece.len),
                false => None,
            };
            let complete = available(written + piece.len - 1);
            if let Some(around) = around.filter(|p| complete <= p.start(&spindle)) {
                pass = around;
            } else {
                // The number of sectors of this piece before the first one of `pass`.
                let mut before = 0;
                for k in 0..piece.len {
                    let there = available(written + k);
                    if there > pass.done(&spindle, k - before) {
                        pass = self.mechanics.pass(there, track, piece.sector + k, piece.len - k);
                        before = k;
                    }
                }
            }
            done.end = pass.end(&spindle);
            let first = written == 0;
            written += piece.len;
            if first && front || u64::from(written) == range.len().get() && back {
                // The rest of a partly written sector of the medium is read in this revolution and written in the next.
                done.end += self.revolution(done.end);
            }
            last = Some(pass);
        }
        self.free = done.end;
        done
    }
}
