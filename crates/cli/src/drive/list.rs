//! `freeblock drive list`.

use super::resolve::resolve;
use super::show::Span;
use crate::problem::Problem;
use crate::tables::{capacity, grouped, table};
use model::builtin;
use serde::Serialize;

#[derive(Serialize)]
struct Entry {
    name: String,
    title: String,
    synthetic: bool,
    capacity_bytes: u64,
    rpm: u32,
    cylinders: u32,
    heads: u16,
    sectors_per_track: Span,
}

pub(crate) fn execute(json: bool) -> Result<String, Problem> {
    let entries = builtin::names().iter().map(|name| entry(name)).collect::<Result<Vec<_>, _>>()?;
    if json {
        return super::json(&entries);
    }
    let header = ["name", "", "capacity", "rpm", "cylinders", "heads", "sectors/track", "title"];
    let rows = entries.iter().map(|e| {
        vec![
            e.name.clone(),
            if e.synthetic { "*".to_owned() } else { String::new() },
            capacity(e.capacity_bytes),
            e.rpm.to_string(),
            grouped(e.cylinders.into()),
            e.heads.to_string(),
            e.sectors_per_track.to_string(),
            e.title.clone(),
        ]
    });
    let mut text = table(&header, &[0, 1, 7], rows);
    text.push_str(
        "
* made up at least in part; `freeblock drive show NAME` says what is published and what is assumed
",
    );
    Ok(text)
}

fn entry(name: &str) -> Result<Entry, Problem> {
    let drive = resolve(name)?;
    let layout = drive.model.layout();
    Ok(Entry {
        name: name.to_owned(),
        title: drive.profile.title.clone(),
        synthetic: drive.profile.synthetic,
        capacity_bytes: layout.capacity().bytes(drive.model.sector_bytes()).get(),
        rpm: drive.profile.rpm,
        cylinders: layout.cylinders(),
        heads: layout.heads(),
        sectors_per_track: Span::of_tracks(&drive.model, 0, u32::MAX).unwrap_or_default(),
    })
}
