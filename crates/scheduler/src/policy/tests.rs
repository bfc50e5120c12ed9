//! The policies against each other, and against their keys on random drives.

use super::*;
use crate::foreground::Request;
use crate::predictor::Positioning;
use model::random_profile::{Size, random_profile};
use model::{DriveModel, Piece, Track};
use proptest::prelude::*;
use units::{Angle, Cylinder, Head, Lbn, LbnRange, Op, RequestId, Sectors, TrackIndex};

/// A predictor with a table of positioning times by sequence number: (seek, rest) in microseconds.
struct Table(Vec<(u64, u64)>);

impl Predictor for Table {
    fn positioning(&self, _: Position, _: Instant, request: &Pending) -> Positioning {
        let (seek, rest) = self.0[request.sequence as usize];
        Positioning { seek: Duration::from_micros(seek), rest: Duration::from_micros(rest) }
    }
}

fn pending(sequence: u64, lbn: u64, arrived_us: u64) -> Pending {
    Pending {
        request: Request {
            id: RequestId::new(sequence),
            op: Op::Read,
            range: LbnRange::new(Lbn::new(lbn), Sectors::new(8)),
        },
        arrived: Instant::ZERO + Duration::from_micros(arrived_us),
        sequence,
        piece: Piece { track: TrackIndex::new(0), sector: 0, lbn: Lbn::new(lbn), len: 8 },
        track: Track { cylinder: Cylinder::new(0), head: Head::new(0), sectors: 100, angle: Angle::ZERO },
        promoted: None,
        follows: false,
    }
}

const NOW_US: u64 = 1_000_000;
const CAPACITY: u64 = 1_000;

fn view<'a, P>(pool: &'a [Pending], predictor: &'a P, age: AgeWeight) -> View<'a, P> {
    let at = Instant::ZERO + Duration::from_micros(NOW_US);
    let capacity = Sectors::new(CAPACITY);
    View { pool, at, from: Position::default(), predictor, last: None, mimic: None, age, capacity }
}

/// Returns the sequence number of the named policy's first choice.
fn first(name: &str, pool: &[Pending], table: &Table, age: AgeWeight) -> u64 {
    let mut policy = AnyPolicy::from(name.parse::<PolicyName>().unwrap());
    pool[policy.choose(&view(pool, table, age))].sequence
}

/// Returns the order in which the named policy empties the pool.
fn order(name: &str, mut pool: Vec<Pending>, table: &Table) -> Vec<u64> {
    let mut policy = AnyPolicy::from(name.parse::<PolicyName>().unwrap());
    let mut served = Vec::new();
    while !pool.is_empty() {
        let chosen = policy.choose(&view(&pool, table, AgeWeight::default()));
        served.push(pool.swap_remove(chosen).sequence);
    }
    served
}

const ALL: [&str; 9] =
    ["fcfs", "c-look", "sstf", "sptf", "sptf-sw:40", "look", "scan", "vscan:0.2", "asptf:0"];

#[test]
fn each_policy_chooses_its_own_from_one_pool() {
    // The positioning times are 9, 8, 6.5, 5 and 6.9 ms; the shortest plus 40% is 7 ms.
    let table = Table(vec![(6_000, 3_000), (1_000, 7_000), (3_000, 3_500), (4_000, 1_000), (2_000, 4_900)]);
    let lbns = [500, 400, 100, 300, 200];
    // The pool is in no order.
    let pool: Vec<_> = [3, 1, 4, 0, 2].map(|i| pending(i, lbns[i as usize], i)).to_vec();
    let chosen = ALL.map(|name| first(name, &pool, &table, AgeWeight::default()));
    assert_eq!(chosen, [0, 2, 1, 3, 4, 2, 2, 2, 3]);
    assert_eq!(order("fcfs", pool.clone(), &table), [0, 1, 2, 3, 4]);
    assert_eq!(order("sstf", pool.clone(), &table), [1, 4, 2, 3, 0]);
    assert_eq!(order("sptf", pool, &table), [3, 2, 4, 1, 0]);
}

