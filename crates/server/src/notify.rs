//! Messages to the service manager (`sd_notify`), if this process has one.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A moment in a daemon's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Clients are served.
    Ready,
    /// The configuration is read anew; [`Ready`](Self::Ready) follows.
    Reloading,
    /// The daemon answers the requests received so far, and then ends.
    Stopping,
}

/// Sends the moment to the service manager that started this process, at the socket in NOTIFY_SOCKET. Does nothing if
/// that variable is not set.
///
/// # Errors
/// The message cannot be sent.
pub fn notify(moment: Moment) -> io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
        return Ok(());
    };
    // An abstract name begins with an at sign in NOTIFY_SOCKET and with a zero byte in the kernel.
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&socket)?,
    };
    let message: &[u8] = match moment {
        Moment::Ready => b"READY=1\n",
        Moment::Reloading => b"RELOADING=1\n",
        Moment::Stopping => b"STOPPING=1\n",
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(|_| ())
}
