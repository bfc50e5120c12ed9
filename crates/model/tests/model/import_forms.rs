//! Tests of single features of DiskSim's parameter files: syntax, mapping and sparing schemes, layout trees.

use crate::import_files::{CURVE, MECHANICS, Memory, g1, model};
use freeblock_model::DriveModel;
use freeblock_model::profile::{Order, Profile, Revolutions, SectorsPerTrack, Seek, SparingRegion};
use units::{Angle, Lbn, TrackIndex};

fn import(layout: &str) -> Profile {
    model(layout).import("a.model").unwrap().profile
}

fn capacity(profile: &Profile) -> u64 {
    DriveModel::from_profile(profile).unwrap().layout().capacity().get()
}

/// Returns cylinder, head and sector of an LBN.
fn place(profile: &Profile, lbn: u64) -> (u32, u16, u32) {
    let model = DriveModel::from_profile(profile).unwrap();
    let location = model.layout().locate(Lbn::new(lbn)).unwrap();
    let track = model.layout().track(location.track);
    (track.cylinder.get(), track.head.get(), location.sector)
}

#[test]
fn numbers_of_the_model_arrive() {
    let profile = import(&g1(0, 9, ""));
    assert_eq!((profile.name.as_str(), profile.title.as_str()), ("a", "A.model"));
    assert_eq!((profile.rpm, profile.cylinders, profile.heads), (6000, 10, 2));
    assert_eq!(profile.mechanics.write_settle_ms, -0.25);
    assert_eq!(profile.seek, Seek::Table { points: vec![(1, 1.5), (4, 2.5), (9, 4.0)] });
    let zone = &profile.layout.zones[0];
    // Skews of 2.9 and 3 sectors are truncated to whole sectors.
    assert_eq!(zone.track_skew, Revolutions::Fraction("2/10".into()));
    assert_eq!(zone.cylinder_skew, Revolutions::Fraction("3/10".into()));
    assert!(profile.firmware.is_none());
}

#[test]
fn skews_may_be_revolutions_by_layout_and_by_zone() {
    let zone = |extra: &str| {
        format!(
            "dm_layout_g1_zone {{ First cylinder number = 0, Last cylinder number = 4, Blocks per track = 10,
         Skew for track switch = 0.25, Offset of first block = 0.5 {extra} }}"
        )
    };
    let layout = format!(
        "dm_layout_g1 {{ LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9, Skew units = revolutions,
         Zones = [ {}, dm_layout_g1_zone {{ First cylinder number = 5, Last cylinder number = 9,
         Blocks per track = 8, Skew units = sectors, Skew for track switch = 2, Offset of first block = 3 }} ] }}",
        zone("")
    );
    let profile = import(&layout);
    let [first, second] = &profile.layout.zones[..] else { panic!() };
    assert_eq!((&first.track_skew, &first.offset), (&Revolutions::Decimal(0.25), &Revolutions::Decimal(0.5)));
    assert_eq!(second.track_skew.angle(), Angle::from_revolutions(0.25));
    assert_eq!(second.offset.angle(), Angle::from_revolutions(0.375));
}

#[test]
fn mapping_schemes_order_the_heads() {
    for (scheme, order, on_cylinder_1) in [
        (0, Order::Cylinder, [0, 1]),
        (1, Order::CylinderSerpentine, [1, 0]),
        (2, Order::CylinderSerpentineAbsolute, [1, 0]),
    ] {
        let profile = import(&g1(scheme, 9, ""));
        assert_eq!(profile.layout.order, order);
        assert_eq!([place(&profile, 20).1, place(&profile, 30).1], on_cylinder_1);
    }
    // The two serpentine schemes differ in a zone whose first cylinder is odd.
    for (scheme, head) in [(1, 0), (2, 1)] {
        let layout = g1(scheme, 9, "").replace("First cylinder number = 0", "First cylinder number = 1");
        assert_eq!(place(&import(&layout), 0), (1, head, 0));
    }
}

