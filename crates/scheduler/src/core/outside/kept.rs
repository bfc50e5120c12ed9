//! Cache hits of reads that continue earlier reads, and the hits that are lost because of detours and idle time.
//!
//! Drives keep data that they have read or read ahead by unknown rules, and each command of a detour or of idle time may evict
//! data that a client would have asked for. Therefore gaps before reads that may be hits are not used. After commands of detours
//! and idle time, the service times of consecutive reads are compared with those of consecutive reads that had no such command
//! since they reached their track. Repeated reads are in [`again`](super::again).

use super::read_ahead::{is_near, track_len};
use super::transfer::Transfer;
use super::{Command, Order, Outside, Work};
use alloc::collections::VecDeque;
use model::DriveModel;
use units::{Lbn, LbnRange};

/// The maximum of remembered reads of each kind, and of remembered places in the buffer: more than a drive's buffer has
/// segments.
pub(super) const REMEMBERED_PLACES_MAX: usize = 32;

/// The number of reads after which half of the counts is discarded, so that old ones are forgotten.
pub(super) const READS_COUNTED_MAX: u32 = 256;

/// The minimum of reads for a mean; with fewer the mean is chance.
const READS_MIN: i64 = 16;

/// If more than one read in this number is a hit, the gap before each possible hit is not used.
pub(super) const READS_PER_RARE_HIT: u32 = 32;

/// The number of foreground requests without a detour after which a gap before a possible hit is used. If nearly every read may
/// be a hit, and idle time never comes, no session would get a block otherwise. The detour delays a hit by two revolutions at
/// most, which is rare enough to stay far below any bound, and the detour's evictions are charged.
const REQUESTS_WITHOUT_DETOUR_MAX: u32 = 1_024;

/// The initial count of requests without a detour: more than there can be commands at the drive.
pub(super) const REQUESTS_AT_START: u32 = u8::MAX as u32 + 1;

impl Order {
    /// Returns whether the command is a detour's, or a request's with merged blocks.
    fn detours(&self) -> bool {
        let merged = self.command.foreground.is_some_and(|asked| asked != self.command.range);
        matches!(self.work, Work::Detour) || merged
    }
}

/// Counts of commands that may evict data from the buffer: those of detours, and those in idle time.
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

/// The source from which a consecutive read's data would come if there were only foreground commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The buffer: the previous read on the track was a hit.
    There,
    /// The buffer, if no other command comes soon: the previous read was on this track, and the drive reads ahead.
    Soon,
    /// The medium: the read is the first on its track.
    Elsewhere,
}

/// A stream of consecutive reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The LBN after the last read.
    end: Lbn,
    /// The counts of detours' and idle commands when the first read on the current track was done. After an eviction, not all
    /// of the data behind a missed read return to the buffer if another command comes soon.
    pub since: Between,
    /// Whether a read of the stream on the current track was a hit.
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

/// The mean excess of service times over the time of a hit, in ns, and the number of reads in the mean.
#[derive(Clone, Copy, Debug, Default)]
struct Beyond {
    mean: i64,
    of: i64,
}

impl Beyond {
    fn note(&mut self, beyond: i64) {
        self.of = (self.of + 1).min(i64::from(READS_COUNTED_MAX));
        self.mean += (beyond - self.mean) / self.of;
    }

    /// Returns the mean; with fewer than [`READS_MIN`] reads, the missing ones count as hits.
    fn known_mean(&self) -> i64 {
        self.mean * self.of.min(READS_MIN) / READS_MIN
    }
}

/// Returns whether `range` ends on another track than a read that ends at `end`.
fn crosses(drive: &DriveModel, end: Lbn, range: LbnRange) -> bool {
    let track = |end: Lbn| Some(drive.layout().locate(Lbn::new(end.get().checked_sub(1)?))?.track);
    track(end) != track(range.end())
}

