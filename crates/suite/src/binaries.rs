//! The test binaries of a build, from cargo's messages, and their tests.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kind of target that a binary was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The unit tests of a library.
    Lib,
    /// The unit tests of a program.
    Bin,
    /// Integration tests.
    Test,
    /// The unit tests of an example.
    Example,
    /// A benchmark, which runs tiny and as a whole.
    Bench,
}

/// A binary that holds tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// The binary's name in lists: `sim/tests`, `probe/lib`, `scheduler/benches/tasks`.
    pub name: String,
    /// The kind of target that the binary was built from.
    pub kind: Kind,
    /// The file to execute.
    pub executable: PathBuf,
    /// The directory of the package, in which the binary runs.
    pub directory: PathBuf,
}

/// A test of a binary; a benchmark is one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The binary's name and the test's, joined by `::`.
    pub name: String,
    /// The index of the test's binary in the list that was given to [`tests`].
    pub binary: usize,
    /// The binary's own name for the test, or `None` for all of the binary.
    pub filter: Option<String>,
    /// Whether the test is marked with `#[ignore]`; only the long tier runs such tests.
    pub ignored: bool,
    /// Whether the test waits for time to pass most of the time; [`tests`] does not know this and leaves the flag
    /// unset.
    pub waits: bool,
}

/// A reason for which the tests could not be found.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// A line is not a message of cargo's.
    #[error(
        "line {line} of cargo's messages is not JSON ({why}); build with --message-format=json-render-diagnostics"
    )]
    Message {
        /// The line, from 1 on.
        line: usize,
        /// The parser's reason.
        why: serde_json::Error,
    },
    /// There is no test binary among the messages.
    #[error("cargo's messages name no test binary; build with cargo test --no-run")]
    None,
    /// A binary did not list its tests.
    #[error("{executable} --list: {why}; build again")]
    List {
        /// The binary.
        executable: PathBuf,
        /// The reason.
        why: String,
    },
}

/// Returns the test binaries of a build, sorted by name, from the messages that cargo printed about it.
///
/// # Errors
/// If a line is not JSON, or no message names a test binary.
pub fn binaries(messages: &str) -> Result<Vec<Binary>, BinaryError> {
    let mut found = Vec::new();
    for (at, line) in messages.lines().enumerate() {
        let message: Value =
            serde_json::from_str(line).map_err(|why| BinaryError::Message { line: at + 1, why })?;
        found.extend(binary(&message));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if found.is_empty() { Err(BinaryError::None) } else { Ok(found) }
}

fn binary(message: &Value) -> Option<Binary> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = directory.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    let kind = match message["target"]["kind"][0].as_str()? {
        "bin" => Kind::Bin,
        "test" => Kind::Test,
        "example" => Kind::Example,
        "bench" => Kind::Bench,
        _ => Kind::Lib,
    };
    let name = match kind {
        Kind::Lib => format!("{package}/lib"),
        Kind::Bin => format!("{package}/bin"),
        Kind::Test if target == package => format!("{package}/tests"),
        Kind::Test => format!("{package}/tests/{target}"),
        Kind::Example => format!("{package}/examples/{target}"),
        Kind::Bench => format!("{package}/benches/{target}"),
    };
    Some(Binary { name, kind, executable, directory })
}

/// Returns every test of the binaries, in the order of the binaries and of their own lists.
///
/// # Errors
/// If a binary cannot be executed or fails to list its tests.
pub fn tests(binaries: &[Binary]) -> Result<Vec<Test>, BinaryError> {
    let mut found = Vec::new();
    for (at, binary) in binaries.iter().enumerate() {
        if binary.kind == Kind::Bench {
            found.push(Test {
                name: binary.name.clone(),
                binary: at,
                filter: None,
                ignored: false,
                waits: false,
            });
            continue;
        }
        let ignored = listed(binary, &["--ignored"])?;
        found.extend(listed(binary, &[])?.into_iter().map(|test| Test {
            name: format!("{}::{test}", binary.name),
            binary: at,
            ignored: ignored.contains(&test),
            filter: Some(test),
            waits: false,
        }));
    }
    Ok(found)
}

fn listed(binary: &Binary, arguments: &[&str]) -> Result<Vec<String>, BinaryError> {
    let executable = &binary.executable;
    let error = |why| BinaryError::List { executable: executable.clone(), why };
    let mut command = Command::new(executable);
    command.current_dir(&binary.directory).args(["--list", "--format", "terse"]).args(arguments);
    let output = command.stdin(Stdio::null()).output().map_err(|why| error(why.to_string()))?;
    if !output.status.success() {
        return Err(error(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
