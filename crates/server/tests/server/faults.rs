//! Devices that fail behind a live server: the errors that clients get, and the log. The test runs in real time, but
//! no result depends on how long anything takes.

use crate::support::log::OperatorLog;
use crate::support::{PROFILE, Server, open, request};
use device::{Emulated, Faults, Faulty};
use model::{DriveModel, Profile};
use scheduler::{Config, OutsideConfig, Overheads};
use server::{Disk, ExportConfig};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use units::{Duration, Lbn};

type Device = Disk<Faulty<Emulated>>;

fn serve(test: &str, faults: Faults, timeout: Duration) -> Option<Server<Device>> {
    Server::start(test, ExportConfig::default(), move |dir| {
        let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
        let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
        let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &model, true);
        let outside = OutsideConfig::beyond(overheads);
        let mut options = std::fs::File::options();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(dir.join("disk")).unwrap();
        let drive = Emulated::new(&profile, Default::default(), 1, file).unwrap();
        let mut disk = Disk::new(Faulty::new(drive, faults), model, Config::outside(outside)).unwrap();
        disk.set_timeout(timeout);
        disk
    })
}

/// Reads a sector; returns the error code of the reply, 0 for none.
fn read(client: &mut UnixStream, lbn: u64) -> u32 {
    client.write_all(&request(0, lbn, lbn * 512, 512)).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
    if error == 0 {
        client.read_exact(&mut [0; 512]).unwrap();
    }
    error
}

const IO: u32 = 5;

#[test]
fn a_command_that_is_never_answered_is_an_io_error_and_the_log_says_why() {
    let log = OperatorLog::shared();
    let faults = Faults { seed: 2, lost: 100, ..Faults::default() };
    let Some(server) = serve("lost", faults, Duration::from_millis(300)) else { return };
    let mut client = server.connect();
    open(&mut client);
    let errors: Vec<u32> = (0..60).map(|i| read(&mut client, i * 50)).collect();
    let failed = errors.iter().filter(|error| **error != 0).count();
    assert!(errors.iter().all(|error| [0, IO].contains(error)) && (1..15).contains(&failed), "{errors:?}");
    assert!(log.has(&["ERROR", "the device does not answer", "a request's read", "unanswered=1"]));
    assert!(log.has(&["WARN", "a request failed", "the device has not answered for"]));
    drop(client);
    let (tally, disk) = server.ended();
    assert_eq!(tally.failed, failed as u64);
    let status = disk.status();
    // The last flush may be lost, too.
    assert!(status.timed_out >= tally.failed && status.failing.is_some(), "{status:?}");
}

#[test]
fn a_device_that_answers_nothing_any_more_does_not_hold_the_servers_end_up() {
    let log = OperatorLog::shared();
    let faults = Faults { seed: 2, lost: 1000, ..Faults::default() };
    let Some(server) = serve("dead", faults, Duration::from_millis(200)) else { return };
    let mut client = server.connect();
    open(&mut client);
    assert_eq!(read(&mut client, 8), IO);
    drop(client);
    server.ended();
    assert!(log.has(&["ERROR", "the last flush", "the device has not answered for"]));
}

#[test]
fn a_late_answer_belongs_to_no_request_and_a_bad_sector_is_named() {
    let log = OperatorLog::shared();
    let (late, by) = (150, Duration::from_millis(900));
    let faults = Faults { seed: 5, late, by, bad: [Lbn::new(3_000)].into(), ..Faults::default() };
    let Some(server) = serve("late", faults, Duration::from_millis(200)) else { return };
    let mut client = server.connect();
    open(&mut client);
    let errors: Vec<u32> = (0..60).map(|i| read(&mut client, i * 40)).collect();
    assert!(errors.contains(&IO) && errors.iter().filter(|error| **error == 0).count() > 30, "{errors:?}");
    // The read may fail by a timeout instead, so it is repeated until the log names the sector.
    while !log.has(&["a request failed", "sector 3000 cannot be read", "offset=1536000"]) {
        assert_eq!(read(&mut client, 3_000), IO);
    }
    while !log.has(&["the device has answered after all; no request waits for this answer"]) {
        read(&mut client, 8);
    }
    drop(client);
    server.ended();
}

#[test]
fn a_client_that_vanishes_with_writes_in_flight_delays_no_other() {
    let log = OperatorLog::shared();
    let Some(server) = serve("gone", Faults::default(), Duration::from_secs(30)) else { return };
    let mut gone = server.connect();
    open(&mut gone);
    for i in 0..40u64 {
        gone.write_all(&[request(1, i, i * 25_600, 512), vec![i as u8; 512]].concat()).unwrap();
    }
    drop(gone);
    let mut client = server.connect();
    open(&mut client);
    assert_eq!(read(&mut client, 0), 0);
    while !log.has(&["WARN", "lost in the middle of a request", "why=", "client=", "unanswered="]) {
        assert_eq!(read(&mut client, 0), 0);
    }
    drop(client);
    let (tally, disk) = server.ended();
    assert_eq!((tally.failed, disk.outstanding()), (0, 0));
}

/// A daemon has several disks. If the server of one ends by itself, whichever it is, the other servers must end, too.
#[test]
fn a_server_that_ends_by_itself_ends_the_others() {
    if let Err(error) = device::Ring::new() {
        return testing::missing(&format!("io_uring ({error})"));
    }
    let dir = std::env::temp_dir().join(format!("freeblock-others-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let serve = |name: &str| {
        let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(dir.join(name)).unwrap();
        let drive = Emulated::new(&profile, Default::default(), 1, file).unwrap();
        let at = server::Address::Unix(dir.join(format!("{name}.sock")));
        let listener = server::Listener::bind(at, false).unwrap();
        let running = server::Running::start(name, drive, ExportConfig::default(), vec![listener]).unwrap();
        running.open().unwrap();
        running
    };
    let [first, last, late] = ["first", "last", "late"].map(serve);
    last.ends_with_it(first.stopper());
    let mailbox = last.mailbox();
    mailbox.send(|_, _| panic!("a bug on the disk's thread")).unwrap();
    first.join().unwrap();
    // A server that is registered after the end is stopped at once.
    while mailbox.send(|_, _| ()).is_ok() {
        std::thread::yield_now();
    }
    last.ends_with_it(late.stopper());
    late.join().unwrap();
    assert!(last.join().is_err());
    std::fs::remove_dir_all(dir).unwrap();
}
