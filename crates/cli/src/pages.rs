//! Completions for shells and man pages, made from the command line's own definition.

use crate::args::{Cli, CompletionsArgs, ManArgs, Shell};
use crate::files;
use crate::problem::Problem;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// Returns the completion script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> String {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "freeblock", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a man page for the command and for each of its subcommands to a directory, which must exist.
///
/// # Errors
/// A page cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<String, Problem> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // This call gives each subcommand a name that includes those of its parents.
    command.build();
    let mut pages = 0_usize;
    each(&command, &mut |command| {
        let page = page(command)
            .map_err(|error| Problem::failed(format!("the page of {} fails: {error}", name(command))))?;
        pages += 1;
        files::replace(&args.directory.join(format!("{}.1", name(command))), &page)
    })?;
    Ok(format!("{pages} pages in {}\n", args.directory.display()))
}

/// Visits a command and all its subcommands that are shown.
fn each(command: &Command, visit: &mut impl FnMut(&Command) -> Result<(), Problem>) -> Result<(), Problem> {
    visit(command)?;
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| each(sub, visit))
}

/// Returns a command's name with those of its parents: `freeblock-drive-show`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let man = Man::new(command.clone())
        .source(concat!("freeblock ", env!("CARGO_PKG_VERSION")))
        .manual("freeblock manual");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    if let Some(help) = command.get_after_help() {
        examples(&help.to_string()).to_writer(&mut out)?;
    }
    see_also(command).to_writer(&mut out)?;
    Ok(out)
}

/// Lays out the text behind a command's options: it begins with a line `Example:` and indented commands, and paragraphs follow.
fn examples(help: &str) -> Roff {
    let mut roff = Roff::default();
    let paragraphs = help.split("\n\n").map(|paragraph| {
        match paragraph.strip_prefix("Examples:\n").or_else(|| paragraph.strip_prefix("Example:\n")) {
            Some(commands) => (true, commands),
            None => (false, paragraph),
        }
    });
    for (commands, text) in paragraphs {
        if commands {
            roff.control("SH", ["EXAMPLES"]).control("nf", []);
            for line in text.lines() {
                roff.text([roman(line)]);
            }
            roff.control("fi", []);
        } else {
            // The help has line breaks for a terminal; a man page has its own width.
            roff.control("PP", []).text([roman(text.replace('\n', " "))]);
        }
    }
    roff
}

/// Names the page of the parent command, and the directory of the documents.
fn see_also(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SEE ALSO"]);
    if let Some((parent, _)) = name(command).rsplit_once('-') {
        roff.text([bold(parent), roman("(1), /usr/share/doc/freeblock")]);
    } else {
        roff.text([roman("/usr/share/doc/freeblock")]);
    }
    roff
}
