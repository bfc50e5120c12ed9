//! Tests of the layout's consistency: `locate`, `lbn_at`, `extents` and `pieces` must agree.

use freeblock_model::{DriveModel, Layout, Location, Profile, Track, Window};
use std::collections::BTreeMap;
use units::{Angle, Arc, FULL_REVOLUTION, Instant, Lbn, LbnRange, Rpm, Sectors, TrackIndex};

/// Checks a small layout: visits every sector of every track, and compares the LBNs found with all other queries.
fn check_whole(layout: &Layout) {
    let mut by_lbn = BTreeMap::new();
    for t in 0..layout.track_count() {
        let track = TrackIndex::new(t);
        let geometry = layout.track(track);
        assert_eq!(layout.track_at(geometry.cylinder, geometry.head), Some(track));
        assert!(
            layout
                .tracks_on(geometry.cylinder)
                .any(|other| other.index() == track && *other.track() == geometry)
        );
        let mut on_track = Vec::new();
        for sector in 0..geometry.sectors {
            let location = Location { track, sector };
            if let Some(lbn) = layout.lbn_at(location) {
                assert_eq!(by_lbn.insert(lbn, location), None, "{lbn} twice");
                on_track.push((sector, lbn));
            }
        }
        let listed: Vec<_> = layout
            .extents(track)
            .flat_map(|e| (0..e.len).map(move |i| (e.sector + i, e.lbn + Sectors::new(u64::from(i)))))
            .collect();
        assert_eq!(listed, on_track, "extents of track {t}");
    }
    assert_eq!(by_lbn.len() as u64, layout.capacity().get());
    for (i, (&lbn, &location)) in by_lbn.iter().enumerate() {
        assert_eq!(lbn, Lbn::new(i as u64));
        assert_eq!(layout.locate(lbn), Some(location), "{lbn}");
    }
    assert_eq!(layout.locate(Lbn::new(layout.capacity().get())), None);
    let whole = LbnRange::new(Lbn::ZERO, layout.capacity());
    let pieces: Vec<_> = layout
        .pieces(whole)
        .flat_map(|p| {
            (0..p.len).map(move |i| {
                (p.lbn + Sectors::new(u64::from(i)), Location { track: p.track, sector: p.sector + i })
            })
        })
        .collect();
    assert_eq!(pieces, by_lbn.into_iter().collect::<Vec<_>>());
}

mod random {
    use super::*;
    use freeblock_model::profile::*;
    use proptest::prelude::*;

    fn revolutions() -> impl Strategy<Value = Revolutions> {
        prop_oneof![
            (0.0..1.0f64).prop_map(Revolutions::Decimal),
            (-40..40i64, 1..64i64).prop_map(|(p, q)| Revolutions::Fraction(format!("{p}/{q}"))),
        ]
    }

    /// The parameters of a random zone: cylinders without LBNs before it, cylinders, sectors per track, sparing scheme, spares,
    /// slips, reserved sectors, track skew and cylinder skew.
    type ZoneShape = (u32, u32, u32, u8, u64, Vec<u64>, u64, Revolutions, Revolutions);

    #[derive(Clone, Debug)]
    struct Shape {
        order: u8,
        heads: u16,
        zones: Vec<ZoneShape>,
    }

    fn shape() -> impl Strategy<Value = Shape> {
        let zone = (
            0..2u32,
            1..9u32,
            2..24u32,
            0..12u8,
            0..4u64,
            prop::collection::vec(0..900u64, 0..6),
            0..20u64,
            revolutions(),
            revolutions(),
        );
        (0..5u8, 1..5u16, prop::collection::vec(zone, 1..4)).prop_map(|(order, heads, zones)| Shape {
            order,
            heads,
            zones,
        })
    }

