//! Opens a device or a file exclusively, or returns the reason why that is impossible.

use super::in_use::{System, User};
use crate::aligned::Aligned;
use crate::block::Abilities;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use units::{Bytes, Sectors};

/// How a device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the device is only read. It is opened exclusively nevertheless.
    pub read_only: bool,
    /// Whether a file on a file system without O_DIRECT may be accessed through the page cache. Measurements of it
    /// then say little about the disk below. A block device is never accessed in that way.
    pub buffered: bool,
}

/// The reason why a device was not opened. The device is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refused.
    #[error("cannot open {path}: {source}")]
    System {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is neither a block device nor a file.
    #[error("{path} is neither a block device nor a file; give one of these")]
    Kind {
        /// The path.
        path: PathBuf,
    },
    /// The device is in use, and writing to it would destroy data.
    #[error("{path} is in use: {user}")]
    InUse {
        /// The path.
        path: PathBuf,
        /// The user.
        user: User,
    },
    /// Another program has locked the file.
    #[error("{path} is locked by another program that serves it (flock); end that program")]
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// The file system has no O_DIRECT.
    #[error(
        "{path} lies on a file system without O_DIRECT; move it, or allow it to go through the page cache"
    )]
    Direct {
        /// The path.
        path: PathBuf,
    },
    /// The size is 0, or not a whole number of sectors.
    #[error(
        "{path} has {size} bytes, which is no whole number of sectors of {sector}; give it a size (truncate -s)"
    )]
    Size {
        /// The path.
        path: PathBuf,
        /// The size in bytes.
        size: u64,
        /// The number of bytes in a sector.
        sector: Bytes,
    },
    /// The disk accepts only sequential writes.
    #[error(
        "{path} is a {model} zoned disk, which takes no writes at random; put a layer that does (dm-zoned) before it"
    )]
    Zoned {
        /// The path.
        path: PathBuf,
        /// The kernel's word for the kind of zones.
        model: String,
    },
}

/// An opened device, and its properties.
#[derive(Debug)]
pub(super) struct Opened {
    pub file: Arc<OwnedFd>,
    pub sector: Bytes,
    pub physical: Bytes,
    pub capacity: Sectors,
    /// The required alignment of buffers, in bytes.
    pub alignment: usize,
    pub abilities: Abilities,
    pub block_device: bool,
    pub direct: bool,
    /// Whether the file is in memory, so that operations never block.
    pub in_memory: bool,
}

/// When a process is killed with operations in flight on a ring, the kernel releases its files only after it has
/// removed the ring, a moment later. So an open that finds the device in use is tried again this number of times,
/// after this pause each.
const IN_USE_RETRIES: u32 = 20;
const IN_USE_PAUSE: Duration = Duration::from_millis(50);

pub(super) fn open(path: &Path, options: Options) -> Result<Opened, OpenError> {
    for _ in 0..IN_USE_RETRIES {
        match open_now(path, options) {
            Err(OpenError::Locked { .. } | OpenError::InUse { user: User::Unknown, .. }) => {
                std::thread::sleep(IN_USE_PAUSE);
            }
            result => return result,
        }
    }
    open_now(path, options)
}

fn open_now(path: &Path, options: Options) -> Result<Opened, OpenError> {
    let failed = |source| OpenError::System { path: path.to_owned(), source };
    let kind = path.metadata().map_err(failed)?.file_type();
    let (file, direct) = if kind.is_block_device() {
        (open_block_device(path, options)?, true)
    } else if kind.is_file() {
        open_file(path, options)?
    } else {
        return Err(OpenError::Kind { path: path.to_owned() });
    };
    // The path may lead elsewhere by now, so from here on only the descriptor is used.
    let metadata = file.metadata().map_err(failed)?;
    if metadata.file_type() != kind {
        return Err(OpenError::Kind { path: path.to_owned() });
    }
    let opened = if kind.is_block_device() {
        describe_block_device(path, file, metadata.rdev())
    } else {
        describe_file(path, file, &metadata, direct)
    }?;
    Ok(if options.read_only {
        let abilities = Abilities { discard: false, write_zeroes: false, ..opened.abilities };
        Opened { abilities, ..opened }
    } else {
        opened
    })
}

/// Opens `path` for reads beside other users, and returns the user, if there is one.
pub(super) fn open_shared(path: &Path) -> Result<(Opened, Option<User>), OpenError> {
    let failed = |source| OpenError::System { path: path.to_owned(), source };
    let kind = path.metadata().map_err(failed)?.file_type();
    if !kind.is_block_device() && !kind.is_file() {
        return Err(OpenError::Kind { path: path.to_owned() });
    }
    let options = Options { read_only: true, buffered: false };
    let file = match open_with(path, options, libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(OpenError::Direct { path: path.to_owned() });
        }
        opened => opened.map_err(failed)?,
    };
    let metadata = file.metadata().map_err(failed)?;
    if metadata.file_type() != kind {
        return Err(OpenError::Kind { path: path.to_owned() });
    }
    let number = metadata.rdev();
    let (opened, user) = if kind.is_block_device() {
        let user = System::here().user_of_device(rustix::fs::major(number), rustix::fs::minor(number));
        (describe_block_device(path, file, number)?, user)
    } else {
        (describe_file(path, file, &metadata, true)?, System::here().user_of_file(path))
    };
    let abilities = Abilities { discard: false, write_zeroes: false, ..opened.abilities };
    Ok((Opened { abilities, ..opened }, user))
}

fn open_with(path: &Path, options: Options, flags: libc::c_int) -> io::Result<File> {
    OpenOptions::new().read(true).write(!options.read_only).custom_flags(flags).open(path)
}

