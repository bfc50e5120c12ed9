//! What reads behind others have from the drive's buffer, and what detours and idle time take of that.
//!
//! Drives keep what they have read, and what they have read on to, in ways that nobody is told; and each command of a detour or of idle
//! time may take the place of something that would have been asked for. So gaps before reads that the buffer may have are left
//! alone, and what reads behind others take is compared with what they take where nothing else has been read since those who go on there
//! came to that track. As that must be seen, idle time is left alone for some of them now and then. Who comes
//! back to what it has read before is followed elsewhere ([`again`](super::again)).

use super::{Command, Order, Outside, Work};
use model::DriveModel;
use std::collections::VecDeque;
use units::{Lbn, LbnRange, Op};

/// Reads that are remembered: more than drives have segments in their buffers.
const READS: usize = 32;

/// What is known of reads behind others is of so many; half is forgotten then.
const MEMORY: u32 = 256;

/// Of fewer the mean says nothing.
const FEW: i64 = 16;

/// Idle time is left alone for so many reads behind others, and again after so many more.
const CONTROL: u32 = 64;
const AGAIN: u32 = 4_096;

/// Where fewer than one of so many reads come behind others, that is not worth it.
const OFTEN: u32 = 8;
const SHARE_OF: u32 = 64;

/// Where more than one in so many come from the buffer, each is left alone that may.
const SELDOM: u32 = 32;

impl Order {
    /// Whether it fetches what lies in a gap.
    fn detours(&self) -> bool {
        let merged = self.command.foreground.is_some_and(|asked| asked != self.command.range);
        matches!(self.work, Work::Detour) || merged
    }
}

/// Commands of detours, and reads of idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Between {
    pub detours: u64,
    pub idle: u64,
}

impl Between {
    pub fn all(&self) -> u64 {
        self.detours + self.idle
    }

    pub fn since(&self, before: Self) -> Self {
        Self { detours: self.detours - before.detours, idle: self.idle - before.idle }
    }
}

/// What a read is to be expected from the buffer for, if there was nothing but the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The one before it on its track came from there.
    There,
    /// The one before it has been on its track, and the drive reads on if nobody else comes soon.
    Soon,
    /// It is the first on its track.
    Elsewhere,
}

/// Reads that go on there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The LBN behind the last of them.
    end: Lbn,
    /// What there had been when the first of them on its track was done. What a read misses that another has taken the place of in the
    /// buffer is not all there again behind it, if somebody else comes soon.
    pub since: Between,
    /// Whether the last of them was in the buffer, or would have been.
    there: bool,
}

impl Reading {
    pub fn expected(&self, drive: &DriveModel, range: LbnRange) -> Expected {
        match (crosses(drive, self.end, range), self.there) {
            (true, _) => Expected::Elsewhere,
            (false, true) => Expected::There,
            (false, false) => Expected::Soon,
        }
    }
}

/// What reads take beyond their own time, in nanoseconds: the mean of so many.
#[derive(Clone, Copy, Debug, Default)]
struct Beyond {
    mean: i64,
    of: i64,
}

impl Beyond {
    fn note(&mut self, beyond: i64) {
        self.of = (self.of + 1).min(i64::from(MEMORY));
        self.mean += (beyond - self.mean) / self.of;
    }
}

/// Whether `range` ends on another track than what ends at `end`.
fn crosses(drive: &DriveModel, end: Lbn, range: LbnRange) -> bool {
    let track = |end: Lbn| Some(drive.layout().locate(Lbn::new(end.get().checked_sub(1)?))?.track);
    track(end) != track(range.end())
}

/// Whether `range` begins less than a track behind `end`.
pub(super) fn is_near(drive: &DriveModel, end: Lbn, range: LbnRange) -> bool {
    end <= range.start() && range.start().since(end).get() < track_len(drive, range.start())
}

/// The sectors of the track on which `lbn` is.
fn track_len(drive: &DriveModel, lbn: Lbn) -> u64 {
    let layout = drive.layout();
    layout.locate(lbn).map_or(0, |at| u64::from(layout.track(at.track).sectors))
}

/// The last reads, and what those behind them take.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    reads: VecDeque<Reading>,
    /// Those of idle time.
    idle_reads: VecDeque<Reading>,
    /// The LBN behind the last command, if that was a read.
    last: Option<Lbn>,
    pub between: Between,
    /// Reads behind one of them where nothing was foreseen to be read on to, and those of them that came from the buffer.
    behind: u32,
    hits: u32,
    /// What those took before which there was nothing else, by what was to be expected.
    alone: [Beyond; 3],
    /// By how much the read that is done was late, since a detour was where the drive would have read on, or since what idle time has read
    /// has taken its place in the buffer.
    late: [i64; 2],
    /// By how much those that were done lately were sooner than the mean, and no later one has used up.
    sooner: i64,
    /// What idle time was told to have cost in the buffer, in nanoseconds, and the reads of idle time of which that is not known yet,
    /// in 65536ths.
    taken: i64,
    unknown: u64,
    /// Reads of the foreground behind others that idle time is still left alone for, to see what they take without it; and such reads
    /// since that was done last.
    control: u32,
    since_control: u32,
    /// The part of the foreground's last reads that come behind others, of 65536.
    share: u32,
}

