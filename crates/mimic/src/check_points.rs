//! The rule that decides whether a range of distances may be interpolated.

/// A number of check points, and the largest error from the straight line that each of them may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    points: u32,
    /// The largest permitted error of these check points, in hundredths of a percent of the probed time.
    error: u32,
}

/// The condition under which the times of all distances between two known ones are interpolated on the straight line
/// between them. Check points are distances in between that are probed: one of them must be within a small error of the
/// line, or more of them within a larger one (ATC'03, section 5.3).
///
/// ```
/// use mimic::CheckPoints;
/// assert_eq!(CheckPoints::TABLE_2.to_string(), "1 within 1%, 2 within 2%, 3 within 5%, 4 within 10%, 5 within 15%, 10 within 20%");
/// assert_eq!(CheckPoints::fixed(5, 150).to_string(), "5 within 1.5%");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckPoints {
    stages: [Stage; 6],
    used: usize,
    /// The number of times that a range must meet the condition, each time with other check points.
    times: u32,
}

/// The result of the check points so far: interpolate, halve the range, or take further check points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Straight,
    Bent,
    Unclear,
}

const fn stage(points: u32, hundredths: u32) -> Stage {
    Stage { points, error: hundredths }
}

impl CheckPoints {
    /// The paper's Table 2, and the default.
    ///
    /// The time by distance is a sawtooth. In a range of many teeth, times are nearly random from 30% below the line to
    /// 30% above it. In one of thirty such ranges the first check point is within 1% of the line by chance, and the
    /// range passes although it may be as wide as the drive; each halving of a range is another chance.
    /// [`CAREFUL`](Self::CAREFUL) refuses such ranges, and so does this rule if it is [confirmed](Self::confirmed).
    pub const TABLE_2: Self = Self {
        stages: [
            stage(1, 100),
            stage(2, 200),
            stage(3, 500),
            stage(4, 1_000),
            stage(5, 1_500),
            stage(10, 2_000),
        ],
        used: 6,
        times: 1,
    };

    /// At least three check points, with an error so small in each stage that one in a thousand ranges of random times
    /// (uniform from 30% below the line to 30% above) passes: that share is (2 error / 60%) to the power of the points.
    pub const CAREFUL: Self = Self {
        stages: [stage(3, 300), stage(4, 500), stage(5, 750), stage(10, 1_500), stage(0, 0), stage(0, 0)],
        used: 4,
        times: 1,
    };

    /// A rule that no range meets: every distance is probed.
    pub const NONE: Self = Self { stages: [stage(0, 0); 6], used: 0, times: 1 };

    /// The rule of `points` check points, all within `error` hundredths of a percent (the paper's figure 6).
    pub const fn fixed(points: u32, error: u32) -> Self {
        let mut stages = [stage(0, 0); 6];
        stages[0] = Stage { points: if points == 0 { 1 } else { points }, error };
        Self { stages, used: 1, times: 1 }
    }

    /// Returns the rule with the condition that a range must meet it `times` times before the range is interpolated,
    /// each time with other check points. If a range with many teeth of the sawtooth of time by distance meets the rule
    /// by chance once in ten times, it does so twice once in a hundred.
    ///
    /// For the on-line learner `times` makes no difference, because its check points are the distances that happen to
    /// be known.
    #[must_use]
    pub const fn confirmed(self, times: u32) -> Self {
        Self { times: if times == 0 { 1 } else { times }, ..self }
    }

    pub(crate) const fn times(&self) -> u32 {
        self.times
    }

    fn stages(&self) -> &[Stage] {
        &self.stages[..self.used]
    }

    /// Returns the verdict after `points` check points whose largest error is `error` hundredths of a percent.
    pub(crate) fn verdict(&self, points: u32, error: u64) -> Verdict {
        let meets = |s: &Stage| error <= u64::from(s.error);
        if self.stages().iter().any(|s| s.points == points && meets(s)) {
            Verdict::Straight
        } else if self.stages().iter().any(|s| s.points > points && meets(s)) {
            Verdict::Unclear
        } else {
            Verdict::Bent
        }
    }

    /// Returns the most check points that the rule may take for a range.
    pub(crate) fn most(&self) -> u32 {
        self.stages().iter().map(|s| s.points).max().unwrap_or(0).saturating_mul(self.times)
    }
}

impl Default for CheckPoints {
    fn default() -> Self {
        Self::TABLE_2
    }
}

impl std::fmt::Display for CheckPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.used == 0 {
            return f.write_str("none: every distance is probed");
        }
        for (i, s) in self.stages().iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{} within {}%", s.points, f64::from(s.error) / 100.0)?;
        }
        if self.times > 1 {
            write!(f, "; {} times in a row", self.times)?;
        }
        Ok(())
    }
}

/// Returns the difference between the interpolated `guess` and the probed `time`, in hundredths of a percent of `time`,
/// rounded up.
pub(crate) fn error_of(guess: u64, time: u64) -> u64 {
    let parts = u128::from(guess.abs_diff(time)) * 10_000;
    u64::try_from(parts.div_ceil(u128::from(time.max(1)))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_check_points_may_be_further_off() {
        let t = CheckPoints::TABLE_2;
        assert_eq!(t.verdict(1, 100), Verdict::Straight);
        assert_eq!(t.verdict(1, 101), Verdict::Unclear);
        assert_eq!(t.verdict(2, 200), Verdict::Straight);
        assert_eq!(t.verdict(5, 1_501), Verdict::Unclear);
        assert_eq!(t.verdict(6, 1_400), Verdict::Unclear);
        assert_eq!(t.verdict(10, 2_000), Verdict::Straight);
        assert_eq!(t.verdict(1, 2_001), Verdict::Bent);
        assert_eq!(t.verdict(10, 2_001), Verdict::Bent);
        assert_eq!(CheckPoints::NONE.verdict(1, 0), Verdict::Bent);
        assert_eq!(CheckPoints::fixed(2, 500).verdict(1, 500), Verdict::Unclear);
        assert_eq!(CheckPoints::TABLE_2.confirmed(3).most(), 30);
        assert_eq!(CheckPoints::fixed(1, 500).confirmed(2).to_string(), "1 within 5%; 2 times in a row");
    }

    #[test]
    fn an_error_is_a_share_of_the_time_probed() {
        assert_eq!(error_of(1_010, 1_000), 100);
        assert_eq!(error_of(990, 1_000), 100);
        assert_eq!(error_of(1_000_001, 1_000_000), 1);
        assert_eq!(error_of(5, 0), 50_000);
        assert_eq!(error_of(u64::MAX, 1), u64::MAX);
    }
}
