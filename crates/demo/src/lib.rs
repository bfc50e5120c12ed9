//! The demo on a page: one foreground on two simulated drives, with and without a scan, in step.
//!
//! [`Demo`] is sans-IO: its host passes the machine's time, and calls [`Demo::step`] until the virtual clock has caught up. The
//! hosts are `freeblock demo --web`, and the page of `make site`, where the demo runs as WebAssembly. [`results`] is the JSON of
//! `freeblock simulate --json`, so that the page and the command print the same numbers in the same form.
//!
//! ```
//! use freeblock_demo::{Asked, Demo};
//! use units::{Duration, Instant};
//!
//! let mut demo = Demo::new(Asked::default(), None, Instant::ZERO)?;
//! let now = Instant::ZERO + Duration::from_secs(1);
//! while demo.step(now)? {}
//! let snapshot = demo.snapshot();
//! let arms = &snapshot["disks"][0]["arms"];
//! assert_eq!(arms["same"], arms["compared"]);
//! # Ok::<(), freeblock_demo::DemoError>(())
//! ```

mod asked;
mod both;
pub mod results;

pub use asked::{Asked, Load};

use asked::LOADS;
use both::{Both, us};
use model::builtin::{self, BuiltinError};
use model::{DriveModel, ProfileError};
use results::Results;
use serde_json::{Value, json};
use sim::{ScanProgress, SetupError};
use std::sync::Arc;
use thiserror::Error;
use units::{Bytes, Duration, Instant, Sectors};
use workload::ConfigError;

/// The size of the scan's blocks.
pub const BLOCK: Bytes = Bytes::new(4096);
/// The name of the drive that is simulated by default.
pub const DRIVE: &str = "quantum-atlas-10k";

/// The bounds of the page's histograms: none, because a drive with the scheduler core in it has no prediction errors to show.
const NO_BOUNDS: [u64; 0] = [];
/// The virtual time of a step at the speed of real time; a step is longer in proportion to the speed.
const STEP_TIME: Duration = Duration::from_millis(20);
/// The speed above which steps do not get longer, so that one step takes the machine some milliseconds.
const STEP_SPEED_FACTOR_MAX: f64 = 64.0;
/// The end of the demo's virtual time: 100 years, so that no step reaches the 584 years at which an `Instant` overflows.
const VIRTUAL_TIME_MAX: Instant = Instant::from_nanos(100 * 365 * 86_400 * 1_000_000_000);

/// The reason why a demo cannot begin or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// No built-in drive has this name.
    #[error(transparent)]
    Drive(#[from] BuiltinError),
    /// The profile does not describe a possible drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The scan's block is no multiple of the drive's sector.
    #[error(
        "the demo scans in blocks of {BLOCK} bytes, and this drive's sectors have {0}; choose another drive"
    )]
    Block(Bytes),
    /// The load does not fit the drive.
    #[error(transparent)]
    Load(#[from] ConfigError),
    /// The simulator refuses the background, or a request.
    #[error(transparent)]
    Simulation(#[from] SetupError),
}

/// A drive that the caller adds to the built-in ones.
#[derive(Clone, Debug)]
pub struct OwnDrive {
    /// The name in [`Asked::drive`], by which `freeblock simulate --drive` finds the drive too.
    pub name: String,
    /// The title of the drive's profile.
    pub title: String,
    /// The model of the drive.
    pub model: Arc<DriveModel>,
}

/// Returns the scan's block in sectors of this size.
///
/// # Errors
/// [`DemoError::Block`].
pub fn block(sector: Bytes) -> Result<Sectors, DemoError> {
    match BLOCK.get().checked_rem(sector.get()) {
        Some(0) => Ok(Sectors::new(BLOCK.get() / sector.get())),
        _ => Err(DemoError::Block(sector)),
    }
}

/// Two runs of one foreground, and the virtual clock that follows the machine's.
pub struct Demo {
    own: Option<OwnDrive>,
    asked: Asked,
    drive: OwnDrive,
    both: Both,
    /// The number of times that both runs were begun, by `new` or by a change of settings.
    runs: u64,
    late: bool,
    /// The machine's time and the virtual time from which the virtual clock counts.
    from: (Instant, Instant),
}

/// The result of comparing the completion times of both runs, request by request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedTimes {
    /// The number of requests whose times are identical to the nanosecond.
    pub same: u64,
    /// The number of requests compared.
    pub all: u64,
}

