//! Arrays: their addresses, the commands of a request, and drives under one load.

use drive::Served;
use freeblock_sim::{
    ArrayLayout, ArrayMap, Background, Direct, Drives, Finished, Inside, Member, MemberCommand, MirrorReads,
    Nothing, Observer, Step, black_box,
};
use model::{DriveModel, builtin};
use proptest::prelude::*;
use scheduler::{Config, OutsideConfig, Request as Submitted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use units::{Bytes, CacheOps, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
use workload::{Arrival, Issuer, Limited, Random, RandomConfig, Request, Share, Source};

const SECTOR: Bytes = Bytes::new(512);

fn map(layout: &str, drives: &[u64]) -> ArrayMap {
    let sizes: Vec<Sectors> = drives.iter().map(|n| Sectors::new(*n)).collect();
    ArrayMap::new(layout.parse().unwrap(), &sizes, SECTOR).unwrap()
}

fn request(op: Op, lbn: u64, sectors: u64) -> Request {
    Request { op, range: LbnRange::new(Lbn::new(lbn), Sectors::new(sectors)) }
}

fn part(drive: usize, op: Op, lbn: u64, sectors: u64) -> MemberCommand {
    MemberCommand { drive, op, range: LbnRange::new(Lbn::new(lbn), Sectors::new(sectors)) }
}

/// The table of Linux's md for left-symmetric RAID 5 on five drives (`raid5_compute_sector` in drivers/md/raid5.c; the same as
/// figure 3 of Chen and others, "RAID: High-performance, reliable secondary storage", 1994): the unit of data on each
/// drive in each stripe.
#[test]
fn left_symmetric_raid5_is_laid_out_as_md_does() {
    const PARITY: u64 = u64::MAX;
    let table = [
        [0, 1, 2, 3, PARITY],
        [5, 6, 7, PARITY, 4],
        [10, 11, PARITY, 8, 9],
        [15, PARITY, 12, 13, 14],
        [PARITY, 16, 17, 18, 19],
        [20, 21, 22, 23, PARITY],
    ];
    let map = map("raid5:4k", &[48; 5]);
    assert_eq!(map.capacity(), Sectors::new(4 * 48));
    for (stripe, row) in table.iter().enumerate() {
        for (drive, unit) in row.iter().enumerate() {
            if *unit == PARITY {
                assert_eq!(map.parity(Lbn::new(stripe as u64 * 32)), Some(drive));
            } else {
                let at = map.locate(Lbn::new(unit * 8 + 3));
                assert_eq!(at, (drive, Lbn::new(stripe as u64 * 8 + 3)), "unit {unit}");
            }
        }
    }
}

#[test]
fn a_small_raid5_write_reads_what_is_less() {
    let mut map = map("raid5:4k", &[80; 5]);
    let mut plan = |op, lbn, sectors| map.plan(request(op, lbn, sectors), |_| 0);
    let (read, write) = (Op::Read, Op::Write);
    // For one sector, the old data and the old parity are read, and not the three other data sectors of the stripe.
    assert_eq!(
        plan(write, 1, 1),
        [Step {
            before: vec![part(0, read, 1, 1), part(4, read, 1, 1)],
            after: vec![part(0, write, 1, 1), part(4, write, 1, 1)],
        }]
    );
    // For two of the four data units, the two others are read: they are fewer than the two old ones and the parity.
    assert_eq!(
        plan(write, 0, 16),
        [Step {
            before: vec![part(2, read, 0, 8), part(3, read, 0, 8)],
            after: vec![part(0, write, 0, 8), part(1, write, 0, 8), part(4, write, 0, 8)],
        }]
    );
    // For the end of one unit and the beginning of the next, two separate intervals of the parity change.
    assert_eq!(
        plan(write, 6, 4),
        [Step {
            before: vec![part(0, read, 6, 2), part(1, read, 0, 2), part(4, read, 0, 2), part(4, read, 6, 2),],
            after: vec![
                part(0, write, 6, 2),
                part(1, write, 0, 2),
                part(4, write, 0, 2),
                part(4, write, 6, 2),
            ],
        }]
    );
    // For two whole stripes and a sector, nothing is read for the stripes, and each drive has one command for both
    // stripes.
    let steps = plan(write, 32, 65);
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].before.len(), 2);
    assert_eq!((steps[1].before.len(), steps[1].after.len()), (0, 5));
    assert!(steps[1].after.iter().all(|part| part.range.len() == Sectors::new(16)));
    // A read needs no parity.
    assert_eq!(
        plan(read, 30, 4),
        [Step { before: vec![], after: vec![part(3, read, 6, 2), part(4, read, 8, 2)] }]
    );
}

