//! The text of a load.

use super::{Extent, Mixture, Part, Place, Run, Size, WeightedSize};
use crate::issue::{Arrival, Closed, Think};
use crate::random::Share;
use std::fmt::{self, Display, Formatter};
use units::{Bytes, Duration};

impl Display for Mixture {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, part) in self.parts().iter().enumerate() {
            let between = if n == 0 { "" } else { " + " };
            write!(f, "{between}{part}")?;
        }
        match self.arrival() {
            Some(arrival) => write!(f, "; {}", ArrivalText(arrival)),
            None => Ok(()),
        }
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        weight(f, self.weight)?;
        match self.place {
            Place::Random => f.write_str("random")?,
            Place::Zipf { theta_ppm, block, ascending } => {
                write!(f, "zipf:{}", Scaled(theta_ppm.into(), 6))?;
                if let Some(block) = block {
                    write!(f, ",block={}", Binary(block))?;
                }
                if ascending {
                    f.write_str(",order=ascending")?;
                }
            }
            Place::Hot { share, from_ppm, to_ppm } => {
                write!(f, "hot:{}@{}-{}", Ratio(share), Percent(from_ppm), Percent(to_ppm))?;
            }
            Place::Sequential { streams, run } => {
                write!(f, "sequential:{streams}")?;
                match run {
                    Run::Endless => {}
                    Run::Constant(n) => write!(f, ",run={n}")?,
                    Run::Geometric(n) => write!(f, ",run=geometric:{n}")?,
                }
            }
        }
        for (n, WeightedSize { weight: of, size }) in self.sizes.iter().enumerate() {
            f.write_str(if n == 0 { ",size=" } else { "/" })?;
            weight(f, *of)?;
            match size {
                Size::Constant(bytes) => write!(f, "{}", Binary(*bytes))?,
                Size::Uniform(low, high) => write!(f, "{}-{}", Binary(*low), Binary(*high))?,
                Size::Exponential { mean, max } => {
                    write!(f, "exponential:{}:{}", Binary(*mean), Binary(*max))?;
                }
            }
        }
        write!(f, ",reads={}", Ratio(self.reads))?;
        match self.extent {
            Extent::WHOLE => {}
            Extent::Share { from_ppm, to_ppm } => {
                write!(f, ",range={}-{}", Percent(from_ppm), Percent(to_ppm))?;
            }
            Extent::Lbns { first, last } => write!(f, ",range={}-{}", first.get(), last.get())?,
        }
        match self.align {
            Some(align) => write!(f, ",align={}", Binary(align)),
            None => Ok(()),
        }
    }
}

fn weight(f: &mut Formatter<'_>, weight: u32) -> fmt::Result {
    if weight == 1 { Ok(()) } else { write!(f, "{weight}*") }
}

/// Arrivals as text. Arrivals that the language does not have, which a parsed load never has, give
/// no text.
struct ArrivalText(Arrival);

impl Display for ArrivalText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Arrival::Poisson { rate } => write!(f, "poisson:{rate}"),
            Arrival::Constant { rate } => write!(f, "constant:{rate}"),
            Arrival::Bursts { rate, burst, silence } => {
                write!(f, "bursts:{rate},on={},off={}", Time(burst), Time(silence))
            }
            Arrival::OnOff { rate, on, off } => {
                write!(f, "onoff:{rate},on={},off={}", Time(on), Time(off))
            }
            Arrival::Closed(Closed { tasks, think }) => match think {
                Think::Constant(time) => write!(f, "closed:{tasks},think={}", Time(time)),
                Think::Exponential(mean) => write!(f, "closed:{tasks},think=exponential:{}", Time(mean)),
                Think::None | Think::Recorded => write!(f, "closed:{tasks}"),
            },
            Arrival::Silent | Arrival::Scripted | Arrival::Recorded { .. } => Ok(()),
        }
    }
}

/// A whole number of 10^-n as a decimal number without trailing zeros.
struct Scaled(u64, u32);

impl Display for Scaled {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let one = 10u64.pow(self.1);
        let (whole, mut rest, mut width) = (self.0 / one, self.0 % one, self.1 as usize);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        while rest.is_multiple_of(10) {
            rest /= 10;
            width -= 1;
        }
        write!(f, "{whole}.{rest:0width$}")
    }
}

struct Percent(u32);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", Scaled(self.0.into(), 4))
    }
}

/// A share as text: a percentage if its denominator is a million, else a ratio.
struct Ratio(Share);

impl Display for Ratio {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.0.numerator(), self.0.denominator().get()) {
            (ppm, 1_000_000) => write!(f, "{}%", Scaled(ppm, 4)),
            (part, whole) => write!(f, "{part}/{whole}"),
        }
    }
}

/// Bytes as text, in the largest unit of which they are a multiple.
struct Binary(Bytes);

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        let units = [(30, "g"), (20, "m"), (10, "k")];
        match units.into_iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
            None => write!(f, "{bytes}"),
        }
    }
}

struct Time(Duration);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            ns if ns.is_multiple_of(1_000_000_000) => write!(f, "{}s", ns / 1_000_000_000),
            ns => write!(f, "{}ms", Scaled(ns, 6)),
        }
    }
}
