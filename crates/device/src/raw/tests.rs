//! The state machine of `Raw` over a simulated kernel, which executes operations on an array, fails at chosen
//! sectors, and transfers less than requested.

#![allow(clippy::indexing_slicing)]

use super::*;
use crate::ring::Token;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;

const SECTOR: u64 = 512;
const SECTORS: u64 = 256;

/// The simulated kernel's behaviour.
#[derive(Clone, Debug, Default)]
struct Kernel {
    array: Vec<u8>,
    /// Sectors at which every operation that touches them fails.
    bad: BTreeSet<u64>,
    /// The most sectors transferred by one operation; 0 for no limit.
    short: u64,
    /// The number of next operations that fail, whatever their sectors.
    passing: u32,
    /// The errno of every failed operation; 0 for EIO.
    errno: i32,
    no_holes: bool,
    no_zeroing: bool,
    /// The number of operations so far.
    operations: u64,
    syncs: u64,
    throughs: u64,
}

impl Kernel {
    fn error(&mut self, at: u64, bytes: u64) -> Option<io::Error> {
        if self.passing > 0 {
            self.passing -= 1;
            return Some(io::Error::from_raw_os_error(self.errno));
        }
        let touched = at / SECTOR..(at + bytes) / SECTOR;
        let errno = if self.errno == 0 { libc::EIO } else { self.errno };
        self.bad.range(touched).next().map(|_| io::Error::from_raw_os_error(errno))
    }

    fn far(&self, bytes: usize) -> usize {
        if self.short == 0 { bytes } else { bytes.min((self.short * SECTOR) as usize) }
    }

    fn carry_out(&mut self, mut work: Work) -> Ended {
        self.operations += 1;
        let result = match &mut work {
            Work::ReadAt(_, buffer, part, at) => {
                assert!((*at | part.len() as u64).is_multiple_of(SECTOR) && part.start < part.end);
                let bytes = self.far(part.len());
                self.error(*at, bytes as u64).map_or(Ok(bytes), Err).inspect(|&bytes| {
                    let from = *at as usize;
                    buffer[part.start..part.start + bytes].copy_from_slice(&self.array[from..from + bytes]);
                })
            }
            Work::WriteAt(_, buffer, part, at, through) => {
                assert!((*at | part.len() as u64).is_multiple_of(SECTOR) && part.start < part.end);
                self.throughs += u64::from(*through);
                let bytes = self.far(part.len());
                self.error(*at, bytes as u64).map_or(Ok(bytes), Err).inspect(|&bytes| {
                    let from = *at as usize;
                    self.array[from..from + bytes].copy_from_slice(&buffer[part.start..part.start + bytes]);
                })
            }
            Work::Make(_, make, at, bytes) => {
                let unknown = match make {
                    Make::Hole => self.no_holes,
                    Make::Zeroes => self.no_zeroing,
                    Make::Anything => panic!("not a block device"),
                };
                let error = if unknown {
                    Some(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
                } else {
                    self.error(*at, *bytes)
                };
                error
                    .map_or(Ok(0), Err)
                    .inspect(|_| self.array[*at as usize..(*at + *bytes) as usize].fill(0))
            }
            Work::Sync(_) => {
                self.syncs += 1;
                Ok(0)
            }
            other => panic!("{other:?}"),
        };
        Ended { token: Token::none(), work, result, client: None }
    }
}

fn disk() -> Raw {
    let abilities = Abilities { discard: true, write_zeroes: true, ..Abilities::default() };
    let opened = Opened {
        file: Arc::new(File::open("/dev/null").unwrap().into()),
        sector: Bytes::new(SECTOR),
        physical: Bytes::new(SECTOR),
        capacity: Sectors::new(SECTORS),
        alignment: 512,
        abilities,
        block_device: false,
        direct: true,
        in_memory: false,
    };
    Raw::over(opened, Options::default())
}

fn run(disk: &mut Raw, kernel: &mut Kernel) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((name, work)) = disk.next_work() {
        let ended = kernel.carry_out(work);
        disk.ended(Instant::ZERO, name, ended);
        answers.extend(std::iter::from_fn(|| disk.poll(Instant::ZERO)));
    }
    assert_eq!(disk.outstanding(), 0);
    answers
}

fn asked(disk: &mut Raw, kernel: &mut Kernel, start: u64, len: u64, ask: Ask) -> Result<Vec<u8>, Failure> {
    disk.ask(Instant::ZERO, 9, LbnRange::new(Lbn::new(start), Sectors::new(len)), ask);
    let mut answers = run(disk, kernel);
    answers.extend(disk.poll(Instant::ZERO));
    assert_eq!(answers.len(), 1);
    answers.remove(0).result
}

