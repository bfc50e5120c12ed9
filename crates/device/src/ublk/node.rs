//! The device node: made, shown, taken away, and found again after a daemon's death.

use super::params::{DEPTH, MOST_BYTES, params, same};
use super::queue::Queue;
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
/// The kernel reads from a device while it shows it, and writes to it while it takes it away. So a thread of its own gives
/// the driver these orders, and who [serves](Self::serve) the device answers meanwhile: [`open`](Self::open), then on one
/// thread `serve`, and in there [`start`](Self::start); when the queue says that it is over, [`close`](Self::close).
///
/// What is mounted on a device that is taken away is synced first, and has no device afterwards.
///
/// A device whose daemon was killed stays, and what is asked of it waits. The next daemon of the same owner that opens the
/// same number takes it over, and is asked again for all that was not answered. If the disk is not what it was (its size, what
/// it can do, whether it may be written), the device is taken away and made anew.
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
    /// The thread that serves it is this one.
    Start(libc::pid_t, Started),
    Stop,
}

impl Ublk {
    /// Makes the device, or takes over what a daemon that was killed has left. It is not shown yet.
    ///
    /// # Errors
    /// No driver, a number that is taken, sectors that are not for it, or the driver's word.
    pub fn open(plan: UblkPlan) -> Result<Self, UblkError> {
        let number = plan.number;
        let (made, told) = mpsc::sync_channel(1);
        let (orders, ordered) = mpsc::channel();
        let thread = Builder::new()
            .name(format!("ublk {number}"))
            .spawn(move || look_after(&plan, &made, ordered))
            .map_err(|source| UblkError::Driver { number, what: "no thread for it", source })?;
        let dev = match told.recv() {
            Ok(dev) => dev,
            // It says why.
            Err(_) => {
                return Err(thread
                    .join()
                    .map_or(UblkError::Ended(number), |end| end.err().unwrap_or(UblkError::Ended(number))));
            }
        };
        Ok(Self { path: format!("/dev/ublkb{number}").into(), number, dev, orders, thread })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves its requests on this thread, which no other device may use: `host` makes turns until the queue is over.
    ///
    /// # Errors
    /// The kernel gives no queue.
    pub fn serve<R>(&self, host: impl FnOnce(&mut dyn KernelQueue) -> R) -> Result<R, UblkError> {
        let number = self.number;
        let mut queue = Queue::new(&self.dev).map_err(|source| UblkError::Driver {
            number,
            what: "no queue for its requests",
            source,
        })?;
        Ok(host(&mut queue))
    }

    /// Has the kernel show it, and calls `started` from another thread when it has. To be called by who serves it, before
    /// it goes on with that.
    pub fn start(&self, started: impl FnOnce(Result<(), UblkError>) + Send + 'static) {
        let order = Order::Start(UblkCtrl::init_queue_thread(), Box::new(started));
        if let Err(mpsc::SendError(Order::Start(_, started))) = self.orders.send(order) {
            started(Err(UblkError::Ended(self.number)));
        }
    }

    /// Has the kernel take it away: what it has to write of it comes first, and has to be served.
    pub fn stop(&self) {
        // Gone already is as good.
        let _ = self.orders.send(Order::Stop);
    }

    /// Gives it up, after its queue is over; its number is free then, unless somebody still has it open.
    ///
    /// # Errors
    /// The driver's word.
    pub fn close(self) -> Result<(), UblkError> {
        let Self { dev, orders, thread, number, .. } = self;
        drop((dev, orders));
        thread.join().unwrap_or(Err(UblkError::Ended(number)))
    }
}

/// Does what is ordered, and takes the device away when nobody is there any more to order.
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
    let dev = UblkDev::new("freeblock".into(), set_up, &ctrl).map_err(failed("it cannot be opened"))?;
    let dev = Arc::new(dev);
    // Whoever waits for it would have gone with its thread.
    let _ = made.send(Arc::clone(&dev));
    for order in orders {
        match order {
            Order::Start(tid, started) => {
                let shown = ctrl.configure_queue(&dev, 0, tid).and_then(|_| ctrl.start_dev(&dev));
                started(done(shown).map_err(|source| UblkError::Driver {
                    number,
                    what: "it cannot be shown",
                    source,
                }));
            }
            Order::Stop => {
                sync(number);
                // Gone already is as good.
                let _ = ctrl.kill_dev();
            }
        }
    }
    drop(dev);
    take_away(&ctrl).map_err(|source| UblkError::Driver { number, what: "it cannot be taken away", source })
}

/// What the kernel has of the device and has not written yet, it writes: when it is told to let go of a device that could be
/// taken over it does not do so by itself.
fn sync(number: u32) {
    let Ok(node) = File::open(format!("/dev/ublkb{number}")) else { return };
    let rdev = node.metadata().map_or(0, |metadata| metadata.rdev());
    for at in System::here().mounts_of_device(libc::major(rdev), libc::minor(rdev)) {
        // What cannot be written is an error of who wrote it.
        let _ = File::open(at).map(rustix::fs::syncfs);
    }
    let _ = node.sync_all();
}

