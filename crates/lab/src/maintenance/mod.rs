//! Maintenance applications on the core, beside a foreground that depends on them: it goes through the snapshots' maps,
//! the reorganiser's, or the cache.
//!
//! The drive is the simulated mechanics with the core inside, or one behind its interface with the core outside. Bytes
//! are zeros: the contents are checked by the applications' own tests, and a backup of a whole drive does not fit into
//! memory.

mod foreground;
mod host;
mod hosted_apps;
#[cfg(test)]
mod tests;
mod visits;

pub(crate) use foreground::{Noted, Way};
pub(crate) use host::{MaintenanceHost, megabytes};
pub(crate) use hosted_apps::{Counted, HostedApp, HostedAppId};
