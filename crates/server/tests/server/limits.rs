//! Clients that send garbage, too much, too slowly or nothing, beside a client that sends correct requests.

use crate::support::log::OperatorLog;
use crate::support::{Server, open, request, send};
use server::{ExportConfig, Limits};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use units::Duration;

fn export(limits: Limits) -> ExportConfig {
    ExportConfig { limits, ..ExportConfig::default() }
}

/// Returns pseudo-random bytes, the same each time.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn a_thousand_garbage_connections_hurt_no_other_client() {
    let log = OperatorLog::shared();
    let Some(server) = Server::raw("thousand", 1 << 20, export(Limits::default())) else { return };
    let mut good = server.connect();
    open(&mut good);
    for seed in 0..1000u64 {
        let mut client = server.connect();
        let garbage = match seed % 5 {
            0 => noise(seed, 1 + seed as usize % 5000),
            // The right first bytes, and then random ones.
            1 => [b"\0\0\0\x03IHAVEOPT".to_vec(), noise(seed, 40)].concat(),
            2 => [b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0".to_vec(), noise(seed, 300)].concat(),
            3 => b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xFF\xFF\xFF\xFF".to_vec(),
            _ => [b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0".to_vec(), request(1, 1, 0, 4096)].concat(),
        };
        // The server may disconnect before everything is sent, and the client may disconnect before an answer.
        let _ = client.write_all(&garbage);
        if seed % 3 == 0 && seed % 5 < 4 {
            let _ = client.shutdown(std::net::Shutdown::Write);
            let _ = client.read_to_end(&mut Vec::new());
        }
        if seed % 100 == 0 {
            good.write_all(&request(0, seed, 0, 512)).unwrap();
            let mut reply = [1; 16 + 512];
            good.read_exact(&mut reply).unwrap();
            assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        }
    }
    drop(good);
    // A client that disconnects before it is accepted may not be counted, which depends on the kernel.
    let tally = server.end();
    assert!(tally.clients > 900, "{tally:?}");
    assert!(tally.requests >= 10, "{tally:?}");
    assert!(log.has(&[
        "WARN [thousand]",
        "does not keep to the protocol",
        "client=",
        "violation=the client"
    ]));
    // The log has the suppressed lines as a count.
    let reported = log.numbers(&["WARN [thousand]", "client="], "client").len() as u64;
    let counted: u64 =
        log.numbers(&["WARN [thousand]", "further warnings about clients"], "lines").iter().sum();
    assert!(
        reported + counted > 500 && reported + counted <= tally.clients,
        "{reported} and {counted}: {tally:?}"
    );
}

/// A client that lists, says goodbye, or only checks whether a server listens causes no warning.
#[test]
fn an_orderly_end_causes_no_warning() {
    let log = OperatorLog::shared();
    let Some(server) = Server::raw("order", 1 << 20, export(Limits::default())) else { return };
    let connect = || UnixStream::connect(server.dir.join("s")).unwrap();
    drop(connect());
    let mut client = connect();
    open(&mut client);
    drop(client);
    let mut client = connect();
    open(&mut client);
    client.write_all(&request(2, 1, 0, 0)).unwrap();
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert!(server.serves());
    server.end();
    assert!(log.has(&["INFO [order]", "opened", "client="]));
    assert!(log.has(&["INFO [order]", "closed", "client="]));
    assert!(!log.has(&["WARN [order]"]));
}

#[test]
fn a_client_that_does_not_choose_is_hung_up_on() {
    let log = OperatorLog::shared();
    let limits = Limits { handshake: Duration::from_millis(50), ..Limits::default() };
    let Some(server) = Server::raw("silent", 1 << 20, export(limits)) else { return };
    let mut chosen = server.connect();
    open(&mut chosen);
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0").unwrap();
    for client in [&mut silent, &mut slow] {
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert!(all.starts_with(b"NBDMAGIC"), "greeted, and then not kept");
    }
    assert!(log.has(&["WARN", "hung up on", "the client took too long to choose an export", "client="]));
    chosen.write_all(&request(0, 1, 0, 512)).unwrap();
    chosen.read_exact(&mut [0; 16 + 512]).unwrap();
    drop(chosen);
    server.end();
}

/// A client that reads no answers holds memory up to its limit, and others are served.
#[test]
fn a_slow_consumer_holds_its_share_only() {
    let client = nbd::Limits { requests: 16, bytes: 1 << 20, options: 10 };
    let limits = Limits { client, patience: Duration::from_millis(50), ..Limits::default() };
    let log = OperatorLog::shared();
    let Some(server) = Server::raw("slow", 16 << 20, export(limits)) else { return };
    let mut slow = server.connect();
    open(&mut slow);
    // The answers are half a gigabyte.
    let reads: Vec<u8> = (0..128).flat_map(|cookie| request(0, cookie, 0, 4 << 20)).collect();
    slow.write_all(&reads).unwrap();
    assert!(server.serves());
    // The log names the client when it has read nothing for a while.
    while !log.has(&["WARN", "slow", "the client does not take its answers", "client="]) {
        assert!(server.serves());
    }
    // When the client reads at last, it gets all answers.
    let mut reply = vec![0; 16 + (4 << 20)];
    for _ in 0..128 {
        slow.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    }
    drop(slow);
    assert!(server.end().requests >= 129);
}

/// A client that waits for a descriptor is accepted once one is free. Until then the server tries ten times a second
/// at each socket.
#[test]
fn without_a_free_descriptor_a_server_tries_again_and_does_not_spin() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::os::fd::AsRawFd;
    if !testing::in_own_process("limits::without_a_free_descriptor_a_server_tries_again_and_does_not_spin") {
        return;
    }
    let log = OperatorLog::shared();
    let Some(server) = Server::raw("descriptors", 1 << 20, export(Limits::default())) else { return };
    let before = getrlimit(Resource::Nofile);
    // The client's end of the connection gets the last descriptor, and the server's end gets none.
    let last = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(last + 1), ..before }).unwrap();
    let (began, mut client) = (std::time::Instant::now(), server.connect());
    loop {
        let tries = log.numbers(&["WARN [descriptors]", "a client could not be taken in"], "error").len();
        // At each of the two sockets there is a first try and one every 100 ms. One more is allowed, because the
        // time counts from the iteration in which the first try began.
        let most = 2 * (began.elapsed().as_millis() / 100 + 2);
        assert!(tries as u128 <= most, "{tries} tries, {most} at most");
        if tries >= 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    setrlimit(Resource::Nofile, before).unwrap();
    open(&mut client);
    assert!(crate::support::is_read(&mut client, 0, 512));
    drop(client);
    server.end();
}

