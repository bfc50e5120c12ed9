//! Distributions over one axis, each in a row of its own, because their curves would cover each other almost
//! everywhere.

use super::area::{Drawn, unit};
use super::marks;
use super::sheet::{self, Name, Names, Sheet};
use crate::{Figure, Line};
use plotters::element::PathElement;
use plotters::style::ShapeStyle;

/// The height of a row with the space to the next, in pixels: a name of three lines has room beside it.
const ROW_PIXELS: f64 = 52.0;

/// The part of a row that its curve may fill.
const CURVE_HEIGHT_SHARE: f64 = 0.85;

/// The most width for the names, in pixels.
const NAMES_PIXELS_MAX: f64 = 240.0;

/// The values at the bottom and at the top of a row if the axis has no range.
const RANGE: (f64, f64) = (0.01, 100.0);

/// Returns the height of the figure in pixels.
pub(super) fn height(lines: &[Line]) -> u32 {
    (110.0 + ROW_PIXELS * lines.len() as f64) as u32
}

/// Draws a row for each distribution, from the top. The vertical scale of a row is logarithmic, so that rare values are seen
/// beside a peak.
pub(super) fn draw(sheet: Sheet, figure: &Figure, lines: &[Line]) -> Drawn {
    let area = sheet.begin(figure, &[])?;
    let names: Vec<Name> = lines.iter().map(|line| Name::fit(&line.label, NAMES_PIXELS_MAX)).collect();
    let widest = names.iter().map(Name::width).fold(0.0, f64::max);
    let points = lines.iter().flat_map(|line| &line.points);
    let x = sheet::extent(figure.x.range, points.map(|point| point.x), false);
    let sides = [x.start, x.end];
    let slots = lines.len().max(1) as f64;
    let labels = [figure.x.label.as_str(), figure.y.label.as_str()];
    let chart = sheet::axes(&area, labels, x, slots..0.0, Names::Left(widest + 10.0))?;
    let (left, above) = area.get_base_pixel();
    let here = |x: f64, slot: f64| {
        let (px, py) = chart.backend_coord(&(x, slot));
        (px - left, py - above)
    };
    let (least, most) = figure.y.range.filter(|(least, most)| 0.0 < *least && least < most).unwrap_or(RANGE);
    let share =
        |y: f64| if y > least { ((y / least).log10() / (most / least).log10()).min(1.0) } else { 0.0 };
    for (index, (line, name)) in lines.iter().zip(&names).enumerate() {
        let bottom = index as f64 + 1.0;
        let foot = vec![here(sides[0], bottom), here(sides[1], bottom)];
        area.draw(&PathElement::new(foot, ShapeStyle::from(marks::INK).stroke_width(unit(0.8))))?;
        let inside = line.points.iter().filter(|p| p.y.is_finite() && (sides[0]..=sides[1]).contains(&p.x));
        let path: Vec<_> = inside.map(|p| here(p.x, bottom - CURVE_HEIGHT_SHARE * share(p.y))).collect();
        marks::path(&area, path, 0)?;
        let (x, y) = here(sides[0], bottom - 0.5);
        name.draw_left(&area, (x - unit(8.0) as i32, y))?;
    }
    Ok(())
}
