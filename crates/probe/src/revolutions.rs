//! Arithmetic on angles, in revolutions.

/// Returns the angle without its whole revolutions, in [0, 1).
pub(crate) fn frac(revolutions: f64) -> f64 {
    let f = revolutions.rem_euclid(1.0);
    if f >= 1.0 { 0.0 } else { f }
}

/// Returns the shorter of the two rotations that lead to the angle, in [-0.5, 0.5).
pub(crate) fn wrap(revolutions: f64) -> f64 {
    frac(revolutions + 0.5) - 0.5
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
