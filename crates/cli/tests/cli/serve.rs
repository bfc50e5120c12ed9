//! `freeblock serve`, with programs that nobody here wrote, and killed at any moment. Real time passes; nothing here
//! depends on how much.

use crate::support::{Dir, command, run_with};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A drive of two megabytes.
const PROFILE: &str = include_str!("../../../drive/tests/data/small.toml");
const SECTORS: u64 = 3_590;

struct Daemon {
    child: Child,
    rest: std::thread::JoinHandle<String>,
}

/// Starts it and waits until it says of all its `disks` that they are there. `None` where there is no io_uring.
fn start(args: &[&str], disks: usize) -> Option<Daemon> {
    let mut child =
        command().arg("serve").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while said.matches(" at nbd").count() < disks {
        if stderr.read_line(&mut said).unwrap() == 0 {
            assert!(!child.wait().unwrap().success());
            assert!(said.contains("io_uring"), "{said}");
            eprintln!("skipped: io_uring not found");
            return None;
        }
    }
    // The rest is not to stop it when a pipe is full.
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        let _ = stderr.read_to_string(&mut rest);
        rest
    });
    Some(Daemon { child, rest })
}

impl Daemon {
    /// Ends it as systemd does; what it says.
    fn end(mut self) -> Value {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let ended = self.child.wait().unwrap();
        let said = self.rest.join().unwrap();
        assert!(ended.success(), "{said}");
        serde_json::from_str(&out).unwrap()
    }

    /// Ends it as a power cut does, but for the kernel.
    fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

fn has(program: &str) -> bool {
    let has = Command::new(program).arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: {program} not found; on Debian it is in libnbd-bin or qemu-utils");
    }
    has
}

#[track_caller]
fn works(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out.into_owned()
}

fn uri(socket: &str) -> String {
    format!("nbd+unix:///?socket={socket}")
}

#[test]
fn two_disks_are_served_one_known_and_one_unknown() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let disk = |name: &str, more: &str| {
        let (file, socket) = (dir.path(&format!("{name}.img")), dir.path(&format!("{name}.sock")));
        format!(
            "[[disk]]\nname = \"{name}\"\ndevice = \"emulated:{profile},file={file}\"\nlisten = [\"unix:{socket}\"]\n{more}"
        )
    };
    let config = dir
        .file("freeblock.toml", &format!("{}{}", disk("known", ""), disk("blind", "profile = \"none\"\n")));
    let Some(daemon) = start(&["--config", &config, "--json"], 2) else { return };
    let mut image: Vec<u8> = (0..SECTORS * 512).map(|i| (i / 512 * 7 + i % 251) as u8).collect();
    for name in ["known", "blind"] {
        let (uri, file) = (uri(&dir.path(&format!("{name}.sock"))), dir.file("image", ""));
        std::fs::write(&file, &image).unwrap();
        if has("nbdcopy") && has("nbdinfo") {
            let info = works("nbdinfo", &[&uri]);
            for line in ["is_rotational: true", "can_fua: true", "can_multi_conn: true", "can_trim: true"] {
                assert!(info.contains(line), "no {line:?} in\n{info}");
            }
            works("nbdcopy", &[&file, &uri]);
            works("nbdcopy", &[&uri, &dir.path("back")]);
            assert!(std::fs::read(dir.path("back")).unwrap() == image);
        }
        if has("qemu-img") && has("qemu-io") {
            works("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &file, &uri]);
            works("qemu-img", &["compare", "-f", "raw", "-F", "raw", &file, &uri]);
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
        }
        image.rotate_left(512);
    }
    let said = daemon.end();
    let [known, blind] = [&said[0], &said[1]];
    assert_eq!((&known["name"], &blind["name"]), (&"known".into(), &"blind".into()));
    for disk in [known, blind] {
        assert_eq!(disk["failed"], 0, "{disk}");
        assert_eq!(disk["requests"].as_u64().is_some_and(|n| n > 20), has("nbdcopy"), "{disk}");
    }
    assert_eq!(blind["status"]["caution"], "unknown", "{blind}");
    assert_ne!(known["status"]["caution"], "unknown", "{known}");
    assert!(!dir.names().iter().any(|name| name.ends_with(".sock")), "sockets go with the daemon");
}

#[test]
fn mistakes_are_underlined() {
    let dir = Dir::new();
    let config =
        dir.file("f.toml", "[[disk]]\nname = \"a\"\ndevice = \"/dev/null\"\nlisten = [\"unx:/s\"]\n");
    run_with(&["serve", "--config", &config])
        .complained(1, &["unix:PATH or tcp:ADDRESS:PORT", "unx:/s", "here"]);
    run_with(&["serve"]).complained(2, &["--config"]);
    run_with(&["serve", "--disk", "a=/dev/null"]).complained(2, &["--listen"]);
    run_with(&["serve", "--disk", "/dev/null", "--listen", "unix:/s"]).complained(2, &["NAME=DEVICE"]);
    let (disk, listen) = (format!("a={}", dir.path("none")), format!("unix:{}", dir.path("s")));
    run_with(&["serve", "--disk", &disk, "--listen", &listen]).complained(1, &["cannot open"]);
    assert_eq!(dir.names(), ["f.toml"], "nothing is left behind");
}

/// A client that keeps several requests under way.
struct Client {
    socket: UnixStream,
    next: u64,
    asked: BTreeMap<u64, Asked>,
}

#[derive(Clone, Copy)]
enum Asked {
    Write {
        lbn: u64,
        sectors: u64,
        stamp: u64,
        fua: bool,
    },
    /// All that was acknowledged before this many answers.
    Flush {
        answers: u64,
    },
}

