//! This machine's kernel as a client, in one event loop with NBD clients. The kernel is simulated, so that the test
//! runs without the ublk driver; proofs/ublk.sh uses the real one.

use crate::support::{self, PROFILE, request};
use device::{
    Abilities, Answer as DeviceAnswer, Ask, BackgroundRequest, Device, Emulated, Faults, Faulty, KernelError,
    KernelQueue, KernelRequest, Ring,
};
use server::{Address, ExportConfig, Exporter, Kernel, Limits, Listener, Mailbox, StopHandle, Tally};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::{Bytes, Duration, Instant, Lbn, LbnRange};

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROES: u32 = 5;
const FUA: u32 = 1 << 13;

type Answer = Result<Vec<u8>, KernelError>;

/// The server's end of a queue whose kernel the test plays.
#[derive(Debug)]
struct Made {
    wire: Arc<OwnedFd>,
    waker: UnixStream,
    asked: Receiver<KernelRequest>,
    answers: Sender<(u16, Answer)>,
    over: Arc<AtomicBool>,
    /// Results that the next exchange passes to the kernel.
    reported: Vec<(u16, Answer)>,
}

impl KernelQueue for Made {
    fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wire)
    }

    fn exchange(&mut self) -> std::io::Result<bool> {
        while self.waker.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        self.reported.drain(..).for_each(|answer| self.answers.send(answer).unwrap());
        Ok(!self.over.load(Ordering::SeqCst))
    }

    fn next(&mut self) -> Option<KernelRequest> {
        self.asked.try_recv().ok()
    }

    fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>) {
        self.reported.push((tag, result.map(<[u8]>::to_vec)));
    }
}

/// A disk that keeps background requests until the test releases them.
#[derive(Debug)]
struct Patient {
    disk: Faulty<Emulated>,
    waiting: Vec<BackgroundRequest>,
    writers: usize,
}

impl Patient {
    fn carry_out(&mut self, now: Instant) {
        for request in std::mem::take(&mut self.waiting) {
            self.disk.ask_in_background(now, request);
        }
    }
}

impl Device for Patient {
    fn sector_bytes(&self) -> Bytes {
        self.disk.sector_bytes()
    }

    fn size(&self) -> Bytes {
        self.disk.size()
    }

    fn abilities(&self) -> Abilities {
        self.disk.abilities()
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        self.disk.ask(now, id, range, ask);
    }

    fn ask_in_background(&mut self, _: Instant, request: BackgroundRequest) {
        self.waiting.push(request);
    }

    fn leave(&mut self, _: Instant, client: u64) -> Vec<u64> {
        self.waiting.extract_if(.., |request| request.client == client).map(|request| request.id).collect()
    }

    fn set_writers(&mut self, writers: usize) {
        self.writers = writers;
    }

    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Instant) {
        self.disk.advance(now);
    }

    fn poll(&mut self, now: Instant) -> Option<DeviceAnswer> {
        self.disk.poll(now)
    }
}

/// A disk that is served to a simulated kernel and over NBD at the same time.
struct Both {
    dir: PathBuf,
    ask: Sender<KernelRequest>,
    waker: Arc<Mutex<UnixStream>>,
    answers: Receiver<(u16, Answer)>,
    over: Arc<AtomicBool>,
    stop: StopHandle,
    mailbox: Mailbox<Patient>,
    /// Receives a value when the server asks the kernel to remove the device.
    stopped: Receiver<()>,
    thread: JoinHandle<Tally>,
}

impl Both {
    /// Starts the server; `None` if the machine has no io_uring.
    fn start(test: &str, export: ExportConfig, faults: Faults) -> Option<Self> {
        Self::start_with(test, export, faults, None, true)
    }

    /// Starts the server. With `shown` the kernel's device is a background device, and the flag says when it is shown.
    /// Unless `is_open`, the server is held until the mailbox opens it.
    fn start_with(
        test: &str,
        export: ExportConfig,
        faults: Faults,
        shown: Option<Arc<AtomicBool>>,
        is_open: bool,
    ) -> Option<Self> {
        if let Err(error) = Ring::new() {
            testing::missing(&format!("io_uring ({error})"));
            return None;
        }
        let dir = std::env::temp_dir().join(format!("freeblock-kernel-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let profile = model::Profile::from_toml(PROFILE, "small.toml").unwrap();
        let file = File::options().read(true).write(true).create(true).truncate(true).open(dir.join("disk"));
        let disk = Emulated::new(&profile, drive::Behaviour::default(), 1, file.unwrap()).unwrap();
        let disk = Patient { disk: Faulty::new(disk, faults), waiting: Vec::new(), writers: 0 };
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
            let (mut exporter, stop) = Exporter::new(disk, export, vec![listener]).unwrap();
            if !is_open {
                exporter.hold();
            }
            send.send((stop, exporter.mailbox())).unwrap();
            let wire = Arc::new(ours.into());
            let mut queue =
                Made { wire, waker: heard, asked, answers, over: kernel_over, reported: Vec::new() };
            let stop = || tell.send(()).unwrap();
            let kernel = match &shown {
                None => Kernel::foreground(&mut queue, &stop),
                Some(shown) => Kernel::background(&mut queue, &stop, shown),
            };
            exporter.run_with(vec![kernel]).unwrap().0
        });
        let ((stop, mailbox), waker) = (receive.recv().unwrap(), Arc::new(Mutex::new(theirs)));
        Some(Self { dir, ask, waker, answers: answered, over, stop, mailbox, stopped, thread })
    }

