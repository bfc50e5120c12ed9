//! Figures as SVG: the only module that knows `plotters`.
//!
//! The same figure gives the same bytes. Colours are Okabe and Ito's, which the colour-blind can distinguish; bars are
//! also hatched and curves marked, so that a grey print distinguishes them, too.

mod area;
mod bars;
mod lines;
mod marks;
mod rows;
mod sheet;

use crate::escape::escape;
use crate::{Figure, Kind};
use area::DRAWING_SCALE;
use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;
use sheet::Sheet;
use thiserror::Error;

/// A figure that could not be drawn: a defect of the figure or of this module.
#[derive(Debug, Error)]
#[error("figure {figure} cannot be drawn: {reason}")]
pub struct PlotError {
    /// The id of the figure.
    pub figure: String,
    /// The drawing library's error.
    pub reason: String,
}

/// Returns the figure as an SVG document for a file; `None` for a table, which has no picture.
///
/// # Errors
/// The drawing library refuses the figure.
pub fn svg(figure: &Figure) -> Result<Option<String>, PlotError> {
    Ok(drawing(figure)?.map(|body| element(&body, figure, "xmlns=\"http://www.w3.org/2000/svg\" ")))
}

/// Returns the figure as an SVG element of an HTML page, which needs no name space.
pub(crate) fn inline(figure: &Figure) -> Result<Option<String>, PlotError> {
    Ok(drawing(figure)?.map(|body| element(&body, figure, "role=\"img\" ")))
}

fn element(body: &str, figure: &Figure, attributes: &str) -> String {
    let (width, height) = size(figure);
    let scale = DRAWING_SCALE;
    let title = escape(&figure.title);
    format!(
        "<svg {attributes}width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {} {}\">\n<title>{title}</title>\n{body}",
        width * scale,
        height * scale,
    )
}

/// Returns the width and height in pixels.
fn size(figure: &Figure) -> (u32, u32) {
    match &figure.kind {
        Kind::Stacked { bars, .. } => (sheet::SIZE_PIXELS.0, bars::height(bars)),
        Kind::Distributions(lines) => (sheet::SIZE_PIXELS.0, rows::height(lines)),
        _ => sheet::SIZE_PIXELS,
    }
}

/// Returns the text between the opening tag and the end of the document.
fn drawing(figure: &Figure) -> Result<Option<String>, PlotError> {
    let mut text = String::new();
    let (width, height) = size(figure);
    let area = SVGBackend::with_string(&mut text, (width * DRAWING_SCALE, height * DRAWING_SCALE))
        .into_drawing_area();
    let sheet = Sheet::new(area);
    let drawn = match &figure.kind {
        Kind::Stacked { parts, bars } => bars::draw(sheet, figure, parts, bars),
        Kind::Lines(lines) => lines::draw(sheet, figure, lines),
        Kind::Distributions(lines) => rows::draw(sheet, figure, lines),
        Kind::Table { .. } => return Ok(None),
    };
    drawn.map_err(|error| PlotError { figure: figure.id.clone(), reason: error.to_string() })?;
    // The library's opening tag is cut off, because [`element`] writes one with other attributes.
    Ok(text.split_once(">\n").map(|(_, body)| body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Bar, Line, Point};

    fn stacked() -> Figure {
        Figure {
            id: "x".into(),
            title: "Use of the head <by> drive".into(),
            x: Axis::new("drive"),
            y: Axis::between("share (%)", 0.0, 100.0),
            kind: Kind::Stacked {
                parts: vec!["seek".into(), "rotation & rest".into()],
                bars: vec![
                    Bar { label: "A".into(), values: vec![60.0, 40.0] },
                    Bar { label: "B \"fast\"".into(), values: vec![25.0, 75.0] },
                ],
            },
        }
    }

    fn curves(points: Vec<Point>) -> Figure {
        Figure {
            id: "y".into(),
            title: "Free bandwidth".into(),
            x: Axis::new("tasks"),
            y: Axis::new("MB/s"),
            kind: Kind::Lines(vec![
                Line { label: "FCFS".into(), points },
                Line::new("SPTF", [(1.0, 1.0), (4.0, 0.5)]),
            ]),
        }
    }

    #[test]
    fn a_small_figure_is_pinned() {
        insta::assert_snapshot!("stacked", svg(&stacked()).unwrap().unwrap());
    }

    #[test]
    fn the_same_figure_gives_the_same_bytes() {
        for figure in [stacked(), curves(vec![Point { x: 1.0, y: 2.0, spread: Some((1.5, 2.5)) }])] {
            assert_eq!(svg(&figure).unwrap(), svg(&figure).unwrap());
        }
    }

    #[test]
    fn text_of_a_figure_is_escaped() {
        let text = svg(&stacked()).unwrap().unwrap();
        assert!(
            !text.contains("<by>") && text.contains("&lt;by&gt;") && text.contains("rotation &amp; rest")
        );
    }

    #[test]
    fn points_that_cannot_be_drawn_are_left_out() {
        let odd = |y| Point { x: 1.0, y, spread: Some((f64::NEG_INFINITY, f64::NAN)) };
        for points in [vec![], vec![odd(f64::NAN)], vec![odd(f64::INFINITY)], vec![odd(1e308), odd(-1e308)]] {
            svg(&curves(points)).unwrap().unwrap();
        }
        let mut figure = stacked();
        figure.y = Axis::between("share", 1.0, 1.0);
        figure.kind = Kind::Stacked { parts: vec![], bars: vec![] };
        svg(&figure).unwrap().unwrap();
        figure.kind = Kind::Stacked {
            parts: vec!["a".into()],
            bars: vec![Bar { label: String::new(), values: vec![f64::NAN, -1.0, 2.0] }],
        };
        svg(&figure).unwrap().unwrap();
        for kind in [Kind::Lines(vec![]), Kind::Distributions(vec![])] {
            figure.kind = kind;
            svg(&figure).unwrap().unwrap();
        }
        let points = vec![odd(f64::NAN), odd(-1.0), odd(0.0), odd(1e308), Point { x: 2.0, ..odd(0.5) }];
        figure.kind = Kind::Distributions(vec![Line { label: "d".into(), points }]);
        svg(&figure).unwrap().unwrap();
    }

    #[test]
    fn a_table_has_no_picture() {
        let kind = Kind::Table { columns: vec!["a".into()], rows: vec![vec!["1".into()]] };
        assert_eq!(svg(&Figure { kind, ..stacked() }).unwrap(), None);
    }

    #[test]
    fn in_a_page_a_figure_refers_to_nothing_outside() {
        assert!(!inline(&stacked()).unwrap().unwrap().contains("http"));
    }
}
