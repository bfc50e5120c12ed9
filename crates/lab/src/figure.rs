//! What is drawn: data, not pictures.

use serde::{Deserialize, Serialize};

/// A figure. One with the same id as the paper's shows the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// A name for files, such as `osdi00-fig8b`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is in it.
    pub kind: Kind,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures, with its unit.
    pub label: String,
    /// From where to where; as the data need where that is not said.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis as long as its data.
    pub fn new(label: &str) -> Self {
        Self { label: label.into(), range: None }
    }

    /// An axis from `from` to `to`.
    pub fn between(label: &str, from: f64, to: f64) -> Self {
        Self { label: label.into(), range: Some((from, to)) }
    }
}

/// What is in a figure.
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
    /// Numbers in columns; the axes are not used.
    Table {
        /// The columns' heads.
        columns: Vec<String>,
        /// The rows, each as long as there are columns.
        rows: Vec<Vec<String>>,
    },
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What stands under it.
    pub label: String,
    /// Its parts, from the bottom.
    pub values: Vec<f64>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its name.
    pub label: String,
    /// Its points, from the left.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Least and most over the seeds, where there are several.
    pub spread: Option<(f64, f64)>,
}

impl Line {
    /// A curve through points without spread.
    pub fn new(label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, spread: None }).collect();
        Self { label: label.into(), points }
    }
}