impl Client {
    fn open(socket: &str) -> Self {
        let mut socket = UnixStream::connect(socket).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Self { socket, next: 0, asked: BTreeMap::new() }
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
        // Nobody may be there any more.
        let _ = self.socket.write_all(&bytes);
        self.next
    }

    fn ask(&mut self, asked: Asked) {
        let id = match asked {
            Asked::Write { lbn, sectors, stamp, fua } => {
                let data = stamp.to_le_bytes().repeat(64 * sectors as usize);
                self.send((u16::from(fua), 1), (lbn * 512, (sectors * 512) as u32), &data)
            }
            Asked::Flush { .. } => self.send((0, 3), (0, 0), &[]),
        };
        self.asked.insert(id, asked);
    }

    /// The next that is acknowledged; `None` when nobody is there any more.
    fn answer(&mut self) -> Option<Asked> {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).ok()?;
        assert_eq!(&reply[..8], b"\x67\x44\x66\x98\0\0\0\0");
        self.asked.remove(&u64::from_be_bytes(reply[8..].try_into().unwrap()))
    }

    fn read(&mut self, lbn: u64, sectors: u64) -> Vec<u64> {
        self.send((0, 0), (lbn * 512, (sectors * 512) as u32), &[]);
        let mut reply = vec![0; 16 + sectors as usize * 512];
        self.socket.read_exact(&mut reply).unwrap();
        let sectors = reply[16..].chunks(512).map(|sector| {
            assert!(
                sector.chunks(8).all(|eight| eight == &sector[..8]),
                "half a sector of each of two writes"
            );
            u64::from_le_bytes(sector[..8].try_into().unwrap())
        });
        sectors.collect()
    }
}

/// Numbers by seed: no crate of the workspace's own is needed for this.
fn draw(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

/// A sector: what it must hold, or any of what may have been written since.
#[derive(Clone, Default)]
struct Sector {
    safe: u64,
    since: BTreeSet<u64>,
}

#[test]
fn what_was_flushed_is_there_after_kill_9_at_any_moment() {
    let dir = Dir::new();
    let profile = dir.file("small.toml", PROFILE);
    let socket = dir.path("s");
    let disk = format!("d0=emulated:{profile},file={},noise", dir.path("disk"));
    let listen = format!("unix:{socket}");
    let mut sectors = vec![Sector::default(); SECTORS as usize];
    let (mut state, mut stamp) = (20_001_023, 0);
    for _ in 0..6 {
        let Some(mut daemon) = start(&["--disk", &disk, "--listen", &listen], 1) else { return };
        let mut client = Client::open(&socket);
        // What the last life has left.
        let mut found = Vec::new();
        while (found.len() as u64) < SECTORS {
            let lbn = found.len() as u64;
            found.extend(client.read(lbn, (SECTORS - lbn).min(1_000)));
        }
        for (lbn, (sector, found)) in sectors.iter_mut().zip(found).enumerate() {
            let known = found == sector.safe || sector.since.contains(&found);
            assert!(known, "LBN {lbn} holds {found}, not {} or later", sector.safe);
            *sector = Sector { safe: found, since: BTreeSet::new() };
        }
        // Acknowledged, by the number of the answer, and not flushed.
        let mut unflushed: Vec<(u64, u64, u64)> = Vec::new();
        let (last, mut answers) = (20 + draw(&mut state, 120), 0);
        loop {
            while answers < last && client.asked.len() < 8 {
                let lbn = draw(&mut state, SECTORS - 16);
                let kind = draw(&mut state, 12);
                stamp += 1;
                client.ask(match kind {
                    0 => Asked::Flush { answers },
                    _ => Asked::Write { lbn, sectors: 1 + draw(&mut state, 16), stamp, fua: kind < 3 },
                });
                if let Some(Asked::Write { lbn, sectors: count, .. }) = client.asked.values().last() {
                    let range = *lbn as usize..(lbn + count) as usize;
                    sectors[range].iter_mut().for_each(|sector| _ = sector.since.insert(stamp));
                }
            }
            if answers == last {
                daemon.kill();
            }
            // What it had said before it died counts.
            let Some(answered) = client.answer() else { break };
            answers += 1;
            // Overlapping requests are done in order: what is older than what is safe cannot come back.
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
        }
        daemon.child.wait().unwrap();
        daemon.rest.join().unwrap();
    }
    assert!(sectors.iter().filter(|sector| sector.safe > 0).count() > 200);
}

#[test]
fn what_a_disk_has_learnt_is_kept_and_a_damaged_file_stops_nobody() {
    let dir = Dir::new();
    let (profile, image) = (dir.file("small.toml", PROFILE), dir.path("d.img"));
    let disk = format!("d=emulated:{profile},file={image}");
    let (state, listen) = (dir.path("state"), format!("unix:{}", dir.path("d.sock")));
    let serve = ["--disk", &disk, "--listen", &listen, "--profile", "none", "--state", &state, "--json"];
    let learnt = std::path::Path::new(&state).join("d/learnt");
    let Some(daemon) = start(&serve, 1) else { return };
    daemon.end();
    let first = std::fs::read(&learnt).unwrap();
    assert!(first.starts_with(b"FBLEARN"));
    // It goes on from its own file without a word, and from another begins anew, which it says.
    let Some(daemon) = start(&serve, 1) else { return };
    daemon.end();
    assert_eq!(std::fs::read(&learnt).unwrap(), first);
    std::fs::write(&learnt, &first[..first.len() - 9]).unwrap();
    let Some(daemon) = start(&serve, 1) else { return };
    daemon.end();
    assert_eq!(std::fs::read(&learnt).unwrap(), first);
    let aside = learnt.with_file_name("learnt.refused-1");
    assert_eq!(std::fs::read(aside).unwrap(), first[..first.len() - 9]);
}
