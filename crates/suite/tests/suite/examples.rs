//! The examples of the crates that are to be published, compiled in a workspace outside this one, where each dependency has the name
//! that it will have in a registry. A member of that workspace depends on one of the crates and on nothing else, as a user's program
//! does (docs/decisions/0024).

use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that are to be published, by their directories.
pub(crate) const PUBLISHED: [&str; 4] = ["units", "model", "scheduler", "freeblock"];

/// The crate that the README's example is about.
const OF_README: &str = "freeblock";

/// Returns the name of a published package, by its directory.
pub(crate) fn package_name(directory: &str) -> String {
    if directory == "freeblock" { directory.into() } else { format!("freeblock-{directory}") }
}

/// An example in a document.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// The line of the example's first fence, from 1 on.
    line: usize,
    /// The code, with the lines that rustdoc hides.
    code: String,
}

#[test]
fn examples_of_published_crates_compile_in_another_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let outside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    // The members of the last run may have examples that are gone; the products of its build are kept.
    let members = outside.join("members");
    if members.exists() {
        std::fs::remove_dir_all(&members).unwrap();
    }
    for name in PUBLISHED {
        write_member(&root, &members.join(name), name);
    }
    let workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"members/*\"]\n";
    std::fs::write(outside.join("Cargo.toml"), workspace).unwrap();
    // The lock file has the versions that this workspace was built with, so that nothing has to be fetched.
    std::fs::copy(root.join("Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--workspace", "--offline", "--quiet", "--keep-going", "--target-dir"])
        .arg(outside.join("target"))
        .current_dir(&outside)
        // Cargo must not use the job server of a `make` that runs this test.
        .env_remove("MAKEFLAGS")
        .env_remove("CARGO_MAKEFLAGS")
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "the examples do not compile outside the workspace; name every crate by a path that begins with the documented crate \
         (freeblock_scheduler::units::Lbn, not units::Lbn)\n{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

/// Writes a package whose modules are the examples of the crate in the directory `name`.
fn write_member(root: &Path, member: &Path, name: &str) {
    let package = root.join("crates").join(name);
    let source = member.join("src");
    std::fs::create_dir_all(&source).unwrap();
    let manifest = format!(
        "[package]\nname = \"examples-of-{name}\"\nedition = \"2024\"\n\n[dependencies]\n{} = {{ path = \"{}\" }}\n",
        package_name(name),
        package.display()
    );
    std::fs::write(member.join("Cargo.toml"), manifest).unwrap();
    let mut files = Vec::new();
    rust_files(&package.join("src"), &mut files);
    let mut library = String::from("#![allow(unused, nonstandard_style)]\n");
    let mut write = |file: &str, examples: Vec<Example>| {
        for Example { line, code } in examples {
            let module = format!("{file}_line_{line}").replace(['/', '.', '-'], "_");
            std::fs::write(source.join(format!("{module}.rs")), wrapped(&code)).unwrap();
            library += &format!("mod {module};\n");
        }
    };
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        write(file.strip_prefix(&package).unwrap().to_str().unwrap(), examples(documentation(&text)));
    }
    if name == OF_README {
        let text = std::fs::read_to_string(root.join("README.md")).unwrap();
        write("README.md", examples(text.lines().enumerate()));
    }
    assert!(library.contains("mod "), "{name} has no examples; mend how they are looked for");
    std::fs::write(source.join("lib.rs"), library).unwrap();
}

fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            rust_files(&entry, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
}

/// Returns the lines of doc comments, each with its line number from 0 on.
fn documentation(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let doc = |line: &'_ str| -> Option<usize> {
        let begun = line.trim_start();
        (begun.starts_with("///") || begun.starts_with("//!")).then(|| line.len() - begun.len() + 3)
    };
    text.lines().enumerate().filter_map(move |(at, line)| Some((at, &line[doc(line)?..])))
}

/// Returns the examples that rustdoc compiles: fenced code without a language, or in Rust, that is not marked `ignore`. Code that must
/// not compile (`compile_fail`) is left out.
fn examples<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Example> {
    let mut found = Vec::new();
    // The open fence, if any, with its example; `Some(None)` if code of that fence is not compiled.
    let mut open: Option<Option<Example>> = None;
    for (at, line) in lines {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if let Some(attributes) = line.trim_start().strip_prefix("```") {
            open = match open.take() {
                Some(closed) => {
                    found.extend(closed);
                    None
                }
                None => Some(is_compiled(attributes).then(|| Example { line: at + 1, code: String::new() })),
            };
        } else if let Some(Some(example)) = &mut open {
            example.code += &shown(line);
            example.code.push('\n');
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

fn is_compiled(attributes: &str) -> bool {
    let known =
        |word: &str| matches!(word, "rust" | "no_run" | "should_panic") || word.starts_with("edition");
    attributes.split([',', ' ']).filter(|word| !word.is_empty()).all(known)
}

/// Returns a line without the mark by which rustdoc hides it.
fn shown(line: &str) -> String {
    let begun = line.trim_start();
    if begun == "#" {
        return String::new();
    }
    match (begun.strip_prefix("# "), begun.strip_prefix("##")) {
        (Some(hidden), _) => hidden.into(),
        (None, Some(rest)) => format!("#{rest}"),
        (None, None) => line.into(),
    }
}

/// Returns an example as a module, in the function that rustdoc puts around it.
fn wrapped(code: &str) -> String {
    if code.contains("fn main(") {
        code.into()
    } else if code.trim_end().ends_with("(())") {
        format!("fn example() -> core::result::Result<(), impl core::fmt::Debug> {{\n{code}}}\n")
    } else {
        format!("fn example() {{\n{code}}}\n")
    }
}

#[test]
fn examples_are_found_with_their_hidden_lines() {
    let text = "//! A crate.\n//!\n//! ```\n//! # use a::B;\n//! #\n//! B::new();\n//! ```\nuse c::D;\n    /// ```text\n    /// no Rust\n    \
                /// ```\n    /// ```rust,no_run\n    /// #[derive(E)] struct F;\n    /// # Ok::<(), G>(())\n    /// ```\n/// ```ignore\n/// x\n/// ```\n";
    let found = examples(documentation(text));
    let example = |line, code: &str| Example { line, code: code.into() };
    let expected =
        [example(3, "use a::B;\n\nB::new();\n"), example(12, "#[derive(E)] struct F;\nOk::<(), G>(())\n")];
    assert_eq!(found, expected);
    assert_eq!(wrapped("B::new();\n"), "fn example() {\nB::new();\n}\n");
    assert!(wrapped(&found[1].code).starts_with("fn example() -> core::result::Result<"));
}
