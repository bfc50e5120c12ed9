//! This machine's kernel as a client of a disk. Its requests are converted into those of an NBD client.

use super::Exporter;
use crate::active_request::{ActiveRequest, DeviceFacts, KernelTag, RequestOrigin, RequestStart};
use device::{
    Device, Failure, KERNEL_SECTOR, KernelError, KernelOp, KernelQueue, KernelRequest, Token, Work,
};
use nbd::{Command, Errno, Request};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;
use units::Instant;

/// The number of the kernel among the clients of the background export.
pub(super) const CLIENT_NUMBER: u64 = u64::MAX;

/// A block device of this machine's kernel whose requests the server executes.
pub struct Kernel<'a> {
    queue: &'a mut dyn KernelQueue,
    stop: &'a dyn Fn(),
    background: Option<&'a AtomicBool>,
    /// Whether the kernel may still send requests.
    live: bool,
    stopped: bool,
}

/// The state of a block device between two iterations of the server.
#[derive(Debug, Default)]
pub(super) struct KernelState {
    /// The operation that waits until the kernel's queue is readable; `None` once it has ended.
    waiting: Option<Token>,
    /// Results that the kernel has not received yet.
    results: Vec<(u16, Result<Vec<u8>, KernelError>)>,
}

/// A write of the kernel that arrived before the server was opened.
#[derive(Debug)]
pub(super) struct HeldWrite {
    request: KernelRequest,
    background: bool,
    waits: bool,
}

impl KernelState {
    /// Returns whether this operation was the wait for the queue.
    pub fn has_become_readable(&mut self, token: Token) -> bool {
        self.waiting.take_if(|waiting| *waiting == token).is_some()
    }

    /// Returns whether there are results to pass to the kernel.
    pub fn has_results(&self) -> bool {
        !self.results.is_empty()
    }
}

impl fmt::Debug for Kernel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("queue", &self.queue).field("live", &self.live).finish_non_exhaustive()
    }
}

impl<'a> Kernel<'a> {
    /// Returns a device with foreground requests. `stop` asks the kernel to remove the device; the queue ends when
    /// that is done.
    pub fn foreground(queue: &'a mut dyn KernelQueue, stop: &'a dyn Fn()) -> Self {
        Self { queue, stop, background: None, live: true, stopped: false }
    }

    /// Returns a device with background requests. While the kernel creates or removes the device, it sends requests
    /// and waits for them, so requests are served as foreground requests until `shown`, and after the server has begun
    /// to stop.
    pub fn background(queue: &'a mut dyn KernelQueue, stop: &'a dyn Fn(), shown: &'a AtomicBool) -> Self {
        Self { background: Some(shown), ..Self::foreground(queue, stop) }
    }

    /// Returns whether the kernel may send more requests.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    pub(super) fn is_background(&self) -> bool {
        self.background.is_some()
    }
}

impl<D: Device> Exporter<D> {
    /// Passes results to the kernel and reads its requests. Returns whether there were requests.
    pub(super) fn serve_kernel(&mut self, kernel: &mut Kernel<'_>) -> io::Result<bool> {
        let background = kernel.is_background();
        let state = &mut self.kernels[usize::from(background)];
        if self.stopping && !std::mem::replace(&mut kernel.stopped, true) {
            (kernel.stop)();
        }
        if !kernel.live || state.waiting.is_some() && state.results.is_empty() {
            state.results.clear();
            return Ok(false);
        }
        for (tag, result) in state.results.drain(..) {
            kernel.queue.answer(tag, result.as_deref().map_err(|error| *error));
        }
        kernel.live = kernel.queue.exchange()?;
        if !kernel.live && !self.stopping {
            warn!(background, "the kernel has removed the block device");
        }
        let mut asked = false;
        let waits = kernel.background.is_some_and(|shown| shown.load(Ordering::Acquire)) && !self.stopping;
        while let Some(request) = kernel.queue.next() {
            asked = true;
            self.asked_by_kernel(request, background, waits);
        }
        let state = &mut self.kernels[usize::from(background)];
        if kernel.live && state.waiting.is_none() {
            state.waiting = Some(self.ring.start(Work::Readable(kernel.queue.descriptor()))?);
        }
        Ok(asked)
    }

