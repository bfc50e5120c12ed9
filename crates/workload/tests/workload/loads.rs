//! The statistics of the generated loads, and the errors of their settings.

use freeblock_workload::{
    Arrival, Closed, ClosedTask, ConfigError, Issuer, Limited, Oltp, OltpConfig, Random, RandomConfig,
    Request, Share, Source, Synthetic, SyntheticConfig, Think,
};
use proptest::prelude::*;
use units::{Bytes, Instant, Op, Sectors};

/// The sectors of the Quantum Atlas 10K of OSDI'00.
const ATLAS: Sectors = Sectors::new(17_938_986);
const SECTOR: Bytes = Bytes::new(512);

fn requests(mut source: impl Source, n: usize) -> Vec<Request> {
    std::iter::from_fn(|| source.next_request()).take(n).collect()
}

fn share(requests: &[Request], of: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|r| of(r)).count() as f64 / requests.len() as f64
}

#[test]
fn random_requests_are_pinned() {
    let load = Random::new(RandomConfig::new(ATLAS, SECTOR), 42).unwrap();
    let text: Vec<String> = requests(load, 4).iter().map(|r| format!("{} {}", r.op, r.range)).collect();
    assert_eq!(text, PINNED_RANDOM);
}

#[test]
fn local_requests_are_pinned() {
    let config = RandomConfig { local: Share::new(7, 10).unwrap(), ..RandomConfig::new(ATLAS, SECTOR) };
    let load = Random::new(config, 42).unwrap();
    let text: Vec<String> = requests(load, 4).iter().map(|r| format!("{} {}", r.op, r.range)).collect();
    assert_eq!(text, PINNED_LOCAL);
}

#[test]
fn oltp_requests_are_pinned() {
    let load = Oltp::new(OltpConfig::new(ATLAS, SECTOR), 42).unwrap();
    let text: Vec<String> = requests(load, 4).iter().map(|r| format!("{} {}", r.op, r.range)).collect();
    assert_eq!(text, PINNED_OLTP);
}

#[test]
fn the_random_load_is_uniform_with_two_reads_to_a_write() {
    let load = requests(Random::new(RandomConfig::new(ATLAS, SECTOR), 1).unwrap(), 90_000);
    // Five standard errors of a share of 2/3, and of 1/2, in 90,000.
    assert!((share(&load, |r| r.op == Op::Read) - 2.0 / 3.0).abs() < 0.0079);
    assert!((share(&load, |r| r.range.start().get() < ATLAS.get() / 2) - 0.5).abs() < 0.0084);
    assert!(load.iter().all(|r| r.range.start().get().is_multiple_of(8) && r.range.len().get() == 8));
}

#[test]
fn a_local_share_is_near_the_last_request() {
    let config = RandomConfig { local: Share::new(7, 10).unwrap(), ..RandomConfig::new(ATLAS, SECTOR) };
    let load = requests(Random::new(config, 2).unwrap(), 50_000);
    let distance = |w: &[Request]| w[0].range.start().get().abs_diff(w[1].range.start().get());
    let within = |sectors: u64| {
        load.windows(2).filter(|w| distance(w) <= sectors).count() as f64 / (load.len() - 1) as f64
    };
    // 68.27% of normal deviates lie within one deviation (8,192 sectors of 512 bytes), 99.73% within three;
    // uniform requests lie there by chance once in 1,086 and 362.
    assert!((within(8_192) - (0.7 * 0.6827 + 0.3 / 1_086.0)).abs() < 0.0112, "{}", within(8_192));
    assert!((within(24_576) - (0.7 * 0.9973 + 0.3 / 362.0)).abs() < 0.0104, "{}", within(24_576));
}

#[test]
fn oltp_sizes_are_exponential_rounded_up_to_4_kb() {
    let config = OltpConfig::new(ATLAS, SECTOR);
    let load = requests(Oltp::new(config, 3).unwrap(), 200_000);
    let mean = load.iter().map(|r| r.range.len().get()).sum::<u64>() as f64 / load.len() as f64;
    // 20.33 sectors; the standard deviation of the rounded size is 15.8.
    assert!((config.rounded_mean() - 8.0 / (1.0 - (-0.5f64).exp())).abs() < 1e-9);
    assert!((mean - config.rounded_mean()).abs() < 5.0 * 15.8 / (load.len() as f64).sqrt(), "{mean}");
    for units in 1..8 {
        let longer = share(&load, |r| r.range.len().get() > 8 * units);
        let expected = (-0.5 * units as f64).exp();
        assert!((longer - expected).abs() < 0.0057, "{units}: {longer} {expected}");
    }
    assert!((share(&load, |r| r.op == Op::Read) - 2.0 / 3.0).abs() < 0.0053);
}

