//! The check of the found profile before it is used: by random reads, and by writes where they are allowed.

mod stray;

use crate::error::ProbeError;
use crate::mapping::Map;
use crate::meter::{CHECK_TIME_SHARE_MAX, Meter};
use crate::predict::Predictor;
use crate::report::{Check, Confidence, PREDICTED_SHARE_MIN, Unsure};
use crate::revolutions::wrap;
use units::{Lbn, LbnRange, Op, Sectors};

/// The number of reads before the check that give the predictor the platter's angle.
const WARM_UP_READS: u64 = 60;

/// The number of random reads of the check. If their result leaves open whether enough reads are predicted, the numbers
/// of `FURTHER_REQUESTS` follow.
pub(crate) const REQUESTS: u64 = 500;
const FURTHER_REQUESTS: [u64; 2] = [500, 1_500];

/// The number of the check's reads for which time is reserved if the arm is slow. A profile that predicts well seldom
/// needs more; further reads use the time that is left.
pub(crate) const RESERVED_READS: u64 = WARM_UP_READS + REQUESTS + 2 * FURTHER_REQUESTS[0];

/// The number of standard deviations by which the share of predicted reads must exceed `PREDICTED_SHARE_MIN`, at the
/// first and last tests of the check. The second constant is for a test between these two: the larger number keeps the
/// additional test from raising the probability of a wrong result much (O'Brien and Fleming 1979).
const OPEN_DEVIATIONS: f64 = 2.0;
const OPEN_BETWEEN_DEVIATIONS: f64 = 2.5;

/// The number of sectors of each read: 4 KiB in sectors of 512 bytes.
const SECTORS: u64 = 8;

/// The largest error of a read that counts as predicted, ns.
const PREDICTED_ERROR_NS_MAX: f64 = 50_000.0;

/// The number of parts of a drive that are judged separately, and the share of unpredicted reads in a part above which
/// the part is unsure.
const PARTS: u64 = 64;
const UNSURE_SHARE_MIN: f64 = 0.1;

/// The number of reads that measure the confidence in one unsure region, and the share of the probe's allowed time at
/// which such reads end.
const REGION_READS: u64 = 64;
const REGION_TIME_SHARE_MAX: f64 = 0.94;

/// The least number of further reads of LBNs that the check found away from their predicted angle.
const MOVED_LOOKS: usize = 16;

/// The number of further reads in a part of the drive in which one read was not as predicted.
const REPEATED_READS: u64 = 24;

/// A read of the check.
#[derive(Clone, Copy, Debug)]
struct Read {
    lbn: u64,
    near: bool,
}

