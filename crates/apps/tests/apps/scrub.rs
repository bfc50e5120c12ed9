//! The scrubber against the known state of a medium that is written while the scrubber reads.

use crate::support::{Late, Naive, SECTOR, range};
use freeblock_apps::scrub::{
    Checksums, Finding, PAGE_BYTES, ScrubPlan, ScrubProgressError, Scrubber, StoreError, StoreLimits,
    StoredChecksums, SumFile,
};
use freeblock_apps::sessions::Sessions;
use proptest::prelude::*;
use scheduler::Priority;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{Instant, Lbn, Sectors};
use workload::random::Stream;

const FIRST_LBN: u64 = 3;
const SECTORS: u64 = 101;
const BLOCK: u64 = 4;

fn plan() -> ScrubPlan {
    ScrubPlan { range: range(FIRST_LBN, SECTORS), block: Sectors::new(BLOCK), sector_bytes: SECTOR }
}

/// A sparse file with a cache that a crash empties.
#[derive(Clone, Debug, Default)]
struct Pages {
    durable: BTreeMap<u64, Vec<u8>>,
    cached: BTreeMap<u64, Vec<u8>>,
    /// The number of calls before the file fails.
    fuel: Option<u64>,
}

impl Pages {
    fn burn(&mut self) -> Result<(), String> {
        match &mut self.fuel {
            Some(0) => Err("no fuel".into()),
            Some(fuel) => {
                *fuel -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Makes each page that was not durable old, new, or torn.
    fn crash(&mut self, mut below: impl FnMut(u64) -> u64) {
        for (page, new) in std::mem::take(&mut self.cached) {
            let old = self.durable.get(&page).cloned().unwrap_or(vec![0; PAGE_BYTES]);
            let cut = [0, PAGE_BYTES, below(PAGE_BYTES as u64 / 64) as usize * 64][below(3) as usize];
            self.durable.insert(page, [&new[..cut], &old[cut..]].concat());
        }
    }
}

impl SumFile for Pages {
    fn read(&mut self, page: u64, into: &mut [u8]) -> Result<bool, String> {
        self.burn()?;
        let found = self.cached.get(&page).or(self.durable.get(&page));
        found.iter().for_each(|bytes| into.copy_from_slice(bytes));
        Ok(found.is_some())
    }
    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), String> {
        self.burn()?;
        self.cached.insert(page, bytes.to_vec());
        Ok(())
    }
    fn sync(&mut self) -> Result<(), String> {
        self.burn()?;
        self.durable.append(&mut self.cached);
        Ok(())
    }
}

/// A file that the test and the store share.
#[derive(Clone, Debug, Default)]
struct SharedSums(Rc<RefCell<Pages>>);

impl SumFile for SharedSums {
    fn read(&mut self, page: u64, into: &mut [u8]) -> Result<bool, String> {
        self.0.borrow_mut().read(page, into)
    }
    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), String> {
        self.0.borrow_mut().write(page, bytes)
    }
    fn sync(&mut self) -> Result<(), String> {
        self.0.borrow_mut().sync()
    }
}

/// Opens a store again after a crash, from its durable state.
fn reopened(
    store: StoredChecksums<Pages>,
    plan: ScrubPlan,
    limits: StoreLimits,
    below: impl FnMut(u64) -> u64,
) -> StoredChecksums<Pages> {
    let mut file = store.into_file();
    file.fuel = None;
    file.crash(below);
    StoredChecksums::open(plan, limits, file).unwrap()
}

#[derive(Clone, Debug)]
enum ScrubEvent {
    Access,
    Deliver(u64),
    Begin(u64, u8),
    Medium,
    End,
    Save,
    Crash,
}

fn event() -> impl Strategy<Value = ScrubEvent> {
    prop_oneof![
        8 => Just(ScrubEvent::Access),
        8 => any::<u64>().prop_map(ScrubEvent::Deliver),
        2 => (0..26u64, any::<u8>()).prop_map(|(b, f)| ScrubEvent::Begin(b, f)),
        2 => Just(ScrubEvent::Medium),
        2 => Just(ScrubEvent::End),
        1 => Just(ScrubEvent::Save),
        1 => Just(ScrubEvent::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(150, 400)))]

