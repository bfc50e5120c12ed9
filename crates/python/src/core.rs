//! The scheduler core, for hosts and policies written in Python.

use crate::foreign::{PythonPolicy, Trouble};
use crate::simulated::{Drive, later};
use crate::values::{self, op_name, range, refused};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use scheduler::policy::PolicyName;
use scheduler::{
    Buffers, CommandId, Config, HeadWork, IdleTime, Outcome, Output, OutsideConfig, Parameter, Priority,
    Purpose, Ready, Request, Wanted, Whose,
};
use sim::{PlacedCore, PlacedWork};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Instant, Lbn, RequestId, Sectors, SessionId, TaskId};

/// Carry out the accesses in order without a pause, then call `completed`.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Execute {
    /// The accesses, detours included.
    accesses: Vec<Py<Access>>,
    /// The time at which the accesses are predicted to be done, in ns.
    until: u64,
    /// The foreground request that the accesses serve; None for background work in idle time or promoted work.
    request: Option<u64>,
}

/// Consecutive sectors of one track, read or written as they pass.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Access {
    /// The track's number.
    track: u64,
    /// The first sector, counted from the track's start.
    sector: u32,
    /// The number of sectors; past the track's end they continue at its start.
    sectors: u32,
    /// "read" or "write".
    op: &'static str,
    /// The access does not begin before this time, in ns.
    not_before: u64,
    /// "foreground", "background" in a gap, or "idle".
    purpose: &'static str,
}

/// Send this command to the drive, and call `command_done` when it is done.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Send {
    /// The core's number for the command.
    id: u64,
    /// "read" or "write".
    op: &'static str,
    /// The first LBN.
    lbn: u64,
    /// The number of sectors.
    sectors: u64,
    /// "foreground", "background" in a gap, or "idle".
    purpose: &'static str,
    /// The number of wanted background sectors in the command.
    useful: u32,
}

/// Work in idle time ends early, because a request has arrived: only these accesses are still done. Call `completed` at
/// `until`.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Cut {
    /// The accesses that are still done.
    accesses: Vec<Py<Access>>,
    /// The time at which the head is free, in ns.
    until: u64,
}

/// A foreground request is done.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Completed {
    /// The host's number for the request.
    id: u64,
}

/// A foreground request cannot be done: the medium failed.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Failed {
    /// The host's number for the request.
    id: u64,
    /// The first bad sector of the request.
    bad: u64,
}

/// A background block is finished.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Deliver {
    /// The session.
    session: u64,
    /// The task.
    task: u64,
    /// The first LBN of the block.
    lbn: u64,
    /// The number of sectors of the block.
    sectors: u64,
    /// "read" or "write".
    op: &'static str,
    /// The value that came with the task.
    parameter: u64,
    /// The first bad sector; None if there is none.
    bad: Option<u64>,
    /// Whether the session has nothing left to come.
    last: bool,
}

macro_rules! shown {
    ($name:ident { $($field:ident),* }) => {
        #[pymethods]
        impl $name {
            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                PyTuple::new(py, [$(stringify!($field)),*])
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let mut fields = Vec::new();
                $(fields.push(format!("{}={}", stringify!($field), slf.getattr(stringify!($field))?.repr()?));)*
                Ok(format!("{}({})", stringify!($name), fields.join(", ")))
            }
        }
    };
}

shown!(Execute { accesses, until, request });
shown!(Access { track, sector, sectors, op, not_before, purpose });
shown!(Send { id, op, lbn, sectors, purpose, useful });
shown!(Cut { accesses, until });
shown!(Completed { id });
shown!(Failed { id, bad });
shown!(Deliver { session, task, lbn, sectors, op, parameter, bad, last });

/// The scheduler core inside a drive or outside it. The core reads no clock and starts no thread: the same calls give the same
/// outputs. Times are in ns, and do not go backwards.
#[pyclass(module = "freeblock")]
pub(crate) struct Core {
    core: PlacedCore,
    trouble: Trouble,
    now: Instant,
    /// The commands at the drive, by number.
    commands: BTreeMap<u64, CommandId>,
}