/// The last reads, and the service times of reads that continue them.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    reads: VecDeque<Reading>,
    /// The reads of idle time.
    idle_reads: VecDeque<Reading>,
    /// The LBN after the last command, if that was a read.
    last: Option<Lbn>,
    pub between: Between,
    /// The number of reads that continued another, and of the hits among them.
    behind: u32,
    hits: u32,
    /// The service times of reads without a command of a detour or of idle time since the first read on their track, by the
    /// expected source of their data.
    alone: [Beyond; 3],
    /// The delay of the finished read, in ns, because a detour interrupted read-ahead, and because idle reads evicted data.
    late: [i64; 2],
    /// The lead of recent reads over the mean, in ns, that has not yet offset a delay.
    sooner: i64,
    /// The cost in ns of idle time's evictions so far, and the number of idle reads, in 65536ths, whose cost is still unknown.
    taken: i64,
    unknown: u64,
}

impl Kept {
    /// Records a finished command.
    pub fn done(&mut self, drive: &DriveModel, order: &Order, hit: bool) {
        let Command { op, range, .. } = order.command;
        self.last = (!op.is_write()).then_some(range.end());
        self.between.detours += u64::from(order.detours());
        let idle = order.work.is_idle();
        if idle && !op.is_write() {
            self.between.idle += 1;
            self.unknown += 65_536;
        }
        let detour = matches!(order.work, Work::Detour);
        // A detour's read on a request's track does not make the request a hit.
        if op.is_write() || detour {
            return;
        }
        if !idle {
            self.shows_evictions();
        }
        let reads = if idle { &mut self.idle_reads } else { &mut self.reads };
        let mut now = Reading { end: range.end(), since: self.between, there: hit };
        // A stream that continues keeps a single entry, so that busy streams do not displace the others.
        if let Some(at) = reads.iter().rposition(|reading| is_near(drive, reading.end, range))
            && let Some(before) = reads.remove(at)
            && !crosses(drive, before.end, range)
        {
            now.since = before.since;
            now.there |= before.there;
        }
        if reads.len() == REMEMBERED_PLACES_MAX {
            reads.pop_front();
        }
        reads.push_back(now);
    }

    /// Records a read, which has shown a part of the evictions whose cost was unknown.
    fn shows_evictions(&mut self) {
        self.unknown -= self.unknown / REMEMBERED_PLACES_MAX as u64;
    }

    /// Takes the finished read's delay, ns: the part that detours caused, and the part that reads in idle time caused.
    pub fn take_late(&mut self) -> [i64; 2] {
        core::mem::take(&mut self.late)
    }

    /// Records by how many ns a consecutive read took longer than a hit. `since` are the counts of detours' and idle commands
    /// when the first read on its track was done.
    pub fn took(&mut self, since: Between, expected: Expected, beyond: i64) {
        let often = self.hit_often();
        let alone = &mut self.alone[expected as usize];
        if since == self.between {
            alone.note(beyond);
        } else if often {
            // The lead of an early read offsets the delay of a following one; a charge is never taken back.
            let all = beyond - alone.known_mean() - self.sooner;
            self.sooner = (-all).max(0);
            let late = all.max(0);
            let since = self.between.since(since);
            let idle = (late as f64 * since.idle as f64 / since.all() as f64) as i64;
            self.late = [late - idle, idle];
            self.taken = self.taken.saturating_add(idle);
        }
    }

    /// Records the cost of a repeated read's miss. If the read is also consecutive, only the larger of both costs is charged.
    pub fn missed(&mut self, missed: [i64; 2]) {
        if missed.iter().sum::<i64>() > self.late.iter().sum::<i64>() {
            self.taken = self.taken.saturating_add(missed[1] - self.late[1]);
            self.late = missed;
        }
    }

    /// Returns the cost in ns that recent idle reads, and `more` further ones, will still cause by evictions, if each costs as
    /// much as earlier ones did. The mean cost of earlier ones includes one assumed read that has cost `miss` ns.
    pub fn at_risk(&self, more: u64, miss: i64) -> i64 {
        if !self.hit_often() {
            return 0;
        }
        let each = (self.taken + miss) as f64 / (self.between.idle + 1) as f64;
        (each * (self.unknown + more * 65_536) as f64 / 65_536.0) as i64
    }

    /// Records whether a consecutive read was a hit.
    pub fn note(&mut self, hit: bool) {
        if self.behind == READS_COUNTED_MAX {
            (self.behind, self.hits) = (READS_COUNTED_MAX / 2, self.hits / 2);
        }
        self.behind += 1;
        self.hits += u32::from(hit);
    }

