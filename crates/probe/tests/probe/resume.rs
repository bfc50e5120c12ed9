//! A probe's decisions depend only on its journal: after a cut at any command it continues to exactly the same profile
//! and report, if the drive gives the same answers.

use crate::common::{self, Cut, Emulated};
use model::{Profile, builtin};
use probe::{DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, ProbedProfile, Timed};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use units::{Bytes, Instant, Lbn, LbnRange, Op, Sectors};

/// A command with its times, or two commands that were sent together.
type Call = Vec<((Op, LbnRange), Timed)>;

/// A drive whose answers are recorded for a [`Twin`].
struct Kept<'d> {
    device: &'d mut dyn ProbedDevice,
    calls: Vec<Call>,
}

impl ProbedDevice for Kept<'_> {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.device.sector_bytes()
    }

    fn now(&self) -> Instant {
        self.device.now()
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let timed = self.device.execute(at, op, range)?;
        self.calls.push(vec![((op, range), timed)]);
        Ok(timed)
    }

    fn takes_two(&self) -> bool {
        self.device.takes_two()
    }

    fn execute_two(&mut self, at: Instant, two: [(Op, LbnRange); 2]) -> Result<[Timed; 2], DeviceError> {
        let times = self.device.execute_two(at, two)?;
        self.calls.push(two.into_iter().zip(times).collect());
        Ok(times)
    }
}

/// The number of reads that a probe repeats after a pause to find the platter's angle, and a bound on the number of
/// last single-sector reads from which they are chosen.
const REPEATED_READS: usize = 15;
const LAST_READS: usize = 200;

fn is_single((op, range): (Op, LbnRange)) -> bool {
    op == Op::Read && range.len() == Sectors::new(1)
}

/// Returns the last reads of single sectors: few, so that reads elsewhere are not mistaken for repeats of them.
fn late(calls: &[Call]) -> impl Iterator<Item = (Lbn, Instant)> {
    let single = calls.iter().rev().flatten().filter(|c| is_single(c.0));
    single.take(LAST_READS).map(|&((_, range), timed)| (range.start(), timed.completed))
}

/// A drive that gives the recorded answers. The pause before it was whole revolutions, so the answers stay right.
struct Twin {
    capacity: Sectors,
    sector_bytes: Bytes,
    takes_two: bool,
    now: Instant,
    /// The revolution time, ns, from the state file.
    revolution: f64,
    /// The ends of the last reads of single sectors, any of which may be repeated.
    ended: BTreeMap<Lbn, Instant>,
    repeated: usize,
    rest: VecDeque<Call>,
}

impl Twin {
    /// Returns the drive that continues `calls` after this number of commands of a probe that left `state`.
    fn after(device: &dyn ProbedDevice, calls: &[Call], commands: usize, state: &[u8]) -> Self {
        let (mut done, mut counted) = (0, 0);
        while counted < commands {
            counted += calls[done].len();
            done += 1;
        }
        Self {
            capacity: device.capacity(),
            sector_bytes: device.sector_bytes(),
            takes_two: device.takes_two(),
            now: calls[..done].iter().flatten().map(|call| call.1.completed).max().unwrap(),
            // The revolution time stands behind the magic bytes, the capacity, the sectors' size and the seed.
            revolution: f64::from_bits(u64::from_le_bytes(state[32..40].try_into().unwrap())),
            ended: late(&calls[..done]).collect(),
            repeated: 0,
            rest: calls[done..].to_vec().into(),
        }
    }

    /// Returns an instant after now that is whole revolutions after `instant`, to a part of a nanosecond.
    fn later(&self, instant: Instant) -> Instant {
        let least = (self.now.as_nanos() + 20_000_000 - instant.as_nanos()) as f64 / self.revolution;
        let revolutions = (least.ceil() as u64..)
            .map(|revolutions| revolutions as f64 * self.revolution)
            .find(|ns| (0.05..0.4).contains(&ns.fract()))
            .unwrap();
        Instant::from_nanos(instant.as_nanos() + revolutions as u64)
    }

