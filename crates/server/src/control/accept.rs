//! Accepts connections: the role first, then the slot, then the request.

use super::api;
use super::limited_log::{LimitedLog, REPORT_INTERVAL};
use super::roles::{Role, Roles};
use crate::slots::{ConnectionLimits, GivenSlot, SlotOwner, Slots};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener as Listener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tracing::{info, warn};

/// A request's head has to come in this time.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A request has to be over in this time, its answer taken included, unless it asks for events or a session.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The most answers of a user with all tasks of a disk that are not taken yet; others wait.
const LARGE_ANSWERS_MAX: usize = 4;
/// How long a connection without a slot is kept for its answer.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The most connections without a slot that wait for their answer; others get none.
const REFUSALS_MAX: usize = 16;

/// The other end of a connection, as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its user; none if the kernel names none.
    pub uid: Option<u32>,
    gid: Option<u32>,
    pub role: Role,
    /// It is root, or the daemon's own user.
    pub trusted: bool,
}

impl Peer {
    fn of(stream: &UnixStream, roles: &Roles, own: u32) -> Result<Self, std::io::Error> {
        let peer = stream.peer_cred()?;
        let (uid, gid) = (peer.uid(), peer.gid());
        let trusted = uid == 0 || uid == own;
        Ok(Self { uid: Some(uid), gid: Some(gid), role: roles.role(uid, gid, own), trusted })
    }

    /// Returns the peer of a connection that no user stands for: a browser.
    pub fn of_page(role: Role) -> Self {
        Self { role, ..Self::unknown() }
    }

    fn unknown() -> Self {
        Self { uid: None, gid: None, role: Role::Nobody, trusted: false }
    }

    fn owner(&self, own: u32) -> SlotOwner {
        match (self.role, self.uid) {
            (Role::Nobody, uid) => SlotOwner::NoRole(uid),
            (_, Some(0)) => SlotOwner::Root,
            (_, Some(uid)) if uid == own => SlotOwner::Own,
            (_, Some(uid)) => SlotOwner::Member(uid),
            (_, None) => SlotOwner::NoRole(None),
        }
    }
}

/// The slot of one connection, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u64,
    admission: Arc<Admission>,
    hang_up: Arc<Notify>,
    /// It lasts for as long as its client likes.
    lasting: std::sync::atomic::AtomicBool,
    large_answers: Arc<Semaphore>,
    /// Held until the connection ends, if its answer is a large one.
    large_answer: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slot {
    /// Records that a whole request has arrived.
    pub fn request_received(&self) {
        self.admission.with(|inside| inside.slots.request_received(self.number));
    }

    /// Makes the connection a session, unless there are as many as may be.
    pub fn begin_session(&self) -> bool {
        let begun = self.admission.with(|inside| inside.slots.begin_session(self.number));
        if begun {
            self.lasts();
        }
        begun
    }

    /// Lets the connection last, until it has to give way to another user's.
    pub fn follows(&self) {
        self.admission.with(|inside| inside.slots.follows(self.number));
        self.lasts();
    }

    /// Waits until the user has few connections with a large answer, and counts this one among them.
    pub async fn has_large_answer(&self) {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.large_answers).acquire_owned().await.ok();
        *self.large_answer.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// Lets the connection last without limit.
    fn lasts(&self) {
        self.lasting.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn is_lasting(&self) -> bool {
        self.lasting.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Has the connection hung up on.
    pub fn hang_up(&self) {
        self.hang_up.notify_one();
    }

    /// Waits until the connection is to be hung up on.
    pub async fn hung_up(&self) {
        self.hang_up.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.admission.with(|inside| {
            inside.slots.release(self.number);
            inside.present.remove(&self.number);
        });
    }
}

/// All slots of a socket, and the roles of its users.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The daemon's own user.
    own: u32,
    inside: Mutex<SlotTable>,
}

#[derive(Debug)]
struct SlotTable {
    roles: Roles,
    slots: Slots,
    present: BTreeMap<u64, (Peer, Arc<Notify>)>,
    /// The large answers that each user may have.
    large_answers: BTreeMap<SlotOwner, Arc<Semaphore>>,
}

impl Admission {
    pub fn new(roles: Roles, own: u32, limits: ConnectionLimits) -> Self {
        let (present, large_answers) = (BTreeMap::new(), BTreeMap::new());
        let inside = SlotTable { roles, slots: Slots::new(limits), present, large_answers };
        Self { own, inside: Mutex::new(inside) }
    }

    fn with<R>(&self, what: impl FnOnce(&mut SlotTable) -> R) -> R {
        what(&mut self.inside.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the peer of a connection, and a slot if there is one. The role is decided and the slot is given at one
    /// instant, so that new roles apply to the connection, or [`set_roles`](Self::set_roles) sees it.
    pub fn admit(self: &Arc<Self>, stream: &UnixStream) -> (Result<Peer, std::io::Error>, Option<Slot>) {
        self.with(|inside| {
            let peer = Peer::of(stream, &inside.roles, self.own);
            let slot = self.slot(inside, *peer.as_ref().unwrap_or(&Peer::unknown()));
            (peer, slot)
        })
    }

    fn slot(self: &Arc<Self>, inside: &mut SlotTable, peer: Peer) -> Option<Slot> {
        let GivenSlot { slot: number, instead_of } = inside.slots.give(peer.owner(self.own))?;
        if let Some((_, other)) = instead_of.and_then(|other| inside.present.remove(&other)) {
            other.notify_one();
        }
        let hang_up = Arc::new(Notify::new());
        inside.present.insert(number, (peer, Arc::clone(&hang_up)));
        inside.large_answers.retain(|_, answers| Arc::strong_count(answers) > 1);
        let new = || Arc::new(Semaphore::new(LARGE_ANSWERS_MAX));
        let large_answers = Arc::clone(inside.large_answers.entry(peer.owner(self.own)).or_insert_with(new));
        Some(Slot {
            number,
            admission: Arc::clone(self),
            hang_up,
            lasting: false.into(),
            large_answers,
            large_answer: Mutex::default(),
        })
    }

    /// Replaces the roles. Connections whose user has fewer rights than before are closed, sessions included.
    pub fn set_roles(&self, roles: Roles) {
        self.with(|inside| {
            for (peer, hang_up) in inside.present.values() {
                let now = peer.uid.zip(peer.gid).map_or(Role::Nobody, |(u, g)| roles.role(u, g, self.own));
                if now < peer.role {
                    hang_up.notify_one();
                }
            }
            inside.roles = roles;
        });
    }
}

/// Serves the socket until it is stopped.
pub(super) async fn serve(
    listener: Listener,
    admission: Arc<Admission>,
    disks: api::Disks,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "no control socket"),
    };
    let router = api::router(disks);
    let log = LimitedLog::new();
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut count = tokio::time::interval(REPORT_INTERVAL);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = count.tick() => {
                log.report();
                continue;
            }
            _ = stopped.changed() => return log.report_rest(),
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                log.write(|| warn!(%error, "the control socket"));
                // No descriptor is free, for instance: that passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (peer, slot) = admission.admit(&stream);
        let peer = peer.unwrap_or_else(|error| {
            log.write(|| warn!(%error, "a client of the control socket without credentials"));
            Peer::unknown()
        });
        let Some(slot) = slot else {
            log.write(|| {
                warn!(
                    uid = peer.uid,
                    "a client of the control socket is hung up on: there are as many as may be"
                );
            });
            if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refuse(stream)).await;
                    drop(permit);
                });
            }
            continue;
        };
        tokio::spawn(one(stream, peer, Arc::new(slot), router.clone(), log.clone()));
    }
}

