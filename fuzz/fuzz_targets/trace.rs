//! Any bytes as a trace of the format that the first byte chooses, and as whatever they look like.
#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::trace::{self, TraceFormat};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let _ = trace::read(bytes);
    let format = TraceFormat::ALL[usize::from(*choice) % TraceFormat::ALL.len()];
    if let Ok(trace) = trace::read_as(format, bytes) {
        assert!(trace.records.iter().all(|r| !r.range.is_empty()));
    }
});
