//! Claims and numbers as tables for people.

use crate::tables::table;
use lab::numbers::Numbers;
use lab::{Claim, Measure};
use std::fmt::Write;

/// The width of a column of sentences, in characters.
const COLUMN_CHARACTERS: usize = 42;

/// The largest number of rows that are shown of a figure; the file has all.
const ROWS_MAX: usize = 24;

/// Returns the claims as a table: the paper's statement, our value, its band, whether it holds.
pub(crate) fn claims<'c>(claims: impl IntoIterator<Item = &'c Claim>) -> String {
    let rows = claims.into_iter().map(|claim| {
        let (ours, band) = values(&claim.measures);
        let holds = if claim.holds() { "yes" } else { "NO" };
        vec![
            claim.id.clone(),
            wrapped(&claim.paper, COLUMN_CHARACTERS).join("\n"),
            ours,
            band,
            holds.to_owned(),
        ]
    });
    table(&["id", "paper", "ours", "band", "holds"], &[0, 1, 2, 3, 4], rows)
}

/// Returns our values and their bands, in matching lines.
fn values(measures: &[Measure]) -> (String, String) {
    if measures.is_empty() {
        return ("not measured".to_owned(), String::new());
    }
    let (mut ours, mut bands) = (Vec::new(), Vec::new());
    for measure in measures {
        ours.extend(wrapped(&measure.sentence(), COLUMN_CHARACTERS));
        bands.push(format!("{}{}", measure.band, measure.unit));
        bands.resize(ours.len(), String::new());
    }
    (ours.join("\n"), bands.join("\n"))
}

/// Returns why claims do not hold, in a paragraph for each claim.
pub(crate) fn reasons<'c>(claims: impl IntoIterator<Item = &'c Claim>) -> String {
    let mut text = String::new();
    for claim in claims.into_iter().filter(|claim| !claim.holds()) {
        let why = if claim.note.is_empty() { "no reason is known yet" } else { &claim.note };
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "\n{}", wrapped(&format!("{} does not hold: {why}", claim.id), 100).join("\n"));
    }
    text
}

/// Returns the numbers of a figure as a table.
pub(crate) fn numbers(numbers: &Numbers) -> String {
    let header: Vec<&str> = numbers.columns.iter().map(String::as_str).collect();
    let every = numbers.rows.len().div_ceil(ROWS_MAX).max(1);
    let mut text = table(&header, &[0], numbers.rows.iter().step_by(every).cloned());
    if every > 1 {
        let _ = writeln!(text, "(one of {every} rows; the file has all {})", numbers.rows.len());
    }
    text
}

/// Wraps words into lines of at most `width` characters; a longer word is not split.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > width {
            lines.push(String::new());
            length = 0;
        }
        if let Some(line) = lines.last_mut() {
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += more;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::Band;

    #[test]
    fn values_stand_beside_their_bands() {
        let long = "a measure that needs more than a line to say what it is";
        let claim =
            Claim::new("x-fig1", "all of them are about half, as far as anyone can tell from the figure")
                .measure("a", 49.7, "%", Band::Within(47.0, 53.0))
                .measure(long, 3.0, "", Band::AtMost(2.0))
                .measure("c", 1.0, "", Band::AtLeast(1.0));
        insta::assert_snapshot!(claims([&claim]), @r"
        id       paper                                   ours                                       band     holds
        ────────────────────────────────────────────────────────────────────────────────────────────────────────────
        x-fig1   all of them are about half, as far as   a: 49.7%                                   47-53%   NO
                 anyone can tell from the figure         a measure that needs more than a line to   <= 2
                                                         say what it is: 3
                                                         c: 1                                       >= 1
        ");
    }

    #[test]
    fn a_long_table_is_thinned_and_says_so() {
        let rows = (0..100).map(|i| vec![i.to_string()]).collect();
        let text = numbers(&Numbers { columns: vec!["x".into()], rows });
        assert!(text.lines().count() < 30 && text.contains("one of 5 rows; the file has all 100"), "{text}");
    }
}
