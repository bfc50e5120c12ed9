//! A device that is served on a thread of its own.

use crate::exporter::Exporter;
use crate::listen::Listener;
use crate::mailbox::{Mailbox, Stop};
use crate::offer::{Offer, ServeError, Tally};
use device::Device;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};

/// A device under service: clients come in at its listeners, other threads through its mailbox.
#[derive(Debug)]
pub struct Running<D> {
    name: String,
    mailbox: Mailbox<D>,
    others: Arc<Others>,
    thread: JoinHandle<Result<(Tally, D), ServeError>>,
}

/// Who is to end with a server.
#[derive(Debug, Default)]
struct Others(Mutex<Ending>);

#[derive(Debug)]
enum Ending {
    /// When it ends.
    Later(Vec<Stop>),
    /// It has.
    Over,
}

impl Default for Ending {
    fn default() -> Self {
        Self::Later(Vec::new())
    }
}

impl Others {
    fn add(&self, stop: Stop) {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Ending::Later(others) => others.push(stop),
            // It may have ended by itself.
            Ending::Over => drop(stop.stop()),
        }
    }
}

/// On the server's thread: however that ends, a panic included, the others are ended.
struct Last(Arc<Others>);

impl Drop for Last {
    fn drop(&mut self) {
        let mut ending = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ending::Later(others) = std::mem::replace(&mut *ending, Ending::Over) {
            others.iter().for_each(|other| drop(other.stop()));
        }
    }
}

impl<D: Device + Send + 'static> Running<D> {
    /// Begins to serve. A thread and its ring belong to one device. If it is to be a block device, too, that is there when
    /// this comes back.
    ///
    /// # Errors
    /// An export that cannot be offered, a block device that cannot be had, or a system that gives no thread or no ring.
    pub fn start(
        name: impl Into<String>,
        disk: D,
        offer: Offer,
        listeners: Vec<Listener>,
    ) -> Result<Self, ServeError> {
        let name = name.into();
        let (tell, told) = mpsc::sync_channel(1);
        let (show, shown) = mpsc::sync_channel(1);
        let shows = offer.ublk.is_some();
        let others = Arc::new(Others::default());
        let last = Last(Arc::clone(&others));
        let serve = move || {
            let _last = last;
            let mut exporter = match Exporter::new(disk, offer, listeners) {
                Ok((exporter, _)) => exporter,
                Err(error) => {
                    // Nobody waits for the thread's own result then.
                    let _ = tell.send(Err(error));
                    return Err(ServeError::Ended);
                }
            };
            exporter.when_shown(move |result| {
                let _ = show.send(result);
            });
            let _ = tell.send(Ok(exporter.mailbox()));
            exporter.run()
        };
        let thread = Builder::new().name(format!("disk {name}")).spawn(serve).map_err(ServeError::Ring)?;
        let mailbox = told.recv().unwrap_or(Err(ServeError::Ended))?;
        let running = Self { name, mailbox, others, thread };
        if shows {
            match shown.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    // It may have ended by itself.
                    let _ = running.stopper().stop();
                    let _ = running.join();
                    return Err(error.into());
                }
                // It has ended before, and knows why.
                Err(_) => return Err(running.join().err().unwrap_or(ServeError::Ended)),
            }
        }
        Ok(running)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to have something done with the device.
    pub fn mailbox(&self) -> Mailbox<D> {
        self.mailbox.clone()
    }

    /// How to end it.
    pub fn stopper(&self) -> Stop {
        self.mailbox.stopper()
    }

    /// When this ends, for whatever reason, that is stopped; at once if it has ended already.
    pub fn ends_with_it(&self, other: Stop) {
        self.others.add(other);
    }

    /// Waits for its end; what it has done, and the device.
    ///
    /// # Errors
    /// Its ring has failed.
    pub fn join(self) -> Result<(Tally, D), ServeError> {
        self.thread.join().unwrap_or(Err(ServeError::Ended))
    }
}
