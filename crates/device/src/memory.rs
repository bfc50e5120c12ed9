//! A process through which the kernel writes dirty pages: that of a disk which this machine mounts itself.
//!
//! The kernel frees memory by writing, and waits for this process then. So the process must need no memory that is freed by
//! writing: its pages stay where they are (mlockall(2)), and what the kernel allocates in its name waits for no write
//! (`PR_SET_IO_FLUSHER`, prctl(2)). If memory runs out all the same, the kernel must kill another process (proc(5),
//! `oom_score_adj`): the pages of this disk can be written through this process only.

#![allow(unsafe_code, reason = "the call takes no address")]

use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};
use std::{fs, io};

/// A property that a process of a disk which this machine mounts needs, and has not got.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Its pages may be taken from it.
    #[error(
        "memory is not locked ({0}), and the kernel may wait for ever when it writes to a disk that this machine mounts; give the service LimitMEMLOCK=infinity, or run as root"
    )]
    NotLocked(io::Error),
    /// Memory that the kernel allocates in its name may wait for a write to its own disk.
    #[error(
        "the kernel takes no notice that this process writes its pages ({0}), and may wait for ever when this machine mounts the disk; give the service the capability CAP_SYS_RESOURCE, or run as root"
    )]
    NoFlusher(io::Error),
    /// The kernel may kill it when memory runs out.
    #[error(
        "the kernel may kill this process when memory runs out ({0}), and what is not yet written to the disk would be lost; give the service the capability CAP_SYS_RESOURCE or OOMScoreAdjust=-1000, or run as root"
    )]
    NotSpared(io::Error),
}

/// The file with a process's standing when the kernel has to kill one, and the standing that excludes it.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
const OOM_SCORE_SPARED: &str = "-1000";

/// Prepares the process to serve a disk that this machine mounts, and returns what has failed.
///
/// Threads inherit what is set here, those of io_uring too; so it is called before there are any.
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

/// Excludes the process from those that the kernel kills when memory runs out, if it is not excluded yet.
fn spare() -> io::Result<()> {
    match fs::read_to_string(OOM_SCORE) {
        Ok(score) if score.trim() == OOM_SCORE_SPARED => Ok(()),
        _ => fs::write(OOM_SCORE, OOM_SCORE_SPARED),
    }
}

/// Locks all pages, also later ones. Under a limit later allocations would fail, so there must be none.
fn lock() -> io::Result<()> {
    if getrlimit(Resource::Memlock).current.is_some() {
        setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    }
    // SAFETY: the call reads and writes no memory of this process; it changes where the kernel keeps it.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
