//! Blocks that had to be copied before they were overwritten, until their target has them.
//!
//! They are an image without an end, in the state directory: the target may be slow, full or away, and a foreground
//! write waits for this file only.

use super::files::{File, Files, How};
use super::source::{FileSink, FileSource};
use apps::backup::ImageWriter;
use apps::backup::image::{self, Header};
use scheduler::BlockSet;
use std::path::Path;

/// The kept blocks of a task.
pub(crate) struct Kept {
    writer: ImageWriter<FileSink>,
    most: u64,
}

impl Kept {
    /// Goes on with what is there; the blocks.
    pub fn open(
        files: &dyn Files,
        path: &Path,
        header: Header,
        most: u64,
    ) -> Result<(Self, BlockSet), String> {
        let mut present = BlockSet::empty(header.shape.blocks);
        let file = files.open(path, How::Make).map_err(|e| e.to_string())?;
        let mut source = FileSource(file);
        let old = image::scan(&mut source).ok().filter(|scan| scan.header == header);
        let mut file: Box<dyn File> = source.0;
        let writer = match old {
            Some(scan) => {
                file.set_len(scan.keep).map_err(|e| e.to_string())?;
                // Whoever was killed may not have made it durable.
                file.sync().map_err(|e| e.to_string())?;
                let at = scan.keep;
                ImageWriter::resume(scan, FileSink::new(file, at))
            }
            // Without a whole header nothing in it was ever durable.
            None => {
                file.set_len(0).map_err(|e| e.to_string())?;
                ImageWriter::new(header, FileSink::new(file, 0))
            }
        };
        writer.blocks().for_each(|block| {
            let _ = present.insert(block);
        });
        Ok((Self { writer, most }, present))
    }

    /// Keeps a block, durably.
    pub fn keep(&mut self, block: u64, bytes: &[u8], bad: &[u32]) -> Result<(), String> {
        let size = self.writer.sink_mut().at().saturating_add(bytes.len() as u64);
        if size > self.most {
            return Err(format!(
                "more than {} bytes of the disk as it was had to be kept while the target took nothing; \
                 give keep_bytes_max more, or a target with room, and begin anew",
                self.most
            ));
        }
        self.writer.put(block, bytes, bad);
        match self.writer.flush() {
            Ok(true) => self.writer.sink_mut().sync_now(),
            Ok(false) => Err("the state directory is full; make room, and begin anew".into()),
            Err(why) => Err(format!("the state directory fails: {why}; begin anew")),
        }
    }
}

/// Reads kept blocks one by one; the first of each counts.
pub(crate) fn each(
    files: &dyn Files,
    path: &Path,
    header: &Header,
    mut put: impl FnMut(u64, &[u8], &[u32]),
) -> Result<(), String> {
    let file = match files.open(path, How::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|e| e.to_string())?,
    };
    let mut source = FileSource(file);
    let Ok(found) = image::header(&mut source) else { return Ok(()) };
    if found != *header {
        return Ok(());
    }
    let mut at = image::HEADER_BYTES;
    while let Ok(Some(chunk)) = image::chunk(&mut source, header, at) {
        at = chunk.end;
        put(chunk.block, &chunk.bytes, &chunk.bad);
    }
    Ok(())
}
