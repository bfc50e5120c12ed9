//! Compares the layouts of random drives like those that Wong measured (`freeblock_model::wong`) with a naive model that
//! lists every track and every sector.

use freeblock_model::profile::{Course, Order, Profile, Revolutions, SectorsPerTrack, SparingRegion, Zone};
use freeblock_model::wong::{DRIVES, Scale};
use freeblock_model::{DriveModel, Layout, Location, builtin};
use std::collections::BTreeMap;
use units::{Angle, Arc, Cylinder, FULL_REVOLUTION, Head, Lbn, TrackIndex};

/// A track of the naive model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Listed {
    cylinder: u32,
    head: u16,
    sectors: u32,
    angle: Angle,
}

/// The kind of step from the track before to a track, which decides the skew.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Track,
    Head,
    Cylinder,
}

fn parts(revolutions: &Revolutions) -> u64 {
    revolutions.angle().unwrap().parts()
}

/// Returns the cylinder and the head of each track of a zone in LBN order, with the step to it. The order must be one of
/// cylinders or bands.
fn walk(zone: &Zone, order: Order, heads: u16) -> Vec<(u32, u16, Step)> {
    let surfaces: Vec<u16> =
        if zone.surfaces.is_empty() { (0..heads).collect() } else { zone.surfaces.clone() };
    let turned = |reverse: bool| {
        let mut list = surfaces.clone();
        if reverse {
            list.reverse();
        }
        list
    };
    let cylinders: Vec<u32> = (zone.first_cylinder..=zone.last_cylinder).collect();
    let mut tracks = Vec::new();
    match order {
        Order::Cylinder | Order::CylinderSerpentine => {
            for (i, &cylinder) in cylinders.iter().enumerate() {
                let reverse = order == Order::CylinderSerpentine && i % 2 == 1;
                for (j, head) in turned(reverse).into_iter().enumerate() {
                    tracks.push((cylinder, head, if j == 0 { Step::Cylinder } else { Step::Track }));
                }
            }
        }
        Order::Bands { band_cylinders, tracks: course, surfaces } => {
            for (b, band) in cylinders.chunks(band_cylinders as usize).enumerate() {
                let reverse = surfaces == Course::Alternating && b % 2 == 1;
                for (i, head) in turned(reverse).into_iter().enumerate() {
                    let mut band = band.to_vec();
                    if course == Course::Alternating && i % 2 == 1 {
                        band.reverse();
                    }
                    for (k, cylinder) in band.into_iter().enumerate() {
                        let step = match (i, k) {
                            (0, 0) => Step::Cylinder,
                            (_, 0) => Step::Head,
                            _ => Step::Track,
                        };
                        tracks.push((cylinder, head, step));
                    }
                }
            }
        }
        _ => panic!("{order:?} is walked elsewhere"),
    }
    tracks
}

fn density(zone: &Zone, head: u16) -> u32 {
    match &zone.sectors_per_track {
        SectorsPerTrack::Same(sectors) => *sectors,
        SectorsPerTrack::ByHead(list) => list[usize::from(head)],
    }
}

fn list_zone(profile: &Profile, zone: &Zone) -> Vec<Listed> {
    let order = zone.order.unwrap_or(profile.layout.order);
    let mut angle = u128::from(parts(&zone.offset));
    let turned = |angle: u128| Angle::from_parts((angle % u128::from(FULL_REVOLUTION)) as u64);
    if order == Order::Pattern {
        let name = zone.pattern.as_ref().unwrap();
        let pattern = profile.layout.patterns.iter().find(|p| p.name == *name).unwrap();
        let mut tracks = Vec::new();
        let mut base = zone.first_cylinder;
        while base <= zone.last_cylinder {
            for run in &pattern.runs {
                for i in 0..run.tracks {
                    let along = if run.outward { run.cylinder - i } else { run.cylinder + i };
                    let revolutions =
                        angle + u128::from(parts(&run.offset)) + u128::from(i) * u128::from(parts(&run.skew));
                    tracks.push(Listed {
                        cylinder: base + along,
                        head: run.head,
                        sectors: run.sectors_per_track.unwrap_or_else(|| density(zone, run.head)),
                        angle: turned(revolutions),
                    });
                }
            }
            angle += u128::from(parts(&pattern.skew));
            base += pattern.cylinders;
        }
        return tracks;
    }
    let shift = |head: u16| {
        let surfaces: Vec<u16> =
            if zone.surfaces.is_empty() { (0..profile.heads).collect() } else { zone.surfaces.clone() };
        let at = surfaces.iter().position(|&h| h == head).unwrap();
        zone.surface_offsets.get(at).copied().unwrap_or(0)
    };
    let mut tracks = Vec::new();
    for (i, (cylinder, head, step)) in walk(zone, order, profile.heads).into_iter().enumerate() {
        let skew = match step {
            _ if i == 0 => 0,
            Step::Track => parts(&zone.track_skew),
            Step::Head => parts(zone.head_skew.as_ref().unwrap_or(&zone.track_skew)),
            Step::Cylinder => parts(&zone.cylinder_skew),
        };
        angle += u128::from(skew);
        tracks.push(Listed {
            cylinder: cylinder + shift(head),
            head,
            sectors: density(zone, head),
            angle: turned(angle),
        });
    }
    tracks
}

