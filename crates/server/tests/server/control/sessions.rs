//! Sessions of client programs, in Rust and Python.

use super::{daemon, until};
use crate::support::log::OperatorLog;
use client::{Got, Session, SessionError};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

const MOMENT: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn every_block_of_the_disk_arrives_once() {
    let Some(daemon) = daemon("session-read") else { return };
    let mut session = Session::open(&daemon.socket, "data", 20).unwrap();
    let (sectors, mut seen) = (session.sectors(), BTreeSet::new());
    session.read(0, sectors, 8, 42).unwrap();
    loop {
        let Got::Record(record) = session.get(MOMENT).unwrap() else { panic!("nothing came") };
        assert_eq!(
            (record.parameter, record.bad, record.bytes.len() as u64),
            (42, None, record.sectors * 512)
        );
        assert!(seen.insert(record.start));
        if record.last {
            break;
        }
    }
    assert_eq!(seen.len() as u64, sectors.div_ceil(8));
    assert_eq!(session.get(Some(Duration::ZERO)).unwrap(), Got::Nothing);
    assert_eq!(session.close().unwrap(), 0);
    daemon.end();
}

#[test]
fn a_session_asks_for_the_bytes_of_a_write_and_reads_them_again() {
    let Some(daemon) = daemon("session-write") else { return };
    let mut session = Session::open(&daemon.socket, "data", 20).unwrap();
    session.write(100, 64, 8, 0).unwrap();
    let (mut refused, mut written) = (BTreeSet::new(), 0);
    loop {
        match session.get(MOMENT).unwrap() {
            // At the first request for a block the client has no bytes ready.
            Got::Wanted(wanted) if refused.insert(wanted.start) => session.not_now(&wanted).unwrap(),
            Got::Wanted(wanted) => session.give(&wanted, &[wanted.start as u8; 8 * 512]).unwrap(),
            Got::Record(record) => {
                assert!(record.write && record.bad.is_none());
                written += 1;
                if record.last {
                    break;
                }
            }
            Got::Nothing => panic!("{written} written"),
        }
    }
    assert_eq!(written, 8);
    session.read(100, 64, 8, 0).unwrap();
    assert!(session.promote(100, 64).unwrap() <= 8);
    for _ in 0..8 {
        let Got::Record(record) = session.get(MOMENT).unwrap() else { panic!("nothing came") };
        assert!(record.bytes.iter().all(|byte| *byte == record.start as u8), "{}", record.start);
    }
    daemon.end();
}

#[test]
fn calls_are_refused_by_name_and_abort_suspend_and_resume_do_so() {
    let Some(daemon) = daemon("session-calls") else { return };
    let refused = |reported: Result<Session, SessionError>| reported.unwrap_err().to_string();
    assert_eq!(refused(Session::open(&daemon.socket, "data", 0)), "priority: 0; give 1 to 100");
    assert_eq!(
        refused(Session::open(&daemon.socket, "date", 1)),
        "there is no disk \"date\"; the disks are data"
    );
    let mut session = Session::open(&daemon.socket, "data", 20).unwrap();
    let sectors = session.sectors();
    let said = session.read(0, sectors + 1, 8, 0).unwrap_err().to_string();
    assert!(said.contains("end past the drive"), "{said}");
    let said = session.read(0, sectors, 4_096, 0).unwrap_err().to_string();
    assert_eq!(said, "a block size of 4096 sectors; give blocks of at most 1 MiB");
    session.suspend().unwrap();
    let task = session.read(0, sectors, 8, 0).unwrap();
    assert_eq!(session.get(Some(Duration::from_millis(200))).unwrap(), Got::Nothing);
    assert_eq!(session.abort_range(0, 16).unwrap(), 2);
    assert_eq!(session.abort(task).unwrap(), sectors.div_ceil(8) - 2);
    session.read(0, 8, 8, 0).unwrap();
    session.resume().unwrap();
    assert!(matches!(session.get(MOMENT).unwrap(), Got::Record(record) if record.last));
    daemon.end();
}

/// The session of a client that disconnects is closed, and the session of a client that does not read is suspended. A
/// scrub is completed meanwhile.
#[test]
fn a_vanished_and_a_slow_client_delay_no_other() {
    let log = OperatorLog::shared();
    let Some(daemon) = daemon("session-slow") else { return };
    let mut slow = Session::open(&daemon.socket, "data", 100).unwrap();
    for _ in 0..40 {
        slow.read(0, slow.sectors(), 8, 0).unwrap();
    }
    let mut gone = Session::open(&daemon.socket, "data", 100).unwrap();
    gone.read(0, gone.sectors(), 8, 0).unwrap();
    drop(gone);
    let control = daemon.client();
    control.post("/v1/disks/data/tasks", &json!({ "kind": "scrub" })).unwrap();
    until(&control, 1, "done");
    assert!(log.has(&["WARN", "a session's client went away", "disk=", "session=", "why="]));
    // The client that did not read still gets all of its blocks.
    let mut blocks = 0;
    loop {
        let Got::Record(record) = slow.get(MOMENT).unwrap() else { panic!("{blocks} came") };
        blocks += 1;
        if record.last {
            break;
        }
    }
    assert_eq!(blocks, 40 * slow.sectors().div_ceil(8));
    daemon.end();
}

