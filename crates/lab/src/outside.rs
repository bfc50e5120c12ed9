//! FAST'02, section 5.3: transactions on a busy drive, and a scan in their gaps, scheduled outside the drive or in it.

use crate::set_up::{self, ATLAS_10K};
use crate::{LabError, Spread, spread};
use drive::{Behaviour, BlackBox, Drive, Queue, Rules};
use model::{DriveModel, Profile, builtin};
use probe::{DeviceError, Timed};
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{Config, OutsideConfig, Overheads, Place};
use sim::{Background, Inside, Nothing, Outside, Report, black_box};
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, LbnRange, Op, RequestId, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

/// The paper's multiprogramming level.
pub const MPL: u32 = 10;

/// Sectors of 512 bytes in the scan's block of 4 KB.
const BLOCK: Sectors = Sectors::new(8);

/// The three foreground schedulers of the paper.
pub const POLICIES: [(PolicyName, &str); 3] = [
    (PolicyName::Sptf, "SPTF"),
    (PolicyName::SptfSw(SeekWeight::percent(60)), "SPTF-SW60%"),
    (PolicyName::Sstf, "SSTF"),
];

/// How the foreground is scheduled, and what is done in its gaps.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The foreground's policy.
    pub policy: PolicyName,
    /// In what the drive differs from its profile.
    pub behaviour: Behaviour,
    /// The scheduler outside, told what commands cost; `None` for the one in the drive.
    pub outside: Option<fn(Overheads, Duration) -> OutsideConfig>,
    /// Its conservatism.
    pub conservatism: Duration,
    /// Whether nobody thinks: as many requests at all times as there are tasks.
    pub restless: bool,
    /// Whether there is a scan.
    pub scan: bool,
    /// The run ends after so many requests, a scan's at its end if that comes sooner.
    pub requests: u64,
}

/// What a scheduler outside is told of a drive.
#[derive(Clone, Debug)]
pub struct Told {
    profile: Arc<Profile>,
    /// The drive as it is.
    pub truth: Arc<DriveModel>,
    /// What the scheduler believes.
    pub known: Arc<DriveModel>,
    /// What commands cost, if that was measured; otherwise what the true profile says.
    overheads: Option<Overheads>,
}

impl Told {
    /// The true profile of a built-in drive.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn truth(name: &str) -> Result<Self, LabError> {
        let failed = |e| LabError::new(format!("drive {name}"), e);
        let profile = Arc::new(builtin::find(name).map_err(failed)?);
        let truth = set_up::drive(name)?;
        Ok(Self { profile, known: Arc::clone(&truth), truth, overheads: None })
    }

    /// What `freeblock probe` finds out about a built-in drive that behaves so, from timed reads and nothing else. Only
    /// what the host sets itself is taken as known: command queueing on, write cache off.
    ///
    /// # Errors
    /// There is no drive of this name, or nothing could be made of it.
    pub fn probed(name: &str, behaviour: Behaviour, seed: u64) -> Result<Self, LabError> {
        let failed =
            |e: Box<dyn std::error::Error + Send + Sync>| LabError::new(format!("probing {name}"), e);
        let told = Self::truth(name)?;
        let drive = Drive::with_behaviour(&told.profile, Rules::HARDWARE, behaviour, seed);
        let mut device = Handle { drive: drive.map_err(|e| failed(e.into()))?, now: Instant::ZERO, sent: 0 };
        let options = probe::Options { seed, name: "probed".into(), ..probe::Options::default() };
        let found = probe::Probe::new(options)
            .run(&mut device, &mut |_| ControlFlow::Continue(()))
            .map_err(|e| failed(e.into()))?;
        let known = DriveModel::from_profile(&found.profile).map_err(|e| failed(e.into()))?;
        let firmware = found.profile.firmware.as_ref();
        let overheads = firmware.map(|firmware| Overheads {
            write_back: false,
            ..Overheads::of(firmware, &known, behaviour.queue != Queue::Serial)
        });
        Ok(Self { known: Arc::new(known), overheads, ..told })
    }

    /// The drive, and what its commands cost as far as is known.
    ///
    /// # Errors
    /// A behaviour of no drive.
    pub fn black_box(&self, behaviour: Behaviour, seed: u64) -> Result<(Drive, Overheads), LabError> {
        let (drive, overheads) =
            black_box(&self.profile, behaviour, seed).map_err(|e| LabError::new("a black box", e))?;
        Ok((drive, self.overheads.unwrap_or(overheads)))
    }
}

/// A drive as a probe meets it: one command at a time.
struct Handle {
    drive: Drive,
    now: Instant,
    sent: u64,
}

impl probe::Device for Handle {
    fn capacity(&self) -> Sectors {
        BlackBox::capacity(&self.drive)
    }

