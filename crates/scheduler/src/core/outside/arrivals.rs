//! Whether arrivals depend on completions, and the resulting number of clients.
//!
//! Arrivals independent of the drive see its mean state (Wolff, "Poisson arrivals see time averages", Operations Research
//! 30(2), 1982). Arrivals of a closed loop see the state without their own client (Lavenberg and Reiser, "Stationary state
//! probabilities at arrival instants for closed queueing networks", Journal of Applied Probability 17(4), 1980): a
//! waiting client cannot arrive. If the arrival rate falls by `b` with each waiting request, arrivals see fewer waiting
//! requests than the mean over time, by `b` times the variance divided by the rate. The number of clients is the mean plus the
//! arrivals in `1 / b` at that rate. Only time with waiting requests counts, so that a loop that pauses remains a loop.
//!
//! A paced source also sees fewer than the mean; [`answers`](super::answers) tests the dependence separately.

use super::answers::Answers;
use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use units::Float as _;
use units::Instant;

/// The maximum of arrivals in the observations, which are kept in two periods of half that number; the older period is
/// discarded when the current one is full.
const ARRIVALS_COUNTED_MAX: u32 = 2_048;

/// The minimum of arrivals for a result; with fewer the result is chance.
const ARRIVALS_MIN: f64 = 128.0;

/// The number of standard errors by which arrivals must see fewer waiting requests than the mean to count as a loop. Near
/// saturation the queue's excursions last longer than the observations, and any part of such a path seems to revert to its own
/// mean (Dickey and Fuller, "Distribution of the estimators for autoregressive time series with a unit root", Journal of the
/// American Statistical Association 74(366a), 1979). Poisson arrivals of 110 a second to an Atlas 10K, which serves 117, exceed
/// one error for a third of the time and three errors for a five-hundredth; loops that keep the drive busy exceed three nearly
/// always.
const LOOP_STANDARD_ERRORS_MIN: f64 = 3.0;

/// The sums of one period of observations.
#[derive(Clone, Copy, Debug, Default)]
struct QueueSums {
    /// Seconds without waiting requests.
    idle: f64,
    /// Seconds with waiting requests, and the integrals over them of the number of waiting requests and of its square.
    time: [f64; 3],
    /// Arrivals while requests waited, and the sum of the numbers of waiting requests that they saw.
    came: [f64; 2],
    /// Arrivals while no request waited.
    first: f64,
}

impl QueueSums {
    /// Adds a time with a number of waiting requests.
    fn wait(&mut self, waiting: f64, seconds: f64) {
        let (busy, idle) = if waiting > 0.0 { (seconds, 0.0) } else { (0.0, seconds) };
        self.idle += idle;
        for (sum, by) in self.time.iter_mut().zip([1.0, waiting, waiting * waiting]) {
            *sum += by * busy;
        }
    }

    /// Adds an arrival and the number of requests that it saw waiting.
    fn come(&mut self, waiting: f64) {
        if waiting > 0.0 {
            self.came[0] += 1.0;
            self.came[1] += waiting;
        } else {
            self.first += 1.0;
        }
    }

    fn and(&self, other: &Self) -> Self {
        let [a, b, c] = self.time;
        let [d, e, f] = other.time;
        Self {
            idle: self.idle + other.idle,
            time: [a + d, b + e, c + f],
            came: [self.came[0] + other.came[0], self.came[1] + other.came[1]],
            first: self.first + other.first,
        }
    }
}

/// The observations of arrivals.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// The current and the previous period.
    seen: [QueueSums; 2],
    answers: Answers,
    /// Whether arrivals were found to be open, and the number of consecutive requests since then that look like a loop's.
    open: bool,
    looped: u32,
}

impl Arrivals {
    /// Records a completion at `now`. The request was chosen from `from` waiting ones at `heard`, the previous completion;
    /// `waiting` requests are present at the completion, this one included, and `came` holds the arrivals since `heard`.
    pub fn done(
        &mut self,
        heard: Instant,
        now: Instant,
        from: usize,
        waiting: usize,
        mut came: Vec<Instant>,
    ) {
        came.sort_unstable();
        let here = waiting.saturating_sub(came.len());
        self.answers.wait(heard, here);
        self.answers.begin(heard, from, now.saturating_since(heard));
        let (mut here, mut at) = (here as f64, heard);
        for next in came {
            self.answers.come(next);
            self.seen[0].wait(here, next.saturating_since(at).as_secs_f64());
            self.seen[0].come(here);
            here += 1.0;
            at = next;
        }
        self.answers.until(now);
        self.seen[0].wait(here, now.saturating_since(at).as_secs_f64());
        if self.seen[0].came[0] >= f64::from(ARRIVALS_COUNTED_MAX / 2) {
            self.seen = [QueueSums::default(), self.seen[0]];
        }
    }

