//! Postmark: the small files of a busy mail or news server.

mod blocks;
mod volume;

pub use blocks::{PostmarkBlocks, PostmarkBlocksConfig, PostmarkStatistics};

use crate::error::ConfigError;
use crate::random::{Share, Stream};
use std::fmt;
use std::num::NonZeroU64;
use units::Bytes;

/// The configuration of [`Postmark`]. The names of Postmark's own commands stand behind the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostmarkConfig {
    /// Files of the initial pool (`set number`).
    pub files: u32,
    /// The smallest size of a new file (`set size`).
    pub size_min: Bytes,
    /// The exclusive bound on the size of a new file, and the size to which appends may grow a file (`set size`).
    pub size_max: Bytes,
    /// Transactions of each transaction phase (`set transactions`).
    pub transactions: u32,
    /// The number of transaction phases. Postmark has one; OSDI'00, section 5.2, has two, the first to age the file
    /// system.
    pub phases: u32,
    /// Directories over which the files are spread (`set subdirectories`); 1 is Postmark's 0, no subdirectories.
    pub directories: u32,
    /// The share of reads, against appends (`set bias read`, in tenths); `None` (-1) does neither.
    pub reads: Option<Share>,
    /// The share of creations, against deletions (`set bias create`, in tenths); `None` (-1) does neither.
    pub creates: Option<Share>,
    /// The piece in which a file is read (`set read`). It does not split an [`Operation`], but see
    /// [`calls`](Self::calls).
    pub read_block: Bytes,
    /// The piece in which a file is written (`set write`); see `read_block`.
    pub write_block: Bytes,
}

/// The most files: more than a benchmark of small files needs; a table of them takes some hundred megabytes.
const FILES_MAX: u32 = 1 << 24;
/// The most bytes of a file: Postmark keeps sizes in a C `int`.
const FILE_BYTES_MAX: u64 = i32::MAX as u64;

impl PostmarkConfig {
    /// Returns Postmark's own defaults: 500 files of 500 bytes to 9.77 KB, 500 transactions, no subdirectories.
    pub fn new() -> Self {
        Self {
            files: 500,
            size_min: Bytes::new(500),
            size_max: Bytes::new(10_000),
            transactions: 500,
            phases: 1,
            directories: 1,
            reads: Share::new(5, 10).ok(),
            creates: Share::new(5, 10).ok(),
            read_block: Bytes::new(512),
            write_block: Bytes::new(512),
        }
    }

    /// Returns the set-up of OSDI'00, section 5.2, for an initial pool of `files`: "5-10KB file size (default Postmark
    /// value), 25000 transactions, and 100 subdirectories", with two transaction phases. A KB is taken as 1,024 bytes.
    pub fn osdi00(files: u32) -> Self {
        Self {
            files,
            size_min: Bytes::new(5 << 10),
            size_max: Bytes::new(10 << 10),
            transactions: 25_000,
            phases: 2,
            directories: 100,
            ..Self::new()
        }
    }

    /// Returns the number of file system calls that Postmark makes for the bytes of `operation`, for a host that
    /// charges time for each call: one for each block begun, none for a deletion.
    pub fn calls(&self, operation: Operation) -> u64 {
        let (bytes, block) = match operation {
            Operation::Read { bytes, .. } => (bytes, self.read_block),
            Operation::Create { bytes, .. } | Operation::Append { bytes, .. } => (bytes, self.write_block),
            Operation::Delete { .. } => return 0,
        };
        bytes.get().div_ceil(block.get().max(1))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let Self { files, size_min, size_max, directories, read_block, write_block, .. } = *self;
        if files == 0 || files > FILES_MAX {
            return Err(ConfigError::field("files", files, "give 1 to 16777216 files"));
        }
        if size_min == Bytes::ZERO || size_min > size_max || size_max.get() > FILE_BYTES_MAX {
            let found = format!("{size_min} to {size_max} bytes");
            return Err(ConfigError::field("size", found, "give at least 1 byte, up to 2147483647"));
        }
        if directories == 0 {
            return Err(ConfigError::field("directories", 0, "give at least 1 directory"));
        }
        for (field, block) in [("read_block", read_block), ("write_block", write_block)] {
            if block == Bytes::ZERO {
                return Err(ConfigError::field(field, 0, "give at least 1 byte"));
            }
        }
        Ok(())
    }
}

impl Default for PostmarkConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of a file: files are numbered from 1 in the order of their creation, and no number is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(u64);

