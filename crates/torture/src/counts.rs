//! Counts of the events of a history, which show that a run has tested something.

use units::Duration;

/// Counts of the events of a history, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of steps.
    pub steps: u64,
    /// The virtual time that has passed.
    pub time: Duration,
    /// The number of completed foreground requests, including failed ones.
    pub requests: u64,
    /// The number of finished scrubs of the whole drive.
    pub scrubs: u64,
    /// The number of finished scans of the miner.
    pub mined: u64,
    /// The number of records that a client fetched from its buffer.
    pub fetched: u64,
    /// The number of requests of a log-structured disk.
    pub logged: u64,
    /// The number of cleanings of a log-structured disk in the foreground.
    pub cleaned: u64,
    /// The number of blocks of a log-structured disk that were cleaned in gaps.
    pub copied: u64,
    /// The number of times that a client's buffer of records became full.
    pub full: u64,
    /// The number of commands sent by a core outside the drive.
    pub commands: u64,
    /// The number of commands for background blocks in a gap, or merged with a foreground command.
    pub detours: u64,
    /// The number of delivered background blocks.
    pub blocks: u64,
    /// The number of delivered background blocks that were written.
    pub written: u64,
    /// The number of background blocks reported with a bad sector; on the daemon, the number of requests that a bad sector
    /// made fail.
    pub bad: u64,
    /// The number of times that the core used idle time.
    pub idle: u64,
    /// The number of times that idle work was cut short by a request.
    pub cuts: u64,
    /// The number of lost commands.
    pub lost: u64,
    /// The number of commands on which a host outside the drive gave up.
    pub given_up: u64,
    /// The number of sectors that a host outside the drive read for itself, not for a client.
    pub readings: u64,
    /// The number of times that a core outside the drive got another model of the drive.
    pub adopted: u64,
    /// The number of commands for promoted blocks.
    pub promoted: u64,
    /// The number of calls that a cache answered, including flushes.
    pub calls: u64,
    /// The number of flushes that a cache or the daemon answered without an error.
    pub flushes: u64,
    /// The number of snapshots taken; on the daemon, the number of snapshots compared at the end.
    pub snapshots: u64,
    /// The number of background reads of the daemon's disk.
    pub background_reads: u64,
    /// The number of background reads of snapshots.
    pub snapshot_reads: u64,
    /// The number of kills of the daemon.
    pub kills: u64,
    /// The number of backup images that were restored and compared.
    pub restores: u64,
    /// The number of finished reorganisations.
    pub reorganisations: u64,
    /// The number of power cuts.
    pub power_cuts: u64,
    /// The number of foreground requests whose times were compared with those of a core without background work.
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