/// The zone has 200 sectors, 2 spares in each region and up to 3 slips. The expected capacities are those of DiskSim's loader.
#[test]
fn every_sparing_scheme_sets_aside_what_disksim_does() {
    let cases = [
        (0, SparingRegion::Zone, 200 - 3),
        (1, SparingRegion::ZoneTracks, 200 - 2 * 10),
        (2, SparingRegion::Cylinder, 200 - 2 * 10),
        (3, SparingRegion::Track, 200 - 2 * 20),
        (4, SparingRegion::Cylinder, 200 - 2 * 10 - 3),
        (5, SparingRegion::Cylinder, 200 - 2 * 10),
        (6, SparingRegion::Cylinder, 200 - 2 * 10 - 3),
        (7, SparingRegion::Zone, 200 - 3),
        // Three whole ranges of three cylinders, and a tenth cylinder without spares.
        (8, SparingRegion::Range, 200 - 2 * 3),
        (9, SparingRegion::Zone, 200 - 2),
        (10, SparingRegion::Zone, 200 - 2 - 3),
    ];
    for (scheme, region, lbns) in cases {
        // Schemes 1 and 9 get two slips only: scheme 1 counts slips in tracks, of which the zone has 20, and scheme 9 has two
        // spares in all.
        let slips = if [1, 9].contains(&scheme) { "1, 2" } else { "1, 25, 61" };
        let profile = import(&g1(0, scheme, &format!(", Number of spares = 2, slips = [ {slips} ]")));
        let sparing = profile.layout.zones[0].sparing;
        assert_eq!(sparing.per, region, "scheme {scheme}");
        assert_eq!(sparing.at_front, [5, 6].contains(&scheme));
        assert_eq!(sparing.cylinders, (scheme == 8).then_some(3));
        assert_eq!(capacity(&profile), lbns, "scheme {scheme}");
    }
}

#[test]
fn slips_push_lbns_on_as_each_scheme_says() {
    let with = |scheme, spares, slips: &str| {
        import(&g1(0, scheme, &format!(", Number of spares = {spares}, slips = [ {slips} ]")))
    };
    // Spares by zone: sector 5 is bad, so LBN 5 is on sector 6, and all later LBNs are moved by one.
    let profile = with(9, 4, "5, 27");
    assert_eq!(place(&profile, 4), (0, 0, 4));
    assert_eq!(place(&profile, 5), (0, 0, 6));
    assert_eq!(place(&profile, 25), (1, 0, 6));
    assert_eq!(place(&profile, 26), (1, 0, 8));
    // Spares by track, one each: the slip does not move the LBNs of the next track.
    let profile = with(3, 1, "5");
    assert_eq!(place(&profile, 5), (0, 0, 6));
    assert_eq!(place(&profile, 8), (0, 0, 9));
    assert_eq!(place(&profile, 9), (0, 1, 0));
    // Spares by whole tracks: track 1 is bad.
    let profile = with(1, 2, "1");
    assert_eq!(place(&profile, 9), (0, 0, 9));
    assert_eq!(place(&profile, 10), (1, 0, 0));
    // Spares by cylinder: the slip does not move the LBNs of the next cylinder. With spares at the front, every cylinder
    // begins at its third sector.
    let profile = with(2, 2, "5");
    assert_eq!((place(&profile, 5), place(&profile, 18)), ((0, 0, 6), (1, 0, 0)));
    let profile = with(5, 2, "");
    assert_eq!((place(&profile, 0), place(&profile, 18)), ((0, 0, 2), (1, 0, 2)));
    // Spares by range of three cylinders, 60 sectors.
    let profile = with(8, 2, "5");
    assert_eq!((place(&profile, 5), place(&profile, 58)), ((0, 0, 6), (3, 0, 0)));
    // Scheme 7, without spares: a slip moves all later LBNs.
    let profile = with(7, 0, "5");
    assert_eq!((place(&profile, 5), place(&profile, 19)), ((0, 0, 6), (1, 0, 0)));
}

