//! The forecast of a command: the work of the head and its times.

use super::clock::{difference, nanos};
use super::record::{Came, HeadPath, Observation};
use crate::core::config::Overheads;
use model::Position;
use units::{Duration, Instant, Lbn, TrackIndex};

/// The assumed read-ahead of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadsOn {
    /// Whether the drive reads ahead behind any read, while it has nothing else to do.
    pub idle: bool,
    /// Whether the drive reads ahead behind a consecutive read, to the end of the track, even if requests wait.
    pub sequence: bool,
}

/// The position of a head that reads ahead, if the last command was a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// The LBN after the requested ones.
    pub lbn: Lbn,
    /// The platter time at which the sectors before `lbn` have passed.
    pub at: Instant,
    /// Whether the last read followed another one on its track.
    pub sequence: bool,
}

/// The state of the drive when a command is done. Instants are in platter time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub position: Position,
    pub track: Option<TrackIndex>,
    /// The instant at which the arm is free.
    pub free: Instant,
    /// The instant at which the drive can start the next command.
    pub ready: Instant,
    /// The instant at which the last read's data have crossed the bus.
    pub bus: Instant,
    /// After a read, the position of the head if the drive reads ahead.
    pub behind: Option<Behind>,
    /// The assumed read-ahead of the drive.
    pub reads_on: ReadsOn,
    /// The LBN after the last cached write, which the drive may still have to write.
    pub reported: Option<Lbn>,
}

impl Standing {
    /// Returns the state at the start, for a drive without history.
    pub fn at_rest(position: Position, track: Option<TrackIndex>) -> Self {
        let zero = Instant::ZERO;
        Self {
            position,
            track,
            free: zero,
            ready: zero,
            bus: zero,
            behind: None,
            reads_on: ReadsOn::default(),
            reported: None,
        }
    }
}

/// The source of a command's sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The medium, after a move of the arm.
    Medium,
    /// The medium, under a head that reads ahead: each sector is available when it has passed.
    Passing,
    /// The buffer, which has the sectors already; only the command itself takes time.
    Buffer,
}

/// The forecast of a command. Instants are in platter time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    /// When the drive starts the command.
    pub service: Instant,
    /// When the first access could begin if nothing had to move.
    pub able: Instant,
    /// When the head is ready on the first track.
    pub arrive: Instant,
    /// When the first transferred sector begins to pass.
    pub start: Instant,
    /// When the last sector has passed.
    pub end: Instant,
    /// When the host receives the completion.
    pub heard: Instant,
    /// When the host receives the completion if the data are on the bus as late as possible.
    pub heard_at_latest: Instant,
    /// The number of cylinders to the first track.
    pub distance: u32,
    /// Whether the head has to move at all.
    pub moves: bool,
    /// Whether the head arrives within the first track's sectors and transfers their tail first.
    pub in_two_parts: bool,
    /// The time from the arrival to the start of the command's first LBN, even if the tail is transferred first.
    pub wait: Duration,
    /// The time in which the tail of the command's sectors passes, if the head arrives within them.
    pub rear: Duration,
    /// The event that starts the arm, if the arrival depends on the move alone.
    pub set_out: Option<SetOut>,
    /// The source of the sectors.
    pub source: Source,
}

/// The event for which an arm has to wait before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetOut {
    /// The end of the previous command, during which the drive has decoded this one.
    Queued,
    /// The command's own overhead.
    Alone,
}

impl Forecast {
    /// Returns the forecast of a command that takes no time, at instant zero.
    #[cfg(test)]
    pub fn at_once(set_out: SetOut) -> Self {
        let at = Instant::ZERO;
        Self {
            service: at,
            able: at,
            arrive: at,
            start: at,
            end: at,
            heard: at,
            heard_at_latest: at,
            distance: 0,
            moves: true,
            in_two_parts: false,
            wait: Duration::ZERO,
            rear: Duration::ZERO,
            set_out: Some(set_out),
            source: Source::Medium,
        }
    }

    /// Returns the slack: the largest delay of the arrival without the loss of a revolution.
    pub fn slack(&self) -> Duration {
        self.start.saturating_since(self.arrive)
    }

    /// Returns the arrival of the head, observed as `late` or not.
    pub fn came(&self, late: bool) -> Came {
        let (way, slack) = if self.moves {
            (HeadPath::Moved(self.distance), self.slack())
        } else {
            (HeadPath::Stayed, self.start.saturating_since(self.able))
        };
        Came { way, slack, late }
    }
}

/// The forecast of a command, and the state of the drive after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    pub forecast: Forecast,
    pub after: Standing,
}

/// The forecast of a foreground request without detours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// The platter time at which the request would have been sent.
    pub sent: Instant,
    /// The end of the request's first command, and the completion at the host, in platter time. They are updated until the
    /// commands before the detour are done.
    pub end: Instant,
    pub heard: Instant,
    /// The number of the detour's commands, the merged one included; 0 without a detour.
    pub detour: u32,
    /// Whether a command of the detour failed: the drive's retries may take any time.
    pub failed: bool,
    /// The time of the detour's data on the bus.
    pub bus: Duration,
    /// Half of the lead, in ns, over the request that would have been chosen without detours; less the mean lead, over their
    /// forecasts, of similar requests behind control gaps.
    pub gain: i64,
    /// The time by which the request was delayed on purpose for the detour.
    pub spent: Duration,
}

