//! `dm_layout_g4`: a tree of repeating runs of tracks.
//!
//! A node is a list of entries, each of which repeats a child, another node or a track, along LBNs, cylinders and
//! angle. The root's entries become zones, the levels below them patterns; equal patterns are shared. A tree that does
//! not fit (descending zones, zones that share cylinders) is laid out run by run.

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

/// A kind of track: LBNs are on its sectors from `first` on.
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

/// A child repeated `repetitions` times, perhaps followed by a part of it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cylinder: u64,
    revolutions: f64,
    /// LBNs, cylinders and rotation from one repetition to the next.
    lbns: u64,
    cylinders: u64,
    skew: f64,
    outward: bool,
    repetitions: u64,
    /// LBNs of a last repetition that is cut short.
    rest: u64,
    child: Child,
    at: At,
}

/// Adjacent tracks on one surface, as far as the tree has been followed.
#[derive(Clone, Copy, Debug)]
struct AdjacentTracks {
    cylinder: u64,
    outward: bool,
    head: u16,
    count: u64,
    revolutions: f64,
    skew: f64,
    kind: TrackKind,
    /// LBNs on each.
    lbns: u64,
}

/// A pattern under construction, its number of repetitions and its first cylinder.
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
    /// Returns the LBNs of all repetitions.
    fn run(&self) -> Option<u64> {
        self.lbns.checked_mul(self.repetitions)?.checked_add(self.rest)
    }
}