/// Predicts random reads, and returns the result and the regions where predictions fail. Single LBNs that are elsewhere
/// are entered into the map.
pub(crate) fn run(
    meter: &mut Meter<'_>,
    map: &mut Map,
    predictor: &mut Predictor,
) -> Result<(Check, Vec<Unsure>), ProbeError> {
    // A part that was not mapped is unsure without a check.
    let capacity = map.mapped.clamp(1, meter.capacity());
    let sectors = SECTORS.min(capacity);
    let mut tally = Tally::new(capacity, meter.capacity());
    // The first read moves the arm.
    meter.read(0, 1)?;
    for _ in 0..WARM_UP_READS {
        // The first reads find the platter's angle and its present speed.
        let lbn = meter.draw.below(capacity - sectors + 1);
        predicted(meter, predictor, lbn, sectors)?;
    }
    for i in 0..REQUESTS {
        meter.stage("check", 0.95 + 0.03 * i as f64 / REQUESTS as f64);
        tally.read(meter, predictor)?;
    }
    let mut unsure = check_again(meter, map, &tally.strange)?;
    // The first reads chose the unsure parts. They are no evidence for the rest of the drive, because outside the
    // chosen parts nearly all of them were as predicted.
    let chosen_by = if unsure.is_empty() { 0 } else { tally.reads.len() };
    if !is_enough(tally.after(chosen_by), &unsure) {
        for more in FURTHER_REQUESTS {
            for i in 0..more {
                if !meter.is_within(CHECK_TIME_SHARE_MAX) {
                    break;
                }
                meter.stage("check", 0.98 + 0.02 * i as f64 / more as f64);
                tally.read(meter, predictor)?;
            }
            if is_enough_by(OPEN_BETWEEN_DEVIATIONS, tally.after(chosen_by), &unsure) {
                break;
            }
        }
        if !is_enough(tally.after(chosen_by), &unsure) {
            let parts = [UNSURE_SHARE_MIN, UNSURE_SHARE_MIN / 2.0]
                .into_iter()
                .find_map(|most| worst(tally.after(chosen_by), &unsure, capacity, most));
            unsure = parts.unwrap_or_else(|| {
                // No part is worse than another, so the seek times are probably wrong, not the positions of sectors.
                let check = tally.check();
                let why = format!(
                    "{} reads all over the drive: {:.1}% end whole revolutions off, {:.1}% otherwise",
                    check.requests,
                    100.0 * check.revolutions_off,
                    100.0 * check.elsewhere
                );
                vec![Unsure::new(0, capacity, why)]
            });
        }
    }
    let strays = stray::find(meter, map, &tally.strange, &unsure, CHECK_TIME_SHARE_MAX)?;
    map.stand_alone(&strays.moved);
    unsure.extend(strays.stretches);
    unsure.sort_by_key(|region| region.first);
    if capacity < meter.capacity() {
        let why = "mapping ended there: too many zones, or too long".to_owned();
        unsure.push(Unsure::new(capacity, meter.capacity(), why));
    }
    how_far(meter, predictor, &mut unsure)?;
    Ok((tally.check(), unsure))
}

/// Returns the result without a check: the profile is unsure of all LBNs of the drive.
pub(crate) fn of_nothing(capacity: u64) -> (Check, Vec<Unsure>) {
    let why = "the drive was not understood, and no prediction was checked".to_owned();
    (Check::default(), vec![Unsure::new(0, capacity, why)])
}

/// The results of the reads so far.
#[derive(Clone, Debug)]
struct Tally {
    /// Reads are drawn from the LBNs below this one.
    end: u64,
    capacity: u64,
    reads: Vec<Read>,
    revolutions_off: u64,
    /// The first LBNs of reads that were neither as predicted nor whole revolutions off.
    strange: Vec<u64>,
}

impl Tally {
    const fn new(end: u64, capacity: u64) -> Self {
        Self { end, capacity, reads: Vec::new(), revolutions_off: 0, strange: Vec::new() }
    }

    fn read(&mut self, meter: &mut Meter<'_>, predictor: &mut Predictor) -> Result<(), ProbeError> {
        let sectors = SECTORS.min(self.end);
        let lbn = meter.draw.below(self.end - sectors + 1);
        // An unreadable sector is no evidence against a prediction.
        let Some(error) = predicted(meter, predictor, lbn, sectors)? else { return Ok(()) };
        self.take(lbn, error, meter.revolution());
        Ok(())
    }

    /// Records a request that ended `error` ns later than predicted.
    fn take(&mut self, lbn: u64, error: f64, revolution: f64) {
        let near = error.abs() < PREDICTED_ERROR_NS_MAX;
        self.reads.push(Read { lbn, near });
        if !near && wrap(error / revolution).abs() * revolution < PREDICTED_ERROR_NS_MAX {
            self.revolutions_off += 1;
        } else if !near {
            self.strange.push(lbn);
        }
    }

    /// Returns the reads after the first `first`.
    fn after(&self, first: usize) -> &[Read] {
        self.reads.get(first..).unwrap_or_default()
    }

    fn check(&self) -> Check {
        let share = |n: usize| n as f64 / self.reads.len().max(1) as f64;
        Check {
            first: Lbn::ZERO,
            end: Lbn::new(self.end),
            of_drive: self.end as f64 / self.capacity.max(1) as f64,
            requests: self.reads.len() as u64,
            within_50us: share(self.reads.iter().filter(|read| read.near).count()),
            revolutions_off: share(self.revolutions_off as usize),
            elsewhere: share(self.strange.len()),
        }
    }
}

