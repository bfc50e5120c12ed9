//! Finds the known names that a mistyped name resembles.

use alloc::string::String;
use alloc::vec::Vec;

/// The number of characters of a name that are compared or shown: enough for any real name, few enough for a message.
const NAME_CHARS_MAX: usize = 60;

/// The most names proposed in a message.
const PROPOSALS_MAX: usize = 3;

/// Returns a name in a form fit for a message: cut to 60 characters, with control characters escaped.
pub fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect()
}

/// Returns up to three of the `known` names, the nearest first: names that contain `name`, or from which it differs in
/// at most a third of their letters. Upper case and punctuation are ignored.
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

/// Returns the Levenshtein distance: the number of letters to insert, drop or replace to get from `a` to `b`.
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
