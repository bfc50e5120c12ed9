//! Tests that the messages for invalid parameter files name the place and the remedy.

use crate::import_files::{CURVE, MECHANICS, Memory, g1, model};
use freeblock_model::disksim::{self, ImportError};
use std::path::Path;

/// Returns the message for `a.model` with this layout, which is on line 2 of the file; the mechanics are on line 3.
fn refused(layout: &str) -> String {
    model(layout).import("a.model").unwrap_err().to_string()
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

#[test]
fn a_file_that_is_not_there() {
    assert_says(
        &Memory::default().import("a.parv").unwrap_err().to_string(),
        &["cannot read a.parv", "check the path"],
    );
    let error = disksim::import(Path::new("/nonexistent/a.parv")).unwrap_err();
    assert!(matches!(error, ImportError::Unreadable { .. }), "{error}");
}

#[test]
fn a_sourced_file_that_is_not_there_is_named_with_its_place() {
    let memory = Memory::default().with("dir/a.parv", "# disks\n  source disks/b.diskspecs\n");
    let error = memory.import("dir/a.parv").unwrap_err();
    let ImportError::UnreadableSource { place, path, .. } = &error else { panic!("{error}") };
    assert_eq!(place.to_string(), "dir/a.parv:2:3");
    assert_eq!(path, Path::new("dir/disks/b.diskspecs"));
    let seek = model(&g1(0, 9, "")).with("a.model", format!("dm_disk A {{ Number of data surfaces = 1, Number of cylinders = 10, Layout Model = {}, Mechanical Model = {} }}", g1(0, 9, ""), MECHANICS.replace("a.seek", "none.seek")));
    assert_says(
        &seek.import("a.model").unwrap_err().to_string(),
        &["a.model:", "none.seek", "put the file there"],
    );
}

#[test]
fn a_file_that_sources_itself() {
    let memory = Memory::default().with("a.parv", "source b.parv").with("b.parv", "\nsource a.parv");
    let error = memory.import("a.parv").unwrap_err();
    let ImportError::SelfSourcing { place, .. } = &error else { panic!("{error}") };
    assert_eq!((place.line, place.column), (2, 1));
    assert_says(&error.to_string(), &["source itself for ever", "remove this `source`"]);
    let roundabout = Memory::default().with("a.parv", "source ./a.parv").with("./a.parv", "");
    assert!(matches!(roundabout.import("a.parv"), Err(ImportError::SelfSourcing { .. })));
    // An endless chain of files, each of which sources a new one.
    let endless =
        |path: &Path| -> std::io::Result<Vec<u8>> { Ok(format!("source x{}", path.display()).into_bytes()) };
    let error = disksim::import_from(&endless, Path::new("a"), None).unwrap_err();
    assert_says(&error.to_string(), &["source one another in a chain"]);
    // A file may be sourced twice, but sixteen levels at which each file sources the next one twice would be 65,536 files.
    let doubling = |path: &Path| -> std::io::Result<Vec<u8>> {
        Ok(format!("source x{0} source x{0}", path.display()).into_bytes())
    };
    assert!(disksim::import_from(&doubling, Path::new("a"), None).is_err());
    let shared = Memory::default().with("a.parv", "source b.parv source b.parv").with("b.parv", "foo X { }");
    assert!(matches!(shared.import("a.parv"), Err(ImportError::NoDisk { .. })));
}

#[test]
fn syntax_errors_name_line_and_column_expected_and_found() {
    let cases = [
        ("foo X {\n  a = 1,\n", "3:1", "`}` to close `foo` of line 1", "the end of the file"),
        ("foo X { a = [ 1, 2 }", "1:20", "`]` to close the list of line 1", "`}`"),
        ("foo X {\n  a 1,\n}", "2:6", "`=` after `a 1`", "`,`"),
        ("foo X {\n  a = ,\n}", "2:7", "a value for `a`", "`,`"),
        ("foo X { a = 1 b = 2 }", "1:17", "`,` after the value of `a`", "`=`"),
        ("foo X { = 2 }", "1:9", "the name of a parameter", "`=`"),
        ("foo X a", "1:7", "`{` after `foo`", "`a`"),
        ("foo X { } }", "1:11", "a block such as", "`}`"),
        ("instantiate [ a ] X", "1:19", "`as`", "`X`"),
        ("instantiate [ a ] as\n", "2:1", "the name of a specification", "the end of the file"),
        ("topology a [", "1:12", "the name of a component", "`[`"),
        ("foo X { a = \"b\n\" }", "1:15", "a closing `\"`", "the end of the line"),
        ("source\n", "2:1", "the name of a file", "the end of the file"),
        ("foo X { ä = [ é \u{7}{{ ] }", "1:19", "the name of a parameter", "`{`"),
    ];
    for (text, place, expected, found) in cases {
        let error = Memory::default().with("a.parv", text).import("a.parv").unwrap_err();
        assert!(matches!(error, ImportError::Syntax { .. }), "{text}: {error}");
        assert_says(
            &error.to_string(),
            &[&format!("a.parv:{place}: expected"), expected, &format!("found {found}")],
        );
    }
}

#[test]
fn deep_nesting_is_refused_before_the_stack_is_full() {
    for text in [
        "a b { c = ".to_owned() + &"[".repeat(1_000_000),
        "a b { c = ".to_owned() + &"d { c = ".repeat(500_000),
        "topology ".to_owned() + &"a b [ ".repeat(500_000),
    ] {
        let error = Memory::default().with("a", text).import("a").unwrap_err();
        assert_says(&error.to_string(), &["nested more than 64 deep", "missing closing bracket"]);
    }
}

#[test]
fn the_choice_of_disks_is_explained() {
    let disk = |name: &str| format!("disksim_disk {name} {{ }}\n");
    let both = disk("ONE") + &disk("TWO");
    let error = Memory::default().with("a", &both).import("a").unwrap_err();
    assert!(
        matches!(&error, ImportError::Ambiguous { choices, .. } if choices == &["ONE", "TWO"]),
        "{error}"
    );
    let error = Memory::default()
        .with("a", both.clone() + "instantiate [a] as ONE instantiate [b] as TWO")
        .import("a")
        .unwrap_err();
    assert_says(&error.to_string(), &["ONE, TWO", "`instantiate` only one"]);
    let error = Memory::default().with("a", &both).import_disk("a", Some("THREE")).unwrap_err();
    assert_says(&error.to_string(), &["no disk is called `THREE`", "ONE, TWO"]);
    let error = Memory::default().with("a", "disksim_bus B { }").import("a").unwrap_err();
    assert!(matches!(error, ImportError::NoDisk { .. }), "{error}");
    let error = Memory::default().with("a", "disksim_simpledisk S { }").import("a").unwrap_err();
    assert_says(&error.to_string(), &["a:1:1", "`disksim_simpledisk` is not a disk"]);
    let error = Memory::default().with("a", "disksim_disk S { Model = M }").import("a").unwrap_err();
    assert_says(&error.to_string(), &["a:1:26", "no `dm_disk` is called `M`"]);
}

#[test]
fn missing_parameters_are_named() {
    let error = Memory::default().with("a", "\ndm_disk D { }").import("a").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a:2:1: `D` has no `Number of data surfaces`; add `Number of data surfaces = ...` to it"
    );
    assert_says(
        &refused("dm_layout_g1 { LBN-to-PBN mapping scheme = 0 }"),
        &["has no `Sparing scheme used`"],
    );
}

