//! Beyond ATC'03: SMTF outside of real drives with noise, and when another drive takes the place of the first during
//! a run.

use crate::smtf::{Chooser, FromOutside, Place, STEPS, Seen, SmtfHost, Step, mean_ms, slower, unconfirmed};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use drive::Behaviour;
use mimic::Table;
use scheduler::Observed;
use scheduler::policy::{Base, SmtfRule};

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-real",
    paper: Paper::Atc03,
    reproduces: "beyond the paper",
    title: "SMTF outside of real drives",
    set_up: "Profiles of an Atlas 10K, a Cheetah 9LP and a 4 TB nearline drive with their firmware and the noise of an outside \
             scheduler's world; one command at a time, 20 random requests of 4 KB waiting, two reads to a write, on the first \
             100 MB and on all of the drive. SPTF goes by a profile that was probed by reading (`freeblock probe`), and for \
             comparison by the true one with the electronics' mean times. SMTF off-line has \
             probed by reading (once more by writing as well), with careful check points, in 64 MB; on-line it begins with nothing, over SSTF, and goes on for a million \
             requests (160,000 when quick). Every distance probed is a table of the drive without noise and electronics. Each \
             difference of a drive from its profile is added one by one, the noise last. Then the Atlas is swapped for the \
             Cheetah under it, when it has learnt from nothing and when it began with a probed table.",
    claims: &["atc03-real"],
    timed: false,
    run,
};

const DRIVES: [&str; 3] = ["quantum-atlas-10k", "seagate-cheetah-9lp", "nearline-4tb"];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let jobs: Vec<(&str, bool)> = DRIVES.iter().flat_map(|d| [(*d, true), (*d, false)]).collect();
    let rows = lab.map(jobs, |(name, local)| Row::measured(lab, name, local))?;
    let jobs = [(true, false), (false, false), (true, true), (false, true)];
    let swaps = lab.map(jobs, |(notices, from_table)| Swap::measured(lab, notices, from_table))?;
    let [noticing, blind, tabled, blind_tabled] = swaps.as_slice() else {
        return Err(LabError::new("the swap", "not as many runs as expected"));
    };
    let most = |local: bool, of: &dyn Fn(&Row) -> f64| {
        rows.iter().filter(|r| r.local == local).map(of).fold(f64::NEG_INFINITY, f64::max)
    };
    let least = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).fold(f64::INFINITY, f64::min);
    let claim = Claim::new(
        "atc03-real",
        "SMTF within 8% of what knows the disk, ahead of C-LOOK and SSTF; on-line within 3% of off-line and never worse than \
         its base; it adapts when the disk's behaviour changes",
    )
    .measure(
        "100 MB: off-line slower than SPTF with a probed profile, at worst",
        most(true, &|r| slower(r.offline, r.probed)),
        "%",
        Band::AtMost(8.0),
    )
    .measure(
        "100 MB: off-line with writes probed as well slower than SPTF with a probed profile, at worst",
        most(true, &|r| slower(r.all_kinds, r.probed)),
        "%",
        Band::AtMost(8.0),
    )
    .measure(
        "all of the drive: off-line slower than SPTF with a probed profile, at worst",
        most(false, &|r| slower(r.offline, r.probed)),
        "%",
        Band::AtMost(8.0),
    )
    .measure(
        "C-LOOK or SSTF slower than off-line, at least",
        least(&|r| slower(r.sstf.min(r.c_look), r.offline)),
        "%",
        Band::AtLeast(0.0),
    )
    .measure(
        "100 MB: on-line slower than off-line, at worst",
        most(true, &|r| slower(r.online, r.offline)),
        "%",
        Band::AtMost(3.0),
    )
    .measure(
        "all of the drive: on-line slower than off-line, at worst",
        most(false, &|r| slower(r.online, r.offline)),
        "%",
        Band::AtMost(3.0),
    )
    .measure(
        "on-line slower than SSTF, at worst",
        most(true, &|r| slower(r.online, r.sstf)).max(most(false, &|r| slower(r.online, r.sstf))),
        "%",
        Band::AtMost(0.0),
    )
    .measure("swaps noticed", f64::from(noticing.changes), "", Band::Within(1.0, 1.0))
    .measure(
        "relearnt after the swap, slower than learnt from nothing in as many requests",
        slower(noticing.end(), noticing.fresh),
        "%",
        Band::AtMost(3.0),
    )
    .measure("swaps under a probed table noticed", f64::from(tabled.changes), "", Band::Within(1.0, 1.0))
    .measure(
        "relearnt after a swap under a probed table, slower than learnt from nothing in as many requests",
        slower(tabled.end(), tabled.fresh),
        "%",
        Band::AtMost(3.0),
    )
    .note(format!(
        "{} {} {} Under a table of the Atlas, probed, and learning from it on: {}",
        describe(&rows),
        describe_learning(&rows),
        describe_swap(noticing, blind),
        describe_swap(tabled, blind_tabled)
    ));
    let columns = [
        "drive",
        "area",
        "SPTF, true (ms)",
        "SPTF, probed",
        "SMTF off-line",
        "writes probed too",
        "SMTF on-line",
        "SSTF",
        "C-LOOK",
        "interpolated",
    ];
    let table = rows.iter().map(Row::cells).collect();
    let lines = |swap: &Swap, label: &str| {
        Line::new(label, swap.parts.iter().enumerate().map(|(i, ms)| ((i * swap.part) as f64 / 1e3, *ms)))
    };
    let flat = |label: &str, swap: &Swap, before: f64, after: f64| {
        let end = (swap.parts.len() * swap.part) as f64 / 1e3;
        Line::new(label, [(0.0, before), (end / 2.0, before), (end / 2.0, after), (end, after)])
    };
    Ok(Outcome {
        figures: vec![
            Figure {
                id: EXPERIMENT.id.into(),
                title: "Mean time at the drive, and how much slower others are than SPTF".into(),
                x: Axis::default(),
                y: Axis::default(),
                kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows: table },
            },
            Figure {
                id: "atc03-real-swap".into(),
                title: "An Atlas 10K swapped for a Cheetah 9LP half-way".into(),
                x: Axis::new("thousands of requests"),
                y: Axis::new("mean time at the drive (ms)"),
                kind: Kind::Lines(vec![
                    lines(noticing, "SMTF that notices"),
                    lines(blind, "SMTF that does not"),
                    lines(tabled, "SMTF that notices, from a probed table on"),
                    flat("SPTF", noticing, noticing.sptf[0], noticing.sptf[1]),
                    flat("SSTF", noticing, noticing.sstf[0], noticing.sstf[1]),
                ]),
            },
        ],
        claims: vec![claim],
        notes: Vec::new(),
    })
}

