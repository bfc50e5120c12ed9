//! The end file of a log, which names the last acknowledged record.

use super::{Damage, LogKind};
use crate::file_system::{File, Files, How, write_all};
use std::io;
use std::path::Path;

const MAGIC: &[u8; 8] = b"fbstend\0";
const VERSION: u32 = 1;
/// The bytes of one of an end file's two slots, a physical sector of most drives: a torn write of one slot leaves the
/// other slot intact.
pub(super) const SLOT_BYTES: usize = 4096;
const FIELDS_BYTES: usize = 8 + 4 + 4 + 8 + 8 + 4 + 4;
/// The most bytes of a note: what the other fields leave of a slot.
const NOTE_BYTES_MAX: usize = SLOT_BYTES - FIELDS_BYTES - 4;

/// The content of a slot of an end file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub kind: u32,
    /// The log's number, which distinguishes logs of the same kind.
    pub number: u64,
    /// The sequence of the last acknowledged record; 0: none.
    pub sequence: u64,
    /// The checksum of the last acknowledged record.
    pub chain: u32,
    /// A note of the log's owner, readable without the log.
    pub note: Vec<u8>,
}

impl Mark {
    fn encode(&self) -> io::Result<Vec<u8>> {
        if self.note.len() > NOTE_BYTES_MAX {
            return Err(io::Error::other("the note in a log's end is too long"));
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.chain.to_le_bytes());
        bytes.extend((self.note.len() as u32).to_le_bytes());
        bytes.extend(&self.note);
        bytes.resize(SLOT_BYTES - 4, 0);
        let check = crc32fast::hash(&bytes);
        bytes.extend(check.to_le_bytes());
        Ok(bytes)
    }

    fn decode(slot: &[u8]) -> Result<Self, Option<u32>> {
        let sound = || {
            let (fields, check) = slot.split_last_chunk::<4>()?;
            (crc32fast::hash(fields) == u32::from_le_bytes(*check)).then_some(fields.strip_prefix(MAGIC)?)
        };
        let mut fields = sound().ok_or(None)?;
        let mut take = |n: usize| {
            let (taken, rest) = fields.split_at_checked(n)?;
            fields = rest;
            let mut number = [0; 8];
            number.get_mut(..n)?.copy_from_slice(taken);
            Some(u64::from_le_bytes(number))
        };
        let version = take(4).ok_or(None)? as u32;
        if version != VERSION {
            return Err(Some(version));
        }
        let mut parse = || {
            let (kind, number, sequence) = (take(4)? as u32, take(8)?, take(8)?);
            let (chain, len) = (take(4)? as u32, take(4)? as usize);
            Some((kind, number, sequence, chain, len))
        };
        let (kind, number, sequence, chain, len) = parse().ok_or(None)?;
        let note = fields.get(..len).ok_or(None)?.to_vec();
        Ok(Self { kind, number, sequence, chain, note })
    }
}

/// Reads an end file. Returns the newer of the sound slots with its index; `None` if there is no such file.
pub(super) fn read(files: &dyn Files, path: &Path) -> Result<Option<(Mark, usize)>, Damage> {
    let mut bytes = vec![0; 2 * SLOT_BYTES + 1];
    let read = files.open(path, How::Read).and_then(|mut file| file.read_at(0, &mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Damage::Unreadable(error.to_string())),
        // An end file has its full length from its creation on, so a file of another length was changed by another
        // program.
        Ok(n) if n != 2 * SLOT_BYTES => return Err(Damage::End),
        Ok(_) => {}
    }
    bytes.truncate(2 * SLOT_BYTES);
    let (mut newest, mut version): (Option<(Mark, usize)>, _) = (None, None);
    for (index, slot) in bytes.chunks(SLOT_BYTES).enumerate() {
        match Mark::decode(slot) {
            Ok(mark) if newest.as_ref().is_none_or(|(old, _)| old.sequence < mark.sequence) => {
                newest = Some((mark, index));
            }
            Ok(_) => {}
            Err(other) => version = version.or(other),
        }
    }
    match (newest, version) {
        (Some(found), _) => Ok(Some(found)),
        (None, Some(version)) => Err(Damage::Version(version)),
        (None, None) => Err(Damage::End),
    }
}

