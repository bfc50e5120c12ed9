//! The configuration of `freeblock serve`, from the file docs/freeblock.toml or from flags.

use super::args::ServeArgs;
use super::background;
use super::disk_config::{DiskConfig, HARM_PPM, IDLE_AFTER};
use super::disk_text::DiskText;
use super::places::Places;
use super::source::Source;
use super::tls::TlsText;
use super::web::{WebOptions, WebText};
use crate::files;
use crate::problem::Problem;
use crate::values;
use serde::Deserialize;
use server::Address;
use server::control::Roles;
use server::manager::budget::Budget;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use toml::Spanned;
use units::{Bytes, Duration};

/// The file's text, parsed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    state: Option<Spanned<PathBuf>>,
    control: Option<Spanned<PathBuf>>,
    #[serde(default)]
    control_roles: Roles,
    #[serde(default)]
    web: WebText,
    targets: Option<Spanned<Vec<Spanned<PathBuf>>>>,
    keep: Option<Spanned<String>>,
    tasks_at_once: Option<NonZeroUsize>,
    comparison_memory: Option<Spanned<String>>,
    background_memory: Option<Spanned<String>>,
    log: Option<Spanned<String>>,
    #[serde(default)]
    lock_memory: bool,
    #[serde(default)]
    limits: LimitsText,
    disk: Spanned<Vec<DiskText>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsText {
    clients: Option<Spanned<u64>>,
    requests_per_client: Option<Spanned<u64>>,
    bytes_per_client: Option<Spanned<String>>,
    bytes: Option<Spanned<String>>,
    handshake_s: Option<Spanned<u64>>,
    patience_s: Option<Spanned<u64>>,
    drain_s: Option<Spanned<u64>>,
    partial_blocks: Option<Spanned<u64>>,
}

/// The checked configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) state: Option<PathBuf>,
    pub(crate) control: Option<PathBuf>,
    pub(crate) control_roles: Roles,
    /// The page, if it is shown.
    pub(crate) web: Option<WebOptions>,
    /// The directories in which tasks may access files that users name; `None`: only root and the daemon's own user may name
    /// files.
    pub(crate) targets: Option<Vec<PathBuf>>,
    /// The configuration file, and the files that it names: no task accesses them.
    pub(crate) own: Vec<PathBuf>,
    /// The least severe level of log lines that are written.
    pub(crate) log: tracing::Level,
    /// Whether the daemon locks its memory, because this machine mounts one of the served disks.
    pub(crate) lock_memory: bool,
    /// The largest number of bytes of overwritten blocks that a backup keeps in the state directory.
    pub(crate) keep_bytes_max: u64,
    /// The largest number of scrubs and comparisons that run at the same time, on all disks together; `None` for no maximum.
    pub(crate) tasks_at_once: Option<usize>,
    /// The largest memory of all comparisons together.
    pub(crate) comparison_memory: Bytes,
    /// The largest memory for blocks that are read ahead of readers, of all background exports and snapshots together.
    pub(crate) background_memory: Bytes,
    pub(crate) limits: server::Limits,
    /// The largest number of background blocks that are half read at a time: a part is in memory and waits for the rest.
    pub(crate) partial_blocks: usize,
    pub(crate) disks: Vec<DiskConfig>,
    /// The bytes of the file that hold the options outside the disks' tables.
    pub(crate) places: Places,
}

/// The default of `partial_blocks`: half-read blocks of a megabyte then take at most a gigabyte.
const PARTIAL_BLOCKS: usize = 1 << 10;

/// The default of `keep`, a gigabyte: enough for the blocks that clients overwrite while a backup's target is away for some
/// minutes.
const KEEP_BYTES_MAX: u64 = 1 << 30;

/// The default of `background_memory` for all disks, a gigabyte: the largest use of four disks without a setting of their own.
const BACKGROUND_MEMORY: Bytes = Bytes::new(1 << 30);

/// The default of `log`: messages for operators.
const LOG: tracing::Level = tracing::Level::INFO;

