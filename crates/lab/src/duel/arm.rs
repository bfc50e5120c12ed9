//! The time that a drive's arm spends idle or in rotational latency while the drive serves requests without background
//! work: a bound on the background work that a host can add.

use drive::{BlackBox, Breakdown, Command, CommandError, Drive, Reply, Served};
use units::{Bytes, CacheOps, Duration, Instant, Sectors};

/// A drive with a queue, and a record of the work of its arm.
pub struct WatchedDrive {
    drive: Drive,
    /// The arm's work, in order.
    work: Vec<ArmWork>,
}

/// A period in which the arm serves one request.
#[derive(Clone, Copy, Debug)]
struct ArmWork {
    began: Instant,
    end: Instant,
    /// The rotational latency of a read; `None` for a write on its way to the medium.
    read_latency: Option<Duration>,
    /// The bytes that pass in a second on the track where the work ends.
    bytes_per_s: f64,
}

/// The millions of bytes that would pass the head in each part of the arm's time, for each second of the whole run.
///
/// If the arm serves the foreground in the drive's own order and at its own times, no scheduler can read more in such
/// a part, however well it predicts: the bound assumes that background commands cost nothing and that all sectors are
/// wanted. A command that a drive serves from its buffer takes no time of the arm, so that command overheads hardly
/// lower the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassingMb {
    /// Idle time from the end of a read to the next work: no cached write is left then, and the head's place is known.
    pub idle_behind_reads: f64,
    /// Idle time from the end of a cached write to the next work.
    pub idle_behind_writes: f64,
    /// Rotational latency of reads for which the arm comes from a read.
    pub latency_behind_reads: f64,
    /// Rotational latency of reads for which the arm comes from a cached write.
    pub latency_behind_writes: f64,
    /// The whole time of the arm, busy or idle.
    pub always: f64,
}

impl PassingMb {
    /// Returns all idle time of the arm.
    pub fn idle(&self) -> f64 {
        self.idle_behind_reads + self.idle_behind_writes
    }

    /// Returns the mean of several runs, part by part.
    pub fn mean(runs: &[Self]) -> Self {
        let over = |of: fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        Self {
            idle_behind_reads: over(|run| run.idle_behind_reads),
            idle_behind_writes: over(|run| run.idle_behind_writes),
            latency_behind_reads: over(|run| run.latency_behind_reads),
            latency_behind_writes: over(|run| run.latency_behind_writes),
            always: over(|run| run.always),
        }
    }
}

impl WatchedDrive {
    /// Returns a drive that has served nothing yet.
    pub fn new(drive: Drive) -> Self {
        Self { drive, work: Vec::new() }
    }

    /// Records the work that the arm has begun by `now`, if any.
    fn look(&mut self, now: Instant) {
        let end = self.drive.arm_free_at();
        if end > now && self.work.last().is_none_or(|last| last.end < end) {
            let bytes_per_s = self.bytes_per_s();
            self.work.push(ArmWork { began: now, end, read_latency: None, bytes_per_s });
        }
    }

    /// Returns the bytes that pass the head in a second.
    fn bytes_per_s(&self) -> f64 {
        let (model, at) = (self.drive.model(), self.drive.position());
        let track = model.layout().track_at(at.cylinder, at.head);
        let sectors = track.map_or(0, |track| model.layout().track(track).sectors);
        let bytes = Sectors::new(u64::from(sectors)).bytes(model.sector_bytes()).get();
        bytes as f64 / model.rpm().revolution().as_secs_f64()
    }

    /// Records that the work begun at `began` was for a read, with its rotational latency.
    fn explain(&mut self, Breakdown { served, began, latency, .. }: Breakdown) {
        let read = matches!(served, Served::Miss | Served::PartialHit);
        let at = self.work.binary_search_by_key(&began, |work| work.began);
        if let Some(work) = at.ok().filter(|_| read).and_then(|at| self.work.get_mut(at)) {
            work.read_latency = Some(latency);
        }
    }

