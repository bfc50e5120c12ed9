//! A hash of the events of a history, to compare two runs.

use crate::dice::mix;
use scheduler::Record;
use units::{Instant, Lbn, RequestId};

/// A hash of a sequence of numbers and texts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    pub fn get(self) -> u64 {
        self.0
    }

    pub fn add(&mut self, n: u64) {
        self.0 = mix(self.0 ^ n).wrapping_add(n);
    }

    pub fn add_text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.add(byte.into()));
    }

    /// Adds the completion of a foreground request.
    pub fn add_answer(&mut self, id: RequestId, now: Instant) {
        self.add(id.get());
        self.add(now.as_nanos());
    }

    /// Adds a record.
    pub fn add_record(&mut self, record: &Record) {
        let (start, len) = (record.range.start().get(), record.range.len().get());
        for n in [record.session.get(), record.task.get(), start, len, record.last.into()] {
            self.add(n);
        }
        self.add(record.bad.map_or(u64::MAX, Lbn::get));
    }
}
