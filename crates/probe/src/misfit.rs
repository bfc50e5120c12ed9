//! The misfit of a shape: how badly the shape explains the times of moves between tracks.

use crate::shape::{Kind, Shape};
use crate::zone::Zone;

/// The time of a move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTime {
    /// The distance of the move, in tracks.
    pub(crate) step: u64,
    pub(crate) ns: f64,
}

/// The times of moves by distance in tracks.
#[derive(Clone, Debug)]
pub(crate) struct Moves {
    pub(crate) times: Vec<StepTime>,
    /// The variance of one time, us squared.
    pub(crate) variance: f64,
    /// Whether repeated readings of one sector vary.
    pub(crate) noisy: bool,
}

/// The assumption on the part of the measured times that a shape does not explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errors {
    /// All times have errors of about one size, which is estimated.
    OfASize,
    /// A few times may have any error; the others have the accuracy of a search.
    OfSome,
}

/// A possible shape, and the evidence against it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) shape: Shape,
    pub(crate) misfit: f64,
}

/// Returns the shape with the smallest misfit; among equals the first, which is the simplest.
pub(crate) fn best(shapes: &[Candidate]) -> Candidate {
    let none = Candidate { shape: Shape { kind: Kind::Cylinder, heads: 1 }, misfit: f64::MAX };
    shapes.iter().fold(none, |best, &shape| if shape.misfit < best.misfit - 0.1 { shape } else { best })
}

/// A measured move as a shape sees it: whether it goes to another head, its distance in cylinders, and its time.
#[derive(Clone, Copy, Debug)]
struct MoveTime {
    to_other: bool,
    cylinders: u64,
    us: f64,
}

impl MoveTime {
    /// Returns the properties that moves of one group share: whether they go to another head, and the distance.
    fn class(&self) -> (bool, u64) {
        (self.to_other, self.cylinders)
    }
}

impl Moves {
    /// Returns whether a difference in ns exceeds the normal error of a time.
    pub(crate) fn is_far(&self, ns: f64) -> bool {
        ns / 1e3 > EQUAL_TIMES_DEVIATIONS_MAX * self.variance.sqrt()
    }

    /// Returns the shapes with the evidence of these moves added.
    pub(crate) fn scores(&self, shapes: &[Candidate], zone: &Zone) -> Vec<Candidate> {
        let added = |s: Shape| self.misfit(s, s.origin(zone), Errors::OfASize);
        let with = |&Candidate { shape, misfit }| Candidate { shape, misfit: added(shape) + misfit };
        shapes.iter().map(with).collect()
    }

    /// Tests whether another shape explains the first quarter, half or three quarters of the moves better: a track
    /// without LBNs, or a narrower band, displaces all tracks behind it. Returns the best such shape's misfit less that
    /// of `shape`, which is negative, or `f64::MAX` if no shape is much better.
    pub(crate) fn against(&self, shape: Shape, shapes: &[Candidate], zone: &Zone) -> f64 {
        let of = |quarters: usize| {
            let times = self.times.get(..self.times.len() * quarters / 4).unwrap_or_default().to_vec();
            let first = Self { times, ..self.clone() };
            let scores = first.scores(shapes, zone);
            let own = scores.iter().find(|score| score.shape == shape).map_or(0.0, |score| score.misfit);
            let gap = best(&scores).misfit - own;
            if -gap > 2.0 * (first.times.len().max(2) as f64).ln() { gap } else { f64::MAX }
        };
        (1..4).map(of).fold(f64::MAX, f64::min)
    }

    /// Returns a shape's misfit: the unexplained differences, and the number of parameters (Schwarz's criterion, 1978).
    /// A shape puts moves of one distance, to the same or to another head, into one group. Each group is a parameter,
    /// and so is each time that is shorter than that of a shorter move.
    pub(crate) fn misfit(&self, shape: Shape, origin: u64, errors: Errors) -> f64 {
        let points = self.points(shape, origin);
        if self.noisy {
            return self.misfit_of_noisy(&points);
        }
        // A head switch may run beside a seek, or after it; the better explanation counts.
        f64::min(self.misfit_of_exact(&points, false, errors), self.misfit_of_exact(&points, true, errors))
    }

    /// Returns the moves as this shape sees them, ordered by group and time.
    fn points(&self, shape: Shape, origin: u64) -> Vec<MoveTime> {
        let start = shape.position(origin);
        let mut points: Vec<MoveTime> = Vec::with_capacity(self.times.len());
        for &StepTime { step, ns } in &self.times {
            let (cylinder, head) = shape.position(origin + step);
            points.push(MoveTime {
                to_other: head != start.1,
                cylinders: cylinder.abs_diff(start.0),
                us: ns / 1e3,
            });
        }
        points.sort_unstable_by(|a, b| a.class().cmp(&b.class()).then(a.us.total_cmp(&b.us)));
        points
    }

