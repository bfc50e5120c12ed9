//! The facts of a trace's replay, for the result.

use crate::problem::Problem;
use crate::tables::grouped;
use crate::traces::unreadable;
use serde::Serialize;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use units::Duration;
use workload::trace::{Notes, Survey, TraceFormat};
use workload::{ConfigError, Devices, ReplayAccount, ReplayError};

/// The utilisation below which the unit of a trace's times is in doubt: the drive is idle for more than 99.9% of the time.
const DOUBTFUL_UTILISATION_MAX: f64 = 0.001;

/// The facts of a replay that a result reports.
pub(crate) struct Replayed {
    pub(super) account: Rc<RefCell<ReplayAccount>>,
    pub(super) format: TraceFormat,
    pub(super) seen: Rc<RefCell<Seen>>,
    pub(super) devices: Devices,
    pub(super) guess: Option<String>,
    /// Whether the replay has the trace's own arrival times, in the format's own unit.
    pub(super) own_unit: bool,
    pub(super) path: String,
}

/// The facts of a trace: of a file after the first pass over it, of a pipe as far as it was read.
pub(super) struct Seen {
    pub(super) survey: Survey,
    pub(super) notes: Notes,
}

/// The part of the JSON output about a replay; its names are stable.
#[derive(Serialize)]
pub(crate) struct TraceJson {
    format: &'static str,
    devices: usize,
    /// The number of the replayed device; `null` for all devices.
    device: Option<u32>,
    requests: u64,
    out_of_order: Option<u64>,
    late: u64,
    wrapped: u64,
    widened: u64,
    left_out: u64,
    flushes: u64,
    discards: u64,
    forced: u64,
    notes: Vec<String>,
}

impl Replayed {
    /// Returns the part of the JSON output, for a run with this utilisation.
    pub(crate) fn json(&self, utilisation: f64) -> TraceJson {
        let account = self.account.borrow();
        let Seen { survey, notes } = &*self.seen.borrow();
        TraceJson {
            format: self.format.name(),
            devices: survey.devices.len(),
            device: match self.devices {
                Devices::Only => survey.devices.keys().next().copied(),
                Devices::One(device) => Some(device),
                Devices::Concatenated(_) => None,
            },
            requests: account.requests,
            out_of_order: survey.span.map(|_| survey.out_of_order),
            late: account.late,
            wrapped: account.wrapped,
            widened: account.widened + notes.widened,
            left_out: notes.suspect + notes.other + notes.empty,
            flushes: notes.flushes,
            discards: notes.discards,
            forced: notes.forced,
            notes: self.remarks(utilisation),
        }
    }

    /// Returns remarks on the trace for the reader of the result of a run with this utilisation, in sentences.
    pub(crate) fn remarks(&self, utilisation: f64) -> Vec<String> {
        let account = self.account.borrow();
        let Seen { survey, notes } = &*self.seen.borrow();
        let Notes { suspect, other, empty, widened, .. } = *notes;
        let replayed = |device: &u32| survey.devices.get(device).map_or(0, |device| device.requests);
        let other_devices = match &self.devices {
            Devices::One(device) => survey.requests - replayed(device),
            _ => 0,
        };
        let counts = [
            (survey.out_of_order, "were sorted by arrival"),
            (
                account.late,
                "came too late in the file to be sorted, and are replayed later than they arrived",
            ),
            (account.wrapped, "were wrapped to places on the drive"),
            (suspect, "are marked as suspect by the tracer and left out"),
            (other, "are neither reads nor writes and left out"),
            (empty, "have no bytes and are left out"),
            (widened + account.widened, "were widened to whole sectors"),
            (
                other_devices,
                "are to other devices and left out; --device all or each replays those of all devices",
            ),
        ];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0);
        let counted =
            counted.map(|(count, what)| format!("{} of the trace's records {what}", grouped(count)));
        let doubtful = self.own_unit && utilisation < DOUBTFUL_UTILISATION_MAX;
        let idle = doubtful.then(|| {
            let pause = Duration::from_nanos(survey.length().as_nanos() / survey.requests.max(1));
            format!(
                "the drive is idle for more than 99.9% of the time, with requests {:.3} s apart on average; \
                 give --time-unit if the unit of the times is another",
                pause.as_secs_f64()
            )
        });
        self.guess.iter().cloned().chain(idle).chain(counted).collect()
    }

    /// Checks that the replay has not ended before the trace.
    ///
    /// # Errors
    /// The reason why the replay ended early.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let account = self.account.borrow();
        let path = Path::new(&self.path);
        match &account.error {
            None => Ok(()),
            Some(ReplayError::Trace(error)) => Err(unreadable(path, error)),
            Some(ReplayError::Place(error)) => Err(misplaced(path, None, error)),
            Some(error @ ReplayError::OtherDevice { .. }) => {
                Err(Problem::failed(format!("{}: {error}", path.display())).help(
                    "give --device with the number of one, or replay a file in place of standard input",
                ))
            }
            Some(error) => Err(Problem::failed(format!("{}: {error}", path.display()))),
        }
    }
}

pub(super) fn misplaced(path: &Path, device: Option<u32>, error: &ConfigError) -> Problem {
    let ConfigError::RecordPastEnd { record, range, capacity } = error else {
        return Problem::failed(format!("{}: {error}", path.display()));
    };
    let of = device.map_or(String::new(), |device| format!(" of device {device}"));
    let where_ = format!("record {record}{of} ({range}) ends past the drive's {capacity} sectors");
    Problem::failed(format!("{}: {where_}", path.display())).help(if range.len() > *capacity {
        "choose a larger drive: the record alone is larger than this one"
    } else {
        "choose a larger drive, or give --wrap to let addresses wrap around"
    })
}
