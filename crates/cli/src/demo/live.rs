//! `freeblock demo --web`: both runs of the demo on the page, in real time or at another speed.

use super::{BLOCK, set_up};
use crate::Outcome;
use crate::bars::parts;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::simulate::run::{LONGEST, Run};
use crate::tables::{grouped, span};
use model::DriveModel;
use scheduler::{Core, Record, Request};
use serde_json::{Value, json};
use server::web::{Rings, Show, Shown, Web, WebConfig};
use sim::{Background, Observer};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as Wait, Instant as Clock};
use units::{Duration, Instant, Lbn, Sectors};
use workload::Oltp;

/// The most accesses in a snapshot.
const MOST_ACCESSES: usize = 24;
/// The interval at which the virtual clock follows the machine's.
const BEAT: Wait = Wait::from_millis(20);
/// A simulation that is behind the machine's clock by more than this goes on from where it is.
const BEHIND: Wait = Wait::from_millis(250);
/// The slowest and the fastest that may be asked for, as multiples of real time.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 16_384.0);
/// The most tasks of the load that may be asked for.
const MOST_TASKS: u32 = 30;
/// The bounds of the page's histograms; a drive with the core in it has no prediction errors.
const NO_BOUNDS: [u64; 0] = [];

/// The speed and the load that the sliders ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    /// As a multiple of real time.
    speed: f64,
    /// Tasks of the foreground.
    load: u32,
}

impl Asked {
    /// Returns what is asked for with a change to it.
    fn changed(mut self, by: &Value) -> Result<Self, String> {
        let Some(by) = by.as_object() else { return Err("give an object, as {\"speed\":2}".into()) };
        for (field, value) in by {
            let (number, (least, most)) = (value.as_f64(), SPEEDS);
            match field.as_str() {
                "speed" => {
                    let fits = number.filter(|speed| (least..=most).contains(speed));
                    self.speed = fits.ok_or(format!("speed: {value}; give {least} to {most}"))?;
                }
                "load" => {
                    let load = value.as_u64().and_then(|load| u32::try_from(load).ok());
                    let fits = load.filter(|load| (1..=MOST_TASKS).contains(load));
                    self.load =
                        fits.ok_or(format!("load: {value}; give a whole number from 1 to {MOST_TASKS}"))?;
                }
                other => return Err(format!("{other:?} is no slider; give speed or load")),
            }
        }
        Ok(self)
    }
}

/// The state that the page and the simulation share.
struct Stage {
    latest: Mutex<Value>,
    asked: Mutex<Asked>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Show for Stage {
    fn snapshot(&self) -> Value {
        held(&self.latest).clone()
    }

    fn set(&self, asked: &Value) -> Result<(), String> {
        let mut now = held(&self.asked);
        *now = now.changed(asked)?;
        Ok(())
    }
}

/// The part of a run that the page shows.
struct Seen {
    capacity: Sectors,
    /// Completions that were not compared with the other run's.
    done: VecDeque<(Request, Instant, Instant)>,
    /// The sum of the response times.
    sum: Duration,
    /// Sectors of the scan by part of the disk.
    rings: Rings,
    /// The last accesses with their purposes.
    accesses: VecDeque<(Lbn, &'static str)>,
}

impl Seen {
    fn new(capacity: Sectors) -> Self {
        Self {
            capacity,
            done: VecDeque::new(),
            sum: Duration::ZERO,
            rings: Rings::default(),
            accesses: VecDeque::new(),
        }
    }

    fn accessed(&mut self, lbn: Lbn, purpose: &'static str) {
        if self.accesses.len() == MOST_ACCESSES {
            self.accesses.pop_front();
        }
        self.accesses.push_back((lbn, purpose));
    }
}

impl Observer for Seen {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.done.push_back((request, arrived, at));
        self.sum += at.saturating_since(arrived);
        self.accessed(request.range.start(), "request");
    }

    fn delivered(&mut self, _: &mut Core, record: Record, _: Instant) {
        self.rings.add(record.range, self.capacity);
        // One block stands for all of a gap.
        if self.accesses.back().is_none_or(|(_, last)| *last != "gap") {
            self.accessed(record.range.start(), "gap");
        }
    }
}

/// Both runs, at one virtual time.
struct Both {
    with: Run<Oltp>,
    without: Run<Oltp>,
    seen: (Seen, Seen),
    compared: u64,
    same: u64,
    load: u32,
}

impl Both {
    fn new(model: &Arc<DriveModel>, seed: u64, load: u32, block: Sectors) -> Result<Self, Problem> {
        let capacity = model.layout().capacity();
        Ok(Self {
            with: set_up(model, seed, load, Background::Scan { block })?,
            without: set_up(model, seed, load, Background::None)?,
            seen: (Seen::new(capacity), Seen::new(capacity)),
            compared: 0,
            same: 0,
            load,
        })
    }

