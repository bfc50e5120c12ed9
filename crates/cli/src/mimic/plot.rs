//! The saw-tooth: times over distances, as text.

use mimic::{Distance, Pair, Saved};

/// The number of columns of a plot in text.
const COLUMNS: usize = 64;

/// The number of rows of a plot in text.
const ROWS: usize = 16;

/// A seed with which a table of distributions answers with medians instead of random times.
pub(super) const MEDIAN_SEED: u64 = 1 << 63;

/// The minimum and maximum time of the distances in one column, in milliseconds.
pub(super) type Band = Option<(f64, f64)>;

/// Returns the band of times in each of `columns` equal parts of the distances `from..=to`.
pub(super) fn bands(saved: &Saved, pair: Pair, (from, to): (i64, i64), columns: usize) -> Vec<Band> {
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
    // Every column also has the times at its two ends, interpolated between knots, because it may contain no knot.
    for (k, band) in bands.iter_mut().enumerate() {
        for distance in [edge(k), edge(k + 1) - 1] {
            if let Some(time) = saved.table.time(pair, Distance::new(distance), MEDIAN_SEED) {
                add(band, time.as_millis_f64());
            }
        }
    }
    bands
}

/// Returns the times over distances as text: a column for each part of the distances, filled from its minimum to its maximum.
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
