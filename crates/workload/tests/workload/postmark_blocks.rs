//! The statistics and the invariants of Postmark below a file system.

use crate::side::Side;
use freeblock_workload::postmark::{PostmarkBlocks, PostmarkBlocksConfig, PostmarkConfig};
use freeblock_workload::{PageCounts, Source};
use proptest::prelude::*;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};

const SECTOR: Bytes = Bytes::new(512);
const ATLAS: Sectors = Sectors::new(17_966_953);

/// Returns the configuration for a volume of 768 MB with 10,000 files and a cache of 4 MB.
fn small() -> PostmarkBlocksConfig {
    let config = PostmarkBlocksConfig::new(ATLAS, SECTOR);
    PostmarkBlocksConfig {
        postmark: PostmarkConfig { files: 10_000, directories: 125, transactions: 2_000, ..config.postmark },
        volume: LbnRange::new(Lbn::ZERO, Sectors::new(3 << 19)),
        cache: Bytes::new(4 << 20),
        ..config
    }
}

fn start(config: PostmarkBlocksConfig, seed: u64) -> Side<PostmarkBlocks> {
    Side::new(PostmarkBlocks::new(config, seed).unwrap())
}

#[test]
fn the_first_requests_are_pinned() {
    let mut side = start(small(), 42);
    side.serve(8, 9);
    let text: Vec<String> =
        side.requests.iter().take(8).map(|(_, task, op, range)| format!("{task} {op} {range}")).collect();
    assert_eq!(text, PINNED);
}