    /// Returns the misfit if seek times are exact. If a head switch runs `beside` the seek, a move to another head
    /// takes the longer of the two times.
    fn misfit_of_exact(&self, points: &[MoveTime], beside: bool, errors: Errors) -> f64 {
        let n = f64::max(points.len() as f64, 2.0);
        let apart = EQUAL_TIMES_DEVIATIONS_MAX * self.variance.sqrt();
        let (mut unexplained, mut groups, mut dents) = (0.0, 0.0, 0.0);
        let weight_max = UNEXPLAINED_TIME_WEIGHT * n.ln();
        let mut last: Option<(bool, f64)> = None;
        let mut same_head: Vec<(u64, f64)> = Vec::new();
        let mut switch = None;
        for group in points.chunk_by(|a, b| a.class() == b.class()) {
            let Some(&MoveTime { to_other, cylinders, .. }) = group.first() else { continue };
            let middle = group.get(group.len() / 2).map_or(0.0, |p| p.us);
            let same = same_head.binary_search_by_key(&cylinders, |s| s.0).ok();
            let same = same.and_then(|i| same_head.get(i)).map(|s| s.1).filter(|_| to_other);
            let known = match (same, switch) {
                // Moves to the next cylinder and another head may be slow, so they are a group of their own.
                (Some(same), Some(switch)) if beside && cylinders > 1 => Some(f64::max(same, switch)),
                _ => None,
            };
            for point in group {
                let off = (point.us - known.unwrap_or(middle)).powi(2);
                unexplained += match errors {
                    Errors::OfASize => off.min(SQUARED_ERROR_US2_MAX),
                    Errors::OfSome => (off / self.variance).min(weight_max),
                };
            }
            if known.is_some() {
                continue;
            }
            groups += 1.0;
            if !to_other {
                same_head.push((cylinders, middle));
            } else if cylinders == 0 {
                switch = Some(middle);
            }
            // A head switch makes no move shorter, so a shorter time is a parameter.
            dents += f64::from(u8::from(same.is_some_and(|same| middle < same - apart)));
            // Longer moves mostly take longer, so a shorter time is a parameter.
            if !(to_other && cylinders <= 1) {
                dents += f64::from(u8::from(last.is_some_and(|l| l.0 == to_other && middle < l.1 - apart)));
                last = Some((to_other, middle));
            }
        }
        let unexplained = match errors {
            Errors::OfASize => n * (unexplained / n + self.variance).ln(),
            Errors::OfSome => unexplained,
        };
        unexplained + (groups + dents) * n.ln()
    }
}

impl Moves {
    /// Returns the misfit if seek times vary: the mean times rise with distance, and the number of steps in which they
    /// rise is the number of parameters (Akaike's criterion, 1974). A head switch may cost nothing, or may show up to
    /// some distance, because a longer seek hides it.
    fn misfit_of_noisy(&self, points: &[MoveTime]) -> f64 {
        self.misfits_shown(points).map(|(misfit, _)| misfit).fold(f64::MAX, f64::min)
    }

    /// Returns, for each distance of [`CHANGES`], the misfit under the assumption that a head switch shows up to that
    /// distance, and the distance. A distance is left out if it groups the moves like the previous one.
    fn misfits_shown(&self, points: &[MoveTime]) -> impl Iterator<Item = (f64, Option<u64>)> {
        let mut by_distance = points.to_vec();
        by_distance.sort_unstable_by(|a, b| a.cylinders.cmp(&b.cylinders).then(a.us.total_cmp(&b.us)));
        let mut before = None;
        CHANGES.into_iter().filter_map(move |most| {
            let is_shown = |p: &&MoveTime| p.to_other && most.is_some_and(|most| p.cylinders <= most);
            let shown = by_distance.iter().filter(is_shown).count();
            // A larger distance shows every move that a smaller one shows, so an equal number of shown moves means the
            // same moves.
            if before.replace(shown) == Some(shown) {
                return None;
            }
            let mut points = Vec::with_capacity(by_distance.len());
            points.extend(
                by_distance.iter().filter(|p| !is_shown(p)).map(|p| MoveTime { to_other: false, ..*p }),
            );
            points.extend(by_distance.iter().filter(is_shown).map(|p| MoveTime { to_other: true, ..*p }));
            Some((self.misfit_of_rising(&points), most))
        })
    }

