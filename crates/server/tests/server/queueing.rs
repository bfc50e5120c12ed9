//! Clients' requests on their way to a disk that answers only when the test allows it, while clients connect and
//! disconnect.

use crate::support::log::OperatorLog;
use crate::support::{Server, is_read, open, request};
use crate::tls::Certificates;
use device::{Abilities, Answer, Ask, Device, Failure, Run};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::{ExportConfig, Limits};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::{Bytes, Duration, Instant, LbnRange};

/// A call that has arrived at a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueueEvent {
    Asked,
    Runs,
}

/// The state that a test shares with its disk.
#[derive(Debug, Default)]
struct GateState {
    /// The requests at the disk: id, bytes, and whether it is a read.
    asked: Vec<(u64, u64, bool)>,
    /// How many of the oldest requests the disk may answer.
    answers: usize,
    events: Vec<QueueEvent>,
    /// How many calls of [`Device::runs`] may return.
    runs: usize,
    writers: usize,
    /// Whether [`Device::hurry`] was called.
    hurried: bool,
    /// Whether the disk's answers are errors.
    fails: bool,
}

/// A disk of a terabyte that reads as zeroes, and answers only as many requests as the test allows.
#[derive(Debug)]
struct GatedDisk {
    shared: Arc<Mutex<GateState>>,
    now: Instant,
}

impl Device for GatedDisk {
    fn sector_bytes(&self) -> Bytes {
        Bytes::new(512)
    }

    fn size(&self) -> Bytes {
        Bytes::new(1 << 40)
    }

    fn abilities(&self) -> Abilities {
        Abilities { discard: true, write_zeroes: true, ..Abilities::default() }
    }

    /// Waits until the test allows it, as a search of a file with many holes may.
    fn runs(&self, range: LbnRange) -> Vec<Run> {
        self.shared.lock().unwrap().events.push(QueueEvent::Runs);
        until(&self.shared, |shared| shared.runs > 0);
        self.shared.lock().unwrap().runs -= 1;
        vec![Run { len: range.len(), hole: false }]
    }

    fn ask(&mut self, _: Instant, id: u64, range: LbnRange, ask: Ask) {
        let bytes = range.len().get() * 512;
        let mut shared = self.shared.lock().unwrap();
        shared.events.push(QueueEvent::Asked);
        shared.asked.push((id, bytes, matches!(ask, Ask::Read)));
    }

    fn set_writers(&mut self, writers: usize) {
        self.shared.lock().unwrap().writers = writers;
    }

    fn hurry(&mut self, _: Instant) {
        self.shared.lock().unwrap().hurried = true;
    }

    /// Makes the server ask for answers each millisecond.
    fn next_event(&self) -> Option<Instant> {
        Some(self.now + Duration::from_millis(1))
    }

    fn advance(&mut self, now: Instant) {
        self.now = now;
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        let mut shared = self.shared.lock().unwrap();
        if shared.answers == 0 || shared.asked.is_empty() {
            return None;
        }
        shared.answers -= 1;
        let (id, bytes, reads) = shared.asked.remove(0);
        let result = match shared.fails {
            true => Err(Failure::File(std::io::Error::other("broken"))),
            false => Ok(if reads { vec![0; bytes as usize] } else { Vec::new() }),
        };
        Some(Answer { id, at: now, result })
    }
}

fn held(test: &str, config: ExportConfig) -> Option<(Server<GatedDisk>, Arc<Mutex<GateState>>)> {
    let shared = Arc::new(Mutex::new(GateState::default()));
    let disk = GatedDisk { shared: Arc::clone(&shared), now: Instant::ZERO };
    Some((Server::start(test, config, |_| disk)?, shared))
}

/// Waits until the shared state fulfils a condition.
fn until(shared: &Mutex<GateState>, is: impl Fn(&GateState) -> bool) {
    while !is(&shared.lock().unwrap()) {
        std::thread::yield_now();
    }
}

fn answer(shared: &Mutex<GateState>, requests: usize) {
    shared.lock().unwrap().answers = requests;
}

