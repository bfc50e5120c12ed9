//! The settings of the page's controls.

use model::builtin;
use scheduler::policy::PolicyName;
use serde_json::Value;

/// The lowest and the highest speed that may be asked for, as multiples of real time.
const SPEED_FACTOR_MIN: f64 = 1.0 / 16.0;
const SPEED_FACTOR_MAX: f64 = 16_384.0;
/// The largest number of tasks or outstanding requests of the load: more would only lengthen the queue.
const TASKS_MAX: u32 = 30;
/// The policies that the page offers: those that need no parameter and no table.
pub(crate) const POLICIES: [&str; 6] = ["fcfs", "c-look", "look", "scan", "sstf", "sptf"];
/// The loads that the page offers.
pub(crate) const LOADS: [Load; 2] = [Load::Oltp, Load::Random];

/// A load of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Tasks of transactions, with think time: `freeblock simulate --workload oltp --mpl N`.
    Oltp,
    /// Requests of 4 KB at random addresses, a constant number of them outstanding: `--workload random --mpl N`.
    Random,
}

impl Load {
    /// Returns the name of the load, as in `--workload`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oltp => "oltp",
            Self::Random => "random",
        }
    }

    /// Returns the name of the load for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Oltp => "transactions (OLTP) with 30 ms of think time",
            Self::Random => "requests of 4 KB at random places, without think time",
        }
    }
}

/// The settings of a demo: a drive, a load, a policy and a seed, and the speed of the simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The name of a built-in drive or of the caller's own.
    pub drive: String,
    /// The load.
    pub load: Load,
    /// The number of tasks of the load, or of its outstanding requests.
    pub tasks: u32,
    /// The policy of the foreground.
    pub policy: PolicyName,
    /// The seed of everything random.
    pub seed: u64,
    /// The speed as a multiple of real time.
    pub speed: f64,
}

/// The settings of `freeblock demo`, at the speed of real time.
impl Default for Asked {
    fn default() -> Self {
        let (load, policy) = (Load::Oltp, PolicyName::Fcfs);
        Self { drive: crate::DRIVE.into(), load, tasks: 10, policy, seed: 42, speed: 1.0 }
    }
}

impl Asked {
    /// Returns these settings after a change: a JSON object with some of `drive`, `load`, `tasks`, `policy`, `seed` and
    /// `speed`. `own` is the name of the caller's own drive.
    ///
    /// # Errors
    /// An unknown field, or a value that the field cannot have; the text names those that it can have.
    ///
    /// ```
    /// use freeblock_demo::Asked;
    /// let asked = Asked::default().changed(&serde_json::json!({ "policy": "sptf", "speed": 64 }), None)?;
    /// assert_eq!((asked.policy.to_string(), asked.speed), ("sptf".to_owned(), 64.0));
    /// # Ok::<(), String>(())
    /// ```
    pub fn changed(mut self, by: &Value, own: Option<&str>) -> Result<Self, String> {
        let Some(by) = by.as_object() else { return Err("give an object, as {\"speed\":2}".into()) };
        for (field, value) in by {
            let one_of = |names: &[&str]| format!("{field}: {value}; give one of {}", names.join(", "));
            let text = value.as_str().unwrap_or_default();
            match field.as_str() {
                "drive" => {
                    let known = builtin::names().contains(&text) || own == Some(text);
                    self.drive = known.then(|| text.to_owned()).ok_or_else(|| one_of(builtin::names()))?;
                }
                "load" => {
                    let found = LOADS.into_iter().find(|load| load.name() == text);
                    self.load = found.ok_or_else(|| one_of(&LOADS.map(Load::name)))?;
                }
                "tasks" => {
                    let tasks = value.as_u64().and_then(|tasks| u32::try_from(tasks).ok());
                    self.tasks = tasks.filter(|tasks| (1..=TASKS_MAX).contains(tasks)).ok_or_else(|| {
                        format!("tasks: {value}; give a whole number from 1 to {TASKS_MAX}")
                    })?;
                }
                "policy" => {
                    let found = POLICIES.contains(&text).then(|| text.parse().ok()).flatten();
                    self.policy = found.ok_or_else(|| one_of(&POLICIES))?;
                }
                "seed" => {
                    let seed = value.as_u64().or_else(|| text.parse().ok());
                    self.seed = seed.ok_or_else(|| {
                        format!("seed: {value}; give a whole number from 0 to {}", u64::MAX)
                    })?;
                }
                "speed" => {
                    let fits =
                        value.as_f64().filter(|speed| (SPEED_FACTOR_MIN..=SPEED_FACTOR_MAX).contains(speed));
                    self.speed = fits.ok_or_else(|| {
                        format!("speed: {value}; give {SPEED_FACTOR_MIN} to {SPEED_FACTOR_MAX}")
                    })?;
                }
                other => {
                    return Err(format!(
                        "{other:?} is no control; give drive, load, tasks, policy, seed or speed"
                    ));
                }
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn controls_are_bounded_and_a_wrong_one_names_the_mend() {
        let asked = Asked::default();
        let all = json!({ "drive": "own.toml", "load": "random", "tasks": 3, "policy": "look", "seed": "18446744073709551615", "speed": 4.0 });
        let changed = asked.clone().changed(&all, Some("own.toml")).unwrap();
        let (load, policy) = (Load::Random, PolicyName::Look);
        let drive = "own.toml".to_owned();
        assert_eq!(changed, Asked { drive, load, tasks: 3, policy, seed: u64::MAX, speed: 4.0 });
        for (wrong, mend) in [
            (json!({ "speed": 0.0 }), "speed: 0.0; give 0.0625 to 16384"),
            (json!({ "speed": "fast" }), "give 0.0625 to 16384"),
            (json!({ "tasks": 31 }), "tasks: 31; give a whole number from 1 to 30"),
            (json!({ "tasks": 1.5 }), "give a whole number"),
            (json!({ "drive": "own.toml" }), "give one of quantum-atlas-10k"),
            (json!({ "load": 7 }), "load: 7; give one of oltp, random"),
            (json!({ "policy": "asptf:6" }), "give one of fcfs"),
            (json!({ "seed": -1 }), "seed: -1; give a whole number"),
            (json!({ "sed": 1 }), "is no control; give drive"),
            (json!([]), "give an object"),
        ] {
            let error = asked.clone().changed(&wrong, None).unwrap_err();
            assert!(error.contains(mend), "{error}");
        }
    }

    #[test]
    fn every_policy_that_is_offered_has_its_own_name() {
        for name in POLICIES {
            assert_eq!(name.parse::<PolicyName>().unwrap().to_string(), name);
        }
    }
}