/// Takes a device away, and waits a little for its number to be free: as long as somebody has it open it is not.
fn take_away(ctrl: &UblkCtrl) -> io::Result<()> {
    let _ = ctrl.kill_dev();
    done(ctrl.del_dev_async())?;
    for _ in 0..FREES {
        if ctrl.read_dev_info().is_err() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// The driver's handle on a new device, or on one that was left behind.
fn control(plan: &UblkPlan, params: &sys::ublk_params) -> Result<UblkCtrl, UblkError> {
    let number = plan.number;
    match File::options().read(true).write(true).open("/dev/ublk-control") {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(UblkError::NoDriver),
        Err(error) => return Err(UblkError::Control(error)),
    }
    if Path::new(&format!("/dev/ublkc{number}")).exists()
        && let Some(left) = left_behind(plan, params)?
    {
        return Ok(left);
    }
    build(plan, UblkFlags::UBLK_DEV_F_ADD_DEV).map_err(|source| UblkError::Driver {
        number,
        what: "it cannot be made",
        source,
    })
}

fn build(plan: &UblkPlan, flags: UblkFlags) -> io::Result<UblkCtrl> {
    let builder =
        UblkCtrlBuilder::default().name("freeblock").id(plan.number as i32).nr_queues(1).depth(DEPTH);
    let recovery = sys::UBLK_F_USER_RECOVERY | sys::UBLK_F_USER_RECOVERY_REISSUE;
    builder
        .io_buf_bytes(MOST_BYTES)
        .ctrl_flags(recovery.into())
        .ctrl_target_flags(plan.owner)
        .dev_flags(flags)
        .build()
        .map_err(io_error)
}

/// The kernel notices within five seconds that a daemon has died.
const NOTICES: u32 = 800;
/// A number is free in no time if nobody has the device.
const FREES: u32 = 100;
const LOOK: Duration = Duration::from_millis(10);

/// A device of this number that is there already: taken over if it is ours and still fits, taken away if it is ours and does
/// not (`None`, as if there was none).
fn left_behind(plan: &UblkPlan, params: &sys::ublk_params) -> Result<Option<UblkCtrl>, UblkError> {
    let number = plan.number;
    let driver = |what| move |source| UblkError::Driver { number, what, source };
    let there = Path::new(&format!("/dev/ublkc{number}")).exists();
    // It complains on standard error of a device of which it has no notes.
    let notes = PathBuf::from(format!("{}/{number:04}.json", UblkCtrl::run_dir()));
    if !notes.exists() {
        let _ = std::fs::create_dir_all(UblkCtrl::run_dir()).and_then(|()| std::fs::write(&notes, "{}"));
    }
    let ctrl = match build(plan, UblkFlags::UBLK_DEV_F_RECOVER_DEV) {
        Ok(ctrl) if there => ctrl,
        Ok(_) => {
            let whose =
                "is gone, and somebody still has it open from before (is it mounted?); end that".to_owned();
            return Err(UblkError::Taken { number, whose });
        }
        Err(_) if !there => return Ok(None),
        Err(source) => return Err(driver("it cannot be looked at")(source)),
    };
    for _ in 0..NOTICES {
        let info = ctrl.dev_info();
        if info.ublksrv_flags != plan.owner {
            let whose = "is another program's, or another disk's".into();
            return Err(UblkError::Taken { number, whose });
        }
        match u32::from(info.state) {
            sys::UBLK_S_DEV_LIVE if is_alive(info.ublksrv_pid) => {
                let whose = format!("is served by process {}", info.ublksrv_pid);
                return Err(UblkError::Taken { number, whose });
            }
            sys::UBLK_S_DEV_LIVE => {
                std::thread::sleep(LOOK);
                ctrl.read_dev_info().map_err(io_error).map_err(driver("it cannot be looked at"))?;
            }
            state => {
                let mut theirs = sys::ublk_params::default();
                let known = ctrl.get_params(&mut theirs).is_ok() && same(params, &theirs);
                if state == sys::UBLK_S_DEV_QUIESCED && known && info.queue_depth == DEPTH {
                    done(ctrl.start_user_recover()).map_err(driver("it cannot be taken over"))?;
                    return Ok(Some(ctrl));
                }
                take_away(&ctrl).map_err(driver("what was left of it cannot be taken away"))?;
                return Ok(None);
            }
        }
    }
    let source = io::Error::from(io::ErrorKind::TimedOut);
    Err(UblkError::Driver { number, what: "the kernel does not notice that its daemon has died", source })
}

/// Whether a process is there, and not only what is left of it.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// libublk calls "busy" no error.
fn done(result: Result<i32, libublk::UblkError>) -> io::Result<()> {
    match result.map_err(io_error)? {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        _ => Ok(()),
    }
}

/// With the system's word, which libublk's own text does not have.
pub(super) fn io_error(error: libublk::UblkError) -> io::Error {
    use libublk::UblkError as Theirs;
    match error {
        Theirs::UringIOError(code) | Theirs::OtherError(code) => io::Error::from_raw_os_error(code.abs()),
        Theirs::IOError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
