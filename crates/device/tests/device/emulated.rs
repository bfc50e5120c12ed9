//! The emulated drive on virtual time, compared with an array.

use device::{Ask, Emulated, EmulatedError, Failure};
use drive::{BadSectors, Behaviour};
use model::Profile;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use units::{Instant, Lbn, LbnRange, Sectors};

fn profile() -> Profile {
    Profile::from_toml(include_str!("../../../drive/tests/data/small.toml"), "small.toml").unwrap()
}

/// Returns a file without a name, which is deleted when it is closed.
fn file(name: &str) -> File {
    let path = std::env::temp_dir().join(format!("freeblock-device-{}-{name}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// If requests for a sector do not overlap in time, each read returns the bytes of the last write. Every
    /// request is answered once, and answers come in the order of their instants.
    #[test]
    fn an_emulated_drive_is_an_array_that_takes_its_time(
        asks in prop::collection::vec((0..3400u64, 1..64u64, 0..5u8, any::<bool>()), 1..60),
        noisy in any::<bool>(), seed in any::<u64>(),
    ) {
        let behaviour = if noisy { Behaviour::fast02() } else { Behaviour::default() };
        let mut disk = Emulated::new(&profile(), behaviour, seed, file("array")).unwrap();
        let capacity = disk.size().get() / 512;
        let mut array = vec![0u8; disk.size().get() as usize];
        let (mut now, mut before) = (Instant::ZERO, Instant::ZERO);
        let mut open: BTreeMap<u64, (LbnRange, u8)> = BTreeMap::new();
        for (id, (start, len, kind, wait)) in (0..).zip(asks) {
            let range = range(start.min(capacity - 64), len);
            let bytes = range.start().get() as usize * 512..range.end().get() as usize * 512;
            let fill = id as u8 + 1;
            // Requests for one sector that overlap in time may be executed in any order, so the test first
            // waits for such requests.
            let clash = open.values().any(|(other, _)| other.overlaps(range));
            let ask = match kind {
                0 => Ask::Read,
                1 => Ask::Write { bytes: vec![fill; bytes.len()], through: wait },
                2 => Ask::WriteZeroes { through: wait, keep: fill & 1 == 0 },
                3 => Ask::Discard,
                _ => Ask::Flush,
            };
            while let Some(at) = disk.next_event().filter(|_| wait || clash) {
                now = now.max(at);
                disk.advance(now);
                while let Some(answer) = disk.poll(now) {
                    prop_assert!(answer.at >= before && answer.at <= now);
                    before = answer.at;
                    let (range, kind) = open.remove(&answer.id).unwrap();
                    let bytes = range.start().get() as usize * 512..range.end().get() as usize * 512;
                    match kind {
                        0 => prop_assert!(answer.result.unwrap() == array[bytes]),
                        _ => prop_assert!(answer.result.unwrap().is_empty()),
                    }
                }
            }
            match &ask {
                Ask::Write { bytes: new, .. } => array[bytes].copy_from_slice(new),
                // The test's file system has holes, so a discarded range reads as zeroes.
                Ask::WriteZeroes { .. } | Ask::Discard => array[bytes].fill(0),
                Ask::Read | Ask::Flush => {}
            }
            disk.ask(now, id, range, ask);
            open.insert(id, (range, kind));
        }
        while let Some(at) = disk.next_event() {
            now = now.max(at);
            disk.advance(now);
            while let Some(answer) = disk.poll(now) {
                prop_assert!(open.remove(&answer.id).is_some());
            }
        }
        prop_assert!(open.is_empty());
    }
}

/// A range whose space must be kept is zeroed in pieces of 1 MiB.
#[test]
fn a_range_longer_than_a_piece_is_zeroed_to_its_end_and_no_further() {
    let mut disk = Emulated::new(&profile(), Behaviour::default(), 1, file("pieces")).unwrap();
    let size = disk.size().get() as usize;
    let mut now = Instant::ZERO;
    let mut answer = |range, ask| {
        disk.ask(now, 1, range, ask);
        loop {
            now = disk.next_event().unwrap();
            disk.advance(now);
            if let Some(answer) = disk.poll(now) {
                return answer.result.unwrap();
            }
        }
    };
    let whole = range(0, size as u64 / 512);
    answer(whole, Ask::Write { bytes: vec![7; size], through: false });
    let zeroed = range(3, whole.len().get() - 10);
    assert!(zeroed.len().get() * 512 > 3 << 19, "a piece and a half");
    answer(zeroed, Ask::WriteZeroes { through: false, keep: true });
    let mut expected = vec![0; size];
    expected[..3 * 512].fill(7);
    expected[size - 7 * 512..].fill(7);
    assert!(answer(whole, Ask::Read) == expected);
}

#[test]
fn invalid_requests_fail_and_no_others() {
    let bad_sectors = Some(BadSectors { count: 1, retries: 0 });
    let mut disk =
        Emulated::new(&profile(), Behaviour { bad_sectors, ..Behaviour::default() }, 1, file("bad")).unwrap();
    let bad = disk.drive().unreadable().next().unwrap();
    let end = disk.size().get() / 512;
    let asks = [
        (range(end, 1), Ask::Read),
        (range(0, 0), Ask::Read),
        (range(0, 2), Ask::Write { bytes: vec![0; 512], through: false }),
        (LbnRange::new(bad, Sectors::new(1)), Ask::Read),
    ];
    for (id, (range, ask)) in (0..).zip(asks) {
        disk.ask(Instant::ZERO, id, range, ask);
    }
    let mut failures = BTreeMap::new();
    while let Some(at) = disk.next_event() {
        disk.advance(at);
        while let Some(answer) = disk.poll(at) {
            failures.insert(answer.id, answer.result.unwrap_err());
        }
    }
    assert!(matches!(failures[&0], Failure::Command(_)));
    assert!(matches!(failures[&1], Failure::Command(_)));
    assert!(matches!(failures[&2], Failure::Length { found: 512, .. }));
    assert!(matches!(failures[&3], Failure::Medium(lbn) if lbn == bad));
    assert_eq!(failures.len(), 4);
}

#[test]
fn another_drives_file_is_not_taken() {
    let other = file("other");
    other.set_len(12_345).unwrap();
    let error = Emulated::new(&profile(), Behaviour::default(), 1, other).unwrap_err();
    assert!(matches!(error, EmulatedError::OtherSize { .. }));
    assert!(error.to_string().contains("give a new file"), "{error}");
}
