//! The control socket: HTTP/1.1 and JSON over a Unix socket, on a thread of its own (docs/CONTROL.md).

mod accept;
mod api;
mod metrics;
mod reply;
mod roles;
mod seats;
mod session;
mod trouble;

pub use roles::{Role, Roles};
pub use seats::Seating;

use crate::listen::handed_over;
use crate::office::Handle;
use accept::Room;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use thiserror::Error;
use tokio::sync::watch;
use tracing::warn;

/// What a control socket is like.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// Where it is.
    pub path: PathBuf,
    /// Who may do what.
    pub roles: Roles,
    /// How many connections there may be.
    pub seating: Seating,
}

impl ControlConfig {
    /// Here, for the daemon's own user and root.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), roles: Roles::default(), seating: Seating::default() }
    }
}

/// Why there is no control socket.
#[derive(Debug, Error)]
#[error("{place}: {error}; {mend}")]
pub struct ControlError {
    /// Where it was to be.
    pub place: String,
    /// What is wrong.
    pub error: io::Error,
    mend: &'static str,
}

/// A control socket that is open. Dropping it closes it.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// The socket's file is ours to take away.
    ours: bool,
    room: Arc<Room>,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens it, for these disks. A socket at this path that the service manager hands over is used as it is.
    ///
    /// # Errors
    /// The path cannot be listened at.
    pub fn open(config: ControlConfig, disks: Vec<Handle>) -> Result<Self, ControlError> {
        let place = config.path.display().to_string();
        let failed = |error, mend| ControlError { place: place.clone(), error, mend };
        let handed = handed_over(&config.path);
        let ours = handed.is_none();
        let listener = match handed {
            Some(listener) => listener.set_nonblocking(true).map(|()| listener),
            None => listen(&config.path, config.roles.lets_others_in()),
        };
        let listener = listener.map_err(|e| failed(e, "give a path in a directory of the daemon's own"))?;
        let path = config.path.clone();
        let (stop, stopped) = watch::channel(false);
        // Without it only root may do anything.
        let own = own_uid().unwrap_or(0);
        let room = Arc::new(Room::new(config.roles, own, config.seating));
        let inside = Arc::clone(&room);
        let disks = Arc::new(disks.into_iter().map(|d| (d.facts().name.clone(), d)).collect());
        let thread = Builder::new().name("control".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(accept::serve(listener, inside, disks, stopped)),
                Err(error) => warn!(%error, "no control socket"),
            }
        });
        let thread = thread.map_err(|e| failed(e, "the system gives no thread"))?;
        Ok(Self { path, ours, room, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Other roles from here on. A connection whose user may do less than before is hung up on, a session included.
    pub fn set_roles(&self, roles: Roles) {
        // A socket of the service manager's keeps the mode that its unit says.
        if self.ours
            && let Err(error) = std::fs::set_permissions(&self.path, mode(roles.lets_others_in()))
        {
            warn!(%error, "the mode of the control socket cannot be changed");
        }
        self.room.set_roles(roles);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A socket that is left over from a daemon that is gone is taken away; one that answers is not.
fn listen(path: &Path, others: bool) -> io::Result<Listener> {
    if std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another daemon listens there"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = Listener::bind(path)?;
    std::fs::set_permissions(path, mode(others))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Roles say which user may do what; without any, the socket need not even let other users in.
fn mode(others: bool) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(if others { 0o666 } else { 0o600 })
}

/// The daemon's own user.
fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|m| m.uid())
}
