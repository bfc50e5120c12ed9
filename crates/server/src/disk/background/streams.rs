//! Sequential readers, recognised by the ranges that are read.
//!
//! The requests of one reader may arrive in any order, mixed with those of other readers. So a stream is an interval of
//! the disk that was read without a hole. A read that begins at the end of a stream extends the stream, and two streams
//! that touch become one.

use units::{Bytes, Lbn, LbnRange, Sectors};

/// The most streams that are followed: a scan of all of them takes about a microsecond. The stream that was not
/// extended for the longest time is forgotten.
const STREAMS_MAX: usize = 256;

/// The number of reads that make a stream sequential.
const READS_MIN: u64 = 2;

/// The bytes of the first window: the most that Linux reads ahead by default.
const WINDOW_BYTES_MIN: u64 = 128 << 10;

#[derive(Clone, Copy, Debug)]
struct Stream {
    begin: Lbn,
    /// The end of the last read of the stream.
    end: Lbn,
    reads: u64,
    /// The length of the range to read ahead of `end`.
    window: Sectors,
    /// The end of the range that was read ahead.
    ahead: Lbn,
    used: u64,
}

/// The streams of a disk.
#[derive(Debug)]
pub(super) struct Streams {
    all: Vec<Stream>,
    /// The smallest and the largest window.
    least: Sectors,
    most: Sectors,
    clock: u64,
}

impl Streams {
    /// Returns no streams yet, for a disk with sectors of `sector` bytes. A window has at most `most` bytes.
    pub fn new(sector: Bytes, most: Bytes) -> Self {
        let sectors = |bytes: u64| Sectors::new(bytes / sector.get().max(1));
        Self { all: Vec::new(), least: sectors(WINDOW_BYTES_MIN), most: sectors(most.get()), clock: 0 }
    }

    /// Records a read. Returns the range to read ahead if the read's stream is sequential and half of its window is
    /// used.
    pub fn read(&mut self, range: LbnRange) -> Option<LbnRange> {
        self.clock += 1;
        let one = Stream {
            begin: range.start(),
            end: range.end(),
            reads: 1,
            window: Sectors::ZERO,
            ahead: range.end(),
            used: self.clock,
        };
        let merged = self.take(|stream| stream.end == range.start()).map_or(one, |before| Stream {
            begin: before.begin,
            reads: before.reads + 1,
            window: before.window,
            ahead: before.ahead.max(range.end()),
            ..one
        });
        let mut merged = self.take(|stream| stream.begin == merged.end).map_or(merged, |behind| Stream {
            end: behind.end,
            reads: merged.reads + behind.reads,
            window: merged.window.max(behind.window),
            ahead: merged.ahead.max(behind.ahead),
            ..merged
        });
        let wanted = self.extend(&mut merged);
        if self.all.len() >= STREAMS_MAX
            && let Some(oldest) = (0..self.all.len()).min_by_key(|at| self.all[*at].used)
        {
            self.all.swap_remove(oldest);
        }
        self.all.push(merged);
        wanted
    }

    fn take(&mut self, is: impl Fn(&Stream) -> bool) -> Option<Stream> {
        let at = self.all.iter().position(is)?;
        Some(self.all.swap_remove(at))
    }

    /// If half of the window is used, doubles the window and returns the range to read ahead.
    fn extend(&self, stream: &mut Stream) -> Option<LbnRange> {
        let left = Sectors::new(stream.ahead.get().saturating_sub(stream.end.get()));
        let used_half = left.get().saturating_mul(2) <= stream.window.get();
        if stream.reads < READS_MIN || !used_half || self.most < self.least {
            return None;
        }
        let window = (stream.window.get() * 2).clamp(self.least.get(), self.most.get());
        stream.window = Sectors::new(window);
        let from = stream.ahead.max(stream.end);
        let to = Lbn::new(stream.end.get().saturating_add(window));
        stream.ahead = to.max(from);
        (from < to).then(|| LbnRange::new(from, to.since(from)))
    }

    /// Halves the window of the stream whose window had the block at `at`, which was dropped unread.
    pub fn dropped_unread(&mut self, at: Lbn) {
        let of = |stream: &&mut Stream| (stream.end..stream.ahead).contains(&at);
        if let Some(stream) = self.all.iter_mut().find(of) {
            let window = (stream.window.get() / 2).max(self.least.get());
            // The blocks behind the dropped one are read ahead again when the reader reaches them.
            (stream.window, stream.ahead) = (Sectors::new(window), at.max(stream.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    fn streams(most_sectors: u64) -> Streams {
        Streams::new(Bytes::new(512), Bytes::new(most_sectors * 512))
    }

    #[test]
    fn the_window_of_a_sequential_reader_doubles_up_to_its_bound() {
        let mut streams = streams(4_096);
        assert_eq!(streams.read(range(1_000, 64)), None);
        let mut ahead = Vec::new();
        let (mut window, mut at) = (0, 1_064);
        while at < 200_000 {
            if let Some(next) = streams.read(range(at, 64)) {
                window = next.end().get() - (at + 64);
                ahead.push(window);
            }
            at += 64;
        }
        assert_eq!(ahead[..5], [256, 512, 1_024, 2_048, 4_096]);
        assert!(ahead[5..].iter().all(|window| *window == 4_096), "{ahead:?}");
        assert_eq!(window, 4_096);
    }

    #[test]
    fn reads_that_arrive_out_of_order_are_one_stream() {
        let mut streams = streams(1 << 16);
        let order = [0, 2, 1, 3, 6, 5, 4, 7];
        let ahead: Vec<_> =
            order.map(|nth| streams.read(range(nth * 64, 64))).into_iter().flatten().collect();
        assert!(!ahead.is_empty() && ahead.iter().all(|next| next.start().get() >= 3 * 64), "{ahead:?}");
        assert_eq!(streams.all.len(), 1);
    }

    #[test]
    fn random_reads_get_no_window_and_do_not_fill_the_memory() {
        let mut streams = streams(1 << 16);
        assert!((0..10_000u64).all(|nth| streams.read(range(nth * 7_919 % 1_000_003 * 100, 8)).is_none()));
        assert_eq!(streams.all.len(), STREAMS_MAX);
    }

    #[test]
    fn a_window_shrinks_when_a_block_is_dropped_unread() {
        let mut streams = streams(1 << 16);
        let mut last = None;
        (0..100).for_each(|nth| last = streams.read(range(nth * 64, 64)).or(last));
        let (window, ahead) = (streams.all[0].window, streams.all[0].ahead);
        streams.dropped_unread(Lbn::new(ahead.get() - 1));
        assert_eq!(streams.all[0].window.get(), window.get() / 2);
        streams.dropped_unread(Lbn::new(ahead.get() + 5));
        assert_eq!(streams.all[0].window.get(), window.get() / 2, "that block is of no stream");
    }
}
