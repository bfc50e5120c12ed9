//! A socket by which one thread wakes another that waits on a ring.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// One end of the socket. Each end can wake the other.
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

impl Waker {
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((Self(one), Self(other)))
    }

    /// Wakes the other end.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn wake(&self) -> io::Result<()> {
        match (&self.0).write(&[0]) {
            // A full socket already wakes the other thread.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Discards what the other end has sent. Returns whether that end still exists.
    pub fn clear(&self) -> io::Result<bool> {
        let mut bytes = [0; 256];
        loop {
            match (&self.0).read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                // The other end has closed without reading what this end had sent.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the descriptor that becomes readable when the other end wakes this one or is gone.
    pub fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::new(self.0.try_clone()?.into()))
    }
}
