//! Files with traces: packed or plain, and the errors in them.

use crate::files;
use crate::problem::Problem;
use flate2::read::MultiGzDecoder;
use std::io::{self, Cursor, Read};
use std::path::Path;
use workload::trace::TraceError;

/// The largest window of a zstd frame that is unpacked, as a power of two: 32 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 25;

/// The name of standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Opens a trace, which is unpacked while it is read.
///
/// # Errors
/// The file cannot be opened, or its beginning cannot be read.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Problem> {
    let source: Box<dyn Read> = if path == Path::new(STANDARD_INPUT) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(files::open(path)?)
    };
    unpacked(source).map_err(|error| Problem::failed(format!("cannot read {}: {error}", path.display())))
}

fn unpacked(mut source: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut beginning = Vec::new();
    source.by_ref().take(4).read_to_end(&mut beginning)?;
    let packed = Cursor::new(beginning.clone()).chain(source);
    if beginning.starts_with(b"\x1f\x8b") {
        Ok(Box::new(MultiGzDecoder::new(packed)))
    } else if beginning == b"\x28\xb5\x2f\xfd" {
        let mut decoder = zstd::stream::read::Decoder::new(packed)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok(Box::new(decoder))
    } else {
        Ok(Box::new(packed))
    }
}

/// Makes the error of a reader, with its file and advice.
pub(crate) fn unreadable(path: &Path, error: &TraceError) -> Problem {
    let failed = Problem::failed(format!("{}: {error}", path.display()));
    match error {
        TraceError::Empty { .. } => failed.help("give a trace with at least one request"),
        TraceError::Text { .. } | TraceError::Binary { .. } => {
            failed.help("mend or delete that place; --format names the format if it was guessed wrongly")
        }
        TraceError::Read { .. } => failed.help("check that the file is whole"),
        TraceError::UnknownFormat { .. } => {
            failed.help("give --format, or --format csv: with the columns of other lists")
        }
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_packed_trace_is_unpacked_as_it_is_read() {
        let text = b"0.5 0 1 2 1\n".repeat(1_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let zstd = zstd::stream::encode_all(&text[..], 1).unwrap();
        // Two concatenated members are one trace, as `cat a.gz b.gz` makes them.
        let gzip = gzip.finish().unwrap().repeat(2);
        for (packed, times) in [(text.clone(), 1), (gzip, 2), (zstd, 1)] {
            let mut read = Vec::new();
            unpacked(Box::new(Cursor::new(packed))).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text.repeat(times));
        }
    }

    #[test]
    fn short_files_are_read_whole() {
        for text in ["", "a", "abc"] {
            let mut read = String::new();
            unpacked(Box::new(Cursor::new(text))).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
