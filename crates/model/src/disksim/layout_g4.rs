//! `dm_layout_g4`: a tree of repeating runs of tracks.
//!
//! A node is a list of entries, each of which repeats a child, another node or a track, along LBNs, cylinders and
//! angle. The root's entries become zones, what is below them patterns; equal patterns are shared. A tree that does
//! not fit (descending zones, zones that share cylinders) is laid out run by run.

use super::fields::{flattened, refuse};
use super::layout_g1::{MAX_SECTORS_PER_TRACK, Mapped};
use super::source::{At, Fault, printable};
use super::syntax::{Block, Value};
use crate::profile::{
    LayoutSpec, Order, Pattern, Remap, Run, SectorsPerTrack, Sparing, SparingRegion, Turns, Zone,
};

/// Deepest tree; the known ones have two levels.
const MAX_DEPTH: usize = 16;
/// Most runs that a tree may unfold into.
const MAX_RUNS: usize = 1 << 20;
/// Most single sectors without an LBN.
const MAX_SLIPS: u64 = 1 << 22;

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

/// A child repeated `repetitions` times, and then perhaps a part of it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cylinder: u64,
    turns: f64,
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

/// Tracks next to each other on one surface, as far as the tree has been followed.
#[derive(Clone, Copy, Debug)]
struct Tracks {
    cylinder: u64,
    outward: bool,
    head: u16,
    count: u64,
    turns: f64,
    skew: f64,
    kind: TrackKind,
    /// LBNs on each.
    lbns: u64,
}

/// A pattern in the making, and how often it repeats from which cylinder on.
#[derive(Clone, Debug)]
struct Part {
    first: u64,
    cylinders: u64,
    repetitions: u64,
    turns: f64,
    skew: f64,
    tracks: Vec<Tracks>,
    at: At,
}

