//! The applications on the real scheduler: a small drive with bytes, whose every gap is planned, and an endless
//! foreground. The other tests use the naive host, which has no scheduler and orders blocks more hostilely.

use crate::support::{self, Drive, Late, Naive, SECTOR, carry_out, range};
use freeblock_apps::backup::image::Header;
use freeblock_apps::backup::{Backup, BackupState, ImageWriter, restore};
use freeblock_apps::reorganizer::{Memory, Options, RelocationPlan, Reorganizer};
use freeblock_apps::scrub::{self, Finding, Scrubber, StoreLimits, StoredChecksums};
use freeblock_apps::sessions::{Application, Priority, Sessions, Wanted};
use freeblock_apps::snapshot::{Cow, Geometry, Provider, Step, Volume, VolumeId, WriteError, WriteId};
use model::layout::Location;
use model::{DriveModel, Profile};
use proptest::prelude::*;
use scheduler::{Buffers, Config, HeadWork, IdleTime, InDrive, Output, Purpose, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Asks the application for bytes, and keeps them until they are written.
struct Asked<'a> {
    app: &'a mut dyn Application,
    given: &'a mut BTreeMap<u64, Vec<u8>>,
}

impl Buffers for Asked<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let mut bytes = vec![0; wanted.range.len().get() as usize * SECTOR];
        let ready = self.app.buffer(wanted, &mut bytes);
        if ready {
            let lbns = wanted.range.start().get()..;
            self.given.extend(lbns.zip(bytes.chunks(SECTOR).map(<[u8]>::to_vec)));
        }
        ready
    }
}

/// The core, and a drive that behaves as the core predicts. Medium and random numbers are the naive host's.
struct Inside {
    core: InDrive,
    host: Naive,
    now: Instant,
    given: BTreeMap<u64, Vec<u8>>,
    /// Records that wait for their client.
    late: Late,
    requests: u64,
    /// Sectors transferred for the background.
    free: u64,
}

impl Inside {
    fn new(seed: u64, idle: bool) -> Self {
        let toml = include_str!("../../../model/tests/data/tiny.toml");
        let profile = Profile::from_toml(toml, "tiny.toml").unwrap();
        let drive = Arc::new(DriveModel::from_profile(&profile).unwrap());
        let host = Naive::new(drive.layout().capacity().get(), seed);
        let config = Config::default().with_seed(seed).with_idle(idle.then(IdleTime::default));
        let (given, now) = (BTreeMap::new(), Instant::ZERO);
        let late = Late::default();
        Self { core: InDrive::new(drive, config), host, now, given, late, requests: 0, free: 0 }
    }

    fn capacity(&self) -> u64 {
        self.core.drive().layout().capacity().get()
    }

    fn anywhere(&mut self) -> LbnRange {
        let start = self.host.below(self.capacity() - 8);
        range(start, 1 + self.host.below(8))
    }

    /// Carries out one foreground request, and the detour in its gap.
    fn request(&mut self, app: &mut dyn Application, op: Op, range: LbnRange) {
        self.requests += 1;
        let id = RequestId::new(self.requests);
        self.core.submit(self.now, Request { id, op, range }).unwrap();
        while self.poll(app) != Some(id) {}
        self.drain(app);
    }

    /// Lets idle time pass, without foreground requests.
    fn rest(&mut self, app: &mut dyn Application) {
        self.drain(app);
        if let Some(at) = self.core.wake_at() {
            self.now = self.now.max(at);
            self.drain(app);
        }
    }

    fn drain(&mut self, app: &mut dyn Application) {
        while self.core.pending() > 0 || self.core.busy_until().is_some() {
            self.poll(app);
        }
        // The idle-time work that remains is done later, one access at a time.
        self.poll(app);
        while self.host.below(4) > 0 && !self.late.0.is_empty() {
            let which = self.host.below(1 << 32);
            self.late.deliver(which, &mut self.core, app);
        }
    }

    /// Handles one output; returns the foreground request that it ended.
    fn poll(&mut self, app: &mut dyn Application) -> Option<RequestId> {
        match self.core.poll_with(self.now, &mut Asked { app, given: &mut self.given })? {
            Output::Do(HeadWork::Execute) => self.execute(),
            Output::Deliver(record) => {
                let read = record.op == Op::Read && record.bad.is_none();
                let bytes = if read { self.host.bytes(record.range).to_vec() } else { Vec::new() };
                self.late.0.push((record, bytes));
            }
            Output::Completed(id) | Output::Failed { id, .. } => return Some(id),
            Output::Do(HeadWork::Cut) => unreachable!("requests come when nothing is under way"),
        }
        None
    }

