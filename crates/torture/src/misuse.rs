//! Bad calls, each of which must be refused with a certain error. After every step one of two hosts gets a bad call, and must
//! stay equal to the other one. After a bad call that is a step of the history, all fields of the core are compared.

use crate::clients::{Clients, range};
use crate::failure::{Broken, Check, hold};
use crate::polled::PolledCore;
use scheduler::{
    AnyCore, BLOCK_SECTORS_MAX, Parameter, Priority, Request, SESSIONS_MAX, SessionError, Sessions,
    SubmitError,
};
use std::fmt;
use units::{Instant, LbnRange, Op, RequestId, Sectors, SessionId, TaskId};

/// The number of kinds of bad calls.
pub(crate) const KINDS: u32 = 20;

/// The number of kinds that are possible at any time, because they leave no visible change: all but the last.
pub(crate) const ANY_TIME_KINDS: u32 = 19;

/// Makes a bad call, and checks that the error is right and no field of the core has changed.
pub(crate) fn misuse(
    core: &mut impl PolledCore,
    clients: &Clients,
    now: Instant,
    kind: u32,
) -> Result<(), Broken> {
    if kind % KINDS >= ANY_TIME_KINDS {
        return too_many_sessions(core, clients);
    }
    let before = format!("{core:?}");
    refuse(core, clients, now, kind)?;
    let after = format!("{core:?}");
    hold(before == after, Check::Refusal, || format!("misuse {kind} was refused and has changed the core"))
}

/// Makes a bad call that is possible at any time, and checks the error.
pub(crate) fn refuse(
    core: &mut impl PolledCore,
    clients: &Clients,
    now: Instant,
    kind: u32,
) -> Result<(), Broken> {
    let size = core.drive().layout().capacity();
    match bad_range(size, kind) {
        Some(range) => {
            let id = RequestId::new(u64::MAX);
            let op = if range.is_empty() { Op::Write } else { Op::Read };
            let wanted = match range.is_empty() {
                true => SubmitError::Empty { id, range },
                false => SubmitError::PastEnd { id, range, capacity: size },
            };
            answered(kind, core.submit(now, Request { id, op, range }), wanted)
        }
        None => refuse_session(core, clients, size, kind),
    }
}

/// Returns the range of a bad foreground request of this kind; `None` for kinds that are calls of sessions.
pub(crate) fn bad_range(capacity: Sectors, kind: u32) -> Option<LbnRange> {
    match kind % KINDS {
        7 => Some(range(0, 0)),
        8 => Some(range(capacity.get(), 1)),
        9 => Some(range(u64::MAX - 3, 8)),
        _ => None,
    }
}

/// Checks that the answer is the error `wanted`.
pub(crate) fn answered<T: fmt::Debug, E: fmt::Debug + PartialEq>(
    kind: u32,
    said: Result<T, E>,
    wanted: E,
) -> Result<(), Broken> {
    hold(said.as_ref().is_err_and(|error| *error == wanted), Check::Refusal, || {
        format!("misuse {kind} is answered {said:?}, not {wanted:?}")
    })
}

/// Makes a bad call of a session, and checks the error.
pub(crate) fn refuse_session(
    core: &mut dyn Sessions,
    clients: &Clients,
    size: Sectors,
    kind: u32,
) -> Result<(), Broken> {
    let capacity = size.get();
    let never = SessionId::new(u64::MAX);
    let closed = clients.closed.last().copied().unwrap_or(never);
    let open = clients.sessions.keys().next().copied();
    let ended = clients.ended.last().copied().unwrap_or(TaskId::new(u64::MAX));
    let (one, eight, none) = (Sectors::new(1), Sectors::new(8), Parameter::default());
    let some = range(capacity / 2, 1);
    let missing = |id| SessionError::NoSession(id);
    // If no session is open, the call is refused for that reason instead.
    let of = open.unwrap_or(never);
    let or_missing = |error: SessionError| if open.is_some() { error } else { missing(of) };
    let show = |said: Result<u64, SessionError>, wanted: SessionError| answered(kind, said, wanted);
    let task = |said: Result<TaskId, SessionError>| said.map(TaskId::get);
    let unit = |said: Result<(), SessionError>| said.map(|()| 0);
    let past_end = |range| SessionError::PastEnd { range, capacity: size };
    match kind % KINDS {
        0 => show(task(core.read(never, some, one, none)), missing(never)),
        1 => show(task(core.write(closed, some, one, none)), missing(closed)),
        2 => {
            let empty = range(capacity / 2, 0);
            show(task(core.read(of, empty, one, none)), or_missing(SessionError::EmptyRange(empty.start())))
        }
        3 => {
            let past = range(capacity - 1, 2);
            show(task(core.write(of, past, one, none)), or_missing(past_end(past)))
        }
        4 => {
            let blocks = Sectors::new(0);
            show(task(core.read(of, some, blocks, none)), or_missing(SessionError::BlockSize(blocks)))
        }
        5 => {
            let blocks = Sectors::new(BLOCK_SECTORS_MAX + 1);
            show(task(core.write(of, some, blocks, none)), or_missing(SessionError::BlockSize(blocks)))
        }
        6 => show(core.abort(ended), SessionError::NoTask(ended)),
        10 => show(core.close(closed), missing(closed)),
        11 => show(core.promote(closed, some), missing(closed)),
        12 => show(core.abort_range(never, some), missing(never)),
        13 => show(unit(core.suspend(closed)), missing(closed)),
        14 => show(unit(core.resume(never)), missing(never)),
        15 => show(unit(core.serve_reads_by_writes(closed, false)), missing(closed)),
        16 => {
            let over = range(u64::MAX - 3, 8);
            show(task(core.read(of, over, eight, none)), or_missing(past_end(over)))
        }
        17 => {
            let empty = range(capacity / 3, 0);
            show(core.abort_range(of, empty), or_missing(SessionError::EmptyRange(empty.start())))
        }
        _ => {
            let past = range(capacity, u64::MAX - capacity);
            show(core.promote(of, past), or_missing(past_end(past)))
        }
    }
}

/// Opens sessions until the core refuses one, and closes them again.
fn too_many_sessions(core: &mut dyn AnyCore, clients: &Clients) -> Result<(), Broken> {
    let mut opened = Vec::new();
    let refused = loop {
        match core.open(Priority::default()) {
            Ok(id) => opened.push(id),
            Err(error) => break error,
        }
        let all = opened.len() + clients.sessions.len();
        hold(all <= SESSIONS_MAX, Check::Bound, || format!("{all} sessions are open"))?;
    };
    let wanted = SessionError::TooManySessions { most: SESSIONS_MAX };
    hold(refused == wanted, Check::Refusal, || format!("one session too many is answered {refused:?}"))?;
    for id in opened {
        let left = core.close(id);
        hold(left == Ok(0), Check::Count, || format!("closing an empty session is answered {left:?}"))?;
    }
    Ok(())
}
