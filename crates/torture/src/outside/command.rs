//! The commands of a core outside the drive: the host sends, completes, reports and loses them, and checks each.

use super::{Front, PendingRequest, Reply};
use crate::exec::Held;
use crate::failure::{Broken, Check, hold};
use crate::medium::{Author, Health, lbns};
use crate::outer::{Conduct, Knowledge, Manner, Tells};
use crate::scrub::Scrubbing;
use crate::step::Fate;
use scheduler::{Caution, Command, Outcome, Part, Purpose};
use std::collections::BTreeSet;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// The purpose of a group of commands that the core chose together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Nothing,
    /// A detour before a foreground request whose own command has not been sent.
    Detour,
    /// A foreground request, or promoted work.
    Foreground(Option<RequestId>),
    Idle,
}

/// A command that the core has sent.
#[derive(Clone, Debug)]
pub(super) struct SentCommand {
    pub command: Command,
    pub at: Instant,
    /// The number of the command's group.
    pub group: u64,
    pub request: Option<RequestId>,
    /// Whether the command uses a gap, or has background blocks merged with it.
    detour: bool,
    held: Vec<Held>,
    /// The bad sectors of the command.
    bad: BTreeSet<Lbn>,
}

/// The harm of detours, computed by the host: how much later than the core predicted commands end, at most a revolution
/// each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    foreground: Duration,
    late: Duration,
    /// The time of the last completion.
    heard: Instant,
}

impl SentCommand {
    /// Returns the command of a host's own read.
    pub fn reading(command: Command, at: Instant, group: u64) -> Self {
        let (held, bad) = (Vec::new(), BTreeSet::new());
        Self { command, at, group, request: None, detour: false, held, bad }
    }
}

impl Front {
    pub(super) fn send(&mut self, command: Command, caution: Option<Caution>) -> Result<(), Broken> {
        self.sequence += 1;
        self.counts.commands += 1;
        self.counts.idle += u64::from(matches!(command.purpose, Purpose::Idle { .. }));
        let Command { id, op, range, purpose, foreground, request, useful, .. } = command;
        for n in [id.get(), range.start().get(), range.len().get(), op.is_write().into(), useful.into()] {
            self.hash.add(n);
        }
        self.hash.add(self.now.as_nanos());
        let merged = foreground.is_some_and(|own| own != range);
        let goes_on = self.join_group((purpose, merged), request, caution)?;
        self.counts.promoted += u64::from(request.is_none() && purpose == Purpose::Foreground);
        let detour = merged || matches!(purpose, Purpose::Background { .. });
        if detour {
            self.counts.detours += 1;
            let caution = self.caution;
            hold(caution.is_none(), Check::Harm, || {
                format!("a detour uses a gap that has to stay unused: {caution:?}, {command:?}")
            })?;
        }
        let inside = range.end().get() <= self.capacity && !range.is_empty();
        hold(inside, Check::Request, || format!("no such sectors: {command:?}"))?;
        self.check_for(&command, request, goes_on)?;
        let mut sent = SentCommand {
            command,
            at: self.now,
            group: self.group,
            request,
            detour,
            held: Vec::new(),
            bad: BTreeSet::new(),
        };
        if let Some(asked) = request.and_then(|id| self.requests.get_mut(&id)) {
            sent.group = *asked.group.get_or_insert(sent.group);
        }
        // A repetition of lost promoted work belongs to the first group of this work, because its session may be suspended
        // by now.
        if request.is_none() && purpose == Purpose::Foreground {
            let before = self.lost_promoted.iter().filter(|(lost, _)| lost.overlaps(range));
            sent.group = before.map(|(_, group)| *group).chain([sent.group]).min().unwrap_or(sent.group);
        }
        if op.is_write() {
            self.give_buffers(&mut sent)?;
        }
        self.waiting.push(sent);
        self.go()
    }