    /// Guards against a block skipped after a restart, or read twice without need; a bad sector missed or good ones
    /// reported; a false alarm for a block that the foreground overwrites; undetected rot.
    #[test]
    fn each_block_is_judged_and_only_what_is_wrong_is_reported(
        seed in any::<u64>(),
        bad in prop::collection::btree_set(FIRST_LBN..FIRST_LBN + SECTORS, 0..5),
        rot in prop::collection::btree_set(0..26u64, 0..4),
        recent in 0..4usize,
        events in prop::collection::vec(event(), 0..300),
    ) {
        let plan = plan();
        let mut host = Naive::new(FIRST_LBN + SECTORS + 9, seed);
        let limits = StoreLimits { pages: 1, recent };
        let store = StoredChecksums::create(plan, limits, Pages::default()).unwrap();
        let store = Rc::new(RefCell::new(store));
        for block in 0..plan.blocks() {
            store.borrow_mut().writing(block).unwrap();
            store.borrow_mut().written(block, Some(host.bytes(plan.place(block))));
            if rot.contains(&block) {
                host.bytes_mut(plan.place(block))[1] ^= 1;
            }
        }
        store.borrow_mut().flush().unwrap();
        host.bad = bad.clone();
        let priority = Priority::default();
        let mut scrub = Scrubber::start(plan, store.clone(), &mut host.registry, priority, Instant::ZERO).unwrap();
        let mut late = Late::default();
        let mut saved = scrub.progress();
        let mut judged = 0;
        let mut writing: Option<(u64, u8)> = None;
        let mut rewritten = BTreeSet::new();
        let rest = (0..4_000).map(|i| if i % 2 == 0 { ScrubEvent::Access } else { ScrubEvent::Deliver(i) });
        for event in events.into_iter().chain([ScrubEvent::End]).chain(rest) {
            match event {
                ScrubEvent::Access => drop(host.step(&mut late)),
                ScrubEvent::Deliver(at) => late.deliver(at, &mut host.registry, &mut scrub),
                // Writes avoid rotten blocks, so that the rot must be found.
                ScrubEvent::Begin(block, fill) if writing.is_none() && !rot.contains(&block) && block < plan.blocks() => {
                    store.borrow_mut().writing(block).unwrap();
                    writing = Some((block, fill));
                }
                ScrubEvent::Medium => if let Some((block, fill)) = writing {
                    host.bytes_mut(plan.place(block)).fill(fill);
                },
                ScrubEvent::End => if let Some((block, fill)) = writing.take() {
                    host.bytes_mut(plan.place(block)).fill(fill);
                    store.borrow_mut().written(block, Some(host.bytes(plan.place(block))));
                    rewritten.insert(block);
                },
                ScrubEvent::Save => {
                    saved = scrub.progress();
                    judged = scrub.figures(Instant::ZERO).done;
                }
                ScrubEvent::Crash => {
                    let _ = host.registry.close(scrub.session());
                    late.0.clear();
                    // The write under way is cut off; the store is reopened from its file, which has whole pages.
                    writing = None;
                    let old = store.replace(StoredChecksums::create(plan, limits, Pages::default()).unwrap());
                    store.replace(reopened(old, plan, limits, |n| n.saturating_sub(2).min(1)));
                    scrub = Scrubber::resume(plan, &saved, store.clone(), &mut host.registry, priority, Instant::ZERO).unwrap().unwrap();
                    prop_assert_eq!(scrub.figures(Instant::ZERO).done, judged, "progress was lost or made up");
                }
                _ => {}
            }
        }
        prop_assert!(scrub.is_done());
        prop_assert_eq!(host.registry.pending(), 0);
        let mut found = scrub.findings().to_vec();
        found.sort_unstable();
        found.retain(|f| !matches!(f, Finding::Unsettled(b) if rewritten.contains(b)));
        let blocks_with_bad: BTreeSet<u64> = bad.iter().map(|l| (l - FIRST_LBN) / BLOCK).collect();
        let mut want: Vec<Finding> = bad.iter().map(|l| Finding::Medium(Lbn::new(*l))).collect();
        want.extend(rot.iter().filter(|b| **b < plan.blocks() && !blocks_with_bad.contains(b)).map(|b| Finding::Mismatch(*b)));
        want.sort_unstable();
        prop_assert_eq!(found, want);
    }

