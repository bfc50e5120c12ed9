//! What clients did, written down by client: the pause before each request, what it took, and from how many it was chosen. A
//! [rehearsal](super::rehearsal) plays it.

use super::answers::{DEPTHS, STALL};
use super::returns::{REMEMBERED, Returns};
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// A mean is of so many, or as of those who are chosen from fewer.
const KNOWN: u64 = 8;

/// A request that comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Its place in the order of arrival.
    pub sequence: u64,
    pub arrived: Instant,
    /// Whether it came on the heels of another.
    pub follows: bool,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waits {
    arrived: Instant,
    client: usize,
    /// Since the client's last was done, if that was seen.
    pause: Option<Duration>,
}

/// A request that is written down: how long its client paused before, what it took, and from how many it was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub pause: u64,
    took: u64,
    /// For how long the head was busy with it after that.
    pub after: u64,
    from: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// When the first came that is written down, since that was begun.
    pub first: u64,
    pub steps: Vec<Step>,
    /// Whether the first came by itself, not in answer to another, or nothing came after the last: then it comes again when it
    /// came, not when it is done.
    pub by_itself: bool,
}

/// What clients do.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    began: Option<Instant>,
    pub requests: usize,
    pub clients: Vec<Client>,
    waiting: BTreeMap<u64, Waits>,
    /// Whose requests are done, each with when; in that order.
    away: BTreeMap<u64, (usize, Instant)>,
    /// Of those from whom somebody was chosen, how many had come before him, and how many there were beside him.
    before: [u64; 2],
    /// What they have waited who are written down, in nanoseconds.
    waited: f64,
    /// Whose request was done last, if it is written down, and when.
    last: Option<(usize, Instant)>,
}

impl Script {
    /// A request comes in answer to that one; or late, in answer to one that should have been answered; or by itself, if not whoever
    /// has been away longest `returns` some time.
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
            // It answers what was done before anything was written down, or is here for the first time.
            None => {
                self.clients.push(Client::default());
                (self.clients.len() - 1, None)
            }
        };
        self.waiting.insert(of.sequence, Waits { arrived: of.arrived, client, pause });
    }

    /// The request that is the `nth` to be done, was chosen from so many, and could have begun `since` then.
    pub fn done(&mut self, now: Instant, (nth, sequence): (u64, u64), (since, from): (Instant, usize)) {
        let began = *self.began.get_or_insert(now);
        // Of the last one it is known by now.
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

    /// When the request came that has this place in the order of arrival, if it waits.
    pub fn arrived(&self, sequence: u64) -> Option<Instant> {
        self.waiting.get(&sequence).map(|waits| waits.arrived)
    }

    /// Nobody waits any more who came before that.
    pub fn forget_before(&mut self, first: Instant) {
        self.waiting.retain(|_, waits| waits.arrived >= first);
    }

    /// What requests take that are chosen from so many.
    fn means(&mut self) -> [u64; DEPTHS] {
        let steps = || self.clients.iter().flat_map(|client| &client.steps);
        let requests = (self.requests as u64).max(1);
        let mean = steps().map(|step| step.took).sum::<u64>() / requests;
        let after = steps().map(|step| step.after).sum::<u64>() / requests;
        let mut took = [(0, 0); DEPTHS];
        for step in self.clients.iter_mut().flat_map(|client| &mut client.steps) {
            // Where the drive was elsewhere for long, chance would be all that is seen.
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

    /// What is written down until now. Who waits and who is away stays known.
    pub fn take(&mut self, now: Instant) -> Played {
        let mut script = std::mem::take(self);
        let mut ended = vec![true; script.clients.len()];
        let waiting = script.waiting.values_mut().map(|waits| &mut waits.client);
        for client in waiting.chain(script.away.values_mut().map(|(client, _)| client)) {
            ended[*client] = false;
            *client = self.clients.len();
            self.clients.push(Client::default());
        }
        self.waiting = std::mem::take(&mut script.waiting);
        self.away = std::mem::take(&mut script.away);
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

/// What is played.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub clients: Vec<Client>,
    /// For how long it was written down.
    pub period: u64,
    means: [u64; DEPTHS],
    /// How many of a million are chosen at random, not in order of arrival.
    pub at_random: u64,
    /// What was waited in the mean, in nanoseconds.
    pub waited: f64,
}

impl Played {
    /// How long a request takes that is chosen from so many.
    pub fn takes(&self, step: &Step, from: usize) -> u64 {
        let [then, now] = [step.from, from.min(DEPTHS - 1)].map(|from| self.means[from]);
        (step.took + now).saturating_sub(then).max(step.took / 4)
    }
}