/// The mean times of requests at one drive under each scheduler, ms.
struct Row {
    drive: String,
    local: bool,
    /// SPTF by the true profile.
    sptf: f64,
    /// SPTF by the probed profile; and whether the probe succeeded in spite of the noise.
    probed: f64,
    through_noise: bool,
    offline: f64,
    online: f64,
    /// The progress of learning in the run with on-line SMTF.
    learning: Learning,
    sstf: f64,
    c_look: f64,
    interpolated: f64,
    /// SMTF off-line, with writes probed as well.
    all_kinds: f64,
    /// The share of distances that are interpolated without confirmation because the requests for probing ran out, in
    /// percent.
    unconfirmed: f64,
    probing_s: f64,
    /// The results at each of [`STEPS`].
    steps: Vec<Step>,
    /// How much slower SMTF with every distance probed is than greedy-optimal, in percent, on this drive without
    /// electronics.
    every: f64,
}

impl Row {
    fn measured(lab: &Lab, name: &str, local: bool) -> Result<Self, LabError> {
        let place = Place::new(name, local)?;
        let seed = lab.seed();
        let (short, long) = (lab.pick(5_000, 50_000), lab.pick(40_000, 250_000));
        let (table, report) = place.table(lab.pick(200_000, 2_000_000), seed)?;
        let steps = STEPS.iter().map(|(what, behaviour)| {
            let behaviour = behaviour(Behaviour::fast02());
            Step::measured(lab, what, &Place { behaviour, ..Place::new(name, local)? })
        });
        let steps = steps.collect::<Result<Vec<_>, LabError>>()?;
        let all_kinds = place.table_of_all_kinds(lab.pick(200_000, 2_000_000), seed)?;
        let learning = Learning::measured(&place, table.clone(), 4 * long, seed)?;
        let [_, (_, online, _)] = learning.after;
        let (probed, through_noise) = place.probed_sptf(seed)?;
        Ok(Self {
            drive: place.profile.title.clone(),
            local,
            sptf: place.run(place.sptf(seed)?, short, seed)?,
            probed: place.run(probed, short, seed)?,
            through_noise,
            offline: place.run(FromOutside::smtf(table), short, seed)?,
            online,
            learning,
            sstf: place.run(FromOutside::base(Base::Sstf), short, seed)?,
            c_look: place.run(FromOutside::base(Base::CLook), short, seed)?,
            interpolated: report.interpolated() * 100.0,
            all_kinds: place.run(FromOutside::smtf(all_kinds), short, seed)?,
            unconfirmed: unconfirmed(&report),
            steps,
            every: place.every_distance(short, seed)?,
            probing_s: report.time.as_secs_f64(),
        })
    }

