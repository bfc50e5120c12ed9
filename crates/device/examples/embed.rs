//! A host of the scheduler core over a file or a disk with io_uring: random reads are the foreground, and a scan of the whole file is
//! the background. Nothing is written.
//!
//! `cargo run --release --package freeblock-device --example embed -- FILE [PROFILE.toml]`

#![allow(clippy::print_stdout, reason = "an example prints")]

use freeblock::{
    Bytes, Command, Commands, Config, DriveModel, Duration, IdleTime, Instant, Lbn, LbnRange, Op, Outcome,
    Output, OutsideConfig, OutsideDrive, Overheads, Parameter, Priority, Profile, Request, RequestId,
    Sectors, Sessions,
};
use io_uring::{IoUring, opcode, types};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::path::Path;

const SECTOR: Bytes = Bytes::new(512);

/// The sums of the bytes that the two kinds of work have read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The sum of the bytes that the foreground asked for.
    pub foreground: u64,
    /// The sum of the bytes of the blocks that the scan was given.
    pub scan: u64,
}

/// Reads `blocks` of eight sectors one after the other, and all of the file once behind them.
pub fn embed(path: &Path, profile: Option<&Path>, blocks: &[u64]) -> Result<Sums, Box<dyn Error>> {
    let mut file = std::fs::File::open(path)?;
    let all = LbnRange::new(Lbn::ZERO, Sectors::new(file.seek(SeekFrom::End(0))? / SECTOR.get()));
    // Without a profile of the drive only the size is known, and only idle time is used.
    let (drive, outside) = match profile.map(Profile::read).transpose()? {
        Some(profile) => {
            let drive = DriveModel::from_profile(&profile)?;
            let overheads = profile.firmware.as_ref().map(|firmware| Overheads::of(firmware, &drive, true));
            (drive, OutsideConfig::beyond(overheads.unwrap_or_default()))
        }
        None => (DriveModel::unknown(all.len(), SECTOR)?, OutsideConfig::blind()),
    };
    let config = Config::outside(outside.serving()).with_idle(Some(IdleTime::default()));
    let mut core = OutsideDrive::try_new(drive.into(), config)?;
    let scan = core.open(Priority::default())?;
    core.read(scan, all, Sectors::new(8), Parameter::default())?;

    // Memory that the kernel may still write to must not be freed, so that it is lost where an error ends the loop.
    let mut at_device = ManuallyDrop::new(BTreeMap::<u64, (Command, Vec<u8>)>::new());
    let (mut ring, mut commands, mut sums) = (IoUring::new(64)?, Commands::default(), Sums::default());
    let (start, mut blocks, mut waits) = (std::time::Instant::now(), blocks.iter().enumerate(), false);
    let clock = || Duration::try_from(start.elapsed()).map(|since| Instant::ZERO + since);
    while waits || blocks.len() > 0 || core.undelivered(scan) != Some(0) {
        if !waits && let Some((id, block)) = blocks.next() {
            let range = LbnRange::new(Lbn::new(block * 8), Sectors::new(8));
            core.submit(clock()?, Request { id: RequestId::new(id as u64), op: Op::Read, range })?;
            waits = true;
        }
        while let Some(output) = core.poll(clock()?) {
            match output {
                Output::Do(command) => commands.push(command),
                Output::Completed(_) => waits = false,
                Output::Failed { id, bad } => return Err(format!("{id}: LBN {bad} cannot be read").into()),
                // The bytes of the block have arrived with the commands.
                Output::Deliver(_) => {}
            }
        }
        while let Some(command) = commands.next() {
            let mut bytes = vec![0; usize::try_from(command.range.len().bytes(SECTOR).get())?];
            let read =
                opcode::Read::new(types::Fd(file.as_raw_fd()), bytes.as_mut_ptr(), bytes.len().try_into()?)
                    .offset(command.range.start().get() * SECTOR.get())
                    .build()
                    .user_data(command.id.get());
            at_device.insert(command.id.get(), (command, bytes));
            // SAFETY: the kernel writes to the heap memory of `bytes`, which stays in `at_device` until the completion.
            #[allow(unsafe_code)]
            unsafe {
                ring.submission().push(&read)?;
            }
        }
        // Until a completion, the instant that the core asks for, or at once for the next request.
        let now = clock()?;
        let wake = if waits || blocks.len() == 0 { core.wake_at() } else { Some(now) };
        let wait = wake.map_or(Duration::from_secs(1), |at| at.saturating_since(now));
        let wait = types::Timespec::from(std::time::Duration::from(wait));
        match ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&wait)) {
            Err(error) if error.raw_os_error() != Some(libc::ETIME) => return Err(error.into()),
            _ => {}
        }
        for done in ring.completion() {
            let (command, bytes) = at_device.remove(&done.user_data()).ok_or("an unknown completion")?;
            let sum = |part: LbnRange| {
                let from = part.start().since(command.range.start()).bytes(SECTOR).get() as usize;
                bytes[from..from + part.len().bytes(SECTOR).get() as usize]
                    .iter()
                    .map(|byte| u64::from(*byte))
                    .sum::<u64>()
            };
            let whole = usize::try_from(done.result()) == Ok(bytes.len());
            if whole {
                sums.foreground += command.foreground.map_or(0, sum);
                sums.scan += command.parts.iter().map(|part| sum(part.part)).sum::<u64>();
            }
            let outcome = if whole { Outcome::Done } else { Outcome::NoData(command.range.start()) };
            commands.done(command.id);
            core.command_done(clock()?, command.id, outcome);
        }
    }
    Ok(sums)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let [_, file, profile @ ..] = &arguments[..] else {
        return Err("usage: embed FILE [PROFILE.toml]".into());
    };
    let sums = embed(file.as_ref(), profile.first().map(Path::new), &[7, 3, 11])?;
    println!("{sums:?}");
    Ok(())
}
