//! The parser of the language.

use super::{
    Extent, Mixture, MixtureError, PARTS_MAX, Part, Place, Run, SIZE_DEFAULT, SIZE_MAX, STREAMS_MAX, Size,
    Span, TEXT_BYTES_MAX, WEIGHT_MAX, WeightedSize,
};
use crate::issue::{Arrival, Closed, TASKS_MAX, Think};
use crate::random::Share;
use std::ops::Range;
use units::{Bytes, Duration, Lbn};

/// Millionths in a whole, and the decimals of a percentage in millionths.
const WHOLE_PPM: u64 = 1_000_000;
const PERCENT_DECIMALS: u32 = 4;

const THETA_PPM_MAX: u64 = 10 * WHOLE_PPM;
const THETA_MEND: &str = "give an exponent from 0.01 to 10 with at most 6 decimals, such as zipf:0.9";
/// The most requests of a run, which fit into 32 bits.
const RUN_REQUESTS_MAX: u64 = 1_000_000_000;
/// The lowest rate: a request in a quarter of an hour, so that simulated time does not run out.
const REQUESTS_PER_SECOND_MIN: f64 = 0.001;
/// The highest rate: beyond it arrivals are less than a microsecond apart.
const REQUESTS_PER_SECOND_MAX: f64 = 1e6;
/// The longest time in the text, an hour: simulated time must not run out.
const TIME_NS_MAX: u64 = 3_600_000_000_000;

const PLACES: &str =
    "the places are random, zipf:THETA, hot:SHARE@FROM%-TO% and sequential or sequential:STREAMS";
const ARRIVALS: &str = "the arrivals are poisson:RATE, constant:RATE, bursts:RATE,on=TIME,off=TIME, onoff:RATE,on=TIME,off=TIME and closed:TASKS or closed:TASKS,think=TIME";
const SHARE: &str = "give a share from 0 to 1, such as 0.7, 70% or 2/3";
const BYTES: &str = "give bytes as a whole number, such as 512, 4k or 1m (k is 1024), at most 1g";
const TIME: &str = "give a time with its unit, such as 30ms, 0.5s or 200us, at most an hour";
const RATE: &str = "give requests a second from 0.001 to 1000000";
const RANGE: &str =
    "give two shares of the drive, such as 0%-50%, or the first LBN and the last, such as 1000-1999";

type Parsed<T> = Result<T, MixtureError>;

/// Reads a load.
pub(super) fn load(text: &str) -> Parsed<Mixture> {
    if text.len() > TEXT_BYTES_MAX {
        let problem = format!("the load has {} bytes", text.len());
        return Err(MixtureError::new(0..0, problem, format!("give {TEXT_BYTES_MAX} at most")));
    }
    let mut reader = Scanner { text, at: 0 };
    let mut parts = Vec::new();
    loop {
        let begun = reader.here();
        if parts.len() == PARTS_MAX {
            let problem = format!("more than {PARTS_MAX} parts");
            return Err(MixtureError::new(begun..begun, problem, "leave some out"));
        }
        let part = part(&mut reader)?;
        parts.push(Part { span: Span(begun..reader.last_end()), ..part });
        if !reader.take('+') {
            break;
        }
    }
    let arrival = if reader.take(';') { Some(arrival(&mut reader)?) } else { None };
    if reader.peek().is_some() {
        let mend = if arrival.is_some() {
            "the arrivals end the load; leave out the rest"
        } else {
            "put a comma before a setting, + before another part, and ; before the arrivals"
        };
        return Err(reader.unexpected(mend));
    }
    Ok(Mixture { parts, arrival })
}

