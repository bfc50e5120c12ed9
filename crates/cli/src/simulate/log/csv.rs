//! Rows as text, with a heading.

use super::{COLUMNS, Row, WriteError, Writer};
use std::fs::File;
use std::io::{BufWriter, Write};

pub(super) struct Csv {
    file: BufWriter<File>,
}

impl Csv {
    /// Writes the heading.
    pub(super) fn begin(file: File) -> Result<Self, WriteError> {
        let mut file = BufWriter::new(file);
        writeln!(file, "{}", COLUMNS.join(","))?;
        Ok(Self { file })
    }
}

impl Writer for Csv {
    fn write(&mut self, row: &Row) -> Result<(), WriteError> {
        let Row { arrival_ns, start_ns, completion_ns, lbn, sectors, device, cache_hit, served, .. } = row;
        let Row { seek_ns, rotation_ns, transfer_ns, id, .. } = row;
        let (op, hit) = (row.op, u8::from(*cache_hit));
        writeln!(
            self.file,
            "{arrival_ns},{start_ns},{completion_ns},{op},{lbn},{sectors},{device},{hit},{served},{seek_ns},{rotation_ns},{transfer_ns},{id}"
        )?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        Ok(self.file.flush()?)
    }
}
