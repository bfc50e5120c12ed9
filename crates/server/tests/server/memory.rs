//! The memory held for clients, as counted by an allocator. The allocator counts the whole process, so each test has a
//! process of its own, and the clients in it read into small buffers.

use crate::support::{Server, is_read, reads, request, send};
use cap::Cap;
use server::{ExportConfig, Limits};
use std::alloc::System;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use units::Duration;

#[global_allocator]
pub(crate) static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const MIB: usize = 1 << 20;

/// The most bytes held in addition to the clients' limits: receive buffers, the log, and the test itself.
pub(crate) const OTHER_BYTES_MAX: usize = 16 * MIB;

fn take(client: &mut UnixStream, mut bytes: usize) {
    let mut buffer = [0; 1 << 16];
    while bytes > 0 {
        let most = bytes.min(buffer.len());
        bytes -= client.read(&mut buffer[..most]).unwrap();
    }
}

/// Makes small reads by another client until the server holds little memory.
fn until_little_is_held(client: &mut UnixStream, what: &str) {
    for _ in 0..100_000 {
        if ALLOCATOR.allocated() <= OTHER_BYTES_MAX {
            return;
        }
        assert!(is_read(client, 4096, 4096));
    }
    panic!("{what}: {} bytes are still held", ALLOCATOR.allocated());
}

/// Returns whether this process was started for this test alone. Such a process ends if it allocates more than a
/// gigabyte, because a server without bounds must not exhaust the machine.
fn is_alone(test: &str) -> bool {
    let alone = testing::in_own_process(test);
    if alone {
        ALLOCATOR.set_limit(1 << 30).unwrap();
    }
    alone
}

/// The bounds are those of the documents: 64 MiB for a client and 256 MiB for all. A client's bound is exceeded by the
/// one request of 32 MiB that is being copied, the bound for all is not.
#[test]
fn no_more_is_held_for_clients_than_the_bounds_say() {
    if !is_alone("memory::no_more_is_held_for_clients_than_the_bounds_say") {
        return;
    }
    // No client counts as slow during the test.
    let limits = Limits { patience: Duration::from_secs(3600), ..Limits::default() };
    assert_eq!((limits.client.bytes, limits.bytes), (64 * MIB, 256 * MIB));
    let Some(server) = Server::raw("memory", 64 << 20, ExportConfig { limits, ..ExportConfig::default() })
    else {
        return;
    };
    let mut other = server.client();

    // A client reads all answers to requests of the largest size, many times the bound in all.
    let (read, written) = testing::sized((12, 6), (64, 16));
    let mut greedy = server.client();
    greedy.write_all(&reads(read, 32 << 20)).unwrap();
    for _ in 0..read {
        take(&mut greedy, 16 + 32 * MIB);
    }
    let most = ALLOCATOR.max_allocated();
    assert!(
        most <= (64 + 32) * MIB + OTHER_BYTES_MAX,
        "{} MiB for a client that reads everything",
        most / MIB
    );

    // The client also writes several times the bound.
    let data = vec![5; MIB];
    for cookie in 0..written {
        greedy.write_all(&request(1, cookie, 0, 32 << 20)).unwrap();
        (0..32).for_each(|_| greedy.write_all(&data).unwrap());
    }
    take(&mut greedy, written as usize * 16);
    let most = ALLOCATOR.max_allocated();
    assert!(most <= (64 + 32) * MIB + OTHER_BYTES_MAX, "{} MiB for a client that writes much", most / MIB);
    drop((greedy, data));
    until_little_is_held(&mut other, "after clients that read and wrote much");

    // Seven clients read no answers, and another makes small reads meanwhile.
    let mut stuck: Vec<UnixStream> = (0..7).map(|_| server.client()).collect();
    for client in &mut stuck {
        assert!(send(client, &reads(278, 32 << 20)) > 28);
    }
    (0..1000).for_each(|_| assert!(is_read(&mut other, 4096, 4096)));
    let most = ALLOCATOR.max_allocated();
    assert!(most <= 256 * MIB + OTHER_BYTES_MAX, "{} MiB for seven clients that read nothing", most / MIB);
    assert!(most > 128 * MIB, "{} MiB: they were to fill what they may", most / MIB);
    drop(stuck);
    until_little_is_held(&mut other, "after clients that read nothing");

    // Clients disconnect in the middle of a write, and in the middle of their answers.
    for _ in 0..40 {
        let (mut writes, mut reads_some) = (server.client(), server.client());
        send(&mut writes, &[request(1, 1, 0, 32 << 20), vec![1; 100_000]].concat());
        send(&mut reads_some, &reads(9, 32 << 20));
        take(&mut reads_some, 100);
        assert!(is_read(&mut other, 4096, 4096));
    }
    until_little_is_held(&mut other, "after clients that were gone in the midst");
    let most = ALLOCATOR.max_allocated();
    assert!(most <= 256 * MIB + OTHER_BYTES_MAX, "{} MiB in all", most / MIB);
    drop(other);
    server.end();
}

