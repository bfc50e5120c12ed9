//! A simulated drive for hosts written in Python.

use crate::values::{self, range, refused};
use ::drive::{Behaviour, BlackBox, Command, Drive as Simulated};
use freeblock_cli::library;
use pyo3::prelude::*;
use scheduler::Overheads;
use sim::black_box;
use std::sync::Arc;
use units::{Bytes, Instant, RequestId};

/// A drive that is simulated from outside: commands go in, and completions come out. Times are in ns of the simulation.
#[pyclass(module = "freeblock")]
pub(crate) struct Drive {
    pub(crate) model: Arc<model::DriveModel>,
    pub(crate) overheads: Overheads,
    pub(crate) title: String,
    drive: Simulated,
    now: Instant,
}

/// The completion of a command at a simulated drive.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Reply {
    /// The number of the command.
    id: u64,
    /// The time at which the host learns of the completion, in ns.
    at: u64,
    /// The first sector that could not be read or written; None if all could.
    failed: Option<u64>,
}

#[pymethods]
impl Reply {
    fn __repr__(&self) -> String {
        let Self { id, at, failed } = self;
        match failed {
            None => format!("Reply(id={id}, at={at})"),
            Some(lbn) => format!("Reply(id={id}, at={at}, failed={lbn})"),
        }
    }
}

#[pymethods]
impl Drive {
    /// Makes a drive of a built-in name or a file, as `freeblock simulate --drive` finds it. `behaviour` is a preset with
    /// switches, as `--behaviour` has them, by default that of the drive's generation.
    #[new]
    #[pyo3(signature = (drive, *, behaviour=None, seed=1))]
    fn new(drive: &str, behaviour: Option<&str>, seed: u64) -> PyResult<Self> {
        let profile = library::profile(drive).map_err(|failure| {
            let help = failure.help.map_or_else(String::new, |help| format!("; {help}"));
            refused(failure.message + &help)
        })?;
        let model = model::DriveModel::from_profile(&profile).map_err(refused)?;
        let behaviour = match behaviour {
            Some(text) => text.parse().map_err(refused)?,
            None => Behaviour::of_generation(model.layout().capacity().bytes(model.sector_bytes())),
        };
        let (simulated, overheads) = black_box(&profile, behaviour, seed).map_err(refused)?;
        let title = profile.title;
        Ok(Self { model: Arc::new(model), overheads, title, drive: simulated, now: Instant::ZERO })
    }

    /// The number of sectors.
    #[getter]
    fn capacity(&self) -> u64 {
        self.model.layout().capacity().get()
    }

    /// The bytes in a sector.
    #[getter]
    fn sector_bytes(&self) -> u64 {
        self.model.sector_bytes().get()
    }

    /// The duration of a revolution in ns.
    #[getter]
    fn revolution(&self) -> u64 {
        self.model.rpm().revolution().as_nanos()
    }

    /// The largest number of commands that the drive takes at a time.
    #[getter]
    fn queue_depth(&self) -> usize {
        self.drive.queue_depth()
    }

    /// The number of commands in the drive, without those whose completions wait to be taken out.
    #[getter]
    fn outstanding(&self) -> usize {
        self.drive.outstanding()
    }

    /// Submits a command at `now`. Raises ValueError if it has no sectors or too many, ends past the drive's end, or the queue is
    /// full; the drive is then unchanged.
    fn submit(&mut self, now: u64, id: u64, op: &str, lbn: u64, sectors: u64) -> PyResult<()> {
        let now = self.at(now)?;
        let command = Command { id: RequestId::new(id), op: values::op(op)?, range: range(lbn, sectors)? };
        self.drive.submit(now, command).map_err(refused)
    }

    /// The time of the next event in the drive if nothing is submitted before; None if no event is to come.
    fn next_event(&self) -> Option<u64> {
        self.drive.next_event().map(Instant::as_nanos)
    }

    /// Advances the time to `now`; returns the completions until then, in order.
    fn advance(&mut self, now: u64) -> PyResult<Vec<Reply>> {
        let now = self.at(now)?;
        self.drive.advance(now);
        let replies = std::iter::from_fn(|| self.drive.pop_reply());
        Ok(replies
            .map(|reply| Reply {
                id: reply.id.get(),
                at: reply.at.as_nanos(),
                failed: reply.failed.map(|lbn| lbn.get()),
            })
            .collect())
    }

    fn __repr__(&self) -> String {
        let bytes: Bytes = self.model.layout().capacity().bytes(self.model.sector_bytes());
        format!("<freeblock.Drive {:?}, {} bytes>", self.title, bytes.get())
    }
}

impl Drive {
    /// Sets the present time.
    fn at(&mut self, now: u64) -> PyResult<Instant> {
        self.now = later(self.now, now)?;
        Ok(self.now)
    }
}

/// Bounds the time that a host may give, in ns: 146 years. The drive's arithmetic has as much room again after it.
const NOW_MAX: u64 = 1 << 62;

/// Returns the time if it is not before the last one.
pub(crate) fn later(last: Instant, now: u64) -> PyResult<Instant> {
    if now > NOW_MAX {
        return Err(refused(format_args!(
            "now = {now} ns is after 2^62 ns, 146 years; count the time from the start of the run"
        )));
    }
    if now < last.as_nanos() {
        let last = last.as_nanos();
        return Err(refused(format_args!(
            "now = {now} ns is before the call at {last} ns; time does not go backwards"
        )));
    }
    Ok(Instant::from_nanos(now))
}
