//! A trace as the foreground: its file or pipe, a first pass over it, and its replay in bounded memory.

use super::args::SimulateArgs;
use super::foreground::{Foreground, Space, assemble, closed};
use super::replayed::{Replayed, Seen, misplaced};
use crate::problem::Problem;
use crate::tables::grouped;
use crate::traces::{STANDARD_INPUT, open, unreadable};
use crate::values::TraceDevices;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use units::{Duration, Sectors};
use workload::trace::{DeviceSurvey, Notes, Options, Reader, SECTOR_BYTES, Survey, TraceError, TraceRecord};
use workload::{
    Arrival, Closed, Compressed, ConfigError, Devices, Fit, Recorded, Source, Streamed, StreamedConfig, Think,
};

/// Bounds the simulated time of a trace: 100 years in nanoseconds.
const SIMULATED_NS_MAX: u128 = 100 * 365 * 86_400 * 1_000_000_000;

/// Returns the options of the trace's reader, from the flags.
pub(crate) fn options(args: &SimulateArgs) -> Options {
    Options {
        format: args.format.as_ref().map(|read_as| read_as.format),
        columns: args.format.as_ref().and_then(|read_as| read_as.columns.clone()),
        time_unit: args.time_unit,
        event: args.event.unwrap_or_default(),
        cache_ops: true,
    }
}

/// A trace that is surveyed while it is read.
struct Surveyed<'a> {
    reader: Reader<'a>,
    seen: Rc<RefCell<Seen>>,
}

impl<'a> Surveyed<'a> {
    fn new(reader: Reader<'a>, limit: Sectors) -> Self {
        let seen = Seen { survey: Survey::new(limit), notes: Notes::default() };
        Self { reader, seen: Rc::new(RefCell::new(seen)) }
    }
}

impl Iterator for Surveyed<'_> {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.reader.next();
        let mut seen = self.seen.borrow_mut();
        seen.notes = self.reader.notes();
        next.map(|record| record.and_then(|record| seen.survey.add(&record).map(|()| record)))
    }
}

/// Builds the foreground of a trace.
///
/// A file is read twice: the survey finds the devices, the times and the mistakes before the simulation. Standard input
/// and other pipes are read once.
///
/// # Errors
/// The trace cannot be read, does not fit on the drive, or lacks the device or times.
pub(crate) fn build(args: &SimulateArgs, path: &Path, space: &Space<'_>) -> Result<Foreground, Problem> {
    let failed = |error: ConfigError| Problem::failed(format!("{}: {error}", path.display()));
    let options = options(args);
    let again =
        path != Path::new(STANDARD_INPUT) && std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let first = Reader::new(&options, open(path)?).map_err(|error| unreadable(path, &error))?;
    let (format, guess) = (first.format(), first.guess().map(str::to_owned));
    let sector = space.sector;
    let factor = (sector.get() / SECTOR_BYTES).max(1);
    let capacity = space.capacity;
    // With `each`, the end of every device is checked against its own drive instead.
    let widest = match args.device {
        Some(TraceDevices::Each) => Sectors::new(u64::MAX),
        _ => capacity,
    };
    let limit = Sectors::new(widest.get().saturating_mul(factor));

    let mut first = Surveyed::new(first, limit);
    let seen = Rc::clone(&first.seen);
    let (reader, survey): (Box<dyn Iterator<Item = _>>, _) = if again {
        let survey = survey(&mut first, path)?;
        let reader = Reader::new(&options, open(path)?).map_err(|error| unreadable(path, &error))?;
        (Box::new(reader), Some(survey))
    } else {
        (Box::new(first), None)
    };
    let mut reader = reader.peekable();
    if survey.is_none() && reader.peek().is_none() {
        return Err(unreadable(path, &TraceError::Empty { expected: format.shape() }));
    }
    let recorded = match (&survey, reader.peek()) {
        (Some(survey), _) => Recorded { arrivals: survey.arrivals, thinks: survey.thinks },
        (None, Some(Ok(first))) => {
            Recorded { arrivals: first.arrival.is_some(), thinks: first.think.is_some() }
        }
        (None, _) => Recorded::default(),
    };
    let (devices, chosen) = choose(args.device, survey.as_ref(), &space.members, factor, path)?;
    let device = match devices {
        Devices::One(device) => Some(device),
        _ => None,
    };
    let each = args.device == Some(TraceDevices::Each);
    let fit = match (args.wrap, &chosen) {
        (false, _) => Fit::Refuse,
        // A trace that fits keeps its addresses.
        (true, Some(chosen)) if chosen.end.get() <= limit.get() => Fit::Refuse,
        (true, _) => Fit::Wrap,
    };
    if let (Some(survey), Some(chosen), Fit::Refuse) = (&survey, &chosen, fit) {
        refuse_past_end(survey, chosen, device, capacity, factor, path)?;
    }
    let (arrival, times) = times(args, recorded, survey.as_ref(), path)?;
    let requests = chosen.as_ref().map(|chosen| chosen.requests);
    let config = StreamedConfig {
        devices: devices.clone(),
        sector,
        capacity,
        fit,
        longest: chosen.as_ref().map(|chosen| chosen.longest),
        recorded,
        sorted: survey.as_ref().is_some_and(|survey| survey.out_of_order == 0),
    };
    let source = Streamed::new(reader, config).map_err(failed)?;
    let replayed = Replayed {
        account: source.account(),
        format,
        seen,
        devices,
        guess,
        own_unit: args.time_unit.is_none() && matches!(arrival, Arrival::Recorded { .. }),
        path: path.display().to_string(),
    };
    let mut description = format!("{} as {format}, {times}", path.display());
    if let (Some(survey), Some(requests)) = (&survey, requests)
        && survey.devices.len() > 1
    {
        let all = if each { "each device on a drive of its own" } else { "all devices" };
        let which = device.map_or(all.to_owned(), |device| format!("device {device}"));
        description += &format!(
            ", {which} with {} of the {} requests to {all} devices",
            grouped(requests),
            grouped(survey.requests),
            all = survey.devices.len()
        );
    }
    let source: Box<dyn Source> = match args.compress {
        Some(factor) => Box::new(Compressed::new(source, factor).map_err(failed)?),
        None => Box::new(source),
    };
    let grain = chosen.map_or(1, |chosen| grain(&chosen, factor));
    let foreground = assemble(source, arrival, args.seed, requests.or(Some(u64::MAX)), description)?;
    Ok(Foreground { replayed: Some(replayed), grain: Sectors::new(grain), ..foreground })
}

