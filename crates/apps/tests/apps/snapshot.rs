//! Snapshots against a naive model of the volume: whole copies of its bytes.

use crate::support::{Naive, SECTOR, carry_out, range};
use freeblock_apps::snapshot::{
    Bytes, ChangeError, Cow, Entry, Geometry, Provider, SnapshotId, SnapshotPlace, Step, Volume, VolumeId,
    WriteError, WriteId,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use units::{Lbn, LbnRange, Sectors};

const BLOCK: u64 = 4;
const BLOCKS: u64 = 12;
const FIRST_LBN: u64 = 3;

fn geometry(slots: u64) -> Geometry {
    let (first, block) = (Lbn::new(FIRST_LBN), Sectors::new(BLOCK));
    Geometry { volume: VolumeId(1), first, block, blocks: BLOCKS, slots }
}

struct Pending {
    id: WriteId,
    range: LbnRange,
    fill: u8,
    read: Vec<u8>,
}

/// A host with sectors of one repeated byte, a journal, and the naive model: the content of the volume now and at
/// each snapshot.
struct VolumeHost {
    volume: Volume,
    medium: Naive,
    saved: Vec<u8>,
    journal: Vec<[u8; Entry::BYTES]>,
    model: Vec<Option<u8>>,
    /// Sectors whose write failed or was cut off, with the old and new contents, either of which is right.
    torn: BTreeMap<u64, Vec<Option<u8>>>,
    snapshots: BTreeMap<SnapshotId, (Vec<Option<u8>>, BTreeSet<u64>)>,
    written: Vec<(u64, u64)>,
    taken: u64,
    pending: Vec<Pending>,
}

impl VolumeHost {
    fn new(cow: Cow, slots: u64, bad: BTreeSet<u64>) -> Self {
        let mut medium = Naive::new(FIRST_LBN + slots * BLOCK, 0);
        for (lbn, sector) in medium.medium.chunks_mut(SECTOR).enumerate() {
            sector.fill(lbn as u8);
        }
        medium.bad = bad;
        let mut volume = Volume::new(geometry(slots), cow).unwrap();
        let saved = volume.save().unwrap();
        let model = (0..BLOCKS * BLOCK).map(|i| Some((FIRST_LBN + i) as u8)).collect();
        let (journal, pending) = (Vec::new(), Vec::new());
        let (torn, snapshots) = (BTreeMap::new(), BTreeMap::new());
        Self {
            volume,
            medium,
            saved,
            journal,
            model,
            torn,
            snapshots,
            written: Vec::new(),
            taken: 0,
            pending,
        }
    }

    /// Returns the repeated byte of each sector.
    fn bytes(&self, range: LbnRange) -> Vec<u8> {
        self.medium.bytes(range).chunks(SECTOR).map(|sector| sector[0]).collect()
    }

    fn begin(&mut self, range: LbnRange, fill: u8) {
        match self.volume.write(range) {
            Ok(id) => self.pending.push(Pending { id, range, fill, read: Vec::new() }),
            Err(WriteError::Full { oldest: Some(oldest), .. }) => {
                let entry = self.volume.invalidate(oldest).unwrap();
                self.journal.push(entry.encode());
                self.snapshots.remove(&oldest);
            }
            Err(WriteError::Busy(_) | WriteError::Full { .. }) => {}
            Err(WriteError::Outside { .. }) => panic!("{range} is on the volume"),
        }
    }

    /// Carries out one step of one write.
    fn step(&mut self, which: usize) {
        if self.pending.is_empty() {
            return;
        }
        let at = which % self.pending.len();
        let Pending { id, range, fill, .. } = self.pending[at];
        let step = self.volume.step(id).unwrap();
        let filled: Vec<u8> =
            (range.start().get()..range.end().get()).flat_map(|lbn| [data(lbn, fill); SECTOR]).collect();
        let fine = carry_out(&mut self.medium, step, &mut self.pending[at].read, &filled);
        if let (true, Step::Write { to, bytes: Bytes::Data { from } }) = (fine, step) {
            let block = (range.start().get() + from.get() - FIRST_LBN) / BLOCK;
            // An overwrite in place counts from this moment on, whether or not the write ever ends.
            if self.volume.current(block).is_some_and(|r| r.contains(to.start())) {
                self.written.push((self.taken, block));
            }
        }
        if let Step::Record(entry) = step {
            self.journal.push(entry.encode());
        }
        let over = if fine {
            self.volume.done(id);
            self.volume.step(id).is_none().then_some(true)
        } else {
            self.volume.failed(id).is_err().then_some(false)
        };
        if let Some(well) = over {
            let pending = self.pending.remove(at);
            self.finish(&pending, well);
        }
    }

    fn finish(&mut self, pending: &Pending, well: bool) {
        let (start, end) = (pending.range.start().get() - FIRST_LBN, pending.range.end().get() - FIRST_LBN);
        if well {
            let blocks = start / BLOCK..=(end - 1) / BLOCK;
            self.written.extend(blocks.map(|block| (self.taken, block)));
        }
        for i in start / BLOCK * BLOCK..end.div_ceil(BLOCK) * BLOCK {
            let new = if (start..end).contains(&i) {
                Some(data(FIRST_LBN + i, pending.fill))
            } else {
                Some(self.model[i as usize].unwrap_or(0))
            };
            if well {
                self.model[i as usize] = new;
                // A complete write of a torn sector leaves no doubt about its content.
                if (start..end).contains(&i) {
                    self.torn.remove(&i);
                }
            } else {
                let old = self.model[i as usize];
                self.torn.entry(i).or_default().extend([old, new]);
            }
        }
    }
}

fn data(lbn: u64, fill: u8) -> u8 {
    (lbn as u8).wrapping_mul(31) ^ fill
}

impl VolumeHost {
    fn take(&mut self) {
        if let Ok((id, entry)) = self.volume.take() {
            self.journal.push(entry.encode());
            self.taken = id.0;
            self.snapshots.insert(id, (self.model.clone(), self.torn.keys().copied().collect()));
        } else {
            assert!(!self.pending.is_empty(), "only writes under way stand in the way of a snapshot");
        }
    }

    fn delete(&mut self, which: usize) {
        let Some(id) = self.snapshots.keys().nth(which % self.snapshots.len().max(1)).copied() else {
            return;
        };
        self.journal.push(self.volume.delete(id).unwrap().encode());
        self.snapshots.remove(&id);
    }

    fn discard(&mut self, block: u64) {
        if let Ok(Some(entry)) = self.volume.discard(block) {
            self.journal.push(entry.encode());
            for i in block * BLOCK..(block + 1) * BLOCK {
                self.model[i as usize] = None;
                self.torn.remove(&i);
            }
        }
    }

    /// Cuts the power, and recovers: the medium, the last saved state and the journal are left.
    fn crash(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            self.finish(&pending, false);
        }
        self.volume = Volume::load(&self.saved).unwrap();
        for entry in &self.journal {
            self.volume.replay(Entry::decode(entry).unwrap()).unwrap();
        }
    }

    fn save(&mut self) {
        if let Ok(saved) = self.volume.save() {
            // The journal is not truncated, as after a crash between saving and truncating: changes in the saved
            // state must not be repeated.
            self.saved = saved;
        }
    }

    fn check(&self) {
        let space = self.volume.space();
        assert_eq!(
            space.current + space.kept + space.reserved + space.retired + space.free,
            space.slots,
            "a slot was lost or given out twice: {space:?}"
        );
        if self.pending.is_empty() {
            assert_eq!(space.reserved, 0);
            self.same(
                &self.model,
                &self.torn.keys().copied().collect(),
                |b| self.volume.current(b),
                |_| false,
            );
        }
        for (id, (model, torn)) in &self.snapshots {
            let place = |b| match self.volume.locate(*id, b).unwrap() {
                SnapshotPlace::At(range) => Some(range),
                SnapshotPlace::Lost | SnapshotPlace::Hole => None,
            };
            let lost = |b| self.volume.locate(*id, b) == Ok(SnapshotPlace::Lost);
            assert!(
                (0..BLOCKS).all(|b| !lost(b) || !self.medium.bad.is_empty()),
                "lost without a bad sector"
            );
            self.same(model, torn, place, lost);
            self.lists(*id, model, torn);
        }
    }

    fn same(
        &self,
        model: &[Option<u8>],
        torn: &BTreeSet<u64>,
        place: impl Fn(u64) -> Option<LbnRange>,
        lost: impl Fn(u64) -> bool,
    ) {
        for block in 0..BLOCKS {
            if lost(block) || (block * BLOCK..(block + 1) * BLOCK).any(|i| torn.contains(&i)) {
                continue;
            }
            let got = place(block).map(|r| self.bytes(r));
            let want: Option<Vec<u8>> =
                model[(block * BLOCK) as usize..((block + 1) * BLOCK) as usize].iter().copied().collect();
            assert_eq!(got, want, "block {block}");
        }
    }

    /// Checks that the list has each non-empty block once, in order, and a difference all blocks written in between.
    fn lists(&self, id: SnapshotId, model: &[Option<u8>], torn: &BTreeSet<u64>) {
        let list = |base| {
            let (mut at, mut blocks) = (0, Vec::new());
            while let Some(extent) = self.volume.next(id, base, at).unwrap() {
                for i in 0..extent.blocks {
                    let place = extent.place.map(|r| range(r.start().get() + i * BLOCK, BLOCK));
                    let want = match self.volume.locate(id, extent.first + i).unwrap() {
                        SnapshotPlace::At(range) => Some(range),
                        SnapshotPlace::Lost => None,
                        SnapshotPlace::Hole => panic!("a hole in the list"),
                    };
                    assert_eq!(place, want);
                    blocks.push(extent.first + i);
                }
                at = extent.first + extent.blocks;
            }
            blocks
        };
        let all = list(None);
        if torn.is_empty() {
            let used: Vec<u64> = (0..BLOCKS).filter(|b| model[(b * BLOCK) as usize].is_some()).collect();
            assert_eq!(all, used);
        }
        for base in 1..id.0 {
            let difference = list(Some(SnapshotId(base)));
            for (_, block) in self.written.iter().filter(|(epoch, _)| (base..id.0).contains(epoch)) {
                let missed = all.contains(block) && !difference.contains(block);
                assert!(
                    !missed,
                    "block {block} was written after {base} and is not in the difference to {id}"
                );
            }
        }
    }
}

