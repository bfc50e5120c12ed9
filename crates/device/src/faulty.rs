//! A device with faults drawn from a seed.

use crate::block::{Abilities, Answer, Ask, Device, Failure, Run};
use crate::ring::{Ended, Work};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};

/// The faults of a device. `failing`, `late` and `lost` are shares of all requests, in thousandths; the other
/// requests succeed, except reads of bad sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The seed of all draws.
    pub seed: u64,
    /// The share of requests that fail with an I/O error. Of a failed write, some sectors from its beginning are
    /// written.
    pub failing: u16,
    /// The share of requests that are delayed: half of them on the way to the device, and half on the way back.
    pub late: u16,
    /// The longest delay.
    pub by: Duration,
    /// The share of requests that are never answered.
    pub lost: u16,
    /// Sectors that fail to be read until they are written.
    pub bad: BTreeSet<Lbn>,
}

/// A device with injected faults, for tests of its users.
///
/// ```
/// use device::{Ask, Device, Emulated, Failure, Faults, Faulty};
/// use units::{Instant, Lbn, LbnRange, Sectors};
/// # let path = std::env::temp_dir().join(format!("freeblock-faulty-{}", std::process::id()));
/// let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
/// let disk = Emulated::new(&model::builtin::find("quantum-atlas-10k")?, Default::default(), 1, file)?;
/// let faults = Faults { bad: [Lbn::new(5)].into(), ..Faults::default() };
/// let mut disk = Faulty::new(disk, faults);
/// disk.ask(Instant::ZERO, 1, LbnRange::new(Lbn::new(0), Sectors::new(8)), Ask::Read);
/// let at = disk.next_event().expect("it takes its time");
/// disk.advance(at);
/// assert!(matches!(disk.poll(at).expect("an answer").result, Err(Failure::Medium(lbn)) if lbn == Lbn::new(5)));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Faulty<D> {
    device: D,
    faults: Faults,
    rng: ChaCha8Rng,
    /// The fate of each request at the device, by the request's number.
    fates: BTreeMap<u64, Fate>,
    /// Delayed requests and answers, by the instant at which they continue, and in order of arrival.
    held: BTreeMap<(Instant, u64), HeldAnswer>,
    sequence: u64,
    done: VecDeque<Answer>,
    lost: u64,
}

#[derive(Debug)]
enum HeldAnswer {
    Ask(u64, LbnRange, Ask),
    Answer(Answer),
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Bad(Lbn),
    /// Fails with an I/O error. The number decides where a write is torn.
    Failing(u64),
    Late(Duration),
    /// The device gets the request after this delay.
    Delayed(Duration),
    Lost,
    /// A write that makes these sectors good when it completes.
    Heals(LbnRange),
}

impl<D: Device> Faulty<D> {
    /// Returns `device` with these faults.
    pub fn new(device: D, faults: Faults) -> Self {
        Self {
            device,
            rng: ChaCha8Rng::seed_from_u64(faults.seed),
            faults,
            fates: BTreeMap::new(),
            held: BTreeMap::new(),
            sequence: 0,
            done: VecDeque::new(),
            lost: 0,
        }
    }

