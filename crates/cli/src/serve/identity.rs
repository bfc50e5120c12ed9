//! The identity of a disk without a serial number, which the journal of its tasks keeps.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the path of a disk without a serial number. For a file the inode is added, because another file may take its name.
pub(super) fn place(path: &Path) -> Option<String> {
    let (path, found) = (std::path::absolute(path).ok()?, std::fs::metadata(path).ok()?);
    let place = path.display();
    Some(if found.is_file() { format!("{place} (inode {})", found.ino()) } else { place.to_string() })
}
