//! Reads `dm_layout_g1`: zones of cylinders with skews in whole sectors, slips, and spares by one of eleven schemes.

use super::fields::flattened;
use super::source::{At, Fault, refuse};
use super::syntax::{Block, Value};
use crate::profile::{LayoutSpec, Order, Revolutions, SectorsPerTrack, Sparing, SparingRegion, Zone};

/// The most sectors accepted on a track; drives of today have some five thousand.
pub(super) const SECTORS_PER_TRACK_MAX: u64 = 100_000;

/// A layout, with the numbers of LBNs, cylinders and heads that it uses.
pub(super) struct Mapped {
    pub layout: LayoutSpec,
    /// The number of LBNs.
    pub capacity: u64,
    /// One more than the last cylinder.
    pub cylinders: u32,
    /// One more than the highest head.
    pub heads: u16,
}

/// The unit of skews and of the offset of a zone's first block. Sectors are the default.
///
/// DiskSim's documentation says so, and the offsets of the HP drives (14, 73, 80 ... on tracks of 92, 88, 84 sectors) make
/// sense only in sectors. DiskSim's own results for the HP C2247A confirm the unit (tests/model/import_oracle.rs).
#[derive(Clone, Copy, PartialEq)]
enum SkewUnit {
    Sectors,
    Revolutions,
}

pub(super) fn read(block: &Block, heads: u16, notes: &mut Vec<String>) -> Result<Mapped, Fault> {
    let order = match block.whole("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => Order::Cylinder,
        1 => Order::CylinderSerpentine,
        _ => Order::CylinderSerpentineAbsolute,
    };
    let scheme = block.whole("Sparing scheme used", 0, 10)?;
    let range = block.whole_or("Rangesize for sparing", 0, u64::from(u32::MAX), 1)? as u32;
    if scheme == 8 && range == 0 {
        let at = block.get("Rangesize for sparing").map_or(block.at, Value::at);
        return Err(refuse(at, "the range for sparing has 0 cylinders", "give 1 or more"));
    }
    let unit = skew_unit(block)?.unwrap_or(SkewUnit::Sectors);
    let zone_values = block.require("Zones")?.list("Zones")?;
    if zone_values.is_empty() {
        return Err(refuse(block.require("Zones")?.at(), "there is no zone", "give at least one"));
    }
    let mut mapped = Mapped {
        layout: LayoutSpec { order, patterns: Vec::new(), zones: Vec::new(), remaps: Vec::new() },
        capacity: 0,
        cylinders: 0,
        heads,
    };
    for value in zone_values {
        let reader = ZoneReader { block: value.block("Zones")?, scheme, range, heads, unit };
        let zone = reader.read(mapped.layout.zones.len(), notes)?;
        if !mapped.layout.zones.is_empty() && zone.first_cylinder < mapped.cylinders {
            let at = reader.block.require("First cylinder number")?.at();
            return Err(refuse(
                at,
                format!(
                    "the zone begins at cylinder {} and the zone before ends at {}",
                    zone.first_cylinder,
                    mapped.cylinders - 1
                ),
                "order the zones by cylinder, without overlap",
            ));
        }
        mapped.cylinders = zone.last_cylinder.checked_add(1).ok_or_else(|| too_large(value.at()))?;
        let lbns = reader.capacity(&zone)?;
        mapped.capacity = mapped
            .capacity
            .checked_add(lbns)
            .filter(|&sum| sum <= i64::MAX as u64)
            .ok_or_else(|| too_large(value.at()))?;
        mapped.layout.zones.push(zone);
    }
    Ok(mapped)
}

fn too_large(at: At) -> Fault {
    refuse(at, "the drive would have more than 2^63 sectors", "check the numbers of cylinders and sectors")
}

fn skew_unit(block: &Block) -> Result<Option<SkewUnit>, Fault> {
    let Some(value) = block.get("Skew units") else { return Ok(None) };
    let scalar = value.scalar("Skew units")?;
    match scalar.text.to_ascii_lowercase().as_str() {
        "sectors" => Ok(Some(SkewUnit::Sectors)),
        "revolutions" => Ok(Some(SkewUnit::Revolutions)),
        _ => Err(refuse(scalar.at, "unknown unit of skew", "write `sectors` or `revolutions`")),
    }
}

