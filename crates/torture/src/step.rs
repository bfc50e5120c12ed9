//! The steps of a history: calls, faults, and the passing of time. docs/TORTURE.md lists their text forms.

use crate::outer::Knowledge;
use scheduler::BLOCK_SECTORS_MAX;
use std::fmt;
use units::Op;

/// The longest duration of a step in ns, an hour, so that the steps of a file cannot overflow the time.
const STEP_NS_MAX: u64 = 3_600_000_000_000;

/// The true effect of a command whose outcome the host does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The command had no effect.
    Nothing,
    /// The command was executed completely.
    All,
    /// The command was executed up to this number of sectors.
    Sectors(u32),
}

impl Fate {
    /// Returns the number of executed sectors of a command with `all` sectors.
    pub(crate) fn sectors(self, all: u64) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::All => all,
            Self::Sectors(n) => u64::from(n).min(all),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::All => write!(f, "all"),
            Self::Sectors(n) => write!(f, "sectors {n}"),
        }
    }
}

/// The background writes for which the host has the data when the core asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtHand {
    /// All background writes.
    All,
    /// No background write.
    None,
    /// About half: the writes whose first LBN, hashed with this number, gives an odd number.
    Half(u64),
}

/// The time for which a client waits for a record ([`apps::records`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The client does not wait; `0` in a file.
    Poll,
    /// The client waits until a record comes; `-1` in a file.
    Forever,
    /// The client waits for this number of nanoseconds.
    For(u64),
}