impl FileNumber {
    /// Wraps the number.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An operation on one file. The directory is part of a file's path and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new file.
    Create {
        /// The name of the file.
        file: FileNumber,
        /// The directory of the file, from 0.
        directory: u32,
        /// The size of the new file.
        bytes: Bytes,
    },
    /// A whole file is read.
    Read {
        /// The name of the file.
        file: FileNumber,
        /// The directory of the file, from 0.
        directory: u32,
        /// The size of the file, all of which must be read.
        bytes: Bytes,
    },
    /// A file grows at its end.
    Append {
        /// The name of the file.
        file: FileNumber,
        /// The directory of the file, from 0.
        directory: u32,
        /// The growth; at least 1 byte.
        bytes: Bytes,
    },
    /// A file is deleted.
    Delete {
        /// The name of the file.
        file: FileNumber,
        /// The directory of the file, from 0.
        directory: u32,
    },
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The initial pool is created.
    Create,
    /// Transactions run, for the first (0), second (1), ... time.
    Transactions(u32),
    /// All files that are left are deleted.
    Delete,
}

/// The next step of [`Postmark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A phase begins, and the one before it has ended.
    Phase(Phase),
    /// One file operation.
    Operation(Operation),
    /// The operations since the last step of this kind, none to two, were one transaction.
    TransactionDone,
    /// A transaction phase ends early because no file is left: the pool is too small for this number of transactions.
    OutOfFiles,
}

#[derive(Clone, Copy, Debug)]
struct File {
    number: FileNumber,
    directory: u32,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Begin(Phase),
    Create { left: u32 },
    Access { phase: u32, left: u32 },
    Manipulate { phase: u32, left: u32 },
    Boundary { phase: u32, left: u32 },
    Delete,
    Done,
}

/// Postmark's load as a state machine: creates the pool, runs transactions, deletes the remaining files.
///
/// From J. Katcher, "PostMark: A New File System Benchmark", Network Appliance TR3022, 1997, and from what its
/// users publish about the program:
/// - a transaction is one of read or append, then one of create or delete, each by its bias; affected files are
///   chosen at random, each as likely as any other; a read takes in the whole file;
/// - a new file's size is uniform from the low bound up to, not including, the high one; its directory is random;
/// - an append grows a file by at least one byte and to at most the high bound, each size as likely as any other; a
///   file at the bound is not appended to, so that such a transaction has only its other half;
/// - a transaction phase stops when no file is left.
///
/// Assumed, because the paper's program (v1.11) was not available:
/// - the file table has twice as many places as the initial pool; a create that finds it full does nothing;
/// - the remaining files are deleted in the order of the table, which here is the order of creation until the first
///   deletion, then the youngest takes the deleted one's place;
/// - further transaction phases (Postmark has none) follow the first without anything between them;
/// - the random numbers come from a [`Stream`], not from Postmark's own generator, so no run is Postmark's byte by
///   byte.
///
/// ```
/// use freeblock_workload::postmark::{Operation, Phase, Postmark, PostmarkConfig, Step};
/// let mut transactions = 0;
/// let mut measured = false;
/// for step in Postmark::new(PostmarkConfig::osdi00(1_000), 42)? {
///     match step {
///         Step::Phase(phase) => measured = phase == Phase::Transactions(1),
///         Step::Operation(Operation::Create { file, directory, bytes }) => {
///             assert!(directory < 100 && (5_120..10_240).contains(&bytes.get()), "{file}");
///         }
///         Step::Operation(_) => {} // read, append or delete
///         Step::TransactionDone => transactions += u32::from(measured),
///         Step::OutOfFiles => panic!("1,000 files are too few for this seed"),
///     }
/// }
/// assert_eq!(transactions, 25_000);
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Postmark {
    config: PostmarkConfig,
    stream: Stream,
    /// The existing files, without gaps, so that a random index is a random file.
    files: Vec<File>,
    created: u64,
    state: State,
}

