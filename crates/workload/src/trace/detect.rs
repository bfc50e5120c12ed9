//! Which format a trace is in, from how it begins.

use super::text::{Fields, Lines, Separator, shown};
use super::{TraceError, TraceFormat};

/// How a file begins that a packer made.
const PACKED: [(&[u8], &str); 4] =
    [(b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];

/// Finds out a trace's format from its first bytes, or its first line that is no comment.
///
/// Only the kinds of the fields are looked at, so that a trace with a wrong number is still known for what it is
/// and its reader can name the place.
///
/// # Errors
/// A file that is empty, compressed, or in no known format.
pub fn detect(bytes: &[u8]) -> Result<TraceFormat, TraceError> {
    if bytes.starts_with(b"$$TR_IOREC") {
        return Ok(TraceFormat::HpSrt);
    }
    if let Some((_, with)) = PACKED.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(TraceError::Compressed { with });
    }
    let blanks = match Lines::new(bytes, Separator::Blanks).next().transpose() {
        Ok(Some(line)) => line,
        Ok(None) => return Err(TraceError::Empty { expected: "a trace" }),
        Err(_) => return Err(unknown("bytes that are no text".to_owned())),
    };
    let commas = Lines::new(bytes, Separator::Comma).next().transpose()?;
    by_blanks(blanks.clone())
        .or_else(|| by_commas(commas?))
        .ok_or_else(|| unknown(shown(blanks.whole().text)))
}

fn by_blanks(mut fields: Fields<'_>) -> Option<TraceFormat> {
    if fields.whole().text.starts_with("fio version") {
        return Some(TraceFormat::Fio);
    }
    let count = fields.count();
    let first = fields.optional()?;
    if (5..=7).contains(&count) && first.op("").is_ok() {
        Some(TraceFormat::Validate)
    } else if (4..=6).contains(&count) && is_number(first.text) && is_number(fields.optional()?.text) {
        Some(TraceFormat::Ascii)
    } else {
        None
    }
}

fn by_commas(mut fields: Fields<'_>) -> Option<TraceFormat> {
    let count = fields.count();
    let [first, _, _, fourth] = [(); 4].map(|()| fields.optional());
    let (first, fourth) = (first?, fourth?);
    if first.text.eq_ignore_ascii_case("timestamp") {
        return Some(TraceFormat::Msr);
    }
    let word = fourth.text.to_ascii_lowercase();
    match word.as_str() {
        "read" | "write" if count >= 6 => Some(TraceFormat::Msr),
        "r" | "w" => Some(TraceFormat::Spc),
        _ => None,
    }
}

/// Looks like a number, if perhaps not one of the right kind.
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
        let cases: [(&[u8], TraceFormat); 10] = [
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
        ];
        for (bytes, format) in cases {
            assert_eq!(detect(bytes), Ok(format), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn an_unknown_file_is_told_what_was_tried() {
        let message = detect(b"hello world\n").unwrap_err().to_string();
        assert!(message.contains("begins with \"hello world\""), "{message}");
        for format in TraceFormat::ALL {
            assert!(message.contains(&format.to_string()), "{message}");
        }
        assert!(detect(b"\x7fELF\x02\xff\n").unwrap_err().to_string().contains("bytes that are no text"));
    }

    #[test]
    fn empty_and_compressed_files_are_told_apart() {
        assert!(matches!(detect(b""), Err(TraceError::Empty { .. })));
        assert!(matches!(detect(b"\n# only a comment\n"), Err(TraceError::Empty { .. })));
        assert_eq!(detect(b"\x1f\x8b\x08").unwrap_err(), TraceError::Compressed { with: "gzip" });
    }
}
