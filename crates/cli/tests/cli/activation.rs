//! Sockets handed over by a service manager: descriptors from 3 on, described by LISTEN_FDS, LISTEN_PID and
//! LISTEN_FDNAMES.

use crate::crash::{Asked, Client};
use crate::serve::PROFILE;
use crate::support::{Dir, run_with};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A program that opens the sockets, hands them over and becomes the daemon, as a service manager does: the sockets'
/// descriptors are 3, 4, ... in the order of the names, and LISTEN_PID is the daemon's process unless WRONG_PID is set.
const MANAGER: &str = r#"
import fcntl, os, socket, sys
program, names, paths = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
moved = []
for path in paths:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(16)
    # Out of the way first: one of them may have the number that another is to get.
    moved.append(fcntl.fcntl(listening, fcntl.F_DUPFD, 64))
for i, fd in enumerate(moved):
    os.dup2(fd, 3 + i, inheritable=True)
os.closerange(3 + len(moved), 256)
os.environ["LISTEN_FDS"] = str(len(moved))
os.environ["LISTEN_FDNAMES"] = names
os.environ["LISTEN_PID"] = os.environ.get("WRONG_PID", str(os.getpid()))
os.execv(program, [program] + sys.argv[4:])
"#;

struct Activated(Child);

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a daemon with both its sockets handed over. `None` if there is no Python.
fn activated(dir: &Dir, wrong_pid: Option<&str>) -> Option<Activated> {
    let [nbd, control] = ["nbd", "control"].map(|name| dir.path(name));
    handed(dir, &[&nbd, &control], wrong_pid)
}

/// Starts a daemon with these sockets handed over.
fn handed(dir: &Dir, sockets: &[&str], wrong_pid: Option<&str>) -> Option<Activated> {
    let profile = dir.file("small.toml", PROFILE);
    let [nbd, control, state, image] = ["nbd", "control", "state", "img"].map(|name| dir.path(name));
    let names: Vec<String> = (0..sockets.len()).map(|n| format!("s{n}")).collect();
    let mut command = Command::new("python3");
    command
        .args(["-c", MANAGER, env!("CARGO_BIN_EXE_freeblock"), &names.join(":"), &sockets.join(",")])
        .args(["serve", "--disk", &format!("d0=emulated:{profile},file={image}")])
        .args(["--listen", &format!("unix:{nbd}"), "--state", &state, "--control", &control, "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(pid) = wrong_pid {
        command.env("WRONG_PID", pid);
    }
    match command.spawn() {
        Ok(child) => Some(Activated(child)),
        Err(_) => {
            testing::missing("python3");
            None
        }
    }
}

/// Connects, waiting for the socket; a connection made before the daemon is ready waits in the socket.
fn connect(path: &str, daemon: &mut Activated) -> Option<UnixStream> {
    loop {
        if let Ok(stream) = UnixStream::connect(path) {
            return Some(stream);
        }
        if daemon.0.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::yield_now();
    }
}

#[test]
fn sockets_on_descriptors_3_and_4_are_served_and_stay() {
    let dir = Dir::new();
    let Some(mut daemon) = activated(&dir, None) else { return };
    let mut early = connect(&dir.path("control"), &mut daemon).unwrap();
    early.write_all(b"GET /v1/disks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    if early.read_to_string(&mut said).is_err() || said.is_empty() {
        let mut why = String::new();
        daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        assert!(why.contains("io_uring"), "{why}");
        testing::missing("io_uring");
        return;
    }
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"d0\""), "{said}");
    // The daemon serves and answers control requests at the sockets handed over, whose files are unchanged.
    let mut client = Client::open(&dir.path("nbd"));
    client.ask(Asked::Write { lbn: 7, sectors: 2, stamp: 9, fua: true });
    assert!(client.answer().is_some());
    assert_eq!(client.read(6, 4), [0, 9, 9, 0]);
    let control = dir.path("control");
    assert!(
        run_with(&["scrub", "--sectors", "64", "--wait", "--control", &control]).worked().contains("is done")
    );
    drop(client);
    let id = daemon.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(daemon.0.wait().unwrap().success());
    // The files of the sockets stay, because the service manager continues to listen there.
    for name in ["nbd", "control"] {
        assert!(dir.names().iter().any(|there| there == name), "{name} is gone");
    }
}

/// Sockets announced to another process are not used: the daemon opens its own, and finds the address in use.
#[test]
fn sockets_of_another_process_are_not_used() {
    let dir = Dir::new();
    let Some(mut daemon) = activated(&dir, Some("1")) else { return };
    let mut why = String::new();
    daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(!daemon.0.wait().unwrap().success(), "{why}");
    assert!(why.contains("io_uring") || why.contains("is taken: a server answers there"), "{why}");
}

/// Clients that connect to a socket that no disk lists would wait for ever.
#[test]
fn a_socket_that_no_disk_lists_is_an_error() {
    let dir = Dir::new();
    let [nbd, other, control] = ["nbd", "other", "control"].map(|name| dir.path(name));
    let Some(mut daemon) = handed(&dir, &[&nbd, &other, &control], None) else { return };
    let mut why = String::new();
    daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(!daemon.0.wait().unwrap().success(), "{why}");
    assert!(why.contains("hands over a socket that no disk has: ") && why.contains(&other), "{why}");
    assert!(!why.contains("control?"), "{why}");
    assert!(!dir.names().iter().any(|name| name == "img"), "nothing was begun");
}
