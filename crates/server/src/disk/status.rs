//! The figures of a disk.

use super::background::{BackgroundStatus, SnapshotRequests};
use super::latency::{Latency, Meter};
use super::measured::Measured;
use super::movement::Movement;
use super::requests::Request;
use device::Ask;
use model::DriveModel;
use scheduler::{Caution, Command, Harm, OutsideDrive, Purpose, Record};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Duration, Instant, LbnRange, Op};

/// The bytes of background work, by the kind of time in which they were read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackgroundBytes {
    /// Bytes in gaps of the foreground, which cost the foreground nothing.
    pub gap_bytes: u64,
    /// Bytes in idle time.
    pub idle_bytes: u64,
    /// Bytes of foreground commands for blocks that an application promoted.
    pub promoted_bytes: u64,
    /// Blocks delivered, bad ones included.
    pub blocks: u64,
    /// Blocks that the device could not read or write.
    pub bad_blocks: u64,
    /// Blocks of which a part is in memory and the rest is still to be read.
    pub parts_kept: usize,
}

/// The use of gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// Gaps that were examined for a detour.
    pub seen: u64,
    /// Gaps with a detour: the head read background blocks on its way to a request.
    pub used: u64,
    /// Detours that ended too late, so that the request waited for one more revolution.
    pub extra_revolutions: u64,
    /// Commands for requests whose gap was not examined, counted by the name of the reason ([`Caution::name`]).
    pub passed_over: BTreeMap<&'static str, u64>,
}

/// The accuracy of the core's predictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PredictionStatus {
    /// Commands whose time was compared with the prediction.
    pub commands: u64,
    /// Commands that took whole revolutions longer than predicted: missed revolutions.
    pub late: u64,
    /// Commands that took whole revolutions less than predicted.
    pub early: u64,
    /// Commands whose error is no whole number of revolutions.
    pub unexplained: u64,
    /// The share of commands that were predicted to within a tenth of a millisecond.
    pub within_100us: f64,
    /// The absolute prediction errors, rounded to 10 us; those above 20 ms count as 20 ms.
    pub errors: Latency,
}

/// The harm of background work: the time that it took from the foreground.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HarmStatus {
    /// The time for which the head served the foreground, in microseconds.
    pub foreground_us: f64,
    /// The total delay of requests that background work made late, in microseconds. The lead of early requests is not
    /// subtracted.
    pub lost_us: f64,
    /// The net delay, late minus early requests, as a share of `foreground_us`; negative if requests were early on
    /// balance.
    pub share: f64,
}

impl HarmStatus {
    fn of(harm: Harm) -> Self {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        Self { foreground_us: us(harm.foreground), lost_us: us(harm.late), share: harm.share() }
    }
}

/// The device's time since the start, by use. A command that was at the device together with others counts from the end
/// of the command before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeviceTime {
    /// The time since the start, in microseconds.
    pub elapsed_us: f64,
    /// Foreground requests, with the background blocks merged into their commands, in microseconds.
    pub requests_us: f64,
    /// The part of `requests_us` in which the head moved, estimated from the profile; `None` without a profile.
    pub moves_us: Option<f64>,
    /// The part of `requests_us` in which sectors passed under the head, estimated from the profile; `None` without
    /// one.
    pub sectors_us: Option<f64>,
    /// The part of `requests_us` of requests that were so fast that the drive's buffer must have served them; `None`
    /// without a profile. The rest of `requests_us` is rotational latency and command overheads.
    pub buffered_us: Option<f64>,
    /// Commands for background blocks in gaps of the foreground, in microseconds.
    pub gaps_us: f64,
    /// Commands for background blocks in idle time, in microseconds.
    pub idle_us: f64,
    /// Flushes, discards, and commands that were given up, in microseconds.
    pub others_us: f64,
}

/// A command that the device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Accessed {
    /// The first sector of the access.
    pub lbn: u64,
    /// The number of sectors of the access.
    pub sectors: u64,
    /// The purpose of the access: `request`, or background work in a `gap` or in `idle` time.
    pub purpose: &'static str,
    /// Whether the access was a write.
    pub write: bool,
    /// The time since the end of the access, in microseconds.
    pub ago_us: f64,
}

