//! Arrivals that keep a drive busy for a given share of the time.

use crate::error::ConfigError;
use crate::issue::Arrival;
use std::fmt;
use thiserror::Error;
use units::Duration;

/// The share of time for which the foreground has a request in service: the axis of FAST'04's figure 5.
///
/// 0% is silence. 100% is the paper's synthetic benchmark: two requests at the drive at all times, so that one always
/// waits. In between, arrivals are open and Poisson (section 6.2: "the request inter-arrival times are exponentially
/// distributed"), and their rate follows from the utilisation law: a drive that serves `rate` requests a second, each
/// for `service` seconds, is busy for rate x service of the time, whatever the order of service and however arrivals
/// cluster. So the rate depends on the mean service time, which [`calibrate`](Self::calibrate) measures.
///
/// ```
/// use freeblock_workload::{Arrival, Pattern, Utilisation};
/// use units::Duration;
/// let half = Utilisation::from_percent(50.0)?;
/// let Arrival::Poisson { rate } = half.arrival(Pattern::Poisson, Duration::from_millis(8))? else { panic!() };
/// assert_eq!(rate, 62.5);
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utilisation {
    millionths: u32,
}

/// The distribution of arrivals over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// A Poisson process, as in the paper: the drive's idle periods are exponential with mean 1 / rate, so that
    /// e^(-rate x 20 ms) of them are longer than the 20 ms of the paper's idle detector.
    #[default]
    Poisson,
    /// An interrupted Poisson process, with short and long idle periods: the paper's section 5 cites that idle
    /// periods are either of a few milliseconds or of several seconds.
    Bursts {
        /// The mean length of a burst.
        burst: Duration,
        /// The mean length of a silence.
        silence: Duration,
    },
}

/// The result of a simulation or a drive under some arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Requests served.
    pub requests: u64,
    /// Time in which the foreground had a request in service.
    pub busy: Duration,
}

/// Arrivals for a utilisation, and the measurement that they are based on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The arrivals.
    pub arrival: Arrival,
    /// The mean service time under these arrivals; zero if none was measured (0% and 100%).
    pub service: Duration,
    /// The number of measurements.
    pub rounds: u32,
}

/// The reason for which a calibration failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CalibrationError<E> {
    /// The measurement failed.
    #[error("the service time cannot be measured: {0}")]
    Measure(E),
    /// The measurement had no requests or no time.
    #[error("the service time was measured over {requests} requests, busy for {busy}; measure at least one")]
    Empty {
        /// Requests served.
        requests: u64,
        /// Time busy.
        busy: Duration,
    },
    /// The arrivals are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The rounds after which a service time that still changes is accepted: by then it changes by less than the
/// measurement's own error.
const ROUNDS_MAX: u32 = 8;
/// Service times count as equal if they differ by less than one part in this number.
const EQUAL_TIMES_DIVISOR: u64 = 200;

impl Utilisation {
    /// No request at any time.
    pub const IDLE: Self = Self { millionths: 0 };
    /// Always a request in service and another waiting.
    pub const FULL: Self = Self { millionths: 1_000_000 };

    /// Returns the utilisation of `percent` of the time, rounded to 0.0001%.
    ///
    /// # Errors
    /// The value is not a number from 0 to 100.
    pub fn from_percent(percent: f64) -> Result<Self, ConfigError> {
        if (0.0..=100.0).contains(&percent) {
            Ok(Self { millionths: (percent * 1e4).round() as u32 })
        } else {
            Err(ConfigError::field("utilisation", percent, "give a percentage from 0 to 100"))
        }
    }

    /// Returns the utilisation as a part of 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }

    /// Returns the arrivals that give this utilisation with a mean service time of `service`. For 0% and 100% the
    /// service time and the pattern do not matter.
    ///
    /// # Errors
    /// The service time is zero, or so long or short that the rate is not from 1e-6 to 1e9 a second; a burst has no
    /// length.
    pub fn arrival(self, pattern: Pattern, service: Duration) -> Result<Arrival, ConfigError> {
        if self == Self::IDLE {
            return Ok(Arrival::Silent);
        }
        if self == Self::FULL {
            return Ok(Arrival::outstanding(2));
        }
        let rate = self.as_f64() / service.as_secs_f64();
        if !(1e-6..=1e9).contains(&rate) {
            return Err(ConfigError::field("service", service, "give the drive's mean service time"));
        }
        match pattern {
            Pattern::Poisson => Ok(Arrival::Poisson { rate }),
            Pattern::Bursts { burst, silence } => {
                if burst == Duration::ZERO {
                    return Err(ConfigError::field("burst", burst, "give a mean length above zero"));
                }
                Ok(Arrival::Bursts { rate, burst, silence })
            }
        }
    }

