//! The configuration of a core outside the drive.

use model::DriveModel;
use model::profile::Firmware;
use units::{Duration, Op};

/// The costs of a command besides the work on the medium, as a host observes them; pairs are `[read, write]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overheads {
    /// The time from the instant at which the drive starts a command until its arm starts to move.
    pub command: [Duration; 2],
    /// The time from the pass of the last sector until the host receives the completion.
    pub completion: [Duration; 2],
    /// A sector's time on the bus.
    pub bus_sector: Duration,
    /// The least time from the start of a command to its first sector from the medium.
    pub shortest_access: Duration,
    /// Whether the drive starts a queued command as soon as the arm is free, while the previous one's data cross the bus;
    /// otherwise it starts when the host has received the previous completion.
    pub overlap: bool,
    /// Whether writes are reported before they are on the medium.
    pub write_back: bool,
    /// If write-back is unknown, the `command` and `completion` of a write that is reported from the medium. Writes are
    /// assumed to be cached until completions show otherwise.
    pub if_through: Option<[Duration; 2]>,
}

fn plain(ms: f64) -> Duration {
    Duration::from_millis_f64(ms.max(0.0)).unwrap_or(Duration::ZERO)
}

/// Converts an overhead of a profile.
fn scaled(firmware: &Firmware, ms: f64) -> Duration {
    plain(ms * firmware.overhead_scale)
}

/// Returns the larger of the overheads after a read and after a write, so that no prediction is too early.
fn higher(firmware: &Firmware, (after_read, after_write): (f64, f64)) -> Duration {
    scaled(firmware, firmware.per_request_overhead_ms + after_read.max(after_write))
}

impl Overheads {
    /// Returns the overheads from a profile's firmware section, and `overlap`, which that section does not have. To override
    /// the profile's write-back, use [`writing_back`](Self::writing_back).
    ///
    /// ```
    /// use freeblock_scheduler::{Overheads, model};
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
        // If a miss has less overhead than a hit, the difference is a part of the measured seeks (docs/MODEL.md).
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
            // The profile does not say whether writes are cached, and cache hits of reads do not show it.
            None => {
                let if_through = Some(plain.writing_back(firmware, false).of_writes());
                Self { if_through, ..plain.writing_back(firmware, true) }
            }
        }
    }

    fn of_writes(&self) -> [Duration; 2] {
        [self.command[1], self.completion[1]]
    }

    /// Returns the overheads for a drive that turns out to report writes from the medium, if that was unknown.
    pub(crate) fn writing_through(mut self) -> Option<Self> {
        [self.command[1], self.completion[1]] = self.if_through?;
        Some(Self { write_back: false, if_through: None, ..self })
    }

    /// Returns the overheads for writes that are reported from the buffer (`write_back`) or from the medium, whatever the
    /// profile says; the costs of the two kinds of writes differ.
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

    /// Returns the time from the pass of the last sector to the completion at the host.
    pub(crate) fn tail(&self, op: Op) -> Duration {
        self.completion[index(op)]
    }

    /// Returns the time from the end of a read's data on the bus to the completion at the host.
    pub(crate) fn after_bus(&self) -> Duration {
        self.tail(Op::Read).saturating_sub(self.bus_sector)
    }

    /// Returns the time from the pass of the last sector until the arm may start for a queued command.
    pub(crate) fn between(&self, last: Op, next: Op) -> Duration {
        let wait = if self.overlap { Duration::ZERO } else { self.tail(last) };
        wait + self.command(next)
    }
}

impl Conservatism {
    /// Learned margins, starting at the 0.3 ms of FAST'02.
    pub const LEARNED: Self = Self::Learned { start: Duration::from_micros(300), by_distance: true };
}

fn index(op: Op) -> usize {
    usize::from(op.is_write())
}

/// The margins of detours' moves: a detour must be back in time although seeks vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conservatism {
    /// One margin for all moves (FAST'02, section 3.3).
    Constant(Duration),
    /// The observed spread of moves of similar distance, plus a margin common to all moves that keeps the harm below its
    /// bound.
    Learned {
        /// The margin before the first observations.
        start: Duration,
        /// Whether moves of similar distance have their own margin; otherwise all moves have one.
        by_distance: bool,
    },
}

/// Whether a detour's command may lie next to another command on the same track: on the source track, on the destination track
/// past the track's end, and on both sides of any track's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Neighbours {
    /// Never (FAST'02, section 4.3).
    #[default]
    Never,
    /// While the drive behaves as predicted after such commands. A kind of neighbours that loses more revolutions than other
    /// commands is not used for a while and then tried again. If the drive is seen to read ahead when a read continues another,
    /// no detour's read continues another.
    Learned,
    /// Always, for a drive that does not read ahead.
    Always,
}

/// The depth of the native command queue of a SATA drive.
const PASS_THROUGH_DEPTH: u8 = 32;

