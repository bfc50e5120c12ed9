//! Configurations without struct literals.

use super::config::{AuditConfig, Conservatism, Neighbours, OutsideConfig, Overheads};
use super::{Config, Sharing};
use crate::idle::IdleTime;
use crate::planner::SearchBudget;
use crate::policy::{AgeWeight, PolicyName};

/// Defines a method for each field, which returns the configuration with another value of that field.
macro_rules! with {
    ($config:ident { $($with:ident($field:ident: $value:ty);)* }) => {
        impl $config {
            $(
                #[doc = concat!("Returns the configuration with another [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub const fn $with(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

/// A program that starts from [`Config::default`] or [`Config::outside`] and sets fields by these methods compiles when a later
/// version has another field; a struct literal that names all fields does not.
impl Config {
    /// Returns the default configuration for a core outside the drive.
    ///
    /// ```
    /// use freeblock_scheduler::{Config, IdleTime, OutsideConfig, policy::PolicyName};
    /// let outside = OutsideConfig::blind().serving();
    /// let config = Config::outside(outside).with_policy(PolicyName::CLook).with_idle(Some(IdleTime::default()));
    /// let literal = Config {
    ///     policy: PolicyName::CLook,
    ///     idle: Some(IdleTime::default()),
    ///     outside,
    ///     ..Config::default()
    /// };
    /// assert_eq!(config, literal);
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
        with_harm_ppm(harm_ppm: Option<u32>);
        with_audit(audit: Option<AuditConfig>);
    }
}