#[test]
fn empty_space_defects_and_gaps_between_zones() {
    let zone = |first: u32, last: u32, extra: &str| {
        format!(
            "dm_layout_g1_zone {{ First cylinder number = {first}, Last cylinder number = {last},
             Blocks per track = 10 {extra} }}"
        )
    };
    let layout = format!(
        "dm_layout_g1 {{ LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9, Zones = [ {} {} ] }}",
        zone(0, 3, ", Empty space at zone front = 7, Number of spares = 2, defects = [ 9, 79, 30, 30 ]"),
        zone(5, 9, "")
    );
    let imported = model(&layout).import("a.model").unwrap();
    let profile = &imported.profile;
    assert_eq!(profile.layout.zones[0].reserved, 7);
    assert_eq!(profile.layout.zones[0].defects, vec![(9, 79)]);
    assert!(imported.notes.iter().any(|n| n.contains("defect 30 is its own replacement")));
    assert_eq!(capacity(profile), 80 - 7 - 2 + 100);
    assert_eq!(place(profile, 0), (0, 0, 7));
    assert_eq!(place(profile, 2), (3, 1, 9), "moved to its replacement");
    assert_eq!(place(profile, 71), (5, 0, 0), "cylinder 4 holds nothing");
}

/// The layout searches slips by bisection, so they must be sorted.
#[test]
fn unsorted_slips_are_sorted_with_a_note() {
    let memory = model(&g1(0, 9, ", Number of spares = 5, slips = [ 27, 5, 5 ]"));
    let imported = memory.import("a.model").unwrap();
    assert_eq!(imported.profile.layout.zones[0].slips, [5, 27]);
    assert!(imported.notes.iter().any(|n| n.contains("not in ascending order")), "{:?}", imported.notes);
}

#[test]
fn the_syntax_is_as_lenient_as_the_files_are() {
    let text = format!(
        "# a comment\n dm_disk\tODD-name.1/2 # another\n{{\n  Number of data  surfaces = 2 # no comma\n
         Number of cylinders=1.0e1,,\n Block count = 18446744073709551615,
         Unknown (in blks) vs. 2nd/thing = [ normal, 0.0, -1e-3, ],
         Nested = foo bar {{ a = [ [ 1 2, 3 ] x {{ b = 1 }} y z {{}} ], }},
         Quoted = \"a }} # b\",
         Layout Model =\n {}\n Mechanical Model = {MECHANICS},\n}}",
        g1(0, 9, ", slips = [ ], defects = [ , ],")
    );
    let memory = Memory::default().with("x.model", text).with("a.seek", CURVE.replace('\n', "\r\n"));
    let profile = memory.import("x.model").unwrap().profile;
    assert_eq!((profile.title.as_str(), profile.name.as_str()), ("ODD-name.1/2", "odd-name-1-2"));
    assert_eq!((profile.heads, profile.cylinders), (2, 10));
}

#[test]
fn sourced_files_are_found_beside_the_file_that_names_them() {
    let memory = Memory::default()
        .with("top/all.parv", "source drives/a.diskspecs\n")
        .with(
            "top/drives/a.diskspecs",
            "disksim_disk A { Model = source models/a.model, Max queue length = 0 }",
        )
        .with(
            "top/drives/models/a.model",
            format!(
                "dm_disk A {{ Number of data surfaces = 2, Number of cylinders = 10,
                 Layout Model = source a.layout Mechanical Model = {MECHANICS} }}"
            ),
        )
        .with("top/drives/models/a.layout", g1(0, 9, ""))
        .with("top/drives/models/a.seek", CURVE);
    assert_eq!(memory.import("top/all.parv").unwrap().profile.firmware.unwrap().queue_depth, 1);
}

