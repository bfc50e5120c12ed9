//! Inspections of the kernel's descriptions of disks, which are imitated in a directory.

use crate::sg::{Simulated, State, farm};
use device::{ActuatorRange, Inspection, Log, Verdict, Zoned, inspect, inspect_directory, inspect_with};
use std::fs;
use std::path::{Path, PathBuf};

/// A directory in place of /sys/block, removed with its contents when dropped.
struct Sys(PathBuf);

impl Sys {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freeblock-inspect-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    /// Writes the disk's VPD page of block device characteristics, as the kernel stores it; 0 rpm means "not
    /// reported".
    fn rate(&self, rpm: u16) {
        let [high, low] = rpm.to_be_bytes();
        let path = self.0.join("sdb/device/vpd_pgb1");
        fs::write(path, [&[0, 0xb1, 0, 0x3c, high, low][..], &[0; 58]].concat()).unwrap();
    }

    /// Describes a conventional disk of 20 TB with sectors of 4 KiB on its medium.
    fn disk(name: &str) -> Self {
        let sys = Self::new(name);
        for (file, content) in [
            ("sdb/size", "39063650304"),
            ("sdb/device/vendor", "ATA     "),
            ("sdb/device/model", "ST20000NM007D-3D"),
            ("sdb/device/queue_depth", "32"),
            ("sdb/queue/rotational", "1"),
            ("sdb/queue/zoned", "none"),
            ("sdb/queue/logical_block_size", "512"),
            ("sdb/queue/physical_block_size", "4096"),
            ("sdb/queue/discard_max_bytes", "0"),
            ("sdb/queue/write_cache", "write back"),
            ("sdb/device/wwid", "naa.5000c500db1c4a2f"),
            ("sdb/sdb1/partition", "1"),
            ("sdb/sdb1/start", "2048"),
            ("sdb/sdb1/size", "1000000"),
        ] {
            sys.file(file, content);
        }
        sys.rate(7_200);
        sys
    }

    /// Describes a disk that accepts TRIM, and that the kernel calls rotating because nothing denies it.
    fn hidden(name: &str) -> Self {
        let sys = Self::disk(name);
        fs::remove_file(sys.0.join("sdb/device/vpd_pgb1")).unwrap();
        sys.file("sdb/queue/discard_max_bytes", "2147450880");
        sys
    }

    /// Inspects a description, with commands sent to this simulated disk.
    fn ask(&self, name: &str, disk: State) -> Inspection {
        let opened = |name: &str| {
            assert_eq!(name, "sdb");
            Ok(Simulated::with(disk))
        };
        inspect_with(&self.0.join(name), opened).unwrap()
    }

    fn inspect(&self, name: &str) -> Inspection {
        inspect_directory(&self.0.join(name)).unwrap()
    }
}

impl Drop for Sys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn verdict(disk: &Inspection, property: &str) -> (String, Verdict, String) {
    let finding = disk.findings().into_iter().find(|f| f.property == property).unwrap();
    (finding.value, finding.verdict, finding.reason)
}

#[test]
fn a_conventional_disk_is_described_and_can_be_served() {
    let disk = Sys::disk("plain").inspect("sdb");
    assert_eq!((disk.disk.as_str(), disk.partition.as_deref()), ("sdb", None));
    assert_eq!(disk.model.as_deref(), Some("ATA ST20000NM007D-3D"));
    assert_eq!(disk.identity.as_deref(), Some("naa.5000c500db1c4a2f"));
    assert_eq!(
        (disk.bytes, disk.queue_depth, disk.write_cache),
        (39_063_650_304 * 512, Some(32), Some(true))
    );
    assert!(disk.can_be_served());
    let (value, verdict_of, reason) = verdict(&disk, "sectors");
    assert_eq!((value.as_str(), verdict_of), ("512 bytes on 4096", Verdict::Note));
    assert!(reason.contains("costs a revolution"), "{reason}");
    assert_eq!(verdict(&disk, "shingling").1, Verdict::Note);
    assert_eq!(verdict(&disk, "queue depth").0, "32");
}

