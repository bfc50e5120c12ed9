//! The results of `freeblock simulate` beyond one page: warm-up, intervals, seeds, and the log.

use crate::support::{Dir, keys, number, run, run_with, shared};
use serde_json::Value;

#[test]
fn a_warm_up_is_left_out() {
    let args = "simulate --rate 60 --requests 3000 --json";
    let (whole, rest) = (run(args).json(), run(&format!("{args} --warmup 1000")).json());
    assert_eq!(
        (number(&rest, "/foreground/requests"), number(&rest, "/warmup/requests")),
        (2_000.0, 1_000.0)
    );
    let (left, measured) = (number(&rest, "/warmup/simulated_s"), number(&rest, "/simulated_s"));
    assert!((left + measured - number(&whole, "/simulated_s")).abs() < 0.1, "{left} {measured}");
    // The mean of the whole run is the weighted mean of the warm-up's and the rest's.
    let first = number(&run(&args.replace("3000", "1000")).json(), "/foreground/mean_response_ms");
    let mean = (first * 1_000.0 + number(&rest, "/foreground/mean_response_ms") * 2_000.0) / 3_000.0;
    assert!((mean - number(&whole, "/foreground/mean_response_ms")).abs() < 1e-6, "{mean}");
    let page = run("simulate --rate 60 --requests 3000 --warmup 1000").worked();
    assert!(page.contains("1,000 requests in the first"), "{page}");
    let timed = run(&format!("{args} --warmup 10s")).json();
    assert_eq!(number(&timed, "/warmup/simulated_s"), 10.0);
    let requests = number(&timed, "/warmup/requests");
    assert_eq!(number(&timed, "/foreground/requests"), 3_000.0 - requests);
    assert!((500.0..700.0).contains(&requests), "{requests}");
}

#[test]
fn a_warm_up_that_leaves_nothing_is_refused() {
    run("simulate --requests 100 --warmup 100").complained(2, &["--warmup 100", "--requests 100"]);
    run("simulate --rate 60 --requests 100 --warmup 60s")
        .complained(1, &["nothing is left", "shorter --warmup"]);
    run("simulate --warmup 5m").complained(2, &["1000, or seconds with an s, such as 60s"]);
    let dir = Dir::new();
    let trace = dir.file("few.trace", "R Hit 1000 8 1.0 1.0\n");
    run_with(&["simulate", "--workload", &format!("replay:{trace}"), "--warmup", "10"])
        .complained(1, &["the trace ended after 1 requests, within the warm-up"]);
}

#[test]
fn intervals_cover_the_run() {
    let args = "simulate --rate 60 --requests 2000 --warmup 100 --every 5";
    let json = run(&format!("{args} --json")).json();
    let series = json["series"].as_array().unwrap();
    let from = number(&json, "/warmup/simulated_s");
    let mut at = from;
    let mut requests = 0.0;
    for interval in series {
        assert!((number(interval, "/from_s") - at).abs() < 1e-6, "{interval}");
        at = number(interval, "/to_s");
        requests += number(interval, "/requests");
        assert_eq!(interval["reads"].as_object().map(|reads| reads.len()), Some(11));
    }
    assert_eq!(requests, 1_900.0);
    assert!((at - from - number(&json, "/simulated_s")).abs() < 0.02, "{at}");
    let page = run(args).worked();
    assert!(page.contains("\nIntervals\n") && page.contains("longest ms"), "{page}");
    assert_eq!(page.split("Intervals").nth(1).unwrap().lines().count(), series.len() + 3, "{page}");
    run("simulate --every 0").complained(2, &["give seconds, more than 0"]);
    run("simulate --rate 0.01 --requests 10 --every 0.001")
        .complained(2, &["100000 intervals", "longer ones"]);
}

