//! Backups against a naive model: a copy of the volume at the snapshot instant.

use crate::support::{self, Drive, Late, Naive, SECTOR, carry_out, range};
use freeblock_apps::backup::image::{Header, scan};
use freeblock_apps::backup::{
    Backup, BackupState, ImageWriter, Output, Point, Replica, Sink, Source, restore, restore_range, salvage,
    verify,
};
use freeblock_apps::sessions::{Application, Sessions};
use freeblock_apps::snapshot::{
    Cow, Geometry, Provider, SnapshotId, SnapshotPlace, Step, Volume, VolumeId, WriteError,
};
use proptest::prelude::*;
use scheduler::Priority;
use std::cell::RefCell;
use std::num::NonZeroU64;
use std::rc::Rc;
use units::{Lbn, Sectors};
use workload::random::Stream;

const BLOCK: u64 = 4;
const BLOCKS: u64 = 24;
const SLOTS: u64 = 200;
const FIRST_LBN: u64 = 5;

/// A target with limited room.
#[derive(Debug, Default)]
struct LimitedTape {
    bytes: Vec<u8>,
    room: usize,
    durable: usize,
}

impl Sink for LimitedTape {
    fn append(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let n = bytes.len().min(self.room);
        self.bytes.extend_from_slice(&bytes[..n]);
        self.room -= n;
        Ok(n)
    }
    fn sync(&mut self) -> Result<(), String> {
        self.durable = self.bytes.len();
        Ok(())
    }
}

fn blank() -> Drive {
    Drive::blank(FIRST_LBN + BLOCKS * BLOCK)
}

/// A source that counts the bytes read from it.
struct Counted<'a>(&'a [u8], u64);

impl Source for Counted<'_> {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        let n = self.0.read_at(at, into)?;
        self.1 += n as u64;
        Ok(n)
    }
    fn size(&mut self) -> Result<u64, String> {
        self.0.size()
    }
}

/// The contents of the volume's sectors; `None` for empty ones.
type Content = Vec<Option<Vec<u8>>>;

/// Returns whether the drive has these contents, from sector `first` on.
fn has(drive: &Drive, first: u64, content: &[Option<Vec<u8>>]) -> bool {
    let sectors = drive.bytes[(FIRST_LBN + first) as usize * SECTOR..].chunks(SECTOR);
    sectors.zip(content).all(|(got, want)| want.as_ref().is_none_or(|want| got == want))
}

type Shared = Rc<RefCell<Volume>>;

struct BackupWorld {
    host: Naive,
    volume: Shared,
    stream: Stream,
    late: Late,
}

impl BackupWorld {
    fn new(cow: Cow, seed: u64) -> Self {
        let (first, block) = (Lbn::new(FIRST_LBN), Sectors::new(BLOCK));
        let geometry = Geometry { volume: VolumeId(9), first, block, blocks: BLOCKS, slots: SLOTS };
        let volume = Rc::new(RefCell::new(Volume::new(geometry, cow).unwrap()));
        let host = Naive::new(FIRST_LBN + SLOTS * BLOCK, seed);
        Self { host, volume, stream: Stream::new(seed, "foreground"), late: Late::default() }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.stream.below(NonZeroU64::new(n).unwrap())
    }

    /// Returns the volume's current content by its map, sector by sector; `None` for empty sectors.
    fn content(&self) -> Content {
        let volume = self.volume.borrow();
        let blocks = (0..BLOCKS).map(|b| volume.current(b).map(|place| self.host.bytes(place).to_vec()));
        let sectors = |i: usize, block: &Option<Vec<u8>>| {
            block.as_ref().map(|bytes| bytes[i * SECTOR..(i + 1) * SECTOR].to_vec())
        };
        blocks.flat_map(|block| (0..BLOCK as usize).map(move |i| sectors(i, &block))).collect()
    }

    /// Discards a random block, or overwrites a random range.
    fn foreground(&mut self) {
        if self.below(8) == 0 {
            let block = self.below(BLOCKS);
            let _ = self.volume.borrow_mut().discard(block);
        } else {
            self.overwrite();
        }
    }

