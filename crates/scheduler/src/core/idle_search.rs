//! The search for work in idle time: for the hardest blocks, which are those near the drive's edges, or for those nearest to
//! the middle of the foreground (FAST'04, section 5.2).
//!
//! A search has the same budget as the search for a gap. The next search continues where the last one ended
//! (`background/walk.rs`), so that a pass over the drive costs one look at each cylinder, however few blocks the pass finds.

use super::under_way::Visit;
use super::{Core, Sharing};
use crate::background::{Buffers, Focus, Front, Sought, Walk, WalkStart};
use crate::bounds::LOOKUPS_PER_TRACK;
use alloc::sync::Arc;
use units::{Cylinder, Duration, Instant, Op, TrackIndex};

/// The maximum of sessions whose blocks are searched for in idle time before the search pauses.
const SESSION_DRAWS_MAX: usize = 8;

/// The head changes to the other half of the drive if the next wanted block in its own half is farther from the edge than the
/// next one in the other half is from the other edge, by more than this number of cylinders.
const EDGE_EXCESS_CYLINDERS_MAX: u32 = 64;

/// The pause after a search that spent its budget without asking clients: a hundred times the duration of such a search.
/// Clients are asked again after [`IdleTime::threshold`](crate::IdleTime::threshold).
const SEARCH_PAUSE: Duration = Duration::from_millis(1);

/// The remaining effort of a search, and its events so far.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// The look-ups that are left.
    left: u32,
    /// Whether a wanted block was refused.
    refused: bool,
    /// Whether a client may have been asked for a buffer.
    asked: bool,
}

impl Core {
    /// Visits another track for the lottery's winner, or if none of its blocks is available now, for the winner among the other
    /// sessions. Returns the time until the next attempt if no block is available.
    pub(super) fn draw_and_visit(
        &mut self,
        now: Instant,
        way: WalkStart,
        buffers: &mut dyn Buffers,
    ) -> Result<Visit, Duration> {
        self.background.focus_on(Focus::All);
        let mut holders = self.background.focus();
        let mut budget = self.config.budget.lookups();
        let mut pause = Duration::MAX;
        for draw in 0..SESSION_DRAWS_MAX {
            let draws = holders.len().clamp(1, SESSION_DRAWS_MAX - draw) as u32;
            if self.config.sharing == Sharing::Lottery {
                self.background.restore_focus(&holders);
                let Some(Focus::One(winner)) = self.background.draw(&mut self.lottery) else { break };
                holders.retain(|holder| *holder != winner);
                self.background.focus_on(Focus::One(winner));
            } else {
                holders.clear();
            }
            let most = budget / draws;
            let mut effort = Effort { left: most, refused: false, asked: false };
            if let Some(visit) = self.walk(now, way, &mut effort, buffers) {
                return Ok(visit);
            }
            budget = budget.saturating_sub(most - effort.left);
            if effort.left == 0 && !effort.asked {
                pause = SEARCH_PAUSE;
            }
            if holders.is_empty() {
                break;
            }
        }
        Err(pause)
    }

    /// Continues the walk, a search over all cylinders from the given start, to the next cylinder with an available block.
    fn walk(
        &mut self,
        now: Instant,
        way: WalkStart,
        effort: &mut Effort,
        buffers: &mut dyn Buffers,
    ) -> Option<Visit> {
        let focus = self.background.focus();
        let drive = Arc::clone(&self.drive);
        let layout = drive.layout();
        loop {
            let mut walk = *self.background.walk(way);
            let low = self.seek_ahead(&mut walk, Front::Low, effort);
            let high = self.seek_ahead(&mut walk, Front::High, effort);
            let (front, cylinder) = match (low, high) {
                (Sought::Nothing, Sought::Nothing) => {
                    walk.begin();
                    *self.background.walk(way) = walk;
                    return None;
                }
                (Sought::Spent(_), _) | (_, Sought::Spent(_)) => (Front::Low, None),
                (Sought::Found(low), Sought::Found(high)) if self.is_low_next(way, low, high) => {
                    (Front::Low, Some(low))
                }
                (Sought::Found(low), Sought::Nothing) => (Front::Low, Some(low)),
                (_, Sought::Found(high)) => (Front::High, Some(high)),
            };
            *self.background.walk(way) = walk;
            // The first cylinder is tried even if the effort is spent.
            let Some(cylinder) = cylinder.filter(|_| effort.left > 0 || !effort.refused) else {
                effort.left = 0;
                return None;
            };
            effort.spend(u32::from(layout.heads()) * LOOKUPS_PER_TRACK);
            if let Some(visit) = self.visit_cylinder(now, Cylinder::new(cylinder), buffers) {
                return Some(visit);
            }
            self.background.restore_focus(&focus);
            self.background.walk(way).pass_over(front);
            effort.refused = true;
            effort.asked |= self.background.has(Op::Write);
        }
    }

    fn seek_ahead(&mut self, walk: &mut Walk, front: Front, effort: &mut Effort) -> Sought {
        let sought = match walk.ahead(front) {
            Some(ahead) => self.background.next_wanted(self.drive.layout(), ahead, &mut effort.left),
            None => Sought::Nothing,
        };
        walk.reached(front, sought);
        sought
    }

    /// Returns whether cylinder `low`, ahead of the walk's low front, is visited before cylinder `high`.
    fn is_low_next(&self, way: WalkStart, low: u32, high: u32) -> bool {
        match way {
            WalkStart::Around(middle) => middle.abs_diff(low) <= middle.abs_diff(high),
            WalkStart::Edges => {
                // A full stroke takes longer than the work on a track, so a small excess does not make the head change.
                let last = self.drive.layout().cylinders() - 1;
                let (far_out, far_in) = (low, last - high);
                if self.position.cylinder.get() <= last / 2 {
                    far_out <= far_in.saturating_add(EDGE_EXCESS_CYLINDERS_MAX)
                } else {
                    far_in > far_out.saturating_add(EDGE_EXCESS_CYLINDERS_MAX)
                }
            }
        }
    }

    /// Takes the work of one revolution on that track of a cylinder which yields most.
    fn visit_cylinder(
        &mut self,
        now: Instant,
        cylinder: Cylinder,
        buffers: &mut dyn Buffers,
    ) -> Option<Visit> {
        let drive = Arc::clone(&self.drive);
        let mut best: Option<(u64, TrackIndex, Op)> = None;
        for track in drive.layout().tracks_on(cylinder) {
            for op in [Op::Write, Op::Read].into_iter().filter(|op| self.background.has(*op)) {
                let ready = now + drive.move_time(self.position, (*track.track()).into(), op);
                let score = self.background.score(&track, self.whole_revolution(&track, ready, op), op);
                if score > best.map_or(0, |b| b.0) {
                    best = Some((score, track.index(), op));
                }
            }
        }
        let (_, track, op) = best?;
        let ops: &[Op] = if op.is_write() { &[Op::Write, Op::Read] } else { &[Op::Read] };
        self.visit_track(now, track, ops, buffers)
    }
}

impl Effort {
    fn spend(&mut self, lookups: u32) {
        self.left = self.left.saturating_sub(lookups);
    }
}
