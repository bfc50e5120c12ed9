//! The twin: a second core that gets the same foreground requests as the core under test, but no background work.
//!
//! If the core under test does not use idle time, both must do the same foreground work at the same instants: in lockstep.
//! If it does, the twin runs on a clock of its own, and only requests that arrive while both are idle are compared.

use crate::exec::Exec;
use crate::failure::{Broken, Check, hold};
use crate::setup::Setup;
use model::DriveModel;
use scheduler::{
    Access, Config, HeadEnd, HeadWork, InDrive, Input, Output, Purpose, Refused, Request, Sessions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, RequestId, SessionId};

/// The work for a request that arrived at an idle core: the work done before it, and the end of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alone {
    pub before: Before,
    pub until: Instant,
}

/// The work done before a request. It determines the position of the head, and for SCAN the direction of the next move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    request: Option<RequestId>,
    at: Lbn,
    downward: bool,
}

impl Before {
    /// Returns the work done before the next request, when a request or promoted work (`None`) at LBN `at` is done.
    pub fn then(self, request: Option<RequestId>, at: Lbn) -> Self {
        let downward = if at == self.at { self.downward } else { at < self.at };
        Self { request, at, downward }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Twin {
    core: InDrive,
    lockstep: bool,
    /// Whether the twin can still be compared with the core under test.
    pub on: bool,
    /// In lockstep: whether the core under test does promoted work, which the twin does not have.
    away: bool,
    /// On its own clock: the end of the twin's current work.
    due: Option<Instant>,
    last: Before,
    /// On its own clock: whether the twin's head has moved since its last request. A twin that was copied from a core with
    /// idle time uses idle time for measurements; after such a move the next request is not compared.
    moved: bool,
    /// The twin's unfinished requests, in order of arrival.
    waiting: Vec<Request>,
    alone: BTreeMap<RequestId, Alone>,
    /// In lockstep: foreground outputs of the core under test that the twin must make as well.
    expected: Vec<Output<HeadWork>>,
}

impl Twin {
    pub fn new(setup: &Setup, drive: &Arc<DriveModel>, config: Config) -> Self {
        let lockstep = config.idle.is_none();
        Self {
            core: setup.in_drive(Arc::clone(drive), config.with_idle(None)),
            lockstep,
            on: true,
            away: false,
            due: None,
            last: Before::default(),
            moved: false,
            waiting: Vec::new(),
            alone: BTreeMap::new(),
            expected: Vec::new(),
        }
    }

    pub fn is_lockstep(&self) -> bool {
        self.lockstep && self.on
    }

    /// Records that the core under test does promoted work. The comparison pauses until that is done.
    pub fn leaves(&mut self) {
        self.away = self.lockstep;
    }

    /// Returns whether the comparison pauses for promoted work.
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// Restarts the twin as a copy of the core under test without its sessions, so that both choose among the same requests
    /// with the head at the same position. `before` is the work that was done last.
    pub fn begin_again(
        &mut self,
        core: &InDrive,
        sessions: impl Iterator<Item = SessionId>,
        now: Instant,
        before: Before,
    ) {
        self.core = core.clone();
        for session in sessions {
            // Closing cannot fail, because the session is open.
            let _ = self.core.close(session);
        }
        (self.on, self.away, self.due, self.last, self.moved) = (true, false, None, before, false);
        self.waiting.clear();
        self.alone.clear();
        self.expected.clear();
        if !self.lockstep {
            self.go_on(now, false);
        }
    }

    /// Takes an input of the core under test, which answered `reported`.
    pub fn input(&mut self, input: Input<HeadEnd<'_>>, reported: Result<u64, Refused>) -> Result<(), Broken> {
        match input {
            // The twin has no background work, so it gets no calls of sessions.
            Input::Call(_) => {}
            _ if self.away => {}
            _ if self.is_lockstep() => {
                let here = self.core.input(input);
                hold(here == reported, Check::Twin, || {
                    format!("{input:?} is answered {reported:?}, and without background {here:?}")
                })?;
            }
            Input::Submit { at, request } if self.on => {
                // On its own clock the twin may have other waiting requests, and may refuse this request.
                self.on = reported.is_ok() && self.core.submit(at, request).is_ok();
                if self.on {
                    self.waiting.push(request);
                    self.go_on(at, true);
                }
            }
            Input::Ended { end: HeadEnd::Lost, .. } => self.on = false,
            Input::Submit { .. } | Input::Ended { .. } => {}
        }
        Ok(())
    }

    /// Records a foreground output of the core under test.
    pub fn expect(&mut self, output: Output<HeadWork>) {
        if self.is_lockstep() && !self.away {
            self.expected.push(output);
        }
    }

    /// In lockstep: compares the twin with the core under test, which has no more outputs at `now` and does the work `exec`.
    pub fn in_step(&mut self, now: Instant, exec: Option<&Exec>) -> Result<(), Broken> {
        if !self.is_lockstep() || self.away {
            return Ok(());
        }
        let (mut began, mut said) = (false, Vec::new());
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Do(HeadWork::Execute) => {
                    began = true;
                    break;
                }
                other => said.push(other),
            }
        }
        let expected = std::mem::take(&mut self.expected);
        hold(said == expected, Check::Twin, || {
            format!("the foreground is answered {expected:?}, and without background {said:?}")
        })?;
        let due = self.core.busy_until();
        let other = exec.map(|e| e.foreground_accesses());
        if began {
            let own = self.core.accesses().to_vec();
            hold(other.as_ref() == Some(&own), Check::Twin, || {
                format!("the foreground has {other:?}, and without background {own:?}")
            })?;
        }
        let other_due = exec.map(|e| (e.due, e.delayed));
        hold(due.is_some() == exec.is_some(), Check::Twin, || {
            format!("the head is busy until {other_due:?}, and without background until {due:?}")
        })?;
        let same = exec.is_none_or(|e| e.delayed || due == Some(e.due));
        hold(same, Check::Twin, || {
            format!("the foreground is done at {other_due:?}, and without background at {due:?}")
        })
    }