    /// Guards against a block that is checked twice, or forgotten, although progress was saved before each restart.
    #[test]
    fn over_restarts_each_block_is_read_once(seed in any::<u64>(), steps in prop::collection::vec(0..12u64, 0..12)) {
        let mut host = Naive::new(FIRST_LBN + SECTORS, seed);
        let priority = Priority::default();
        let mut scrub = Scrubber::start(plan(), (), &mut host.registry, priority, Instant::ZERO).unwrap();
        for steps in steps {
            for _ in 0..steps {
                host.step(&mut scrub);
            }
            let saved = scrub.progress();
            host.power_cut();
            scrub = Scrubber::resume(plan(), &saved, (), &mut host.registry, priority, Instant::ZERO).unwrap().unwrap();
        }
        while host.step(&mut scrub) {}
        prop_assert!(scrub.is_done() && host.registry.open_sessions() == 0);
        let mut starts: Vec<u64> = host.handed.iter().map(|d| d.range.start().get()).collect();
        starts.sort_unstable();
        let want: Vec<u64> = (0..plan().blocks()).map(|b| plan().place(b).start().get()).collect();
        prop_assert_eq!(starts, want);
    }

    /// Guards against a wrong sum of a block after a crash or a failing file; an overwrite that is dated too early; a
    /// sum that is lost without a reason.
    #[test]
    fn a_store_is_never_wrong_whatever_crashes(
        seed in any::<u64>(), steps in 0..400u64, pages in 1..4usize, recent in 0..5usize, tear in any::<bool>(),
    ) {
        const PAGES: u64 = 5;
        let plan = ScrubPlan { range: range(9, 992 * PAGES - 3), block: Sectors::new(1), sector_bytes: 1 };
        let limits = StoreLimits { pages, recent };
        let mut chance = Stream::new(seed, "store");
        let mut below = |n: u64| chance.below(n.try_into().unwrap());
        let file = SharedSums::default();
        let mut store = StoredChecksums::create(plan, limits, file.clone()).unwrap();
        // The model of the drive: a byte for each block, the time of each block's last write, and the writes under
        // way.
        let mut medium: BTreeMap<u64, u8> = BTreeMap::new();
        let mut written: BTreeMap<u64, u64> = BTreeMap::new();
        let mut writes: Vec<(u64, u8)> = Vec::new();
        let mut sure: BTreeSet<u64> = BTreeSet::new();
        let mut overlapped: BTreeSet<u64> = BTreeSet::new();
        for _ in 0..steps {
            match below(12) {
                0..=4 if writes.len() < 4 => {
                    // Only a few blocks of each page, so that writes overlap.
                    let block = below(PAGES) * 992 + below(3);
                    if store.writing(block).is_ok() {
                        if writes.iter().any(|w| w.0 == block) {
                            overlapped.insert(block);
                        }
                        sure.remove(&block);
                        writes.push((block, below(256) as u8));
                    }
                }
                5..=8 if !writes.is_empty() => {
                    let (block, content) = writes.swap_remove(below(writes.len() as u64) as usize);
                    // The last of two overlapping writes to end need not be the last on the medium.
                    if !overlapped.contains(&block) || writes.iter().any(|w| w.0 == block) || below(2) == 0 {
                        medium.insert(block, content);
                    }
                    store.written(block, Some(&[content]));
                    if !writes.iter().any(|w| w.0 == block) {
                        written.insert(block, store.now());
                        if !overlapped.remove(&block) && store.failure().is_none() {
                            sure.insert(block);
                        }
                    }
                }
                9 => {
                    let _ = store.flush();
                }
                10 => file.0.borrow_mut().fuel = Some(below(40)).filter(|fuel| *fuel < 20),
                11 if below(3) == 0 => {
                    for (block, content) in writes.drain(..) {
                        if below(2) == 0 {
                            medium.insert(block, content);
                        }
                    }
                    file.0.borrow_mut().fuel = None;
                    if tear {
                        file.0.borrow_mut().crash(&mut below);
                    } else {
                        file.0.borrow_mut().crash(|n| below(n.min(2)));
                    }
                    store = StoredChecksums::open(plan, limits, file.clone()).unwrap();
                    // Unsaved sums are unknown now, and no write has been made since the restart.
                    (written, sure, overlapped) = Default::default();
                }
                _ => {}
            }
            for page in 0..PAGES {
                for block in page * 992..page * 992 + 3 {
                    let known = store.known(block);
                    prop_assert!(known.since >= written.get(&block).copied().unwrap_or(0), "dated too early");
                    let under_way = writes.iter().any(|w| w.0 == block);
                    prop_assert!(known.changing || !under_way, "a write under way that is not known of");
                    if let (Some(sum), false) = (known.sum, under_way) {
                        let content = medium.get(&block);
                        prop_assert_eq!(Some(sum), content.map(|c| crc32fast::hash(&[*c])), "a wrong sum, block {}", block);
                    }
                    prop_assert!(known.sum.is_some() || !sure.contains(&block) || store.failure().is_some(), "a sum was lost");
                }
            }
        }
    }

