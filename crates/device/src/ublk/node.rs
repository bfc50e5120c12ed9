//! The device node: creates, shows and removes it, and takes over that of a dead daemon.

use super::params::{DEPTH, TRANSFER_BYTES_MAX, params, same};
use super::queue::{Queue, io_error};
use super::{UblkError, UblkPlan};
use crate::kernel::KernelQueue;
use crate::raw::System;
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::io::UblkDev;
use libublk::{UblkFlags, sys};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

/// A block device of this machine's kernel.
///
/// The kernel reads from a device while it shows the device, and writes to it while it removes the device. So one
/// thread gives the driver these commands while another serves the requests. Call [`open`](Self::open), then
/// [`serve`](Self::serve) on one thread, and in `serve` call [`start`](Self::start). When the queue has ended, call
/// [`close`](Self::close).
///
/// If a file system is mounted on a device that is removed, the file system is synced first, and has no device
/// afterwards.
///
/// The device of a killed daemon stays, and its requests wait. The next daemon of the same owner that opens the same
/// number takes the device over, and gets all unanswered requests again. If the disk has changed (its size, its
/// abilities, whether it may be written), the device is removed and made anew.
pub struct Ublk {
    path: PathBuf,
    number: u32,
    dev: Arc<UblkDev>,
    orders: Sender<Order>,
    thread: JoinHandle<Result<(), UblkError>>,
}

impl fmt::Debug for Ublk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ublk").field("path", &self.path).finish_non_exhaustive()
    }
}

type Started = Box<dyn FnOnce(Result<(), UblkError>) + Send>;

enum Order {
    /// Shows the device; with the id of the serving thread.
    Start(libc::pid_t, Started),
    Stop,
}

impl Ublk {
    /// Makes the device, or takes over that of a killed daemon. The kernel does not show it yet.
    ///
    /// # Errors
    /// The driver is missing, the number is taken, the sector size is not supported, or the driver failed.
    pub fn open(plan: UblkPlan) -> Result<Self, UblkError> {
        let number = plan.number;
        let (made, reported) = mpsc::sync_channel(1);
        let (orders, ordered) = mpsc::channel();
        let thread = Builder::new()
            .name(format!("ublk {number}"))
            .spawn(move || look_after(&plan, &made, ordered))
            .map_err(|source| UblkError::Driver { number, what: "no thread for it", source })?;
        let dev = match reported.recv() {
            Ok(dev) => dev,
            // The thread's result has the error.
            Err(_) => {
                return Err(thread
                    .join()
                    .map_or(UblkError::Ended(number), |end| end.err().unwrap_or(UblkError::Ended(number))));
            }
        };
        Ok(Self { path: format!("/dev/ublkb{number}").into(), number, dev, orders, thread })
    }

    /// Returns the device's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves the device's requests on this thread, which no other device may use: `host` has to serve the queue
    /// until the queue has ended.
    ///
    /// # Errors
    /// The kernel returns no queue.
    pub fn serve<R>(&self, host: impl FnOnce(&mut dyn KernelQueue) -> R) -> Result<R, UblkError> {
        let number = self.number;
        let mut queue = Queue::new(&self.dev).map_err(|source| UblkError::Driver {
            number,
            what: "no queue for its requests",
            source,
        })?;
        Ok(host(&mut queue))
    }

    /// Makes the kernel show the device, and then calls `started` from another thread. The serving thread calls this
    /// before it serves.
    pub fn start(&self, started: impl FnOnce(Result<(), UblkError>) + Send + 'static) {
        let order = Order::Start(UblkCtrl::init_queue_thread(), Box::new(started));
        if let Err(mpsc::SendError(Order::Start(_, started))) = self.orders.send(order) {
            started(Err(UblkError::Ended(self.number)));
        }
    }

    /// Makes the kernel remove the device. The kernel first sends its outstanding writes, which must be served.
    pub fn stop(&self) {
        // Sending fails only if the device is gone already.
        let _ = self.orders.send(Order::Stop);
    }

    /// Closes the device after its queue has ended. The number is free then, unless a program still has the device
    /// open.
    ///
    /// # Errors
    /// The driver failed.
    pub fn close(self) -> Result<(), UblkError> {
        let Self { dev, orders, thread, number, .. } = self;
        drop((dev, orders));
        thread.join().unwrap_or(Err(UblkError::Ended(number)))
    }
}

