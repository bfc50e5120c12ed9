//! Follows the tree of a `dm_layout_g4`: turns its entries into runs of tracks, and these into parts that become zones.

use super::rows;
use super::{AdjacentTracks, Child, Entry, Part, too_large};
use crate::disksim::source::{At, Fault, refuse};
use crate::disksim::syntax::Block;

/// The deepest tree accepted, which bounds the recursion; known trees have two levels.
const TREE_LEVELS_MAX: usize = 16;
/// The most runs that a tree may expand to, because a few lines can claim billions.
const RUNS_MAX: usize = 1 << 20;

/// The nodes, and the index of the root.
pub(super) struct Tree {
    nodes: Vec<Vec<Entry>>,
    pub(super) root: (usize, At),
}

impl Tree {
    pub(super) fn read(block: &Block) -> Result<Self, Fault> {
        let kinds = rows::track_rows(block.require("TP")?)?;
        let index = block.require("IDX")?;
        let mut nodes = Vec::new();
        for value in index.list("IDX")? {
            nodes.push(rows::node(value.list("IDX")?, &kinds)?);
        }
        // Only the root is checked here; children are checked when the tree is followed.
        let root = nodes.len().checked_sub(1).ok_or_else(|| {
            refuse(index.at(), "IDX is empty", "give a list of nodes, the last of which is the root")
        })?;
        Ok(Self { nodes, root: (root, index.at()) })
    }

    /// Shortens the last entry of the root to the LBNs that its child node has, if it declares more. Files that were
    /// extracted from drives declare too many in this place. An entry with several repetitions is left unchanged, because its
    /// second repetition would begin after LBNs that do not exist.
    pub(super) fn cut_tail(&mut self, notes: &mut Vec<String>) {
        let root = self.root.0;
        let Some(&last) = self.nodes.get(root).and_then(|entries| entries.last()) else { return };
        let Child::Node(child) = last.child else { return };
        let Some(holds) = self.whole(child).filter(|&holds| holds > 0 && child != root) else { return };
        let declared = match (last.repetitions, last.rest) {
            (1, 0) => last.lbns,
            (0, rest) => rest,
            _ => return,
        };
        if holds >= declared {
            return;
        }
        notes.push(format!(
            "the last entry of the root of IDX declares {declared} LBNs and its node {child} holds {holds}; the entry ends there"
        ));
        if let Some(last) = self.nodes.get_mut(root).and_then(|entries| entries.last_mut()) {
            *last = Entry { lbns: holds, repetitions: 1, rest: 0, ..*last };
        }
    }

    fn node(&self, node: usize, at: At) -> Result<&[Entry], Fault> {
        self.nodes.get(node).map(Vec::as_slice).ok_or_else(|| {
            refuse(
                at,
                format!("there is no node {node}"),
                &format!("IDX has {} nodes, counted from 0", self.nodes.len()),
            )
        })
    }

    /// Appends a part for each entry of a node. An entry that does not repeat, and whose child has only nodes as children, is
    /// replaced by the parts of that child.
    pub(super) fn parts(
        &self,
        node: usize,
        cylinder: u64,
        revolutions: f64,
        depth: usize,
        into: &mut Vec<Part>,
    ) -> Result<(), Fault> {
        for entry in self.node(node, self.root.1)? {
            check_depth(depth, entry.at)?;
            let first = cylinder.checked_add(entry.cylinder).ok_or_else(|| too_large(entry.at))?;
            let revolutions = revolutions + entry.revolutions;
            if let Child::Node(child) = entry.child
                && entry.repetitions == 1
                && entry.rest == 0
                && self.node(child, entry.at)?.iter().all(|below| matches!(below.child, Child::Node(_)))
                && self.whole(child) == Some(entry.lbns)
            {
                self.parts(child, first, revolutions, depth + 1, into)?;
                continue;
            }
            self.zone(entry, first, revolutions, depth, into)?;
        }
        Ok(())
    }

