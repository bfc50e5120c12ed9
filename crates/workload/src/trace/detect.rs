//! The format of a trace, found out from its beginning.

use super::binary::{looks_like_blktrace, looks_like_oracle, vscsi_version};
use super::text::{Field, Fields, Separator, fields, shown};
use super::{TraceError, TraceFormat};

/// The first bytes of compressed files, and the programs that write them.
const PACKED: [(&[u8], &str); 4] =
    [(b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];

/// A format, and the guess by which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Detected {
    pub(super) format: TraceFormat,
    /// A sentence about the guess for the user; `None` if nothing was guessed.
    pub(super) guess: Option<String>,
}

/// Detects a trace's format from its first bytes, or from its first line that is no comment.
///
/// Only the kinds of the fields are examined, so a trace with a wrong number is still recognised, and its reader can
/// name the place.
///
/// # Errors
/// The file is empty, compressed, or in no known format.
pub fn detect(bytes: &[u8]) -> Result<TraceFormat, TraceError> {
    inspect(bytes).map(|detected| detected.format)
}

pub(super) fn inspect(bytes: &[u8]) -> Result<Detected, TraceError> {
    let sure = |format| Ok(Detected { format, guess: None });
    if bytes.starts_with(b"$$TR_IOREC") {
        return sure(TraceFormat::HpSrt);
    }
    if let Some((_, with)) = PACKED.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(TraceError::Compressed { with });
    }
    if looks_like_blktrace(bytes) {
        return sure(TraceFormat::Blktrace);
    }
    let first = match first_line(bytes, Separator::Blanks) {
        Ok(Some(line)) => line,
        Ok(None) => return Err(TraceError::Empty { expected: "a trace" }),
        Err(_) if vscsi_version(bytes).is_some() => return sure(TraceFormat::Vscsi),
        Err(_) if looks_like_oracle(bytes) => return sure(TraceFormat::OracleGeneral),
        Err(_) => return Err(unknown("bytes that are no text".to_owned())),
    };
    let separator = Separator::Char(comma_or_semicolon(bytes));
    let listed = first_line(bytes, separator)?;
    match by_blanks(&first).or_else(|| by_list(listed?)) {
        Some(TraceFormat::Ascii) => Ok(milliseconds_or_nanoseconds(bytes)),
        Some(format) => sure(format),
        None => Err(unknown(shown(first.whole().text))),
    }
}

/// Returns the character that separates the fields of a list, by the first line.
pub(super) fn comma_or_semicolon(sample: &[u8]) -> char {
    let line = sample.split(|&byte| byte == b'\n').find(|line| !line.starts_with(b"#")).unwrap_or_default();
    let count = |of: u8| line.iter().filter(|&&byte| byte == of).count();
    if count(b';') > count(b',') { ';' } else { ',' }
}

/// Returns the fields of each line that is neither blank nor a comment.
fn lines(bytes: &[u8], separator: Separator) -> impl Iterator<Item = Result<Fields<'_>, TraceError>> {
    let lines = bytes.split(|&byte| byte == b'\n').enumerate();
    lines.filter_map(move |(index, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        fields(index as u64 + 1, line, separator).transpose()
    })
}

fn first_line(bytes: &[u8], separator: Separator) -> Result<Option<Fields<'_>>, TraceError> {
    lines(bytes, separator).next().transpose()
}

fn by_blanks(line: &Fields<'_>) -> Option<TraceFormat> {
    let text = line.whole().text;
    if text.starts_with("fio version") {
        return Some(TraceFormat::Fio);
    }
    // The output of blkparse may begin with the names of the files that it has read.
    if text.starts_with("Input file ") && text.ends_with(" added") {
        return Some(TraceFormat::Blkparse);
    }
    let all = line.clone().rest();
    let at = |place: usize| all.get(place).copied();
    let is_op = |field: Field<'_>| field.op("").is_ok();
    let first = at(0)?;
    if first.text.starts_with("TIME") && text.contains("SECTOR") {
        return Some(TraceFormat::Biosnoop);
    }
    let device = first.text.split_once(',');
    if device.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) && all.len() >= 6 {
        return Some(TraceFormat::Blkparse);
    }
    if (5..=7).contains(&all.len()) && is_op(first) {
        Some(TraceFormat::Validate)
    } else if (8..=9).contains(&all.len()) && is_number(first.text) && at(5).is_some_and(is_op) {
        Some(TraceFormat::Fiu)
    } else if all.len() >= 8 && is_number(first.text) && at(all.len() - 4).is_some_and(is_op) {
        Some(TraceFormat::Biosnoop)
    } else if (4..=6).contains(&all.len()) && is_number(first.text) && is_number(at(1)?.text) {
        Some(TraceFormat::Ascii)
    } else {
        None
    }
}

fn by_list(line: Fields<'_>) -> Option<TraceFormat> {
    let all = line.rest();
    let word = |place: usize| all.get(place).map_or(String::new(), |field| field.text.to_ascii_lowercase());
    let (first, second, third, fourth) = (word(0), word(1), word(2), word(3));
    let is_op = |word: &str| matches!(word, "r" | "w" | "read" | "write");
    match first.as_str() {
        "timestamp" if second == "response" => return Some(TraceFormat::Systor17),
        "timestamp" if second == "offset" => return Some(TraceFormat::Tencent),
        "timestamp" => return Some(TraceFormat::Msr),
        "device_id" => return Some(TraceFormat::Alibaba),
        "ts" if second == "op" => return Some(TraceFormat::CloudPhysics),
        _ => {}
    }
    if all.len() >= 6 && matches!(fourth.as_str(), "read" | "write") {
        Some(TraceFormat::Msr)
    } else if all.len() == 6 && is_op(&third) && is_number(&first) {
        Some(TraceFormat::Systor17)
    } else if all.len() == 5 && is_op(&second) {
        Some(TraceFormat::Alibaba)
    } else if is_op(&fourth) {
        Some(TraceFormat::Spc)
    } else if all.len() == 5 && matches!(fourth.as_str(), "0" | "1") && is_number(&first) {
        Some(TraceFormat::Tencent)
    } else {
        None
    }
}

