//! Sessions of client programs: a connection of the control socket is upgraded to one (docs/CONTROL.md).

use super::admission::Slot;
use super::disks::{Disks, ask, find};
use super::limited_log::LimitedLog;
use super::reply::Refusal;
use crate::handle::Handle;
use crate::manager::{ASKED_BYTES_MAX, ManagerError};
use axum::Extension;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::wire::{Call, Decoder, Event, Frame, PROTOCOL, VERSION, WireError};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::warn;

/// The most bytes of events fetched from the task manager at once; more are fetched after the client has read these.
const FETCH_BYTES: usize = 256 << 10;
/// The most calls of a client that wait for the disk. While there are as many, no further call is read.
const WAITING_CALLS_MAX: usize = 64;
/// The most bytes of buffers in the waiting calls. All blocks that a session may have outstanding fit, so that a
/// client can send them while it reads no events.
const CALL_BYTES_MAX: u32 = ASKED_BYTES_MAX as u32;
/// The most time for a client to read the answer to its close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which a client that reads nothing is logged as slow.
const SLOW_CLIENT_TIME: Duration = Duration::from_secs(30);
/// The time for which a client's calls are read after a write to it has failed, to learn the reason.
const READ_ON_TIMEOUT: Duration = Duration::from_secs(1);

type Io = TokioIo<hyper::upgrade::Upgraded>;

/// Answers `POST /v1/disks/NAME/sessions?priority=N` with `Upgrade: freeblock-session`.
pub(crate) async fn open(
    State(disks): State<Disks>,
    Extension(log): Extension<LimitedLog>,
    Extension(slot): Extension<Arc<Slot>>,
    Path(name): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Result<Response, Refusal> {
    let disk = find(&disks, &name)?;
    let bad = |field: &str, message: &str| Refusal {
        code: StatusCode::BAD_REQUEST,
        field: Some(field.into()),
        message: format!("{field}: {message}"),
    };
    let wants = request.headers().get(header::UPGRADE);
    if wants.is_none_or(|wants| wants != PROTOCOL) {
        return Err(bad("Upgrade", "a session is a connection of its own; give Upgrade: freeblock-session"));
    }
    if let Some(strange) = query.keys().find(|key| *key != "priority") {
        return Err(bad(strange, "a session has no such parameter; leave the parameter out"));
    }
    let priority = query.get("priority").map_or("20", String::as_str);
    let priority: u8 = priority.parse().map_err(|_| bad("priority", "give 1 to 100"))?;
    if !slot.begin_session() {
        return Err(Refusal {
            code: StatusCode::SERVICE_UNAVAILABLE,
            field: None,
            message: "too many sessions of this user; close some and try again".into(),
        });
    }
    // From here on the session is closed whenever this value is dropped.
    let open = OpenSession::begin(disk, priority, log, slot).await?;
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let slot = Arc::clone(&open.slot);
                tokio::select! {
                    () = open.serve(TokioIo::new(upgraded)) => {}
                    () = slot.hung_up() => {}
                }
            }
            Err(error) => open.write(|disk, session| {
                warn!(disk, session, %error, "a session was not begun: its client went away");
            }),
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    Ok(response)
}

/// A client session that is open at a task manager.
struct OpenSession {
    disk: Handle,
    id: u64,
    wake: Arc<Notify>,
    log: LimitedLog,
    /// Held until the session ends, not only until its request is answered.
    slot: Arc<Slot>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.disk.close_client_session(self.id);
    }
}

/// How the reading of a client's calls ends.
enum Ended {
    /// The connection is closed or broken.
    Gone { why: String },
    /// The client sent bytes that are no call.
    Broken(WireError),
    /// The session no longer takes calls.
    Unserved,
}