    /// Finds the arrivals that give this utilisation by measurements: first of one request at a time, then of the
    /// arrivals that follow from the last measured service time, until it stays the same within half a percent.
    ///
    /// If the service time does not depend on the queue (FCFS), the first measurement is enough. Under a policy that
    /// serves a longer queue faster, the service time S falls with the rate r; as long as the busy share r S(r) still
    /// rises with r, the step r -> share / S(r) has a slope below 1 at the solution, so the steps converge.
    ///
    /// # Errors
    /// `measure` failed; a measurement had no requests; as for [`arrival`](Self::arrival).
    pub fn calibrate<E>(
        self,
        pattern: Pattern,
        mut measure: impl FnMut(Arrival) -> Result<Measured, E>,
    ) -> Result<Calibration, CalibrationError<E>> {
        if self == Self::IDLE || self == Self::FULL {
            let arrival = self.arrival(pattern, Duration::ZERO)?;
            return Ok(Calibration { arrival, service: Duration::ZERO, rounds: 0 });
        }
        let mut service = mean_service(measure(Arrival::outstanding(1)))?;
        let mut arrival = self.arrival(pattern, service)?;
        let mut rounds = 1;
        while rounds < ROUNDS_MAX {
            let next = mean_service(measure(arrival))?;
            let same =
                next.as_nanos().abs_diff(service.as_nanos()) <= service.as_nanos() / EQUAL_TIMES_DIVISOR;
            service = next;
            arrival = self.arrival(pattern, service)?;
            rounds += 1;
            if same {
                break;
            }
        }
        Ok(Calibration { arrival, service, rounds })
    }
}

fn mean_service<E>(measured: Result<Measured, E>) -> Result<Duration, CalibrationError<E>> {
    let Measured { requests, busy } = measured.map_err(CalibrationError::Measure)?;
    match busy.as_nanos().checked_div(requests) {
        Some(mean) if mean > 0 => Ok(Duration::from_nanos(mean)),
        _ => Err(CalibrationError::Empty { requests, busy }),
    }
}

impl fmt::Display for Utilisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.as_f64() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive that serves one request in 10 ms, and is faster with more requests.
    fn falling(arrival: Arrival) -> Result<Measured, ()> {
        let service_ms = match arrival {
            Arrival::Poisson { rate } => 10.0 / (1.0 + rate / 200.0),
            _ => 10.0,
        };
        Ok(Measured { requests: 1_000, busy: Duration::from_millis_f64(service_ms * 1_000.0).unwrap() })
    }

    #[test]
    fn a_service_time_that_falls_with_the_rate_is_found() {
        for percent in [10.0, 30.0, 50.0] {
            let asked = Utilisation::from_percent(percent).unwrap();
            let found = asked.calibrate(Pattern::Poisson, falling).unwrap();
            let Arrival::Poisson { rate } = found.arrival else { panic!("{found:?}") };
            let busy = rate * 0.010 / (1.0 + rate / 200.0);
            assert!((busy - percent / 100.0).abs() < 0.005, "{percent}: {busy} in {}", found.rounds);
        }
    }

    #[test]
    fn the_ends_need_no_measurement() {
        let never = |_| -> Result<Measured, &str> { Err("measured") };
        let end = |u: Utilisation| u.calibrate(Pattern::Poisson, never).unwrap().arrival;
        assert_eq!(end(Utilisation::IDLE), Arrival::Silent);
        assert_eq!(end(Utilisation::FULL), Arrival::outstanding(2));
        let half = Utilisation::from_percent(50.0).unwrap().calibrate(Pattern::Poisson, never);
        assert_eq!(half.unwrap_err().to_string(), "the service time cannot be measured: measured");
    }

    #[test]
    fn an_invalid_utilisation_names_the_mend() {
        for percent in [-1.0, 100.1, f64::NAN] {
            let refused = Utilisation::from_percent(percent).unwrap_err().to_string();
            assert!(refused.ends_with("give a percentage from 0 to 100"), "{refused}");
        }
        let half = Utilisation::from_percent(50.0).unwrap();
        let refused = half.arrival(Pattern::Poisson, Duration::ZERO).unwrap_err().to_string();
        assert!(refused.contains("give the drive's mean service time"), "{refused}");
        let none = Pattern::Bursts { burst: Duration::ZERO, silence: Duration::from_secs(1) };
        assert!(
            half.arrival(none, Duration::from_millis(8)).unwrap_err().to_string().starts_with("burst is")
        );
        let nothing = |_| -> Result<Measured, ()> { Ok(Measured { requests: 0, busy: Duration::ZERO }) };
        let refused = half.calibrate(Pattern::Poisson, nothing).unwrap_err();
        assert!(matches!(refused, CalibrationError::Empty { .. }));
    }
}
