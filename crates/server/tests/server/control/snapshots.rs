//! Snapshots over NBD, of an emulated drive in real time.

use super::daemon;
use crate::support::{named, request};
use serde_json::json;
use server::control::Roles;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Returns the error of a reply, 0 if the request succeeded, and its data.
fn reply(client: &mut UnixStream, bytes: usize) -> (u8, Vec<u8>) {
    let mut header = [0; 16];
    client.read_exact(&mut header).unwrap();
    let mut data = vec![0; if header[7] == 0 { bytes } else { 0 }];
    client.read_exact(&mut data).unwrap();
    (header[7], data)
}

fn write(client: &mut UnixStream, at: u64, bytes: &[u8]) {
    client.write_all(&[&request(1, 1, at, bytes.len() as u32)[..], bytes].concat()).unwrap();
    assert_eq!(reply(client, 0).0, 0);
}

fn read(client: &mut UnixStream, at: u64, bytes: u32) -> (u8, Vec<u8>) {
    client.write_all(&request(0, 2, at, bytes)).unwrap();
    reply(client, bytes as usize)
}

#[test]
fn a_snapshot_is_an_export_until_it_is_cancelled_and_over_a_restart() {
    let Ok(daemon) = daemon::start("snapshot-export", Roles::default()) else { return };
    let socket = |directory: &Path| directory.join("nbd");
    let mut disk = named(&socket(&daemon.directory), "");
    write(&mut disk, 0, &[1; 200_000 / 512 * 512]);
    let asked = json!({ "kind": "snapshot", "name": "nightly" });
    let control = daemon.client();
    let mut task = control.post("/v1/disks/data/tasks", &asked).unwrap();
    while task["state"] == "queued" {
        std::thread::sleep(Duration::from_millis(20));
        task = control.get("/v1/disks/data/tasks/1").unwrap();
    }
    assert_eq!(task["state"], "running");
    let mut snapshot = named(&socket(&daemon.directory), "data@nightly");
    for byte in 2..5 {
        write(&mut disk, u64::from(byte) * 512 * 20, &[byte; 512 * 60]);
        assert!(read(&mut snapshot, 0, 131_072) == (0, vec![1; 131_072]), "it is of another instant");
    }
    snapshot.write_all(&[&request(1, 3, 0, 512)[..], &[9; 512]].concat()).unwrap();
    assert_eq!(reply(&mut snapshot, 0).0, 1, "EPERM");
    drop((disk, snapshot));
    let directory = daemon.end();
    let daemon = daemon::again(directory, Roles::default()).unwrap();
    let mut disk = named(&socket(&daemon.directory), "");
    let mut snapshot = named(&socket(&daemon.directory), "data@nightly");
    write(&mut disk, 100_352, &[6; 512]);
    assert!(read(&mut snapshot, 0, 131_072) == (0, vec![1; 131_072]), "it has changed over the restart");
    assert_eq!(read(&mut disk, 100_352, 512), (0, vec![6; 512]));
    daemon.client().post("/v1/disks/data/tasks/1/cancel", &json!({})).unwrap();
    assert_eq!(read(&mut snapshot, 0, 512).0, 5, "EIO");
    drop((disk, snapshot));
    let _ = std::fs::remove_dir_all(daemon.end());
}
