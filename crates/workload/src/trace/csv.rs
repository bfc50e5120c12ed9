//! Lines of columns that the user names: `time=5,unit=us,op=2,offset=3,size=4,device=1`.

use super::parser::LineParser;
use super::text::{Field, Fields, Names, byte_range, bytes_at_lbn, sectors_at_lbn, shown};
use super::{Notes, TimeUnit, TraceError, TraceRecord};
use std::str::FromStr;
use units::Op;

/// A column by its number, from 1, or by its name in the first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The number, from 1.
    Number(usize),
    /// The name in the heading.
    Name(String),
}

/// The columns of a file, and the units in them.
///
/// ```
/// use freeblock_workload::trace::{Columns, Options, TraceFormat, read_with};
/// let columns: Columns = "time=5,unit=us,op=2,offset=3,size=4,device=1".parse()?;
/// let options = Options { format: Some(TraceFormat::Csv), columns: Some(columns), ..Options::default() };
/// let trace = read_with(&options, &b"3,R,512000,4096,1565\n"[..])?;
/// assert_eq!(trace.records[0].range.to_string(), "1000+8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The time of arrival; without it requests have no arrivals.
    pub time: Option<Column>,
    /// The unit of the time.
    pub unit: TimeUnit,
    /// The direction: a word or a letter that begins with R or W, or 0 and 1 for read and write. Without this column
    /// all requests are reads.
    pub op: Option<Column>,
    /// The place at which a request begins.
    pub start: Start,
    /// The length of a request.
    pub length: Length,
    /// The device, a number or a name.
    pub device: Option<Column>,
    /// The character between columns.
    pub separator: char,
}

/// The column with the place at which a request begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The column has a byte.
    Offset(Column),
    /// The column has a sector of 512 bytes.
    Lbn(Column),
}

/// The column with the length of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// The column has bytes.
    Size(Column),
    /// The column has sectors of 512 bytes.
    Sectors(Column),
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut time, mut op, mut device, mut start, mut length) = (None, None, None, None, None);
        let (mut unit, mut separator) = (TimeUnit::Seconds, ',');
        let mut given = Vec::new();
        for item in text.split(',') {
            let (key, value) =
                item.split_once('=').ok_or_else(|| format!("{} is not KEY=COLUMN", shown(item)))?;
            let column = || match value.parse::<usize>() {
                Ok(0) => Err("columns count from 1".to_owned()),
                Ok(number) => Ok(Column::Number(number)),
                Err(_) if value.is_empty() => Err(format!("{key} needs a column, a number or a name")),
                Err(_) => Ok(Column::Name(value.to_owned())),
            };
            let of = match key {
                "offset" | "lbn" => "the place",
                "size" | "sectors" => "the length",
                other => other,
            };
            if given.contains(&of) {
                return Err(format!("{of} is given twice"));
            }
            given.push(of);
            match key {
                "time" => time = Some(column()?),
                "op" => op = Some(column()?),
                "device" => device = Some(column()?),
                "offset" => start = Some(Start::Offset(column()?)),
                "lbn" => start = Some(Start::Lbn(column()?)),
                "size" => length = Some(Length::Size(column()?)),
                "sectors" => length = Some(Length::Sectors(column()?)),
                "unit" => unit = value.parse()?,
                "separator" => separator = separator_of(value)?,
                _ => {
                    return Err(format!(
                        "{} is none of time, unit, op, offset, lbn, size, sectors, device and separator",
                        shown(key)
                    ));
                }
            }
        }
        Ok(Self {
            time,
            unit,
            op,
            device,
            separator,
            start: start.ok_or("the place of a request is missing: give offset=COLUMN or lbn=COLUMN")?,
            length: length.ok_or("the length of a request is missing: give size=COLUMN or sectors=COLUMN")?,
        })
    }
}

fn separator_of(value: &str) -> Result<char, String> {
    match value {
        "tab" => Ok('\t'),
        "semicolon" => Ok(';'),
        "bar" => Ok('|'),
        "comma" => Ok(','),
        _ => Err(format!("separator {} is none of comma, semicolon, tab and bar", shown(value))),
    }
}

/// The numbers of the columns, from 0.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnNumbers {
    time: Option<usize>,
    op: Option<usize>,
    start: usize,
    length: usize,
    device: Option<usize>,
}

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Csv {
    columns: Columns,
    unit_ns: u64,
    places: ColumnNumbers,
    devices: Names,
}

impl Csv {
    pub(super) fn new(columns: Columns, unit_ns: u64) -> Self {
        Self { columns, unit_ns, places: ColumnNumbers::default(), devices: Names::default() }
    }
}

impl LineParser for Csv {
    fn heading(&mut self, first: &Fields<'_>) -> Result<bool, TraceError> {
        let names = first.clone().rest();
        let mut named = false;
        let mut place = |column: &Column| match column {
            Column::Number(number) => Ok(number - 1),
            Column::Name(name) => {
                named = true;
                let found =
                    names.iter().position(|field| field.text.trim_matches('"').eq_ignore_ascii_case(name));
                found.ok_or_else(|| TraceError::NoColumn {
                    name: name.clone(),
                    found: shown(first.whole().text),
                })
            }
        };
        let (Start::Offset(start) | Start::Lbn(start)) = &self.columns.start;
        let (Length::Size(length) | Length::Sectors(length)) = &self.columns.length;
        let mut optional = |column: &Option<Column>| column.as_ref().map(&mut place).transpose();
        self.places = ColumnNumbers {
            time: optional(&self.columns.time)?,
            op: optional(&self.columns.op)?,
            device: optional(&self.columns.device)?,
            start: place(start)?,
            length: place(length)?,
        };
        // Columns that are all given by number may still have a heading: then the first line has no number as the
        // length.
        let length = names.get(self.places.length);
        Ok(named
            || length.is_some_and(|field| field.text.starts_with(|c: char| c.is_alphabetic() || c == '"')))
    }