    /// Returns the evidence that the tracks of a cylinder are equally far from the start of the moves, against times
    /// that rise from track to track: negative only if times rise by more than two standard deviations. Moves that show
    /// a head switch are left out.
    pub(crate) fn without_trend(&self, shape: Shape, zone: &Zone) -> f64 {
        let origin = shape.origin(zone);
        let start = shape.position(origin);
        let points = self.points(shape, origin);
        let best = self.misfits_shown(&points).min_by(|a, b| a.0.total_cmp(&b.0));
        let most = best.and_then(|best| best.1).unwrap_or(0);
        if shape.kind.band().is_some() {
            return f64::MAX;
        }
        let mut points: Vec<(u64, f64, f64)> = Vec::with_capacity(self.times.len());
        for &StepTime { step, ns } in &self.times {
            let (cylinder, _) = shape.position(origin + step);
            points.push((cylinder.abs_diff(start.0), step as f64, ns / 1e3));
        }
        points.retain(|p| p.0 > most);
        points.sort_unstable_by_key(|p| p.0);
        let (mut together, mut squares) = (0.0, 0.0);
        for group in points.chunk_by(|a, b| a.0 == b.0) {
            let n = group.len() as f64;
            let step = group.iter().map(|p| p.1).sum::<f64>() / n;
            let us = group.iter().map(|p| p.2).sum::<f64>() / n;
            together += group.iter().map(|p| (p.1 - step) * (p.2 - us)).sum::<f64>();
            squares += group.iter().map(|p| (p.1 - step).powi(2)).sum::<f64>();
        }
        let deviations = together / f64::max(squares * self.variance, f64::MIN_POSITIVE).sqrt();
        if deviations > 2.0 { 2.0 - deviations * deviations / 2.0 } else { f64::MAX }
    }

    fn misfit_of_rising(&self, points: &[MoveTime]) -> f64 {
        let (mut unexplained, mut steps, mut groups, mut dents) = (0.0, 0.0, 0.0, 0.0);
        let far = EQUAL_TIMES_DEVIATIONS_MAX * self.variance.sqrt();
        let mut same_head: Vec<(u64, f64)> = Vec::new();
        for set in points.chunk_by(|a, b| a.to_other == b.to_other) {
            // Sum, count and sum of squares of the times of distances that share one mean.
            let mut pooled: Vec<(f64, f64, f64)> = Vec::new();
            let mut apart: Vec<(f64, f64, f64)> = Vec::new();
            // Distances before a dent, which is a longer move that takes less time, are not pooled again.
            let mut fixed = 0;
            for group in set.chunk_by(|a, b| a.cylinders == b.cylinders) {
                groups += 1.0;
                let all =
                    group.iter().fold((0.0, 0.0, 0.0), |g, p| (g.0 + p.us, g.1 + 1.0, g.2 + p.us * p.us));
                let Some(&MoveTime { to_other, cylinders, .. }) = group.first() else { continue };
                let mean = all.0 / all.1;
                if to_other {
                    // A head switch makes no move shorter, so a shorter time is a parameter.
                    let same = same_head.binary_search_by_key(&cylinders, |s| s.0).ok();
                    let same = same.and_then(|i| same_head.get(i));
                    dents += f64::from(u8::from(same.is_some_and(|same| mean < same.1 - far)));
                } else {
                    same_head.push((cylinders, mean));
                }
                if to_other && cylinders <= 1 {
                    apart.push(all);
                    continue;
                }
                if pooled.last().is_some_and(|last| mean < last.0 / last.1 - far) {
                    dents += 1.0;
                    fixed = pooled.len();
                }
                pooled.push(all);
                while let Some([.., a, b]) = pooled.get_mut(fixed..)
                    && a.0 / a.1 >= b.0 / b.1
                {
                    *a = (a.0 + b.0, a.1 + b.1, a.2 + b.2);
                    pooled.pop();
                }
            }
            for block in pooled.iter().chain(&apart) {
                unexplained += (block.2 - block.0 * block.0 / block.1).max(0.0);
                steps += 1.0;
            }
        }
        let n = f64::max(points.len() as f64, 2.0);
        n * (unexplained / n + self.variance).ln()
            + 2.0 * steps
            + GROUP_EVIDENCE_MIN * groups
            + dents * n.ln()
    }
}

/// The tried values of the largest distance over which a head switch shows, in cylinders; `None` if it never shows.
const CHANGES: [Option<u64>; 7] = [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(u64::MAX)];

/// The reduction of the misfit that a further group of moves must bring.
const GROUP_EVIDENCE_MIN: f64 = 0.2;

/// The difference from which on two times are not equal, in standard deviations.
const EQUAL_TIMES_DEVIATIONS_MAX: f64 = 4.0;

/// The most that one unexplained time adds to the misfit, in parameters: three, for its existence, its place and its
/// error.
const UNEXPLAINED_TIME_WEIGHT: f64 = 3.0;

/// The most that one time adds to the squared errors, us squared: a difference of 500 us.
const SQUARED_ERROR_US2_MAX: f64 = 250_000.0;
