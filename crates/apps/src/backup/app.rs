//! A backup: a state machine that reads a snapshot's blocks through a session.

use super::{ImageWriter, Sink, image::Header};
use crate::feed::{Feed, Sieve};
use crate::sessions::{Application, Record, Sessions};
use crate::snapshot::{Gone, Provider, Shape, SnapshotId, SnapshotPlace};
use scheduler::{BlockSet, Priority, SessionError};
use thiserror::Error;
use units::{Instant, LbnRange, SessionId};

/// The most bytes that wait for a full target; a block that arrives beyond them is dropped and read again later.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The output of a backup: an image or a replica. Each block is put once; while the target is full, blocks wait in
/// the output's memory.
pub trait Output {
    /// Calls `each` with every block that the output has from before a restart.
    fn present(&self, each: &mut dyn FnMut(u64));
    /// Takes a block's bytes, and the indices of its bad sectors in the block. A lost block has no bytes and all
    /// sectors bad.
    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]);
    /// Writes the waiting bytes; returns `false` if the target has no room for all of them at present.
    ///
    /// # Errors
    /// The target failed; the text says why.
    fn flush(&mut self) -> Result<bool, String>;
    /// Returns the number of bytes that wait for the target.
    fn waiting(&self) -> usize;
    /// Marks the end: every block was put. The next [`flush`](Self::flush) that returns true makes the output whole
    /// and durable.
    fn finish(&mut self);
    /// Returns the header: which snapshot of which volume the output holds.
    fn header(&self) -> &Header;
}

impl<S: Sink> Output for ImageWriter<S> {
    fn present(&self, each: &mut dyn FnMut(u64)) {
        self.blocks().for_each(each);
    }
    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        ImageWriter::put(self, block, bytes, bad);
    }
    fn flush(&mut self) -> Result<bool, String> {
        ImageWriter::flush(self)
    }
    fn waiting(&self) -> usize {
        ImageWriter::waiting(self)
    }
    fn finish(&mut self) {
        ImageWriter::finish(self);
    }
    fn header(&self) -> &Header {
        ImageWriter::header(self)
    }
}

/// The reason for which a backup did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BackupStartError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The image or replica is of another snapshot, volume or base.
    #[error(
        "the image or replica is not of {0} of this volume with that base; give its own, or start a new one"
    )]
    OtherImage(SnapshotId),
    /// The scheduler refused the session.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// The state of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// Blocks are being read.
    Running,
    /// The target has no room, and the session is suspended. Make room, then call [`Backup::go_on`].
    TargetFull,
    /// All blocks are durable in the output.
    Finished,
    /// The snapshot is gone; the output is of no use.
    Gone(Gone),
    /// The output fails.
    OutputFailed(String),
    /// The scheduler refused a read. If other sessions have too many tasks, call [`Backup::go_on`] when some have
    /// ended.
    Refused(SessionError),
}

/// The counts of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks of the snapshot; in a difference, those that differ from its base.
    pub blocks: u64,
    /// Blocks in the output, including those from before a restart.
    pub written: u64,
    /// Blocks read in vain, because the foreground had moved them meanwhile (snapshot-copy-on-write).
    pub moved: u64,
    /// Blocks of which some sectors could not be read.
    pub damaged: u64,
}

/// A backup of one snapshot.
///
/// When a block's bytes arrive, the snapshot provider is asked where the block is. If it has moved since its read was
/// registered, the bytes may be newer than the snapshot, and the block is read again at its new address. No move is
/// missed: the provider changes its map before the foreground write begins, and a read never returns bytes from
/// before its registration.
#[derive(Clone, Debug)]
pub struct Backup<P, O> {
    provider: P,
    output: O,
    session: SessionId,
    shape: Shape,
    snapshot: SnapshotId,
    base: Option<SnapshotId>,
    sector_bytes: usize,
    feed: Feed,
    sieve: Sieve,
    state: BackupState,
    counts: Counts,
    /// Whether [`Output::finish`] was called.
    finishing: bool,
}

