//! Tests that no input makes the import panic: random bytes, random tokens, and damaged parameter files. Every import must
//! end, but the time that it takes is not checked.

use crate::import_files::{CURVE, MECHANICS, Memory, g1};
use freeblock_model::DriveModel;
use freeblock_model::disksim::{ImportError, Imported};
use proptest::prelude::*;
use std::path::Path;

/// Checks that a successful import gives a working drive, and a failed one a message.
fn check(outcome: Result<Imported, ImportError>) {
    match outcome {
        Ok(imported) => {
            let model = DriveModel::from_profile(&imported.profile).unwrap();
            assert!(model.layout().capacity().get() > 0);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() > 10 && message.len() < 2_000, "{message}");
            assert!(!message.contains(['\n', '\u{7}']), "{message:?}");
        }
    }
}

/// Words of the parameter language, and extreme numbers.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "=",
    ",",
    "#",
    "\n",
    "\"",
    " ",
    "source",
    "instantiate",
    "topology",
    "as",
    "a",
    "a.seek",
    "disksim_disk",
    "dm_disk",
    "dm_layout_g1",
    "dm_layout_g1_zone",
    "dm_layout_g4",
    "dm_mech_g1",
    "TRACK",
    "IDX",
    "Model",
    "Layout Model",
    "Mechanical Model",
    "Zones",
    "TP",
    "slips",
    "Number of data surfaces",
    "Number of cylinders",
    "0",
    "1",
    "-1",
    "7",
    "4294967295",
    "18446744073709551615",
    "1e308",
    "-0.0",
    "nan",
    "0.5",
];

fn whole() -> String {
    format!(
        "disksim_disk D {{ Model = dm_disk M {{ Number of data surfaces = 2, Number of cylinders = 10,
         Layout Model = {}, Mechanical Model = {MECHANICS} }}, Bulk sector transfer time = 0.1,
         Number of buffer segments = 2 }} instantiate [ d ] as D topology disksim_disk d []",
        g1(0, 9, ", slips = [ 1, 2 ], defects = [ 3, 199 ], Number of spares = 3")
    )
}

const TREE: &str = "dm_disk M { Number of data surfaces = 2, Number of cylinders = 10,
    Layout Model = dm_layout_g4 { TP = [ 0, 7, 8, 1, 6, 8 ], IDX = [
        [ 0, 0, 0.0, 8, 1, 0.125, 16, 2, TRACK, 0, 0, 16, 1, 0.5, 8, 1, 0.125, 16, -2, TRACK, 0, 1 ],
        [ 0, 0, 0.0, 6, 1, 0.125, 12, 2, TRACK, 1, 0, 12, 1, 0.5, 6, 1, 0.125, 12, -2, TRACK, 1, 1 ],
        [ 0, 0, 0.0, 32, 2, 0.25, 96, 6, IDX, 0, 96, 6, 0.75, 24, 2, 0.25, 48, 4, IDX, 1 ] ],
        Slips = [ 3, 1 ], Remaps = [ 5, 1, 9, 0, 0, 8 ] },
    Mechanical Model = ";

/// A change to a parameter file that leaves most of the text as it is.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Remove(usize, usize),
    Insert(usize, usize),
    Byte(usize, u8),
    Swap(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        1 => any::<usize>().prop_map(Damage::Cut),
        2 => (any::<usize>(), 1_usize..20).prop_map(|(at, n)| Damage::Remove(at, n)),
        4 => (any::<usize>(), 0..TOKENS.len()).prop_map(|(at, token)| Damage::Insert(at, token)),
        3 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Damage::Swap(a, b)),
    ]
}

fn damaged(text: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for damage in damages {
        let len = bytes.len().max(1);
        match *damage {
            Damage::Cut(at) => bytes.truncate(at % len),
            Damage::Remove(at, n) => {
                let from = (at % len).min(bytes.len());
                bytes.drain(from..(from + n).min(bytes.len()));
            }
            Damage::Insert(at, token) => {
                let at = (at % len).min(bytes.len());
                let word = format!(" {} ", TOKENS[token]);
                bytes.splice(at..at, word.into_bytes());
            }
            Damage::Byte(at, byte) => {
                if let Some(b) = bytes.get_mut(at % len) {
                    *b = byte;
                }
            }
            Damage::Swap(a, b) if !bytes.is_empty() => bytes.swap(a % len, b % len),
            Damage::Swap(..) => {}
        }
    }
    bytes
}