#[test]
fn layouts_that_make_no_sense() {
    let zone = |text: &str| {
        format!(
            "dm_layout_g1 {{ LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9, Zones = [ {text} ] }}"
        )
    };
    let one = |first: i64, last: i64, spt: &str, extra: &str| {
        format!(
            "dm_layout_g1_zone {{ First cylinder number = {first}, Last cylinder number = {last}, Blocks per track = {spt} {extra} }}"
        )
    };
    let cases: [(String, &[&str]); 18] = [
        (
            zone(&(one(0, 5, "10", "") + &one(5, 9, "10", ""))),
            &["begins at cylinder 5", "ends at 5", "without overlap"],
        ),
        (zone(&one(5, 2, "10", "")), &["last cylinder 2 lies before its first, 5"]),
        (zone(&one(-1, 2, "10", "")), &["`First cylinder number` is -1", "from 0 to"]),
        (zone(&one(0, 9, "0", "")), &["`Blocks per track` is 0", "from 1 to"]),
        (zone(&one(0, 9, "-10", "")), &["`Blocks per track` is -10"]),
        (zone(&one(0, 9, "9.5", "")), &["`9.5`, which is not a whole number"]),
        (zone(&one(0, 9, "ten", "")), &["`ten`, which is no number"]),
        (zone(&one(0, 9, "[ 1 ]", "")), &["`Blocks per track` is a list"]),
        (zone(&one(0, 9, "10", ", Number of spares = 200")), &["leave no LBN"]),
        (
            zone(&one(0, 9, "10", ", Empty space at zone front = 18446744073709551615")),
            &["from 0 to 9223372036854775807"],
        ),
        (zone(&one(0, 9, "10", ", slips = [ 200 ]")), &["`slips` is 200", "from 0 to 199"]),
        (zone(&one(0, 9, "10", ", defects = [ 1 ]")), &["a defect without its replacement"]),
        (
            zone(&one(0, 9, "10", ", Skew units = degrees")),
            &["unknown unit of skew", "`sectors` or `revolutions`"],
        ),
        (zone(&one(0, 4_294_967_290, "10", "")), &["4294967291 cylinders"]),
        (zone(""), &["there is no zone"]),
        (g1(3, 9, ""), &["`LBN-to-PBN mapping scheme` is 3", "from 0 to 2"]),
        (g1(0, 11, ""), &["`Sparing scheme used` is 11", "from 0 to 10"]),
        (
            "dm_layout_g2 { }".into(),
            &["a block of type `dm_layout_g2` is not supported", "`dm_layout_g1` or `dm_layout_g4`"],
        ),
    ];
    for (layout, parts) in cases {
        let message = refused(&layout);
        assert_says(&message, parts);
        assert!(
            message.starts_with("a.model:2:")
                || message.starts_with("a.model:3:")
                || message.starts_with("a.model:1:")
                || message.starts_with("a.model:4:"),
            "{message}"
        );
    }
}