fn part(reader: &mut Scanner<'_>) -> Parsed<Part> {
    let weight = weight(reader)?;
    let (word, span) = reader.word(PLACES)?;
    let place = match word {
        "random" => Place::Random,
        "zipf" => {
            reader.need(':', THETA_MEND)?;
            let (theta, at) = reader.number(6, THETA_MEND)?;
            if !(10_000..=THETA_PPM_MAX).contains(&theta) {
                return Err(MixtureError::new(at, "the exponent is out of its range", THETA_MEND));
            }
            Place::Zipf { theta_ppm: theta as u32, block: None, ascending: false }
        }
        "hot" => hot(reader)?,
        "sequential" => {
            let streams = if reader.take(':') { reader.whole(1, STREAMS_MAX.into(), "streams")? } else { 1 };
            Place::Sequential { streams: streams as u32, run: Run::Endless }
        }
        _ => return Err(MixtureError::new(span, format!("{word:?} is no place of requests"), PLACES)),
    };
    let default = WeightedSize { weight: 1, size: Size::Constant(SIZE_DEFAULT) };
    let mut part = Part {
        weight,
        place,
        sizes: vec![default],
        reads: Share::TWO_THIRDS,
        extent: Extent::WHOLE,
        align: None,
        span: Span::default(),
    };
    let mut given = Vec::new();
    while reader.take(',') {
        setting(reader, &mut part, &mut given)?;
    }
    Ok(part)
}

/// Reads `WEIGHT*` if the text has it here; returns 1 otherwise.
fn weight(reader: &mut Scanner<'_>) -> Parsed<u32> {
    let begun = reader.at;
    let mend = "give a whole number";
    if reader.peek().is_some_and(|c| c.is_ascii_digit()) && reader.word(mend).is_ok() && reader.take('*') {
        reader.at = begun;
        let weight = reader.whole(1, WEIGHT_MAX.into(), "weight")?;
        reader.need('*', mend)?;
        return Ok(weight as u32);
    }
    reader.at = begun;
    Ok(1)
}

fn hot(reader: &mut Scanner<'_>) -> Parsed<Place> {
    let mend = "give the share of requests and the hot region, such as hot:80%@0%-20%";
    reader.need(':', mend)?;
    let share = share(reader)?;
    reader.need('@', mend)?;
    let begun = reader.here();
    let from = percent(reader, mend)?;
    reader.need('-', mend)?;
    let to = percent(reader, mend)?;
    if from >= to {
        let span = begun..reader.last_end();
        return Err(MixtureError::new(span, "the hot region is empty", mend));
    }
    if (from, to) == (0, WHOLE_PPM as u32) {
        let span = begun..reader.last_end();
        return Err(MixtureError::new(
            span,
            "the hot region is the whole range",
            "give a smaller one, or random",
        ));
    }
    Ok(Place::Hot { share, from_ppm: from, to_ppm: to })
}

fn setting<'a>(reader: &mut Scanner<'a>, part: &mut Part, given: &mut Vec<&'a str>) -> Parsed<()> {
    let mend =
        "the settings are size, reads, range and align, with zipf block and order, with sequential run";
    let (name, span) = reader.word(mend)?;
    let refuse = |problem: String, mend: &str| Err(MixtureError::new(span.clone(), problem, mend));
    if given.contains(&name) {
        return refuse(format!("{name} is given twice"), "leave one out");
    }
    given.push(name);
    let need = |reader: &mut Scanner<'_>| reader.need('=', &format!("give {name}=VALUE"));
    match (name, &mut part.place) {
        ("size", _) => {
            need(reader)?;
            part.sizes = sizes(reader)?;
        }
        ("reads", _) => {
            need(reader)?;
            part.reads = share(reader)?;
        }
        ("range", _) => {
            need(reader)?;
            part.extent = extent(reader)?;
        }
        ("align", _) => {
            need(reader)?;
            part.align = Some(bytes(reader)?);
        }
        ("block", Place::Zipf { block, .. }) => {
            need(reader)?;
            *block = Some(bytes(reader)?);
        }
        ("order", Place::Zipf { ascending, .. }) => {
            need(reader)?;
            let mend = "give order=scattered (the default) or order=ascending";
            let (word, at) = reader.word(mend)?;
            *ascending = match word {
                "scattered" => false,
                "ascending" => true,
                _ => return Err(MixtureError::new(at, format!("{word:?} is no order"), mend)),
            };
        }
        ("run", Place::Sequential { run, .. }) => {
            need(reader)?;
            *run = if reader.keyword("geometric") {
                reader.need(':', "give the mean, such as run=geometric:64")?;
                Run::Geometric(reader.whole(1, RUN_REQUESTS_MAX, "mean run")? as u32)
            } else {
                Run::Constant(reader.whole(1, RUN_REQUESTS_MAX, "run")? as u32)
            };
        }
        ("block" | "order", _) => {
            return refuse(format!("{name} needs zipf"), "omit the part, or give zipf:THETA");
        }
        ("run", _) => return refuse("run needs sequential".into(), "omit the part, or give sequential"),
        _ => return refuse(format!("{name:?} is no setting of a part"), mend),
    }
    Ok(())
}

