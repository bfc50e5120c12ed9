//! Clients' writes are refused during a restore.

use super::{TASKS, daemon, until};
use crate::support::{connect, request};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Returns the error code of a reply without data, 0 for none.
fn error(client: &mut UnixStream, request: &[u8]) -> u32 {
    client.write_all(request).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

fn write(lbn: u64) -> Vec<u8> {
    [request(1, 1, lbn * 512, 512), vec![7; 512]].concat()
}

#[test]
fn during_a_restore_clients_may_read_and_new_ones_are_refused() {
    let Some(daemon) = daemon("restore") else { return };
    let control = daemon.client();
    let (image, nbd) = (daemon.path("image"), daemon.directory.join("nbd"));
    control.post(TASKS, &json!({ "kind": "backup", "to": image })).unwrap();
    until(&control, 1, "done");
    let mut client = connect(&nbd);
    assert_eq!(error(&mut client, &write(5)), 0);
    let restore = json!({ "kind": "restore", "from": [image], "force": true });
    control.post(TASKS, &restore).unwrap();
    control.post(&format!("{TASKS}/2/pause"), &json!({})).unwrap();
    const NOT_PERMITTED: u32 = 1;
    assert_eq!(error(&mut client, &write(6)), NOT_PERMITTED);
    assert_eq!(error(&mut client, &request(4, 1, 0, 512)), NOT_PERMITTED, "a trim");
    assert_eq!(error(&mut client, &request(0, 1, 512 * 6, 512)), 0);
    let mut sector = [1; 512];
    client.read_exact(&mut sector).unwrap();
    assert_eq!(sector, [0; 512], "the refused write is not on the disk");
    // A new client that chooses by NBD_OPT_GO gets the reason; one that chooses by
    // NBD_OPT_EXPORT_NAME is disconnected.
    let mut other = UnixStream::connect(&nbd).unwrap();
    other.read_exact(&mut [0; 18]).unwrap();
    other.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0").unwrap();
    let mut head = [0; 20];
    other.read_exact(&mut head).unwrap();
    assert_eq!(&head[8..16], b"\0\0\0\x07\x80\0\0\x02");
    let mut why = vec![0; head[19] as usize];
    other.read_exact(&mut why).unwrap();
    let why = String::from_utf8(why).unwrap();
    assert_eq!(why, "restore 2 is writing this disk; wait until it is done, or cancel it");
    let mut old = UnixStream::connect(&nbd).unwrap();
    old.read_exact(&mut [0; 18]).unwrap();
    old.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    assert_eq!(old.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    if let Ok(info) = Command::new("nbdinfo").arg(format!("nbd+unix:///?socket={}", nbd.display())).output() {
        assert!(!info.status.success());
    }
    let disk = control.get("/v1/disks/data").unwrap();
    assert_eq!(disk["trouble"], why);
    // After the restore clients can write again.
    control.post(&format!("{TASKS}/2/resume"), &json!({})).unwrap();
    until(&control, 2, "done");
    assert_eq!(error(&mut client, &request(0, 1, 512 * 5, 512)), 0);
    client.read_exact(&mut sector).unwrap();
    assert_eq!(sector, [0; 512], "the disk is as the image has it");
    assert_eq!(error(&mut client, &write(6)), 0);
    connect(&nbd);
    drop(client);
    daemon.end();
}