/// The configuration of a core outside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutsideConfig {
    /// The costs of commands.
    pub overheads: Overheads,
    /// The margins of detours' moves.
    pub conservatism: Conservatism,
    /// The maximum of commands at the drive. Two keep the head busy while data cross the bus, and leave the drive nothing to
    /// reorder (FAST'02, section 3.3).
    pub at_drive: u8,
    /// The maximum of commands at the drive during pass-through, which is used while nothing is wanted or no gap is usable.
    /// The drive chooses their order. With 0 there is no pass-through: `at_drive` and the policy's order hold always
    /// (FAST'02).
    pub pass_through: u8,
    /// Whether wanted blocks are read in streams of short commands while no request waits for the arm, if idle time is used
    /// ([`Config::idle`](crate::Config::idle)).
    pub streams: bool,
    /// Whether a detour's command may directly follow another command on its track, or directly precede the foreground's.
    pub neighbours: Neighbours,
    /// Whether the second of two commands on a track may begin with the sector after the first command's last one, where
    /// `neighbours` allows two commands there; otherwise one sector between them is left out. At a track's end, the block with
    /// the omitted sector has its other part on the next track.
    pub touching: bool,
    /// Whether a detour may stay on the source track, where `neighbours` allows it: its first command continues after the
    /// foreground's last one.
    pub source_track: bool,
    /// Whether the remaining time behind a detour is used for blocks that are merged into the foreground's command.
    pub merge_after: bool,
    /// Whether the rest of a gap behind a detour is planned as a gap of its own, with or without the foreground's command, at
    /// most twice. This is useful when few blocks are wanted, as at the end of a scan. When many are wanted, each additional
    /// command risks harm for few blocks, and once the harm bound is reached, fewer gaps are used.
    pub plan_rest: bool,
    /// Whether plans allow for the largest observed delay of data on the bus.
    pub late_bus: bool,
    /// Whether moves, for reads and writes, are corrected by completions: a probed profile cannot separate a command's
    /// overhead from its seek, nor, without writing, know the settle time of writes.
    pub correct_moves: bool,
    /// Whether some gaps are left unused if the head seems to arrive just too late for the request's sectors: the completion
    /// shows whether the gap exists at all, which a detour would hide.
    pub control_gaps: bool,
    /// Whether observed read-ahead behind consecutive reads is predicted: the next request waits for the end of the track,
    /// and the next consecutive read needs no move. Gaps before a read that may be a cache hit are not used; if most reads are
    /// hits, no gap is used.
    pub reads_on: bool,
    /// Whether the next command is chosen as late as it can still reach the drive in time, from more requests, instead of as
    /// soon as the drive has room.
    pub late_choice: bool,
    /// Whether a request within which the head would arrive may wait for its first sector, with a detour in the revolution
    /// before: a zero-latency drive would transfer the request's tail at once and be idle for the rest of that revolution. The
    /// request is late by its tail. If the tail takes more than an eighth of a revolution, the gap is not used.
    pub in_order: bool,
    /// Whether the unused part of the harm bound is spent: a request waits one more revolution if a detour in that revolution
    /// yields more than most such detours would. The foreground is slower by at most the bound; without a bound nothing is spent.
    pub extra_revolutions: bool,
    /// The weight of a completion for the platter's angle, in 256ths: with 256 only the last one counts.
    pub resync: u16,
    /// The bound on harm, as a share of the foreground's time at the head, in ppm; with `None` the harm is measured but not
    /// bounded, as in FAST'02. With [`IdleTime`](crate::IdleTime) the bound holds for detours and idle time together. The larger
    /// part goes to the one that gains more blocks for its harm, and each may use what the other leaves.
    pub harm_ppm: Option<u32>,
    /// The audit: it measures the cost of background work against time windows without background work. With `None`, as in the
    /// papers, there are no such windows.
    pub audit: Option<AuditConfig>,
}

impl OutsideConfig {
    /// Returns the configuration of FAST'02 with all its restrictions: constant conservatism, no separate command on the
    /// source or destination track, one command a detour, the position taken from the last completion alone.
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
            extra_revolutions: false,
            resync: 256,
            harm_ppm: None,
            audit: None,
        }
    }

    /// Returns a configuration for a drive of which only the size is known ([`DriveModel::unknown`]). Idle time can be
    /// used, but gaps cannot, since their length is unknown. The order of requests comes from a mimic that learns from
    /// completions (SMTF), or from LBNs. Either needs only the command before, so two commands may be at the drive.
    ///
    /// ```
    /// use freeblock_scheduler::model::{DriveModel, ProfileError};
    /// use freeblock_scheduler::units::{Bytes, Sectors};
    /// use freeblock_scheduler::{Caution, Config, OutsideConfig, OutsideDrive, policy::PolicyName};
    /// let drive = DriveModel::unknown(Sectors::new(7_814_037_168), Bytes::new(512))?;
    /// let config = Config::outside(OutsideConfig::blind()).with_policy(PolicyName::Smtf(Default::default()));
    /// let core = OutsideDrive::new(std::sync::Arc::new(drive), config);
    /// // Here comes `core.set_mimic(..)`, with a learner of the crate `mimic`.
    /// assert_eq!(core.caution(), Some(Caution::Unknown));
    /// # Ok::<(), ProfileError>(())
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

    /// Returns the configuration with pass-through, late choice and streams. While nothing is wanted or no gap is usable, clients
    /// are served as by the drive alone; otherwise each request is chosen as late as it can still reach the drive in time. Wanted
    /// blocks are read in streams during idle time.
    pub const fn serving(self) -> Self {
        Self { pass_through: PASS_THROUGH_DEPTH, streams: true, late_choice: true, ..self }
    }

    /// Returns the configuration beyond FAST'02: learned margins, blocks behind a detour merged with the foreground, moves
    /// corrected by completions, and harm bounded to 1%.
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

/// The random draw of the audit's time windows, with and without background work, of a core outside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditConfig {
    /// The seed of the draws.
    pub seed: u64,
    /// The share of windows without background work, in millionths, at most half.
    pub off_ppm: u32,
    /// The share of windows without background work in the first five minutes, in millionths, at most half.
    pub off_first_ppm: u32,
}

impl AuditConfig {
    /// Returns a draw with one window in sixteen without background work, and one in four in the first five minutes.
    pub const fn new(seed: u64) -> Self {
        Self { seed, off_ppm: 62_500, off_first_ppm: 250_000 }
    }
}