#[test]
fn trees_that_make_no_sense() {
    let tree = |tracks: &str, index: &str| format!("dm_layout_g4 {{ TP = [ {tracks} ], IDX = [ {index} ] }}");
    let cases: [(&str, &str, &[&str]); 12] = [
        ("0, 7, 8", "", &["IDX is empty"]),
        ("0, 7, 8", "[ ]", &["the root of IDX is empty"]),
        ("0, 7", "[ ]", &["TP ends within a row"]),
        ("0, 7, 8", "[ 0, 0, 0.0 ]", &["the row of IDX is incomplete"]),
        ("0, 7, 8", "[ 0, 0, 0.0, 8, 1, 0.1, 80, 10, TRACK, 1, 0 ]", &["there is no row 1 in TP"]),
        ("0, 7, 8", "[ 0, 0, 0.0, 8, 1, 0.1, 80, 10, TRACK, 0 ]", &["a track without its head"]),
        ("0, 7, 8", "[ 0, 0, 0.0, 9, 1, 0.1, 90, 10, TRACK, 0, 0 ]", &["9 LBNs do not fit on a track of 8"]),
        ("0, 7, 8", "[ 0, 0, 0.0, 8, 1, 0.1, 80, 10, LEAF, 0, 0 ]", &["`LEAF`", "TRACK or IDX"]),
        (
            "0, 7, 8",
            "[ 4, 0, 0.0, 8, 1, 0.1, 80, 10, TRACK, 0, 0 ]",
            &["begins at LBN 4", "without gap or overlap"],
        ),
        ("0, 7, 8", "[ 0, 0, 0.0, 8, 1, 0.1, 80, -10, TRACK, 0, 0 ]", &["the run leaves the drive"]),
        ("0, 7, 8", "[ 0, 0, 0.0, 8, 1, 0.1, 80, 10, IDX, 0 ]", &["levels deep", "must not contain itself"]),
        ("0, 7, 8", "[ 0, 0, 0.0, 8, 1, 0.1, 80, 10, IDX, 3 ]", &["there is no node 3"]),
    ];
    for (tracks, index, parts) in cases {
        assert_says(&refused(&tree(tracks, index)), parts);
    }
}

