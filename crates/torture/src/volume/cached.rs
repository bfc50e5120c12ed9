//! The part of the drive behind a write-back cache. Reads must return acknowledged writes, and flushed data must be on the
//! medium.

use super::seat::Seat;
use super::shadow::Floors;
use super::{House, Part, Whose, refused};
use crate::dice::Dice;
use crate::failure::{Broken, Check, hold};
use crate::medium::lbns;
use lab_apps::cache::{
    Action, Cache, CallId, Config, Failure, Force, NoHead, Replacement, Syncer, Watermarks,
};
use scheduler::Priority;
use sim::{Completion, Place, Volume};
use std::collections::BTreeMap;
use units::{Duration, Instant, LbnRange, Op, RequestId, Sectors};

/// A call that the cache has not answered.
#[derive(Debug)]
enum CacheCall {
    /// A read, with the oldest permitted content of each sector.
    Read(LbnRange, Floors),
    /// A write with its version, and the ranges that were trimmed before its answer.
    Write(LbnRange, u64, Vec<LbnRange>),
    /// A flush, with the acknowledged content of each sector at the start of the flush.
    Flush(Floors),
}

pub(super) struct Cached {
    place: Place<Seat<Cache>>,
    config: Config,
    range: LbnRange,
    /// Whether the memory of the cache survives a power cut.
    survives: bool,
    calls: BTreeMap<CallId, (Instant, CacheCall)>,
    /// The content of each sector that must be on the medium, because it was flushed.
    flushed: Floors,
    suspended: bool,
}

impl Cached {
    pub fn new(volume: &mut Volume, range: LbnRange, dice: &mut Dice) -> Result<Self, Broken> {
        let buffers = dice.range(1, 30) as usize;
        let high = dice.range(1, buffers as u64 + 1) as usize;
        let mut config =
            Config::new(range, Sectors::new(dice.range(1, 16)), volume.drive().sector_bytes(), buffers);
        config.replacement = match dice.below(3) {
            0 => Replacement::Lru,
            1 => Replacement::SptfEvict,
            _ => Replacement::FreeClean,
        };
        config.watermarks = Watermarks { low: dice.below(high as u64) as usize, high };
        let syncer =
            Syncer { age: Duration::from_millis(dice.range(0, 3_000)), every: Duration::from_millis(100) };
        config.syncer = dice.one_in(2).then_some(syncer);
        config.cleaner = (!dice.one_in(6)).then(Priority::default);
        config.force = if dice.one_in(4) { Force::Submit } else { Force::Promote };
        config.daemon_outstanding = if dice.one_in(2) { usize::MAX } else { dice.range(1, 4) as usize };
        let survives = dice.one_in(2);
        let place = volume.host(Seat(None));
        let flushed = vec![Some(0); range.len().get() as usize];
        let cached =
            Self { place, config, range, survives, calls: BTreeMap::new(), flushed, suspended: false };
        cached.start(volume, &[])?;
        Ok(cached)
    }

    /// Returns the slot of the cache in the volume.
    pub fn place(&self) -> Place<Seat<Cache>> {
        self.place
    }

    pub fn drawn(&self) -> String {
        format!("{:?} {}", self.config, self.survives)
    }

    fn start(&self, volume: &mut Volume, contents: &[(LbnRange, Vec<u8>)]) -> Result<(), Broken> {
        let (now, config) = (volume.now(), self.config);
        let contents = contents.iter().map(|(range, bytes)| (*range, bytes.as_slice()));
        let begun = volume.call(self.place, |seat, sessions| {
            Cache::recover(config, contents, sessions, now).map(|cache| seat.0 = Some(cache))
        });
        begun.unwrap_or(Ok(())).map_err(refused)
    }

