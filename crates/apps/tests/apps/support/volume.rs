//! The host's side of a volume with snapshots: carries out the steps of a foreground write on the medium.

use super::{Naive, SECTOR, at, first_bad};
use freeblock_apps::snapshot::{Bytes, Step};

/// Carries out one step; returns whether the medium could be read or written. `read` has the bytes of the preceding
/// read, `data` those of the foreground.
pub fn carry_out(host: &mut Naive, step: Step, read: &mut Vec<u8>, data: &[u8]) -> bool {
    match step {
        Step::Read(from) => {
            *read = host.bytes(from).to_vec();
            first_bad(&host.bad, from).is_none()
        }
        Step::Write { to, .. } if first_bad(&host.bad, to).is_some() => false,
        Step::Write { to, bytes } => {
            let len = at(to).len();
            let source = match bytes {
                Bytes::Read => read.clone(),
                Bytes::Zeros => vec![0; len],
                Bytes::Data { from } => data[from.get() as usize * SECTOR..][..len].to_vec(),
            };
            host.bytes_mut(to).copy_from_slice(&source);
            true
        }
        Step::Record(_) => true,
    }
}
