//! The slots of a socket: which connections are accepted when they are many.
//!
//! The kernel reports the user of a connection, or its address, before anything is read from it, so the owner is known
//! before a slot is given. On the control socket the owner's role decides, too. A connection is waiting until it has
//! sent its whole request, or has chosen an export. When slots are short, a waiting connection gives way to a new one.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The limits on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The most connections of all users with a role, sessions included.
    pub connections: usize,
    /// Slots among `connections` that are reserved for root. Another `reserved` slots are reserved for the daemon's own
    /// user.
    pub reserved: usize,
    /// The most connections of one user with a role, or of one machine. Root and the daemon's own user have
    /// `per_trusted_user` instead.
    pub per_user: usize,
    /// The most connections of root, and also of the daemon's own user.
    pub per_trusted_user: usize,
    /// The most connections of users without a role, which only get the answer that they have none. These slots are not
    /// among `connections`.
    pub without_role: usize,
    /// The most connections of one user without a role.
    pub per_user_without_role: usize,
    /// The most connections that are sessions of client programs: each may hold 10 MiB.
    pub sessions: usize,
    /// The number of connections following the events that every user keeps when slots are short.
    pub followers: usize,
    /// Sessions among `sessions` that are reserved for root. Another `reserved_sessions` are reserved for the daemon's
    /// own user.
    pub reserved_sessions: usize,
    /// The most sessions of one user with a role, other than root and the daemon's own.
    pub per_user_sessions: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            reserved: 32,
            per_user: 64,
            per_trusted_user: 256,
            without_role: 8,
            per_user_without_role: 2,
            sessions: 64,
            followers: 16,
            reserved_sessions: 8,
            per_user_sessions: 32,
        }
    }
}

/// The owner of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SlotOwner {
    Root,
    /// The daemon's own user.
    Own,
    /// Another user; on the control socket, one with a role.
    Member(u32),
    /// Another machine, by its address, with all its users.
    Machine(IpAddr),
    /// A user without a role.
    NoRole(Option<u32>),
}

impl SlotOwner {
    fn has_no_role(self) -> bool {
        matches!(self, Self::NoRole(_))
    }

