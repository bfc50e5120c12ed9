//! The event loop of one drive.

use crate::client::Client;
use crate::listen::Listener;
use device::{Answer, Ask, Clock, Emulated, Ended, Failure, Ring, Token, Work};
use hdrhistogram::Histogram;
use nbd::{Abilities, BlockSizes, Command, Connection, Errno, Event, Export, Reply, Request, Tls};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use thiserror::Error;
use tracing::{debug, info, warn};
use units::{Lbn, LbnRange, Sectors};

/// What clients together may keep a server busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at a time; more are hung up on.
    pub clients: usize,
    /// What each of them may.
    pub client: nbd::Limits,
}

/// 64 clients.
impl Default for Limits {
    fn default() -> Self {
        Self { clients: 64, client: nbd::Limits::default() }
    }
}

/// What ends a server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The drive cannot be offered.
    #[error(transparent)]
    Export(#[from] nbd::ExportError),
    /// The kernel gives no ring, or the ring fails.
    #[error(
        "io_uring: {0}; it needs Linux 5.11 or later, and may be switched off (sysctl kernel.io_uring_disabled)"
    )]
    Ring(io::Error),
}

/// What a server has done.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// Clients that came.
    pub clients: u64,
    /// Requests answered well.
    pub requests: u64,
    /// Requests answered with an error.
    pub failed: u64,
    /// How long after the drive was done its host knew, in nanoseconds.
    pub lateness: Histogram<u64>,
}

/// Ends a server from another thread or a signal's handler: what clients have asked is still answered.
#[derive(Debug)]
pub struct Stop(UnixStream);

impl Stop {
    /// Now.
    ///
    /// # Errors
    /// The server is gone already.
    pub fn stop(&self) -> io::Result<()> {
        (&self.0).write_all(&[0])
    }
}

/// Serves an emulated drive to NBD clients, all of them on the calling thread.
#[derive(Debug)]
pub struct Exporter {
    clock: Clock,
    disk: Emulated,
    exports: Arc<[Export]>,
    /// Sectors that go to the drive at once.
    most: u64,
    limits: Limits,
    listeners: Vec<Listener>,
    accepting: Vec<(Token, usize)>,
    clients: BTreeMap<u64, Client>,
    /// By the name that the drive knows it under.
    asked: BTreeMap<u64, Asked>,
    next: u64,
    stopping: bool,
    tally: Tally,
    stop: Arc<OwnedFd>,
    // Last, so that what is under way ends before what it works on.
    ring: Ring,
}

/// A client's request that the drive has.
#[derive(Debug)]
struct Asked {
    client: u64,
    request: Request,
    /// Of zeroes, which go to the drive piece by piece: what is still to be written.
    rest: Option<LbnRange>,
}

impl Exporter {
    /// Offers `disk` under `name` at every listener.
    ///
    /// # Errors
    /// A name that the protocol cannot carry, or a kernel without io_uring.
    pub fn new(
        disk: Emulated,
        name: &str,
        listeners: Vec<Listener>,
        limits: Limits,
    ) -> Result<(Self, Stop), ServeError> {
        let abilities = Abilities {
            write: true,
            flush: true,
            fua: true,
            write_zeroes: true,
            rotational: true,
            multi_conn: true,
            ..Abilities::default()
        };
        let sector = disk.sector_bytes().get();
        let blocks = BlockSizes::sectors(u32::try_from(sector).unwrap_or(u32::MAX));
        let export = Export::new(name, disk.size().get())?.with(abilities).blocks(blocks)?;
        let ring = Ring::new().map_err(ServeError::Ring)?;
        let (ours, theirs) = UnixStream::pair().map_err(ServeError::Ring)?;
        let lateness = disk.lateness().clone();
        let exporter = Self {
            clock: Clock::start(),
            most: (u64::from(blocks.maximum) / sector).max(1),
            disk,
            exports: Arc::from([export]),
            limits,
            listeners,
            accepting: Vec::new(),
            clients: BTreeMap::new(),
            asked: BTreeMap::new(),
            next: 0,
            stopping: false,
            tally: Tally { clients: 0, requests: 0, failed: 0, lateness },
            stop: Arc::new(ours.into()),
            ring,
        };
        Ok((exporter, Stop(theirs)))
    }

    /// Serves until it is stopped; what it has done.
    ///
    /// # Errors
    /// The ring's. A client's errors end that client only.
    pub fn run(mut self) -> Result<Tally, ServeError> {
        self.serve().map_err(ServeError::Ring)?;
        self.tally.lateness = self.disk.lateness().clone();
        Ok(self.tally)
    }

