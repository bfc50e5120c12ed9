//! Reads `dm_layout_g4`: a tree of repeating runs of tracks.
//!
//! A node of the tree is a list of entries. An entry repeats a child, which is a track or another node; each repetition is
//! shifted in LBN, cylinder and angle. The root's entries become zones of the profile, and the levels below become patterns;
//! equal patterns are shared. A tree for which this fails, because zones descend or share cylinders, becomes one pattern
//! that lists its runs.

mod rows;
mod tree;
mod zones;

use super::layout_g1::Mapped;
use super::source::{At, Fault, refuse};
use super::syntax::Block;
use crate::profile::{LayoutSpec, Order};
use tree::Tree;
use tree::push_apart;
use zones::Writer;

/// A row of `TP`: a kind of track with `sectors` sectors, whose LBNs begin on sector `first`.
#[derive(Clone, Copy, Debug)]
struct TrackKind {
    first: u32,
    sectors: u32,
}

#[derive(Clone, Copy, Debug)]
enum Child {
    Track { kind: TrackKind, head: u16 },
    Node(usize),
}

/// A row of `IDX`: a child that is repeated `repetitions` times. A part of one more repetition may follow.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cylinder: u64,
    revolutions: f64,
    /// The number of LBNs in a repetition.
    lbns: u64,
    /// The number of cylinders from one repetition to the next.
    cylinders: u64,
    /// The rotation from one repetition to the next, in revolutions.
    skew: f64,
    outward: bool,
    repetitions: u64,
    /// The number of LBNs of a partial repetition after the whole ones.
    rest: u64,
    child: Child,
    at: At,
}

/// Adjacent tracks on one surface, found by following the tree.
#[derive(Clone, Copy, Debug)]
struct AdjacentTracks {
    cylinder: u64,
    outward: bool,
    head: u16,
    count: u64,
    revolutions: f64,
    skew: f64,
    kind: TrackKind,
    /// The number of LBNs on each track.
    lbns: u64,
}

/// A zone under construction: a pattern of tracks, the number of its repetitions, and the first cylinder.
#[derive(Clone, Debug)]
struct Part {
    first: u64,
    cylinders: u64,
    repetitions: u64,
    revolutions: f64,
    skew: f64,
    tracks: Vec<AdjacentTracks>,
    at: At,
}

pub(super) fn read(block: &Block, heads: u16, notes: &mut Vec<String>) -> Result<Mapped, Fault> {
    let mut tree = Tree::read(block)?;
    tree.cut_tail(notes);
    let mut parts = Vec::new();
    let (root, at) = tree.root;
    tree.parts(root, 0, 0.0, 0, &mut parts)?;
    let mut apart: Vec<Part> = Vec::new();
    for part in parts {
        push_apart(&mut apart, part)?;
    }
    if apart.is_empty() {
        return Err(refuse(
            at,
            "the root of IDX is empty",
            "the last node of IDX is the root; list its entries",
        ));
    }
    let mut writer = Writer { spec: empty_layout(), heads, capacity: 0 };
    for part in &apart {
        writer.zone(part)?;
    }
    writer.slips(block, notes)?;
    writer.remaps(block)?;
    let last = writer.spec.zones.last().map_or(0, |zone| zone.last_cylinder);
    Ok(Mapped {
        layout: writer.spec,
        capacity: writer.capacity,
        cylinders: last.checked_add(1).ok_or_else(|| too_large(at))?,
        heads: writer.heads,
    })
}

fn empty_layout() -> LayoutSpec {
    LayoutSpec { order: Order::Pattern, patterns: Vec::new(), zones: Vec::new(), remaps: Vec::new() }
}

fn too_large(at: At) -> Fault {
    refuse(at, "the numbers go beyond what a drive can have", "check the lengths of this run")
}

impl Entry {
    /// Returns the number of LBNs of all repetitions.
    fn run(&self) -> Option<u64> {
        self.lbns.checked_mul(self.repetitions)?.checked_add(self.rest)
    }
}
