//! Runs of tracks on one surface, and an index that finds the runs of a long pattern by cylinder.

use alloc::vec;
use alloc::vec::Vec;
use units::Arc;

/// The least number of runs of a pattern that gets an index. Shorter patterns, for example two runs for each of 20 heads, are
/// searched linearly.
const RUNS_MIN: usize = 64;

/// The number of neighbouring cylinders that share one list of runs, to keep the index small.
const GROUP_CYLINDERS: u32 = 16;

/// Consecutive tracks on one surface.
#[derive(Clone, Debug)]
pub(super) struct TrackRun {
    pub head: u16,
    /// The cylinder of the first track, counted from the repetition's first, without the shift.
    pub cylinder: u32,
    /// The number of cylinders by which the surface is shifted inward.
    pub shift: u32,
    pub outward: bool,
    /// The number of the first track, counted from the repetition's first.
    pub first_track: u32,
    pub tracks: u32,
    /// The position of the run's first sector, counted from the repetition's first sector.
    pub first_place: u64,
    pub sectors: u32,
    /// The rotation from the repetition's start angle to sector 0 of the first track.
    pub angle: Arc,
    /// The rotation from sector 0 of each track to sector 0 of the next.
    pub skew: Arc,
}

impl TrackRun {
    /// Returns the index in the run of its track on `cylinder`, counted from the repetition's first without the shift.
    #[inline]
    pub(super) fn track_on(&self, cylinder: u32) -> Option<u32> {
        let along = if self.outward {
            self.cylinder.checked_sub(cylinder)?
        } else {
            cylinder.checked_sub(self.cylinder)?
        };
        (along < self.tracks).then_some(along)
    }

    /// Returns the lowest and the highest cylinder of the run, counted from the repetition's first.
    pub(super) fn span(&self) -> (u32, u32) {
        let (low, high) = if self.outward {
            (self.cylinder + 1 - self.tracks, self.cylinder)
        } else {
            (self.cylinder, self.cylinder + self.tracks - 1)
        };
        (low + self.shift, high + self.shift)
    }
}

/// A list of runs for every group of [`GROUP_CYLINDERS`] cylinders of a repetition: those with tracks in it, in LBN order.
#[derive(Clone, Debug)]
pub(super) struct RunIndex {
    /// The index in `lists` at which each group's part begins, followed by the length of `lists`.
    starts: Vec<u32>,
    lists: Vec<u32>,
}

impl RunIndex {
    /// Returns the index; `None` if a linear search is as fast, or if a shift moves runs out of the repetition's cylinders.
    pub(super) fn new(runs: &[TrackRun], cylinders: u32) -> Option<Self> {
        if runs.len() < RUNS_MIN || runs.iter().any(|run| run.shift > 0) {
            return None;
        }
        let groups = cylinders.div_ceil(GROUP_CYLINDERS) as usize;
        let mut lists = vec![Vec::new(); groups];
        for (i, run) in runs.iter().enumerate() {
            let (low, high) = run.span();
            for list in lists
                .iter_mut()
                .take((high / GROUP_CYLINDERS) as usize + 1)
                .skip((low / GROUP_CYLINDERS) as usize)
            {
                list.push(i as u32);
            }
        }
        let mut starts = Vec::with_capacity(groups + 1);
        let mut next = 0;
        for list in &lists {
            starts.push(next);
            next += list.len() as u32;
        }
        starts.push(next);
        Some(Self { starts, lists: lists.concat() })
    }

    /// Returns the indices of the runs that may have a track on a cylinder of a repetition.
    #[inline]
    pub(super) fn near(&self, cylinder: u32) -> &[u32] {
        let group = (cylinder / GROUP_CYLINDERS) as usize;
        match self.starts.get(group..) {
            Some(&[from, to, ..]) => self.lists.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}