impl Config {
    /// Reads the command line.
    ///
    /// # Errors
    /// A file cannot be read, or has an invalid value, whose place is underlined.
    pub(crate) fn new(args: &ServeArgs) -> Result<Self, Problem> {
        let mut config = match (&args.config, &args.disk) {
            (Some(path), _) => Self::from_file(path)?,
            (None, Some(disk)) => {
                let policy = args.policy.as_deref().map(values::policy).transpose();
                Self {
                    state: None,
                    control: None,
                    control_roles: Roles::default(),
                    web: None,
                    targets: None,
                    own: Vec::new(),
                    log: LOG,
                    lock_memory: false,
                    keep_bytes_max: KEEP_BYTES_MAX,
                    tasks_at_once: None,
                    comparison_memory: Budget::default().most(),
                    background_memory: BACKGROUND_MEMORY,
                    limits: server::Limits::default(),
                    partial_blocks: PARTIAL_BLOCKS,
                    disks: vec![DiskConfig {
                        name: disk.name.clone(),
                        device: disk.device.clone(),
                        listen: args.listen.iter().map(|place| place.0.clone()).collect(),
                        allow_remote: args.allow_remote,
                        export: String::new(),
                        read_only: false,
                        buffered: false,
                        profile: args.profile.clone(),
                        policy: policy.map_err(Problem::usage)?,
                        learning: args.learning.into(),
                        mimic_table: args.mimic_table.clone(),
                        harm_ppm: HARM_PPM,
                        conservatism: None,
                        extra_revolutions: false,
                        audit: true,
                        probe: None,
                        idle_after: Some(IDLE_AFTER),
                        timeout: server::TIMEOUT,
                        record: args.record.clone(),
                        record_limit: args.record_limit.get(),
                        ublk: args.ublk,
                        background: args.background.clone(),
                        background_write: args.background_write,
                        background_floor: args.background_floor,
                        background_memory: args.background_memory,
                        background_ublk: args.background_ublk,
                        tls: crate::emulate::tls(&args.tls)?,
                        places: Places::default(),
                    }],
                    places: Places::default(),
                }
            }
            (None, None) => return Err(Problem::usage("nothing to serve").help("give --config or --disk")),
        };
        if args.config.is_none() {
            config.own = config.disks.iter().flat_map(DiskConfig::own).collect();
            let tls = &args.tls;
            config.own.extend(
                [&tls.tls_certificate, &tls.tls_key, &tls.tls_clients].into_iter().flatten().cloned(),
            );
        }
        config.state = args.state.clone().or(config.state);
        config.control = args.control.clone().or(config.control);
        config.web = args.web.options().or(config.web);
        config.lock_memory |=
            args.lock_memory || config.disks.iter().any(|disk| disk.ublks().next().is_some());
        config.own.extend(config.web.iter().flat_map(WebOptions::files));
        if config.web.is_some() && config.state.is_none() {
            let problem = Problem::usage("a page, and no state directory for the tasks that it shows")
                .help("give --state, or state in the file");
            return Err(config.places.underline("web", problem));
        }
        if config.control.is_some() && config.state.is_none() {
            let problem = Problem::usage(
                "a control socket, and no state directory for the tasks that are started there",
            )
            .help("give --state, or state in the file");
            return Err(config.places.underline("control", problem));
        }
        Ok(config)
    }

    fn from_file(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let text = String::from_utf8(files::read(path)?)
            .map_err(|_| Problem::failed(format!("{name} is no text in UTF-8")))?;
        let mut config = Self::from_toml(&text, &name)?;
        config.own.push(path.to_owned());
        Ok(config)
    }

