//! Reads `dm_mech_g1`: spindle speed, seek curve, head switch, write settling.

use super::source::{At, Fault, Sources, printable, refuse};
use super::syntax::{Block, Value};
use crate::profile::{Mechanics, Seek};

/// The most points of a seek curve; real curves have up to 1,792.
const CURVE_POINTS_MAX: u64 = 1_000_000;

pub(super) struct Arm {
    pub rpm: u32,
    pub mechanics: Mechanics,
    pub seek: Seek,
}

pub(super) fn read(block: &Block, sources: &mut Sources<'_>, notes: &mut Vec<String>) -> Result<Arm, Fault> {
    let rpm = block.whole("Rotation speed (in rpms)", 1, 100_000)? as u32;
    if block.number_or("Percent error in rpms", 0.0)? != 0.0 {
        notes.push("`Percent error in rpms` has no effect in DiskSim; ignored".into());
    }
    let head_switch_ms = time(block, "Head switch time", notes)?;
    let mut mechanics = Mechanics {
        seek_spread_ms: Vec::new(),
        head_switch_ms,
        cylinder_switch_ms: None,
        write_settle_ms: block.number_or("Add. write settling delay", 0.0)?,
        zero_latency_read: false,
        zero_latency_write: false,
    };
    let kind = block.require("Seek type")?.scalar("Seek type")?;
    let seek = match kind.text.to_ascii_lowercase().as_str() {
        "extracted" => {
            let file = block.require("Full seek curve")?.scalar("Full seek curve")?;
            let file = sources.read_data(&file.text, file.at)?;
            let curve = curve(sources, file, notes)?;
            mechanics.write_settle_ms += curve.write_settle_ms(notes);
            mechanics.seek_spread_ms = curve.spread;
            Seek::Table { points: curve.points }
        }
        "hplplus10" => hpl_plus_ten(block, head_switch_ms, notes)?,
        _ => {
            return Err(refuse(
                kind.at,
                format!("seeks of type `{}` do not work in DiskSim 4.0 either", printable(&kind.text)),
                "use `extracted` with a `Full seek curve`, or `hplplus10`",
            ));
        }
    };
    Ok(Arm { rpm, mechanics, seek })
}

/// Returns a time in milliseconds. A negative time becomes zero, with a note.
pub(super) fn time(block: &Block, key: &str, notes: &mut Vec<String>) -> Result<f64, Fault> {
    let ms = block.number_or(key, 0.0)?;
    if ms < 0.0 {
        notes.push(format!("`{key}` is {ms} ms; taken as 0"));
        return Ok(0.0);
    }
    // The addition of zero makes 0.0 of -0.0.
    Ok(ms + 0.0)
}

/// Reads DiskSim's seek type `hplplus10`: a table for the first ten cylinders, then `V2 + V3 sqrt(d)` below `V1` cylinders
/// and `V4 + V5 d` from `V1` on. No seek is shorter than a head switch.
fn hpl_plus_ten(block: &Block, head_switch_ms: f64, notes: &mut Vec<String>) -> Result<Seek, Fault> {
    const KEY: &str = "HPL seek equation values";
    const FIRST: &str = "First ten seek times";
    let value = block.require(KEY)?;
    let items = value.list(KEY)?;
    let [crossover, a, b, c, d, rest @ ..] = items else {
        return Err(refuse(value.at(), format!("`{KEY}` has {} numbers", items.len()), "give six"));
    };
    let crossover = crossover.whole(KEY, 0, u64::from(u32::MAX))? as u32;
    if let Some(sixth) = rest.first()
        && sixth.number(KEY)? != -1.0
    {
        notes.push(format!(
            "`{KEY}`: the sixth number, the seek over one cylinder, is ignored in favour of `{FIRST}`"
        ));
    }
    let value = block.require(FIRST)?;
    let first_ms = value.list(FIRST)?.iter().map(|v| positive(v, FIRST)).collect::<Result<Vec<_>, _>>()?;
    if first_ms.len() != 10 {
        return Err(refuse(value.at(), format!("`{FIRST}` has {} numbers", first_ms.len()), "give ten"));
    }
    Ok(Seek::SqrtLinear {
        crossover,
        sqrt: (a.number(KEY)?, b.number(KEY)?),
        linear: (c.number(KEY)?, d.number(KEY)?),
        first_ms,
        least_ms: head_switch_ms,
    })
}

fn positive(value: &Value, key: &str) -> Result<f64, Fault> {
    let ms = value.number(key)?;
    if ms < 0.0 {
        return Err(refuse(value.at(), format!("`{key}` holds {ms} ms"), "give times of 0 or more"));
    }
    Ok(ms)
}

/// The contents of a file of seek times.
#[derive(Default)]
struct Curve {
    points: Vec<(u32, f64)>,
    /// The standard deviation of each seek time, for the lines that have one.
    spread: Vec<(u32, f64)>,
    /// The extra time of a seek before a write, for the lines that have a time for writes.
    writes_later: Vec<f64>,
}

