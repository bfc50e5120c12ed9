//! `freeblock serve` killed at random moments, under load and with tasks at work. Real time passes, but no result
//! depends on it.

use crate::serve::{Daemon, PROFILE, SECTORS, start};
use crate::support::{Dir, run_with};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Returns the number of kills, larger in `make test-long`.
fn lives() -> u64 {
    testing::sized(6, 60)
}

/// A client that keeps several requests in flight.
pub(crate) struct Client {
    socket: UnixStream,
    next: u64,
    pub(crate) asked: BTreeMap<u64, Asked>,
}

#[derive(Clone, Copy)]
pub(crate) enum Asked {
    Write {
        lbn: u64,
        sectors: u64,
        stamp: u64,
        fua: bool,
    },
    /// A flush, sent after this number of answers: it makes durable the writes that these answers acknowledged.
    Flush {
        answers: u64,
    },
}

impl Client {
    pub(crate) fn open(socket: &str) -> Self {
        Self::of_export(socket, "").unwrap()
    }

    /// Opens an export by its name; `None` if no export has this name.
    pub(crate) fn of_export(socket: &str, name: &str) -> Option<Self> {
        let mut socket = UnixStream::connect(socket).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        let length = (name.len() as u32).to_be_bytes();
        let option = [b"\0\0\0\x03IHAVEOPT\0\0\0\x01", &length[..], name.as_bytes()].concat();
        socket.write_all(&option).unwrap();
        socket.read_exact(&mut [0; 10]).ok()?;
        Some(Self { socket, next: 0, asked: BTreeMap::new() })
    }

    fn send(&mut self, (flags, kind): (u16, u16), (offset, length): (u64, u32), data: &[u8]) -> u64 {
        self.next += 1;
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(self.next.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        // The daemon may be dead.
        let _ = self.socket.write_all(&bytes);
        self.next
    }

    pub(crate) fn ask(&mut self, asked: Asked) {
        let id = match asked {
            Asked::Write { lbn, sectors, stamp, fua } => {
                let data = stamp.to_le_bytes().repeat(64 * sectors as usize);
                self.send((u16::from(fua), 1), (lbn * 512, (sectors * 512) as u32), &data)
            }
            Asked::Flush { .. } => self.send((0, 3), (0, 0), &[]),
        };
        self.asked.insert(id, asked);
    }

    /// Returns the next acknowledged request; `None` if the daemon is dead.
    pub(crate) fn answer(&mut self) -> Option<Asked> {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).ok()?;
        assert_eq!(&reply[..8], b"\x67\x44\x66\x98\0\0\0\0");
        self.asked.remove(&u64::from_be_bytes(reply[8..].try_into().unwrap()))
    }

    /// Returns the error of a read that has to fail.
    pub(crate) fn refused(&mut self, lbn: u64) -> u32 {
        self.send((0, 0), (lbn * 512, 512), &[]);
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    }

    pub(crate) fn read(&mut self, lbn: u64, sectors: u64) -> Vec<u64> {
        self.send((0, 0), (lbn * 512, (sectors * 512) as u32), &[]);
        let mut reply = vec![0; 16 + sectors as usize * 512];
        self.socket.read_exact(&mut reply).unwrap();
        reply[16..].chunks(512).map(stamp_of).collect()
    }
}

/// Returns the number of the single write that filled a sector.
fn stamp_of(sector: &[u8]) -> u64 {
    assert!(sector.chunks(8).all(|eight| eight == &sector[..8]), "half a sector of each of two writes");
    u64::from_le_bytes(sector[..8].try_into().unwrap())
}

