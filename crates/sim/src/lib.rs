//! Virtual time: hosts the scheduler core on a simulated drive, and measures its results.
//!
//! [`Inside`] is the core in the drive's firmware: it knows the mechanics exactly and moves the head itself.
//! [`Outside`] is the core in front of a drive: it sends commands and sees completions. [`Direct`] is a load on a
//! device without any core, perhaps beside a background reader without a core ([`Rival`]). [`Array`] is several
//! drives with a core each under one load: concatenation, striping, mirror, RAID 5. [`Volume`] is a drive with bytes
//! on its medium, a core in it or outside, applications over the core, and faults. Nothing here sleeps or reads a
//! clock; a run jumps from event to event, and the same set-up gives the same result.

mod array;
mod cache_report;
mod direct;
mod head;
mod inside;
mod observer;
mod outside;
mod placed;
mod report;
mod rival;
mod series;
mod statistics;
mod trust;
mod volume;

pub use array::{
    Array, ArrayError, ArrayLayout, ArrayMap, DRIVES_MAX, Drives, Member, MemberCommand, MirrorReads, Step,
    UNIT_MAX, UnknownLayout,
};
pub use cache_report::{CacheCommands, CacheReport};
pub use direct::{Direct, Done};
pub use inside::{Background, Inside};
pub use observer::{Finished, Nothing, Observer, SetupError};
pub use outside::{Outside, black_box};
pub use placed::{PlacedCore, PlacedWork};
pub use report::{
    BackgroundReport, ForegroundReport, HeadNanos, HeadTime, Report, ResponseReport, ScanProgress,
};
pub use rival::{Rival, When};
pub use series::{INTERVALS_MAX, Interval, Series, SeriesError};
pub use statistics::{Ended, Statistics};
pub use trust::Trust;
pub use volume::{
    Completion, Content, Cure, Faults, Hosted, Passed, Place, Platters, Tally, TrueDrive, Volume,
    VolumeError, VolumeReport,
};
