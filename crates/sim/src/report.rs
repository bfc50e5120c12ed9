//! The results of a run.

use units::{Bytes, Duration, Instant};

/// The progress of a scan, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanProgress {
    /// The blocks that were delivered.
    pub delivered: u64,
    /// The blocks of the scan.
    pub blocks: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The foreground's results.
    pub foreground: ForegroundReport,
    /// The parts of the head's time, as fractions of the run that add up to 1.
    pub head_time: HeadTime,
    /// The background's results.
    pub background: BackgroundReport,
    /// The duration of the run in virtual time.
    pub simulated: Duration,
}

/// The foreground's results. Response times are from arrival to completion; percentiles are exact to three digits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForegroundReport {
    /// Requests completed.
    pub requests: u64,
    /// Mean response time.
    pub mean_response_ms: f64,
    /// Mean time at the head: from the end of the preceding request (or the arrival at an idle drive) to completion.
    pub mean_access_ms: f64,
    /// Median of the response times.
    pub p50_ms: f64,
    /// 90th percentile of the response times.
    pub p90_ms: f64,
    /// 95th percentile of the response times.
    pub p95_ms: f64,
    /// 99th percentile of the response times.
    pub p99_response_ms: f64,
    /// 99.9th percentile of the response times.
    pub p999_ms: f64,
    /// The longest response time.
    pub max_ms: f64,
    /// Standard deviation of the response times.
    pub sd_ms: f64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second, in millions.
    pub mb_per_s: f64,
    /// Mean number of requests that wait or are in service, weighted by time.
    pub queue_length: f64,
    /// The largest number of requests that waited or were in service at one instant.
    pub queue_length_max: u64,
    /// The share of the time in which at least one request waited or was in service.
    pub utilisation: f64,
    /// The reads alone.
    pub reads: ResponseReport,
    /// The writes alone.
    pub writes: ResponseReport,
}

/// The results of the reads or of the writes; zeros without any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResponseReport {
    /// Requests completed.
    pub requests: u64,
    /// Mean response time.
    pub mean_ms: f64,
    /// Standard deviation of the response times.
    pub sd_ms: f64,
    /// Median of the response times.
    pub p50_ms: f64,
    /// 90th percentile of the response times.
    pub p90_ms: f64,
    /// 95th percentile of the response times.
    pub p95_ms: f64,
    /// 99th percentile of the response times.
    pub p99_ms: f64,
    /// 99.9th percentile of the response times.
    pub p999_ms: f64,
    /// The longest response time.
    pub max_ms: f64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second, in millions.
    pub mb_per_s: f64,
}

/// The parts of the head's time. `rotation` is the unused latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadTime {
    /// Moves for the foreground.
    pub seek: f64,
    /// Waits for sectors: the unused rotational latency.
    pub rotation: f64,
    /// Foreground sectors under the head.
    pub transfer: f64,
    /// Wanted background sectors under the head, in gaps and in idle time.
    pub free_transfer: f64,
    /// Additional moves for the background.
    pub extra_seek: f64,
    /// No work, or waits without a foreground request.
    pub idle: f64,
}

/// The results of the background on several drives together: blocks and bytes a second are sums; scans a day and
/// shares are means.
impl FromIterator<BackgroundReport> for BackgroundReport {
    fn from_iter<T: IntoIterator<Item = Self>>(drives: T) -> Self {
        let mut sum = Self { done: true, ..Self::default() };
        let mut count = 0.0;
        for drive in drives {
            count += 1.0;
            sum.blocks += drive.blocks;
            sum.mb_per_s += drive.mb_per_s;
            sum.scans_per_day += drive.scans_per_day;
            sum.potential_used += drive.potential_used;
            sum.done &= drive.done;
        }
        let of = f64::max(count, 1.0);
        let (scans_per_day, potential_used) = (sum.scans_per_day / of, sum.potential_used / of);
        Self { scans_per_day, potential_used, done: sum.done && count > 0.0, ..sum }
    }
}

/// The mean over several drives.
impl FromIterator<HeadTime> for HeadTime {
    fn from_iter<T: IntoIterator<Item = Self>>(drives: T) -> Self {
        let drives: Vec<Self> = drives.into_iter().collect();
        let mean = |of: fn(&Self) -> f64| drives.iter().map(of).sum::<f64>() / drives.len().max(1) as f64;
        Self {
            seek: mean(|time| time.seek),
            rotation: mean(|time| time.rotation),
            transfer: mean(|time| time.transfer),
            free_transfer: mean(|time| time.free_transfer),
            extra_seek: mean(|time| time.extra_seek),
            idle: mean(|time| time.idle),
        }
    }
}

/// The background's results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackgroundReport {
    /// Blocks delivered.
    pub blocks: u64,
    /// Bytes delivered a second, in millions.
    pub mb_per_s: f64,
    /// The rate in whole scans a day.
    pub scans_per_day: f64,
    /// The share of the foreground's rotational latency that was used for wanted sectors.
    pub potential_used: f64,
    /// The share of the scan's time for the last twentieth of its blocks, if the scan has ended.
    pub last5_time_share: Option<f64>,
    /// Whether every block has been delivered.
    pub done: bool,
}

