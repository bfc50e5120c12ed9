//! A task's own record of its progress, preceded by the identity of the file or disks that the progress belongs
//! to: after a restart the name may be another file's or another disk's.

/// The first bytes of a record with an identity. Earlier versions wrote no identity.
const MAGIC: &[u8; 8] = b"FBWHOSE1";

/// Returns the part of a record that precedes the progress.
pub(super) fn begin(identity: &str) -> Vec<u8> {
    let mut record = MAGIC.to_vec();
    record.extend((identity.len() as u32).to_le_bytes());
    record.extend(identity.as_bytes());
    record
}

/// Splits a record into the identity, if it has one, and the progress; `None` if the record is cut short.
pub(super) fn split(record: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let Some(rest) = record.strip_prefix(MAGIC) else { return Some((None, record)) };
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (identity, progress) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((Some(str::from_utf8(identity).ok()?), progress))
}
