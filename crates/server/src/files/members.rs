//! The disks that a comparison reads, called its members. The comparison runs in time slices on a thread
//! of its own, and is a client of each disk, like the session of a client program.

use super::identified;
use crate::handle::{Handle, Peers};
use crate::manager::TaskManager;
use crate::task::file_request::{FileResult, MembersReport, OpenMembers};
use apps::verify::{Comparison, ComparisonProgressError, Wish};
use client::wire::{Call, Event, Range};
use scheduler::{Priority, Sessions};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use units::{Lbn, LbnRange, Sectors};

/// The longest time slice, after which the worker executes its next file operation.
const SLICE_TIME_MAX: Duration = Duration::from_millis(500);
/// The most bytes fetched from a disk at once.
const FETCH_BYTES: usize = 1 << 20;
/// The most time for a disk's thread to answer a call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The least time between two encodings of the progress. It is raised so that encoding takes at most a
/// twentieth of the time.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// A flag and its condition variable: set when a block has arrived.
type WakeUp = Arc<(Mutex<bool>, Condvar)>;

/// The client sessions on one member.
struct Member {
    disk: Handle,
    /// One session for the first reading of blocks, and one for blocks that are read again.
    client_sessions: [MemberSession; 2],
}

/// A client session, which is closed when this value is dropped.
struct MemberSession {
    disk: Handle,
    id: u64,
}

impl Drop for MemberSession {
    fn drop(&mut self) {
        self.disk.close_client_session(self.id);
    }
}

/// The open members of a comparison.
pub(crate) struct Members {
    comparison: Comparison,
    members: Vec<Member>,
    waker: WakeUp,
    began: Instant,
    priority: Priority,
    resting: bool,
    saved_at: Instant,
    save_every: Duration,
    saved_done: u64,
    /// The beginning of the progress record: the disks' identities.
    devices: Vec<u8>,
}

/// Queues a call to a disk's task manager, without waiting for the answer.
fn ask<T: Send + 'static>(
    disk: &Handle,
    call: impl FnOnce(&mut TaskManager, &mut dyn Sessions) -> T + Send + 'static,
) -> Result<Receiver<T>, String> {
    let (tell, answer) = sync_channel(1);
    let call = move |manager: &mut TaskManager, sessions: &mut dyn Sessions| {
        // Sending fails if the worker no longer waits.
        let _ = tell.send(call(manager, sessions));
    };
    disk.post(Box::new(call)).map_err(|_| gone(disk))?;
    Ok(answer)
}

fn wait<T>(disk: &Handle, answer: &Receiver<T>) -> Result<T, String> {
    answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| gone(disk))
}

fn gone(disk: &Handle) -> String {
    format!("{}: the disk does not answer; see its status", disk.facts().name)
}

impl Members {
    /// Opens two sessions on each member.
    pub fn open(peers: &Peers, asked: &OpenMembers) -> Result<Self, FileResult> {
        let OpenMembers { members: names, plan, saved, seed } = asked;
        let damaged = || FileResult::Refused("the task's progress is damaged; begin anew".into());
        let (known, progress) = identified::split(saved).ok_or_else(damaged)?;
        let disks = peers.disks().ok_or(FileResult::Starting)?;
        let mut found = Vec::new();
        for name in names {
            let Some(disk) = disks.get(name).cloned() else {
                let text = format!(
                    "members: the daemon has no disk {name:?}; cancel the task, or configure that disk"
                );
                return Err(FileResult::Trouble(text));
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
                return Err(FileResult::Refused(text));
            }
            found.push(disk);
        }
        let devices = found.iter().map(|disk| disk.facts().device.clone().unwrap_or_default());
        let devices = devices.collect::<Vec<_>>().join("\n");
        let mut pairs = known.unwrap_or(&devices).split('\n').zip(devices.split('\n')).zip(names);
        if let Some(((known, now), name)) = pairs.find(|((known, now), _)| known != now) {
            let named =
                |disk: &str| if disk.is_empty() { "an unknown disk".into() } else { format!("{disk:?}") };
            return Err(FileResult::Trouble(format!(
                "members: {name} was {} and is {} now; cancel the task, or see that {name} is the former disk and that its \
                 serial number is seen, and restart the daemon",
                named(known),
                named(now)
            )));
        }
        let begun = if progress.is_empty() {
            Comparison::start(*plan, *seed).map_err(|error| error.to_string())
        } else {
            let resumed = Comparison::resume(*plan, progress, *seed)
                .map_err(|error: ComparisonProgressError| error.to_string());
            resumed.and_then(|plan| plan.map_err(|error| error.to_string()))
        };
        let comparison = begun.map_err(FileResult::Refused)?;
        let waker = WakeUp::default();
        let mut members = Vec::new();
        for disk in found {
            let open = || wait(&disk, &open_session(&disk, &waker)?)?;
            let client_sessions =
                [open().map_err(FileResult::Trouble)?, open().map_err(FileResult::Trouble)?];
            members.push(Member { disk, client_sessions });
        }
        let (saved_done, now) = (comparison.figures().done, Instant::now());
        Ok(Self {
            comparison,
            members,
            waker,
            began: now,
            priority: Priority::default(),
            resting: false,
            saved_at: now,
            save_every: SAVE_EVERY,
            saved_done,
            devices: identified::begin(&devices),
        })
    }