/// Returns the grain of a device's requests in sectors of the drive.
fn grain(device: &DeviceSurvey, factor: u64) -> u64 {
    if device.grain.get().is_multiple_of(factor) { (device.grain.get() / factor).max(1) } else { 1 }
}

/// Makes the first pass over a trace.
fn survey(first: &mut Surveyed<'_>, path: &Path) -> Result<Survey, Problem> {
    for record in first.by_ref() {
        record.map_err(|error| unreadable(path, &error))?;
    }
    let mut survey = first.seen.borrow().survey.clone();
    if survey.requests == 0 {
        return Err(unreadable(path, &TraceError::Empty { expected: first.reader.format().shape() }));
    }
    // In a log of fio, requests before the first wait arrive at the log's beginning.
    survey.arrivals |= survey.span.is_some();
    Ok(survey)
}

/// Returns the devices to replay, and the summary of their requests if there was a survey.
fn choose(
    asked: Option<TraceDevices>,
    survey: Option<&Survey>,
    members: &[Sectors],
    factor: u64,
    path: &Path,
) -> Result<(Devices, Option<DeviceSurvey>), Problem> {
    let Some(survey) = survey else {
        return match asked {
            None => Ok((Devices::Only, None)),
            Some(TraceDevices::One(device)) => Ok((Devices::One(device), None)),
            Some(all) => {
                let word = if all == TraceDevices::Each { "each" } else { "all" };
                Err(Problem::usage(format!("--device {word} needs a file: the trace is read twice"))
                    .help("write the trace to a file first, or give --device with the number of one"))
            }
        };
    };
    match asked.map_or_else(|| survey.busiest_device().map(TraceDevices::One), Some) {
        Some(TraceDevices::One(device)) => match survey.devices.get(&device) {
            Some(found) => Ok((Devices::One(device), Some(*found))),
            None => {
                let numbers: Vec<String> = survey.devices.keys().take(8).map(u32::to_string).collect();
                let more = if survey.devices.len() > 8 { ", ..." } else { "" };
                Err(Problem::failed(format!(
                    "{}: the trace has no requests to device {device}",
                    path.display()
                ))
                .help(format!("the trace's devices are {}{more}", numbers.join(", "))))
            }
        },
        Some(TraceDevices::Each) => on_drives(survey, members, factor, path),
        _ => {
            let (starts, end) = survey.concatenated();
            let end = end.ok_or_else(|| {
                Problem::failed(format!(
                    "{}: the devices together have more than 2^64 sectors",
                    path.display()
                ))
                .help("give --device with the number of one")
            })?;
            Ok((Devices::Concatenated(starts.clone()), Some(concatenated(survey, &starts, end))))
        }
    }
}

