//! `freeblock demo`: a scan inside a busy drive's rotational latency, and its cost to the foreground.

#[cfg(target_os = "linux")]
mod live;
mod today;

use crate::Outcome;
use crate::bars::{bar, parts};
use crate::drive::DEFAULT_DRIVE;
use crate::drive::resolve::resolve;
use crate::output::Console;
use crate::problem::Problem;
use crate::simulate::run::{Goal, Run};
use crate::tables::{capacity, grouped, percent, span, table};
use crate::values;
#[cfg(target_os = "linux")]
use ::demo::OwnDrive;
use ::demo::{BLOCK, block};
use clap::Args;
use model::DriveModel;
use scheduler::{Config, Request};
use sim::{Background, Observer, Report};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant as Clock;
use units::Instant;
use workload::{Arrival, Issuer, Oltp, OltpConfig};

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_DRIVE)]
    pub(crate) drive: String,
    /// Show both runs on a page for browsers until Ctrl-C, in real time or at another speed; at an address of this machine only
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = crate::serve::web::DEFAULT, value_parser = crate::serve::web::address)]
    pub(crate) web: Option<std::net::SocketAddr>,
}

/// The number of tasks of the foreground.
const MPL: u32 = 10;

/// A foreground request with its arrival and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Completion {
    request: Request,
    arrived: Instant,
    completed: Instant,
}

/// The completions that have not been compared yet.
#[derive(Default)]
struct Keep(VecDeque<Completion>);

impl Observer for Keep {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.0.push_back(Completion { request, arrived, completed: at });
    }
}

/// Two runs of the same foreground, with and without the scan, and the number of completions that were identical in both.
struct Pair {
    with: Run<Oltp>,
    without: Run<Oltp>,
    kept: (Keep, Keep),
    same: u64,
}

impl Pair {
    /// Runs the foreground with and without the scan, in step so that few completions are in memory, until the scan is done.
    fn run(&mut self, console: &Console) -> Result<(), Problem> {
        let mut progress = self.with.progress(Goal::ScanDone, "scanning", console);
        loop {
            let more = self.with.stride(Goal::ScanDone, &mut self.kept.0)?;
            let goal = Goal::Requests(self.with.requests());
            while self.without.stride(goal, &mut self.kept.1)? {}
            self.compare();
            progress.at(self.with.position(Goal::ScanDone));
            if !more {
                return Ok(());
            }
        }
    }

    fn compare(&mut self) {
        let (Keep(with), Keep(without)) = &mut self.kept;
        let pairs = with.len().min(without.len());
        self.same += with.drain(..pairs).zip(without.drain(..pairs)).filter(|(a, b)| a == b).count() as u64;
    }

    /// Returns whether each completion of the run with the scan is identical to that of the run without.
    fn identical(&self) -> bool {
        let (Keep(with), Keep(without)) = &self.kept;
        self.same == self.with.requests() && with.is_empty() && without.is_empty()
    }
}

pub(crate) fn execute(args: &DemoArgs, console: &Console) -> Result<Outcome, Problem> {
    let started = Clock::now();
    let drive = resolve(&args.drive)?;
    let model = Arc::new(drive.model);
    let block = block(model.sector_bytes())
        .map_err(|error| Problem::usage(error).help("`freeblock drive list` shows the built-in ones"))?;

    #[cfg(target_os = "linux")]
    if let Some(listen) = args.web {
        let own = OwnDrive { name: args.drive.clone(), title: drive.profile.title, model };
        return live::show(listen, own, args.seed, console);
    }

    let mut pair = Pair {
        with: set_up(&model, args.seed, MPL, Background::Scan { block })?,
        without: set_up(&model, args.seed, MPL, Background::None)?,
        kept: Default::default(),
        same: 0,
    };
    pair.run(console)?;

    let (with, without) = (pair.with.report(), pair.without.report());
    let mut text = format!(
        "{}, simulated: {MPL} tasks of transactions (OLTP), first come first served.\n\
         A scan reads all of its {} in {} blocks of {BLOCK} bytes,\n\
         and only while the head waits for a sector of the foreground.\n\n",
        drive.profile.title,
        capacity(model.layout().capacity().bytes(model.sector_bytes()).get()),
        grouped(with.background.blocks),
    );
    compared(&mut text, &without, &with);
    let _ = writeln!(
        text,
        "{} of {} completion times identical to the nanosecond",
        grouped(pair.same),
        grouped(pair.with.requests())
    );
    gained(&mut text, &with);
    let simulated = with.simulated.as_secs_f64();
    let _ = writeln!(
        text,
        "time                 {} simulated, twice, in {} (seed {})\n",
        span(simulated),
        span(started.elapsed().as_secs_f64()),
        args.seed
    );
    head_times(&mut text, &without, &with);
    text.push('\n');
    text.push_str(&today::text(args.seed)?);
    if !pair.identical() {
        text.push_str("\nThe scan has changed the foreground's times: this must not be. Please report it with the seed.\n");
    }
    Ok(Outcome { text, code: u8::from(!pair.identical()) })
}

