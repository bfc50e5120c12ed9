//! The times at which requests are issued: closed loops of tasks, open arrivals, recorded times.

use crate::bursts::Bursts;
use crate::error::ConfigError;
use crate::on_off::OnOff;
use crate::random::Stream;
use crate::request::{ClosedTask, Issued, Request, Source, later};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Duration, Instant};

/// The think time: the pause between the completion of a task's request and the issue of its next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// No pause: the next request is issued at completion.
    None,
    /// A constant pause.
    Constant(Duration),
    /// Exponentially distributed pauses with this mean.
    Exponential(Duration),
    /// The think time recorded with the request just completed.
    Recorded,
}

/// A closed loop: each task has one request at a time, queued or in service, or thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The multiprogramming level; at least 1.
    pub tasks: u32,
    /// The pause between a completion and the task's next issue.
    pub think: Think,
}

/// The arrival process of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// A closed loop. All tasks issue their first request at the start.
    Closed(Closed),
    /// A Poisson process, independent of the drive.
    Poisson {
        /// Requests a second, from 1e-6 to 1e9.
        rate: f64,
    },
    /// One request after another at equal pauses, the first at the start.
    Constant {
        /// Requests a second, from 1e-6 to 1e9.
        rate: f64,
    },
    /// A Poisson process that is switched on and off; it begins on.
    OnOff {
        /// Requests a second over all time, from 1e-6 to 1e9; the rate during on periods is higher.
        rate: f64,
        /// The length of a period with requests.
        on: Duration,
        /// The length of a period without requests.
        off: Duration,
    },
    /// An interrupted Poisson process: bursts with silences between them, both of exponentially distributed lengths.
    /// The first burst begins at the start.
    Bursts {
        /// Requests a second over all time, from 1e-6 to 1e9; the rate in bursts is higher.
        rate: f64,
        /// The mean length of a burst; at least a thousandth of the mean pause between requests in a burst.
        burst: Duration,
        /// The mean length of a silence.
        silence: Duration,
    },
    /// No request at all.
    Silent,
    /// The times of the source's own [`Script`](crate::Script).
    Scripted,
    /// The recorded arrival times, relative to the first request's.
    Recorded {
        /// The factor on the times, from 1e-6 to 1e6: 0.5 replays twice as fast.
        scale: f64,
    },
}

impl Arrival {
    /// Returns a closed loop with `outstanding` requests at the drive at all times.
    pub const fn outstanding(outstanding: u32) -> Self {
        Self::Closed(Closed { tasks: outstanding, think: Think::None })
    }

    /// Returns the arrivals of OSDI'00, section 6.2: `tasks` tasks with 30 ms of think time each.
    pub const fn oltp(tasks: u32) -> Self {
        Self::Closed(Closed { tasks, think: Think::Constant(Duration::from_millis(30)) })
    }
}

/// The foreground as a state machine: a [`Source`] of requests and the times at which they are issued.
///
/// The host owns the clock. It reads [`due`](Self::due), takes the request with [`issue`](Self::issue) at that time,
/// and reports its completion with [`complete`](Self::complete). Requests with equal times are issued in the order in
/// which their times became known; the n-th issue is always the source's n-th request.
///
/// ```
/// use freeblock_workload::{Arrival, Issuer, Random, RandomConfig};
/// use units::{Bytes, Duration, Instant, Sectors};
/// let load = Random::new(RandomConfig::new(Sectors::new(1 << 24), Bytes::new(512)), 7)?;
/// let mut foreground = Issuer::new(load, Arrival::oltp(1), Instant::ZERO, 7)?;
///
/// let first = foreground.issue(Instant::ZERO).unwrap();
/// assert_eq!(foreground.due(), None); // the only task waits for its request
/// let done = Instant::ZERO + Duration::from_millis(6);
/// foreground.complete(first.task, done);
/// assert_eq!(foreground.due(), Some(done + Duration::from_millis(30)));
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Issuer<S> {
    source: S,
    /// The source's next request, drawn ahead so that [`Issuer::due`] knows whether the source has ended.
    next: Option<Request>,
    times: Times,
    outstanding: u64,
}

