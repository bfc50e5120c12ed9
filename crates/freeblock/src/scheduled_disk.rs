//! A core outside the drive with the bytes of its requests and blocks.

use crate::bytes::{WriteBytes, cut_out, size_of};
use crate::half_read::{Delivered, HalfReadBlocks};
use crate::overlap_queue::OverlapQueue;
use crate::{
    Bytes, Command, Config, DriveModel, Duration, IdleTime, Instant, Lbn, LbnRange, Op, Outcome, Output,
    OutsideConfig, OutsideDrive, Overheads, Profile, ProfileError, Request, RequestId, Sectors, SessionCall,
    SessionError, SessionId, Sessions, SubmitError, Wanted,
};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;
use thiserror::Error;

/// Bounds a program's wait for a completion, so that it polls again even if the device has lost the completion.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// A core outside the drive, and all that its host does about bytes and order: requests go in with their bytes, transfers come
/// out with a buffer, and each answer and each background block comes with the bytes read.
///
/// The program that owns the device and the clock calls [`submit`](Self::submit) for a foreground request, the methods of
/// [`Sessions`] for background work, and [`done`](Self::done) when the device has carried out a transfer. After each of these
/// calls, and at the time that [`wake_at`](OutsideDrive::wake_at) returns, the program calls [`poll`](Self::poll) until it returns
/// `None`, and begins every transfer at once; the device may carry them out in any order. The core's queries are methods too, by
/// [`Deref`].
///
/// # Promises about the bytes
/// * Foreground requests that overlap, if one of them writes, are done in order of arrival: several in flight give the same
///   results as one at a time.
/// * Transfers that overlap, if one of them writes, are never at the device together.
/// * The bytes of a background write are asked for when the core chooses the block. A foreground write to the same sectors that
///   arrives after the task was registered prevails, whichever of the two is carried out first.
/// * A block's bytes equal the medium at one instant before it is delivered, even if they arrived in parts.
/// * A bad sector fails the requests and the blocks that contain it. Requests and blocks that were merged with them into one
///   transfer are done again without that sector.
///
/// ```
/// use freeblock::{Bytes, DiskOutput, Duration, Instant, Lbn, LbnRange, Op, Parameter, Priority};
/// use freeblock::{Request, RequestId, ScheduledDisk, Sectors, Sessions};
/// let mut device: Vec<u8> = (0..512 * 2_048).map(|at| (at / 512) as u8).collect();
/// let mut disk = ScheduledDisk::serving(Sectors::new(2_048), Bytes::new(512), None)?;
/// let scan = disk.open(Priority::default())?;
/// let all = LbnRange::new(Lbn::ZERO, Sectors::new(2_048));
/// disk.read(scan, all, Sectors::new(8), Parameter::default())?;
/// let mut now = Instant::ZERO;
/// let range = LbnRange::new(Lbn::new(7), Sectors::new(1));
/// disk.submit(now, Request { id: RequestId::new(1), op: Op::Read, range }, Vec::new())?;
/// while disk.undelivered(scan) != Some(0) {
///     match disk.poll(now) {
///         Some(DiskOutput::Transfer(mut transfer)) => {
///             // This device is memory, takes 5 ms for each transfer, and carries out one at a time.
///             let (from, size) = (transfer.offset.get() as usize, transfer.bytes.len());
///             transfer.bytes.copy_from_slice(&device[from..from + size]);
///             now = now + Duration::from_millis(5);
///             disk.done(now, transfer, Ok(()));
///         }
///         Some(DiskOutput::Answer { result, .. }) => assert_eq!(result, Ok(vec![7; 512])),
///         Some(DiskOutput::Block(block)) => assert_eq!(block.bytes[0], block.record.range.start().get() as u8),
///         None => now = disk.wake_at().ok_or("nothing is to come")?,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScheduledDisk {
    core: OutsideDrive,
    sector: Bytes,
    /// The foreground requests. The core knows a request under way by its number in this queue.
    requests: OverlapQueue<ForegroundRequest>,
    /// The number of the request for which the core's pool had no room; it is submitted again before any other.
    queued: Option<u64>,
    commands: OverlapQueue<DeviceCommand>,
    blocks: HalfReadBlocks,
    writes: WriteBytes,
}

