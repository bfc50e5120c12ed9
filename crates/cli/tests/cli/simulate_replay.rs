//! A replay goes to the validated drive: DiskSim 4.0's answers, and times that follow from the drive's parameters.

use crate::support::{Dir, number, run_with, shared};
use serde_json::Value;

/// Returns the result of a replay with the flags that follow, and the rows of its log without the heading.
fn replay(trace: &str, more: &[&str]) -> (Value, Vec<Vec<String>>) {
    let dir = Dir::new();
    let log = dir.path("log.csv");
    let workload = format!("replay:{trace}");
    let args = ["simulate", "--json", "--log", &log, "--workload", &workload];
    let json = run_with(&[&args[..], more].concat()).json();
    let text = std::fs::read_to_string(&log).unwrap();
    let rows = text.lines().skip(1).map(|row| row.split(',').map(str::to_owned).collect()).collect();
    (json, rows)
}

/// Returns the response times in ms.
fn responses(rows: &[Vec<String>]) -> Vec<f64> {
    let ns = |row: &[String], column: usize| row[column].parse::<f64>().unwrap();
    rows.iter().map(|row| (ns(row, 2) - ns(row, 0)) / 1e6).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// Returns the RMS horizontal distance of two distributions.
fn demerit(a: &[f64], b: &[f64]) -> f64 {
    let sorted = |x: &[f64]| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        x
    };
    let squares: Vec<f64> = sorted(a).iter().zip(sorted(b)).map(|(a, b)| (a - b).powi(2)).collect();
    mean(&squares).sqrt()
}

/// The demerit figure is a distance, so that between our times and DiskSim's is at most the sum of those between ours and the
/// real drive's and between the drive's and DiskSim's: the two columns in docs/MODEL.md, section 1. A scheduler in the drive,
/// without buffer and bus, is far outside that bound.
#[test]
fn a_replay_is_as_near_to_disksims_answers_as_both_are_to_the_drive() {
    for (name, drive, most) in [
        ("atlas10k", "quantum-atlas-10k", 0.073 + 0.268),
        ("cheetah9LP", "seagate-cheetah-9lp", 0.072 + 0.107),
        ("hp_c2247a", "", 0.076 + 0.090),
    ] {
        let Some(trace) = shared(&format!("drives/traces/{name}.trace")) else { return };
        let Some(oracle) = shared(&format!("drives/oracle/{name}.csv")) else { return };
        let Some(parv) = shared(&format!("drives/disksim/{name}.parv")) else { return };
        let drive = if drive.is_empty() { &parv } else { drive };
        let oracle = std::fs::read_to_string(oracle).unwrap();
        let disksim: Vec<f64> =
            oracle.lines().skip(1).map(|row| row.rsplit(',').next().unwrap().parse().unwrap()).collect();
        let (json, rows) = replay(&trace, &["--drive", drive]);
        assert_eq!((json["where"].as_str(), json["behaviour"].as_str()), (Some("device"), Some("none")));
        let ours = responses(&rows);
        let whole = mean(&ours);
        // DiskSim's output ends before the last request.
        assert_eq!(ours.len(), disksim.len() + 1, "{name}");
        let ours = &ours[..disksim.len()];
        let found = demerit(ours, &disksim);
        assert!(found <= most + 0.001, "{name}: {found} ms, at most {most}");
        eprintln!(
            "{name}: {found:.3} ms from DiskSim's answers; means {:.3} and {:.3}",
            mean(ours),
            mean(&disksim)
        );
        assert!(
            (mean(ours) / mean(&disksim) - 1.0).abs() < 0.03,
            "{name}: {} {}",
            mean(ours),
            mean(&disksim)
        );
        let (_, inside) = replay(&trace, &["--drive", drive, "--where", "inside"]);
        let mechanics = demerit(&responses(&inside)[..disksim.len()], &disksim);
        assert!(mechanics > most, "{name}: {mechanics} ms for the mechanics alone, {most}");
        // The replay uses the model of `drive validate`, request by request.
        let validated = run_with(&["drive", "validate", drive, "--trace", &trace, "--json"]).json();
        let model = number(&validated, "/model_mean_ms");
        assert!((whole - model).abs() < 1e-6, "{name}: {whole} {model}");
    }
}

/// An Atlas 10K rotates at 10,025 rpm (5.985 ms), has 334 sectors on its first track, and moves a sector over its bus in
/// 0.099 ms. A read from the buffer costs 0.184 ms first, a buffered write 0.186 ms after a read and 0.189 ms after a write.
const REVOLUTION_MS: f64 = 60_000.0 / 10_025.0;
const BUS_MS: f64 = 0.099;
const HIT_MS: f64 = 0.184 + 8.0 * BUS_MS;

fn near(found: f64, expected: f64, ms: f64) {
    assert!((found - expected).abs() <= ms, "{found} ms is not {expected} ms");
}