#[test]
fn synthetic_requests_are_pinned() {
    let load = Synthetic::new(SyntheticConfig::new(ATLAS, SECTOR), 42).unwrap();
    let text: Vec<String> = requests(load, 4).iter().map(|r| format!("{} {}", r.op, r.range)).collect();
    assert_eq!(text, PINNED_SYNTHETIC);
}

#[test]
fn synthetic_requests_are_of_4_or_8_kb_anywhere_with_two_reads_to_a_write() {
    let load = requests(Synthetic::new(SyntheticConfig::new(ATLAS, SECTOR), 1).unwrap(), 90_000);
    assert!((share(&load, |r| r.op == Op::Read) - 2.0 / 3.0).abs() < 0.0079);
    assert!((share(&load, |r| r.range.len().get() == 8) - 0.5).abs() < 0.0084);
    assert!(load.iter().all(|r| matches!(r.range.len().get(), 8 | 16)));
    for tenth in 0..10 {
        let here = share(&load, |r| r.range.start().get() * 10 / ATLAS.get() == tenth);
        assert!((here - 0.1).abs() < 0.005, "{tenth}: {here}");
    }
}

#[test]
fn synthetic_settings_that_make_no_load_name_the_field_and_the_mend() {
    let config = SyntheticConfig::new(ATLAS, SECTOR);
    let refuse = |config| Synthetic::new(config, 1).unwrap_err().to_string();
    assert_eq!(
        refuse(SyntheticConfig { unit: Sectors::ZERO, ..config }),
        "unit is 0; give at least 1 sector"
    );
    let multiple = "; give a multiple of the unit, at least once it";
    assert_eq!(
        refuse(SyntheticConfig { size_min: Sectors::ZERO, ..config }),
        format!("size_min is 0{multiple}")
    );
    assert_eq!(
        refuse(SyntheticConfig { size_max: Sectors::new(9), ..config }),
        format!("size_max is 9{multiple}")
    );
    let falling = SyntheticConfig { size_min: Sectors::new(16), size_max: Sectors::new(8), ..config };
    assert_eq!(refuse(falling), "size_max is 8; give at least the smallest size");
    assert!(refuse(SyntheticConfig { capacity: Sectors::new(15), ..config }).starts_with("capacity is 15"));
}

/// Returns the arrivals of a process, in seconds.
fn arrivals(arrival: Arrival, n: usize) -> Vec<f64> {
    let load = Random::new(RandomConfig::new(ATLAS, SECTOR), 1).unwrap();
    let mut issuer = Issuer::new(load, arrival, Instant::ZERO, 9).unwrap();
    (0..n).map(|_| issuer.issue(Instant::MAX).unwrap().at.as_secs_f64()).collect()
}

#[test]
fn bursts_have_their_rate_over_all_time_and_silences_between_them() {
    let (burst, silence) = (units::Duration::from_millis(500), units::Duration::from_secs(2));
    let at = arrivals(Arrival::Bursts { rate: 40.0, burst, silence }, 200_000);
    // The rate over some 2,000 bursts and silences deviates by 2.2%; the bound is five deviations.
    let rate = at.len() as f64 / at.last().unwrap();
    assert!((rate - 40.0).abs() < 4.5, "{rate}");
    // A burst has 200 requests a second, so a gap in it is longer than 50 ms in e^-10 of the cases; a silence is
    // shorter in 2.5%.
    let gaps: Vec<f64> = at.windows(2).map(|w| w[1] - w[0]).collect();
    let short = gaps.iter().filter(|&&gap| gap < 0.05);
    let mean = short.clone().sum::<f64>() / short.count() as f64;
    assert!((mean - 0.005).abs() < 0.0002, "{mean}");
    let long: Vec<f64> = gaps.into_iter().filter(|&gap| gap >= 0.05).collect();
    let mean = long.iter().sum::<f64>() / long.len() as f64;
    assert!((mean - 2.05).abs() < 0.25, "{mean} of {}", long.len());
}

#[test]
fn bursts_are_pinned() {
    let (burst, silence) = (units::Duration::from_millis(50), units::Duration::from_millis(100));
    let at = arrivals(Arrival::Bursts { rate: 20.0, burst, silence }, 4);
    let ns: Vec<u64> = at.iter().map(|s| (s * 1e9).round() as u64).collect();
    assert_eq!(ns, PINNED_BURSTS);
}

#[test]
fn bursts_that_hold_nothing_are_refused() {
    let refuse = |rate, burst| {
        let load = Random::new(RandomConfig::new(ATLAS, SECTOR), 1).unwrap();
        let arrival = Arrival::Bursts { rate, burst, silence: units::Duration::from_secs(1) };
        Issuer::new(load, arrival, Instant::ZERO, 1).err().unwrap().to_string()
    };
    assert_eq!(refuse(1.0, units::Duration::ZERO), "burst is 0 s; give a mean length above zero");
    assert!(refuse(f64::NAN, units::Duration::from_secs(1)).starts_with("rate is NaN; give"));
    let thin = refuse(1e-6, units::Duration::from_nanos(1));
    assert!(thin.ends_with("give longer bursts or a higher rate"), "{thin}");
}

