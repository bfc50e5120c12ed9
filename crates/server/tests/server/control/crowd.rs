//! More connections of the control socket than there are slots, and users without a role.

use super::daemon::start;
use super::{TASKS, daemon, refused, started};
use client::{Control, Session};
use serde_json::json;
use server::control::Roles;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A program that opens connections as another user, prints `there`, and keeps the connections until
/// its input ends.
const CROWD: &str = r#"
import socket, sys
held = []
for i in range(int(sys.argv[2])):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    held.append(s)
print("there", flush=True)
sys.stdin.read()
"#;

/// Opens idle connections as this user; `None` if the test cannot change the user.
fn crowd(socket: &std::path::Path, uid: u32, connections: usize) -> Option<Child> {
    let mut command = Command::new("python3");
    std::os::unix::process::CommandExt::uid(&mut command, uid);
    command.args(["-c", CROWD]).arg(socket).arg(connections.to_string());
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child =
        spawned.inspect_err(|why| testing::missing(&format!("python3 as another user: {why}"))).ok()?;
    let mut said = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    Some(child)
}

fn gone(mut crowd: Child) {
    drop(crowd.stdin.take());
    crowd.wait().unwrap();
}

/// Needs root, to connect as another user.
#[test]
fn idle_connections_of_a_user_without_a_role_keep_no_other_user_out() {
    let roles = Roles { write_uids: vec![65_002], ..Roles::default() };
    let Some(daemon) = started(start("crowd", roles)) else { return };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&daemon.directory, open).unwrap();
    let Some(without_role) = crowd(&daemon.socket, 65_003, 300) else { return drop(daemon.end()) };
    let control = daemon.client();
    control.get("/v1/disks").unwrap();
    // The number of connections of a user with a role is limited, too.
    let Some(members) = crowd(&daemon.socket, 65_002, 300) else { return drop(daemon.end()) };
    control.get("/v1/disks").unwrap();
    assert_eq!(control.post(TASKS, &json!({ "kind": "scrub" })).unwrap()["id"], 1);
    gone(without_role);
    gone(members);
    daemon.end();
}

/// Needs root, to connect as another user.
#[test]
fn root_and_the_daemons_user_have_a_socket_that_no_other_user_can_open() {
    let everyone = Roles { write_uids: vec![65_002], ..Roles::default() };
    let Some(daemon) = started(start("private", everyone)) else { return };
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&daemon.directory, open).unwrap();
    let private = std::path::PathBuf::from(format!("{}.private", daemon.socket.display()));
    let connects = |uid: u32, socket: &std::path::Path| {
        let mut command = Command::new("python3");
        std::os::unix::process::CommandExt::uid(&mut command, uid);
        let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
        command
            .args(["-c", connect])
            .arg(socket)
            .stderr(Stdio::null())
            .status()
            .map(|status| status.success())
    };
    match connects(65_002, &daemon.socket) {
        Ok(connected) => assert!(connected),
        Err(why) => {
            testing::missing(&format!("python3 as another user: {why}"));
            return drop(daemon.end());
        }
    }
    assert!(!connects(65_002, &private).unwrap());
    // Another program takes the public path; the private socket is still the daemon's.
    std::fs::remove_file(&daemon.socket).unwrap();
    let _taken = std::os::unix::net::UnixListener::bind(&daemon.socket).unwrap();
    daemon.client().get("/v1/disks").unwrap();
    daemon.end();
    assert!(!private.exists());
}

#[test]
fn three_hundred_slow_connections_lock_no_one_out() {
    let Some(daemon) = daemon("slow") else { return };
    let halves: [&[u8]; 3] = [
        b"",
        b"GET /v1/disks HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/disks/data/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"kind\":",
    ];
    for half in halves {
        let slow: Vec<UnixStream> = (0..300)
            .map(|_| {
                let mut stream = UnixStream::connect(&daemon.socket).unwrap();
                // Writing fails if the connection has had to give way.
                let _ = stream.write_all(half);
                stream
            })
            .collect();
        daemon.client().get("/v1/disks").unwrap();
        drop(slow);
    }
    daemon.end();
}

#[test]
fn a_session_holds_its_slot_and_one_beyond_the_limit_is_refused() {
    let Some(daemon) = daemon("held") else { return };
    let mut sessions = Vec::new();
    let refused_at = loop {
        match Session::open(&daemon.socket, "data", 20) {
            Ok(session) => sessions.push(session),
            Err(error) => break error.to_string(),
        }
        assert!(sessions.len() < 300, "sessions are not counted");
    };
    assert!(refused_at.contains("too many sessions of this user"), "{refused_at}");
    drop(sessions);
    daemon.end();
}

#[test]
fn a_body_that_is_too_long_is_refused_in_json() {
    let Some(daemon) = daemon("long") else { return };
    let control = daemon.client();
    for length in [65_537, 100_000, 1 << 20] {
        let long = json!({ "kind": "backup", "to": "x".repeat(length) });
        let (code, _, message) = refused(control.post(TASKS, &long));
        assert_eq!(code, 413);
        assert!(message.starts_with("the body has more than 65536 bytes; "), "{message}");
    }
    daemon.end();
}

/// Needs root, to connect as another user.
#[test]
fn a_revoked_role_closes_its_connections() {
    let roles = Roles { read_uids: vec![65_001], ..Roles::default() };
    let Some(daemon) = started(start("taken", roles)) else { return };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&daemon.directory, open).unwrap();
    let follower = |path: &str| {
        let mut command = Command::new("curl");
        std::os::unix::process::CommandExt::uid(&mut command, 65_001);
        command.args(["-sSN", "--unix-socket"]).arg(&daemon.socket).arg(format!("http://x{path}"));
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    daemon.client().post(TASKS, &json!({ "kind": "scrub", "sectors": 8 })).unwrap();
    let mut events = match follower("/v1/events") {
        Ok(child) => child,
        Err(why) => {
            testing::missing(&format!("curl as another user: {why}"));
            return drop(daemon.end());
        }
    };
    events.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    daemon.set_roles(Roles::default());
    // The connection ends at the change of roles, while the daemon runs on.
    assert!(!events.wait().unwrap().success());
    let control: Control = daemon.client();
    control.get("/v1/disks").unwrap();
    daemon.end();
}
