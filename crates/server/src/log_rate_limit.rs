//! A limit on log lines that clients can cause: a number of lines per window, and a count of the suppressed ones.

use units::{Duration, Instant};

/// The most lines in a [`WINDOW`].
const LINES_MAX: u64 = 20;
/// The length of a window; each window allows the same number of lines.
const WINDOW: Duration = Duration::from_secs(10);

/// The limit on one kind of log line. The caller passes the time.
#[derive(Debug, Default)]
pub(crate) struct LogRateLimit {
    /// When the present window began; `None` if no line was wanted since the last window ended.
    since: Option<Instant>,
    lines: u64,
}

impl LogRateLimit {
    /// Returns whether a line may be written; if not, counts it. Call [`take_suppressed`](Self::take_suppressed) first.
    pub fn allow(&mut self, now: Instant) -> bool {
        self.since.get_or_insert(now);
        self.lines += 1;
        self.lines <= LINES_MAX
    }

    /// Returns the number of lines suppressed in a window, once after the window's end.
    pub fn take_suppressed(&mut self, now: Instant) -> Option<u64> {
        self.since.take_if(|since| *since + WINDOW <= now)?;
        Some(std::mem::take(&mut self.lines).saturating_sub(LINES_MAX)).filter(|lines| *lines > 0)
    }

    /// Returns the number of suppressed lines that are not reported yet, for use at the end of the daemon.
    pub fn rest(&mut self) -> Option<u64> {
        self.since = None;
        Some(std::mem::take(&mut self.lines).saturating_sub(LINES_MAX)).filter(|lines| *lines > 0)
    }

    /// Returns when the number of suppressed lines is to be logged.
    pub fn next_event(&self) -> Option<Instant> {
        self.since.filter(|_| self.lines > LINES_MAX).map(|since| since + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_at_once_are_twenty_lines_and_a_count() {
        let mut limit = LogRateLimit::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let lines =
            (0..1_000).filter(|ms| limit.take_suppressed(at(*ms)).is_none() && limit.allow(at(*ms))).count();
        assert_eq!((lines, limit.next_event()), (20, Some(at(10_000))));
        assert_eq!(limit.take_suppressed(at(9_999)), None);
        assert_eq!(limit.take_suppressed(at(10_000)), Some(980));
        assert_eq!((limit.take_suppressed(at(30_000)), limit.next_event(), limit.rest()), (None, None, None));
    }

    #[test]
    fn every_line_is_written_or_counted_and_few_are_written_in_any_time() {
        let mut limit = LogRateLimit::default();
        let (mut written, mut counted) = (Vec::new(), 0);
        for i in 0..100_000u64 {
            let now = Instant::ZERO + Duration::from_millis(i * 7);
            counted += limit.take_suppressed(now).unwrap_or(0);
            if limit.allow(now) {
                written.push(now);
            }
        }
        counted += limit.rest().unwrap_or(0);
        assert_eq!(written.len() as u64 + counted, 100_000);
        // A time as long as a window overlaps at most two windows.
        assert!(
            written.windows(2 * LINES_MAX as usize + 1).all(|w| w[2 * LINES_MAX as usize] >= w[0] + WINDOW)
        );
    }

    #[test]
    fn a_source_with_few_lines_is_never_suppressed() {
        let mut limit = LogRateLimit::default();
        for i in 0..1_000 {
            let now = Instant::ZERO + Duration::from_secs(i);
            assert!(limit.take_suppressed(now).is_none() && limit.allow(now));
        }
    }
}