impl Kept {
    /// A command is done.
    pub fn done(&mut self, drive: &DriveModel, order: &Order, hit: bool) {
        let Command { op, range, .. } = order.command;
        self.last = (!op.is_write()).then_some(range.end());
        self.between.detours += u64::from(order.detours());
        let idle = matches!(order.work, Work::Idle | Work::Probe);
        if idle && !op.is_write() {
            self.between.idle += 1;
            self.unknown += 65_536;
        }
        let detour = matches!(order.work, Work::Detour);
        // What was read for a detour to the track of a request is no reason to expect that in the buffer.
        if op.is_write() || detour {
            return;
        }
        let reads = if idle { &mut self.idle_reads } else { &mut self.reads };
        let mut now = Reading { end: range.end(), since: self.between, there: hit };
        // Who goes on stands for no second one: of many who each go on none is forgotten for those who are asked more often.
        if let Some(at) = reads.iter().rposition(|reading| is_near(drive, reading.end, range))
            && let Some(before) = reads.remove(at)
            && !crosses(drive, before.end, range)
        {
            now.since = before.since;
            now.there |= before.there;
        }
        if reads.len() == READS {
            reads.pop_front();
        }
        reads.push_back(now);
    }

    /// By how many nanoseconds the read that is done was later than such reads are in the mean without detours, and without idle time.
    pub fn take_late(&mut self) -> [i64; 2] {
        std::mem::take(&mut self.late)
    }

    /// A read behind others took so much beyond its own time.
    pub fn took(&mut self, since: Between, expected: Expected, beyond: i64) {
        self.since_control = self.since_control.saturating_add(1);
        self.unknown -= self.unknown / READS as u64;
        let often = self.hit_often();
        let alone = &mut self.alone[expected as usize];
        if since == self.between {
            alone.note(beyond);
            if self.control > 0 {
                (self.control, self.since_control) = (self.control - 1, 0);
            }
        } else if often && alone.of >= FEW {
            // That one is sooner than the mean another has paid for, or will: what is told is never taken back.
            let all = beyond - alone.mean - self.sooner;
            self.sooner = (-all).max(0);
            let late = all.max(0);
            let since = self.between.since(since);
            let idle = (late as f64 * since.idle as f64 / since.all() as f64) as i64;
            self.late = [late - idle, idle];
            self.taken = self.taken.saturating_add(idle);
        }
        let few = self.alone.iter().map(|alone| alone.of).sum::<i64>() < FEW;
        if self.control == 0 && (few || self.since_control > AGAIN) {
            self.control = CONTROL;
        }
    }

    /// What a read has missed that would have been there since it was read before: of it and what those who read on miss, the more is told.
    pub fn missed(&mut self, missed: [i64; 2]) {
        if missed.iter().sum::<i64>() > self.late.iter().sum::<i64>() {
            self.taken = self.taken.saturating_add(missed[1] - self.late[1]);
            self.late = missed;
        }
    }

    /// What reads of idle time will be told to have cost in the buffer yet, in nanoseconds, if they cost what those before them did. One
    /// that cost as much as a move is taken to have been before.
    pub fn at_risk(&self) -> i64 {
        if !self.hit_often() {
            return 0;
        }
        let each = (self.taken + self.alone[Expected::Elsewhere as usize].mean) as f64
            / (self.between.idle + 1) as f64;
        (each * self.unknown as f64 / 65_536.0) as i64
    }

    /// Whether idle time is left alone for now.
    pub fn is_control(&self) -> bool {
        self.control > 0 && self.share > 65_536 / OFTEN
    }

    /// A read of the foreground came behind others, or not.
    pub fn came(&mut self, behind: bool) {
        self.share -= self.share / SHARE_OF;
        self.share += if behind { 65_536 / SHARE_OF } else { 0 };
    }

    /// A read behind others came from the buffer, or not.
    pub fn note(&mut self, hit: bool) {
        if self.behind == MEMORY {
            (self.behind, self.hits) = (MEMORY / 2, self.hits / 2);
        }
        self.behind += 1;
        self.hits += u32::from(hit);
    }

    /// Whether such reads often do.
    pub fn hit_often(&self) -> bool {
        self.hits * SELDOM > self.behind
    }
}