#[test]
fn c_look_goes_up_and_then_back_to_the_lowest() {
    let table = Table(vec![(0, 0); 6]);
    let mut policy = CLook::default();
    let mut serve = |pool: &mut Vec<Pending>| {
        let chosen = policy.choose(&view(pool, &table, AgeWeight::default()));
        pool.swap_remove(chosen).sequence
    };
    let mut pool = vec![pending(0, 700, 0), pending(1, 300, 0)];
    assert_eq!(serve(&mut pool), 1);
    // Of one request behind, one at the last address and one between, the one behind waits for the next sweep.
    pool.extend([pending(2, 100, 0), pending(3, 300, 0), pending(4, 600, 0), pending(5, 200, 0)]);
    let served: Vec<_> = (0..5).map(|_| serve(&mut pool)).collect();
    assert_eq!(served, [3, 4, 0, 2, 5]);
}

/// Returns addresses, all of which wait from the beginning, in the order in which a policy serves them.
fn addresses(name: &str, lbns: &[u64]) -> Vec<u64> {
    let pool: Vec<_> = lbns.iter().enumerate().map(|(i, lbn)| pending(i as u64, *lbn, 0)).collect();
    let table = Table(vec![(0, 0); lbns.len()]);
    order(name, pool, &table).into_iter().map(|sequence| lbns[sequence as usize]).collect()
}

#[test]
fn look_goes_up_to_the_last_request_and_down_again() {
    let table = Table(vec![(0, 0); 7]);
    for name in ["look", "scan", "vscan:1"] {
        let mut policy = AnyPolicy::from(name.parse::<PolicyName>().unwrap());
        let mut serve = |pool: &mut Vec<Pending>| {
            let chosen = policy.choose(&view(pool, &table, AgeWeight::default()));
            pool.swap_remove(chosen).lbn().get()
        };
        let mut pool = vec![pending(0, 700, 0), pending(1, 300, 0)];
        assert_eq!(serve(&mut pool), 300, "{name}");
        // Of one request behind, one at the arm and one between, the one behind waits for the way down.
        pool.extend([pending(2, 100, 0), pending(3, 300, 0), pending(4, 600, 0)]);
        let served: Vec<_> = (0..3).map(|_| serve(&mut pool)).collect();
        assert_eq!(served, [300, 600, 700], "{name}");
        // All requests ahead are served first, even a new one; the others are served downward.
        pool.extend([pending(5, 900, 0), pending(6, 650, 0)]);
        let served: Vec<_> = (0..3).map(|_| serve(&mut pool)).collect();
        assert_eq!(served, [900, 650, 100], "{name}");
    }
}

#[test]
fn scan_passes_the_end_when_it_reverses_and_at_no_other_time() {
    let mut policy = AnyPolicy::from(PolicyName::Scan);
    let mut look = AnyPolicy::from(PolicyName::Look);
    let capacity = Sectors::new(CAPACITY);
    let mut serve = |lbn| {
        let pool = [pending(0, lbn, 0)];
        let table = Table(vec![(0, 0)]);
        policy.choose(&view(&pool, &table, AgeWeight::default()));
        look.choose(&view(&pool, &table, AgeWeight::default()));
        assert_eq!(look.passes(capacity), None);
        policy.passes(capacity).map(Lbn::get)
    };
    let passed = [300, 700, 700, 600, 100, 101, 900, 0].map(&mut serve);
    assert_eq!(passed, [None, None, None, Some(999), None, Some(0), None, Some(999)]);
}

