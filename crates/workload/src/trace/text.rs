//! Lines, fields and numbers of text formats, with their places for errors.

use super::SECTOR_BYTES;
use super::{Notes, TraceError, enclosing};
use std::collections::BTreeMap;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The character between the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// Any run of spaces and tabs.
    Blanks,
    /// This character, with or without blanks around it.
    Char(char),
}

impl Separator {
    pub(super) const COMMA: Self = Self::Char(',');
}

/// Returns the fields of a line; `None` for a blank line and for a comment.
///
/// # Errors
/// The line is not text in UTF-8.
pub(super) fn fields(
    number: u64,
    line: &[u8],
    separator: Separator,
) -> Result<Option<Fields<'_>>, TraceError> {
    let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    let number = number as usize;
    let error = |column: usize, found: &str| TraceError::Text {
        line: number,
        column,
        found: found.to_owned(),
        expected: "text in UTF-8",
    };
    let text = std::str::from_utf8(line)
        .map_err(|e| error(e.valid_up_to() + 1, "a byte that is no UTF-8 (is the file binary?)"))?;
    if let Some(nul) = line.iter().position(|&byte| byte == 0) {
        return Err(error(nul + 1, "a NUL byte (is the file binary?)"));
    }
    let comment = text.trim_start().starts_with('#') || text.trim().is_empty();
    Ok((!comment).then_some(Fields { text, at: 0, line: number, separator, past: false }))
}

/// One line, taken field by field.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    text: &'a str,
    /// The byte at which the next field is looked for.
    at: usize,
    line: usize,
    separator: Separator,
    /// Whether the line's last field was taken.
    past: bool,
}

impl<'a> Fields<'a> {
    /// Returns the next field; `expected` describes it in an error.
    pub(super) fn field(&mut self, expected: &'static str) -> Result<Field<'a>, TraceError> {
        self.optional().ok_or_else(|| TraceError::Text {
            line: self.line,
            column: self.text.trim_end().len() + 1,
            found: "the end of the line".to_owned(),
            expected,
        })
    }

    /// Returns the next field, if any.
    pub(super) fn optional(&mut self) -> Option<Field<'a>> {
        let rest = self.text.get(self.at..)?;
        let skipped = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        if self.past || (rest.is_empty() && self.separator == Separator::Blanks) {
            return None;
        }
        let start = self.at + skipped;
        let len = match self.separator {
            Separator::Blanks => rest.find(char::is_whitespace),
            Separator::Char(separator) => rest.find(separator),
        };
        self.past = len.is_none();
        let text = &rest[..len.unwrap_or(rest.len())];
        // A blank may be wider than a byte, and is trimmed later; a separator must be skipped here.
        self.at = start
            + text.len()
            + match self.separator {
                Separator::Blanks => 0,
                Separator::Char(separator) => separator.len_utf8(),
            };
        Some(Field { text: text.trim_end(), line: self.line, column: start + 1 })
    }

    /// Returns the fields that are left, in order.
    pub(super) fn rest(mut self) -> Vec<Field<'a>> {
        std::iter::from_fn(|| self.optional()).collect()
    }

    /// Fails if the line has another field.
    pub(super) fn end(&mut self) -> Result<(), TraceError> {
        match self.optional() {
            Some(field) => Err(field.error("the end of the line")),
            None => Ok(()),
        }
    }

    /// Returns the text from the beginning of one field to that of a later one.
    pub(super) fn between(&self, from: &Field<'_>, to: &Field<'_>) -> Field<'a> {
        let text = self.text.get(from.column - 1..to.column - 1).unwrap_or_default().trim_end();
        Field { text, line: self.line, column: from.column }
    }

    /// Returns whether the first field is this word, in any case.
    pub(super) fn begins_with(&self, word: &str) -> bool {
        self.clone().optional().is_some_and(|first| first.text.eq_ignore_ascii_case(word))
    }

    /// Returns the whole line as one field.
    pub(super) fn whole(&self) -> Field<'a> {
        Field { text: self.text.trim(), line: self.line, column: 1 }
    }
}

/// One field of a line.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) text: &'a str,
    line: usize,
    column: usize,
}

