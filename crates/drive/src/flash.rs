//! A simulated flash device: nearly constant latency, no arm, no platter. Tests use it to check that a scheduler for disks
//! works on a device that is no disk.

use crate::black_box::{BlackBox, Reply};
use crate::dice::{Component, Dice};
use crate::error::CommandError;
use crate::firmware::Command;
use std::collections::VecDeque;
use units::{Bytes, CacheOps, Duration, Instant, Op, Sectors};

/// The configuration of a flash device. The default is a small SATA device; its numbers are assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashConfig {
    /// The number of sectors.
    pub capacity: Sectors,
    /// The bytes in a sector.
    pub sector_bytes: Bytes,
    /// The time of a read, without the transfer.
    pub read: Duration,
    /// The time of a write, without the transfer.
    pub write: Duration,
    /// The time to transfer one sector between the device and the host.
    pub sector: Duration,
    /// The upper bound of the random time by which a command takes longer.
    pub spread: Duration,
    /// The number of commands served concurrently; zero counts as one.
    pub channels: u16,
    /// The most commands in the device; zero counts as one.
    pub depth: u16,
}

impl Default for FlashConfig {
    fn default() -> Self {
        Self {
            capacity: Sectors::new(16 << 20),
            sector_bytes: Bytes::new(512),
            read: Duration::from_micros(80),
            write: Duration::from_micros(30),
            sector: Duration::from_micros(1),
            spread: Duration::from_micros(20),
            channels: 8,
            depth: 32,
        }
    }
}

/// A simulated flash device.
///
/// ```
/// use freeblock_drive::{BlackBox, Command, Flash, FlashConfig};
/// use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// let mut flash = Flash::new(FlashConfig::default(), 1);
/// let range = LbnRange::new(Lbn::new(5_000_000), Sectors::new(8));
/// flash.submit(Instant::ZERO, Command { id: RequestId::new(0), op: Op::Read, range }).unwrap();
/// assert!(flash.next_event().unwrap().as_nanos() <= 108_000);
/// ```
#[derive(Clone, Debug)]
pub struct Flash {
    config: FlashConfig,
    dice: Dice,
    /// The time at which each channel is free.
    channels: Vec<Instant>,
    finishing: VecDeque<Reply>,
    done: VecDeque<Reply>,
    now: Instant,
}

impl Flash {
    /// Creates a device whose random times depend on `seed`.
    pub fn new(config: FlashConfig, seed: u64) -> Self {
        Self {
            config,
            dice: Dice::new(seed, Component::Flash),
            channels: vec![Instant::ZERO; usize::from(config.channels.max(1))],
            finishing: VecDeque::new(),
            done: VecDeque::new(),
            now: Instant::ZERO,
        }
    }
}

impl BlackBox for Flash {
    fn capacity(&self) -> Sectors {
        self.config.capacity
    }

    fn sector_bytes(&self) -> Bytes {
        self.config.sector_bytes
    }

    fn queue_depth(&self) -> usize {
        usize::from(self.config.depth.max(1))
    }

    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        command.check(self.config.capacity, CacheOps::default())?;
        self.advance(now);
        if self.finishing.len() >= self.queue_depth() {
            let depth = u32::from(self.config.depth.max(1));
            return Err(CommandError::QueueFull { id: command.id, depth });
        }
        let latency = match command.op {
            Op::Read => self.config.read,
            Op::Write => self.config.write,
        };
        let takes =
            latency + self.config.sector * command.range.len().get() + self.dice.up_to(self.config.spread);
        let mut at = now;
        if let Some(channel) = self.channels.iter_mut().min() {
            at = now.max(*channel) + takes;
            *channel = at;
        }
        let before = self.finishing.partition_point(|reply| reply.at <= at);
        self.finishing.insert(before, Reply { id: command.id, at, failed: None });
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        if self.done.is_empty() { self.finishing.front().map(|reply| reply.at) } else { Some(self.now) }
    }

    fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time went backwards");
        while self.finishing.front().is_some_and(|reply| reply.at <= now) {
            self.done.extend(self.finishing.pop_front());
        }
        self.now = self.now.max(now);
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.finishing.len()
    }
}
