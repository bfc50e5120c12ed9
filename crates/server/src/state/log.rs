//! A log: a file of appended records with checksums, each of which continues from the record before.

use super::end::{self, End, Mark, beside};
use super::{Broken, Damage, LogKind};
use crate::file_system::{File, Files, How, write_all};
use std::io;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"fbstate\0";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 4;
/// The number of bytes before the body of a record: length, sequence and committed.
const RECORD_HEAD_BYTES: usize = 4 + 8 + 8;
const TAIL_BYTES: usize = 4;

/// The most bytes of a record that are in memory before the checksum is known: a damaged length must not cost
/// gigabytes.
const UNCHECKED_BYTES_MAX: usize = 1 << 20;

/// Returns the path of a log's end file.
pub(crate) fn end_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".end");
    path.with_file_name(name)
}

/// A log that is open for writing.
pub(crate) struct Log {
    path: PathBuf,
    file: Option<Box<dyn File>>,
    end: End,
    kind: LogKind,
    number: u64,
    at: u64,
    chain: u32,
    /// The sequence of the last record that was written, or that a failed call tried to write.
    sequence: u64,
    /// The sequence of the last acknowledged record.
    committed: u64,
}

/// The result of reading a log without damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    mark: Mark,
    slot: usize,
    chain: u32,
    sequence: u64,
    at: u64,
    /// The number of bytes behind the last whole record: the rest of a record that a power cut has torn.
    pub torn: u64,
}

impl Scan {
    /// Returns the number of records acknowledged since the log was first created.
    pub fn acknowledged(&self) -> u64 {
        self.mark.sequence
    }

    /// Returns the number of sound records written since the log was first created, whether or not they were acknowledged.
    pub fn records(&self) -> u64 {
        self.sequence
    }

    /// Returns the damage of a log with fewer records than the journal of tasks knows of.
    pub fn older_than(&self, journaled: u64) -> Option<Damage> {
        let records = self.records();
        (records < journaled).then_some(Damage::Older { records, journaled })
    }

    /// Reads a log and its end file, and changes nothing. `each` gets the body of every sound record, also of those
    /// before damage, and returns whether the body fits those before. `None`: no record was ever acknowledged.
    pub fn read(
        files: &dyn Files,
        path: &Path,
        kind: LogKind,
        number: Option<u64>,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Self>, Broken> {
        let end = end_path(path);
        let found = end::read(files, &end);
        let fits =
            |mark: &Mark| mark.kind == kind.code() && number.is_none_or(|number| mark.number == number);
        let found = match found {
            Ok(Some((mark, _))) if !fits(&mark) => Err(Damage::Other),
            found => found,
        };
        let mark = found.as_ref().ok().and_then(|found| found.as_ref().map(|(mark, _)| mark.clone()));
        let note = mark.as_ref().map(|mark| mark.note.clone());
        let broken =
            |path: &Path, damage, whole| Broken { path: path.into(), damage, note: note.clone(), whole };
        let none = mark.as_ref().is_none_or(|mark| mark.sequence == 0);
        let opened = match files.open(path, How::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match (mark, found) {
                    (_, Err(damage)) => Err(broken(&end, damage, false)),
                    (Some(mark), _) if !none => {
                        Err(broken(path, Damage::Gone { acknowledged: mark.sequence }, false))
                    }
                    // The log was created and never used, or a power cut interrupted its creation.
                    _ => Ok(None),
                };
            }
            opened => opened.and_then(|mut file| Ok((file.len()?, file))),
        };
        let (len, file) =
            opened.map_err(|error| broken(path, Damage::Unreadable(error.to_string()), false))?;
        let mut reader = Reader { file, len, at: 0, chain: 0 };
        let mut records = Records::default();
        let expected = mark.as_ref().map(|mark| mark.number).or(number);
        let read = reader.header(kind, expected).and_then(|_| reader.records(&mut each, &mark, &mut records));
        if let Err(damage) = read {
            return Err(broken(path, damage, false));
        }
        let Records { first, last, committed, at_mark, stopped } = records;
        let torn = len.saturating_sub(reader.at);
        let whole = torn == 0 && last > 0;
        let (mark, slot) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Err(broken(&end, Damage::EndGone, whole)),
            Err(damage) => return Err(broken(&end, damage, whole)),
        };
        let acknowledged = mark.sequence;
        if last < acknowledged || last == 0 {
            let damage = match torn {
                0 => Damage::Cut { last, acknowledged },
                _ => Damage::Record { sequence: last + 1, at: reader.at, acknowledged },
            };
            return Err(broken(path, damage, false));
        }
        if committed > acknowledged {
            let stale =
                Broken { note: None, ..broken(&end, Damage::EndOlder { acknowledged, committed }, whole) };
            return Err(stale);
        }
        if acknowledged >= first && at_mark != Some(mark.chain) {
            return Err(broken(path, Damage::Differs { sequence: acknowledged }, false));
        }
        if let Some((sequence, at)) = stopped {
            return Err(broken(path, Damage::Content { sequence, at }, false));
        }
        Ok(Some(Self { mark, slot, chain: reader.chain, sequence: last, at: reader.at, torn }))
    }
}