    /// Assigns a command to a group: a detour and its request, the parts of a request, or idle work. Returns whether the
    /// command continues the last group.
    fn join_group(
        &mut self,
        (purpose, merged): (Purpose, bool),
        request: Option<RequestId>,
        caution: Option<Caution>,
    ) -> Result<bool, Broken> {
        let now_for = match purpose {
            Purpose::Foreground => For::Foreground(request),
            Purpose::Background { .. } => For::Detour,
            Purpose::Idle { .. } => For::Idle,
        };
        let goes_on = match (self.group_for, now_for) {
            (For::Detour, For::Detour | For::Foreground(_)) | (For::Idle, For::Idle) => true,
            // Promoted work has no request id, so a further promoted command may continue it. Only the first command of a
            // group can have merged blocks.
            (For::Foreground(before), For::Foreground(now)) => before == now && !merged,
            _ => false,
        };
        if self.group_for == For::Detour {
            let right = matches!(now_for, For::Detour | For::Foreground(_));
            hold(right, Check::Request, || "a detour, and behind it no foreground".into())?;
        }
        if !goes_on {
            self.group += 1;
            self.caution = caution;
            if now_for == For::Idle {
                self.check_idle()?;
            }
        }
        self.group_for = now_for;
        Ok(goes_on)
    }

    fn check_idle(&self) -> Result<(), Broken> {
        let silence = self.now.saturating_since(self.since);
        // Before the threshold, idle time may be used only if the configuration permits short idle times.
        let used = self.setup.idle.is_some_and(|idle| idle.short || silence >= idle.threshold);
        hold(used, Check::IdleRange, || {
            format!("idle time is used after {} ns of silence", silence.as_nanos())
        })?;
        let alone = self.requests.is_empty() && self.at_drive.is_empty() && self.waiting.is_empty();
        hold(alone, Check::Request, || "the foreground waits, and idle work begins".into())
    }

    /// Checks that the foreground part of a command was requested.
    fn check_for(&self, command: &Command, request: Option<RequestId>, goes_on: bool) -> Result<(), Broken> {
        if command.purpose != Purpose::Foreground {
            return Ok(());
        }
        let Some(own) = command.foreground else {
            return Err((
                Check::Request,
                format!("for the foreground, and nothing of it is asked for: {command:?}"),
            ));
        };
        let behind = own.end() == command.range.end() && command.range.covers(own);
        let known = match request.map(|id| (id, self.requests.get(&id))) {
            Some((_, Some(asked))) => {
                asked.op == command.op
                    && asked.range.covers(own)
                    && !lbns(own).any(|lbn| asked.passed.contains(&lbn) && !asked.bad.contains(&lbn))
            }
            Some((_, None)) => false,
            // A lost promoted command is repeated even if no session wants its blocks any more. A further command of a group
            // is sent even if its blocks were withdrawn after the first.
            None => {
                goes_on || self.counts.lost > 0 || lbns(own).any(|lbn| self.clients.wants(command.op, lbn))
            }
        };
        hold(behind && known, Check::Request, || {
            format!("a command serves no request and no task: {command:?}, for {request:?}")
        })
    }

    /// Finds the data for each sector that a command writes, except the sectors of its foreground request.
    fn give_buffers(&mut self, sent: &mut SentCommand) -> Result<(), Broken> {
        let Command { range, foreground, ref parts, .. } = sent.command;
        let own = foreground.filter(|_| sent.request.is_some());
        let parts: Vec<&Part> = parts.iter().filter(|part| part.op == Op::Write).collect();
        let mut used: Vec<Held> = Vec::new();
        for lbn in lbns(range).filter(|lbn| !own.is_some_and(|own| own.contains(*lbn))) {
            let tasks = || parts.iter().filter(|part| part.part.contains(lbn)).map(|part| part.task);
            let for_it = |held: &&Held| {
                held.wanted.range.contains(lbn) && tasks().any(|task| task == held.wanted.task)
            };
            let any = |held: &&Held| held.wanted.range.contains(lbn);
            let found = self.held.iter().rev().find(for_it);
            // A task that has ended since the core chose the command has no parts in it.
            let found = found.or_else(|| self.held.iter().rev().find(any));
            let Some(found) = found else {
                return Err((
                    Check::Buffers,
                    format!("LBN {lbn} is written without a buffer from its task: {:?}", sent.command),
                ));
            };
            if !used.iter().any(|held| held.version == found.version) {
                used.push(*found);
            }
        }
        sent.held = used;
        Ok(())
    }

