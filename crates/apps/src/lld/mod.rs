//! A log-structured logical disk.
