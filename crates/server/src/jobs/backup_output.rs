//! The two ends of a backup: its source, a disk that seems not to change, and its output.

use apps::backup::{Output, image::Header};
use apps::snapshot::{Extent, Gone, Provider, Shape, SnapshotId, SnapshotPlace};
use scheduler::BlockSet;
use units::{LbnRange, Sectors};

/// A snapshot whose blocks are all at their own addresses on the disk: a block is copied before a write overwrites it.
pub(crate) struct InPlaceProvider {
    pub shape: Shape,
    pub capacity: Sectors,
}

impl InPlaceProvider {
    fn run(&self, from: u64, blocks: u64) -> LbnRange {
        let start = self.shape.home(from);
        let rest = self.capacity.get().saturating_sub(start.get());
        LbnRange::new(start, Sectors::new(blocks.saturating_mul(self.shape.block.get()).min(rest)))
    }
}

impl Provider for InPlaceProvider {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn next(&self, _: SnapshotId, _: Option<SnapshotId>, from: u64) -> Result<Option<Extent>, Gone> {
        let blocks = self.shape.blocks.saturating_sub(from);
        Ok((blocks > 0).then(|| Extent { first: from, blocks, place: Some(self.run(from, blocks)) }))
    }

    fn locate(&self, _: SnapshotId, block: u64) -> Result<SnapshotPlace, Gone> {
        Ok(SnapshotPlace::At(self.run(block, 1)))
    }
}

/// A block for the target.
pub(crate) struct OutputBlock {
    pub block: u64,
    pub bytes: Vec<u8>,
    pub bad: Vec<u32>,
}

/// The output of a backup, which collects blocks until [`BackupOutput::take`] passes them on to be written.
pub(crate) struct BackupOutput {
    header: Header,
    present: BlockSet,
    kept: BlockSet,
    out: Vec<OutputBlock>,
    ending: bool,
    ended: bool,
}

impl BackupOutput {
    pub fn new(header: Header, present: BlockSet, kept: BlockSet) -> Self {
        Self { header, present, kept, out: Vec::new(), ending: false, ended: false }
    }

    /// Records that a block's old content has been kept: later reads of the block may be newer than the backup's
    /// instant, and are ignored.
    pub fn keep(&mut self, block: u64) {
        self.kept.insert(block);
    }

    /// Removes and returns the blocks that were put out since the last call.
    pub fn take(&mut self) -> Vec<OutputBlock> {
        std::mem::take(&mut self.out)
    }

    /// Returns whether the backup has put out all blocks.
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Ends the backup: the target is complete.
    pub fn end(&mut self) {
        self.ended = true;
    }
}

impl Output for BackupOutput {
    fn present(&self, each: &mut dyn FnMut(u64)) {
        self.present.for_each(0, self.present.blocks(), each);
    }

    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        if !self.kept.contains(block) {
            let mut bytes = bytes.to_vec();
            if !bytes.is_empty() {
                // The disk's last block may be shorter than a block of the image.
                bytes.resize(self.header.block_bytes(), 0);
            }
            self.out.push(OutputBlock { block, bytes, bad: bad.to_vec() });
        }
    }

    fn flush(&mut self) -> Result<bool, String> {
        Ok(!self.ending || self.ended)
    }

    fn waiting(&self) -> usize {
        0
    }

    fn finish(&mut self) {
        self.ending = true;
    }

    fn header(&self) -> &Header {
        &self.header
    }
}
