//! The arithmetic of RAID 6, and sums of blocks that keep it.
//!
//! Bytes are elements of GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), with the generator 2, as in Linux's md: P is the sum of
//! the data of a stripe, and Q is the sum of the data, each multiplied by the generator to the power of its number (H. P. Anvin,
//! "The mathematics of RAID-6", 2004).

/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1d;

/// Returns twice an element.
const fn double(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { POLYNOMIAL }
}

/// The products of one element and all others.
#[derive(Clone, Debug)]
pub(super) struct Products([u8; 256]);

impl Products {
    /// Returns the products of the generator raised to `power`.
    pub fn of_power(power: usize) -> Self {
        let factor = (0..power % 255).fold(1, |element, _| double(element));
        let mut products = [0; 256];
        for (element, product) in products.iter_mut().enumerate() {
            // Multiplies by Horner's rule, from the highest bit of the factor down.
            *product = (0..8)
                .rev()
                .fold(0, |sum, bit| double(sum) ^ if factor >> bit & 1 == 1 { element as u8 } else { 0 });
        }
        Self(products)
    }

    /// Adds the products of `bytes` to `sum`.
    pub fn add_to(&self, sum: &mut [u8], bytes: &[u8]) {
        for (sum, byte) in sum.iter_mut().zip(bytes) {
            *sum ^= self.0[usize::from(*byte)];
        }
    }

    /// Puts the products of `bytes` into `into`.
    pub fn put(&self, into: &mut Vec<u8>, bytes: &[u8]) {
        into.clear();
        into.extend(bytes.iter().map(|byte| self.0[usize::from(*byte)]));
    }
}

/// Computes sums of 64 bits: the sum of the exclusive or of two blocks is the exclusive or of their sums.
///
/// A block is a polynomial of its words of 8 bytes, evaluated at a random element of GF(2^64). Two blocks of n words that differ have
/// the same sum for n elements at most, so that a difference is missed with a probability of n / 2^64.
#[derive(Clone, Debug)]
pub(super) struct Summer(Box<[[u64; 256]; 8]>);

impl Summer {
    /// Creates the tables for sums at the element `seed`.
    pub fn new(seed: u64) -> Self {
        // At the element 0 a sum would be the last word alone, at 1 the exclusive or of all words in any order.
        let at = seed.max(2);
        let mut tables = Box::new([[0; 256]; 8]);
        let mut shifted = at;
        for table in tables.iter_mut() {
            for bit in 0..8 {
                let step = 1 << bit;
                for low in 0..step {
                    table[step + low] = table[low] ^ shifted;
                }
                // Times x, modulo x^64 + x^4 + x^3 + x + 1.
                shifted = (shifted << 1) ^ if shifted >> 63 == 0 { 0 } else { 0x1b };
            }
        }
        Self(tables)
    }

    /// Returns the sum of a block; the last word is filled with zeros.
    pub fn of(&self, bytes: &[u8]) -> u64 {
        let mut sum = 0u64;
        for word in bytes.chunks(8) {
            let mut own = [0; 8];
            own.iter_mut().zip(word).for_each(|(own, byte)| *own = *byte);
            let product =
                self.0.iter().zip(sum.to_le_bytes()).fold(0, |all, (table, b)| all ^ table[usize::from(b)]);
            sum = product ^ u64::from_le_bytes(own);
        }
        sum
    }
}

/// The arithmetic of one comparison.
#[derive(Clone, Debug)]
pub(super) struct Parity {
    pub summer: Summer,
    /// Multiplication by the powers of RAID 6's generator, by the number of the data chunk in the stripe.
    pub weights: Vec<Products>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the product by its definition: multiplies polynomials and takes the remainder.
    fn product(a: u8, b: u8) -> u8 {
        let mut wide =
            (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (u16::from(a) << bit));
        for bit in (8..16).rev() {
            if wide >> bit & 1 == 1 {
                wide ^= 0x11d << (bit - 8);
            }
        }
        wide as u8
    }

    #[test]
    fn products_are_those_of_the_definition() {
        let mut power = 1;
        for number in 0..255 {
            let products = Products::of_power(number);
            for element in 0..=255u8 {
                assert_eq!(
                    products.0[usize::from(element)],
                    product(power, element),
                    "2^{number} * {element}"
                );
            }
            power = product(power, 2);
        }
        assert_eq!(power, 1, "the generator has the order 255");
    }

    /// Returns the product in GF(2^64) by its definition.
    fn wide_product(a: u64, b: u64) -> u64 {
        let mut wide =
            (0..64).filter(|bit| b >> bit & 1 == 1).fold(0u128, |sum, bit| sum ^ (u128::from(a) << bit));
        for bit in (64..128).rev() {
            if wide >> bit & 1 == 1 {
                wide ^= ((1 << 64) | 0x1b) << (bit - 64);
            }
        }
        wide as u64
    }

    #[test]
    fn a_sum_is_the_polynomial_of_the_words() {
        let at = 0x9e37_79b9_7f4a_7c15;
        let summer = Summer::new(at);
        let words = [3u64, u64::MAX, 0, 0x0123_4567_89ab_cdef];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected = words.iter().fold(0, |sum, word| wide_product(sum, at) ^ word);
        assert_eq!(summer.of(&bytes), expected);
        // A short last word is filled with zeros.
        assert_eq!(summer.of(&bytes[..29]), summer.of(&[&bytes[..29], &[0; 3]].concat()));
    }

    #[test]
    fn the_sum_of_an_exclusive_or_is_that_of_the_sums() {
        let summer = Summer::new(12_345_678_901);
        let (a, b): (Vec<u8>, Vec<u8>) = (0..512u32).map(|n| ((n * 7 + 3) as u8, (n * n) as u8)).unzip();
        let both: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
        assert_eq!(summer.of(&both), summer.of(&a) ^ summer.of(&b));
        assert_ne!(summer.of(&both), 0);
    }
}
