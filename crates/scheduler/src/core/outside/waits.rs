//! The reason why wanted blocks are not read now, for an operator who sees a background read that does not end.

use super::{Outside, OutsideDrive};
use crate::core::Core;
use crate::idle::{IdleTime, Range};
use units::{Duration, Instant};

/// The reason why wanted blocks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundWait {
    /// A foreground request waits or is at the drive: until it is done, blocks are read in gaps only.
    Foreground,
    /// The foreground was silent for too short a time for a move of the arm. Blocks are read at `until` if no request comes
    /// before.
    Silence {
        /// The time without foreground requests that a move needs.
        silence: Duration,
        /// The end of that time.
        until: Instant,
    },
    /// The bound on harm has no room for one more late request. Blocks are read at `until` if no request comes before.
    Harm {
        /// The time without foreground requests after which blocks are read in spite of the bound.
        silence: Duration,
        /// The end of that time.
        until: Instant,
    },
    /// The audit's current window has no background work, to measure the cost of background work.
    Measurement {
        /// The latest end of the window.
        until: Instant,
    },
    /// Idle time is not used: blocks are read in gaps of the foreground only.
    GapsOnly,
}

impl OutsideDrive {
    /// Returns the reason why wanted blocks are not read at `now`; `None` if nothing is wanted, or blocks are being read.
    pub fn background_wait(&self, now: Instant) -> Option<BackgroundWait> {
        let Self { core, outside, .. } = self;
        if core.background.is_idle() {
            return None;
        }
        if let Some(until) = outside.window_ends_at().filter(|_| outside.is_off()) {
            return Some(BackgroundWait::Measurement { until });
        }
        let promoted = core.pool.iter().chain(outside.foreground_commands()).any(|p| p.promoted.is_some());
        if promoted {
            return None;
        }
        if self.pending() > 0 || outside.foreground_commands().next().is_some() {
            return Some(BackgroundWait::Foreground);
        }
        match &core.config.idle {
            _ if outside.is_busy() => None,
            None => Some(BackgroundWait::GapsOnly),
            Some(idle) => core.silence_wait(outside, idle, now),
        }
    }
}

impl Core {
    /// Returns the silence for which idle work waits, as [`decide_idle`](Self::decide_idle) will judge it if no request comes.
    fn silence_wait(&self, outside: &Outside, idle: &IdleTime, now: Instant) -> Option<BackgroundWait> {
        let since = self.idle.since;
        let stays_until = self.stays_until(outside).filter(|until| now < *until);
        let moves_at = stays_until.map_or(now, |until| self.moves_at(outside, now, until));
        let at = now.max(moves_at).max(since + idle.threshold);
        let allowed = |at: Instant| {
            let stays = stays_until.is_some_and(|until| at < until);
            let terms = if stays { Outside::spends(*idle) } else { *idle };
            let (mut account, left) = self.reserved(outside, idle, at);
            account.unpredicted = !outside.predicts();
            account.settle(&terms);
            (account.range(&terms, at) != Range::Track, account.relief(), left)
        };
        let (begins, relief, left) = allowed(at);
        if begins {
            return (now < at)
                .then(|| BackgroundWait::Silence { silence: at.saturating_since(since), until: at });
        }
        // From each of these instants on more is allowed than before.
        let earlier = stays_until.into_iter().chain(left).filter(|then| at < *then && allowed(*then).0).min();
        let until = relief.max(at).min(earlier.unwrap_or(relief.max(at)));
        Some(BackgroundWait::Harm { silence: until.saturating_since(since), until })
    }
}