#[test]
fn seeds_give_means_with_intervals_that_narrow() {
    let args = "simulate --rate 60 --requests 400 --json";
    let (few, many) = (run(&format!("{args} --seeds 3")).json(), run(&format!("{args} --seeds 30")).json());
    let one = run(args).json();
    // The JSON has the keys of one run, and more.
    for part in ["foreground", "head_time", "background"] {
        assert_eq!(keys(&many[part]), keys(&one[part]), "{part}");
    }
    assert_eq!(keys(&many["seeds"]), ["confidence", "count", "half_width", "runs"]);
    assert_eq!((number(&many, "/seed"), number(&many, "/seeds/count")), (42.0, 30.0));
    let runs = many["seeds"]["runs"].as_array().unwrap();
    assert_eq!(runs[0]["foreground"], one["foreground"]);
    assert_eq!((number(&runs[29], "/seed"), runs.len()), (71.0, 30));
    let means: Vec<f64> = runs.iter().map(|run| number(run, "/foreground/mean_response_ms")).collect();
    let mean = means.iter().sum::<f64>() / 30.0;
    assert!((number(&many, "/foreground/mean_response_ms") - mean).abs() < 1e-9);
    let sd = (means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 29.0).sqrt();
    let half = |json: &Value| number(json, "/seeds/half_width/foreground/mean_response_ms");
    // Student's t for 29 degrees of freedom.
    assert!((half(&many) - 2.0452 * sd / 30.0_f64.sqrt()).abs() < 1e-9, "{}", half(&many));
    assert!(half(&many) < half(&few), "{} {}", half(&many), half(&few));
    let page = run("simulate --rate 60 --requests 400 --seeds 3").worked();
    for part in ["3 runs, seeds 42 to 44", "95%", "response time, mean ms", "+- ", "busy, %"] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    assert!(!page.contains("potential used"), "{page}");
    let scan = run("simulate --workload oltp --requests 400 --background scan --seeds 2").worked();
    assert!(scan.contains("potential used"), "{scan}");
}

#[test]
fn seeds_that_change_nothing_are_reported() {
    let dir = Dir::new();
    let trace = dir.file("few.trace", "R Hit 1000 8 1.0 1.0\nR Hit 500000 8 1.0 1.0\n");
    let workload = format!("replay:{trace}");
    let said = run_with(&["simulate", "--workload", &workload, "--seeds", "3"]);
    assert!(said.code == Some(0) && said.err.contains("every seed gave the same result"), "{}", said.err);
    for (flag, args) in [
        ("--log", "simulate --seeds 3 --log x.csv"),
        ("--every", "simulate --seeds 3 --every 1"),
        ("standard input", "simulate --seeds 3 --workload replay:-"),
        ("--learnt", "simulate --seeds 3 --policy smtf --learnt x"),
        ("largest seed", "simulate --seeds 3 --seed 18446744073709551615"),
    ] {
        run(args).complained(2, &[flag, "--seeds"]);
    }
    assert!(dir.names() == ["few.trace"]);
}

const HEADING: &str = "arrival_ns,start_ns,completion_ns,op,lbn,sectors,device,cache_hit,served,seek_ns,rotation_ns,transfer_ns,id";

#[test]
fn the_log_has_every_request_and_adds_up_to_the_result() {
    for place in ["inside", "outside", "device"] {
        let dir = Dir::new();
        let log = dir.path("requests.csv");
        let args =
            format!("simulate --where {place} --rate 60 --requests 2000 --warmup 500 --json --log {log}");
        let json = run(&args).json();
        let text = std::fs::read_to_string(&log).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADING), "{place}");
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 1_500, "{place}");
        let ns = |row: &[&str], column: usize| row[column].parse::<u64>().unwrap();
        let mean = rows.iter().map(|row| (ns(row, 2) - ns(row, 0)) as f64 / 1e6).sum::<f64>() / 1_500.0;
        assert!((mean - number(&json, "/foreground/mean_response_ms")).abs() < 1e-6, "{place}: {mean}");
        let reads = rows.iter().filter(|row| row[3] == "read").count();
        assert_eq!(reads as f64, number(&json, "/foreground/reads/requests"), "{place}");
        assert!(rows.iter().all(|row| ns(row, 0) <= ns(row, 1) && ns(row, 1) <= ns(row, 2)), "{place}");
        assert!(rows.iter().all(|row| row[5] == "8" && row[6] == "0"), "{place}");
        let hits = rows.iter().filter(|row| row[7] == "1").count();
        assert_eq!(hits > 0, place == "device", "{place}: {hits}");
        let seek =
            rows.iter().map(|row| ns(row, 9)).sum::<u64>() as f64 / 1e9 / number(&json, "/simulated_s");
        assert!((seek - number(&json, "/head_time/seek")).abs() < 0.01, "{place}: {seek}");
    }
}

