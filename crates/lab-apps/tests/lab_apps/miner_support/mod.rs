//! A host for tests: the real core under a foreground like the papers', with no drive other than the core's
//! predictions.

#![allow(dead_code, clippy::unwrap_used)] // each test binary uses a part; helpers stand outside test functions

use lab_apps::miner::{PAGE_BYTES, Table, TableConfig, TableGenerator, TableId};
use model::DriveModel;
use model::random_profile::{Size, random_profile};
use scheduler::{Config, HeadWork, InDrive, Output, Record, Request};
use std::sync::Arc;
use units::{Bytes, Instant, RequestId};
use workload::{Oltp, OltpConfig, Source};

/// Random numbers for shuffles.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// Returns the numbers below `n` in random order.
    pub fn order(&mut self, n: u64) -> Vec<u64> {
        let mut order: Vec<u64> = (0..n).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

pub struct MinerHost {
    pub core: InDrive,
    pub now: Instant,
    foreground: Oltp,
    requests: u64,
}

impl MinerHost {
    pub fn new(drive: DriveModel, seed: u64) -> Self {
        let capacity = drive.layout().capacity();
        let foreground = Oltp::new(OltpConfig::new(capacity, Bytes::new(512)), seed).unwrap();
        let core = InDrive::new(Arc::new(drive), Config::default());
        Self { core, now: Instant::ZERO, foreground, requests: 0 }
    }

    pub fn small(profile: u64, seed: u64) -> Self {
        Self::new(DriveModel::from_profile(&random_profile(profile, Size::Small)).unwrap(), seed)
    }

    /// Carries out one foreground request; `each` gets the blocks delivered meanwhile.
    pub fn request(&mut self, mut each: impl FnMut(&mut InDrive, &Record)) {
        self.requests += 1;
        let range = self.foreground.next_request().unwrap();
        let request = Request { id: RequestId::new(self.requests), op: range.op, range: range.range };
        self.core.submit(self.now, request).unwrap();
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Do(HeadWork::Execute) => {
                    self.now = self.core.busy_until().unwrap();
                    self.core.completed(self.now);
                }
                Output::Deliver(record) => each(&mut self.core, &record),
                _ => {}
            }
        }
    }

    pub fn table(&self) -> Table {
        let capacity = self.core.drive().layout().capacity();
        Table::whole_drive(TableId::new(9), capacity, Bytes::new(512)).unwrap()
    }
}

pub fn generator(table: &Table, seed: u64, drift_permille: u32) -> TableGenerator {
    let mut config = TableConfig::new(table.id(), table.pages(), seed);
    config.drift_permille = drift_permille;
    TableGenerator::new(config).unwrap()
}

pub fn bytes(generator: &TableGenerator, page: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    generator.page(lab_apps::miner::PageNumber::new(page), &mut bytes);
    bytes
}
