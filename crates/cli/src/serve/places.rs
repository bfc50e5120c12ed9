//! The places of options in the configuration file, for mistakes that show only when a disk is opened.

use crate::problem::Problem;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of the file that hold each option's value, by the option's name and its index in a list. Options from the command
/// line have no place.
#[derive(Clone, Default)]
pub(crate) struct Places {
    file: Option<Arc<File>>,
    spans: BTreeMap<(&'static str, usize), Range<usize>>,
}

struct File {
    name: String,
    text: String,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Places")
    }
}

impl Places {
    /// Makes an empty set of places in this file.
    pub(super) fn of(name: &str, text: &str) -> Self {
        let file = File { name: name.to_owned(), text: text.to_owned() };
        Self { file: Some(Arc::new(file)), spans: BTreeMap::new() }
    }

    /// Records the place of an option's value.
    pub(super) fn note(&mut self, option: &'static str, span: Option<Range<usize>>) {
        self.note_one(option, 0, span);
    }

    /// Records the place of a value in an option that is a list.
    pub(super) fn note_one(&mut self, option: &'static str, index: usize, span: Option<Range<usize>>) {
        if let Some(span) = span {
            self.spans.insert((option, index), span);
        }
    }

    /// Underlines the value of the option that caused a problem, if the option is in a file. A problem that has a place already
    /// keeps it.
    pub(super) fn underline(&self, option: &'static str, problem: Problem) -> Problem {
        self.underline_one(option, 0, problem)
    }

    /// Underlines one value of an option that is a list, as [`underline`](Self::underline) does.
    pub(super) fn underline_one(&self, option: &'static str, index: usize, problem: Problem) -> Problem {
        match (&self.file, self.spans.get(&(option, index))) {
            (Some(file), Some(span)) => problem.within(&file.name, &file.text, span.clone()),
            _ => problem,
        }
    }
}
