//! Suggestions for mistyped names.

use alloc::string::String;
use alloc::vec::Vec;

/// Long enough for any name, short enough for a message.
const NAME_CHARS_MAX: usize = 60;

/// The number of names proposed.
const PROPOSALS_MAX: usize = 3;

/// Returns a name in a form fit for a message: cut, and without control characters for a terminal.
pub fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect()
}

/// Returns up to three of the known names that are within a few typing errors of `name`, or that contain it, the
/// nearest first.
///
/// ```
/// use freeblock_model::names::nearest;
/// assert_eq!(nearest("atlas10k", ["nearline-4tb", "quantum-atlas-10k"]), ["quantum-atlas-10k"]);
/// assert!(nearest("zzz", ["nearline-4tb"]).is_empty());
/// assert_eq!(nearest("FIG5", ["fig15", "fig25", "fig35", "fig5"])[0], "fig5");
/// ```
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let plain = |text: &str| -> Vec<char> {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .take(NAME_CHARS_MAX)
            .map(|c| c.to_ascii_lowercase())
            .collect()
    };
    let typed = plain(name);
    let mut candidates: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|known| {
            let letters = plain(known);
            let contained = typed.len() >= 3 && letters.windows(typed.len()).any(|w| w == typed);
            let distance = if contained && typed != letters { 1 } else { edits(&typed, &letters) };
            (distance <= letters.len() / 3).then_some((distance, known))
        })
        .collect();
    candidates.sort_unstable();
    candidates.into_iter().take(PROPOSALS_MAX).map(|(_, known)| known).collect()
}

/// Returns the number of letters to insert, drop or replace between the two (Levenshtein).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, above) in b.iter().zip(row.iter_mut().skip(1)) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*above + 1);
            diagonal = *above;
            *above = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_insertions_deletions_and_replacements() {
        let edits = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("cheetah", "cheetah"), 0);
    }

    #[test]
    fn a_shown_name_is_short_and_commands_nothing() {
        let shown = shortened(&format!("\u{1b}[31m{}", "x".repeat(1_000)));
        assert!(shown.len() < 80 && !shown.contains('\u{1b}'));
    }
}