    /// Returns the number of clients, given that `most` were seen at once; `None` for open arrivals. Called once per
    /// completion. Open arrivals count as a loop again only after [`ARRIVALS_COUNTED_MAX`] requests in succession look like
    /// a loop's, because a wrong result discards recently lost revolutions that still delay open arrivals.
    pub fn clients(&mut self, most: usize) -> Option<usize> {
        let QueueSums { idle, time: [time, sum, squares], came: [came, found], first } =
            self.seen[0].and(&self.seen[1]);
        let (mut clients, mut looks) = (Some(most), false);
        if came >= ARRIVALS_MIN && time > 0.0 {
            let mean = sum / time;
            let variance = (squares / time - mean * mean).max(0.0);
            let (fewer, error) = (mean - found / came, (variance / came).sqrt());
            // A standard error is subtracted, so that only one loop in six is counted with too few clients.
            let least = fewer - error;
            clients = (least > 0.0).then(|| most.max((mean + variance / least).round() as usize));
            looks = fewer >= LOOP_STANDARD_ERRORS_MIN * error;
        }
        let round = |clients: usize| clients as f64 * (time + idle) / (came + first).max(1.0);
        let clients = clients.filter(|clients| !self.answers.are_open(round(*clients)));
        self.looped = if clients.is_some() && looks { self.looped + 1 } else { 0 };
        self.open = clients.is_none() || self.open && self.looped < ARRIVALS_COUNTED_MAX;
        clients.filter(|_| !self.open)
    }

    /// Returns the mean number of arrivals while the head does nothing for `seconds`, and after that until the queue is
    /// empty. The rate is that of times with waiting requests, or until that is known, the overall rate.
    pub fn come_in(&self, seconds: f64) -> f64 {
        let QueueSums { idle, time: [busy, ..], came: [came, _], first } = self.seen[0].and(&self.seen[1]);
        let all = busy + idle;
        let rate = if came < ARRIVALS_MIN { (came + first) / all } else { came / busy };
        if all > 0.0 { rate * seconds * all / idle.max(busy / 1e6) } else { 0.0 }
    }

    /// Returns whether enough arrivals were seen that the largest number seen at once counts as the number of clients.
    pub fn are_counted(&self) -> bool {
        let QueueSums { came: [came, _], first, .. } = self.seen[0].and(&self.seen[1]);
        came + first >= ARRIVALS_MIN
    }

