//! Checks the core's reports: completions of foreground requests, and records for clients.

use super::World;
use crate::failure::{Broken, Check, hold};
use crate::mine::Mining;
use crate::scrub::Scrubbing;
use scheduler::{HeadWork, Output, Record};
use units::RequestId;

impl World {
    /// Checks the completion of a foreground request.
    pub(super) fn answered(&mut self, id: RequestId, output: Output<HeadWork>) -> Result<(), Broken> {
        self.hash.add_answer(id, self.now);
        let Some(request) = self.requests.remove(&id) else { return Ok(()) };
        self.counts.requests += 1;
        let first = self.last.1.iter().find(|lbn| request.range.contains(**lbn)).copied();
        let expected = match first {
            Some(bad) => Output::Failed { id, bad },
            None => Output::Completed(id),
        };
        hold(output == expected, Check::Bad, || format!("{output:?}, but bad are {:?}", self.last.1))?;
        if first.is_none() && request.op.is_write() {
            self.medium.acknowledge(request.range, request.version)?;
        }
        self.twin.expect(output);
        if self.twin.is_lockstep() {
            self.counts.compared += 1;
        }
        self.since = self.now;
        self.before = self.before.then(Some(id), request.range.start());
        if let Some((of, here, was, is)) = self.alone.take().filter(|a| a.0 == id) {
            self.compare_harm(of, request, here, was, is)?;
        }
        Ok(())
    }

    pub(super) fn delivered(&mut self, record: &Record) -> Result<(), Broken> {
        self.check_delivered(record)?;
        self.scrubbed(record)?;
        self.mined(record)
    }

    fn check_delivered(&mut self, record: &Record) -> Result<(), Broken> {
        self.hash.add_record(record);
        self.counts.blocks += 1;
        self.counts.written += u64::from(record.op.is_write());
        self.counts.bad += u64::from(record.bad.is_some());
        let task = self.clients.tasks.get(&record.task);
        let (since, served) = task.map_or((self.now, true), |t| (t.since, t.served));
        let registered = task.map_or(0, |t| t.registered);
        let suspended = self.clients.sessions.get(&record.session).and_then(|s| s.suspended);
        self.clients.delivered(record)?;
        if let Some(bad) = record.bad {
            // The record's bad sector is not always the block's lowest: a sector that was read earlier for the block may
            // have become bad since.
            let right = record.range.contains(bad) && self.last.1.contains(&bad);
            return hold(right, Check::Bad, || {
                format!("{record:?}, but the last execution reported these bad sectors: {:?}", self.last.1)
            });
        }
        let spoilt = self.last.1.iter().find(|lbn| record.range.contains(**lbn));
        if record.op.is_write() {
            let unwritten = self.medium.unwritten_since(record.range, since);
            self.medium.acknowledge_background(record.range, registered);
            let left_out = self.medium.not_carried_out(record.range, since, registered);
            hold(left_out.is_none(), Check::Written, || {
                format!("{record:?}, and it was not carried out itself at LBN {left_out:?}")
            })?;
            return hold(unwritten.is_none(), Check::Written, || {
                format!("{record:?}, and nothing was written to LBN {unwritten:?} (bad: {spoilt:?})")
            });
        }
        let unread = self.medium.unread_since(record.range, since, served);
        hold(unread.is_none(), Check::Data, || {
            format!("{record:?}, and nothing was read of LBN {unread:?} (bad: {spoilt:?})")
        })?;
        let alone = suspended.is_some_and(|since| since < self.last.0);
        hold(!alone, Check::Suspended, || format!("{record:?}, and its session was suspended before"))
    }
}
