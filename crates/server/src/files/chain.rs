//! Former images, each applied on top of the one before, as the base of a new image that holds only
//! differences.

use super::not_opened;
use super::source::FileSource;
use crate::file_system::{Files, How, Lock};
use crate::task::file_request::FileResult;
use apps::backup::Point;
use apps::backup::image::{self, Header, Index};
use std::path::PathBuf;
use units::Sectors;

/// Open images with their indices. Only blocks that are compared are read from the images.
pub(crate) struct Chain {
    images: Vec<(FileSource, Index)>,
    capacity: u64,
}

impl Chain {
    /// Opens the images to compare a new one with; `header` is the header that a full image would have now.
    pub fn open(
        files: &dyn Files,
        paths: &[PathBuf],
        header: &Header,
        capacity: Sectors,
    ) -> Result<Self, FileResult> {
        let (mut images, mut onto) = (Vec::new(), None);
        for path in paths {
            let place = path.display().to_string();
            let refused = |why: String| FileResult::Refused(format!("{place}: {why}"));
            let file = files.claim(path, How::Read, Lock::Shared).map_err(|e| not_opened(&place, &e))?;
            let mut source = FileSource(file);
            let index = Index::open(&mut source).map_err(|damage| match &damage.what {
                image::What::Source(_) => FileResult::Trouble(format!("{place}: {damage}")),
                _ => refused(damage.to_string()),
            })?;
            let found = index.header();
            let volume = found.shape.volume;
            if volume != header.shape.volume {
                return Err(refused("the image is of another disk; name an image of this one".into()));
            }
            if (found.shape, found.sector_bytes) != (header.shape, header.sector_bytes) {
                let block = found.shape.block.get();
                return Err(refused(format!(
                    "the image is in blocks of {block} sectors; say block_sectors {block}, or make a new full backup"
                )));
            }
            if let Some(base) = found.base.filter(|base| onto != Some(Point { volume, snapshot: *base })) {
                return Err(refused(format!(
                    "the image is a difference from {base}; name that before it, and the full image first"
                )));
            }
            if found.snapshot >= header.snapshot {
                return Err(refused("the image is younger than the backup; name those before it".into()));
            }
            onto = Some(Point { volume, snapshot: found.snapshot });
            images.push((source, index));
        }
        Ok(Self { images, capacity: capacity.get() })
    }

    /// Returns the snapshot in the last image; the new image will hold the differences from it.
    pub fn base(&self) -> Option<apps::snapshot::SnapshotId> {
        self.images.last().map(|(_, index)| index.header().snapshot)
    }

    /// Returns whether the images hold these bytes for this block. A block that they lack, or have with bad
    /// sectors, counts as different.
    pub fn has(&mut self, block: u64, bytes: &[u8]) -> bool {
        for (source, index) in self.images.iter_mut().rev() {
            let Ok(found) = index.find(source, block, block.saturating_add(1)) else { return false };
            let Some((_, at)) = found.first() else { continue };
            let header = *index.header();
            let Ok(Some(chunk)) = image::chunk(source, &header, *at) else { return false };
            // The part of a block beyond the disk's end is padding, which may differ.
            let rest = self.capacity.saturating_sub(header.shape.home(block).get());
            let real = rest.saturating_mul(u64::from(header.sector_bytes));
            let real = usize::try_from(real).unwrap_or(usize::MAX).min(bytes.len());
            let same = chunk.bytes.get(..real).is_some_and(|then| bytes.get(..real) == Some(then));
            return chunk.block == block && chunk.bad.is_empty() && same;
        }
        false
    }
}