impl<P: Provider, O: Output> Backup<P, O> {
    /// Returns the number of blocks that a backup of the snapshot reads, for an image's header.
    ///
    /// # Errors
    /// The snapshot is gone.
    pub fn list_len(provider: &P, snapshot: SnapshotId, base: Option<SnapshotId>) -> Result<u64, Gone> {
        let (mut at, mut blocks) = (0, 0);
        while let Some(extent) = provider.next(snapshot, base, at)? {
            at = extent.first.saturating_add(extent.blocks);
            blocks += extent.blocks;
        }
        Ok(blocks)
    }

    /// Opens a session and registers the snapshot's blocks, except those that the output already has.
    ///
    /// # Errors
    /// The snapshot is gone, the output is of another snapshot, or the scheduler refuses the session.
    pub fn start(
        provider: P,
        output: O,
        (snapshot, base): (SnapshotId, Option<SnapshotId>),
        sector_bytes: usize,
        sessions: &mut dyn Sessions,
        priority: Priority,
    ) -> Result<Self, BackupStartError> {
        let shape = provider.shape();
        let mut todo = BlockSet::full(shape.blocks);
        let mut at = 0;
        while let Some(extent) = provider.next(snapshot, base, at)? {
            todo.remove_range(at, extent.first);
            at = extent.first.saturating_add(extent.blocks).max(at + 1);
        }
        todo.remove_range(at, shape.blocks);
        let (blocks, mut written, mut known) = (todo.len(), 0, true);
        output.present(&mut |block| {
            known &= todo.remove(block);
            written += 1;
        });
        let header = *output.header();
        let own =
            (header.shape, header.snapshot, header.base, header.chunks) == (shape, snapshot, base, blocks);
        if !known || !own || !header.fits() || u64::from(header.sector_bytes) != sector_bytes as u64 {
            return Err(BackupStartError::OtherImage(snapshot));
        }
        let session = sessions.open(priority)?;
        let feed = Feed::new(session, shape.block, todo);
        let counts = Counts { blocks, written, ..Counts::default() };
        let (sieve, state) = (Sieve::new(shape.blocks), BackupState::Running);
        let mut backup = Self {
            provider,
            output,
            session,
            shape,
            snapshot,
            base,
            sector_bytes,
            feed,
            sieve,
            state,
            counts,
            finishing: false,
        };
        backup.proceed(sessions);
        match backup.state {
            BackupState::Refused(error) => {
                let _ = sessions.close(session);
                Err(error.into())
            }
            _ => Ok(backup),
        }
    }

    /// Returns the state.
    pub fn state(&self) -> &BackupState {
        &self.state
    }

    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the session that reads the blocks.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the output.
    pub fn output_mut(&mut self) -> &mut O {
        &mut self.output
    }

    /// Returns the output; bytes that it has not written are dropped.
    pub fn into_output(self) -> O {
        self.output
    }

    /// Resumes after the target, or the scheduler's task list, has room again.
    pub fn go_on(&mut self, sessions: &mut dyn Sessions) {
        if matches!(
            self.state,
            BackupState::TargetFull | BackupState::Refused(SessionError::TooManyTasks { .. })
        ) {
            self.state = BackupState::Running;
            self.proceed(sessions);
            if self.state == BackupState::Running {
                let _ = sessions.resume(self.session);
            }
        }
    }

    /// Writes the waiting bytes, registers reads of blocks up to the limit of tasks, and ends when no block is left.
    fn proceed(&mut self, sessions: &mut dyn Sessions) {
        let next = self.try_proceed(sessions);
        if next != BackupState::Running && self.state == BackupState::Running {
            match next {
                BackupState::TargetFull => drop(sessions.suspend(self.session)),
                BackupState::Refused(SessionError::TooManyTasks { .. }) => {}
                _ => drop(sessions.close(self.session)),
            }
            self.state = next;
        }
    }

