//! What a desk has done for it by whoever may wait for a file, and what it is told of that.
//!
//! A desk touches no file: its disk's loop must not wait for one. It gives orders, each for a lane; the orders of a lane
//! are carried out one after the other, in order, and lanes do not wait for each other.

use crate::desk::spec::DiskFacts;
use apps::backup::image::Header;
use apps::reorganizer::Prepared;
use scheduler::BlockSet;
use std::path::PathBuf;
use units::Sectors;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The journal of all tasks.
    Journal,
    /// What a task writes to, or reads from.
    Target(u64),
    /// What a task keeps in the state directory, out of the way of its target.
    Kept(u64),
    /// The checksum store of the disk.
    Sums,
}

/// An order.
#[derive(Debug)]
pub struct Order {
    /// Who carries it out.
    pub lane: Lane,
    /// What it is.
    pub work: Work,
}

/// What is to be done.
#[derive(Debug)]
pub enum Work {
    /// Append to the journal, or write it anew, durably: [`News::Journal`].
    Journal {
        /// To be told with the news.
        seq: u64,
        /// What.
        bytes: Vec<u8>,
        /// In the place of everything.
        replace: bool,
        /// The number of a new journal.
        number: u64,
        /// What its end says beside.
        note: Vec<u8>,
    },
    /// Open an image or a replica: [`News::Opened`], [`News::Trouble`] or [`News::Refused`].
    Open(Box<Target>),
    /// Add a block to it. Nothing is told if all is well.
    Put {
        /// Which.
        block: u64,
        /// All its bytes; none if it is lost.
        bytes: Vec<u8>,
        /// The sectors in it that are bad.
        bad: Vec<u32>,
    },
    /// Make durable what was put: [`News::Synced`], [`News::Full`] or [`News::Trouble`].
    Sync {
        /// To be told with the news.
        mark: u64,
    },
    /// All was put, but for what is in the kept blocks: [`News::Finished`], [`News::Full`] or [`News::Trouble`].
    Finish,
    /// Open the kept blocks: [`News::Opened`] or [`News::Refused`].
    OpenKept {
        /// Of what they are.
        header: Header,
        /// The most bytes.
        most: u64,
        /// They must be there: the journal knows of them.
        begun: bool,
    },
    /// Keep a block, durably: [`News::Synced`], or [`News::Refused`] where there is no more room.
    Keep {
        /// To be told with the news.
        mark: u64,
        /// Which.
        block: u64,
        /// All its bytes; none if it is lost.
        bytes: Vec<u8>,
        /// The sectors in it that are bad.
        bad: Vec<u32>,
    },
    /// Verify images: [`News::Verified`], or [`News::Refused`].
    Verify {
        /// In order.
        images: Vec<PathBuf>,
        /// Bytes in a sector of the disk.
        sector_bytes: u64,
        /// Sectors of the disk.
        capacity: u64,
    },
    /// Read the next blocks of the images: [`News::Chunks`].
    Read {
        /// About so many bytes.
        most: usize,
    },
    /// Read a plan and what a reorganisation remembers of it: [`News::Moves`], [`News::Trouble`] or [`News::Refused`].
    OpenMoves {
        /// The plan's file; the task's own copy is taken if there is one.
        plan: PathBuf,
        /// Sectors in a block, if the plan does not say.
        block: Sectors,
        /// The disk.
        disk: DiskFacts,
        /// Blocks that may be between two places.
        staging: u64,
        /// Whether there must be something that it remembers.
        begun: bool,
    },
    /// Nothing: what comes of it is told when the disk's loop has done what else there is. [`News::Breathed`].
    Breathe,
    /// Remember that, durably: [`News::Synced`] or [`News::Trouble`].
    Moves {
        /// To be told with the news.
        mark: u64,
        /// What.
        bytes: Vec<u8>,
        /// In the place of everything.
        replace: bool,
    },
    /// Write down where each block is in the end, durably: [`News::Synced`] with the mark `u64::MAX`, or
    /// [`News::Trouble`].
    Map(Vec<u8>),
    /// Nothing of it has to be remembered any more.
    ForgetMoves,
    /// Open a checksum store: [`News::SumsOpened`] or [`News::SumsRefused`].
    OpenSums(Box<OpenSums>),
    /// Forget the sums of blocks, from one up to another, durably: [`News::Forgotten`] or [`News::Trouble`].
    Forget(Vec<(u64, u64)>),
    /// Compare sums of blocks with what is stored: [`News::Compared`] or [`News::Trouble`].
    Compare(Vec<(u64, u32)>),
    /// Store sums of blocks, durably: [`News::Recorded`] or [`News::Trouble`].
    Record(Vec<(u64, u32)>),
    /// Remove an image that this task has begun and will not end, or say what is left of a replica: [`News::Discarded`].
    Discard {
        /// Its file.
        path: PathBuf,
        /// Which image it is.
        image: u64,
        /// Whether it is a replica: that stays.
        replica: bool,
    },
    /// The task is over: let go of its files. What it kept is removed.
    End,
}

