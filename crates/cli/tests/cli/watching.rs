//! The dashboard and the alerts of packaging/: each of their queries finds the series that it names in the metrics of a daemon, and
//! each alert fires when it has to.

use crate::support::Dir;
use crate::tasks::TaskDaemon;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const DASHBOARD: &str = include_str!("../../../../packaging/grafana/freeblock.json");
const RULES: &str = "prometheus/freeblock.rules.yml";

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Returns Prometheus's program `name`, installed or unpacked by `make clients`.
fn program(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../prometheus/usr/bin").join(name);
    let found = testing::program(name).or_else(|| unpacked.is_file().then_some(unpacked));
    if found.is_none() {
        testing::missing(name);
    }
    found
}

/// Returns each query of the dashboard with the title of its panel.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (title.to_owned(), target["expr"].as_str().unwrap().to_owned()))
    });
    queries.collect()
}

/// Returns the expression of each alert with its name.
fn alerts() -> Vec<(String, String)> {
    let rules = std::fs::read_to_string(packaging(RULES)).unwrap();
    let after = |key: &str| -> Vec<String> {
        rules.lines().filter_map(|line| line.trim_start().strip_prefix(key)).map(str::to_owned).collect()
    };
    let (names, queries) = (after("- alert: "), after("expr: "));
    assert_eq!(names.len(), queries.len());
    names.into_iter().zip(queries).collect()
}

/// Returns the metrics of a query, each with the labels that the query names for it: in its selector, and in a `by (...)`.
fn selectors(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut grouped = BTreeSet::new();
    for by in query.split("by (").skip(1) {
        grouped.extend(by.split(')').next().unwrap().split(',').map(|label| label.trim().to_owned()));
    }
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find("freeblock_") {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let mut labels = grouped.clone();
        if let Some(selector) = behind.strip_prefix('{') {
            let matchers = selector.split('}').next().unwrap().split(',');
            labels.extend(matchers.map(|matcher| matcher.split(['=', '!']).next().unwrap().to_owned()));
        }
        found.push((name.to_owned(), labels));
        rest = behind;
    }
    found
}