    /// Wakes the server. Fails, without effect, if the server has ended.
    fn ring(&self) {
        let _ = self.waker.lock().unwrap().write_all(&[1]);
    }

    /// Sends a request for `count` sectors from `first` on, with the kernel's numbers for operation and flags.
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

/// Reads `sectors` sectors from `first` on through an NBD client.
fn client_reads(client: &mut UnixStream, first: u64, sectors: u32) -> Vec<u8> {
    client.write_all(&request(0, 1, first * 512, sectors * 512)).unwrap();
    let mut reply = vec![0; 16 + sectors as usize * 512];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    reply.split_off(16)
}

#[test]
fn the_kernel_and_clients_read_each_others_writes() {
    let Some(both) = Both::start("both", ExportConfig::default(), Faults::default()) else { return };
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
    // Four requests are the client's, and six are the kernel's.
    assert_eq!(both.end(), Tally { clients: 1, requests: 10, failed: 0 });
}

#[test]
fn the_kernel_gets_errors_in_its_own_codes() {
    let faults = Faults { bad: [Lbn::new(40)].into(), ..Faults::default() };
    let Some(both) = Both::start("errors", ExportConfig::default(), faults) else { return };
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
    let export = ExportConfig { read_only: true, ..ExportConfig::default() };
    let Some(both) = Both::start("read-only", export, Faults::default()) else { return };
    for op in [WRITE, DISCARD, WRITE_ZEROES] {
        assert_eq!(both.does(op, 0, 1, &[1; 512]), Err(KernelError::NotPermitted));
    }
    assert_eq!(both.does(READ, 0, 1, &[]), Ok(vec![0; 512]));
    assert_eq!(both.does(FLUSH, 0, 0, &[]), Ok(vec![]));
    both.end();
}

#[test]
fn sixty_four_requests_at_once_are_all_answered() {
    let Some(both) = Both::start("many", ExportConfig::default(), Faults::default()) else { return };
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

/// When the kernel is asked to remove a device, it first writes its dirty data.
#[test]
fn writes_of_the_kernel_at_the_end_are_served() {
    let Some(both) = Both::start("way-out", ExportConfig::default(), Faults::default()) else { return };
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

/// Starts a server with a background device that is shown already.
fn in_the_background(test: &str, export: ExportConfig) -> Option<Both> {
    let export = ExportConfig { background: Some("later".into()), ..export };
    Both::start_with(test, export, Faults::default(), Some(Arc::new(AtomicBool::new(true))), true)
}

/// Waits until the disk keeps this number of requests.
fn wait_for(both: &Both, requests: usize) {
    while both.mailbox.ask(|disk, _| disk.waiting.len()).unwrap() != requests {
        std::thread::yield_now();
    }
}

#[test]
fn requests_to_the_background_device_wait_and_clients_do_not() {
    let Some(both) =
        in_the_background("background", ExportConfig { background_write: true, ..ExportConfig::default() })
    else {
        return;
    };
    let mut client = both.client();
    client.write_all(&[request(1, 2, 8 * 512, 512), vec![7; 512]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    both.ask(1, READ, 8, 1, &[]);
    both.ask(2, WRITE, 9, 1, &[4; 512]);
    both.ask(3, DISCARD | FUA, 10, 8, &[]);
    wait_for(&both, 3);
    assert_eq!(client_reads(&mut client, 8, 1), vec![7; 512]);
    assert!(both.answers.try_recv().is_err());
    both.mailbox.send(Patient::carry_out).unwrap();
    let mut answers: Vec<(u16, Answer)> = (0..2).map(|_| both.answers.recv().unwrap()).collect();
    answers.sort_by_key(|answer| answer.0);
    assert_eq!(answers, [(1, Ok(vec![7; 512])), (2, Ok(vec![]))]);
    // The flush after the discard waits, too.
    wait_for(&both, 1);
    both.mailbox.send(Patient::carry_out).unwrap();
    assert_eq!(both.answers.recv().unwrap(), (3, Ok(vec![])));
    drop(client);
    both.end();
}

#[test]
fn a_background_device_is_read_only_unless_writes_are_allowed() {
    for writes in [false, true] {
        let export = ExportConfig { background_write: writes, ..ExportConfig::default() };
        let Some(both) = in_the_background("background-read-only", export) else { return };
        both.ask(5, WRITE, 0, 1, &[1; 512]);
        if writes {
            wait_for(&both, 1);
            both.mailbox.send(Patient::carry_out).unwrap();
        }
        let expected = if writes { Ok(vec![]) } else { Err(KernelError::NotPermitted) };
        assert_eq!(both.answers.recv().unwrap(), (5, expected));
        // A device that may write prevents a restore, so it counts as a writer.
        assert_eq!(both.mailbox.ask(|disk, _| disk.writers).unwrap(), usize::from(writes));
        both.end();
    }
}

/// While the kernel shows a device, it looks for partitions and waits for the result.
#[test]
fn until_a_background_device_is_shown_its_requests_do_not_wait() {
    let shown = Arc::new(AtomicBool::new(false));
    let export = ExportConfig { background: Some("later".into()), ..ExportConfig::default() };
    let both = Both::start_with("unshown", export, Faults::default(), Some(Arc::clone(&shown)), true);
    let Some(both) = both else { return };
    assert_eq!(both.does(READ, 0, 8, &[]), Ok(vec![0; 4096]));
    shown.store(true, Ordering::SeqCst);
    both.ask(7, READ, 0, 8, &[]);
    wait_for(&both, 1);
    both.mailbox.send(Patient::carry_out).unwrap();
    assert_eq!(both.answers.recv().unwrap(), (7, Ok(vec![0; 4096])));
    both.end();
}

#[test]
fn at_the_end_what_waits_too_long_fails_and_the_last_requests_do_not_wait() {
    let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
    let Some(both) = in_the_background("background-end", ExportConfig { limits, ..ExportConfig::default() })
    else {
        return;
    };
    for tag in 0..40 {
        both.ask(tag, READ, u64::from(tag), 1, &[]);
    }
    wait_for(&both, 40);
    both.stop.stop().unwrap();
    both.stopped.recv().unwrap();
    both.ask(40, READ, 0, 1, &[]);
    let mut answers: Vec<(u16, Answer)> = (0..41).map(|_| both.answers.recv().unwrap()).collect();
    answers.sort_by_key(|answer| answer.0);
    assert_eq!(answers.pop(), Some((40, Ok(vec![0; 512]))));
    assert!(answers.iter().all(|(_, answer)| *answer == Err(KernelError::Io)), "{answers:?}");
    both.over.store(true, Ordering::SeqCst);
    both.ring();
    assert_eq!(both.thread.join().unwrap().failed, 40);
    std::fs::remove_dir_all(&both.dir).unwrap();
}

/// Until the start of the daemon can no longer fail, nothing may be written to the disk.
#[test]
fn a_server_that_is_not_open_takes_no_client_and_holds_the_kernels_writes() {
    let start = |test| Both::start_with(test, ExportConfig::default(), Faults::default(), None, false);
    let Some(both) = start("held") else { return };
    let mut client = UnixStream::connect(both.dir.join("s")).unwrap();
    client.set_nonblocking(true).unwrap();
    both.ask(1, WRITE, 16, 8, &[3; 4096]);
    both.ask(2, DISCARD, 0, 8, &[]);
    assert_eq!(both.does(READ, 16, 8, &[]), Ok(vec![0; 4096]));
    assert_eq!(both.does(FLUSH, 0, 0, &[]), Ok(vec![]));
    let greeting = client.read(&mut [0; 18]).unwrap_err().kind();
    assert_eq!(greeting, std::io::ErrorKind::WouldBlock);
    both.mailbox.open().unwrap();
    let mut done = [(); 2].map(|()| both.answers.recv().unwrap());
    done.sort_unstable_by_key(|(tag, _)| *tag);
    assert_eq!(done, [(1, Ok(vec![])), (2, Ok(vec![]))]);
    assert_eq!(both.does(READ, 16, 8, &[]), Ok(vec![3; 4096]));
    client.set_nonblocking(false).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    drop(client);
    both.end();
    // If the daemon's start fails, held writes must fail, because the kernel waits for them before it removes the
    // device.
    let Some(both) = start("never") else { return };
    both.ask(1, WRITE, 16, 8, &[3; 4096]);
    assert_eq!(both.does(READ, 16, 8, &[]), Ok(vec![0; 4096]));
    both.stop.stop().unwrap();
    assert_eq!(both.answers.recv().unwrap(), (1, Err(KernelError::Io)));
    assert_eq!(both.does(WRITE, 16, 8, &[3; 4096]), Err(KernelError::Io));
    assert_eq!(both.does(READ, 16, 8, &[]), Ok(vec![0; 4096]));
    both.end();
}

#[test]
fn clients_are_served_when_the_kernel_has_let_go() {
    let Some(both) = Both::start("gone", ExportConfig::default(), Faults::default()) else { return };
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
    let export = ExportConfig {
        ublk: Some(server::Ublk { number: 0, disk: "d0".into(), background: false }),
        ..ExportConfig::default()
    };
    let error = server::Running::start("d0", disk, export, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("built without ublk") && error.contains("make ublk"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}
