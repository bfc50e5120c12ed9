//! Admission of clients, and their input, which is read in round-robin order while there is memory for it.

use super::{BACKGROUND_INDEX, Exporter};
use crate::client::{Client, ClientError};
use crate::limits::{Shares, Verdict};
use crate::slots::{GivenSlot, SlotOwner};
use crate::tls::Tls;
use device::{Device, Snapshot};
use nbd::{Abilities, Connection, Event, Export};
use rustix::net::sockopt;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// The description of a snapshot that clients show to people.
const SNAPSHOT_DESCRIPTION: &str =
    "the disk as it was at one instant; requests wait for time that other clients leave";

/// The answer to a client that chooses an export and has no slot.
const NO_SLOT: &str = "no free slot: this user or address has half of the slots, or all are taken; close a connection and try again";

/// The most clients without a slot that are kept until they have received [`NO_SLOT`]. If there are more, the oldest
/// is disconnected without that answer.
const REFUSED_CLIENTS_MAX: usize = 16;

/// TCP keep-alive: a silent machine is probed after the idle time, then at each interval, and counts as gone after
/// this number of probes: after a minute in all.
const KEEPALIVE_IDLE_TIME: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Makes the socket send answers at once, and detect that the client's machine is gone.
fn set_up(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE_TIME)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_socket_keepalive(socket, true)?;
    // The same time limit applies to sent bytes that the client's machine does not acknowledge. The machine of a
    // client that takes none of its answers still acknowledges probes.
    let millis = (KEEPALIVE_IDLE_TIME + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES).as_millis();
    sockopt::set_tcp_user_timeout(socket, u32::try_from(millis).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Returns the owner of a connection's slot, and the peer's name in the log.
fn peer(socket: &TcpStream) -> (SlotOwner, String) {
    if let Ok(at) = socket.peer_addr() {
        return (SlotOwner::Machine(at.ip().to_canonical()), at.to_string());
    }
    // The kernel knows the user at the other end of every Unix socket.
    let uid = sockopt::socket_peercred(socket).map_or(u32::MAX, |peer| peer.uid.as_raw());
    let owner = match uid {
        0 => SlotOwner::Root,
        own if own == rustix::process::geteuid().as_raw() => SlotOwner::Own,
        other => SlotOwner::Member(other),
    };
    (owner, format!("this machine, user {uid}"))
}

impl<D: Device> Exporter<D> {
    /// Admits a client. A client without a free slot only gets the answer that no slot is free.
    pub(super) fn admit(&mut self, socket: OwnedFd) -> io::Result<()> {
        let socket = TcpStream::from(socket);
        if self.stopping {
            return Ok(());
        }
        self.remove_those_that_are_over()?;
        let (owner, from) = peer(&socket);
        let given = self.slots.give(owner);
        match given {
            Some(GivenSlot { instead_of: Some(other), .. }) => self.give_way(other)?,
            Some(_) => {}
            None => {
                if self.lines.trouble(self.clock.now()) {
                    let most = self.limits.clients;
                    warn!(
                        most,
                        from,
                        "a client is refused: there are too many clients, of its user or machine or of all"
                    );
                }
                self.make_room_for_refused()?;
            }
        }
        let mut connection =
            Connection::new(Arc::clone(&self.exports), Tls::offered(self.tls.as_ref()), self.limits.client);
        connection.reserve(self.limits.reserve());
        let id = self.next;
        self.next += 1;
        self.tally.clients += 1;
        // These options fail on a Unix socket, which needs none of them.
        let _ = set_up(&socket);
        let mut client = Client::new(connection, socket.into(), from, self.clock.now());
        client.slot = given.map(|given| given.slot);
        self.clients.insert(id, client);
        Ok(())
    }

    /// Ends the client that has lost its slot, because it has not chosen an export yet.
    fn give_way(&mut self, slot: u64) -> io::Result<()> {
        if let Some(id) = self.client_of(Some(slot)) {
            self.late(id, "another client comes, and this one has not chosen an export");
        }
        self.remove_those_that_are_over()
    }

    /// Ends the oldest client without a slot if [`REFUSED_CLIENTS_MAX`] of them are kept.
    fn make_room_for_refused(&mut self) -> io::Result<()> {
        let refused = self.clients.values().filter(|client| client.slot.is_none()).count();
        if let Some(oldest) = self.client_of(None).filter(|_| refused >= REFUSED_CLIENTS_MAX) {
            self.hang_up(oldest);
        }
        self.remove_those_that_are_over()
    }

    /// Returns the client with this slot, or the oldest without one.
    fn client_of(&self, slot: Option<u64>) -> Option<u64> {
        self.clients.iter().find(|(_, client)| client.slot == slot).map(|(id, _)| *id)
    }

    /// Handles the first `bytes` bytes of a client's buffer: at once, unless they belong to a TLS handshake.
    pub(super) fn has_come(&mut self, id: u64, mut buffer: Vec<u8>, bytes: usize) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.is_handshaking() {
            buffer.truncate(bytes);
            client.keep_handshake(buffer);
            return self.handshakes.push_back(id);
        }
        self.received(id, buffer.get(..bytes).unwrap_or(&buffer));
        if let Some(client) = self.clients.get_mut(&id) {
            client.reuse(buffer);
        }
    }

    /// Does a step of one client's TLS handshake. A step takes milliseconds, so this is called once in each iteration
    /// of the event loop. Returns whether more clients wait for a step.
    pub(super) fn shake_hands(&mut self) -> bool {
        if let Some(id) = self.handshakes.pop_front()
            && let Some(bytes) = self.clients.get_mut(&id).and_then(Client::take_handshake)
        {
            self.received(id, &bytes);
        }
        !self.handshakes.is_empty()
    }

    pub(super) fn received(&mut self, id: u64, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if !client.connection.is_open() {
            let no_slot = client.slot.is_none().then(|| NO_SLOT.to_owned());
            client.connection.set_closed(no_slot.or_else(|| self.disk.taken()));
            self.offer_snapshots(id);
        }
        let Some(client) = self.clients.get_mut(&id) else { return };
        let result = client.received(bytes);
        self.events(id, result);
    }

    /// Offers a client the snapshots that the device has at present.
    fn offer_snapshots(&mut self, id: u64) {
        let snapshots = self.disk.snapshots();
        if *self.snapshots != *snapshots {
            self.offered = self.with_snapshots(&snapshots);
            self.snapshots = Arc::from(snapshots);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.connection.set_exports(Arc::clone(&self.offered));
            client.snapshots = Arc::clone(&self.snapshots);
        }
    }

    /// Returns the exports, and one for each snapshot. An export of a snapshot has no block status, because the device
    /// reports only the holes of the present disk.
    fn with_snapshots(&self, snapshots: &[Snapshot]) -> Arc<[Export]> {
        let first = self.exports.first();
        let of = |snapshot: &Snapshot| {
            let first = first?;
            let abilities = Abilities {
                write: false,
                fua: false,
                cache: false,
                block_status: false,
                ..first.abilities()
            };
            let export =
                Export::new(&snapshot.name, first.size()).ok()?.describe(SNAPSHOT_DESCRIPTION).ok()?;
            export.with(abilities).blocks(first.block_sizes()).ok()
        };
        let all: Option<Vec<Export>> = snapshots.iter().map(of).collect();
        self.exports.iter().cloned().chain(all.unwrap_or_default()).collect()
    }

    /// Handles the events of a client's connection, after input or an answer.
    pub(super) fn events(&mut self, id: u64, result: Result<(), ClientError>) {
        if let Some(client) = self.clients.get_mut(&id) {
            self.tally.add(client.connection.take_answered());
        }
        while let Some(event) = self.clients.get_mut(&id).and_then(|client| client.connection.poll()) {
            match event {
                Event::Request(request) => self.request(id, request),
                Event::Ended => {
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.ending = true;
                    }
                }
                Event::Opened(export) => {
                    let logged = self.lines.usual(self.clock.now());
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.opened = true;
                        if let Some(slot) = client.slot {
                            self.slots.request_received(slot);
                        }
                        client.background = export >= BACKGROUND_INDEX;
                        client.snapshot = export
                            .checked_sub(self.exports.len())
                            .and_then(|at| client.snapshots.get(at))
                            .map(|snapshot| snapshot.number);
                        if logged {
                            let background = client.background;
                            info!(client = id, from = client.from, background, "opened");
                        }
                    }
                }
                Event::StartTls => self.start_tls(id),
                Event::Unfinished { offset } => self.unfinished(id, offset),
            }
        }
        if let Err(error) = result {
            self.broken(id, &error);
        }
    }

    fn start_tls(&mut self, id: u64) {
        let Some((tls, client)) = self.tls.as_ref().zip(self.clients.get_mut(&id)) else { return };
        if let Err(error) = client.start_tls(tls) {
            if self.lines.trouble(self.clock.now()) {
                warn!(client = id, %error, "hung up on: no encryption");
            }
            self.hang_up(id);
        }
    }

    /// Ends clients that have taken too long, and then admits input for which there is memory.
    pub(super) fn share(&mut self) {
        let now = self.clock.now();
        let late = Shares::late(&self.clients, &self.limits, now);
        self.judge(late);
        let verdicts = self.shares.share(&mut self.clients, &self.limits, self.others);
        self.judge(verdicts);
        let let_in: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, client)| client.connection.has_events())
            .map(|(id, _)| *id)
            .collect();
        for id in let_in {
            self.events(id, Ok(()));
        }
    }

    fn judge(&mut self, verdicts: Vec<(u64, Verdict)>) {
        for (id, verdict) in verdicts {
            match verdict {
                Verdict::Violation(violation) => self.events(id, Err(violation.into())),
                Verdict::Late(why) => self.late(id, why),
                Verdict::Slow(why) => self.slow(id, why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::ExportConfig;
    use std::net::TcpListener;

    #[test]
    fn a_machine_that_answers_nothing_is_gone_after_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_up(&socket).unwrap();
        assert!(socket.nodelay().unwrap() && sockopt::socket_keepalive(&socket).unwrap());
        let silence = sockopt::tcp_keepidle(&socket).unwrap();
        let pauses = sockopt::tcp_keepintvl(&socket).unwrap() * sockopt::tcp_keepcnt(&socket).unwrap();
        assert_eq!((silence + pauses).as_secs(), 60);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 60_000);
    }

    /// A step of a handshake takes milliseconds, so one is done in each iteration.
    #[test]
    fn many_handshakes_that_begin_at_once_are_done_one_in_each_iteration() {
        if device::Ring::new().is_err() {
            return testing::missing("io_uring");
        }
        let dir = std::env::temp_dir().join(format!("freeblock-handshakes-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = |name: &str| dir.join(name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(file("certificate"), certificate.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        std::fs::write(file("disk"), [0; 4096]).unwrap();
        let tls = Tls::from_files(&file("certificate"), &file("key"), None, true).unwrap();
        let options = device::Options { buffered: true, ..device::Options::default() };
        let disk = device::Raw::open(file("disk"), options).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let (mut exporter, _) = Exporter::new(disk, ExportConfig::default(), Vec::new()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        let mut hello = Vec::new();
        let mut peer = rustls::ClientConnection::new(config.into(), "localhost".try_into().unwrap()).unwrap();
        peer.write_tls(&mut hello).unwrap();
        let mut peers = Vec::new();
        for id in 0..10 {
            let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
            let connection =
                Connection::new(Arc::clone(&exporter.exports), nbd::Tls::Required, exporter.limits.client);
            let mut client = Client::new(connection, here.into(), String::new(), exporter.clock.now());
            client.start_tls(&tls).unwrap();
            exporter.clients.insert(id, client);
            exporter.has_come(id, [&hello[..], &[0; 100]].concat(), hello.len());
            peers.push(there);
        }
        let served = |exporter: &Exporter<_>| exporter.clients.values().filter(|client| client.heard).count();
        for done in 0..10 {
            assert_eq!(served(&exporter), done);
            assert_eq!(exporter.shake_hands(), done < 9);
        }
        assert_eq!(served(&exporter), 10);
        assert!(exporter.clients.values().all(|client| !client.gone && !client.ending));
    }
}
