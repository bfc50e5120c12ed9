//! The exact numbers of a figure, in columns.

use crate::{Figure, Kind, Line, Point};

/// Columns of text, the first of which names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The columns' heads.
    pub columns: Vec<String>,
    /// The rows, each with one cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// Returns the numbers of a figure in columns: a row for each bar, or for each position on the horizontal axis; a
/// table is unchanged.
pub fn numbers(figure: &Figure) -> Numbers {
    match &figure.kind {
        Kind::Stacked { parts, bars } => Numbers {
            columns: with_first(&figure.x.label, parts.iter().cloned()),
            rows: bars
                .iter()
                .map(|bar| {
                    let values =
                        (0..parts.len()).map(|i| bar.values.get(i).copied().map_or_else(String::new, number));
                    with_first(&bar.label, values)
                })
                .collect(),
        },
        Kind::Lines(lines) | Kind::Distributions(lines) => curves(figure, lines),
        Kind::Table { columns, rows } => Numbers { columns: columns.clone(), rows: rows.clone() },
    }
}

fn curves(figure: &Figure, lines: &[Line]) -> Numbers {
    let mut places: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|p| p.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let label = |line: &Line| if line.label.is_empty() { figure.y.label.clone() } else { line.label.clone() };
    // A curve may have several points at one position, such as at a step.
    let at = |line: &Line, x: f64| {
        let found: Vec<String> = line.points.iter().filter(|p| p.x == x).map(value).collect();
        found.join("; ")
    };
    Numbers {
        columns: with_first(&figure.x.label, lines.iter().map(label)),
        rows: places.iter().map(|&x| with_first(&number(x), lines.iter().map(|line| at(line, x)))).collect(),
    }
}

fn value(point: &Point) -> String {
    let middle = number(point.y);
    match point.spread.map(|(low, high)| (number(low), number(high))) {
        Some((low, high)) if low != middle || high != middle => format!("{middle} ({low} to {high})"),
        _ => middle,
    }
}

/// Formats with four significant digits, whole numbers in full.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "not measured".to_owned();
    }
    if value == value.round() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9);
    format!("{value:.*}", digits as usize)
}

fn with_first(first: &str, rest: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Bar};

    fn figure(kind: Kind) -> Figure {
        Figure { id: "x".into(), title: "x".into(), x: Axis::new("tasks"), y: Axis::new("MB/s"), kind }
    }

    #[test]
    fn curves_share_their_places() {
        let spread =
            Line { label: "b".into(), points: vec![Point { x: 2.0, y: 0.5, spread: Some((0.25, 0.75)) }] };
        let lines = vec![Line::new("a", [(1.0, 4.931_4), (2.0, 5.0)]), spread];
        let shown = numbers(&figure(Kind::Lines(lines)));
        assert_eq!(shown.columns, ["tasks", "a", "b"]);
        assert_eq!(shown.rows, [["1", "4.931", ""], ["2", "5", "0.5000 (0.2500 to 0.7500)"]]);
    }

    #[test]
    fn a_row_is_as_long_as_there_are_columns() {
        let bars = vec![Bar { label: "FCFS".into(), values: vec![1.5] }];
        let shown = numbers(&figure(Kind::Stacked { parts: vec!["a".into(), "b".into()], bars }));
        assert_eq!(shown.rows, [["FCFS", "1.500", ""]]);
    }

    #[test]
    fn a_value_that_is_no_number_is_not_shown_as_one() {
        assert_eq!(
            [f64::NAN, f64::INFINITY, 0.0, -3.0].map(number),
            ["not measured", "not measured", "0", "-3"]
        );
    }
}