    /// Begins a request of the kernel to its foreground or background device; if `waits`, as a background request.
    fn asked_by_kernel(&mut self, asked: KernelRequest, background: bool, waits: bool) {
        let tag = KernelTag { background, tag: asked.tag };
        if !self.is_open && !matches!(asked.op, KernelOp::Read | KernelOp::Flush) {
            if self.stopping {
                return self.answer_kernel(tag, Err(KernelError::Io));
            }
            return self.held.push(HeldWrite { request: asked, background, waits });
        }
        let writes = self.may_write(background);
        let begun = request(asked, &self.target, writes)
            .map(|request| self.target.begin(RequestOrigin::Kernel(tag), request));
        let error = match begun {
            Ok(RequestStart::Asks(mut active, range, ask)) => {
                active.background = waits;
                return self.ask(active, range, ask);
            }
            // The kernel has no request for extents.
            Ok(RequestStart::Runs(..)) => KernelError::NotSupported,
            Ok(RequestStart::Refused(_, errno, _)) => refusal(errno),
            Err(error) => error,
        };
        self.answer_kernel(tag, Err(error));
    }

    /// Begins the kernel's writes that were held. If the server stops before it was opened, they fail.
    pub(super) fn let_held_writes_go(&mut self) {
        for HeldWrite { request, background, waits } in std::mem::take(&mut self.held) {
            self.asked_by_kernel(request, background, waits);
        }
    }

    /// Passes the device's result of a request to the kernel.
    pub(super) fn answered_to_kernel(
        &mut self,
        tag: KernelTag,
        active: &ActiveRequest,
        result: Result<Vec<u8>, Failure>,
    ) {
        if let Err(failure) = &result
            && self.lines.trouble(self.clock.now())
        {
            warn!(%failure, offset = active.request.offset, "a request of the kernel failed");
        }
        self.answer_kernel(tag, result.map_err(|failure| blame(&failure)));
    }

    /// Answers the kernel's background requests with an error because the server ends: the kernel removes its device
    /// only after all requests are answered.
    pub(super) fn give_up_waiting_of_kernel(&mut self, now: Instant) {
        self.disk.leave(now, CLIENT_NUMBER);
        // The device may still execute some of them; their results are dropped.
        let waits =
            |active: &ActiveRequest| active.background && matches!(active.from, RequestOrigin::Kernel(_));
        let waiting: Vec<u64> =
            self.asked.iter().filter(|(_, active)| waits(active)).map(|(name, _)| *name).collect();
        for name in waiting {
            let Some(active) = self.asked.remove(&name) else { continue };
            self.others -= active.extra;
            if let RequestOrigin::Kernel(tag) = active.from {
                self.answer_kernel(tag, Err(KernelError::Io));
            }
        }
    }

    fn answer_kernel(&mut self, tag: KernelTag, result: Result<Vec<u8>, KernelError>) {
        self.tally.count(result.is_ok());
        self.kernels[usize::from(tag.background)].results.push((tag.tag, result));
    }
}

/// Converts a request of the kernel into one of an NBD client.
fn request(asked: KernelRequest, target: &DeviceFacts, writes: bool) -> Result<Request, KernelError> {
    let command = match asked.op {
        KernelOp::Read => Command::Read,
        KernelOp::Write => Command::Write,
        KernelOp::Flush => return Ok(Request::elsewhere(Command::Flush, 0, 0)),
        KernelOp::Discard if !target.abilities.discard => return Err(KernelError::NotSupported),
        KernelOp::Discard => Command::Trim,
        KernelOp::WriteZeroes { keep } => Command::WriteZeroes { no_hole: keep, fast: false },
        KernelOp::Unknown(_) => return Err(KernelError::NotSupported),
    };
    if command != Command::Read && !writes {
        return Err(KernelError::NotPermitted);
    }
    let bytes = |sectors: u64| sectors.checked_mul(KERNEL_SECTOR.get()).ok_or(KernelError::Invalid);
    let (offset, length) = (bytes(asked.first)?, bytes(asked.count.into())?);
    let sector = target.sector.get();
    let length = u32::try_from(length).map_err(|_| KernelError::Invalid)?;
    if length == 0 || offset % sector != 0 || u64::from(length) % sector != 0 {
        return Err(KernelError::Invalid);
    }
    let mut request = Request::elsewhere(command, offset, length);
    request.fua = asked.through && command != Command::Read;
    request.data = asked.bytes;
    Ok(request)
}

/// Returns the kernel's error for a failure of the device.
fn blame(failure: &Failure) -> KernelError {
    match failure {
        Failure::Medium(_) => KernelError::Medium,
        Failure::Silent { .. } => KernelError::Timeout,
        Failure::File(error) if error.kind() == io::ErrorKind::StorageFull => KernelError::NoSpace,
        Failure::Taken(_) => KernelError::NotPermitted,
        Failure::Command(_) | Failure::Length { .. } | Failure::Outside { .. } => KernelError::Invalid,
        Failure::Unsupported(_) => KernelError::NotSupported,
        _ => KernelError::Io,
    }
}

