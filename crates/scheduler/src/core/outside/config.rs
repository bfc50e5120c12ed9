//! What a scheduler outside the drive is told about it, and how careful it is to be.

use super::AuditConfig;
use model::DriveModel;
use model::profile::Firmware;
use units::{Duration, Op};

/// Where the core stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the drive: it moves the head, and knows everything exactly (OSDI'00).
    #[default]
    Inside,
    /// Outside: it sends commands and sees completions (FAST'02).
    Outside(OutsideConfig),
}

/// What a command costs beside the medium, as a host sees it. `[read, write]` each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// From the instant at which the drive turns to a command until its arm sets out.
    pub command: [Duration; 2],
    /// From the last sector's passing until the host knows.
    pub completion: [Duration; 2],
    /// A sector's time on the bus.
    pub bus_sector: Duration,
    /// Nothing is read from the medium sooner than this after the drive has turned to its command.
    pub shortest_access: Duration,
    /// Whether the drive turns to a queued command as soon as the arm is free, while the last one's data cross the bus;
    /// otherwise when the host knows of the last one.
    pub overlap: bool,
    /// Whether writes are reported before they are on the medium.
    pub write_back: bool,
    /// Where nobody knows whether they are, what a write costs if it is reported from the medium, `command` and `completion`: they
    /// are taken to be reported before until completions say otherwise.
    pub if_through: Option<[Duration; 2]>,
}

fn plain(ms: f64) -> Duration {
    Duration::from_millis_f64(ms.max(0.0)).unwrap_or(Duration::ZERO)
}

/// An overhead of a profile's.
fn scaled(firmware: &Firmware, ms: f64) -> Duration {
    plain(ms * firmware.overhead_scale)
}

/// Of a pair that depends on what came before, what is never too short.
fn higher(firmware: &Firmware, (after_read, after_write): (f64, f64)) -> Duration {
    scaled(firmware, firmware.per_request_overhead_ms + after_read.max(after_write))
}

impl Overheads {
    /// What a profile's firmware section says of a drive. `overlap` is not in it. Who knows of writes what the profile does not says
    /// so with [`writing_back`](Self::writing_back).
    ///
    /// ```
    /// use freeblock_scheduler::Overheads;
    /// let profile = model::builtin::find("seagate-cheetah-18lp").unwrap();
    /// let drive = model::DriveModel::from_profile(&profile).unwrap();
    /// let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &drive, true);
    /// assert_eq!(overheads.command[0].as_nanos(), 200_000);
    /// assert!(overheads.write_back);
    /// ```
    pub fn of(firmware: &Firmware, drive: &DriveModel, overlap: bool) -> Self {
        let o = &firmware.overheads;
        let higher = |pair| higher(firmware, pair);
        let bus = plain(firmware.bulk_sector_ms);
        let bus_sector = bus.max(plain(firmware.bus_read_sector_ms));
        // What a profile gives a miss less for than a hit was measured as a part of its seeks (docs/MODEL.md).
        let in_seeks = higher(o.read_hit).saturating_sub(higher(o.read_miss));
        let farthest = drive.layout().cylinders().saturating_sub(1).min(10);
        let shortest = (1..=farthest).map(|d| drive.seek(d)).min().unwrap_or(Duration::ZERO);
        let plain = Self {
            command: [higher(o.read_miss), Duration::ZERO],
            completion: [bus_sector + scaled(firmware, o.read_completion), Duration::ZERO],
            bus_sector,
            shortest_access: shortest.saturating_sub(in_seeks),
            overlap,
            write_back: false,
            if_through: None,
        };
        match firmware.cache.write_back.known() {
            Some(known) => plain.writing_back(firmware, known && firmware.cache.enabled),
            // Whether reads find anything in its buffer says nothing of writes.
            None => {
                let if_through = Some(plain.writing_back(firmware, false).of_writes());
                Self { if_through, ..plain.writing_back(firmware, true) }
            }
        }
    }

    fn of_writes(&self) -> [Duration; 2] {
        [self.command[1], self.completion[1]]
    }

    /// Of a drive that turns out to report writes from the medium, where nobody knew.
    pub(crate) fn writing_through(mut self) -> Option<Self> {
        [self.command[1], self.completion[1]] = self.if_through?;
        Some(Self { write_back: false, if_through: None, ..self })
    }

    /// The same with writes reported from the buffer or from the medium, whatever the profile has: what a write costs
    /// differs.
    pub fn writing_back(mut self, firmware: &Firmware, write_back: bool) -> Self {
        let o = &firmware.overheads;
        let reported = scaled(firmware, o.write_completion);
        (self.command[1], self.completion[1]) = if write_back {
            (higher(firmware, o.write_hit), reported)
        } else {
            (higher(firmware, o.write_miss), scaled(firmware, o.first_reselect) + reported)
        };
        Self { write_back, if_through: None, ..self }
    }

    pub(crate) fn command(&self, op: Op) -> Duration {
        self.command[index(op)]
    }

    /// From the last sector's passing until the host knows.
    pub(crate) fn tail(&self, op: Op) -> Duration {
        self.completion[index(op)]
    }

