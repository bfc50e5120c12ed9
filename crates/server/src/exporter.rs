//! The event loop of one device.

mod client_log;
mod input;
mod kernel;
mod relay;

pub use kernel::Kernel;

use crate::active_request::{
    ActiveRequest, DeviceFacts, RequestOrigin, RequestStart, blame, extents, memory,
};
use crate::client::{Client, ClientError};
use crate::export::{ExportConfig, ExportUpdate, ServeError, Tally};
use crate::fair_queue::FairQueue;
use crate::limits::{Limits, Shares};
use crate::listen::Listener;
use crate::mailbox::{Inbox, Mailbox, StopHandle, Wakes};
use crate::slots::Slots;
use crate::tls::Tls;
use client_log::{ClientLog, Lost};
use device::{
    Answer, Ask, BackgroundRequest, Clock, Device, Ended, Ring, Snapshot, Token, Ublk, UblkError, UblkPlan,
    Work,
};
use kernel::{HeldWrite, KernelState};
use nbd::{Abilities, BlockSizes, Command, Export, Reply, Request};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use tracing::{error, info, warn};
use units::{Duration, Instant, Lbn, LbnRange, Sectors};

/// The index of the background export in the list of exports. The foreground export has index 0.
const BACKGROUND_INDEX: usize = 1;

/// The pause after a failed accept, before the next one.
const ACCEPT_RETRY_TIME: Duration = Duration::from_millis(100);

/// The description of the background export that clients show to people.
const BACKGROUND_DESCRIPTION: &str = "the same disk; requests wait for time that other clients leave";

/// Called when the kernel shows a block device, or with the reason why it cannot.
type ShownCallback = Arc<dyn Fn(Result<(), UblkError>) + Send + Sync>;

/// A server of a device for NBD clients and this machine's kernel, on one thread.
pub struct Exporter<D> {
    clock: Clock,
    disk: D,
    /// Whether clients of the foreground export may write.
    writes: bool,
    writers: usize,
    /// Whether clients of the background export, and its block device, may write.
    background_writes: bool,
    exports: Arc<[Export]>,
    /// `exports`, and then one export for each snapshot in the device's latest list.
    offered: Arc<[Export]>,
    snapshots: Arc<[Snapshot]>,
    target: DeviceFacts,
    tls: Option<Tls>,
    limits: Limits,
    shares: Shares,
    listeners: Vec<Listener>,
    accepting: Vec<(Token, usize)>,
    /// Indices of listeners that accept no client now: accepting has failed, or requests of disconnected clients hold
    /// too much memory at the device.
    paused: Vec<usize>,
    /// When the paused listeners try again after a failed accept.
    accept_again: Option<Instant>,
    slots: Slots,
    clients: BTreeMap<u64, Client>,
    /// Clients whose received TLS handshake bytes wait to be handled, in order of arrival.
    handshakes: VecDeque<u64>,
    /// Clients' foreground requests that wait for the device. Background requests go to the device at once, which
    /// orders them itself.
    queue: FairQueue<(ActiveRequest, LbnRange, Ask)>,
    /// Requests that the server answers itself, within the event loop.
    answers: FairQueue<(Request, LbnRange)>,
    /// Requests at the device, by the id under which the device has them.
    asked: BTreeMap<u64, ActiveRequest>,
    /// The bytes that requests at the device hold for the kernel and for disconnected clients.
    others: usize,
    /// The device's operations in the ring: the token of each, and the number by which the device knows it.
    works: BTreeMap<Token, u64>,
    next: u64,
    /// The block devices of the foreground and of the background, if the export has them.
    nodes: [Option<Ublk>; 2],
    shown: Option<ShownCallback>,
    kernels: [KernelState; 2],
    /// Whether clients may connect and the kernel may write.
    is_open: bool,
    held: Vec<HeldWrite>,
    stopping: bool,
    /// When clients that have not taken their answers are disconnected, once the server is stopping.
    drained_by: Option<Instant>,
    tally: Tally,
    lines: ClientLog,
    inbox: Inbox<D>,
    // The last field, so that buffers outlive the operations in flight that use them.
    ring: Ring,
}

