//! The disks that a comparison reads, in time slices on a thread of its own. It is a client of each disk,
//! like a session of a program.

use crate::desk::Desk;
use crate::desk::order::{MembersTold, News, OpenMembers};
use crate::office::{Handle, Peers};
use apps::verify::{Comparison, ComparisonProgressError, Wish};
use client::wire::{Call, Event, Range};
use scheduler::{Priority, Sessions};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use units::{Lbn, LbnRange, Sectors};

/// The longest time slice.
const TURN: Duration = Duration::from_millis(500);
/// The bytes that are fetched from a disk at a time.
const BATCH: usize = 1 << 20;
/// How long a disk may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Progress is encoded once in this time, or less often if that takes more than a twentieth of the time.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The event that wakes the lane: a block has arrived.
type WakeUp = Arc<(Mutex<bool>, Condvar)>;

/// The sessions on one member.
struct Member {
    disk: Handle,
    /// The numbers of its guests: for blocks that are read first, and for those that are read again.
    guests: [u64; 2],
}

impl Drop for Member {
    fn drop(&mut self) {
        for id in self.guests {
            // A disk that has ended has closed its guests.
            let _ = self.disk.post(Box::new(move |desk, sessions| desk.guest_close(sessions, id)));
        }
    }
}

/// Members that are read.
pub(crate) struct Members {
    comparison: Comparison,
    members: Vec<Member>,
    block: Sectors,
    bell: WakeUp,
    began: Instant,
    priority: Priority,
    resting: bool,
    saved_at: Instant,
    save_every: Duration,
    saved_done: u64,
}

/// Asks a disk, without waiting for the answer.
fn ask<T: Send + 'static>(
    disk: &Handle,
    call: impl FnOnce(&mut Desk, &mut dyn Sessions) -> T + Send + 'static,
) -> Result<Receiver<T>, String> {
    let (tell, told) = sync_channel(1);
    let call = move |desk: &mut Desk, sessions: &mut dyn Sessions| {
        // The lane may have given up.
        let _ = tell.send(call(desk, sessions));
    };
    disk.post(Box::new(call)).map_err(|_| gone(disk))?;
    Ok(told)
}

fn wait<T>(disk: &Handle, told: &Receiver<T>) -> Result<T, String> {
    told.recv_timeout(PATIENCE).map_err(|_| gone(disk))
}

fn gone(disk: &Handle) -> String {
    format!("{}: the disk does not answer; see its status", disk.facts().name)
}

impl Members {
    /// Opens sessions on all members.
    pub fn open(peers: &Peers, asked: &OpenMembers) -> Result<Self, News> {
        let OpenMembers { members: names, plan, saved, seed } = asked;
        let mut found = Vec::new();
        for name in names {
            let Some(disk) = peers.find(name).map_err(News::Trouble)? else {
                let text = format!(
                    "members: the daemon has no disk {name:?}; cancel the task, or configure that disk"
                );
                return Err(News::Refused(text));
            };
            let facts = disk.facts();
            if facts.sector_bytes != plan.sector_bytes || facts.capacity.get() < plan.range.end().get() {
                let text = format!(
                    "members: {name} has {} sectors of {} bytes, and the comparison is of {} sectors of {} bytes",
                    facts.capacity.get(),
                    facts.sector_bytes.get(),
                    plan.range.end().get(),
                    plan.sector_bytes.get()
                );
                return Err(News::Refused(text));
            }
            found.push(disk);
        }
        let begun = if saved.is_empty() {
            Comparison::start(*plan, *seed).map_err(|error| error.to_string())
        } else {
            let resumed = Comparison::resume(*plan, saved, *seed)
                .map_err(|error: ComparisonProgressError| error.to_string());
            resumed.and_then(|plan| plan.map_err(|error| error.to_string()))
        };
        let comparison = begun.map_err(News::Refused)?;
        let bell = WakeUp::default();
        let mut members = Vec::new();
        for disk in found {
            let guests = guests(&disk, &bell).map_err(News::Trouble)?;
            members.push(Member { disk, guests });
        }
        let (saved_done, now) = (comparison.figures().done, Instant::now());
        Ok(Self {
            comparison,
            members,
            block: plan.block,
            bell,
            began: now,
            priority: Priority::default(),
            resting: false,
            saved_at: now,
            save_every: SAVE_EVERY,
            saved_done,
        })
    }

    /// Reads for one time slice.
    pub fn turn(&mut self, priority: Priority) -> News {
        match self.read(priority) {
            Ok(()) => self.report(),
            Err(why) => News::Trouble(why),
        }
    }