    /// From when a read's data have crossed the bus until the host knows.
    pub(crate) fn after_bus(&self) -> Duration {
        self.tail(Op::Read).saturating_sub(self.bus_sector)
    }

    /// From the last sector's passing until the arm may set out for a queued command.
    pub(crate) fn between(&self, last: Op, next: Op) -> Duration {
        let wait = if self.overlap { Duration::ZERO } else { self.tail(last) };
        wait + self.command(next)
    }
}

impl Conservatism {
    /// Learned, from the 0.3 ms of FAST'02 on.
    pub const LEARNED: Self = Self::Learned { start: Duration::from_micros(300), by_distance: true };
}

fn index(op: Op) -> usize {
    usize::from(op.is_write())
}

/// By how much the moves of detours are widened: a detour must be back in time although seeks vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conservatism {
    /// The same for every move (FAST'02, section 3.3).
    Constant(Duration),
    /// The observed spread of moves over like distances, and on top of it what keeps the harm done below its bound; `start`
    /// until something has been seen.
    Learned {
        /// Before anything is known.
        start: Duration,
        /// Whether moves over like distances have a margin of their own; otherwise one is for all.
        by_distance: bool,
    },
}

/// Two commands, one right behind the other, on one track, as the drive sees them. A drive may take them for the beginning of
/// a sequence and read ahead before it turns to anything else (FAST'02, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// What the first does.
    pub first: Op,
    /// What the second does.
    pub second: Op,
    /// Whether the second goes for lower LBNs than the first.
    pub backward: bool,
    /// Whether the second begins with the sector that passes right behind the first's last, so that no time is between them.
    pub touching: bool,
}

impl Neighbour {
    /// Kinds that there are.
    pub(crate) const KINDS: usize = 16;

    /// Whether a drive may take the two for the beginning of a sequence that it reads on.
    pub(crate) fn is_sequence(self) -> bool {
        !self.first.is_write() && !self.second.is_write() && !self.backward
    }

    pub(crate) fn kind(self) -> usize {
        index(self.first) * 8
            + index(self.second) * 4
            + usize::from(self.backward) * 2
            + usize::from(self.touching)
    }
}

/// Whether detours may use commands that are each other's neighbours on a track: the source track, the destination's on the
/// far side of its end, both sides of any track's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Neighbours {
    /// Not at all (FAST'02, section 4.3).
    #[default]
    Never,
    /// As long as what the drive does behind them is as foreseen; a kind that costs more turns than other commands do is left
    /// alone for a while, then tried again. No read goes on behind another where the drive is seen to read on then.
    Learned,
    /// Always: for a drive that does not read ahead.
    Always,
}

/// Commands that a drive with native command queueing takes.
const PASS_THROUGH_DEPTH: u8 = 32;

/// How a core outside the drive works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideConfig {
    /// What commands cost.
    pub overheads: Overheads,
    /// How detours' moves are widened.
    pub conservatism: Conservatism,
    /// The most commands at the drive. Two keep the head busy while data cross the bus, and leave the drive nothing to
    /// reorder (FAST'02, section 3.3).
    pub at_drive: u8,
    /// The most commands at the drive while requests are passed through: when nothing is wanted, or no gap can be used. The drive
    /// chooses their order. 0 passes none through, and keeps to `at_drive` and the policy's order always (FAST'02).
    pub pass_through: u8,
    /// Whether wanted blocks are read in streams of short commands while no request waits for the arm, if idle time is used
    /// ([`Config::idle`](crate::Config::idle)).
    pub streams: bool,
    /// Whether a command of a detour may come right behind another on its track, or right before the foreground's on its.
    pub neighbours: Neighbours,
    /// Whether the second of two commands on a track may begin with the sector right behind the first's last, as far as
    /// `neighbours` allow; otherwise one is left out between them. At a track's end that is the half of a block that the next track's
    /// beginning or the last one's end has the rest of.
    pub touching: bool,
    /// Whether a detour may stay on the source track, as far as `neighbours` allow: its first command goes on where the
    /// foreground's last one ended.
    pub source_track: bool,
    /// Whether what time is left behind a detour goes into blocks that are merged into the foreground's command.
    pub merge_after: bool,
    /// Whether what is left of a gap behind a detour is planned for as a gap is, with or without the foreground's command, twice at most: for
    /// who wants little here and there, as at a scan's end. Where much is wanted each command more is a risk for little, and where the bound
    /// on harm is used up, as by who comes one after another in order of arrival, so many more gaps are left alone.
    pub plan_rest: bool,
    /// Whether plans allow for data that cross the bus as late as has been seen.
    pub late_bus: bool,
    /// Whether moves, to read and to write, are taken to be longer or shorter than told where completions show it: a probed
    /// profile does not tell a command's overhead from its seek, nor, without writing, what a head settles to write.
    pub correct_moves: bool,
    /// Whether some gaps are left alone where a request is foreseen to come just too late for its sectors: what it takes then
    /// shows whether there is a gap at all, which a detour in each of them would hide.
    pub control_gaps: bool,
    /// Whether a drive that is seen to read on behind reads that follow each other is foreseen to: who comes then waits for the end
    /// of its track, and who reads on has no move to wait for. Gaps before what its buffer may have, and all where it has most, are
    /// left alone.
    pub reads_on: bool,
    /// Whether what goes next is chosen as late as it can be at the drive in time, from more, in place of as soon as there is
    /// room for it.
    pub late_choice: bool,
    /// Whether a request among whose sectors the head arrives may wait for its first one, with a detour in the turn before it: a
    /// drive with zero-latency access would read the rear part at once, and have nothing to do for the rest of that turn.
    /// In order the request is done later by the time of its rear part; where that is over an eighth of a turn it is left as
    /// it is.
    pub in_order: bool,
    /// Whether detours are chosen by what they bring less what their moves are expected to lose: each that is late costs the
    /// sectors that pass in a turn, and how many are late with so little to spare is in the error record. The last blocks of a
    /// scan, one by one, are worth less than their moves then: nothing is had of them.
    pub expected_value: bool,
    /// Whether what the bound on harm leaves is spent: a request waits for a turn of the platter more where what a detour can fetch in
    /// that is worth it, as seen by what others were offered. The foreground is slower for it, by no more than the bound; with none
    /// nothing is bought.
    pub bought_turns: bool,
    /// How much a completion corrects what is believed of the platter's angle, in 256ths: 256 believes the last one.
    pub resync: u16,
    /// The most that the foreground's time at the head may grow by through detours that were back too late, in
    /// millionths; `None` measures it and does nothing about it, as FAST'02. With [`IdleTime`](crate::IdleTime) this is
    /// one bound for both: each has a part of it, more for who gets more for what it costs, and may use what the other
    /// leaves.
    pub harm_ppm: Option<u32>,
    /// How the cost of background work is measured against windows without it; `None` measures nothing, and no window is without
    /// it, as in the papers and in the daemon.
    pub audit: Option<AuditConfig>,
}

