//! A task's own record of its progress, with the identity of what the progress belongs to in front: a name may be
//! another file's or another disk's after a restart.

/// The begin of such a record. Earlier versions wrote none.
const MAGIC: &[u8; 8] = b"FBWHOSE1";

/// Returns the part of a record in front of the progress.
pub(super) fn begin(identity: &str) -> Vec<u8> {
    let mut record = MAGIC.to_vec();
    record.extend((identity.len() as u32).to_le_bytes());
    record.extend(identity.as_bytes());
    record
}

/// Splits a record into the identity, if it has one, and the progress; `None` if it is cut.
pub(super) fn split(record: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let Some(rest) = record.strip_prefix(MAGIC) else { return Some((None, record)) };
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (identity, progress) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((Some(str::from_utf8(identity).ok()?), progress))
}