/// Returns whether enough reads outside the unsure regions were predicted, by more than chance permits.
fn is_enough(reads: &[Read], unsure: &[Unsure]) -> bool {
    is_enough_by(OPEN_DEVIATIONS, reads, unsure)
}

/// Returns whether enough reads outside the unsure regions were predicted, with a margin of this number of standard deviations.
fn is_enough_by(deviations: f64, reads: &[Read], unsure: &[Unsure]) -> bool {
    let sure: Vec<bool> = reads
        .iter()
        .filter(|read| !unsure.iter().any(|u| (u.first.get()..u.end.get()).contains(&read.lbn)))
        .map(|read| read.near)
        .collect();
    let n = sure.len() as f64;
    let near = sure.iter().filter(|&&near| near).count() as f64;
    let deviation = (PREDICTED_SHARE_MIN * (1.0 - PREDICTED_SHARE_MIN) * n).sqrt();
    n > 0.0 && near >= PREDICTED_SHARE_MIN * n + deviations * deviation
}

/// Returns the unsure regions with the parts of the drive in which more than the share `most` of the reads was not as
/// predicted; `None` if too few reads outside them were predicted. One half of the reads chooses the parts, and the
/// other half judges the rest of the drive.
fn worst(reads: &[Read], unsure: &[Unsure], capacity: u64, most: f64) -> Option<Vec<Unsure>> {
    let size = capacity.div_ceil(PARTS).max(1);
    let (choosing, judging) = reads.split_at(reads.len() / 2);
    let mut parts = vec![(0_u32, 0_u32); PARTS as usize];
    for read in choosing {
        if let Some(part) = parts.get_mut((read.lbn / size) as usize) {
            *part = (part.0 + 1, part.1 + u32::from(!read.near));
        }
    }
    let is_bad = |part: &(u32, u32)| f64::from(part.1) > most * f64::from(part.0);
    let bad: Vec<u64> = (0..).zip(&parts).filter(|(_, part)| is_bad(part)).map(|(i, _)| i).collect();
    let mut named = unsure.to_vec();
    for &part in &bad {
        let (first, end) = (part * size, ((part + 1) * size).min(capacity));
        if first < end && !unsure.iter().any(|u| u.first.get() <= first && end <= u.end.get()) {
            let (of, off) = parts.get(part as usize).copied().unwrap_or_default();
            let why = format!("{off} of {of} reads there were not done when predicted");
            named.push(Unsure::new(first, end, why));
        }
    }
    named.sort_by_key(|u| u.first);
    is_enough(judging, &named).then_some(named)
}

fn predicted(
    meter: &mut Meter<'_>,
    predictor: &mut Predictor,
    lbn: u64,
    sectors: u64,
) -> Result<Option<f64>, ProbeError> {
    let range = LbnRange::new(Lbn::new(lbn), Sectors::new(sectors));
    let reading = meter.read(lbn, sectors)?;
    predictor.read(reading.submitted, range);
    if reading.failed {
        predictor.failed(reading.completed);
        return Ok(None);
    }
    Ok(Some(predictor.completed(reading.completed) as f64))
}

