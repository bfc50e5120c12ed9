//! The facade from outside: its own parts, and its examples.

mod commands;
mod examples;
