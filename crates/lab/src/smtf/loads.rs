//! The trace: a week at a disk of Hewlett-Packard's, or a synthetic one if that is not present.

use crate::LabError;
use std::num::NonZeroU64;
use std::path::Path;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};
use workload::random::Stream;
use workload::trace::{self, TraceRecord};
use workload::{Arrival, Compressed, Fit, Issuer, Replay};

/// The trace's file.
const HP_FILE: &str = "ajw.1week.srt";

/// The directory of the trace, beside the checkout.
const HP_PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/drives/traces");

/// The parameters of the synthetic trace; [`Week::stand_in`] gives the reasons.
const BURST_REQUESTS: u64 = 15;
const REQUEST_GAP: Duration = Duration::from_millis(23);
const BLOCK_SECTORS: u64 = 16;
const BLOCKS: u64 = 18_000;
const FOOTPRINT_SECTORS: u64 = 1_300_000_000 / 512;
const DAY: Duration = Duration::from_secs(86_400);

fn at_least_one(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap_or(NonZeroU64::MIN)
}

/// Requests over days, to be replayed in less time.
#[derive(Clone, Debug)]
pub(crate) struct Week {
    /// The requests by arrival.
    pub(crate) records: Vec<TraceRecord>,
    /// A description, for a note.
    pub(crate) what: String,
    /// The mean number of requests a day.
    per_day: f64,
}

/// Requests a day of the paper's trace (section 6.2).
pub(crate) const REQUESTS_PER_DAY: u64 = 150_000;

/// The paper's speed-up of its trace: "a compression factor of 20" (section 5.1).
pub(crate) const COMPRESSION_FACTOR: f64 = 20.0;

impl Week {
    /// Returns the requests to the busiest disk of the HP trace, or the synthetic trace if the file is not found.
    ///
    /// # Errors
    /// The trace exists, but cannot be read.
    pub(crate) fn hp_or_stand_in(capacity: Sectors, seed: u64) -> Result<Self, LabError> {
        match Self::hp()? {
            Some(week) => Ok(week),
            None => {
                let mut week = Self::stand_in(capacity, 7, REQUESTS_PER_DAY, seed);
                week.what = format!("{}, since {HP_FILE} was not found beside the checkout", week.what);
                Ok(week)
            }
        }
    }

