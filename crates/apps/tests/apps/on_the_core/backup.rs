//! A backup of a snapshot while a client overwrites the volume: the restored content is that of the snapshot instant.

use super::world::{range, run, worlds};
use freeblock_apps::backup::image::Header;
use freeblock_apps::backup::{Backup, BackupState, Destination, ImageWriter, Sink, restore};
use freeblock_apps::sessions::{Application, Priority, Record, Sessions};
use freeblock_apps::snapshot::{
    Bytes, Cow, Geometry, Provider, Step, Volume as Snapshots, VolumeId, WriteError, WriteProgress,
};
use proptest::prelude::*;
use sim::{Platters, Volume};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Duration, Instant, Lbn, Sectors};

/// An image in memory.
#[derive(Clone, Default)]
struct MemoryTape(Rc<RefCell<Vec<u8>>>);

impl Sink for MemoryTape {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The destination of the restore, by the addresses that clients use.
struct RestoredBytes {
    bytes: Vec<u8>,
    sector: usize,
}

impl Destination for RestoredBytes {
    fn write_at(&mut self, at: Lbn, bytes: &[u8]) -> Result<bool, String> {
        let from = at.get() as usize * self.sector;
        self.bytes.get_mut(from..from + bytes.len()).ok_or("past the end")?.copy_from_slice(bytes);
        Ok(true)
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

type Provided = Rc<RefCell<Snapshots>>;

#[derive(Default)]
struct HostedBackup(Option<Backup<Provided, ImageWriter<MemoryTape>>>);

impl Application for HostedBackup {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(app) = &mut self.0 {
            app.done(sessions, done, bytes, now);
        }
    }
}

/// Waits for the last submitted request.
fn read_back(volume: &mut Volume) -> Vec<u8> {
    loop {
        if let Some(done) = volume.completion() {
            assert_eq!(done.bad, None);
            return done.bytes;
        }
        assert!(volume.step().unwrap(), "nothing happens");
    }
}

/// Carries out a client's write, step by step; returns false if there is no room for the content that it overwrites.
fn write(volume: &mut Volume, snapshots: &Provided, start: u64, bytes: &[u8], sector: usize) -> bool {
    let of = range(start, (bytes.len() / sector) as u64);
    let write = match snapshots.borrow_mut().write(of) {
        Ok(write) => write,
        Err(WriteError::Full { .. }) => return false,
        Err(error) => panic!("{error}"),
    };
    let mut kept = Vec::new();
    loop {
        let step = snapshots.borrow().step(write);
        match step {
            None => return true,
            Some(Step::Record(_)) => {}
            Some(Step::Read(from)) => {
                volume.submit_read(from).unwrap();
                kept = read_back(volume);
            }
            Some(Step::Write { to, bytes: what }) => {
                let what = match what {
                    Bytes::Read => kept.clone(),
                    Bytes::Data { from } => {
                        let from = from.get() as usize * sector;
                        bytes[from..from + to.len().get() as usize * sector].to_vec()
                    }
                    _ => vec![0; to.len().get() as usize * sector],
                };
                volume.submit_write(to, what).unwrap();
                read_back(volume);
            }
        }
        if snapshots.borrow_mut().done(write) == WriteProgress::Complete {
            return true;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_backup_is_of_the_snapshots_instant_whatever_is_overwritten(
        world in worlds(),
        copies_when_overwritten in any::<bool>(),
        block in 1..12u64,
        writes in prop::collection::vec((any::<u16>(), 1..20u64, 1..200_000u64), 1..40),
    ) {
        let drive = world.drive();
        let (capacity, sector) = (drive.layout().capacity().get(), drive.sector_bytes().get() as usize);
        let blocks = (capacity / block).min(120) / 2;
        prop_assume!(blocks >= 2);
        let cow = if copies_when_overwritten { Cow::Snapshot } else { Cow::Application };
        let geometry = Geometry {
            volume: VolumeId(1),
            first: Lbn::ZERO,
            block: Sectors::new(block),
            blocks,
            slots: blocks * 2,
        };
        let len = blocks * block;
        let mut platters = Platters::blank(&drive);
        let mut now_there: Vec<u8> = (0..len as usize * sector).map(|at| (at / 3) as u8).collect();
        platters.medium_mut().write(range(0, len), &now_there).unwrap();
        let snapshots: Provided = Rc::new(RefCell::new(Snapshots::new(geometry, cow).unwrap()));
        let mut volume = world.start(platters, Instant::ZERO, 0);
        world.load(&mut volume, false);
        let overwrite = |volume: &mut Volume, now_there: &mut [u8], (at, n): (u16, u64), with: u8| {
            let start = u64::from(at) % len;
            let n = n.min(len - start);
            let bytes = vec![with; n as usize * sector];
            if write(volume, &snapshots, start, &bytes, sector) {
                now_there[start as usize * sector..][..bytes.len()].copy_from_slice(&bytes);
            }
        };
        // Some writes precede the snapshot, so that blocks may have moved already.
        let (before, after) = writes.split_at(writes.len() / 3);
        for (number, &(at, n, _)) in before.iter().enumerate() {
            overwrite(&mut volume, &mut now_there, (at, n), number as u8);
        }
        let snapshot = snapshots.borrow_mut().take().unwrap().0;
        let at_the_snapshot = now_there.clone();
        let (tape, shape) = (MemoryTape::default(), snapshots.shape());
        let chunks = shape.blocks;
        let header = Header { image: 1, shape, snapshot, base: None, sector_bytes: sector as u32, chunks };
        let app = volume.host(HostedBackup::default());
        volume.call(app, |app, sessions| {
            let output = ImageWriter::new(header, tape.clone());
            let of = (snapshot, None);
            let backup = Backup::start(Rc::clone(&snapshots), output, of, sector, sessions, Priority::default());
            app.0 = Some(backup.unwrap());
        }).unwrap();
        for (number, &(at, n, micros)) in after.iter().enumerate() {
            volume.run_for(Duration::from_micros(micros)).unwrap();
            overwrite(&mut volume, &mut now_there, (at, n), 100 + number as u8);
        }
        run(&mut volume, |volume| *volume.app(app).unwrap().0.as_ref().unwrap().state() == BackupState::Finished)?;
        let mut restored = RestoredBytes { bytes: vec![0; at_the_snapshot.len()], sector };
        let image = tape.0.borrow().clone();
        let reported = restore(&mut image.as_slice(), None, &mut restored).unwrap();
        prop_assert!(reported.missing.is_empty());
        prop_assert!(restored.bytes == at_the_snapshot, "the image is not of the snapshot's instant");
        // Each block of the volume has the client's last write.
        for number in 0..blocks {
            let slot = snapshots.borrow().current(number).unwrap();
            let mut there = vec![0; block as usize * sector];
            volume.platters().medium().read(slot, &mut there).unwrap();
            prop_assert!(there == now_there[(number * block) as usize * sector..][..there.len()]);
        }
    }
}
