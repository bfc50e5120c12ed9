//! Requests of a task manager for file operations, which threads that may wait for files execute, and the replies.
//!
//! A task manager touches no file, because its disk's loop must not wait for one. Each request belongs to a queue: the
//! operations of one queue are executed one after the other, and queues do not wait for each other.

use crate::task::budget::Budget;
use crate::task::spec::DiskFacts;
use apps::backup::image::Header;
use apps::reorganizer::Prepared;
use scheduler::{BlockSet, Priority};
use std::ops::Range;
use std::path::PathBuf;
use units::{Duration, Sectors};

/// The time after which a file that delays foreground writes is given up, together with its task or store: no write
/// waits for ever.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(30);

/// A queue of file operations that are executed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileQueue {
    /// The journal of all tasks.
    Journal,
    /// The file that a task writes to or reads from.
    Target(u64),
    /// The blocks that a task keeps in the state directory, apart from its target.
    Kept(u64),
    /// The checksum store of the disk.
    Sums,
}

/// A request for a file operation.
#[derive(Debug)]
pub struct FileRequest {
    /// The queue that it belongs to.
    pub queue: FileQueue,
    /// The operation.
    pub op: FileOp,
}

/// A receiver of a task manager's file requests.
pub(crate) type FileRequestSink = Box<dyn Fn(FileRequest) + Send>;

/// An operation on files.
#[derive(Debug)]
pub enum FileOp {
    /// Append to the journal, or write it anew, durably: [`FileResult::Journal`].
    Journal {
        /// The number that the report repeats.
        seq: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they replace the whole content.
        replace: bool,
        /// The number of a new journal.
        number: u64,
        /// The note that the journal's end holds beside.
        note: Vec<u8>,
    },
    /// Open an image or a replica: [`FileResult::Opened`], [`FileResult::Trouble`] or [`FileResult::Refused`].
    Open(Box<ImageTarget>),
    /// Add a block to it. No report follows a success.
    Put {
        /// Its number.
        block: u64,
        /// All its bytes; none if it is lost.
        bytes: Vec<u8>,
        /// The sectors in it that are bad.
        bad: Vec<u32>,
    },
    /// Make durable the blocks added so far: [`FileResult::Synced`], [`FileResult::Full`] or [`FileResult::Trouble`].
    Sync {
        /// The number that the report repeats.
        mark: u64,
    },
    /// All blocks were added, except those in the kept file: [`FileResult::Finished`], [`FileResult::Full`] or
    /// [`FileResult::Trouble`].
    Finish,
    /// Open the kept blocks: [`FileResult::Opened`] or [`FileResult::Refused`].
    OpenKept {
        /// The header of the image that they belong to.
        header: Header,
        /// The room for them, which the disk's copies share.
        room: Budget,
        /// Whether they must be there, because the journal knows of them.
        begun: bool,
        /// The records that the file must have at least ([`Figures::records`](super::table::Figures::records)).
        records: u64,
    },
    /// Keep a block, durably: [`FileResult::Synced`], or [`FileResult::Refused`] where there is no more room.
    Keep {
        /// The number that the report repeats.
        mark: u64,
        /// Its number.
        block: u64,
        /// All its bytes; none if it is lost.
        bytes: Vec<u8>,
        /// The sectors in it that are bad.
        bad: Vec<u32>,
    },
    /// Read a kept block back: [`FileResult::KeptBlock`], or [`FileResult::Refused`] if it may be lost.
    ReadKept {
        /// The number that the report repeats.
        mark: u64,
        /// Its number.
        block: u64,
    },
    /// Verify images: [`FileResult::Verified`], or [`FileResult::Refused`].
    Verify {
        /// In order.
        images: Vec<PathBuf>,
        /// Bytes in a sector of the disk.
        sector_bytes: u64,
        /// Sectors of the disk.
        capacity: u64,
    },
    /// Read the next blocks of the images: [`FileResult::Chunks`].
    Read {
        /// The approximate number of bytes.
        most: usize,
    },
    /// Read a plan and the state of its reorganisation: [`FileResult::Moves`], [`FileResult::Trouble`] or
    /// [`FileResult::Refused`].
    OpenMoves {
        /// The plan's file; the task's own copy takes precedence.
        plan: PathBuf,
        /// Sectors in a block, if the plan does not say.
        block: Sectors,
        /// The disk.
        disk: DiskFacts,
        /// The most blocks that may be between two places.
        staging: u64,
        /// Whether there must be a saved state.
        begun: bool,
        /// The records that the saved state must have at least ([`Figures::records`](super::table::Figures::records)).
        records: u64,
        /// The task's random number, which its own copy of the plan has to name.
        number: u64,
        /// Whether the copy may be of a version that wrote no such number.
        unnumbered: bool,
    },
    /// No operation: the report follows when the disk's loop has handled the other events: [`FileResult::Yielded`].
    Yield,
    /// Save the state of a reorganisation, durably: [`FileResult::Synced`] or [`FileResult::Trouble`].
    Moves {
        /// The number that the report repeats.
        mark: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they replace the whole content.
        replace: bool,
    },
    /// Write the map of the final places, durably: [`FileResult::Synced`] with the mark `u64::MAX`, or
    /// [`FileResult::Trouble`].
    Map(Vec<u8>),
    /// Remove the saved state.
    ForgetMoves,
    /// Open a checksum store: [`FileResult::SumsOpened`] or [`FileResult::SumsRefused`].
    OpenSums(Box<OpenSums>),
    /// Record in the state directory that the checksum store of this number is given up, durably:
    /// [`FileResult::SumsLeft`]. It belongs to the queue [`FileQueue::Journal`], because the store may not answer.
    LeaveSums(u64),
    /// Forget the sums of blocks, durably: [`FileResult::Forgotten`] or
    /// [`FileResult::Trouble`].
    Forget(Vec<Range<u64>>),
    /// Compare sums of blocks with what is stored: [`FileResult::Compared`] or [`FileResult::Trouble`].
    Compare(Vec<(u64, u32)>),
    /// Store sums of blocks, durably: [`FileResult::Recorded`] or [`FileResult::Trouble`].
    Record(Vec<(u64, u32)>),
    /// Open the disks of a comparison: [`FileResult::Members`], [`FileResult::Starting`], [`FileResult::Trouble`] or
    /// [`FileResult::Refused`].
    OpenMembers(Box<OpenMembers>),
    /// Read them for a short time: [`FileResult::Members`] or [`FileResult::Trouble`].
    ReadMembers {
        /// The share of the gaps.
        priority: Priority,
    },
    /// Read nothing until the next [`ReadMembers`](Self::ReadMembers).
    RestMembers,
    /// Remove an unfinished image of this task, or report what is left of a replica: [`FileResult::Discarded`].
    Discard {
        /// Its file.
        path: PathBuf,
        /// The identity of the image.
        image: u64,
        /// Whether it is a replica, which stays.
        replica: bool,
    },
    /// The task is over: close its files, remove the blocks that it kept: [`FileResult::Removed`], of the queue
    /// [`FileQueue::Kept`].
    End,
}

