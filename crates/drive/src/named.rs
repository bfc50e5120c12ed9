//! The text form of behaviours, for command lines: `noise,drift=off,bad_sectors=20:8`.

use crate::behaviour::{BadSectors, Behaviour, Queue, QueueOrder, Rarely, Recalibration, SpindleDrift};
use crate::error::DriveError;
use std::fmt;
use std::str::FromStr;
use units::Duration;

/// The reason for which a word is no valid switch of a behaviour.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SwitchError {
    /// No switch or preset has this name.
    #[error("{word:?} is no behaviour of a drive; give {}, or of these: {}", preset_names(), Behaviour::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The word.
        word: String,
    },
    /// The switch does not have this value.
    #[error("{name}: invalid value {value:?}; {mend}")]
    Value {
        /// The name of the switch.
        name: &'static str,
        /// The invalid value.
        value: String,
        /// The valid values, as an instruction to the user.
        mend: &'static str,
    },
    /// The switch needs a value, because no preset switches it on.
    #[error("{name} needs a value, because no preset switches it on; {mend}")]
    Needs {
        /// The name of the switch.
        name: &'static str,
        /// The valid values, as an instruction to the user.
        mend: &'static str,
    },
    /// The value is out of range.
    #[error(transparent)]
    Range(#[from] DriveError),
}

/// A field of [`Behaviour`] with its name, and functions that read and write its value as text.
struct Switch {
    name: &'static str,
    mend: &'static str,
    /// Copies the field from another behaviour.
    copy: fn(&mut Behaviour, &Behaviour),
    read: fn(&mut Behaviour, &str) -> Option<()>,
    write: fn(&Behaviour) -> String,
}

const TIME: &str = "give a time, such as 20us, 6.4us or 0.5ms, or off";
const COUNT: &str = "give a whole number, or off";
const TRIPLE: &str = "give on, off, or profile for what the profile says";

