//! The wheel of the Python module, built once and installed into an environment of its own (docs/PYTHON.md).

use crate::support::Dir;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tools that build the wheel and check its types.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "mypy==2.4.1"];

/// The packages that the checks use: one reads tables, and one has a cluster.
const PACKAGES: [&str; 2] = ["nanoarrow==0.9.0", "distributed==2026.8.0"];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a command; the error is its output.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {}\n{said}", output.status)) }
}

/// Returns an environment with the tools, which is kept between runs of the test, or the reason why it cannot be had.
fn tools() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-tools");
    let stamp = place.join("installed");
    let wanted = [TOOLS, PACKAGES].concat().join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        return Ok(place);
    }
    let _ = std::fs::remove_dir_all(&place);
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let pip = || {
        let mut pip = Command::new(place.join("bin/pip"));
        pip.args(["--quiet", "--disable-pip-version-check"]);
        pip
    };
    run(pip().arg("install").args(TOOLS))?;
    // The clean environment gets these without the network.
    run(pip().arg("download").args(PACKAGES).arg("--dest").arg(place.join("packages")))?;
    // maturin reads the metadata of all dependencies, those for other systems included.
    run(Command::new(env!("CARGO")).args(["fetch", "--locked", "--quiet"]).current_dir(ROOT))?;
    std::fs::write(stamp, wanted).map_err(|error| error.to_string())?;
    Ok(place)
}

/// Returns the blocks of Python in a document.
fn recipes(document: &str) -> Vec<String> {
    let blocks = document.split("```python\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0.to_owned())).collect()
}

#[test]
fn the_wheel_works_in_a_clean_environment() {
    if !testing::needs_program("python3") {
        return;
    }
    let tools = match tools() {
        Ok(tools) => tools,
        Err(why) => return testing::missing(&format!("python3 with venv and {} ({why})", TOOLS.join(", "))),
    };
    let dir = Dir::new();
    let (wheels, clean) = (dir.path("wheels"), dir.path("clean"));
    // The profile of the tests, so that their products are used again.
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args(["build", "--quiet", "--locked", "--profile", "dev", "--strip", "--auditwheel", "skip"]);
    maturin.args(["--out", &wheels]).current_dir(format!("{ROOT}/clients/python"));
    // The jobs of a `make` around the test are not for this command.
    maturin.env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS").env("VIRTUAL_ENV", &tools);
    run(&mut maturin).unwrap();

    run(Command::new("python3").args(["-m", "venv", &clean])).unwrap();
    let mut pip = Command::new(format!("{clean}/bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links"]);
    pip.arg(tools.join("packages")).args(["--find-links", &wheels, "freeblock", "nanoarrow", "distributed"]);
    run(&mut pip).unwrap();

    let python = |script: &str, arguments: &[&str]| {
        let mut python = Command::new(format!("{clean}/bin/python"));
        python.arg("-I").args(["-W", "error", script]).args(arguments).current_dir(dir.path("."));
        run(&mut python)
    };
    let check = format!("{ROOT}/clients/python/tests/check.py");
    let said = python(&check, &[env!("CARGO_BIN_EXE_freeblock")]).unwrap();
    assert!(said.ends_with("all checks passed\n"), "{said}");

    let mut cluster = Command::new(format!("{clean}/bin/python"));
    cluster.args(["-I", &format!("{ROOT}/clients/python/tests/cluster.py")]);
    let said = run(&mut cluster).unwrap();
    assert!(said.contains("all checks passed\n"), "{said}");

    // A PostgreSQL of its own; the script names what it misses.
    let mut mine = Command::new(format!("{clean}/bin/python"));
    mine.args(["-I", "-W", "error", &format!("{ROOT}/clients/python/tests/mine.py")]);
    let output = mine.arg(env!("CARGO_BIN_EXE_freeblock")).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(77) => {
            testing::missing(said.lines().last().unwrap_or("skipped").trim_start_matches("skipped: "))
        }
        Some(0) => assert!(said.ends_with("all checks passed\n"), "{said}"),
        _ => panic!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }

    let recipes = recipes(&std::fs::read_to_string(format!("{ROOT}/docs/PYTHON.md")).unwrap());
    assert!(recipes.len() >= 5, "docs/PYTHON.md has {} recipes", recipes.len());
    for (n, recipe) in recipes.iter().enumerate() {
        let script = dir.file(&format!("recipe-{}.py", n + 1), recipe);
        let said = python(&script, &[]).unwrap();
        assert!(!said.trim().is_empty(), "recipe {} prints nothing", n + 1);
    }

    // The stubs are those of the native part, and the Python part is typed throughout.
    // mypy gets the package alone: beside it, mypy would check the packages of the cluster as well.
    let packages = run(Command::new(format!("{clean}/bin/python"))
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'), end='')"]))
    .unwrap();
    let alone = dir.path("alone");
    std::fs::create_dir(&alone).unwrap();
    run(Command::new("cp").arg("-r").arg(format!("{packages}/freeblock")).arg(&alone)).unwrap();
    let types = |arguments: &[&str]| {
        let mut mypy = Command::new(tools.join("bin/python"));
        mypy.args(arguments).current_dir(&alone).env("MYPY_CACHE_DIR", dir.path("mypy"));
        run(&mut mypy).unwrap();
    };
    types(&["-m", "mypy", "--strict", "--follow-imports", "silent", "-p", "freeblock"]);
    types(&["-m", "mypy.stubtest", "--ignore-missing-stub", "freeblock._native"]);
}
