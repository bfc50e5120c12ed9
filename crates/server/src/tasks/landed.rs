//! What was written, or read, and counts when the disk has flushed what it may still have in its cache.

/// Things that wait for a flush.
#[derive(Debug)]
pub(crate) struct Landed<T> {
    waiting: Vec<T>,
    /// Of the flush that is under way.
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

    /// What no flush was asked for yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// All of it.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().chain(self.flushing.iter().flatten())
    }

    /// The next flush may come.
    pub fn set_due(&mut self) {
        self.due = true;
    }

    /// Whether to flush now: if it is due, or must not wait, and there is something to be flushed. Then
    /// [`flushed`](Self::flushed) is called.
    pub fn wants(&mut self, at_once: bool) -> bool {
        if !(self.due || at_once) || self.flushing.is_some() || self.waiting.is_empty() {
            return false;
        }
        self.due = false;
        self.flushing = Some(std::mem::take(&mut self.waiting));
        true
    }

    /// What the flush that has ended was for.
    pub fn flushed(&mut self) -> Vec<T> {
        self.flushing.take().unwrap_or_default()
    }

    /// Takes out what no flush was asked for: none is needed.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.waiting)
    }

    /// Nothing of it counts any more; a flush that is under way is of nothing then.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.flushing = self.flushing.take().map(|_| Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lands_while_a_flush_is_under_way_waits_for_the_next() {
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
