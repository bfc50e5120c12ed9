//! Compares the simulated drive with traces of real drives, and with DiskSim 4.0's answers to the same requests.
//!
//! The traces are not part of the source; without them these tests print a message and pass. `cargo test -p
//! freeblock-drive --test drive -- real_drives --nocapture` prints the tables that docs/MODEL.md quotes.

use crate::common::{disksim_answers, measured};
use freeblock_drive::{AccuracyReport, Rules, validate_with};

fn line(name: &str, r: &AccuracyReport) -> String {
    format!(
        "{name:12} demerit {:.4} ms, means {:.3} (model) {:.3} (trace), per request {:.2}",
        r.demerit_ms, r.model_mean_ms, r.trace_mean_ms, r.per_request_rms_ms
    )
}

/// A real drive with a measured trace.
struct Measured {
    file: &'static str,
    name: &'static str,
    year: u16,
    /// The demerit figure of DiskSim.
    disksim_ms: f64,
    /// A bound on the demerit figure of the simulated drive. Tighter than DiskSim's figure, to detect regressions.
    demerit_ms_max: f64,
}

const fn drive(
    file: &'static str,
    name: &'static str,
    year: u16,
    disksim_ms: f64,
    demerit_ms_max: f64,
) -> Measured {
    Measured { file, name, year, disksim_ms, demerit_ms_max }
}

const MEASURED: [Measured; 5] = [
    drive("atlas10k", "Quantum Atlas 10K", 1999, 0.268, 0.080),
    drive("cheetah9LP", "Seagate Cheetah 9LP", 1998, 0.107, 0.080),
    drive("ibm18es", "IBM 18ES", 1999, 0.136, 0.095),
    drive("hp_c2247a", "HP C2247A", 1992, 0.090, 0.080),
    drive("dec_rz26", "DEC RZ26", 1992, 0.340, 0.310),
];

#[test]
fn each_measured_drive_is_modelled_better_than_by_disksim() {
    for Measured { file, disksim_ms, demerit_ms_max, .. } in MEASURED {
        let Some((profile, records)) = measured(file) else { return };
        let report = validate_with(&profile, Rules::HARDWARE, &records).unwrap();
        println!("{}", line(file, &report));
        for c in &report.classes {
            println!(
                "   {:5} after {:5} {:10} {:?}: {:5} requests, {:.3} (trace) {:.3} (model), demerit {:.3}, residuals {:+.3} {:+.3} {:+.3}",
                c.op.to_string(),
                c.after.to_string(),
                c.distance,
                c.served,
                c.requests,
                c.trace_mean_ms,
                c.model_mean_ms,
                c.demerit_ms,
                c.residual_ms[0],
                c.residual_ms[1],
                c.residual_ms[2],
            );
        }
        assert!(report.demerit_ms <= disksim_ms, "{}", line(file, &report));
        assert!(report.demerit_ms <= demerit_ms_max, "{}", line(file, &report));
    }
}

#[test]
fn with_disksims_rules_each_request_is_answered_as_by_disksim() {
    for name in ["atlas10k", "cheetah9LP", "hp_c2247a"] {
        let Some((profile, records)) = measured(name) else { return };
        let answers = disksim_answers(name);
        let report = validate_with(&profile, Rules::DISKSIM, &records).unwrap();
        println!("{}", line(name, &report));
        for n in [300, 1500, answers.len()] {
            let off = |limit: f64| {
                let far = (0..n).filter(|&i| (report.service[i].as_millis_f64() - answers[i]).abs() > limit);
                far.collect::<Vec<_>>()
            };
            println!(
                "   of {n}: {:.4} within 20 us, {:.4} within 0.5 ms; first off: {:?}",
                1.0 - off(0.02).len() as f64 / n as f64,
                1.0 - off(0.5).len() as f64 / n as f64,
                &off(0.02)[..off(0.02).len().min(5)]
            );
            assert!(off(0.02).len() * 500 <= n, "{name}: {:?}", off(0.02));
        }
    }
}