impl Curve {
    /// Returns the mean extra time of a seek before a write, and adds a note if it differs from line to line.
    fn write_settle_ms(&self, notes: &mut Vec<String>) -> f64 {
        let Some(&first) = self.writes_later.first() else { return 0.0 };
        let (least, most) =
            self.writes_later.iter().fold((first, first), |(least, most), &ms| (least.min(ms), most.max(ms)));
        let mean = self.writes_later.iter().sum::<f64>() / self.writes_later.len() as f64;
        // Rounded to six decimals, because the times in the file have six.
        let mean = (mean * 1e6).round() / 1e6;
        if most - least > 2e-6 {
            notes.push(format!(
                "seeks to write take {least:.3} to {most:.3} ms more than seeks to read; their mean, {mean} ms, is taken for all"
            ));
        }
        mean
    }
}

const HEAD: &str = "Seek distances measured:";

/// Reads a file of seek times. Its first line may be `Seek distances measured: n`; the others are `cylinders,
/// milliseconds[, standard deviation[, milliseconds before a write]]`.
fn curve(sources: &Sources<'_>, file: u32, notes: &mut Vec<String>) -> Result<Curve, Fault> {
    let text = sources.text(file);
    let name = sources.path(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut offset = 0;
    // The lines that are not empty, each with its position.
    let mut lines = text
        .split_inclusive('\n')
        .filter_map(|line| {
            let at = At { file, offset: offset + line.len() - line.trim_start().len() };
            offset += line.len();
            Some((line.trim(), at)).filter(|(line, _)| !line.is_empty())
        })
        .peekable();
    let syntax = |at, expected: &str, found: &str, mend: &str| Fault::Syntax {
        at,
        expected: expected.into(),
        found: if found.is_empty() {
            "the end of the file".into()
        } else {
            format!("`{}`", printable(found))
        },
        mend: mend.into(),
    };
    let (first, at) = lines.peek().copied().unwrap_or(("", At { file, offset: 0 }));
    let declared = match first.strip_prefix(HEAD) {
        Some(count) => {
            lines.next();
            let count = count.trim().parse::<u64>().ok().filter(|n| (1..=CURVE_POINTS_MAX).contains(n));
            Some(count.ok_or_else(|| {
                let expected = format!("`{HEAD} N` in the first line");
                syntax(at, &expected, first, "say how many lines follow")
            })?)
        }
        None if point(first).is_some() => None,
        None => {
            let expected = format!("`{HEAD} N` or `cylinders, milliseconds` in the first line");
            return Err(syntax(at, &expected, first, "say how many lines follow"));
        }
    };
    let mut curve = Curve::default();
    let most = declared.unwrap_or(CURVE_POINTS_MAX) as usize;
    for (line, at) in lines.by_ref().take(most) {
        let Some(Point { distance, ms, spread, write_ms }) = point(line) else {
            let mend = "give a distance of 1 or more cylinders and times of 0 or more";
            return Err(syntax(at, "`cylinders, milliseconds`", line, mend));
        };
        if let Some(&(before, _)) = curve.points.last()
            && distance <= before
        {
            return Err(refuse(
                at,
                format!("distance {distance} follows distance {before}"),
                "list the distances in ascending order, each once",
            ));
        }
        curve.points.push((distance, ms));
        curve.spread.extend(spread.filter(|ms| *ms > 0.0).map(|ms| (distance, ms)));
        curve.writes_later.extend(write_ms.map(|write_ms| write_ms - ms));
    }
    if let Some(declared) = declared.filter(|&n| (curve.points.len() as u64) < n) {
        let at = At { file, offset: text.len() };
        let expected = format!("{declared} seek times, as the first line says");
        return Err(Fault::Syntax {
            at,
            expected,
            found: format!("{}", curve.points.len()),
            mend: "correct the first line; the file may be cut off".into(),
        });
    }
    let ignored = lines.count();
    if ignored > 0 {
        notes.push(format!("{name}: {ignored} lines beyond the first {most} are ignored"));
    }
    let written = curve.writes_later.len();
    if written > 0 && written < curve.points.len() {
        notes.push(format!("{name}: {written} of {} lines have a time to write", curve.points.len()));
    }
    Ok(curve)
}

/// A line of a file of seek times.
struct Point {
    distance: u32,
    ms: f64,
    spread: Option<f64>,
    write_ms: Option<f64>,
}

fn point(line: &str) -> Option<Point> {
    let mut cells = line.split(',').map(str::trim);
    let distance = cells.next()?.parse::<u32>().ok().filter(|&d| d > 0)?;
    let mut time = || match cells.next() {
        None | Some("") => Some(None),
        Some(cell) => cell.parse::<f64>().ok().filter(|ms| ms.is_finite() && *ms >= 0.0).map(Some),
    };
    Some(Point { distance, ms: time()??, spread: time()?, write_ms: time()? })
}
