//! All outcomes on one page: HTML without scripts that refers to nothing outside itself.

use crate::escape::escape;
use crate::numbers::{Numbers, numbers};
use crate::plot::{self, PlotError};
use crate::{Claim, Experiment, Figure, Kind, Outcome};
use std::fmt::Write;

/// The parts of a page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// The release of the program that made the page.
    pub version: &'a str,
    /// The command that made the page.
    pub command: &'a str,
    /// The experiments, in the order of the page.
    pub entries: Vec<Entry<'a>>,
    /// Tables that belong to no experiment, placed after the claims.
    pub tables: Vec<Figure>,
}

/// An experiment on the page.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The command that runs the experiment.
    pub command: &'a str,
    /// The outcome of the experiment.
    pub outcome: &'a Outcome,
}

const STYLE: &str = include_str!("report.css");

/// Returns the page as a document.
///
/// # Errors
/// A figure cannot be drawn.
pub fn html(page: &Page) -> Result<String, PlotError> {
    let mut text = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    text.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    let _ = write!(
        text,
        "<title>freeblock: the papers' figures</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    let _ = write!(
        text,
        "<h1>The papers' figures</h1>\n<p>Simulated by freeblock {} from its scheduler core and drive models. \
         The same command gives the same page on every machine, except the numbers marked as timed.</p>\n<pre>{}</pre>\n",
        escape(page.version),
        escape(page.command)
    );
    claims(&mut text, page);
    for table in &page.tables {
        let _ = writeln!(text, "<h2>{}</h2>", escape(&table.title));
        text.push_str("<figure>\n");
        columns(&mut text, &numbers(table));
        text.push_str("</figure>\n");
    }
    let mut paper = None;
    for entry in &page.entries {
        if paper != Some(entry.experiment.paper) {
            paper = Some(entry.experiment.paper);
            let _ = writeln!(text, "<h2>{}</h2>", escape(&entry.experiment.paper.to_string()));
        }
        section(&mut text, entry)?;
    }
    text.push_str("</main>\n</body>\n</html>\n");
    Ok(text)
}

/// Writes the claims as a table, each with a link to its experiment, those that do not hold with their reason.
fn claims(text: &mut String, page: &Page) {
    let all = || {
        page.entries.iter().flat_map(|e| e.outcome.claims.iter().map(move |claim| (e.experiment.id, claim)))
    };
    let holding = all().filter(|(_, claim)| claim.holds()).count();
    let _ = write!(
        text,
        "<h2>Claims</h2>\n<p>{holding} of {} hold: our value lies in the band that was fixed beforehand. A value over several \
         runs (seeds, or scans after each other) is given with the least and the most.</p>\n<table class=\"claims\">\n<thead><tr><th>claim</th><th>paper</th>\
         <th>ours</th><th>band</th><th>holds</th></tr></thead>\n<tbody>\n",
        all().count()
    );
    for (experiment, claim) in all() {
        let link = format!("<a href=\"#{}\">{}</a>", escape(experiment), escape(&claim.id));
        let rows = claim.measures.len().max(1);
        let span = if rows > 1 { format!(" rowspan=\"{rows}\"") } else { String::new() };
        let word = if claim.holds() { "yes" } else { "no" };
        let _ = write!(text, "<tr><td{span}>{link}</td><td{span}>{}</td>", prose(&claim.paper));
        let end = format!("<td{span} class=\"{word}\">{word}</td></tr>\n");
        if claim.measures.is_empty() {
            let _ = write!(text, "<td>not measured</td><td></td>{end}");
        }
        for (row, measure) in claim.measures.iter().enumerate() {
            let class = if measure.holds() { "" } else { " class=\"no\"" };
            let _ = write!(
                text,
                "{}<td{class}>{}</td><td>{}{}</td>{}",
                if row == 0 { "" } else { "<tr>" },
                escape(&measure.sentence()),
                escape(&measure.band.to_string()),
                escape(&measure.unit),
                if row == 0 { end.as_str() } else { "</tr>\n" }
            );
        }
        if !claim.holds() {
            let why = if claim.note.is_empty() { "no reason is known yet" } else { &claim.note };
            let _ = writeln!(text, "<tr><td></td><td colspan=\"4\">Does not hold: {}</td></tr>", prose(why));
        }
    }
    text.push_str("</tbody>\n</table>\n");
}