/// The sound records of a file that have been read so far.
#[derive(Default)]
struct Records {
    first: u64,
    last: u64,
    /// The sequence of the last acknowledged record, according to the last record read.
    committed: u64,
    /// The checksum of the record that the end file names.
    at_mark: Option<u32>,
    /// The sequence and byte of the first record whose body does not fit those before. Later bodies are not passed to
    /// `each`.
    stopped: Option<(u64, u64)>,
}

struct Reader {
    file: Box<dyn File>,
    len: u64,
    at: u64,
    chain: u32,
}

impl Reader {
    fn bytes(&mut self, at: u64, len: u64) -> Result<Option<Vec<u8>>, Damage> {
        // A damaged length must not allocate more memory than there are bytes.
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let n = self.file.read_at(at, &mut bytes).map_err(|error| Damage::Unreadable(error.to_string()))?;
        Ok((n == bytes.len()).then_some(bytes))
    }

    fn header(&mut self, kind: LogKind, number: Option<u64>) -> Result<(), Damage> {
        let Some(header) = self.bytes(0, HEADER_BYTES as u64)? else {
            return Err(if self.len == 0 {
                Damage::Cut { last: 0, acknowledged: 0 }
            } else {
                Damage::Header
            });
        };
        let field =
            |at: usize| header.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        if !header.starts_with(MAGIC) {
            return Err(Damage::Foreign);
        }
        let fields = header.get(..HEADER_BYTES - 4).unwrap_or_default();
        let check = crc32fast::hash(fields);
        if field(HEADER_BYTES - 4) != Some(check) {
            return Err(Damage::Header);
        }
        match field(8) {
            Some(VERSION) => {}
            version => return Err(Damage::Version(version.unwrap_or(0))),
        }
        let found = header.get(16..24).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        if field(12) != Some(kind.code()) || number.is_some_and(|number| found != Some(number)) {
            return Err(Damage::Other);
        }
        (self.at, self.chain) = (HEADER_BYTES as u64, check);
        Ok(())
    }

    /// Returns the checksum of a record whose body begins at `start`; `None` if the checksum stored after the body
    /// differs.
    fn chained(&mut self, head: &[u8], start: u64, len: u32) -> Result<Option<u32>, Damage> {
        let end = start.saturating_add(u64::from(len));
        let Some(tail) = self.bytes(end, TAIL_BYTES as u64)? else { return Ok(None) };
        let (mut hasher, mut at) = (begun(self.chain, head), start);
        while at < end {
            let piece = (end - at).min(UNCHECKED_BYTES_MAX as u64);
            let Some(bytes) = self.bytes(at, piece)? else { return Ok(None) };
            hasher.update(&bytes);
            at += piece;
        }
        let chain = hasher.finalize();
        Ok((tail == chain.to_le_bytes()).then_some(chain))
    }

