//! The only module that prints.

use crate::problem::{Problem, plain};
use miette::{GraphicalReportHandler, GraphicalTheme};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// The terminal, pipe or file for the command's output, or a program that calls the command as a library.
pub(crate) struct Console {
    /// Whether standard error is a terminal.
    terminal: bool,
    /// Whether that terminal may be sent colours.
    colour: bool,
    /// The program that calls the command as a library; `None` for a command line.
    caller: Option<LibraryCaller>,
}

/// A program that calls the command as a library: it gets notes in place of standard error, and may end a run.
struct LibraryCaller {
    notes: Mutex<Vec<String>>,
    stop: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Console {
    /// Finds out whether standard error is a terminal, and reads NO_COLOR.
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { terminal, colour: terminal && !unwanted, caller: None }
    }

    /// Returns a console that keeps its notes and prints nothing. A run ends early once `stop` returns true.
    pub(crate) fn of_caller(stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let caller = LibraryCaller { notes: Mutex::default(), stop: Box::new(stop) };
        Self { terminal: false, colour: false, caller: Some(caller) }
    }

    /// Returns the notes that were kept.
    pub(crate) fn into_notes(self) -> Vec<String> {
        self.caller
            .map_or_else(Vec::new, |caller| caller.notes.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the calling program wants the run to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| (caller.stop)())
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

    /// Writes a note to standard error, or keeps it for the calling program.
    pub(crate) fn note(&self, text: &str) {
        match &self.caller {
            None => self.complain(&plain(text)),
            Some(caller) => {
                let mut notes = caller.notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.push(plain(text).into_owned());
            }
        }
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
            // The message is not wrapped, so that it can be searched and copied; a terminal wraps lines by itself.
            .with_wrap_lines(false)
            .with_links(false)
            .render_report(&mut text, problem);
        match shown {
            Ok(()) => self.complain(text.trim_matches('\n')),
            Err(_) => self.complain(&format!("error: {problem}")),
        }
    }
}