/// An end file that is open for writing.
pub(crate) struct End {
    file: Box<dyn File>,
    kind: u32,
    number: u64,
    /// The slot to write next: never the one with the last acknowledged record.
    slot: usize,
}

impl End {
    /// Creates an end file without acknowledged records. The file is complete and durable before it gets its name.
    pub fn create(files: &dyn Files, path: &Path, kind: LogKind, number: u64) -> io::Result<Self> {
        let mark = Mark { kind: kind.code(), number, sequence: 0, chain: 0, note: Vec::new() };
        let new = beside(path);
        let mut file = files.open(&new, How::Make)?;
        file.set_len(0)?;
        write_all(&mut *file, 0, &[mark.encode()?, mark.encode()?].concat())?;
        file.sync()?;
        files.rename(&new, path)?;
        Ok(Self { file, kind: mark.kind, number, slot: 1 })
    }

    /// Opens an end file that was [read](read), for writing.
    pub(super) fn open(files: &dyn Files, path: &Path, mark: &Mark, slot: usize) -> io::Result<Self> {
        let file = files.open(path, How::Write)?;
        Ok(Self { file, kind: mark.kind, number: mark.number, slot: 1 - slot.min(1) })
    }

    /// Opens the end file of a file that is no log. Returns it with the sequence number that it acknowledges.
    pub fn go_on(files: &dyn Files, path: &Path, kind: LogKind, number: u64) -> Result<(Self, u64), Damage> {
        let (mark, slot) = read(files, path)?.ok_or(Damage::EndGone)?;
        if (mark.kind, mark.number) != (kind.code(), number) {
            return Err(Damage::Other);
        }
        let end =
            Self::open(files, path, &mark, slot).map_err(|error| Damage::Unreadable(error.to_string()))?;
        Ok((end, mark.sequence))
    }

    /// Writes `sequence` into both slots of the end file whose number is `number`, durably, so that one more write of
    /// another thread cannot replace both. An end file that is gone, damaged or has another number stays as it is.
    /// Returns whether the end file has changed.
    pub fn last(files: &dyn Files, path: &Path, number: u64, sequence: u64) -> io::Result<bool> {
        // Open the file before reading: if another file takes the name in between, that file is not written to.
        let file = match files.open(path, How::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        let Ok(Some((mark, slot))) = read(files, path) else { return Ok(false) };
        if mark.number != number || mark.sequence == sequence {
            return Ok(false);
        }
        let mut end = Self { file, kind: mark.kind, number, slot: 1 - slot.min(1) };
        (0..2).try_for_each(|_| end.commit(sequence, 0, &[]))?;
        Ok(true)
    }

    /// Checks that an end file is sound and belongs to a file of this kind.
    pub fn check(files: &dyn Files, path: &Path, kind: LogKind) -> Result<(), Damage> {
        let (mark, _) = read(files, path)?.ok_or(Damage::EndGone)?;
        if mark.kind == kind.code() { Ok(()) } else { Err(Damage::Other) }
    }

    /// Acknowledges all records up to `sequence`, durably. Writes to the older slot, so that a torn write leaves the
    /// newer one.
    pub fn commit(&mut self, sequence: u64, chain: u32, note: &[u8]) -> io::Result<()> {
        let mark = Mark { kind: self.kind, number: self.number, sequence, chain, note: note.to_vec() };
        write_all(&mut *self.file, (self.slot * SLOT_BYTES) as u64, &mark.encode()?)?;
        self.file.sync()?;
        self.slot = 1 - self.slot;
        Ok(())
    }
}

/// Returns the temporary name under which a new file is written before it gets its name.
pub(super) fn beside(path: &Path) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    path.with_file_name(name)
}