struct ZoneReader<'b> {
    block: &'b Block,
    scheme: u64,
    range: u32,
    heads: u16,
    unit: SkewUnit,
}

impl ZoneReader<'_> {
    fn read(&self, number: usize, notes: &mut Vec<String>) -> Result<Zone, Fault> {
        let block = self.block;
        let first = block.whole("First cylinder number", 0, u64::from(u32::MAX) - 1)? as u32;
        let last = block.whole("Last cylinder number", 0, u64::from(u32::MAX) - 1)? as u32;
        if last < first {
            return Err(refuse(
                block.require("Last cylinder number")?.at(),
                format!("the zone's last cylinder {last} lies before its first, {first}"),
                "swap the two",
            ));
        }
        let per_track = block.whole("Blocks per track", 1, SECTORS_PER_TRACK_MAX)? as u32;
        let unit = skew_unit(block)?.unwrap_or(self.unit);
        let revolutions = |key: &str| -> Result<Revolutions, Fault> {
            let number = block.number_or(key, 0.0)?;
            Ok(match unit {
                // DiskSim truncates skews to whole sectors.
                SkewUnit::Sectors if number.abs() < 1e15 => {
                    Revolutions::of_sectors(number.trunc() as i64, per_track)
                }
                SkewUnit::Sectors => {
                    let at = block.require(key)?.at();
                    return Err(refuse(at, format!("`{key}` is {number} sectors"), "give less than a track"));
                }
                SkewUnit::Revolutions => Revolutions::Decimal(number),
            })
        };
        let mut zone = Zone {
            offset: revolutions("Offset of first block")?,
            track_skew: revolutions("Skew for track switch")?,
            cylinder_skew: revolutions("Skew for cylinder switch")?,
            reserved: block.whole_or("Empty space at zone front", 0, u64::MAX, 0)?,
            ..Zone::plain(first, last, SectorsPerTrack::Same(per_track))
        };
        zone.slips = self.slips(&zone, number, notes)?;
        zone.defects = self.defects(&zone, number, notes)?;
        zone.sparing = self.sparing(&zone, number, notes)?;
        Ok(zone)
    }

    fn sectors_per_track(zone: &Zone) -> u64 {
        match &zone.sectors_per_track {
            SectorsPerTrack::Same(n) => u64::from(*n),
            SectorsPerTrack::ByHead(_) => 0,
        }
    }

    fn cylinders(zone: &Zone) -> u64 {
        u64::from(zone.last_cylinder) - u64::from(zone.first_cylinder) + 1
    }

    /// Returns the number of sectors in the zone. The product of cylinders, sectors and heads may exceed 64 bits.
    fn sectors(&self, zone: &Zone) -> Result<u64, Fault> {
        Self::cylinders(zone)
            .checked_mul(Self::sectors_per_track(zone) * u64::from(self.heads))
            .filter(|&sectors| sectors <= i64::MAX as u64)
            .ok_or_else(|| too_large(self.block.at))
    }

    /// Returns the zone's size in the unit of slips and defects: tracks under sparing scheme 1 (whole tracks), else sectors.
    fn places(&self, zone: &Zone) -> Result<u64, Fault> {
        let sectors = self.sectors(zone)?;
        Ok(if self.scheme == 1 { sectors / Self::sectors_per_track(zone).max(1) } else { sectors })
    }

    fn slips(&self, zone: &Zone, number: usize, notes: &mut Vec<String>) -> Result<Vec<u64>, Fault> {
        let places = self.places(zone)?;
        let mut items = Vec::new();
        flattened(self.block.list("slips")?, &mut items);
        let mut slips = items
            .iter()
            .map(|item| item.whole("slips", 0, places.saturating_sub(1)))
            .collect::<Result<Vec<u64>, Fault>>()?;
        if !slips.is_sorted_by(|a, b| a < b) {
            notes.push(format!(
                "zone {number}: the slips were not in ascending order, or repeated; they are now"
            ));
            slips.sort_unstable();
            slips.dedup();
        }
        Ok(slips)
    }

    fn defects(&self, zone: &Zone, number: usize, notes: &mut Vec<String>) -> Result<Vec<(u64, u64)>, Fault> {
        let places = self.places(zone)?;
        let mut items = Vec::new();
        flattened(self.block.list("defects")?, &mut items);
        let (pairs, odd) = items.as_chunks::<2>();
        if let Some(item) = odd.first() {
            return Err(refuse(
                item.at(),
                "a defect without its replacement",
                "list defects in pairs `bad, replacement`",
            ));
        }
        let most = places.saturating_sub(1);
        let mut defects = Vec::new();
        for [bad, replacement] in pairs {
            let pair = (bad.whole("defects", 0, most)?, replacement.whole("defects", 0, most)?);
            if pair.0 == pair.1 {
                notes.push(format!("zone {number}: defect {} is its own replacement; left out", pair.0));
            } else {
                defects.push(pair);
            }
        }
        Ok(defects)
    }

    /// Expresses DiskSim's eleven sparing schemes as regions. Under schemes 0, 4, 6, 7 and 10 a slip moves all later LBNs of
    /// the zone; under 2, 3, 5, 8 and 9 a slip uses one of its region's spares.
    ///
    /// DiskSim's own code for 0, 2 and 5 is wrong: 0 returns no result, 2 and 5 map two LBNs to one sector. Here these
    /// schemes work as DiskSim documents them.
    fn sparing(&self, zone: &Zone, number: usize, notes: &mut Vec<String>) -> Result<Sparing, Fault> {
        let spares = self.block.whole_or("Number of spares", 0, u64::MAX, 0)?;
        let per = match self.scheme {
            1 => SparingRegion::ZoneTracks,
            3 => SparingRegion::Track,
            8 => SparingRegion::Range,
            2 | 4 | 5 | 6 => SparingRegion::Cylinder,
            _ => SparingRegion::Zone,
        };
        if self.scheme == 0 && !zone.slips.is_empty() {
            notes.push(format!(
                "zone {number}: slips under sparing scheme 0, which has no spares; each pushes all that follows"
            ));
        }
        if matches!(self.scheme, 0 | 7) && spares > 0 {
            notes.push(format!(
                "zone {number}: {spares} spares left out, sparing scheme {} has none",
                self.scheme
            ));
        }
        Ok(Sparing {
            per,
            cylinders: (per == SparingRegion::Range).then_some(self.range),
            spares: if matches!(self.scheme, 0 | 7) { 0 } else { spares },
            at_front: matches!(self.scheme, 5 | 6),
            slip_to_end: matches!(self.scheme, 0 | 4 | 6 | 7 | 10),
        })
    }

    /// Returns the number of LBNs in the zone. With spares by range, a shorter last range has no spares.
    fn capacity(&self, zone: &Zone) -> Result<u64, Fault> {
        let (cylinders, per_track, heads) =
            (Self::cylinders(zone), Self::sectors_per_track(zone), u64::from(self.heads));
        let spares = zone.sparing.spares;
        let regions = match zone.sparing.per {
            SparingRegion::Zone => 1,
            SparingRegion::ZoneTracks => per_track,
            SparingRegion::Range => cylinders / u64::from(self.range.max(1)),
            SparingRegion::Cylinder => cylinders,
            SparingRegion::Track => cylinders * heads,
        };
        let slipped = if zone.sparing.slip_to_end { zone.slips.len() as u64 } else { 0 };
        let held_back = regions
            .checked_mul(spares)
            .and_then(|sum| sum.checked_add(slipped))
            .and_then(|sum| sum.checked_add(zone.reserved));
        let sectors = self.sectors(zone)?;
        match held_back {
            Some(held_back) if held_back < sectors => Ok(sectors - held_back),
            _ => Err(refuse(
                self.block.at,
                format!("spares, slips and empty space leave no LBN in this zone of {sectors} sectors"),
                "lower `Number of spares` or `Empty space at zone front`",
            )),
        }
    }
}
