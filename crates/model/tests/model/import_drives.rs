//! Tests with the parameter files of real drives, if these are available: capacities, and agreement with the built-in
//! profiles.

use freeblock_model::disksim::{self, Imported};
use freeblock_model::profile::{QueueOrder, Seek};
use freeblock_model::{DriveModel, Profile, builtin};
use std::path::PathBuf;

/// Returns the path of a DiskSim parameter file; `None` if it is not available, because the repository does not have it.
fn disksim_file(name: &str) -> Option<PathBuf> {
    testing::shared(&format!("drives/disksim/{name}"))
}

fn import(name: &str) -> Option<Imported> {
    Some(disksim::import(&disksim_file(name)?).unwrap())
}

#[test]
fn capacities_are_those_that_disksim_maps() {
    let expected = [
        ("atlas10k.parv", 17_966_953),
        ("cheetah4LP.parv", 8_887_940),
        ("cheetah9LP.parv", 17_918_387),
        ("hp_c2247a.parv", 2_054_864),
        ("ibm18es.parv", 18_033_753),
        ("nearline4t/G4_LBA_64bit_4T.parv", 7_542_225_920),
    ];
    for (file, capacity) in expected {
        let Some(imported) = import(file) else { return };
        let model = DriveModel::from_profile(&imported.profile).unwrap();
        assert_eq!(model.layout().capacity().get(), capacity, "{file}");
    }
}

#[test]
fn built_in_drives_agree_with_the_parameter_files() {
    let pairs = [
        ("atlas10k.parv", "quantum-atlas-10k"),
        ("cheetah4LP.parv", "seagate-cheetah-4lp"),
        ("cheetah9LP.parv", "seagate-cheetah-9lp"),
        ("ibm18es.parv", "ibm-ultrastar-9es"),
    ];
    for (file, name) in pairs {
        let Some(imported) = import(file) else { return };
        let ours = builtin::find(name).unwrap();
        let theirs = imported.profile;
        assert_eq!(ours.layout, theirs.layout, "{name}");
        assert_eq!(ours.seek, theirs.seek, "{name}");
        assert_eq!(ours.mechanics, theirs.mechanics, "{name}");
        assert_eq!(ours.firmware, theirs.firmware, "{name}");
        assert_eq!(
            (ours.rpm, ours.cylinders, ours.heads),
            (theirs.rpm, theirs.cylinders, theirs.heads),
            "{name}"
        );
    }
}

/// The built-in profile expresses by a rule the 59 x 20 runs of tracks that the file lists. Angles are not compared: in the
/// file each run begins at angle 0, in the built-in profile each run continues by the skew.
#[test]
fn the_built_in_nearline_drive_puts_every_lbn_where_the_file_does() {
    let Some(imported) = import("nearline4t/G4_LBA_64bit_4T.parv") else { return };
    assert_eq!(imported.profile.layout.zones.len(), 59);
    assert_eq!(
        imported.profile.layout.patterns.len(),
        1,
        "zones that differ only in density share a pattern"
    );
    let theirs = DriveModel::from_profile(&imported.profile).unwrap();
    let profile = builtin::find("nearline-4tb").unwrap();
    let ours = DriveModel::from_profile(&profile).unwrap();
    let (theirs_layout, ours_layout) = (theirs.layout(), ours.layout());
    assert_eq!(ours_layout.track_count(), theirs_layout.track_count());
    for index in (0..ours_layout.track_count()).step_by(37) {
        let index = units::TrackIndex::new(index);
        let (a, b) = (ours_layout.track(index), theirs_layout.track(index));
        assert_eq!((a.cylinder, a.head, a.sectors), (b.cylinder, b.head, b.sectors), "{index:?}");
    }
    for lbn in (0..ours_layout.capacity().get()).step_by(1_000_003) {
        let lbn = units::Lbn::new(lbn);
        assert_eq!(ours_layout.locate(lbn), theirs_layout.locate(lbn));
    }
    for distance in (100..profile.cylinders).step_by(1_009) {
        let (a, b) = (ours.seek(distance).as_millis_f64(), theirs.seek(distance).as_millis_f64());
        assert!((a - b).abs() < 0.6, "{distance} cylinders: {a} and {b}");
    }
}

#[test]
fn a_diskspecs_or_model_file_alone_will_do() {
    let Some(whole) = import("atlas10k.parv") else { return };
    let Some(specs) = import("atlas10k.diskspecs") else { return };
    assert_eq!(specs.profile.firmware, whole.profile.firmware);
    assert_eq!(specs.profile.layout, whole.profile.layout);
    let Some(bare) = import("atlas10k.model") else { return };
    assert_eq!(bare.profile.firmware, None);
    assert_eq!(bare.profile.layout, whole.profile.layout);
    assert_eq!(bare.profile.seek, whole.profile.seek);
}

