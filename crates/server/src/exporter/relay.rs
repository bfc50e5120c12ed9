//! A block device whose requests another thread relays. libublk has one ring for each thread, so the second device of
//! a disk has a thread of its own, which only passes on requests and results.

use super::{Exporter, Kernel, ShownCallback};
use crate::export::ServeError;
use crate::waker::Waker;
use device::{Device, KernelError, KernelQueue, KernelRequest, Ring, Ublk, Work};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, Builder};
use tracing::error;

type KernelResult = Result<Vec<u8>, KernelError>;

/// The end of the relay on the server's thread, used as the queue of the device.
#[derive(Debug)]
struct RelayedQueue {
    readable: Arc<OwnedFd>,
    requests: Receiver<KernelRequest>,
    results: Sender<(u16, KernelResult)>,
    waker: Waker,
    has_results: bool,
}

impl KernelQueue for RelayedQueue {
    fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.readable)
    }

    fn exchange(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.has_results) {
            // Waking fails only if the other end is gone.
            let _ = self.waker.wake();
        }
        self.waker.clear()
    }

    fn next(&mut self) -> Option<KernelRequest> {
        self.requests.try_recv().ok()
    }

    fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>) {
        // Sending fails only if the device is gone, and then no result is awaited.
        self.has_results |= self.results.send((tag, result.map(<[u8]>::to_vec))).is_ok();
    }
}

/// The end of the relay on the thread of the device's queue.
#[derive(Debug)]
struct Relay {
    requests: Sender<KernelRequest>,
    results: Receiver<(u16, KernelResult)>,
    waker: Waker,
}

