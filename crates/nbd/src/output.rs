//! The bytes to send to a client, in order.

use std::collections::VecDeque;

/// The least bytes of a read's data that get a buffer of their own. Fewer are copied behind other answers, which costs
/// less than another system call.
const MOVED_BYTES_MIN: usize = 64 << 10;

/// Answers that are not sent yet. Small answers share a buffer, and large data have a buffer of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// Complete buffers, none of which is empty.
    closed: VecDeque<Vec<u8>>,
    /// The bytes in `closed`.
    closed_bytes: usize,
    /// The last buffer, to which answers are written.
    open: Vec<u8>,
    /// The number of bytes of the first buffer that were sent.
    sent: usize,
    /// The number of bytes that the host has taken but not sent.
    taken: usize,
}

impl Output {
    /// Returns the number of bytes held, which are not sent, taken or not. All bytes of a complete buffer count until
    /// its last byte is sent.
    pub fn len(&self) -> usize {
        let gone = if self.closed.is_empty() { self.sent } else { 0 };
        self.closed_bytes + self.open.len() - gone + self.taken
    }

    /// Returns the buffer for the next small answer.
    pub fn small(&mut self) -> &mut Vec<u8> {
        if self.open.len() >= MOVED_BYTES_MIN {
            self.close();
        }
        &mut self.open
    }

    /// Returns the buffer of the last small answer, without beginning another one, so that bytes written since can be
    /// removed.
    pub fn open(&mut self) -> &mut Vec<u8> {
        &mut self.open
    }

    pub fn data(&mut self, data: Vec<u8>) {
        if data.len() < MOVED_BYTES_MIN {
            return self.small().extend_from_slice(&data);
        }
        self.close();
        self.closed_bytes += data.len();
        self.closed.push_back(data);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let mut full = std::mem::take(&mut self.open);
            if self.closed.is_empty() {
                full.drain(..std::mem::take(&mut self.sent));
            }
            if full.is_empty() {
                return;
            }
            full.shrink_to_fit();
            self.closed_bytes += full.len();
            self.closed.push_back(full);
        }
    }

    /// Returns the next bytes to be sent; empty if there are none. More bytes may follow after them.
    pub fn next(&self) -> &[u8] {
        self.closed.front().unwrap_or(&self.open).get(self.sent..).unwrap_or_default()
    }

    /// Takes the bytes that [`next`](Self::next) returns.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = match self.closed.pop_front() {
            Some(bytes) => {
                self.closed_bytes -= bytes.len();
                bytes
            }
            None => std::mem::take(&mut self.open),
        };
        bytes.drain(..std::mem::take(&mut self.sent));
        self.taken += bytes.len();
        bytes
    }

    /// Records that bytes were sent: first those that were taken.
    pub fn sent(&mut self, bytes: usize) {
        let taken = bytes.min(self.taken);
        self.taken -= taken;
        let mut left = bytes - taken;
        while left > 0 && !self.next().is_empty() {
            let some = left.min(self.next().len());
            left -= some;
            self.sent += some;
            if self.next().is_empty() {
                self.sent = 0;
                match self.closed.pop_front() {
                    Some(gone) => self.closed_bytes -= gone.len(),
                    None => self.open.clear(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_comes_out_once_in_order_and_counts_until_it_was_sent(
            steps in prop::collection::vec((0..4u8, 0..200_000usize), 1..60),
        ) {
            let mut output = Output::default();
            let (mut all, mut gone, mut taken, mut next) = (Vec::new(), Vec::new(), VecDeque::new(), 0u8);
            for (step, bytes) in steps {
                next = next.wrapping_add(1);
                match step {
                    0 => {
                        output.small().extend(vec![next; bytes % 5000]);
                        all.extend(vec![next; bytes % 5000]);
                    }
                    1 => {
                        output.data(vec![next; bytes]);
                        all.extend(vec![next; bytes]);
                    }
                    2 => taken.extend(output.take()),
                    _ => {
                        let some = bytes.min(taken.len());
                        gone.extend(taken.drain(..some));
                        output.sent(some);
                        if taken.is_empty() {
                            let some = output.next().len().min(bytes - some);
                            gone.extend_from_slice(&output.next()[..some]);
                            output.sent(some);
                        }
                    }
                }
                let left = all.len() - gone.len();
                prop_assert!((left..=left + output.sent).contains(&output.len()));
                prop_assert!(all.starts_with(&gone));
            }
            gone.extend(taken.drain(..));
            output.sent(output.taken);
            while !output.next().is_empty() {
                gone.extend_from_slice(output.next());
                output.sent(output.next().len());
            }
            prop_assert!(all == gone && output.len() == 0);
        }
    }
}
