//! The integration tests of freeblock-model, in one binary: it is linked once, and its tests run beside one another.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod builtin;
mod import_cases;
mod import_drives;
mod import_errors;
mod import_files;
mod import_forms;
mod import_fuzz;
mod import_oracle;
mod layout;
mod wong;
