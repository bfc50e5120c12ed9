//! Reads that follow each other, over a drive that reads on to the end of the track behind them.

use crate::grid::{ARRIVALS, Cell, Kind, wrong};
use crate::surprises::Surprise;

/// Every load of these kinds, in gaps alone or with idle time.
fn cells(surprise: Surprise, kinds: &[Kind], idle: bool) -> impl Iterator<Item = Cell> {
    let each =
        move |kind| (0..ARRIVALS.len()).map(move |arrival| Cell { surprise, arrival, kind, idle, policy: 0 });
    kinds.iter().copied().flat_map(each)
}

#[test]
fn a_drive_as_told_is_trusted_by_who_reads_on_and_leaves_blocks_for_others() {
    // What came from the buffer and who waited until the drive had read on counted against the profile: with four of these fifteen
    // loads it was never trusted, and with others now and then.
    for idle in [false, true] {
        for cell in cells(Surprise::None, &[Kind::Half, Kind::Runs, Kind::Sequence], idle) {
            let harmed = wrong(&cell, 8_000);
            assert!(harmed.is_none(), "{harmed:?}");
            let seen = cell.run(8_000, 42);
            assert!(seen.trusted > 0.9 && seen.right > 0.85, "{cell:?}: {seen:?}");
            if cell.kind != Kind::Sequence {
                assert!(seen.detours > 150, "{cell:?}: {seen:?}");
            } else if idle && cell.arrival > 2 {
                // Who does nothing but read on leaves no gaps, and if somebody waits at all times no idle time. It reads four blocks each
                // time itself.
                assert!(seen.blocks > 4 * 8_000 + 1_000, "{cell:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn another_drive_is_not_trusted_since_answers_come_from_its_buffer() {
    use Surprise::*;
    let told = Other { told: "seagate-cheetah-18lp", there: "quantum-atlas-10k" };
    for surprise in [told, Rpm(894), Rpm(1_119), Sectors(-4), TrackSkew(60), Flash] {
        for cell in cells(surprise, &[Kind::Half, Kind::Runs], false) {
            let seen = cell.run(3_000, 42);
            assert!(seen.trusted < 0.1, "{cell:?}: {seen:?}");
        }
    }
}

#[test]
fn arms_that_are_not_as_told_do_not_hurt_who_reads_on() {
    for arms in [-400, -100, 100, 400] {
        for cell in cells(Surprise::Arms(arms), &[Kind::Half, Kind::Runs], false) {
            let harmed = wrong(&cell, 8_000);
            assert!(harmed.is_none(), "{harmed:?}");
        }
    }
}
