//! Limits on the load by all clients together, and the order in which they get memory beyond their reserves.
//!
//! A quarter of the memory is reserved in equal parts, one for each possible client. Five eighths are common to all: a
//! client may take one request from the common part if it fits, and more while it holds no more of that part than is
//! left for others. A request for which the common part has no room is split into pieces within its client's reserve,
//! so that no client waits for memory that another holds. The last eighth is for the one request whose bytes are being
//! copied.
//!
//! Background requests may hold memory for hours, so those of all clients together get at most half of the common part.

use crate::client::Client;
use crate::slots::ConnectionLimits;
use nbd::Violation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// The limits on the load by all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most clients at a time; more are refused. One peer, a user of this machine or another machine, has at most
    /// half of them. An eighth is reserved for root over a Unix socket, and an eighth for the daemon's own user.
    pub clients: usize,
    /// The limits of each client.
    pub client: nbd::Limits,
    /// The most bytes held for all clients, from the first byte of a request until the last byte of its answer is sent.
    /// Further requests stay in the sockets. A client's receive buffer is not counted.
    pub bytes: usize,
    /// The time for a client to choose an export.
    pub handshake: Duration,
    /// The time after which a client that takes none of its answers is named in the log.
    pub patience: Duration,
    /// The time for clients to take the last answers when the server is stopped.
    pub drain: Duration,
}

/// 64 clients with 256 MiB together, ten seconds to choose an export, half a minute until a client counts as slow, ten
/// seconds for the last answers.
impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 64,
            client: nbd::Limits::default(),
            bytes: 256 << 20,
            handshake: Duration::from_millis(10_000),
            patience: Duration::from_millis(30_000),
            drain: Duration::from_millis(10_000),
        }
    }
}

/// Raises the soft limit of open descriptors to the hard limit: each client needs a descriptor, and a shell gives a
/// daemon 1024.
///
/// # Errors
/// The kernel refuses the new limit.
pub fn raise_descriptor_limit() -> std::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

impl Limits {
    /// Returns the rules for the clients' slots.
    pub(crate) fn slots(&self) -> ConnectionLimits {
        let most = self.clients.div_ceil(2);
        ConnectionLimits {
            connections: self.clients,
            reserved: self.clients / 8,
            per_user: most,
            per_trusted_user: most,
            ..ConnectionLimits::default()
        }
    }

    /// Returns the bytes reserved for each client.
    pub(crate) fn reserve(&self) -> usize {
        self.bytes / 4 / self.clients.max(1)
    }

    /// Returns the bytes of the part that is common to all clients.
    pub(crate) fn common(&self) -> usize {
        self.bytes - self.bytes / 4 - self.bytes / 8
    }
}

/// The division of the common memory among clients.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The client that is first in the next round of grants.
    round_start: u64,
}

