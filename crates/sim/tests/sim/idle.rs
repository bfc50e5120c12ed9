//! The cost of work in idle time to a foreground with rare requests.

use freeblock_sim::{Background, Inside, Nothing, Observer};
use model::{DriveModel, builtin};
use scheduler::{AnyCore, Config, IdleTime, Parameter, Priority, Record};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors, SessionId};
use workload::{Arrival, Issuer, Random, RandomConfig};

fn atlas() -> Arc<DriveModel> {
    Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap())
}

fn start(drive: &Arc<DriveModel>, apart: Duration, seed: u64) -> Inside<Random> {
    let config = Config::default().with_idle(Some(IdleTime::default()));
    let load = Random::new(RandomConfig::new(drive.layout().capacity(), drive.sector_bytes()), seed).unwrap();
    let arrival = Arrival::Poisson { rate: 1.0 / apart.as_secs_f64() };
    let foreground = Issuer::new(load, arrival, Instant::ZERO, seed).unwrap();
    Inside::new(Arc::clone(drive), config, foreground, Background::None).unwrap()
}

/// A scan of the whole drive that wants each block again after its delivery, so that the blocks that take the longest
/// are always wanted.
struct RepeatedScan {
    session: SessionId,
    blocks: u64,
}

const BLOCK: Sectors = Sectors::new(256);

impl RepeatedScan {
    fn start(core: &mut dyn AnyCore, drive: &DriveModel) -> Self {
        let session = core.open(Priority::default()).unwrap();
        let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
        core.read(session, whole, BLOCK, Parameter::default()).unwrap();
        Self { session, blocks: 0 }
    }
}

impl Observer for RepeatedScan {
    fn delivered(&mut self, core: &mut dyn AnyCore, record: Record, _: Instant) {
        self.blocks += 1;
        core.read(self.session, record.range, BLOCK, Parameter::default()).unwrap();
    }
}

/// Returns the increase of the mean response time by the scan in percent, and the scan's rate in MB/s.
fn slower(apart: Duration, requests: u64, seed: u64) -> (f64, f64) {
    let drive = atlas();
    let mut plain = start(&drive, apart, seed);
    plain.advance(requests, &mut Nothing).unwrap();
    let mut busy = start(&drive, apart, seed);
    let mut scan = RepeatedScan::start(busy.core_mut(), &drive);
    busy.advance(requests, &mut scan).unwrap();
    let mean = |run: &Inside<Random>| run.report().foreground.mean_response_ms;
    let bytes = scan.blocks * BLOCK.get() * drive.sector_bytes().get();
    let rate = bytes as f64 / 1e6 / busy.now().since(Instant::ZERO).as_secs_f64();
    ((mean(&busy) / mean(&plain) - 1.0) * 100.0, rate)
}

#[test]
fn rare_requests_are_hardly_delayed_by_idle_work() {
    for (seconds, requests) in testing::some(1, [(2, 300), (20, 200)]) {
        let (slower, rate) = slower(Duration::from_secs(seconds), requests, 1);
        assert!(slower < 2.0, "a request in {seconds} s is {slower}% slower");
        assert!(rate > 1.0, "a request in {seconds} s: {rate} MB/s");
    }
}
