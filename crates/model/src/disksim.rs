//! Import of DiskSim 4.0 parameter files into profiles.
//!
//! [`import`] takes a `.parv` file, or the `.diskspecs` or `.model` file that it includes, and follows every `source`
//! statement. docs/MODEL.md describes the parameters; [`Imported::notes`] lists the parameters that the import ignores or
//! has to interpret.
//!
//! ```
//! use freeblock_model::disksim;
//! use std::{io, path::Path};
//!
//! let files = |path: &Path| -> io::Result<Vec<u8>> {
//!     match path.to_str() {
//!         Some("tiny.model") => Ok(b"dm_disk TINY {
//!             Number of data surfaces = 2, Number of cylinders = 10, Block count = 200,
//!             Layout Model = dm_layout_g1 {
//!                 LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9, Number of spares = 0,
//!                 Zones = [ dm_layout_g1_zone {
//!                     First cylinder number = 0, Last cylinder number = 9, Blocks per track = 10
//!                 } ]
//!             },
//!             Mechanical Model = dm_mech_g1 {
//!                 Seek type = extracted, Full seek curve = tiny.seek,
//!                 Head switch time = 0.5, Rotation speed (in rpms) = 7200
//!             }
//!         }".to_vec()),
//!         Some("tiny.seek") => Ok(b"Seek distances measured: 2\n1, 1.5\n9, 4.0\n".to_vec()),
//!         _ => Err(io::ErrorKind::NotFound.into()),
//!     }
//! };
//! let imported = disksim::import_from(&files, Path::new("tiny.model"), None)?;
//! assert_eq!(imported.profile.name, "tiny");
//! assert_eq!(imported.profile.rpm, 7200);
//! # Ok::<(), disksim::ImportError>(())
//! ```

mod error;
mod fields;
mod firmware;
mod instances;
mod layout_g1;
mod layout_g4;
mod mechanics;
mod source;
mod syntax;

pub use error::{ImportError, Place};

use crate::layout::{CYLINDERS_MAX, Layout};
use crate::profile::{FORMAT_VERSION, Profile};
use instances::Instances;
use layout_g1::Mapped;
use source::{At, Fault, Scalar, Sources, printable, refuse};
use std::io::{self, Read};
use std::path::Path;
use syntax::{Block, Node, Statement, Value};

/// Reads the files of an import. A closure from path to content implements this trait.
pub trait Files {
    /// Returns the content of the file at `path`.
    ///
    /// # Errors
    /// The file does not exist or cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

impl<F: Fn(&Path) -> io::Result<Vec<u8>>> Files for F {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self(path)
    }
}

/// An imported drive.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Imported {
    /// The profile of the drive.
    pub profile: Profile,
    /// A sentence about each parameter that was ignored, corrected or interpreted.
    pub notes: Vec<String>,
}

/// Imports the only disk of the file at `path`. If the file specifies several disks, the one that is instantiated is imported.
///
/// # Errors
/// See [`ImportError`]; every message names the place and the remedy.
pub fn import(path: &Path) -> Result<Imported, ImportError> {
    import_from(&read_bounded, path, None)
}

/// Reads a file up to one byte more than the limit, because a device or a pipe may have no end. The caller refuses a file
/// that exceeds the limit.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(source::IMPORT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Imports a disk from any [`Files`]: the disk called `choice`, or, without a choice, the one that [`import`] takes.
///
/// # Errors
/// Those of [`import`], and [`ImportError::NoSuchDisk`].
pub fn import_from(files: &dyn Files, path: &Path, choice: Option<&str>) -> Result<Imported, ImportError> {
    let mut sources = Sources::new(files);
    let statements = sources
        .open_root(path)
        .and_then(|root| syntax::parse(&mut sources, root))
        .map_err(|fault| sources.explain(fault))?;
    let config = Config { path, statements: &statements };
    let disk = config.disk(choice, &sources)?;
    let mut notes = Vec::new();
    let mut profile =
        config.profile(disk, &mut sources, &mut notes).map_err(|fault| sources.explain(fault))?;
    let impossible = |cause| ImportError::Impossible { path: path.to_owned(), cause };
    let layout = match Layout::new(&profile.layout, profile.cylinders, profile.heads) {
        // In some files remaps lead to spare tracks that the layout does not have. Such a file is imported without remaps,
        // because they concern only a few sectors.
        Err(cause) if !profile.layout.remaps.is_empty() => {
            let remaps = std::mem::take(&mut profile.layout.remaps);
            notes.push(format!("{} remaps are left out: {cause}", remaps.len()));
            Layout::new(&profile.layout, profile.cylinders, profile.heads)
        }
        layout => layout,
    }
    .map_err(impossible)?;
    crate::DriveModel::from_profile(&profile).map_err(impossible)?;
    config.compare_capacity(disk, layout.capacity().get(), &mut notes);
    Ok(Imported { profile, notes })
}

