//! Characterisation of a black-box drive: from timed reads to a profile.
//!
//! A [`Probe`] is given a [`ProbedDevice`]: a handle that executes commands and reports when they began and ended. The
//! instants at which single sectors end give their angles on the platter. A track ends where the angle no longer
//! follows from the previous sector. The time of an arm movement shows in which sectors the head still catches after
//! it. docs/PROBE.md describes the measurements in their order, with the papers that they come from.
//!
//! The probe reads no clock and starts no thread: it uses the device's times alone. The [`Journal`] of its commands is
//! its whole state; a probe that was interrupted is given its journal and continues.
//!
//! ```
//! use drive::{Command, Drive};
//! use probe::{ProbedDevice, DeviceError, Options, Probe, Timed};
//! use std::ops::ControlFlow;
//! use units::{Bytes, Instant, LbnRange, Op, RequestId, Sectors};
//!
//! /// A simulated drive: the probe knows no more of it than of a real one.
//! struct Simulated(Drive, Instant);
//!
//! impl ProbedDevice for Simulated {
//!     fn capacity(&self) -> Sectors {
//!         self.0.model().layout().capacity()
//!     }
//!     fn sector_bytes(&self) -> Bytes {
//!         self.0.model().sector_bytes()
//!     }
//!     fn now(&self) -> Instant {
//!         self.1
//!     }
//!     fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
//!         let submitted = at.max(self.1);
//!         self.0.submit(submitted, Command { id: RequestId::new(0), op, range }).unwrap();
//!         self.0.advance(self.0.next_event().unwrap());
//!         self.1 = self.0.pop_completion().unwrap().at;
//!         Ok(Timed { submitted, completed: self.1 })
//!     }
//! }
//!
//! let truth = model::builtin::find("mimic-less-capacity").unwrap();
//! let mut device = Simulated(Drive::new(&truth).unwrap(), Instant::ZERO);
//! let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
//! assert_eq!((found.profile.rpm, found.profile.heads), (truth.rpm, truth.heads));
//! assert!(found.report.check.within_50us > 0.97);
//! ```

mod buffer;
mod bus;
mod check;
mod crossing;
mod device;
mod draw;
mod elsewhere;
mod error;
mod findings;
mod fit;
mod gaps;
mod geometry;
mod journal;
mod layout;
mod mapping;
mod meter;
mod misfit;
mod moves;
mod pairs;
mod platter;
mod predict;
mod probe;
mod report;
mod revolutions;
mod seeks;
mod shape;
mod spin;
mod spread;
mod steps;
mod sure;
mod surfaces;
mod whole;
mod writes;
mod zero;
mod zone;
mod zone_spec;

pub use device::{DeviceError, ProbedDevice, Timed};
pub use error::{ProbeError, StateError};
pub use journal::Journal;
pub use meter::{Hook, Progress};
pub use predict::Predictor;
pub use probe::{Options, Probe, ProbedProfile};
pub use report::{Check, Confidence, Finding, GivenUp, Report, Unreadable, Unsure};
