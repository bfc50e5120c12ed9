//! Tables and their columns.

use std::collections::HashSet;
use std::ffi::{CString, NulError};
use std::sync::Arc;
use thiserror::Error;

/// The values of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers without a sign.
    U64(Vec<u64>),
    /// Integers with a sign.
    I64(Vec<i64>),
    /// Floating-point numbers.
    F64(Vec<f64>),
    /// Texts in UTF-8: row `i` is the bytes from `offsets[i]` to `offsets[i + 1]`. [`text`](Self::text) makes such
    /// values.
    Text(Text),
    /// Words of a short list: a row has the index of its word in the list.
    Words {
        /// The index of each row's word.
        codes: Vec<u8>,
        /// The words.
        words: Text,
    },
    /// Booleans, eight rows a byte, the first in the lowest bit. [`flags`](Self::flags) makes such values.
    Flags(Bits),
}

/// Texts, stored one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub(crate) offsets: Vec<i64>,
    pub(crate) bytes: Vec<u8>,
}

/// Bits, the first in the lowest bit of the first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    pub(crate) bytes: Vec<u8>,
    pub(crate) len: usize,
    pub(crate) zeroes: usize,
}

impl Text {
    fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for text in texts {
            bytes.extend_from_slice(text.as_ref().as_bytes());
            offsets.push(bytes.len() as i64);
        }
        Self { offsets, bytes }
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a text; an empty one past the end.
    pub fn get(&self, row: usize) -> &str {
        let text = || {
            let (start, end) = (*self.offsets.get(row)?, *self.offsets.get(row + 1)?);
            self.bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        };
        // The bytes between two offsets are those of a `str`.
        text().and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl Bits {
    /// Returns a bit; false past the end.
    pub fn get(&self, row: usize) -> bool {
        row < self.len && self.bytes.get(row / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0)
    }
}

impl FromIterator<bool> for Bits {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut all = Self { bytes: Vec::new(), len: 0, zeroes: 0 };
        for bit in bits {
            if all.len.is_multiple_of(8) {
                all.bytes.push(0);
            }
            if let (true, Some(last)) = (bit, all.bytes.last_mut()) {
                *last |= 1 << (all.len % 8);
            }
            all.zeroes += usize::from(!bit);
            all.len += 1;
        }
        all
    }
}

impl Values {
    /// Returns a column of texts.
    pub fn text<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Text(Text::new(texts))
    }

    /// Returns a column of words of a short list. A code without a word is an error of [`Table::new`].
    pub fn words(codes: Vec<u8>, words: &[&str]) -> Self {
        Self::Words { codes, words: Text::new(words) }
    }

    /// Returns a column of booleans.
    pub fn flags(flags: impl IntoIterator<Item = bool>) -> Self {
        Self::Flags(flags.into_iter().collect())
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Text(text) => text.len(),
            Self::Words { codes, .. } => codes.len(),
            Self::Flags(bits) => bits.len,
        }
    }
}

/// The reason why columns make no table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// The number of rows of a column differs from that of the first column.
    #[error("column {name:?} has {rows} rows, and the first column has {first}; give each the same number")]
    Length {
        /// The column.
        name: String,
        /// The column's number of rows.
        rows: usize,
        /// The first column's number of rows.
        first: usize,
    },
    /// Two columns have the same name.
    #[error("two columns are called {0:?}; give each a name of its own")]
    Twice(String),
    /// A name with a zero byte, which ends a name in the interface.
    #[error("the name of a column has a zero byte ({0}); remove the byte")]
    Name(#[from] NulError),
    /// A code has no word in the list.
    #[error("column {name:?} has the code {code} in row {row}, and its list has {words} words")]
    Code {
        /// The column.
        name: String,
        /// The row, counted from 0.
        row: usize,
        /// The code.
        code: u8,
        /// The number of words in the list.
        words: usize,
    },
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    pub(crate) name: CString,
    pub(crate) values: Values,
    /// The rows that have a value; `None` if all have.
    pub(crate) valid: Option<Bits>,
}

impl Column {
    /// Returns the name.
    pub fn name(&self) -> &str {
        // The name was made of a `str`.
        self.name.to_str().unwrap_or_default()
    }

    /// Returns the values; a row without one has any value.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns whether the row has a value; false past the end.
    pub fn is_valid(&self, row: usize) -> bool {
        row < self.values.rows() && self.valid.as_ref().is_none_or(|bits| bits.get(row))
    }
}

/// Columns of one length. A clone shares the memory.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) columns: Arc<[Arc<Column>]>,
    pub(crate) rows: usize,
}

impl Table {
    /// Makes a table of columns that each have a value in every row.
    ///
    /// # Errors
    /// Columns of different lengths, two columns of the same name, a name with a zero byte, or a code without a word.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Values)>) -> Result<Self, TableError> {
        Self::with_gaps(columns.into_iter().map(|(name, values)| (name, values, None)))
    }

    /// Makes a table in which rows may lack a value: the third element of a column tells which rows have one; `None`
    /// means all.
    ///
    /// # Errors
    /// As [`new`](Self::new), or a third element of another length.
    pub fn with_gaps<'a>(
        columns: impl IntoIterator<Item = (&'a str, Values, Option<Vec<bool>>)>,
    ) -> Result<Self, TableError> {
        let (mut made, mut names, mut rows) = (Vec::new(), HashSet::new(), None);
        for (name, values, valid) in columns {
            let first = *rows.get_or_insert(values.rows());
            let lengths = [values.rows(), valid.as_ref().map_or(first, Vec::len)];
            if let Some(&rows) = lengths.iter().find(|&&rows| rows != first) {
                return Err(TableError::Length { name: name.to_owned(), rows, first });
            }
            if !names.insert(name.to_owned()) {
                return Err(TableError::Twice(name.to_owned()));
            }
            if let Values::Words { codes, words } = &values {
                let beyond = codes.iter().position(|&code| usize::from(code) >= words.len());
                if let Some(row) = beyond {
                    let (code, words) = (codes[row], words.len());
                    return Err(TableError::Code { name: name.to_owned(), row, code, words });
                }
            }
            let valid = valid.map(Bits::from_iter).filter(|bits| bits.zeroes > 0);
            made.push(Arc::new(Column { name: CString::new(name)?, values, valid }));
        }
        Ok(Self { columns: made.into(), rows: rows.unwrap_or(0) })
    }

    /// Returns the columns, in order.
    pub fn columns(&self) -> &[Arc<Column>] {
        &self.columns
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}
