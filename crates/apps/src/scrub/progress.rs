//! Encodes and decodes a scrub's progress.

use super::plan::{Finding, ScrubPlan};
use crate::codec::{Cursor, put_varint, seal, unseal};
use crate::set::{put_set, take_set};
use scheduler::BlockSet;
use thiserror::Error;
use units::Lbn;

const MAGIC: &[u8; 8] = b"FBSCRUB1";

/// The reason for which saved progress was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScrubProgressError {
    /// The bytes are not saved progress of this version.
    #[error("not the saved progress of a scrub, version 1; start the scrub afresh")]
    Foreign,
    /// The checksum does not match, or the progress contradicts itself.
    #[error("the saved progress is damaged; start the scrub afresh")]
    Damaged,
    /// The progress is of another range or block size.
    #[error("the saved progress is of another range or block size; give those, or start the scrub afresh")]
    OtherPlan,
}

pub(super) fn encode(plan: &ScrubPlan, left: &BlockSet, findings: &[Finding], uncounted: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for n in [plan.range.start().get(), plan.range.len().get(), plan.block.get()] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    put_varint(&mut out, uncounted);
    put_varint(&mut out, findings.len() as u64);
    for finding in findings {
        let (kind, n) = match *finding {
            Finding::Medium(lbn) => (0, lbn.get()),
            Finding::Mismatch(block) => (1, block),
            Finding::Unsettled(block) => (2, block),
        };
        out.push(kind);
        put_varint(&mut out, n);
    }
    put_set(&mut out, left);
    seal(&mut out);
    out
}

/// The saved state of a scrub, or the first state of a new one.
pub(super) struct SavedScrub {
    pub left: BlockSet,
    pub findings: Vec<Finding>,
    /// The number of findings beyond those in the list.
    pub uncounted: u64,
}

pub(super) fn decode(plan: &ScrubPlan, bytes: &[u8]) -> Result<SavedScrub, ScrubProgressError> {
    if !bytes.starts_with(MAGIC) {
        return Err(ScrubProgressError::Foreign);
    }
    let body = unseal(bytes).ok_or(ScrubProgressError::Damaged)?;
    let mut cursor = Cursor::new(body);
    cursor.take(8);
    for n in [plan.range.start().get(), plan.range.len().get(), plan.block.get()] {
        if cursor.u64() != Some(n) {
            return Err(ScrubProgressError::OtherPlan);
        }
    }
    parse(plan, &mut cursor).ok_or(ScrubProgressError::Damaged)
}

fn parse(plan: &ScrubPlan, cursor: &mut Cursor<'_>) -> Option<SavedScrub> {
    let uncounted = cursor.varint()?;
    let mut findings = Vec::new();
    for _ in 0..cursor.varint()? {
        findings.push(match (cursor.u8()?, cursor.varint()?) {
            (0, lbn) => Finding::Medium(Lbn::new(lbn)),
            (1, block) => Finding::Mismatch(block),
            (2, block) => Finding::Unsettled(block),
            _ => return None,
        });
    }
    let left = take_set(cursor, plan.blocks())?;
    cursor.is_empty().then_some(SavedScrub { left, findings, uncounted })
}