    /// Sends to the drive every waiting command that does not race with an earlier command: two commands race if they
    /// overlap and either writes. Earlier commands are waiting, at the drive, or done but not reported to the core.
    pub(super) fn go(&mut self) -> Result<(), Broken> {
        let mut at = 0;
        while at < self.waiting.len() {
            let Command { op, range, .. } = self.waiting[at].command;
            let unreported = self.replies.iter().map(|reply| &reply.sent);
            let before = self.waiting[..at].iter().chain(self.at_drive.values()).chain(unreported);
            let mut races = before
                .filter(|other| other.command.range.overlaps(range))
                .filter(|other| op.is_write() || other.command.op.is_write());
            if races.next().is_some() {
                at += 1;
                continue;
            }
            let sent = self.waiting.remove(at);
            let name = sent.command.id.get();
            let taken = self.boxed.send(self.now, name, op, range);
            taken.map_err(|e| (Check::Request, format!("the drive refuses {:?}: {e}", sent.command)))?;
            self.at_drive.insert(name, sent);
        }
        Ok(())
    }

    /// Takes the completions of the drive up to now, and reports to the core those that are due.
    pub(super) fn hear(&mut self) -> Result<(), Broken> {
        self.boxed.advance(self.now);
        while let Some((name, _)) = self.boxed.pop() {
            if self.troubles.fate.is_some() {
                return self.lose(name);
            }
            let Some(mut sent) = self.at_drive.remove(&name) else {
                return Err((
                    Check::Request,
                    format!("the drive has done command {name}, which it was not sent"),
                ));
            };
            if let Some(fate) = self.troubles.given_up.take() {
                self.give_up(sent, fate)?;
                continue;
            }
            sent.bad = self.bad(&sent.command);
            let stops = self.setup.outside.tells != Tells::All;
            let done = match sent.bad.first().filter(|_| stops) {
                Some(bad) => bad.since(sent.command.range.start()).get(),
                None => sent.command.range.len().get(),
            };
            self.pass(&sent, done, false)?;
            let late = self.troubles.take_late();
            self.replies.push(Reply { at: self.now + late, sent });
        }
        while let Some(at) = self.replies.iter().position(|reply| reply.at <= self.now) {
            let reply = self.replies.remove(at);
            self.tell(reply.sent)?;
            self.go()?;
            self.drain()?;
        }
        Ok(())
    }

    /// Gives up on a command of which the drive has executed a part: the core must fail the command's request, and want the
    /// command's background blocks again.
    fn give_up(&mut self, sent: SentCommand, fate: Fate) -> Result<(), Broken> {
        self.sequence += 1;
        self.counts.given_up += 1;
        self.pass(&sent, fate.sectors(sent.command.range.len().get()), true)?;
        self.harm.heard = self.now;
        if let Some(asked) = sent.request.and_then(|id| self.requests.get_mut(&id)) {
            asked.given_up = true;
        }
        if sent.command.purpose == Purpose::Foreground {
            self.since = self.now;
        }
        self.overtake(&sent.command, |_| true);
        self.core.command_done(self.now, sent.command.id, Outcome::Lost);
        self.go()?;
        self.drain()
    }

    /// Returns the sectors of a command that cannot be read or written now.
    fn bad(&self, command: &Command) -> BTreeSet<Lbn> {
        let fails = |lbn: &Lbn| match self.medium.health(*lbn) {
            Health::Good => false,
            Health::Bad => !command.op.is_write(),
            Health::Stuck => true,
        };
        lbns(command.range).filter(fails).collect()
    }

