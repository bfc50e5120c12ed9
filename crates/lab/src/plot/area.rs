//! The area that is drawn on, and its unit of length.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};

/// The units of the drawing in a pixel: the library rounds all places to whole units, which is invisible at this
/// scale.
pub(super) const DRAWING_SCALE: u32 = 4;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawError = DrawingAreaErrorKind<std::io::Error>;
pub(super) type Drawn<T = ()> = Result<T, DrawError>;

/// Converts a length in pixels to the library's units.
pub(super) fn unit(pixels: f64) -> u32 {
    (pixels * f64::from(DRAWING_SCALE)).round() as u32
}
