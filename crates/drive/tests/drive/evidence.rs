//! Evidence from the measured traces for the rules of the firmware that docs/MODEL.md explains. `cargo test -p freeblock-drive
//! --test drive -- evidence --nocapture --test-threads 1` prints it.

use crate::common::{measured, noted};
use freeblock_drive::{Rules, ValidateRecord, validate_with};
use model::{DriveModel, Profile};
use std::collections::BTreeMap;
use units::{Lbn, Op, TrackIndex};

struct Trace {
    name: &'static str,
    model: DriveModel,
    records: Vec<ValidateRecord>,
    /// The time of a sector on the bus, ms.
    bulk: f64,
}

fn traces() -> Vec<Trace> {
    loaded(&["atlas10k", "cheetah9LP"])
}

fn loaded(names: &[&'static str]) -> Vec<Trace> {
    let load = |&name: &&'static str| {
        let (profile, records): (Profile, _) = measured(name)?;
        let bulk = profile.firmware.as_ref().unwrap().bulk_sector_ms;
        Some(Trace { name, model: DriveModel::from_profile(&profile).unwrap(), records, bulk })
    };
    names.iter().filter_map(load).collect()
}

impl Trace {
    fn track(&self, lbn: u64) -> TrackIndex {
        self.model.layout().locate(Lbn::new(lbn)).unwrap().track
    }

    fn first(&self, i: usize) -> u64 {
        self.records[i].range.start().get()
    }

    fn past(&self, i: usize) -> u64 {
        self.records[i].range.end().get()
    }

    /// Returns the service time in ms without the time on the bus: the command overhead and, for a miss, positioning.
    fn rest(&self, i: usize) -> f64 {
        let r = &self.records[i];
        r.service.as_millis_f64() - r.range.len().get() as f64 * self.bulk
    }

    /// Returns whether a request was a hit. Without the bus, a hit takes less than 0.35 ms, and most misses take milliseconds.
    fn hit(&self, i: usize) -> bool {
        self.rest(i) < 0.6
    }

    fn op(&self, i: usize) -> Op {
        self.records[i].op
    }
}

#[derive(Default)]
struct Count {
    hits: u32,
    all: u32,
}

fn print_counts(title: &str, t: &Trace, counts: &BTreeMap<&'static str, Count>) {
    for (what, c) in counts {
        println!("{title}: {:11} {what:34} {:4} of {:4} are hits", t.name, c.hits, c.all);
    }
}

/// Counts hits among the reads right after a read from the medium, by their position relative to that read.
#[test]
fn the_buffer_after_a_miss() {
    for t in traces() {
        let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
        for i in 1..t.records.len() {
            if t.op(i) != Op::Read || t.op(i - 1) != Op::Read || t.hit(i - 1) {
                continue;
            }
            let (here, end) = (t.first(i), t.past(i));
            let (from, past) = (t.first(i - 1), t.past(i - 1));
            let (last, this) = (t.track(past - 1), t.track(here));
            let what = if here >= from && end <= past {
                "1 the same sectors again"
            } else if here >= past && this == last && t.track(end - 1) == last {
                "2 after it on its track"
            } else if here >= past && this.get() == last.get() + 1 {
                "3 on the next track"
            } else if end <= from && this == t.track(from) {
                "4 before it on its track"
            } else {
                continue;
            };
            let c = counts.entry(what).or_default();
            c.all += 1;
            c.hits += u32::from(t.hit(i));
        }
        print_counts("after a miss", &t, &counts);
        let share = |what| counts.get(what).map_or(0.0, |c: &Count| f64::from(c.hits) / f64::from(c.all));
        let before = share("4 before it on its track");
        match t.name {
            "atlas10k" => assert!(before > 0.9),
            _ => assert!(before < 0.1),
        }
    }
}

/// Counts hits among the reads right after a write, if the write and the read before it were on the same track.
#[test]
fn the_buffer_after_a_write() {
    for t in loaded(&["atlas10k", "cheetah9LP", "ibm18es"]) {
        let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
        for i in 2..t.records.len() {
            if (t.op(i - 2), t.op(i - 1), t.op(i)) != (Op::Read, Op::Write, Op::Read) {
                continue;
            }
            let track = t.track(t.first(i));
            if t.track(t.past(i - 2) - 1) != track || t.track(t.first(i - 1)) != track {
                continue;
            }
            let (read, write, here) = (t.past(i - 2), i - 1, t.first(i));
            let what = if here < read {
                "1 at or before the read"
            } else if t.past(i) <= t.first(write) {
                "2 read ahead, before the write"
            } else if here >= t.past(write) {
                "3 read ahead, after the write"
            } else {
                "4 overlapping the write"
            };
            let c = counts.entry(what).or_default();
            c.all += 1;
            c.hits += u32::from(t.hit(i));
        }
        print_counts("after a read and a write", &t, &counts);
    }
}