fn set_up(
    model: &Arc<DriveModel>,
    seed: u64,
    mpl: u32,
    background: Background,
) -> Result<Run<Oltp>, Problem> {
    let load = Oltp::new(OltpConfig::new(model.layout().capacity(), model.sector_bytes()), seed)
        .map_err(Problem::usage)?;
    let foreground = Issuer::new(load, Arrival::oltp(mpl), Instant::ZERO, seed).map_err(Problem::usage)?;
    Run::new(Arc::clone(model), Config::default(), foreground, background)
}

fn compared(text: &mut String, without: &Report, with: &Report) {
    let (a, b) = (&without.foreground, &with.foreground);
    let rows = [
        ("requests", grouped(a.requests), grouped(b.requests), a.requests == b.requests),
        row("mean response ms", a.mean_response_ms, b.mean_response_ms),
        row("99th percentile ms", a.p99_response_ms, b.p99_response_ms),
        row("requests a second", a.iops, b.iops),
    ];
    let rows = rows.map(|(what, without, with, same)| {
        vec![what.to_owned(), without, with, if same { "identical" } else { "DIFFERENT" }.to_owned()]
    });
    text.push_str(&table(&["foreground", "without the scan", "with the scan", ""], &[0, 3], rows));
}

fn row(what: &'static str, without: f64, with: f64) -> (&'static str, String, String, bool) {
    (what, format!("{without:.6}"), format!("{with:.6}"), without == with)
}

fn gained(text: &mut String, with: &Report) {
    let scan = &with.background;
    let last5 = scan.last5_time_share.map_or_else(|| "the scan is not done".to_owned(), percent);
    let _ = write!(
        text,
        "\nfree bandwidth       {:.2} MB/s, {:.1} scans a day\n\
         potential used       {} of the foreground's rotational latency\n\
         last 5% of blocks    {last5} of the scan's time\n",
        scan.mb_per_s,
        scan.scans_per_day,
        percent(scan.potential_used),
    );
}

fn head_times(text: &mut String, without: &Report, with: &Report) {
    text.push_str("The head's time\n");
    for (state, report) in [("without the scan", without), ("with the scan", with)] {
        let _ = writeln!(text, "  {state}");
        for (name, share) in parts(&report.head_time) {
            let line = format!("    {name:15} {:>6}  {}", percent(share), bar(share));
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Sectors;

    /// Returns a drive with only the first cylinders of a built-in one.
    fn drive() -> Arc<DriveModel> {
        let mut profile = model::builtin::find("mimic-less-capacity").unwrap();
        profile.layout.zones.truncate(1);
        profile.layout.zones[0].last_cylinder = 20;
        Arc::new(DriveModel::from_profile(&profile).unwrap())
    }

    fn pair(with: u64, without: u64) -> Pair {
        let drive = drive();
        let mut pair = Pair {
            with: set_up(&drive, with, MPL, Background::Scan { block: Sectors::new(8) }).unwrap(),
            without: set_up(&drive, without, MPL, Background::None).unwrap(),
            kept: Default::default(),
            same: 0,
        };
        pair.run(&Console::new()).unwrap();
        pair
    }

    #[test]
    fn the_same_foreground_is_identical() {
        let pair = pair(1, 1);
        assert!(pair.identical() && pair.same > 10);
        assert_eq!(pair.with.report().foreground, pair.without.report().foreground);
    }

    #[test]
    fn a_foreground_that_differs_is_noticed() {
        assert!(!pair(1, 2).identical());
        let mut pair = pair(1, 1);
        let request = Request {
            id: units::RequestId::new(0),
            op: units::Op::Read,
            range: units::LbnRange::new(units::Lbn::ZERO, Sectors::new(1)),
        };
        pair.kept.0.completed(request, Instant::ZERO, Instant::ZERO);
        assert!(!pair.identical());
    }
}