#[test]
fn a_partition_is_described_by_its_disk() {
    let disk = Sys::disk("partition").inspect("sdb/sdb1");
    assert_eq!((disk.disk.as_str(), disk.partition.as_deref()), ("sdb", Some("sdb1")));
    assert_eq!(disk.logical_sector, Some(512));
}

#[test]
fn shingled_disks_flash_and_two_actuators_are_refused() {
    for (zoned, kind) in [("host-managed", Zoned::HostManaged), ("host-aware", Zoned::HostAware)] {
        let sys = Sys::disk(zoned);
        sys.file("sdb/queue/zoned", zoned);
        let disk = sys.inspect("sdb");
        assert_eq!(disk.zoned, kind);
        assert_eq!(verdict(&disk, "shingling").1, Verdict::Refused);
        assert!(!disk.can_be_served());
    }
    let sys = Sys::disk("drive-managed");
    sys.file("sdb/queue/discard_max_bytes", "2147450880");
    let (value, refused, _) = verdict(&sys.inspect("sdb"), "shingling");
    assert_eq!((value.as_str(), refused), ("drive-managed", Verdict::Refused));

    let sys = Sys::disk("flash");
    sys.file("sdb/queue/rotational", "0");
    sys.file("sdb/queue/discard_max_bytes", "2147450880");
    let disk = sys.inspect("sdb");
    assert_eq!(verdict(&disk, "medium").1, Verdict::Refused);
    assert_eq!(verdict(&disk, "shingling").1, Verdict::Fine);

    let sys = Sys::disk("dual");
    for (i, start) in [(1, "13672218624"), (0, "0")] {
        sys.file(&format!("sdb/queue/independent_access_ranges/{i}/sector"), start);
        sys.file(&format!("sdb/queue/independent_access_ranges/{i}/nr_sectors"), "13672218624");
    }
    let disk = sys.inspect("sdb");
    assert_eq!(disk.actuators[1], ActuatorRange { start: 13_672_218_624, sectors: 13_672_218_624 });
    let (value, refused, reason) = verdict(&disk, "actuators");
    assert_eq!((value.as_str(), refused), ("2", Verdict::Refused));
    assert!(reason.contains("13672218624 + 13672218624"), "{reason}");
    // A partition within the range of one actuator has one arm.
    let disk = sys.inspect("sdb/sdb1");
    assert_eq!(verdict(&disk, "actuators").0, "1 of 2");
    assert!(disk.can_be_served());
    sys.file("sdb/sdb1/start", "13672218000");
    assert!(!sys.inspect("sdb/sdb1").can_be_served());
}

/// Behind virtio, a loop device or the device mapper may be any drive, and TRIM may be served by a layer above
/// that drive.
#[test]
fn trim_says_nothing_of_a_disk_that_does_not_say_itself_that_it_rotates() {
    let unknown = |disk: &Inspection| {
        for property in ["medium", "shingling"] {
            let (value, note, reason) = verdict(disk, property);
            assert_eq!((value.as_str(), note), ("unknown", Verdict::Note), "{property}");
            assert!(reason.contains("virtual"), "{reason}");
        }
        assert!(disk.can_be_served());
    };
    let sys = Sys::hidden("virtio");
    fs::remove_file(sys.0.join("sdb/device/model")).unwrap();
    sys.file("sdb/device/vendor", "0x1af4");
    let disk = sys.inspect("sdb");
    unknown(&disk);
    assert_eq!(disk.model, None, "the number of a bus's vendor is no model");
    // A disk that a hypervisor emulates with SCSI commands has the page or answers the command, but reports no
    // rate.
    sys.rate(0);
    unknown(&sys.inspect("sdb"));
    unknown(&Sys::hidden("emulated").ask("sdb", State::default()));
}

