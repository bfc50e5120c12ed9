//! What the service manager is told (`sd_notify`), if there is one that listens.

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
    /// What was asked is still answered, and then it ends.
    Stopping,
}

/// Tells the service manager that started this process, whose socket NOTIFY_SOCKET names; nothing without one.
///
/// # Errors
/// It does not take it.
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
