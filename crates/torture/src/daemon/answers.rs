//! Checks the answers to clients, and ends a history on the daemon.

use super::medium::{Medium, stamps};
use super::{Asked, Daemon, REQUESTS_MAX, SETTLES_S_MAX, kept_path};
use crate::failure::{Broken, Check, hold};
use crate::troubles::Troubles;
use device::{Answer, Device, Failure};
use server::manager::TaskManager;
use server::manager::table::TaskState;
use units::{Duration, LbnRange, Op};

/// The number of sectors in each read of the comparison of a whole snapshot.
const COMPARED_SECTORS: u64 = 40;

impl Daemon {
    pub(super) fn take_answers(&mut self) -> Result<(), Broken> {
        let now = self.now;
        while let Some(answer) = self.disk()?.poll(now) {
            if matches!(answer.result, Err(Failure::Ended(_))) {
                self.look_at_snapshots()?;
            }
            self.answered(answer)?;
        }
        Ok(())
    }

    fn answered(&mut self, Answer { id, result, .. }: Answer) -> Result<(), Broken> {
        let asked = self.asked.remove(&id);
        let asked = asked.ok_or_else(|| (Check::Once, format!("request {id} has another answer")))?;
        self.hash.add(id);
        self.hash.add(self.now.as_nanos());
        self.hash.add(result.is_ok().into());
        let found = |range: LbnRange, bytes: &[u8]| {
            stamps(range, bytes).map_err(|wrong| (Check::Data, format!("request {id}: {wrong}")))
        };
        match (asked, result) {
            (Asked::Read { range, client, oldest, newest }, Ok(bytes)) => {
                let found = found(range, &bytes)?;
                let newest = newest.unwrap_or_else(|| self.contents.newest(range));
                self.contents.read(range, &found, (&oldest, &newest))?;
                match client {
                    None => self.counts.requests += 1,
                    Some(_) => self.counts.background_reads += 1,
                }
            }
            (Asked::Snapshot { range, snapshot, over, .. }, Ok(bytes)) => {
                hold(!over, Check::Restored, || format!("snapshot {snapshot} gives bytes after its end"))?;
                let found = found(range, &bytes)?;
                let one = self.snapshots.iter_mut().find(|one| one.id == snapshot);
                one.map_or(Ok(()), |one| one.check(range, &found, &self.contents))?;
                self.counts.snapshot_reads += 1;
            }
            (Asked::Snapshot { snapshot, .. }, Err(Failure::Ended(why))) => {
                let unix_ms = self.unix_ms();
                let one = self.snapshots.iter().find(|one| one.id == snapshot);
                // A snapshot's read may fail before the task's state says that the snapshot has ended, because the journal
                // is written first.
                let ended = one.is_none_or(|one| {
                    let expired = one.ends_unix_ms.is_some_and(|ends| ends <= unix_ms);
                    one.state.is_over() || one.removed || expired || !one.has_begun()
                });
                hold(ended, Check::Restored, || format!("a read of snapshot {snapshot} fails: {why}"))?;
            }
            (Asked::Write { range, places, through }, Ok(_)) => {
                self.contents.acknowledge(range, &places, through);
                self.counts.requests += 1;
            }
            (Asked::Flush { known }, Ok(_)) => {
                self.contents.flushed(&known);
                self.counts.flushes += 1;
            }
            (asked, Err(failure)) => {
                let (range, is_read) = match &asked {
                    Asked::Read { range, .. } | Asked::Snapshot { range, .. } => (*range, true),
                    Asked::Write { range, .. } => (*range, false),
                    Asked::Flush { .. } => (self.all, false),
                };
                let in_background =
                    matches!(asked, Asked::Snapshot { .. } | Asked::Read { client: Some(_), .. });
                let permitted = match &failure {
                    // A command that fails without a bad sector, by a fault, is reported as failed at one of its sectors.
                    Failure::Medium(lbn) => {
                        let faults = self.medium.borrow().faults;
                        range.contains(*lbn) && (faults > 0 || self.ever_bad.contains(&lbn.get()))
                    }
                    // A background read must not fail like this, because the core requests its blocks again.
                    Failure::Silent { .. } | Failure::File(_) => {
                        !(in_background && is_read) && self.medium.borrow().faults > 0
                    }
                    _ => false,
                };
                self.counts.bad += u64::from(matches!(failure, Failure::Medium(_)));
                hold(permitted, Check::Bad, || format!("request {id} fails: {failure}; {asked:?}"))?;
            }
        }
        Ok(())
    }

    /// Ends all faults, waits until every request is answered, and compares every snapshot completely.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        self.pace = None;
        self.files.limit("/state", None);
        self.end_faults();
        for at in 0..self.snapshots.len() as u32 {
            self.steer(at, false)?;
        }
        self.after_event()?;
        self.until(|daemon| {
            let begins = daemon.snapshots.iter().any(|one| !one.state.is_over() && !one.has_begun());
            daemon.asked.is_empty() && !begins
        })?;
        let all = self.all.len().get();
        for at in 0..=self.snapshots.len() {
            let one = at.checked_sub(1).and_then(|at| self.snapshots.get(at));
            if one.is_some_and(|one| one.state.is_over()) {
                continue;
            }
            self.counts.snapshots += u64::from(one.is_some());
            for start in (0..all).step_by(COMPARED_SECTORS as usize) {
                self.background(Op::Read, 0, at as u32, (start, COMPARED_SECTORS))?;
                self.foreground(Op::Read, start, COMPARED_SECTORS)?;
                self.until(|daemon| daemon.asked.len() < REQUESTS_MAX / 2)?;
            }
            self.until(|daemon| daemon.asked.is_empty())?;
        }
        while self.snapshots.iter().any(|one| !one.state.is_over()) {
            self.forget()?;
            self.after_event()?;
        }
        self.until(|daemon| daemon.asked.is_empty())?;
        let kept = self.snapshots.iter().find(|one| self.files.length(&kept_path(one.id)).is_some());
        hold(kept.is_none(), Check::Restored, || format!("blocks of {kept:?} are left behind"))?;
        // Half-read blocks, which read-ahead may have left, must be completed without a further request.
        let parts = |daemon: &Self| Some(daemon.running.as_ref()?.disk().status().background.parts_kept);
        self.until(|daemon| parts(daemon) == Some(0))
    }

    fn end_faults(&mut self) {
        let now = self.now;
        let medium: &mut Medium = &mut self.medium.borrow_mut();
        medium.troubles = Troubles::NONE;
        medium.end_silence(now);
    }

    /// Advances the time until a condition holds.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) -> Result<(), Broken> {
        let last = self.now + Duration::from_secs(SETTLES_S_MAX);
        while !holds(self) {
            hold(self.now < last, Check::Hang, || {
                let states: Vec<(u64, TaskState)> =
                    self.snapshots.iter().map(|one| (one.id, one.state)).collect();
                let trouble =
                    self.running.as_ref().and_then(|it| it.disk().app()).and_then(TaskManager::trouble);
                let status = self.running.as_ref().map(|it| it.disk().status());
                let wait =
                    status.and_then(|status| status.background_requests).map(|door| format!("{door:?}"));
                format!(
                    "requests {:?} were never answered: {wait:?}; snapshots {states:?} {trouble:?}",
                    self.asked
                )
            })?;
            self.run_until(self.now + Duration::from_millis(250))?;
        }
        Ok(())
    }
}
