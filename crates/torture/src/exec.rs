//! The work of the head in detail: which sector passes when.

use drive::Mechanics;
use model::{DriveModel, Location, Position};
use scheduler::{Access, Purpose, Wanted};
use units::{Instant, Lbn, Op};

/// A sector that passes under the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// The instant at which the whole sector has passed.
    pub at: Instant,
    /// The LBN of the sector; `None` for spare and bad sectors.
    pub lbn: Option<Lbn>,
    pub op: Op,
    /// Whether the access is for the foreground, which includes promoted work.
    pub foreground: bool,
}

/// The data of a background write, which a client has given to the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub wanted: Wanted,
    pub version: u64,
    /// The number of the event at which the task was registered.
    pub registered: u64,
}

/// The current work of the head: the accesses between two outputs of the core that ask for work.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub accesses: Vec<Access>,
    pub passes: Vec<Pass>,
    /// The number of the event at which the work began.
    pub sequence: u64,
    /// The instant at which the head is ready for the first access.
    pub ready: Instant,
    /// The instant at which the host will report the end of the work.
    pub due: Instant,
    pub held: Vec<Held>,
    /// The LBNs that are read or written for the foreground, ascending; none in idle time.
    pub foreground: Vec<Lbn>,
    pub op: Op,
    /// Whether the foreground accesses are promoted work.
    pub promoted: bool,
    /// Whether the host reports the end late.
    pub delayed: bool,
    /// Whether the work repeats lost work, or was cut short. In both cases it may write only a part of `held`.
    pub in_part: bool,
}

impl Exec {
    /// Executes the accesses on the mechanics from `began` on, and records the passes of all sectors.
    pub fn plan(
        mechanics: &mut Mechanics,
        drive: &DriveModel,
        accesses: &[Access],
        began: Instant,
        sequence: u64,
    ) -> Self {
        let mut at = began;
        let (mut first_ready, mut passes, mut foreground) = (None, Vec::new(), Vec::new());
        let mut op = Op::Read;
        for access in accesses {
            let track = drive.layout().track(access.track);
            let ready = mechanics.seek_to(at, Position::from(track), access.op);
            first_ready = first_ready.or(Some(ready));
            let pass = mechanics.pass(ready.max(access.not_before), track, access.sector, access.sectors);
            let is_foreground = access.purpose == Purpose::Foreground;
            for k in 0..access.sectors {
                let sector = (access.sector + k) % track.sectors;
                let lbn = drive.layout().lbn_at(Location { track: access.track, sector });
                if is_foreground {
                    foreground.extend(lbn);
                    op = access.op;
                }
                passes.push(Pass {
                    at: pass.done(drive, k + 1),
                    lbn,
                    op: access.op,
                    foreground: is_foreground,
                });
            }
            at = pass.end(drive);
        }
        foreground.sort_unstable();
        Self {
            accesses: accesses.to_vec(),
            passes,
            sequence,
            ready: first_ready.unwrap_or(began),
            due: at,
            held: Vec::new(),
            foreground,
            op,
            promoted: false,
            delayed: false,
            in_part: false,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.accesses.iter().any(|a| matches!(a.purpose, Purpose::Idle { .. }))
    }

    /// Returns the data that is written to an LBN: the last that was given for it.
    pub fn buffer(&self, lbn: Lbn) -> Option<&Held> {
        self.held.iter().rev().find(|h| h.wanted.range.contains(lbn))
    }

    /// Returns the registrations of the background writes of an LBN that the first `done` passes may have executed, on a host
    /// on which no write completes another. If a sector passes several times, all are returned, because it is not known which
    /// pass belongs to which write.
    pub fn carried_out(&self, lbn: Lbn, done: usize) -> impl Iterator<Item = u64> {
        let passes = self.passes[..done].iter().filter(|pass| pass.lbn == Some(lbn) && pass.op.is_write());
        let all = self.in_part || passes.count() > 1;
        let holders = self.held.iter().rev().filter(move |held| held.wanted.range.contains(lbn));
        holders.take(if all { usize::MAX } else { 1 }).map(|held| held.registered)
    }

    /// Returns the foreground accesses, which a core without background work must make as well.
    pub fn foreground_accesses(&self) -> Vec<Access> {
        self.accesses.iter().filter(|a| a.purpose == Purpose::Foreground).copied().collect()
    }
}
