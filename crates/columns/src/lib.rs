//! Tables in memory, by column, that other libraries read in place through the Arrow C data interface.
//!
//! A [`Table`] is made once and does not change. [`Table::stream`] exports the table: the consumer gets addresses of
//! the table's own memory, and the table lives until the last consumer has released them. The interface is specified
//! at <https://arrow.apache.org/docs/format/CDataInterface.html> and, for streams, at
//! <https://arrow.apache.org/docs/format/CStreamInterface.html>; this crate has the part that a table of numbers and
//! words needs, so that nothing depends on an implementation of Arrow.
//!
//! ```
//! use columns::{Table, Values};
//! let table = Table::new([("lbn", Values::U64(vec![16, 8])), ("op", Values::text(["read", "write"]))])?;
//! assert_eq!(table.rows(), 2);
//! let stream = table.stream(); // a library in the same process reads it through its address
//! assert_eq!(stream.rows_left(), 2);
//! # Ok::<(), columns::TableError>(())
//! ```

mod export;
mod table;

pub use export::{Array, Schema, Stream};
pub use table::{Bits, Column, Table, TableError, Text, Values};
