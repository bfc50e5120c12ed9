//! Measures that are known not to hold, the only failures that a check may find.

use crate::files;
use crate::problem::Problem;
use lab::Claim;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// The measures that are known not to hold, by claim, from a file such as
///
/// ```toml
/// fast04-fig5 = ["least progress at"]
/// ```
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Known(BTreeMap<String, Vec<Spanned<String>>>);

impl Known {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read or lists no measures; the mistake in it is underlined. A measure that its claim does not have is
    /// reported when that claim is judged.
    pub(crate) fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let text = String::from_utf8(files::read(path)?)
            .map_err(|_| Problem::failed(format!("{name} is no text in UTF-8")))?;
        Self::parse(&text, &name)
    }

    fn parse(text: &str, name: &str) -> Result<Self, Problem> {
        let at = |span: Range<usize>, message: &str| {
            Problem::failed(format!("{name}: {message}"))
                .help("a line a claim: its name = [\"the measure that does not hold\", ...]")
                .at(name, text, span, "here")
        };
        let known: Self =
            toml::from_str(text).map_err(|error| at(error.span().unwrap_or_default(), error.message()))?;
        let all: Vec<&str> = lab::experiments().iter().flat_map(|e| e.claims).copied().collect();
        if let Some(claim) = known.0.keys().find(|claim| !all.contains(&claim.as_str())) {
            let start = text.find(claim.as_str()).unwrap_or_default();
            return Err(at(
                start..start + claim.len(),
                "no experiment makes this claim; `freeblock lab list` has them",
            ));
        }
        if known.0.values().all(Vec::is_empty) {
            // An empty list is probably the wrong file: refuse it before experiments run for many minutes.
            return Err(Problem::failed(format!("{name} names no measure"))
                .help("leave --known out if every claim must hold; otherwise give a line for each claim: CLAIM = [\"the measure that does not hold\", ...]"));
        }
        Ok(known)
    }

    /// Returns whether the file lists this measure of the claim.
    pub(crate) fn has(&self, claim: &Claim, measure: &str) -> bool {
        self.0.get(&claim.id).is_some_and(|known| known.iter().any(|what| what.get_ref() == measure))
    }

    /// Returns how the claim's measures differ from the file's list, one sentence for each difference.
    pub(crate) fn unlike(&self, claim: &Claim) -> Vec<String> {
        let id = &claim.id;
        let lost = claim.measures.iter().filter(|m| !m.holds() && !self.has(claim, &m.what));
        let mut unlike: Vec<String> = lost
            .map(|m| format!("{id}: \"{}\" does not hold, and is not on the list of known failures", m.what))
            .collect();
        if claim.measures.is_empty() {
            unlike.push(format!("{id}: nothing was measured"));
        }
        for what in self.0.get(id).into_iter().flatten().map(Spanned::get_ref) {
            match claim.measures.iter().find(|m| m.what == *what) {
                Some(measure) if measure.holds() => {
                    unlike.push(format!("{id}: \"{what}\" holds; take it off the list of known failures"));
                }
                Some(_) => {}
                None => {
                    let all: Vec<&str> = claim.measures.iter().map(|m| m.what.as_str()).collect();
                    unlike.push(format!(
                        "{id}: the experiment has no measure \"{what}\"; the measures are {all:?}"
                    ));
                }
            }
        }
        unlike
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::Band;

    fn claim() -> Claim {
        Claim::new("fast04-fig5", "half").measure("a", 0.5, "", Band::AtMost(0.6)).measure(
            "b",
            0.7,
            "",
            Band::AtMost(0.6),
        )
    }

    fn unlike(text: &str) -> Vec<String> {
        toml::from_str::<Known>(text).unwrap().unlike(&claim())
    }

    #[test]
    fn a_file_that_names_nothing_is_refused() {
        for text in ["", "# nothing\n", "fast04-fig5 = []"] {
            let problem = Known::parse(text, "known.toml").unwrap_err();
            assert!(problem.to_string().contains("known.toml names no measure"), "{problem}");
        }
        assert!(Known::parse("fast04-fig5 = ['b']", "known.toml").is_ok());
    }

    #[test]
    fn only_known_failures_may_occur() {
        assert!(unlike("fast04-fig5 = ['b']").is_empty());
        let lost = unlike("");
        assert!(lost.len() == 1 && lost[0].contains("\"b\" does not hold"), "{lost:?}");
    }

    #[test]
    fn a_known_failure_that_holds_or_does_not_exist_is_reported() {
        let won = unlike("fast04-fig5 = ['a', 'b']");
        assert!(won.len() == 1 && won[0].contains("\"a\" holds"), "{won:?}");
        let none = unlike("fast04-fig5 = ['b', 'c']");
        assert!(none.len() == 1 && none[0].contains("no measure \"c\""), "{none:?}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in
            [("nowhere = ['a']", "no experiment"), ("fast04-fig5 = 1", "invalid type"), ("= 3", "key")]
        {
            let problem = Known::parse(text, "known.toml").unwrap_err();
            assert!(problem.to_string().contains(said), "{problem}");
        }
    }
}