    pub fn cache<'a>(&self, volume: &'a Volume) -> Option<&'a Cache> {
        volume.app(self.place)?.0.as_ref()
    }

    fn with<R>(&self, volume: &mut Volume, call: impl FnOnce(&mut Cache) -> R) -> Option<R> {
        volume.call(self.place, |seat, _| seat.0.as_mut().map(call)).flatten()
    }

    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the start of the oldest unanswered call; `None` while the cleaner is suspended, because a call may then wait
    /// without limit.
    pub fn oldest(&self) -> Option<Instant> {
        self.calls.values().map(|(at, _)| *at).min().filter(|_| !self.suspended)
    }

    pub fn flushed(&self) -> &[Option<u64>] {
        &self.flushed
    }

    /// Returns the content of the cache's memory after a power cut; nothing if the memory does not survive.
    pub fn contents(&self, volume: &Volume) -> Vec<(LbnRange, Vec<u8>)> {
        let kept = self.cache(volume).filter(|_| self.survives);
        kept.into_iter().flat_map(|c| c.contents()).map(|(range, bytes)| (range, bytes.to_vec())).collect()
    }

    pub fn suspend(&mut self, volume: &mut Volume, on: bool) -> Result<(), Broken> {
        let Some(session) = self.cache(volume).and_then(|cache| cache.session()) else { return Ok(()) };
        self.suspended = on;
        // The waiting times of the calls are measured from now on.
        let now = volume.now();
        self.calls.values_mut().for_each(|(at, _)| *at = now);
        let reported =
            volume.call(
                self.place,
                |_, sessions| {
                    if on { sessions.suspend(session) } else { sessions.resume(session) }
                },
            );
        reported.unwrap_or(Ok(())).map_err(refused)
    }

    fn at(&self, range: LbnRange) -> std::ops::Range<usize> {
        let from = range.start().since(self.range.start()).get() as usize;
        from..from + range.len().get() as usize
    }
}