impl Postmark {
    /// Creates a run that draws from the stream "workload.postmark" of `seed`.
    ///
    /// # Errors
    /// There are no files, or more than 16,777,216; sizes are zero, out of order or past 2^31 - 1; there is no
    /// directory; a block has zero bytes.
    pub fn new(config: PostmarkConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            stream: Stream::new(seed, "workload.postmark"),
            files: Vec::with_capacity(config.files as usize),
            created: 0,
            state: State::Begin(Phase::Create),
        })
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &PostmarkConfig {
        &self.config
    }

    /// Returns the number of files after the last step.
    pub const fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the bytes of all files after the last step.
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.files.iter().map(|file| file.bytes).sum())
    }

    /// Returns a uniform whole number below `bound`; 0, without a draw, for a bound of 0, as Postmark's own macro does.
    fn below(&mut self, bound: u64) -> u64 {
        NonZeroU64::new(bound).map_or(0, |bound| self.stream.below(bound))
    }

    fn some_file(&mut self) -> usize {
        self.below(self.files.len() as u64) as usize
    }

    /// Creates a file, or returns `None` if the table is full.
    fn create(&mut self) -> Option<Operation> {
        if self.files.len() as u64 >= u64::from(self.config.files) * 2 {
            return None;
        }
        let directory = self.below(u64::from(self.config.directories)) as u32;
        let (min, max) = (self.config.size_min.get(), self.config.size_max.get());
        let bytes = min + self.below(max - min);
        self.created += 1;
        let file = FileNumber(self.created);
        self.files.push(File { number: file, directory, bytes });
        Some(Operation::Create { file, directory, bytes: Bytes::new(bytes) })
    }

    fn access(&mut self, reads: Share) -> Option<Operation> {
        let read = self.stream.chance(reads);
        let chosen = self.some_file();
        let File { number: file, directory, bytes } = *self.files.get(chosen)?;
        if read {
            return Some(Operation::Read { file, directory, bytes: Bytes::new(bytes) });
        }
        let room = self.config.size_max.get() - bytes;
        if room == 0 {
            return None;
        }
        let more = self.below(room) + 1;
        self.files.get_mut(chosen)?.bytes += more;
        Some(Operation::Append { file, directory, bytes: Bytes::new(more) })
    }

    fn manipulate(&mut self, creates: Share) -> Option<Operation> {
        if self.stream.chance(creates) {
            return self.create();
        }
        let chosen = self.some_file();
        if chosen >= self.files.len() {
            return None;
        }
        let File { number: file, directory, .. } = self.files.swap_remove(chosen);
        Some(Operation::Delete { file, directory })
    }

    fn after_phase(&self, phase: Phase) -> State {
        let next = match phase {
            Phase::Create => 0,
            Phase::Transactions(n) => n + 1,
            Phase::Delete => return State::Done,
        };
        State::Begin(if next < self.config.phases { Phase::Transactions(next) } else { Phase::Delete })
    }

    /// Makes one transition of the state machine, which may yield no step.
    fn advance(&mut self) -> Option<Step> {
        match self.state {
            State::Begin(phase) => {
                self.state = match phase {
                    Phase::Create => State::Create { left: self.config.files },
                    Phase::Transactions(phase) => State::Access { phase, left: self.config.transactions },
                    Phase::Delete => {
                        // Files are deleted from the back of the list: reversed, the first place of the table goes
                        // first.
                        self.files.reverse();
                        State::Delete
                    }
                };
                Some(Step::Phase(phase))
            }
            State::Create { left: 0 } => {
                self.state = self.after_phase(Phase::Create);
                None
            }
            State::Create { left } => {
                self.state = State::Create { left: left - 1 };
                self.create().map(Step::Operation)
            }
            State::Access { phase, left: 0 } => {
                self.state = self.after_phase(Phase::Transactions(phase));
                None
            }
            State::Access { phase, .. } if self.files.is_empty() => {
                self.state = self.after_phase(Phase::Transactions(phase));
                Some(Step::OutOfFiles)
            }
            State::Access { phase, left } => {
                self.state = State::Manipulate { phase, left };
                self.config.reads.and_then(|reads| self.access(reads)).map(Step::Operation)
            }
            State::Manipulate { phase, left } => {
                self.state = State::Boundary { phase, left };
                self.config.creates.and_then(|creates| self.manipulate(creates)).map(Step::Operation)
            }
            State::Boundary { phase, left } => {
                self.state = State::Access { phase, left: left - 1 };
                Some(Step::TransactionDone)
            }
            State::Delete => match self.files.pop() {
                Some(File { number: file, directory, .. }) => {
                    Some(Step::Operation(Operation::Delete { file, directory }))
                }
                None => {
                    self.state = self.after_phase(Phase::Delete);
                    None
                }
            },
            State::Done => None,
        }
    }
}

impl Iterator for Postmark {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.advance() {
                return Some(step);
            }
            if matches!(self.state, State::Done) {
                return None;
            }
        }
    }
}
