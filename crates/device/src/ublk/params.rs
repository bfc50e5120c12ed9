//! Converts a plan into the driver's parameters.

use super::{UblkError, UblkPlan};
use crate::kernel::KERNEL_SECTOR;
use libublk::sys;

/// The most requests of a device in flight.
pub(super) const DEPTH: u16 = 64;

/// The most bytes of a read or write. The queue has a buffer of this size for each of [`DEPTH`] requests, 16
/// MiB in all.
pub(super) const TRANSFER_BYTES_MAX: u32 = 256 << 10;

/// The most kernel sectors of a discard or a zeroing: a gigabyte, which is divided into pieces before it
/// reaches the disk.
const ZEROED_SECTORS_MAX: u32 = 1 << 21;

/// Returns the device's parameters for the kernel.
pub(super) fn params(plan: &UblkPlan) -> Result<sys::ublk_params, UblkError> {
    let sector = plan.sector.get();
    if !sector.is_power_of_two() || !(512..=4096).contains(&sector) {
        return Err(UblkError::Sector(sector));
    }
    let shift = sector.trailing_zeros() as u8;
    let can = plan.abilities;
    // Every device has flush and write-through. A device without a volatile cache completes a flush at once.
    let mut attrs = sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA;
    if can.rotational {
        attrs |= sys::UBLK_ATTR_ROTATIONAL;
    }
    if plan.read_only {
        attrs |= sys::UBLK_ATTR_READ_ONLY;
    }
    Ok(sys::ublk_params {
        types: sys::UBLK_PARAM_TYPE_BASIC | sys::UBLK_PARAM_TYPE_DISCARD,
        basic: sys::ublk_param_basic {
            attrs,
            logical_bs_shift: shift,
            physical_bs_shift: shift,
            io_opt_shift: shift,
            io_min_shift: shift,
            max_sectors: TRANSFER_BYTES_MAX / KERNEL_SECTOR.get() as u32,
            dev_sectors: plan.sectors.get().saturating_mul(sector / KERNEL_SECTOR.get()),
            ..Default::default()
        },
        discard: sys::ublk_param_discard {
            discard_granularity: sector as u32,
            max_discard_sectors: if can.discard { ZEROED_SECTORS_MAX } else { 0 },
            max_write_zeroes_sectors: ZEROED_SECTORS_MAX,
            max_discard_segments: 1,
            ..Default::default()
        },
        ..Default::default()
    })
}

/// Returns whether two sets of parameters are equal, without the fields that the kernel sets itself.
pub(super) fn same(ours: &sys::ublk_params, theirs: &sys::ublk_params) -> bool {
    let basic = |p: &sys::ublk_params| {
        let basic = p.basic;
        (basic.attrs, basic.logical_bs_shift, basic.physical_bs_shift, basic.max_sectors, basic.dev_sectors)
    };
    let discard = |p: &sys::ublk_params| {
        let discard = p.discard;
        (discard.discard_granularity, discard.max_discard_sectors, discard.max_write_zeroes_sectors)
    };
    basic(ours) == basic(theirs) && discard(ours) == discard(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Abilities;
    use units::{Bytes, Sectors};

    fn plan(sector: u64, sectors: u64) -> UblkPlan {
        let (sector, sectors) = (Bytes::new(sector), Sectors::new(sectors));
        let abilities = Abilities { discard: true, write_zeroes: true, volatile: true, rotational: true };
        UblkPlan { number: 0, owner: 1, sector, sectors, abilities, read_only: false }
    }

    #[test]
    fn the_kernel_counts_in_sectors_of_its_own() {
        for (sector, shift) in [(512, 9), (1024, 10), (2048, 11), (4096, 12)] {
            let params = params(&plan(sector, 1000)).unwrap();
            assert_eq!(params.basic.logical_bs_shift, shift);
            assert_eq!(params.basic.dev_sectors * 512, sector * 1000);
        }
        for sector in [0, 256, 520, 8192] {
            assert!(params(&plan(sector, 1000)).is_err(), "{sector}");
        }
    }

    #[test]
    fn unsupported_commands_are_not_offered() {
        let full = params(&plan(512, 8)).unwrap();
        assert_eq!(full.basic.attrs, 0b1110);
        assert!(full.discard.max_discard_sectors > 0);
        let bare = UblkPlan { abilities: Abilities::default(), read_only: true, ..plan(512, 8) };
        let bare = params(&bare).unwrap();
        assert_eq!(bare.basic.attrs, 0b1101);
        assert_eq!(bare.discard.max_discard_sectors, 0);
        assert!(bare.discard.max_write_zeroes_sectors > 0, "they are written");
        assert!(!same(&full, &bare) && same(&full, &full));
    }

    #[test]
    fn our_words_are_libublks() {
        use crate::kernel::bits;
        let ops = [bits::READ, bits::WRITE, bits::FLUSH, bits::DISCARD, bits::WRITE_ZEROES].map(u32::from);
        let theirs = [
            sys::UBLK_IO_OP_READ,
            sys::UBLK_IO_OP_WRITE,
            sys::UBLK_IO_OP_FLUSH,
            sys::UBLK_IO_OP_DISCARD,
            sys::UBLK_IO_OP_WRITE_ZEROES,
        ];
        assert_eq!(ops, theirs);
        assert_eq!([bits::FUA, bits::NOUNMAP], [sys::UBLK_IO_F_FUA, sys::UBLK_IO_F_NOUNMAP]);
    }
}