    /// Guards against a wrong sum with a host that keeps track of its writes: the host forgets ranges before it
    /// writes them, and records sums of the medium's content.
    #[test]
    fn a_range_that_was_forgotten_is_not_believed_whatever_crashes(
        seed in any::<u64>(), steps in 0..300u64, pages in 1..4usize, tear in any::<bool>(),
    ) {
        const BLOCKS: u64 = 992 * 3 - 1;
        let plan = ScrubPlan { range: range(9, BLOCKS), block: Sectors::new(1), sector_bytes: 1 };
        let limits = StoreLimits { pages, recent: 0 };
        let mut chance = Stream::new(seed, "ranges");
        let mut below = |n: u64| chance.below(n.try_into().unwrap());
        let file = SharedSums::default();
        let mut store = StoredChecksums::create_as(7, plan, limits, file.clone()).unwrap();
        let mut medium: BTreeMap<u64, u8> = BTreeMap::new();
        // Blocks beside the borders of pages and at the end.
        let seams: Vec<u64> = [0, 992, 2 * 992, BLOCKS].iter().flat_map(|s| s.saturating_sub(2)..(s + 2).min(BLOCKS)).collect();
        let sum = |content: u8| crc32fast::hash(&[content]);
        for _ in 0..steps {
            match below(9) {
                0..=3 => {
                    let (a, b) = (seams[below(seams.len() as u64) as usize], seams[below(seams.len() as u64) as usize]);
                    let (first, end) = (a.min(b), a.max(b) + 1);
                    if store.forget(&[first..end, a..a]).is_ok() {
                        seams.iter().filter(|s| (first..end).contains(s)).for_each(|s| {
                            medium.insert(*s, below(256) as u8);
                        });
                        prop_assert!((first..end).all(|b| store.known(b).sum.is_none()), "still known");
                    }
                }
                4..=6 => {
                    let some: Vec<(u64, u32)> = (0..below(4)).map(|_| {
                        let block = seams[below(seams.len() as u64) as usize];
                        (block, sum(medium.get(&block).copied().unwrap_or(0)))
                    }).collect();
                    if store.record(&some).is_ok() {
                        let all = some.iter().all(|(b, s)| store.known(*b).sum == Some(*s));
                        prop_assert!(all || store.failure().is_some(), "not recorded");
                    }
                }
                7 => file.0.borrow_mut().fuel = Some(below(40)).filter(|fuel| *fuel < 20),
                _ if below(3) == 0 => {
                    file.0.borrow_mut().fuel = None;
                    if tear {
                        file.0.borrow_mut().crash(&mut below);
                    } else {
                        file.0.borrow_mut().crash(|n| below(n.min(2)));
                    }
                    prop_assert_eq!(StoredChecksums::open_as(8, plan, limits, file.clone()).err(), Some(StoreError::Stale));
                    store = StoredChecksums::open_as(7, plan, limits, file.clone()).unwrap();
                }
                _ => {}
            }
            for block in &seams {
                if let Some(found) = store.known(*block).sum {
                    prop_assert_eq!(found, sum(medium.get(block).copied().unwrap_or(0)), "a wrong sum, block {}", block);
                }
            }
        }
    }

