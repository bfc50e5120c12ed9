//! The requests of a kernel for a block device that this program serves, and their answers.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Bytes;

/// The unit of a kernel's counts, whatever a device's sectors are.
pub const KERNEL_SECTOR: Bytes = Bytes::new(512);

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelOp {
    /// Send the bytes.
    Read,
    /// Take the bytes.
    Write,
    /// Put all that was acknowledged on the medium.
    Flush,
    /// Discard the bytes; their content is undefined afterwards.
    Discard,
    /// Make the bytes zero.
    WriteZeroes {
        /// Whether the space must stay allocated.
        keep: bool,
    },
    /// An operation that was not offered.
    Unknown(u8),
}

/// A request of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRequest {
    /// Its number, which is reused after the answer.
    pub tag: u16,
    /// The operation.
    pub op: KernelOp,
    /// Whether the bytes must be on the medium before the answer.
    pub through: bool,
    /// The first [`KERNEL_SECTOR`].
    pub first: u64,
    /// The number of these sectors.
    pub count: u32,
    /// The bytes to write; empty for other operations.
    pub bytes: Vec<u8>,
}

impl KernelRequest {
    /// Decodes the fields of `ublksrv_io_desc` (`linux/ublk_cmd.h`): the operation in the lowest byte, flags above
    /// it.
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

/// Constants of `linux/ublk_cmd.h`, part of the kernel's stable interface; a build with libublk compares them with
/// its own.
pub(crate) mod bits {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const FLUSH: u8 = 2;
    pub const DISCARD: u8 = 3;
    pub const WRITE_ZEROES: u8 = 5;
    pub const FUA: u32 = 1 << 13;
    pub const NOUNMAP: u32 = 1 << 15;
}

/// The reason for which a request failed, in the categories of a kernel's block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A sector is bad ("critical medium error").
    Medium,
    /// The request failed.
    Io,
    /// There was no answer in time.
    Timeout,
    /// There is no space.
    NoSpace,
    /// The request is invalid here.
    Invalid,
    /// This variant is not supported.
    NotSupported,
    /// The request is not permitted now.
    NotPermitted,
}

impl KernelError {
    /// Returns the errno that the kernel's `errno_to_blk_status` maps to the block layer's status.
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

/// The source of a kernel's requests. No call blocks; all are made on one thread.
///
/// When [`descriptor`](Self::descriptor) becomes readable, the host calls [`KernelQueue::exchange`], then takes the
/// requests that have come with [`next`](Self::next) until there is none. Each request is [answered](Self::answer)
/// once, in any order; answers go out with the next `exchange`.
pub trait KernelQueue: Debug {
    /// Returns the descriptor that becomes readable when requests have come.
    fn descriptor(&self) -> Arc<OwnedFd>;

    /// Hands over the answers, and takes new requests. Returns `false` once the kernel has released the device: no
    /// further request comes then.
    ///
    /// # Errors
    /// An error of the kernel.
    fn exchange(&mut self) -> io::Result<bool>;

    /// Returns the next request that has come.
    fn next(&mut self) -> Option<KernelRequest>;

    /// Answers a request; the answer to a read has all of its bytes.
    fn answer(&mut self, tag: u16, result: Result<&[u8], KernelError>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_decoded() {
        let op = |op_flags| KernelRequest::decode(0, op_flags, 0, 0).op;
        let known = [(0, KernelOp::Read), (1, KernelOp::Write), (2, KernelOp::Flush), (3, KernelOp::Discard)];
        for (bits, expected) in known {
            assert_eq!(op(bits), expected);
            // Flags of priority change nothing.
            assert_eq!(op(bits | 7 << 8 | 1 << 11 | 1 << 16), expected);
        }
        assert_eq!(op(5), KernelOp::WriteZeroes { keep: false });
        assert_eq!(op(5 | 1 << 15), KernelOp::WriteZeroes { keep: true });
        for unknown in [4, 6, 10, 13, 15, 18, 255] {
            assert_eq!(op(unknown), KernelOp::Unknown(unknown as u8));
        }
    }

    #[test]
    fn write_through_is_decoded() {
        for op in [1, 3, 5] {
            assert!(!KernelRequest::decode(0, op, 0, 8).through);
            assert!(KernelRequest::decode(0, op | 1 << 13, 0, 8).through);
        }
        let request = KernelRequest::decode(63, 1, u64::MAX, u32::MAX);
        assert_eq!((request.tag, request.first, request.count), (63, u64::MAX, u32::MAX));
    }

    /// The numbers of `linux/include/uapi/asm-generic/errno*.h`; each has a status of its own in the block layer or
    /// is an I/O error there.
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
