//! Independent client programs against the example server. A test whose program is missing prints `skipped:
//! ...`.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods)] // the tests start processes and wait for them

#[allow(dead_code, unreachable_pub, reason = "an example, of which the server is used")]
#[path = "../../examples/memory.rs"]
mod memory;

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A server, whose directory is removed when this value is dropped. Its thread runs until the tests end.
struct Server {
    dir: PathBuf,
}

impl Server {
    /// Starts a server; `None` if the client is not installed.
    fn start(client: &str, test: &str) -> Option<Self> {
        if !testing::needs_program(client) {
            return None;
        }
        let dir = std::env::temp_dir().join(format!("freeblock-nbd-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let listener = UnixListener::bind(dir.join("s")).unwrap();
        std::thread::spawn(move || memory::listen(&listener, 16 << 20).unwrap());
        Some(Self { dir })
    }

    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.dir.join("s").display())
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

fn works(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out.into_owned()
}

/// Returns 16 MiB with holes, in which neighbouring blocks of data differ.
fn image() -> Vec<u8> {
    let mut image = vec![0; 16 << 20];
    for (i, block) in image.chunks_mut(4096).enumerate().filter(|(i, _)| i % 5 > 1) {
        for (j, byte) in block.iter_mut().enumerate() {
            *byte = (i * 31 + j * 7 + j / 256) as u8;
        }
    }
    image
}

#[test]
fn nbdinfo_sees_exports_abilities_and_holes() {
    let Some(server) = Server::start("nbdinfo", "info") else { return };
    let info = works("nbdinfo", &[&server.uri("")]);
    for line in [
        "newstyle-fixed",
        "using structured packets",
        "export-size: 16777216",
        "base:allocation",
        "can_fua: true",
        "can_multi_conn: true",
        "can_zero: true",
        "is_read_only: false",
        "is_rotational: false",
        "description: memory",
    ] {
        assert!(info.contains(line), "no {line:?} in\n{info}");
    }
    assert!(works("nbdinfo", &["--list", &server.uri("")]).contains("export=\"read-only\""));
    assert!(works("nbdinfo", &[&server.uri("read-only")]).contains("is_read_only: true"));
    assert!(works("nbdinfo", &["--map", &server.uri("")]).contains("hole,zero"));
    assert!(!run("nbdinfo", &[&server.uri("nothing")]).status.success());
}

#[test]
fn nbdcopy_and_qemu_img_read_back_their_copies() {
    let Some(server) = Server::start("nbdcopy", "copy") else { return };
    let (there, back) = (server.file("there"), server.file("back"));
    std::fs::write(&there, image()).unwrap();
    works("nbdcopy", &["--connections=4", "--requests=64", &there, &server.uri("")]);
    works("nbdcopy", &["--connections=4", &server.uri(""), &back]);
    assert!(std::fs::read(&back).unwrap() == image());
    if !testing::needs_program("qemu-img") {
        return;
    }
    works("qemu-img", &["compare", "-f", "raw", "-F", "raw", &there, &server.uri("")]);
    works("qemu-img", &["convert", "-f", "raw", "-O", "raw", &server.uri(""), &server.file("again")]);
}

#[test]
fn qemu_io_writes_zeroes_trims_and_verifies() {
    let Some(server) = Server::start("qemu-io", "io") else { return };
    let commands = [
        "write -P 17 4096 65536",
        "read -P 17 4096 65536",
        "write -f -P 18 1M 4096",
        "write -z 8192 4096",
        "read -P 0 8192 4096",
        "discard 1M 4096",
        "flush",
        "aio_write -P 9 2M 1M",
        "aio_flush",
        "read -P 9 2M 1M",
        "read -P 17 12288 4096",
    ];
    let uri = server.uri("");
    let mut args = vec!["-f", "raw", uri.as_str()];
    commands.iter().for_each(|command| args.extend(["-c", command]));
    let out = works("qemu-io", &args);
    assert!(!out.contains("verification failed"), "{out}");
    let refused = run("qemu-io", &["-f", "raw", "-c", "write 0 4096", &server.uri("read-only")]);
    assert!(!refused.status.success() || String::from_utf8_lossy(&refused.stderr).contains("read"));
}
