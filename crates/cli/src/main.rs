//! The `freeblock` command.
fn main() {}