/// The most accesses in a status: enough to draw the recent positions of the arm.
const ACCESSES_MAX: usize = 24;

/// The state of the probe that characterises a disk while it serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbeStatus {
    /// `probing`, `found` (the core uses the profile), `partial` (no profile that the core could rely on), or `failed`.
    pub state: &'static str,
    /// The share of the measurements that is done, 0 to 1.
    pub share: f64,
    /// The number of readings.
    pub commands: u64,
    /// The disk's time for the readings, in seconds.
    pub drive_time_s: f64,
    /// The reason why the probe found no profile, if it found none.
    pub reason: Option<String>,
}

/// The status of a disk since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DiskStatus {
    /// The response times of foreground reads.
    pub reads: Latency,
    /// The response times of foreground writes, including write-through requests.
    pub writes: Latency,
    /// The response times of flushes.
    pub flushes: Latency,
    /// The response times of discards.
    pub discards: Latency,
    /// Foreground requests that failed, of any kind.
    pub failed: u64,
    /// Bytes read for the foreground.
    pub read_bytes: u64,
    /// Bytes written for the foreground.
    pub written_bytes: u64,
    /// Foreground requests that are not answered yet.
    pub outstanding: usize,
    /// The background work done.
    pub background: BackgroundBytes,
    /// The use of gaps.
    pub gaps: Gaps,
    /// The accuracy of the predictions of the device's times.
    pub foresight: PredictionStatus,
    /// The upper bound on the harm of detours that ended too late.
    pub detours: HarmStatus,
    /// The harm of work in idle time.
    pub idle: HarmStatus,
    /// The bound on the shares of `detours` and `idle` together (`harm_percent` as a share), if one is configured.
    pub harm_bound: Option<f64>,
    /// The measured cost of background work, if it is measured.
    pub measured: Option<Measured>,
    /// Commands that were given up, because the device did not answer in time.
    pub timed_out: u64,
    /// Commands that were given up and that the device has still not answered.
    pub unanswered: usize,
    /// The reason why the disk should be checked or replaced, if it should.
    pub failing: Option<&'static str>,
    /// The reason why gaps are not used now, if they are not.
    pub caution: Option<&'static str>,
    /// Whether the disk has contradicted its profile for so long that gaps are not used. The log says since when.
    pub mistrusted: bool,
    /// The delay between a completion by the device and the host's notice of the completion.
    pub lateness: Latency,
    /// The background requests of clients, if the disk takes background requests.
    pub background_requests: Option<BackgroundStatus>,
    /// The requests of clients to each snapshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshot_requests: Vec<SnapshotRequests>,
    /// The device's time by use.
    pub device_time: DeviceTime,
    /// The last accesses, the oldest first.
    pub accesses: Vec<Accessed>,
    /// The state of the probe, if the disk was probed since the start.
    pub probe: Option<ProbeStatus>,
}

#[derive(Debug)]
pub(super) struct Counters {
    reads: Meter,
    writes: Meter,
    flushes: Meter,
    discards: Meter,
    lateness: Meter,
    failed: u64,
    timed_out: u64,
    bytes: [u64; 2],
    space: BackgroundBytes,
    /// When the last command ended.
    until: Instant,
    /// The device's time for requests, for background work in gaps and in idle time, and for other commands.
    spent: [Duration; 4],
    /// The parts of the device's time for requests.
    movement: Movement,
    /// Commands for requests whose gap was not examined, by reason.
    passed_over: BTreeMap<&'static str, u64>,
    /// The last accesses, with the times of their ends.
    accesses: VecDeque<(Instant, Accessed)>,
}

/// The present numbers of requests, partly read blocks and unanswered commands.
pub(super) struct Waits {
    pub outstanding: usize,
    pub parts_kept: usize,
    pub unanswered: usize,
}

