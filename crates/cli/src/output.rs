//! The only module that prints.

use crate::problem::Problem;
use miette::{GraphicalReportHandler, GraphicalTheme};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// The terminal, pipe or file for the command's output.
#[derive(Debug)]
pub(crate) struct Console {
    /// Whether standard error is a terminal.
    terminal: bool,
    /// Whether that terminal may be sent colours.
    colour: bool,
}

impl Console {
    /// Determines the kind of standard error, and reads NO_COLOR.
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { terminal, colour: terminal && !unwanted }
    }

    /// Returns whether standard error is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes to standard output. A closed pipe (`| head`) is no error.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// Writes a note to standard error.
    pub(crate) fn note(&self, text: &str) {
        self.complain(&plain(text));
    }

    fn complain(&self, text: &str) {
        // Without standard error there is nowhere to report the failure.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints an error.
    pub(crate) fn report(&self, problem: &Problem) {
        let theme = if self.colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let mut text = String::new();
        let shown = GraphicalReportHandler::new_themed(theme)
            // A message is not wrapped, so that it can be searched and copied; a terminal wraps by itself.
            .with_wrap_lines(false)
            .with_links(false)
            .render_report(&mut text, problem);
        match shown {
            Ok(()) => self.complain(text.trim_matches('\n')),
            Err(_) => self.complain(&format!("error: {problem}")),
        }
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
