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

/// The reason why the control socket could not be opened.
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
    /// The file of the socket, if this process created it.
    public: Option<SocketFile>,
    private: Option<SocketFile>,
    admission: Arc<Admission>,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens the socket for these disks. If the service manager hands over a socket at this path, that
    /// socket is used. A second socket, whose path ends in `.private`, is opened for root and the daemon's
    /// own user alone: connections of other users cannot fill its queue in the kernel.
    ///
    /// # Errors
    /// The path cannot be listened on.
    pub fn open(config: ControlConfig, disks: Vec<Handle>) -> Result<Self, ControlError> {
        let place = config.path.display().to_string();
        let failed = |error, mend| ControlError { place: place.clone(), error, mend };
        // The private socket is opened first, because a program that sees the public one may expect it.
        let private = private_path(&config.path);
        let (private, private_file) = match listen(private.clone(), false) {
            Ok((listener, file)) => (Some(listener), Some(file)),
            Err(error) => {
                let path = private.display();
                warn!(%path, %error, "root and the daemon's own user have no control socket of their own");
                (None, None)
            }
        };
        let opened = match handed_over(&config.path) {
            Some(listener) => listener.set_nonblocking(true).map(|()| (listener, None)),
            None => {
                listen(config.path.clone(), config.roles.lets_others_in()).map(|(l, file)| (l, Some(file)))
            }
        };
        let (listener, public) =
            opened.map_err(|e| failed(e, "give a path in a directory of the daemon's own"))?;
        let path = config.path.clone();
        let (stop, stopped) = watch::channel(false);
        // If the daemon's own user is unknown, only root has rights.
        let own = own_uid().unwrap_or(0);
        let admission = Arc::new(Admission::new(config.roles, own, config.limits));
        let inside = Arc::clone(&admission);
        let disks = Arc::new(disks.into_iter().map(|d| (d.facts().name.clone(), d)).collect());
        let thread = Builder::new().name("control".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(async {
                    let serve = |listener| {
                        accept::serve(listener, Arc::clone(&inside), Arc::clone(&disks), stopped.clone())
                    };
                    let private = private.map(|private| tokio::spawn(serve(private)));
                    serve(listener).await;
                    if let Some(private) = private {
                        let _ = private.await;
                    }
                }),
                Err(error) => warn!(%error, "no control socket"),
            }
        });
        let thread = thread.map_err(|e| failed(e, "the system gives no thread"))?;
        Ok(Self { path, public, private: private_file, admission, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the roles. Connections whose user has fewer rights than before are closed, sessions included.
    pub fn set_roles(&self, roles: Roles) {
        // The unit file sets the mode of a socket from the service manager.
        if self.public.is_some()
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
        drop((self.public.take(), self.private.take()));
    }
}

/// The file of a socket that this process has created. Dropping it removes the file.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Binds the socket. Removes the stale socket of a dead daemon, but not one that accepts connections.
fn listen(path: PathBuf, others: bool) -> io::Result<(Listener, SocketFile)> {
    if std::fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another daemon listens there"));
        }
        std::fs::remove_file(&path)?;
    }
    let listener = Listener::bind(&path)?;
    let file = SocketFile(path);
    std::fs::set_permissions(&file.0, mode(others))?;
    listener.set_nonblocking(true)?;
    Ok((listener, file))
}

/// Returns the path of the socket for root and the daemon's own user.
fn private_path(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".private");
    path.into()
}

/// Returns the file mode of a socket; `others` is whether any other user has a role. If so, all users may
/// connect, and the roles decide on their rights.
fn mode(others: bool) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(if others { 0o666 } else { 0o600 })
}

/// Returns the daemon's own user, or `None` without /proc.
fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|m| m.uid())
}
