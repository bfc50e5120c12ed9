//! `freeblock lab list`.

use crate::problem::Problem;
use crate::tables::table;
use serde::Serialize;

#[derive(Serialize)]
struct ExperimentEntry {
    id: &'static str,
    paper: String,
    reproduces: &'static str,
    title: &'static str,
    set_up: &'static str,
    claims: &'static [&'static str],
    timed: bool,
}

pub(crate) fn execute(json: bool) -> Result<String, Problem> {
    let entries: Vec<ExperimentEntry> = lab::experiments()
        .iter()
        .map(|e| ExperimentEntry {
            id: e.id,
            paper: e.paper.to_string(),
            reproduces: e.reproduces,
            title: e.title,
            set_up: e.set_up,
            claims: e.claims,
            timed: e.timed,
        })
        .collect();
    if json {
        return crate::drive::json(&entries);
    }
    let rows = entries.iter().map(|e| {
        let star = if e.timed { "*" } else { "" };
        vec![e.id.into(), star.into(), e.reproduces.into(), e.title.into(), e.claims.join(", ")]
    });
    let mut text = table(&["id", "", "shows", "title", "claims"], &[0, 1, 2, 3, 4], rows);
    if entries.iter().any(|e| e.timed) {
        text.push_str("\n* measured on this machine's clock; all others give the same numbers everywhere\n");
    }
    Ok(text)
}
