//! Bars of parts on top of each other. Bars are horizontal if their names have no room under upright bars.

use super::area::{Area, DRAWING_SCALE, Drawn, unit};
use super::marks;
use super::sheet::{self, Name, Names, SIZE_PIXELS, Sheet, Swatch};
use crate::{Bar, Figure};

/// The part of its slot that a bar fills.
const BAR_WIDTH_SHARE: f64 = 0.62;

/// The largest width of a bar, in pixels.
const BAR_WIDTH_PIXELS_MAX: f64 = 70.0;

/// The height of a horizontal bar with the space to the next, in pixels, if its name has one line.
const ROW_PIXELS: f64 = 20.0;

/// The most width for the names of horizontal bars, in pixels.
const NAMES_PIXELS_MAX: f64 = 340.0;

/// Returns the names of horizontal bars, and the height of each bar with the space to the next in pixels.
fn lying_names(bars: &[Bar]) -> (Vec<Name>, f64) {
    let names: Vec<Name> = bars.iter().map(|bar| Name::fit(&bar.label, NAMES_PIXELS_MAX)).collect();
    let lines = names.iter().map(Name::lines).max().unwrap_or(1).max(1);
    (names, ROW_PIXELS + sheet::LINE_PIXELS * (lines - 1) as f64)
}

/// Returns whether the bars are horizontal, because their names do not fit under upright bars.
fn lie(bars: &[Bar]) -> bool {
    // The width of the legend depends on its names and is not known yet; most legends take a quarter of the sheet.
    let width = f64::from(SIZE_PIXELS.0) * 0.75 / bars.len().max(1) as f64 - 5.0;
    bars.iter().any(|bar| !Name::fits(&bar.label, width))
}

/// Returns the height of the figure in pixels.
pub(super) fn height(bars: &[Bar]) -> u32 {
    if !lie(bars) {
        return SIZE_PIXELS.1;
    }
    (110.0 + lying_names(bars).1 * bars.len() as f64) as u32
}

/// Draws the bars below each other, each with its name at its left.
fn draw_lying(area: &Area, figure: &Figure, bars: &[Bar], y: std::ops::Range<f64>) -> Drawn {
    let (names, row) = lying_names(bars);
    let widest = names.iter().map(Name::width).fold(0.0, f64::max);
    let (from, to) = (y.start, y.end);
    let slots = bars.len().max(1) as f64;
    let labels = [figure.y.label.as_str(), figure.x.label.as_str()];
    let chart = sheet::axes(area, labels, y, slots..0.0, Names::Left(widest + 10.0))?;
    let (left, above) = area.get_base_pixel();
    let here = |value: f64, slot: f64| {
        let (px, py) = chart.backend_coord(&(value, slot));
        (px - left, py - above)
    };
    let half = unit(row * BAR_WIDTH_SHARE / 2.0) as i32;
    for (index, (bar, name)) in bars.iter().zip(&names).enumerate() {
        let middle = index as f64 + 0.5;
        let mut base = from.max(0.0);
        for (part, value) in bar.values.iter().enumerate().filter(|(_, value)| drawable(value)) {
            let (x, y) = here(base, middle);
            base = (base + value).min(to);
            let (end, _) = here(base, middle);
            if end > x {
                marks::filled(area, [x, y - half, end, y + half], part)?;
            }
        }
        let (x, y) = here(from, middle);
        name.draw_left(area, (x - unit(8.0) as i32, y))?;
    }
    Ok(())
}

pub(super) fn draw(sheet: Sheet, figure: &Figure, parts: &[String], bars: &[Bar]) -> Drawn {
    // The legend lists the parts of a bar from its top to its bottom, without parts that no bar has.
    let there = |part: &usize| bars.iter().any(|bar| bar.values.get(*part).is_some_and(drawable));
    let legend: Vec<(Swatch, &str)> = (0..parts.len())
        .rev()
        .filter(there)
        .filter_map(|part| Some((Swatch::Bar(part), parts.get(part)?.as_str())))
        .collect();
    // If horizontal bars have only one part, the axis names it.
    let legend = if lie(bars) && legend.len() == 1 { Vec::new() } else { legend };
    let area = sheet.begin(figure, &legend)?;
    let totals = bars.iter().map(|bar| bar.values.iter().copied().filter(drawable).sum());
    let y = sheet::extent(figure.y.range, totals, true);
    if lie(bars) {
        return draw_lying(&area, figure, bars, y);
    }
    let slots = bars.len().max(1) as f64;
    let top = y.end;
    let width = sheet::plot_width(&area) / (slots * f64::from(DRAWING_SCALE));
    let names: Vec<Name> = bars.iter().map(|bar| Name::fit(&bar.label, width - 5.0)).collect();
    let lines = names.iter().map(Name::lines).max().unwrap_or(0);
    let labels = [figure.x.label.as_str(), figure.y.label.as_str()];
    let chart = sheet::axes(&area, labels, 0.0..slots, y, Names::Below(lines))?;
    let (left, above) = area.get_base_pixel();
    let here = |x: f64, y: f64| {
        let (px, py) = chart.backend_coord(&(x, y));
        (px - left, py - above)
    };
    let slot = f64::from(here(1.0, 0.0).0 - here(0.0, 0.0).0);
    let half = (slot * BAR_WIDTH_SHARE / 2.0).min(f64::from(unit(BAR_WIDTH_PIXELS_MAX / 2.0))) as i32;
    for (index, (bar, name)) in bars.iter().zip(&names).enumerate() {
        let middle = index as f64 + 0.5;
        let mut base = 0.0;
        for (part, value) in bar.values.iter().enumerate().filter(|(_, value)| drawable(value)) {
            let (x, bottom) = here(middle, base);
            base = (base + value).min(top);
            let (_, up) = here(middle, base);
            if up < bottom {
                marks::filled(&area, [x - half, up, x + half, bottom], part)?;
            }
        }
        name.draw(&area, here(middle, 0.0))?;
    }
    Ok(())
}

/// Returns whether a part has a positive size.
fn drawable(value: &f64) -> bool {
    value.is_finite() && *value > 0.0
}
