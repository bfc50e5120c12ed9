//! The places where tasks may access files that users name: targets of backups, images, plans, checksum stores.
//!
//! If the configuration has `targets`, each such file must lie in one of these directories, and links cannot lead out
//! of them. Under any configuration, tasks access neither the state directory nor the daemon's own files: a served
//! disk, the file under it, the configuration, keys.

use super::{File, How, Lock, Real};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fsync, openat, openat2, statat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::{fmt, fs, io};

/// The levels of the state directory in which files are protected by identity: the directory, and one for each disk
/// in it.
const STATE_DEPTH: usize = 2;
/// The most tries of a lookup that concurrent renames disturb, after which the file is refused.
const LOOKUPS_MAX: usize = 16;

/// The rules on where tasks may read and write. Clones share the rules, so [`set_targets`](Self::set_targets) changes
/// them for each clone.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<RwLock<Rules>>);

#[derive(Clone, Debug, Default)]
struct Rules {
    targets: Option<Vec<PathBuf>>,
    state: Vec<PathBuf>,
    own: Vec<PathBuf>,
}

/// The reason why tasks may not access a file.
#[derive(Debug)]
struct Denied(String);

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Denied {}

pub(super) fn denied(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Denied(why.into()))
}

/// Returns the error for a file that another task or program has locked.
pub(crate) fn held() -> io::Error {
    let why = "another task or program has the file open; wait for its end, or name another file";
    io::Error::new(io::ErrorKind::ResourceBusy, why)
}

/// Returns whether [`Places`] refused to open the file, so that another try is useless.
pub(crate) fn is_denied(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Denied>())
}

/// The identity of a file under any of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity {
    File { device: u64, inode: u64 },
    Device(u64),
}

pub(super) fn identity(stat: &Stat) -> Identity {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Identity::Device(stat.st_rdev),
        _ => Identity::File { device: stat.st_dev, inode: stat.st_ino },
    }
}

/// How links in a path are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// Links are followed. Only root and the daemon's own user name files then.
    Followed,
    Refused,
}

/// A file's name, with its open directory.
struct Leaf {
    parent: OwnedFd,
    name: OsString,
    links: Links,
}

impl Places {
    /// Allows tasks to access files in these directories; with `None`, wherever the daemon can. A target may also be
    /// a block device, which allows that device.
    pub fn new(targets: Option<Vec<PathBuf>>) -> Self {
        Self(Arc::new(RwLock::new(Rules { targets, ..Rules::default() })))
    }

    /// Replaces the directories from here on. Files that are open stay open.
    pub fn set_targets(&self, targets: Option<Vec<PathBuf>>) {
        self.change(|rules| rules.targets = targets);
    }

    /// Forbids tasks the files of this state directory.
    pub fn keep_state(&self, directory: &Path) {
        self.change(|rules| rules.state.push(directory.to_owned()));
    }

    /// Forbids tasks these files or devices, under any of their names.
    pub fn keep(&self, own: impl IntoIterator<Item = PathBuf>) {
        self.change(|rules| {
            for path in own {
                if !rules.own.contains(&path) {
                    rules.own.push(path);
                }
            }
        });
    }

