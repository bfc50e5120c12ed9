//! SIGHUP, by which a service manager asks for the configuration to be read again.

use nix::sys::signal::{SigSet, Signal};
use std::io;

/// The blocked signal, which waits until [`each`](Self::each) takes it.
pub(super) struct Hangups(SigSet);

impl Hangups {
    /// Blocks SIGHUP and SIGXFSZ. Threads inherit the mask, so call this before the first thread is started.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn hold() -> io::Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGHUP);
        set.thread_block()?;
        // With SIGXFSZ blocked, a write beyond the limit of a file's size fails, and does not end the daemon.
        let mut limits = SigSet::empty();
        limits.add(Signal::SIGXFSZ);
        limits.thread_block()?;
        Ok(Self(set))
    }

    /// Calls `hung_up` for each SIGHUP from here on, including earlier ones, on a thread of its own that ends with the process.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn each(self, mut hung_up: impl FnMut() + Send + 'static) -> io::Result<()> {
        let wait = move || {
            while self.0.wait().is_ok() {
                hung_up();
            }
        };
        std::thread::Builder::new().name("reload".into()).spawn(wait).map(drop)
    }
}
