//! When a range of distances may be interpolated.

/// So many check points, each within so much of the straight line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    points: u32,
    /// In hundredths of a percent of the time probed.
    error: u32,
}

/// What it takes before all distances between two are taken to lie on the straight line between them: one check point
/// within a small error, or else more of them within a larger one (ATC'03, section 5.3).
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
}

/// What a check point shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Straight,
    Bent,
    Unclear,
}

const fn stage(points: u32, percent: u32) -> Stage {
    Stage { points, error: percent * 100 }
}

impl CheckPoints {
    /// The paper's Table 2, and the default.
    pub const TABLE_2: Self = Self {
        stages: [stage(1, 1), stage(2, 2), stage(3, 5), stage(4, 10), stage(5, 15), stage(10, 20)],
        used: 6,
    };

    /// Nothing is interpolated: every distance is probed.
    pub const NONE: Self = Self { stages: [stage(0, 0); 6], used: 0 };

    /// `points` check points, all of them within `error` hundredths of a percent (the paper's figure 6).
    pub const fn fixed(points: u32, error: u32) -> Self {
        let mut stages = [stage(0, 0); 6];
        stages[0] = Stage { points: if points == 0 { 1 } else { points }, error };
        Self { stages, used: 1 }
    }

    /// Table 2 from so many check points on: with few, a range that is not straight passes now and then by chance.
    pub fn table_2_from(points: u32) -> Self {
        let mut these = Self::NONE;
        for stage in Self::TABLE_2.stages.into_iter().filter(|s| s.points >= points) {
            these.stages[these.used] = stage;
            these.used += 1;
        }
        these
    }

    fn stages(&self) -> &[Stage] {
        &self.stages[..self.used]
    }

    /// Of `points` check points whose worst is off by `error` hundredths of a percent.
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

    /// The most check points that it may take.
    pub(crate) fn most(&self) -> u32 {
        self.stages().iter().map(|s| s.points).max().unwrap_or(0)
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
        Ok(())
    }
}

/// How far `guess` is from `time`, in hundredths of a percent of `time`, rounded up.
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
        assert_eq!(CheckPoints::table_2_from(3).verdict(1, 0), Verdict::Unclear);
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