impl Counters {
    pub fn new() -> Self {
        Self {
            reads: Meter::new(),
            writes: Meter::new(),
            flushes: Meter::new(),
            discards: Meter::new(),
            lateness: Meter::new(),
            failed: 0,
            timed_out: 0,
            bytes: [0; 2],
            space: BackgroundBytes::default(),
            until: Instant::ZERO,
            spent: [Duration::ZERO; 4],
            movement: Movement::default(),
            passed_over: BTreeMap::new(),
            accesses: VecDeque::with_capacity(ACCESSES_MAX),
        }
    }

    /// Records the time of a command that was sent at `since` and ended at `at`. Without a `purpose` the command is a
    /// flush or discard, or was given up.
    pub fn spent(
        &mut self,
        core: &OutsideDrive,
        purpose: Option<Purpose>,
        range: LbnRange,
        write: bool,
        since: Instant,
        at: Instant,
    ) {
        let took = at.saturating_since(since.max(self.until));
        self.until = self.until.max(at);
        let (place, purpose) = match purpose {
            Some(Purpose::Foreground) => (0, "request"),
            Some(Purpose::Background { .. }) => (1, "gap"),
            Some(Purpose::Idle { .. }) => (2, "idle"),
            None => {
                self.spent[3] += took;
                return;
            }
        };
        self.spent[place] += took;
        let op = if write { Op::Write } else { Op::Read };
        self.movement.note(core.drive(), op, range, (place == 0).then_some(took));
        if let (0, Some(caution)) = (place, core.caution()) {
            *self.passed_over.entry(caution.name()).or_default() += 1;
        }
        if self.accesses.len() == ACCESSES_MAX {
            self.accesses.pop_front();
        }
        let (lbn, sectors) = (range.start().get(), range.len().get());
        self.accesses.push_back((at, Accessed { lbn, sectors, purpose, write, ago_us: 0.0 }));
    }

    pub fn device_time(&self, drive: &DriveModel, now: Instant) -> DeviceTime {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let [requests_us, gaps_us, idle_us, others_us] = self.spent.map(us);
        let elapsed_us = us(now.max(self.until).saturating_since(Instant::ZERO));
        let part = |time: Duration| drive.is_known().then(|| us(time));
        let Movement { moves, sectors, buffered, .. } = self.movement;
        let (moves_us, sectors_us, buffered_us) = (part(moves), part(sectors), part(buffered));
        DeviceTime { elapsed_us, requests_us, moves_us, sectors_us, buffered_us, gaps_us, idle_us, others_us }
    }

    pub fn accesses(&self, now: Instant) -> Vec<Accessed> {
        let aged = |(at, access): &(Instant, Accessed)| {
            let ago_us = now.saturating_since(*at).as_nanos() as f64 / 1e3;
            Accessed { ago_us, ..*access }
        };
        self.accesses.iter().map(aged).collect()
    }

    /// Records the delay with which the host noticed a completion.
    pub fn heard(&mut self, late: Duration) {
        self.lateness.note(late);
    }

    /// Records a command that succeeded.
    pub fn done(&mut self, command: &Command, promoted: bool, sector: Bytes) {
        let useful = u64::from(command.useful) * sector.get();
        match command.purpose {
            Purpose::Idle { .. } => self.space.idle_bytes += useful,
            Purpose::Background { .. } => self.space.gap_bytes += useful,
            Purpose::Foreground => {
                self.space.gap_bytes += useful;
                let own = command.foreground.filter(|_| promoted);
                self.space.promoted_bytes += own.map_or(0, |range| range.len().bytes(sector).get());
            }
        }
    }

    pub fn timed_out(&mut self) {
        self.timed_out += 1;
    }

    pub fn refused(&mut self) {
        self.failed += 1;
    }

    pub fn answered(&mut self, request: &Request, now: Instant, sector: Bytes) {
        if request.failure.is_some() {
            self.failed += 1;
            return;
        }
        let time = now.saturating_since(request.arrived);
        let bytes = request.range.len().bytes(sector).get();
        match request.ask {
            Ask::Read => {
                self.reads.note(time);
                self.bytes[0] += bytes;
            }
            Ask::Write { .. } | Ask::WriteZeroes { .. } => {
                self.writes.note(time);
                self.bytes[1] += bytes;
            }
            Ask::Flush => self.flushes.note(time),
            Ask::Discard => self.discards.note(time),
        }
    }