    /// Reads the configuration from a file's text.
    pub(crate) fn from_toml(text: &str, name: &str) -> Result<Self, Problem> {
        let file: FileText = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            Problem::failed(format!("{name}: {}", error.message()))
                .help("docs/freeblock.toml explains every option")
                .at(name, text, span, "here")
        })?;
        let place = Source { name, text };
        let (limits, partial_blocks) = file.limits.check(&place)?;
        let mut disks: Vec<DiskConfig> = Vec::new();
        let mut own: Vec<PathBuf> = Vec::new();
        let span = file.disk.span();
        for disk in file.disk.into_inner() {
            let (name, span) = (disk.name.get_ref().clone(), disk.name.span());
            if disks.iter().any(|other| other.name == name) {
                return Err(
                    place.problem(span, "another disk has this name; give each disk a name of its own")
                );
            }
            let numbers = disk.ublks();
            let (device, listen) = (disk.device.span(), disk.listen.get_ref().clone());
            own.extend(disk.tls.iter().flat_map(TlsText::files));
            let disk = disk.check(&place)?;
            own.extend(disk.own());
            let others = || disks.iter().flat_map(DiskConfig::ublks);
            for (nth, number) in numbers.iter().enumerate() {
                let mut taken = others().chain(disk.ublks().take(nth)).map(u64::from);
                if taken.any(|other| other == *number.get_ref()) {
                    let message = "another block device has this number; give each one of its own";
                    return Err(place.problem(number.span(), message));
                }
            }
            if disks.iter().any(|other| other.device.is_over(&disk.device)) {
                return Err(place.problem(
                    device,
                    "another disk of this file has the same device; give each device once",
                ));
            }
            for (at, (address, text)) in disk.listen.iter().zip(&listen).enumerate() {
                // Port 0 may be given twice: the system chooses a different port for each.
                let any = matches!(address, Address::Tcp(at) if at.port() == 0);
                let mut before =
                    disks.iter().flat_map(|other| &other.listen).chain(disk.listen.iter().take(at));
                if !any && before.any(|other| other == address) {
                    return Err(
                        place.problem(text.span(), "the address is given twice; give each address once")
                    );
                }
            }
            disks.push(disk);
        }
        if disks.is_empty() {
            return Err(place.problem(span, "no disk").help("give one [[disk]] table for each"));
        }
        let keep = |text: &Spanned<String>| place.parsed(text, |text| values::bytes(text).map(|b| b.get()));
        let keep_bytes_max = file.keep.as_ref().map(keep).transpose()?.unwrap_or(KEEP_BYTES_MAX);
        let memory = |text: &Spanned<String>| place.parsed(text, comparison_memory);
        let memory = file.comparison_memory.as_ref().map(memory).transpose()?;
        let read_ahead = |text: &Spanned<String>| place.parsed(text, background::memory);
        let background_memory = file.background_memory.as_ref().map(read_ahead).transpose()?;
        let targets = file.targets.map(|all| targets(all, file.state.as_ref(), &place)).transpose()?;
        let level = |text: &Spanned<String>| place.parsed(text, level);
        let log = file.log.as_ref().map(level).transpose()?.unwrap_or(LOG);
        let mut places = Places::of(name, text);
        places.note("state", file.state.as_ref().map(Spanned::span));
        places.note("control", file.control.as_ref().map(Spanned::span));
        places.note("web", file.web.listen.as_ref().map(Spanned::span));
        let web = file.web.options(&place)?;
        let (state, control) = (file.state.map(Spanned::into_inner), file.control.map(Spanned::into_inner));
        let control_roles = file.control_roles;
        Ok(Self {
            state,
            control,
            control_roles,
            web,
            targets,
            own,
            log,
            lock_memory: file.lock_memory,
            keep_bytes_max,
            tasks_at_once: file.tasks_at_once.map(NonZeroUsize::get),
            comparison_memory: memory.unwrap_or(Budget::default().most()),
            background_memory: background_memory.unwrap_or(BACKGROUND_MEMORY),
            limits,
            partial_blocks,
            disks,
            places,
        })
    }
}

/// Reads the memory of comparisons.
fn comparison_memory(text: &str) -> Result<Bytes, String> {
    let bytes = values::bytes(text)?;
    let (least, most) = (Budget::BYTES_MIN, Budget::BYTES_MAX);
    match (least..=most).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("{text:?} is out of range; give {} to {}", least.get(), most.get())),
    }
}

/// Returns the directories in which tasks may access files.
fn targets(
    all: Spanned<Vec<Spanned<PathBuf>>>,
    state: Option<&Spanned<PathBuf>>,
    place: &Source<'_>,
) -> Result<Vec<PathBuf>, Problem> {
    let one = |target: Spanned<PathBuf>| {
        let (span, target) = (target.span(), target.into_inner());
        if !target.is_absolute() {
            return Err(place.problem(span, "a relative path; give one that begins with /"));
        }
        if state.is_some_and(|state| target.starts_with(state.get_ref())) {
            return Err(place
                .problem(span, "the file is in the state directory, which no task touches; give another"));
        }
        Ok(target)
    };
    all.into_inner().into_iter().map(one).collect()
}

