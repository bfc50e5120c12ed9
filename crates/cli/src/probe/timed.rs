//! A disk or file with a clock: carries out one command at a time, or two, and returns when they began and ended.

use crate::problem::Problem;
use ::device::{Answer, Ask, Clock, Device as _, Failure, Options, Raw, Ring, User};
use ::probe::{DeviceError, ProbedDevice, Timed};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;
use units::{Bytes, Instant, Lbn, LbnRange, Op, Sectors};

/// The time by which a sleep ends early, to spin for the rest: a process wakes some 30 us late, at times a millisecond.
const SPIN_TIME: Duration = Duration::from_micros(200);

/// Bounds the region for test writes, because its content is kept in memory to be put back.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// An opened disk.
pub(super) struct TimedRaw {
    path: String,
    disk: Raw,
    ring: Ring,
    clock: Clock,
    commands: u64,
    /// The content of the sectors that may be written, with their LBNs.
    held: Option<(LbnRange, Vec<u8>)>,
    /// The disk's number of each operation under way, by the ring's token.
    under_way: BTreeMap<::device::Token, u64>,
    /// A change to each result, to simulate failures of the kernel.
    #[cfg(test)]
    kernel: Option<fn(&mut ::device::Ended)>,
}

impl TimedRaw {
    /// Opens a disk for reads, and for writes to some of its sectors. Also returns the disk's other user, if there is one.
    ///
    /// # Errors
    /// The disk cannot be read, or is to be written while in use.
    pub(super) fn open(path: &Path, writes: Option<LbnRange>) -> Result<(Self, Option<User>), Problem> {
        let options = Options { read_only: writes.is_none(), buffered: false };
        let opened = match writes {
            // Writing needs exclusive access.
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
            #[cfg(test)]
            kernel: None,
        };
        if let Some(region) = writes {
            timed.hold(region)?;
        }
        Ok((timed, user))
    }

    /// Reads the bytes that writes to `region` will put back.
    fn hold(&mut self, region: LbnRange) -> Result<(), Problem> {
        let bytes = region.len().get().saturating_mul(self.disk.sector_bytes().get());
        if bytes > HELD_BYTES_MAX {
            return Err(Problem::failed(format!("--allow-writes names {bytes} bytes")).help(format!(
                "name at most {HELD_BYTES_MAX}: what stands there is kept in memory and put back"
            )));
        }
        if region.checked_end().is_none_or(|end| end.get() > self.disk.capacity().get()) {
            return Err(Problem::failed(format!("{} ends before {region}", self.path))
                .help("name sectors that it has"));
        }
        let (_, answers) = self.perform(vec![(region, Ask::Read)]).map_err(Problem::failed)?;
        for answer in answers {
            let bytes = answer.result.map_err(|error| {
                Problem::failed(format!("{}, {region}, which is to be written: {error}", self.path))
                    .help("name sectors that can be read: what stands there is put back")
            })?;
            self.held = Some((region, bytes));
        }
        Ok(())
    }