impl FileOp {
    /// Returns the reply if the operation cannot be executed at all: its task fails.
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

/// An image or a replica.
#[derive(Clone, Debug)]
pub struct ImageTarget {
    /// Its file.
    pub path: PathBuf,
    /// The header that it has to have.
    pub header: Header,
    /// Whether it is a replica.
    pub replica: bool,
    /// Whether nothing of it was ever written: an existing file belongs to someone else.
    pub fresh: bool,
    /// Whether an existing file is overwritten.
    pub force: bool,
    /// For an image: the former images from which only differences are stored; all blocks if there are none.
    pub since: Vec<PathBuf>,
    /// Its progress, with the file that it is in; empty at the beginning.
    pub saved: Vec<u8>,
    /// Sectors of the disk: the last block may reach beyond them.
    pub capacity: u64,
    /// Files that are the disk itself.
    pub own: Vec<PathBuf>,
}

/// A checksum store.
#[derive(Clone, Debug)]
pub struct OpenSums {
    /// The task that it is made for if it is missing; `None`: it must exist.
    pub task: Option<u64>,
    /// Its file, or the directory that it is in under the disk's name.
    pub path: PathBuf,
    /// Sectors in a block.
    pub block: Sectors,
    /// The store that learns of the disk's writes, and its number: any other is distrusted.
    pub known: Option<(PathBuf, u64)>,
    /// The number of a new one.
    pub id: u64,
    /// Whether a new one may replace one that is unknown or damaged.
    pub anew: bool,
    /// The disk.
    pub disk: DiskFacts,
}

/// The disks of a comparison.
#[derive(Clone, Debug)]
pub struct OpenMembers {
    /// Their names, in the order of the array.
    pub members: Vec<String>,
    /// The comparison itself, without their names.
    pub plan: apps::verify::ComparisonPlan,
    /// The progress; empty at the beginning.
    pub saved: Vec<u8>,
    /// A random number.
    pub seed: u64,
}

/// The state of a comparison.
#[derive(Debug)]
pub struct MembersReport {
    /// The findings.
    pub figures: apps::verify::ComparisonFigures,
    /// The progress, if it was encoded.
    pub saved: Option<Vec<u8>>,
    /// Whether all is compared.
    pub done: bool,
    /// Whether more differs than on the disks of one array.
    pub hopeless: bool,
}

/// The result of comparing a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The block is as recorded.
    Same,
    /// The block differs.
    Wrong {
        /// The sum that was recorded.
        stored: u32,
        /// The sum of what was read.
        read: u32,
    },
    /// Its sum was not recorded, or the block has been written since; the sum of the bytes read.
    Unknown(u32),
}