    fn change(&self, what: impl FnOnce(&mut Rules)) {
        what(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn rules(&self) -> Rules {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the configuration has `targets`. Without them only root and the daemon's own user may name
    /// files.
    pub fn are_named(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).targets.is_some()
    }

    /// Checks by the path alone that a file named by a user lies in a target. The error is the advice to the user.
    pub(crate) fn check(&self, path: &Path) -> Result<(), String> {
        let Some(targets) = self.rules().targets else { return Ok(()) };
        if within(&targets, path).is_some() {
            return Ok(());
        }
        let all: Vec<String> = targets.iter().map(|target| target.display().to_string()).collect();
        Err(match all.is_empty() {
            true => "the configuration names no directory in `targets`; name a directory there".to_owned(),
            false => format!("give a path in {} (`targets` of the configuration)", all.join(" or ")),
        })
    }

    /// Opens a file that a user has named; a device exclusively.
    ///
    /// # Errors
    /// The system's error, or an error of [`is_denied`] if tasks may not access the file.
    pub(crate) fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn File>> {
        self.open_by(path, how, Beneath::Best)
    }

    fn open_by(&self, path: &Path, how: How, beneath: Beneath) -> io::Result<Box<dyn File>> {
        let rules = self.rules();
        let leaf = rules.leaf(path, beneath)?;
        rules.outside_state(&leaf.parent)?;
        for _ in 0..LOOKUPS_MAX {
            let Some((file, created)) = leaf.open(how)? else { continue };
            let stat = fstat(&file)?;
            plain(&stat, how)?;
            rules.is_not_own(&identity(&stat))?;
            return Ok(Box::new(Real { file: file.into(), created }));
        }
        Err(denied("the file changes with every look-up; try again when no program creates and removes it"))
    }

    /// Opens a file that a user has named and locks it until it is closed. On a file system without locks the file
    /// stays unlocked.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open); one of the kind `ResourceBusy` if a lock of another task or program is in
    /// the way.
    pub(crate) fn claim(&self, path: &Path, how: How, lock: Lock) -> io::Result<Box<dyn File>> {
        for _ in 0..LOOKUPS_MAX {
            let mut file = self.open(path, how)?;
            file.lock(lock)?;
            // The file may have been removed or replaced before it was locked.
            if self.identity(path)? == Some(file.identity()?) {
                return Ok(file);
            }
        }
        Err(denied(
            "the file changes with every look-up: a program replaces it, or its file system gives it another number each \
             time; name a file on another file system",
        ))
    }

    /// Returns the identity of the file that has this path now; `None` if no file has it.
    pub(crate) fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        let found = self.rules().leaf(path, Beneath::Best).and_then(|leaf| Ok(leaf.stat()?));
        match found {
            Ok(stat) => Ok(Some(identity(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a file that a user has named, durably.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let rules = self.rules();
        let leaf = rules.leaf(path, Beneath::Best)?;
        rules.outside_state(&leaf.parent)?;
        rustix::fs::unlinkat(&leaf.parent, &leaf.name, AtFlags::empty())?;
        leaf.sync()
    }
}

/// Returns the innermost target that contains a path, and the rest of the path.
fn within<'a>(targets: &'a [PathBuf], path: &Path) -> Option<(&'a Path, PathBuf)> {
    let normal = |path: &Path| path.components().all(|c| matches!(c, Component::Normal(_)));
    let inside = targets.iter().filter_map(|target| {
        let rest = path.strip_prefix(target).ok().filter(|rest| normal(rest))?;
        Some((target.as_path(), rest.to_owned()))
    });
    inside.max_by_key(|(target, _)| target.components().count())
}

/// Splits a path into its directory and its last part.
fn parted(path: &Path) -> io::Result<(&Path, OsString)> {
    let (parent, name) = (path.parent(), path.file_name());
    parent.zip(name.map(OsStr::to_owned)).ok_or_else(|| denied("the path is no file; name a file"))
}

/// How a directory beneath another is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beneath {
    /// By the kernel's `openat2` (Linux 5.6 or later), or step by step if that is not possible.
    Best,
    #[cfg(test)]
    Steps,
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory beneath another. No part of the path may be a link.
fn beneath(root: &OwnedFd, rest: &Path, how: Beneath) -> io::Result<OwnedFd> {
    let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
    let found = match how {
        Beneath::Best => by_kernel(root, rest),
        #[cfg(test)]
        Beneath::Steps => Err(Errno::NOSYS),
    };
    let found = match found {
        // `openat2` does not exist, or a system call filter rejects it.
        Err(Errno::NOSYS | Errno::PERM) => by_steps(root, rest),
        found => found,
    };
    found.map_err(|error| match error {
        Errno::LOOP | Errno::XDEV => denied("a link leads out of its target; name the place itself"),
        error => error.into(),
    })
}

fn by_kernel(root: &OwnedFd, rest: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..LOOKUPS_MAX {
        match openat2(root, rest, DIRECTORY, Mode::empty(), resolve) {
            // A rename disturbed the lookup.
            Err(Errno::AGAIN) => {}
            found => return found,
        }
    }
    Err(Errno::AGAIN)
}

fn by_steps(root: &OwnedFd, rest: &Path) -> Result<OwnedFd, Errno> {
    let mut at = openat(root, ".", DIRECTORY, Mode::empty())?;
    for step in rest.components() {
        at = match step {
            Component::CurDir => at,
            // With `PATH` and `NOFOLLOW` a link itself is opened, and fails because it is no directory.
            Component::Normal(name) => {
                let flags = DIRECTORY | OFlags::NOFOLLOW;
                openat(&at, name, flags, Mode::empty()).map_err(|error| match is_link(&at, name) {
                    true => Errno::LOOP,
                    false => error,
                })?
            }
            _ => return Err(Errno::XDEV),
        };
    }
    Ok(at)
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

impl Rules {
    /// Opens the directory of a path's last part, and returns it with that part.
    fn leaf(&self, path: &Path, how: Beneath) -> io::Result<Leaf> {
        let open = |path: &Path| -> io::Result<OwnedFd> {
            Ok(openat(rustix::fs::CWD, path, DIRECTORY, Mode::empty())?)
        };
        let Some(targets) = &self.targets else {
            let (parent, name) = parted(path)?;
            return Ok(Leaf { parent: open(parent)?, name, links: Links::Followed });
        };
        let Some((target, rest)) = within(targets, path) else {
            return Err(denied("the path is in none of the directories of `targets` in the configuration"));
        };
        if rest.as_os_str().is_empty() {
            // The operator has named this file or device itself, so its path may have links.
            let (parent, name) = parted(path)?;
            return Ok(Leaf { parent: open(parent)?, name, links: Links::Followed });
        }
        let (parent, name) = parted(&rest)?;
        Ok(Leaf { parent: beneath(&open(target)?, parent, how)?, name, links: Links::Refused })
    }

    /// Checks that a directory is neither a state directory nor in one, under any name or mount.
    fn outside_state(&self, directory: &OwnedFd) -> io::Result<()> {
        let one = |path: &PathBuf| rustix::fs::stat(path).ok().map(|stat| identity(&stat));
        let states: Vec<Identity> = self.state.iter().filter_map(one).collect();
        let mut at = openat(directory, ".", DIRECTORY, Mode::empty())?;
        loop {
            let here = identity(&fstat(&at)?);
            if states.contains(&here) {
                return Err(denied("the path is in the state directory; name another place"));
            }
            let above = openat(&at, "..", DIRECTORY, Mode::empty())?;
            if identity(&fstat(&above)?) == here {
                return Ok(());
            }
            at = above;
        }
    }

    fn is_not_own(&self, file: &Identity) -> io::Result<()> {
        let one = |path: &PathBuf| rustix::fs::stat(path).ok().map(|stat| identity(&stat));
        if self.own.iter().filter_map(one).any(|own| own == *file) {
            return Err(denied(
                "the path is a served disk, or another file of the daemon's own; name another",
            ));
        }
        let mut kept = BTreeSet::new();
        self.state.iter().for_each(|state| files_of(state, STATE_DEPTH, &mut kept));
        match kept.contains(file) {
            true => Err(denied("the path is a file of the state directory under another name; name another")),
            false => Ok(()),
        }
    }
}

/// Collects the identities of the files in a directory, down to `depth` levels.
fn files_of(directory: &Path, depth: usize, into: &mut BTreeSet<Identity>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match rustix::fs::lstat(&path) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                if depth > 1 {
                    files_of(&path, depth - 1, into);
                }
            }
            Ok(stat) => drop(into.insert(identity(&stat))),
            Err(_) => {}
        }
    }
}

/// Checks that this is a regular file, or a block device that is to be written.
fn plain(stat: &Stat, how: How) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::BlockDevice if how != How::Read => Ok(()),
        FileType::BlockDevice => Err(denied("the path is a device; name a file")),
        FileType::Directory => Err(denied("the path is a directory; name a file in it")),
        _ => Err(denied("the path is neither a file nor a block device; name a file or a block device")),
    }
}

