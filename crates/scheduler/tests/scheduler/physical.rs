//! Drives whose medium has sectors larger than the host's.

use freeblock_scheduler::{Config, Core, Parameter, Priority, SessionError, Sessions};
use model::{DriveModel, builtin};
use std::sync::Arc;
use units::{Lbn, LbnRange, Sectors};

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Returns a core over the 4 TB drive, with physical sectors of this size in bytes.
fn core(physical: Option<u32>) -> Core {
    let mut profile = builtin::find("nearline-4tb").unwrap();
    profile.physical_sector_bytes = physical;
    // The last zones of the drive have densities that are no multiple of 8.
    profile.layout.zones.truncate(8);
    Core::new(Arc::new(DriveModel::from_profile(&profile).unwrap()), Config::default())
}

#[test]
fn background_writes_of_parts_of_a_sector_of_the_medium_are_refused() {
    let mut core = core(Some(4_096));
    let session = core.open(Priority::default()).unwrap();
    for (start, len, block) in [(0, 64, 4), (4, 64, 8), (0, 60, 8), (1, 1, 1)] {
        let block = Sectors::new(block);
        let refused = core.write(session, range(start, len), block, Parameter(0)).unwrap_err();
        assert!(matches!(refused, SessionError::PartOfSector { .. }), "{start} + {len}: {refused}");
        assert!(refused.to_string().contains("give multiples of 8"), "{refused}");
        // Reads of any size cost nothing more.
        assert!(core.read(session, range(start, len), block, Parameter(0)).is_ok());
    }
    assert!(core.write(session, range(8, 64), Sectors::new(16), Parameter(0)).is_ok());
}

#[test]
fn a_medium_with_the_hosts_sectors_takes_any_background_write() {
    let mut core = core(None);
    let session = core.open(Priority::default()).unwrap();
    assert!(core.write(session, range(1, 1), Sectors::new(1), Parameter(0)).is_ok());
}