/// Kernels before 5.19 do not store the page.
#[test]
fn a_disk_whose_rate_the_kernel_has_not_kept_is_asked_for_the_rate() {
    let disk = Sys::hidden("asked").ask("sdb", State { rpm: 5_425, ..State::default() });
    assert_eq!(disk.rate, units::Rpm::new(5_425));
    assert_eq!(verdict(&disk, "medium").1, Verdict::Fine);
    assert_eq!(verdict(&disk, "shingling").1, Verdict::Refused);
    // These values are no rates (SBC-4, table 229).
    for rpm in [1, 0x400, 0xffff] {
        let disk = Sys::hidden("reserved").ask("sdb", State { rpm, ..State::default() });
        assert_eq!(disk.rate, None, "{rpm}");
    }
    let sys = Sys::hidden("short");
    fs::write(sys.0.join("sdb/device/vpd_pgb1"), [0, 0xb1, 0, 0x3c, 0x1c]).unwrap();
    assert_eq!(sys.inspect("sdb").rate, None);
}

#[test]
fn a_disk_whose_log_says_that_it_is_shingled_is_refused() {
    let disk = |recording, depopulated| {
        let logs = farm(recording, depopulated);
        Sys::disk("farm").ask("sdb", State { ata: true, model: "ST8000AS0002", logs, ..State::default() })
    };
    let shingled = disk(1, 0);
    let (value, refused, reason) = verdict(&shingled, "shingling");
    assert_eq!((value.as_str(), refused), ("drive-managed", Verdict::Refused));
    assert!(reason.contains("log"), "{reason}");
    assert!(!shingled.can_be_served());
    assert_eq!(verdict(&shingled, "heads out of service").1, Verdict::Fine);

    let conventional = disk(2, 1);
    assert!(conventional.can_be_served());
    assert_eq!(verdict(&conventional, "shingling").1, Verdict::Fine);
    let (value, note, _) = verdict(&conventional, "heads out of service");
    assert_eq!((value.as_str(), note), ("some", Verdict::Note));
}

#[test]
fn a_disk_that_does_not_tell_is_unknown_and_the_reason_is_given() {
    let sys = Sys::disk("silent");
    let unknown = |disk: &Inspection, why: &str| {
        for property in ["shingling", "heads out of service"] {
            let (value, note, reason) = verdict(disk, property);
            assert_eq!((value.as_str(), note), ("unknown", Verdict::Note));
            assert!(reason.contains(why), "{reason}");
        }
        assert!(disk.can_be_served());
    };
    let other = State { ata: true, model: "WDC WD80EFAX", ..State::default() };
    unknown(&sys.ask("sdb", other), "has no log");
    let broken = State { left: Some(0), ..State::default() };
    unknown(&sys.ask("sdb", broken), "cannot be read: the kernel does not send");
    let denied = |_: &str| Err::<Simulated, _>(std::io::Error::from_raw_os_error(13));
    unknown(&inspect_with(&sys.0.join("sdb"), denied).unwrap(), "run as root");
    // Opening a device without SCSI commands fails with ENOTTY.
    let other = |_: &str| Err::<Simulated, _>(std::io::Error::from_raw_os_error(25));
    assert_eq!(inspect_with(&sys.0.join("sdb"), other).unwrap().log, Log::None);
    // A disk that does not rotate is not asked.
    sys.file("sdb/queue/rotational", "0");
    let asked = |_: &str| -> std::io::Result<Simulated> { panic!("a disk that does not rotate was asked") };
    assert_eq!(inspect_with(&sys.0.join("sdb"), asked).unwrap().log, Log::NotAsked);
}

#[test]
fn a_property_that_the_kernel_does_not_report_is_unknown() {
    let sys = Sys::new("bare");
    sys.file("vda/size", "2048");
    let disk = sys.inspect("vda");
    assert_eq!((disk.bytes, disk.rotational, disk.zoned), (1 << 20, None, Zoned::Unknown));
    for property in ["medium", "shingling", "sectors", "write cache", "queue depth", "heads out of service"] {
        assert_eq!(verdict(&disk, property).1, Verdict::Note, "{property}");
    }
}

#[test]
fn a_path_that_is_no_block_device_is_refused_with_the_mend() {
    for path in ["/dev/null", "/nonexistent/sdb", "/tmp"] {
        let error = inspect(Path::new(path)).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("/dev/sdb"), "{error}");
    }
    let error = inspect_directory(Path::new("/nonexistent/block")).unwrap_err().to_string();
    assert!(error.contains("mount sysfs"), "{error}");
}
