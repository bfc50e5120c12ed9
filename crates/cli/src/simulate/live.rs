//! `freeblock simulate --replay-live`: replays the inputs of a daemon's core on a fresh one, and compares their
//! decisions.

use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::recipe::Recipe;
use crate::tables::{grouped, span};
use crate::{Outcome, drive};
use serde::Serialize;
use server::{CoreReplay, CoreReplayError, Replayed};
use std::cell::OnceCell;
use std::fmt::Write;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The number of inputs between two updates of the progress.
const STRIDE_INPUTS: u64 = 4_096;

#[derive(Debug, Serialize)]
struct ReplayJson<'a> {
    disk: &'a str,
    version: &'a str,
    inputs: u64,
    commands: u64,
    requests: u64,
    blocks: u64,
    recorded_s: f64,
    cut_off: bool,
    difference: Option<Difference>,
}

#[derive(Debug, Serialize)]
struct Difference {
    line: u64,
    at_s: f64,
    live: String,
    replayed: String,
}

/// Returns exit code 1 if a decision differs; refuses a file that is no recording or a damaged one.
pub(crate) fn execute(path: &Path, json: bool, console: &Console) -> Result<Outcome, Problem> {
    let name = path.display().to_string();
    let failed = |error: &dyn std::fmt::Display| Problem::failed(format!("{name}: {error}"));
    let file = File::open(path).map_err(|error| failed(&error))?;
    let whole = file.metadata().map_err(|error| failed(&error))?.len();
    let kept = OnceCell::new();
    let make = |setup: &serde_json::Value| {
        let recipe = Recipe::from_setup(setup)?;
        let core = recipe.core()?;
        // The recipe is set only once.
        let _ = kept.set(recipe);
        Ok(core)
    };
    let mut replay = CoreReplay::new(BufReader::new(file), make).map_err(|error| failed(&error))?;
    let Some(recipe) = kept.get() else { return Err(failed(&"no setup")) };
    let mut progress = Progress::new(console, "replaying", whole);
    let difference = loop {
        match replay.step() {
            Ok(true) if replay.extent().inputs % STRIDE_INPUTS != 0 => {}
            Ok(true) => progress.at(replay.position()),
            Ok(false) => break None,
            Err(CoreReplayError::Diverged { line, at, live, replayed }) => {
                break Some(Difference { line, at_s: at.as_nanos() as f64 / 1e9, live, replayed });
            }
            Err(error) => return Err(failed(&error)),
        }
    };
    drop(progress);
    let extent = replay.extent();
    let code = u8::from(difference.is_some());
    let text = if json {
        drive::json(&as_json(recipe, extent, difference))?
    } else {
        page(recipe, extent, difference)
    };
    Ok(Outcome { text, code })
}

fn as_json(recipe: &Recipe, extent: Replayed, difference: Option<Difference>) -> ReplayJson<'_> {
    let Replayed { inputs, commands, requests, blocks, at, cut_off } = extent;
    let recorded_s = at.as_nanos() as f64 / 1e9;
    let (disk, version) = (recipe.disk.as_str(), recipe.version.as_str());
    ReplayJson { disk, version, inputs, commands, requests, blocks, recorded_s, cut_off, difference }
}

fn page(recipe: &Recipe, extent: Replayed, difference: Option<Difference>) -> String {
    let mut text = String::new();
    let time = span(extent.at.as_nanos() as f64 / 1e9);
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}, {}, recorded by freeblock {}", recipe.disk, recipe.policy, recipe.version);
    let _ = writeln!(text, "  inputs     {}, in {time} of the live run", grouped(extent.inputs));
    let _ = writeln!(text, "  commands   {}", grouped(extent.commands));
    let _ = writeln!(text, "  requests   {}", grouped(extent.requests));
    let _ = writeln!(text, "  blocks     {}", grouped(extent.blocks));
    if extent.cut_off && difference.is_none() {
        let _ = writeln!(text, "  the end    is missing: the daemon was killed, or could not write it");
    }
    let _ = match difference {
        None => writeln!(text, "every decision was the same"),
        Some(Difference { line, at_s, live, replayed }) => writeln!(
            text,
            "the first decision that differs: line {line}, {at_s:.6} s\n  live      {live}\n  replayed  {replayed}"
        ),
    };
    text
}
