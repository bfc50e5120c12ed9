//! The trace: a week at a disk of Hewlett-Packard's, or a made-up one where that is not at hand.

use crate::LabError;
use std::num::NonZeroU64;
use std::path::Path;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};
use workload::random::{Share, Stream};
use workload::trace::{self, TraceRecord};
use workload::{Compressed, Fit, Replay};

/// The trace's file.
const HP_FILE: &str = "ajw.1week.srt";

/// Where it is looked for: beside the checkout.
const HP_PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/drives/traces");

/// The stand-in's numbers; [`Week::stand_in`] says why.
const BURST: u64 = 32;
const GAP: Duration = Duration::from_millis(20);
const BLOCK: u64 = 16;
const FOOTPRINT: u64 = 1_300_000_000 / 512;
const HOT: u64 = 256;
const DAY: Duration = Duration::from_secs(86_400);

fn at_least_one(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap_or(NonZeroU64::MIN)
}

/// Requests over days, to be replayed in less time.
#[derive(Clone, Debug)]
pub(crate) struct Week {
    /// By arrival.
    pub(crate) records: Vec<TraceRecord>,
    /// What it is, for a note.
    pub(crate) what: String,
    /// Requests a day.
    per_day: f64,
}

/// Requests a day of the paper's trace (section 6.2).
pub(crate) const PER_DAY: u64 = 150_000;

impl Week {
    /// The busiest disk of the HP week at hand, or the stand-in where that is not found.
    ///
    /// # Errors
    /// The trace is there, and cannot be read.
    pub(crate) fn hp_or_stand_in(capacity: Sectors, seed: u64) -> Result<Self, LabError> {
        match Self::hp()? {
            Some(week) => Ok(week),
            None => {
                let mut week = Self::stand_in(capacity, 7, PER_DAY, seed)?;
                week.what = format!("{}, since {HP_FILE} was not found beside the checkout", week.what);
                Ok(week)
            }
        }
    }

    fn hp() -> Result<Option<Self>, LabError> {
        let Ok(bytes) = std::fs::read(Path::new(HP_PLACE).join(HP_FILE)) else { return Ok(None) };
        let mut trace = trace::read(&bytes).map_err(|e| LabError::new(format!("trace {HP_FILE}"), e))?;
        if let Some(device) = trace.busiest_device() {
            trace.retain_device(device);
        }
        let what = format!(
            "the busiest disk of host hplajw in the HP traces, week of 30 May 1992, {} requests",
            trace.records.len()
        );
        Ok(Some(Self { per_day: trace.records.len() as f64 / 7.0, records: trace.records, what }))
    }

    /// A made-up week of bursts, for the paper's trace of 150,000 requests a day, which nobody here has.
    ///
    /// Assumed, since the paper does not describe its trace: bursts of 32 requests on average, 20 ms apart, with silences
    /// that make up the day; 45% reads; an eighth each of 1, 2 and 4 KB, the rest 8 KB; all within the first 1.3 GB (where
    /// figure 8 has C-LOOK as far behind SMTF as section 5.4 has it on the paper's trace), at multiples of 8 KB; 30% to
    /// 256 hot blocks, 20% right behind the last request.
    ///
    /// # Errors
    /// No requests.
    pub(crate) fn stand_in(capacity: Sectors, days: u32, per_day: u64, seed: u64) -> Result<Self, LabError> {
        let reads = Share::new(45, 100).map_err(|e| LabError::new("the stand-in for the trace", e))?;
        let mut stream = Stream::new(seed, "lab.week");
        let end = capacity.get().min(FOOTPRINT);
        let blocks = at_least_one(end / BLOCK);
        let hot: Vec<u64> = (0..HOT).map(|_| stream.below(blocks) * BLOCK).collect();
        let per_burst = DAY.as_nanos() * BURST / per_day.max(1);
        let silence = Duration::from_nanos(per_burst.saturating_sub(GAP.as_nanos() * BURST));
        let (mut now, mut behind) = (Instant::ZERO, 0);
        let mut records = Vec::new();
        for _ in 0..u64::from(days) * per_day {
            now += stream.exponential_time(GAP);
            if stream.below(at_least_one(BURST)) == 0 {
                now += stream.exponential_time(silence);
            }
            let sectors = [2, 4, 8].get(stream.below(at_least_one(8)) as usize).copied().unwrap_or(BLOCK);
            let start = match stream.below(at_least_one(100)) {
                0..30 => hot.get(stream.below(at_least_one(HOT)) as usize).copied().unwrap_or(0),
                30..50 if behind + BLOCK <= end => behind,
                _ => stream.below(blocks) * BLOCK,
            };
            behind = start + sectors;
            let op = if stream.chance(reads) { Op::Read } else { Op::Write };
            let range = LbnRange::new(Lbn::new(start), Sectors::new(sectors));
            records.push(TraceRecord { arrival: Some(now), ..TraceRecord::new(op, range) });
        }
        let what = format!("a seeded stand-in of {} requests, {per_day} a day", records.len());
        Ok(Self { records, what, per_day: per_day as f64 })
    }

    /// Only the first so many requests.
    #[must_use]
    pub(crate) fn first(mut self, requests: usize) -> Self {
        if requests < self.records.len() {
            self.records.truncate(requests);
            self.what = format!("the first {requests} of {}", self.what);
        }
        self
    }

    /// How many times faster it has to be for as many requests a day as the paper's trace has at `compression`.
    pub(crate) fn factor(&self, compression: f64) -> f64 {
        compression * PER_DAY as f64 / self.per_day
    }

    /// At so many times its speed, on a disk of this capacity.
    ///
    /// # Errors
    /// A factor that is none; a request larger than the disk.
    pub(crate) fn compressed(&self, capacity: Sectors, factor: f64) -> Result<Compressed, LabError> {
        let failed = |e| LabError::new(format!("{} at {factor} times its speed", self.what), e);
        let replay = Replay::new(self.records.clone(), capacity, Fit::Wrap).map_err(failed)?;
        Compressed::new(replay, factor).map_err(failed)
    }
}
