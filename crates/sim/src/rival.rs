//! A background reader without a scheduler, such as a disk's owner uses without freeblock.

use units::{Duration, Instant, Lbn, LbnRange, Sectors};

/// A loop that reads a device from its beginning to its end, one read at a time, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The length of each read.
    pub read: Sectors,
    /// The rule for the time of the next read.
    pub when: When,
}

/// The rule for the time of a rival's next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the end of the preceding read, with or without foreground requests.
    Always,
    /// When no foreground request has been outstanding for some time.
    Idle {
        /// The time without foreground requests before a read.
        after: Duration,
        /// The share of each second, from its beginning, in which reads may begin, in millionths: 1,000,000 for the
        /// whole second.
        share_ppm: u32,
    },
}

impl When {
    /// Returns the rule that reads whenever no foreground request has been outstanding for `after`.
    pub const fn idle(after: Duration) -> Self {
        Self::Idle { after, share_ppm: WHOLE_PPM }
    }
}

const WHOLE_PPM: u32 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A rival at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    rival: Rival,
    capacity: Sectors,
    next: Lbn,
    /// The length of the read at the device, if one is there.
    reading: Option<Sectors>,
    /// The number of sectors read.
    pub(crate) sectors: u64,
}

impl Reader {
    pub(crate) fn new(rival: Rival, capacity: Sectors) -> Self {
        let read = Sectors::new(rival.read.get().clamp(1, capacity.get().max(1)));
        let rival = Rival { read, ..rival };
        Self { rival, capacity, next: Lbn::ZERO, reading: None, sectors: 0 }
    }

    /// Returns the instant at which the next read is due, unless another event occurs before. `idle_since` is the
    /// last foreground completion, if no request is outstanding.
    pub(crate) fn due(&self, now: Instant, idle_since: Option<Instant>) -> Option<Instant> {
        if self.reading.is_some() {
            return None;
        }
        match self.rival.when {
            When::Always => Some(now),
            When::Idle { after, share_ppm } => {
                let at = now.max(idle_since? + after);
                let into = at.since(Instant::ZERO).as_nanos() % SECOND_NS;
                let open = u64::from(share_ppm) * (SECOND_NS / u64::from(WHOLE_PPM));
                Some(if into < open { at } else { at + Duration::from_nanos(SECOND_NS - into) })
            }
        }
    }

    /// Returns the next read, which is at the device from now on.
    pub(crate) fn begin(&mut self) -> LbnRange {
        let left = self.capacity.get().saturating_sub(self.next.get());
        let range = LbnRange::new(self.next, Sectors::new(self.rival.read.get().min(left)));
        self.reading = Some(range.len());
        self.next = if range.len().get() == left { Lbn::ZERO } else { range.end() };
        range
    }

    /// Records the end of the read at the device.
    pub(crate) fn done(&mut self) {
        self.sectors += self.reading.take().map_or(0, Sectors::get);
    }
}