    /// Returns the number of completions until the queue is empty, for open arrivals: during the service of each of the
    /// `waiting` requests others arrive, and so on. The result is the mean plus the standard deviation (Haight and Breuer, "The
    /// Borel-Tanner distribution", Biometrika 47(1/2), 1960). On a drive that is idle half of the time the deviation is small.
    /// On a drive that is idle for a fiftieth of the time, the deviation is several times the mean for a short queue, and with
    /// the mean alone the bound on harm would be exceeded before the loss is known.
    pub fn completions_until_empty(&self, waiting: usize) -> u64 {
        let QueueSums { idle, time: [busy, ..], .. } = self.seen[0].and(&self.seen[1]);
        // The limit of a millionth of idle time is for a drive that was never idle.
        let alone = ((busy + idle) / idle.max(busy / 1e6)).max(1.0);
        let (waiting, used) = (waiting as f64, 1.0 - 1.0 / alone);
        (waiting * alone + (waiting * used * alone.powi(3)).sqrt()).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use units::{Bytes, Duration, Sectors};
    use workload::random::Stream;
    use workload::{
        Arrival, Closed, ClosedTask, Issuer, Random, RandomConfig, Recorded, Request, Source, Think,
    };

    const SERVICE: Duration = Duration::from_millis(8);

    fn places(seed: u64) -> Random {
        Random::new(RandomConfig::new(Sectors::new(1 << 20), Bytes::new(512)), seed).unwrap()
    }

    /// Simulates a server with the given service time for each of ten thousand requests, in order of arrival. Returns the
    /// number of clients at each completion, given that `most` were seen at once.
    fn served(
        mut issuer: Issuer<impl Source>,
        mut service: impl FnMut(usize) -> Duration,
        most: usize,
    ) -> Vec<Option<usize>> {
        let mut queue: VecDeque<(Instant, ClosedTask)> = VecDeque::new();
        let (mut heard, mut free) = (Instant::ZERO, Instant::ZERO);
        let mut arrivals = Arrivals::default();
        let mut clients = Vec::new();
        for _ in 0..10_000 {
            if queue.is_empty() {
                free = free.max(issuer.due().unwrap());
            }
            let from = queue.len();
            let done = free.max(queue.front().map_or(Instant::ZERO, |first| first.0)) + service(from);
            while issuer.due().is_some_and(|due| due <= done) {
                let issued = issuer.issue(issuer.due().unwrap()).unwrap();
                queue.push_back((issued.at, issued.task));
            }
            let came = queue.iter().map(|of| of.0).filter(|at| *at >= heard).collect();
            arrivals.done(heard, done, from, queue.len(), came);
            clients.push(arrivals.clients(most));
            let (_, task) = queue.pop_front().unwrap();
            issuer.complete(task, done);
            (heard, free) = (done, done);
        }
        clients
    }

    /// Simulates a server with a service time of 8 ms.
    fn seen(arrival: Arrival, seed: u64, most: usize) -> Vec<Option<usize>> {
        served(Issuer::new(places(seed), arrival, Instant::ZERO, seed).unwrap(), |_| SERVICE, most)
    }

    fn last(clients: &[Option<usize>]) -> Option<usize> {
        clients.last().copied().flatten()
    }

    /// Returns service times of 4 to 13 ms, like a seek and a part of a revolution; with `chosen` they are shorter for a
    /// request that was chosen from many.
    fn by_chance(seed: u64, chosen: bool) -> impl FnMut(usize) -> Duration {
        let mut stream = Stream::new(seed, "service");
        move |from| {
            let shorter = if chosen { 0.6 + 0.4 / (from.max(1) as f64).sqrt() } else { 1.0 };
            Duration::from_nanos(((4.0 + 9.0 * stream.unit()) * shorter * 1e6) as u64)
        }
    }

    /// Requests at given times.
    struct Timed {
        places: Random,
        times: alloc::vec::IntoIter<Instant>,
        at: Instant,
    }

    impl Source for Timed {
        fn next_request(&mut self) -> Option<Request> {
            self.at = self.times.next()?;
            self.places.next_request()
        }

        fn recorded_arrival(&self) -> Option<Instant> {
            Some(self.at)
        }

        fn recorded(&self) -> Recorded {
            Recorded { arrivals: true, thinks: false }
        }
    }

    /// Requests at a constant rate, `at_once` at a time, each group early or late by up to a part of the interval.
    struct Pace {
        rate: f64,
        at_once: u32,
        jitter: f64,
    }

    fn timed(paces: &[Pace], seed: u64) -> Issuer<Timed> {
        let mut stream = Stream::new(seed, "paces");
        let mut times = Vec::new();
        for &Pace { rate, at_once, jitter } in paces {
            let from = 1.0 + stream.unit();
            for revolution in 0..12_000 {
                let at = (f64::from(revolution) + from + jitter * (2.0 * stream.unit() - 1.0)) / rate;
                times.extend((0..at_once).map(|_| Instant::from_nanos((at * 1e9) as u64)));
            }
        }
        times.sort_unstable();
        let source = Timed { places: places(seed), times: times.into_iter(), at: Instant::ZERO };
        Issuer::new(source, Arrival::Recorded { scale: 1.0 }, Instant::ZERO, seed).unwrap()
    }

    /// Returns Poisson arrivals that keep a server busy for the given part of its time.
    fn open(part: f64) -> Arrival {
        Arrival::Poisson { rate: part / SERVICE.as_secs_f64() }
    }

    fn closed(tasks: u32, think: Think) -> Arrival {
        Arrival::Closed(Closed { tasks, think })
    }

    #[test]
    fn open_arrivals_are_not_taken_for_few_clients() {
        for part in [0.5, 0.8, 0.9, 0.95] {
            let clients = (0..20).map(|seed| last(&seen(open(part), seed, 20)));
            // A busy period has 1 / (1 - part) requests in the mean; arrivals late in a long busy period see the true queue.
            let few = clients.flatten().filter(|clients| (*clients as f64) < 5.0 / (1.0 - part)).count();
            assert!(few <= 1, "{part}: {few}");
        }
    }

    #[test]
    fn open_arrivals_near_saturation_are_never_taken_for_a_loop() {
        for part in [0.98, 0.99] {
            for seed in 0..10 {
                let clients = seen(open(part), seed, 20);
                // A loop found by mistake would discard losses that still delay these arrivals.
                let of_a_loop = clients.iter().skip(ARRIVALS_MIN as usize * 8).flatten().count();
                assert!(of_a_loop < clients.len() / 50, "{part}, seed {seed}: {of_a_loop}");
            }
        }
    }

    #[test]
    fn a_loop_that_begins_later_is_counted_again() {
        // Arrivals were found open before, and now come from a loop of ten clients.
        let mut arrivals = Arrivals { open: true, ..Arrivals::default() };
        let ms = Duration::from_millis;
        let mut now = Instant::ZERO;
        let mut clients = (0..).map(|_| {
            let heard = now;
            now = heard + ms(8);
            arrivals.done(heard, now, 10, 10, vec![heard]);
            arrivals.clients(10)
        });
        let known = clients.position(|clients| clients.is_some()).unwrap();
        assert!(
            (ARRIVALS_COUNTED_MAX as usize..ARRIVALS_COUNTED_MAX as usize * 2).contains(&known),
            "{known}"
        );
    }

    #[test]
    fn the_clients_of_a_loop_are_counted_whether_they_think_or_not() {
        let ms = Duration::from_millis;
        let thinks = [
            Think::None,
            Think::Constant(Duration::from_micros(200)),
            Think::Exponential(ms(8)),
            Think::Exponential(ms(30)),
            Think::Exponential(ms(100)),
        ];
        for (tasks, think) in [4, 10, 20].into_iter().flat_map(|n| thinks.map(|think| (n, think))) {
            for seed in 0..5 {
                let clients = last(&seen(closed(tasks, think), seed, 1));
                let counted = clients.is_some_and(|n| (tasks as usize - 1..=tasks as usize * 2).contains(&n));
                assert!(counted, "{tasks} that think {think:?}: {clients:?}");
            }
        }
    }

    #[test]
    fn paced_arrivals_are_not_a_loop_of_few_clients() {
        let one = |rate, at_once, jitter| vec![Pace { rate, at_once, jitter }];
        let loads = [
            one(95.0, 1, 0.0),
            one(105.0, 1, 0.0),
            one(110.0, 1, 0.0),
            one(105.0, 1, 0.2),
            one(25.0, 4, 0.0),
            [30.0, 37.0, 38.0].map(|rate| Pace { rate, at_once: 1, jitter: 0.0 }).into(),
        ];
        for (load, paces) in loads.iter().enumerate() {
            for seed in 0..5 {
                let clients = last(&served(timed(paces, seed), by_chance(seed, false), 1));
                assert_eq!(clients, None, "load {load}, seed {seed}");
            }
        }
    }

    #[test]
    fn the_clients_of_a_loop_are_counted_whatever_their_requests_take() {
        let ms = Duration::from_millis;
        let thinks = [
            Think::None,
            Think::Constant(Duration::from_micros(200)),
            Think::Constant(ms(10)),
            Think::Constant(ms(30)),
            Think::Exponential(ms(8)),
            Think::Exponential(ms(30)),
            Think::Exponential(ms(100)),
        ];
        for (tasks, think) in [2, 4, 10, 20].into_iter().flat_map(|n| thinks.map(|think| (n, think))) {
            for (seed, chosen) in (0..testing::sized(2, 5)).flat_map(|seed| [(seed, false), (seed, true)]) {
                let issuer = Issuer::new(places(seed), closed(tasks, think), Instant::ZERO, seed).unwrap();
                let clients = last(&served(issuer, by_chance(seed, chosen), 1));
                let what =
                    format!("{tasks} that think {think:?}, chosen: {chosen}, seed {seed}: {clients:?}");
                assert!(clients.is_some(), "{what}");
            }
        }
    }

    #[test]
    fn before_enough_arrivals_the_largest_number_at_once_counts() {
        assert_eq!(Arrivals::default().clients(7), Some(7));
    }

    #[test]
    fn few_arrivals_predict_the_next_ones() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.come_in(1.0), 0.0);
        // Ten arrivals a second on a drive that is idle for nine tenths of the time: nine arrive in 0.9 s, and one more while
        // these are served.
        for nth in 0..20 {
            arrivals.done(at(nth * 100), at(nth * 100 + 100), 0, 1, vec![at(nth * 100 + 90)]);
        }
        assert!((arrivals.come_in(0.9) - 10.0).abs() < 1e-6, "{}", arrivals.come_in(0.9));
        assert!(!arrivals.are_counted());
    }
}
