//! Several sessions at once, with tasks that are opened, aborted and closed between any two polls.

use freeblock_scheduler::{
    Config, HeadWork, IdleTime, InDrive, Output, Parameter, Priority, Request, SessionError, Sessions, Whose,
};
use model::DriveModel;
use model::random_profile::{Size, random_profile};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId};

#[derive(Clone, Debug)]
enum SessionStep {
    Open,
    Read {
        session: usize,
        start: u64,
        len: u64,
        block: u64,
    },
    Abort(usize),
    Close(usize),
    Request(u64),
    /// Polls a number of times, completing each `Execute`.
    Poll(u32),
}

fn steps() -> impl Strategy<Value = Vec<SessionStep>> {
    let step = prop_oneof![
        1 => Just(SessionStep::Open),
        3 => (0..4usize, any::<u64>(), 1..300u64, 1..12u64)
            .prop_map(|(session, start, len, block)| SessionStep::Read { session, start, len, block }),
        2 => (0..12usize).prop_map(SessionStep::Abort),
        1 => (0..4usize).prop_map(SessionStep::Close),
        8 => any::<u64>().prop_map(SessionStep::Request),
        8 => (1..12u32).prop_map(SessionStep::Poll),
    ];
    prop::collection::vec(step, 1..150)
}

/// The sessions and tasks as the core's client knows them.
#[derive(Default)]
struct Client {
    sessions: Vec<SessionId>,
    open: BTreeSet<SessionId>,
    tasks: Vec<TaskId>,
    /// The session, the number of blocks and the delivered blocks of each active task.
    active: BTreeMap<TaskId, (SessionId, u64, BTreeSet<LbnRange>)>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(120, 300)))]

    #[test]
    fn blocks_come_once_or_are_counted_as_lost(seed in any::<u64>(), steps in steps()) {
        let Ok(drive) = DriveModel::from_profile(&random_profile(seed, Size::Tiny)) else { return Ok(()) };
        let capacity = drive.layout().capacity().get();
        let mut core = InDrive::new(Arc::new(drive), Config::default());
        let mut client = Client::default();
        let (mut now, mut requests) = (Instant::ZERO, 0);
        for step in steps {
            match step {
                SessionStep::Open => {
                    let id = core.open(Priority::default()).unwrap();
                    client.sessions.push(id);
                    client.open.insert(id);
                }
                SessionStep::Read { session, start, len, block } => {
                    let Some(&id) = client.sessions.get(session) else { continue };
                    let start = start % capacity;
                    let len = len.min(capacity - start);
                    let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
                    match core.read(id, range, Sectors::new(block), Parameter::default()) {
                        Ok(task) => {
                            prop_assert!(client.open.contains(&id));
                            client.tasks.push(task);
                            client.active.insert(task, (id, len.div_ceil(block), BTreeSet::new()));
                        }
                        Err(error) => {
                            prop_assert_eq!(error, SessionError::NoSession(id));
                            prop_assert!(!client.open.contains(&id));
                        }
                    }
                }
                SessionStep::Abort(task) => {
                    let Some(&id) = client.tasks.get(task) else { continue };
                    match (core.abort(id), client.active.remove(&id)) {
                        (Ok(lost), Some((_, blocks, came))) => prop_assert_eq!(lost + came.len() as u64, blocks),
                        (Err(error), known) => {
                            prop_assert_eq!(error, SessionError::NoTask(id));
                            // Either the task was ended before, or the client has all of its blocks.
                            prop_assert!(known.is_none_or(|(_, blocks, came)| came.len() as u64 == blocks));
                        }
                        (Ok(_), None) => prop_assert!(false, "aborted what had ended"),
                    }
                }
                SessionStep::Close(session) => {
                    let Some(&id) = client.sessions.get(session) else { continue };
                    let closed = core.close(id);
                    prop_assert_eq!(closed.is_ok(), client.open.remove(&id));
                    let mut lost = 0;
                    client.active.retain(|_, (owner, blocks, came)| {
                        let keep = *owner != id;
                        lost += if keep { 0 } else { *blocks - came.len() as u64 };
                        keep
                    });
                    prop_assert_eq!(closed.unwrap_or(0), lost);
                }
                SessionStep::Request(at) => {
                    requests += 1;
                    let range = LbnRange::new(Lbn::new(at % capacity), Sectors::new(1));
                    core.submit(now, Request { id: RequestId::new(requests), op: Op::Read, range }).unwrap();
                }
                SessionStep::Poll(times) => {
                    for _ in 0..times {
                        match core.poll(now) {
                            Some(Output::Do(HeadWork::Execute)) => {
                                now = core.busy_until().unwrap();
                                core.completed(now);
                            }
                            Some(Output::Deliver(record)) => {
                                let Some((session, blocks, came)) = client.active.get_mut(&record.task) else {
                                    return Err(TestCaseError::fail("delivered after its end"));
                                };
                                prop_assert_eq!(*session, record.session);
                                prop_assert!(came.insert(record.range), "delivered twice");
                                prop_assert!(came.len() as u64 <= *blocks);
                                if record.last {
                                    let mut of_session =
                                        client.active.values().filter(|(owner, ..)| *owner == record.session);
                                    let all = of_session.all(|(_, blocks, came)| came.len() as u64 == *blocks);
                                    prop_assert!(all, "a last record before the last");
                                }
                            }
                            Some(_) => {}
                            None => break,
                        }
                    }
                }
            }
        }
    }
}

/// A block is promoted while the head of a core in the drive is on its way to it in idle time, and then that work is lost.
#[test]
fn a_block_that_is_promoted_while_the_head_is_on_its_way_stays_promoted_when_that_is_lost() {
    let drive = DriveModel::from_profile(&random_profile(7, Size::Tiny)).unwrap();
    let config = Config::default().with_idle(Some(IdleTime::default()));
    let mut core = InDrive::new(Arc::new(drive), config);
    let session = core.open(Priority::default()).unwrap();
    let block = LbnRange::new(Lbn::new(16), Sectors::new(1));
    core.read(session, block, Sectors::new(1), Parameter::default()).unwrap();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    assert_eq!(core.poll(at(100)), Some(Output::Do(HeadWork::Execute)));
    assert_eq!(core.whose(), Some(Whose::Idle));
    assert_eq!(core.promote(session, block), Ok(0), "all of it is under way");
    core.lost(at(110));
    assert_eq!(core.poll(at(110)), Some(Output::Do(HeadWork::Execute)));
    assert_eq!(core.whose(), Some(Whose::Promoted(session)));
}
