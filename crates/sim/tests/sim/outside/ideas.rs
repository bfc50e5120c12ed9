//! The yield of the ideas beyond the paper on a drive that matches its profile, compared with a scheduler in the
//! drive.

use drive::Behaviour;
use freeblock_sim::{Background, Inside, Nothing, Observer, Outside, Report, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{AnyCore, Config, Neighbours, OutsideConfig, Parameter, Priority, Record, Request, Sessions};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig, Share};

const REQUESTS: u64 = 5_000;
/// The number of requests until a scan has a third of all blocks.
const SCAN_REQUESTS: u64 = 35_000;
const SCAN: Background = Background::Scan { block: Sectors::new(8) };
const POLICIES: [PolicyName; 3] =
    [PolicyName::Sptf, PolicyName::SptfSw(SeekWeight::percent(60)), PolicyName::Sstf];

/// Returns a configuration with the ideas, without a bound and without margins.
fn ideas(plain: OutsideConfig) -> OutsideConfig {
    plain
        .with_neighbours(Neighbours::Always)
        .with_touching(true)
        .with_source_track(true)
        .with_late_bus(true)
        .with_merge_after(true)
}

/// Returns a load of ten tasks with think times.
fn load(known: &DriveModel, reads: Share) -> Issuer<Oltp> {
    let of = OltpConfig { reads, ..OltpConfig::new(known.layout().capacity(), known.sector_bytes()) };
    Issuer::new(Oltp::new(of, 3).unwrap(), Arrival::oltp(10), Instant::ZERO, 3).unwrap()
}

fn atlas() -> Arc<DriveModel> {
    Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap())
}

fn inside(policy: PolicyName, reads: Share) -> Report {
    let known = atlas();
    let load = load(&known, reads);
    let mut run = Inside::new(known, Config::default().with_policy(policy), load, SCAN).unwrap();
    run.advance(REQUESTS, &mut Nothing).unwrap();
    run.report()
}

fn exact(
    policy: PolicyName,
    load: Issuer<Oltp>,
    background: Background,
    config: impl Fn(OutsideConfig) -> OutsideConfig,
) -> Outside<Oltp> {
    reporting_after(None, policy, load, background, config)
}

fn reporting_after(
    completion_overhead: Option<Duration>,
    policy: PolicyName,
    load: Issuer<Oltp>,
    background: Background,
    config: impl Fn(OutsideConfig) -> OutsideConfig,
) -> Outside<Oltp> {
    let noisy = Behaviour::fast02();
    let exact = Behaviour {
        queue: noisy.queue,
        bus_sector: noisy.bus_sector,
        read_ahead: Some(false),
        write_back: Some(false),
        completion_overhead,
        ..Behaviour::default()
    };
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let (drive, overheads) = black_box(&profile, exact, 1).unwrap();
    let outside = config(OutsideConfig::paper(overheads, Duration::ZERO));
    let config = Config::outside(outside).with_policy(policy);
    Outside::new(drive, atlas(), config, load, background).unwrap()
}

fn outside(
    policy: PolicyName,
    reads: Share,
    background: Background,
    config: impl Fn(OutsideConfig) -> OutsideConfig,
) -> Report {
    let mut run = exact(policy, load(&atlas(), reads), background, config);
    run.advance(REQUESTS, &mut Nothing).unwrap();
    run.report()
}

fn percent(of: &Report, whole: &Report) -> f64 {
    100.0 * of.background.mb_per_s / whole.background.mb_per_s
}

fn slower(with: &Report, without: &Report) -> f64 {
    (with.foreground.mean_response_ms / without.foreground.mean_response_ms - 1.0) * 100.0
}

/// The remaining loss against a core in the drive comes from a choice among fewer requests.
#[test]
fn on_an_exact_drive_commands_get_nearly_the_in_drive_free_bandwidth() {
    let all = |plain| ideas(plain).with_in_order(true);
    for policy in POLICIES {
        let most = inside(policy, Share::TWO_THIRDS);
        let had = outside(policy, Share::TWO_THIRDS, SCAN, all);
        let without = outside(policy, Share::TWO_THIRDS, Background::None, all);
        assert!(percent(&had, &most) > 94.0, "{policy:?}: {:.1}%", percent(&had, &most));
        assert!(slower(&had, &without) < 0.0, "{policy:?}: {:.2}% slower", slower(&had, &without));
    }
}

/// A head that arrives within a request has most of a revolution before the request's first sector.
#[test]
fn a_request_within_which_the_head_arrives_waits_for_its_first_sector_behind_a_detour() {
    let policy = PolicyName::Sstf;
    let [had, without] = [true, false].map(|in_order| {
        outside(policy, Share::TWO_THIRDS, SCAN, |plain| ideas(plain).with_in_order(in_order))
    });
    assert!(had.background.mb_per_s > without.background.mb_per_s * 1.05, "{had:?} {without:?}");
    assert!(slower(&had, &without) < 1.0, "{:.2}% slower", slower(&had, &without));
}

/// The number of delivered blocks that lie on two tracks, and of all delivered blocks.
struct AcrossTracks<'a> {
    known: &'a DriveModel,
    across: u32,
    all: u32,
}