fn level(text: &str) -> Result<tracing::Level, String> {
    let known = ["error", "warn", "info", "debug", "trace"];
    let level = known.contains(&text).then(|| text.parse().ok()).flatten();
    level.ok_or_else(|| format!("{text:?} is no level; give error, warn, info, debug or trace"))
}

impl LimitsText {
    fn check(&self, place: &Source<'_>) -> Result<(server::Limits, usize), Problem> {
        let standard = server::Limits::default();
        let size = |value: Option<&Spanned<String>>, default: usize| match value {
            None => Ok(default),
            Some(text) => place.parsed(text, |text| {
                let bytes = usize::try_from(values::bytes(text)?.get()).unwrap_or(usize::MAX);
                // One request of the largest size must fit.
                (bytes >= 32 << 20).then_some(bytes).ok_or("give at least 32MiB, a whole request".to_owned())
            }),
        };
        let seconds = |value: Option<&Spanned<u64>>, default: Duration| {
            place.within(value, (1, 3600), default.as_nanos() / 1_000_000_000).map(Duration::from_secs)
        };
        let clients = place.within(self.clients.as_ref(), (1, 1_000), standard.clients as u64)?;
        let each = standard.client.requests as u64;
        let requests = place.within(self.requests_per_client.as_ref(), (1, 1_024), each)?;
        let partial = place.within(self.partial_blocks.as_ref(), (1, 1 << 15), PARTIAL_BLOCKS as u64)?;
        let mut client = standard.client;
        client.requests = requests as usize;
        client.bytes = size(self.bytes_per_client.as_ref(), client.bytes)?;
        let limits = server::Limits {
            clients: clients as usize,
            client,
            bytes: size(self.bytes.as_ref(), standard.bytes)?,
            handshake: seconds(self.handshake_s.as_ref(), standard.handshake)?,
            patience: seconds(self.patience_s.as_ref(), standard.patience)?,
            drain: seconds(self.drain_s.as_ref(), standard.drain)?,
        };
        Ok((limits, partial as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../docs/freeblock.toml");

    /// Returns the example with its options uncommented: lines such as `# harm_percent = 1.0` are options, the others
    /// are descriptions.
    fn uncommented() -> String {
        let option = |line: &str| {
            let key = line.split(" = ").next().unwrap_or_default();
            // The options of `tls` name files that do not exist.
            line.contains(" = ") && key != "tls" && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        };
        let lines = EXAMPLE.lines().map(|line| match line.strip_prefix("# ") {
            Some(rest) if option(rest) => rest,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_example_is_the_configuration_with_its_standard_values() {
        let short = Config::from_toml(EXAMPLE, "example").unwrap();
        let long = Config::from_toml(&uncommented(), "example").unwrap();
        assert_eq!(short.limits, long.limits);
        assert_eq!(short.partial_blocks, long.partial_blocks);
        let [short, long] = [&short.disks[0], &long.disks[0]];
        let policy = Some("sptf".parse().unwrap());
        let profile = Some("/etc/freeblock/d0.toml".to_owned());
        let record = Some("/var/lib/freeblock/d0.recording".into());
        let mimic_table = Some("/etc/freeblock/d0.mimic".into());
        let conservatism = Duration::from_millis_f64(0.3);
        let named = DiskConfig {
            policy,
            profile,
            record,
            mimic_table,
            conservatism,
            probe: Some(true),
            ublk: Some(0),
            background: Some("d0-background".into()),
            background_write: true,
            background_floor: Some(background::floor("2MB/s").unwrap()),
            background_ublk: Some(1),
            ..short.clone()
        };
        assert_eq!(format!("{named:?}"), format!("{long:?}"));
        assert_eq!((short.harm_ppm, short.idle_after), (10_000, Some(Duration::from_millis(20))));
    }

    #[test]
    fn the_memory_of_comparisons_is_in_its_range() {
        assert_eq!(comparison_memory("64KiB"), Ok(Budget::BYTES_MIN));
        assert_eq!(comparison_memory("1024GiB"), Ok(Budget::BYTES_MAX));
        for wrong in ["65535", "1025GiB", "0", "much"] {
            assert!(comparison_memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_example_names_every_option() {
        let text = uncommented();
        let table = text.parse::<toml::Table>().unwrap();
        let keys = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            keys(&table),
            "background_memory comparison_memory control control_roles disk keep limits lock_memory log state targets tasks_at_once web"
        );
        let roles = table["control_roles"].as_table().unwrap();
        assert_eq!(keys(roles), "read_gids read_uids write_gids write_uids");
        assert_eq!(keys(table["web"].as_table().unwrap()), "certificate control key listen token");
        let limits = table["limits"].as_table().unwrap();
        let expected = "bytes bytes_per_client clients drain_s handshake_s partial_blocks patience_s requests_per_client";
        assert_eq!(keys(limits), expected);
        let disk = table["disk"].as_array().unwrap()[0].as_table().unwrap();
        let expected = "allow_remote audit background background_floor background_memory background_ublk background_write buffered conservatism_ms device export extra_revolutions harm_percent idle_after_ms listen mimic_memory mimic_minimum_samples mimic_probe_idle mimic_table name policy probe profile read_only record record_limit timeout_s ublk";
        assert_eq!(keys(disk), expected);
    }

    /// The test covers all options that the program accepts, instead of a list written by hand.
    #[test]
    fn every_option_that_is_understood_stands_in_the_example() {
        let disk = "[[disk]]\nname = \"a\"\ndevice = \"x\"\nlisten = [\"unix:/s\"]\n";
        for (table, text) in [
            ("", format!("zz = 1\n{disk}")),
            ("control_roles", format!("[control_roles]\nzz = 1\n{disk}")),
            ("limits", format!("[limits]\nzz = 1\n{disk}")),
            ("web", format!("[web]\nzz = 1\n{disk}")),
            ("disk", format!("{disk}zz = 1\n")),
            ("tls", format!("{disk}tls = {{ zz = 1 }}\n")),
        ] {
            let problem = Config::from_toml(&text, "f.toml").unwrap_err().to_string();
            let known: Vec<&str> = problem.split('`').skip(3).step_by(2).collect();
            assert!(known.len() > 3, "{table}: {problem}");
            for option in known {
                let documented = EXAMPLE.lines().any(|line| {
                    let line = line.strip_prefix("# ").unwrap_or(line);
                    let line = line.trim_start_matches(['[']);
                    line.starts_with(&format!("{option} = "))
                        || line.starts_with(&format!("{option}]"))
                        || (line.starts_with("tls = ") && line.contains(&format!(" {option} = ")))
                });
                assert!(documented, "{option} of [{table}] is not in docs/freeblock.toml");
            }
        }
    }

    #[test]
    fn the_example_of_encryption_is_understood() {
        let line = EXAMPLE.lines().find_map(|line| line.strip_prefix("# tls = ")).unwrap();
        let config =
            format!("[[disk]]\nname = \"a\"\ndevice = \"x\"\nlisten = [\"unix:/s\"]\ntls = {line}\n");
        let problem = Config::from_toml(&config, "f.toml").unwrap_err().to_string();
        assert!(problem.starts_with("f.toml: /etc/freeblock/d0.crt: "), "{problem}");
        let problem = Config::from_toml(&config.replace("key", "keys"), "f.toml").unwrap_err().to_string();
        assert!(problem.contains("unknown field `keys`"), "{problem}");
    }

    #[test]
    fn mistakes_name_their_place_and_the_mend() {
        let disk = "[[disk]]\nname = \"a\"\ndevice = \"/dev/null\"\nlisten = [\"unix:/s\"]\n";
        let mistakes = [
            ("lsten = 1\n", "unknown field `lsten`"),
            ("", "missing field `disk`"),
            ("disk = []\n", "no disk"),
            (
                &format!("[web]\nlisten = \"8080\"\n{disk}"),
                "is no address with a port; give one as 127.0.0.1:8080",
            ),
            (&format!("[limits]\nclients = 0\n{disk}"), "0 is out of range; give 1 to 1000"),
            (&format!("[limits]\nbytes = \"1k\"\n{disk}"), "at least 32MiB"),
            (&format!("{disk}policy = \"best\"\n"), "best"),
            (&format!("{disk}mimic_memory = \"much\"\n"), "give bytes as a whole number"),
            (&format!("{disk}mimic_minimum_samples = 0\n"), "give a whole number from 1 to 64"),
            (&format!("{disk}harm_percent = nan\n"), "NaN is out of range"),
            (&format!("{disk}harm_percent = 101.0\n"), "give 0 to 100"),
            (&format!("{disk}conservatism_ms = 0.3\n"), "without a profile there are no detours"),
            (&format!("{disk}extra_revolutions = true\n"), "could wait one more revolution"),
            (&format!("{disk}profile = \"p\"\nconservatism_ms = -0.3\n"), "give 0 to 1000"),
            (&format!("{disk}{disk}"), "another disk has this name"),
            (&disk.replace("\"a\"", "\"../a\""), "without slashes"),
            (&disk.replace("\"a\"", "\"all\""), "`all` stands for all disks in commands"),
            (&disk.replace("unix:/s", "udp:1"), "unix:PATH or tcp:ADDRESS:PORT"),
            (&disk.replace("[\"unix:/s\"]", "[]"), "clients would have no address"),
            (&disk.replace("unix:/s", "tcp:0.0.0.0:10809"), "reached from other machines"),
            (&format!("{disk}timeout_s = 0\n"), "give 1 to 3600"),
            (&format!("{disk}ublk = 1048576\n"), "give 0 to 1048575"),
            (&format!("{disk}background = \"\"\n"), "needs a name"),
            (&format!("{disk}export = \"b\"\nbackground = \"b\"\n"), "the disk's other export has this name"),
            (&format!("{disk}export = \"a@nightly\"\n"), "stands in the names of snapshots' exports"),
            (&format!("{disk}background = \"a@nightly\"\n"), "stands in the names of snapshots' exports"),
            (&format!("{disk}background_floor = \"2MB/s\"\n"), "without a background export"),
            (&format!("{disk}background_memory = \"64k\"\n"), "give 1MiB to 64GiB"),
            (&format!("{disk}background_ublk = 1\n"), "without a background export"),
            (
                &format!("{disk}ublk = 1\nbackground = \"b\"\nbackground_ublk = 1\n"),
                "another block device has this number",
            ),
            (&format!("{disk}background_write = true\n"), "without a background export"),
            (
                &format!("{disk}read_only = true\nbackground = \"b\"\nbackground_write = true\n"),
                "the disk is read_only",
            ),
            (
                &format!("{disk}background = \"b\"\nbackground_floor = \"fast\"\n"),
                "give a rate, as 2MB/s, or seconds, as 30s",
            ),
            (
                &format!("{disk}ublk = 3\n{}ublk = 3\n", disk.replace("\"a\"", "\"b\"")),
                "another block device has this number",
            ),
            (&disk.replace("/dev/null", "emulated:x"), "file=PATH"),
            (&disk.replace("/dev/null", "emulated:x,file=y,speed=3"), "speed=3"),
            (&disk.replace("unix:/s\"", "unix:/s\", \"unix:/s\""), "the address is given twice"),
            (
                &format!("{disk}{}", disk.replace("\"a\"", "\"b\"").replace("/null", "/zero")),
                "the address is given twice",
            ),
            (
                &format!("{disk}{}", disk.replace("\"a\"", "\"b\"").replace("unix:/s", "unix:/t")),
                "another disk of this file has the same device",
            ),
        ];
        for (text, expected) in mistakes {
            let problem = Config::from_toml(text, "f.toml").unwrap_err();
            assert!(problem.to_string().contains(expected), "{text}: {problem}");
            assert!(problem.to_string().starts_with("f.toml: "), "{problem}");
            assert_eq!(miette::Diagnostic::labels(&problem).is_some(), !text.is_empty(), "{problem:?}");
        }
    }
}