/// The disk to import.
#[derive(Clone, Copy)]
enum Disk<'s> {
    /// A `disksim_disk`: medium, arm and electronics.
    Whole(&'s Block),
    /// A `dm_disk`: medium and arm only.
    Bare(&'s Block),
}

/// The statements of all files of the import.
struct Config<'s> {
    path: &'s Path,
    statements: &'s [Statement],
}

impl<'s> Config<'s> {
    fn blocks(&self, kind: &'static str) -> impl Iterator<Item = &'s Block> + use<'s> {
        self.statements.iter().filter_map(move |statement| match statement {
            Statement::Block(block) if block.kind == kind => Some(block),
            _ => None,
        })
    }

    fn named(&self, kind: &'static str, name: &str) -> Option<&'s Block> {
        self.blocks(kind).find(|block| block.name == name)
    }

    fn instantiated(&self) -> impl Iterator<Item = (&'s Instances, &'s Scalar)> + use<'s> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Instantiate { names, spec } => Some((names, spec)),
            _ => None,
        })
    }

    /// Returns the name of the specification of a component in the topology; for a component that no `instantiate` statement
    /// names, the component's own name.
    fn spec_of(&self, component: &'s str) -> &'s str {
        let found = self.instantiated().find(|(names, _)| names.contains(component));
        found.map_or(component, |(_, spec)| spec.text.as_str())
    }

    fn topology(&self) -> Option<&'s Node> {
        self.statements.iter().find_map(|statement| match statement {
            Statement::Topology(node) => Some(node),
            _ => None,
        })
    }

    /// Returns the disk called `choice`. Without a choice, returns the only disk, or the only one that is instantiated.
    fn disk(&self, choice: Option<&str>, sources: &Sources<'_>) -> Result<Disk<'s>, ImportError> {
        let whole: Vec<_> = self.blocks("disksim_disk").collect();
        let bare: Vec<_> = self.blocks("dm_disk").collect();
        let names = |blocks: &[&Block]| blocks.iter().map(|block| block.name.clone()).collect::<Vec<_>>();
        if let Some(name) = choice {
            let in_whole = whole.iter().find(|block| block.name == name).map(|block| Disk::Whole(block));
            let in_bare = || bare.iter().find(|block| block.name == name).map(|block| Disk::Bare(block));
            return in_whole.or_else(in_bare).ok_or_else(|| ImportError::NoSuchDisk {
                path: self.path.to_owned(),
                name: name.into(),
                choices: names(if whole.is_empty() { &bare } else { &whole }),
            });
        }
        if let [disk] = whole[..] {
            return Ok(Disk::Whole(disk));
        }
        if whole.is_empty() {
            return match bare[..] {
                [] => Err(self.no_disk(sources)),
                [disk] => Ok(Disk::Bare(disk)),
                _ => Err(ImportError::Ambiguous { path: self.path.to_owned(), choices: names(&bare) }),
            };
        }
        let used: Vec<_> = whole
            .iter()
            .copied()
            .filter(|block| self.instantiated().any(|(_, spec)| spec.text == block.name))
            .collect();
        match used[..] {
            [disk] => Ok(Disk::Whole(disk)),
            [] => Err(ImportError::Ambiguous { path: self.path.to_owned(), choices: names(&whole) }),
            _ => Err(ImportError::Ambiguous { path: self.path.to_owned(), choices: names(&used) }),
        }
    }

    /// Returns the error for a file without a disk. If the file has a device of another kind, the error names it.
    fn no_disk(&self, sources: &Sources<'_>) -> ImportError {
        let other = ["disksim_simpledisk", "memsmodel_mems", "ssdmodel_ssd"];
        if let Some(block) = other.into_iter().find_map(|kind| self.blocks(kind).next()) {
            return ImportError::Value {
                place: sources.place(block.at),
                problem: format!("`{}` is not a disk with cylinders and heads", printable(&block.kind)),
                mend: "import a file with a `disksim_disk`".into(),
            };
        }
        let part = ["dm_layout_g4", "dm_layout_g1", "dm_mech_g1"];
        if let Some(block) = part.into_iter().find_map(|kind| self.blocks(kind).next()) {
            return ImportError::Value {
                place: sources.place(block.at),
                problem: format!("`{}` is only a part of a disk", printable(&block.kind)),
                mend: "import the .model, .diskspecs or .parv file that sources this one".into(),
            };
        }
        ImportError::NoDisk { path: self.path.to_owned() }
    }

    fn profile(
        &self,
        disk: Disk<'s>,
        sources: &mut Sources<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Profile, Fault> {
        let (outer, model) = match disk {
            Disk::Whole(block) => (block, self.model(block)?),
            Disk::Bare(block) => (block, block),
        };
        let heads = model.whole("Number of data surfaces", 1, u64::from(u16::MAX))? as u16;
        let cylinders = model.whole("Number of cylinders", 1, u64::from(CYLINDERS_MAX))? as u32;
        let mapped = self.layout(model, heads, notes)?;
        if mapped.cylinders > CYLINDERS_MAX {
            return Err(refuse(
                model.at,
                format!("the layout uses {} cylinders", mapped.cylinders),
                &format!("check the zones: no drive has more than {CYLINDERS_MAX}"),
            ));
        }
        let mechanical = model.require("Mechanical Model")?.block("Mechanical Model")?;
        if mechanical.kind != "dm_mech_g1" {
            return Err(unknown_kind(mechanical.at, &mechanical.kind, "`dm_mech_g1`"));
        }
        let mut arm = mechanics::read(mechanical, sources, notes)?;
        let firmware = match disk {
            Disk::Bare(_) => None,
            Disk::Whole(block) => {
                let path = self.path_to(block, notes);
                let (firmware, read, write) = firmware::read(block, path, notes)?;
                arm.mechanics.zero_latency_read = read;
                arm.mechanics.zero_latency_write = write;
                Some(firmware)
            }
        };
        if mapped.cylinders > cylinders {
            notes.push(format!(
                "{cylinders} cylinders are declared, and the layout uses {}; the latter counts",
                mapped.cylinders
            ));
        }
        if mapped.heads > heads {
            notes.push(format!(
                "{heads} surfaces are declared, and the layout uses {}; the latter counts",
                mapped.heads
            ));
        }
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Profile {
            format: FORMAT_VERSION,
            name: short_name(&outer.name),
            title: outer.name.clone(),
            synthetic: false,
            sources: vec![format!("DiskSim 4.0 parameter file {file}")],
            sector_bytes: 512,
            physical_sector_bytes: None,
            rpm: arm.rpm,
            cylinders: cylinders.max(mapped.cylinders),
            heads: mapped.heads.max(heads),
            mechanics: arm.mechanics,
            seek: arm.seek,
            layout: mapped.layout,
            firmware,
        })
    }

    /// Returns the `dm_disk` of a `disksim_disk`: written in place, in a sourced file, or elsewhere under the given name.
    fn model(&self, disk: &'s Block) -> Result<&'s Block, Fault> {
        let value = disk.require("Model")?;
        let model = match value {
            Value::Scalar(name) => self.named("dm_disk", &name.text).ok_or_else(|| {
                refuse(
                    name.at,
                    format!("no `dm_disk` is called `{}`", printable(&name.text)),
                    "write `Model = source FILE` or `Model = dm_disk NAME { ... }`",
                )
            })?,
            other => other.block("Model")?,
        };
        if model.kind != "dm_disk" {
            return Err(unknown_kind(model.at, &model.kind, "`dm_disk`"));
        }
        Ok(model)
    }

    fn layout(&self, model: &'s Block, heads: u16, notes: &mut Vec<String>) -> Result<Mapped, Fault> {
        let layout = model.require("Layout Model")?.block("Layout Model")?;
        match layout.kind.as_str() {
            "dm_layout_g1" => layout_g1::read(layout, heads, notes),
            "dm_layout_g4" => layout_g4::read(layout, heads, notes),
            kind => Err(unknown_kind(layout.at, kind, "`dm_layout_g1` or `dm_layout_g4`")),
        }
    }

    /// Returns the bus of the disk and the controller above the bus, as the topology says. Without a topology, returns the
    /// only bus and the only controller.
    fn path_to(&self, disk: &'s Block, notes: &mut Vec<String>) -> firmware::Path<'s> {
        let mut trail = Vec::new();
        let is_disk = |node: &Node| node.kind == "disksim_disk" && self.spec_of(&node.name) == disk.name;
        let found = self.topology().is_some_and(|root| trail_to(root, &is_disk, &mut trail));
        if found {
            let mut above = |kind: &'static str, what: &str| {
                let node = trail.iter().rev().find(|node| node.kind == kind)?;
                let block = self.named(kind, self.spec_of(&node.name));
                if block.is_none() {
                    notes.push(format!(
                        "the {what} `{}` of the topology is not specified; its time per sector is taken as 0",
                        printable(&node.name)
                    ));
                }
                block
            };
            let bus = above("disksim_bus", "bus");
            return firmware::Path { bus, controller: above("disksim_ctlr", "controller") };
        }
        let mut only = |kind: &'static str, what: &str| {
            let mut blocks = self.blocks(kind);
            match (blocks.next(), blocks.next()) {
                (Some(block), None) => Some(block),
                (None, _) => None,
                _ => {
                    notes.push(format!(
                        "there is more than one {what} and no topology; the time per sector is taken as 0"
                    ));
                    None
                }
            }
        };
        firmware::Path { bus: only("disksim_bus", "bus"), controller: only("disksim_ctlr", "controller") }
    }

    /// Adds a note if the declared block count differs from the number of LBNs that the layout maps. DiskSim ignores the
    /// declared number, and so does this import.
    fn compare_capacity(&self, disk: Disk<'s>, mapped: u64, notes: &mut Vec<String>) {
        let model = match disk {
            Disk::Whole(block) => self.model(block).ok(),
            Disk::Bare(block) => Some(block),
        };
        let declared =
            model.and_then(|model| model.get("Block count")).and_then(|v| v.integer("Block count").ok());
        if let Some(declared) = declared
            && declared != i128::from(mapped)
        {
            notes.push(format!(
                "`Block count` declares {declared} sectors and the layout maps {mapped}; the layout counts, as in DiskSim"
            ));
        }
    }
}

fn unknown_kind(at: At, kind: &str, known: &str) -> Fault {
    refuse(
        at,
        format!("a block of type `{}` is not supported here", printable(kind)),
        &format!("use {known}"),
    )
}

/// Pushes the nodes on the path from the root to the wanted node, except that node, and returns whether it exists.
fn trail_to<'n>(node: &'n Node, wanted: &dyn Fn(&Node) -> bool, trail: &mut Vec<&'n Node>) -> bool {
    if wanted(node) {
        return true;
    }
    trail.push(node);
    if node.children.iter().any(|child| trail_to(child, wanted, trail)) {
        return true;
    }
    trail.pop();
    false
}

/// Returns the name in the form for a command line: lower case letters, digits and hyphens.
fn short_name(name: &str) -> String {
    let name = name.strip_suffix(".model").unwrap_or(name);
    let mut short = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            short.push(c.to_ascii_lowercase());
        } else if !short.is_empty() && !short.ends_with('-') {
            short.push('-');
        }
    }
    let short = short.trim_end_matches('-');
    if short.is_empty() { "imported".into() } else { short.into() }
}
