//! Probes drives and says how well the found profiles predict.
//!
//! `cargo run --release -p freeblock-probe --example sweep -- NAME...`
#[path = "../tests/common/mod.rs"]
mod common;
#[expect(clippy::print_stdout, clippy::unwrap_used)]
fn main() {
    let verbose = std::env::var("VERBOSE").is_ok();
    for name in std::env::args().skip(1) {
        let profile = match name.strip_prefix("random:") {
            Some(seed) => common::random(seed.parse().unwrap()),
            None => model::builtin::find(&name).unwrap(),
        };
        let noisy = std::env::var("NOISE").ok().map(|seed| seed.parse::<u64>().unwrap());
        let drive = || match noisy {
            Some(seed) => common::Emulated::noisy(&profile, seed),
            None => common::Emulated::new(&profile),
        };
        let mut device = drive();
        let mut probe = probe::Probe::new(probe::Options::default());
        let result = probe.run(&mut device, &mut |_| std::ops::ControlFlow::Continue(()));
        match result {
            Ok(outcome) => {
                if std::env::var("CURVE").is_ok() {
                    let truth = model::DriveModel::from_profile(&profile).unwrap();
                    if let model::profile::Seek::Table { points } = &outcome.profile.seek {
                        for (d, ms) in points {
                            let fw = profile.firmware.as_ref().unwrap();
                            let x = truth.seek(*d).as_millis_f64() + fw.overheads.read_miss.0;
                            let y = ms + outcome.profile.firmware.as_ref().unwrap().overheads.read_miss.0;
                            if (y - x).abs() > 0.02 {
                                print!("{d}:{:+.3}of{x:.3} ", y - x);
                            }
                        }
                        println!();
                    }
                }
                if verbose {
                    for f in &outcome.report.findings {
                        println!("  {:20} {} ({}) {}", f.what, f.value, f.confidence, f.note);
                    }
                    println!("{}", outcome.profile.to_toml());
                }
                let r = &outcome.report;
                let predicted = if noisy.is_some() {
                    common::predictions_on(device, &profile, &outcome.profile, 2_000)
                } else {
                    common::predictions(&profile, &outcome.profile, 2_000)
                };
                println!(
                    "{name:24} {:.0} s {} commands; own check {:.3} (turns {:.3} else {:.3}) unsure {}; predicted {:.4} turns {:.4} else {:.4}; zones {} of {}, order {:?} heads {} of {:?} {}",
                    r.drive_time_s,
                    r.commands,
                    r.check.within_50us,
                    r.check.turns_off,
                    r.check.elsewhere,
                    r.unsure.len(),
                    predicted.0,
                    predicted.1,
                    predicted.2,
                    outcome.profile.layout.zones.len(),
                    profile.layout.zones.len(),
                    outcome.profile.layout.order,
                    outcome.profile.heads,
                    profile.layout.order,
                    profile.heads
                );
            }
            Err(e) => println!("{name:24} {} commands: {e}", probe.journal().commands()),
        }
    }
}