#[test]
fn vscan_turns_back_only_if_that_is_nearer_by_r_times_the_drive() {
    // The arm is at 500 and goes upward: 490 is nearer by 110 than 620, and by 90 than 600.
    for (r, ahead, first) in
        [("0.1", 600, 600), ("0.1", 620, 490), ("0", 511, 490), ("0", 510, 510), ("1", 999, 999)]
    {
        let table = Table(vec![(0, 0); 2]);
        let mut policy = AnyPolicy::from(format!("vscan:{r}").parse::<PolicyName>().unwrap());
        policy.choose(&view(&[pending(0, 500, 0)], &table, AgeWeight::default()));
        let pool = [pending(0, 490, 0), pending(1, ahead, 0)];
        let chosen = policy.choose(&view(&pool, &table, AgeWeight::default()));
        assert_eq!(pool[chosen].lbn().get(), first, "R = {r}, {ahead} ahead");
    }
    assert_eq!(addresses("vscan:0", &[400, 500, 90, 100, 120]), [90, 100, 120, 400, 500]);
}

#[test]
fn asptf_is_sptf_with_an_age_weight_in_ms_a_second() {
    let table = Table(vec![(8_000, 2_000), (1_000, 1_000)]);
    // The far request has waited for 1 s, and its positioning time is 8 ms longer.
    let pool = [pending(0, 900, 0), pending(1, 0, NOW_US)];
    let choose = |name: &str| first(name, &pool, &table, AgeWeight::default());
    assert_eq!(
        (choose("sptf"), choose("asptf:0"), choose("asptf:7.999"), choose("asptf:8.001")),
        (1, 1, 1, 0)
    );
}

#[test]
fn ties_go_to_the_earlier_arrival_wherever_it_stands() {
    let table = Table(vec![(2_000, 1_000); 4]);
    for name in ALL {
        let pool = [2, 1, 3, 0].map(|i| pending(i, 100, 0)).to_vec();
        assert_eq!(order(name, pool, &table), [0, 1, 2, 3], "{name}");
    }
}

#[test]
fn sptf_sw_breaks_ties_of_seeks_by_the_whole_time() {
    let table = Table(vec![(2_000, 1_500), (2_000, 1_000)]);
    let pool = [pending(0, 0, 0), pending(1, 8, 0)];
    assert_eq!(first("sptf-sw:40", &pool, &table, AgeWeight::default()), 1);
    assert_eq!(first("sstf", &pool, &table, AgeWeight::default()), 0);
}

#[test]
fn a_request_at_the_limit_is_still_near() {
    // The limit is 5 ms plus 40%.
    let pool = [pending(0, 0, 0), pending(1, 8, 0)];
    let at = Table(vec![(4_000, 1_000), (1_000, 6_000)]);
    let past = Table(vec![(4_000, 1_000), (1_000, 6_001)]);
    assert_eq!(first("sptf-sw:40", &pool, &at, AgeWeight::default()), 1);
    assert_eq!(first("sptf-sw:40", &pool, &past, AgeWeight::default()), 0);
}

#[test]
fn an_old_far_request_wins_once_age_counts() {
    let table = Table(vec![(8_000, 2_000), (1_000, 1_000)]);
    // The requests have waited 1 s and 0 s; the far one's seek is 7 ms longer, and its positioning time 8 ms.
    let pool = [pending(0, 900, 0), pending(1, 0, NOW_US)];
    for (name, behind_us) in [("sstf", 7_000), ("sptf", 8_000), ("sptf-sw:inf", 7_000)] {
        let choose = |millionths| first(name, &pool, &table, AgeWeight::from_millionths(millionths));
        assert_eq!(choose(0), 1, "{name}");
        // After a second, a weight of one millionth subtracts one microsecond from the key.
        assert_eq!(choose(behind_us - 1), 1, "{name}");
        assert_eq!(choose(behind_us + 1), 0, "{name}");
        assert_eq!(choose(u32::MAX), 0, "{name}");
    }
}

/// A mimic that knows times by request id, in microseconds.
#[derive(Clone, Debug)]
struct Known(Vec<Option<u64>>);

