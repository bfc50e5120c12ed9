//! Maintenance applications on the core, beside a foreground whose requests go through these applications: the maps
//! of the snapshots, the map of the reorganiser, or the cache.
//!
//! The drive is the simulated mechanics with the core inside, or a drive behind its interface with the core outside.
//! All bytes are zeros: the applications' own tests check contents, and a backup of a whole drive does not fit into
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
