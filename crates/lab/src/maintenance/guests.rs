//! The applications of a host, and the owners of sessions.

use apps::backup::{Backup, ImageWriter, Sink};
use apps::reorganizer::{Reorganizer, Volatile};
use apps::scrub::Scrubber;
use apps::snapshot::Volume;
use lab_apps::cache::Cache;
use lab_apps::miner::Miner;
use scheduler::{AnyCore, Application, Buffers, Record, SessionOwners, Sessions, Wanted};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Instant, Lbn};

/// An image that is counted and not kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub bytes: u64,
}

impl Sink for Counted {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// An application.
pub(crate) enum Guest {
    Backup(Box<Backup<Rc<RefCell<Volume>>, ImageWriter<Counted>>>),
    Reorganizer(Box<Reorganizer<Volatile>>),
    Scrub(Box<Scrubber<()>>),
    Miner(Box<Miner>),
    Cache(Box<Cache>),
}

impl Guest {
    fn application(&mut self) -> Option<&mut dyn Application> {
        Some(match self {
            Self::Backup(backup) => &mut **backup,
            Self::Reorganizer(reorganizer) => &mut **reorganizer,
            Self::Scrub(scrub) => &mut **scrub,
            Self::Cache(cache) => &mut **cache,
            Self::Miner(_) => return None,
        })
    }
}

/// The index of one of a host's applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GuestId(pub(super) usize);

/// The results of an application.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ApplicationTally {
    pub bytes: u64,
    /// The part of them from accesses that the foreground had requested.
    pub with_foreground: u64,
    /// Runs of blocks in the order of the drive, each right behind the last.
    pub passes: u64,
    /// The end of the last block.
    end: Option<Lbn>,
}

#[derive(Default)]
pub(super) struct Guests {
    list: Vec<(Guest, ApplicationTally)>,
    owners: SessionOwners<usize>,
}

impl Guests {
    /// Starts an application by calls that will be its own.
    pub fn start<E>(
        &mut self,
        core: &mut dyn AnyCore,
        start: impl FnOnce(&mut dyn Sessions) -> Result<Guest, E>,
    ) -> Result<GuestId, E> {
        let owner = self.list.len();
        let guest = start(&mut self.owners.calls_of(owner, core))?;
        self.list.push((guest, ApplicationTally::default()));
        Ok(GuestId(owner))
    }

    pub fn get(&self, id: GuestId) -> Option<&Guest> {
        self.list.get(id.0).map(|(guest, _)| guest)
    }

    pub fn tally(&self, id: GuestId) -> ApplicationTally {
        self.list.get(id.0).map_or_else(ApplicationTally::default, |(_, tally)| *tally)
    }

    /// Lets an application make calls.
    pub fn call<R>(
        &mut self,
        core: &mut dyn AnyCore,
        id: GuestId,
        call: impl FnOnce(&mut Guest, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let (guest, _) = self.list.get_mut(id.0)?;
        Some(call(guest, &mut self.owners.calls_of(id.0, core)))
    }

    /// Passes a record to its owner.
    pub fn done(
        &mut self,
        core: &mut dyn AnyCore,
        record: &Record,
        bytes: &[u8],
        size: Bytes,
        with_foreground: bool,
        now: Instant,
    ) {
        let Some(owner) = self.owners.owner(record.session) else { return };
        let Some((guest, tally)) = self.list.get_mut(owner) else { return };
        tally.bytes += size.get();
        tally.with_foreground += if with_foreground { size.get() } else { 0 };
        tally.passes += u64::from(tally.end != Some(record.range.start()));
        tally.end = Some(record.range.end());
        let mut calls = self.owners.calls_of(owner, core);
        match guest {
            // The delivery reports damaged pages; pages of zeros are damaged, which does not matter here.
            Guest::Miner(miner) => drop(miner.deliver(&mut calls, record, bytes)),
            guest => {
                if let Some(application) = guest.application() {
                    application.done(&mut calls, record, bytes, now);
                }
            }
        }
    }

    pub fn asker<'a>(&'a mut self, sector: Bytes, scratch: &'a mut Vec<u8>) -> Asker<'a> {
        Asker { guests: self, sector, scratch }
    }
}

/// The buffers of the core, filled by the applications.
pub(super) struct Asker<'a> {
    guests: &'a mut Guests,
    sector: Bytes,
    scratch: &'a mut Vec<u8>,
}

impl Buffers for Asker<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let Some(owner) = self.guests.owners.owner(wanted.session) else { return false };
        let Some((guest, _)) = self.guests.list.get_mut(owner) else { return false };
        // A cache has no contents here.
        let bytes =
            if matches!(guest, Guest::Cache(_)) { 0 } else { wanted.range.len().bytes(self.sector).get() };
        self.scratch.resize(bytes as usize, 0);
        guest.application().is_some_and(|application| application.buffer(wanted, self.scratch))
    }
}
