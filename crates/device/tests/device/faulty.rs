//! Injected faults occur at their configured rates, and no other faults.

use device::{Answer, Ask, Device, Emulated, Failure, Faults, Faulty};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};

const PROFILE: &str = include_str!("../../../drive/tests/data/small.toml");

/// Returns the device with faults, and the file that holds its bytes.
fn over_file(test: &str, faults: Faults) -> (Faulty<Emulated>, File) {
    let profile = model::Profile::from_toml(PROFILE, "small.toml").unwrap();
    let path = std::env::temp_dir().join(format!("freeblock-faulty-{}-{test}", std::process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let below = file.try_clone().unwrap();
    (Faulty::new(Emulated::new(&profile, Default::default(), 1, file).unwrap(), faults), below)
}

fn faulty(test: &str, faults: Faults) -> Faulty<Emulated> {
    over_file(test, faults).0
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Sends the requests one by one, each when the one before is answered, or when nothing more happens because it is
/// lost.
fn run(disk: &mut Faulty<Emulated>, asks: Vec<(LbnRange, Ask)>) -> BTreeMap<u64, Answer> {
    let (mut now, mut answers) = (Instant::ZERO, BTreeMap::new());
    for (id, (range, ask)) in (0..).zip(asks) {
        disk.ask(now, id, range, ask);
        while let Some(at) = disk.next_event() {
            assert!(at >= now || disk.poll(now).is_none());
            now = now.max(at);
            disk.advance(now);
            while let Some(answer) = disk.poll(now) {
                assert!(answer.at <= now, "not before its time");
                assert!(answers.insert(answer.id, answer).is_none(), "twice");
            }
        }
    }
    answers
}

#[test]
fn each_kind_comes_as_often_as_it_should() {
    let by = Duration::from_millis(1000);
    let faults = Faults { seed: 7, failing: 100, late: 100, by, lost: 50, ..Faults::default() };
    let mut disk = faulty("often", faults.clone());
    let write = |i: u64| (range(i % 3000, 4), Ask::Write { bytes: vec![i as u8; 2048], through: false });
    let asks: Vec<_> = (0..1000).map(write).collect();
    let answers = run(&mut disk, asks.clone());
    let failed = answers.values().filter(|answer| answer.result.is_err()).count();
    assert_eq!(answers.len() as u64 + disk.lost(), 1000);
    assert!((70..130).contains(&failed), "{failed}");
    assert!((30..75).contains(&disk.lost()), "{}", disk.lost());
    let again = run(&mut faulty("often-again", faults), asks);
    let outcome = |answers: &BTreeMap<u64, Answer>| -> Vec<_> {
        answers.values().map(|a| (a.id, a.at, a.result.is_ok())).collect()
    };
    assert_eq!(outcome(&answers), outcome(&again), "by seed");
}

#[test]
fn a_write_that_fails_is_torn_and_a_bad_sector_heals_when_written() {
    let (mut disk, file) = over_file("torn", Faults { seed: 1, failing: 1000, ..Faults::default() });
    let write = (range(0, 64), Ask::Write { bytes: vec![9; 64 * 512], through: false });
    assert!(run(&mut disk, vec![write])[&0].result.is_err());
    let mut bytes = vec![0; 64 * 512];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let written = bytes.iter().take_while(|byte| **byte == 9).count();
    assert!(written > 0 && written < bytes.len() && written % 512 == 0, "{written} bytes");
    assert!(bytes[written..].iter().all(|byte| *byte == 0));

    let faults = Faults { bad: [Lbn::new(5), Lbn::new(90)].into(), ..Faults::default() };
    let mut disk = faulty("heals", faults);
    let read = |start, len| (range(start, len), Ask::Read);
    let write = (range(4, 2), Ask::Write { bytes: vec![1; 1024], through: false });
    let answers = run(&mut disk, vec![read(0, 8), read(6, 84), write, read(0, 8), read(90, 1)]);
    let bad = |id: u64| match &answers[&id].result {
        Err(Failure::Medium(lbn)) => Some(lbn.get()),
        _ => None,
    };
    assert_eq!([0, 1, 2, 3, 4].map(bad), [Some(5), None, None, None, Some(90)]);
    assert_eq!(disk.bad().count(), 1);
}