/// A block of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number among all chunks of all images, in order.
    pub number: u64,
    /// The number of its image, counted from the full one.
    pub image: usize,
    /// Its first LBN.
    pub first: u64,
    /// Its bytes, cut where the disk ends.
    pub bytes: Vec<u8>,
    /// The sectors in it that the backup could not read: they are not restored.
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
    /// The journal is durable up to an entry, or is not.
    Journal {
        /// The number in the request.
        seq: u64,
        /// The reason if it is not.
        failed: Option<String>,
    },
    /// The file is open.
    Opened {
        /// The blocks in it.
        present: Box<BlockSet>,
        /// Bytes for the journal, before anything is written: which file a target is.
        saved: Vec<u8>,
    },
    /// The earlier writes are durable.
    Synced {
        /// The mark in the request.
        mark: u64,
        /// Bytes for the journal: a replica's progress; for a difference, the blocks that do not differ.
        saved: Vec<u8>,
        /// The acknowledged records of the task's log in the state directory, or 0.
        records: u64,
    },
    /// A block that was kept.
    KeptBlock {
        /// The mark in the request.
        mark: u64,
        /// Its number.
        block: u64,
        /// All its bytes.
        bytes: Vec<u8>,
        /// The sectors in it that could not be read when it was kept.
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
    /// The file is removed; otherwise the part that is left.
    Discarded(Option<String>),
    /// The kept blocks are removed, or why not.
    Removed(Option<String>),
    /// The images are sound.
    Verified {
        /// The number of chunks in all images.
        chunks: u64,
        /// The identity of each image, in order.
        images: Vec<u64>,
        /// Whether they have a block for each sector of the disk.
        whole: bool,
    },
    /// The next blocks; empty at the end.
    Chunks(Vec<Chunk>),
    /// A file that the task needs is damaged: neither restart the task nor let clients access its places.
    Damaged {
        /// The damage, in words.
        why: String,
        /// The task's places, if they are known.
        places: Option<Vec<Range<u64>>>,
    },
    /// A plan in its present state, ready to begin, and all places that it touches, LBNs in order.
    Moves {
        /// The plan.
        plan: Box<Prepared>,
        /// The places.
        places: Vec<Range<u64>>,
    },
    /// The members of a comparison are open, or were read.
    Members(Box<MembersReport>),
    /// The other events have been handled.
    Yielded,
    /// A checksum store is open.
    SumsOpened {
        /// The task that it was opened for.
        task: Option<u64>,
        /// Its file.
        path: PathBuf,
        /// Its number.
        id: u64,
        /// Whether it is empty.
        empty: bool,
    },
    /// The store cannot be opened, and no new one replaces it.
    SumsRefused {
        /// The task that it was opened for.
        task: Option<u64>,
        /// The reason.
        why: String,
    },
    /// After a restart the store is not believed, or the reason why it may be.
    SumsLeft(Option<String>),
    /// From now on the store learns of the disk's writes.
    SumsReady,
    /// The sums are forgotten, durably.
    Forgotten,
    /// The results of a comparison, and the damaged pages of the store that were found by it.
    Compared {
        /// Blocks, in the order of the request.
        compared: Vec<(u64, Compared)>,
        /// The damaged pages, in words.
        damaged: Vec<String>,
    },
    /// The sums are stored, durably.
    Recorded,
}