    /// Reads until the end of a time slice, and reports.
    pub fn read_slice(&mut self, priority: Priority) -> FileResult {
        match self.read(priority) {
            Ok(()) => self.report(),
            Err(why) => FileResult::Trouble(why),
        }
    }

    /// Reports the figures, and the progress if it is due to be saved.
    pub fn report(&mut self) -> FileResult {
        let figures = self.comparison.figures();
        let done = self.comparison.is_done();
        let due = self.saved_at.elapsed() >= self.save_every && figures.done != self.saved_done;
        let saved = (due || done || self.comparison.is_hopeless()).then(|| {
            let began = Instant::now();
            let saved = [self.devices.clone(), self.comparison.progress()].concat();
            (self.saved_at, self.save_every) = (Instant::now(), SAVE_EVERY.max(began.elapsed() * 20));
            self.saved_done = figures.done;
            saved
        });
        FileResult::Members(Box::new(MembersReport {
            figures,
            saved,
            done,
            hopeless: self.comparison.is_hopeless(),
        }))
    }

    /// Suspends the sessions until the next time slice.
    pub fn rest(&mut self) {
        self.resting = true;
        // A disk that has ended reads nothing, so an error is no matter.
        let _ = self.call_all(|| Call::Suspend { call: 0 });
    }

    fn call_all(&self, call: impl Fn() -> Call) -> Result<(), String> {
        for member in &self.members {
            for MemberSession { id, .. } in &member.client_sessions {
                let (id, call) = (*id, call());
                ask(&member.disk, move |manager, sessions| drop(manager.client_call(sessions, id, call)))?;
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
                for MemberSession { id, .. } in &member.client_sessions {
                    let id = *id;
                    ask(&member.disk, move |manager, sessions| {
                        manager.set_client_priority(sessions, id, priority)
                    })?;
                }
            }
        }
        let until = Instant::now() + SLICE_TIME_MAX;
        while Instant::now() < until && !self.comparison.is_done() && !self.comparison.is_hopeless() {
            self.wish()?;
            if !self.fetch()? {
                self.doze(until);
            }
        }
        Ok(())
    }

    /// Registers the ranges that the comparison asks for.
    fn wish(&mut self) -> Result<(), String> {
        let mut answer = Vec::new();
        while let Some(Wish { member, range, unit, again }) = self.comparison.wish(self.now()) {
            let Some(of) = self.members.get(member) else { continue };
            let [first, second] = &of.client_sessions;
            let (id, block) = (if again { second.id } else { first.id }, unit.get());
            let range = Range { start: range.start().get(), sectors: range.len().get() };
            let call = Call::Read { call: 0, range, block, parameter: 0 };
            answer.push((
                member,
                ask(&of.disk, move |manager, sessions| manager.client_call(sessions, id, call))?,
            ));
        }
        for (member, answer) in answer {
            let Some(Member { disk, .. }) = self.members.get(member) else { continue };
            if let Some(Event::Refused { text, .. }) = wait(disk, &answer)? {
                return Err(format!("{}: {text}", disk.facts().name));
            }
        }
        Ok(())
    }

