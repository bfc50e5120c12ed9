//! By how much longer clients wait for what the head has lost, where they come again a constant time after they were served
//! ([`returns`](super::returns)).
//!
//! Who was made to wait comes later by as much, and those who waited together come together again: what is lost once is felt
//! for many turns, the more the better clients who think for a constant time have settled out of each other's way. Who is where
//! some turns later hangs on every completion before, so that one loss more or less says nothing. What says it is the mean over
//! many: a few thousand requests are written down, by client ([`script`](super::script)). Then they
//! are rehearsed, over and over: without losses; with a turn lost in one request of ten, as detours lose it; and with one lost by some
//! of those for whom the head had waited, as idle time loses it. The losses are many since otherwise chance is more than what they
//! cost; and whole turns since who is thrown out of his place waits longer than who is late by a little each time. To idle time those
//! lose who come after the head has waited for long, and are driven towards whoever comes after them: by four times as much
//! as if any of those lost for whom it has waited. An idle command may take several turns, which throw out of place all who come
//! meanwhile: as much is lost at once as has been, if that is more than a turn.
//!
//! A write is reported sooner than the head is free behind it ([`busy`](super::busy)), and is rehearsed so. What a request takes depends on
//! from how many it is chosen: by as much as it took more or less than others from as many, it takes more or less in a rehearsal too. Who
//! was overtaken as they were written down is overtaken as often in a rehearsal. Who comes
//! after no known pause may come by himself, again and again when he came, or be who has been away longest, after a pause that
//! varies: both are rehearsed, and what is more is believed; but not of one in which without losses clients wait much longer than they were seen
//! to: who comes to a loop that keeps the drive busy answers it, whatever is seen, since others who came by themselves would wait without an end.

use super::busy::{Busy, Frees};
use super::clock::nanos;
use super::returns::Returns;
use super::script::{Came, Client, Played, Script};
use crate::lottery::Lottery;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Duration, Instant};

/// Requests that are written down: few at first, so that something is known soon.
const FIRST: usize = 512;
const MOST: usize = 8_192;

/// So often each is rehearsed; at most so many are, and of those the first eighth is not looked at. Of all three rehearsals so many are done
/// while the drive does one.
const OFTEN: usize = 8;
const REHEARSED: usize = 16_384;
const AT_ONCE: u32 = 12;

/// What is found is the mean over about so many of the longest.
const MEAN_OF: f64 = 8.0;

/// A rehearsal without losses is of other clients if they wait longer than this multiple of what was seen, in which losses are.
const FAITHFUL: f64 = 1.5;

/// Of a million requests, those that lose a turn to detours; and to idle time it is one in so many.
const ALL: u64 = 100_000;
const IDLE_ONE_IN: f64 = 30.0;

/// What they lose depends on how long it has waited, which decides what it does meanwhile: told apart by powers of two.
const WAITS: usize = 16;

/// Of so many the half is forgotten.
const IDLE_MEMORY: u32 = 32_768;

/// So much more than is rehearsed clients are taken to feel of idle time who ask several times and then pause for a time that varies,
/// which is where more than one in so many come after no known pause. Ten who ask five times, by SPTF, with a bound of 6%: 3.4% by what is
/// rehearsed and 9.8% in truth where pauses of 500 ms vary by 2 ms, 3.0% and 11.6% by 5 ms, but 3.5% and 4.6% where they are constant. Of what
/// detours lose, which are told to be more than they are there, 4.2% were 0.7%. Why is not known; four times as much to
/// rehearse tells no more.
const MORE_OF_IDLE: f64 = 4.0;
const UNKNOWN_ONE_IN: f64 = 20.0;

/// The part of bursts is of so many.
const BURSTS_OF: f64 = 64.0;

/// So many times feels nobody, as far as it is told beforehand.
const MOST_FEEL: f64 = 256.0;

