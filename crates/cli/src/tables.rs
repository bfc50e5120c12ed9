//! Tables for people.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

/// The style: one line below the header, and no other decoration.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Returns a table with a header. `text` has the indices of the columns that are aligned left; the others, numbers, are aligned
/// right.
pub(crate) fn table(header: &[&str], text: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(header.iter().copied().map(Cell::new));
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if !text.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut shown = table.trim_fmt();
    shown.push('\n');
    shown
}

/// Returns `n` with a comma before every third digit from the end.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a share as a percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Returns a time in seconds in fitting units.
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Returns a capacity in the units used for drives.
pub(crate) fn capacity(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes >= 1e12 { format!("{:.2} TB", bytes / 1e12) } else { format!("{:.2} GB", bytes / 1e9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let shown: Vec<_> = [0, 999, 1_000, 123_456, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn times_have_fitting_units() {
        let shown: Vec<_> = [0.25, 90.0, 1_800.0, 86_400.0, 864_000.0].map(span).into();
        assert_eq!(shown, ["250 ms", "90.0 s", "30.0 minutes", "24.0 hours", "10.0 days"]);
    }
}