fn sizes(reader: &mut Scanner<'_>) -> Parsed<Vec<WeightedSize>> {
    let mut sizes = Vec::new();
    loop {
        if sizes.len() == PARTS_MAX {
            let at = reader.here();
            let problem = format!("more than {PARTS_MAX} sizes");
            return Err(MixtureError::new(at..at, problem, "leave some out, or give a distribution"));
        }
        let weight = weight(reader)?;
        let size = if reader.keyword("exponential") {
            let mend = "give the mean and the largest size, such as exponential:8k:256k";
            reader.need(':', mend)?;
            let mean = bytes(reader)?;
            reader.need(':', mend)?;
            Size::Exponential { mean, max: bytes(reader)? }
        } else {
            let begun = reader.here();
            let low = bytes(reader)?;
            if reader.take('-') {
                let high = bytes(reader)?;
                if high < low {
                    let span = begun..reader.last_end();
                    let mend = "give the smaller size first, such as 4k-64k";
                    return Err(MixtureError::new(span, "the sizes are out of order", mend));
                }
                Size::Uniform(low, high)
            } else {
                Size::Constant(low)
            }
        };
        sizes.push(WeightedSize { weight, size });
        if !reader.take('/') {
            return Ok(sizes);
        }
    }
}

fn extent(reader: &mut Scanner<'_>) -> Parsed<Extent> {
    let begun = reader.here();
    let (word, span) = reader.word(RANGE)?;
    reader.at = span.start;
    let (extent, empty) = if word.ends_with('%') {
        let from_ppm = percent(reader, RANGE)?;
        reader.need('-', RANGE)?;
        let to_ppm = percent(reader, RANGE)?;
        (Extent::Share { from_ppm, to_ppm }, from_ppm >= to_ppm)
    } else {
        let first = Lbn::new(reader.whole(0, u64::MAX - 1, "LBN")?);
        reader.need('-', RANGE)?;
        let last = Lbn::new(reader.whole(0, u64::MAX - 1, "LBN")?);
        (Extent::Lbns { first, last }, first > last)
    };
    if empty {
        return Err(MixtureError::new(begun..reader.last_end(), "the range is empty", RANGE));
    }
    Ok(extent)
}

