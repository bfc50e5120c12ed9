//! Serves the host's orders for the write cache: flushes, which are barriers, and discards.

use super::{Breakdown, Completion, Drive, QueuedCommand, Served};
use crate::behaviour::Queue;
use units::Instant;

impl Drive {
    /// Iterates over the waiting commands that no flush precedes.
    pub(super) fn before_barrier(&self) -> impl Iterator<Item = &QueuedCommand> {
        self.waiting.iter().take_while(|waiting| !waiting.cache.flush)
    }

    /// Returns the time at which the flush at the head of the queue can be served, because all writes are on the medium then.
    /// `None` if no flush is there, or if commands or cached writes before it are not finished.
    pub(super) fn barrier_falls(&self) -> Option<Instant> {
        let first = self.waiting.front()?;
        let waits = !self.finishing.is_empty() || self.has_held_writes();
        (first.cache.flush && !waits).then(|| self.flush_end().max(self.arm_free))
    }

    /// Turns a flush with sectors at the head of the queue into a plain command, once all earlier writes are on the medium.
    pub(super) fn pass_barrier(&mut self, now: Instant) {
        if self.barrier_falls().is_some_and(|at| at <= now)
            && let Some(first) = self.waiting.front_mut().filter(|first| !first.command.range.is_empty())
        {
            first.cache.flush = false;
        }
    }

    /// Serves the oldest waiting discard of a drive with a queue; the discard does not wait for the arm.
    pub(super) fn take_discard(&mut self, now: Instant) -> Option<Completion> {
        if self.queue == Queue::Serial {
            return None;
        }
        let at = self.before_barrier().position(|waiting| waiting.cache.discard)?;
        let discard = self.waiting.remove(at)?;
        Some(self.without_the_arm(now, discard))
    }

