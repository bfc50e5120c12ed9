//! Traces of all formats as the foreground of `simulate`.

use crate::support::{Dir, command, number, run, run_with, shared};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Returns the result of a replay of `trace` on a 20 TB drive with further arguments.
fn replay(trace: &str, more: &[&str]) -> Value {
    let workload = format!("replay:{trace}");
    let args = ["simulate", "--drive", "nearline-20tb", "--json", "--workload", &workload];
    run_with(&[&args[..], more].concat()).json()
}

#[test]
fn every_public_format_has_the_same_mean_response() {
    // Traces without times or without directions are left out; the resolution of the times decides the tolerance.
    let names = [
        "disksim-ascii.trace",
        "alibaba.csv",
        "biosnoop.txt",
        "blkparse.txt",
        "fio3.log",
        "fiu.blkparse",
        "mqsim.trace",
        "msr.csv",
        "msr.csv.gz",
        "msr-crlf.csv",
        "msr-header.csv",
        "msr-unordered.csv",
        "spc.spc",
        "systor17.csv",
        "systor-semicolon.csv",
        "cloudphysics.csv",
    ];
    let mut means = Vec::new();
    for name in names {
        let Some(path) = shared(&format!("cases/{name}")) else { return };
        let json = replay(&path, &[]);
        assert_eq!(number(&json, "/trace/requests"), 200.0, "{name}: {json}");
        means.push((name, number(&json, "/foreground/mean_response_ms")));
    }
    for (name, mean) in &means {
        assert!((mean - means[0].1).abs() / means[0].1 < 0.01, "{name}: {means:?}");
    }
}

#[test]
fn a_trace_comes_by_standard_input_and_packed() {
    let text: String = (0..500).map(|n| format!("{}.5 0 {} 8 1\n", n * 10, n * 7_919)).collect();
    let dir = Dir::new();
    let expected = replay(&dir.file("plain.trace", &text), &[]);
    let packed = zstd::stream::encode_all(text.as_bytes(), 1).unwrap();
    std::fs::write(dir.path("packed.zst"), &packed).unwrap();
    let same = |found: &Value| assert_eq!(found["foreground"], expected["foreground"]);
    same(&replay(&dir.path("packed.zst"), &[]));
    for bytes in [text.as_bytes(), &packed] {
        same(&piped(bytes, &[]));
    }
}