    /// Returns the requests to the busiest disk of the HP trace; `None` if the file is not found.
    ///
    /// # Errors
    /// The trace exists, but cannot be read.
    pub(crate) fn hp() -> Result<Option<Self>, LabError> {
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

    /// Returns a synthetic week of bursts, in place of the paper's trace of 150,000 requests a day, which is not
    /// available.
    ///
    /// Modelled on the HP trace as far as possible: bursts of 15 requests on average (the trace: 14.5), 23 ms apart
    /// (its median), with silences that fill the day; 23% reads; each block always has requests of one size, and only
    /// reads or only writes (which holds for 99% and 94% of the trace's requests): 68% of 8 KB, 3% of 4 KB, 16% of 2
    /// KB and 13% of 1 KB; blocks are popular by Zipf's law with exponent 1 (in the trace 8.2% of all requests go to
    /// the first block, 1.3% to the tenth, 0.11% to the hundredth, 0.012% to the thousandth). There are 18,000
    /// blocks: the trace's 4,447 in 40,293 requests, extrapolated to 750,000 requests at the rate of its second half.
    /// Their places are an assumption: anywhere in the first 1.3 GB, because C-LOOK is then behind SMTF in figure 8
    /// by the difference that section 5.4 reports for the paper's trace.
    pub(crate) fn stand_in(capacity: Sectors, days: u32, per_day: u64, seed: u64) -> Self {
        let mut stream = Stream::new(seed, "lab.week");
        let mut below = |n| stream.below(at_least_one(n));
        let places = capacity.get().min(FOOTPRINT_SECTORS) / BLOCK_SECTORS;
        let blocks: Vec<(LbnRange, bool)> = (0..BLOCKS)
            .map(|_| {
                let sectors = match below(100) {
                    0..68 => BLOCK_SECTORS,
                    68..71 => 8,
                    71..87 => 4,
                    _ => 2,
                };
                let range = LbnRange::new(Lbn::new(below(places) * BLOCK_SECTORS), Sectors::new(sectors));
                (range, below(100) < 23)
            })
            .collect();
        let popularity: Vec<f64> = (1..=BLOCKS)
            .scan(0.0, |sum, rank| {
                *sum += 1.0 / rank as f64;
                Some(*sum)
            })
            .collect();
        let all = popularity.last().copied().unwrap_or(0.0);
        let per_burst = DAY.as_nanos() * BURST_REQUESTS / per_day.max(1);
        let silence = Duration::from_nanos(per_burst.saturating_sub(REQUEST_GAP.as_nanos() * BURST_REQUESTS));
        let mut now = Instant::ZERO;
        let mut records = Vec::new();
        for _ in 0..u64::from(days) * per_day {
            now += stream.exponential_time(REQUEST_GAP);
            if stream.below(at_least_one(BURST_REQUESTS)) == 0 {
                now += stream.exponential_time(silence);
            }
            let drawn = stream.unit() * all;
            let rank = popularity.partition_point(|sum| *sum < drawn).min(blocks.len().saturating_sub(1));
            let Some((range, reads)) = blocks.get(rank).copied() else { break };
            let op = if reads { Op::Read } else { Op::Write };
            records.push(TraceRecord { arrival: Some(now), ..TraceRecord::new(op, range) });
        }
        let what = format!("a seeded stand-in of {} requests, {per_day} a day", records.len());
        Self { records, what, per_day: per_day as f64 }
    }

    /// Keeps only the first `requests`.
    #[must_use]
    pub(crate) fn first(mut self, requests: usize) -> Self {
        if requests < self.records.len() {
            self.records.truncate(requests);
            self.what = format!("the first {requests} of {}", self.what);
        }
        self
    }

    /// Returns the longest distance between two requests of the trace.
    pub(crate) fn reach(&self) -> Sectors {
        let starts = self.records.iter().map(|r| r.range.start());
        let ends = self.records.iter().map(|r| r.range.end());
        match (starts.min(), ends.max()) {
            (Some(first), Some(last)) => last.since(first),
            _ => Sectors::ZERO,
        }
    }

    /// Returns the end of the part of the disk that the trace uses.
    pub(crate) fn end(&self) -> Sectors {
        let ends = self.records.iter().map(|r| r.range.end());
        ends.max().map_or(Sectors::ZERO, |end| end.since(Lbn::ZERO))
    }

    /// Returns the speed-up at which this trace has the request rate of the paper's trace at the speed-up
    /// `compression`. The claims use the paper's own factor, [`COMPRESSION_FACTOR`]; notes add the results at this
    /// speed-up.
    pub(crate) fn factor(&self, compression: f64) -> f64 {
        compression * REQUESTS_PER_DAY as f64 / self.per_day
    }

    /// Returns the trace at `factor` times its speed, on a disk of this capacity.
    ///
    /// # Errors
    /// The factor is invalid, or a request is larger than the disk.
    pub(crate) fn compressed(
        &self,
        capacity: Sectors,
        factor: f64,
    ) -> Result<Issuer<Compressed<Replay>>, LabError> {
        let failed = |e| LabError::new(format!("{} at {factor} times its speed", self.what), e);
        let replay = Replay::new(self.records.clone(), capacity, Fit::Wrap).map_err(failed)?;
        let load = Compressed::new(replay, factor).map_err(failed)?;
        Issuer::new(load, Arrival::Scripted, Instant::ZERO, 0).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_stand_in_resembles_the_real_trace() {
        let week = Week::stand_in(Sectors::new(1 << 24), 1, 40_000, 1);
        assert_eq!(week.records.len(), 40_000);
        assert!(week.end().get() <= FOOTPRINT_SECTORS);
        let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
        for record in &week.records {
            *blocks.entry(record.range.start().get()).or_default() += 1;
        }
        let mut counts: Vec<u64> = blocks.into_values().collect();
        counts.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        let share = |rank: usize| counts[rank - 1] as f64 / 40_000.0;
        // By Zipf's law over 18,000 blocks, 1 / 10.37 of the requests go to the first block and a tenth of that to
        // the tenth. The tolerance is six standard errors.
        assert!((share(1) - 0.096_4).abs() < 0.009, "{}", share(1));
        assert!((share(10) - 0.009_6).abs() < 0.003, "{}", share(10));
        let days = week.records.last().unwrap().arrival.unwrap().as_secs_f64() / DAY.as_secs_f64();
        assert!((days - 1.0).abs() < 0.1, "{days}");
    }

    #[test]
    fn as_many_requests_a_day_as_the_papers_trace() {
        let week = Week::stand_in(Sectors::new(1 << 24), 1, 50_000, 1);
        assert!((week.factor(20.0) - 60.0).abs() < 1e-9);
        assert_eq!(week.clone().first(10).records.len(), 10);
        assert!((week.first(10).factor(20.0) - 60.0).abs() < 1e-9);
    }
}
