//! A file that another thread writes.

use crate::bounded::{FILES_END_WAIT, join_until};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The most pieces that wait to be written. If the file is so slow that more would wait, writing fails.
const WAITING_PIECES_MAX: usize = 256;

/// A file that a thread of its own writes, so that the caller never waits for a disk. A write fails if the file is
/// too slow, or if an earlier piece has failed. [`flush`](Write::flush) ends the file: it waits, for a bounded time,
/// until all pieces are on the medium.
#[derive(Debug)]
pub struct ThreadedFile {
    pieces: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// The most time to wait for the thread in `flush`.
    end_wait: Duration,
}

impl ThreadedFile {
    /// Creates a new file.
    ///
    /// # Errors
    /// The file exists, or cannot be created; or the system cannot create a thread.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = crate::file_system::private().write(true).create_new(true).open(path)?;
        Self::over(file, |file| file.sync_data())
    }

    fn over<W: Write + Send + 'static>(
        mut to: W,
        sync: impl FnOnce(&mut W) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel::<Vec<u8>>(WAITING_PIECES_MAX);
        let thread = Builder::new().name("recording".into()).spawn(move || {
            let mut written = waiting.iter().try_for_each(|piece| to.write_all(&piece));
            if written.is_ok() {
                written = sync(&mut to);
            }
            // Closing the file may block. It is closed before the receiver is dropped, because a writer that finds
            // no receiver waits for this thread.
            drop(to);
            drop(waiting);
            written
        })?;
        Ok(Self { pieces: Some(pieces), thread: Some(thread), end_wait: FILES_END_WAIT })
    }

    /// Returns the error with which the thread has ended early.
    fn failure(&mut self) -> io::Error {
        self.pieces = None;
        let extent = self.thread.take().map(JoinHandle::join);
        match extent {
            Some(Ok(Err(error))) => error,
            _ => io::Error::other("the recording has ended"),
        }
    }
}

impl Write for ThreadedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.pieces.as_ref().map(|pieces| pieces.try_send(bytes.to_vec())) {
            Some(Ok(())) => Ok(bytes.len()),
            Some(Err(TrySendError::Full(_))) => {
                let why = "the recording's file is written more slowly than there is to record";
                Err(io::Error::new(io::ErrorKind::WouldBlock, why))
            }
            Some(Err(TrySendError::Disconnected(_))) | None => Err(self.failure()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pieces = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match join_until(thread, Instant::now() + self.end_wait) {
            Some(Ok(written)) => written,
            Some(Err(_)) => Err(io::Error::other("the recording's thread has failed")),
            None => {
                let why = format!("the file does not answer: waited {:?}", self.end_wait);
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded::ends;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A file that writes a piece when the test allows it.
    struct Slow(Receiver<io::Result<()>>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)??;
            let _ = self.1.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_file_delays_no_writer_and_overflow_is_an_error() {
        let (let_it, wait) = channel();
        let (tell, extent) = channel();
        let mut threaded_file = ThreadedFile::over(Slow(wait, tell), |_| Ok(())).unwrap();
        let mut given = 0;
        let error = loop {
            match threaded_file.write_all(&[given as u8]) {
                Ok(()) => given += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!((WAITING_PIECES_MAX..=WAITING_PIECES_MAX + 1).contains(&given), "{given}");
        (0..given).for_each(|_| let_it.send(Ok(())).unwrap());
        threaded_file.flush().unwrap();
        assert_eq!(extent.try_iter().count(), given);
    }

    #[test]
    fn a_recording_whose_file_hangs_does_not_keep_the_daemon_from_ending() {
        let (let_it, wait) = channel();
        let (tell, _told) = channel();
        let mut threaded_file = ThreadedFile::over(Slow(wait, tell), |_| Ok(())).unwrap();
        threaded_file.end_wait = Duration::ZERO;
        threaded_file.write_all(b"a").unwrap();
        let (say, said) = channel();
        let ended = ends(move || say.send(threaded_file.flush()).unwrap());
        drop(let_it);
        assert!(ended);
        assert_eq!(said.recv().unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_full_file_system_is_reported() {
        let (let_it, wait) = channel();
        let (tell, _told) = channel();
        let mut threaded_file = ThreadedFile::over(Slow(wait, tell), |_| Ok(())).unwrap();
        threaded_file.write_all(b"a").unwrap();
        let_it.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        let error = loop {
            match threaded_file.write_all(b"b") {
                // The file's thread has not met the error yet.
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        threaded_file.flush().unwrap();
    }
}