impl OutsideConfig {
    /// The scheduler of FAST'02 with all its restrictions: constant conservatism, no command of its own on the source or
    /// destination track, one command a detour, the position taken from the last completion.
    pub const fn paper(overheads: Overheads, conservatism: Duration) -> Self {
        Self {
            overheads,
            conservatism: Conservatism::Constant(conservatism),
            at_drive: 2,
            pass_through: 0,
            streams: false,
            neighbours: Neighbours::Never,
            touching: false,
            source_track: false,
            merge_after: false,
            plan_rest: false,
            late_bus: false,
            correct_moves: false,
            control_gaps: false,
            reads_on: false,
            late_choice: false,
            in_order: false,
            expected_value: false,
            bought_turns: false,
            resync: 256,
            harm_ppm: None,
            audit: None,
        }
    }

    /// For a drive of which nothing is known but its size ([`DriveModel::unknown`]): gaps are left alone, since nobody can
    /// tell how long they are, and idle time is used. The order comes from a mimic that learns from completions (SMTF), or
    /// from LBNs. Two commands at the drive, as ever: what is known of the one ahead is all that the choice of the next
    /// needs.
    ///
    /// ```
    /// use freeblock_scheduler::{Caution, Config, Core, OutsideConfig, Place, policy::PolicyName};
    /// use units::{Bytes, Sectors};
    /// let drive = model::DriveModel::unknown(Sectors::new(7_814_037_168), Bytes::new(512))?;
    /// let config = Config {
    ///     policy: PolicyName::Smtf(Default::default()),
    ///     place: Place::Outside(OutsideConfig::blind()),
    ///     ..Config::default()
    /// };
    /// let core = Core::new(std::sync::Arc::new(drive), config);
    /// // Here comes `core.set_mimic(..)`, with a learner of the crate `mimic`.
    /// assert_eq!(core.caution(), Some(Caution::Unknown));
    /// # Ok::<(), model::ProfileError>(())
    /// ```
    pub const fn blind() -> Self {
        let none = [Duration::ZERO; 2];
        let overheads = Overheads {
            command: none,
            completion: none,
            bus_sector: Duration::ZERO,
            shortest_access: Duration::ZERO,
            overlap: false,
            write_back: false,
            if_through: None,
        };
        Self::paper(overheads, Duration::ZERO)
    }

    /// The same with pass-through, late choice and streams: clients are served as by the drive alone where nothing is wanted or no gap can be used,
    /// and otherwise chosen as late as they can be in time; idle time is used in streams.
    pub const fn serving(self) -> Self {
        Self { pass_through: PASS_THROUGH_DEPTH, streams: true, late_choice: true, ..self }
    }

    /// What goes beyond FAST'02: conservatism that is learned, what is left behind a detour merged with the foreground, moves
    /// that are corrected by completions, and harm bounded to 1%.
    pub const fn beyond(overheads: Overheads) -> Self {
        Self {
            conservatism: Conservatism::LEARNED,
            touching: true,
            source_track: true,
            merge_after: true,
            late_bus: true,
            correct_moves: true,
            control_gaps: true,
            reads_on: true,
            in_order: true,
            neighbours: Neighbours::Learned,
            harm_ppm: Some(10_000),
            ..Self::paper(overheads, Duration::ZERO)
        }
    }
}
