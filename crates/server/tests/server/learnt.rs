//! The knowledge of a disk's mimic survives the end of its daemon and a kill; a damaged file of it does no harm.

use crate::support::{PROFILE, choose, request};
use device::{Emulated, Ring};
use drive::Behaviour;
use mimic::{Learner, LearnerConfig};
use model::{DriveModel, Profile};
use scheduler::{Config, OutsideConfig};
use server::{Address, Disk, ExportConfig, Learnt, LearntSaver, Listener, Running};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use units::Sectors;

/// The environment variable with the directory for a process that is started to be killed.
const VICTIM: &str = "FREEBLOCK_TEST_VICTIM";
const DRIVE: &str = "emulated:small";
const SAVE_INTERVAL_LONG: Duration = Duration::from_secs(1 << 20);

fn config() -> LearnerConfig {
    let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
    let capacity = DriveModel::from_profile(&profile).unwrap().layout().capacity();
    LearnerConfig::new(capacity, Sectors::new(8))
}

/// Serves a drive in `dir` with no knowledge of it but the mimic's, which is saved at intervals of `every`.
fn served(dir: &Path, every: Duration) -> (Running<Disk<Emulated>>, LearntSaver) {
    let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
    let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(dir.join("disk"));
    let drive = Emulated::new(&profile, Behaviour::default(), 1, file.unwrap()).unwrap();
    let capacity = Sectors::new(drive.size().get() / drive.sector_bytes().get());
    let model = DriveModel::unknown(capacity, drive.sector_bytes()).unwrap();
    let (outside, policy) = (OutsideConfig::blind(), "smtf".parse().unwrap());
    let mut disk = Disk::new(drive, Arc::new(model), Config::outside(outside).with_policy(policy)).unwrap();
    let learnt = Learnt::new(dir, DRIVE);
    disk.set_mimic(Box::new(learnt.load(config(), None).unwrap()));
    let at = Listener::bind(Address::Unix(dir.join("s")), false).unwrap();
    let running = Running::start("d", disk, ExportConfig::default(), vec![at]).unwrap();
    running.open().unwrap();
    let saver = LearntSaver::start(learnt, running.mailbox(), every).unwrap();
    (running, saver)
}

/// Reads until `enough`, eight reads at a time, so that one follows the other without a pause. On a busy machine few
/// of the times count, so this may take many reads.
fn reads(dir: &Path, mut enough: impl FnMut() -> bool) {
    let mut client = loop {
        // The socket of a killed server refuses or breaks connections.
        let Ok(mut client) = UnixStream::connect(dir.join("s")) else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        if client.read_exact(&mut [0; 18]).is_ok() {
            choose(&mut client);
            break client;
        }
    };
    for round in 0u64.. {
        if enough() {
            return;
        }
        let all: Vec<u8> =
            (0..8).flat_map(|i| request(0, i, (round * 8 + i) * 40_503 % 440 * 4_096, 4_096)).collect();
        client.write_all(&all).unwrap();
        client.read_exact(&mut vec![0; 8 * (16 + 4_096)]).unwrap();
    }
}

fn dir(test: &str) -> Option<PathBuf> {
    if !testing::needs("io_uring", Ring::new().is_ok()) {
        return None;
    }
    let dir = std::env::temp_dir().join(format!("freeblock-learnt-{}-{test}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    Some(dir)
}

/// Reads until the disk's mimic knows more than `most` distances.
fn learn(dir: &Path, served: &(Running<Disk<Emulated>>, LearntSaver), most: u64) {
    let disk = served.0.mailbox();
    reads(dir, || {
        let known = disk.ask(|disk, _| disk.core().mimic::<Learner>().unwrap().stats().known);
        known.unwrap() > most
    });
}

fn known(dir: &Path) -> u64 {
    let bytes = fs::read(dir.join("learnt")).unwrap();
    Learner::load(config(), DRIVE, &bytes).unwrap().stats().known
}

/// Returns the names of the mimic's files in the directory.
fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("learnt")).collect();
    names.sort();
    names
}

