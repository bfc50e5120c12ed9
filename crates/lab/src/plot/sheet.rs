//! The sheet of a figure: the places of title, legend and plot, and the look of text.

use super::area::{Area, DRAWING_SCALE, Drawn, unit};
use super::marks::{self, INK, PAPER, RULE};
use crate::Figure;
use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::types::RangedCoordf64;
use plotters::element::Text;
use plotters::prelude::Cartesian2d;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontFamily, FontStyle, FontTransform, IntoFont, ShapeStyle, TRANSPARENT, TextStyle,
};
use std::ops::Range;

/// The width and height of a figure, in pixels at its usual size.
pub(super) const SIZE_PIXELS: (u32, u32) = (720, 400);

/// The sizes of text in pixels: of plain text, of the smallest name under an axis, and of the title.
const TEXT_PIXELS: f64 = 13.0;
const AXIS_TEXT_PIXELS_MIN: f64 = 11.0;
const TITLE_PIXELS: f64 = 15.0;

/// The distance between the lines of a name, in pixels.
pub(super) const LINE_PIXELS: f64 = 14.0;
/// The most lines of a name, so that names below a plot leave room for the plot.
const NAME_LINES_MAX: usize = 4;

pub(super) type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
/// The sample beside a name in a legend.
pub(super) enum Swatch {
    Bar(usize),
    Curve(usize),
}

/// The blank sheet.
pub(super) struct Sheet<'a> {
    area: Area<'a>,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(area: Area<'a>) -> Self {
        Self { area }
    }

    /// Draws paper, title and legend; returns the rest for the plot.
    pub(super) fn begin(self, figure: &Figure, legend: &[(Swatch, &str)]) -> Drawn<Area<'a>> {
        self.area.fill(&PAPER)?;
        let title = wrapped(&figure.title, f64::from(SIZE_PIXELS.0) - 30.0, TITLE_PIXELS * BOLD_WIDTH_RATIO);
        let (head, rest) = self.area.split_vertically(unit(18.0 + 18.0 * title.len() as f64));
        let middle = SIZE_PIXELS.0 * DRAWING_SCALE / 2;
        let size = fitting(&title, f64::from(SIZE_PIXELS.0) - 20.0, TITLE_PIXELS, BOLD_WIDTH_RATIO);
        for (row, line) in title.into_iter().enumerate() {
            let at = (middle as i32, unit(19.0 + 18.0 * row as f64) as i32);
            head.draw(&Text::new(line, at, style(size, FontStyle::Bold, HPos::Center, VPos::Center)))?;
        }
        if legend.is_empty() {
            return Ok(rest);
        }
        // The legend is as wide as a third of the sheet at most; longer names get several lines.
        let longest = legend.iter().map(|(_, name)| width(name, TEXT_PIXELS)).fold(0.0, f64::max);
        let room = (f64::from(SIZE_PIXELS.0) / 3.0).min(56.0 + longest);
        let (plot, margin) = rest.split_horizontally(unit(f64::from(SIZE_PIXELS.0) - room));
        let names: Vec<Vec<String>> =
            legend.iter().map(|(_, name)| wrapped(name, room - 56.0, TEXT_PIXELS)).collect();
        let mut top = 22.0;
        for ((swatch, _), name) in legend.iter().zip(names) {
            let y = unit(top + LINE_PIXELS * (name.len().max(1) - 1) as f64 / 2.0) as i32;
            let (left, right) = (unit(6.0) as i32, unit(34.0) as i32);
            match *swatch {
                Swatch::Bar(index) => {
                    let half = unit(7.5) as i32;
                    marks::filled(&margin, [left, y - half, right, y + half], index)?;
                }
                Swatch::Curve(index) => {
                    marks::path(&margin, vec![(left, y), (right, y)], index)?;
                    marks::marker(&margin, ((left + right) / 2, y), index)?;
                }
            }
            let size = fitting(&name, room - 50.0, TEXT_PIXELS, 1.0);
            let style = style(size, FontStyle::Normal, HPos::Left, VPos::Center);
            for line in &name {
                margin.draw(&Text::new(
                    line.clone(),
                    (unit(42.0) as i32, unit(top) as i32),
                    style.clone(),
                ))?;
                top += LINE_PIXELS;
            }
            top += 9.0;
        }
        Ok(plot)
    }
}

/// The names of categories on one of the axes.
pub(super) enum Names {
    /// Both axes have numbers, and no names.
    No,
    /// Names of this number of lines below the horizontal axis.
    Below(usize),
    /// Names of this width in pixels to the left of the vertical axis.
    Left(f64),
}

