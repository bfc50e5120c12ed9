//! The foreground of a simulation: its requests and their times.

use super::replayed::Replayed;
use crate::problem::Problem;
use model::DriveModel;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Sectors};
use workload::{Arrival, Closed, Issuer, Source, Think};

/// The number of requests of a run to which nothing else sets an end.
pub(crate) const DEFAULT_REQUESTS: u64 = 10_000;

/// The requests of a run, with their arrival times.
pub(crate) struct Foreground {
    pub(crate) issuer: Issuer<Box<dyn Source>>,
    /// The number of requests, if the load has an end.
    pub(crate) requests: Option<u64>,
    /// The load in a few words, for the title.
    pub(crate) description: String,
    /// The facts of the replay, if the load is a trace.
    pub(crate) replayed: Option<Replayed>,
    /// The greatest common divisor of the requests' addresses and sizes.
    pub(crate) grain: Sectors,
}

/// The address space of a load: that of a drive, or of an array.
pub(crate) struct Space<'a> {
    pub(crate) capacity: Sectors,
    pub(crate) sector: Bytes,
    /// The drive, or the first drive of the array.
    pub(crate) drive: &'a Arc<DriveModel>,
    /// The sizes of an array's drives; empty for one drive.
    pub(crate) members: Vec<Sectors>,
}

pub(crate) fn closed(tasks: u32, think: Duration, word: &str) -> (Arrival, String) {
    if think == Duration::ZERO {
        return (Arrival::outstanding(tasks), format!("{tasks} {word}"));
    }
    let arrival = Arrival::Closed(Closed { tasks, think: Think::Constant(think) });
    (arrival, format!("{tasks} {word}, think time {think}"))
}

pub(crate) fn assemble(
    source: Box<dyn Source>,
    arrival: Arrival,
    seed: u64,
    requests: Option<u64>,
    description: String,
) -> Result<Foreground, Problem> {
    let issuer = Issuer::new(source, arrival, Instant::ZERO, seed).map_err(Problem::usage)?;
    Ok(Foreground { issuer, requests, description, replayed: None, grain: Sectors::new(1) })
}
