//! A server on a thread of its own, and clients for it.

#![allow(dead_code, unreachable_pub, reason = "each test uses what it needs")]

pub mod log;

use device::{Device, Emulated, Options, Raw, Ring};
use drive::Behaviour;
use server::{Address, ExportConfig, Exporter, Limits, Listener, StopHandle, Tally};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

/// The profile of a drive of two megabytes, small enough to be written and read as a whole in real
/// time.
pub const PROFILE: &str = include_str!("../../../../drive/tests/data/small.toml");

/// A server over a device. Its directory, which contains its socket, is removed with the server.
pub struct Server<D> {
    pub dir: PathBuf,
    thread: Option<JoinHandle<(Tally, D)>>,
    stop: StopHandle,
    pub size: u64,
    /// The TCP port on the loopback address.
    pub port: u16,
}

impl Server<Emulated> {
    pub fn emulated(test: &str, behaviour: Behaviour, limits: Limits) -> Option<Self> {
        let export = ExportConfig { limits, ..ExportConfig::default() };
        Self::start(test, export, move |dir| {
            let profile = model::Profile::from_toml(PROFILE, "small.toml").unwrap();
            let mut options = std::fs::File::options();
            let file =
                options.read(true).write(true).create(true).truncate(false).open(dir.join("disk")).unwrap();
            Emulated::new(&profile, behaviour, 1, file).unwrap()
        })
    }

    pub fn emulated_plain(test: &str) -> Option<Self> {
        Self::emulated(test, Behaviour::default(), Limits::default())
    }
}

impl Server<Raw> {
    /// Starts a server over a file of this number of bytes.
    pub fn raw(test: &str, bytes: u64, export: ExportConfig) -> Option<Self> {
        Self::start(test, export, move |dir| {
            std::fs::File::create(dir.join("disk")).unwrap().set_len(bytes).unwrap();
            Raw::open(dir.join("disk"), Options { buffered: true, ..Options::default() }).unwrap()
        })
    }
}

impl<D: Device + Send + 'static> Server<D> {
    /// Returns `None` if the kernel gives no io_uring.
    pub fn start(test: &str, export: ExportConfig, make: impl FnOnce(&Path) -> D) -> Option<Self> {
        if let Err(error) = Ring::new() {
            testing::missing(&format!("io_uring ({error})"));
            return None;
        }
        let dir = std::env::temp_dir().join(format!("freeblock-server-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let disk = make(&dir);
        let size = disk.size().get();
        let unix = Listener::bind(Address::Unix(dir.join("s")), false).unwrap();
        let tcp = Listener::bind(Address::Tcp("127.0.0.1:0".parse().unwrap()), false).unwrap();
        let Address::Tcp(at) = tcp.address().clone() else { panic!("{tcp:?}") };
        let (send, receive) = std::sync::mpsc::channel();
        // A ring stays with the thread that made it, so the exporter is made on the serving thread.
        let serve = move || {
            let (exporter, stop) = Exporter::new(disk, export, vec![unix, tcp]).unwrap();
            send.send(stop).unwrap();
            exporter.run().unwrap()
        };
        // The thread's name marks the server's log lines.
        let thread = std::thread::Builder::new().name(test.into()).spawn(serve).unwrap();
        let stop = receive.recv().unwrap();
        Some(Self { dir, thread: Some(thread), stop, size, port: at.port() })
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.dir.join("s").display())
    }

    pub fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(self.dir.join("s")).unwrap()
    }

    /// Returns a client that has chosen the export.
    pub fn client(&self) -> UnixStream {
        connect(&self.dir.join("s"))
    }

    /// Returns whether the server still answers a client.
    pub fn serves(&self) -> bool {
        is_read(&mut self.client(), 0, 512)
    }

    pub fn end(self) -> Tally {
        self.ended().0
    }

    pub fn ended(mut self) -> (Tally, D) {
        self.stop.stop().unwrap();
        let ended = self.thread.take().unwrap().join().unwrap();
        assert!(!self.dir.join("s").exists(), "the socket goes with the server");
        std::fs::remove_dir_all(&self.dir).unwrap();
        ended
    }
}

pub fn has(program: &str) -> bool {
    testing::needs_program(program)
}

pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

pub fn works(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out.into_owned()
}

/// Reads the greeting, and chooses the export without a name by NBD_OPT_EXPORT_NAME.
pub fn open(client: &mut UnixStream) {
    client.read_exact(&mut [0; 18]).unwrap();
    choose(client);
}

/// Returns a client of a socket that has chosen the export without a name.
pub fn connect(socket: &Path) -> UnixStream {
    let mut client = UnixStream::connect(socket).unwrap();
    open(&mut client);
    client
}

pub fn choose(client: &mut UnixStream) {
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
}

/// Returns a client of a socket that has chosen the export `export`.
pub fn named(socket: &Path, export: &str) -> UnixStream {
    let mut client = UnixStream::connect(socket).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    let length = (export.len() as u32).to_be_bytes();
    client.write_all(&[b"\0\0\0\x03IHAVEOPT\0\0\0\x01", &length[..], export.as_bytes()].concat()).unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    client
}

pub fn request(kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    [
        &0x2560_9513u32.to_be_bytes()[..],
        &[0, 0],
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ]
    .concat()
}

pub fn reads(requests: u64, bytes: u32) -> Vec<u8> {
    (0..requests).flat_map(|cookie| request(0, cookie, 0, bytes)).collect()
}

/// Reads a range, and returns whether that succeeded.
pub fn is_read(client: &mut UnixStream, offset: u64, bytes: u32) -> bool {
    client.write_all(&request(0, 7, offset, bytes)).unwrap();
    let mut reply = vec![1; 16 + bytes as usize];
    client.read_exact(&mut reply).unwrap();
    reply[..8] == [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]
}

/// Sends bytes, reading nothing, until all are sent or the server takes no more; returns the number
/// sent.
pub fn send(client: &mut UnixStream, bytes: &[u8]) -> usize {
    client.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match client.write(&bytes[sent..]) {
            Ok(some) => sent += some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    client.set_nonblocking(false).unwrap();
    sent
}
