//! Aligned memory for direct I/O.

use std::ops::{Deref, DerefMut};

/// Bytes that begin at a multiple of a power of two, as O_DIRECT requires.
///
/// The bytes are a part of a vector that is somewhat larger than needed, from an aligned offset on, so nothing here
/// is unsafe. The vector never grows, so the bytes stay at their address until the value is dropped.
///
/// ```
/// use device::Aligned;
/// let buffer = Aligned::zeroed(512, 4096);
/// assert_eq!((buffer.len(), buffer.as_ptr() as usize % 4096), (512, 0));
/// assert_eq!(Aligned::new(b"some bytes".to_vec(), 4096).into_vec(), b"some bytes");
/// ```
#[derive(Debug, Default)]
pub struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    /// Returns `len` zeroes at a multiple of `alignment`, which is rounded up to a power of two.
    pub fn zeroed(len: usize, alignment: usize) -> Self {
        let alignment = alignment.max(1).next_power_of_two();
        let bytes = vec![0; len.saturating_add(alignment - 1)];
        let from = until_aligned(&bytes, alignment);
        Self { bytes, from, len }
    }

    /// Takes these bytes, and copies them if they are not aligned.
    pub fn new(bytes: Vec<u8>, alignment: usize) -> Self {
        if until_aligned(&bytes, alignment.max(1).next_power_of_two()) == 0 {
            return Self { from: 0, len: bytes.len(), bytes };
        }
        let mut aligned = Self::zeroed(bytes.len(), alignment);
        aligned.copy_from_slice(&bytes);
        aligned
    }

    /// Returns the bytes as a vector.
    pub fn into_vec(self) -> Vec<u8> {
        let Self { mut bytes, from, len } = self;
        if from > 0 {
            bytes.copy_within(from..from + len, 0);
        }
        bytes.truncate(len);
        bytes
    }
}

/// Returns how many bytes precede the first byte at a multiple of `alignment`, a power of two.
fn until_aligned(bytes: &[u8], alignment: usize) -> usize {
    (bytes.as_ptr() as usize).wrapping_neg() & (alignment - 1)
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

/// Takes the bytes without alignment, for files that are not opened with O_DIRECT.
impl From<Vec<u8>> for Aligned {
    fn from(bytes: Vec<u8>) -> Self {
        Self { from: 0, len: bytes.len(), bytes }
    }
}
