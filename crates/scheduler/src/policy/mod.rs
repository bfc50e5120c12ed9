//! Foreground policies: each chooses the next of the pending requests, and has a file of its own.
//!
//! Most policies choose the request with the smallest value of some key; ties go to the earlier arrival.

mod asptf;
mod c_look;
mod fcfs;
mod foreign;
mod look;
mod scan;
mod smtf;
mod sptf;
mod sptf_sw;
mod sstf;
mod vscan;

pub use asptf::Asptf;
pub use c_look::CLook;
pub use fcfs::Fcfs;
pub use foreign::{Choice, ForeignPolicy};
pub use look::Look;
pub use scan::Scan;
pub use smtf::{Base, Smtf, SmtfRule, Unknown};
pub use sptf::Sptf;
pub use sptf_sw::SptfSw;
pub use sstf::Sstf;
pub use vscan::VScan;

use crate::foreground::Pending;
use crate::predictor::{Last, Mimic, Predictor};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use model::Position;
use thiserror::Error;
#[cfg(not(feature = "std"))]
use units::Float as _;
use units::{Duration, Instant, Lbn, Sectors};

/// The input of a policy.
pub struct View<'a, P: ?Sized> {
    /// The waiting requests, in no order; never empty.
    pub pool: &'a [Pending],
    /// The current time.
    pub at: Instant,
    /// The position of the arm.
    pub from: Position,
    /// The predictor of positioning times.
    pub predictor: &'a P,
    /// The last access, if there was one.
    pub last: Option<Last>,
    /// The mimic of the drive, for SMTF.
    pub mimic: Option<&'a dyn Mimic>,
    /// The weight of a request's waiting time against the policy's key.
    pub age: AgeWeight,
    /// The drive's size.
    pub capacity: Sectors,
}

/// A rule that chooses the next foreground request.
pub trait Policy {
    /// Returns the index in the pool of the next request.
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize;

    /// Returns the address that the arm passes on its way to the last choice, on a drive of this size; `None` if the arm goes
    /// directly. Only a core in the drive can move the arm so.
    fn passes(&self, capacity: Sectors) -> Option<Lbn> {
        let _ = capacity;
        None
    }
}

/// The share of a request's waiting time that is subtracted from its key, so that no request starves (the "aged" variants of
/// Jacobson and Wilkes, 1991). With zero, the default, the waiting time does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgeWeight {
    millionths: u32,
}

impl AgeWeight {
    /// Returns a weight in millionths: 6,000 subtracts 6 us from the key for each millisecond of waiting.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self { millionths }
    }

    /// Returns `key` in nanoseconds less the weighted time since `arrived`.
    #[inline]
    pub fn apply(self, key: Duration, at: Instant, arrived: Instant) -> i64 {
        let waited =
            u128::from(at.saturating_since(arrived).as_nanos()) * u128::from(self.millionths) / 1_000_000;
        key.as_nanos() as i64 - waited.min(i64::MAX as u128 / 2) as i64
    }
}

/// Returns the index of the smallest key; ties go to the earlier arrival.
#[inline]
pub(crate) fn shortest<K: Ord>(pool: &[Pending], mut key: impl FnMut(&Pending) -> K) -> usize {
    let mut best = 0;
    let mut best_key = None;
    for (i, pending) in pool.iter().enumerate() {
        let k = (key(pending), pending.sequence);
        if best_key.as_ref().is_none_or(|b| k < *b) {
            best_key = Some(k);
            best = i;
        }
    }
    best
}

/// Returns the index of the request with the shortest time less its weighted age, by SPTF's or SMTF's predictor. Requests whose
/// time is `None` come last; the result is `None` if no time is known.
#[inline]
pub(crate) fn shortest_time<P: ?Sized>(
    view: &View<'_, P>,
    mut time: impl FnMut(&Pending) -> Option<Duration>,
) -> Option<usize> {
    let mut any = false;
    let chosen = shortest(view.pool, |p| {
        let key = time(p).map(|time| view.age.apply(time, view.at, p.arrived));
        any |= key.is_some();
        (key.is_none(), key)
    });
    any.then_some(chosen)
}