#[derive(Clone, Debug)]
enum Times {
    Closed(ClosedTimes),
    Poisson {
        stream: Stream,
        mean: Duration,
        next: Instant,
    },
    Bursts(Bursts),
    OnOff(OnOff),
    /// The mean pause in nanoseconds, and the number of requests issued.
    Constant {
        start: Instant,
        pause_ns: f64,
        issued: u64,
    },
    Silent,
    Scripted,
    Recorded {
        start: Instant,
        scale: f64,
    },
}

#[derive(Clone, Debug)]
struct ClosedTimes {
    think: Think,
    stream: Stream,
    /// Tasks that will issue: the time, the order in which the times became known, and the task.
    ready: BinaryHeap<Reverse<(Instant, u64, ClosedTask)>>,
    /// The number of times that have become known.
    known: u64,
    /// The pause after each task's request at the drive; empty unless pauses are recorded.
    recorded: Vec<Duration>,
}

/// The most tasks: a larger number is taken for a mistake, because it would need much memory.
pub(crate) const TASKS_MAX: u32 = 1 << 20;

impl<S: Source> Issuer<S> {
    /// Issues `source`'s requests from `start` on; random times are drawn from the stream "workload.arrival" of
    /// `seed`.
    ///
    /// # Errors
    /// There are no tasks, or more than 1,048,576; a rate, scale or length is out of range or not a number; the
    /// source has no recorded or scripted times.
    pub fn new(mut source: S, arrival: Arrival, start: Instant, seed: u64) -> Result<Self, ConfigError> {
        let stream = Stream::new(seed, "workload.arrival");
        let times = match arrival {
            Arrival::Closed(closed) => {
                Times::Closed(ClosedTimes::new(closed, source.recorded().thinks, start, stream)?)
            }
            Arrival::Poisson { rate } => {
                let mean = (1e9 / checked_rate(rate)?).round() as u64;
                Times::Poisson { stream, mean: Duration::from_nanos(mean), next: start }
            }
            Arrival::Bursts { rate, burst, silence } => {
                Times::Bursts(Bursts::new(checked_rate(rate)?, burst, silence, start, seed)?)
            }
            Arrival::OnOff { rate, on, off } => {
                Times::OnOff(OnOff::new(checked_rate(rate)?, on, off, start, seed)?)
            }
            Arrival::Constant { rate } => {
                Times::Constant { start, pause_ns: 1e9 / checked_rate(rate)?, issued: 0 }
            }
            Arrival::Silent => Times::Silent,
            Arrival::Scripted => {
                let script = source.script_mut().ok_or_else(|| {
                    let mend = "use a source that keeps its own times, such as Tpcc, or other arrivals";
                    ConfigError::field("arrival", "Scripted", mend)
                })?;
                script.start(start);
                return Ok(Self { source, next: None, times: Times::Scripted, outstanding: 0 });
            }
            Arrival::Recorded { scale } => {
                if !source.recorded().arrivals {
                    return Err(ConfigError::NotRecorded {
                        field: "arrival",
                        what: "arrival times",
                        mend: "replay it as a closed loop",
                    });
                }
                let mend = "give a factor from 0.000001 to 1000000";
                Times::Recorded { start, scale: within("scale", scale, 1e-6, 1e6, mend)? }
            }
        };
        let next = source.next_request();
        let mut issuer = Self { source, next, times, outstanding: 0 };
        if let Times::Poisson { stream, mean, next } = &mut issuer.times {
            *next = later(*next, stream.exponential_time(*mean));
        }
        Ok(issuer)
    }

