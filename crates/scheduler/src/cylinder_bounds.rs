//! For every cylinder, an upper bound on what any one of its tracks could still yield, worked out when first asked.
//!
//! Taking blocks only lowers the truth, so an old bound stays a bound; it is forgotten where something was taken, to
//! be sharp again, and where something was registered, to be right again. Runs of cylinders share a bound of their
//! own, so that a search steps over deserts.

use model::Layout;
use units::LbnRange;

/// Cylinders in a group.
pub(crate) const GROUP: u32 = 64;

/// Ranges of up to this many track pieces are forgotten cylinder by cylinder, larger ones by forgetting all.
const FEW_PIECES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct CylinderBounds {
    /// The bound and one, or zero when it is not known.
    cylinders: Vec<u32>,
    /// The largest bound of the group's cylinders and one, or zero when it is not known.
    groups: Vec<u32>,
}

impl CylinderBounds {
    pub fn new(cylinders: u32) -> Self {
        Self { cylinders: vec![0; cylinders as usize], groups: vec![0; cylinders.div_ceil(GROUP) as usize] }
    }

    #[inline]
    pub fn get(&self, cylinder: u32) -> Option<u64> {
        match self.cylinders.get(cylinder as usize) {
            Some(0) => None,
            Some(&bound) => Some(u64::from(bound - 1)),
            None => Some(0),
        }
    }

    pub fn set(&mut self, cylinder: u32, bound: u64) {
        if let Some(slot) = self.cylinders.get_mut(cylinder as usize) {
            *slot = bound.min(u64::from(u32::MAX - 1)) as u32 + 1;
        }
    }

    /// The bound of a whole group, once all of its cylinders are known.
    #[inline]
    pub fn group(&mut self, group: u32) -> Option<u64> {
        let slot = self.groups.get_mut(group as usize)?;
        if *slot == 0 {
            let from = (group * GROUP) as usize;
            let to = (from + GROUP as usize).min(self.cylinders.len());
            let members = &self.cylinders[from..to];
            if members.contains(&0) {
                return None;
            }
            *slot = members.iter().copied().max().unwrap_or(1);
        }
        Some(u64::from(*slot - 1))
    }

    pub fn forget(&mut self, cylinder: u32) {
        if let Some(slot) = self.cylinders.get_mut(cylinder as usize) {
            // The group's bound is stale only if this cylinder was the one that set it.
            let group = &mut self.groups[(cylinder / GROUP) as usize];
            if *group == *slot {
                *group = 0;
            }
            *slot = 0;
        }
    }

    pub fn forget_range(&mut self, layout: &Layout, range: LbnRange) {
        let few: Vec<u32> =
            layout.pieces(range).take(FEW_PIECES + 1).map(|p| layout.track(p.track).cylinder.get()).collect();
        if few.len() > FEW_PIECES {
            self.cylinders.fill(0);
            self.groups.fill(0);
        } else {
            for cylinder in few {
                self.cylinders[cylinder as usize] = 0;
                self.groups[(cylinder / GROUP) as usize] = 0;
            }
        }
    }
}