impl Mimic for Known {
    fn time(&self, _: Last, _: Instant, request: &Request) -> Option<Duration> {
        self.0[request.id.get() as usize].map(Duration::from_micros)
    }

    fn observe(&mut self, _: &crate::predictor::Observed) {}

    fn boxed_clone(&self) -> Box<dyn Mimic> {
        Box::new(self.clone())
    }
}

/// Returns SMTF's choice among requests at 100, 900, 450 and 700, after one that ended at 500.
fn first_mimicked(name: &str, times: [Option<u64>; 4]) -> u64 {
    let pool: Vec<_> =
        [100, 900, 450, 700].into_iter().enumerate().map(|(i, lbn)| pending(i as u64, lbn, 0)).collect();
    let (table, known) = (Table(vec![(0, 0); 4]), Known(times.to_vec()));
    let last = Some(Last { op: Op::Read, lbn: Lbn::new(500) });
    let view = View { last, mimic: Some(&known), ..view(&pool, &table, AgeWeight::default()) };
    let mut policy = AnyPolicy::from(name.parse::<PolicyName>().unwrap());
    pool[policy.choose(&view)].sequence
}

#[test]
fn smtf_follows_the_mimics_times() {
    let all = [Some(4_000), Some(1_000), Some(2_000), Some(3_000)];
    let far_known = [Some(4_000), Some(5_000), None, None];
    for (name, all_known, far, none) in [
        ("smtf", 1, 2, 2),
        ("smtf:set:c-look", 1, 3, 3),
        ("smtf:priority", 1, 0, 2),
        ("smtf:priority:c-look", 1, 0, 3),
    ] {
        assert_eq!(first_mimicked(name, all), all_known, "{name}");
        assert_eq!(first_mimicked(name, far_known), far, "{name}");
        assert_eq!(first_mimicked(name, [None; 4]), none, "{name}");
    }
    // If the time of the base policy's choice is known, the shortest known time is served, and unknown ones wait.
    assert_eq!(first_mimicked("smtf", [None, Some(1_500), Some(2_000), None]), 1);
}

#[test]
fn smtf_without_a_mimic_is_its_base() {
    let pool = [pending(0, 100, 0), pending(1, 900, 0), pending(2, 450, 0)];
    let table = Table(vec![(0, 0); 3]);
    let choose = |name: &str, last| {
        let view = View { last, ..view(&pool, &table, AgeWeight::default()) };
        pool[AnyPolicy::from(name.parse::<PolicyName>().unwrap()).choose(&view)].sequence
    };
    let last = Some(Last { op: Op::Write, lbn: Lbn::new(500) });
    assert_eq!((choose("smtf", last), choose("smtf:set:c-look", last)), (2, 1));
    assert_eq!((choose("smtf", None), choose("smtf:set:c-look", None)), (0, 0));
}

#[test]
fn age_counts_with_smtf_as_well() {
    let pool = [pending(0, 0, 0), pending(1, 8, NOW_US)];
    let (table, known) = (Table(vec![(0, 0); 2]), Known(vec![Some(10_000), Some(2_000)]));
    let last = Some(Last { op: Op::Read, lbn: Lbn::ZERO });
    let choose = |millionths| {
        let age = AgeWeight::from_millionths(millionths);
        let view = View { last, mimic: Some(&known), ..view(&pool, &table, age) };
        Smtf::default().choose(&view)
    };
    assert_eq!((choose(0), choose(7_999), choose(8_001)), (1, 1, 0));
}

