//! OSDI'00, section 6: transactions on a busy drive, and in their gaps one scan of the whole drive after the other.
//!
//! The scan is an application over the session API. It registers the whole drive in blocks of 4 KB, takes blocks in
//! any order, aborts when it has enough blocks, and registers the whole drive again.

use crate::LabError;
use model::DriveModel;
use scheduler::{AnyCore, Config, Core, Parameter, Priority, Record, Request, SessionError};
use sim::{Background, HeadNanos, Inside, Observer, Report};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, SessionId, TaskId};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

/// The size of the scan's blocks.
pub const BLOCK: Bytes = Bytes::new(4096);

/// The set-up of a run: the paper's OLTP load with this number of tasks and 30 ms of think time, and the core's
/// configuration.
#[derive(Clone, Debug)]
pub struct ScanSetUp {
    /// The drive.
    pub drive: Arc<DriveModel>,
    /// Policy and search budget.
    pub scheduler: Config,
    /// The foreground's tasks.
    pub mpl: u32,
    /// The foreground's seed.
    pub seed: u64,
}

impl ScanSetUp {
    /// Returns the set-up with first come, first served, and the default budget.
    pub fn new(drive: &Arc<DriveModel>, mpl: u32, seed: u64) -> Self {
        Self { drive: Arc::clone(drive), scheduler: Config::default(), mpl, seed }
    }

    /// Returns the foreground, without background work yet.
    ///
    /// # Errors
    /// The drive cannot have this load.
    pub fn foreground(&self) -> Result<Inside<Oltp>, LabError> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
        let config = OltpConfig::new(self.drive.layout().capacity(), self.drive.sector_bytes());
        let load = Oltp::new(config, self.seed).map_err(|e| failed(e.into()))?;
        let foreground = Issuer::new(load, Arrival::oltp(self.mpl), Instant::ZERO, self.seed)
            .map_err(|e| failed(e.into()))?;
        Inside::new(Arc::clone(&self.drive), self.scheduler, foreground, Background::None)
            .map_err(|e| failed(e.into()))
    }

    /// Runs `count` scans, each ended when `percent` of the drive's blocks are delivered.
    ///
    /// # Errors
    /// The drive cannot have this load or scan.
    pub fn scans(&self, percent: u64, count: usize) -> Result<Vec<Scan>, LabError> {
        let mut scanning = Scanning::new(self, percent)?;
        while scanning.scans.len() < count {
            scanning.advance()?;
        }
        Ok(scanning.scans)
    }

    /// Runs one whole scan; also returns the scan's state after every `every` foreground requests, from start to end.
    ///
    /// # Errors
    /// The drive cannot have this load or scan.
    pub fn progress(&self, every: u64) -> Result<(Scan, Vec<State>), LabError> {
        let mut scanning = Scanning::new(self, 100)?;
        let mut states = vec![State::default()];
        loop {
            scanning.advance()?;
            if let Some(scan) = scanning.scans.first() {
                states.push(State { at: scan.took, bytes: scan.bytes, head: scan.head });
                return Ok((*scan, states));
            }
            if scanning.run.requests() % every == 0 {
                states.push(State {
                    at: scanning.run.now().since(Instant::ZERO),
                    bytes: scanning.app.bytes,
                    head: scanning.run.head(),
                });
            }
        }
    }

    /// Runs `count` whole scans, and in step with them the same foreground without scans; compares every completion.
    ///
    /// # Errors
    /// The drive cannot have this load or scan.
    pub fn compared(&self, count: usize) -> Result<Compared, LabError> {
        let mut scanning = Scanning::new(self, 100)?;
        scanning.app.completions = Some(VecDeque::new());
        let (mut alone, mut kept) = (self.foreground()?, Completions::default());
        let (mut requests, mut different) = (0, 0);
        while scanning.scans.len() < count {
            scanning.advance()?;
            let missing = scanning.run.requests() - alone.requests();
            alone.advance(missing, &mut kept).map_err(|e| LabError::new("an OLTP load", e))?;
            let with = scanning.app.completions.iter_mut().flat_map(|c| c.drain(..));
            for with in with {
                requests += 1;
                different += u64::from(kept.0.pop_front() != Some(with));
            }
        }
        Ok(Compared {
            scans: scanning.scans,
            with: scanning.run.report(),
            without: alone.report(),
            requests,
            different,
        })
    }
}

