//! Walks: how far searches for idle work have come over the drive, from its edges inward or from a middle cylinder outward.
//!
//! A walk has two fronts, which move from its start over the cylinders. Cylinders behind a front, which have no wanted blocks or
//! whose blocks were refused, are not examined again before all others. If a block is registered on such a cylinder, the front
//! moves back to it, as long as nothing was refused. After a refusal the walk continues to its end first, so that a client that
//! always refuses its buffers on one cylinder does not block the others.

use crate::bounds::CylinderRange;

/// A walk: its start, and its two fronts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    way: WalkStart,
    /// The fronts. In a walk from the edges the cylinders `low..high` are still to be examined; in a walk from a middle all
    /// others are.
    low: u32,
    high: u32,
    cylinders: u32,
    refused: bool,
}

/// The two walks of a session, or of all sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walks {
    pub edges: Walk,
    pub around: Walk,
}

impl Walks {
    pub fn new(cylinders: u32) -> Self {
        Self {
            edges: Walk::new(WalkStart::Edges, cylinders),
            around: Walk::new(WalkStart::Around(0), cylinders),
        }
    }

    /// Restarts both walks.
    pub fn begin(&mut self) {
        self.edges.begin();
        self.around.begin();
    }

    /// Records new wanted blocks for both walks.
    pub fn wanted_anew(&mut self, cylinders: Option<CylinderRange>) {
        self.edges.wanted_anew(cylinders);
        self.around.wanted_anew(cylinders);
    }
}

/// The start of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkStart {
    /// At the outermost and the innermost cylinder.
    Edges,
    /// At the given cylinder.
    Around(u32),
}

/// The two fronts of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Low,
    High,
}

/// The cylinders ahead of a front, in the order in which the front reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub from: u32,
    /// The last cylinder of the stretch; smaller than `from` on a descending walk.
    pub last: u32,
    pub down: bool,
}

/// The result of a search along a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// A cylinder with wanted blocks.
    Found(u32),
    /// No cylinder with wanted blocks.
    Nothing,
    /// The budget is spent; the search continues at the given cylinder.
    Spent(u32),
}

impl Walk {
    pub fn new(way: WalkStart, cylinders: u32) -> Self {
        let (low, high) = match way {
            WalkStart::Edges => (0, cylinders),
            WalkStart::Around(middle) => {
                (middle.saturating_add(1).min(cylinders), middle.saturating_add(1).min(cylinders))
            }
        };
        Self { way, low, high, cylinders, refused: false }
    }

    /// Restarts the walk.
    pub fn begin(&mut self) {
        *self = Self::new(self.way, self.cylinders);
    }

    /// Moves the middle. The walk restarts unless the new middle lies among the examined cylinders, or a block was refused.
    pub fn recentre(&mut self, middle: u32) {
        let at = middle.saturating_add(1);
        if self.refused || (self.low..=self.high).contains(&at) {
            self.way = WalkStart::Around(middle);
        } else {
            *self = Self::new(WalkStart::Around(middle), self.cylinders);
        }
    }

    /// Records new wanted blocks on `cylinders`; with `None` on any cylinders.
    pub fn wanted_anew(&mut self, cylinders: Option<CylinderRange>) {
        match (self.way, cylinders) {
            _ if self.refused => {}
            (_, None) => self.begin(),
            (WalkStart::Edges, Some(CylinderRange { first, last })) => {
                self.low = self.low.min(first);
                self.high = self.high.max(last + 1);
            }
            (WalkStart::Around(middle), Some(CylinderRange { first, last })) => {
                if first <= middle {
                    self.low = self.low.max(last.min(middle) + 1);
                }
                if last > middle {
                    self.high = self.high.min(first.max(middle + 1));
                }
            }
        }
    }

    /// Returns the rest of the walk ahead of a front, `None` at its end.
    pub fn ahead(&self, front: Front) -> Option<Stretch> {
        let up = |from: u32, end: u32| (from < end).then(|| Stretch { from, last: end - 1, down: false });
        let down =
            |from: u32, end: u32| (from < end).then(|| Stretch { from: end - 1, last: from, down: true });
        match (self.way, front) {
            (WalkStart::Edges, Front::Low) => up(self.low, self.high),
            (WalkStart::Edges, Front::High) => down(self.low, self.high),
            (WalkStart::Around(_), Front::Low) => down(0, self.low),
            (WalkStart::Around(_), Front::High) => up(self.high, self.cylinders),
        }
    }

