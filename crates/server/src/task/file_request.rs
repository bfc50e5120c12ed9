//! Requests of a task manager for file operations, and the replies.
//!
//! A task manager touches no file itself, because the event loop of its disk must not wait for a file; other threads
//! execute the requests. Each request belongs to a queue: the operations of one queue are executed one after the other,
//! and queues do not wait for each other.

use crate::task::budget::Budget;
use crate::task::spec::DiskFacts;
use apps::backup::image::Header;
use apps::reorganizer::Prepared;
use scheduler::{BlockSet, Priority};
use std::ops::Range;
use std::path::PathBuf;
use units::{Duration, Sectors};

/// The time after which an unanswered file operation no longer delays foreground writes: the task or store that needs
/// the file is given up, so that no write waits for ever.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(30);

/// A queue of file operations that are executed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileQueue {
    /// The journal of all tasks.
    Journal,
    /// The file that a task writes to or reads from.
    Target(u64),
    /// A task's files in the state directory: old contents of blocks that clients overwrite, or the copy of a plan and
    /// the state of its moves.
    Kept(u64),
    /// The checksum store of the disk.
    Sums,
}

/// A request for a file operation.
#[derive(Debug)]
pub struct FileRequest {
    /// The queue of the request.
    pub queue: FileQueue,
    /// The operation.
    pub op: FileOp,
}

/// A receiver of a task manager's file requests.
pub(crate) type FileRequestSink = Box<dyn Fn(FileRequest) + Send>;