    /// Executes the first sectors of a command on the medium. If the command is lost, its effect is unknown to the host: until
    /// a foreground write is repeated, older writes may overwrite it.
    pub(super) fn pass(&mut self, sent: &SentCommand, sectors: u64, lost: bool) -> Result<(), Broken> {
        let Command { op, range, foreground, .. } = sent.command;
        let own = foreground.zip(sent.request.and_then(|id| self.requests.get(&id)));
        let unreported = !sent.bad.is_empty() && self.setup.outside.tells == Tells::Nothing;
        for lbn in lbns(range).take(sectors as usize) {
            if !op.is_write() {
                self.medium.read(lbn, sent.at);
                continue;
            }
            let (version, author) = match own.filter(|(own, _)| own.contains(lbn)) {
                Some((_, asked)) => (asked.version, Author::Foreground { submitted: asked.submitted }),
                None => match sent.held.iter().rev().find(|held| held.wanted.range.contains(lbn)) {
                    Some(held) => (held.version, Author::Background { registered: held.registered }),
                    None => return Err((Check::Buffers, format!("LBN {lbn} is written with nothing"))),
                },
            };
            if let Author::Background { registered } = author {
                self.medium.carried_out(lbn, std::iter::once(registered));
            }
            let unknown = unreported || lost && matches!(author, Author::Foreground { .. });
            let author = if unknown { Author::Unknown } else { author };
            if self.medium.write(lbn, sent.at, version, author)? {
                self.scrubs.wrote(lbn, version);
            }
        }
        if op.is_write() {
            self.note_for_scrub(lbns(range).take(sectors as usize));
        }
        Ok(())
    }

    /// Reports the completion of a command to the core.
    fn tell(&mut self, sent: SentCommand) -> Result<(), Broken> {
        self.sequence += 1;
        let SentCommand { ref command, ref bad, .. } = sent;
        let Command { id, range, foreground, .. } = *command;
        self.account(&sent);
        let list: Vec<Lbn> = bad.iter().copied().collect();
        let (outcome, known) = match (list.first(), self.setup.outside.tells) {
            (None, _) => (Outcome::Done, range),
            (Some(_), Tells::All) => (Outcome::Bad(&list), range),
            (Some(first), Tells::First) => {
                (Outcome::StoppedAt(*first), LbnRange::new(range.start(), first.since(range.start())))
            }
            (Some(first), Tells::Nothing) => {
                (Outcome::NoData(*first), LbnRange::new(range.start(), units::Sectors::ZERO))
            }
        };
        // The bad sectors of which the host informs the core.
        let reported: BTreeSet<Lbn> = match self.setup.outside.tells {
            Tells::All => bad.clone(),
            _ => bad.iter().take(1).copied().collect(),
        };
        for part in command.parts.iter() {
            let kept = self.kept.entry((part.task, part.block.start())).or_default();
            kept.there.extend(lbns(part.part).filter(|lbn| known.contains(*lbn) && !reported.contains(lbn)));
            kept.bad.extend(reported.iter().filter(|lbn| part.part.contains(**lbn)));
            kept.group = kept.group.max(sent.group);
        }
        if let Some((own, asked)) = foreground.zip(sent.request.and_then(|id| self.requests.get_mut(&id))) {
            let stopped_before =
                reported.iter().any(|lbn| *lbn < own.start()) && list.len() >= reported.len();
            if !(stopped_before && self.setup.outside.tells != Tells::All) {
                asked.passed.extend(lbns(own).filter(|lbn| known.contains(*lbn) || reported.contains(lbn)));
                asked.bad.extend(reported.iter().filter(|lbn| own.contains(**lbn)));
            }
            self.since = self.now;
        } else if command.purpose == Purpose::Foreground {
            self.since = self.now;
        }
        let none = matches!(outcome, Outcome::NoData(_));
        if let Outcome::StoppedAt(at) | Outcome::NoData(at) = outcome {
            self.overtake(command, |part| part.start() > at || none && part.end() <= at);
        }
        self.core.command_done(self.now, id, outcome);
        Ok(())
    }

    /// If later unfinished writes cover blocks that a command failed to write, adds the blocks to these writes, because the
    /// core completes the blocks by them.
    fn overtake(&mut self, ended: &Command, undone: impl Fn(LbnRange) -> bool) {
        let waiting = self.waiting.iter_mut().chain(self.at_drive.values_mut());
        let under_way = waiting.chain(self.replies.iter_mut().map(|reply| &mut reply.sent));
        for SentCommand { command, .. } in under_way.filter(|sent| sent.command.id > ended.id) {
            let own = command.request.and(command.foreground);
            let by = if self.setup.writes_serve_writes { Some(command.range) } else { own };
            let Some(by) = by.filter(|_| command.op.is_write()) else { continue };
            let blocks = ended.parts.iter().filter(|part| part.op == Op::Write && undone(part.part));
            let covered = blocks.filter_map(|of| Some(Part { part: of.block.intersection(by)?, ..*of }));
            command.parts = command.parts.iter().copied().chain(covered).collect();
        }
    }