/// Makes the device, carries out orders, and removes the device once all senders of orders are dropped.
fn look_after(
    plan: &UblkPlan,
    made: &SyncSender<Arc<UblkDev>>,
    orders: Receiver<Order>,
) -> Result<(), UblkError> {
    let number = plan.number;
    let failed = move |what| move |error| UblkError::Driver { number, what, source: io_error(error) };
    let params = params(plan)?;
    let ctrl = control(plan, &params)?;
    let set_up = |dev: &mut UblkDev| {
        dev.tgt.dev_size = params.basic.dev_sectors << 9;
        dev.tgt.params = params;
        Ok(())
    };
    let dev = UblkDev::new("freeblock".into(), set_up, &ctrl).map_err(failed("the node cannot be opened"))?;
    let dev = Arc::new(dev);
    // Sending fails if the opener is gone, and then the device is not needed.
    let _ = made.send(Arc::clone(&dev));
    for order in orders {
        match order {
            Order::Start(tid, started) => {
                let shown = ctrl.configure_queue(&dev, 0, tid).and_then(|_| ctrl.start_dev(&dev));
                started(done(shown).map_err(|source| UblkError::Driver {
                    number,
                    what: "the node cannot be shown",
                    source,
                }));
            }
            Order::Stop => {
                sync(number);
                // This fails if the device is gone already.
                let _ = ctrl.kill_dev();
            }
        }
    }
    drop(dev);
    take_away(&ctrl).map_err(|source| UblkError::Driver {
        number,
        what: "the node cannot be taken away",
        source,
    })?;
    Ok(())
}

/// Makes the kernel write its dirty data of the device. The kernel does not do so by itself when it removes a device
/// that could be taken over.
fn sync(number: u32) {
    let Ok(node) = File::open(format!("/dev/ublkb{number}")) else { return };
    let rdev = node.metadata().map_or(0, |metadata| metadata.rdev());
    for at in System::here().mounts_of_device(libc::major(rdev), libc::minor(rdev)) {
        // A write error concerns the program that wrote the data.
        let _ = File::open(at).map(rustix::fs::syncfs);
    }
    let _ = node.sync_all();
}