impl Demo {
    /// Sets up both runs at the machine's time `now`. `own` is a drive beside the built-in ones.
    ///
    /// # Errors
    /// The drive is unknown, or the load or the scan does not fit it.
    pub fn new(asked: Asked, own: Option<OwnDrive>, now: Instant) -> Result<Self, DemoError> {
        let drive = find(&asked.drive, own.as_ref())?;
        let both = Both::new(&drive.model, &asked)?;
        Ok(Self { own, asked, drive, both, runs: 1, late: false, from: (now, Instant::ZERO) })
    }

    /// Applies new settings from the machine's time `now`. A change of anything but the speed begins new runs.
    ///
    /// # Errors
    /// As [`new`](Self::new); the old settings and runs stay.
    pub fn ask(&mut self, asked: Asked, now: Instant) -> Result<(), DemoError> {
        if asked == self.asked {
            return Ok(());
        }
        if (Asked { speed: self.asked.speed, ..asked.clone() }) == self.asked {
            self.from = (now, self.both.now());
        } else {
            let drive = find(&asked.drive, self.own.as_ref())?;
            self.both = Both::new(&drive.model, &asked)?;
            self.drive = drive;
            self.runs += 1;
            self.from = (now, Instant::ZERO);
        }
        self.asked = asked;
        Ok(())
    }

    /// Returns the present settings.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Advances both runs by some requests, at most to the end of the request that is served at the virtual time that belongs
    /// to the machine's time `now`. Returns whether the virtual time is still behind.
    ///
    /// # Errors
    /// The simulator refuses a request.
    pub fn step(&mut self, now: Instant) -> Result<bool, DemoError> {
        let (from, base) = self.from;
        let target = (base + fast(now.saturating_since(from), self.asked.speed)).min(VIRTUAL_TIME_MAX);
        let step = self.both.now() + fast(STEP_TIME, self.asked.speed.min(STEP_SPEED_FACTOR_MAX));
        self.both.advance_to(target.min(step))?;
        let behind = self.both.now() < target;
        self.late &= behind;
        Ok(behind)
    }

    /// Makes the virtual clock count on from its present time at the machine's time `now`, because the machine is too slow.
    pub fn fall_behind(&mut self, now: Instant) {
        self.late = true;
        self.from = (now, self.both.now());
    }

    /// Returns the comparison of both runs so far.
    pub fn compared(&self) -> ComparedTimes {
        ComparedTimes { same: self.both.same, all: self.both.compared }
    }

    /// Returns the simulated time.
    pub fn simulated(&self) -> Duration {
        self.both.now().since(Instant::ZERO)
    }

    /// Returns the state in the form that the page draws (docs/SERVE.md, "The page").
    pub fn snapshot(&self) -> Value {
        let Asked { drive, load, tasks, policy, seed, speed } = &self.asked;
        let own =
            self.own.iter().map(|own| own.name.as_str()).filter(|name| !builtin::names().contains(name));
        let drives: Vec<&str> = own.chain(builtin::names().iter().copied()).collect();
        let loads: Vec<_> = LOADS.iter().map(|load| json!([load.name(), load.title()])).collect();
        let numbers = self.both.milestone.as_ref().map(|report| {
            json!({ "command": self.command(report.foreground.requests), "results": Results::from(report) })
        });
        json!({
            "bounds_us": NO_BOUNDS,
            "demo": {
                "title": self.drive.title, "drive": drive, "drives": drives, "load": load.name(), "loads": loads, "tasks": tasks,
                // The seed is text, because a number in JavaScript has only 53 bits.
                "policy": policy.to_string(), "policies": asked::POLICIES, "seed": seed.to_string(), "speed": speed,
                "late": self.late, "simulated_s": self.simulated().as_secs_f64(), "numbers": numbers,
            },
            "disks": [self.disk()],
        })
    }

    /// Returns the command that prints the numbers after this many requests.
    fn command(&self, requests: u64) -> String {
        let Asked { drive, load, tasks, policy, seed, .. } = &self.asked;
        let load = load.name();
        format!(
            "freeblock simulate --drive {drive} --workload {load} --mpl {tasks} --policy {policy} --background scan --requests {requests} --seed {seed} --json"
        )
    }

