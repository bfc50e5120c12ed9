//! The reads of copy-before-write. A block that a foreground write is about to overwrite is read as foreground work,
//! and a block under a background write as background work.

use super::job::{Context, Copying};
use scheduler::{Parameter, Record, SessionError};
use std::collections::BTreeMap;
use units::{Lbn, LbnRange, Sectors, SessionId, TaskId};

/// A block that is being read.
struct BlockRead {
    block: u64,
    range: LbnRange,
    /// The bytes and the bad sectors so far, if the whole block could not be read and its sectors are read one by one.
    sifted: Option<(Vec<u8>, Vec<u32>)>,
    left: u64,
}

/// A block that was read.
pub(crate) struct ReadBlock {
    pub block: u64,
    pub bytes: Vec<u8>,
    pub bad: Vec<u32>,
}

/// A reader of blocks that are about to be overwritten, through a session of its own.
#[derive(Default)]
pub(crate) struct PriorityReader {
    session: Option<SessionId>,
    asked: BTreeMap<TaskId, BlockRead>,
    /// The blocks that are being read, and whether each is promoted to foreground work.
    blocks: BTreeMap<u64, bool>,
}

impl PriorityReader {
    /// Requests the read of a block, as foreground work with [`Copying::Now`]. If the core refuses, the next try of a
    /// held write asks again.
    pub fn ask(
        &mut self,
        cx: &mut Context<'_>,
        block: u64,
        range: LbnRange,
        copying: Copying,
    ) -> Result<(), SessionError> {
        if !self.blocks.contains_key(&block) {
            self.read(cx, block, range, None)?;
            self.blocks.insert(block, false);
        }
        match copying {
            Copying::Now => self.promote(cx, block, range),
            Copying::Later => Ok(()),
        }
    }

    fn promote(&mut self, cx: &mut Context<'_>, block: u64, range: LbnRange) -> Result<(), SessionError> {
        let Some((promoted, session)) = self.blocks.get_mut(&block).zip(self.session) else { return Ok(()) };
        if !*promoted {
            // If the core's pool has no room, the next try of a held write asks again.
            *promoted = cx.sessions.promote(session, range)? > 0;
        }
        Ok(())
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        block: u64,
        range: LbnRange,
        sifted: Option<(Vec<u8>, Vec<u32>)>,
    ) -> Result<(), SessionError> {
        let session = match self.session {
            Some(session) => session,
            None => {
                let session = cx.sessions.open(cx.priority)?;
                // The core must not serve this read from the bytes of the held write: the old content is needed.
                cx.sessions.serve_reads_by_writes(session, false)?;
                *self.session.insert(session)
            }
        };
        let (size, left) = match &sifted {
            Some(_) => (Sectors::new(1), range.len().get()),
            None => (range.len(), 1),
        };
        let task = cx.sessions.read(session, range, size, Parameter(block))?;
        self.asked.insert(task, BlockRead { block, range, sifted, left });
        Ok(())
    }

    /// Returns whether a record of the core is for this reader's session.
    pub fn is_of(&self, record: &Record) -> bool {
        self.session == Some(record.session)
    }

    /// Takes a record of the core for this reader's session. Returns the block when all of the block has arrived.
    pub fn done(
        &mut self,
        cx: &mut Context<'_>,
        record: &Record,
        bytes: &[u8],
        sector: usize,
    ) -> Result<Option<ReadBlock>, SessionError> {
        let Some(asked) = self.asked.get_mut(&record.task) else { return Ok(None) };
        let BlockRead { block, range, .. } = *asked;
        let whole = usize::try_from(range.len().get()).unwrap_or(usize::MAX).saturating_mul(sector);
        let Some((all, bad)) = &mut asked.sifted else {
            self.asked.remove(&record.task);
            if record.bad.is_some() || bytes.len() != whole {
                self.read(cx, block, range, Some((vec![0; whole], Vec::new())))?;
                if self.blocks.get_mut(&block).is_some_and(std::mem::take) {
                    self.promote(cx, block, range)?;
                }
                return Ok(None);
            }
            self.blocks.remove(&block);
            return Ok(Some(ReadBlock { block, bytes: bytes.to_vec(), bad: Vec::new() }));
        };
        let at = place(record.range.start(), range);
        let from = at.saturating_mul(sector);
        match all.get_mut(from..from.saturating_add(sector)).filter(|into| into.len() == bytes.len()) {
            Some(into) if record.bad.is_none() => into.copy_from_slice(bytes),
            _ => bad.push(u32::try_from(at).unwrap_or(u32::MAX)),
        }
        asked.left = asked.left.saturating_sub(1);
        if asked.left > 0 {
            return Ok(None);
        }
        let read = self.asked.remove(&record.task).and_then(|asked| asked.sifted);
        self.blocks.remove(&block);
        Ok(read.map(|(bytes, mut bad)| {
            bad.sort_unstable();
            ReadBlock { block, bytes, bad }
        }))
    }

    /// Closes the reader's session.
    pub fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(session) = self.session.take() {
            let _ = cx.sessions.close(session);
        }
        self.asked.clear();
        self.blocks.clear();
    }
}

fn place(lbn: Lbn, range: LbnRange) -> usize {
    usize::try_from(lbn.get().saturating_sub(range.start().get())).unwrap_or(usize::MAX)
}