#[test]
fn statements_about_other_components_are_skipped() {
    let tail = "instantiate [ disk0 .. disk3 ] as ONE  syncset together [ disk0, disk1 ]  syncset [ disk2 ]
        disksim_synthio \"a name\" { Generators = [ disksim_synthgen { Sizes = [ exponential, 0.0, 8.0 ] } # one
        , disksim_synthgen { devices = [ disk0 ] } ] }
        topology disksim_iodriver driver0 [ disksim_disk disk0 [], disksim_disk disk1 [] ]";
    assert_eq!(two_disks(tail).import("a.parv").unwrap().profile.name, "one");
}

fn two_disks(tail: &str) -> Memory {
    let disk = |name: &str, bulk: f64| {
        format!(
            "disksim_disk {name} {{ Model = dm_disk M {{ Number of data surfaces = 2, Number of cylinders = 10,
             Layout Model = {}, Mechanical Model = {MECHANICS} }}, Bulk sector transfer time = {bulk} }}\n",
            g1(0, 9, "")
        )
    };
    let text = format!("{}{}{tail}", disk("ONE", 0.1), disk("TWO", 0.2));
    Memory::default().with("a.parv", text).with("a.seek", CURVE)
}

#[test]
fn the_instantiated_one_of_several_disks_is_taken() {
    let profile = two_disks("instantiate [ disk0, disk1 ] as TWO").import("a.parv").unwrap().profile;
    assert_eq!(profile.name, "two");
    assert_eq!(profile.firmware.unwrap().bulk_sector_ms, 0.2);
    let one = two_disks("").import_disk("a.parv", Some("ONE")).unwrap().profile;
    assert_eq!(one.name, "one");
}

#[test]
fn bus_and_controller_above_the_disk_give_their_times() {
    let parts = "disksim_bus B0 { Read block transfer time = 9, Write block transfer time = 9 }
        disksim_bus B1 { Read block transfer time = 0.3, Write block transfer time = 0.4 }
        disksim_ctlr C0 { Bulk sector transfer time = 0.7 }
        disksim_ctlr C1 { Bulk sector transfer time = 0.15 }
        instantiate [ bus0 ] as B0 instantiate [ bus1 ] as B1
        instantiate [ ctlr0 ] as C0 instantiate [ c1 ] as C1 instantiate [ disk7 ] as ONE\n";
    let topology = "topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_ctlr ctlr0 [],
        disksim_ctlr c1 [ disksim_bus bus1 [ disksim_disk disk7 [] ] ] ] ]";
    let firmware =
        two_disks(&format!("{parts}{topology}")).import("a.parv").unwrap().profile.firmware.unwrap();
    assert_eq!((firmware.bus_read_sector_ms, firmware.bus_write_sector_ms), (0.3, 0.4));
    assert_eq!(firmware.bulk_sector_ms, 0.15, "the slower of disk and controller");
    // Without a topology the choice between two buses is ambiguous.
    let imported = two_disks(parts).import("a.parv").unwrap();
    assert_eq!(imported.profile.firmware.unwrap().bus_read_sector_ms, 0.0);
    assert!(
        imported.notes.iter().any(|n| n.contains("there is more than one bus and no topology")),
        "{:?}",
        imported.notes
    );
}

fn g4(tracks: &str, index: &str, rest: &str) -> String {
    format!("dm_layout_g4 {{ TP = [ {tracks} ], IDX = [ {index} ] {rest} }}")
}

/// A node with two runs of two tracks of 8 LBNs: head 0 inward, then head 1 outward.
const BAND: &str = "[ 0, 0, 0.0, 8, 1, 0.125, 16, 2, TRACK, 0, 0,
                      16, 1, 0.5, 8, 1, 0.125, 16, -2, TRACK, 0, 1 ]";

