//! scratch: hunt HOST SEED SECONDS [SKIP] | replay FILE...
#![allow(
    clippy::all,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout
)]
use freeblock_torture::{Host, Scenario, Torture, run, shrink};
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "replay" {
        for file in &args[1..] {
            let s = Scenario::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
            let t = std::time::Instant::now();
            match run(&s) {
                Ok(o) => println!("{file}: held {:016x} {:?}", o.hash, t.elapsed()),
                Err(f) => println!("{file}: BROKEN {f} {:?}", t.elapsed()),
            }
        }
        return;
    }
    if args[0] == "shrink" {
        let s = Scenario::parse(&std::fs::read_to_string(&args[1]).unwrap()).unwrap();
        match run(&s) {
            Ok(_) => println!("held"),
            Err(f) => {
                let (s, f) = shrink(&s, &f, 2000);
                println!("# {f}\n{s}");
            }
        }
        return;
    }
    let host = if args[0] == "all" { None } else { Some(args[0].parse::<Host>().unwrap()) };
    let seed: u64 = args[1].parse().unwrap();
    let seconds: u64 = args[2].parse().unwrap();
    let mut skip: u64 = args.get(3).map_or(0, |s| s.parse().unwrap());
    let begun = std::time::Instant::now();
    let mut n = 0;
    let mut steps = 0;
    let mut histories = 0;
    loop {
        let mut torture = Torture::new(seed);
        if let Some(host) = host {
            torture = torture.on(host);
        }
        torture.skip(skip);
        let e = torture.go_on(1, |_| begun.elapsed().as_secs() < seconds);
        steps += torture.counts().steps;
        histories += torture.histories() - skip;
        skip = torture.histories();
        if let Err(found) = e {
            n += 1;
            println!("== history {} {}", found.history, found.failure);
            let name = format!("/tmp/fb-torture/{}-{}-{}.history", args[0], seed, found.history);
            std::fs::create_dir_all("/tmp/fb-torture").unwrap();
            std::fs::write(&name, format!("# {}\n{}", found.failure, found.scenario)).unwrap();
        } else {
            break;
        }
    }
    println!(
        "{} seed {seed}: {histories} histories, up to {skip}, {steps} steps, {:?}, {n} found",
        args[0],
        begun.elapsed()
    );
}
