//! Any bytes as an image, a volume's maps, a journal entry, a checksum store, the progress of a scrub or a replica: an
//! error, or what they say they are.
#![no_main]

use apps::backup::image::{Index, scan};
use apps::backup::{Destination, Replica, restore, restore_range, salvage};
use apps::scrub::{Checksums, Limits, Plan, Scrubber, StoredChecksums};
use apps::snapshot::{Entry, Volume};
use libfuzzer_sys::fuzz_target;
use scheduler::Priority;
use units::{Instant, Lbn, LbnRange, Sectors};

#[path = "../src/idle.rs"]
mod idle;

/// A drive that takes everything.
struct Sink;

impl Destination for Sink {
    fn write_at(&mut self, _: Lbn, _: &[u8]) -> Result<bool, String> {
        Ok(true)
    }
    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(scan) = scan(&mut &*bytes) {
        assert!(scan.keep <= bytes.len() as u64);
    }
    if let Ok(index) = Index::open(&mut &*bytes) {
        assert!(
            index
                .find(&mut &*bytes, 0, u64::MAX)
                .is_ok_and(|found| found.len() as u64 <= index.header().chunks)
        );
    }
    let range = LbnRange::new(Lbn::ZERO, Sectors::new(100_000));
    let whole = restore(&mut &*bytes, None, &mut Sink);
    let _ = restore_range(&mut [bytes], range, &mut Sink);
    assert!(whole.is_err() || salvage(&mut &*bytes, None, &mut Sink).is_ok());
    let _ = Replica::resume(bytes, Sink);
    if let Ok(entry) = Entry::decode(bytes) {
        assert_eq!(entry.encode(), bytes);
    }
    if let Ok(volume) = Volume::load(bytes) {
        let space = volume.space();
        assert_eq!(space.current + space.kept + space.retired + space.free, space.slots);
    }
    let plan = Plan { range, block: Sectors::new(1), sector_bytes: 512 };
    if let Ok(mut store) = StoredChecksums::open(plan, Limits::default(), bytes.to_vec()) {
        assert!((0..100_000).step_by(991).all(|block| !store.known(block).changing));
    }
    let _ = Scrubber::resume(plan, bytes, (), &mut idle::Idle, Priority::default(), Instant::ZERO);
});
