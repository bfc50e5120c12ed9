//! A daemon in this process: an emulated drive in real time, its task manager, its control socket.

use client::Control as Client;
use device::Emulated;
use model::DriveModel;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads};
use server::control::{Control, ControlConfig, Roles};
use server::files::Places;
use server::manager::spec::DiskFacts;
use server::manager::{ManagerConfig, TaskManager};
use server::runtime::{Runtime, RuntimeBuilder};
use server::{Address, Disk, ExportConfig, Exporter, Limits, Listener, StopHandle};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

pub struct Daemon {
    pub directory: PathBuf,
    pub socket: PathBuf,
    control: Option<Control>,
    runtime: Option<Runtime>,
    stop: StopHandle,
    thread: Option<JoinHandle<Disk<Emulated, TaskManager>>>,
}

/// Makes an empty directory.
fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("freeblock-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Starts a daemon. The error says what the test lacks on this machine, such as io_uring.
pub fn start(name: &str, roles: Roles) -> Result<Daemon, String> {
    again(directory(name), roles)
}

/// Starts a daemon with a disk called `disk`.
pub fn of_disk(name: &str, disk: &str) -> Result<Daemon, String> {
    within(directory(name), disk, Roles::default(), Places::default())
}

/// Starts a daemon whose tasks may access files only in `targets`, directories in the daemon's own.
pub fn confined(name: &str, roles: Roles, targets: &[&str]) -> Result<Daemon, String> {
    let directory = directory(name);
    let targets = targets.iter().map(|target| directory.join(target)).collect();
    within(directory, "data", roles, Places::new(Some(targets)))
}

/// Starts a daemon over an existing directory.
pub fn again(directory: PathBuf, roles: Roles) -> Result<Daemon, String> {
    within(directory, "data", roles, Places::default())
}

fn within(directory: PathBuf, disk: &str, roles: Roles, places: Places) -> Result<Daemon, String> {
    let text = include_str!("../../../../drive/tests/data/small.toml");
    let profile = model::Profile::from_toml(text, "small.toml").unwrap();
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &model, true);
    let outside = OutsideConfig::beyond(overheads);
    let config = Config::outside(outside).with_idle(Some(IdleTime::default()));
    let bytes = directory.join("disk");
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(&bytes);
    let drive = Emulated::new(&profile, Default::default(), 1, file.unwrap()).unwrap();
    let facts = DiskFacts {
        name: disk.into(),
        capacity: model.layout().capacity(),
        sector_bytes: model.sector_bytes(),
        own: vec![bytes],
        read_only: false,
        device: None,
    };
    let mut disk = Disk::new(drive, model, config).unwrap();
    let config = ManagerConfig {
        disk: facts,
        keep_bytes_max: 1 << 30,
        background: server::BackgroundTerms::default(),
        seed: 7,
        permits: Default::default(),
        memory: Default::default(),
    };
    let runtime = RuntimeBuilder::new(&mut disk, config, &directory.join("state")).unwrap();
    let runtime = runtime.confined(places);
    let nbd = Listener::bind(Address::Unix(directory.join("nbd")), false).unwrap();
    let (tell, reported) = channel();
    let thread = std::thread::spawn(move || {
        let export = ExportConfig { limits: Limits::default(), ..ExportConfig::default() };
        let (exporter, stop) = Exporter::new(disk, export, vec![nbd]).map_err(|e| e.to_string())?;
        tell.send((exporter.mailbox(), stop)).unwrap();
        let (_, disk) = exporter.run().map_err(|e| e.to_string())?;
        Ok::<_, String>(disk)
    });
    let Ok((mailbox, stop)) = reported.recv() else {
        return Err(thread.join().unwrap().unwrap_err());
    };
    let runtime = runtime.start(mailbox).unwrap();
    let socket = directory.join("control.sock");
    let config = ControlConfig { roles, ..ControlConfig::new(&socket) };
    let control = Control::open(config, vec![runtime.handle()]).unwrap();
    let thread = std::thread::spawn(move || thread.join().unwrap().unwrap());
    Ok(Daemon {
        directory,
        socket,
        control: Some(control),
        runtime: Some(runtime),
        stop,
        thread: Some(thread),
    })
}

impl Daemon {
    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }

    /// Returns the handle of the daemon's disk, for a page.
    pub fn handles(&self) -> Vec<server::runtime::Handle> {
        self.runtime.iter().map(Runtime::handle).collect()
    }

    pub fn path(&self, name: &str) -> String {
        Path::new(&self.directory).join(name).display().to_string()
    }

    pub fn set_roles(&self, roles: Roles) {
        if let Some(control) = &self.control {
            control.set_roles(roles);
        }
    }

    /// Ends the daemon as a signal does. The directory stays.
    pub fn end(mut self) -> PathBuf {
        drop(self.control.take());
        self.stop.stop().unwrap();
        let mut disk = self.thread.take().unwrap().join().unwrap();
        self.runtime.take().unwrap().close(&mut disk);
        self.directory.clone()
    }
}
