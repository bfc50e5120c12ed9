//! One reader for all formats: it returns a request at a time, in memory that does not grow with the trace.

use super::ascii::Ascii;
use super::binary::{self, Blktrace, OracleGeneral, Vscsi};
use super::blkparse::Blkparse;
use super::csv::{Columns, Csv};
use super::fio::Fio;
use super::input::Input;
use super::lists::{Alibaba, Biosnoop, CloudPhysics, Fiu, Systor17, Tencent};
use super::msr::{Msr, TICK_NS};
use super::parser::{LineParser, Next, RecordParser};
use super::spc::Spc;
use super::srt::Srt;
use super::text::{self, Separator};
use super::validate::Validate;
use super::{Detected, Event, Notes, TimeUnit, TraceError, TraceFormat, TraceRecord, detect};
use std::fmt;
use std::io::Read;

/// The options for reading a trace. By default the format is detected, and times are in the format's own unit.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None` detects it.
    pub format: Option<TraceFormat>,
    /// The unit of the arrival times; `None` takes the format's own.
    pub time_unit: Option<TimeUnit>,
    /// The event that counts as the arrival of a request in a block trace.
    pub event: Event,
    /// Whether flushes and discards of a block trace are requests, and forced writes are marked. A host that replays them
    /// needs a drive that takes [`CacheOps`](units::CacheOps).
    pub cache_ops: bool,
    /// The columns of [`TraceFormat::Csv`].
    pub columns: Option<Columns>,
}

#[derive(Debug)]
enum Parser {
    Lines { parser: Box<dyn LineParser>, separator: Separator, headed: bool },
    Records(Box<dyn RecordParser>),
}

/// Reads the requests of a trace one after another, in the file's order, and holds one line or record at a time.
///
/// ```
/// use freeblock_workload::trace::{Options, Reader};
/// let text = b"3,R,512000,4096,1577808000001565\n3,W,0,4096,1577808000001866\n";
/// let mut reader = Reader::new(&Options::default(), &text[..])?;
/// assert_eq!(reader.format().to_string(), "Alibaba");
/// assert_eq!(reader.next().unwrap()?.range.to_string(), "1000+8");
/// assert!(reader.next().unwrap()?.op.is_write());
/// assert!(reader.next().is_none());
/// # Ok::<(), freeblock_workload::trace::TraceError>(())
/// ```
pub struct Reader<'a> {
    input: Input<'a>,
    format: TraceFormat,
    guess: Option<String>,
    parser: Parser,
    notes: Notes,
    ended: bool,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `source`. If the options leave the format open, the beginning of the trace decides.
    ///
    /// # Errors
    /// The trace begins in no known format, or the source failed.
    pub fn new(options: &Options, source: impl Read + 'a) -> Result<Self, TraceError> {
        let mut input = Input::new(source);
        let sample = input.peek(SAMPLE_BYTES)?;
        let Detected { format, guess } = match options.format {
            Some(format) => Detected { format, guess: None },
            None => detect::inspect(sample)?,
        };
        let guess = guess.filter(|_| options.time_unit.is_none());
        let parser = Parser::new(format, options, sample)?;
        Ok(Self { input, format, guess, parser, notes: Notes::default(), ended: false })
    }

    /// Returns the format in which the trace is read.
    pub const fn format(&self) -> TraceFormat {
        self.format
    }

    /// Returns a sentence about a guess that the beginning of the trace made necessary, with the option that overrides
    /// it.
    pub fn guess(&self) -> Option<&str> {
        self.guess.as_deref()
    }

    /// Returns the counts so far of records that were left out or changed.
    pub const fn notes(&self) -> Notes {
        self.notes
    }

    fn advance(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            match &mut self.parser {
                Parser::Records(parser) => match parser.record(&mut self.input, &mut self.notes)? {
                    Next::Record(record) => return Ok(Some(record)),
                    Next::Skipped => {}
                    Next::End => return Ok(None),
                },
                Parser::Lines { parser, separator, headed } => {
                    let Some((number, line)) = self.input.line()? else { return Ok(None) };
                    let Some(fields) = text::fields(number, line, *separator)? else { continue };
                    if !std::mem::replace(headed, true) && parser.heading(&fields)? {
                        continue;
                    }
                    if let Some(record) = parser.line(fields, &mut self.notes)? {
                        return Ok(Some(record));
                    }
                }
            }
        }
    }
}

