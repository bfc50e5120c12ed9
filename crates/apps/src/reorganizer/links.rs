//! The dependencies between blocks, and the state of each block. This module has no sessions and no bytes, so
//! replaying a journal leads to the same state.
//!
//! Block b goes to the place of block `ahead[b]`; block `behind[b]` goes to b's place. A chain ends at a place that
//! was free; all other dependencies are cycles.

use super::plan::{Block, NONE, RelocationPlan};
use std::collections::BTreeSet;
use units::Lbn;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockState {
    /// On the medium at its source; no staged block waits for this place, and the block's destination is occupied.
    Unread,
    /// On the medium at its source; once read, the block can be written, or a staged block can be written in its
    /// place.
    Ready,
    /// In the staging area.
    Staged,
    /// On the medium at its destination.
    Done,
    /// On the medium at its source, where it stays: the source is bad.
    Stuck,
    /// In the staging area, where it stays: no good place is left for the block.
    Kept,
}

#[derive(Clone, Debug)]
pub struct Links {
    blocks: Vec<Block>,
    ahead: Vec<u32>,
    behind: Vec<u32>,
    state: Vec<BlockState>,
    /// Blocks with another destination or other links than in the plan.
    relinked: BTreeSet<u32>,
    pub waiting: u64,
    pub ready: u64,
    pub staged: u64,
    /// Staged blocks whose destination still holds an unread block.
    pub unwritable: u64,
    pub done: u64,
    pub stuck: u64,
    pub kept: u64,
}

/// A block whose destination or links differ from the plan.
pub(super) struct Relinked {
    pub block: u32,
    /// The first LBN of the block's destination.
    pub to: u64,
    pub ahead: u32,
    pub behind: u32,
}

