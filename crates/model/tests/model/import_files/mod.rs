//! Small parameter files in memory, for the tests of the import.

#![allow(dead_code)] // not every test module uses all of it

use freeblock_model::disksim::{ImportError, Imported, import_from};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The contents of files by name.
#[derive(Clone, Default)]
pub struct Memory(BTreeMap<String, Vec<u8>>);

impl Memory {
    /// Adds a file.
    pub fn with(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.0.insert(name.into(), content.as_ref().to_vec());
        self
    }

    /// Returns the content of the file of this name.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.0[name]).into_owned()
    }

    /// Imports the file of this name.
    pub fn import(&self, name: &str) -> Result<Imported, ImportError> {
        self.import_disk(name, None)
    }

    /// Imports one disk of the file of this name.
    pub fn import_disk(&self, name: &str, disk: Option<&str>) -> Result<Imported, ImportError> {
        let read = |path: &Path| -> io::Result<Vec<u8>> {
            let name = path.to_str().unwrap_or_default();
            self.0.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        import_from(&read, Path::new(name), disk)
    }
}

/// A `dm_mech_g1` block whose seek curve is in the file `a.seek`.
pub const MECHANICS: &str = "dm_mech_g1 {
    Access time type = trackSwitchPlusRotation, Seek type = extracted, Full seek curve = a.seek,
    Add. write settling delay = -0.25, Head switch time = 0.5, Rotation speed (in rpms) = 6000
}";

/// The content of a file of three seek times, with irregular spacing.
pub const CURVE: &str = "Seek distances measured: 3\n1,\t1.5\n4, 2.5, 0.1\n\n9, 4e0\n";

/// Returns the file `a.model` with a drive of 10 cylinders, 2 surfaces and this layout, and the file `a.seek`.
pub fn model(layout: &str) -> Memory {
    Memory::default()
        .with(
            "a.model",
            format!(
                "dm_disk A.model {{ Number of data surfaces = 2, Number of cylinders = 10, Block count = 1,
                Layout Model = {layout},
                Mechanical Model = {MECHANICS} }}"
            ),
        )
        .with("a.seek", CURVE)
}

/// Returns a `dm_layout_g1` block with one zone of 10 cylinders and 10 sectors per track. `mapping` and `sparing` are the
/// numbers of DiskSim's schemes.
pub fn g1(mapping: u32, sparing: u32, zone_extra: &str) -> String {
    format!(
        "dm_layout_g1 {{ LBN-to-PBN mapping scheme = {mapping}, Sparing scheme used = {sparing},
        Rangesize for sparing = 3,
        Zones = [ dm_layout_g1_zone {{ First cylinder number = 0, Last cylinder number = 9,
        Blocks per track = 10, Skew for track switch = 2.9, Skew for cylinder switch = 3 {zone_extra} }} ] }}"
    )
}