    fn build(shape: &Shape) -> (LayoutSpec, u32) {
        let order = match shape.order {
            0 => Order::Cylinder,
            1 => Order::CylinderSerpentine,
            2 => Order::CylinderSerpentineAbsolute,
            3 => Order::SurfaceSerpentine { band_cylinders: 1 },
            _ => Order::SurfaceSerpentine { band_cylinders: 3 },
        };
        let mut next = 0;
        let zones = shape
            .zones
            .iter()
            .map(|(gap, cylinders, spt, sparing, spares, slips, reserved, track_skew, cylinder_skew)| {
                let first = next + gap;
                next = first + cylinders;
                let sectors = u64::from(cylinders * spt) * u64::from(shape.heads);
                let mut slips: Vec<u64> = slips.iter().copied().filter(|s| *s < sectors).collect();
                let bands = shape.order >= 3;
                let by_head = shape.order.is_multiple_of(2) && *sparing == 0 && *spares == 0;
                let (per, cylinders_per_range) = match sparing {
                    1 => (SparingRegion::ZoneTracks, None),
                    2 | 3 | 8 if !bands => (SparingRegion::Cylinder, None),
                    4 | 5 | 9 if !bands => (SparingRegion::Track, None),
                    6 | 7 | 10 if !bands => (SparingRegion::Range, Some(2)),
                    _ => (SparingRegion::Zone, None),
                };
                let spares = (*spares).min(match per {
                    SparingRegion::ZoneTracks => u64::from(cylinders * u32::from(shape.heads)) - 1,
                    SparingRegion::Track => u64::from(*spt) - 1,
                    _ => u64::from(*spt),
                });
                if per == SparingRegion::ZoneTracks {
                    slips.iter_mut().for_each(|s| *s /= u64::from(*spt));
                }
                let sectors_per_track = if by_head {
                    SectorsPerTrack::ByHead((0..u32::from(shape.heads)).map(|h| spt + h % 3).collect())
                } else {
                    SectorsPerTrack::Same(*spt)
                };
                Zone {
                    offset: track_skew.clone(),
                    track_skew: track_skew.clone(),
                    cylinder_skew: cylinder_skew.clone(),
                    reserved: (*reserved).min(sectors / 4),
                    sparing: Sparing {
                        per,
                        cylinders: cylinders_per_range,
                        spares,
                        at_front: matches!(sparing, 3 | 5 | 7 | 11),
                        slip_to_end: matches!(sparing, 8..=11),
                    },
                    slips,
                    ..Zone::plain(first, next - 1, sectors_per_track)
                }
            })
            .collect();
        (LayoutSpec { order, patterns: Vec::new(), zones, remaps: Vec::new() }, next)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn both_directions_agree_on_random_layouts(shape in shape(), remap in prop::option::of((0..4000u64, 1..9u32))) {
            let (mut spec, cylinders) = build(&shape);
            // Some shapes are invalid, for example those with more slips than spares in a region.
            let Ok(layout) = Layout::new(&spec, cylinders, shape.heads) else { return Ok(()) };
            check_whole(&layout);
            // Remaps some LBNs to sectors without LBNs.
            if let Some((lbn, len)) = remap {
                let free = (0..layout.track_count()).map(TrackIndex::new).find_map(|track| {
                    let t = layout.track(track);
                    let run = (0..t.sectors).rev().take_while(|&s| layout.lbn_at(Location { track, sector: s }).is_none()).count() as u32;
                    (run > 0).then(|| (t, t.sectors - run, run))
                });
                let lbn = lbn % layout.capacity().get();
                if let Some((t, sector, run)) = free {
                    let sectors = len.min(run).min((layout.capacity().get() - lbn) as u32);
                    spec.remaps.push(Remap { lbn, sectors, cylinder: t.cylinder.get(), head: t.head.get(), sector });
                    check_whole(&Layout::new(&spec, cylinders, shape.heads).unwrap());
                }
            }
        }

        #[test]
        fn passing_sectors_are_those_that_pass_whole(
            n in 1..600u32, angle in 0..FULL_REVOLUTION, rpm in 3_000..16_000u32, from in 0..1u64 << 50, width in 0..5_000_000u64,
        ) {
            let track = Track { cylinder: Default::default(), head: Default::default(), sectors: n, angle: Angle::from_parts(angle) };
            let rpm = Rpm::new(rpm).unwrap();
            let width = width.min(rpm.revolution().as_nanos() - 1);
            let (start, end) = (Instant::from_nanos(from), Instant::from_nanos(from + width));
            let Window { first, count } = track.passing(rpm, start, end);
            // The naive computation of the sectors that pass: for every sector, the exact rotation until its end.
            let span = end.since(start);
            let mut whole: Vec<(u64, u32)> = (0..n).filter_map(|s| {
                let begin = rpm.earliest_angle(start).until(track.sector_angle(s));
                let close = begin + track.arc(s, 1);
                (rpm.time_within(close) <= span).then_some((begin.parts(), s))
            }).collect();
            whole.sort_unstable();
            let naive: Vec<u32> = whole.into_iter().map(|(_, s)| s).collect();
            let ours: Vec<u32> = (first..first + count).map(|s| s % n).collect();
            prop_assert_eq!(ours, naive);
        }
    }
}

