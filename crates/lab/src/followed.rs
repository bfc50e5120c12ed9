//! A load of which some requests go on where the last one ended.

use units::{LbnRange, Op, Sectors};
use workload::random::{Share, Stream};
use workload::{Request, Source};

/// What another source asks for, and reads that go on where the last request ended: what a drive's buffer has to offer something.
#[derive(Clone, Debug)]
pub struct Followed<S> {
    source: S,
    share: Share,
    capacity: Sectors,
    stream: Stream,
    last: Option<LbnRange>,
}

impl<S: Source> Followed<S> {
    /// So many of the requests are reads behind the one before, on a drive of so many sectors. Of none of them the source is as
    /// it is.
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
