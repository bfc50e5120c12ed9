//! The head's current work: checks its start, its cut, its end and its loss.

use super::Foreground;
use super::{Said, World};
use crate::exec::Exec;
use crate::failure::{Broken, Check, hold};
use crate::medium::{Author, Health, lbns};
use crate::scrub::Scrubbing;
use crate::step::Fate;
use crate::twin::has_background;
use scheduler::policy::{PolicyName, Unknown};
use scheduler::{Access, Bad, HeadEnd, Input, Output, Purpose};
use std::collections::BTreeMap;
use units::{Duration, Instant, Lbn, RequestId};

impl World {
    pub(super) fn execute(&mut self, Said { held, harm, waiting, promoted, .. }: Said) -> Result<(), Broken> {
        self.sequence += 1;
        hold(self.exec.is_none(), Check::Request, || {
            "the core asks for work while the head is at work".into()
        })?;
        let from = self.mechanics.position();
        let accesses = self.core.accesses();
        hold(!accesses.is_empty(), Check::Request, || "the core asks for work without accesses".into())?;
        let plain = self.without_detours(accesses);
        let mut exec = Exec::plan(&mut self.mechanics, &self.drive, accesses, self.now, self.sequence);
        exec.held = held;
        // A chosen foreground request leaves the pool, so if the pool is unchanged the work is promoted.
        exec.promoted = !exec.is_idle() && self.requests_waiting() == waiting;
        // The host keeps the buffers of lost work for its repetition.
        let lost = self.retry.take().map(|lost| {
            exec.held.extend(lost.held);
            exec.in_part = true;
            exec.sequence = lost.sequence;
            exec.promoted = lost.promoted;
            lost.foreground
        });
        let numbers: Vec<u64> = accesses
            .iter()
            .flat_map(|a| {
                [u64::from(a.track.get()), a.sector.into(), a.sectors.into(), a.op.is_write().into()]
            })
            .collect();
        numbers.into_iter().for_each(|n| self.hash.add(n));
        self.hash.add(exec.due.as_nanos());
        let reported = self.core.busy_until();
        hold(reported == Some(exec.due), Check::Prediction, || {
            format!("the head is done at {:?}, and the core said {reported:?}: {:?}", exec.due, exec.accesses)
        })?;
        hold(plain.is_none_or(|plain| plain == exec.due), Check::Twin, || {
            format!("done at {:?}, and without detours at {plain:?}: {:?}", exec.due, exec.accesses)
        })?;
        for pass in exec.passes.iter().filter(|p| p.op.is_write()) {
            // A write for a foreground request has its own data; all others, promoted ones too, need a client's buffer.
            let has = !pass.foreground || exec.promoted;
            let buffer = pass.lbn.is_some_and(|lbn| exec.buffer(lbn).is_some());
            hold(!has || buffer, Check::Buffers, || {
                format!("{:?} is written without a buffer from its task: {:?}", pass.lbn, exec.accesses)
            })?;
        }
        if let Some(lost) = &lost {
            let again = exec.foreground == *lost && !has_background(&exec.accesses);
            hold(again, Check::Request, || {
                format!("a lost command is not done again first: {:?}", exec.accesses)
            })?;
        }
        let lost = lost.is_some();
        if exec.is_idle() {
            self.counts.idle += 1;
            self.check_idle(&exec, from)?;
        } else {
            let twice = exec.foreground.windows(2).any(|w| w[0] == w[1]);
            hold(!twice, Check::Request, || format!("a sector twice for one request: {:?}", exec.accesses))?;
            let known = match exec.promoted {
                // Lost promoted work is repeated even if no session wants its blocks any more.
                true => lost || exec.foreground.iter().any(|lbn| self.clients.wants(exec.op, *lbn)),
                false => !self.candidates(&exec).is_empty(),
            };
            hold(known, Check::Request, || {
                format!("the head moves for no request and no task: {:?}", exec.accesses)
            })?;
            self.counts.promoted += u64::from(exec.promoted);
            // Under some policies the choice depends on all waiting requests, including promoted ones, which the twin does
            // not have. SMTF with ageing is one of them, because its value for an unknown time depends on the other
            // requests.
            let window = match self.setup.policy {
                PolicyName::SptfSw(_) => true,
                PolicyName::Smtf(rule) => rule.unknown == Unknown::Set || self.setup.age > 0,
                _ => false,
            };
            if exec.promoted || (promoted > 0 && window) {
                self.twin.leaves();
            }
            self.check_harm(&exec, harm);
            self.learn_patience(harm, exec.promoted);
        }
        self.exec = Some(exec);
        Ok(())
    }

