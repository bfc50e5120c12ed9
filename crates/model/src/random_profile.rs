//! Random but possible drives, for property tests and for tests of the probe.

use crate::profile::{
    FORMAT_VERSION, LayoutSpec, Mechanics, Order, Profile, Remap, Revolutions, SectorsPerTrack, Seek,
    Sparing, SparingRegion, Zone,
};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The size of a random drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Some thousand sectors at most, so that a test can visit every sector.
    Tiny,
    /// Some million sectors at most.
    Small,
}

/// A SplitMix64 generator, so that a profile depends on nothing but its seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `low..=high`. The modulus makes some numbers slightly likelier, which does not matter here.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn ms(&mut self, low_us: u64, high_us: u64) -> f64 {
        self.range(low_us, high_us) as f64 / 1_000.0
    }

    fn revolutions(&mut self) -> Revolutions {
        match self.range(0, 2) {
            0 => Revolutions::Decimal(self.range(1, 999_999) as f64 / 1e6),
            1 => Revolutions::default(),
            _ => {
                let q = self.range(3, 400);
                Revolutions::Fraction(format!("{}/{q}", self.range(1, q - 1)))
            }
        }
    }
}

/// Returns the random drive of a seed: any order of tracks, any sparing, zones with gaps between them, slips, remaps, odd
/// skews, defects, seek curves that are not monotone, negative settling. Every seed gives a drive: if a drawn profile is
/// invalid, because spares and reserved sectors do not fit a zone, another one is drawn.
///
/// ```
/// use freeblock_model::random_profile::{Size, random_profile};
/// let profile = random_profile(7, Size::Tiny);
/// assert_eq!(profile, random_profile(7, Size::Tiny));
/// assert!(freeblock_model::DriveModel::from_profile(&profile).is_ok());
/// ```
pub fn random_profile(seed: u64, size: Size) -> Profile {
    let mut draw = Draw(seed);
    loop {
        let profile = attempt(&mut draw, seed, size);
        if crate::DriveModel::from_profile(&profile).is_ok() {
            return profile;
        }
    }
}

/// Draws a profile, which is nearly always valid.
fn attempt(draw: &mut Draw, seed: u64, size: Size) -> Profile {
    // Defects are drawn from a generator of their own, so that they do not change the other draws of a seed.
    let mut defects = Draw(draw.0 ^ 0x6465_6665_6374_7321);
    let (most_cylinders, most_sectors) = match size {
        Size::Tiny => (12, 40),
        Size::Small => (400, 400),
    };
    let heads = draw.range(1, 6) as u16;
    let order = match draw.range(0, 4) {
        0 => Order::Cylinder,
        1 => Order::CylinderSerpentine,
        2 => Order::CylinderSerpentineAbsolute,
        _ => Order::SurfaceSerpentine { band_cylinders: draw.range(1, 20) as u32 },
    };
    let banded = matches!(order, Order::SurfaceSerpentine { .. });
    let mut next = 0;
    let zones = (0..draw.range(1, 4))
        .map(|_| {
            let first = next + u32::from(draw.one_in(3));
            next = first + draw.range(2, most_cylinders) as u32;
            random_zone(draw, first, next - 1, most_sectors, heads, banded)
        })
        .collect();
    let cylinders = next + draw.range(0, 2) as u32;
    let mut profile = Profile {
        format: FORMAT_VERSION,
        name: format!("random-{seed}"),
        title: format!("Random drive {seed}"),
        synthetic: true,
        sources: vec![format!("made up from seed {seed}")],
        sector_bytes: 512,
        physical_sector_bytes: None,
        rpm: draw.range(3_600, 15_000) as u32,
        cylinders,
        heads,
        mechanics: Mechanics {
            seek_spread_ms: Vec::new(),
            head_switch_ms: draw.ms(0, 1_000),
            cylinder_switch_ms: draw.one_in(3).then(|| draw.ms(500, 2_000)),
            write_settle_ms: if draw.one_in(4) { -draw.ms(0, 300) } else { draw.ms(0, 600) },
            zero_latency_read: draw.one_in(2),
            zero_latency_write: draw.one_in(2),
        },
        seek: random_seek(draw, cylinders),
        layout: LayoutSpec { order, patterns: Vec::new(), zones, remaps: Vec::new() },
        firmware: None,
    };
    if defects.one_in(2) {
        add_defects(&mut profile, &mut defects);
    }
    if draw.one_in(3) {
        add_remap(&mut profile, draw);
    }
    profile
}

