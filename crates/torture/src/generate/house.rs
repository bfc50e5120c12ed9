//! Random histories of a volume and its applications.

use super::setup;
use crate::dice::Dice;
use crate::scenario::{DriveSpec, Host, Scenario, Setup};
use crate::step::Step;
use units::Op;

/// The kinds of steps, by weight.
const WEIGHTS: [u64; 15] = [14, 10, 12, 3, 2, 3, 1, 3, 2, 1, 1, 1, 1, 1, 2];

pub(super) fn generate(mut dice: Dice) -> Scenario {
    let drive = DriveSpec::Random(dice.next());
    let setup = Setup { drive, host: Host::Volume, ..setup(&mut dice) };
    let capacity = setup.drive.build().map_or(1, |d| d.layout().capacity().get());
    let mut weights = WEIGHTS;
    for (kind, weight) in weights.iter_mut().enumerate() {
        // Requests and time are always there.
        if kind > 2 && dice.one_in(3) {
            *weight = 0;
        }
    }
    let spots: Vec<u64> = (0..4).map(|_| dice.below(capacity)).collect();
    let busy = dice.range(0, 3);
    let mut steps = Vec::new();
    for _ in 0..dice.range(10, 150) {
        let kind = dice.weighted(&weights);
        let place = |dice: &mut Dice, most: u64| {
            let spot = spots[dice.below(4) as usize] + dice.below(60);
            let start = if dice.one_in(3) { dice.below(capacity) } else { spot % capacity };
            (start, dice.range(1, most))
        };
        steps.push(match kind {
            0 | 1 => {
                let most = if dice.one_in(8) { 80 } else { 12 };
                let (start, len) = place(&mut dice, most);
                Step::Submit { op: if kind == 0 { Op::Write } else { Op::Read }, start, len }
            }
            2 => Step::Advance { ns: time(&mut dice, busy) },
            3 => Step::Flush,
            4 => {
                let (start, len) = place(&mut dice, 30);
                Step::Trim { start, len }
            }
            5 => Step::Snapshot,
            6 => Step::Forget,
            7 => Step::Backup { priority: dice.range(5, 100) as u8, difference: dice.one_in(2) },
            8 => Step::Room { bytes: (!dice.one_in(3)).then(|| dice.below(40_000)) },
            9 => Step::Reorganize { priority: dice.range(5, 100) as u8 },
            10 => Step::Nvram { operations: dice.below(30) as u32 },
            11 => Step::Bad { lbn: place(&mut dice, 1).0, stuck: dice.one_in(3) },
            12 => Step::Mend { lbn: place(&mut dice, 1).0 },
            13 if dice.one_in(2) => Step::Suspend { session: dice.below(2) as u32 },
            13 => Step::Resume { session: dice.below(2) as u32 },
            _ => Step::PowerCut,
        });
    }
    steps.push(Step::Settle { hog: false });
    Scenario { setup, steps }
}

fn time(dice: &mut Dice, busy: u64) -> u64 {
    let most_us = match dice.below(6 + busy) {
        0 => 1_000_000,
        1 => 100_000,
        2 if dice.one_in(4) => 12_000_000,
        3 => 100,
        _ => 15_000,
    };
    dice.below(most_us * 1_000)
}