/// Scans beside the same foreground without them.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The scans.
    pub scans: Vec<Scan>,
    /// The run with scans.
    pub with: Report,
    /// The run without scans.
    pub without: Report,
    /// The number of foreground requests compared.
    pub requests: u64,
    /// The number of compared pairs that differ: in the request, or in the nanosecond of arrival or completion.
    pub different: u64,
}

/// The cost and the result of one scan. The head's time is exact except for the one request in progress at the scan's
/// end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Bytes delivered.
    pub bytes: u64,
    /// The time from the scan's registration to its last block.
    pub took: Duration,
    /// The share of `took` that the last twentieth of the scan's blocks needed.
    pub last5_time_share: f64,
    /// The head's time during the scan.
    pub head: HeadNanos,
}

impl Scan {
    /// Returns bytes a second, in millions.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.took.as_secs_f64()
    }

    /// Returns the [`potential_mb_per_s`] of the scan.
    pub fn potential_mb_per_s(&self, media: &MediaRate) -> f64 {
        potential_mb_per_s(&self.head, self.took, media)
    }

    /// Returns the number of such scans in a day.
    pub fn per_day(&self) -> f64 {
        86_400.0 / self.took.as_secs_f64()
    }

    /// Returns the use of the foreground's latency, in percent.
    pub fn potential(&self) -> Potential {
        Potential::of(&self.head)
    }

    /// Returns the [`efficiency`] of the scan.
    pub fn efficiency(&self, media: &MediaRate) -> f64 {
        efficiency(self.bytes, &self.head, media)
    }
}

/// The use of the foreground's rotational latency, in percent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Potential {
    /// The reading of wanted sectors in gaps.
    pub used: f64,
    /// Moves to a third track and back; the other two are the track that the head comes from and that of the
    /// foreground request.
    pub extra_seek: f64,
    /// Latency in which the head did nothing.
    pub unused: f64,
}

impl Potential {
    /// Computes the use of the latency from the head's time.
    pub fn of(head: &HeadNanos) -> Self {
        let all = head.potential().as_nanos().max(1) as f64;
        let share = |d: Duration| d.as_nanos() as f64 * 100.0 / all;
        Self {
            used: share(head.free_transfer),
            extra_seek: share(head.extra_seek),
            unused: share(head.rotation),
        }
    }
}

/// Returns the potential free bandwidth (OSDI'00, section 3): the drive's media rate times the share of the time that
/// is rotational latency of the foreground, in millions of bytes a second.
pub fn potential_mb_per_s(head: &HeadNanos, time: Duration, media: &MediaRate) -> f64 {
    media.bytes_per_s / 1e6 * head.potential().as_secs_f64() / time.as_secs_f64()
}

/// Returns the ratio of achieved to potential free bandwidth (OSDI'00, section 6.3). The achieved bandwidth includes wanted
/// sectors that the foreground itself reads, so it can exceed the [potential](potential_mb_per_s).
fn efficiency(bytes: u64, head: &HeadNanos, media: &MediaRate) -> f64 {
    bytes as f64 / (media.bytes_per_s * head.potential().as_secs_f64())
}

/// The rate at which sectors pass under a drive's head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaRate {
    /// The average over the time in which all LBNs of the drive pass once.
    pub bytes_per_s: f64,
}

impl MediaRate {
    /// Computes the rate of a drive from its layout.
    pub fn of(drive: &DriveModel) -> Self {
        let layout = drive.layout();
        let revolutions: f64 = layout
            .pieces(LbnRange::new(Lbn::ZERO, layout.capacity()))
            .map(|piece| f64::from(piece.len) / f64::from(layout.track(piece.track).sectors))
            .sum();
        let bytes = layout.capacity().bytes(drive.sector_bytes()).get();
        Self { bytes_per_s: bytes as f64 / (revolutions * drive.rpm().revolution().as_secs_f64()) }
    }
}

/// The state of a scan in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// The time since the scan's start.
    pub at: Duration,
    /// Bytes delivered.
    pub bytes: u64,
    /// The time of the head since the scan's start, by use.
    pub head: HeadNanos,
}

