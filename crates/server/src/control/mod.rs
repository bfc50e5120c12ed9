//! The control socket: HTTP/1.1 and JSON over a Unix socket, on a thread of its own (docs/CONTROL.md).

mod accept;
mod admission;
mod api;
mod disks;
mod limited_log;
mod metrics;
mod reply;
mod roles;
mod session;
mod task_feed;

pub use crate::slots::ConnectionLimits;
pub(crate) use admission::Peer;
pub(crate) use api::{act, facts, start};
pub(crate) use disks::Disks;
pub(crate) use reply::Refusal;
pub use roles::{Role, Roles};

use crate::handle::Handle;
use crate::listen::handed_over;
use admission::Admission;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use thiserror::Error;
use tokio::sync::watch;
use tracing::warn;

/// The configuration of a control socket.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// The path of the socket.
    pub path: PathBuf,
    /// The rights of users and groups.
    pub roles: Roles,
    /// The limits on the number of connections.
    pub limits: ConnectionLimits,
}

impl ControlConfig {
    /// Configures a socket at this path, for the daemon's own user and root only.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), roles: Roles::default(), limits: ConnectionLimits::default() }
    }
}

/// The reason why there is no control socket.
#[derive(Debug, Error)]
#[error("{place}: {error}; {mend}")]
pub struct ControlError {
    /// The path that was asked for.
    pub place: String,
    /// The error of the operating system.
    pub error: io::Error,
    mend: &'static str,
}

/// A control socket that is open. Dropping it closes it.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// Whether this process created the socket's file and has to remove it.
    ours: bool,
    admission: Arc<Admission>,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens the socket for these disks. If the service manager hands over a socket at this path, uses that one.
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
        let admission = Arc::new(Admission::new(config.roles, own, config.limits));
        let inside = Arc::clone(&admission);
        let disks = Arc::new(disks.into_iter().map(|d| (d.facts().name.clone(), d)).collect());
        let thread = Builder::new().name("control".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(accept::serve(listener, inside, disks, stopped)),
                Err(error) => warn!(%error, "no control socket"),
            }
        });
        let thread = thread.map_err(|e| failed(e, "the system gives no thread"))?;
        Ok(Self { path, ours, admission, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the roles. Connections whose user has fewer rights than before are closed, sessions included.
    pub fn set_roles(&self, roles: Roles) {
        // A socket of the service manager keeps the mode that its unit says.
        if self.ours
            && let Err(error) = std::fs::set_permissions(&self.path, mode(roles.lets_others_in()))
        {
            warn!(%error, "the mode of the control socket cannot be changed");
        }
        self.admission.set_roles(roles);
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

/// Binds the socket. Removes a stale socket of a dead daemon, but not one that answers.
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

/// Returns the file mode: roles decide on rights, but without any the socket need not let other users in.
fn mode(others: bool) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(if others { 0o666 } else { 0o600 })
}

/// Returns the daemon's own user.
fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|m| m.uid())
}