pub(super) fn read(block: &Block, heads: u16, notes: &mut Vec<String>) -> Result<Mapped, Fault> {
    let tree = Tree::read(block)?;
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

struct Tree {
    nodes: Vec<Vec<Entry>>,
    root: (usize, At),
}

impl Tree {
    fn read(block: &Block) -> Result<Self, Fault> {
        let kinds = track_rows(block.require("TP")?)?;
        let index = block.require("IDX")?;
        let mut nodes = Vec::new();
        for value in index.list("IDX")? {
            nodes.push(NodeReader { kinds: &kinds }.read(value.list("IDX")?)?);
        }
        // Children are checked when the tree is followed, the root's existence here.
        let root = nodes.len().checked_sub(1).ok_or_else(|| {
            refuse(index.at(), "IDX is empty", "give a list of nodes, the last of which is the root")
        })?;
        Ok(Self { nodes, root: (root, index.at()) })
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

    /// The zones below a node: its entries, or in place of one that does not repeat what is below that.
    fn parts(
        &self,
        node: usize,
        cylinder: u64,
        turns: f64,
        depth: usize,
        into: &mut Vec<Part>,
    ) -> Result<(), Fault> {
        for entry in self.node(node, self.root.1)? {
            check_depth(depth, entry.at)?;
            let first = cylinder.checked_add(entry.cylinder).ok_or_else(|| too_large(entry.at))?;
            let turns = turns + entry.turns;
            if let Child::Node(child) = entry.child
                && entry.repetitions == 1
                && entry.rest == 0
                && self.node(child, entry.at)?.iter().all(|below| matches!(below.child, Child::Node(_)))
                && self.whole(child) == Some(entry.lbns)
            {
                self.parts(child, first, turns, depth + 1, into)?;
                continue;
            }
            self.zone(entry, first, turns, depth, into)?;
        }
        Ok(())
    }

    /// LBNs of a node, all entries to their end.
    fn whole(&self, node: usize) -> Option<u64> {
        self.nodes.get(node)?.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.run()?))
    }

    /// One entry as a repeating pattern and a rest, or else run by run.
    fn zone(
        &self,
        entry: &Entry,
        first: u64,
        turns: f64,
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
                    turns,
                    skew: entry.skew,
                    tracks,
                    at,
                };
                into.push(part);
                if entry.rest > 0 {
                    let rest = Entry {
                        cylinder: shift(first, entry, entry.repetitions)?,
                        turns: turns + entry.skew * entry.repetitions as f64,
                        repetitions: 0,
                        ..*entry
                    };
                    into.push(self.single(&rest, 0, 0.0, depth)?);
                }
                return Ok(());
            }
        }
        into.push(self.single(&Entry { cylinder: first, turns, ..*entry }, 0, 0.0, depth)?);
        Ok(())
    }

    /// All of an entry in one repetition.
    fn single(&self, entry: &Entry, cylinder: u64, turns: f64, depth: usize) -> Result<Part, Fault> {
        let mut tracks = Vec::new();
        self.unfold(entry, cylinder, turns, entry.run(), depth, &mut tracks)?;
        single_part(tracks, entry.at)
    }

    /// The runs of a node's first `limit` LBNs.
    #[allow(clippy::too_many_arguments)] // one recursion, all of it position
    fn follow(
        &self,
        node: usize,
        cylinder: u64,
        turns: f64,
        limit: u64,
        depth: usize,
        at: At,
        into: &mut Vec<Tracks>,
    ) -> Result<(), Fault> {
        check_depth(depth, at)?;
        let mut left = limit;
        for entry in self.node(node, at)? {
            if left == 0 {
                break;
            }
            let run = entry.run().map(|run| run.min(left));
            self.unfold(entry, cylinder, turns, run, depth, into)?;
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

    /// The runs of an entry's first `limit` LBNs.
    fn unfold(
        &self,
        entry: &Entry,
        cylinder: u64,
        turns: f64,
        limit: Option<u64>,
        depth: usize,
        into: &mut Vec<Tracks>,
    ) -> Result<(), Fault> {
        let at = entry.at;
        let limit = limit.ok_or_else(|| too_large(at))?;
        let base = cylinder.checked_add(entry.cylinder).ok_or_else(|| too_large(at))?;
        let turns = turns + entry.turns;
        let (whole, rest) = (limit / entry.lbns, limit % entry.lbns);
        match entry.child {
            Child::Track { kind, head } => {
                let one = Tracks {
                    cylinder: base,
                    outward: entry.outward,
                    head,
                    count: 1,
                    turns,
                    skew: entry.skew,
                    kind,
                    lbns: entry.lbns,
                };
                if whole > 0 && (entry.cylinders == 1 || whole == 1) {
                    shift(base, entry, whole - 1)?;
                    push(into, Tracks { count: whole, ..one }, at)?;
                } else {
                    for i in 0..whole {
                        let turns = turns + entry.skew * i as f64;
                        push(into, Tracks { cylinder: shift(base, entry, i)?, turns, ..one }, at)?;
                    }
                }
                if rest > 0 {
                    let turns = turns + entry.skew * whole as f64;
                    push(
                        into,
                        Tracks { cylinder: shift(base, entry, whole)?, turns, lbns: rest, ..one },
                        at,
                    )?;
                }
            }
            Child::Node(child) => {
                for i in 0..whole {
                    let turns = turns + entry.skew * i as f64;
                    self.follow(child, shift(base, entry, i)?, turns, entry.lbns, depth + 1, at, into)?;
                }
                if rest > 0 {
                    let turns = turns + entry.skew * whole as f64;
                    self.follow(child, shift(base, entry, whole)?, turns, rest, depth + 1, at, into)?;
                }
            }
        }
        Ok(())
    }
}

impl Entry {
    /// LBNs of all repetitions.
    fn run(&self) -> Option<u64> {
        self.lbns.checked_mul(self.repetitions)?.checked_add(self.rest)
    }
}

fn check_depth(depth: usize, at: At) -> Result<(), Fault> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    Err(refuse(
        at,
        format!("the tree is more than {MAX_DEPTH} levels deep"),
        "a node must not contain itself",
    ))
}

fn push(into: &mut Vec<Tracks>, tracks: Tracks, at: At) -> Result<(), Fault> {
    if into.len() >= MAX_RUNS {
        return Err(refuse(
            at,
            format!("the tree unfolds into more than {MAX_RUNS} runs"),
            "check the run lengths",
        ));
    }
    into.push(tracks);
    Ok(())
}

/// The cylinder of repetition `i` of an entry that begins at `base`.
fn shift(base: u64, entry: &Entry, i: u64) -> Result<u64, Fault> {
    let way = entry.cylinders.checked_mul(i);
    let cylinder =
        way.and_then(|way| if entry.outward { base.checked_sub(way) } else { base.checked_add(way) });
    cylinder.filter(|&c| c < u64::from(u32::MAX)).ok_or_else(|| {
        refuse(
            entry.at,
            "this run leaves the drive",
            "check its first cylinder, its length and its direction",
        )
    })
}

