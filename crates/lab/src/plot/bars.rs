//! Bars of parts on top of each other.

use super::marks;
use super::sheet::{self, Drawn, Name, SCALE, Sheet, Swatch, unit};
use crate::{Bar, Figure};

/// The part of its slot that a bar fills.
const WIDTH: f64 = 0.62;

/// The largest width of a bar, in pixels.
const WIDEST: f64 = 70.0;

pub(super) fn draw(sheet: Sheet, figure: &Figure, parts: &[String], bars: &[Bar]) -> Drawn {
    // In the order of the bars from the top; parts that no bar has are left out.
    let there = |part: &usize| bars.iter().any(|bar| bar.values.get(*part).is_some_and(drawable));
    let legend: Vec<(Swatch, &str)> = (0..parts.len())
        .rev()
        .filter(there)
        .filter_map(|part| Some((Swatch::Bar(part), parts.get(part)?.as_str())))
        .collect();
    let area = sheet.begin(figure, &legend)?;
    let totals = bars.iter().map(|bar| bar.values.iter().copied().filter(drawable).sum());
    let y = sheet::extent(figure.y.range, totals, true);
    let slots = bars.len().max(1) as f64;
    let top = y.end;
    // The plot has the width of the area without the vertical axis and its margin.
    let width = f64::from(area.dim_in_pixel().0.saturating_sub(unit(80.0))) / (slots * f64::from(SCALE));
    let names: Vec<Name> = bars.iter().map(|bar| Name::fit(&bar.label, width - 5.0)).collect();
    let lines = names.iter().map(Name::lines).max().unwrap_or(0);
    let chart = sheet::axes(&area, figure, 0.0..slots, y, Some(lines))?;
    let (left, above) = area.get_base_pixel();
    let here = |x: f64, y: f64| {
        let (px, py) = chart.backend_coord(&(x, y));
        (px - left, py - above)
    };
    let slot = f64::from(here(1.0, 0.0).0 - here(0.0, 0.0).0);
    let half = (slot * WIDTH / 2.0).min(f64::from(unit(WIDEST / 2.0))) as i32;
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
