//! Draws random histories of a daemon.

use super::{fate, outer, seen_from_outside, setup};
use crate::dice::Dice;
use crate::outer::Knowledge;
use crate::scenario::Scenario;
use crate::setup::{DriveSpec, Host, Setup};
use crate::step::Step;
use scheduler::IdleTime;
use units::Op;

/// The weights of the kinds of steps; [`generate`] gives the order of the kinds.
const WEIGHTS: [u64; 22] = [14, 8, 16, 12, 8, 3, 3, 2, 3, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2, 1];

/// Draws a history of a daemon.
pub(super) fn generate(mut dice: Dice) -> Scenario {
    let outside = outer(&mut dice);
    let drive = DriveSpec::Random(dice.next());
    let setup = Setup { drive, host: Host::Daemon, outside, ..setup(&mut dice) };
    let setup = seen_from_outside(&mut dice, setup);
    // Idle time is always used, because background reads would otherwise wait for foreground requests.
    let setup = Setup { idle: setup.idle.or_else(|| Some(IdleTime::default())), ..setup };
    let capacity = setup.drive.build().map_or(1, |d| d.layout().capacity().get());
    let mut weights = WEIGHTS;
    for (kind, weight) in weights.iter_mut().enumerate() {
        // Steps for requests, time, snapshots and reads of snapshots are never left out.
        if kind > 3 && kind != 7 && dice.one_in(2) {
            *weight = 0;
        }
    }
    let spots: Vec<u64> = (0..3).map(|_| dice.below(capacity)).collect();
    let (busy, mut readers) = (dice.range(0, 3), [0, dice.below(capacity)]);
    let mut steps = Vec::new();
    for _ in 0..dice.range(20, 200) {
        let place = |dice: &mut Dice, most: u64| {
            let spot = spots[dice.below(3) as usize] + dice.below(50);
            let start = if dice.one_in(4) { dice.below(capacity) } else { spot % capacity };
            (start, dice.range(1, most))
        };
        let most = [8, 40, 120][dice.weighted(&[4, 3, 1])];
        let (start, len) = place(&mut dice, most);
        let client = dice.below(4) as u32;
        let step = match dice.weighted(&weights) {
            0 => Step::Submit { op: Op::Write, start, len },
            1 => Step::Submit { op: Op::Read, start, len },
            2 => Step::Advance { ns: time(&mut dice, busy) },
            3 => Step::Ask { op: Op::Read, client, snapshot: dice.range(1, 4) as u32, start, len },
            4 => Step::Ask { op: Op::Read, client, snapshot: 0, start, len },
            // A sequential reader, for which the daemon reads ahead.
            5 => {
                let (snapshot, reader) = (dice.below(3) as u32, &mut readers[dice.below(2) as usize]);
                for _ in 0..dice.range(1, 6) {
                    steps.push(Step::Ask { op: Op::Read, client, snapshot, start: *reader, len });
                    *reader = (*reader + len) % capacity;
                }
                Step::Advance { ns: time(&mut dice, busy) }
            }
            6 => Step::Ask { op: Op::Write, client, snapshot: 0, start, len },
            7 => Step::Snapshot,
            8 => Step::Trim { start, len },
            9 => Step::Flush,
            10 => Step::Keep { ns: dice.below(20_000) * 1_000_000 },
            11 => Step::Forget,
            12 => Step::Close { session: client },
            13 => Step::Polls { most: (!dice.one_in(2)).then(|| dice.range(1, 4) as u32) },
            14 => Step::Room { bytes: dice.one_in(2).then(|| dice.below(100_000)) },
            15 => Step::Bad { lbn: start, stuck: dice.one_in(3) },
            16 if dice.one_in(2) => Step::Suspend { session: dice.below(4) as u32 },
            16 => Step::Resume { session: dice.below(4) as u32 },
            17 => match dice.below(3) {
                0 => Step::Lose { fate: fate(&mut dice) },
                1 => Step::GiveUp { fate: fate(&mut dice) },
                _ => Step::Late { ns: dice.below(40_000) * 1_000_000 },
            },
            18 => Step::Adopt {
                knowledge: [Knowledge::Size, Knowledge::Wrong, Knowledge::Exact][dice.below(3) as usize],
            },
            19 => Step::PowerCut,
            20 => Step::Kill { operations: dice.below(12) as u32 },
            _ => Step::Declare { client, start, len: dice.range(1, 300) },
        };
        steps.push(step);
    }
    steps.push(Step::Settle { hog: false });
    Scenario { setup, steps }
}

fn time(dice: &mut Dice, busy: u64) -> u64 {
    let most_us = match dice.below(6 + busy) {
        0 => 1_000_000,
        1 => 100_000,
        2 if dice.one_in(3) => 12_000_000,
        3 => 100,
        _ => 20_000,
    };
    dice.below(most_us * 1_000)
}
