//! One reading of a block from all members, compared byte by byte.

use super::parity::{Parity, Summer};
use super::plan::{Array, ComparisonPlan, StripePart};
use units::{LbnRange, Sectors};

/// A sector of a member that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableSector {
    /// The member, from 0.
    pub member: usize,
    /// The LBN on that member.
    pub lbn: u64,
}

/// The place of a record: `skip` sectors after the first sector of a member's block.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPlace {
    pub member: usize,
    pub block: u64,
    pub skip: u64,
}

/// The number of parts of a block that take as much memory as a further reading.
const PARTS_PER_READING: usize = 32;

/// A reading under way: a record from each member for each part of the block.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The sectors of a part; the last may have fewer.
    unit: u64,
    parts: Vec<Part>,
    /// The parts that not all members have read.
    left: usize,
}

/// A part of a block: all of it, or a sector.
#[derive(Clone, Debug)]
struct Part {
    /// The sum of each member's bytes; `None` until its record has come.
    sums: Vec<Option<u64>>,
    /// The first sector of each member that could not be read.
    bad: Vec<UnreadableSector>,
    /// For a mirror, the bytes of the member that was read first; otherwise the exclusive or of the data and P.
    first: Option<Vec<u8>>,
    /// The exclusive or of Q and the weighted data.
    weighted: Vec<u8>,
    /// The sectors that do not agree, by their number in the part.
    differing: Vec<bool>,
}

/// The result of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// The sum of all members' bytes.
    pub sum: u64,
    /// The first sector of each part of each member that could not be read.
    pub bad: Vec<UnreadableSector>,
    /// The sectors that do not agree, by their number in the block.
    pub differing: Vec<u64>,
}

impl Reading {
    /// Begins a reading of these LBNs in parts of `unit` sectors.
    pub fn new(plan: &ComparisonPlan, place: LbnRange, unit: Sectors) -> Self {
        let (sectors, unit) = (place.len().get(), unit.get().max(1));
        let parts = (0..sectors.div_ceil(unit)).map(|part| unit.min(sectors - part * unit));
        let parts: Vec<Part> = parts.map(|sectors| Part::new(plan.members, sectors)).collect();
        Self { unit, left: parts.len(), parts }
    }

    /// Returns the number of readings that this one counts as: each part takes memory for each member.
    pub fn cost(&self) -> usize {
        1 + self.parts.len() / PARTS_PER_READING
    }

    /// Takes a part of a member; returns whether it is the last of the block.
    pub fn add(
        &mut self,
        plan: &ComparisonPlan,
        parity: &Parity,
        at: RecordPlace,
        bytes: Result<&[u8], u64>,
    ) -> bool {
        let part = usize::try_from(at.skip / self.unit).unwrap_or(usize::MAX);
        let Some(part) = self.parts.get_mut(part) else { return false };
        self.left -= usize::from(part.add(plan, parity, at, bytes));
        self.left == 0
    }

    /// Returns the result, when all records have come.
    pub fn result(&self, summer: &Summer) -> Read {
        let sums = self.parts.iter().flat_map(|part| &part.sums);
        let sums: Vec<u8> = sums.flat_map(|sum| sum.unwrap_or_default().to_le_bytes()).collect();
        let mut bad: Vec<UnreadableSector> = self.parts.iter().flat_map(|part| &part.bad).copied().collect();
        // Records come in any order, and the results of two readings are compared.
        bad.sort_unstable();
        let sectors = (0..).zip(self.parts.iter().flat_map(|part| &part.differing));
        Read {
            sum: summer.of(&sums),
            bad,
            differing: sectors.filter(|(_, differs)| **differs).map(|(sector, _)| sector).collect(),
        }
    }
}

impl Part {
    fn new(members: usize, sectors: u64) -> Self {
        let differing = vec![false; usize::try_from(sectors).unwrap_or(0)];
        Self { sums: vec![None; members], bad: Vec::new(), first: None, weighted: Vec::new(), differing }
    }

    /// Takes a member's bytes; returns whether all members' bytes have come.
    fn add(
        &mut self,
        plan: &ComparisonPlan,
        parity: &Parity,
        RecordPlace { member, block, .. }: RecordPlace,
        bytes: Result<&[u8], u64>,
    ) -> bool {
        let sector = usize::try_from(plan.sector_bytes.get()).unwrap_or(1).max(1);
        let sum = bytes.map_or(0, |bytes| parity.summer.of(bytes));
        match self.sums.get_mut(member) {
            Some(empty @ None) => *empty = Some(sum),
            // This member's bytes came before.
            _ => return false,
        }
        match (bytes, plan.array) {
            (Err(lbn), _) => self.bad.push(UnreadableSector { member, lbn }),
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
                    if let Some(products) = parity.weights.get(power) {
                        products.add_to(&mut self.weighted, bytes);
                    }
                }
            }
        }
        let whole = self.sums.iter().all(Option::is_some);
        if whole {
            let syndromes = [self.first.take().unwrap_or_default(), std::mem::take(&mut self.weighted)];
            if self.bad.is_empty() && plan.array != Array::Mirror {
                for syndrome in syndromes {
                    let sectors = self.differing.iter_mut().zip(syndrome.chunks(sector));
                    sectors.for_each(|(differs, bytes)| *differs |= bytes.iter().any(|byte| *byte != 0));
                }
            }
        }
        whole
    }
}
