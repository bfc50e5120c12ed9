//! One io_uring for files, sockets and time, whose safe interface allows no dangling addresses.
//!
//! The danger of io_uring is that the kernel uses a buffer or a descriptor after its owner has dropped it. So a
//! [`Ring`] owns the objects of an operation from [`start`](Ring::start) until the operation's end, and returns them
//! with the result.

#![allow(unsafe_code, reason = "the kernel is given addresses; each block says why they stay good")]

use crate::aligned::Aligned;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most operations in the kernel's submission queue.
const ENTRIES: u32 = 256;

/// How long before a deadline the wait becomes a busy loop, because timed waits end tens of microseconds late.
const SPIN_TIME: Duration = Duration::from_micros(100);

/// An operation for the kernel, with all objects that the kernel uses for it.
#[derive(Debug)]
pub enum Work {
    /// Accepts a client.
    Accept(Arc<OwnedFd>),
    /// Receives the bytes that are available, at most the buffer's length.
    Receive(Arc<OwnedFd>, Vec<u8>),
    /// Sends the buffer from this byte on, wholly or in part.
    Send(Arc<OwnedFd>, Vec<u8>, usize),
    /// Reads into this part of the buffer from this offset of the file; fewer bytes mean the end of the file.
    ReadAt(Arc<OwnedFd>, Aligned, Range<usize>, u64),
    /// Writes this part of the buffer at this offset; with `true`, through to the medium.
    WriteAt(Arc<OwnedFd>, Aligned, Range<usize>, u64, bool),
    /// Changes this number of bytes from this offset on, without sending any.
    Make(Arc<OwnedFd>, Make, u64, u64),
    /// Puts all completed writes on the medium.
    Sync(Arc<OwnedFd>),
    /// Waits until a descriptor is readable.
    Readable(Arc<OwnedFd>),
    /// Waits until the other end of a socket has closed it, wholly or only for sending. The result is the set of
    /// `poll` events, which [`is_closed`] interprets.
    HangUp(Arc<OwnedFd>),
    /// Waits until the other end of a socket has closed it wholly. The descriptor is one of [`watch_close`].
    Close(Arc<OwnedFd>),
}

/// Returns a descriptor of this socket for [`Work::Close`]. A poll of the socket itself would end at once if the other
/// end has closed the socket for sending.
///
/// # Errors
/// No descriptor is free.
pub fn watch_close(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    // Even with no events asked for, epoll reports errors and the end of both directions.
    epoll::add(&epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::empty())?;
    Ok(epoll)
}

/// Returns whether the result of [`Work::HangUp`] means that the other end receives nothing any more.
pub fn is_closed(result: &io::Result<usize>) -> bool {
    result.as_ref().is_ok_and(|events| events & (libc::POLLHUP | libc::POLLERR) as usize != 0)
}

/// A change of bytes for which none are sent. A file's length stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// A hole, which reads as zeroes. A block device must be able to release the space and guarantee zeroes.
    Hole,
    /// Zeroes in allocated space. If a block device has no command for that, the kernel sends the zeroes.
    Zeroes,
    /// Undefined content, so that the block device may discard the bytes. For block devices only, on Linux 6.12 and
    /// later.
    Anything,
}

/// The identity of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    place: u32,
    /// The number of earlier uses of the slot, so that no two operations have the same token.
    uses: u32,
}

impl Token {
    /// Returns the token of operations that are executed without a ring.
    pub(crate) fn none() -> Self {
        Self { place: u32::MAX, uses: u32::MAX }
    }

    fn to_kernel(self) -> u64 {
        u64::from(self.uses) << 32 | u64::from(self.place)
    }
}

#[derive(Debug, Default)]
struct Slot {
    uses: u32,
    /// The objects of the operation, in a box, so that their address does not change when the slots grow.
    work: Option<Box<Work>>,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The operation.
    pub token: Token,
    /// The operation's objects.
    pub work: Work,
    /// The number of bytes transferred, or the error; 0 for an accept.
    pub result: io::Result<usize>,
    /// The client, for an accept.
    pub client: Option<OwnedFd>,
}