    fn area(&self) -> &'static str {
        if self.local { "first 100 MB" } else { "all" }
    }

    fn cells(&self) -> Vec<String> {
        let percent = |ms: f64| format!("{:+.1}%", slower(ms, self.sptf));
        let others = [self.probed, self.offline, self.all_kinds, self.online, self.sstf, self.c_look];
        let others = others.map(percent);
        let first = [self.drive.clone(), self.area().into(), format!("{:.2}", self.sptf)];
        let last = format!("{:.1}%", self.interpolated);
        first.into_iter().chain(others).chain([last]).collect()
    }

    /// Returns how much slower off-line SMTF is than SPTF, in percent.
    fn lag(&self) -> f64 {
        slower(self.offline, self.sptf)
    }

    /// Returns, for each of [`STEPS`] except the first and then for the noise, by how many percentage points it slows
    /// off-line SMTF further relative to SPTF.
    fn added(&self) -> Vec<(&'static str, f64)> {
        let lags: Vec<f64> = self.steps.iter().map(|step| step.lag).chain([self.lag()]).collect();
        let names = self.steps.iter().skip(1).map(|step| step.what).chain(["noise"]);
        names.zip(lags.windows(2)).map(|(what, pair)| (what, pair[1] - pair[0])).collect()
    }
}

fn describe(rows: &[Row]) -> String {
    let described: Vec<String> = rows
        .iter()
        .map(|r| {
            format!(
                "{}, {}: SPTF by a profile probed {} {:+.1}%; off-line {:.1}% ({:.1}% of the distances interpolated unconfirmed after {:.1} h of probing; {}; with writes probed as well {:.1}%; every distance probed {:.1}%), on-line {:.1}%, SSTF {:.1}%, C-LOOK {:.1}%",
                r.drive,
                r.area(),
                if r.through_noise { "through the noise" } else { "without noise (with it, probing was given up)" },
                slower(r.probed, r.sptf),
                slower(r.offline, r.sptf),
                r.unconfirmed,
                r.probing_s / 3_600.0,
                Step::describe(&r.steps),
                slower(r.all_kinds, r.sptf),
                r.every,
                slower(r.online, r.sptf),
                slower(r.sstf, r.sptf),
                slower(r.c_look, r.sptf)
            )
        })
        .collect();
    let every = || rows.iter().map(|r| r.every);
    let (least, most) = (every().fold(f64::INFINITY, f64::min), every().fold(f64::NEG_INFINITY, f64::max));
    format!(
        "A request's type and distance leave much of its time open: with every distance probed, without noise and electronics, SMTF \
         is {:.1} to {:.1}% slower than greedy-optimal. Slower than SPTF by the true profile: {}. {}",
        least,
        most,
        described.join("; "),
        [true, false].map(|local| describe_lag(rows, local)).join(" ")
    )
}

