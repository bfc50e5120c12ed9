//! Generates the bytes of files, so that reads can be checked without a copy of the files.
//!
//! Every byte is a function of the file's number and its offset, so a host can write real bytes and compare every
//! read with them, whatever sizes the pieces had.

/// The eight bytes of `file` from `8 * word` on: the output function of splitmix64 (Steele, Lea, Flood, OOPSLA'14),
/// of a state that differs between files.
#[inline]
fn word(file: u64, word: u64) -> [u8; 8] {
    let state =
        file.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Returns the byte of `file` at `offset`.
#[inline]
pub fn byte(file: u64, offset: u64) -> u8 {
    word(file, offset / 8)[(offset % 8) as usize]
}

/// Fills `bytes` with the bytes of `file` from `offset` on.
///
/// ```
/// use lab_apps::files::content;
/// let (mut whole, mut tail) = ([0; 100], [0; 63]);
/// content::fill(7, 0, &mut whole);
/// content::fill(7, 37, &mut tail);
/// assert_eq!(whole[37..], tail);
/// assert_eq!(content::mismatch(7, 37, &tail), None);
/// tail[5] ^= 1;
/// assert_eq!(content::mismatch(7, 37, &tail), Some(42));
/// ```
pub fn fill(file: u64, offset: u64, bytes: &mut [u8]) {
    let ragged = (offset.wrapping_neg() % 8) as usize;
    let (head, rest) = bytes.split_at_mut(ragged.min(bytes.len()));
    for (byte, at) in head.iter_mut().zip(offset..) {
        *byte = self::byte(file, at);
    }
    let first = offset.div_ceil(8);
    for (piece, at) in rest.chunks_mut(8).zip(first..) {
        piece.copy_from_slice(&word(file, at)[..piece.len()]);
    }
}

/// Returns the offset in `file` of the first of these bytes that differs from [`fill`]'s, or `None` if none does.
pub fn mismatch(file: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = [0; 512];
    for (piece, at) in bytes.chunks(512).zip((offset..).step_by(512)) {
        let expected = &mut expected[..piece.len()];
        fill(file, at, expected);
        if piece != expected {
            let wrong = piece.iter().zip(&*expected).position(|(a, b)| a != b);
            return wrong.map(|n| at + n as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_pinned() {
        let mut first = [0; 12];
        fill(1, 0, &mut first);
        assert_eq!(first, PINNED);
    }

    // The first bytes of file 1, computed from the formulas above by another program.
    const PINNED: [u8; 12] = [0x22, 0xf9, 0x09, 0xa2, 0x8b, 0x69, 0x68, 0xe8, 0xb4, 0x94, 0xde, 0x31];

    proptest! {
        #[test]
        fn pieces_are_parts_of_the_whole(file: u64, offset in 0u64..5000, length in 0usize..2000) {
            let mut piece = vec![0; length];
            fill(file, offset, &mut piece);
            let bytes: Vec<u8> = (offset..).take(length).map(|at| byte(file, at)).collect();
            prop_assert_eq!(&piece, &bytes);
            prop_assert_eq!(mismatch(file, offset, &piece), None);
            if let Some(last) = piece.last_mut() {
                *last ^= 0x80;
                prop_assert_eq!(mismatch(file, offset, &piece), Some(offset + length as u64 - 1));
            }
        }
    }
}