    /// Returns whether consecutive reads are often hits.
    pub fn hit_often(&self) -> bool {
        self.hits * READS_PER_RARE_HIT > self.behind
    }
}

impl Outside {
    /// Returns the stream that ends less than a track before `range`. A detour's reads are no stream.
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

    /// Returns whether a recent read was less than a track before or after `range`: a drive keeps parts of a track on both
    /// sides.
    pub(super) fn is_near_any(&self, drive: &DriveModel, range: LbnRange) -> bool {
        let reach = track_len(drive, range.start());
        let Kept { reads, idle_reads, last, .. } = &self.kept;
        let ends = reads.iter().chain(idle_reads).map(|reading| reading.end).chain(*last);
        ends.map(Lbn::get).any(|end| end.abs_diff(range.start().get()) < reach)
    }

    /// Returns whether most foreground reads are cache hits, so that no gap is used.
    pub(super) fn most_come_from_buffer(&self) -> bool {
        self.config.reads_on && self.again.most_hit()
    }

    /// Returns whether the gap before `asked` is not used because `asked` may be a hit without a detour. If most reads are
    /// hits no gap is used, as [`caution`](crate::OutsideDrive::caution) reports; otherwise some such gaps are used, so that no
    /// session starves.
    pub(super) fn leaves_to_buffer(&self, drive: &DriveModel, asked: Transfer) -> bool {
        if self.plain_since >= REQUESTS_WITHOUT_DETOUR_MAX && !self.most_come_from_buffer() {
            return false;
        }
        let read_on =
            || !asked.op.is_write() && self.kept.hit_often() && self.then(drive, asked.range).is_some();
        let before = self.device.iter().chain(&self.queue).map(|order| &order.command);
        let before = before.filter_map(|command| Some(Transfer::new(command.op, command.foreground?)));
        self.config.reads_on && (read_on() || self.again.leaves(drive, asked, before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a state in which half of the reads are hits, and the others take 4 ms.
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
    fn hits_that_detours_have_taken_are_charged_once() {
        for (between, of) in [(Between { detours: 1, idle: 0 }, 0), (Between { detours: 0, idle: 1 }, 1)] {
            let mut kept = half_from_the_buffer();
            kept.between = between;
            let mut late = |expected, beyond| {
                kept.took(Between::default(), expected, beyond);
                kept.take_late()
            };
            let more = late(Expected::There, 6_000_000);
            assert!((3_900_000..4_100_000).contains(&more[of]) && more[1 - of] == 0);
            // A hit in spite of idle time is no gain, but it offsets the next delay.
            assert_eq!(late(Expected::There, 0), [0; 2]);
            assert!((1_900_000..2_100_000).contains(&late(Expected::There, 6_000_000)[of]));
            // Nothing is known yet about the first reads on their tracks: they count as hits.
            assert_eq!(late(Expected::Elsewhere, 6_000_000)[of], 6_000_000);
            assert_eq!(kept.take_late(), [0; 2]);
        }
    }

    #[test]
    fn the_costs_of_detours_and_of_idle_time_are_both_reported() {
        let mut kept = half_from_the_buffer();
        kept.between = Between { detours: 1, idle: 3 };
        kept.took(Between::default(), Expected::There, 6_000_000);
        let [detours, idle] = kept.take_late();
        assert!((950_000..1_050_000).contains(&detours) && (idle - 3 * detours).abs() < 10);
    }

    #[test]
    fn evictions_by_idle_time_are_expected_costs_until_the_next_reads() {
        let mut kept = half_from_the_buffer();
        kept.took(Between::default(), Expected::Elsewhere, 4_000_000);
        assert_eq!(kept.at_risk(0, 4_000_000), 0);
        for n in 1..=10 {
            kept.between.idle += 1;
            kept.unknown += 65_536;
            kept.taken += 4_000_000;
            assert!((n * 3_900_000..n * 4_100_000).contains(&kept.at_risk(0, 4_000_000)));
        }
        (0..100).for_each(|_| kept.shows_evictions());
        assert!(kept.at_risk(0, 4_000_000) < 2_000_000);
    }
}