#[derive(Clone, Debug)]
enum VolumeEvent {
    Write(u64, u64, u8),
    Step(usize),
    Take,
    Delete(usize),
    Discard(u64),
    Crash,
    Save,
}

fn event() -> impl Strategy<Value = VolumeEvent> {
    prop_oneof![
        4 => (0..BLOCKS * BLOCK, 1..3 * BLOCK, any::<u8>()).prop_map(|(a, n, f)| VolumeEvent::Write(a, n, f)),
        24 => any::<usize>().prop_map(VolumeEvent::Step),
        2 => Just(VolumeEvent::Take),
        1 => any::<usize>().prop_map(VolumeEvent::Delete),
        1 => (0..BLOCKS).prop_map(VolumeEvent::Discard),
        1 => Just(VolumeEvent::Crash),
        1 => Just(VolumeEvent::Save),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(200, 600)))]

    /// Guards against an overwrite that reaches a snapshot's bytes; a slot lost or used twice; a crash that leaves a
    /// map ahead of the data, or a saved state behind its journal; a difference that misses a write.
    #[test]
    fn snapshots_never_change_whatever_the_foreground_does(
        app in any::<bool>(),
        extra in 0..20u64,
        bad in proptest::collection::btree_set(FIRST_LBN..FIRST_LBN + (BLOCKS + 20) * BLOCK, 0..3),
        with_bad in any::<bool>(),
        events in proptest::collection::vec(event(), 1..250),
    ) {
        let cow = if app { Cow::Application } else { Cow::Snapshot };
        let bad = if with_bad { bad } else { BTreeSet::new() };
        let mut host = VolumeHost::new(cow, BLOCKS + extra, bad);
        for event in events {
            match event {
                VolumeEvent::Write(at, len, fill) => {
                    let len = len.min(BLOCKS * BLOCK - at);
                    host.begin(range(FIRST_LBN + at, len), fill);
                }
                VolumeEvent::Step(which) => host.step(which),
                VolumeEvent::Take => host.take(),
                VolumeEvent::Delete(which) => host.delete(which),
                VolumeEvent::Discard(block) => host.discard(block),
                VolumeEvent::Crash => host.crash(),
                VolumeEvent::Save => host.save(),
            }
            host.check();
        }
    }

    /// Guards against a damaged or cut journal or state that is accepted, or panics.
    #[test]
    fn damaged_maps_are_refused(flip in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<prop::sample::Index>()) {
        let mut volume = Volume::new(geometry(20), Cow::Snapshot).unwrap();
        volume.take().unwrap();
        let write = volume.write(range(FIRST_LBN + 2, 9)).unwrap();
        let mut entries = Vec::new();
        while let Some(step) = volume.step(write) {
            if let Step::Record(entry) = step {
                entries.push(entry.encode());
            }
            volume.done(write);
        }
        let saved = volume.save().unwrap();
        let mut bytes = saved.clone();
        let at = flip.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Volume::load(&bytes).is_err());
        prop_assert!(Volume::load(&saved[..cut.index(saved.len())]).is_err());
        let mut entry = entries[0];
        entry[flip.index(Entry::BYTES)] ^= 1 << bit;
        prop_assert_eq!(Entry::decode(&entry), Err(ChangeError::Damaged));
        prop_assert_eq!(Entry::decode(&entry[..cut.index(Entry::BYTES)]), Err(ChangeError::Damaged));
    }

    /// Guards against maps that contradict themselves under a right checksum: they give an error or a volume, no
    /// panic.
    #[test]
    fn nonsense_with_a_right_checksum_is_refused_or_a_volume(flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut volume = Volume::new(geometry(20), Cow::Application).unwrap();
        volume.take().unwrap();
        let write = volume.write(range(FIRST_LBN + 2, 9)).unwrap();
        while volume.step(write).is_some() {
            volume.done(write);
        }
        volume.discard(1).unwrap();
        let mut bytes = volume.save().unwrap();
        bytes.truncate(bytes.len() - 4);
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            // The geometry, which decides the memory of the maps, stays unchanged here.
            if at >= 45 {
                bytes[at] = byte;
            }
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        if let Ok(volume) = Volume::load(&bytes) {
            let space = volume.space();
            prop_assert_eq!(space.current + space.kept + space.retired + space.free, space.slots);
        }
    }
}

/// Guards against a foreground write that is lost or half done because snapshots fill the space.
#[test]
fn out_of_space_is_named_and_changes_nothing() {
    for cow in [Cow::Application, Cow::Snapshot] {
        let mut volume = Volume::new(geometry(BLOCKS + 1), cow).unwrap();
        let (id, _) = volume.take().unwrap();
        let before = volume.space();
        let full = WriteError::Full { needed: 2, free: 1, oldest: Some(id) };
        assert_eq!(volume.write(range(FIRST_LBN, 2 * BLOCK)), Err(full));
        assert_eq!(volume.space(), before);
        volume.invalidate(id).unwrap();
        assert!(volume.write(range(FIRST_LBN, 2 * BLOCK)).is_ok());
        assert!(volume.locate(id, 0).unwrap_err().to_string().contains("invalid"));
    }
}
