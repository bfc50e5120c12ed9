//! The description of a disk's scheduler core, from which an identical core can be made, to replay a recording.

use crate::caution::without_positions;
use crate::mimic::Learning;
use mimic::Learner;
use model::{DriveModel, Profile};
use scheduler::policy::PolicyName;
use scheduler::{AuditConfig, Config, IdleTime, OutsideConfig, OutsideDrive, Overheads};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use units::{Bytes, Duration, Sectors};

/// The step of the distances that a mimic learns: among the steps measured, the one with the smallest deficit to the best step
/// over all drives and loads (docs/MIMIC.md, steps).
const GRAIN: Bytes = Bytes::new(32 << 10);

/// Bounds the cost of a command to a minute. A profile's own times are a second at most each, and a cost is the sum of a few. A
/// core adds the cost to the clock, which must not overflow.
const COST_NS_MAX: u64 = 60_000_000_000;

/// The description of a scheduler core, which is the setup of a recording; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    /// The version of the program: another version may decide differently.
    pub(crate) version: String,
    /// The name of the disk.
    pub(crate) disk: String,
    pub(crate) drive: Knowledge,
    pub(crate) policy: String,
    pub(crate) harm_ppm: u32,
    /// The time that FAST 2002's scheduler adds to each move of a detour; `None` for our own scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) conservatism_ns: Option<u64>,
    /// Whether a request may wait one more revolution for a detour within the bound on harm, and whether the rest of a gap
    /// after a detour is planned as another gap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) extra_revolutions: bool,
    /// Whether the cost of background work is measured, by comparison with windows of time without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) audit: bool,
    /// The idle time after which background work begins; `None`: idle time is not used.
    pub(crate) idle_after_ns: Option<u64>,
    pub(crate) partial_blocks: usize,
    /// The parameters of a mimic; a recording without them was made with the defaults.
    #[serde(default)]
    pub(crate) learning: Learning,
    /// The state of a mimic before the recording: the bytes of its file in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) learnt: Option<String>,
}

/// The knowledge about a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Knowledge {
    /// The text of the drive's profile, and the costs of commands.
    Profile { toml: String, costs: Costs },
    /// Only the drive's size.
    Size { sectors: u64, sector_bytes: u64 },
}

/// [`Overheads`] as a recording contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Costs {
    command_ns: [u64; 2],
    completion_ns: [u64; 2],
    bus_sector_ns: u64,
    shortest_access_ns: u64,
    overlap: bool,
    write_back: bool,
    /// The costs of a write acknowledged from the medium; given only if it is unknown whether the drive caches writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    if_through_ns: Option<[u64; 2]>,
}

impl Costs {
    /// # Errors
    /// The first wrong cost, with the name of its field.
    fn check(&self) -> Result<(), String> {
        let times = [
            ("command_ns", self.command_ns[0].max(self.command_ns[1])),
            ("completion_ns", self.completion_ns[0].max(self.completion_ns[1])),
            ("bus_sector_ns", self.bus_sector_ns),
            ("shortest_access_ns", self.shortest_access_ns),
            ("if_through_ns", self.if_through_ns.map_or(0, |[command, completion]| command.max(completion))),
        ];
        match times.into_iter().find(|(_, ns)| *ns > COST_NS_MAX) {
            Some((field, ns)) => {
                Err(format!("costs.{field}: {ns}; give nanoseconds from 0 to {COST_NS_MAX}"))
            }
            None => Ok(()),
        }
    }
}

impl From<Overheads> for Costs {
    fn from(o: Overheads) -> Self {
        Self {
            command_ns: o.command.map(Duration::as_nanos),
            completion_ns: o.completion.map(Duration::as_nanos),
            bus_sector_ns: o.bus_sector.as_nanos(),
            shortest_access_ns: o.shortest_access.as_nanos(),
            overlap: o.overlap,
            write_back: o.write_back,
            if_through_ns: o.if_through.map(|costs| costs.map(Duration::as_nanos)),
        }
    }
}