    fn sector_bytes(&self) -> Bytes {
        BlackBox::sector_bytes(&self.drive)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let failed = |reason: String| DeviceError { op, range, reason, mend: "mend the simulation".into() };
        let submitted = at.max(self.now);
        let id = RequestId::new(self.sent);
        self.sent += 1;
        let command = drive::Command { id, op, range };
        self.drive.submit(submitted, command).map_err(|e| failed(e.to_string()))?;
        loop {
            let at = self.drive.next_event().ok_or_else(|| failed("no completion is to come".into()))?;
            self.drive.advance(at);
            if let Some(done) = self.drive.pop_completion() {
                self.now = done.at;
                return Ok(Timed { submitted, completed: done.at });
            }
        }
    }
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The report.
    pub report: Report,
    /// Of all commands, those done within 50 us of the prediction, in percent.
    pub foreseen: f64,
    /// What detours that were back too late cost the foreground at most, in percent of its time.
    pub harm: f64,
}

impl Measured {
    /// The scan's bandwidth, in millions of bytes a second.
    pub fn mb_per_s(&self) -> f64 {
        self.report.background.mb_per_s
    }

    /// The foreground's mean response time.
    pub fn response_ms(&self) -> f64 {
        self.report.foreground.mean_response_ms
    }
}

/// An ideal drive for commands: exact, two at a time, nothing read ahead, no time but the medium's.
pub fn exact() -> Behaviour {
    Behaviour {
        queue: Behaviour::noisy().queue,
        read_ahead: Some(false),
        write_back: Some(false),
        ..noiseless_bus()
    }
}

fn noiseless_bus() -> Behaviour {
    Behaviour { bus_sector: Behaviour::noisy().bus_sector, ..Behaviour::default() }
}

impl Trial {
    /// The paper's scheduler over the black box with its default noise, with a scan.
    pub fn paper(policy: PolicyName, conservatism: Duration, requests: u64) -> Self {
        Self {
            policy,
            behaviour: Behaviour::noisy(),
            outside: Some(OutsideConfig::paper),
            conservatism,
            restless: false,
            scan: true,
            requests,
        }
    }

    /// Runs it on an Atlas 10K whose profile is known.
    ///
    /// # Errors
    /// A load or a scan that the drive cannot have.
    pub fn run(&self, seed: u64) -> Result<Measured, LabError> {
        self.run_told(&Told::truth(ATLAS_10K)?, seed)
    }

    /// Runs it on a drive of which so much is known.
    ///
    /// # Errors
    /// A load or a scan that the drive cannot have.
    pub fn run_told(&self, told: &Told, seed: u64) -> Result<Measured, LabError> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
        let model = Arc::clone(&told.truth);
        let load = OltpConfig::new(model.layout().capacity(), model.sector_bytes());
        let load = Oltp::new(load, seed).map_err(|e| failed(e.into()))?;
        let arrival = if self.restless { Arrival::outstanding(MPL) } else { Arrival::oltp(MPL) };
        let foreground = Issuer::new(load, arrival, Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
        let scan = if self.scan { Background::Scan { block: BLOCK } } else { Background::None };
        let config = Config { policy: self.policy, ..Config::default() };
        let Some(outside) = self.outside else {
            let mut run = Inside::new(model, config, foreground, scan).map_err(|e| failed(e.into()))?;
            run.advance_scan(self.requests, &mut Nothing).map_err(|e| failed(e.into()))?;
            return Ok(Measured { report: run.report(), foreseen: 100.0, harm: 0.0 });
        };
        let (drive, overheads) = told.black_box(self.behaviour, seed)?;
        let place = Place::Outside(outside(overheads, self.conservatism));
        let config = Config { place, ..config };
        let known = Arc::clone(&told.known);
        let mut run = Outside::new(drive, known, config, foreground, scan).map_err(|e| failed(e.into()))?;
        run.advance_scan(self.requests, &mut Nothing).map_err(|e| failed(e.into()))?;
        let foreseen = run.prediction_errors().map_or(0.0, |e| e.within(Duration::from_micros(50)) * 100.0);
        let harm = run.core_mut().detour_harm().map_or(0.0, |harm| harm.share() * 100.0);
        Ok(Measured { report: run.report(), foreseen, harm })
    }
}

/// By how many percent the foreground's responses are longer than without a scan, seed by seed.
pub fn slower(with: &[Measured], without: &[Measured]) -> Spread {
    let pairs: Vec<(f64, f64)> =
        with.iter().zip(without).map(|(a, b)| (a.response_ms(), b.response_ms())).collect();
    spread(&pairs, |(with, without)| (with / without - 1.0) * 100.0)
}

/// One as percent of the other, seed by seed.
pub fn percent_of(part: &[Measured], whole: &[Measured], of: fn(&Measured) -> f64) -> Spread {
    let pairs: Vec<(f64, f64)> = part.iter().zip(whole).map(|(a, b)| (of(a), of(b))).collect();
    spread(&pairs, |(part, whole)| 100.0 * part / whole)
}

/// Milliseconds, in hundredths.
pub const fn hundredths(ms: u64) -> Duration {
    Duration::from_micros(ms * 10)
}
