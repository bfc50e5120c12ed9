//! The Disk Mimic's table of a disk with every distance in it, none interpolated.
//!
//! 18 million sectors make 36 million distances. With 100 samples of each distance, 7 billion requests would have to
//! be simulated, which is too many. But a distance's samples depend only on the distance, the kinds of the two
//! requests and the seed, so each distance is probed on its first use, and the answers are those of the whole table.

use super::disk::Bare;
use mimic::{Distance, Metric};
use model::DriveModel;
use scheduler::{Last, Mimic, Observed, Request};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The size of a probe (ATC'03, section 3.2).
pub(crate) const PROBE_BYTES: u64 = 1 << 10;

/// The summaries of a distance's samples, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summary {
    mean: u32,
    median: u32,
    maximum: u32,
    minimum: u32,
}

/// A distance from the last block of one request to the first of the next, with the kinds of both.
type Key = (i64, Op, Op);

/// The part of a disk's table computed so far, shared by its users.
#[derive(Clone, Debug)]
pub(crate) struct Surveyed {
    probe: Probe,
    samples: u32,
    known: Arc<Mutex<HashMap<Key, Summary>>>,
}

impl Surveyed {
    /// Makes an empty table of this disk, with this number of samples of each distance.
    pub(crate) fn new(model: &Arc<DriveModel>, samples: u32, seed: u64) -> Self {
        Self { probe: Probe::new(model, seed), samples: samples.max(1), known: Arc::default() }
    }

    /// Limits the table to the first `area` sectors.
    #[must_use]
    pub(crate) fn within(mut self, area: Sectors) -> Self {
        self.probe.area = area.min(self.probe.area);
        self
    }

    /// Returns the table by this metric; all tables of one `Surveyed` share the samples.
    pub(crate) fn by(&self, metric: Metric) -> Survey {
        Survey { surveyed: self.clone(), metric }
    }

    fn summary(&self, key: Key) -> Summary {
        if let Some(summary) = lock(&self.known).get(&key) {
            return *summary;
        }
        let summary = Summary::of(&mut self.probe.clone().samples(key, self.samples));
        lock(&self.known).insert(key, summary);
        summary
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot have interrupted an insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A disk's table, for one metric.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    surveyed: Surveyed,
    metric: Metric,
}

impl Mimic for Survey {
    fn time(&self, last: Last, at: Instant, request: &Request) -> Option<Duration> {
        let surveyed = &self.surveyed;
        let key = (Distance::between(last.lbn, request.range.start()).sectors(), last.op, request.op);
        let ns = match self.metric {
            Metric::Mean => surveyed.summary(key).mean,
            Metric::Median => surveyed.summary(key).median,
            Metric::Maximum => surveyed.summary(key).maximum,
            Metric::Minimum => surveyed.summary(key).minimum,
            Metric::Probabilistic => {
                let lot = mixed(mixed(surveyed.probe.seed, at.as_nanos()), request.id.get());
                let index = (u128::from(lot) * u128::from(surveyed.samples)) >> 64;
                surveyed.probe.clone().sample(key, index as u32).2
            }
        };
        Some(Duration::from_nanos(u64::from(ns)))
    }

    fn observe(&mut self, _: &Observed) {}

    fn boxed_clone(&self) -> Box<dyn Mimic> {
        Box::new(self.clone())
    }
}

impl Summary {
    /// Summarises at least one sample, and sorts the samples.
    fn of(samples: &mut [u32]) -> Self {
        samples.sort_unstable();
        let at = |index: usize| samples.get(index).copied().unwrap_or(0);
        let sum: u64 = samples.iter().map(|ns| u64::from(*ns)).sum();
        Self {
            mean: (sum / samples.len().max(1) as u64) as u32,
            median: at((samples.len().max(1) - 1) / 2),
            maximum: at(samples.len().max(1) - 1),
            minimum: at(0),
        }
    }
}

/// A probe of a disk: a request at a random place, then a second one at a given distance, whose time is measured.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    disk: Bare,
    now: Instant,
    seed: u64,
    sectors: u64,
    /// The number of sectors, counted from the first, that probes use.
    area: Sectors,
}

