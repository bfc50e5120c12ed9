//! The slots for applications in a volume, and two simulated devices that survive a power cut: the reorganiser's
//! non-volatile memory, and the tape of backups.

use apps::backup::Sink;
use apps::reorganizer::{Nvram, NvramLost};
use scheduler::{Application, Record, Sessions, Wanted};
use std::cell::RefCell;
use std::rc::Rc;
use units::Instant;

/// The slot of an application in a volume. It is empty until the application has started.
pub(super) struct Seat<T>(pub Option<T>);

impl<T: Application> Application for Seat<T> {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(app) = &mut self.0 {
            app.done(sessions, done, bytes, now);
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        self.0.as_mut().is_some_and(|app| app.buffer(wanted, into))
    }
}

/// The reorganiser's non-volatile memory. It may fail after a number of operations; an append that fails writes a part of
/// its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Rc<RefCell<Cells>>);

#[derive(Debug, Default)]
struct Cells {
    bytes: Vec<u8>,
    left: Option<u32>,
}

impl Cells {
    fn works(&mut self) -> bool {
        let left = self.left;
        self.left = left.map(|left| left.saturating_sub(1));
        left != Some(0)
    }
}

impl Memory {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.borrow().bytes.clone()
    }

    /// Makes the non-volatile memory fail after this number of further operations; never with `None`.
    pub fn dies_after(&self, operations: Option<u32>) {
        self.0.borrow_mut().left = operations;
    }
}

impl Nvram for Memory {
    fn append(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        let mut cells = self.0.borrow_mut();
        if cells.works() {
            cells.bytes.extend(bytes);
            return Ok(());
        }
        let torn = bytes.len() * (cells.bytes.len() % 7) / 7;
        cells.bytes.extend(&bytes[..torn]);
        Err(NvramLost)
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), NvramLost> {
        let mut cells = self.0.borrow_mut();
        if !cells.works() {
            return Err(NvramLost);
        }
        cells.bytes = bytes.to_vec();
        Ok(())
    }
}

/// The destination of a backup image. It may be full, and a power cut may remove bytes that were not synced.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape(Rc<RefCell<Reel>>);

#[derive(Debug, Default)]
struct Reel {
    bytes: Vec<u8>,
    durable: usize,
    room: Option<u64>,
}

impl Tape {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.borrow().bytes.clone()
    }

    pub fn durable(&self) -> usize {
        self.0.borrow().durable
    }

    /// Removes all but the first bytes.
    pub fn cut(&self, bytes: usize) {
        let mut reel = self.0.borrow_mut();
        reel.bytes.truncate(bytes);
        reel.durable = reel.durable.min(bytes);
    }

    /// Sets the free space in bytes; `None` for no limit.
    pub fn room(&self, bytes: Option<u64>) {
        self.0.borrow_mut().room = bytes;
    }
}

impl Sink for Tape {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let mut reel = self.0.borrow_mut();
        let taken = reel.room.map_or(bytes.len(), |room| bytes.len().min(room as usize));
        reel.room = reel.room.map(|room| room - taken as u64);
        reel.bytes.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn sync(&mut self) -> Result<(), String> {
        let mut reel = self.0.borrow_mut();
        reel.durable = reel.bytes.len();
        Ok(())
    }
}