/// An operation on files.
#[derive(Debug)]
pub enum FileOp {
    /// Append an entry to the journal, or replace its content, durably: [`FileResult::Journal`].
    Journal {
        /// The number of the entry, which the reply repeats.
        seq: u64,
        /// The bytes of the entry.
        bytes: Vec<u8>,
        /// Whether the entry replaces the whole content.
        replace: bool,
        /// The number of the journal, if the journal is new.
        number: u64,
        /// The note for the journal's end file.
        note: Vec<u8>,
    },
    /// Open an image or a replica: [`FileResult::Opened`], [`FileResult::Trouble`] or [`FileResult::Refused`].
    Open(Box<ImageTarget>),
    /// Add a block to the image or replica. No reply follows a success.
    Put {
        /// The block's number.
        block: u64,
        /// All bytes of the block; empty if none could be read.
        bytes: Vec<u8>,
        /// The bad sectors, counted from the first of the block.
        bad: Vec<u32>,
    },
    /// Make durable the blocks added so far: [`FileResult::Synced`], [`FileResult::Full`] or [`FileResult::Trouble`].
    Sync {
        /// A number that the reply repeats.
        mark: u64,
    },
    /// Complete the image or replica with the blocks of the kept file, durably: [`FileResult::Finished`],
    /// [`FileResult::Full`] or [`FileResult::Trouble`].
    Finish,
    /// Open the file of kept blocks: [`FileResult::Opened`] or [`FileResult::Refused`].
    OpenKept {
        /// The header of the image that the blocks belong to.
        header: Header,
        /// The budget for kept blocks, which all backups, replicas and snapshots of a disk share.
        room: Budget,
        /// The least number of acknowledged records that the file must have
        /// ([`Figures::records`](super::table::Figures::records)), if the journal says that the task has begun.
        begun: Option<u64>,
    },
    /// Keep a block, durably: [`FileResult::Synced`], or [`FileResult::Refused`] if there is no more room.
    Keep {
        /// A number that the reply repeats.
        mark: u64,
        /// The block's number.
        block: u64,
        /// All bytes of the block; empty if none could be read.
        bytes: Vec<u8>,
        /// The bad sectors, counted from the first of the block.
        bad: Vec<u32>,
    },
    /// Read a kept block back: [`FileResult::KeptBlock`], or [`FileResult::Refused`] if it may be lost.
    ReadKept {
        /// A number that the reply repeats.
        mark: u64,
        /// The block's number.
        block: u64,
    },
    /// Verify images: [`FileResult::Verified`], or [`FileResult::Refused`].
    Verify {
        /// The image files: a full image, then differences in order.
        images: Vec<PathBuf>,
        /// Bytes in a sector of the disk.
        sector_bytes: u64,
        /// Sectors of the disk.
        capacity: u64,
    },
    /// Read the next blocks of the images: [`FileResult::Chunks`].
    Read {
        /// The approximate number of bytes to read.
        most: usize,
    },
    /// Read a plan and the state of its reorganisation: [`FileResult::Moves`], [`FileResult::Trouble`] or
    /// [`FileResult::Refused`].
    OpenMoves {
        /// The plan's file. The task's own copy takes precedence.
        plan: PathBuf,
        /// Sectors in a block, if the plan does not say.
        block: Sectors,
        /// The facts of the disk.
        disk: DiskFacts,
        /// The most blocks that are at a time neither at their old nor at their new LBN.
        staging: u64,
        /// The least number of acknowledged records that the saved state must have
        /// ([`Figures::records`](super::table::Figures::records)), if it must exist.
        begun: Option<u64>,
        /// The task's random number, which the task's own copy of the plan has to name.
        number: u64,
        /// Whether that copy may be of an older version, which wrote no random number.
        unnumbered: bool,
    },
    /// Do nothing. The reply comes when the disk's event loop has handled the other events: [`FileResult::Yielded`].
    Yield,
    /// Save the state of a reorganisation, durably: [`FileResult::Synced`] or [`FileResult::Trouble`].
    Moves {
        /// A number that the reply repeats.
        mark: u64,
        /// The bytes of the state.
        bytes: Vec<u8>,
        /// Whether the bytes replace the whole content.
        replace: bool,
    },
    /// Write the map, the list of where blocks were moved, durably: [`FileResult::Synced`] with the mark `u64::MAX`, or
    /// [`FileResult::Trouble`].
    Map(Vec<u8>),
    /// Remove the saved state of a reorganisation.
    ForgetMoves,
    /// Open a checksum store: [`FileResult::SumsOpened`] or [`FileResult::SumsRefused`].
    OpenSums(Box<OpenSums>),
    /// Record in the state directory that the checksum store with this number is given up, durably:
    /// [`FileResult::SumsLeft`]. The request belongs to [`FileQueue::Journal`], because the store may not answer.
    LeaveSums(u64),
    /// Forget the sums of blocks, durably: [`FileResult::Forgotten`] or [`FileResult::Trouble`].
    Forget(Vec<Range<u64>>),
    /// Compare sums of blocks (block, sum) with the stored sums: [`FileResult::Compared`] or [`FileResult::Trouble`].
    Compare(Vec<(u64, u32)>),
    /// Store sums of blocks (block, sum), durably: [`FileResult::Recorded`] or [`FileResult::Trouble`].
    Record(Vec<(u64, u32)>),
    /// Open the disks of a comparison: [`FileResult::Members`], [`FileResult::Starting`], [`FileResult::Trouble`] or
    /// [`FileResult::Refused`].
    OpenMembers(Box<OpenMembers>),
    /// Read the disks of a comparison for a short time: [`FileResult::Members`] or [`FileResult::Trouble`].
    ReadMembers {
        /// The comparison's share of the gaps on each disk.
        priority: Priority,
    },
    /// Stop reading the disks of a comparison until the next [`ReadMembers`](Self::ReadMembers).
    RestMembers,
    /// Remove an unfinished image of this task, or report what is left of a replica: [`FileResult::Discarded`].
    Discard {
        /// The file.
        path: PathBuf,
        /// The identity of the image.
        image: u64,
        /// Whether the file is a replica, which stays.
        replica: bool,
    },
    /// Close the files of a task that is over. In the queue [`FileQueue::Kept`] also remove the kept blocks:
    /// [`FileResult::Removed`].
    End,
}