    fn next<const N: usize>(&mut self, wanted: [(Op, LbnRange); N]) -> [Timed; N] {
        let call = self.rest.pop_front().unwrap();
        assert_eq!(call.iter().map(|c| c.0).collect::<Vec<_>>(), wanted);
        self.now = self.now.max(call.iter().map(|c| c.1.completed).max().unwrap());
        std::array::from_fn(|i| call[i].1)
    }
}

impl ProbedDevice for Twin {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn sector_bytes(&self) -> Bytes {
        self.sector_bytes
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn execute(&mut self, _: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        if self.repeated == REPEATED_READS {
            return Ok(self.next([(op, range)])[0]);
        }
        let submitted = self.now;
        // A read of another sector is one that evicts the sectors to repeat; its time does not matter.
        self.now = match self.ended.get(&range.start()) {
            Some(&ended) => {
                self.repeated += 1;
                self.later(ended)
            }
            None => submitted + units::Duration::from_millis(10),
        };
        Ok(Timed { submitted, completed: self.now })
    }

    fn takes_two(&self) -> bool {
        self.takes_two
    }

    fn execute_two(&mut self, _: Instant, two: [(Op, LbnRange); 2]) -> Result<[Timed; 2], DeviceError> {
        Ok(self.next(two))
    }
}

/// Returns whether each repeated read can be identified after these calls, because no sector was read twice recently.
fn are_distinct(calls: &[Call]) -> bool {
    let mut lbns: Vec<Lbn> = late(calls).map(|c| c.0).collect();
    let reads = lbns.len();
    lbns.sort_unstable();
    lbns.dedup();
    lbns.len() == reads
}

fn run(probe: &mut Probe, device: &mut dyn ProbedDevice) -> Result<ProbedProfile, ProbeError> {
    probe.run(device, &mut |_| ControlFlow::Continue(()))
}

fn goes_on_to_the_same(truth: &Profile, options: &Options, seed: u64, places: usize) {
    let mut device = Emulated::noisy(truth, seed);
    let mut kept = Kept { device: &mut device, calls: Vec::new() };
    let whole = run(&mut Probe::new(options.clone()), &mut kept).unwrap();
    let calls = kept.calls;
    let commands: usize = calls.iter().map(Vec::len).sum();
    // The cuts lie between the point at which the revolution time is known and some sectors were read again, and the
    // end.
    let distinct: Vec<usize> =
        (calls.len() / 10..calls.len() - 1).step_by(7).filter(|&n| are_distinct(&calls[..=n])).collect();
    assert!(distinct.len() > 10 * places, "{}: {} of {}", truth.name, distinct.len(), calls.len());
    for place in 0..places {
        let left: usize = calls[..=distinct[distinct.len() * place / places]].iter().map(Vec::len).sum();
        let mut begun = Emulated::noisy(truth, seed);
        let mut probe = Probe::new(options.clone());
        let mut cut = Cut { device: &mut begun, left: left as u64 };
        assert!(matches!(run(&mut probe, &mut cut), Err(ProbeError::Device(_))), "{left}");
        let state = probe.journal().to_bytes();
        let done = probe.journal().commands() as usize;
        let mut twin = Twin::after(&begun, &calls, done, &state);
        let journal = Journal::from_bytes(&state, "state").unwrap();
        let found = run(&mut Probe::resume(options.clone(), journal).unwrap(), &mut twin).unwrap();
        assert!(found == whole, "{}: after {done} of {commands} commands", truth.name);
    }
}

/// The times and the speed vary, on drives that are found as a whole and on drives of which little is found.
#[test]
fn a_probe_cut_off_resumes_to_the_same_result_if_the_answers_are_the_same() {
    let small = builtin::find("mimic-less-capacity").unwrap();
    let (small_places, places) = testing::sized((1, 1), (6, 4));
    goes_on_to_the_same(&small, &Options::default(), 1, small_places);
    let region = LbnRange::new(Lbn::new(100_000), Sectors::new(20_001));
    goes_on_to_the_same(&small, &Options { writes: Some(region), ..Options::default() }, 2, small_places);
    for random in [12, 29] {
        goes_on_to_the_same(&common::random(random), &Options::default(), 1, places);
    }
}
