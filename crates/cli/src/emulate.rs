//! `freeblock emulate`: an emulated drive for NBD clients.

use crate::differs::in_force;
use crate::drive::resolve::resolve;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::values;
use clap::Args;
use device::Emulated;
use drive::Behaviour;
use hdrhistogram::Histogram;
use serde::Serialize;
use server::{Address, ExportConfig, Exporter, Listener, Tally, Tls};
use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// Encryption of an export.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsArgs {
    /// Encrypt with this certificate (PEM); clients that do not encrypt are refused
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Admit only clients with a certificate signed by one of these (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_clients: Option<PathBuf>,
    /// Admit clients that do not encrypt, too
    #[arg(long, requires = "tls_certificate")]
    pub(crate) tls_optional: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("place").required(true).multiple(true).args(["socket", "listen"]))]
pub(crate) struct EmulateArgs {
    /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
    #[arg(value_name = "NAME|FILE")]
    pub(crate) drive: String,
    /// The file with the drive's bytes; created if necessary
    #[arg(long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Listen on a Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Listen on a TCP port; 0 chooses a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Listen on an address that other machines reach, without authentication
    #[arg(long, requires = "listen")]
    pub(crate) allow_remote: bool,
    /// The export's name
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) name: String,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Vary the drive's times as those of any drive: the preset noise
    #[arg(long)]
    pub(crate) noise: bool,
    /// Differences between the drive and its profile: a preset (modern, noise, fast02, none) and behaviours by name, such as
    /// modern,drift=off,bad_sectors=20:8 (`freeblock probe --help` lists them); `none` is the drive by its file, without a
    /// command queue and with the file's bus [default: none]
    #[arg(long, value_name = "LIST", value_parser = values::behaviour, conflicts_with = "noise")]
    pub(crate) behaviour: Option<Behaviour>,
    /// Seed of the drive's behaviour
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn execute(args: &EmulateArgs, console: &Console) -> Result<String, Problem> {
    let found = resolve(&args.drive)?;
    let tls = tls(&args.tls)?;
    // Required encryption permits access from other machines.
    let remote = args.allow_remote || tls.as_ref().is_some_and(Tls::is_required);
    let unix = args.socket.clone().map(Address::Unix);
    let addresses = unix.into_iter().chain(args.listen.map(Address::Tcp));
    let listeners: Vec<Listener> = addresses
        .map(|address| Listener::bind(address, remote).map_err(Problem::failed))
        .collect::<Result<_, _>>()?;
    let mut options = File::options();
    let opened = options.read(true).write(true).create(true).truncate(false).open(&args.file);
    let file = opened.map_err(|e| Problem::failed(format!("{}: {e}", args.file.display())))?;
    // Two drives over one file would corrupt each other's data.
    file.try_lock().map_err(|e| {
        Problem::failed(format!("{}: the file cannot be opened for exclusive use: {e}", args.file.display()))
            .help("give each emulated drive a file of its own")
    })?;
    let noise = if args.noise { Behaviour::noisy() } else { Behaviour::default() };
    let behaviour = args.behaviour.unwrap_or(noise);
    let disk = Emulated::new(&found.profile, behaviour, args.seed, file)
        .map_err(|e| Problem::failed(format!("{}: {e}", args.file.display())))?;
    for listener in &listeners {
        console.note(&format!("{} at {}", found.profile.title, listener.address()));
    }
    console.note(&in_force(&found.profile, behaviour));
    log(tracing::Level::INFO);
    let export =
        ExportConfig { name: args.name.clone(), read_only: args.read_only, tls, ..ExportConfig::default() };
    let (exporter, stop) = Exporter::new(disk, export, listeners).map_err(Problem::failed)?;
    interrupt::watch_and(
        move || {
            // Stopping fails if the server has ended by itself.
            let _ = stop.stop();
        },
        || {},
    );
    let (tally, disk) = exporter.run().map_err(Problem::failed)?;
    said(&tally, disk.lateness(), args.json)
}

/// Returns the encryption that the flags ask for; `None` without a certificate.
pub(crate) fn tls(args: &TlsArgs) -> Result<Option<Tls>, Problem> {
    let Some((certificate, key)) = args.tls_certificate.as_ref().zip(args.tls_key.as_ref()) else {
        return Ok(None);
    };
    let tls = Tls::from_files(certificate, key, args.tls_clients.as_deref(), !args.tls_optional);
    tls.map(Some).map_err(Problem::failed)
}

/// Writes log lines to standard error.
pub(crate) fn log(level: tracing::Level) -> Lines {
    let (filter, handle) = reload::Layer::new(LevelFilter::from_level(level));
    // Each disk has a thread with the disk's name, so the lines name the disk. A process has only one subscriber to its log
    // lines: a later call changes nothing.
    let lines = tracing_subscriber::fmt::layer().with_thread_names(true);
    let lines = lines.with_writer(std::io::stderr).with_ansi(false);
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Lines(handle)
}

/// The level of the log, which can change.
pub(crate) struct Lines(reload::Handle<LevelFilter, Registry>);

impl Lines {
    /// Sets the least severe level that is written.
    pub(crate) fn set(&self, level: tracing::Level) {
        // The call fails if another subscriber was installed before; that one has a level of its own.
        let _ = self.0.reload(LevelFilter::from_level(level));
    }
}

#[derive(Serialize)]
struct EmulateJson {
    clients: u64,
    requests: u64,
    failed: u64,
    lateness_us: Lateness,
}

#[derive(Serialize)]
struct Lateness {
    p50: f64,
    p99: f64,
    max: f64,
}

fn said(tally: &Tally, late: &Histogram<u64>, json: bool) -> Result<String, Problem> {
    let us = |ns: u64| ns as f64 / 1000.0;
    let lateness = Lateness {
        p50: us(late.value_at_quantile(0.5)),
        p99: us(late.value_at_quantile(0.99)),
        max: us(late.max()),
    };
    if json {
        let Tally { clients, requests, failed } = *tally;
        return crate::drive::json(&EmulateJson { clients, requests, failed, lateness_us: lateness });
    }
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "clients    {}", tally.clients);
    let _ = writeln!(text, "requests   {}, {} failed", tally.requests, tally.failed);
    let Lateness { p50, p99, max } = lateness;
    let _ = writeln!(text, "lateness   {p50:.0} us median, {p99:.0} us 99th percentile, {max:.0} us at most");
    Ok(text)
}