/// Removes a device, and waits a little until no program has it open and its number is free. Returns whether the
/// number is free.
fn take_away(ctrl: &UblkCtrl) -> io::Result<bool> {
    let _ = ctrl.kill_dev();
    done(ctrl.del_dev_async())?;
    for _ in 0..FREE_POLLS_MAX {
        if ctrl.read_dev_info().is_err() {
            return Ok(true);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(false)
}

/// Returns the driver's handle of a new device, or of the device of a dead daemon.
///
/// A number in use must not be passed to libublk to add a device: libublk would delete the existing device, and wait
/// until no program has it open.
fn control(plan: &UblkPlan, params: &sys::ublk_params) -> Result<UblkCtrl, UblkError> {
    let number = plan.number;
    let driver = match File::options().read(true).write(true).open("/dev/ublk-control") {
        Ok(driver) => driver,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(UblkError::NoDriver),
        Err(error) => return Err(UblkError::Control(error)),
    };
    // The lock prevents two processes from taking the same free number. It is held until the function returns.
    driver.lock().map_err(UblkError::Control)?;
    if let Some(left) = left_behind(plan, params)? {
        return Ok(left);
    }
    build(plan, UblkFlags::UBLK_DEV_F_ADD_DEV).map_err(|source| UblkError::Driver {
        number,
        what: "the node cannot be made",
        source,
    })
}

fn build(plan: &UblkPlan, flags: UblkFlags) -> io::Result<UblkCtrl> {
    let builder =
        UblkCtrlBuilder::default().name("freeblock").id(plan.number as i32).nr_queues(1).depth(DEPTH);
    let recovery = sys::UBLK_F_USER_RECOVERY | sys::UBLK_F_USER_RECOVERY_REISSUE;
    builder
        .io_buf_bytes(TRANSFER_BYTES_MAX)
        .ctrl_flags(recovery.into())
        .ctrl_target_flags(plan.owner)
        .dev_flags(flags)
        .build()
        .map_err(io_error)
}

/// The most polls until the kernel has noticed a daemon's death: it needs five seconds at most, and this allows
/// eight.
const DEATH_POLLS_MAX: u32 = 800;
/// The most polls until a number is free: one second. If no program has the device open, the first poll is enough.
const FREE_POLLS_MAX: u32 = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Finds an existing device with this number. Takes it over if it belongs to this owner and fits the plan. Removes it
/// if it belongs to this owner and does not fit, and then returns `None`, as for a free number.
fn left_behind(plan: &UblkPlan, params: &sys::ublk_params) -> Result<Option<UblkCtrl>, UblkError> {
    let number = plan.number;
    let driver = |what| move |source| UblkError::Driver { number, what, source };
    let node = Path::new(&format!("/dev/ublkc{number}")).exists();
    // libublk prints a complaint about a device without a notes file.
    let notes = PathBuf::from(format!("{}/{number:04}.json", UblkCtrl::run_dir()));
    if !notes.exists() {
        let _ = std::fs::create_dir_all(UblkCtrl::run_dir()).and_then(|()| std::fs::write(&notes, "{}"));
    }
    let ctrl = match build(plan, UblkFlags::UBLK_DEV_F_RECOVER_DEV) {
        Ok(ctrl) => ctrl,
        Err(_) if !node => return Ok(None),
        Err(source) => return Err(driver("the node cannot be looked at")(source)),
    };
    for _ in 0..DEATH_POLLS_MAX {
        let info = ctrl.dev_info();
        let mut theirs = sys::ublk_params::default();
        let fits = ctrl.get_params(&mut theirs).is_ok() && same(params, &theirs) && info.queue_depth == DEPTH;
        let found = Found {
            node,
            ours: info.ublksrv_flags == plan.owner,
            state: info.state.into(),
            served_by: is_alive(info.ublksrv_pid).then_some(info.ublksrv_pid),
            fits,
        };
        match found.verdict() {
            Takeover::Taken(whose) => return Err(UblkError::Taken { number, whose }),
            Takeover::Wait => {
                std::thread::sleep(POLL_INTERVAL);
                ctrl.read_dev_info().map_err(io_error).map_err(driver("the node cannot be looked at"))?;
            }
            Takeover::TakeOver => {
                done(ctrl.start_user_recover()).map_err(driver("the node cannot be taken over"))?;
                return Ok(Some(ctrl));
            }
            Takeover::TakeAway => {
                let free = take_away(&ctrl).map_err(driver("the node's rest cannot be removed"))?;
                let whose = HELD.to_owned();
                return if free { Ok(None) } else { Err(UblkError::Taken { number, whose }) };
            }
        }
    }
    let source = io::Error::from(io::ErrorKind::TimedOut);
    Err(UblkError::Driver { number, what: "the kernel does not notice that its daemon has died", source })
}

const HELD: &str = "is gone, and a program still has it open from before (is it mounted?); end that";

/// An existing device of the driver.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Whether programs still see the device. A removed device is invisible, but the driver keeps it while a program
    /// has it open.
    node: bool,
    /// Whether the device belongs to a daemon of the same disk.
    ours: bool,
    /// The driver's state of the device, one of UBLK_S_DEV_*.
    state: u32,
    /// The process id of the device's daemon, if the daemon is alive.
    served_by: Option<i32>,
    /// Whether the device has the parameters that it would get now.
    fits: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Takeover {
    Taken(String),
    /// Wait until the kernel has noticed that the daemon has died.
    Wait,
    TakeOver,
    TakeAway,
}

impl Found {
    fn verdict(self) -> Takeover {
        match (self.state, self.served_by) {
            _ if !self.node => Takeover::Taken(HELD.into()),
            _ if !self.ours => Takeover::Taken("is another program's, or another disk's".into()),
            (sys::UBLK_S_DEV_LIVE, Some(process)) => {
                Takeover::Taken(format!("is served by process {process}"))
            }
            (sys::UBLK_S_DEV_LIVE, None) => Takeover::Wait,
            (sys::UBLK_S_DEV_QUIESCED, _) if self.fits => Takeover::TakeOver,
            _ => Takeover::TakeAway,
        }
    }
}

/// Returns whether a process is running, and not a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Turns the negative codes that libublk returns as a success into errors.
fn done(result: Result<i32, libublk::UblkError>) -> io::Result<()> {
    match result.map_err(io_error)? {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Found =
        Found { node: true, ours: true, state: sys::UBLK_S_DEV_QUIESCED, served_by: None, fits: true };

    #[test]
    fn a_dead_daemons_device_is_taken_over_by_its_own_disk_only() {
        assert_eq!(LEFT.verdict(), Takeover::TakeOver);
        assert_eq!(Found { fits: false, ..LEFT }.verdict(), Takeover::TakeAway);
        assert_eq!(Found { state: sys::UBLK_S_DEV_DEAD, ..LEFT }.verdict(), Takeover::TakeAway);
        for state in [sys::UBLK_S_DEV_DEAD, sys::UBLK_S_DEV_LIVE, sys::UBLK_S_DEV_QUIESCED] {
            let theirs = Found { ours: false, state, ..LEFT }.verdict();
            assert!(matches!(theirs, Takeover::Taken(whose) if whose.contains("another")), "{state}");
        }
    }

    #[test]
    fn a_device_of_a_daemon_that_lives_is_not_taken_and_the_death_of_one_is_waited_for() {
        let live = Found { state: sys::UBLK_S_DEV_LIVE, ..LEFT };
        assert_eq!(live.verdict(), Takeover::Wait);
        let served = Found { served_by: Some(17), ..live }.verdict();
        assert_eq!(served, Takeover::Taken("is served by process 17".into()));
    }

    #[test]
    fn a_number_that_is_held_open_after_its_device_is_gone_is_refused() {
        for state in [sys::UBLK_S_DEV_DEAD, sys::UBLK_S_DEV_LIVE, sys::UBLK_S_DEV_QUIESCED] {
            for (ours, served_by) in [(true, None), (true, Some(17)), (false, None)] {
                let held = Found { node: false, ours, state, served_by, ..LEFT };
                assert_eq!(held.verdict(), Takeover::Taken(HELD.into()), "{held:?}");
            }
        }
    }
}
