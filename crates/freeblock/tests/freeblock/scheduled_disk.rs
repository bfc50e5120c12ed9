//! A scheduled disk over a device in memory that carries out its transfers in any order.

use freeblock::{
    BadSector, Bytes, Config, DiskOutput, DriveModel, Duration, Instant, Lbn, LbnRange, Op, OutsideConfig,
    OutsideDrive, Parameter, Priority, Request, RequestError, RequestId, ScheduledDisk, Sectors, Sessions,
    SubmitError, Transfer, builtin,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SECTOR_SIZE: Bytes = Bytes::new(512);
const CAPACITY_SECTORS: u64 = 2_000;
/// The foreground and the scan use this many sectors from LBN 0; background writes use the sectors behind them.
const SCANNED_SECTORS: u64 = 600;
const WRITTEN_SECTORS: u64 = 64;
/// The value of each byte that the background writes.
const BACKGROUND_VALUE: u8 = 255;

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

fn disk() -> ScheduledDisk {
    ScheduledDisk::serving(Sectors::new(CAPACITY_SECTORS), SECTOR_SIZE, None).unwrap()
}

/// Returns a disk that uses gaps, so that the core orders the requests and merges blocks with them.
fn known_disk() -> ScheduledDisk {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let drive = DriveModel::from_profile(&profile).unwrap();
    ScheduledDisk::serving(drive.layout().capacity(), SECTOR_SIZE, Some(&profile)).unwrap()
}

/// The disk with its device, and the results that are expected of the requests.
struct Rig {
    disk: ScheduledDisk,
    now: Instant,
    /// The value of each sector's bytes.
    medium: Vec<u8>,
    bad: BTreeSet<u64>,
    at_device: Vec<Transfer>,
    /// The values that the sectors would have if requests were done one at a time in order of arrival.
    serial: Vec<u8>,
    /// The range of each unanswered request, and the values that a read must return.
    expected: BTreeMap<RequestId, (LbnRange, Vec<u8>)>,
    /// The sectors that the scan has delivered.
    scanned: BTreeSet<u64>,
    written: u64,
}

fn values(of: &[u8], range: LbnRange) -> Vec<u8> {
    of[range.start().get() as usize..range.end().get() as usize].to_vec()
}

fn bytes(values: &[u8]) -> Vec<u8> {
    values.iter().flat_map(|value| [*value; 512]).collect()
}

impl Rig {
    fn new(mut disk: ScheduledDisk, bad: BTreeSet<u64>) -> Self {
        let medium: Vec<u8> = (0..SCANNED_SECTORS + WRITTEN_SECTORS).map(|lbn| (lbn % 100) as u8).collect();
        let session = disk.open(Priority::default()).unwrap();
        disk.read(session, range(0, SCANNED_SECTORS), Sectors::new(6), Parameter::default()).unwrap();
        disk.write(session, range(SCANNED_SECTORS, WRITTEN_SECTORS), Sectors::new(8), Parameter::default())
            .unwrap();
        let (serial, scanned, expected) = (medium.clone(), BTreeSet::new(), BTreeMap::new());
        let (now, at_device) = (Instant::ZERO, Vec::new());
        Self { disk, now, medium, bad, at_device, serial, expected, scanned, written: 0 }
    }

    fn submit(&mut self, id: u64, write: Option<u8>, place: LbnRange) {
        let (id, mut content) = (RequestId::new(id), Vec::new());
        if let Some(value) = write {
            content = bytes(&vec![value; place.len().get() as usize]);
            self.serial[place.start().get() as usize..place.end().get() as usize].fill(value);
        }
        let found = if write.is_some() { Vec::new() } else { values(&self.serial, place) };
        self.expected.insert(id, (place, found));
        let op = if write.is_some() { Op::Write } else { Op::Read };
        self.disk.submit(self.now, Request { id, op, range: place }, content).unwrap();
    }

    fn is_bad(&self, place: LbnRange) -> bool {
        (place.start().get()..place.end().get()).any(|lbn| self.bad.contains(&lbn))
    }

    /// Takes all outputs of the disk.
    fn poll(&mut self) -> Result<(), TestCaseError> {
        let fill = |_: &_, into: &mut [u8]| {
            into.fill(BACKGROUND_VALUE);
            true
        };
        while let Some(output) = self.disk.poll_with(self.now, fill) {
            match output {
                DiskOutput::Transfer(transfer) => {
                    let overlaps = |other: &&Transfer| {
                        (other.op.is_write() || transfer.op.is_write())
                            && other.range.overlaps(transfer.range)
                    };
                    prop_assert!(self.at_device.iter().find(overlaps).is_none(), "{transfer:?}");
                    prop_assert_eq!(transfer.offset.get(), 512 * transfer.range.start().get());
                    self.at_device.push(transfer);
                }
                DiskOutput::Answer { id, result } => {
                    let (place, found) = self.expected.remove(&id).unwrap();
                    match result {
                        Ok(read) => {
                            prop_assert!(!self.is_bad(place));
                            prop_assert_eq!(read, bytes(&found));
                        }
                        Err(BadSector(bad)) => prop_assert!(place.contains(bad) && self.is_bad(place)),
                    }
                }
                DiskOutput::Block(block) if block.record.op == Op::Write => {
                    self.written += block.record.range.len().get();
                }
                DiskOutput::Block(block) => {
                    let place = block.record.range;
                    prop_assert_eq!(block.record.bad.is_some(), self.is_bad(place));
                    if block.record.bad.is_none() {
                        prop_assert_eq!(block.bytes, bytes(&values(&self.medium, place)), "LBNs {}", place);
                    }
                    prop_assert!(
                        (place.start().get()..place.end().get()).all(|lbn| self.scanned.insert(lbn))
                    );
                }
            }
        }
        Ok(())
    }

    /// Has the device carry out one of its transfers. If it has none, advances the time to the disk's next wake-up.
    fn step(&mut self, pick: usize) -> Result<(), TestCaseError> {
        self.poll()?;
        if self.at_device.is_empty() {
            self.now = self.disk.wake_at().map_or(self.now, |at| at.max(self.now));
            return self.poll();
        }
        let mut transfer = self.at_device.swap_remove(pick % self.at_device.len());
        self.now += Duration::from_millis(3);
        let place = transfer.range.start().get() as usize..transfer.range.end().get() as usize;
        let bad = place.clone().map(|lbn| lbn as u64).find(|lbn| self.bad.contains(lbn)).map(Lbn::new);
        let result = match (bad, transfer.op) {
            (Some(bad), _) => Err(Some(bad)),
            (None, Op::Read) => {
                transfer.bytes = bytes(&self.medium[place]);
                Ok(())
            }
            (None, Op::Write) => {
                let values = transfer.bytes.iter().step_by(512).copied();
                self.medium.splice(place, values);
                Ok(())
            }
        };
        self.disk.done(self.now, transfer, result);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum DiskStep {
    Submit { write: Option<u8>, start: u64, len: u64 },
    Device(usize),
}

fn steps() -> impl Strategy<Value = Vec<DiskStep>> {
    let value = prop::option::of(100..200u8);
    let step = prop_oneof![
        2 => (value, 0..SCANNED_SECTORS - 12, 1..12u64).prop_map(|(write, start, len)| DiskStep::Submit { write, start, len }),
        3 => any::<usize>().prop_map(DiskStep::Device),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn requests_are_answered_as_if_one_at_a_time_and_blocks_have_the_bytes_of_the_medium(
        steps in steps(), is_known in any::<bool>(),
    ) {
        let mut rig = Rig::new(if is_known { known_disk() } else { disk() }, BTreeSet::new());
        run(&mut rig, &steps)?;
        prop_assert_eq!(&rig.medium[..SCANNED_SECTORS as usize], &rig.serial[..SCANNED_SECTORS as usize]);
        let written = &rig.medium[SCANNED_SECTORS as usize..(SCANNED_SECTORS + WRITTEN_SECTORS) as usize];
        prop_assert!(written.iter().all(|value| *value == BACKGROUND_VALUE));
    }

    #[test]
    fn a_bad_sector_fails_the_requests_and_blocks_in_which_it_lies_and_no_other(
        steps in steps(), bad in prop::collection::btree_set(0..SCANNED_SECTORS, 1..3),
    ) {
        // All steps become reads: a failed write leaves the medium unchanged, which the rig's `serial` does not model.
        let reads = steps.into_iter().map(|step| match step {
            DiskStep::Submit { start, len, .. } => DiskStep::Submit { write: None, start, len },
            device => device,
        });
        run(&mut Rig::new(disk(), bad), &reads.collect::<Vec<_>>())?;
    }
}

/// Takes the steps, and then lets the device work until all is done.
fn run(rig: &mut Rig, steps: &[DiskStep]) -> Result<(), TestCaseError> {
    for (id, step) in (0..).zip(steps) {
        match *step {
            DiskStep::Submit { write, start, len } => rig.submit(id, write, range(start, len)),
            DiskStep::Device(pick) => rig.step(pick)?,
        }
    }
    let is_done = |rig: &Rig| {
        let blocks = (rig.scanned.len() as u64, rig.written);
        rig.expected.is_empty() && blocks == (SCANNED_SECTORS, WRITTEN_SECTORS)
    };
    let mut picks = 0..10_000;
    while let Some(pick) = picks.next().filter(|_| !is_done(rig)) {
        rig.step(pick)?;
    }
    prop_assert!(rig.expected.is_empty() && rig.disk.unanswered() == 0, "{:?} wait", rig.expected);
    prop_assert_eq!((rig.scanned.len() as u64, rig.written), (SCANNED_SECTORS, WRITTEN_SECTORS));
    Ok(())
}

#[test]
fn a_request_that_has_no_place_or_the_wrong_bytes_is_refused_and_changes_nothing() {
    let mut disk = disk();
    let mut submit = |op, range, bytes| {
        let id = RequestId::new(7);
        disk.submit(Instant::ZERO, Request { id, op, range }, vec![0; bytes]).unwrap_err()
    };
    let (id, capacity) = (RequestId::new(7), Sectors::new(CAPACITY_SECTORS));
    let (empty, past) = (range(3, 0), range(CAPACITY_SECTORS - 1, 2));
    assert_eq!(submit(Op::Read, empty, 0), RequestError::Submit(SubmitError::Empty { id, range: empty }));
    let past_end = SubmitError::PastEnd { id, range: past, capacity };
    assert_eq!(submit(Op::Write, past, 1_024), RequestError::Submit(past_end));
    assert_eq!(
        submit(Op::Write, range(3, 2), 1_023),
        RequestError::Length { id, expected: 1_024, found: 1_023 }
    );
    assert_eq!(submit(Op::Read, range(3, 2), 1_024), RequestError::Length { id, expected: 0, found: 1_024 });
    assert_eq!((disk.unanswered(), disk.poll(Instant::ZERO)), (0, None));
}

#[test]
fn a_failure_of_an_unknown_sector_fails_the_request_at_its_first() {
    let (mut disk, id, range) = (disk(), RequestId::new(7), range(40, 8));
    disk.submit(Instant::ZERO, Request { id, op: Op::Read, range }, Vec::new()).unwrap();
    let Some(DiskOutput::Transfer(transfer)) = disk.poll(Instant::ZERO) else { panic!("the device is idle") };
    disk.done(Instant::ZERO, transfer, Err(None));
    let result = Err(BadSector(range.start()));
    assert_eq!(disk.poll(Instant::ZERO), Some(DiskOutput::Answer { id, result }));
}

#[test]
fn more_requests_than_the_core_has_room_for_wait_in_the_disk() {
    let drive = DriveModel::unknown(Sectors::new(CAPACITY_SECTORS), SECTOR_SIZE).unwrap();
    let config = Config::outside(OutsideConfig::blind().serving()).with_most_pending(4);
    let disk = ScheduledDisk::new(OutsideDrive::new(drive.into(), config));
    let mut rig = Rig::new(disk, BTreeSet::new());
    for id in 0..200 {
        rig.submit(id, None, range(id % SCANNED_SECTORS, 1));
    }
    let mut pick = 0;
    while rig.disk.unanswered() > 0 {
        rig.step(pick).unwrap();
        pick += 1;
        assert!(pick < 10_000, "{} requests wait", rig.disk.unanswered());
    }
    assert!(rig.expected.is_empty());
}
