//! The configuration of a core.

mod outside;

pub use outside::{AuditConfig, Conservatism, Neighbours, OutsideConfig, Overheads};

use crate::idle::IdleTime;
use crate::planner::SearchBudget;
use crate::policy::{AgeWeight, PolicyName};

/// The sharing of gaps among sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// For each gap a lottery draws a session, whose blocks are searched for first, and win (FAST'04, section 5.2). A single
    /// session has all gaps.
    #[default]
    Lottery,
    /// The detour with the most blocks wins, whichever sessions want them.
    Greedy,
}

/// The configuration of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The foreground policy.
    pub policy: PolicyName,
    /// The weight of a request's waiting time against the key by which the policy compares requests.
    pub age: AgeWeight,
    /// How far the gap planner searches.
    pub budget: SearchBudget,
    /// The maximum of foreground requests that wait; the same number of promoted requests may wait in addition.
    pub most_pending: usize,
    /// The maximum of half-read blocks. The data of a half-read block wait in memory.
    pub most_partials: usize,
    /// Whether a write completes pending background reads of the range that it overwrites, because its data are then the
    /// content; the default of a session ([`Sessions::serve_reads_by_writes`](crate::Sessions::serve_reads_by_writes)).
    pub writes_serve_reads: bool,
    /// Whether a background write completes pending background writes of the range that it covers; the default of a session
    /// ([`Sessions::serve_writes_by_writes`](crate::Sessions::serve_writes_by_writes)).
    pub writes_serve_writes: bool,
    /// How sessions share the gaps.
    pub sharing: Sharing,
    /// The seed of the lottery.
    pub seed: u64,
    /// The use of idle time; `None` for gaps alone, as in OSDI'00.
    pub idle: Option<IdleTime>,
    /// The settings of a core outside the drive ([`OutsideDrive`](crate::OutsideDrive)). A core in the drive ignores them.
    pub outside: OutsideConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: PolicyName::Fcfs,
            age: AgeWeight::default(),
            budget: SearchBudget::default(),
            most_pending: 1 << 16,
            most_partials: 1 << 15,
            writes_serve_reads: true,
            writes_serve_writes: true,
            sharing: Sharing::Lottery,
            seed: 1,
            idle: None,
            outside: OutsideConfig::blind(),
        }
    }
}
