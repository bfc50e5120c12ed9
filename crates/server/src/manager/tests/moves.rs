//! Reorganisations, which move blocks as a plan says: on a busy drive, over crashes, and with bad sectors.

use super::memory::below;
use super::rig::{Rig, SECTOR, range};
use crate::manager::ManagerError;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use sim::Cure;
use units::Lbn;
use workload::random::Stream;

const PLAN: &str = "/plans/plan";
const BLOCK: u64 = 8;

fn reorganize() -> TaskSpec {
    TaskSpec { plan: Some(PLAN.into()), ..TaskSpec::new(TaskKind::Reorganize) }
}

/// The moves of a plan as pairs (from, to), and the plan's text.
struct PlannedMoves {
    moves: Vec<(u64, u64)>,
    text: String,
}

/// Draws a plan that permutes `count` random blocks of the disk. Five of the destinations are free blocks.
fn draw(capacity: u64, count: u64, chance: &mut Stream) -> PlannedMoves {
    let mut places: Vec<u64> = (0..capacity / BLOCK).collect();
    for i in (1..places.len()).rev() {
        places.swap(i, below(chance, i as u64 + 1) as usize);
    }
    let (used, rest) = places.split_at(count as usize);
    let mut to = used.to_vec();
    for i in (1..to.len()).rev() {
        to.swap(i, below(chance, i as u64 + 1) as usize);
    }
    let free: Vec<u64> = rest.iter().copied().take(5).collect();
    to[..5].copy_from_slice(&free);
    let moves = used.iter().zip(&to).filter(|(f, t)| f != t).map(|(f, t)| (f * BLOCK, t * BLOCK)).collect();
    text_of(moves, &free)
}

fn text_of(moves: Vec<(u64, u64)>, free: &[u64]) -> PlannedMoves {
    let mut text = format!("freeblock plan 1\nblock {BLOCK}\n");
    free.iter().for_each(|f| text += &format!("free {} {BLOCK}\n", f * BLOCK));
    moves.iter().for_each(|(f, t)| text += &format!("move {f} {t} {BLOCK}\n"));
    PlannedMoves { moves, text }
}

fn bytes(of: &[u8], lbn: u64) -> &[u8] {
    &of[lbn as usize * SECTOR..][..BLOCK as usize * SECTOR]
}

/// Checks that each block is where the plan says, and that all other blocks are as clients left them.
fn assert_moved(rig: &Rig, moves: &PlannedMoves) {
    let medium = rig.medium();
    for (from, to) in &moves.moves {
        assert!(bytes(&medium, *to) == bytes(&rig.now, *from), "{from} is not at {to}");
    }
    let touched = |at: u64| moves.moves.iter().any(|(f, t)| *f == at || *t == at);
    for at in (0..(rig.now.len() / SECTOR) as u64 / BLOCK).map(|b| b * BLOCK).filter(|at| !touched(*at)) {
        assert!(bytes(&medium, at) == bytes(&rig.now, at), "{at} is in no move, and has changed");
    }
}

/// Makes a step, with writes of clients until the task is over: later writes could change the blocks that were moved.
fn step_busy(rig: &mut Rig, id: u64, chance: &mut Stream) {
    let capacity = (rig.now.len() / SECTOR) as u64;
    if rig.outstanding() < 4 && !rig.task(id).state.is_over() {
        rig.write(range(below(chance, capacity - 8), 1 + below(chance, 8)));
    }
    rig.step();
}

fn busy(rig: &mut Rig, id: u64, chance: &mut Stream) -> TaskState {
    for _ in 0..100_000 {
        let state = rig.task(id).state;
        if state.is_over() {
            return state;
        }
        step_busy(rig, id, chance);
    }
    panic!("no end: {:?}", rig.task(id));
}