/// Puts each device on a drive of its own. `members` are the sizes of the drives, one behind the other in the array's
/// addresses, in sectors of `factor` times 512 bytes.
fn on_drives(
    survey: &Survey,
    members: &[Sectors],
    factor: u64,
    path: &Path,
) -> Result<(Devices, Option<DeviceSurvey>), Problem> {
    let devices = survey.devices.len();
    if devices != members.len() {
        return Err(Problem::failed(format!(
            "{}: the trace has {devices} devices, and --drives gives {} drives",
            path.display(),
            members.len()
        ))
        .help(format!("give --drives {devices}, or a file that names {devices} drives")));
    }
    let mut starts = BTreeMap::new();
    let mut end = 0u64;
    for ((drive, size), (&number, device)) in members.iter().enumerate().zip(&survey.devices) {
        let needed = device.end.get().div_ceil(factor);
        if needed > size.get() {
            return Err(Problem::failed(format!(
                "{}: device {number} needs {needed} sectors, and drive {drive} has {}",
                path.display(),
                size.get()
            ))
            .help("choose larger drives; a file for --drives names a drive for each device, in order"));
        }
        starts.insert(number, end);
        end = end.saturating_add(size.get().saturating_mul(factor));
    }
    let all = concatenated(survey, &starts, end);
    Ok((Devices::Concatenated(starts), Some(all)))
}

/// Returns the summary of all devices' requests, with the devices' addresses one behind the other.
fn concatenated(survey: &Survey, starts: &BTreeMap<u32, u64>, end: u64) -> DeviceSurvey {
    let all = survey.devices.values();
    let grain = all.clone().map(|device| device.grain.get()).chain(starts.values().copied());
    DeviceSurvey {
        requests: survey.requests,
        end: units::Lbn::new(end),
        longest: all.map(|device| device.longest).max().unwrap_or_default(),
        grain: Sectors::new(grain.fold(0, workload::trace::common_divisor)),
        past_limit: None,
    }
}

fn refuse_past_end(
    survey: &Survey,
    chosen: &DeviceSurvey,
    device: Option<u32>,
    capacity: Sectors,
    factor: u64,
    path: &Path,
) -> Result<(), Problem> {
    if let Some((record, range)) = chosen.past_limit {
        let of = device.filter(|_| survey.devices.len() > 1);
        let start = units::Lbn::new(range.start().get() / factor);
        let len = Sectors::new(range.end().get().div_ceil(factor) - start.get());
        let range = units::LbnRange::new(start, len);
        return Err(misplaced(path, of, &ConfigError::RecordPastEnd { record, range, capacity }));
    }
    if device.is_none() && chosen.end.get().div_ceil(factor) > capacity.get() {
        let all = chosen.end.get().div_ceil(factor);
        return Err(Problem::failed(format!(
            "{}: the trace's devices need {all} sectors one behind the other, and the drive has {capacity}",
            path.display()
        ))
        .help("choose a larger drive, or give --wrap to let addresses wrap around"));
    }
    Ok(())
}

/// Returns the arrivals of the replay, with a description in words.
fn times(
    args: &SimulateArgs,
    recorded: Recorded,
    survey: Option<&Survey>,
    path: &Path,
) -> Result<(Arrival, String), Problem> {
    let outstanding = args.outstanding.or(args.mpl);
    if outstanding.is_some() || args.think.is_some() {
        return Ok(closed(outstanding.unwrap_or(1), args.think.unwrap_or(Duration::ZERO), "outstanding"));
    }
    let too_long = |mend: &str| {
        Problem::failed(format!("{}: the trace goes on for more than a hundred years", path.display()))
            .help(mend)
    };
    if recorded.arrivals {
        let scale = args.compress.map_or(args.scale.unwrap_or(1.0), f64::recip);
        let length = survey.map_or(Duration::ZERO, Survey::length);
        if length.as_nanos() as f64 * scale > SIMULATED_NS_MAX as f64 {
            return Err(too_long(
                "give --scale to shorten it, or --time-unit if the unit of its times is another",
            ));
        }
        if let Some(factor) = args.compress {
            let times =
                format!("recorded arrivals {factor} times faster, repeated places when they are done");
            return Ok((Arrival::Scripted, times));
        }
        let times = if scale == 1.0 {
            "recorded arrivals".to_owned()
        } else {
            format!("recorded arrivals times {scale}")
        };
        return Ok((Arrival::Recorded { scale }, times));
    }
    for (flag, given) in [("--scale", args.scale.is_some()), ("--compress", args.compress.is_some())] {
        if given {
            return Err(Problem::usage(format!(
                "{flag} needs arrival times, and {} has none",
                path.display()
            ))
            .help(format!("leave out {flag}")));
        }
    }
    if recorded.thinks {
        if survey.is_some_and(|survey| survey.think_ns > SIMULATED_NS_MAX) {
            return Err(too_long("give --think to replace its pauses"));
        }
        let closed = Closed { tasks: 1, think: Think::Recorded };
        return Ok((Arrival::Closed(closed), "one at a time with recorded pauses".to_owned()));
    }
    Ok((Arrival::outstanding(1), "one at a time".to_owned()))
}
