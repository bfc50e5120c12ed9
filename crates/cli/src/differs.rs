//! In what an emulated drive differs from its profile, as it stands behind the drive's name.

use crate::values;
use drive::Behaviour;
use std::fmt;

/// `,noise,drift=off,seed=7`: its behaviour, and the seed of what is chance in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Differs {
    pub(crate) behaviour: Behaviour,
    pub(crate) seed: u64,
}

impl Differs {
    /// What the words say that stand behind a name.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let (seeds, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("seed="));
        let seed = seeds.last().and_then(|word| word.strip_prefix("seed="));
        let seed = seed.map(values::seed).transpose().map_err(|mend| format!("seed: {mend}"))?;
        Ok(Self { behaviour: values::behaviour(&words.join(","))?, seed: seed.unwrap_or(1) })
    }

    /// Whether it is as its profile says.
    pub(crate) fn in_nothing(&self) -> bool {
        self.behaviour == Behaviour::default()
    }
}

/// Behind the drive's name.
impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_nothing() {
            return Ok(());
        }
        write!(f, " with {}, seed {}", self.behaviour, self.seed)
    }
}