    fn execute(&mut self) {
        let mut bad = BTreeSet::new();
        for access in self.core.accesses().to_vec() {
            let drive = self.core.drive();
            let round = drive.layout().track(access.track).sectors;
            let sectors = (0..access.sectors).map(|i| (access.sector + i) % round);
            let location = |sector| Location { track: access.track, sector };
            let lbns: Vec<Lbn> = sectors.filter_map(|s| drive.layout().lbn_at(location(s))).collect();
            for lbn in lbns {
                let background = access.purpose != Purpose::Foreground;
                self.free += u64::from(background);
                if self.host.bad.contains(&lbn.get()) {
                    bad.insert(lbn);
                } else if let (true, Op::Write) = (background, access.op)
                    && let Some(bytes) = self.given.get(&lbn.get())
                {
                    self.host.medium[lbn.get() as usize * SECTOR..][..SECTOR].copy_from_slice(bytes);
                }
            }
        }
        self.given.clear();
        self.now = self.core.busy_until().unwrap();
        let bad: Vec<Lbn> = bad.into_iter().collect();
        self.core.completed_with(self.now, &bad);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Tests the scrubber on the real core, with bad sectors, rot, a foreground that writes, and restarts.
    #[test]
    fn a_scrub_in_the_gaps_finds_what_is_wrong(seed in any::<u64>(), idle in any::<bool>(), bad in prop::collection::btree_set(0..4_800u64, 0..6), rot in prop::collection::btree_set(0..600u64, 0..6)) {
        let mut inside = Inside::new(seed, idle);
        let plan = scrub::ScrubPlan { range: range(0, inside.capacity()), block: Sectors::new(8), sector_bytes: SECTOR };
        let store = StoredChecksums::create(plan, StoreLimits { pages: 1, recent: 4 }, Vec::new()).unwrap();
        let store = Rc::new(RefCell::new(store));
        for block in 0..plan.blocks() {
            store.borrow_mut().writing(block).unwrap();
            store.borrow_mut().written(block, Some(inside.host.bytes(plan.place(block))));
            if rot.contains(&block) {
                inside.host.bytes_mut(plan.place(block))[3] ^= 4;
            }
        }
        inside.host.bad = bad.clone();
        let priority = Priority::default();
        let mut scrub = Scrubber::start(plan, store.clone(), &mut inside.core, priority, Instant::ZERO).unwrap();
        for iteration in 0.. {
            prop_assert!(iteration < 200_000, "no end: {:?}", scrub.figures(inside.now));
            if scrub.is_done() {
                break;
            }
            if iteration % 500 == 499 {
                let saved = scrub.progress();
                inside.core.close(scrub.session()).unwrap();
                scrub = Scrubber::resume(plan, &saved, store.clone(), &mut inside.core, priority, inside.now).unwrap().unwrap();
            }
            let at = inside.anywhere();
            if inside.host.below(4) == 0 {
                // Writes avoid rotten blocks, so that the rot must be found.
                let block = at.start().get() / 8;
                let place = plan.place(block);
                if !rot.contains(&block) && support::first_bad(&bad, place).is_none() {
                    store.borrow_mut().writing(block).unwrap();
                    inside.request(&mut scrub, Op::Write, place);
                    inside.host.bytes_mut(place).fill(iteration as u8);
                    store.borrow_mut().written(block, Some(inside.host.bytes(place)));
                }
            } else {
                inside.request(&mut scrub, Op::Read, at);
            }
            if idle && inside.host.below(8) == 0 {
                inside.rest(&mut scrub);
            }
        }
        let mut found = scrub.findings().to_vec();
        found.sort_unstable();
        let with_bad: BTreeSet<u64> = bad.iter().map(|lbn| lbn / 8).collect();
        let mut want: Vec<Finding> = bad.iter().map(|lbn| Finding::Medium(Lbn::new(*lbn))).collect();
        want.extend(rot.difference(&with_bad).filter(|b| **b < plan.blocks()).map(|b| Finding::Mismatch(*b)));
        want.sort_unstable();
        prop_assert_eq!(found, want);
        // Foreground reads completed the rest.
        prop_assert!(inside.free >= inside.capacity() / 2, "it was read in the gaps");
    }

    /// Tests the reorganiser on the real core: the three kinds of plan, with a small and a large staging area.
    #[test]
    fn a_reorganisation_in_the_gaps_moves_every_block(seed in any::<u64>(), idle in any::<bool>(), kind in 0..3, staging in prop_oneof![Just(2u64), 3..40u64]) {
        let mut inside = Inside::new(seed, idle);
        let (block, capacity) = (Sectors::new(8), Sectors::new(inside.capacity()));
        let mut chance = workload::random::Stream::new(seed, "plan");
        let mut below = |n| chance.below(n);
        let region = range(0, capacity.get());
        let tracks: Vec<LbnRange> = (0..90).map(|i| range(i * 50, 50)).collect();
        let plan = match kind {
            0 => RelocationPlan::random(region, block, capacity, 80, &mut below),
            1 => RelocationPlan::circular(region, block, capacity, 80, &mut below),
            _ => RelocationPlan::track_shuffle(&tracks, block, capacity, 12, &mut below),
        }.unwrap();
        let before = inside.host.medium.clone();
        let options = Options { staging, ..Options::default() };
        let mut app = Reorganizer::start(&plan, options, Bytes::new(SECTOR as u64), Memory::default(), &mut inside.core).unwrap();
        for iteration in 0.. {
            prop_assert!(iteration < 200_000, "no end: {:?} {:?}", app.progress(), app.trouble());
            if app.progress().is_finished() {
                break;
            }
            let at = inside.anywhere();
            inside.request(&mut app, Op::Read, at);
            if idle && inside.host.below(4) == 0 {
                inside.rest(&mut app);
            }
        }
        prop_assert!(app.statistics().most_staged <= staging);
        for m in plan.moves() {
            let to = LbnRange::new(m.to, m.from.len());
            prop_assert!(inside.host.bytes(to) == &before[support::at(m.from)], "{} to {}", m.from, m.to);
        }
    }

    /// Tests the backup on the real core: both kinds of copy-on-write, while the foreground's writes move and copy
    /// blocks.
    #[test]
    fn a_backup_in_the_gaps_is_the_volume_at_the_snapshot(seed in any::<u64>(), idle in any::<bool>(), app in any::<bool>()) {
        let mut inside = Inside::new(seed, idle);
        let cow = if app { Cow::Application } else { Cow::Snapshot };
        let blocks = 350;
        let geometry = Geometry { volume: VolumeId(5), first: Lbn::new(16), block: Sectors::new(8), blocks, slots: 580 };
        let volume = Rc::new(RefCell::new(Volume::new(geometry, cow).unwrap()));
        let (snapshot, _) = volume.borrow_mut().take().unwrap();
        let want = inside.host.bytes(range(16, blocks * 8)).to_vec();
        let shape = volume.shape();
        let header = Header { image: 1, shape, snapshot, base: None, sector_bytes: SECTOR as u32, chunks: blocks };
        let output = ImageWriter::new(header, Vec::new());
        let mut backup = Backup::start(volume.clone(), output, (snapshot, None), SECTOR, &mut inside.core, Priority::default()).unwrap();
        for iteration in 0.. {
            prop_assert!(iteration < 200_000, "no end: {:?}", backup.counts());
            if *backup.state() == BackupState::Finished {
                break;
            }
            prop_assert_eq!(backup.state(), &BackupState::Running);
            if inside.host.below(3) == 0 {
                let start = inside.host.below(blocks * 8 - 24);
                let place = range(16 + start, 1 + inside.host.below(24));
                write(&mut inside, &mut backup, &volume, place);
            } else {
                let at = inside.anywhere();
                inside.request(&mut backup, Op::Read, at);
            }
            if idle && inside.host.below(8) == 0 {
                inside.rest(&mut backup);
            }
        }
        let image = backup.into_output().into_sink();
        let mut drive = Drive::blank(16 + blocks * 8);
        restore(&mut image.as_slice(), None, &mut drive).unwrap();
        prop_assert!(drive.bytes[16 * SECTOR..] == want, "the restored volume differs");
        let now: Vec<u8> = (0..blocks).flat_map(|b| inside.host.bytes(volume.borrow().current(b).unwrap()).to_vec()).collect();
        prop_assert!(now != want, "the foreground wrote nothing");
    }
}

/// Writes to the volume as the foreground does: each step of the write is a request.
fn write(inside: &mut Inside, app: &mut dyn Application, volume: &RefCell<Volume>, place: LbnRange) {
    let id: WriteId = match volume.borrow_mut().write(place) {
        Ok(id) => id,
        Err(WriteError::Full { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let fill = inside.host.below(256) as u8;
    let data = vec![fill; place.len().get() as usize * SECTOR];
    let mut read = Vec::new();
    loop {
        let Some(step) = volume.borrow().step(id) else { return };
        match step {
            // The bytes of a write are on the medium when the request is done, and may be there earlier.
            Step::Write { to, .. } => {
                carry_out(&mut inside.host, step, &mut read, &data);
                inside.request(app, Op::Write, to);
            }
            Step::Read(from) => {
                inside.request(app, Op::Read, from);
                carry_out(&mut inside.host, step, &mut read, &data);
            }
            Step::Record(_) => {}
        }
        volume.borrow_mut().done(id);
    }
}
