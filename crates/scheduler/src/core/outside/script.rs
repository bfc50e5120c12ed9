//! The recorded behaviour of clients: the pause before each request, its service time, and the number of requests it was
//! chosen from. A [rehearsal](super::rehearsal) simulates it.

use super::answers::{DEPTHS, STALL};
use super::returns::{REMEMBERED, Returns};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use units::{Duration, Instant};

/// The minimum of requests in a mean; with fewer, the mean for a smaller number of requests is used.
const KNOWN: u64 = 8;

/// An arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Its place in the order of arrival.
    pub sequence: u64,
    pub arrived: Instant,
    /// Whether it directly followed another.
    pub follows: bool,
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
struct Waits {
    arrived: Instant,
    client: usize,
    /// The time since the client's last completion, if that was observed.
    pause: Option<Duration>,
}

/// A recorded request: the pause before it, its service time, and the number of requests it was chosen from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub pause: u64,
    took: u64,
    /// The time for which the head was busy with it after that.
    pub after: u64,
    from: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// The arrival of the first recorded request, relative to the start of the recording.
    pub first: u64,
    pub steps: Vec<Step>,
    /// Whether the first arrived independently, or no request followed the last: then it arrives at its recorded time, not
    /// after a completion.
    pub by_itself: bool,
}

/// A recording of clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    began: Option<Instant>,
    pub requests: usize,
    pub clients: Vec<Client>,
    waiting: BTreeMap<u64, Waits>,
    /// Clients that are away, with the instant of their last completion, in that order.
    away: BTreeMap<u64, (usize, Instant)>,
    /// For choices among several, the sums of earlier arrivals before the chosen one, and of the others.
    before: [u64; 2],
    /// The total wait of recorded requests in ns.
    waited: f64,
    /// The client of the last completion, if it is recorded, and its instant.
    last: Option<(usize, Instant)>,
}

impl Script {
    /// Records an arrival: after the completion that it `answers`; or a late one, after a completion that should have been
    /// answered; or an independent one, unless the client that has been away longest `returns`.
    pub fn come(&mut self, of: &Came, answers: Option<u64>, known: &Returns, returns: bool) {
        let late = || {
            let mut away = self.away.iter();
            away.find(|(_, (_, done))| returns || known.may_be_late(of.arrived.saturating_since(*done)))
                .map(|(nth, _)| *nth)
        };
        let answered = answers.or_else(late);
        let away = answered.and_then(|nth| self.away.remove(&nth));
        let (client, pause) = match away {
            Some((client, done)) => (client, Some(of.arrived.saturating_since(done))),
            None if answered.is_none() && !returns => {
                self.clients.push(Client { by_itself: true, ..Client::default() });
                (self.clients.len() - 1, Some(Duration::ZERO))
            }
            // The client was away before the recording began, or is new.
            None => {
                self.clients.push(Client::default());
                (self.clients.len() - 1, None)
            }
        };
        self.waiting.insert(of.sequence, Waits { arrived: of.arrived, client, pause });
    }

    /// Records that the `nth` request is done, which was chosen from several and could have begun at `since`.
    pub fn done(&mut self, now: Instant, (nth, sequence): (u64, u64), (since, from): (Instant, usize)) {
        let began = *self.began.get_or_insert(now);
        // The busy time after the last completion is known by now.
        if let Some((client, done)) = self.last.take()
            && let Some(step) = self.clients[client].steps.last_mut()
        {
            step.after = since.saturating_since(done).as_nanos();
        }
        let Some(Waits { arrived, client, pause }) = self.waiting.remove(&sequence) else { return };
        let before =
            self.waiting.range(..sequence).filter(|(_, other)| other.arrived <= since).count() as u64;
        self.before[0] += before;
        self.before[1] += from.saturating_sub(1) as u64;
        self.away.insert(nth, (client, now));
        while self.away.len() > REMEMBERED {
            self.away.pop_first();
        }
        let place = client;
        if let (Some(pause), Some(client)) = (pause, self.clients.get_mut(place)) {
            let took = now.saturating_since(since.max(arrived)).as_nanos();
            let from = from.min(DEPTHS - 1);
            if client.steps.is_empty() {
                client.first = arrived.saturating_since(began).as_nanos();
            }
            client.steps.push(Step { pause: pause.as_nanos(), took, after: 0, from });
            self.waited += now.saturating_since(arrived).as_nanos() as f64;
            self.requests += 1;
            self.last = Some((place, now));
        }
    }

    /// Returns the arrival of the waiting request with this place in the order of arrival.
    pub fn arrived(&self, sequence: u64) -> Option<Instant> {
        self.waiting.get(&sequence).map(|waits| waits.arrived)
    }

    /// Discards waiting requests that arrived before `first`.
    pub fn forget_before(&mut self, first: Instant) {
        self.waiting.retain(|_, waits| waits.arrived >= first);
    }

    /// Returns the mean service times by the number of requests to choose from.
    fn means(&mut self) -> [u64; DEPTHS] {
        let steps = || self.clients.iter().flat_map(|client| &client.steps);
        let requests = (self.requests as u64).max(1);
        let mean = steps().map(|step| step.took).sum::<u64>() / requests;
        let after = steps().map(|step| step.after).sum::<u64>() / requests;
        let mut took = [(0, 0); DEPTHS];
        for step in self.clients.iter_mut().flat_map(|client| &mut client.steps) {
            // A long stall of the drive would hide everything else.
            step.took = step.took.min((mean as f64 * STALL) as u64);
            step.after = step.after.min((after as f64 * STALL) as u64);
            took[step.from].0 += 1;
            took[step.from].1 += step.took;
        }
        let mut mean = mean;
        took.map(|(of, took)| {
            if of >= KNOWN {
                mean = took / of;
            }
            mean
        })
    }

    /// Returns the recording so far. The clients that wait and that are away stay known.
    pub fn take(&mut self, now: Instant) -> Played {
        let mut script = core::mem::take(self);
        let mut ended = vec![true; script.clients.len()];
        let waiting = script.waiting.values_mut().map(|waits| &mut waits.client);
        for client in waiting.chain(script.away.values_mut().map(|(client, _)| client)) {
            ended[*client] = false;
            *client = self.clients.len();
            self.clients.push(Client::default());
        }
        self.waiting = core::mem::take(&mut script.waiting);
        self.away = core::mem::take(&mut script.away);
        for (client, ended) in script.clients.iter_mut().zip(ended) {
            client.by_itself |= ended;
        }
        let means = script.means();
        script.clients.retain(|client| !client.steps.is_empty());
        let [before, beside] = script.before;
        let at_random = (before * 2_000_000).checked_div(beside).unwrap_or(0).min(1_000_000);
        let period = script.began.map_or(0, |began| now.saturating_since(began).as_nanos());
        let waited = script.waited / (script.requests as f64).max(1.0);
        Played { clients: script.clients, period, means, at_random, waited }
    }
}

/// A recording for simulation.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub clients: Vec<Client>,
    /// Its duration.
    pub period: u64,
    means: [u64; DEPTHS],
    /// The share of requests that are chosen at random, not in order of arrival, in ppm.
    pub at_random: u64,
    /// The mean wait in ns.
    pub waited: f64,
}

impl Played {
    /// Returns the service time of a request that is chosen from this many.
    pub fn takes(&self, step: &Step, from: usize) -> u64 {
        let [then, now] = [step.from, from.min(DEPTHS - 1)].map(|from| self.means[from]);
        (step.took + now).saturating_sub(then).max(step.took / 4)
    }
}
