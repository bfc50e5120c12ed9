//! Calls from other threads to a disk's thread.

use crate::export::ExportUpdate;
use crate::waker::Waker;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};
use thiserror::Error;
use units::Instant;

/// The most calls of [`Mailbox::send`] in the queue, and also the most of [`Mailbox::offer`]. The two are counted
/// apart, so that replies of a disk's workers never cause a user's call to be refused.
const CALLS_MAX: usize = 256;

pub(crate) type DeviceCall<D> = Box<dyn FnOnce(&mut D, Instant) + Send>;

/// The server has ended; no further call is made on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the disk's server has ended")]
pub struct Gone;

/// The reason why a call was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotQueued {
    /// The server has ended.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The queue is full.
    #[error("{CALLS_MAX} calls wait for the disk, which does not answer")]
    Full,
}

/// A call in the queue.
struct Queued<D> {
    call: DeviceCall<D>,
    is_offered: bool,
}

/// A sender of calls to the thread that serves a device. The calls run there between two events, with the device and
/// the time.
///
/// Foreground requests take no lock for the mailbox, because the thread looks into it only when woken. A call must
/// not use the mailbox of its own thread: it would wait for itself.
pub struct Mailbox<D> {
    calls: Sender<Queued<D>>,
    /// A bounded channel with one entry for each call of [`send`](Self::send) in the queue.
    sent: SyncSender<()>,
    offered: SyncSender<()>,
    waker: Arc<ServerWaker>,
}

impl<D> Clone for Mailbox<D> {
    fn clone(&self) -> Self {
        let Self { calls, sent, offered, waker } = self;
        let (calls, sent, offered) = (calls.clone(), sent.clone(), offered.clone());
        Self { calls, sent, offered, waker: Arc::clone(waker) }
    }
}

impl<D> fmt::Debug for Mailbox<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl<D> Mailbox<D> {
    /// Queues `call` without waiting for its execution. Waits for room in the queue.
    ///
    /// # Errors
    /// The server has ended.
    pub fn send(&self, call: impl FnOnce(&mut D, Instant) + Send + 'static) -> Result<(), Gone> {
        self.sent.send(()).map_err(|_| Gone)?;
        self.queue(Queued { call: Box::new(call), is_offered: false })
    }

    fn queue(&self, queued: Queued<D>) -> Result<(), Gone> {
        self.calls.send(queued).map_err(|_| Gone)?;
        self.waker.waker.wake().map_err(|_| Gone)
    }

    /// Queues `call` if there is room.
    ///
    /// # Errors
    /// The server has ended, or it has not answered for so long that the queue is full.
    pub fn offer(&self, call: impl FnOnce(&mut D, Instant) + Send + 'static) -> Result<(), NotQueued> {
        self.offered.try_send(()).map_err(|error| match error {
            TrySendError::Full(()) => NotQueued::Full,
            TrySendError::Disconnected(()) => Gone.into(),
        })?;
        Ok(self.queue(Queued { call: Box::new(call), is_offered: true })?)
    }

    /// Queues `call` and waits for its answer.
    ///
    /// # Errors
    /// The server has ended before the call was done.
    pub fn ask<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut D, Instant) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(move |disk, now| {
            // Sending fails if the asking thread is gone.
            let _ = answer.send(call(disk, now));
        })?;
        answered.recv().map_err(|_| Gone)
    }

    /// Changes the configuration of the export from here on.
    ///
    /// # Errors
    /// The server has ended.
    pub fn update(&self, update: ExportUpdate) -> Result<(), Gone> {
        *self.waker.update.lock().unwrap_or_else(PoisonError::into_inner) = Some(update);
        self.waker.waker.wake().map_err(|_| Gone)
    }

    /// Lets clients connect and the kernel write from here on, if the server holds them.
    ///
    /// # Errors
    /// The server has ended.
    pub fn open(&self) -> Result<(), Gone> {
        self.waker.open.store(true, Ordering::Release);
        self.waker.waker.wake().map_err(|_| Gone)
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> StopHandle {
        StopHandle(Arc::clone(&self.waker))
    }
}