fn quantiles(mut x: Vec<f64>) -> String {
    x.sort_by(f64::total_cmp);
    let at = |share: f64| x[((x.len() - 1) as f64 * share) as usize];
    format!("{:5} requests, 5% {:.3} ms, median {:.3} ms, 95% {:.3} ms", x.len(), at(0.05), at(0.5), at(0.95))
}

/// Prints command overheads by the position of a command relative to the one before.
#[test]
fn overheads_depend_on_locality() {
    for t in traces() {
        let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for i in 1..t.records.len() {
            let sequential = t.first(i) == t.past(i - 1);
            let same_track = t.track(t.first(i)) == t.track(t.past(i - 1) - 1);
            let what = match (t.op(i), t.op(i - 1)) {
                (Op::Read, Op::Read) if !t.hit(i) => continue,
                (Op::Read, Op::Read) if sequential => "read hit, going on after a read",
                (Op::Read, Op::Read) => "read hit elsewhere, after a read",
                (Op::Write, Op::Write) if same_track => "write on the last write's track",
                (Op::Write, Op::Write) => "write elsewhere, after a write",
                (Op::Write, Op::Read) => "write after a read",
                _ => continue,
            };
            kinds.entry(what.to_owned()).or_default().push(t.rest(i));
        }
        for (what, x) in kinds {
            println!("overhead: {:11} {what:34} {}", t.name, quantiles(x));
        }
    }
}

/// Prints the mean time of reads from the medium with a short seek or none, less the bus time and half a revolution.
#[test]
fn no_access_is_shorter_than_the_shortest_seek() {
    for t in traces() {
        let revolution = t.model.rpm().revolution().as_millis_f64();
        let mut kinds: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for i in 1..t.records.len() {
            if t.op(i) != Op::Read || t.hit(i) {
                continue;
            }
            let at = |lbn| t.model.layout().track(t.track(lbn));
            let (from, to) = (at(t.past(i - 1) - 1), at(t.first(i)));
            let distance = from.cylinder.distance(to.cylinder);
            let what = match (distance, t.op(i - 1)) {
                (0, Op::Write) if from.head == to.head => "same track, after a write",
                (0, Op::Write) => "same cylinder, after a write",
                (0, Op::Read) => "same cylinder, after a read",
                (1, _) => "next cylinder",
                _ => continue,
            };
            kinds.entry(what).or_default().push(t.rest(i) - revolution / 2.0);
        }
        let shortest = (1..=10).map(|d| t.model.seek(d).as_millis_f64()).fold(f64::MAX, f64::min);
        for (what, x) in kinds {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            println!(
                "ready after: {:11} {what:30} {:4} misses, {mean:.2} ms +- {:.2} (shortest seek {shortest:.2} ms)",
                t.name,
                x.len(),
                revolution / 12_f64.sqrt() / (x.len() as f64).sqrt(),
            );
        }
    }
}

/// Compares the trace of the RZ26 with the model, with and without bursts. In this trace the angle of the platter is known,
/// so that a wrong completion time shows as an error of the next request. The sign of the error depends on whether a read or
/// a write came first. Whole revolutions are removed.
#[test]
fn the_rz26s_reads_complete_when_a_burst_has_crossed_the_bus() {
    let Some((profile, records)) = measured("dec_rz26") else { return };
    let revolution = DriveModel::from_profile(&profile).unwrap().rpm().revolution().as_millis_f64();
    for (title, rules) in
        [("sector by sector", Rules { read_bursts: false, ..Rules::HARDWARE }), ("bursts", Rules::HARDWARE)]
    {
        let report = validate_with(&profile, rules, &records).unwrap();
        let mut residuals: BTreeMap<(Op, Op), Vec<f64>> = BTreeMap::new();
        let mut met = 0;
        for i in 1..records.len() {
            let (last, this) = (&records[i - 1], &records[i]);
            let off = this.service.as_millis_f64() - report.service[i].as_millis_f64();
            met += u32::from(off.abs() < 0.5);
            if last.range.end() != this.range.start() {
                let phase = (off + revolution / 2.0).rem_euclid(revolution) - revolution / 2.0;
                residuals.entry((last.op, this.op)).or_default().push(phase);
            }
        }
        println!("RZ26, {title}: {met} of {} within 0.5 ms", records.len());
        for ((last, this), mut off) in residuals {
            off.sort_by(f64::total_cmp);
            let median = off[off.len() / 2];
            println!("RZ26, {title}: {this:5} after {last:5} median of drive minus model {median:+.3} ms");
            assert!(title != "bursts" || median.abs() < 0.15);
        }
    }
}

