//! The duration of a probe in drive time: at most five minutes for 9 GB, with every setting of an emulated drive, and
//! with writes.

use crate::common::Emulated;
use drive::Behaviour;
use model::builtin;
use probe::{Options, Probe, ProbedDevice, ProbedProfile};
use std::ops::ControlFlow;
use units::{Lbn, LbnRange, Sectors};

/// The permitted time for 9 GB, s, and the largest share of it that a probe may take.
const ALLOWED_S: f64 = 300.0;
const ALLOWED_SHARE_MAX: f64 = 0.95;

/// The settings of an emulated drive with the longest probes; the example `times` has all settings.
const WAYS: &[&str] = &[
    "fast02,queue=sptf:64",
    "fast02,queue=off",
    "fast02,write_back=on",
    "fast02,seek_spread=100us",
    "fast02,missed_landings_ppm=20000",
    "fast02,seek_ageing_ppm=200000",
    "fast02,command_spread=500us",
    "fast02,completion_spread=1ms",
    "fast02,bus_sector=200us",
    "fast02,recalibration=5s:200ms",
];

fn probed(device: &mut Emulated, writes: bool) -> ProbedProfile {
    let region = LbnRange::new(Lbn::new(100_000), Sectors::new(20_001));
    let options = Options { writes: writes.then_some(region), ..Options::default() };
    Probe::new(options).run(device, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn is_in_time(name: &str, ways: &[&str], seeds: &[u64]) {
    let truth = builtin::find(name).unwrap();
    for way in ways {
        let behaviour: Behaviour = way.parse().unwrap();
        for &seed in seeds {
            let mut device = Emulated::with(&truth, behaviour, seed);
            let bytes = device.capacity().get() as f64 * device.sector_bytes().get() as f64;
            // Larger drives have more time, by a power of their size (docs/PROBE.md).
            let most = ALLOWED_SHARE_MAX * ALLOWED_S * (bytes / 9e9).powf(0.408).max(1.0);
            let report = probed(&mut device, true).report;
            assert!(report.drive_time_s <= most, "{name}, {way}, {seed}: {} s", report.drive_time_s);
        }
    }
}

/// On the drive with the slowest arm, nine seeds of the default noise with a queue once took 302 to 310 s.
#[test]
fn the_slowest_arm_leaves_time_for_writes_as_well() {
    is_in_time(
        "mimic-slow-seek",
        &["fast02,queue=sptf:64", "fast02,queue=fcfs:64", "fast02,write_back=on"],
        &testing::some(2, 1..=9),
    );
}

/// Tests a drive with all settings in the long tier of tests, and with one setting in the short tier; the drives
/// together cover all settings.
fn is_in_every_way(drives: &[&str], name: &str) {
    let at = drives.iter().position(|drive| *drive == name).unwrap();
    let way = &WAYS[at % WAYS.len()];
    let ways = testing::sized(std::slice::from_ref(way), WAYS);
    is_in_time(&name.replace('_', "-"), ways, &[1]);
}

macro_rules! drives {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            super::is_in_every_way(TESTED, stringify!($name));
        })*
    };
}

/// A test for each drive, so that the tests run in parallel.
mod in_every_way {
    drives! {
        quantum_atlas_10k seagate_cheetah_4lp seagate_cheetah_9lp seagate_cheetah_18lp ibm_ultrastar_9es
        mimic_base mimic_fast_seek mimic_slow_seek mimic_fast_rotate mimic_slow_rotate mimic_fast_seek_rotate
        mimic_more_capacity mimic_less_capacity
    }

    #[test]
    fn none_is_left_out() {
        let tested: Vec<String> = TESTED.iter().map(|name| name.replace('_', "-")).collect();
        assert_eq!(tested, crate::common::nine_gigabytes().collect::<Vec<_>>());
    }
}