    /// Carries out all steps of a foreground write to a random range.
    fn overwrite(&mut self) {
        let at = self.below(BLOCKS * BLOCK);
        let len = 1 + self.below((BLOCKS * BLOCK - at).min(9));
        let data: Vec<u8> = (0..len as usize * SECTOR).map(|_| self.stream.next_u64() as u8).collect();
        let began = self.volume.borrow_mut().write(range(FIRST_LBN + at, len));
        let id = match began {
            Ok(id) => id,
            Err(WriteError::Full { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let mut read = Vec::new();
        loop {
            let Some(step) = self.volume.borrow().step(id) else { return };
            let fine = carry_out(&mut self.host, step, &mut read, &data);
            if let (true, Step::Write { to, .. }) = (fine, step) {
                // The bytes of a write may be delivered for a pending read of the same place.
                let bytes = self.host.bytes(to).to_vec();
                self.host.foreground_write(&mut self.late, to, &bytes);
            }
            let mut volume = self.volume.borrow_mut();
            if fine {
                volume.done(id);
            } else if volume.failed(id).is_err() {
                return;
            }
        }
    }

    /// Does one of three things at random: a foreground write, a block read, or the delivery of a record.
    fn act(&mut self, app: &mut dyn Application) {
        match self.below(4) {
            0 => self.foreground(),
            1 | 2 => drop(self.host.step(&mut self.late)),
            _ => {
                let which = self.stream.next_u64();
                self.late.deliver(which, &mut self.host.registry, app);
            }
        }
    }

    fn header(&self, snapshot: SnapshotId, base: Option<SnapshotId>) -> Header {
        let chunks =
            Backup::<Shared, ImageWriter<LimitedTape>>::list_len(&self.volume, snapshot, base).unwrap();
        let shape = self.volume.shape();
        Header { image: snapshot.0 + 77, shape, snapshot, base, sector_bytes: SECTOR as u32, chunks }
    }

    /// Makes an image while the foreground overwrites the volume, the target fills up, and the power fails `crashes`
    /// times. Returns the image.
    fn image(&mut self, snapshot: SnapshotId, base: Option<SnapshotId>, mut crashes: u64) -> Vec<u8> {
        let mut writer = ImageWriter::new(self.header(snapshot, base), LimitedTape::default());
        loop {
            let sessions = &mut self.host.registry;
            let of = (snapshot, base);
            let present: Vec<u64> = writer.blocks().collect();
            let mut backup =
                Backup::start(self.volume.clone(), writer, of, SECTOR, sessions, Priority::default())
                    .unwrap();
            self.none_registered(snapshot, &present);
            let mut left = 20 + self.below(150);
            loop {
                self.act(&mut backup);
                if *backup.state() == BackupState::TargetFull {
                    let room = self.below(900) as usize;
                    backup.output_mut().sink_mut().room = room;
                    backup.go_on(&mut self.host.registry);
                }
                left = left.saturating_sub(1);
                if *backup.state() == BackupState::Finished || (left == 0 && crashes > 0) {
                    break;
                }
                assert!(
                    matches!(backup.state(), BackupState::Running | BackupState::TargetFull),
                    "{:?}",
                    backup.state()
                );
            }
            let finished = *backup.state() == BackupState::Finished;
            let session = backup.session();
            let LimitedTape { mut bytes, durable, .. } = backup.into_output().into_sink();
            if finished {
                assert_eq!(durable, bytes.len(), "an image that is finished and not durable");
                return bytes;
            }
            crashes -= 1;
            let _ = self.host.registry.close(session);
            self.late.0.clear();
            // The last bytes may not have reached the target.
            let lost = self.below(60) as usize;
            bytes.truncate(bytes.len().saturating_sub(lost));
            writer = match scan(&mut bytes.as_slice()) {
                Ok(scan) => {
                    bytes.truncate(scan.keep as usize);
                    ImageWriter::resume(scan, LimitedTape { bytes, ..LimitedTape::default() })
                }
                Err(_) => ImageWriter::new(self.header(snapshot, base), LimitedTape::default()),
            };
        }
    }

    /// Makes a replica while the foreground overwrites the volume, the destination stalls, and the power fails
    /// `crashes` times, also at the destination.
    fn replica(
        &mut self,
        of: (SnapshotId, Option<SnapshotId>),
        onto: Option<Point>,
        mut drive: Drive,
        mut crashes: u64,
    ) -> (Drive, Option<Point>) {
        let header = self.header(of.0, of.1);
        let (mut saved, mut there): (Option<Vec<u8>>, Option<u64>) = (None, None);
        loop {
            drive.room = self.below(5);
            let output = match &saved {
                Some(saved) => Replica::resume(saved, drive).unwrap(),
                None => Replica::new(header, onto, drive).unwrap(),
            };
            let mut present = Vec::new();
            output.present(&mut |block| present.push(block));
            if let Some(there) = there {
                assert_eq!(present.len() as u64, there, "blocks that were saved are not known");
            }
            let sessions = &mut self.host.registry;
            let priority = Priority::default();
            let mut backup =
                Backup::start(self.volume.clone(), output, of, SECTOR, sessions, priority).unwrap();
            self.none_registered(of.0, &present);
            let mut left = self.below(150);
            while *backup.state() != BackupState::Finished && (left > 0 || crashes == 0) {
                self.act(&mut backup);
                if self.below(20) == 0 {
                    saved = Some(backup.output_mut().progress().unwrap());
                    let all = backup.output_mut().waiting() == 0;
                    there = all.then_some(backup.counts().written);
                }
                if *backup.state() == BackupState::TargetFull {
                    let room = self.below(5);
                    backup.output_mut().destination_mut().room = room;
                    backup.go_on(&mut self.host.registry);
                }
                left = left.saturating_sub(1);
            }
            if *backup.state() == BackupState::Finished {
                let output = backup.into_output();
                let point = output.point();
                return (output.into_destination(), point);
            }
            crashes -= 1;
            let _ = self.host.registry.close(backup.session());
            self.late.0.clear();
            drive = backup.into_output().into_destination();
            drive.power_cut(&mut || self.stream.next_u64().is_multiple_of(2));
        }
    }

    /// Asserts that a start has registered no block that the output already has.
    fn none_registered(&self, snapshot: SnapshotId, present: &[u64]) {
        for block in present {
            let place = self.volume.locate(snapshot, *block);
            let again = |b: &support::RegisteredBlock| place == Ok(SnapshotPlace::At(b.range));
            assert!(!self.host.registry.blocks().iter().any(again), "block {block} is read again");
        }
    }
}

fn cow(app: bool) -> Cow {
    if app { Cow::Application } else { Cow::Snapshot }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Guards against foreground data in an image; a block missed or read from its old place; a torn end of an image
    /// that is accepted; a difference that misses a write; blocks read again after a restart. Bytes are compared with
    /// copies of the volume at the snapshot instants.
    #[test]
    fn a_chain_of_images_restores_the_volume_at_each_snapshot(app in any::<bool>(), seed in any::<u64>(), crashes in 0..4u64) {
        let mut world = BackupWorld::new(cow(app), seed);
        let mut drive = blank();
        let (mut base, mut onto) = (None, None);
        for _ in 0..3 {
            let want = world.content();
            let (snapshot, _) = world.volume.borrow_mut().take().unwrap();
            let image = world.image(snapshot, base, crashes);
            let restored = restore(&mut image.as_slice(), onto, &mut drive).unwrap();
            prop_assert!(restored.missing.is_empty());
            prop_assert_eq!(restored.point, Point { volume: VolumeId(9), snapshot });
            prop_assert!(has(&drive, 0, &want), "the restored volume differs");
            let first = base.is_none();
            let _ = world.volume.borrow_mut().delete(snapshot).unwrap();
            prop_assert_eq!(world.volume.borrow().space().kept, 0, "deletion gives the space back");
            (base, onto) = (Some(snapshot), Some(restored.point));
            for _ in 0..20 {
                world.foreground();
            }
            if !first {
                let other = Some(Point { volume: VolumeId(8), snapshot: SnapshotId(1) });
                let before = drive.clone();
                for wrong in [None, other, onto] {
                    prop_assert!(restore(&mut image.as_slice(), wrong, &mut drive).unwrap_err().to_string().contains("difference"));
                }
                prop_assert!(before == drive, "a refused image changed the drive");
            }
        }
    }

    /// Guards against a replica that counts as whole after a crash at either end, that reads everything again, or
    /// that is applied to another base.
    #[test]
    fn a_replica_goes_on_after_a_restart_and_equals_the_volume_at_each_snapshot(app in any::<bool>(), seed in any::<u64>(), crashes in 0..5u64) {
        let mut world = BackupWorld::new(cow(app), seed);
        let mut drive = blank();
        let (mut base, mut onto) = (None, None);
        for _ in 0..3 {
            let want = world.content();
            let (snapshot, _) = world.volume.borrow_mut().take().unwrap();
            if base.is_some() {
                let header = world.header(snapshot, base);
                let other = Some(Point { volume: VolumeId(9), snapshot });
                for wrong in [None, other] {
                    prop_assert!(Replica::new(header, wrong, blank()).is_err(), "a difference without its base");
                }
            }
            let (made, point) = world.replica((snapshot, base), onto, drive, crashes);
            drive = made;
            prop_assert!(has(&drive, 0, &want), "the replica differs");
            prop_assert_eq!(point, Some(Point { volume: VolumeId(9), snapshot }));
            let _ = world.volume.borrow_mut().delete(snapshot).unwrap();
            (base, onto) = (Some(snapshot), point);
            for _ in 0..20 {
                world.foreground();
            }
        }
    }

    /// Guards against damaged progress, which would count blocks as being on the replica that are not.
    #[test]
    fn damaged_progress_of_a_replica_is_refused_by_name(seed in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>()) {
        let world = BackupWorld::new(Cow::Snapshot, seed);
        let (snapshot, _) = world.volume.borrow_mut().take().unwrap();
        let mut replica = Replica::new(world.header(snapshot, None), None, blank()).unwrap();
        replica.put(2, &[1; BLOCK as usize * SECTOR], &[]);
        replica.put(5, &[], &[0, 1, 2, 3]);
        replica.flush().unwrap();
        let good = replica.progress().unwrap();
        prop_assert_eq!(Replica::resume(&good, blank()).unwrap().missing().len(), 4);
        // With a right checksum, the bytes are refused or are valid progress; there is no panic.
        let mut bytes = good.clone();
        let end = bytes.len() - 4;
        bytes[100 + at.index(end - 100)] ^= 1 << bit;
        let sum = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&sum);
        if let Ok(replica) = Replica::resume(&bytes, blank()) {
            let mut blocks = 0;
            replica.present(&mut |_| blocks += 1);
            prop_assert!(blocks <= BLOCKS);
        }
        let mut bytes = good;
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let refused = Replica::resume(&bytes, blank()).unwrap_err().to_string();
        prop_assert!(refused.contains("make the replica anew"), "{refused}");
    }

    /// Guards against a range that comes from the wrong image of a chain, changes its neighbours, or reads
    /// everything; and against a damaged index or chunk that is accepted.
    #[test]
    fn a_range_is_restored_from_a_chain_by_its_indices(
        app in any::<bool>(), seed in any::<u64>(), start in 0..BLOCKS * BLOCK, len in 1..40u64,
        damage in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u8)),
    ) {
        let mut world = BackupWorld::new(cow(app), seed);
        let (mut images, mut base, mut want) = (Vec::new(), None, Vec::new());
        for _ in 0..3 {
            want = world.content();
            let (snapshot, _) = world.volume.borrow_mut().take().unwrap();
            images.push(world.image(snapshot, base, 0));
            base = Some(snapshot);
            for _ in 0..6 {
                world.foreground();
            }
        }
        let len = len.min(BLOCKS * BLOCK - start);
        let wanted = range(FIRST_LBN + start, len);
        let mut sources: Vec<Counted> = images.iter().map(|i| Counted(i, 0)).collect();
        let mut drive = blank();
        let restored = restore_range(&mut sources, wanted, &mut drive).unwrap();
        prop_assert_eq!(restored.point.snapshot, base.unwrap());
        let part = start as usize..(start + len) as usize;
        let held = want[part.clone()].iter().flatten().count() as u64;
        prop_assert!((held..=len).contains(&restored.sectors) && restored.missing.is_empty());
        prop_assert!(restored.sectors + restored.holes * BLOCK >= len, "neither restored nor a hole");
        prop_assert!(has(&drive, start, &want[part.clone()]), "the range differs");
        for (lbn, got) in drive.bytes.chunks(SECTOR).enumerate() {
            prop_assert!(wanted.contains(Lbn::new(lbn as u64)) || got == [0xee; SECTOR], "sector {lbn} was not asked for");
        }
        // The most bytes to be read: headers, footers and indices, and the chunks of the range, all of them twice.
        let chunk = 28 + BLOCK * SECTOR as u64;
        let most = 3 * (2 * (92 + 36 + 16 * (BLOCKS + 9) + 4)) + 2 * (len.div_ceil(BLOCK) + 1) * (chunk + 92);
        let read: u64 = sources.iter().map(|s| s.1).sum();
        prop_assert!(read <= most, "{read} bytes were read, {most} would do");
        let outside = range(FIRST_LBN + start, BLOCKS * BLOCK - start + 1);
        prop_assert!(restore_range(&mut sources, outside, &mut drive).unwrap_err().to_string().contains("not on the volume"));
        sources.swap(1, 2);
        prop_assert!(restore_range(&mut sources, wanted, &mut drive).unwrap_err().to_string().contains("difference"));
        if let Some((which, at, bit)) = damage {
            let which = which.index(images.len());
            let at = at.index(images[which].len());
            images[which][at] ^= 1 << bit;
            let mut sources: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
            let mut drive = blank();
            match restore_range(&mut sources, wanted, &mut drive) {
                Ok(_) => prop_assert!(has(&drive, start, &want[part])),
                Err(error) => prop_assert!(drive == blank(), "{error}, but the drive has changed"),
            }
        }
    }