impl<D: std::fmt::Debug> std::fmt::Debug for Exporter<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes.each_ref().map(|node| node.as_ref().map(Ublk::path));
        f.debug_struct("Exporter").field("disk", &self.disk).field("nodes", &nodes).finish_non_exhaustive()
    }
}

impl<D: Device> Exporter<D> {
    /// Offers `disk` at every listener.
    ///
    /// A client may open several connections: a device's flush covers all writes acknowledged over any of them.
    ///
    /// # Errors
    /// The protocol cannot carry a name, the kernel has no io_uring, or a block device cannot be created.
    pub fn new(
        disk: D,
        export: ExportConfig,
        listeners: Vec<Listener>,
    ) -> Result<(Self, StopHandle), ServeError> {
        let can = disk.abilities();
        let abilities = Abilities {
            write: !export.read_only,
            flush: true,
            fua: true,
            trim: can.discard,
            // A device that cannot write zeroes gets them as data; clients still need not send them.
            write_zeroes: true,
            cache: true,
            rotational: can.rotational,
            multi_conn: true,
            block_status: true,
            ..Abilities::default()
        };
        let sector = disk.sector_bytes();
        let blocks = BlockSizes::sectors(u32::try_from(sector.get()).unwrap_or(u32::MAX));
        let size = disk.size().get();
        let mut exports = vec![Export::new(export.name, size)?.with(abilities).blocks(blocks)?];
        let background_writes = export.background_write && !export.read_only;
        if let Some(name) = export.background {
            let write = background_writes;
            let abilities = Abilities { write, fua: write, memory_status: true, ..abilities };
            let export = Export::new(name, size)?.describe(BACKGROUND_DESCRIPTION)?;
            debug_assert_eq!(exports.len(), BACKGROUND_INDEX);
            exports.push(export.with(abilities).blocks(blocks)?);
        }
        let sectors = Sectors::new(disk.size().get() / sector.get().max(1));
        let node = |ublk: Option<crate::export::Ublk>, read_only| {
            let plan = ublk.map(|ublk| UblkPlan {
                number: ublk.number,
                owner: ublk.owner(),
                sector,
                sectors,
                abilities: can,
                read_only,
            });
            plan.map(Ublk::open).transpose()
        };
        // The background's block device is created first. If it is refused, the foreground's device of a killed daemon,
        // which may be mounted, stays as it is.
        let background = node(export.background_ublk, !background_writes)?;
        let nodes = [node(export.ublk, export.read_only)?, background];
        let ring = Ring::new().map_err(ServeError::Ring)?;
        let inbox = Inbox::new().map_err(ServeError::Ring)?;
        let stop = inbox.mailbox().stopper();
        let most = (u64::from(blocks.maximum) / sector.get()).max(1);
        let exporter = Self {
            clock: Clock::start(),
            target: DeviceFacts { sector, abilities: can, most },
            disk,
            writes: !export.read_only,
            writers: 0,
            background_writes,
            offered: Arc::from(exports.clone()),
            snapshots: Arc::default(),
            exports: Arc::from(exports),
            tls: export.tls,
            limits: export.limits,
            shares: Shares::default(),
            listeners,
            accepting: Vec::new(),
            paused: Vec::new(),
            accept_again: None,
            slots: Slots::new(export.limits.slots()),
            clients: BTreeMap::new(),
            handshakes: VecDeque::new(),
            queue: FairQueue::default(),
            answers: FairQueue::default(),
            asked: BTreeMap::new(),
            others: 0,
            works: BTreeMap::new(),
            next: 0,
            nodes,
            shown: None,
            kernels: Default::default(),
            is_open: true,
            held: Vec::new(),
            stopping: false,
            drained_by: None,
            tally: Tally::default(),
            lines: ClientLog::default(),
            inbox,
            ring,
        };
        Ok((exporter, stop))
    }

    /// Returns a mailbox, through which other threads call the device while it is served.
    pub fn mailbox(&self) -> Mailbox<D> {
        self.inbox.mailbox()
    }

    /// Accepts no client and holds the kernel's writes until [`Mailbox::open`].
    pub fn hold(&mut self) {
        self.is_open = false;
    }

    /// Sets a callback for each block device, called from another thread when the kernel shows the device or cannot.
    pub fn when_shown(&mut self, shown: impl Fn(Result<(), UblkError>) + Send + Sync + 'static) {
        self.shown = Some(Arc::new(shown));
    }

