//! A log in Parquet: a build with the feature writes it, and pyarrow reads the rows of the log in CSV (docs/SIMULATE.md).

use crate::support::Dir;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PYARROW: &str = "pyarrow==26.0.1";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Compares the logs named by the arguments, column by column.
const COMPARE: &str = r"
import csv, sys
import pyarrow.parquet
with open(sys.argv[1]) as file:
    rows = list(csv.DictReader(file))
table = pyarrow.parquet.read_table(sys.argv[2])
assert table.column_names == list(rows[0]), table.column_names
assert table.num_rows == len(rows) == int(sys.argv[3]), table.num_rows
text = {True: '1', False: '0'}
for name in table.column_names:
    found = [text[value] if isinstance(value, bool) else str(value) for value in table[name].to_pylist()]
    assert found == [row[name] for row in rows], name
";

/// Runs a command; the error is its output.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&said)))
    }
}

/// Returns a Python with pyarrow, which is kept between runs of the test, or the reason why it cannot be had.
fn python() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pyarrow");
    let python = place.join("bin/python");
    if run(Command::new(&python).args(["-c", "import pyarrow"])).is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYARROW]))?;
    }
    Ok(python)
}

#[test]
fn pyarrow_reads_the_rows_of_a_log_in_parquet() {
    if !testing::needs_program("python3") {
        return;
    }
    let python = match python() {
        Ok(python) => python,
        Err(why) => return testing::missing(&format!("python3 with venv and {PYARROW} ({why})")),
    };
    // A target directory of its own: the other tests run the program that is built without the feature.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("parquet");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "freeblock-cli", "--features", "parquet"]);
    cargo.arg("--target-dir").arg(&target).current_dir(ROOT);
    cargo.env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS");
    run(&mut cargo).unwrap();
    let dir = Dir::new();
    let [csv, parquet] = ["log.csv", "log.parquet"].map(|name| dir.path(name));
    // Each log has more rows than a group of Parquet's.
    for log in [&csv, &parquet] {
        let args =
            "simulate --drives 2 --array concatenation --where device --requests 70000 --outstanding 4 --log";
        run(Command::new(target.join("debug/freeblock")).args(args.split(' ')).arg(log)).unwrap();
    }
    let rows = std::fs::read_to_string(&csv).unwrap().lines().count() - 1;
    assert!(rows >= 70_000);
    run(Command::new(python).args(["-c", COMPARE]).args([&csv, &parquet, &rows.to_string()])).unwrap();
}
