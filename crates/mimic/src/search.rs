//! Sorted distances that are found in few cache lines.

/// As many of a level stand for one of the next: two cache lines of eight.
const FAN_OUT: usize = 16;

/// No distance is further, so that a bit fits beside it; no drive has half as many sectors.
pub(crate) const FURTHEST: i64 = (1 << 62) - 1;

/// Sorted distances, each with a bit, under a tree of every sixteenth: at four million of them a search touches six
/// groups of sixteen, of which all but the last two stay in a processor's nearer caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Keys {
    /// `distance << 1 | bit`.
    keys: Vec<i64>,
    /// Every sixteenth key, of those every sixteenth, and so on, up to one group.
    levels: Vec<Vec<i64>>,
}

impl Keys {
    /// Of distances in ascending order, none beyond [`FURTHEST`].
    pub fn new(keys: Vec<(i64, bool)>) -> Self {
        debug_assert!(keys.windows(2).all(|w| w[0].0 < w[1].0), "distances ascend");
        let keys: Vec<i64> = keys.into_iter().map(|(d, bit)| d << 1 | i64::from(bit)).collect();
        let mut levels: Vec<Vec<i64>> = Vec::new();
        let mut below = &keys;
        while below.len() > FAN_OUT {
            let level = below.iter().step_by(FAN_OUT).copied().collect();
            levels.push(level);
            below = &levels[levels.len() - 1];
        }
        levels.reverse();
        Self { keys, levels }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub fn get(&self, i: usize) -> (i64, bool) {
        (self.keys[i] >> 1, self.keys[i] & 1 == 1)
    }

    /// How many distances are not above `distance`: the index of the first that is.
    #[inline]
    pub fn after(&self, distance: i64) -> usize {
        // The greatest key of this distance.
        let key = distance.clamp(-FURTHEST, FURTHEST) << 1 | 1;
        let mut group = 0;
        for level in &self.levels {
            let after = group * FAN_OUT + not_above(level, group, key);
            // Below the first of all: it is in none of the groups.
            if after == 0 {
                return 0;
            }
            group = after - 1;
        }
        group * FAN_OUT + not_above(&self.keys, group, key)
    }

    pub fn memory(&self) -> usize {
        (self.keys.capacity() + self.levels.iter().map(Vec::capacity).sum::<usize>()) * size_of::<i64>()
    }
}

/// How many keys of one group are not above `key`.
#[inline]
fn not_above(keys: &[i64], group: usize, key: i64) -> usize {
    let begin = group * FAN_OUT;
    match keys.get(begin..begin + FAN_OUT) {
        // Counting all sixteen takes no branch that could be foretold wrongly.
        Some(full) => full.iter().map(|k| usize::from(*k <= key)).sum(),
        None => keys.get(begin..).map_or(0, |rest| rest.iter().map(|k| usize::from(*k <= key)).sum()),
    }
}