#[test]
fn a_mirror_writes_to_all_and_reads_from_the_shorter_queue_or_in_turn() {
    let drives = |steps: Vec<Step>| -> Vec<usize> {
        steps.into_iter().flat_map(|step| step.after).map(|part| part.drive).collect()
    };
    let mut shorter = map("mirror", &[100, 90, 120]);
    assert_eq!(shorter.capacity(), Sectors::new(90));
    assert_eq!(drives(shorter.plan(request(Op::Write, 5, 3), |_| 0)), [0, 1, 2]);
    let queues = [[4, 2, 3], [2, 2, 3], [2, 2, 2], [2, 2, 2]];
    let read: Vec<usize> = queues
        .into_iter()
        .flat_map(|queue| drives(shorter.plan(request(Op::Read, 5, 3), |drive| queue[drive])))
        .collect();
    assert_eq!(read, [1, 0, 1, 2]);
    let mut alternating = map("mirror:alternate", &[100; 2]);
    let read: Vec<usize> =
        (0..3).flat_map(|_| drives(alternating.plan(request(Op::Read, 5, 3), |drive| 9 - drive))).collect();
    assert_eq!(read, [0, 1, 0]);
}

#[test]
fn names_of_layouts_round_trip_and_others_are_refused() {
    for name in
        ["concatenation", "stripe:64k", "stripe:512", "mirror", "mirror:alternate", "raid5:1m", "raid5:1g"]
    {
        assert_eq!(name.parse::<ArrayLayout>().unwrap().to_string(), name);
    }
    for wrong in
        ["", "raid0", "stripe", "stripe:", "stripe:0", "stripe:2g", "stripe:4x", "mirror:3", "raid5:-1"]
    {
        let error = wrong.parse::<ArrayLayout>().unwrap_err().to_string();
        assert!(error.contains("raid5:BYTES"), "{error}");
    }
    assert_eq!("mirror".parse(), Ok(ArrayLayout::Mirror(MirrorReads::ShorterQueue)));
}

#[test]
fn drives_that_make_no_array_are_refused() {
    let refuse = |layout: &str, drives: &[u64]| {
        let sizes: Vec<Sectors> = drives.iter().map(|n| Sectors::new(*n)).collect();
        ArrayMap::new(layout.parse().unwrap(), &sizes, SECTOR).unwrap_err().to_string()
    };
    assert_eq!(refuse("raid5:4k", &[100, 100]), "raid5:4k has 2 drives; give 3 to 1024");
    assert_eq!(refuse("mirror", &[100]), "mirror has 1 drives; give 2 to 1024");
    assert_eq!(refuse("stripe:4k", &[]), "stripe:4k has 0 drives; give 1 to 1024");
    assert!(refuse("stripe:4k", &[100, 7]).contains("the smallest drive (7 sectors)"));
    assert!(refuse("stripe:700", &[100, 100]).contains("whole sectors (512"));
}

fn layouts() -> impl Strategy<Value = (String, Vec<u64>)> {
    let sizes = |least| prop::collection::vec(8u64..200, least..6);
    prop_oneof![
        sizes(1).prop_map(|drives| ("concatenation".to_owned(), drives)),
        (1u64..9, sizes(1)).prop_map(|(unit, drives)| (format!("stripe:{}", unit * 512), drives)),
        sizes(2).prop_map(|drives| ("mirror".to_owned(), drives)),
        (1u64..9, sizes(3)).prop_map(|(unit, drives)| (format!("raid5:{}", unit * 512), drives)),
    ]
}