    /// Waits until an instant, to the microsecond.
    fn wait_until(&self, at: Instant) {
        loop {
            let left = Duration::from_nanos(at.saturating_since(self.clock.now()).as_nanos());
            match left.checked_sub(SPIN_TIME) {
                Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
                _ if left.is_zero() => return,
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Submits these commands, one right after the other, and waits for all. Returns the instant of submission, and the
    /// answers.
    fn perform(&mut self, these: Vec<(LbnRange, Ask)>) -> Result<(Instant, Vec<Answer>), String> {
        let as_text = |error: &dyn Display| error.to_string();
        let submitted = self.clock.now();
        let first = self.commands + 1;
        for (range, ask) in these {
            self.commands += 1;
            self.disk.ask(submitted, self.commands, range, ask);
        }
        let mut answers = BTreeMap::new();
        loop {
            while let Some((name, work)) = self.disk.next_work() {
                let token = self.ring.start(work).map_err(|e| as_text(&e))?;
                self.under_way.insert(token, name);
            }
            while let Some(answer) = self.disk.poll(self.clock.now()) {
                answers.insert(answer.id, answer);
            }
            if (first..=self.commands).all(|id| answers.contains_key(&id)) {
                // Answers to an earlier command that was given up are dropped.
                return Ok((submitted, answers.split_off(&first).into_values().collect()));
            }
            self.ring.wait(None).map_err(|e| as_text(&e))?;
            let now = self.clock.now();
            while let Some(ended) = self.ring.next_ended() {
                #[cfg(test)]
                let ended = self.altered(ended);
                if let Some(name) = self.under_way.remove(&ended.token) {
                    self.disk.ended(now, name, ended);
                }
            }
        }
    }

    /// Returns the operation to ask of the disk; `None` for a write that is not permitted.
    fn ask(&self, op: Op, range: LbnRange) -> Option<Ask> {
        match op {
            Op::Read => Some(Ask::Read),
            Op::Write => self.content(range).map(|bytes| Ask::Write { bytes, through: false }),
        }
    }

    /// Waits until `at`, submits these commands, and times them.
    fn carry_out<const N: usize>(
        &mut self,
        at: Instant,
        these: [(Op, LbnRange); N],
    ) -> Result<[Timed; N], DeviceError> {
        let mut asks = Vec::with_capacity(N);
        for of in these {
            match self.ask(of.0, of.1) {
                Some(ask) => asks.push((of.1, ask)),
                None => {
                    return Err(failed(
                        of,
                        "the range may not be written".to_owned(),
                        "name it with --allow-writes",
                    ));
                }
            }
        }
        self.wait_until(at);
        let mend = "look at the kernel's log (dmesg)";
        let [first, ..] = these.as_slice() else { return Ok([Timed { submitted: at, completed: at }; N]) };
        let (submitted, answers) = self.perform(asks).map_err(|error| failed(*first, error, mend))?;
        let mut timed = [Timed { submitted, completed: submitted }; N];
        for ((timed, answer), of) in timed.iter_mut().zip(answers).zip(these) {
            timed.completed = answer.at.max(submitted);
            answer.result.map_err(|error| DeviceError {
                unreadable: unreadable(&error),
                ..failed(of, error.to_string(), mend)
            })?;
        }
        Ok(timed)
    }

    /// Returns the content of sectors that may be written.
    fn content(&self, range: LbnRange) -> Option<Vec<u8>> {
        let (region, bytes) = self.held.as_ref()?;
        let sector = self.disk.sector_bytes().get();
        let first = range.start().get().checked_sub(region.start().get())?.checked_mul(sector)?;
        let end = first.checked_add(range.len().get().checked_mul(sector)?)?;
        bytes.get(usize::try_from(first).ok()?..usize::try_from(end).ok()?).map(<[u8]>::to_vec)
    }
}

impl ProbedDevice for TimedRaw {
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
        self.carry_out(at, [(op, range)]).map(|[timed]| timed)
    }

    fn switch_buffer_off(&mut self) -> bool {
        crate::switches::off(self.path.as_ref())
    }

    /// Returns true. The kernel passes both commands to a disk with a queue. To a disk without a queue it passes the second
    /// when the first is done, which the probe sees from their times.
    fn takes_two(&self) -> bool {
        true
    }

    fn execute_two(&mut self, at: Instant, two: [(Op, LbnRange); 2]) -> Result<[Timed; 2], DeviceError> {
        self.carry_out(at, two)
    }
}

fn failed((op, range): (Op, LbnRange), reason: String, mend: &str) -> DeviceError {
    DeviceError { op, range, unreadable: None, reason, mend: mend.to_owned() }
}

/// Returns the sector that cannot be read or written, if that is the failure.
fn unreadable(failure: &Failure) -> Option<Lbn> {
    match failure {
        Failure::Medium(lbn) => Some(*lbn),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, count: u64) -> LbnRange {
        LbnRange::new(Lbn::new(first), Sectors::new(count))
    }

    /// Opens a file with known bytes; `None` without O_DIRECT or io_uring.
    fn opened(name: &str, writes: Option<LbnRange>) -> Option<(std::path::PathBuf, TimedRaw)> {
        let path = std::env::temp_dir().join(format!("freeblock-timed-{name}-{}", std::process::id()));
        let bytes: Vec<u8> = (0..4_u32 << 20).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, bytes).unwrap();
        match TimedRaw::open(&path, writes) {
            Ok((timed, _)) => Some((path, timed)),
            Err(problem) => {
                testing::missing(&format!("O_DIRECT and io_uring ({problem:?})"));
                std::fs::remove_file(&path).unwrap();
                None
            }
        }
    }

    #[test]
    fn two_commands_at_a_time_are_both_done_and_timed() {
        let Some((path, mut disk)) = opened("two", None) else { return };
        assert!(disk.takes_two());
        for i in 0..200_u64 {
            let at = disk.now() + units::Duration::from_nanos(1_000 * i);
            let two = [(Op::Read, range(37 * i % 8_000, 1)), (Op::Read, range(8_191 - 41 * i % 8_000, 1))];
            let [one, other] = disk.execute_two(at, two).unwrap();
            let now = disk.now();
            for timed in [one, other] {
                assert!(
                    at <= timed.submitted && timed.submitted <= timed.completed && timed.completed <= now
                );
            }
            assert_eq!(one.submitted, other.submitted);
            let alone = disk.execute(now, Op::Read, range(i, 3)).unwrap();
            assert!(alone.submitted >= now && alone.completed >= alone.submitted);
        }
        assert!(disk.under_way.is_empty() && disk.disk.outstanding() == 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_failed_command_of_two_is_named_and_the_disk_goes_on() {
        let Some((path, mut disk)) = opened("fails", Some(range(64, 128))) else { return };
        let before = std::fs::read(&path).unwrap();
        let past = range(disk.capacity().get(), 1);
        for two in [[(Op::Read, range(0, 1)), (Op::Read, past)], [(Op::Read, past), (Op::Read, range(0, 1))]]
        {
            let error = disk.execute_two(disk.now(), two).unwrap_err();
            assert_eq!((error.range, error.unreadable), (past, None), "{error}");
            disk.execute(disk.now(), Op::Read, range(9, 1)).unwrap();
        }
        let error = disk.execute_two(disk.now(), [(Op::Read, range(0, 1)), (Op::Write, range(200, 1))]);
        let error = error.unwrap_err();
        assert!(error.range == range(200, 1) && error.mend.contains("--allow-writes"), "{error}");
        disk.execute_two(disk.now(), [(Op::Read, range(0, 1)), (Op::Write, range(100, 2))]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::remove_file(path).unwrap();
    }

    impl TimedRaw {
        pub(super) fn altered(&self, mut ended: ::device::Ended) -> ::device::Ended {
            if let Some(kernel) = self.kernel {
                kernel(&mut ended);
            }
            ended
        }
    }

    /// Bytes of the disk that fail, in the middle of a sector.
    const BAD_BYTES: std::ops::Range<u64> = 1_000_700..1_000_701;

    /// Fails an operation on `BAD_BYTES` with this error, as a kernel does for a bad sector.
    fn fail(ended: &mut ::device::Ended, errno: i32) {
        if let ::device::Work::ReadAt(_, _, part, at) | ::device::Work::WriteAt(_, _, part, at, _) =
            &ended.work
            && *at < BAD_BYTES.end
            && BAD_BYTES.start < at + part.len() as u64
        {
            ended.result = Err(std::io::Error::from_raw_os_error(errno));
        }
    }

    /// Tests the way from the kernel's errno to the sector that the probe avoids.
    #[test]
    fn a_sector_that_the_kernel_reports_bad_is_avoided() {
        let Some((path, mut disk)) = opened("bad", Some(range(0, 16))) else { return };
        let bad = Lbn::new(BAD_BYTES.start / disk.sector_bytes().get());
        let around = range(bad.get() - 5, 20);
        // EIO, ENODATA, EILSEQ, EREMOTEIO.
        let medium: [fn(&mut ::device::Ended); 4] =
            [|e| fail(e, 5), |e| fail(e, 61), |e| fail(e, 84), |e| fail(e, 121)];
        for kernel in medium {
            disk.kernel = Some(kernel);
            for these in [around, range(bad.get(), 1)] {
                let error = disk.execute(disk.now(), Op::Read, these).unwrap_err();
                assert_eq!((error.range, error.unreadable), (these, Some(bad)), "{error}");
            }
            let two = [(Op::Read, range(3, 1)), (Op::Read, around)];
            assert_eq!(disk.execute_two(disk.now(), two).unwrap_err().unreadable, Some(bad));
            disk.execute(disk.now(), Op::Read, range(bad.get() - 5, 5)).unwrap();
        }
        // ENODEV, ETIMEDOUT, ENOSPC: the device has failed, not a sector.
        let gone: [fn(&mut ::device::Ended); 3] = [|e| fail(e, 19), |e| fail(e, 110), |e| fail(e, 28)];
        for kernel in gone {
            disk.kernel = Some(kernel);
            let error = disk.execute(disk.now(), Op::Read, around).unwrap_err();
            assert_eq!((error.range, error.unreadable), (around, None), "{error}");
        }
        disk.kernel = None;
        disk.execute(disk.now(), Op::Read, around).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