/// Returns the kernel's error for a request that was refused before it reached the device.
fn refusal(errno: Errno) -> KernelError {
    match errno {
        Errno::NotPermitted => KernelError::NotPermitted,
        Errno::Invalid => KernelError::Invalid,
        Errno::NoSpace => KernelError::NoSpace,
        Errno::NotSupported => KernelError::NotSupported,
        _ => KernelError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Abilities;
    use proptest::prelude::*;
    use units::{Bytes, Lbn};

    fn target(sector: u64) -> DeviceFacts {
        let abilities = Abilities { discard: true, write_zeroes: false, volatile: true, rotational: true };
        DeviceFacts { sector: Bytes::new(sector), abilities, most: 1 << 16 }
    }

    fn asked(op: KernelOp, first: u64, count: u32) -> KernelRequest {
        KernelRequest { tag: 9, op, through: false, first, count, bytes: Vec::new() }
    }

    #[test]
    fn each_request_is_the_one_that_a_client_would_make() {
        let to =
            |op, through| request(KernelRequest { through, ..asked(op, 8, 16) }, &target(512), true).unwrap();
        let keep = |no_hole| Command::WriteZeroes { no_hole, fast: false };
        let pairs = [
            (KernelOp::Read, Command::Read),
            (KernelOp::Write, Command::Write),
            (KernelOp::Discard, Command::Trim),
            (KernelOp::WriteZeroes { keep: false }, keep(false)),
            (KernelOp::WriteZeroes { keep: true }, keep(true)),
        ];
        for (op, command) in pairs {
            let request = to(op, false);
            assert_eq!((request.command, request.offset, request.length), (command, 4096, 8192));
            assert!(!request.fua);
            assert_eq!(to(op, true).fua, op != KernelOp::Read, "{op:?}");
        }
        let flush = to(KernelOp::Flush, false);
        assert_eq!((flush.command, flush.offset, flush.length), (Command::Flush, 0, 0));
    }

    #[test]
    fn requests_that_the_disk_does_not_support_are_refused() {
        let no = |op, target: &DeviceFacts, writes| request(asked(op, 8, 8), target, writes).unwrap_err();
        let bare = DeviceFacts { abilities: Abilities::default(), ..target(512) };
        assert_eq!(no(KernelOp::Discard, &bare, true), KernelError::NotSupported);
        assert_eq!(no(KernelOp::Unknown(13), &target(512), true), KernelError::NotSupported);
        for op in [KernelOp::Write, KernelOp::Discard, KernelOp::WriteZeroes { keep: true }] {
            assert_eq!(no(op, &target(512), false), KernelError::NotPermitted);
        }
        for op in [KernelOp::Read, KernelOp::Flush] {
            assert!(request(asked(op, 8, 8), &target(512), false).is_ok());
        }
    }

    #[test]
    fn bad_sectors_full_disks_and_silence_have_words_of_their_own() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let words = [
            (Failure::Medium(Lbn::new(7)), KernelError::Medium),
            (Failure::Silent { after: units::Duration::from_secs(30) }, KernelError::Timeout),
            (Failure::File(full), KernelError::NoSpace),
            (Failure::File(io::Error::from(io::ErrorKind::Other)), KernelError::Io),
            (Failure::Taken("a restore".into()), KernelError::NotPermitted),
            (Failure::Unsupported("discard"), KernelError::NotSupported),
        ];
        for (failure, word) in words {
            assert_eq!(blame(&failure), word, "{failure}");
        }
    }

    proptest! {
        /// Whatever numbers are in a request of the driver, it becomes one for the same whole sectors, or is refused.
        #[test]
        fn no_numbers_lead_elsewhere(
            first: u64, count: u32, op_flags: u32, shift in 9u32..13, writes: bool,
        ) {
            let target = target(1 << shift);
            let asked = KernelRequest::decode(0, op_flags, first, count);
            let op = asked.op;
            if let Ok(request) = request(asked, &target, writes) {
                if op == KernelOp::Flush {
                    prop_assert_eq!((request.offset, request.length), (0, 0));
                    return Ok(());
                }
                let range = target.range(&request);
                let bytes = range.len().bytes(target.sector).get();
                prop_assert_eq!(range.start().get() as u128 * target.sector.get() as u128, first as u128 * 512);
                prop_assert_eq!(bytes as u128, u128::from(count) * 512);
                prop_assert!(writes || request.command == Command::Read);
            }
        }
    }
}
