//! The recording of a live run, and its replay.

use crate::crash::{Asked, Client, draw};
use crate::serve::{Daemon, PROFILE, start};
use crate::support::{Dir, command, number, run_with};

/// A daemon that records, with a scrub at work.
struct Recorded {
    dir: Dir,
    daemon: Daemon,
    file: String,
}

/// Starts a daemon that records; `None` if there is no io_uring.
fn recorded(more: &[&str]) -> Option<Recorded> {
    let dir = Dir::new();
    let disk = format!("d0=emulated:{},file={},noise", dir.file("small.toml", PROFILE), dir.path("disk"));
    let [file, state, control] = ["recording", "state", "control"].map(|name| dir.path(name));
    let listen = format!("unix:{}", dir.path("nbd"));
    let args = ["--disk", &disk, "--listen", &listen, "--state", &state, "--control", &control];
    let daemon = start(&[&args[..], &["--record", &file, "--json"], more].concat(), 1)?;
    // The control socket appears after the disk's socket.
    while !std::path::Path::new(&control).exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let reported = command().args(["scrub", "--block-sectors", "8", "--control", &control]).output().unwrap();
    assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
    Some(Recorded { dir, daemon, file })
}

/// Keeps eight requests in flight until this number is answered.
pub(crate) fn load(socket: &str, requests: u64) {
    let mut client = Client::open(socket);
    let (mut state, mut answers) = (7, 0);
    while answers < requests {
        while client.asked.len() < 8 {
            let asked = match draw(&mut state, 16) {
                0 => Asked::Flush { answers },
                stamp => {
                    Asked::Write { lbn: draw(&mut state, 3_500), sectors: 1 + stamp, stamp, fua: stamp == 1 }
                }
            };
            client.ask(asked);
        }
        client.answer().unwrap();
        answers += 1;
    }
    while !client.asked.is_empty() {
        client.answer().unwrap();
    }
    client.read(0, 64);
}

#[test]
fn a_recorded_live_run_replays_with_identical_decisions() {
    for more in [&[][..], &["--profile", "none"]] {
        let Some(Recorded { dir, daemon, file }) = recorded(more) else { return };
        load(&dir.path("nbd"), 250);
        daemon.end();
        let reported = run_with(&["simulate", "--replay-live", &file, "--json"]).json();
        assert!(
            number(&reported, "/requests") > 150.0 && number(&reported, "/commands") > 150.0,
            "{reported}"
        );
        assert!(number(&reported, "/blocks") > 0.0 && number(&reported, "/inputs") > 500.0, "{reported}");
        assert_eq!(
            (&reported["cut_off"], &reported["difference"]),
            (&false.into(), &serde_json::Value::Null)
        );
        let page = run_with(&["simulate", "--replay-live", &file]).worked();
        assert!(page.ends_with("every decision was the same\n"), "{page}");
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        run_with(&["simulate", "--replay-live", &file])
            .complained(1, &[&file, "the recording is damaged: frame", "the frame's checksum does not fit"]);
    }
}

#[test]
fn a_recording_that_ends_with_a_kill_replays_as_far_as_it_goes() {
    let Some(Recorded { dir, mut daemon, file }) = recorded(&[]) else { return };
    load(&dir.path("nbd"), 200);
    daemon.kill();
    daemon.child.wait().unwrap();
    let reported = run_with(&["simulate", "--replay-live", &file, "--json"]).json();
    assert_eq!((&reported["cut_off"], &reported["difference"]), (&true.into(), &serde_json::Value::Null));
    assert!(number(&reported, "/inputs") > 0.0, "{reported}");
    // The next recording does not overwrite the first.
    let before = std::fs::read(&file).unwrap();
    let again = Recorded { file: file.clone(), daemon, dir };
    let disk = format!("d0=emulated:{},file={}", again.dir.path("small.toml"), again.dir.path("disk"));
    let listen = format!("unix:{}", again.dir.path("nbd"));
    let Some(next) = start(&["--disk", &disk, "--listen", &listen, "--record", &file, "--json"], 1) else {
        return;
    };
    next.end();
    assert_eq!(std::fs::read(format!("{file}.last")).unwrap(), before);
    assert_eq!(run_with(&["simulate", "--replay-live", &file, "--json"]).json()["cut_off"], false);
    let other = again.dir.file("other", "precious");
    run_with(&["serve", "--disk", &disk, "--listen", &listen, "--record", &other])
        .complained(1, &["is there already, and no recording"]);
    assert_eq!(std::fs::read_to_string(other).unwrap(), "precious");
}

#[test]
fn a_file_that_is_no_recording_is_refused_by_name() {
    let dir = Dir::new();
    let file = dir.file("f", "# a trace\n");
    run_with(&["simulate", "--replay-live", &file]).complained(1, &[&file, "the file is no recording"]);
    run_with(&["simulate", "--replay-live", "none"]).complained(1, &["none: "]);
    run_with(&["simulate", "--replay-live", &file, "--mpl", "3"]).complained(2, &["--mpl"]);
}
