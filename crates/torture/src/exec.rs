//! What the head was asked to do, sector by sector.

use drive::Mechanics;
use model::{DriveModel, Location, Position};
use scheduler::{Access, Purpose, Wanted};
use units::{Instant, Lbn, Op};

/// A sector that passes under the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// When all of it has passed.
    pub at: Instant,
    /// What it holds; spare and bad sectors between others hold nothing.
    pub lbn: Option<Lbn>,
    pub op: Op,
    /// For the foreground, promoted work included.
    pub foreground: bool,
}

/// A buffer that a client has given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub wanted: Wanted,
    pub version: u64,
    /// The place of its task in the order of events.
    pub registered: u64,
}

/// What is under way.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub accesses: Vec<Access>,
    pub passes: Vec<Pass>,
    /// Its place in the order of events.
    pub sequence: u64,
    /// When the head is ready for the first access.
    pub ready: Instant,
    /// When the host will say that it is done.
    pub due: Instant,
    pub held: Vec<Held>,
    /// What is read or written for the foreground, ascending; none in idle time.
    pub foreground: Vec<Lbn>,
    pub op: Op,
    /// Whether the foreground's part of it is promoted work.
    pub promoted: bool,
    /// Whether the host has said, or will say, that it is done later than it was.
    pub delayed: bool,
    /// Whether what was lost is done again, or what was begun was cut short: then not all buffers that were given are written.
    pub in_part: bool,
}

impl Exec {
    /// Moves the head, and notes what passes when.
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

    /// The buffer that is written to an LBN: the last that was given for it.
    pub fn buffer(&self, lbn: Lbn) -> Option<&Held> {
        self.held.iter().rev().find(|h| h.wanted.range.contains(lbn))
    }

    /// Whose writes of an LBN are carried out, if each is, by the first `done` passes: which of several passes is whose nobody says, and
    /// what stays is the same.
    pub fn carried_out(&self, lbn: Lbn, done: usize) -> impl Iterator<Item = u64> {
        let passes = self.passes[..done].iter().filter(|pass| pass.lbn == Some(lbn) && pass.op.is_write());
        let all = self.in_part || passes.count() > 1;
        let holders = self.held.iter().rev().filter(move |held| held.wanted.range.contains(lbn));
        holders.take(if all { usize::MAX } else { 1 }).map(|held| held.registered)
    }

    /// What the head does for the foreground, to be held against a core that has nothing else to do.
    pub fn foreground_accesses(&self) -> Vec<Access> {
        self.accesses.iter().filter(|a| a.purpose == Purpose::Foreground).copied().collect()
    }
}
