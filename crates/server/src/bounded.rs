//! Waits of an ending daemon for files that may hang.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most time at the end of the daemon for file operations: one that hangs must not keep the daemon from ending, and a
/// task goes on without the blocks that were on their way. Nothing was acknowledged that is not durable.
pub const FILES_END_WAIT: Duration = Duration::from_secs(10);

/// Waits for the end of a thread until then; `None` if it goes on.
pub fn join_until<T>(thread: JoinHandle<T>, until: Instant) -> Option<thread::Result<T>> {
    while !thread.is_finished() {
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Some(thread.join())
}

/// Returns whether a call ends although the files that it waits for hang.
#[cfg(test)]
pub(crate) fn ends(call: impl FnOnce() + Send + 'static) -> bool {
    let (tell, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        call();
        let _ = tell.send(());
    });
    // Only a call that waits for ever takes this long.
    ended.recv_timeout(Duration::from_secs(60)).is_ok()
}
