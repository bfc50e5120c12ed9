//! The work under way of the head, its progress, and its effect on the bytes.

use super::faults::{Chance, Fate};
use super::platters::Failed;
use super::{Cure, Passed, Platters, Volume, VolumeError, passing};
use model::Position;
use scheduler::{Access, Purpose, Whose};
use units::{Instant, RequestId};

/// The work under way of the head.
pub(super) struct UnderWay {
    pub accesses: Vec<Access>,
    pub from: Position,
    pub began: Instant,
    pub until: Instant,
    pub fate: Fate,
}

impl UnderWay {
    /// Returns the instant at which the core receives the completion.
    pub fn reported(&self, chance: &Chance) -> Instant {
        match self.fate {
            Fate::Reported(late) => self.until + late,
            Fate::Lost(_) => self.until + chance.timeout(),
        }
    }
}

impl Volume {
    pub(super) fn execute(&mut self) {
        let Some(core) = self.core.of_the_head() else { return };
        let accesses = core.accesses().to_vec();
        let from = self.head.position();
        let until = self.head.execute(self.now, &accesses);
        debug_assert_eq!(
            Some(until),
            core.busy_until(),
            "the core's prediction inside the drive is exact; at {} from {from:?}: {accesses:?}",
            self.now
        );
        let fate = self.chance.fate(self.now, until);
        self.executes += 1;
        self.under_way = Some(UnderWay { accesses, from, began: self.now, until, fate });
    }

    /// Cuts the work under way short, as the core orders.
    pub(super) fn cut(&mut self) {
        let Some(core) = self.core.of_the_head() else { return };
        let (Some(under_way), Some(until)) = (&mut self.under_way, core.busy_until()) else {
            debug_assert!(false, "the core cuts work short at {}, and none is under way", self.now);
            return;
        };
        under_way.accesses = core.accesses().to_vec();
        under_way.until = until;
    }

    /// Cuts the power now. Sectors that had passed under the head are on the medium; core, applications and requests are
    /// gone.
    ///
    /// # Errors
    /// A defect of this crate.
    pub fn power_cut(mut self) -> Result<Platters, VolumeError> {
        if let Some(under_way) = self.under_way.take() {
            let whose = self.whose();
            let by = match under_way.fate {
                Fate::Lost(done) => done.min(self.now),
                Fate::Reported(_) => self.now,
            };
            let done = self.done_by(&under_way, by);
            self.pass(&under_way, &done, false);
            self.put(&under_way.accesses, &done, whose)?;
        }
        self.cut_outside()?;
        Ok(self.platters)
    }

    /// Returns the foreground request under way.
    fn whose(&mut self) -> Option<RequestId> {
        match self.core.of_the_head()?.whose() {
            Some(Whose::Request(id)) => Some(id),
            Some(Whose::Promoted(_) | Whose::Idle) | None => None,
        }
    }

    fn done_by(&self, under_way: &UnderWay, by: Instant) -> Vec<u32> {
        if by >= under_way.until {
            return under_way.accesses.iter().map(|access| access.sectors).collect();
        }
        passing::done_by(&self.drive, under_way.from, under_way.began, &under_way.accesses, by)
    }

    /// Reports the work of the head to the core, or its loss.
    pub(super) fn reported(&mut self) -> Result<(), VolumeError> {
        let Some(under_way) = self.under_way.take() else {
            debug_assert!(false, "a completion at {}, and no work is under way", self.now);
            return Ok(());
        };
        let UnderWay { accesses, began, until, .. } = &under_way;
        self.head.account_idle(accesses, until.since(*began));
        let whose = self.whose();
        let lost = match under_way.fate {
            Fate::Lost(done) => Some(self.done_by(&under_way, done)),
            Fate::Reported(_) => None,
        };
        let all: Vec<u32> = accesses.iter().map(|access| access.sectors).collect();
        if let Some(done) = lost {
            self.pass(&under_way, &done, true);
            self.put(accesses, &done, whose)?;
            if whose.is_none() {
                // A promoted write is repeated, and its bytes are not requested again.
                let mut again = Vec::new();
                for access in accesses.iter().filter(|a| a.purpose == Purpose::Foreground && a.op.is_write())
                {
                    passing::lbns(&self.drive, access, access.sectors, |range| again.push(range));
                }
                self.given.retain(|given| again.iter().any(|range| range.overlaps(given)));
                self.again = !again.is_empty();
            }
            if let Some(core) = self.core.of_the_head() {
                core.lost(self.now);
            }
        } else {
            let failed = self.pass(&under_way, &all, false);
            if let Some(core) = self.core.of_the_head() {
                core.completed_with(self.now, failed.bad());
            }
            self.put(accesses, &all, whose)?;
        }
        let capacity = self.drive.layout().capacity();
        if let Some(lbn) = self.chance.spoilt(capacity) {
            self.platters.spoil(lbn, Cure::Write);
        }
        self.drain_from(under_way.began)
    }

    /// Passes over the first `done` sectors of each access, and returns those that fail. A sector that could not be read and
    /// was then written is not among them, because its contents are known.
    fn pass(&mut self, under_way: &UnderWay, done: &[u32], lost: bool) -> Failed {
        let Self { drive, platters, watcher, executes, .. } = self;
        let mut failed = Failed::default();
        for (access, &done) in under_way.accesses.iter().zip(done) {
            passing::lbns(drive, access, done, |range| {
                platters.pass(access.op, range, &mut failed);
                if let Some(watcher) = watcher {
                    let Access { op, purpose, .. } = *access;
                    let began = under_way.began;
                    watcher(&Passed {
                        execute: *executes,
                        op,
                        range,
                        purpose,
                        began,
                        first_ordered: began,
                        lost,
                    });
                }
            });
        }
        failed.sort();
        failed
    }

    /// Writes the first `done` sectors of each access to the medium: the bytes of foreground request `whose`, or of a
    /// promoted write, and those of the background.
    fn put(
        &mut self,
        accesses: &[Access],
        done: &[u32],
        whose: Option<RequestId>,
    ) -> Result<(), VolumeError> {
        let sector = self.drive.sector_bytes();
        let Self { drive, platters, in_flight, given, .. } = self;
        let request = whose.and_then(|id| in_flight.get(&id));
        let mut outcome = Ok(());
        for (access, &done) in accesses.iter().zip(done).filter(|(access, _)| access.op.is_write()) {
            passing::lbns(drive, access, done, |range| {
                if outcome.is_err() {
                    return;
                }
                if let (Purpose::Foreground, Some(request)) = (access.purpose, request) {
                    let all = request.bytes.as_deref();
                    let size = sector.get() as usize;
                    if let Some(bytes) =
                        all.and_then(|all| passing::slice(all, request.request.range, range, size))
                    {
                        outcome = platters.put(range, bytes);
                    }
                    return;
                }
                let mut bytes = vec![0; range.len().bytes(sector).get() as usize];
                let there = given.fill(range, &mut bytes);
                debug_assert!(there, "no task gave the bytes that are written to {range}");
                if there {
                    outcome = platters.put(range, &bytes);
                }
            });
        }
        Ok(outcome?)
    }
}
