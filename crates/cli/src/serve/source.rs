//! The text of the configuration file, in which mistakes are underlined.

use crate::problem::Problem;
use toml::Spanned;

/// The text in which mistakes are underlined.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn problem(&self, span: std::ops::Range<usize>, message: impl std::fmt::Display) -> Problem {
        Problem::failed(format!("{}: {message}", self.name)).at(self.name, self.text, span, "here")
    }

    /// Returns an option's value, or its default. Fails if the value is out of range.
    pub(super) fn within<T: Copy + PartialOrd + std::fmt::Display>(
        &self,
        value: Option<&Spanned<T>>,
        (least, most): (T, T),
        default: T,
    ) -> Result<T, Problem> {
        match value {
            None => Ok(default),
            Some(found) if (least..=most).contains(found.get_ref()) => Ok(*found.get_ref()),
            Some(found) => {
                let message = format!("{} is out of range; give {least} to {most}", found.get_ref());
                Err(self.problem(found.span(), message))
            }
        }
    }

    pub(super) fn parsed<T>(
        &self,
        value: &Spanned<String>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Problem> {
        parse(value.get_ref()).map_err(|message| self.problem(value.span(), message))
    }
}
