//! The background export of a served disk: an emulated drive in real time. No result depends on how long
//! anything takes.

use crate::support::{self, Server, has, request, run, works};
use device::{Device, Emulated};
use drive::Behaviour;
use model::{DriveModel, Profile};
use scheduler::{Config, IdleTime, OutsideConfig, Overheads};
use server::{BackgroundTerms, Disk, ExportConfig, Limits};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use units::Duration;

fn disk(directory: &Path, idle: Option<IdleTime>) -> Disk<Emulated> {
    let profile = Profile::from_toml(support::PROFILE, "small.toml").unwrap();
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &model, true);
    let outside = OutsideConfig::beyond(overheads);
    let config = Config::outside(outside).with_idle(idle);
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(directory.join("disk"));
    let drive = Emulated::new(&profile, Behaviour::default(), 1, file.unwrap()).unwrap();
    let mut disk = Disk::new(drive, model, config).unwrap();
    disk.take_background_requests(BackgroundTerms::default());
    disk
}

fn server(test: &str, idle: Option<IdleTime>, limits: Limits) -> Option<Server<Disk<Emulated>>> {
    let export = ExportConfig { background: Some("later".into()), limits, ..ExportConfig::default() };
    Server::start(test, export, |directory| disk(directory, idle))
}

fn usual(test: &str) -> Option<Server<Disk<Emulated>>> {
    server(test, Some(IdleTime::default()), Limits::default())
}

fn client<D: Device + Send + 'static>(server: &Server<D>) -> UnixStream {
    support::named(&server.dir.join("s"), "later")
}

fn uri<D: Device + Send + 'static>(server: &Server<D>) -> String {
    format!("nbd+unix:///later?socket={}", server.dir.join("s").display())
}

/// Returns the error of a reply, 0 if it succeeded, and its data.
fn reply(client: &mut UnixStream, bytes: usize) -> (u8, Vec<u8>) {
    let mut header = [0; 16];
    client.read_exact(&mut header).unwrap();
    let mut data = vec![0; if header[7] == 0 { bytes } else { 0 }];
    client.read_exact(&mut data).unwrap();
    (header[7], data)
}

#[test]
fn the_background_export_shows_what_the_other_has_written_and_refuses_writes() {
    let Some(server) = usual("background") else { return };
    let (mut foreground, mut background) = (server.client(), client(&server));
    for (round, byte) in [(0, 3), (1, 4)] {
        let write = [request(1, 1, 65_536 * round, 65_536), vec![byte; 65_536]].concat();
        foreground.write_all(&write).unwrap();
        assert_eq!(reply(&mut foreground, 0).0, 0);
        background.write_all(&request(0, 2, 65_536 * round, 65_536)).unwrap();
        assert_eq!(reply(&mut background, 65_536), (0, vec![byte; 65_536]));
    }
    let payload = vec![9; 512];
    for (kind, payload) in [(1, &payload[..]), (4, &[]), (6, &[])] {
        background.write_all(&[&request(kind, 3, 0, 512), payload].concat()).unwrap();
        assert_eq!(reply(&mut background, 0).0, 1, "command {kind} is not permitted");
    }
    background.write_all(&request(3, 4, 0, 0)).unwrap();
    assert_eq!(reply(&mut background, 0).0, 0, "a flush has nothing to do");
    foreground.write_all(&request(0, 5, 0, 512)).unwrap();
    assert_eq!(reply(&mut foreground, 512), (0, vec![3; 512]));
    drop((foreground, background));
    let (_, disk) = server.ended();
    let status = disk.status();
    assert_eq!((status.reads.count, status.writes.count, status.flushes.count), (1, 2, 1));
    let background = status.background_requests.unwrap();
    assert_eq!((background.reads.count, background.read_bytes), (2, 131_072));
}

#[test]
fn with_background_write_both_exports_read_what_the_other_has_written() {
    let export =
        ExportConfig { background: Some("later".into()), background_write: true, ..ExportConfig::default() };
    let start = |directory: &Path| disk(directory, Some(IdleTime::default()));
    let Some(server) = Server::start("background-write", export, start) else { return };
    let (mut foreground, mut background) = (server.client(), client(&server));
    for byte in 1..5 {
        // The first byte of a request's flags contains the FUA bit.
        let mut write = request(1, 1, 8_192, 65_536);
        write[5] = byte % 2;
        background.write_all(&[write, vec![byte; 65_536]].concat()).unwrap();
        assert_eq!(reply(&mut background, 0).0, 0);
        for client in [&mut foreground, &mut background] {
            client.write_all(&request(0, 2, 8_192, 65_536)).unwrap();
            assert_eq!(reply(client, 65_536), (0, vec![byte; 65_536]));
        }
        background.write_all(&request(3, 4, 0, 0)).unwrap();
        assert_eq!(reply(&mut background, 0).0, 0);
    }
    background.write_all(&request(6, 3, 8_192, 4_096)).unwrap();
    assert_eq!(reply(&mut background, 0).0, 0);
    foreground.write_all(&request(0, 2, 8_192, 8_192)).unwrap();
    assert_eq!(reply(&mut foreground, 8_192), (0, [vec![0; 4_096], vec![4; 4_096]].concat()));
    drop((foreground, background));
    let (_, disk) = server.ended();
    let status = disk.status();
    let background = status.background_requests.unwrap();
    assert_eq!((background.writes.count, status.writes.count), (5, 0));
    assert!(status.flushes.count >= 4 && background.failed == 0);
}