/// Large writes that exceed the memory together are admitted as memory becomes free, and none is lost.
#[test]
fn clients_that_want_more_memory_than_there_is_wait_and_lose_nothing() {
    let limits = Limits { bytes: 4 << 20, ..Limits::default() };
    let Some(server) = Server::raw("admission", 64 << 20, export(limits)) else { return };
    let connect = || {
        let mut client = server.connect();
        open(&mut client);
        client
    };
    let clients: Vec<UnixStream> = (0..16).map(|_| connect()).collect();
    let threads: Vec<_> = (0u64..)
        .zip(clients)
        .map(|(place, mut client)| {
            std::thread::spawn(move || {
                for nth in 0..4u64 {
                    let at = (place * 4 + nth) * (1 << 20);
                    let bytes = vec![(place * 4 + nth + 1) as u8; 1 << 20];
                    client.write_all(&request(1, nth, at, 1 << 20)).unwrap();
                    client.write_all(&bytes).unwrap();
                }
                for _ in 0..4 {
                    let mut reply = [1; 16];
                    client.read_exact(&mut reply).unwrap();
                    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let written = std::fs::read(server.dir.join("disk")).unwrap();
    for (at, piece) in written.chunks(1 << 20).enumerate() {
        assert!(piece.iter().all(|byte| *byte == at as u8 + 1), "piece {at}");
    }
    assert_eq!(server.end().requests, 64);
}

/// Half-sent writes fill the memory that is common to all clients. Another client's large write is executed
/// nevertheless, and so are the half-sent ones when they continue.
#[test]
fn clients_that_hold_memory_idle_keep_no_other_waiting() {
    let limits = Limits { bytes: 2 << 20, ..Limits::default() };
    let Some(server) = Server::raw("patience", 64 << 20, export(limits)) else { return };
    let half = |server: &Server<device::Raw>| {
        let mut client = server.connect();
        open(&mut client);
        client.write_all(&request(1, 1, 0, 32 << 20)).unwrap();
        client
    };
    let bytes = vec![7; 32 << 20];
    let mut stalled: Vec<(UnixStream, usize)> = (0..4).map(|_| (half(&server), 0)).collect();
    for (client, sent) in &mut stalled {
        *sent = send(client, &bytes[..1 << 20]);
    }
    let mut late = half(&server);
    late.write_all(&bytes).unwrap();
    late.read_exact(&mut [0; 16]).unwrap();
    for (mut client, sent) in stalled {
        client.write_all(&bytes[sent..]).unwrap();
        let mut reply = [1; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    }
    drop(late);
    assert_eq!(server.end().requests, 5);
}

#[test]
fn a_daemon_may_open_as_many_files_as_the_hard_limit_says() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if !testing::in_own_process("limits::a_daemon_may_open_as_many_files_as_the_hard_limit_says") {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    server::raise_descriptor_limit().unwrap();
    assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
}