/// An image or a replica.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its file.
    pub path: PathBuf,
    /// What is to be in it.
    pub header: Header,
    /// Which of the two.
    pub replica: bool,
    /// Nothing of it was ever written: what is there already is somebody else's.
    pub fresh: bool,
    /// What is there is overwritten.
    pub force: bool,
    /// An image: only what differs from these, one on top of the other; all of it if there are none.
    pub since: Vec<PathBuf>,
    /// A replica's progress; of a difference, what does not differ.
    pub saved: Vec<u8>,
    /// Sectors of the disk: the last block may reach beyond them.
    pub capacity: u64,
    /// Files that are the disk itself.
    pub own: Vec<PathBuf>,
}

/// A checksum store.
#[derive(Clone, Debug)]
pub struct OpenSums {
    /// For which task it is made if it is not there; none: it must be.
    pub task: Option<u64>,
    /// Its file, or the directory that it is in under the disk's name.
    pub path: PathBuf,
    /// Sectors in a block.
    pub block: Sectors,
    /// The one that the disk's writes are told to, and its number: no other is believed.
    pub known: Option<(PathBuf, u64)>,
    /// The number of a new one.
    pub id: u64,
    /// A new one may take the place of one that is not known, or damaged.
    pub anew: bool,
    /// The disk.
    pub disk: DiskFacts,
}

/// What a block is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// As it was recorded.
    Same,
    /// Something else.
    Wrong {
        /// The sum that was recorded.
        stored: u32,
        /// The sum of what was read.
        read: u32,
    },
    /// It was not recorded, or has been written since; the sum of what was read.
    Unknown(u32),
}

/// A block of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number among all chunks of all images, in order.
    pub number: u64,
    /// Of which image, counted from the full one.
    pub image: usize,
    /// Its first LBN.
    pub first: u64,
    /// Its bytes, cut where the disk ends.
    pub bytes: Vec<u8>,
    /// The sectors in it that the backup could not read: they are not restored.
    pub bad: Vec<u32>,
}

/// What has become of an order.
#[derive(Debug)]
pub struct Told {
    /// Of which lane.
    pub lane: Lane,
    /// What.
    pub news: News,
}

/// What there is to tell.
#[derive(Debug)]
pub enum News {
    /// The journal is durable up to there, or is not.
    Journal {
        /// Of the order.
        seq: u64,
        /// Why not.
        failed: Option<String>,
    },
    /// It is open, and has these blocks.
    Opened(Box<BlockSet>),
    /// What was ordered before is durable.
    Synced {
        /// Of the order.
        mark: u64,
        /// What of it has to be in the journal: a replica's progress; of a difference, what does not differ.
        saved: Vec<u8>,
    },
    /// There is no room for now: try again.
    Full(String),
    /// It cannot be reached: open it again.
    Trouble(String),
    /// It never will be.
    Refused(String),
    /// It is whole and durable.
    Finished,
    /// Nothing is left of it, or what is.
    Discarded(Option<String>),
    /// The images are sound, and have so many chunks.
    Verified {
        /// In all images.
        chunks: u64,
    },
    /// The next blocks; none: there are no more.
    Chunks(Vec<Chunk>),
    /// What the task needs to go on is damaged: neither begin it anew nor let clients at its places.
    Damaged {
        /// What is damaged.
        why: String,
        /// The places, if they are known.
        places: Option<Vec<(u64, u64)>>,
    },
    /// A plan, as far as it is, ready to begin, and all places that it touches: first, end; in order.
    Moves {
        /// The plan.
        plan: Box<Prepared>,
        /// The places.
        places: Vec<(u64, u64)>,
    },
    /// It is somebody's turn again.
    Breathed,
    /// A checksum store is open.
    SumsOpened {
        /// For which task.
        task: Option<u64>,
        /// Its file.
        path: PathBuf,
        /// Its number.
        id: u64,
        /// Whether it knows nothing.
        empty: bool,
    },
    /// It is not, and none takes its place.
    SumsRefused {
        /// For which task.
        task: Option<u64>,
        /// Why.
        why: String,
    },
    /// The disk's writes are told to the store from now on.
    SumsReady,
    /// The sums that were to be forgotten are, durably.
    Forgotten,
    /// What blocks are found to be, and pages of the store that were found damaged meanwhile.
    Compared {
        /// Blocks, in the order in which they were asked for.
        told: Vec<(u64, Compared)>,
        /// In words.
        damaged: Vec<String>,
    },
    /// The sums that were to be stored are, durably.
    Recorded,
}
