//! The differences between an emulated drive and its profile, as written after the drive's name.

use crate::values;
use drive::Behaviour;
use model::{Profile, builtin};
use std::fmt;
use std::path::Path;
use units::Bytes;

/// The behaviour and its seed, as in `,noise,drift=off,seed=7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Differs {
    pub(crate) behaviour: Behaviour,
    pub(crate) seed: u64,
}

/// Describes the behaviour of an emulated drive, with its queue, buffer and bus.
pub(crate) fn in_force(profile: &Profile, behaviour: Behaviour) -> String {
    let described = profile.firmware.as_ref().map(|firmware| {
        format!(": {}", behaviour.described(firmware, Bytes::new(profile.sector_bytes.into())))
    });
    format!("behaviour {behaviour}{}", described.unwrap_or_default())
}

/// Splits a text into a drive's name and the words after it. A comma is part of the name if a file of that name exists,
/// or if the text after the comma is no word: it has a dot before any `=`, or names a directory.
pub(crate) fn parted(text: &str) -> (&str, Vec<&str>) {
    let (mut drive, mut words) = (text, Vec::new());
    while let Some((before, word)) = drive.rsplit_once(',') {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if Path::new(drive).is_file() || name.contains(['.', '/']) {
            break;
        }
        words.push(word);
        drive = before;
    }
    words.reverse();
    (drive, words)
}

/// Returns the error about the words after a drive's name. If the drive is not built in, the error adds that the whole text is
/// not the name of a file.
pub(crate) fn wrong(text: &str, drive: &str, problem: String) -> String {
    if builtin::find(drive).is_ok() {
        return problem;
    }
    let words = text.strip_prefix(drive).unwrap_or_default().trim_start_matches(',');
    format!(
        "{problem} ({text:?} is no file, so that {drive:?} was taken for the drive and {words:?} for switches)"
    )
}

impl Differs {
    /// Reads the words after a drive's name.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let (seeds, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("seed="));
        let seed = seeds.last().and_then(|word| word.strip_prefix("seed="));
        let seed = seed.map(values::seed).transpose().map_err(|mend| format!("seed: {mend}"))?;
        Ok(Self { behaviour: values::behaviour(&words.join(","))?, seed: seed.unwrap_or(1) })
    }

    /// Returns whether the drive behaves as its profile says.
    pub(crate) fn in_nothing(&self) -> bool {
        self.behaviour == Behaviour::default()
    }
}

/// The words that messages add to the drive's name; none if the drive behaves as its profile says.
impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_nothing() {
            return Ok(());
        }
        write!(f, " with {}, seed {}", self.behaviour, self.seed)
    }
}