#[test]
fn blocks_are_where_the_plan_says_and_clients_wrote_elsewhere_meanwhile() {
    for seed in 0..3 {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(seed, "moves"));
        let moves = draw((rig.now.len() / SECTOR) as u64, 120, &mut chance);
        rig.files.put(PLAN, moves.text.as_bytes());
        // A write in flight when the plan's blocks are closed to clients is done before the first move.
        rig.write(range(moves.moves[0].0, BLOCK));
        let id = rig.start(reorganize());
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "{:?}", rig.task(id));
        rig.settle();
        assert!(rig.refused > 0, "no request met a fence");
        assert_moved(&rig, &moves);
        let task = rig.task(id);
        assert_eq!((task.done, task.blocks), (moves.moves.len() as u64, moves.moves.len() as u64));
        assert_eq!((rig.files.get("/state/task-1.moves"), rig.files.get("/state/task-1.plan")), (None, None));
    }
}

/// The kill comes at any step, with or without a power cut, also while the state of the moves cannot be written.
#[test]
fn crashes_at_random_moments_lose_no_block() {
    for seed in 0..12 {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(seed, "crashes of moves"));
        rig.pace = 1 + below(&mut chance, 4) as usize;
        let moves = draw((rig.now.len() / SECTOR) as u64, 150, &mut chance);
        rig.files.put(PLAN, moves.text.as_bytes());
        let id = rig.start(reorganize());
        let mut claimed = 0;
        for _ in 0..6 {
            for _ in 0..below(&mut chance, 300) {
                step_busy(&mut rig, id, &mut chance);
                let done = rig.task(id).done;
                assert!(done >= claimed, "{done} after {claimed}: what was claimed was not durable");
                claimed = done;
            }
            if below(&mut chance, 3) == 0 {
                rig.files.limit("/state", Some(below(&mut chance, 60_000)));
                (0..50).for_each(|_| step_busy(&mut rig, id, &mut chance));
                rig.files.limit("/state", None);
            }
            let power = below(&mut chance, 2) == 0;
            // The task now has its own copy of the plan.
            rig = rig.crash(power.then_some(&mut chance));
            rig.pace = 3;
        }
        assert_eq!(busy(&mut rig, id, &mut chance), TaskState::Done, "{:?}", rig.task(id));
        rig.settle();
        assert_moved(&rig, &moves);
    }
}

#[test]
fn a_reorganisation_pauses_and_goes_on_and_is_given_up_only_before_anything_has_moved() {
    let (mut rig, mut chance) = (Rig::new(), Stream::new(5, "moves"));
    let moves = draw((rig.now.len() / SECTOR) as u64, 200, &mut chance);
    rig.files.put(PLAN, moves.text.as_bytes());
    let id = rig.start(reorganize());
    let given_up = rig.call(|manager, s| manager.cancel(s, id));
    assert!(given_up.is_ok());
    let before = rig.medium();
    let id = rig.start(reorganize());
    while rig.task(id).done < 20 {
        rig.step();
    }
    let refused = rig.call(|manager, s| manager.cancel(s, id)).unwrap_err();
    assert!(matches!(&refused, ManagerError::Busy(why) if why.contains("pause the task")), "{refused}");
    rig.call(|manager, s| manager.pause(s, id)).unwrap();
    (0..200).for_each(|_| _ = rig.step());
    let (paused, medium) = (rig.task(id), rig.medium());
    assert!(paused.state == TaskState::Paused && medium != before);
    (0..200).for_each(|_| _ = rig.step());
    assert!((rig.task(id).done, rig.medium()) == (paused.done, medium), "it went on");
    // After a restart the task is still paused, and its blocks are still closed to clients.
    rig = rig.crash(None);
    (0..50).for_each(|_| _ = rig.step());
    assert_eq!(rig.task(id).state, TaskState::Paused);
    rig.write(range(moves.moves[3].0, 1));
    assert_eq!(rig.refused, 1);
    rig.call(|manager, s| manager.resume(s, id)).unwrap();
    assert_eq!(rig.run(id), TaskState::Done);
    assert_moved(&rig, &moves);
}