impl Relay {
    /// Passes on requests and results until the queue has ended or the server is gone.
    fn run(self, queue: &mut dyn KernelQueue) -> io::Result<()> {
        let mut ring = Ring::new()?;
        let (woken, kernel_wait) = (self.waker.descriptor()?, queue.descriptor());
        let (mut waker, mut requests) = (None, None);
        loop {
            loop {
                match self.results.try_recv() {
                    Ok((tag, result)) => queue.answer(tag, result.as_deref().map_err(|error| *error)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            if !queue.exchange()? {
                return Ok(());
            }
            let mut any = false;
            while let Some(request) = queue.next() {
                any = true;
                if self.requests.send(request).is_err() {
                    return Ok(());
                }
            }
            if any {
                // Waking fails if the server is gone, which the next iteration notices.
                let _ = self.waker.wake();
            }
            for (waiting, descriptor) in [(&mut waker, &woken), (&mut requests, &kernel_wait)] {
                if waiting.is_none() {
                    *waiting = Some(ring.start(Work::Readable(Arc::clone(descriptor)))?);
                }
            }
            ring.wait(None)?;
            while let Some(ended) = ring.next_ended() {
                for waiting in [&mut waker, &mut requests] {
                    waiting.take_if(|token| *token == ended.token);
                }
            }
            if waker.is_none() {
                self.waker.clear()?;
            }
        }
    }
}

/// Returns the two ends of a relay.
fn relay() -> io::Result<(RelayedQueue, Relay)> {
    let (one, other) = Waker::pair()?;
    let ((send_request, requests), (send_result, results)) = (mpsc::channel(), mpsc::channel());
    let near = RelayedQueue {
        readable: one.descriptor()?,
        requests,
        results: send_result,
        waker: one,
        has_results: false,
    };
    Ok((near, Relay { requests: send_request, results, waker: other }))
}

impl<D: Device> Exporter<D> {
    /// Serves with a foreground device on this thread, and a background device on a thread of its own.
    pub(super) fn serve_with_relay(
        &mut self,
        foreground: Option<(&mut dyn KernelQueue, &dyn Fn())>,
        background: Option<Ublk>,
        shown: ShownCallback,
    ) -> Result<(), ServeError> {
        let Some(node) = background else {
            let foreground = foreground.map(|(queue, stop)| Kernel::foreground(queue, stop));
            return self.serve(foreground.into_iter().collect()).map_err(ServeError::Ring);
        };
        let is_shown = Arc::new(AtomicBool::new(false));
        let served = thread::scope(|scope| {
            let (mut near, far) = relay().map_err(ServeError::Ring)?;
            let (flag, device, failed) = (Arc::clone(&is_shown), &node, Arc::clone(&shown));
            let pass_on = move || {
                let served = device.serve(|queue| {
                    device.start(move |result| {
                        flag.store(result.is_ok(), Ordering::Release);
                        shown(result);
                    });
                    far.run(queue)
                });
                match served {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        error!(%error, "the block device for background work is served no longer")
                    }
                    Err(error) => failed(Err(error)),
                }
            };
            let name = "background device".to_owned();
            Builder::new().name(name).spawn_scoped(scope, pass_on).map_err(ServeError::Ring)?;
            let stop = || device.stop();
            let foreground = foreground.map(|(queue, stop)| Kernel::foreground(queue, stop));
            let background = Kernel::background(&mut near, &stop, &is_shown);
            // Dropping `near` ends the other thread, if it still runs.
            self.serve(foreground.into_iter().chain([background]).collect()).map_err(ServeError::Ring)
        });
        served.and(node.close().map_err(ServeError::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A queue that gets its requests from a channel and passes the answers to another; it ends when the sender of
    /// requests is dropped.
    #[derive(Debug)]
    struct TestQueue {
        requests: Receiver<KernelRequest>,
        come: VecDeque<KernelRequest>,
        answers: Sender<(u16, KernelResult)>,
        waker: Waker,
    }

    impl KernelQueue for TestQueue {
        fn descriptor(&self) -> Arc<OwnedFd> {
            self.waker.descriptor().unwrap()
        }

        fn exchange(&mut self) -> io::Result<bool> {
            self.waker.clear().unwrap();
            loop {
                match self.requests.try_recv() {
                    Ok(request) => self.come.push_back(request),
                    Err(TryRecvError::Empty) => return Ok(true),
                    Err(TryRecvError::Disconnected) => return Ok(!self.come.is_empty()),
                }
            }
        }

        fn next(&mut self) -> Option<KernelRequest> {
            self.come.pop_front()
        }

        fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>) {
            self.answers.send((tag, result.map(<[u8]>::to_vec))).unwrap();
        }
    }

    /// Waits for the next request at the server's end.
    fn wait(near: &mut RelayedQueue, ring: &mut Ring) -> Option<KernelRequest> {
        loop {
            let live = near.exchange().unwrap();
            if let Some(request) = near.next() {
                return Some(request);
            }
            if !live {
                return None;
            }
            ring.start(Work::Readable(near.descriptor())).unwrap();
            ring.wait(None).unwrap();
            while ring.next_ended().is_some() {}
        }
    }

    #[test]
    fn requests_and_results_pass_between_the_threads_and_the_end_of_either_ends_the_other() {
        let Ok(mut ring) = Ring::new() else { return testing::missing("io_uring") };
        for queue_ends in [true, false] {
            let (mut near, far) = relay().unwrap();
            let (kernel, waker) = Waker::pair().unwrap();
            let ((ask, requests), (answers, answered)) = (mpsc::channel(), mpsc::channel());
            let thread = thread::spawn(move || {
                let mut queue = TestQueue { requests, come: VecDeque::new(), answers, waker };
                far.run(&mut queue)
            });
            for tag in 0..200 {
                ask.send(KernelRequest::decode(tag, 0, u64::from(tag) * 8, 8)).unwrap();
                kernel.wake().unwrap();
                let request = wait(&mut near, &mut ring).unwrap();
                assert_eq!((request.tag, request.first), (tag, u64::from(tag) * 8));
                let result = if tag % 2 == 0 { Ok(vec![tag as u8; 4096]) } else { Err(KernelError::Medium) };
                near.answer(tag, result.as_deref().map_err(|error| *error));
                assert!(near.exchange().unwrap());
                assert_eq!(answered.recv().unwrap(), (tag, result));
            }
            if queue_ends {
                drop(ask);
                kernel.wake().unwrap();
                assert_eq!(wait(&mut near, &mut ring), None);
            } else {
                drop(near);
            }
            thread.join().unwrap().unwrap();
        }
    }
}
