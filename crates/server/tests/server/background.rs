//! The background export of a served disk: an emulated drive in real time. No result depends on the time.

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
    let config = Config { outside, idle, ..Config::default() };
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
        // The first byte of a request's flags is for FUA.
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

/// The background has no time at all, so its requests stay until their clients are gone.
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