fn section(text: &mut String, entry: &Entry) -> Result<(), PlotError> {
    let Entry { experiment, command, outcome } = entry;
    let _ = write!(
        text,
        "<section id=\"{id}\">\n<h3>{title}</h3>\n<p class=\"of\">{id}, {reproduces}{timed}</p>\n<p>{set_up}</p>\n",
        id = escape(experiment.id),
        title = escape(experiment.title),
        reproduces = escape(experiment.reproduces),
        timed = if experiment.timed { "; timed: its numbers are of the machine that ran it" } else { "" },
        set_up = prose(experiment.set_up),
    );
    for figure in &outcome.figures {
        drawn(text, figure)?;
    }
    for claim in &outcome.claims {
        sentence(text, claim);
    }
    if !outcome.notes.is_empty() {
        text.push_str("<ul>\n");
        for note in &outcome.notes {
            let _ = writeln!(text, "<li>{}</li>", prose(note));
        }
        text.push_str("</ul>\n");
    }
    let _ = write!(text, "<pre>{}</pre>\n</section>\n", escape(command));
    Ok(())
}

/// Writes a claim beside its figure.
fn sentence(text: &mut String, claim: &Claim) {
    let (class, word) = if claim.holds() { ("yes", "holds") } else { ("no", "does not hold") };
    let _ = writeln!(
        text,
        "<p><b>{}</b> <span class=\"{class}\">{word}</span>. The paper: {}. Ours: {}.{}</p>",
        escape(&claim.id),
        prose(&claim.paper),
        escape(&claim.ours()),
        if claim.note.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"note\">{}</span>", prose(&claim.note))
        }
    );
}

fn drawn(text: &mut String, figure: &Figure) -> Result<(), PlotError> {
    let table = numbers(figure);
    if let Kind::Table { .. } = figure.kind {
        let _ = writeln!(text, "<figure>\n<figcaption>{}</figcaption>", escape(&figure.title));
        columns(text, &table);
        text.push_str("</figure>\n");
        return Ok(());
    }
    let svg = plot::inline(figure)?.unwrap_or_default();
    let _ =
        writeln!(text, "<figure>\n{svg}<details>\n<summary>{}: the numbers</summary>", escape(&figure.id));
    columns(text, &table);
    text.push_str("</details>\n</figure>\n");
    Ok(())
}

fn columns(text: &mut String, table: &Numbers) {
    text.push_str("<div class=\"wide\"><table class=\"numbers\">\n<thead><tr>");
    for column in &table.columns {
        let _ = write!(text, "<th>{}</th>", escape(column));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}</td>", escape(cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
}