/// Replaces a number by another: the damage that parses most often.
fn with_number(text: &str, which: usize, number: &str) -> String {
    let numbers: Vec<(usize, usize)> = {
        let mut found = Vec::new();
        let mut start = None;
        for (i, c) in text.char_indices().chain([(text.len(), ' ')]) {
            match (c.is_ascii_digit() || c == '.' || c == '-', start) {
                (true, None) => start = Some(i),
                (false, Some(from)) => {
                    found.push((from, i));
                    start = None;
                }
                _ => {}
            }
        }
        found
    };
    let (from, to) = numbers[which % numbers.len()];
    format!("{}{number}{}", &text[..from], &text[to..])
}

fn hurting_number() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "0",
            "-1",
            "1",
            "2",
            "3",
            "9",
            "65535",
            "65536",
            "99999",
            "4294967295",
            "4294967296",
            "9223372036854775807",
            "18446744073709551615",
            "1e300",
            "-1e300",
            "0.5",
            "-0.0",
        ])
        .prop_map(str::to_owned),
        (0_u64..200).prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes(text in prop::collection::vec(any::<u8>(), 0..400), curve in prop::collection::vec(any::<u8>(), 0..100)) {
        check(Memory::default().with("a", &text).import("a"));
        let memory = Memory::default().with("a", whole()).with("a.seek", &curve);
        check(memory.import("a"));
    }

    #[test]
    fn arbitrary_tokens(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..60)) {
        let memory = Memory::default().with("a", tokens.join(" ")).with("a.seek", CURVE);
        check(memory.import("a"));
    }

    #[test]
    fn damaged_texts(damages in prop::collection::vec(damage(), 1..6), tree in any::<bool>()) {
        let text = if tree { format!("{TREE}{MECHANICS} }}") } else { whole() };
        let memory = Memory::default().with("a", damaged(text.as_bytes(), &damages)).with("a.seek", CURVE);
        check(memory.import("a"));
    }

    #[test]
    fn damaged_numbers(
        changes in prop::collection::vec((any::<usize>(), hurting_number()), 1..4),
        scheme in 0_u32..11,
        tree in any::<bool>(),
    ) {
        let mut text = if tree {
            format!("{TREE}{MECHANICS} }}")
        } else {
            whole().replace("scheme used = 9", &format!("scheme used = {scheme}"))
        };
        for (which, number) in &changes {
            text = with_number(&text, *which, number);
        }
        check(Memory::default().with("a", text).with("a.seek", CURVE).import("a"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn damaged_files_of_real_drives(
        which in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..8),
        numbers in prop::collection::vec((any::<usize>(), hurting_number()), 0..3),
    ) {
        let Some(directory) = testing::shared("drives/disksim") else { return Ok(()) };
        let drives = [
            ("atlas10k.parv", "atlas10k.diskspecs", "atlas10k.model", "atlas10k.seek"),
            ("cheetah4LP.parv", "cheetah4LP.diskspecs", "cheetah4LP.model", "cheetah4LP.seek"),
            ("hp_c2247a.parv", "hp_c2247a.diskspecs", "hp_c2247a_validate.model", "hp_c2247a.parv"),
            ("nearline4t/G4_LBA_64bit_4T.parv", "nearline4t/G4_LBA_64bit_4T.diskspecs", "nearline4t/G4_LBA_64bit_4T.layout", "nearline4t/G4_LBA_64bit_4T.seeks"),
        ];
        let drive = which.get(&drives);
        let files = [drive.0, drive.1, drive.2, drive.3];
        let victim = files[which.index(files.len() * drives.len()) % files.len()];
        let read = |path: &Path| -> std::io::Result<Vec<u8>> {
            let text = std::fs::read(path)?;
            if path.ends_with(victim) {
                let mut text = damaged(&text, &damages);
                if let Ok(plain) = std::str::from_utf8(&text) {
                    let mut plain = plain.to_owned();
                    for (which, number) in &numbers {
                        if plain.contains(|c: char| c.is_ascii_digit()) {
                            plain = with_number(&plain, *which, number);
                        }
                    }
                    text = plain.into_bytes();
                }
                return Ok(text);
            }
            Ok(text)
        };
        check(freeblock_model::disksim::import_from(&read, &directory.join(drive.0), None));
    }
}