/// Returns the sectors of parts as drive and LBN, and asserts that they lie on the drives and that none is named twice.
fn sectors(parts: &[MemberCommand], drives: &[u64]) -> BTreeSet<(usize, u64)> {
    let mut all = BTreeSet::new();
    for part in parts {
        assert!(!part.range.is_empty() && part.range.end().get() <= drives[part.drive], "{part:?}");
        for lbn in part.range.start().get()..part.range.end().get() {
            assert!(all.insert((part.drive, lbn)), "{part:?} twice");
        }
    }
    all
}

proptest! {
    #[test]
    fn every_address_has_a_sector_of_its_own((layout, drives) in layouts()) {
        let map = map(&layout, &drives);
        let mut taken = BTreeSet::new();
        for lbn in 0..map.capacity().get() {
            let (drive, at) = map.locate(Lbn::new(lbn));
            prop_assert!(at.get() < drives[drive]);
            prop_assert!(taken.insert((drive, at)), "{} shares its sector", lbn);
            // The parity of the stripe is on another drive, and no data lie on it.
            prop_assert_ne!(map.parity(Lbn::new(lbn)), Some(drive));
        }
        // Concatenation uses all sectors of all drives.
        if layout == "concatenation" {
            prop_assert_eq!(taken.len() as u64, drives.iter().sum::<u64>());
        }
    }

    #[test]
    fn a_plan_reads_and_writes_the_sectors_of_its_addresses(
        (layout, drives) in layouts(), start: u64, len in 1u64..300, is_read: bool,
    ) {
        let mut map = map(&layout, &drives);
        let capacity = map.capacity().get();
        let start = start % capacity;
        let asked = request(if is_read { Op::Read } else { Op::Write }, start, len.min(capacity - start));
        let steps = map.plan(asked, |_| 0);
        let (mut data, mut parity) = (BTreeSet::new(), BTreeMap::new());
        for lbn in start..asked.range.end().get() {
            let (drive, at) = map.locate(Lbn::new(lbn));
            data.insert((drive, at.get()));
            if let Some(on) = map.parity(Lbn::new(lbn)) {
                // The parity of a sector is at the same LBN of its drive.
                parity.entry((on, at.get())).or_insert_with(Vec::new).push(drive);
            }
        }
        let after: Vec<MemberCommand> = steps.iter().flat_map(|step| step.after.clone()).collect();
        prop_assert!(after.iter().all(|part| part.op == asked.op));
        let touched = sectors(&after, &drives);
        if layout.starts_with("mirror") {
            let copies = if is_read { 1 } else { drives.len() };
            prop_assert_eq!(touched.len(), data.len() * copies);
        } else if is_read || parity.is_empty() {
            prop_assert_eq!(&touched, &data);
        } else {
            let mut expected = data.clone();
            expected.extend(parity.keys());
            prop_assert_eq!(&touched, &expected);
        }
        for step in &steps {
            prop_assert!(step.before.iter().all(|part| part.op == Op::Read));
            let (known, written) = (sectors(&step.before, &drives), sectors(&step.after, &drives));
            prop_assert!(!is_read || known.is_empty());
            if is_read || parity.is_empty() {
                continue;
            }
            // The new parity of each sector can be computed: from the old parity and all old data that change, or from all
            // other data of the stripe.
            for (drive, at) in written.iter().filter(|place| parity.contains_key(place)) {
                let changed = &parity[&(*drive, *at)];
                let modify = known.contains(&(*drive, *at)) && changed.iter().all(|d| known.contains(&(*d, *at)));
                let others = (0..drives.len()).filter(|d| d != drive && !changed.contains(d));
                let rebuild = others.clone().all(|d| known.contains(&(d, *at)));
                prop_assert!(modify || rebuild, "parity on drive {} at {}", drive, at);
            }
            let (modify, rebuild): (usize, usize) = written
                .iter()
                .filter_map(|place| parity.get(place))
                .map(|changed| (changed.len() + 1, drives.len() - 1 - changed.len()))
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            prop_assert_eq!(known.len(), modify.min(rebuild), "no more is read than is needed");
        }
    }
}