/// A policy by name or as a callable.
#[derive(FromPyObject)]
enum Policy {
    Name(String),
    Callable(Py<PyAny>),
}

#[pymethods]
impl Core {
    /// Makes a core for a drive. `where` is "inside" the drive, where every time is known, or "outside", where the core sends
    /// commands and learns from completions. `policy` is a name as of `freeblock simulate --policy`, or a callable that gets the
    /// waiting requests and the time, and returns the index of the next. `harm` bounds the harm outside the drive and in idle
    /// time, in millionths of the foreground's time at the head.
    #[new]
    #[pyo3(signature = (drive, *, r#where="inside", policy=None, seed=1, idle_time=false, harm=None))]
    fn new(
        drive: PyRef<'_, Drive>,
        r#where: &str,
        policy: Option<Policy>,
        seed: u64,
        idle_time: bool,
        harm: Option<u32>,
    ) -> PyResult<Self> {
        let mut config = Config::default().with_seed(seed);
        let idle = IdleTime::default();
        config.idle = idle_time.then(|| idle.with_harm_ppm(harm.unwrap_or(idle.harm_ppm)));
        let beyond = OutsideConfig::beyond(drive.overheads);
        config.outside = beyond.with_harm_ppm(harm.or(beyond.harm_ppm));
        let outside = match r#where {
            "inside" => false,
            "outside" => true,
            _ => return Err(refused(format_args!("where = {:?}; give \"inside\" or \"outside\"", r#where))),
        };
        let trouble = Trouble::default();
        let mut own = None;
        match policy {
            None => config.policy = PolicyName::Sptf,
            Some(Policy::Name(name)) => config.policy = name.parse().map_err(refused)?,
            Some(Policy::Callable(choose)) if !choose.bind(drive.py()).is_callable() => {
                return Err(PyTypeError::new_err("policy is neither a name nor a callable"));
            }
            Some(Policy::Callable(choose)) => own = Some(PythonPolicy { choose, trouble: trouble.clone() }),
        }
        let make = if outside { PlacedCore::outside } else { PlacedCore::in_drive };
        let mut core = make(Arc::clone(&drive.model), config).map_err(refused)?;
        if let Some(policy) = own.map(Box::new) {
            match &mut core {
                PlacedCore::In(core) => core.set_policy(policy),
                PlacedCore::Outside(core) => core.set_policy(policy),
            }
        }
        Ok(Self { core, trouble, now: Instant::ZERO, commands: BTreeMap::new() })
    }

    /// Accepts a foreground request. Raises ValueError if the request has no sectors, ends past the drive's end, or finds the
    /// pool full; the core is then unchanged.
    fn submit(&mut self, now: u64, id: u64, op: &str, lbn: u64, sectors: u64) -> PyResult<()> {
        let at = later(self.now, now)?;
        let request = Request { id: RequestId::new(id), op: values::op(op)?, range: range(lbn, sectors)? };
        self.core.submit(at, request).map_err(refused)?;
        self.now = at;
        Ok(())
    }

    /// The next output, or None until the next call. `ready` is called before a background block is written, with session,
    /// task, first LBN, sectors and parameter, and returns whether the block's bytes are available; without `ready` all are.
    #[pyo3(signature = (now, ready=None))]
    fn poll<'py>(
        &mut self,
        py: Python<'py>,
        now: u64,
        ready: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.now = later(self.now, now)?;
        let output = match ready {
            None => self.core.poll_with(self.now, &mut Ready),
            Some(ready) => {
                self.core.poll_with(self.now, &mut PythonBuffers { ready: &ready, trouble: &self.trouble })
            }
        };
        self.trouble.check()?;
        output.map(|output| self.output(py, output)).transpose()
    }

    /// Reports that the outstanding `Execute` is done, except for these bad sectors.
    #[pyo3(signature = (now, bad=Vec::new()))]
    fn completed(&mut self, now: u64, bad: Vec<u64>) -> PyResult<()> {
        let at = later(self.now, now)?;
        let PlacedCore::In(core) = &mut self.core else { return Err(not_executing()) };
        if core.busy_until().is_none() {
            return Err(not_executing());
        }
        self.now = at;
        core.completed_with(at, lbns(bad).as_slice());
        Ok(())
    }

    /// Reports that a command of `Send` is done. `bad`: all sectors but these were done. `stopped_at`: this sector is bad, all
    /// before it were done, and the rest is unknown. `lost`: the host has given up waiting.
    #[pyo3(signature = (now, id, *, bad=Vec::new(), stopped_at=None, lost=false))]
    fn command_done(
        &mut self,
        now: u64,
        id: u64,
        bad: Vec<u64>,
        stopped_at: Option<u64>,
        lost: bool,
    ) -> PyResult<()> {
        let at = later(self.now, now)?;
        let (PlacedCore::Outside(core), Some(command)) = (&mut self.core, self.commands.remove(&id)) else {
            return Err(PyRuntimeError::new_err(format!("command {id} is not at the drive")));
        };
        let bad = lbns(bad);
        let outcome = match (lost, stopped_at, bad.is_empty()) {
            (true, ..) => Outcome::Lost,
            (false, Some(lbn), _) => Outcome::StoppedAt(Lbn::new(lbn)),
            (false, None, false) => Outcome::Bad(&bad),
            (false, None, true) => Outcome::Done,
        };
        self.now = at;
        core.command_done(at, command, outcome);
        self.trouble.check()
    }

    /// The time at which the core wants to be polled again without another event, in ns; None if it does not.
    fn wake_at(&self) -> Option<u64> {
        self.core.wake_at().map(Instant::as_nanos)
    }

    /// The number of waiting foreground requests, without the one under way.
    #[getter]
    fn pending(&self) -> usize {
        self.core.pending()
    }

    /// The number of sectors of the drive.
    #[getter]
    fn capacity(&self) -> u64 {
        self.core.drive().layout().capacity().get()
    }

    /// Opens a session of background work with a priority of 1 to 100; returns its number.
    #[pyo3(signature = (priority=20))]
    fn open(&mut self, priority: u8) -> PyResult<u64> {
        let priority = Priority::new(priority)
            .ok_or_else(|| refused(format_args!("priority {priority}; give 1 to 100")))?;
        self.core.open(priority).map(SessionId::get).map_err(refused)
    }

    /// Registers blocks of `block` sectors to be read, each once, in any order; returns the task's number.
    #[pyo3(signature = (session, lbn, sectors, block=8, parameter=0))]
    fn read(&mut self, session: u64, lbn: u64, sectors: u64, block: u64, parameter: u64) -> PyResult<u64> {
        let task = self.core.read(
            SessionId::new(session),
            range(lbn, sectors)?,
            Sectors::new(block),
            Parameter(parameter),
        );
        task.map(TaskId::get).map_err(refused)
    }

    /// Registers blocks to be written, as `read` does.
    #[pyo3(signature = (session, lbn, sectors, block=8, parameter=0))]
    fn write(&mut self, session: u64, lbn: u64, sectors: u64, block: u64, parameter: u64) -> PyResult<u64> {
        let task = self.core.write(
            SessionId::new(session),
            range(lbn, sectors)?,
            Sectors::new(block),
            Parameter(parameter),
        );
        task.map(TaskId::get).map_err(refused)
    }

    /// Ends a task; returns the number of its blocks that were not delivered.
    fn abort(&mut self, task: u64) -> PyResult<u64> {
        self.core.abort(TaskId::new(task)).map_err(refused)
    }

    /// Makes every pending block that touches the range foreground work; returns their number.
    fn promote(&mut self, session: u64, lbn: u64, sectors: u64) -> PyResult<u64> {
        self.core.promote(SessionId::new(session), range(lbn, sectors)?).map_err(refused)
    }

    /// Suspends the session's tasks until `resume`.
    fn suspend(&mut self, session: u64) -> PyResult<()> {
        self.core.suspend(SessionId::new(session)).map_err(refused)
    }

    /// Resumes a suspended session's tasks.
    fn resume(&mut self, session: u64) -> PyResult<()> {
        self.core.resume(SessionId::new(session)).map_err(refused)
    }

    /// Ends a session and all its tasks; returns the number of blocks that were not delivered.
    fn close(&mut self, session: u64) -> PyResult<u64> {
        self.core.close(SessionId::new(session)).map_err(refused)
    }

    /// The number of blocks that the session has not yet received.
    fn to_come(&self, session: u64) -> PyResult<u64> {
        self.core.to_come(SessionId::new(session)).map_err(refused)
    }

    /// The number of gaps that the planner has looked at, and of those with a detour.
    #[getter]
    fn gaps(&self) -> (u64, u64) {
        let stats = self.core.planner_stats();
        (stats.gaps, stats.detours)
    }
}

impl Core {
    fn output<'py>(&mut self, py: Python<'py>, output: Output<PlacedWork>) -> PyResult<Bound<'py, PyAny>> {
        match output {
            Output::Do(PlacedWork::Head(work)) => self.head_work(py, work),
            Output::Do(PlacedWork::Command(command)) => {
                self.commands.insert(command.id.get(), command.id);
                Send {
                    id: command.id.get(),
                    op: op_name(command.op),
                    lbn: command.range.start().get(),
                    sectors: command.range.len().get(),
                    purpose: purpose(command.purpose),
                    useful: command.useful,
                }
                .into_bound_py_any(py)
            }
            Output::Completed(id) => Completed { id: id.get() }.into_bound_py_any(py),
            Output::Failed { id, bad } => Failed { id: id.get(), bad: bad.get() }.into_bound_py_any(py),
            Output::Deliver(record) => Deliver {
                session: record.session.get(),
                task: record.task.get(),
                lbn: record.range.start().get(),
                sectors: record.range.len().get(),
                op: op_name(record.op),
                parameter: record.parameter.0,
                bad: record.bad.map(Lbn::get),
                last: record.last,
            }
            .into_bound_py_any(py),
        }
    }

    fn head_work<'py>(&self, py: Python<'py>, work: HeadWork) -> PyResult<Bound<'py, PyAny>> {
        let PlacedCore::In(core) = &self.core else { return Err(not_executing()) };
        let until = core.busy_until().unwrap_or(self.now).as_nanos();
        let accesses = core.accesses().iter().map(|access| Access {
            track: access.track.get().into(),
            sector: access.sector,
            sectors: access.sectors,
            op: op_name(access.op),
            not_before: access.not_before.as_nanos(),
            purpose: purpose(access.purpose),
        });
        let accesses = accesses.map(|access| Py::new(py, access)).collect::<PyResult<_>>()?;
        match work {
            HeadWork::Execute => {
                let request = match core.whose() {
                    Some(Whose::Request(id)) => Some(id.get()),
                    _ => None,
                };
                Execute { accesses, until, request }.into_bound_py_any(py)
            }
            HeadWork::Cut => Cut { accesses, until }.into_bound_py_any(py),
        }
    }
}

fn not_executing() -> PyErr {
    PyRuntimeError::new_err("completed without an Execute under way")
}

const fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Foreground => "foreground",
        Purpose::Background { .. } => "background",
        Purpose::Idle { .. } => "idle",
    }
}

/// Returns the LBNs in ascending order.
fn lbns(mut numbers: Vec<u64>) -> Vec<Lbn> {
    numbers.sort_unstable();
    numbers.into_iter().map(Lbn::new).collect()
}

/// Asks a callable of Python whether the bytes of a block are available.
struct PythonBuffers<'a, 'py> {
    ready: &'a Bound<'py, PyAny>,
    trouble: &'a Trouble,
}

impl Buffers for PythonBuffers<'_, '_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let Wanted { session, task, range, parameter } = wanted;
        let asked = (session.get(), task.get(), range.start().get(), range.len().get(), parameter.0);
        let ready = self.ready.call1(asked).and_then(|answer| answer.is_truthy());
        ready.unwrap_or_else(|error| {
            self.trouble.keep(error);
            false
        })
    }
}
