//! Pins the answers of a drive whose behaviour has every switch off: they are those of the drive that was validated against
//! traces of real drives, to the nanosecond.

use freeblock_drive::{Command, Drive, Rules};
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Returns the next number of a SplitMix64 generator, so that the requests never change.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the FNV-1a hash of the answers to 4,000 commands: random, local and sequential, with and without idle time, up
/// to `depth` at a time.
fn digest(drive: &mut Drive, depth: usize) -> u64 {
    let capacity = drive.model().layout().capacity().get();
    let mut state = 42;
    let (mut now, mut last) = (Instant::ZERO, 0);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |x: u64| hash = (hash ^ x).wrapping_mul(0x0100_0000_01b3);
    for i in 0..4_000 {
        let len = 1 + next(&mut state) % 40;
        let start = match next(&mut state) % 4 {
            0 => last,
            1 => (last + next(&mut state) % 600).saturating_sub(300),
            _ => next(&mut state) % capacity,
        };
        let start = start.min(capacity - len);
        last = start + len;
        let op = if next(&mut state).is_multiple_of(3) { Op::Write } else { Op::Read };
        let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
        drive.submit(now, Command { id: RequestId::new(i), op, range }).unwrap();
        while drive.outstanding() >= depth {
            now = drive.next_event().unwrap();
            drive.advance(now);
            while let Some(done) = drive.pop_completion() {
                let b = done.breakdown;
                mix(done.at.as_nanos());
                mix(b.served as u64);
                mix(b.submitted.as_nanos());
                mix(b.seek.as_nanos());
                mix(b.latency.as_nanos());
            }
        }
        if next(&mut state).is_multiple_of(2) {
            now += Duration::from_micros(next(&mut state) % 30_000);
        }
    }
    hash
}

#[test]
fn the_validated_drive_answers_as_before_the_black_box() {
    // Hashes of the drive before behaviours were added (commit f70cc7d). Those of the Ultrastar with the rules of real drives
    // are newer: they include the rule that a write empties the segments that it overlaps (docs/MODEL.md, 4.11).
    let golden: &[(&str, usize, u64, u64)] = &[
        ("quantum-atlas-10k", 1, 0x8e47_1f50_045a_4399, 0x4f62_bc69_d84f_b259),
        ("quantum-atlas-10k", 3, 0xa752_965b_72dc_86d9, 0xff0d_b2c4_5de5_3805),
        ("seagate-cheetah-4lp", 1, 0x94cc_94a9_b7ab_1337, 0x3335_e591_b735_bca6),
        ("seagate-cheetah-4lp", 3, 0x7abd_a653_8339_7775, 0x3989_468e_7c8b_3a5c),
        ("seagate-cheetah-9lp", 1, 0xdcdb_9085_19e3_545e, 0x3074_29c6_7e8d_2af5),
        ("seagate-cheetah-9lp", 3, 0x168d_eec6_b0be_b377, 0x69a0_f469_1bd8_9918),
        ("seagate-cheetah-18lp", 1, 0x5ce6_46ec_e0d9_beb9, 0x1150_6583_75ce_8a1d),
        ("seagate-cheetah-18lp", 3, 0xfa44_868d_5b46_029b, 0xc2a7_fa6b_9644_7f3f),
        ("ibm-ultrastar-9es", 1, 0x1c1e_019b_b76d_e960, 0x182a_d3ea_b23e_2764),
        ("ibm-ultrastar-9es", 3, 0x67ac_e1ce_9f36_6f0f, 0xe07d_7127_88c5_1b1b),
        ("mimic-base", 1, 0x0071_4a5f_a2b7_b804, 0x18bf_4440_4120_431f),
        ("mimic-base", 3, 0x3772_bec5_2ab0_b61a, 0x33e6_403b_789f_7066),
        ("mimic-fast-seek", 1, 0x2c2d_9aa8_99bc_3cb6, 0x7cec_aa5c_fe35_2880),
        ("mimic-fast-seek", 3, 0xd1a4_8262_1fe0_50ff, 0x7406_14dc_165c_8ce6),
        ("mimic-slow-seek", 1, 0x8b1e_da6a_93ab_6c7f, 0x20b3_0b9f_d47c_4444),
        ("mimic-slow-seek", 3, 0xaea9_50b2_76e1_745d, 0xb37f_9830_347e_eb47),
        ("mimic-fast-rotate", 1, 0x914a_a7f4_6abc_015c, 0xa0d0_5206_00de_ff70),
        ("mimic-fast-rotate", 3, 0x42af_3e04_2d2a_9ce2, 0x05fa_5b45_2203_74f3),
        ("mimic-slow-rotate", 1, 0x3e32_e3e5_08e4_0b6b, 0x2067_af8d_71cd_7ed3),
        ("mimic-slow-rotate", 3, 0x90a1_4ec8_aa89_6940, 0xdbfa_1e9f_504e_e4e8),
        ("mimic-fast-seek-rotate", 1, 0xec79_02ca_3fba_34e0, 0xa2a7_26c7_f61e_70fb),
        ("mimic-fast-seek-rotate", 3, 0xaa94_4f84_ffe6_4579, 0xfc8f_b5d5_541c_8d5c),
        ("mimic-more-capacity", 1, 0x777f_14d5_8c72_8730, 0x204e_e64a_0db5_376c),
        ("mimic-more-capacity", 3, 0xb7e1_c687_5c98_e665, 0xd634_1f66_a807_c7b3),
        ("mimic-less-capacity", 1, 0x621d_5d3a_3d69_c2c3, 0xd3f1_c7fc_bcc5_05c6),
        ("mimic-less-capacity", 3, 0x798c_9651_64e4_78a2, 0xa1ec_aae4_4496_b9a8),
        ("desktop-2tb", 1, 0xcda9_f7a1_fa8a_f30f, 0x7a55_cd85_a9a2_a6ca),
        ("desktop-2tb", 3, 0xfe07_d896_54c8_ec9a, 0x2798_a1b1_f5e0_478e),
        ("nearline-4tb", 1, 0xa900_0f23_0ccd_ede2, 0x2029_fc15_c6fd_6503),
        ("nearline-4tb", 3, 0x35d4_a638_28ed_e601, 0xc7a7_adcf_17ec_6a86),
        ("nearline-20tb", 1, 0xf058_ec94_8e59_f19e, 0xfe5a_9454_342f_af47),
        ("nearline-20tb", 3, 0x1c5b_c0f5_cc8c_dbe2, 0x9670_b08b_8296_9fa9),
    ];
    for name in model::builtin::names() {
        let mut profile = model::builtin::find(name).unwrap();
        let Some(firmware) = &mut profile.firmware else { continue };
        firmware.queue_depth = 3;
        for depth in [1, 3] {
            let answers = [Rules::HARDWARE, Rules::DISKSIM]
                .map(|rules| digest(&mut Drive::with_rules(&profile, rules).unwrap(), depth));
            let expected = golden.iter().find(|g| g.0 == *name && g.1 == depth);
            assert_eq!(
                expected.map(|g| [g.2, g.3]),
                Some(answers),
                "{name}, {depth} at a time: {answers:#x?}"
            );
        }
    }
}