/// Returns every track of a drive, and the track number and sector of every LBN.
fn list(profile: &Profile) -> (Vec<Listed>, Vec<(u32, u32)>) {
    let (mut tracks, mut lbns) = (Vec::new(), Vec::new());
    for zone in &profile.layout.zones {
        let first = tracks.len() as u32;
        let here = list_zone(profile, zone);
        let mut sectors = Vec::new();
        for (i, track) in here.iter().enumerate() {
            let skipped = zone.slip_tracks.iter().any(|&(from, n)| (from..from + n).contains(&(i as u32)));
            let spare = match zone.sparing.per {
                SparingRegion::Track => zone.sparing.spares as u32,
                _ => 0,
            };
            sectors.extend(
                (0..track.sectors).map(|s| (first + i as u32, s, !skipped && s < track.sectors - spare)),
            );
        }
        for &slip in &zone.slips {
            sectors[slip as usize].2 = false;
        }
        for &(from, n) in &zone.slip_runs {
            sectors[from as usize..(from + n) as usize].iter_mut().for_each(|s| s.2 = false);
        }
        let mut good: Vec<(u32, u32)> = sectors.iter().filter(|s| s.2).map(|s| (s.0, s.1)).collect();
        if zone.sparing.per == SparingRegion::Zone {
            let all = sectors.len() - zone.sparing.spares as usize;
            let held = if zone.sparing.slip_to_end {
                good.len() - zone.sparing.spares as usize
            } else {
                all.min(good.len())
            };
            good.truncate(held);
        }
        lbns.extend(good);
        tracks.extend(here);
    }
    (tracks, lbns)
}