impl From<Costs> for Overheads {
    fn from(c: Costs) -> Self {
        Self::default()
            .with_command(c.command_ns.map(Duration::from_nanos))
            .with_completion(c.completion_ns.map(Duration::from_nanos))
            .with_bus_sector(Duration::from_nanos(c.bus_sector_ns))
            .with_shortest_access(Duration::from_nanos(c.shortest_access_ns))
            .with_overlap(c.overlap)
            .with_write_back(c.write_back)
            .with_if_through(c.if_through_ns.map(|costs| costs.map(Duration::from_nanos)))
    }
}

/// The parts that a recipe makes: a core and its mimic.
pub(crate) struct Made {
    pub(crate) model: Arc<DriveModel>,
    pub(crate) config: Config,
    /// The mimic, for a policy that uses one.
    pub(crate) mimic: Option<Box<Learner>>,
}

impl Knowledge {
    /// Returns the default policy of a disk: SPTF with a profile; without one SMTF, which learns.
    pub(crate) fn policy(&self) -> PolicyName {
        match self {
            Self::Profile { .. } => PolicyName::Sptf,
            Self::Size { .. } => PolicyName::Smtf(Default::default()),
        }
    }
}

impl Recipe {
    /// Reads a recording's setup.
    ///
    /// # Errors
    /// The JSON is no setup.
    pub(crate) fn from_setup(setup: &serde_json::Value) -> Result<Self, String> {
        Self::deserialize(setup).map_err(|error| error.to_string())
    }

    /// Returns the seed of the time windows without background work: each disk's own, so that not all pause at once.
    fn audit_seed(&self) -> u64 {
        self.disk.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }

    /// Makes the parts of the core.
    ///
    /// # Errors
    /// The mistake, and its field.
    pub(crate) fn make(&self) -> Result<Made, String> {
        let (model, outside) = match &self.drive {
            Knowledge::Profile { toml, costs } => {
                let profile = Profile::from_toml(toml, "its profile").map_err(|e| e.to_string())?;
                let model = DriveModel::from_profile(&profile).map_err(|e| e.to_string())?;
                costs.check()?;
                let overheads = (*costs).into();
                let beyond = OutsideConfig::beyond(overheads).serving();
                let paper = |ns| OutsideConfig::paper(overheads, Duration::from_nanos(ns));
                (model, self.conservatism_ns.map_or(beyond, paper))
            }
            Knowledge::Size { sectors, sector_bytes } => {
                let model = DriveModel::unknown(Sectors::new(*sectors), Bytes::new(*sector_bytes));
                (model.map_err(|e| e.to_string())?, OutsideConfig::blind().serving())
            }
        };
        let policy: PolicyName =
            self.policy.parse().map_err(|e: scheduler::policy::UnknownPolicy| e.to_string())?;
        let threshold = self.idle_after_ns.map(Duration::from_nanos);
        let idle = threshold
            .map(|threshold| IdleTime::default().with_threshold(threshold).with_harm_ppm(self.harm_ppm));
        let config = Config::default()
            .with_policy(policy)
            .with_idle(idle)
            .with_outside(
                outside
                    .with_harm_ppm(Some(self.harm_ppm))
                    .with_plan_rest(self.extra_revolutions)
                    .with_extra_revolutions(self.extra_revolutions)
                    .with_audit(self.audit.then(|| AuditConfig::new(self.audit_seed()))),
            )
            .with_most_partials(self.partial_blocks);
        let mimic = match policy {
            PolicyName::Smtf(_) => {
                let learns = self.learning.config(model.layout().capacity(), grain(model.sector_bytes()));
                let learner = match &self.learnt {
                    None => Learner::new(learns, None).map_err(|e| e.to_string())?,
                    Some(digits) => {
                        let bytes = unhex(digits)
                            .ok_or("learnt: the value has characters that are no hexadecimal digits")?;
                        Learner::load(learns, &self.disk, &bytes).map_err(|e| e.to_string())?
                    }
                };
                Some(Box::new(learner))
            }
            _ => None,
        };
        Ok(Made { model: Arc::new(model), config, mimic })
    }

    /// Returns a remark for the user if the policy cannot do what its name says, because the drive has no profile.
    pub(crate) fn remark(&self) -> Option<String> {
        let known = matches!(self.drive, Knowledge::Profile { .. });
        self.policy.parse().ok().filter(|_| !known).and_then(without_positions)
    }