    /// Returns the time of the next issue; `None` while every task waits for a completion, and after the last
    /// request. With [`Arrival::Scripted`] there may be no request at that time, for instance because the page that
    /// it would have read was in memory.
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        if matches!(self.times, Times::Scripted) {
            return self.source.script()?.due();
        }
        self.next?;
        match &self.times {
            Times::Bursts(bursts) => Some(bursts.next()),
            Times::OnOff(on_off) => Some(on_off.next()),
            // The time is computed from the number of requests, so that rounding errors do not add up.
            Times::Constant { start, pause_ns, issued } => {
                Some(later(*start, Duration::from_nanos((*issued as f64 * pause_ns).round() as u64)))
            }
            Times::Silent | Times::Scripted => None,
            Times::Closed(closed) => closed.ready.peek().map(|Reverse((at, ..))| *at),
            Times::Poisson { next, .. } => Some(*next),
            Times::Recorded { start, scale } => {
                self.source.recorded_arrival().map(|arrival| later(*start, scaled(arrival, *scale)))
            }
        }
    }

    /// Takes the next request if it is due at `now` or earlier.
    #[inline]
    pub fn issue(&mut self, now: Instant) -> Option<Issued> {
        if matches!(self.times, Times::Scripted) {
            let issued = self.source.script_mut()?.issue(now)?;
            self.outstanding += 1;
            return Some(issued);
        }
        let at = self.due().filter(|&at| at <= now)?;
        let request = self.next?;
        let task = match &mut self.times {
            Times::Closed(closed) => closed.take(self.source.recorded_think())?,
            Times::Poisson { stream, mean, next } => {
                *next = later(*next, stream.exponential_time(*mean));
                ClosedTask::default()
            }
            Times::Bursts(bursts) => {
                bursts.step();
                ClosedTask::default()
            }
            Times::OnOff(on_off) => {
                on_off.step();
                ClosedTask::default()
            }
            Times::Constant { issued, .. } => {
                *issued += 1;
                ClosedTask::default()
            }
            Times::Silent | Times::Scripted | Times::Recorded { .. } => ClosedTask::default(),
        };
        let cache = self.source.cache_ops();
        self.next = self.source.next_request();
        self.outstanding += 1;
        Some(Issued { at, task, request, cache })
    }

    /// Records that the request of `task` completed at `now`. Call this once for every issued request.
    #[inline]
    pub fn complete(&mut self, task: ClosedTask, now: Instant) {
        debug_assert!(self.outstanding > 0, "a completion without a request");
        self.outstanding = self.outstanding.saturating_sub(1);
        match &mut self.times {
            Times::Closed(closed) => closed.complete(task, now),
            Times::Scripted => {
                if let Some(script) = self.source.script_mut() {
                    script.complete(task, now);
                }
            }
            Times::Poisson { .. }
            | Times::Bursts(_)
            | Times::OnOff(_)
            | Times::Constant { .. }
            | Times::Silent
            | Times::Recorded { .. } => {}
        }
    }

    /// Returns the source, for questions about its progress.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Returns the source, for a host that gives requests to a source with times of its own.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the number of requests issued and not completed.
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Returns whether the source has ended and all requests are complete.
    pub fn is_done(&self) -> bool {
        let ended = match self.times {
            Times::Silent => true,
            Times::Scripted => self.source.script().is_none_or(crate::Script::is_done),
            _ => self.next.is_none(),
        };
        ended && self.outstanding == 0
    }
}

impl ClosedTimes {
    fn new(closed: Closed, recorded: bool, start: Instant, stream: Stream) -> Result<Self, ConfigError> {
        let Closed { tasks, think } = closed;
        if tasks == 0 || tasks > TASKS_MAX {
            return Err(ConfigError::field("tasks", tasks, "give a number from 1 to 1048576"));
        }
        if think == Think::Recorded && !recorded {
            return Err(ConfigError::NotRecorded {
                field: "think",
                what: "think times",
                mend: "give a think time, or replay the recorded arrivals",
            });
        }
        let pauses = if think == Think::Recorded { tasks as usize } else { 0 };
        Ok(Self {
            think,
            stream,
            ready: (0..tasks).map(|task| Reverse((start, u64::from(task), ClosedTask::new(task)))).collect(),
            known: u64::from(tasks),
            recorded: vec![Duration::ZERO; pauses],
        })
    }