/// Returns the number of requests that are served before the old one, while a new one arrives for each that is served; each
/// takes a millisecond. `old` and `new` have the LBN and the mimic's time of each, if that is known.
fn passed_over(
    name: &str,
    (old, old_us): (u64, Option<u64>),
    (new, new_us): (u64, Option<u64>),
) -> Option<u64> {
    let mut policy = AnyPolicy::from(name.parse::<PolicyName>().unwrap());
    let (table, known) = (Table(vec![(0, 0); 2]), Known(vec![old_us, new_us]));
    let last = Some(Last { op: Op::Read, lbn: Lbn::new(500) });
    let first = pending(0, old, 0);
    (0..2_000u64).find(|&round| {
        let newest = pending(1, new, round * 1_000);
        let pool = [first, newest];
        let at = Instant::ZERO + Duration::from_millis(round + 1);
        let age = AgeWeight::from_millionths(100_000);
        let view = View { last, at, mimic: Some(&known), ..view(&pool, &table, age) };
        policy.choose(&view) == 0
    })
}

#[test]
fn no_request_starves_behind_known_or_unknown_times_under_ageing() {
    for name in ["smtf", "smtf:set:c-look", "smtf:priority", "smtf:priority:c-look"] {
        // The old request at 900 is behind 600 for both base policies.
        for old in [None, Some(2_000), Some(30_000)] {
            for new in [None, Some(1_000)] {
                let others = passed_over(name, (900, old), (600, new));
                // Each request that is served first subtracts a tenth of a millisecond from the old one's key.
                assert!(others.is_some_and(|n| n <= 310), "{name}: {old:?} behind {new:?}: {others:?}");
            }
        }
    }
    // An unknown time is not preferred: it waits as if it were long.
    assert!(passed_over("smtf:priority", (900, None), (600, Some(1_000))).is_some_and(|n| n >= 180));
    assert!(passed_over("smtf", (900, None), (600, Some(1_000))).is_some_and(|n| n >= 180));
}

#[test]
fn names_of_policies_round_trip() {
    for name in [
        "fcfs",
        "c-look",
        "sstf",
        "sptf",
        "sptf-sw:0",
        "sptf-sw:40",
        "sptf-sw:62.5",
        "sptf-sw:inf",
        "smtf",
        "smtf:set:c-look",
        "smtf:priority",
        "smtf:priority:c-look",
        "look",
        "scan",
        "vscan:0",
        "vscan:0.2",
        "vscan:1",
        "asptf:0",
        "asptf:6",
        "asptf:0.125",
    ] {
        assert_eq!(name.parse::<PolicyName>().unwrap().to_string(), name);
    }
    assert_eq!("sptf-sw:inf".parse(), Ok(PolicyName::SptfSw(SeekWeight::UNLIMITED)));
    assert_eq!("sptf-sw:40".parse(), Ok(PolicyName::SptfSw(SeekWeight::percent(40))));
    assert_eq!("sptf-sw:100000".parse::<PolicyName>().unwrap().to_string(), "sptf-sw:100000");
}

#[test]
fn an_unknown_policy_is_refused_with_the_reason() {
    let refused = [
        ("", "no policy has this name"),
        ("SPTF", "no policy has this name"),
        ("sptf-sw40", "no policy has this name"),
        ("sptf-sw", "sptf-sw needs its percentage"),
        ("vscan", "vscan needs its R"),
        ("vscan:", "R must be a number from 0 to 1"),
        ("vscan:1.1", "R must be a number from 0 to 1"),
        ("vscan:nan", "R must be a number from 0 to 1"),
        ("asptf", "asptf needs its W"),
        ("asptf:-1", "W must be a number"),
        ("asptf:inf", "W must be a number"),
        ("scan:1", "no policy has this name"),
        ("smtf:", "smtf takes set or priority"),
        ("smtf:all", "smtf takes set or priority"),
        ("smtf:set:sptf", "smtf takes set or priority"),
        ("smtf:set:sstf:c-look", "smtf takes set or priority"),
        ("sptf-sw:", "must be a number"),
        ("sptf-sw:-1", "must be a number"),
        ("sptf-sw:100000.5", "must be a number"),
        ("sptf-sw:nan", "must be a number"),
        ("sptf-sw:forty", "must be a number"),
        ("sptf-sw:40%", "must be a number"),
    ];
    for (name, reason) in refused {
        let message = name.parse::<PolicyName>().unwrap_err().to_string();
        assert!(message.contains(reason) && message.contains("sptf-sw:N"), "{name}: {message}");
    }
}

