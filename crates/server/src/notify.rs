//! Messages to the service manager (`sd_notify`), if one listens.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A moment in a daemon's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Clients are served.
    Ready,
    /// The configuration is read again; [`Ready`](Self::Ready) follows.
    Reloading,
    /// Received requests are still answered; then the daemon ends.
    Stopping,
}

/// Sends the moment to the service manager that started this process, at the socket in NOTIFY_SOCKET; without one does
/// nothing.
///
/// # Errors
/// The message cannot be sent.
pub fn notify(moment: Moment) -> io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
        return Ok(());
    };
    // An abstract name begins with an at sign here and with a zero byte in the kernel.
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
