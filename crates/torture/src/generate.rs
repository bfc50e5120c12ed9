//! Draws random histories. Each history leaves out a random part of the kinds of steps, so that the others are more frequent
//! ("swarm testing": Groce and others, ISSTA 2012).

mod daemon;
mod house;

use crate::dice::{Dice, mix};
use crate::misuse::KINDS;
use crate::outer::{Conduct, Knowledge, Manner, Outer, Tells};
use crate::scenario::Scenario;
use crate::setup::{DriveSpec, Host, Mimicry, Setup};
use crate::step::{AtHand, Fate, Step};
use scheduler::policy::{AgeWeight, Base, PolicyName, SeekWeight, SmtfRule, SweepWeight, Unknown};
use scheduler::{IdleTime, Sharing};
use units::{Duration, Op};

/// The built-in drives whose first cylinders are drives of histories.
const BUILT_IN: [&str; 4] = ["mimic-less-capacity", "quantum-atlas-10k", "seagate-cheetah-4lp", "mimic-base"];

/// The weights of the kinds of steps; [`Generator::push`] gives the order of the kinds.
const WEIGHTS: [u64; 22] = [3, 1, 9, 3, 3, 2, 2, 3, 1, 20, 20, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1];

/// Returns the history of a seed.
pub fn generate(seed: u64) -> Scenario {
    generate_on(seed, None)
}

/// Returns the history of a seed on a given host, or on the host that the seed draws. If both are the same host, the history
/// is the same.
pub fn generate_on(seed: u64, host: Option<Host>) -> Scenario {
    let mut dice = Dice::new(seed);
    let drawn = match dice.below(7) {
        0 => Host::Volume,
        1 => Host::Outside,
        2 if cfg!(target_os = "linux") => Host::Daemon,
        _ => Host::Core,
    };
    match host.unwrap_or(drawn) {
        Host::Volume | Host::VolumeOutside => house::generate(dice, host),
        Host::Outside => outside(dice),
        Host::Daemon => daemon::generate(dice),
        Host::Core => {
            let setup = each_write(setup(&mut dice));
            draw(dice, setup)
        }
    }
}

/// Sets in a third of the histories that no background write completes another. This draw has a generator of its own, so
/// that it does not change the rest of a history. Not for volumes, whose clients assume that one background write may
/// complete another.
fn each_write(setup: Setup) -> Setup {
    let writes_serve_writes = !Dice::new(mix(setup.seed ^ 0x7772_6974_6573)).one_in(3);
    Setup { writes_serve_writes, ..setup }
}

/// Returns a history of a core outside the drive.
fn outside(mut dice: Dice) -> Scenario {
    let outside = outer(&mut dice);
    let setup = each_write(setup(&mut dice));
    let setup = Setup { host: Host::Outside, outside, ..seen_from_outside(&mut dice, setup) };
    adopted(given_up(draw(dice, setup)))
}

/// Adds steps to a third of the histories: the host's own reads, and other models of the drive for the core. Like
/// [`each_write`], this draws from a generator of its own.
fn adopted(scenario: Scenario) -> Scenario {
    let Scenario { setup, mut steps } = scenario;
    let mut dice = Dice::new(mix(setup.seed ^ 0x6164_6f70_7465));
    let times = if dice.one_in(3) { dice.range(1, 6) } else { 0 };
    for _ in 0..times {
        let at = dice.below(steps.len() as u64) as usize;
        let step = match dice.below(5) {
            0 => Step::Adopt { knowledge: Knowledge::Size },
            1 => Step::Adopt { knowledge: Knowledge::Wrong },
            2 => Step::Adopt { knowledge: Knowledge::Exact },
            kind => Step::Readings { on: kind == 3 || dice.one_in(2) },
        };
        steps.insert(at, step);
    }
    Scenario { setup, steps }
}

/// Adds steps to half of the histories: the host gives up on the next command. Like [`each_write`], this draws from a
/// generator of its own.
fn given_up(scenario: Scenario) -> Scenario {
    let Scenario { setup, mut steps } = scenario;
    let mut dice = Dice::new(mix(setup.seed ^ 0x6769_7665_7570));
    let times = if dice.one_in(2) { dice.range(1, 8) } else { 0 };
    for _ in 0..times {
        let at = dice.below(steps.len() as u64) as usize;
        steps.insert(at, Step::GiveUp { fate: fate(&mut dice) });
    }
    Scenario { setup, steps }
}

