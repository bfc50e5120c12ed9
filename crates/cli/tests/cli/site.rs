//! The demo as WebAssembly (`make site`): its numbers against the command's, and its page in a browser.

use crate::browser::Browser;
use crate::page::{at_all_widths, directory};
use crate::support::run;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Bounds the compressed size of the whole page in bytes.
const BYTES_MAX: u64 = 2_000_000;

/// Makes the site unless it is up to date; returns its directory and the output of `make`. `None` without Rust for WebAssembly.
fn site() -> Option<(PathBuf, String)> {
    if !testing::needs_program("make") {
        return None;
    }
    // The variables of a `make` around the test must not reach the build of the module.
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "site"])
        .current_dir(ROOT)
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
        make.env_remove(name);
    }
    let output = make.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if err.contains("cannot be had") {
        testing::missing("Rust for wasm32-unknown-unknown");
        return None;
    }
    assert!(output.status.success(), "{out}{err}");
    Some((Path::new(ROOT).join("docs/site"), out.into_owned()))
}

fn node(site: &Path, arguments: &[&str]) -> String {
    let output = Command::new("node").arg(site.join("node.js")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a value in which each number is a floating-point one, because JavaScript writes 1 for 1.0. Nothing is rounded: JSON
/// has all digits of these numbers, and no count has more than 53 bits.
fn fractions(of: &Value) -> Value {
    match of {
        Value::Number(number) => number.as_f64().into(),
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), fractions(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn in_webassembly_the_same_seed_gives_the_numbers_of_the_command_to_the_last_digit() {
    if !testing::needs_program("node") {
        return;
    }
    let Some((site, _)) = site() else { return };
    for set in [
        json!({}),
        json!({ "load": "random", "tasks": 7, "policy": "sptf", "seed": "18446744073709551615", "drive": "seagate-cheetah-9lp" }),
        json!({ "policy": "c-look", "tasks": 20, "drive": "nearline-20tb", "seed": "3" }),
    ] {
        let numbers: Value =
            serde_json::from_str(&node(&site, &["numbers", &set.to_string(), "1000"])).unwrap();
        let command = numbers["command"].as_str().unwrap();
        let reported = run(command.strip_prefix("freeblock ").unwrap()).json();
        for part in ["foreground", "head_time", "background", "simulated_s"] {
            assert_eq!(
                fractions(&numbers["results"][part]),
                fractions(&reported[part]),
                "{part} of {command}"
            );
        }
        assert!(reported["background"]["blocks"].as_u64().unwrap() > 0);
    }
    let other = json!({ "seed": "43" }).to_string();
    assert_ne!(node(&site, &["numbers", &other, "1000"]), node(&site, &["numbers", "{}", "1000"]));
}

#[test]
fn the_page_of_the_site_is_small() {
    let Some((_, said)) = site() else { return };
    let bytes = said.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap();
    assert!((10_000..BYTES_MAX).contains(&bytes), "{said}");
}

#[test]
fn in_a_browser_the_site_simulates_by_itself_what_is_chosen() {
    let directory = directory("page-site");
    let Some(mut browser) = Browser::start(&directory) else { return };
    let Some((site, _)) = site() else { return };
    browser.size(1000, 900);
    browser.open(&format!("file://{}", site.canonicalize().unwrap().join("index.html").display()));
    browser.until("document.querySelector('#state').textContent === 'Simulated in this browser.'");
    browser.until("document.querySelector('#speed-is').textContent === 'real time'");
    // Goes from the speed to the other controls by the keyboard.
    browser.click("document.querySelector('#speed')");
    browser.value("document.querySelector('#speed').focus()");
    browser.until("document.activeElement.id === 'speed'");
    (0..6).for_each(|_| browser.key("ArrowRight", 39));
    let same = r"(/([\d,]+) of ([\d,]+) completion times are identical/.exec(document.querySelector('.arms').textContent))";
    browser.until(&format!("{same}?.[1].length > 4 && {same}[1] === {same}[2]"));
    browser.until("[...document.querySelectorAll('.ring')].some(r => r.getAttribute('stroke-opacity') > 0)");
    browser.until("document.querySelectorAll('.time svg .c1').length > 1");
    browser.until("document.querySelector('#numbers-command').textContent.includes('--policy fcfs')");
    at_all_widths(&mut browser, "site");
    // Another policy and another load begin other runs.
    for (id, keys, about) in [("policy", 5, "policy sptf"), ("load", 1, "10 requests outstanding")] {
        browser.value(&format!("document.querySelector('#{id}').focus()"));
        (0..keys).for_each(|_| browser.key("ArrowDown", 40));
        browser.until(&format!("document.querySelector('#demo-about').textContent.includes('{about}')"));
    }
    browser.until("document.querySelector('#numbers-command').textContent.includes('--workload random --mpl 10 --policy sptf')");
    let command = browser.value("document.querySelector('#numbers-command').textContent");
    let reported = run(command.as_str().unwrap().strip_prefix("freeblock ").unwrap()).json();
    let shown = "Object.fromEntries([...document.querySelectorAll('#numbers tbody tr')].map(r => [r.cells[0].textContent, JSON.parse(r.cells[1].textContent)]))";
    let shown = browser.value(shown);
    for name in [
        "foreground.mean_response_ms",
        "foreground.reads.p99_ms",
        "head_time.rotation",
        "background.mb_per_s",
    ] {
        let reported = reported.pointer(&format!("/{}", name.replace('.', "/"))).unwrap();
        assert_eq!(shown[name].as_f64(), reported.as_f64(), "{name} after {command}");
    }
    assert_eq!(browser.complaints, [""; 0]);
    drop(browser);
    let _ = std::fs::remove_dir_all(directory);
}