#[derive(Clone, Debug)]
struct ForegroundRequest {
    request: Request,
    /// The bytes to write, or the bytes read.
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct DeviceCommand {
    command: Command,
    /// The buffer, until [`Transfer::bytes`] takes it.
    bytes: Vec<u8>,
}

/// A transfer between the device and memory, which the program carries out and gives back by [`ScheduledDisk::done`].
///
/// A program that gives up a transfer reports it as failed only once the device can no longer carry it out: transfers that
/// overlap it wait until then.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a transfer that is not given back holds up all that overlap it"]
pub struct Transfer {
    /// The number of the transfer, ascending from 0 in the order in which [`ScheduledDisk::poll`] returns transfers.
    pub id: u64,
    /// Whether the transfer reads or writes.
    pub op: Op,
    /// The LBNs of the transfer.
    pub range: LbnRange,
    /// The distance of the transfer's first byte from the start of the device.
    pub offset: Bytes,
    /// The buffer, as large as the range: the bytes to write, or room for the bytes read.
    pub bytes: Vec<u8>,
}

/// An output of a [`ScheduledDisk`].
#[derive(Debug, PartialEq, Eq)]
pub enum DiskOutput {
    /// A transfer for the device.
    Transfer(Transfer),
    /// The end of a foreground request.
    Answer {
        /// The id that the program gave the request.
        id: RequestId,
        /// The bytes read (none for a write), or the request's first bad sector; its first sector if the bad one is unknown.
        result: Result<Vec<u8>, BadSector>,
    },
    /// A finished background block.
    Block(Delivered),
}

/// A sector that could not be transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("bad sector at LBN {0}")]
pub struct BadSector(pub Lbn);

/// The reason why there can be no [`ScheduledDisk`] for a drive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduledDiskError {
    /// The profile does not describe a possible drive. Without a profile: `capacity` is zero or more than a profile can describe
    /// (2^49 bytes), or no drive has sectors of that size.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The profile describes a drive of another size.
    #[error(
        "the drive has {capacity} sectors of {sector} bytes, and the profile describes {profile} of {profile_sector} bytes; \
         give the profile that was probed from this drive"
    )]
    OtherSize {
        /// The drive's size in sectors.
        capacity: Sectors,
        /// The size of the drive's sectors.
        sector: Bytes,
        /// The profile's size in sectors.
        profile: Sectors,
        /// The size of the profile's sectors.
        profile_sector: Bytes,
    },
}

/// The reason why a [`ScheduledDisk`] refuses a foreground request. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request is empty or ends past the drive's end.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A write came with more or fewer bytes than its range has, or a read came with bytes.
    #[error(
        "{id} comes with {found} bytes; give {expected}: those of its sectors to a write, none to a read"
    )]
    Length {
        /// The request.
        id: RequestId,
        /// The number of bytes that the request needs.
        expected: usize,
        /// The number of bytes that came with the request.
        found: usize,
    },
}

/// Gives the program the core's queries.
impl Deref for ScheduledDisk {
    type Target = OutsideDrive;

    fn deref(&self) -> &OutsideDrive {
        &self.core
    }
}

/// Passes calls to the core's sessions, and drops the bytes of blocks that a call makes unwanted.
impl Sessions for ScheduledDisk {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        let answer = self.core.call(call)?;
        self.blocks.forget_unwanted(call);
        Ok(answer)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.core.to_come(session)
    }
}