#[test]
fn silence_is_done_at_once() {
    let load = Random::new(RandomConfig::new(ATLAS, SECTOR), 1).unwrap();
    let mut issuer = Issuer::new(load, Arrival::Silent, Instant::ZERO, 1).unwrap();
    assert!(issuer.is_done() && issuer.due().is_none() && issuer.issue(Instant::MAX).is_none());
}

#[test]
fn a_cap_takes_all_longer_sizes() {
    let config = OltpConfig { max: Sectors::new(16), ..OltpConfig::new(ATLAS, SECTOR) };
    let load = requests(Oltp::new(config, 4).unwrap(), 50_000);
    let mean = load.iter().map(|r| r.range.len().get()).sum::<u64>() as f64 / load.len() as f64;
    assert!((mean - config.rounded_mean()).abs() < 0.1, "{mean} {}", config.rounded_mean());
    assert!(load.iter().all(|r| r.range.len().get() <= 16));
}

#[test]
fn the_requests_do_not_depend_on_when_they_complete() {
    let issued = |service: [u64; 3]| {
        let load = Limited::new(Oltp::new(OltpConfig::new(ATLAS, SECTOR), 5).unwrap(), 100);
        let mut issuer = Issuer::new(load, Arrival::oltp(3), Instant::ZERO, 5).unwrap();
        let mut now = Instant::ZERO;
        let mut seen = Vec::new();
        while let Some(due) = issuer.due() {
            now = now.max(due);
            let issued = issuer.issue(now).unwrap();
            now += units::Duration::from_micros(service[seen.len() % 3]);
            issuer.complete(issued.task, now);
            seen.push(issued.request);
        }
        assert!(issuer.is_done());
        seen
    };
    assert_eq!(issued([100, 5_000, 90]), issued([7, 8, 90_000]));
}

#[test]
fn settings_that_make_no_load_name_the_field_and_the_mend() {
    let random = RandomConfig::new(ATLAS, SECTOR);
    let refuse = |config| Random::new(config, 1).unwrap_err().to_string();
    assert_eq!(
        refuse(RandomConfig { capacity: Sectors::new(7), ..random }),
        "capacity is 7 sectors, but a request may need 8; use a larger drive or smaller requests"
    );
    assert_eq!(refuse(RandomConfig { size: Sectors::ZERO, ..random }), "size is 0; give at least 1 sector");
    assert_eq!(refuse(RandomConfig { align: Sectors::ZERO, ..random }), "align is 0; give at least 1 sector");
    let still = RandomConfig { local: Share::ALL, local_deviation: Sectors::ZERO, ..random };
    assert!(refuse(still).starts_with("local_deviation is 0"));

    let oltp = OltpConfig::new(ATLAS, SECTOR);
    let refuse = |config| Oltp::new(config, 1).unwrap_err().to_string();
    assert!(refuse(OltpConfig { unit: Sectors::ZERO, ..oltp }).starts_with("unit is 0"));
    assert!(refuse(OltpConfig { mean: Sectors::ZERO, ..oltp }).starts_with("mean is 0"));
    for max in [0, 7, 9, 8 << 19] {
        assert!(refuse(OltpConfig { max: Sectors::new(max), ..oltp }).starts_with("max is "));
    }
    let small = OltpConfig { capacity: Sectors::new(511), ..oltp };
    assert!(matches!(Oltp::new(small, 1), Err(ConfigError::CapacityTooSmall { .. })));
}