impl Field<'_> {
    pub(super) fn error(&self, expected: &'static str) -> TraceError {
        TraceError::Text { line: self.line, column: self.column, found: shown(self.text), expected }
    }

    /// Returns the field without double quotes around it.
    pub(super) fn unquoted(&self) -> Self {
        let inner = self.text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        inner.map_or(*self, |text| Self { text: text.trim(), column: self.column + 1, ..*self })
    }

    /// Returns a whole decimal number. `expected` describes it in an error.
    pub(super) fn number(&self, expected: &'static str) -> Result<u64, TraceError> {
        if self.text.is_empty() || !self.text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.error(expected));
        }
        self.text.parse().map_err(|_| self.error("a number below 2^64"))
    }

    /// Returns a whole number below 2^32.
    pub(super) fn small_number(&self, expected: &'static str) -> Result<u32, TraceError> {
        u32::try_from(self.number(expected)?).map_err(|_| self.error("a number below 2^32"))
    }

    /// Returns a decimal number of units of `unit_ns` nanoseconds each, to the nearest nanosecond.
    ///
    /// Digits are not converted through a float, so times written with all their digits come back exact.
    pub(super) fn time(&self, unit_ns: u64, expected: &'static str) -> Result<Duration, TraceError> {
        if self.text.bytes().any(|b| b == b'e' || b == b'E') {
            return self.time_with_exponent(unit_ns, expected);
        }
        let (whole, fraction) = self.text.split_once('.').unwrap_or((self.text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return Err(self.error(expected));
        }
        let too_long = || self.error("a time below 584 years");
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
        // Eighteen digits of the largest unit, a second, still leave nine below the nanosecond.
        let kept = &fraction[..fraction.len().min(18)];
        let scale = 10u128.pow(kept.len() as u32);
        let parts: u128 = if kept.is_empty() { 0 } else { kept.parse().map_err(|_| too_long())? };
        let below = (parts * u128::from(unit_ns) + scale / 2) / scale;
        let total = u128::from(whole) * u128::from(unit_ns) + below;
        u64::try_from(total).map(Duration::from_nanos).map_err(|_| too_long())
    }

    fn time_with_exponent(&self, unit_ns: u64, expected: &'static str) -> Result<Duration, TraceError> {
        let value: f64 = self.text.parse().map_err(|_| self.error(expected))?;
        if !value.is_finite() || value.is_sign_negative() {
            return Err(self.error(expected));
        }
        Duration::from_millis_f64(value * (unit_ns as f64 / 1e6))
            .ok_or_else(|| self.error("a time below 584 years"))
    }

    /// Returns a time, as [`Field::time`], after the zero of the trace.
    pub(super) fn arrival(&self, unit_ns: u64, expected: &'static str) -> Result<Instant, TraceError> {
        Ok(Instant::ZERO + self.time(unit_ns, expected)?)
    }

    /// Returns the direction for `R` or `W`, `Read` or `Write`, in any case.
    pub(super) fn op(&self, expected: &'static str) -> Result<Op, TraceError> {
        let is = |word| self.text.eq_ignore_ascii_case(word);
        if is("r") || is("read") {
            Ok(Op::Read)
        } else if is("w") || is("write") {
            Ok(Op::Write)
        } else {
            Err(self.error(expected))
        }
    }
}

/// Names that stand for devices, numbered in the order in which they are first met.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, u32>);

/// The most device names of a trace: more mean that a column was taken for the device by mistake.
const DEVICE_NAMES_MAX: usize = 1 << 16;

impl Names {
    pub(super) fn number(&mut self, name: Field<'_>) -> Result<u32, TraceError> {
        if let Some(&number) = self.0.get(name.text) {
            return Ok(number);
        }
        let next = self.0.len();
        if next >= DEVICE_NAMES_MAX {
            return Err(name.error("at most 65,536 different devices"));
        }
        self.0.insert(name.text.to_owned(), next as u32);
        Ok(next as u32)
    }
}

/// Returns the run of LBNs in two fields.
pub(super) fn range(start: Field<'_>, len: Field<'_>) -> Result<LbnRange, TraceError> {
    let first = start.number("the first LBN, a whole number")?;
    let expected = "the number of 512-byte blocks, a whole number of at least 1";
    let blocks = len.number(expected)?;
    if blocks == 0 {
        return Err(len.error(expected));
    }
    let range = LbnRange::new(Lbn::new(first), Sectors::new(blocks));
    range.checked_end().map(|_| range).ok_or_else(|| len.error("a request that ends below LBN 2^64"))
}

/// Returns the sectors that enclose a byte range in two fields; `None`, and counted, for an empty range.
pub(super) fn byte_range(
    offset: Field<'_>,
    bytes: Field<'_>,
    notes: &mut Notes,
) -> Result<Option<LbnRange>, TraceError> {
    enclosed(offset.number(OFFSET)?, offset, bytes, notes)
}

/// Returns the sectors that enclose the bytes from an LBN on; `None`, and counted, for a request without bytes.
pub(super) fn bytes_at_lbn(
    lbn: Field<'_>,
    bytes: Field<'_>,
    notes: &mut Notes,
) -> Result<Option<LbnRange>, TraceError> {
    let offset = lbn.number("the first LBN, a whole number")?.checked_mul(SECTOR_BYTES);
    enclosed(offset.ok_or_else(|| lbn.error("an LBN below 2^55"))?, lbn, bytes, notes)
}

