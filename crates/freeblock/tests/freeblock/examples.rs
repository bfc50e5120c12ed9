//! Runs the example `replay` over a file.

#[path = "../../examples/replay.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod replay;

use replay::replay;
use std::path::PathBuf;

/// A file of 256 KiB without zeros, removed on drop.
struct File(PathBuf);

impl File {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freeblock-{test}-{}", std::process::id()));
        std::fs::write(&path, vec![1; 256 << 10]).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn an_iolog_is_replayed_beside_a_scan_of_the_whole_file() {
    let file = File::new("replay");
    let log = "fio version 3 iolog\n0 f add\n0 f open\n100 f write 4096 8192\n200 f read 8192 4096\n9000 f read 0 1024\n9100 f close\n";
    let report = replay(log, &file.0, None).unwrap();
    assert_eq!((report.requests, report.scanned), (3, 512));
    assert!(report.total >= report.longest);
    let bytes = std::fs::read(&file.0).unwrap();
    let zeros = |range: std::ops::Range<usize>| bytes[range].iter().filter(|byte| **byte == 0).count();
    assert_eq!((zeros(4_096..12_288), zeros(0..bytes.len())), (8_192, 8_192));
}

#[test]
fn a_log_that_cannot_be_read_is_refused_by_line_and_changes_nothing() {
    let file = File::new("refused");
    for (log, place) in [
        ("fio version 2 iolog\n", "line 1: "),
        ("fio version 3 iolog\n1 f write 0 4096\n2 f read x 512\n", "line 3: x: "),
    ] {
        let error = replay(log, &file.0, None).unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}");
    }
    assert!(std::fs::read(&file.0).unwrap().iter().all(|byte| *byte == 1));
}
