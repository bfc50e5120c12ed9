//! Runs the `freeblock` binary like a user or a script.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod activation;
mod behaviour;
#[cfg(target_os = "linux")]
mod browser;
#[cfg(target_os = "linux")]
mod crash;
#[cfg(target_os = "linux")]
mod damage;
mod demo;
mod drive;
#[cfg(target_os = "linux")]
mod emulate;
#[cfg(target_os = "linux")]
mod holes;
mod lab;
mod ledger;
#[cfg(target_os = "linux")]
mod memory;
mod mimic;
mod mistakes;
#[cfg(target_os = "linux")]
mod nbdkit;
mod packaging;
#[cfg(target_os = "linux")]
mod page;
mod parquet;
mod probe;
#[cfg(target_os = "linux")]
mod probing;
#[cfg(target_os = "linux")]
mod proofs;
#[cfg(target_os = "linux")]
mod python;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod reload;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod several;
mod simulate;
mod simulate_device;
mod simulate_drives;
mod simulate_profile;
mod simulate_replay;
mod simulate_results;
#[cfg(target_os = "linux")]
mod site;
mod support;
#[cfg(target_os = "linux")]
mod tasks;
mod terminal;
#[cfg(target_os = "linux")]
mod tls;
mod torture;
#[cfg(target_os = "linux")]
mod tour;
mod traces;
#[cfg(target_os = "linux")]
mod watching;
