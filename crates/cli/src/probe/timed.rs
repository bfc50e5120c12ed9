//! A disk or a file with a clock beside it: one command at a time, and when it began and ended.

use crate::problem::Problem;
use ::device::{Answer, Ask, Clock, Device as _, Failure, Options, Raw, Ring, User};
use ::probe::{Device, DeviceError, Timed};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;
use units::{Bytes, Instant, Lbn, LbnRange, Op, Sectors};

/// Sleeps end so much before they should, and the rest is spun: what wakes a process up takes some 30 us, at times a
/// millisecond.
const SPIN: Duration = Duration::from_micros(200);

/// The most that is held of what writes put back.
const MOST_HELD: u64 = 64 << 20;

/// An opened disk.
pub(super) struct TimedRaw {
    path: String,
    disk: Raw,
    ring: Ring,
    clock: Clock,
    commands: u64,
    /// What stands in the sectors that may be written.
    held: Option<(LbnRange, Vec<u8>)>,
    /// The disk's names of what the ring works on.
    under_way: BTreeMap<::device::Token, u64>,
}

impl TimedRaw {
    /// Opens a disk for reads, or also for writes to some of its sectors; and who else uses it.
    ///
    /// # Errors
    /// It cannot be read, or is to be written while somebody else uses it.
    pub(super) fn open(path: &Path, writes: Option<LbnRange>) -> Result<(Self, Option<User>), Problem> {
        let options = Options { read_only: writes.is_none(), buffered: false };
        let opened = match writes {
            // Who writes must be alone.
            Some(_) => Raw::open(path, options).map(|disk| (disk, None)),
            None => Raw::open_shared(path),
        };
        let (disk, user) = opened.map_err(Problem::failed)?;
        let ring = Ring::new().map_err(|error| {
            Problem::failed(format!("io_uring: {error}"))
                .help("allow it (sysctl kernel.io_uring_disabled=0), or use a newer kernel")
        })?;
        let mut timed = Self {
            path: path.display().to_string(),
            disk,
            ring,
            clock: Clock::start(),
            commands: 0,
            held: None,
            under_way: BTreeMap::new(),
        };
        if let Some(region) = writes {
            timed.hold(region)?;
        }
        Ok((timed, user))
    }

    /// Reads what writes to `region` will put back.
    fn hold(&mut self, region: LbnRange) -> Result<(), Problem> {
        let bytes = region.len().get().saturating_mul(self.disk.sector_bytes().get());
        if bytes > MOST_HELD {
            return Err(Problem::failed(format!("--allow-writes names {bytes} bytes")).help(format!(
                "name at most {MOST_HELD}: what stands there is kept in memory and put back"
            )));
        }
        if region.checked_end().is_none_or(|end| end.get() > self.disk.capacity().get()) {
            return Err(Problem::failed(format!("{} ends before {region}", self.path))
                .help("name sectors that it has"));
        }
        let (_, answer) = self.perform(region, Ask::Read).map_err(Problem::failed)?;
        self.held = Some((region, answer.result.map_err(Problem::failed)?));
        Ok(())
    }

    /// Waits until an instant, to the microsecond.
    fn wait_until(&self, at: Instant) {
        loop {
            let left = Duration::from_nanos(at.saturating_since(self.clock.now()).as_nanos());
            match left.checked_sub(SPIN) {
                Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
                _ if left.is_zero() => return,
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Carries something out; when it was submitted and what came of it.
    fn perform(&mut self, range: LbnRange, ask: Ask) -> Result<(Instant, Answer), String> {
        let told = |error: &dyn Display| error.to_string();
        let submitted = self.clock.now();
        self.commands += 1;
        self.disk.ask(submitted, self.commands, range, ask);
        loop {
            while let Some((name, work)) = self.disk.next_work() {
                let token = self.ring.start(work).map_err(|e| told(&e))?;
                self.under_way.insert(token, name);
            }
            if let Some(answer) = self.disk.poll(self.clock.now()) {
                return Ok((submitted, answer));
            }
            self.ring.wait(None).map_err(|e| told(&e))?;
            let now = self.clock.now();
            while let Some(ended) = self.ring.next_ended() {
                if let Some(name) = self.under_way.remove(&ended.token) {
                    self.disk.ended(now, name, ended);
                }
            }
        }
    }

    /// What stands in sectors that may be written.
    fn content(&self, range: LbnRange) -> Option<Vec<u8>> {
        let (region, bytes) = self.held.as_ref()?;
        let sector = self.disk.sector_bytes().get();
        let first = range.start().get().checked_sub(region.start().get())?.checked_mul(sector)?;
        let end = first.checked_add(range.len().get().checked_mul(sector)?)?;
        bytes.get(usize::try_from(first).ok()?..usize::try_from(end).ok()?).map(<[u8]>::to_vec)
    }
}

impl Device for TimedRaw {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.disk.sector_bytes()
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let failed = |reason: String, mend: &str| DeviceError {
            op,
            range,
            unreadable: None,
            reason,
            mend: mend.to_owned(),
        };
        let ask = match op {
            Op::Read => Ask::Read,
            Op::Write => match self.content(range) {
                Some(bytes) => Ask::Write { bytes, through: false },
                None => {
                    return Err(failed("it may not be written".to_owned(), "name it with --allow-writes"));
                }
            },
        };
        self.wait_until(at);
        let mend = "look at the kernel's log (dmesg)";
        let (submitted, answer) = self.perform(range, ask).map_err(|error| failed(error, mend))?;
        answer.result.map_err(|error| DeviceError {
            unreadable: unreadable(&error).filter(|_| op == Op::Read),
            ..failed(error.to_string(), mend)
        })?;
        Ok(Timed { submitted, completed: answer.at.max(submitted) })
    }
}

/// The sector that cannot be read, where that is what failed.
fn unreadable(failure: &Failure) -> Option<Lbn> {
    match failure {
        Failure::Medium(lbn) => Some(*lbn),
        _ => None,
    }
}
