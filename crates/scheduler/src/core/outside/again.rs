//! Repeated reads: cache hits on data that was read or written before, or on data beside it, and the hits that are lost
//! because of detours and idle time.
//!
//! A drive keeps the last data that it was asked for, and its read-ahead, in a number of places of its buffer; each new place
//! replaces the least recently used one. The number of places is unknown, but completions show whether a read is a hit after a
//! number of other commands, and commands of the foreground, of detours and of idle time all take places. For a repeated read
//! that misses, the hit rate after the same number of foreground commands alone is known, and that share of the miss is charged
//! to detours and idle time.

use super::kept::{Between, READS_COUNTED_MAX, READS_PER_RARE_HIT, REMEMBERED_PLACES_MAX};
use super::transfer::Transfer;
use super::{Command, Order, Work};
use alloc::collections::VecDeque;
use model::DriveModel;
use units::{Lbn, LbnRange, Op, TrackIndex};

/// The minimum of reads for a hit rate; with fewer the rate is chance.
const READS_MIN: u32 = 8;

/// If a greater share of the foreground's reads than this, in 65536ths, are hits, no gap is used: gaps are then short, and
/// one eviction has long effects, because each read depends on data that earlier reads have left. If the hits are repeats,
/// idle time counts as above its bound: most of the harm of one idle read comes thousands of reads later, when it can no longer
/// be attributed.
const HIT_SHARE_65536THS_MAX: u32 = 65_536 * 3 / 4;

/// The number of reads over which the shares of hits are averaged, so that the shares follow a load that changes.
const MEAN_READS: u32 = 256;

/// The reserves of a harm bound if reads repeat, in 65536ths: for repeats of the same range, and for repeats of a part of an
/// earlier range or of more than it. The hit rate without other commands is then an underestimate, because the counted reads
/// suffer from earlier detours too. For repeats of a part, or of more, the effect lasts longest: depending on the first request,
/// a drive keeps a block's whole track or only its end, for hundreds of reads.
const RESERVE_65536THS: u32 = 65_536 / 2;
const RESERVE_OF_PARTS_65536THS: u32 = 65_536 * 2 / 3;

/// The whole reserve applies if one read in this number is a repeat, and none if at most one in [`READS_PER_RARE_HIT`] is;
/// between the two it grows in proportion.
const READS_PER_FREQUENT_HIT: u32 = 16;

/// The position of a read relative to data that the foreground has read or written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Within the earlier data.
    Same,
    /// After the first sector of the data, on the track of their last sector.
    Behind,
    /// Before the first sector of the data, on the track of that sector.
    Before,
    /// Within written data.
    Written,
}

impl Beside {
    const KINDS: usize = 4;
}

/// A range that the foreground has read or written.
#[derive(Clone, Copy, Debug)]
struct AccessedRange {
    range: LbnRange,
    /// The tracks of the first sector and of the last.
    tracks: [TrackIndex; 2],
    /// The counts of detours' and idle commands when the range was last used.
    since: Between,
    written: bool,
    /// Whether a stream has read on behind the range and may have taken its place in the buffer.
    read_on: bool,
}

impl AccessedRange {
    fn of(drive: &DriveModel, op: Op, range: LbnRange, since: Between) -> Option<Self> {
        let last = Lbn::new(range.end().get().checked_sub(1)?);
        let [first, last] = [range.start(), last].map(|lbn| drive.layout().locate(lbn).map(|at| at.track));
        Some(Self { range, tracks: [first?, last?], since, written: op.is_write(), read_on: false })
    }

    /// Returns the position of `asked` relative to this range; `None` if `asked` cannot be a hit on its data.
    fn beside(&self, asked: &Self) -> Option<Beside> {
        let starts = self.range.start() <= asked.range.start();
        if self.written {
            let holds = starts && asked.range.end() <= self.range.end();
            holds.then_some(Beside::Written)
        } else if starts && asked.range.end() <= self.range.end() {
            Some(Beside::Same)
        } else if starts && asked.tracks[0] == self.tracks[1] {
            Some(Beside::Behind)
        } else if !starts && asked.tracks[1] == self.tracks[0] {
            Some(Beside::Before)
        } else {
            None
        }
    }

