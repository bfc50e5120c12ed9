//! Sockets handed over by a service manager, and messages to it.

use crate::support::{has, open, request};
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

#[test]
fn a_socket_that_is_handed_over_is_served_and_stays() {
    let export = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/export");
    if !testing::needs("io_uring", device::Ring::new().is_ok())
        || !testing::needs("the example export, built", export.exists())
    {
        return;
    }
    if !has("systemd-socket-activate") {
        return;
    }
    let dir = std::env::temp_dir().join(format!("freeblock-systemd-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("disk"), [7; 1 << 20]).unwrap();
    let manager = UnixDatagram::bind(dir.join("notify")).unwrap();
    let reported = || {
        let mut message = [0; 64];
        let bytes = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..bytes]).into_owned()
    };
    let mut notify = std::ffi::OsString::from("--setenv=NOTIFY_SOCKET=");
    notify.push(dir.join("notify"));
    let mut activated = Command::new("systemd-socket-activate")
        .arg("--listen")
        .arg(dir.join("s"))
        .arg(notify)
        .arg(export)
        .args([dir.join("disk"), dir.join("s")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // The first client waits until the server has started.
    let mut client = loop {
        match UnixStream::connect(dir.join("s")) {
            Ok(client) => break client,
            Err(_) => assert!(activated.try_wait().unwrap().is_none()),
        }
    };
    open(&mut client);
    assert_eq!(reported(), "READY=1\n");
    client.write_all(&request(0, 1, 512, 512)).unwrap();
    let mut reply = [0; 16 + 512];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[16..], [7; 512]);
    drop(client);
    drop(activated.stdin.take());
    assert_eq!(reported(), "STOPPING=1\n");
    assert!(activated.wait().unwrap().success());
    assert!(dir.join("s").exists(), "the socket is the service manager's");
    std::fs::remove_dir_all(dir).unwrap();
}
