//! Commands, and simulations with policies and requests of Python.

use crate::foreign::{PythonPolicy, PythonSource, Trouble};
use crate::table::Table;
use crate::values::refused;
use ::drive::Served;
use columns::Values;
use freeblock_cli::library::{self, Answer, Failure, Parts, Watch};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use sim::Finished;
use std::ffi::OsString;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use units::{Instant, Op};

create_exception!(
    _native,
    CommandFailed,
    PyException,
    "A command failed; its arguments are whether it was called wrongly, the message, and the mend or None."
);

/// The output of a command: its text, its exit code, and its notes.
type Output = (String, u8, Vec<String>);

/// The interval at which the calling thread looks for Ctrl-C while a command runs.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);

fn output(answer: Result<Answer, Failure>) -> PyResult<Output> {
    match answer {
        Ok(Answer { text, code, notes }) => Ok((text, code, notes)),
        Err(Failure { usage, message, help }) => Err(CommandFailed::new_err((usage, message, help))),
    }
}

/// Runs a command with these arguments; returns its text, exit code and notes. Ctrl-C ends a command at a point from which it
/// can be continued.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Output> {
    let trouble = Trouble::default();
    let answer = py.detach(|| {
        let (done, answer) = channel();
        let stop = trouble.clone();
        // Python handles signals on the calling thread alone, so the command runs on another one.
        let command = std::thread::Builder::new().name("freeblock".to_owned()).spawn(move || {
            // The receiver waits for the answer, so sending does not fail.
            let _ = done.send(library::run(arguments, move || stop.is_any()));
        });
        command.map_err(|error| refused(format_args!("no thread for the command: {error}")))?;
        loop {
            match answer.recv_timeout(INTERRUPT_POLL_INTERVAL) {
                Ok(answer) => {
                    library::interrupt(false);
                    return Ok(answer);
                }
                Err(RecvTimeoutError::Timeout) if trouble.stops() => library::interrupt(true),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(refused(
                        "the command has ended without an answer; this is an error of freeblock",
                    ));
                }
            }
        }
    })?;
    trouble.check()?;
    output(answer)
}

/// Runs `simulate` with these arguments. `policy` and `requests` are objects of Python; with `keep` the result has a table of all
/// requests.
#[pyfunction]
#[pyo3(signature = (arguments, *, policy=None, requests=None, keep=false))]
pub(crate) fn simulate(
    py: Python<'_>,
    arguments: Vec<OsString>,
    policy: Option<Py<PyAny>>,
    requests: Option<Py<PyIterator>>,
    keep: bool,
) -> PyResult<(Output, Option<Table>)> {
    let trouble = Trouble::default();
    let mut kept = Kept::default();
    let answer = py.detach(|| {
        let policy = policy.map(|choose| Box::new(PythonPolicy { choose, trouble: trouble.clone() }) as _);
        let requests = requests
            .map(|requests| Box::new(PythonSource { requests, trouble: trouble.clone(), ended: false }) as _);
        let watch = keep.then_some(&mut kept as &mut dyn Watch);
        let stop = trouble.clone();
        library::simulate(arguments, Parts { requests, policy, watch }, move || stop.stops())
    });
    trouble.check()?;
    let output = output(answer)?;
    let table = if keep { Some(kept.table()?) } else { None };
    Ok((output, table))
}

/// The options of a command, by its names: name, description, whether the option takes a value, and its possible values if they
/// can be listed.
#[pyfunction]
pub(crate) fn options(names: Vec<String>) -> Vec<(String, String, bool, Vec<String>)> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let options = library::options(&names).into_iter();
    options.map(|option| (option.name, option.help, option.takes_value, option.values)).collect()
}

/// All requests of a run, by column; the names are those of the command's log.
#[derive(Default)]
struct Kept {
    id: Vec<u64>,
    arrival: Vec<i64>,
    start: Vec<i64>,
    completion: Vec<i64>,
    op: Vec<u8>,
    lbn: Vec<u64>,
    sectors: Vec<u64>,
    cache_hit: Vec<bool>,
    seek: Vec<i64>,
    rotation: Vec<i64>,
    transfer: Vec<i64>,
}

impl Watch for Kept {
    fn finished(&mut self, done: &Finished) {
        // A run is shorter than 2^63 ns.
        let at = |instant: Instant| instant.as_nanos() as i64;
        let took = |duration: units::Duration| duration.as_nanos() as i64;
        let request = done.request;
        self.id.push(request.id.get());
        self.arrival.push(at(done.arrived));
        self.start.push(at(done.started));
        self.completion.push(at(done.at));
        self.op.push(u8::from(request.op == Op::Write));
        self.lbn.push(request.range.start().get());
        self.sectors.push(request.range.len().get());
        self.cache_hit.push(matches!(done.served, Some(Served::Hit | Served::Buffered)));
        self.seek.push(took(done.seek));
        self.rotation.push(took(done.rotation));
        self.transfer.push(took(done.transfer));
    }
}

impl Kept {
    fn table(self) -> PyResult<Table> {
        let columns = [
            ("id", Values::U64(self.id)),
            ("arrival_ns", Values::I64(self.arrival)),
            ("start_ns", Values::I64(self.start)),
            ("completion_ns", Values::I64(self.completion)),
            ("op", Values::words(self.op, &["read", "write"])),
            ("lbn", Values::U64(self.lbn)),
            ("sectors", Values::U64(self.sectors)),
            ("cache_hit", Values::flags(self.cache_hit)),
            ("seek_ns", Values::I64(self.seek)),
            ("rotation_ns", Values::I64(self.rotation)),
            ("transfer_ns", Values::I64(self.transfer)),
        ];
        columns::Table::new(columns).map(Table).map_err(refused)
    }
}
