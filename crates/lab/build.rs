//! Collects the experiments: every file in `src/experiments` is one, so that adding a figure means adding a file.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/experiments");
    println!("cargo::rerun-if-changed={}", directory.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    files.retain(|f| f.extension().is_some_and(|e| e == "rs"));
    files.sort_by_cached_key(|file| in_order(&file.display().to_string()));
    let (mut modules, mut list) = (String::new(), String::new());
    for file in &files {
        let name =
            file.file_stem().and_then(|s| s.to_str()).ok_or("an experiment's file name is not UTF-8")?;
        writeln!(modules, "#[path = {:?}]\nmod {name};", file.display().to_string())?;
        writeln!(list, "    {name}::EXPERIMENT,")?;
    }
    let text = format!(
        "{modules}\n/// Every experiment, by file name, numbers in order.\npub static ALL: &[Experiment] = &[\n{list}];\n"
    );
    fs::write(Path::new(&env::var("OUT_DIR")?).join("experiments.rs"), text)?;
    Ok(())
}

/// Returns a name with its numbers padded, so that figure 2 comes before figure 10.
fn in_order(name: &str) -> String {
    let mut key = String::new();
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            key.push_str(&format!("{digits:0>8}"));
            digits.clear();
        }
        key.push(c);
    }
    key
}