/// The switches, in the order of the fields.
const SWITCHES: [Switch; 22] = [
    Switch {
        name: "seek_spread",
        mend: TIME,
        copy: |to, from| to.seek_spread = from.seek_spread,
        read: |to, text| set(&mut to.seek_spread, time(text)?),
        write: |of| shown(of.seek_spread),
    },
    Switch {
        name: "late_settles",
        mend: "give how many of a million moves and by how much at most, such as 20000:500us, or off",
        copy: |to, from| to.late_settles = from.late_settles,
        read: |to, text| {
            let (ppm, most) = text.split_once(':')?;
            set(&mut to.late_settles, Rarely { ppm: ppm.parse().ok()?, most: time(most)? })
        },
        write: |of| format!("{}:{}", of.late_settles.ppm, shown(of.late_settles.most)),
    },
    Switch {
        name: "missed_landings_ppm",
        mend: COUNT,
        copy: |to, from| to.missed_landings_ppm = from.missed_landings_ppm,
        read: |to, text| set(&mut to.missed_landings_ppm, text.parse().ok()?),
        write: |of| of.missed_landings_ppm.to_string(),
    },
    Switch {
        name: "seek_ageing_ppm",
        mend: "give by how many millionths seeks are longer, such as 50000 or -20000, or off",
        copy: |to, from| to.seek_ageing_ppm = from.seek_ageing_ppm,
        read: |to, text| set(&mut to.seek_ageing_ppm, text.parse().ok()?),
        write: |of| of.seek_ageing_ppm.to_string(),
    },
    Switch {
        name: "drift",
        mend: "give the largest deviation in millionths and the duration of a speed, such as 5000:5s, or off",
        copy: |to, from| to.drift = from.drift,
        read: |to, text| {
            let (most_ppm, step) = text.split_once(':')?;
            set(&mut to.drift, Some(SpindleDrift { most_ppm: most_ppm.parse().ok()?, step: time(step)? }))
        },
        write: |of| of.drift.map_or(OFF.to_owned(), |d| format!("{}:{}", d.most_ppm, shown(d.step))),
    },
    Switch {
        name: "recalibration",
        mend: "give from one to the next and how long one takes, such as 60s:50ms, or off",
        copy: |to, from| to.recalibration = from.recalibration,
        read: |to, text| {
            let (every, takes) = text.split_once(':')?;
            set(&mut to.recalibration, Some(Recalibration { every: time(every)?, takes: time(takes)? }))
        },
        write: |of| {
            of.recalibration.map_or(OFF.to_owned(), |r| format!("{}:{}", shown(r.every), shown(r.takes)))
        },
    },
    Switch {
        name: "grown_defects",
        mend: COUNT,
        copy: |to, from| to.grown_defects = from.grown_defects,
        read: |to, text| set(&mut to.grown_defects, text.parse().ok()?),
        write: |of| of.grown_defects.to_string(),
    },
    Switch {
        name: "bad_sectors",
        mend: "give the number of bad sectors and the revolutions before a read fails, such as 20:8, or off",
        copy: |to, from| to.bad_sectors = from.bad_sectors,
        read: |to, text| {
            let (count, retries) = text.split_once(':')?;
            let bad = BadSectors { count: count.parse().ok()?, retries: retries.parse().ok()? };
            set(&mut to.bad_sectors, Some(bad))
        },
        write: |of| of.bad_sectors.map_or(OFF.to_owned(), |b| format!("{}:{}", b.count, b.retries)),
    },
    Switch {
        name: "command_percent",
        mend: "give how many percent of the profile's overheads there are, such as 0 or 200, or off for the profile's",
        copy: |to, from| to.command_percent = from.command_percent,
        read: |to, text| set(&mut to.command_percent, Some(text.parse().ok()?)),
        write: |of| of.command_percent.map_or(OFF.to_owned(), |percent| percent.to_string()),
    },
    Switch {
        name: "command_spread",
        mend: TIME,
        copy: |to, from| to.command_spread = from.command_spread,
        read: |to, text| set(&mut to.command_spread, time(text)?),
        write: |of| shown(of.command_spread),
    },
    Switch {
        name: "completion_overhead",
        mend: "give a time, such as 300us, or off for the profile's",
        copy: |to, from| to.completion_overhead = from.completion_overhead,
        read: |to, text| set(&mut to.completion_overhead, Some(time(text)?)),
        write: |of| of.completion_overhead.map_or(OFF.to_owned(), shown),
    },
    Switch {
        name: "completion_spread",
        mend: TIME,
        copy: |to, from| to.completion_spread = from.completion_spread,
        read: |to, text| set(&mut to.completion_spread, time(text)?),
        write: |of| shown(of.completion_spread),
    },
    Switch {
        name: "bus_sector",
        mend: "give the time of a sector on the bus, such as 6.4us, or off for the profile's",
        copy: |to, from| to.bus_sector = from.bus_sector,
        read: |to, text| set(&mut to.bus_sector, Some(time(text)?)),
        write: |of| of.bus_sector.map_or(OFF.to_owned(), shown),
    },
    Switch {
        name: "overlap_percent",
        mend: "give a whole number from 0 to 100, or off",
        copy: |to, from| to.overlap_percent = from.overlap_percent,
        read: |to, text| set(&mut to.overlap_percent, text.parse().ok()?),
        write: |of| of.overlap_percent.to_string(),
    },
    Switch {
        name: "buffer",
        mend: TRIPLE,
        copy: |to, from| to.buffer = from.buffer,
        read: |to, text| set(&mut to.buffer, triple(text)?),
        write: |of| of_triple(of.buffer),
    },
    Switch {
        name: "read_ahead",
        mend: TRIPLE,
        copy: |to, from| to.read_ahead = from.read_ahead,
        read: |to, text| set(&mut to.read_ahead, triple(text)?),
        write: |of| of_triple(of.read_ahead),
    },
    Switch {
        name: "write_back",
        mend: TRIPLE,
        copy: |to, from| to.write_back = from.write_back,
        read: |to, text| set(&mut to.write_back, triple(text)?),
        write: |of| of_triple(of.write_back),
    },
    Switch {
        name: "eager_read_ahead",
        mend: "give on or off",
        copy: |to, from| to.eager_read_ahead = from.eager_read_ahead,
        read: |to, text| set(&mut to.eager_read_ahead, on(text)?),
        write: |of| if of.eager_read_ahead { ON } else { OFF }.to_owned(),
    },
    Switch {
        name: "prompt_read_ahead",
        mend: "give on or off",
        copy: |to, from| to.prompt_read_ahead = from.prompt_read_ahead,
        read: |to, text| set(&mut to.prompt_read_ahead, on(text)?),
        write: |of| if of.prompt_read_ahead { ON } else { OFF }.to_owned(),
    },
    Switch {
        name: "rereads_ppm",
        mend: COUNT,
        copy: |to, from| to.rereads_ppm = from.rereads_ppm,
        read: |to, text| set(&mut to.rereads_ppm, text.parse().ok()?),
        write: |of| of.rereads_ppm.to_string(),
    },
    Switch {
        name: "write_cache",
        mend: "give how many writes it holds, such as 128, or off",
        copy: |to, from| to.write_cache = from.write_cache,
        read: |to, text| set(&mut to.write_cache, text.parse().ok()?),
        write: |of| of.write_cache.to_string(),
    },
    Switch {
        name: "queue",
        mend: "give fcfs, sptf or own (the order of a real SATA drive) and how many commands it holds, such as sptf:64, or off",
        copy: |to, from| to.queue = from.queue,
        read: |to, text| {
            let (order, depth) = text.split_once(':')?;
            let order = match order {
                "fcfs" => QueueOrder::Fcfs,
                "sptf" => QueueOrder::Sptf,
                "own" => QueueOrder::Own,
                _ => return None,
            };
            set(&mut to.queue, Queue::Tagged { order, depth: depth.parse().ok()? })
        },
        write: |of| match of.queue {
            Queue::Serial => OFF.to_owned(),
            Queue::Tagged { order: QueueOrder::Fcfs, depth } => format!("fcfs:{depth}"),
            Queue::Tagged { order: QueueOrder::Sptf, depth } => format!("sptf:{depth}"),
            Queue::Tagged { order: QueueOrder::Own, depth } => format!("own:{depth}"),
        },
    },
];

