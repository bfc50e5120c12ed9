//! Free background work over a file or a disk, with io_uring: single blocks are the foreground, a scan is the background.
//! `cargo run --release --package freeblock-device --example embed -- FILE [PROFILE.toml]`
#![allow(clippy::print_stdout, unsafe_code, reason = "an example prints, and io_uring is unsafe")]

use freeblock::{Bytes, DiskOutput, Duration, Instant, Lbn, LbnRange, Op, Parameter, Priority, Profile};
use freeblock::{Request, RequestId, ScheduledDisk, Sectors, Sessions, Transfer};
use io_uring::{IoUring, opcode, types};
use std::io::{Seek, SeekFrom};
use std::{error::Error, fs::File, os::fd::AsRawFd};

/// Reads `blocks`, of eight sectors each, in the foreground, and the whole file once in the background. Returns the
/// sum of the bytes that each of the two has read.
pub fn embed(mut file: File, profile: Option<Profile>, blocks: &[u64]) -> Result<[u64; 2], Box<dyn Error>> {
    let all = LbnRange::new(Lbn::ZERO, Sectors::new(file.seek(SeekFrom::End(0))? / 512));
    let mut disk = ScheduledDisk::serving(all.len(), Bytes::new(512), profile.as_ref())?;
    let scan = disk.open(Priority::default())?;
    disk.read(scan, all, Sectors::new(8), Parameter::default())?;
    for block in blocks {
        let (id, range) = (RequestId::new(*block), LbnRange::new(Lbn::new(block * 8), Sectors::new(8)));
        disk.submit(Instant::ZERO, Request { id, op: Op::Read, range }, Vec::new())?;
    }
    let start = std::time::Instant::now();
    let clock = || Duration::try_from(start.elapsed()).map(|since| Instant::ZERO + since);
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let (mut ring, mut foreground, mut background) = (IoUring::new(64)?, 0, 0);
    // Memory to which the kernel may still write must not be freed, so it is leaked if an error ends the loop.
    let at_device: &mut std::collections::BTreeMap<u64, Transfer> = Box::leak(Box::default());
    while disk.unanswered() > 0 || disk.undelivered(scan) != Some(0) {
        while let Some(output) = disk.poll(clock()?) {
            match output {
                DiskOutput::Transfer(mut transfer) => {
                    let (buffer, size) = (transfer.bytes.as_mut_ptr(), transfer.bytes.len().try_into()?);
                    let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer, size);
                    let read = read.offset(transfer.offset.get()).build().user_data(transfer.id);
                    at_device.insert(transfer.id, transfer);
                    // SAFETY: the kernel writes to the heap memory of `bytes`, which is in `at_device` until the end.
                    unsafe { ring.submission().push(&read) }?;
                }
                DiskOutput::Answer { result, .. } => foreground += sum(&result?),
                DiskOutput::Block(block) => background += sum(&block.bytes),
            }
        }
        let wait = types::Timespec::from(std::time::Duration::from(disk.longest_wait(clock()?)));
        let waited = ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&wait));
        waited.or_else(|error| if error.raw_os_error() == Some(libc::ETIME) { Ok(0) } else { Err(error) })?;
        for done in ring.completion() {
            let transfer = at_device.remove(&done.user_data()).ok_or("an unknown completion")?;
            let whole = usize::try_from(done.result()) == Ok(transfer.bytes.len());
            disk.done(clock()?, transfer, if whole { Ok(()) } else { Err(None) });
        }
    }
    Ok([foreground, background])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let file = File::open(arguments.next().ok_or("usage: embed FILE [PROFILE.toml]")?)?;
    let profile = arguments.next().map(|path| Profile::read(path.as_ref())).transpose()?;
    embed(file, profile, &[7, 3, 11]).map(|sums| println!("foreground and background: {sums:?}"))
}