/// Who loses a turn, in a million.
#[derive(Clone, Copy, Debug)]
enum Loses {
    /// Of all.
    All(u64),
    /// Of those for whom the head has waited so long: by the power of two of the milliseconds.
    First([u64; WAITS]),
}

impl Loses {
    fn chance(&self, head_waited: Option<u64>) -> u64 {
        match self {
            Self::All(chance) => *chance,
            Self::First(chances) => head_waited.map_or(0, |waited| chances[wait(waited)]),
        }
    }
}

/// Which of the [`WAITS`] that is.
fn wait(nanos: u64) -> usize {
    let power = u64::BITS - (nanos / 1_000_000).leading_zeros();
    (power as usize).min(WAITS - 1)
}

/// What those lose to idle time for whom the head has waited so long.
#[derive(Clone, Copy, Debug, Default)]
struct LostToIdle {
    /// All requests.
    all: u32,
    /// Of these, how many there are for whom it has waited, and what they lost, in nanoseconds.
    waits: [(u32, f64); WAITS],
    /// Sums of what was lost at once, and of its squares.
    at_once: [f64; 2],
    /// Whether nothing is foreseen now.
    unforeseen: bool,
}

impl LostToIdle {
    fn note(&mut self, head_waited: Option<u64>, lost: i64, unforeseen: bool) {
        self.all += 1;
        self.unforeseen = unforeseen;
        if lost > 0 {
            let lost = lost as f64;
            self.at_once = [self.at_once[0] + lost, self.at_once[1] + lost * lost];
        }
        if let Some(waited) = head_waited {
            let (of, sum) = &mut self.waits[wait(waited)];
            *of += 1;
            *sum += lost as f64;
        }
        if self.all == IDLE_MEMORY {
            self.all /= 2;
            self.waits.iter_mut().for_each(|(of, sum)| (*of, *sum) = (*of / 2, *sum / 2.0));
            self.at_once = self.at_once.map(|sum| sum / 2.0);
        }
    }

    /// What is lost at once: a turn, or what has been if that is more. Who waits for that, and who comes meanwhile, are more the
    /// longer it is: of several times that which has lost as much for as many.
    fn at_once(&self, turn: u64) -> u64 {
        let [sum, squares] = self.at_once;
        if sum > 0.0 { turn.max((squares / sum) as u64) } else { turn }
    }

    /// So that of all requests one in so many loses a turn, or fewer as much more. Where nothing has been lost yet, those do for whom the head
    /// waits, the more the longer; but where nothing is foreseen there may be no head, and nobody loses anything.
    fn loses(&self, turn: u64) -> Loses {
        let mut waits = self.waits;
        if !self.unforeseen && waits.iter().all(|(_, lost)| *lost <= 0.0) {
            (0..).zip(&mut waits).for_each(|(power, (of, lost))| *lost = f64::from(*of) * 2f64.powi(power));
        }
        let lost: f64 = waits.iter().map(|(_, lost)| lost.max(0.0)).sum();
        let times = f64::from(self.all) / IDLE_ONE_IN * turn as f64 / self.at_once(turn).max(1) as f64;
        Loses::First(waits.map(|(of, sum)| {
            let share = if lost > 0.0 { sum.max(0.0) / lost } else { 0.0 };
            (times * share / f64::from(of.max(1)) * 1e6).min(1e6) as u64
        }))
    }
}

/// A rehearsal under way.
#[derive(Clone, Debug)]
struct Rehearsed {
    loses: Loses,
    /// So much.
    at_once: u64,
    lottery: Lottery,
    now: u64,
    /// When the head was done last.
    free: u64,
    /// Who comes when, and each client's next request.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    next: Vec<usize>,
    /// How often each has come by itself.
    rounds: Vec<u64>,
    queue: VecDeque<(u64, usize)>,
    done: u32,
    /// What was waited, and what was lost.
    waited: f64,
    lost: f64,
}