    /// Makes a core identical to that of the disk.
    ///
    /// # Errors
    /// The mistake, and its field.
    pub(crate) fn core(&self) -> Result<OutsideDrive, String> {
        let Made { model, config, mimic } = self.make()?;
        let mut core = OutsideDrive::try_new(model, config).map_err(|e| e.to_string())?;
        core.set_mimic(mimic.map(|learner| learner as _));
        Ok(core)
    }
}

/// Returns [`GRAIN`] in sectors.
fn grain(sector: Bytes) -> Sectors {
    Sectors::new((GRAIN.get() / sector.get().max(1)).max(1))
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|n| n as u8);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    rest.is_empty().then(|| bytes.collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_as_it_is_written() {
        for policy in
            ["fcfs", "c-look", "sstf", "sptf", "sptf-sw:130", "sptf-sw:62.5", "smtf", "smtf:set:sstf"]
        {
            let name: PolicyName = policy.parse().unwrap();
            assert_eq!(name.to_string().parse(), Ok(name), "{policy}");
        }
    }

    #[test]
    fn a_step_is_as_many_bytes_whatever_a_sector_has() {
        let grains = [512, 4_096, 1 << 20].map(|sector| grain(Bytes::new(sector)).get());
        assert_eq!(grains, [64, 8, 1]);
    }

    #[test]
    fn bytes_come_back_from_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!((unhex("0"), unhex("0g"), unhex("")), (None, None, Some(Vec::new())));
    }

    #[test]
    fn a_recipe_is_the_same_after_it_was_written() {
        let mut profile = model::builtin::find("quantum-atlas-10k").unwrap();
        let cache = profile.firmware.as_mut().map(|firmware| &mut firmware.cache).unwrap();
        cache.write_back = model::profile::WriteBack::Unknown;
        let model = DriveModel::from_profile(&profile).unwrap();
        let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &model, true);
        let recipe = Recipe {
            version: "1".into(),
            disk: "d0".into(),
            drive: Knowledge::Profile { toml: profile.to_toml(), costs: overheads.into() },
            policy: "smtf".into(),
            harm_ppm: 5,
            conservatism_ns: None,
            extra_revolutions: false,
            audit: false,
            idle_after_ns: None,
            partial_blocks: 7,
            learning: Learning::default(),
            learnt: None,
        };
        let again: Recipe = serde_json::from_str(&serde_json::to_string(&recipe).unwrap()).unwrap();
        assert_eq!(again, recipe);
        let Made { config, mimic, .. } = again.make().unwrap();
        let outside = config.outside;
        assert_eq!((outside.overheads, outside.harm_ppm, config.idle), (overheads, Some(5), None));
        assert!(mimic.is_some() && config.most_partials == 7);
        let drive = Knowledge::Size { sectors: 100, sector_bytes: 512 };
        let of = |policy: &str| Recipe { policy: policy.into(), ..recipe.clone() };
        let by_size = |policy| Recipe { drive: drive.clone(), ..of(policy) }.remark();
        assert_eq!((of("sptf").remark(), by_size("smtf"), by_size("sstf")), (None, None, None));
        assert!(
            by_size("sptf-sw:60")
                .is_some_and(|remark| remark.contains("sptf-sw:60 knows no positions and uses LBN distance"))
        );
        let papers = Recipe { conservatism_ns: Some(300_000), extra_revolutions: true, ..recipe.clone() };
        let again: Recipe = serde_json::from_str(&serde_json::to_string(&papers).unwrap()).unwrap();
        let outside = again.make().unwrap().config.outside;
        let margin = Duration::from_micros(300);
        assert_eq!(
            outside,
            OutsideConfig::paper(overheads, margin)
                .with_harm_ppm(Some(5))
                .with_plan_rest(true)
                .with_extra_revolutions(true)
        );
        let wrong = Recipe { policy: "best".into(), ..recipe.clone() };
        assert!(wrong.core().is_err_and(|why| why.contains("best")));
        let costs = Costs { completion_ns: [0, u64::MAX], ..overheads.into() };
        let drive = Knowledge::Profile { toml: profile.to_toml(), costs };
        let wrong = Recipe { drive, ..recipe };
        assert!(
            wrong.core().is_err_and(|why| why.starts_with("costs.completion_ns: 18446744073709551615; give"))
        );
    }
}