    /// Returns the number of requests that were never answered.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Iterates over the sectors that cannot be read now.
    pub fn bad(&self) -> impl Iterator<Item = Lbn> + '_ {
        self.faults.bad.iter().copied()
    }

    /// Returns the fate of a request, or `None` if it succeeds. Each request takes the same number of draws, so that
    /// one fault does not change the others.
    fn fate(&mut self, range: LbnRange, ask: &Ask) -> Option<Fate> {
        let (draw, how) = (self.rng.next_u64() % 1000, self.rng.next_u64());
        let Faults { failing, late, by, lost, .. } = self.faults;
        let (failing, late, lost) = (u64::from(failing), u64::from(late), u64::from(lost));
        let bad = || {
            let end = range.checked_end()?;
            self.faults.bad.range(range.start()..end).next().copied()
        };
        if draw < failing {
            Some(Fate::Failing(how))
        } else if draw < failing + late {
            let by = Duration::from_nanos((how >> 1) % by.as_nanos().max(1));
            Some(if how & 1 == 0 { Fate::Late(by) } else { Fate::Delayed(by) })
        } else if draw < failing + late + lost {
            Some(Fate::Lost)
        } else {
            match ask {
                Ask::Read => bad().map(Fate::Bad),
                Ask::Write { .. } | Ask::WriteZeroes { .. } => bad().map(|_| Fate::Heals(range)),
                Ask::Flush | Ask::Discard => None,
            }
        }
    }

    /// Returns the part of a torn write that reaches the device.
    fn torn(&self, range: LbnRange, ask: Ask, how: u64) -> (LbnRange, Ask) {
        let Ask::Write { mut bytes, through } = ask else { return (range, ask) };
        let some = Sectors::new(how % range.len().get().max(1));
        let some = if some == Sectors::new(0) { range.len() } else { some };
        bytes.truncate(some.bytes(self.device.sector_bytes()).get() as usize);
        (LbnRange::new(range.start(), some), Ask::Write { bytes, through })
    }

    /// Takes the device's answers, and applies the requests' fates to them.
    fn collect(&mut self, now: Instant) {
        while let Some(answer) = self.device.poll(now) {
            match self.fates.remove(&answer.id) {
                None => self.done.push_back(answer),
                Some(Fate::Heals(range)) => {
                    if answer.result.is_ok() {
                        self.faults.bad.retain(|lbn| !range.contains(*lbn));
                    }
                    self.done.push_back(answer);
                }
                Some(Fate::Bad(lbn)) => {
                    self.done.push_back(Answer { result: Err(Failure::Medium(lbn)), ..answer });
                }
                Some(Fate::Failing(_)) => {
                    let result = Err(io::Error::other("injected by seed").into());
                    self.done.push_back(Answer { result, ..answer });
                }
                Some(Fate::Late(by)) => {
                    let at = answer.at + by;
                    self.hold(at, HeldAnswer::Answer(Answer { at, ..answer }));
                }
                // The fate of a delayed request is not stored, so this does not occur.
                Some(Fate::Delayed(_)) => self.done.push_back(answer),
                Some(Fate::Lost) => self.lost += 1,
            }
        }
    }

    fn hold(&mut self, until: Instant, held: HeldAnswer) {
        self.held.insert((until, self.sequence), held);
        self.sequence += 1;
    }

    /// Continues the requests and answers that are due at `now`.
    fn release(&mut self, now: Instant) {
        while let Some(held) = self.held.first_entry().filter(|held| held.key().0 <= now) {
            let ((at, _), held) = held.remove_entry();
            match held {
                HeldAnswer::Answer(answer) => self.done.push_back(answer),
                HeldAnswer::Ask(id, range, ask) => {
                    self.device.advance(at);
                    self.device.ask(at, id, range, ask);
                }
            }
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn sector_bytes(&self) -> Bytes {
        self.device.sector_bytes()
    }

    fn size(&self) -> Bytes {
        self.device.size()
    }

    fn abilities(&self) -> Abilities {
        self.device.abilities()
    }

    fn runs(&self, range: LbnRange) -> Vec<Run> {
        self.device.runs(range)
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        let fate = self.fate(range, &ask);
        let (range, ask) = match fate {
            Some(Fate::Failing(how)) => self.torn(range, ask, how),
            _ => (range, ask),
        };
        if let Some(Fate::Delayed(by)) = fate {
            return self.hold(now + by, HeldAnswer::Ask(id, range, ask));
        }
        if let Some(fate) = fate {
            self.fates.insert(id, fate);
        }
        self.device.ask(now, id, range, ask);
    }

    fn next_work(&mut self) -> Option<(u64, Work)> {
        self.device.next_work()
    }

    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        self.device.ended(now, work, ended);
    }

    fn next_event(&self) -> Option<Instant> {
        let held = self.held.first_key_value().map(|((at, _), _)| *at);
        let done = self.done.front().map(|answer| answer.at);
        [held, done, self.device.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant) {
        self.release(now);
        self.device.advance(now);
        self.collect(now);
        self.release(now);
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        self.collect(now);
        self.release(now);
        self.done.pop_front()
    }
}
