//! Requests in pieces over a Unix socket, over TCP and over TLS, whole and with the connection cut between two pieces.

use crate::support::{Server, request};
use crate::tls::Certificates;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::{ExportConfig, Limits};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use units::Duration;

/// The bytes of each request: more than the common memory allows, so that the request is split into pieces.
const REQUEST_BYTES: usize = 1 << 20;

/// The number of clients that one peer may have. It is small, so that a slot that is not freed is noticed.
const CLIENTS: usize = 2;

/// The transport of a connection.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Unix,
    Tcp,
    Tls,
}

const TRANSPORTS: [Transport; 3] = [Transport::Unix, Transport::Tcp, Transport::Tls];

trait ByteStream: Read + Write {}

impl<T: Read + Write> ByteStream for T {}

type PieceClient = Box<dyn ByteStream>;

/// Returns a server with a reserve of 32 KiB for each client, four pieces of 8 KiB, and 320 KiB common to all.
fn server(test: &str, certificates: &Certificates) -> Option<Server<device::Raw>> {
    let limits = Limits {
        bytes: 512 << 10,
        clients: 2 * CLIENTS,
        patience: Duration::from_secs(3600),
        ..Limits::default()
    };
    Server::raw(test, 2 * REQUEST_BYTES as u64, ExportConfig { limits, ..certificates.export(false, false) })
}

/// Returns a client that has chosen the export; `None` if the server has no slot for it yet.
fn enter(
    server: &Server<device::Raw>,
    certificates: &Certificates,
    transport: Transport,
    structured: bool,
) -> Option<PieceClient> {
    let tcp = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let mut client: PieceClient = match transport {
        Transport::Unix => Box::new(server.connect()),
        Transport::Tcp | Transport::Tls => Box::new(tcp()),
    };
    client.read_exact(&mut [0; 18]).ok()?;
    client.write_all(b"\0\0\0\x03").unwrap();
    if let Transport::Tls = transport {
        client = Box::new(encrypt(client, certificates));
    }
    if structured {
        client.write_all(b"IHAVEOPT\0\0\0\x08\0\0\0\0").unwrap();
        client.read_exact(&mut [0; 20]).unwrap();
    }
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 10]).ok()?;
    Some(client)
}

/// Returns a client that has a slot. Tries again if the server has not noticed yet that a former client is gone.
fn let_in(
    server: &Server<device::Raw>,
    certificates: &Certificates,
    transport: Transport,
    structured: bool,
) -> PieceClient {
    for _ in 0..100_000 {
        if let Some(client) = enter(server, certificates, transport, structured) {
            return client;
        }
        std::thread::yield_now();
    }
    panic!("no slot is free, and the clients that had them are gone");
}

fn encrypt(
    mut client: PieceClient,
    certificates: &Certificates,
) -> StreamOwned<ClientConnection, PieceClient> {
    client.write_all(b"IHAVEOPT\0\0\0\x05\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 20]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.file("ca-cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), client)
}

/// Returns the byte that write `number` puts at offset `at`.
fn byte(number: usize, at: usize) -> u8 {
    (at ^ (at >> 9) ^ (at >> 15) ^ (number * 0x55)) as u8
}

fn bytes(number: usize) -> Vec<u8> {
    (0..REQUEST_BYTES).map(|at| byte(number, at)).collect()
}

fn write(client: &mut PieceClient, data: &[u8]) {
    client.write_all(&request(1, 9, 0, REQUEST_BYTES as u32)).unwrap();
    client.write_all(data).unwrap();
    client.flush().unwrap();
}

/// Reads the answer to a write, which is a simple reply also in structured mode; returns whether it succeeded.
fn is_written(client: &mut PieceClient) -> bool {
    let mut reply = [1; 16];
    client.read_exact(&mut reply).unwrap();
    reply[..8] == [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]
}

