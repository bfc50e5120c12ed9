//! A consumer that reads the structs as the specification has them.

use super::*;
use std::mem::MaybeUninit;

fn columns() -> Table {
    Table::with_gaps([
        ("lbn", Values::U64(vec![3, 5, 7]), None),
        ("late", Values::I64(vec![-1, 0, 1]), Some(vec![true, false, true])),
        ("share", Values::F64(vec![0.5, 0.25, 0.0]), None),
        ("name", Values::text(["a", "", "xyz"]), None),
        ("op", Values::words(vec![1, 0, 1], &["read", "write"]), None),
        ("hit", Values::flags([true, false, true]), None),
    ])
    .unwrap()
}

fn schema_of(stream: &mut Stream) -> Schema {
    let mut out = MaybeUninit::uninit();
    // SAFETY: the stream is alive and `out` can be written to; the call succeeded.
    unsafe {
        assert_eq!(stream.get_schema.unwrap()(stream, out.as_mut_ptr()), 0);
        out.assume_init()
    }
}

fn next_of(stream: &mut Stream) -> Array {
    let mut out = MaybeUninit::uninit();
    // SAFETY: as in `schema_of`.
    unsafe {
        assert_eq!(stream.get_next.unwrap()(stream, out.as_mut_ptr()), 0);
        out.assume_init()
    }
}

/// Moves a struct away from its address, as a consumer does.
macro_rules! moved {
    ($place:expr) => {{
        let place = $place;
        // SAFETY: the struct at the address is alive; its bytes are used once, since `release` at the old address becomes
        // null.
        unsafe {
            let moved = place.read();
            (*place).release = None;
            moved
        }
    }};
}

fn child(array: &Array, n: usize) -> *mut Array {
    assert!((n as i64) < array.n_children);
    // SAFETY: there are more than `n` children.
    unsafe { *array.children.add(n) }
}

/// Returns the first `len` values of a buffer.
fn values<T: Copy>(array: &Array, buffer: usize, len: usize) -> Vec<T> {
    assert!((buffer as i64) < array.n_buffers);
    // SAFETY: the caller names a buffer of this type and length.
    unsafe { std::slice::from_raw_parts((*array.buffers.add(buffer)).cast::<T>(), len).to_vec() }
}

fn text(at: *const c_char) -> String {
    // SAFETY: formats and names end with a zero byte.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
}

#[test]
fn a_consumer_finds_names_types_and_values() {
    let mut stream = columns().stream();
    let schema = schema_of(&mut stream);
    assert_eq!(text(schema.format), "+s");
    let fields: Vec<(String, String, i64)> = (0..schema.n_children as usize)
        // SAFETY: the schema has `n_children` children.
        .map(|n| unsafe { &**schema.children.add(n) })
        .map(|field| (text(field.name), text(field.format), field.flags))
        .collect();
    let expected = [
        ("lbn", "L", 0),
        ("late", "l", 2),
        ("share", "g", 0),
        ("name", "U", 0),
        ("op", "C", 0),
        ("hit", "b", 0),
    ];
    assert_eq!(fields, expected.map(|(name, format, flags)| (name.to_owned(), format.to_owned(), flags)));
    let batch = next_of(&mut stream);
    assert_eq!((batch.length, batch.n_buffers, batch.n_children), (3, 1, 6));
    // SAFETY: the children belong to a batch that is alive.
    let [lbn, late, share, name, op, hit] = [0, 1, 2, 3, 4, 5].map(|n| unsafe { &*child(&batch, n) });
    assert_eq!(values::<u64>(lbn, 1, 3), [3, 5, 7]);
    assert_eq!(
        (late.null_count, values::<u8>(late, 0, 1), values::<i64>(late, 1, 3)),
        (1, vec![0b101], vec![-1, 0, 1])
    );
    assert_eq!(values::<f64>(share, 1, 3), [0.5, 0.25, 0.0]);
    assert_eq!((values::<i64>(name, 1, 4), values::<u8>(name, 2, 4)), (vec![0, 1, 1, 4], b"axyz".to_vec()));
    assert_eq!(values::<u8>(op, 1, 3), [1, 0, 1]);
    // SAFETY: a column of words has a dictionary.
    let words = unsafe { &*op.dictionary };
    assert_eq!((words.length, values::<u8>(words, 2, 9)), (2, b"readwrite".to_vec()));
    assert_eq!(values::<u8>(hit, 1, 1), [0b101]);
}

#[test]
fn a_stream_has_one_batch_and_then_ends() {
    let mut stream = columns().stream();
    assert_eq!(stream.rows_left(), 3);
    assert_eq!(next_of(&mut stream).length, 3);
    assert_eq!(stream.rows_left(), 0);
    assert!(next_of(&mut stream).release.is_none());
}

#[test]
fn the_memory_of_a_table_is_lent_and_not_copied() {
    let table = columns();
    let Values::U64(lbns) = table.columns()[0].values() else {
        unreachable!("the first column has integers")
    };
    let batch = next_of(&mut table.stream());
    // SAFETY: the first child has two buffers.
    let lent = unsafe { *(*child(&batch, 0)).buffers.add(1) };
    assert_eq!(lent, lbns.as_ptr().cast());
}

#[test]
fn a_column_lives_until_its_last_consumer_has_released_it() {
    let table = columns();
    let alive = Arc::downgrade(&table.columns()[0]);
    let mut stream = table.stream();
    drop(table);
    let batch = next_of(&mut stream);
    drop(stream);
    let lbn = moved!(child(&batch, 0));
    drop(batch);
    assert_eq!(values::<u64>(&lbn, 1, 3), [3, 5, 7]);
    assert!(alive.upgrade().is_some());
    drop(lbn);
    assert!(alive.upgrade().is_none());
}

#[test]
fn a_stream_and_a_schema_can_be_moved_by_a_consumer() {
    let mut stream = columns().stream();
    let mut moved_stream = moved!(&raw mut stream);
    assert_eq!(stream.rows_left(), 0);
    drop(stream);
    let mut schema = schema_of(&mut moved_stream);
    let name = moved!(child_schema(&schema, 4));
    let moved_schema = moved!(&raw mut schema);
    drop(schema);
    drop(moved_schema);
    assert_eq!(text(name.name), "op");
    assert!(!name.dictionary.is_null());
}

fn child_schema(schema: &Schema, n: usize) -> *mut Schema {
    assert!((n as i64) < schema.n_children);
    // SAFETY: there are more than `n` children.
    unsafe { *schema.children.add(n) }
}

#[test]
fn a_table_without_rows_or_columns_can_be_exported() {
    let empty = Table::new([("lbn", Values::U64(Vec::new())), ("name", Values::text([""; 0]))]).unwrap();
    let batch = next_of(&mut empty.stream());
    assert_eq!((batch.length, batch.n_children), (0, 2));
    // SAFETY: the second child is a column of texts, whose offsets have an end even without rows.
    assert_eq!(values::<i64>(unsafe { &*child(&batch, 1) }, 1, 1), [0]);
    let nothing = Table::new([]).unwrap();
    assert_eq!(next_of(&mut nothing.stream()).n_children, 0);
}