impl Outside {
    /// What there had been when the last read was done that one of `range` follows by less than a track. What was read
    /// for a detour to the track of a request is no reason to expect that in the buffer.
    pub(super) fn then(&self, drive: &DriveModel, range: LbnRange) -> Option<Reading> {
        let decided = self.queue.iter().rev().chain(self.device.iter().rev());
        let decided =
            decided.filter(|order| !order.command.op.is_write() && !matches!(order.work, Work::Detour));
        let between = self.kept.between;
        let decided =
            decided.map(|order| Reading { end: order.command.range.end(), since: between, there: false });
        let done = self.kept.reads.iter().rev().chain(self.kept.idle_reads.iter().rev()).copied();
        decided.chain(done).find(|reading| is_near(drive, reading.end, range))
    }

    /// Whether something was read lately less than a track behind or before `range`: what a drive has kept of a track lies on both sides.
    pub(super) fn is_near_any(&self, drive: &DriveModel, range: LbnRange) -> bool {
        let reach = track_len(drive, range.start());
        let Kept { reads, idle_reads, last, .. } = &self.kept;
        let ends = reads.iter().chain(idle_reads).map(|reading| reading.end).chain(*last);
        ends.map(Lbn::get).any(|end| end.abs_diff(range.start().get()) < reach)
    }

    /// Whether most reads of the foreground come from the drive's buffer, so that every gap is left alone.
    pub(super) fn most_come_from_buffer(&self) -> bool {
        self.config.reads_on && self.again.most_hit()
    }

    /// Whether the gap before `range` is left alone, since the drive may have it without one.
    pub(super) fn may_be_buffered(&self, drive: &DriveModel, op: Op, range: LbnRange) -> bool {
        let read_on = || !op.is_write() && self.kept.hit_often() && self.then(drive, range).is_some();
        let before = self.device.iter().chain(&self.queue).map(|order| order.command);
        let before = before.filter_map(|command| Some((command.op, command.foreground?)));
        self.config.reads_on && (read_on() || self.again.leaves(drive, (op, range), before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of them come from the buffer, and the others take 4 ms.
    fn half_from_the_buffer() -> Kept {
        let mut kept = Kept::default();
        for n in 0..200 {
            let hit = n % 2 == 0;
            kept.note(hit);
            kept.took(Between::default(), Expected::There, if hit { 0 } else { 4_000_000 });
        }
        assert_eq!(kept.take_late(), [0; 2]);
        kept
    }

    #[test]
    fn what_detours_have_cost_reads_that_others_had_from_the_buffer_is_told_once() {
        for (between, of) in [(Between { detours: 1, idle: 0 }, 0), (Between { detours: 0, idle: 1 }, 1)] {
            let mut kept = half_from_the_buffer();
            kept.between = between;
            let mut late = |expected, beyond| {
                kept.took(Between::default(), expected, beyond);
                kept.take_late()
            };
            let more = late(Expected::There, 6_000_000);
            assert!((3_900_000..4_100_000).contains(&more[of]) && more[1 - of] == 0);
            // What comes from the buffer all the same is no gain, but makes up for who is later next.
            assert_eq!(late(Expected::There, 0), [0; 2]);
            assert!((1_900_000..2_100_000).contains(&late(Expected::There, 6_000_000)[of]));
            // Of the first on their tracks nothing is known yet.
            assert_eq!(late(Expected::Elsewhere, 6_000_000), [0; 2]);
            assert_eq!(kept.take_late(), [0; 2]);
        }
    }

    #[test]
    fn idle_time_is_not_left_alone_for_ever_where_nothing_is_in_the_buffer() {
        let mut kept = Kept::default();
        let left_alone = (0..4_000).filter(|_| {
            kept.came(true);
            kept.took(Between::default(), Expected::Soon, 4_000_000);
            kept.is_control()
        });
        assert!(left_alone.count() < 100);
    }

    #[test]
    fn what_both_have_cost_is_told_of_both() {
        let mut kept = half_from_the_buffer();
        kept.between = Between { detours: 1, idle: 3 };
        kept.took(Between::default(), Expected::There, 6_000_000);
        let [detours, idle] = kept.take_late();
        assert!((950_000..1_050_000).contains(&detours) && (idle - 3 * detours).abs() < 10);
    }

    #[test]
    fn what_idle_time_has_taken_is_owed_until_those_have_come_who_may_miss_it() {
        let mut kept = half_from_the_buffer();
        kept.took(Between::default(), Expected::Elsewhere, 4_000_000);
        assert_eq!(kept.at_risk(), 0);
        for n in 1..=10 {
            kept.between.idle += 1;
            kept.unknown += 65_536;
            kept.taken += 4_000_000;
            assert!((n * 3_900_000..n * 4_100_000).contains(&kept.at_risk()));
        }
        (0..100).for_each(|_| kept.took(kept.between, Expected::There, 0));
        assert!(kept.at_risk() < 2_000_000);
    }
}