    /// Returns the union of both ranges, if it is not much longer than a track, the size of a segment of the buffer.
    fn with(&self, drive: &DriveModel, asked: &Self) -> Option<Self> {
        let start = self.range.start().min(asked.range.start());
        let end = self.range.end().max(asked.range.end());
        let both = Self::of(drive, Op::Read, LbnRange::new(start, end.since(start)), asked.since)?;
        (both.tracks[0] == asked.tracks[1]).then_some(both)
    }
}

/// The place in [`Places`] that a read matches.
#[derive(Clone, Copy, Debug)]
struct Found {
    beside: Beside,
    /// The number of places that the foreground has used since the matching one.
    behind: usize,
    since: Between,
    read_on: bool,
}

/// The places in the drive's buffer that the foreground has used, the last one first.
#[derive(Clone, Debug, Default)]
struct Places(VecDeque<AccessedRange>);

impl Places {
    fn find(&self, asked: &AccessedRange) -> Option<Found> {
        let places = self.0.iter().enumerate();
        let found = places.filter_map(|(behind, place)| {
            let AccessedRange { since, read_on, .. } = *place;
            place.beside(asked).map(|beside| Found { beside, behind, since, read_on })
        });
        found.min_by_key(|found| (found.beside as usize, found.behind))
    }

    /// Records that a stream reads `range` behind the last place. Returns false if the last place does not end there.
    fn read_on(&mut self, range: LbnRange) -> bool {
        let last = self.0.front_mut().filter(|place| !place.written && place.range.end() == range.start());
        last.map(|place| place.read_on = true).is_some()
    }

    /// Records a finished read that matches `found`, and whether it was a hit.
    fn done(&mut self, drive: &DriveModel, asked: AccessedRange, found: Option<&Found>, hit: bool) {
        let mut place = asked;
        // A read that hits or continues a place's data takes no other place; a miss before those data does.
        if let Some(found) = found.filter(|found| hit || found.beside != Beside::Before)
            && let Some(before) = self.0.remove(found.behind)
            && !asked.written
        {
            place = before.with(drive, &asked).unwrap_or(asked);
        }
        self.0.push_front(place);
        self.0.truncate(REMEMBERED_PLACES_MAX);
    }
}

/// The number of hits, and the number of reads.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    hits: u32,
    of: u32,
}

impl Hits {
    fn note(&mut self, hit: bool) {
        if self.of == READS_COUNTED_MAX {
            (self.of, self.hits) = (READS_COUNTED_MAX / 2, self.hits / 2);
        }
        self.of += 1;
        self.hits += u32::from(hit);
    }

    fn part(&self) -> Option<f64> {
        (self.of >= READS_MIN).then(|| f64::from(self.hits) / f64::from(self.of))
    }
}

/// Counts by the number of places taken since the earlier data; the last entry is for all greater numbers.
type ByPlaces = [Hits; REMEMBERED_PLACES_MAX + 1];

/// Returns the hit rate after `behind` places were taken: the mean of the rates at the nearest numbers, below and above, that
/// have enough reads.
fn part(hits: &ByPlaces, behind: usize) -> f64 {
    let fewer = hits[..=behind].iter().rev().find_map(Hits::part);
    let more = hits[behind..].iter().find_map(Hits::part);
    match (fewer, more) {
        (Some(fewer), Some(more)) => (fewer + more) / 2.0,
        (only, None) | (None, only) => only.unwrap_or(0.0),
    }
}

