//! The only place that prints.

use crate::problem::Problem;
use miette::{GraphicalReportHandler, GraphicalTheme};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// The terminal, pipe or file that the command talks to.
#[derive(Debug)]
pub(crate) struct Console {
    /// Whether standard error is a terminal.
    terminal: bool,
    /// Whether that terminal may be sent colours.
    colour: bool,
}

impl Console {
    /// Looks at what standard error is, and at NO_COLOR.
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { terminal, colour: terminal && !unwanted }
    }

    /// Whether somebody watches.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes to standard output. A reader that has seen enough and gone (`| head`) is no error.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// Says something beside the output, on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.complain(&plain(text));
    }

    fn complain(&self, text: &str) {
        // Nobody is left to tell when standard error is gone.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Shows an error.
    pub(crate) fn report(&self, problem: &Problem) {
        let theme = if self.colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let mut text = String::new();
        let shown = GraphicalReportHandler::new_themed(theme)
            // A message stays in one piece for those who search or copy it; a terminal wraps by itself.
            .with_wrap_lines(false)
            .with_links(false)
            .render_report(&mut text, problem);
        match shown {
            Ok(()) => self.complain(text.trim_matches('\n')),
            Err(_) => self.complain(&format!("error: {problem}")),
        }
    }
}

/// The text without what would command a terminal: names and titles come from files.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if commands(c) { '\u{fffd}' } else { c }).collect())
}
