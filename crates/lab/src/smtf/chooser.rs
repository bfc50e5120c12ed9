//! How a host chooses the next of its queue.

use model::{DriveModel, Position};
use scheduler::policy::{AgeWeight, CLook, Fcfs, Policy, Sptf, Sstf, View};
use scheduler::{Pending, Positioning, Predictor, Request};
use std::sync::Arc;
use units::{Duration, Instant, Lbn};

/// What a chooser may look at. One that knows no disk leaves the arm alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// What waits; never empty.
    pub(crate) queue: &'a [Pending],
    /// Now.
    pub(crate) at: Instant,
    /// Where the arm is.
    pub(crate) arm: Position,
}

impl<'a> Seen<'a> {
    fn view<P>(&self, predictor: &'a P) -> View<'a, P> {
        View { pool: self.queue, at: self.at, from: self.arm, predictor, age: AgeWeight::default() }
    }
}

/// Chooses the next request, and is told of each that is done.
pub(crate) trait Chooser {
    /// The index in the queue of the one that goes next.
    fn choose(&mut self, seen: Seen<'_>) -> usize;

    /// What was chosen last is done, after so long at the disk.
    fn served(&mut self, request: Request, took: Duration);
}

impl<C: Chooser + ?Sized> Chooser for Box<C> {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        (**self).choose(seen)
    }

    fn served(&mut self, request: Request, took: Duration) {
        (**self).served(request, took);
    }
}

/// Greedy-optimal: the shortest positioning time, which it knows to the nanosecond (ATC'03, section 2).
#[derive(Clone, Debug)]
pub(crate) struct GreedyOptimal(pub(crate) Arc<DriveModel>);

impl Chooser for GreedyOptimal {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        Sptf.choose(&seen.view(&*self.0))
    }

    fn served(&mut self, _: Request, _: Duration) {}
}

/// The traditional schedulers of section 2, which know nothing but addresses: the "seek" of a request is how far it
/// begins from where the last one ended.
#[derive(Clone, Debug)]
pub(crate) enum ByAddress {
    /// First come, first served.
    Fcfs,
    /// Ascending, then the lowest again.
    CLook(CLook),
    /// The nearest to the last LBN accessed.
    Sstf(Near),
}

impl ByAddress {
    /// C-LOOK.
    pub(crate) fn c_look() -> Self {
        Self::CLook(CLook::default())
    }

    /// SSTF.
    pub(crate) fn sstf() -> Self {
        Self::Sstf(Near::default())
    }
}

/// How far a request is from the last LBN accessed, as if a sector were a nanosecond.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Near {
    last: Lbn,
}

impl Predictor for Near {
    fn positioning(&self, _: Position, _: Instant, request: &Pending) -> Positioning {
        let sectors = request.lbn().get().abs_diff(self.last.get());
        Positioning { seek: Duration::from_nanos(sectors), rest: Duration::ZERO }
    }
}

impl Chooser for ByAddress {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        // The first two ask for no times.
        let nowhere = Near::default();
        match self {
            Self::Fcfs => Fcfs.choose(&seen.view(&nowhere)),
            Self::CLook(policy) => policy.choose(&seen.view(&nowhere)),
            Self::Sstf(near) => Sstf.choose(&seen.view(near)),
        }
    }

    fn served(&mut self, request: Request, _: Duration) {
        if let Self::Sstf(near) = self {
            near.last = request.range.end();
        }
    }
}

/// Says how long a request would take after the last one.
pub(crate) trait Mimicked {
    /// Nanoseconds, for a request to `next` after one to `last`.
    fn time(&mut self, last: Request, next: Request) -> u64;
}

/// Shortest mimicked time first; of equals the one that came first.
#[derive(Clone, Debug)]
pub(crate) struct Smtf<M> {
    mimic: M,
    last: Option<Request>,
    predicted: Option<u64>,
}

impl<M: Mimicked> Smtf<M> {
    /// With this table.
    pub(crate) fn new(mimic: M) -> Self {
        Self { mimic, last: None, predicted: None }
    }

    /// The request that was done last.
    pub(crate) fn last(&self) -> Option<Request> {
        self.last
    }

    /// The time of the request chosen last, ns; `None` of the first one.
    pub(crate) fn predicted(&self) -> Option<u64> {
        self.predicted
    }
}

impl<M: Mimicked> Chooser for Smtf<M> {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        let Some(last) = self.last else { return 0 };
        let times = seen.queue.iter().enumerate();
        let times = times.map(|(i, p)| ((self.mimic.time(last, p.request), p.sequence), i));
        let best = times.min();
        self.predicted = best.map(|((ns, _), _)| ns);
        best.map_or(0, |(_, i)| i)
    }

    fn served(&mut self, request: Request, _: Duration) {
        self.last = Some(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_up::drive;
    use units::{LbnRange, Op, RequestId, Sectors};

    fn request(start: u64) -> Request {
        Request {
            id: RequestId::new(start),
            op: Op::Read,
            range: LbnRange::new(Lbn::new(start), Sectors::new(8)),
        }
    }

    fn chosen(chooser: &mut impl Chooser, last: u64, queue: &[u64]) -> u64 {
        let disk = drive("mimic-base").unwrap();
        let pending = |(sequence, start): (usize, &u64)| {
            let request = request(*start);
            let piece = disk.layout().pieces(request.range).next().unwrap();
            let track = disk.layout().track(piece.track);
            let sequence = sequence as u64;
            Pending { request, arrived: Instant::ZERO, sequence, piece, track, promoted: None }
        };
        let pending: Vec<Pending> = queue.iter().enumerate().map(pending).collect();
        chooser.served(request(last), Duration::from_millis(1));
        queue[chooser.choose(Seen { queue: &pending, at: Instant::ZERO, arm: Position::default() })]
    }

    #[test]
    fn sstf_goes_to_the_nearest_address_from_where_the_last_ended() {
        assert_eq!(chosen(&mut ByAddress::sstf(), 100, &[60, 140, 149]), 140);
        assert_eq!(chosen(&mut ByAddress::sstf(), 100, &[80, 149, 5_000]), 80);
    }

    struct Farthest;

    impl Mimicked for Farthest {
        fn time(&mut self, last: Request, next: Request) -> u64 {
            1_000_000 - next.range.start().get().abs_diff(last.range.start().get())
        }
    }

    #[test]
    fn smtf_goes_by_the_mimic_alone() {
        let mut smtf = Smtf::new(Farthest);
        assert_eq!(chosen(&mut smtf, 100, &[60, 140, 900, 149]), 900);
        assert_eq!(smtf.predicted(), Some(1_000_000 - 800));
    }
}
