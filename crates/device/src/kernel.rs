//! What a kernel asks of a block device that is ours, and how it is answered.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Bytes;

/// What a kernel counts in, whatever a device's sectors are.
pub const KERNEL_SECTOR: Bytes = Bytes::new(512);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelOp {
    /// Send the bytes.
    Read,
    /// Take the bytes.
    Write,
    /// Put all that was acknowledged on the medium.
    Flush,
    /// The bytes are not needed any more; what is read there afterwards is not said.
    Discard,
    /// Make the bytes zero.
    WriteZeroes {
        /// The room must stay allocated.
        keep: bool,
    },
    /// Something that was not offered.
    Unknown(u8),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRequest {
    /// Its name until it is answered; then another gets it.
    pub tag: u16,
    /// What is to be done.
    pub op: KernelOp,
    /// It is to be acknowledged from the medium.
    pub through: bool,
    /// From which [`KERNEL_SECTOR`] on.
    pub first: u64,
    /// How many of them.
    pub count: u32,
    /// What to write; empty for anything else.
    pub bytes: Vec<u8>,
}

impl KernelRequest {
    /// As `ublksrv_io_desc` has it (`linux/ublk_cmd.h`): the operation in the lowest byte, flags above it.
    ///
    /// ```
    /// use device::{KernelOp, KernelRequest};
    /// let request = KernelRequest::decode(3, 1 | 1 << 13, 8, 8);
    /// assert_eq!((request.op, request.through), (KernelOp::Write, true));
    /// ```
    pub fn decode(tag: u16, op_flags: u32, first: u64, count: u32) -> Self {
        let op = match op_flags as u8 {
            bits::READ => KernelOp::Read,
            bits::WRITE => KernelOp::Write,
            bits::FLUSH => KernelOp::Flush,
            bits::DISCARD => KernelOp::Discard,
            bits::WRITE_ZEROES => KernelOp::WriteZeroes { keep: op_flags & bits::NOUNMAP != 0 },
            other => KernelOp::Unknown(other),
        };
        Self { tag, op, through: op_flags & bits::FUA != 0, first, count, bytes: Vec::new() }
    }
}

/// Of `linux/ublk_cmd.h`, part of the kernel's stable interface; held against libublk's where that is built.
pub(crate) mod bits {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const FLUSH: u8 = 2;
    pub const DISCARD: u8 = 3;
    pub const WRITE_ZEROES: u8 = 5;
    pub const FUA: u32 = 1 << 13;
    pub const NOUNMAP: u32 = 1 << 15;
}

/// Why a request was not done, in words that a kernel's block layer tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A sector is bad ("critical medium error").
    Medium,
    /// It failed.
    Io,
    /// There is no answer in time.
    Timeout,
    /// No room.
    NoSpace,
    /// It makes no sense here.
    Invalid,
    /// Not in this way.
    NotSupported,
    /// Nobody may do that now.
    NotPermitted,
}

impl KernelError {
    /// The number that stands for it: what `errno_to_blk_status` of the kernel turns into the block layer's word.
    pub fn errno(self) -> i32 {
        match self {
            Self::Medium => libc::ENODATA,
            Self::Io => libc::EIO,
            Self::Timeout => libc::ETIMEDOUT,
            Self::NoSpace => libc::ENOSPC,
            Self::Invalid => libc::EINVAL,
            Self::NotSupported => libc::EOPNOTSUPP,
            Self::NotPermitted => libc::EPERM,
        }
    }
}

/// Where a kernel's requests come from. Nothing here waits; all of it is called on one thread.
///
/// When [`wire`](Self::wire) becomes readable, the host makes a [`turn`](Self::turn) and takes what has come with
/// [`next`](Self::next) until there is none. Each request is [answered](Self::answer) once, in any order; answers go out with
/// the next turn.
pub trait KernelQueue: Debug {
    /// What becomes readable when there is something to take.
    fn wire(&self) -> Arc<OwnedFd>;

    /// Hands over what was answered, and takes what has come. `false`: the kernel has let go of the device, and nothing more
    /// comes.
    ///
    /// # Errors
    /// The kernel's.
    fn turn(&mut self) -> io::Result<bool>;

    /// The next request that has come.
    fn next(&mut self) -> Option<KernelRequest>;

    /// What has become of a request; of a read its bytes, all of them.
    fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_told_from_the_others() {
        let op = |op_flags| KernelRequest::decode(0, op_flags, 0, 0).op;
        let known = [(0, KernelOp::Read), (1, KernelOp::Write), (2, KernelOp::Flush), (3, KernelOp::Discard)];
        for (bits, expected) in known {
            assert_eq!(op(bits), expected);
            // Flags that say how urgent it is change nothing.
            assert_eq!(op(bits | 7 << 8 | 1 << 11 | 1 << 16), expected);
        }
        assert_eq!(op(5), KernelOp::WriteZeroes { keep: false });
        assert_eq!(op(5 | 1 << 15), KernelOp::WriteZeroes { keep: true });
        for unknown in [4, 6, 10, 13, 15, 18, 255] {
            assert_eq!(op(unknown), KernelOp::Unknown(unknown as u8));
        }
    }

    #[test]
    fn what_must_reach_the_medium_says_so() {
        for op in [1, 3, 5] {
            assert!(!KernelRequest::decode(0, op, 0, 8).through);
            assert!(KernelRequest::decode(0, op | 1 << 13, 0, 8).through);
        }
        let request = KernelRequest::decode(63, 1, u64::MAX, u32::MAX);
        assert_eq!((request.tag, request.first, request.count), (63, u64::MAX, u32::MAX));
    }

    /// As `linux/include/uapi/asm-generic/errno*.h` numbers them; each has a word of its own in the block layer or is an
    /// I/O error there.
    #[test]
    fn errors_are_the_kernels_numbers() {
        let numbers = [
            (KernelError::NotPermitted, 1),
            (KernelError::Io, 5),
            (KernelError::Invalid, 22),
            (KernelError::NoSpace, 28),
            (KernelError::Medium, 61),
            (KernelError::NotSupported, 95),
            (KernelError::Timeout, 110),
        ];
        for (error, number) in numbers {
            assert_eq!(error.errno(), number);
        }
    }
}
