//! The interface of checksum stores.

/// The state of a block in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The CRC-32 of the block's content, if known.
    pub sum: Option<u32>,
    /// The store's [`now`](Checksums::now) at the end of the block's last write, or later; 0 if that was before the
    /// store began.
    pub since: u64,
    /// Whether a write of the block is under way.
    pub changing: bool,
}

/// The judgement on a block that was read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The content matches, or its checksum is unknown.
    Fine,
    /// The content differs from what was written.
    Wrong,
    /// The block must be read again before it can be judged.
    Again,
    /// The judgement will come later, by [`Scrubber::settle`](super::Scrubber::settle).
    Later,
}

/// A store of the checksums of blocks.
///
/// The writer of a block notifies the store before the write is sent, and again, with the new checksum, when the
/// write has ended. The bytes of a read were on the medium at some time between its registration and its record, so a
/// mismatch proves damage only if no write of the block was under way in that time. The scrubber takes
/// [`now`](Self::now) at registration. A block that is `changing`, or that does not match and has a later `since`, is
/// read again and not reported, because a write may be the reason.
pub trait Checksums {
    /// Returns a count that grows with each write that begins or ends.
    fn now(&self) -> u64;
    /// Returns the state of a block of the scrubber's plan.
    fn known(&mut self, block: u64) -> Known;
    /// Judges a block that was read whole. `mark` is [`now`](Self::now) when the read was registered.
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