    /// Guards against a bad sector that costs other sectors in an image or a replica, or is not reported. With
    /// snapshot-copy-on-write a whole block may be lost, if it has to be copied and cannot be read.
    #[test]
    fn bad_sectors_are_named_and_all_else_is_restored(app in any::<bool>(), replicate in any::<bool>(), seed in any::<u64>(), bad in prop::collection::btree_set(FIRST_LBN..FIRST_LBN + SLOTS * BLOCK / 2, 1..8)) {
        let mut world = BackupWorld::new(cow(app), seed);
        world.host.bad = bad.clone();
        let want = world.content();
        let (snapshot, _) = world.volume.borrow_mut().take().unwrap();
        let (drive, missing) = if replicate {
            let header = world.header(snapshot, None);
            let sessions = &mut world.host.registry;
            let output = Replica::new(header, None, blank()).unwrap();
            let mut backup = Backup::start(world.volume.clone(), output, (snapshot, None), SECTOR, sessions, Priority::default()).unwrap();
            while *backup.state() != BackupState::Finished {
                world.act(&mut backup);
            }
            let missing = backup.output_mut().missing().to_vec();
            (backup.output_mut().destination_mut().clone(), missing)
        } else {
            let image = world.image(snapshot, None, 1);
            let mut drive = blank();
            let restored = restore(&mut image.as_slice(), None, &mut drive).unwrap();
            (drive, restored.missing)
        };
        for i in 0..BLOCKS * BLOCK {
            let lbn = FIRST_LBN + i;
            let got = &drive.bytes[lbn as usize * SECTOR..][..SECTOR];
            if missing.contains(&Lbn::new(lbn)) {
                prop_assert!(got.iter().all(|b| *b == 0xee), "a missing sector was written");
                let home = FIRST_LBN + i / BLOCK * BLOCK;
                let reason = if app { lbn..lbn + 1 } else { home..home + BLOCK };
                prop_assert!(bad.range(reason).next().is_some(), "sector {} is missing without a reason", lbn);
            } else {
                prop_assert!(want[i as usize].as_ref().is_some_and(|want| got == want), "sector {} differs", lbn);
            }
        }
    }

