//! The documents: each link leads to a file, and the map names every document.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Markdown files of the repository, by their paths from its root.
fn documents() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output();
    let listed = listed.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    // A copy without git has the same files in the directories that are named here.
    let listed = listed.map(|bytes| String::from_utf8(bytes).unwrap().lines().map(PathBuf::from).collect());
    listed.unwrap_or_else(|| {
        let directories = ["", "docs", "docs/decisions", "fuzz", "packaging", "proofs"];
        let entries = directories.iter().flat_map(|of| std::fs::read_dir(root().join(of)).unwrap());
        let paths = entries.map(|entry| entry.unwrap().path().strip_prefix(root()).unwrap().to_path_buf());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
    })
}

/// Returns the targets of the links in a text, without those to other machines and without anchors.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    local.map(|target| target.split('#').next().unwrap().to_owned()).collect()
}

#[test]
fn every_link_in_a_document_leads_to_a_file() {
    let documents = documents();
    assert!(documents.len() > 40, "{documents:?}");
    let mut broken = Vec::new();
    for document in documents {
        let text = std::fs::read_to_string(root().join(&document)).unwrap();
        for link in links(&text) {
            let target = root().join(document.parent().unwrap()).join(&link);
            if !target.exists() {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_map_of_the_documents_names_each_of_them() {
    let map = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    let named = links(&map);
    let names = documents().into_iter().filter_map(|path| Some(path.strip_prefix("docs").ok()?.to_owned()));
    let missing: Vec<_> = names
        .filter(|name| name.components().count() == 1 && name != Path::new("README.md"))
        .filter(|name| !named.iter().any(|link| Path::new(link) == name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_citation_has_the_version_of_the_workspace() {
    let version = |file: &str, key: &str| {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        line.trim_start_matches(key).trim_matches([' ', '=', '"']).to_owned()
    };
    assert_eq!(version("CITATION.cff", "version:"), version("Cargo.toml", "version"));
}

/// Returns the parts of a text between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the cells of the second column of the tables under a heading.
fn cells_under<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix('|')?.split('|').nth(1));
    rows.filter(|cell| cell.contains('`')).collect()
}

/// Returns whether a source defines an item, a field or a variant of this name.
fn defines(source: &str, name: &str) -> bool {
    let defined = |kind: &str| {
        source.match_indices(&format!("{kind}{name}")).any(|(at, found)| {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            !source[at + found.len()..].starts_with(is_word)
        })
    };
    ["fn ", "struct ", "enum ", "trait ", "const ", "mod ", "pub "].into_iter().any(defined)
}

#[test]
fn the_way_of_a_request_names_functions_that_are_in_the_files_that_it_names() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let cells = cells_under(&text, "The way of a request and of a scrub");
    assert!(cells.len() >= 20, "{cells:?}");
    let mut wrong = Vec::new();
    for cell in cells {
        let mut source = String::new();
        for name in code(cell) {
            if name.ends_with(".rs") {
                source = std::fs::read_to_string(root().join(name)).unwrap_or_default();
            } else if !defines(&source, name) {
                wrong.push(format!("{name} in {cell}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns all sources.
fn sources() -> String {
    let mut sources = String::new();
    let mut directories = vec![root().join("crates")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    sources
}

#[test]
fn each_test_that_stands_behind_a_promise_of_safety_is_in_the_code() {
    let text = std::fs::read_to_string(root().join("docs/SAFETY.md")).unwrap();
    let sources = sources();
    // Tests have sentences as names. No option, field or file in this document has four words.
    let is_word =
        |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let names = code(&text).filter(|name| name.matches('_').count() >= 3).filter(is_word);
    let (known, missing): (Vec<_>, Vec<_>) = names.partition(|name| sources.contains(&format!("fn {name}(")));
    assert!(known.len() >= 100 && missing.is_empty(), "{} and {missing:#?}", known.len());
}

#[test]
fn each_test_and_bound_in_the_table_of_promises_is_in_the_code() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let sources = sources();
    let cells = cells_under(&text, "Where the promises are tested");
    let names = cells.into_iter().flat_map(code).filter_map(|name| name.rsplit("::").next());
    let names = names.filter(|name| name.contains('_') && !name.contains(['/', '.', ' ']));
    let (known, missing): (Vec<_>, Vec<_>) = names.partition(|name| defines(&sources, name));
    assert!(known.len() >= 30 && missing.is_empty(), "{missing:?}");
}
