//! Devices with delayed completions: for a while, each by a random time; or until the next multiple of a period.

use drive::{BlackBox, Command, CommandError, Reply};
use std::ops::Range;
use units::{Bytes, Duration, Instant, Sectors};

/// Returns the instant of delivery of a completion that the device gives at an instant.
type Until = Box<dyn FnMut(Instant) -> Instant>;

pub struct Delayed {
    device: Box<dyn BlackBox>,
    until: Until,
    /// Delayed completions, by delivery.
    held: Vec<Reply>,
    now: Instant,
}

impl Delayed {
    fn new(device: Box<dyn BlackBox>, until: Until) -> Self {
        Self { device, until, held: Vec::new(), now: Instant::ZERO }
    }

    /// Returns a device with random delays below `most` for a while, seeded.
    pub fn for_a_while(device: Box<dyn BlackBox>, when: Range<Instant>, most: Duration) -> Self {
        let mut state = 1u64;
        let until = move |at: Instant| {
            if !when.contains(&at) {
                return at;
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            at + Duration::from_nanos((state >> 33) % most.as_nanos())
        };
        Self::new(device, Box::new(until))
    }

    /// Returns a device whose completions are delayed to the next multiple of `beat`, as by an adapter that coalesces
    /// interrupts.
    pub fn to_a_beat(device: Box<dyn BlackBox>, beat: Duration) -> Self {
        let until = move |at: Instant| Instant::from_nanos(at.as_nanos().next_multiple_of(beat.as_nanos()));
        Self::new(device, Box::new(until))
    }
}

impl BlackBox for Delayed {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.device.sector_bytes()
    }

    fn queue_depth(&self) -> usize {
        self.device.queue_depth()
    }

    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.device.submit(now, command)
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_event().into_iter().chain(self.held.first().map(|held| held.at)).min()
    }

    fn advance(&mut self, now: Instant) {
        self.now = now;
        self.device.advance(now);
        while let Some(mut reply) = self.device.pop_reply() {
            reply.at = (self.until)(reply.at);
            let later = self.held.iter().rev().take_while(|held| held.at > reply.at).count();
            self.held.insert(self.held.len() - later, reply);
        }
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.held.first().filter(|held| held.at <= self.now)?;
        Some(self.held.remove(0))
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding() + self.held.len()
    }
}
