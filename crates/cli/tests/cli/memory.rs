//! A daemon that gets little memory from the kernel, with greedy clients.

use crate::serve::start;
use crate::support::Dir;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// The size of the largest reads and writes that a client may request.
const LARGEST: u32 = 32 << 20;

/// Returns a client that has chosen the export.
fn client(socket: &str) -> UnixStream {
    let mut client = UnixStream::connect(socket).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    client
}

fn request(kind: u8, length: u32) -> Vec<u8> {
    [&b"\x25\x60\x95\x13\0\0\0"[..], &[kind], &[7; 8], &[0; 8], &length.to_be_bytes()].concat()
}

fn is_read(client: &mut UnixStream, length: u32) -> bool {
    client.write_all(&request(0, length)).unwrap();
    let mut reply = vec![1; 16 + length as usize];
    client.read_exact(&mut reply).unwrap();
    reply[..8] == [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]
}

/// Sends the bytes as far as the daemon takes them now.
fn send(client: &mut UnixStream, bytes: &[u8]) {
    client.set_nonblocking(true).unwrap();
    match client.write(bytes) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
        _ => {}
    }
    client.set_nonblocking(false).unwrap();
}

/// The daemon may take 128 MiB more than at its start. Sixty clients request 64 GiB of answers that they do not take,
/// and stop in the middle of writes, and another one reads meanwhile.
#[test]
fn a_daemon_of_little_memory_serves_whatever_its_clients_do() {
    let dir = Dir::new();
    let (disk, socket) = (dir.path("disk"), dir.path("nbd"));
    std::fs::File::create(&disk).unwrap().set_len(64 * MIB).unwrap();
    let config = dir.file(
        "freeblock.toml",
        &format!(
            "[limits]\nbytes = \"32MiB\"\nbytes_per_client = \"32MiB\"\ndrain_s = 1\n\
             [[disk]]\nname = \"d\"\ndevice = \"{disk}\"\nprofile = \"none\"\nlisten = [\"unix:{socket}\"]\n"
        ),
    );
    let Some(daemon) = start(&["--config", &config, "--json"], 1) else { return };
    let id = daemon.child.id();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = format!("--as={}", size * 1024 + 128 * MIB);
    assert!(Command::new("prlimit").args(["--pid", &id.to_string(), &limit]).status().unwrap().success());

    let mut other = client(&socket);
    let half = [request(1, LARGEST), vec![0; 5000]].concat();
    let unread = request(0, LARGEST).repeat(64);
    let mut stuck: Vec<UnixStream> = Vec::new();
    for _ in 0..30 {
        for bytes in [&unread, &half] {
            let mut client = client(&socket);
            send(&mut client, bytes);
            stuck.push(client);
        }
        assert!(is_read(&mut other, 4096));
    }
    (0..5).for_each(|_| assert!(is_read(&mut other, LARGEST)));
    // One of them takes its answers after all.
    let mut reply = vec![1; 16 + LARGEST as usize];
    stuck[40].read_exact(&mut reply).unwrap();
    drop(stuck);
    assert!(is_read(&mut other, 4096));
    drop(other);
    let requests = daemon.end()[0]["requests"].as_u64();
    assert!(requests.is_some_and(|requests| requests >= 37), "{requests:?}");
}
