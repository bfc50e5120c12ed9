//! A log is read as it was acknowledged, or damage is reported.
#![allow(clippy::unwrap_used)]

pub(crate) mod faults;

use self::faults::{FileFault, Share, all_faults, inject};
use super::{Broken, Damage, Log, LogKind, Scan};
use crate::file_system::Files;
use crate::manager::tests::memory::{MemoryFiles, below};
use proptest::prelude::*;
use std::path::Path;
use workload::random::Stream;

const LOG: &str = "/state/log";
const END: &str = "/state/log.end";
const NUMBER: u64 = 77;

type Bodies = Vec<Vec<u8>>;

fn read(files: &MemoryFiles) -> Result<Option<(Bodies, Scan)>, Broken> {
    let mut bodies = Vec::new();
    let scan = Scan::read(files, Path::new(LOG), LogKind::Kept, Some(NUMBER), |body| {
        bodies.push(body.to_vec());
        true
    })?;
    Ok(scan.map(|scan| (bodies, scan)))
}

fn resume(files: &MemoryFiles) -> (Bodies, Log) {
    let (bodies, scan) = read(files).unwrap().unwrap();
    (bodies, Log::resume(files, Path::new(LOG), LogKind::Kept, scan).unwrap())
}

fn create(files: &MemoryFiles, body: &[u8]) -> Log {
    Log::create(files, Path::new(LOG), LogKind::Kept, NUMBER, body, b"0").unwrap()
}

/// An operation on a log.
#[derive(Clone, Debug)]
enum LogStep {
    Append(Vec<u8>),
    Replace(Vec<u8>),
    Resume,
}

fn arb_step() -> impl Strategy<Value = LogStep> {
    let body = || proptest::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        4 => body().prop_map(LogStep::Append),
        1 => body().prop_map(LogStep::Replace),
        1 => Just(LogStep::Resume),
    ]
}

/// Executes a step and updates the expected content of the log.
fn step(files: &MemoryFiles, log: &mut Log, bodies: &mut Bodies, step: &LogStep) -> std::io::Result<()> {
    match step {
        LogStep::Append(body) => {
            log.append(body, b"note")?;
            bodies.push(body.clone());
        }
        LogStep::Replace(body) => {
            log.replace(files, body, b"note")?;
            *bodies = vec![body.clone()];
        }
        LogStep::Resume => {
            let (_, scan) = read(files).unwrap().unwrap();
            *log = Log::resume(files, Path::new(LOG), LogKind::Kept, scan)?;
        }
    }
    Ok(())
}

#[test]
fn every_damage_to_log_or_end_is_named_and_nothing_else_comes_of_it() {
    let files = MemoryFiles::default();
    let mut log = create(&files, b"first");
    let mut bodies = vec![b"first".to_vec()];
    let mut older: Vec<[Vec<u8>; 2]> = Vec::new();
    let both = || [LOG, END].map(|path| files.get(path).unwrap());
    let steps = [
        LogStep::Append(b"one".to_vec()),
        LogStep::Append(Vec::new()),
        LogStep::Replace(b"anew".to_vec()),
        LogStep::Append(b"three".to_vec()),
        LogStep::Append(b"four, which is longer".to_vec()),
    ];
    for one in steps {
        older.push(both());
        step(&files, &mut log, &mut bodies, &one).unwrap();
    }
    for (index, path) in [LOG, END].into_iter().enumerate() {
        let former: Vec<Vec<u8>> = older.iter().map(|both| both[index].clone()).collect();
        for one in all_faults(&files.get(path).unwrap(), &former, Share::Every) {
            let damaged = files.copy();
            inject(&damaged, path, &one);
            match read(&damaged) {
                // A power cut may tear one slot, or leave the end file as it was before the last record.
                Ok(Some((found, _))) => {
                    let like_a_power_cut = path == END
                        && match &one {
                            FileFault::Flip { .. } => true,
                            FileFault::Older(moment, _) => moment + 1 == older.len(),
                            _ => false,
                        };
                    assert!(like_a_power_cut, "{path} {one:?} was not noticed");
                    assert_eq!(found, bodies, "{path} {one:?}");
                    // The log can be continued.
                    let (_, mut log) = resume(&damaged);
                    log.append(b"more", b"").unwrap();
                    assert_eq!(read(&damaged).unwrap().unwrap().0.len(), bodies.len() + 1);
                }
                Ok(None) => panic!("{path} {one:?}: taken for new"),
                Err(broken) => {
                    assert!(broken.to_string().starts_with("/state/log"), "{broken}");
                    assert!(!broken.whole || path == END, "{one:?}: {broken}");
                }
            }
        }
    }
}