#[test]
fn garbage_on_a_session_or_the_socket_stands_in_the_log() {
    let log = OperatorLog::shared();
    let Some(daemon) = daemon("session-garbage") else { return };
    let mut garbage = UnixStream::connect(&daemon.socket).unwrap();
    garbage.write_all(b"\x01\x02\x03 nothing of the kind\r\n\r\n").unwrap();
    garbage.read_to_end(&mut Vec::new()).unwrap();
    let mut session = UnixStream::connect(&daemon.socket).unwrap();
    let asks = "POST /v1/disks/data/sessions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: freeblock-session\r\n\r\n";
    session.write_all(asks.as_bytes()).unwrap();
    session.write_all(&[0xFF; 64]).unwrap();
    session.read_to_end(&mut Vec::new()).unwrap();
    while !log.has(&["WARN", "a client of the control socket sends no request", "why=", "uid="]) {
        std::thread::yield_now();
    }
    while !log.has(&["WARN", "its client does not keep to the protocol", "session=", "error="]) {
        std::thread::yield_now();
    }
    daemon.end();
}

#[test]
fn the_python_client_reads_writes_and_polls() {
    if !testing::needs_program("python3") {
        return;
    }
    let Some(daemon) = daemon("session-python") else { return };
    let script = r#"
import select, sys
import freeblock
control = sys.argv[1]
assert freeblock.request("GET", "/v1/disks", control=control)["disks"][0]["name"] == "data"
try:
    freeblock.request("POST", "/v1/disks/data/tasks", {"kind": "scrub", "priority": 0}, control=control)
    raise AssertionError
except freeblock.Refused as refused:
    assert str(refused) == "priority: 0; give 1 to 100", refused
try:
    freeblock.Session("date", control=control)
    raise AssertionError
except freeblock.Refused as refused:
    assert "there is no disk" in str(refused)
with freeblock.Session("data", control=control) as session:
    session.write(0, 16, block=8)
    last = False
    while not last:
        got = session.get(20)
        if isinstance(got, freeblock.Wanted):
            session.give(got, bytes([7]) * got.sectors * session.sector_bytes)
        else:
            last = got.last
    task = session.read(0, session.sectors, block=8, parameter=5)
    assert select.select([session], [], [], 20)[0]
    blocks = {record.start: record for record in session}
    assert len(blocks) == -(-session.sectors // 8)
    assert blocks[0].data == bytes([7]) * 4096 and blocks[0].parameter == 5
    assert session.get(0) is None
    try:
        session.abort(task)
        raise AssertionError
    except freeblock.Refused:
        pass
# The descriptor tells of every record: one get that does not wait each time that it does is enough.
with freeblock.Session("data", control=control) as session:
    poll = select.poll()
    poll.register(session, select.POLLIN)
    session.read(0, session.sectors, block=8)
    blocks, last = set(), False
    while not last:
        assert poll.poll(20_000), f"silent after {len(blocks)} records"
        got = session.get(0)
        if got is not None:  # a part of a record
            blocks.add(got.start)
            last = got.last
    assert len(blocks) == -(-session.sectors // 8) >= 64
    assert session.get(0) is None
print("well")
"#;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python");
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script]).arg(&daemon.socket).env("PYTHONPATH", path);
    let ran = python.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "well\n", "{said}");
    daemon.end();
}

/// Aborting a block makes room for another.
#[test]
fn a_session_is_asked_for_two_mebibytes_at_a_time() {
    const SECTORS: u64 = 1_024;
    let Some(daemon) = daemon("session-asked") else { return };
    let mut session = Session::open(&daemon.socket, "data", 20).unwrap();
    // The session registers six blocks of 512 KiB in two tasks.
    (0..2).for_each(|_| assert!(session.write(0, 3 * SECTORS, SECTORS, 0).unwrap() > 0));
    let wanted = |session: &mut Session| {
        let mut starts = Vec::new();
        while let Got::Wanted(wanted) = session.get(Some(Duration::from_millis(500))).unwrap() {
            starts.push(wanted.start);
        }
        starts
    };
    let first = wanted(&mut session);
    assert_eq!(first.len(), 4, "{first:?}");
    let withdrawn = first.iter().filter(|start| **start == first[0]).count();
    assert_eq!(session.abort_range(first[0], 1).unwrap(), 2);
    let then = wanted(&mut session);
    assert_eq!(then.len(), withdrawn, "{first:?}, {then:?}");
    daemon.end();
}