    /// Reports what is known.
    pub fn report(&mut self) -> News {
        let figures = self.comparison.figures();
        let done = self.comparison.is_done();
        let due = self.saved_at.elapsed() >= self.save_every && figures.done != self.saved_done;
        let saved = (due || done || self.comparison.is_hopeless()).then(|| {
            let began = Instant::now();
            let saved = self.comparison.progress();
            (self.saved_at, self.save_every) = (Instant::now(), SAVE_EVERY.max(began.elapsed() * 20));
            self.saved_done = figures.done;
            saved
        });
        News::Members(Box::new(MembersTold { figures, saved, done, hopeless: self.comparison.is_hopeless() }))
    }

    /// Suspends the sessions until the next time slice.
    pub fn rest(&mut self) {
        self.resting = true;
        // A disk that has ended reads nothing.
        let _ = self.call_all(|| Call::Suspend { call: 0 });
    }

    fn call_all(&self, call: impl Fn() -> Call) -> Result<(), String> {
        for member in &self.members {
            for id in member.guests {
                let call = call();
                ask(&member.disk, move |desk, sessions| drop(desk.guest_call(sessions, id, call)))?;
            }
        }
        Ok(())
    }

    fn now(&self) -> units::Instant {
        let ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        units::Instant::ZERO + units::Duration::from_nanos(ns)
    }

    fn read(&mut self, priority: Priority) -> Result<(), String> {
        if std::mem::take(&mut self.resting) {
            self.call_all(|| Call::Resume { call: 0 })?;
        }
        if priority != self.priority {
            self.priority = priority;
            for member in &self.members {
                for id in member.guests {
                    ask(&member.disk, move |desk, sessions| desk.guest_priority(sessions, id, priority))?;
                }
            }
        }
        let until = Instant::now() + TURN;
        while Instant::now() < until && !self.comparison.is_done() && !self.comparison.is_hopeless() {
            self.wish()?;
            if !self.fetch()? {
                self.doze(until);
            }
        }
        Ok(())
    }

    /// Registers the ranges that the comparison wants.
    fn wish(&mut self) -> Result<(), String> {
        let mut told = Vec::new();
        while let Some(Wish { member, range, again }) = self.comparison.wish(self.now()) {
            let Some(of) = self.members.get(member) else { continue };
            let [first, second] = of.guests;
            let (id, block) = (if again { second } else { first }, self.block.get());
            let range = Range { start: range.start().get(), sectors: range.len().get() };
            let call = Call::Read { call: 0, range, block, parameter: 0 };
            told.push((member, ask(&of.disk, move |desk, sessions| desk.guest_call(sessions, id, call))?));
        }
        for (member, told) in told {
            let Some(Member { disk, .. }) = self.members.get(member) else { continue };
            if let Some(Event::Refused { text, .. }) = wait(disk, &told)? {
                return Err(format!("{}: {text}", disk.facts().name));
            }
        }
        Ok(())
    }

    /// Takes the blocks that have come; returns whether there were any.
    fn fetch(&mut self) -> Result<bool, String> {
        let room = self.comparison.has_room();
        let mut asked = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            let [first, second] = member.guests;
            for (id, again) in [(first, false), (second, true)] {
                if again || room {
                    let told =
                        ask(&member.disk, move |desk, sessions| desk.guest_fetch(sessions, id, BATCH))?;
                    asked.push((number, again, told));
                }
            }
        }
        let mut some = false;
        for (number, again, told) in asked {
            let events = match self.members.get(number) {
                Some(member) => wait(&member.disk, &told)?,
                None => continue,
            };
            for event in events {
                let Event::Record { range, bad, bytes, .. } = event else { continue };
                some = true;
                let range = LbnRange::new(Lbn::new(range.start), Sectors::new(range.sectors));
                let bytes = bad.map_or(Ok(bytes.as_slice()), Err);
                self.comparison.read(number, range, again, bytes, self.now());
            }
        }
        Ok(some)
    }

    /// Waits until a block has come, or a reading may be due.
    fn doze(&self, until: Instant) {
        let (rung, bell) = &*self.bell;
        let mut rung = rung.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        if !*rung {
            (rung, _) = bell.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner);
        }
        *rung = false;
    }
}

/// Opens the sessions on a member.
fn guests(disk: &Handle, bell: &WakeUp) -> Result<[u64; 2], String> {
    let open = || {
        let bell = Arc::clone(bell);
        let ring = Box::new(move || {
            *bell.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            bell.1.notify_one();
        });
        let priority = Priority::default().get();
        let told = ask(disk, move |desk, sessions| desk.guest_open(sessions, priority, ring))?;
        wait(disk, &told)?.map_err(|error| format!("{}: {error}", disk.facts().name))
    };
    let first = open()?;
    match open() {
        Ok(second) => Ok([first, second]),
        Err(why) => {
            let _ = disk.post(Box::new(move |desk, sessions| desk.guest_close(sessions, first)));
            Err(why)
        }
    }
}
