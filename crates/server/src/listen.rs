//! Where clients come in.

use std::fmt;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system: who may open it may use the drive.
    Unix(PathBuf),
    /// A port, which anybody may use who reaches it.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Self::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

impl Address {
    /// Whether it may be listened on: not where other machines come in, unless `remote` allows it, because nothing goes
    /// without TLS or at the operator's word.
    ///
    /// # Errors
    /// [`ListenError::Remote`].
    pub fn check(&self, remote: bool) -> Result<(), ListenError> {
        match *self {
            Self::Tcp(at) if !at.ip().is_loopback() && !remote => Err(ListenError::Remote(at)),
            _ => Ok(()),
        }
    }
}

/// A place where nobody can listen, or nobody should.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Without encryption, on an address that others reach.
    #[error(
        "{0} is reached from other machines, and NBD without TLS asks nobody who they are; listen on 127.0.0.1 or a Unix socket, require TLS, or allow it by name"
    )]
    Remote(SocketAddr),
    /// Something is there already.
    #[error("{path} is taken: {what}; give another path or remove it")]
    Taken {
        /// Where.
        path: PathBuf,
        /// By what.
        what: &'static str,
    },
    /// The system's word.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// Where.
        address: Address,
        /// Why.
        source: io::Error,
    },
}

/// An open door. A Unix socket's file goes with it, unless the service manager made it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: Arc<OwnedFd>,
    address: Address,
    /// The socket's file is ours to take away.
    ours: bool,
}

impl Listener {
    /// Listens. `remote` allows TCP addresses that other machines reach, as in [`Address::check`].
    ///
    /// A socket on this very address that the service manager has opened and handed over (LISTEN_FDS, as systemd does it)
    /// is used, not opened anew: clients that come while the daemon starts wait there.
    ///
    /// # Errors
    /// An address that is refused, or taken.
    pub fn bind(address: Address, remote: bool) -> Result<Self, ListenError> {
        let failed = |address: &Address, source| ListenError::System { address: address.clone(), source };
        address.check(remote)?;
        if let Some(socket) = inherited::take(&address) {
            return Ok(Self { socket: Arc::new(socket), address, ours: false });
        }
        match &address {
            Address::Unix(path) => {
                clear(path)?;
                let listener = UnixListener::bind(path).map_err(|e| failed(&address, e))?;
                Ok(Self { socket: Arc::new(listener.into()), address, ours: true })
            }
            Address::Tcp(at) => {
                let listener = TcpListener::bind(at).map_err(|e| failed(&address, e))?;
                // The port may have been left to the system.
                let at = listener.local_addr().map_err(|e| failed(&address, e))?;
                Ok(Self { socket: Arc::new(listener.into()), address: Address::Tcp(at), ours: true })
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// A Unix socket at this path that the service manager has opened and handed over, once.
pub(crate) fn handed_over(path: &Path) -> Option<UnixListener> {
    inherited::take(&Address::Unix(path.to_owned())).map(UnixListener::from)
}

/// The sockets that the service manager has handed over and that are at none of these addresses, in words: clients that
/// come in there would wait for ever.
pub fn unlisted<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> Vec<String> {
    inherited::others(&addresses.into_iter().collect::<Vec<_>>())
}

/// Sockets that the service manager has opened for this process.
mod inherited {
    use super::Address;
    use listenfd::ListenFd;
    use std::os::fd::OwnedFd;
    use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

    /// A socket on an address, or what it is instead.
    type Handed = Result<(Address, OwnedFd), String>;

    static SOCKETS: OnceLock<Mutex<Vec<Handed>>> = OnceLock::new();

    fn sockets() -> MutexGuard<'static, Vec<Handed>> {
        SOCKETS.get_or_init(|| Mutex::new(all())).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one on this address, once.
    pub fn take(address: &Address) -> Option<OwnedFd> {
        let mut sockets = sockets();
        let place = sockets.iter().position(|one| one.as_ref().is_ok_and(|(at, _)| at == address))?;
        sockets.swap_remove(place).ok().map(|(_, socket)| socket)
    }

    /// Those that are on none of these addresses, and those that are on one that another has taken.
    pub fn others(addresses: &[&Address]) -> Vec<String> {
        let mut left = addresses.to_vec();
        let name = |one: &Handed| match one {
            Err(what) => Some(what.clone()),
            Ok((at, _)) => match left.iter().position(|listed| *listed == at) {
                Some(place) => {
                    left.swap_remove(place);
                    None
                }
                None => Some(at.to_string()),
            },
        };
        sockets().iter().filter_map(name).collect()
    }

    fn all() -> Vec<Handed> {
        let mut handed = ListenFd::from_env();
        let many = handed.len();
        let one = |place: usize| {
            let strange = || format!("descriptor {}, which is no stream socket with an address", place + 3);
            if let Ok(Some(listener)) = handed.take_unix_listener(place) {
                let at = listener.local_addr().ok().and_then(|at| at.as_pathname().map(ToOwned::to_owned));
                return at.map(|path| (Address::Unix(path), listener.into())).ok_or_else(strange);
            }
            let Ok(Some(listener)) = handed.take_tcp_listener(place) else { return Err(strange()) };
            let at = listener.local_addr().map_err(|_| strange())?;
            Ok((Address::Tcp(at), listener.into()))
        };
        (0..many).map(one).collect()
    }
}

/// A socket that a server left behind which is no more is taken away; nothing else is.
fn clear(path: &Path) -> Result<(), ListenError> {
    let Ok(there) = path.symlink_metadata() else { return Ok(()) };
    let taken = |what| Err(ListenError::Taken { path: path.to_owned(), what });
    if !there.file_type().is_socket() {
        return taken("it is no socket");
    }
    if answers(path) {
        return taken("a server answers there");
    }
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ListenError::System { address: Address::Unix(path.to_owned()), source })
        }
        _ => Ok(()),
    }
}

/// Whether a server is there. The socket of one that was killed takes connections for a moment after its end, until the
/// kernel has taken its ring down, and then breaks them: a server says something, or at least stays.
fn answers(path: &Path) -> bool {
    while let Ok(mut stream) = UnixStream::connect(path) {
        let heard = stream.set_read_timeout(Some(STAYS)).and_then(|()| stream.read(&mut [0]));
        match heard {
            Ok(1..) => return true,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return true;
            }
            // It has hung up, or was never taken in: is anybody still there?
            Ok(0) | Err(_) => std::thread::sleep(STAYS / 100),
        }
    }
    false
}

/// So long a connection lives that is nobody's any more, many times over.
const STAYS: Duration = Duration::from_millis(500);

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Address::Unix(path), true) = (&self.address, self.ours) {
            // Gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}