proptest! {
    #[test]
    fn percentages_survive_writing_and_reading(hundredths in 0..=10_000_000u32) {
        let name = PolicyName::SptfSw(SeekWeight { hundredths: Some(hundredths) });
        prop_assert_eq!(name.to_string().parse::<PolicyName>(), Ok(name));
    }

    #[test]
    fn weights_of_vscan_and_asptf_survive_writing_and_reading(r in 0..=1_000_000u32, w in 0..=1_000_000_000u32) {
        for name in
            [PolicyName::VScan(SweepWeight::from_millionths(r)), PolicyName::Asptf(AgeWeight::from_millionths(w))]
        {
            prop_assert_eq!(name.to_string().parse::<PolicyName>(), Ok(name));
        }
    }

    /// The ends of Geist and Daniel's continuum are V(0), which goes to the nearest address, and V(1), which is LOOK. LOOK
    /// serves a fixed queue from address 0 in one sweep.
    #[test]
    fn the_ends_of_vscan_are_the_nearest_address_and_look(
        lbns in prop::collection::vec(0..CAPACITY, 1..30), late in prop::collection::vec(0..CAPACITY, 0..30),
    ) {
        let served = |name: &str| {
            let mut policy = AnyPolicy::from(name.parse::<PolicyName>().unwrap());
            let mut pool: Vec<_> = lbns.iter().enumerate().map(|(i, lbn)| pending(i as u64, *lbn, 0)).collect();
            let table = Table(vec![(0, 0); lbns.len() + late.len()]);
            let mut late = (lbns.len() as u64..).zip(&late);
            let (mut order, mut at) = (Vec::new(), 0u64);
            while !pool.is_empty() {
                let chosen = policy.choose(&view(&pool, &table, AgeWeight::default()));
                if name == "vscan:0" {
                    let nearest = pool.iter().map(|p| p.lbn().get().abs_diff(at)).min().unwrap();
                    assert_eq!(pool[chosen].lbn().get().abs_diff(at), nearest);
                }
                at = pool[chosen].lbn().get();
                order.push(pool.swap_remove(chosen).sequence);
                pool.extend(late.next().map(|(i, lbn)| pending(i, *lbn, 0)));
            }
            order
        };
        served("vscan:0");
        prop_assert_eq!(served("vscan:1"), served("look"));
        prop_assert_eq!(served("scan"), served("look"));
        let swept = addresses("look", &lbns);
        prop_assert!(swept.is_sorted(), "from address 0 one sweep is enough: {:?}", swept);
    }

    /// The ends of SPTF-SWn% are SPTF and SSTF. SPTF-SWn% may break ties in another way, so the keys are compared.
    #[test]
    fn the_ends_of_sptf_sw_are_sptf_and_sstf(
        seed: u64,
        requests in prop::collection::vec((any::<prop::sample::Index>(), 1..64u64, any::<bool>()), 1..40),
        arm: prop::sample::Index,
        at in 0..1u64 << 40,
        percent in 0..200u16,
    ) {
        let drive = DriveModel::from_profile(&random_profile(seed, Size::Tiny)).unwrap();
        let capacity = drive.layout().capacity().get() as usize;
        let mut pool = Vec::new();
        for (i, (lbn, len, read)) in requests.iter().enumerate() {
            let lbn = lbn.index(capacity) as u64;
            let range = LbnRange::new(Lbn::new(lbn), Sectors::new((*len).min(capacity as u64 - lbn)));
            let op = if *read { Op::Read } else { Op::Write };
            let request = Request { id: RequestId::new(i as u64), op, range };
            pool.push(Pending::new(&drive, request, Instant::ZERO, i as u64).unwrap());
        }
        let arm = TrackIndex::new(arm.index(drive.layout().track_count() as usize) as u32);
        let from = Position::from(drive.layout().track(arm));
        let at = Instant::from_nanos(at);
        let view =
            View { at, from, ..super::tests::view(&pool, &drive, AgeWeight::default()) };
        let times: Vec<_> = pool.iter().map(|p| drive.positioning(from, at, p)).collect();
        let least_total = times.iter().map(|t| t.total()).min().unwrap();
        let least_seek = times.iter().map(|t| t.seek).min().unwrap();

        let sptf = Sptf.choose(&view);
        let sstf = Sstf.choose(&view);
        let zero = SptfSw::new(SeekWeight::percent(0)).choose(&view);
        let unlimited = SptfSw::new(SeekWeight::UNLIMITED).choose(&view);
        prop_assert_eq!(times[sptf].total(), least_total);
        prop_assert_eq!(times[zero].total(), least_total);
        prop_assert_eq!(times[sstf].seek, least_seek);
        prop_assert_eq!(times[unlimited].seek, least_seek);
        // Of requests with equal times the first is chosen.
        prop_assert!(times[..sptf].iter().all(|t| t.total() > least_total));
        prop_assert!(times[..sstf].iter().all(|t| t.seek > least_seek));
        if times.iter().filter(|t| t.total() == least_total).count() == 1 {
            prop_assert_eq!(zero, sptf);
        }
        if times.iter().filter(|t| t.seek == least_seek).count() == 1 {
            prop_assert_eq!(unlimited, sstf);
        }

        // Between the ends, the choice is near the shortest time, and no other near one has a shorter seek.
        let between = SptfSw::new(SeekWeight::percent(percent)).choose(&view);
        let near = |t: &Positioning| {
            let over = u128::from((t.total() - least_total).as_nanos());
            over * 100 <= u128::from(least_total.as_nanos()) * u128::from(percent)
        };
        prop_assert!(near(&times[between]));
        prop_assert!(times.iter().filter(|t| near(t)).all(|t| t.seek >= times[between].seek));
        prop_assert_eq!(Fcfs.choose(&view), 0);
    }
}