    /// Loses a command at the time of its completion, together with all other commands, and resets the drive.
    fn lose(&mut self, name: u64) -> Result<(), Broken> {
        self.counts.lost += 1;
        self.sequence += 1;
        let first = self.at_drive.remove(&name);
        let mut others = std::mem::take(&mut self.at_drive);
        // The lost command comes first in the list, because the first one gets the fate that the step gives.
        self.at_drive.extend(first.map(|sent| (0, sent)));
        let names: Vec<u64> = others.keys().copied().collect();
        for name in names {
            if let Some(sent) = others.remove(&name) {
                self.at_drive.insert(name, sent);
            }
        }
        let lost: Vec<SentCommand> = self.at_drive.values().cloned().collect();
        self.cut_off()?;
        let reported = std::mem::take(&mut self.replies).into_iter().map(|reply| reply.sent);
        let unsent = std::mem::take(&mut self.waiting);
        for sent in lost.into_iter().chain(reported).chain(unsent) {
            if sent.request.is_none() && sent.command.purpose == Purpose::Foreground {
                self.lost_promoted.push((sent.command.range, sent.group));
            }
            // The host keeps the data of lost writes for their repetition.
            self.held.extend(sent.held);
        }
        // Only unfinished requests lose their progress; finished ones just wait for the core's output.
        for asked in self.requests.values_mut().filter(|asked| !asked.is_done()) {
            asked.passed.clear();
            asked.bad.clear();
        }
        self.troubles.late = Duration::ZERO;
        self.boxed.restart(self.now, false).map_err(|e| (Check::Panic, e))?;
        self.group_for = For::Nothing;
        self.core.lost(self.now);
        Ok(())
    }

    /// Adds the delay of a completed command to the host's account of harm.
    fn account(&mut self, sent: &SentCommand) {
        let predicted = self.core.predicted(sent.command.id);
        let took = self.now.saturating_since(self.harm.heard.max(sent.at));
        self.harm.heard = self.now;
        let foreground = sent.command.purpose == Purpose::Foreground;
        if foreground || sent.detour {
            self.harm.foreground += took;
        }
        if let Some(predicted) = predicted.filter(|_| sent.detour && sent.bad.is_empty()) {
            let revolution = self.known.rpm().revolution();
            self.harm.late += self.now.saturating_since(predicted).min(revolution);
        }
    }

    /// Checks that the harm of detours is within the bound, by the core's account and by the host's. Only for a core that knows
    /// the drive.
    pub(super) fn check_harm(&self) -> Result<(), Broken> {
        let outer = self.setup.outside;
        let known = outer.knowledge == Knowledge::Exact && outer.conduct != Conduct::Rough;
        // Not checked after a change of the model, which restarts the core's account of harm.
        if outer.manner == Manner::Paper || !known || self.counts.adopted > 0 {
            return Ok(());
        }
        let reported = self.core.detour_harm();
        let revolution = self.known.rpm().revolution();
        // The bound is a fiftieth of the foreground's time, or of two seconds if that is longer. When the bound is exceeded,
        // the commands at the drive and one further decision still add harm.
        let slack = revolution * 4 * self.most_at_drive.max(1) as u64;
        let bound = |time: Duration| {
            let time = time.max(Duration::from_secs(2)).as_nanos();
            Duration::from_nanos(time / 50) + slack
        };
        // With `Spends`, the time by which requests were early may be used for further harm.
        let earned = if outer.manner == Manner::Spends { reported.early } else { Duration::ZERO };
        hold(reported.late <= bound(reported.foreground) + earned, Check::Harm, || {
            format!(
                "detours have cost {:?} of {:?}, by the core's account",
                reported.late, reported.foreground
            )
        })?;
        let own = self.harm;
        hold(own.late <= bound(own.foreground) + slack, Check::Harm, || {
            format!("detours were late by {:?} in {:?} of the foreground", own.late, own.foreground)
        })
    }
}

impl PendingRequest {
    /// Returns whether the request is finished: a sector has failed, or all sectors have been read or written.
    pub fn is_done(&self) -> bool {
        !self.bad.is_empty() || lbns(self.range).all(|lbn| self.passed.contains(&lbn))
    }
}
