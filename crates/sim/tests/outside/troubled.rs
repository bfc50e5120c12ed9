//! Devices whose answers are held back: for a while, each by another time; or until the next beat.

use drive::{BlackBox, Command, CommandError, Reply};
use std::collections::VecDeque;
use std::ops::Range;
use units::{Bytes, Duration, Instant, Sectors};

pub struct Troubled {
    device: Box<dyn BlackBox>,
    when: Range<Instant>,
    most: Duration,
    state: u64,
    /// Answers that are held back, by when they come.
    held: Vec<Reply>,
    now: Instant,
}

impl Troubled {
    pub fn new(device: Box<dyn BlackBox>, when: Range<Instant>, most: Duration) -> Self {
        Self { device, when, most, state: 1, held: Vec::new(), now: Instant::ZERO }
    }

    fn collect(&mut self) {
        while let Some(mut reply) = self.device.pop_reply() {
            if self.when.contains(&reply.at) {
                self.state = self
                    .state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                reply.at += Duration::from_nanos((self.state >> 33) % self.most.as_nanos());
            }
            let later = self.held.iter().rev().take_while(|held| held.at > reply.at).count();
            self.held.insert(self.held.len() - later, reply);
        }
    }
}

impl BlackBox for Troubled {
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
        self.collect();
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.held.first().filter(|held| held.at <= self.now)?;
        Some(self.held.remove(0))
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding() + self.held.len()
    }
}

/// A device whose answers come on a beat, as behind an adapter that gathers interrupts.
pub struct OnABeat {
    device: Box<dyn BlackBox>,
    beat: Duration,
    held: VecDeque<Reply>,
    now: Instant,
}

impl OnABeat {
    pub fn new(device: Box<dyn BlackBox>, beat: Duration) -> Self {
        Self { device, beat, held: VecDeque::new(), now: Instant::ZERO }
    }
}

impl BlackBox for OnABeat {
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
        self.device.next_event().into_iter().chain(self.held.front().map(|held| held.at)).min()
    }

    fn advance(&mut self, now: Instant) {
        self.now = now;
        self.device.advance(now);
        while let Some(mut reply) = self.device.pop_reply() {
            let beat = self.beat.as_nanos();
            reply.at = Instant::from_nanos(reply.at.as_nanos().next_multiple_of(beat));
            self.held.push_back(reply);
        }
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.held.front().filter(|held| held.at <= self.now)?;
        self.held.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding() + self.held.len()
    }
}
