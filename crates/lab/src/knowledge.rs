//! The drives of experiments with a scheduler outside the drive, and the kinds of knowledge that it has about each.

use crate::set_up::{self, ATLAS_10K, CHEETAH_18LP};
use crate::{Lab, LabError};
use drive::{Behaviour, BlackBox, Drive, NotDone, Rules, Waiting};
use model::{DriveModel, Position, Profile, builtin};
use probe::{DeviceError, Timed};
use scheduler::{OutsideConfig, Overheads};
use sim::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{Bytes, Cylinder, Head, Instant, Lbn, LbnRange, Op, Sectors};

/// A built-in drive: its name in figures, and the name of its profile.
pub type Named = (&'static str, &'static str);

/// The drives of FAST'02's measurements. The paper's claims are about the first unless they say otherwise; our
/// profile of the second is synthetic.
pub const DRIVES: [Named; 2] = [("Atlas 10K", ATLAS_10K), ("Cheetah 18LP", CHEETAH_18LP)];

/// The drive of the paper's claims.
pub const ATLAS: Named = DRIVES[0];

/// The source of the knowledge about a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The drive's true profile.
    True,
    /// The profile that a probe by reads alone found, taken for the truth.
    AsItIs,
    /// The profile that a probe by reads alone found, with moves corrected by completions, and some gaps left unused
    /// as a control.
    Probed,
    /// The profile that a probe by reads and by writes anywhere found, with the corrections and the control of
    /// `Probed`.
    Written,
}

impl Knowledge {
    /// The kinds of knowledge that each figure shows for each drive.
    pub const FIGURES: [Self; 2] = [Self::True, Self::Probed];

    /// All kinds of knowledge.
    pub const ALL: [Self; 4] = [Self::True, Self::AsItIs, Self::Probed, Self::Written];

    /// Returns the name of the knowledge in the label of a curve.
    pub const fn name(self) -> &'static str {
        match self {
            Self::True => "true profile",
            Self::AsItIs => "probed, as it is",
            Self::Probed => "probed",
            Self::Written => "probed, writes allowed",
        }
    }

    /// Returns whether the probe was permitted to write; `None` without a probe.
    const fn probe(self) -> Option<bool> {
        match self {
            Self::True => None,
            Self::AsItIs | Self::Probed => Some(false),
            Self::Written => Some(true),
        }
    }
}

/// A drive, and the knowledge of a scheduler outside about it.
#[derive(Clone, Debug)]
pub struct KnownDrive {
    /// The drive's name in figures.
    pub drive: &'static str,
    /// The source of the knowledge.
    pub knowledge: Knowledge,
    profile: Arc<Profile>,
    /// The true model.
    pub truth: Arc<DriveModel>,
    /// The scheduler's model.
    pub known: Arc<DriveModel>,
    /// The costs of commands, if they were measured; otherwise those of the true profile are used.
    overheads: Option<Overheads>,
}

/// Returns each of the drives with each of these kinds of knowledge, by drive; each drive is probed once with writes
/// and once without. The quick size probes the default black box [without its noise](exact_but_for_the_bus), the full
/// size probes it with noise.
///
/// # Errors
/// A drive cannot be made or probed.
pub fn all(lab: &Lab, knowledge: &[Knowledge]) -> Result<Vec<KnownDrive>, LabError> {
    let noise = lab.pick(exact_but_for_the_bus(), Behaviour::fast02());
    let mut ways: Vec<Option<bool>> = knowledge.iter().map(|k| k.probe()).collect();
    ways.sort_unstable();
    ways.dedup();
    let pairs = DRIVES.iter().flat_map(|&drive| ways.iter().map(move |&way| (drive, way)));
    let known_drives = lab.map(pairs, |(drive, way)| match way {
        None => KnownDrive::truth(drive),
        Some(writes) => KnownDrive::probed(drive, noise, writes, lab.seed()),
    })?;
    let of_drive = |known_drives: &[KnownDrive]| {
        let with = |&knowledge: &Knowledge| {
            let found = ways.iter().zip(known_drives).find(|(way, _)| **way == knowledge.probe());
            found.map(|(_, known_drive)| KnownDrive { knowledge, ..known_drive.clone() })
        };
        knowledge.iter().filter_map(with).collect::<Vec<_>>()
    };
    Ok(known_drives.chunks(ways.len().max(1)).flat_map(of_drive).collect())
}