impl Probe {
    /// Makes a probe of this disk.
    pub(crate) fn new(model: &Arc<DriveModel>, seed: u64) -> Self {
        let sectors = (PROBE_BYTES / model.sector_bytes().get()).max(1);
        let area = model.layout().capacity();
        Self { disk: Bare::new(Arc::clone(model)), now: Instant::ZERO, seed, sectors, area }
    }

    /// Returns the first `count` samples of a distance, ns.
    fn samples(&mut self, key: Key, count: u32) -> Vec<u32> {
        (0..count).map(|index| self.sample(key, index).2).collect()
    }

    /// Returns one sample of a distance, independent of earlier probes: the last LBN of the first request, the first
    /// LBN of the second request, and the time of the second request in ns.
    pub(crate) fn sample(&mut self, (distance, last, next): Key, index: u32) -> (Lbn, Lbn, u32) {
        let capacity = self.area.get() as i64;
        let size = self.sectors as i64;
        // Both requests must lie on the disk, so a distance that is too long is cut to the longest possible one.
        let step = (distance + size - 1).clamp(2 * size - capacity, capacity - 2 * size);
        let low = (-step).max(0);
        let room = (capacity - size - step.max(0) - low + 1).max(1) as u64;
        let kinds = u64::from(last.is_write()) << 1 | u64::from(next.is_write());
        let dice = mixed(self.seed, mixed(step as u64, u64::from(index) << 2 | kinds));
        let from = low as u64 + ((u128::from(dice) * u128::from(room)) >> 64) as u64;
        let range = |start: u64| LbnRange::new(Lbn::new(start), Sectors::new(self.sectors));
        let (from, to) = (range(from), range(from.saturating_add_signed(step)));
        let begun = self.disk.go(self.now, last, from);
        let done = self.disk.go(begun, next, to);
        self.now = done;
        (Lbn::new(from.end().get() - 1), to.start(), done.since(begun).as_nanos() as u32)
    }
}

/// Hashes a pair of numbers to a pseudo-random one: a sample's place must not depend on earlier samples, as the next
/// number of a stream does. The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mixed(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b;
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb), (31, 1)] {
        z = (z ^ (z >> shift)).wrapping_mul(factor);
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::random_profile::{Size, random_profile};
    use proptest::prelude::*;

    fn tiny(seed: u64) -> Arc<DriveModel> {
        Arc::new(DriveModel::from_profile(&random_profile(seed, Size::Tiny)).unwrap())
    }

    proptest! {
        #[test]
        fn a_probe_lies_on_the_disk_and_has_its_distance(seed in 0..40u64, near in any::<prop::sample::Index>(), index: u32) {
            let disk = tiny(seed);
            let capacity = disk.layout().capacity().get() as i64;
            let mut probe = Probe::new(&disk, seed);
            let reach = capacity - 2 * probe.sectors as i64;
            let step = near.index(2 * reach as usize + 1) as i64 - reach;
            let distance = step - probe.sectors as i64 + 1;
            let (from, to, _) = probe.sample((distance, Op::Read, Op::Write), index);
            prop_assert_eq!(to.get() as i64 - from.get() as i64, distance);
            prop_assert!(from.get() < capacity as u64 && to.get() as i64 + probe.sectors as i64 <= capacity);
        }

        #[test]
        fn earlier_questions_change_no_answer(seed in 0..40u64, distances in prop::collection::vec(-200..200i64, 1..20)) {
            let table = Surveyed::new(&tiny(seed), 7, seed);
            let keys = distances.iter().map(|d| (*d, Op::Read, Op::Read));
            let together: Vec<Summary> = keys.clone().map(|key| table.summary(key)).collect();
            let alone: Vec<Summary> =
                keys.map(|key| Surveyed::new(&tiny(seed), 7, seed).summary(key)).collect();
            prop_assert_eq!(together, alone);
        }
    }

    #[test]
    fn a_summary_is_of_the_samples() {
        let summary = Summary::of(&mut [9, 1, 2, 4]);
        assert_eq!(summary, Summary { mean: 4, median: 2, maximum: 9, minimum: 1 });
    }
}
