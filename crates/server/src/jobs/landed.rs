//! Items, such as written blocks, that count as done only after a flush: the disk may have their bytes only in its
//! cache.

/// Items that wait for a flush.
#[derive(Debug)]
pub(crate) struct Landed<T> {
    waiting: Vec<T>,
    /// The items of the flush in flight.
    flushing: Option<Vec<T>>,
    due: bool,
}

impl<T> Default for Landed<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), flushing: None, due: false }
    }
}

impl<T> Landed<T> {
    pub fn push(&mut self, landed: T) {
        self.waiting.push(landed);
    }

    /// Returns the number of items that no flush was requested for yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns all items, those of the flush in flight last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().chain(self.flushing.iter().flatten())
    }

    /// Permits the next flush.
    pub fn set_due(&mut self) {
        self.due = true;
    }

    /// Returns whether to flush now: if there are items, no flush is in flight, and a flush is permitted or must be
    /// `at_once`. The caller then calls [`flushed`](Self::flushed).
    pub fn wants(&mut self, at_once: bool) -> bool {
        if !(self.due || at_once) || self.flushing.is_some() || self.waiting.is_empty() {
            return false;
        }
        self.due = false;
        self.flushing = Some(std::mem::take(&mut self.waiting));
        true
    }

    /// Removes and returns the items of the flush that has ended.
    pub fn flushed(&mut self) -> Vec<T> {
        self.flushing.take().unwrap_or_default()
    }

    /// Removes and returns the items that no flush was requested for, because they need none.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.waiting)
    }

    /// Drops all items, also those of a flush in flight.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.flushing = self.flushing.take().map(|_| Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_land_during_a_flush_wait_for_the_next() {
        let mut landed = Landed::default();
        landed.push(1);
        assert!(!landed.wants(false), "not due");
        landed.set_due();
        assert!(landed.wants(false));
        landed.push(2);
        landed.set_due();
        assert!(!landed.wants(true), "one at a time");
        assert_eq!(landed.iter().copied().collect::<Vec<_>>(), [2, 1]);
        assert_eq!(landed.flushed(), [1]);
        assert!(landed.wants(false), "it was due already");
        landed.clear();
        assert_eq!((landed.flushed(), landed.iter().count()), (vec![], 0));
        assert!(!landed.wants(true), "nothing");
    }
}