/// The delay of a foreground request by detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    /// The delay of the head in ns, which all requests that wait for it share; negative if the later choice was nearer.
    pub head: i64,
    /// The further delay of the request's completion, because its data waited for other data on the bus.
    pub bus: Duration,
}

impl Plain {
    /// Returns the request's delay, from the forecast with the detour and the completion. A late head loses at most one
    /// revolution for each command, plus the bus time of the detour's data; longer delays have other causes. `merged` tells
    /// that the command also read background blocks.
    pub fn late(
        &self,
        predicted: &Forecast,
        seen: &Observation,
        revolution: Duration,
        overlap: bool,
        merged: bool,
    ) -> Late {
        let positive = |ns: i64| Duration::from_nanos(ns.max(0).unsigned_abs());
        let revolutions = seen.revolutions.saturating_mul(nanos(revolution));
        let beyond = if seen.explained { revolutions } else { seen.error };
        // Without a detour, an extra revolution is the drive's own; charge nothing.
        let beyond = if self.detour == 0 { beyond.min(0) } else { beyond };
        let most = nanos(revolution * u64::from(self.detour + 1) + self.bus);
        let head = difference(predicted.end, self.end);
        let head_late = head.saturating_add(beyond);
        // Of a long pause of the drive, at most one revolution is charged to the detour.
        let most_late = if self.failed {
            i64::MAX
        } else if head_late > most.saturating_mul(PAUSE_COSTS_MIN) {
            nanos(revolution)
        } else {
            most
        };
        let head_late = head_late.clamp(0, most_late);
        let waited = difference(predicted.heard, self.heard).saturating_sub(head).clamp(0, most);
        // With merged blocks, the error besides whole revolutions is their time on the bus.
        let residue =
            if merged && seen.explained { seen.error.saturating_sub(revolutions).max(0) } else { 0 };
        let late = Late { head: head_late - self.gain, bus: positive(waited.saturating_add(residue)) };
        // If the drive starts no other command before the host has all data, the head is late by both delays.
        if overlap { late } else { Late { head: late.head + nanos(late.bus), bus: Duration::ZERO } }
    }
}

/// A delay of more than this many times the possible cost of a detour is a pause of the drive.
pub(super) const PAUSE_COSTS_MIN: i64 = 4;

/// The delay of a read's data on the bus that 99% of the reads do not exceed, as a share of the data's time on the bus in
/// 65536ths. A delay above this bound costs the next command a revolution, but a bound that is too high costs only a part of a
/// read.
///
/// The overlap of bus and medium varies, and does not affect the head (FAST'02, section 5.2); but the host sends nothing
/// before the completion, and the data of a write follow those of the read before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBack(u32);

/// The minimum of sectors of a read from which the delay is learned.
const READ_SECTORS_MIN: u64 = 16;

/// The step by which the estimate rises after a read whose delay exceeds it.
const STEP_65536THS: u32 = 65_536 / 32;
/// The number of reads with no longer delay after which the estimate has fallen by one such step: so 99% do not exceed it.
const STEPS_DOWN_PER_STEP_UP: u32 = 99;

impl HeldBack {
    /// Returns the bound on the delay of a read whose data take the time `bus` on the bus.
    pub fn of(self, bus: Duration) -> Duration {
        bus * u64::from(self.0) / 65_536
    }

    /// Records by how much a read's completion was later than its forecast.
    pub fn learn(&mut self, overheads: &Overheads, sectors: u64, late: Duration) {
        let bus = overheads.bus_sector * sectors;
        if sectors < READ_SECTORS_MIN || bus == Duration::ZERO {
            return;
        }
        let seen = (late.as_nanos().saturating_mul(65_536) / bus.as_nanos()).min(65_536) as u32;
        self.0 = if seen > self.0 {
            self.0 + STEP_65536THS
        } else {
            self.0.saturating_sub(STEP_65536THS / STEPS_DOWN_PER_STEP_UP)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_nine_of_a_hundred_reads_are_not_later_than_is_allowed_for() {
        let overheads = Overheads { bus_sector: Duration::from_micros(6), ..Overheads::default() };
        let bus = overheads.bus_sector * 100;
        let late = |percent: u64| bus * percent / 100;
        let mut held_back = HeldBack::default();
        let mut state = 1u64;
        let (mut n, mut later) = (0, 0);
        for i in 0..60_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Half of the reads are in time, the others are late by up to half of their time on the bus.
            let seen = late(((state >> 33) % 100).saturating_sub(50));
            if i > 10_000 {
                n += 1;
                later += u32::from(seen > held_back.of(bus));
            }
            held_back.learn(&overheads, 100, seen);
        }
        assert!((5..15).contains(&(later * 1_000 / n)), "{later} of {n}");
        // A bus without delays is soon trusted.
        (0..4_000).for_each(|_| held_back.learn(&overheads, 100, Duration::ZERO));
        assert_eq!(held_back.of(bus), Duration::ZERO);
        // Short reads show nothing.
        held_back.learn(&overheads, 8, late(50));
        assert_eq!(held_back.of(bus), Duration::ZERO);
    }
}