    /// Serves until it is stopped; returns its counts and the device.
    ///
    /// # Errors
    /// The ring or the block device has failed. A client's errors end only that client.
    pub fn run(mut self) -> Result<(Tally, D), ServeError> {
        let [node, background] = std::mem::take(&mut self.nodes);
        let shown = self.shown.take().unwrap_or_else(|| Arc::new(|_| ()));
        match &node {
            None => self.serve_with_relay(None, background, shown)?,
            Some(node) => node.serve(|queue| {
                let foreground_shown = Arc::clone(&shown);
                node.start(move |result| foreground_shown(result));
                let stop = || node.stop();
                self.serve_with_relay(Some((queue, &stop)), background, shown)
            })??,
        }
        let ended = self.end();
        node.map_or(Ok(()), Ublk::close)?;
        ended
    }

    /// Serves with block devices whose queues the caller has made, until these queues have ended: at most one of the
    /// foreground and one of the background.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run), or a queue has failed.
    pub fn run_with(mut self, kernels: Vec<Kernel<'_>>) -> Result<(Tally, D), ServeError> {
        self.serve(kernels).map_err(ServeError::Ring)?;
        self.end()
    }

    /// Writes out all acknowledged writes after the last client has ended.
    fn end(mut self) -> Result<(Tally, D), ServeError> {
        self.lines.tell(self.clock.now(), true);
        self.flush().map_err(ServeError::Ring)?;
        Ok((self.tally, self.disk))
    }

    fn serve(&mut self, mut kernels: Vec<Kernel<'_>>) -> io::Result<()> {
        self.ring.start(Work::Readable(self.inbox.socket()))?;
        if self.is_open {
            self.accept_at_all()?;
        }
        // The kernel has waited since its device was made, so the first iteration does not wait.
        let mut at_once = !kernels.is_empty();
        while !self.stopping || !self.clients.is_empty() || kernels.iter().any(Kernel::is_live) {
            let late = Shares::next_event(&self.clients, &self.limits);
            let now = at_once.then(|| self.clock.now());
            let log_due = self.lines.next_event();
            let until = [self.disk.next_event(), late, log_due, self.drained_by, self.accept_again, now];
            let until = until.into_iter().flatten().min();
            self.ring.wait(until.map(|at| self.clock.at(at)))?;
            while let Some(ended) = self.ring.next_ended() {
                self.ended(ended)?;
            }
            at_once = self.dispatch();
            let now = self.clock.now();
            self.lines.tell(now, false);
            self.disk.advance(now);
            while let Some(answer) = self.disk.poll(self.clock.now()) {
                self.answered(answer);
            }
            for kernel in &mut kernels {
                at_once |= self.serve_kernel(kernel)?;
            }
            self.share();
            at_once |= self.dispatch();
            // One call an iteration, because some take milliseconds and no client should wait for several.
            if let Some(call) = self.inbox.next() {
                call(&mut self.disk, self.clock.now());
                at_once = true;
            }
            at_once |= self.shake_hands();
            self.work()?;
            at_once |= self.tend(&kernels)?;
        }
        Ok(())
    }