fn check(profile: &Profile, layout: &Layout) {
    let name = &profile.name;
    let (tracks, lbns) = list(profile);
    assert_eq!(layout.track_count() as usize, tracks.len(), "{name}");
    assert_eq!(layout.capacity().get() as usize, lbns.len(), "{name}");
    let mut by_place = BTreeMap::new();
    let mut on_track = vec![Vec::new(); tracks.len()];
    for (lbn, &(track, sector)) in lbns.iter().enumerate() {
        let at = Location { track: TrackIndex::new(track), sector };
        assert_eq!(layout.locate(Lbn::new(lbn as u64)), Some(at), "{name}: LBN {lbn}");
        on_track[track as usize].push((sector, lbn as u64));
    }
    for (i, expected) in tracks.iter().enumerate() {
        let index = TrackIndex::new(i as u32);
        let track = layout.track(index);
        let found = Listed {
            cylinder: track.cylinder.get(),
            head: track.head.get(),
            sectors: track.sectors,
            angle: track.angle,
        };
        assert_eq!(found, *expected, "{name}: track {i}");
        assert_eq!(
            by_place.insert((found.cylinder, found.head), index),
            None,
            "{name}: two tracks at one place"
        );
        assert!((0..track.sectors).all(|s| track.boundary(s) < track.boundary(s + 1)), "{name}: track {i}");
        let extents: Vec<(u32, u64)> = layout
            .extents(index)
            .flat_map(|e| (0..e.len).map(move |k| (e.sector + k, e.lbn.get() + u64::from(k))))
            .collect();
        assert_eq!(extents, on_track[i], "{name}: track {i}");
        let mut held = extents.iter().peekable();
        for sector in 0..track.sectors {
            let own = held.next_if(|e| e.0 == sector).map(|e| Lbn::new(e.1));
            assert_eq!(
                layout.lbn_at(Location { track: index, sector }),
                own,
                "{name}: track {i} sector {sector}"
            );
        }
    }
    for cylinder in 0..profile.cylinders {
        let mut here: Vec<TrackIndex> =
            layout.tracks_on(Cylinder::new(cylinder)).map(|t| t.index()).collect();
        // On surfaces that are shifted, the tracks of one cylinder belong to different bands, so they are not in LBN order.
        if profile.layout.zones.iter().any(|zone| !zone.surface_offsets.is_empty()) {
            here.sort_unstable();
        }
        let mut expected: Vec<TrackIndex> =
            by_place.range((cylinder, 0)..=(cylinder, u16::MAX)).map(|(_, index)| *index).collect();
        expected.sort_unstable();
        assert_eq!(here, expected, "{name}: cylinder {cylinder}");
        for head in 0..profile.heads {
            let at = layout.track_at(Cylinder::new(cylinder), Head::new(head));
            assert_eq!(
                at,
                by_place.get(&(cylinder, head)).copied(),
                "{name}: cylinder {cylinder} head {head}"
            );
        }
    }
    // The ranges are the whole drive, the cylinder in the middle, and from there past the last cylinder.
    let middle = profile.cylinders / 2;
    for (first, last) in [(0, profile.cylinders - 1), (middle, middle), (middle, u32::MAX)] {
        let sectors = || tracks.iter().filter(|t| (first..=last).contains(&t.cylinder)).map(|t| t.sectors);
        assert_eq!(
            layout.sectors_per_track(Cylinder::new(first), Cylinder::new(last)),
            sectors().min().zip(sectors().max()).map(|(least, most)| least..=most),
            "{name}: cylinders {first} to {last}"
        );
    }
}

#[test]
fn each_drive_is_laid_out_as_a_list_of_its_tracks_says() {
    for drive in DRIVES {
        for seed in 0..40 {
            let profile = drive.draw(seed, Scale::Tiny);
            let model = DriveModel::from_profile(&profile)
                .unwrap_or_else(|error| panic!("{}: {error}", profile.name));
            check(&profile, model.layout());
        }
    }
}

#[test]
fn each_drive_of_full_size_is_small_and_maps_both_ways() {
    for drive in DRIVES {
        let profile = drive.draw(3, Scale::Full);
        let text = profile.to_toml();
        assert!(text.len() < 60_000, "{}: {} bytes", profile.name, text.len());
        assert_eq!(Profile::from_toml(&text, drive.name).unwrap(), profile);
        let model = DriveModel::from_profile(&profile).unwrap();
        let layout = model.layout();
        let gigabytes = layout.capacity().get() as f64 * f64::from(profile.sector_bytes) / 1e9;
        // The generated drives may have 20% less capacity than the measured ones: their density falls evenly from zone to
        // zone, and that of a real drive falls later.
        assert!((0.8..1.1).contains(&(gigabytes / drive.gigabytes)), "{}: {gigabytes} GB", profile.name);
        let capacity = layout.capacity().get();
        for i in 0..4_000 {
            let lbn = Lbn::new(i * (capacity / 4_000) + i % 7);
            let at = layout.locate(lbn).unwrap();
            assert_eq!(layout.lbn_at(at), Some(lbn), "{}", profile.name);
            let track = layout.track(at.track);
            assert_eq!(layout.track_at(track.cylinder, track.head), Some(at.track), "{}", profile.name);
        }
        let longest = model.seek(profile.cylinders).as_millis_f64();
        assert!(longest > 5.0 && longest < 70.0, "{}: {longest} ms", profile.name);
    }
}

#[test]
fn a_seed_gives_one_drive_and_seeds_differ() {
    // The first drive is left out: it has only one zone, so that seeds hardly change it.
    for drive in &DRIVES[1..] {
        assert_eq!(drive.draw(5, Scale::Full), drive.draw(5, Scale::Full));
        assert_ne!(drive.draw(5, Scale::Full).layout, drive.draw(6, Scale::Full).layout);
    }
}