fn fate(dice: &mut Dice) -> Fate {
    match dice.below(3) {
        0 => Fate::Nothing,
        1 => Fate::All,
        _ => Fate::Sectors(dice.range(1, 40) as u32),
    }
}

/// Returns a random drive and configuration for a core outside the drive.
fn outer(dice: &mut Dice) -> Outer {
    let conduct = [Conduct::Exact, Conduct::Noisy, Conduct::Noisy, Conduct::Rough][dice.below(4) as usize];
    Outer {
        conduct,
        knowledge: match dice.below(6) {
            0 => Knowledge::Size,
            1 => Knowledge::Wrong,
            _ => Knowledge::Exact,
        },
        manner: [Manner::Paper, Manner::Serving, Manner::Beyond, Manner::Spends][dice.below(4) as usize],
        at_drive: if dice.one_in(3) { dice.range(1, 5) as u8 } else { 2 },
        tells: [Tells::All, Tells::First, Tells::Nothing][dice.below(3) as usize],
    }
}

/// Changes a set-up to values that make sense for a core outside the drive.
fn seen_from_outside(dice: &mut Dice, setup: Setup) -> Setup {
    // An early start, because a drive with a drifting speed is simulated from instant zero.
    let start_ns = setup.start_ns.min(1 << 43) & ((1 << 43) - 1);
    let idle = setup.idle.or((!dice.one_in(4)).then(IdleTime::default));
    // Outside the drive, a budget of 0 tracks would find no detour at all.
    let budget = setup.budget.max(1);
    Setup { start_ns, idle, budget, ..setup }
}

fn draw(mut dice: Dice, setup: Setup) -> Scenario {
    // LBNs are drawn below this number. A step takes them modulo the drive's capacity.
    let capacity = setup.drive.build().map_or(1, |d| d.layout().capacity().get());
    let mut weights = WEIGHTS;
    for (kind, weight) in weights.iter_mut().enumerate() {
        // Steps that open a session, register a task, submit a request or advance the time are never left out.
        if ![0, 2, 9, 10].contains(&kind) && dice.one_in(2) {
            *weight = 0;
        }
    }
    let mut generator = Generator {
        spots: (0..3).map(|_| dice.below(capacity)).collect(),
        busy: dice.range(0, 3),
        writes: dice.range(0, 4),
        block: dice.range(0, 3),
        sessions: 0,
        tasks: 0,
        capacity,
        dice,
    };
    let mut steps = vec![generator.open()];
    // The steps of `lost_in_parts` come first, because at a later point other work would come between them.
    if setup.host == Host::Outside && generator.dice.one_in(4) {
        generator.lost_in_parts(&mut steps);
    }
    steps.push(generator.task());
    for _ in 0..generator.dice.range(10, 250) {
        let kind = generator.dice.weighted(&weights);
        generator.push(kind, &mut steps);
    }
    steps.push(Step::Settle { hog: generator.dice.one_in(4) });
    Scenario { setup, steps }
}

