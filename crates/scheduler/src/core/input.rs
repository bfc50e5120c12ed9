//! The inputs of a core.

use super::config::Config;
use crate::background::Bad;
use crate::foreground::Request;
use crate::sessions::SessionCall;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::convert::Infallible;
use model::DriveModel;
use units::{Instant, LbnRange};

/// An input of a core, as data: a host that watches, records or replays a core does so by one `match`. `E` is the end of the
/// core's work: [`HeadEnd`] in the drive, [`CommandEnd`](crate::CommandEnd) outside it. `H` is a call of the host:
/// [`HostCall`] outside the drive; a core in the drive has no such calls. A policy or mimic of the host's own is an object,
/// not data, so no input sets it.
///
/// ```
/// # use freeblock_scheduler::model::DriveModel;
/// # use freeblock_scheduler::units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};
/// use freeblock_scheduler::{Config, Input, OutsideConfig, OutsideDrive, Priority, Request, SessionCall};
/// # let drive = DriveModel::unknown(Sectors::new(1_000_000), Bytes::new(512))?.into();
/// # let range = LbnRange::new(Lbn::new(4_711), Sectors::new(8));
/// let request = Request { id: RequestId::new(1), op: Op::Read, range };
/// let open = SessionCall::Open { priority: Priority::default() };
/// let mut core = OutsideDrive::new(drive, Config::outside(OutsideConfig::blind()));
/// for input in [Input::Call(open), Input::Submit { at: Instant::ZERO, request }] {
///     println!("{input:?} is answered {:?}", core.input(input.clone()));
/// }
/// assert_eq!((core.undelivered(SessionId::new(1)), core.pending()), (Some(0), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Input<E, H = Infallible> {
    /// A foreground request arrives.
    Submit {
        /// The time.
        at: Instant,
        /// The request.
        request: Request,
    },
    /// Work that the core gave out has ended.
    Ended {
        /// The time.
        at: Instant,
        /// The work, and its outcome.
        end: E,
    },
    /// A session makes a call. The core takes the time of its latest input or poll for the time of the call.
    Call(SessionCall),
    /// The host makes a call.
    Host(H),
}

/// A call of the host of a core [outside the drive](crate::OutsideDrive).
///
/// ```
/// use freeblock_scheduler::model::DriveModel;
/// use freeblock_scheduler::units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
/// use freeblock_scheduler::{Config, HostCall, IdleTime, Input, Outcome, Output, OutsideConfig, OutsideDrive};
/// use std::sync::Arc;
/// let drive = Arc::new(DriveModel::unknown(Sectors::new(1_000_000), Bytes::new(512))?);
/// let idle = Some(IdleTime::default());
/// let mut core = OutsideDrive::new(drive, Config::outside(OutsideConfig::blind().serving()).with_idle(idle));
/// core.input(Input::Host(HostCall::WantReadings(true)))?;
/// let range = LbnRange::new(Lbn::new(4_711), Sectors::new(1));
/// let read = Input::Host(HostCall::Read { at: Instant::ZERO, range });
/// core.input(read.clone())?;
/// let Some(Output::Do(command)) = core.poll(Instant::ZERO) else { panic!("the reading is permitted") };
/// assert!(core.input(read).is_err(), "one at a time");
/// core.command_done(Instant::ZERO + Duration::from_millis(9), command.id, Outcome::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum HostCall {
    /// The host begins (`true`) or ends (`false`) readings of its own, such as those of a probe. In between, the audit
    /// ([`OutsideConfig::audit`](crate::OutsideConfig::audit)) measures the cost of readings like that of background work.
    WantReadings(bool),
    /// The host wants to read a range for itself. The answer is the number of a command: the next poll returns that command, and
    /// the host reports its end like any other. The host may use the bytes or drop them. The estimate of the
    /// [harm of idle time](crate::Core::harm) contains the delay of foreground requests by readings, and its bound limits readings.
    Read {
        /// The time.
        at: Instant,
        /// The range.
        range: LbnRange,
    },
    /// The host has another model of the drive, as for [`OutsideDrive::adopt`](crate::OutsideDrive::adopt). Serializing this
    /// variant (feature `serde`) is an error: a host that records the core writes the drive's profile instead.
    #[cfg_attr(feature = "serde", serde(skip))]
    Adopt(Box<Adoption>),
}

/// A model of the drive that replaces another, and the configuration that belongs to it. Two adoptions are equal if their
/// configurations are equal and they share one model in memory.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// The model.
    pub drive: Arc<DriveModel>,
    /// The configuration.
    pub config: Config,
}

impl PartialEq for Adoption {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.drive, &other.drive) && self.config == other.config
    }
}

impl Eq for Adoption {}

/// The end of the outstanding [`HeadWork::Execute`](crate::HeadWork::Execute) of a core in the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEnd<'a> {
    /// The work is done except these sectors. Only the requests and blocks that contain them fail.
    Done(Bad<'a>),
    /// The work was lost; whether it reached the medium is unknown. The foreground request is repeated before any other work, and
    /// the background blocks are wanted again.
    Lost,
}