impl Links {
    pub fn new(plan: &RelocationPlan) -> Self {
        let blocks = plan.blocks().to_vec();
        let count = blocks.len();
        let mut links = Self {
            ahead: plan.ahead().to_vec(),
            behind: vec![NONE; count],
            state: vec![BlockState::Unread; count],
            relinked: BTreeSet::new(),
            waiting: count as u64,
            ready: 0,
            staged: 0,
            unwritable: 0,
            done: 0,
            stuck: 0,
            kept: 0,
            blocks,
        };
        for (b, &a) in (0..).zip(plan.ahead()) {
            if a != NONE {
                links.behind[a as usize] = b;
            }
        }
        for b in 0..count as u32 {
            if links.clear(b) {
                links.set(b, BlockState::Ready);
            }
        }
        links
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn block(&self, b: u32) -> &Block {
        &self.blocks[b as usize]
    }

    pub fn state(&self, b: u32) -> BlockState {
        self.state[b as usize]
    }

    pub fn ahead(&self, b: u32) -> u32 {
        self.ahead[b as usize]
    }

    pub fn behind(&self, b: u32) -> u32 {
        self.behind[b as usize]
    }

    /// Returns the block whose source begins at `lbn`.
    pub fn at(&self, lbn: u64) -> Option<u32> {
        self.blocks.binary_search_by_key(&lbn, |b| b.from).ok().map(|b| b as u32)
    }

    /// Returns the first block whose source ends after `lbn`.
    pub fn first_after(&self, lbn: u64) -> u32 {
        self.blocks.partition_point(|b| b.from + u64::from(b.sectors) <= lbn) as u32
    }

    /// Returns whether b's destination is free: no block was there, or that block is staged or moved.
    pub fn clear(&self, b: u32) -> bool {
        let ahead = self.ahead(b);
        ahead == NONE || self.vacated(ahead)
    }

    pub fn vacated(&self, b: u32) -> bool {
        matches!(self.state(b), BlockState::Staged | BlockState::Done | BlockState::Kept)
    }

    pub fn waits(&self, b: u32) -> bool {
        matches!(self.state(b), BlockState::Unread | BlockState::Ready)
    }

    /// Returns the index of the session that reads a waiting block: 0 for unread blocks, 1 for ready ones.
    pub fn class(&self, b: u32) -> usize {
        usize::from(self.state(b) == BlockState::Ready)
    }

    /// Returns whether reading block b lets a staged block be written.
    pub fn clears_staged(&self, b: u32) -> bool {
        let behind = self.behind(b);
        behind != NONE && self.state(behind) == BlockState::Staged && self.waits(b)
    }

    fn set(&mut self, b: u32, state: BlockState) {
        let before = std::mem::replace(&mut self.state[b as usize], state);
        *self.count(before) -= 1;
        if before == BlockState::Ready {
            self.ready -= 1;
        }
        *self.count(state) += 1;
        if state == BlockState::Ready {
            self.ready += 1;
        }
    }

    fn count(&mut self, state: BlockState) -> &mut u64 {
        match state {
            BlockState::Unread | BlockState::Ready => &mut self.waiting,
            BlockState::Staged => &mut self.staged,
            BlockState::Done => &mut self.done,
            BlockState::Stuck => &mut self.stuck,
            BlockState::Kept => &mut self.kept,
        }
    }

    /// Sets a waiting block to unread or ready; returns whether the state changed.
    pub fn sort(&mut self, b: u32) -> bool {
        if b == NONE || !self.waits(b) {
            return false;
        }
        let state =
            if self.clear(b) || self.clears_staged(b) { BlockState::Ready } else { BlockState::Unread };
        let changed = state != self.state(b);
        if changed {
            self.set(b, state);
        }
        changed
    }

    /// Records that a waiting block's bytes are in the staging area.
    pub fn stage(&mut self, b: u32) {
        self.set(b, BlockState::Staged);
        if !self.clear(b) {
            self.unwritable += 1;
        }
        let behind = self.behind(b);
        if behind != NONE && self.state(behind) == BlockState::Staged {
            self.unwritable -= 1;
        }
    }

    /// Records that a staged block is at its destination.
    pub fn written(&mut self, b: u32) {
        self.set(b, BlockState::Done);
    }

    /// Records that the source of a waiting block is bad: the block stays. The block that was to take its place takes
    /// its destination instead, so that the rest of the plan holds. Returns the blocks whose state may have changed.
    pub fn source_bad(&mut self, b: u32) -> [u32; 2] {
        let (ahead, behind) = (self.ahead(b), self.behind(b));
        let to = self.block(b).to;
        self.set(b, BlockState::Stuck);
        self.link(b, NONE);
        if behind == NONE {
            if ahead != NONE {
                self.behind[ahead as usize] = NONE;
                self.relinked.insert(ahead);
            }
        } else {
            self.retarget(behind, to, ahead);
            self.behind[b as usize] = NONE;
            if self.state(behind) == BlockState::Staged && self.clear(behind) {
                self.unwritable -= 1;
            }
        }
        [behind, ahead]
    }

    /// Records that the destination of a staged block is bad; that place was clear. A chain with an end has one place
    /// more than blocks: the block takes the first place along its chain that is vacated and has no staged block
    /// waiting for it, and the unread block that was to go there takes the chain's end. A cycle has no place left, so
    /// the block stays in the staging area. Returns the blocks whose state may have changed.
    pub fn target_bad(&mut self, b: u32) -> [u32; 2] {
        let was_home = self.block(b).to == self.block(b).from;
        let mut last_vacated = b;
        let mut end = b;
        let mut waiting = NONE;
        loop {
            let next = self.behind(end);
            if next == NONE || next == b {
                break;
            }
            end = next;
            if waiting == NONE {
                if self.waits(next) {
                    waiting = next;
                } else {
                    last_vacated = next;
                }
            }
        }
        let cycle = self.behind(end) == b;
        let ahead = self.ahead(b);
        if cycle || was_home {
            self.set(b, BlockState::Kept);
            return [NONE, NONE];
        }
        if ahead != NONE {
            self.behind[ahead as usize] = NONE;
            self.relinked.insert(ahead);
        }
        self.ahead[b as usize] = NONE;
        if waiting != NONE {
            // The block `waiting` gives up its link before b is linked to the place that was its destination.
            let tail = self.block(end).from;
            self.behind[last_vacated as usize] = NONE;
            self.ahead[waiting as usize] = NONE;
            self.retarget(waiting, tail, end);
        }
        let place = self.block(last_vacated).from;
        self.retarget(b, place, last_vacated);
        [waiting, end]
    }

    /// Changes b's destination to `to`, which is or was block `ahead`'s place. A waiting block whose destination is
    /// its source is done.
    fn retarget(&mut self, b: u32, to: u64, ahead: u32) {
        self.blocks[b as usize].to = to;
        if to == self.block(b).from {
            self.link(b, NONE);
            self.behind[b as usize] = NONE;
            if self.waits(b) {
                self.set(b, BlockState::Done);
            }
        } else {
            self.link(b, ahead);
        }
    }

    fn link(&mut self, b: u32, ahead: u32) {
        self.ahead[b as usize] = ahead;
        self.relinked.insert(b);
        if ahead != NONE {
            self.behind[ahead as usize] = b;
            self.relinked.insert(ahead);
        }
    }

    /// Returns a block's place on the medium, or `None` if the block is in the staging area.
    pub fn on_medium(&self, b: u32) -> Option<Lbn> {
        let block = self.block(b);
        match self.state(b) {
            BlockState::Unread | BlockState::Ready | BlockState::Stuck => Some(Lbn::new(block.from)),
            BlockState::Done => Some(Lbn::new(block.to)),
            BlockState::Staged | BlockState::Kept => None,
        }
    }

    /// Returns the blocks whose destination or links differ from the plan.
    pub fn relinked(&self) -> impl Iterator<Item = Relinked> {
        self.relinked.iter().map(|&block| Relinked {
            block,
            to: self.block(block).to,
            ahead: self.ahead(block),
            behind: self.behind(block),
        })
    }

    /// Restores a block of [`relinked`](Self::relinked); returns false if one of the numbers is of no block of the
    /// plan.
    pub fn relink(&mut self, b: u32, to: u64, ahead: u32, behind: u32) -> bool {
        let known = |other: u32| other == NONE || (other as usize) < self.len();
        if (b as usize) >= self.len() || !known(ahead) || !known(behind) {
            return false;
        }
        self.blocks[b as usize].to = to;
        self.ahead[b as usize] = ahead;
        self.behind[b as usize] = behind;
        self.relinked.insert(b);
        true
    }

    /// Returns whether `ahead`, `behind` and the destinations fit each other, so that blocks form chains and cycles
    /// only.
    pub fn agree(&self) -> bool {
        (0..self.len() as u32).all(|b| {
            let (block, ahead, behind) = (self.block(b), self.ahead(b), self.behind(b));
            let goes_there =
                |a: u32| self.block(a).from == block.to && self.block(a).sectors == block.sectors;
            (ahead == NONE || (self.behind(ahead) == b && goes_there(ahead)))
                && (behind == NONE || self.ahead(behind) == b)
        })
    }

    /// Sets the states of all blocks, then counts unwritable blocks and sorts waiting ones.
    pub fn restore(&mut self, state: impl Fn(u32) -> BlockState) {
        for b in 0..self.len() as u32 {
            let state = state(b);
            self.set(b, state);
        }
        self.unwritable = 0;
        for b in 0..self.len() as u32 {
            if self.state(b) == BlockState::Staged && !self.clear(b) {
                self.unwritable += 1;
            }
            self.sort(b);
        }
    }
}