impl Rehearsed {
    fn new(played: &Played, (loses, at_once): (Loses, u64)) -> Self {
        let due = played.clients.iter().enumerate();
        let due = due.map(|(who, client)| Reverse((client.first, who)));
        Self {
            loses,
            at_once,
            lottery: Lottery::new(1),
            now: 0,
            free: 0,
            due: due.collect(),
            next: vec![0; played.clients.len()],
            rounds: vec![0; played.clients.len()],
            queue: VecDeque::new(),
            done: 0,
            waited: 0.0,
            lost: 0.0,
        }
    }

    /// The next request is done.
    fn step(&mut self, played: &Played, early: u32) {
        let first = self.queue.is_empty();
        while let Some(&Reverse((at, who))) =
            self.due.peek().filter(|due| self.queue.is_empty() || due.0.0 <= self.now)
        {
            self.due.pop();
            self.now = self.now.max(at);
            self.queue.push_back((at, who));
        }
        let head_waited = first.then(|| self.now.saturating_sub(self.free));
        // Who comes when a request is done comes when the next is chosen.
        let from = self.queue.iter().take_while(|(came, _)| *came < self.now && !first).count();
        let there = from.max(1);
        let chosen = if there > 1
            && self.lottery.draw([played.at_random, 1_000_000 - played.at_random].into_iter()) == Some(0)
        {
            self.lottery.draw(std::iter::repeat_n(1, there)).unwrap_or(0)
        } else {
            0
        };
        let Some((came, who)) = self.queue.remove(chosen) else { return };
        let chance = self.loses.chance(head_waited);
        let loses = chance > 0 && self.lottery.draw([chance, 1_000_000 - chance].into_iter()) == Some(0);
        let lost = if loses { self.at_once } else { 0 };
        let Client { first, steps, by_itself } = &played.clients[who];
        let place = &mut self.next[who];
        let done = self.now + played.takes(&steps[*place], from) + lost;
        self.now = done + steps[*place].after;
        self.free = self.now;
        *place = (*place + 1) % steps.len();
        let mut due = done + steps[*place].pause;
        if *place == 0 && *by_itself {
            self.rounds[who] += 1;
            due = done.max(first + self.rounds[who] * played.period);
        }
        self.due.push(Reverse((due, who)));
        self.done += 1;
        if self.done > early {
            self.waited += (done - came) as f64;
            self.lost += lost as f64;
        }
    }
}

/// Three rehearsals of the same.
#[derive(Clone, Debug)]
struct Rehearsals {
    played: Played,
    /// Requests of each.
    all: u32,
    each: [Rehearsed; 3],
}

impl Rehearsals {
    fn new(played: Played, turn: u64, idle: &LostToIdle) -> Self {
        let idle = (idle.loses(turn), idle.at_once(turn));
        let each = [(Loses::All(0), turn), (Loses::All(ALL), turn), idle];
        let each = each.map(|loses| Rehearsed::new(&played, loses));
        let requests: usize = played.clients.iter().map(|client| client.steps.len()).sum();
        Self { played, all: (requests * OFTEN).min(REHEARSED) as u32, each }
    }

    /// So many requests more; what is found when all are done.
    fn go_on(&mut self, requests: u32) -> Option<Found> {
        for _ in 0..requests {
            let early = self.early();
            let next = self.each.iter_mut().find(|rehearsed| rehearsed.done < self.all)?;
            next.step(&self.played, early);
        }
        self.found()
    }

    /// So many are not looked at.
    fn early(&self) -> u32 {
        self.all / 8
    }

    fn found(&self) -> Option<Found> {
        let [plain, some, first] = &self.each;
        let longer = |with: &Rehearsed| {
            // Nobody is ever the first where the head never waits.
            let lost = with.lost > 0.0;
            if lost { ((with.waited - plain.waited) / with.lost).clamp(1.0, MOST_FEEL) } else { 1.0 }
        };
        let waited = plain.waited / f64::from((self.all - self.early()).max(1));
        let [detours, idle] = [some, first].map(longer);
        (first.done == self.all).then(|| [detours, idle, waited / self.played.waited.max(1.0)])
    }
}