    fn disk(&self) -> Value {
        let Both { with, without, capacity, rings, accesses, same, compared, .. } = &self.both;
        let (report, other) = (with.run.report(), without.run.report());
        let ScanProgress { delivered: done, blocks } = with.run.scan_progress().unwrap_or_default();
        let scan = report.background;
        let arm = |report: &sim::Report, sum: Duration| {
            let of = &report.foreground;
            json!({ "count": of.requests, "sum_us": us(sum), "p50_us": of.p50_ms * 1e3, "p99_us": of.p99_response_ms * 1e3 })
        };
        let time = &report.head_time;
        let head = [
            ("Moves for requests", "c0", time.seek),
            ("Waiting for a sector", "c4", time.rotation),
            ("Sectors of requests", "c3", time.transfer),
            ("Sectors of the scan", "c1", time.free_transfer),
            ("Additional moves for the scan", "c2", time.extra_seek),
            ("Nothing to do", "rest", time.idle),
        ]
        .map(|(word, kind, share)| {
            json!({ "word": word, "kind": kind, "us": share * report.simulated.as_secs_f64() * 1e6 })
        });
        let accesses: Vec<Value> =
            accesses.iter().map(|(lbn, purpose)| json!({ "lbn": lbn.get(), "purpose": purpose })).collect();
        let gaps = with.run.planner_stats();
        let read = done.saturating_mul(BLOCK.get());
        let rate = scan.mb_per_s * 1e6;
        let left = blocks.saturating_sub(done).saturating_mul(BLOCK.get()) as f64;
        json!({
            "name": self.drive.title, "sectors": capacity.get(), "sector_bytes": self.drive.model.sector_bytes().get(),
            "run": self.runs, "head": head,
            "arms": { "with": arm(&report, with.sum), "without": arm(&other, without.sum), "same": same, "compared": compared },
            "status": {
                "reads": { "count": report.foreground.requests, "sum_us": us(with.sum) }, "writes": { "count": 0, "sum_us": 0 },
                "outstanding": self.asked.tasks, "gaps": { "seen": gaps.gaps, "used": gaps.detours },
                "background": { "gap_bytes": read }, "accesses": accesses,
            },
            "tasks": [{
                "id": 1, "kind": "scan", "state": if scan.done { "done" } else { "running" }, "priority": 20,
                "done": done, "blocks": blocks, "bytes": read, "rings": rings.shares(*capacity),
                "rate_bytes_per_s": rate, "rate_over": "since its start",
                "eta_s": (rate > 0.0 && !scan.done).then_some(left / rate),
                "bad_lbns": [], "bad_more": 0, "potential_used": scan.potential_used,
            }],
        })
    }
}

/// Returns the drive of this name.
fn find(name: &str, own: Option<&OwnDrive>) -> Result<OwnDrive, DemoError> {
    if let Some(own) = own.filter(|own| own.name == name) {
        return Ok(own.clone());
    }
    let profile = builtin::find(name)?;
    let model = Arc::new(DriveModel::from_profile(&profile)?);
    Ok(OwnDrive { name: name.to_owned(), title: profile.title, model })
}

