//! A kernel as a client, in one loop with NBD clients. It is simulated here, so that the test runs without the driver.
//! proofs/ublk.sh has the real one.

use crate::support::{self, PROFILE, request};
use device::{Device, Emulated, Faults, Faulty, KernelError, KernelQueue, KernelRequest, Ring};
use server::{Address, Exporter, Listener, Offer, Stop, Tally};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::Lbn;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROES: u32 = 5;
const FUA: u32 = 1 << 13;

type Answer = Result<Vec<u8>, KernelError>;

/// The kernel's end of a queue.
#[derive(Debug)]
struct Made {
    wire: Arc<OwnedFd>,
    bell: UnixStream,
    asked: Receiver<KernelRequest>,
    answers: Sender<(u16, Answer)>,
    over: Arc<AtomicBool>,
    /// Results that go out in the next iteration.
    told: Vec<(u16, Answer)>,
}

impl KernelQueue for Made {
    fn wire(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wire)
    }

    fn turn(&mut self) -> std::io::Result<bool> {
        while self.bell.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        self.told.drain(..).for_each(|answer| self.answers.send(answer).unwrap());
        Ok(!self.over.load(Ordering::SeqCst))
    }

    fn next(&mut self) -> Option<KernelRequest> {
        self.asked.try_recv().ok()
    }

    fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>) {
        self.told.push((tag, result.map(<[u8]>::to_vec)));
    }
}

/// A disk that is served to a simulated kernel and over NBD.
struct Both {
    dir: PathBuf,
    ask: Sender<KernelRequest>,
    bell: Arc<Mutex<UnixStream>>,
    answers: Receiver<(u16, Answer)>,
    over: Arc<AtomicBool>,
    stop: Stop,
    /// Reports that the server has asked the kernel to remove the device.
    stopped: Receiver<()>,
    thread: JoinHandle<Tally>,
}

