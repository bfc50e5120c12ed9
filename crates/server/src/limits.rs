//! What clients together may keep a server busy with, and whose turn it is when they want more.

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
    /// Bytes of all requests and answers. What is beyond is left in the sockets, but for one client's share: each client is
    /// looked at while there is room, and what it has sent by then comes in.
    pub bytes: usize,
    /// So long a client may take to choose an export.
    pub handshake: Duration,
    /// So long a client may keep others from memory without taking or giving a byte. Who takes nothing of his answers for so
    /// long is named in the log, also where nobody waits.
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

/// Shares memory out: who is let in when there is not enough for all.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Whose turn it is: the first client from this one on.
    turn: u64,
    /// Whether anybody waits for others' memory.
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
    /// Lets clients' requests in, in turn, while there is memory for them. `extra` bytes are taken already.
    pub fn share(
        &mut self,
        clients: &mut BTreeMap<u64, Client>,
        limits: &Limits,
        extra: usize,
        now: Instant,
    ) -> Vec<(u64, Verdict)> {
        // What those hold who are gone is as good as free.
        let here = |(_, client): &(&u64, &Client)| !client.gone;
        let mut held = clients.iter().filter(here).map(|(_, client)| client.memory()).sum::<usize>() + extra;
        if held < limits.bytes && !self.full {
            return Vec::new();
        }
        let mut verdicts = Vec::new();
        // If none of them can go on without being heard, the first must be: what all of them have sent is half a request.
        let mut forced = clients.values().all(|client| client.asked == 0) && extra == 0;
        let turn = self.turn;
        let in_turn = clients.range(turn..).chain(clients.range(..turn));
        // Who has said his last word is not waited for: if he were the one who is heard, nobody would be, and nothing that
        // is to come would change it.
        let stays = |(_, client): &(&u64, &Client)| !client.gone && !client.is_over();
        let order: Vec<u64> = in_turn.filter(stays).map(|(id, _)| *id).collect();
        self.full = held >= limits.bytes;
        for id in order {
            let Some(client) = clients.get_mut(&id) else { continue };
            let wants = client.connection.is_waiting();
            let (fits, forces) = (held < limits.bytes, forced && wants);
            forced &= !forces;
            let before = client.memory();
            if let Err(violation) = client.pause(!fits && !forces, now) {
                verdicts.push((id, Verdict::Violation(violation)));
            }
            // Who is forced stays the first until it has said what it has to say.
            match (fits, forces) {
                (true, _) => self.turn = id + 1,
                (false, true) => self.turn = id,
                (false, false) => {}
            }
            held = held + client.memory() - before;
            self.full |= held >= limits.bytes;
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
        } else if self.full && client.is_awaited() && client.memory() > 0 {
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

    /// Clients that have each opened the export and sent half of a write, as much as is written here.
    fn half_sent(bytes: &[usize]) -> BTreeMap<u64, Client> {
        let client = |sent: &usize| {
            let exports =
                [Export::new("", 1 << 20).unwrap().with(Abilities { write: true, ..Abilities::default() })];
            let connection = Connection::new(exports.into(), Tls::Off, nbd::Limits::default());
            let (here, _) = UnixStream::pair().unwrap();
            let mut client = Client::new(connection, OwnedFd::from(here), "a test".to_owned(), NOW);
            client.received(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0", NOW).unwrap();
            while client.connection.poll().is_some() {}
            let greeting = client.connection.output().len();
            client.connection.sent(greeting);
            client.received(b"\x25\x60\x95\x13\0\0\0\x01cookie!!\0\0\0\0\0\0\0\0\0\x01\0\0", NOW).unwrap();
            client.received(&vec![0; *sent], NOW).unwrap();
            client
        };
        (0..).zip(bytes.iter().map(client)).collect()
    }

    fn heard(clients: &BTreeMap<u64, Client>) -> Vec<u64> {
        clients.iter().filter(|(_, client)| client.connection.is_ready()).map(|(id, _)| *id).collect()
    }

    /// Two that have filled the memory between them: one is heard for as long as it takes to say why, and has a deadline.
    /// One that has been hung up on and is not put away yet is not that one: it has nothing more to say, and nobody else
    /// would be heard, nor waited for, ever.
    #[test]
    fn who_is_gone_is_not_whose_turn_it_is() {
        let limits = Limits { bytes: 1 << 10, ..Limits::default() };
        for gone in [None, Some(0), Some(1), Some(2)] {
            let mut shares = Shares::default();
            let mut clients = half_sent(&[700, 700, 700]);
            if let Some(gone) = gone {
                clients.get_mut(&gone).unwrap().gone = true;
            }
            for _ in 0..3 {
                let verdicts = shares.share(&mut clients, &limits, 0, NOW);
                assert!(verdicts.is_empty(), "{verdicts:?}");
                let heard = heard(&clients);
                assert_eq!(heard.iter().filter(|id| Some(**id) != gone).count(), 1, "{gone:?}: {heard:?}");
                let due = shares.next_event(&clients, &limits);
                assert_eq!(due, Some(NOW + limits.patience), "{gone:?}: somebody is waited for");
            }
        }
    }

    /// One that has said goodbye in the midst of a write, and to whom all is said, is waited for by nobody: the turn is another's.
    /// One to whom something is yet to be said is not over, and keeps its turn.
    #[test]
    fn who_has_said_his_last_word_is_not_whose_turn_it_is() {
        let limits = Limits { bytes: 1 << 10, ..Limits::default() };
        for (asked, over) in [(0, true), (1, false)] {
            for ending in [0, 1, 2] {
                let mut shares = Shares { turn: ending, ..Shares::default() };
                let mut clients = half_sent(&[700, 700, 700]);
                let client = clients.get_mut(&ending).unwrap();
                (client.ending, client.asked) = (true, asked);
                assert_eq!(client.is_over(), over);
                for _ in 0..3 {
                    let verdicts = shares.share(&mut clients, &limits, 0, NOW);
                    assert!(verdicts.is_empty(), "{verdicts:?}");
                    let mut heard = heard(&clients);
                    if over {
                        // Nobody reads what the one that is over sends: it is not told to wait, and is not counted.
                        heard.retain(|id| *id != ending);
                        assert_eq!(heard.len(), 1, "{ending}: {heard:?}");
                        assert_eq!(shares.turn, heard[0], "{ending} is over");
                    } else {
                        // With something at the device there is room to come: nobody is forced, and all wait, this one too.
                        assert!(heard.is_empty(), "{ending}: {heard:?}");
                        assert_eq!(shares.turn, ending);
                    }
                }
            }
        }
    }
}
