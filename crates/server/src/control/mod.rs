//! The control socket: HTTP/1.1 and JSON over a Unix socket, on a thread of its own (docs/CONTROL.md).

mod api;
mod metrics;
mod reply;
mod roles;
mod session;
mod trouble;

pub use roles::{Role, Roles};

use crate::listen::handed_over;
use crate::office::Handle;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};
use trouble::{COUNTED_EVERY, Trouble};

/// A request's head has to come in this time.
const HEAD: Duration = Duration::from_secs(10);

/// What a control socket is like.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// Where it is.
    pub path: PathBuf,
    /// Who may do what.
    pub roles: Roles,
    /// Connections at a time, those of sessions included; more are hung up on.
    pub connections: usize,
}

impl ControlConfig {
    /// Here, for the daemon's own user and root.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), roles: Roles::default(), connections: 256 }
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
        let disks = Arc::new(disks.into_iter().map(|d| (d.facts().name.clone(), d)).collect());
        let thread = Builder::new().name("control".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(serve(listener, config, disks, stopped)),
                Err(error) => warn!(%error, "no control socket"),
            }
        });
        let thread = thread.map_err(|e| failed(e, "the system gives no thread"))?;
        Ok(Self { path, ours, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
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
    // Who may do what is for roles to say, but whom they do not name the socket need not even let in.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(if others { 0o666 } else { 0o600 }))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The daemon's own user.
fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|m| m.uid())
}

async fn serve(
    listener: Listener,
    config: ControlConfig,
    disks: api::Disks,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "no control socket"),
    };
    let router = api::router(disks);
    let room = Arc::new(Semaphore::new(config.connections));
    // Without it only root may do anything.
    let own = own_uid().unwrap_or(0);
    let trouble = Trouble::new();
    let mut count = tokio::time::interval(COUNTED_EVERY);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = count.tick() => {
                trouble.tell();
                continue;
            }
            _ = stopped.changed() => return trouble.tell_all(),
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                trouble.said(|| warn!(%error, "the control socket"));
                // No descriptor is free, for instance: that passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            trouble.said(|| {
                warn!(
                    most = config.connections,
                    uid = uid(&stream),
                    "a client of the control socket is hung up on: there are as many as may be"
                );
            });
            continue;
        };
        let role = role(&stream, &config.roles, own, &trouble);
        let (uid, trouble) = (uid(&stream), trouble.clone());
        let service = router.clone().layer(axum::Extension(role)).layer(axum::Extension(trouble.clone()));
        let service = TowerToHyperService::new(service);
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            if let Err(error) = connection.await {
                trouble.said(|| match error.is_parse() || error.is_timeout() {
                    true => warn!(uid, why = why(&error), "a client of the control socket sends no request"),
                    // Who follows the events goes in this way.
                    false => {
                        info!(uid, why = why(&error), "a client of the control socket went before its answer")
                    }
                });
            }
            drop(permit);
        });
    }
}

/// Who is at the other end, as far as the kernel says.
fn uid(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().map(|peer| peer.uid())
}

/// An error with what it comes of.
fn why(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(error.source(), |error| error.source());
    chain.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}

fn role(stream: &UnixStream, roles: &Roles, own: u32, trouble: &Trouble) -> Role {
    match stream.peer_cred() {
        Ok(peer) => roles.role(peer.uid(), peer.gid(), own),
        Err(error) => {
            trouble.said(|| warn!(%error, "a client of the control socket without credentials"));
            Role::Nobody
        }
    }
}
