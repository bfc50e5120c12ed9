//! Tables from columns that may not fit together.

use columns::{Table, TableError, Values};

#[test]
fn columns_of_two_lengths_are_refused_by_name() {
    let refused = Table::new([("a", Values::U64(vec![1, 2])), ("b", Values::F64(vec![1.0]))]).unwrap_err();
    assert_eq!(refused, TableError::Length { name: "b".to_owned(), rows: 1, first: 2 });
    let gaps = Table::with_gaps([("a", Values::U64(vec![1, 2]), Some(vec![true]))]).unwrap_err();
    assert_eq!(gaps, TableError::Length { name: "a".to_owned(), rows: 1, first: 2 });
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let refused = Table::new([("a", Values::U64(vec![1])), ("a", Values::U64(vec![2]))]).unwrap_err();
    assert_eq!(refused, TableError::Twice("a".to_owned()));
}

#[test]
fn a_name_with_a_zero_byte_is_refused() {
    assert!(matches!(Table::new([("a\0b", Values::U64(vec![1]))]), Err(TableError::Name(_))));
}

#[test]
fn a_code_without_a_word_is_refused() {
    let refused = Table::new([("op", Values::words(vec![0, 2], &["read", "write"]))]).unwrap_err();
    assert_eq!(refused, TableError::Code { name: "op".to_owned(), row: 1, code: 2, words: 2 });
}

#[test]
fn a_row_knows_whether_it_has_a_value() {
    let valid = (0..9).map(|row| row != 8).collect();
    let table = Table::with_gaps([("a", Values::U64((0..9).collect()), Some(valid))]).unwrap();
    let column = &table.columns()[0];
    assert_eq!([0, 7, 8, 9].map(|row| column.is_valid(row)), [true, true, false, false]);
}

#[test]
fn values_are_read_back_as_they_were_given() {
    let table =
        Table::new([("name", Values::text(["a", "", "xyz"])), ("hit", Values::flags([false, true, true]))])
            .unwrap();
    let [name, hit] = [0, 1].map(|column| table.columns()[column].values());
    let Values::Text(names) = name else { unreachable!("the first column has texts") };
    assert_eq!([0, 1, 2, 3].map(|row| names.get(row)), ["a", "", "xyz", ""]);
    let Values::Flags(hits) = hit else { unreachable!("the second column has switches") };
    assert_eq!([0, 1, 2, 3].map(|row| hits.get(row)), [false, true, true, false]);
}
