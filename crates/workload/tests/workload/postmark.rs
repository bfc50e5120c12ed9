//! The statistics and the invariants of Postmark's load.

use freeblock_workload::Share;
use freeblock_workload::postmark::{FileNumber, Operation, Phase, Postmark, PostmarkConfig, Step};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::Bytes;

fn text(step: Step) -> String {
    match step {
        Step::Operation(Operation::Create { file, directory, bytes }) => {
            format!("create {directory}/{file} {bytes}")
        }
        Step::Operation(Operation::Read { file, directory, bytes }) => {
            format!("read {directory}/{file} {bytes}")
        }
        Step::Operation(Operation::Append { file, directory, bytes }) => {
            format!("append {directory}/{file} {bytes}")
        }
        Step::Operation(Operation::Delete { file, directory }) => format!("delete {directory}/{file}"),
        Step::Phase(phase) => format!("{phase:?}"),
        Step::TransactionDone => "-".into(),
        Step::OutOfFiles => "out of files".into(),
    }
}

#[test]
fn the_first_steps_are_pinned() {
    let config = PostmarkConfig { files: 3, transactions: 4, ..PostmarkConfig::osdi00(3) };
    let steps: Vec<String> = Postmark::new(config, 42).unwrap().map(text).collect();
    assert_eq!(steps.join("\n"), PINNED);
}

/// Runs a whole load with a table of its own, and checks every step against the rules.
fn check(config: PostmarkConfig, seed: u64) -> Result<[u64; 4], TestCaseError> {
    let (low, high) = (config.size_min.get(), config.size_max.get());
    let mut files: BTreeMap<FileNumber, (u32, u64)> = BTreeMap::new();
    let mut counts = [0; 4];
    let mut phases = Vec::new();
    let (mut transactions, mut out_of_files) = (0u64, 0u64);
    let mut since_boundary = Vec::new();
    let mut youngest = 0;
    let mut load = Postmark::new(config, seed).map_err(|e| TestCaseError::fail(e.to_string()))?;
    while let Some(step) = load.next() {
        match step {
            Step::Phase(phase) => {
                match phase {
                    Phase::Transactions(0) => prop_assert_eq!(files.len(), config.files as usize),
                    Phase::Create => prop_assert!(files.is_empty()),
                    _ => {}
                }
                phases.push(phase);
            }
            Step::TransactionDone => {
                transactions += 1;
                // Read or append comes before create or delete, and each at most once.
                prop_assert!(matches!(since_boundary[..], [] | [0] | [1] | [0, 1]), "{since_boundary:?}");
                since_boundary.clear();
            }
            Step::OutOfFiles => {
                prop_assert!(files.is_empty());
                out_of_files += 1;
            }
            Step::Operation(operation) => {
                let half = match operation {
                    Operation::Create { file, directory, bytes } => {
                        prop_assert!(file.get() > youngest, "a number comes twice");
                        youngest = file.get();
                        prop_assert!(directory < config.directories);
                        prop_assert!(bytes.get() >= low && (bytes.get() < high || low == high));
                        files.insert(file, (directory, bytes.get()));
                        prop_assert!(files.len() <= 2 * config.files as usize);
                        1
                    }
                    Operation::Read { file, directory, bytes } => {
                        prop_assert_eq!(files.get(&file), Some(&(directory, bytes.get())));
                        0
                    }
                    Operation::Append { file, directory, bytes } => {
                        let Some((its, size)) = files.get_mut(&file) else {
                            return Err(TestCaseError::fail("an append to no file"));
                        };
                        prop_assert_eq!(*its, directory);
                        *size += bytes.get();
                        prop_assert!(bytes.get() > 0 && *size <= high);
                        0
                    }
                    Operation::Delete { file, directory } => {
                        prop_assert_eq!(files.remove(&file).map(|f| f.0), Some(directory));
                        1
                    }
                };
                if matches!(phases.last(), Some(Phase::Transactions(_))) {
                    since_boundary.push(half);
                    counts[match operation {
                        Operation::Read { .. } => 0,
                        Operation::Append { .. } => 1,
                        Operation::Create { .. } => 2,
                        Operation::Delete { .. } => 3,
                    }] += 1;
                }
            }
        }
        prop_assert_eq!(load.files(), files.len());
    }
    prop_assert!(files.is_empty(), "files left behind");
    let mut expected = vec![Phase::Create];
    expected.extend((0..config.phases).map(Phase::Transactions));
    expected.push(Phase::Delete);
    prop_assert_eq!(phases, expected);
    let all = u64::from(config.phases) * u64::from(config.transactions);
    // Every phase either runs to its end or stops for lack of files.
    prop_assert_eq!(transactions < all, out_of_files > 0);
    Ok(counts)
}

#[test]
fn operations_come_in_the_shares_of_their_biases() {
    let config = PostmarkConfig {
        reads: Some(Share::new(7, 10).unwrap()),
        creates: Some(Share::new(5, 10).unwrap()),
        ..PostmarkConfig::osdi00(4_000)
    };
    let [reads, appends, creates, deletes] = check(config, 3).unwrap();
    let all = 50_000.0;
    // Five standard errors; appends may be fewer, because files at the bound are not appended to.
    assert!((reads as f64 / all - 0.7).abs() < 0.0103, "{reads}");
    assert!((creates as f64 / all - 0.5).abs() < 0.0112, "{creates}");
    assert_eq!(creates + deletes, 50_000);
    assert!(reads + appends <= 50_000 && reads + appends > 49_500, "{reads} {appends}");
}

