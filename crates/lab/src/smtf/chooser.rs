//! The choice of a host's next request.

use mimic::Learner;
use model::{DriveModel, Position};
use scheduler::policy::{AgeWeight, Base, Fcfs, Policy, Smtf, SmtfRule, Sptf, Unknown, View};
use scheduler::{Last, Mimic, Observed, Pending, Positioning, Predictor};
use std::any::Any;
use std::sync::Arc;
use units::{Duration, Instant, LbnRange, Sectors};

/// The inputs of a chooser. A chooser that knows only addresses ignores the arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The waiting requests; never empty.
    pub(crate) queue: &'a [Pending],
    /// The present instant.
    pub(crate) at: Instant,
    /// How long the disk has been idle.
    pub(crate) pause: Duration,
    /// The last request that was done.
    pub(crate) last: Option<Last>,
    /// The position of the arm.
    pub(crate) arm: Position,
}

impl<'a> Seen<'a> {
    fn choose<P: Predictor>(
        &self,
        policy: &mut impl Policy,
        predictor: &'a P,
        mimic: Option<&'a dyn Mimic>,
    ) -> usize {
        let Self { queue: pool, at, last, arm: from, .. } = *self;
        // Only VSCAN reads the drive's size, and no experiment uses VSCAN.
        let (age, capacity) = (AgeWeight::default(), Sectors::ZERO);
        policy.choose(&View { pool, at, from, predictor, last, mimic, age, capacity })
    }
}

/// A scheduler of the host's queue, which learns of each completion.
pub(crate) trait Chooser {
    /// Returns the index in the queue of the next request.
    fn choose(&mut self, seen: Seen<'_>) -> usize;

    /// Reports that the chosen request, or a read that the chooser wanted in idle time, is done.
    fn served(&mut self, done: &Observed) {
        let _ = done;
    }

    /// Returns a range to read after `last` in idle time, if the chooser wants one.
    fn wanted(&mut self, last: Last) -> Option<LbnRange> {
        let _ = last;
        None
    }
}

impl<C: Chooser + ?Sized> Chooser for Box<C> {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        (**self).choose(seen)
    }

    fn served(&mut self, done: &Observed) {
        (**self).served(done);
    }

    fn wanted(&mut self, last: Last) -> Option<LbnRange> {
        (**self).wanted(last)
    }
}

/// Greedy-optimal: the shortest positioning time, known to the nanosecond (ATC'03, section 2).
#[derive(Clone, Debug)]
pub(crate) struct GreedyOptimal(pub(crate) Arc<DriveModel>);

impl Chooser for GreedyOptimal {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        seen.choose(&mut Sptf, &*self.0, None)
    }
}

/// First come, first served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InOrder;

impl Chooser for InOrder {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        seen.choose(&mut Fcfs, &Nothing, None)
    }
}

/// A chooser that knows addresses, not the disk, and possibly has a mimic of the disk.
#[derive(Clone, Debug)]
pub(crate) struct FromOutside {
    policy: Smtf,
    mimic: Option<Box<dyn Mimic>>,
}

impl FromOutside {
    /// Returns SSTF or C-LOOK by addresses, as in ATC'03, section 2.
    pub(crate) fn base(base: Base) -> Self {
        Self { policy: Smtf::new(SmtfRule::new(Unknown::default(), base)), mimic: None }
    }

    /// Returns SMTF with a probed table, and with the default rule for distances that are not in the table.
    pub(crate) fn smtf(mimic: impl Mimic) -> Self {
        Self::online(mimic, SmtfRule::default())
    }

    /// Returns SMTF with any mimic, probed or learning from the load, and with this rule for distances whose time it
    /// does not know.
    pub(crate) fn online(mimic: impl Mimic, rule: SmtfRule) -> Self {
        Self { policy: Smtf::new(rule), mimic: Some(Box::new(mimic)) }
    }

    /// Returns the mimic if it is a learner, which learns from the times of the running load.
    pub(crate) fn learner(&self) -> Option<&Learner> {
        let mimic: &dyn Any = self.mimic()?;
        mimic.downcast_ref()
    }

    /// Returns the mimic, if the policy has one.
    pub(crate) fn mimic(&self) -> Option<&dyn Mimic> {
        self.mimic.as_deref()
    }
}

impl Chooser for FromOutside {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        seen.choose(&mut self.policy, &Nothing, self.mimic.as_deref())
    }

    fn served(&mut self, done: &Observed) {
        if let Some(mimic) = &mut self.mimic {
            mimic.observe(done);
        }
    }

    fn wanted(&mut self, last: Last) -> Option<LbnRange> {
        let mimic: &mut dyn Any = self.mimic.as_deref_mut()?;
        mimic.downcast_mut::<Learner>()?.wanted(last)
    }
}

/// A predictor for policies that ask for no positioning times.
struct Nothing;

impl Predictor for Nothing {
    fn positioning(&self, _: Position, _: Instant, _: &Pending) -> Positioning {
        Positioning { seek: Duration::ZERO, rest: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_up::drive;
    use scheduler::Request;
    use units::{Lbn, Op, RequestId, Sectors};

    fn chosen(chooser: &mut impl Chooser, last: u64, queue: &[u64]) -> u64 {
        let disk = drive("mimic-base").unwrap();
        let pending = |(i, start): (usize, &u64)| {
            let (id, sequence) = (RequestId::new(i as u64), i as u64);
            let range = LbnRange::new(Lbn::new(*start), Sectors::new(8));
            let request = Request { id, op: Op::Read, range };
            let piece = disk.layout().pieces(range).next().unwrap();
            let track = disk.layout().track(piece.track);
            Pending {
                request,
                arrived: Instant::ZERO,
                sequence,
                piece,
                track,
                promoted: None,
                follows: false,
            }
        };
        let pending: Vec<Pending> = queue.iter().enumerate().map(pending).collect();
        let last = Some(Last { op: Op::Read, lbn: Lbn::new(last) });
        let arm = Position::default();
        queue[chooser.choose(Seen { queue: &pending, at: Instant::ZERO, pause: Duration::ZERO, last, arm })]
    }

    #[test]
    fn policies_by_address_use_the_last_address() {
        assert_eq!(chosen(&mut InOrder, 107, &[60, 140, 5]), 60);
        assert_eq!(chosen(&mut FromOutside::base(Base::Sstf), 107, &[60, 140, 149]), 140);
        assert_eq!(chosen(&mut FromOutside::base(Base::Sstf), 107, &[80, 149, 5_000]), 80);
        assert_eq!(chosen(&mut FromOutside::base(Base::CLook), 107, &[80, 149, 5_000]), 149);
        assert_eq!(chosen(&mut FromOutside::base(Base::CLook), 107, &[80, 70]), 70);
    }

    #[derive(Clone, Debug)]
    struct Farthest;

    impl Mimic for Farthest {
        fn time(&self, last: Last, _: Instant, request: &Request) -> Option<Duration> {
            Some(Duration::from_nanos(1_000_000 - request.range.start().get().abs_diff(last.lbn.get())))
        }

        fn observe(&mut self, _: &Observed) {}

        fn boxed_clone(&self) -> Box<dyn Mimic> {
            Box::new(self.clone())
        }
    }

    #[test]
    fn smtf_chooses_the_shortest_time_that_the_mimic_predicts() {
        assert_eq!(chosen(&mut FromOutside::smtf(Farthest), 100, &[60, 140, 900, 149]), 900);
    }
}
