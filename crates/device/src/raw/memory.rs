//! Operations on files in memory, executed at once without a ring.

use crate::ring::{Ended, Make, Token, Work};
use rustix::fs::{FallocateFlags, fallocate};
use std::io;

/// Executes an operation. Write-through needs nothing more, because there is no medium.
pub(super) fn carry_out(mut work: Work) -> Ended {
    let result = match &mut work {
        Work::ReadAt(file, buffer, part, at) => {
            let part = buffer.get_mut(part.clone()).unwrap_or_default();
            rustix::io::pread(&*file, part, *at)
        }
        Work::WriteAt(file, buffer, part, at, _) => {
            rustix::io::pwrite(&*file, buffer.get(part.clone()).unwrap_or_default(), *at)
        }
        Work::Make(file, make, at, bytes) => {
            let flags = match make {
                Make::Zeroes => FallocateFlags::ZERO_RANGE,
                Make::Hole | Make::Anything => FallocateFlags::PUNCH_HOLE,
            };
            fallocate(&*file, flags | FallocateFlags::KEEP_SIZE, *at, *bytes).map(|()| 0)
        }
        Work::Sync(file) => rustix::fs::fdatasync(&*file).map(|()| 0),
        Work::Accept(_)
        | Work::Receive(..)
        | Work::Send(..)
        | Work::Readable(_)
        | Work::HangUp(_)
        | Work::Close(_) => Err(rustix::io::Errno::NOTSUP),
    };
    Ended { token: Token::none(), work, result: result.map_err(io::Error::from), client: None }
}
