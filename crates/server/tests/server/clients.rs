//! Clients that read no answers, ask for too much, or disconnect, beside clients that are served normally.

use crate::support::log::OperatorLog;
use crate::support::{Server, is_read, reads, request, send};
use drive::{BadSectors, Behaviour};
use server::{ExportConfig, Limits};
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use units::Duration;

/// Returns limits under which no client counts as slow during a test.
fn patient() -> Limits {
    Limits { patience: Duration::from_secs(3600), ..Limits::default() }
}

fn raw(test: &str, limits: Limits) -> Option<Server<device::Raw>> {
    Server::raw(test, 64 << 20, ExportConfig { limits, ..ExportConfig::default() })
}

/// Stuck clients do not read the answers to nine reads of 32 MiB, or stop in the middle of a write. There are as many
/// as one peer may have, so they hold as much memory as they can. Another client's small and large reads are answered
/// meanwhile.
#[test]
fn clients_that_take_nothing_do_not_keep_another_waiting() {
    let Some(server) = raw("unread", Limits { clients: 128, ..patient() }) else { return };
    let mut other = server.client();
    let mut slow: Vec<UnixStream> = Vec::new();
    for stuck in [1, 1, 14, 15] {
        for _ in 0..stuck {
            let (mut reads_nothing, mut half) = (server.client(), server.client());
            send(&mut reads_nothing, &reads(9, 32 << 20));
            send(&mut half, &[request(1, 1, 0, 32 << 20), vec![0; 5000]].concat());
            slow.extend([reads_nothing, half]);
        }
        (0..200).for_each(|_| assert!(is_read(&mut other, 0, 4096)));
        (0..3).for_each(|_| assert!(is_read(&mut other, 0, 32 << 20)));
    }
    // The stuck clients still get their answers.
    let mut reply = vec![0; 16 + (32 << 20)];
    for client in [0, 10, 60] {
        (0..9).for_each(|_| slow[client].read_exact(&mut reply).unwrap());
    }
    drop((slow, other));
    server.end();
}

/// A client without structured replies gets the bytes before the bad sector and is disconnected. The next client is
/// served.
#[test]
fn a_large_read_that_fails_in_the_middle_ends_its_client_only() {
    let client = nbd::Limits { bytes: 64 << 10, ..nbd::Limits::default() };
    let behaviour =
        Behaviour { bad_sectors: Some(BadSectors { count: 1, retries: 0 }), ..Behaviour::default() };
    let Some(server) = Server::emulated("middle", behaviour, Limits { client, ..patient() }) else { return };
    let log = OperatorLog::shared();
    let mut client = server.client();
    client.write_all(&request(0, 7, 0, server.size as u32)).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert!((16..16 + server.size as usize).contains(&all.len()), "{} bytes", all.len());
    assert!(log.has(&["WARN", "hung up on", "a large read failed in the middle", "offset="]));
    drop(client);
    assert!(is_read(&mut server.client(), 0, 512));
    let tally = server.end();
    assert_eq!((tally.requests, tally.failed), (1, 1));
}

/// All 64 clients that one peer may have send 128 reads of 8 MiB and read no answers. After they have disconnected, 64
/// others are served.
#[test]
fn clients_that_are_gone_keep_no_slot() {
    let Some(server) = raw("slots", Limits { clients: 128, ..patient() }) else { return };
    for _ in 0..3 {
        let mut clients: Vec<UnixStream> = (0..64).map(|_| greeted(&server)).collect();
        for client in &mut clients {
            send(client, &reads(128, 8 << 20));
        }
    }
    let mut clients: Vec<UnixStream> = (0..64).map(|_| greeted(&server)).collect();
    clients.iter_mut().for_each(|client| assert!(is_read(client, 0, 4096)));
    drop(clients);
    server.end();
}

/// Returns a client that has a slot. Tries again if the server has not noticed yet that a former client is gone.
fn greeted(server: &Server<device::Raw>) -> UnixStream {
    for _ in 0..100_000 {
        if let Some(client) = chosen(server.connect()) {
            return client;
        }
        std::thread::yield_now();
    }
    panic!("no slot is free, and the clients that had them are gone");
}

