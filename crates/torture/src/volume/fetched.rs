//! A slow client of a buffer of records ([`apps::records`], the *record face*), in the plain part of the drive. Its buffer is
//! compared with a naive queue.

use super::{House, Part, refused};
use crate::clients::range;
use crate::failure::{Broken, Check, hold};
use crate::step::Wait;
use apps::records::{Deadline, Fetched, Got, Limits, Records, Timeout};
use scheduler::{Application, Parameter, Priority, Record, Sessions, Wanted};
use sim::{Place, Volume};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Duration, Instant, LbnRange, Op, Sectors, TaskId};

/// The most tasks of the client; further tasks are not registered.
const TASKS_MAX: usize = 64;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchedBlock {
    Wanted,
    /// The record of the block is in the buffer.
    Come,
    Fetched,
    Withdrawn,
}

/// A task from its client's view.
#[derive(Clone, Debug)]
struct FetchTask {
    number: u32,
    op: Op,
    range: LbnRange,
    block: u64,
    /// The version of a write.
    version: u64,
    /// The oldest permitted content of each sector of a read.
    floors: Vec<Option<u64>>,
    blocks: Vec<FetchedBlock>,
}

impl FetchTask {
    fn block_range(&self, block: usize) -> LbnRange {
        let offset = block as u64 * self.block;
        range(self.range.start().get() + offset, self.block.min(self.range.len().get() - offset))
    }

    fn block_at(&self, of: LbnRange) -> Option<usize> {
        (0..self.blocks.len()).find(|block| self.block_range(*block) == of)
    }

    fn left(&self) -> u64 {
        self.blocks.iter().filter(|block| matches!(block, FetchedBlock::Wanted | FetchedBlock::Come)).count()
            as u64
    }
}

/// The application under test, with a list of the records that the core delivered, and their times.
struct Face {
    records: Records,
    came: Vec<(Record, Vec<u8>, Instant)>,
}

impl Application for Face {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        self.came.push((*done, bytes.to_vec(), now));
        self.records.done(sessions, done, bytes, now);
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        self.records.buffer(wanted, into)
    }
}

/// A client that waits for a record: until when, for how long each time, and for how many more records.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    deadline: Deadline,
    wait: Wait,
    left: u32,
}

pub(super) struct Client {
    place: Place<super::seat::Seat<Face>>,
    priority: Priority,
    limits: Limits,
    tasks: BTreeMap<TaskId, FetchTask>,
    /// The naive queue: the records that must be in the buffer.
    queue: VecDeque<(Record, Vec<u8>)>,
    /// If the naive queue counts as full: since when.
    full: Option<Instant>,
    suspended: bool,
    waiting: Option<Waiting>,
}

