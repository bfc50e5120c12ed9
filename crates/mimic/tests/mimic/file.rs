//! Tables in files: each is read back as it was written, and other bytes are refused.

use mimic::{Distance, FileError, Metric, Pair, Samples, Saved, Table, TableBuilder};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{Bytes, Duration, Sectors};

fn saved(table: Table, drive: &str) -> Saved {
    Saved {
        drive: drive.to_owned(),
        capacity: Sectors::new(17_938_986),
        sector: Bytes::new(512),
        unit: Sectors::new(8),
        samples: 10,
        accesses: 123_456,
        time: Duration::from_secs(1_000),
        table,
    }
}

type Distances = BTreeMap<i64, (Vec<u32>, bool)>;

fn table(metric: Metric, curves: &[Distances], stand_in: bool) -> Table {
    let mut builder = TableBuilder::new(metric, 99);
    for (pair, curve) in Pair::ALL.into_iter().zip(curves) {
        for (distance, (times, joined)) in curve {
            let samples: Samples = times.iter().map(|ns| Duration::from_nanos(u64::from(*ns))).collect();
            assert!(builder.push(pair, Distance::new(*distance), &samples, *joined));
        }
    }
    if stand_in {
        builder.stand_in(Pair::ALL[0]);
    }
    builder.build()
}

fn distances() -> impl Strategy<Value = Distances> {
    let near = -5_000..5_000i64;
    let far = -(1i64 << 44)..1 << 44;
    let times = (prop::collection::vec(any::<u32>(), 1..6), any::<bool>());
    prop::collection::btree_map(prop_oneof![3 => near, 1 => far], times, 0..60)
}

fn tables() -> impl Strategy<Value = Saved> {
    let metric = prop::sample::select(&Metric::ALL[..]);
    (metric, prop::collection::vec(distances(), 4), any::<bool>(), ".{0,300}")
        .prop_map(|(metric, curves, stand_in, name)| saved(table(metric, &curves, stand_in), &name))
}

/// Corrects the length and the checksum of changed bytes, as an attacker would.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = (bytes.len() - 24) as u64;
    bytes[12..20].copy_from_slice(&body.to_le_bytes());
    let at = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

proptest! {
    #[test]
    fn tables_read_back_as_written(saved in tables()) {
        let read = Saved::from_bytes(&saved.to_bytes()).unwrap();
        prop_assert!(saved.drive.starts_with(&read.drive) && read.drive.len() + 4 > saved.drive.len().min(mimic::NAME_BYTES_MAX));
        prop_assert_eq!(&read.table, &saved.table);
        prop_assert_eq!(read.to_bytes(), saved.to_bytes());
    }

    #[test]
    fn no_damaged_byte_goes_unnoticed(saved in tables(), at: prop::sample::Index, bit in 0..8u32) {
        let mut bytes = saved.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Saved::from_bytes(&bytes).is_err());
    }

    #[test]
    fn a_file_that_was_cut_or_appended_to_is_refused(saved in tables(), at: prop::sample::Index, more in 1..40usize) {
        let mut bytes = saved.to_bytes();
        let cut = at.index(bytes.len());
        prop_assert!(Saved::from_bytes(&bytes[..cut]).is_err());
        bytes.extend(vec![0; more]);
        let is_length = matches!(Saved::from_bytes(&bytes), Err(FileError::Length { .. }));
        prop_assert!(is_length);
    }

    /// Even changed bytes with a matching checksum give either an error, or a table that can be used
    /// and written again.
    #[test]
    fn no_sealed_bytes_panic_the_reader(
        saved in tables(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in 0..12usize,
        asked: i64,
    ) {
        let mut bytes = saved.to_bytes();
        for (at, byte) in changes {
            let at = 20 + at.index(bytes.len() - 20);
            bytes[at] = byte;
        }
        bytes.truncate((bytes.len() - cut).max(24));
        if let Ok(read) = Saved::from_bytes(&sealed(bytes)) {
            for pair in Pair::ALL {
                read.table.time(pair, Distance::new(asked), u64::MAX);
                read.table.knots(pair).for_each(|knot| assert!(knot.distance.sectors().unsigned_abs() <= 1 << 44));
            }
            prop_assert!(Saved::from_bytes(&read.to_bytes()).is_ok());
        }
    }

    #[test]
    fn no_bytes_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(Saved::from_bytes(&bytes), Err(FileError::NotATable));
        let mut framed = b"FBMIMIC\n\x01\0\0\0".to_vec();
        framed.extend([0; 8]);
        framed.extend(bytes);
        framed.extend([0; 4]);
        prop_assert!(Saved::from_bytes(&sealed(framed)).is_err());
    }
}

#[test]
fn each_refusal_says_what_and_what_to_do() {
    let whole =
        saved(table(Metric::Mean, &[BTreeMap::from([(1, (vec![7], true))])], true), "a drive").to_bytes();
    let says = |bytes: &[u8], words: &[&str]| {
        let message = Saved::from_bytes(bytes).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    says(b"", &["no table", "mimic probe"]);
    says(b"[drive]\nname = 1", &["no table"]);
    says(&whole[..10], &["10 bytes", "probe the drive again"]);
    says(&whole[..whole.len() - 3], &["damaged", "bytes where"]);
    let mut later = whole.clone();
    later[8] = 2;
    says(&later, &["version 2", "version 1"]);
    let mut changed = whole.clone();
    changed[40] ^= 4;
    says(&changed, &["damaged", "checksum"]);
    // One curve claims 2^56 distances.
    let mut claims = whole.clone();
    let count = whole.len() - 4 - 4 - 1 - 8 - 1;
    claims[count] = 1;
    says(&sealed(claims), &["more distances than there are bytes"]);
}

/// A file that fails after a number of reads.
struct Failing {
    bytes: std::io::Cursor<Vec<u8>>,
    reads: usize,
}

impl std::io::Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.reads = self.reads.checked_sub(1).ok_or(std::io::ErrorKind::TimedOut)?;
        self.bytes.read(into)
    }
}

impl std::io::Seek for Failing {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.bytes.seek(to)
    }
}

#[test]
fn a_file_that_fails_while_it_is_read_is_refused_whenever_it_does() {
    let mut builder = TableBuilder::new(Metric::Mean, 1);
    for i in 0..3_000 {
        let samples: Samples = [Duration::from_micros(2_000 + i % 77)].into_iter().collect();
        assert!(builder.push(Pair::ALL[0], Distance::new(i as i64 * 300), &samples, true));
    }
    let saved = saved(builder.build(), "a drive");
    let mut needed = 0;
    let read = loop {
        let mut source = Failing { bytes: std::io::Cursor::new(saved.to_bytes()), reads: needed };
        match Saved::read(&mut source) {
            Err(FileError::Unreadable { .. }) => needed += 1,
            other => break other,
        }
    };
    assert_eq!(read, Ok(saved));
    assert!(needed > 10, "{needed}");
}