/// The part of a scan between two states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The beginning, as time since the scan's start.
    pub from: Duration,
    /// The end, as time since the scan's start.
    pub to: Duration,
    /// Bytes delivered.
    pub bytes: u64,
    /// The time of the head in the stretch, by use.
    pub head: HeadNanos,
}

impl Stretch {
    /// Returns the [`efficiency`] of the stretch.
    pub fn efficiency(&self, media: &MediaRate) -> f64 {
        efficiency(self.bytes, &self.head, media)
    }
}

/// Cuts a scan into `count` stretches of about equal time; fewer if states are far apart.
pub fn stretches(states: &[State], count: u32) -> Vec<Stretch> {
    let end = states.last().map_or(0, |s| u128::from(s.at.as_nanos()));
    let mut stretches = Vec::new();
    let mut from: Option<&State> = None;
    for state in states {
        let Some(start) = from else {
            from = Some(state);
            continue;
        };
        let due = end * (stretches.len() as u128 + 1);
        if state.at > start.at && u128::from(state.at.as_nanos()) * u128::from(count) >= due {
            stretches.push(Stretch {
                from: start.at,
                to: state.at,
                bytes: state.bytes - start.bytes,
                head: state.head.since(&start.head),
            });
            from = Some(state);
        }
    }
    stretches
}

/// A run with one scan after the other.
struct Scanning {
    run: Inside<Oltp>,
    app: ScanApp,
    scans: Vec<Scan>,
    /// The head's times by use, up to the start of the present scan.
    head: HeadNanos,
}

impl Scanning {
    fn new(set_up: &ScanSetUp, percent: u64) -> Result<Self, LabError> {
        let mut run = set_up.foreground()?;
        let app = ScanApp::start(run.core_mut(), percent).map_err(refused)?;
        Ok(Self { run, app, scans: Vec::new(), head: HeadNanos::default() })
    }

    /// Advances by one foreground request.
    fn advance(&mut self) -> Result<(), LabError> {
        self.run.advance(1, &mut self.app).map_err(|e| LabError::new("an OLTP load", e))?;
        if let Some(done) = self.app.done.take() {
            let Done { bytes, took, last5_time_share } = done.map_err(refused)?;
            let head = self.run.head();
            self.scans.push(Scan { bytes, took, last5_time_share, head: head.since(&self.head) });
            self.head = head;
        }
        Ok(())
    }
}

fn refused(error: SessionError) -> LabError {
    LabError::new("a scan", error)
}

/// The application that scans.
struct ScanApp {
    session: SessionId,
    task: TaskId,
    block: Sectors,
    sector: Bytes,
    /// The number of delivered blocks at which a scan ends, and the number at which its last twentieth begins.
    enough: u64,
    nearly: u64,
    started: Instant,
    blocks: u64,
    bytes: u64,
    nearly_at: Instant,
    /// The completions since the last comparison, if they are compared.
    completions: Option<VecDeque<Completion>>,
    done: Option<Result<Done, SessionError>>,
}

struct Done {
    bytes: u64,
    took: Duration,
    last5_time_share: f64,
}

impl ScanApp {
    fn start(core: &mut dyn AnyCore, percent: u64) -> Result<Self, SessionError> {
        let sector = core.drive().sector_bytes();
        let block = Sectors::new(BLOCK.get() / sector.get());
        let session = core.open(Priority::default())?;
        let task = core.read(session, whole(core), block, Parameter::default())?;
        let enough = (core.task_undelivered(task) * percent).div_ceil(100);
        Ok(Self {
            session,
            task,
            block,
            sector,
            enough,
            nearly: (enough * 19).div_ceil(20),
            started: Instant::ZERO,
            blocks: 0,
            bytes: 0,
            nearly_at: Instant::ZERO,
            completions: None,
            done: None,
        })
    }

    /// Ends the scan at `at` and starts the next.
    fn finish(&mut self, core: &mut dyn AnyCore, at: Instant) -> Result<Done, SessionError> {
        if core.task_undelivered(self.task) > 0 {
            core.abort(self.task)?;
        }
        self.task = core.read(self.session, whole(core), self.block, Parameter::default())?;
        let took = at.since(self.started);
        let last = at.since(self.nearly_at).as_secs_f64() / took.as_secs_f64();
        let done = Done { bytes: self.bytes, took, last5_time_share: last };
        (self.started, self.blocks, self.bytes) = (at, 0, 0);
        Ok(done)
    }
}