fn random_zone(
    draw: &mut Draw,
    first_cylinder: u32,
    last_cylinder: u32,
    most_sectors: u64,
    heads: u16,
    banded: bool,
) -> Zone {
    let sectors = draw.range(8, most_sectors) as u32;
    let by_head = draw.one_in(4);
    let places = u64::from(last_cylinder - first_cylinder + 1) * u64::from(heads) * u64::from(sectors);
    let (per, cylinders, spares) = match draw.range(0, 5) {
        _ if by_head => (SparingRegion::Zone, None, 0),
        0 if !banded => (SparingRegion::Track, None, draw.range(1, 3)),
        1 if !banded => (SparingRegion::Cylinder, None, draw.range(1, 5)),
        2 if !banded => (SparingRegion::Range, Some(2), draw.range(1, 6)),
        3 => (SparingRegion::ZoneTracks, None, 1),
        _ => (SparingRegion::Zone, None, draw.range(0, 20).min(places / 4)),
    };
    let slips = match per {
        SparingRegion::ZoneTracks => vec![draw.range(0, places / u64::from(sectors) - 1)],
        // At most four slips, so that the zone does not have more slips than spares.
        SparingRegion::Zone if spares > 4 => {
            (0..draw.range(0, 4)).map(|_| draw.range(0, places / 2)).collect()
        }
        SparingRegion::Zone => Vec::new(),
        _ => vec![draw.range(0, places / 2)],
    };
    let sectors_per_track = if by_head {
        SectorsPerTrack::ByHead((0..heads).map(|h| sectors + u32::from(h % 3)).collect())
    } else {
        SectorsPerTrack::Same(sectors)
    };
    Zone {
        offset: draw.revolutions(),
        track_skew: draw.revolutions(),
        cylinder_skew: draw.revolutions(),
        head_skew: banded.then(|| draw.revolutions()),
        reserved: if draw.one_in(4) { draw.range(0, places / 8) } else { 0 },
        sparing: Sparing { per, cylinders, spares, at_front: draw.one_in(4), slip_to_end: draw.one_in(4) },
        slips,
        ..Zone::plain(first_cylinder, last_cylinder, sectors_per_track)
    }
}

fn random_seek(draw: &mut Draw, cylinders: u32) -> Seek {
    match draw.range(0, 2) {
        0 => {
            let (mut distance, mut ms) = (0, draw.ms(100, 1_000));
            let mut points = Vec::new();
            while distance < cylinders && points.len() < 60 {
                distance += draw.range(1, 1 + u64::from(cylinders) / 8) as u32;
                ms += draw.ms(0, 600);
                // A dent, because measured curves are not monotone.
                let dent = if draw.one_in(6) { draw.ms(0, 100) } else { 0.0 };
                points.push((distance, ms - dent));
            }
            Seek::Table { points }
        }
        1 => {
            let one_ms = draw.ms(100, 1_500);
            let middle = one_ms + draw.ms(0, 4_000);
            Seek::TwoPiece {
                one_ms,
                crossover: (1 + draw.range(1, 50) as u32, middle),
                far: (60 + draw.range(0, 400) as u32, middle + draw.ms(0, 3_000)),
            }
        }
        _ => Seek::SqrtLinear {
            crossover: draw.range(1, 60) as u32,
            sqrt: (draw.ms(100, 2_000), draw.ms(10, 400)),
            linear: (draw.ms(500, 4_000), draw.ms(0, 20)),
            first_ms: (0..draw.range(0, 10)).map(|_| draw.ms(200, 3_000)).collect(),
            least_ms: 0.0,
        },
    }
}