impl Client {
    fn with<R>(
        &self,
        volume: &mut Volume,
        call: impl FnOnce(&mut Records, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let place = self.place;
        volume
            .call(place, |seat, sessions| seat.0.as_mut().map(|face| call(&mut face.records, sessions)))
            .flatten()
    }

    /// Returns the number of blocks that have not been fetched.
    fn left(&self) -> u64 {
        self.tasks.values().map(FetchTask::left).sum()
    }

    fn bytes(&self) -> u64 {
        self.queue.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Updates whether the naive queue counts as full, and returns whether it has become full now. A full queue stays full
    /// until it is at most half full.
    fn fill(&mut self, now: Instant) -> bool {
        let (records, bytes) = (self.queue.len(), self.bytes());
        if records >= self.limits.records || bytes >= self.limits.bytes.get() {
            return self.full.replace(self.full.unwrap_or(now)).is_none();
        }
        if records * 2 <= self.limits.records && bytes * 2 <= self.limits.bytes.get() {
            self.full = None;
        }
        false
    }
}

impl House {
    /// Opens a session with a buffer of records. If one is open, closes it instead, with the blocks that were not fetched.
    pub(super) fn records(&mut self, priority: u8, records: u32, bytes: u64) -> Result<(), Broken> {
        if self.is_logged(Part::Plain) {
            // The log-structured disk occupies the plain part.
            return Ok(());
        }
        if let Some(client) = self.client.take() {
            let left = client.left();
            let reported = self
                .volume
                .call(client.place, |seat, sessions| seat.0.take().map(|face| face.records.close(sessions)));
            let reported = reported.flatten().map(|reported| reported.ok());
            return hold(reported == Some(Some(left)), Check::Count, || {
                format!("closing the record face says {reported:?}, and {left} blocks were not fetched")
            });
        }
        let Some(priority) = Priority::new(priority) else { return Ok(()) };
        let limits = Limits { records: records as usize, bytes: Bytes::new(bytes) };
        self.open_records(priority, limits)
    }

    fn open_records(&mut self, priority: Priority, limits: Limits) -> Result<(), Broken> {
        let place = self.volume.host(super::seat::Seat(None));
        let sector = self.drive.sector_bytes();
        let opened = self.volume.call(place, |seat: &mut super::seat::Seat<Face>, sessions| {
            Records::open(sessions, priority, sector, limits)
                .map(|records| seat.0 = Some(Face { records, came: Vec::new() }))
        });
        let nothing = limits.records == 0 || limits.bytes.get() == 0;
        match opened {
            Some(Err(_)) if nothing => return Ok(()),
            Some(Err(error)) => return Err(refused(error)),
            _ => {}
        }
        hold(!nothing, Check::Refusal, || "a buffer that holds nothing is not refused".into())?;
        self.client = Some(Client {
            place,
            priority,
            limits,
            tasks: BTreeMap::new(),
            queue: VecDeque::new(),
            full: None,
            suspended: false,
            waiting: None,
        });
        Ok(())
    }

    /// Registers a task for blocks of the plain part.
    pub(super) fn ask_records(
        &mut self,
        number: u32,
        op: Op,
        (start, len, block): (u64, u64, u64),
    ) -> Result<(), Broken> {
        let plain = self.range_of(Part::Plain);
        if self.client.as_ref().is_none_or(|client| client.tasks.len() >= TASKS_MAX) || plain.is_empty() {
            return Ok(());
        }
        let offset = start % plain.len().get();
        let of = range(plain.start().get() + offset, len.clamp(1, plain.len().get() - offset));
        self.register_records(number, op, of, block)
    }

    fn register_records(&mut self, number: u32, op: Op, of: LbnRange, block: u64) -> Result<(), Broken> {
        // No write is registered while another of the same sectors waits, because either could be executed last.
        let writes = |client: &Client| {
            client.tasks.values().any(|task| task.op.is_write() && task.left() > 0 && task.range.overlaps(of))
        };
        if op.is_write() && (self.is_busy(op, of) || self.client.as_ref().is_some_and(writes)) {
            return Ok(());
        }
        let parameter = Parameter(number.into());
        let bytes = self.shadow.next_bytes(of);
        let floors = self.shadow.floors(of);
        let Some(client) = &mut self.client else { return Ok(()) };
        let reported = client.with(&mut self.volume, |records, sessions| match op {
            Op::Read => records.read(sessions, of, Sectors::new(block), parameter),
            Op::Write => records.write(sessions, of, Sectors::new(block), bytes, parameter),
        });
        let Some(reported) = reported else { return Ok(()) };
        let id = reported.map_err(refused)?;
        let version = if op.is_write() { self.shadow.issue(of) } else { 0 };
        let blocks = vec![FetchedBlock::Wanted; of.len().get().div_ceil(block) as usize];
        let task = FetchTask { number, op, range: of, block, version, floors, blocks };
        let before = client.tasks.insert(id, task);
        hold(before.is_none(), Check::Once, || format!("{id} was used before"))
    }

    /// Aborts a task, which removes its records from the buffer.
    pub(super) fn abort_records(&mut self, number: u32) -> Result<(), Broken> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let of = client.tasks.iter().find(|(_, task)| task.number == number).map(|(id, _)| *id);
        let Some(id) = of else { return Ok(()) };
        let reported = client.with(&mut self.volume, |records, sessions| records.abort(sessions, id));
        let Some(task) = client.tasks.get_mut(&id) else { return Ok(()) };
        let left = task.left();
        withdraw(&mut task.blocks, |_| true);
        client.queue.retain(|(record, _)| record.task != id);
        client.fill(self.volume.now());
        let reported = reported.and_then(Result::ok);
        hold(reported == (left > 0).then_some(left), Check::Count, || {
            format!("aborting over the record face says {reported:?}, and {left} blocks were not fetched")
        })
    }

    /// Withdraws the blocks that overlap a range and were not fetched.
    pub(super) fn abort_range_records(&mut self, start: u64, len: u64) -> Result<(), Broken> {
        let capacity = self.drive.layout().capacity().get();
        let start = start % capacity;
        let of = range(start, len.clamp(1, capacity - start));
        let Some(client) = &mut self.client else { return Ok(()) };
        let reported = client.with(&mut self.volume, |records, sessions| records.abort_range(sessions, of));
        let mut left = 0;
        for task in client.tasks.values_mut() {
            let over: Vec<bool> =
                (0..task.blocks.len()).map(|block| task.block_range(block).overlaps(of)).collect();
            left += withdraw(&mut task.blocks, |block| over[block]);
        }
        client.queue.retain(|(record, _)| !record.range.overlaps(of));
        client.fill(self.volume.now());
        let reported = reported.and_then(Result::ok);
        hold(reported == Some(left), Check::Count, || {
            format!("abort-range over the record face says {reported:?}, and {left} blocks were not fetched")
        })
    }

    pub(super) fn promote_records(&mut self, start: u64, len: u64) -> Result<(), Broken> {
        let capacity = self.drive.layout().capacity().get();
        let start = start % capacity;
        let of = range(start, len.clamp(1, capacity - start));
        let Some(client) = &self.client else { return Ok(()) };
        let reported = client.with(&mut self.volume, |records, sessions| records.promote(sessions, of));
        reported.map_or(Ok(()), |reported| reported.map(|_| ()).map_err(refused))
    }

    pub(super) fn suspend_records(&mut self, on: bool) -> Result<(), Broken> {
        let Some(client) = &mut self.client else { return Ok(()) };
        client.suspended = on;
        let reported = client.with(&mut self.volume, |records, sessions| match on {
            true => records.suspend(sessions),
            false => records.resume(sessions),
        });
        reported.map_or(Ok(()), |reported| reported.map_err(refused))
    }

    /// Begins to fetch up to `most` records.
    pub(super) fn fetch(&mut self, wait: Wait, most: u32) -> Result<(), Broken> {
        let now = self.now();
        let Some(client) = &mut self.client else { return Ok(()) };
        client.waiting = Some(Waiting { deadline: timeout(wait).deadline(now), wait, left: most });
        self.fetch_on()
    }

    /// Returns the instant at which the wait of the client times out, if it waits with a limit.
    pub(super) fn fetch_due(&self) -> Option<Instant> {
        match self.client.as_ref()?.waiting?.deadline {
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        }
    }

    /// Takes the records that the core has delivered to the application. Returns whether there were any.
    pub(super) fn look_at_records(&mut self) -> Result<bool, Broken> {
        let Some(client) = &mut self.client else { return Ok(false) };
        let came = self.volume.call(client.place, |seat, _| {
            seat.0.as_mut().map(|face| std::mem::take(&mut face.came)).unwrap_or_default()
        });
        let came = came.unwrap_or_default();
        let any = !came.is_empty();
        for (record, bytes, at) in came {
            self.came(&record, bytes, at)?;
        }
        self.check_face()?;
        self.fetch_on()?;
        Ok(any)
    }

    /// Checks a record that the core delivered, and adds it to the naive queue.
    fn came(&mut self, record: &Record, bytes: Vec<u8>, at: Instant) -> Result<(), Broken> {
        let spoilt = self.is_spoilt(Part::Plain);
        let sector = self.sector;
        let Some(client) = &mut self.client else { return Ok(()) };
        let once = |what: &str| (Check::Once, format!("{what}: {record:?}"));
        let Some(task) = client.tasks.get_mut(&record.task) else {
            return Err(once("a record of a task that has ended or never was"));
        };
        let block =
            task.block_at(record.range).ok_or_else(|| once("a record of a range that is no block"))?;
        if task.blocks[block] != FetchedBlock::Wanted || task.op != record.op {
            return Err(once("a record of a block that is not wanted"));
        }
        task.blocks[block] = FetchedBlock::Come;
        // The session of a full buffer is suspended. Then only writes that another write completes may still be delivered, and
        // reads by commands that were in progress.
        let range = record.range;
        let silent = client.full.is_some_and(|since| since < at && !self.place.was_under_way(range, since));
        hold(!silent || record.op.is_write(), Check::Suspended, || {
            format!("the buffer is full since before {at:?}, and {record:?} comes")
        })?;
        hold(record.bad.is_none() || spoilt, Check::Bad, || format!("{record:?}, and nothing was ever bad"))?;
        if record.bad.is_none() && record.op == Op::Read {
            let whole = bytes.len() == record.range.len().get() as usize * sector;
            let from = record.range.start().since(task.range.start()).get() as usize;
            let floors = &task.floors[from..from + record.range.len().get() as usize];
            let wrong = self.shadow.wrong(record.range, &bytes, floors);
            hold(whole && wrong.is_none(), Check::Stale, || {
                format!("{record:?} brings {} bytes: {}", bytes.len(), wrong.unwrap_or_default())
            })?;
        }
        if record.bad.is_none() && record.op.is_write() {
            self.shadow.acknowledge(record.range, task.version);
        }
        client.queue.push_back((*record, bytes));
        self.counts.full += u64::from(client.fill(at));
        self.hash.add(record.range.start().get());
        Ok(())
    }

    /// Compares the state of the application's buffer with that of the naive queue.
    fn check_face(&self) -> Result<(), Broken> {
        let Some(client) = &self.client else { return Ok(()) };
        let Some(face) = self.volume.app(client.place).and_then(|seat| seat.0.as_ref()) else {
            return Ok(());
        };
        let reported = (face.records.buffered(), face.records.to_come(), face.records.is_full());
        let plain = (client.queue.len(), client.left(), client.full.is_some());
        hold(reported == plain, Check::Records, || {
            format!(
                "records, blocks to come and fullness are {reported:?} at the face, {plain:?} in a plain queue"
            )
        })?;
        let session = face.records.session();
        let core = self.volume.core().undelivered(session);
        let wanted = client.left() - client.queue.len() as u64;
        hold(core == Some(wanted), Check::Count, || {
            format!("{wanted} blocks of the record face are wanted, and the core says {core:?}")
        })
    }

    /// Lets the waiting client fetch the available records, and compares the results with those of the naive queue.
    fn fetch_on(&mut self) -> Result<(), Broken> {
        loop {
            let now = self.now();
            let Some(client) = &mut self.client else { return Ok(()) };
            let Some(mut waiting) = client.waiting.filter(|waiting| waiting.left > 0) else {
                client.waiting = None;
                return Ok(());
            };
            let left = client.left();
            let deadline = waiting.deadline;
            let reported =
                client.with(&mut self.volume, |records, sessions| records.get_by(sessions, deadline, now));
            let Some(reported) = reported else { return Ok(()) };
            let got = reported.map_err(refused)?;
            let plain = match (client.queue.pop_front(), deadline) {
                (Some((mut done, bytes)), _) => {
                    done.last = left == 1;
                    Got::Record(Fetched { done, bytes })
                }
                (None, _) if left == 0 => Got::Done,
                (None, Deadline::At(at)) if at <= now => Got::Nothing,
                (None, deadline) => Got::WaitUntil(deadline),
            };
            hold(got == plain, Check::Records, || {
                format!("asked with {waiting:?} the face gives {}, a queue {}", short(&got), short(&plain))
            })?;
            match plain {
                Got::Record(Fetched { done, .. }) => {
                    if let Some(task) = client.tasks.get_mut(&done.task)
                        && let Some(block) = task.block_at(done.range)
                    {
                        task.blocks[block] = FetchedBlock::Fetched;
                    }
                    client.fill(now);
                    self.counts.fetched += 1;
                    waiting.left -= 1;
                    // The whole timeout applies to each record.
                    waiting.deadline = timeout(waiting.wait).deadline(now);
                    client.waiting = Some(waiting);
                }
                Got::WaitUntil(_) => return Ok(()),
                Got::Done | Got::Nothing => client.waiting = None,
            }
        }
    }

    /// Continues after a power cut. The buffer is lost, so the client registers all blocks again that it has not fetched.
    pub(super) fn records_restart(&mut self) -> Result<(), Broken> {
        let Some(old) = self.client.take() else { return Ok(()) };
        self.open_records(old.priority, old.limits)?;
        if old.suspended {
            self.suspend_records(true)?;
        }
        for task in old.tasks.values() {
            let mut block = 0;
            while block < task.blocks.len() {
                let begin = block;
                while matches!(task.blocks.get(block), Some(FetchedBlock::Wanted | FetchedBlock::Come)) {
                    block += 1;
                }
                if block > begin {
                    let (first, last) = (task.block_range(begin), task.block_range(block - 1));
                    let of = LbnRange::new(first.start(), last.end().since(first.start()));
                    self.register_records(task.number, task.op, of, task.block)?;
                }
                block += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of blocks that the client has not fetched.
    pub(super) fn records_left(&self) -> u64 {
        self.client.as_ref().map_or(0, Client::left)
    }

    /// Begins to fetch all records, at the end of a history.
    pub(super) fn fetch_all(&mut self) -> Result<(), Broken> {
        self.suspend_records(false)?;
        self.fetch(Wait::Forever, u32::MAX)
    }

    /// Checks at the end of a history that all records were fetched and the client does not wait.
    pub(super) fn check_records_over(&self) -> Result<(), Broken> {
        let left = self.records_left();
        hold(left == 0, Check::Records, || format!("at the end {left} records have not come"))?;
        let waits = self.client.as_ref().is_some_and(|client| client.waiting.is_some());
        hold(!waits, Check::Hang, || "a client waits for records of which none will come".into())
    }
}

fn withdraw(blocks: &mut [FetchedBlock], which: impl Fn(usize) -> bool) -> u64 {
    let mut left = 0;
    for (_, block) in blocks.iter_mut().enumerate().filter(|(at, _)| which(*at)) {
        if matches!(block, FetchedBlock::Wanted | FetchedBlock::Come) {
            *block = FetchedBlock::Withdrawn;
            left += 1;
        }
    }
    left
}

fn timeout(wait: Wait) -> Timeout {
    match wait {
        Wait::Poll => Timeout::Poll,
        Wait::Forever => Timeout::Forever,
        Wait::For(ns) => Timeout::For(Duration::from_nanos(ns)),
    }
}

/// Returns a description of a result without its bytes, for messages.
fn short(got: &Got) -> String {
    match got {
        Got::Record(Fetched { done, bytes }) => format!("{done:?} and {} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}
