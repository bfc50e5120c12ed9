//! Dev hunt.
#![allow(clippy::print_stdout, clippy::unwrap_used)]
use freeblock_torture::*;
fn main() {
    let mut a = std::env::args().skip(1);
    let first = a.next().unwrap();
    if first == "replay" {
        let text = std::fs::read_to_string(a.next().unwrap()).unwrap();
        let s = Scenario::parse(&text).unwrap();
        match run(&s) {
            Ok(o) => println!("{o:?}"),
            Err(f) => println!("{f}"),
        }
        return;
    }
    let seed: u64 = first.parse().unwrap();
    let n: u64 = a.next().unwrap().parse().unwrap();
    let show: usize = a.next().map_or(1, |s| s.parse().unwrap());
    std::panic::set_hook(Box::new(|_| {}));
    let mut t = Torture::new(seed);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..n {
        if let Err(f) = t.next_history() {
            let e = seen.entry(f.failure.check).or_insert_with(Vec::new);
            e.push(f);
        }
    }
    println!("{} histories {:?}", t.histories(), t.counts());
    for (check, found) in &seen {
        println!("== {} x{}", check.name(), found.len());
        // The ones with the shortest prefix first.
        let mut found: Vec<_> = found.iter().collect();
        found.sort_by_key(|f| f.failure.step);
        for f in found.iter().take(show) {
            let (s, fail) = shrink(&f.scenario, &f.failure, 400);
            println!(
                "seed {} history {} at step {}: {}\n{fail}\n{s}",
                f.seed, f.history, f.failure.step, f.failure
            );
        }
    }
}