/// First and last cylinder.
fn extent(tracks: &[Tracks], at: At) -> Result<(u64, u64), Fault> {
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
    extent.ok_or_else(|| refuse(at, "this run has no tracks", "remove it, or give it a length"))
}

fn single_part(mut tracks: Vec<Tracks>, at: At) -> Result<Part, Fault> {
    let (first, last) = extent(&tracks, at)?;
    for run in &mut tracks {
        run.cylinder -= first;
    }
    Ok(Part { first, cylinders: last - first + 1, repetitions: 1, turns: 0.0, skew: 0.0, tracks, at })
}

/// Appends a zone; while it does not lie wholly inward of the one before, the two are made one.
fn push_apart(apart: &mut Vec<Part>, mut part: Part) -> Result<(), Fault> {
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
                    let turns = part.turns + part.skew * i as f64 + run.turns;
                    push(&mut tracks, Tracks { cylinder, turns, ..*run }, at)?;
                }
            }
        }
        part = single_part(tracks, at)?;
    }
    apart.push(part);
    Ok(())
}

/// `TP`: rows of first sector, last sector, sectors in all.
fn track_rows(value: &Value) -> Result<Vec<TrackKind>, Fault> {
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
            let sectors = sectors.whole("TP", 1, MAX_SECTORS_PER_TRACK)?;
            // The middle number, last sector or count, is not needed: the entry says how many LBNs there are.
            let first = first.whole("TP", 0, sectors - 1)?;
            Ok(TrackKind { first: first as u32, sectors: sectors as u32 })
        })
        .collect()
}

struct NodeReader<'k> {
    kinds: &'k [TrackKind],
}

