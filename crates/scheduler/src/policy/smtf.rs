//! Shortest mimicked time first: by the times that a mimic of the drive predicts.

use super::{AgeWeight, Policy, View, shortest, shortest_time};
use crate::foreground::Request;
use crate::predictor::{Last, Mimic, Predictor};
use alloc::vec::Vec;
use core::fmt;
use units::{Duration, Lbn, Op};

/// The treatment of requests whose time the mimic does not know (ATC'03, section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// Online-Set: the base policy's choice is served if its time is unknown, and so becomes known; otherwise the request with
    /// the shortest known time is served.
    #[default]
    Set,
    /// Online-Priority: the request with the shortest known time is served, if any time is known.
    Priority,
}

/// The base policy, for unknown times: it uses LBNs alone (ATC'03, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Base {
    /// The smallest difference from the last LBN accessed.
    #[default]
    Sstf,
    /// Ascending LBNs, then the lowest again.
    CLook,
}

/// The treatment of unknown times by SMTF. A table that knows every distance has none.
///
/// ```
/// use freeblock_scheduler::policy::{Base, PolicyName, SmtfRule, Unknown};
/// let rule = SmtfRule::new(Unknown::Priority, Base::CLook);
/// assert_eq!("smtf:priority:c-look".parse(), Ok(PolicyName::Smtf(rule)));
/// assert_eq!("smtf".parse(), Ok(PolicyName::Smtf(SmtfRule::default())));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SmtfRule {
    /// The treatment of unknown times.
    pub unknown: Unknown,
    /// The base policy.
    pub base: Base,
}

impl SmtfRule {
    /// Returns the treatment by `unknown`, with `base`.
    pub const fn new(unknown: Unknown, base: Base) -> Self {
        Self { unknown, base }
    }

    /// Parses the part after `smtf:` in a policy's name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (unknown, base) = text.split_once(':').unwrap_or((text, "sstf"));
        Some(Self {
            unknown: match unknown {
                "set" => Unknown::Set,
                "priority" => Unknown::Priority,
                _ => return None,
            },
            base: match base {
                "sstf" => Base::Sstf,
                "c-look" => Base::CLook,
                _ => return None,
            },
        })
    }
}

/// Writes the part after `smtf` in the policy's name: empty for the default.
impl fmt::Display for SmtfRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unknown, self.base) {
            (Unknown::Set, Base::Sstf) => Ok(()),
            (Unknown::Set, Base::CLook) => f.write_str(":set:c-look"),
            (Unknown::Priority, Base::Sstf) => f.write_str(":priority"),
            (Unknown::Priority, Base::CLook) => f.write_str(":priority:c-look"),
        }
    }
}

/// Chooses the request whose time a [`Mimic`](crate::Mimic) predicts to be the shortest (ATC'03, section 2). Without a mimic,
/// the base policy chooses.
#[derive(Clone, Debug, Default)]
pub struct Smtf {
    rule: SmtfRule,
    /// The requests and the predicted times of the last choice, whose memory the next choice reuses.
    asked: Vec<Request>,
    times: Vec<Option<Duration>>,
}

impl Smtf {
    /// Returns the policy with a treatment of unknown times.
    pub fn new(rule: SmtfRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Returns the base policy's choice after `last`.
    fn base<P: ?Sized>(&self, view: &View<'_, P>, last: Last) -> usize {
        match self.rule.base {
            Base::Sstf => shortest(view.pool, |p| p.lbn().get().abs_diff(last.lbn.get())),
            Base::CLook => shortest(view.pool, |p| (p.lbn() < last.lbn, p.lbn())),
        }
    }
}

/// The least time that an unknown time counts as under ageing: a full stroke and a revolution of a slow drive.
const UNKNOWN_TIME_MIN: Duration = Duration::from_millis(20);

impl Smtf {
    /// Returns the choice under ageing, where requests with known and with unknown times do not starve each other. The base
    /// policy's choice counts as zero if its time is unknown (with [`Unknown::Priority`] only if no time is known), and any other
    /// unknown time as the longest known one or [`UNKNOWN_TIME_MIN`]; all less their weighted ages. With small weights this
    /// approaches the choice without ageing.
    fn aged<P: ?Sized>(&self, view: &View<'_, P>, base: usize) -> usize {
        let known = || self.times.iter().copied().flatten();
        let longest = known().max().unwrap_or_default().max(UNKNOWN_TIME_MIN);
        let first = self.rule.unknown == Unknown::Set || known().next().is_none();
        let mut times = self.times.iter().enumerate();
        let aged = shortest_time(view, |_| {
            let (i, time) = times.next().map_or((base, None), |(i, time)| (i, *time));
            time.or(Some(if first && i == base { Duration::ZERO } else { longest }))
        });
        aged.unwrap_or(base)
    }
}

impl Policy for Smtf {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        let last = view.last.unwrap_or(Last { op: Op::Read, lbn: Lbn::ZERO });
        let base = self.base(view, last);
        let mimic = view.last.and(view.mimic);
        let ages = view.age != AgeWeight::default();
        let first = |mimic: &dyn Mimic| mimic.time(last, view.at, &view.pool[base].request).is_none();
        match mimic {
            None if !ages => return base,
            Some(mimic) if !ages && self.rule.unknown == Unknown::Set && first(mimic) => return base,
            None => {
                self.times.clear();
                self.times.resize(view.pool.len(), None);
            }
            Some(mimic) => {
                self.asked.clear();
                self.asked.extend(view.pool.iter().map(|pending| pending.request));
                mimic.times(last, view.at, &self.asked, &mut self.times);
            }
        }
        if ages {
            return self.aged(view, base);
        }
        let mut times = self.times.iter();
        shortest_time(view, |_| times.next().copied().flatten()).unwrap_or(base)
    }
}
