//! The control socket of a live disk, over a real socket.

mod crowd;
pub(crate) mod daemon;
mod restores;
mod rights;
mod sessions;
mod silent;
mod snapshots;

use crate::support;
use client::{Control, ControlError};
use daemon::{Daemon, again, start};
use serde_json::{Value, json};
use server::control::Roles;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

fn daemon(name: &str) -> Option<Daemon> {
    started(start(name, Roles::default()))
}

fn started(daemon: Result<Daemon, String>) -> Option<Daemon> {
    daemon.inspect_err(|why| testing::missing(&format!("a daemon: {why}"))).ok()
}

const TASKS: &str = "/v1/disks/data/tasks";

fn until(control: &Control, id: u64, state: &str) -> Value {
    for _ in 0..1_200 {
        let task = control.get(&format!("{TASKS}/{id}")).unwrap();
        if task["state"] == state {
            return task;
        }
        assert!(task["state"] != "failed", "{task}");
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("task {id} never was {state}: {}", control.get(&format!("{TASKS}/{id}")).unwrap());
}

fn refused(reported: Result<Value, ControlError>) -> (u16, Option<String>, String) {
    match reported.unwrap_err() {
        ControlError::Refused { code, field, message } => (code, field, message),
        other => panic!("{other}"),
    }
}

#[test]
fn a_scrub_and_a_backup_run_to_their_end_and_are_remembered() {
    let Some(daemon) = daemon("run") else { return };
    let control = daemon.client();
    let scrub = control.post(TASKS, &json!({ "kind": "scrub" })).unwrap();
    assert_eq!((&scrub["id"], &scrub["kind"]), (&json!(1), &json!("scrub")));
    let image = daemon.path("image");
    control.post(TASKS, &json!({ "kind": "backup", "to": image, "block_sectors": 64 })).unwrap();
    assert_eq!(until(&control, 1, "done")["bad_lbns"], json!([]));
    let backup = until(&control, 2, "done");
    assert_eq!(backup["done"], backup["blocks"]);
    let metrics = control.text("/metrics").unwrap();
    // The metrics of background work and of what it costs, and those of unanswered commands.
    for metric in [
        "background_idle_bytes_total{disk=\"data\"} ",
        "read_seconds_bucket{disk=\"data\",le=\"0.005\"} ",
        "write_seconds_count{disk=\"data\"} ",
        "prediction_error_seconds_bucket{disk=\"data\",le=\"0.0001\"} ",
        "lateness_seconds_sum{disk=\"data\"} ",
        "missed_revolutions_total{disk=\"data\"} ",
        "gaps_seen_total{disk=\"data\"} ",
        "gaps_used_total{disk=\"data\"} ",
        "extra_revolutions_total{disk=\"data\"} ",
        "timed_out_commands_total{disk=\"data\"} 0",
        "unanswered_commands{disk=\"data\"} 0",
    ] {
        assert!(metrics.contains(&format!("\nfreeblock_{metric}")), "no {metric} in {metrics}");
    }
    assert!(!metrics.contains("\nfreeblock_prediction_error_seconds_count{disk=\"data\"} 0\n"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"));
    let status = control.get("/v1/status").unwrap();
    assert_eq!(status["disks"][0]["tasks"].as_array().unwrap().len(), 2);
    let Some(daemon) = started(again(daemon.end(), Roles::default())) else { return };
    let control = daemon.client();
    assert_eq!(control.get(TASKS).unwrap()["tasks"].as_array().unwrap().len(), 2);
    control.post(TASKS, &json!({ "kind": "restore", "from": [image] })).unwrap();
    until(&control, 3, "done");
    daemon.end();
}

#[test]
fn a_task_goes_on_after_a_restart() {
    let Some(daemon) = daemon("restart") else { return };
    let control = daemon.client();
    control.post(TASKS, &json!({ "kind": "scrub", "block_sectors": 1 })).unwrap();
    control.post(&format!("{TASKS}/1/pause"), &json!({})).unwrap();
    let paused = control.get(&format!("{TASKS}/1")).unwrap();
    assert_eq!(paused["state"], "paused");
    let Some(daemon) = started(again(daemon.end(), Roles::default())) else { return };
    let control = daemon.client();
    assert_eq!(until(&control, 1, "paused")["state"], "paused");
    control.post(&format!("{TASKS}/1/resume"), &json!({})).unwrap();
    until(&control, 1, "done");
    daemon.end();
}

#[test]
fn the_status_shows_a_tasks_free_bytes_and_its_deadline() {
    let Some(daemon) = daemon("metrics") else { return };
    let control = daemon.client();
    let scrub = json!({ "kind": "scrub", "block_sectors": 1, "deadline_unix_s": 1_000_000_000 });
    control.post(TASKS, &scrub).unwrap();
    let moved = |kind: &str| {
        let name = format!("freeblock_task_{kind}_bytes_total{{disk=\"data\",task=\"1\",kind=\"scrub\"}} ");
        let metrics = control.text("/metrics").unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned));
        value.map(|value| value.parse::<f64>().unwrap())
    };
    // The metric of free bytes grows once blocks have been read in gaps, and exists only while the
    // task runs.
    let mut client = support::connect(&daemon.directory.join("nbd"));
    let mut seen = false;
    for i in 0..4_000 {
        client.write_all(&support::request(0, i, i * 12_800 % 1_700_000, 512)).unwrap();
        client.read_exact(&mut [0; 16 + 512]).unwrap();
        seen = i % 16 == 0 && moved("free").is_some_and(|bytes| bytes > 0.0);
        if seen {
            break;
        }
    }
    assert!(seen, "{}", control.get(&format!("{TASKS}/1")).unwrap());
    assert!(moved("idle").is_some());
    let task = control.get(&format!("{TASKS}/1")).unwrap();
    assert_eq!(task["misses_deadline"], true, "{task}");
    drop(client);
    assert_eq!(until(&control, 1, "done")["misses_deadline"], true);
    daemon.end();
}

#[test]
fn refusals_name_the_field_and_the_mend() {
    let Some(daemon) = daemon("refusals") else { return };
    let control = daemon.client();
    let (code, field, message) = refused(control.post(TASKS, &json!({ "kind": "scrub", "priority": 0 })));
    assert_eq!(
        (code, field.as_deref(), message.as_str()),
        (400, Some("priority"), "priority: 0; give 1 to 100")
    );
    let (code, field, _) = refused(control.post(TASKS, &json!({ "kind": "scrub", "prio": 1 })));
    assert_eq!((code, field.as_deref()), (400, Some("prio")));
    let (code, _, message) = refused(control.get("/v1/disks/date"));
    assert_eq!((code, message.as_str()), (404, "there is no disk \"date\"; the disks are data"));
    let (code, _, message) = refused(control.post(&format!("{TASKS}/9/pause"), &json!({})));
    assert_eq!((code, message.as_str()), (404, "there is no task 9; look at the list of tasks"));
    assert_eq!(refused(control.get("/v2/disks")).0, 404);
    assert_eq!(refused(control.patch("/v1/disks", &json!({}))).0, 405);
    assert_eq!(control.get(TASKS).unwrap(), json!({ "tasks": [] }), "nothing has changed");
    daemon.end();
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let Some(daemon) = daemon("garbage") else { return };
    for garbage in
        [&b"\0\xff\xfe"[..], b"GET", b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"]
    {
        let mut stream = UnixStream::connect(&daemon.socket).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    daemon.client().get("/v1/disks").unwrap();
    daemon.end();
}

/// Runs each line of docs/CONTROL.md that begins with curl, in order.
#[test]
fn the_documented_curl_lines_work() {
    if !testing::needs_program("curl") {
        return;
    }
    let Some(daemon) = daemon("curl") else { return };
    let lines =
        include_str!("../../../../../docs/CONTROL.md").lines().filter(|line| line.starts_with("curl "));
    let mut ran = 0;
    for line in lines {
        let line = line.replace("/run/freeblock/control.sock", daemon.socket.to_str().unwrap());
        let ran_it = Command::new("sh").arg("-c").arg(format!("{line} --fail-with-body")).output().unwrap();
        let said = String::from_utf8_lossy(&ran_it.stdout).into_owned();
        // Task 1 may be done before the line is run, which is no fault of the line.
        let over = said.contains("task 1 is done");
        assert!(
            ran_it.status.success() || over,
            "{line}: {said} {}",
            String::from_utf8_lossy(&ran_it.stderr)
        );
        ran += 1;
    }
    assert!(ran >= 11, "{ran} lines");
    daemon.end();
}

/// Needs root, to connect as other users.
#[test]
fn users_are_let_in_by_role() {
    let roles = Roles { read_uids: vec![65_001], write_uids: vec![65_002], ..Roles::default() };
    let Some(daemon) = started(start("roles", roles)) else { return };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&daemon.directory, open).unwrap();
    let curl = |uid: u32, path: &str, body: Option<&str>| {
        let mut command = Command::new("curl");
        std::os::unix::process::CommandExt::uid(&mut command, uid);
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket"]).arg(&daemon.socket);
        command.arg(format!("http://x{path}")).args(body.map(|b| format!("-d{b}")));
        command.output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    };
    if let Err(why) = curl(65_001, "/v1/disks", None) {
        testing::missing(&format!("curl as another user: {why}"));
        return;
    }
    let scrub = Some(r#"{"kind":"scrub"}"#);
    assert_eq!(curl(65_001, "/v1/disks", None).unwrap(), "200");
    assert_eq!(curl(65_001, TASKS, scrub).unwrap(), "403");
    assert_eq!(curl(65_002, TASKS, scrub).unwrap(), "201");
    assert_eq!(curl(65_003, "/v1/disks", None).unwrap(), "403");
    daemon.end();
}