/// The ring. It must stay on one thread.
///
/// ```
/// use device::{Ring, Work};
/// use std::os::fd::OwnedFd;
/// use std::os::unix::net::UnixStream;
/// use std::sync::Arc;
/// let Ok(mut ring) = Ring::new() else { return }; // a kernel without io_uring
/// let (ours, theirs) = UnixStream::pair().unwrap();
/// let (ours, theirs) = (Arc::new(OwnedFd::from(ours)), Arc::new(OwnedFd::from(theirs)));
/// ring.start(Work::Receive(theirs, vec![0; 16])).unwrap();
/// ring.start(Work::Send(ours, b"hello".to_vec(), 0)).unwrap();
/// let (mut received, mut ended) = (0, 0);
/// while ended < 2 {
///     ring.wait(None).unwrap();
///     while let Some(end) = ring.next_ended() {
///         ended += 1;
///         if let (Work::Receive(_, bytes), Ok(n)) = (end.work, end.result) {
///             assert_eq!(&bytes[..n], b"hello");
///             received += 1;
///         }
///     }
/// }
/// assert_eq!(received, 1);
/// ```
pub struct Ring {
    ring: IoUring,
    /// The operations by token. A slot is emptied only by the completion of its operation.
    slots: Vec<Slot>,
    free: Vec<u32>,
    ended: VecDeque<Ended>,
    /// Entries for which the kernel's submission queue has no room.
    waiting: VecDeque<squeue::Entry>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// The user data of cancellations, whose own completions are ignored.
const CANCEL_USER_DATA: u64 = u64::MAX;

impl Ring {
    /// Creates a ring.
    ///
    /// # Errors
    /// The kernel has no io_uring, or does not let this process use it.
    pub fn new() -> io::Result<Self> {
        let quick = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES);
        // Kernels before 6.1 do not support these flags.
        let ring = quick.or_else(|_| IoUring::new(ENTRIES))?;
        Ok(Self {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            ended: VecDeque::new(),
            waiting: VecDeque::new(),
        })
    }

    /// Returns the number of operations in flight.
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins an operation. The kernel gets it at the next [`wait`](Self::wait) at the latest.
    ///
    /// # Errors
    /// The operation is longer than the kernel's fields allow (4 GiB).
    pub fn start(&mut self, work: Work) -> io::Result<Token> {
        let mut work = Box::new(work);
        let entry = entry(&mut work)?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[place as usize];
        slot.work = Some(work);
        let token = Token { place, uses: slot.uses };
        self.waiting.push_back(entry.user_data(token.to_kernel()));
        self.hand_over()?;
        Ok(token)
    }

    /// Asks the kernel to end an operation early. The operation still completes, perhaps with an error.
    ///
    /// # Errors
    /// The kernel accepts no more entries.
    pub fn cancel(&mut self, token: Token) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(token.to_kernel()).build().user_data(CANCEL_USER_DATA);
        self.waiting.push_back(cancel);
        self.hand_over()
    }

    /// Moves waiting entries into the kernel's submission queue while it has room.
    fn hand_over(&mut self) -> io::Result<()> {
        while let Some(entry) = self.waiting.front() {
            // SAFETY: the entry's addresses point into a `Box<Work>` in `slots`. The box stays there until the kernel
            // has posted this entry's completion, because only `reap` takes from `slots`; on drop, until all
            // operations have ended, or for ever.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_err() {
                return self.ring.submit().map(|_| ());
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Waits until an operation has ended or the deadline is reached; without a deadline, until an operation has
    /// ended. Shortly before a deadline the wait is a busy loop.
    ///
    /// # Errors
    /// The kernel's errors, except interruption by a signal.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        loop {
            self.hand_over()?;
            self.reap();
            if !self.ended.is_empty() {
                return Ok(());
            }
            let entered = match until {
                None => self.ring.submit_and_wait(1),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return self.poll();
                    }
                    let sleep = Timespec::from(left.saturating_sub(SPIN_TIME));
                    let spin = Timespec::from(Duration::ZERO);
                    let wait = if left > SPIN_TIME { &sleep } else { &spin };
                    self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(wait))
                }
            };
            match entered.map_err(|error| (error.raw_os_error(), error)) {
                Ok(_) | Err((Some(libc::ETIME | libc::EINTR), _)) => {}
                // The completion queue is full, and is emptied in the next round.
                Err((Some(libc::EBUSY), _)) => {}
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// Submits the entries, and takes the completions that exist. The kernel delivers these only in a call that may
    /// wait, so the call has a time-out of zero.
    fn poll(&mut self) -> io::Result<()> {
        let none = Timespec::new();
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&none)) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {
                Err(error)
            }
            _ => {
                self.reap();
                Ok(())
            }
        }
    }

    /// Returns the next operation that has ended.
    pub fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn reap(&mut self) {
        self.ring.completion().sync();
        while let Some(done) = self.ring.completion().next() {
            let (place, uses) = (done.user_data() as u32, (done.user_data() >> 32) as u32);
            let slot = self.slots.get_mut(place as usize).filter(|slot| slot.uses == uses);
            let Some((slot, work)) = slot.and_then(|slot| slot.work.take().map(|work| (slot, work))) else {
                continue;
            };
            slot.uses = slot.uses.wrapping_add(1);
            self.free.push(place);
            let result = match done.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                bytes => Ok(bytes as usize),
            };
            let accepted = matches!(*work, Work::Accept(_));
            // SAFETY: a successful accept returns a new descriptor, which has no other owner.
            let client = result
                .as_ref()
                .ok()
                .filter(|_| accepted)
                .map(|&fd| unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
            let result = if accepted { result.map(|_| 0) } else { result };
            self.ended.push_back(Ended { token: Token { place, uses }, work: *work, result, client });
        }
    }
}