#[test]
fn the_bus_that_the_disk_hangs_on_counts() {
    let Some(imported) = import("hp_c2247a.parv") else { return };
    let firmware = imported.profile.firmware.unwrap();
    assert_eq!((firmware.bus_read_sector_ms, firmware.bus_write_sector_ms), (0.1701, 0.18686));
    assert_eq!(firmware.bulk_sector_ms, 0.0);
    assert!(firmware.hold_bus_read && !firmware.hold_bus_write);
    let extra = firmware.overheads.extra_write_disconnect.unwrap();
    assert_eq!(extra.seek_delta_ms, 0.25);
    assert!(matches!(imported.profile.seek, Seek::SqrtLinear { crossover: 300, least_ms: 0.89, .. }));
}

#[test]
fn ignored_and_interpreted_parameters_are_noted() {
    let Some(imported) = import("nearline4t/G4_LBA_64bit_4T.parv") else { return };
    let said = |what: &str| imported.notes.iter().any(|note| note.contains(what));
    assert!(said("declares 7725673570 sectors and the layout maps 7542225920"), "{:?}", imported.notes);
    assert!(said("`Bulk sector transfer time` is -0.015 ms; taken as 0"), "{:?}", imported.notes);
}

#[test]
fn an_import_survives_writing_and_reading() {
    for file in ["atlas10k.parv", "hp_c2247a.parv", "nearline4t/G4_LBA_64bit_4T.parv", "cheetah9LP.model"] {
        let Some(imported) = import(file) else { return };
        let again = Profile::from_toml(&imported.profile.to_toml(), file).unwrap();
        assert_eq!(again, imported.profile);
    }
}

/// Imports the Maxtor 300 GB, the only complete public layout of a drive after 2003.
fn maxtor() -> Option<Imported> {
    import("maxtor300g/maxtor300g.parv")
}

#[test]
fn the_maxtor_is_imported_whole() {
    let Some(imported) = maxtor() else { return };
    let profile = &imported.profile;
    let model = DriveModel::from_profile(profile).unwrap();
    // Not the file's block count, which is the number of the last LBN.
    assert_eq!(model.layout().capacity().get(), 585_937_500);
    assert_eq!((profile.cylinders, profile.heads, profile.rpm), (80_513, 8, 10_001));
    assert_eq!(profile.mechanics.write_settle_ms, 0.15);
    assert_eq!(profile.mechanics.seek_spread_ms.first(), Some(&(1, 0.024385)));
    let firmware = profile.firmware.as_ref().unwrap();
    assert_eq!((firmware.queue_depth, firmware.queue_order), (8, QueueOrder::Sptf));
    assert_eq!(firmware.cache.segments, 2_048);
    let slipped: u64 = profile.layout.zones.iter().map(|zone| zone.slip_count()).sum();
    assert_eq!(slipped, 35_055);
    let text = profile.to_toml();
    assert!(text.len() <= 3_000_000, "{} bytes", text.len());
    assert_eq!(Profile::from_toml(&text, "maxtor").unwrap(), *profile);
}

/// A scratch crosses neighbouring tracks at one angle. If the positions of slips were counted without the slips before
/// them, 24% of the neighbours would lie at one angle instead of 44%, and 7,667 would be neighbours instead of 12,308.
#[test]
fn slips_of_neighbouring_tracks_lie_at_one_angle() {
    let Some(imported) = maxtor() else { return };
    let model = DriveModel::from_profile(&imported.profile).unwrap();
    let layout = model.layout();
    // The cylinder and the angle of the last bad sector of each head.
    let mut last: Vec<Option<(u32, f64)>> = vec![None; 8];
    let (mut neighbours, mut at_one_angle) = (0, 0);
    for index in (0..layout.track_count()).map(units::TrackIndex::new) {
        let track = layout.track(index);
        let revolutions =
            |sector: u32| track.sector_angle(sector).parts() as f64 / units::FULL_REVOLUTION as f64;
        let mut next = 0;
        for extent in layout.extents(index) {
            if extent.sector > next {
                let angle = revolutions(next);
                let last = &mut last[usize::from(track.head.get())];
                if let Some((cylinder, before)) = *last
                    && cylinder.abs_diff(track.cylinder.get()) == 1
                {
                    neighbours += 1;
                    let apart = (angle - before).abs();
                    at_one_angle += u32::from(apart.min(1.0 - apart) < 0.004);
                }
                *last = Some((track.cylinder.get(), angle));
            }
            next = extent.sector + extent.len;
        }
    }
    assert!(neighbours > 11_000 && at_one_angle * 10 > neighbours * 4, "{at_one_angle} of {neighbours}");
}

/// A reader of the Maxtor's layout tree that shares no code with the importer and lists every track.
mod plain {
    /// A row of a node of the tree. `lbns` and `cylinders` are those of one repetition, `run` is the number of LBNs of all
    /// repetitions; `head` is given if the child is a track.
    #[derive(Clone, Copy)]
    pub struct Row {
        cylinder: i64,
        offset: f64,
        lbns: u64,
        cylinders: i64,
        skew: f64,
        run: u64,
        outward: bool,
        child: usize,
        head: Option<u16>,
    }

    #[derive(Clone, Copy, Debug)]
    pub struct ImportedTrack {
        pub cylinder: i64,
        pub head: u16,
        pub sectors: u32,
        pub revolutions: f64,
    }

