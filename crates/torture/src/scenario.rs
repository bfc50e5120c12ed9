//! Reads and writes histories as text files: lines of the set-up, then a line for each step.

mod drawn;

use crate::outer::Outer;
use crate::setup::{DriveSpec, Host, Mimicry, Setup, UnknownHost};
use crate::step::Step;
use scheduler::policy::PolicyName;
use scheduler::{IdleTime, Sharing};
use std::fmt;
use thiserror::Error;
use units::Duration;

/// The first line of a file.
const FORMAT: &str = "freeblock-torture 1";

/// The latest start in ns, 300 years: with a later one the steps might exceed the range of time.
const START_NS_MAX: u64 = 10_000_000_000_000_000_000;

/// The most steps in a file, because they are kept in memory.
const STEPS_MAX: usize = 1 << 20;

/// A history: a set-up and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The set-up.
    pub setup: Setup,
    /// The steps.
    pub steps: Vec<Step>,
}

/// The error for an invalid file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// The problem and the remedy.
    pub message: String,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.setup;
        writeln!(f, "{FORMAT}")?;
        match &s.drive {
            DriveSpec::Random(seed) => writeln!(f, "drive random {seed}")?,
            DriveSpec::Cut { name, cylinders } => writeln!(f, "drive cut {name} {cylinders}")?,
        }
        writeln!(f, "host {}", s.host)?;
        if matches!(s.host, Host::Outside | Host::VolumeOutside | Host::Daemon) {
            writeln!(f, "outside {}", s.outside)?;
        }
        writeln!(f, "policy {}", s.policy)?;
        match s.mimic {
            Mimicry::None => {}
            Mimicry::Learner => writeln!(f, "mimic learner")?,
            Mimicry::Probing => writeln!(f, "mimic probing")?,
        }
        writeln!(f, "age {}", s.age)?;
        writeln!(f, "budget {}", s.budget)?;
        writeln!(f, "sharing {}", if s.sharing == Sharing::Lottery { "lottery" } else { "greedy" })?;
        match s.idle {
            None => writeln!(f, "idle off")?,
            Some(IdleTime { threshold, short, harm_ppm, .. }) => {
                let short = if short { "short" } else { "long" };
                writeln!(f, "idle {} {harm_ppm} {short}", threshold.as_nanos())?;
            }
        }
        writeln!(f, "most-pending {}", s.most_pending)?;
        writeln!(f, "most-partials {}", s.most_partials)?;
        writeln!(f, "writes-serve-reads {}", if s.writes_serve_reads { "on" } else { "off" })?;
        // The next two lines are written only if they differ from the defaults, because older files do not have them.
        if !s.writes_serve_writes {
            writeln!(f, "writes-serve-writes off")?;
        }
        if s.log {
            writeln!(f, "log on")?;
        }
        writeln!(f, "start {}", s.start_ns)?;
        writeln!(f, "seed {}", s.seed)?;
        // An invalid set-up has no hash of its draws; reading the file refuses it.
        if let Ok(drawn) = s.drawn() {
            writeln!(f, "drawn {drawn:016x}")?;
        }
        writeln!(f, "steps")?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