fn arrival(reader: &mut Scanner<'_>) -> Parsed<Arrival> {
    let (word, span) = reader.word(ARRIVALS)?;
    match word {
        "poisson" => Ok(Arrival::Poisson { rate: rate(reader)? }),
        "constant" => Ok(Arrival::Constant { rate: rate(reader)? }),
        "bursts" | "onoff" => {
            let rate = rate(reader)?;
            let (on, off) = (time(reader, "on")?, time(reader, "off")?);
            if on == Duration::ZERO {
                let mend = "give the time for which requests come, such as on=500ms";
                return Err(MixtureError::new(span, "on is no time at all", mend));
            }
            Ok(match word {
                "bursts" => Arrival::Bursts { rate, burst: on, silence: off },
                _ => Arrival::OnOff { rate, on, off },
            })
        }
        "closed" => {
            reader.need(':', "give the number of tasks, such as closed:8")?;
            let tasks = reader.whole(1, TASKS_MAX.into(), "tasks")? as u32;
            let mut think = Think::None;
            if reader.take(',') {
                reader.name("think")?;
                let exponential = reader.keyword("exponential");
                if exponential {
                    reader.need(':', "give the mean, such as think=exponential:30ms")?;
                }
                think = match duration(reader)? {
                    Duration::ZERO => Think::None,
                    time if exponential => Think::Exponential(time),
                    time => Think::Constant(time),
                };
            }
            Ok(Arrival::Closed(Closed { tasks, think }))
        }
        _ => Err(MixtureError::new(span, format!("{word:?} are no arrivals"), ARRIVALS)),
    }
}

/// Reads `:RATE`.
fn rate(reader: &mut Scanner<'_>) -> Parsed<f64> {
    reader.need(':', RATE)?;
    let (word, span) = reader.word(RATE)?;
    let plain = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let rate: Option<f64> = plain.then(|| word.parse().ok()).flatten();
    rate.filter(|rate| (REQUESTS_PER_SECOND_MIN..=REQUESTS_PER_SECOND_MAX).contains(rate))
        .ok_or_else(|| MixtureError::new(span, format!("{word:?} is no rate"), RATE))
}

/// Reads `,NAME=TIME`.
fn time(reader: &mut Scanner<'_>, name: &str) -> Parsed<Duration> {
    reader.need(',', &format!("give {name}=TIME, such as {name}=500ms"))?;
    reader.name(name)?;
    duration(reader)
}

fn duration(reader: &mut Scanner<'_>) -> Parsed<Duration> {
    let (word, span) = reader.word(TIME)?;
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let decimals = match &word[digits.len()..] {
        "ns" => Some(0),
        "us" => Some(3),
        "ms" => Some(6),
        "s" => Some(9),
        _ => None,
    };
    decimals
        .and_then(|decimals| scaled(digits, decimals))
        .filter(|ns| *ns <= TIME_NS_MAX)
        .map(Duration::from_nanos)
        .ok_or_else(|| MixtureError::new(span, format!("{word:?} is no time"), TIME))
}

fn bytes(reader: &mut Scanner<'_>) -> Parsed<Bytes> {
    let (word, span) = reader.word(BYTES)?;
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match word[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        _ => None,
    };
    let whole = scaled(digits, 0);
    whole
        .zip(shift)
        .and_then(|(n, shift)| n.checked_mul(1 << shift))
        .filter(|bytes| (1..=SIZE_MAX.get()).contains(bytes))
        .map(Bytes::new)
        .ok_or_else(|| MixtureError::new(span, format!("{word:?} is no size"), BYTES))
}

/// Reads a percentage with its sign; returns millionths.
fn percent(reader: &mut Scanner<'_>, mend: &str) -> Parsed<u32> {
    let (word, span) = reader.word(mend)?;
    let ppm = word.strip_suffix('%').and_then(|number| scaled(number, PERCENT_DECIMALS));
    ppm.filter(|ppm| *ppm <= WHOLE_PPM)
        .map(|ppm| ppm as u32)
        .ok_or_else(|| MixtureError::new(span, format!("{word:?} is no percentage from 0% to 100%"), mend))
}

fn share(reader: &mut Scanner<'_>) -> Parsed<Share> {
    let (word, span) = reader.word(SHARE)?;
    let ratio = if let Some(number) = word.strip_suffix('%') {
        scaled(number, PERCENT_DECIMALS).map(|ppm| (ppm, WHOLE_PPM))
    } else if reader.take('/') {
        let (whole, _) = reader.word(SHARE)?;
        scaled(word, 0).zip(scaled(whole, 0))
    } else {
        scaled(word, 6).map(|ppm| (ppm, WHOLE_PPM))
    };
    let wrong = || MixtureError::new(span.start..reader.last_end(), "the weight is no share", SHARE);
    let (part, whole) = ratio.ok_or_else(wrong)?;
    Share::new(part, whole).map_err(|_| wrong())
}