impl From<Option<usize>> for Names {
    fn from(below: Option<usize>) -> Self {
        below.map_or(Self::No, Self::Below)
    }
}

/// Returns the width of a plot on the area, in the library's units: the vertical axis and its margin are left out.
pub(super) fn plot_width(area: &Area) -> f64 {
    f64::from(area.dim_in_pixel().0.saturating_sub(unit(80.0)))
}

/// Draws axes on the area, with the labels under and beside them. One axis may have names in place of numbers.
pub(super) fn axes<'a, 'b>(
    area: &'b Area<'a>,
    [under, beside]: [&str; 2],
    x: Range<f64>,
    y: Range<f64>,
    names: Names,
) -> Drawn<Chart<'a, 'b>> {
    let foot = 34.0 + if let Names::Below(lines) = names { LINE_PIXELS * lines as f64 } else { 14.0 };
    let side = if let Names::Left(width) = names { 22.0 + width } else { 66.0 };
    let lying = matches!(names, Names::Left(_));
    let plot = f64::from(area.dim_in_pixel().0) / f64::from(DRAWING_SCALE) - side - 14.0;
    let mut chart = ChartBuilder::on(area)
        .margin_top(unit(6.0))
        .margin_right(unit(14.0))
        .margin_bottom(unit(4.0))
        .x_label_area_size(unit(foot))
        .y_label_area_size(unit(side))
        .build_cartesian_2d(x, y)?;
    let plain = style(TEXT_PIXELS, FontStyle::Normal, HPos::Center, VPos::Center);
    let title = style(TEXT_PIXELS + 0.5, FontStyle::Normal, HPos::Center, VPos::Center);
    let number = |value: &f64| tick(*value);
    let mut mesh = chart.configure_mesh();
    if lying {
        mesh.disable_y_mesh();
    } else {
        mesh.disable_x_mesh();
    }
    mesh.bold_line_style(ShapeStyle::from(RULE).stroke_width(unit(0.8)))
        .light_line_style(TRANSPARENT)
        .axis_style(ShapeStyle::from(INK).stroke_width(unit(1.2)))
        .set_all_tick_mark_size(unit(5.0))
        .label_style(plain)
        .x_labels(match names {
            Names::No => 11,
            Names::Below(_) => 0,
            // A number of six digits has room in 60 pixels.
            Names::Left(_) => (plot / 60.0).clamp(2.0, 10.0) as usize,
        })
        .y_labels(if lying { 0 } else { 8 })
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    let (across, up) = chart.plotting_area().get_pixel_range();
    let (left, above) = area.get_base_pixel();
    let below = up.end - above + unit(foot - 10.0) as i32;
    area.draw(&Text::new(under.to_owned(), ((across.start + across.end) / 2 - left, below), title.clone()))?;
    area.draw(&Text::new(
        beside.to_owned(),
        (unit(14.0) as i32, (up.start + up.end) / 2 - above),
        title.transform(FontTransform::Rotate270),
    ))?;
    Ok(chart)
}

/// The width of a character of plain text as a part of the text's size, and the ratio of a bold character's width to
/// that. The numbers are those of wide fonts, so that a text has room in any font that a browser takes.
const CHAR_WIDTH_RATIO: f64 = 0.64;
const BOLD_WIDTH_RATIO: f64 = 1.13;

/// Returns the width of a text of this size, in pixels.
fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * CHAR_WIDTH_RATIO * size
}