/// Each session holds the records that its client has not read, and buffers that the client sends although the daemon
/// asked for none.
#[test]
fn sessions_that_send_much_and_take_nothing_hold_ten_mebibytes_each() {
    use client::wire::{Call, Frame, PROTOCOL, Range};
    if !is_alone("memory::sessions_that_send_much_and_take_nothing_hold_ten_mebibytes_each") {
        return;
    }
    let Ok(daemon) = crate::control::daemon::start("sessions-memory", Default::default()) else { return };
    let mut calls = Vec::new();
    for call in 0..64 {
        Call::Read { call, range: Range { start: 0, sectors: 3_000 }, block: 8, parameter: 0 }
            .encode(&mut calls);
    }
    for start in 0..64 {
        Call::Buffer { task: 1, start, bytes: vec![1; MIB] }.encode(&mut calls);
    }
    let before = ALLOCATOR.allocated();
    let sessions: Vec<UnixStream> = (0..6)
        .map(|_| {
            let mut session = UnixStream::connect(&daemon.socket).unwrap();
            write!(
                session,
                "POST /v1/disks/data/sessions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n"
            )
            .unwrap();
            // The client writes until the daemon reads no more.
            session.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
            let stopped = session.write_all(&calls).unwrap_err();
            assert_eq!(stopped.kind(), std::io::ErrorKind::WouldBlock);
            session
        })
        .collect();
    let held = ALLOCATOR.max_allocated() - before;
    assert!(
        held <= sessions.len() * 10 * MIB + OTHER_BYTES_MAX,
        "{} MiB for {} sessions",
        held / MIB,
        sessions.len()
    );
    assert!(held > sessions.len() * MIB, "{held}: they were to hold what they may");
    drop(sessions);
    daemon.end();
}

/// A source of snapshots of 4 MiB.
struct Large;

impl server::web::SnapshotSource for Large {
    fn snapshot(&self) -> serde_json::Value {
        "x".repeat(4 * MIB).into()
    }

    fn set(&self, _: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }
}

/// A browser that reads nothing holds the snapshot that is being sent and the next one, however many are made; each
/// snapshot is in memory once for all browsers. With a queue for each browser, fifty snapshots would be a gigabyte,
/// and the process would end.
#[test]
fn browsers_that_take_nothing_hold_no_more_with_each_snapshot() {
    use server::web::{BROWSERS_MAX, PageContent, Web, WebConfig};
    if !is_alone("memory::browsers_that_take_nothing_hold_no_more_with_each_snapshot") {
        return;
    }
    let every = std::time::Duration::from_millis(20);
    let config = WebConfig { every, ..WebConfig::new("127.0.0.1:0".parse().unwrap()) };
    let web = Web::open(config, PageContent::Other(std::sync::Arc::new(Large))).unwrap();
    let connect = || {
        let mut browser = std::net::TcpStream::connect(web.address()).unwrap();
        // Writing fails if the connection is above the limit and already closed.
        let _ = browser.write_all(b"GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        browser
    };
    // Snapshots are made only while a browser follows, and a browser that reads nothing is disconnected after half a
    // minute, so one browser reads all.
    let mut takes = connect();
    let browsers: Vec<std::net::TcpStream> = (0..99).map(|_| connect()).collect();
    let mut buffer = vec![0; 1 << 16];
    // While a snapshot is made or read, it is in memory several times for a moment, so the least of many readings
    // counts.
    let mut held_after = |snapshots: u64| {
        let mut least = usize::MAX;
        while web.snapshots() < snapshots + 10 {
            if !takes.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
                takes = connect();
            }
            if web.snapshots() >= snapshots {
                least = least.min(ALLOCATOR.allocated());
            }
        }
        least
    };
    let few = held_after(10);
    let many = held_after(60);
    assert!(many < few + 16 * MIB, "{few} bytes after 10 snapshots, {many} after 60");
    assert!(many < 2 * BROWSERS_MAX * 4 * MIB, "{many} bytes for {} browsers", browsers.len());
}
