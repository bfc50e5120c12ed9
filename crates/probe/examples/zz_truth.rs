#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
#[path = "../tests/common/mod.rs"]
mod common;
fn main() { for a in std::env::args().skip(1) { println!("{}", common::random(a.parse().unwrap()).to_toml()); } }
