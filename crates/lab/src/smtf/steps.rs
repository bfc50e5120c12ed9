//! Behaviours between that of a drive exactly as in its profile and that of a measured drive.

use super::FromOutside;
use super::place::{Place, slower, unconfirmed};
use crate::{Lab, LabError};
use drive::Behaviour;

/// Returns the part of a noisy drive's behaviour that a step includes.
type Change = fn(Behaviour) -> Behaviour;

/// The steps from a drive exactly as in its profile to the measured drive without its random variation. Some
/// differences between drive and profile are constant, and each step includes one more of them.
pub(crate) const STEPS: [(&str, Change); 4] = [
    ("as its profile says", |_| Behaviour::default()),
    ("a faster bus", |noisy| Behaviour { bus_sector: noisy.bus_sector, ..Behaviour::default() }),
    ("writes done when they are on the medium", |noisy| Behaviour {
        bus_sector: noisy.bus_sector,
        write_back: noisy.write_back,
        ..Behaviour::default()
    }),
    ("read-ahead that no command stops", quiet),
];

/// Returns the behaviour without its random variation.
fn quiet(noisy: Behaviour) -> Behaviour {
    Behaviour {
        bus_sector: noisy.bus_sector,
        write_back: noisy.write_back,
        eager_read_ahead: noisy.eager_read_ahead,
        ..Behaviour::default()
    }
}

/// The result of SMTF with an off-line table on a drive with one step's behaviour.
pub(crate) struct Step {
    pub(crate) what: &'static str,
    /// How much slower SMTF with the table is than SPTF, in percent.
    pub(crate) lag: f64,
    /// The share of distances that are interpolated without confirmation because the requests for probing ran out, in
    /// percent.
    pub(crate) unconfirmed: f64,
}

impl Step {
    pub(crate) fn measured(lab: &Lab, what: &'static str, place: &Place) -> Result<Self, LabError> {
        let (seed, short) = (lab.seed(), lab.pick(5_000, 50_000));
        let (table, report) = place.table(lab.pick(200_000, 2_000_000), seed)?;
        let offline = place.run(FromOutside::smtf(table), short, seed)?;
        let lag = slower(offline, place.run(place.sptf(seed)?, short, seed)?);
        Ok(Self { what, lag, unconfirmed: unconfirmed(&report) })
    }

    /// Returns the steps as a clause of a note.
    pub(crate) fn describe(steps: &[Self]) -> String {
        let described: Vec<String> = steps
            .iter()
            .map(|step| format!("{} {:.1}%, {:.1}% unconfirmed", step.what, step.lag, step.unconfirmed))
            .collect();
        described.join(", with ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_leave_only_random_variation() {
        let noisy = Behaviour::fast02();
        let quiet = STEPS[STEPS.len() - 1].1(noisy);
        let Behaviour {
            seek_spread,
            late_settles,
            missed_landings_ppm,
            drift,
            recalibration,
            command_spread,
            completion_spread,
            overlap_percent,
            // The queue has no effect, because the drive gets one command at a time.
            queue,
            ..
        } = noisy;
        let with_noise = Behaviour {
            seek_spread,
            late_settles,
            missed_landings_ppm,
            drift,
            recalibration,
            command_spread,
            completion_spread,
            overlap_percent,
            queue,
            ..quiet
        };
        assert_eq!(with_noise, noisy);
    }
}
