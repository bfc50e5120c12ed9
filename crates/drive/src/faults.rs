//! What grew wrong on the medium since the profile was written.

use crate::behaviour::BadSectors;
use crate::dice::{Component, Dice};
use model::profile::{Profile, Remap};
use model::{DriveModel, Layout, Location, Position, ProfileError};
use std::collections::BTreeSet;
use units::{Lbn, LbnRange, Sectors, TrackIndex};

/// The profile with `count` sectors moved to spare ones, and their LBNs, ascending. Fewer when spare sectors run out.
pub(crate) fn grow(profile: &Profile, count: u32, seed: u64) -> Result<(Profile, Vec<Lbn>), ProfileError> {
    let model = DriveModel::from_profile(profile)?;
    let layout = model.layout();
    let mut profile = profile.clone();
    let mut dice = Dice::new(seed, Component::GrownDefects);
    let before = profile.layout.remaps.clone();
    let mut moved = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for _ in 0..count {
        let lbn = Lbn::new(dice.below(layout.capacity().get()));
        let Some(at) = layout.locate(lbn) else { continue };
        // What was moved before is not moved again: the file would name it twice.
        if moved.contains(&lbn) || is_moved(&before, layout, lbn, at) {
            continue;
        }
        let Some(to) = spare_after(layout, at.track, &taken) else { break };
        let place = Position::from(layout.track(to.track));
        profile.layout.remaps.push(Remap {
            lbn: lbn.get(),
            sectors: 1,
            cylinder: place.cylinder.get(),
            head: place.head.get(),
            sector: to.sector,
        });
        moved.insert(lbn);
        taken.insert((to.track, to.sector));
    }
    Ok((profile, moved.into_iter().collect()))
}

/// Whether the file lists this LBN as moved. One that a zone's own list moved stands alone on its track.
fn is_moved(remaps: &[Remap], layout: &Layout, lbn: Lbn, at: Location) -> bool {
    let listed = |r: &Remap| (r.lbn..r.lbn.saturating_add(u64::from(r.sectors))).contains(&lbn.get());
    let sector = at.sector;
    let with_neighbours =
        layout.extents(at.track).any(|e| e.len > 1 && (e.sector..e.sector + e.len).contains(&sector));
    remaps.iter().any(listed) || !with_neighbours
}

/// A sector without LBN, on the nearest track behind `track` that has several, or else on the nearest before. A
/// single one is a bad sector that LBNs step over.
fn spare_after(layout: &Layout, track: TrackIndex, taken: &BTreeSet<(TrackIndex, u32)>) -> Option<Location> {
    let here = track.get();
    (here..layout.track_count()).chain((0..here).rev()).map(TrackIndex::new).find_map(|track| {
        let sectors = layout.track(track).sectors;
        let used: u32 = layout.extents(track).map(|extent| extent.len).sum();
        let gone = taken.range((track, 0)..=(track, u32::MAX)).count() as u32;
        if used + gone + 1 >= sectors {
            return None;
        }
        let empty = |sector: u32| layout.lbn_at(Location { track, sector }).is_none();
        (1..sectors)
            .find(|&s| empty(s) && empty(s - 1) && !taken.contains(&(track, s)))
            .map(|sector| Location { track, sector })
    })
}

/// Sectors that cannot be read until they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unreadable {
    lbns: BTreeSet<Lbn>,
    pub(crate) retries: u32,
}

impl Unreadable {
    pub(crate) fn new(bad: Option<BadSectors>, capacity: Sectors, seed: u64) -> Self {
        let Some(bad) = bad else { return Self { lbns: BTreeSet::new(), retries: 8 } };
        let mut dice = Dice::new(seed, Component::BadSectors);
        let lbns = (0..bad.count).map(|_| Lbn::new(dice.below(capacity.get()))).collect();
        Self { lbns, retries: bad.retries }
    }

    pub(crate) fn first_in(&self, range: LbnRange) -> Option<Lbn> {
        if self.lbns.is_empty() {
            return None;
        }
        self.lbns.range(range.start()..range.end()).next().copied()
    }

    pub(crate) fn damage(&mut self, range: LbnRange) {
        self.lbns.extend((range.start().get()..range.end().get()).map(Lbn::new));
    }

    /// A write gives the sector a new life.
    pub(crate) fn mend(&mut self, range: LbnRange) {
        while let Some(lbn) = self.first_in(range) {
            self.lbns.remove(&lbn);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Lbn> + '_ {
        self.lbns.iter().copied()
    }
}
