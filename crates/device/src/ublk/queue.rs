//! The queue of a ublk device's requests, on the thread that serves it.

use super::params::{DEPTH, TRANSFER_BYTES_MAX};
use crate::kernel::{KERNEL_SECTOR, KernelError, KernelOp, KernelQueue, KernelRequest};
use libublk::helpers::IoBuf;
use libublk::io::{BufDesc, BufDescList, UblkDev, UblkIOCtx, UblkQueue, with_task_io_ring};
use libublk::{UblkError, UblkIORes};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::{fmt, io};

/// libublk's queue and the buffers that the kernel copies to and from.
///
/// libublk has a ring of its own for each thread. The host waits for that ring as for a socket
/// ([`KernelQueue::descriptor`]), so one thread and one event loop serve both.
pub(super) struct Queue<'a> {
    queue: UblkQueue<'a>,
    /// The buffers by tag. The kernel may write to a buffer from the submission of its tag until that completes.
    buffers: Vec<IoBuf<u8>>,
    wire: Arc<OwnedFd>,
    come: VecDeque<u16>,
    /// Whether the kernel may still write to the buffers.
    lent: bool,
}

impl fmt::Debug for Queue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("come", &self.come).field("lent", &self.lent).finish_non_exhaustive()
    }
}

impl<'a> Queue<'a> {
    pub fn new(dev: &'a UblkDev) -> io::Result<Self> {
        let buffer = |_| {
            let mut buffer = IoBuf::new(TRANSFER_BYTES_MAX as usize);
            buffer.zero_buf();
            buffer
        };
        // A device that is taken over keeps the depth that it was made with.
        let buffers: Vec<IoBuf<u8>> = (0..dev.dev_info.queue_depth.max(DEPTH)).map(buffer).collect();
        let queue = UblkQueue::new(0, dev).map_err(io_error)?;
        let wire = with_task_io_ring(|ring| ring.as_fd().try_clone_to_owned())?;
        let queue =
            queue.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers))).map_err(io_error)?;
        Ok(Self { queue, buffers, wire: Arc::new(wire), come: VecDeque::new(), lent: true })
    }
}

impl KernelQueue for Queue<'_> {
    fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wire)
    }

    fn exchange(&mut self) -> io::Result<bool> {
        loop {
            let (come, mut failed) = (&mut self.come, None);
            let turned = self.queue.flush_and_wake_io_tasks(
                |data, done, _| match done.result() {
                    0 => come.push_back(UblkIOCtx::user_data_to_tag(data) as u16),
                    // The device is being removed. libublk counts these completions.
                    error if error == libublk::sys::UBLK_IO_RES_ABORT => {}
                    error => failed = Some(io::Error::from_raw_os_error(-error)),
                },
                0,
            );
            match (turned, failed) {
                (_, Some(error)) => return Err(error),
                // If requests were taken, a later call reports the end of the queue.
                (Ok(taken), None) if taken > 0 && self.queue.is_stopping() => {}
                (Ok(_), None) => return Ok(true),
                (Err(UblkError::QueueIsDown), None) => {
                    self.lent = false;
                    return Ok(false);
                }
                (Err(UblkError::IOError(error)), None) if error.kind() == io::ErrorKind::Interrupted => {}
                (Err(error), None) => return Err(io_error(error)),
            }
        }
    }

    fn next(&mut self) -> Option<KernelRequest> {
        let tag = self.come.pop_front()?;
        let asked = *self.queue.get_iod(tag);
        let mut request = KernelRequest::decode(tag, asked.op_flags, asked.start_sector, asked.nr_sectors);
        if request.op == KernelOp::Write {
            let length = u64::from(request.count) * KERNEL_SECTOR.get();
            let buffer = self.buffers.get(usize::from(tag)).map_or(&[][..], IoBuf::as_slice);
            // The driver keeps to the limits that it was given. If bytes are missing nevertheless, the device
            // refuses the request.
            request.bytes = buffer.get(..length as usize).unwrap_or_default().to_vec();
        }
        Some(request)
    }

    fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>) {
        let Some(buffer) = self.buffers.get_mut(usize::from(tag)) else { return };
        let asked = *self.queue.get_iod(tag);
        let request = KernelRequest::decode(tag, asked.op_flags, asked.start_sector, asked.nr_sectors);
        let length = u64::from(request.count) * KERNEL_SECTOR.get();
        let said = match (result, request.op) {
            (Err(error), _) => -error.errno(),
            (Ok(bytes), KernelOp::Read) => match buffer.as_mut_slice().get_mut(..bytes.len()) {
                Some(place) if bytes.len() as u64 == length => {
                    place.copy_from_slice(bytes);
                    length as i32
                }
                _ => -KernelError::Io.errno(),
            },
            (Ok(_), KernelOp::Write) => length as i32,
            (Ok(_), _) => 0,
        };
        // The buffer is valid and the device uses buffers, so this cannot fail.
        let queued = self.queue.complete_io_cmd_unified(
            tag,
            BufDesc::Slice(buffer.as_slice()),
            Ok(UblkIORes::Result(said)),
        );
        debug_assert!(queued.is_ok(), "{queued:?}");
    }
}

/// Leaks buffers to which the kernel may still write, as [`Ring`](crate::Ring) does.
impl Drop for Queue<'_> {
    fn drop(&mut self) {
        if self.lent {
            self.buffers.drain(..).for_each(std::mem::forget);
        }
    }
}

/// Converts an error. The result has the system's message, which libublk's own text lacks.
pub(super) fn io_error(error: libublk::UblkError) -> io::Error {
    use libublk::UblkError as Theirs;
    match error {
        Theirs::UringIOError(code) | Theirs::OtherError(code) => io::Error::from_raw_os_error(code.abs()),
        Theirs::IOError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
