//! Reads the configuration again while its disks are served: applies the options that can change, and logs those that cannot.

use super::args::ServeArgs;
use super::config::Config;
use super::disk_config::DiskConfig;
use super::ending::Ending;
use super::open::ServedDisk;
use crate::emulate::Lines;
use crate::problem::Problem;
use server::control::Control;
use server::files::Places;
use server::{ExportUpdate, Mailbox, Moment};
use std::sync::Weak;
use tracing::{error, info, warn};

/// The parts of the running daemon to which a configuration is applied.
pub(super) struct Reload {
    pub(super) args: ServeArgs,
    /// The configuration in force.
    pub(super) config: Config,
    /// The disks by their names.
    pub(super) disks: Vec<(String, Mailbox<ServedDisk>)>,
    pub(super) control: Weak<Control>,
    pub(super) places: Places,
    pub(super) ending: Ending,
    pub(super) lines: Lines,
}

impl Reload {
    /// Reads the configuration again and applies it. If it has a mistake, changes nothing.
    pub(super) fn again(&mut self) {
        super::tell(Moment::Reloading);
        match self.read() {
            Ok(new) => self.apply(new),
            Err(problem) => error!("the configuration is left as it was: {problem}"),
        }
        super::tell(Moment::Ready);
    }

    fn read(&self) -> Result<Config, Problem> {
        let file = self.args.config.as_deref();
        // A pipe may have no end, and while the daemon reads, it would take no signal.
        if let Some(path) = file.filter(|path| std::fs::metadata(path).is_ok_and(|found| !found.is_file())) {
            return Err(Problem::failed(format!("{} is not a regular file", path.display()))
                .help("put the configuration into a file"));
        }
        Config::new(&self.args)
    }

    fn apply(&mut self, new: Config) {
        self.lines.set(new.log);
        for why in unusable(&new) {
            error!("the daemon would not start with this configuration; mend it before a restart: {why}");
        }
        for option in fixed(&self.config, &new) {
            warn!(option, "the option has changed, and is read at the start only; restart the daemon for it");
        }
        if let Some(control) = self.control.upgrade() {
            control.set_roles(new.control_roles.clone());
        }
        self.ending.set_drain(new.limits.drain);
        self.places.set_targets(new.targets.clone());
        self.places.keep(new.own.iter().cloned());
        for (_, mailbox) in &self.disks {
            let places = self.places.clone();
            // A disk that does not answer has no tasks that could continue.
            let _ = mailbox.offer(move |disk, now| {
                disk.call(now, |manager, _| manager.warn_of_tasks_outside(&places));
            });
        }
        for (name, mailbox) in &self.disks {
            let Some(disk) = new.disks.iter().find(|disk| disk.name == *name) else { continue };
            if !is_reached_as_before(&self.config, disk) {
                warn!(
                    disk = name,
                    "limits and encryption are left as they were, because `listen` has changed and is read at the start only: \
                     restart the daemon"
                );
                continue;
            }
            // If the server of a disk has ended, the daemon ends, too.
            let _ = mailbox.update(ExportUpdate { limits: new.limits, tls: disk.tls.clone() });
        }
        info!(
            "the configuration is read again: limits, roles, targets, certificates of disks and the log's level are as it says"
        );
    }
}

/// Returns why a restart with this configuration would fail, as far as options that are read at the start only are concerned.
fn unusable(new: &Config) -> Vec<Problem> {
    let page = new.web.as_ref().and_then(|web| web.read().err());
    let page = page.map(|problem| new.places.underline("web", problem));
    page.into_iter().chain(super::check_handed_over(new).err()).collect()
}

/// Returns whether a disk keeps the addresses at which it is served: a new encryption setting was checked for the new addresses
/// only.
fn is_reached_as_before(served: &Config, disk: &DiskConfig) -> bool {
    served.disks.iter().any(|old| old.name == disk.name && old.listen == disk.listen)
}

/// Returns the options that differ, of those that the daemon reads at its start only.
fn fixed(old: &Config, new: &Config) -> Vec<String> {
    let mut changed = Vec::new();
    let mut differs = |option: &str, differs: bool| {
        if differs {
            changed.push(option.to_owned());
        }
    };
    differs("state", old.state != new.state);
    differs("control", old.control != new.control);
    differs("web, or a file that it names", old.web != new.web);
    differs("lock_memory", old.lock_memory != new.lock_memory);
    differs("keep", old.keep_bytes_max != new.keep_bytes_max);
    differs("tasks_at_once", old.tasks_at_once != new.tasks_at_once);
    differs("comparison_memory", old.comparison_memory != new.comparison_memory);
    differs("background_memory", old.background_memory != new.background_memory);
    differs("limits.partial_blocks", old.partial_blocks != new.partial_blocks);
    for disk in &old.disks {
        match new.disks.iter().find(|other| other.name == disk.name) {
            Some(other) => changed.extend(of_disk(disk, other)),
            None => changed.push(format!("disk {}: the disk is gone", disk.name)),
        }
    }
    let added = new.disks.iter().filter(|disk| old.disks.iter().all(|other| other.name != disk.name));
    changed.extend(added.map(|disk| format!("disk {}: the disk is new", disk.name)));
    changed
}

