//! Any bytes as a table of the Disk Mimic: an error, or a table that can be asked and written again. The checksum is made
//! right as well, or little would be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mimic::{Distance, Pair, Saved};

fuzz_target!(|bytes: &[u8]| {
    let _ = Saved::from_bytes(bytes);
    let mut whole = b"FBMIMIC\n\x01\0\0\0".to_vec();
    whole.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    whole.extend_from_slice(bytes);
    let sum = crc32(&whole);
    whole.extend_from_slice(&sum.to_le_bytes());
    if let Ok(saved) = Saved::from_bytes(&whole) {
        for pair in Pair::ALL {
            for knot in saved.table.knots(pair).take(100) {
                let after = Distance::new(knot.distance.sectors() + 1);
                assert!(saved.table.time(pair, knot.distance, 0).is_some());
                saved.table.time(pair, after, u64::MAX);
            }
        }
        assert_eq!(Saved::from_bytes(&saved.to_bytes()).map(|again| again.table), Ok(saved.table));
    }
});

/// A bit at a time: nothing here needs to be fast.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}