    /// Returns the body of the record that begins at byte `at`, if the record is sound.
    fn record_at(&mut self, at: u64) -> Result<Option<Vec<u8>>, Damage> {
        let Some(chain) = self.bytes(at.saturating_sub(TAIL_BYTES as u64), TAIL_BYTES as u64)? else {
            return Ok(None);
        };
        let Some(head) = self.bytes(at, RECORD_HEAD_BYTES as u64)? else { return Ok(None) };
        let number = |bytes: &[u8]| bytes.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
        let Some((chain, len)) = number(&chain).zip(number(&head)) else { return Ok(None) };
        self.chain = chain;
        let start = at.saturating_add(RECORD_HEAD_BYTES as u64);
        match self.chained(&head, start, len)? {
            Some(_) => self.bytes(start, u64::from(len)),
            None => Ok(None),
        }
    }

    /// Passes the bodies of all sound records to `each`, in order, and stops at the first record that is not sound.
    fn records(
        &mut self,
        each: &mut impl FnMut(&[u8]) -> bool,
        mark: &Option<Mark>,
        all: &mut Records,
    ) -> Result<(), Damage> {
        while let Some(head) = self.bytes(self.at, RECORD_HEAD_BYTES as u64)? {
            let number =
                |at: usize| head.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
            let len = head.first_chunk::<4>().map(|b| u32::from_le_bytes(*b)).unwrap_or(u32::MAX);
            let (Some(sequence), Some(committed)) = (number(4), number(12)) else { return Ok(()) };
            let start = self.at + RECORD_HEAD_BYTES as u64;
            let follows = sequence > 0 && committed < sequence && (all.last == 0 || sequence == all.last + 1);
            let Some(chain) = self.chained(&head, start, len).map(|sound| sound.filter(|_| follows))? else {
                return Ok(());
            };
            let Some(body) = self.bytes(start, u64::from(len))? else { return Ok(()) };
            if all.stopped.is_none() && !each(&body) {
                all.stopped = Some((sequence, self.at));
            }
            if all.last == 0 {
                all.first = sequence;
            }
            (all.last, all.committed) = (sequence, committed);
            if mark.as_ref().is_some_and(|mark| mark.sequence == sequence) {
                all.at_mark = Some(chain);
            }
            self.chain = chain;
            self.at = start + u64::from(len) + TAIL_BYTES as u64;
        }
        Ok(())
    }
}

fn chained(chain: u32, head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = begun(chain, head);
    hasher.update(body);
    hasher.finalize()
}

fn begun(chain: u32, head: &[u8]) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chain.to_le_bytes());
    hasher.update(head);
    hasher
}

impl Log {
    /// Opens a log that was read: cuts off a torn record, and acknowledges records that were written but not
    /// acknowledged.
    pub fn resume(files: &dyn Files, path: &Path, kind: LogKind, scan: Scan) -> io::Result<Self> {
        let Scan { mark, slot, chain, sequence, at, torn } = scan;
        let mut file = files.open(path, How::Write)?;
        if torn > 0 {
            file.set_len(at)?;
        }
        // A killed daemon may have written records without syncing them.
        file.sync()?;
        let mut end = End::open(files, &end_path(path), &mark, slot)?;
        if sequence > mark.sequence {
            end.commit(sequence, chain, &mark.note)?;
        }
        let number = mark.number;
        Ok(Self {
            path: path.into(),
            file: Some(file),
            end,
            kind,
            number,
            at,
            chain,
            sequence,
            committed: sequence,
        })
    }

