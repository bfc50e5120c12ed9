//! Values that Python passes, checked.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::fmt;
use units::{Lbn, LbnRange, Op, Sectors};

/// Returns a `ValueError` with this text.
pub(crate) fn refused(error: impl fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Reads `"read"` or `"write"`.
pub(crate) fn op(text: &str) -> PyResult<Op> {
    match text {
        "read" => Ok(Op::Read),
        "write" => Ok(Op::Write),
        _ => Err(refused(format_args!("op {text:?}; give \"read\" or \"write\""))),
    }
}

/// Returns `"read"` or `"write"`.
pub(crate) const fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
    }
}

/// Returns a range of LBNs whose end does not overflow.
pub(crate) fn range(lbn: u64, sectors: u64) -> PyResult<LbnRange> {
    match lbn.checked_add(sectors) {
        Some(_) => Ok(LbnRange::new(Lbn::new(lbn), Sectors::new(sectors))),
        None => Err(refused(format_args!("{sectors} sectors from LBN {lbn} end past any LBN; give fewer"))),
    }
}
