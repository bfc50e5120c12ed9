//! Parameter files of users that are easily imported wrongly: the files of `../shared/cases/import`, if they are available,
//! and small inputs written for the same difficulties.

use crate::import_files::{CURVE, MECHANICS, Memory, g1, model};
use freeblock_model::disksim::{self, ImportError, Imported, import_from};
use freeblock_model::profile::{QueueOrder, Seek};
use freeblock_model::{DriveModel, Profile};
use std::path::{Path, PathBuf};

fn case(name: &str) -> Option<PathBuf> {
    testing::shared(&format!("cases/import/{name}"))
}

/// Imports one disk of a file on disk.
fn import_disk(path: &Path, disk: Option<&str>) -> Result<Imported, ImportError> {
    import_from(&|path: &Path| std::fs::read(path), path, disk)
}

fn capacity(profile: &Profile) -> u64 {
    DriveModel::from_profile(profile).unwrap().layout().capacity().get()
}

#[track_caller]
fn assert_notes(imported: &Imported, part: &str) {
    assert!(imported.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", imported.notes);
}

/// Returns a `dm_layout_g4` of two nodes. The root's last entry, with run length `run` and LBN length `len`, may declare
/// more LBNs than the 100 of its child.
fn long_tail(run: &str, len: &str) -> String {
    format!(
        "dm_layout_g4 {{ TP = [ 0, 9, 10 ], IDX = [
           [ 0, 0, 0.0, 10, 1, 0.1, 50, 5, TRACK, 0, 0, 50, 4, 0.1, 10, 1, 0.1, 50, -5, TRACK, 0, 1 ],
           [ 0, 0, 0.0, 100, 5, 0.0, 100, 5, IDX, 0, 100, 5, 0.0, {len}, 5, 0.0, {run}, 5, IDX, 0 ]
         ], Slips = [ 30, 3 ] }}"
    )
}

#[test]
fn a_last_root_entry_longer_than_its_node_ends_with_the_node() {
    for (run, len) in [("140", "140"), ("130", "200")] {
        let imported = model(&long_tail(run, len)).import("a.model").unwrap();
        assert_eq!(capacity(&imported.profile), 197, "run {run} of {len}");
        assert_notes(&imported, "its node 0 holds 100; the entry ends there");
    }
    // An entry that declares the LBNs of its child stays as it is. One with two repetitions is refused, not shortened.
    let whole = model(&long_tail("100", "100")).import("a.model").unwrap();
    assert_eq!(capacity(&whole.profile), 197);
    assert!(!whole.notes.iter().any(|note| note.contains("ends there")), "{:?}", whole.notes);
    let refused = model(&long_tail("280", "140")).import("a.model").unwrap_err();
    assert!(refused.to_string().contains("140 LBNs are wanted of node 0"), "{refused}");
}

#[test]
fn the_cases_with_exact_and_long_tails_map_the_same() {
    let (Some(exact), Some(long)) = (case("g4-exact.model"), case("g4-longtail.model")) else { return };
    let exact = disksim::import(&exact).unwrap();
    let long = disksim::import(&long).unwrap();
    assert_eq!(capacity(&exact.profile), 3_997);
    assert_eq!(exact.profile.layout, long.profile.layout);
    assert_notes(&long, "declares 2050 LBNs and its node 0 holds 2000");
}

#[test]
fn a_seek_file_needs_no_header() {
    let with = |seek: &str| model(&g1(0, 9, "")).with("a.seek", seek).import("a.model").unwrap().profile;
    let bare = with("1,\t1.5\n4, 2.5, 0.1\n\n9, 4e0\n");
    assert_eq!(bare, with(CURVE));
    assert_eq!(bare.mechanics.seek_spread_ms, [(4, 0.1)]);
    let refused = model(&g1(0, 9, "")).with("a.seek", "distances\n1, 1.5\n").import("a.model").unwrap_err();
    assert!(refused.to_string().contains("a.seek:1:1"), "{refused}");
    let Some(path) = case("seek-without-header.model") else { return };
    let imported = disksim::import(&path).unwrap();
    assert_eq!(imported.profile.seek, Seek::Table { points: vec![(1, 1.0), (5, 2.0), (9, 3.0)] });
    assert_eq!(imported.profile.mechanics.seek_spread_ms, [(1, 0.01), (5, 0.02), (9, 0.02)]);
    assert_eq!(imported.profile.mechanics.write_settle_ms, 0.2);
}

#[test]
fn a_fourth_column_of_a_seek_file_is_the_time_to_write() {
    let with = |seek: &str| model(&g1(0, 9, "")).with("a.seek", seek).import("a.model").unwrap();
    let same = with("1, 1.5, 0.1, 1.65\n9, 4, 0.1, 4.15\n");
    assert_eq!(same.profile.mechanics.write_settle_ms, -0.25 + 0.15);
    assert!(!same.notes.iter().any(|note| note.contains("seeks to write")), "{:?}", same.notes);
    let other = with("1, 1.5, 0.1, 1.6\n9, 4, 0.1, 4.3\n");
    assert_eq!(other.profile.mechanics.write_settle_ms, -0.25 + 0.2);
    assert_notes(&other, "seeks to write take 0.100 to 0.300 ms more");
}