fn setup(dice: &mut Dice) -> Setup {
    let drive = if dice.one_in(6) {
        let name = BUILT_IN[dice.below(BUILT_IN.len() as u64) as usize].to_owned();
        DriveSpec::Cut { name, cylinders: dice.range(1, 3) as u32 }
    } else {
        DriveSpec::Random(dice.next())
    };
    let policy = match dice.below(7) {
        0 | 1 => PolicyName::Fcfs,
        2 => match dice.below(5) {
            0 => PolicyName::Look,
            1 => PolicyName::Scan,
            2 => PolicyName::VScan(SweepWeight::from_millionths(dice.range(0, 1_000_000) as u32)),
            3 => PolicyName::Asptf(AgeWeight::from_millionths(dice.range(0, 20_000) as u32)),
            _ => PolicyName::CLook,
        },
        3 => PolicyName::Sstf,
        4 => PolicyName::Sptf,
        5 => PolicyName::SptfSw(SeekWeight::percent(dice.range(0, 200) as u16)),
        _ => {
            let unknown = if dice.one_in(2) { Unknown::Set } else { Unknown::Priority };
            let base = if dice.one_in(2) { Base::Sstf } else { Base::CLook };
            PolicyName::Smtf(SmtfRule::new(unknown, base))
        }
    };
    // A learner may be present under any policy, because it learns from every foreground request.
    let mimic = match (matches!(policy, PolicyName::Smtf(_)), dice.below(8)) {
        (true, 0) | (false, 2..) => Mimicry::None,
        (_, 1) => Mimicry::Probing,
        _ => Mimicry::Learner,
    };
    let idle = dice.one_in(2).then(|| {
        IdleTime::default()
            .with_threshold(Duration::from_millis(if dice.one_in(3) { dice.range(1, 50) } else { 20 }))
            .with_short(!dice.one_in(4))
            .with_harm_ppm(if dice.one_in(3) { dice.range(0, 1_000_000) as u32 } else { 10_000 })
    });
    Setup {
        drive,
        host: Host::Core,
        policy,
        age: if dice.one_in(3) { dice.range(0, 20_000) as u32 } else { 0 },
        budget: [0, dice.range(1, 30), 75, 75][dice.below(4) as usize] as u32,
        sharing: if dice.one_in(3) { Sharing::Greedy } else { Sharing::Lottery },
        idle,
        most_pending: if dice.one_in(4) { dice.range(1, 8) as usize } else { 1 << 10 },
        most_partials: if dice.one_in(3) { dice.range(1, 8) as usize } else { 1 << 10 },
        writes_serve_reads: !dice.one_in(3),
        writes_serve_writes: true,
        log: false,
        // The start is within the first ten years, 3.2e17 ns.
        start_ns: if dice.one_in(2) { 0 } else { dice.below(320_000_000_000_000_000) },
        mimic,
        outside: Outer::default(),
        seed: dice.next(),
    }
}

/// Returns a priority, often a very low or a very high one: a low priority among high ones is the hardest case for fairness.
fn priority(dice: &mut Dice) -> u8 {
    let priority = match dice.below(6) {
        0 => 20,
        1 => 100,
        2 => dice.range(1, 4),
        _ => dice.range(1, 100),
    };
    priority as u8
}

struct Generator {
    dice: Dice,
    capacity: u64,
    /// The LBNs near which most steps are, so that ranges overlap.
    spots: Vec<u64>,
    busy: u64,
    writes: u64,
    block: u64,
    sessions: u32,
    tasks: u32,
}

impl Generator {
    fn push(&mut self, kind: usize, steps: &mut Vec<Step>) {
        let step = match kind {
            0 => self.open(),
            1 => Step::Close { session: self.session() },
            2 => self.task(),
            3 => Step::Abort { task: self.old_task() },
            4 => {
                let (start, len) = self.place(60);
                Step::AbortRange { session: self.session(), start, len }
            }
            5 => {
                let (start, len) = self.place(60);
                Step::Promote { session: self.session(), start, len }
            }
            6 => Step::Suspend { session: self.session() },
            7 => Step::Resume { session: self.session() },
            8 => Step::Serve { session: self.session(), on: self.dice.one_in(2) },
            9 => {
                // Sometimes a burst of requests.
                let n = if self.dice.one_in(8) { self.dice.range(2, 20) } else { 1 };
                for _ in 1..n {
                    let step = self.submit();
                    steps.push(step);
                }
                self.submit()
            }
            10 => Step::Advance { ns: self.time() },
            11 => Step::Polls { most: (!self.dice.one_in(2)).then(|| self.dice.range(1, 4) as u32) },
            12 => Step::Buffers {
                at_hand: match self.dice.below(4) {
                    0 => AtHand::None,
                    1 => AtHand::Half(self.dice.below(1_000)),
                    _ => AtHand::All,
                },
            },
            13 => Step::Bad { lbn: self.place(1).0, stuck: self.dice.one_in(3) },
            14 => Step::Mend { lbn: self.place(1).0 },
            15 => Step::Late { ns: self.time() },
            16 => Step::Lose { fate: fate(&mut self.dice) },
            17 => {
                let block = [1, 2, 3, 8, 13, 40][self.dice.below(6) as usize];
                Step::Scrub { priority: priority(&mut self.dice), block }
            }
            18 => Step::Save,
            19 => Step::Rot { lbn: self.place(1).0 },
            20 => Step::Mine {
                priority: priority(&mut self.dice),
                start: self.place(1).0,
                pages: self.dice.range(1, 40),
                scans: self.dice.range(1, 3),
                permille: if self.dice.one_in(2) { 1_000 } else { self.dice.range(1, 1_000) as u16 },
            },
            _ => match self.dice.below(3) {
                0 => Step::PowerCut,
                _ => Step::Misuse { kind: self.dice.below(u64::from(KINDS)) as u32 },
            },
        };
        steps.push(step);
    }