/// The answer to a connection for which there is no slot.
const NO_SLOT_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 109\r\n\
connection: close\r\n\r\n\
{\"error\":{\"message\":\"there are as many connections of this user as may be; close some, and come again then\"}}";

/// Answers a connection for which there is no slot. Its request is read to the end: if it were left unread, the kernel
/// would report a broken connection to the client in place of the answer.
async fn refuse(mut stream: UnixStream) {
    // The client's reader may be gone.
    let _ = stream.write_all(NO_SLOT_RESPONSE).await;
    let _ = stream.shutdown().await;
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Serves one connection.
async fn one(stream: UnixStream, peer: Peer, slot: Arc<Slot>, router: axum::Router, log: LimitedLog) {
    let service = router
        .layer(axum::Extension(peer))
        .layer(axum::Extension(Arc::clone(&slot)))
        .layer(axum::Extension(log.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut over = std::pin::pin!(tokio::time::sleep(REQUEST_TIMEOUT));
    let uid = peer.uid;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = slot.hung_up() => {
                return log.write(|| {
                    info!(uid, "a client of the control socket is hung up on: another one needs its place, or its role is gone");
                });
            }
            () = over.as_mut(), if !slot.is_lasting() => {
                if slot.is_lasting() {
                    continue;
                }
                return log.write(|| {
                    warn!(uid, "a client of the control socket is hung up on: it does not take its answer");
                });
            }
        }
    };
    if let Err(error) = ended {
        log.write(|| match error.is_parse() || error.is_timeout() {
            true => warn!(uid, why = why(&error), "a client of the control socket sends no request"),
            // A client that follows the events goes in this way.
            false => info!(uid, why = why(&error), "a client of the control socket went before its answer"),
        });
    }
}

/// Returns an error with its causes.
fn why(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(error.source(), |error| error.source());
    chain.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_is_whole() {
        let text = std::str::from_utf8(NO_SLOT_RESPONSE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"]["message"].is_string());
    }

    /// A request that is left unread would be a broken connection to the client.
    #[test]
    fn a_client_without_a_slot_gets_the_refusal_after_it_has_sent_its_request() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (here, mut client) = UnixStream::pair().unwrap();
            client.write_all(b"GET /v1/disks HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let refused = tokio::spawn(refuse(here));
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, NO_SLOT_RESPONSE);
            drop(client);
            refused.await.unwrap();
        });
    }
}