/// Prints the table of docs/MODEL.md, section 1.
#[test]
fn table_of_the_measured_drives() {
    println!("| drive | year | requests | demerit, DiskSim 4.0 | demerit, ours | mean, drive | mean, ours |");
    println!("|---|---|---|---|---|---|---|");
    for Measured { file, name, year, disksim_ms, .. } in MEASURED {
        let Some((profile, records)) = measured(file) else { return };
        let report = validate_with(&profile, Rules::HARDWARE, &records).unwrap();
        println!(
            "| {name} | {year} | {} | {disksim_ms:.3} ms | **{:.3} ms** | {:.3} | {:.3} |",
            report.requests, report.demerit_ms, report.trace_mean_ms, report.model_mean_ms
        );
    }
}

#[test]
fn each_rule_of_the_hardware_is_demanded_by_a_drive() {
    let all = Rules::HARDWARE;
    // True for the rules without which a demerit figure becomes worse. Evidence for the others are single requests
    // (docs/MODEL.md).
    let without = [
        ("track_buffer", true, Rules { track_buffer: false, ..all }),
        ("served_data_leave", true, Rules { served_data_leave: false, ..all }),
        ("read_ahead_fills_segment", true, Rules { read_ahead_fills_segment: false, ..all }),
        ("writes_keep_reads", true, Rules { writes_keep_reads: false, ..all }),
        ("writes_not_merged", true, Rules { writes_not_merged: false, ..all }),
        ("overhead_by_locality", true, Rules { overhead_by_locality: false, ..all }),
        ("shortest_access", true, Rules { shortest_access: false, ..all }),
        ("early_reselect", true, Rules { early_reselect: false, ..all }),
        ("write_bursts", true, Rules { write_bursts: false, ..all }),
        ("overlapped_stop", false, Rules { overlapped_stop: false, ..all }),
        ("zero_latency", false, Rules { zero_latency: false, ..all }),
        ("held_bus_in_order", true, Rules { held_bus_in_order: false, ..all }),
        ("read_bursts", true, Rules { read_bursts: false, ..all }),
        ("hits_during_flush", false, Rules { hits_during_flush: false, ..all }),
    ];
    let Some(drives) = MEASURED.iter().map(|drive| measured(drive.file)).collect::<Option<Vec<_>>>() else {
        return;
    };
    // The C2247A's trace shows the angle of the platter, so that its requests can be compared one by one.
    let row = |title: &str, rules: Rules| {
        let mut text = format!("{title:33}");
        let mut met = 0;
        let mut demerits = Vec::new();
        for (Measured { file, .. }, (profile, records)) in MEASURED.iter().zip(&drives) {
            let report = validate_with(profile, rules, records).unwrap();
            text += &format!("{:10.4}", report.demerit_ms);
            demerits.push(report.demerit_ms);
            let off = |(r, s): (&freeblock_drive::ValidateRecord, &units::Duration)| {
                (r.service.as_millis_f64() - s.as_millis_f64()).abs()
            };
            if *file == "hp_c2247a" {
                met = records.iter().zip(&report.service).map(off).filter(|&ms| ms < 0.5).count();
            }
        }
        println!("{text}{met:10}");
        demerits
    };
    println!(
        "{:33}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "demerit, ms", "Atlas 10K", "Cheetah", "18ES", "C2247A", "RZ26", "met"
    );
    row("DiskSim's rules", Rules::DISKSIM);
    let with_all = row("the hardware's rules", all);
    for (name, demanded, rules) in without {
        let demerits = row(&format!("without {name}"), rules);
        let gained = demerits.iter().zip(&with_all).map(|(without, with)| without - with).fold(0.0, f64::max);
        assert!(!demanded || gained > 0.01, "without {name} no drive is met worse by more than {gained} ms");
    }
}