/// A log is a trace that can be replayed.
#[test]
fn a_log_can_be_replayed() {
    let dir = Dir::new();
    let [first, second] = ["first.csv", "second.csv"].map(|name| dir.path(name));
    let one = run(&format!("simulate --where device --rate 40 --requests 500 --json --log {first}")).json();
    let replay = format!("replay:{first}");
    let columns = "csv:time=arrival_ns,unit=ns,op=op,lbn=lbn,sectors=sectors";
    let again = ["simulate", "--workload", &replay, "--format", columns, "--log", &second, "--json"];
    let two = run_with(&again).json();
    assert_eq!(two["foreground"]["requests"], one["foreground"]["requests"]);
    let [first, second] = [first, second].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(first.lines().count(), second.lines().count());
    let places = |text: &str| -> Vec<String> {
        text.lines().map(|row| row.split(',').skip(3).take(3).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(places(&first), places(&second));
}

#[test]
fn a_log_that_cannot_be_written_is_named() {
    run("simulate --requests 10 --log requests.txt").complained(2, &["--log", ".csv or .parquet"]);
    run("simulate --requests 10 --log /nonexistent/requests.csv")
        .complained(1, &["/nonexistent/requests.csv"]);
    #[cfg(target_os = "linux")]
    {
        // The link's name ends in .csv, and it leads to a device that is always full.
        let dir = Dir::new();
        let full = dir.path("full.csv");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        run_with(&["simulate", "--requests", "20000", "--log", &full])
            .complained(1, &["full.csv", "has room"]);
    }
}

#[test]
#[cfg(not(feature = "parquet"))]
fn without_the_feature_the_refusal_of_parquet_says_how_to_build_with_it() {
    run("simulate --requests 10 --log requests.parquet")
        .complained(2, &["built without Parquet", "--features parquet", "FILE.csv"]);
}

#[test]
#[cfg(feature = "parquet")]
fn with_the_feature_parquet_is_written() {
    let dir = Dir::new();
    let log = dir.path("requests.parquet");
    run(&format!("simulate --requests 2000 --log {log}")).worked();
    let bytes = std::fs::read(&log).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
}

#[test]
fn validate_has_the_distribution_and_the_classes_in_json() {
    let Some(trace) = shared("drives/traces/atlas10k.trace") else { return };
    let args = ["drive", "validate", "quantum-atlas-10k", "--trace", &trace];
    let json = run_with(&[&args[..], &["--json"]].concat()).json();
    let cdf = json["cdf"].as_array().unwrap();
    assert_eq!((cdf.len(), number(&cdf[49], "/share")), (100, 0.5));
    let column = |name: &str| -> Vec<f64> { cdf.iter().map(|point| point[name].as_f64().unwrap()).collect() };
    assert!(column("trace_ms").is_sorted() && column("model_ms").is_sorted());
    // The demerit figure is the distance of the two distributions, here from a hundred points of each.
    let squares: Vec<f64> =
        column("trace_ms").iter().zip(column("model_ms")).map(|(a, b)| (a - b).powi(2)).collect();
    let distance = (squares.iter().sum::<f64>() / 100.0).sqrt();
    let demerit = number(&json, "/demerit_ms");
    assert!((distance - demerit).abs() < demerit, "{distance} {demerit}");
    let classes = json["classes"].as_array().unwrap();
    assert_eq!(
        classes.iter().map(|class| number(class, "/requests")).sum::<f64>(),
        number(&json, "/requests")
    );
    let page = run_with(&args).worked();
    let table = page.split("By kind of request").nth(1).unwrap();
    assert_eq!(table.lines().count(), classes.len() + 3, "{page}");
    for class in classes {
        let word = |name: &str| class[name].as_str().unwrap().to_owned();
        let kind = format!("{} {} after a {}", word("distance"), word("op"), word("after"));
        assert!(table.contains(&kind), "no {kind:?} in:\n{table}");
    }
    let median = format!("50%     {:.3}", number(&cdf[49], "/trace_ms"));
    assert!(
        page.split_whitespace().collect::<Vec<_>>().join(" ").contains(&median.replace("     ", " ")),
        "{page}"
    );
}
