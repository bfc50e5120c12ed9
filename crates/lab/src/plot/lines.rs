//! Curves with markers, and with the minimum and maximum over several seeds.

use super::area::{DRAWING_SCALE, Drawn, unit};
use super::marks;
use super::sheet::{self, Name, Sheet, Swatch};
use crate::{Figure, Line, Point};
use plotters::element::PathElement;

/// The most markers on a dense curve.
const MARKERS: usize = 12;

/// The most points of a curve that has a marker at each point.
const MARKED_POINTS_MAX: usize = 30;

pub(super) fn draw(sheet: Sheet, figure: &Figure, lines: &[Line]) -> Drawn {
    let legend: Vec<(Swatch, &str)> =
        lines.iter().enumerate().map(|(i, line)| (Swatch::Curve(i), line.label.as_str())).collect();
    // One curve without a name needs no legend.
    let legend = if legend.iter().all(|(_, name)| name.is_empty()) { Vec::new() } else { legend };
    let area = sheet.begin(figure, &legend)?;
    let points = || lines.iter().flat_map(|line| &line.points).filter(|p| drawable(p));
    let names = &figure.x.names;
    let slots = names.len().max(1) as f64;
    let x = if names.is_empty() {
        sheet::extent(figure.x.range, points().map(|p| p.x), false)
    } else {
        -0.5..slots - 0.5
    };
    let heights = points().flat_map(|p| [p.y, p.spread.map_or(p.y, |s| s.0), p.spread.map_or(p.y, |s| s.1)]);
    let y = sheet::extent(figure.y.range, heights, true);
    let room = [y.start, y.end];
    let sides = [x.start, x.end];
    let width = sheet::plot_width(&area) / (slots * f64::from(DRAWING_SCALE));
    let names: Vec<Name> = names.iter().map(|name| Name::fit(name, width - 5.0)).collect();
    let below = names.iter().map(Name::lines).max();
    let labels = [figure.x.label.as_str(), figure.y.label.as_str()];
    let chart = sheet::axes(&area, labels, x, y, below.into())?;
    let (left, above) = area.get_base_pixel();
    let here = |x: f64, y: f64| {
        let (px, py) = chart.backend_coord(&(x, y.clamp(room[0], room[1])));
        (px - left, py - above)
    };
    let inside = |p: &&Point| drawable(p) && (sides[0]..=sides[1]).contains(&p.x);
    for (at, name) in names.iter().enumerate() {
        name.draw(&area, here(at as f64, room[0]))?;
    }
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<&Point> = line.points.iter().filter(inside).collect();
        let style = marks::curve(index);
        let path: Vec<_> = points.iter().map(|p| here(p.x, p.y)).collect();
        marks::path(&area, path, index)?;
        for point in &points {
            let Some((low, high)) = point.spread.filter(|(l, h)| l.is_finite() && h.is_finite() && l < h)
            else {
                continue;
            };
            let ((x, bottom), (_, top)) = (here(point.x, low), here(point.x, high));
            let half = unit(3.0) as i32;
            for bar in [
                [(x, bottom), (x, top)],
                [(x - half, bottom), (x + half, bottom)],
                [(x - half, top), (x + half, top)],
            ] {
                area.draw(&PathElement::new(bar.to_vec(), style))?;
            }
        }
        let every = if points.len() > MARKED_POINTS_MAX { points.len().div_ceil(MARKERS) } else { 1 };
        // The markers of dense curves begin at different points, so that they do not cover each other.
        let first = if every == 1 { 0 } else { every * (index % 4) / 4 };
        for point in points.iter().skip(first).step_by(every) {
            marks::marker(&area, here(point.x, point.y), index)?;
        }
    }
    Ok(())
}

fn drawable(point: &Point) -> bool {
    point.x.is_finite() && point.y.is_finite()
}