/// The foreground's recent reads and writes, and the hit rates of repeats.
#[derive(Clone, Debug)]
pub(super) struct Again {
    places: Places,
    /// For each kind, the counts of three groups of reads: with only foreground commands in between; all whose place no
    /// stream has continued; and those whose place a stream has continued.
    hits: [[ByPlaces; 3]; Beside::KINDS],
    /// The counts of detours' and idle commands, each of which takes a place in the buffer.
    between: Between,
    /// The share of hits among the foreground's last reads, in 65536ths; `None` before the first read. The share starts high,
    /// since one detour can end the hits for long.
    share: Option<u32>,
    /// The share of reads that are hits because they repeat earlier ones, in 65536ths; hits of streams, which the drive's
    /// read-ahead restores, do not count.
    came_back: u32,
    /// The share of reads that are hits because they repeat a smaller or larger range, in 65536ths.
    for_parts: u32,
}

impl Default for Again {
    fn default() -> Self {
        let hits = [[[Hits::default(); REMEMBERED_PLACES_MAX + 1]; 3]; Beside::KINDS];
        Self {
            places: Places::default(),
            hits,
            between: Between::default(),
            share: None,
            came_back: 0,
            for_parts: 0,
        }
    }
}

impl Again {
    /// Returns a request as a range with its tracks, and the place in the buffer whose data it matches.
    fn find(&self, drive: &DriveModel, op: Op, range: LbnRange) -> Option<(AccessedRange, Option<Found>)> {
        let asked = AccessedRange::of(drive, op, range, self.between)?;
        Some((asked, self.places.find(&asked)))
    }

    /// Returns the number of places that all commands have taken since the matching one.
    fn behind(&self, found: &Found) -> usize {
        let others = usize::try_from(self.between.since(found.since).all()).unwrap_or(REMEMBERED_PLACES_MAX);
        found.behind.saturating_add(others).min(REMEMBERED_PLACES_MAX)
    }

    /// Returns the hit rate of reads like `found`, and their hit rate if only the foreground took places.
    fn parts(&self, found: &Found) -> [f64; 2] {
        let [alone, all, read_on] = &self.hits[found.beside as usize];
        let without = alone[found.behind].part().unwrap_or_else(|| part(all, found.behind));
        [part(if found.read_on { read_on } else { all }, self.behind(found)), without]
    }

    /// Returns whether a request is a read that earlier data match, so that it may be a hit.
    pub fn may_hit(&self, drive: &DriveModel, op: Op, range: LbnRange) -> bool {
        !op.is_write() && matches!(self.find(drive, op, range), Some((_, Some(_))))
    }

    /// Returns whether most of the foreground's last reads were hits.
    pub fn most_hit(&self) -> bool {
        self.share.is_some_and(|share| share > HIT_SHARE_65536THS_MAX)
    }

    /// Returns whether most reads were hits, more than the core assumes at the start.
    pub fn most_are_seen_to_hit(&self) -> bool {
        self.share.is_some_and(|share| share > HIT_SHARE_65536THS_MAX + MEAN_READS)
    }

    /// Returns whether most reads are hits that are repeats.
    pub fn most_come_back(&self) -> bool {
        self.came_back > HIT_SHARE_65536THS_MAX
    }

    /// Returns the part of a harm bound that the estimate may use; the rest is a reserve.
    pub fn by_account(&self, bound_ppm: u32) -> u32 {
        let (seldom, often) = (65_536 / READS_PER_RARE_HIT, 65_536 / READS_PER_FREQUENT_HIT);
        let reserved = |part: u32, share: u32| {
            u64::from(part) * u64::from(share.clamp(seldom, often) - seldom) / u64::from(often - seldom)
        };
        let reserved = reserved(RESERVE_65536THS, self.came_back)
            .max(reserved(RESERVE_OF_PARTS_65536THS, self.for_parts));
        let left = u64::from(bound_ppm) * (65_536 - reserved) / 65_536;
        u32::try_from(left).unwrap_or(bound_ppm)
    }

