//! A disk of which only the size is known is probed on virtual time while it is served, and then uses gaps.

use super::recording::Memory;
use super::serving::Serving;
use drive::{Behaviour, Queue, QueueOrder};
use model::{DriveModel, Profile, builtin};
use probe::{DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, Timed};
use scheduler::{
    Adoption, Application, AuditConfig, Config, IdleTime, OutsideConfig, OutsideDrive, Overheads, Parameter,
    Priority, Record, Sessions,
};
use server::{CoreReplay, DiskHooks, Reading, ReadingResult, Recorder};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use units::{Bytes, Instant, Lbn, LbnRange, Op, Sectors};

/// A scan that counts its blocks.
#[derive(Default)]
pub struct CountingScan {
    blocks: u64,
}

impl DiskHooks for CountingScan {}

impl Application for CountingScan {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {
        self.blocks += 1;
    }
}

/// Returns a disk of which only the size is known, and which allows the probe's readings.
fn unprobed(profile: &Profile, behaviour: Behaviour, requests_per_s: f64) -> Serving {
    let truth = DriveModel::from_profile(profile).unwrap();
    let known = DriveModel::unknown(truth.layout().capacity(), truth.sector_bytes()).unwrap();
    let place =
        OutsideConfig::blind().serving().with_harm_ppm(Some(10_000)).with_audit(Some(AuditConfig::new(1)));
    let config = Config::outside(place).with_idle(Some(IdleTime::default()));
    let mut serving = Serving::new((profile, behaviour), known, config, (requests_per_s, [1, 7]));
    serving.disk.want_readings(true);
    serving
}

/// Returns the drive's true model, for a core that uses gaps. `overlap` is that of [`Overheads::of`].
fn adoption(profile: &Profile, overlap: bool) -> Adoption {
    let drive = DriveModel::from_profile(profile).unwrap();
    let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &drive, overlap);
    let place = OutsideConfig::beyond(overheads).serving();
    Adoption { drive: Arc::new(drive), config: Config::outside(place).with_idle(Some(IdleTime::default())) }
}

#[test]
fn a_recording_with_readings_of_a_probe_replays() {
    let profile = builtin::find("mimic-base").unwrap();
    let mut serving = unprobed(&profile, Behaviour::default(), 20.0);
    let memory = Memory::default();
    serving.disk.record(Recorder::new(memory.clone(), &serde_json::Value::Null).unwrap());
    serving.disk.want_readings(false);
    serving.disk.want_readings(true);
    for i in 0..20 {
        let range = LbnRange::new(Lbn::new(i * 7_919), Sectors::new(1));
        serving.read(Reading { at: serving.now, range, next: false }).unwrap();
    }
    serving.disk.end_recording().unwrap();
    let fresh = || unprobed(&profile, Behaviour::default(), 20.0).disk.core().clone();
    let recorded = memory.bytes();
    let mut replay = CoreReplay::new(recorded.as_slice(), |_| Ok(fresh())).unwrap();
    while replay.step().unwrap() {}
    let extent = replay.extent();
    assert!(extent.commands >= 20 && !extent.cut_off, "{extent:?}");
}

#[test]
fn a_recording_in_which_a_profile_is_adopted_replays() {
    let profile = builtin::find("mimic-base").unwrap();
    let through = Behaviour { write_back: Some(false), ..Behaviour::default() };
    let mut serving = unprobed(&profile, through, 20.0);
    let memory = Memory::default();
    serving.disk.record(Recorder::new(memory.clone(), &serde_json::Value::Null).unwrap());
    serving.disk.want_readings(false);
    let until = |serving: &mut Serving, requests| {
        while serving.ids < requests {
            serving.step();
        }
    };
    until(&mut serving, 100);
    let other = builtin::find("mimic-less-capacity").unwrap();
    serving.disk.adopt(serving.now, adoption(&other, false), other.to_toml().into()).unwrap_err();
    serving.disk.adopt(serving.now, adoption(&profile, false), profile.to_toml().into()).unwrap();
    serving.scan();
    until(&mut serving, 2_000);
    assert!(serving.disk.status().foresight.commands > 100, "{:?}", serving.disk.status().foresight);
    serving.disk.end_recording().unwrap();
    let recorded = memory.bytes();
    let fresh = |setup: &serde_json::Value| match setup.as_str() {
        Some(toml) => {
            let Adoption { drive, config } = adoption(&Profile::from_toml(toml, "setup").unwrap(), false);
            Ok(OutsideDrive::new(drive, config))
        }
        None => Ok(unprobed(&profile, through, 20.0).disk.core().clone()),
    };
    let mut replay = CoreReplay::new(recorded.as_slice(), fresh).unwrap();
    while replay.step().unwrap() {}
    let extent = replay.extent();
    assert!(extent.requests >= 1_990 && extent.blocks > 100 && !extent.cut_off, "{extent:?}");
}