impl FileOp {
    /// Returns the reply that makes the task fail, for an operation that cannot be executed at all.
    pub(crate) fn refused(self, queue: FileQueue, why: String) -> Option<FileResult> {
        Some(match self {
            Self::Journal { seq, .. } => FileResult::Journal { seq, failed: Some(why) },
            Self::LeaveSums(_) => FileResult::SumsLeft(Some(why)),
            Self::OpenSums(asked) => FileResult::SumsRefused { task: asked.task, why },
            Self::Forget(_) | Self::Compare(_) | Self::Record(_) => FileResult::Trouble(why),
            Self::Discard { .. } => FileResult::Discarded(Some(why)),
            Self::End if matches!(queue, FileQueue::Kept(_)) => FileResult::Removed(Some(why)),
            Self::End => return None,
            _ => FileResult::Refused(why),
        })
    }
}

/// The image or replica that a task writes.
#[derive(Clone, Debug)]
pub struct ImageTarget {
    /// The target's file.
    pub path: PathBuf,
    /// The header that the image has to have.
    pub header: Header,
    /// Whether the target is a replica.
    pub replica: bool,
    /// Whether the task has written nothing yet, so that an existing file is not the task's own.
    pub fresh: bool,
    /// Whether an existing file is overwritten.
    pub force: bool,
    /// The former images, for an image that stores only differences from them; empty for a full image.
    pub since: Vec<PathBuf>,
    /// The task's record of its progress, which identifies the file; empty at the beginning.
    pub saved: Vec<u8>,
    /// Sectors of the disk: the last block may reach beyond them.
    pub capacity: u64,
    /// Files and devices that hold the disk's own data, which are no possible target.
    pub own: Vec<PathBuf>,
}

/// The checksum store to open.
#[derive(Clone, Debug)]
pub struct OpenSums {
    /// The task that needs the store, for which a missing store is made. With `None` the store must exist.
    pub task: Option<u64>,
    /// The store's file, or the directory in which the file has the disk's name.
    pub path: PathBuf,
    /// Sectors in a block.
    pub block: Sectors,
    /// The file and number of the disk's present store, which forgets the sums of written blocks. No other store is
    /// trusted.
    pub known: Option<(PathBuf, u64)>,
    /// The number for a new store.
    pub id: u64,
    /// Whether a new store may replace a store that is unknown or damaged.
    pub anew: bool,
    /// The facts of the disk.
    pub disk: DiskFacts,
}

/// The disks of a comparison.
#[derive(Clone, Debug)]
pub struct OpenMembers {
    /// The names of the disks, in the order of the array.
    pub members: Vec<String>,
    /// The comparison, without the names of the disks.
    pub plan: apps::verify::ComparisonPlan,
    /// The progress; empty at the beginning.
    pub saved: Vec<u8>,
    /// A random number, the seed of the comparison's sums.
    pub seed: u64,
}

/// The state of a comparison of disks.
#[derive(Debug)]
pub struct MembersReport {
    /// The findings so far.
    pub figures: apps::verify::ComparisonFigures,
    /// The progress, if it was encoded.
    pub saved: Option<Vec<u8>>,
    /// Whether all blocks are compared.
    pub done: bool,
    /// Whether so many blocks differ that the disks cannot be the members of one array.
    pub hopeless: bool,
}

/// The result of comparing a block with its recorded sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The sums are equal.
    Same,
    /// The sums differ.
    Wrong {
        /// The sum that was recorded.
        stored: u32,
        /// The sum of the bytes that were read.
        read: u32,
    },
    /// No sum is recorded, or the block has been written since. The value is the sum of the bytes that were read.
    Unknown(u32),
}

/// A block of an image that is to be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The number of the chunk among all chunks of all images, in order.
    pub number: u64,
    /// The number of the image, counted from 0 for the full image.
    pub image: usize,
    /// The first LBN of the chunk.
    pub first: u64,
    /// The bytes of the chunk, cut off at the end of the disk.
    pub bytes: Vec<u8>,
    /// The sectors that the backup could not read, counted from the first of the chunk. They are not restored.
    pub bad: Vec<u32>,
}

