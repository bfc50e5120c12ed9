//! Disks and files of this machine's kernel: a file, and loop devices if this process may make them.

use device::{Answer, Ask, Device, Failure, OpenError, Options, Raw, Ring, User};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use units::{Instant, Lbn, LbnRange, Sectors};

const BYTES: usize = 1 << 20;

/// A file of a megabyte in a directory of its own, which is removed when this is dropped.
struct Image {
    dir: PathBuf,
    path: PathBuf,
}

impl Image {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("freeblock-raw-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("image");
        std::fs::write(&path, pattern(1)).unwrap();
        Self { dir, path }
    }

    fn open(&self) -> Raw {
        Raw::open(&self.path, Options { buffered: true, ..Options::default() }).unwrap()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A loop device over an image, which is detached when this is dropped.
struct Loop {
    path: PathBuf,
    _image: Image,
}

impl Loop {
    /// Makes a loop device. Returns `None` if this process may not.
    fn new(test: &str, sector: u32) -> Option<Self> {
        let image = Image::new(test);
        let sector = format!("--sector-size={sector}");
        let attached = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=off", &sector])
            .arg(&image.path)
            .output()
            .ok()
            .filter(|output| output.status.success());
        let Some(output) = attached else {
            testing::missing("a loop device (losetup, root and a kernel with loop devices)");
            return None;
        };
        Some(Self { path: String::from_utf8(output.stdout).unwrap().trim().into(), _image: image })
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..BYTES).map(|at| (at / 512 * 31 + at % 509 + seed) as u8).collect()
}

fn ring() -> Option<Ring> {
    Ring::new().inspect_err(|error| testing::missing(&format!("io_uring ({error})"))).ok()
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Submits all requests at once, and runs them to their answers on the ring.
fn run(
    ring: &mut Ring,
    disk: &mut Raw,
    asks: Vec<(LbnRange, Ask)>,
) -> BTreeMap<u64, Result<Vec<u8>, Failure>> {
    for (id, (range, ask)) in (0..).zip(asks) {
        disk.ask(Instant::ZERO, id, range, ask);
    }
    let (mut names, mut answers) = (BTreeMap::new(), BTreeMap::new());
    loop {
        while let Some(Answer { id, result, .. }) = disk.poll(Instant::ZERO) {
            assert!(answers.insert(id, result).is_none(), "answered twice");
        }
        while let Some((name, work)) = disk.next_work() {
            names.insert(ring.start(work).unwrap(), name);
        }
        if names.is_empty() {
            return answers;
        }
        ring.wait(None).unwrap();
        while let Some(ended) = ring.next_ended() {
            disk.ended(Instant::ZERO, names.remove(&ended.token).unwrap(), ended);
        }
    }
}

fn one(ring: &mut Ring, disk: &mut Raw, range: LbnRange, ask: Ask) -> Result<Vec<u8>, Failure> {
    run(ring, disk, vec![(range, ask)]).remove(&0).unwrap()
}

/// Writes, zeroes and discards anywhere on the disk, and compares what is read with an array.
fn is_an_array(disk: &mut Raw, asks: &[(u64, u64, u8)]) {
    let Some(mut ring) = ring() else { return };
    let sector = disk.sector_bytes().get();
    let sectors = disk.size().get() / sector;
    let mut array = one(&mut ring, disk, range(0, sectors), Ask::Read).unwrap();
    assert_eq!(array.len(), BYTES);
    for (fill, (start, len, kind)) in (1..).zip(asks) {
        let start = start % sectors;
        let len = (len % 64 + 1).min(sectors - start);
        let bytes = (start * sector) as usize..((start + len) * sector) as usize;
        let through = fill & 1 == 0;
        let (ask, after) = match kind {
            0 => (Ask::Write { bytes: vec![fill; bytes.len()], through }, Some(fill)),
            1 => (Ask::WriteZeroes { through, keep: true }, Some(0)),
            2 => (Ask::WriteZeroes { through, keep: false }, Some(0)),
            3 => (Ask::Discard, None),
            _ => (Ask::Flush, Some(fill)),
        };
        let flush = ask == Ask::Flush;
        assert!(one(&mut ring, disk, range(start, len), ask).unwrap().is_empty());
        match after {
            _ if flush => {}
            Some(fill) => array[bytes].fill(fill),
            // The content of a discarded range is undefined, so the array takes what the disk has.
            None => {
                let now = one(&mut ring, disk, range(start, len), Ask::Read).unwrap();
                array[bytes].copy_from_slice(&now);
            }
        }
    }
    assert!(one(&mut ring, disk, range(0, sectors), Ask::Read).unwrap() == array);
    // Reads the disk again, as many single sectors at once.
    let asks = (0..sectors).map(|at| (range(at, 1), Ask::Read)).collect();
    let read: Vec<u8> = run(&mut ring, disk, asks).into_values().flat_map(Result::unwrap).collect();
    assert!(read == array);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_file_is_an_array(asks in prop::collection::vec((any::<u64>(), any::<u64>(), 0..5u8), 0..30)) {
        let image = Image::new("array");
        is_an_array(&mut image.open(), &asks);
    }
}

/// The operations of a file in memory are executed without the ring.
#[test]
fn a_file_in_memory_is_an_array() {
    let path = PathBuf::from(format!("/dev/shm/freeblock-raw-{}", std::process::id()));
    if std::fs::write(&path, pattern(1)).is_err() {
        testing::missing("/dev/shm");
        return;
    }
    let mut disk = Raw::open(&path, Options { buffered: true, ..Options::default() }).unwrap();
    std::fs::remove_file(&path).unwrap();
    let asks: Vec<_> = (0..40).map(|i| (i * 97, i * 13, (i % 5) as u8)).collect();
    is_an_array(&mut disk, &asks);
    disk.ask(Instant::ZERO, 1, range(0, 1), Ask::Read);
    assert!(disk.next_work().is_none() && disk.poll(Instant::ZERO).is_some());
}

#[test]
fn a_loop_device_of_any_sector_is_an_array() {
    for sector in [512, 4096] {
        let Some(device) = Loop::new(&format!("loop-{sector}"), sector) else { return };
        let mut disk = Raw::open(&device.path, Options::default()).unwrap();
        assert!(disk.is_block_device() && disk.is_direct());
        assert_eq!((disk.sector_bytes().get(), disk.size().get()), (u64::from(sector), BYTES as u64));
        assert!(disk.physical_sector_bytes() >= disk.sector_bytes());
        let asks: Vec<_> = (0..40).map(|i| (i * 97, i * 13, (i % 5) as u8)).collect();
        is_an_array(&mut disk, &asks);
    }
}

#[test]
fn a_discard_on_a_loop_device_makes_a_hole_in_its_file() {
    let Some(device) = Loop::new("discard", 512) else { return };
    let Some(mut ring) = ring() else { return };
    let image = device._image.path.clone();
    let blocks = || std::fs::metadata(&image).unwrap().blocks();
    let mut disk = Raw::open(&device.path, Options::default()).unwrap();
    let before = blocks();
    if !disk.abilities().discard {
        testing::missing("discard in the kernel's loop devices");
        return;
    }
    one(&mut ring, &mut disk, range(0, 1024), Ask::Discard).unwrap();
    one(&mut ring, &mut disk, range(0, 0), Ask::Flush).unwrap();
    // Discarding needs Linux 6.12; an older kernel does nothing.
    let forgotten =
        one(&mut ring, &mut disk, range(0, 1024), Ask::Read).unwrap().iter().all(|byte| *byte == 0);
    assert!(!forgotten || blocks() < before, "{} blocks of {before}", blocks());
    let rest = one(&mut ring, &mut disk, range(1024, 1024), Ask::Read).unwrap();
    assert!(rest == pattern(1)[1024 * 512..], "the rest is as it was");
}

#[test]
fn a_mounted_device_is_refused_with_the_mount() {
    let Some(device) = Loop::new("mounted", 512) else { return };
    let at = device._image.dir.join("mount point");
    std::fs::create_dir(&at).unwrap();
    let done = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|o| o.status.success())
    };
    if !done("mkfs.ext4", &["-q", "-F", device.name()])
        || !done("mount", &[device.name(), at.to_str().unwrap()])
    {
        testing::missing("mkfs.ext4 and mount");
        return;
    }
    let refused = Raw::open(&device.path, Options::default());
    let read_only = Raw::open(&device.path, Options { read_only: true, ..Options::default() });
    let file = Raw::open(&device._image.path, Options::default());
    assert!(done("umount", &[at.to_str().unwrap()]));
    for refused in [refused, read_only] {
        let Err(OpenError::InUse { user: User::Mount { device: found, at: found_at }, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((found.as_str(), found_at), (device.name(), at.canonicalize().unwrap()));
    }
    let Err(OpenError::InUse { user: User::Loop { device: found }, .. }) = file else { panic!("{file:?}") };
    assert_eq!(found, device.name(), "nor the file below it");
    Raw::open(&device.path, Options::default()).unwrap();
}

#[test]
fn a_device_is_opened_once() {
    let image = Image::new("once");
    let first = image.open();
    let message =
        Raw::open(&image.path, Options { buffered: true, ..Options::default() }).unwrap_err().to_string();
    assert!(message.contains("locked by another program"), "{message}");
    drop(first);
    drop(image.open());
    let Some(device) = Loop::new("once-loop", 512) else { return };
    let _first = Raw::open(&device.path, Options::default()).unwrap();
    let again = Raw::open(&device.path, Options::default());
    assert!(matches!(again, Err(OpenError::InUse { user: User::Unknown, .. })), "{again:?}");
}

#[test]
fn a_path_that_is_no_disk_is_refused() {
    let image = Image::new("refused");
    let open = |path: &Path| Raw::open(path, Options { buffered: true, ..Options::default() }).unwrap_err();
    assert!(matches!(open(&image.dir), OpenError::Kind { .. }));
    assert!(matches!(open(Path::new("/dev/null")), OpenError::Kind { .. }));
    assert!(matches!(open(&image.dir.join("nothing")), OpenError::System { .. }));
    std::fs::write(&image.path, [0; 1000]).unwrap();
    let error = open(&image.path);
    assert!(matches!(error, OpenError::Size { size: 1000, .. }), "{error}");
    std::fs::write(&image.path, []).unwrap();
    assert!(open(&image.path).to_string().contains("truncate -s"));
}

#[test]
fn a_read_only_disk_is_not_changed() {
    let Some(mut ring) = ring() else { return };
    let image = Image::new("read-only");
    let mut disk = Raw::open(&image.path, Options { read_only: true, buffered: true }).unwrap();
    for ask in [
        Ask::Write { bytes: vec![0; disk.sector_bytes().get() as usize], through: false },
        Ask::WriteZeroes { through: false, keep: false },
        Ask::Discard,
    ] {
        assert!(matches!(one(&mut ring, &mut disk, range(0, 1), ask), Err(Failure::Unsupported(_))));
    }
    assert!(std::fs::read(&image.path).unwrap() == pattern(1));
}

#[test]
fn a_disk_that_has_become_smaller_says_so() {
    let Some(mut ring) = ring() else { return };
    let image = Image::new("smaller");
    let mut disk = image.open();
    std::fs::File::options().write(true).open(&image.path).unwrap().set_len(BYTES as u64 / 2).unwrap();
    let sectors = disk.size().get() / disk.sector_bytes().get();
    let failure = one(&mut ring, &mut disk, range(sectors / 2 - 8, 16), Ask::Read).unwrap_err();
    assert!(failure.to_string().contains("smaller"), "{failure}");
}
