//! A load in which some requests continue where the last one ended.

use units::{LbnRange, Op, Sectors};
use workload::random::{Share, Stream};
use workload::{Request, Source};

/// The requests of another source, mixed with reads that continue where the last request ended, so that a drive's
/// read-ahead has hits.
#[derive(Clone, Debug)]
pub struct Followed<S> {
    source: S,
    share: Share,
    capacity: Sectors,
    stream: Stream,
    last: Option<LbnRange>,
}

impl<S: Source> Followed<S> {
    /// Replaces this share of the requests with reads that begin where the preceding request ends, on a drive of this
    /// capacity. With a share of zero the source is unchanged.
    pub fn new(source: S, share: Share, capacity: Sectors, seed: u64) -> Self {
        Self { source, share, capacity, stream: Stream::new(seed, "lab.followed"), last: None }
    }
}

impl<S: Source> Source for Followed<S> {
    fn next_request(&mut self) -> Option<Request> {
        let mut request = self.source.next_request()?;
        let follows = self.stream.chance(self.share);
        if follows && let Some(last) = self.last {
            let behind = LbnRange::new(last.end(), request.range.len());
            if behind.checked_end().is_some_and(|end| end.get() <= self.capacity.get()) {
                (request.op, request.range) = (Op::Read, behind);
            }
        }
        self.last = Some(request.range);
        Some(request)
    }
}