/// The length of a record may be damaged, so memory is not allocated by the length alone.
#[test]
fn a_record_is_sound_whatever_its_length_and_a_damaged_length_is_noticed() {
    let files = MemoryFiles::default();
    let mut log = create(&files, b"first");
    let long = vec![7; (3 << 20) + 5];
    log.append(&long, b"").unwrap();
    log.append(b"last", b"").unwrap();
    assert_eq!(read(&files).unwrap().unwrap().0, [b"first".to_vec(), long, b"last".to_vec()]);
    let bytes = files.get(LOG).unwrap();
    for at in (28 + 20 + 5 + 4)..(28 + 20 + 5 + 4 + 4) {
        for by in (0..8).map(|bit| 1 << bit) {
            inject(&files, LOG, &FileFault::Flip { at, by });
            let broken = read(&files).unwrap_err();
            assert!(matches!(broken.damage, Damage::Record { sequence: 2, .. }), "{broken}");
            files.put(LOG, &bytes);
        }
    }
}

/// The checksum and sequence of a record copied from another log are right, and the end file fits the log. But the
/// checksum of the next record does not continue from the copied one.
#[test]
fn a_sound_record_of_another_log_between_others_is_noticed() {
    let written = |middle: &[u8]| {
        let files = MemoryFiles::default();
        let mut log = create(&files, b"first");
        let begin = files.get(LOG).unwrap().len();
        log.append(middle, b"").unwrap();
        let end = files.get(LOG).unwrap().len();
        log.append(b"last", b"").unwrap();
        (files, begin..end)
    };
    let ((files, place), (other, same)) = (written(b"this"), written(b"that"));
    assert_eq!(place, same);
    let mut bytes = files.get(LOG).unwrap();
    bytes[place.clone()].copy_from_slice(&other.get(LOG).unwrap()[place]);
    files.put(LOG, &bytes);
    let broken = read(&files).unwrap_err();
    assert!(matches!(broken.damage, Damage::Record { sequence: 3, .. }), "{broken}");
}

#[test]
fn a_log_of_another_task_disk_or_kind_is_refused() {
    let files = MemoryFiles::default();
    drop(create(&files, b"first"));
    let read = |kind, number| Scan::read(&files, Path::new(LOG), kind, number, |_| true);
    assert!(read(LogKind::Kept, None).unwrap().is_some());
    assert_eq!(read(LogKind::Kept, Some(78)).unwrap_err().damage, Damage::Other);
    assert_eq!(read(LogKind::Moves, Some(NUMBER)).unwrap_err().damage, Damage::Other);
    let bytes = files.get(LOG).unwrap();
    files.put(LOG, b"FBIMAGE1 and so on, which is of an earlier version");
    assert_eq!(read(LogKind::Kept, None).unwrap_err().damage, Damage::Foreign);
    let mut newer = bytes;
    newer[8] = 2;
    let check = crc32fast::hash(&newer[..24]);
    newer[24..28].copy_from_slice(&check.to_le_bytes());
    files.put(LOG, &newer);
    assert_eq!(read(LogKind::Kept, None).unwrap_err().damage, Damage::Version(2));
}

