//! Progress bars.

use crate::output::Console;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// The time before a bar appears.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// The interval between redraws.
#[cfg(feature = "lab")]
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// A progress bar on a terminal's standard error, shown after a second; elsewhere nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    terminal: bool,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// Makes a bar from 0 to `whole`, with this label.
    pub(crate) fn new(console: &Console, label: &str, whole: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(whole), ProgressDrawTarget::hidden());
        let template = "{msg} {bar:40} {percent:>3}%  {elapsed_precise} gone, {eta_precise} to go";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        Self { bar, terminal: console.is_terminal(), started: Instant::now(), shown: false }
    }

    /// Makes a bar for a wait of minutes in several steps, each with its own number of parts. The bar is shown from the start,
    /// and redrawn while a part takes long.
    #[cfg(feature = "lab")]
    pub(crate) fn of_steps(console: &Console) -> Self {
        let mut progress = Self::new(console, "", 0);
        if progress.terminal {
            let template = "{msg} {bar:30} {pos} of {len}  {elapsed_precise} gone";
            if let Ok(style) = ProgressStyle::with_template(template) {
                progress.bar.set_style(style);
            }
            progress.bar.set_draw_target(ProgressDrawTarget::stderr());
            progress.bar.enable_steady_tick(REDRAW_INTERVAL);
            progress.shown = true;
        }
        progress
    }

    /// Begins a step whose number of parts is not known yet.
    #[cfg(feature = "lab")]
    pub(crate) fn step(&mut self, label: &str) {
        self.parts(0, 1);
        self.bar.set_message(label.to_owned());
    }

    /// Sets how many of the step's parts are done.
    pub(crate) fn parts(&mut self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    /// Sets the progress of the bar.
    pub(crate) fn at(&mut self, done: u64) {
        if self.terminal && !self.shown && self.started.elapsed() > BAR_DELAY {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
