//! The contents of the medium: a version number for each sector. Every write has a version number of its own.

use crate::failure::{Broken, Check, hold};
use std::collections::BTreeSet;
use units::{Instant, Lbn, LbnRange};

/// The health of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// The sector is unreadable until it is written.
    Bad,
    /// The sector can be neither read nor written.
    Stuck,
}

/// The origin of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// A foreground request, submitted at the event of this number.
    Foreground { submitted: u64 },
    /// A background block of a task that was registered at the event of this number.
    Background { registered: u64 },
    /// A lost command. Because its effect is unknown, writes that were waiting may still overwrite it.
    Unknown,
}

#[derive(Clone, Debug)]
struct SectorVersions {
    health: Health,
    version: u64,
    /// The time of the last read.
    read: Option<Instant>,
    /// The time of the last write.
    written: Option<Instant>,
    /// The foreground writes that were executed on the sector, as the numbers of the events that submitted them.
    foreground: BTreeSet<u64>,
    /// The background write of the current content, as the number of the event that registered it; `None` for other
    /// contents.
    background: Option<u64>,
    /// The newest acknowledged background write, as the number of the event that registered it.
    newest_background: u64,
    /// The last acknowledged version, unless a later write has replaced it legally.
    acknowledged: Option<u64>,
    /// The background writes that were executed on the sector, as the numbers of the events that registered them; empty if
    /// one write may complete several.
    landed: BTreeSet<u64>,
    /// The time of the last foreground write, or write of unknown origin.
    others: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(crate) struct VersionedMedium {
    sectors: Vec<SectorVersions>,
    /// Whether no write completes another one (`writes-serve-writes off`). In this case concurrent background writes have no
    /// order.
    separate: bool,
}

impl VersionedMedium {
    pub fn new(capacity: u64, separate: bool) -> Self {
        let sector = SectorVersions {
            health: Health::Good,
            version: 0,
            read: None,
            written: None,
            foreground: BTreeSet::new(),
            background: None,
            newest_background: 0,
            acknowledged: None,
            landed: BTreeSet::new(),
            others: None,
        };
        Self { sectors: vec![sector; capacity as usize], separate }
    }

    fn at(&self, lbn: Lbn) -> &SectorVersions {
        &self.sectors[lbn.get() as usize]
    }

    fn at_mut(&mut self, lbn: Lbn) -> &mut SectorVersions {
        &mut self.sectors[lbn.get() as usize]
    }

    pub fn health(&self, lbn: Lbn) -> Health {
        self.at(lbn).health
    }

    pub fn version(&self, lbn: Lbn) -> u64 {
        self.at(lbn).version
    }

    /// Changes a sector's content without a write.
    pub fn rot(&mut self, lbn: Lbn) {
        let sector = self.at_mut(lbn);
        sector.version |= 1 << 63;
        sector.acknowledged = None;
    }

    pub fn set_health(&mut self, lbn: Lbn, health: Health) {
        // The content of a bad sector is lost, even if it was acknowledged.
        let sector = self.at_mut(lbn);
        sector.health = health;
        if health != Health::Good {
            sector.acknowledged = None;
        }
    }

    /// Records a read at `at`. Reads may be recorded out of order, because a drive reorders commands.
    pub fn read(&mut self, lbn: Lbn, at: Instant) {
        let sector = self.at_mut(lbn);
        sector.read = sector.read.max(Some(at));
    }

    /// Executes a write. Returns false if the sector cannot be written.
    pub fn write(&mut self, lbn: Lbn, at: Instant, version: u64, author: Author) -> Result<bool, Broken> {
        let separate = self.separate;
        let sector = self.at_mut(lbn);
        if sector.health == Health::Stuck {
            return Ok(false);
        }
        match author {
            Author::Foreground { submitted } => {
                sector.foreground.insert(submitted);
                sector.background = None;
                sector.others = Some(at);
            }
            Author::Unknown => {
                sector.background = None;
                sector.others = Some(at);
            }
            Author::Background { registered } => {
                let newest = sector.newest_background;
                hold(separate || newest <= registered, Check::Older, || {
                    format!(
                        "a background write landed at LBN {lbn} after one that came later and was acknowledged"
                    )
                })?;
                sector.background = Some(registered);
                let newer = sector.foreground.last().is_some_and(|newest| *newest > registered);
                hold(!newer, Check::Older, || {
                    format!("a background write of before a foreground write landed after it at LBN {lbn}")
                })?;
            }
        }
        sector.health = Health::Good;
        sector.version = version;
        sector.written = Some(at);
        sector.acknowledged = None;
        Ok(true)
    }