    /// Creates a log with one record, durably.
    pub fn create(
        files: &dyn Files,
        path: &Path,
        kind: LogKind,
        number: u64,
        body: &[u8],
        note: &[u8],
    ) -> io::Result<Self> {
        // The end file is created first: from then on a missing log is noticed.
        let end = End::create(files, &end_path(path), kind, number)?;
        let path = path.to_owned();
        let mut log =
            Self { path, file: None, end, kind, number, at: 0, chain: 0, sequence: 0, committed: 0 };
        log.replace(files, body, note)?;
        Ok(log)
    }

    /// Returns the number of records since the log was first created; after a successful call all of them are
    /// acknowledged.
    pub fn records(&self) -> u64 {
        self.sequence
    }

    /// Returns the length of the log in bytes.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// The byte at which the first record of a log begins.
    pub const FIRST_RECORD_BYTE: u64 = HEADER_BYTES as u64;

    /// Returns the length in the file of a record with a body of `body` bytes.
    pub fn record_bytes(body: usize) -> u64 {
        (RECORD_HEAD_BYTES + TAIL_BYTES + body) as u64
    }

    /// Reads the body of the record that begins at byte `at` of a log; `None` if the record is damaged.
    ///
    /// The checksum from which the record continues is in the four bytes before the record.
    pub fn read_back(mut file: Box<dyn File>, at: u64) -> io::Result<Option<Vec<u8>>> {
        let len = file.len()?;
        let mut reader = Reader { file, len, at, chain: 0 };
        let read = reader.record_at(at);
        read.or_else(|damage| match damage {
            Damage::Unreadable(why) => Err(io::Error::other(why)),
            _ => Ok(None),
        })
    }

    /// Adds a record, durably. After an error no record can be added until the log is [replaced](Self::replace).
    pub fn append(&mut self, body: &[u8], note: &[u8]) -> io::Result<()> {
        let Some(mut file) = self.file.take() else {
            return Err(io::Error::other("the record before could not be written"));
        };
        let record = self.record(body)?;
        write_all(&mut *file, self.at, &record)?;
        file.sync()?;
        self.at = self.at.saturating_add(record.len() as u64);
        self.commit(note)?;
        self.file = Some(file);
        Ok(())
    }

    /// Replaces all records by one, durably.
    pub fn replace(&mut self, files: &dyn Files, body: &[u8], note: &[u8]) -> io::Result<()> {
        self.file = None;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.kind.code().to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        self.chain = crc32fast::hash(&bytes);
        bytes.extend(self.chain.to_le_bytes());
        bytes.extend(self.record(body)?);
        let new = beside(&self.path);
        let mut file = files.open(&new, How::Make)?;
        file.set_len(0)?;
        write_all(&mut *file, 0, &bytes)?;
        file.sync()?;
        files.rename(&new, &self.path)?;
        self.at = bytes.len() as u64;
        self.commit(note)?;
        self.file = Some(file);
        Ok(())
    }

    /// Removes a log and its end file, and the temporary files that a failed creation has left.
    pub fn remove(files: &dyn Files, path: &Path) -> io::Result<()> {
        files.remove(&beside(path))?;
        files.remove(&beside(&end_path(path)))?;
        files.remove(path)?;
        files.remove(&end_path(path))
    }

    fn record(&mut self, body: &[u8]) -> io::Result<Vec<u8>> {
        let len = u32::try_from(body.len()).map_err(|_| io::Error::other("a record of more than 4 GiB"))?;
        self.sequence = self.sequence.saturating_add(1);
        let mut record = len.to_le_bytes().to_vec();
        record.extend(self.sequence.to_le_bytes());
        record.extend(self.committed.to_le_bytes());
        self.chain = chained(self.chain, &record, body);
        record.extend(body);
        record.extend(self.chain.to_le_bytes());
        Ok(record)
    }

    fn commit(&mut self, note: &[u8]) -> io::Result<()> {
        self.end.commit(self.sequence, self.chain, note)?;
        self.committed = self.sequence;
        Ok(())
    }
}