fn atlas() -> Arc<DriveModel> {
    Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap())
}

fn members(count: usize, background: Background) -> Vec<Member> {
    (0..count).map(|_| Member::inside(atlas(), Config::default(), background).unwrap()).collect()
}

fn load(capacity: Sectors, reads: Share, arrival: Arrival) -> Issuer<Limited<Random>> {
    let config = RandomConfig { reads, ..RandomConfig::new(capacity, SECTOR) };
    Issuer::new(Limited::new(Random::new(config, 3).unwrap(), 2_000), arrival, Instant::ZERO, 3).unwrap()
}

/// The completion of every request.
#[derive(Default)]
struct Completions(Vec<(u64, Instant, Instant)>);

impl Observer for Completions {
    fn completed(&mut self, request: Submitted, arrived: Instant, at: Instant) {
        self.0.push((request.range.start().get(), arrived, at));
    }
}

#[test]
fn an_array_of_one_drive_is_that_drive_with_and_without_a_scan() {
    for background in [Background::None, Background::Scan { block: Sectors::new(8) }] {
        let arrival = Arrival::outstanding(4);
        let array = Drives::new(ArrayLayout::Concatenation, members(1, background)).unwrap();
        let capacity = array.capacity();
        let mut array = array.under(load(capacity, Share::TWO_THIRDS, arrival));
        let mut alone =
            Inside::new(atlas(), Config::default(), load(capacity, Share::TWO_THIRDS, arrival), background)
                .unwrap();
        let (mut ours, mut its) = (Completions::default(), Completions::default());
        array.advance(2_000, &mut ours).unwrap();
        alone.advance(2_000, &mut its).unwrap();
        assert_eq!(ours.0, its.0);
        assert_eq!(array.report().background.blocks, alone.report().background.blocks);
    }
}

#[test]
fn background_work_on_each_drive_leaves_the_foreground_of_an_array_as_it_was() {
    for layout in ["stripe:64k", "mirror", "raid5:64k"] {
        let completions =
            |background| {
                let array = Drives::new(layout.parse().unwrap(), members(4, background)).unwrap();
                let capacity = array.capacity();
                let mut array = array.under(load(capacity, Share::TWO_THIRDS, Arrival::outstanding(8)));
                let mut seen = Completions::default();
                assert!(!array.advance(3_000, &mut seen).unwrap() || array.requests() == 2_000);
                assert!(array.drives().all(|drive| {
                    (drive.report().background.blocks > 0) == (background != Background::None)
                }));
                seen.0
            };
        let with = completions(Background::Scan { block: Sectors::new(8) });
        assert_eq!(with.len(), 2_000, "{layout}");
        assert_eq!(with, completions(Background::None), "{layout}");
    }
}

#[test]
fn drives_have_the_commands_that_their_layout_gives_them() {
    let run = |layout: &str, reads| {
        let array = Drives::new(layout.parse().unwrap(), members(4, Background::None)).unwrap();
        let capacity = array.capacity();
        let mut array = array.under(load(capacity, reads, Arrival::outstanding(8)));
        array.advance(2_000, &mut Nothing).unwrap();
        let commands: Vec<u64> = array.drives().map(|drive| drive.report().foreground.requests).collect();
        (array.report(), commands)
    };
    let (stripe, commands) = run("stripe:64k", Share::ALL);
    assert_eq!(commands.iter().sum::<u64>(), 2_000);
    // The number of commands at a drive is binomial, with a mean of 500 and a standard deviation of 19.4.
    assert!(commands.iter().all(|n| n.abs_diff(500) < 97), "{commands:?}");
    let (mirror, commands) = run("mirror", Share::NONE);
    assert_eq!(commands, [2_000; 4]);
    // A write of 4 KB reads and writes two drives.
    let (raid5, commands) = run("raid5:64k", Share::NONE);
    assert_eq!(commands.iter().sum::<u64>(), 8_000);
    assert!(commands.iter().all(|n| n.abs_diff(2_000) < 200), "{commands:?}");
    // A striped read is one command, a mirror's write is one on each of four drives, and a write of RAID 5 is four
    // commands, two of which wait for the others.
    assert!(stripe.foreground.iops > mirror.foreground.iops && mirror.foreground.iops > 0.0);
    assert!(raid5.foreground.mean_response_ms > 2.0 * stripe.foreground.mean_response_ms);
}

