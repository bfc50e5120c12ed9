//! Checks the reports of a core outside the drive: completions of foreground requests, and records for clients.

use super::Front;
use crate::failure::{Broken, Check, hold};
use crate::medium::lbns;
use crate::mine::Mining;
use crate::scrub::Scrubbing;
use scheduler::{Command, Output, Record};
use units::{Op, RequestId};

impl Front {
    /// Checks the completion of a foreground request.
    pub(super) fn answered(&mut self, id: RequestId, output: Output<Command>) -> Result<(), Broken> {
        self.hash.add_answer(id, self.now);
        let Some(asked) = self.requests.remove(&id) else {
            return Err((Check::Once, format!("{id} is answered, but is not outstanding")));
        };
        self.counts.requests += 1;
        let first = asked.bad.first().copied().or(asked.given_up.then_some(asked.range.start()));
        let expected = first.map_or(Output::Completed(id), |bad| Output::Failed { id, bad });
        hold(output == expected, Check::Bad, || {
            format!("{output:?}, but of it are bad {:?}, given up: {}", asked.bad, asked.given_up)
        })?;
        if asked.given_up {
            self.medium.unknown(asked.range, asked.submitted);
        }
        if first.is_none() {
            hold(asked.is_done(), Check::Data, || {
                let missing = lbns(asked.range).find(|lbn| !asked.passed.contains(lbn));
                format!("{output:?}, and nothing has passed of LBN {missing:?}")
            })?;
            if asked.op.is_write() {
                self.medium.acknowledge_landed(asked.range, asked.version)?;
            }
        }
        self.check_harm()
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
        let (since, served, registered) =
            task.map_or((self.now, true, 0), |t| (t.since, t.served, t.registered));
        let session = self.clients.sessions.get(&record.session);
        let suspended = session.filter(|s| s.suspended.is_some()).map(|s| s.number);
        let kept = self.kept.remove(&(record.task, record.range.start())).unwrap_or_default();
        self.clients.delivered(record)?;
        if let Some(bad) = record.bad {
            let right = record.range.contains(bad) && kept.bad.contains(&bad);
            return hold(right, Check::Bad, || {
                format!("{record:?}, but its commands reported these bad sectors: {:?}", kept.bad)
            });
        }
        if record.op == Op::Write {
            let unwritten = self.medium.unwritten_since(record.range, since);
            self.medium.acknowledge_background(record.range, registered);
            let left_out = self.medium.not_carried_out(record.range, since, registered);
            hold(left_out.is_none(), Check::Written, || {
                format!("{record:?}, and it was not carried out itself at LBN {left_out:?}")
            })?;
            return hold(unwritten.is_none(), Check::Written, || {
                format!("{record:?}, and nothing was written to LBN {unwritten:?}")
            });
        }
        let missing = lbns(record.range).find(|lbn| !kept.there.contains(lbn));
        hold(missing.is_none(), Check::Data, || {
            format!("{record:?}, and no command had LBN {missing:?} as a part of it")
        })?;
        let unread = self.medium.unread_since(record.range, since, served);
        hold(unread.is_none(), Check::Data, || {
            format!("{record:?}, and nothing was read of LBN {unread:?}")
        })?;
        let after = suspended.and_then(|number| self.suspended_after.get(&number));
        let alone = after.is_some_and(|group| *group < kept.group);
        hold(!alone, Check::Suspended, || format!("{record:?}, and its session was suspended before"))
    }
}