/// Returns a client that has chosen the export `export`, with structured replies and the context `base:allocation`.
fn with_allocation(server: &Server<GatedDisk>, export: &str) -> UnixStream {
    let mut client = server.connect();
    client.read_exact(&mut [0; 18]).unwrap();
    let option = |kind: u32, data: &[u8]| {
        [b"IHAVEOPT", &kind.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()].concat();
    let context = b"base:allocation";
    let query = [&name[..], &1u32.to_be_bytes(), &(context.len() as u32).to_be_bytes(), context].concat();
    let go = [&name[..], &[0, 0]].concat();
    let all = [b"\0\0\0\x03".to_vec(), option(8, &[]), option(10, &query), option(7, &go)].concat();
    client.write_all(&all).unwrap();
    // A reply to an option has a magic, the option, the kind of reply and a length. The replies to GO end with an
    // acknowledgement.
    loop {
        let mut header = [0; 20];
        client.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        let (of, kind, length) = (word(8), word(12), word(16));
        client.read_exact(&mut vec![0; length as usize]).unwrap();
        assert!(kind < 1 << 31, "option {of} is refused");
        if (of, kind) == (7, 1) {
            return client;
        }
    }
}

/// Takes the reply to a request without data: a simple reply, or structured chunks up to the last.
fn take_reply(client: &mut UnixStream) {
    loop {
        let mut header = [0; 16];
        client.read_exact(&mut header).unwrap();
        if header[..4] == 0x6744_6698_u32.to_be_bytes() {
            return;
        }
        // A chunk has a magic, flags, a kind, a cookie and a length.
        let mut length = [0; 4];
        client.read_exact(&mut length).unwrap();
        client.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
        if header[5] & 1 == 1 {
            return;
        }
    }
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

/// Each request is answered at once, which makes room for the next. If that were a call within a call, a few thousand
/// requests would overflow the server's stack.
#[test]
fn thousands_of_requests_that_need_no_disk_are_answered_whatever_they_are() {
    let config = ExportConfig { background: Some("later".into()), ..ExportConfig::default() };
    let Some((server, shared)) = held("at-once", config) else { return };
    shared.lock().unwrap().runs = usize::MAX;
    for (export, kind, length) in
        [("", BLOCK_STATUS, 4096), ("later", CACHE, 4096), ("later", WRITE, 0), ("", 99, 0)]
    {
        let mut client = with_allocation(&server, export);
        let mut sends = client.try_clone().unwrap();
        let requests: Vec<u8> = (0..4_000).flat_map(|cookie| request(kind, cookie, 0, length)).collect();
        let sender = std::thread::spawn(move || sends.write_all(&requests).unwrap());
        (0..4_000).for_each(|_| take_reply(&mut client));
        sender.join().unwrap();
    }
    answer(&shared, usize::MAX);
    server.end();
}

/// Without a share for each client, a hundred status replies would precede the read.
#[test]
fn a_client_that_asks_for_allocation_keeps_no_other_waiting() {
    let Some((server, shared)) = held("allocation", ExportConfig::default()) else { return };
    let (mut asks, mut other) = (with_allocation(&server, ""), server.client());
    let requests: Vec<u8> = (0..100).flat_map(|cookie| request(BLOCK_STATUS, cookie, 0, 4096)).collect();
    asks.write_all(&requests).unwrap();
    until(&shared, |shared| shared.events.contains(&QueueEvent::Runs));
    other.write_all(&request(READ, 1, 0, 512)).unwrap();
    shared.lock().unwrap().runs = 100;
    until(&shared, |shared| !shared.asked.is_empty());
    let before = shared.lock().unwrap().events.iter().take_while(|event| **event == QueueEvent::Runs).count();
    assert!(before < 10, "{before} of 100 answers came first");
    answer(&shared, usize::MAX);
    other.read_exact(&mut [0; 16 + 512]).unwrap();
    drop((asks, other));
    server.end();
}

/// The pieces in which zeroes are written count in the fair order with all of their bytes.
#[test]
fn long_zeroes_leave_room_for_another_client() {
    let Some((server, shared)) = held("zeroes", ExportConfig::default()) else { return };
    let (mut zeroes, mut other) = (server.client(), server.client());
    let requests: Vec<u8> =
        (0..64).flat_map(|cookie| request(WRITE_ZEROES, cookie, cookie << 30, 128 << 20)).collect();
    zeroes.write_all(&requests).unwrap();
    until(&shared, |shared| !shared.asked.is_empty());
    for _ in 0..100 {
        other.write_all(&request(READ, 1, 0, 4096)).unwrap();
        until(&shared, |shared| shared.asked.iter().any(|(_, bytes, _)| *bytes == 4096));
        let there: u64 = shared.lock().unwrap().asked.iter().map(|(_, bytes, _)| bytes).sum();
        assert!(there <= (96 << 20) + 4096, "{there} bytes are before the read");
        // The disk answers requests in the order of their arrival.
        while shared.lock().unwrap().asked.iter().any(|(_, bytes, _)| *bytes == 4096) {
            answer(&shared, 1);
            until(&shared, |shared| shared.answers == 0);
        }
        other.read_exact(&mut [0; 16 + 4096]).unwrap();
    }
    answer(&shared, usize::MAX);
    drop((zeroes, other));
    server.end();
}

/// Over TCP, a client that has closed its socket looks like a client that has ended only its sending side.
#[test]
fn a_client_over_tcp_that_is_gone_keeps_no_slot() {
    let limits = Limits { clients: 2, ..Limits::default() };
    let Some((server, shared)) = held("tcp", ExportConfig { limits, ..ExportConfig::default() }) else {
        return;
    };
    let tcp = || {
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        client.read_exact(&mut [0; 18]).unwrap();
        client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
        client
    };
    // This client stays, and counts as one writer.
    let stays = server.client();
    until(&shared, |shared| shared.writers == 1);
    let reads =
        |requests: u64| (0..requests).flat_map(|cookie| request(READ, cookie, 0, 512)).collect::<Vec<u8>>();
    for requests in [0, 1, 128, 1_000] {
        let mut leaves = tcp();
        until(&shared, |shared| shared.writers == 2);
        leaves.write_all(&reads(requests)).unwrap();
        drop(leaves);
        until(&shared, |shared| shared.writers == 1);
    }
    // A client that has said goodbye may end its sending side, and still gets its answers.
    for requests in [1, 128, 1_000] {
        let mut orderly = tcp();
        let goodbye = request(2, 0, 0, 0);
        orderly.write_all(&[reads(requests), goodbye].concat()).unwrap();
        orderly.shutdown(std::net::Shutdown::Write).unwrap();
        answer(&shared, usize::MAX);
        let mut all = Vec::new();
        orderly.read_to_end(&mut all).unwrap();
        assert_eq!(all.len() as u64, requests * (16 + 512));
        answer(&shared, 0);
        until(&shared, |shared| shared.writers == 1);
    }
    drop(stays);
    answer(&shared, usize::MAX);
    server.end();
}

/// Returns a client that uses TLS and has chosen the export without a name.
fn encrypted<S: Read + Write>(
    mut socket: S,
    certificates: &Certificates,
) -> StreamOwned<ClientConnection, S> {
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0").unwrap();
    socket.read_exact(&mut [0; 20]).unwrap();
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(certificates.file("ca-cert.pem")).unwrap();
    roots.add(root).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut client = StreamOwned::new(session, socket);
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    client
}

fn writes(requests: u64, bytes: u32) -> Vec<u8> {
    (0..requests)
        .flat_map(|cookie| [request(WRITE, cookie, 0, bytes), vec![5; bytes as usize]].concat())
        .collect()
}

/// While requests are at the disk, later ones stay in the socket. The server learns of the goodbye behind them only
/// when it has read them.
#[test]
fn requests_before_a_goodbye_are_answered_whatever_is_not_read_yet() {
    let certificates = Certificates::new("goodbye");
    let Some((server, shared)) = held("goodbye", certificates.export(false, false)) else { return };
    let tcp = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let goodbye = || request(2, 0, 0, 0);
    let mut client = encrypted(tcp(), &certificates);
    client.write_all(&[writes(150, 4096), goodbye()].concat()).unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    client.sock.shutdown(Shutdown::Write).unwrap();
    // The server notices the end of the sending side before it greets another client.
    drop(server.client());
    answer(&shared, usize::MAX);
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    assert_eq!(answers.len(), 150 * 16);
    answer(&shared, 0);
    // More bytes stay unread in the socket than the server searches for a goodbye.
    let mut client = tcp();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    let mut sends = client.try_clone().unwrap();
    let sent = std::thread::spawn(move || {
        sends.write_all(&[writes(600, 4096), goodbye()].concat()).unwrap();
        sends.shutdown(Shutdown::Write).unwrap();
    });
    // The kernel may not take all bytes before some requests are answered.
    for _ in 0..1_000 {
        drop(server.client());
        if sent.is_finished() {
            break;
        }
    }
    answer(&shared, usize::MAX);
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    assert_eq!(answers.len(), 600 * 16);
    sent.join().unwrap();
    server.end();
}

/// The disk answers none of the clients' requests.
#[test]
fn a_client_that_has_ended_its_sending_side_and_then_closes_keeps_no_slot() {
    let certificates = Certificates::new("closes");
    let Some((server, shared)) = held("closes", certificates.export(false, false)) else { return };
    let stays = server.client();
    let reads = (0..10).flat_map(|cookie| request(READ, cookie, 0, 512)).collect::<Vec<u8>>();
    let mut leaves = server.client();
    leaves.write_all(&[reads.clone(), request(2, 0, 0, 0)].concat()).unwrap();
    leaves.shutdown(Shutdown::Write).unwrap();
    drop(server.client());
    drop(leaves);
    until(&shared, |shared| shared.writers == 1);
    let mut leaves = encrypted(server.connect(), &certificates);
    leaves.write_all(&reads).unwrap();
    leaves.conn.send_close_notify();
    leaves.flush().unwrap();
    leaves.sock.shutdown(Shutdown::Write).unwrap();
    drop(server.client());
    drop(leaves);
    until(&shared, |shared| shared.writers == 1);
    // A client that sends bytes which cannot be decrypted gets no answers, and is disconnected without closing itself.
    let mut leaves = encrypted(server.connect(), &certificates);
    let before = shared.lock().unwrap().asked.len();
    leaves.write_all(&reads).unwrap();
    leaves.flush().unwrap();
    until(&shared, |shared| shared.asked.len() == before + 10);
    leaves.sock.write_all(&[&b"\x17\x03\x03\0\x20"[..], &[0; 32]].concat()).unwrap();
    until(&shared, |shared| shared.writers == 1);
    drop((leaves, stays));
    answer(&shared, usize::MAX);
    server.end();
}

#[test]
fn clients_that_choose_no_export_keep_no_other_out() {
    let limits = Limits { clients: 8, ..Limits::default() };
    let Some((server, shared)) = held("silent", ExportConfig { limits, ..ExportConfig::default() }) else {
        return;
    };
    answer(&shared, usize::MAX);
    let silent: Vec<UnixStream> = (0..4)
        .map(|_| {
            let mut client = server.connect();
            client.read_exact(&mut [0; 18]).unwrap();
            client
        })
        .collect();
    let mut chosen: Vec<UnixStream> = (0..4).map(|_| server.client()).collect();
    assert!(chosen.iter_mut().all(|client| is_read(client, 0, 512)));
    // A client that has chosen an export keeps its slot when others connect.
    let mut late = server.connect();
    late.read_exact(&mut [0; 18]).unwrap();
    late.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    assert_eq!(late.read(&mut [0; 10]).unwrap_or(0), 0);
    assert!(chosen.iter_mut().all(|client| is_read(client, 0, 512)));
    drop((silent, chosen, late));
    server.end();
}

/// A client that repeats a failing request must not fill the log's file system.
#[test]
fn a_thousand_failed_requests_are_few_lines_and_a_count() {
    let log = OperatorLog::shared();
    let Some((server, shared)) = held("failing", ExportConfig::default()) else { return };
    shared.lock().unwrap().fails = true;
    answer(&shared, usize::MAX);
    let (mut client, began) = (server.client(), std::time::Instant::now());
    for cookie in 0..1_000 {
        client.write_all(&request(READ, cookie, 0, 512)).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_ne!(reply[4..8], [0; 4], "an error");
    }
    drop(client);
    server.end();
    let named = log.numbers(&["WARN [failing]", "a request failed"], "client").len() as u64;
    let counted: u64 =
        log.numbers(&["WARN [failing]", "further warnings about clients"], "lines").iter().sum();
    // Twenty lines are allowed in each window of ten seconds, and the first line begins a window.
    let windows = began.elapsed().as_secs() / 10 + 1;
    assert!((20..=20 * windows).contains(&named), "{named} lines");
    assert_eq!(named + counted, 1_000);
}

/// Starts a thread whose clients, one after the other, write 120 KiB to an export and disconnect without waiting for
/// the answer.
fn write_and_leave(server: &Server<GatedDisk>, export: &'static str, clients: usize) -> JoinHandle<()> {
    let path = server.dir.join("s");
    // While the server accepts no connection, connecting blocks, so the clients need a thread of their own.
    std::thread::spawn(move || {
        let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()].concat();
        for _ in 0..clients {
            let mut client = UnixStream::connect(&path).unwrap();
            if client.read_exact(&mut [0; 18]).is_err() {
                continue;
            }
            client.write_all(&[&b"\0\0\0\x03IHAVEOPT\0\0\0\x01"[..], &name].concat()).unwrap();
            if client.read_exact(&mut [0; 10]).is_ok() {
                let _ = client.write_all(&[request(WRITE, 1, 0, 120 << 10), vec![7; 120 << 10]].concat());
            }
        }
    })
}

/// Each client leaves the bytes of a write at the busy disk. No more clients are accepted than there is memory for.
#[test]
fn clients_that_write_and_are_gone_hold_no_more_than_the_bound() {
    if !testing::in_own_process("queueing::clients_that_write_and_are_gone_hold_no_more_than_the_bound") {
        return;
    }
    let limits = Limits { bytes: 32 << 20, ..Limits::default() };
    let Some((server, shared)) = held("churn", ExportConfig { limits, ..ExportConfig::default() }) else {
        return;
    };
    let clients = write_and_leave(&server, "", 1_000);
    let at_disk = |shared: &GateState| shared.asked.iter().map(|(_, bytes, _)| *bytes).sum::<u64>();
    // The disk answers one request a millisecond while clients connect.
    while !clients.is_finished() {
        let held = crate::memory::ALLOCATOR.allocated();
        assert!(held <= (32 << 20) + crate::memory::OTHER_BYTES_MAX, "{held} bytes are held");
        std::thread::sleep(std::time::Duration::from_millis(1));
        let shared = &mut *shared.lock().unwrap();
        assert!(at_disk(shared) <= 128 * (120 << 10), "{} at the disk", at_disk(shared));
        shared.answers = 1;
    }
    clients.join().unwrap();
    answer(&shared, usize::MAX);
    let mut client = server.connect();
    open(&mut client);
    assert!(is_read(&mut client, 0, 4096));
    drop(client);
    server.end();
}

/// A busy disk may never serve the background writes by itself.
#[test]
fn background_writes_of_clients_that_are_gone_keep_no_client_out() {
    let limits = Limits { bytes: 8 << 20, ..Limits::default() };
    let background = Some("later".into());
    let config = ExportConfig { limits, background, background_write: true, ..ExportConfig::default() };
    let Some((server, shared)) = held("left", config) else { return };
    let clients = write_and_leave(&server, "later", 100);
    until(&shared, |shared| shared.hurried);
    answer(&shared, usize::MAX);
    clients.join().unwrap();
    let mut client = server.connect();
    open(&mut client);
    assert!(is_read(&mut client, 0, 4096));
    drop(client);
    server.end();
}