/// Ends all operations before their memory is freed. Leaks the memory of operations that the kernel does not end.
impl Drop for Ring {
    fn drop(&mut self) {
        self.waiting.clear();
        for place in 0..self.slots.len() as u32 {
            let slot = &self.slots[place as usize];
            let token = Token { place, uses: slot.uses };
            if slot.work.is_some() && self.cancel(token).is_err() {
                break;
            }
        }
        for _ in 0..64 {
            let timed = self.wait(Some(Instant::now() + Duration::from_millis(50)));
            self.ended.clear();
            if self.under_way() == 0 {
                return;
            }
            if timed.is_err() {
                break;
            }
        }
        self.slots.drain(..).for_each(std::mem::forget);
    }
}

/// Returns the kernel's entry for an operation, with addresses inside `work`.
fn entry(work: &mut Work) -> io::Result<squeue::Entry> {
    let length = |bytes: usize| {
        u32::try_from(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "more than 4 GiB at once"))
    };
    let fd = |fd: &Arc<OwnedFd>| Fd(fd.as_raw_fd());
    Ok(match work {
        Work::Accept(socket) => {
            let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
            opcode::Accept::new(fd(socket), address, length).flags(libc::SOCK_CLOEXEC).build()
        }
        Work::Receive(socket, buffer) => {
            opcode::Recv::new(fd(socket), buffer.as_mut_ptr(), length(buffer.len())?).build()
        }
        Work::Send(socket, buffer, from) => {
            let rest = buffer.get(*from..).unwrap_or_default();
            opcode::Send::new(fd(socket), rest.as_ptr(), length(rest.len())?)
                .flags(libc::MSG_NOSIGNAL)
                .build()
        }
        Work::ReadAt(file, buffer, part, offset) => {
            let part = buffer.get_mut(part.clone()).unwrap_or_default();
            opcode::Read::new(fd(file), part.as_mut_ptr(), length(part.len())?).offset(*offset).build()
        }
        Work::WriteAt(file, buffer, part, offset, through) => {
            let part = buffer.get(part.clone()).unwrap_or_default();
            let flags = if *through { libc::RWF_DSYNC } else { 0 };
            opcode::Write::new(fd(file), part.as_ptr(), length(part.len())?)
                .offset(*offset)
                .rw_flags(flags)
                .build()
        }
        Work::Make(file, Make::Anything, offset, bytes) => discard(fd(file), *offset, *bytes),
        Work::Make(file, make, offset, bytes) => {
            let mode =
                if *make == Make::Hole { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
            let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(fd(file), *bytes).offset(*offset).mode(mode).build()
        }
        Work::Sync(file) => opcode::Fsync::new(fd(file)).flags(io_uring::types::FsyncFlags::DATASYNC).build(),
        Work::Readable(file) => opcode::PollAdd::new(fd(file), libc::POLLIN as u32).build(),
        Work::Close(epoll) => opcode::PollAdd::new(fd(epoll), libc::POLLIN as u32).build(),
        Work::HangUp(socket) => opcode::PollAdd::new(fd(socket), libc::POLLRDHUP as u32).build(),
    })
}

/// The kernel's `BLOCK_URING_CMD_DISCARD`, from `linux/blkdev.h`: `_IO(0x12, 0)`.
const DISCARD: u32 = 0x1200;

/// Returns a discard command. The length is in the place of [`opcode::UringCmd16`]'s data, and the offset in a field
/// that the crate does not name for commands.
fn discard(file: Fd, offset: u64, bytes: u64) -> squeue::Entry {
    /// The offset of `addr` in the kernel's `struct io_uring_sqe`.
    const ADDR_OFFSET_BYTES: usize = 16;
    const { assert!(size_of::<squeue::Entry>() == 64, "the kernel's entry and nothing else") };
    let mut data = [0; 16];
    data[..8].copy_from_slice(&bytes.to_ne_bytes());
    let mut entry = opcode::UringCmd16::new(file, DISCARD).cmd(data).build();
    // SAFETY: an entry is the kernel's 64 bytes (`repr(C)`, asserted above), of which these eight are a plain integer.
    // Every value of it is valid, and the kernel takes it for an offset on the device, not for an address.
    unsafe { (&raw mut entry).cast::<u8>().add(ADDR_OFFSET_BYTES).cast::<u64>().write_unaligned(offset) };
    entry
}
