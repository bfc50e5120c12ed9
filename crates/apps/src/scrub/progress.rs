//! A scrub's progress as bytes.

use super::codec::{Cursor, put_varint, seal, unseal};
use super::feed::run;
use super::scrubber::{Finding, Plan};
use scheduler::BlockSet;
use thiserror::Error;
use units::Lbn;

const MAGIC: &[u8; 8] = b"FBSCRUB1";

/// Why saved progress was refused. Begin a new scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProgressError {
    /// Not saved progress of this version.
    #[error("not the saved progress of a scrub, version 1; start the scrub afresh")]
    Foreign,
    /// Its checksum does not fit, or it contradicts itself.
    #[error("the saved progress is damaged; start the scrub afresh")]
    Damaged,
    /// Of another range or block size.
    #[error("the saved progress is of another range or block size; give those, or start the scrub afresh")]
    OtherPlan,
}

/// Blocks in a page: each page is saved as runs or as bits, whichever is shorter.
const PAGE: u64 = 1 << 15;

pub(super) fn encode(plan: &Plan, left: &BlockSet, findings: &[Finding], uncounted: u64) -> Vec<u8> {
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
    let mut page = 0;
    while page < left.blocks() {
        let end = (page + PAGE).min(left.blocks());
        let mut runs = Vec::new();
        let mut at = page;
        while let Some(first) = left.next(at).filter(|b| *b < end) {
            let len = run(left, first, end);
            put_varint(&mut runs, first - at);
            put_varint(&mut runs, len);
            at = first + len;
        }
        let bits = (end - page).div_ceil(8) as usize;
        if runs.len() < bits {
            put_varint(&mut out, runs.len() as u64 + 1);
            out.extend_from_slice(&runs);
        } else {
            out.push(0);
            let mut map = vec![0u8; bits];
            left.for_each(page, end, |b| map[((b - page) / 8) as usize] |= 1 << ((b - page) % 8));
            out.extend_from_slice(&map);
        }
        page = end;
    }
    seal(&mut out);
    out
}

pub(super) fn decode(plan: &Plan, bytes: &[u8]) -> Result<(BlockSet, Vec<Finding>, u64), ProgressError> {
    if !bytes.starts_with(MAGIC) {
        return Err(ProgressError::Foreign);
    }
    let body = unseal(bytes).ok_or(ProgressError::Damaged)?;
    let mut cursor = Cursor::new(body);
    cursor.take(8);
    for n in [plan.range.start().get(), plan.range.len().get(), plan.block.get()] {
        if cursor.u64() != Some(n) {
            return Err(ProgressError::OtherPlan);
        }
    }
    parse(plan, &mut cursor).ok_or(ProgressError::Damaged)
}

fn parse(plan: &Plan, cursor: &mut Cursor<'_>) -> Option<(BlockSet, Vec<Finding>, u64)> {
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
    let mut left = BlockSet::full(plan.blocks());
    let mut page = 0;
    while page < left.blocks() {
        let end = (page + PAGE).min(left.blocks());
        match cursor.varint()? {
            0 => {
                let map = cursor.take((end - page).div_ceil(8) as usize)?;
                for b in page..end {
                    if map[((b - page) / 8) as usize] >> ((b - page) % 8) & 1 == 0 {
                        left.remove(b);
                    }
                }
            }
            bytes => {
                let mut runs = Cursor::new(cursor.take(usize::try_from(bytes - 1).ok()?)?);
                let mut at = page;
                while !runs.is_empty() {
                    let first = at.checked_add(runs.varint()?)?;
                    let stop = first.checked_add(runs.varint()?).filter(|stop| *stop <= end)?;
                    left.remove_range(at, first);
                    at = stop;
                }
                left.remove_range(at, end);
            }
        }
        page = end;
    }
    cursor.is_empty().then_some((left, findings, uncounted))
}