impl ScheduledDisk {
    /// Returns a disk behind a core that has had no input.
    pub fn new(core: OutsideDrive) -> Self {
        let sector = core.drive().sector_bytes();
        Self {
            core,
            sector,
            requests: OverlapQueue::default(),
            queued: None,
            commands: OverlapQueue::default(),
            blocks: HalfReadBlocks::new(sector),
            writes: WriteBytes::new(sector),
        }
    }

    /// Returns a disk that serves requests, and does background work in their gaps and in idle time within the default bound on
    /// harm. Without a profile of the drive, only idle time is used.
    ///
    /// # Errors
    /// The profile does not describe a possible drive, or describes one of another size. Without a profile: `capacity` is zero or
    /// more than a profile can describe (2^49 bytes), or no drive has sectors of that size.
    pub fn serving(
        capacity: Sectors,
        sector: Bytes,
        profile: Option<&Profile>,
    ) -> Result<Self, ScheduledDiskError> {
        let (drive, outside) = match profile {
            Some(profile) => {
                let drive = DriveModel::from_profile(profile)?;
                let firmware = profile.firmware.as_ref();
                let overheads = firmware.map(|firmware| Overheads::of(firmware, &drive, true));
                (drive, OutsideConfig::beyond(overheads.unwrap_or_default()))
            }
            None => (DriveModel::unknown(capacity, sector)?, OutsideConfig::blind()),
        };
        let (profile, profile_sector) = (drive.layout().capacity(), drive.sector_bytes());
        if (profile, profile_sector) != (capacity, sector) {
            return Err(ScheduledDiskError::OtherSize { capacity, sector, profile, profile_sector });
        }
        let config = Config::outside(outside.serving()).with_idle(Some(IdleTime::default()));
        Ok(Self::new(OutsideDrive::new(drive.into(), config)))
    }

