//! A learner that learns while it is saved.

use mimic::{CheckPoints, Distance, Learner, LearnerConfig, Pair, SavedPart};
use std::collections::BTreeMap;
use units::{Duration, Sectors};
use workload::random::Stream;

/// A learner is saved a part at a time, and learns more between the parts. No distance known before is missing, and
/// the saved time of each is one that it had at some moment.
#[test]
fn a_save_in_parts_is_whole() {
    let config = LearnerConfig {
        check_points: CheckPoints::NONE,
        ..LearnerConfig::new(Sectors::new(2_000_000), Sectors::new(8))
    };
    let mut learner = Learner::new(config, None).unwrap();
    let mut random = Stream::new(8, "parts");
    let observe = |learner: &mut Learner, random: &mut Stream, us: u64| {
        let distance = Distance::new((random.next_u64() % 4_000_000) as i64 - 2_000_000);
        learner.learn(Pair::ALL[(random.next_u64() % 4) as usize], distance, Duration::from_micros(us));
    };
    (0..5_000).for_each(|_| observe(&mut learner, &mut random, 3_000));
    let before = learner.clone();
    let (mut parts, mut bytes) = (0, Vec::new());
    let mut saving = learner.begin_saving("d");
    loop {
        match saving.go_on(&learner, 700) {
            SavedPart::Part(part) => {
                // A part has at most 1,024 cells, of at most fifteen bytes.
                assert!(part.len() < 20_000, "{} bytes at once", part.len());
                bytes.extend(part);
                parts += 1;
                (0..20).for_each(|_| observe(&mut learner, &mut random, 3_100));
            }
            SavedPart::Last { bytes: last, beginning } => {
                bytes.extend(last);
                bytes[..beginning.len()].copy_from_slice(&beginning);
                break;
            }
            SavedPart::Forgotten => panic!("nothing was forgotten"),
        }
    }
    assert!(parts > 100, "{parts}");
    let loaded = Learner::load(config, "d", &bytes).unwrap();
    for pair in Pair::ALL {
        let of = |learner: &Learner| learner.known(pair).collect::<BTreeMap<_, _>>();
        let (before, loaded, after) = (of(&before), of(&loaded), of(&learner));
        assert!(before.keys().all(|d| loaded.contains_key(d)));
        assert!(loaded.keys().all(|d| after.contains_key(d)));
        assert!(loaded.values().all(|t| (3_000..=3_100).contains(&(t.as_nanos() / 1_000))));
    }
}

#[test]
fn a_learner_that_forgets_during_a_save_begins_it_anew() {
    let config = LearnerConfig::new(Sectors::new(2_000_000), Sectors::new(8));
    let mut learner = Learner::new(config, None).unwrap();
    let mut random = Stream::new(9, "forgets");
    let at = |random: &mut Stream| Distance::new((random.next_u64() % 500) as i64 * 8 + 1);
    let time = |d: Distance, factor: i64| {
        Duration::from_micros(2_000 + (d.sectors() * factor % 6_000).unsigned_abs())
    };
    for _ in 0..20_000 {
        let d = at(&mut random);
        learner.learn(Pair::ALL[0], d, time(d, 7));
    }
    let mut saving = learner.begin_saving("d");
    assert!(matches!(saving.go_on(&learner, 1), SavedPart::Part(_)));
    while learner.stats().changes == 0 {
        let d = at(&mut random);
        learner.learn(Pair::ALL[0], d, time(d, 1_237));
    }
    assert_eq!(saving.go_on(&learner, 1), SavedPart::Forgotten);
}
