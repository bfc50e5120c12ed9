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
