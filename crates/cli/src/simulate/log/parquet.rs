//! Rows in Apache Parquet, which stores each column of a group of rows on its own.

use super::{Row, WriteError, Writer};
use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::sync::Arc;

/// The number of rows in a group. A group is held in memory until it is written: 6 MiB.
const GROUP_ROWS: usize = 1 << 16;

/// The columns that hold words. `device` and `cache_hit` have types of their own, and all other columns are 64-bit integers.
const WORDS: [&str; 2] = ["op", "served"];

pub(super) struct Parquet {
    file: SerializedFileWriter<File>,
    rows: Vec<Row>,
}

impl Parquet {
    /// Writes the beginning of the file.
    pub(super) fn begin(file: File) -> Result<Self, WriteError> {
        // Times and addresses hardly repeat, but differ little from row to row, so deltas are short. Words repeat.
        let mut properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding(ColumnPath::from("cache_hit"), Encoding::PLAIN);
        for word in WORDS {
            properties = properties
                .set_column_encoding(ColumnPath::from(word), Encoding::PLAIN)
                .set_column_dictionary_enabled(ColumnPath::from(word), true);
        }
        let file = SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties.build()))?;
        Ok(Self { file, rows: Vec::with_capacity(GROUP_ROWS) })
    }

    /// Writes the rows held as a group.
    fn write_group(&mut self) -> Result<(), WriteError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = &self.rows;
        let mut group = self.file.next_row_group()?;
        longs(&mut group, rows, |row| row.arrival_ns)?;
        longs(&mut group, rows, |row| row.start_ns)?;
        longs(&mut group, rows, |row| row.completion_ns)?;
        column::<ByteArrayType>(&mut group, rows.iter().map(|row| ByteArray::from(row.op)))?;
        longs(&mut group, rows, |row| row.lbn)?;
        longs(&mut group, rows, |row| row.sectors)?;
        column::<Int32Type>(&mut group, rows.iter().map(|row| row.device.cast_signed()))?;
        column::<BoolType>(&mut group, rows.iter().map(|row| row.cache_hit))?;
        column::<ByteArrayType>(&mut group, rows.iter().map(|row| ByteArray::from(row.served)))?;
        longs(&mut group, rows, |row| row.seek_ns)?;
        longs(&mut group, rows, |row| row.rotation_ns)?;
        longs(&mut group, rows, |row| row.transfer_ns)?;
        longs(&mut group, rows, |row| row.id)?;
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

/// Writes the next column of a group, of 64-bit integers. No simulation lasts for 2^63 ns, and no drive has 2^63 sectors.
fn longs(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[Row],
    of: fn(&Row) -> u64,
) -> Result<(), WriteError> {
    column::<Int64Type>(group, rows.iter().map(|row| of(row).cast_signed()))
}

/// Writes the next column of a group.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), WriteError> {
    let mut column = group.next_column()?.ok_or("more columns than the schema has")?;
    column.typed::<T>().write_batch(&values.collect::<Vec<_>>(), None, None)?;
    Ok(column.close()?)
}

/// Returns the columns with their types; every row has a value in every column.
fn schema() -> Result<Type, WriteError> {
    let field = |name: &&str| -> Result<Arc<Type>, WriteError> {
        let (physical, logical) = match *name {
            "op" | "served" => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            "device" => (Physical::INT32, None),
            "cache_hit" => (Physical::BOOLEAN, None),
            _ => (Physical::INT64, None),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    };
    let fields: Result<Vec<_>, WriteError> = super::COLUMNS.iter().map(field).collect();
    Ok(Type::group_type_builder("request").with_fields(fields?).build()?)
}

impl Writer for Parquet {
    fn write(&mut self, row: &Row) -> Result<(), WriteError> {
        self.rows.push(*row);
        if self.rows.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.write_group()?;
        self.file.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn row(n: u64) -> Row {
        Row {
            arrival_ns: n * 1_000,
            start_ns: n * 1_000 + 1,
            completion_ns: n * 1_000 + 900,
            write: n % 3 == 0,
            lbn: n.wrapping_mul(0x9e37_79b9) % 17_000_000,
            sectors: 8 + n % 2,
            device: (n % 4) as u32,
            cache_hit: n % 5 == 0,
            served: if n % 5 == 0 { "hit" } else { "miss" },
            seek_ns: n % 7,
            rotation_ns: n % 11,
            transfer_ns: n % 13,
            id: n,
        }
    }

    /// Returns the names and values of a row as the library's reader finds them.
    fn read(row: &parquet::record::Row) -> Vec<(String, Field)> {
        row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
    }

    #[test]
    fn rows_are_read_back_in_several_groups() {
        let path = std::env::temp_dir().join(format!("freeblock-log-{}.parquet", std::process::id()));
        let rows = GROUP_ROWS as u64 + 1_000;
        let mut log = Box::new(Parquet::begin(File::create(&path).unwrap()).unwrap());
        (0..rows).for_each(|n| log.write(&row(n)).unwrap());
        log.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let mut found = 0;
        for (n, got) in (0..).zip(reader.get_row_iter(None).unwrap()) {
            let expected = row(n);
            let long = |value: u64| Field::Long(value.cast_signed());
            let word = |word: &str| Field::Str(word.to_owned());
            let values = [
                long(expected.arrival_ns),
                long(expected.start_ns),
                long(expected.completion_ns),
                word(expected.op),
                long(expected.lbn),
                long(expected.sectors),
                Field::Int(expected.device.cast_signed()),
                Field::Bool(expected.cache_hit),
                word(expected.served),
                long(expected.seek_ns),
                long(expected.rotation_ns),
                long(expected.transfer_ns),
                long(expected.id),
            ];
            let names = super::super::COLUMNS.map(str::to_owned);
            assert_eq!(read(&got.unwrap()), names.into_iter().zip(values).collect::<Vec<_>>());
            found += 1;
        }
        assert_eq!(found, rows);
        std::fs::remove_file(path).unwrap();
    }
}
