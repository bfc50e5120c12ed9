//! The slots of the control socket's connections: the user's role is decided, and then a slot is given.

use super::roles::{Role, Roles};
use crate::slots::{ConnectionLimits, GivenSlot, SlotOwner, Slots};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The most large answers to one user that are not read completely; further requests for large answers wait. An
/// answer is large if it has all tasks of a disk.
const LARGE_ANSWERS_MAX: usize = 4;

/// The peer of a connection, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The peer's user; `None` if the kernel reports none.
    pub uid: Option<u32>,
    gid: Option<u32>,
    pub role: Role,
    /// Whether the user is root, or the daemon's own user.
    pub trusted: bool,
}

impl Peer {
    fn of(stream: &UnixStream, roles: &Roles, own: u32) -> Result<Self, std::io::Error> {
        let peer = stream.peer_cred()?;
        let (uid, gid) = (peer.uid(), peer.gid());
        let trusted = uid == 0 || uid == own;
        Ok(Self { uid: Some(uid), gid: Some(gid), role: roles.role(uid, gid, own), trusted })
    }

    /// Returns the peer of a connection without a known user: a browser.
    pub fn of_page(role: Role) -> Self {
        Self { role, ..Self::unknown() }
    }

    pub fn unknown() -> Self {
        Self { uid: None, gid: None, role: Role::None, trusted: false }
    }

    fn owner(&self, own: u32) -> SlotOwner {
        match (self.role, self.uid) {
            (Role::None, uid) => SlotOwner::NoRole(uid),
            (_, Some(0)) => SlotOwner::Root,
            (_, Some(uid)) if uid == own => SlotOwner::Own,
            (_, Some(uid)) => SlotOwner::Member(uid),
            (_, None) => SlotOwner::NoRole(None),
        }
    }
}

/// The slot of one connection, released when this value is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u64,
    admission: Arc<Admission>,
    hang_up: Arc<Notify>,
    /// Whether the connection has no time limit.
    lasting: std::sync::atomic::AtomicBool,
    large_answers: Arc<Semaphore>,
    /// The permit for a large answer, held until the connection ends; `None` if it has none.
    large_answer: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slot {
    /// Records that a whole request has arrived.
    pub fn request_received(&self) {
        self.admission.with(|inside| inside.slots.request_received(self.number));
    }

    /// Makes the connection a session, unless the limit on sessions is reached.
    pub fn begin_session(&self) -> bool {
        let begun = self.admission.with(|inside| inside.slots.begin_session(self.number));
        if begun {
            self.lasts();
        }
        begun
    }

    /// Records that the connection follows the events: it has no time limit, but may have to give way to another
    /// user's.
    pub fn follows(&self) {
        self.admission.with(|inside| inside.slots.follows(self.number));
        self.lasts();
    }

    /// Waits until the user has fewer large answers than the limit, and counts this connection among them.
    pub async fn has_large_answer(&self) {
        // The semaphore is never closed, so this does not fail.
        let permit = Arc::clone(&self.large_answers).acquire_owned().await.ok();
        *self.large_answer.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// Removes the connection's time limit.
    fn lasts(&self) {
        self.lasting.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    pub fn is_lasting(&self) -> bool {
        self.lasting.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Asks for the connection to be closed.
    pub fn hang_up(&self) {
        self.hang_up.notify_one();
    }

    /// Waits until the connection has to be closed.
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
    /// The permits of each user for large answers.
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

    /// Returns the peer of a connection, and a slot if there is one. The role and the slot are decided under one
    /// lock: either the connection gets its role from the new roles, or [`set_roles`](Self::set_roles) finds it.
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

    /// Replaces the roles. Connections of users that have fewer rights than before are closed, sessions included.
    pub fn set_roles(&self, roles: Roles) {
        self.with(|inside| {
            for (peer, hang_up) in inside.present.values() {
                let now = peer.uid.zip(peer.gid).map_or(Role::None, |(u, g)| roles.role(u, g, self.own));
                if now < peer.role {
                    hang_up.notify_one();
                }
            }
            inside.roles = roles;
        });
    }
}
