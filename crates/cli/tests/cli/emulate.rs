//! `freeblock emulate`.

use crate::support::{Dir, command, run_with};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// Starts the server; returns its process, and the address that it reports. `None` if there is no io_uring.
fn start(dir: &Dir, more: &[&str]) -> Option<(Child, String)> {
    let (file, socket) = (dir.path("disk"), dir.path("s"));
    let args = ["emulate", "quantum-atlas-10k", "--file", &file, "--socket", &socket];
    let mut server =
        command().args(args).args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    // Read the rest, so that a full pipe does not block the server.
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        rest
    });
    if !std::path::Path::new(&socket).exists() {
        let rest = rest.join().unwrap();
        server.wait().unwrap();
        assert!(rest.contains("io_uring"), "{said}{rest}");
        testing::missing("io_uring");
        return None;
    }
    Some((server, said))
}

#[test]
fn an_emulated_drive_is_served_until_ctrl_c() {
    let dir = Dir::new();
    let Some((mut server, said)) = start(&dir, &["--json"]) else { return };
    assert!(said.contains("Quantum Atlas 10K") && said.contains("nbd+unix:///?socket="), "{said}");
    let mut client = std::os::unix::net::UnixStream::connect(dir.path("s")).unwrap();
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"NBDMAGIC"));
    drop(client);
    let (file, socket) = (dir.path("disk"), dir.path("s2"));
    run_with(&["emulate", "quantum-atlas-10k", "--file", &file, "--socket", &socket])
        .complained(1, &["cannot be opened for exclusive use", "a file of its own"]);
    assert!(Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap().success());
    let mut out = String::new();
    server.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(server.wait().unwrap().success());
    let tally: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(tally["clients"], 1, "{tally}");
    assert!(tally["lateness_us"]["max"].is_number(), "{tally}");
    let bytes = std::fs::metadata(&file).unwrap();
    assert_eq!(bytes.len(), 9_199_079_936);
    assert!(std::os::unix::fs::MetadataExt::blocks(&bytes) < 1000, "holes");
}

#[test]
fn mistakes_name_their_place() {
    let dir = Dir::new();
    let (file, socket) = (dir.path("disk"), dir.path("s"));
    run_with(&["emulate", "quantum-atlas-10k", "--file", &file]).complained(2, &["--socket", "--listen"]);
    run_with(&["emulate", "quantum-atlas-10k", "--file", &file, "--listen", "0.0.0.0:0"])
        .complained(1, &["0.0.0.0:0", "allow it by name"]);
    run_with(&["emulate", "nothing", "--file", &file, "--socket", &socket]).complained(2, &["nothing"]);
    assert!(!std::path::Path::new(&file).exists(), "nothing is made for a mistake");
    std::fs::write(&file, "not a drive").unwrap();
    run_with(&["emulate", "quantum-atlas-10k", "--file", &file, "--socket", &socket])
        .complained(1, &["11 bytes", "give a new file"]);
}
