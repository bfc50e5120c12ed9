//! Chooses the next segment to clean: Sprite LFS's cost-benefit rule.

use super::ids::SegmentIndex;
use super::log::Log;
use super::segment::{SegmentInfo, State};
use units::Instant;

/// The parts into which a slot is divided, so that tombstones can be weighed against data.
const SLOT_PARTS: u64 = 256;

/// A candidate. Its worth is the space that cleaning gains times the age of its data, divided by the cost. Rosenblum
/// and Ousterhout, section 3.5: `(1 - u) * age / (1 + u)`. Kept as integers, so that the order is exact.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    segment: SegmentIndex,
    /// The amount that has to be moved, in parts of slots: the data or the room that tombstones take, whichever is
    /// more.
    used: u64,
    whole: u64,
    /// The age in ns, plus one, so that the emptiest of several new segments is the best.
    age: u64,
}

impl Candidate {
    fn new(log: &Log, info: SegmentInfo, now: Instant) -> Self {
        let geometry = log.geometry();
        let slots = u64::from(geometry.slots());
        let tombstones = (u64::from(info.tombstones) * slots * SLOT_PARTS)
            .div_ceil(u64::from(geometry.tombstones()).max(1));
        Self {
            segment: info.segment,
            used: (u64::from(info.live) * SLOT_PARTS).max(tombstones),
            whole: slots * SLOT_PARTS,
            age: now.saturating_since(info.modified).as_nanos().saturating_add(1),
        }
    }

    fn gains(&self) -> bool {
        self.used < self.whole
    }

    /// Returns whether this candidate is the better one: by more worth, then by less to move, then by the lower
    /// index.
    fn beats(&self, other: &Self) -> bool {
        // A summary fits into its block and a segment into a gigabyte, so there are fewer than 2^13 slots: the
        // products stay below 2^107.
        let worth = |a: &Self, b: &Self| {
            u128::from(a.whole - a.used) * u128::from(a.age) * u128::from(b.whole + b.used)
        };
        let (mine, others) = (worth(self, other), worth(other, self));
        (mine, other.used, other.segment) > (others, self.used, self.segment)
    }
}

/// Returns the best written segment to clean, without the `barred` ones; `None` if no cleaning would gain anything.
pub(super) fn choose(log: &Log, now: Instant, barred: impl Fn(SegmentIndex) -> bool) -> Option<SegmentIndex> {
    let candidates = log
        .geometry()
        .segments()
        .filter_map(|segment| log.segment(segment))
        .filter(|info| info.state == State::Written && !barred(info.segment))
        .map(|info| Candidate::new(log, info, now))
        .filter(Candidate::gains);
    candidates.reduce(|best, next| if next.beats(&best) { next } else { best }).map(|best| best.segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(segment: u32, used: u64, age: u64) -> Candidate {
        Candidate { segment: SegmentIndex::new(segment), used, whole: 1_000, age }
    }

    #[test]
    fn an_old_full_segment_beats_a_young_emptier_one() {
        // (1 - 0.8) * 1000 / 1.8 = 111 against (1 - 0.3) * 100 / 1.3 = 54.
        let (cold, hot) = (candidate(1, 800, 1_000), candidate(0, 300, 100));
        assert!(cold.beats(&hot));
        assert!(!hot.beats(&cold));
    }

    #[test]
    fn ties_go_to_less_work_then_to_the_lower_place() {
        // (1 - 0) * 1 / 1 = (1 - 0.5) * 3 / 1.5.
        let (empty, half) = (candidate(9, 0, 1), candidate(1, 500, 3));
        assert!(empty.beats(&half) && !half.beats(&empty));
        let (first, second) = (candidate(3, 10, 5), candidate(4, 10, 5));
        assert!(first.beats(&second) && !second.beats(&first));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let whole = (1 << 13) * SLOT_PARTS;
        let a = Candidate { segment: SegmentIndex::new(0), used: 0, whole, age: u64::MAX };
        let b = Candidate { segment: SegmentIndex::new(1), used: whole - 1, whole, age: u64::MAX };
        assert!(a.beats(&b) && !b.beats(&a));
    }
}