/// The finding about a client that violates the protocol or has missed a time limit.
#[derive(Debug)]
pub(crate) enum Verdict {
    Violation(Violation),
    /// The client has taken too long, for this reason, and is disconnected.
    Late(&'static str),
    /// The client may stay, but the log reports its fault.
    Slow(&'static str),
}

impl Shares {
    /// Grants memory to clients' requests in round-robin order, while there is some. `others` is the number of bytes
    /// held by requests of disconnected clients.
    pub fn share(
        &mut self,
        clients: &mut BTreeMap<u64, Client>,
        limits: &Limits,
        others: usize,
    ) -> Vec<(u64, Verdict)> {
        let mut verdicts = Vec::new();
        if clients.values().all(|client| client.connection.wanted().is_none()) {
            return verdicts;
        }
        let (reserve, common) = (limits.reserve(), limits.common());
        let excess = |client: &Client| client.held().saturating_sub(reserve);
        let mut used = clients.values().map(excess).sum::<usize>() + others;
        let can_wait = |client: &Client| if client.background { excess(client) } else { 0 };
        let mut waiting = clients.values().map(can_wait).sum::<usize>();
        let waiting_most = common / 2;
        let round = clients.range(self.round_start..).chain(clients.range(..self.round_start));
        let order: Vec<u64> = round.filter(|(_, client)| !client.gone).map(|(id, _)| *id).collect();
        let mut granted = true;
        while std::mem::take(&mut granted) {
            for id in &order {
                let Some(client) = clients.get_mut(id) else { continue };
                let Some(wanted) = client.connection.wanted() else { continue };
                let has = excess(client);
                let more = (client.held() + wanted).saturating_sub(reserve) - has;
                let fits = used + more <= common && (has == 0 || has + more <= common - used - more);
                let fits = fits && (!client.background || more == 0 || waiting + more <= waiting_most);
                let result = if fits { client.connection.grant() } else { client.connection.go_in_pieces() };
                if let Err(violation) = result {
                    verdicts.push((*id, Verdict::Violation(violation)));
                }
                used = used + excess(client) - has;
                if client.background {
                    waiting = waiting + excess(client) - has;
                }
                if fits {
                    self.round_start = id + 1;
                    granted = true;
                }
            }
        }
        verdicts
    }

    /// Returns the clients that have missed a time limit by `now`.
    pub fn late(clients: &BTreeMap<u64, Client>, limits: &Limits, now: Instant) -> Vec<(u64, Verdict)> {
        let late = |(id, client): (&u64, &Client)| {
            let due = |at: &Instant| *at <= now;
            let verdict = match (handshake_ends(client, limits).filter(due), slow(client, limits).filter(due))
            {
                (Some(_), _) => Verdict::Late("the client took too long to choose an export"),
                (None, Some(_)) => Verdict::Slow("the client does not take its answers"),
                (None, None) => return None,
            };
            Some((*id, verdict))
        };
        clients.iter().filter_map(late).collect()
    }

    /// Returns when the next client will miss a time limit.
    pub fn next_event(clients: &BTreeMap<u64, Client>, limits: &Limits) -> Option<Instant> {
        let ends = |client| [handshake_ends(client, limits), slow(client, limits)];
        clients.values().flat_map(ends).flatten().min()
    }
}

fn handshake_ends(client: &Client, limits: &Limits) -> Option<Instant> {
    let choosing = !client.gone && !client.opened;
    choosing.then_some(client.since + limits.handshake)
}

/// Returns when a client that takes no answers counts as slow.
fn slow(client: &Client, limits: &Limits) -> Option<Instant> {
    client.takes_nothing_since().map(|since| since + limits.patience)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nbd::{Abilities, Connection, Export, Tls};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    const NOW: Instant = Instant::ZERO;

    const MIB: usize = 1 << 20;

    /// Returns a client that has opened the export and has sent these bytes.
    fn client(limits: &Limits, sent: &[u8]) -> Client {
        let export =
            Export::new("", 1 << 30).unwrap().with(Abilities { write: true, ..Abilities::default() });
        let connection = Connection::new([export].into(), Tls::Off, limits.client);
        let (here, _) = UnixStream::pair().unwrap();
        let mut client = Client::new(connection, OwnedFd::from(here), "a test".to_owned(), NOW);
        client.connection.reserve(limits.reserve());
        client.received(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        while client.connection.poll().is_some() {}
        let greeting = client.connection.output().len();
        client.connection.sent(greeting).unwrap();
        client.received(sent).unwrap();
        client
    }

    fn reads(requests: usize, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        [&b"\x25\x60\x95\x13\0\0\0\0cookie!!\0\0\0\0\0\0\0\0"[..], &length].concat().repeat(requests)
    }

    fn share(clients: &mut BTreeMap<u64, Client>, limits: &Limits) {
        let mut shares = Shares::default();
        assert!(shares.share(clients, limits, 0).is_empty());
        let held: usize = clients.values().map(Client::held).sum();
        assert!(held <= limits.bytes, "{held} bytes are held");
    }

    fn asked(clients: &BTreeMap<u64, Client>) -> Vec<usize> {
        clients.values().map(|client| client.connection.outstanding()).collect()
    }

    #[test]
    fn requests_that_can_wait_leave_half_of_the_memory_to_those_that_cannot() {
        let limits = Limits::default();
        let mut clients = BTreeMap::new();
        for id in 0..8 {
            clients.insert(id, client(&limits, &reads(100, MIB)));
            clients.get_mut(&id).unwrap().background = true;
        }
        share(&mut clients, &limits);
        let waiting: usize =
            clients.values().map(|client| client.held().saturating_sub(limits.reserve())).sum();
        assert!(waiting <= limits.common() / 2, "{waiting} bytes");
        clients.insert(8, client(&limits, &reads(32, MIB)));
        share(&mut clients, &limits);
        assert_eq!(asked(&clients)[8], 32);
        // Memory that a client has given back is available to the others again.
        clients.retain(|id, _| *id == 7 || *id == 8);
        share(&mut clients, &limits);
        assert_eq!(asked(&clients), [64, 32]);
    }

    #[test]
    fn one_client_has_its_share_and_others_find_room_beside_it() {
        let limits = Limits::default();
        let many = reads(100, 32 * MIB);
        let mut clients = BTreeMap::from([(0, client(&limits, &many))]);
        share(&mut clients, &limits);
        assert_eq!(asked(&clients), [2], "64 MiB");
        for id in 1..7 {
            clients.insert(id, client(&limits, &many));
        }
        share(&mut clients, &limits);
        // Five requests of 32 MiB fit into the common part. Each other client has four pieces of one request in its
        // reserve of 1 MiB.
        assert_eq!(asked(&clients), [2, 1, 1, 1, 4, 4, 4]);
        // A client whose requests fit into its reserve waits for no memory.
        clients.insert(7, client(&limits, &reads(10, 64 << 10)));
        assert_eq!(asked(&clients)[7], 10);
    }

    #[test]
    fn a_request_for_which_there_is_no_room_goes_in_pieces_within_its_reserve() {
        let limits = Limits { bytes: 80 * MIB, ..Limits::default() };
        let reserve = limits.reserve();
        let mut clients = BTreeMap::from([
            (0, client(&limits, &reads(1, 32 * MIB))),
            (1, client(&limits, &reads(1, 32 * MIB))),
            (2, client(&limits, &reads(9, 2 * MIB))),
        ]);
        share(&mut clients, &limits);
        // The first request leaves too little memory for a second of 32 MiB, and enough for four of 2 MiB.
        assert_eq!(asked(&clients), [1, 4, 4]);
        assert_eq!(clients[&1].held(), reserve, "four pieces");
    }

    /// A client that has said goodbye may take none of the answers to its options, and then never ends by itself.
    #[test]
    fn a_client_that_says_goodbye_before_it_has_chosen_is_late_all_the_same() {
        let limits = Limits::default();
        let export = Export::new("", 1 << 30).unwrap();
        let connection = Connection::new([export].into(), Tls::Off, limits.client);
        let (here, _there) = UnixStream::pair().unwrap();
        let mut client = Client::new(connection, OwnedFd::from(here), "a test".to_owned(), NOW);
        const LIST: &[u8] = b"IHAVEOPT\0\0\0\x03\0\0\0\0";
        const ABORT: &[u8] = b"IHAVEOPT\0\0\0\x02\0\0\0\0";
        client.received(&[b"\0\0\0\x03", LIST, ABORT].concat()).unwrap();
        while client.connection.poll().is_some() {}
        client.ending = true;
        assert!(!client.is_over(), "the client has not taken its answers");
        let clients = BTreeMap::from([(0, client)]);
        assert!(Shares::late(&clients, &limits, NOW).is_empty());
        let late = Shares::late(&clients, &limits, NOW + limits.handshake);
        assert!(matches!(late[..], [(0, Verdict::Late(_))]), "{late:?}");
    }

    #[test]
    fn a_request_larger_than_the_memory_is_held_in_it_all_the_same() {
        let limits = Limits { bytes: MIB, ..Limits::default() };
        let mut clients: BTreeMap<u64, Client> =
            (0..3).map(|id| (id, client(&limits, &reads(5, 4 * MIB)))).collect();
        share(&mut clients, &limits);
        assert_eq!(asked(&clients), [1, 1, 1]);
        assert!(clients.values().all(|client| client.held() == 4096));
    }
}