#[test]
fn equal_seeds_give_equal_loads_and_other_seeds_other_loads() {
    let run = |seed| {
        let mut side = start(small(), seed);
        side.serve(2_000, 9);
        side.requests
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_load_ends_when_its_transactions_are_done_and_all_is_written() {
    let mut side = start(small(), 1);
    side.serve(u64::MAX, 9);
    let load = side.issuer.source();
    assert_eq!((load.statistics().transactions, load.cache().changed), (2_000, 0));
    assert!(side.issuer.is_done());
    let sum = |op| side.requests.iter().filter(|r| r.2 == op).count() as u64;
    let blocks = |op| side.requests.iter().filter(|r| r.2 == op).map(|r| r.3.len().get() / 16).sum::<u64>();
    let found = load.statistics();
    assert_eq!((found.reads, found.writes), (sum(Op::Read), sum(Op::Write)));
    assert_eq!((found.blocks_read, found.blocks_written), (blocks(Op::Read), blocks(Op::Write)));
    // A file that is created or appended to is written in the end, unless it is deleted: a block for more than half
    // of the transactions.
    assert!(found.blocks_written > 1_000 && found.refused == 0);
}

/// FAST'04, section 6.3: "Postmark is single-threaded", and the cache manager "coalesces many small dirty buffers".
#[test]
fn one_thread_reads_and_writes_come_in_clusters() {
    let mut side = start(small(), 2);
    side.serve(u64::MAX, 9);
    assert!(side.requests.iter().all(|r| (r.2 == Op::Read) == (r.1 == 0)));
    assert!(side.requests.iter().all(|r| r.1 <= 8 && (16..=128).contains(&r.3.len().get())));
    let found = side.issuer.source().statistics();
    assert!(found.blocks_written > found.writes * 5 / 4, "{found:?}");
}

#[test]
fn a_changed_block_waits_for_the_syncer_and_not_much_longer() {
    // The cache is so large that only the syncer writes.
    let postmark = PostmarkConfig { transactions: 50_000, ..small().postmark };
    let config = PostmarkBlocksConfig { cache: Bytes::new(1 << 30), postmark, ..small() };
    let mut side = start(config, 3);
    side.serve(10_000, 9);
    let first = side.requests.iter().find(|r| r.2 == Op::Write).unwrap();
    let waited = first.0.since(Instant::ZERO);
    assert!((Duration::from_secs(30)..Duration::from_secs(32)).contains(&waited), "{waited}");
}

#[test]
fn the_cache_keeps_its_size_and_a_quarter_of_it_may_be_changed() {
    let mut side = start(PostmarkBlocksConfig { syncer: Duration::from_secs(3_600), ..small() }, 4);
    for served in 1..4_000 {
        side.serve(served, 30);
        let PageCounts { held: blocks, changed } = side.issuer.source().cache();
        assert!(blocks <= 512 && changed <= 128 + 1, "{blocks} {changed}");
    }
}

#[test]
fn settings_that_make_no_load_name_the_field_and_the_mend() {
    let refuse = |config| PostmarkBlocks::new(config, 1).unwrap_err().to_string();
    let config = small();
    assert_eq!(
        refuse(PostmarkBlocksConfig { block: Bytes::new(1000), ..config }),
        "block is 1000; give whole sectors, to 1 MB"
    );
    assert!(refuse(PostmarkBlocksConfig { block: Bytes::ZERO, ..config }).starts_with("block is 0"));
    assert!(refuse(PostmarkBlocksConfig { sector: Bytes::ZERO, ..config }).starts_with("block is 8192"));
    assert!(
        refuse(PostmarkBlocksConfig { cluster: Bytes::new(12 << 10), ..config })
            .contains("give whole blocks")
    );
    assert!(
        refuse(PostmarkBlocksConfig { writes: 0, ..config }).ends_with("give 1 to 1024 writes at a time")
    );
    assert!(
        refuse(PostmarkBlocksConfig { cache: Bytes::new(8192), ..config })
            .starts_with("cache is 1 blocks; give four")
    );
    assert!(
        refuse(PostmarkBlocksConfig { processing: Duration::ZERO, ..config })
            .contains("give a time above zero")
    );
    assert!(refuse(PostmarkBlocksConfig { syncer: Duration::ZERO, ..config }).contains("such as 30 s"));
    let past = LbnRange::new(ATLAS_END, Sectors::new(1));
    assert!(
        refuse(PostmarkBlocksConfig { volume: past, ..config }).starts_with("capacity is 17966953 sectors")
    );
    let tight = LbnRange::new(Lbn::ZERO, Sectors::new(1 << 18));
    assert!(
        refuse(PostmarkBlocksConfig { volume: tight, ..config })
            .ends_with("give fewer or smaller files, or a larger part of a larger drive")
    );
    let none = PostmarkConfig { files: 0, ..config.postmark };
    assert!(refuse(PostmarkBlocksConfig { postmark: none, ..config }).starts_with("files is 0"));
}

const ATLAS_END: Lbn = Lbn::new(17_966_953);

#[test]
#[expect(clippy::print_stdout, reason = "it is there to print")]
#[ignore = "prints numbers for docs/WORKLOADS.md; takes seconds"]
fn measured_on_the_papers_drive() {
    let config = PostmarkBlocksConfig::new(Sectors::new(18_400_000_000 / 512), SECTOR);
    let mut side = start(config, 1);
    side.serve(u64::MAX, 13);
    println!("{:?} in {:.0} s", side.issuer.source().statistics(), side.now.as_secs_f64());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_request_leaves_the_volume(
        seed: u64, first in 0u64..1_000, groups in 1u64..4, files in 1u32..300, directories in 1u32..20,
        size in 1u64..300_000, more in 0u64..300_000, clusters in 0u64..20, writes in 1u32..10, most_ms in 1u64..30,
        syncer_ms in 1u64..60_000,
    ) {
        let sectors = Sectors::new(groups * 4_096 * 16 + 5);
        let base = small();
        let config = PostmarkBlocksConfig {
            postmark: PostmarkConfig {
                files, directories, transactions: 300,
                size_min: Bytes::new(size), size_max: Bytes::new(size + more),
                ..base.postmark
            },
            capacity: Sectors::new(first + sectors.get()),
            volume: LbnRange::new(Lbn::new(first), sectors),
            cache: Bytes::new((4 * (u64::from(writes) + 1) + clusters) * (64 << 10)),
            writes,
            syncer: Duration::from_millis(syncer_ms),
            ..base
        };
        let Ok(load) = PostmarkBlocks::new(config, seed) else {
            prop_assert!(u64::from(files) * (size + more + 8192) > groups * 4_000 * 8192);
            return Ok(());
        };
        let mut at_once = load.clone();
        let mut side = Side::new(load);
        side.serve(u64::MAX, most_ms);
        prop_assert!(side.issuer.is_done());
        // Dirty blocks and blocks that are being written never fill the cache, so it does not exceed its size.
        prop_assert!(side.issuer.source().cache().held as u64 <= config.cache.get() / 8192);
        for (_, _, _, range) in &side.requests {
            prop_assert!(range.start().get() >= first && range.end().get() <= config.capacity.get());
            prop_assert!(!range.is_empty());
        }
        while let Some(request) = at_once.next_request() {
            prop_assert!(request.range.end().get() <= config.capacity.get());
        }
    }
}

const PINNED: [&str; 8] = [
    "0 read 1048832+16",
    "0 read 1048592+16",
    "0 read 1050384+16",
    "0 read 655600+16",
    "0 read 655440+16",
    "0 read 655360+16",
    "0 read 852256+16",
    "0 read 852048+16",
];
