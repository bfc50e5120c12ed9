//! Draws random histories of a volume and its applications.

use super::{outer, priority, seen_from_outside, setup};
use crate::dice::{Dice, mix};
use crate::outer::{Outer, Tells};
use crate::scenario::Scenario;
use crate::setup::{DriveSpec, Host, Setup};
use crate::step::{Step, Wait};
use units::Op;

/// The weights of the kinds of steps; [`generate`] gives the order of the kinds.
const WEIGHTS: [u64; 19] = [14, 10, 12, 3, 2, 4, 2, 5, 1, 1, 1, 1, 1, 1, 2, 2, 5, 8, 2];

/// Draws a history of a volume. Whether the core is outside the drive is drawn, unless `host` decides it.
pub(super) fn generate(mut dice: Dice, host: Option<Host>) -> Scenario {
    let drive = DriveSpec::Random(dice.next());
    let setup = Setup { drive, host: Host::Volume, ..setup(&mut dice) };
    let drawn = dice.one_in(3);
    let is_outside = host.map_or(drawn, |host| host == Host::VolumeOutside);
    let setup = if is_outside { outside(&mut dice, setup) } else { setup };
    // The log-structured disk is drawn from a generator of its own, so that this draw does not change the rest of a
    // history.
    let log = Dice::new(mix(setup.seed ^ 0x6c6f67)).one_in(3);
    let setup = Setup { log, ..setup };
    let capacity = setup.drive.build().map_or(1, |d| d.layout().capacity().get());
    let mut weights = WEIGHTS;
    for (kind, weight) in weights.iter_mut().enumerate() {
        // Steps for requests and time are never left out.
        if kind > 2 && dice.one_in(3) {
            *weight = 0;
        }
    }
    let spots: Vec<u64> = (0..4).map(|_| dice.below(capacity)).collect();
    // If there is a log-structured disk, half of the requests go to it, because its log is cleaned only after many writes.
    let plain = capacity / 4 * 3;
    let asked = |start: u64| match setup.log && start.is_multiple_of(2) {
        true => plain + start % (capacity - plain).max(1),
        false => start,
    };
    let busy = dice.range(0, 3);
    let (mut steps, mut tasks) = (Vec::new(), 0);
    for _ in 0..dice.range(10, 150) {
        let kind = dice.weighted(&weights);
        let place = |dice: &mut Dice, most: u64| {
            let spot = spots[dice.below(4) as usize] + dice.below(60);
            let start = if dice.one_in(3) { dice.below(capacity) } else { spot % capacity };
            (start, dice.range(1, most))
        };
        steps.push(match kind {
            0 | 1 => {
                let most = [3, 12, 80][dice.weighted(&[4, 3, 1])];
                let (start, len) = place(&mut dice, most);
                Step::Submit { op: if kind == 0 { Op::Write } else { Op::Read }, start: asked(start), len }
            }
            2 => Step::Advance { ns: time(&mut dice, busy) },
            3 => Step::Flush,
            4 => {
                let (start, len) = place(&mut dice, 30);
                Step::Trim { start: asked(start), len }
            }
            5 => Step::Snapshot,
            6 => Step::Forget,
            7 => Step::Backup { priority: priority(&mut dice), difference: dice.one_in(2) },
            8 => Step::Room { bytes: dice.one_in(2).then(|| dice.below(40_000)) },
            9 => Step::Reorganize { priority: priority(&mut dice) },
            10 => Step::Nvram { operations: dice.below(30) as u32 },
            11 => Step::Bad { lbn: place(&mut dice, 1).0, stuck: dice.one_in(3) },
            12 => Step::Mend { lbn: place(&mut dice, 1).0 },
            13 if dice.one_in(2) => Step::Suspend { session: dice.below(3) as u32 },
            13 => Step::Resume { session: dice.below(3) as u32 },
            14 => Step::PowerCut,
            15 => Step::Records {
                priority: priority(&mut dice),
                records: if dice.one_in(12) { 0 } else { dice.range(1, 40) as u32 },
                bytes: if dice.one_in(2) { 1 << 20 } else { dice.range(1, 20_000) },
            },
            16 => {
                tasks += 1;
                let (start, len) = place(&mut dice, 200);
                let op = if dice.one_in(3) { Op::Write } else { Op::Read };
                Step::Task { op, session: 2, task: tasks, start, len, block: dice.range(1, 12) }
            }
            17 => Step::Fetch {
                wait: match dice.below(4) {
                    0 => Wait::Forever,
                    1 => Wait::Poll,
                    _ => Wait::For(dice.below(50_000_000)),
                },
                most: dice.range(1, 30) as u32,
            },
            _ => {
                let (start, len) = place(&mut dice, 60);
                let task = tasks.saturating_sub(dice.below(4) as u32);
                match dice.below(3) {
                    0 => Step::Abort { task },
                    1 => Step::AbortRange { session: 2, start, len },
                    _ => Step::Promote { session: 2, start, len },
                }
            }
        });
    }
    steps.push(Step::Settle { hog: false });
    Scenario { setup, steps }
}

/// Changes the set-up to a core outside the drive. A volume always reports each bad sector.
fn outside(dice: &mut Dice, setup: Setup) -> Setup {
    let outside = Outer { tells: Tells::All, ..outer(dice) };
    Setup { host: Host::VolumeOutside, outside, ..seen_from_outside(dice, setup) }
}

fn time(dice: &mut Dice, busy: u64) -> u64 {
    let most_us = match dice.below(6 + busy) {
        0 => 1_000_000,
        1 => 100_000,
        2 if dice.one_in(2) => 12_000_000,
        3 => 100,
        _ => 15_000,
    };
    dice.below(most_us * 1_000)
}
