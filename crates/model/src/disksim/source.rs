//! The files of an import: reads them, follows `source` statements, and finds lines and columns for messages.

use super::{Files, ImportError, Place};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// The most bytes of all files of one import together; the largest real file has 170 KB.
pub(super) const IMPORT_BYTES_MAX: usize = 64 << 20;
/// The most files of one import; real imports have four or five.
const IMPORT_FILES_MAX: usize = 256;
/// The longest chain of files that source one another; real chains have four.
const CHAIN_FILES_MAX: usize = 16;

/// The position of a byte: the number of the file, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub file: u32,
    pub offset: usize,
}

/// A fault and its place; [`Sources::explain`] converts it to an [`ImportError`].
#[derive(Debug)]
pub(super) enum Fault {
    Syntax { at: At, expected: String, found: String, mend: String },
    Value { at: At, problem: String, mend: String },
    Missing { at: At, block: String, key: String },
    Unreadable { at: Option<At>, path: PathBuf, cause: String },
    SelfSourcing { at: At, path: PathBuf },
}

/// A number or a word, as written.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub text: String,
    pub at: At,
}

pub(super) fn refuse(at: At, problem: impl Into<String>, mend: &str) -> Fault {
    Fault::Value { at, problem: problem.into(), mend: mend.into() }
}

struct File {
    path: PathBuf,
    text: Rc<str>,
}

/// The files read so far.
pub(super) struct Sources<'a> {
    disk: &'a dyn Files,
    files: Vec<File>,
    /// The numbers of the files being parsed: each sources the next.
    open: Vec<u32>,
    bytes: usize,
}

impl<'a> Sources<'a> {
    pub fn new(disk: &'a dyn Files) -> Self {
        Self { disk, files: Vec::new(), open: Vec::new(), bytes: 0 }
    }

    pub fn text(&self, file: u32) -> Rc<str> {
        self.files.get(file as usize).map_or_else(|| Rc::from(""), |f| Rc::clone(&f.text))
    }

    pub fn path(&self, file: u32) -> &Path {
        self.files.get(file as usize).map_or_else(|| Path::new(""), |f| &f.path)
    }

    /// Reads the file with which the import begins, and returns its number.
    pub fn open_root(&mut self, path: &Path) -> Result<u32, Fault> {
        let bytes = self.disk.read(path).map_err(|cause| Fault::Unreadable {
            at: None,
            path: path.to_owned(),
            cause: cause.to_string(),
        })?;
        let file = self.keep(path.to_owned(), &bytes, None)?;
        self.open.push(file);
        Ok(file)
    }

    /// Reads a file that a `source` statement names, and returns its number. [`Sources::close`] ends the parsing of the file.
    pub fn open_sourced(&mut self, name: &str, at: At) -> Result<u32, Fault> {
        let (path, bytes) = self.find(name, at)?;
        let normal = normalised(&path);
        if self.open.iter().any(|&f| normalised(self.path(f)) == normal) {
            return Err(Fault::SelfSourcing { at, path });
        }
        if self.open.len() >= CHAIN_FILES_MAX {
            return Err(Fault::Value {
                at,
                problem: format!("more than {CHAIN_FILES_MAX} files source one another in a chain"),
                mend: "put the blocks into fewer files".into(),
            });
        }
        let file = self.keep(path, &bytes, Some(at))?;
        self.open.push(file);
        Ok(file)
    }

    /// Ends the parsing of the file that was opened last.
    pub fn close(&mut self) {
        self.open.pop();
    }

    /// Reads a file that is not a parameter file, such as a seek curve.
    pub fn read_data(&mut self, name: &str, at: At) -> Result<u32, Fault> {
        let (path, bytes) = self.find(name, at)?;
        self.keep(path, &bytes, Some(at))
    }

    /// Reads a file from the directory of the file that names it, or else from the directory of the import's first file.
    fn find(&self, name: &str, at: At) -> Result<(PathBuf, Vec<u8>), Fault> {
        let beside = |file: u32| self.path(file).parent().unwrap_or(Path::new("")).join(name);
        let first = beside(at.file);
        let cause = match self.disk.read(&first) {
            Ok(bytes) => return Ok((first, bytes)),
            Err(cause) => cause,
        };
        let second = beside(0);
        if second != first
            && let Ok(bytes) = self.disk.read(&second)
        {
            return Ok((second, bytes));
        }
        Err(Fault::Unreadable { at: Some(at), path: first, cause: cause.to_string() })
    }

    fn keep(&mut self, path: PathBuf, bytes: &[u8], at: Option<At>) -> Result<u32, Fault> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        let too_much = if self.bytes > IMPORT_BYTES_MAX {
            Some(format!("the files of this import exceed {} MiB", IMPORT_BYTES_MAX >> 20))
        } else if self.files.len() >= IMPORT_FILES_MAX {
            Some(format!("the import reads more than {IMPORT_FILES_MAX} files"))
        } else {
            None
        };
        if let Some(cause) = too_much {
            return Err(Fault::Unreadable { at, path, cause });
        }
        // Some files have comments in Latin-1; the rest of every known file is ASCII.
        let text = String::from_utf8_lossy(bytes);
        self.files.push(File { path, text: Rc::from(text.as_ref()) });
        Ok(self.files.len() as u32 - 1)
    }

    pub fn place(&self, at: At) -> Place {
        let text = self.text(at.file);
        let before = text.get(..at.offset).unwrap_or(&text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            file: self.path(at.file).to_owned(),
            line: before.bytes().filter(|&b| b == b'\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
        }
    }

    pub fn explain(&self, fault: Fault) -> ImportError {
        match fault {
            Fault::Syntax { at, expected, found, mend } => {
                ImportError::Syntax { place: self.place(at), expected, found, mend }
            }
            Fault::Value { at, problem, mend } => ImportError::Value { place: self.place(at), problem, mend },
            Fault::Missing { at, block, key } => ImportError::Missing { place: self.place(at), block, key },
            Fault::Unreadable { at: None, path, cause } => ImportError::Unreadable { path, cause },
            Fault::Unreadable { at: Some(at), path, cause } => {
                ImportError::UnreadableSource { place: self.place(at), path, cause }
            }
            Fault::SelfSourcing { at, path } => ImportError::SelfSourcing { place: self.place(at), path },
        }
    }
}

/// Returns the path without `.` and `dir/..`. Symbolic links are not resolved.
fn normalised(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Returns text from a file in a form fit for a message: at most 40 characters, with control characters escaped.
pub(super) fn printable(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 40;
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}
