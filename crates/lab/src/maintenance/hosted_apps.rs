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

/// A sink for a backup image that counts the bytes and does not keep them.
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
pub(crate) enum HostedApp {
    Backup(Box<Backup<Rc<RefCell<Volume>>, ImageWriter<Counted>>>),
    Reorganizer(Box<Reorganizer<Volatile>>),
    Scrub(Box<Scrubber<()>>),
    Miner(Box<Miner>),
    Cache(Box<Cache>),
}

impl HostedApp {
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
pub(crate) struct HostedAppId(pub(super) usize);

/// The results of an application.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ApplicationTally {
    pub bytes: u64,
    /// The part of `bytes` that came with the foreground's accesses.
    pub with_foreground: u64,
    /// The number of runs of delivered blocks in which each block begins where the one delivered before it ends.
    pub passes: u64,
    /// The end of the block that was delivered last.
    end: Option<Lbn>,
}

#[derive(Default)]
pub(super) struct Guests {
    list: Vec<(HostedApp, ApplicationTally)>,
    owners: SessionOwners<usize>,
}

impl Guests {
    /// Starts an application. The sessions that `start` opens belong to that application.
    pub fn start<E>(
        &mut self,
        core: &mut dyn AnyCore,
        start: impl FnOnce(&mut dyn Sessions) -> Result<HostedApp, E>,
    ) -> Result<HostedAppId, E> {
        let owner = self.list.len();
        let hosted_app = start(&mut self.owners.calls_of(owner, core))?;
        self.list.push((hosted_app, ApplicationTally::default()));
        Ok(HostedAppId(owner))
    }

    pub fn get(&self, id: HostedAppId) -> Option<&HostedApp> {
        self.list.get(id.0).map(|(hosted_app, _)| hosted_app)
    }

    pub fn tally(&self, id: HostedAppId) -> ApplicationTally {
        self.list.get(id.0).map_or_else(ApplicationTally::default, |(_, tally)| *tally)
    }

    /// Lets an application make calls to the core.
    pub fn call<R>(
        &mut self,
        core: &mut dyn AnyCore,
        id: HostedAppId,
        call: impl FnOnce(&mut HostedApp, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let (hosted_app, _) = self.list.get_mut(id.0)?;
        Some(call(hosted_app, &mut self.owners.calls_of(id.0, core)))
    }

    /// Passes a background record to the application that owns its session.
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
        let Some((hosted_app, tally)) = self.list.get_mut(owner) else { return };
        tally.bytes += size.get();
        tally.with_foreground += if with_foreground { size.get() } else { 0 };
        tally.passes += u64::from(tally.end != Some(record.range.start()));
        tally.end = Some(record.range.end());
        let mut calls = self.owners.calls_of(owner, core);
        match hosted_app {
            // The delivery reports damaged pages; pages of zeros are damaged, which does not matter here.
            HostedApp::Miner(miner) => drop(miner.deliver(&mut calls, record, bytes)),
            hosted_app => {
                if let Some(application) = hosted_app.application() {
                    application.done(&mut calls, record, bytes, now);
                }
            }
        }
    }

    pub fn asker<'a>(&'a mut self, sector: Bytes, scratch: &'a mut Vec<u8>) -> Asker<'a> {
        Asker { hosted_apps: self, sector, scratch }
    }
}

/// The source of the bytes that the core writes for the applications.
pub(super) struct Asker<'a> {
    hosted_apps: &'a mut Guests,
    sector: Bytes,
    scratch: &'a mut Vec<u8>,
}

impl Buffers for Asker<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let Some(owner) = self.hosted_apps.owners.owner(wanted.session) else { return false };
        let Some((hosted_app, _)) = self.hosted_apps.list.get_mut(owner) else { return false };
        // A cache has no contents here.
        let bytes = if matches!(hosted_app, HostedApp::Cache(_)) {
            0
        } else {
            wanted.range.len().bytes(self.sector).get()
        };
        self.scratch.resize(bytes as usize, 0);
        hosted_app.application().is_some_and(|application| application.buffer(wanted, self.scratch))
    }
}