/// One step of a history. The history numbers sessions and tasks itself, so that it stays valid if steps are removed: a step
/// with a number that does not exist does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client opens a session.
    Open {
        /// The number by which later steps name the session.
        session: u32,
        /// The priority, from 1 to 100.
        priority: u8,
    },
    /// A client closes a session.
    Close {
        /// The number of the session.
        session: u32,
    },
    /// A client registers a task.
    Task {
        /// The operation of the task.
        op: Op,
        /// The number of the session.
        session: u32,
        /// The number by which later steps name the task.
        task: u32,
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
        /// The number of sectors in a block.
        block: u64,
    },
    /// A client aborts a task.
    Abort {
        /// The number of the task.
        task: u32,
    },
    /// A client withdraws the blocks of a range.
    AbortRange {
        /// The number of the session.
        session: u32,
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
    },
    /// A client promotes the blocks of a range to foreground work.
    Promote {
        /// The number of the session.
        session: u32,
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
    },
    /// A client suspends its session.
    Suspend {
        /// The number of the session.
        session: u32,
    },
    /// A client resumes its session.
    Resume {
        /// The number of the session.
        session: u32,
    },
    /// A client sets whether a write of a block completes its read of that block.
    Serve {
        /// The number of the session.
        session: u32,
        /// Whether writes complete reads.
        on: bool,
    },
    /// A foreground request arrives.
    Submit {
        /// The operation of the request.
        op: Op,
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
    },
    /// The virtual time advances, and all events that are due happen.
    Advance {
        /// The time in nanoseconds.
        ns: u64,
    },
    /// Limits the outputs that the host takes after each event (on the daemon, the file operations), from now on.
    Polls {
        /// The most outputs or file operations; `None` for no limit.
        most: Option<u32>,
    },
    /// Sets the background writes for which the host has the data, from now on.
    Buffers {
        /// The background writes.
        at_hand: AtHand,
    },
    /// A sector becomes bad.
    Bad {
        /// The LBN of the sector.
        lbn: u64,
        /// Whether the sector stays bad when it is written.
        stuck: bool,
    },
    /// A sector becomes good again; its content is lost.
    Mend {
        /// The LBN of the sector.
        lbn: u64,
    },
    /// The content of a sector changes without a write.
    Rot {
        /// The LBN of the sector.
        lbn: u64,
    },
    /// A scrub of the whole drive begins, unless one is in progress.
    Scrub {
        /// The priority, from 1 to 100.
        priority: u8,
        /// The number of sectors in a block.
        block: u64,
    },
    /// The progress of the scrub is saved, for its continuation after a power cut.
    Save,
    /// The miner begins to scan a table, unless it is at work.
    Mine {
        /// The priority, from 1 to 100.
        priority: u8,
        /// The first LBN of the table.
        start: u64,
        /// The number of pages of the table.
        pages: u64,
        /// The number of scans of the table, one after another.
        scans: u64,
        /// The share of the pages, in thousandths, after which a scan ends.
        permille: u16,
    },
    /// A client opens a session with a buffer of records ([`apps::records`]), or closes the one that it has.
    Records {
        /// The priority, from 1 to 100.
        priority: u8,
        /// The most records in the buffer.
        records: u32,
        /// The number of bytes at which the buffer is full.
        bytes: u64,
    },
    /// The client with the buffer fetches records.
    Fetch {
        /// The time for which the client waits for each record.
        wait: Wait,
        /// The most records to fetch.
        most: u32,
    },
    /// The next completion reaches the host late.
    Late {
        /// The delay in nanoseconds.
        ns: u64,
    },
    /// The next completion never reaches the host. The host reports the loss to the core at the time of the completion.
    Lose {
        /// The true effect of the command.
        fate: Fate,
    },
    /// Outside the drive: the host gives up on the next command at its completion, and reports its loss to the core.
    GiveUp {
        /// The true effect of the command.
        fate: Fate,
    },
    /// Outside the drive: the host begins or ends its own reads of single sectors, whenever the core permits one.
    Readings {
        /// Whether the reads begin.
        on: bool,
    },
    /// Outside the drive: the core gets another model of the drive.
    Adopt {
        /// The core's knowledge of the drive with the new model.
        knowledge: Knowledge,
    },
    /// A client of the write-back cache, or of the daemon, requests a flush.
    Flush,
    /// A client discards the contents of a range.
    Trim {
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
    },
    /// A snapshot is taken.
    Snapshot,
    /// The oldest snapshot is deleted.
    Forget,
    /// A backup of the latest snapshot begins, unless one is in progress.
    Backup {
        /// The priority, from 1 to 100.
        priority: u8,
        /// Whether the backup has only the differences from the snapshot that was restored last.
        difference: bool,
    },
    /// A client of the daemon sends a background request.
    Ask {
        /// The operation of the request.
        op: Op,
        /// The number of the client.
        client: u32,
        /// 0 for the disk itself; otherwise the number of a snapshot, from 1, modulo the number of the history's snapshots.
        snapshot: u32,
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
    },
    /// A client of the daemon declares a range that it will read in the background.
    Declare {
        /// The number of the client.
        client: u32,
        /// The first LBN.
        start: u64,
        /// The number of sectors.
        len: u64,
    },
    /// A snapshot is taken that ends by itself.
    Keep {
        /// The time in nanoseconds after which the snapshot ends.
        ns: u64,
    },
    /// The daemon is killed and starts again.
    Kill {
        /// The number of outstanding file operations that are still executed.
        operations: u32,
    },
    /// Sets the free space for the backup image, or for the files of the daemon.
    Room {
        /// The free space in bytes; `None` for no limit.
        bytes: Option<u64>,
    },
    /// The reorganiser begins to move blocks, unless it has begun before.
    Reorganize {
        /// The priority, from 1 to 100.
        priority: u8,
    },
    /// The reorganiser's non-volatile memory fails after some more operations.
    Nvram {
        /// The number of operations before the failure.
        operations: u32,
    },
    /// The power fails and returns. The medium keeps its contents, a new core starts, and clients register the blocks that
    /// they lack.
    PowerCut,
    /// A client makes a bad call, which must be refused and change nothing.
    Misuse {
        /// The kind of bad call; `misuse.rs` lists them.
        kind: u32,
    },
    /// All troubles end, and foreground requests arrive steadily until every client has its blocks.
    Settle {
        /// Whether a session of the highest priority wants the whole drive all the time.
        hog: bool,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Open { session, priority } => write!(f, "open {session} {priority}"),
            Self::Close { session } => write!(f, "close {session}"),
            Self::Task { op, session, task, start, len, block } => {
                let op = if op.is_write() { "write" } else { "read" };
                write!(f, "{op} {session} {task} {start} {len} {block}")
            }
            Self::Abort { task } => write!(f, "abort {task}"),
            Self::AbortRange { session, start, len } => write!(f, "abort-range {session} {start} {len}"),
            Self::Promote { session, start, len } => write!(f, "promote {session} {start} {len}"),
            Self::Suspend { session } => write!(f, "suspend {session}"),
            Self::Resume { session } => write!(f, "resume {session}"),
            Self::Serve { session, on } => write!(f, "serve {session} {}", if on { "on" } else { "off" }),
            Self::Submit { op, start, len } => {
                let op = if op.is_write() { "put" } else { "get" };
                write!(f, "{op} {start} {len}")
            }
            Self::Advance { ns } => write!(f, "advance {ns}"),
            Self::Polls { most: None } => write!(f, "polls all"),
            Self::Polls { most: Some(n) } => write!(f, "polls {n}"),
            Self::Buffers { at_hand: AtHand::All } => write!(f, "buffers all"),
            Self::Buffers { at_hand: AtHand::None } => write!(f, "buffers none"),
            Self::Buffers { at_hand: AtHand::Half(salt) } => write!(f, "buffers half {salt}"),
            Self::Bad { lbn, stuck: false } => write!(f, "bad {lbn}"),
            Self::Bad { lbn, stuck: true } => write!(f, "stuck {lbn}"),
            Self::Mend { lbn } => write!(f, "mend {lbn}"),
            Self::Rot { lbn } => write!(f, "rot {lbn}"),
            Self::Scrub { priority, block } => write!(f, "scrub {priority} {block}"),
            Self::Save => write!(f, "save"),
            Self::Mine { priority, start, pages, scans, permille } => {
                write!(f, "mine {priority} {start} {pages} {scans} {permille}")
            }
            Self::Records { priority, records, bytes } => write!(f, "records {priority} {records} {bytes}"),
            Self::Fetch { wait: Wait::Poll, most } => write!(f, "fetch 0 {most}"),
            Self::Fetch { wait: Wait::Forever, most } => write!(f, "fetch -1 {most}"),
            Self::Fetch { wait: Wait::For(ns), most } => write!(f, "fetch {ns} {most}"),
            Self::Late { ns } => write!(f, "late {ns}"),
            Self::Lose { fate } => write!(f, "lose {fate}"),
            Self::GiveUp { fate } => write!(f, "give-up {fate}"),
            Self::Readings { on } => write!(f, "readings {}", if on { "on" } else { "off" }),
            Self::Adopt { knowledge } => write!(f, "adopt {knowledge}"),
            Self::Flush => write!(f, "flush"),
            Self::Trim { start, len } => write!(f, "trim {start} {len}"),
            Self::Snapshot => write!(f, "snapshot"),
            Self::Forget => write!(f, "forget"),
            Self::Backup { priority, difference: false } => write!(f, "backup {priority}"),
            Self::Backup { priority, difference: true } => write!(f, "backup {priority} difference"),
            Self::Ask { op, client, snapshot, start, len } => {
                let op = if op.is_write() { "write" } else { "read" };
                write!(f, "ask {op} {client} {snapshot} {start} {len}")
            }
            Self::Declare { client, start, len } => write!(f, "declare {client} {start} {len}"),
            Self::Keep { ns } => write!(f, "keep {ns}"),
            Self::Kill { operations } => write!(f, "kill {operations}"),
            Self::Room { bytes: None } => write!(f, "room all"),
            Self::Room { bytes: Some(n) } => write!(f, "room {n}"),
            Self::Reorganize { priority } => write!(f, "reorganize {priority}"),
            Self::Nvram { operations } => write!(f, "nvram {operations}"),
            Self::PowerCut => write!(f, "power-cut"),
            Self::Misuse { kind } => write!(f, "misuse {kind}"),
            Self::Settle { hog: false } => write!(f, "settle"),
            Self::Settle { hog: true } => write!(f, "settle hog"),
        }
    }
}

