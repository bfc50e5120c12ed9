//! `freeblock demo`: a scan inside a busy drive's rotational latency, and what it cost the foreground.

use crate::Outcome;
use crate::args::DemoArgs;
use crate::bars::{bar, parts};
use crate::drive::resolve::resolve;
use crate::output::Console;
use crate::problem::Problem;
use crate::simulate::run::{Goal, Run};
use crate::tables::{capacity, grouped, percent, span, table};
use crate::values;
use model::DriveModel;
use scheduler::{Config, Record, Request};
use sim::{Background, Observer, Report};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant as Clock;
use units::{Bytes, Instant};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

/// Tasks of the foreground.
const MPL: u32 = 10;

/// The scan's block.
const BLOCK: Bytes = Bytes::new(4096);

/// Which request was done when.
type Completion = (Request, Instant, Instant);

/// Keeps every completion of the run with the scan.
#[derive(Default)]
struct Keep {
    completions: Vec<Completion>,
    blocks: u64,
}

impl Observer for Keep {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.completions.push((request, arrived, at));
    }

    fn delivered(&mut self, _: Record, _: Instant) {
        self.blocks += 1;
    }
}

/// Holds every completion of the run without the scan against the one with it.
struct Compare<'a> {
    with: std::slice::Iter<'a, Completion>,
    compared: u64,
    same: u64,
}

impl Observer for Compare<'_> {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.compared += 1;
        self.same += u64::from(self.with.next() == Some(&(request, arrived, at)));
    }
}

pub(crate) fn execute(args: &DemoArgs, console: &Console) -> Result<Outcome, Problem> {
    let started = Clock::now();
    let drive = resolve(&args.drive)?;
    let model = Arc::new(drive.model);
    let block = values::sectors(BLOCK, model.sector_bytes()).ok_or_else(|| {
        Problem::usage(format!(
            "the demo scans in blocks of {BLOCK} bytes, and this drive's sectors are larger"
        ))
        .help("choose another drive: `freeblock drive list` shows them")
    })?;

    let mut with = set_up(&model, args.seed, Background::Scan { block })?;
    let mut keep = Keep::default();
    with.advance(Goal::ScanDone, "with the scan   ", &mut keep, console)?;
    let requests = with.requests();

    let mut without = set_up(&model, args.seed, Background::None)?;
    let mut compare = Compare { with: keep.completions.iter(), compared: 0, same: 0 };
    without.advance(Goal::Requests(requests), "without the scan", &mut compare, console)?;

    let identical = compare.same == requests && compare.compared == requests && compare.with.len() == 0;
    let mut text = format!(
        "{}, simulated: {MPL} tasks of transactions (OLTP), first come first served.\n\
         A scan reads all of the drive's {} in {BLOCK}-byte blocks, {} of them, and only while the head waits for a\n\
         sector of the foreground.\n\n",
        drive.profile.title,
        capacity(model.layout().capacity().bytes(model.sector_bytes()).get()),
        grouped(keep.blocks),
    );
    compared(&mut text, &without.report(), &with.report());
    let _ = writeln!(
        text,
        "{} of {} completion times identical to the nanosecond",
        grouped(compare.same),
        grouped(requests)
    );
    gained(&mut text, &with.report());
    let simulated = with.report().simulated.as_secs_f64();
    let _ = writeln!(
        text,
        "time                 {} simulated, twice, in {} (seed {})\n",
        span(simulated),
        span(started.elapsed().as_secs_f64()),
        args.seed
    );
    head_times(&mut text, &without.report(), &with.report());
    if !identical {
        text.push_str("\nThe scan has changed the foreground's times: this must not be. Please report it with the seed.\n");
    }
    Ok(Outcome { text, code: u8::from(!identical) })
}

fn set_up(model: &Arc<DriveModel>, seed: u64, background: Background) -> Result<Run<Oltp>, Problem> {
    let load = Oltp::new(OltpConfig::new(model.layout().capacity(), model.sector_bytes()), seed)
        .map_err(Problem::usage)?;
    let foreground = Issuer::new(load, Arrival::oltp(MPL), Instant::ZERO, seed).map_err(Problem::usage)?;
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