/// Reads one chunk of a structured reply, and returns its flags, its kind and its data.
fn chunk(client: &mut PieceClient) -> (u16, u16, Vec<u8>) {
    let mut head = [0; 20];
    client.read_exact(&mut head).unwrap();
    assert_eq!(head[..4], 0x668e_33ef_u32.to_be_bytes());
    let mut data = vec![0; u32::from_be_bytes(head[16..].try_into().unwrap()) as usize];
    client.read_exact(&mut data).unwrap();
    (u16::from_be_bytes([head[4], head[5]]), u16::from_be_bytes([head[6], head[7]]), data)
}

/// Reads the first part of the export, and returns it with the number of chunks in which it came.
fn read(client: &mut PieceClient, structured: bool) -> (Vec<u8>, usize) {
    client.write_all(&request(0, 7, 0, REQUEST_BYTES as u32)).unwrap();
    client.flush().unwrap();
    let mut all = vec![0; REQUEST_BYTES];
    if !structured {
        client.read_exact(&mut [0; 16]).unwrap();
        client.read_exact(&mut all).unwrap();
        return (all, 1);
    }
    for chunks in 1.. {
        let (flags, kind, data) = chunk(client);
        assert_eq!(kind, 1, "a chunk of data");
        let (offset, data) = data.split_first_chunk().unwrap();
        let offset = u64::from_be_bytes(*offset) as usize;
        all[offset..offset + data.len()].copy_from_slice(data);
        if flags == 1 {
            return (all, chunks);
        }
    }
    unreachable!("a read ends")
}

#[test]
fn requests_in_pieces_are_whole_over_each_transport() {
    let certificates = Certificates::new("pieces");
    let Some(server) = server("pieces", &certificates) else { return };
    let mut number = 0;
    for transport in TRANSPORTS {
        for structured in [false, true] {
            number += 1;
            let mut client = let_in(&server, &certificates, transport, structured);
            write(&mut client, &bytes(number));
            assert!(is_written(&mut client), "{transport:?}");
            let (back, chunks) = read(&mut client, structured);
            assert!(back == bytes(number), "{transport:?}, structured: {structured}");
            assert!(!structured || chunks >= REQUEST_BYTES / (32 << 10), "{transport:?}: {chunks} chunks");
        }
    }
    assert_eq!(server.end().requests, 12);
}

/// If the connection is cut within a write, only the part that was sent is on the disk; the client's slot and memory
/// are free again.
#[test]
fn a_connection_cut_between_pieces_harms_its_client_only() {
    let certificates = Certificates::new("cut");
    let Some(server) = server("cut", &certificates) else { return };
    let mut number = 0;
    for transport in TRANSPORTS {
        for sent in [0, 5_000, 8 << 10, 300_000, REQUEST_BYTES - 1] {
            let mut client = let_in(&server, &certificates, transport, true);
            write(&mut client, &bytes(number));
            assert!(is_written(&mut client));
            drop(client);
            // Both slots are taken by connections that will be cut: one in a write, one in a read.
            let mut writes = let_in(&server, &certificates, transport, false);
            let mut reads = let_in(&server, &certificates, transport, false);
            write(&mut writes, &bytes(number + 1)[..sent]);
            reads.write_all(&request(0, 7, 0, REQUEST_BYTES as u32)).unwrap();
            reads.flush().unwrap();
            reads.read_exact(&mut vec![0; 16 + sent]).unwrap();
            drop((writes, reads));
            let (mut one, mut two) = (
                let_in(&server, &certificates, transport, true),
                let_in(&server, &certificates, transport, true),
            );
            for client in [&mut one, &mut two] {
                let (now, chunks) = read(client, true);
                assert!(chunks > 1);
                let wrong = now.iter().enumerate().position(|(at, now)| {
                    let new = at < sent && *now == byte(number + 1, at);
                    !new && *now != byte(number, at)
                });
                assert_eq!(wrong, None, "{transport:?}, {sent} bytes were sent");
            }
            number += 1;
        }
    }
    server.end();
}
