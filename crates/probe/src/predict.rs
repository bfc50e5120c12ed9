//! Predicts the completions of a drive's commands from its profile, and corrects the platter's angle with the actual ones.

use model::{DriveModel, Position, Profile, ProfileError};
use units::{Duration, Instant, LbnRange, Op};

/// Predicts the completions of reads and writes, one at a time, from a profile and earlier completions.
///
/// Each completion corrects the platter's angle, as in a scheduler outside the drive (FAST 2002, section 4).
#[derive(Clone, Debug)]
pub struct Predictor {
    model: DriveModel,
    /// The overheads of a read after a read, and after a write; and those of a write.
    read_overhead: [Duration; 2],
    write_overhead: [Duration; 2],
    /// The overhead of a write that is acknowledged from the buffer; `None` if writes are done on the medium.
    acknowledged: Option<Duration>,
    last: Op,
    /// The end of the arm's work for acknowledged writes, by the model's clock.
    free: Instant,
    shortest: Duration,
    bus: Duration,
    position: Position,
    /// The delay of the drive's platter against the model's, ns.
    late: i64,
    /// The drive's revolution time relative to the model's, less one: `late` grows at this rate.
    slow: f64,
    /// The number of bad predictions in a row.
    lost: u32,
    /// The instant at which the platter's angle was last updated.
    seen: Instant,
    /// Whether the current command is a write acknowledged from the buffer, which does not show the platter's angle.
    in_buffer: bool,
    /// The predicted completion of the current command.
    expected: Option<Instant>,
}

/// The most bad predictions in a row that count as chance; after one more another angle of the platter is assumed.
const BAD_PREDICTIONS_MAX: u32 = 2;

/// The number of sectors of a write that must have crossed the bus before the drive writes: a page of 4 KiB
/// (docs/MODEL.md).
const BURST_SECTORS: u64 = 8;

/// The largest correction of the platter's angle by one completion, ns: a late completion must not spoil the angle.
const CORRECTION_NS_MAX: i64 = 10_000;

/// The part of an error that is attributed to the spindle's speed.
const SPEED_ERROR_SHARE: f64 = 0.02;

impl Predictor {
    /// Returns a predictor for a profile; the arm is assumed to be at cylinder 0.
    ///
    /// # Errors
    /// The first field of the profile that describes no drive.
    pub fn new(profile: &Profile) -> Result<Self, ProfileError> {
        let model = DriveModel::from_profile(profile)?;
        let firmware = profile.firmware.clone().unwrap_or_default();
        let time = |ms: f64| Duration::from_millis_f64(ms).unwrap_or(Duration::ZERO);
        let of = |ms: f64| time(firmware.per_request_overhead_ms + ms);
        let pair = |(read, write): (f64, f64)| [of(read), of(write)];
        let read_overhead = pair(firmware.overheads.read_miss);
        let [overhead, _] = read_overhead;
        let behind = firmware.cache.enabled && firmware.cache.write_back.known().unwrap_or(false);
        let least = (1..=10).map(|d| model.seek(d)).min().unwrap_or(Duration::ZERO);
        let (on, elsewhere) = firmware.overheads.read_hit;
        let hit = time(firmware.per_request_overhead_ms + on.max(elsewhere));
        Ok(Self {
            read_overhead,
            write_overhead: pair(firmware.overheads.write_miss),
            acknowledged: behind.then(|| of(firmware.overheads.write_hit.0)),
            last: Op::Read,
            free: Instant::ZERO,
            shortest: least.saturating_sub(hit.saturating_sub(overhead)),
            bus: time(firmware.bulk_sector_ms.max(firmware.bus_read_sector_ms)),
            model,
            position: Position::default(),
            late: 0,
            slow: 0.0,
            lost: 0,
            seen: Instant::ZERO,
            in_buffer: false,
            expected: None,
        })
    }

    /// Returns the instant at which a read submitted at `at` to an idle drive will complete.
    pub fn read(&mut self, at: Instant, range: LbnRange) -> Instant {
        // The model's platter at time t has the angle of the drive's at t + late.
        self.follow(at);
        let submitted = Instant::from_nanos(at.as_nanos().saturating_add_signed(-self.late));
        let rpm = self.model.rpm();
        let [after_read, after_write] = self.read_overhead;
        let overhead = if self.last.is_write() { after_write } else { after_read };
        let mut now = (submitted + overhead).max(self.free);
        let mut bus = submitted;
        let mut left = range.len().get();
        // The number of sectors that wait in the buffer for sectors before them.
        let mut behind = 0;
        for piece in self.model.layout().pieces(range) {
            let track = self.model.layout().track(piece.track);
            let mut arrival = now + self.model.move_time(self.position, track.into(), Op::Read);
            if bus == submitted {
                arrival = arrival.max(submitted + self.shortest);
            }
            self.position = track.into();
            let wait = rpm.time_within(rpm.earliest_angle(arrival).until(track.sector_angle(piece.sector)));
            let transfer = rpm.time_to_pass(track.arc(piece.sector, piece.len));
            let revolution = rpm.revolution();
            // If the head arrives inside the range, the read ends one revolution after the first sector that passes
            // whole. A read over the end of a track goes in order (docs/MODEL.md).
            let whole = u64::from(piece.len) == range.len().get();
            let among = whole && self.model.zero_latency(Op::Read) && wait + transfer > revolution;
            let sector = revolution.as_nanos() / u64::from(track.sectors.max(1));
            let first_whole = Duration::from_nanos(wait.as_nanos() % sector.max(1));
            now = arrival + if among { first_whole + revolution } else { wait + transfer };
            if among {
                let gone = (revolution + first_whole).saturating_sub(wait).as_nanos() + sector / 2;
                behind = u64::from(piece.len).saturating_sub(gone / sector.max(1));
            }
            // Sectors cross the bus in order, each after it has passed under the head.
            let landed = arrival + wait + rpm.time_to_pass(track.arc(piece.sector, 1));
            bus = bus.max(landed + self.bus * left);
            left = left.saturating_sub(u64::from(piece.len));
        }
        let done = bus.max(now + self.bus * (behind + 1));
        self.last = Op::Read;
        self.expect(submitted, done)
    }