/// Returns a `.parv` file that specifies drives with the names `disks`, and then has `statements`.
fn parv(disks: &[&str], statements: &str) -> Memory {
    let disks: String = disks
        .iter()
        .map(|name| {
            format!(
                "disksim_disk {name} {{ Model = dm_disk M{name} {{ Number of data surfaces = 2,
                 Number of cylinders = 10, Block count = 200, Layout Model = {},
                 Mechanical Model = {} }}, Bulk sector transfer time = 0.01 }}\n",
                g1(0, 9, ""),
                MECHANICS
            )
        })
        .collect();
    let buses = "disksim_bus FAST { Read block transfer time = 0.0, Write block transfer time = 0.0 }
        disksim_bus SLOW { Read block transfer time = 0.05, Write block transfer time = 0.06 }
        disksim_ctlr C { Bulk sector transfer time = 0.0 }\n";
    Memory::default().with("a.seek", CURVE).with("a.parv", format!("{buses}{disks}{statements}"))
}

fn bus_times(imported: &Imported) -> (f64, f64) {
    let firmware = imported.profile.firmware.as_ref().unwrap();
    (firmware.bus_read_sector_ms, firmware.bus_write_sector_ms)
}

#[test]
fn a_range_of_instances_leads_to_the_bus() {
    for range in ["[ b1 .. b3 ]", "[ b0, b1..b3 ]", "[ b1 .. b2, b3 ]"] {
        let statements = format!(
            "instantiate [ x0 ] as FAST instantiate {range} as SLOW instantiate [ c0 ] as C
             instantiate [ d0 .. d7 ] as D
             topology disksim_iodriver i [ disksim_bus x0 [ disksim_ctlr c0 [ disksim_bus b3 [ disksim_disk d5 [] ] ] ] ]"
        );
        let imported = parv(&["D"], &statements).import("a.parv").unwrap();
        assert_eq!(bus_times(&imported), (0.05, 0.06), "{range}");
    }
    let lost = "instantiate [ d0 ] as D topology disksim_bus b9 [ disksim_disk d0 [] ]";
    assert_notes(
        &parv(&["D"], lost).import("a.parv").unwrap(),
        "the bus `b9` of the topology is not specified",
    );
    for wrong in ["[ b1 .. c3 ]", "[ b3 .. b1 ]", "[ b1 .. ]", "[ .. b1 ]", "[ b .. b3 ]"] {
        let statements = format!("instantiate {wrong} as SLOW");
        let refused = parv(&["D"], &statements).import("a.parv").unwrap_err().to_string();
        assert!(refused.contains("a.parv:") && refused.contains("write both ends"), "{wrong}: {refused}");
    }
    let Some(path) = case("bus-range.parv") else { return };
    assert_eq!(bus_times(&disksim::import(&path).unwrap()), (0.05, 0.05));
}

#[test]
fn one_of_several_disks_is_chosen_by_name() {
    let memory = parv(&["ONE", "TWO"], "instantiate [ a ] as ONE instantiate [ b ] as TWO");
    let refused = memory.import("a.parv").unwrap_err().to_string();
    assert!(refused.contains("ONE, TWO") && refused.contains("--disk NAME"), "{refused}");
    for name in ["ONE", "TWO"] {
        assert_eq!(memory.import_disk("a.parv", Some(name)).unwrap().profile.title, name);
    }
    let Some(path) = case("two-disks.parv") else { return };
    let refused = import_disk(&path, None).unwrap_err().to_string();
    assert!(refused.contains("FAST, SLOW") && refused.contains("--disk NAME"), "{refused}");
    for (name, rpm) in [("FAST", 10_000), ("SLOW", 5_000)] {
        assert_eq!(import_disk(&path, Some(name)).unwrap().profile.rpm, rpm);
    }
}

#[test]
fn the_drives_queue_and_its_order_are_kept() {
    let with = |policy: u32| {
        let disk =
            format!("Max queue length = 8, Scheduler = disksim_ioqueue {{ Scheduling policy = {policy} }},");
        let memory = parv(&["D"], "");
        let read = |path: &Path| match path.to_str() {
            Some("a.seek") => Ok(CURVE.as_bytes().to_vec()),
            _ => Ok(memory
                .text("a.parv")
                .replace(
                    "Bulk sector transfer time = 0.01",
                    &format!("{disk} Bulk sector transfer time = 0.01"),
                )
                .into_bytes()),
        };
        import_from(&read, Path::new("a.parv"), None).unwrap()
    };
    for (policy, order) in [
        (1, QueueOrder::Fcfs),
        (2, QueueOrder::Elevator),
        (5, QueueOrder::Elevator),
        (3, QueueOrder::CLook),
        (4, QueueOrder::Sstf),
        (8, QueueOrder::Sptf),
        (21, QueueOrder::Sptf),
    ] {
        let imported = with(policy);
        let firmware = imported.profile.firmware.clone().unwrap();
        assert_eq!((firmware.queue_depth, firmware.queue_order), (8, order), "policy {policy}");
        let again = Profile::from_toml(&imported.profile.to_toml(), "a.toml").unwrap();
        assert_eq!(again, imported.profile);
    }
    assert_notes(&with(21), "`Scheduling policy` 21 of the drive's queue is taken as `sptf`");
}

#[test]
fn the_error_for_a_file_without_a_disk_names_its_contents() {
    for (file, text, part) in [
        (
            "layout-only.model",
            "dm_layout_g4 { TP = [ 0, 99, 100 ] }",
            "`dm_layout_g4` is only a part of a disk",
        ),
        ("ssd.parv", "ssdmodel_ssd SSD { Blocks per element = 2048 }", "`ssdmodel_ssd` is not a disk"),
    ] {
        let refused = Memory::default().with(file, text).import(file).unwrap_err().to_string();
        assert!(refused.contains(&format!("{file}:1:1")) && refused.contains(part), "{refused}");
        let Some(path) = case(file) else { continue };
        let refused = disksim::import(&path).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
}
