//! Finds the holes of a file.

use crate::block::Run;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::os::fd::AsFd;
use units::{Bytes, LbnRange, Sectors};

/// The most runs that one call returns; the caller asks again for the rest.
const RUNS_MAX: usize = 1024;

/// Returns the runs of a range in a file that holds the device from its first sector on. A sector with any
/// allocated byte counts as allocated. If the file system does not report holes, all sectors count as allocated.
pub(crate) fn runs(file: impl AsFd, range: LbnRange, sector: Bytes) -> Vec<Run> {
    let (mut at, end) = (range.start().get(), range.end().get());
    let mut runs = Vec::new();
    while at < end && runs.len() < RUNS_MAX {
        let data = match seek(&file, SeekFrom::Data(at * sector.get())) {
            Ok(byte) => (byte / sector.get()).clamp(at, end),
            Err(Errno::NXIO) => end,
            Err(_) => at,
        };
        if data > at {
            runs.push(Run { len: Sectors::new(data - at), hole: true });
            at = data;
            continue;
        }
        let hole = match seek(&file, SeekFrom::Hole(at * sector.get())) {
            Ok(byte) => byte.div_ceil(sector.get()).clamp(at + 1, end),
            Err(_) => end,
        };
        runs.push(Run { len: Sectors::new(hole - at), hole: false });
        at = hole;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use units::Lbn;

    #[test]
    fn holes_are_found_and_every_sector_is_in_one_run() {
        let path = std::env::temp_dir().join(format!("freeblock-holes-{}", std::process::id()));
        let file =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(1 << 20).unwrap();
        // The data are larger than a block of any file system.
        file.write_all_at(&[1; 1 << 16], 1 << 18).unwrap();
        let runs =
            |start, len| runs(&file, LbnRange::new(Lbn::new(start), Sectors::new(len)), Bytes::new(512));
        let whole = runs(0, 2048);
        assert_eq!(whole.iter().map(|run| run.len.get()).sum::<u64>(), 2048);
        let data: u64 = whole.iter().filter(|run| !run.hole).map(|run| run.len.get()).sum();
        assert!(data >= 128, "written bytes are no hole: {whole:?}");
        assert!(runs(512, 128).iter().all(|run| !run.hole));
        assert_eq!(runs(520, 5), [Run { len: Sectors::new(5), hole: false }]);
        assert_eq!(runs(7, 0), []);
    }
}