/// Returns the result of a replay of standard input, which has `bytes`.
fn piped(bytes: &[u8], more: &[&str]) -> Value {
    let args = ["simulate", "--drive", "nearline-20tb", "--json", "--workload", "replay:-"];
    let mut command = command();
    command.args(args).args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_pipe_is_reported_as_the_same_file_is() {
    let texts = [
        // Arrivals out of order, a request without bytes, and one that begins inside a sector.
        "9,h,0,Read,0,512,1\n5,h,0,Read,512,512,1\n7,h,0,Write,100,0,1\n8,h,0,Write,100,512,1\n".to_owned(),
        // Flushes and discards.
        [writes("WFS", "FN"), writes("WS", "DS 0 + 4000")].concat(),
        // Arrivals so rare that the drive is idle for nearly all of the time.
        (0..10).map(|n| format!("{}.0 0 {} 8 1\n", n * 60_000u64, n * 64)).collect(),
        // A trace without arrival times.
        "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n/dev/sda sync 0 0\n"
            .to_owned(),
    ];
    let dir = Dir::new();
    for text in texts {
        for place in ["device", "inside"] {
            let expected = replay(&dir.file("trace", &text), &["--where", place]);
            assert_eq!(piped(text.as_bytes(), &["--where", place])["trace"], expected["trace"], "{text}");
        }
    }
    let two = "0 1 8 8 1\n5 2 8 8 1\n9 2 16 8 1\n";
    let expected = replay(&dir.file("trace", two), &["--device", "2"]);
    assert_eq!(piped(two.as_bytes(), &["--device", "2"])["trace"], expected["trace"]);
}

#[test]
fn devices_are_chosen_and_said() {
    let dir = Dir::new();
    let trace = dir.file("three.trace", "0 1 8 8 1\n5 2 8 8 1\n9 2 16 8 1\n12 3 8 8 0\n");
    let busiest = replay(&trace, &[]);
    assert_eq!(
        (busiest["trace"]["devices"].as_u64(), busiest["trace"]["device"].as_u64()),
        (Some(3), Some(2))
    );
    assert_eq!(number(&busiest, "/foreground/requests"), 2.0);
    let all = replay(&trace, &["--device", "all"]);
    assert_eq!((number(&all, "/foreground/requests"), all["trace"]["device"].is_null()), (4.0, true));
    assert_eq!(number(&replay(&trace, &["--device", "3"]), "/foreground/requests"), 1.0);
    let workload = format!("replay:{trace}");
    run_with(&["simulate", "--workload", &workload, "--device", "9"])
        .complained(1, &["no requests to device 9", "the trace's devices are 1, 2, 3"]);
    let run = run_with(&["simulate", "--workload", &workload]);
    assert!(run.out.contains("device 2 with 2 of the 4 requests to 3 devices"), "{}", run.out);
    // Requests that are left out have a note, in JSON too.
    let note = "2 of the trace's records are to other devices and left out";
    assert!(run.err.contains(note), "{}", run.err);
    assert!(busiest["trace"]["notes"][0].as_str().unwrap().contains(note), "{busiest}");
    assert_eq!(all["trace"]["notes"], serde_json::json!([]));
}

#[test]
fn a_guess_is_said_and_can_be_overruled() {
    let dir = Dir::new();
    let whole: String = (0..100).map(|n| format!("{} 0 {} 8 1\n", n * 2_000_000u64, n * 64)).collect();
    let guessed = replay(&dir.file("whole.trace", &whole), &[]);
    assert_eq!(guessed["trace"]["format"], "mqsim");
    assert!(guessed["trace"]["notes"][0].as_str().unwrap().contains("--time-unit ms"), "{guessed}");
    let reported = replay(&dir.path("whole.trace"), &["--time-unit", "us"]);
    assert!(reported["trace"]["notes"].as_array().unwrap().is_empty(), "{reported}");
    let ratio = number(&reported, "/simulated_s") / number(&guessed, "/simulated_s");
    assert!((900.0..1_010.0).contains(&ratio), "{ratio}");
    // If either unit is plausible, the note names the other one.
    let between: String = (0..100).map(|n| format!("{} 0 {} 8 1\n", n * 3_000u64, n * 64_000)).collect();
    let guessed = replay(&dir.file("between.trace", &between), &[]);
    assert_eq!(guessed["trace"]["format"], "disksim");
    assert!(guessed["trace"]["notes"][0].as_str().unwrap().contains("--format mqsim"), "{guessed}");
    let reported = replay(&dir.path("between.trace"), &["--format", "mqsim"]);
    assert!(reported["trace"]["notes"].as_array().unwrap().is_empty(), "{reported}");
    let slow: String = (0..10).map(|n| format!("{}.0 0 {} 8 1\n", n * 60_000u64, n * 64)).collect();
    let idle = replay(&dir.file("slow.trace", &slow), &[]);
    assert!(idle["trace"]["notes"][0].as_str().unwrap().contains("idle for more than 99.9%"), "{idle}");
    // If the buffer serves the requests, the drive is idle for more than 99.9% of the time even with shorter pauses.
    let buffered: String = (0..100).map(|n| format!("{}.5 0 {} 8 1\n", n * 3_000u64, n * 8)).collect();
    let idle = replay(&dir.file("buffered.trace", &buffered), &[]);
    assert!(number(&idle, "/foreground/utilisation") < 0.001, "{idle}");
    assert!(idle["trace"]["notes"][0].as_str().unwrap().contains("idle for more than 99.9%"), "{idle}");
}

#[test]
fn a_wrapped_block_keeps_its_place() {
    let Some(path) = shared("cases/edge/wrap-same-block.trace") else { return };
    let workload = format!("replay:{path}");
    let wrapped = run_with(&["simulate", "--json", "--wrap", "--workload", &workload]).json();
    assert_eq!(wrapped["trace"]["wrapped"], wrapped["trace"]["requests"], "{wrapped}");
}

#[test]
fn sorted_arrivals_and_left_out_records_are_said() {
    let dir = Dir::new();
    let trace = dir.file("order.csv", "9,h,0,Read,0,512,1\n5,h,0,Read,512,512,1\n7,h,0,Write,100,0,1\n");
    let json = replay(&trace, &[]);
    let count = |of: &str| json["trace"][of].as_u64();
    assert_eq!((count("out_of_order"), count("left_out")), (Some(1), Some(1)));
    let notes = json["trace"]["notes"].to_string();
    assert!(notes.contains("1 of the trace's records were sorted by arrival"), "{notes}");
    assert!(notes.contains("1 of the trace's records have no bytes"), "{notes}");
}

#[test]
fn mistakes_of_a_trace_are_named() {
    let dir = Dir::new();
    run("simulate --format spc").complained(2, &["--format", "replay:FILE"]);
    run("simulate --workload replay:x --format nonsense").complained(2, &["no format of traces", "alibaba"]);
    run("simulate --workload replay:x --format csv").complained(2, &["csv:time=5"]);
    run("simulate --workload replay:x --event X").complained(2, &["give Q"]);
    run("simulate --workload replay:x --time-unit h").complained(2, &["s, ms, us, 100ns and ns"]);
    run("simulate --workload replay:x --device first").complained(2, &["all or each"]);
    let long = format!("replay:{}", dir.file("long.trace", "0.5 0 100 8 1\n5.5 0 100 3000000 1\n"));
    run_with(&["simulate", "--workload", &long]).complained(1, &["in one command", "are shorter"]);
    let cut = dir.path("cut.zst");
    let packed = zstd::stream::encode_all(&b"0.5 0 8 8 1\n".repeat(9_000)[..], 1).unwrap();
    std::fs::write(&cut, &packed[..packed.len() / 2]).unwrap();
    let workload = format!("replay:{cut}");
    run_with(&["simulate", "--workload", &workload]).complained(1, &["cut.zst", "cannot read on"]);
}

/// Bounds the memory of a replay, in MiB (docs/BENCHMARKS.md).
#[cfg(target_os = "linux")]
const PEAK_MIB_MAX: f64 = 64.0;

/// Bounds a replay's memory without the pages of the program's own file, in MiB: a build for tests has more of its file in
/// memory than a release, which has 12 MiB.
#[cfg(target_os = "linux")]
const OWN_MIB_MAX: f64 = PEAK_MIB_MAX - 12.0;

/// Replays `requests` generated lines from a pipe, packed by zstd with its largest permitted window or plain; returns the
/// peak of the resident memory in MiB, and the part of it that is not the program's file.
#[cfg(target_os = "linux")]
fn memory_of_a_pipe(requests: u64, packed: bool) -> [f64; 2] {
    use std::io::{BufWriter, Read};
    let args = ["simulate", "--json", "--workload", "replay:-", "--format", "disksim"];
    let mut child = command().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdin.take().unwrap();
    // With zstd the lines are so long that few requests suffice to exceed its window.
    let device = format!("{:1$}", 0, if packed { 320 } else { 40 });
    let lines = |to: &mut dyn Write| {
        for n in 0..requests {
            // Each two neighbours are in the wrong order, so that the window that sorts arrivals is used.
            let (ms, lbn) = ((n ^ 1) * 12, n.wrapping_mul(0x9e37_79b9) % 17_000_000);
            // One call for each line, because this code is not optimised, and that of the standard library is.
            to.write_all(format!("{ms}.25 {device} {lbn} 8 {}\n", n % 2).as_bytes()).unwrap();
        }
        to.flush().unwrap();
    };
    // The child has read all but the last part of the pipe, and its window of arrivals is full.
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        ["VmHWM:", "RssAnon:"].map(|name| {
            let size = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            size.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
        })
    };
    let memory = if packed {
        let mut to = zstd::stream::Encoder::new(pipe, 1).unwrap();
        to.window_log(25).unwrap();
        lines(&mut to);
        let memory = memory();
        drop(to.finish().unwrap());
        memory
    } else {
        let mut to = BufWriter::new(pipe);
        lines(&mut to);
        memory()
    };
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(number(&json, "/trace/requests"), requests as f64);
    memory
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_a_trace_in_a_pipe() {
    // The shorter trace fills the window of arrivals already.
    let requests = testing::sized([600_000, 1_200_000], [700_000, 1_700_000]);
    let [[_, short], [_, long]] = requests.map(|requests| memory_of_a_pipe(requests, false));
    assert!(long < short + 4.0 && long < OWN_MIB_MAX, "{short} MiB, then {long} MiB");
    // The packed trace has more bytes than the window of zstd.
    let [_, packed] = memory_of_a_pipe(120_000, true);
    assert!(packed < OWN_MIB_MAX, "{packed} MiB with zstd");
}

/// Prints the figures of docs/BENCHMARKS.md.
#[test]
#[ignore = "takes minutes"]
#[cfg(target_os = "linux")]
#[allow(clippy::print_stdout, reason = "it is a benchmark")]
fn a_hundred_million_requests_in_a_pipe() {
    for (requests, packed) in
        [(1_000_000, false), (10_000_000, false), (10_000_000, true), (100_000_000, false)]
    {
        let [peak, _] = memory_of_a_pipe(requests, packed);
        println!("{requests:>11} requests{}: {peak:.1} MiB at most", if packed { ", zstd" } else { "" });
        assert!(peak < PEAK_MIB_MAX);
    }
}

/// Returns a block trace of 60 writes of blkparse's `kind`, each followed after 2 ms by `line`.
fn writes(kind: &str, line: &str) -> String {
    let at = |n: u64, us: u64| format!("8,0 0 {} {}.{:06} 1 Q", n + 1, n / 10, n % 10 * 100_000 + us);
    let pair = |n: u64| {
        let second = if line.is_empty() { String::new() } else { format!("{} {line} [a]\n", at(n, 2_000)) };
        format!("{} {kind} {} + 8 [a]\n{second}", at(n, 0), n * 7_919_000 % 17_000_000)
    };
    (0..60).map(pair).collect()
}

#[test]
fn flushes_forced_writes_and_discards_are_served_by_the_drive_alone() {
    let dir = Dir::new();
    let replay = |kind: &str, line: &str, place: &str| {
        let trace = dir.file("trace", &writes(kind, line));
        let (workload, log) = (format!("replay:{trace}"), dir.path("log.csv"));
        let args = ["simulate", "--drive", "quantum-atlas-10k", "--json", "--where", place];
        let json = run_with(&[&args[..], &["--workload", &workload, "--log", &log]].concat()).json();
        (json, std::fs::read_to_string(log).unwrap())
    };
    let write_ms = |json: &Value| number(json, "/foreground/writes/mean_ms");
    let (plain, _) = replay("WS", "", "device");
    // A write goes to the buffer, and a flush behind it waits for the arm.
    let (flushed, log) = replay("WS", "FN", "device");
    assert_eq!((number(&flushed, "/flushes/requests"), write_ms(&flushed)), (60.0, write_ms(&plain)));
    assert!(number(&flushed, "/flushes/mean_ms") > 3.0, "{}", flushed["flushes"]);
    assert_eq!(number(&flushed, "/foreground/requests"), 60.0, "flushes are no reads and no writes");
    assert_eq!((log.matches(",flush,0,0,").count(), log.matches(",flushed,").count()), (60, 60));
    assert_eq!(flushed["trace"]["notes"], serde_json::json!([]));
    // A write that begins with a flush is as fast as one without: the write before it is long on the medium. A forced write
    // waits for the arm.
    let (before, _) = replay("FWS", "", "device");
    assert!(write_ms(&before) < write_ms(&plain) + 1.0, "{before}");
    let (forced, _) = replay("WFS", "", "device");
    assert!(write_ms(&forced) > write_ms(&plain) + 3.0, "{} {}", write_ms(&forced), write_ms(&plain));
    let (discards, log) = replay("WS", "DS 0 + 4000000", "device");
    assert!(number(&discards, "/discards/max_ms") < 10.0, "{}", discards["discards"]);
    assert_eq!(log.matches(",discard,0,4000000,").count(), 60);
    // A log is replayed as a trace, without its flushes and discards.
    let again = dir.file("again.csv", &log);
    let columns = "csv:time=arrival_ns,unit=ns,op=op,lbn=lbn,sectors=sectors";
    let workload = format!("replay:{again}");
    let args = ["simulate", "--json", "--format", columns, "--workload", &workload];
    assert_eq!(number(&run_with(&args).json(), "/foreground/requests"), 60.0);
}

#[test]
fn a_scheduler_outside_the_drive_and_an_array_send_flushes_forced_writes_and_discards() {
    let dir = Dir::new();
    let replay = |kind: &str, line: &str, flags: &[&str]| {
        let trace = dir.file("trace", &writes(kind, line));
        let (workload, log) = (format!("replay:{trace}"), dir.path("log.csv"));
        let args =
            ["simulate", "--drive", "quantum-atlas-10k", "--json", "--workload", &workload, "--log", &log];
        let json = run_with(&[&args[..], flags].concat()).json();
        assert_eq!(json["trace"]["notes"], serde_json::json!([]));
        (json, std::fs::read_to_string(log).unwrap())
    };
    let write_ms = |json: &Value| number(json, "/foreground/writes/mean_ms");
    let alone = ["--where", "outside", "--behaviour", "none"];
    for (flags, drives) in [
        (&alone[..], 1),
        (&["--drives", "3", "--array", "mirror"][..], 3),
        (&[&alone[..], &["--drives", "3", "--array", "mirror"][..]].concat(), 3),
    ] {
        let (plain, _) = replay("WS", "", flags);
        let (flushed, log) = replay("WS", "FN", flags);
        assert_eq!((number(&flushed, "/flushes/requests"), write_ms(&flushed)), (60.0, write_ms(&plain)));
        assert!(number(&flushed, "/flushes/mean_ms") > 3.0, "{}", flushed["flushes"]);
        assert_eq!(number(&flushed, "/foreground/requests"), 60.0, "flushes are no reads and no writes");
        assert_eq!(log.matches(",flush,0,0,").count(), 60 * drives);
        let (before, _) = replay("FWS", "", flags);
        assert!(write_ms(&before) < write_ms(&plain) + 1.5, "{} {}", write_ms(&before), write_ms(&plain));
        let (forced, _) = replay("WFS", "", flags);
        assert!(write_ms(&forced) > write_ms(&plain) + 3.0, "{} {}", write_ms(&forced), write_ms(&plain));
        let (discards, log) = replay("WS", "DS 0 + 4000000", flags);
        assert!(number(&discards, "/discards/max_ms") < 10.0, "{}", discards["discards"]);
        assert_eq!(log.matches(",discard,0,4000000,").count(), 60 * drives);
    }
    // A flush of one device does not flush another.
    let device =
        |line: &str| line.replacen("8,0 ", if line.contains(" FN ") { "8,16 " } else { "8,0 " }, 1) + "\n";
    let trace = dir.file("two", &writes("WS", "FN").lines().map(device).collect::<String>());
    let (workload, log) = (format!("replay:{trace}"), dir.path("log.csv"));
    let each = ["--drives", "2", "--device", "each", "--workload", &workload, "--log", &log];
    let each =
        run_with(&[&["simulate", "--drive", "quantum-atlas-10k", "--json"], &each[..]].concat()).json();
    assert_eq!(number(&each, "/flushes/requests"), 60.0);
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!((log.matches(",flush,0,0,1,").count(), log.matches(",flush,").count()), (60, 60));
    let fleet = {
        let workload = format!("replay:{}", dir.file("trace", &writes("WS", "FN")));
        let run =
            run_with(&["simulate", "--json", "--drives", "3", "--independent", "--workload", &workload]);
        assert!(run.err.contains("every drive gave the same result"), "{}", run.err);
        serde_json::from_str::<Value>(&run.out).unwrap()
    };
    assert_eq!((number(&fleet, "/flushes/requests"), number(&fleet, "/foreground/requests")), (180.0, 180.0));
    // With a scheduler in the drive a completed write is on the medium: nothing is left to flush.
    let (inside, _) = replay("WFS", "FN", &["--where", "inside"]);
    assert_eq!((number(&inside, "/flushes/requests"), number(&inside, "/flushes/max_ms")), (60.0, 0.0));
}
