//! Several runs that differ in their seeds: means and confidence intervals.

use serde_json::{Map, Value};

/// The probability with which an interval holds the true mean, if the runs are independent and their results normal.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The quantile 0.975 of Student's t distribution for 1 to 30 degrees of freedom.
const T_QUANTILES: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604,
    2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555,
    2.0518, 2.0484, 2.0452, 2.0423,
];

/// The quantile 0.975 of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_964;

/// Returns the quantile 0.975 of Student's t distribution, to four digits.
fn t_quantile(freedom: usize) -> f64 {
    match T_QUANTILES.get(freedom.max(1) - 1) {
        Some(&quantile) => quantile,
        None => {
            // The first terms of the expansion of Student's quantile about the normal one (Abramowitz and Stegun 26.7.5).
            let (z, n) = (NORMAL_QUANTILE, freedom as f64);
            z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// The mean of several runs, and half the width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) half_width: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Estimate {
    /// Returns the estimate of at least two results; `None` for fewer.
    pub(crate) fn of(results: &[f64]) -> Option<Self> {
        let freedom = results.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
        let n = results.len() as f64;
        let mean = results.iter().sum::<f64>() / n;
        let squares: f64 = results.iter().map(|x| (x - mean).powi(2)).sum();
        Some(Self {
            mean,
            half_width: t_quantile(freedom) * (squares / freedom as f64 / n).sqrt(),
            least: results.iter().copied().fold(f64::INFINITY, f64::min),
            most: results.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Returns the estimate of the number at a path in every run's JSON; `None` if a run has no number there.
    pub(crate) fn at(runs: &[Value], path: &str) -> Option<Self> {
        let numbers: Option<Vec<f64>> =
            runs.iter().map(|run| run.pointer(path).and_then(Value::as_f64)).collect();
        Self::of(&numbers?)
    }
}

/// Returns one JSON value of the form of each run's: numbers are means over the runs, and a flag is set if every run sets
/// it. A value that is equal in all runs stays as it is; of other values, such as words, the first run's is kept.
pub(crate) fn means(runs: &[&Value]) -> Value {
    let Some((first, rest)) = runs.split_first() else { return Value::Null };
    if rest.iter().all(|run| run == first) {
        return (*first).clone();
    }
    if let Some(numbers) = numbers(runs) {
        return Estimate::of(&numbers).map_or(Value::Null, |estimate| estimate.mean.into());
    }
    match first {
        Value::Object(fields) => by_field(fields, runs, |of_one| Some(means(of_one))),
        // Lists of equal length, such as the drives of an array, are averaged item by item; items of lists of different
        // lengths do not correspond.
        Value::Array(items)
            if runs.iter().all(|run| run.as_array().is_some_and(|of| of.len() == items.len())) =>
        {
            let item = |n: usize| means(&runs.iter().map(|run| &run[n]).collect::<Vec<_>>());
            (0..items.len()).map(item).collect()
        }
        Value::Bool(_) => runs.iter().all(|run| run.as_bool() == Some(true)).into(),
        Value::Number(_) | Value::Null => Value::Null,
        _ => (*first).clone(),
    }
}

/// Returns half the width of the confidence interval of each number in the runs' results, under the number's name.
pub(crate) fn half_widths(runs: &[&Value]) -> Option<Value> {
    if let Some(numbers) = numbers(runs) {
        return Estimate::of(&numbers).map(|estimate| estimate.half_width.into());
    }
    let fields = runs.first()?.as_object()?;
    Some(by_field(fields, runs, half_widths))
}

fn numbers(runs: &[&Value]) -> Option<Vec<f64>> {
    runs.iter().map(|run| run.as_f64()).collect()
}

fn by_field(fields: &Map<String, Value>, runs: &[&Value], of: impl Fn(&[&Value]) -> Option<Value>) -> Value {
    let field = |name: &String| {
        let values: Option<Vec<&Value>> = runs.iter().map(|run| run.get(name)).collect();
        of(&values?).map(|value| (name.clone(), value))
    };
    Value::Object(fields.keys().filter_map(field).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The expected values are those of printed tables of Student's t.
    #[test]
    fn the_quantiles_are_those_of_tables() {
        for (freedom, expected) in
            [(1, 12.7062), (2, 4.3027), (10, 2.2281), (30, 2.0423), (40, 2.0211), (60, 2.0003), (120, 1.9799)]
        {
            assert!((t_quantile(freedom) - expected).abs() < 1e-4, "{freedom}: {}", t_quantile(freedom));
        }
    }

    #[test]
    fn an_interval_is_students() {
        // Mean 3, variance 2.5, four degrees of freedom: 2.7764 times the root of a half.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((estimate.mean, estimate.least, estimate.most), (3.0, 1.0, 5.0));
        assert!((estimate.half_width - 1.96321).abs() < 1e-4, "{estimate:?}");
        assert_eq!(Estimate::of(&[1.0]), None);
    }

    /// Repeats an experiment of four normal-like results; the interval must hold the true mean in 95% of the repetitions.
    #[test]
    fn an_interval_holds_the_mean_as_often_as_it_says() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let repetitions = 20_000;
        let held = (0..repetitions)
            .filter(|_| {
                let estimate = Estimate::of(&[normal(), normal(), normal(), normal()]).unwrap();
                estimate.mean.abs() <= estimate.half_width
            })
            .count();
        let share = held as f64 / f64::from(repetitions);
        // The standard error of the share is 0.0015.
        assert!((share - CONFIDENCE).abs() < 0.006, "{share}");
    }

    #[test]
    fn numbers_are_averaged_where_they_stand() {
        let runs = [
            json!({"a": {"x": 1, "same": 7}, "done": true, "s": "t", "n": null, "l": [1, "a"]}),
            json!({"a": {"x": 2, "same": 7}, "done": false, "s": "t", "n": 3.0, "l": [2, "b"]}),
        ];
        let runs: Vec<&Value> = runs.iter().collect();
        let expected =
            json!({"a": {"x": 1.5, "same": 7}, "done": false, "s": "t", "n": null, "l": [1.5, "a"]});
        assert_eq!(means(&runs), expected);
        let widths = half_widths(&runs).unwrap();
        assert_eq!(widths["a"]["same"], json!(0.0));
        assert!((widths["a"]["x"].as_f64().unwrap() - 12.7062 * 0.5).abs() < 1e-9, "{widths}");
        assert_eq!(widths.get("done"), None);
    }
}
