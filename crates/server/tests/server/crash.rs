//! kill -9 at pseudo-random moments under load: acknowledged writes survive.
//!
//! Bytes that a killed process has written to a file survive in the kernel, so every acknowledged write must
//! survive, and not only flushed ones. Power cuts are not tested here.

use crate::support::{choose, request};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 64;

/// Returns the path of the example to kill; `None` if only this test was built.
fn export() -> Option<PathBuf> {
    let path = std::env::current_exe().unwrap().parent()?.parent()?.join("examples/export");
    let what = "the example export (cargo build --package freeblock-server --example export)";
    testing::needs(what, path.exists()).then_some(path)
}

fn start(program: &Path, dir: &Path) -> Child {
    let mut command = Command::new(program);
    let command = command.arg(dir.join("disk")).arg(dir.join("s")).stdin(Stdio::piped());
    command.spawn().unwrap()
}

/// Connects to the running server. The socket of a killed server may accept connections for a moment, and then
/// breaks them.
fn connect(dir: &Path, child: &mut Child) -> UnixStream {
    loop {
        assert!(child.try_wait().unwrap().is_none(), "it starts over what it left behind");
        let Ok(mut client) = UnixStream::connect(dir.join("s")) else {
            std::thread::yield_now();
            continue;
        };
        if client.read_exact(&mut [0; 18]).is_ok() {
            choose(&mut client);
            return client;
        }
    }
}

/// Pseudo-random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The possible contents of a block: the number of the last acknowledged write, and those of later ones.
#[derive(Default)]
struct PossibleContents {
    acknowledged: u64,
    since: Vec<u64>,
}

/// Writes until the server is killed with some writes in flight. Records the possible contents of each block;
/// returns the number of the next write.
fn load(
    client: &mut UnixStream,
    child: &mut Child,
    dice: &mut Dice,
    first: u64,
    blocks: &mut BTreeMap<u64, PossibleContents>,
) -> u64 {
    let (most, mut number) = (200 + dice.below(600), first);
    let mut under_way: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sent = 0;
    while sent < most {
        while under_way.len() < 16 && sent < most {
            let at = dice.below(BLOCKS);
            // Two writes to one block never overlap in time, because either could be the last.
            if under_way.values().any(|other| *other == at) {
                break;
            }
            let bytes = number.to_be_bytes().repeat(BLOCK as usize / 8);
            let fua = u64::from(dice.below(8) == 0);
            let mut header = request(1, number, at * u64::from(BLOCK), BLOCK);
            header[5] = fua as u8;
            client.write_all(&[header, bytes].concat()).unwrap();
            blocks.entry(at).or_default().since.push(number);
            under_way.insert(number, at);
            (number, sent) = (number + 1, sent + 1);
        }
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4], "a write failed");
        let cookie = u64::from_be_bytes(reply[8..].try_into().unwrap());
        let at = under_way.remove(&cookie).unwrap();
        let block = blocks.get_mut(&at).unwrap();
        block.since.retain(|write| *write != cookie);
        block.acknowledged = cookie;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    number
}

#[test]
fn acknowledged_writes_survive_a_kill_at_any_moment() {
    let Some(program) = export() else { return };
    if device::Ring::new().is_err() {
        testing::missing("io_uring");
        return;
    }
    let dir = std::env::temp_dir().join(format!("freeblock-crash-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::File::create(dir.join("disk")).unwrap().set_len(BLOCKS * u64::from(BLOCK)).unwrap();
    let rounds = testing::sized(12, 200);
    let (mut dice, mut number, mut blocks) = (Dice(20_001_023), 1u64, BTreeMap::new());
    for round in 0..rounds {
        let mut child = start(&program, &dir);
        let mut client = connect(&dir, &mut child);
        // The content that is found now is the only possible one from now on.
        for at in 0..BLOCKS {
            client.write_all(&request(0, at, at * u64::from(BLOCK), BLOCK)).unwrap();
            let mut reply = vec![0; 16 + BLOCK as usize];
            client.read_exact(&mut reply).unwrap();
            let words: Vec<u64> =
                reply[16..].chunks(8).map(|word| u64::from_be_bytes(word.try_into().unwrap())).collect();
            let block: &mut PossibleContents = blocks.entry(at).or_default();
            for sector in words.chunks(64) {
                let value = sector[0];
                assert!(
                    sector.iter().all(|word| *word == value),
                    "round {round}: block {at} has half a sector"
                );
                let may = value == block.acknowledged || block.since.contains(&value);
                let PossibleContents { acknowledged, since } = block;
                assert!(may, "round {round}: block {at} has {value}, not {acknowledged} or one of {since:?}");
            }
            // A write that was not acknowledged may be on the disk in part, so the block is written anew.
            if block.since.is_empty() {
                assert!(words.iter().all(|word| *word == block.acknowledged));
            } else {
                let (header, bytes) = (request(1, 0, at * u64::from(BLOCK), BLOCK), number.to_be_bytes());
                client.write_all(&[header, bytes.repeat(BLOCK as usize / 8)].concat()).unwrap();
                client.read_exact(&mut [0; 16]).unwrap();
                *block = PossibleContents { acknowledged: number, since: Vec::new() };
                number += 1;
            }
        }
        number = load(&mut client, &mut child, &mut dice, number, &mut blocks);
    }
    std::fs::remove_dir_all(dir).unwrap();
}