/// Predicts random requests, a third of them writes to `region`; returns the result, and the whole drive as unsure if
/// too few were predicted. Without a region the function writes nothing, and all writes are unsure.
pub(crate) fn writes(
    meter: &mut Meter<'_>,
    predictor: &mut Predictor,
    region: Option<LbnRange>,
) -> Result<(Option<Check>, Vec<Unsure>), ProbeError> {
    let capacity = meter.capacity();
    let Some(region) = region.filter(|_| meter.refuses_writes().is_none()) else {
        let why = match meter.refuses_writes() {
            Some(problem) => format!("{problem}; what they need beyond reads was not measured"),
            None => "writes were not allowed, and what they need beyond reads was not measured".to_owned(),
        };
        return Ok((None, vec![Unsure::new(0, capacity, why)]));
    };
    let mut tally = Tally::new(capacity, capacity);
    for i in 0..REQUESTS + FURTHER_REQUESTS[0] + FURTHER_REQUESTS[1] {
        // Only two numbers of requests lead to a test: a test after each request would stop too often by chance.
        let second = i == REQUESTS + FURTHER_REQUESTS[0];
        let is_test = second || i == REQUESTS;
        let is_settled = |reads: &[Read]| match second {
            false => is_enough(reads, &[]),
            true => {
                is_enough_by(OPEN_BETWEEN_DEVIATIONS, reads, &[])
                    || tally.check().within_50us < PREDICTED_SHARE_MIN
            }
        };
        if !meter.is_within(REGION_TIME_SHARE_MAX) || is_test && is_settled(&tally.reads) {
            break;
        }
        meter.stage("check of writes", 0.99);
        let write = meter.draw.below(3) == 0;
        let within = if write { region } else { LbnRange::new(Lbn::ZERO, Sectors::new(capacity)) };
        let sectors = SECTORS.min(within.len().get());
        let lbn = within.start().get() + meter.draw.below(within.len().get() - sectors + 1);
        let error = if write {
            let reading = meter.execute(meter.now(), Op::Write, lbn, sectors)?;
            predictor.write(reading.submitted, LbnRange::new(Lbn::new(lbn), Sectors::new(sectors)));
            if reading.failed {
                // After a failed write the arm may be anywhere: the next read finds it, and is not part of the result.
                predictor.failed(reading.completed);
                let anywhere = meter.draw.below(capacity - SECTORS.min(capacity) + 1);
                predicted(meter, predictor, anywhere, SECTORS.min(capacity))?;
                None
            } else {
                Some(predictor.completed(reading.completed) as f64)
            }
        } else {
            predicted(meter, predictor, lbn, sectors)?
        };
        if let Some(error) = error {
            tally.take(lbn, error, meter.revolution());
        }
    }
    let check = tally.check();
    let mut unsure = Vec::new();
    let refused = meter.refuses_writes();
    if refused.is_some() || !is_enough(&tally.reads, &[]) {
        let why = match check.requests {
            _ if refused.is_some() => refused.unwrap_or_default().to_owned(),
            0 => "no time was left to check predictions of writes".to_owned(),
            requests => format!(
                "{requests} requests, a third of them writes: {:.1}% end whole revolutions off, {:.1}% otherwise",
                100.0 * check.revolutions_off,
                100.0 * check.elsewhere
            ),
        };
        let near = tally.reads.iter().filter(|read| read.near).count() as u64;
        let confidence = Confidence::of(near, check.requests);
        unsure.push(Unsure { confidence, ..Unsure::new(0, capacity, why) });
    }
    Ok((Some(check), unsure))
}

/// Measures the confidence in each unsure region by new reads, because the reads that named a region were chosen for
/// their errors. Each new read follows a read anywhere on the drive, as a random request does.
fn how_far(
    meter: &mut Meter<'_>,
    predictor: &mut Predictor,
    unsure: &mut [Unsure],
) -> Result<(), ProbeError> {
    let capacity = meter.capacity();
    let sectors = SECTORS.min(capacity);
    let mut counts = vec![Counts::default(); unsure.len()];
    let is_sure = |lbn: u64| !unsure.iter().any(|u| (u.first.get()..u.end.get()).contains(&lbn));
    // The index of the region that was read last.
    let mut last = None;
    for round in 0..REGION_READS {
        meter.stage("unsure regions", 0.99 + 0.01 * round as f64 / REGION_READS as f64);
        for (i, region) in unsure.iter().enumerate() {
            let (first, end) = (region.first.get(), region.end.get());
            if !meter.is_within(REGION_TIME_SHARE_MAX) {
                break;
            }
            let anywhere = meter.draw.below(capacity - sectors + 1);
            let error = predicted(meter, predictor, anywhere, sectors)?;
            if let (Some(error), Some(before)) =
                (error, last.and_then(|before: usize| counts.get_mut(before)))
                && is_sure(anywhere)
            {
                before.behind =
                    (before.behind.0 + u64::from(error.abs() < PREDICTED_ERROR_NS_MAX), before.behind.1 + 1);
            }
            let lbn = (first + meter.draw.below(end - first)).min(capacity - sectors);
            let error = predicted(meter, predictor, lbn, sectors)?;
            if let (Some(error), Some(count)) = (error, counts.get_mut(i)) {
                count.there =
                    (count.there.0 + u64::from(error.abs() < PREDICTED_ERROR_NS_MAX), count.there.1 + 1);
            }
            last = Some(i);
        }
    }
    for (region, Counts { there, behind }) in unsure.iter_mut().zip(counts) {
        region.confidence = Confidence::of(there.0, there.1);
        region.behind = Confidence::of(behind.0, behind.1);
    }
    Ok(())
}