impl Both {
    /// Starts both; `None` if the kernel gives no io_uring.
    fn start(test: &str, offer: Offer, faults: Faults) -> Option<Self> {
        if let Err(error) = Ring::new() {
            testing::missing(&format!("io_uring ({error})"));
            return None;
        }
        let dir = std::env::temp_dir().join(format!("freeblock-kernel-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let profile = model::Profile::from_toml(PROFILE, "small.toml").unwrap();
        let file = File::options().read(true).write(true).create(true).truncate(true).open(dir.join("disk"));
        let disk = Emulated::new(&profile, drive::Behaviour::default(), 1, file.unwrap()).unwrap();
        let disk = Faulty::new(disk, faults);
        assert!(disk.abilities().discard);
        let listener = Listener::bind(Address::Unix(dir.join("s")), false).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let heard = ours.try_clone().unwrap();
        heard.set_nonblocking(true).unwrap();
        let ((ask, asked), (answers, answered)) = (channel(), channel());
        let (tell, stopped) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let kernel_over = Arc::clone(&over);
        let (send, receive) = channel();
        let thread = std::thread::spawn(move || {
            let (exporter, stop) = Exporter::new(disk, offer, vec![listener]).unwrap();
            send.send(stop).unwrap();
            let wire = Arc::new(ours.into());
            let mut queue = Made { wire, bell: heard, asked, answers, over: kernel_over, told: Vec::new() };
            exporter.run_with(&mut queue, &|| tell.send(()).unwrap()).unwrap().0
        });
        let (stop, bell) = (receive.recv().unwrap(), Arc::new(Mutex::new(theirs)));
        Some(Self { dir, ask, bell, answers: answered, over, stop, stopped, thread })
    }

    fn ring(&self) {
        self.bell.lock().unwrap().write_all(&[1]).unwrap();
    }

    /// Asks for `count` sectors from `first` on, as the kernel numbers operations and flags.
    fn ask(&self, tag: u16, op_flags: u32, first: u64, count: u32, bytes: &[u8]) {
        let mut request = KernelRequest::decode(tag, op_flags, first, count);
        request.bytes = bytes.to_vec();
        self.ask.send(request).unwrap();
        self.ring();
    }

    fn does(&self, op_flags: u32, first: u64, count: u32, bytes: &[u8]) -> Answer {
        self.ask(7, op_flags, first, count, bytes);
        let (tag, answer) = self.answers.recv().unwrap();
        assert_eq!(tag, 7);
        answer
    }

    fn client(&self) -> UnixStream {
        support::connect(&self.dir.join("s"))
    }

    fn end(self) -> Tally {
        self.stop.stop().unwrap();
        self.stopped.recv().unwrap();
        self.over.store(true, Ordering::SeqCst);
        self.ring();
        let tally = self.thread.join().unwrap();
        std::fs::remove_dir_all(&self.dir).unwrap();
        tally
    }
}

/// Returns `sectors` from `first` on, as a client reads them.
fn client_reads(client: &mut UnixStream, first: u64, sectors: u32) -> Vec<u8> {
    client.write_all(&request(0, 1, first * 512, sectors * 512)).unwrap();
    let mut reply = vec![0; 16 + sectors as usize * 512];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    reply.split_off(16)
}

#[test]
fn the_kernel_and_clients_read_each_others_writes() {
    let Some(both) = Both::start("both", Offer::default(), Faults::default()) else { return };
    let mut client = both.client();
    let ours: Vec<u8> = (0..8 * 512).map(|at| (at % 251) as u8).collect();
    assert_eq!(both.does(WRITE, 16, 8, &ours), Ok(vec![]));
    assert!(client_reads(&mut client, 16, 8) == ours);
    let theirs = vec![9; 4096];
    client.write_all(&[request(1, 2, 24 * 512, 4096), theirs.clone()].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    assert!(both.does(READ, 16, 16, &[]) == Ok([ours.clone(), theirs].concat()));
    assert_eq!(both.does(WRITE | FUA, 20, 1, &[5; 512]), Ok(vec![]));
    assert_eq!(both.does(FLUSH, 0, 0, &[]), Ok(vec![]));
    assert_eq!(both.does(WRITE_ZEROES, 16, 4, &[]), Ok(vec![]));
    assert!(client_reads(&mut client, 16, 5) == [vec![0; 2048], vec![5; 512]].concat());
    assert_eq!(both.does(DISCARD | FUA, 24, 8, &[]), Ok(vec![]));
    assert!(client_reads(&mut client, 21, 3) == ours[5 * 512..]);
    drop(client);
    // Four reads and writes of the client, six of the kernel.
    assert_eq!(both.end(), Tally { clients: 1, requests: 10, failed: 0 });
}

#[test]
fn the_kernel_gets_errors_in_its_own_codes() {
    let faults = Faults { bad: [Lbn::new(40)].into(), ..Faults::default() };
    let Some(both) = Both::start("errors", Offer::default(), faults) else { return };
    assert_eq!(both.does(READ, 36, 8, &[]), Err(KernelError::Medium));
    assert_eq!(both.does(READ, 41, 1, &[]), Ok(vec![0; 512]));
    assert_eq!(both.does(READ, 1 << 40, 8, &[]), Err(KernelError::Invalid));
    assert_eq!(both.does(WRITE, 0, 8, &[1; 512]), Err(KernelError::Invalid), "fewer bytes than sectors");
    assert_eq!(both.does(READ, 0, 0, &[]), Err(KernelError::Invalid));
    assert_eq!(both.does(13, 0, 8, &[]), Err(KernelError::NotSupported), "a zone append");
    assert_eq!(both.end().failed, 5);
}

#[test]
fn the_kernel_cannot_write_to_a_read_only_disk() {
    let offer = Offer { read_only: true, ..Offer::default() };
    let Some(both) = Both::start("read-only", offer, Faults::default()) else { return };
    for op in [WRITE, DISCARD, WRITE_ZEROES] {
        assert_eq!(both.does(op, 0, 1, &[1; 512]), Err(KernelError::NotPermitted));
    }
    assert_eq!(both.does(READ, 0, 1, &[]), Ok(vec![0; 512]));
    assert_eq!(both.does(FLUSH, 0, 0, &[]), Ok(vec![]));
    both.end();
}

#[test]
fn sixty_four_requests_at_once_are_all_answered() {
    let Some(both) = Both::start("many", Offer::default(), Faults::default()) else { return };
    for tag in 0..64u16 {
        both.ask(tag, WRITE, u64::from(tag) * 8, 1, &[tag as u8; 512]);
    }
    let mut answered: Vec<u16> = (0..64).map(|_| both.answers.recv().unwrap().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..64).collect::<Vec<_>>());
    for tag in 0..64u16 {
        assert_eq!(both.does(READ, u64::from(tag) * 8, 1, &[]), Ok(vec![tag as u8; 512]));
    }
    both.end();
}

/// A kernel that is asked to remove the device first writes its dirty data.
#[test]
fn writes_of_the_kernel_at_the_end_are_served() {
    let Some(both) = Both::start("way-out", Offer::default(), Faults::default()) else { return };
    both.stop.stop().unwrap();
    both.stopped.recv().unwrap();
    for first in 0..20 {
        assert_eq!(both.does(WRITE, first, 1, &[3; 512]), Ok(vec![]));
    }
    assert_eq!(both.does(FLUSH, 0, 0, &[]), Ok(vec![]));
    both.over.store(true, Ordering::SeqCst);
    both.ring();
    assert_eq!(both.thread.join().unwrap().requests, 21);
    assert!(std::fs::read(both.dir.join("disk")).unwrap()[..20 * 512] == [3; 20 * 512]);
    std::fs::remove_dir_all(&both.dir).unwrap();
}

#[test]
fn clients_are_served_when_the_kernel_has_let_go() {
    let Some(both) = Both::start("gone", Offer::default(), Faults::default()) else { return };
    assert_eq!(both.does(WRITE, 3, 1, &[8; 512]), Ok(vec![]));
    both.over.store(true, Ordering::SeqCst);
    both.ring();
    assert_eq!(client_reads(&mut both.client(), 3, 1), vec![8; 512]);
    both.end();
}

#[test]
#[cfg(not(feature = "ublk"))]
fn a_build_without_it_says_so() {
    let dir = std::env::temp_dir().join(format!("freeblock-kernel-{}-without", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let profile = model::Profile::from_toml(PROFILE, "small.toml").unwrap();
    let file = File::options().read(true).write(true).create(true).truncate(true).open(dir.join("disk"));
    let disk = Emulated::new(&profile, drive::Behaviour::default(), 1, file.unwrap()).unwrap();
    let offer = Offer { ublk: Some(server::Ublk { number: 0, disk: "d0".into() }), ..Offer::default() };
    let error = server::Running::start("d0", disk, offer, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("built without ublk") && error.contains("make ublk"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}
