//! A drive that contradicts its profile, with idle time between requests: background work uses idle time only, the
//! core reports the contradiction, the harm stays within its bound, and the gaps are used again when the drive
//! matches again. Each run is compared with the same run without background work.

use super::surprise::{atlas, profile};
use drive::{
    Behaviour, BlackBox, Command, CommandError, Flash, FlashConfig, Queue, QueueOrder, Reply, Shingled,
    ShingledConfig,
};
use freeblock_sim::{Background, Observer, Outside, black_box};
use model::{DriveModel, Profile};
use scheduler::{
    AnyCore, Caution, Config, IdleTime, OutsideConfig, Overheads, Parameter, Priority, Record, Sessions,
};
use std::sync::Arc;
use units::{Bytes, Instant, Lbn, LbnRange, Sectors, SessionId};
use workload::{Arrival, Issuer, Oltp, OltpConfig, Source};

const REQUESTS: u64 = 12_000;
const PART_REQUESTS: u64 = 100;
const BLOCK: Sectors = Sectors::new(32);
/// Requests per second, of 117 that the drive can serve one at a time.
const REQUESTS_PER_SECOND: f64 = 25.0;
/// A drive that another one replaces at an instant.
pub struct Exchanged {
    devices: [Box<dyn BlackBox>; 2],
    at: Instant,
    now: Instant,
}

impl Exchanged {
    pub fn new(devices: [Box<dyn BlackBox>; 2], at: Instant) -> Self {
        Self { devices, at, now: Instant::ZERO }
    }

    fn current(&self) -> usize {
        usize::from(self.now >= self.at)
    }
}

impl BlackBox for Exchanged {
    fn capacity(&self) -> Sectors {
        self.devices[0].capacity().min(self.devices[1].capacity())
    }

    fn sector_bytes(&self) -> Bytes {
        self.devices[0].sector_bytes()
    }

    fn queue_depth(&self) -> usize {
        self.devices[0].queue_depth().min(self.devices[1].queue_depth())
    }

    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.now = now;
        let current = self.current();
        self.devices[current].advance(now);
        self.devices[current].submit(now, command)
    }

    fn next_event(&self) -> Option<Instant> {
        self.devices.iter().filter_map(|device| device.next_event()).min()
    }

    fn advance(&mut self, now: Instant) {
        self.now = now;
        self.devices.iter_mut().for_each(|device| device.advance(now));
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.devices.iter_mut().find_map(|device| device.pop_reply())
    }

    fn outstanding(&self) -> usize {
        self.devices.iter().map(|device| device.outstanding()).sum()
    }
}

/// A scan without an end.
pub struct EndlessScan {
    session: SessionId,
    blocks: u64,
}

impl EndlessScan {
    fn none<S: Source>(run: &mut Outside<S>) -> Self {
        Self { session: run.core_mut().open(Priority::default()).unwrap(), blocks: 0 }
    }

    pub fn of<S: Source>(run: &mut Outside<S>, capacity: Sectors) -> Self {
        let scan = Self::none(run);
        let all = LbnRange::new(Lbn::ZERO, capacity);
        run.core_mut().read(scan.session, all, BLOCK, Parameter::default()).unwrap();
        scan
    }
}

impl Observer for EndlessScan {
    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, _: Instant) {
        self.blocks += 1;
        core.read(self.session, record.range, BLOCK, Parameter::default()).unwrap();
    }
}

/// The state of a run after a part of it.
#[derive(Clone, Copy, Debug)]
struct RunState {
    caution: Option<Caution>,
    detours: u64,
    blocks: u64,
    /// The total time of all requests at the drive, in ms.
    at_drive: f64,
}

struct FallbackTwins {
    scan: Vec<RunState>,
    plain: Vec<RunState>,
    /// The core's estimate of the harm of idle time, as a fraction of the foreground's time.
    account: f64,
}

impl FallbackTwins {
    fn run(
        trouble: impl Fn() -> Box<dyn BlackBox>,
        (truth, known, healthy): (&Profile, &Arc<DriveModel>, Behaviour),
        rate: f64,
        place: impl Fn(Overheads) -> OutsideConfig,
    ) -> Self {
        // The trouble lasts for half of the requests.
        let trouble_ends = Instant::from_nanos((REQUESTS as f64 / 2.0 / rate * 1e9) as u64);
        let run = |with_scan: bool| {
            let (drive, overheads) = black_box(truth, healthy, 1).unwrap();
            let devices = [trouble(), Box::new(drive)];
            let device = Box::new(Exchanged::new(devices, trouble_ends));
            let capacity = known.layout().capacity().min(device.capacity());
            let source = Oltp::new(OltpConfig::new(capacity, known.sector_bytes()), 3).unwrap();
            let load = Issuer::new(source, Arrival::Poisson { rate }, Instant::ZERO, 3).unwrap();
            let outside = place(overheads);
            let config = Config::outside(outside).with_idle(Some(IdleTime::default()));
            let mut run = Outside::over(device, Arc::clone(known), config, load, Background::None).unwrap();
            let mut scan =
                if with_scan { EndlessScan::of(&mut run, capacity) } else { EndlessScan::none(&mut run) };
            let mut seen = Vec::new();
            for part in 1..=REQUESTS / PART_REQUESTS {
                run.advance(PART_REQUESTS, &mut scan).unwrap();
                let report = run.report();
                seen.push(RunState {
                    caution: run.core().caution(),
                    detours: run.planner_stats().detours,
                    blocks: scan.blocks,
                    at_drive: report.foreground.mean_access_ms * (part * PART_REQUESTS) as f64,
                });
            }
            (seen, run.harm().share())
        };
        let (plain, _) = run(false);
        let (scan, account) = run(true);
        Self { scan, plain, account }
    }

