//! Restore: writes images back to the disk, through a session.
//!
//! All images are verified before the first block is written. Blocks are read in the order of the images, a bounded
//! number of bytes ahead (the window). The blocks of a difference are written after all blocks of the image before it,
//! and not at all if one of those could not be written: a later try to write that block would overwrite a newer one.

use super::job::{Context, DurableProgress, Job, Stage};
use super::landed::Landed;
use crate::task::file_request::{Chunk, FileOp, FileResult};
use crate::task::table::{Figures, LISTED_BAD_SECTORS_MAX};
use scheduler::{BlockSet, Parameter, Record, SessionError, Wanted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use units::{Lbn, LbnRange, Sectors, SessionId};

/// The most bytes that are read from images and not yet written to the disk.
const WINDOW_BYTES: usize = 8 << 20;

/// A chunk, which is a block of an image, on its way to the disk.
struct Writing {
    chunk: Chunk,
    /// Sectors that have not been written.
    left: u64,
    /// Whether a sector of the chunk could not be written.
    failed: bool,
}

/// A restore at work.
pub(crate) struct Restore {
    images: Vec<PathBuf>,
    /// The identity of each image that was verified.
    identities: Option<Vec<u64>>,
    saved: Vec<u8>,
    session: Option<SessionId>,
    /// The chunks that are on the medium, by number.
    done: Option<BlockSet>,
    waiting: VecDeque<Chunk>,
    writing: BTreeMap<u64, Writing>,
    bytes: usize,
    reading: bool,
    read_all: bool,
    bad: BTreeSet<u64>,
    bad_more: u64,
    /// The number of sectors that could not be written. Chunks with such sectors do not count as done.
    unwritten: u64,
    /// The image with the last sector that could not be written.
    unwritten_image: Option<usize>,
    /// Whether the images have a block for each sector of the disk.
    whole: bool,
    written_bytes: u64,
    /// Chunks that are written, but perhaps only to the disk's cache.
    landed: Landed<u64>,
    paused: bool,
    trouble: Option<String>,
    failed: Option<String>,
    refused: Option<SessionError>,
    unsaved: bool,
}

impl Restore {
    /// Begins the restore, or continues from the progress in `saved`.
    pub fn begin(cx: &mut Context<'_>, images: Vec<PathBuf>, saved: &[u8], before: &Figures) -> Self {
        let restore = Self {
            images,
            identities: None,
            saved: saved.to_vec(),
            session: None,
            done: None,
            waiting: VecDeque::new(),
            writing: BTreeMap::new(),
            bytes: 0,
            reading: false,
            read_all: false,
            bad: before.bad.iter().copied().collect(),
            bad_more: before.bad_more,
            unwritten: 0,
            unwritten_image: None,
            whole: false,
            written_bytes: before.bytes,
            landed: Landed::default(),
            paused: false,
            trouble: None,
            failed: None,
            refused: None,
            unsaved: false,
        };
        restore.verify(cx);
        restore
    }

    fn verify(&self, cx: &mut Context<'_>) {
        let (sector_bytes, capacity) = (cx.disk.sector_bytes.get(), cx.disk.capacity.get());
        cx.target(FileOp::Verify { images: self.images.clone(), sector_bytes, capacity });
    }

    fn verified(&mut self, cx: &mut Context<'_>, chunks: u64, images: Vec<u64>) {
        let same = self.identities.as_ref().is_none_or(|before| *before == images);
        let known = match self.saved.is_empty() {
            true => Some(BlockSet::empty(chunks)),
            false => decode_with(&self.saved, &images, chunks),
        };
        let Some(mut done) = known.filter(|_| same) else {
            self.failed =
                Some("the images are others than those that the restore began with; begin anew".into());
            return;
        };
        self.identities = Some(images);
        // After a failure the images are read again from the first; chunks on the medium are not written again.
        if let Some(before) = &self.done {
            before.for_each(0, before.blocks(), |n| {
                let _ = done.insert(n);
            });
        }
        if self.session.is_none() {
            match cx.sessions.open(cx.priority) {
                Ok(session) => self.session = Some(session),
                Err(error) => {
                    self.failed = Some(error.to_string());
                    return;
                }
            }
            if self.paused {
                self.pause(cx, true);
            }
        }
        (self.done, self.trouble, self.read_all, self.unsaved) = (Some(done), None, false, true);
        (self.unwritten, self.unwritten_image) = (0, None);
        self.go_on(cx);
    }

    /// Reads and writes as far as the window permits.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        let Some(session) = self.session else { return };
        self.refused = None;
        while let Some(chunk) = self.waiting.pop_front() {
            let Some(done) = &self.done else { return };
            if done.contains(chunk.number)
                || self.landed.iter().any(|n| *n == chunk.number)
                || self.writing.contains_key(&chunk.number)
            {
                self.bytes = self.bytes.saturating_sub(chunk.bytes.len());
                continue;
            }
            // A chunk of the next image waits until all chunks of the image before it have been written.
            if self.writing.values().next().is_some_and(|w| w.chunk.image != chunk.image) {
                self.waiting.push_front(chunk);
                break;
            }
            if self.unwritten_image.is_some_and(|image| image != chunk.image) {
                self.failed = Some(self.why_unwritten());
                break;
            }
            let sector = cx.disk.sector_bytes.get();
            if let Err(error) = self.write(cx, session, chunk, sector) {
                match error {
                    SessionError::TooManyTasks { .. } => self.refused = Some(error),
                    other => self.failed = Some(other.to_string()),
                }
                break;
            }
        }
        if !self.reading && !self.read_all && self.bytes < WINDOW_BYTES / 2 && self.trouble.is_none() {
            self.reading = true;
            cx.target(FileOp::Read { most: WINDOW_BYTES / 2 });
        }
    }

    /// Registers the writes of a chunk, without its bad sectors. A chunk that the core refuses waits.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        session: SessionId,
        chunk: Chunk,
        sector: u64,
    ) -> Result<(), SessionError> {
        let sectors = (chunk.bytes.len() as u64).checked_div(sector).unwrap_or(0);
        let (mut tasks, mut left, mut from) = (Vec::new(), 0, 0);
        for end in chunk.bad.iter().map(|s| u64::from(*s)).chain([sectors]) {
            let end = end.min(sectors);
            if end > from {
                let range =
                    LbnRange::new(Lbn::new(chunk.first.saturating_add(from)), Sectors::new(end - from));
                match cx.sessions.write(session, range, range.len(), Parameter(chunk.number)) {
                    Ok(task) => tasks.push(task),
                    Err(error) => {
                        // The chunk is registered whole or not at all: withdraw its tasks.
                        tasks.into_iter().for_each(|task| {
                            let _ = cx.sessions.abort(task);
                        });
                        self.waiting.push_front(chunk);
                        return Err(error);
                    }
                }
                left += end - from;
            }
            from = end + 1;
        }
        for lbn in chunk.bad.iter().map(|s| chunk.first.saturating_add(u64::from(*s))) {
            self.note_bad(lbn);
        }
        let number = chunk.number;
        self.writing.insert(number, Writing { chunk, left, failed: false });
        if left == 0 {
            self.written(number);
        }
        Ok(())
    }

    fn note_bad(&mut self, lbn: u64) {
        if self.bad.len() < LISTED_BAD_SECTORS_MAX {
            self.bad.insert(lbn);
        } else if !self.bad.contains(&lbn) {
            self.bad_more += 1;
        }
    }

    /// Records that a chunk has no more sectors to be written.
    fn written(&mut self, number: u64) {
        let Some(writing) = self.writing.remove(&number) else { return };
        let bytes = writing.chunk.bytes.len();
        self.bytes = self.bytes.saturating_sub(bytes);
        if !writing.failed {
            self.written_bytes = self.written_bytes.saturating_add(bytes as u64);
            self.landed.push(number);
        }
    }

    /// Begins to write the sectors of a failed write one by one, because most of them may be sound. Returns whether the
    /// writes have begun. After [`LISTED_BAD_SECTORS_MAX`] failed sectors there are no such further tries.
    fn write_singly(&self, cx: &mut Context<'_>, record: &Record) -> bool {
        let one = Sectors::new(1);
        let (true, Some(session)) = (self.unwritten < LISTED_BAD_SECTORS_MAX as u64, self.session) else {
            return false;
        };
        record.range.len() > one && cx.sessions.write(session, record.range, one, record.parameter).is_ok()
    }

    fn why_unwritten(&self) -> String {
        let unwritten = self.unwritten;
        format!(
            "{unwritten} sectors could not be written; look at the disk and its connection, and restore again"
        )
    }

    /// Returns whether all chunks have been written or have failed, so that at most a flush is left.
    fn is_written(&self) -> bool {
        self.read_all && self.writing.is_empty() && self.waiting.is_empty()
    }

    fn is_done(&self) -> bool {
        self.done.as_ref().is_some_and(|done| done.len() == done.blocks())
    }
}