    /// Runs both up to `end` and compares their completions.
    fn advance_to(&mut self, end: Instant) -> Result<(), Problem> {
        let (with, without) = &mut self.seen;
        self.with.advance_to(end, with)?;
        self.without.advance_to(end, without)?;
        let pairs = with.done.len().min(without.done.len());
        self.compared += pairs as u64;
        self.same +=
            with.done.drain(..pairs).zip(without.done.drain(..pairs)).filter(|(a, b)| a == b).count() as u64;
        Ok(())
    }

    /// Returns the snapshot for the page.
    fn snapshot(&self, title: &str, model: &DriveModel, asked: Asked, late: bool, turn: u64) -> Value {
        let (report, other) = (self.with.report(), self.without.report());
        let (done, blocks) = self.with.scan_progress().unwrap_or_default();
        let (simulated, scan) = (report.simulated.as_secs_f64(), report.background);
        let arm = |report: &sim::Report, seen: &Seen| {
            let of = &report.foreground;
            json!({
                "count": of.requests, "sum_us": us(seen.sum), "p50_us": of.p50_ms * 1e3, "p99_us": of.p99_response_ms * 1e3,
            })
        };
        let head = parts(&report.head_time).map(|(part, share)| {
            let (word, kind) = worded(part);
            json!({ "word": word, "kind": kind, "us": share * simulated * 1e6 })
        });
        let sector = model.sector_bytes();
        let rings = self.seen.0.rings.shares(self.seen.0.capacity);
        let accesses: Vec<Value> = self
            .seen
            .0
            .accesses
            .iter()
            .map(|(lbn, purpose)| json!({ "lbn": lbn.get(), "purpose": purpose }))
            .collect();
        let gaps = self.with.planner_stats();
        let read = done.saturating_mul(BLOCK.get());
        let rate = scan.mb_per_s * 1e6;
        let left = blocks.saturating_sub(done).saturating_mul(BLOCK.get()) as f64;
        let cost = format!(
            "It reads only while the head waits for a sector of the load: {} of that time is used. It costs the load nothing.",
            crate::tables::percent(scan.potential_used)
        );
        json!({
            "bounds_us": NO_BOUNDS,
            "demo": {
                "about": format!("{title}, simulated, with {} tasks of transactions (OLTP), first come first served: {} of the drive's time so far.", self.load, span(simulated)),
                "speed": asked.speed, "load": asked.load, "late": late,
            },
            "disks": [{
                "name": title, "sectors": self.seen.0.capacity.get(), "sector_bytes": sector.get(), "run": turn, "head": head,
                "arms": { "with": arm(&report, &self.seen.0), "without": arm(&other, &self.seen.1), "same": self.same, "compared": self.compared },
                "status": {
                    "reads": { "count": report.foreground.requests, "sum_us": us(self.seen.0.sum) },
                    "writes": { "count": 0, "sum_us": 0 },
                    "outstanding": self.load, "gaps": { "seen": gaps.gaps, "used": gaps.detours },
                    "background": { "gap_bytes": read }, "accesses": accesses,
                },
                "tasks": [{
                    "id": 1, "kind": "scan", "state": if scan.done { "done" } else { "running" }, "priority": 20,
                    "done": done, "blocks": blocks, "bytes": read, "rings": rings,
                    "rate_bytes_per_s": rate, "rate_over": "since its start",
                    "eta_s": (rate > 0.0 && !scan.done).then_some(left / rate),
                    "bad_lbns": [], "bad_more": 0, "cost": cost,
                }],
            }],
        })
    }
}

fn virtual_time(time: Wait, speed: f64) -> Duration {
    Duration::from_millis_f64(time.as_secs_f64() * 1e3 * speed).unwrap_or(Duration::ZERO)
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Returns a part of the head's time in the page's words, and its colour there.
fn worded(part: &str) -> (&'static str, &'static str) {
    match part {
        "seek" => ("Moves for requests", "c0"),
        "rotation" => ("Waiting for a sector", "c4"),
        "transfer" => ("Sectors of requests", "c3"),
        "free_transfer" => ("Sectors of the scan", "c1"),
        "extra_seek" => ("Additional moves for the scan", "c2"),
        _ => ("Nothing to do", "rest"),
    }
}

/// Shows the demo on a page until Ctrl-C.
pub(super) fn show(
    listen: SocketAddr,
    title: &str,
    model: &Arc<DriveModel>,
    seed: u64,
    block: Sectors,
    console: &Console,
) -> Result<Outcome, Problem> {
    let mut asked = Asked { speed: 1.0, load: super::MPL };
    let mut both = Both::new(model, seed, asked.load, block)?;
    let (mut turn, mut late) = (1, false);
    let first = both.snapshot(title, model, asked, late, turn);
    let stage = Arc::new(Stage { latest: Mutex::new(first), asked: Mutex::new(asked) });
    let config = WebConfig { control: true, ..WebConfig::new(listen) };
    let web = Web::open(config, Shown::Other(Arc::clone(&stage) as _)).map_err(Problem::usage)?;
    interrupt::watch(|| {});
    console.note(&format!("page at {}; Ctrl-C ends it", web.url()));
    // The machine's time and the virtual time from which the virtual clock counts.
    let (mut from, mut base) = (Clock::now(), Instant::ZERO);
    while !interrupt::came() && !console.is_stopped() {
        std::thread::sleep(BEAT);
        let wanted = *held(&stage.asked);
        if wanted.load != asked.load {
            both = Both::new(model, seed, wanted.load, block)?;
            turn += 1;
            (from, base) = (Clock::now(), Instant::ZERO);
        } else if wanted.speed != asked.speed {
            (from, base) = (Clock::now(), both.with.now());
        }
        asked = wanted;
        // The end of virtual time stays far away.
        let target = (base + virtual_time(from.elapsed(), asked.speed)).min(LONGEST);
        // Small steps, so that a machine that is too slow for the speed still answers the sliders.
        let step = virtual_time(BEAT, asked.speed.min(64.0));
        late = false;
        let begun = Clock::now();
        while both.with.now() < target {
            both.advance_to(target.min(both.with.now() + step))?;
            if begun.elapsed() > BEHIND {
                late = true;
                (from, base) = (Clock::now(), both.with.now());
                break;
            }
        }
        *held(&stage.latest) = both.snapshot(title, model, asked, late, turn);
    }
    drop(web);
    let text = format!(
        "{} simulated; {} of {} completion times identical to the nanosecond\n",
        span(both.with.report().simulated.as_secs_f64()),
        grouped(both.same),
        grouped(both.compared)
    );
    Ok(Outcome { text, code: u8::from(both.same != both.compared) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Arc<DriveModel> {
        let mut profile = model::builtin::find("mimic-less-capacity").unwrap();
        profile.layout.zones.truncate(1);
        profile.layout.zones[0].last_cylinder = 20;
        Arc::new(DriveModel::from_profile(&profile).unwrap())
    }

    #[test]
    fn both_runs_are_identical_at_any_step_and_the_rings_fill() {
        let model = model();
        let asked = Asked { speed: 1.0, load: 10 };
        let mut both = Both::new(&model, 1, asked.load, Sectors::new(8)).unwrap();
        let before = both.snapshot("a drive", &model, asked, false, 1);
        assert!(before["disks"][0]["tasks"][0]["rings"].as_array().unwrap().iter().all(|ring| *ring == 0.0));
        let mut end = Instant::ZERO;
        while !both.with.report().background.done {
            end += Duration::from_millis(700);
            both.advance_to(end).unwrap();
        }
        assert!(both.compared > 10 && both.same == both.compared);
        let after = both.snapshot("a drive", &model, asked, false, 1);
        let task = &after["disks"][0]["tasks"][0];
        assert_eq!((&task["state"], &task["done"]), (&json!("done"), &task["blocks"]));
        // A block may straddle two parts.
        assert!(task["rings"].as_array().unwrap().iter().all(|ring| ring.as_f64().unwrap() > 0.9), "{task}");
        let arms = &after["disks"][0]["arms"];
        assert_eq!(arms["with"], arms["without"]);
        let head = after["disks"][0]["head"].as_array().unwrap();
        let all: f64 = head.iter().map(|part| part["us"].as_f64().unwrap()).sum();
        assert!((all - both.with.report().simulated.as_secs_f64() * 1e6).abs() < 1.0, "{all}");
    }

    #[test]
    fn runs_that_differ_are_noticed() {
        let model = model();
        let mut both = Both::new(&model, 1, 10, Sectors::new(8)).unwrap();
        both.without = set_up(&model, 2, 10, Background::None).unwrap();
        both.advance_to(Instant::ZERO + Duration::from_secs(2)).unwrap();
        assert!(both.same < both.compared);
    }

    #[test]
    fn sliders_are_bounded_and_a_wrong_one_names_the_mend() {
        let asked = Asked { speed: 1.0, load: 10 };
        let changed = asked.changed(&json!({ "speed": 4.0, "load": 3 })).unwrap();
        assert_eq!(changed, Asked { speed: 4.0, load: 3 });
        for (wrong, mend) in [
            (json!({ "speed": 0.0 }), "speed: 0.0; give 0.0625 to 16384"),
            (json!({ "speed": "fast" }), "give 0.0625 to 16384"),
            (json!({ "load": 31 }), "load: 31; give a whole number from 1 to 30"),
            (json!({ "load": 1.5 }), "give a whole number"),
            (json!({ "seed": 1 }), "give speed or load"),
            (json!([]), "give an object"),
        ] {
            let error = asked.changed(&wrong).unwrap_err();
            assert!(error.contains(mend), "{error}");
        }
    }
}
