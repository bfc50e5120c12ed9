//! The `base:allocation` of a file with holes.

use crate::serve::{PROFILE, has, start, works};
use crate::support::Dir;
use std::os::unix::fs::FileExt;

/// Returns the extents of a disk from `nbdinfo --map`: offset, length, whether it is a hole.
fn extents(socket: &str) -> Vec<(u64, u64, bool)> {
    let map = works("nbdinfo", &["--map", &format!("nbd+unix:///?socket={socket}")]);
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].parse().unwrap(), words[1].parse().unwrap(), words[3].contains("hole"))
    };
    map.lines().map(one).collect()
}

#[test]
fn block_status_reports_the_holes_of_a_file() {
    if !has("nbdinfo") {
        return;
    }
    let dir = Dir::new();
    let raw = dir.path("raw");
    let file = std::fs::File::create(&raw).unwrap();
    file.set_len(8 << 20).unwrap();
    file.write_all_at(&[7; 1 << 20], 2 << 20).unwrap();
    // A file system without holes reports none.
    let sparse = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) < (8 << 20) / 512;
    drop(file);
    let [plain, emulated] = ["plain.sock", "emulated.sock"].map(|name| dir.path(name));
    let config = format!(
        "[[disk]]\nname = \"plain\"\ndevice = \"{raw}\"\nbuffered = true\nlisten = [\"unix:{plain}\"]\n\
         [[disk]]\nname = \"emulated\"\ndevice = \"emulated:{},file={}\"\nlisten = [\"unix:{emulated}\"]\n",
        dir.file("small.toml", PROFILE),
        dir.path("image"),
    );
    let Some(daemon) = start(&["--config", &dir.file("f.toml", &config), "--json"], 2) else { return };
    if sparse {
        let (mb, holes) = (1 << 20, extents(&plain));
        assert_eq!(holes, [(0, 2 * mb, true), (2 * mb, mb, false), (3 * mb, 5 * mb, true)]);
        assert!(extents(&emulated).iter().all(|(_, _, hole)| *hole), "nothing was written");
        if has("nbdcopy") {
            let first = dir.path("first");
            std::fs::write(&first, [7; 1 << 16]).unwrap();
            works("nbdcopy", &[&first, &format!("nbd+unix:///?socket={emulated}")]);
            let now = extents(&emulated);
            assert!(!now[0].2 && now[0].1 >= 1 << 16 && now.last().unwrap().2, "{now:?}");
        }
    } else {
        testing::missing("a file system with holes");
    }
    daemon.end();
}