    fn serve(&mut self) -> io::Result<()> {
        self.ring.start(Work::Readable(Arc::clone(&self.stop)))?;
        for at in 0..self.listeners.len() {
            self.accept(at)?;
        }
        while !self.stopping || !self.clients.is_empty() {
            let until = self.disk.next_event().map(|at| self.clock.at(at));
            self.ring.wait(until)?;
            while let Some(ended) = self.ring.next_ended() {
                self.ended(ended)?;
            }
            let now = self.clock.now();
            self.disk.advance(now);
            while let Some(answer) = self.disk.poll(self.clock.now()) {
                self.answered(answer);
            }
            self.tend()?;
        }
        Ok(())
    }

    fn accept(&mut self, at: usize) -> io::Result<()> {
        let token = self.ring.start(Work::Accept(Arc::clone(&self.listeners[at].socket)))?;
        self.accepting.push((token, at));
        Ok(())
    }

    /// All clients go on; those that are over, go.
    fn tend(&mut self) -> io::Result<()> {
        for client in self.clients.values_mut() {
            if self.stopping && client.asked == 0 {
                client.ending = true;
            }
            client.go_on(&mut self.ring)?;
        }
        let over: Vec<u64> = self.clients.iter().filter(|(_, c)| c.is_over()).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(token) = self.clients.remove(&id).and_then(|client| client.under_way()) {
                self.ring.cancel(token)?;
            }
            debug!(client = id, "closed");
        }
        Ok(())
    }

    fn ended(&mut self, ended: Ended) -> io::Result<()> {
        let Ended { token, work, result, client } = ended;
        match work {
            Work::Accept(_) => {
                let place = self.accepting.iter().position(|(t, _)| *t == token);
                let at = place.map(|place| self.accepting.swap_remove(place).1);
                if let Err(error) = &result {
                    warn!(%error, "a client could not be taken in");
                }
                if let Some(socket) = client {
                    self.welcome(socket);
                }
                if let Some(at) = at.filter(|_| !self.stopping) {
                    self.accept(at)?;
                }
            }
            Work::Readable(_) => {
                info!("stopping");
                self.stopping = true;
                for (token, _) in self.accepting.clone() {
                    self.ring.cancel(token)?;
                }
            }
            Work::Receive(_, bytes) => {
                let Some(id) = self.whose(token) else { return Ok(()) };
                match result {
                    Ok(0) => self.lost(id, "it closed the connection"),
                    Ok(received) => self.received(id, bytes.get(..received).unwrap_or(&bytes)),
                    Err(error) => self.lost(id, &error.to_string()),
                }
            }
            Work::Send(..) => {
                let Some(id) = self.whose(token) else { return Ok(()) };
                match result {
                    Ok(sent) => {
                        if let Some(client) = self.clients.get_mut(&id) {
                            client.connection.sent(sent);
                        }
                    }
                    Err(error) => self.lost(id, &error.to_string()),
                }
            }
            Work::ReadAt(..) | Work::WriteAt(..) | Work::Make(..) | Work::Sync(_) => {}
        }
        Ok(())
    }

    fn whose(&mut self, token: Token) -> Option<u64> {
        self.clients.iter_mut().find_map(|(id, client)| client.ended(token).then_some(*id))
    }

    fn welcome(&mut self, socket: OwnedFd) {
        if self.clients.len() >= self.limits.clients || self.stopping {
            warn!(most = self.limits.clients, "a client is hung up on: there are as many as may be");
            return;
        }
        let connection = Connection::new(Arc::clone(&self.exports), Tls::Off, self.limits.client);
        let id = self.next;
        self.next += 1;
        self.tally.clients += 1;
        debug!(client = id, "came");
        self.clients.insert(id, Client::new(connection, socket));
    }

    fn lost(&mut self, id: u64, why: &str) {
        if let Some(client) = self.clients.get_mut(&id) {
            if !client.ending {
                debug!(client = id, why, "lost");
            }
            client.gone = true;
        }
    }

    fn received(&mut self, id: u64, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let result = client.connection.receive(bytes);
        self.events(id, result);
    }

    /// What a client's connection has to say, after bytes or an answer.
    fn events(&mut self, id: u64, result: Result<(), nbd::Violation>) {
        while let Some(event) = self.clients.get_mut(&id).and_then(|client| client.connection.poll()) {
            match event {
                Event::Request(request) => self.request(id, request),
                Event::Ended => {
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.ending = true;
                    }
                }
                Event::Opened(_) => info!(client = id, "opened"),
                // Not offered.
                Event::StartTls => self.lost(id, "it wants TLS"),
            }
        }
        if let Err(violation) = result {
            warn!(client = id, %violation, "a client that does not keep to the protocol");
            self.lost(id, "it does not keep to the protocol");
        }
    }

    fn request(&mut self, id: u64, mut request: Request) {
        let sector = self.disk.sector_bytes().get();
        let range = LbnRange::new(
            Lbn::new(request.offset / sector),
            Sectors::new(u64::from(request.length) / sector),
        );
        let data = std::mem::take(&mut request.data);
        let through = request.fua;
        let (range, ask, rest) = match request.command {
            Command::Read => (range, Ask::Read, None),
            Command::Write => (range, Ask::Write { bytes: data, through }, None),
            Command::Flush => (range, Ask::Flush, None),
            // A disk has no quicker way than writing them.
            Command::WriteZeroes { fast: false, .. } => {
                let (first, rest) = self.split(range);
                (first, self.zeroes(first, through), rest)
            }
            Command::WriteZeroes { fast: true, .. } => {
                return self.refuse(id, &request, "a disk has no fast way to zero");
            }
            Command::Trim | Command::Cache | Command::BlockStatus { .. } => {
                return self.refuse(id, &request, "it was not offered");
            }
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.asked += 1;
        }
        self.ask(Asked { client: id, request, rest }, range, ask);
    }

    fn refuse(&mut self, id: u64, request: &Request, message: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.tally.failed += 1;
        let reply = Reply::Failed { errno: Errno::NotSupported, offset: None, message };
        let result = client.connection.reply(request, &reply);
        self.events(id, result);
    }

    /// What goes to the drive at once, and what is left of it.
    fn split(&self, range: LbnRange) -> (LbnRange, Option<LbnRange>) {
        let first = LbnRange::new(range.start(), Sectors::new(range.len().get().min(self.most)));
        let rest = LbnRange::new(first.end(), range.len() - first.len());
        (first, (!rest.is_empty()).then_some(rest))
    }

    fn zeroes(&self, range: LbnRange, through: bool) -> Ask {
        let bytes = vec![0; (range.len().get() * self.disk.sector_bytes().get()) as usize];
        Ask::Write { bytes, through }
    }

    fn ask(&mut self, asked: Asked, range: LbnRange, ask: Ask) {
        let name = self.next;
        self.next += 1;
        self.asked.insert(name, asked);
        self.disk.ask(self.clock.now(), name, range, ask);
    }

    fn answered(&mut self, answer: Answer) {
        let Some(mut asked) = self.asked.remove(&answer.id) else { return };
        if let (Ok(_), Some(rest)) = (&answer.result, asked.rest.take()) {
            let (range, rest) = self.split(rest);
            let ask = self.zeroes(range, asked.request.fua);
            return self.ask(Asked { rest, ..asked }, range, ask);
        }
        let sector = self.disk.sector_bytes().get();
        let Some(client) = self.clients.get_mut(&asked.client) else { return };
        client.asked -= 1;
        let message;
        let reply = match &answer.result {
            Ok(bytes) if asked.request.command == Command::Read => Reply::Data(bytes),
            Ok(_) => Reply::Done,
            Err(failure) => {
                message = failure.to_string();
                warn!(client = asked.client, %failure, offset = asked.request.offset, "a request failed");
                let (errno, offset) = blame(failure, sector);
                Reply::Failed { errno, offset, message: &message }
            }
        };
        if answer.result.is_ok() {
            self.tally.requests += 1;
        } else {
            self.tally.failed += 1;
        }
        let result = client.connection.reply(&asked.request, &reply);
        self.events(asked.client, result);
    }
}

/// What a client is told of a failure: the error, and the first byte that failed.
fn blame(failure: &Failure, sector: u64) -> (Errno, Option<u64>) {
    match failure {
        Failure::Medium(lbn) => (Errno::Io, Some(lbn.get() * sector)),
        Failure::File(error) if error.kind() == io::ErrorKind::StorageFull => (Errno::NoSpace, None),
        Failure::Command(_) | Failure::Length { .. } => (Errno::Invalid, None),
        _ => (Errno::Io, None),
    }
}