/// Pairs of the number of predicted reads and the number of all reads: `there` in an unsure region, `behind` of reads
/// outside all unsure regions directly after a read in this region.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    there: (u64, u64),
    behind: (u64, u64),
}

/// Reads the LBNs again that the map has away from their zone's angles; returns the share of reads that confirms that.
/// Returns `None` without such LBNs.
pub(crate) fn moved_alone(meter: &mut Meter<'_>, map: &Map) -> Result<Option<Confidence>, ProbeError> {
    let odd: Vec<u64> = map.zones.iter().flat_map(|zone| &zone.odd).copied().collect();
    if odd.is_empty() {
        return Ok(None);
    }
    meter.find_phase()?;
    let (mut looks, mut elsewhere) = (0, 0);
    for &lbn in odd.iter().cycle().take(odd.len().max(MOVED_LOOKS)) {
        let Some(expected) = map.predict(lbn).filter(|_| meter.is_within(REGION_TIME_SHARE_MAX)) else {
            continue;
        };
        let Some(angle) = meter.angle_of(lbn)? else { continue };
        looks += 1;
        elsewhere += u64::from(wrap(angle - expected).abs() * meter.revolution() > PREDICTED_ERROR_NS_MAX);
    }
    Ok(Some(Confidence::of(elsewhere, looks)))
}

/// Reads again in the parts of the drive where reads were at other angles than in the map; returns the parts where many
/// are.
fn check_again(meter: &mut Meter<'_>, map: &Map, strange: &[u64]) -> Result<Vec<Unsure>, ProbeError> {
    meter.find_phase()?;
    let capacity = map.mapped.clamp(1, meter.capacity());
    let size = capacity.div_ceil(PARTS).max(1);
    let mut parts: Vec<u64> = strange.iter().map(|lbn| lbn / size).collect();
    parts.sort_unstable();
    parts.dedup();
    let mut unsure: Vec<Unsure> = Vec::new();
    for part in parts {
        let (first, end) = (part * size, ((part + 1) * size).min(capacity));
        if !meter.is_within(CHECK_TIME_SHARE_MAX) {
            let why = "reads there came at other angles, and no time was left to look again".to_owned();
            unsure.push(Unsure::new(first, end, why));
            continue;
        }
        let mut off = 0;
        for _ in 0..REPEATED_READS {
            let lbn = first + meter.draw.below(end - first);
            let Some(expected) = map.predict(lbn) else {
                off += 1;
                continue;
            };
            // An unreadable sector is no evidence.
            let Some(angle) = meter.angle_of(lbn)? else { continue };
            off += u64::from(wrap(angle - expected).abs() * meter.revolution() > PREDICTED_ERROR_NS_MAX);
        }
        if off as f64 > UNSURE_SHARE_MIN * REPEATED_READS as f64 {
            let why = format!("{off} of {REPEATED_READS} sectors are at other angles than the map says");
            match unsure.last_mut() {
                Some(last) if last.end.get() == first => last.end = Lbn::new(end),
                _ => unsure.push(Unsure::new(first, end, why)),
            }
        }
    }
    stray::extend(meter, map, &mut unsure, CHECK_TIME_SHARE_MAX)?;
    Ok(unsure)
}