/// Opens a block device with O_EXCL. The kernel then guarantees that the device is not mounted, not swap and not part
/// of another device, now and while it is open.
fn open_block_device(path: &Path, options: Options) -> Result<File, OpenError> {
    let in_use = |user| OpenError::InUse { path: path.to_owned(), user };
    let user = || {
        let number = path.metadata().ok()?.rdev();
        System::here().user_of_device(rustix::fs::major(number), rustix::fs::minor(number))
    };
    match open_with(path, options, libc::O_EXCL | libc::O_DIRECT) {
        // O_EXCL does not exclude some kinds and states of mounts.
        Ok(file) => user().map_or(Ok(file), |user| Err(in_use(user))),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(in_use(user().unwrap_or(User::Unknown)))
        }
        Err(source) => Err(OpenError::System { path: path.to_owned(), source }),
    }
}

/// Opens a file; returns whether accesses bypass the page cache.
fn open_file(path: &Path, options: Options) -> Result<(File, bool), OpenError> {
    let failed = |source| OpenError::System { path: path.to_owned(), source };
    if let Some(user) = System::here().user_of_file(path) {
        return Err(OpenError::InUse { path: path.to_owned(), user });
    }
    let (file, direct) = match open_with(path, options, libc::O_DIRECT) {
        Ok(file) => (file, true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && options.buffered => {
            (open_with(path, options, 0).map_err(failed)?, false)
        }
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(OpenError::Direct { path: path.to_owned() });
        }
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok((file, direct)),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn describe_block_device(path: &Path, file: File, number: u64) -> Result<Opened, OpenError> {
    let failed = |error: rustix::io::Errno| OpenError::System { path: path.to_owned(), source: error.into() };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let queue = |attribute| System::here().queue(major, minor, attribute);
    if let Some(model) = queue("zoned").filter(|model| model == "host-managed") {
        return Err(OpenError::Zoned { path: path.to_owned(), model });
    }
    let sector = rustix::fs::ioctl_blksszget(&file).map_err(failed)?;
    let physical = rustix::fs::ioctl_blkpbszget(&file).unwrap_or(sector);
    let size = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(failed)?;
    let some = |attribute| queue(attribute).is_some_and(|most| most != "0");
    let abilities = Abilities {
        discard: some("discard_max_bytes"),
        write_zeroes: some("write_zeroes_max_bytes"),
        // A disk whose kind of cache is unknown counts as volatile.
        volatile: queue("write_cache").is_none_or(|cache| cache != "write through"),
        rotational: some("rotational"),
    };
    let (sector, physical) = (Bytes::new(u64::from(sector)), Bytes::new(u64::from(physical.max(sector))));
    Ok(Opened {
        capacity: whole(path, size, sector)?,
        alignment: memory_alignment(&file, sector),
        file: Arc::new(file.into()),
        sector,
        physical,
        abilities,
        block_device: true,
        direct: true,
        in_memory: false,
    })
}

fn describe_file(
    path: &Path,
    file: File,
    metadata: &std::fs::Metadata,
    direct: bool,
) -> Result<Opened, OpenError> {
    let sector = if direct { direct_sector(path, &file)? } else { SECTOR_BYTES_MIN };
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let rotational = System::here().queue(major, minor, "rotational");
    let system = rustix::fs::fstatfs(&file).map(|system| system.f_type as u64);
    Ok(Opened {
        in_memory: system.is_ok_and(|kind| kind == TMPFS),
        capacity: whole(path, metadata.len(), sector)?,
        alignment: if direct { memory_alignment(&file, sector) } else { 1 },
        file: Arc::new(file.into()),
        sector,
        physical: Bytes::new(metadata.blksize().max(sector.get())),
        abilities: Abilities {
            discard: true,
            write_zeroes: true,
            volatile: true,
            rotational: rotational.is_some_and(|is| is == "1"),
        },
        block_device: false,
        direct,
    })
}

/// The type that `statfs` returns for a file system in memory (`linux/magic.h`).
const TMPFS: u64 = 0x0102_1994;

/// The smallest sector that is tried for a file.
const SECTOR_BYTES_MIN: Bytes = Bytes::new(512);

/// The largest sector that Linux supports for a disk.
const SECTOR_BYTES_MAX: u64 = 64 << 10;

/// Returns the smallest unit of direct reads of a file. It is found by trying, because only some kernels and file
/// systems report it.
fn direct_sector(path: &Path, file: &File) -> Result<Bytes, OpenError> {
    let mut sector = SECTOR_BYTES_MIN.get();
    loop {
        let mut buffer = Aligned::zeroed(sector as usize, SECTOR_BYTES_MAX as usize);
        match file.read_at(&mut buffer, 0) {
            Ok(_) => return Ok(Bytes::new(sector)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && sector < SECTOR_BYTES_MAX => {
                sector *= 2
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                return Err(OpenError::Direct { path: path.to_owned() });
            }
            // The first sector is bad, which a later read will report.
            Err(_) => return Ok(Bytes::new(sector.max(4096))),
        }
    }
}

/// Returns the alignment of buffers that the kernel reports (Linux 6.1 and later), or else one that is enough for all
/// devices.
fn memory_alignment(file: &File, sector: Bytes) -> usize {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let reported = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let reported = reported.ok().filter(|reported| reported.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    match reported.map(|reported| reported.stx_dio_mem_align as usize) {
        Some(alignment) if alignment > 0 => alignment,
        _ => sector.get().max(4096) as usize,
    }
}

fn whole(path: &Path, size: u64, sector: Bytes) -> Result<Sectors, OpenError> {
    if size == 0 || !size.is_multiple_of(sector.get()) {
        return Err(OpenError::Size { path: path.to_owned(), size, sector });
    }
    Ok(Sectors::new(size / sector.get()))
}
