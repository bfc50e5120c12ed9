//! The table of one disk in the configuration file: parsed, then checked.

use super::background;
use super::disk_config::{
    DiskConfig, HARM_PPM, IDLE_AFTER, MARGIN_MS_MAX, RECORD_BYTES_MAX, UBLK_NUMBER_MAX,
};
use super::names::Place;
use super::places::Places;
use super::source::Source;
use super::tls::TlsText;
use crate::mimic::{LearningArgs, minimum_samples};
use crate::problem::Problem;
use crate::tasks::ALL as ALL_DISKS;
use crate::values;
use serde::Deserialize;
use server::{Address, Tls};
use std::path::PathBuf;
use toml::Spanned;
use units::Duration;

/// A disk's table in the file, parsed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiskText {
    pub(super) name: Spanned<String>,
    pub(super) device: Spanned<String>,
    pub(super) listen: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    allow_remote: bool,
    export: Option<Spanned<String>>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    buffered: bool,
    profile: Option<Spanned<String>>,
    policy: Option<Spanned<String>>,
    mimic_memory: Option<Spanned<String>>,
    mimic_minimum_samples: Option<Spanned<u64>>,
    #[serde(default)]
    mimic_probe_idle: bool,
    mimic_table: Option<Spanned<PathBuf>>,
    harm_percent: Option<Spanned<f64>>,
    conservatism_ms: Option<Spanned<f64>>,
    extra_revolutions: Option<Spanned<bool>>,
    audit: Option<bool>,
    probe: Option<bool>,
    idle_after_ms: Option<Spanned<f64>>,
    timeout_s: Option<Spanned<u64>>,
    record: Option<Spanned<PathBuf>>,
    record_limit: Option<Spanned<String>>,
    ublk: Option<Spanned<u64>>,
    background: Option<Spanned<String>>,
    background_write: Option<Spanned<bool>>,
    background_floor: Option<Spanned<String>>,
    background_memory: Option<Spanned<String>>,
    background_ublk: Option<Spanned<u64>>,
    pub(super) tls: Option<TlsText>,
}

impl DiskText {
    /// Returns where the file holds the options whose mistakes show only when the disk is opened.
    fn places(&self, source: &Source<'_>) -> Places {
        let mut places = Places::of(source.name, source.text);
        places.note("device", Some(self.device.span()));
        places.note("export", self.export.as_ref().map(Spanned::span));
        places.note("profile", self.profile.as_ref().map(Spanned::span));
        places.note("policy", self.policy.as_ref().map(Spanned::span));
        places.note("mimic_memory", self.mimic_memory.as_ref().map(Spanned::span));
        places.note("mimic_table", self.mimic_table.as_ref().map(Spanned::span));
        places.note("record", self.record.as_ref().map(Spanned::span));
        places.note("ublk", self.ublk.as_ref().map(Spanned::span));
        places.note("background_ublk", self.background_ublk.as_ref().map(Spanned::span));
        for (index, place) in self.listen.get_ref().iter().enumerate() {
            places.note_one("listen", index, Some(place.span()));
        }
        places
    }

    /// Returns the numbers of the disk's /dev/ublkbN.
    pub(super) fn ublks(&self) -> Vec<Spanned<u64>> {
        self.ublk.iter().chain(&self.background_ublk).cloned().collect()
    }

