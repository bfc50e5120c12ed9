//! The addresses at which clients connect.

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

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system, open to any user who may open the file.
    Unix(PathBuf),
    /// A port, open to any process that reaches it.
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
    /// Checks whether the address may be listened on. An address that other machines reach is refused unless `remote`
    /// allows it, which needs TLS or the operator's consent.
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

/// An address that cannot be listened on, or must not be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Other machines reach the address, and there is no encryption.
    #[error(
        "{0} is reached from other machines, and NBD without TLS does not authenticate clients; listen on 127.0.0.1 or a Unix socket, require TLS, or allow it by name"
    )]
    Remote(SocketAddr),
    /// The address is in use.
    #[error("{path} is taken: {what}; give another path or remove it")]
    Taken {
        /// The path.
        path: PathBuf,
        /// The kind of file at the path.
        what: &'static str,
    },
    /// The system refused the address.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
}

/// An open listener. Dropping it removes a Unix socket's file, unless the service manager made it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: Arc<OwnedFd>,
    address: Address,
    /// Whether this process created the socket's file and has to remove it.
    ours: bool,
}

impl Listener {
    /// Opens a listener. `remote` allows TCP addresses that other machines reach, as in [`Address::check`].
    ///
    /// If the service manager has opened a socket on this address and handed it over (LISTEN_FDS, as systemd does), the
    /// listener uses that socket: clients that connect while the daemon starts wait there.
    ///
    /// # Errors
    /// The address is refused, or taken.
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
                // With port 0 the system has chosen the port.
                let at = listener.local_addr().map_err(|e| failed(&address, e))?;
                Ok(Self { socket: Arc::new(listener.into()), address: Address::Tcp(at), ours: true })
            }
        }
    }

    /// Returns the address, with the port that the system chose if port 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// Returns the Unix socket that the service manager has handed over for this path. A second call returns `None`.
pub(crate) fn handed_over(path: &Path) -> Option<UnixListener> {
    inherited::take(&Address::Unix(path.to_owned())).map(UnixListener::from)
}

/// Returns, in words, the sockets that the service manager handed over for none of these addresses: clients that
/// connect there would wait for ever.
pub fn unlisted<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> Vec<String> {
    inherited::others(&addresses.into_iter().collect::<Vec<_>>())
}

/// Sockets that the service manager has opened for this process.
mod inherited {
    use super::Address;
    use listenfd::ListenFd;
    use std::os::fd::OwnedFd;
    use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

    /// A handed-over socket and its address; the socket is `None` once taken. The error describes a descriptor that is
    /// no stream socket with an address.
    type Handed = Result<(Address, Option<OwnedFd>), String>;

    static SOCKETS: OnceLock<Mutex<Vec<Handed>>> = OnceLock::new();

    fn sockets() -> MutexGuard<'static, Vec<Handed>> {
        SOCKETS.get_or_init(|| Mutex::new(all())).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the socket on this address; a second call returns `None`.
    pub fn take(address: &Address) -> Option<OwnedFd> {
        take_from(&mut sockets(), address)
    }

    /// Takes the socket on this address from `sockets`. The address stays in the list, so that [`others`] can compare
    /// it with a later configuration.
    fn take_from(sockets: &mut [Handed], address: &Address) -> Option<OwnedFd> {
        let here = sockets.iter_mut().flatten().filter(|(at, _)| at == address);
        here.map(|(_, socket)| socket).find_map(Option::take)
    }

    /// Returns the sockets on none of these addresses, and the second socket of an address.
    pub fn others(addresses: &[&Address]) -> Vec<String> {
        others_of(&sockets(), addresses)
    }

    fn others_of(sockets: &[Handed], addresses: &[&Address]) -> Vec<String> {
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
        sockets.iter().filter_map(name).collect()
    }

    fn all() -> Vec<Handed> {
        let mut handed = ListenFd::from_env();
        let many = handed.len();
        let one = |place: usize| {
            let strange = || format!("descriptor {}, which is no stream socket with an address", place + 3);
            if let Ok(Some(listener)) = handed.take_unix_listener(place) {
                let at = listener.local_addr().ok().and_then(|at| at.as_pathname().map(ToOwned::to_owned));
                return at.map(|path| (Address::Unix(path), Some(listener.into()))).ok_or_else(strange);
            }
            let Ok(Some(listener)) = handed.take_tcp_listener(place) else { return Err(strange()) };
            let at = listener.local_addr().map_err(|_| strange())?;
            Ok((Address::Tcp(at), Some(listener.into())))
        };
        (0..many).map(one).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::os::unix::net::UnixStream;

        #[test]
        fn a_socket_is_taken_once_and_named_when_no_address_has_it_any_more() {
            let address = Address::Unix("/run/d0".into());
            let mut sockets = vec![Ok((address.clone(), Some(UnixStream::pair().unwrap().0.into())))];
            assert_eq!(others_of(&sockets, &[&address]), [""; 0]);
            assert!(take_from(&mut sockets, &address).is_some());
            assert!(take_from(&mut sockets, &address).is_none());
            assert_eq!(others_of(&sockets, &[&address]), [""; 0]);
            assert_eq!(others_of(&sockets, &[]), [address.to_string()]);
        }
    }
}

/// Removes a stale socket of a dead server, and no other file.
fn clear(path: &Path) -> Result<(), ListenError> {
    let Ok(there) = path.symlink_metadata() else { return Ok(()) };
    let taken = |what| Err(ListenError::Taken { path: path.to_owned(), what });
    if !there.file_type().is_socket() {
        return taken("the path is no socket");
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

/// Returns whether a server listens there. The socket of a killed server accepts connections until the kernel has
/// closed its ring, and then breaks them. A live server sends bytes, or at least keeps the connection.
fn answers(path: &Path) -> bool {
    while let Ok(mut stream) = UnixStream::connect(path) {
        let heard =
            stream.set_read_timeout(Some(DEAD_CONNECTION_TIME_MAX)).and_then(|()| stream.read(&mut [0]));
        match heard {
            Ok(1..) => return true,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return true;
            }
            // The server has hung up, or never accepted: check again.
            Ok(0) | Err(_) => std::thread::sleep(DEAD_CONNECTION_TIME_MAX / 100),
        }
    }
    false
}

/// The time after which a connection counts as a live server's: several times what the kernel needs to break one of a
/// dead server.
const DEAD_CONNECTION_TIME_MAX: Duration = Duration::from_millis(500);

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Address::Unix(path), true) = (&self.address, self.ours) {
            // The file may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}