    /// On its own clock: runs the twin until `now`.
    pub fn advance(&mut self, now: Instant) {
        while !self.lockstep && self.on && self.due.is_some_and(|due| due <= now) {
            if let Some(due) = self.due.take() {
                self.core.completed(due);
                self.go_on(due, false);
            }
        }
    }

    fn go_on(&mut self, now: Instant, arrival: bool) {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Do(HeadWork::Execute) => {
                    self.due = self.core.busy_until();
                    match (self.waiting.as_slice(), self.due) {
                        ([], _) => self.moved = true,
                        ([only], Some(until)) if arrival && !self.moved => {
                            self.alone.insert(only.id, Alone { before: self.last, until });
                        }
                        _ => {}
                    }
                }
                Output::Completed(id) => {
                    self.moved = false;
                    // A request that was served when the twin was restarted is not in the list.
                    let at = self.waiting.iter().position(|waiting| waiting.id == id);
                    self.last = match at.map(|at| self.waiting.remove(at)) {
                        Some(request) => self.last.then(Some(id), request.range.start()),
                        None => Before { request: Some(id), ..self.last },
                    };
                }
                _ => {}
            }
        }
    }

    /// Removes and returns the twin's work for a request that arrived when the twin was idle.
    pub fn alone(&mut self, id: RequestId) -> Option<Alone> {
        if self.lockstep || !self.on {
            return None;
        }
        self.alone.remove(&id)
    }
}

/// Returns the largest delay of a request by idle work in progress: two moves of the arm (that of the idle work and the
/// request's own) and three revolutions.
pub(crate) fn most_harm(drive: &DriveModel) -> Duration {
    let cylinders = drive.layout().cylinders();
    let farthest = (0..cylinders).map(|c| drive.seek(c)).max().unwrap_or(Duration::ZERO);
    let revolution = drive.rpm().revolution();
    let move_most = farthest + drive.head_switch() + Duration::from_millis(2);
    move_most + move_most + revolution + revolution + revolution
}

/// Returns whether any access is for the background.
pub(crate) fn has_background(accesses: &[Access]) -> bool {
    accesses.iter().any(|a| a.purpose != Purpose::Foreground)
}