    /// Returns the difference between part `a` and part `b`.
    fn between(&self, a: usize, b: usize) -> RunPart {
        let longer = |seen: &[RunState]| seen[b].at_drive - seen[a].at_drive;
        let doubted = self.scan[a..b]
            .iter()
            .filter(|seen| matches!(seen.caution, Some(Caution::Mistrust | Caution::Unsynchronised)));
        RunPart {
            slower: (longer(&self.scan) / longer(&self.plain) - 1.0) * 100.0,
            detours: self.scan[b].detours - self.scan[a].detours,
            blocks: self.scan[b].blocks - self.scan[a].blocks,
            doubted: doubted.count() as f64 / (b - a) as f64,
        }
    }

    /// Checks that background work uses only idle time while the drive contradicts its profile, and gaps as well
    /// after that. `least` is the least yield of idle time, in blocks per hundred requests.
    fn assert_falls_back(&self, least: u64) {
        // The core notices the trouble, and its end, after some hundred commands.
        let (half, end) = (self.scan.len() / 2, self.scan.len() - 1);
        let trouble = self.between(NOTICED_PARTS, half - 1);
        let after = self.between(half + NOTICED_PARTS, end);
        let seen = format!("{trouble:?}, then {after:?}; {:.2}% estimated", self.account * 100.0);
        assert!(
            trouble.doubted > 0.9 && trouble.detours < PART_REQUESTS * (half - NOTICED_PARTS) as u64 / 100,
            "{seen}"
        );
        assert!(trouble.blocks > least * (half - NOTICED_PARTS) as u64, "{seen}");
        assert!(after.doubted < 0.3 && after.detours > 50 && after.blocks > 1_000, "{seen}");
        // The core's estimate of harm is below 1%; two runs differ by some tenths of a percent by chance.
        assert!(self.between(0, half - 1).slower < 1.5 && after.slower < 1.5, "{seen}");
        assert!(self.account < 0.0115, "{seen}");
    }
}

const NOTICED_PARTS: usize = 15;

#[derive(Debug)]
struct RunPart {
    /// The increase of the requests' time at the drive by the scan, in percent.
    slower: f64,
    detours: u64,
    blocks: u64,
    /// The share of the time in which the core reports mistrust.
    doubted: f64,
}

fn drive(profile: Profile, behaviour: Behaviour) -> impl Fn() -> Box<dyn BlackBox> {
    move || Box::new(black_box(&profile, behaviour, 1).unwrap().0)
}

/// Returns a run with a scan and one without, on an Atlas 10K after `trouble`.
fn atlas_after(trouble: impl Fn() -> Box<dyn BlackBox>) -> FallbackTwins {
    let (profile, known) = atlas();
    FallbackTwins::run(
        trouble,
        (&profile, &known, Behaviour::fast02()),
        REQUESTS_PER_SECOND,
        OutsideConfig::beyond,
    )
}

#[test]
fn with_another_drives_profile_idle_time_alone_is_used() {
    let (profile, known) = profile("seagate-cheetah-18lp");
    let other = drive(atlas().0, Behaviour::fast02());
    let reported = (&profile, &known, Behaviour::fast02());
    FallbackTwins::run(other, reported, REQUESTS_PER_SECOND, OutsideConfig::beyond).assert_falls_back(20);
}

#[test]
fn arms_that_no_correction_fits_get_idle_time_only() {
    let (profile, known) = atlas();
    let slow = drive(profile.clone(), Behaviour { seek_ageing_ppm: 400_000, ..Behaviour::fast02() });
    let by_profile = |overheads| OutsideConfig::beyond(overheads).with_correct_moves(false);
    FallbackTwins::run(slow, (&profile, &known, Behaviour::fast02()), REQUESTS_PER_SECOND, by_profile)
        .assert_falls_back(20);
}

#[test]
fn corrections_for_former_arms_are_unlearned() {
    let slow = drive(atlas().0, Behaviour { seek_ageing_ppm: 400_000, ..Behaviour::fast02() });
    let twins = atlas_after(slow);
    let after = twins.between(twins.scan.len() / 2 + 2 * NOTICED_PARTS, twins.scan.len() - 1);
    assert!(after.doubted < 0.3 && after.slower < 2.0, "{after:?}");
}

#[test]
fn over_a_queue_that_reorders_idle_time_alone_is_used() {
    let (profile, known) = atlas();
    let queue = |order| Behaviour { queue: Queue::Tagged { order, depth: 64 }, ..Behaviour::fast02() };
    let reorders = drive(profile.clone(), queue(QueueOrder::Sptf));
    // With more than two commands the drive can reorder them.
    let six = |overheads| OutsideConfig::beyond(overheads).with_at_drive(6);
    FallbackTwins::run(reorders, (&profile, &known, queue(QueueOrder::Fcfs)), 75.0, six)
        .assert_falls_back(10);
}

#[test]
fn over_flash_idle_time_alone_is_used() {
    let capacity = atlas().1.layout().capacity();
    let flash = move || -> Box<dyn BlackBox> {
        Box::new(Flash::new(FlashConfig { capacity, ..FlashConfig::default() }, 1))
    };
    // On flash the core must count the observed cost of commands, not that of a disk.
    atlas_after(flash).assert_falls_back(10_000);
}

#[test]
fn over_shingled_tracks_idle_time_alone_is_used() {
    let (profile, model) = atlas();
    let config = ShingledConfig::of(model.layout().capacity(), model.sector_bytes());
    let shingled = move || -> Box<dyn BlackBox> {
        let (drive, _) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
        Box::new(Shingled::new(drive, config).unwrap())
    };
    atlas_after(shingled).assert_falls_back(20);
}