    /// Returns the time at which the work would end with only the foreground's accesses; `None` in idle time.
    fn without_detours(&self, accesses: &[Access]) -> Option<Instant> {
        let foreground: Vec<Access> =
            accesses.iter().filter(|a| a.purpose == Purpose::Foreground).copied().collect();
        let mut mechanics = self.mechanics.clone();
        let due = Exec::plan(&mut mechanics, &self.drive, &foreground, self.now, self.sequence).due;
        (!foreground.is_empty()).then_some(due)
    }

    /// Returns the foreground requests with the operation and the sectors of the current work.
    pub(super) fn candidates(&self, exec: &Exec) -> Vec<RequestId> {
        if exec.promoted {
            return Vec::new();
        }
        let of = |r: &Foreground| r.op == exec.op && lbns(r.range).eq(exec.foreground.iter().copied());
        self.requests.iter().filter(|(_, r)| of(r)).map(|(id, _)| *id).collect()
    }

    pub(super) fn cut(&mut self) -> Result<(), Broken> {
        self.counts.cuts += 1;
        let Some(exec) = &mut self.exec else {
            return Err((Check::Cut, "nothing is under way that could be cut short".into()));
        };
        hold(exec.foreground.is_empty(), Check::Cut, || "a foreground request is cut short".into())?;
        let due = self.core.busy_until().unwrap_or(self.now);
        let kept = self.core.accesses();
        let (now, old) = (self.now, exec.due);
        let wrong =
            |what: &str| (Check::Cut, format!("{what}: {kept:?} of {:?}, until {due:?}", exec.accesses));
        if kept.len() > exec.accesses.len() || due < now || due < exec.ready || due > old {
            return Err(wrong("no cut"));
        }
        let mut sectors = 0;
        for (new, old) in kept.iter().zip(&exec.accesses) {
            let same = scheduler::Access { sectors: old.sectors, ..*new } == *old;
            let whole = new.sectors == old.sectors || (new.sectors < old.sectors && !new.op.is_write());
            if !same || !whole {
                return Err(wrong("not the accesses that were begun"));
            }
            sectors += new.sectors as usize;
        }
        if exec.passes.get(sectors.wrapping_sub(1)).is_some_and(|p| p.at > due) {
            return Err(wrong("more than has passed"));
        }
        exec.passes.truncate(sectors);
        exec.in_part = true;
        exec.accesses.truncate(kept.len());
        exec.due = due;
        Ok(())
    }

    /// Handles the end of the current work: its completion, its delay or its loss.
    pub(super) fn due(&mut self) -> Result<(), Broken> {
        let late = self.troubles.take_late();
        if late > Duration::ZERO
            && let Some(exec) = &mut self.exec
        {
            exec.due += late;
            exec.delayed = true;
            if !self.twin.is_lockstep() {
                self.twin.on = false;
            }
            return Ok(());
        }
        let Some(exec) = self.exec.take() else { return Ok(()) };
        self.sequence += 1;
        if let Some(fate) = self.troubles.fate.take() {
            return self.lose(exec, fate);
        }
        self.completed(exec)
    }

    /// Makes a delayed completion due now.
    pub fn late_is_now(&mut self) {
        let now = self.now;
        self.exec.iter_mut().filter(|exec| exec.delayed).for_each(|exec| exec.due = now);
    }

    fn lose(&mut self, exec: Exec, fate: Fate) -> Result<(), Broken> {
        self.counts.lost += 1;
        let done = match fate {
            Fate::Nothing => 0,
            Fate::All => exec.passes.len(),
            Fate::Sectors(n) => exec.passes.len().min(n as usize),
        };
        let job = self.candidates(&exec).first().copied();
        self.apply(&exec, done, job, None)?;
        self.ended(HeadEnd::Lost)?;
        self.alone = None;
        if !exec.foreground.is_empty() {
            self.retry = Some(exec);
        }
        Ok(())
    }