#[test]
fn mechanics_that_make_no_sense() {
    let mechanics = |from: &str, to: &str| {
        let memory = Memory::default().with("a.seek", CURVE).with(
            "a.model",
            format!("dm_disk A {{ Number of data surfaces = 2, Number of cylinders = 10, Layout Model = {},\nMechanical Model = {} }}", g1(0, 9, ""), MECHANICS.replace(from, to)),
        );
        memory.import("a.model").unwrap_err().to_string()
    };
    for kind in ["linear", "curve", "constant", "hpl"] {
        let message = mechanics("= extracted", &format!("= {kind}"));
        assert_says(&message, &[kind, "do not work in DiskSim", "`extracted`", "`hplplus10`"]);
    }
    assert_says(
        &mechanics("6000", "6000.5"),
        &["`Rotation speed (in rpms)` is `6000.5`", "not a whole number"],
    );
    assert_says(&mechanics("6000", "0"), &["from 1 to 100000"]);
    assert_says(&mechanics("0.5", "nan"), &["`Head switch time` is `nan`"]);
    assert_says(&mechanics("= extracted", "= hplplus10"), &["has no `HPL seek equation values`"]);
    assert_says(&mechanics("dm_mech_g1", "dm_mech_g2"), &["use `dm_mech_g1`"]);
}

#[test]
fn seek_curves_that_make_no_sense() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("", "1:1", &["`Seek distances measured: N`", "the end of the file"]),
        ("1; 2.0\n", "1:1", &["`Seek distances measured: N` or `cylinders, milliseconds`", "`1; 2.0`"]),
        ("1, 2.0\n5, x\n", "2:1", &["`cylinders, milliseconds`", "`5, x`"]),
        ("Seek distances measured: 2\n1, 2.0\n", "3:1", &["2 seek times", "found 1", "cut off"]),
        ("Seek distances measured: 1\n\n  x, 2.0\n", "3:3", &["`cylinders, milliseconds`", "`x, 2.0`"]),
        ("Seek distances measured: 1\n1, -2.0\n", "2:1", &["`1, -2.0`"]),
        (
            "Seek distances measured: 2\n5, 2.0\n5, 2.0\n",
            "3:1",
            &["distance 5 follows distance 5", "ascending"],
        ),
        ("Seek distances measured: 99999999999\n", "1:1", &["say how many lines follow"]),
    ];
    for (curve, place, parts) in cases {
        let message = model(&g1(0, 9, "")).with("a.seek", curve).import("a.model").unwrap_err().to_string();
        assert_says(&message, &[&format!("a.seek:{place}:")]);
        assert_says(&message, parts);
    }
}

#[test]
fn electronics_that_make_no_sense() {
    let disk = |field: &str| {
        let text = format!(
            "disksim_disk D {{ Model = dm_disk M {{ Number of data surfaces = 2, Number of cylinders = 10,
             Layout Model = {}, Mechanical Model = {MECHANICS} }},\n{field} }}",
            g1(0, 9, "")
        );
        Memory::default().with("a", text).with("a.seek", CURVE).import("a")
    };
    let says = |field: &str, parts: &[&str]| assert_says(&disk(field).unwrap_err().to_string(), parts);
    says("Buffer continuous read = 5", &["`Buffer continuous read` is 5", "from 0 to 4"]);
    says("Fast write level = 3", &["from 0 to 2"]);
    says("High (read) water mark = 1.5", &["a share from 0 to 1"]);
    says("Hold bus entire read xfer = 2", &["from 0 to 1"]);
    says("Time scale for overheads = -1", &["overheads scaled by -1"]);
    says("Read-ahead over requested = 99999999999", &["too large"]);
    let notes = disk("Colour = blue, Never disconnect = 1, Read completion overhead = -0.1").unwrap().notes;
    for part in [
        "unknown parameter `Colour`",
        "`Never disconnect` is ignored",
        "-0.1 ms; taken as 0",
        "not given, taken at their defaults: ",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{notes:?} lack `{part}`");
    }
}
