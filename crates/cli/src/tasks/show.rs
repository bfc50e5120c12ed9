//! Tasks and disks for people.

use crate::caution::{MISTRUSTED, unused_because};
use crate::measured::measured;
use crate::tables::{grouped, table};
use scheduler::Caution;
use serde_json::Value;
use std::fmt::Write;

/// Returns all tasks of all disks.
pub(crate) fn tasks_of(status: &Value) -> impl Iterator<Item = &Value> {
    let disks = status["disks"].as_array().into_iter().flatten();
    disks.flat_map(|disk| disk["tasks"].as_array().into_iter().flatten())
}

/// Returns a line for each disk that did not answer.
pub(crate) fn unanswered(status: &Value) -> impl Iterator<Item = String> {
    let disks = status["disks"].as_array().into_iter().flatten();
    disks.filter_map(|disk| Some(format!("{}: {}", text(disk, "name"), disk["error"].as_str()?)))
}

/// The most LBNs that are listed of one kind of fault: a screen has room for them.
const LISTED_LBNS_MAX: usize = 20;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

fn share(task: &Value) -> String {
    match (task["done"].as_f64(), task["blocks"].as_f64()) {
        (Some(done), Some(blocks)) if blocks > 0.0 => format!("{:.1}%", done / blocks * 100.0),
        _ => "-".into(),
    }
}

fn rate(task: &Value) -> String {
    task["rate_bytes_per_s"].as_f64().map_or("-".into(), |rate| format!("{:.2} MB/s", rate / 1e6))
}

