//! The replacement policies: LRU, SPTF-Evict, FREE-CLEAN (FAST'04, section 6.4).

use super::config::Replacement;
use super::head::HeadTime;
use super::machine::Cache;
use super::pool::BufferIndex;
use std::collections::BTreeSet;
use units::Instant;

/// Returns the first slot of the order for which `may` holds.
pub(super) fn oldest(
    order: &BTreeSet<(u64, BufferIndex)>,
    may: impl Fn(BufferIndex) -> bool,
) -> Option<BufferIndex> {
    order.iter().map(|&(_, slot)| slot).find(|&slot| may(slot))
}

impl Cache {
    /// Returns the buffer that makes room next: at once if it is clean, otherwise once it is written.
    pub(super) fn choose_victim(&self, head: &dyn HeadTime, now: Instant) -> Option<BufferIndex> {
        let least = || oldest(&self.pool.by_use, |slot| self.may_leave(slot));
        match self.config.replacement {
            Replacement::Lru => least(),
            Replacement::FreeClean => {
                let may = |slot| self.may_leave(slot) && self.pool.get(slot).is_evictable();
                oldest(&self.pool.gifts, may).or_else(least)
            }
            Replacement::SptfEvict => {
                let least = least()?;
                let is_clean = self.pool.get(least).is_evictable();
                // If the least recently used buffer is being written already, a buffer nearer to the head would not
                // be clean sooner.
                let is_idle = self.pool.get(least).forced.is_none() && !self.pool.get(least).is_out();
                let nearest = if is_clean || !is_idle { None } else { self.nearest(head, now) };
                Some(nearest.unwrap_or(least))
            }
        }
    }

    /// Returns the dirty buffer that the head can write soonest, among unforced ones near the head.
    pub(super) fn nearest(&self, head: &dyn HeadTime, now: Instant) -> Option<BufferIndex> {
        let volume = self.config.volume;
        let lbn = head.lbn().max(volume.start());
        let here = lbn.since(volume.start()).get() / self.config.block.get();
        let may = |&&(_, slot): &&(u64, BufferIndex)| self.may_leave(slot) && !self.pool.get(slot).is_out();
        let mut below = self.pool.idle_by_block.range(..(here, 0)).rev().filter(may).peekable();
        let mut above = self.pool.idle_by_block.range((here, 0)..).filter(may).peekable();
        let nearer = std::iter::from_fn(|| match (below.peek(), above.peek()) {
            (Some((b, _)), Some((a, _))) if here - b < a - here => below.next(),
            (_, Some(_)) => above.next(),
            (_, None) => below.next(),
        });
        nearer
            .take(self.config.nearest_of)
            .min_by_key(|&&(block, _)| (head.positioning(now, self.block_range(block)), block))
            .map(|&(_, slot)| slot)
    }
}
