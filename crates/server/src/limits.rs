//! Bounds on what clients together may keep a server busy with, and the order in which they get memory beyond their reserves.
//!
//! A quarter of the memory is reserved in equal parts, one for each client that may come: a request that fits into its
//! client's reserve waits for no other client. Half and an eighth are in common. A client that has nothing of the common part
//! gets what it asks for as soon as that is free; one that has some gets more only while as much is left for others. The
//! rest is for the one request whose bytes are being copied.

use crate::client::Client;
use nbd::Violation;
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// What clients together may keep a server busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at a time; more are hung up on.
    pub clients: usize,
    /// What each of them may.
    pub client: nbd::Limits,
    /// Bytes that are held for all of them, from the first byte of a request until the last byte of its answer was sent.
    /// Other requests stay in the sockets. A request that is larger than the common part of it is let in alone. Beside it each client
    /// has a buffer to receive into.
    pub bytes: usize,
    /// So long a client may take to choose an export.
    pub handshake: Duration,
    /// So long a client may hold common memory that another waits for without taking or giving a byte. A client that takes no
    /// byte of its answers for so long is named in the log, also where no other waits.
    pub patience: Duration,
    /// So long clients have for taking the last answers when the server is stopped.
    pub drain: Duration,
}

/// 64 clients with 256 MiB together, ten seconds to choose, half a minute to stir, ten seconds to the end.
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

impl Limits {
    /// The bytes that each client has to itself.
    pub(crate) fn reserve(&self) -> usize {
        self.bytes / 4 / self.clients.max(1)
    }

    /// The bytes that clients have in common.
    fn common(&self) -> usize {
        self.bytes - self.bytes / 4 - self.bytes / 8
    }
}

/// Shares the common memory out.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The first client from this one on is asked first.
    turn: u64,
    /// A client that has nothing of the common memory waits for it.
    full: bool,
}

