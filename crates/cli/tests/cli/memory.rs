//! A daemon that gets little memory from the kernel, with greedy clients.

use crate::serve::{Daemon, start, start_command};
use crate::support::Dir;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// The size of the largest reads and writes that a client may request.
const REQUEST_BYTES_MAX: u32 = 32 << 20;

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

/// The daemon may take 128 MiB more than at its start. Thirty clients request 60 GiB of answers that they do not take,
/// thirty others stop in the middle of a write, and one more reads meanwhile.
#[test]
fn a_daemon_of_little_memory_serves_whatever_its_clients_do() {
    let dir = Dir::new();
    let (disk, socket) = (dir.path("disk"), dir.path("nbd"));
    std::fs::File::create(&disk).unwrap().set_len(64 * MIB).unwrap();
    let config = dir.file(
        "freeblock.toml",
        &format!(
            "[limits]\nclients = 128\nbytes = \"32MiB\"\nbytes_per_client = \"32MiB\"\ndrain_s = 1\n\
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
    let half = [request(1, REQUEST_BYTES_MAX), vec![0; 5000]].concat();
    let unread = request(0, REQUEST_BYTES_MAX).repeat(64);
    let mut stuck: Vec<UnixStream> = Vec::new();
    for _ in 0..30 {
        for bytes in [&unread, &half] {
            let mut client = client(&socket);
            send(&mut client, bytes);
            stuck.push(client);
        }
        assert!(is_read(&mut other, 4096));
    }
    (0..5).for_each(|_| assert!(is_read(&mut other, REQUEST_BYTES_MAX)));
    // A client that did not take its answers takes the first one after all.
    let mut reply = vec![1; 16 + REQUEST_BYTES_MAX as usize];
    stuck[40].read_exact(&mut reply).unwrap();
    drop(stuck);
    assert!(is_read(&mut other, 4096));
    drop(other);
    let requests = daemon.end()[0]["requests"].as_u64();
    assert!(requests.is_some_and(|requests| requests >= 37), "{requests:?}");
}

/// `PF_MEMALLOC_NOIO` of Linux' include/linux/sched.h: memory for this thread is allocated without waiting for a write.
const NO_IO: u64 = 0x8_0000;
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// Returns the flags of each thread of a process, and its locked memory in KiB (proc(5)).
fn held(id: u32) -> (Vec<u64>, u64) {
    let flags = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        // The name is in parentheses and may have spaces; the flags are the seventh field behind it.
        stat.rsplit(") ").next().unwrap().split(' ').nth(6).unwrap().parse().unwrap()
    };
    let flags = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().map(flags).collect();
    let locked = field(&std::fs::read_to_string(format!("/proc/{id}/status")).unwrap(), "VmLck:", 10);
    (flags, locked)
}

fn field(status: &str, name: &str, radix: u32) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim().trim_end_matches(" kB"), radix).unwrap()
}

/// Starts a daemon that serves an empty file; `by` is a command that runs the daemon, or empty.
fn daemon_of(dir: &Dir, name: &str, by: &[&str], more: &[&str]) -> Option<Daemon> {
    let (disk, socket) = (dir.path(name), dir.path(&format!("{name}.sock")));
    std::fs::File::create(&disk).unwrap().set_len(64 * MIB).unwrap();
    let freeblock = [env!("CARGO_BIN_EXE_freeblock"), "serve"];
    let mut words = by.iter().chain(&freeblock);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args([
        "--disk",
        &format!("d={disk}"),
        "--listen",
        &format!("unix:{socket}"),
        "--json",
    ]);
    start_command(command.args(more), 1)
}

/// Runs in the long tier only, because a container often lacks the capability.
#[test]
fn with_lock_memory_no_thread_waits_for_a_write() {
    let dir = Dir::new();
    let Some(plain) = daemon_of(&dir, "plain", &[], &[]) else { return };
    let (flags, locked) = held(plain.child.id());
    assert!(flags.iter().all(|flags| flags & NO_IO == 0) && locked == 0, "{flags:x?} {locked}");
    plain.end();

    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    if field(&own, "CapEff:", 16) & CAP_SYS_RESOURCE == 0 {
        return testing::missing("the capability CAP_SYS_RESOURCE");
    }
    let daemon = daemon_of(&dir, "locked", &[], &["--lock-memory"]).unwrap();
    let (flags, locked) = held(daemon.child.id());
    assert!(flags.len() > 1 && flags.iter().all(|flags| flags & NO_IO != 0), "{flags:x?}");
    assert!(locked > 4096, "{locked} KiB");
    let score = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", daemon.child.id())).unwrap();
    assert_eq!(score.trim(), "-1000", "the kernel may kill it when memory runs out");
    daemon.end();
}

#[test]
fn without_what_lock_memory_needs_the_daemon_says_what_it_lacks() {
    if !testing::needs_program("setpriv") || !testing::needs_program("prlimit") {
        return;
    }
    let dir = Dir::new();
    let without = [
        "setpriv",
        "--bounding-set=-sys_resource,-ipc_lock",
        "--inh-caps=-sys_resource,-ipc_lock",
        "prlimit",
        "--memlock=65536:65536",
    ];
    let Some(daemon) = daemon_of(&dir, "without", &without, &["--lock-memory"]) else { return };
    assert_eq!(held(daemon.child.id()).1, 0, "a limit would make allocations fail later");
    let said = daemon.end_with_log().1;
    for part in ["memory is not locked", "LimitMEMLOCK=infinity", "CAP_SYS_RESOURCE", "may kill this process"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
}