/// The bus needs 0.099 ms a sector and the medium 0.018 ms, so after the first read the buffer is always ahead, until the next
/// track has to be reached.
#[test]
fn sequential_reads_come_from_the_buffer_at_the_speed_of_the_bus() {
    let dir = Dir::new();
    let text: String = (0..500).map(|n| format!("R Hit {} 8 0 0\n", 100 + n * 8)).collect();
    let (json, rows) = replay(&dir.file("sequential.trace", &text), &[]);
    let ours = responses(&rows);
    // No seek, a latency of 100 sectors, then the first sector, and all eight over the bus.
    let first = REVOLUTION_MS * 100.0 / 334.0 + REVOLUTION_MS / 334.0 + 8.0 * BUS_MS;
    near(ours[0], first, 0.001);
    let hits = ours.iter().filter(|ms| (**ms - HIT_MS).abs() < 0.001).count();
    assert!(hits > 480, "{hits} of 500 are hits: {ours:?}");
    near(number(&json, "/foreground/p50_ms"), HIT_MS, 0.001);
    // 4,000 sectors lie on twelve tracks; a read that reaches a new one costs a revolution and a switch at most.
    let most = HIT_MS + (12.0 * (REVOLUTION_MS + 1.245) + first) / 500.0;
    let mean = number(&json, "/foreground/mean_response_ms");
    assert!((HIT_MS..most).contains(&mean), "{mean} {most}");
    // The mechanics alone go on with the next sector at once, and no bus slows them.
    let (inside, _) = replay(&dir.path("sequential.trace"), &["--where", "inside"]);
    near(number(&inside, "/foreground/p50_ms"), REVOLUTION_MS * 8.0 / 334.0, 0.001);
}

#[test]
fn sectors_that_are_read_again_come_from_the_buffer() {
    let dir = Dir::new();
    let text = "R Hit 5000000 8 0 20000\n".repeat(50);
    let (_, rows) = replay(&dir.file("again.trace", &text), &[]);
    let ours = responses(&rows);
    assert!(ours[0] > 2.0, "the first read moves the arm: {}", ours[0]);
    for (ms, row) in ours.iter().zip(&rows).skip(1) {
        near(*ms, HIT_MS, 1e-6);
        // Columns 7 and 8 are the cache hit and how the request was served; 9 to 11 the head's time.
        assert_eq!(row[7..12], ["1", "hit", "0", "0", "0"]);
    }
    assert_eq!(rows[0][7..9], ["0", "miss"]);
    let head: f64 = rows[0][9..].iter().map(|ns| ns.parse::<f64>().unwrap() / 1e6).sum();
    // The bus transfers while the head reads, so only the last sectors on the bus come after the head's time.
    assert!(head > 2.0 && head < ours[0], "{head} {}", ours[0]);
}

/// The expected means are DiskSim 4.0's for the same requests to an Atlas 10K, from the description of these traces.
#[test]
fn sequential_and_repeated_reads_have_disksims_mean() {
    for (name, disksim_ms) in [("seq", 1.05), ("rewrite", 0.979)] {
        let Some(trace) = shared(&format!("cases/{name}.trace")) else { return };
        let mean = |more: &[&str]| number(&replay(&trace, more).0, "/foreground/mean_response_ms");
        let ours = mean(&[]);
        assert!((ours / disksim_ms - 1.0).abs() < 0.02, "{name}: {ours} ms, and DiskSim {disksim_ms} ms");
        let mechanics = mean(&["--where", "inside"]);
        assert!(mechanics > 2.5 * disksim_ms, "{name}: {mechanics} ms without a buffer");
    }
}

#[test]
fn writes_are_acknowledged_from_the_buffer() {
    let dir = Dir::new();
    let text = "W Hit 5000000 8 0 50000\nW Hit 9000000 8 0 50000\nR Hit 100 8 0 50000\nW Hit 9000000 8 0 0\n";
    let (_, rows) = replay(&dir.file("writes.trace", text), &[]);
    let ours = responses(&rows);
    // Before the first command the drive is in the state after a read.
    near(ours[0], 0.186 + 8.0 * BUS_MS, 1e-6);
    near(ours[1], 0.189 + 8.0 * BUS_MS, 1e-6);
    near(ours[3], 0.186 + 8.0 * BUS_MS, 1e-6);
    let served: Vec<&str> = rows.iter().map(|row| row[8].as_str()).collect();
    assert_eq!(served, ["buffered", "buffered", "miss", "buffered"]);
}

#[test]
fn a_replay_says_where_it_went() {
    let dir = Dir::new();
    let trace = dir.file("few.trace", "R Hit 1000 8 1.0 1.0\n");
    let workload = format!("replay:{trace}");
    let title = |more: &[&str]| {
        let args = ["simulate", "--workload", &workload];
        let json = run_with(&[&args[..], more, &["--json"]].concat()).json();
        let page = run_with(&[&args[..], more].concat()).worked();
        let title = json["title"].as_str().unwrap().to_owned();
        assert_eq!(page.lines().next(), Some(title.as_str()));
        title
    };
    let file = "behaviour none: one command at a time, 1 may wait, a buffer that writes back, 99000 ns a sector on the bus";
    for (more, parts) in [
        (&[][..], ["Quantum Atlas 10K", "the drive alone", file]),
        (&["--where", "device"], ["Quantum Atlas 10K", "the drive alone", file]),
        (&["--drive", "nearline-4tb"], ["Nearline", "the drive alone", "behaviour modern: a queue of 32"]),
        (&["--where", "inside"], ["Quantum Atlas 10K", "fcfs in the drive", "no buffer, bus or overheads"]),
        (&["--where", "outside"], ["Quantum Atlas 10K", "fcfs outside the drive", "behaviour fast02"]),
    ] {
        let title = title(more);
        for part in parts {
            assert!(title.contains(part), "{more:?}: no {part:?} in {title:?}");
        }
    }
    for flag in [&["--policy", "sptf"][..], &["--background", "scan"], &["--age-weight", "5"]] {
        run_with(&[&["simulate", "--workload", &workload][..], flag].concat())
            .complained(2, &[flag[0], "the default for a replay", "--where inside or --where outside"]);
    }
}
