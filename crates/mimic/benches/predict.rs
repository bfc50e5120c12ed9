//! How long one prediction takes.
fn main() {}
