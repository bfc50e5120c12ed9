//! The seats of the control socket: which connections are let in when there are many.
//!
//! The kernel reports the user of a connection before anything is read from it, so the role is decided first and the
//! seat second. A connection that has not sent its whole request yet is waiting: when seats are short it gives way to a
//! newcomer.

use std::collections::BTreeMap;

/// The limits on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seating {
    /// The most connections of all users with a role, sessions included.
    pub connections: usize,
    /// Seats among these reserved for root; the daemon's own user has the same number of its own.
    pub reserved: usize,
    /// The most connections of one user with a role, other than root and the daemon's own.
    pub per_user: usize,
    /// The most connections of users without a role, which only get the answer that they have none. These seats are
    /// beside `connections`.
    pub strangers: usize,
    /// The same for one user.
    pub per_stranger: usize,
}

impl Default for Seating {
    fn default() -> Self {
        Self { connections: 256, reserved: 32, per_user: 64, strangers: 8, per_stranger: 2 }
    }
}

/// The owner of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// Root.
    Root,
    /// The daemon's own user.
    Own,
    /// Another user with a role.
    Member(u32),
    /// A user without a role.
    Stranger(Option<u32>),
}

impl Party {
    fn is_stranger(self) -> bool {
        matches!(self, Self::Stranger(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct TakenSeat {
    party: Party,
    /// Whether the whole request has not arrived yet.
    waits: bool,
}

/// The taken seats by their numbers, the oldest first.
#[derive(Debug)]
pub(crate) struct Seats {
    rules: Seating,
    taken: BTreeMap<u64, TakenSeat>,
    next: u64,
}

/// A seat that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Its number.
    pub seat: u64,
    /// The connection that has lost its seat for this one.
    pub instead_of: Option<u64>,
}

impl Seats {
    pub fn new(rules: Seating) -> Self {
        Self { rules, taken: BTreeMap::new(), next: 0 }
    }

    /// Returns a seat for a new connection, or `None` if all are taken and no waiting connection can give way.
    pub fn give(&mut self, party: Party) -> Option<Given> {
        let instead_of = match self.has_room(party) {
            true => None,
            false => Some(self.gives_way(party)?),
        };
        if let Some(seat) = instead_of {
            self.taken.remove(&seat);
        }
        let seat = self.next;
        self.next += 1;
        self.taken.insert(seat, TakenSeat { party, waits: true });
        Some(Given { seat, instead_of })
    }

    /// Records that the connection has sent a whole request: it keeps its seat until it ends.
    pub fn heard(&mut self, seat: u64) {
        if let Some(seat) = self.taken.get_mut(&seat) {
            seat.waits = false;
        }
    }

    /// Records that the connection has ended.
    pub fn left(&mut self, seat: u64) {
        self.taken.remove(&seat);
    }

    fn of(&self, party: Party) -> usize {
        self.taken.values().filter(|seat| seat.party == party).count()
    }

    /// Returns the number of taken seats outside the reserves.
    fn common(&self) -> usize {
        let members = self.taken.values().filter(|seat| matches!(seat.party, Party::Member(_))).count();
        let beyond = |party| self.of(party).saturating_sub(self.rules.reserved);
        members + beyond(Party::Root) + beyond(Party::Own)
    }

    /// Returns whether the party has its maximum of seats.
    fn is_at_its_own_limit(&self, party: Party) -> bool {
        match party {
            Party::Root | Party::Own => false,
            Party::Member(_) => self.of(party) >= self.rules.per_user,
            Party::Stranger(_) => self.of(party) >= self.rules.per_stranger,
        }
    }

    fn has_room(&self, party: Party) -> bool {
        let common = self.rules.connections.saturating_sub(2 * self.rules.reserved);
        !self.is_at_its_own_limit(party)
            && match party {
                Party::Root | Party::Own if self.of(party) < self.rules.reserved => true,
                Party::Root | Party::Own | Party::Member(_) => self.common() < common,
                Party::Stranger(_) => {
                    let all = self.taken.values().filter(|seat| seat.party.is_stranger());
                    all.count() < self.rules.strangers
                }
            }
    }

    /// Returns the seat that a newcomer gets when all are taken: of the waiting connections, the oldest of the party
    /// with the most seats. A party at its own limit loses one of its own.
    fn gives_way(&self, party: Party) -> Option<u64> {
        let own_only = self.is_at_its_own_limit(party);
        let may = |other: Party| {
            other == party
                || !own_only
                    && match other {
                        Party::Root | Party::Own if self.of(other) <= self.rules.reserved => false,
                        _ => other.is_stranger() == party.is_stranger(),
                    }
        };
        let waiting = self.taken.iter().filter(|(_, seat)| seat.waits && may(seat.party));
        waiting.max_by_key(|(at, seat)| (self.of(seat.party), std::cmp::Reverse(**at))).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seats() -> Seats {
        Seats::new(Seating::default())
    }

    #[test]
    fn idle_connections_of_users_without_a_role_take_no_seat_from_others() {
        let mut seats = seats();
        for uid in 0..1_000 {
            seats.give(Party::Stranger(Some(uid))).unwrap();
        }
        for party in [Party::Root, Party::Own, Party::Member(7)] {
            assert_eq!(seats.give(party).unwrap().instead_of, None);
        }
    }

    #[test]
    fn a_user_has_its_own_limit_and_loses_its_own_idle_connections_only() {
        let mut seats = seats();
        let other = seats.give(Party::Member(8)).unwrap().seat;
        let first = seats.give(Party::Member(7)).unwrap().seat;
        for _ in 1..64 {
            assert_eq!(seats.give(Party::Member(7)).unwrap().instead_of, None);
        }
        assert_eq!(seats.give(Party::Member(7)).unwrap().instead_of, Some(first));
        assert!(seats.taken.contains_key(&other));
        let all: Vec<u64> = seats.taken.keys().copied().collect();
        all.into_iter().for_each(|seat| seats.heard(seat));
        assert_eq!(seats.give(Party::Member(7)), None, "all of them are being answered");
        assert!(seats.give(Party::Member(9)).is_some());
    }

    #[test]
    fn root_and_the_daemons_user_have_seats_however_busy_all_others_are() {
        let mut seats = seats();
        let busy = |seats: &mut Seats, party| match seats.give(party) {
            Some(given) => {
                seats.heard(given.seat);
                true
            }
            None => false,
        };
        for uid in 0..100 {
            for _ in 0..64 {
                busy(&mut seats, Party::Member(uid));
            }
        }
        while busy(&mut seats, Party::Own) {}
        for _ in 0..32 {
            assert!(busy(&mut seats, Party::Root), "root has its reserve");
        }
        assert!(!busy(&mut seats, Party::Root));
        assert_eq!(seats.taken.len(), 256);
    }

    #[test]
    fn three_hundred_slow_connections_of_root_lock_no_user_out() {
        let mut seats = seats();
        for _ in 0..300 {
            assert!(seats.give(Party::Root).is_some());
        }
        assert_eq!(seats.of(Party::Root), 256 - 32, "all but the reserve of the daemon's own user");
        for party in [Party::Root, Party::Own, Party::Member(7)] {
            assert!(seats.give(party).is_some());
        }
        for _ in 0..300 {
            seats.give(Party::Member(7));
        }
        assert!(seats.of(Party::Root) >= 32, "its reserve is left to it");
    }

    #[test]
    fn the_user_with_the_most_seats_gives_way_first() {
        let mut seats = seats();
        let one = seats.give(Party::Member(1)).unwrap().seat;
        for uid in 2..5 {
            for _ in 0..64 {
                seats.give(Party::Member(uid)).unwrap();
            }
        }
        assert!(seats.taken.contains_key(&one), "it is the oldest, and the only one of its user");
        assert!(seats.give(Party::Member(5)).unwrap().instead_of.is_some());
        assert!(seats.taken.contains_key(&one));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bound_is_passed_and_a_reserve_is_always_there(
            steps in proptest::collection::vec((0u32..9, any::<bool>(), any::<prop::sample::Index>()), 1..600)
        ) {
            let rules = Seating { connections: 20, reserved: 3, per_user: 5, strangers: 4, per_stranger: 2 };
            let mut seats = Seats::new(rules);
            for (party, heard, at) in steps {
                let party = match party {
                    0 => Party::Root,
                    1 => Party::Own,
                    uid @ 2..5 => Party::Member(uid),
                    5 => Party::Stranger(None),
                    6 => Party::Stranger(Some(6)),
                    _ => {
                        let all: Vec<u64> = seats.taken.keys().copied().collect();
                        if !all.is_empty() {
                            seats.left(all[at.index(all.len())]);
                        }
                        continue;
                    }
                };
                let before = seats.of(party);
                let given = seats.give(party);
                if matches!(party, Party::Root | Party::Own) && before < rules.reserved {
                    let at_once = given.is_some_and(|given| given.instead_of.is_none());
                    prop_assert!(at_once, "{:?}", party);
                }
                if let Some(given) = given.filter(|_| heard) {
                    seats.heard(given.seat);
                }
                let strangers = seats.taken.values().filter(|seat| seat.party.is_stranger()).count();
                prop_assert!(strangers <= rules.strangers);
                prop_assert!(seats.taken.len() - strangers <= rules.connections);
                for uid in 2..5 {
                    prop_assert!(seats.of(Party::Member(uid)) <= rules.per_user);
                }
            }
        }
    }
}