/// A policy by name.
///
/// ```
/// use freeblock_scheduler::policy::PolicyName;
/// assert_eq!("sptf-sw:40".parse::<PolicyName>().unwrap().to_string(), "sptf-sw:40");
/// assert!("sjf".parse::<PolicyName>().unwrap_err().to_string().contains("c-look"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyName {
    /// First come, first served.
    Fcfs,
    /// Ascending LBNs, then the lowest again.
    CLook,
    /// Up to the last request and down again.
    Look,
    /// Up to the end of the drive and down again.
    Scan,
    /// A policy between shortest distance first and [`Look`](Self::Look), according to its R.
    VScan(SweepWeight),
    /// Shortest seek first.
    Sstf,
    /// Shortest positioning time first.
    Sptf,
    /// Shortest positioning time less a part of the time waited.
    Asptf(AgeWeight),
    /// Shortest seek among the requests whose positioning time is near the shortest.
    SptfSw(SeekWeight),
    /// Shortest time first, as predicted by a mimic.
    Smtf(SmtfRule),
}

/// The `n` of SPTF-SWn%: how much longer than the shortest a positioning time may be, in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekWeight {
    /// `None` means no limit, which makes the policy SSTF.
    hundredths: Option<u32>,
}

impl SeekWeight {
    /// No limit.
    pub const UNLIMITED: Self = Self { hundredths: None };

    /// Returns the weight of whole percents.
    pub const fn percent(percent: u16) -> Self {
        Self { hundredths: Some(percent as u32 * 100) }
    }

    /// Returns the longest positioning time that still counts as near `shortest`.
    #[inline]
    pub fn limit(self, shortest: Duration) -> Duration {
        match self.hundredths {
            None => Duration::MAX,
            Some(n) => {
                shortest
                    + Duration::from_nanos((u128::from(shortest.as_nanos()) * u128::from(n) / 10_000) as u64)
            }
        }
    }
}

/// The R of V(R), from 0 to 1: the penalty of an address against the current direction, as a part of the drive's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepWeight {
    millionths: u32,
}

impl SweepWeight {
    /// Returns the weight in millionths; 1,000,000 is the largest.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self { millionths: if millionths > WHOLE_MILLIONTHS { WHOLE_MILLIONTHS } else { millionths } }
    }

    /// Returns the penalty in sectors on a drive of this size.
    #[inline]
    pub(crate) fn of(self, capacity: Sectors) -> u128 {
        u128::from(capacity.get()) * u128::from(self.millionths) / u128::from(WHOLE_MILLIONTHS)
    }
}

const WHOLE_MILLIONTHS: u32 = 1_000_000;

/// An unknown name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown policy {name:?}: {problem}; the policies are fcfs, c-look, look, scan, vscan:R (R from 0 to 1), sstf, sptf, asptf:W (W ms for each second waited), sptf-sw:N (N percent, as 40 or 62.5, or inf) and smtf or smtf:UNKNOWN:BASE (set or priority; sstf or c-look)"
)]
pub struct UnknownPolicy {
    name: String,
    problem: &'static str,
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let unknown = |problem| UnknownPolicy { name: name.to_owned(), problem };
        match name {
            "fcfs" => Ok(Self::Fcfs),
            "c-look" => Ok(Self::CLook),
            "sstf" => Ok(Self::Sstf),
            "sptf" => Ok(Self::Sptf),
            "look" => Ok(Self::Look),
            "scan" => Ok(Self::Scan),
            "vscan" => Err(unknown("vscan needs its R")),
            "asptf" => Err(unknown("asptf needs its W")),
            _ if name.starts_with("vscan:") => number(&name["vscan:".len()..], 1.0)
                .map(|r| Self::VScan(SweepWeight::from_millionths((r * 1e6).round() as u32)))
                .ok_or_else(|| unknown("R must be a number from 0 to 1")),
            _ if name.starts_with("asptf:") => number(&name["asptf:".len()..], 1_000_000.0)
                .map(|w| Self::Asptf(AgeWeight::from_millionths((w * 1e3).round() as u32)))
                .ok_or_else(|| unknown("W must be a number from 0 to 1000000")),
            "sptf-sw" => Err(unknown("sptf-sw needs its percentage")),
            "smtf" => Ok(Self::Smtf(SmtfRule::default())),
            _ if name.starts_with("smtf:") => SmtfRule::parse(&name["smtf:".len()..])
                .map(Self::Smtf)
                .ok_or_else(|| unknown("smtf takes set or priority, and then sstf or c-look")),
            _ => match name.strip_prefix("sptf-sw:") {
                Some("inf") => Ok(Self::SptfSw(SeekWeight::UNLIMITED)),
                Some(n) => {
                    let bad = || unknown("the percentage must be a number from 0 to 100000");
                    let percent = number(n, 100_000.0).ok_or_else(bad)?;
                    Ok(Self::SptfSw(SeekWeight { hundredths: Some((percent * 100.0).round() as u32) }))
                }
                None => Err(unknown("no policy has this name")),
            },
        }
    }
}