/// Adds up to three defects to every zone: bad sectors whose LBNs move to spare sectors of the zone.
fn add_defects(profile: &mut Profile, draw: &mut Draw) {
    use crate::layout::{Layout, Location};
    use units::TrackIndex;
    let Ok(layout) = Layout::new(&profile.layout, profile.cylinders, profile.heads) else { return };
    let mut first_track = 0;
    for zone in &mut profile.layout.zones {
        let tracks = (zone.last_cylinder - zone.first_cylinder + 1) * u32::from(profile.heads);
        // `start` is the number of sectors in the zone before the track `local`.
        let (mut used, mut spare, mut start) = (Vec::new(), Vec::new(), 0);
        for local in 0..tracks {
            let track = TrackIndex::new(first_track + local);
            let sectors = layout.track(track).sectors;
            let held: u32 = layout.extents(track).map(|e| e.len).sum();
            if held > 0 {
                used.push((track, start));
            }
            let slipped = |place: u64| match zone.sparing.per {
                SparingRegion::ZoneTracks => zone.slips.contains(&u64::from(local)),
                _ => zone.slips.contains(&place),
            };
            if held < sectors && spare.len() < 1_000 {
                let empty = (0..sectors).filter(|&s| layout.lbn_at(Location { track, sector: s }).is_none());
                let places = empty.map(|s| start + u64::from(s));
                spare.extend(places.filter(|&place| place >= zone.reserved && !slipped(place)));
            }
            start += u64::from(sectors);
        }
        first_track += tracks;
        if used.is_empty() {
            continue;
        }
        for _ in 0..draw.range(0, 3).min(spare.len() as u64) {
            let (track, start) = used[draw.range(0, used.len() as u64 - 1) as usize];
            let extents: Vec<_> = layout.extents(track).collect();
            let extent = extents[draw.range(0, extents.len() as u64 - 1) as usize];
            let bad = start + u64::from(extent.sector) + draw.range(0, u64::from(extent.len) - 1);
            let replacement = spare.swap_remove(draw.range(0, spare.len() as u64 - 1) as usize);
            if zone.defects.iter().all(|&(other, _)| other != bad) {
                zone.defects.push((bad, replacement));
            }
        }
    }
}

/// Moves one LBN to a sector without an LBN, if one of the last 64 tracks has such a sector.
fn add_remap(profile: &mut Profile, draw: &mut Draw) {
    use crate::layout::{Layout, Location};
    use units::TrackIndex;
    let Ok(layout) = Layout::new(&profile.layout, profile.cylinders, profile.heads) else { return };
    let free = (0..layout.track_count()).rev().take(64).map(TrackIndex::new).find_map(|track| {
        let geometry = layout.track(track);
        let sector =
            (0..geometry.sectors).find(|&s| layout.lbn_at(Location { track, sector: s }).is_none())?;
        Some((geometry, sector))
    });
    if let Some((track, sector)) = free {
        let lbn = draw.range(0, layout.capacity().get() - 1);
        let (cylinder, head) = (track.cylinder.get(), track.head.get());
        profile.layout.remaps.push(Remap { lbn, sectors: 1, cylinder, head, sector });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_a_drive() {
        let check = |seed, size| {
            let profile = random_profile(seed, size);
            if let Err(e) = crate::DriveModel::from_profile(&profile) {
                panic!("seed {seed}: {e}");
            }
            let text = profile.to_toml();
            assert_eq!(Profile::from_toml(&text, "random").unwrap(), profile, "seed {seed}");
        };
        for seed in 0..testing::sized(150, 400) {
            check(seed, Size::Tiny);
            check(seed, Size::Small);
        }
        // The first profiles drawn from these seeds are invalid: their spares do not fit their zones.
        for seed in [12_076_655_762_571_467_670, 5_386_633_628_521_995_636, 7_324_867_518_218_266_556] {
            check(seed, Size::Tiny);
        }
        let mut seeds = Draw(1);
        for _ in 0..5_000 {
            check(seeds.next(), Size::Tiny);
        }
    }

    #[test]
    fn rare_features_are_among_the_first_seeds() {
        let drives: Vec<_> = (0..100).map(|seed| random_profile(seed, Size::Tiny).layout).collect();
        let defective = drives.iter().filter(|d| d.zones.iter().any(|z| !z.defects.is_empty())).count();
        let remapped = drives.iter().filter(|d| !d.remaps.is_empty()).count();
        let slipped = drives.iter().filter(|d| d.zones.iter().any(|z| !z.slips.is_empty())).count();
        assert!(defective >= 15 && remapped >= 10 && slipped >= 15, "{defective} {remapped} {slipped}");
    }
}
