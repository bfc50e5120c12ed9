//! The crates that are to be published, as packages.

use crate::examples::{PUBLISHED, package_name};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The fields that a registry shows and searches. There is no `repository`, as long as the project has no address.
const METADATA: [&str; 6] = ["description", "license", "keywords", "categories", "rust_version", "edition"];

fn cargo(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO"));
    // Cargo must not use the job server of a `make` that runs this test.
    command.env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS");
    command.args(arguments).current_dir(root).output().unwrap()
}

/// Returns the packages of the workspace.
fn packages() -> Vec<Value> {
    let output = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns whether a package may go to a registry: `publish = false` is an empty list here.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

#[test]
fn only_the_crates_that_are_meant_for_it_can_be_published() {
    let packages = packages();
    let mut found: Vec<_> =
        packages.iter().filter(|p| is_published(p)).map(|p| p["name"].as_str().unwrap()).collect();
    found.sort_unstable();
    let mut meant = PUBLISHED.map(package_name);
    meant.sort_unstable();
    assert_eq!(found, meant, "give the others `publish.workspace = true`");
}

#[test]
fn published_crates_have_what_a_registry_shows_and_depend_on_versions() {
    for package in packages().iter().filter(|package| is_published(package)) {
        let name = package["name"].as_str().unwrap();
        for field in METADATA {
            let value = &package[field];
            let is_empty =
                value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty);
            assert!(!value.is_null() && !is_empty, "{name} has no {field}");
        }
        assert!(package["keywords"].as_array().unwrap().len() <= 5, "{name}: a registry takes five keywords");
        assert!(package["metadata"]["docs"]["rs"].is_object(), "{name} has no [package.metadata.docs.rs]");
        for dependency in package["dependencies"].as_array().unwrap() {
            // Dependencies for tests alone are left out of the package when they have no version.
            if dependency["kind"] != "dev" {
                assert_ne!(dependency["req"], "*", "{name} depends on any version of {}", dependency["name"]);
            }
        }
    }
}

#[test]
fn published_crates_can_be_packaged_with_their_licences() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    let names = PUBLISHED.map(package_name);
    // Each package finds its dependencies among the others, although no registry has them. Nothing is compiled.
    let mut arguments =
        vec!["package", "--offline", "--allow-dirty", "--no-verify", "--quiet", "--target-dir"];
    arguments.push(target.to_str().unwrap());
    arguments.extend(names.iter().flat_map(|name| ["--package", name]));
    let output = cargo(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in &names {
        let archive = target.join("package").join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        assert!(archive.is_file(), "{archive:?}");
        let output = cargo(&["package", "--offline", "--allow-dirty", "--list", "--package", name]);
        let list = String::from_utf8(output.stdout).unwrap();
        for file in ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "src/lib.rs"] {
            assert!(list.lines().any(|line| line == file), "{name} has no {file}: {list}");
        }
    }
}