fn whole(core: &Core) -> LbnRange {
    LbnRange::new(Lbn::ZERO, core.drive().layout().capacity())
}

impl Observer for ScanApp {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        if let Some(completions) = &mut self.completions {
            completions.push_back((request, arrived, at));
        }
    }

    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, at: Instant) {
        self.blocks += 1;
        self.bytes += record.range.len().bytes(self.sector).get();
        if self.blocks == self.nearly {
            self.nearly_at = at;
        }
        if self.blocks == self.enough {
            self.done = Some(self.finish(core, at));
        }
    }
}

/// A foreground request with its arrival and completion.
type Completion = (Request, Instant, Instant);

#[derive(Default)]
struct Completions(VecDeque<Completion>);

impl Observer for Completions {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.0.push_back((request, arrived, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Profile;

    fn tiny() -> Arc<DriveModel> {
        let profile =
            Profile::from_toml(include_str!("../../model/tests/data/tiny.toml"), "tiny.toml").unwrap();
        Arc::new(DriveModel::from_profile(&profile).unwrap())
    }

    fn state(at_ms: u64, bytes: u64) -> State {
        let head = HeadNanos { rotation: Duration::from_millis(at_ms / 2), ..HeadNanos::default() };
        State { at: Duration::from_millis(at_ms), bytes, head }
    }

    #[test]
    fn stretches_leave_nothing_out() {
        let states: Vec<State> = [0, 3, 10, 11, 29, 30, 61, 80, 99, 100].map(|ms| state(ms, ms * 7)).to_vec();
        for count in 1..20 {
            let parts = stretches(&states, count);
            assert!(!parts.is_empty() && parts.len() <= count as usize);
            assert_eq!(parts.iter().map(|p| p.bytes).sum::<u64>(), 700);
            assert!(parts.windows(2).all(|w| w[0].to == w[1].from));
            assert_eq!(parts.last().unwrap().to, Duration::from_millis(100));
        }
        let halves: Vec<_> = stretches(&states, 2).iter().map(|p| p.to.as_millis_f64()).collect();
        assert_eq!(halves, [61.0, 100.0]);
    }

    #[test]
    fn the_media_rate_is_a_track_in_a_revolution() {
        let drive = tiny();
        let rates: Vec<f64> = (0..drive.layout().track_count())
            .map(|t| {
                let track = drive.layout().track(units::TrackIndex::new(t));
                f64::from(track.sectors) * 512.0 / drive.rpm().revolution().as_secs_f64()
            })
            .collect();
        let (least, most) = rates.iter().fold((f64::MAX, 0.0f64), |(l, m), r| (l.min(*r), m.max(*r)));
        let rate = MediaRate::of(&drive).bytes_per_s;
        assert!((least..=most).contains(&rate), "{least} {rate} {most}");
    }

    #[test]
    fn a_scan_that_stops_has_its_share_and_the_next_starts_over() {
        let drive = tiny();
        let blocks = drive.layout().capacity().get().div_ceil(BLOCK.get() / 512);
        let scans = ScanSetUp::new(&drive, 2, 1).scans(80, 3).unwrap();
        assert_eq!(scans.len(), 3);
        for scan in scans {
            let got = scan.bytes.div_ceil(BLOCK.get());
            assert_eq!(got, (blocks * 80).div_ceil(100));
        }
    }

    #[test]
    fn scans_leave_the_foreground_as_it_is() {
        let compared = ScanSetUp::new(&tiny(), 3, 1).compared(2).unwrap();
        assert_eq!(compared.different, 0);
        assert_eq!((compared.scans.len(), compared.with.foreground.requests), (2, compared.requests));
        assert_eq!(compared.with.foreground, compared.without.foreground);
    }

    #[test]
    fn progress_ends_with_the_whole_drive() {
        let drive = tiny();
        let (scan, states) = ScanSetUp::new(&drive, 3, 1).progress(10).unwrap();
        assert_eq!(scan.bytes, drive.layout().capacity().bytes(drive.sector_bytes()).get());
        assert_eq!(states.last().unwrap().bytes, scan.bytes);
        assert!(states.is_sorted_by(|a, b| a.at <= b.at && a.bytes <= b.bytes));
    }
}
