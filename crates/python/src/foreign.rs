//! Objects of Python that take part in a simulation.

use crate::values::{self, op_name, refused};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use scheduler::policy::{Choice, ForeignPolicy};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use workload::{Request, Source};

/// The first exception of an object of Python. The scheduler's calls cannot return it, so it is kept until the run has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<PyErr>>>);

impl Trouble {
    /// Keeps an exception unless there is one already.
    pub(crate) fn keep(&self, error: PyErr) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(error);
    }

    /// Returns whether there is an exception.
    pub(crate) fn is_any(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the exception as an error.
    pub(crate) fn check(&self) -> PyResult<()> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns whether a run has to end: because of an exception, or of a signal for which Python's handler raises one, which
    /// is kept.
    pub(crate) fn stops(&self) -> bool {
        if !self.is_any()
            && let Err(error) = Python::attach(|py| py.check_signals())
        {
            self.keep(error);
        }
        self.is_any()
    }
}

/// A waiting request, as a policy sees it.
#[pyclass(frozen, get_all, module = "freeblock")]
pub(crate) struct Waiting {
    /// The host's number for the request.
    id: u64,
    /// "read" or "write".
    op: &'static str,
    /// The first LBN.
    lbn: u64,
    /// The number of sectors.
    sectors: u64,
    /// The time of arrival, in ns.
    arrived: u64,
    /// The predicted duration of the arm's move to the request, in ns.
    seek: u64,
    /// The predicted time from the end of that move to the first sector, in ns: rotational latency, and settling before a
    /// write.
    rest: u64,
}

#[pymethods]
impl Waiting {
    fn __repr__(&self) -> String {
        let Self { id, op, lbn, sectors, arrived, seek, rest } = self;
        format!(
            "Waiting(id={id}, op={op:?}, lbn={lbn}, sectors={sectors}, arrived={arrived}, seek={seek}, rest={rest})"
        )
    }
}

/// A policy that is a callable of Python: it gets the waiting requests and the time in ns, and returns the index of the next.
pub(crate) struct PythonPolicy {
    pub(crate) choose: Py<PyAny>,
    pub(crate) trouble: Trouble,
}

impl fmt::Debug for PythonPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonPolicy")
    }
}

impl ForeignPolicy for PythonPolicy {
    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        // After an exception the run goes on for some requests, whose results are discarded.
        if self.trouble.is_any() {
            return 0;
        }
        let chosen = Python::attach(|py| -> PyResult<usize> {
            let pool = choice.pool.iter().map(|pending| {
                let positioning = choice.positioning(pending);
                let request = pending.request;
                Waiting {
                    id: request.id.get(),
                    op: op_name(request.op),
                    lbn: request.range.start().get(),
                    sectors: request.range.len().get(),
                    arrived: pending.arrived.as_nanos(),
                    seek: positioning.seek.as_nanos(),
                    rest: positioning.rest.as_nanos(),
                }
            });
            let pool: PyResult<Vec<Bound<'_, Waiting>>> =
                pool.map(|waiting| Bound::new(py, waiting)).collect();
            let pool = PyList::new(py, pool?)?;
            let chosen: usize = self.choose.bind(py).call1((pool, choice.at.as_nanos()))?.extract()?;
            if chosen >= choice.pool.len() {
                let most = choice.pool.len() - 1;
                return Err(refused(format_args!(
                    "the policy chose request {chosen} of 0 to {most}; return an index of the list"
                )));
            }
            Ok(chosen)
        });
        chosen.unwrap_or_else(|error| {
            self.trouble.keep(error);
            0
        })
    }

    fn boxed_clone(&self) -> Box<dyn ForeignPolicy> {
        let choose = Python::attach(|py| self.choose.clone_ref(py));
        Box::new(Self { choose, trouble: self.trouble.clone() })
    }
}

/// Requests from an iterator of Python, each `(op, lbn, sectors)`.
pub(crate) struct PythonSource {
    pub(crate) requests: Py<PyIterator>,
    pub(crate) trouble: Trouble,
    pub(crate) ended: bool,
}

impl Source for PythonSource {
    fn next_request(&mut self) -> Option<Request> {
        if self.ended || self.trouble.is_any() {
            return None;
        }
        let next = Python::attach(|py| -> PyResult<Option<Request>> {
            let Some(next) = self.requests.bind(py).clone().next() else { return Ok(None) };
            let (op, lbn, sectors): (String, u64, u64) = next?.extract()?;
            if sectors == 0 {
                return Err(refused(format_args!("a request of no sectors at LBN {lbn}; give at least one")));
            }
            Ok(Some(Request { op: values::op(&op)?, range: values::range(lbn, sectors)? }))
        });
        let next = next.unwrap_or_else(|error| {
            self.trouble.keep(error);
            None
        });
        self.ended = next.is_none();
        next
    }
}
