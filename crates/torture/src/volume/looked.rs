//! Checks after every step that every sector of the medium has its acknowledged content, or a newer one.
//!
//! A sector is not checked again if neither its bytes, nor its place on the medium, nor its oldest permitted version has
//! changed since the last check. To find changes, all bytes of the medium are compared with a copy from the last check, so
//! that the reports of writers need not be trusted.

use super::{House, Part, refused};
use crate::clients::range;
use crate::failure::{Broken, Check, hold};
use units::{Lbn, LbnRange, Sectors};

/// The number of sectors that are compared at once. If they differ, they are compared one by one.
const COMPARED_SECTORS: usize = 64;

/// The place on the medium and the oldest permitted version of a sector at its last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judged {
    place: Lbn,
    floor: u64,
}

/// The medium at the last check.
#[derive(Clone, Debug, Default)]
pub(super) struct Looked {
    bytes: Vec<u8>,
    /// The last check of each sector, by the client's address; `None` if the sector had no required content.
    judged: Vec<Option<Judged>>,
}

/// A required content of the medium: the client's address of a sector, its place, its oldest permitted version (`None`: any
/// content), and the checker that fails otherwise.
pub(super) struct Due {
    pub of: Lbn,
    pub place: Lbn,
    pub floor: Option<u64>,
    pub check: Check,
}

impl House {
    /// Checks that every sector of the medium has its acknowledged content, or a newer one. Bad sectors are not checked.
    pub(super) fn check_medium(&mut self) -> Result<(), Broken> {
        let dues = self.dues()?;
        let all = range(0, self.drive.layout().capacity().get());
        let sectors = all.len().get() as usize;
        let mut bytes = vec![0; sectors * self.sector];
        self.volume.platters().medium().read(all, &mut bytes).map_err(refused)?;
        let mut before = std::mem::take(&mut self.looked);
        let first = before.bytes.len() != bytes.len();
        let changed = if first { vec![true; sectors] } else { changed(&before.bytes, &bytes, self.sector) };
        before.judged.resize(sectors, None);
        let bad: std::collections::BTreeSet<Lbn> = self.volume.platters().bad().map(|(lbn, _)| lbn).collect();
        let mut judged = vec![None; sectors];
        for Due { of, place, floor, check } in dues {
            let Some(floor) = floor.filter(|_| !bad.contains(&place)) else { continue };
            let (at, lies) = (of.get() as usize, place.get() as usize);
            let now = Judged { place, floor };
            if changed[lies] || before.judged[at] != Some(now) {
                let one = LbnRange::new(of, Sectors::new(1));
                let held = &bytes[lies * self.sector..(lies + 1) * self.sector];
                let wrong = self.shadow.wrong(one, held, &[Some(floor)]);
                hold(wrong.is_none(), check, || wrong.unwrap_or_default())?;
            }
            judged[at] = Some(now);
        }
        self.looked = Looked { bytes, judged };
        self.check_plan()
    }

    /// Returns the required contents of the medium.
    fn dues(&self) -> Result<Vec<Due>, Broken> {
        let mut dues = Vec::new();
        let mut straight = |part: LbnRange, floors: &[Option<u64>], check| {
            for (of, floor) in super::lbns(part).zip(floors) {
                dues.push(Due { of, place: of, floor: *floor, check });
            }
        };
        let plain = self.range_of(Part::Plain);
        if !self.is_logged(Part::Plain) {
            straight(plain, &self.shadow.floors(plain), Check::Acknowledged);
        }
        straight(self.range_of(Part::Cached), self.cached.flushed(), Check::Flushed);
        let snapshots = self.range_of(Part::Snapshots).start();
        for (part, place) in
            self.snapshots.places(LbnRange::new(snapshots, self.snapshots.end().since(snapshots)))
        {
            for ((of, place), floor) in
                super::lbns(part).zip(super::lbns(place)).zip(self.shadow.floors(part))
            {
                dues.push(Due { of, place, floor, check: Check::Acknowledged });
            }
        }
        self.moved_dues(&mut dues)?;
        Ok(dues)
    }
}

/// Returns for each sector whether its bytes differ.
fn changed(before: &[u8], now: &[u8], sector: usize) -> Vec<bool> {
    let mut changed = Vec::with_capacity(now.len() / sector.max(1));
    for (before, now) in before.chunks(sector * COMPARED_SECTORS).zip(now.chunks(sector * COMPARED_SECTORS)) {
        let each = before.chunks(sector).zip(now.chunks(sector));
        if before == now {
            changed.extend(each.map(|_| false));
        } else {
            changed.extend(each.map(|(before, now)| before != now));
        }
    }
    changed
}