    /// Guards against a damaged image that is restored as a whole one or causes a panic, and good blocks lost in a
    /// salvage.
    #[test]
    fn a_damaged_image_is_refused_and_the_rest_can_be_salvaged(seed in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>()) {
        let mut world = BackupWorld::new(Cow::Snapshot, seed);
        let want = world.content();
        let (snapshot, _) = world.volume.borrow_mut().take().unwrap();
        let mut image = world.image(snapshot, None, 0);
        let at = at.index(image.len());
        if cut {
            image.truncate(at);
        } else {
            image[at] ^= 1 << bit;
        }
        let mut drive = blank();
        let damage = verify(&mut image.as_slice()).unwrap_err();
        prop_assert!(damage.at <= at as u64, "{damage}");
        prop_assert!(restore(&mut image.as_slice(), None, &mut drive).is_err());
        prop_assert!(drive == blank(), "a refused image changed the drive");
        if let Ok(restored) = salvage(&mut image.as_slice(), None, &mut drive) {
            prop_assert!(!restored.damage.is_empty());
            let chunk = 28 + BLOCK as usize * SECTOR;
            let least = if cut { ((at - 92) / chunk).min(BLOCKS as usize) } else { BLOCKS as usize - 1 };
            prop_assert!(restored.blocks as usize >= least, "{} of {}", restored.blocks, least);
            for (i, sector) in want.iter().flatten().enumerate() {
                let got = &drive.bytes[(FIRST_LBN as usize + i) * SECTOR..][..SECTOR];
                prop_assert!(got == sector || got.iter().all(|b| *b == 0xee), "sector {i} is neither restored nor unchanged");
            }
        } else {
            prop_assert!(at < 92, "only a damaged header stands in the way of a salvage");
        }
    }
}

