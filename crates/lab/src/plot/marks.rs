//! The distinguishing marks of series: colour, hatching, marker.

use super::area::{Area, Drawn, unit};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle};
use plotters::style::{Color, RGBColor, ShapeStyle};

/// Text, axes and outlines.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// The background.
pub(super) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Lines of the grid.
pub(super) const RULE: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);

/// Colours of strokes on a filled bar: dark strokes on a light bar, light strokes on a dark one.
const DARK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const LIGHT: RGBColor = RGBColor(0xFA, 0xFA, 0xFA);

/// The direction of the strokes on a part of a bar.
#[derive(Clone, Copy)]
enum Hatch {
    None,
    Rising,
    Falling,
    Crossed,
    Level,
}

/// The filling of a part of a bar.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    colour: RGBColor,
    hatch: Hatch,
    stroke: RGBColor,
}

/// The fillings of parts; neighbours differ in lightness as well as in hue.
const FILLS: [Fill; 7] = [
    Fill { colour: RGBColor(0x00, 0x5A, 0x94), hatch: Hatch::None, stroke: LIGHT },
    Fill { colour: RGBColor(0xF2, 0xB1, 0x34), hatch: Hatch::Rising, stroke: DARK },
    Fill { colour: RGBColor(0x00, 0x80, 0x5E), hatch: Hatch::Falling, stroke: LIGHT },
    Fill { colour: RGBColor(0xF0, 0xE4, 0x42), hatch: Hatch::None, stroke: DARK },
    Fill { colour: RGBColor(0xD5, 0x5E, 0x00), hatch: Hatch::Crossed, stroke: LIGHT },
    Fill { colour: RGBColor(0xE9, 0xE9, 0xE9), hatch: Hatch::None, stroke: DARK },
    Fill { colour: RGBColor(0xCC, 0x79, 0xA7), hatch: Hatch::Level, stroke: DARK },
];

/// The colours of curves. Thin curves in a light colour are invisible, so the palette's yellow is left out.
const CURVES: [RGBColor; 7] = [
    RGBColor(0x00, 0x5A, 0x94),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x80, 0x5E),
    RGBColor(0xA8, 0x4E, 0x80),
    RGBColor(0xC9, 0x86, 0x00),
    RGBColor(0x2F, 0x94, 0xCC),
    RGBColor(0x77, 0x77, 0x77),
];

/// The lengths of a dash and of the gap behind it, in pixels.
const DASH_PIXELS: (f64, f64) = (8.0, 5.0);

/// The distance between two strokes of a hatch, in pixels.
const HATCH_STEP_PIXELS: f64 = 7.0;

/// A rectangle in pixels: left, top, right, bottom.
pub(super) type Frame = [i32; 4];

/// Fills a rectangle in the style of a bar's part `index`, with an outline.
pub(super) fn filled(area: &Area, frame: Frame, index: usize) -> Drawn {
    let [left, top, right, bottom] = frame;
    let fill = FILLS[index % FILLS.len()];
    area.draw(&Rectangle::new([(left, top), (right, bottom)], fill.colour.filled()))?;
    let stroke = ShapeStyle::from(fill.stroke).stroke_width(unit(1.1));
    let both = |rising: bool| -> Drawn {
        for (from, to) in strokes(frame, rising) {
            area.draw(&PathElement::new(vec![from, to], stroke))?;
        }
        Ok(())
    };
    match fill.hatch {
        Hatch::None => {}
        Hatch::Rising => both(true)?,
        Hatch::Falling => both(false)?,
        Hatch::Crossed => {
            both(true)?;
            both(false)?;
        }
        Hatch::Level => {
            let step = unit(HATCH_STEP_PIXELS) as i32;
            let mut y = (top / step + 1) * step;
            while y < bottom {
                area.draw(&PathElement::new(vec![(left, y), (right, y)], stroke))?;
                y += step;
            }
        }
    }
    let outline = ShapeStyle::from(INK).stroke_width(unit(0.8));
    let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    area.draw(&PathElement::new(corners, outline))
}

/// Returns the strokes at 45 degrees in a rectangle. They are anchored to the sheet, not to the rectangle, so that the
/// same part looks alike in neighbouring bars.
fn strokes([left, top, right, bottom]: Frame, rising: bool) -> Vec<((i32, i32), (i32, i32))> {
    let step = unit(HATCH_STEP_PIXELS * std::f64::consts::SQRT_2) as i32;
    // Along a rising stroke x + y is constant, along a falling one x - y.
    let (first, last) = if rising { (left + top, right + bottom) } else { (left - bottom, right - top) };
    let mut found = Vec::new();
    let mut sum = first.div_euclid(step) * step + step;
    while sum < last {
        let (from, to) = if rising {
            (left.max(sum - bottom), right.min(sum - top))
        } else {
            (left.max(sum + top), right.min(sum + bottom))
        };
        if from < to {
            let y = |x: i32| if rising { sum - x } else { x - sum };
            found.push(((from, y(from)), (to, y(to))));
        }
        sum += step;
    }
    found
}

/// Draws a path as the curve `index`. Curves that share their colour with an earlier curve are dashed.
pub(super) fn path(area: &Area, path: Vec<(i32, i32)>, index: usize) -> Drawn {
    if index < CURVES.len() {
        return area.draw(&PathElement::new(path, curve(index)));
    }
    area.draw(&DashedPathElement::new(path, unit(DASH_PIXELS.0), unit(DASH_PIXELS.1), curve(index)))
}

/// Returns the style of the curve `index`.
pub(super) fn curve(index: usize) -> ShapeStyle {
    ShapeStyle::from(CURVES[index % CURVES.len()]).stroke_width(unit(1.8))
}

/// Draws a marker of the curve `index`.
pub(super) fn marker(area: &Area, (x, y): (i32, i32), index: usize) -> Drawn {
    let colour = CURVES[index % CURVES.len()];
    let r = unit(4.0) as i32;
    let solid = colour.filled();
    let hollow = ShapeStyle::from(PAPER).filled();
    let line = ShapeStyle::from(colour).stroke_width(unit(1.6));
    let closed = |corners: Vec<(i32, i32)>, style: ShapeStyle| -> Drawn {
        let mut outline = corners.clone();
        outline.extend(corners.first());
        area.draw(&Polygon::new(corners, style))?;
        area.draw(&PathElement::new(outline, line))
    };
    let square = vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)];
    let triangle = vec![(x, y - r - r / 4), (x + r + r / 4, y + r), (x - r - r / 4, y + r)];
    let diamond = vec![(x, y - r - r / 3), (x + r + r / 3, y), (x, y + r + r / 3), (x - r - r / 3, y)];
    // The order of markers is shifted each time that the colours repeat, so that two curves of one colour have
    // different markers.
    match (index + index / CURVES.len()) % 7 {
        0 => area.draw(&Circle::new((x, y), r, solid)),
        1 => closed(square, hollow),
        2 => closed(triangle, solid),
        3 => closed(diamond, hollow),
        4 => closed(square, solid),
        5 => closed(triangle, hollow),
        _ => closed(diamond, solid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strokes_stay_in_their_rectangle(
            left in -500..500i32, top in -500..500i32, width in 0..900i32, height in 0..900i32, rising: bool,
        ) {
            let frame = [left, top, left + width, top + height];
            for (from, to) in strokes(frame, rising) {
                for (x, y) in [from, to] {
                    prop_assert!((left..=frame[2]).contains(&x) && (top..=frame[3]).contains(&y));
                }
                prop_assert_eq!((to.0 - from.0).abs(), (to.1 - from.1).abs());
            }
        }
    }
}
