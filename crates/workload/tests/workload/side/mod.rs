//! A drive that serves all requests concurrently.

use freeblock_workload::{Arrival, Issued, Issuer, Source};
use std::collections::BTreeMap;
use units::{Duration, Instant, LbnRange, Op};

/// A drive and the issuer of its requests. A request takes a time that depends on its number only;
/// each request is checked when it is issued.
pub struct Side<S> {
    pub issuer: Issuer<S>,
    pub now: Instant,
    pub at_drive: BTreeMap<(Instant, u64), Issued>,
    pub served: u64,
    pub requests: Vec<(Instant, u32, Op, LbnRange)>,
}

impl<S: Source> Side<S> {
    pub fn new(load: S) -> Self {
        let issuer = Issuer::new(load, Arrival::Scripted, Instant::ZERO, 1).unwrap();
        Self { issuer, now: Instant::ZERO, at_drive: BTreeMap::new(), served: 0, requests: Vec::new() }
    }

    /// Serves until `requests` requests are done or the load has ended, each in 1 to `most_ms` ms.
    pub fn serve(&mut self, requests: u64, most_ms: u64) {
        while self.served < requests {
            let done = self.at_drive.first_key_value().map(|(&key, _)| key);
            match (done, self.issuer.due()) {
                (Some(key), due) if due.is_none_or(|due| key.0 <= due) => {
                    self.now = key.0;
                    let issued = self.at_drive.remove(&key).unwrap();
                    self.issuer.complete(issued.task, self.now);
                    self.served += 1;
                }
                (_, Some(due)) => {
                    self.now = self.now.max(due);
                    while let Some(issued) = self.issuer.issue(self.now) {
                        assert!(issued.at <= self.now);
                        for other in self.at_drive.values() {
                            assert_ne!(other.task, issued.task, "one request a task");
                            assert!(
                                !other.request.range.overlaps(issued.request.range),
                                "one request a page"
                            );
                        }
                        let n = self.requests.len() as u64;
                        let ms = 1 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % most_ms;
                        self.at_drive.insert((self.now + Duration::from_millis(ms), n), issued);
                        let Issued { at, task, request, .. } = issued;
                        self.requests.push((at, task.get(), request.op, request.range));
                    }
                }
                (_, None) => {
                    assert!(self.issuer.is_done(), "nothing comes, and it is not done");
                    return;
                }
            }
        }
    }
}
