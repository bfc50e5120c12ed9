//! The plot of a table as a figure.

use super::plot::bands;
use lab::{Axis, Figure, Kind, Line};
use mimic::{Pair, Saved};

/// The number of columns of a plot in a file.
const FILE_PLOT_COLUMNS: usize = 600;

/// Returns a figure of the times over distances: single times if there are few, otherwise their minima and maxima.
pub(super) fn figure(saved: &Saved, pair: Pair, (from, to): (i64, i64)) -> Figure {
    let inside = |knot: &mimic::Knot| (from..=to).contains(&knot.distance.sectors());
    let points: Vec<(f64, f64)> = saved
        .table
        .knots(pair)
        .filter(inside)
        .take(4 * FILE_PLOT_COLUMNS)
        .map(|knot| (knot.distance.sectors() as f64, knot.time.as_millis_f64()))
        .collect();
    let lines = if points.len() < 4 * FILE_PLOT_COLUMNS {
        vec![Line::new(&format!("{pair}, {}", saved.table.metric()), points)]
    } else {
        let bands = bands(saved, pair, (from, to), FILE_PLOT_COLUMNS);
        let at =
            |k: usize| from as f64 + (to as f64 - from as f64) * (k as f64 + 0.5) / FILE_PLOT_COLUMNS as f64;
        let known = || bands.iter().enumerate().filter_map(|(k, band)| band.map(|band| (at(k), band)));
        vec![
            Line::new("longest", known().map(|(x, (_, most))| (x, most))),
            Line::new("shortest", known().map(|(x, (least, _))| (x, least))),
        ]
    };
    Figure {
        id: "mimic".to_owned(),
        title: format!("{}: time by distance, {pair}", saved.drive),
        x: Axis::between("inter-request distance (sectors)", from as f64, to as f64),
        y: Axis::new("time (ms)"),
        kind: Kind::Lines(lines),
    }
}