/// A host's own policy, which chooses the shortest positioning time, or an index past the end of the pool.
#[derive(Clone, Debug)]
enum Own {
    Shortest,
    PastTheEnd,
}

impl ForeignPolicy for Own {
    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let totals = choice.pool.iter().map(|pending| choice.positioning(pending).total());
        match self {
            Self::Shortest => {
                totals.enumerate().min_by_key(|&(_, total)| total).map_or(0, |(index, _)| index)
            }
            Self::PastTheEnd => choice.pool.len(),
        }
    }

    fn boxed_clone(&self) -> Box<dyn ForeignPolicy> {
        Box::new(self.clone())
    }
}

fn choice_of(own: Own, pool: &[Pending], table: &Table) -> u64 {
    let mut policy = AnyPolicy::Foreign(Box::new(own)).clone();
    pool[policy.choose(&view(pool, table, AgeWeight::default()))].sequence
}

#[test]
fn a_policy_from_outside_sees_the_positioning_times_of_the_named_ones() {
    let table = Table(vec![(900, 50), (100, 700), (300, 20)]);
    let pool: Vec<Pending> = (0..3).map(|n| pending(n, 100 * n, n)).collect();
    assert_eq!(choice_of(Own::Shortest, &pool, &table), 2);
    assert_eq!(first("sptf", &pool, &table, AgeWeight::default()), 2);
}

#[test]
fn a_choice_past_the_end_of_the_pool_stands_for_the_earliest_arrival() {
    let table = Table(vec![(9, 9), (1, 1)]);
    let pool = [pending(1, 0, 20), pending(0, 8, 10)];
    assert_eq!(choice_of(Own::PastTheEnd, &pool, &table), 0);
}
