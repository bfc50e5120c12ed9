//! Shortens a history while it still breaks the same promise.

use crate::failure::{Check, Failure};
use crate::history::run;
use crate::scenario::Scenario;

/// Removes steps while the same checker fails, and runs the history at most `runs` times. Returns the shortened history and
/// its failure.
///
/// The steps after the failed one are removed first. Then halves of the steps are left out, then quarters and so on, down to
/// single steps (Zeller and Hildebrandt, 2002).
pub fn shrink(scenario: &Scenario, failure: &Failure, runs: u32) -> (Scenario, Failure) {
    shrink_until(scenario, failure, runs, || false)
}

/// Shortens a history like [`shrink`], but only until `stop` returns true.
pub fn shrink_until(
    scenario: &Scenario,
    failure: &Failure,
    runs: u32,
    stop: impl Fn() -> bool,
) -> (Scenario, Failure) {
    let (mut best, mut failure) = (prefix(scenario, failure), failure.clone());
    let mut left = runs;
    // A run that ends in starvation takes a long time, so fewer are made.
    if matches!(failure.check, Check::Starved | Check::Hang) {
        left /= 20;
    }
    let mut chunk = best.steps.len().div_ceil(2);
    while chunk > 0 && left > 0 && !stop() {
        let (mut at, mut shorter) = (0, false);
        while at < best.steps.len() && left > 0 && !stop() {
            let mut steps = best.steps.clone();
            steps.drain(at..(at + chunk).min(steps.len()));
            let candidate = Scenario { setup: best.setup.clone(), steps };
            left -= 1;
            match run(&candidate) {
                Err(found) if found.check == failure.check => {
                    best = prefix(&candidate, &found);
                    failure = found;
                    shorter = true;
                }
                _ => at += chunk,
            }
        }
        if !(chunk == 1 && shorter) {
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
    }
    (best, failure)
}

/// Returns the history with only the steps up to the failed one.
pub fn prefix(scenario: &Scenario, failure: &Failure) -> Scenario {
    let steps = scenario.steps.iter().take(failure.step + 1).copied().collect();
    Scenario { setup: scenario.setup.clone(), steps }
}