#[test]
fn a_plan_that_cannot_be_is_refused_and_nothing_is_touched() {
    for (text, said) in [
        ("nonsense", "line 1: a plan begins with"),
        ("freeblock plan 1\nmove 0 8 8\n", "LBN 8 is a destination, holds live data"),
    ] {
        let mut rig = Rig::new();
        rig.files.put(PLAN, text.as_bytes());
        let id = rig.start(reorganize());
        assert_eq!(rig.run(id), TaskState::Failed);
        let why = rig.task(id).reason.unwrap();
        assert!(why.contains(PLAN) && why.contains(said), "{why}");
        assert!(rig.medium() == rig.now);
    }
    let mut rig = Rig::new();
    let id = rig.start(reorganize());
    assert_eq!(rig.run(id), TaskState::Failed, "no plan is there");
}

/// After bad sectors the map says where each block is, and only the bad block is lost.
#[test]
fn bad_sectors_give_another_permutation_and_a_map_of_it() {
    let mut chance = Stream::new(2, "moves");
    let mut rig = Rig::new();
    let moves = draw((rig.now.len() / SECTOR) as u64, 100, &mut chance);
    rig.files.put(PLAN, moves.text.as_bytes());
    let bad = moves.moves[40].0;
    rig.volume.platters_mut().spoil(Lbn::new(bad), Cure::None);
    let id = rig.start(reorganize());
    assert_eq!(rig.run(id), TaskState::Failed);
    let task = rig.task(id);
    assert_eq!(task.bad_lbns, [bad]);
    assert!(task.reason.as_deref().unwrap().contains("task-1.map"), "{:?}", task.reason);
    let map = String::from_utf8(rig.files.get("/state/task-1.map").unwrap()).unwrap();
    let medium = rig.medium();
    let mut seen = 0;
    for line in map.lines().filter(|line| !line.starts_with('#')) {
        let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        let [from, sectors, at] = numbers[..] else { panic!("{line}") };
        assert_eq!(sectors, BLOCK);
        assert!(from == bad || bytes(&medium, at) == bytes(&rig.now, from), "{line}");
        seen += 1;
    }
    assert_eq!(seen, moves.moves.len());
}

#[test]
fn no_backup_restore_or_second_reorganisation_starts_beside_a_reorganisation() {
    let (mut rig, mut chance) = (Rig::new(), Stream::new(5, "moves"));
    let moves = draw((rig.now.len() / SECTOR) as u64, 200, &mut chance);
    rig.files.put(PLAN, moves.text.as_bytes());
    let id = rig.start(reorganize());
    let backup = TaskSpec { to: Some("/backups/x".into()), ..TaskSpec::new(TaskKind::Backup) };
    let restore = TaskSpec { from: vec!["/backups/x".into()], ..TaskSpec::new(TaskKind::Restore) };
    for spec in [backup, restore, reorganize()] {
        let refused = rig.call(|manager, _| manager.start(spec.clone())).unwrap_err();
        assert!(refused.to_string().contains("reorganize 1 is"), "{refused}");
    }
    // A scrub may run beside a reorganisation.
    let scrub = rig.start(TaskSpec::new(TaskKind::Scrub));
    assert_eq!(rig.run(id), TaskState::Done);
    assert_eq!(rig.run(scrub), TaskState::Done);
    assert_moved(&rig, &moves);
}

/// The file with the state of the moves hangs in the middle: no block is overwritten until its old content is durable
/// in that file.
#[test]
fn no_place_is_overwritten_before_its_content_is_saved() {
    for steps in (40..400).step_by(20) {
        let (mut rig, mut chance) = (Rig::new(), Stream::new(steps, "a file that hangs"));
        let moves = draw((rig.now.len() / SECTOR) as u64, 150, &mut chance);
        rig.files.put(PLAN, moves.text.as_bytes());
        let id = rig.start(reorganize());
        (0..steps).for_each(|_| _ = rig.step());
        rig.pace = 0;
        (0..400).for_each(|_| _ = rig.step());
        rig = rig.crash(None);
        assert_eq!(rig.run(id), TaskState::Done, "{:?}", rig.task(id));
        assert_moved(&rig, &moves);
    }
}