impl House {
    pub(super) fn call(&mut self, op: Op, range: LbnRange) -> Result<(), Broken> {
        let now = self.now();
        let bytes = self.shadow.next_bytes(range);
        let reported = self.cached.with(&mut self.volume, |cache| match op {
            Op::Read => cache.read(range, now),
            Op::Write => cache.write(range, bytes, now),
        });
        let Some(reported) = reported else { return Ok(()) };
        let call = match op {
            Op::Read => CacheCall::Read(range, self.shadow.floors(range)),
            Op::Write => CacheCall::Write(range, self.shadow.issue(range), Vec::new()),
        };
        self.cached.calls.insert(reported.map_err(refused)?, (now, call));
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Broken> {
        let floors = self.shadow.floors(self.cached.range);
        let Some(reported) = self.cached.with(&mut self.volume, Cache::flush) else { return Ok(()) };
        let now = self.now();
        self.cached.calls.insert(reported.map_err(refused)?, (now, CacheCall::Flush(floors)));
        Ok(())
    }

    /// Trims a range of the part behind the cache, after which any content of it is permitted, also for unanswered calls.
    pub(super) fn trim(&mut self, part: Part, range: LbnRange) -> Result<(), Broken> {
        if part != Part::Cached || range.is_empty() {
            return Ok(());
        }
        let Some(reported) = self.cached.with(&mut self.volume, |cache| cache.trim(range)) else {
            return Ok(());
        };
        reported.map_err(refused)?;
        self.shadow.forget(range);
        let at = self.cached.at(range);
        self.cached.flushed[at.clone()].fill(None);
        for (_, call) in self.cached.calls.values_mut() {
            match call {
                CacheCall::Flush(floors) => floors[at.clone()].fill(None),
                CacheCall::Read(of, floors) => {
                    lbns(*of).zip(floors).filter(|(l, _)| range.contains(*l)).for_each(|(_, f)| *f = None);
                }
                CacheCall::Write(_, _, trimmed) => trimmed.push(range),
            }
        }
        Ok(())
    }

    /// Executes the actions of the cache until it has none. Returns whether there was any.
    pub(super) fn poll_cache(&mut self) -> Result<bool, Broken> {
        let now = self.now();
        let mut did = false;
        loop {
            let polled = self.volume.call(self.cached.place, |seat, sessions| {
                seat.0.as_mut().and_then(|cache| cache.poll(sessions, &NoHead, now))
            });
            let Some(action) = polled.flatten() else { return Ok(did) };
            did = true;
            match action {
                Action::Submit(request) => {
                    let reported = if request.op.is_write() {
                        let mut bytes = vec![0; request.range.len().get() as usize * self.sector];
                        let asked = self.cached.with(&mut self.volume, |cache| {
                            cache.bytes(request.id, request.range, &mut bytes)
                        });
                        asked.unwrap_or(Ok(())).map_err(refused)?;
                        self.volume.submit_write(request.range, bytes)
                    } else {
                        self.volume.submit_read(request.range)
                    };
                    self.requests.insert(reported.map_err(refused)?, Whose::Cache(request.id));
                }
                Action::Answer { call, result } => self.answered(call, result)?,
                Action::WriteFailed { range, .. } => {
                    let reported = self.is_spoilt(Part::Cached);
                    hold(reported, Check::Bad, || format!("{range} cannot be written, and was never bad"))?;
                }
            }
        }
    }

    pub(super) fn cache_completed(&mut self, id: RequestId, done: &Completion) -> Result<(), Broken> {
        let result = done.bad.map_or(Ok(done.bytes.as_slice()), Err);
        let now = self.now();
        let reported = self.cached.with(&mut self.volume, |cache| cache.completed(id, result, now));
        reported.unwrap_or(Ok(())).map_err(refused)
    }

    fn answered(&mut self, id: CallId, result: Result<Vec<u8>, Failure>) -> Result<(), Broken> {
        self.hash.add(id.get());
        let Some((_, call)) = self.cached.calls.remove(&id) else {
            return Err((Check::Once, format!("{id:?} is answered, but is not outstanding")));
        };
        self.counts.calls += 1;
        if let Err(failure) = result {
            return hold(self.is_spoilt(Part::Cached), Check::Bad, || {
                format!("{call:?} fails with {failure}, and nothing was ever bad")
            });
        }
        let bytes = result.unwrap_or_default();
        match call {
            CacheCall::Read(range, floors) => {
                let wrong = self.shadow.wrong(range, &bytes, &floors);
                hold(wrong.is_none(), Check::Stale, || {
                    format!("a read of {range} gets {} from the cache", wrong.unwrap_or_default())
                })
            }
            CacheCall::Write(range, version, trimmed) => {
                for lbn in lbns(range).filter(|lbn| !trimmed.iter().any(|range| range.contains(*lbn))) {
                    self.shadow.acknowledge(LbnRange::new(lbn, Sectors::new(1)), version);
                }
                Ok(())
            }
            CacheCall::Flush(floors) => {
                self.counts.flushes += 1;
                for (flushed, floor) in self.cached.flushed.iter_mut().zip(floors) {
                    // A sector that was trimmed since the start of the flush has no required content.
                    *flushed = floor.map(|floor| flushed.map_or(floor, |f| f.max(floor)));
                }
                Ok(())
            }
        }
    }

    /// Restarts the cache after a power cut. Checks that flushed data is on the medium, and, if the cache's memory
    /// survives, that acknowledged data is on the medium or in this memory.
    pub(super) fn cache_restarts(&mut self, contents: Vec<(LbnRange, Vec<u8>)>) -> Result<(), Broken> {
        let range = self.cached.range;
        self.cached.calls.clear();
        self.cached.suspended = false;
        self.check_place(range, range, &self.cached.flushed, Check::Flushed)?;
        let mut bytes = vec![0; range.len().get() as usize * self.sector];
        self.volume.platters().medium().read(range, &mut bytes).map_err(refused)?;
        for (of, kept) in &contents {
            let from = of.start().since(range.start()).get() as usize * self.sector;
            bytes[from..from + kept.len()].copy_from_slice(kept);
        }
        if self.cached.survives {
            let mut floors = self.shadow.floors(range);
            for (bad, _) in self.volume.platters().bad().filter(|(bad, _)| range.contains(*bad)) {
                floors[bad.since(range.start()).get() as usize] = None;
            }
            let wrong = self.shadow.wrong(range, &bytes, &floors);
            hold(wrong.is_none(), Check::Flushed, || {
                format!("the cache's memory survives, and {}", wrong.unwrap_or_default())
            })?;
        }
        for (lbn, bytes) in lbns(range).zip(bytes.chunks(self.sector)) {
            match self.shadow.version(lbn, bytes) {
                Some(version) if self.shadow.floors(LbnRange::new(lbn, Sectors::new(1)))[0].is_some() => {
                    self.shadow.set_back(lbn, version);
                }
                // The sector was trimmed, or its bytes are no version of it.
                _ => self.shadow.forget(LbnRange::new(lbn, Sectors::new(1))),
            }
        }
        self.cached.place = self.volume.host(Seat(None));
        self.cached.start(&mut self.volume, &contents)
    }
}
