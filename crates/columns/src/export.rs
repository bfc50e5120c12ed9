//! The structs of the Arrow C data interface, made of a table.
//!
//! Two rules of the interface carry every proof below. A struct is released by calling its `release`, once, which sets `release`
//! to null; a struct whose `release` is null is not read. A consumer may move a struct to another address by copying its bytes
//! and setting `release` at the old address to null, children of a parent included. Everything that a struct points to is
//! therefore on the heap and belongs to `private_data`, and dropping a struct releases it unless it was moved.

#![allow(unsafe_code, reason = "the interface passes addresses; each block says why they stay good")]

use crate::table::{Bits, Column, Table, Text, Values};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

impl Table {
    /// Exports the names and types of the columns.
    pub fn schema(&self) -> Schema {
        Schema::of(self)
    }

    /// Exports the table as a stream of one batch. The stream keeps the columns alive, and copies none of them.
    pub fn stream(&self) -> Stream {
        Stream::of(self.clone())
    }
}

/// The flag of a field that may lack values: `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// The names and types of a table's columns: `ArrowSchema`.
#[repr(C)]
#[derive(Debug)]
pub struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// The memory of a column, or of a table with its columns as children: `ArrowArray`.
#[repr(C)]
#[derive(Debug)]
pub struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// A table as a stream of one batch: `ArrowArrayStream`.
#[repr(C)]
#[derive(Debug)]
pub struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// The memory that a schema points to.
struct SchemaOwns {
    /// The column whose name the schema points to: kept alive, not read.
    _column: Option<Arc<Column>>,
    children: Vec<*mut Schema>,
    dictionary: *mut Schema,
}

/// The memory that an array points to.
struct ArrayOwns {
    /// The column whose buffers the array points to: kept alive, not read.
    _column: Option<Arc<Column>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    dictionary: *mut Array,
}

struct StreamOwns {
    table: Table,
    given: bool,
}

impl Schema {
    fn of(table: &Table) -> Self {
        let children = table.columns.iter().map(Self::of_column).map(Box::new).map(Box::into_raw).collect();
        Self::new(c"+s", 0, None, children, null_mut())
    }

    fn of_column(column: &Arc<Column>) -> Self {
        let (format, dictionary) = match &column.values {
            Values::U64(_) => (c"L", null_mut()),
            Values::I64(_) => (c"l", null_mut()),
            Values::F64(_) => (c"g", null_mut()),
            Values::Text(_) => (c"U", null_mut()),
            Values::Flags(_) => (c"b", null_mut()),
            // The format of the column is that of the codes; the words are its dictionary.
            Values::Words { .. } => {
                (c"C", Box::into_raw(Box::new(Self::new(c"U", 0, None, Vec::new(), null_mut()))))
            }
        };
        let flags = if column.valid.is_some() { NULLABLE } else { 0 };
        Self::new(format, flags, Some(Arc::clone(column)), Vec::new(), dictionary)
    }

    fn new(
        format: &'static CStr,
        flags: i64,
        column: Option<Arc<Column>>,
        children: Vec<*mut Self>,
        dictionary: *mut Self,
    ) -> Self {
        let name = column.as_ref().map_or(c"".as_ptr(), |column| column.name.as_ptr());
        let mut owns = Box::new(SchemaOwns { _column: column, children, dictionary });
        Self {
            format: format.as_ptr(),
            name,
            metadata: null(),
            flags,
            n_children: owns.children.len() as i64,
            children: owns.children.as_mut_ptr(),
            dictionary,
            release: Some(release_schema),
            private_data: Box::into_raw(owns).cast(),
        }
    }
}

/// # Safety
/// `schema` is a struct of this file that has not been released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: by the contract `schema` points to a struct of `Schema::new` or a copy of one, whose `private_data` is
    // the box that was leaked there, and no call before this one has taken it, since `release` was not null. The
    // children and the dictionary are boxes that only this box points to; dropping one that a consumer has moved out
    // does nothing.
    unsafe {
        let owns = Box::from_raw((*schema).private_data.cast::<SchemaOwns>());
        for &child in &owns.children {
            drop(Box::from_raw(child));
        }
        if !owns.dictionary.is_null() {
            drop(Box::from_raw(owns.dictionary));
        }
        (*schema).release = None;
        (*schema).private_data = null_mut();
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `release` is not null, so this struct has neither been released nor moved.
            unsafe { release(self) }
        }
    }
}

impl Array {
    fn of(table: &Table) -> Self {
        let children = table.columns.iter().map(Self::of_column).map(Box::new).map(Box::into_raw).collect();
        // The table's only buffer, the bits that tell which rows exist, is left out, because all rows exist.
        Self::new(table.rows, 0, vec![null()], None, children, null_mut())
    }