/// The presets by name. If several have the same value, [`Behaviour`] is printed with the name of the last.
const PRESETS: [(&str, Behaviour); 4] = [
    ("modern", Behaviour::modern()),
    ("noise", Behaviour::noisy()),
    ("fast02", Behaviour::fast02()),
    ("none", Behaviour::EXACT),
];

fn preset_names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

const ON: &str = "on";
const OFF: &str = "off";
const PROFILE: &str = "profile";

fn set<T>(field: &mut T, value: T) -> Option<()> {
    *field = value;
    Some(())
}

fn on(text: &str) -> Option<bool> {
    match text {
        ON => Some(true),
        OFF => Some(false),
        _ => None,
    }
}

/// Parses the value of a switch: `on`, `off`, or `profile` for the profile's value, which is the inner `None`.
fn triple(text: &str) -> Option<Option<bool>> {
    if text == PROFILE { Some(None) } else { on(text).map(Some) }
}

fn of_triple(value: Option<bool>) -> String {
    value.map_or(PROFILE, |on| if on { ON } else { OFF }).to_owned()
}

/// The units of time with their nanoseconds, from the longest to the shortest.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Parses a time with its unit, rounded to a nanosecond.
fn time(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let (_, nanos) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let number: f64 = number.parse().ok()?;
    Duration::from_millis_f64(number * (nanos as f64 / 1e6))
}

/// Returns the text of a time, in the longest unit of which the time is a whole number.
fn shown(time: Duration) -> String {
    let nanos = time.as_nanos();
    let whole = UNITS.into_iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    whole.map_or_else(String::new, |(name, unit)| format!("{}{name}", nanos / unit))
}

impl Behaviour {
    /// Iterates over the names of all switches.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SWITCHES.iter().map(|switch| switch.name)
    }

    /// Sets a switch given as `name=value` or as `name` alone. The name alone means `on` for a switch that is on or off;
    /// for any other, the value in `fast02`, or in `modern` if `fast02` does not have the switch on.
    ///
    /// # Errors
    /// No switch has this name, or the value is invalid; the error lists the valid ones.
    pub fn set(&mut self, word: &str) -> Result<(), SwitchError> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let switch = SWITCHES.iter().find(|switch| switch.name == name);
        let Some(Switch { name, mend, copy, read, .. }) = switch else {
            return Err(SwitchError::Unknown { word: word.to_owned() });
        };
        let mut changed = *self;
        // For some switches `off` is a value that `read` accepts. For the others it means the default.
        if read(&mut changed, value.unwrap_or(ON)).is_none() {
            match value {
                Some(OFF) => copy(&mut changed, &Self::default()),
                Some(value) => {
                    return Err(SwitchError::Value { name, value: value.to_owned(), mend });
                }
                None => {
                    let of = |preset: Self| {
                        let mut only = Self::default();
                        copy(&mut only, &preset);
                        Some(only).filter(|only| *only != Self::default())
                    };
                    let Some(only) = of(Self::fast02()).or_else(|| of(Self::modern())) else {
                        return Err(SwitchError::Needs { name, mend });
                    };
                    copy(&mut changed, &only);
                }
            }
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }
}

/// Parses words separated by commas: presets (`modern`, `noise`, `fast02`, `none`), of which only the last counts, and
/// switches that change the preset.
///
/// ```
/// use freeblock_drive::{BadSectors, Behaviour};
///
/// let behaviour: Behaviour = "modern,drift=off,bad_sectors=20:8".parse()?;
/// let bad_sectors = Some(BadSectors { count: 20, retries: 8 });
/// assert_eq!(behaviour, Behaviour { drift: None, bad_sectors, ..Behaviour::modern() });
/// assert_eq!(behaviour.to_string(), "modern,drift=off,bad_sectors=20:8");
/// # Ok::<(), freeblock_drive::SwitchError>(())
/// ```
impl FromStr for Behaviour {
    type Err = SwitchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = || text.split(',').filter(|word| !word.is_empty());
        let preset = |word: &str| PRESETS.iter().find(|(name, _)| *name == word).map(|(_, preset)| *preset);
        let mut behaviour = words().filter_map(preset).next_back().unwrap_or_default();
        for word in words().filter(|word| preset(word).is_none()) {
            behaviour.set(word)?;
        }
        Ok(behaviour)
    }
}

