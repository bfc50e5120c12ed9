use super::*;
use crate::task::spec::{TaskKind, TaskSpec};
use std::os::unix::fs::symlink;

/// A directory with a target, a state directory, a disk, and files that no task may access.
struct PlacesDirectory(PathBuf);

impl PlacesDirectory {
    fn new(name: &str) -> Self {
        let room = std::env::temp_dir().join(format!("freeblock-places-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&room);
        for directory in ["target/inner", "state/d0", "outside"] {
            fs::create_dir_all(room.join(directory)).unwrap();
        }
        for file in ["state/d0/tasks.journal", "disk", "config", "outside/secret", "target/old"] {
            fs::write(room.join(file), file).unwrap();
        }
        Self(room)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn places(&self, targets: Option<&[&str]>) -> Places {
        let places = Places::new(targets.map(|all| all.iter().map(|path| self.at(path)).collect()));
        places.keep_state(&self.at("state"));
        places.keep([self.at("disk"), self.at("config")]);
        places
    }
}

impl Drop for PlacesDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns why a file is refused, after looking it up by `openat2` and step by step with the same
/// result.
fn refused(places: &Places, path: &Path, how: How) -> String {
    let [why, other] = [Beneath::Best, Beneath::Steps].map(|beneath| {
        let error = places.open_by(path, how, beneath).err();
        let error = error.unwrap_or_else(|| panic!("{} was opened", path.display()));
        assert!(is_denied(&error), "{}: {error}", path.display());
        error.to_string()
    });
    assert_eq!(why, other, "both ways are as strict");
    why
}

const ALL: [How; 3] = [How::Read, How::Write, How::Make];

#[test]
fn no_link_leads_out_of_a_target() {
    let room = PlacesDirectory::new("links");
    let places = room.places(Some(&["target"]));
    symlink(room.at("outside"), room.at("target/away")).unwrap();
    symlink("../../outside", room.at("target/inner/up")).unwrap();
    symlink(room.at("outside/secret"), room.at("target/secret")).unwrap();
    symlink(room.at("outside/new"), room.at("target/new")).unwrap();
    symlink("old", room.at("target/harmless")).unwrap();
    for way in ["away/secret", "away/new", "inner/up/secret", "secret", "new", "harmless"] {
        for how in ALL {
            let why = refused(&places, &room.at("target").join(way), how);
            assert!(why.contains("link"), "{way}: {why}");
        }
    }
    assert!(!room.at("outside/new").exists());
    assert_eq!(fs::read(room.at("outside/secret")).unwrap(), b"outside/secret");
}

#[test]
fn nothing_outside_of_the_targets_is_opened() {
    let room = PlacesDirectory::new("outside");
    let places = room.places(Some(&["target"]));
    for way in [
        "outside/secret",
        "outside/new",
        "target",
        "targets",
        "target/../outside/secret",
        "target/inner/../../outside/new",
    ] {
        for how in ALL {
            refused(&places, &room.at(way), how);
        }
    }
    for how in ALL {
        refused(&places, Path::new("/"), how);
        refused(&places, Path::new("relative"), how);
    }
    assert!(!room.at("outside/new").exists());
    let none = room.places(Some(&[]));
    refused(&none, &room.at("target/old"), How::Read);
}

#[test]
fn files_in_targets_are_made_written_and_read_and_are_the_daemons_alone() {
    use std::os::unix::fs::PermissionsExt;
    let room = PlacesDirectory::new("inside");
    for places in [room.places(Some(&["target"])), room.places(None)] {
        for (n, beneath) in [Beneath::Best, Beneath::Steps].into_iter().enumerate() {
            let path = room.at(&format!("target/inner/new-{n}"));
            assert!(
                places
                    .open_by(&path, How::Write, beneath)
                    .is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
            );
            let mut file = places.open_by(&path, How::Make, beneath).unwrap();
            file.write_at(0, b"bytes").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let mut again = places.open_by(&path, How::Make, beneath).unwrap();
            assert_eq!(again.len().unwrap(), 5, "the bytes in the file are not cut");
            let mut read = [0; 5];
            places.open_by(&path, How::Read, beneath).unwrap().read_at(0, &mut read).unwrap();
            assert_eq!(&read, b"bytes");
            places.remove(&path).unwrap();
            assert!(!path.exists());
        }
    }
}

#[test]
fn the_state_directory_is_never_touched_whatever_is_a_target_and_however_it_is_called() {
    let room = PlacesDirectory::new("state");
    fs::hard_link(room.at("state/d0/tasks.journal"), room.at("target/journal")).unwrap();
    symlink(room.at("state"), room.at("by-link")).unwrap();
    for targets in [None, Some(&["."][..]), Some(&["state", "target", "by-link"][..])] {
        let places = room.places(targets);
        for way in ["state/d0/tasks.journal", "state/d0/new", "state/new", "target/journal"] {
            for how in ALL {
                let why = refused(&places, &room.at(way), how);
                assert!(why.contains("state directory"), "{way}: {why}");
            }
        }
        assert!(!room.at("state/new").exists() && !room.at("state/d0/new").exists());
    }
    let why = refused(&room.places(None), &room.at("by-link/d0/tasks.journal"), How::Write);
    assert!(why.contains("state directory"), "{why}");
    let why = refused(&room.places(Some(&["by-link"])), &room.at("by-link/new"), How::Make);
    assert!(why.contains("state directory"), "{why}");
}

#[test]
fn a_served_disk_and_the_daemons_own_files_are_never_touched_not_by_another_name_either() {
    let room = PlacesDirectory::new("own");
    for own in ["disk", "config"] {
        fs::hard_link(room.at(own), room.at(&format!("target/{own}"))).unwrap();
        symlink(room.at(own), room.at(&format!("{own}-link"))).unwrap();
    }
    let places = room.places(Some(&["target", "disk"]));
    for way in ["target/disk", "target/config", "disk"] {
        for how in ALL {
            let why = refused(&places, &room.at(way), how);
            assert!(why.contains("a served disk"), "{way}: {why}");
        }
    }
    let anywhere = room.places(None);
    for way in ["target/disk", "disk", "disk-link", "config-link", "config"] {
        let why = refused(&anywhere, &room.at(way), How::Write);
        assert!(why.contains("a served disk"), "{way}: {why}");
    }
}

#[test]
fn other_kinds_of_files_are_refused_and_a_pipe_does_not_block() {
    let room = PlacesDirectory::new("kinds");
    let pipe = room.at("target/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    std::os::unix::net::UnixListener::bind(room.at("target/socket")).unwrap();
    for places in [room.places(Some(&["target"])), room.places(None)] {
        for way in ["target/pipe", "target/socket", "target/inner"] {
            for how in ALL {
                refused(&places, &room.at(way), how);
            }
        }
    }
    for how in ALL {
        refused(&room.places(None), Path::new("/dev/null"), how);
        refused(&Places::new(Some(vec!["/dev".into()])), Path::new("/dev/zero"), how);
    }
}

/// Making a loop device needs root.
#[test]
fn a_device_that_is_in_use_is_refused() {
    use std::process::Command;
    let room = PlacesDirectory::new("device");
    fs::write(room.at("bytes"), vec![0; 1 << 20]).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(room.at("bytes")).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return testing::missing("a loop device (losetup and root)");
    };
    let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let places = Places::new(Some(vec!["/dev".into()]));
    let opened = places.open(&device, How::Write).map(|mut file| file.is_device().unwrap());
    let held = openat(rustix::fs::CWD, &device, OFlags::RDWR | OFlags::EXCL, Mode::empty()).unwrap();
    let busy = places.open(&device, How::Write).err().map(|error| error.kind());
    let read = refused(&places, &device, How::Read);
    drop(held);
    places.keep([device.clone()]);
    let own = refused(&places, &device, How::Write);
    Command::new("losetup").arg("--detach").arg(&device).status().unwrap();
    assert!(opened.unwrap());
    assert_eq!(busy, Some(io::ErrorKind::ResourceBusy));
    assert!(read.contains("the path is a device") && own.contains("a served disk"), "{read}; {own}");
}

#[test]
fn a_task_is_refused_by_the_first_field_that_names_another_place() {
    let spec = |json: &str| serde_json::from_str::<TaskSpec>(json).unwrap();
    let places = Places::new(Some(vec!["/backup".into(), "/srv/images".into()]));
    let anywhere = Places::default();
    for (json, said) in [
        (
            r#"{"kind":"backup","to":"/root/x"}"#,
            "to: /root/x; give a path in /backup or /srv/images (`targets` of the configuration)",
        ),
        (r#"{"kind":"backup","to":"/backup/x","since":["/backup/a","/backups/b"]}"#, "since: /backups/b; "),
        (r#"{"kind":"restore","from":["/backup/../etc/shadow"]}"#, "from: /backup/../etc/shadow; "),
        (r#"{"kind":"reorganize","plan":"/etc/shadow"}"#, "plan: /etc/shadow; "),
        (r#"{"kind":"scrub","checksums":"/var"}"#, "checksums: /var; "),
    ] {
        let spec = spec(json);
        assert!(spec.names_files());
        let why = spec.check_places(&places).unwrap_err().to_string();
        assert!(why.starts_with(said), "{why}");
        spec.check_places(&anywhere).unwrap();
    }
    spec(r#"{"kind":"backup","to":"/backup/x","since":["/srv/images/a/b"]}"#).check_places(&places).unwrap();
    assert!(!TaskSpec::new(TaskKind::Scrub).names_files());
    anywhere.set_targets(Some(Vec::new()));
    let why = spec(r#"{"kind":"backup","to":"/x"}"#).check_places(&anywhere).unwrap_err().to_string();
    assert!(why.contains("names no directory"), "{why}");
}

#[test]
fn a_file_that_is_claimed_is_claimed_under_every_name_until_it_is_closed() {
    for targets in [None, Some(["target", "outside"])] {
        let room = PlacesDirectory::new(if targets.is_some() { "claims-in-targets" } else { "claims" });
        let targets = targets.as_ref().map(|all| &all[..]);
        fs::hard_link(room.at("target/old"), room.at("outside/linked")).unwrap();
        // The places of two disks of one daemon, or of two daemons.
        let (mine, others) = (room.places(targets), room.places(targets));
        for name in ["target/old", "outside/linked"] {
            for (first, second, refused) in [
                (Lock::Alone, Lock::Alone, true),
                (Lock::Alone, Lock::Shared, true),
                (Lock::Shared, Lock::Alone, true),
                (Lock::Shared, Lock::Shared, false),
            ] {
                let held = mine.claim(&room.at("target/old"), How::Write, first).unwrap();
                for how in ALL {
                    let reported = others.claim(&room.at(name), how, second);
                    assert_eq!(reported.is_err(), refused, "{first:?}, then {second:?} of {name}");
                    let busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
                    assert!(reported.err().as_ref().is_none_or(busy));
                }
                drop(held);
                assert!(others.claim(&room.at(name), How::Write, Lock::Alone).is_ok());
            }
        }
        let mut held = mine.claim(&room.at("target/old"), How::Write, Lock::Alone).unwrap();
        let named = |path: &str| mine.identity(&room.at(path)).unwrap();
        let held = held.identity().unwrap();
        assert_eq!((named("target/old"), named("outside/linked")), (Some(held), Some(held)));
        fs::rename(room.at("outside/secret"), room.at("target/old")).unwrap();
        assert!(named("target/old").is_some_and(|other| other != held));
        fs::remove_file(room.at("target/old")).unwrap();
        assert_eq!(named("target/old"), None);
    }
}

/// After each SIGHUP the daemon names its own files again.
#[test]
fn files_of_the_daemon_that_are_named_again_are_kept_once() {
    let room = PlacesDirectory::new("again");
    let places = room.places(None);
    for _ in 0..3 {
        places.keep([room.at("config"), room.at("disk"), room.at("old")]);
    }
    assert_eq!(places.rules().own, [room.at("disk"), room.at("config"), room.at("old")]);
}