/// Of a time that is lost to detours, and to idle time, the multiple which is waited longer; and what is waited without losses, against what
/// was seen.
type Found = [f64; 3];

/// One way to read what is seen.
#[derive(Clone, Debug, Default)]
struct Reading {
    /// Who comes after no known pause has been away longest, and does not come by itself.
    returns: bool,
    script: Script,
    /// How many are written down.
    most: usize,
    under_way: Option<Box<Rehearsals>>,
    /// The means of what was found, and of how many requests that were rehearsed.
    found: Found,
    of: f64,
}

impl Reading {
    fn begin_anew(&mut self) {
        *self = Self { returns: self.returns, ..Self::default() };
    }

    /// The request that is the `nth` to be done, was chosen from so many, and could have begun `since` then.
    fn done(
        &mut self,
        now: Instant,
        of: (u64, u64),
        begun: (Instant, usize),
        (turn, idle): (u64, &LostToIdle),
    ) {
        self.script.done(now, of, begun);
        let found = self.under_way.as_mut().and_then(|rehearsals| rehearsals.go_on(AT_ONCE));
        if let Some((rehearsals, found)) = self.under_way.take_if(|_| found.is_some()).zip(found) {
            let of = f64::from(rehearsals.all);
            self.of = (self.of + of).min(MEAN_OF * REHEARSED as f64);
            for (mean, found) in self.found.iter_mut().zip(found) {
                *mean += (found - *mean) * (of / self.of).min(1.0);
            }
        }
        if self.under_way.is_none() && self.script.requests >= self.most.max(FIRST) {
            self.most = (self.most.max(FIRST) * 2).min(MOST);
            self.under_way = Some(Box::new(Rehearsals::new(self.script.take(now), turn, idle)));
        }
    }
}

/// What is known of clients who come again.
#[derive(Clone, Debug)]
pub(super) struct Rehearsal {
    returns: Returns,
    idle: LostToIdle,
    /// Nobody can tell a client who pauses by chance from one who comes for the first time: it is read either way.
    readings: [Reading; 2],
    /// When the head is free.
    busy: Busy,
    /// Of those who come after no known pause, the part that comes on the heels of others.
    in_bursts: f64,
    /// Requests done.
    done: u64,
}

impl Default for Rehearsal {
    fn default() -> Self {
        let readings = [false, true].map(|returns| Reading { returns, ..Reading::default() });
        let (returns, idle, busy) = (Returns::default(), LostToIdle::default(), Busy::default());
        Self { returns, idle, readings, busy, in_bursts: 0.0, done: 0 }
    }
}

impl Rehearsal {
    /// Those came since the last request was done.
    pub fn came(&mut self, came: &mut [Came]) {
        came.sort_unstable_by_key(|came| (came.arrived, came.sequence));
        for of in came {
            let answers = self.returns.come(of.arrived);
            if answers.is_none() {
                self.in_bursts += (f64::from(u8::from(of.follows)) - self.in_bursts) / BURSTS_OF;
            }
            for reading in &mut self.readings {
                if self.returns.most_return() {
                    reading.script.come(of, answers, &self.returns, reading.returns);
                } else {
                    reading.begin_anew();
                }
            }
        }
    }

    /// A request is done that was chosen from so many, `since` the last was.
    pub fn served(
        &mut self,
        now: Instant,
        sequence: u64,
        (since, from, frees): (Instant, usize, Frees),
        (turn, idle, unforeseen): (Duration, i64, bool),
    ) {
        self.done += 1;
        self.returns.done(now, self.done);
        if !self.returns.most_return() {
            self.busy.forget();
            return;
        }
        let arrived = self.readings[0].script.arrived(sequence);
        let since = since.max(self.busy.done(now, arrived.unwrap_or(since), frees, idle != 0));
        if !self.busy.knows(frees) {
            // What is written down of a head that seems to do nothing would tell of clients who hardly meet.
            self.readings.iter_mut().for_each(Reading::begin_anew);
        }
        let alone = arrived.filter(|arrived| from == 0 && *arrived >= since);
        self.idle.note(alone.map(|arrived| arrived.saturating_since(since).as_nanos()), idle, unforeseen);
        let turn = nanos(turn).unsigned_abs();
        for reading in &mut self.readings {
            reading.done(now, (self.done, sequence), (since, from), (turn, &self.idle));
        }
    }