    fn words(text: &str) -> Vec<&str> {
        text.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty()).collect()
    }

    /// Returns the text between `name = [` and the bracket that closes it.
    pub fn list<'t>(text: &'t str, name: &str) -> &'t str {
        let start = text.find(&format!("{name} = [")).unwrap() + name.len() + 4;
        let mut depth = 1;
        let end = text[start..].find(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        });
        &text[start..start + end.unwrap()]
    }

    pub fn tracks(text: &str) -> Vec<ImportedTrack> {
        let sectors: Vec<u32> =
            words(list(text, "TP")).chunks(3).map(|row| row[2].parse().unwrap()).collect();
        let nodes: Vec<Vec<Row>> = list(text, "IDX").split('[').skip(1).map(node).collect();
        let mut tracks = Vec::new();
        follow(&nodes, nodes.len() - 1, 0, 0.0, &sectors, &mut tracks);
        tracks
    }

    fn node(text: &str) -> Vec<Row> {
        let text = text.split(']').next().unwrap();
        let mut words = words(text).into_iter();
        let mut rows = Vec::new();
        while words.next().is_some() {
            let mut number = || words.next().unwrap().parse::<f64>().unwrap();
            let (cylinder, offset, lbns, cylinders, skew, run, cylinder_run) =
                (number(), number(), number(), number(), number(), number(), number());
            let kind = words.next().unwrap();
            let child = words.next().unwrap().parse().unwrap();
            let head = (kind == "TRACK").then(|| words.next().unwrap().parse().unwrap());
            rows.push(Row {
                cylinder: cylinder as i64,
                offset,
                lbns: lbns as u64,
                cylinders: cylinders as i64,
                skew,
                run: run as u64,
                outward: cylinder_run < 0.0,
                child,
                head,
            });
        }
        rows
    }

    fn follow(
        nodes: &[Vec<Row>],
        node: usize,
        cylinder: i64,
        revolutions: f64,
        sectors: &[u32],
        into: &mut Vec<ImportedTrack>,
    ) {
        for row in &nodes[node] {
            for i in 0..row.run / row.lbns {
                let along = if row.outward { -row.cylinders } else { row.cylinders } * i as i64;
                let cylinder = cylinder + row.cylinder + along;
                let revolutions = revolutions + row.offset + row.skew * i as f64;
                match row.head {
                    None => follow(nodes, row.child, cylinder, revolutions, sectors, into),
                    Some(head) => {
                        assert_eq!(row.lbns, u64::from(sectors[row.child]), "all sectors hold LBNs");
                        into.push(ImportedTrack { cylinder, head, sectors: sectors[row.child], revolutions });
                    }
                }
            }
        }
    }

    /// Returns the runs of slipped sectors `(first, count)`. Sectors are counted including slipped ones.
    pub fn slips(text: &str) -> Vec<(u64, u64)> {
        words(list(text, "Slips")).chunks(2).map(|p| (p[0].parse().unwrap(), p[1].parse().unwrap())).collect()
    }
}

#[test]
fn the_maxtors_tracks_and_lbns_are_those_of_its_file() {
    let Some(imported) = maxtor() else { return };
    let text = std::fs::read_to_string(disksim_file("maxtor300g/maxtor300g-layout.model").unwrap()).unwrap();
    let tracks = plain::tracks(&text);
    let model = DriveModel::from_profile(&imported.profile).unwrap();
    let layout = model.layout();
    assert_eq!(layout.track_count() as usize, tracks.len());
    // The number of sectors before the current track, including slipped ones, and the number of slipped ones among them.
    let (mut sector, mut slipped) = (0_u64, 0_u64);
    let mut slips = plain::slips(&text).into_iter().peekable();
    for (i, expected) in tracks.iter().enumerate() {
        let index = units::TrackIndex::new(i as u32);
        let track = layout.track(index);
        let place = (i64::from(track.cylinder.get()), track.head.get(), track.sectors);
        assert_eq!(place, (expected.cylinder, expected.head, expected.sectors), "track {i}");
        let revolutions = track.angle.parts() as f64 / units::FULL_REVOLUTION as f64;
        let apart = (revolutions - expected.revolutions).rem_euclid(1.0);
        assert!(apart.min(1.0 - apart) < 1e-6, "track {i} at {revolutions}, {}", expected.revolutions);
        // The LBNs of the track, computed from the list of slips.
        let end = sector + u64::from(track.sectors);
        let mut next = sector;
        let mut held = Vec::new();
        while next < end {
            let bad = slips.peek().copied().filter(|slip| slip.0 < end);
            let until = bad.map_or(end, |slip| slip.0);
            if until > next {
                held.push(((next - sector) as u32, next - slipped, (until - next) as u32));
            }
            next = until;
            if let Some((_, count)) = bad {
                slips.next();
                slipped += count;
                next += count;
                assert!(next <= end, "no slip of this drive goes over a track's end");
            }
        }
        let ours: Vec<_> = layout.extents(index).map(|e| (e.sector, e.lbn.get(), e.len)).collect();
        assert_eq!(ours, held, "track {i}");
        sector = end;
    }
    assert_eq!(sector - slipped, layout.capacity().get());
}