impl NodeReader<'_> {
    fn read(&self, items: &[Value]) -> Result<Vec<Entry>, Fault> {
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
                    format!("this run begins at LBN {lbn}, and the one before ends at {next_lbn}"),
                    "runs of a node follow each other without gap or overlap",
                ));
            }
            let entry;
            (entry, rest) = self.entry(rest, at)?;
            next_lbn = entry.run().and_then(|run| run.checked_add(lbn)).ok_or_else(|| too_large(at))?;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// One row: ten numbers for a node below, eleven for a track, the last being its head.
    fn entry<'r, 'v>(&self, row: &'r [&'v Value], at: At) -> Result<(Entry, &'r [&'v Value]), Fault> {
        let [_, cylinder, turns, lbns, cylinders, skew, run, cylinder_run, kind, child, rest @ ..] = row
        else {
            return Err(refuse(
                at,
                "this row of IDX is incomplete",
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
                    return Err(refuse(
                        child.at(),
                        "a track without its head",
                        "give the head after the child",
                    ));
                };
                let index = child.whole("child", 0, most)? as usize;
                let kind = *self.kinds.get(index).ok_or_else(|| {
                    let mend = format!("TP has {} rows, counted from 0", self.kinds.len());
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
            turns: turns.number("off")?,
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
}

/// Writes the zones of the profile.
struct Writer {
    spec: LayoutSpec,
    heads: u16,
    capacity: u64,
}

impl Writer {
    fn zone(&mut self, part: &Part) -> Result<(), Fault> {
        let at = part.at;
        let whole = |n: u64| u32::try_from(n).map_err(|_| too_large(at));
        for run in &part.tracks {
            self.heads = self.heads.max(run.head.saturating_add(1));
        }
        let density = density(&part.tracks, self.heads);
        let runs = part
            .tracks
            .iter()
            .map(|run| {
                Ok(Run {
                    head: run.head,
                    cylinder: whole(run.cylinder)?,
                    tracks: whole(run.count)?,
                    outward: run.outward,
                    offset: turns(run.turns),
                    skew: turns(if run.count > 1 { run.skew } else { 0.0 }),
                    sectors_per_track: (density_on(&density, run.head) != run.kind.sectors)
                        .then_some(run.kind.sectors),
                })
            })
            .collect::<Result<Vec<_>, Fault>>()?;
        let last = part
            .cylinders
            .checked_mul(part.repetitions)
            .and_then(|n| n.checked_add(part.first))
            .and_then(|n| n.checked_sub(1))
            .ok_or_else(|| too_large(at))?;
        let pattern = self.pattern(whole(part.cylinders)?, turns(part.skew), runs);
        let (sparing, slips) = unused(part)?;
        let each =
            part.tracks.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.count.checked_mul(run.lbns)?));
        self.capacity = each
            .and_then(|each| each.checked_mul(part.repetitions))
            .and_then(|lbns| self.capacity.checked_add(lbns))
            .filter(|&sum| sum <= i64::MAX as u64)
            .ok_or_else(|| too_large(at))?;
        self.spec.zones.push(Zone {
            first_cylinder: whole(part.first)?,
            last_cylinder: whole(last)?,
            sectors_per_track: density,
            pattern: Some(pattern),
            offset: turns(part.turns),
            track_skew: Turns::default(),
            cylinder_skew: Turns::default(),
            head_skew: None,
            reserved: 0,
            sparing,
            slips,
            defects: Vec::new(),
        });
        Ok(())
    }

    /// The name of an equal pattern, or of this one now added.
    fn pattern(&mut self, cylinders: u32, skew: Turns, runs: Vec<Run>) -> String {
        let known =
            self.spec.patterns.iter().find(|p| p.cylinders == cylinders && p.skew == skew && p.runs == runs);
        if let Some(pattern) = known {
            return pattern.name.clone();
        }
        let name = format!("pattern-{}", self.spec.patterns.len());
        self.spec.patterns.push(Pattern { name: name.clone(), cylinders, skew, runs });
        name
    }

    /// `Slips`: pairs of an LBN and how many sectors are stepped over before it.
    fn slips(&mut self, block: &Block, notes: &mut Vec<String>) -> Result<(), Fault> {
        let mut items = Vec::new();
        flattened(block.list("Slips")?, &mut items);
        let (pairs, odd) = items.as_chunks::<2>();
        if let Some(item) = odd.first() {
            return Err(refuse(item.at(), "a slip without its count", "give pairs `LBN, count`"));
        }
        if pairs.is_empty() {
            return Ok(());
        }
        notes
            .push("`Slips` are read as pairs of an LBN and the number of bad sectors right before it".into());
        let mut before = 0_u64;
        let mut least = 0;
        // The zone being filled, and how many mapped sectors lie before it.
        let (mut zone, mut zone_start) = (0, 0_u64);
        let sizes: Vec<u64> = self.spec.zones.iter().map(|z| self.mapped_sectors(z)).collect();
        for [lbn, count] in pairs {
            let at = lbn.at();
            let lbn = lbn.whole("Slips", 0, self.capacity)?;
            if lbn < least {
                return Err(refuse(at, "the slips are not in ascending order", "sort them by LBN"));
            }
            least = lbn;
            for _ in 0..count.whole("Slips", 0, MAX_SLIPS)? {
                let index =
                    lbn.checked_add(before).filter(|&i| i < self.capacity).ok_or_else(|| too_large(at))?;
                while sizes.get(zone).is_some_and(|&size| index - zone_start >= size) {
                    zone_start += sizes.get(zone).copied().unwrap_or(0);
                    zone += 1;
                }
                let Some(target) = self.spec.zones.get_mut(zone) else { break };
                if !target.slips.is_empty() && !target.sparing.slip_to_end || target.sparing.spares > 0 {
                    return Err(refuse(
                        at,
                        "slips in a zone whose tracks have sectors without LBNs are not supported",
                        "remove the slips, or the unused sectors of the tracks",
                    ));
                }
                target.sparing.slip_to_end = true;
                target.slips.push(index - zone_start);
                before += 1;
                if before > MAX_SLIPS {
                    return Err(too_large(at));
                }
            }
        }
        self.capacity -= before;
        Ok(())
    }

    fn mapped_sectors(&self, zone: &Zone) -> u64 {
        let pattern = self.spec.patterns.iter().find(|p| Some(&p.name) == zone.pattern.as_ref());
        pattern.map_or(0, |pattern| {
            let repetitions = (zone.last_cylinder - zone.first_cylinder + 1) / pattern.cylinders.max(1);
            let sectors = pattern.runs.iter().map(|run| {
                let each =
                    run.sectors_per_track.unwrap_or_else(|| density_on(&zone.sectors_per_track, run.head));
                u64::from(run.tracks) * u64::from(each)
            });
            sectors.sum::<u64>() * u64::from(repetitions)
        })
    }

    /// `Remaps`: rows of LBN, length, cylinder, head, sector, sectors per track.
    fn remaps(&mut self, block: &Block) -> Result<(), Fault> {
        let mut items = Vec::new();
        flattened(block.list("Remaps")?, &mut items);
        let (rows, odd) = items.as_chunks::<6>();
        if let Some(item) = odd.first() {
            return Err(refuse(
                item.at(),
                "an incomplete remap",
                "give rows `LBN, length, cylinder, head, sector, sectors per track`",
            ));
        }
        for [lbn, sectors, cylinder, head, sector, _] in rows {
            self.spec.remaps.push(Remap {
                lbn: lbn.whole("Remaps", 0, u64::MAX)?,
                sectors: sectors.whole("Remaps", 1, u64::from(u32::MAX))? as u32,
                cylinder: cylinder.whole("Remaps", 0, u64::from(u32::MAX))? as u32,
                head: head.whole("Remaps", 0, u64::from(u16::MAX))? as u16,
                sector: sector.whole("Remaps", 0, u64::from(u32::MAX))? as u32,
            });
        }
        Ok(())
    }
}

fn turns(turns: f64) -> Turns {
    // Adding zero turns -0.0 into 0.0; angles are six-digit decimals, so this many digits restore their sums.
    Turns::Decimal((turns * 1e12).round() / 1e12 + 0.0)
}

/// One number where all tracks agree, else one a head: that of the head's first run.
fn density(tracks: &[Tracks], heads: u16) -> SectorsPerTrack {
    let first = tracks.first().map_or(1, |run| run.kind.sectors);
    if tracks.iter().all(|run| run.kind.sectors == first) {
        return SectorsPerTrack::Same(first);
    }
    let mut by_head = vec![None; usize::from(heads)];
    for run in tracks {
        if let Some(sectors) = by_head.get_mut(usize::from(run.head)) {
            sectors.get_or_insert(run.kind.sectors);
        }
    }
    SectorsPerTrack::ByHead(by_head.into_iter().map(|sectors| sectors.unwrap_or(first)).collect())
}

fn density_on(density: &SectorsPerTrack, head: u16) -> u32 {
    match density {
        SectorsPerTrack::Same(sectors) => *sectors,
        SectorsPerTrack::ByHead(by_head) => by_head.get(usize::from(head)).copied().unwrap_or(0),
    }
}

/// Sectors of tracks that hold no LBN: as spares of each track where all tracks agree, else as slips.
fn unused(part: &Part) -> Result<(Sparing, Vec<u64>), Fault> {
    let behind = |run: &Tracks| u64::from(run.kind.sectors) - u64::from(run.kind.first) - run.lbns;
    if part.tracks.iter().all(|run| run.kind.first == 0 && behind(run) == 0) {
        return Ok((Sparing::default(), Vec::new()));
    }
    if let Some(one) = part.tracks.first() {
        let before = u64::from(one.kind.first);
        let alike = |run: &Tracks| u64::from(run.kind.first) == before && behind(run) == behind(one);
        if part.tracks.iter().all(alike) && (before == 0 || behind(one) == 0) {
            let spares = before + behind(one);
            let sparing =
                Sparing { per: SparingRegion::Track, spares, at_front: before > 0, ..Sparing::default() };
            return Ok((sparing, Vec::new()));
        }
    }
    let mut slips = Vec::new();
    let mut place = 0_u64;
    for _ in 0..part.repetitions {
        for run in &part.tracks {
            if run.kind.first == 0 && behind(run) == 0 {
                place += run.count * u64::from(run.kind.sectors);
                continue;
            }
            for _ in 0..run.count {
                slips.extend(place..place + u64::from(run.kind.first));
                place += u64::from(run.kind.sectors);
                slips.extend(place - behind(run)..place);
                if slips.len() as u64 > MAX_SLIPS {
                    return Err(refuse(
                        part.at,
                        "too many sectors without LBNs on tracks that differ in them",
                        "give all tracks of the run the same unused sectors",
                    ));
                }
            }
        }
    }
    Ok((Sparing { slip_to_end: true, ..Sparing::default() }, slips))
}