    /// Starts the ring operations that the device asks for.
    fn work(&mut self) -> io::Result<()> {
        while let Some((name, work)) = self.disk.next_work() {
            self.works.insert(self.ring.start(work)?, name);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let name = self.next;
        self.next += 1;
        self.disk.ask(self.clock.now(), name, LbnRange::new(Lbn::ZERO, Sectors::ZERO), Ask::Flush);
        loop {
            let now = self.clock.now();
            self.disk.advance(now);
            while let Some(answer) = self.disk.poll(now) {
                if answer.id == name {
                    if let Err(failure) = answer.result {
                        error!(%failure, "the last flush");
                    }
                    return Ok(());
                }
            }
            self.work()?;
            self.ring.wait(self.disk.next_event().map(|at| self.clock.at(at)))?;
            while let Some(ended) = self.ring.next_ended() {
                self.ended(ended)?;
            }
        }
    }

    /// Handles a wake by a mailbox: takes a new configuration, and a request to open or to stop.
    fn rung(&mut self) -> io::Result<()> {
        let Wakes { stop, open } = self.inbox.take_wakes()?;
        if let Some(ExportUpdate { limits, tls }) = self.inbox.update() {
            (self.limits, self.tls) = (limits, tls);
            self.slots.set_rules(limits.slots());
            for client in self.clients.values_mut() {
                client.connection.reserve(self.limits.reserve());
            }
        }
        if stop && !self.stopping {
            info!("stopping");
            self.stopping = true;
            self.drained_by = Some(self.clock.now() + self.limits.drain);
            for (token, _) in self.accepting.clone() {
                self.ring.cancel(token)?;
            }
            self.let_held_writes_go();
        }
        if open && !self.is_open && !self.stopping {
            self.is_open = true;
            self.accept_at_all()?;
            self.let_held_writes_go();
        }
        self.ring.start(Work::Readable(self.inbox.socket()))?;
        Ok(())
    }

    fn accept_at_all(&mut self) -> io::Result<()> {
        (0..self.listeners.len()).try_for_each(|at| self.accept(at))
    }

    fn accept(&mut self, at: usize) -> io::Result<()> {
        let token = self.ring.start(Work::Accept(Arc::clone(&self.listeners[at].socket)))?;
        self.accepting.push((token, at));
        Ok(())
    }

    /// Returns whether listeners may accept clients now.
    fn may_accept(&mut self, now: Instant) -> bool {
        self.accept_again = self.accept_again.filter(|at| *at > now);
        self.accept_again.is_none() && self.others <= self.limits.common()
    }

    /// Advances all clients and removes those that are over. Returns whether some client has another event to handle at
    /// once.
    fn tend(&mut self, kernels: &[Kernel<'_>]) -> io::Result<bool> {
        let now = self.clock.now();
        let hurry = self.drained_by.take_if(|at| *at <= now).is_some();
        if hurry {
            self.give_up_waiting_of_kernel(now);
        }
        let mut broken = Vec::new();
        for (id, client) in &mut self.clients {
            if self.stopping && client.asked == 0 {
                client.ending = true;
            }
            if hurry && !std::mem::replace(&mut client.gone, true) && self.lines.trouble(now) {
                let from = &client.from;
                warn!(client = id, from, unanswered = client.asked, "hung up on: the server ends");
            }
            if let Err(error) = client.go_on(&mut self.ring, now)? {
                broken.push((*id, error));
            }
        }
        for (id, error) in broken {
            self.broken(id, &error);
        }
        self.remove_those_that_are_over()?;
        if self.may_accept(now) {
            for at in std::mem::take(&mut self.paused) {
                if !self.stopping {
                    self.accept(at)?;
                }
            }
        } else if self.others > self.limits.common() {
            // The bytes of disconnected clients' writes keep new clients out, so the disk executes these writes at
            // once.
            self.disk.hurry(now);
        }
        let writes = |client: &&Client| {
            client.opened && client.snapshot.is_none() && self.may_write(client.background)
        };
        // The kernel does not say whether a block device is open: it counts as open while it exists.
        let shown =
            kernels.iter().filter(|kernel| kernel.is_live() && self.may_write(kernel.is_background()));
        let writers = self.clients.values().filter(writes).count() + shown.count();
        if writers != self.writers {
            self.writers = writers;
            self.disk.set_writers(writers);
        }
        let has_events = self.clients.values().any(|client| client.connection.has_events());
        Ok(has_events || self.kernels.iter().any(KernelState::has_results))
    }

    /// Returns whether requests to the background export, or to the foreground export, may write.
    fn may_write(&self, background: bool) -> bool {
        if background { self.background_writes } else { self.writes }
    }

    /// Removes the clients that are over and frees their slots. Their requests that are still at the device count in
    /// `others` until they are done.
    fn remove_those_that_are_over(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let over: Vec<u64> = self.clients.iter().filter(|(_, c)| c.is_over()).map(|(id, _)| *id).collect();
        for id in over {
            let Some(client) = self.clients.remove(&id) else { continue };
            if let Some(slot) = client.slot {
                self.slots.release(slot);
            }
            if !client.gone && self.lines.usual(now) {
                info!(client = id, from = client.from, "closed");
            }
            for token in client.under_way() {
                self.ring.cancel(token)?;
            }
            if client.background {
                for name in self.disk.leave(now, id) {
                    self.asked.remove(&name);
                }
            }
            self.queue.forget(id);
            self.answers.forget(id);
            let its = |active: &&ActiveRequest| active.from == RequestOrigin::Client(id);
            self.others +=
                self.asked.values().filter(its).map(|active| active.request.weight()).sum::<usize>();
        }
        Ok(())
    }

    fn ended(&mut self, ended: Ended) -> io::Result<()> {
        let Ended { token, work, result, client } = ended;
        match work {
            Work::Accept(_) => {
                let place = self.accepting.iter().position(|(t, _)| *t == token);
                let at = place.map(|place| self.accepting.swap_remove(place).1);
                let now = self.clock.now();
                if let Some(error) = result.err().filter(|_| !self.stopping) {
                    // Accepting fails, for instance, while no descriptor is free.
                    self.accept_again = Some(now + ACCEPT_RETRY_TIME);
                    if self.lines.trouble(now) {
                        warn!(%error, "a client could not be taken in");
                    }
                }
                if let Some(socket) = client {
                    self.admit(socket)?;
                }
                if let Some(at) = at.filter(|_| !self.stopping) {
                    if self.may_accept(now) {
                        self.accept(at)?;
                    } else {
                        self.paused.push(at);
                    }
                }
            }
            Work::Readable(_) if self.kernels.iter_mut().any(|kernel| kernel.has_become_readable(token)) => {}
            Work::Readable(_) => self.rung()?,
            Work::Receive(_, bytes) => {
                let Some(id) = self.whose(token) else { return Ok(()) };
                match result {
                    Ok(0) => self.lost(id, &Lost::Closed),
                    Ok(received) => self.has_come(id, bytes, received),
                    Err(error) => self.lost(id, &Lost::Socket(error)),
                }
            }
            Work::Send(_, bytes, from) => {
                let Some(id) = self.whose(token) else { return Ok(()) };
                match result {
                    Ok(sent) => {
                        let now = self.clock.now();
                        if let Some(client) = self.clients.get_mut(&id) {
                            let result = client.sent(&mut self.ring, bytes, from + sent, now)?;
                            self.events(id, result);
                        }
                    }
                    Err(error) => self.lost(id, &Lost::Socket(error)),
                }
            }
            Work::HangUp(_) | Work::Close(_) => {
                let Some(id) = self.whose(token) else { return Ok(()) };
                if self.clients.get_mut(&id).is_some_and(|client| client.hung_up(&result)) {
                    self.lost(id, &Lost::Closed);
                }
            }
            work @ (Work::ReadAt(..) | Work::WriteAt(..) | Work::Make(..) | Work::Sync(_)) => {
                if let Some(name) = self.works.remove(&token) {
                    self.disk.ended(self.clock.now(), name, Ended { token, work, result, client });
                }
            }
        }
        Ok(())
    }

    fn whose(&mut self, token: Token) -> Option<u64> {
        self.clients.iter_mut().find_map(|(id, client)| client.ended(token).then_some(*id))
    }

    fn request(&mut self, id: u64, request: Request) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let (background, snapshot) = (client.background, client.snapshot);
        let declares = background && snapshot.is_none() && request.command == Command::Cache;
        let begun = if declares {
            let range = self.target.range(&request);
            RequestStart::Runs(request, range)
        } else {
            self.target.begin(RequestOrigin::Client(id), request)
        };
        match begun {
            RequestStart::Asks(mut active, range, ask) => {
                client.asked += 1;
                (active.background, active.snapshot) = (background, snapshot);
                self.enqueue(id, active, range, ask);
            }
            RequestStart::Runs(request, range) => {
                client.asked += 1;
                self.answers.push(id, 0, (request, range));
            }
            RequestStart::Refused(request, errno, message) => {
                self.reply(id, &request, &Reply::Failed { errno, offset: None, message });
            }
        }
    }

    /// Adds a client's request to the fair queue for the device. A background request bypasses the queue.
    fn enqueue(&mut self, client: u64, mut active: ActiveRequest, range: LbnRange, ask: Ask) {
        if active.background {
            return self.ask(active, range, ask);
        }
        active.charge = match ask {
            Ask::Read | Ask::Write { .. } | Ask::WriteZeroes { .. } => {
                range.len().bytes(self.target.sector).get()
            }
            Ask::Flush | Ask::Discard => 0,
        };
        self.queue.push(client, active.charge, (active, range, ask));
    }

    /// Sends the next requests to the device, and answers one of those that the server answers itself, which may take
    /// milliseconds. Returns whether another call may find more to do.
    fn dispatch(&mut self) -> bool {
        while let Some((_, (active, range, ask))) = self.queue.next() {
            self.ask(active, range, ask);
        }
        let Some((id, (request, range))) = self.answers.next() else { return false };
        self.answers.done(id, 0);
        self.answer_itself(id, &request, range);
        true
    }

    /// Answers a request for which the device does no operation: which blocks are allocated or in memory, or a
    /// declaration of coming reads.
    fn answer_itself(&mut self, id: u64, request: &Request, range: LbnRange) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.asked -= 1;
        let background = client.background;
        if request.command == Command::Cache {
            self.disk.declare(self.clock.now(), id, range);
            return self.reply(id, request, &Reply::Done);
        }
        let extents = extents(&self.disk.runs(range), self.target.sector);
        if background {
            let memory = memory(range, &self.disk.in_memory(range), self.target.sector);
            self.reply(id, request, &Reply::Maps { allocation: &extents, memory: &memory });
        } else {
            self.reply(id, request, &Reply::Status(&extents));
        }
    }