#[test]
fn independent_programs_list_and_copy_the_background_export() {
    let Some(server) = usual("background-copy") else { return };
    if has("nbdinfo") && has("nbdcopy") {
        let image: Vec<u8> = (0..server.size as usize).map(|i| (i / 512 * 7 + i % 251) as u8).collect();
        std::fs::write(server.file("there"), &image).unwrap();
        works("nbdcopy", &[&server.file("there"), &server.uri()]);
        let list = works("nbdinfo", &["--list", &server.uri()]);
        assert!(list.contains("export=\"\":") && list.contains("export=\"later\":"), "{list}");
        let info = works("nbdinfo", &[&uri(&server)]);
        for line in
            ["is_read_only: true", "can_fua: false", "requests wait for time that other clients leave"]
        {
            assert!(info.contains(line), "no {line:?} in\n{info}");
        }
        for more in [
            &["--requests=64"][..],
            &["--connections=4", "--requests=64", "--request-size=32768"],
            &["--synchronous"],
        ] {
            works("nbdcopy", &[more, &[&uri(&server), &server.file("back")]].concat());
            assert!(std::fs::read(server.file("back")).unwrap() == image, "{more:?}");
        }
        if has("qemu-io") {
            let refused = run("qemu-io", &["-f", "raw", "-c", "write -P 1 0 4096", &uri(&server)]);
            assert!(!refused.status.success() || !refused.stderr.is_empty());
        }
    }
    let (tally, disk) = server.ended();
    assert_eq!(tally.failed, 0);
    assert_eq!(disk.status().failed, 0);
}

/// fio writes blocks with checksums in random order, and reads them again.
#[test]
fn fio_at_depth_64_finds_at_the_background_export_what_it_has_written_there() {
    if !has("fio") || !run("fio", &["--enghelp=nbd"]).status.success() {
        eprintln!("skipped: fio has no engine nbd");
        return;
    }
    let export =
        ExportConfig { background: Some("later".into()), background_write: true, ..ExportConfig::default() };
    let start = |directory: &Path| disk(directory, Some(IdleTime::default()));
    let Some(server) = Server::start("background-fio", export, start) else { return };
    let at = format!("--uri={}", uri(&server));
    let job = [
        "--name=background",
        "--ioengine=nbd",
        &at,
        "--iodepth=64",
        "--bs=4k",
        "--size=1m",
        "--verify_state_save=0",
    ];
    works("fio", &[&job[..], &["--rw=randwrite", "--verify=crc32c", "--do_verify=1"]].concat());
    works("fio", &[&job[..], &["--rw=randread", "--verify=crc32c"]].concat());
    let (tally, disk) = server.ended();
    let status = disk.status();
    let background = status.background_requests.unwrap();
    assert_eq!((tally.failed, background.failed, status.reads.count + status.writes.count), (0, 0, 0));
    assert!(background.written_bytes == 1 << 20 && background.read_bytes >= 2 << 20, "{background:?}");
}

/// Without idle time a background request is never served, so it waits until its client is gone.
#[test]
fn clients_that_hang_up_leave_no_request_and_the_server_ends_in_its_time() {
    let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
    let Some(server) = server("background-gone", None, limits) else { return };
    let mut foreground = server.client();
    for _ in 0..5 {
        let mut clients: Vec<UnixStream> = (0..10).map(|_| client(&server)).collect();
        for client in &mut clients {
            let reads: Vec<u8> = (0..100).flat_map(|cookie| request(0, cookie, 0, 131_072)).collect();
            support::send(client, &reads);
        }
        assert!(support::is_read(&mut foreground, 0, 4096));
    }
    drop(foreground);
    let mut last = client(&server);
    support::send(&mut last, &request(0, 1, 0, 512));
    let (tally, disk) = server.ended();
    assert_eq!(disk.status().background_requests.unwrap().waiting, 0, "{tally:?}");
}

const CACHE: u16 = 5;
const BLOCK_STATUS: u16 = 7;

