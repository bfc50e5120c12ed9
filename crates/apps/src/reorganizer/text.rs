//! The text form of a plan, for people and programs to write.

use super::plan::{Move, RelocationPlan, RelocationPlanError};
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// The first line of a plan.
const FIRST: &str = "freeblock plan 1";

/// The words in the longest line: `move FROM TO SECTORS`.
const LINE_WORDS_MAX: usize = 4;

/// The reason for which a plan's text was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// The first line is not that of a plan.
    #[error("line 1: a plan begins with `{FIRST}`")]
    Foreign,
    /// A line is no statement.
    #[error(
        "line {line}: {found}; give `block SECTORS`, `free FIRST SECTORS`, `move FROM TO SECTORS` or a # and a remark"
    )]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The text of the line.
        found: String,
    },
    /// The plan has more blocks than the limit.
    #[error("the plan has more than {most} blocks; give larger blocks, or move less at a time")]
    TooMany {
        /// The limit.
        most: u64,
    },
    /// The plan has more lines than the limit of blocks allows.
    #[error("the plan has more than {most} lines of `move` and `free`; join those that follow each other")]
    TooLong {
        /// The most lines.
        most: u64,
    },
    /// The lines are valid, but the plan is not.
    #[error(transparent)]
    Plan(#[from] RelocationPlanError),
}

impl RelocationPlan {
    /// Reads a plan, on a drive of `capacity` sectors, of at most `most` blocks. Blocks have `block` sectors unless
    /// the text sets their size.
    ///
    /// ```
    /// use freeblock_apps::reorganizer::RelocationPlan;
    /// use units::Sectors;
    /// let text = "freeblock plan 1\nblock 8\nmove 0 64 16   # swaps\nmove 64 0 16\n";
    /// let plan = RelocationPlan::from_text(text, Sectors::new(8), Sectors::new(100), 1_000)?;
    /// assert_eq!(plan.len(), 4);
    /// # Ok::<(), freeblock_apps::reorganizer::TextError>(())
    /// ```
    ///
    /// # Errors
    /// An invalid line, or an error of [`RelocationPlan::new`].
    pub fn from_text(text: &str, block: Sectors, capacity: Sectors, most: u64) -> Result<Self, TextError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first.trim_end() != FIRST) {
            return Err(TextError::Foreign);
        }
        let (mut block, mut moves, mut free, mut blocks) = (block, Vec::new(), Vec::new(), 0u64);
        // Every move and every free place may have a line of its own.
        let lines_max = most.saturating_mul(2);
        for (at, line) in lines {
            let said = line.split('#').next().unwrap_or_default();
            // One word more than the longest line has, so that a line of many words takes no more memory.
            let words: Vec<&str> = said.split_whitespace().take(LINE_WORDS_MAX + 1).collect();
            let found = || {
                let cut: String = line.chars().take(80).collect();
                TextError::Line { line: at + 1, found: format!("{:?}", cut.trim()) }
            };
            let number = |word: &str| word.parse::<u64>().map_err(|_| found());
            match words.as_slice() {
                [] => {}
                // The block size cannot change after the first move, which was cut into blocks of that size.
                ["block", sectors] if moves.is_empty() => block = Sectors::new(number(sectors)?),
                ["free", first, sectors] => {
                    free.push(LbnRange::new(Lbn::new(number(first)?), Sectors::new(number(sectors)?)));
                }
                ["move", from, to, sectors] => {
                    let sectors = number(sectors)?;
                    blocks = blocks.saturating_add(sectors.div_ceil(block.get().max(1)));
                    if blocks > most {
                        return Err(TextError::TooMany { most });
                    }
                    let from = LbnRange::new(Lbn::new(number(from)?), Sectors::new(sectors));
                    moves.push(Move { from, to: Lbn::new(number(to)?) });
                }
                _ => return Err(found()),
            }
            if (moves.len() + free.len()) as u64 > lines_max {
                return Err(TextError::TooLong { most: lines_max });
            }
        }
        if let Some(range) =
            free.iter().find(|f| f.checked_end().is_none_or(|end| end.get() > capacity.get()))
        {
            return Err(RelocationPlanError::PastEnd { range: *range, capacity }.into());
        }
        Ok(Self::new(block, capacity, &moves, &free)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<RelocationPlan, TextError> {
        RelocationPlan::from_text(text, Sectors::new(8), Sectors::new(1_000), 100)
    }

    #[test]
    fn mistakes_name_their_line_and_the_mend() {
        for (text, said) in [
            ("", "line 1: a plan begins with `freeblock plan 1`"),
            ("freeblock plan 2\n", "line 1: a plan begins with"),
            ("freeblock plan 1\n\nmvoe 1 2 3\n", "line 3: \"mvoe 1 2 3\"; give `block SECTORS`"),
            ("freeblock plan 1\nmove 1 2\n", "line 2: \"move 1 2\""),
            ("freeblock plan 1\nmove 1 2 -3\n", "line 2: \"move 1 2 -3\""),
            ("freeblock plan 1\nmove 0 8 8\nblock 4\n", "line 3: \"block 4\""),
            ("freeblock plan 1\nblock 0\n", "a block size of 0"),
            ("freeblock plan 1\nmove 0 8 801\n", "the plan has more than 100 blocks"),
            (
                &format!("freeblock plan 1\n{}", "free 0 1\n".repeat(201)),
                "more than 200 lines of `move` and `free`",
            ),
            (
                &format!("freeblock plan 1\n{}", "move 0 8 0\n".repeat(201)),
                "more than 200 lines of `move` and `free`",
            ),
            (&format!("freeblock plan 1\nmove 0 8 8{}\n", " 8".repeat(1_000)), "line 2: \"move 0 8 8 8 8"),
            ("freeblock plan 1\nmove 0 996 8\nfree 996 4\n", "end past the drive"),
            ("freeblock plan 1\nmove 0 16 8\n", "LBN 16 is a destination, holds live data"),
            ("freeblock plan 1\nfree 990 20\n", "end past the drive"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }

    #[test]
    fn free_places_are_named_and_remarks_are_passed_over() {
        let plan = read("freeblock plan 1\n# to the end\nfree 16 8 # a remark\nmove 0 16 8\n").unwrap();
        assert_eq!(plan.moves().map(|m| (m.from.start().get(), m.to.get())).collect::<Vec<_>>(), [(0, 16)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(freeblock plan 1\n)?([a-z0-9 #\n]|move |free |block ){0,60}") {
            let _ = read(&text);
        }
    }
}