impl KnownDrive {
    /// Returns a built-in drive with its true profile.
    ///
    /// # Errors
    /// No built-in drive has this name.
    pub fn truth((drive, name): Named) -> Result<Self, LabError> {
        let failed = |e| LabError::new(format!("drive {name}"), e);
        let profile = Arc::new(builtin::find(name).map_err(failed)?);
        let truth = set_up::drive(name)?;
        let knowledge = Knowledge::True;
        Ok(Self { drive, knowledge, profile, known: Arc::clone(&truth), truth, overheads: None })
    }

    /// Returns the result of `freeblock probe` for a built-in drive with this behaviour, from timed commands alone:
    /// reads, and writes if permitted. Settings of the host count as known: command queueing, the write cache.
    ///
    /// # Errors
    /// No built-in drive has this name, or it cannot be probed.
    pub fn probed(named: Named, behaviour: Behaviour, writes: bool, seed: u64) -> Result<Self, LabError> {
        let failed =
            |e: Box<dyn std::error::Error + Send + Sync>| LabError::new(format!("probing {}", named.1), e);
        let known_drive = Self::truth(named)?;
        let drive = Drive::with_behaviour(&known_drive.profile, Rules::HARDWARE, behaviour, seed);
        let mut device = Handle { host: Waiting::new(drive.map_err(|e| failed(e.into()))?) };
        let all = LbnRange::new(Lbn::new(0), BlackBox::capacity(device.host.drive()));
        let options = probe::Options { seed, name: "probed".into(), writes: writes.then_some(all) };
        let found = probe::Probe::new(options)
            .run(&mut device, &mut |_| ControlFlow::Continue(()))
            .map_err(|e| failed(e.into()))?;
        let known = DriveModel::from_profile(&found.profile).map_err(|e| failed(e.into()))?;
        let firmware = found.profile.firmware.as_ref();
        // A probe that only reads cannot find out whether the drive writes back; the host itself has switched
        // write-back on or off.
        let writes_back = known_drive
            .profile
            .firmware
            .as_ref()
            .is_some_and(|firmware| behaviour.writes_back(&firmware.cache));
        let overheads = firmware
            .map(|firmware| Overheads::of(firmware, &known, true).writing_back(firmware, writes_back));
        let knowledge = if writes { Knowledge::Written } else { Knowledge::Probed };
        Ok(Self { knowledge, known: Arc::new(known), overheads, ..known_drive })
    }

    /// Returns the drive's name in figures, with the kind of knowledge unless that is the true profile.
    pub fn label(&self) -> String {
        match self.knowledge {
            Knowledge::True => self.drive.to_owned(),
            other => format!("{}, {}", self.drive, other.name()),
        }
    }

    /// Returns whether the paper's claims are about this drive and knowledge: the Atlas 10K by its true profile.
    pub fn is_the_papers(&self) -> bool {
        self.drive == ATLAS.0 && self.knowledge == Knowledge::True
    }

    /// Returns the number of seeds: the first number for the drive and knowledge of the paper's claims, otherwise the
    /// second.
    pub fn seeds(&self, (papers, others): (u64, u64)) -> u64 {
        if self.is_the_papers() { papers } else { others }
    }

    /// Returns the id of the drive's figure: the id of the paper's figure, with a suffix for other drives or
    /// knowledge.
    pub fn figure(&self, papers: &str) -> String {
        if self.is_the_papers() {
            return papers.to_owned();
        }
        let of: Vec<String> =
            self.label().split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        format!("{papers}-{}", of.join("-"))
    }