#[test]
fn a_tree_becomes_zones_of_a_shared_pattern() {
    let index = format!(
        "{BAND}, {}, [ 0, 0, 0.0, 32, 2, 0.25, 96, 6, IDX, 0, 96, 6, 0.75, 24, 2, 0.25, 48, 4, IDX, 1 ]",
        BAND.replace("8, 1,", "6, 1,")
            .replace("16, 2,", "12, 2,")
            .replace("16, -2", "12, -2")
            .replace("16, 1,", "12, 1,")
            .replace("TRACK, 0", "TRACK, 1")
    );
    let profile = import(&g4("0, 7, 8, 0, 5, 6", &index, ", Slips = [], Remaps = []"));
    assert_eq!(profile.layout.order, Order::Pattern);
    assert_eq!(profile.layout.patterns.len(), 1);
    assert_eq!(profile.layout.zones.len(), 2);
    assert_eq!(capacity(&profile), 96 + 48);
    assert_eq!(place(&profile, 0), (0, 0, 0));
    assert_eq!(place(&profile, 9), (1, 0, 1));
    assert_eq!(place(&profile, 16), (1, 1, 0));
    assert_eq!(place(&profile, 24), (0, 1, 0));
    assert_eq!(place(&profile, 32), (2, 0, 0));
    assert_eq!(place(&profile, 96 + 7), (7, 0, 1));
    // The angles of the levels add up. The LBN is on the second track of head 1, in the second repetition of zone 1.
    let model = DriveModel::from_profile(&profile).unwrap();
    let at = model.layout().locate(Lbn::new(96 + 24 + 12 + 6)).unwrap();
    let track = model.layout().track(at.track);
    assert_eq!((track.cylinder.get(), track.head.get()), (8, 1));
    assert_eq!(track.angle, Angle::from_revolutions(0.75 + 0.25 + 0.5 + 0.125).unwrap());
}

#[test]
fn a_tree_of_three_levels_gives_the_same_zones() {
    let two = import(&g4("0, 7, 8", &format!("{BAND}, [ 0, 0, 0.0, 32, 2, 0.25, 160, 10, IDX, 0 ]"), ""));
    let three = import(&g4(
        "0, 7, 8",
        &format!(
            "{BAND}, [ 0, 0, 0.0, 32, 2, 0.25, 160, 10, IDX, 0 ], [ 0, 0, 0.0, 160, 10, 0.0, 160, 10, IDX, 1 ]"
        ),
        "",
    ));
    assert_eq!(two.layout, three.layout);
}

#[test]
fn a_repetition_cut_short_and_outward_zones_are_laid_out_run_by_run() {
    // Two repetitions and a part of a third: half a track of head 0.
    let short = import(&g4("0, 7, 8", &format!("{BAND}, [ 0, 0, 0.0, 32, 2, 0.25, 68, 5, IDX, 0 ]"), ""));
    assert_eq!(capacity(&short), 68);
    assert_eq!(place(&short, 67), (4, 0, 3));
    // Repetitions that go outward from cylinder 8 to cylinder 0.
    let down = import(&g4("0, 7, 8", &format!("{BAND}, [ 0, 8, 0.0, 32, 2, 0.25, 160, -10, IDX, 0 ]"), ""));
    assert_eq!(capacity(&down), 160);
    assert_eq!((place(&down, 0), place(&down, 32)), ((8, 0, 0), (6, 0, 0)));
    let model = DriveModel::from_profile(&down).unwrap();
    let track = model.layout().track(model.layout().locate(Lbn::new(40)).unwrap().track);
    assert_eq!(track.angle, Angle::from_revolutions(0.25 + 0.125).unwrap());
    // Two runs on different surfaces of the same cylinders.
    let root =
        "[ 0, 0, 0.0, 8, 1, 0.125, 80, 10, TRACK, 0, 0, 80, 9, 0.5, 6, 1, 0.125, 60, -10, TRACK, 1, 1 ]";
    let sides = import(&g4("0, 7, 8, 0, 5, 6", root, ""));
    assert_eq!(sides.layout.zones.len(), 1);
    assert_eq!(sides.layout.zones[0].sectors_per_track, SectorsPerTrack::ByHead(vec![8, 6]));
    assert_eq!((place(&sides, 79), place(&sides, 80)), ((9, 0, 7), (9, 1, 0)));
}