/// Describes why off-line SMTF is slower than SPTF.
fn describe_lag(rows: &[Row], local: bool) -> String {
    let these = || rows.iter().filter(|r| r.local == local);
    let span = |of: &dyn Fn(&Row) -> f64| {
        let all = || these().map(of);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        format!("{least:.1} to {most:.1}")
    };
    let names: Vec<&str> = these().next().map_or_else(Vec::new, |r| r.added().iter().map(|a| a.0).collect());
    let added: Vec<String> = names
        .into_iter()
        .enumerate()
        .map(|(i, what)| {
            let points = |r: &Row| r.added().get(i).map_or(f64::NAN, |added| added.1);
            format!("{what} {}", span(&points))
        })
        .collect();
    format!(
        "On {}, off-line SMTF is {}% slower than SPTF if the drive does as its profile says; each difference from the profile adds, in \
         points: {}. Only reads are probed, and they stand for writes, although a drive that buffers writes hides their times: \
         probing writes as well takes {} points off. With every distance probed, without noise and electronics, SMTF is {}% \
         slower than greedy-optimal.",
        if local { "100 MB" } else { "all of a drive" },
        span(&|r| r.steps.first().map_or(f64::NAN, |step| step.lag)),
        added.join("; "),
        span(&|r| r.lag() - slower(r.all_kinds, r.sptf)),
        span(&|r| r.every)
    )
}

/// The progress of on-line SMTF toward off-line SMTF: mean times over the last tenth of the requests so far, ms.
struct Learning {
    /// After a quarter of the requests and after all: their number, the mean time, and the percentage of waiting
    /// requests at a distance whose time is known.
    after: [(u64, f64, f64); 2],
    /// The mean time after a quarter of the requests if learning starts from the probed table.
    from_table: f64,
}

impl Learning {
    fn measured(place: &Place, table: Table, requests: u64, seed: u64) -> Result<Self, LabError> {
        let learns = |table| Ok(FromOutside::online(place.learner(false, table, seed)?, SmtfRule::default()));
        let quarter = requests / 4;
        let mut after = [quarter, requests].map(|end| (end, f64::NAN, f64::NAN));
        let asks = Asks { inner: learns(None)?, asked: 0, known: 0 };
        let mut host = SmtfHost::new(place.drive(seed)?, place.load(seed)?, asks);
        let mut done = 0;
        for (end, ms, known) in &mut after {
            let tenth = *end / 10;
            host.advance(*end - tenth - done)?;
            (host.chooser.asked, host.chooser.known) = (0, 0);
            *ms = mean_ms(&host.advance(tenth)?);
            *known = host.chooser.known as f64 / host.chooser.asked.max(1) as f64 * 100.0;
            done = *end;
        }
        Ok(Self { after, from_table: place.run(learns(Some(table))?, quarter, seed)? })
    }

    fn describe(&self, offline: f64) -> String {
        let [(quarter, early, few), (all, late, more)] = self.after;
        format!(
            "after {quarter} requests it knows {few:.0}% of the distances to what waits and is {:+.1}% from off-line, after {all} {more:.0}% and \
             {:+.1}%; from the probed table on, after {quarter}, {:+.1}%",
            slower(early, offline),
            slower(late, offline),
            slower(self.from_table, offline),
        )
    }
}

/// A chooser that counts, at each choice, the waiting requests at a distance whose time is known.
struct Asks {
    inner: FromOutside,
    asked: u64,
    known: u64,
}

impl Chooser for Asks {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        if let (Some(last), Some(mimic)) = (seen.last, self.inner.mimic()) {
            let known = seen.queue.iter().filter(|p| mimic.time(last, seen.at, &p.request).is_some());
            self.known += known.count() as u64;
            self.asked += seen.queue.len() as u64;
        }
        self.inner.choose(seen)
    }

    fn served(&mut self, done: &Observed) {
        self.inner.served(done);
    }
}

/// A run in which a second drive takes the place of the first half-way.
struct Swap {
    /// The mean time of the requests in each part of the run, ms.
    parts: Vec<f64>,
    /// The number of requests in a part.
    part: usize,
    /// The number of drive changes detected, and of those detected before the swap.
    changes: u32,
    too_soon: u32,
    /// The number of requests from the swap to the end of the part in which the swap was noticed.
    noticed_after: Option<usize>,
    /// The mean time of a learner that begins with the second drive, ms: over the last `COMPARED_PARTS` of as many
    /// parts as follow the swap.
    fresh: f64,
    sptf: [f64; 2],
    sstf: [f64; 2],
}

const PARTS: usize = 40;
/// The number of parts at the end of a run whose mean is compared with that of a learner that began with the second
/// drive: in one part alone the random error is as large as the permitted difference.
const COMPARED_PARTS: usize = 5;