/// The parts of the head's time, in nanoseconds: [`HeadTime`] before the division by the run's duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadNanos {
    /// Moves for the foreground.
    pub seek: Duration,
    /// Waits for sectors: the unused latency.
    pub rotation: Duration,
    /// Foreground sectors under the head.
    pub transfer: Duration,
    /// Wanted background sectors under the head, in gaps.
    pub free_transfer: Duration,
    /// Additional moves for the background.
    pub extra_seek: Duration,
    /// Wanted background sectors under the head, in idle time.
    pub idle_transfer: Duration,
    /// Moves of the background in idle time.
    pub idle_seek: Duration,
}

impl HeadNanos {
    /// Returns the foreground's rotational latency, used or not: the potential free bandwidth, as time.
    pub fn potential(&self) -> Duration {
        self.rotation + self.free_transfer + self.extra_seek
    }

    /// Returns the increase since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            seek: self.seek.saturating_sub(before.seek),
            rotation: self.rotation.saturating_sub(before.rotation),
            transfer: self.transfer.saturating_sub(before.transfer),
            free_transfer: self.free_transfer.saturating_sub(before.free_transfer),
            extra_seek: self.extra_seek.saturating_sub(before.extra_seek),
            idle_transfer: self.idle_transfer.saturating_sub(before.idle_transfer),
            idle_seek: self.idle_seek.saturating_sub(before.idle_seek),
        }
    }

    /// Returns the fractions of a run of this length.
    pub fn shares(&self, run: Duration) -> HeadTime {
        let free_transfer = self.free_transfer + self.idle_transfer;
        let extra_seek = self.extra_seek + self.idle_seek;
        let busy = [self.seek, self.rotation, self.transfer, free_transfer, extra_seek];
        let busy: Duration = busy.into_iter().sum();
        // With the core outside the drive, the times that the drive reports for two commands may overlap.
        let total = run.max(busy).as_nanos().max(1) as f64;
        let share = |d: Duration| d.as_nanos() as f64 / total;
        HeadTime {
            seek: share(self.seek),
            rotation: share(self.rotation),
            transfer: share(self.transfer),
            free_transfer: share(free_transfer),
            extra_seek: share(extra_seek),
            idle: share(run.saturating_sub(busy)),
        }
    }

    /// Returns the share of the foreground's rotational latency that was used for wanted sectors.
    pub fn potential_used(&self) -> f64 {
        self.free_transfer.as_nanos() as f64 / self.potential().as_nanos().max(1) as f64
    }
}

/// A scan under way, or at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningScan {
    pub blocks: u64,
    pub delivered: u64,
    pub bytes: u64,
    pub started: Instant,
    /// The beginning of the measured stretch, with the blocks and the bytes delivered before it.
    from: Instant,
    blocks_before: u64,
    bytes_before: u64,
    /// The instant at which 95% of the blocks had been delivered.
    pub nearly: Option<Instant>,
    pub finished: Option<Instant>,
    /// The share of the foreground's latency that was used for wanted sectors up to the end of the scan.
    pub potential_used: f64,
}

impl RunningScan {
    pub fn new(blocks: u64, started: Instant) -> Self {
        Self {
            blocks,
            delivered: 0,
            bytes: 0,
            started,
            from: started,
            blocks_before: 0,
            bytes_before: 0,
            nearly: None,
            finished: None,
            potential_used: 0.0,
        }
    }

    pub fn progress(&self) -> ScanProgress {
        ScanProgress { delivered: self.delivered, blocks: self.blocks }
    }

    /// Begins a new measured stretch at this instant; the scan continues.
    pub fn restart(&mut self, now: Instant) {
        (self.from, self.blocks_before, self.bytes_before) = (now, self.delivered, self.bytes);
    }

    pub fn delivered(&mut self, bytes: Bytes, now: Instant, potential_used: f64) {
        self.delivered += 1;
        self.bytes += bytes.get();
        if self.nearly.is_none() && u128::from(self.delivered) * 20 >= u128::from(self.blocks) * 19 {
            self.nearly = Some(now);
        }
        if self.delivered == self.blocks {
            self.finished = Some(now);
            self.potential_used = potential_used;
        }
    }

    pub fn report(&self, now: Instant, potential_used: f64) -> BackgroundReport {
        let seconds = |from: Instant, to: Instant| to.saturating_since(from).as_secs_f64().max(1e-9);
        let measured = seconds(self.from, self.finished.unwrap_or(now));
        let (delivered, bytes) = (self.delivered - self.blocks_before, self.bytes - self.bytes_before);
        let last5 = self.finished.zip(self.nearly);
        BackgroundReport {
            blocks: delivered,
            mb_per_s: bytes as f64 / 1e6 / measured,
            scans_per_day: 86_400.0 / measured * delivered as f64 / self.blocks.max(1) as f64,
            potential_used: if self.finished.is_some() { self.potential_used } else { potential_used },
            last5_time_share: last5
                .map(|(end, nearly)| end.since(nearly).as_secs_f64() / seconds(self.started, end)),
            done: self.finished.is_some(),
        }
    }
}
