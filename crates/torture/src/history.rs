//! Runs a history, and checks every promise after each step.

use crate::dice::mix;
use crate::failure::{Broken, Check, Failure, hold};
use crate::misuse::ANY_TIME_KINDS;
use crate::outside::Front;
use crate::scenario::Scenario;
use crate::setup::Host;
use crate::stage::{Outcome, Stage};
use crate::volume::House;
use crate::world::World;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use units::Instant;

/// Runs a history step by step on two hosts, which must agree after every step (promise 6).
///
/// The second host polls once more after each `None`, as a live host does when an event wakes it. After each step only the
/// first host makes a bad call, and must continue as if there had been none (promise 7).
///
/// # Errors
/// The first broken promise.
pub fn run(scenario: &Scenario) -> Result<Outcome, Failure> {
    match carry_out(scenario, true) {
        Err(failure) if failure.check == Check::Replay => {
            // If the two hosts agree without bad calls, a bad call has changed the state.
            let what = match carry_out(scenario, false) {
                Ok(_) => format!("a bad call was refused and has changed something: {}", failure.what),
                Err(failure) => return Err(failure),
            };
            Err(Failure { check: Check::Refusal, what, ..failure })
        }
        outcome => outcome,
    }
}

fn carry_out(scenario: &Scenario, bad_calls: bool) -> Result<Outcome, Failure> {
    match scenario.setup.host {
        Host::Core => on::<World>(scenario, bad_calls),
        Host::Volume | Host::VolumeOutside => on::<House>(scenario, bad_calls),
        Host::Outside => on::<Front>(scenario, bad_calls),
        #[cfg(target_os = "linux")]
        Host::Daemon => on::<crate::daemon::Daemon>(scenario, bad_calls),
        #[cfg(not(target_os = "linux"))]
        Host::Daemon => Err(Failure {
            check: Check::Panic,
            step: 0,
            at: Instant::from_nanos(scenario.setup.start_ns),
            what: "the daemon needs Linux".into(),
        }),
    }
}

fn on<S: Stage>(scenario: &Scenario, bad_calls: bool) -> Result<Outcome, Failure> {
    let start = Instant::from_nanos(scenario.setup.start_ns);
    // The step and the time are in cells, because they are read after a panic.
    let (at_step, at) = (Cell::new(0), Cell::new(start));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (mut stage, mut other) = (S::open(&scenario.setup)?, S::open(&scenario.setup)?);
        other.polls_once_more();
        for (number, step) in scenario.steps.iter().enumerate() {
            at_step.set(number);
            let held = stage.step(step).and_then(|()| stage.check());
            at.set(stage.now());
            held?;
            let reported = other.step(step).and_then(|()| other.check());
            let (here, there) = (stage.seen(), other.seen());
            hold(reported.is_ok() && here == there, Check::Replay, || {
                format!("the same steps give {here:?}, and beside it {there:?} {reported:?}")
            })?;
            let kind = mix(scenario.setup.seed ^ number as u64) % u64::from(ANY_TIME_KINDS);
            stage.bad_call(bad_calls.then_some(kind as u32))?;
            other.bad_call(None)?;
        }
        let Outcome { mut counts, hash } = stage.outcome();
        counts.steps = scenario.steps.len() as u64;
        counts.time = at.get().saturating_since(start);
        Ok(Outcome { counts, hash })
    }));
    let broken: Broken = match outcome {
        Ok(Ok(outcome)) => return Ok(outcome),
        Ok(Err(broken)) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            (Check::Panic, format!("the scheduler panicked: {text}"))
        }
    };
    Err(Failure { check: broken.0, step: at_step.get(), at: at.get(), what: broken.1 })
}