impl Swap {
    fn measured(lab: &Lab, notices: bool, from_table: bool) -> Result<Self, LabError> {
        let seed = lab.seed();
        let places = [Place::new(DRIVES[0], true)?, Place::new(DRIVES[1], true)?];
        let area = places[0].area.min(places[1].area);
        let places = places.map(|place| Place { area, ..place });
        let part = lab.pick(1_000, 25_000);
        let table = match from_table {
            true => Some(places[0].table(lab.pick(200_000, 2_000_000), seed)?.0),
            false => None,
        };
        let learner = places[0].learner(notices, table, seed)?;
        let chooser = FromOutside::online(learner, SmtfRule::default());
        let mut host = SmtfHost::new(places[0].drive(seed)?, places[0].load(seed)?, chooser);
        let mut parts = Vec::new();
        let (mut too_soon, mut noticed_after) = (0, None);
        for at in 0..PARTS {
            if at == PARTS / 2 {
                too_soon = host.chooser.learner().map_or(0, |l| l.stats().changes);
                host.disk = places[1].drive(seed)?;
            }
            parts.push(mean_ms(&host.advance(part as u64)?));
            let changes = host.chooser.learner().map_or(0, |l| l.stats().changes);
            if at >= PARTS / 2 && changes > too_soon && noticed_after.is_none() {
                noticed_after = Some((at + 1 - PARTS / 2) * part);
            }
        }
        let changes = host.chooser.learner().map_or(0, |l| l.stats().changes);
        let short = lab.pick(5_000, 50_000);
        let [first, second] = &places;
        let fresh = FromOutside::online(second.learner(notices, None, seed)?, SmtfRule::default());
        let mut fresh = SmtfHost::new(second.drive(seed)?, second.load(seed)?, fresh);
        fresh.advance(((PARTS / 2 - COMPARED_PARTS) * part) as u64)?;
        let fresh = mean_ms(&fresh.advance((COMPARED_PARTS * part) as u64)?);
        let sptf = |place: &Place| place.run(place.sptf(seed)?, short, seed);
        let sstf = |place: &Place| place.run(FromOutside::base(Base::Sstf), short, seed);
        Ok(Self {
            parts,
            part,
            changes,
            too_soon,
            noticed_after,
            fresh,
            sptf: [sptf(first)?, sptf(second)?],
            sstf: [sstf(first)?, sstf(second)?],
        })
    }

    /// Returns the mean time of the last `COMPARED_PARTS` parts, ms.
    fn end(&self) -> f64 {
        let last = &self.parts[self.parts.len().saturating_sub(COMPARED_PARTS)..];
        last.iter().sum::<f64>() / last.len() as f64
    }

    /// Returns the mean times of the last part before the swap, of the first part after it, and of the last
    /// `COMPARED_PARTS` parts, ms.
    fn ends(&self) -> [f64; 3] {
        let part = |i: usize| self.parts.get(i).copied().unwrap_or(f64::NAN);
        [part(PARTS / 2 - 1), part(PARTS / 2), self.end()]
    }
}

fn describe_learning(rows: &[Row]) -> String {
    let described: Vec<String> = rows
        .iter()
        .map(|r| format!("{}, {}: {}", r.drive, r.area(), r.learning.describe(r.offline)))
        .collect();
    format!("On-line is behind off-line for distances that it has not seen yet: {}.", described.join("; "))
}

fn describe_swap(noticing: &Swap, blind: &Swap) -> String {
    let [before, at, end] = noticing.ends();
    let [_, blind_at, blind_end] = blind.ends();
    format!(
        "The swap after {} requests was noticed within {} requests, and {} times before it: {before:.2} ms at the Atlas (SPTF \
         {:.2}, SSTF {:.2}), {at:.2} ms right after the swap, {end:.2} ms at the end (SPTF {:.2}, SSTF {:.2}; {:.2} for one that began with the Cheetah, after \
         as many requests); a learner that does not look for a swap has {blind_at:.2} ms and {blind_end:.2} ms.",
        noticing.part * PARTS / 2,
        noticing.noticed_after.map_or("no number of".into(), |n| n.to_string()),
        noticing.too_soon,
        noticing.sptf[0],
        noticing.sstf[0],
        noticing.sptf[1],
        noticing.sstf[1],
        noticing.fresh,
    )
}