/// A handle that stops a server, also from a signal handler. Requests received before are still answered.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<ServerWaker>);

impl StopHandle {
    /// Stops the server now.
    ///
    /// # Errors
    /// The server has ended already.
    pub fn stop(&self) -> io::Result<()> {
        self.0.stopping.store(true, Ordering::Release);
        self.0.waker.wake()
    }
}

/// The shared state of mailboxes, with the socket that wakes the server's thread.
#[derive(Debug)]
struct ServerWaker {
    stopping: AtomicBool,
    open: AtomicBool,
    update: Mutex<Option<ExportUpdate>>,
    waker: Waker,
}

/// Requests to a server; each stays true once it was made.
pub(crate) struct Wakes {
    pub stop: bool,
    pub open: bool,
}

/// The server's end of the mailbox.
pub(crate) struct Inbox<D> {
    calls: Receiver<Queued<D>>,
    sent: Receiver<()>,
    offered: Receiver<()>,
    /// The sender from which further mailboxes are made.
    mailbox: Mailbox<D>,
    socket: Arc<OwnedFd>,
    woken: Waker,
}

impl<D> Inbox<D> {
    pub fn new() -> io::Result<Self> {
        let (woken, waker) = Waker::pair()?;
        let (calls_to, calls) = mpsc::channel();
        let (sent_to, sent) = mpsc::sync_channel(CALLS_MAX);
        let (offered_to, offered) = mpsc::sync_channel(CALLS_MAX);
        let (stopping, open) = (AtomicBool::new(false), AtomicBool::new(false));
        let waker = Arc::new(ServerWaker { stopping, open, update: Mutex::new(None), waker });
        let mailbox = Mailbox { calls: calls_to, sent: sent_to, offered: offered_to, waker };
        Ok(Self { calls, sent, offered, mailbox, socket: woken.descriptor()?, woken })
    }

    pub fn mailbox(&self) -> Mailbox<D> {
        self.mailbox.clone()
    }

    /// Returns the descriptor that becomes readable when a mailbox wakes the server.
    pub fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Returns what the server was asked to do. Call [`next`](Self::next) afterwards, for the waiting calls.
    pub fn take_wakes(&mut self) -> io::Result<Wakes> {
        self.woken.clear()?;
        let waker = &self.mailbox.waker;
        Ok(Wakes { stop: waker.stopping.load(Ordering::Acquire), open: waker.open.load(Ordering::Acquire) })
    }

    /// Returns the last new configuration, if there was one since the last call.
    pub fn update(&mut self) -> Option<ExportUpdate> {
        self.mailbox.waker.update.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn next(&mut self) -> Option<DeviceCall<D>> {
        let Queued { call, is_offered } = self.calls.try_recv().ok()?;
        // The call has left the queue, so its entry leaves the bounded channel, too.
        let _ = if is_offered { self.offered.try_recv() } else { self.sent.try_recv() };
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under one bound for all calls, workers' replies, which wait for room, filled the queue, and a client's call
    /// was refused.
    #[test]
    fn the_replies_of_workers_take_no_place_from_a_call_that_is_offered() {
        let mut inbox = Inbox::<()>::new().unwrap();
        let mailbox = inbox.mailbox();
        for _ in 0..CALLS_MAX {
            mailbox.send(|(), _| {}).unwrap();
        }
        for _ in 0..CALLS_MAX {
            mailbox.offer(|(), _| {}).unwrap();
        }
        assert_eq!(mailbox.offer(|(), _| {}), Err(NotQueued::Full));
        // The first calls are workers'.
        for _ in 0..CALLS_MAX {
            drop(inbox.next().unwrap());
            mailbox.send(|(), _| {}).unwrap();
            assert_eq!(mailbox.offer(|(), _| {}), Err(NotQueued::Full));
        }
        drop(inbox.next().unwrap());
        mailbox.offer(|(), _| {}).unwrap();
        drop(inbox);
        assert_eq!(mailbox.offer(|(), _| {}), Err(Gone.into()));
        assert_eq!(mailbox.send(|(), _| {}), Err(Gone));
    }
}