    /// Returns the bytes that would pass the head in each part of the arm's time, for each second up to `end`.
    pub fn passing(&self, end: Instant) -> PassingMb {
        let all = end.saturating_since(Instant::ZERO).as_secs_f64();
        let mut parts = PassingMb::default();
        let next = self.work.iter().skip(1).map(Some).chain([None]);
        for (work, next) in self.work.iter().zip(next) {
            let mb = |time: Duration| time.as_secs_f64() / all * work.bytes_per_s / 1e6;
            let until = next.map_or(end, |next| next.began);
            let idle = mb(until.saturating_since(work.end));
            let latency = mb(next.and_then(|next| next.read_latency).unwrap_or_default());
            let behind_read = work.read_latency.is_some();
            *(if behind_read { &mut parts.idle_behind_reads } else { &mut parts.idle_behind_writes }) += idle;
            *(if behind_read {
                &mut parts.latency_behind_reads
            } else {
                &mut parts.latency_behind_writes
            }) += latency;
            parts.always += mb(until.saturating_since(work.began));
        }
        parts
    }
}

impl BlackBox for WatchedDrive {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.drive.sector_bytes()
    }

    fn queue_depth(&self) -> usize {
        self.drive.queue_depth()
    }

    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.submit_with(now, command, CacheOps::default())
    }

    fn submit_with(&mut self, now: Instant, command: Command, cache: CacheOps) -> Result<(), CommandError> {
        self.drive.submit_with(now, command, cache)?;
        self.look(now);
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        self.drive.next_event()
    }

    fn advance(&mut self, now: Instant) {
        self.drive.advance(now);
        self.look(now);
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.pop_explained().map(|(reply, _)| reply)
    }

    fn pop_explained(&mut self) -> Option<(Reply, Option<Breakdown>)> {
        let (reply, breakdown) = self.drive.pop_explained()?;
        breakdown.into_iter().for_each(|of| self.explain(of));
        Some((reply, breakdown))
    }

    fn outstanding(&self) -> usize {
        self.drive.outstanding()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drive::{Behaviour, Queue, QueueOrder};
    use model::builtin;
    use units::{Lbn, LbnRange, Op, RequestId};

    /// Runs until the drive has nothing to do.
    fn settle(drive: &mut WatchedDrive) -> Instant {
        let mut now = Instant::ZERO;
        while let Some(at) = drive.next_event() {
            now = at;
            drive.advance(now);
            while drive.pop_explained().is_some() {}
        }
        now
    }

    #[test]
    fn idle_time_belongs_to_the_work_before_it_and_latency_to_the_way_of_the_arm() {
        let profile = builtin::find("nearline-20tb").unwrap();
        let queue = Queue::Tagged { order: QueueOrder::Own, depth: 32 };
        let behaviour = Behaviour { queue, write_back: Some(true), write_cache: 128, ..Behaviour::default() };
        let drive = Drive::with_behaviour(&profile, drive::Rules::HARDWARE, behaviour, 1).unwrap();
        let mut drive = WatchedDrive::new(drive);
        let send = |drive: &mut WatchedDrive, now, id, op, lbn| {
            let range = LbnRange::new(Lbn::new(lbn), Sectors::new(8));
            drive.submit(now, Command { id: RequestId::new(id), op, range }).unwrap();
        };
        let second = |n: u64| Instant::ZERO + Duration::from_secs(n);
        send(&mut drive, second(0), 0, Op::Read, 8_000_000);
        settle(&mut drive);
        send(&mut drive, second(1), 1, Op::Write, 16_000_000);
        settle(&mut drive);
        send(&mut drive, second(2), 2, Op::Read, 32_000_000);
        settle(&mut drive);
        send(&mut drive, second(3), 3, Op::Read, 64_000_000);
        settle(&mut drive);
        let reads: Vec<bool> = drive.work.iter().map(|work| work.read_latency.is_some()).collect();
        assert_eq!(reads, [true, false, true, true]);
        let parts = drive.passing(second(4));
        let (idle, all) = (parts.idle(), parts.always);
        assert!((0.70..0.76).contains(&(parts.idle_behind_reads / all)), "{parts:?}");
        assert!((0.22..0.25).contains(&(parts.idle_behind_writes / all)), "{parts:?}");
        // The arm has served four requests, each in at most the time of a full-stroke seek and a revolution.
        assert!(idle > 0.97 * all && idle < all, "{parts:?}");
        let revolution = drive.drive.model().rpm().revolution();
        let most = revolution.as_secs_f64() / 4.0 * drive.work[0].bytes_per_s / 1e6 * 1.01;
        for latency in [parts.latency_behind_reads, parts.latency_behind_writes] {
            assert!(latency > 0.0 && latency < most, "{parts:?}");
        }
    }
}
