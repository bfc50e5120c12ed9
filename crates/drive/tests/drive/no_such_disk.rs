//! Tests of the black boxes that are no conventional disks: flash and shingled tracks.

use freeblock_drive::{
    Behaviour, BlackBox, Command, CommandError, Drive, Flash, FlashConfig, Reply, Rules, Shingled,
    ShingledConfig,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

type ScatteredRequest = (bool, u64, u64, u64);

fn asks() -> impl Strategy<Value = Vec<ScatteredRequest>> {
    proptest::collection::vec((any::<bool>(), any::<u64>(), 1_u64..40, 0_u64..30_000), 1..120)
}

fn run(device: &mut impl BlackBox, asks: &[ScatteredRequest]) -> Vec<Reply> {
    let capacity = device.capacity().get();
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    for (i, &(write, place, len, pause)) in asks.iter().enumerate() {
        let id = RequestId::new(i as u64);
        let len = len.min(capacity);
        let range = LbnRange::new(Lbn::new(place % (capacity - len + 1)), Sectors::new(len));
        let command = Command { id, op: if write { Op::Write } else { Op::Read }, range };
        while device.outstanding() >= device.queue_depth() {
            assert!(matches!(device.submit(now, command), Err(CommandError::QueueFull { .. })));
            now = now.max(device.next_event().unwrap());
            device.advance(now);
            all.extend(std::iter::from_fn(|| device.pop_reply()));
        }
        device.submit(now, command).unwrap();
        now += Duration::from_micros(pause);
        device.advance(now);
        all.extend(std::iter::from_fn(|| device.pop_reply()));
    }
    while let Some(at) = device.next_event() {
        device.advance(at.max(now));
        all.extend(std::iter::from_fn(|| device.pop_reply()));
    }
    all
}

fn complete(device: &impl BlackBox, replies: &[Reply], asked: usize) -> Result<(), TestCaseError> {
    let ids: BTreeSet<RequestId> = replies.iter().map(|r| r.id).collect();
    prop_assert_eq!((ids.len(), replies.len(), device.outstanding()), (asked, asked, 0));
    prop_assert!(replies.is_sorted_by_key(|r| r.at));
    Ok(())
}

fn small() -> Drive {
    let mut profile = model::Profile::from_toml(include_str!("../data/small.toml"), "small.toml").unwrap();
    profile.firmware.get_or_insert_default();
    Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour::default(), 0).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flash_loses_nothing_and_is_as_fast_everywhere(asks in asks(), seed in any::<u64>(), channels in 0_u16..4, depth in 0_u16..9) {
        let config = FlashConfig { channels, depth, ..FlashConfig::default() };
        let mut flash = Flash::new(config, seed);
        let replies = run(&mut flash, &asks);
        complete(&flash, &replies, asks.len())?;
        prop_assert_eq!(&replies, &run(&mut Flash::new(config, seed), &asks));
        let slowest = config.read + config.sector * 40 + config.spread;
        let span = replies.last().unwrap().at.since(Instant::ZERO);
        let pauses: u64 = asks.iter().map(|a| a.3).sum();
        prop_assert!(span <= slowest * asks.len() as u64 + Duration::from_micros(pauses));
    }

    #[test]
    fn a_shingled_drive_loses_nothing(asks in asks(), log in 1_u64..400, band in 1_u64..700, depth in 1_u32..5) {
        let config = ShingledConfig { log: Sectors::new(log), band: Sectors::new(band), depth };
        let mut smr = Shingled::new(small(), config).unwrap();
        let replies = run(&mut smr, &asks);
        complete(&smr, &replies, asks.len())?;
        prop_assert!(smr.logged().get() <= log);
        let written = asks.iter().filter(|a| a.0).count() as u64;
        prop_assert!(written > 0 || smr.cleaned_bands() == 0);
        let mut again = Shingled::new(small(), config).unwrap();
        prop_assert_eq!(replies, run(&mut again, &asks));
    }
}

#[test]
fn a_full_log_stalls_the_next_commands() {
    let config = ShingledConfig { log: Sectors::new(64), band: Sectors::new(400), depth: 4 };
    let mut smr = Shingled::new(small(), config).unwrap();
    let mut times = Vec::new();
    let mut now = Instant::ZERO;
    for i in 0..40 {
        let range = LbnRange::new(Lbn::new(i * 397 % 3_000), Sectors::new(8));
        smr.submit(now, Command { id: RequestId::new(i), op: Op::Write, range }).unwrap();
        let reply = loop {
            if let Some(reply) = smr.pop_reply() {
                break reply;
            }
            smr.advance(smr.next_event().unwrap());
        };
        times.push(reply.at.since(now));
        now = reply.at + Duration::from_millis(20);
    }
    assert!(smr.cleaned_bands() > 0);
    let (before, after) = times.split_at(8);
    let usual = before.iter().max().unwrap();
    let longest = after.iter().max().unwrap();
    assert!(*longest > *usual * 3, "{longest} {usual}");
}

#[test]
fn nonsense_makes_no_shingled_drive() {
    let error = |log, band| {
        let config = ShingledConfig { log: Sectors::new(log), band: Sectors::new(band), depth: 1 };
        Shingled::new(small(), config).unwrap_err().to_string()
    };
    assert!(error(0, 10).contains("shingled.log"));
    assert!(error(1 << 40, 10).contains("shingled.log"));
    assert!(error(10, 0).contains("shingled.band"));
}