    /// Returns the instant at which a write submitted at `at` to a drive without other commands will be acknowledged:
    /// from the medium, or from the buffer if the profile says so.
    pub fn write(&mut self, at: Instant, range: LbnRange) -> Instant {
        self.follow(at);
        let submitted = Instant::from_nanos(at.as_nanos().saturating_add_signed(-self.late));
        let rpm = self.model.rpm();
        let [after_read, after_write] = self.write_overhead;
        // The arm starts when the command is accepted; the overhead of a buffered write includes the acknowledgement.
        let overhead = match (self.acknowledged, self.last) {
            (Some(overhead), _) => overhead,
            (None, Op::Write) => after_write,
            (None, Op::Read) => after_read,
        };
        let sectors = range.len().get();
        // Earlier writes in the buffer go first.
        let data = (submitted + overhead).max(self.free);
        let mut ready = data + self.bus * sectors.min(BURST_SECTORS);
        let mut now = (submitted + overhead).max(self.free);
        for piece in self.model.layout().pieces(range) {
            let track = self.model.layout().track(piece.track);
            let arrival = now + self.model.move_time(self.position, track.into(), Op::Write);
            self.position = track.into();
            let revolution = rpm.revolution();
            let wait = |from: Instant| {
                rpm.time_within(rpm.earliest_angle(from).until(track.sector_angle(piece.sector)))
            };
            let transfer = rpm.time_to_pass(track.arc(piece.sector, piece.len));
            let sector = Duration::from_nanos(revolution.as_nanos() / u64::from(track.sectors.max(1)));
            let first_whole = Duration::from_nanos(wait(arrival).as_nanos() % sector.as_nanos().max(1));
            let among = self.model.zero_latency(Op::Write) && wait(arrival) + transfer > revolution;
            now = if among && ready <= arrival + first_whole {
                arrival + first_whole + revolution
            } else {
                let from = arrival.max(ready);
                from + wait(from) + transfer
            };
            ready = Instant::ZERO;
        }
        self.last = Op::Write;
        match self.acknowledged {
            Some(_) => {
                self.free = now;
                let done = self.expect(submitted, data + self.bus * sectors);
                self.in_buffer = true;
                done
            }
            None => self.expect(submitted, now),
        }
    }

    /// Records the prediction for a command submitted at `submitted`; returns it by the drive's clock.
    fn expect(&mut self, submitted: Instant, done: Instant) -> Instant {
        self.in_buffer = false;
        let more = (done.saturating_since(submitted).as_nanos() as f64 * self.slow) as i64;
        let done = Instant::from_nanos(done.as_nanos().saturating_add_signed(self.late + more));
        self.expected = Some(done);
        done
    }

    /// Advances the delay of the drive's platter to `at`.
    fn follow(&mut self, at: Instant) {
        let since = at.saturating_since(self.seen).as_nanos() as f64;
        self.late += (since * self.slow) as i64;
        self.seen = self.seen.max(at);
    }

    /// Records that the command failed at `at`: the time of a failure does not show the platter's angle.
    pub fn failed(&mut self, at: Instant) {
        self.expected = None;
        self.follow(at);
    }

    /// Records the actual completion; returns its delay against the prediction, ns: negative if it was early.
    pub fn completed(&mut self, at: Instant) -> i64 {
        let Some(expected) = self.expected.take() else { return 0 };
        let error = at.as_nanos() as i64 - expected.as_nanos() as i64;
        if self.in_buffer {
            self.follow(at);
            return error;
        }
        let revolution = self.model.rpm().revolution().as_nanos() as i64;
        // Whole revolutions are an error of the arm's time; the rest may be an error of the platter's angle.
        let rest = (error + revolution / 2).rem_euclid(revolution) - revolution / 2;
        let since = at.saturating_since(self.seen).as_nanos() as f64;
        self.follow(at);
        if rest.abs() >= revolution / 50 {
            // A single error may be chance; after several, the platter is at another angle.
            self.lost += 1;
            if self.lost > BAD_PREDICTIONS_MAX {
                self.late += rest;
            }
        } else {
            self.lost = 0;
            self.late += (rest / 3).clamp(-CORRECTION_NS_MAX, CORRECTION_NS_MAX);
            self.slow += SPEED_ERROR_SHARE * rest as f64 / f64::max(since, revolution as f64);
            self.slow = self.slow.clamp(-0.01, 0.01);
        }
        error
    }
}