    /// Takes the blocks that have arrived; returns whether there were any.
    fn fetch(&mut self) -> Result<bool, String> {
        let room = self.comparison.has_room();
        let mut asked = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            let [first, second] = &member.client_sessions;
            for (id, again) in [(first.id, false), (second.id, true)] {
                if again || room {
                    let answer = ask(&member.disk, move |manager, sessions| {
                        manager.client_fetch(sessions, id, FETCH_BYTES)
                    })?;
                    asked.push((number, again, answer));
                }
            }
        }
        let mut some = false;
        for (number, again, answer) in asked {
            let events = match self.members.get(number) {
                Some(member) => wait(&member.disk, &answer)?,
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

    /// Waits until a block has arrived, at most until `until`.
    fn doze(&self, until: Instant) {
        let (rung, waker) = &*self.waker;
        let mut rung = rung.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        if !*rung {
            (rung, _) = waker.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner);
        }
        *rung = false;
    }
}

/// Asks a member for a session. The value that closes the session is made on the member's thread, so that
/// the session is closed even if the answer comes too late.
fn open_session(disk: &Handle, waker: &WakeUp) -> Result<Receiver<Result<MemberSession, String>>, String> {
    let (waker, opened_at) = (Arc::clone(waker), disk.clone());
    let ring = Box::new(move || {
        *waker.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        waker.1.notify_one();
    });
    let priority = Priority::default().get();
    ask(disk, move |manager, sessions| match manager.open_client_session(sessions, priority, ring) {
        Ok(id) => Ok(MemberSession { disk: opened_at, id }),
        Err(error) => Err(format!("{}: {error}", opened_at.facts().name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::ManagerCall;
    use crate::manager::tests::manager_config;
    use crate::manager::tests::rig::Rig;
    use crate::task::spec::{DiskFacts, TaskKind, TaskSpec, What};
    use std::sync::mpsc::channel;

    #[test]
    fn a_session_that_is_open_only_after_the_worker_has_given_up_is_closed() {
        let calls = Arc::new(Mutex::new(Vec::<ManagerCall>::new()));
        let queue = Arc::clone(&calls);
        let disk = Handle::of_calls(manager_config().disk, move |call| queue.lock().unwrap().push(call));
        let mut rig = Rig::new();
        let mut carry_out = || {
            let waiting = std::mem::take(&mut *calls.lock().unwrap());
            waiting.into_iter().for_each(|call| rig.call(call));
            rig.call(|manager, _| manager.client_sessions())
        };
        // The answer with the new session comes after the worker has given up, or is in the channel and
        // never received.
        for is_late in [true, false] {
            let answer = open_session(&disk, &WakeUp::default()).unwrap();
            if !is_late {
                assert_eq!(carry_out(), 1);
            }
            drop(answer);
            carry_out();
            assert_eq!(carry_out(), 0, "late: {is_late}");
        }
    }

    /// Returns a simulated disk that is served under a name.
    fn served(name: &str, device: &str) -> Handle {
        let (tell, calls) = channel::<ManagerCall>();
        std::thread::spawn(move || {
            let mut rig = Rig::new();
            for call in calls {
                rig.call(call);
                while rig.step() {}
            }
        });
        let disk = DiskFacts { name: name.into(), device: Some(device.into()), ..manager_config().disk };
        Handle::of_calls(disk, move |call| drop(tell.send(call)))
    }

    #[test]
    fn a_comparison_goes_on_with_its_own_members_alone() {
        let peers = |disks: &[(&str, &str)]| {
            let peers = Peers::default();
            peers.set(disks.iter().map(|(name, device)| served(name, device)));
            peers
        };
        let (a, b) = (("a", "/a"), ("b", "/b"));
        let members = vec!["a".to_owned(), "b".to_owned()];
        let mut spec = TaskSpec { members, ..TaskSpec::new(TaskKind::Verify) };
        let disk = DiskFacts { name: "a".into(), ..manager_config().disk };
        spec.fit([&disk]);
        let Ok(What::Verify(asked)) = spec.check(&disk) else { panic!("{spec:?}") };
        let asked = |saved: &[u8]| OpenMembers {
            members: asked.members.clone(),
            plan: asked.plan,
            saved: saved.to_vec(),
            seed: 1,
        };
        let mut members = Members::open(&peers(&[a, b]), &asked(b"")).ok().unwrap();
        let saved = loop {
            let FileResult::Members(report) = members.read_slice(Priority::default()) else { panic!() };
            if let Some(saved) = report.saved {
                break saved;
            }
        };
        let go_on = |disks: &[(&str, &str)]| Members::open(&peers(disks), &asked(&saved));
        let waits = |disks: &[(&str, &str)], why: &str| match go_on(disks).err() {
            Some(FileResult::Trouble(reason)) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{other:?}"),
        };
        waits(&[a, ("b", "/c"), ("c", "/b")], "members: b was \"/b\" and is \"/c\" now");
        waits(&[("a", "/b"), ("b", "/a")], "members: a was \"/a\" and is \"/b\" now");
        // Disk b is not configured after this restart.
        waits(&[a], "the daemon has no disk \"b\"");
        assert!(go_on(&[a, b]).is_ok());
        // The disks are not served yet.
        let starting = Members::open(&Peers::default(), &asked(&saved)).err();
        assert!(matches!(starting, Some(FileResult::Starting)), "{starting:?}");
    }
}
