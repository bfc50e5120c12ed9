//! One reading of a block from all members, compared byte by byte.

use super::parity::{Products, Summer};
use super::plan::{Array, ComparisonPlan, StripePart};

/// A reading at work.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The sum of each member's bytes, when they have come.
    sums: Vec<Option<u64>>,
    /// The first sector of each member that could not be read.
    pub bad: Vec<(usize, u64)>,
    /// Of a mirror the bytes of the member that came first; otherwise the exclusive or of the data and P.
    first: Option<Vec<u8>>,
    /// The exclusive or of Q and the weighted data.
    weighted: Vec<u8>,
    /// The sectors that do not agree, by their number in the block.
    differing: Vec<bool>,
}

/// The result of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// The sum of each member's bytes.
    pub sums: Vec<u64>,
    /// The sectors that do not agree, by their number in the block.
    pub differing: Vec<u64>,
}

impl Reading {
    pub fn new(plan: &ComparisonPlan, block: u64) -> Self {
        let sectors = usize::try_from(plan.place(block).len().get()).unwrap_or(0);
        let differing = vec![false; sectors];
        Self { sums: vec![None; plan.members], bad: Vec::new(), first: None, weighted: Vec::new(), differing }
    }

    /// Takes a member's bytes; returns whether they are the last.
    pub fn add(
        &mut self,
        plan: &ComparisonPlan,
        (summer, weights): (&Summer, &[Products]),
        (member, block): (usize, u64),
        bytes: Result<&[u8], u64>,
    ) -> bool {
        let sector = usize::try_from(plan.sector_bytes.get()).unwrap_or(1).max(1);
        let sum = bytes.map_or(0, |bytes| summer.of(bytes));
        match self.sums.get_mut(member) {
            Some(empty @ None) => *empty = Some(sum),
            // It has come before.
            _ => return false,
        }
        match (bytes, plan.array) {
            (Err(lbn), _) => self.bad.push((member, lbn)),
            (Ok(bytes), Array::Mirror) => match &self.first {
                None => self.first = Some(bytes.to_vec()),
                Some(first) => {
                    let pairs = first.chunks(sector).zip(bytes.chunks(sector));
                    self.differing.iter_mut().zip(pairs).for_each(|(differs, (a, b))| *differs |= a != b);
                }
            },
            (Ok(bytes), Array::Raid5 | Array::Raid6 { .. }) => {
                let part = plan.part(member, block);
                let size = bytes.len();
                if part != StripePart::Q {
                    let sum = self.first.get_or_insert_with(|| vec![0; size]);
                    sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
                }
                if matches!(plan.array, Array::Raid6 { .. }) && part != StripePart::P {
                    self.weighted.resize(size, 0);
                    let power = if let StripePart::Data(number) = part { number } else { 0 };
                    if let Some(products) = weights.get(power) {
                        products.add_to(&mut self.weighted, bytes);
                    }
                }
            }
        }
        let whole = self.sums.iter().all(Option::is_some);
        if whole && plan.array != Array::Mirror {
            for syndrome in [self.first.as_deref().unwrap_or_default(), &self.weighted] {
                let sectors = self.differing.iter_mut().zip(syndrome.chunks(sector));
                sectors.for_each(|(differs, bytes)| *differs |= bytes.iter().any(|byte| *byte != 0));
            }
        }
        whole
    }

    /// Returns the result, when all has come.
    pub fn result(&self) -> Read {
        let sums = self.sums.iter().map(|sum| sum.unwrap_or_default()).collect();
        let sectors = (0..).zip(&self.differing).filter(|(_, differs)| **differs);
        Read { sums, differing: sectors.map(|(sector, _)| sector).collect() }
    }
}