proptest! {
    #[test]
    fn random_requests_lie_on_the_drive(
        capacity in prop_oneof![1u64..5_000, 1u64..u64::MAX],
        size in 1u64..600, align in 1u64..600, local in 0u64..=10, deviation in 1u64..u64::MAX, seed: u64,
    ) {
        let config = RandomConfig {
            capacity: Sectors::new(capacity),
            size: Sectors::new(size),
            align: Sectors::new(align),
            reads: Share::TWO_THIRDS,
            local: Share::new(local, 10).unwrap(),
            local_deviation: Sectors::new(deviation),
        };
        match Random::new(config, seed) {
            Err(_) => prop_assert!(size > capacity),
            Ok(load) => for r in requests(load, 50) {
                prop_assert!(r.range.checked_end().is_some_and(|end| end.get() <= capacity));
                prop_assert!(r.range.len().get() == size && r.range.start().get().is_multiple_of(align));
            },
        }
    }

    /// Compares a closed loop with its simplest model: a list of waiting tasks, and a list of thinking ones.
    #[test]
    fn a_closed_loop_does_what_a_list_of_tasks_would(
        tasks in 1u32..6, pause in 0u64..4, steps in prop::collection::vec((0u64..3, any::<bool>(), 0usize..6), 0..80),
    ) {
        let think = Think::Constant(units::Duration::from_nanos(pause));
        let load = Random::new(RandomConfig::new(ATLAS, SECTOR), 1).unwrap();
        let mut twin = load.clone();
        let arrival = Arrival::Closed(Closed { tasks, think });
        let mut issuer = Issuer::new(load, arrival, Instant::ZERO, 1).unwrap();
        let mut thinking: Vec<(u64, Option<ClosedTask>)> = vec![(0, None); tasks as usize];
        let mut waiting: Vec<ClosedTask> = Vec::new();
        let mut now = 0;
        for (passed, issue, which) in steps {
            now += passed;
            let at = Instant::from_nanos(now);
            if issue {
                // Times are pushed in order, so the first of the smallest is the one that was known first.
                let first = thinking.iter().enumerate().min_by_key(|(i, t)| (t.0, *i)).map(|(i, t)| (i, *t));
                let expected = first.filter(|(_, t)| t.0 <= now);
                let issued = issuer.issue(at);
                prop_assert_eq!(issued.is_some(), expected.is_some());
                if let (Some(issued), Some((index, (due, task)))) = (issued, expected) {
                    prop_assert_eq!(issued.at.as_nanos(), due);
                    prop_assert!(task.is_none_or(|task| task == issued.task));
                    prop_assert!(!waiting.contains(&issued.task));
                    prop_assert_eq!(Some(issued.request), twin.next_request());
                    thinking.remove(index);
                    waiting.push(issued.task);
                }
            } else if !waiting.is_empty() {
                let task = waiting.remove(which % waiting.len());
                issuer.complete(task, at);
                thinking.push((now + pause, Some(task)));
            }
            prop_assert_eq!(issuer.outstanding(), waiting.len() as u64);
            prop_assert_eq!(issuer.due().map(Instant::as_nanos), thinking.iter().map(|t| t.0).min());
        }
    }

    #[test]
    fn synthetic_requests_lie_on_the_drive(
        capacity in prop_oneof![1u64..5_000, 1u64..u64::MAX],
        unit in 1u64..100, low in 1u64..50, more in 0u64..50, seed: u64,
    ) {
        let config = SyntheticConfig {
            capacity: Sectors::new(capacity),
            unit: Sectors::new(unit),
            size_min: Sectors::new(low * unit),
            size_max: Sectors::new((low + more) * unit),
            reads: Share::TWO_THIRDS,
        };
        match Synthetic::new(config, seed) {
            Err(_) => prop_assert!((low + more) * unit > capacity),
            Ok(load) => for r in requests(load, 50) {
                prop_assert!(r.range.checked_end().is_some_and(|end| end.get() <= capacity));
                prop_assert!((low * unit..=(low + more) * unit).contains(&r.range.len().get()));
                prop_assert!(r.range.start().get().is_multiple_of(unit));
            },
        }
    }

    #[test]
    fn oltp_requests_lie_on_the_drive(
        capacity in prop_oneof![1u64..5_000, 1u64..u64::MAX],
        unit in 1u64..100, mean in 1u64..10_000, max in 1u64..300, seed: u64,
    ) {
        let config = OltpConfig {
            capacity: Sectors::new(capacity),
            unit: Sectors::new(unit),
            mean: Sectors::new(mean),
            max: Sectors::new(max * unit),
            reads: Share::TWO_THIRDS,
        };
        match Oltp::new(config, seed) {
            Err(_) => prop_assert!(max * unit > capacity),
            Ok(load) => for r in requests(load, 50) {
                prop_assert!(r.range.checked_end().is_some_and(|end| end.get() <= capacity));
                prop_assert!(!r.range.is_empty() && r.range.len().get() <= max * unit);
                prop_assert!(r.range.len().get().is_multiple_of(unit));
                prop_assert!(r.range.start().get().is_multiple_of(unit));
            },
        }
    }
}

// These values are from an independent implementation of the generators, in another language.
const PINNED_RANDOM: [&str; 4] = ["read 5749936+8", "read 11701288+8", "read 1802120+8", "read 12399768+8"];
const PINNED_LOCAL: [&str; 4] = ["read 8959816+8", "read 8965096+8", "read 8966112+8", "write 8973696+8"];
const PINNED_OLTP: [&str; 4] = ["read 9779384+8", "read 3169600+64", "read 11164704+8", "read 9776096+8"];
// These values are from this implementation, and change if the load does.
const PINNED_SYNTHETIC: [&str; 4] =
    ["read 5921664+8", "read 6079832+16", "read 5177856+16", "read 4202088+8"];
const PINNED_BURSTS: [u64; 4] = [393_924, 18_754_127, 30_723_511, 37_216_366];