/// Escapes a sentence for use between tags. Text between two backticks becomes code.
fn prose(text: &str) -> String {
    let mut parts = text.split('`').map(escape);
    let mut prose = parts.next().unwrap_or_default();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => prose.extend(["<code>", &code, "</code>", &after]),
            // A backtick without a partner is kept as a plain character.
            None => prose.extend(["`", &code]),
        }
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Band, Bar, Line, Paper};

    const EXPERIMENT: Experiment = Experiment {
        id: "x-fig1",
        paper: Paper::Osdi00,
        reproduces: "figure 1",
        title: "A <title> & more",
        set_up: "Set up.",
        claims: &["x-fig1a", "x-fig1b"],
        timed: true,
        run: |_| Ok(Outcome::default()),
    };

    fn outcome() -> Outcome {
        let figure = |id: &str, kind| Figure {
            id: id.into(),
            title: "<script>alert(1)</script>".into(),
            x: Axis::new("x & y"),
            y: Axis::new("%"),
            kind,
        };
        let bars = vec![Bar { label: "a<b".into(), values: vec![1.0] }];
        Outcome {
            figures: vec![
                figure("bars", Kind::Stacked { parts: vec!["seek".into()], bars }),
                figure("curves", Kind::Lines(vec![Line::new("l", [(1.0, 2.0), (2.0, 3.0)])])),
                figure(
                    "table",
                    Kind::Table { columns: vec!["c".into()], rows: vec![vec!["\u{1b}[31m".into()]] },
                ),
            ],
            claims: vec![
                Claim::new("x-fig1a", "half").measure("a", 0.5, "%", Band::AtLeast(0.4)).measure(
                    "b",
                    0.5,
                    "%",
                    Band::AtLeast(0.4),
                ),
                Claim::new("x-fig1b", "all")
                    .measure("", 0.5, "%", Band::AtLeast(0.9))
                    .note("because <of> it"),
            ],
            notes: vec!["note & more".into()],
        }
    }

    fn page() -> String {
        let outcome = outcome();
        let entry = Entry { experiment: &EXPERIMENT, command: "freeblock lab run x-fig1", outcome: &outcome };
        let columns = vec!["drive".into(), "demerit, ms".into()];
        let table = Figure {
            id: "drives".into(),
            title: "Drives & traces".into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns, rows: vec![vec!["HP C2247A".into(), "0.076".into()]] },
        };
        let tables = vec![table];
        html(&Page { version: "1", command: "freeblock lab report", entries: vec![entry], tables }).unwrap()
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let page = page();
        for outside in ["http", "src=", "url(", "@import", "<script", "<link", "javascript"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn every_tag_is_closed() {
        let page = page();
        let mut open: Vec<&str> = Vec::new();
        for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.split([' ', '\n', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), tag.strip_prefix('/'), "{tag}");
            } else if !tag.ends_with('/') && !["!DOCTYPE", "meta"].contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_table_of_no_experiment_stands_behind_the_claims() {
        let page = page();
        let (before, rest) = page.split_once("Drives &amp; traces").unwrap();
        assert!(before.contains("Does not hold:") && !before.contains("<section"));
        assert!(rest.contains("<td>HP C2247A</td><td>0.076</td>"));
    }

    #[test]
    fn code_in_a_sentence_is_marked_and_escaped() {
        let said = "run `lab <run>`, then `x`";
        assert_eq!(prose(said), "run <code>lab &lt;run&gt;</code>, then <code>x</code>");
        assert_eq!(prose("a ` alone"), "a ` alone");
        assert_eq!(prose(""), "");
        let experiment = Experiment { set_up: "As `duel` says.", ..EXPERIMENT };
        let mut outcome = outcome();
        outcome.notes.push("see `notes`".into());
        outcome.claims[1].note = "for `reasons`".into();
        let entry = Entry { experiment: &experiment, command: "", outcome: &outcome };
        let page = html(&Page { version: "", command: "", entries: vec![entry], tables: vec![] }).unwrap();
        for (code, times) in [("duel", 1), ("notes", 1), ("reasons", 2)] {
            assert_eq!(page.matches(&format!("<code>{code}</code>")).count(), times, "{code}");
        }
        assert!(!page.contains('`'));
    }

    #[test]
    fn claims_come_first_with_the_reason_of_those_that_do_not_hold() {
        let page = page();
        assert!(page.contains("1 of 2 hold"));
        let (claims, rest) = page.split_once("<section").unwrap();
        assert!(
            claims.contains("Does not hold: because &lt;of&gt; it") && claims.contains("href=\"#x-fig1\"")
        );
        for said in [
            "note &amp; more",
            "freeblock lab run x-fig1",
            "Set up.",
            "figure 1; timed",
            "a&lt;b",
            "does not hold",
        ] {
            assert!(rest.contains(said), "{said}");
        }
        assert_eq!((rest.matches("<svg").count(), rest.matches("<details>").count()), (2, 2));
        assert!(!page.contains('\u{1b}'));
    }
}