impl OpenSession {
    /// Opens a session at the task manager. The value that closes the session is made on the disk's thread, so that
    /// the session is also closed if the client is gone before it has received the session's number.
    async fn begin(disk: Handle, priority: u8, log: LimitedLog, slot: Arc<Slot>) -> Result<Self, Refusal> {
        let wake = Arc::new(Notify::new());
        let (waker, opened_at) = (Arc::clone(&wake), disk.clone());
        let notify = Box::new(move || waker.notify_one());
        let session = ask(&disk, move |manager, sessions| {
            let id = manager.open_client_session(sessions, priority, notify)?;
            Ok::<_, ManagerError>(Self { disk: opened_at, id, wake, log, slot })
        });
        Ok(session.await??)
    }

    /// Writes a log line about the session, or counts it as suppressed.
    fn write(&self, line: impl FnOnce(&str, u64)) {
        self.log.write(|| line(&self.disk.facts().name, self.id));
    }

    /// Writes to the log how the session ended.
    fn log_end(&self, ended: Ended) {
        match ended {
            Ended::Gone { why } => self.write(|disk, session| {
                warn!(disk, session, why, "a session's client went away and did not close it");
            }),
            Ended::Broken(error) => self.write(|disk, session| {
                warn!(disk, session, %error, "a session is ended: its client does not keep to the protocol");
            }),
            Ended::Unserved => {}
        }
    }

    async fn serve(self, io: Io) {
        let facts = self.disk.facts();
        let hello = Event::Hello {
            version: VERSION,
            sectors: facts.capacity.get(),
            sector_bytes: u32::try_from(facts.sector_bytes.get()).unwrap_or(u32::MAX),
        };
        let (reading, mut writing) = split(io);
        let (sender, calls) = mpsc::channel(WAITING_CALLS_MAX);
        let room = Arc::new(Semaphore::new(CALL_BYTES_MAX as usize));
        let input = tokio::spawn(read_calls(reading, sender, room));
        let closed = match send(&mut writing, &[hello]).await {
            Ok(()) => self.talk(&mut writing, calls).await,
            Err(_) => false,
        };
        if closed {
            return input.abort();
        }
        // After a failed write the client's calls are no longer answered, but some may still be in flight. They are
        // read only to learn how the connection ended.
        match tokio::time::timeout(READ_ON_TIMEOUT, input).await {
            Ok(Ok(ended)) => self.log_end(ended),
            _ => self
                .write(|disk, session| warn!(disk, session, "a session's client takes no answers any more")),
        }
    }

    /// Answers calls and sends events, alternately, as fast as the client reads them. Returns whether the session
    /// ended in order.
    async fn talk(&self, writing: &mut WriteHalf<Io>, mut calls: mpsc::Receiver<WaitingCall>) -> bool {
        let id = self.id;
        loop {
            let call = tokio::select! {
                call = calls.recv() => match call {
                    Some(waiting) => Some(waiting.call),
                    None => return false,
                },
                () = self.wake.notified() => None,
            };
            let closes = matches!(call, Some(Call::Close { .. }));
            let fetched = ask(&self.disk, move |manager, sessions| {
                let answer = call.and_then(|call| manager.client_call(sessions, id, call));
                let events =
                    if closes { Vec::new() } else { manager.client_fetch(sessions, id, FETCH_BYTES) };
                (answer, events)
            });
            // The task manager's disk has ended.
            let Ok((answer, events)) = fetched.await else { return true };
            // The fetch may have left further events, so fetch again.
            if !events.is_empty() {
                self.wake.notify_one();
            }
            let all: Vec<Event> = answer.into_iter().chain(events).collect();
            if closes {
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, send(writing, &all)).await;
                let _ = writing.shutdown().await;
                return true;
            }
            if self.send(writing, &all).await.is_err() {
                return false;
            }
        }
    }

    /// Sends events. A client that reads nothing delays only itself, without limit; the log reports it as slow.
    async fn send(&self, writing: &mut WriteHalf<Io>, events: &[Event]) -> std::io::Result<()> {
        let mut sending = std::pin::pin!(send(writing, events));
        if let Ok(sent) = tokio::time::timeout(SLOW_CLIENT_TIME, &mut sending).await {
            return sent;
        }
        self.write(|disk, session| {
            warn!(
                disk,
                session, "slow: a client does not take the records that its session asked for; the session waits until the client does"
            );
        });
        sending.await
    }
}

