//! The duel: the same requests to the same drive, scheduled by the drive's own queue, by our core outside the drive,
//! or by our core in it, with and without background work, and beside a rival background reader.

mod arm;
pub mod paired;

use crate::{LabError, set_up};
pub use arm::PassingMb;
use arm::WatchedDrive;
use drive::{Behaviour, BlackBox};
use model::builtin;
use paired::Responses;
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig};
use sim::{Background, Direct, Inside, Observer, Outside, Rival, black_box};
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Request, Source};

/// Sectors of 512 bytes in the scan's block of 4 KiB.
const BLOCK: Sectors = Sectors::new(8);

/// The same requests at the same times for every contestant.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// The drive's name.
    pub drive: &'static str,
    /// The differences between the drive and its profile.
    pub behaviour: Behaviour,
    /// Requests a second, random reads and writes of 4 KiB with Poisson arrivals.
    pub rate: f64,
    /// The number of requests.
    pub requests: u64,
}

/// The scheduler of the requests, and the work beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contestant {
    /// The drive's own queue, without our core and without background work.
    Alone,
    /// Our core outside the drive, without background work.
    Assisted,
    /// Our core outside the drive, with a scan of the whole disk in gaps and idle time, and this bound on harm in
    /// millionths.
    Scan(u32),
    /// Our core in the drive, with a scan of the whole disk in gaps and idle time.
    InDrive,
    /// The drive's own queue, and a background reader beside the requests.
    Rival(Rival),
}

/// The result of one contestant.
#[derive(Clone, Debug, Default)]
pub struct Result {
    /// Response times, in the order of arrival.
    pub responses: Responses,
    /// Millions of bytes a second of background work.
    pub mb_per_s: f64,
    /// For [`Contestant::Alone`], the MB/s that pass the head of the drive, by the state of its arm; zero for the
    /// others.
    pub passing: PassingMb,
}

/// The first `left` requests of a source: a run ends when the last of them is done.
struct First<S> {
    source: S,
    left: u64,
}

impl<S: Source> Source for First<S> {
    fn next_request(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        self.source.next_request()
    }
}

/// Response times by arrival.
#[derive(Default)]
struct ByArrival(Vec<(Instant, f64)>);

impl ByArrival {
    fn note(&mut self, arrived: Instant, done: Instant) {
        self.0.push((arrived, done.since(arrived).as_millis_f64()));
    }

    /// Returns the responses in order of arrival; requests that arrive at one instant stay in the order of
    /// completion.
    fn responses(mut self) -> Responses {
        self.0.sort_by_key(|(arrived, _)| *arrived);
        Responses(self.0.into_iter().map(|(_, ms)| ms).collect())
    }
}

impl Observer for ByArrival {
    fn completed(&mut self, _: scheduler::Request, arrived: Instant, at: Instant) {
        self.note(arrived, at);
    }
}

impl Contest {
    /// Lets a contestant serve the contest's requests.
    ///
    /// # Errors
    /// The drive or the load does not exist, or requests arrive faster than they can be served.
    pub fn run(&self, contestant: Contestant, seed: u64) -> std::result::Result<Result, LabError> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| {
            LabError::new(format!("{contestant:?} on {} at {}/s", self.drive, self.rate), e)
        };
        let profile = builtin::find(self.drive).map_err(|e| failed(e.into()))?;
        let known = set_up::drive(self.drive)?;
        let load = RandomConfig::new(known.layout().capacity(), known.sector_bytes());
        let source = Random::new(load, seed).map_err(|e| failed(e.into()))?;
        let first = First { source, left: self.requests };
        let arrival = Arrival::Poisson { rate: self.rate };
        let load = Issuer::new(first, arrival, Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
        let (drive, overheads) = black_box(&profile, self.behaviour, seed).map_err(|e| failed(e.into()))?;
        let sptf = Config::default().with_policy(PolicyName::Sptf);
        let with_idle = |harm_ppm| sptf.with_idle(Some(IdleTime::default().with_harm_ppm(harm_ppm)));
        let scan = Background::Scan { block: BLOCK };
        let mut seen = ByArrival::default();
        let mut passing = PassingMb::default();
        let mb_per_s = match contestant {
            Contestant::Alone => {
                let mut run = Direct::new(WatchedDrive::new(drive), usize::MAX, load);
                self.straight(&mut run, &mut seen).map_err(failed)?;
                passing = run.device().passing(run.now());
                0.0
            }
            Contestant::Rival(rival) => {
                let mut run = Direct::new(drive, usize::MAX, load).beside(rival);
                self.straight(&mut run, &mut seen).map_err(failed)?;
                run.rival_mb_per_s()
            }
            Contestant::InDrive => {
                let config = with_idle(IdleTime::default().harm_ppm);
                let mut run =
                    Inside::new(Arc::clone(&known), config, load, scan).map_err(|e| failed(e.into()))?;
                run.advance(self.requests, &mut seen).map_err(|e| failed(e.into()))?;
                run.report().background.mb_per_s
            }
            Contestant::Assisted | Contestant::Scan(_) => {
                let mut outside = OutsideConfig::beyond(overheads).serving();
                let mut config = sptf;
                let mut background = Background::None;
                if let Contestant::Scan(harm_ppm) = contestant {
                    outside.harm_ppm = Some(harm_ppm);
                    (config, background) = (with_idle(harm_ppm), scan);
                }
                let config = config.with_outside(outside);
                let mut run = Outside::new(drive, Arc::clone(&known), config, load, background)
                    .map_err(|e| failed(e.into()))?;
                run.advance(self.requests, &mut seen).map_err(|e| failed(e.into()))?;
                run.report().background.mb_per_s
            }
        };
        Ok(Result { responses: seen.responses(), mb_per_s, passing })
    }

    fn straight<B: BlackBox, S: Source>(
        &self,
        run: &mut Direct<B, S>,
        seen: &mut ByArrival,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        run.advance(self.requests, |done| seen.note(done.arrived, done.at))?;
        Ok(())
    }
}