    /// Returns the number of LBNs of all entries of a node; `None` if the node does not exist or the sum is too large.
    fn whole(&self, node: usize) -> Option<u64> {
        self.nodes.get(node)?.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.run()?))
    }

    /// Appends one entry: as a repeating pattern and a part for the partial repetition, or, if repetitions overlap or go
    /// outward, as one part that lists all runs.
    fn zone(
        &self,
        entry: &Entry,
        first: u64,
        revolutions: f64,
        depth: usize,
        into: &mut Vec<Part>,
    ) -> Result<(), Fault> {
        let at = entry.at;
        if let Child::Node(child) = entry.child
            && !entry.outward
            && entry.repetitions > 0
        {
            let mut tracks = Vec::new();
            self.follow(child, 0, 0.0, entry.lbns, depth + 1, at, &mut tracks)?;
            if entry.cylinders > 0 && extent(&tracks, at)?.1 < entry.cylinders {
                shift(first, entry, entry.repetitions)?;
                let part = Part {
                    first,
                    cylinders: entry.cylinders,
                    repetitions: entry.repetitions,
                    revolutions,
                    skew: entry.skew,
                    tracks,
                    at,
                };
                into.push(part);
                if entry.rest > 0 {
                    let rest = Entry {
                        cylinder: shift(first, entry, entry.repetitions)?,
                        revolutions: revolutions + entry.skew * entry.repetitions as f64,
                        repetitions: 0,
                        ..*entry
                    };
                    into.push(self.single(&rest, 0, 0.0, depth)?);
                }
                return Ok(());
            }
        }
        into.push(self.single(&Entry { cylinder: first, revolutions, ..*entry }, 0, 0.0, depth)?);
        Ok(())
    }

    /// Returns an entry as a part without repetition, which lists all runs.
    fn single(&self, entry: &Entry, cylinder: u64, revolutions: f64, depth: usize) -> Result<Part, Fault> {
        let mut tracks = Vec::new();
        self.unfold(entry, cylinder, revolutions, entry.run(), depth, &mut tracks)?;
        single_part(tracks, entry.at)
    }

    /// Collects the runs of tracks of a node's first `limit` LBNs.
    #[allow(clippy::too_many_arguments)] // the arguments are the position of the recursion
    fn follow(
        &self,
        node: usize,
        cylinder: u64,
        revolutions: f64,
        limit: u64,
        depth: usize,
        at: At,
        into: &mut Vec<AdjacentTracks>,
    ) -> Result<(), Fault> {
        check_depth(depth, at)?;
        let mut left = limit;
        for entry in self.node(node, at)? {
            if left == 0 {
                break;
            }
            let run = entry.run().map(|run| run.min(left));
            self.unfold(entry, cylinder, revolutions, run, depth, into)?;
            left -= run.unwrap_or(0);
        }
        if left > 0 {
            return Err(refuse(
                at,
                format!("{limit} LBNs are wanted of node {node}, which has {left} fewer"),
                "correct the LBN length of the entry or the run lengths of the node",
            ));
        }
        Ok(())
    }

    /// Collects the runs of tracks of an entry's first `limit` LBNs.
    fn unfold(
        &self,
        entry: &Entry,
        cylinder: u64,
        revolutions: f64,
        limit: Option<u64>,
        depth: usize,
        into: &mut Vec<AdjacentTracks>,
    ) -> Result<(), Fault> {
        let at = entry.at;
        let limit = limit.ok_or_else(|| too_large(at))?;
        let base = cylinder.checked_add(entry.cylinder).ok_or_else(|| too_large(at))?;
        let revolutions = revolutions + entry.revolutions;
        let (whole, rest) = (limit / entry.lbns, limit % entry.lbns);
        match entry.child {
            Child::Track { kind, head } => {
                let one = AdjacentTracks {
                    cylinder: base,
                    outward: entry.outward,
                    head,
                    count: 1,
                    revolutions,
                    skew: entry.skew,
                    kind,
                    lbns: entry.lbns,
                };
                if whole > 0 && (entry.cylinders == 1 || whole == 1) {
                    shift(base, entry, whole - 1)?;
                    push(into, AdjacentTracks { count: whole, ..one }, at)?;
                } else {
                    for i in 0..whole {
                        let revolutions = revolutions + entry.skew * i as f64;
                        push(
                            into,
                            AdjacentTracks { cylinder: shift(base, entry, i)?, revolutions, ..one },
                            at,
                        )?;
                    }
                }
                if rest > 0 {
                    let revolutions = revolutions + entry.skew * whole as f64;
                    push(
                        into,
                        AdjacentTracks {
                            cylinder: shift(base, entry, whole)?,
                            revolutions,
                            lbns: rest,
                            ..one
                        },
                        at,
                    )?;
                }
            }
            Child::Node(child) => {
                for i in 0..whole {
                    let revolutions = revolutions + entry.skew * i as f64;
                    self.follow(child, shift(base, entry, i)?, revolutions, entry.lbns, depth + 1, at, into)?;
                }
                if rest > 0 {
                    let revolutions = revolutions + entry.skew * whole as f64;
                    self.follow(child, shift(base, entry, whole)?, revolutions, rest, depth + 1, at, into)?;
                }
            }
        }
        Ok(())
    }
}