#[test]
fn sizes_and_directories_are_uniform() {
    let load = Postmark::new(PostmarkConfig::osdi00(20_000), 4).unwrap();
    let created: Vec<(u32, u64)> = load
        .take(20_001)
        .filter_map(|step| match step {
            Step::Operation(Operation::Create { directory, bytes, .. }) => Some((directory, bytes.get())),
            _ => None,
        })
        .collect();
    assert_eq!(created.len(), 20_000);
    let mean = created.iter().map(|c| c.1 as f64).sum::<f64>() / 20_000.0;
    // Uniform over 5,120 sizes: a deviation of 1,478, five standard errors of the mean are 52.
    assert!((mean - 7_679.5).abs() < 52.3, "{mean}");
    let mut cells = [0u32; 100];
    created.iter().for_each(|c| cells[c.0 as usize] += 1);
    // 99 degrees of freedom: 180 is passed by chance once in a million.
    let chi: f64 = cells.iter().map(|&n| (f64::from(n) - 200.0).powi(2) / 200.0).sum();
    assert!(chi < 180.0, "{chi}");
}

#[test]
fn a_file_at_the_bound_is_not_appended_to() {
    let one = Bytes::new(100);
    let config = PostmarkConfig {
        size_min: one,
        size_max: one,
        reads: Some(Share::NONE),
        creates: None,
        ..PostmarkConfig::new()
    };
    let [reads, appends, creates, deletes] = check(config, 5).unwrap();
    assert_eq!([reads, appends, creates, deletes], [0; 4]);
}

#[test]
fn a_pool_that_runs_dry_ends_the_phase() {
    let config = PostmarkConfig { files: 10, creates: Some(Share::NONE), phases: 2, ..PostmarkConfig::new() };
    let steps: Vec<Step> = Postmark::new(config, 6).unwrap().collect();
    assert_eq!(steps.iter().filter(|s| **s == Step::TransactionDone).count(), 10);
    assert_eq!(steps.iter().filter(|s| **s == Step::OutOfFiles).count(), 2);
}

#[test]
fn a_full_table_takes_no_more_files() {
    let config = PostmarkConfig { files: 10, creates: Some(Share::ALL), ..PostmarkConfig::new() };
    let [.., creates, deletes] = check(config, 7).unwrap();
    assert_eq!((creates, deletes), (10, 0));
}

#[test]
fn calls_are_counted_in_started_blocks() {
    let config = PostmarkConfig::new();
    let (file, directory) = (FileNumber::new(1), 0);
    assert_eq!(config.calls(Operation::Read { file, directory, bytes: Bytes::new(513) }), 2);
    assert_eq!(config.calls(Operation::Append { file, directory, bytes: Bytes::new(512) }), 1);
    assert_eq!(config.calls(Operation::Delete { file, directory }), 0);
}

#[test]
fn settings_that_make_no_load_are_named() {
    let good = PostmarkConfig::new();
    for (config, field) in [
        (PostmarkConfig { files: 0, ..good }, "files is 0"),
        (PostmarkConfig { files: u32::MAX, ..good }, "files is 4294967295"),
        (PostmarkConfig { size_min: Bytes::ZERO, ..good }, "size is 0 to 10000 bytes"),
        (PostmarkConfig { size_max: Bytes::new(499), ..good }, "size is 500 to 499 bytes"),
        (PostmarkConfig { size_max: Bytes::new(u64::MAX), ..good }, "size is 500 to 18446744073709551615"),
        (PostmarkConfig { directories: 0, ..good }, "directories is 0"),
        (PostmarkConfig { read_block: Bytes::ZERO, ..good }, "read_block is 0"),
        (PostmarkConfig { write_block: Bytes::ZERO, ..good }, "write_block is 0"),
    ] {
        let message = Postmark::new(config, 1).unwrap_err().to_string();
        assert!(message.starts_with(field) && message.contains("; give"), "{message}");
    }
}

proptest! {
    #[test]
    fn no_operation_touches_a_file_that_does_not_exist(
        seed: u64,
        files in 1u32..60,
        transactions in 0u32..200,
        phases in 0u32..4,
        directories in 1u32..5,
        size_min in 1u64..50,
        more in 0u64..50,
        reads in prop::option::of(0u64..=10),
        creates in prop::option::of(0u64..=10),
    ) {
        let tenths = |n: Option<u64>| n.map(|n| Share::new(n, 10).unwrap());
        let config = PostmarkConfig {
            files,
            size_min: Bytes::new(size_min),
            size_max: Bytes::new(size_min + more),
            transactions,
            phases,
            directories,
            reads: tenths(reads),
            creates: tenths(creates),
            ..PostmarkConfig::new()
        };
        check(config, seed)?;
    }
}

const PINNED: &str = "\
Create
create 0/1 8488
create 38/2 9220
create 65/3 6741
Transactions(0)
append 0/1 417
delete 65/3
-
read 0/1 8905
delete 38/2
-
append 0/1 1055
create 81/4 7468
-
append 81/4 948
create 89/5 6664
-
Transactions(1)
read 0/1 9960
delete 81/4
-
read 89/5 6664
create 78/6 6369
-
read 78/6 6369
delete 89/5
-
read 78/6 6369
create 76/7 9680
-
Delete
delete 0/1
delete 78/6
delete 76/7";