    #[inline]
    fn take(&mut self, think: Option<Duration>) -> Option<ClosedTask> {
        let Reverse((_, _, task)) = self.ready.pop()?;
        if let Some(pause) = self.recorded.get_mut(task.get() as usize) {
            *pause = think.unwrap_or(Duration::ZERO);
        }
        Some(task)
    }

    #[inline]
    fn complete(&mut self, task: ClosedTask, now: Instant) {
        let pause = match self.think {
            Think::None => Duration::ZERO,
            Think::Constant(pause) => pause,
            Think::Exponential(mean) => self.stream.exponential_time(mean),
            Think::Recorded => self.recorded.get(task.get() as usize).copied().unwrap_or(Duration::ZERO),
        };
        self.ready.push(Reverse((later(now, pause), self.known, task)));
        self.known += 1;
    }
}

#[inline]
fn scaled(arrival: Instant, scale: f64) -> Duration {
    let ns = arrival.as_nanos();
    // A float would lose nanoseconds beyond 104 days, so a scale of 1 must not convert.
    Duration::from_nanos(if scale == 1.0 { ns } else { (ns as f64 * scale).round() as u64 })
}

fn checked_rate(rate: f64) -> Result<f64, ConfigError> {
    within("rate", rate, 1e-6, 1e9, "give requests a second, from 0.000001 to 1000000000")
}