fn of_disk(old: &DiskConfig, new: &DiskConfig) -> Vec<String> {
    let all = old.fixed().into_iter().zip(new.fixed());
    let changed = all.filter(|((_, old), (_, new))| old != new);
    changed.map(|((option, _), _)| format!("disk {}: {option}", old.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(top: &str, disk: &str) -> Config {
        let text = format!("{top}[[disk]]\nname = \"a\"\ndevice = \"x\"\nlisten = [\"unix:/s\"]\n{disk}");
        Config::from_toml(&text, "f.toml").unwrap()
    }

    #[test]
    fn only_options_that_need_a_restart_are_named() {
        let old = config("", "");
        assert_eq!(
            fixed(&old, &config("log = \"debug\"\ntargets = [\"/b\"]\n[limits]\nclients = 5\n", "")),
            [""; 0]
        );
        let new = config(
            "keep = \"2GiB\"\ntasks_at_once = 3\ncomparison_memory = \"2GiB\"\nbackground_memory = \"2GiB\"\n[web]\nlisten = \"127.0.0.1:8080\"\n[limits]\npartial_blocks = 7\n",
            "policy = \"fcfs\"\ntimeout_s = 5\n",
        );
        assert_eq!(
            fixed(&old, &new),
            [
                "web, or a file that it names",
                "keep",
                "tasks_at_once",
                "comparison_memory",
                "background_memory",
                "limits.partial_blocks",
                "disk a: policy",
                "disk a: timeout_s"
            ]
        );
        let other = "[[disk]]\nname = \"b\"\ndevice = \"y\"\nlisten = [\"unix:/t\"]\n";
        let both = config("", other);
        assert_eq!(fixed(&old, &both), ["disk b: the disk is new"]);
        assert_eq!(fixed(&both, &old), ["disk b: the disk is gone"]);
    }

    /// A password that became known is replaced in the same file, so that the file's name does not change.
    #[test]
    fn a_changed_file_of_the_page_is_named() {
        let directory = std::env::temp_dir().join(format!("freeblock-reload-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for option in ["token", "certificate", "key"] {
            let path = directory.join(option);
            let config = || config(&format!("[web]\nlisten = \"127.0.0.1:8080\"\n{option} = {path:?}\n"), "");
            std::fs::write(&path, "before").unwrap();
            let old = config();
            assert_eq!(fixed(&old, &config()), [""; 0]);
            std::fs::write(&path, "after").unwrap();
            assert_eq!(fixed(&old, &config()), ["web, or a file that it names"]);
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// If the mistake were not named, the log would ask for a restart, which would fail.
    #[test]
    fn a_page_with_which_the_daemon_would_not_start_is_named() {
        let directory = std::env::temp_dir().join(format!("freeblock-unusable-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("token");
        let why = |web: &str| {
            let config = config(&format!("[web]\nlisten = {web}\n"), "");
            unusable(&config).iter().map(ToString::to_string).collect::<String>()
        };
        let with_token = format!("\"127.0.0.1:8080\"\ntoken = {path:?}");
        assert!(why(&with_token).contains("No such file"), "{}", why(&with_token));
        std::fs::write(&path, "short").unwrap();
        assert!(why(&with_token).contains("16"), "{}", why(&with_token));
        std::fs::write(&path, "a-token-of-enough-characters").unwrap();
        assert_eq!(why(&with_token), "");
        // This address is reached from other machines.
        let open = why("\"0.0.0.0:8080\"");
        assert!(open.contains("token"), "{open}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_disk_with_other_addresses_keeps_the_encryption_of_those_at_which_it_is_served() {
        let served = config("", "");
        assert!(is_reached_as_before(&served, &config("", "policy = \"fcfs\"\n").disks[0]));
        let text = "[[disk]]\nname = \"a\"\ndevice = \"x\"\nlisten = [\"unix:/t\"]\n";
        assert!(!is_reached_as_before(&served, &Config::from_toml(text, "f.toml").unwrap().disks[0]));
    }

    /// Without this test, a new option of a disk could change at a reload without a message.
    #[test]
    fn every_option_of_a_disk_is_known() {
        let options = config("", "").disks.remove(0).fixed();
        let mut known: Vec<&str> = options.iter().map(|(option, _)| *option).collect();
        known.extend(["name", "tls"]);
        known.sort_unstable();
        let strange = "[[disk]]\nname = \"a\"\ndevice = \"x\"\nlisten = [\"unix:/s\"]\nzz = 1\n";
        let problem = Config::from_toml(strange, "f.toml").unwrap_err().to_string();
        let mut understood: Vec<&str> = problem.split('`').skip(3).step_by(2).collect();
        understood.sort_unstable();
        assert_eq!(known, understood);
    }
}