    /// Returns the drive, and the costs of its commands as far as known.
    ///
    /// # Errors
    /// The behaviour is invalid.
    pub fn black_box(&self, behaviour: Behaviour, seed: u64) -> Result<(Drive, Overheads), LabError> {
        let (drive, overheads) =
            black_box(&self.profile, behaviour, seed).map_err(|e| LabError::new("a black box", e))?;
        // Overlap and write-back are settings of the host, which knows them.
        let Overheads { overlap, write_back, .. } = overheads;
        Ok((drive, self.overheads.map_or(overheads, |o| o.with_overlap(overlap).with_write_back(write_back))))
    }

    /// Returns the configuration of a scheduler that corrects this knowledge by completions, or takes it for the
    /// truth.
    pub const fn believed(&self, config: OutsideConfig) -> OutsideConfig {
        match self.knowledge {
            Knowledge::True => config,
            Knowledge::AsItIs => config.with_correct_moves(false),
            Knowledge::Probed | Knowledge::Written => config.with_correct_moves(true).with_control_gaps(true),
        }
    }
}

/// Describes by how much moves are longer by the true profiles than by the probed ones, and why.
pub fn differences<'t>(known_drives: impl Iterator<Item = &'t KnownDrive>) -> String {
    let of = |known_drive: &KnownDrive| {
        let longer = |op| move_ms(&known_drive.truth, op) - move_ms(&known_drive.known, op);
        let [switch, found] = [&known_drive.truth, &known_drive.known].map(|drive| switch_ms(drive));
        format!(
            "{} {:.2} ms and {:.2} ms, and a change of head alone takes {switch:.2} ms, not {found:.2} ms",
            known_drive.label(),
            longer(Op::Read),
            longer(Op::Write)
        )
    };
    // The profile of `AsItIs` is that of `Probed`, and is described once.
    let probed = known_drives
        .filter(|known_drive| matches!(known_drive.knowledge, Knowledge::Probed | Knowledge::Written));
    format!(
        "By the true profile a move over a third of the drive takes longer, to read and to write: {}.",
        probed.map(of).collect::<Vec<_>>().join("; ")
    )
}

/// Returns the time of a head switch within a cylinder.
fn switch_ms(drive: &DriveModel) -> f64 {
    let to = Position { head: Head::new(1), ..Position::default() };
    drive.move_time(Position::default(), to, Op::Read).as_nanos() as f64 / 1e6
}

/// Returns the time of a move over a third of the drive.
fn move_ms(drive: &DriveModel, op: Op) -> f64 {
    let to = Position { cylinder: Cylinder::new(drive.layout().cylinders() / 3), ..Position::default() };
    drive.move_time(Position::default(), to, op).as_nanos() as f64 / 1e6
}

/// Returns the behaviour of the default black box without its random variation.
fn exact_but_for_the_bus() -> Behaviour {
    let noisy = Behaviour::fast02();
    let Behaviour { queue, bus_sector, write_back, .. } = noisy;
    Behaviour { queue, bus_sector, write_back, ..Behaviour::default() }
}

/// A drive as a probe sees it: one command at a time, or two if the drive queues commands.
struct Handle {
    host: Waiting,
}

impl Handle {
    fn carry_out<const N: usize>(
        &mut self,
        at: Instant,
        of: [(Op, LbnRange); N],
    ) -> Result<[Timed; N], DeviceError> {
        let times = self.host.carry_out(at, of).map_err(|NotDone { op, range, why }| DeviceError {
            op,
            range,
            unreadable: why.unreadable(),
            reason: why.to_string(),
            mend: "mend the simulation".to_owned(),
        })?;
        Ok(times.map(|(submitted, completed)| Timed { submitted, completed }))
    }
}

impl probe::ProbedDevice for Handle {
    fn capacity(&self) -> Sectors {
        BlackBox::capacity(self.host.drive())
    }

    fn sector_bytes(&self) -> Bytes {
        BlackBox::sector_bytes(self.host.drive())
    }

    fn now(&self) -> Instant {
        self.host.now()
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        self.carry_out(at, [(op, range)]).map(|[timed]| timed)
    }

    fn takes_two(&self) -> bool {
        self.host.drive().queue_depth() > 1
    }

    fn execute_two(&mut self, at: Instant, two: [(Op, LbnRange); 2]) -> Result<[Timed; 2], DeviceError> {
        self.carry_out(at, two)
    }
}
