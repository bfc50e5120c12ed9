//! Tests of drives whose medium has larger sectors than the host.

use freeblock_drive::{Drive, Waiting};
use model::profile::WriteBack;
use model::{DriveModel, Profile};
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// Returns a small drive that writes through, with sectors of `physical` bytes on the medium.
fn profile(physical: Option<u32>) -> Profile {
    let mut profile = Profile::from_toml(include_str!("../data/small.toml"), "small.toml").unwrap();
    profile.physical_sector_bytes = physical;
    let inner = &mut profile.layout.zones[1];
    inner.slips.clear();
    inner.sparing.spares = 8;
    profile.firmware.as_mut().unwrap().cache.write_back = WriteBack::None;
    profile
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Returns the service time of the last of these commands. Each is submitted when the one before is complete.
fn last(physical: Option<u32>, commands: &[(Op, LbnRange)]) -> Duration {
    let mut host = Waiting::new(Drive::new(&profile(physical)).unwrap());
    let mut took = Duration::ZERO;
    for &command in commands {
        let [(submitted, completed)] = host.carry_out(Instant::ZERO, [command]).unwrap();
        took = completed.since(submitted);
    }
    took
}

#[test]
fn a_write_of_a_part_of_a_sector_of_the_medium_costs_a_revolution() {
    let revolution = Duration::from_millis(10);
    for (start, len, parts) in
        [(8, 8, 0), (12, 4, 0), (9, 7, 1), (8, 7, 1), (9, 2, 1), (9, 10, 1), (97, 3, 1)]
    {
        let write = [(Op::Write, range(start, len))];
        let (plain, large) = (last(None, &write), last(Some(2_048), &write));
        assert_eq!(large, plain + revolution * parts, "{len} sectors from {start}");
    }
    // A write over a track boundary takes a revolution more for the first and for the last sector of the medium.
    let over = [(Op::Write, range(90, 21))];
    assert!(last(Some(2_048), &over) > last(None, &over) + revolution);
    // A read takes no longer.
    let read = [(Op::Read, range(9, 7))];
    assert_eq!(last(Some(2_048), &read), last(None, &read));
}

#[test]
fn buffered_sectors_need_not_be_read_again() {
    let commands = [(Op::Read, range(8, 8)), (Op::Write, range(9, 2))];
    assert_eq!(last(Some(2_048), &commands), last(None, &commands));
}

#[test]
fn a_layout_that_cuts_sectors_of_the_medium_is_refused_by_place() {
    let refused = |change: &dyn Fn(&mut Profile)| {
        let mut profile = profile(Some(2_048));
        change(&mut profile);
        let error = DriveModel::from_profile(&profile).unwrap_err();
        error.place
    };
    assert_eq!(refused(&|p| p.physical_sector_bytes = Some(4_096)), "layout.zone[0].sectors_per_track");
    assert_eq!(refused(&|p| p.physical_sector_bytes = Some(256)), "physical_sector_bytes");
    assert_eq!(refused(&|p| p.physical_sector_bytes = Some(3_000)), "physical_sector_bytes");
    assert_eq!(refused(&|p| p.layout.zones[1].slips = vec![5]), "layout.zone[1].slips");
    assert_eq!(refused(&|p| p.layout.zones[1].sparing.spares = 7), "layout.zone[1].slips");
    assert!(DriveModel::from_profile(&profile(Some(2_048))).is_ok());
}
