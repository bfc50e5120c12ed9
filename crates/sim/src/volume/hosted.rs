//! Applications in a volume, their sessions, and their buffers.

use scheduler::{AnyCore, Application, Buffers, Given, Record, SessionOwners, Sessions, Wanted, Watched};
use std::any::Any;
use std::marker::PhantomData;
use units::{Bytes, Instant};

/// An application that a volume can host: any that owns its data.
pub trait Hosted: Application + Any {}

impl<T: Application + Any> Hosted for T {}

/// The handle of an application in a volume.
pub struct Place<T> {
    pub(super) index: usize,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

/// The results of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Finished blocks, failed ones included.
    pub blocks: u64,
    /// Bytes of the blocks that were read or written without error.
    pub bytes: u64,
    /// Blocks with bad sectors.
    pub failed: u64,
}

#[derive(Default)]
pub(super) struct Apps {
    apps: Vec<(Box<dyn Hosted>, Tally)>,
    /// Whether an application made a session call since the core was last polled.
    pub stirred: bool,
    owners: SessionOwners<usize>,
}

impl Apps {
    pub fn add(&mut self, app: Box<dyn Hosted>) -> usize {
        self.apps.push((app, Tally::default()));
        self.apps.len() - 1
    }

    pub fn get<T: Application + Any>(&self, place: Place<T>) -> Option<&T> {
        let app: &dyn Any = &*self.apps.get(place.index)?.0;
        app.downcast_ref()
    }

    pub fn tally(&self, index: usize) -> Tally {
        self.apps.get(index).map_or_else(Tally::default, |(_, tally)| *tally)
    }

    /// Lets an application make calls.
    pub fn call<T: Application + Any, R>(
        &mut self,
        core: &mut dyn AnyCore,
        place: Place<T>,
        call: impl FnOnce(&mut T, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let Self { apps, stirred, owners } = self;
        let app: &mut dyn Any = &mut *apps.get_mut(place.index)?.0;
        let app = app.downcast_mut()?;
        let mut calls = owners.calls_of(place.index, core);
        Some(call(app, &mut Watched::new(&mut calls, |_, answer| *stirred |= answer.is_ok())))
    }

    /// Passes a record to the application that opened the record's session.
    pub fn done(&mut self, core: &mut dyn AnyCore, record: &Record, bytes: &[u8], size: Bytes, now: Instant) {
        let Self { apps, stirred, owners } = self;
        let Some(index) = owners.owner(record.session) else { return };
        let Some((app, tally)) = apps.get_mut(index) else { return };
        tally.blocks += 1;
        match record.bad {
            None => tally.bytes += size.get(),
            Some(_) => tally.failed += 1,
        }
        let mut calls = owners.calls_of(index, core);
        let mut calls = Watched::new(&mut calls, |_, answer| *stirred |= answer.is_ok());
        app.done(&mut calls, record, bytes, now);
    }
}

/// Asks applications for the bytes of the core's next writes, and keeps them.
pub(super) struct Asker<'a> {
    pub apps: &'a mut Apps,
    pub given: &'a mut Given,
    pub sector: Bytes,
    /// Whether no bytes were requested yet for the core's current decision, so that the stored bytes belong to its
    /// preceding one.
    pub fresh: bool,
}

impl Buffers for Asker<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        if std::mem::take(&mut self.fresh) {
            self.given.clear();
        }
        let Apps { apps, owners, .. } = &mut *self.apps;
        let app = owners.owner(wanted.session).and_then(|at| apps.get_mut(at));
        let Some((app, _)) = app else { return false };
        let mut bytes = vec![0; wanted.range.len().bytes(self.sector).get() as usize];
        let has = app.buffer(wanted, &mut bytes);
        if has {
            self.given.push(wanted.range, bytes);
        }
        has
    }
}
