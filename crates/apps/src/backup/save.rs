//! Saves a set of blocks as bytes: at most about one bit for each block, and a checksum.

use crate::codec::{Cursor, seal, unseal};
use crate::set::{put_set, take_set};
use scheduler::BlockSet;

const MAGIC: &[u8; 8] = b"FBBLOCKS";

/// Returns the set as bytes.
pub fn save_set(set: &BlockSet) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&set.blocks().to_le_bytes());
    put_set(&mut out, set);
    seal(&mut out);
    out
}

/// Returns the set of `blocks` blocks that [`save_set`] turned into `bytes`; `None` for any other
/// bytes.
pub fn load_set(bytes: &[u8], blocks: u64) -> Option<BlockSet> {
    let mut cursor = Cursor::new(unseal(bytes)?.strip_prefix(MAGIC)?);
    (cursor.u64()? == blocks).then_some(())?;
    let set = take_set(&mut cursor, blocks)?;
    cursor.is_empty().then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_back_and_other_bytes_are_refused() {
        let mut set = BlockSet::empty(100_000);
        (0..100_000).filter(|b| b % 7 == 0 || *b > 90_000).for_each(|b| _ = set.insert(b));
        let bytes = save_set(&set);
        let back = load_set(&bytes, 100_000).unwrap();
        assert_eq!(back.len(), set.len());
        set.for_each(0, 100_000, |b| assert!(back.contains(b)));
        assert!(load_set(&bytes, 99_999).is_none());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(load_set(&bad, 100_000).is_none(), "byte {at}");
        }
    }
}
