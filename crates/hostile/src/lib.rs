//! Tests of all readers of bytes from outside: the promises that hold for any input, and the first inputs for each reader.
//!
//! A [`Target`] is a plain function of bytes that panics if a promise is broken. The fuzz targets in `fuzz/` are these
//! functions under a coverage-guided fuzzer; without one, [`Mutator`] draws inputs from a seed, so that `cargo test`
//! runs the same functions. For formats with a checksum the target adds a matching one; otherwise a reader would refuse nearly
//! every input at once.
//!
//! ```
//! use hostile::{Mutator, TARGETS};
//! let target = TARGETS.iter().find(|target| target.name == "policy").unwrap();
//! let mut mutator = Mutator::new(7, target);
//! for _ in 0..100 {
//!     (target.run)(&mutator.draw());
//! }
//! ```

mod files;
mod idle;
mod mutate;
mod sealed;
mod texts;
mod wires;

pub use mutate::Mutator;

/// A reader of bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name, here and in `fuzz/`.
    pub name: &'static str,
    /// The origin of the bytes in practice.
    pub from: &'static str,
    /// Reads the bytes.
    ///
    /// # Panics
    /// A promise is broken.
    pub run: fn(&[u8]),
    /// Returns valid bytes, or nearly valid ones, from which mutations begin.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "nbd", from: "a client of an export", run: wires::nbd, seeds: wires::nbd_seeds },
    Target {
        name: "session",
        from: "either side of a session",
        run: wires::session,
        seeds: wires::session_seeds,
    },
    Target {
        name: "http",
        from: "the program that answers at a control socket",
        run: wires::http,
        seeds: wires::http_seeds,
    },
    Target {
        name: "task",
        from: "a client of the control socket",
        run: texts::task,
        seeds: texts::task_seeds,
    },
    Target {
        name: "config",
        from: "the operator: `serve --config`",
        run: texts::config,
        seeds: texts::config_seeds,
    },
    Target {
        name: "journal",
        from: "the state directory: the tasks' journal",
        run: files::journal,
        seeds: files::journal_seeds,
    },
    Target {
        name: "backup",
        from: "images, saved maps, progress of scrubs and replicas",
        run: files::backup,
        seeds: files::backup_seeds,
    },
    Target {
        name: "reorganizer",
        from: "plans and states of reorganisations",
        run: files::reorganizer,
        seeds: files::reorganizer_seeds,
    },
    Target {
        name: "recording",
        from: "recordings of live runs",
        run: files::recording,
        seeds: files::recording_seeds,
    },
    Target { name: "mimic", from: "tables of the Disk Mimic", run: files::mimic, seeds: files::mimic_seeds },
    Target {
        name: "learner",
        from: "the learnt state of a mimic",
        run: files::learner,
        seeds: files::learner_seeds,
    },
    Target { name: "probe", from: "the state of a probe", run: files::probe, seeds: files::probe_seeds },
    Target { name: "profile", from: "profiles", run: texts::profile, seeds: texts::profile_seeds },
    Target {
        name: "disksim",
        from: "DiskSim's parameter files",
        run: texts::disksim,
        seeds: texts::disksim_seeds,
    },
    Target { name: "trace", from: "traces", run: texts::trace, seeds: texts::trace_seeds },
    Target {
        name: "mixture",
        from: "the command line: `simulate --workload`",
        run: texts::mixture,
        seeds: texts::mixture_seeds,
    },
    Target { name: "policy", from: "the command line", run: texts::policy, seeds: texts::policy_seeds },
    Target {
        name: "scenario",
        from: "torture's histories",
        run: texts::scenario,
        seeds: texts::scenario_seeds,
    },
];

/// Runs the target of this name.
///
/// # Panics
/// There is no such target, or a promise is broken.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let Some(target) = target else { panic!("{name} is no target") };
    (target.run)(bytes);
}