/// With zero-latency access, longer reads would take less additional time than their additional sectors need to pass: 1/8 of a
/// revolution less for 29 of 58 sectors on a track. The random reads of the RZ26 do not.
#[test]
fn the_rz26s_reads_begin_with_their_first_sector() {
    let Some((profile, records)) = measured("dec_rz26") else { return };
    let model = DriveModel::from_profile(&profile).unwrap();
    let cylinder = |lbn: Lbn| {
        let layout = model.layout();
        layout.track(layout.locate(lbn).unwrap().track).cylinder.get()
    };
    let mut by_length: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for pair in records.windows(2) {
        let (last, this) = (&pair[0], &pair[1]);
        let far = cylinder(last.range.start()).abs_diff(cylinder(this.range.start())) > 300;
        if this.op == Op::Read && far && this.range.len().get() < 57 {
            by_length.entry(this.range.len().get() / 19).or_default().push(this.service.as_millis_f64());
        }
    }
    let mean = |third: u64| {
        let x = &by_length[&third];
        x.iter().sum::<f64>() / x.len() as f64
    };
    for third in 0..3 {
        println!(
            "RZ26: random reads of {} to {} sectors: {:.2} ms",
            third * 19,
            third * 19 + 18,
            mean(third)
        );
    }
    let revolution = model.rpm().revolution().as_millis_f64();
    let bend = (mean(2) - mean(1)) - (mean(1) - mean(0));
    assert!(bend > -revolution / 20.0, "each third takes {bend} ms less than the one before");
}

/// The C2247A releases the bus twice only in a write that follows another write without continuing it.
#[test]
fn the_c2247a_disconnects_twice_in_a_write_elsewhere_after_a_write() {
    let Some((_, records)) = measured("hp_c2247a") else { return };
    let noted = noted("hp_c2247a");
    let (mut twice, mut once, mut others) = (0, 0, 0);
    for i in 1..records.len() {
        let (last, this) = (&records[i - 1], &records[i]);
        if this.op == Op::Read {
            continue;
        }
        let elsewhere = last.op == Op::Write && last.range.end() != this.range.start();
        match (elsewhere, noted[i].as_str()) {
            (true, "Trip") => twice += 1,
            (false, "Doub") => once += 1,
            _ => others += 1,
        }
    }
    println!("writes noted as predicted: {twice} twice, {once} once; {others} otherwise");
    assert_eq!(others, 0);
}

/// In the trace of the C2247A the angle of the platter is known, so that a wrong completion time shows as an error of the next
/// request.
#[test]
fn the_c2247as_reads_complete_before_a_late_reselection_would_let_them() {
    let Some((profile, records)) = measured("hp_c2247a") else { return };
    for (title, rules) in
        [("late", Rules { early_reselect: false, ..Rules::HARDWARE }), ("early", Rules::HARDWARE)]
    {
        let report = validate_with(&profile, rules, &records).unwrap();
        let mut residuals: BTreeMap<(Op, Op), Vec<f64>> = BTreeMap::new();
        for i in 1..records.len() {
            let (last, this) = (&records[i - 1], &records[i]);
            if last.range.end() != this.range.start() {
                let off = this.service.as_millis_f64() - report.service[i].as_millis_f64();
                residuals.entry((last.op, this.op)).or_default().push(off);
            }
        }
        for ((last, this), mut off) in residuals {
            off.sort_by(f64::total_cmp);
            let median = off[off.len() / 2];
            println!(
                "{title} reselection: {this:5} after {last:5} median of drive minus model {median:+.3} ms"
            );
            assert!(title == "late" || median.abs() < 0.02);
        }
    }
}

/// Counts the sequential writes of the C2247A that take a revolution more or less than in the model: whether a write loses a
/// revolution depends on how its data crosses the bus.
#[test]
fn the_c2247as_sequential_writes_lose_revolutions_as_bursts_predict() {
    let Some((profile, records)) = measured("hp_c2247a") else { return };
    for (title, rules) in [
        ("DiskSim's rules", Rules::DISKSIM),
        ("without bursts", Rules { write_bursts: false, ..Rules::HARDWARE }),
        ("with bursts", Rules::HARDWARE),
    ] {
        let report = validate_with(&profile, rules, &records).unwrap();
        let (mut all, mut more, mut fewer) = (0, 0, 0);
        for i in 1..records.len() {
            let (last, this) = (&records[i - 1], &records[i]);
            if (last.op, this.op) == (Op::Write, Op::Write) && last.range.end() == this.range.start() {
                let off = this.service.as_millis_f64() - report.service[i].as_millis_f64();
                all += 1;
                more += u32::from(off < -5.0);
                fewer += u32::from(off > 5.0);
            }
        }
        println!(
            "sequential writes: {title:15} a revolution too many in {more}, too few in {fewer} of {all}"
        );
    }
}
