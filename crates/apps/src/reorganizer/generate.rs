//! The three kinds of reorganisation of the paper's evaluation (FAST'04, section 6.5).
//!
//! Random numbers come from an argument: `below(n)` returns a uniform whole number below n. The workload crate's
//! `Stream::below` is one.

use super::plan::{Move, RelocationPlan, RelocationPlanError};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use units::{Lbn, LbnRange, Sectors};

/// A source of random numbers.
pub type Below<'a> = &'a mut dyn FnMut(NonZeroU64) -> u64;

impl RelocationPlan {
    /// Creates a plan that moves random blocks of `region` to random other places of the region, so that few moves
    /// depend on another. Other places of the region count as free, as in the paper; a block that draws its own place
    /// stays there.
    ///
    /// # Errors
    /// The region has fewer places than blocks to move; or an error of [`RelocationPlan::new`].
    pub fn random(
        region: LbnRange,
        block: Sectors,
        capacity: Sectors,
        count: u64,
        below: Below<'_>,
    ) -> Result<Self, RelocationPlanError> {
        let from = sample(places(region, block)?, count, below)?;
        let to = sample(places(region, block)?, count, below)?;
        let moves: Vec<Move> = from.iter().zip(&to).map(|(&f, &t)| one(region, block, f, t)).collect();
        Self::new(block, capacity, &moves, &[region])
    }

    /// Creates a plan that moves `count` random blocks of `region`, each to the place of the next: one cycle, the
    /// longest possible dependency.
    ///
    /// # Errors
    /// As for [`random`](Self::random).
    pub fn circular(
        region: LbnRange,
        block: Sectors,
        capacity: Sectors,
        count: u64,
        below: Below<'_>,
    ) -> Result<Self, RelocationPlanError> {
        let ring = sample(places(region, block)?, count, below)?;
        let next = ring.iter().cycle().skip(1);
        let moves: Vec<Move> = ring.iter().zip(next).map(|(&f, &t)| one(region, block, f, t)).collect();
        Self::new(block, capacity, &moves, &[])
    }

    /// Creates a plan that moves `count` random tracks of `tracks`, each to the place of a random track with the same
    /// number of sectors. Tracks of the list that do not move count as free.
    ///
    /// # Errors
    /// As for [`random`](Self::random).
    pub fn track_shuffle(
        tracks: &[LbnRange],
        block: Sectors,
        capacity: Sectors,
        count: u64,
        below: Below<'_>,
    ) -> Result<Self, RelocationPlanError> {
        let chosen = sample(tracks.len() as u64, count, below)?;
        let mut by_length: BTreeMap<u64, (Vec<LbnRange>, Vec<LbnRange>)> = BTreeMap::new();
        for track in tracks {
            by_length.entry(track.len().get()).or_default().1.push(*track);
        }
        for track in chosen.iter().filter_map(|&i| tracks.get(i as usize)) {
            by_length.entry(track.len().get()).or_default().0.push(*track);
        }
        let mut moves = Vec::new();
        for (from, all) in by_length.values() {
            let to = sample(all.len() as u64, from.len() as u64, below)?;
            let to = to.iter().filter_map(|&i| all.get(i as usize));
            moves.extend(from.iter().zip(to).map(|(f, t)| Move { from: *f, to: t.start() }));
        }
        Self::new(block, capacity, &moves, tracks)
    }
}

fn places(region: LbnRange, block: Sectors) -> Result<u64, RelocationPlanError> {
    region.len().get().checked_div(block.get()).ok_or(RelocationPlanError::BlockSize(block))
}

fn one(region: LbnRange, block: Sectors, from: u64, to: u64) -> Move {
    let place = |i: u64| Lbn::new(region.start().get().saturating_add(i * block.get()));
    Move { from: LbnRange::new(place(from), block), to: place(to) }
}

/// Returns `count` different numbers below `places` in random order: Fisher and Yates' shuffle, which stores only the
/// touched entries, so that a few blocks of a large drive cost little.
fn sample(places: u64, count: u64, below: Below<'_>) -> Result<Vec<u64>, RelocationPlanError> {
    if count > places {
        return Err(RelocationPlanError::Count { count, places });
    }
    if count > super::plan::PLAN_BLOCKS_MAX as u64 {
        return Err(RelocationPlanError::TooManyBlocks);
    }
    let mut swapped: BTreeMap<u64, u64> = BTreeMap::new();
    let mut chosen = Vec::with_capacity(count as usize);
    for i in 0..count {
        let other = NonZeroU64::new(places - i).map_or(i, |left| i + below(left));
        let here = swapped.remove(&i).unwrap_or(i);
        chosen.push(if other == i { here } else { swapped.insert(other, here).unwrap_or(other) });
    }
    Ok(chosen)
}