async fn send(writing: &mut WriteHalf<Io>, events: &[Event]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    events.iter().for_each(|event| event.encode(&mut bytes));
    writing.write_all(&bytes).await?;
    writing.flush().await
}

/// A call that waits for the disk, and the part of `CALL_BYTES_MAX` reserved for its buffer.
struct WaitingCall {
    call: Call,
    _room: Option<OwnedSemaphorePermit>,
}

impl WaitingCall {
    /// Waits until there is room for the bytes of the call's buffer.
    async fn new(call: Call, room: &Arc<Semaphore>) -> Self {
        let bytes = match &call {
            Call::Buffer { bytes, .. } => u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(CALL_BYTES_MAX),
            _ => 0,
        };
        // The semaphore is never closed, so this does not fail.
        let room = Arc::clone(room).acquire_many_owned(bytes).await.ok();
        Self { call, _room: room }
    }
}

/// Reads calls until the connection ends or the client sends bytes that are no call.
async fn read_calls(
    mut reading: ReadHalf<Io>,
    calls: mpsc::Sender<WaitingCall>,
    room: Arc<Semaphore>,
) -> Ended {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; 64 << 10];
    loop {
        match reading.read(&mut bytes).await {
            Ok(0) => return Ended::Gone { why: "the client closed the connection".into() },
            Err(error) => return Ended::Gone { why: error.to_string() },
            Ok(n) => decoder.push(bytes.get(..n).unwrap_or_default()),
        }
        loop {
            match decoder.take() {
                Ok(Some(call)) => {
                    if calls.send(WaitingCall::new(call, &room).await).await.is_err() {
                        return Ended::Unserved;
                    }
                }
                Ok(None) => break,
                Err(error) => return Ended::Broken(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ConnectionLimits;
    use crate::control::admission::Admission;
    use crate::control::roles::Roles;
    use crate::handle::ManagerCall;
    use crate::manager::tests::{manager_config, rig::Rig};
    use std::sync::Mutex;

    /// Executes the waiting calls, and those that they post.
    fn carry_out(calls: &Mutex<Vec<ManagerCall>>, rig: &mut Rig) {
        loop {
            let waiting = std::mem::take(&mut *calls.lock().unwrap());
            if waiting.is_empty() {
                return;
            }
            waiting.into_iter().for_each(|call| rig.call(call));
        }
    }

    /// The number of the session is on its way to a client that is gone, so no call can close the session.
    #[test]
    fn a_session_whose_client_is_gone_before_it_has_the_number_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut rig, calls) = (Rig::new(), Arc::new(Mutex::new(Vec::new())));
            let queue = Arc::clone(&calls);
            let disk = Handle::of_calls(manager_config().disk, move |call| queue.lock().unwrap().push(call));
            let (socket, _client) = tokio::net::UnixStream::pair().unwrap();
            let own = socket.peer_cred().unwrap().uid();
            let admission = Arc::new(Admission::new(Roles::default(), own, ConnectionLimits::default()));
            for is_kept in [true, false] {
                let slot = Arc::new(admission.admit(&socket).1.unwrap());
                let opening = OpenSession::begin(disk.clone(), 20, LimitedLog::new(), slot);
                let mut opening = Box::pin(opening);
                tokio::select! {
                    biased;
                    _ = &mut opening => panic!("the disk has not answered"),
                    () = std::future::ready(()) => {}
                }
                carry_out(&calls, &mut rig);
                assert_eq!(rig.call(|manager, _| manager.client_sessions()), 1);
                match is_kept {
                    true => drop(opening.await),
                    false => drop(opening),
                }
                carry_out(&calls, &mut rig);
                assert_eq!(rig.call(|manager, _| manager.client_sessions()), 0, "kept: {is_kept}");
            }
        });
    }
}
