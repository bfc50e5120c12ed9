//! The found profile held against random reads, before anybody relies on it.

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::Meter;
use crate::predict::Predictor;
use crate::report::{Check, Unsure};
use crate::turns::wrap;
use units::{Lbn, LbnRange, Sectors};

/// Reads before the check from which the predictor takes the platter's place.
const WARM_UP: u64 = 60;

/// Random reads.
const REQUESTS: u64 = 500;

/// Sectors of each: 4 KiB in sectors of 512 bytes.
const SECTORS: u64 = 8;

/// What counts as predicted, ns.
const NEAR: f64 = 50_000.0;

/// A profile that predicts fewer reads than this says so.
const ENOUGH: f64 = 0.97;

/// A drive's parts are looked at apart; one is unsure when this share of its reads came at other angles.
const PARTS: u64 = 64;
const UNSURE: f64 = 0.1;

/// Further reads of a part in which one went wrong.
const SECOND_LOOK: u64 = 24;

/// Predicts random reads, and says where that fails.
pub(crate) fn run(
    meter: &mut Meter<'_>,
    map: &Map,
    predictor: &mut Predictor,
) -> Result<(Check, Vec<Unsure>), ProbeError> {
    // What was not mapped is unsure anyway.
    let capacity = map.mapped.clamp(1, meter.capacity());
    let sectors = SECTORS.min(capacity);
    let mut check = Check { requests: REQUESTS, ..Check::default() };
    let mut strange = Vec::new();
    let mut reads = Vec::new();
    // The first goes where the arm was not.
    meter.read(0, 1)?;
    for _ in 0..WARM_UP {
        // How the platter stands to the clock, and how fast it is now.
        let lbn = meter.draw.below(capacity - sectors + 1);
        predicted(meter, predictor, lbn, sectors)?;
    }
    for i in 0..REQUESTS {
        meter.stage("check", 0.95 + 0.05 * i as f64 / REQUESTS as f64);
        let lbn = meter.draw.below(capacity - sectors + 1);
        let error = predicted(meter, predictor, lbn, sectors)?;
        let part = 1.0 / REQUESTS as f64;
        reads.push((lbn, error.abs() < NEAR));
        if error.abs() < NEAR {
            check.within_50us += part;
        } else if wrap(error / meter.revolution()).abs() * meter.revolution() < NEAR {
            check.turns_off += part;
        } else {
            check.elsewhere += part;
            strange.push(lbn);
        }
    }
    let mut unsure = second_look(meter, map, &strange)?;
    let sure: Vec<bool> = reads
        .iter()
        .filter(|&&(lbn, _)| !unsure.iter().any(|u| (u.first.get()..u.end.get()).contains(&lbn)))
        .map(|&(_, near)| near)
        .collect();
    let near = sure.iter().filter(|&&near| near).count() as f64;
    if near < ENOUGH * sure.len() as f64 || sure.is_empty() {
        // No part is worse than another: moves, not places, are what is not known well.
        let why = format!(
            "of {REQUESTS} reads all over it {:.1}% came whole turns off, {:.1}% otherwise",
            100.0 * check.turns_off,
            100.0 * check.elsewhere
        );
        unsure = vec![Unsure { first: Lbn::ZERO, end: Lbn::new(capacity), why }];
    }
    if capacity < meter.capacity() {
        unsure.push(Unsure {
            first: Lbn::new(capacity),
            end: Lbn::new(meter.capacity()),
            why: "mapping ended there: too many zones, or too long".to_owned(),
        });
    }
    Ok((check, unsure))
}

fn predicted(
    meter: &mut Meter<'_>,
    predictor: &mut Predictor,
    lbn: u64,
    sectors: u64,
) -> Result<f64, ProbeError> {
    let range = LbnRange::new(Lbn::new(lbn), Sectors::new(sectors));
    let reading = meter.read(lbn, sectors)?;
    predictor.read(reading.submitted, range);
    Ok(predictor.completed(reading.completed) as f64)
}

/// Looks again at the parts of the drive where reads came at angles that the map does not have.
fn second_look(meter: &mut Meter<'_>, map: &Map, strange: &[u64]) -> Result<Vec<Unsure>, ProbeError> {
    meter.find_phase()?;
    let capacity = map.mapped.clamp(1, meter.capacity());
    let size = capacity.div_ceil(PARTS).max(1);
    let mut parts: Vec<u64> = strange.iter().map(|lbn| lbn / size).collect();
    parts.sort_unstable();
    parts.dedup();
    let mut unsure: Vec<Unsure> = Vec::new();
    for part in parts {
        let (first, end) = (part * size, ((part + 1) * size).min(capacity));
        let mut off = 0;
        for _ in 0..SECOND_LOOK {
            let lbn = first + meter.draw.below(end - first);
            let Some(expected) = map.predict(lbn) else {
                off += 1;
                continue;
            };
            let error = meter.deviation(lbn, expected)?;
            off += u64::from(error.abs() * meter.revolution() > NEAR);
        }
        if off as f64 > UNSURE * SECOND_LOOK as f64 {
            let why = format!("{off} of {SECOND_LOOK} sectors stand elsewhere than the map has them");
            match unsure.last_mut() {
                Some(last) if last.end.get() == first => last.end = Lbn::new(end),
                _ => unsure.push(Unsure { first: Lbn::new(first), end: Lbn::new(end), why }),
            }
        }
    }
    Ok(unsure)
}
