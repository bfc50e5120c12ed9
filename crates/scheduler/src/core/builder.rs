//! Configurations without struct literals.

use super::config::{AuditConfig, Conservatism, Neighbours, OutsideConfig, Overheads};
use super::{Config, Sharing};
use crate::idle::IdleTime;
use crate::planner::SearchBudget;
use crate::policy::{AgeWeight, PolicyName};
use units::Duration;

/// Defines a method for each field, which returns the configuration with another value of that field.
macro_rules! with {
    ($config:ident { $($with:ident($field:ident: $value:ty);)* }) => {
        impl $config {
            $(
                #[doc = concat!("Returns the configuration with another `", stringify!($field), "`.")]
                #[must_use]
                pub const fn $with(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

impl Config {
    /// Returns the default configuration for a core outside the drive.
    ///
    /// ```
    /// use freeblock_scheduler::{Config, IdleTime, OutsideConfig, policy::PolicyName};
    /// let outside = OutsideConfig::blind().serving();
    /// let config = Config::outside(outside).with_policy(PolicyName::CLook).with_idle(Some(IdleTime::default()));
    /// assert_eq!((config.policy, config.seed), (PolicyName::CLook, Config::default().seed));
    /// ```
    pub fn outside(outside: OutsideConfig) -> Self {
        Self::default().with_outside(outside)
    }
}

with! {
    Config {
        with_policy(policy: PolicyName);
        with_age(age: AgeWeight);
        with_budget(budget: SearchBudget);
        with_most_pending(most_pending: usize);
        with_most_partials(most_partials: usize);
        with_writes_serve_reads(writes_serve_reads: bool);
        with_writes_serve_writes(writes_serve_writes: bool);
        with_sharing(sharing: Sharing);
        with_seed(seed: u64);
        with_idle(idle: Option<IdleTime>);
        with_outside(outside: OutsideConfig);
    }
}

with! {
    OutsideConfig {
        with_overheads(overheads: Overheads);
        with_conservatism(conservatism: Conservatism);
        with_at_drive(at_drive: u8);
        with_pass_through(pass_through: u8);
        with_streams(streams: bool);
        with_neighbours(neighbours: Neighbours);
        with_touching(touching: bool);
        with_source_track(source_track: bool);
        with_merge_after(merge_after: bool);
        with_plan_rest(plan_rest: bool);
        with_late_bus(late_bus: bool);
        with_correct_moves(correct_moves: bool);
        with_control_gaps(control_gaps: bool);
        with_reads_on(reads_on: bool);
        with_late_choice(late_choice: bool);
        with_in_order(in_order: bool);
        with_extra_revolutions(extra_revolutions: bool);
        with_resync(resync: u16);
        with_harm_ppm(harm_ppm: Option<u32>);
        with_audit(audit: Option<AuditConfig>);
    }
}

with! {
    Overheads {
        with_command(command: [Duration; 2]);
        with_completion(completion: [Duration; 2]);
        with_bus_sector(bus_sector: Duration);
        with_shortest_access(shortest_access: Duration);
        with_overlap(overlap: bool);
        with_write_back(write_back: bool);
        with_if_through(if_through: Option<[Duration; 2]>);
    }
}

with! {
    AuditConfig {
        with_off_ppm(off_ppm: u32);
        with_off_first_ppm(off_first_ppm: u32);
    }
}

with! {
    IdleTime {
        with_threshold(threshold: Duration);
        with_short(short: bool);
        with_harm_ppm(harm_ppm: u32);
    }
}