impl Serving {
    fn scan(&mut self) {
        self.disk.host(CountingScan::default());
        let all = LbnRange::new(Lbn::ZERO, ProbedDevice::capacity(self));
        let call = |_: &mut CountingScan, sessions: &mut dyn Sessions| {
            let session = sessions.open(Priority::default()).unwrap();
            sessions.read(session, all, Sectors::new(16), Parameter::default()).unwrap();
        };
        self.disk.call(self.now, call).unwrap();
    }

    fn read(&mut self, reading: Reading) -> Result<Option<Timed>, DeviceError> {
        let reported: Arc<Mutex<Option<ReadingResult>>> = Arc::default();
        let tell = Arc::clone(&reported);
        self.disk.read(self.now, reading, move |result| *tell.lock().unwrap() = Some(result));
        loop {
            let result = reported.lock().unwrap().take();
            if let Some(result) = result {
                return Ok(result
                    .unwrap()
                    .map(|times| Timed { submitted: times.submitted, completed: times.completed }));
            }
            self.step();
        }
    }
}

impl ProbedDevice for Serving {
    fn capacity(&self) -> Sectors {
        self.disk.core().drive().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.disk.core().drive().sector_bytes()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, at: Instant, _: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        Ok(self.read(Reading { at, range, next: false })?.unwrap())
    }

    fn execute_next(&mut self, at: Instant, _: Op, range: LbnRange) -> Result<Option<Timed>, DeviceError> {
        self.read(Reading { at, range, next: true })
    }
}

/// Probes a disk under this rate of requests, saving and resuming the probe after each `part` commands. Then
/// lets the disk use the found profile until it has used `gaps` gaps.
#[allow(clippy::print_stdout, reason = "docs/PROBE.md names the command that prints these figures")]
fn probed(name: &str, behaviour: Behaviour, rate: f64, part: u64, gaps: u64) -> (f64, [f64; 2]) {
    let truth = builtin::find(name).unwrap();
    let mut serving = unprobed(&truth, behaviour, rate);
    let (mut state, mut most): (Option<Vec<u8>>, u64) = (None, part);
    let found = loop {
        let mut probe = match &state {
            Some(bytes) => {
                Probe::resume(Options::default(), Journal::from_bytes(bytes, "state").unwrap()).unwrap()
            }
            None => Probe::new(Options::default()),
        };
        let ended = probe.run(&mut serving, &mut |progress| match progress.journal.commands() < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        match ended {
            Ok(found) => break found,
            Err(error) => assert!(matches!(error, ProbeError::Interrupted), "{error}"),
        }
        state = Some(probe.journal().to_bytes());
        most += part;
    };
    let (hours, slower) = (serving.now.as_nanos() as f64 / 3.6e12, serving.slower());
    println!(
        "{name}: {hours:.1} hours, {} requests, {:.2}% slower, at most {:.2}%, {:.0} s of drive time, {} commands",
        serving.ids, slower[0], slower[1], found.report.drive_time_s, found.report.commands
    );
    assert!(!found.report.is_partial(), "{:?}", found.report.given_up);
    serving.disk.want_readings(false);

    serving.scan();
    serving.disk.adopt(serving.now, adoption(&found.profile, true), serde_json::Value::Null).unwrap();
    let (adopted, latest) = (serving.ids, serving.ids + 10_000);
    serving.mean_ns = 1e9 / 60.0;
    loop {
        let next = serving.ids + 500;
        while serving.ids < next {
            serving.step();
        }
        if serving.disk.status().gaps.used >= gaps || serving.ids >= latest {
            break;
        }
    }
    let status = serving.disk.status();
    println!(
        "{} gaps used of {} after {} requests; {:?}; {:.1}% predicted",
        status.gaps.used,
        status.gaps.seen,
        serving.ids - adopted,
        status.caution,
        100.0 * status.foresight.within_100us
    );
    assert!(serving.disk.core().drive().is_known());
    assert!(status.gaps.used >= gaps, "{:?}", status.gaps);
    assert!(serving.disk.app().unwrap().blocks >= gaps);
    (hours, slower)
}

#[test]
fn a_small_disk_is_probed_in_parts_while_it_serves_and_then_uses_gaps() {
    let through = Behaviour { write_back: Some(false), ..Behaviour::default() };
    let (_, [_, upper]) = probed("mimic-less-capacity", through, 20.0, 1_000, 100);
    assert!(upper <= 1.0, "{upper}");
}

#[test]
fn nine_gigabytes_are_probed_within_a_day_of_twenty_requests_a_second_within_the_bound() {
    let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 32 };
    let behaviour = Behaviour { queue, write_back: Some(false), ..Behaviour::default() };
    let (hours, [_, upper]) = probed("seagate-cheetah-9lp", behaviour, 20.0, u64::MAX, 0);
    assert!(hours < 24.0 && upper <= 1.0, "{hours} h, {upper}%");
}