/// Writes the shortest text that can be parsed again.
impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = |base: Self| {
            let differs = SWITCHES.iter().filter(move |switch| (switch.write)(self) != (switch.write)(&base));
            differs.map(|switch| format!("{}={}", switch.name, (switch.write)(self))).collect::<Vec<_>>()
        };
        // For each preset: its name, unless it is the exact drive, and the switches that differ from it.
        let written = PRESETS.map(|(name, preset)| {
            let mut words = from(preset);
            if preset != Self::EXACT || words.is_empty() {
                words.insert(0, name.to_owned());
            }
            words
        });
        let shortest = written.iter().rev().min_by_key(|words| words.len());
        f.write_str(&shortest.map_or_else(String::new, |words| words.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of each switch, in their order, other than its default.
    const VALUES: [&str; 22] = [
        "seek_spread=35us",
        "late_settles=1000:2ms",
        "missed_landings_ppm=7",
        "seek_ageing_ppm=-20000",
        "drift=300:250ms",
        "recalibration=10s:1500us",
        "grown_defects=12",
        "bad_sectors=3:4",
        "command_percent=0",
        "command_spread=5us",
        "completion_overhead=150us",
        "completion_spread=1500ns",
        "bus_sector=99us",
        "overlap_percent=3",
        "buffer=off",
        "read_ahead=off",
        "write_back=on",
        "eager_read_ahead=on",
        "prompt_read_ahead=on",
        "rereads_ppm=77",
        "write_cache=9",
        "queue=fcfs:2",
    ];

    #[test]
    fn each_switch_is_read_as_it_is_written() {
        let mut all = Behaviour::default();
        for (value, name) in VALUES.into_iter().zip(Behaviour::names()) {
            assert!(value.starts_with(name), "{value} stands at {name}");
            for base in PRESETS.map(|(name, _)| name) {
                let one: Behaviour = format!("{base},{value}").parse().unwrap();
                assert_eq!(one.to_string().parse(), Ok(one), "{one}");
                let off: Behaviour = format!("{one},{name}=off").parse().unwrap();
                assert_eq!(off.to_string().parse(), Ok(off), "{off}");
            }
            let one: Behaviour = value.parse().unwrap();
            assert_eq!(one.to_string(), value);
            assert_ne!(one, Behaviour::default(), "{value} changes nothing");
            all.set(value).unwrap();
        }
        assert_eq!(all.to_string().parse(), Ok(all), "{all}");
    }

    #[test]
    fn a_name_alone_takes_the_value_of_fast02() {
        let mut behaviour = Behaviour::default();
        for name in Behaviour::names() {
            match behaviour.set(name) {
                Ok(()) => {}
                Err(SwitchError::Needs { .. }) => {
                    let overheads = ["command_percent", "completion_overhead"];
                    let unnoisy = ["seek_ageing_ppm", "grown_defects", "bad_sectors"];
                    assert!(unnoisy.contains(&name) || overheads.contains(&name), "{name}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        // Names without a value have also switched on these, which are off in `fast02`.
        let others = ["prompt_read_ahead=off", "rereads_ppm=off", "write_cache=off"];
        for word in ["buffer=profile", "read_ahead=profile", "write_back=off"].into_iter().chain(others) {
            behaviour.set(word).unwrap();
        }
        assert_eq!(behaviour, Behaviour::fast02());
        for (name, preset) in PRESETS {
            assert_eq!(preset.to_string(), name);
            assert_eq!(name.parse(), Ok(preset));
        }
        assert_eq!(Behaviour::default(), Behaviour::EXACT);
        assert_eq!("noise,modern".parse(), Ok(Behaviour::modern()));
    }

    #[test]
    fn a_mistake_is_named_with_its_mend() {
        let said = |text: &str| text.parse::<Behaviour>().unwrap_err().to_string();
        assert_eq!(
            said("noise,drift=0.5%"),
            "drift: invalid value \"0.5%\"; give the largest deviation in millionths and the duration of a speed, such as \
             5000:5s, or off"
        );
        assert!(said("nois").starts_with(
            "\"nois\" is no behaviour of a drive; give modern, noise, fast02, none, or of these: seek_spread, "
        ));
        assert_eq!(
            said("bad_sectors"),
            "bad_sectors needs a value, because no preset switches it on; give the number of bad sectors and the \
             revolutions before a read fails, such as 20:8, or off"
        );
        assert_eq!(said("overlap_percent=101"), "behaviour.overlap_percent: 101; give 0 to 100");
        assert_eq!(
            said("seek_spread=20"),
            "seek_spread: invalid value \"20\"; give a time, such as 20us, 6.4us or 0.5ms, or off"
        );
    }
}
