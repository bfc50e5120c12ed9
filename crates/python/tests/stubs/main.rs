//! Compares the stub of the native part with the part's source, without an interpreter.

const SOURCES: [&str; 6] = [
    include_str!("../../src/core.rs"),
    include_str!("../../src/foreign.rs"),
    include_str!("../../src/lib.rs"),
    include_str!("../../src/run.rs"),
    include_str!("../../src/simulated.rs"),
    include_str!("../../src/table.rs"),
];

const STUB: &str = include_str!("../../../../clients/python/src/freeblock/_native.pyi");

/// Returns the names behind a word at the start of a line, in order and each once.
fn names<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let after = text.lines().filter_map(|line| line.trim_start().strip_prefix(word));
    let mut names: Vec<&str> = after
        .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the names that the module exports.
fn exported() -> Vec<&'static str> {
    let uses = SOURCES[2].split("#[pymodule_export]").skip(1).filter_map(|part| part.split(';').next());
    let listed = uses.flat_map(|part| part.split("::").last()).flat_map(|list| list.split(','));
    let mut names: Vec<&str> = listed.map(|name| name.trim().trim_matches(['{', '}']).trim()).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_stub_has_every_class_and_function_of_the_module() {
    let mut stub = [names(STUB, "class "), top_level_functions()].concat();
    stub.sort_unstable();
    assert_eq!(stub, exported());
}

fn top_level_functions() -> Vec<&'static str> {
    let lines = STUB.lines().filter_map(|line| line.strip_prefix("def "));
    lines.filter_map(|rest| rest.split('(').next()).collect()
}

#[test]
fn the_stub_has_every_method_of_the_module() {
    let methods = names(STUB, "def ");
    for source in SOURCES {
        for block in source.split("#[pymethods]").skip(1) {
            let block = block.split("\n}\n").next().unwrap_or_default();
            for method in names(block, "fn ") {
                let hidden = ["__repr__", "__reduce__", "__match_args__", "new"].contains(&method);
                assert!(hidden || methods.contains(&method), "{method} is not in _native.pyi");
            }
        }
    }
}