/// The reply to a request for a file operation.
#[derive(Debug)]
pub struct FileReply {
    /// The queue of the request.
    pub queue: FileQueue,
    /// The result.
    pub result: FileResult,
}

/// The result of a file operation.
#[derive(Debug)]
pub enum FileResult {
    /// The journal is durable up to an entry, or could not be written.
    Journal {
        /// The number in the request.
        seq: u64,
        /// The reason why the journal could not be written.
        failed: Option<String>,
    },
    /// The file is open.
    Opened {
        /// The blocks in the file.
        present: Box<BlockSet>,
        /// For a target, the task's record that identifies the file, to be in the journal before anything is written.
        saved: Vec<u8>,
    },
    /// The writes requested before are durable.
    Synced {
        /// The mark in the request.
        mark: u64,
        /// The task's record for the journal: a replica's progress, or the blocks that an image with differences leaves
        /// out.
        saved: Vec<u8>,
        /// The number of acknowledged records of the task's log in the state directory, or 0.
        records: u64,
    },
    /// A block that was kept.
    KeptBlock {
        /// The mark in the request.
        mark: u64,
        /// The block's number.
        block: u64,
        /// All bytes of the block.
        bytes: Vec<u8>,
        /// The sectors that could not be read when the block was kept, counted from the first of the block.
        bad: Vec<u32>,
    },
    /// There is no space at present: try again.
    Full(String),
    /// The daemon does not serve all its disks yet: ask again soon.
    Starting,
    /// The file cannot be reached: open it again.
    Trouble(String),
    /// The operation can never succeed.
    Refused(String),
    /// The file is complete and durable.
    Finished,
    /// The unfinished file is removed, or the message about what is left of it.
    Discarded(Option<String>),
    /// The kept blocks are removed, or the reason why not.
    Removed(Option<String>),
    /// The images are sound.
    Verified {
        /// The number of chunks in all images.
        chunks: u64,
        /// The identity of each image, in order.
        images: Vec<u64>,
        /// Whether the images together have a block for each sector of the disk.
        whole: bool,
    },
    /// The next blocks of the images; empty at the end.
    Chunks(Vec<Chunk>),
    /// A file that a reorganisation needs is damaged. The task stops, and the LBNs of its plan stay closed to clients.
    Damaged {
        /// The message about the damage.
        why: String,
        /// The LBNs that the plan touches, in order, if they are known.
        places: Option<Vec<Range<u64>>>,
    },
    /// The plan of a reorganisation has been read.
    Moves {
        /// The plan in its present state, ready to begin or to continue.
        plan: Box<Prepared>,
        /// The LBNs that the plan touches, in order.
        places: Vec<Range<u64>>,
    },
    /// The disks of a comparison are open, or were read for a time slice.
    Members(Box<MembersReport>),
    /// The disk's event loop has handled its other events.
    Yielded,
    /// A checksum store is open.
    SumsOpened {
        /// The task that the store was opened for.
        task: Option<u64>,
        /// The store's file.
        path: PathBuf,
        /// The store's number.
        id: u64,
        /// Whether the store is empty.
        empty: bool,
    },
    /// The store cannot be opened, and no new store replaces it.
    SumsRefused {
        /// The task that needs the store.
        task: Option<u64>,
        /// The reason.
        why: String,
    },
    /// The store is marked as given up, so that no restart trusts it; or the reason why it could not be marked.
    SumsLeft(Option<String>),
    /// From now on the store forgets the sums of blocks that are written, and the task may begin.
    SumsReady,
    /// The sums are forgotten, durably.
    Forgotten,
    /// Blocks were compared with their stored sums.
    Compared {
        /// The blocks with their results, in the order of the request.
        compared: Vec<(u64, Compared)>,
        /// Messages about damaged pages of the store that were found.
        damaged: Vec<String>,
    },
    /// The sums are stored, durably.
    Recorded,
}