/// Guards against a backup that continues an unfinished image of another snapshot.
#[test]
fn a_backup_refuses_the_image_of_another_snapshot_and_says_when_its_own_is_gone() {
    let mut world = BackupWorld::new(Cow::Snapshot, 3);
    let (one, _) = world.volume.borrow_mut().take().unwrap();
    let (two, _) = world.volume.borrow_mut().take().unwrap();
    let writer = ImageWriter::new(world.header(one, None), LimitedTape::default());
    let volume = world.volume.clone();
    let sessions = &mut world.host.registry;
    let refused = Backup::start(volume.clone(), writer, (two, None), SECTOR, sessions, Priority::default());
    assert!(refused.unwrap_err().to_string().contains("not of snapshot 2"));
    let tape = LimitedTape { room: usize::MAX, ..LimitedTape::default() };
    let writer = ImageWriter::new(world.header(two, None), tape);
    let sessions = &mut world.host.registry;
    let mut backup =
        Backup::start(volume.clone(), writer, (two, None), SECTOR, sessions, Priority::default()).unwrap();
    world.host.step(&mut backup);
    let _ = volume.borrow_mut().invalidate(two).unwrap();
    world.host.step(&mut backup);
    assert!(matches!(backup.state(), BackupState::Gone(gone) if gone.to_string().contains("invalid")));
    assert_eq!(world.host.registry.pending(), 0, "its session is closed");
}