/// A complete record behind the acknowledged ones counts, because a power cut may have left an older end file. A record
/// that is cut anywhere was never acknowledged, and is dropped.
#[test]
fn a_record_that_is_cut_and_was_never_acknowledged_never_happened() {
    let files = MemoryFiles::default();
    let mut log = create(&files, b"first");
    log.append(b"second", b"").unwrap();
    let (before, end) = (files.get(LOG).unwrap(), files.get(END).unwrap());
    log.append(b"third", b"").unwrap();
    let whole = files.get(LOG).unwrap();
    for len in before.len()..=whole.len() {
        for zeroes in [0, 5000] {
            let mut torn = whole[..len].to_vec();
            torn.resize(len + zeroes, 0);
            files.put(LOG, &torn);
            files.put(END, &end);
            let third = len == whole.len();
            let (bodies, mut log) = resume(&files);
            assert_eq!(bodies.len(), if third { 3 } else { 2 });
            log.append(b"more", b"").unwrap();
            assert_eq!(read(&files).unwrap().unwrap().0.last().unwrap(), b"more");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The process is killed after any call, with or without a power cut.
    #[test]
    fn a_kill_loses_nothing_acknowledged_and_looks_like_no_damage(
        steps in proptest::collection::vec(arb_step(), 1..8),
        calls in 0u64..60,
        seed: u64,
        power: bool,
    ) {
        let files = MemoryFiles::default();
        files.stop_after(Some(calls));
        let (mut acknowledged, mut tried) = (Vec::new(), None);
        match Log::create(&files, Path::new(LOG), LogKind::Kept, NUMBER, b"first", b"0") {
            Err(_) => tried = Some(vec![b"first".to_vec()]),
            Ok(mut log) => {
                acknowledged = vec![b"first".to_vec()];
                for one in &steps {
                    let mut next = acknowledged.clone();
                    match one {
                        LogStep::Append(body) => next.push(body.clone()),
                        LogStep::Replace(body) => next = vec![body.clone()],
                        LogStep::Resume => {}
                    }
                    if step(&files, &mut log, &mut acknowledged, one).is_err() {
                        tried = Some(next);
                        break;
                    }
                }
            }
        }
        files.stop_after(None);
        if power {
            let mut chance = Stream::new(seed, "power");
            files.power_cut(|n| below(&mut chance, n));
        }
        let found = read(&files);
        prop_assert!(found.is_ok(), "taken for damage: {:?}", found);
        let found = found.unwrap().map_or(Vec::new(), |(bodies, _)| bodies);
        prop_assert!(found == acknowledged || Some(&found) == tried.as_ref(), "{:?} after {:?}", found, acknowledged);
        // The log continues as if there had been no kill.
        if !found.is_empty() {
            let (_, mut log) = resume(&files);
            log.append(b"more", b"").unwrap();
            log.replace(&files, b"anew", b"").unwrap();
            prop_assert_eq!(read(&files).unwrap().unwrap().0, vec![b"anew".to_vec()]);
        }
    }

    /// After a failed call the log is replaced, and the records before then count as no damage.
    #[test]
    fn a_log_is_replaced_after_failed_calls(calls in 0u64..12, then in 0u64..12, more in 0u64..12) {
        let files = MemoryFiles::default();
        let mut log = create(&files, b"first");
        log.append(b"second", b"").unwrap();
        for calls in [calls, then] {
            files.stop_after(Some(calls));
            let _ = log.append(b"third", b"");
            let _ = log.replace(&files, b"fourth", b"");
        }
        files.stop_after(None);
        prop_assert!(read(&files).is_ok(), "{:?}", read(&files));
        log.replace(&files, b"anew", b"").unwrap();
        prop_assert_eq!(read(&files).unwrap().unwrap().0, vec![b"anew".to_vec()]);
        files.stop_after(Some(more));
        let _ = log.append(b"last", b"");
        files.stop_after(None);
        prop_assert!(read(&files).is_ok());
    }

    #[test]
    fn no_bytes_panic_the_reader_of_logs(log in proptest::collection::vec(any::<u8>(), 0..99), end: Option<bool>, sound: bool) {
        let files = MemoryFiles::default();
        if end.is_some() {
            drop(create(&files, b"first"));
        }
        let mut bytes = if sound { files.get(LOG).unwrap_or_default() } else { Vec::new() };
        bytes.extend(&log);
        files.put(LOG, &bytes);
        if end == Some(false) {
            files.put(END, &log);
        }
        let _ = read(&files);
    }
}

/// The creation fails at every possible call, as in a full state directory.
#[test]
fn a_removal_leaves_nothing_of_a_creation_that_failed() {
    for calls in 0.. {
        let files = MemoryFiles::default();
        files.stop_after(Some(calls));
        let made = Log::create(&files, Path::new(LOG), LogKind::Kept, NUMBER, b"first", b"0");
        files.stop_after(None);
        Log::remove(&files, Path::new(LOG)).unwrap();
        assert_eq!(files.list(Path::new("/state")).unwrap(), [""; 0], "after {calls} calls");
        if made.is_ok() {
            break;
        }
    }
}