impl Step {
    /// Parses the words of a step. The error is a message with the remedy.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let Some((&name, rest)) = words.split_first() else { return Err("an empty step".into()) };
        let number = |at: usize, what: &str| -> Result<u64, String> {
            let word = rest.get(at).ok_or_else(|| format!("{name} has no {what}; give a number"))?;
            word.parse().map_err(|_| format!("{word:?} is no {what}; give a number below 2^64"))
        };
        let small = |at: usize, what: &str| -> Result<u32, String> {
            number(at, what)?.try_into().map_err(|_| format!("{what} is too large; give one below 2^32"))
        };
        let time = |at: usize| match number(at, "number of nanoseconds")? {
            ns if ns <= STEP_NS_MAX => Ok(ns),
            ns => Err(format!("{ns} ns is more than an hour; give several steps")),
        };
        let priority = |at: usize| -> Result<u8, String> {
            let priority = u8::try_from(number(at, "priority")?).ok().filter(|p| (1..=100).contains(p));
            priority.ok_or_else(|| "no such priority; give 1 to 100".into())
        };
        let blocks = |at: usize| match number(at, "block size")? {
            block if (1..=BLOCK_SECTORS_MAX).contains(&block) => Ok(block),
            block => Err(format!("blocks of {block} sectors; give 1 to {BLOCK_SECTORS_MAX}")),
        };
        let word = |at: usize| rest.get(at).copied().unwrap_or("");
        let mut words = rest.len();
        let mut takes = |n: usize| words = n;
        let step = match name {
            "open" => {
                takes(2);
                Self::Open { session: small(0, "session")?, priority: priority(1)? }
            }
            "close" | "suspend" | "resume" => {
                takes(1);
                let session = small(0, "session")?;
                match name {
                    "close" => Self::Close { session },
                    "suspend" => Self::Suspend { session },
                    _ => Self::Resume { session },
                }
            }
            "read" | "write" => {
                takes(5);
                Self::Task {
                    op: if name == "read" { Op::Read } else { Op::Write },
                    session: small(0, "session")?,
                    task: small(1, "task")?,
                    start: number(2, "first LBN")?,
                    len: number(3, "number of sectors")?,
                    block: blocks(4)?,
                }
            }
            "abort" => {
                takes(1);
                Self::Abort { task: small(0, "task")? }
            }
            "abort-range" | "promote" => {
                takes(3);
                let session = small(0, "session")?;
                let (start, len) = (number(1, "first LBN")?, number(2, "number of sectors")?);
                if name == "promote" {
                    Self::Promote { session, start, len }
                } else {
                    Self::AbortRange { session, start, len }
                }
            }
            "serve" => {
                takes(2);
                let on = match word(1) {
                    "on" => true,
                    "off" => false,
                    other => return Err(format!("serve {other:?}; say on or off")),
                };
                Self::Serve { session: small(0, "session")?, on }
            }
            "readings" => {
                takes(1);
                match word(0) {
                    "on" | "off" => Self::Readings { on: word(0) == "on" },
                    other => return Err(format!("readings {other:?}; say on or off")),
                }
            }
            "adopt" => {
                takes(1);
                Self::Adopt { knowledge: word(0).parse()? }
            }
            "get" | "put" => {
                takes(2);
                let op = if name == "get" { Op::Read } else { Op::Write };
                Self::Submit { op, start: number(0, "first LBN")?, len: number(1, "number of sectors")? }
            }
            "advance" => {
                takes(1);
                Self::Advance { ns: time(0)? }
            }
            "polls" => {
                takes(1);
                Self::Polls { most: if word(0) == "all" { None } else { Some(small(0, "number of polls")?) } }
            }
            "buffers" => match word(0) {
                "all" | "none" => {
                    takes(1);
                    Self::Buffers { at_hand: if word(0) == "all" { AtHand::All } else { AtHand::None } }
                }
                "half" => {
                    takes(2);
                    Self::Buffers { at_hand: AtHand::Half(number(1, "salt")?) }
                }
                other => return Err(format!("buffers {other:?}; say all, none or half N")),
            },
            "bad" | "stuck" => {
                takes(1);
                Self::Bad { lbn: number(0, "LBN")?, stuck: name == "stuck" }
            }
            "mend" => {
                takes(1);
                Self::Mend { lbn: number(0, "LBN")? }
            }
            "rot" => {
                takes(1);
                Self::Rot { lbn: number(0, "LBN")? }
            }
            "scrub" => {
                takes(2);
                Self::Scrub { priority: priority(0)?, block: blocks(1)? }
            }
            "save" => {
                takes(0);
                Self::Save
            }
            "mine" => {
                takes(5);
                let permille = u16::try_from(number(4, "share")?).ok().filter(|p| (1..=1_000).contains(p));
                Self::Mine {
                    priority: priority(0)?,
                    start: number(1, "first LBN")?,
                    pages: number(2, "number of pages")?.max(1),
                    scans: number(3, "number of scans")?.max(1),
                    permille: permille.ok_or("no such share; give 1 to 1000 thousandths")?,
                }
            }
            "records" => {
                takes(3);
                let records = small(1, "number of records")?;
                Self::Records { priority: priority(0)?, records, bytes: number(2, "number of bytes")? }
            }
            "fetch" => {
                takes(2);
                let wait = match word(0) {
                    "-1" => Wait::Forever,
                    _ => match time(0)? {
                        0 => Wait::Poll,
                        ns => Wait::For(ns),
                    },
                };
                Self::Fetch { wait, most: small(1, "number of records")? }
            }
            "late" => {
                takes(1);
                Self::Late { ns: time(0)? }
            }
            "lose" | "give-up" => {
                let fate = match word(0) {
                    "nothing" => Fate::Nothing,
                    "all" => Fate::All,
                    "sectors" => Fate::Sectors(small(1, "number of sectors")?),
                    other => return Err(format!("{name} {other:?}; say nothing, all or sectors N")),
                };
                takes(if matches!(fate, Fate::Sectors(_)) { 2 } else { 1 });
                if name == "lose" { Self::Lose { fate } } else { Self::GiveUp { fate } }
            }
            "flush" | "snapshot" | "forget" => {
                takes(0);
                match name {
                    "flush" => Self::Flush,
                    "snapshot" => Self::Snapshot,
                    _ => Self::Forget,
                }
            }
            "trim" => {
                takes(2);
                Self::Trim { start: number(0, "first LBN")?, len: number(1, "number of sectors")? }
            }
            "backup" => {
                let difference = word(1) == "difference";
                takes(1 + usize::from(difference));
                Self::Backup { priority: priority(0)?, difference }
            }
            "ask" => {
                takes(5);
                let op = match word(0) {
                    "read" => Op::Read,
                    "write" => Op::Write,
                    other => return Err(format!("ask {other:?}; say read or write")),
                };
                let (client, snapshot) = (small(1, "client")?, small(2, "snapshot")?);
                let (start, len) = (number(3, "first LBN")?, number(4, "number of sectors")?);
                Self::Ask { op, client, snapshot, start, len }
            }
            "declare" => {
                takes(3);
                let (start, len) = (number(1, "first LBN")?, number(2, "number of sectors")?);
                Self::Declare { client: small(0, "client")?, start, len }
            }
            "keep" => {
                takes(1);
                Self::Keep { ns: time(0)? }
            }
            "kill" => {
                takes(1);
                Self::Kill { operations: small(0, "number of operations")? }
            }
            "room" => {
                takes(1);
                Self::Room {
                    bytes: if word(0) == "all" { None } else { Some(number(0, "number of bytes")?) },
                }
            }
            "reorganize" => {
                takes(1);
                Self::Reorganize { priority: priority(0)? }
            }
            "nvram" => {
                takes(1);
                Self::Nvram { operations: small(0, "number of operations")? }
            }
            "power-cut" => {
                takes(0);
                Self::PowerCut
            }
            "misuse" => {
                takes(1);
                Self::Misuse { kind: small(0, "kind")? }
            }
            "settle" => {
                let hog = word(0) == "hog";
                takes(usize::from(hog));
                Self::Settle { hog }
            }
            other => {
                return Err(format!(
                    "no step is called {:?}; steps are listed in docs/TORTURE.md",
                    other.chars().take(40).collect::<String>()
                ));
            }
        };
        if rest.len() != words {
            return Err(format!("{name} takes {words} words, here are {}", rest.len()));
        }
        Ok(step)
    }
}