    /// Guards against a damaged store that is accepted, or that loses more than a page.
    #[test]
    fn a_damaged_store_is_refused_or_costs_a_page(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let plan = ScrubPlan { range: range(9, 992 * 4), block: Sectors::new(1), sector_bytes: 1 };
        let mut store = StoredChecksums::create(plan, StoreLimits::default(), Vec::new()).unwrap();
        for block in (0..992 * 4).step_by(7) {
            store.writing(block).unwrap();
            store.written(block, Some(&[block as u8]));
        }
        store.flush().unwrap();
        let mut file = store.into_file();
        // The header, the pages, and the two slots of the sequence.
        let pages = 4;
        prop_assert_eq!(file.len(), (1 + pages + 2) * PAGE_BYTES);
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        let opened = StoredChecksums::open(plan, StoreLimits::default(), file);
        if at < PAGE_BYTES {
            let refused = opened.err();
            prop_assert!(matches!(refused, Some(StoreError::Foreign | StoreError::Damaged)), "{refused:?}");
        } else {
            let mut store = opened.unwrap();
            let page = (at / PAGE_BYTES) as u64;
            for block in (0..992 * 4).step_by(7) {
                let sum = Some(crc32fast::hash(&[block as u8])).filter(|_| 1 + block / 992 != page);
                prop_assert_eq!(store.known(block).sum, sum);
            }
            let damaged: Vec<String> = store.damaged().map(|d| d.to_string()).collect();
            // A damaged slot is not reported: the other slot is enough, and slots hold no sums.
            prop_assert_eq!(damaged.len(), usize::from(page <= pages as u64));
            prop_assert!(damaged.iter().all(|damage| damage.contains(&format!("page {page} "))), "{damaged:?}");
        }
    }

    /// Guards against progress that contradicts itself under a right checksum: it gives an error or a scrub that
    /// ends, no panic.
    #[test]
    fn progress_with_a_valid_checksum_and_random_content_is_refused_or_continued(steps in 0..30u64, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut host = Naive::new(200, 1);
        host.bad.extend([5, 50]);
        let mut scrub = Scrubber::start(plan(), (), &mut host.registry, Priority::default(), Instant::ZERO).unwrap();
        for _ in 0..steps {
            host.step(&mut scrub);
        }
        let mut bytes = scrub.progress();
        host.power_cut();
        let end = bytes.len() - 4;
        for (at, byte) in flips {
            bytes[32 + at.index(end - 32)] = byte;
        }
        let sum = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&sum);
        match Scrubber::resume(plan(), &bytes, (), &mut host.registry, Priority::default(), Instant::ZERO) {
            Ok(resumed) => {
                let mut scrub = resumed.unwrap();
                while host.step(&mut scrub) {}
                prop_assert!(scrub.is_done());
            }
            Err(refused) => prop_assert_eq!(refused, ScrubProgressError::Damaged),
        }
    }

    /// Guards against damaged progress that makes a scrub skip blocks.
    #[test]
    fn damaged_progress_is_refused_by_name(at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>(), steps in 0..30u64) {
        let mut host = Naive::new(200, 1);
        let mut scrub = Scrubber::start(plan(), (), &mut host.registry, Priority::default(), Instant::ZERO).unwrap();
        for _ in 0..steps {
            host.step(&mut scrub);
        }
        let good = scrub.progress();
        let mut bytes = good.clone();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let mut resume = |plan, bytes: &[u8]| {
            Scrubber::resume(plan, bytes, (), &mut host.registry, Priority::default(), Instant::ZERO).map(|s| s.is_ok())
        };
        let refused = resume(plan(), &bytes);
        prop_assert!(matches!(refused, Err(ScrubProgressError::Damaged | ScrubProgressError::Foreign)), "{refused:?}");
        let other = ScrubPlan { block: Sectors::new(5), ..plan() };
        prop_assert_eq!(resume(other, &good), Err(ScrubProgressError::OtherPlan));
        prop_assert_eq!(resume(plan(), &good), Ok(true));
    }
}

