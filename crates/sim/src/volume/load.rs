//! A load in addition to submitted requests.

use super::{Content, Volume, VolumeError};
use units::Instant;
use workload::random::Stream;
use workload::{Issuer, Source};

pub(super) struct Load {
    pub number: u64,
    pub issuer: Issuer<Box<dyn Source>>,
    content: Content,
}

impl Load {
    /// Returns the arrival of the load's next request.
    pub fn due(&self) -> Option<Instant> {
        self.issuer.due()
    }
}

impl Volume {
    /// Starts a load in addition to submitted requests. The load replaces an earlier one, whose requests under way
    /// are still finished.
    pub fn load(&mut self, issuer: Issuer<Box<dyn Source>>, content: Content) {
        self.loads += 1;
        self.load = Some(Load { number: self.loads, issuer, content });
    }

    /// Ends the load: no more requests are issued.
    pub fn end_load(&mut self) {
        self.load = None;
    }

    /// Submits every request of the load that is due.
    pub(super) fn issue(&mut self) -> Result<(), VolumeError> {
        loop {
            let now = self.now;
            let Some(load) = &mut self.load else { return Ok(()) };
            let Some(issued) = load.issuer.issue(now) else { return Ok(()) };
            let (op, range) = (issued.request.op, issued.request.range);
            let bytes = match load.content {
                Content::Seeded(seed) if op.is_write() => {
                    let sector = self.drive.sector_bytes().get() as usize;
                    let mut bytes = vec![0; range.len().get() as usize * sector];
                    let mut stream = Stream::numbered(seed, "content", self.next_request);
                    for chunk in bytes.chunks_mut(8) {
                        let random = stream.next_u64().to_le_bytes();
                        chunk.copy_from_slice(&random[..chunk.len()]);
                    }
                    Some(bytes)
                }
                _ => None,
            };
            let number = load.number;
            self.submit(op, range, bytes, Some((number, issued.task)))?;
        }
    }
}
