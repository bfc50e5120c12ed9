//! The end of the daemon in a bounded time, even if a disk, a client or a file does not answer.

use crate::interrupt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use tracing::{error, warn};

/// The time after `drain_s` in which the daemon tries to end in order. With the default of `drain_s` it ends before the service
/// manager kills it (`TimeoutStopSec` of the unit).
const END_WAIT: Duration = Duration::from_secs(40);

/// The disks of a daemon that have not ended. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The words for what each disk's end waits for, by disk.
    waits: BTreeMap<String, &'static str>,
    drain: Duration,
    begun: bool,
}

impl Ending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time for the last answers to clients when the daemon ends (`drain_s`).
    pub(super) fn set_drain(&self, drain: units::Duration) {
        self.state().drain = Duration::from_nanos(drain.as_nanos());
    }

    /// Records in words what the end of a disk waits for from here on.
    pub(super) fn waits_for(&self, disk: &str, what: &'static str) {
        self.state().waits.insert(disk.to_owned(), what);
    }

    /// Records that the daemon has finished with a disk: the disk's server has ended, and its state files need no more waiting.
    pub(super) fn has_ended(&self, disk: &str) {
        self.state().waits.remove(disk);
    }

    /// Begins the end of the daemon, and starts its time limit; later calls change nothing. If the daemon has not ended by the
    /// limit, the log says what does not answer, and the process ends as if it was killed: all that was acknowledged is
    /// durable. A program that calls the command as a library is not ended.
    pub(super) fn begin(&self) {
        if interrupt::is_left_to_caller() {
            return;
        }
        self.begin_with(END_WAIT, |left| {
            for (disk, what) in &left {
                error!(disk, "the daemon ends without {what}, which did not answer in time");
            }
            if left.is_empty() {
                error!("the daemon ends without its control socket or page, which did not answer in time");
            }
            std::process::exit(1);
        });
    }

    fn begin_with(&self, wait: Duration, late: impl FnOnce(BTreeMap<String, &'static str>) + Send + 'static) {
        let mut state = self.state();
        if std::mem::replace(&mut state.begun, true) {
            return;
        }
        let (this, wait) = (self.clone(), state.drain.saturating_add(wait));
        let watch = move || {
            std::thread::sleep(wait);
            late(std::mem::take(&mut this.state().waits));
        };
        if let Err(error) = Builder::new().name("ending".into()).spawn(watch) {
            warn!(%error, "no thread to watch the end: the daemon may wait for files that do not answer");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn late_parts_of_an_ending_are_named_once() {
        let ending = Ending::default();
        ending.set_drain(units::Duration::from_millis(1));
        ending.waits_for("d0", "its clients");
        ending.waits_for("d1", "its clients");
        ending.waits_for("d1", "the files of its tasks");
        ending.has_ended("d0");
        let (sender, left) = channel();
        for _ in 0..2 {
            let sender = sender.clone();
            ending.clone().begin_with(Duration::ZERO, move |left| sender.send(left).unwrap());
        }
        drop(sender);
        let left: Vec<_> = left.iter().collect();
        assert_eq!(left, [BTreeMap::from([("d1".to_owned(), "the files of its tasks")])]);
    }
}