    /// Of what the head loses to detours and to idle time, the multiples that clients wait longer in the end and in the mean: as
    /// it is read, the more.
    pub fn who_feel(&self) -> Option<[f64; 2]> {
        let known = || self.readings.iter().filter(|reading| reading.of > 0.0 && self.returns.most_return());
        let waited = |reading: &Reading| reading.found[2];
        let likest = known().map(waited).fold(f64::MAX, f64::min).max(FAITHFUL);
        let faithful = known().filter(|reading| waited(reading) <= likest);
        let varies = self.in_sessions() && (1.0 - self.returns.known()) * UNKNOWN_ONE_IN > 1.0;
        let more_of_idle = if varies { MORE_OF_IDLE } else { 1.0 };
        faithful
            .map(|&Reading { found: [detours, idle, _], .. }| [detours, idle * more_of_idle])
            .reduce(|a, b| [a[0].max(b[0]), a[1].max(b[1])])
    }

    /// Whether most who come do so a constant time after they were served.
    pub fn most_return(&self) -> bool {
        self.returns.most_return()
    }

    /// Nobody waits any more who came before that.
    pub fn forget_before(&mut self, first: Instant) {
        for reading in &mut self.readings {
            reading.script.forget_before(first);
        }
    }

    /// Whether clients ask several times before they pause: not the same time lies between what is done and what comes, and who
    /// comes after another time does not come with many others.
    pub fn in_sessions(&self) -> bool {
        self.returns.in_different_ways() && self.in_bursts < 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::random::Stream;

    const TURN: u64 = 6_000_000;
    const MS: u64 = 1_000_000;

    /// So many clients who ask so often one after another and pause for so long, in milliseconds; chosen at random, or in order.
    #[derive(Clone, Copy, Debug)]
    struct Crew {
        clients: usize,
        session: u64,
        pause: u64,
        at_random: bool,
    }

    /// Who loses a turn: by how long the head has waited for it.
    type Lost<'a> = &'a dyn Fn(Option<u64>, f64) -> bool;

    /// What so many requests of a crew wait, and lose, in nanoseconds; each takes 3 to 13 ms, less where it is chosen from several.
    fn served(crew: Crew, lost: Lost<'_>, requests: u64, seed: u64, told: &mut Rehearsal) -> [f64; 2] {
        let Crew { clients, session, pause, at_random } = crew;
        let [mut takes, mut loses, mut chooses] =
            ["takes", "loses", "chooses"].map(|name| Stream::new(seed, name));
        let mut next: Vec<(u64, u64)> =
            (0..clients as u64).map(|who| (who * pause * MS / clients as u64, session)).collect();
        let mut waiting: Vec<(u64, usize, u64)> = Vec::new();
        let (mut free, mut sums, mut sequence) = (0, [0.0; 2], 0);
        let mut known = 0;
        for _ in 0..requests {
            let mut come = |until: u64, waiting: &mut Vec<(u64, usize, u64)>, next: &mut Vec<(u64, u64)>| {
                let mut came: Vec<_> =
                    (0..clients).filter(|&who| next[who].0 <= until).map(|who| (next[who].0, who)).collect();
                came.sort_unstable();
                for (at, who) in came {
                    waiting.push((at, who, sequence));
                    next[who].0 = u64::MAX;
                    sequence += 1;
                }
            };
            let from = waiting.len();
            let first = next.iter().map(|(at, _)| *at).min().unwrap();
            if from == 0 {
                come(first, &mut waiting, &mut next);
            }
            let place = if at_random { (chooses.unit() * waiting.len() as f64) as usize } else { 0 };
            let (came, who, number) = waiting.remove(place);
            let began = free.max(came);
            let shorter = if from > 1 { 0.9 } else { 1.0 };
            let service = ((3.0 + 10.0 * takes.unit()) * shorter * MS as f64) as u64;
            let head_waited = (from == 0).then_some(began - free);
            let late = if lost(head_waited, loses.unit()) { TURN } else { 0 };
            let done = began + service + late;
            come(done, &mut waiting, &mut next);
            let mut new: Vec<Came> = waiting
                .iter()
                .chain([&(came, who, number)])
                .filter(|of| of.2 >= known)
                .map(|&(at, _, sequence)| Came { sequence, arrived: Instant::from_nanos(at), follows: false })
                .collect();
            known += new.len() as u64;
            told.came(&mut new);
            let idle = if head_waited.is_some() { late as i64 } else { 0 };
            let turn = Duration::from_nanos(TURN);
            told.served(
                Instant::from_nanos(done),
                number,
                (Instant::from_nanos(free), from, Frees::At(Instant::from_nanos(done))),
                (turn, idle, false),
            );
            sums[0] += (done - came) as f64;
            sums[1] += late as f64;
            free = done;
            let left = next[who].1 - 1;
            next[who] = if left == 0 { (done + pause * MS, session) } else { (done, left) };
        }
        sums
    }

    /// Of what is lost so, the multiple which is waited longer: as it is, and as it is told of detours and of idle time.
    fn waited_and_told(crew: Crew, lost: Lost<'_>) -> (f64, [f64; 2]) {
        const SEEDS: u64 = 8;
        let (mut longer, mut all, mut told) = (0.0, 0.0, [0.0; 2]);
        for seed in 0..SEEDS {
            let mut rehearsal = Rehearsal::default();
            let with = served(crew, lost, 120_000, seed, &mut rehearsal);
            let without = served(crew, &|_, _| false, 120_000, seed, &mut Rehearsal::default());
            longer += with[0] - without[0];
            all += with[1];
            let found = rehearsal.who_feel().unwrap();
            told = [0, 1].map(|why| told[why] + found[why] / SEEDS as f64);
        }
        (longer / all, told)
    }

    const CREWS: [Crew; 4] = [
        Crew { clients: 10, session: 1, pause: 100, at_random: false },
        Crew { clients: 10, session: 1, pause: 100, at_random: true },
        Crew { clients: 10, session: 5, pause: 500, at_random: false },
        Crew { clients: 4, session: 10, pause: 500, at_random: true },
    ];

    #[test]
    fn what_detours_lose_is_told() {
        for crew in testing::some(2, CREWS) {
            // Enough to be seen beside chance.
            let (waited, [told, _]) = waited_and_told(crew, &|_, chance| chance < 0.03);
            assert!((told / waited - 1.0).abs() < 0.25, "{crew:?}: {told:.2} told, {waited:.2} waited");
        }
    }

    #[test]
    fn what_idle_time_loses_is_told() {
        for crew in testing::some(2, CREWS) {
            let lost = |head_waited: Option<u64>, chance| {
                head_waited.is_some_and(|waited| waited > 16 * MS && chance < 0.1)
            };
            let lost: Lost<'_> =
                if crew.session == 1 { &|waited, chance| waited.is_some() && chance < 0.1 } else { &lost };
            let (waited, [_, told]) = waited_and_told(crew, lost);
            // Chance in what few sessions wait is a sixth; of four clients it tells twice as much.
            assert!((0.7..2.5).contains(&(told / waited)), "{crew:?}: {told:.2} told, {waited:.2} waited");
        }
    }

    #[test]
    fn each_client_is_found() {
        for crew in CREWS {
            let mut rehearsal = Rehearsal::default();
            served(crew, &|_, _| false, 6_000, 1, &mut rehearsal);
            assert_eq!(rehearsal.in_sessions(), crew.session > 1, "{crew:?}");
            let clients =
                rehearsal.readings[0].script.clients.iter().filter(|client| !client.steps.is_empty()).count();
            assert!(clients.abs_diff(crew.clients) < 2, "{crew:?}: {clients}");
        }
    }

    /// Two who ask at once when they are served, but one time in fifty 5 to 25 ms later.
    #[test]
    fn who_hesitates_in_a_busy_loop_does_not_come_by_himself() {
        for seed in 0..4 {
            let mut rehearsal = Rehearsal::default();
            let [mut takes, mut pauses] = ["takes", "pauses"].map(|name| Stream::new(seed, name));
            // Who comes when, and the one who is served then.
            let (mut next, mut free) = ([0, 0], 0);
            let mut known = [false; 2];
            for nth in 0..60_000 {
                let who = usize::from(next[1] < next[0]);
                let came = next[who];
                let done = free.max(came) + ((3.0 + 10.0 * takes.unit()) * MS as f64) as u64;
                let later = if pauses.unit() < 0.02 { 5.0 + 20.0 * pauses.unit() } else { 0.0 };
                next[who] = done + (later * MS as f64) as u64;
                let arrived = Instant::from_nanos(came);
                let other =
                    Came { sequence: nth + 1, arrived: Instant::from_nanos(next[1 - who]), follows: false };
                let this = Came { sequence: nth, arrived, follows: false };
                let mut new: Vec<Came> = if known[who] { vec![] } else { vec![this] };
                known = [false; 2];
                if other.arrived.as_nanos() <= done {
                    new.push(other);
                    known[1 - who] = true;
                }
                rehearsal.came(&mut new);
                let since = Instant::from_nanos(free);
                let from = usize::from(came <= free);
                rehearsal.served(
                    Instant::from_nanos(done),
                    nth,
                    (since, from, Frees::At(Instant::from_nanos(done))),
                    (Duration::from_nanos(TURN), 0, false),
                );
                free = done;
            }
            let [told, _] = rehearsal.who_feel().unwrap();
            assert!((1.5..3.0).contains(&told), "{seed}: {told:.2} told, 2 wait");
        }
    }

    #[test]
    fn as_much_is_lost_at_once_as_has_been() {
        let mut idle = LostToIdle::default();
        (0..3_000)
            .for_each(|n| idle.note(Some(20 * MS), if n % 300 == 0 { 5 * TURN as i64 } else { 0 }, true));
        assert_eq!(idle.at_once(TURN), 5 * TURN);
        // One request in thirty by a turn, or in 150 by five.
        let Loses::First(chances) = idle.loses(TURN) else { panic!() };
        assert!(chances[wait(20 * MS)].abs_diff(1_000_000 / 150) < 2, "{chances:?}");
    }

    #[test]
    fn until_idle_time_has_lost_anything_those_lose_for_whom_the_head_waits_long() {
        let mut idle = LostToIdle::default();
        (0..3_000).for_each(|n| {
            idle.note((n % 2 == 0).then_some(if n % 4 == 0 { 2 * MS } else { 20 * MS }), 0, false)
        });
        let Loses::First(chances) = idle.loses(TURN) else { panic!() };
        let [short, long] = [2, 20].map(|waited| chances[wait(waited * MS)]);
        assert!(long.abs_diff(short * 8) < 10, "{chances:?}");
        assert!(((short + long) / 4).abs_diff(1_000_000 / 30) < 10, "{chances:?}");
        idle.note(None, 0, true);
        let Loses::First(chances) = idle.loses(TURN) else { panic!() };
        assert_eq!(chances, [0; WAITS]);
    }

    #[test]
    fn until_something_is_known_nothing_is_told() {
        let mut rehearsal = Rehearsal::default();
        served(CREWS[2], &|_, _| false, 1_000, 1, &mut rehearsal);
        assert_eq!(rehearsal.who_feel(), None);
    }
}