/// Breaks a text of this size between words into lines of a width in pixels; a longer word has a line of its own.
fn wrapped(text: &str, room: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + CHAR_WIDTH_RATIO * size <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the size at which lines fit into a width in pixels, at most `size`; characters are wider than plain ones
/// by the factor `wider`.
fn fitting(lines: &[String], room: f64, size: f64, wider: f64) -> f64 {
    let longest = lines.iter().map(|line| width(line, 1.0) * wider).fold(0.0, f64::max);
    if longest * size > room { room / longest } else { size }
}

/// A name beside or under an axis, broken into lines that fit into its slot.
pub(super) struct Name {
    lines: Vec<String>,
    size: f64,
}

impl Name {
    pub(super) fn fit(name: &str, room: f64) -> Self {
        let mut lines = wrapped(name, room, TEXT_PIXELS);
        lines.truncate(NAME_LINES_MAX);
        let size = fitting(&lines, room, TEXT_PIXELS, 1.0);
        Self { lines, size }
    }

    /// Returns whether all of a name fits into a slot of `room` pixels in legible letters.
    pub(super) fn fits(name: &str, room: f64) -> bool {
        let lines = wrapped(name, room, AXIS_TEXT_PIXELS_MIN);
        lines.len() <= NAME_LINES_MAX
            && fitting(&lines, room, AXIS_TEXT_PIXELS_MIN, 1.0) >= AXIS_TEXT_PIXELS_MIN
    }

    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the width of the longest line, in pixels.
    pub(super) fn width(&self) -> f64 {
        self.lines.iter().map(|line| width(line, self.size)).fold(0.0, f64::max)
    }

    /// Draws the name at the left of (x, y).
    pub(super) fn draw_left(&self, area: &Area, (x, y): (i32, i32)) -> Drawn {
        let first = -LINE_PIXELS * (self.lines.len().max(1) - 1) as f64 / 2.0;
        for (row, line) in self.lines.iter().enumerate() {
            let y = y + ((first + LINE_PIXELS * row as f64) * f64::from(DRAWING_SCALE)).round() as i32;
            let style = style(self.size, FontStyle::Normal, HPos::Right, VPos::Center);
            area.draw(&Text::new(line.clone(), (x, y), style))?;
        }
        Ok(())
    }

    /// Draws the name below the axis at (x, y).
    pub(super) fn draw(&self, area: &Area, (x, y): (i32, i32)) -> Drawn {
        for (row, line) in self.lines.iter().enumerate() {
            let y = y + unit(12.0 + LINE_PIXELS * row as f64) as i32;
            let style = style(self.size, FontStyle::Normal, HPos::Center, VPos::Center);
            area.draw(&Text::new(line.clone(), (x, y), style))?;
        }
        Ok(())
    }
}

/// Formats a number at a tick, without the rounding errors of binary fractions.
fn tick(value: f64) -> String {
    let digits = 9 - value.abs().max(1e-6).log10().ceil() as i32;
    let scale = 10f64.powi(digits);
    let clean = (value * scale).round() / scale;
    if clean == 0.0 { "0".to_owned() } else { format!("{clean}") }
}

fn style<'t>(size: f64, weight: FontStyle, h: HPos, v: VPos) -> TextStyle<'t> {
    // The library divides the size of a font by 1.24 before it writes the SVG.
    let size = size * f64::from(DRAWING_SCALE) * 1.24;
    (FontFamily::SansSerif, size, weight)
        .into_font()
        .transform(FontTransform::None)
        .color(&INK.mix(1.0))
        .pos(Pos::new(h, v))
}

/// Returns the range of an axis: the given range, or a range that contains the data, and also zero if `zero` is set.
pub(super) fn extent(axis: Option<(f64, f64)>, data: impl Iterator<Item = f64>, zero: bool) -> Range<f64> {
    if let Some((from, to)) = axis
        && from.is_finite()
        && to.is_finite()
        && from < to
    {
        return from..to;
    }
    let (mut low, mut high) = if zero { (0.0, 0.0) } else { (f64::INFINITY, f64::NEG_INFINITY) };
    for value in data.filter(|v| v.is_finite() && v.abs() < 1e100) {
        low = f64::min(low, value);
        high = f64::max(high, value);
    }
    if low > high {
        return 0.0..1.0;
    }
    if low == high {
        return if zero { 0.0..1.0 } else { low - 0.5..high + 0.5 };
    }
    if !zero {
        return low..high;
    }
    // Both ends of the axis are moved outward to numbers that a tick may show.
    let step = step((high - low) / 8.0);
    (low / step).floor() * step..(high / step).ceil() * step
}

/// Returns the round number at or above `least`.
fn step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|m| m * decade).find(|s| *s >= least).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_dust() {
        let shown: Vec<_> = [0.1 + 0.2, 0.0, -1e-17, 1500.0, 2.5, 1e-4].map(tick).into();
        assert_eq!(shown, ["0.3", "0", "0", "1500", "2.5", "0.0001"]);
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let to = |high: f64| extent(None, [high].into_iter(), true).end;
        assert_eq!(
            [to(4.93), to(48.0), to(99.9), to(0.31)].map(|v| (v * 1e6).round() / 1e6),
            [5.0, 50.0, 100.0, 0.35]
        );
        assert_eq!(extent(Some((2.0, 1.0)), std::iter::empty(), true), 0.0..1.0);
    }
}
