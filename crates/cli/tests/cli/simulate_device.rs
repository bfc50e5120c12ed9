//! `freeblock simulate --where device`: the drive alone, and the first line of every simulation.

use crate::support::{keys, number, run};

#[test]
fn a_drive_alone_gives_the_same_keys_as_a_scheduler_in_it() {
    let json = |place: &str| {
        run(&format!("simulate --drive nearline-4tb --rate 20 --requests 500 --json --where {place}")).json()
    };
    let (device, inside) = (json("device"), json("inside"));
    assert_eq!(keys(&device), keys(&inside));
    for part in ["foreground", "head_time", "background"] {
        assert_eq!(keys(&device[part]), keys(&inside[part]), "{part}");
    }
    assert_eq!(number(&device, "/foreground/requests"), 500.0);
    let sum: f64 = device["head_time"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{device}");
}

/// A queue with another order, no queue, a write cache: each changes the load's response times.
#[test]
fn a_drive_alone_serves_by_its_own_queue_and_buffer() {
    let response = |behaviour: &str| {
        let args =
            "simulate --where device --drive nearline-4tb --outstanding 8 --requests 1500 --json --behaviour";
        number(&run(&format!("{args} {behaviour}")).json(), "/foreground/mean_response_ms")
    };
    let (own, fcfs, sptf) =
        (response("modern"), response("modern,queue=fcfs:32"), response("modern,queue=sptf:32"));
    assert!(sptf < own && own < fcfs, "{sptf} {own} {fcfs}");
    let through = response("modern,write_back=off");
    assert!(own < through * 0.97, "{own} ms with a write cache, {through} ms without");
}

#[test]
fn the_first_line_describes_the_simulation() {
    let first = |args: &str| {
        run(&format!("simulate --requests 50 {args}")).worked().lines().next().unwrap().to_owned()
    };
    let modern =
        "behaviour modern: a queue of 32 in the drive's own order, a write cache, 850 ns a sector on the bus";
    let fast02 = "behaviour fast02: a queue of 64 in the order of shortest positioning time, a buffer that writes through, 6400 ns a \
                  sector on the bus";
    let none = "behaviour none: one command at a time, 1 may wait, a buffer that writes back, 99000 ns a sector on the bus";
    for (args, parts) in [
        ("", ["Quantum Atlas 10K", "1 outstanding", "fcfs in the drive: mechanics alone"]),
        ("--where outside", ["Quantum Atlas 10K", "fcfs outside the drive", fast02]),
        ("--where device", ["Quantum Atlas 10K", "the drive alone", none]),
        ("--where device --behaviour fast02", ["Quantum Atlas 10K", "the drive alone", fast02]),
        ("--where device --drive nearline-20tb", ["Nearline 20 TB", "the drive alone", modern]),
        ("--where outside --drive nearline-20tb", ["Nearline 20 TB", "fcfs outside the drive", modern]),
        (
            "--where device --behaviour noise",
            ["Quantum Atlas 10K", "behaviour noise:", "a buffer that writes back"],
        ),
    ] {
        let line = first(args);
        for part in parts {
            assert!(line.contains(part), "{args}: no {part:?} in {line:?}");
        }
    }
}

#[test]
fn nothing_is_scheduled_for_a_drive_alone() {
    for flag in ["--policy sptf", "--background scan", "--idle-time on", "--age-weight 5", "--budget 10"] {
        let name = flag.split(' ').next().unwrap();
        run(&format!("simulate --where device {flag}")).complained(2, &[name, "--where device", "leave out"]);
    }
    for flag in ["--conservatism 0.3", "--harm 1", "--blind", "--profile quantum-atlas-10k"] {
        let name = flag.split(' ').next().unwrap();
        run(&format!("simulate --where device {flag}")).complained(2, &[name, "--where outside"]);
    }
}