/// The mean pause between arrivals, in milliseconds, above which whole numbers are read as nanoseconds: ten seconds,
/// with which a drive would be idle for more than 99.9% of the time.
const MEAN_PAUSE_MS_MAX: f64 = 10_000.0;

/// The mean pause from which the unit of whole numbers is in doubt: 1 s in milliseconds, or 1 us in nanoseconds,
/// which is a million requests a second.
const DOUBTFUL_PAUSE_MS_MIN: f64 = 1_000.0;

/// Distinguishes DiskSim's lines from those of MQSim and SSDSim, which differ only in the unit of the times. DiskSim
/// writes decimals; whole numbers that would leave a drive idle as milliseconds are nanoseconds.
fn milliseconds_or_nanoseconds(bytes: &[u8]) -> Detected {
    let mut whole = true;
    let times: Vec<f64> = lines(bytes, Separator::Blanks)
        .map_while(Result::ok)
        .filter_map(|mut line| line.optional())
        .inspect(|first| whole &= first.text.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|first| first.text.parse().ok())
        .collect();
    let (least, most) =
        times.iter().fold((f64::MAX, 0.0f64), |(least, most), &t| (least.min(t), most.max(t)));
    let pause = (most - least) / times.len().saturating_sub(1).max(1) as f64;
    if !whole || times.len() < 2 || pause < DOUBTFUL_PAUSE_MS_MIN {
        return Detected { format: TraceFormat::Ascii, guess: None };
    }
    if pause <= MEAN_PAUSE_MS_MAX {
        let guess = format!(
            "arrival times are whole numbers, {pause:.0} apart on average, and are taken for milliseconds (DiskSim); \
             give --format mqsim if they are nanoseconds"
        );
        return Detected { format: TraceFormat::Ascii, guess: Some(guess) };
    }
    let guess = format!(
        "arrival times are whole numbers, {pause:.0} apart on average, and are taken for nanoseconds (MQSim, SSDSim); \
         give --time-unit ms if they are milliseconds"
    );
    Detected { format: TraceFormat::MqSim, guess: Some(guess) }
}

/// Returns whether a text looks like a number, perhaps not of the right kind.
fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn unknown(found: String) -> TraceError {
    let tried: Vec<String> =
        TraceFormat::ALL.iter().map(|format| format!("{format} ({})", format.shape())).collect();
    TraceError::UnknownFormat { found, tried: tried.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_known_by_its_beginning() {
        let cases: [(&[u8], TraceFormat); 20] = [
            (b"$$TR_IOREC-1.3 (x)\nversion", TraceFormat::HpSrt),
            (b"fio version 2 iolog\n", TraceFormat::Fio),
            (b"# c\r\n\r\nR Hit 1 2 3 4\r\n", TraceFormat::Validate),
            (b"w Miss -1 2 3 4", TraceFormat::Validate),
            (b"0.5 0 1 2 1\n", TraceFormat::Ascii),
            (b"-0.5 0 1 2 0x1\n", TraceFormat::Ascii),
            (b"128166372003061639,usr,0,Read,7014609920,24576,41286\n", TraceFormat::Msr),
            (b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n", TraceFormat::Msr),
            (b"0,20941264,8192,W,0.551706\n", TraceFormat::Spc),
            (b"\xef\xbb\xbf0,1,512,r,0,extra\n", TraceFormat::Spc),
            (b"1565259 0 1 8 1\n1866034000 0 6 64 1\n", TraceFormat::MqSim),
            (b"0 0 1 8 1\n10 0 6 64 1\n", TraceFormat::Ascii),
            (b"Timestamp,Response,IOType,LUN,Offset,Size\n", TraceFormat::Systor17),
            (b"128166372000015652;usr;0;Read;5591482368;4096;50000\n", TraceFormat::Msr),
            (b"3,R,5591482368,4096,1577808000001565\n", TraceFormat::Alibaba),
            (b"1538323200,1000,8,1,1283\n", TraceFormat::Tencent),
            (b"ts,op,lbn,len\n", TraceFormat::CloudPhysics),
            (b"89966591565259 4892 syslogd 10920864 8 R 6 0 531e\n", TraceFormat::Fiu),
            (b"0.5 a b c 7 sdb R 1000 4096 3.2\n", TraceFormat::Biosnoop),
            (b"  8,16   0   1    0.001565259  5000  Q  RS 10920864 + 8 [fio]\n", TraceFormat::Blkparse),
        ];
        for (bytes, format) in cases {
            assert_eq!(detect(bytes), Ok(format), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn the_error_for_an_unknown_file_lists_the_formats_tried() {
        let message = detect(b"hello world\n").unwrap_err().to_string();
        assert!(message.contains("begins with \"hello world\""), "{message}");
        for format in TraceFormat::ALL {
            assert!(message.contains(&format.to_string()), "{message}");
        }
        assert!(detect(b"\x7fELF\x02\xff\n").unwrap_err().to_string().contains("bytes that are no text"));
    }

    #[test]
    fn empty_and_compressed_files_are_distinguished() {
        assert!(matches!(detect(b""), Err(TraceError::Empty { .. })));
        assert!(matches!(detect(b"\n# only a comment\n"), Err(TraceError::Empty { .. })));
        assert_eq!(detect(b"\x1f\x8b\x08").unwrap_err(), TraceError::Compressed { with: "gzip" });
    }
}