/// Random drives also have defects, remaps and slips together.
#[test]
fn both_directions_agree_on_random_drives() {
    use freeblock_model::random_profile::{Size, random_profile};
    for seed in 0..200 {
        check_whole(DriveModel::from_profile(&random_profile(seed, Size::Tiny)).unwrap().layout());
    }
}

#[test]
fn tiny_profile_maps_both_ways() {
    let profile = Profile::from_toml(include_str!("../data/tiny.toml"), "tiny.toml").unwrap();
    let drive = DriveModel::from_profile(&profile).unwrap();
    check_whole(drive.layout());
    // 19 cylinders x 3 heads x 50 sectors less 13 spares, and 20 x 3 x 36. A remapped sector does not change the capacity.
    assert_eq!(drive.layout().capacity(), Sectors::new(19 * 150 - 13 + 20 * 108));
    assert_eq!(
        drive.layout().locate(Lbn::new(87)),
        Some(Location { track: TrackIndex::new(56), sector: 49 })
    );
}

#[test]
fn skews_add_up_along_cylinders() {
    let profile = Profile::from_toml(include_str!("../data/tiny.toml"), "tiny.toml").unwrap();
    let drive = DriveModel::from_profile(&profile).unwrap();
    // Each cylinder adds two track skews of 7/50 and a cylinder skew of 11/50.
    let sector = FULL_REVOLUTION / 50;
    for (track, sectors) in [(0, 0), (1, 7), (2, 14), (3, 25), (4, 32), (5, 39), (6, 50)] {
        let angle = drive.layout().track(TrackIndex::new(track)).angle;
        assert_eq!(angle, Angle::ZERO + Arc::from_parts(sector * sectors), "track {track}");
    }
}

#[test]
fn mistakes_are_refused_by_place() {
    let text = include_str!("../data/tiny.toml");
    let refuse = |from: &str, to: &str, place: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        let profile = Profile::from_toml(&changed, "tiny.toml").unwrap();
        let error = DriveModel::from_profile(&profile).unwrap_err();
        assert_eq!(error.place, place, "{error}");
    };
    refuse("format = 1", "format = 2", "format");
    refuse("rpm = 10000", "rpm = 0", "rpm");
    refuse("first_cylinder = 20", "first_cylinder = 18", "layout.zone[1].first_cylinder");
    refuse("last_cylinder = 39", "last_cylinder = 40", "layout.zone[1].last_cylinder");
    refuse("last_cylinder = 39", "last_cylinder = 19", "layout.zone[1].last_cylinder");
    refuse("sectors_per_track = 50", "sectors_per_track = 0", "layout.zone[0].sectors_per_track");
    refuse("sectors_per_track = 50", "sectors_per_track = [50, 50]", "layout.zone[0].sectors_per_track");
    refuse("spares = 13", "spares = 2850", "layout.zone[0].sparing.spares");
    refuse("1200]", "2850]", "layout.zone[0].slips");
    refuse("\"7/50\"", "\"7/0\"", "layout.zone[0].track_skew");
    refuse("[90, 2849]", "[90, 91]", "layout.zone[0].defects[0]");
    refuse("head_switch_ms = 0.5", "head_switch_ms = -0.5", "mechanics.head_switch_ms");
    refuse("write_settle_ms = 0.2", "write_settle_ms = nan", "mechanics.write_settle_ms");
    let spread = |points: &str| format!("write_settle_ms = 0.2\nseek_spread_ms = {points}");
    refuse("write_settle_ms = 0.2", &spread("[[4, 0.02], [4, 0.03]]"), "mechanics.seek_spread_ms[1]");
    refuse("write_settle_ms = 0.2", &spread("[[0, 0.02]]"), "mechanics.seek_spread_ms[0]");
    refuse("write_settle_ms = 0.2", &spread("[[1, -0.02]]"), "mechanics.seek_spread_ms[0]");
}

#[test]
fn a_misspelt_key_is_named_with_its_line() {
    let text = include_str!("../data/tiny.toml").replace("rpm = ", "rmp = ");
    let message = Profile::from_toml(&text, "tiny.toml").unwrap_err().to_string();
    assert!(message.starts_with("tiny.toml:6:1: ") && message.contains("rmp"), "{message}");
    let cut = &include_str!("../data/tiny.toml")[..300];
    assert!(Profile::from_toml(cut, "tiny.toml").is_err());
}