    /// Returns whether the owner has slots of the common part and no reserve.
    fn is_common(self) -> bool {
        matches!(self, Self::Member(_) | Self::Machine(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct TakenSlot {
    owner: SlotOwner,
    /// Whether the connection has not sent its whole request, or chosen an export, yet.
    waits: bool,
    session: bool,
    /// Whether the connection follows the events.
    follows: bool,
}

/// The number of slots that an owner holds.
#[derive(Clone, Copy, Debug, Default)]
struct HeldSlots {
    all: usize,
    /// The slots among `all` whose connections follow the events.
    following: usize,
}

/// The taken slots by their numbers, the oldest first.
#[derive(Debug)]
pub(crate) struct Slots {
    rules: ConnectionLimits,
    taken: BTreeMap<u64, TakenSlot>,
    next: u64,
}

/// A slot that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenSlot {
    /// The slot's number.
    pub slot: u64,
    /// The slot of the connection that had to give way to the new one.
    pub instead_of: Option<u64>,
}

impl Slots {
    pub fn new(rules: ConnectionLimits) -> Self {
        Self { rules, taken: BTreeMap::new(), next: 0 }
    }

    /// Replaces the limits. Connections beyond the new limits stay.
    pub fn set_rules(&mut self, rules: ConnectionLimits) {
        self.rules = rules;
    }

    /// Returns a slot for a new connection, or `None` if all are taken and no waiting connection can give way.
    pub fn give(&mut self, owner: SlotOwner) -> Option<GivenSlot> {
        let instead_of = match self.has_room(owner) {
            true => None,
            false => Some(self.gives_way(owner)?),
        };
        if let Some(slot) = instead_of {
            self.taken.remove(&slot);
        }
        let slot = self.next;
        self.next += 1;
        self.taken.insert(slot, TakenSlot { owner, waits: true, session: false, follows: false });
        Some(GivenSlot { slot, instead_of })
    }

    /// Records that the connection has sent a whole request, or has chosen an export. From then on the connection keeps
    /// its slot until it ends.
    pub fn request_received(&mut self, slot: u64) {
        if let Some(slot) = self.taken.get_mut(&slot) {
            slot.waits = false;
        }
    }

    /// Records that the connection follows the events, for as long as its client likes.
    pub fn follows(&mut self, slot: u64) {
        if let Some(slot) = self.taken.get_mut(&slot) {
            slot.follows = true;
        }
    }

    /// Makes the connection a session. Returns `false` if the limit on sessions is reached.
    pub fn begin_session(&mut self, slot: u64) -> bool {
        let Some(owner) = self.taken.get(&slot).map(|slot| slot.owner) else { return false };
        let is_session = |slot: &TakenSlot| slot.session;
        let held = self.count(owner, is_session);
        let reserved = self.rules.reserved_sessions;
        let common = self.rules.sessions.saturating_sub(2 * reserved);
        let has_room = match owner {
            SlotOwner::Root | SlotOwner::Own if held < reserved => true,
            SlotOwner::Member(_) | SlotOwner::Machine(_) if held >= self.rules.per_user_sessions => false,
            _ => self.common(reserved, is_session) < common,
        };
        if let Some(slot) = self.taken.get_mut(&slot) {
            slot.session |= has_room;
        }
        has_room
    }

    /// Records that the connection has ended.
    pub fn release(&mut self, slot: u64) {
        self.taken.remove(&slot);
    }

    fn of(&self, owner: SlotOwner) -> usize {
        self.count(owner, |_| true)
    }

    /// Returns the number of the owner's slots of a kind.
    fn count(&self, owner: SlotOwner, kind: impl Fn(&TakenSlot) -> bool) -> usize {
        self.taken.values().filter(|slot| slot.owner == owner && kind(slot)).count()
    }

    /// Returns the number of taken slots of a kind outside the reserves.
    fn common(&self, reserved: usize, kind: impl Fn(&TakenSlot) -> bool) -> usize {
        let is_member = |slot: &&TakenSlot| slot.owner.is_common() && kind(slot);
        let members = self.taken.values().filter(is_member).count();
        let beyond = |owner| self.count(owner, &kind).saturating_sub(reserved);
        members + beyond(SlotOwner::Root) + beyond(SlotOwner::Own)
    }

    /// Returns whether the owner has its maximum of slots.
    fn is_at_its_own_limit(&self, owner: SlotOwner) -> bool {
        match owner {
            SlotOwner::Root | SlotOwner::Own => self.of(owner) >= self.rules.per_trusted_user,
            SlotOwner::Member(_) | SlotOwner::Machine(_) => self.of(owner) >= self.rules.per_user,
            SlotOwner::NoRole(_) => self.of(owner) >= self.rules.per_user_without_role,
        }
    }

    fn has_room(&self, owner: SlotOwner) -> bool {
        let common = self.rules.connections.saturating_sub(2 * self.rules.reserved);
        !self.is_at_its_own_limit(owner)
            && match owner {
                SlotOwner::Root | SlotOwner::Own if self.of(owner) < self.rules.reserved => true,
                SlotOwner::NoRole(_) => {
                    let all = self.taken.values().filter(|slot| slot.owner.has_no_role());
                    all.count() < self.rules.without_role
                }
                _ => self.common(self.rules.reserved, |_| true) < common,
            }
    }

    /// Returns the slot that a new connection takes over when all slots are taken: the oldest waiting connection of the
    /// owner with the most slots. If no connection waits, one that follows the events gives way, but every owner keeps
    /// [`followers`](ConnectionLimits::followers) of these. An owner at its own limit loses one of its own slots.
    fn gives_way(&self, owner: SlotOwner) -> Option<u64> {
        let own_only = self.is_at_its_own_limit(owner);
        // Counted once for each call, because a client may cause a call with every connection that it opens.
        let mut held = BTreeMap::<SlotOwner, HeldSlots>::new();
        for slot in self.taken.values() {
            let held = held.entry(slot.owner).or_default();
            held.all += 1;
            held.following += usize::from(slot.follows);
        }
        let held = |owner: SlotOwner| held.get(&owner).copied().unwrap_or_default();
        let may = |other: SlotOwner| {
            other == owner
                || !own_only
                    && match other {
                        SlotOwner::Root | SlotOwner::Own if held(other).all <= self.rules.reserved => false,
                        _ => other.has_no_role() == owner.has_no_role(),
                    }
        };
        let yields = |slot: &TakenSlot| {
            slot.waits || slot.follows && held(slot.owner).following > self.rules.followers
        };
        let yielding = self.taken.iter().filter(|(_, slot)| may(slot.owner) && yields(slot));
        let key =
            |(at, slot): &(&u64, &TakenSlot)| (slot.waits, held(slot.owner).all, std::cmp::Reverse(**at));
        yielding.max_by_key(key).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots() -> Slots {
        Slots::new(ConnectionLimits::default())
    }

    #[test]
    fn the_limits_in_the_document_are_those_of_the_socket() {
        let text = include_str!("../../../docs/CONTROL.md").replace('\n', " ");
        let ConnectionLimits { connections, reserved, per_user, .. } = ConnectionLimits::default();
        let ConnectionLimits { sessions, reserved_sessions, per_user_sessions, .. } =
            ConnectionLimits::default();
        for limits in [
            format!("{connections} connections, sessions included, of which {per_user} may be one user's"),
            format!("{reserved} are reserved for root, {reserved} for the daemon's own user"),
            format!("{sessions} of the connections may be sessions ({per_user_sessions} of one user"),
            format!("{reserved_sessions} and {reserved_sessions} reserved)"),
        ] {
            assert!(text.contains(&limits), "{limits}");
        }
    }

    #[test]
    fn idle_connections_of_users_without_a_role_take_no_slot_from_others() {
        let mut slots = slots();
        for uid in 0..1_000 {
            slots.give(SlotOwner::NoRole(Some(uid))).unwrap();
        }
        for owner in [SlotOwner::Root, SlotOwner::Own, SlotOwner::Member(7)] {
            assert_eq!(slots.give(owner).unwrap().instead_of, None);
        }
    }

    #[test]
    fn a_user_has_its_own_limit_and_loses_its_own_idle_connections_only() {
        let mut slots = slots();
        let other = slots.give(SlotOwner::Member(8)).unwrap().slot;
        let first = slots.give(SlotOwner::Member(7)).unwrap().slot;
        for _ in 1..64 {
            assert_eq!(slots.give(SlotOwner::Member(7)).unwrap().instead_of, None);
        }
        assert_eq!(slots.give(SlotOwner::Member(7)).unwrap().instead_of, Some(first));
        assert!(slots.taken.contains_key(&other));
        let all: Vec<u64> = slots.taken.keys().copied().collect();
        all.into_iter().for_each(|slot| slots.request_received(slot));
        assert_eq!(slots.give(SlotOwner::Member(7)), None, "all of them are being answered");
        assert!(slots.give(SlotOwner::Member(9)).is_some());
    }

    #[test]
    fn root_and_the_daemons_user_have_slots_however_busy_all_others_are() {
        let mut slots = slots();
        let busy = |slots: &mut Slots, owner| match slots.give(owner) {
            Some(given) => {
                slots.request_received(given.slot);
                true
            }
            None => false,
        };
        for uid in 0..100 {
            for _ in 0..64 {
                busy(&mut slots, SlotOwner::Member(uid));
            }
        }
        while busy(&mut slots, SlotOwner::Own) {}
        for _ in 0..32 {
            assert!(busy(&mut slots, SlotOwner::Root), "root has its reserve");
        }
        assert!(!busy(&mut slots, SlotOwner::Root));
        assert_eq!(slots.taken.len(), 256);
    }

    #[test]
    fn three_hundred_slow_connections_of_root_lock_no_user_out() {
        let mut slots = slots();
        for _ in 0..300 {
            assert!(slots.give(SlotOwner::Root).is_some());
        }
        assert_eq!(slots.of(SlotOwner::Root), 256 - 32, "all but the reserve of the daemon's own user");
        for owner in [SlotOwner::Root, SlotOwner::Own, SlotOwner::Member(7)] {
            assert!(slots.give(owner).is_some());
        }
        for _ in 0..300 {
            slots.give(SlotOwner::Member(7));
        }
        assert!(slots.of(SlotOwner::Root) >= 32, "its reserve is left to it");
    }

    #[test]
    fn the_user_with_the_most_slots_gives_way_first() {
        let mut slots = slots();
        let one = slots.give(SlotOwner::Member(1)).unwrap().slot;
        for uid in 2..5 {
            for _ in 0..64 {
                slots.give(SlotOwner::Member(uid)).unwrap();
            }
        }
        assert!(slots.taken.contains_key(&one), "it is the oldest, and the only one of its user");
        assert!(slots.give(SlotOwner::Member(5)).unwrap().instead_of.is_some());
        assert!(slots.taken.contains_key(&one));
    }

    #[test]
    fn followers_of_few_users_lock_no_other_user_out() {
        let mut slots = slots();
        for uid in 0..3 {
            for _ in 0..64 {
                let slot = slots.give(SlotOwner::Member(uid)).unwrap().slot;
                slots.request_received(slot);
                slots.follows(slot);
            }
        }
        for _ in 0..64 {
            let given = slots.give(SlotOwner::Member(7)).unwrap();
            assert!(given.instead_of.is_some());
            slots.request_received(given.slot);
        }
        assert!((0..3).all(|uid| slots.of(SlotOwner::Member(uid)) >= 16));
    }

    #[test]
    fn sessions_have_limits_and_reserves_of_their_own() {
        let mut slots = slots();
        let mut begins = |owner| {
            let slot = slots.give(owner).unwrap().slot;
            let begun = slots.begin_session(slot);
            if !begun {
                slots.release(slot);
            }
            begun
        };
        let mut begun_of = |owner| (0..65).filter(|_| begins(owner)).count();
        assert_eq!(begun_of(SlotOwner::Member(1)), 32);
        assert_eq!(begun_of(SlotOwner::Member(2)), 16, "the rest but both reserves");
        assert_eq!(begun_of(SlotOwner::Root), 8);
        assert_eq!(begun_of(SlotOwner::Own), 8);
        assert_eq!(begun_of(SlotOwner::NoRole(None)), 0);
        assert_eq!(slots.give(SlotOwner::Member(2)).unwrap().instead_of, None, "connections are left");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bound_is_passed_and_a_reserve_is_always_there(
            steps in proptest::collection::vec((0u32..9, any::<bool>(), any::<prop::sample::Index>()), 1..600)
        ) {
            let rules = ConnectionLimits {
                connections: 20,
                reserved: 3,
                per_user: 5,
                without_role: 4,
                per_user_without_role: 2,
                ..ConnectionLimits::default()
            };
            let mut slots = Slots::new(rules);
            for (owner, request_received, at) in steps {
                let owner = match owner {
                    0 => SlotOwner::Root,
                    1 => SlotOwner::Own,
                    uid @ 2..5 => SlotOwner::Member(uid),
                    5 => SlotOwner::NoRole(None),
                    6 => SlotOwner::NoRole(Some(6)),
                    _ => {
                        let all: Vec<u64> = slots.taken.keys().copied().collect();
                        if !all.is_empty() {
                            slots.release(all[at.index(all.len())]);
                        }
                        continue;
                    }
                };
                let before = slots.of(owner);
                let given = slots.give(owner);
                if matches!(owner, SlotOwner::Root | SlotOwner::Own) && before < rules.reserved {
                    let at_once = given.is_some_and(|given| given.instead_of.is_none());
                    prop_assert!(at_once, "{:?}", owner);
                }
                if let Some(given) = given.filter(|_| request_received) {
                    slots.request_received(given.slot);
                }
                let without_role = slots.taken.values().filter(|slot| slot.owner.has_no_role()).count();
                prop_assert!(without_role <= rules.without_role);
                prop_assert!(slots.taken.len() - without_role <= rules.connections);
                for uid in 2..5 {
                    prop_assert!(slots.of(SlotOwner::Member(uid)) <= rules.per_user);
                }
            }
        }
    }
}