/// A daemon with a finished scrub that recorded checksums, a restore that failed and a paused scrub, and its metrics at two
/// instants.
fn metrics() -> Option<[String; 2]> {
    let here = Dir::new();
    let mut daemon = TaskDaemon::start(Path::new(&here.path("daemon")))?;
    let sums = here.path("sums");
    std::fs::create_dir(&sums).unwrap();
    daemon.says(&["scrub", "--sectors", "256", "--checksums", &sums, "--wait"]);
    let garbage = here.file("garbage", "no image");
    let restore = daemon.run(&["restore", &garbage, "--wait"]);
    assert!(!restore.status.success(), "the restore of no image must fail");
    daemon.says(&["scrub", "--deadline", "1h"]);
    daemon.says(&["pause", "3"]);
    let control = here.path("daemon/control");
    let read = || {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--unix-socket", &control, "http://x/metrics"]);
        let output = curl.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let both = [read(), read()];
    daemon.kill();
    Some(both)
}

/// Returns the labels of each metric that has a series.
fn series(metrics: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').unwrap();
        let labels = labels.split('}').next().unwrap().split(',');
        let labels = labels.map(|label| label.split('=').next().unwrap().to_owned());
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

#[test]
fn each_query_of_the_dashboard_and_the_alerts_names_series_of_a_daemon() {
    if !testing::needs_program("curl") {
        return;
    }
    let Some([metrics, _]) = metrics() else { return };
    let series = series(&metrics);
    let queries: Vec<_> = panels().into_iter().chain(alerts()).collect();
    assert!(queries.len() > 40, "{}", queries.len());
    for (title, query) in &queries {
        let selectors = selectors(query);
        assert!(!selectors.is_empty(), "{title}: {query}");
        for (name, labels) in selectors {
            let found =
                series.get(&name).unwrap_or_else(|| panic!("{title}: no series {name} in:\n{metrics}"));
            assert!(labels.is_subset(found), "{title}: {name} has {found:?}, and {query} names {labels:?}");
        }
    }
    // A metric that no panel shows is of no use to an operator.
    let shown: BTreeSet<String> =
        panels().iter().flat_map(|(_, query)| selectors(query)).map(|(name, _)| name).collect();
    let missing: Vec<_> =
        series.keys().filter(|name| !shown.contains(*name) && !name.ends_with("_sum")).collect();
    let missing: Vec<_> = missing
        .into_iter()
        .filter(|name| !shown.contains(&name.replace("_count", "_bucket")))
        .filter(|name| !shown.contains(&name.replace("_bucket", "_count")))
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "metrics without a panel");
}

#[test]
fn each_alert_fires_for_a_sick_disk_and_not_for_a_healthy_one() {
    let Some(promtool) = program("promtool") else { return };
    let run = |args: &[&str]| -> Output {
        Command::new(&promtool).args(args).current_dir(packaging("prometheus")).output().unwrap()
    };
    for args in [["check", "rules", "freeblock.rules.yml"], ["test", "rules", "freeblock.rules.test.yml"]] {
        let output = run(&args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
    let cases = std::fs::read_to_string(packaging("prometheus/freeblock.rules.test.yml")).unwrap();
    for (name, _) in alerts() {
        let named = format!("alertname: {name}\n");
        assert!(cases.contains(&named), "no case expects {name} to fire");
    }
}

/// Prometheus itself, over the metrics of a daemon at two instants a minute apart.
#[test]
fn prometheus_answers_each_query_of_the_dashboard() {
    let (Some(promtool), Some(prometheus)) = (program("promtool"), program("prometheus")) else { return };
    if !testing::needs_program("curl") {
        return;
    }
    let Some(both) = metrics() else { return };
    let here = Dir::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let file = here.file("metrics", &at_instants(&both, [now - 60, now]));
    let config = here.file("prometheus.yml", "global: {}\n");
    let data = here.path("data");
    let blocks = Command::new(promtool)
        .args(["tsdb", "create-blocks-from", "openmetrics", &file, &data])
        .output()
        .unwrap();
    assert!(blocks.status.success(), "{blocks:?}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut server = Command::new(prometheus);
    server.args([format!("--config.file={config}"), format!("--storage.tsdb.path={data}")]);
    server.arg(format!("--web.listen-address={address}")).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Running(server.spawn().unwrap());
    let ask = |args: &[&str]| -> Output {
        Command::new("curl").args(["-sS", "--max-time", "30"]).args(args).output().unwrap()
    };
    let ready = format!("http://{address}/-/ready");
    // The number of tries is bounded; a try ends at once if nothing listens.
    let is_ready = || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        String::from_utf8_lossy(&ask(&["-f", &ready]).stdout).contains("Ready")
    };
    assert!((0..1200).any(|_| is_ready()), "Prometheus does not start");
    for (title, query) in panels() {
        let query = query.replace("$__rate_interval", "5m").replace("$disk", ".*");
        let output = ask(&[
            "-G",
            &format!("http://{address}/api/v1/query"),
            "--data-urlencode",
            &format!("query={query}"),
            "--data-urlencode",
            &format!("time={now}"),
        ]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(answer["status"], "success", "{title}: {query}: {answer}");
        let found = answer["data"]["result"].as_array().unwrap();
        assert!(!found.is_empty(), "{title}: {query} finds nothing");
        assert!(found.iter().all(|one| one["metric"]["disk"] == "d0"), "{title}: {answer}");
    }
    drop(server);
}

/// A process that is ended at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the metrics of two instants as one text, in which each series has a sample at both.
fn at_instants(metrics: &[String; 2], instants: [u64; 2]) -> String {
    let [first, second] = metrics;
    assert_eq!(first.lines().count(), second.lines().count(), "the same series at both instants");
    let mut out = String::new();
    for lines in first.lines().zip(second.lines()) {
        if lines.0.starts_with('#') {
            writeln!(out, "{}", lines.0).unwrap();
        } else {
            writeln!(out, "{} {}\n{} {}", lines.0, instants[0], lines.1, instants[1]).unwrap();
        }
    }
    out
}
