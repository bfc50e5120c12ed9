//! The names of an `instantiate` statement: single components, and ranges such as `disk0 .. disk3`.

use super::source::{Fault, Scalar, printable, refuse};

/// The word between the first and the last name of a range.
const TO: &str = "..";

/// The names in an `instantiate` statement. Ranges are not expanded, because a file may name more components than fit into
/// memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    single: Vec<String>,
    ranges: Vec<Range>,
}

/// All names that consist of `prefix` and a number from `first` to `last`.
#[derive(Clone, Debug)]
struct Range {
    prefix: String,
    first: u64,
    last: u64,
}

impl Instances {
    pub fn new(words: &[Scalar]) -> Result<Self, Fault> {
        let mut instances = Self::default();
        let mut words = words;
        loop {
            words = match words {
                [] => return Ok(instances),
                [first, to, last, rest @ ..] if to.text == TO => {
                    instances.ranges.push(range(first, &last.text)?);
                    rest
                }
                [word, rest @ ..] if rest.first().is_none_or(|next| next.text != TO) && word.text != TO => {
                    match word.text.split_once(TO) {
                        Some((first, last)) => {
                            let first = Scalar { text: first.into(), at: word.at };
                            instances.ranges.push(range(&first, last)?);
                        }
                        None => instances.single.push(word.text.clone()),
                    }
                    rest
                }
                [word, ..] => return Err(refuse(word.at, "a range of instances lacks an end", MEND)),
            };
        }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.single.iter().any(|single| single == name)
            || numbered(name).is_some_and(|(prefix, number)| {
                self.ranges.iter().any(|r| r.prefix == prefix && (r.first..=r.last).contains(&number))
            })
    }
}

const MEND: &str = "write both ends with one prefix and ascending numbers, such as `disk0 .. disk3`";

fn range(first: &Scalar, last: &str) -> Result<Range, Fault> {
    match (numbered(&first.text), numbered(last)) {
        (Some((prefix, from)), Some((same, to))) if prefix == same && from <= to => {
            Ok(Range { prefix: prefix.into(), first: from, last: to })
        }
        _ => {
            let problem = format!("`{} .. {}` is no range", printable(&first.text), printable(last));
            Err(refuse(first.at, problem, MEND))
        }
    }
}

/// Returns a name's prefix, and the number at its end.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(prefix.len()..)?.parse().ok()?;
    Some((prefix, number))
}