    fn of_column(column: &Arc<Column>) -> Self {
        let rows = column.values.rows();
        let mut dictionary = null_mut();
        let valid = column.valid.as_ref().map_or(null(), |bits| bits.bytes.as_ptr().cast());
        let mut buffers = vec![valid];
        match &column.values {
            Values::U64(values) => buffers.push(values.as_ptr().cast()),
            Values::I64(values) => buffers.push(values.as_ptr().cast()),
            Values::F64(values) => buffers.push(values.as_ptr().cast()),
            Values::Flags(Bits { bytes, .. }) => buffers.push(bytes.as_ptr().cast()),
            Values::Text(text) => buffers.extend(text_buffers(text)),
            Values::Words { codes, words } => {
                buffers.push(codes.as_ptr().cast());
                let of_words = [null()].into_iter().chain(text_buffers(words)).collect();
                let words = words.offsets.len() - 1;
                let array = Self::new(words, 0, of_words, Some(Arc::clone(column)), Vec::new(), null_mut());
                dictionary = Box::into_raw(Box::new(array));
            }
        }
        let missing = column.valid.as_ref().map_or(0, |bits| bits.zeroes);
        Self::new(rows, missing, buffers, Some(Arc::clone(column)), Vec::new(), dictionary)
    }

    fn new(
        rows: usize,
        missing: usize,
        buffers: Vec<*const c_void>,
        column: Option<Arc<Column>>,
        children: Vec<*mut Self>,
        dictionary: *mut Self,
    ) -> Self {
        let mut owns = Box::new(ArrayOwns { _column: column, buffers, children, dictionary });
        Self {
            length: rows as i64,
            null_count: missing as i64,
            offset: 0,
            n_buffers: owns.buffers.len() as i64,
            n_children: owns.children.len() as i64,
            buffers: owns.buffers.as_mut_ptr(),
            children: owns.children.as_mut_ptr(),
            dictionary,
            release: Some(release_array),
            private_data: Box::into_raw(owns).cast(),
        }
    }

    /// Returns the end of a stream: an array that counts as released.
    const fn end() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }
}

fn text_buffers(text: &Text) -> [*const c_void; 2] {
    [text.offsets.as_ptr().cast(), text.bytes.as_ptr().cast()]
}

/// # Safety
/// `array` is a struct of this file that has not been released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as in `release_schema`, with the box of `Array::new`. The buffers belong to the column, which this box keeps; a
    // child or dictionary that was moved out has a box of its own, which keeps the column too.
    unsafe {
        let owns = Box::from_raw((*array).private_data.cast::<ArrayOwns>());
        for &child in &owns.children {
            drop(Box::from_raw(child));
        }
        if !owns.dictionary.is_null() {
            drop(Box::from_raw(owns.dictionary));
        }
        (*array).release = None;
        (*array).private_data = null_mut();
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `release` is not null, so this struct has neither been released nor moved.
            unsafe { release(self) }
        }
    }
}

impl Stream {
    fn of(table: Table) -> Self {
        let owns = Box::new(StreamOwns { table, given: false });
        Self {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(owns).cast(),
        }
    }

    /// Returns the rows that a consumer would still get; none once the stream was moved or released.
    pub fn rows_left(&self) -> usize {
        if self.release.is_none() {
            return 0;
        }
        // SAFETY: `release` is not null, so `private_data` is the box of `Stream::of`, which only a call with `&mut` changes.
        let owns = unsafe { &*self.private_data.cast::<StreamOwns>() };
        if owns.given { 0 } else { owns.table.rows }
    }
}

/// # Safety
/// `stream` is a stream of this file that has not been released, and `out` may be written to.
unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: by the contract `private_data` is the box of `Stream::of`. `out` may be uninitialised: it is written, not dropped.
    unsafe {
        let owns = &*(*stream).private_data.cast::<StreamOwns>();
        out.write(owns.table.schema());
    }
    0
}

/// # Safety
/// As for [`get_schema`].
unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as in `get_schema`; the interface allows one call at a time, so that the exclusive borrow is the only one.
    unsafe {
        let owns = &mut *(*stream).private_data.cast::<StreamOwns>();
        let given = std::mem::replace(&mut owns.given, true);
        out.write(if given { Array::end() } else { Array::of(&owns.table) });
    }
    0
}

/// Returns null: no call fails.
///
/// # Safety
/// No condition: the function is unsafe only because its type in the interface is.
unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    null()
}

/// # Safety
/// `stream` is a stream of this file that has not been released.
unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: as in `release_schema`, with the box of `Stream::of`.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamOwns>()));
        (*stream).release = None;
        (*stream).private_data = null_mut();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `release` is not null, so this struct has neither been released nor moved.
            unsafe { release(self) }
        }
    }
}

// SAFETY: everything that the structs point to is reachable through them alone, except for columns, which are shared by an `Arc`
// and never change.
unsafe impl Send for Schema {}
// SAFETY: as for `Schema`.
unsafe impl Send for Array {}
// SAFETY: as for `Schema`.
unsafe impl Send for Stream {}

#[cfg(test)]
mod tests;
