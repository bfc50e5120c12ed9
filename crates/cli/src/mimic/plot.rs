//! The saw-tooth: times over distances, as text and as a figure.

use lab::{Axis, Figure, Kind, Line};
use mimic::{Distance, Pair, Saved};

/// Columns of a plot in text.
const COLUMNS: usize = 64;

/// Rows of a plot in text.
const ROWS: usize = 16;

/// Columns of a plot in a file.
const FINE: usize = 600;

/// A seed under which times drawn at random are shown by their median.
const MEDIAN: u64 = 1 << 63;

/// The minimum and maximum time of the distances in one column, in milliseconds.
type Band = Option<(f64, f64)>;

/// Returns the band of times in each of `columns` equal parts of the distances `from..=to`.
fn bands(saved: &Saved, pair: Pair, (from, to): (i64, i64), columns: usize) -> Vec<Band> {
    let width = i128::from(to) - i128::from(from) + 1;
    let edge = |k: usize| (i128::from(from) + width * k as i128 / columns as i128) as i64;
    let mut bands: Vec<Band> = vec![None; columns];
    let add = |band: &mut Band, ms: f64| {
        *band = Some(band.map_or((ms, ms), |(least, most)| (least.min(ms), most.max(ms))));
    };
    for knot in saved.table.knots(pair) {
        let distance = knot.distance.sectors();
        if (from..=to).contains(&distance) {
            let column = (i128::from(distance) - i128::from(from)) * columns as i128 / width;
            add(&mut bands[column as usize], knot.time.as_millis_f64());
        }
    }
    // A column without times of its own is interpolated between two knots.
    for (k, band) in bands.iter_mut().enumerate() {
        for distance in [edge(k), edge(k + 1) - 1] {
            if let Some(time) = saved.table.time(pair, Distance::new(distance), MEDIAN) {
                add(band, time.as_millis_f64());
            }
        }
    }
    bands
}

/// Plots as text: a column for each part of the distances, filled from its minimum to its maximum time.
pub(super) fn text(saved: &Saved, pair: Pair, range: (i64, i64)) -> String {
    let bands = bands(saved, pair, range, COLUMNS);
    let most = bands.iter().flatten().fold(0.0f64, |most, (_, high)| most.max(*high)).max(0.001);
    let row_ms = most / ROWS as f64;
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let (low, high) = (row as f64 * row_ms, (row + 1) as f64 * row_ms);
        let label = if row % 4 == 3 { format!("{high:6.2} ms ") } else { " ".repeat(10) };
        let cells: String = bands
            .iter()
            .map(|band| match band {
                Some((least, most)) if *least < high && *most >= low => '█',
                _ => ' ',
            })
            .collect();
        text.push_str(format!("{label}│{cells}").trim_end());
        text.push('\n');
    }
    let (from, to) = (range.0.to_string(), range.1.to_string());
    let gap = COLUMNS.saturating_sub(from.len() + to.len() + 8).max(1);
    text.push_str(&format!("{}└{}\n", " ".repeat(10), "─".repeat(COLUMNS)));
    text.push_str(&format!("{}{from}{}{to} sectors\n", " ".repeat(11), " ".repeat(gap)));
    text
}

/// Plots as a figure: the times themselves if there are few, otherwise their band.
pub(super) fn figure(saved: &Saved, pair: Pair, (from, to): (i64, i64)) -> Figure {
    let inside = |knot: &mimic::Knot| (from..=to).contains(&knot.distance.sectors());
    let points: Vec<(f64, f64)> = saved
        .table
        .knots(pair)
        .filter(inside)
        .take(4 * FINE)
        .map(|knot| (knot.distance.sectors() as f64, knot.time.as_millis_f64()))
        .collect();
    let lines = if points.len() < 4 * FINE {
        vec![Line::new(&format!("{pair}, {}", saved.table.metric()), points)]
    } else {
        let bands = bands(saved, pair, (from, to), FINE);
        let at = |k: usize| from as f64 + (to as f64 - from as f64) * (k as f64 + 0.5) / FINE as f64;
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