/// Reads a number from 0 to `most`.
fn number(text: &str, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (0.0..=most).contains(number))
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fcfs => f.write_str("fcfs"),
            Self::CLook => f.write_str("c-look"),
            Self::Look => f.write_str("look"),
            Self::Scan => f.write_str("scan"),
            Self::VScan(weight) => write!(f, "vscan:{}", f64::from(weight.millionths) / 1e6),
            Self::Asptf(weight) => write!(f, "asptf:{}", f64::from(weight.millionths) / 1e3),
            Self::Sstf => f.write_str("sstf"),
            Self::Sptf => f.write_str("sptf"),
            Self::Smtf(rule) => write!(f, "smtf{rule}"),
            Self::SptfSw(SeekWeight { hundredths: None }) => f.write_str("sptf-sw:inf"),
            Self::SptfSw(SeekWeight { hundredths: Some(n) }) if n % 100 == 0 => {
                write!(f, "sptf-sw:{}", n / 100)
            }
            Self::SptfSw(SeekWeight { hundredths: Some(n) }) => {
                write!(f, "sptf-sw:{}", f64::from(*n) / 100.0)
            }
        }
    }
}

/// Any of the policies, with its state.
#[derive(Clone, Debug)]
pub(crate) enum AnyPolicy {
    Fcfs(Fcfs),
    CLook(CLook),
    Look(Look),
    Scan(Scan),
    VScan(VScan),
    Sstf(Sstf),
    Sptf(Sptf),
    Asptf(Asptf),
    SptfSw(SptfSw),
    Smtf(Smtf),
    Foreign(Box<dyn ForeignPolicy>),
}

impl From<PolicyName> for AnyPolicy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Fcfs => Self::Fcfs(Fcfs),
            PolicyName::CLook => Self::CLook(CLook::default()),
            PolicyName::Look => Self::Look(Look::default()),
            PolicyName::Scan => Self::Scan(Scan::default()),
            PolicyName::VScan(weight) => Self::VScan(VScan::new(weight)),
            PolicyName::Asptf(weight) => Self::Asptf(Asptf::new(weight)),
            PolicyName::Sstf => Self::Sstf(Sstf),
            PolicyName::Sptf => Self::Sptf(Sptf),
            PolicyName::SptfSw(weight) => Self::SptfSw(SptfSw::new(weight)),
            PolicyName::Smtf(rule) => Self::Smtf(Smtf::new(rule)),
        }
    }
}

impl Policy for AnyPolicy {
    #[inline]
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        match self {
            Self::Fcfs(p) => p.choose(view),
            Self::CLook(p) => p.choose(view),
            Self::Look(p) => p.choose(view),
            Self::Scan(p) => p.choose(view),
            Self::VScan(p) => p.choose(view),
            Self::Asptf(p) => p.choose(view),
            Self::Sstf(p) => p.choose(view),
            Self::Sptf(p) => p.choose(view),
            Self::SptfSw(p) => p.choose(view),
            Self::Smtf(p) => p.choose(view),
            Self::Foreign(p) => Policy::choose(p, view),
        }
    }

    #[inline]
    fn passes(&self, capacity: Sectors) -> Option<Lbn> {
        match self {
            Self::Scan(p) => p.passes(capacity),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
