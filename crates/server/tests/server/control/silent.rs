//! Two disks behind one control socket, one of which does not answer.

use super::{TASKS, daemon, started};
use client::Control as Client;
use serde_json::json;
use server::control::{Control, ControlConfig};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

#[test]
fn a_disk_that_does_not_answer_is_named_and_hides_no_other() {
    let Some(well) = started(daemon::of_disk("well", "data")) else { return };
    let Some(silent) = started(daemon::of_disk("silent", "another")) else { return };
    let handles = [well.handles(), silent.handles()].concat();
    let socket = well.directory.join("both.sock");
    let control = Control::open(ControlConfig::new(&socket), handles).unwrap();
    let client = Client::new(&socket);
    let (go_on, waits) = channel::<()>();
    let disk = silent.handles().remove(0);
    disk.post(Box::new(move |_, _| {
        let _ = waits.recv();
    }))
    .unwrap();
    let metrics = client.text("/metrics").unwrap();
    for line in [
        "freeblock_disk_answers{disk=\"data\"} 1.0",
        "freeblock_disk_answers{disk=\"another\"} 0.0",
        "freeblock_outstanding{disk=\"data\"} 0.0",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
    assert!(!metrics.contains("freeblock_outstanding{disk=\"another\"}"), "{metrics}");
    // The socket also answers while the queue of calls for the silent disk is full.
    while disk.post(Box::new(|_, _| ())).is_ok() {}
    let status = client.get("/v1/status").unwrap();
    assert!(status["disks"][0]["error"].is_string(), "{status}");
    assert!(status["disks"][1]["status"].is_object(), "{status}");
    assert!(client.text("/metrics").unwrap().contains("freeblock_disk_answers{disk=\"data\"} 1.0"));
    let mut events = UnixStream::connect(&socket).unwrap();
    events.write_all(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    client.post(TASKS, &json!({ "kind": "scrub" })).unwrap();
    let mut events = BufReader::new(&events).lines().map(Result::unwrap);
    assert!(
        events.any(|line| line.starts_with("data: ") && line.contains("\"scrub\"")),
        "the events have ended"
    );
    // A call that was answered with an error is not executed when the disk answers again.
    assert!(client.post("/v1/disks/another/tasks", &json!({ "kind": "scrub" })).is_err());
    drop(go_on);
    // The calls queued before fill the queue until they have run, so requests are refused at first.
    let tasks = std::iter::repeat_with(|| client.get("/v1/disks/another/tasks")).find_map(Result::ok);
    assert_eq!(tasks, Some(json!({ "tasks": [] })));
    drop(control);
    for daemon in [well, silent] {
        let _ = std::fs::remove_dir_all(daemon.end());
    }
}
