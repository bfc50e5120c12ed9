//! The memory of a process that serves a disk which this machine itself mounts: the kernel writes dirty pages through
//! it.
//!
//! The kernel frees memory by writing pages, and then waits for this process. So the process must not need memory
//! that is freed in this way: its pages are locked (mlockall(2)), and what the kernel allocates in its name waits for
//! no write (`PR_SET_IO_FLUSHER`, prctl(2)). If memory runs out nevertheless, the kernel must kill another process
//! (proc(5), `oom_score_adj`), because the disk's dirty pages can be written only through this one.

#![allow(unsafe_code, reason = "the call takes no address")]

use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};
use std::{fs, io};

/// A protection that the process could not get, against deadlock or loss when memory runs out. The process needs it
/// if this machine mounts the disk that it serves.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel may evict pages of the process.
    #[error(
        "memory is not locked ({0}), and the kernel may wait for ever when it writes to a disk that this machine mounts; give the service LimitMEMLOCK=infinity, or run as root"
    )]
    NotLocked(io::Error),
    /// Memory that the kernel allocates in the name of the process may wait for a write to the process's own disk.
    #[error(
        "the kernel takes no notice that this process writes its pages ({0}), and may wait for ever when this machine mounts the disk; give the service the capability CAP_SYS_RESOURCE, or run as root"
    )]
    NoFlusher(io::Error),
    /// The kernel may kill the process when memory runs out.
    #[error(
        "the kernel may kill this process when memory runs out ({0}), and what is not yet written to the disk would be lost; give the service the capability CAP_SYS_RESOURCE or OOMScoreAdjust=-1000, or run as root"
    )]
    NotSpared(io::Error),
}

/// The file with a process's rank among those that the kernel kills for memory, and the rank that excludes it.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
const OOM_SCORE_SPARED: &str = "-1000";

/// Protects the process for a disk that this machine mounts, and returns the protections that it could not get.
///
/// Threads inherit the protections, io_uring's threads too, so call this before any thread is started.
///
/// ```
/// // Without the capability the disk is served all the same.
/// for error in device::hold_memory() {
///     eprintln!("{error}");
/// }
/// ```
pub fn hold_memory() -> Vec<MemoryError> {
    let locked = lock().map_err(MemoryError::NotLocked);
    let flusher = configure_io_flusher_behavior(true).map_err(|error| MemoryError::NoFlusher(error.into()));
    let spared = spare().map_err(MemoryError::NotSpared);
    [locked, flusher, spared].into_iter().filter_map(Result::err).collect()
}

/// Excludes the process from those that the kernel kills when memory runs out, unless it is excluded already.
fn spare() -> io::Result<()> {
    match fs::read_to_string(OOM_SCORE) {
        Ok(score) if score.trim() == OOM_SCORE_SPARED => Ok(()),
        _ => fs::write(OOM_SCORE, OOM_SCORE_SPARED),
    }
}

/// Locks all pages of the process, later ones too. Removes the limit on locked memory first, because allocations
/// beyond it would fail.
fn lock() -> io::Result<()> {
    if getrlimit(Resource::Memlock).current.is_some() {
        setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    }
    // SAFETY: the call reads and writes no memory of this process; it only makes the kernel keep pages in memory.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