    pub(super) fn check(self, place: &Source<'_>) -> Result<DiskConfig, Problem> {
        if self.name.get_ref().is_empty() || self.name.get_ref().contains(['/', '.']) {
            let message = "a disk's name is a part of file names; give one without slashes and dots";
            return Err(place.problem(self.name.span(), message));
        }
        if self.name.get_ref() == ALL_DISKS {
            let message = format!("`{ALL_DISKS}` stands for all disks in commands; give another name");
            return Err(place.problem(self.name.span(), &message));
        }
        let listen = self.listen.get_ref().iter();
        let listen: Vec<Address> = listen
            .map(|one| place.parsed(one, |text| text.parse::<Place>()).map(|listen| listen.0))
            .collect::<Result<_, _>>()?;
        if listen.is_empty() {
            return Err(place.problem(self.listen.span(), "clients would have no address; give at least one"));
        }
        let tls = self.tls.as_ref().map(|tls| tls.check(place)).transpose()?;
        // Required encryption permits access from other machines, and can authenticate clients.
        let safe = self.allow_remote || tls.as_ref().is_some_and(Tls::is_required);
        for (address, text) in listen.iter().zip(self.listen.get_ref()).filter(|_| !safe) {
            if let Err(error) = address.check(false) {
                return Err(place.problem(text.span(), error));
            }
        }
        let policy = self.policy.as_ref().map(|policy| place.parsed(policy, values::policy)).transpose()?;
        let memory = |text: &Spanned<String>| place.parsed(text, values::bytes);
        let samples = |samples: &Spanned<u64>| {
            let read = minimum_samples(&samples.get_ref().to_string());
            read.map_err(|message| place.problem(samples.span(), message))
        };
        let learning = LearningArgs {
            mimic_memory: self.mimic_memory.as_ref().map(memory).transpose()?,
            mimic_minimum_samples: self.mimic_minimum_samples.as_ref().map(samples).transpose()?,
            mimic_probe_idle: self.mimic_probe_idle,
        };
        let harm = place.within(self.harm_percent.as_ref(), (0.0, 100.0), f64::from(HARM_PPM) / 1e4)?;
        let no_profile = self.profile.as_ref().is_none_or(|of| of.get_ref() == "none");
        let extra_revolutions = self.extra_revolutions.as_ref();
        if let Some(extra_revolutions) =
            extra_revolutions.filter(|extra_revolutions| no_profile && *extra_revolutions.get_ref())
        {
            let message = "without a profile there are no detours for which a request could wait one more revolution; give the profile, or leave this out";
            return Err(place.problem(extra_revolutions.span(), message));
        }
        let conservatism = self.conservatism_ms.as_ref();
        if let Some(margin) = conservatism.filter(|_| no_profile) {
            let message = "without a profile there are no detours that a margin could be for; give the profile, or leave this out";
            return Err(place.problem(margin.span(), message));
        }
        let conservatism =
            conservatism.map(|ms| place.within(Some(ms), (0.0, MARGIN_MS_MAX), 0.0)).transpose()?;
        let idle = place.within(self.idle_after_ms.as_ref(), (0.0, 3.6e6), IDLE_AFTER.as_millis_f64())?;
        let timeout =
            place.within(self.timeout_s.as_ref(), (1, 3_600), server::TIMEOUT.as_nanos() / 1_000_000_000)?;
        let bytes = |text: &Spanned<String>| place.parsed(text, |text| values::bytes(text).map(|b| b.get()));
        let record_limit = self.record_limit.as_ref().map(bytes).transpose()?.unwrap_or(RECORD_BYTES_MAX);
        let number = |number: &Spanned<u64>| place.within(Some(number), (0, UBLK_NUMBER_MAX.into()), 0);
        let ublk = self.ublk.as_ref().map(number).transpose()?.map(|number| number as u32);
        let export = |text: &Spanned<String>| place.parsed(text, background::export_name);
        let export = self.export.as_ref().map(export).transpose()?;
        let background = background::name(self.background.as_ref(), self.export.as_ref(), place)?;
        let background_floor =
            background::checked(self.background_floor.as_ref(), background.is_some(), place)?;
        let write = self.background_write.as_ref();
        let background_write = background::write(write, background.is_some(), self.read_only, place)?;
        let memory = |text: &Spanned<String>| place.parsed(text, background::memory);
        let background_memory = self.background_memory.as_ref().map(memory).transpose()?;
        if let Some(device) = self.background_ublk.as_ref().filter(|_| background.is_none()) {
            let message = "without a background export there is nothing that this device could show; give `background`, or omit the line";
            return Err(place.problem(device.span(), message));
        }
        let background_ublk =
            self.background_ublk.as_ref().map(number).transpose()?.map(|number| number as u32);
        let background_memory = background_memory.unwrap_or(server::BackgroundTerms::default().memory.most());
        let idle_after = Duration::from_millis_f64(idle).filter(|time| *time > Duration::ZERO);
        Ok(DiskConfig {
            places: self.places(place),
            device: place.parsed(&self.device, |text| text.parse())?,
            export: export.unwrap_or_default(),
            name: self.name.into_inner(),
            listen,
            allow_remote: self.allow_remote,
            read_only: self.read_only,
            buffered: self.buffered,
            profile: self.profile.map(Spanned::into_inner),
            policy,
            learning: learning.into(),
            mimic_table: self.mimic_table.map(Spanned::into_inner),
            harm_ppm: (harm * 1e4).round() as u32,
            conservatism: conservatism.and_then(Duration::from_millis_f64),
            extra_revolutions: extra_revolutions
                .is_some_and(|extra_revolutions| *extra_revolutions.get_ref()),
            audit: self.audit.unwrap_or(true),
            probe: self.probe,
            idle_after,
            timeout: Duration::from_secs(timeout),
            record: self.record.map(Spanned::into_inner),
            record_limit,
            ublk,
            background,
            background_write,
            background_floor,
            background_memory,
            background_ublk,
            tls,
        })
    }
}
