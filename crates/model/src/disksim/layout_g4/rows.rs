//! Reads the rows of `TP` (kinds of tracks) and `IDX` (nodes of the tree).

use super::{Child, Entry, TrackKind, too_large};
use crate::disksim::fields::flattened;
use crate::disksim::layout_g1::SECTORS_PER_TRACK_MAX;
use crate::disksim::source::{At, Fault, printable, refuse};
use crate::disksim::syntax::Value;

/// Reads `TP`, whose rows have the first sector with an LBN, the last one, and the number of sectors.
pub(super) fn track_rows(value: &Value) -> Result<Vec<TrackKind>, Fault> {
    let mut items = Vec::new();
    flattened(value.list("TP")?, &mut items);
    let (rows, odd) = items.as_chunks::<3>();
    if let Some(item) = odd.first() {
        return Err(refuse(
            item.at(),
            "TP ends within a row",
            "give rows `first sector, last sector, sectors`",
        ));
    }
    rows.iter()
        .map(|[first, _, sectors]| {
            let sectors = sectors.whole("TP", 1, SECTORS_PER_TRACK_MAX)?;
            // The second number of the row is not needed, because the rows of `IDX` have the number of LBNs. In some files
            // it is the last sector, in others a count.
            let first = first.whole("TP", 0, sectors - 1)?;
            Ok(TrackKind { first: first as u32, sectors: sectors as u32 })
        })
        .collect()
}

/// Reads one node of `IDX`: a row for each entry.
pub(super) fn node(items: &[Value], kinds: &[TrackKind]) -> Result<Vec<Entry>, Fault> {
    let mut flat = Vec::new();
    flattened(items, &mut flat);
    let mut rest = flat.as_slice();
    let mut entries = Vec::new();
    let mut next_lbn = 0_u64;
    while let Some((first, _)) = rest.split_first() {
        let at = first.at();
        let lbn = first.whole("lbn", 0, u64::MAX)?;
        if lbn != next_lbn {
            return Err(refuse(
                at,
                format!("the run begins at LBN {lbn}, and the one before ends at {next_lbn}"),
                "runs of a node follow each other without gap or overlap",
            ));
        }
        let entry;
        (entry, rest) = read_entry(rest, kinds, at)?;
        next_lbn = entry.run().and_then(|run| run.checked_add(lbn)).ok_or_else(|| too_large(at))?;
        entries.push(entry);
    }
    Ok(entries)
}

/// Reads one row of `IDX`, and returns it with the cells after it. A row has ten cells if the child is a node; for a track an
/// eleventh cell has the head.
fn read_entry<'r, 'v>(
    row: &'r [&'v Value],
    kinds: &[TrackKind],
    at: At,
) -> Result<(Entry, &'r [&'v Value]), Fault> {
    let [_, cylinder, revolutions, lbns, cylinders, skew, run, cylinder_run, kind, child, rest @ ..] = row
    else {
        return Err(refuse(
            at,
            "the row of IDX is incomplete",
            "give lbn, cylinder, offset, length, cylinders, angle, run length, cylinder run length, kind, child, and for tracks the head",
        ));
    };
    let most = u64::from(u32::MAX) - 1;
    let lbns_each = lbns.whole("len", 1, i64::MAX as u64)?;
    let run = run.whole("runlen", 1, i64::MAX as u64)?;
    let word = kind.scalar("childtype")?;
    let (child, rest) = match word.text.to_ascii_uppercase().as_str() {
        "TRACK" => {
            let [head, rest @ ..] = rest else {
                return Err(refuse(child.at(), "a track without its head", "give the head after the child"));
            };
            let index = child.whole("child", 0, most)? as usize;
            let kind = *kinds.get(index).ok_or_else(|| {
                let mend = format!("TP has {} rows, counted from 0", kinds.len());
                refuse(child.at(), format!("there is no row {index} in TP"), &mend)
            })?;
            if u64::from(kind.first) + lbns_each > u64::from(kind.sectors) {
                return Err(refuse(
                    lbns.at(),
                    format!(
                        "{lbns_each} LBNs do not fit on a track of {} sectors from sector {}",
                        kind.sectors, kind.first
                    ),
                    "correct the length here or the row of TP",
                ));
            }
            (Child::Track { kind, head: head.whole("head", 0, u64::from(u16::MAX) - 1)? as u16 }, rest)
        }
        "IDX" => (Child::Node(child.whole("child", 0, most)? as usize), rest),
        _ => {
            let problem = format!("unknown kind of child `{}`", printable(&word.text));
            return Err(refuse(word.at, problem, "write TRACK or IDX"));
        }
    };
    let entry = Entry {
        cylinder: cylinder.whole("cyl", 0, most)?,
        revolutions: revolutions.number("off")?,
        lbns: lbns_each,
        cylinders: cylinders.whole("cyllen", 0, most)?,
        skew: skew.number("alen")?,
        outward: cylinder_run.integer("cylrunlen")? < 0,
        repetitions: run / lbns_each,
        rest: run % lbns_each,
        child,
        at,
    };
    Ok((entry, rest))
}