fn end((running, saver): (Running<Disk<Emulated>>, LearntSaver)) {
    running.stopper().stop().unwrap();
    let (_, disk) = running.join().unwrap();
    saver.close(&disk);
}

#[test]
fn a_restart_continues_from_the_saved_knowledge() {
    let Some(dir) = dir("restart") else { return };
    let first = served(&dir, SAVE_INTERVAL_LONG);
    learn(&dir, &first, 10);
    end(first);
    let once = known(&dir);
    assert!(once > 10, "{once} distances");
    // The second learner begins with the saved distances, and adds to them.
    let second = served(&dir, SAVE_INTERVAL_LONG);
    learn(&dir, &second, once - 1);
    end(second);
    assert!(known(&dir) >= once, "{once}, then {}", known(&dir));
    let third = served(&dir, SAVE_INTERVAL_LONG);
    learn(&dir, &third, once + 5);
    end(third);
    assert!(known(&dir) > once + 5);
    assert_eq!(files(&dir), ["learnt"]);
    fs::remove_dir_all(dir).unwrap();
}

/// A pipe in the place of the temporary file must not block the end of a daemon.
#[test]
fn a_pipe_in_the_place_of_the_new_file_holds_nothing_up() {
    let Some(dir) = dir("pipe") else { return };
    assert!(Command::new("mkfifo").arg(dir.join("learnt.new")).status().unwrap().success());
    let served = served(&dir, SAVE_INTERVAL_LONG);
    learn(&dir, &served, 10);
    end(served);
    assert_eq!(files(&dir), ["learnt.new"]);
    fs::remove_dir_all(dir).unwrap();
}

/// Not a test, but the process that the test of a kill starts and kills.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(VICTIM) else { return };
    let _served = served(Path::new(&dir), Duration::from_millis(5));
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_kill_leaves_the_last_saved_file() {
    let Some(dir) = dir("kill") else { return };
    let start = || -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["learnt::victim", "--exact", "--nocapture"]).env(VICTIM, &dir).spawn().unwrap()
    };
    let mut before = 0;
    for round in 0..3 {
        let mut victim = start();
        // One saving is complete, and the kill probably interrupts the next.
        let saved =
            || fs::read(dir.join("learnt")).ok().and_then(|b| Learner::load(config(), DRIVE, &b).ok());
        reads(&dir, || saved().is_some_and(|learner| learner.stats().known > before + 3));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let now = known(&dir);
        assert!(now > before + 3, "round {round}: {now} distances after {before}");
        before = now;
        assert!(files(&dir).iter().all(|name| name == "learnt" || name == "learnt.new"), "{:?}", files(&dir));
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_damaged_or_foreign_file_is_put_aside_and_the_disk_begins_anew() {
    let Some(dir) = dir("damaged") else { return };
    let first = served(&dir, SAVE_INTERVAL_LONG);
    learn(&dir, &first, 5);
    end(first);
    let good = fs::read(dir.join("learnt")).unwrap();
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 4;
    let foreign = Learner::new(config(), None).unwrap().save("another drive");
    for bad in [damaged, good[..good.len() - 1].to_vec(), foreign, Vec::new()] {
        fs::write(dir.join("learnt"), &bad).unwrap();
        let aside = files(&dir).len();
        let again = served(&dir, SAVE_INTERVAL_LONG);
        assert_eq!(fs::read(dir.join(format!("learnt.refused-{aside}"))).unwrap(), bad);
        assert!(!dir.join("learnt").exists());
        learn(&dir, &again, 5);
        end(again);
        assert!(known(&dir) > 5);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_unreadable_file_does_not_stop_the_disk() {
    let Some(dir) = dir("unreadable") else { return };
    // A directory in place of the file is neither read nor overwritten.
    fs::create_dir(dir.join("learnt")).unwrap();
    let learner = Learnt::new(&dir, DRIVE).load(config(), None).unwrap();
    assert_eq!(learner.stats().known, 0);
    assert_eq!(files(&dir), ["learnt.refused-1"]);
    fs::remove_dir_all(dir).unwrap();
}
