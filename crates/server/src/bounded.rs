//! Bounded waits for file operations when the daemon ends: a file may never answer.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most time that the ending daemon waits for file operations, because a file that never answers
/// must not keep the daemon from ending. A block whose operation was given up is not acknowledged, and
/// its task reads it again later.
pub const FILES_END_WAIT: Duration = Duration::from_secs(10);

/// Waits for the end of a thread until the time `until`; returns `None` if the thread still runs then.
pub fn join_until<T>(thread: JoinHandle<T>, until: Instant) -> Option<thread::Result<T>> {
    while !thread.is_finished() {
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Some(thread.join())
}

/// Returns whether a call ends within a minute, although the files that the call waits for never answer.
#[cfg(test)]
pub(crate) fn ends(call: impl FnOnce() + Send + 'static) -> bool {
    let (tell, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        call();
        let _ = tell.send(());
    });
    // A call that has not ended after a minute counts as waiting for ever.
    ended.recv_timeout(Duration::from_secs(60)).is_ok()
}