#[test]
fn a_request_past_the_end_of_the_array_is_refused() {
    let array = Drives::new("mirror".parse().unwrap(), members(2, Background::None)).unwrap();
    let twice = Sectors::new(array.capacity().get() * 2);
    let error = array.under(load(twice, Share::ALL, Arrival::outstanding(4))).advance(2_000, &mut Nothing);
    assert!(error.unwrap_err().to_string().contains("the drive ends at LBN"));
}

/// Every event that an array reports.
#[derive(Default)]
struct ArrayEvents {
    arrived: Vec<(RequestId, Instant)>,
    finished: Vec<Finished>,
    commands: Vec<(usize, RequestId, Finished)>,
}

impl Observer for ArrayEvents {
    fn arrived(&mut self, request: Submitted, at: Instant) {
        self.arrived.push((request.id, at));
    }

    fn finished(&mut self, done: &Finished) {
        self.finished.push(*done);
    }

    fn command_finished(&mut self, drive: usize, request: RequestId, done: &Finished) {
        self.commands.push((drive, request, *done));
    }
}

#[test]
fn an_observer_sees_requests_of_the_array_and_commands_of_each_drive() {
    let array = Drives::new("raid5:64k".parse().unwrap(), members(4, Background::None)).unwrap();
    let capacity = array.capacity();
    let mut array = array.under(load(capacity, Share::TWO_THIRDS, Arrival::outstanding(8)));
    let mut seen = ArrayEvents::default();
    while array.advance(100, &mut seen).unwrap() {}
    assert_eq!((seen.arrived.len(), seen.finished.len()), (2_000, 2_000));
    for (drive, member) in array.drives().enumerate() {
        let of_drive = seen.commands.iter().filter(|(at, ..)| *at == drive).count() as u64;
        assert_eq!(of_drive, member.report().foreground.requests);
    }
    for done in &seen.finished {
        let its: Vec<_> =
            seen.commands.iter().filter(|(_, request, _)| *request == done.request.id).collect();
        // A read of 4 KB has at most two commands, each on a drive of its own; a write has at least two reads and two
        // writes.
        assert!(if done.request.op == Op::Read { its.len() <= 2 } else { its.len() >= 4 }, "{its:?}");
        assert_eq!(its.iter().map(|(_, _, command)| command.at).max(), Some(done.at));
        assert_eq!(its.iter().map(|(_, _, command)| command.arrived).min(), Some(done.arrived));
        assert_eq!(its.iter().map(|(_, _, command)| command.started).min(), Some(done.started));
    }
    // The mean over the observed requests is that of the array's report.
    let total: f64 = seen.finished.iter().map(|done| done.at.since(done.arrived).as_millis_f64()).sum();
    let report = array.report().foreground;
    assert!((total / 2_000.0 - report.mean_response_ms).abs() < 1e-6);
    assert!((report.queue_length - 8.0).abs() < 0.05, "{}", report.queue_length);
}

