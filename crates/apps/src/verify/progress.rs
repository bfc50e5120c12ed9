//! The findings of a comparison, encoded and decoded with its progress.

use super::plan::{Array, ComparisonPlan};
use super::reading::UnreadableSector;
use crate::codec::{Cursor, put_varint, seal, unseal};
use crate::set::{put_set, take_set};
use scheduler::BlockSet;
use std::collections::BTreeSet;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"FBVERIF1";

/// The reason for which saved progress was refused. Begin a new comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ComparisonProgressError {
    /// The bytes are not saved progress of this version.
    #[error("not the saved progress of a comparison, version 1; start it afresh")]
    Foreign,
    /// The checksum does not match, or the progress contradicts itself.
    #[error("the saved progress is damaged; start the comparison afresh")]
    Damaged,
    /// The progress is of another plan.
    #[error("the saved progress is of another comparison; start this one afresh")]
    OtherPlan,
}

/// The findings of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// LBNs that do not agree.
    pub differing: BTreeSet<u64>,
    pub differing_more: u64,
    pub differing_blocks: u64,
    pub bad: BTreeSet<UnreadableSector>,
    pub bad_more: u64,
    /// Blocks that changed at every reading.
    pub unsettled: u64,
}

/// Returns the numbers by which a plan is recognised. The memory for sums may differ.
fn numbers(plan: &ComparisonPlan) -> [u64; 7] {
    let (kind, chunk) = match plan.array {
        Array::Mirror => (0, 0),
        Array::Raid5 => (1, 0),
        Array::Raid6 { chunk } => (2, chunk.get()),
    };
    let (first, len) = (plan.range.start().get(), plan.range.len().get());
    [kind, chunk, plan.members as u64, plan.offset.get(), first, len, plan.block.get()]
}

pub(super) fn encode(plan: &ComparisonPlan, left: &BlockSet, found: &Differences) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    numbers(plan).iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    for n in [found.differing_blocks, found.differing_more, found.bad_more, found.unsettled] {
        put_varint(&mut out, n);
    }
    put_varint(&mut out, found.differing.len() as u64);
    found.differing.iter().for_each(|lbn| put_varint(&mut out, *lbn));
    put_varint(&mut out, found.bad.len() as u64);
    for UnreadableSector { member, lbn } in &found.bad {
        put_varint(&mut out, *member as u64);
        put_varint(&mut out, *lbn);
    }
    put_set(&mut out, left);
    seal(&mut out);
    out
}

pub(super) fn decode(
    plan: &ComparisonPlan,
    bytes: &[u8],
) -> Result<(BlockSet, Differences), ComparisonProgressError> {
    if !bytes.starts_with(MAGIC) {
        return Err(ComparisonProgressError::Foreign);
    }
    let body = unseal(bytes).ok_or(ComparisonProgressError::Damaged)?;
    let mut cursor = Cursor::new(body);
    cursor.take(MAGIC.len());
    for n in numbers(plan) {
        if cursor.u64() != Some(n) {
            return Err(ComparisonProgressError::OtherPlan);
        }
    }
    parse(plan, &mut cursor).ok_or(ComparisonProgressError::Damaged)
}

fn parse(plan: &ComparisonPlan, cursor: &mut Cursor<'_>) -> Option<(BlockSet, Differences)> {
    let mut found = Differences {
        differing_blocks: cursor.varint()?,
        differing_more: cursor.varint()?,
        bad_more: cursor.varint()?,
        unsettled: cursor.varint()?,
        ..Differences::default()
    };
    for _ in 0..cursor.varint()? {
        found.differing.insert(cursor.varint()?);
    }
    for _ in 0..cursor.varint()? {
        let member = usize::try_from(cursor.varint()?).ok().filter(|member| *member < plan.members)?;
        found.bad.insert(UnreadableSector { member, lbn: cursor.varint()? });
    }
    let left = take_set(cursor, plan.blocks())?;
    cursor.is_empty().then_some((left, found))
}