fn fast(time: Duration, speed: f64) -> Duration {
    Duration::from_millis_f64(time.as_millis_f64() * speed).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a drive with only the first cylinders of a built-in one.
    fn small() -> OwnDrive {
        let mut profile = builtin::find("mimic-less-capacity").unwrap();
        profile.layout.zones.truncate(1);
        profile.layout.zones[0].last_cylinder = 20;
        let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
        OwnDrive { name: "small.toml".into(), title: "a drive".into(), model }
    }

    fn asked() -> Asked {
        Asked { drive: "small.toml".into(), ..Asked::default() }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn both_runs_are_identical_at_any_step_and_the_rings_fill() {
        let mut demo = Demo::new(asked(), Some(small()), Instant::ZERO).unwrap();
        let rings = |snapshot: &Value| snapshot["disks"][0]["tasks"][0]["rings"].as_array().unwrap().clone();
        assert!(rings(&demo.snapshot()).iter().all(|ring| *ring == 0.0));
        let mut ms = 0;
        while demo.snapshot()["disks"][0]["tasks"][0]["state"] != "done" {
            ms += 700;
            while demo.step(at(ms)).unwrap() {}
        }
        let ComparedTimes { same, all: compared } = demo.compared();
        assert!(compared > 10 && same == compared);
        let after = demo.snapshot();
        let disk = &after["disks"][0];
        assert_eq!(disk["tasks"][0]["done"], disk["tasks"][0]["blocks"]);
        // A block that straddles two parts counts for the first only, so some rings are not quite full.
        assert!(rings(&after).iter().all(|ring| ring.as_f64().unwrap() > 0.9), "{after}");
        assert_eq!(disk["arms"]["with"], disk["arms"]["without"]);
        let all: f64 = disk["head"].as_array().unwrap().iter().map(|part| part["us"].as_f64().unwrap()).sum();
        assert!((all - demo.both.with.run.report().simulated.as_secs_f64() * 1e6).abs() < 1.0, "{all}");
    }

    #[test]
    fn runs_that_differ_are_noticed() {
        let mut demo = Demo::new(asked(), Some(small()), Instant::ZERO).unwrap();
        demo.both.without = both::Run::new(&small().model, &Asked { seed: 2, ..asked() }, None).unwrap();
        while demo.step(at(2_000)).unwrap() {}
        let ComparedTimes { same, all: compared } = demo.compared();
        assert!(same < compared);
    }

    #[test]
    fn the_virtual_clock_follows_the_machine_at_the_speed_that_is_asked_for() {
        let mut demo = Demo::new(asked(), Some(small()), at(500)).unwrap();
        while demo.step(at(1_500)).unwrap() {}
        let near = |demo: &Demo, ms: f64| (0.0..100.0).contains(&(demo.simulated().as_millis_f64() - ms));
        assert!(near(&demo, 1_000.0));
        demo.ask(Asked { speed: 4.0, ..asked() }, at(1_500)).unwrap();
        let before = demo.simulated().as_millis_f64();
        while demo.step(at(2_500)).unwrap() {}
        assert!(near(&demo, before + 4_000.0), "the speed has begun no new run");
        // On a machine that is too slow the demo continues from its virtual time, and reports `late` until it has caught up.
        assert!(demo.step(at(60_000)).unwrap());
        let before = demo.simulated().as_millis_f64();
        demo.fall_behind(at(60_000));
        assert_eq!(demo.snapshot()["demo"]["late"], true);
        while demo.step(at(60_100)).unwrap() {}
        assert!(near(&demo, before + 400.0));
        assert_eq!(demo.snapshot()["demo"]["late"], false);
        let changed = Asked { load: Load::Random, ..demo.asked().clone() };
        demo.ask(changed, at(60_100)).unwrap();
        assert_eq!((demo.simulated(), &demo.snapshot()["disks"][0]["run"]), (Duration::ZERO, &json!(2)));
    }

    #[test]
    fn a_drive_that_the_scan_does_not_fit_is_refused_and_the_run_goes_on() {
        let mut demo = Demo::new(asked(), Some(small()), Instant::ZERO).unwrap();
        while demo.step(at(100)).unwrap() {}
        let error = demo.ask(Asked { drive: "nothing".into(), ..asked() }, at(100)).unwrap_err();
        assert!(error.to_string().contains("nothing"), "{error}");
        assert!(demo.simulated() > Duration::ZERO && *demo.asked() == asked());
        assert!(block(Bytes::new(8192)).unwrap_err().to_string().contains("sectors have 8192"));
    }

    /// The numbers after the first thousand requests equal those of a run of a thousand requests, whatever steps led there.
    #[test]
    fn the_numbers_are_those_of_a_run_that_ends_there() {
        let mut demo = Demo::new(asked(), Some(small()), Instant::ZERO).unwrap();
        assert_eq!(demo.snapshot()["demo"]["numbers"], Value::Null);
        for ms in [7, 350, 1_000, 20_000] {
            while demo.step(at(ms)).unwrap() {}
        }
        let numbers = &demo.snapshot()["demo"]["numbers"];
        let mut run =
            both::Run::new(&small().model, &asked(), Some(block(Bytes::new(512)).unwrap())).unwrap();
        run.run.advance(1_000, &mut sim::Nothing).unwrap();
        assert_eq!(numbers["results"], serde_json::to_value(Results::from(&run.run.report())).unwrap());
        let command = numbers["command"].as_str().unwrap();
        assert!(command.contains("--drive small.toml") && command.contains("--requests 1000 "), "{command}");
    }
}