    fn ask(&mut self, active: ActiveRequest, range: LbnRange, ask: Ask) {
        let name = self.next;
        self.next += 1;
        if matches!(active.from, RequestOrigin::Kernel(_)) {
            self.others += active.extra;
        }
        let (background, snapshot, from) = (active.background, active.snapshot, active.from);
        self.asked.insert(name, active);
        let now = self.clock.now();
        if !background {
            return self.disk.ask(now, name, range, ask);
        }
        let client = match from {
            RequestOrigin::Client(client) => client,
            RequestOrigin::Kernel(_) => kernel::CLIENT_NUMBER,
        };
        self.disk.ask_in_background(now, BackgroundRequest { id: name, client, range, ask, snapshot });
    }

    fn answered(&mut self, answer: Answer) {
        let Some(mut active) = self.asked.remove(&answer.id) else { return };
        let id = match active.from {
            RequestOrigin::Client(id) => Some(id),
            RequestOrigin::Kernel(_) => None,
        };
        if id.is_none() {
            self.others -= active.extra;
        }
        if let Some(id) = id.filter(|_| !active.background) {
            self.queue.done(id, active.charge);
        }
        if id.is_some_and(|id| !self.clients.contains_key(&id)) {
            self.others -= active.request.weight();
            return;
        }
        if answer.result.is_ok()
            && let Some((range, ask)) = active.next(&self.target)
        {
            return match id {
                Some(id) => self.enqueue(id, active, range, ask),
                None => self.ask(active, range, ask),
            };
        }
        let id = match active.from {
            RequestOrigin::Client(id) => id,
            RequestOrigin::Kernel(tag) => return self.answered_to_kernel(tag, &active, answer.result),
        };
        let request = active.request;
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.asked -= 1;
        let failure = match answer.result {
            Ok(bytes) if request.command == Command::Read => {
                let result = client.connection.reply_data(&request, bytes);
                return self.replied(id, result);
            }
            Ok(_) => return self.reply(id, &request, &Reply::Done),
            Err(failure) => failure,
        };
        let message = failure.to_string();
        if self.lines.trouble(self.clock.now()) {
            warn!(client = id, %failure, offset = request.offset, "a request failed");
        }
        let (errno, offset) = blame(&failure, self.target.sector);
        self.reply(id, &request, &Reply::Failed { errno, offset, message: &message });
    }

    fn reply(&mut self, id: u64, request: &Request, reply: &Reply<'_>) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let result = client.connection.reply(request, reply);
        self.replied(id, result);
    }

    /// Handles the result of an answer. Requests for which memory is free now are taken later, by
    /// [`share`](Self::share): answering one here would call this function again.
    fn replied(&mut self, id: u64, result: Result<(), nbd::Violation>) {
        if let Some(client) = self.clients.get_mut(&id) {
            self.tally.add(client.connection.take_answered());
        }
        if let Err(violation) = result {
            self.broken(id, &ClientError::from(violation));
        }
    }
}