impl Leaf {
    fn stat(&self) -> Result<Stat, Errno> {
        let follow = match self.links {
            Links::Followed => AtFlags::empty(),
            Links::Refused => AtFlags::SYMLINK_NOFOLLOW,
        };
        statat(&self.parent, &self.name, follow)
    }

    /// Opens the file, and returns whether this call has created it. Returns `None` if the file has changed in the
    /// meantime.
    fn open(&self, how: How) -> io::Result<Option<(OwnedFd, bool)>> {
        let found = match self.stat() {
            Ok(stat) => stat,
            Err(Errno::NOENT) if how == How::Make => return Ok(self.make()?.map(|file| (file, true))),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
            return Err(denied("the path is a link; name the place itself"));
        }
        // The kind of file is checked first, because opening a pipe or a device can have an effect.
        plain(&found, how)?;
        // A pipe may have replaced the file since that check, and opening it must not block.
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        flags |= if how == How::Read { OFlags::RDONLY } else { OFlags::RDWR };
        if self.links == Links::Refused {
            flags |= OFlags::NOFOLLOW;
        }
        if FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice {
            flags |= OFlags::EXCL;
        }
        let file = match openat(&self.parent, &self.name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(Errno::BUSY) => {
                let why = "the device is in use: mounted, or open in another program; free the device, or name another";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
            }
            Err(error) => return Err(error.into()),
        };
        let same = identity(&fstat(&file)?) == identity(&found);
        Ok(same.then_some((file, false)))
    }

    /// Creates the file; `None` if it exists already.
    fn make(&self) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::CLOEXEC | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match openat(&self.parent, &self.name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                self.sync()?;
                Ok(Some(file))
            }
            Err(Errno::EXIST) if is_link(&self.parent, &self.name) => {
                Err(denied("the path is a link to nothing; name the place itself"))
            }
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Syncs the directory: otherwise a power cut may undo that a file was created or removed.
    fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fsync(openat(self.parent.as_fd(), ".", flags, Mode::empty())?)?)
    }
}

#[cfg(test)]
mod tests;