    /// Returns whether the gap before a command has to stay unused, because the command may be a cache hit or most reads are
    /// hits. `before` holds the foreground's commands that are not done yet.
    pub fn leaves(
        &self,
        drive: &DriveModel,
        Transfer { op, range }: Transfer,
        before: impl Iterator<Item = Transfer>,
    ) -> bool {
        if self.most_hit() {
            return true;
        }
        let Some((asked, found)) = self.find(drive, op, range).filter(|_| !op.is_write()) else {
            return false;
        };
        let will_be = before.filter_map(|Transfer { op, range }| {
            AccessedRange::of(drive, op, range, self.between)?.beside(&asked)
        });
        let will_be = will_be.map(|beside| Found { beside, behind: 0, since: self.between, read_on: false });
        found.into_iter().chain(will_be).any(|found| {
            // Reads at places that a stream has continued may have too few counts yet.
            let known = self.hits[found.beside as usize][2].iter().any(|hits| hits.part().is_some());
            let found = Found { read_on: found.read_on && known, ..found };
            self.parts(&found)[0] * f64::from(READS_PER_RARE_HIT) > 1.0
        })
    }

    /// Records a finished command. For a foreground read that missed and took `beyond` ns longer than a hit, returns the
    /// parts of that time, in ns, that detours and idle time have caused.
    pub fn done(&mut self, drive: &DriveModel, order: &Order, hit: bool, beyond: i64) -> [i64; 2] {
        let Command { op, foreground, range, .. } = order.command;
        match foreground {
            Some(asked) if op.is_write() => {
                self.written(drive, asked);
                [0; 2]
            }
            Some(asked) => self.read(drive, asked, asked != range, hit, beyond),
            // A stream's first command continues in the place where the drive has read ahead behind the last request.
            None if matches!(order.work, Work::Stream) && self.places.read_on(range) => [0; 2],
            None => {
                self.took(order.work.is_idle());
                [0; 2]
            }
        }
    }

    /// Records a command of a detour or of idle time, which takes a place.
    fn took(&mut self, in_idle_time: bool) {
        let Between { detours, idle } = &mut self.between;
        *(if in_idle_time { idle } else { detours }) += 1;
    }

    /// Records a foreground write.
    fn written(&mut self, drive: &DriveModel, range: LbnRange) {
        if let Some((place, found)) = self.find(drive, Op::Write, range) {
            let found = found.filter(|found| found.beside == Beside::Written);
            self.places.done(drive, place, found.as_ref(), false);
        }
    }

    /// Records a foreground read of `asked`; `merged` if its command also read background blocks.
    fn read(
        &mut self,
        drive: &DriveModel,
        asked: LbnRange,
        merged: bool,
        hit: bool,
        beyond: i64,
    ) -> [i64; 2] {
        let Some((place, found)) = self.find(drive, Op::Read, asked) else { return [0; 2] };
        let share = self.share.unwrap_or(HIT_SHARE_65536THS_MAX + MEAN_READS);
        let next =
            |share: u32, more: bool| share - share / MEAN_READS + if more { 65_536 / MEAN_READS } else { 0 };
        self.share = Some(next(share, hit));
        let comes_back = found.is_some_and(|found| found.beside != Beside::Behind);
        self.came_back = next(self.came_back, hit && comes_back);
        let for_part = found.is_some_and(|found| self.places.0[found.behind].range != asked);
        self.for_parts = next(self.for_parts, hit && comes_back && for_part);
        let missed = found.map_or([0; 2], |found| {
            let [with, without] = self.parts(&found);
            // Merged background blocks cannot be in the buffer, so a miss shows nothing about the request's own data.
            let with = if merged { 0.0 } else { with };
            if !merged {
                self.note(&found, hit);
            }
            let mut between = self.between.since(found.since);
            between.idle += u64::from(found.read_on);
            if hit || with >= without || between.all() == 0 && !merged {
                return [0; 2];
            }
            // A read that hits in spite of the other commands would also hit without them.
            let missed = beyond.max(0) as f64 * (without - with) / (1.0 - with);
            let idle = missed * between.idle as f64 / between.all().max(1) as f64;
            [(missed - idle) as i64, idle as i64]
        });
        self.places.done(drive, place, found.as_ref(), hit);
        missed
    }