/// Guards against memory that grows with the drive: 20 TB in blocks of 4 KiB, and writes all over it.
#[test]
fn a_store_for_20_tb_takes_megabytes_of_memory() {
    let plan =
        ScrubPlan { range: range(0, 20_000_000_000_000 / 512), block: Sectors::new(8), sector_bytes: 512 };
    let mut store = StoredChecksums::create(plan, StoreLimits::default(), Pages::default()).unwrap();
    let mut chance = Stream::new(1, "20 TB");
    let blocks: Vec<u64> = (0..20_000).map(|_| chance.below(plan.blocks().try_into().unwrap())).collect();
    for (i, block) in blocks.iter().enumerate() {
        store.writing(*block).unwrap();
        store.written(*block, Some(&i.to_le_bytes()));
    }
    assert!(store.memory_bytes() < 8 << 20, "{} bytes", store.memory_bytes());
    let right =
        |(i, block): (usize, &u64)| store.known(*block).sum == Some(crc32fast::hash(&i.to_le_bytes()));
    assert!(blocks.iter().enumerate().all(right));
    let other = ScrubPlan { block: Sectors::new(16), ..plan };
    let refused = StoredChecksums::open(other, StoreLimits::default(), store.into_file()).unwrap_err();
    assert!(refused.to_string().contains("in blocks of 8"), "{refused}");
}

/// Guards against a session that stays open after its reads were refused, and a scrub that never resumes.
#[test]
fn a_scrub_that_is_refused_leaves_nothing_open_or_goes_on_later() {
    let mut host = Naive::new(200, 1);
    let start = |host: &mut Naive| {
        Scrubber::start(plan(), (), &mut host.registry, Priority::default(), Instant::ZERO)
    };
    host.registry.most_sessions = 0;
    assert!(start(&mut host).is_err());
    host.registry.most_sessions = 1;
    host.registry.most_tasks = 0;
    assert!(start(&mut host).is_err());
    assert_eq!(host.registry.open_sessions(), 0);
    host.registry.most_tasks = 1;
    host.bad.extend([5, 50]);
    let mut scrub = start(&mut host).unwrap();
    while host.step(&mut scrub) {
        if host.registry.pending() == 0 {
            host.registry.most_tasks = 0;
        }
    }
    host.registry.most_tasks = 1;
    scrub.retry(&mut host.registry);
    while host.step(&mut scrub) {}
    assert!(scrub.is_done());
    assert_eq!(scrub.findings().len(), 2);
}

/// Guards against a false alarm with a store that still has a block's old sum while the block is written.
#[test]
fn a_block_under_way_is_not_compared() {
    struct Old(Rc<RefCell<bool>>);
    impl Checksums for Old {
        fn now(&self) -> u64 {
            0
        }
        fn known(&mut self, _: u64) -> freeblock_apps::scrub::Known {
            let changing = *self.0.borrow();
            let sum = changing.then_some(1);
            freeblock_apps::scrub::Known { sum, since: 0, changing }
        }
    }
    let mut host = Naive::new(200, 1);
    let changing = Rc::new(RefCell::new(true));
    let store = Old(changing.clone());
    let mut scrub =
        Scrubber::start(plan(), store, &mut host.registry, Priority::default(), Instant::ZERO).unwrap();
    for _ in 0..40 {
        host.step(&mut scrub);
    }
    assert_eq!(scrub.figures(Instant::ZERO).done, 0);
    *changing.borrow_mut() = false;
    while host.step(&mut scrub) {}
    assert!(scrub.is_done() && scrub.findings().is_empty());
}

/// Guards against a bad sector that is missed because the foreground writes there while the scrubber waits.
#[test]
fn a_write_of_the_same_place_is_not_taken_for_a_read() {
    let mut host = Naive::new(200, 1);
    let mut scrub =
        Scrubber::start(plan(), (), &mut host.registry, Priority::default(), Instant::ZERO).unwrap();
    host.bad.insert(50);
    host.foreground_write(&mut scrub, range(40, 20), &[7; 20 * SECTOR]);
    while host.step(&mut scrub) {}
    assert_eq!(scrub.findings(), [Finding::Medium(Lbn::new(50))]);
}
