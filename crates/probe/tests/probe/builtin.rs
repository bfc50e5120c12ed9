//! Every built-in drive at its full size, exact and with the default noise: found within its time; predicted, or the
//! region named as uncertain; the order of tracks right, or reported as uncertain.

use crate::common::{Emulated, holds, is_large, is_right_or_unsure};
use model::{Profile, builtin};
use probe::{Options, Probe};
use std::ops::ControlFlow;

fn is_found(name: &str, device: &dyn Fn(&Profile) -> Emulated) {
    let truth = builtin::find(name).unwrap();
    let mut device = device(&truth);
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    // The limit is five minutes of drive time for 9 GB, and an hour for 2 TB and more.
    holds(device, &truth, &found, if is_large(name) { 3_600.0 } else { 300.0 });
    is_right_or_unsure(&truth, &found);
}

/// Defines a module for each drive, so that the tests run in parallel.
macro_rules! drives {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(mod $name {
            use super::{Emulated, is_found};

            #[test]
            fn is_found_as_it_is() {
                is_found(&stringify!($name).replace('_', "-"), &Emulated::new);
            }

            #[test]
            fn is_found_where_times_and_speed_vary() {
                is_found(&stringify!($name).replace('_', "-"), &|truth| Emulated::noisy(truth, 1));
            }
        })*
    };
}

drives! {
    quantum_atlas_10k seagate_cheetah_4lp seagate_cheetah_9lp seagate_cheetah_18lp ibm_ultrastar_9es
    mimic_base mimic_fast_seek mimic_slow_seek mimic_fast_rotate mimic_slow_rotate mimic_fast_seek_rotate
    mimic_more_capacity mimic_less_capacity desktop_2tb nearline_4tb nearline_20tb
}

#[test]
fn none_is_left_out() {
    let tested: Vec<String> = TESTED.iter().map(|name| name.replace('_', "-")).collect();
    assert_eq!(tested, builtin::names());
}