/// Returns the run of LBNs in two fields; `None`, and counted, for a run without sectors.
pub(super) fn sectors_at_lbn(
    lbn: Field<'_>,
    sectors: Field<'_>,
    notes: &mut Notes,
) -> Result<Option<LbnRange>, TraceError> {
    if sectors.number("the number of 512-byte blocks, a whole number")? == 0 {
        notes.empty += 1;
        return Ok(None);
    }
    range(lbn, sectors).map(Some)
}

/// Returns the sectors that enclose a number of 512-byte blocks from a byte on; `None`, and counted, for a
/// request without bytes.
pub(super) fn sectors_at_byte(
    offset: Field<'_>,
    sectors: Field<'_>,
    notes: &mut Notes,
) -> Result<Option<LbnRange>, TraceError> {
    let bytes = sectors.number("the number of 512-byte blocks, a whole number")?.checked_mul(SECTOR_BYTES);
    let bytes = bytes.ok_or_else(|| sectors.error("a request that ends below byte 2^64"))?;
    around(offset.number(OFFSET)?, bytes, offset, notes)
}

const OFFSET: &str = "the offset in bytes, a whole number";

fn enclosed(
    offset: u64,
    at: Field<'_>,
    bytes: Field<'_>,
    notes: &mut Notes,
) -> Result<Option<LbnRange>, TraceError> {
    around(offset, bytes.number("the size in bytes, a whole number")?, at, notes)
}

fn around(offset: u64, bytes: u64, at: Field<'_>, notes: &mut Notes) -> Result<Option<LbnRange>, TraceError> {
    if bytes == 0 {
        notes.empty += 1;
        return Ok(None);
    }
    let (range, widened) =
        enclosing(offset, bytes).ok_or_else(|| at.error("a request that ends below byte 2^64"))?;
    notes.widened += u64::from(widened);
    Ok(Some(range))
}

/// Returns `text` in quotes, cut if it is long.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 40;
    if text.is_empty() {
        return "nothing".to_owned();
    }
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((cut, _)) => format!("{:?}...", &text[..cut]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(text: &str) -> Field<'_> {
        Field { text, line: 1, column: 1 }
    }

    fn ns(text: &str, unit: u64) -> Option<u64> {
        field(text).time(unit, "").ok().map(Duration::as_nanos)
    }

    #[test]
    fn times_are_taken_digit_by_digit() {
        assert_eq!(ns("663.00000", 1_000), Some(663_000));
        assert_eq!(ns("0.0004", 1_000), Some(0));
        assert_eq!(ns("0.0005", 1_000), Some(1));
        assert_eq!(ns("18446744073.709551615", 1_000_000_000), Some(u64::MAX));
        assert_eq!(ns("18446744073.709551616", 1_000_000_000), None);
        assert_eq!(ns(".5", 1_000), Some(500));
        assert_eq!(ns("5.", 1_000), Some(5_000));
        assert_eq!(ns("1.5e3", 1_000), Some(1_500_000));
        for wrong in ["", ".", "-1", "+1", "1.2.3", "1,5", "nan", "inf", "1e999", "-1e3", "e", "1_000"] {
            assert_eq!(ns(wrong, 1_000), None, "{wrong}");
        }
    }

    #[test]
    fn blanks_around_commas_do_not_count_and_empty_fields_do() {
        let mut fields = fields(1, b"a, b ,,c", Separator::COMMA).unwrap().unwrap();
        assert_eq!(fields.clone().rest().len(), 4);
        let texts: Vec<_> = std::iter::from_fn(|| fields.optional()).map(|f| (f.text, f.column)).collect();
        assert_eq!(texts, [("a", 1), ("b", 4), ("", 7), ("c", 8)]);
    }

    #[test]
    fn a_wide_blank_hides_nothing_after_it() {
        let mut fields = fields(1, "a\u{2003}b c".as_bytes(), Separator::Blanks).unwrap().unwrap();
        assert_eq!(fields.clone().rest().len(), 3);
        assert_eq!(fields.field("").unwrap().text, "a");
        assert!(fields.end().is_err());
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_at_their_place() {
        let refuse = |line, bytes: &[u8]| fields(line, bytes, Separator::Blanks).err().unwrap().to_string();
        assert!(refuse(2, b"3 \xff").starts_with("line 2, column 3: found a byte that is no UTF-8"));
        assert!(refuse(4, b"4 5\0").starts_with("line 4, column 4: found a NUL byte"));
    }

    proptest! {
        #[test]
        fn written_times_come_back(ns_in: u64) {
            let text = format!("{}.{:03}", ns_in / 1_000, ns_in % 1_000);
            prop_assert_eq!(ns(&text, 1_000), Some(ns_in));
        }

        #[test]
        fn no_time_panics(text: String, unit in prop::sample::select(vec![1_000u64, 1_000_000, 1_000_000_000])) {
            let _ = ns(&text, unit);
        }
    }
}
