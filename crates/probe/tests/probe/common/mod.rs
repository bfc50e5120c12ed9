//! Emulated drives for the probe, and checks of its results.

#![allow(clippy::unwrap_used, dead_code, reason = "shared by tests and the example; each uses a part")]

pub mod judge;

use drive::{Behaviour, Drive, NotDone, Rules, Waiting};
use model::Profile;
use model::profile::Order;
use probe::{DeviceError, Finding, ProbedDevice, ProbedProfile, Report, Timed};
use std::ops::ControlFlow;
use units::{Bytes, Duration, Instant, LbnRange, Op, Sectors};

/// An emulated drive; the probe sees its commands and its clock.
pub struct Emulated {
    host: Waiting,
    one_at_a_time: bool,
}

impl Emulated {
    pub fn new(profile: &Profile) -> Self {
        Self::with(profile, Behaviour::default(), 0)
    }

    pub fn noisy(profile: &Profile, seed: u64) -> Self {
        Self::with(profile, Behaviour::fast02(), seed)
    }

    pub fn with(profile: &Profile, behaviour: Behaviour, seed: u64) -> Self {
        let drive = Drive::with_behaviour(profile, Rules::HARDWARE, behaviour, seed).unwrap();
        Self { host: Waiting::new(drive), one_at_a_time: false }
    }

    /// Makes sectors unreadable.
    pub fn damage(&mut self, range: LbnRange) {
        self.host.drive_mut().damage(range);
    }

    /// Returns the sectors that cannot be read, ascending.
    pub fn unreadable(&self) -> impl Iterator<Item = units::Lbn> + '_ {
        self.host.drive().unreadable()
    }

    /// Returns the drive behind a handle that takes one command at a time, as the handle of a disk's device file does.
    pub fn one_at_a_time(self) -> Self {
        Self { one_at_a_time: true, ..self }
    }
}

impl Emulated {
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
            mend: "mend the test".to_owned(),
        })?;
        Ok(times.map(|(submitted, completed)| Timed { submitted, completed }))
    }
}

impl ProbedDevice for Emulated {
    fn capacity(&self) -> Sectors {
        self.host.drive().model().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.host.drive().model().sector_bytes()
    }

    fn now(&self) -> Instant {
        self.host.now()
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        self.carry_out(at, [(op, range)]).map(|[timed]| timed)
    }

    fn takes_two(&self) -> bool {
        !self.one_at_a_time && self.host.drive().queue_depth() > 1
    }

    fn execute_two(&mut self, at: Instant, two: [(Op, LbnRange); 2]) -> Result<[Timed; 2], DeviceError> {
        self.carry_out(at, two)
    }
}

/// Implements [`ProbedDevice`] for a type that has a `device` and a function `before`; that function runs before each
/// command, or pair of commands, and may prevent it.
macro_rules! goes_through {
    ($device:ty) => {
        impl probe::ProbedDevice for $device {
            fn capacity(&self) -> units::Sectors {
                self.device.capacity()
            }

            fn sector_bytes(&self) -> units::Bytes {
                self.device.sector_bytes()
            }

            fn now(&self) -> units::Instant {
                self.device.now()
            }

            fn execute(
                &mut self,
                at: units::Instant,
                op: units::Op,
                range: units::LbnRange,
            ) -> Result<probe::Timed, probe::DeviceError> {
                self.before(&[(op, range)])?;
                self.device.execute(at, op, range)
            }

            fn takes_two(&self) -> bool {
                self.device.takes_two()
            }

            fn execute_two(
                &mut self,
                at: units::Instant,
                two: [(units::Op, units::LbnRange); 2],
            ) -> Result<[probe::Timed; 2], probe::DeviceError> {
                self.before(&two)?;
                self.device.execute_two(at, two)
            }
        }
    };
}
#[allow(unused_imports, reason = "shared by tests; each uses a part")]
pub(crate) use goes_through;

/// A device that is removed after `left` commands.
pub struct Cut<'d> {
    pub device: &'d mut dyn ProbedDevice,
    pub left: u64,
}

/// The reason of the error that a removed device returns.
pub const CUT: &str = "the cable came off";

impl Cut<'_> {
    fn before(&mut self, commands: &[(Op, LbnRange)]) -> Result<(), DeviceError> {
        let (op, range) = commands[0];
        let (reason, mend) = (CUT.to_owned(), "put it back".to_owned());
        let left = self.left.checked_sub(commands.len() as u64);
        self.left = left.ok_or(DeviceError { op, range, unreadable: None, reason, mend })?;
        Ok(())
    }
}

goes_through!(Cut<'_>);

/// Returns whether a built-in drive has terabytes.
pub fn is_large(name: &str) -> bool {
    ["desktop", "nearline"].iter().any(|begins| name.starts_with(begins))
}

/// Returns the built-in drives of up to 9 GB, whose probes must take at most five minutes of drive time.
pub fn nine_gigabytes() -> impl Iterator<Item = &'static str> {
    model::builtin::names().iter().copied().filter(|name| !is_large(name))
}

