//! SIGHUP: the configuration is read again while its disks are served.

use crate::serve::{PROFILE, has, works};
use crate::support::{Dir, command};
use crate::tls::certificates;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};

struct ReloadableDaemon {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Drop for ReloadableDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ReloadableDaemon {
    /// Starts a daemon; `None` if there is no io_uring.
    fn start(config: &str) -> Option<Self> {
        let mut command = command();
        command.args(["serve", "--config", config]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Self { child, log };
        let reported = daemon.until(&["control at", "io_uring"]);
        if !reported.contains("control at") {
            testing::missing(&format!("a daemon, which says {reported}"));
            return None;
        }
        Some(daemon)
    }

    /// Returns the log up to a line with one of these words.
    fn until(&mut self, words: &[&str]) -> String {
        let mut said = String::new();
        loop {
            let before = said.len();
            assert!(self.log.read_line(&mut said).unwrap() > 0, "it has ended: {said}");
            if words.iter().any(|word| said[before..].contains(word)) {
                return said;
            }
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn end(mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

/// Returns a client that has chosen the export; `None` if the server hangs up because of its limit of clients.
fn chosen(dir: &Dir) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(dir.path("nbd")).unwrap();
    stream.read_exact(&mut [0; 18]).ok()?;
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).ok()?;
    Some(stream)
}

#[test]
fn limits_targets_and_the_log_change_and_other_options_are_named() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let [file, nbd, state, control] = ["disk", "nbd", "state", "control"].map(|name| dir.path(name));
    let disk = format!(
        "[[disk]]\nname = \"d0\"\ndevice = \"emulated:{profile},file={file}\"\nlisten = [\"unix:{nbd}\"]\n"
    );
    let top = format!("state = \"{state}\"\ncontrol = \"{control}\"\n");
    let write = |text: &str| dir.file("f.toml", text);
    let config = write(&format!("{top}[limits]\nclients = 1\n{disk}"));
    let Some(mut daemon) = ReloadableDaemon::start(&config) else { return };
    // A client that has chosen no export would be disconnected in favour of the next.
    let first = chosen(&dir).unwrap();
    assert!(chosen(&dir).is_none(), "one at a time");
    let backup = || {
        let to = dir.path("image");
        command().args(["backup", &to, "--force", "--wait", "--control", &control]).output().unwrap()
    };
    assert!(backup().status.success());

    // A file with a mistake changes nothing.
    write(&format!("{top}[limits]\nclients = 0\n{disk}"));
    daemon.signal("-HUP");
    let said = daemon.until(&["left as it was"]);
    assert!(said.contains("0 is out of range"), "{said}");
    assert!(chosen(&dir).is_none());

    // A pipe in place of the file changes nothing either, and is not waited for.
    std::fs::remove_file(&config).unwrap();
    works("mkfifo", &[&config]);
    daemon.signal("-HUP");
    daemon.until(&["is not a regular file"]);
    std::fs::remove_file(&config).unwrap();

    let other = dir.path("other");
    write(&format!(
        "{top}log = \"warn\"\ntargets = [\"{other}\"]\n[limits]\nclients = 3\n{disk}policy = \"fcfs\"\n"
    ));
    daemon.signal("-HUP");
    let said = daemon.until(&["needs a restart", "restart the daemon"]);
    assert!(said.contains("disk d0: policy"), "{said}");
    // A thread other than the disk's handles the signal, so the limit changes a moment later.
    let second = loop {
        if let Some(stream) = chosen(&dir) {
            break stream;
        }
    };
    let refused = backup();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`targets`"), "{refused:?}");
    drop((first, second));
    daemon.end();
}

#[test]
fn certificates_are_read_again() {
    let dir = Dir::new();
    if !has("nbdinfo") {
        return;
    }
    let profile = dir.file("small.toml", PROFILE);
    let old = Dir::new();
    certificates(&old);
    certificates(&dir);
    let current = std::fs::read(dir.path("ca-cert.pem")).unwrap();
    // A free port, which is probably still free in a moment.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let [certificate, key, file, state, control] =
        ["server-cert.pem", "server-key.pem", "disk", "state", "control"].map(|name| dir.path(name));
    let config = dir.file(
        "f.toml",
        &format!(
            "state = \"{state}\"\ncontrol = \"{control}\"\n[[disk]]\nname = \"d0\"\ndevice = \"emulated:{profile},file={file}\"\n\
             listen = [\"tcp:127.0.0.1:{port}\"]\ntls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n"
        ),
    );
    let Some(mut daemon) = ReloadableDaemon::start(&config) else { return };
    let uri = |of: &Dir| format!("nbds://localhost:{port}/?tls-certificates={}", of.path(""));
    works("nbdinfo", &[&uri(&dir)]);
    // The certificates of another authority replace the first, as in a renewal.
    for name in ["server-cert.pem", "server-key.pem"] {
        std::fs::copy(old.path(name), dir.path(name)).unwrap();
    }
    assert_eq!(std::fs::read(dir.path("ca-cert.pem")).unwrap(), current);
    daemon.signal("-HUP");
    daemon.until(&["read again"]);
    // The next client may still connect before the change is made on the disk's thread.
    while !Command::new("nbdinfo").arg(uri(&old)).output().unwrap().status.success() {}
    let before = Command::new("nbdinfo").arg(uri(&dir)).output().unwrap();
    assert!(!before.status.success(), "the old certificate is gone");
    daemon.end();
}