/// Something that ends a client.
#[derive(Debug)]
pub(crate) enum Verdict {
    Violation(Violation),
    /// It has taken too long, with what.
    Late(&'static str),
    /// It may go on when it likes, and the log is told what it does not do.
    Slow(&'static str),
}

impl Shares {
    /// Lets clients' requests in, in turn, while there is memory for them. `others` bytes are held for no client that is here.
    pub fn share(
        &mut self,
        clients: &mut BTreeMap<u64, Client>,
        limits: &Limits,
        others: usize,
    ) -> Vec<(u64, Verdict)> {
        self.full = false;
        let mut verdicts = Vec::new();
        if clients.values().all(|client| client.connection.wanted().is_none()) {
            return verdicts;
        }
        let (reserve, common) = (limits.reserve(), limits.common());
        let excess = |client: &Client| client.held().saturating_sub(reserve);
        let mut used = clients.values().map(excess).sum::<usize>() + others;
        let in_turn = clients.range(self.turn..).chain(clients.range(..self.turn));
        let order: Vec<u64> = in_turn.filter(|(_, client)| !client.gone).map(|(id, _)| *id).collect();
        let mut granted = true;
        while std::mem::take(&mut granted) {
            for id in &order {
                let Some(client) = clients.get_mut(id).filter(|client| !client.gone) else { continue };
                let Some(wanted) = client.connection.wanted() else { continue };
                let has = excess(client);
                let more = (client.held() + wanted).saturating_sub(reserve) - has;
                let fits = match has {
                    // However large it is, it is let in when all of the common memory is free.
                    0 => used + more <= common || used == 0,
                    _ => used + more <= common && has + more <= common - used - more,
                };
                if fits && !self.full {
                    if let Err(violation) = client.connection.grant() {
                        verdicts.push((*id, Verdict::Violation(violation)));
                    }
                    used = used + excess(client) - has;
                    self.turn = id + 1;
                    granted = true;
                } else if has == 0 {
                    // Those behind it would keep it waiting for ever.
                    self.full = true;
                }
            }
        }
        verdicts
    }

    /// Who has taken too long by `now`.
    pub fn late(
        &self,
        clients: &BTreeMap<u64, Client>,
        limits: &Limits,
        now: Instant,
    ) -> Vec<(u64, Verdict)> {
        let late = |(id, client): (&u64, &Client)| {
            let due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
            match self.deadline(client, limits).filter(|(at, _)| *at <= now) {
                Some((_, what)) => Some((*id, Verdict::Late(what))),
                None if due(slow(client, limits)) => {
                    Some((*id, Verdict::Slow("it does not take its answers")))
                }
                None => None,
            }
        };
        clients.iter().filter_map(late).collect()
    }

    /// When somebody will have taken too long.
    pub fn next_event(&self, clients: &BTreeMap<u64, Client>, limits: &Limits) -> Option<Instant> {
        let ends = |client| self.deadline(client, limits).map(|(at, _)| at);
        clients.values().flat_map(|client| [ends(client), slow(client, limits)]).flatten().min()
    }

    fn deadline(&self, client: &Client, limits: &Limits) -> Option<(Instant, &'static str)> {
        if client.gone {
            None
        } else if !client.connection.is_open() {
            Some((client.since + limits.handshake, "it took too long to choose an export"))
        } else if self.full && client.is_awaited() && client.held() > limits.reserve() {
            Some((client.stirred + limits.patience, "others wait for memory that it does not use"))
        } else {
            None
        }
    }
}

/// When a client counts as slow that takes nothing of its answers.
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

    /// A client that has opened the export and has sent these bytes.
    fn client(limits: &Limits, sent: &[u8]) -> Client {
        let export =
            Export::new("", 1 << 30).unwrap().with(Abilities { write: true, ..Abilities::default() });
        let connection = Connection::new([export].into(), Tls::Off, limits.client);
        let (here, _) = UnixStream::pair().unwrap();
        let mut client = Client::new(connection, OwnedFd::from(here), "a test".to_owned(), NOW);
        client.connection.reserve(limits.reserve());
        client.received(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0", NOW).unwrap();
        while client.connection.poll().is_some() {}
        let greeting = client.connection.output().len();
        client.connection.sent(greeting).unwrap();
        client.received(sent, NOW).unwrap();
        client
    }

    fn reads(requests: usize, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        [&b"\x25\x60\x95\x13\0\0\0\0cookie!!\0\0\0\0\0\0\0\0"[..], &length].concat().repeat(requests)
    }

    fn share(clients: &mut BTreeMap<u64, Client>, limits: &Limits) -> bool {
        let mut shares = Shares::default();
        assert!(shares.share(clients, limits, 0).is_empty());
        let held: usize = clients.values().map(Client::held).sum();
        assert!(held <= limits.bytes, "{held} bytes are held");
        shares.full
    }

    fn asked(clients: &BTreeMap<u64, Client>) -> Vec<usize> {
        clients.values().map(|client| client.connection.outstanding()).collect()
    }

    #[test]
    fn one_client_has_its_share_and_others_find_room_beside_it() {
        let limits = Limits::default();
        let many = reads(100, 32 * MIB);
        let mut clients = BTreeMap::from([(0, client(&limits, &many))]);
        assert!(!share(&mut clients, &limits));
        assert_eq!(asked(&clients), [2], "64 MiB");
        for id in 1..7 {
            clients.insert(id, client(&limits, &many));
        }
        let full = share(&mut clients, &limits);
        assert!(full, "a client that has nothing waits");
        assert_eq!(asked(&clients).iter().sum::<usize>(), 5, "{:?}", asked(&clients));
        // One with requests that its reserve holds waits for none of them.
        clients.insert(7, client(&limits, &reads(10, 64 << 10)));
        assert_eq!(asked(&clients)[7], 10);
    }

    #[test]
    fn a_request_for_which_there_is_no_room_is_not_passed_by_smaller_ones_for_ever() {
        let limits = Limits { bytes: 80 * MIB, ..Limits::default() };
        let mut clients = BTreeMap::from([
            (0, client(&limits, &reads(1, 32 * MIB))),
            (1, client(&limits, &reads(1, 32 * MIB))),
            (2, client(&limits, &reads(9, 2 * MIB))),
        ]);
        let mut shares = Shares::default();
        assert!(shares.share(&mut clients, &limits, 0).is_empty());
        assert_eq!((asked(&clients), shares.full), (vec![1, 0, 0], true));
        clients.remove(&0);
        assert!(shares.share(&mut clients, &limits, 0).is_empty());
        assert_eq!(asked(&clients)[0], 1);
    }

    #[test]
    fn a_request_larger_than_the_memory_is_let_in_alone() {
        let limits = Limits { bytes: MIB, ..Limits::default() };
        let mut clients: BTreeMap<u64, Client> =
            (0..3).map(|id| (id, client(&limits, &reads(5, 4 * MIB)))).collect();
        let mut shares = Shares::default();
        for gone in 0..3u64 {
            assert!(shares.share(&mut clients, &limits, 0).is_empty());
            assert_eq!(asked(&clients).iter().sum::<usize>(), 1);
            // A client that is gone is as good as away: what it held is free when it is put away.
            clients.remove(&gone);
        }
    }

    /// A client that holds common memory and does nothing is waited for only while another needs it.
    #[test]
    fn a_client_that_does_nothing_with_memory_that_others_need_has_a_deadline() {
        let limits = Limits { bytes: 2 * MIB, ..Limits::default() };
        let write =
            [&b"\x25\x60\x95\x13\0\0\0\x01cookie!!\0\0\0\0\0\0\0\0\0\x10\0\0"[..], &[0; 999]].concat();
        let mut clients = BTreeMap::from([(0, client(&limits, &write))]);
        let mut shares = Shares::default();
        assert!(shares.share(&mut clients, &limits, 0).is_empty());
        assert_eq!(shares.next_event(&clients, &limits), None, "no other waits");
        clients.insert(1, client(&limits, &write));
        assert!(shares.share(&mut clients, &limits, 0).is_empty());
        let late: Vec<u64> =
            shares.late(&clients, &limits, NOW + limits.patience).iter().map(|(id, _)| *id).collect();
        assert_eq!(late, [0]);
        clients.get_mut(&0).unwrap().gone = true;
        assert!(shares.late(&clients, &limits, NOW + limits.patience).is_empty(), "not twice");
        clients.remove(&0);
        assert!(shares.share(&mut clients, &limits, 0).is_empty());
        assert_eq!((asked(&clients), shares.full), (vec![1], false));
    }
}