pub(crate) fn within(
    field: &'static str,
    value: f64,
    low: f64,
    high: f64,
    mend: &'static str,
) -> Result<f64, ConfigError> {
    if (low..=high).contains(&value) { Ok(value) } else { Err(ConfigError::field(field, value, mend)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Lbn, LbnRange, Op, Sectors};

    /// A source whose request n is at LBN n, with a think time and an arrival of n ms.
    struct Counted {
        given: u64,
        end: u64,
    }

    impl Source for Counted {
        fn next_request(&mut self) -> Option<Request> {
            (self.given < self.end).then(|| {
                self.given += 1;
                Request { op: Op::Read, range: LbnRange::new(Lbn::new(self.given), Sectors::new(1)) }
            })
        }
        fn recorded_think(&self) -> Option<Duration> {
            Some(Duration::from_millis(self.given))
        }
        fn recorded_arrival(&self) -> Option<Instant> {
            Some(ms(self.given))
        }
        fn recorded(&self) -> crate::Recorded {
            crate::Recorded { arrivals: true, thinks: true }
        }
    }

    struct Untimed;
    impl Source for Untimed {
        fn next_request(&mut self) -> Option<Request> {
            Some(Request { op: Op::Read, range: LbnRange::new(Lbn::ZERO, Sectors::new(1)) })
        }
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn issuer(end: u64, arrival: Arrival) -> Issuer<Counted> {
        Issuer::new(Counted { given: 0, end }, arrival, Instant::ZERO, 1).unwrap()
    }

    #[test]
    fn a_closed_loop_has_one_request_a_task() {
        let mut issuer = issuer(100, Arrival::outstanding(3));
        let first: Vec<_> = std::iter::from_fn(|| issuer.issue(ms(0))).collect();
        assert_eq!(first.iter().map(|i| i.task.get()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(issuer.due(), None);
        issuer.complete(first[1].task, ms(5));
        let next = issuer.issue(ms(5)).unwrap();
        assert_eq!((next.task, next.at, next.request.range.start()), (first[1].task, ms(5), Lbn::new(4)));
        assert_eq!(issuer.issue(ms(5)), None);
    }

    #[test]
    fn nothing_is_issued_before_it_is_due() {
        let mut issuer = issuer(100, Arrival::oltp(1));
        let first = issuer.issue(ms(0)).unwrap();
        issuer.complete(first.task, ms(1));
        assert_eq!(issuer.due(), Some(ms(31)));
        assert_eq!(issuer.issue(ms(30)), None);
        assert_eq!(issuer.issue(ms(40)).unwrap().at, ms(31));
    }

    #[test]
    fn equal_times_go_in_the_order_of_completion() {
        let mut issuer = issuer(100, Arrival::oltp(3));
        let tasks: Vec<_> = std::iter::from_fn(|| issuer.issue(ms(0))).map(|i| i.task).collect();
        for task in [tasks[2], tasks[0], tasks[1]] {
            issuer.complete(task, ms(1));
        }
        let order: Vec<_> = std::iter::from_fn(|| issuer.issue(ms(31))).map(|i| i.task).collect();
        assert_eq!(order, [tasks[2], tasks[0], tasks[1]]);
    }

    #[test]
    fn recorded_thinks_follow_their_own_request() {
        let closed = Closed { tasks: 2, think: Think::Recorded };
        let mut issuer = issuer(100, Arrival::Closed(closed));
        let (a, b) = (issuer.issue(ms(0)).unwrap(), issuer.issue(ms(0)).unwrap());
        issuer.complete(b.task, ms(10));
        assert_eq!(issuer.due(), Some(ms(12)));
        issuer.complete(a.task, ms(10));
        assert_eq!(issuer.due(), Some(ms(11)));
    }

    #[test]
    fn recorded_arrivals_scale_and_do_not_wait() {
        let mut issuer = issuer(3, Arrival::Recorded { scale: 0.5 });
        let all: Vec<_> = std::iter::from_fn(|| issuer.issue(ms(9))).map(|i| i.at.as_nanos()).collect();
        assert_eq!(all, [500_000, 1_000_000, 1_500_000]);
        assert_eq!((issuer.due(), issuer.outstanding(), issuer.is_done()), (None, 3, false));
        for _ in 0..3 {
            issuer.complete(ClosedTask::default(), ms(20));
        }
        assert!(issuer.is_done());
    }

    #[test]
    fn a_closed_loop_ends_with_its_source() {
        let mut issuer = issuer(2, Arrival::outstanding(1));
        for n in 0..2 {
            assert!(!issuer.is_done());
            let issued = issuer.issue(ms(n)).unwrap();
            issuer.complete(issued.task, ms(n + 1));
        }
        assert!(issuer.is_done());
        assert_eq!(issuer.due(), None);
    }

    #[test]
    fn poisson_arrivals_have_their_rate() {
        const N: usize = 100_000;
        let arrival = Arrival::Poisson { rate: 200.0 };
        let mut issuer = Issuer::new(Untimed, arrival, Instant::ZERO, 3).unwrap();
        let last = (0..N).map(|_| issuer.issue(Instant::MAX).unwrap().at).last().unwrap();
        // The mean pause is 5 ms, within five standard errors.
        let mean = last.as_secs_f64() / N as f64;
        assert!((mean - 0.005).abs() < 0.005 * 5.0 / (N as f64).sqrt(), "{mean}");
    }

    #[test]
    fn wrong_settings_name_the_field_and_the_mend() {
        let refuse = |arrival| Issuer::new(Untimed, arrival, Instant::ZERO, 1).err().unwrap().to_string();
        assert_eq!(refuse(Arrival::outstanding(0)), "tasks is 0; give a number from 1 to 1048576");
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refuse(Arrival::Poisson { rate }).starts_with("rate is "));
        }
        assert!(refuse(Arrival::Recorded { scale: 1.0 }).contains("closed loop"));
        let closed = Closed { tasks: 1, think: Think::Recorded };
        assert!(refuse(Arrival::Closed(closed)).contains("give a think time"));
        let counted = Counted { given: 0, end: 1 };
        let scale = Issuer::new(counted, Arrival::Recorded { scale: f64::NAN }, Instant::ZERO, 1);
        assert!(scale.err().unwrap().to_string().starts_with("scale is NaN; give"));
    }
}
