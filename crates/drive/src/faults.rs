//! Defects of the medium that are not in the profile: sectors that were moved to spare ones, and unreadable sectors.

use crate::behaviour::BadSectors;
use crate::dice::{Component, Dice};
use model::profile::{Profile, Remap};
use model::{DriveModel, Layout, Location, Position, ProfileError};
use std::collections::{BTreeMap, BTreeSet};
use units::{Lbn, LbnRange, Sectors, TrackIndex};

/// Returns the profile with `count` sectors moved to spare sectors, and the LBNs that were moved, in ascending order. Fewer
/// are moved if the spare sectors are used up.
pub(crate) fn grow(profile: &Profile, count: u32, seed: u64) -> Result<(Profile, Vec<Lbn>), ProfileError> {
    let model = DriveModel::from_profile(profile)?;
    let layout = model.layout();
    let mut profile = profile.clone();
    let mut dice = Dice::new(seed, Component::GrownDefects);
    let before = profile.layout.remaps.clone();
    let mut moved = BTreeSet::new();
    let mut spares = Spares::new(layout);
    for _ in 0..count {
        let lbn = Lbn::new(dice.below(layout.capacity().get()));
        let Some(at) = layout.locate(lbn) else { continue };
        // An LBN that was already moved is not moved again, because a profile must not list it twice.
        if moved.contains(&lbn) || is_moved(&before, layout, lbn, at) {
            continue;
        }
        let Some(to) = spares.take_after(at.track) else { break };
        let place = Position::from(layout.track(to.track));
        profile.layout.remaps.push(Remap {
            lbn: lbn.get(),
            sectors: 1,
            cylinder: place.cylinder.get(),
            head: place.head.get(),
            sector: to.sector,
        });
        moved.insert(lbn);
    }
    Ok((profile, moved.into_iter().collect()))
}

/// Returns whether the profile has moved this LBN. `remaps` lists some moved LBNs; an LBN that a zone's list of defects moved
/// is recognised because its neighbours on the track have no consecutive LBNs.
fn is_moved(remaps: &[Remap], layout: &Layout, lbn: Lbn, at: Location) -> bool {
    let listed = |r: &Remap| (r.lbn..r.lbn.saturating_add(u64::from(r.sectors))).contains(&lbn.get());
    let sector = at.sector;
    let with_neighbours =
        layout.extents(at.track).any(|e| e.len > 1 && (e.sector..e.sector + e.len).contains(&sector));
    remaps.iter().any(listed) || !with_neighbours
}

/// The spare sectors of a drive: sectors without LBNs. A single such sector between others is not counted, because it may be
/// a bad sector that the LBNs skip.
struct Spares<'a> {
    layout: &'a Layout,
    taken: BTreeSet<(TrackIndex, u32)>,
    /// Runs of tracks that are known to have no spare sectors, as first track and end. Without them a search would visit
    /// many tracks, because many drives have spare sectors in few places only.
    bare: BTreeMap<u32, u32>,
}

impl<'a> Spares<'a> {
    fn new(layout: &'a Layout) -> Self {
        Self { layout, taken: BTreeSet::new(), bare: BTreeMap::new() }
    }

    /// Takes a spare sector on the first track from `track` on that has several, or else on the last such track before
    /// `track`.
    fn take_after(&mut self, track: TrackIndex) -> Option<Location> {
        let mut at = track.get();
        while at < self.layout.track_count() {
            match self.bare_at(at) {
                Some((_, end)) => at = end,
                None => match self.take_on(at) {
                    Some(found) => return Some(found),
                    None => at += 1,
                },
            }
        }
        at = track.get();
        while at > 0 {
            match self.bare_at(at - 1) {
                Some((first, _)) => at = first,
                None => match self.take_on(at - 1) {
                    Some(found) => return Some(found),
                    None => at -= 1,
                },
            }
        }
        None
    }

    fn take_on(&mut self, track: u32) -> Option<Location> {
        let found = self.on(TrackIndex::new(track));
        match found {
            Some(Location { track, sector }) => {
                self.taken.insert((track, sector));
            }
            None => self.mark_bare(track),
        }
        found
    }

    fn on(&self, track: TrackIndex) -> Option<Location> {
        let sectors = self.layout.track(track).sectors;
        let used: u32 = self.layout.extents(track).map(|extent| extent.len).sum();
        let gone = self.taken.range((track, 0)..=(track, u32::MAX)).count() as u32;
        if used + gone + 1 >= sectors {
            return None;
        }
        let empty = |sector: u32| self.layout.lbn_at(Location { track, sector }).is_none();
        (1..sectors)
            .find(|&s| empty(s) && empty(s - 1) && !self.taken.contains(&(track, s)))
            .map(|sector| Location { track, sector })
    }

    fn bare_at(&self, track: u32) -> Option<(u32, u32)> {
        let (&first, &end) = self.bare.range(..=track).next_back()?;
        (track < end).then_some((first, end))
    }

    /// Marks a track as one without spare sectors. Adjacent runs are merged.
    fn mark_bare(&mut self, track: u32) {
        let end = self.bare.remove(&(track + 1)).unwrap_or(track + 1);
        match track.checked_sub(1).and_then(|before| self.bare_at(before)) {
            Some((first, _)) => self.bare.insert(first, end),
            None => self.bare.insert(track, end),
        };
    }
}

/// The unreadable sectors. Each becomes readable when it is written.
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

    /// Makes written sectors readable again.
    pub(crate) fn mend(&mut self, range: LbnRange) {
        while let Some(lbn) = self.first_in(range) {
            self.lbns.remove(&lbn);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Lbn> + '_ {
        self.lbns.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::builtin;

    /// Returns the spare sector that [`Spares::take_after`] must find, by a search of all tracks.
    fn looked_for(spares: &Spares<'_>, track: TrackIndex) -> Option<Location> {
        let here = track.get();
        let tracks = (here..spares.layout.track_count()).chain((0..here).rev());
        tracks.map(TrackIndex::new).find_map(|track| spares.on(track))
    }

    #[test]
    fn the_nearest_spare_sector_is_found_until_there_is_none() {
        let small = Profile::from_toml(include_str!("../tests/data/small.toml"), "small.toml").unwrap();
        for (profile, most) in [(small, u32::MAX), (builtin::find("quantum-atlas-10k").unwrap(), 1_000)] {
            let model = DriveModel::from_profile(&profile).unwrap();
            let mut spares = Spares::new(model.layout());
            let mut dice = Dice::new(7, Component::GrownDefects);
            for n in 0..most {
                let track = dice.below(model.layout().track_count().into());
                let track = TrackIndex::new(u32::try_from(track).unwrap());
                let expected = looked_for(&spares, track);
                assert_eq!(spares.take_after(track), expected, "the {n}th");
                if expected.is_none() {
                    assert!(n > 0, "it has spare sectors");
                    break;
                }
            }
        }
    }
}