/// Returns a duration in words.
fn time(seconds: f64) -> String {
    let whole = seconds.max(0.0).ceil() as u64;
    match whole {
        0..=119 => format!("{whole} s"),
        120..=7_199 => format!("{} min", whole / 60),
        7_200..=172_799 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

fn eta(task: &Value) -> String {
    task["eta_s"].as_f64().map_or("-".into(), time)
}

/// Returns the remarks on a task.
fn remark(task: &Value) -> String {
    let mut remarks = Vec::new();
    if let Some(reason) = task["reason"].as_str() {
        remarks.push(reason.to_owned());
    }
    if task["misses_deadline"].as_bool() == Some(true) {
        let over = is_over(task);
        remarks.push(if over { "missed its deadline" } else { "will miss its deadline" }.into());
    }
    remarks.extend(faults(task));
    if let Some(blocks @ 1..) = task["differences"]["unsettled"].as_u64() {
        remarks.push(format!("{} blocks were written at every reading", grouped(blocks)));
    }
    remarks.join("; ")
}

/// Returns the kinds of faults that a task has found on its disks, with the count of each kind.
pub(crate) fn faults(task: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let bad = task["bad_lbns"].as_array().map_or(0, Vec::len) as u64 + task["bad_more"].as_u64().unwrap_or(0);
    if bad > 0 {
        faults.push(format!("{} bad sectors", grouped(bad)));
    }
    let found = &task["checksums"];
    let wrong =
        found["wrong"].as_array().map_or(0, Vec::len) as u64 + found["wrong_more"].as_u64().unwrap_or(0);
    if wrong > 0 {
        faults.push(format!("{} BLOCKS DIFFER FROM THEIR CHECKSUMS", grouped(wrong)));
    }
    let differ = &task["differences"];
    let listed = differ["lbns"].as_array().map_or(0, Vec::len) as u64;
    let differing = listed + differ["more"].as_u64().unwrap_or(0);
    if differing > 0 {
        faults.push(format!("{} SECTORS DO NOT AGREE", grouped(differing)));
    }
    faults
}

/// Returns the first entries of a list of LBNs as text; `None` if the list is empty.
fn listed(places: &Value, name: impl Fn(&Value) -> String) -> Option<String> {
    let places = places.as_array().filter(|places| !places.is_empty())?;
    let first: Vec<String> = places.iter().take(LISTED_LBNS_MAX).map(name).collect();
    let more = if places.len() > LISTED_LBNS_MAX { "; --json lists more" } else { "" };
    Some(first.join(", ") + more)
}

/// Returns whether a task is a snapshot.
pub(crate) fn is_snapshot(task: &Value) -> bool {
    task["kind"] == "snapshot"
}

/// Returns whether a task is over.
pub(crate) fn is_over(task: &Value) -> bool {
    matches!(text(task, "state"), "done" | "failed" | "cancelled")
}

/// Returns a line for each member of a comparison that is larger than others, about the sectors that are not compared.
pub(crate) fn left_out<'a>(spec: &'a Value, disks: &'a Value) -> impl Iterator<Item = String> + 'a {
    let members = spec["members"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let size_of = |name: &str| {
        let disks = disks["disks"].as_array().into_iter().flatten();
        disks.clone().find(|disk| disk["name"] == *name).and_then(|disk| disk["sectors"].as_u64())
    };
    let end = ["first_lbn", "sectors"].iter().map(|key| spec[key].as_u64().unwrap_or(0)).sum::<u64>();
    members.filter_map(move |name| {
        let size = size_of(name).filter(|size| *size > end)?;
        Some(format!(
            "{name}: LBNs {end} to {} are not compared: the comparison ends with the smallest member{}",
            size - 1,
            if spec["chunk_sectors"].is_null() { "" } else { ", in whole chunks" }
        ))
    })
}

/// Returns a table of the snapshots that clients can read or may expect; with `all`, of all snapshots. A failed snapshot is
/// listed as long as no live one has its name.
pub(crate) fn snapshots(status: &Value, all: bool) -> String {
    let name = |task: &Value| format!("{}@{}", text(task, "disk"), text(&task["spec"], "name"));
    let lives = |of: &Value| {
        tasks_of(status).any(|task| is_snapshot(task) && !is_over(task) && name(task) == name(of))
    };
    let is_listed = |task: &Value| all || !is_over(task) || text(task, "state") == "failed" && !lives(task);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let left = |task: &Value| match task["spec"]["expires_unix_s"].as_f64() {
        Some(at) if !is_over(task) => time(at - now.as_secs_f64()),
        _ => "-".into(),
    };
    let rows: Vec<Vec<String>> = tasks_of(status)
        .filter(|task| is_snapshot(task) && is_listed(task))
        .map(|task| {
            let kept = format!("{:.1} MB", task["bytes"].as_f64().unwrap_or(0.0) / 1e6);
            let state = text(task, "state");
            vec![
                task["id"].to_string(),
                name(task),
                if matches!(state, "done" | "cancelled") { "ended" } else { state }.into(),
                if is_over(task) { "-".into() } else { kept },
                left(task),
                remark(task),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "no snapshots\n".into();
    }
    table(&["task", "export", "state", "kept", "ends in", ""], &[1, 2, 5], rows)
}

/// Returns a table of all tasks.
pub(crate) fn tasks(status: &Value) -> String {
    let rows: Vec<Vec<String>> = tasks_of(status)
        .map(|task| {
            vec![
                task["id"].to_string(),
                text(task, "disk").into(),
                text(task, "kind").into(),
                text(task, "state").into(),
                task["priority"].to_string(),
                share(task),
                rate(task),
                eta(task),
                remark(task),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "no tasks\n".into();
    }
    let header = ["task", "disk", "kind", "state", "priority", "done", "rate", "to go", ""];
    table(&header, &[1, 2, 3, 8], rows)
}

/// Returns a description of one task.
pub(crate) fn task(task: &Value) -> String {
    let mut out =
        format!("{} {} of {} is {}", text(task, "kind"), task["id"], text(task, "disk"), text(task, "state"));
    let said = remark(task);
    if !said.is_empty() {
        let _ = write!(out, ": {said}");
    }
    out.push('\n');
    let number = |key: &str| task[key].as_u64().unwrap_or(0);
    if number("blocks") > 0 {
        let (done, blocks) = (grouped(number("done")), grouped(number("blocks")));
        let _ = writeln!(out, "  {done} of {blocks} blocks, {}, {} to go", rate(task), eta(task));
        let harm = &task["harm"];
        let share = harm["share"].as_f64().unwrap_or(0.0) * 100.0;
        let with = if harm["shared"].as_bool() == Some(true) { ", together with other tasks" } else { "" };
        let _ = writeln!(out, "  harm of its work in idle time: {share:.2}%{with}");
    }
    if let Some(bad) = listed(&task["bad_lbns"], Value::to_string) {
        let _ = writeln!(out, "  bad sectors: {bad}");
    }
    let found = &task["checksums"];
    if found.is_object() {
        let count = |key: &str| grouped(found[key].as_u64().unwrap_or(0));
        let _ = writeln!(
            out,
            "  checksums: {} blocks verified, {} recorded",
            count("verified"),
            count("recorded")
        );
    }
    let differ = &task["differences"];
    if let Some(differing) = listed(&differ["lbns"], Value::to_string) {
        let _ = writeln!(out, "  members do not agree at LBNs: {differing}");
    }
    let of_disk = |at: &Value| format!("{} of {}", at["lbn"], text(at, "disk"));
    if let Some(unreadable) = listed(&differ["unreadable"], of_disk) {
        let _ = writeln!(out, "  unreadable: {unreadable}");
    }
    if let Some(wrong) = listed(&found["wrong"], Value::to_string) {
        let _ = writeln!(out, "  differing from their checksums, blocks at: {wrong}");
    }
    out
}

/// Returns the lines about the background export and the snapshots; none if there are no such exports.
fn all_background_requests(of: &Value) -> String {
    let snapshots = of["snapshot_requests"].as_array();
    let snapshots = snapshots.into_iter().flatten().map(|one| {
        let name = one["name"].as_str().unwrap_or_default();
        background_requests(&format!("snapshot {name}"), one)
    });
    std::iter::once(background_requests("background", &of["background_requests"])).chain(snapshots).collect()
}

/// Returns why the requests of a background export wait, if they wait and the reason is known.
fn waits(of: &Value) -> Option<String> {
    let wait = &of["wait"];
    let number = |key: &str| wait[key].as_f64();
    let silence =
        || number("silence_s").map_or(String::new(), |s| format!("{} without foreground requests", time(s)));
    let why = match wait["reason"].as_str()? {
        "requests" => "for gaps and idle time: foreground requests are under way".to_owned(),
        "silence" => format!("for {}", silence()),
        "harm" => format!("the bound on harm has no room: for {}, or until it has", silence()),
        "measurement" => "the cost of background work is measured by a time without it".to_owned(),
        "gaps_only" => "for gaps of the foreground: idle time is not used".to_owned(),
        "paused" => "the snapshot is paused".to_owned(),
        "fence" => "a task has these sectors".to_owned(),
        reason => reason.to_owned(),
    };
    let to_go = |s: Option<f64>, what: &str| s.map(|s| format!("; {} to go{what}", time(s)));
    let own = to_go(number("to_go_s"), "");
    Some(
        [Some(why), own, to_go(of["floor_to_go_s"].as_f64(), " until the floor")]
            .into_iter()
            .flatten()
            .collect(),
    )
}

/// Returns the lines about an export whose requests are background work.
fn background_requests(export: &str, of: &Value) -> String {
    let mut out = String::new();
    if !of.is_object() {
        return out;
    }
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (reads, mb) = (of["reads"]["count"].as_u64().unwrap_or(0), number(&of["read_bytes"]) / 1e6);
    let waiting = of["waiting"].as_u64().unwrap_or(0);
    let _ = write!(
        out,
        "  export      {export}: {} reads, {mb:.1} MB; {} waiting",
        grouped(reads),
        grouped(waiting)
    );
    if waiting > 0 {
        let _ = write!(out, ", the oldest for {:.1} s", number(&of["oldest_wait_us"]) / 1e6);
    }
    out.push('\n');
    if let Some(wait) = waits(of) {
        let _ = writeln!(out, "  waits       {wait}");
    }
    let mb = |key: &str| number(&of["memory"][key]) / 1e6;
    if mb("given_bytes") + mb("held_bytes") > 0.0 {
        let (given, held, unread) = (mb("given_bytes"), mb("held_bytes"), mb("unread_bytes"));
        let _ = writeln!(
            out,
            "  read ahead  {given:.1} MB given to readers, {held:.1} MB in memory or under way, {unread:.1} MB dropped unread"
        );
        let all = |key: &str| of["memory"]["all_disks"][key].as_f64().map(|bytes| bytes / 1e6);
        if let Some((held, most)) = all("held_bytes").zip(all("most_bytes")) {
            let _ = writeln!(out, "              {held:.1} MB of at most {most:.1} MB for all disks");
        }
    }
    if let Some(floor) = of["floor"].as_str() {
        let promoted = &of["promoted"];
        let (requests, mb) = (promoted["requests"].as_u64().unwrap_or(0), number(&promoted["bytes"]) / 1e6);
        let seconds = number(&promoted["device_us"]) / 1e6;
        let _ = writeln!(
            out,
            "  floor       {floor}: {} requests became foreground work, {mb:.1} MB in at most {seconds:.1} s of the disk's time",
            grouped(requests)
        );
    }
    out
}

/// Describes the state of a disk's probe, if it has one.
pub(crate) fn probe(probe: &Value) -> Option<String> {
    let state = probe["state"].as_str()?;
    let (commands, seconds) =
        (probe["commands"].as_u64().unwrap_or(0), probe["drive_time_s"].as_f64().unwrap_or(0.0));
    let so_far = format!("{} readings, {seconds:.0} s of the disk's time", grouped(commands));
    let reason = probe["reason"].as_str().unwrap_or_default();
    Some(match state {
        "probing" => {
            let percent = probe["share"].as_f64().unwrap_or(0.0) * 100.0;
            format!("{percent:.0}% of the probe is done: {so_far}; until then tasks have idle time only")
        }
        "found" => format!("the profile was found: {so_far}; gaps are used"),
        state => format!("{state}: {so_far}; tasks have idle time only: {reason}"),
    })
}

/// The most disks that are described in several lines each.
const DESCRIBED_DISKS_MAX: usize = 4;

/// Returns a table with a row for each disk.
fn overview(disks: &[Value]) -> String {
    let row = |disk: &Value| {
        let now = &disk["status"];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let bytes = number(&disk["sectors"]) * number(&disk["sector_bytes"]);
        let count =
            now["reads"]["count"].as_u64().unwrap_or(0) + now["writes"]["count"].as_u64().unwrap_or(0);
        let ms = |at: &str| format!("{:.2}", number(&now["reads"][at]) / 1e3);
        let gigabytes = |key: &str| format!("{:.2}", number(&now["background"][key]) / 1e9);
        let harm = number(&now["detours"]["share"]) + number(&now["idle"]["share"]);
        let tasks = disk["tasks"].as_array().into_iter().flatten();
        // A snapshot that has failed is shown, because its readers get errors.
        let tasks = tasks.filter(|task| !is_over(task) || is_snapshot(task) && task["state"] == "failed");
        let tasks: Vec<String> = tasks
            .map(|task| {
                let name = || text(&task["spec"], "name").to_owned();
                let what = if is_snapshot(task) { name() } else { share(task) };
                match text(task, "state") {
                    "running" => format!("{} {what}", text(task, "kind")),
                    state => format!("{} {what} {state}", text(task, "kind")),
                }
            })
            .collect();
        let unanswered = disk["error"].as_str().map(|_| "NO ANSWER");
        let failing = now["failing"].as_str().map(|_| "FAILING");
        let mistrusted = (now["mistrusted"].as_bool() == Some(true)).then_some("MISTRUSTED");
        let trouble = disk["trouble"].as_str().map(|_| "NOTE");
        let exports = now["snapshot_requests"].as_array().into_iter().flatten();
        let exports: Vec<&Value> = exports.chain([&now["background_requests"]]).collect();
        let sum = |value: fn(&Value) -> &Value| exports.iter().map(|of| number(value(of))).sum::<f64>();
        let waiting = sum(|of| &of["waiting"]);
        let waiting = (waiting > 0.0).then(|| format!("{waiting} wait"));
        let floor = sum(|of| &of["promoted"]["device_us"]) / 1e6;
        let floor = (floor > 0.0).then(|| format!("floor {} s", floor.ceil()));
        let troubles = [unanswered, failing, mistrusted, trouble].into_iter().flatten().map(str::to_owned);
        let remarks: Vec<String> = troubles.chain(waiting).chain(floor).collect();
        vec![
            text(disk, "name").into(),
            format!("{:.2}", bytes / 1e9),
            grouped(count),
            ms("p50_us"),
            ms("p99_us"),
            gigabytes("gap_bytes"),
            gigabytes("idle_bytes"),
            format!("{:.2}%", harm * 100.0),
            tasks.join(", "),
            remarks.join(", "),
        ]
    };
    let header = ["disk", "GB", "requests", "reads p50 ms", "p99", "GB in gaps", "idle", "harm", "tasks", ""];
    table(&header, &[0, 8, 9], disks.iter().map(row))
}

/// Returns the disks with their tasks. If a screen has no room for them, returns a row for each disk.
pub(crate) fn status(status: &Value) -> String {
    if let Some(disks) = status["disks"].as_array().filter(|disks| disks.len() > DESCRIBED_DISKS_MAX) {
        return overview(disks) + "`--disk NAME` describes one; `freeblock tasks` lists all tasks\n";
    }
    let mut out = String::new();
    for disk in status["disks"].as_array().into_iter().flatten() {
        let now = &disk["status"];
        let bytes = disk["sectors"].as_f64().unwrap_or(0.0) * disk["sector_bytes"].as_f64().unwrap_or(0.0);
        let _ = writeln!(out, "{}, {:.2} GB", text(disk, "name"), bytes / 1e9);
        if let Some(error) = disk["error"].as_str() {
            let _ = writeln!(out, "  NO ANSWER   {error}");
            continue;
        }
        for (name, key) in [("reads", "reads"), ("writes", "writes")] {
            let ms = |at: &str| now[key][at].as_f64().unwrap_or(0.0) / 1e3;
            let count = now[key]["count"].as_u64().unwrap_or(0);
            let (p50, p99) = (ms("p50_us"), ms("p99_us"));
            let _ = writeln!(
                out,
                "  {name:<10}  {}, {p50:.2} ms median, {p99:.2} ms 99th percentile",
                grouped(count)
            );
        }
        let mb = |key: &str| now["background"][key].as_f64().unwrap_or(0.0) / 1e6;
        let (gaps, idle) = (mb("gap_bytes"), mb("idle_bytes"));
        let harm = |key: &str| now[key]["share"].as_f64().unwrap_or(0.0) * 100.0;
        let (detours, idling) = (harm("detours"), harm("idle"));
        let _ = writeln!(
            out,
            "  background  {gaps:.1} MB in gaps, harm {detours:.2}%; {idle:.1} MB in idle time, harm {idling:.2}%"
        );
        if let Some(measured) = measured(&now["measured"]) {
            let _ = writeln!(out, "  measured    {measured}");
        }
        if let Some(probe) = probe(&now["probe"]) {
            let _ = writeln!(out, "  probe       {probe}");
        }
        out.push_str(&all_background_requests(now));
        // A drive without a profile has no gaps to report.
        let why =
            now["caution"].as_str().filter(|name| *name != Caution::Unknown.name()).and_then(unused_because);
        if let Some(why) = why {
            let _ = writeln!(out, "  gaps        unused: {why}");
        }
        if now["mistrusted"].as_bool() == Some(true) {
            let _ = writeln!(out, "  MISTRUSTED  {MISTRUSTED}");
        }
        let us = |at: &str| now["lateness"][at].as_f64().unwrap_or(0.0);
        let (p50, p99, max) = (us("p50_us"), us("p99_us"), us("max_us"));
        let _ = writeln!(
            out,
            "  lateness    {p50:.0} us median, {p99:.0} us 99th percentile, {max:.0} us at most"
        );
        if let Some(failing) = now["failing"].as_str() {
            let _ = writeln!(out, "  FAILING     {failing}: {} commands; see the log", now["unanswered"]);
        }
        if let Some(trouble) = disk["trouble"].as_str() {
            let _ = writeln!(out, "  note        {trouble}");
        }
    }
    out.push('\n');
    out.push_str(&tasks(status));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn status_reports_the_wait_at_the_background_export_and_the_cost_of_its_floor() {
        let of = |background: Value| {
            let now = json!({ "background_requests": background });
            status(&json!({ "disks": [{ "name": "d0", "status": now }], "tasks": [] }))
        };
        assert!(!of(Value::Null).contains("export"));
        let waits =
            json!({ "reads": { "count": 1_200 }, "read_bytes": 5e6, "waiting": 3, "oldest_wait_us": 2.5e6 });
        let shown = of(waits.clone());
        let expected = "\n  export      background: 1,200 reads, 5.0 MB; 3 waiting, the oldest for 2.5 s\n";
        assert!(shown.contains(expected) && !shown.contains("floor") && !shown.contains("ahead"), "{shown}");
        let wait = |reason: &str, silence_s: Option<f64>, to_go_s: Option<f64>| {
            let mut waits = waits.clone();
            waits["wait"] = json!({ "reason": reason, "silence_s": silence_s, "to_go_s": to_go_s });
            of(waits)
        };
        let shown = wait("silence", Some(10.0), Some(3.2));
        let expected = "\n  waits       for 10 s without foreground requests; 4 s to go\n";
        assert!(shown.contains(expected), "{shown}");
        let shown = wait("harm", Some(20.0), Some(13.0));
        assert!(shown.contains("\n  waits       the bound on harm has no room: for 20 s without"), "{shown}");
        let shown = wait("measurement", None, Some(29.0));
        assert!(shown.contains("measured by a time without it; 29 s to go"), "{shown}");
        let promoted = json!({ "requests": 7, "bytes": 3e6, "device_us": 1.25e6 });
        let mut with_floor = waits;
        with_floor["memory"] = json!({ "given_bytes": 3e6, "held_bytes": 1.5e6, "unread_bytes": 5e5 });
        (with_floor["floor"], with_floor["promoted"]) = ("2 MB/s".into(), promoted);
        with_floor["name"] = "d0@nightly".into();
        let now = json!({ "snapshot_requests": [with_floor.clone()] });
        let shown = status(&json!({ "disks": [{ "name": "d0", "status": now }], "tasks": [] }));
        assert!(
            shown.contains("\n  export      snapshot d0@nightly: 1,200 reads")
                && shown.contains("2 MB/s: 7 r")
        );
        let shown = of(with_floor);
        let expected =
            "\n  read ahead  3.0 MB given to readers, 1.5 MB in memory or under way, 0.5 MB dropped unread\n";
        assert!(shown.contains(expected), "{shown}");
        let expected = "\n  floor       2 MB/s: 7 requests became foreground work, 3.0 MB in at most 1.2 s of the disk's time\n";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn ended_snapshots_are_listed_on_demand_and_failed_ones_until_one_of_their_name_is_there() {
        let task = |id: u64, name: &str, state: &str| {
            let spec = json!({ "name": name });
            json!({ "id": id, "disk": "d0", "kind": "snapshot", "state": state, "spec": spec, "bytes": 5e6 })
        };
        let tasks = [
            task(1, "a", "done"),
            task(2, "a", "cancelled"),
            task(3, "a", "running"),
            task(4, "b", "failed"),
            task(5, "a", "failed"),
        ];
        let status = json!({ "disks": [{ "name": "d0", "tasks": tasks }] });
        let listed = |all| {
            let shown = snapshots(&status, all);
            let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            shown.lines().skip(2).map(cells).collect::<Vec<_>>()
        };
        assert_eq!(listed(false), ["3 d0@a running 5.0 MB -", "4 d0@b failed - -"]);
        assert_eq!(listed(true)[..2], ["1 d0@a ended - -", "2 d0@a ended - -"]);
        assert_eq!(listed(true).len(), 5);
    }

    #[test]
    fn a_comparison_names_the_part_of_larger_members_that_it_leaves_out() {
        let disk = |name: &str, sectors: u64| json!({ "name": name, "sectors": sectors });
        let disks = json!({ "disks": [disk("d0", 900), disk("d1", 1_000), disk("d2", 5)] });
        let spec = json!({ "members": ["d0", "d1"], "first_lbn": 8, "sectors": 892 });
        let shown: Vec<String> = left_out(&spec, &disks).collect();
        assert_eq!(
            shown,
            ["d1: LBNs 900 to 999 are not compared: the comparison ends with the smallest member"]
        );
    }

    #[test]
    fn each_of_24_disks_is_one_row_with_its_tasks_and_its_trouble() {
        let disk = |n: u64| {
            let waits = json!({ "waiting": 3, "promoted": { "device_us": 1.25e6 } });
            let now = json!({
                "background_requests": if n == 9 { waits.clone() } else { json!({ "waiting": 0 }) },
                "snapshot_requests": if n == 9 { vec![waits] } else { vec![] },
                "reads": { "count": 1_200, "p50_us": 4_500, "p99_us": 21_000 }, "writes": { "count": 34 },
                "background": { "gap_bytes": 1.5e9, "idle_bytes": 2e8 }, "detours": { "share": 0.002 }, "idle": { "share": 0.001 },
                "failing": if n == 7 { "the disk does not answer".into() } else { Value::Null }
            });
            let task =
                |kind: &str, state: &str| json!({ "kind": kind, "state": state, "done": 1, "blocks": 8 });
            let mut snapshot = task("snapshot", if n == 9 { "failed" } else { "done" });
            snapshot["spec"] = json!({ "name": "a" });
            let verify = task("verify", if n == 9 { "done" } else { "queued" });
            let tasks = [task("scrub", "running"), verify, task("backup", "done"), snapshot];
            json!({ "name": format!("d{n}"), "sectors": 2_000_000, "sector_bytes": 512, "status": now, "tasks": tasks })
        };
        let shown = status(&json!({ "disks": (0..24).map(disk).collect::<Vec<_>>() }));
        assert_eq!(shown.lines().count(), 24 + 3, "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() < 132), "{shown}");
        let row =
            |n: usize| shown.lines().nth(2 + n).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "d7 1.02 1,234 4.50 21.00 1.50 0.20 0.30% scrub 12.5%, verify 12.5% queued FAILING";
        assert_eq!(row(7), expected);
        assert!(row(9).ends_with(" scrub 12.5%, snapshot a failed 6 wait, floor 3 s"), "{shown}");
        assert_eq!(["FAILING", "wait", "snapshot"].map(|word| shown.matches(word).count()), [1; 3]);
    }

    #[test]
    fn a_comparison_names_the_sectors_that_do_not_agree_and_those_that_could_not_be_read() {
        let unreadable = json!([{ "disk": "d1", "lbn": 9 }]);
        let differences = json!({ "lbns": [7, 8], "more": 1, "unsettled": 2, "unreadable": unreadable });
        let shown = task(
            &json!({ "kind": "verify", "id": 3, "disk": "d0", "state": "done", "differences": differences }),
        );
        let expected = "verify 3 of d0 is done: 3 SECTORS DO NOT AGREE; 2 blocks were written at every reading\n  members do not agree at LBNs: 7, 8\n  unreadable: 9 of d1\n";
        assert_eq!(shown, expected);
        let lbns: Vec<u64> = (0..21).collect();
        let shown = task(&json!({ "bad_lbns": lbns }));
        assert!(shown.ends_with("18, 19; --json lists more\n"), "{shown}");
    }

    #[test]
    fn status_says_how_far_the_probe_of_a_disk_is() {
        let of = |probe: Value| {
            let now = json!({ "probe": probe });
            status(&json!({ "disks": [{ "name": "d0", "status": now }], "tasks": [] }))
        };
        assert!(!of(Value::Null).contains("probe"));
        let at = |state: &str| json!({ "state": state, "share": 0.25, "commands": 4_321, "drive_time_s": 40.2, "reason": null });
        let shown = of(at("probing"));
        let expected = "\n  probe       25% of the probe is done: 4,321 readings, 40 s of the disk's time; until then tasks have idle time only\n";
        assert!(shown.contains(expected), "{shown}");
        assert!(of(at("found")).contains("found: 4,321 readings, 40 s of the disk's time; gaps are used\n"));
        let mut failed = at("failed");
        failed["reason"] = "it is no disk".into();
        assert!(of(failed).contains("probe       failed: 4,321 readings"), "a reason follows");
    }

    #[test]
    fn status_gives_the_reason_for_unused_gaps_and_names_a_mistrusted_drive() {
        let of = |caution: Option<&str>, mistrusted: bool| {
            let now = json!({ "caution": caution, "mistrusted": mistrusted });
            status(&json!({ "disks": [{ "name": "d0", "status": now }], "tasks": [] }))
        };
        let mistrusted = of(Some("mistrust"), true);
        assert!(mistrusted.contains("\n  gaps        unused: the drive does not behave as"), "{mistrusted}");
        assert!(mistrusted.contains("\n  MISTRUSTED  the drive has not behaved as"), "{mistrusted}");
        let harm = of(Some("harm"), false);
        assert!(harm.contains("\n  gaps        unused: the harm budget"), "{harm}");
        assert!(!harm.contains("MISTRUSTED"), "{harm}");
        let trusted = of(None, false);
        assert!(!trusted.contains("unused") && !trusted.contains("MISTRUSTED"), "{trusted}");
    }
}