/// Settings of an emulated drive that affect the duration of its probe.
pub const WAYS: &[&str] = &[
    "none",
    "fast02",
    "queue=sptf:64",
    "queue=fcfs:64",
    "fast02,queue=off",
    "fast02,queue=sptf:64",
    "fast02,queue=fcfs:64",
    "fast02,write_back=on",
    "fast02,write_back=off",
    "write_back=on,queue=sptf:64",
    "write_back=off,queue=sptf:64",
    "fast02,write_back=on,queue=sptf:64",
    "fast02,command_spread=500us",
    "fast02,completion_spread=1ms",
    "fast02,bus_sector=200us",
    "bus_sector=200us",
    "fast02,buffer=off",
    "fast02,buffer=on,read_ahead=on",
    "fast02,eager_read_ahead=on",
    "fast02,seek_spread=100us",
    "fast02,late_settles=200000:1ms",
    "fast02,missed_landings_ppm=20000",
    "fast02,seek_ageing_ppm=200000",
    "fast02,bad_sectors=500:8",
    "fast02,command_percent=300,completion_overhead=300us",
    "fast02,recalibration=5s:200ms",
];

/// Returns the profile of a drive by its name: a built-in drive's name, `random:SEED`, `wong:NAME:SEED` for a drive
/// with the values that Wong measured, or the path of a DiskSim parameter file.
pub fn profile_of(name: &str) -> Option<Profile> {
    if let Some(seed) = name.strip_prefix("random:") {
        return Some(random(seed.parse().ok()?));
    }
    if let Some((name, seed)) = name.strip_prefix("wong:").and_then(|named| named.split_once(':')) {
        let drive = model::wong::DRIVES.iter().find(|drive| drive.name == name)?;
        return Some(drive.draw(seed.parse().ok()?, model::wong::Scale::Full));
    }
    if name.ends_with(".parv") {
        return Some(model::disksim::import(name.as_ref()).ok()?.profile);
    }
    model::builtin::find(name).ok()
}

/// Returns a random drive with the firmware of the Cheetah 18LP.
pub fn random(seed: u64) -> Profile {
    let mut profile = model::random_profile::random_profile(seed, model::random_profile::Size::Small);
    profile.firmware = model::builtin::find("seagate-cheetah-18lp").unwrap().firmware;
    profile
}

/// Returns the default noise without its random parts: only the bus and the queue remain.
pub fn without_chance() -> Behaviour {
    Behaviour {
        seek_spread: Duration::ZERO,
        late_settles: Default::default(),
        missed_landings_ppm: 0,
        drift: None,
        recalibration: None,
        command_spread: Duration::ZERO,
        completion_spread: Duration::ZERO,
        overlap_percent: 0,
        ..Behaviour::fast02()
    }
}

/// The shares of random reads that complete within 50 us of their predictions, whole revolutions off, and otherwise
/// off; and the share within 50 us outside regions that the report names (`None` if it names the whole drive).
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    pub near: f64,
    pub revolutions: f64,
    pub other: f64,
    pub sure: Option<f64>,
}

/// Makes random reads of 4 KiB on an exact drive, each predicted by a `Predictor` of the found profile.
pub fn predictions(truth: &Profile, found: &Profile, report: &Report, requests: u64) -> Shares {
    predictions_on(Emulated::new(truth), truth, found, report, requests)
}

/// Makes random reads of 4 KiB on a given drive, each predicted by a `Predictor` of the found profile.
pub fn predictions_on(
    mut drive: Emulated,
    truth: &Profile,
    found: &Profile,
    report: &Report,
    requests: u64,
) -> Shares {
    let (near, revolutions, other) = predicted(&mut drive, truth, found, requests, &|_| true);
    // Reads in uncertain regions would spoil the predicted angle of the platter, so only reads outside of them are
    // made.
    let is_sure = |lbn: u64| !report.unsure.iter().any(|u| (u.first.get()..u.end.get()).contains(&lbn));
    let named: u64 = report.unsure.iter().map(|u| u.end.get() - u.first.get()).sum();
    let sure = if named == 0 {
        Some(near)
    } else if named >= drive.capacity().get() {
        None
    } else {
        Some(predicted(&mut drive, truth, found, requests, &is_sure).0)
    };
    Shares { near, revolutions, other, sure }
}

/// Draws `places` random LBNs and reads 4 KiB at each that is `wanted`, predicted by a `Predictor` of the found
/// profile. Calls `seen` with the delay of each read in ns, except for the first 60 reads, which determine the
/// platter's angle.
pub fn read_at_random(
    drive: &mut Emulated,
    found: &Profile,
    places: u64,
    wanted: &dyn Fn(u64) -> bool,
    mut seen: impl FnMut(LbnRange, i64) -> ControlFlow<()>,
) {
    let capacity = drive.capacity().get();
    let mut predictor = probe::Predictor::new(found).unwrap();
    let mut state = 0x1234_5678_9abc_def0u64;
    let mut warm_up = 60;
    for _ in 0..places {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lbn = ((u128::from(state) * u128::from(capacity - 7)) >> 64) as u64;
        if !wanted(lbn) {
            continue;
        }
        let range = LbnRange::new(units::Lbn::new(lbn), Sectors::new(8));
        let at = drive.now();
        let Ok(timed) = drive.execute(at, Op::Read, range) else {
            // An unreadable sector does not count as an error of the prediction.
            predictor.read(at, range);
            predictor.failed(drive.now());
            continue;
        };
        predictor.read(timed.submitted, range);
        let error = predictor.completed(timed.completed);
        if warm_up > 0 {
            warm_up -= 1;
        } else if seen(range, error).is_break() {
            break;
        }
    }
}