    /// Records that a foreground write failed without a bad sector. Its data may be on the medium, but older writes may
    /// overwrite it.
    pub fn unknown(&mut self, range: LbnRange, submitted: u64) {
        for lbn in lbns(range) {
            self.at_mut(lbn).foreground.remove(&submitted);
        }
    }

    /// Records that these background writes, given by their events of registration, were executed. Does nothing if one write
    /// may complete several.
    pub fn carried_out(&mut self, lbn: Lbn, registered: impl Iterator<Item = u64>) {
        if self.separate {
            self.at_mut(lbn).landed.extend(registered);
        }
    }

    /// Records the acknowledgement of a foreground write, whose content must stay from now on.
    pub fn acknowledge(&mut self, range: LbnRange, version: u64) -> Result<(), Broken> {
        for lbn in lbns(range) {
            let sector = self.at_mut(lbn);
            hold(sector.version == version || sector.health != Health::Good, Check::Acknowledged, || {
                format!("a write of LBNs {range} is acknowledged, and LBN {lbn} holds something else")
            })?;
            sector.acknowledged = Some(version);
        }
        Ok(())
    }

    /// Records the acknowledgement of a foreground write that later writes may have overwritten legally by now. Where its
    /// content is still on the medium, the content must stay from now on.
    pub fn acknowledge_landed(&mut self, range: LbnRange, version: u64) -> Result<(), Broken> {
        for lbn in lbns(range) {
            let sector = self.at_mut(lbn);
            if sector.version == version && sector.health == Health::Good {
                sector.acknowledged = Some(version);
            }
            hold(sector.written.is_some(), Check::Acknowledged, || {
                format!("a write of LBNs {range} is acknowledged, and LBN {lbn} was never written")
            })?;
        }
        Ok(())
    }

    /// Records the acknowledgement of a background write, given by its event of registration. Where its content is on the
    /// medium, no background write that was registered earlier may overwrite it.
    pub fn acknowledge_background(&mut self, range: LbnRange, registered: u64) {
        for lbn in lbns(range) {
            let sector = self.at_mut(lbn);
            if sector.background == Some(registered) {
                sector.newest_background = sector.newest_background.max(registered);
            }
        }
    }

    /// Returns the first sector of `range` on which neither this background write nor, since `since`, a foreground write was
    /// executed; `None` if one write may complete several.
    pub fn not_carried_out(&self, range: LbnRange, since: Instant, registered: u64) -> Option<Lbn> {
        lbns(range).filter(|_| self.separate).find(|&lbn| {
            let sector = self.at(lbn);
            sector.others.is_none_or(|at| at < since) && !sector.landed.contains(&registered)
        })
    }

    /// Checks that all acknowledged contents are still on the medium.
    pub fn check_acknowledged(&self) -> Result<(), Broken> {
        for (lbn, sector) in self.sectors.iter().enumerate() {
            let kept = sector.acknowledged.is_none_or(|version| version == sector.version);
            hold(kept, Check::Acknowledged, || format!("an acknowledged write of LBN {lbn} is gone"))?;
        }
        Ok(())
    }

    /// Returns the first sector of `range` that was not read since `since`. With `writes`, a write counts as a read.
    pub fn unread_since(&self, range: LbnRange, since: Instant, writes: bool) -> Option<Lbn> {
        lbns(range).find(|&lbn| {
            let sector = self.at(lbn);
            let read = sector.read.is_some_and(|at| at >= since);
            let written = writes && sector.written.is_some_and(|at| at >= since);
            !read && !written
        })
    }

    /// Returns the first sector of `range` that was not written since `since`.
    pub fn unwritten_since(&self, range: LbnRange, since: Instant) -> Option<Lbn> {
        lbns(range).find(|&lbn| self.at(lbn).written.is_none_or(|at| at < since))
    }
}

/// Returns the LBNs of a range.
pub(crate) fn lbns(range: LbnRange) -> impl Iterator<Item = Lbn> {
    (range.start().get()..range.end().get()).map(Lbn::new)
}
