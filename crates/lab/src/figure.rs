//! Figures as data, not pictures.

use serde::{Deserialize, Serialize};

/// A figure. If its id is that of a figure in a paper, it shows the same quantities as the paper's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// A name for files, such as `osdi00-fig8b`.
    pub id: String,
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The content.
    pub kind: Kind,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// The range of the axis; by default the range of the data.
    pub range: Option<(f64, f64)>,
    /// The names of categories at 0, 1, 2 and so on, in place of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// Makes an axis with the range of its data.
    pub fn new(label: &str) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Makes an axis from `from` to `to`.
    pub fn between(label: &str, from: f64, to: f64) -> Self {
        Self { label: label.into(), range: Some((from, to)), ..Self::default() }
    }

    /// Makes an axis with a name at 0, 1, 2 and so on.
    pub fn named<'t>(label: &str, names: impl IntoIterator<Item = &'t str>) -> Self {
        Self { names: names.into_iter().map(str::to_owned).collect(), ..Self::new(label) }
    }
}

/// The content of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bars of parts on top of each other, such as the head's time by use.
    Stacked {
        /// The parts' names, from the bottom.
        parts: Vec<String>,
        /// The bars, from the left.
        bars: Vec<Bar>,
    },
    /// Curves.
    Lines(Vec<Line>),
    /// Distributions over one horizontal axis, each in a row of its own. The heights in a row have a logarithmic
    /// scale over the range of the vertical axis.
    Distributions(Vec<Line>),
    /// Numbers in columns; the axes are not used.
    Table {
        /// The columns' heads.
        columns: Vec<String>,
        /// The rows, each with one cell for each column.
        rows: Vec<Vec<String>>,
    },
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The text under the bar.
    pub label: String,
    /// The sizes of the parts, from the bottom.
    pub values: Vec<f64>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The name of the curve in the legend.
    pub label: String,
    /// The points, from the left.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The horizontal position.
    pub x: f64,
    /// The vertical position.
    pub y: f64,
    /// The minimum and maximum over several seeds.
    pub spread: Option<(f64, f64)>,
}

impl Line {
    /// Makes a curve through points without spread.
    pub fn new(label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, spread: None }).collect();
        Self { label: label.into(), points }
    }
}