    /// Serves a discard, or a flush that waits for no more writes. Each takes the overhead of a command.
    pub(super) fn without_the_arm(&mut self, now: Instant, served: QueuedCommand) -> Completion {
        let QueuedCommand { came, command, cache } = served;
        if cache.discard {
            self.segments.forget(command.range);
            self.write_cache.drop_inside(command.range);
        }
        let since = if self.queue == Queue::Serial { now } else { came } + self.chance.command();
        let ready = (since + self.timing.write_hit.after(self.last_op)).max(now);
        let at = ready + self.timing.write_completion + self.chance.completion();
        let served = if cache.discard { Served::Discarded } else { Served::Flushed };
        let breakdown = Breakdown::without_the_arm(served, [came, now, self.free]);
        Completion { id: command.id, at, breakdown, failed: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::behaviour::{Behaviour, QueueOrder};
    use model::Profile;
    use proptest::prelude::*;

    const FLUSH: CacheOps = CacheOps { flush: true, forced: false, discard: false };
    const FORCED: CacheOps = CacheOps { flush: false, forced: true, discard: false };
    const DISCARD: CacheOps = CacheOps { flush: false, forced: false, discard: true };
    const PLAIN: CacheOps = CacheOps { flush: false, forced: false, discard: false };

    fn profile() -> Profile {
        model::builtin::find("quantum-atlas-10k").unwrap()
    }

    /// Returns the drives of the tests: one as its profile says, which serves one command at a time and caches one write;
    /// one with a queue; and one with a queue and a write cache for 64 writes.
    fn drives() -> [Drive; 3] {
        let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 16 };
        let queued = Behaviour { queue, ..Behaviour::default() };
        let cached = Behaviour { write_cache: 64, ..queued };
        [Behaviour::default(), queued, cached]
            .map(|behaviour| Drive::with_behaviour(&profile(), Rules::HARDWARE, behaviour, 1).unwrap())
    }

    fn command(id: u64, op: Op, start: u64, len: u64) -> Command {
        Command { id: RequestId::new(id), op, range: LbnRange::new(Lbn::new(start), Sectors::new(len)) }
    }

    /// Advances the drive until it has no more work; returns the completions in order.
    fn finish(drive: &mut Drive) -> Vec<Completion> {
        let mut done = Vec::new();
        while let Some(at) = drive.next_event() {
            drive.advance(at);
            while let Some(completion) = drive.pop_completion() {
                done.push(completion);
            }
        }
        done
    }

    /// Submits each command when the one before is complete.
    fn one_by_one(drive: &mut Drive, commands: &[(Command, CacheOps)]) -> Vec<Completion> {
        let mut now = Instant::ZERO;
        let mut done = Vec::new();
        for (command, cache) in commands {
            drive.submit_with(now, *command, *cache).unwrap();
            while done.last().is_none_or(|last: &Completion| last.id != command.id) {
                now = drive.next_event().unwrap();
                drive.advance(now);
                done.extend(drive.pop_completion());
            }
        }
        done
    }

    #[test]
    fn a_flush_is_complete_when_the_cached_writes_are_on_the_medium() {
        for mut drive in drives() {
            let write = (command(0, Op::Write, 9_000_000, 8), PLAIN);
            let done = one_by_one(&mut drive, &[write, (command(1, Op::Write, 0, 0), FLUSH)]);
            assert_eq!(done[0].breakdown.served, Served::Buffered);
            assert_eq!(done[1].breakdown.served, Served::Flushed);
            assert_eq!((drive.unwritten(), drive.flush_end() <= done[1].at), (0, true));
            assert!(done[1].at >= drive.free, "{} before {}", done[1].at, drive.free);
            // The write itself was acknowledged much earlier than the flush.
            let [write, flush] = [done[0].at.as_nanos(), done[1].at.as_nanos()];
            assert!(write < flush / 3, "{write} {flush}");
            // With no write left to flush, a second flush takes only the overhead of a command.
            drive.submit_with(done[1].at, command(2, Op::Write, 0, 0), FLUSH).unwrap();
            let again = finish(&mut drive)[0].at.since(done[1].at);
            assert!(again < Duration::from_millis(1), "{again}");
        }
    }

    #[test]
    fn a_forced_write_is_complete_when_it_is_on_the_medium() {
        for mut drive in drives() {
            let at = 9_000_000;
            let done = one_by_one(&mut drive, &[(command(0, Op::Write, at, 8), FORCED)]);
            assert_eq!(done[0].breakdown.served, Served::Medium);
            assert!(done[0].at >= done[0].breakdown.medium_end && done[0].breakdown.seek > Duration::ZERO);
            assert_eq!(drive.unwritten(), 0);
        }
    }

    #[test]
    fn a_flush_before_a_write_holds_that_write_back_and_not_its_own_caching() {
        for mut drive in drives() {
            let first = (command(0, Op::Write, 9_000_000, 8), PLAIN);
            let done = one_by_one(&mut drive, &[first, (command(1, Op::Write, 64, 8), FLUSH)]);
            assert_eq!(done[1].breakdown.served, Served::Buffered);
            assert!(done[1].breakdown.began > done[0].at + Duration::from_millis(1), "{:?}", done[1]);
        }
    }

    #[test]
    fn a_discard_costs_a_command_and_ends_cached_data() {
        for mut drive in drives() {
            let read = |id| (command(id, Op::Read, 5_000, 8), PLAIN);
            // The discard is longer than a read or write may be.
            let discard = (command(2, Op::Write, 0, 2 << 20), DISCARD);
            let done = one_by_one(&mut drive, &[read(0), read(1), discard, read(3)]);
            let served: Vec<_> = done.iter().map(|done| done.breakdown.served).collect();
            assert_eq!(served[1..3], [Served::Hit, Served::Discarded]);
            assert_ne!(served[3], Served::Hit);
            let took = done[2].at.since(done[1].at);
            assert!(took < Duration::from_millis(1), "{took}");
        }
    }

    #[test]
    fn a_discard_drops_cached_writes_that_the_arm_has_not_begun() {
        let [_, _, mut drive] = drives();
        for id in 0..20 {
            drive.submit(Instant::ZERO, command(id, Op::Write, 1_000 * (id + 1), 8)).unwrap_or_else(
                |error| {
                    assert!(matches!(error, CommandError::QueueFull { .. }), "{error}");
                },
            );
        }
        while drive.outstanding() > 0 {
            drive.advance(drive.next_event().unwrap());
            while drive.pop_completion().is_some() {}
        }
        let held = drive.unwritten();
        assert!(held > 5, "{held}");
        drive.submit_with(drive.now, command(99, Op::Write, 0, 1 << 20), DISCARD).unwrap();
        assert!(drive.unwritten() <= 1, "{}", drive.unwritten());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// With any commands in the queue: the commands before a flush are complete and on the medium before the flush is
        /// complete, the commands after it begin later, and every command is complete in the end.
        #[test]
        fn a_flush_is_a_barrier(
            asks in proptest::collection::vec((0..6u8, 0..17_000_000u64), 1..16), kind in 0..3usize,
        ) {
            let mut drive = drives()[kind].clone();
            let mut sent = Vec::new();
            for (id, (what, place)) in asks.into_iter().enumerate() {
                let (op, len, cache) = match what {
                    0 | 1 => (Op::Read, 8, PLAIN),
                    2 => (Op::Write, 8, PLAIN),
                    3 => (Op::Write, 8, FORCED),
                    4 => (Op::Write, 0, FLUSH),
                    _ => (Op::Write, 4_096, DISCARD),
                };
                if drive.submit_with(Instant::ZERO, command(id as u64, op, place, len), cache).is_ok() {
                    sent.push((id as u64, cache.flush));
                }
            }
            let mut done = Vec::new();
            while let Some(at) = drive.next_event() {
                drive.advance(at);
                while let Some(completion) = drive.pop_completion() {
                    done.push(completion);
                }
            }
            prop_assert_eq!(done.len(), sent.len());
            let of = |id: u64| done.iter().find(|done| done.id.get() == id).unwrap();
            for (flush, _) in sent.iter().filter(|(_, flush)| *flush) {
                for (other, _) in &sent {
                    if other < flush {
                        prop_assert!(of(*other).at <= of(*flush).at);
                        prop_assert!(of(*other).breakdown.medium_end <= of(*flush).at);
                    } else if other > flush {
                        prop_assert!(of(*other).breakdown.began >= of(*flush).breakdown.began, "{other} behind {flush}");
                    }
                }
            }
        }
    }
}