impl Job for Restore {
    fn done(&mut self, cx: &mut Context<'_>, record: &Record, _: &[u8]) {
        let number = record.parameter.0;
        if !self.writing.contains_key(&number) || (record.bad.is_some() && self.write_singly(cx, record)) {
            return;
        }
        if let Some(lbn) = record.bad {
            self.note_bad(lbn.get());
            self.unwritten = self.unwritten.saturating_add(record.range.len().get());
        }
        let Some(writing) = self.writing.get_mut(&number) else { return };
        writing.left = writing.left.saturating_sub(record.range.len().get());
        if record.bad.is_some() {
            (writing.failed, self.unwritten_image) = (true, Some(writing.chunk.image));
        }
        let left = writing.left;
        if left == 0 {
            self.written(number);
            self.go_on(cx);
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let Some(writing) = self.writing.get(&wanted.parameter.0) else { return false };
        let sectors = wanted.range.len().get().max(1);
        let sector = into.len() as u64 / sectors;
        let Some(ahead) = wanted.range.start().get().checked_sub(writing.chunk.first) else { return false };
        let Ok(from) = usize::try_from(ahead.saturating_mul(sector)) else { return false };
        let bytes = writing.chunk.bytes.get(from..from.saturating_add(into.len()));
        if let Some(bytes) = bytes {
            into.copy_from_slice(bytes);
        }
        bytes.is_some()
    }

    fn file_done(&mut self, cx: &mut Context<'_>, _: bool, result: FileResult) {
        match result {
            FileResult::Verified { chunks, images, whole } => {
                self.whole = whole;
                self.verified(cx, chunks, images);
            }
            FileResult::Chunks(chunks) => {
                self.reading = false;
                self.read_all = chunks.is_empty();
                self.bytes += chunks.iter().map(|c| c.bytes.len()).sum::<usize>();
                self.waiting.extend(chunks);
                self.go_on(cx);
            }
            FileResult::Trouble(why) => {
                self.reading = false;
                self.trouble = Some(why);
            }
            FileResult::Refused(why) => self.failed = Some(why),
            _ => {}
        }
    }

    fn wants_flush(&mut self) -> bool {
        let all = self.is_written();
        self.landed.wants(all)
    }

    fn flushed(&mut self, _: &mut Context<'_>, result: Result<(), String>) {
        let flushed = self.landed.flushed();
        match (result, &mut self.done) {
            (Ok(()), Some(done)) => {
                flushed.into_iter().for_each(|n| {
                    let _ = done.insert(n);
                });
                self.unsaved = true;
            }
            (Err(why), _) => self.failed = Some(format!("the disk cannot be flushed: {why}; restore again")),
            (Ok(()), None) => {}
        }
    }

    fn pause(&mut self, cx: &mut Context<'_>, paused: bool) {
        self.paused = paused;
        if let Some(session) = self.session {
            let _ = if paused { cx.sessions.suspend(session) } else { cx.sessions.resume(session) };
        }
    }

    fn retry(&mut self, cx: &mut Context<'_>) {
        match self.trouble {
            Some(_) => {
                self.bytes -= self.waiting.drain(..).map(|c| c.bytes.len()).sum::<usize>().min(self.bytes);
                self.verify(cx);
            }
            None => self.go_on(cx),
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.landed.set_due();
        if self.refused.is_some() {
            self.go_on(cx);
        }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(session) = self.session.take() {
            let _ = cx.sessions.close(session);
        }
    }

    fn replaces_all(&self) -> bool {
        self.whole && self.is_done()
    }

    fn stage(&self) -> Stage {
        match (&self.failed, &self.trouble) {
            (Some(why), _) => Stage::Failed(why.clone()),
            _ if self.is_done() => Stage::Done,
            (None, None)
                if self.unwritten > 0 && self.is_written() && self.landed.iter().next().is_none() =>
            {
                Stage::Failed(self.why_unwritten())
            }
            (None, Some(why)) => Stage::Waiting(why.clone()),
            (None, None) if self.done.is_none() => Stage::Opening,
            (None, None) => Stage::Running,
        }
    }

    fn save(&mut self) -> Option<DurableProgress> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        let done = self.done.as_ref()?;
        self.saved = encode_with(self.identities.as_deref().unwrap_or_default(), done);
        let figures = Figures {
            done: done.len(),
            blocks: done.blocks(),
            bytes: self.written_bytes,
            bad: self.bad.iter().copied().collect(),
            bad_more: self.bad_more,
            ..Figures::default()
        };
        Some(DurableProgress { figures, saved: self.saved.clone() })
    }
}

/// Encodes the progress: the number of images, the identity of each, and the set of chunks.
fn encode_with(images: &[u64], set: &BlockSet) -> Vec<u8> {
    let mut bytes = (images.len() as u64).to_le_bytes().to_vec();
    bytes.extend(images.iter().flat_map(|image| image.to_le_bytes()));
    bytes.extend(encode(set));
    bytes
}

/// Decodes the progress of a restore of these images. `None` if the progress is of other images; the progress of an
/// earlier version names no images and counts as such.
fn decode_with(bytes: &[u8], images: &[u64], chunks: u64) -> Option<BlockSet> {
    let before = encode_with(images, &BlockSet::empty(0));
    let header = before.len().checked_sub(8).and_then(|len| before.get(..len))?;
    decode(bytes.strip_prefix(header)?, chunks)
}

/// Encodes a set as its size and its runs (first, length), in numbers of eight bytes. Chunks are written nearly in
/// order, so runs are few.
pub(super) fn encode(set: &BlockSet) -> Vec<u8> {
    let mut bytes = set.blocks().to_le_bytes().to_vec();
    let mut at = 0;
    while let Some(Range { start: first, end }) = set.run(at, set.blocks()) {
        bytes.extend(first.to_le_bytes());
        bytes.extend((end - first).to_le_bytes());
        at = end;
    }
    bytes
}

pub(super) fn decode(bytes: &[u8], blocks: u64) -> Option<BlockSet> {
    let mut numbers = bytes.chunks(8).map(|b| b.try_into().ok().map(u64::from_le_bytes));
    (numbers.next()?? == blocks).then_some(())?;
    let mut missing = BlockSet::full(blocks);
    while let Some(first) = numbers.next() {
        let (first, len) = (first?, numbers.next()??);
        let end = first.checked_add(len).filter(|end| *end <= blocks)?;
        missing.remove_range(first, end);
    }
    let mut done = BlockSet::full(blocks);
    let mut at = 0;
    while let Some(Range { start: first, end }) = missing.run(at, blocks) {
        done.remove_range(first, end);
        at = end;
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_set_survives_encoding_and_decoding(blocks in 1u64..3_000, gone in proptest::collection::vec((0u64..3_000, 1u64..99), 0..20)) {
            let mut set = BlockSet::full(blocks);
            for (first, len) in gone {
                set.remove_range(first.min(blocks), (first + len).min(blocks));
            }
            let back = decode(&encode(&set), blocks).unwrap();
            prop_assert_eq!(back.len(), set.len());
            set.for_each(0, blocks, |b| assert!(back.contains(b)));
        }

        #[test]
        fn no_bytes_panic_the_reader_of_block_sets(bytes in proptest::collection::vec(any::<u8>(), 0..64), blocks in 0u64..999) {
            let _ = decode(&bytes, blocks);
        }
    }
}