    /// Advances a front to the result of a search.
    pub fn reached(&mut self, front: Front, sought: Sought) {
        use Sought::{Found, Nothing, Spent};
        match (self.way, front, sought) {
            (WalkStart::Edges, Front::Low, Found(c) | Spent(c)) => self.low = c,
            (WalkStart::Edges, Front::Low, Nothing) => self.low = self.high,
            (WalkStart::Edges, Front::High, Found(c) | Spent(c)) => self.high = c + 1,
            (WalkStart::Edges, Front::High, Nothing) => self.high = self.low,
            (WalkStart::Around(_), Front::Low, Found(c) | Spent(c)) => self.low = c + 1,
            (WalkStart::Around(_), Front::Low, Nothing) => self.low = 0,
            (WalkStart::Around(_), Front::High, Found(c) | Spent(c)) => self.high = c,
            (WalkStart::Around(_), Front::High, Nothing) => self.high = self.cylinders,
        }
    }

    /// Skips the cylinder at a front, whose blocks were refused.
    pub fn pass_over(&mut self, front: Front) {
        self.refused = true;
        match (self.way, front) {
            (WalkStart::Edges, Front::Low) | (WalkStart::Around(_), Front::High) => {
                let place = if self.way == WalkStart::Edges { &mut self.low } else { &mut self.high };
                *place += 1;
            }
            _ => {
                let place = if self.way == WalkStart::Edges { &mut self.high } else { &mut self.low };
                *place = place.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each cylinder is visited exactly once.
        #[test]
        fn each_cylinder_is_met_once(
            cylinders in 1..40u32,
            middle in prop::option::of(0..40u32),
            choices in prop::collection::vec(any::<bool>(), 80),
        ) {
            let way = middle.map_or(WalkStart::Edges, |m| WalkStart::Around(m % cylinders));
            let mut walk = Walk::new(way, cylinders);
            let mut met = Vec::new();
            for low in choices.into_iter().chain([true, false].into_iter().cycle().take(90)) {
                let front = if low { Front::Low } else { Front::High };
                let Some(ahead) = walk.ahead(front) else { continue };
                walk.reached(front, Sought::Found(ahead.from));
                met.push(ahead.from);
                walk.pass_over(front);
            }
            met.sort_unstable();
            prop_assert_eq!(met, (0..cylinders).collect::<Vec<_>>());
        }

        /// After new blocks on some cylinders, each of these cylinders is ahead of a front.
        #[test]
        fn new_blocks_are_ahead_of_the_walk_again(
            cylinders in 1..40u32,
            middle in prop::option::of(0..40u32),
            steps in prop::collection::vec((any::<bool>(), 0..3u32, 0..40u32, 0..6u32), 1..60),
        ) {
            let way = middle.map_or(WalkStart::Edges, |m| WalkStart::Around(m % cylinders));
            let mut walk = Walk::new(way, cylinders);
            for (low, what, at, len) in steps {
                let front = if low { Front::Low } else { Front::High };
                match what {
                    0 => {
                        let (first, last) = (at % cylinders, (at % cylinders + len).min(cylinders - 1));
                        walk.wanted_anew(Some(CylinderRange { first, last }));
                        for c in first..=last {
                            let ahead = [Front::Low, Front::High].into_iter().filter_map(|f| walk.ahead(f));
                            let mut ahead = ahead.map(|s| (s.from.min(s.last), s.from.max(s.last)));
                            prop_assert!(ahead.any(|(a, b)| a <= c && c <= b), "{} not ahead of {:?}", c, walk);
                        }
                    }
                    1 if middle.is_some() => walk.recentre(at % cylinders),
                    _ => {
                        if let Some(ahead) = walk.ahead(front) {
                            let next = if ahead.down { ahead.from.saturating_sub(len).max(ahead.last) }
                                else { (ahead.from + len).min(ahead.last) };
                            walk.reached(front, Sought::Spent(next));
                        }
                    }
                }
            }
        }
    }
}