    /// Adds a background block whose middle a foreground request overwrites, so that idle work writes the rest by two commands.
    /// The completion of the first command is so late that a foreground request overwrites the sectors of the second before
    /// all commands at the drive are lost. No other steps make a part of a block depend on a lost part. The host has no data
    /// for the block until its middle is written; otherwise the core would write the whole block with the foreground request.
    fn lost_in_parts(&mut self, steps: &mut Vec<Step>) {
        let [first, hole, second] = [0; 3].map(|_| self.dice.range(1, 4));
        let len = first + hole + second;
        let start = self.place(1).0.min(self.capacity.saturating_sub(len));
        let (session, silence) = (self.session(), self.silence());
        self.tasks += 1;
        let put = |start, len| Step::Submit { op: Op::Write, start, len };
        steps.extend([
            Step::Buffers { at_hand: AtHand::None },
            Step::Task { op: Op::Write, session, task: self.tasks, start, len, block: len },
            put(start + first, hole),
            Step::Advance { ns: 15_000_000 },
            Step::Buffers { at_hand: AtHand::All },
            Step::Late { ns: silence + 60_000_000_000 },
            Step::Advance { ns: silence },
            put(start + first + hole, second),
            Step::Advance { ns: 40_000_000 },
            Step::Lose { fate: fate(&mut self.dice) },
            self.submit(),
            Step::Advance { ns: 40_000_000 },
        ]);
    }

    /// Returns a time, in ns without foreground requests, in which a core that uses idle time often begins and ends one
    /// piece of idle work.
    fn silence(&mut self) -> u64 {
        let ms = [60, 200, 2_000, 12_000][self.dice.below(4) as usize];
        self.dice.range(ms / 2, ms) * 1_000_000
    }

    fn open(&mut self) -> Step {
        self.sessions += 1;
        Step::Open { session: self.sessions, priority: priority(&mut self.dice) }
    }

    fn session(&mut self) -> u32 {
        // One of the four latest sessions.
        let back = self.dice.below(4.min(u64::from(self.sessions)));
        self.sessions - back as u32
    }

    fn old_task(&mut self) -> u32 {
        let back = self.dice.below(6.min(u64::from(self.tasks)));
        self.tasks - back as u32
    }

    fn task(&mut self) -> Step {
        self.tasks += 1;
        let most = [8, 40, 200, self.capacity][self.dice.weighted(&[3, 4, 3, 1])];
        let (start, len) = self.place(most);
        let block = match self.block {
            0 => 1 << self.dice.below(4),
            1 => self.dice.range(1, 7),
            2 => {
                let most = if self.dice.one_in(6) { 400 } else { 60 };
                self.dice.range(1, most)
            }
            _ => [1, 2, 3, 8, 13, 40][self.dice.below(6) as usize],
        };
        let op = if self.dice.below(4) < self.writes { Op::Write } else { Op::Read };
        Step::Task { op, session: self.session(), task: self.tasks, start, len, block }
    }

    fn submit(&mut self) -> Step {
        let most = [8, 60, 300, self.capacity][self.dice.weighted(&[60, 12, 2, 1])];
        let (start, len) = self.place(most);
        let op = if self.dice.one_in(2) { Op::Write } else { Op::Read };
        Step::Submit { op, start, len }
    }

    /// Returns an LBN, and a length of up to `most` sectors.
    fn place(&mut self, most: u64) -> (u64, u64) {
        let len = self.dice.range(1, most.max(1));
        let start = if self.dice.one_in(3) {
            self.dice.below(self.capacity)
        } else {
            let spot = self.spots[self.dice.below(3) as usize];
            (spot + self.dice.below(40)).saturating_sub(20) % self.capacity
        };
        (start, len)
    }

    fn time(&mut self) -> u64 {
        let most_us = match self.dice.below(8 + self.busy) {
            0 => 200_000,
            1 => 25_000,
            2 if self.dice.one_in(4) => 12_000_000,
            3 => 100,
            _ => 8_000,
        };
        self.dice.below(most_us * 1_000)
    }
}
