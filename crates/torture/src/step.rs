//! The steps of a history: events for a drive and its scheduler.

use crate::outer::Knowledge;
use scheduler::BLOCK_SECTORS_MAX;
use std::fmt;
use units::Op;

/// The longest duration of a step: an hour, so that no file exceeds the range of time.
const STEP_NS_MAX: u64 = 3_600_000_000_000;

/// The true effect of a command whose outcome is unknown to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was never carried out.
    Nothing,
    /// All of it was carried out.
    All,
    /// This many sectors passed under the head.
    Sectors(u32),
}

impl Fate {
    /// Returns the number of done sectors of a command of `all` sectors.
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

/// The available buffers of background writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtHand {
    /// All.
    All,
    /// None.
    None,
    /// All but those that begin at an LBN whose hash with this number is even.
    Half(u64),
}

/// The time for which a client of the record face waits for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No time: a timeout of 0.
    Poll,
    /// Until a record comes: -1.
    Forever,
    /// This many nanoseconds.
    For(u64),
}

/// One step of a history. Sessions and tasks have numbers of their own, so that a history remains valid without some of its
/// steps; a step with a number that does not exist does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client opens a session.
    Open {
        /// Its number from here on.
        session: u32,
        /// 1 to 100.
        priority: u8,
    },
    /// A client closes a session.
    Close {
        /// The session.
        session: u32,
    },
    /// A client registers a task.
    Task {
        /// Whether it reads or writes.
        op: Op,
        /// The session.
        session: u32,
        /// Its number from here on.
        task: u32,
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
        /// Sectors in a block.
        block: u64,
    },
    /// A client aborts a task.
    Abort {
        /// The task.
        task: u32,
    },
    /// A client withdraws the blocks of a range.
    AbortRange {
        /// The session.
        session: u32,
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
    },
    /// A client promotes the blocks of a range.
    Promote {
        /// The session.
        session: u32,
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
    },
    /// A client suspends its session.
    Suspend {
        /// The session.
        session: u32,
    },
    /// A client resumes its session.
    Resume {
        /// The session.
        session: u32,
    },
    /// A client sets whether writes complete its reads.
    Serve {
        /// The session.
        session: u32,
        /// Whether they do.
        on: bool,
    },
    /// A foreground request arrives.
    Submit {
        /// Whether it reads or writes.
        op: Op,
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
    },
    /// Time passes.
    Advance {
        /// Nanoseconds.
        ns: u64,
    },
    /// Sets the maximum of outputs per poll from here on; `None` for no limit.
    Polls {
        /// The maximum.
        most: Option<u32>,
    },
    /// Sets the available buffers from here on.
    Buffers {
        /// The available buffers.
        at_hand: AtHand,
    },
    /// A sector becomes bad.
    Bad {
        /// The sector.
        lbn: u64,
        /// Whether a write cannot mend it.
        stuck: bool,
    },
    /// A sector becomes good again; its content is lost.
    Mend {
        /// The sector.
        lbn: u64,
    },
    /// The content of a sector changes without a write.
    Rot {
        /// The sector.
        lbn: u64,
    },
    /// A scrub of the whole drive begins, unless one is under way.
    Scrub {
        /// 1 to 100.
        priority: u8,
        /// Sectors in a block.
        block: u64,
    },
    /// The scrub's progress is saved.
    Save,
    /// A table is mined, unless one is already.
    Mine {
        /// 1 to 100.
        priority: u8,
        /// Its first LBN.
        start: u64,
        /// Its pages.
        pages: u64,
        /// Scans of the table, one after another.
        scans: u64,
        /// The thousandths of the pages after which a scan ends.
        permille: u16,
    },
    /// A client opens a session over the record face, or closes the one that it has.
    Records {
        /// 1 to 100.
        priority: u8,
        /// Records that its buffer holds.
        records: u32,
        /// Bytes that it holds.
        bytes: u64,
    },
    /// The client of the record face asks for records, up to a maximum.
    Fetch {
        /// The time for which it waits for each.
        wait: Wait,
        /// The maximum.
        most: u32,
    },
    /// The next completion is late at the host.
    Late {
        /// Nanoseconds.
        ns: u64,
    },
    /// The next completion never reaches the host, which reports the loss when it was due.
    Lose {
        /// The true effect.
        fate: Fate,
    },
    /// Outside the drive: the host gives up on the next command when it is done, and reports its loss to the core.
    GiveUp {
        /// The part of it that was done.
        fate: Fate,
    },
    /// Outside the drive: the host begins or ends readings of its own, one sector at a time, whenever the core permits one.
    Readings {
        /// Whether it begins.
        on: bool,
    },
    /// Outside the drive: the core gets another model of the drive.
    Adopt {
        /// The model's knowledge of the drive.
        knowledge: Knowledge,
    },
    /// A client of the cache requests that all dirty data be written.
    Flush,
    /// The contents of a range behind the cache are discarded.
    Trim {
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
    },
    /// A snapshot is taken.
    Snapshot,
    /// The oldest snapshot is deleted.
    Forget,
    /// A backup of the latest snapshot begins, unless one is under way.
    Backup {
        /// 1 to 100.
        priority: u8,
        /// Whether it is the difference from the snapshot that was restored last.
        difference: bool,
    },
    /// A client of the background door asks for a range.
    Ask {
        /// Whether it reads or writes.
        op: Op,
        /// The client.
        client: u32,
        /// 0 for the disk, or the place of a snapshot among those of the history, from 1, modulo their number.
        snapshot: u32,
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
    },
    /// A client of the background door declares a range.
    Declare {
        /// The client.
        client: u32,
        /// First LBN.
        start: u64,
        /// Sectors.
        len: u64,
    },
    /// A snapshot is taken that ends by itself.
    Keep {
        /// After this many nanoseconds.
        ns: u64,
    },
    /// The daemon is killed and starts again.
    Kill {
        /// The file operations that it had requested and that are still carried out.
        operations: u32,
    },
    /// Sets the room of the image's destination; `None` for no limit.
    Room {
        /// In bytes.
        bytes: Option<u64>,
    },
    /// Blocks begin to move, unless they have already.
    Reorganize {
        /// 1 to 100.
        priority: u8,
    },
    /// The reorganiser's memory fails after a number of further operations.
    Nvram {
        /// The number.
        operations: u32,
    },
    /// The power fails and returns. The medium keeps its contents; the scheduler starts anew; clients register their missing
    /// blocks.
    PowerCut,
    /// A call that must be refused and change nothing.
    Misuse {
        /// The kind; see `misuse.rs`.
        kind: u32,
    },
    /// All troubles end, and a steady foreground continues until every client has its blocks.
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
    /// Parses the words of a step. Returns the step, or the error in them.
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