/// The WD3000BKHG orders the tracks of all surfaces by falling density, so the arm returns to the outer edge several times.
#[test]
fn by_falling_density_surfaces_follow_each_other_and_the_arm_returns() {
    let profile = DRIVES[11].draw(1, Scale::Full);
    let densities: Vec<u32> = profile
        .layout
        .zones
        .iter()
        .map(|zone| match &zone.sectors_per_track {
            SectorsPerTrack::Same(sectors) => *sectors,
            SectorsPerTrack::ByHead(_) => panic!("zones of one surface each"),
        })
        .collect();
    assert!(densities.is_sorted_by(|a, b| a >= b));
    let back = profile.layout.zones.windows(2).filter(|pair| pair[1].first_cylinder < pair[0].first_cylinder);
    assert!(back.count() > 3);
}

/// For example: if tracks have 392 sectors and those of the next zone 386, the last track of the zone has 6 LBNs.
#[test]
fn a_partial_last_track_and_the_next_zones_track_make_a_whole_one() {
    let profile = DRIVES[4].draw(2, Scale::Full);
    let model = DriveModel::from_profile(&profile).unwrap();
    let layout = model.layout();
    let mut last = 0;
    for pair in profile.layout.zones.windows(2) {
        last += (pair[0].last_cylinder - pair[0].first_cylinder + 1) * 2;
        let held = |track| layout.extents(TrackIndex::new(track)).map(|e| e.len).sum::<u32>();
        assert_eq!(held(last - 1) + held(last), held(last - 2));
    }
}

#[test]
fn a_skew_that_drifts_goes_round_the_platter() {
    let drifting = Revolutions::Fraction("1/16-0.000008".into());
    assert_eq!(drifting.angle(), Angle::from_revolutions(0.0625 - 0.000008));
    assert_eq!(
        Revolutions::Fraction("3/29+0.5".into()).angle().unwrap(),
        Revolutions::Fraction("3/29".into()).angle().unwrap() + Arc::from_parts(FULL_REVOLUTION / 2)
    );
    for wrong in ["1/16-", "1/16-x", "1/-16", "1/16+nan"] {
        assert_eq!(Revolutions::Fraction(wrong.into()).angle(), None, "{wrong}");
    }
}

#[test]
fn zones_that_share_a_track_are_refused_by_place() {
    let refused = |change: &dyn Fn(&mut Profile)| {
        let mut profile = DRIVES[11].draw(1, Scale::Tiny);
        change(&mut profile);
        DriveModel::from_profile(&profile).unwrap_err().to_string()
    };
    let twice = refused(&|p| {
        let again = p.layout.zones[0].clone();
        p.layout.zones.push(again);
    });
    assert!(
        twice.contains("belongs to zone 0, too") && twice.contains("give every track to one zone"),
        "{twice}"
    );
    assert!(
        refused(&|p| p.layout.zones[0].surfaces = vec![7])
            .contains("layout.zone[0].surfaces[0]: head 7 of 3")
    );
    assert!(refused(&|p| p.layout.zones[0].surfaces = vec![1, 1]).contains("head 1 is listed twice"));
    assert!(
        refused(&|p| p.layout.zones[0].surface_offsets = vec![1, 2]).contains("2 numbers for 1 surfaces")
    );
    assert!(
        refused(&|p| p.layout.zones[0].slip_tracks = vec![(0, 4_000_000_000)])
            .contains("layout.zone[0].slip_tracks[0]")
    );
    assert!(
        refused(&|p| p.layout.zones[0].slip_runs = vec![(1, u64::MAX)]).contains("layout.zone[0].slip_runs")
    );
    assert!(refused(&|p| p.layout.zones[0].surface_offsets = vec![1_000]).contains("a track on cylinder"));
}

/// `Order::Bands` with both directions alternating gives the tracks of `Order::SurfaceSerpentine`, on a built-in drive.
#[test]
fn bands_alternating_in_both_are_the_surface_serpentine() {
    let mut profile = builtin::find("nearline-4tb").unwrap();
    let before = DriveModel::from_profile(&profile).unwrap();
    let Order::SurfaceSerpentine { band_cylinders } = profile.layout.order else { panic!() };
    let (tracks, surfaces) = (Course::Alternating, Course::Alternating);
    profile.layout.order = Order::Bands { band_cylinders, tracks, surfaces };
    let after = DriveModel::from_profile(&profile).unwrap();
    for index in (0..before.layout().track_count()).step_by(101).map(TrackIndex::new) {
        assert_eq!(before.layout().track(index), after.layout().track(index));
    }
}