/// Returns pseudo-random numbers without a crate of the workspace.
pub(crate) fn draw(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

/// The possible contents of a sector: that of the last durable write (`safe`), or of any write since.
#[derive(Clone, Default)]
struct Sector {
    safe: u64,
    since: BTreeSet<u64>,
}

/// The writes of a client over many lives of a daemon, and the contents that must result.
struct ClientWrites {
    sectors: Vec<Sector>,
    state: u64,
    stamp: u64,
}

impl ClientWrites {
    fn new(seed: u64) -> Self {
        Self { sectors: vec![Sector::default(); SECTORS as usize], state: seed, stamp: 0 }
    }

    /// Reads all sectors, and compares them with their possible contents; the contents found are the safe ones from now
    /// on.
    fn look(&mut self, client: &mut Client) -> Vec<u64> {
        let mut found = Vec::new();
        while (found.len() as u64) < SECTORS {
            let lbn = found.len() as u64;
            found.extend(client.read(lbn, (SECTORS - lbn).min(1_000)));
        }
        for (lbn, (sector, &found)) in self.sectors.iter_mut().zip(&found).enumerate() {
            let known = found == sector.safe || sector.since.contains(&found);
            assert!(known, "LBN {lbn} holds {found}, not {} or later", sector.safe);
            *sector = Sector { safe: found, since: BTreeSet::new() };
        }
        found
    }

    /// Writes and flushes, eight at a time, until the daemon is dead. After each answer calls `killed` with the number of
    /// answers; `killed` returns whether it has killed the daemon.
    fn run(&mut self, client: &mut Client, mut killed: impl FnMut(u64) -> bool) {
        // The acknowledged writes that are not flushed: the number of the answer, the LBN and the stamp.
        let mut unflushed: Vec<(u64, u64, u64)> = Vec::new();
        let (mut answers, mut over) = (0, false);
        loop {
            while !over && client.asked.len() < 8 {
                let lbn = draw(&mut self.state, SECTORS - 16);
                let kind = draw(&mut self.state, 12);
                self.stamp += 1;
                let (stamp, count) = (self.stamp, 1 + draw(&mut self.state, 16));
                if kind == 0 {
                    client.ask(Asked::Flush { answers });
                    continue;
                }
                client.ask(Asked::Write { lbn, sectors: count, stamp, fua: kind < 3 });
                let range = lbn as usize..(lbn + count) as usize;
                self.sectors[range].iter_mut().for_each(|sector| _ = sector.since.insert(stamp));
            }
            // Answers sent before the death of the daemon count.
            let Some(answered) = client.answer() else { break };
            answers += 1;
            // Overlapping requests are done in order, so the content of a sector never becomes older than `safe`.
            let sectors = &mut self.sectors;
            let mut keep = |lbn: u64, stamp: u64| {
                let sector = &mut sectors[lbn as usize];
                if sector.safe < stamp {
                    sector.safe = stamp;
                    sector.since.retain(|later| *later > stamp);
                }
            };
            match answered {
                Asked::Write { lbn, sectors, stamp, fua: true } => {
                    (lbn..lbn + sectors).for_each(|lbn| keep(lbn, stamp));
                }
                Asked::Write { lbn, sectors, stamp, .. } => {
                    unflushed.extend((lbn..lbn + sectors).map(|lbn| (answers, lbn, stamp)));
                }
                Asked::Flush { answers: before } => unflushed.retain(|&(answer, lbn, stamp)| {
                    let flushed = answer <= before;
                    if flushed {
                        keep(lbn, stamp);
                    }
                    !flushed
                }),
            }
            over = over || killed(answers);
        }
        assert!(over, "it has ended by itself");
    }
}

/// The directory and configuration of a daemon.
struct DaemonSetup {
    dir: Dir,
    disk: String,
}

impl DaemonSetup {
    fn new(profile: &str) -> Self {
        let dir = Dir::new();
        let profile = dir.file("drive.toml", profile);
        let disk = format!("d0=emulated:{profile},file={},noise", dir.path("disk"));
        Self { dir, disk }
    }

    /// Starts the daemon; `None` if there is no io_uring.
    fn start(&self) -> Option<Daemon> {
        let listen = format!("unix:{}", self.dir.path("s"));
        let (state, control) = (self.dir.path("state"), self.dir.path("control"));
        let args =
            ["--disk", &self.disk, "--listen", &listen, "--state", &state, "--control", &control, "--json"];
        let daemon = start(&args, 1)?;
        // The daemon reports the disk before the control socket.
        while UnixStream::connect(&control).is_err() {
            std::thread::yield_now();
        }
        Some(daemon)
    }

    fn client(&self) -> Client {
        Client::open(&self.dir.path("s"))
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Value {
        let control = self.dir.path("control");
        let said = run_with(&[args, &["--control", &control, "--json"]].concat());
        serde_json::from_str(&said.worked()).unwrap()
    }

    /// Returns the disk's status, and its tasks by number. Tests ask thousands of times, so no process starts for it.
    fn status(&self) -> (Value, BTreeMap<u64, Value>) {
        let control = client::Control::new(self.dir.path("control"));
        let disk = control.get("/v1/status").unwrap()["disks"][0].take();
        let tasks = disk["tasks"].as_array().unwrap().iter();
        let tasks = tasks.map(|task| (task["id"].as_u64().unwrap(), task.clone())).collect();
        (disk, tasks)
    }
}

#[test]
fn flushed_writes_survive_kill_9_at_any_moment() {
    let place = DaemonSetup::new(PROFILE);
    let mut load = ClientWrites::new(20_001_023);
    for _ in 0..lives() {
        let Some(mut daemon) = place.start() else { return };
        let mut client = place.client();
        load.look(&mut client);
        let last = 20 + draw(&mut load.state, 120);
        load.run(&mut client, |answers| {
            let kill = answers == last;
            if kill {
                daemon.kill();
            }
            kill
        });
        daemon.gone();
    }
    assert!(load.sectors.iter().filter(|sector| sector.safe > 0).count() > 200);
}

/// Lets a load run for a random number of answers, and then until `enough` returns true; kills the daemon.
fn run_and_kill(
    place: &DaemonSetup,
    load: &mut ClientWrites,
    daemon: Daemon,
    mut enough: impl FnMut() -> bool,
) {
    let mut daemon = daemon;
    let mut client = place.client();
    let last = 20 + draw(&mut load.state, 120);
    load.run(&mut client, |answers| {
        let kill = answers >= last && (answers - last).is_multiple_of(20) && enough();
        if kill {
            daemon.kill();
        }
        kill
    });
    daemon.gone();
}

/// A block that the journal has as scrubbed is not read again: each life of the daemon reads in the background at most
/// the blocks that were left at the last query of the life before.
#[test]
fn a_scrub_goes_on_after_kill_9_and_reads_no_block_twice() {
    // Enough blocks for a scrub to take several lives.
    const BLOCKS: u64 = 1 << 12;
    const BLOCK: u64 = 128;
    let place = DaemonSetup::new(include_str!("../../../../proofs/drive.toml"));
    let mut load = ClientWrites::new(7);
    // The number of blocks that the newest scrub had left at the last query, and the number of that scrub.
    let (mut left, mut newest) = (0, 0);
    let mut resumed = 0;
    for life in 0..=lives() {
        let Some(daemon) = place.start() else { return };
        load.look(&mut place.client());
        resumed += u64::from(left > 0 && left < BLOCKS);
        if left == 0 {
            let (sectors, block) = ((BLOCKS * BLOCK).to_string(), BLOCK.to_string());
            let scrub = place.ask(&["scrub", "--sectors", &sectors, "--block-sectors", &block]);
            newest = scrub["id"].as_u64().unwrap();
            left = BLOCKS;
        }
        let most = left;
        let mut look = || {
            let (disk, tasks) = place.status();
            let background = &disk["status"]["background"];
            let bytes = |key: &str| background[key].as_u64().unwrap();
            let read = (bytes("gap_bytes") + bytes("idle_bytes") + bytes("promoted_bytes")) / (512 * BLOCK);
            assert!(read <= most, "{read} blocks were read, and {most} were to be: {tasks:?}");
            assert_eq!(tasks.len() as u64, newest, "none is forgotten, none is there twice");
            let done = |id: u64| tasks[&id]["done"].as_u64().unwrap();
            assert!((1..newest).all(|id| tasks[&id]["state"] == "done" && done(id) == BLOCKS), "{tasks:?}");
            assert!(BLOCKS - done(newest) <= most, "done blocks stay done: {tasks:?}");
            left = BLOCKS - done(newest);
            let state = tasks[&newest]["state"].as_str().unwrap().to_owned();
            assert!(["running", "done"].contains(&state.as_str()), "{tasks:?}");
            left
        };
        if life < lives() {
            // More blocks must be durably scrubbed than clients' reads have served, or a second reading of them would not
            // show.
            while look() > most.saturating_sub(BLOCKS / 8) {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            run_and_kill(&place, &mut load, daemon, || look() <= most);
        } else {
            while look() > 0 {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            assert_eq!(daemon.end()[0]["failed"], 0);
        }
    }
    assert!(resumed > 0, "no scrub was ever half done");
    eprintln!("{newest} scrubs in {} lives, {resumed} times one went on", lives() + 1);
}

/// Returns the contents of an image's sectors. Checks that each block is there once, as docs/BACKUP.md describes it.
fn sectors_of(image: &[u8], block: usize) -> Vec<u64> {
    assert_eq!(&image[..8], b"FBIMAGE1");
    let u32_at = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let mut blocks = BTreeMap::new();
    let mut at = 92;
    while &image[at..at + 4] == b"CHNK" {
        let (bad, bytes) = (u32_at(at + 4), u32_at(at + 16));
        assert_eq!(bad, 0, "no sector is bad");
        let number = u64::from_le_bytes(image[at + 8..at + 16].try_into().unwrap());
        let body = &image[at + 28..at + 28 + bytes];
        assert!(blocks.insert(number, body).is_none(), "block {number} is there twice");
        at += 28 + bytes;
    }
    assert_eq!(&image[at..at + 4], b"INDX");
    assert_eq!(blocks.len(), (SECTORS as usize).div_ceil(block));
    let sectors = blocks.values().flat_map(|body| body.chunks(512)).take(SECTORS as usize);
    sectors.map(stamp_of).collect()
}

/// A backup is of the instant at which it began, although the daemon dies several times while clients overwrite the
/// disk; a scrub runs beside it.
#[test]
fn a_backup_is_of_its_instant_through_kill_9_and_overwriting() {
    const BLOCK: usize = 8;
    let place = DaemonSetup::new(PROFILE);
    let mut load = ClientWrites::new(11);
    // The required content of each image; the number of images checked.
    let mut begun: Vec<Vec<u64>> = Vec::new();
    let (mut checked, mut interrupted) = (0, 0);
    for life in 0..=lives() {
        let Some(daemon) = place.start() else { return };
        // There are no writes yet, so this is the content of the disk.
        let now = load.look(&mut place.client());
        let is = |task: &Value, kind: &str| task["kind"] == kind;
        let live = |tasks: &BTreeMap<u64, Value>, kind: &str| {
            let over = |task: &&Value| is(task, kind) && task["state"] != "done";
            tasks.values().filter(over).count()
        };
        let block = BLOCK.to_string();
        let (_, tasks) = place.status();
        interrupted += live(&tasks, "backup");
        if live(&tasks, "backup") == 0 && life < lives() {
            let image = place.dir.path(&format!("image.{}", begun.len()));
            place.ask(&["backup", &image, "--block-sectors", &block]);
            begun.push(now);
        }
        if live(&tasks, "scrub") == 0 && life < lives() {
            place.ask(&["scrub", "--block-sectors", &block]);
        }
        if life < lives() {
            run_and_kill(&place, &mut load, daemon, || true);
        } else {
            let both = || {
                let (_, tasks) = place.status();
                live(&tasks, "backup") + live(&tasks, "scrub")
            };
            while both() > 0 {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            daemon.end();
        }
        let unfinished = usize::from(life < lives());
        while checked + unfinished < begun.len() {
            let image = std::fs::read(place.dir.path(&format!("image.{checked}"))).unwrap();
            let (found, expected) = (sectors_of(&image, BLOCK), &begun[checked]);
            let other = (0..SECTORS as usize).find(|&lbn| found[lbn] != expected[lbn]);
            assert_eq!(other.map(|lbn| (lbn, found[lbn], expected[lbn])), None, "in image {checked}");
            checked += 1;
        }
    }
    assert!(interrupted > 0, "no backup was ever interrupted");
    assert_eq!(checked, begun.len());
}
