//! Helpers that run the binary, and make files for it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the command for the binary, without environment variables that change its output.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freeblock"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

/// Runs the binary with these arguments, separated by blanks.
pub fn run(args: &str) -> FinishedRun {
    run_with(&args.split_whitespace().collect::<Vec<_>>())
}

/// Runs the binary with these arguments.
pub fn run_with(args: &[&str]) -> FinishedRun {
    FinishedRun::from(command().args(args).output().unwrap())
}

/// A finished run.
#[derive(Debug)]
pub struct FinishedRun {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for FinishedRun {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl FinishedRun {
    /// Checks that the run succeeded without complaints; returns its output.
    #[track_caller]
    pub fn worked(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Checks that the run succeeded without complaints; returns its output as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.worked()).unwrap()
    }

    /// Checks that the run ended with this exit code, printed nothing, and wrote all of these words to standard error.
    #[track_caller]
    pub fn complained(self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in:\n{}", self.err);
        }
        assert!(!self.err.contains('\u{1b}') && !self.err.contains("panicked"), "{}", self.err);
    }
}

/// Returns the keys of a JSON object, sorted.
#[track_caller]
pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Returns a number in a JSON object.
#[track_caller]
pub fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path}: {value}"))
}

/// A directory that is removed at the end of the test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Self::name());
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Creates a directory in a file system in memory, if the system has one.
    #[cfg(target_os = "linux")]
    pub fn in_memory() -> Option<Self> {
        let path = Path::new("/dev/shm").join(format!("freeblock-{}", Self::name()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn name() -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("cli-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Creates a file in the directory; returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns the names of the files in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a file of the data kept beside the repository, if it is there.
pub fn shared(name: &str) -> Option<String> {
    testing::shared(name).map(|path| path.to_str().unwrap().to_owned())
}

/// A small drive in DiskSim's language, complete: a drive with electronics would need the files of its bus.
pub const TINY_MODEL: &str = include_str!("../../../model/tests/data/tiny-disksim.model");

/// The seek curve of the small drive.
pub const TINY_SEEK: &str = include_str!("../../../model/tests/data/tiny.seek");