/// Returns a client of the background export that has chosen structured replies and the context
/// `freeblock:memory`.
fn client_of_memory(server: &Server<Disk<Emulated>>) -> UnixStream {
    let mut client = server.connect();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&3u32.to_be_bytes()).unwrap();
    let name = b"later";
    let query = b"freeblock:memory";
    let length = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
    let context = [&length(name)[..], name, &1u32.to_be_bytes(), &length(query), query].concat();
    let go = [&length(name)[..], name, &0u16.to_be_bytes()].concat();
    for (option, data) in [(8u32, Vec::new()), (10, context), (7, go)] {
        let option = [b"IHAVEOPT", &option.to_be_bytes()[..], &length(&data), &data].concat();
        client.write_all(&option).unwrap();
        loop {
            let mut header = [0; 20];
            client.read_exact(&mut header).unwrap();
            let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
            client.read_exact(&mut vec![0; word(16) as usize]).unwrap();
            assert!(word(12) < 1 << 31, "option {option:?} is refused");
            if word(12) == 1 {
                break;
            }
        }
    }
    client
}

/// Returns the types and the data of a reply's chunks. A simple reply counts as one chunk of type 0.
fn chunks(client: &mut UnixStream) -> Vec<(u16, Vec<u8>)> {
    let mut chunks = Vec::new();
    loop {
        let mut header = [0; 20];
        client.read_exact(&mut header[..16]).unwrap();
        if header[..4] == [0x67, 0x44, 0x66, 0x98] {
            assert_eq!(header[4..8], [0; 4], "it fails");
            return vec![(0, Vec::new())];
        }
        assert_eq!(header[..4], [0x66, 0x8e, 0x33, 0xef], "no reply");
        client.read_exact(&mut header[16..]).unwrap();
        let mut data = vec![0; u32::from_be_bytes(header[16..].try_into().unwrap()) as usize];
        client.read_exact(&mut data).unwrap();
        chunks.push((u16::from_be_bytes([header[6], header[7]]), data));
        if header[5] & 1 != 0 {
            return chunks;
        }
    }
}

/// Asks for the block status in the context `freeblock:memory` until `bytes` bytes from `offset` on are in
/// memory.
fn wait_until_in_memory(client: &mut UnixStream, offset: u64, bytes: u32) {
    loop {
        client.write_all(&request(BLOCK_STATUS, 2, offset, bytes)).unwrap();
        let chunks = chunks(client);
        let (5, status) = &chunks[0] else { panic!("no block status: {chunks:?}") };
        // The number of the context, and then the length and the state of each extent.
        let words: Vec<u32> =
            status.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        if words[1..].chunks(2).all(|extent| extent[1] == 1) {
            assert_eq!(words[1..].chunks(2).map(|extent| extent[0]).sum::<u32>(), bytes);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_range_that_a_client_declares_comes_into_memory_and_is_read_from_there() {
    const OFFSET: u64 = 65_536;
    const BYTES: u32 = 262_144;
    let Some(server) = usual("background-cache") else { return };
    let mut foreground = server.client();
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at / 512 * 3 + at % 251) as u8).collect();
    foreground.write_all(&[request(1, 1, OFFSET, BYTES), bytes.clone()].concat()).unwrap();
    assert_eq!(reply(&mut foreground, 0).0, 0);
    let mut client = client_of_memory(&server);
    client.write_all(&request(CACHE, 1, OFFSET, BYTES)).unwrap();
    assert_eq!(chunks(&mut client), [(0, Vec::new())], "it is answered at once, without data");
    wait_until_in_memory(&mut client, OFFSET, BYTES);
    client.write_all(&request(0, 3, OFFSET, BYTES)).unwrap();
    let read = chunks(&mut client);
    let data: Vec<u8> =
        read.iter().filter(|(kind, _)| *kind == 1).flat_map(|(_, data)| &data[8..]).copied().collect();
    assert!(data == bytes, "{} bytes", data.len());

    // libnbd's own call for a declaration has the same effect.
    let mut given = u64::from(BYTES);
    if has("nbdsh") {
        let cache = format!("h.cache({BYTES}, {OFFSET})");
        let python = "import time\nseen = []\ndef state(context, offset, extents, error):\n    seen.extend(extents[1::2])\n";
        let wait = format!(
            "while not seen or 0 in seen:\n    seen.clear()\n    time.sleep(0.005)\n    h.block_status({BYTES}, {OFFSET}, state)"
        );
        let check = format!("assert set(seen) == {{1}} and len(h.pread({BYTES}, {OFFSET})) == {BYTES}");
        let connect = format!("h.connect_uri({:?})", uri(&server));
        let each = ["h.add_meta_context('freeblock:memory')", &connect, &cache, python, &wait, &check];
        let each = each.iter().flat_map(|line| ["-c", line]);
        // nbdsh needs the system's Python, which may not be the first on the path.
        let args: Vec<&str> = ["PATH=/usr/bin:/bin", "nbdsh"].into_iter().chain(each).collect();
        works("env", &args);
        given *= 2;
    }
    drop((foreground, client));
    let (_, disk) = server.ended();
    let background = disk.status().background_requests.unwrap();
    assert_eq!(background.memory.given_bytes, given);
    assert_eq!(background.reads.count, given / u64::from(BYTES), "a declaration is no read");
}