impl Scenario {
    /// Reads a history from the text of a file. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// The first invalid line, with the problem and the remedy.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut setup = Setup {
            drive: DriveSpec::Random(0),
            host: Host::Core,
            policy: PolicyName::Fcfs,
            age: 0,
            budget: 75,
            sharing: Sharing::Lottery,
            idle: None,
            most_pending: 64,
            most_partials: 64,
            writes_serve_reads: true,
            writes_serve_writes: true,
            log: false,
            mimic: Mimicry::None,
            outside: Outer::default(),
            start_ns: 0,
            seed: 1,
        };
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let wrong = |line: usize, message: String| ScenarioError { line, message };
        match lines.next() {
            Some((_, FORMAT)) => {}
            Some((line, _)) => return Err(wrong(line, format!("no history; the first line is {FORMAT:?}"))),
            None => return Err(wrong(1, format!("an empty file; the first line is {FORMAT:?}"))),
        }
        let (mut steps, mut in_steps, mut last, mut drive_line) = (Vec::new(), false, 1, 1);
        let mut drawn = None;
        for (line, content) in lines {
            last = line;
            let words: Vec<&str> = content.split_whitespace().collect();
            if in_steps {
                if steps.len() >= STEPS_MAX {
                    return Err(wrong(line, format!("more than {STEPS_MAX} steps; cut the file")));
                }
                steps.push(Step::parse(&words).map_err(|message| wrong(line, message))?);
            } else if words == ["steps"] {
                in_steps = true;
            } else if let ["drawn", word] = words[..] {
                let number = u64::from_str_radix(word, 16);
                let reported = "give the 16 digits that were written, or leave the line out";
                drawn = Some((
                    line,
                    number.map_err(|_| wrong(line, format!("{word:?} is no number; {reported}")))?,
                ));
            } else {
                if words.first() == Some(&"drive") {
                    drive_line = line;
                }
                setting(&mut setup, &words).map_err(|message| wrong(line, message))?;
            }
        }
        if !in_steps {
            return Err(wrong(last, "the file ends before its steps; add a line `steps`".into()));
        }
        setup.drive.build().map_err(|e| wrong(drive_line, format!("the drive cannot be made: {e}")))?;
        if let Some((line, was)) = drawn {
            let is = setup.drawn().map_err(|e| wrong(line, e))?;
            let another = || {
                format!(
                    "the draws from the seeds hash to {is:016x} instead of {was:016x}, so this would be another history; \
                     find the failure anew, or leave the line out if it does not matter"
                )
            };
            (is == was).then_some(()).ok_or_else(|| wrong(line, another()))?;
        }
        Ok(Self { setup, steps })
    }
}

fn setting(setup: &mut Setup, words: &[&str]) -> Result<(), String> {
    fn number<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
        word.parse().map_err(|_| format!("{word:?} is no {what}; give a number that fits"))
    }
    match words {
        ["drive", "random", seed] => setup.drive = DriveSpec::Random(number(seed, "seed")?),
        ["drive", "cut", name, n] => {
            setup.drive =
                DriveSpec::Cut { name: (*name).into(), cylinders: number(n, "number of cylinders")? };
        }
        ["host", host] => setup.host = host.parse().map_err(|e: UnknownHost| e.to_string())?,
        ["outside", words @ ..] => setup.outside = Outer::parse(words)?,
        ["mimic", "none"] => setup.mimic = Mimicry::None,
        ["mimic", "learner"] => setup.mimic = Mimicry::Learner,
        ["mimic", "probing"] => setup.mimic = Mimicry::Probing,
        ["policy", name] => setup.policy = name.parse().map_err(|e| format!("{e}"))?,
        ["age", n] => setup.age = number(n, "weight")?,
        ["budget", n] => setup.budget = number(n, "number of tracks")?,
        ["sharing", "lottery"] => setup.sharing = Sharing::Lottery,
        ["sharing", "greedy"] => setup.sharing = Sharing::Greedy,
        ["idle", "off"] => setup.idle = None,
        ["idle", threshold, ppm, used @ ("short" | "long")] => {
            let threshold = Duration::from_nanos(number(threshold, "number of nanoseconds")?);
            let harm_ppm = number(ppm, "part in a million")?;
            let idle = IdleTime::default()
                .with_threshold(threshold)
                .with_short(*used == "short")
                .with_harm_ppm(harm_ppm);
            idle.check().map_err(|error| error.to_string())?;
            setup.idle = Some(idle);
        }
        ["most-pending", n] => setup.most_pending = number(n, "number of requests")?,
        ["most-partials", n] => setup.most_partials = number(n, "number of blocks")?,
        ["writes-serve-reads", "on"] => setup.writes_serve_reads = true,
        ["writes-serve-reads", "off"] => setup.writes_serve_reads = false,
        ["writes-serve-writes", "on"] => setup.writes_serve_writes = true,
        ["writes-serve-writes", "off"] => setup.writes_serve_writes = false,
        ["log", "on"] => setup.log = true,
        ["log", "off"] => setup.log = false,
        ["start", n] => match number(n, "number of nanoseconds")? {
            ns if ns <= START_NS_MAX => setup.start_ns = ns,
            _ => return Err(format!("too late a start; give at most {START_NS_MAX} ns")),
        },
        ["seed", n] => setup.seed = number(n, "seed")?,
        _ => {
            let shown: String = words.join(" ").chars().take(40).collect();
            return Err(format!(
                "{shown:?} is no setting; give drive, host, outside, policy, mimic, age, budget, sharing, idle, most-pending, \
                 most-partials, writes-serve-reads, writes-serve-writes, log, start or seed, or begin the steps with a line `steps`"
            ));
        }
    }
    Ok(())
}