#[test]
fn unused_sectors_of_tracks_hold_no_lbn() {
    let root = |length: u32| format!("[ 0, 0, 0.0, {length}, 1, 0.0, {}, 10, TRACK, 0, 0 ]", length * 10);
    // One unused sector at the end of each track, then two at the front, then one at both.
    let behind = import(&g4("0, 6, 8", &root(7), ""));
    assert_eq!((capacity(&behind), place(&behind, 7)), (70, (1, 0, 0)));
    let before = import(&g4("2, 7, 8", &root(6), ""));
    assert_eq!((capacity(&before), place(&before, 6)), (60, (1, 0, 2)));
    let both = import(&g4("1, 6, 8", &root(6), ""));
    assert_eq!((capacity(&both), place(&both, 6)), (60, (1, 0, 1)));
}

#[test]
fn slips_of_a_tree_push_all_that_follows() {
    let root = "[ 0, 0, 0.0, 8, 1, 0.0, 80, 10, TRACK, 0, 0 ]";
    let profile = import(&g4("0, 7, 8", root, ", Slips = [ [ 3, 1 ], [ 10, 2 ] ]"));
    // The positions of slips in the file count the slipped sectors before them.
    assert_eq!(profile.layout.zones[0].slips, [3]);
    assert_eq!(profile.layout.zones[0].slip_runs, [(10, 2)]);
    assert_eq!(capacity(&profile), 77);
    assert_eq!((place(&profile, 2), place(&profile, 3)), ((0, 0, 2), (0, 0, 4)));
    assert_eq!((place(&profile, 8), place(&profile, 9)), ((1, 0, 1), (1, 0, 4)));
}

#[test]
fn remaps_of_a_tree_lead_to_unused_sectors() {
    let root = "[ 0, 0, 0.0, 6, 1, 0.0, 60, 10, TRACK, 0, 0 ]";
    let profile = import(&g4("0, 5, 8", root, ", Remaps = [ 5, 2, 9, 0, 6, 8 ]"));
    assert_eq!((place(&profile, 5), place(&profile, 6)), ((9, 0, 6), (9, 0, 7)));
    assert_eq!(place(&profile, 7), (1, 0, 1));
    // A remap to a sector with an LBN is invalid; the drive is imported without it.
    let memory = model(&g4("0, 5, 8", root, ", Remaps = [ 5, 2, 9, 0, 0, 8 ]"));
    let imported = memory.import("a.model").unwrap();
    assert!(imported.profile.layout.remaps.is_empty());
    assert!(imported.notes.iter().any(|n| n.contains("1 remaps are left out")), "{:?}", imported.notes);
}

#[test]
fn tracks_by_head_differ_in_density() {
    // Some drives of 10,000 rpm have fewer sectors on the surfaces of worse heads in the same zone.
    let index = "[ 0, 0, 0.0, 8, 1, 0.1, 16, 2, TRACK, 0, 0, 16, 1, 0.0, 6, 1, 0.1, 12, -2, TRACK, 1, 1 ],
        [ 0, 0, 0.0, 28, 2, 0.0, 140, 10, IDX, 0 ]";
    let profile = import(&g4("0, 7, 8, 0, 5, 6", index, ""));
    assert_eq!(profile.layout.zones[0].sectors_per_track, SectorsPerTrack::ByHead(vec![8, 6]));
    assert!(profile.layout.patterns[0].runs.iter().all(|run| run.sectors_per_track.is_none()));
    let model = DriveModel::from_profile(&profile).unwrap();
    assert_eq!(model.layout().track(TrackIndex::new(2)).sectors, 6);
    assert_eq!(capacity(&profile), 140);
}