    fn line(&mut self, fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let whole = fields.whole();
        let all = fields.rest();
        let at = |place: usize| {
            all.get(place)
                .map(Field::unquoted)
                .ok_or_else(|| whole.error("a line with all the columns that were named"))
        };
        let arrival = match self.places.time {
            Some(place) => Some(at(place)?.arrival(self.unit_ns, "the time of arrival, 0 or more")?),
            None => None,
        };
        let op = match self.places.op {
            Some(place) => direction(at(place)?, notes)?,
            None => Some(Op::Read),
        };
        let Some(op) = op else { return Ok(None) };
        let device = match self.places.device {
            Some(place) => {
                let field = at(place)?;
                match field.text.parse::<u32>() {
                    Ok(number) => number,
                    Err(_) => self.devices.number(field)?,
                }
            }
            None => 0,
        };
        let (start, length) = (at(self.places.start)?, at(self.places.length)?);
        let range = match (&self.columns.start, &self.columns.length) {
            (Start::Offset(_), Length::Size(_)) => byte_range(start, length, notes),
            (Start::Lbn(_), Length::Size(_)) => bytes_at_lbn(start, length, notes),
            (Start::Lbn(_), Length::Sectors(_)) => sectors_at_lbn(start, length, notes),
            (Start::Offset(_), Length::Sectors(_)) => super::text::sectors_at_byte(start, length, notes),
        }?;
        Ok(range.map(|range| TraceRecord { arrival, device, ..TraceRecord::new(op, range) }))
    }
}

/// Returns a direction; words that are neither a read nor a write are counted, and give `None`.
fn direction(field: Field<'_>, notes: &mut Notes) -> Result<Option<Op>, TraceError> {
    let word = field.text;
    match (word, word.chars().next().map(|first| first.to_ascii_lowercase())) {
        ("0", _) | (_, Some('r')) => Ok(Some(Op::Read)),
        ("1", _) | (_, Some('w')) => Ok(Some(Op::Write)),
        (_, Some(first)) if first.is_alphabetic() => {
            notes.other += 1;
            Ok(None)
        }
        _ => Err(field.error("a direction: a word that begins with R or W, or 0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, Trace, TraceFormat, read_with};

    fn read(columns: &str, text: &str) -> Result<Trace, TraceError> {
        let columns = Some(columns.parse().unwrap());
        read_with(&Options { format: Some(TraceFormat::Csv), columns, ..Options::default() }, text.as_bytes())
    }

    #[test]
    fn columns_are_found_by_number_and_by_name() {
        let text = "when;dir;where;much;disk\n5;Read;1000;8;sda\n7;W;0;1;sdb\n8;trim;0;1;sdb\n";
        let named = "time=when,unit=ms,op=dir,lbn=where,sectors=much,device=disk,separator=semicolon";
        let numbered = "time=1,unit=ms,op=2,lbn=3,sectors=4,device=5,separator=semicolon";
        let trace = read(named, text).unwrap();
        assert_eq!(trace, read(numbered, text).unwrap());
        let first = trace.records[0];
        assert_eq!(
            (first.range.to_string().as_str(), first.arrival.unwrap().as_nanos()),
            ("1000+8", 5_000_000)
        );
        assert_eq!((trace.records[1].device, trace.records[1].op, trace.notes.other), (1, Op::Write, 1));
    }

    #[test]
    fn fields_may_be_in_double_quotes() {
        let quoted = "\"t\",\"op\",\"at\",\"n\",\"disk\"\n\"0.5\",\"Write\",\"512000\",\"4096\",\"7\"\n";
        let columns = "time=t,op=op,offset=at,size=n,device=disk";
        let trace = read(columns, quoted).unwrap();
        assert_eq!(trace, read(columns, &quoted.replace('"', "")).unwrap());
        assert_eq!((trace.records[0].device, trace.records[0].range.to_string().as_str()), (7, "1000+8"));
    }

    #[test]
    fn every_pair_of_units_gives_the_same_sectors() {
        for columns in ["offset=1,size=2", "lbn=3,size=2", "lbn=3,sectors=4", "offset=1,sectors=4"] {
            let trace = read(columns, "512000,4096,1000,8\n").unwrap();
            assert_eq!(trace.records[0].range.to_string(), "1000+8", "{columns}");
            assert_eq!((trace.records[0].arrival, trace.records[0].op), (None, Op::Read));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("offset=1", "length of a request is missing"),
            ("size=1", "place of a request is missing"),
            ("offset=0,size=1", "columns count from 1"),
            ("offset,size=1", "is not KEY=COLUMN"),
            ("speed=1", "is none of time, unit"),
            ("offset=1,size=2,unit=h", "unit"),
            ("offset=1,size=2,separator=x", "none of comma"),
            ("offset=,size=2", "needs a column"),
            ("time=1,offset=2,size=3,time=4", "time is given twice"),
            ("offset=2,lbn=2,size=3", "the place is given twice"),
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let missing = read("offset=place,size=2", "a,b\n1,2\n").unwrap_err().to_string();
        assert!(missing.contains("no column \"place\"") && missing.contains("\"a,b\""), "{missing}");
        let short = read("offset=1,size=3", "512,512\n").unwrap_err().to_string();
        assert!(short.contains("line 1, column 1") && short.contains("all the columns"), "{short}");
        assert!(read("offset=1,size=2,op=3", "0,512,?\n").unwrap_err().to_string().contains("a direction"));
    }
}
