//! Requests of this machine's kernel for a block device that this program serves, and their answers.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Bytes;

/// The unit of the kernel's sector numbers and counts, whatever the device's own sectors are.
pub const KERNEL_SECTOR: Bytes = Bytes::new(512);

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelOp {
    /// Reads the bytes.
    Read,
    /// Writes the bytes.
    Write,
    /// Puts all acknowledged writes on the medium.
    Flush,
    /// Discards the bytes, whose content is undefined afterwards.
    Discard,
    /// Makes the bytes zero.
    WriteZeroes {
        /// Whether the space must stay allocated.
        keep: bool,
    },
    /// An operation that the device does not offer.
    Unknown(u8),
}

/// A request of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRequest {
    /// The request's number, which the kernel uses again after the answer.
    pub tag: u16,
    /// The operation.
    pub op: KernelOp,
    /// Whether the bytes must be on the medium before the answer.
    pub through: bool,
    /// The number of the first [`KERNEL_SECTOR`].
    pub first: u64,
    /// The number of sectors of that size.
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

/// Constants of `linux/ublk_cmd.h`, which belong to the kernel's stable interface. A build with libublk compares
/// them with libublk's.
pub(crate) mod bits {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const FLUSH: u8 = 2;
    pub const DISCARD: u8 = 3;
    pub const WRITE_ZEROES: u8 = 5;
    pub const FUA: u32 = 1 << 13;
    pub const NOUNMAP: u32 = 1 << 15;
}

/// The reason why a request failed, in the categories of the kernel's block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A sector is bad ("critical medium error").
    Medium,
    /// The request failed.
    Io,
    /// The device did not answer in time.
    Timeout,
    /// The device is full.
    NoSpace,
    /// The request is invalid for this device.
    Invalid,
    /// The operation is not supported.
    NotSupported,
    /// The request is not permitted now.
    NotPermitted,
}

impl KernelError {
    /// Returns the errno for this error, which the kernel's `errno_to_blk_status` turns into a status of the block
    /// layer.
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

/// A source of the kernel's requests. No call blocks, and all calls are made on one thread.
///
/// When [`descriptor`](Self::descriptor) becomes readable, the host calls [`exchange`](Self::exchange), and then
/// [`next`](Self::next) until there is no request. Each request is [answered](Self::answer) once, in any order. The
/// answers are sent by the next `exchange`.
pub trait KernelQueue: Debug {
    /// Returns the descriptor that becomes readable when requests have arrived.
    fn descriptor(&self) -> Arc<OwnedFd>;

    /// Sends the answers, and receives new requests. Returns `false` once the kernel has released the device, after
    /// which no request arrives.
    ///
    /// # Errors
    /// An error of the kernel.
    fn exchange(&mut self) -> io::Result<bool>;

    /// Returns the next request that has arrived.
    fn next(&mut self) -> Option<KernelRequest>;

    /// Answers a request. The answer to a read has all of its bytes.
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
            // Flags, such as that of priority, do not change the operation.
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

    /// The numbers of `linux/include/uapi/asm-generic/errno*.h`. Each of them has a status of its own in the block
    /// layer, or is an I/O error there.
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