    pub fn delivered(&mut self, record: &Record) {
        self.space.blocks += 1;
        self.space.bad_blocks += u64::from(record.bad.is_some());
    }

    pub fn status(&self, core: &OutsideDrive, waits: &Waits) -> DiskStatus {
        let &Waits { outstanding, parts_kept, unanswered } = waits;
        let plans = core.planner_stats();
        let record = core.prediction_errors();
        let foresight = PredictionStatus {
            commands: record.count(),
            late: record.late(),
            early: record.early(),
            unexplained: record.unexplained(),
            within_100us: record.within(Duration::from_micros(100)),
            errors: Latency::of_counts(
                record.distribution().map(|(us, n)| (us.unsigned_abs(), u64::from(n))),
            ),
        };
        DiskStatus {
            reads: Latency::of(&self.reads),
            writes: Latency::of(&self.writes),
            flushes: Latency::of(&self.flushes),
            discards: Latency::of(&self.discards),
            lateness: Latency::of(&self.lateness),
            failed: self.failed,
            read_bytes: self.bytes[usize::from(Op::Read.is_write())],
            written_bytes: self.bytes[usize::from(Op::Write.is_write())],
            outstanding,
            timed_out: self.timed_out,
            unanswered,
            failing: (unanswered > 0).then_some("the disk does not answer"),
            background: BackgroundBytes { parts_kept, ..self.space },
            gaps: Gaps {
                seen: plans.gaps,
                used: plans.detours,
                extra_revolutions: plans.extra_revolutions,
                passed_over: self.passed_over.clone(),
            },
            foresight,
            detours: HarmStatus::of(core.detour_harm()),
            idle: HarmStatus::of(core.harm()),
            harm_bound: core.harm_bound_ppm().map(|ppm| f64::from(ppm) / 1e6),
            measured: core.audit_report().map(Measured::from),
            caution: core.caution().map(Caution::name),
            mistrusted: false,
            background_requests: None,
            snapshot_requests: Vec::new(),
            device_time: DeviceTime::default(),
            accesses: Vec::new(),
            probe: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_were_at_the_device_together_count_once() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let range = |lbn| LbnRange::new(units::Lbn::new(lbn), units::Sectors::new(8));
        let drive = DriveModel::unknown(units::Sectors::new(1_000), Bytes::new(512)).unwrap();
        let outside = scheduler::OutsideConfig::blind();
        let core = OutsideDrive::new(drive.clone().into(), scheduler::Config::outside(outside));
        let mut counters = Counters::new();
        counters.spent(&core, Some(Purpose::Foreground), range(0), false, at(0), at(10));
        counters.spent(&core, Some(Purpose::Background { useful: 8 }), range(8), false, at(2), at(14));
        counters.spent(&core, Some(Purpose::Idle { useful: 8 }), range(16), true, at(20), at(21));
        counters.spent(&core, None, range(0), false, at(21), at(24));
        let time = counters.device_time(&drive, at(30));
        let all = [time.requests_us, time.gaps_us, time.idle_us, time.others_us, time.elapsed_us];
        assert_eq!(all, [10_000.0, 4_000.0, 1_000.0, 3_000.0, 30_000.0]);
        assert_eq!(time.moves_us, None, "nothing is known of the drive");
        let seen = counters.accesses(at(30));
        let seen: Vec<_> = seen.iter().map(|a| (a.lbn, a.purpose, a.write, a.ago_us)).collect();
        let expected =
            [(0, "request", false, 20_000.0), (8, "gap", false, 16_000.0), (16, "idle", true, 9_000.0)];
        assert_eq!(seen, expected);
        let waits = Waits { outstanding: 0, parts_kept: 0, unanswered: 0 };
        assert_eq!(counters.status(&core, &waits).gaps.passed_over, BTreeMap::from([("unknown", 1)]));
        for n in 0..100 {
            counters.spent(&core, Some(Purpose::Foreground), range(n), false, at(30), at(31));
        }
        let seen = counters.accesses(at(31));
        assert_eq!((seen.len(), seen[0].lbn), (ACCESSES_MAX, 76));
    }
}
