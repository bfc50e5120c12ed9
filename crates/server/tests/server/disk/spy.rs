//! A device that checks the commands sent to it: the content of the medium, and which commands are in flight
//! together.

use device::{Abilities, Answer, Ask, Device, Emulated, Ended, Failure, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use units::{Bytes, Instant, Lbn, LbnRange};

pub const SECTOR: usize = 512;

/// Returns the content of a sector that is filled with one number.
pub fn stamped(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(SECTOR / 8)
}

pub fn stamps(bytes: &[u8]) -> Vec<u64> {
    let sectors = bytes.chunks(SECTOR).map(|sector| {
        assert!(sector.chunks(8).all(|eight| eight == &sector[..8]), "a sector of two writes");
        u64::from_le_bytes(sector[..8].try_into().unwrap())
    });
    sectors.collect()
}

/// The true state of the medium.
#[derive(Debug, Default)]
pub struct Truth {
    pub sectors: Vec<u64>,
    /// Sectors that fail to be read until they are written.
    pub bad: BTreeSet<u64>,
    /// Sectors written and not flushed, with the event at which the write was answered.
    pub volatile: BTreeMap<u64, u64>,
    /// Discarded sectors, whose content is undefined.
    pub discarded: BTreeSet<u64>,
    /// Whether writes are to fail.
    pub failing: bool,
    pub event: u64,
    at_device: BTreeMap<u64, (LbnRange, Kind)>,
    pub most_at_device: usize,
    pub flushes: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Read,
    Write { stamps: Vec<u64>, through: bool },
    Failing,
    Discard,
    Flush { since: u64 },
}

impl Truth {
    pub fn of(&self, range: LbnRange) -> &[u64] {
        &self.sectors[range.start().get() as usize..range.end().get() as usize]
    }

    pub fn first_bad(&self, range: LbnRange) -> Option<Lbn> {
        self.bad.range(range.start().get()..range.end().get()).next().map(|lbn| Lbn::new(*lbn))
    }

    pub fn tick(&mut self) -> u64 {
        self.event += 1;
        self.event
    }
}

#[derive(Clone, Debug, Default)]
pub struct SharedTruth(Arc<Mutex<Truth>>);

impl SharedTruth {
    pub fn get(&self) -> MutexGuard<'_, Truth> {
        self.0.lock().unwrap()
    }
}

#[derive(Debug)]
pub struct Spy {
    device: Emulated,
    truth: SharedTruth,
}

impl Spy {
    pub fn new(device: Emulated, truth: &SharedTruth) -> Self {
        truth.get().sectors = vec![0; device.size().get() as usize / SECTOR];
        Self { device, truth: truth.clone() }
    }
}

impl Device for Spy {
    fn sector_bytes(&self) -> Bytes {
        self.device.sector_bytes()
    }

    fn size(&self) -> Bytes {
        self.device.size()
    }

    fn abilities(&self) -> Abilities {
        Abilities { discard: true, ..Device::abilities(&self.device) }
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        let mut truth = self.truth.get();
        let failing = std::mem::take(&mut truth.failing);
        let kind = match &ask {
            Ask::Read => Kind::Read,
            Ask::Write { .. } if failing => Kind::Failing,
            Ask::Write { bytes, through } => Kind::Write { stamps: stamps(bytes), through: *through },
            Ask::Discard => Kind::Discard,
            Ask::Flush => Kind::Flush { since: truth.event },
            Ask::WriteZeroes { .. } => panic!("not offered"),
        };
        let writes = |kind: &Kind| !matches!(kind, Kind::Read | Kind::Flush { .. });
        for (other, there) in truth.at_device.values() {
            let harmless = !writes(there) && !writes(&kind) || !other.overlaps(range);
            assert!(harmless, "{kind:?} of {range} beside {there:?} of {other}");
        }
        truth.at_device.insert(id, (range, kind.clone()));
        truth.most_at_device = truth.most_at_device.max(truth.at_device.len());
        drop(truth);
        match kind {
            Kind::Failing => self.device.ask(now, id, range, Ask::Read),
            // The content of discarded sectors is not checked, so the emulated drive may forget it.
            _ => self.device.ask(now, id, range, ask),
        }
    }

    fn next_work(&mut self) -> Option<(u64, Work)> {
        self.device.next_work()
    }

    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        self.device.ended(now, work, ended);
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_event()
    }

    fn advance(&mut self, now: Instant) {
        self.device.advance(now);
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        let answer = self.device.poll(now)?;
        let mut truth = self.truth.get();
        let event = truth.tick();
        let (range, kind) = truth.at_device.remove(&answer.id).unwrap();
        let lbns = range.start().get()..range.end().get();
        let result = match kind {
            Kind::Failing => Err(Failure::File(io::Error::other("injected"))),
            Kind::Read => match truth.first_bad(range) {
                Some(bad) => Err(Failure::Medium(bad)),
                None => {
                    let bytes = answer.result.unwrap();
                    assert_eq!(stamps(&bytes), truth.of(range), "the emulated drive at {range}");
                    Ok(bytes)
                }
            },
            Kind::Write { stamps, through } => {
                for (lbn, stamp) in lbns.zip(stamps) {
                    truth.sectors[lbn as usize] = stamp;
                    truth.bad.remove(&lbn);
                    truth.discarded.remove(&lbn);
                    if through {
                        truth.volatile.remove(&lbn);
                    } else {
                        truth.volatile.insert(lbn, event);
                    }
                }
                answer.result
            }
            Kind::Discard => {
                for lbn in lbns {
                    truth.sectors[lbn as usize] = 0;
                    truth.discarded.insert(lbn);
                }
                answer.result
            }
            Kind::Flush { since } => {
                truth.volatile.retain(|_, event| *event > since);
                truth.flushes += 1;
                answer.result
            }
        };
        Some(Answer { result, ..answer })
    }
}
