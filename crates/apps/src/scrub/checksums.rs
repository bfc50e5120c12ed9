//! What the content of blocks should be.

/// What a store knows of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The CRC-32 of its content; `None`: unknown.
    pub sum: Option<u32>,
    /// The store's [`now`](Checksums::now) when the last write of the block ended, or later; 0: before the store began.
    pub since: u64,
    /// Whether a write of the block is under way.
    pub changing: bool,
}

/// What a block that was read whole is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// What it should be, as far as anybody knows.
    Fine,
    /// Not what was written.
    Wrong,
    /// It has to be read again before anything can be said.
    Again,
    /// Whoever knows is being asked: [`Scrubber::settle`](super::Scrubber::settle).
    Later,
}

/// A checksum store.
///
/// Whoever writes a block says so before the write goes out, and again, with the new checksum, when it has ended. A
/// read's bytes were on the medium at some time between its registration and its record; so they prove something only
/// if no write of the block was under way in that time. The scrubber takes [`now`](Self::now) at registration; a
/// mismatch of a block that has `changing`, or a later `since`, is read again and not reported.
pub trait Checksums {
    /// A count that grows with each write that begins or ends.
    fn now(&self) -> u64;
    /// What is known of a block of the scrubber's plan.
    fn known(&mut self, block: u64) -> Known;
    /// Compares a block that was read whole. `mark` is [`now`](Self::now) when the read was registered.
    fn judge(&mut self, block: u64, mark: u64, bytes: &[u8]) -> Judgement {
        let known = self.known(block);
        let wrong = known.sum.is_some_and(|sum| sum != crc32fast::hash(bytes));
        match known.changing || (wrong && known.since > mark) {
            true => Judgement::Again,
            false if wrong => Judgement::Wrong,
            false => Judgement::Fine,
        }
    }
}

/// No store: only the medium is tested.
impl Checksums for () {
    fn now(&self) -> u64 {
        0
    }
    fn known(&mut self, _: u64) -> Known {
        Known::default()
    }
}

impl<C: Checksums> Checksums for std::rc::Rc<std::cell::RefCell<C>> {
    fn now(&self) -> u64 {
        self.borrow().now()
    }
    fn known(&mut self, block: u64) -> Known {
        self.borrow_mut().known(block)
    }
    fn judge(&mut self, block: u64, mark: u64, bytes: &[u8]) -> Judgement {
        self.borrow_mut().judge(block, mark, bytes)
    }
}
