//! The native part of the Python module `freeblock`. Its Python part, with the documentation of every name, is in
//! `clients/python`.
//!
//! Simulations run without the interpreter's lock. A policy or an iterator of requests in Python gets the lock back for each
//! call.

// The arguments of functions that Python calls are values.
#![allow(clippy::needless_pass_by_value)]

mod core;
mod foreign;
mod run;
mod simulated;
mod table;
mod values;

use pyo3::prelude::*;

/// The native part of freeblock; use the module `freeblock`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::core::{Access, Completed, Core, Cut, Deliver, Execute, Failed, Send};
    #[pymodule_export]
    use crate::foreign::Waiting;
    #[pymodule_export]
    use crate::run::{CommandFailed, options, run, simulate};
    #[pymodule_export]
    use crate::simulated::{Drive, Reply};
    #[pymodule_export]
    use crate::table::{Table, table};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
