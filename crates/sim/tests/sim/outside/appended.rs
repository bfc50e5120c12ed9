//! A log on a drive that caches writes; the drive may receive the next append while it writes the last.

use super::responses::{Pair, Pairs};
use drive::{Behaviour, Queue, QueueOrder};
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Caution, Config, IdleTime, OutsideConfig};
use std::sync::Arc;
use units::{Instant, Lbn, LbnRange, Op, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Request, Share, Source};

/// A load of random reads, and as many appends of 4 KB or 8 KB to a log.
struct AppendingLoad {
    drawn: Random,
    begin: Lbn,
    at: Lbn,
}

/// The size of the log, after which it begins anew.
const LOG: Sectors = Sectors::new(1 << 19);

impl Source for AppendingLoad {
    fn next_request(&mut self) -> Option<Request> {
        let drawn = self.drawn.next_request()?;
        if !drawn.op.is_write() {
            return Some(drawn);
        }
        // The random LBN decides the size.
        let pages = 1 + drawn.range.start().get() / 8 % 2;
        let range = LbnRange::new(self.at, Sectors::new(pages * 8));
        self.at = if range.end() < self.begin + LOG { range.end() } else { self.begin };
        Some(Request { op: Op::Write, range })
    }
}

/// A drive behind its interface, and the profile that the core gets.
#[derive(Clone, Copy, Debug)]
struct AppendedCase {
    there: &'static str,
    reported: &'static str,
    /// Whether the drive, without a queue of its own, receives a write that continues the one in progress.
    combines: bool,
    behaviour: Behaviour,
}

const ATLAS: AppendedCase = AppendedCase {
    there: "quantum-atlas-10k",
    reported: "quantum-atlas-10k",
    combines: true,
    behaviour: noisy(),
};

const fn noisy() -> Behaviour {
    Behaviour { write_back: Some(true), ..Behaviour::fast02() }
}

/// Returns a behaviour without noise, with the bus of the default noise.
fn exact(queue: Queue) -> Behaviour {
    let Behaviour { bus_sector, write_back, .. } = noisy();
    Behaviour { bus_sector, write_back, queue, ..Behaviour::default() }
}

const TAGGED: Queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 64 };

/// The policy, idle time or none, and the arrivals.
type PolicyLoad = (PolicyName, Option<IdleTime>, Arrival);

/// Runs `requests` with a scan and without.
fn pair(case: &AppendedCase, (policy, idle, arrival): PolicyLoad, requests: u64, seed: u64) -> Pair {
    let mut there = builtin::find(case.there).unwrap();
    there.firmware.as_mut().unwrap().cache.combine_sequential_writes = case.combines;
    let known = Arc::new(DriveModel::from_profile(&builtin::find(case.reported).unwrap()).unwrap());
    let run = |background, idle| {
        let (drive, overheads) = black_box(&there, case.behaviour, seed).unwrap();
        // The smaller of the two capacities, so that every request is valid for drive and profile.
        let capacity = known.layout().capacity().min(drive.model().layout().capacity());
        let reads = Share::new(1, 2).unwrap();
        let drawn = RandomConfig { reads, ..RandomConfig::new(capacity, known.sector_bytes()) };
        let begin = Lbn::new(capacity.get() / 24 * 8);
        let load = AppendingLoad { drawn: Random::new(drawn, seed).unwrap(), begin, at: begin };
        let load = Issuer::new(load, arrival, Instant::ZERO, seed).unwrap();
        let outside = OutsideConfig::beyond(overheads);
        let config = Config::outside(outside).with_idle(idle).with_seed(seed).with_policy(policy);
        let mut run = Outside::new(drive, Arc::clone(&known), config, load, background).unwrap();
        run.advance(requests, &mut Nothing).unwrap();
        run
    };
    let scan = run(Background::Scan { block: Sectors::new(8) }, idle);
    let lasted = |caution| scan.trust().lasted(caution).as_secs_f64();
    let doubted = lasted(Caution::Mistrust) + lasted(Caution::Unsynchronised);
    Pair {
        trusted: 1.0 - doubted / scan.now().saturating_since(Instant::ZERO).as_secs_f64(),
        ..Pair::of(&run(Background::None, None), &scan)
    }
}

const POLICIES: [PolicyName; 2] = [PolicyName::Fcfs, PolicyName::Sptf];

#[test]
fn appends_to_a_log_leave_a_drive_that_caches_writes_trusted() {
    // A write that continues the one in progress follows it without a revolution only on drives that write both together.
    let serial = exact(Queue::Serial);
    let cases = [
        ATLAS,
        AppendedCase { behaviour: exact(TAGGED), ..ATLAS },
        AppendedCase { there: "seagate-cheetah-18lp", reported: "seagate-cheetah-18lp", ..ATLAS },
        AppendedCase { there: "nearline-4tb", reported: "nearline-4tb", ..ATLAS },
        // Drives without a queue: one that writes two appends together, and two that do not.
        AppendedCase { behaviour: serial, ..ATLAS },
        AppendedCase { behaviour: serial, combines: false, ..ATLAS },
        AppendedCase { behaviour: Behaviour { queue: Queue::Serial, ..noisy() }, combines: false, ..ATLAS },
    ];
    for case in testing::some(1, cases) {
        for policy in POLICIES {
            for tasks in [1, 4] {
                let how = (policy, None, Arrival::outstanding(tasks));
                let seen = pair(&case, how, 8_000, 42);
                assert!(seen.trusted > 0.9 && seen.detours > 800, "{case:?}, {policy:?}, {tasks}: {seen:?}");
            }
        }
    }
}

#[test]
fn the_harm_to_appends_to_a_log_is_bounded() {
    let cases = POLICIES.into_iter().flat_map(|policy| [(policy, None), (policy, Some(IdleTime::default()))]);
    for (policy, idle) in testing::some(1, cases) {
        let how = (policy, idle, Arrival::Poisson { rate: 60.0 });
        let seeds = 42..testing::sized(45, 46);
        let pairs = Pairs::of(seeds, |seed| pair(&ATLAS, how, 40_000, seed));
        pairs.assert_bounded(&format!("{policy:?}, {idle:?}"));
        assert!(pairs.trusted() > 0.95 && pairs.detours() > 5_000.0, "{policy:?}, {idle:?}: {pairs}");
    }
}

#[test]
fn another_drive_is_not_trusted_because_of_appends_to_a_log() {
    // Whatever the completions of writes show, the times of reads show that the profile is of another drive.
    for reported in ["seagate-cheetah-18lp", "ibm-ultrastar-9es", "mimic-base"] {
        for queue in [TAGGED, Queue::Serial] {
            let case = AppendedCase { reported, behaviour: Behaviour { queue, ..noisy() }, ..ATLAS };
            for arrival in [Arrival::outstanding(1), Arrival::outstanding(4), Arrival::Poisson { rate: 40.0 }]
            {
                let seen = pair(&case, (PolicyName::Fcfs, None, arrival), 3_000, 42);
                assert!(seen.trusted < 0.1, "{case:?}, {arrival:?}: {seen:?}");
            }
        }
    }
}