    fn try_proceed(&mut self, sessions: &mut dyn Sessions) -> BackupState {
        match self.output.flush() {
            Ok(true) => {}
            Ok(false) => return BackupState::TargetFull,
            Err(why) => return BackupState::OutputFailed(why),
        }
        let (mut gone, mut lost) = (None, Vec::new());
        let (provider, snapshot, base) = (&self.provider, self.snapshot, self.base);
        let filled = self.feed.fill(sessions, 0, |block| match provider.next(snapshot, base, block) {
            Ok(Some(extent)) if extent.first == block => {
                if extent.place.is_none() {
                    lost.push(block);
                }
                extent.place.map(|range| (range, extent.blocks))
            }
            Ok(_) => None,
            Err(error) => {
                gone = Some(error);
                None
            }
        });
        let sifting = self.sieve.fill(sessions, self.session, self.sector_bytes, |block| {
            match provider.locate(snapshot, block) {
                Ok(SnapshotPlace::At(range)) => return Some(range),
                Ok(SnapshotPlace::Lost | SnapshotPlace::Hole) => lost.push(block),
                Err(error) => gone = Some(error),
            }
            None
        });
        if let Some(gone) = gone {
            return BackupState::Gone(gone);
        }
        for block in lost {
            self.lost(block);
        }
        match filled.and(sifting) {
            // The scheduler has room again when tasks of any session end. The next record of this session tries
            // again, so one of its tasks must still be registered.
            Err(SessionError::TooManyTasks { .. }) if self.feed.out() + self.sieve.out() > 0 => {}
            Err(error) => return BackupState::Refused(error),
            Ok(()) => {}
        }
        if self.counts.written == self.counts.blocks {
            // `finish` is called once: if the target is full now, `go_on` only has to write the rest.
            if !std::mem::replace(&mut self.finishing, true) {
                self.output.finish();
            }
            return match self.output.flush() {
                Ok(true) => BackupState::Finished,
                Ok(false) => BackupState::TargetFull,
                Err(why) => BackupState::OutputFailed(why),
            };
        }
        BackupState::Running
    }

    fn lost(&mut self, block: u64) {
        let all: Vec<u32> = (0..self.shape.block.get() as u32).collect();
        self.put(block, &[], &all);
    }

    fn put(&mut self, block: u64, bytes: &[u8], bad: &[u32]) {
        self.output.put(block, bytes, bad);
        self.counts.written += 1;
        self.counts.damaged += u64::from(!bad.is_empty());
    }

    /// Checks a block that was read from `from`; returns whether its content is the snapshot's.
    fn arrived(&mut self, block: u64, from: LbnRange) -> bool {
        match self.provider.locate(self.snapshot, block) {
            Ok(SnapshotPlace::At(range)) if range == from => return true,
            Ok(SnapshotPlace::At(_) | SnapshotPlace::Hole) => {
                self.counts.moved += 1;
                self.feed.again(block);
            }
            Ok(SnapshotPlace::Lost) => self.lost(block),
            // The next `fill` of the feed reports that the snapshot is gone.
            Err(_) => self.feed.again(block),
        }
        false
    }
}

impl<P: Provider, O: Output> Application for Backup<P, O> {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        if done.session != self.session
            || !matches!(self.state, BackupState::Running | BackupState::TargetFull)
        {
            return;
        }
        let whole = self.shape.block.get() as usize * self.sector_bytes;
        if let Some((block, _)) = self.feed.arrived(done) {
            if self.output.waiting() > WAITING_BYTES_MAX {
                self.feed.again(block);
            } else if self.arrived(block, done.range) {
                if done.bad.is_some() || bytes.len() != whole {
                    self.sieve.add(block);
                } else {
                    self.put(block, bytes, &[]);
                }
            }
        } else if let Ok(Some(sifted)) = self.sieve.arrived(done, bytes)
            && self.arrived(sifted.block, sifted.range)
        {
            let start = sifted.range.start();
            let bad: Vec<u32> = sifted.bad.iter().map(|lbn| lbn.since(start).get() as u32).collect();
            self.put(sifted.block, &sifted.bytes, &bad);
        }
        if self.state == BackupState::Running {
            self.proceed(sessions);
        }
    }
}
