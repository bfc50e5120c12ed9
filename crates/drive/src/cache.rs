//! The drive's buffer: segments of equal size, each with a run of LBNs. The least recently used segment is replaced.

use crate::rules::Rules;
use model::profile::Cache;
use units::{Lbn, LbnRange, Sectors};

/// The kind of data in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Nothing,
    /// Data that was read from the medium.
    Read,
    /// Data that was received from the host.
    Written,
}

/// A segment of the buffer: a run of LBNs, from `start` to before `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) content: Content,
    pub(crate) start: Lbn,
    pub(crate) end: Lbn,
}

impl Segment {
    fn holds(&self, range: LbnRange) -> bool {
        self.start <= range.start() && range.end() <= self.end
    }

    fn holds_first(&self, range: LbnRange) -> bool {
        self.start <= range.start() && range.start() < self.end
    }

    fn overlaps(&self, range: LbnRange) -> bool {
        self.content != Content::Nothing && self.start < range.end() && range.start() < self.end
    }

    /// Adds sectors up to `end`. In a full segment they replace the sectors at its front.
    pub(crate) fn grow(&mut self, end: Lbn, size: Sectors) {
        self.end = self.end.max(end);
        self.start = self.start.max(Lbn::new(self.end.get().saturating_sub(size.get())));
    }
}

/// The part of a read that a segment can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    Nothing,
    /// The first sectors of the read, or none yet, if running read-ahead is about to read the first one.
    Front,
    All,
}

/// All segments of the buffer. A segment keeps its index in `list`; `order` has the indices, the least recently used first.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    list: Vec<Segment>,
    order: Vec<usize>,
    pub(crate) size: Sectors,
    most_written: usize,
    /// The segment reserved for writes.
    write_only: Option<usize>,
    written_serve_reads: bool,
    writes_keep_reads: bool,
    /// Whether a segment with read data stays valid when some of its sectors are written.
    merges: bool,
}

impl Segments {
    pub(crate) fn new(cache: &Cache, rules: Rules) -> Self {
        let count = cache.segments as usize;
        let nothing = Segment { content: Content::Nothing, start: Lbn::ZERO, end: Lbn::ZERO };
        Self {
            list: vec![nothing; count],
            order: (0..count).collect(),
            size: Sectors::new(u64::from(cache.segment_sectors)),
            most_written: (cache.write_segments as usize).max(1),
            write_only: (cache.separate_write_segment && count > 1).then_some(count - 1),
            written_serve_reads: cache.read_hits_on_written,
            writes_keep_reads: rules.writes_keep_reads,
            merges: rules.writes_keep_reads && (cache.read_hits_on_written || !rules.writes_not_merged),
        }
    }

    pub(crate) fn get(&self, index: usize) -> &Segment {
        &self.list[index]
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Segment {
        &mut self.list[index]
    }

    /// Marks a segment as the most recently used.
    pub(crate) fn touch(&mut self, index: usize) {
        self.order.retain(|&i| i != index);
        self.order.push(index);
    }

    /// Returns the segment for a read, and the part of the read that this segment can serve. `reading` is the segment that
    /// read-ahead is filling. The first choice is a segment with the whole read, then one with its front, an empty one, the
    /// least recently used one, and last the one that is being filled.
    pub(crate) fn for_read(&self, range: LbnRange, reading: Option<usize>) -> (usize, Found) {
        let mut best = (0, 0, Found::Nothing);
        for &i in &self.order {
            let s = &self.list[i];
            let filling = reading == Some(i);
            let serves = match s.content {
                Content::Nothing => false,
                Content::Read => true,
                Content::Written => self.written_serve_reads,
            };
            let (score, found) = if self.write_only == Some(i) && !(serves && s.holds(range)) {
                (0, Found::Nothing)
            } else if s.content == Content::Nothing {
                (3, Found::Nothing)
            } else if serves && s.holds(range) {
                (if filling { 9 } else { 8 }, Found::All)
            } else if serves && (s.holds_first(range) || filling && s.end == range.start()) {
                (if filling { 5 } else { 4 }, Found::Front)
            } else {
                (if filling { 1 } else { 2 }, Found::Nothing)
            };
            if score > best.0 {
                best = (score, i, found);
            }
        }
        (best.1, best.2)
    }

    /// Returns the segment for a write. `appends` is the segment of an unfinished write that this write continues, and
    /// `reading` the one that read-ahead is filling.
    pub(crate) fn for_write(&self, range: LbnRange, appends: Option<usize>, reading: Option<usize>) -> usize {
        if let Some(i) = appends.or(self.write_only) {
            return i;
        }
        if self.writes_keep_reads {
            let holds = |content: Content| move |i: &&usize| self.list[**i].content == content;
            let written = || self.order.iter().filter(holds(Content::Written));
            let continued = written().find(|&&i| self.list[i].end == range.start());
            let pick = continued
                .or_else(|| written().next().filter(|_| written().count() >= self.most_written))
                .or_else(|| self.order.iter().find(holds(Content::Nothing)))
                .or(self.order.first());
            return pick.copied().unwrap_or(0);
        }
        let mut best = (0, 0);
        for &i in &self.order {
            let s = &self.list[i];
            let score = match s.content {
                Content::Nothing => 3,
                _ if reading == Some(i) => 1,
                _ if s.overlaps(range) => 4,
                _ => 2,
            };
            if score > best.0 {
                best = (score, i);
            }
        }
        best.1
    }

    /// Drops every segment with a sector of `range`.
    pub(crate) fn forget(&mut self, range: LbnRange) {
        for s in self.list.iter_mut().filter(|s| s.overlaps(range)) {
            s.content = Content::Nothing;
        }
    }

    /// Updates all segments but `own` for a write into segment `own`. If `leaves`, the buffer drops data once the host has
    /// gone past it: of an overlapped segment only the sectors after the write remain.
    pub(crate) fn overwrite(&mut self, range: LbnRange, own: usize, leaves: bool) {
        for (i, s) in self.list.iter_mut().enumerate() {
            if i == own || !s.overlaps(range) {
                continue;
            }
            if !self.merges || s.content == Content::Written {
                s.content = Content::Nothing;
            } else if leaves {
                s.start = range.end().min(s.end);
            } else if !self.written_serve_reads {
                // Written sectors cannot serve reads, so only the longer of the parts before and after them remains.
                let before = range.start().get().saturating_sub(s.start.get());
                let after = s.end.get().saturating_sub(range.end().get());
                match (before, after) {
                    (0, 0) => s.content = Content::Nothing,
                    _ if after >= before => s.start = range.end(),
                    _ => s.end = range.start(),
                }
            }
        }
    }
}
