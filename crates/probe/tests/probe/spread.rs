//! The measured variation of seeks, compared with the noise of the emulated drive.

use crate::common::{Emulated, finding};
use drive::Behaviour;
use model::builtin;
use probe::{Options, Probe, ProbedProfile};
use std::ops::ControlFlow;
use units::Duration;

fn probed(drive: &str, behaviour: Behaviour) -> ProbedProfile {
    let mut device = Emulated::with(&builtin::find(drive).unwrap(), behaviour, 3);
    Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Returns the standard deviations of seeks, us, by distance in cylinders.
fn spread(found: &ProbedProfile) -> Vec<(u32, f64)> {
    found.profile.mechanics.seek_spread_ms.iter().map(|&(d, ms)| (d, 1e3 * ms)).collect()
}

#[test]
fn seeks_of_constant_time_have_no_spread() {
    let quiet = Behaviour { read_ahead: Some(false), ..Behaviour::default() };
    for (drive, behaviour) in [("mimic-less-capacity", Behaviour::default()), ("quantum-atlas-10k", quiet)] {
        let found = probed(drive, behaviour);
        let spread = spread(&found);
        assert!(spread.len() >= 6 && spread.iter().all(|s| s.1 == 0.0), "{drive}: {spread:?}");
        assert!(finding(&found, "spread of seeks").value.starts_with("below 0.003 ms over "));
    }
}

/// A drive that reads ahead stops for a command at the end of a sector, so moves vary by a part of a sector's
/// time.
#[test]
fn reading_ahead_varies_moves_by_less_than_a_sector() {
    let found = probed("quantum-atlas-10k", Behaviour::default());
    let spread = spread(&found);
    // A sector takes 17.9 us: a track has 334 sectors, and a revolution takes 5.985 ms.
    assert!(spread.len() >= 6 && spread.iter().all(|s| s.1 < 17.9), "{spread:?}");
}

#[test]
fn the_spread_of_seeks_is_found_at_every_distance() {
    for us in [20, 50] {
        let behaviour = Behaviour { seek_spread: Duration::from_micros(us), ..Behaviour::default() };
        let found = probed("mimic-less-capacity", behaviour);
        let spread = spread(&found);
        let mean = spread.iter().map(|s| s.1).sum::<f64>() / spread.len() as f64;
        let us = us as f64;
        assert!(spread.len() >= 6 && (0.8..1.25).contains(&(mean / us)), "{us} us: {spread:?}");
        assert!(spread.iter().all(|s| (0.5..1.7).contains(&(s.1 / us))), "{us} us: {spread:?}");
    }
}

/// In the default noise the overhead of a command also varies, uniformly by 20 us, and some moves settle late.
#[test]
fn the_spread_of_seeks_is_found_among_other_noise() {
    for drive in ["mimic-less-capacity", "quantum-atlas-10k"] {
        let found = probed(drive, Behaviour::fast02());
        let spread = spread(&found);
        let mean = spread.iter().map(|s| s.1).sum::<f64>() / spread.len() as f64;
        assert!(spread.len() >= 6 && (17.0..28.0).contains(&mean), "{drive}: {spread:?}");
    }
}
