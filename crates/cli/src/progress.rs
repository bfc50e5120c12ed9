//! A bar for those who wait.

use crate::output::Console;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Shorter waits need no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A progress bar on a terminal's standard error, shown once a wait is longer than a second; elsewhere nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    terminal: bool,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar that goes from 0 to `whole` of what `label` says.
    pub(crate) fn new(console: &Console, label: &str, whole: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(whole), ProgressDrawTarget::hidden());
        let template = "{msg} {bar:40} {percent:>3}%  {elapsed_precise} gone, {eta_precise} to go";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        Self { bar, terminal: console.is_terminal(), started: Instant::now(), shown: false }
    }

    /// How far it has come.
    pub(crate) fn at(&mut self, done: u64) {
        if self.terminal && !self.shown && self.started.elapsed() > PATIENCE {
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