fn check_depth(depth: usize, at: At) -> Result<(), Fault> {
    if depth < TREE_LEVELS_MAX {
        return Ok(());
    }
    Err(refuse(
        at,
        format!("the tree is more than {TREE_LEVELS_MAX} levels deep"),
        "a node must not contain itself",
    ))
}

fn push(into: &mut Vec<AdjacentTracks>, tracks: AdjacentTracks, at: At) -> Result<(), Fault> {
    if into.len() >= RUNS_MAX {
        return Err(refuse(
            at,
            format!("the tree unfolds into more than {RUNS_MAX} runs"),
            "check the run lengths",
        ));
    }
    into.push(tracks);
    Ok(())
}

/// Returns the cylinder of repetition `i` of an entry that begins at `base`.
fn shift(base: u64, entry: &Entry, i: u64) -> Result<u64, Fault> {
    let way = entry.cylinders.checked_mul(i);
    let cylinder =
        way.and_then(|way| if entry.outward { base.checked_sub(way) } else { base.checked_add(way) });
    cylinder.filter(|&c| c < u64::from(u32::MAX)).ok_or_else(|| {
        refuse(entry.at, "the run leaves the drive", "check its first cylinder, its length and its direction")
    })
}

/// Returns the lowest and the highest cylinder of the tracks.
fn extent(tracks: &[AdjacentTracks], at: At) -> Result<(u64, u64), Fault> {
    let mut extent = None;
    for run in tracks {
        let far = if run.outward {
            run.cylinder.checked_sub(run.count - 1)
        } else {
            run.cylinder.checked_add(run.count - 1)
        };
        let far = far.filter(|&c| c < u64::from(u32::MAX)).ok_or_else(|| too_large(at))?;
        let (low, high) = extent.unwrap_or((far, far));
        extent = Some((low.min(far).min(run.cylinder), high.max(far).max(run.cylinder)));
    }
    extent.ok_or_else(|| refuse(at, "the run has no tracks", "remove it, or give it a length"))
}

fn single_part(mut tracks: Vec<AdjacentTracks>, at: At) -> Result<Part, Fault> {
    let (first, last) = extent(&tracks, at)?;
    for run in &mut tracks {
        run.cylinder -= first;
    }
    Ok(Part { first, cylinders: last - first + 1, repetitions: 1, revolutions: 0.0, skew: 0.0, tracks, at })
}

/// Appends a part. If the part does not lie wholly inward of the last one, the two are merged into one without repetition.
pub(super) fn push_apart(apart: &mut Vec<Part>, mut part: Part) -> Result<(), Fault> {
    while let Some(before) = apart.pop() {
        if before.first + before.cylinders * before.repetitions <= part.first {
            apart.push(before);
            break;
        }
        let at = part.at;
        let mut tracks = Vec::new();
        for part in [&before, &part] {
            for i in 0..part.repetitions {
                for run in &part.tracks {
                    let cylinder = part.first + part.cylinders * i + run.cylinder;
                    let revolutions = part.revolutions + part.skew * i as f64 + run.revolutions;
                    push(&mut tracks, AdjacentTracks { cylinder, revolutions, ..*run }, at)?;
                }
            }
        }
        part = single_part(tracks, at)?;
    }
    apart.push(part);
    Ok(())
}
