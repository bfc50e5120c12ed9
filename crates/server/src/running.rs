//! A device that is served on a thread of its own.

use crate::export::{ExportConfig, ServeError, Tally};
use crate::exporter::Exporter;
use crate::listen::Listener;
use crate::mailbox::{Gone, Mailbox, StopHandle};
use device::Device;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};

/// A device under service: clients reach it at its listeners, other threads through its mailbox.
#[derive(Debug)]
pub struct Running<D> {
    name: String,
    mailbox: Mailbox<D>,
    others: Arc<Others>,
    thread: JoinHandle<Result<(Tally, D), ServeError>>,
}

/// The servers to stop when this one ends.
#[derive(Debug, Default)]
struct Others(Mutex<RunEnd>);

#[derive(Debug)]
enum RunEnd {
    /// The servers to stop when this one ends.
    Later(Vec<StopHandle>),
    /// This server has ended.
    Over,
}

impl Default for RunEnd {
    fn default() -> Self {
        Self::Later(Vec::new())
    }
}

impl Others {
    fn add(&self, stop: StopHandle) {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            RunEnd::Later(others) => others.push(stop),
            // Stopping fails if the other server has ended by itself.
            RunEnd::Over => drop(stop.stop()),
        }
    }
}

/// Stops the other servers when it is dropped, on the server's thread: also if that thread panics.
struct Last(Arc<Others>);

impl Drop for Last {
    fn drop(&mut self) {
        let mut ending = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let RunEnd::Later(others) = std::mem::replace(&mut *ending, RunEnd::Over) {
            others.iter().for_each(|other| drop(other.stop()));
        }
    }
}

impl<D: Device + Send + 'static> Running<D> {
    /// Begins to serve, on a thread and a ring of its own. When this function returns, the export's block devices
    /// exist; from [`open`](Self::open) on, clients connect and the kernel's writes are executed.
    ///
    /// # Errors
    /// The export cannot be offered, the block device cannot be created, or the system gives no thread or no ring.
    pub fn start(
        name: impl Into<String>,
        disk: D,
        export: ExportConfig,
        listeners: Vec<Listener>,
    ) -> Result<Self, ServeError> {
        let name = name.into();
        let (tell, started) = mpsc::sync_channel(1);
        let (show, shown) = mpsc::sync_channel(2);
        let devices = usize::from(export.ublk.is_some()) + usize::from(export.background_ublk.is_some());
        let others = Arc::new(Others::default());
        let last = Last(Arc::clone(&others));
        let serve = move || {
            let _last = last;
            let mut exporter = match Exporter::new(disk, export, listeners) {
                Ok((exporter, _)) => exporter,
                Err(error) => {
                    // The caller gets this error, so the thread's own result is not used.
                    let _ = tell.send(Err(error));
                    return Err(ServeError::Ended);
                }
            };
            exporter.hold();
            exporter.when_shown(move |result| {
                let _ = show.send(result);
            });
            let _ = tell.send(Ok(exporter.mailbox()));
            exporter.run()
        };
        let thread = Builder::new().name(format!("disk {name}")).spawn(serve).map_err(ServeError::Ring)?;
        let mailbox = started.recv().unwrap_or(Err(ServeError::Ended))?;
        let running = Self { name, mailbox, others, thread };
        for _ in 0..devices {
            match shown.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    // Stopping fails if the server has ended by itself.
                    let _ = running.stopper().stop();
                    let _ = running.join();
                    return Err(error.into());
                }
                // The server ended before it showed the block device; its result has the reason.
                Err(_) => return Err(running.join().err().unwrap_or(ServeError::Ended)),
            }
        }
        Ok(running)
    }

    /// Lets clients connect and the kernel write.
    ///
    /// # Errors
    /// The server has ended by itself.
    pub fn open(&self) -> Result<(), Gone> {
        self.mailbox.open()
    }

    /// Returns the name of the export.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a mailbox for calls to the device.
    pub fn mailbox(&self) -> Mailbox<D> {
        self.mailbox.clone()
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> StopHandle {
        self.mailbox.stopper()
    }

    /// Registers `other` to be stopped when this server ends for any reason. Stops `other` at once if this server
    /// has ended already.
    pub fn ends_with_it(&self, other: StopHandle) {
        self.others.add(other);
    }

    /// Waits for the server's end; returns its counts and the device.
    ///
    /// # Errors
    /// The server's ring has failed, or its thread has panicked.
    pub fn join(self) -> Result<(Tally, D), ServeError> {
        self.thread.join().unwrap_or(Err(ServeError::Ended))
    }
}