    /// Takes a foreground request; `bytes` are the content of a write, and empty for a read. Any number of requests may wait.
    /// Their ids are the caller's, and are only used in answers.
    ///
    /// # Errors
    /// The request is empty, ends past the drive's end, or comes with too many bytes or too few.
    pub fn submit(&mut self, now: Instant, request: Request, bytes: Vec<u8>) -> Result<(), RequestError> {
        let Request { id, op, range } = request;
        let capacity = self.core.drive().layout().capacity();
        if range.is_empty() {
            return Err(SubmitError::Empty { id, range }.into());
        }
        if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(SubmitError::PastEnd { id, range, capacity }.into());
        }
        let expected = if op.is_write() { size_of(range, self.sector) } else { 0 };
        if bytes.len() != expected {
            return Err(RequestError::Length { id, expected, found: bytes.len() });
        }
        self.requests.push(op, range, ForegroundRequest { request, bytes });
        self.begin_requests(now);
        Ok(())
    }

    /// Returns the next output. Background writes wait: only [`poll_with`](Self::poll_with) has their bytes.
    pub fn poll(&mut self, now: Instant) -> Option<DiskOutput> {
        self.poll_with(now, |_, _| false)
    }

    /// Returns the next output. Before a background block is written, `fill` copies its bytes into a buffer of its size, and
    /// returns whether the bytes are available.
    pub fn poll_with(
        &mut self,
        now: Instant,
        mut fill: impl FnMut(&Wanted, &mut [u8]) -> bool,
    ) -> Option<DiskOutput> {
        loop {
            self.begin_requests(now);
            if let Some(transfer) = self.next_transfer() {
                return Some(DiskOutput::Transfer(transfer));
            }
            let output = self.core.poll_with(now, &mut self.writes.buffers(&mut fill))?;
            match output {
                Output::Do(command) => self.take_command(now, command),
                Output::Completed(id) => return self.answer(id, None),
                Output::Failed { id, bad } => return self.answer(id, Some(bad)),
                Output::Deliver(record) => return Some(DiskOutput::Block(self.blocks.deliver(record))),
            }
        }
    }

    /// Reports that the device has carried out a transfer, whose buffer holds the bytes of a read; or that the transfer has
    /// failed, with the bad sector if that is known.
    pub fn done(&mut self, now: Instant, transfer: Transfer, result: Result<(), Option<Lbn>>) {
        let Some(DeviceCommand { command, .. }) = self.commands.done(transfer.id) else {
            debug_assert!(false, "{transfer:?} is not at the device");
            return;
        };
        let Command { id, op, range, .. } = command;
        let parts = self.blocks.arrived(id);
        if result.is_err() && op.is_write() {
            self.blocks.write_failed(range);
        }
        let outcome = match result {
            Ok(()) => {
                self.blocks.done(op, range, &parts, &transfer.bytes);
                if let Some(own) = command.request.and_then(|id| self.requests.get_mut(id.get()))
                    && !op.is_write()
                {
                    own.bytes = cut_out(transfer.bytes, range, own.request.range, self.sector);
                }
                Outcome::Done
            }
            Err(Some(bad)) if range.contains(bad) => Outcome::NoData(bad),
            // The bad sector is unknown, so the first is reported. If it belongs to a background block, the core sends the
            // command's request again without background blocks.
            Err(_) => Outcome::NoData(range.start()),
        };
        self.core.command_done(now, id, outcome);
    }

    /// Returns how long the program may wait for a completion before it polls again: until the time that
    /// [`wake_at`](OutsideDrive::wake_at) returns, and one second at most.
    pub fn longest_wait(&self, now: Instant) -> Duration {
        self.core.wake_at().map_or(WAIT_MAX, |at| at.saturating_since(now).min(WAIT_MAX))
    }

    /// Returns the number of foreground requests that are not answered.
    pub fn unanswered(&self) -> usize {
        self.requests.len()
    }

    /// Submits the requests that wait for no earlier one to the core, as far as its pool has room.
    fn begin_requests(&mut self, now: Instant) {
        while let Some(number) = self.queued.take().or_else(|| Some(self.requests.begin_next()?.0)) {
            let Some(ForegroundRequest { request, .. }) = self.requests.get_mut(number) else { continue };
            let request = Request { id: RequestId::new(number), ..*request };
            if self.core.submit(now, request).is_err() {
                // `submit` has checked everything but the room in the core's pool: the pool is full until a completion.
                self.queued = Some(number);
                return;
            }
        }
    }

    /// Queues a command of the core with a buffer, which holds the bytes of a write.
    fn take_command(&mut self, now: Instant, command: Command) {
        let Command { id, op, range, request, .. } = command;
        let own = request.and_then(|id| self.requests.get_mut(id.get()));
        let bytes = match op {
            Op::Read => Some(vec![0; size_of(range, self.sector)]),
            Op::Write => self.writes.content(range, own.map(|own| (own.request.range, &mut own.bytes))),
        };
        match bytes {
            Some(bytes) => {
                self.blocks.await_parts(&command);
                self.commands.push(op, range, DeviceCommand { command, bytes });
            }
            None => {
                debug_assert!(false, "the bytes of {command:?} were not asked for");
                self.core.command_done(now, id, Outcome::NoData(range.start()));
            }
        }
    }

    fn next_transfer(&mut self) -> Option<Transfer> {
        let (id, DeviceCommand { command, bytes }) = self.commands.begin_next()?;
        let (op, range) = (command.op, command.range);
        let offset = Sectors::new(range.start().get()).bytes(self.sector);
        Some(Transfer { id, op, range, offset, bytes: core::mem::take(bytes) })
    }

    fn answer(&mut self, id: RequestId, bad: Option<Lbn>) -> Option<DiskOutput> {
        let ForegroundRequest { request, bytes } = self.requests.done(id.get())?;
        let read = if request.op.is_write() { Vec::new() } else { bytes };
        Some(DiskOutput::Answer { id: request.id, result: bad.map_or(Ok(read), |bad| Err(BadSector(bad))) })
    }
}
