//! An emulated drive, served to independent client programs, and to clients that misbehave. The test runs in real
//! time, but no result depends on how long anything takes.

use drive::{BadSectors, Behaviour};
use server::{Address, Limits, ListenError, Listener};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::support::{Server, has, open, request, works};

#[test]
fn written_bytes_are_read_back_in_the_drives_time() {
    let Some(server) = Server::emulated_plain("copy") else { return };
    if has("nbdcopy") && has("qemu-io") && has("nbdinfo") {
        let info = works("nbdinfo", &[&server.uri()]);
        for line in
            ["is_rotational: true", "can_fua: true", "can_multi_conn: true", "block_size_minimum: 512"]
        {
            assert!(info.contains(line), "no {line:?} in\n{info}");
        }
        let image: Vec<u8> = (0..server.size as usize).map(|i| (i / 512 * 7 + i % 251) as u8).collect();
        std::fs::write(server.file("there"), &image).unwrap();
        works("nbdcopy", &[&server.file("there"), &server.uri()]);
        works("nbdcopy", &[&server.uri(), &server.file("back")]);
        assert!(std::fs::read(server.file("back")).unwrap() == image);
        assert!(std::fs::read(server.file("disk")).unwrap() == image, "the file is the drive's bytes");
        let uri = server.uri();
        let commands = [
            "write -f -P 18 512 1024",
            "read -P 18 512 1024",
            "write -z 1024 512",
            "read -P 0 1024 512",
            "flush",
        ];
        let mut args = vec!["-f", "raw", uri.as_str()];
        commands.iter().for_each(|command| args.extend(["-c", command]));
        let out = works("qemu-io", &args);
        assert!(!out.contains("verification failed"), "{out}");
        let (tally, disk) = server.ended();
        assert!(tally.requests > 4 && tally.failed == 0, "{tally:?}");
        assert!(disk.lateness().len() > 4);
    } else {
        server.end();
    }
}

#[test]
fn clients_that_misbehave_hurt_no_other_client() {
    let limits = Limits { clients: 6, ..Limits::default() };
    let Some(server) = Server::emulated("garbage", Behaviour::default(), limits) else { return };
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 4096], b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04none"]
    {
        let mut client = server.connect();
        client.write_all(garbage).unwrap();
        let mut all = Vec::new();
        // Reading may end with an error, because the server disconnects without reading everything.
        let _ = client.read_to_end(&mut all);
        assert!(all.starts_with(b"NBDMAGIC"));
        assert!(server.serves());
    }
    // One client disconnects in the middle of its requests, and another never sends anything.
    let mut gone = server.connect();
    open(&mut gone);
    let reads: Vec<u8> = (0..100).flat_map(|cookie| request(0, cookie, 0, 4096)).collect();
    gone.write_all(&reads).unwrap();
    drop(gone);
    let mut silent = server.connect();
    silent.read_exact(&mut [0; 18]).unwrap();
    assert!(server.serves());
    // More clients than may connect choose the export. One of them may take over the slot of the silent client.
    let mut others: Vec<UnixStream> = Vec::new();
    for _ in 0..6 {
        let mut client = server.connect();
        client.read_exact(&mut [0; 18]).unwrap();
        client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        if client.read_exact(&mut [0; 10]).is_ok() {
            others.push(client);
        }
    }
    assert!(others.len() <= 3, "{} of three, half of six", others.len());
    drop(others);
    drop(silent);
    server.end();
}

#[test]
fn a_bad_sector_fails_its_request_only() {
    let behaviour =
        Behaviour { bad_sectors: Some(BadSectors { count: 3, retries: 0 }), ..Behaviour::default() };
    let Some(server) = Server::emulated("bad", behaviour, Limits::default()) else { return };
    let mut client = server.connect();
    open(&mut client);
    let sectors = server.size / 512;
    let (mut good, mut bad) = (0, 0);
    for first in (0..sectors).step_by(64) {
        let length = (sectors - first).min(64) as u32 * 512;
        client.write_all(&request(0, first, first * 512, length)).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        if reply[7] == 0 {
            client.read_exact(&mut vec![0; length as usize]).unwrap();
            good += 1;
        } else {
            assert_eq!(reply[7], 5, "an I/O error");
            bad += 1;
        }
    }
    assert!((1..=3).contains(&bad) && good > 0, "{good} good, {bad} bad");
    drop(client);
    assert_eq!(server.end().failed, bad);
}

#[test]
fn a_place_that_is_taken_or_open_to_all_is_refused() {
    let dir = std::env::temp_dir().join(format!("freeblock-server-{}-listen", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let unix = |name: &str| Listener::bind(Address::Unix(dir.join(name)), false);
    std::fs::write(dir.join("file"), "precious").unwrap();
    assert!(matches!(unix("file"), Err(ListenError::Taken { .. })));
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "precious");
    let first = unix("socket").unwrap();
    assert!(matches!(unix("socket"), Err(ListenError::Taken { .. })));
    std::mem::forget(first);
    drop(std::os::unix::net::UnixListener::bind(dir.join("stale")).unwrap());
    unix("stale").unwrap();
    let everywhere = Address::Tcp("0.0.0.0:0".parse().unwrap());
    assert!(matches!(Listener::bind(everywhere, false), Err(ListenError::Remote(_))));
    let local = Listener::bind(Address::Tcp("127.0.0.1:0".parse().unwrap()), false).unwrap();
    assert!(!local.address().to_string().ends_with(":0"), "{}", local.address());
    std::fs::remove_dir_all(dir).unwrap();
}
