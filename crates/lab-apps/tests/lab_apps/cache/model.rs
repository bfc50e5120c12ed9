//! The model of a cache's answers: a map of versions.

use super::host::{Host, SECTOR, sectors, version};
use lab_apps::cache::{CallId, Failure};
use std::collections::{BTreeMap, BTreeSet};
use units::LbnRange;

#[derive(Debug)]
enum OpenCall {
    /// The range, and the versions acknowledged when the read began.
    Read(LbnRange, Vec<u64>),
    /// The range, and the versions to be acknowledged when the write ends.
    Write(LbnRange, Vec<u64>),
    Flush(Vec<u64>),
}

/// Versions by sector; each write has a version of its own, larger than all before.
#[derive(Debug)]
pub struct Model {
    pub written: u64,
    /// The newest acknowledged version; 0 after a trim.
    acknowledged: Vec<u64>,
    /// The newest version that a completed flush covers.
    durable: Vec<u64>,
    calls: BTreeMap<CallId, OpenCall>,
    /// Sectors that were bad at any time.
    pub ever_bad: BTreeSet<u64>,
}

impl Model {
    pub fn new(capacity: u64) -> Self {
        let zeros = vec![0; capacity as usize];
        Self {
            written: 0,
            acknowledged: zeros.clone(),
            durable: zeros,
            calls: BTreeMap::new(),
            ever_bad: BTreeSet::new(),
        }
    }

    pub fn read(&mut self, call: CallId, range: LbnRange) {
        let floor = sectors(range).map(|lbn| self.acknowledged[lbn as usize]).collect();
        self.calls.insert(call, OpenCall::Read(range, floor));
    }

    pub fn write(&mut self, call: CallId, range: LbnRange, version: u64) {
        self.calls.insert(call, OpenCall::Write(range, vec![version; range.len().get() as usize]));
    }

    pub fn flush(&mut self, call: CallId) {
        self.calls.insert(call, OpenCall::Flush(self.acknowledged.clone()));
    }

    pub fn trim(&mut self, range: LbnRange) {
        for lbn in sectors(range) {
            self.acknowledged[lbn as usize] = 0;
            self.durable[lbn as usize] = 0;
            for call in self.calls.values_mut() {
                match call {
                    OpenCall::Flush(floor) => floor[lbn as usize] = 0,
                    OpenCall::Read(range, floor) | OpenCall::Write(range, floor)
                        if sectors(*range).any(|l| l == lbn) =>
                    {
                        floor[(lbn - range.start().get()) as usize] = 0;
                    }
                    _ => {}
                }
            }
        }
    }

    pub fn answer(&mut self, call: CallId, result: &Result<Vec<u8>, Failure>, host: &Host) {
        let reported =
            self.calls.remove(&call).expect("an answer to a call that was answered, or never made");
        match (reported, result) {
            (_, Err(Failure::NoRoom)) => {
                assert!(!self.ever_bad.is_empty(), "no room though every sector is good");
            }
            (OpenCall::Read(range, _), Err(Failure::Bad(lbn))) => {
                assert!(range.contains(*lbn) && self.ever_bad.contains(&lbn.get()), "{lbn} is not bad");
            }
            (OpenCall::Flush(_), Err(Failure::Bad(lbn))) => assert!(self.ever_bad.contains(&lbn.get())),
            (OpenCall::Write(..), Err(failure)) => panic!("a write fails with {failure}"),
            (OpenCall::Read(range, floor), Ok(bytes)) => {
                for ((lbn, bytes), floor) in sectors(range).zip(bytes.chunks_exact(SECTOR)).zip(floor) {
                    let got = version(lbn, bytes);
                    assert!(
                        (floor..=self.written).contains(&got),
                        "sector {lbn} reads {got}, {floor} was acknowledged"
                    );
                }
                assert_eq!(bytes.len(), range.len().get() as usize * SECTOR);
            }
            (OpenCall::Write(range, versions), Ok(_)) => {
                for (lbn, version) in sectors(range).zip(versions) {
                    let newest = &mut self.acknowledged[lbn as usize];
                    *newest = version.max(*newest);
                }
            }
            (OpenCall::Flush(floor), Ok(_)) => {
                for (durable, floor) in self.durable.iter_mut().zip(floor) {
                    *durable = floor.max(*durable);
                }
                self.check_durable(host);
            }
        }
    }

    /// Asserts that all flushed versions, or newer ones, are on the medium.
    pub fn check_durable(&self, host: &Host) {
        for (lbn, &durable) in (0..).zip(&self.durable) {
            let got = version(lbn, host.sector(lbn));
            assert!(got >= durable, "sector {lbn} is {got} on the medium, {durable} was flushed");
        }
    }

    /// Asserts that all acknowledged versions, or newer ones, are on the medium or in the memory that survived.
    pub fn check_survived(&self, host: &Host, contents: &[(LbnRange, Vec<u8>)]) {
        let capacity = self.acknowledged.len() as u64;
        let mut versions: Vec<u64> = (0..capacity).map(|lbn| version(lbn, host.sector(lbn))).collect();
        for (range, bytes) in contents {
            for (lbn, bytes) in sectors(*range).zip(bytes.chunks_exact(SECTOR)) {
                versions[lbn as usize] = version(lbn, bytes);
            }
        }
        for (lbn, (got, &acknowledged)) in versions.into_iter().zip(&self.acknowledged).enumerate() {
            assert!(got >= acknowledged, "sector {lbn} survived as {got}, {acknowledged} was acknowledged");
        }
    }

    /// Asserts that everything acknowledged is on the medium.
    pub fn check_all_written(&self, host: &Host) {
        self.check_survived(host, &[]);
    }

    /// Records a crash; if the cache's memory does not survive, only the medium counts.
    pub fn crashed(&mut self, host: &Host, survives: bool) {
        self.calls.clear();
        if !survives {
            for (lbn, acknowledged) in self.acknowledged.iter_mut().enumerate() {
                *acknowledged = version(lbn as u64, host.sector(lbn as u64));
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }
}
