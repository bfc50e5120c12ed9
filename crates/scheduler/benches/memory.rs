//! The memory of the wanted set of a 20 TB drive in blocks of 4 KB: full, with one block missing from every leaf (the most
//! memory that a set takes), and empty again.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use freeblock_scheduler::BlockSet;

/// The blocks of 20 TB as vendors count them: 39,070,101,168 sectors of 512 bytes.
const BLOCKS: u64 = 39_070_101_168u64.div_ceil(8);

/// The number of blocks in a leaf of the set.
const LEAF: u64 = 4_096;

fn main() {
    // Tests run this without `--bench`, on a thousandth of the drive.
    let blocks = if std::env::args().any(|a| a == "--bench") { BLOCKS } else { BLOCKS / 1_000 };
    let mut set = BlockSet::full(blocks);
    let row = |what: &str, set: &BlockSet| {
        let bytes = set.memory_bytes();
        let bits = bytes as f64 * 8.0 / blocks as f64;
        println!("{what:32} {:13} blocks wanted {bytes:13} bytes {bits:9.6} bits a block", set.len());
    };
    row("whole", &set);
    for block in (0..blocks).step_by(LEAF as usize) {
        set.remove(block);
    }
    row("one block gone from every leaf", &set);
    set.remove_range(0, blocks);
    row("empty again", &set);
}
