//! Errors for users: what happened, where, and what to do about it.

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// An error of a command.
#[derive(Debug)]
pub(crate) struct Problem {
    code: u8,
    message: String,
    help: Option<String>,
    source: Option<Box<Excerpt>>,
}

/// The place of the mistake in a file.
#[derive(Debug)]
struct Excerpt {
    text: NamedSource<String>,
    label: LabeledSpan,
}

impl Problem {
    /// Makes an error of wrong usage: exit code 2.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { code: 2, message: plain(&message.to_string()).into_owned(), help: None, source: None }
    }

    /// Makes an error of a correct command that has failed: exit code 1.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { code: 1, ..Self::usage(message) }
    }

    /// Adds advice.
    pub(crate) fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(plain(&help.to_string()).into_owned());
        self
    }

    /// Adds the flag that the error is about, at the beginning.
    pub(crate) fn of(mut self, flag: &str) -> Self {
        self.message = format!("{flag}: {}", self.message);
        self
    }

    /// Underlines the bytes `span` of the file `name`, with this label.
    pub(crate) fn at(mut self, name: &str, text: &str, span: Range<usize>, label: &str) -> Self {
        if text.trim().is_empty() {
            return self;
        }
        // Control characters become spaces of the same length, so that every position stays.
        let blank = |c: char| {
            if c.is_control() && !matches!(c, '\n' | '\t') { " ".repeat(c.len_utf8()) } else { c.into() }
        };
        let text: String = text.chars().map(blank).collect();
        // An empty span, or one at the end of the file, is moved to a character that can be underlined.
        let end = span.end.min(text.len());
        let mut start = span.start.min(end.saturating_sub(1));
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let label = LabeledSpan::new(Some(plain(label).into_owned()), start, end.saturating_sub(start));
        self.source = Some(Box::new(Excerpt { text: NamedSource::new(name, text), label }));
        self
    }

    /// Moves the error of a value to its place in the file `name`, and underlines it there, unless a place is underlined
    /// already.
    pub(crate) fn within(mut self, name: &str, text: &str, span: Range<usize>) -> Self {
        // The mistake is in a file, so the usage of the command was right.
        self.code = 1;
        if self.source.is_some() {
            return self;
        }
        self.message = format!("{}: {}", plain(name), self.message);
        self.at(name, text, span, "here")
    }

    /// Returns the exit code: 1 or 2.
    pub(crate) fn exit_code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|excerpt| &excerpt.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.source.as_ref()?;
        Some(Box::new(std::iter::once(excerpt.label.clone())))
    }
}

/// Returns the text without control characters: names and titles come from files, and must not control the terminal.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if commands(c) { '\u{fffd}' } else { c }).collect())
}