/// Makes a client choose the export. Returns `None` if the server has no slot for the client.
fn chosen<S: Read + Write>(mut client: S) -> Option<S> {
    client.read_exact(&mut [0; 18]).ok()?;
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").ok()?;
    client.read_exact(&mut [0; 10]).ok()?;
    Some(client)
}

/// Connects over TCP from the loopback address 127.0.0.`from`.
fn tcp(server: &Server<device::Raw>, from: u8) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new([127, 0, 0, from].into(), 0)).unwrap();
    connect(&socket, &SocketAddrV4::new([127, 0, 0, 1].into(), server.port)).unwrap();
    socket.into()
}

/// A client that has chosen an export may be a mounted device, so it is never disconnected for being idle.
#[test]
fn idle_clients_of_one_peer_keep_no_other_out() {
    let log = OperatorLog::shared();
    let limits = Limits { clients: 16, handshake: Duration::from_secs(3600), ..patient() };
    let Some(server) = raw("peers", limits) else { return };
    let come = |from| (0..20).filter_map(|_| chosen(tcp(&server, from))).collect::<Vec<TcpStream>>();
    let mut first = come(1);
    assert_eq!(first.len(), 8, "half of the slots");
    let mut second = come(2);
    assert_eq!(second.len(), 4, "the rest without the reserves of two users");
    let own: Vec<UnixStream> = (0..20).filter_map(|_| chosen(server.connect())).collect();
    assert_eq!(own.len(), 2, "the reserve of this user, who is the daemon's");
    assert!(log.has(&["WARN [peers]", "a client is refused", "from=\"127.0.0.2:"]));

    // One client more gets the reason why it is refused if it chooses by NBD_OPT_GO, while many others choose nothing.
    let mut silent: Vec<TcpStream> = (0..40).map(|_| tcp(&server, 1)).collect();
    let mut refused = tcp(&server, 3);
    refused.read_exact(&mut [0; 18]).unwrap();
    refused.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0").unwrap();
    let mut head = [0; 20];
    refused.read_exact(&mut head).unwrap();
    assert_eq!(head[8..16], [0, 0, 0, 7, 0x80, 0, 0, 2], "NBD_REP_ERR_POLICY");
    let mut reason = vec![0; usize::from(head[19])];
    refused.read_exact(&mut reason).unwrap();
    assert!(String::from_utf8(reason).unwrap().contains("no free slot"));
    let mut all = Vec::new();
    silent[0].read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 18, "few that do not choose are kept");

    for client in first.iter_mut().chain(&mut second) {
        client.write_all(&request(0, 7, 0, 512)).unwrap();
        client.read_exact(&mut [0; 16 + 512]).unwrap();
    }
    drop(first.pop());
    while chosen(tcp(&server, 1)).is_none() {
        std::thread::yield_now();
    }
    drop((first, second, own, silent, refused));
    server.end();
}

/// A client whose requests wait for memory that another client holds is noticed when it disconnects.
#[test]
fn a_client_that_waits_for_memory_is_noticed_to_be_gone() {
    let limits = Limits { bytes: 48 << 20, clients: 6, ..patient() };
    let Some(server) = raw("waiting", limits) else { return };
    let mut holds = greeted(&server);
    send(&mut holds, &reads(9, 32 << 20));
    for _ in 0..20 {
        let (mut one, mut two) = (greeted(&server), greeted(&server));
        for client in [&mut one, &mut two] {
            send(client, &reads(9, 32 << 20));
        }
    }
    assert!(is_read(&mut greeted(&server), 0, 4096));
    drop(holds);
    server.end();
}

/// The clients have queued hours of work at a slow drive and read no answer.
#[test]
fn a_server_ends_in_its_time_whatever_is_queued() {
    let limits = Limits { drain: Duration::from_millis(50), ..patient() };
    let Some(server) = Server::emulated("drain", Behaviour::default(), limits) else { return };
    let mut clients: Vec<UnixStream> = (0..20).map(|_| server.client()).collect();
    let all = server.size as u32;
    for client in &mut clients {
        send(client, &reads(128, all));
    }
    let tally = server.end();
    assert!(tally.requests + tally.failed < 20 * 128, "{tally:?}");
}