    fn note(&mut self, found: &Found, hit: bool) {
        let (behind, alone) = (self.behind(found), self.between == found.since && !found.read_on);
        let [only, all, read_on] = &mut self.hits[found.beside as usize];
        (if found.read_on { read_on } else { all })[behind].note(hit);
        if alone {
            only[behind].note(hit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::builtin;

    const MISS_NS: i64 = 8_000_000;

    /// A simulated buffer with a number of places, the most recently used first.
    struct Buffer(VecDeque<u64>, usize);

    impl Buffer {
        fn read(&mut self, what: u64) -> bool {
            let place = self.0.iter().position(|kept| *kept == what);
            if let Some(place) = place {
                self.0.remove(place);
            }
            self.0.push_front(what);
            self.0.truncate(self.1);
            place.is_some()
        }
    }

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % below
        }
    }

    fn drive() -> DriveModel {
        DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap()
    }

    /// Simulates requests: `again` has the percentage that repeat one of a number of last requests, `writes` is the percentage
    /// of writes, and after `others` percent of the requests there is another command: of idle time, or else of a detour.
    /// Returns the estimated and the true cost of additional misses, in ns.
    fn reported(
        places: usize,
        again: (u64, u64),
        writes: u64,
        (others, idle): (u64, bool),
    ) -> ([i64; 2], i64) {
        let (drive, mut dice) = (drive(), Dice(42));
        let [mut with, mut without] = [0; 2].map(|_| Buffer(VecDeque::new(), places));
        let mut kept = Again::default();
        let (mut read, mut reported, mut missed) = (Vec::new(), [0; 2], 0);
        for n in 0..100_000 {
            let back = (1 + dice.below(again.1)) as usize;
            let comes_back = dice.below(100) < again.0 && read.len() >= back;
            let what = if comes_back { read[read.len() - back] } else { 2 * dice.below(20_000) };
            read.push(what);
            let [hit, would] = [&mut with, &mut without].map(|buffer| buffer.read(what));
            let asked = LbnRange::new(Lbn::new(what * 400), units::Sectors::new(8));
            if dice.below(100) < writes {
                kept.written(&drive, asked);
            } else {
                let late = kept.read(&drive, asked, false, hit, if hit { 0 } else { MISS_NS });
                if n >= 2_000 {
                    reported = [reported[0] + late[0], reported[1] + late[1]];
                    missed += MISS_NS * (i64::from(would) - i64::from(hit));
                }
            }
            let mut left = others;
            while left > 0 && dice.below(100) < left {
                with.read(2 * n + 1);
                kept.took(idle);
                left = left.saturating_sub(100);
            }
        }
        (reported, missed)
    }

    #[test]
    fn estimated_misses_match_a_buffer_without_other_commands() {
        for (places, again, others) in [
            (10, (30, 10), 40),
            (10, (30, 10), 150),
            (10, (50, 30), 10),
            (4, (80, 6), 20),
            (20, (30, 30), 100),
        ] {
            for (writes, idle) in [(0, false), (0, true), (35, false), (70, true)] {
                let (reported, missed) = reported(places, again, writes, (others, idle));
                let of = reported[usize::from(idle)] as f64 / missed as f64;
                assert!(
                    (0.85..1.15).contains(&of),
                    "{places} places, {again:?}, {writes}% writes, {others}: {of}"
                );
                assert_eq!(reported[usize::from(!idle)], 0);
            }
        }
    }

    #[test]
    fn without_others_nothing_is_missed() {
        for again in [(30, 10), (30, 30), (90, 4)] {
            assert_eq!(reported(10, again, 30, (0, false)), ([0; 2], 0));
        }
    }

    #[test]
    fn gaps_are_unused_before_possible_hits_and_if_most_reads_are_hits() {
        let (drive, mut kept) = (drive(), Again::default());
        let at = |track: u64| LbnRange::new(Lbn::new(track * 400), units::Sectors::new(8));
        let leaves =
            |kept: &Again, op, track| kept.leaves(&drive, Transfer::new(op, at(track)), core::iter::empty());
        assert!(!leaves(&kept, Op::Write, 0), "a client that only writes has gaps");
        kept.read(&drive, at(0), false, true, 0);
        assert!(leaves(&kept, Op::Write, 0), "hardly anything is known yet");
        for track in 0..2_000 {
            let again = track > 0 && track % 4 == 0;
            kept.read(&drive, at(if again { track - 1 } else { track }), false, again, MISS_NS);
        }
        assert!(leaves(&kept, Op::Read, 1_999));
        let read = Transfer::new(Op::Read, at(3_000));
        assert!(kept.leaves(&drive, read, [read].into_iter()), "it will be there by then");
        assert!(!leaves(&kept, Op::Read, 3_000) && !leaves(&kept, Op::Write, 1_999));
        (0..2_000).for_each(|n| {
            kept.read(&drive, at(5_000 + n % 4), false, true, 0);
        });
        assert!(leaves(&kept, Op::Read, 3_000) && leaves(&kept, Op::Write, 3_000));
    }

    #[test]
    fn the_reserve_of_a_bound_follows_the_share_of_repeats() {
        // Among repeated reads of four blocks, one read in `new` is of a new block; `longer` changes the lengths of repeats.
        let shown = |new: u64, longer: u64| {
            let (drive, mut kept) = (drive(), Again::default());
            for n in 0..2_000 {
                let comes_back = n % new != 0;
                let track = if comes_back { 30_000 + n % 4 } else { n };
                let sectors = if comes_back { 8 + n / 4 % 2 * longer } else { 8 };
                let asked = LbnRange::new(Lbn::new(track * 400), units::Sectors::new(sectors));
                kept.read(&drive, asked, false, comes_back, MISS_NS);
            }
            kept.by_account(10_000)
        };
        assert_eq!(shown(1, 0), 10_000, "no client comes back");
        assert_eq!(shown(2, 0), 5_000, "half of all come back for the same");
        assert_eq!(shown(2, 8), 3_333, "and for less of it, or more");
    }

    #[test]
    fn a_stream_needs_no_reserve() {
        let (drive, mut kept) = (drive(), Again::default());
        for n in 0..2_000 {
            let asked = LbnRange::new(Lbn::new(n * 8), units::Sectors::new(8));
            kept.read(&drive, asked, false, true, 0);
        }
        assert_eq!(kept.by_account(10_000), 10_000);
    }

    #[test]
    fn a_stream_does_not_count_as_repeats() {
        let (drive, mut kept) = (drive(), Again::default());
        assert!(!kept.most_come_back(), "nothing is known yet");
        // Reads in order, track after track.
        for n in 0..2_000 {
            let asked = LbnRange::new(Lbn::new(n * 8), units::Sectors::new(8));
            kept.read(&drive, asked, false, true, 0);
        }
        assert!(!kept.most_come_back() && kept.share.is_some_and(|share| share > HIT_SHARE_65536THS_MAX));
        for n in 0..2_000 {
            let asked = LbnRange::new(Lbn::new(n * 24 % 2_048), units::Sectors::new(8));
            kept.read(&drive, asked, false, true, 0);
        }
        assert!(kept.most_come_back());
        (0..200).for_each(|n| {
            kept.read(
                &drive,
                LbnRange::new(Lbn::new(4_000_000 + n * 400), units::Sectors::new(8)),
                false,
                false,
                MISS_NS,
            );
        });
        assert!(!kept.most_come_back(), "others have come");
    }
}