impl Observer for AcrossTracks<'_> {
    fn delivered(&mut self, _: &mut dyn AnyCore, record: Record, _: Instant) {
        self.all += 1;
        self.across += u32::from(self.known.layout().pieces(record.range).count() > 1);
    }
}

/// A block on two tracks is read in halves, at the end of one track and at the start of the other. If the first sector of a
/// track were always left out, nearly all such blocks would remain at the end of a scan, which would take twice as long as
/// in the drive.
#[test]
fn blocks_across_a_tracks_end_are_not_left_for_the_end_of_a_scan() {
    let policy = PolicyName::Sstf;
    let known = atlas();
    let share = |seen: &AcrossTracks| f64::from(seen.across) / f64::from(seen.all);
    let seen = || AcrossTracks { known: &known, across: 0, all: 0 };
    let mut in_drive = seen();
    let config = Config::default().with_policy(policy);
    let load_of = || load(&known, Share::TWO_THIRDS);
    let mut run = Inside::new(Arc::clone(&known), config, load_of(), SCAN).unwrap();
    run.advance(SCAN_REQUESTS, &mut in_drive).unwrap();
    let [with, without] = [true, false].map(|touching| {
        let mut seen = seen();
        let mut run =
            exact(policy, load_of(), SCAN, |plain| ideas(plain).with_in_order(true).with_touching(touching));
        run.advance(SCAN_REQUESTS, &mut seen).unwrap();
        share(&seen)
    });
    let most = share(&in_drive);
    assert!(with > most * 0.8 && without < most * 0.5, "{with} with, {without} without, {most} in the drive");
}

/// The data of a write behind a read of its track must not be predicted to wait for the read's completion at the host: the
/// write would then be predicted one revolution late.
#[test]
fn the_completion_overhead_does_not_delay_data_on_the_bus() {
    let [soon, late] = [None, Some(Duration::from_micros(100))].map(|overhead| {
        let policy = PolicyName::Sptf;
        let load_of = || load(&atlas(), Share::TWO_THIRDS);
        let [with, without] = [SCAN, Background::None].map(|background| {
            let beyond = |plain: OutsideConfig| OutsideConfig::beyond(plain.overheads);
            let mut run = reporting_after(overhead, policy, load_of(), background, beyond);
            run.advance(REQUESTS, &mut Nothing).unwrap();
            run.report()
        });
        assert!(slower(&with, &without) < -1.0, "{:.2}% slower", slower(&with, &without));
        with
    });
    assert!(percent(&late, &soon) > 97.0, "{:.1}%", percent(&late, &soon));
}

/// A write cannot be merged with reads before it on its track, so the reads are commands of their own, on both sides
/// of the track's end.
#[test]
fn sectors_before_a_write_are_read_on_both_sides_of_the_tracks_end() {
    let policy = PolicyName::Sstf;
    let writes = Share::NONE;
    let most = inside(policy, writes);
    let had = outside(policy, writes, SCAN, |plain| ideas(plain).with_in_order(true));
    assert!(percent(&had, &most) > 92.0, "{:.1}%", percent(&had, &most));
}

/// The number of writes of one session, and of those before which blocks of another session were read in the same
/// gap.
#[derive(Default)]
struct SessionWrites {
    all: u32,
    after_a_read: u32,
    /// Whether there was a read since the last request of the foreground.
    read: bool,
    ended: Instant,
}

impl Observer for SessionWrites {
    fn completed(&mut self, _: Request, _: Instant, at: Instant) {
        (self.read, self.ended) = (false, at);
    }

    fn delivered(&mut self, _: &mut dyn AnyCore, record: Record, at: Instant) {
        if record.op.is_write() {
            self.all += 1;
            self.after_a_read += u32::from(self.read);
        } else {
            // The foreground's own command delivers blocks, too.
            self.read |= at > self.ended;
        }
    }
}

/// A write waits for its first sector with the head on its track; until then the head may read blocks of other
/// sessions.
#[test]
fn the_time_before_the_lottery_winners_command_is_used_for_others_and_costs_the_foreground_nothing() {
    let all = |plain| ideas(plain).with_in_order(true);
    let run = |tasks: bool| {
        let load = load(&atlas(), Share::TWO_THIRDS);
        let mut run = exact(PolicyName::Sptf, load, Background::None, all);
        let core = run.core_mut();
        let capacity = core.drive().layout().capacity().get();
        let [scan, few] = [1, 100].map(|priority| core.open(Priority::new(priority).unwrap()).unwrap());
        let range = |start: u64, len| LbnRange::new(Lbn::new(start / 8 * 8), Sectors::new(len));
        let (block, none) = (Sectors::new(8), Parameter::default());
        if tasks {
            core.read(scan, range(0, capacity), block, none).unwrap();
            for i in 0..5_000 {
                core.write(few, range(i * (capacity / 5_000), 8), block, none).unwrap();
            }
        }
        let mut writes = SessionWrites::default();
        run.advance(REQUESTS, &mut writes).unwrap();
        (writes, run.report())
    };
    let ((writes, with), (_, without)) = (run(true), run(false));
    let SessionWrites { all, after_a_read, .. } = writes;
    assert!(all > 1_000 && after_a_read * 4 > all, "{after_a_read} of {all} writes");
    assert!(slower(&with, &without) < 0.3, "{:.2}% slower", slower(&with, &without));
}