#[test]
fn a_warm_up_is_in_no_result_of_the_array_or_of_a_drive() {
    let array = Drives::new("stripe:64k".parse().unwrap(), members(3, Background::None)).unwrap();
    let capacity = array.capacity();
    let mut array = array.under(load(capacity, Share::ALL, Arrival::Poisson { rate: 100.0 }));
    array.advance_to(Instant::ZERO + Duration::from_secs(5), &mut Nothing).unwrap();
    let before = array.requests();
    array.measure_from_now();
    assert!((400..600).contains(&before), "{before}");
    while array.advance(100, &mut Nothing).unwrap() {}
    let report = array.report();
    assert_eq!(report.foreground.requests, 2_000 - before);
    let of_drives: Vec<_> = array.drives().map(|drive| drive.report()).collect();
    // The numbers of commands and of requests differ, because a few commands were under way at the end of the warm-up,
    // and a few requests have two commands.
    let commands: u64 = of_drives.iter().map(|drive| drive.foreground.requests).sum();
    assert!(commands.abs_diff(2_000 - before) < 60, "{commands}");
    for drive in of_drives {
        let off = drive.simulated.as_secs_f64() - report.simulated.as_secs_f64();
        assert!(off.abs() < 0.03, "each drive is measured for the array's time: {off}");
    }
}

#[test]
fn an_array_of_one_drive_alone_is_that_drive() {
    let device = || {
        let profile = builtin::find("quantum-atlas-10k").unwrap();
        black_box(&profile, drive::Behaviour::default(), 7).unwrap().0
    };
    let capacity = device().model().layout().capacity();
    let load = || load(capacity, Share::TWO_THIRDS, Arrival::Poisson { rate: 80.0 });
    let mut array =
        Drives::new(ArrayLayout::Concatenation, vec![Member::device(device())]).unwrap().under(load());
    let mut alone = Direct::new(device(), usize::MAX, load());
    let (mut ours, mut its) = (ArrayEvents::default(), ArrayEvents::default());
    while array.advance(100, &mut ours).unwrap() {}
    while alone.advance_observed(100, &mut its).unwrap() {}
    let times = |seen: &[Finished]| seen.iter().map(|done| (done.arrived, done.at)).collect::<Vec<_>>();
    assert_eq!(times(&ours.finished), times(&its.finished));
    let of_drive: Vec<Finished> = ours.commands.iter().map(|(.., done)| *done).collect();
    assert_eq!(of_drive, its.finished);
    assert_eq!(array.report().foreground.p99_response_ms, alone.report().p99_response_ms);
}

/// Requests with cache operations, one after the other.
struct Given(VecDeque<(Request, CacheOps)>, CacheOps);

impl Given {
    fn new(requests: &[(Request, CacheOps)]) -> Issuer<Self> {
        let given = Self(requests.iter().copied().collect(), CacheOps::default());
        Issuer::new(given, Arrival::outstanding(1), Instant::ZERO, 0).unwrap()
    }
}

impl Source for Given {
    fn next_request(&mut self) -> Option<Request> {
        let (request, cache) = self.0.pop_front()?;
        self.1 = cache;
        Some(request)
    }

    fn cache_ops(&self) -> CacheOps {
        self.1
    }
}

const PLAIN: CacheOps = CacheOps { flush: false, forced: false, discard: false };
const FLUSH: CacheOps = CacheOps { flush: true, ..PLAIN };
const FORCED: CacheOps = CacheOps { forced: true, ..PLAIN };
const DISCARD: CacheOps = CacheOps { discard: true, ..PLAIN };

/// Returns drives alone, or with a scheduler in front of each.
fn with_buffers(count: usize, outside: bool) -> Vec<Member> {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let member = |seed| {
        let (drive, overheads) = black_box(&profile, drive::Behaviour::default(), seed).unwrap();
        if !outside {
            return Member::device(drive);
        }
        let outside = OutsideConfig::paper(overheads, Duration::from_micros(300));
        let config = Config::outside(outside);
        Member::outside(drive, atlas(), config, Background::None).unwrap()
    };
    (0..count as u64).map(member).collect()
}

