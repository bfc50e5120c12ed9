//! The configuration of one disk, checked.

use super::names::DeviceSpec;
use super::places::Places;
use crate::mimic::Learning;
use scheduler::policy::PolicyName;
use server::{Address, Tls};
use std::path::PathBuf;
use units::{Bytes, Duration};

/// The configuration of one disk.
#[derive(Clone, Debug)]
pub(crate) struct DiskConfig {
    pub(crate) name: String,
    pub(crate) device: DeviceSpec,
    pub(crate) listen: Vec<Address>,
    pub(crate) allow_remote: bool,
    /// The export's name.
    pub(crate) export: String,
    pub(crate) read_only: bool,
    pub(crate) buffered: bool,
    /// A built-in name, a file, or `none`.
    pub(crate) profile: Option<String>,
    pub(crate) policy: Option<PolicyName>,
    /// The parameters of smtf.
    pub(crate) learning: Learning,
    /// The file of the table that smtf starts from.
    pub(crate) mimic_table: Option<PathBuf>,
    pub(crate) harm_ppm: u32,
    /// The time that FAST 2002's scheduler adds to each move of a detour; `None` for our own scheduler.
    pub(crate) conservatism: Option<Duration>,
    /// Whether a request may wait one more revolution for a detour within the bound on harm, and whether the rest of a
    /// gap after a detour is planned as another gap.
    pub(crate) extra_revolutions: bool,
    /// Whether the cost of background work is measured, by comparison with windows of time without it.
    pub(crate) audit: bool,
    /// Whether the disk is probed while it serves, if it has no profile; `None`: if it reports its speed or is emulated.
    pub(crate) probe: Option<bool>,
    /// The idle time after which background work begins; `None`: idle time is not used.
    pub(crate) idle_after: Option<Duration>,
    /// The time after which a command of the device counts as lost.
    pub(crate) timeout: Duration,
    /// The file in which the inputs of the disk's core are recorded.
    pub(crate) record: Option<PathBuf>,
    /// The size in bytes at which the recording ends.
    pub(crate) record_limit: u64,
    /// The N of the disk's /dev/ublkbN.
    pub(crate) ublk: Option<u32>,
    /// The name of the background export.
    pub(crate) background: Option<String>,
    /// Whether clients may write to the background export.
    pub(crate) background_write: bool,
    /// The least service of the background export.
    pub(crate) background_floor: Option<server::Floor>,
    /// The largest memory for blocks that are read ahead of readers of the background export.
    pub(crate) background_memory: Bytes,
    /// The N of a /dev/ublkbN that is the background export.
    pub(crate) background_ublk: Option<u32>,
    pub(crate) tls: Option<Tls>,
    /// The bytes of the file that hold the disk's options.
    pub(crate) places: Places,
}

/// The default size of a recording: a gigabyte, some million requests.
pub(super) const RECORD_BYTES_MAX: u64 = 1 << 30;

/// The highest number of a ublk device that the driver accepts.
pub(crate) const UBLK_NUMBER_MAX: u32 = (1 << 20) - 1;

/// The default bound on harm: 1% of the foreground's mean response time.
pub(super) const HARM_PPM: u32 = 10_000;

/// Bounds the time added to a detour's moves to a second: many revolutions of any disk.
pub(super) const MARGIN_MS_MAX: f64 = 1e3;

/// The idle time after which background work begins, by default (FAST'04, section 5.2).
pub(super) const IDLE_AFTER: Duration = Duration::from_millis(20);

impl DiskConfig {
    /// Returns the options that are read at the daemon's start only, with their values as text.
    pub(super) fn fixed(&self) -> Vec<(&'static str, String)> {
        // The fields are listed by name, so that a new field must be handled here.
        let Self {
            name: _,
            tls: _,
            places: _,
            device,
            listen,
            allow_remote,
            export,
            read_only,
            buffered,
            profile,
            policy,
            learning,
            mimic_table,
            harm_ppm,
            conservatism,
            extra_revolutions,
            audit,
            probe,
            idle_after,
            timeout,
            record,
            record_limit,
            ublk,
            background,
            background_write,
            background_floor,
            background_memory,
            background_ublk,
        } = self;
        let Learning { memory_bytes, minimum_samples, probe_idle } = learning;
        let all: [(&'static str, &dyn std::fmt::Debug); 27] = [
            ("device", device),
            ("listen", listen),
            ("allow_remote", allow_remote),
            ("export", export),
            ("read_only", read_only),
            ("buffered", buffered),
            ("profile", profile),
            ("policy", policy),
            ("mimic_memory", memory_bytes),
            ("mimic_minimum_samples", minimum_samples),
            ("mimic_probe_idle", probe_idle),
            ("mimic_table", mimic_table),
            ("harm_percent", harm_ppm),
            ("conservatism_ms", conservatism),
            ("extra_revolutions", extra_revolutions),
            ("audit", audit),
            ("probe", probe),
            ("idle_after_ms", idle_after),
            ("timeout_s", timeout),
            ("record", record),
            ("record_limit", record_limit),
            ("ublk", ublk),
            ("background", background),
            ("background_write", background_write),
            ("background_floor", background_floor),
            ("background_memory", background_memory),
            ("background_ublk", background_ublk),
        ];
        all.into_iter().map(|(option, value)| (option, format!("{value:?}"))).collect()
    }

    /// Returns the numbers of the disk's /dev/ublkbN.
    pub(super) fn ublks(&self) -> impl Iterator<Item = u32> {
        self.ublk.into_iter().chain(self.background_ublk)
    }

    /// Returns the files that the disk reads from and writes to: no task may access them.
    pub(super) fn own(&self) -> Vec<PathBuf> {
        let record = self.record.iter().flat_map(|path| {
            let mut last = path.as_os_str().to_owned();
            last.push(".last");
            [path.clone(), last.into()]
        });
        let profile = self.profile.iter().map(PathBuf::from);
        let ublk = self.ublks().map(|number| format!("/dev/ublkb{number}").into());
        let device = match &self.device {
            DeviceSpec::Raw(path) => vec![path.clone()],
            DeviceSpec::Emulated { drive, file, .. } => vec![file.clone(), drive.into()],
        };
        device.into_iter().chain(profile).chain(record).chain(self.mimic_table.clone()).chain(ublk).collect()
    }
}
