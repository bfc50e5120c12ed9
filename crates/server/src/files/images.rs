//! The images that a restore reads.

use super::not_opened;
use super::source::FileSource;
use crate::file_system::{Files, How, Lock};
use crate::task::file_request::{Chunk, FileResult};
use apps::backup::image::{self, Header};
use apps::backup::{Point, restore};
use apps::snapshot::Shape;
use std::path::PathBuf;

/// An image whose checksums were verified.
struct VerifiedImage {
    source: FileSource,
    header: Header,
    /// The image's path, for messages.
    place: String,
}

/// Verified images, in the order in which a restore applies them.
pub(crate) struct Images {
    files: Vec<VerifiedImage>,
    chunks: u64,
    sector: u64,
    capacity: u64,
    /// The position of the next read: index of the image, and byte in it.
    at: (usize, u64),
    number: u64,
}

impl Images {
    /// Opens all images and verifies their checksums, and that each image of differences follows the
    /// image that it was compared with.
    pub fn open(
        files: &dyn Files,
        paths: &[PathBuf],
        sector: u64,
        capacity: u64,
    ) -> Result<Self, FileResult> {
        let (mut open, mut chunks, mut onto) = (Vec::new(), 0u64, None);
        for path in paths {
            let place = path.display().to_string();
            let file = files.claim(path, How::Read, Lock::Shared).map_err(|e| not_opened(&place, &e))?;
            let mut source = FileSource(file);
            let header = restore::verify(&mut source).map_err(|damage| match &damage.what {
                image::What::Source(_) => FileResult::Trouble(format!("{place}: {damage}")),
                _ => FileResult::Refused(format!("{place}: {damage}")),
            })?;
            let refused = |why: String| FileResult::Refused(format!("{place}: {why}"));
            if u64::from(header.sector_bytes) != sector {
                let found = header.sector_bytes;
                return Err(refused(format!(
                    "sectors of {found} bytes, and the disk's have {sector}; give its own"
                )));
            }
            // The last block may be padded, but by less than a block.
            let last = header.shape.home(header.shape.blocks.saturating_sub(1)).get();
            if header.shape.blocks > 0 && last >= capacity {
                return Err(refused("the image is of a larger disk; restore it there".into()));
            }
            let volume = header.shape.volume;
            if let Some(base) = header.base.filter(|base| onto != Some(Point { volume, snapshot: *base })) {
                return Err(refused(format!(
                    "the image is a difference from {base} of {volume}; name that before it, and the full image first"
                )));
            }
            onto = Some(Point { volume, snapshot: header.snapshot });
            chunks = chunks.saturating_add(header.chunks);
            open.push(VerifiedImage { source, header, place });
        }
        Ok(Self { files: open, chunks, sector, capacity, at: (0, image::HEADER_BYTES), number: 0 })
    }

    /// Returns the number of chunks in all images.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns whether the first image has a block for each sector of the disk.
    pub fn are_whole(&self) -> bool {
        self.files.first().is_some_and(|VerifiedImage { header, .. }| {
            let Shape { first, block, blocks, .. } = header.shape;
            let end = first.get().saturating_add(block.get().saturating_mul(blocks));
            header.base.is_none() && header.chunks == blocks && first.get() == 0 && end >= self.capacity
        })
    }

    /// Returns the random number by which each image is identified.
    pub fn identities(&self) -> Vec<u64> {
        self.files.iter().map(|file| file.header.image).collect()
    }

    /// Returns the next chunks, in order and all of one image, because a later image's chunks must be
    /// written after them.
    pub fn read(&mut self, most: usize) -> Result<Vec<Chunk>, String> {
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        while bytes < most {
            let (index, at) = self.at;
            let Some(VerifiedImage { source, header, place }) = self.files.get_mut(index) else { break };
            match image::chunk(source, header, at).map_err(|e| format!("{place}: {e}"))? {
                Some(chunk) => {
                    self.at.1 = chunk.end;
                    let first = header.shape.home(chunk.block).get();
                    let mut data = chunk.bytes;
                    let room = self.capacity.saturating_sub(first).saturating_mul(self.sector);
                    data.truncate(usize::try_from(room).unwrap_or(usize::MAX));
                    bytes += data.len();
                    chunks.push(Chunk {
                        number: self.number,
                        image: index,
                        first,
                        bytes: data,
                        bad: chunk.bad,
                    });
                    self.number += 1;
                }
                None => {
                    self.at = (index + 1, image::HEADER_BYTES);
                    if !chunks.is_empty() {
                        break;
                    }
                }
            }
        }
        Ok(chunks)
    }
}
