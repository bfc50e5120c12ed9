//! Inputs drawn from a seed, for runs without a fuzzer.

use crate::Target;
use std::num::NonZeroU64;
use workload::random::Stream;

/// Bounds the size of an input.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Draws inputs for a target: mutations of its seeds, and sometimes new bytes. The same seed draws the same inputs.
#[derive(Debug)]
pub struct Mutator {
    stream: Stream,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// Creates a source of inputs for a target.
    pub fn new(seed: u64, target: &Target) -> Self {
        Self { stream: Stream::new(seed, target.name), seeds: (target.seeds)() }
    }

    /// Returns the next input.
    pub fn draw(&mut self) -> Vec<u8> {
        let mut bytes = match self.seeds.len() {
            0 => Vec::new(),
            _ if self.below(32) == 0 => Vec::new(),
            seeds => {
                let at = self.below(seeds);
                self.seeds[at].clone()
            }
        };
        // Mostly one or two mutations, so that most of the input stays valid; sometimes many.
        let most = if self.below(8) == 0 { 32 } else { 3 };
        for _ in 0..=self.below(most) {
            self.mutate(&mut bytes);
        }
        bytes.truncate(INPUT_BYTES_MAX);
        bytes
    }

    /// Returns a number below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        NonZeroU64::new(bound as u64).map_or(0, |bound| self.stream.below(bound) as usize)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(10) {
            0 => bytes.truncate(at),
            1 => {
                let more = self.below(16);
                let new: Vec<u8> = (0..more).map(|_| self.stream.next_u64() as u8).collect();
                bytes.splice(at..at, new);
            }
            2 => {
                let end = (at + 1 + self.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            // Repeats a part of the input, or inserts a part of another seed.
            3 => {
                let from = self.below(bytes.len());
                let to = (from + 1 + self.below(64)).min(bytes.len());
                let part = bytes.get(from..to).unwrap_or_default().to_vec();
                bytes.splice(at..at, part);
            }
            4 if !self.seeds.is_empty() => {
                let other = self.below(self.seeds.len());
                let from = self.below(self.seeds[other].len());
                bytes.truncate(at);
                bytes.extend_from_slice(&self.seeds[other][from..]);
            }
            // Overwrites 1, 2, 4 or 8 bytes with an extreme value of a binary number.
            5 | 6 => {
                let width = 1 << self.below(4);
                let edges = [0, 1, 1 << 7, 1 << 15, 1 << 31, 1 << 32, 1 << 63, u64::MAX >> 1, u64::MAX];
                let number =
                    edges[self.below(edges.len())].wrapping_add(self.stream.next_u64() % 3).wrapping_sub(1);
                let number = if self.below(2) == 0 { number.to_le_bytes() } else { number.to_be_bytes() };
                let number = if number[0] == 0 { &number[8 - width..] } else { &number[..width] };
                for (to, from) in bytes.iter_mut().skip(at).zip(number) {
                    *to = *from;
                }
            }
            // Replaces a number in text by an extreme one, or by a word or sign that is no number.
            7 => {
                let texts = [
                    "0",
                    "-1",
                    "1e999",
                    "18446744073709551615",
                    "18446744073709551616",
                    "nan",
                    "\"",
                    "{",
                    "[",
                    "]",
                ];
                let text = texts[self.below(texts.len())];
                let digits = |b: &u8| b.is_ascii_digit();
                let from = bytes.iter().skip(at).position(digits).map_or(at, |more| at + more);
                let to = from + bytes.iter().skip(from).take_while(|b| digits(b)).count();
                bytes.splice(from..to, text.bytes());
            }
            _ => {
                let flip = 1 << self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= flip;
                }
            }
        }
    }
}