fn kernel() -> Kernel {
    let array = (0..SECTORS * SECTOR).map(|at| (at / SECTOR * 3 + at % 251) as u8).collect();
    Kernel { array, ..Kernel::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(150, 400)))]

    /// For any behaviour of the kernel the answer is right: the array's bytes, or the first bad sector, up to which
    /// a failed write is written.
    #[test]
    fn only_the_first_bad_sector_is_reported(
        start in 0..SECTORS - 1, len in 1..100u64, bad in prop::collection::btree_set(0..SECTORS, 0..6),
        short in 0..20u64, passing in 0..6u32, kind in 0..4u8, through in any::<bool>(),
        no_holes in any::<bool>(), no_zeroing in any::<bool>(),
    ) {
        let len = len.min(SECTORS - start);
        let bytes = (start * SECTOR) as usize..((start + len) * SECTOR) as usize;
        let mut kernel = Kernel { bad, short, passing, errno: libc::EIO, no_holes, no_zeroing, ..kernel() };
        let before = kernel.array.clone();
        let new = vec![0xA5; bytes.len()];
        let (ask, after) = match kind {
            0 => (Ask::Read, before[bytes.clone()].to_vec()),
            1 => (Ask::Write { bytes: new.clone(), through }, new),
            2 => (Ask::WriteZeroes { through, keep: true }, vec![0; bytes.len()]),
            _ => (Ask::WriteZeroes { through, keep: false }, vec![0; bytes.len()]),
        };
        let first = kernel.bad.range(start..start + len).next().copied();
        let result = asked(&mut disk(), &mut kernel, start, len, ask);
        match (result, first) {
            // Temporary errors may hit one sector so often that it counts as bad.
            (Err(Failure::Medium(lbn)), _) if passing > 0 && Some(lbn.get()) != first => {
                prop_assert!(lbn.get() >= start && lbn.get() < start + len);
            }
            (Err(Failure::Medium(lbn)), Some(first)) => {
                prop_assert_eq!(lbn.get(), first);
                let good = ((first - start) * SECTOR) as usize;
                prop_assert!(kernel.array[bytes.clone()][..good] == after[..good], "until there it is written");
            }
            (Ok(read), None) => {
                prop_assert!(kernel.array[bytes.clone()] == after[..]);
                prop_assert!((kind == 0 && read == after) || (kind > 0 && read.is_empty()));
                prop_assert!(kind == 0 || !through || kernel.throughs + kernel.syncs > 0);
            }
            (result, first) => prop_assert!(false, "{result:?}, bad {first:?}"),
        }
        let outside = |array: &[u8]| [&array[..bytes.start], &array[bytes.end..]].concat();
        prop_assert!(outside(&kernel.array) == outside(&before), "nothing else is touched");
        prop_assert!(kernel.operations <= 250, "{} operations", kernel.operations);
    }
}

#[test]
fn an_error_that_passes_fails_nothing() {
    for errno in [libc::EINTR, libc::EAGAIN, libc::EIO, libc::ENODATA] {
        let mut kernel = Kernel { passing: 3, errno, ..kernel() };
        let expected = kernel.array[..64 * 512].to_vec();
        assert!(asked(&mut disk(), &mut kernel, 0, 64, Ask::Read).unwrap() == expected, "errno {errno}");
    }
}

/// For each errno that `fault` counts as a medium error the bad sector is found; for some others it is not.
#[test]
fn medium_errors_are_known_by_the_kernels_numbers() {
    let asked = |errno, ask| {
        let mut kernel = Kernel { bad: [37].into(), errno, ..kernel() };
        asked(&mut disk(), &mut kernel, 20, 64, ask).unwrap_err()
    };
    let write = || Ask::Write { bytes: vec![7; 64 * 512], through: false };
    for errno in [libc::EIO, libc::ENODATA, libc::EILSEQ, libc::EREMOTEIO] {
        for ask in [Ask::Read, write()] {
            let failure = asked(errno, ask);
            assert!(matches!(failure, Failure::Medium(lbn) if lbn.get() == 37), "{errno}: {failure}");
        }
    }
    for errno in [libc::ENODEV, libc::ENXIO, libc::ENOSPC, libc::ETIMEDOUT, libc::EPERM, libc::EAGAIN] {
        for ask in [Ask::Read, write()] {
            let failure = asked(errno, ask);
            assert!(!matches!(failure, Failure::Medium(_)), "{errno}: {failure}");
        }
    }
}

#[test]
fn a_disk_that_is_gone_is_given_up() {
    for (errno, most) in [(libc::ENODEV, 1), (libc::EAGAIN, 50), (libc::EIO, 50)] {
        let mut kernel = Kernel { passing: u32::MAX, errno, ..kernel() };
        assert!(asked(&mut disk(), &mut kernel, 0, 256, Ask::Read).is_err());
        assert!(kernel.operations <= most, "{} operations", kernel.operations);
    }
}

#[test]
fn an_unsupported_command_is_tried_once() {
    let (mut disk, mut kernel) = (disk(), Kernel { no_holes: true, no_zeroing: true, ..kernel() });
    let zeroes = || Ask::WriteZeroes { through: true, keep: false };
    asked(&mut disk, &mut kernel, 8, 100, zeroes()).unwrap();
    assert_eq!((kernel.operations, kernel.throughs), (3, 1), "a hole, zeroes, a write");
    asked(&mut disk, &mut kernel, 8, 100, zeroes()).unwrap();
    assert_eq!(kernel.operations, 4);
    asked(&mut disk, &mut kernel, 0, 4, Ask::Discard).unwrap();
    assert_eq!(kernel.syncs, 0);
}

#[test]
fn invalid_requests_are_not_carried_out() {
    let (mut disk, mut kernel) = (disk(), kernel());
    let mut fails = |start, len, ask| asked(&mut disk, &mut kernel, start, len, ask).unwrap_err();
    assert!(matches!(fails(SECTORS, 1, Ask::Read), Failure::Command(CommandError::PastEnd { .. })));
    assert!(matches!(fails(u64::MAX, 2, Ask::Discard), Failure::Command(CommandError::PastEnd { .. })));
    assert!(matches!(fails(3, 0, Ask::Read), Failure::Command(CommandError::Empty { .. })));
    let short = Ask::Write { bytes: vec![0; 511], through: false };
    assert!(matches!(fails(0, 1, short), Failure::Length { found: 511, .. }));
    disk.options.read_only = true;
    for ask in [Ask::Write { bytes: vec![0; 512], through: false }, Ask::Discard] {
        let failure = asked(&mut disk, &mut kernel, 0, 1, ask).unwrap_err();
        assert!(failure.to_string().contains("opened to be read"), "{failure}");
    }
    assert_eq!(kernel.operations, 0);
}
