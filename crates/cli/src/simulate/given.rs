//! Parts of a simulation from a program that calls the command as a library.

use super::args::{SimulateArgs, Where};
use crate::problem::Problem;
use crate::values::Load;
use scheduler::policy::{ForeignPolicy, PolicyName};
use sim::Finished;
use workload::Source;

/// The calling program as an observer of a simulation.
pub trait Watch {
    /// Handles a foreground request that is done; not called during a warm-up.
    fn finished(&mut self, done: &Finished);
}

/// Parts of a simulation that come from the calling program and not from options.
#[derive(Default)]
pub struct Parts<'a> {
    /// The foreground's requests, in place of `--workload`; their times are those of `--workload random`.
    pub requests: Option<Box<dyn Source>>,
    /// The foreground's policy, in place of `--policy`.
    pub policy: Option<Box<dyn ForeignPolicy>>,
    /// The observer of every foreground request.
    pub watch: Option<&'a mut dyn Watch>,
}

/// The parts that a calling program has given, by default none.
#[derive(Default)]
pub(crate) struct Given<'a> {
    pub(super) requests: Option<Box<dyn Source>>,
    pub(super) policy: Option<Box<dyn ForeignPolicy>>,
    pub(super) watch: Caller<'a>,
}

/// The calling program, if it observes the requests of the run.
#[derive(Default)]
pub(super) struct Caller<'a>(Option<&'a mut dyn Watch>);

impl Caller<'_> {
    /// Reports a finished request to the calling program.
    pub(super) fn finished(&mut self, done: &Finished) {
        if let Some(watch) = &mut self.0 {
            watch.finished(done);
        }
    }
}

impl<'a> From<Parts<'a>> for Given<'a> {
    fn from(Parts { requests, policy, watch }: Parts<'a>) -> Self {
        Self { requests, policy, watch: Caller(watch) }
    }
}

/// Refuses options that a part replaces.
///
/// # Errors
/// The first such option, with advice.
pub(super) fn check_flags(args: &SimulateArgs, given: &Given<'_>) -> Result<(), Problem> {
    if given.policy.is_some() {
        if args.policy != PolicyName::Fcfs {
            return Err(Problem::usage("--policy does not go with a policy of the program's own")
                .help("omit the option"));
        }
        if args.place() == Where::Device {
            return Err(Problem::usage("a policy of the program's own does not go with --where device")
                .help("give --where inside or --where outside: there the drive alone serves the requests"));
        }
    }
    if args.seeds.is_some() && (given.policy.is_some() || given.requests.is_some() || given.watch.0.is_some())
    {
        return Err(Problem::usage("--seeds does not go with parts of the program's own")
            .help("give --seed with one seed at a time"));
    }
    if given.requests.is_none() {
        return Ok(());
    }
    let load = !matches!(args.workload, Load::Random);
    let shape = [
        ("--workload", load),
        ("--request-size", args.request_size.is_some()),
        ("--locality", args.locality.is_some()),
        ("--reads", args.reads.is_some()),
    ];
    match shape.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(Problem::usage(format!("{flag} does not go with requests of the program's own"))
                .help("omit the option"))
        }
        None => Ok(()),
    }
}