/// Returns the shares of reads of wanted LBNs that complete within 50 us, whole revolutions off, and otherwise off.
fn predicted(
    drive: &mut Emulated,
    truth: &Profile,
    found: &Profile,
    requests: u64,
    wanted: &dyn Fn(u64) -> bool,
) -> (f64, f64, f64) {
    let revolution = 60e9 / f64::from(truth.rpm);
    let (mut near, mut revolutions, mut other) = (0_u64, 0_u64, 0_u64);
    read_at_random(drive, found, 100 * requests, wanted, |_, error| {
        let error = error as f64;
        if error.abs() <= 50_000.0 {
            near += 1;
        } else if (error - (error / revolution).round() * revolution).abs() <= 50_000.0 {
            revolutions += 1;
        } else {
            other += 1;
        }
        if near + revolutions + other == requests {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let share = |n: u64| n as f64 / (near + revolutions + other).max(1) as f64;
    (share(near), share(revolutions), share(other))
}

/// Returns a finding of a report.
pub fn finding<'a>(found: &'a ProbedProfile, what: &str) -> &'a Finding {
    found.report.findings.iter().find(|f| f.what == what).unwrap()
}

/// Returns the confidence of a finding.
pub fn confidence(report: &Report, what: &str) -> f64 {
    report.findings.iter().find(|f| f.what == what).map_or(0.0, |f| f.confidence)
}

/// Checks the promises that hold for every drive: the time of the probe, and right predictions outside the regions that
/// the report names. `device` is the drive as the probe left it.
pub fn holds(device: Emulated, truth: &Profile, found: &ProbedProfile, most_seconds: f64) {
    let name = &truth.name;
    assert!(found.report.drive_time_s <= most_seconds, "{name}: {} s", found.report.drive_time_s);
    covers(&found.report, device.capacity().get());
    let shares = predictions_on(device, truth, &found.profile, &found.report, 2_000);
    assert!(shares.sure.is_none_or(|sure| sure >= 0.97), "{name}: {shares:?}, {:?}", found.report.unsure);
    let text = found.profile.to_toml();
    assert_eq!(Profile::from_toml(&text, "found").unwrap(), found.profile, "{name}");
}

/// Checks that each LBN of a drive of this capacity is in the checked part, or in a region that the report names.
pub fn covers(report: &Report, capacity: u64) {
    let (check, unsure) = (report.check, &report.unsure);
    let (first, end) = (check.first.get(), check.end.get());
    let of_drive = (end - first) as f64 / capacity as f64;
    assert!(end <= capacity && (check.of_drive - of_drive).abs() < 1e-9, "{check:?} of {capacity}");
    assert!(unsure.iter().all(|u| u.first < u.end && u.end.get() <= capacity), "{unsure:?} of {capacity}");
    // The ranges are joined in ascending order, as long as each begins before the end of the covered part.
    let mut ranges: Vec<(u64, u64)> = unsure.iter().map(|u| (u.first.get(), u.end.get())).collect();
    ranges.push((first, end));
    ranges.sort_unstable();
    let covered = ranges.iter().fold(0, |to, &(first, end)| if first <= to { end.max(to) } else { to });
    assert_eq!(covered, capacity, "{check:?}, {unsure:?}");
}

/// The confidence below which a finding counts as uncertain.
const CONFIDENCE_MIN: f64 = 0.75;

/// Checks that the order of tracks and the number of heads are the drive's, or reported as uncertain.
pub fn is_right_or_unsure(truth: &Profile, found: &ProbedProfile) {
    let name = &truth.name;
    let (order, heads) = (finding(found, "order of tracks"), finding(found, "heads"));
    // In a single zone both serpentine orders are the same, and a drive with a single head has only one order.
    let order_of =
        |order| if order == Order::CylinderSerpentineAbsolute { Order::CylinderSerpentine } else { order };
    let right = found.profile.layout.order == order_of(truth.layout.order) || truth.heads == 1;
    assert!(right || order.confidence < CONFIDENCE_MIN, "{name}: {order:?}, {:?}", truth.layout.order);
    assert!(
        found.profile.heads == truth.heads || heads.confidence < CONFIDENCE_MIN,
        "{name}: {heads:?}, {}",
        truth.heads
    );
    // Runs on one surface must be distinguished from whole cylinders even if the number of heads is wrong.
    let family = |order| matches!(order, Order::SurfaceSerpentine { .. });
    let bands = order.value.starts_with("bands");
    assert!(order.confidence < CONFIDENCE_MIN || bands == family(truth.layout.order), "{name}: {order:?}");
}