/// Bytes of the beginning by which a format is detected.
const SAMPLE_BYTES: usize = 64 << 10;

impl Parser {
    fn new(format: TraceFormat, options: &Options, sample: &[u8]) -> Result<Self, TraceError> {
        let unit = |own: TimeUnit| options.time_unit.unwrap_or(own).nanoseconds();
        let (event, cache_ops) = (options.event, options.cache_ops);
        let mut separator = match format {
            TraceFormat::Validate
            | TraceFormat::Ascii
            | TraceFormat::MqSim
            | TraceFormat::Fio
            | TraceFormat::Fiu
            | TraceFormat::Biosnoop
            | TraceFormat::Blkparse => Separator::Blanks,
            _ => Separator::COMMA,
        };
        let parser: Box<dyn LineParser> = match format {
            TraceFormat::HpSrt => return Ok(Self::Records(Box::<Srt>::default())),
            TraceFormat::OracleGeneral => {
                return Ok(Self::Records(Box::new(OracleGeneral { unit_ns: unit(TimeUnit::Seconds) })));
            }
            TraceFormat::Vscsi => {
                let version = binary::vscsi_version(sample).unwrap_or(1);
                return Ok(Self::Records(Box::new(Vscsi { unit_ns: unit(TimeUnit::Microseconds), version })));
            }
            TraceFormat::Blktrace => return Ok(Self::Records(Box::new(Blktrace { event, cache_ops }))),
            TraceFormat::Validate => Box::new(Validate),
            TraceFormat::Ascii => Box::new(Ascii { unit_ns: unit(TimeUnit::Milliseconds) }),
            TraceFormat::MqSim => Box::new(Ascii { unit_ns: unit(TimeUnit::Nanoseconds) }),
            TraceFormat::Spc => Box::new(Spc { unit_ns: unit(TimeUnit::Seconds) }),
            TraceFormat::Msr => {
                separator = Separator::Char(detect::comma_or_semicolon(sample));
                Box::new(Msr { unit_ns: options.time_unit.map_or(TICK_NS, TimeUnit::nanoseconds) })
            }
            TraceFormat::Systor17 => Box::new(Systor17 { unit_ns: unit(TimeUnit::Seconds) }),
            TraceFormat::Alibaba => Box::new(Alibaba { unit_ns: unit(TimeUnit::Microseconds) }),
            TraceFormat::Tencent => Box::new(Tencent { unit_ns: unit(TimeUnit::Seconds) }),
            TraceFormat::CloudPhysics => Box::new(CloudPhysics { unit_ns: unit(TimeUnit::Microseconds) }),
            TraceFormat::Fiu => Box::new(Fiu { unit_ns: unit(TimeUnit::Nanoseconds) }),
            TraceFormat::Biosnoop => Box::new(Biosnoop::new(unit(TimeUnit::Seconds))),
            TraceFormat::Blkparse => {
                Box::new(Blkparse { unit_ns: unit(TimeUnit::Seconds), event, cache_ops })
            }
            TraceFormat::Fio => Box::new(Fio::new(sample, unit(TimeUnit::Microseconds))),
            TraceFormat::Csv => {
                let columns = options.columns.clone().ok_or(TraceError::NoColumns)?;
                separator = Separator::Char(columns.separator);
                let unit_ns = options.time_unit.unwrap_or(columns.unit).nanoseconds();
                Box::new(Csv::new(columns, unit_ns))
            }
        };
        Ok(Self::Lines { parser, separator, headed: false })
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("format", &self.format)
            .field("parser", &self.parser)
            .finish_non_exhaustive()
    }
}