    fn completed(&mut self, exec: Exec) -> Result<(), Broken> {
        let bad = self.bad(&exec);
        self.ended(HeadEnd::Done(Bad::from(&bad)))?;
        self.twin_begins_again(&exec);
        self.last = (exec.sequence, bad);
        let candidates = self.candidates(&exec);
        if candidates.is_empty() {
            return self.apply(&exec, exec.passes.len(), None, Some(()));
        }
        // Several requests may have the same sectors; the core's next output tells which one was served.
        let said = self.ask()?;
        let Some(output @ (Output::Completed(id) | Output::Failed { id, .. })) = said.output else {
            let reported = said.output;
            return Err((Check::Request, format!("a completed foreground request is answered {reported:?}")));
        };
        let right = candidates.contains(&id);
        hold(right, Check::Request, || format!("{id} is said to be done, done was one of {candidates:?}"))?;
        self.apply(&exec, exec.passes.len(), Some(id), Some(()))?;
        self.answered(id, output)
    }

    fn ended(&mut self, end: HeadEnd<'_>) -> Result<(), Broken> {
        let reported = self.input(Input::Ended { at: self.now, end })?;
        hold(reported == Ok(0), Check::Refusal, || format!("the end of work is answered {reported:?}"))
    }

    /// Restarts the twin from the core's state if that gives a comparison again: a twin in lockstep after promoted work, a
    /// twin on its own clock when no other request waits.
    fn twin_begins_again(&mut self, exec: &Exec) {
        let alone = self.requests.len() == usize::from(!exec.promoted) && self.core.promoted_pending() == 0;
        let begins = match self.setup.idle {
            None => self.twin.is_away(),
            Some(_) => !self.twin.on && self.troubles.polls.is_none() && !exec.is_idle() && alone,
        };
        let before = exec.foreground.first().map_or(self.before, |at| self.before.then(None, *at));
        if exec.promoted {
            self.before = before;
        }
        if begins {
            self.twin.begin_again(&self.core, self.clients.sessions.keys().copied(), self.now, before);
        }
    }

    /// Returns the bad sectors of the current work: those whose last pass failed.
    fn bad(&self, exec: &Exec) -> Vec<Lbn> {
        let mut last: BTreeMap<Lbn, bool> = BTreeMap::new();
        for pass in &exec.passes {
            let Some(lbn) = pass.lbn else { continue };
            let good = match self.medium.health(lbn) {
                Health::Good => true,
                // A write mends the sector, so that later passes succeed.
                Health::Bad => pass.op.is_write() || last.get(&lbn).copied().unwrap_or(false),
                Health::Stuck => false,
            };
            last.insert(lbn, good);
        }
        last.into_iter().filter(|(_, good)| !good).map(|(lbn, _)| lbn).collect()
    }

    /// Applies the first `done` passes to the medium. If `known`, the host gets the data of reads.
    pub(super) fn apply(
        &mut self,
        exec: &Exec,
        done: usize,
        job: Option<RequestId>,
        known: Option<()>,
    ) -> Result<(), Broken> {
        let job = job.and_then(|id| self.requests.get(&id));
        for pass in &exec.passes[..done] {
            let Some(lbn) = pass.lbn else { continue };
            if pass.op.is_write() {
                let (version, author) = match (pass.foreground.then_some(job).flatten(), exec.buffer(lbn)) {
                    (Some(job), _) => (job.version, Author::Foreground { submitted: job.submitted }),
                    (None, Some(held)) => (held.version, Author::Background { registered: held.registered }),
                    (None, None) => {
                        return Err((Check::Buffers, format!("LBN {lbn} is written with nothing")));
                    }
                };
                if job.is_none() || !pass.foreground {
                    self.medium.carried_out(lbn, exec.carried_out(lbn, done));
                }
                if self.medium.write(lbn, pass.at, version, author)? {
                    self.scrubs.wrote(lbn, version);
                }
            } else if known.is_some() && !self.last.1.contains(&lbn) {
                // The sector counts as read, even if it was bad when it passed: a write of the same work has mended it.
                self.medium.read(lbn, pass.at);
            }
        }
        self.note_for_scrub(exec.passes[..done].iter().filter(|p| p.op.is_write()).filter_map(|p| p.lbn));
        Ok(())
    }
}
