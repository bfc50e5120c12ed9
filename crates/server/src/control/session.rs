//! Sessions of client programs: a connection becomes one (docs/CONTROL.md).

use super::accept::Seat;
use super::api::{Disks, ask, find};
use super::reply::Refusal;
use super::trouble::Trouble;
use crate::office::Handle;
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
use tokio::sync::{Notify, mpsc};
use tracing::warn;

/// Fetched from the desk at a time; more only when the client has taken that.
const BATCH: usize = 256 << 10;
/// Calls of a client that wait for the disk.
const MOST_CALLS: usize = 64;
/// After a close the answer is still sent, for so long.
const FAREWELL: Duration = Duration::from_secs(10);
/// A client that takes nothing for so long is slow.
const SLOW: Duration = Duration::from_secs(30);
/// So long it is looked why a client takes nothing any more.
const HEARD: Duration = Duration::from_secs(1);

type Io = TokioIo<hyper::upgrade::Upgraded>;

/// `POST /v1/disks/NAME/sessions?priority=N` with `Upgrade: freeblock-session`.
pub(crate) async fn open(
    State(disks): State<Disks>,
    Extension(trouble): Extension<Trouble>,
    Extension(seat): Extension<Arc<Seat>>,
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
        return Err(bad(strange, "a session has no such thing; leave it out"));
    }
    let priority = query.get("priority").map_or("20", String::as_str);
    let priority: u8 = priority.parse().map_err(|_| bad("priority", "give 1 to 100"))?;
    let wake = Arc::new(Notify::new());
    let bell = Arc::clone(&wake);
    let ring = Box::new(move || bell.notify_one());
    let id = ask(&disk, move |desk, sessions| desk.guest_open(sessions, priority, ring)).await??;
    // From here on the guest goes when this does, whatever happens.
    seat.lasts();
    let guest = Guest { disk, id, wake, trouble, seat };
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let seat = Arc::clone(&guest.seat);
                tokio::select! {
                    () = guest.serve(TokioIo::new(upgraded)) => {}
                    () = seat.hung_up() => {}
                }
            }
            Err(error) => guest.said(|disk, session| {
                warn!(disk, session, %error, "a session was not begun: its client went away");
            }),
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    Ok(response)
}

/// A guest of a desk.
struct Guest {
    disk: Handle,
    id: u64,
    wake: Arc<Notify>,
    trouble: Trouble,
    /// Until the session is over, not only until its request is.
    seat: Arc<Seat>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let id = self.id;
        // A disk that has ended has closed it.
        let _ = self.disk.post(Box::new(move |desk, sessions| desk.guest_close(sessions, id)));
    }
}

/// How a session's client is heard no more.
enum Ended {
    /// Its connection is closed, or broken.
    Gone { why: String },
    /// It sends what is no call.
    Broken(WireError),
    /// It is not served any longer.
    Unheard,
}

impl Guest {
    /// Has a line written of it, or counts it.
    fn said(&self, line: impl FnOnce(&str, u64)) {
        self.trouble.said(|| line(&self.disk.facts().name, self.id));
    }

    /// What the log says of its end.
    fn told(&self, ended: Ended) {
        match ended {
            Ended::Gone { why } => self.said(|disk, session| {
                warn!(disk, session, why, "a session's client went away and did not close it");
            }),
            Ended::Broken(error) => self.said(|disk, session| {
                warn!(disk, session, %error, "a session is ended: its client does not keep to the protocol");
            }),
            Ended::Unheard => {}
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
        let (sender, calls) = mpsc::channel(MOST_CALLS);
        let hearing = tokio::spawn(hear(reading, sender));
        let closed = match send(&mut writing, &[hello]).await {
            Ok(()) => self.talk(&mut writing, calls).await,
            Err(_) => false,
        };
        if closed {
            return hearing.abort();
        }
        // Who cannot be told anything is not heard any more either, but may still send.
        match tokio::time::timeout(HEARD, hearing).await {
            Ok(Ok(ended)) => self.told(ended),
            _ => self
                .said(|disk, session| warn!(disk, session, "a session's client takes no answers any more")),
        }
    }

    /// Answers calls and sends what has come, in turn, as fast as the client takes it.
    /// Whether it ends in order.
    async fn talk(&self, writing: &mut WriteHalf<Io>, mut calls: mpsc::Receiver<Call>) -> bool {
        let id = self.id;
        loop {
            let call = tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => Some(call),
                    None => return false,
                },
                () = self.wake.notified() => None,
            };
            let closes = matches!(call, Some(Call::Close { .. }));
            let fetched = ask(&self.disk, move |desk, sessions| {
                let answer = call.and_then(|call| desk.guest_call(sessions, id, call));
                let events = if closes { Vec::new() } else { desk.guest_fetch(sessions, id, BATCH) };
                (answer, events)
            });
            // A disk that has ended.
            let Ok((answer, events)) = fetched.await else { return true };
            // More may be there than was fetched.
            if !events.is_empty() {
                self.wake.notify_one();
            }
            let all: Vec<Event> = answer.into_iter().chain(events).collect();
            if closes {
                let _ = tokio::time::timeout(FAREWELL, send(writing, &all)).await;
                let _ = writing.shutdown().await;
                return true;
            }
            if self.send(writing, &all).await.is_err() {
                return false;
            }
        }
    }

    /// A client that takes nothing holds up itself only, for as long as it likes; the log names it.
    async fn send(&self, writing: &mut WriteHalf<Io>, events: &[Event]) -> std::io::Result<()> {
        let mut sending = std::pin::pin!(send(writing, events));
        if let Ok(sent) = tokio::time::timeout(SLOW, &mut sending).await {
            return sent;
        }
        self.said(|disk, session| {
            warn!(
                disk,
                session, "slow: a session's client does not take what it asked for; it waits until it does"
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

/// Takes calls in until the client is gone, or sends what is none.
async fn hear(mut reading: ReadHalf<Io>, calls: mpsc::Sender<Call>) -> Ended {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; 64 << 10];
    loop {
        match reading.read(&mut bytes).await {
            Ok(0) => return Ended::Gone { why: "it closed the connection".into() },
            Err(error) => return Ended::Gone { why: error.to_string() },
            Ok(n) => decoder.push(bytes.get(..n).unwrap_or_default()),
        }
        loop {
            match decoder.take() {
                Ok(Some(call)) => {
                    if calls.send(call).await.is_err() {
                        return Ended::Unheard;
                    }
                }
                Ok(None) => break,
                Err(error) => return Ended::Broken(error),
            }
        }
    }
}