#[test]
fn flushes_go_to_every_drive_and_forced_writes_and_discards_to_those_with_their_sectors() {
    let stripes = |n: u64| n * 3 * 128;
    let requests = [
        (request(Op::Write, 1_000, 8), PLAIN),
        (request(Op::Write, 0, 0), FLUSH),
        (request(Op::Write, 500_000, 8), FORCED),
        (request(Op::Write, 1_000_000, 8), CacheOps { flush: true, ..FORCED }),
        (request(Op::Write, 2_000_000, 8), PLAIN),
        // The first and the last stripe of RAID 5 are discarded in part.
        (request(Op::Write, stripes(10) - 8, stripes(5) + 16), DISCARD),
        (request(Op::Write, 8, 8), DISCARD),
    ];
    // By layout: the number of writes of a request, the sectors of each command of the first discard, and the number
    // of commands of the second.
    for (layout, writes, first, second) in [
        ("concatenation", 1, vec![stripes(5) + 16], 1),
        ("stripe:64k", 1, vec![400, 512, 512, 512], 1),
        ("mirror", 4, vec![stripes(5) + 16; 4], 4),
        ("raid5:64k", 2, vec![640; 4], 0),
    ] {
        for outside in [false, true] {
            let array = Drives::new(layout.parse().unwrap(), with_buffers(4, outside)).unwrap();
            let mut array = array.under(Given::new(&requests));
            let mut seen = ArrayEvents::default();
            while array.advance(100, &mut seen).unwrap() {}
            let of = |n: u64| -> Vec<Finished> {
                let its = seen.commands.iter().filter(|(_, id, _)| *id == RequestId::new(n));
                its.map(|(.., done)| *done).filter(|done| done.request.op == Op::Write).collect()
            };
            let served = |done: &[Finished]| done.iter().map(|one| one.served.unwrap()).collect::<Vec<_>>();
            assert_eq!(served(&of(0)), vec![Served::Buffered; writes], "{layout}");
            assert_eq!(served(&of(1)), [Served::Flushed; 4], "{layout}");
            assert_eq!(served(&of(2)), vec![Served::Medium; writes], "{layout}");
            let both = of(3);
            let (flushes, writes_behind) = both.split_at(4);
            assert_eq!(served(flushes), [Served::Flushed; 4], "{layout}");
            assert_eq!(served(writes_behind), vec![Served::Medium; writes], "{layout}");
            let flushed = flushes.iter().map(|done| done.at).max().unwrap();
            assert!(writes_behind.iter().all(|done| done.arrived >= flushed), "{layout}");
            assert_eq!(served(&of(4)), vec![Served::Buffered; writes], "orders end with their request");
            let discarded: Vec<u64> = of(5).iter().map(|done| done.request.range.len().get()).collect();
            let sorted = |mut lengths: Vec<u64>| {
                lengths.sort_unstable();
                lengths
            };
            assert_eq!(sorted(discarded), sorted(first.clone()), "{layout}");
            assert_eq!(served(&of(6)), vec![Served::Discarded; second], "{layout}");
            let report = array.cache_report();
            assert_eq!((report.flushes.requests, report.discards.requests), (1, 2), "{layout}");
            assert_eq!(array.report().foreground.requests, 4, "flushes and discards are no writes");
            // A flush takes the time in which the buffered write goes to the medium.
            assert!(report.flushes.mean() > Duration::from_millis(2), "{:?}", report.flushes.mean());
        }
    }
}

#[test]
fn in_the_drive_a_flush_has_nothing_to_write_and_costs_nothing() {
    let write = |n: u64| (request(Op::Write, n * 77_777, 8), FORCED);
    let orders = [(request(Op::Write, 0, 0), FLUSH), (request(Op::Write, 0, 4_000), DISCARD)];
    let with: Vec<_> = (0..20).flat_map(|n| [write(n), orders[0], orders[1]]).collect();
    let without: Vec<_> = (0..20).map(write).collect();
    let run = |requests: &[(Request, CacheOps)]| {
        let (load, mut seen) = (Given::new(requests), Completions::default());
        let mut inside = Inside::new(atlas(), Config::default(), load, Background::None).unwrap();
        while inside.advance(100, &mut seen).unwrap() {}
        (seen.0, inside.cache_report())
    };
    let (times, cache) = run(&with);
    assert_eq!(times, run(&without).0);
    assert_eq!((cache.flushes.requests, cache.discards.requests), (20, 20));
    assert_eq!((cache.flushes.longest, cache.discards.longest), (Duration::ZERO, Duration::ZERO));
}
