//! The numbers of events of a history.

use units::Duration;

/// The counts of a history's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Virtual time.
    pub time: Duration,
    /// Foreground requests done, failed ones included.
    pub requests: u64,
    /// Scrubs of the whole drive that ended.
    pub scrubs: u64,
    /// Scans of a table that ended.
    pub mined: u64,
    /// Records fetched over the record face.
    pub fetched: u64,
    /// Requests of a log-structured disk.
    pub logged: u64,
    /// Foreground cleanings of such a disk.
    pub cleaned: u64,
    /// Blocks of such a disk that were cleaned in gaps.
    pub copied: u64,
    /// Times at which its buffer was full.
    pub full: u64,
    /// Commands sent by a core outside the drive.
    pub commands: u64,
    /// Commands for the background in a gap, or merged with the foreground's.
    pub detours: u64,
    /// Background blocks delivered.
    pub blocks: u64,
    /// Written blocks among them.
    pub written: u64,
    /// Blocks on bad sectors among them.
    pub bad: u64,
    /// Idle visits.
    pub idle: u64,
    /// Idle visits cut short.
    pub cuts: u64,
    /// Commands lost.
    pub lost: u64,
    /// Commands on which a host outside the drive gave up.
    pub given_up: u64,
    /// Sectors that a host outside the drive has read for itself.
    pub readings: u64,
    /// Models of the drive that a core outside it has adopted.
    pub adopted: u64,
    /// Commands done for promoted work.
    pub promoted: u64,
    /// Calls that a cache has answered, flushes included.
    pub calls: u64,
    /// Flushes that it has answered without error.
    pub flushes: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Reads at the background door of a disk.
    pub background_reads: u64,
    /// Reads of snapshots.
    pub snapshot_reads: u64,
    /// Daemons killed.
    pub kills: u64,
    /// Images restored and compared.
    pub restores: u64,
    /// Finished reorganisations.
    pub reorganisations: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Foreground times compared with the twin's.
    pub compared: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.time += other.time;
        self.requests += other.requests;
        self.scrubs += other.scrubs;
        self.mined += other.mined;
        self.fetched += other.fetched;
        self.logged += other.logged;
        self.cleaned += other.cleaned;
        self.copied += other.copied;
        self.full += other.full;
        self.commands += other.commands;
        self.detours += other.detours;
        self.blocks += other.blocks;
        self.written += other.written;
        self.bad += other.bad;
        self.idle += other.idle;
        self.cuts += other.cuts;
        self.lost += other.lost;
        self.given_up += other.given_up;
        self.readings += other.readings;
        self.adopted += other.adopted;
        self.promoted += other.promoted;
        self.calls += other.calls;
        self.flushes += other.flushes;
        self.snapshots += other.snapshots;
        self.background_reads += other.background_reads;
        self.snapshot_reads += other.snapshot_reads;
        self.kills += other.kills;
        self.restores += other.restores;
        self.reorganisations += other.reorganisations;
        self.power_cuts += other.power_cuts;
        self.compared += other.compared;
    }
}