/// Returns an unsigned decimal number times 10^`decimals` if that is a whole number of at most 64 bits.
fn scaled(text: &str, decimals: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let missing = (decimals as usize).checked_sub(fraction.len())?;
    if whole.is_empty() || !digits(whole) || !digits(fraction) || text.ends_with('.') {
        return None;
    }
    let number: u64 =
        if fraction.is_empty() { whole.parse().ok()? } else { format!("{whole}{fraction}").parse().ok()? };
    number.checked_mul(10u64.checked_pow(missing as u32)?)
}

/// A position in the text. Blanks between words and signs are skipped.
struct Scanner<'a> {
    text: &'a str,
    /// A byte index at a boundary of characters.
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Returns the index of the next word or sign.
    fn here(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    /// Returns the end of the last word or sign before the position.
    fn last_end(&self) -> usize {
        self.text.get(..self.at).unwrap_or_default().trim_end().len()
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.rest().chars().next()
    }

    /// Skips a sign; returns whether the sign was there.
    fn take(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(sign);
        if found {
            self.at += sign.len_utf8();
        }
        found
    }

    fn need(&mut self, sign: char, mend: &str) -> Parsed<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected_but(&format!("{sign:?} is missing"), mend)) }
    }

    /// Takes a word: letters, digits, points and percent signs.
    fn word(&mut self, mend: &str) -> Parsed<(&'a str, Range<usize>)> {
        let begun = self.here();
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '%' | '_');
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.unexpected(mend));
        }
        self.at += len;
        Ok((&rest[..len], begun..begun + len))
    }

    /// Skips this word; returns whether the word was there.
    fn keyword(&mut self, keyword: &str) -> bool {
        let begun = self.at;
        let found = self.word("").is_ok_and(|(word, _)| word == keyword);
        if !found {
            self.at = begun;
        }
        found
    }

    /// Takes `NAME=`.
    fn name(&mut self, name: &str) -> Parsed<()> {
        let mend = format!("give {name}=TIME, such as {name}=30ms");
        let (word, span) = self.word(&mend)?;
        if word != name {
            return Err(MixtureError::new(span, format!("{word:?} is not {name}"), mend));
        }
        self.need('=', &mend)
    }

    /// Takes a number with at most `decimals` decimals; returns the number times 10^`decimals`.
    fn number(&mut self, decimals: u32, mend: &str) -> Parsed<(u64, Range<usize>)> {
        let (word, span) = self.word(mend)?;
        match scaled(word, decimals) {
            Some(number) => Ok((number, span)),
            None => Err(MixtureError::new(span, format!("{word:?} is no such number"), mend)),
        }
    }

    /// Takes a whole number from `low` to `high`.
    fn whole(&mut self, low: u64, high: u64, what: &str) -> Parsed<u64> {
        let mend = format!("give a whole number from {low} to {high}");
        let (word, span) = self.word(&mend)?;
        scaled(word, 0)
            .filter(|n| (low..=high).contains(n))
            .ok_or_else(|| MixtureError::new(span, format!("{what} is {word:?}"), mend))
    }

    fn unexpected(&mut self, mend: &str) -> MixtureError {
        self.unexpected_but("something else is needed", mend)
    }

    /// Returns an error at the next character.
    fn unexpected_but(&mut self, missing: &str, mend: &str) -> MixtureError {
        match self.peek() {
            Some(c) => {
                let problem = format!("{c:?} is unexpected, {missing}");
                MixtureError::new(self.at..self.at + c.len_utf8(), problem, mend)
            }
            None => {
                let end = self.text.trim_end().len();
                MixtureError::new(end..end, "the load ends too early", mend)
            }
        }
    }
}
